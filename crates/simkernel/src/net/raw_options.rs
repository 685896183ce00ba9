//! Options of raw sockets (raw(7), icmp(7), RFC 3542): which types of ICMP messages they hear, and who writes IP headers.

use super::errno;
use super::inet::Kind;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::socket::*;
use tcpip::Family;

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
        // The checksum of ICMPv6 lies where it is told already (rawv6_setsockopt).
        (SOL_RAW, IPV6_CHECKSUM) if family == Family::V6 => {}
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}
