//! The socket calls: arguments, descriptors, names and message headers, and which family's functions serve a descriptor.
//!
//! A family gives functions over `Ctx` and the open file: `net::inet`, `net::netlink`, `unix`. What a family sends and receives is in
//! the form of `net::message`, so the guest's structures are read and written here alone.

use super::poll::timespec_at;
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::net::address::{self, RawAddress};
use crate::net::message::{Incoming, Outgoing, UserMessage};
use crate::net::{self, inet, netlink, options};
use crate::outcome::{Outcome, SysResult};
use crate::unix::connect as unix;
use crate::user_io::UserBuffers;
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::fs::{IOV_MAX, O_PATH};
use linux_abi::socket::*;
use linux_abi::sysinfo::RLIMIT_NOFILE;
use linux_abi::time::Timespec;

/// The families that the kernel's tables have room for (AF_MAX).
const FAMILIES_MAX: i32 = 46;
/// Types of sockets (SOCK_MAX).
const TYPES_MAX: i32 = 11;
/// What sendmsg and recvmsg keep for the kernel's own use: refused or ignored when a program sets them.
const MSG_INTERNAL: u32 = 0x8000_0000;

/// Who serves a descriptor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Inet,
    Netlink,
    Unix,
}

/// The socket behind a descriptor. EBADF, ENOTSOCK.
fn socket_of(ctx: &Ctx<'_>, fd: u64) -> Result<(FileId, Family), Errno> {
    let file = ctx.file(fd)?;
    match ctx.kernel.files[file].kind {
        FileKind::Inet(_) => Ok((file, Family::Inet)),
        FileKind::Netlink(_) => Ok((file, Family::Netlink)),
        FileKind::Unix(_) => Ok((file, Family::Unix)),
        FileKind::Name(_) => Err(Errno::EBADF),
        _ => Err(Errno::ENOTSOCK),
    }
}

/// The type and flags of socket(2)'s second argument. EINVAL.
fn split_type(kind: i32) -> Result<(i32, bool, bool), Errno> {
    let (flags, kind) = (kind & !SOCK_TYPE_MASK, kind & SOCK_TYPE_MASK);
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 || kind >= TYPES_MAX {
        return Err(Errno::EINVAL);
    }
    Ok((kind, flags & SOCK_NONBLOCK != 0, flags & SOCK_CLOEXEC != 0))
}

/// socket(2).
pub fn socket(ctx: &mut Ctx<'_>, [family, kind, protocol, ..]: [u64; 6]) -> SysResult {
    let (family, protocol) = (family as i32, protocol as i32);
    let (kind, nonblocking, cloexec) = split_type(kind as i32)?;
    if !(0..FAMILIES_MAX).contains(&family) {
        return Err(Errno::EAFNOSUPPORT.into());
    }
    let file = match family {
        AF_INET => inet::socket(ctx, tcpip::Family::V4, kind, protocol, nonblocking)?,
        AF_INET6 => inet::socket(ctx, tcpip::Family::V6, kind, protocol, nonblocking)?,
        AF_NETLINK => netlink::socket(ctx, kind, protocol, nonblocking)?,
        AF_UNIX => unix::socket(ctx, kind, protocol, nonblocking)?,
        // Frames are not simulated; it answers as to a program without privileges.
        AF_PACKET => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EAFNOSUPPORT.into()),
    };
    Ok(ctx.install(file, cloexec)?)
}

fn read_name(ctx: &Ctx<'_>, address: u64, len: u64) -> Result<RawAddress, Outcome> {
    address::read(&ctx.process.memory, address, len as u32)
}

/// socketpair(2).
pub fn socketpair(ctx: &mut Ctx<'_>, [family, kind, protocol, out, ..]: [u64; 6]) -> SysResult {
    let (family, flags) = (family as i32, kind as i32 & !SOCK_TYPE_MASK);
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    // The descriptors are taken and told before anything is known of the sockets, and not taken back from where they were told.
    let numbers = ctx.fds().next_two(ctx.process.limits.soft(RLIMIT_NOFILE))?;
    ctx.process.memory.write_value(out, &numbers.map(|fd| fd as i32))?;
    if !(0..FAMILIES_MAX).contains(&family) {
        return Err(Errno::EAFNOSUPPORT.into());
    }
    let (kind, nonblocking, cloexec) = split_type(kind as i32)?;
    let files = match family {
        AF_UNIX => unix::pair(ctx, kind, protocol as i32, nonblocking)?,
        AF_INET | AF_INET6 => {
            let of = if family == AF_INET { tcpip::Family::V4 } else { tcpip::Family::V6 };
            inet::check_type(of, kind, protocol as i32)?;
            return Err(Errno::EOPNOTSUPP.into());
        }
        AF_NETLINK => return Err(Errno::EOPNOTSUPP.into()),
        _ => return Err(Errno::EAFNOSUPPORT.into()),
    };
    super::descriptors::install_pair(ctx, files, cloexec, out)
}

/// bind(2).
pub fn bind(ctx: &mut Ctx<'_>, [fd, name, len, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    let name = read_name(ctx, name, len)?;
    match family {
        Family::Inet => inet::bind(ctx, file, &name),
        Family::Netlink => netlink::bind(ctx, file, &name),
        Family::Unix => crate::unix::names::bind(ctx, file, &name),
    }
}

/// listen(2).
pub fn listen(ctx: &mut Ctx<'_>, [fd, backlog, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    match family {
        Family::Inet => inet::listen(ctx, file, backlog as i32),
        Family::Unix => unix::listen(ctx, file, backlog as i32),
        Family::Netlink => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// connect(2).
pub fn connect(ctx: &mut Ctx<'_>, [fd, name, len, ..]: [u64; 6]) -> SysResult {
    let file = ctx.file(fd)?;
    if ctx.kernel.files[file].status & O_PATH != 0 {
        return Err(Errno::EBADF.into());
    }
    // Unlike in bind(2), the name comes before what the file is.
    let name = read_name(ctx, name, len)?;
    let (file, family) = socket_of(ctx, fd)?;
    match family {
        Family::Inet => inet::connect(ctx, file, &name),
        Family::Netlink => netlink::connect(ctx, file, &name),
        Family::Unix => unix::connect(ctx, file, &name),
    }
}

/// accept(2).
pub fn accept(ctx: &mut Ctx<'_>, [fd, name, len, ..]: [u64; 6]) -> SysResult {
    accept4(ctx, [fd, name, len, 0, 0, 0])
}

/// accept4(2).
pub fn accept4(ctx: &mut Ctx<'_>, [fd, name, len, flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as i32;
    if flags & !(SOCK_CLOEXEC | SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (file, family) = socket_of(ctx, fd)?;
    let (accepted, peer) = match family {
        Family::Inet => inet::accept(ctx, file, flags)?,
        Family::Unix => unix::accept(ctx, file, flags)?,
        Family::Netlink => return Err(Errno::EOPNOTSUPP.into()),
    };
    if name != 0
        && let Err(outcome) = address::write(&ctx.process.memory, name, len, &peer)
    {
        // As Linux: the connection is lost.
        let file = ctx.fds_mut().remove(accepted)?;
        ctx.kernel.release_file(file);
        return Err(outcome);
    }
    Ok(accepted)
}

/// shutdown(2).
pub fn shutdown(ctx: &mut Ctx<'_>, [fd, how, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    match family {
        Family::Inet => inet::shutdown(ctx, file, how as i32),
        Family::Unix => unix::shutdown(ctx, file, how as i32),
        Family::Netlink => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// getsockname(2).
pub fn getsockname(ctx: &mut Ctx<'_>, [fd, name, len, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    let local = match family {
        Family::Inet => inet::local_name(ctx, file)?,
        Family::Netlink => netlink::local_name(ctx, file)?,
        Family::Unix => unix::local_name(ctx, file)?,
    };
    address::write(&ctx.process.memory, name, len, &local)?;
    Ok(0)
}

/// getpeername(2).
pub fn getpeername(ctx: &mut Ctx<'_>, [fd, name, len, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    let peer = match family {
        Family::Inet => inet::peer_name(ctx, file)?,
        Family::Netlink => netlink::peer_name(ctx, file)?,
        Family::Unix => unix::peer_name(ctx, file)?,
    };
    address::write(&ctx.process.memory, name, len, &peer)?;
    Ok(0)
}

/// setsockopt(2).
pub fn setsockopt(ctx: &mut Ctx<'_>, [fd, level, option, value, len, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    let (level, option, len) = (level as i32, option as i32, len as i32);
    match family {
        Family::Inet => options::set(ctx, file, level, option, value, len),
        Family::Unix => crate::unix::options::set(ctx, file, level, option, value, len),
        Family::Netlink => options::netlink::set(ctx, file, level, option, value, len),
    }
}

/// getsockopt(2).
pub fn getsockopt(ctx: &mut Ctx<'_>, [fd, level, option, value, len, ..]: [u64; 6]) -> SysResult {
    let (file, family) = socket_of(ctx, fd)?;
    let (level, option) = (level as i32, option as i32);
    match family {
        Family::Inet => options::get(ctx, file, level, option, value, len),
        Family::Unix => crate::unix::options::get(ctx, file, level, option, value, len),
        Family::Netlink => options::netlink::get(ctx, file, level, option, value, len),
    }
}

/// send(2) is sendto(2) without a name.
pub fn sendto(ctx: &mut Ctx<'_>, [fd, buffer, len, flags, name, name_len]: [u64; 6]) -> SysResult {
    let (file, _) = socket_of(ctx, fd)?;
    let data = UserBuffers::single(buffer, len);
    if name != 0 && name_len as u32 == 0 && net::is_datagram(&ctx.kernel.files[file].kind) {
        // A name of no bytes is one that is too short; elsewhere it is none.
        return Err(Errno::EINVAL.into());
    }
    let name = if name == 0 { RawAddress::new() } else { read_name(ctx, name, name_len)? };
    net::send(ctx, file, &Outgoing { name: &name, data: &data, control: &[], flags: flags as u32 & !MSG_INTERNAL })
}

/// recv(2) is recvfrom(2) without a name.
pub fn recvfrom(ctx: &mut Ctx<'_>, [fd, buffer, len, flags, name, name_len]: [u64; 6]) -> SysResult {
    let (file, _) = socket_of(ctx, fd)?;
    let data = UserBuffers::single(buffer, len);
    let message = net::recv(ctx, file, &Incoming { data: &data, control_space: 0, flags: flags as u32 })?;
    if name != 0 {
        address::write(&ctx.process.memory, name, name_len, &message.name)?;
    }
    Ok(message.count as u64)
}

/// sendmsg(2).
pub fn sendmsg(ctx: &mut Ctx<'_>, [fd, header, flags, ..]: [u64; 6]) -> SysResult {
    let (file, _) = socket_of(ctx, fd)?;
    send_message(ctx, file, header, flags as u32)
}

fn send_message(ctx: &mut Ctx<'_>, file: FileId, header: u64, flags: u32) -> SysResult {
    let memory = &ctx.process.memory;
    let user = UserMessage::read(memory, header)?;
    let name = user.name(memory)?;
    let control = user.control(memory)?;
    net::send(ctx, file, &Outgoing { name: &name, data: &user.data, control: &control, flags: flags & !MSG_INTERNAL })
}

/// recvmsg(2).
pub fn recvmsg(ctx: &mut Ctx<'_>, [fd, header, flags, ..]: [u64; 6]) -> SysResult {
    let (file, _) = socket_of(ctx, fd)?;
    recv_message(ctx, file, header, flags as u32).map(|count| count as u64)
}

fn recv_message(ctx: &mut Ctx<'_>, file: FileId, header: u64, flags: u32) -> Result<usize, Outcome> {
    let user = UserMessage::read(&ctx.process.memory, header)?;
    let wanted = Incoming { data: &user.data, control_space: user.control_space(), flags };
    let mut message = net::recv(ctx, file, &wanted)?;
    message.flags |= flags & MSG_CMSG_CLOEXEC;
    user.write(&ctx.process.memory, header, &message)?;
    Ok(message.count)
}

/// How many messages earlier executions of `sendmmsg` or `recvmmsg` moved. The lower half of the progress is the family's.
fn messages_done(ctx: &Ctx<'_>) -> u64 {
    ctx.thread.call.progress >> 32
}

/// One message is done, `len` bytes long: notes that in its header and in the call's progress.
fn finish_message(ctx: &mut Ctx<'_>, entry: u64, len: usize) -> Result<(), Outcome> {
    let done = messages_done(ctx) + 1;
    ctx.thread.call.progress = done << 32;
    ctx.process.memory.write_value(entry + std::mem::offset_of!(Mmsghdr, msg_len) as u64, &(len as u32))?;
    Ok(())
}

/// What a call over several messages returns when one of them ended it: their number, if there are any.
fn finish_messages(ctx: &Ctx<'_>, outcome: Outcome) -> SysResult {
    match (messages_done(ctx), outcome) {
        (_, Outcome::Block) | (0, _) => Err(outcome),
        (done, _) => Ok(done),
    }
}

/// sendmmsg(2).
pub fn sendmmsg(ctx: &mut Ctx<'_>, [fd, vector, count, flags, ..]: [u64; 6]) -> SysResult {
    let (file, _) = socket_of(ctx, fd)?;
    let count = u64::from(count as u32).min(IOV_MAX as u64);
    while messages_done(ctx) < count {
        let entry = vector + messages_done(ctx) * size_of::<Mmsghdr>() as u64;
        let sent = send_message(ctx, file, entry, flags as u32);
        if let Err(outcome) = sent.and_then(|len| finish_message(ctx, entry, len as usize).map(|()| len)) {
            return finish_messages(ctx, outcome);
        }
    }
    Ok(messages_done(ctx))
}

/// The time that a message takes, as far as a timeout tells: what clocks of processor time count
/// for a call.
const MESSAGE_TIME: SimDuration = SimDuration::from_micros(1);

/// recvmmsg(2). As on Linux the timeout is looked at only when a message has come. What is left of
/// it then stands in the program's memory, and counts from then on.
pub fn recvmmsg(ctx: &mut Ctx<'_>, [fd, vector, count, flags, timeout_address, ..]: [u64; 6]) -> SysResult {
    let mut timeout = timespec_at(ctx, timeout_address)?;
    let (file, _) = socket_of(ctx, fd)?;
    let count = u64::from(count as u32).min(IOV_MAX as u64);
    let mut flags = flags as u32;
    while messages_done(ctx) < count {
        if messages_done(ctx) > 0 && flags & MSG_WAITFORONE != 0 {
            flags |= MSG_DONTWAIT;
        }
        let entry = vector + messages_done(ctx) * size_of::<Mmsghdr>() as u64;
        let received = recv_message(ctx, file, entry, flags & !MSG_WAITFORONE);
        if let Err(outcome) = received.and_then(|len| finish_message(ctx, entry, len)) {
            return finish_messages(ctx, outcome);
        }
        // The next message waits afresh.
        ctx.thread.call.deadline = None;
        if let Some(time) = &mut timeout {
            *time = time.saturating_sub(ctx.now - ctx.thread.call.started + MESSAGE_TIME);
            ctx.thread.call.started = ctx.now;
            ctx.process.memory.write_value(timeout_address, &Timespec::from(*time))?;
            if *time == SimDuration::ZERO {
                break;
            }
        }
    }
    Ok(messages_done(ctx))
}
