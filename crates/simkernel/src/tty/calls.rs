//! Reading and writing open terminals.

use super::{Side, TtyFile};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::syscalls::finish_partial;
use crate::user_io::{ByteSink, ByteSource, UserBuffers};
use crate::wait::{Events, Wake};
use base::SimDuration;
use linux_abi::tty::{TIOCPKT_DATA, TOSTOP, VMIN, VTIME};
use linux_abi::{Errno, Signal};

/// Bytes that one step of a write moves.
const STEP: usize = 2048;
/// VTIME's unit.
const TENTH: SimDuration = SimDuration::from_millis(100);

/// read(2) of a terminal.
pub(crate) fn read(ctx: &mut Ctx<'_>, id: FileId, file: TtyFile, buffers: &UserBuffers) -> SysResult {
    if file.hung {
        let done = ctx.thread.call.progress;
        // Who waited for input learns that there is no master any more; who asks later, that the input has ended.
        let waited = ctx.thread.wake != Wake::First && ctx.kernel.terminals.of(file).master.is_none();
        return if waited && done == 0 { Err(Errno::EIO.into()) } else { Ok(done) };
    }
    let result = match file.side {
        Side::Master => read_master(ctx, id, file, buffers),
        Side::Slave => read_slave(ctx, id, file, buffers),
    };
    ctx.settle_terminal(file.tty);
    result
}

/// The master reads what the terminal shows; in packet mode behind a byte that says what it is.
fn read_master(ctx: &mut Ctx<'_>, id: FileId, file: TtyFile, buffers: &UserBuffers) -> SysResult {
    let mut sink = buffers.sink(&ctx.process.memory);
    let pair = ctx.kernel.terminals.of_mut(file);
    if buffers.total() == 0 {
        return Ok(0);
    }
    if pair.packet && pair.packet_status != 0 {
        let status = std::mem::take(&mut pair.packet_status);
        return if sink.put(&[status]) == 1 { Ok(1) } else { Err(Errno::EFAULT.into()) };
    }
    if !pair.outgoing.is_empty() {
        return Ok(pair.read_output(&mut sink)? as u64);
    }
    if pair.slave_closed {
        return Err(Errno::EIO.into());
    }
    if ctx.kernel.files[id].nonblocking() {
        return Err(Errno::EAGAIN.into());
    }
    Err(ctx.block_on(id, Events::READABLE))
}

/// The terminal's program reads: a line, or by VMIN and VTIME.
fn read_slave(ctx: &mut Ctx<'_>, id: FileId, file: TtyFile, buffers: &UserBuffers) -> SysResult {
    if ctx.thread.wake == Wake::First {
        ctx.check_foreground(file.tty, Signal::SIGTTIN)?;
    }
    if buffers.total() == 0 {
        return Ok(0);
    }
    let pair = ctx.kernel.terminals.of_mut(file);
    let canonical = pair.is_canonical();
    let before = ctx.thread.call.progress as usize;
    let mut sink = buffers.sink(&ctx.process.memory);
    sink.skip(before);
    if canonical && pair.complete > 0 {
        return finish_partial(
            before,
            pair.read_input(&mut sink).map(|done| (before + done) as u64).map_err(Outcome::from),
        );
    }
    let moved = if canonical { 0 } else { pair.read_input(&mut sink)? };
    let (least, time) = (usize::from(pair.termios.c_cc[VMIN]), u32::from(pair.termios.c_cc[VTIME]));
    let timeout = TENTH.saturating_mul(u64::from(time));
    let done = before + moved;
    ctx.thread.call.progress = done as u64;
    if done > 0 && (canonical || done >= least || done == buffers.total()) {
        return Ok(done as u64);
    }
    if !canonical && least == 0 {
        ctx.deadline_after(Some(timeout));
    } else if !canonical && time > 0 && moved > 0 {
        // The time runs from the last byte.
        ctx.thread.call.deadline = Some(ctx.now + timeout);
    }
    if !canonical && ctx.expired() {
        return Ok(done as u64);
    }
    if ctx.kernel.files[id].nonblocking() {
        return finish_partial(done, Err(Errno::EAGAIN.into()));
    }
    ctx.watch(id, Events::READABLE);
    let outcome = ctx.block(Restart::Sys);
    finish_partial(done, Err(outcome))
}

/// write(2) to a terminal.
pub(crate) fn write(ctx: &mut Ctx<'_>, id: FileId, file: TtyFile, buffers: &UserBuffers) -> SysResult {
    let stops = file.side == Side::Slave && ctx.kernel.terminals.of(file).local_flag(TOSTOP);
    if stops && !file.hung && ctx.thread.wake == Wake::First {
        ctx.check_foreground(file.tty, Signal::SIGTTOU)?;
    }
    let result = write_steps(ctx, id, file, buffers);
    ctx.settle_terminal(file.tty);
    result
}

fn write_steps(ctx: &mut Ctx<'_>, id: FileId, file: TtyFile, buffers: &UserBuffers) -> SysResult {
    loop {
        let done = ctx.thread.call.progress as usize;
        if file.hung {
            return finish_partial(done, Err(Errno::EIO.into()));
        }
        let mut source = buffers.source(&ctx.process.memory);
        source.skip(done);
        let mut step = [0; STEP];
        let want = (buffers.total() - done).min(STEP);
        if want == 0 {
            return Ok(done as u64);
        }
        let got = source.take(&mut step[..want]);
        // A step that cannot be had whole is not written at all (`iterate_tty_write`).
        if got < want {
            return finish_partial(done, Err(Errno::EFAULT.into()));
        }
        let pair = ctx.kernel.terminals.of_mut(file);
        let moved = match file.side {
            Side::Master => pair.write_input(&step[..got]),
            Side::Slave => {
                pair.show_echoes();
                pair.write_output(&step[..got])
            }
        };
        let done = done + moved;
        ctx.thread.call.progress = done as u64;
        if moved < got {
            pair.wants_room[usize::from(file.side == Side::Slave)] = true;
            if ctx.kernel.files[id].nonblocking() {
                return finish_partial(done, Err(Errno::EAGAIN.into()));
            }
            let outcome = ctx.block_on(id, Events::WRITABLE);
            return finish_partial(done, Err(outcome));
        }
    }
}

impl super::Pair {
    fn read_output(&mut self, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let mut bytes = Vec::new();
        if self.packet {
            bytes.push(TIOCPKT_DATA);
        }
        let was_full = self.output_room() == 0;
        let taken = self.outgoing.len().min(sink.remaining() - bytes.len());
        bytes.extend(self.outgoing.iter().take(taken));
        // What cannot be stored is lost (`iterate_tty_read`).
        let done = sink.put(&bytes);
        self.outgoing.drain(..taken);
        if was_full && self.output_room() > 0 {
            self.has_room(Side::Slave);
        }
        if done < bytes.len() && done == 0 { Err(Errno::EFAULT) } else { Ok(done) }
    }
}
