//! Users, groups and capabilities: the calls that ask for and change them. The rules stand in `crate::credentials`.

use crate::credentials::{Capabilities, Change, Credentials, Ids, capability_bit};
use crate::ctx::Ctx;
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::capability::*;

/// setgroups(2).
const GROUPS_MAX: i32 = 65_536;

/// An id argument of which -1 means "as it is".
fn optional(id: u64) -> Option<u32> {
    let id = id as u32;
    (id != u32::MAX).then_some(id)
}

/// An id argument. EINVAL for -1, which is nobody's.
fn valid(id: u64) -> Result<u32, Errno> {
    optional(id).ok_or(Errno::EINVAL)
}

fn adopt(ctx: &mut Ctx<'_>, new: Credentials) -> SysResult {
    if new != *ctx.credentials() {
        ctx.set_credentials(new);
    }
    Ok(0)
}

/// getuid(2).
pub(super) fn getuid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.credentials().user.real.into())
}

/// geteuid(2).
pub(super) fn geteuid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.credentials().user.effective.into())
}

/// getgid(2).
pub(super) fn getgid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.credentials().group.real.into())
}

/// getegid(2).
pub(super) fn getegid(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Ok(ctx.credentials().group.effective.into())
}

/// getresuid(2).
pub(super) fn getresuid(ctx: &mut Ctx<'_>, [real, effective, saved, ..]: [u64; 6]) -> SysResult {
    let ids = ctx.credentials().user;
    write_ids(ctx, ids, [real, effective, saved])
}

/// getresgid(2).
pub(super) fn getresgid(ctx: &mut Ctx<'_>, [real, effective, saved, ..]: [u64; 6]) -> SysResult {
    let ids = ctx.credentials().group;
    write_ids(ctx, ids, [real, effective, saved])
}

fn write_ids(ctx: &mut Ctx<'_>, ids: Ids, addresses: [u64; 3]) -> SysResult {
    for (address, id) in addresses.into_iter().zip([ids.real, ids.effective, ids.saved]) {
        ctx.process.memory.write_value(address, &id)?;
    }
    Ok(0)
}

fn change_user(ctx: &mut Ctx<'_>, change: Change) -> SysResult {
    let new = ctx.credentials().change_user(change)?;
    adopt(ctx, new)
}

fn change_group(ctx: &mut Ctx<'_>, change: Change) -> SysResult {
    let new = ctx.credentials().change_group(change)?;
    adopt(ctx, new)
}

/// setuid(2).
pub(super) fn setuid(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    change_user(ctx, Change::One(valid(id)?))
}

/// setreuid(2).
pub(super) fn setreuid(ctx: &mut Ctx<'_>, [real, effective, ..]: [u64; 6]) -> SysResult {
    change_user(ctx, Change::Pair([real, effective].map(optional)))
}

/// setresuid(2).
pub(super) fn setresuid(ctx: &mut Ctx<'_>, [real, effective, saved, ..]: [u64; 6]) -> SysResult {
    change_user(ctx, Change::Three([real, effective, saved].map(optional)))
}

/// setgid(2).
pub(super) fn setgid(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    change_group(ctx, Change::One(valid(id)?))
}

/// setregid(2).
pub(super) fn setregid(ctx: &mut Ctx<'_>, [real, effective, ..]: [u64; 6]) -> SysResult {
    change_group(ctx, Change::Pair([real, effective].map(optional)))
}

/// setresgid(2).
pub(super) fn setresgid(ctx: &mut Ctx<'_>, [real, effective, saved, ..]: [u64; 6]) -> SysResult {
    change_group(ctx, Change::Three([real, effective, saved].map(optional)))
}

/// setfsuid(2): the old id, whether it changed or not.
pub(super) fn setfsuid(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    let old = ctx.credentials().user.fs;
    if let Some(new) = optional(id).and_then(|id| ctx.credentials().change_file_user(id)) {
        adopt(ctx, new)?;
    }
    Ok(old.into())
}

/// setfsgid(2): the old id, whether it changed or not.
pub(super) fn setfsgid(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    let old = ctx.credentials().group.fs;
    if let Some(new) = optional(id).and_then(|id| ctx.credentials().change_file_group(id)) {
        adopt(ctx, new)?;
    }
    Ok(old.into())
}

/// getgroups(2).
pub(super) fn getgroups(ctx: &mut Ctx<'_>, [size, list, ..]: [u64; 6]) -> SysResult {
    let size = size as i32;
    let groups = &ctx.credentials().groups;
    let count = groups.len();
    if size < 0 || (size > 0 && (size as usize) < count) {
        return Err(Errno::EINVAL.into());
    }
    if size > 0 && count > 0 {
        let bytes: Vec<u8> = groups.iter().flat_map(|group| group.to_ne_bytes()).collect();
        ctx.process.memory.write(list, &bytes)?;
    }
    Ok(count as u64)
}

/// setgroups(2).
pub(super) fn setgroups(ctx: &mut Ctx<'_>, [size, list, ..]: [u64; 6]) -> SysResult {
    ctx.credentials().demand(CAP_SETGID)?;
    let size = size as i32;
    if !(0..=GROUPS_MAX).contains(&size) {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = vec![0; size as usize * 4];
    if size > 0 {
        ctx.process.memory.read(list, &mut bytes)?;
    }
    let groups: Vec<u32> = bytes.chunks_exact(4).map(|id| u32::from_ne_bytes([id[0], id[1], id[2], id[3]])).collect();
    if groups.contains(&u32::MAX) {
        return Err(Errno::EINVAL.into());
    }
    let new = ctx.credentials().change_groups(groups)?;
    adopt(ctx, new)
}

/// The header of capget(2) and capset(2): the thread, and how many words each set has. EINVAL for an unknown version, with the one
/// that the kernel prefers in its place.
fn header(ctx: &mut Ctx<'_>, address: u64) -> Result<(i32, usize), crate::Outcome> {
    let header: CapHeader = ctx.process.memory.read_value(address)?;
    let words = match header.version {
        _LINUX_CAPABILITY_VERSION_1 => 1,
        _LINUX_CAPABILITY_VERSION_2 | _LINUX_CAPABILITY_VERSION_3 => 2,
        _ => {
            ctx.process.memory.write_value(address, &_LINUX_CAPABILITY_VERSION_3)?;
            return Err(Errno::EINVAL.into());
        }
    };
    Ok((header.pid, words))
}

/// capget(2).
pub(super) fn capget(ctx: &mut Ctx<'_>, [address, data, ..]: [u64; 6]) -> SysResult {
    let (tid, words) = match header(ctx, address) {
        Err(crate::Outcome::Errno(Errno::EINVAL)) if data == 0 => return Ok(0),
        header => header?,
    };
    if data == 0 {
        return Ok(0);
    }
    if tid < 0 {
        return Err(Errno::EINVAL.into());
    }
    let own = tid == 0 || tid as u32 == ctx.thread.tid.0;
    let set = match own {
        true => ctx.credentials().capabilities,
        // Who started the host, and is no program.
        false if tid == 1 => Capabilities::ROOT,
        false => match ctx.kernel.threads.get(tid as u32) {
            Some(thread) => thread.credentials.capabilities,
            // A process that has ended and is not waited for yet.
            None => ctx.kernel.processes.get(tid as u32).ok_or(Errno::ESRCH)?.credentials.capabilities,
        },
    };
    for word in 0..words {
        let part = |bits: u64| (bits >> (32 * word)) as u32;
        let value = CapData {
            effective: part(set.effective),
            permitted: part(set.permitted),
            inheritable: part(set.inheritable),
        };
        ctx.process.memory.write_value(data + 12 * word as u64, &value)?;
    }
    Ok(0)
}

/// capset(2), of the calling thread.
pub(super) fn capset(ctx: &mut Ctx<'_>, [address, data, ..]: [u64; 6]) -> SysResult {
    let (tid, words) = header(ctx, address)?;
    if tid != 0 && tid as u32 != ctx.thread.tid.0 {
        return Err(Errno::EPERM.into());
    }
    let (mut effective, mut permitted, mut inheritable) = (0, 0, 0);
    for word in 0..words {
        let value: CapData = ctx.process.memory.read_value(data + 12 * word as u64)?;
        effective |= u64::from(value.effective) << (32 * word);
        permitted |= u64::from(value.permitted) << (32 * word);
        inheritable |= u64::from(value.inheritable) << (32 * word);
    }
    let all = crate::credentials::ALL_CAPABILITIES;
    let new = ctx.credentials().change_capabilities(effective & all, permitted & all, inheritable & all)?;
    adopt(ctx, new)
}

/// prctl(2), PR_CAPBSET_READ.
pub(super) fn bounding(ctx: &Ctx<'_>, capability: u64) -> SysResult {
    let bit = capability_bit(capability)?;
    Ok((ctx.credentials().capabilities.bounding & bit != 0).into())
}

/// prctl(2), PR_CAPBSET_DROP.
pub(super) fn drop_bounding(ctx: &mut Ctx<'_>, capability: u64) -> SysResult {
    let new = ctx.credentials().drop_bounding(capability)?;
    adopt(ctx, new)
}

/// prctl(2), PR_SET_KEEPCAPS.
pub(super) fn set_keep(ctx: &mut Ctx<'_>, keep: u64) -> SysResult {
    if keep > 1 {
        return Err(Errno::EINVAL.into());
    }
    let new = ctx.credentials().keep_capabilities(keep == 1)?;
    adopt(ctx, new)
}

/// prctl(2), PR_SET_SECUREBITS.
pub(super) fn set_securebits(ctx: &mut Ctx<'_>, bits: u64) -> SysResult {
    let new = ctx.credentials().change_securebits(bits)?;
    adopt(ctx, new)
}

/// prctl(2), PR_CAP_AMBIENT.
pub(super) fn ambient(ctx: &mut Ctx<'_>, [command, capability, rest @ ..]: [u64; 4]) -> SysResult {
    if rest != [0, 0] {
        return Err(Errno::EINVAL.into());
    }
    if command as u32 == PR_CAP_AMBIENT_IS_SET {
        let bit = capability_bit(capability)?;
        return Ok((ctx.credentials().capabilities.ambient & bit != 0).into());
    }
    let new = ctx.credentials().change_ambient(command as u32, capability)?;
    adopt(ctx, new)
}
