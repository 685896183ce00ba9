//! Level SOL_IPV6 (ipv6(7), RFC 3493, RFC 3542, `do_ipv6_setsockopt`, `do_ipv6_getsockopt`).

use super::ip::{demand_transparent, mtu, set_policy, tell_free_bind};
use super::table::{self, set_in_stack, stack_number};
use super::value::{Place, number};
use super::{raw, without_effect};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::inet::{self, Kind};
use crate::net::interfaces::{ETHERNET_INDEX, LOOPBACK_INDEX};
use crate::net::{device, multicast};
use crate::outcome::{Outcome, SysResult};
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_abi::socket::*;
use std::net::Ipv6Addr;
use tcpip::{OptionName, SocketOption};

/// The smallest MTU of an IPv6 link, in bytes.
const MIN_MTU: i32 = 1280;
/// `sizeof(struct in6_flowlabel_req)`.
const FLOW_LABEL: usize = 32;
/// `sizeof(struct ip6_mtuinfo)`, of which the last four bytes are the MTU.
const MTU_INFO: usize = 32;
/// The most bytes of an extension header, and of headers that are control messages.
const HEADER_MAX: usize = 8 * 255;
const CONTROL_MAX: usize = 64 << 10;
/// `sizeof(struct cmsghdr)`.
const CONTROL_LEAST: usize = 16;

/// IPV6_ADDR_PREFERENCES (RFC 5014): flags of which each line excludes the others, and what a socket has that was never asked.
const PREFER_TMP: i32 = 0x1;
const PREFER_PUBLIC: i32 = 0x2;
const PREFER_COA: i32 = 0x4;
const PREFER_PUBTMP_DEFAULT: i32 = 0x100;
const PREFER_HOME: i32 = 0x400;
const PREFER_CGA: i32 = 0x8;
const PREFER_NONCGA: i32 = 0x800;

/// setsockopt(2).
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    let socket = ctx.inet(file)?;
    let (is_stream, is_raw) = (socket.is_stream, matches!(socket.kind, Kind::Raw(_)));
    if is_raw && matches!(option, IPV6_CHECKSUM | IPV6_HDRINCL) {
        return raw::set_of_ipv6(ctx, file, SOL_IPV6, option, value, len);
    }
    // Whatever the option is, its first four bytes are read.
    let is_number = len >= size_of::<i32>();
    let number: i32 = if is_number { ctx.process.memory.read_value(value)? } else { 0 };
    match option {
        IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP | MCAST_JOIN_GROUP..=MCAST_MSFILTER => {
            multicast::set6(ctx, file, option, value, len).map(|_| ())
        }
        IPV6_JOIN_ANYCAST | IPV6_LEAVE_ANYCAST => set_anycast(ctx, option, value, len),
        IPV6_IPSEC_POLICY | IPV6_XFRM_POLICY => set_policy(ctx, value, len, option == IPV6_XFRM_POLICY),
        IPV6_HOPOPTS | IPV6_RTHDRDSTOPTS | IPV6_RTHDR | IPV6_DSTOPTS => set_header(ctx, option, value, len),
        IPV6_2292PKTOPTIONS => set_headers(ctx, value, len),
        // Flow labels are 0.
        IPV6_FLOWLABEL_MGR if len < FLOW_LABEL => Err(Errno::EINVAL.into()),
        IPV6_FLOWLABEL_MGR => {
            ctx.process.memory.read(value, &mut [0; FLOW_LABEL])?;
            Err(Errno::EINVAL.into())
        }
        // A source that stays: only none can be chosen.
        IPV6_PKTINFO if len < size_of::<In6Pktinfo>() => Err(Errno::EINVAL.into()),
        IPV6_PKTINFO => {
            let info: In6Pktinfo = ctx.process.memory.read_value(value)?;
            if info == In6Pktinfo::default() { Ok(()) } else { Err(Errno::EINVAL.into()) }
        }
        IPV6_MULTICAST_IF | IPV6_MULTICAST_HOPS if is_stream => Err(Errno::ENOPROTOOPT.into()),
        IPV6_UNICAST_IF if len != size_of::<i32>() => Err(Errno::EINVAL.into()),
        IPV6_TRANSPARENT if demand_transparent(ctx.credentials(), number).is_err() => Err(Errno::EPERM.into()),
        // These take less as 0.
        IPV6_DONTFRAG | IPV6_AUTOFLOWLABEL | IPV6_RECVFRAGSIZE => Ok(set_number(ctx, file, option, number)?),
        _ if is_number => Ok(set_number(ctx, file, option, number)?),
        _ => Err(if is_known(option) { Errno::EINVAL } else { Errno::ENOPROTOOPT }.into()),
    }
}

/// IPV6_JOIN_ANYCAST and IPV6_LEAVE_ANYCAST: no router has addresses of that kind.
fn set_anycast(ctx: &Ctx<'_>, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    if len < size_of::<Ipv6Mreq>() {
        return Err(Errno::EINVAL.into());
    }
    let asked: Ipv6Mreq = ctx.process.memory.read_value(value)?;
    if option == IPV6_LEAVE_ANYCAST {
        return Err(Errno::ENOENT.into());
    }
    ctx.credentials().demand(CAP_NET_ADMIN)?;
    if Ipv6Addr::from(asked.ipv6mr_multiaddr).is_multicast() {
        return Err(Errno::EINVAL.into());
    }
    device::of_index(asked.ipv6mr_ifindex)?;
    Err(Errno::EADDRNOTAVAIL.into())
}

/// Extension headers of all packets that a socket sends (`ipv6_set_opt_hdr`): only none. EPERM, EINVAL, EFAULT.
fn set_header(ctx: &Ctx<'_>, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    if option != IPV6_RTHDR {
        ctx.credentials().demand(CAP_NET_RAW)?;
    }
    if len == 0 {
        return Ok(());
    }
    if !len.is_multiple_of(8) || len > HEADER_MAX {
        return Err(Errno::EINVAL.into());
    }
    ctx.process.memory.read(value, &mut vec![0; len])?;
    Err(Errno::EINVAL.into())
}

/// The same as RFC 2292 has it, in control messages.
fn set_headers(ctx: &Ctx<'_>, value: u64, len: usize) -> Result<(), Outcome> {
    if len > CONTROL_MAX {
        return Err(Errno::EINVAL.into());
    }
    ctx.process.memory.read(value, &mut vec![0; len])?;
    if len < CONTROL_LEAST { Ok(()) } else { Err(Errno::EINVAL.into()) }
}

fn set_number(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: i32) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let (id, kind) = (socket.id, socket.kind);
    // -1 is the default (`do_ipv6_setsockopt`).
    let byte = |default: u8| match value {
        -1 => Ok(default),
        _ => u8::try_from(value).map_err(|_| Errno::EINVAL),
    };
    match option {
        IPV6_UNICAST_HOPS => set_in_stack(ctx, id, SocketOption::HopLimit(byte(64)?)),
        IPV6_TCLASS => set_in_stack(ctx, id, SocketOption::TrafficClass(byte(0)?)),
        IPV6_V6ONLY if matches!(kind, Kind::Raw(_)) => Err(Errno::EINVAL),
        IPV6_MULTICAST_HOPS => {
            let hops = i32::from(byte(1)?);
            table::keep(ctx, file, SOL_IPV6, option, hops)?;
            multicast::tell(ctx, file)
        }
        IPV6_MULTICAST_LOOP if !matches!(value, 0 | 1) => Err(Errno::EINVAL),
        IPV6_MULTICAST_IF if !matches!(value, 0 | LOOPBACK_INDEX | ETHERNET_INDEX) => Err(Errno::ENODEV),
        IPV6_MULTICAST_LOOP | IPV6_MULTICAST_ALL | IPV6_MULTICAST_IF => {
            table::set(ctx, file, SOL_IPV6, option, value)?;
            multicast::tell(ctx, file)
        }
        IPV6_UNICAST_IF => {
            // An index in network order.
            let index = i32::from_be(value);
            device::of_index(index).map_err(|_| Errno::EADDRNOTAVAIL)?;
            table::set(ctx, file, SOL_IPV6, option, index)
        }
        IPV6_MTU if value != 0 && value < MIN_MTU => Err(Errno::EINVAL),
        IPV6_MTU => {
            without_effect::note(ctx, SOL_IPV6, IPV6_MTU);
            Ok(())
        }
        IPV6_ADDR_PREFERENCES => {
            let flags = preferences(value)?;
            ctx.inet_mut(file)?.kept.set(SOL_IPV6, option, flags);
            Ok(())
        }
        IPV6_ADDRFORM => set_family(ctx, file, value),
        IPV6_FREEBIND | IPV6_TRANSPARENT => {
            table::set(ctx, file, SOL_IP, shared(option), value)?;
            tell_free_bind(ctx, file)
        }
        _ => table::set(ctx, file, SOL_IPV6, option, value),
    }
}

/// IPV6_ADDRFORM: a socket that changes its family is not simulated.
fn set_family(ctx: &mut Ctx<'_>, file: FileId, family: i32) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let (id, kind) = (socket.id, socket.kind);
    match (family, kind) {
        (AF_INET, Kind::Tcp | Kind::Udp) => match inet::peer(ctx, id) {
            None => Err(Errno::ENOTCONN),
            Some(peer) if peer.ip().to_canonical().is_ipv6() => Err(Errno::EADDRNOTAVAIL),
            Some(_) => Err(Errno::EOPNOTSUPP),
        },
        (AF_INET, _) => Err(Errno::ENOPROTOOPT),
        _ => Err(Errno::EINVAL),
    }
}

/// Whether there is a number of that option, for what is said about short values.
fn is_known(option: i32) -> bool {
    const OWN: [i32; 5] = [IPV6_UNICAST_HOPS, IPV6_TCLASS, IPV6_MTU, IPV6_ADDR_PREFERENCES, IPV6_ADDRFORM];
    OWN.contains(&option) || table::is_known(SOL_IPV6, option)
}

/// What becomes of the flags of IPV6_ADDR_PREFERENCES (`__ip6_sock_set_addr_preferences`). EINVAL for two of a kind, and for others.
fn preferences(value: i32) -> Result<i32, Errno> {
    let public = match value & (PREFER_TMP | PREFER_PUBLIC | PREFER_PUBTMP_DEFAULT) {
        0 => PREFER_PUBTMP_DEFAULT,
        one @ (PREFER_TMP | PREFER_PUBLIC | PREFER_PUBTMP_DEFAULT) => one,
        _ => return Err(Errno::EINVAL),
    };
    let home = match value & (PREFER_HOME | PREFER_COA) {
        0 | PREFER_HOME => PREFER_HOME,
        PREFER_COA => PREFER_COA,
        _ => return Err(Errno::EINVAL),
    };
    match value & (PREFER_CGA | PREFER_NONCGA) {
        0 | PREFER_CGA | PREFER_NONCGA => Ok(public | home),
        _ => Err(Errno::EINVAL),
    }
}

/// getsockopt(2).
pub(super) fn get(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    let socket = ctx.inet(file)?;
    let (is_stream, is_raw) = (socket.is_stream, matches!(socket.kind, Kind::Raw(_)));
    match option {
        IPV6_CHECKSUM | IPV6_HDRINCL if is_raw => raw::get_of_ipv6(ctx, file, option, place),
        // No extension headers.
        IPV6_HOPOPTS | IPV6_RTHDRDSTOPTS | IPV6_RTHDR | IPV6_DSTOPTS => place.store_len(&ctx.process.memory, 0),
        IPV6_2292PKTOPTIONS if is_stream => place.store_len(&ctx.process.memory, 0),
        IPV6_PATHMTU if place.len < MTU_INFO => Err(Errno::EINVAL.into()),
        IPV6_PATHMTU => {
            let mut info = [0; MTU_INFO];
            info[MTU_INFO - 4..].copy_from_slice(&mtu(ctx, file)?.to_ne_bytes());
            place.store_len_first(&ctx.process.memory, &info)
        }
        // This option alone takes its length as signed.
        MCAST_MSFILTER if !(size_of::<GroupFilter>()..=i32::MAX as usize).contains(&place.len) => {
            Err(Errno::EINVAL.into())
        }
        IPV6_FLOWLABEL_MGR if place.len < FLOW_LABEL => Err(Errno::EINVAL.into()),
        IPV6_FLOWLABEL_MGR => {
            ctx.process.memory.read(place.value, &mut [0; FLOW_LABEL])?;
            Err(Errno::EINVAL.into())
        }
        _ => {
            let shown = show(ctx, file, option)?;
            place.store_len_first(&ctx.process.memory, &number(shown))
        }
    }
}

/// The option of SOL_IP that is the same flag.
fn shared(option: i32) -> i32 {
    if option == IPV6_FREEBIND { IP_FREEBIND } else { IP_TRANSPARENT }
}

fn show(ctx: &mut Ctx<'_>, file: FileId, option: i32) -> Result<i32, Errno> {
    let socket = ctx.inet(file)?;
    let (id, kept) = (socket.id, socket.kept.get(SOL_IPV6, option));
    match option {
        IPV6_UNICAST_HOPS => stack_number(ctx, id, OptionName::HopLimit),
        IPV6_TCLASS => stack_number(ctx, id, OptionName::TrafficClass),
        IPV6_ADDR_PREFERENCES => Ok(kept.unwrap_or(PREFER_PUBTMP_DEFAULT | PREFER_HOME)),
        IPV6_MTU => mtu(ctx, file),
        IPV6_ADDRFORM if !matches!(socket.kind, Kind::Tcp | Kind::Udp | Kind::Raw(6 | 17)) => Err(Errno::ENOPROTOOPT),
        IPV6_ADDRFORM => inet::peer(ctx, id).map(|_| AF_INET6).ok_or(Errno::ENOTCONN),
        IPV6_FREEBIND | IPV6_TRANSPARENT => table::show(ctx, file, SOL_IP, shared(option)),
        _ => table::show(ctx, file, SOL_IPV6, option),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_exclude_each_other_by_kind() {
        assert_eq!(preferences(0), Ok(PREFER_PUBTMP_DEFAULT | PREFER_HOME));
        assert_eq!(preferences(PREFER_TMP | PREFER_COA | PREFER_CGA), Ok(PREFER_TMP | PREFER_COA));
        assert_eq!(preferences(PREFER_PUBLIC | PREFER_HOME), Ok(PREFER_PUBLIC | PREFER_HOME));
        for bad in [PREFER_TMP | PREFER_PUBLIC, PREFER_HOME | PREFER_COA, PREFER_CGA | PREFER_NONCGA] {
            assert_eq!(preferences(bad), Err(Errno::EINVAL), "{bad:#x}");
        }
    }
}
