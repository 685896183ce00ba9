//! Sending and receiving on TCP sockets (net/ipv4/tcp.c, `tcp_sendmsg` and `tcp_recvmsg`).

use super::ancillary::check_socket_level;
use super::inet::Phase;
use super::message::{Incoming, Message, Outgoing, controls, push_control};
use super::{Blocking, CHUNK, Network, errno, progress, set_progress, stamp, wait};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::user_io::{ByteSink, ByteSource};
use crate::wait::{Events, Wake};
use base::SimTime;
use bytes::Bytes;
use linux_abi::socket::*;
use linux_abi::{Errno, Signal};
use tcpip::{OptionName, Readiness, SendFlags, SocketId, SocketOption, TcpState};

/// The control message of TCP_INQ.
const TCP_CM_INQ: i32 = TCP_INQ;

/// No more bytes will come.
const ENDED: Readiness = Readiness::ERROR.union(Readiness::READ_HANGUP).union(Readiness::HANGUP);

/// How a push ended.
pub(super) struct Pushed {
    pub count: usize,
    /// The send buffer has no room for the rest. Otherwise all was moved, or an error or a fault that the next call tells came between.
    pub full: bool,
}

/// Moves what fits into a stream's send buffer. An error only when nothing was moved; EAGAIN while the handshake is under way.
pub(super) fn push(
    net: &mut Network,
    now: SimTime,
    id: SocketId,
    source: &mut dyn ByteSource,
    how: SendFlags,
) -> Result<Pushed, Errno> {
    let mut count = 0;
    loop {
        let left = source.remaining();
        let want = left.min(CHUNK).min(net.stack.send_space(id));
        if want == 0 {
            // Nothing to move, or no room: this pushes what is there, and tells of errors.
            return match net.stack.send(now, id, Bytes::new(), how) {
                Ok(_) => Ok(Pushed { count, full: left > 0 }),
                Err(_) if count > 0 => Ok(Pushed { count, full: false }),
                Err(error) => Err(errno(error)),
            };
        }
        let chunk = net.chunk(source, want);
        let got = chunk.len();
        if got < want {
            // A piece that cannot be read as a whole is not sent (`tcp_sendmsg_locked`). What is wrong with the connection is found before the bytes are fetched.
            let state = if count > 0 { Ok(0) } else { net.stack.send(now, id, Bytes::new(), how) };
            return match state {
                Err(error) => Err(errno(error)),
                Ok(_) if count > 0 => Ok(Pushed { count, full: false }),
                Ok(_) => Err(Errno::EFAULT),
            };
        }
        let mut part = how;
        part.set(SendFlags::CONTINUED, count > 0);
        part.set(SendFlags::RESUMED, count == 0 && how.contains(SendFlags::RESUMED));
        part.set(SendFlags::CONTINUES, want < left);
        match net.stack.send(now, id, chunk, part) {
            Ok(sent) => count += sent,
            Err(_) if count > 0 => return Ok(Pushed { count, full: false }),
            Err(error) => return Err(errno(error)),
        }
        if source.remaining() == 0 {
            return Ok(Pushed { count, full: false });
        }
    }
}

/// send(2) and its relatives on a stream; the destination is ignored, as on Linux.
pub(super) fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    // Urgent data, and data on a SYN, are not simulated.
    if message.flags & (MSG_OOB | MSG_FASTOPEN) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let socket = ctx.inet(file)?;
    let (id, timeout) = (socket.id, socket.send_timeout);
    if !message.control.is_empty() {
        let state = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.state;
        if matches!(state, TcpState::Established | TcpState::CloseWait) {
            check_control(ctx, message.control)?;
        }
    }
    let total = message.data.total();
    loop {
        let before = progress(ctx);
        if before > 0 && ctx.kernel.net.stack.readiness(id).contains(Readiness::ERROR) {
            // The error belongs to the next call.
            return Ok(before as u64);
        }
        let mut source = message.data.source(&ctx.process.memory);
        source.skip(before);
        let mut how = SendFlags::empty();
        how.set(SendFlags::MORE, message.flags & MSG_MORE != 0);
        how.set(SendFlags::RECORD, message.flags & MSG_EOR != 0);
        how.set(SendFlags::RESUMED, before > 0);
        let pushed = match push(&mut ctx.kernel.net, ctx.now, id, &mut source, how) {
            Ok(pushed) => pushed,
            Err(Errno::EAGAIN) => Pushed { count: 0, full: true },
            Err(_) if before > 0 => return Ok(before as u64),
            Err(error) => {
                if error == Errno::EPIPE && message.flags & MSG_NOSIGNAL == 0 {
                    ctx.raise(Signal::SIGPIPE);
                }
                return Err(error.into());
            }
        };
        let done = before + pushed.count;
        set_progress(ctx, done);
        let moved = ctx.kernel.settle_sockets();
        if done == total || !pushed.full {
            return Ok(done as u64);
        }
        let room = moved && ctx.kernel.net.stack.send_space(id) > 0;
        if !room {
            let blocking = ctx.blocking(file, message.flags, timeout);
            return wait(ctx, file, Events::WRITABLE, blocking, done);
        }
    }
}

/// What may stand beside the bytes of a stream (`sock_cmsg_send`). EINVAL, EPERM.
fn check_control(ctx: &Ctx<'_>, control: &[u8]) -> Result<(), Errno> {
    for entry in controls(control) {
        let (level, kind, data) = entry?;
        if level == SOL_SOCKET {
            check_socket_level(ctx.credentials(), kind, data)?;
        }
    }
    Ok(())
}

/// recv(2) and its relatives on a stream.
pub(super) fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let flags = wanted.flags;
    if flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN.into());
    }
    if flags & MSG_OOB != 0 {
        // No urgent data ever waits (`tcp_recv_urg`).
        return Err(Errno::EINVAL.into());
    }
    let socket = ctx.inet(file)?;
    let (id, timeout, tells_inq) = (socket.id, socket.recv_timeout, socket.kept.get(SOL_TCP, TCP_INQ) == Some(1));
    let len = wanted.data.total();
    let target = recv_target(ctx, id, flags, len)?;
    let count = recv_at_least(ctx, file, wanted, id, target, ctx.blocking(file, flags, timeout))?;
    let mut message = Message { count, ..Message::default() };
    if count > 0 && stamp::is_wanted(&ctx.inet(file)?.kept) {
        // Segments are joined as they come, and have the time of the last one (`tcp_try_coalesce`).
        let since = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.last_data_recv;
        let nanos = ctx.kernel.config.clock.unix_nanos(ctx.now) - since.as_nanos();
        stamp::tell(&ctx.inet(file)?.kept, nanos, wanted.control_space, &mut message);
    }
    if tells_inq {
        let stack = &mut ctx.kernel.net.stack;
        // Behind the last byte one more says that the end waits to be read (`tcp_inq_hint`).
        let inq = match stack.readable_bytes(id) as u32 {
            0 => u32::from(stack.has_ended(id)),
            waiting => waiting,
        };
        push_control(&mut message, wanted.control_space, SOL_TCP, TCP_CM_INQ, &inq.to_ne_bytes());
    }
    Ok(message)
}

/// How many bytes a receive waits for (`sock_rcvlowat`).
fn recv_target(ctx: &mut Ctx<'_>, id: SocketId, flags: u32, len: usize) -> Result<usize, Errno> {
    if flags & MSG_WAITALL != 0 {
        return Ok(len.max(1));
    }
    match ctx.kernel.net.stack.option(id, OptionName::RecvLowWater).map_err(errno)? {
        SocketOption::RecvLowWater(low) => Ok((low as usize).min(len).max(1)),
        _ => Ok(1),
    }
}

fn recv_at_least(
    ctx: &mut Ctx<'_>,
    file: FileId,
    wanted: &Incoming<'_>,
    id: SocketId,
    target: usize,
    blocking: Blocking,
) -> Result<usize, Outcome> {
    let peek = wanted.flags & MSG_PEEK != 0;
    loop {
        let before = if peek { 0 } else { progress(ctx) };
        if before > 0 && nothing_follows(ctx, id) {
            return Ok(before);
        }
        if was_dissolved(ctx, file) {
            return Err(Errno::EPIPE.into());
        }
        if wanted.data.total() == 0 && ctx.thread.wake != Wake::First {
            // Who wants no byte waits once, and does not look what for (`tcp_recvmsg_locked`).
            return Ok(0);
        }
        let result = recv_now(ctx, id, wanted, before, peek);
        let moved = ctx.kernel.settle_sockets();
        let done = match result {
            Ok((count, complete)) if count == 0 || !complete => return Ok(before + count),
            Ok((count, _)) => before + count,
            Err(Errno::EAGAIN) => before,
            Err(_) if before > 0 => return Ok(before),
            Err(error) => return Err(error.into()),
        };
        if !peek {
            set_progress(ctx, done);
        }
        if done >= target || peek && ctx.kernel.net.stack.readiness(id).intersects(ENDED) {
            return Ok(done);
        }
        if !moved {
            if done > 0 && nothing_follows(ctx, id) {
                return Ok(done);
            }
            return wait(ctx, file, Events::READABLE, blocking, done).map(|done| done as usize);
        }
    }
}

/// Whether somebody has dissolved the connection on which the call waits (`sk_wait_event`): who would wait for bytes learns that alone, and the
/// socket's error stays for the next call. Where there is no connection at first, nobody waits.
pub(crate) fn was_dissolved(ctx: &mut Ctx<'_>, file: FileId) -> bool {
    ctx.thread.wake != Wake::First
        && ctx.inet(file).is_ok_and(|socket| socket.is_stream && socket.phase == Phase::Unconnected)
}

/// Whether a stream has ended, or failed, behind bytes that were taken. The next call tells how.
fn nothing_follows(ctx: &mut Ctx<'_>, id: SocketId) -> bool {
    let stack = &mut ctx.kernel.net.stack;
    stack.readable_bytes(id) == 0 && stack.readiness(id).intersects(ENDED)
}

/// Moves what is there into the guest's buffers, behind the first `before` bytes of them. How much, and whether the buffers took it
/// without a fault. EFAULT when they took nothing.
fn recv_now(
    ctx: &mut Ctx<'_>,
    id: SocketId,
    wanted: &Incoming<'_>,
    before: usize,
    peek: bool,
) -> Result<(usize, bool), Errno> {
    let mut sink = wanted.data.sink(&ctx.process.memory);
    sink.skip(before);
    let room = ByteSink::remaining(&sink);
    let discard = wanted.flags & MSG_TRUNC != 0;
    let mut faulted = false;
    let mut put = |bytes: &[u8]| {
        let taken = if discard { bytes.len() } else { sink.put(bytes) };
        let fits = taken == bytes.len();
        faulted |= !fits;
        // A piece that does not fit as a whole stays (`tcp_recvmsg_locked`).
        if fits { taken } else { 0 }
    };
    let count = ctx.kernel.net.stack.recv(ctx.now, id, room, peek, &mut put).map_err(errno)?;
    if faulted && count == 0 { Err(Errno::EFAULT) } else { Ok((count, !faulted)) }
}
