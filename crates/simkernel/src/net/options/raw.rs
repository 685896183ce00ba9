//! Levels of raw sockets (raw(7), icmp(7), RFC 3542): which types of ICMP messages they hear, and
//! where IPv6 has their checksum.

use super::value::{Place, number, read_number};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::errno;
use crate::net::inet::Kind;
use crate::outcome::{Outcome, SysResult};
use linux_abi::Errno;
use linux_abi::socket::*;
use tcpip::Family;
use zerocopy::IntoBytes;

/// The option of SOL_RAW and of SOL_ICMPV6 that filters ICMP messages.
const ICMP_FILTER: i32 = 1;
/// Bytes of that filter, by family.
const FILTER_BYTES: [usize; 2] = [4, 32];

/// Whether a socket carries the ICMP of its family.
fn is_icmp(ctx: &Ctx<'_>, file: FileId) -> Result<bool, Errno> {
    let socket = ctx.inet(file)?;
    let icmp = if socket.family == Family::V4 { IPPROTO_ICMP } else { IPPROTO_ICMPV6 };
    Ok(socket.kind == Kind::Raw(icmp as u8))
}

/// What getsockopt(2) of SOL_RAW says before it looks at a length (`do_raw_getsockopt`). EOPNOTSUPP,
/// ENOPROTOOPT.
pub(super) fn check(ctx: &Ctx<'_>, file: FileId, option: i32) -> Result<(), Errno> {
    match ctx.inet(file)?.family {
        Family::V6 => Ok(()),
        Family::V4 if option != ICMP_FILTER => Err(Errno::ENOPROTOOPT),
        Family::V4 => check_icmpv6(ctx, file, option),
    }
}

/// The same of SOL_ICMPV6 (`rawv6_getsockopt`, `rawv6_geticmpfilter`). EOPNOTSUPP, ENOPROTOOPT.
pub(super) fn check_icmpv6(ctx: &Ctx<'_>, file: FileId, option: i32) -> Result<(), Errno> {
    if !is_icmp(ctx, file)? {
        return Err(Errno::EOPNOTSUPP);
    }
    if option == ICMP_FILTER { Ok(()) } else { Err(Errno::ENOPROTOOPT) }
}

/// setsockopt(2) of SOL_RAW.
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    match ctx.inet(file)?.family {
        Family::V4 => {
            check(ctx, file, option)?;
            set_filter(ctx, file, value, len)
        }
        Family::V6 => set_of_ipv6(ctx, file, SOL_RAW, option, value, len),
    }
}

/// setsockopt(2) of SOL_ICMPV6.
pub(super) fn set_icmpv6(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> Result<(), Outcome> {
    check_icmpv6(ctx, file, option)?;
    set_filter(ctx, file, value, len)
}

/// A filter of ICMP types, of which a short value changes the beginning. EFAULT.
fn set_filter(ctx: &mut Ctx<'_>, file: FileId, value: u64, len: usize) -> Result<(), Outcome> {
    let socket = ctx.inet(file)?;
    let (id, most) = (socket.id, FILTER_BYTES[socket.family as usize]);
    let mut blocked = ctx.kernel.net.stack.blocked_types(id).map_err(errno)?;
    let changed = &mut blocked.as_mut_bytes()[..len.min(most)];
    let result = ctx.process.memory.read(value, changed);
    if result.is_err() {
        // `copy_from_user` clears what it cannot fill.
        changed.fill(0);
    }
    ctx.kernel.net.stack.block_types(id, blocked).map_err(errno)?;
    Ok(result?)
}

/// IPV6_CHECKSUM and IPV6_HDRINCL of raw sockets (`do_rawv6_setsockopt`), of either level. EINVAL, EFAULT, ENOPROTOOPT.
pub(super) fn set_of_ipv6(
    ctx: &mut Ctx<'_>,
    file: FileId,
    level: i32,
    option: i32,
    value: u64,
    len: usize,
) -> Result<(), Outcome> {
    let at = read_number(&ctx.process.memory, value, len)?;
    let (id, is_icmp) = (ctx.inet(file)?.id, is_icmp(ctx, file)?);
    match option {
        IPV6_HDRINCL => ctx.kernel.net.stack.set_header_included(id, at != 0).map_err(errno)?,
        // The checksum of ICMPv6 lies where it lies, which the RFC forbids to say at one level alone.
        IPV6_CHECKSUM if (is_icmp && level == SOL_IPV6) || (at > 0 && at % 2 != 0) => {
            return Err(Errno::EINVAL.into());
        }
        IPV6_CHECKSUM if is_icmp => {}
        IPV6_CHECKSUM => ctx.kernel.net.stack.set_checksum_at(id, u16::try_from(at).ok()).map_err(errno)?,
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(())
}

/// getsockopt(2) of SOL_RAW.
pub(super) fn get(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    match ctx.inet(file)?.family {
        Family::V4 => get_filter(ctx, file, place),
        Family::V6 => get_of_ipv6(ctx, file, option, place),
    }
}

/// getsockopt(2) of SOL_ICMPV6, and of SOL_RAW over IPv4: the filter.
pub(super) fn get_filter(ctx: &mut Ctx<'_>, file: FileId, place: Place) -> SysResult {
    let socket = ctx.inet(file)?;
    let (id, most) = (socket.id, FILTER_BYTES[socket.family as usize]);
    let blocked = ctx.kernel.net.stack.blocked_types(id).map_err(errno)?;
    place.store_len_first(&ctx.process.memory, &blocked.as_bytes()[..most])
}

/// IPV6_CHECKSUM and IPV6_HDRINCL of raw sockets, of either level. EFAULT, ENOPROTOOPT.
pub(super) fn get_of_ipv6(ctx: &mut Ctx<'_>, file: FileId, option: i32, place: Place) -> SysResult {
    let (id, is_icmp) = (ctx.inet(file)?.id, is_icmp(ctx, file)?);
    let stack = &mut ctx.kernel.net.stack;
    let shown = match option {
        IPV6_HDRINCL => stack.header_included(id).map_err(errno)?.into(),
        // In ICMPv6 it is the second word.
        IPV6_CHECKSUM if is_icmp => 2,
        IPV6_CHECKSUM => stack.checksum_at(id).map_err(errno)?.map_or(-1, i32::from),
        _ => return Err(Errno::ENOPROTOOPT.into()),
    };
    place.store_len_first(&ctx.process.memory, &number(shown))
}
