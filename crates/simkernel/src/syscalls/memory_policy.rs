//! set_mempolicy(2) and its like: policies are checked, kept per thread and told.

use super::system::{known_thread, named_process};
use crate::ctx::Ctx;
use crate::memory_policy::{MemoryPolicy, NODES};
use crate::outcome::{Outcome, SysResult};
use guest::PAGE;
use linux_abi::Errno;

/// Flags of get_mempolicy(2).
const MPOL_F_NODE: u64 = 1;
const MPOL_F_ADDR: u64 = 2;
const MPOL_F_MEMS_ALLOWED: u64 = 4;
/// Masks of nodes have at most so many bits.
const MASK_BITS: u64 = PAGE * 8;
/// The nodes that a program names, `bits - 1` of them (`get_nodes`). EINVAL for a mask of no size, EFAULT.
fn read_nodes(ctx: &Ctx<'_>, mask: u64, bits: u64) -> Result<u64, Outcome> {
    let bits = bits.wrapping_sub(1);
    if bits == 0 || mask == 0 {
        return Ok(0);
    }
    if bits > MASK_BITS {
        return Err(Errno::EINVAL.into());
    }
    let mut nodes = 0;
    for word in 0..bits.div_ceil(64) {
        let value: u64 = ctx.process.memory.read_value(mask + 8 * word)?;
        let counts = bits - 64 * word;
        let value = if counts < 64 { value & ((1 << counts) - 1) } else { value };
        match word {
            0 => nodes = value,
            // No kernel has that many.
            _ if value != 0 => return Err(Errno::EINVAL.into()),
            _ => {}
        }
    }
    Ok(nodes)
}

/// set_mempolicy(2).
pub(super) fn set_mempolicy(ctx: &mut Ctx<'_>, [mode, mask, bits, ..]: [u64; 6]) -> SysResult {
    let nodes = read_nodes(ctx, mask, bits)?;
    ctx.thread.memory_policy = MemoryPolicy::new(mode, nodes)?;
    Ok(0)
}

/// mbind(2): checked, and not kept.
pub(super) fn mbind(ctx: &mut Ctx<'_>, [address, bytes, mode, mask, bits, _]: [u64; 6]) -> SysResult {
    let nodes = read_nodes(ctx, mask, bits)?;
    MemoryPolicy::new(mode, nodes)?;
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL.into());
    }
    if ctx.process.memory.is_mapped(address, bytes) { Ok(0) } else { Err(Errno::EFAULT.into()) }
}

/// get_mempolicy(2): the thread's policy; that of memory is always the default, on node 0.
pub(super) fn get_mempolicy(ctx: &mut Ctx<'_>, [mode, mask, bits, address, flags, _]: [u64; 6]) -> SysResult {
    let known = flags & !(MPOL_F_NODE | MPOL_F_ADDR | MPOL_F_MEMS_ALLOWED) == 0;
    let alone = flags & MPOL_F_MEMS_ALLOWED == 0 || flags == MPOL_F_MEMS_ALLOWED;
    if !known || !alone || (address != 0 && flags & MPOL_F_ADDR == 0) || (mask != 0 && bits == 0) {
        return Err(Errno::EINVAL.into());
    }
    if flags & MPOL_F_ADDR != 0 && !ctx.process.memory.is_mapped(address, 1) {
        return Err(Errno::EFAULT.into());
    }
    let own = ctx.thread.memory_policy;
    let told = match flags {
        MPOL_F_MEMS_ALLOWED => MemoryPolicy { mode: 0, nodes: NODES },
        // The node that memory comes from next.
        MPOL_F_NODE if own.interleaves() => MemoryPolicy { mode: 0, nodes: own.nodes },
        MPOL_F_NODE => return Err(Errno::EINVAL.into()),
        0 => own,
        _ => MemoryPolicy::default(),
    };
    if mode != 0 {
        ctx.process.memory.write_value(mode, &told.mode)?;
    }
    if mask != 0 {
        for word in 0..bits.div_ceil(64) {
            let value = if word == 0 { told.nodes } else { 0 };
            ctx.process.memory.write_value(mask + 8 * word, &value)?;
        }
    }
    Ok(0)
}

/// migrate_pages(2): all pages are where they can be.
pub(super) fn migrate_pages(ctx: &mut Ctx<'_>, [pid, ..]: [u64; 6]) -> SysResult {
    known_thread(ctx, pid)?;
    Ok(0)
}

/// move_pages(2): says that each page is on node 0, or EFAULT in its status.
pub(super) fn move_pages(ctx: &mut Ctx<'_>, [pid, count, pages, nodes, status, _]: [u64; 6]) -> SysResult {
    named_process(ctx, pid)?;
    for index in 0..count {
        let page: u64 = ctx.process.memory.read_value(pages + 8 * index)?;
        let wanted: i32 = if nodes == 0 { 0 } else { ctx.process.memory.read_value(nodes + 4 * index)? };
        if wanted != 0 {
            return Err(Errno::ENODEV.into());
        }
        let there = ctx.process.memory.is_mapped(page, 1);
        let value = if there { 0 } else { -Errno::EFAULT.raw() };
        ctx.process.memory.write_value(status + 4 * index, &value)?;
    }
    Ok(0)
}
