//! getsockopt and setsockopt of Unix sockets: all of them at the socket level.

use super::{Kind, Phase, UnixId};
use crate::ctx::Ctx;
use crate::ids::{FileId, Pid};
use crate::net::filter::{self, SocketFilter};
use crate::net::options::{demand_rights, read_timeout, write_answer};
use crate::net::stamp;
use crate::outcome::SysResult;
use crate::syscalls::open_pidfd;
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::fs::O_RDWR;
use linux_abi::socket::*;
use linux_abi::time::Timeval;
use smallvec::SmallVec;
use zerocopy::IntoBytes;

/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const MIN_SEND: usize = 4608;
const MIN_RECV: usize = 2304;

/// Flags that are kept and have no effect, but for SO_PASSCRED, SO_PASSPIDFD and those of times.
const FLAGS: [i32; 20] = [
    SO_PASSCRED,
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_KEEPALIVE,
    SO_BROADCAST,
    SO_OOBINLINE,
    SO_DEBUG,
    SO_DONTROUTE,
    SO_TIMESTAMP,
    SO_TIMESTAMPNS,
    SO_TIMESTAMP_NEW,
    SO_TIMESTAMPNS_NEW,
    SO_NO_CHECK,
    SO_PASSSEC,
    SO_RXQ_OVFL,
    SO_WIFI_STATUS,
    SO_NOFCS,
    SO_SELECT_ERR_QUEUE,
    SO_RCVMARK,
    SO_PASSPIDFD,
];

/// setsockopt(2).
pub fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    match option {
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.kernel.unix_socket_mut(id)?.recv_timeout = timeout;
            return Ok(0);
        }
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.kernel.unix_socket_mut(id)?.send_timeout = timeout;
            return Ok(0);
        }
        _ => {}
    }
    if len < 4 {
        return Err(Errno::EINVAL.into());
    }
    let number: i32 = ctx.process.memory.read_value(value)?;
    demand_rights(ctx.credentials(), option, number)?;
    let limits = ctx.kernel.net.stack.config();
    let most = if option == SO_SNDBUF { limits.send_argument_max } else { limits.recv_argument_max };
    let forced = matches!(option, SO_SNDBUFFORCE | SO_RCVBUFFORCE);
    let most = if forced { i32::MAX as u32 / 2 } else { most };
    let doubled = (number as u32).min(most) as usize * 2;
    if matches!(option, SO_ATTACH_FILTER | SO_DETACH_FILTER | SO_LOCK_FILTER) {
        return set_filter(ctx, id, option, number, (value, len));
    }
    let socket = ctx.kernel.unix_socket_mut(id)?;
    match option {
        SO_SNDBUF | SO_SNDBUFFORCE => socket.send_buffer = doubled.max(MIN_SEND),
        SO_RCVBUF | SO_RCVBUFFORCE => socket.recv_buffer = doubled.max(MIN_RECV),
        SO_BSDCOMPAT | SO_CNX_ADVICE => {}
        SO_LINGER if len < size_of::<Linger>() => return Err(Errno::EINVAL.into()),
        SO_REUSEPORT if number != 0 => return Err(Errno::EOPNOTSUPP.into()),
        SO_RCVLOWAT => {
            let low = if number < 0 { i32::MAX } else { number.max(1) };
            socket.kept.set(SOL_SOCKET, option, low);
        }
        SO_LINGER => {
            let time: i32 = ctx.process.memory.read_value(value + 4)?;
            let socket = ctx.kernel.unix_socket_mut(id)?;
            let before = socket.linger.l_linger;
            let l_linger = if number != 0 { time } else { before };
            socket.linger = Linger { l_onoff: i32::from(number != 0), l_linger };
        }
        SO_PRIORITY | SO_MARK => socket.kept.set(SOL_SOCKET, option, number),
        SO_TYPE | SO_ERROR | SO_PROTOCOL | SO_DOMAIN | SO_ACCEPTCONN | SO_PEERCRED | SO_PEERPIDFD | SO_PEERGROUPS => {
            return Err(Errno::ENOPROTOOPT.into());
        }
        flag if stamp::is_option(flag) => stamp::set(&mut socket.kept, flag, number != 0),
        flag if FLAGS.contains(&flag) => socket.kept.set(SOL_SOCKET, option, i32::from(number != 0)),
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}

/// SO_ATTACH_FILTER, SO_DETACH_FILTER and SO_LOCK_FILTER. EPERM when it is locked, ENOENT, EINVAL.
fn set_filter(ctx: &mut Ctx<'_>, id: UnixId, option: i32, number: i32, (value, len): (u64, usize)) -> SysResult {
    let is_locked = ctx.kernel.unix_socket(id)?.kept.get(SOL_SOCKET, SO_LOCK_FILTER) == Some(1);
    if is_locked && !(option == SO_LOCK_FILTER && number != 0) {
        return Err(Errno::EPERM.into());
    }
    match option {
        SO_LOCK_FILTER => {
            ctx.kernel.unix_socket_mut(id)?.kept.set(SOL_SOCKET, option, i32::from(number != 0));
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
    let len: i32 = ctx.process.memory.read_value(len_address)?;
    if level != SOL_SOCKET {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    if option == SO_ATTACH_FILTER {
        let id = ctx.kernel.unix_id(file)?;
        let filter = ctx.kernel.unix_socket(id)?.filter.clone();
        return filter::get(&ctx.process.memory, filter.as_deref(), value, len_address, len);
    }
    if option == SO_PEERPIDFD {
        let fd = peer_process(ctx, file)?;
        return write_answer(&ctx.process.memory, level, value, len_address, len, &(fd as i32).to_ne_bytes());
    }
    if option == SO_PEERGROUPS {
        let id = ctx.kernel.unix_id(file)?;
        let groups = ctx.kernel.unix_socket(id)?.peer_groups.clone().ok_or(Errno::ENODATA)?;
        let groups = groups.as_bytes();
        if len < groups.len() {
            ctx.process.memory.write_value(len_address, &(groups.len() as i32))?;
            return Err(Errno::ERANGE.into());
        }
        return write_answer(&ctx.process.memory, level, value, len_address, len, groups);
    }
    let answer = answer(ctx, file, option)?;
    write_answer(&ctx.process.memory, level, value, len_address, len, &answer)
}

fn answer(ctx: &mut Ctx<'_>, file: FileId, option: i32) -> Result<SmallVec<[u8; 16]>, Errno> {
    let id = ctx.kernel.unix_id(file)?;
    let socket = ctx.kernel.unix_socket_mut(id)?;
    let number = match option {
        SO_TYPE => match socket.kind {
            Kind::Stream => SOCK_STREAM,
            Kind::Datagram => SOCK_DGRAM,
            Kind::SeqPacket => SOCK_SEQPACKET,
        },
        SO_DOMAIN => AF_UNIX,
        SO_PROTOCOL => 0,
        SO_ERROR => socket.error.take().map_or(0, Errno::raw),
        SO_ACCEPTCONN => matches!(socket.phase, Phase::Listening { .. }).into(),
        SO_SNDBUF => socket.send_buffer as i32,
        SO_RCVBUF => socket.recv_buffer as i32,
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => return Ok(timeval(socket.recv_timeout)),
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => return Ok(timeval(socket.send_timeout)),
        SO_PEERCRED => return Ok(SmallVec::from_slice(socket.peer_credentials.as_bytes())),
        SO_LINGER => return Ok(SmallVec::from_slice(socket.linger.as_bytes())),
        SO_RCVLOWAT => socket.kept.get(SOL_SOCKET, SO_RCVLOWAT).unwrap_or(1),
        SO_SNDLOWAT => 1,
        SO_PRIORITY | SO_MARK | SO_LOCK_FILTER => socket.kept.get(SOL_SOCKET, option).unwrap_or(0),
        SO_BSDCOMPAT => 0,
        SO_COOKIE => return Ok(SmallVec::from_slice(&id.serial.to_ne_bytes())),
        flag if FLAGS.contains(&flag) => socket.kept.get(SOL_SOCKET, flag).unwrap_or(0),
        _ => return Err(Errno::ENOPROTOOPT),
    };
    Ok(SmallVec::from_slice(&number.to_ne_bytes()))
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

fn timeval(timeout: Option<SimDuration>) -> SmallVec<[u8; 16]> {
    let time = Timeval::from_nanos(timeout.map_or(0, SimDuration::as_nanos));
    SmallVec::from_slice(time.as_bytes())
}
