//! Options of raw sockets (raw(7), icmp(7), RFC 3542): which types of ICMP messages they hear, and who writes IP headers.

use super::errno;
use super::inet::{InetSocket, Kind};
use super::options::{Answer, number};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::socket::*;
use tcpip::Family;
use zerocopy::IntoBytes;

/// The option of SOL_RAW and of SOL_ICMPV6 that filters ICMP messages.
const ICMP_FILTER: i32 = 1;

/// setsockopt(2).
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: usize) -> SysResult {
    let socket = ctx.inet(file)?;
    let (id, family, kind) = (socket.id, socket.family, socket.kind);
    let Kind::Raw(protocol) = kind else { return Err(Errno::ENOPROTOOPT.into()) };
    let mut blocked = [0u32; 8];
    let of_icmp = match family {
        Family::V4 => level == SOL_RAW && i32::from(protocol) == IPPROTO_ICMP,
        Family::V6 => level == SOL_ICMPV6 && i32::from(protocol) == IPPROTO_ICMPV6,
    };
    match (level, option) {
        (SOL_RAW | SOL_ICMPV6, ICMP_FILTER) if of_icmp => {
            // Types of ICMP from 32 on are never blocked; a filter that is too short leaves the rest open.
            let words = if family == Family::V4 { 1 } else { 8 };
            for (word, at) in blocked.iter_mut().take(words.min(len / 4)).zip((value..).step_by(4)) {
                *word = ctx.process.memory.read_value(at)?;
            }
            ctx.kernel.net.stack.block_types(id, blocked).map_err(errno)?;
        }
        (SOL_IP, IP_HDRINCL) => {
            let on: i32 =
                if len < 4 { return Err(Errno::EINVAL.into()) } else { ctx.process.memory.read_value(value)? };
            ctx.kernel.net.stack.set_header_included(id, on != 0).map_err(errno)?;
        }
        (SOL_RAW | SOL_IPV6, IPV6_CHECKSUM) if family == Family::V6 => {
            let at: i32 =
                if len < 4 { return Err(Errno::EINVAL.into()) } else { ctx.process.memory.read_value(value)? };
            let is_icmp = i32::from(protocol) == IPPROTO_ICMPV6;
            // That of ICMPv6 lies where it lies, which the RFC forbids to say at one level alone
            // (rawv6_setsockopt).
            if (is_icmp && level == SOL_IPV6) || (at > 0 && at % 2 != 0) {
                return Err(Errno::EINVAL.into());
            }
            if !is_icmp {
                ctx.kernel.net.stack.set_checksum_at(id, u16::try_from(at).ok()).map_err(errno)?;
            }
        }
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}

/// getsockopt(2).
pub(super) fn answer(ctx: &mut Ctx<'_>, socket: &InetSocket, level: i32, option: i32) -> Result<Answer, Errno> {
    let (id, family) = (socket.id, socket.family);
    let Kind::Raw(protocol) = socket.kind else { return Err(Errno::ENOPROTOOPT) };
    let is_icmp = i32::from(protocol) == if family == Family::V4 { IPPROTO_ICMP } else { IPPROTO_ICMPV6 };
    let stack = &mut ctx.kernel.net.stack;
    match (level, option, family) {
        (SOL_RAW, ICMP_FILTER, Family::V4) if is_icmp => {
            Ok(Answer::from_slice(&stack.blocked_types(id).map_err(errno)?.as_bytes()[..4]))
        }
        (SOL_ICMPV6, ICMP_FILTER, Family::V6) if is_icmp => {
            Ok(Answer::from_slice(stack.blocked_types(id).map_err(errno)?.as_bytes()))
        }
        (SOL_RAW, ICMP_FILTER, Family::V4) => Err(Errno::EOPNOTSUPP),
        (SOL_IP, IP_HDRINCL, _) => Ok(number(stack.header_included(id).map_err(errno)?.into())),
        (SOL_RAW | SOL_IPV6, IPV6_CHECKSUM, Family::V6) => {
            // In ICMPv6 it is the second word.
            let known = if is_icmp { Some(2) } else { stack.checksum_at(id).map_err(errno)? };
            Ok(number(known.map_or(-1, i32::from)))
        }
        _ => Err(Errno::ENOPROTOOPT),
    }
}
