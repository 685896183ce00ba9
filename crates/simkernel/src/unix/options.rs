//! getsockopt and setsockopt of Unix sockets: all of them at the socket level.

use super::{Kind, Phase, UnixId, connect};
use crate::ctx::Ctx;
use crate::ids::{FileId, Pid};
use crate::net::filter::{self, SocketFilter};
use crate::net::options::common::{self, Holder, Request};
use crate::net::options::local::Setter;
use crate::net::options::value::{Answer, Place, number, read_len, read_number};
use crate::outcome::SysResult;
use crate::syscalls::open_pidfd;
use linux_abi::Errno;
use linux_abi::fs::O_RDWR;
use linux_abi::socket::*;
use zerocopy::IntoBytes;

/// setsockopt(2).
pub fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let who = ctx.thread.credentials.clone();
    if option == SO_BINDTODEVICE {
        let index = common::read_device(&ctx.process.memory, value, len)?;
        ctx.kernel.unix_socket_mut(id)?.settings.bind_to_device(&who, index)?;
        return Ok(0);
    }
    if option == SO_INQ && ctx.kernel.unix_socket(id)?.kind == Kind::Stream {
        return set_counting(ctx, value, len);
    }
    let number = read_number(&ctx.process.memory, value, len)?;
    if matches!(option, SO_ATTACH_FILTER | SO_DETACH_FILTER | SO_LOCK_FILTER) {
        return set_filter(ctx, id, option, number, (value, len));
    }
    let request = Request { option, number, value, len };
    let is_descriptor = ctx.file(number as u64).is_ok();
    let config = ctx.kernel.net.stack.config();
    let buffer_limits = (config.send_argument_max, config.recv_argument_max);
    let by = Setter { who: &who, memory: &ctx.process.memory, buffer_limits, is_descriptor };
    ctx.kernel.unix_socket_mut(id)?.settings.set(&by, Holder::Unix, request)?;
    Ok(0)
}

/// SO_INQ (`unix_setsockopt`): messages do not tell how many bytes wait behind them. EINVAL, EFAULT, ENOPROTOOPT.
fn set_counting(ctx: &Ctx<'_>, value: u64, len: usize) -> SysResult {
    if len != size_of::<i32>() {
        return Err(Errno::EINVAL.into());
    }
    match ctx.process.memory.read_value::<i32>(value)? {
        0 => Ok(0),
        1 => Err(Errno::ENOPROTOOPT.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// SO_ATTACH_FILTER, SO_DETACH_FILTER and SO_LOCK_FILTER. EPERM when it is locked, ENOENT, EINVAL.
fn set_filter(ctx: &mut Ctx<'_>, id: UnixId, option: i32, number: i32, (value, len): (u64, usize)) -> SysResult {
    let is_locked = ctx.kernel.unix_socket(id)?.settings.has(SOL_SOCKET, SO_LOCK_FILTER);
    if is_locked && !(option == SO_LOCK_FILTER && number != 0) {
        return Err(Errno::EPERM.into());
    }
    match option {
        SO_LOCK_FILTER => {
            ctx.kernel.unix_socket_mut(id)?.settings.kept.set(SOL_SOCKET, option, i32::from(number != 0));
        }
        SO_ATTACH_FILTER => {
            let filter = SocketFilter::read(&ctx.process.memory, value, len)?;
            ctx.kernel.unix_socket_mut(id)?.filter = Some(filter);
        }
        _ => {
            ctx.kernel.unix_socket_mut(id)?.filter.take().ok_or(Errno::ENOENT)?;
        }
    }
    Ok(0)
}

/// getsockopt(2).
pub fn get(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len_address: u64) -> SysResult {
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let len = read_len(&ctx.process.memory, len_address)?;
    let place = Place { value, len_address, len };
    let id = ctx.kernel.unix_id(file)?;
    let socket = ctx.kernel.unix_socket(id)?;
    match option {
        SO_ATTACH_FILTER => {
            let filter = socket.filter.clone();
            filter::get(&ctx.process.memory, filter.as_deref(), place)
        }
        SO_BINDTODEVICE => common::show_device(&ctx.process.memory, place, socket.settings.device()),
        SO_PEERPIDFD => {
            let fd = peer_process(ctx, file)?;
            place.store(&ctx.process.memory, &(fd as i32).to_ne_bytes())
        }
        SO_PEERGROUPS => {
            let groups = socket.peer_groups.clone().ok_or(Errno::ENODATA)?;
            let groups = groups.as_bytes();
            if len < groups.len() {
                place.store_len(&ctx.process.memory, groups.len())?;
                return Err(Errno::ERANGE.into());
            }
            place.store(&ctx.process.memory, groups)
        }
        SO_PEERNAME => {
            let name = connect::peer_name(ctx, file)?;
            place.store(&ctx.process.memory, &common::show_name(&name, len)?)
        }
        _ => {
            let answer = show(ctx, id, option, len)?;
            place.store(&ctx.process.memory, &answer)
        }
    }
}

fn show(ctx: &mut Ctx<'_>, id: UnixId, option: i32, len: usize) -> Result<Answer, Errno> {
    let socket = ctx.kernel.unix_socket_mut(id)?;
    Ok(match option {
        SO_TYPE => number(match socket.kind {
            Kind::Stream => SOCK_STREAM,
            Kind::Datagram => SOCK_DGRAM,
            Kind::SeqPacket => SOCK_SEQPACKET,
        }),
        SO_DOMAIN => number(AF_UNIX),
        SO_PROTOCOL => number(0),
        SO_ERROR => number(socket.error.take().map_or(0, Errno::raw)),
        SO_ACCEPTCONN => number(matches!(socket.phase, Phase::Listening { .. }).into()),
        SO_PEERCRED => Answer::from_slice(socket.peer_credentials.as_bytes()),
        // What waits to be read is the sender's.
        SO_MEMINFO => socket.settings.show_memory(0, socket.charged),
        SO_COOKIE => return common::show_cookie(id.serial, len),
        _ => return socket.settings.show(Holder::Unix, option, len),
    })
}

/// SO_PEERPIDFD: a new descriptor of the peer's process. ENODATA without a peer, ESRCH when it has gone.
fn peer_process(ctx: &mut Ctx<'_>, file: FileId) -> Result<u64, Errno> {
    let id = ctx.kernel.unix_id(file)?;
    let pid = ctx.kernel.unix_socket(id)?.peer_credentials.pid;
    if pid <= 0 {
        return Err(Errno::ENODATA);
    }
    open_pidfd_of(ctx, pid)
}

/// A descriptor of a process of this number, close-on-exec. ESRCH.
pub(super) fn open_pidfd_of(ctx: &mut Ctx<'_>, pid: i32) -> Result<u64, Errno> {
    let pid = Pid(pid as u32);
    if pid != ctx.process.pid && ctx.kernel.processes.get(pid.0).is_none() {
        return Err(Errno::ESRCH);
    }
    open_pidfd(ctx, pid, O_RDWR)
}
