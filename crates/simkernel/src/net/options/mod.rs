//! getsockopt(2) and setsockopt(2): which options sockets have, their layouts and bounds, and what becomes of a value.
//!
//! Here is the choice of the level for Internet sockets. `common` has SOL_SOCKET as far as all families share it, `internet` what of it
//! acts in the Internet's stack, `local` what Unix and netlink sockets have of it; `ip`, `ipv6`, `tcp`, `raw` and `netlink` have the
//! other levels. `table` lists the options of these levels that are numbers; `kept` has the rules of all that the kernel keeps itself,
//! and `without_effect` names those that are accepted though nothing follows from them.

pub(crate) mod common;
mod internet;
mod ip;
mod ipv6;
pub(crate) mod kept;
pub(crate) mod local;
pub mod netlink;
mod raw;
mod table;
mod tcp;
pub(crate) mod tcp_info;
pub(crate) mod value;
mod without_effect;

use super::inet::Kind;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::SysResult;
pub use kept::Kept;
use linux_abi::Errno;
use linux_abi::socket::*;
pub(super) use table::set_in_stack;
use tcpip::Family;
use value::{Place, number, read_len, read_number};

/// Who serves a level of an Internet socket (`inet_create`'s protocols).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    Socket,
    Ip,
    Ipv6,
    Tcp,
    Udp,
    Raw,
    Icmpv6,
}

/// Who serves a level; None where nobody does.
fn find_level(level: i32, family: Family, kind: Kind) -> Option<Level> {
    let is_raw = matches!(kind, Kind::Raw(_));
    let is_v6 = family == Family::V6;
    match level {
        SOL_SOCKET => Some(Level::Socket),
        // `ipv6_setsockopt`: sockets of IPv6 speak IPv4 too, raw ones do not.
        SOL_IP => (!is_raw || !is_v6).then_some(Level::Ip),
        SOL_IPV6 => is_v6.then_some(Level::Ipv6),
        SOL_TCP => (kind == Kind::Tcp).then_some(Level::Tcp),
        SOL_UDP | SOL_UDPLITE => (kind == Kind::Udp).then_some(Level::Udp),
        SOL_RAW => is_raw.then_some(Level::Raw),
        SOL_ICMPV6 => (is_raw && is_v6).then_some(Level::Icmpv6),
        _ => None,
    }
}

/// setsockopt(2) of an Internet socket.
pub fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    let socket = ctx.inet(file)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    match find_level(level, socket.family, socket.kind).ok_or(Errno::ENOPROTOOPT)? {
        Level::Socket => internet::set(ctx, file, option, value, len)?,
        Level::Ip => ip::set(ctx, file, option, value, len)?,
        Level::Ipv6 => ipv6::set(ctx, file, option, value, len)?,
        Level::Tcp => tcp::set(ctx, file, option, value, len)?,
        Level::Udp => {
            let number = read_number(&ctx.process.memory, value, len)?;
            table::set(ctx, file, SOL_UDP, option, number)?;
            if option == UDP_CORK && number == 0 {
                super::datagram::uncork(ctx, file)?;
            }
        }
        Level::Raw => raw::set(ctx, file, option, value, len)?,
        Level::Icmpv6 => raw::set_icmpv6(ctx, file, option, value, len)?,
    }
    ctx.kernel.settle_sockets();
    Ok(0)
}

/// getsockopt(2) of an Internet socket.
pub fn get(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len_address: u64) -> SysResult {
    let socket = ctx.inet(file)?;
    // `do_ip_getsockopt`, `ipv6_getsockopt`: what the last level in the chain says.
    let nobody = if socket.family == Family::V4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT };
    let level = find_level(level, socket.family, socket.kind).ok_or(nobody)?;
    match level {
        Level::Raw => raw::check(ctx, file, option)?,
        Level::Icmpv6 => raw::check_icmpv6(ctx, file, option)?,
        _ => {}
    }
    let len = match level {
        // `do_ipv6_getsockopt` takes it as unsigned.
        Level::Ipv6 => ctx.process.memory.read_value::<u32>(len_address)? as usize,
        Level::Raw if ctx.inet(file)?.family == Family::V6 => {
            ctx.process.memory.read_value::<u32>(len_address)? as usize
        }
        _ => read_len(&ctx.process.memory, len_address)?,
    };
    let place = Place { value, len_address, len };
    match level {
        Level::Socket => internet::get(ctx, file, option, place),
        Level::Ip => ip::get(ctx, file, option, place),
        Level::Ipv6 => ipv6::get(ctx, file, option, place),
        Level::Tcp => tcp::get(ctx, file, option, place),
        Level::Udp => {
            let shown = table::show(ctx, file, SOL_UDP, option)?;
            place.store_len_first(&ctx.process.memory, &number(shown))
        }
        Level::Raw => raw::get(ctx, file, option, place),
        Level::Icmpv6 => raw::get_filter(ctx, file, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_belong_to_families_and_kinds() {
        for family in [Family::V4, Family::V6] {
            for kind in [Kind::Tcp, Kind::Udp, Kind::Echo, Kind::Raw(1)] {
                let has = |level| find_level(level, family, kind).is_some();
                let is_raw = kind == Kind::Raw(1);
                assert!(has(SOL_SOCKET) && !has(1234));
                assert_eq!(has(SOL_IP), !is_raw || family == Family::V4);
                assert_eq!(has(SOL_IPV6), family == Family::V6);
                assert_eq!(has(SOL_TCP), kind == Kind::Tcp);
                assert_eq!(has(SOL_UDP), kind == Kind::Udp);
                assert_eq!(has(SOL_RAW), is_raw);
                assert_eq!(has(SOL_ICMPV6), is_raw && family == Family::V6);
            }
        }
    }
}
