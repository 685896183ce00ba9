//! Options of level IPPROTO_IPV6 (ipv6(7), RFC 3493, RFC 3542): what is particular about them. Plain flags stand in the tables of
//! `options`.

use super::inet::{self, InetSocket};
use super::interfaces::{ETHERNET_INDEX, LOOPBACK_INDEX};
use super::options::{Answer, as_number, common_answer, number, set_in_stack, set_number};
use super::{errno, multicast, options, raw_options, without_effect};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::socket::*;
use tcpip::{Family, OptionName, SocketOption};

/// IPV6_ADDR_PREFERENCES (RFC 5014): flags of which each line excludes the others, and what a socket has that was never asked.
const PREFER_TMP: i32 = 0x1;
const PREFER_PUBLIC: i32 = 0x2;
const PREFER_COA: i32 = 0x4;
const PREFER_PUBTMP_DEFAULT: i32 = 0x100;
const PREFER_HOME: i32 = 0x400;
const PREFER_CGA: i32 = 0x8;
const PREFER_NONCGA: i32 = 0x800;

/// setsockopt(2) of this level; the option's value is `len` bytes long.
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> SysResult {
    match option {
        IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP | MCAST_JOIN_GROUP..=MCAST_MSFILTER => {
            return multicast::set6(ctx, file, option, value, len);
        }
        // A source that stays: only none can be chosen.
        IPV6_PKTINFO if len == 0 => return Ok(0),
        IPV6_PKTINFO if len < size_of::<In6Pktinfo>() => return Err(Errno::EINVAL.into()),
        IPV6_PKTINFO => {
            let info: In6Pktinfo = ctx.process.memory.read_value(value)?;
            return if info == In6Pktinfo::default() { Ok(0) } else { Err(Errno::EINVAL.into()) };
        }
        _ => {}
    }
    if len < 4 {
        return Err(if known(option) { Errno::EINVAL } else { Errno::ENOPROTOOPT }.into());
    }
    let value = ctx.process.memory.read_value(value)?;
    set_int(ctx, file, option, value)?;
    Ok(0)
}

fn set_int(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: i32) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let (id, is_stream) = (socket.id, socket.is_stream);
    // -1 is the default (`do_ipv6_setsockopt`).
    let byte = |default: u8| match value {
        -1 => Ok(default),
        _ => u8::try_from(value).map_err(|_| Errno::EINVAL),
    };
    match option {
        IPV6_UNICAST_HOPS => set_in_stack(ctx, id, SocketOption::HopLimit(byte(64)?)),
        IPV6_TCLASS => set_in_stack(ctx, id, SocketOption::TrafficClass(byte(0)?)),
        IPV6_MULTICAST_HOPS if is_stream => Err(Errno::ENOPROTOOPT),
        IPV6_MULTICAST_HOPS => {
            let hops = i32::from(byte(1)?);
            set_number(ctx, file, SOL_IPV6, option, hops)
        }
        IPV6_MULTICAST_LOOP if !matches!(value, 0 | 1) => Err(Errno::EINVAL),
        IPV6_MULTICAST_LOOP | IPV6_MULTICAST_ALL => {
            ctx.inet_mut(file)?.kept.set(SOL_IPV6, option, i32::from(value != 0));
            multicast::tell(ctx, file)
        }
        IPV6_MULTICAST_IF if is_stream => Err(Errno::ENOPROTOOPT),
        IPV6_MULTICAST_IF if !matches!(value, 0 | LOOPBACK_INDEX | ETHERNET_INDEX) => Err(Errno::ENODEV),
        IPV6_MULTICAST_IF => {
            ctx.inet_mut(file)?.kept.set(SOL_IPV6, option, value);
            multicast::tell(ctx, file)
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
        IPV6_ADDRFORM if value == AF_INET => match inet::peer(ctx, id) {
            None => Err(Errno::ENOTCONN),
            Some(peer) if peer.ip().to_canonical().is_ipv6() => Err(Errno::EADDRNOTAVAIL),
            // A socket that changes its family is not simulated.
            Some(_) => Err(Errno::EOPNOTSUPP),
        },
        IPV6_ADDRFORM => Err(Errno::EINVAL),
        _ => set_number(ctx, file, SOL_IPV6, option, value),
    }
}

/// The smallest MTU of an IPv6 link, in bytes.
const MIN_MTU: i32 = 1280;

/// Whether there is an option of that number, for what is said about short values.
fn known(option: i32) -> bool {
    const OWN: [i32; 9] = [
        IPV6_UNICAST_HOPS,
        IPV6_TCLASS,
        IPV6_MULTICAST_HOPS,
        IPV6_MULTICAST_LOOP,
        IPV6_MULTICAST_ALL,
        IPV6_MULTICAST_IF,
        IPV6_MTU,
        IPV6_ADDR_PREFERENCES,
        IPV6_ADDRFORM,
    ];
    OWN.contains(&option) || options::is_known(SOL_IPV6, option)
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

/// getsockopt(2) of this level.
pub(super) fn answer(ctx: &mut Ctx<'_>, socket: &InetSocket, option: i32) -> Result<Answer, Errno> {
    let kept = |default| Ok(number(socket.kept.get(SOL_IPV6, option).unwrap_or(default)));
    let of_stack = match option {
        IPV6_UNICAST_HOPS => OptionName::HopLimit,
        IPV6_TCLASS => OptionName::TrafficClass,
        IPV6_MULTICAST_LOOP | IPV6_MULTICAST_ALL => return kept(1),
        IPV6_MULTICAST_IF => return kept(0),
        IPV6_ADDR_PREFERENCES => return kept(PREFER_PUBTMP_DEFAULT | PREFER_HOME),
        IPV6_MTU => {
            let peer = inet::peer(ctx, socket.id).ok_or(Errno::ENOTCONN)?.ip().to_canonical();
            let stack = &ctx.kernel.net.stack;
            return Ok(number(match (stack.is_local(peer), Family::of(peer)) {
                (true, Family::V4) => 65_535,
                (true, Family::V6) => 65_536,
                (false, _) => stack.config().mtu.into(),
            }));
        }
        IPV6_CHECKSUM => return raw_options::answer(ctx, socket, SOL_IPV6, option),
        _ => return common_answer(ctx, socket, SOL_IPV6, option),
    };
    let value = ctx.kernel.net.stack.option(socket.id, of_stack).map_err(errno)?;
    Ok(number(as_number(value)))
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
