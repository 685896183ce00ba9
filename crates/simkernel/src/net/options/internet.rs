//! SOL_SOCKET of Internet sockets: what acts in the stack, and what it shows. The rest is kept by the
//! rules of `common`.

use super::common::{self, Holder, Request};
use super::table::{self, set_in_stack};
use super::value::{Answer, Place, number, read_number, read_timeout, timeval};
use super::without_effect;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::inet::{InetSocket, Kind};
use crate::net::listing::{cookie, memory_of};
use crate::net::{address, device, errno, filter};
use crate::outcome::{Outcome, SysResult};
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_ADMIN;
use linux_abi::socket::*;
use tcpip::{Family, OptionName, SocketId, SocketOption};
use zerocopy::IntoBytes;

fn holder(kind: Kind) -> Holder {
    match kind {
        Kind::Tcp => Holder::Tcp,
        Kind::Udp => Holder::Udp,
        Kind::Echo | Kind::Raw(_) => Holder::Raw,
    }
}

/// setsockopt(2).
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    let socket = ctx.inet(file)?;
    let (id, holder) = (socket.id, holder(socket.kind));
    if option == SO_BINDTODEVICE {
        let index = common::read_device(&ctx.process.memory, value, len)?;
        return Ok(device::bind(ctx, id, index)?);
    }
    let number = read_number(&ctx.process.memory, value, len)?;
    let request = Request { option, number, value, len };
    common::demand_rights(ctx.credentials(), option, number)?;
    let is_descriptor = ctx.file(number as u64).is_ok();
    if let Some(result) = common::set_nothing(ctx.credentials(), &ctx.process.memory, holder, request, is_descriptor) {
        return result;
    }
    match option {
        SO_LINGER => set_linger(ctx, file, value, len)?,
        SO_MAX_PACING_RATE => {
            let rate = common::read_pacing(&ctx.process.memory, request)?;
            set_in_stack(ctx, id, SocketOption::MaxPacingRate(rate))?;
        }
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.inet_mut(file)?.recv_timeout = timeout;
        }
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.inet_mut(file)?.send_timeout = timeout;
        }
        SO_ATTACH_FILTER if holder == Holder::Tcp && !ctx.credentials().can(CAP_NET_ADMIN) => {
            return Err(Errno::EPERM.into());
        }
        SO_ATTACH_FILTER | SO_DETACH_FILTER | SO_LOCK_FILTER => filter::set(ctx, file, request)?,
        SO_BINDTOIFINDEX => device::bind(ctx, id, number)?,
        SO_SNDBUFFORCE | SO_RCVBUFFORCE => {
            let size = number.max(0) as u32;
            let forced =
                if option == SO_SNDBUFFORCE { SocketOption::SendBuffer(size) } else { SocketOption::RecvBuffer(size) };
            ctx.kernel.net.stack.force_buffer(ctx.now, id, forced).map_err(errno)?;
        }
        SO_DETACH_REUSEPORT_BPF => {
            let shares = ctx.kernel.net.stack.option(id, OptionName::ReusePort) == Ok(SocketOption::ReusePort(true));
            return Err(if shares { Errno::ENOENT } else { Errno::EINVAL }.into());
        }
        _ => match table::stack_value(SOL_SOCKET, option, number)? {
            Some(value) => set_in_stack(ctx, id, value)?,
            None => {
                let accepted = common::keep(holder, &mut ctx.inet_mut(file)?.kept, option, number)?;
                if !common::is_default(option, accepted) {
                    without_effect::note(ctx, SOL_SOCKET, option);
                }
            }
        },
    }
    Ok(())
}

fn set_linger(ctx: &mut Ctx<'_>, file: FileId, value: u64, len: usize) -> Result<(), Outcome> {
    if len < size_of::<Linger>() {
        return Err(Errno::EINVAL.into());
    }
    let linger: Linger = ctx.process.memory.read_value(value)?;
    let time = SimDuration::from_secs(u64::from(linger.l_linger as u32));
    let socket = ctx.inet_mut(file)?;
    if linger.l_onoff != 0 {
        // Its time is shown also when it is switched off again.
        socket.kept.set(SOL_SOCKET, SO_LINGER, linger.l_linger);
    }
    let id = socket.id;
    Ok(set_in_stack(ctx, id, SocketOption::Linger((linger.l_onoff != 0).then_some(time)))?)
}

/// getsockopt(2).
pub(super) fn get(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    let socket = ctx.inet(file)?.clone();
    match option {
        SO_ATTACH_FILTER => filter::get(&ctx.process.memory, socket.filter.as_deref(), place),
        SO_BINDTODEVICE => {
            let index = bound_to(ctx, socket.id)?;
            common::show_device(&ctx.process.memory, place, index)
        }
        _ => {
            let answer = show(ctx, &socket, option, place.len)?;
            place.store(&ctx.process.memory, &answer)
        }
    }
}

/// The index of the interface that a socket is bound to; 0 for none.
fn bound_to(ctx: &mut Ctx<'_>, id: SocketId) -> Result<i32, Errno> {
    Ok(device::index_of(ctx.kernel.net.stack.option(id, OptionName::Device).map_err(errno)?))
}

fn show(ctx: &mut Ctx<'_>, socket: &InetSocket, option: i32, len: usize) -> Result<Answer, Errno> {
    if let Some(answer) = common::show_structure(option, len) {
        return answer;
    }
    let stack = &mut ctx.kernel.net.stack;
    Ok(match option {
        SO_TYPE => number(match socket.kind {
            Kind::Tcp => SOCK_STREAM,
            Kind::Udp | Kind::Echo => SOCK_DGRAM,
            Kind::Raw(_) => SOCK_RAW,
        }),
        SO_DOMAIN => number(if socket.family == Family::V4 { AF_INET } else { AF_INET6 }),
        SO_PROTOCOL => number(protocol_of(socket)),
        SO_ACCEPTCONN => number(stack.is_listening(socket.id).into()),
        SO_ERROR => number(stack.take_error(socket.id).map_or(0, |error| errno(error).raw())),
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(socket.recv_timeout),
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(socket.send_timeout),
        SO_LINGER => {
            let SocketOption::Linger(linger) = stack.option(socket.id, OptionName::Linger).map_err(errno)? else {
                return Err(Errno::ENOPROTOOPT);
            };
            let last = socket.kept.get(SOL_SOCKET, SO_LINGER).unwrap_or(0);
            let seconds = linger.map_or(last as u64, |time| time.as_nanos() / 1_000_000_000);
            Answer::from_slice(
                Linger { l_onoff: linger.is_some().into(), l_linger: common::linger_shown(seconds as i32) }.as_bytes(),
            )
        }
        SO_PEERCRED => Answer::from_slice(Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }.as_bytes()),
        SO_PEERGROUPS | SO_PEERPIDFD => return Err(Errno::ENODATA),
        SO_PEERNAME => {
            let name = stack.peer_name(socket.id).map(address::raw).map_err(errno)?;
            return common::show_name(&name, len);
        }
        SO_COOKIE => return common::show_cookie(cookie(socket.id), len),
        SO_MAX_PACING_RATE => {
            let SocketOption::MaxPacingRate(rate) =
                stack.option(socket.id, OptionName::MaxPacingRate).map_err(errno)?
            else {
                return Err(Errno::ENOPROTOOPT);
            };
            common::show_pacing(rate, len)
        }
        SO_MEMINFO => return memory(ctx, socket.id),
        SO_BINDTOIFINDEX => number(bound_to(ctx, socket.id)?),
        _ => match table::in_stack(ctx, socket.id, SOL_SOCKET, option)? {
            Some(value) => number(value),
            None => number(common::shown(holder(socket.kind), &socket.kept, option)?),
        },
    })
}

/// SO_MEMINFO; the stack describes only what has a port.
fn memory(ctx: &mut Ctx<'_>, id: SocketId) -> Result<Answer, Errno> {
    let memory = match ctx.kernel.net.stack.describe(ctx.now, id) {
        Some(listed) => memory_of(Some(listed)),
        None => {
            let mut size = |option| Ok(table::in_stack(ctx, id, SOL_SOCKET, option)?.unwrap_or(0) as u32);
            [0, size(SO_RCVBUF)?, 0, size(SO_SNDBUF)?, 0, 0, 0, 0, 0]
        }
    };
    Ok(Answer::from_slice(memory.as_bytes()))
}

/// SO_PROTOCOL.
pub(super) fn protocol_of(socket: &InetSocket) -> i32 {
    match (socket.kind, socket.family) {
        (Kind::Tcp, _) => IPPROTO_TCP,
        (Kind::Udp, _) => IPPROTO_UDP,
        (Kind::Echo, Family::V4) => IPPROTO_ICMP,
        (Kind::Echo, Family::V6) => IPPROTO_ICMPV6,
        (Kind::Raw(protocol), _) => protocol.into(),
    }
}
