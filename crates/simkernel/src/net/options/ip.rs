//! Level SOL_IP (ip(7), `do_ip_setsockopt`, `do_ip_getsockopt`).

use super::internet::protocol_of;
use super::table::{self, set_in_stack, stack_number};
use super::value::{Place, read_short};
use crate::credentials::Credentials;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::inet::{self, Kind};
use crate::net::{device, errno, multicast};
use crate::outcome::{Outcome, SysResult};
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_abi::socket::*;
use tcpip::{Family, OptionName, SocketOption};

/// The most bytes of IP options.
const OPTIONS_MAX: usize = 40;
/// The most bytes of a policy of IPsec: a page.
const POLICY_MAX: usize = 4096;

/// What only some may ask for: foreign addresses as their own. EPERM.
pub(super) fn demand_transparent(who: &Credentials, number: i32) -> Result<(), Errno> {
    let may = number == 0 || who.can(CAP_NET_RAW) || who.can(CAP_NET_ADMIN);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// Tells the stack whether addresses that are not the host's may be bound.
pub(super) fn tell_free_bind(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let is_free = [IP_FREEBIND, IP_TRANSPARENT].iter().any(|option| socket.kept.get(SOL_IP, *option) == Some(1));
    set_in_stack(ctx, socket.id, SocketOption::FreeBind(is_free))
}

/// Policies of IPsec (`xfrm_user_policy`), of which there are none. EPERM, EMSGSIZE, EFAULT, and then
/// EINVAL for those of XFRM by the option that the socket's family has for them, EOPNOTSUPP for others.
pub(super) fn set_policy(ctx: &Ctx<'_>, value: u64, len: usize, is_own: bool) -> Result<(), Outcome> {
    ctx.credentials().demand(CAP_NET_ADMIN)?;
    if len == 0 || len > POLICY_MAX {
        return Err(Errno::EMSGSIZE.into());
    }
    ctx.process.memory.read(value, &mut vec![0; len])?;
    Err(if is_own { Errno::EINVAL } else { Errno::EOPNOTSUPP }.into())
}

/// setsockopt(2).
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    let socket = ctx.inet(file)?;
    let (is_stream, is_raw) = (socket.is_stream, matches!(socket.kind, Kind::Raw(_)));
    match option {
        IP_ADD_MEMBERSHIP..=MCAST_MSFILTER => multicast::set4(ctx, file, option, value, len).map(|_| ()),
        IP_MULTICAST_IF => multicast::set_interface(ctx, file, value, len),
        IP_OPTIONS_OPTION if len > OPTIONS_MAX => Err(Errno::EINVAL.into()),
        IP_OPTIONS_OPTION => {
            ctx.process.memory.read(value, &mut [0; OPTIONS_MAX][..len])?;
            if len == 0 { Ok(()) } else { Err(Errno::EINVAL.into()) }
        }
        IP_IPSEC_POLICY | IP_XFRM_POLICY => {
            let is_own = option == IP_XFRM_POLICY && socket.family == Family::V4;
            set_policy(ctx, value, len, is_own)
        }
        IP_TOS | IP_TTL | IP_HDRINCL | IP_ROUTER_ALERT => {
            let number = read_short(&ctx.process.memory, value, len)?;
            Ok(set_header(ctx, file, option, number, len)?)
        }
        _ if !table::is_known(SOL_IP, option) => Err(Errno::ENOPROTOOPT.into()),
        _ => {
            let number = read_short(&ctx.process.memory, value, len)?;
            match option {
                IP_NODEFRAG if !is_raw => return Err(Errno::ENOPROTOOPT.into()),
                IP_RECVFRAGSIZE | IP_MULTICAST_TTL if is_stream => return Err(Errno::EINVAL.into()),
                IP_TRANSPARENT => demand_transparent(ctx.credentials(), number)?,
                _ => {}
            }
            let least = match option {
                IP_UNICAST_IF | IP_LOCAL_PORT_RANGE if len != 4 => return Err(Errno::EINVAL.into()),
                IP_FREEBIND | IP_TRANSPARENT | IP_MINTTL | IP_MULTICAST_TTL | IP_MULTICAST_LOOP | IP_MULTICAST_ALL => 1,
                _ => 0,
            };
            if len < least {
                return Err(Errno::EINVAL.into());
            }
            Ok(set_number(ctx, file, option, number)?)
        }
    }
}

/// What stands in the header of packets that the socket sends. EINVAL, ENOPROTOOPT, ENOBUFS.
fn set_header(ctx: &mut Ctx<'_>, file: FileId, option: i32, number: i32, len: usize) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let (id, kind) = (socket.id, socket.kind);
    let is_raw = matches!(kind, Kind::Raw(_));
    match option {
        IP_TOS => set_in_stack(ctx, id, SocketOption::TypeOfService(number as u8)),
        IP_TTL if len == 0 => Err(Errno::EINVAL),
        IP_TTL => {
            // -1 is the default (`do_ip_setsockopt`).
            let ttl = if number == -1 { 64 } else { u8::try_from(number).map_err(|_| Errno::EINVAL)? };
            set_in_stack(ctx, id, SocketOption::TimeToLive(ttl))
        }
        IP_HDRINCL if !is_raw => Err(Errno::ENOPROTOOPT),
        IP_HDRINCL => ctx.kernel.net.stack.set_header_included(id, number != 0).map_err(errno),
        // Nobody has asked for alerts of routers (`ip_ra_control`).
        _ if is_raw && kind != Kind::Raw(IPPROTO_RAW as u8) && number == 0 => Err(Errno::ENOBUFS),
        _ => Err(Errno::EINVAL),
    }
}

fn set_number(ctx: &mut Ctx<'_>, file: FileId, option: i32, number: i32) -> Result<(), Errno> {
    let number = match option {
        IP_MULTICAST_TTL if number == -1 => 1,
        IP_UNICAST_IF => {
            // An index in network order.
            let index = i32::from_be(number);
            device::of_index(index).map_err(|_| Errno::EADDRNOTAVAIL)?;
            index
        }
        // The first port in the lower half, the last one in the upper; 0 is the system's.
        IP_LOCAL_PORT_RANGE => match (number as u32 & 0xffff, number as u32 >> 16) {
            (low @ 1.., high @ 1..) if low > high => return Err(Errno::EINVAL),
            _ => number,
        },
        _ => number,
    };
    table::set(ctx, file, SOL_IP, option, number)?;
    match option {
        IP_FREEBIND | IP_TRANSPARENT => tell_free_bind(ctx, file),
        IP_MULTICAST_TTL | IP_MULTICAST_LOOP | IP_MULTICAST_ALL => multicast::tell(ctx, file),
        _ => Ok(()),
    }
}

/// getsockopt(2).
pub(super) fn get(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    let is_stream = ctx.inet(file)?.is_stream;
    match option {
        IP_OPTIONS_OPTION => place.store_len(&ctx.process.memory, 0),
        IP_PKTOPTIONS if is_stream => place.store_len(&ctx.process.memory, 0),
        IP_MSFILTER => multicast::get_filter(ctx, file, place),
        MCAST_MSFILTER if place.len < size_of::<GroupFilter>() => Err(Errno::EINVAL.into()),
        IP_MULTICAST_IF => {
            let address = ctx.inet(file)?.kept.get(SOL_IP, IP_MULTICAST_IF).unwrap_or(0);
            place.store_len_first(&ctx.process.memory, &address.to_ne_bytes())
        }
        _ => {
            let number = show(ctx, file, option)?;
            place.store_short(&ctx.process.memory, number)
        }
    }
}

/// The MTU of the way to the peer, in bytes. ENOTCONN.
pub(super) fn mtu(ctx: &mut Ctx<'_>, file: FileId) -> Result<i32, Errno> {
    let id = ctx.inet(file)?.id;
    let peer = inet::peer(ctx, id).ok_or(Errno::ENOTCONN)?.ip().to_canonical();
    let stack = &ctx.kernel.net.stack;
    Ok(match (stack.is_local(peer), Family::of(peer)) {
        (true, Family::V4) => 65_535,
        (true, Family::V6) => 65_536,
        (false, _) => stack.config().mtu.into(),
    })
}

fn show(ctx: &mut Ctx<'_>, file: FileId, option: i32) -> Result<i32, Errno> {
    let socket = ctx.inet(file)?.clone();
    let is_raw = matches!(socket.kind, Kind::Raw(_));
    match option {
        IP_TOS => stack_number(ctx, socket.id, OptionName::TypeOfService),
        IP_TTL => stack_number(ctx, socket.id, OptionName::TimeToLive),
        IP_MTU => mtu(ctx, file),
        IP_HDRINCL if !is_raw => Ok(0),
        IP_HDRINCL => Ok(ctx.kernel.net.stack.header_included(socket.id).map_err(errno)?.into()),
        IP_MULTICAST_ALL => Ok(multicast::hears_all(&socket.kept, socket.family).into()),
        // What `inet_num` holds: of others than raw sockets the port.
        IP_PROTOCOL if !is_raw => {
            let local = ctx.kernel.net.stack.local_name(socket.id).map_err(errno)?;
            Ok(local.port().into())
        }
        IP_PROTOCOL => Ok(protocol_of(&socket)),
        _ => table::show(ctx, file, SOL_IP, option),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_addresses_want_a_right() {
        let mut who = Credentials::default();
        assert_eq!(demand_transparent(&who, 1), Ok(()));
        who.capabilities.effective = 0;
        assert_eq!(demand_transparent(&who, 1), Err(Errno::EPERM));
        assert_eq!(demand_transparent(&who, 0), Ok(()));
    }
}
