//! System V shared memory: shmget, shmat, shmdt, shmctl.

use crate::ctx::Ctx;
use crate::ipc::segments::{self, BYTES_MAX, PAGE, SEGMENTS_MAX};
use crate::ipc::{self, Keyed, READ, WRITE};
use crate::outcome::SysResult;
use guest::{AddressSpace, Backing, MapRequest, Marks, PROT_EXEC, PROT_READ, PROT_WRITE, VmaKind};
use linux_abi::Errno;
use linux_abi::capability::{CAP_IPC_OWNER, CAP_SYS_ADMIN, CAP_SYS_RESOURCE};
use linux_abi::ipc::*;

/// shmget(2).
pub(super) fn shmget(ctx: &mut Ctx<'_>, [key, bytes, flags, ..]: [u64; 6]) -> SysResult {
    let (key, flags) = (key as i32, flags as u32);
    collect(ctx);
    let caller = ctx.ipc_caller();
    let now = ctx.real_seconds();
    let segments = &mut ctx.kernel.ipc.segments;
    if let Some(id) = segments.ids.look_up(key, flags, caller, |segment| segment.data.shm_segsz >= bytes)? {
        return Ok(id as u64);
    }
    if bytes == 0 || bytes > BYTES_MAX {
        return Err(Errno::EINVAL.into());
    }
    if flags & SHM_HUGETLB != 0 {
        return Err(Errno::ENOMEM.into());
    }
    let id = segments.create(key, bytes, flags, caller, ctx.process.pid.0 as i32, now)?;
    Ok(id as u64)
}

/// shmat(2).
pub(super) fn shmat(ctx: &mut Ctx<'_>, [id, address, flags, ..]: [u64; 6]) -> SysResult {
    let (id, flags) = (id as i32, flags as u32);
    collect(ctx);
    if id < 0 {
        return Err(Errno::EINVAL.into());
    }
    let address = wanted_address(address, flags)?;
    let caller = ctx.ipc_caller();
    let writes = flags & SHM_RDONLY == 0;
    let executes = if flags & SHM_EXEC != 0 { 1 } else { 0 };
    let segment = ctx.kernel.ipc.segments.ids.get(id)?;
    ipc::check(segment.perm(), caller, READ | if writes { WRITE } else { 0 } | executes)?;
    let bytes = segment.pages() * PAGE;
    if address != 0 && flags & SHM_REMAP == 0 && ctx.process.memory.overlaps(address, bytes) {
        return Err(Errno::EINVAL.into());
    }
    super::memory::check_room(ctx, bytes, false)?;
    let request = MapRequest {
        hint: address,
        bytes,
        prot: PROT_READ | if writes { PROT_WRITE } else { 0 } | if flags & SHM_EXEC != 0 { PROT_EXEC } else { 0 },
        shared: true,
        fixed: address != 0,
        no_replace: false,
        backing: Backing::File { file: &segment.file, offset: 0, name: &segment.name() },
    };
    let start = ctx.process.memory.mmap(&mut ctx.kernel.region, &request).map_err(super::memory::errno)?;
    if !writes {
        ctx.process.memory.mark(start, bytes, Marks::NONE, Marks::NEVER_WRITTEN);
    }
    if flags & SHM_EXEC != 0 {
        ctx.note_code(start, bytes);
    }
    let object = ctx.process.memory.shared_identity(start).map(|(object, _)| object);
    let now = ctx.real_seconds();
    let segment = ctx.kernel.ipc.segments.ids.get_mut(id)?;
    segment.object = object;
    segment.data.shm_atime = now;
    segment.data.shm_lpid = ctx.process.pid.0 as i32;
    Ok(start)
}

/// The address that the caller asks for, 0 for any. EINVAL.
fn wanted_address(address: u64, flags: u32) -> Result<u64, Errno> {
    if address == 0 {
        return if flags & SHM_REMAP != 0 { Err(Errno::EINVAL) } else { Ok(0) };
    }
    if address.is_multiple_of(PAGE) {
        return Ok(address);
    }
    let rounded = address - address % PAGE;
    let possible = flags & SHM_RND != 0 && (rounded != 0 || flags & SHM_REMAP == 0);
    if possible { Ok(rounded) } else { Err(Errno::EINVAL) }
}

/// shmdt(2): everything that is left of the attachment that begins at the address.
pub(super) fn shmdt(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    let memory = &ctx.process.memory;
    let begins = |vma: &&guest::Vma| vma.shared && vma.start >= address && placed_at(vma) == Some(address);
    let object = memory
        .mappings()
        .filter(begins)
        .map(guest::Vma::object)
        .find(|object| ctx.kernel.ipc.segments.by_object(*object).is_some())
        .ok_or(Errno::EINVAL)?;
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL.into());
    }
    let parts: Vec<(u64, u64)> = memory
        .mappings()
        .filter(|vma| begins(vma) && vma.object() == object)
        .map(|vma| (vma.start, vma.end - vma.start))
        .collect();
    for (start, bytes) in parts {
        ctx.look_at_code(start, bytes);
        ctx.process.memory.munmap(start, bytes).map_err(super::memory::errno)?;
    }
    let (pid, now) = (ctx.process.pid.0 as i32, ctx.real_seconds());
    if let Some(segment) = ctx.kernel.ipc.segments.by_object(object) {
        (segment.data.shm_lpid, segment.data.shm_dtime) = (pid, now);
    }
    collect(ctx);
    Ok(0)
}

/// Where the whole of what a mapping shows a part of would begin.
fn placed_at(vma: &guest::Vma) -> Option<u64> {
    let VmaKind::File { offset, .. } = vma.kind else { return None };
    vma.start.checked_sub(offset)
}

/// Segments that were removed go with their last attachment.
fn collect(ctx: &mut Ctx<'_>) {
    if ctx.kernel.ipc.segments.ids.iter().any(|(_, segment)| segment.is_removed()) {
        let spaces = spaces(&ctx.kernel.shared, &ctx.process.memory);
        ctx.kernel.ipc.segments.collect(spaces);
    }
}

/// All address spaces of the host, of which the caller's is not in its pool.
fn spaces<'a>(
    shared: &'a crate::shared::Shared,
    own: &'a AddressSpace,
) -> impl Iterator<Item = &'a AddressSpace> + Clone {
    shared.spaces.iter().filter_map(|space| space.as_deref()).chain(std::iter::once(own))
}

/// shmctl(2).
pub(super) fn shmctl(ctx: &mut Ctx<'_>, [id, command, address, ..]: [u64; 6]) -> SysResult {
    let (id, command) = (id as i32, command as i32);
    if id < 0 || command < 0 {
        return Err(Errno::EINVAL.into());
    }
    collect(ctx);
    match command {
        IPC_INFO => limits(ctx, address),
        SHM_INFO => usage(ctx, address),
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => describe(ctx, id, command, address),
        IPC_SET | IPC_RMID | SHM_LOCK | SHM_UNLOCK => change(ctx, id, command, address),
        _ => Err(Errno::EINVAL.into()),
    }
}

fn limits(ctx: &Ctx<'_>, address: u64) -> SysResult {
    let info = Shminfo {
        shmmax: BYTES_MAX,
        shmmin: 1,
        shmmni: SEGMENTS_MAX as u64,
        shmseg: SEGMENTS_MAX as u64,
        shmall: BYTES_MAX,
        ..Shminfo::default()
    };
    ctx.process.memory.write_value(address, &info)?;
    Ok(ctx.kernel.ipc.segments.ids.highest().into())
}

fn usage(ctx: &Ctx<'_>, address: u64) -> SysResult {
    let ids = &ctx.kernel.ipc.segments.ids;
    let pages = ids.iter().map(|(_, segment)| segment.pages()).sum();
    let info = ShmInfo { used_ids: ids.len() as i32, shm_tot: pages, shm_rss: pages, ..ShmInfo::default() };
    ctx.process.memory.write_value(address, &info)?;
    Ok(ids.highest().into())
}

fn describe(ctx: &mut Ctx<'_>, id: i32, command: i32, address: u64) -> SysResult {
    let ids = &ctx.kernel.ipc.segments.ids;
    let (id, segment) = if command == IPC_STAT { (id, ids.get(id)?) } else { ids.at_place(id)? };
    if command != SHM_STAT_ANY {
        ipc::check(segment.perm(), ctx.ipc_caller(), READ)?;
    }
    let mut data = segment.data;
    data.shm_nattch = segments::attachments(segment, spaces(&ctx.kernel.shared, &ctx.process.memory));
    ctx.process.memory.write_value(address, &data)?;
    Ok(if command == IPC_STAT { 0 } else { id as u64 })
}

fn change(ctx: &mut Ctx<'_>, id: i32, command: i32, address: u64) -> SysResult {
    let wanted: ShmidDs = if command == IPC_SET { ctx.process.memory.read_value(address)? } else { ShmidDs::default() };
    let (caller, now) = (ctx.ipc_caller(), ctx.real_seconds());
    let segment = ctx.kernel.ipc.segments.ids.get_mut(id)?;
    ipc::check_owner(segment.perm(), caller)?;
    match command {
        IPC_SET => {
            ipc::set_perm(segment.perm_mut(), &wanted.shm_perm);
            segment.data.shm_ctime = now;
        }
        SHM_LOCK => segment.data.shm_perm.mode |= SHM_LOCKED,
        SHM_UNLOCK => segment.data.shm_perm.mode &= !SHM_LOCKED,
        _ => {
            // Its key is free for another one at once.
            segment.data.shm_perm.mode |= SHM_DEST;
            segment.data.shm_perm.key = IPC_PRIVATE;
            collect(ctx);
        }
    }
    Ok(0)
}

impl Ctx<'_> {
    /// Whose rights decide about System V objects and POSIX queues.
    pub(crate) fn ipc_caller(&self) -> ipc::Caller {
        let who = self.credentials();
        ipc::Caller {
            uid: who.user.effective,
            gid: who.group.effective,
            owns_all: who.can(CAP_IPC_OWNER),
            administers: who.can(CAP_SYS_ADMIN),
            exceeds_limits: who.can(CAP_SYS_RESOURCE),
        }
    }
}
