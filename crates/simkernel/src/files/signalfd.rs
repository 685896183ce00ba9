//! signalfd(2): signals that are read. A descriptor holds a set of signals and nothing else: what can be read follows from who reads, so
//! that a descriptor inherited over `fork` gives each process its own signals.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, SysResult};
use crate::signal::SigSet;
use crate::user_io::{ByteSink, UserBuffers};
use crate::wait::Events;
use linux_abi::signal::*;
use linux_abi::{Errno, Signal};
use zerocopy::{FromZeros, IntoBytes};

/// Bytes of one record.
const RECORD: usize = size_of::<SignalfdSiginfo>();

impl Kernel {
    /// A signal now waits for some process: whoever waits in a descriptor for it looks again.
    pub(crate) fn notify_signalfds(&mut self, signal: u32) {
        if self.signalfds.is_empty() {
            return;
        }
        let listens = |id: &FileId| matches!(self.files[*id].kind, FileKind::Signals(set) if set.contains(signal));
        let files: Vec<FileId> = self.signalfds.iter().copied().filter(listens).collect();
        for file in files {
            self.notify(file, Events::READABLE);
        }
    }

    /// What a descriptor of these signals is ready for, as the thread sees it whose signals are in `caller_pending`.
    pub(crate) fn poll_signals(&self, set: SigSet) -> Events {
        Events::IN.when(set.0 & self.caller_pending.0 != 0)
    }
}

impl Ctx<'_> {
    /// Makes the calling thread's signals those that descriptors of signals show.
    pub(crate) fn show_signals(&mut self) {
        if !self.kernel.signalfds.is_empty() {
            self.kernel.caller_pending = SigSet(self.thread.signals.pending.set.0 | self.process.pending.set.0);
        }
    }
}

/// read(2) of a descriptor of signals: as many records as there are signals and room. EINVAL without room for one.
pub(crate) fn read(ctx: &mut Ctx<'_>, id: FileId, set: SigSet, buffers: &UserBuffers) -> SysResult {
    let room = buffers.total() / RECORD;
    if room == 0 {
        return Err(Errno::EINVAL.into());
    }
    if ctx.ends_at_once() {
        // What came meanwhile ends the process, which has no time to read of it (`complete_signal`).
        return Err(ctx.block_on(id, Events::READABLE));
    }
    let others = SigSet(!set.0);
    let mut done = 0;
    while done < room {
        let Some(info) = ctx.take_signal(others, SigSet::EMPTY) else {
            break;
        };
        let mut sink = buffers.sink(&ctx.process.memory);
        crate::user_io::ByteSource::skip(&mut sink, done * RECORD);
        if sink.put(record(&info).as_bytes()) < RECORD {
            // As on Linux, the signal is lost.
            return if done == 0 { Err(Errno::EFAULT.into()) } else { Ok((done * RECORD) as u64) };
        }
        done += 1;
    }
    match done {
        0 if ctx.kernel.files[id].nonblocking() => Err(Errno::EAGAIN.into()),
        0 => Err(ctx.block_on(id, Events::READABLE)),
        _ => Ok((done * RECORD) as u64),
    }
}

/// A record says what the signal's kind of sender fills in, and zeros otherwise.
fn record(info: &Siginfo) -> SignalfdSiginfo {
    let mut record = SignalfdSiginfo::new_zeroed();
    record.ssi_signo = info.si_signo as u32;
    record.ssi_errno = info.si_errno;
    record.ssi_code = info.si_code;
    let sender = |record: &mut SignalfdSiginfo| {
        record.ssi_pid = info.si_pid() as u32;
        record.ssi_uid = info.si_uid();
    };
    match (Signal::from_raw(info.si_signo), info.si_code) {
        (_, SI_TIMER) => {
            record.ssi_tid = info.fields[0] as u32;
            record.ssi_overrun = (info.fields[0] >> 32) as u32;
            record.ssi_ptr = info.si_value();
            record.ssi_int = info.si_value() as i32;
        }
        (_, SI_USER | SI_TKILL) => sender(&mut record),
        (Some(Signal::SIGCHLD), code) if code > 0 && code <= CLD_CONTINUED => {
            sender(&mut record);
            record.ssi_status = info.si_status();
            record.ssi_utime = info.fields[2];
            record.ssi_stime = info.fields[3];
        }
        (Some(Signal::SIGSEGV | Signal::SIGBUS | Signal::SIGILL | Signal::SIGFPE | Signal::SIGTRAP), code)
            if code > 0 && code < SI_KERNEL =>
        {
            record.ssi_addr = info.si_addr();
        }
        (Some(Signal::SIGSYS), SYS_SECCOMP) => {
            record.ssi_call_addr = info.fields[0];
            record.ssi_syscall = info.fields[1] as i32;
            record.ssi_arch = (info.fields[1] >> 32) as u32;
        }
        (_, code) if is_poll(info.si_signo, code) => {
            record.ssi_band = info.fields[0] as u32;
            record.ssi_fd = info.fields[1] as i32;
        }
        (_, SI_KERNEL) => sender(&mut record),
        _ => {
            sender(&mut record);
            record.ssi_ptr = info.si_value();
            record.ssi_int = info.si_value() as i32;
        }
    }
    record
}

/// Whether a signal tells of readiness (O_ASYNC): by SIGIO or by the signal that F_SETSIG chose.
fn is_poll(signal: i32, code: i32) -> bool {
    (signal == Signal::SIGIO.raw() || signal >= Signal::SIGRTMIN) && (POLL_IN..=POLL_HUP).contains(&code)
}

/// signalfd4(2): a new descriptor, or another set for one that exists.
pub(crate) fn create(ctx: &mut Ctx<'_>, fd: u64, set: SigSet, status: u32, cloexec: bool) -> SysResult {
    if fd as i32 == -1 {
        let file = ctx.kernel.files.insert(super::OpenFile::new(FileKind::Signals(set), status));
        ctx.kernel.signalfds.insert(file);
        return Ok(ctx.install(file, cloexec)?);
    }
    let file = ctx.opened(fd)?;
    let FileKind::Signals(present) = &mut ctx.kernel.files[file].kind else {
        return Err(Outcome::Errno(Errno::EINVAL));
    };
    *present = set;
    ctx.kernel.notify(file, Events::READABLE);
    Ok(u64::from(fd as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_show_what_the_sender_filled_in() {
        let sent = record(&Siginfo::kill(Signal::SIGUSR1, SI_USER, 7, 8));
        assert_eq!((sent.ssi_signo, sent.ssi_pid, sent.ssi_uid, sent.ssi_ptr), (10, 7, 8, 0));
        let queued = record(&Siginfo::queue(Signal::SIGUSR2, 7, 8, 0x1_0000_0005));
        assert_eq!((queued.ssi_pid, queued.ssi_int, queued.ssi_ptr), (7, 5, 0x1_0000_0005));
        let child = record(&Siginfo::child(CLD_EXITED, 9, 0, 3, 11, 12));
        assert_eq!((child.ssi_pid, child.ssi_status, child.ssi_utime, child.ssi_stime), (9, 3, 11, 12));
        let timer = record(&Siginfo::timer(Signal::SIGALRM, 4, 2, 99));
        assert_eq!((timer.ssi_tid, timer.ssi_overrun, timer.ssi_int, timer.ssi_pid), (4, 2, 99, 0));
        let fault = record(&Siginfo::fault(Signal::SIGSEGV, SEGV_MAPERR, 0x1000));
        assert_eq!((fault.ssi_addr, fault.ssi_pid), (0x1000, 0));
        let ready = record(&Siginfo::poll(Signal::SIGIO, POLL_IN, 1, 5));
        assert_eq!((ready.ssi_band, ready.ssi_fd), (1, 5));
    }
}
