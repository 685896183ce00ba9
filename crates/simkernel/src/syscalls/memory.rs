//! mmap, munmap, mprotect, mremap, brk, madvise and their relatives: arguments checked here, book kept by `guest::AddressSpace`.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::outcome::SysResult;
use guest::{Backing, MapError, MapRequest, Marks, MoveRequest, PAGE, USER_END, VmaKind};
use linux_abi::capability::CAP_IPC_LOCK;
use linux_abi::fs::{F_SEAL_FUTURE_WRITE, F_SEAL_WRITE, O_PATH};
use linux_abi::mm::*;
use linux_abi::sysinfo::{RLIM_INFINITY, RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK};
use linux_abi::{Errno, nr};

pub(super) fn errno(error: MapError) -> Errno {
    match error {
        MapError::Invalid => Errno::EINVAL,
        MapError::NoMemory if guest::mappings_ran_out() => crate::machine::no_mappings(),
        MapError::NoMemory => Errno::ENOMEM,
        MapError::Exists => Errno::EEXIST,
        MapError::Access => Errno::EACCES,
        MapError::Fault => Errno::EFAULT,
        MapError::NotPermitted => Errno::EPERM,
    }
}

/// mmap(2).
pub(super) fn mmap(ctx: &mut Ctx<'_>, [address, bytes, prot, flags, fd, offset]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    let kind = flags & MAP_TYPE;
    if offset % PAGE != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = if flags & MAP_ANONYMOUS != 0 { None } else { Some(ctx.file(fd & 0xffff_ffff)?) };
    if file.is_some_and(|file| ctx.kernel.files[file].status & O_PATH != 0) {
        return Err(Errno::EBADF.into());
    }
    if bytes == 0 {
        return Err(Errno::EINVAL.into());
    }
    // The place is looked at before the kind (`do_mmap`).
    demand_place(ctx, address, bytes, flags)?;
    if let Some(file) = file {
        demand_place_in_file(ctx, file, bytes, offset)?;
    }
    let known = matches!(kind, MAP_SHARED | MAP_PRIVATE) || (kind == MAP_SHARED_VALIDATE && file.is_some());
    if !known {
        return Err(Errno::EINVAL.into());
    }
    if file.is_none() && kind == MAP_SHARED && flags & MAP_GROWSDOWN != 0 {
        return Err(Errno::EINVAL.into());
    }
    if kind == MAP_SHARED_VALIDATE && flags & !(MAP_LEGACY | MAP_SHARED_VALIDATE) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if flags & MAP_HUGETLB != 0 {
        return Err(Errno::ENOMEM.into());
    }
    let shared = kind != MAP_PRIVATE;
    let writable = prot & u64::from(PROT_WRITE) != 0;
    check_room(ctx, bytes, !shared && writable)?;
    if writable && (!shared || flags & MAP_ANONYMOUS != 0) {
        ctx.demand_growth(bytes, flags & MAP_NORESERVE != 0)?;
    }
    let request = MapRequest {
        hint: address,
        bytes,
        prot: (prot & 7) as u8,
        shared,
        fixed: flags & MAP_FIXED != 0,
        no_replace: flags & MAP_FIXED_NOREPLACE != 0,
        backing: match flags {
            _ if flags & MAP_GROWSDOWN != 0 => Backing::Growing,
            _ if flags & MAP_STACK != 0 && prot & 7 == 0 => Backing::Stack,
            _ => Backing::Anonymous,
        },
    };
    let locks = flags & MAP_LOCKED != 0 || ctx.process.locked.future;
    if locks {
        demand_lock_room(ctx, bytes, Errno::EAGAIN)?;
    }
    if request.fixed {
        ctx.look_at_code(address, bytes);
    }
    let start = match file {
        Some(file) => map_file(ctx, file, request, offset)?,
        None => ctx.process.memory.mmap(&mut ctx.kernel.region, &request).map_err(errno)?,
    };
    let end = start + bytes.next_multiple_of(PAGE);
    if locks {
        set_locked(ctx, start, end, Marks::LOCKED);
    } else {
        ctx.process.locked.remove(start, end);
    }
    if prot & u64::from(PROT_EXEC) != 0 {
        ctx.note_code(start, bytes);
    }
    Ok(start)
}

/// The place that a mapping asks for. EINVAL, EEXIST, ENOMEM.
fn demand_place(ctx: &mut Ctx<'_>, address: u64, bytes: u64, flags: u32) -> Result<(), Errno> {
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0 {
        return if flags & MAP_32BIT != 0 { Err(refuse_low_memory(ctx)) } else { Ok(()) };
    }
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE)).ok_or(Errno::ENOMEM)?;
    let is_taken = ctx.process.memory.mappings().any(|vma| vma.start < end && address < vma.end);
    if flags & MAP_FIXED_NOREPLACE != 0 && is_taken { Err(Errno::EEXIST) } else { Ok(()) }
}

/// Whether the process may map so many bytes more; `data` if they are private and writable. ENOMEM past RLIMIT_AS or RLIMIT_DATA.
pub(super) fn check_room(ctx: &Ctx<'_>, bytes: u64, data: bool) -> Result<(), Errno> {
    let within = |limit: u64, counts: fn(&guest::Vma) -> bool| {
        limit == RLIM_INFINITY || {
            let counted = ctx.process.memory.mappings().filter(|vma| counts(vma));
            counted.map(|vma| vma.end - vma.start).sum::<u64>().saturating_add(bytes) <= limit
        }
    };
    let limits = &ctx.process.limits;
    let fits = within(limits.soft(RLIMIT_AS), |_| true)
        && (!data || within(limits.soft(RLIMIT_DATA), |vma| !vma.shared && vma.prot & guest::PROT_WRITE != 0));
    if fits { Ok(()) } else { Err(Errno::ENOMEM) }
}

/// mincore(2): whatever is mapped counts as present.
pub(super) fn mincore(ctx: &mut Ctx<'_>, [address, bytes, vector, ..]: [u64; 6]) -> SysResult {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL.into());
    }
    let whole = bytes.checked_next_multiple_of(PAGE).filter(|whole| address.checked_add(*whole).is_some());
    let whole = whole.filter(|whole| ctx.process.memory.is_mapped(address, *whole)).ok_or(Errno::ENOMEM)?;
    ctx.process.memory.write(vector, &vec![1; (whole / PAGE) as usize])?;
    Ok(0)
}

/// mseal(2).
pub(super) fn mseal(ctx: &mut Ctx<'_>, [address, bytes, flags, ..]: [u64; 6]) -> SysResult {
    if flags != 0 || !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL.into());
    }
    let bytes = bytes.checked_next_multiple_of(PAGE).filter(|bytes| address.checked_add(*bytes).is_some());
    let bytes = bytes.ok_or(Errno::EINVAL)?;
    ctx.process.memory.seal(address, bytes).map(|()| 0).map_err(|e| errno(e).into())
}

/// MAP_32BIT: no memory is free below 2 GiB, where nothing but programs at fixed addresses lies.
#[cold]
fn refuse_low_memory(ctx: &mut Ctx<'_>) -> Errno {
    const LOW: u64 = 1 << 32;
    if ctx.process.reported.insert(u64::from(nr::mmap) | LOW) {
        ctx.report(
            "mmap with MAP_32BIT answered ENOMEM: no guest has memory below 2 GiB but what its program is linked to"
                .to_owned(),
        );
    }
    Errno::ENOMEM
}

/// What is mapped of a file ends where a file can end (`file_mmap_ok`). ENOMEM, EOVERFLOW.
fn demand_place_in_file(ctx: &Ctx<'_>, file: crate::FileId, bytes: u64, offset: u64) -> Result<(), Errno> {
    let kind = &ctx.kernel.files[file].kind;
    let is_regular = matches!(kind, FileKind::Regular(_) | FileKind::Output(_) | FileKind::Snapshot(_));
    let longest = if is_regular { i64::MAX as u64 } else { u64::MAX };
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
    let last = longest.checked_sub(bytes).ok_or(Errno::EOVERFLOW)?;
    if offset / PAGE > last / PAGE { Err(Errno::EOVERFLOW) } else { Ok(()) }
}

/// Maps an open file, after what `do_mmap` looks at. EACCES, EPERM, ENODEV, EINVAL.
fn map_file(ctx: &mut Ctx<'_>, file: crate::FileId, request: MapRequest<'_>, offset: u64) -> SysResult {
    let open = &ctx.kernel.files[file];
    let writes = request.shared && request.prot & guest::PROT_WRITE != 0;
    if !open.readable() || (writes && !open.writable()) {
        return Err(Errno::EACCES.into());
    }
    if request.prot & guest::PROT_EXEC != 0 && !open.kind.is_executable() {
        return Err(Errno::EPERM.into());
    }
    let is_socket = crate::net::is_socket(&open.kind);
    if !is_socket && !open.kind.is_mappable() {
        let is_of_system = matches!(&open.kind, FileKind::Snapshot(shown) if shown.is_of_system());
        return Err(if is_of_system { Errno::EIO } else { Errno::ENODEV }.into());
    }
    if matches!(request.backing, Backing::Growing) {
        return Err(Errno::EINVAL.into());
    }
    if is_socket {
        demand_socket_mapping(ctx, file, &request)?;
    }
    if writes && is_sealed(ctx, file) {
        return Err(Errno::EPERM.into());
    }
    let never_written = request.shared && !ctx.kernel.files[file].writable();
    let source = ctx.kernel.mapping_source(file)?;
    let memory = &mut ctx.process.memory;
    let region = &mut ctx.kernel.region;
    let result = match &source {
        crate::files::MappingSource::Real { file, name } => {
            memory.mmap(region, &MapRequest { backing: Backing::File { file, offset, name }, ..request })
        }
        crate::files::MappingSource::Bytes { bytes, name } => {
            let start = (offset as usize).min(bytes.len());
            memory.mmap(region, &MapRequest { backing: Backing::Bytes { bytes: &bytes[start..], name }, ..request })
        }
        crate::files::MappingSource::Zero => memory.mmap(region, &request),
    };
    let start = result.map_err(errno)?;
    ctx.kernel.note_access(file, request.bytes as usize);
    if never_written {
        // The real file may be open for more than the guest's is.
        memory.mark(start, request.bytes, Marks::NONE, Marks::NEVER_WRITTEN);
    }
    Ok(start)
}

/// Sockets of TCP can be mapped for reading (`tcp_mmap`), which shows nothing until TCP_ZEROCOPY_RECEIVE, others cannot. Sockets are asked once
/// what was there before is gone (`mmap_region`). ENODEV, EPERM.
fn demand_socket_mapping(ctx: &mut Ctx<'_>, file: crate::FileId, request: &MapRequest<'_>) -> Result<(), Errno> {
    let is_tcp = matches!(&ctx.kernel.files[file].kind, FileKind::Inet(socket) if socket.is_stream);
    if is_tcp && request.prot & guest::PROT_WRITE == 0 {
        return Ok(());
    }
    if request.fixed {
        munmap(ctx, [request.hint, request.bytes, 0, 0, 0, 0]).map_err(|_| Errno::ENOMEM)?;
    }
    Err(if is_tcp { Errno::EPERM } else { Errno::ENODEV })
}

/// Whether a memfd takes no writes any more.
fn is_sealed(ctx: &mut Ctx<'_>, file: crate::FileId) -> bool {
    let FileKind::Regular(regular) = &ctx.kernel.files[file].kind else { return false };
    regular.is_memory() && ctx.kernel.seals(file).is_ok_and(|seals| seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE) != 0)
}

/// munmap(2).
pub(super) fn munmap(ctx: &mut Ctx<'_>, [address, bytes, ..]: [u64; 6]) -> SysResult {
    ctx.look_at_code(address, bytes);
    ctx.process.gives_up(bytes);
    ctx.process.memory.munmap(address, bytes).map_err(errno)?;
    ctx.process.locked.remove(address, address.saturating_add(page_align(bytes)));
    Ok(0)
}

/// mprotect(2).
pub(super) fn mprotect(ctx: &mut Ctx<'_>, [address, bytes, prot, ..]: [u64; 6]) -> SysResult {
    let grows = prot & u64::from(PROT_GROWSDOWN | PROT_GROWSUP);
    if grows == u64::from(PROT_GROWSDOWN | PROT_GROWSUP) || address % PAGE != 0 {
        return Err(Errno::EINVAL.into());
    }
    if bytes == 0 {
        return Ok(0);
    }
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
    let end = address.checked_add(bytes).ok_or(Errno::ENOMEM)?;
    if prot & !grows & !u64::from(PROT_READ | PROT_WRITE | PROT_EXEC | PROT_SEM) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let (address, bytes) = match grows {
        0 => (address, bytes),
        _ => down_to_stack_start(ctx, address, end, grows)?,
    };
    if prot & u64::from(PROT_WRITE) != 0 {
        ctx.demand_growth(bytes, true)?;
    }
    // What loses the right to be executed may have been.
    ctx.look_at_code(address, bytes);
    ctx.process.memory.mprotect(address, bytes, (prot & 7) as u8).map_err(errno)?;
    if prot & u64::from(PROT_EXEC) != 0 {
        ctx.note_code(address, bytes);
    }
    Ok(0)
}

/// PROT_GROWSDOWN: a range from the stack's lowest address on. EINVAL for what does not grow; upwards nothing does.
fn down_to_stack_start(ctx: &Ctx<'_>, address: u64, end: u64, grows: u64) -> Result<(u64, u64), Errno> {
    let mut mappings = ctx.process.memory.mappings();
    let first = mappings.find(|vma| address < vma.end).filter(|vma| vma.start < end).ok_or(Errno::ENOMEM)?;
    if grows == u64::from(PROT_GROWSUP) {
        return Err(if first.start > address { Errno::ENOMEM } else { Errno::EINVAL });
    }
    let grows = first.kind == VmaKind::Stack || first.grows();
    if grows { Ok((first.start, end - first.start)) } else { Err(Errno::EINVAL) }
}

/// mremap(2).
pub(super) fn mremap(ctx: &mut Ctx<'_>, [old, old_bytes, new_bytes, flags, to, _]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags & !(MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let to = (flags & MREMAP_FIXED != 0).then_some(to);
    let (old_bytes, new_bytes) = (page_align(old_bytes), page_align(new_bytes));
    // Since Linux 6.17 (`check_mremap_params`).
    if new_bytes > USER_END {
        return Err(Errno::EINVAL.into());
    }
    let request = MoveRequest {
        old,
        old_bytes,
        new_bytes,
        may_move: flags & MREMAP_MAYMOVE != 0,
        keep: flags & MREMAP_DONTUNMAP != 0,
        to,
    };
    let more = new_bytes.saturating_sub(old_bytes);
    check_room(ctx, more, false)?;
    if more > 0 && ctx.process.locked.within(old, old.saturating_add(1)) > 0 {
        demand_lock_room(ctx, more, Errno::EAGAIN).map_err(|_| Errno::EAGAIN)?;
    }
    ctx.demand_growth(more, false)?;
    let old_end = old.saturating_add(old_bytes);
    // What it covers goes, and what is cut off.
    if let Some(to) = to {
        ctx.look_at_code(to, new_bytes);
    }
    ctx.look_at_code(old, old_bytes);
    let locked: Vec<(u64, u64)> = ctx.process.locked.parts(old, old_end).collect();
    let start = ctx.process.memory.mremap(&mut ctx.kernel.region, &request).map_err(errno)?;
    ctx.process.locked.remove(old, old_end);
    for (from, to) in locked {
        // One that gets longer or shorter is locked as a whole.
        let to = if old_bytes == new_bytes { start + (to - old) } else { start + new_bytes };
        ctx.process.locked.add(start + (from - old), to);
    }
    Ok(start)
}

/// brk(2), the raw call: the new end, or the present one when that cannot be had.
pub(super) fn brk(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    let present = ctx.process.memory.brk(0);
    let mut grows = |bytes| check_room(ctx, bytes, true).and_then(|()| ctx.demand_growth(bytes, false));
    let fits = address <= present || grows(address - present).is_ok();
    Ok(if fits { ctx.process.memory.brk(address) } else { present })
}

/// madvise(2): MADV_DONTNEED and MADV_REMOVE are obeyed, other advice that Linux 6.1 knows is accepted without effect.
pub(super) fn madvise(ctx: &mut Ctx<'_>, [address, bytes, advice, ..]: [u64; 6]) -> SysResult {
    const LAST_KNOWN: i32 = 25;
    let advice = advice as i32;
    if address % PAGE != 0 || !(0..=LAST_KNOWN).contains(&advice) || (5..8).contains(&advice) {
        return Err(Errno::EINVAL.into());
    }
    if bytes == 0 {
        return Ok(0);
    }
    let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
    if address.checked_add(bytes).is_none() {
        return Err(Errno::EINVAL.into());
    }
    if matches!(advice, MADV_MERGEABLE | MADV_UNMERGEABLE) {
        // As a kernel without CONFIG_KSM.
        return Err(Errno::EINVAL.into());
    }
    if matches!(advice, MADV_DONTNEED | MADV_FREE | MADV_REMOVE) {
        ctx.look_at_code(address, bytes);
    }
    advise(ctx, address, address + bytes, advice).map(|()| 0).map_err(Into::into)
}

/// Mapping by mapping, as `madvise_walk_vmas`: what one of them refuses ends the call, a gap is told at the end, but where pages
/// are fetched it is told at once.
fn advise(ctx: &mut Ctx<'_>, address: u64, end: u64, advice: i32) -> Result<(), Errno> {
    let fetches = matches!(advice, MADV_POPULATE_READ | MADV_POPULATE_WRITE);
    let parts: Vec<guest::Vma> = ctx.process.memory.mappings_in(address, end).collect();
    let (mut at, mut gap) = (address, false);
    for vma in parts {
        gap |= vma.start > at;
        if gap && fetches {
            return Err(Errno::ENOMEM);
        }
        at = vma.end.min(end);
        advise_part(ctx, &vma, vma.start.max(address), at, advice)?;
    }
    if gap || at < end { Err(Errno::ENOMEM) } else { Ok(()) }
}

/// Advice on a part of one mapping. EINVAL, EACCES.
fn advise_part(ctx: &mut Ctx<'_>, vma: &guest::Vma, start: u64, end: u64, advice: i32) -> Result<(), Errno> {
    let is_file = matches!(vma.kind, VmaKind::File { .. });
    // Also by another process that shares the memory.
    let is_locked = vma.is_locked();
    let lacks = |right: u8| vma.prot & right == 0;
    let bytes = end - start;
    match advice {
        MADV_DONTNEED | MADV_FREE | MADV_REMOVE | MADV_COLD | MADV_PAGEOUT if is_locked => Err(Errno::EINVAL),
        MADV_DONTNEED => ctx.process.memory.discard(start, bytes).map_err(errno),
        // What has no pages of a file cannot lose them, and copies of pages are not the file's.
        MADV_REMOVE if !vma.shared && !is_file => Err(Errno::EINVAL),
        MADV_REMOVE => ctx.process.memory.punch(start, bytes).map_err(errno),
        MADV_FREE if vma.shared || is_file => Err(Errno::EINVAL),
        MADV_POPULATE_READ if lacks(guest::PROT_READ) => Err(Errno::EINVAL),
        MADV_POPULATE_WRITE if lacks(guest::PROT_WRITE) => Err(Errno::EINVAL),
        MADV_POPULATE_READ | MADV_POPULATE_WRITE if !ctx.process.memory.ends_in_its_file(start, end) => {
            Err(Errno::EFAULT)
        }
        MADV_WIPEONFORK if vma.shared || is_file => Err(Errno::EINVAL),
        _ => {
            if let Some((lost, given)) = marks_of(advice) {
                ctx.process.memory.mark(start, bytes, lost, given);
            }
            Ok(())
        }
    }
}

/// What advice is kept of a mapping: what it loses, and what it is given then.
fn marks_of(advice: i32) -> Option<(Marks, Marks)> {
    const ORDER: Marks = Marks::RANDOM.with(Marks::SEQUENTIAL);
    const SIZE: Marks = Marks::HUGE.with(Marks::NOT_HUGE);
    Some(match advice {
        MADV_NORMAL => (ORDER, Marks::NONE),
        MADV_RANDOM => (ORDER, Marks::RANDOM),
        MADV_SEQUENTIAL => (ORDER, Marks::SEQUENTIAL),
        MADV_DONTFORK => (Marks::NONE, Marks::NOT_FORKED),
        MADV_DOFORK => (Marks::NOT_FORKED, Marks::NONE),
        MADV_DONTDUMP => (Marks::NONE, Marks::NOT_DUMPED),
        MADV_DODUMP => (Marks::NOT_DUMPED, Marks::NONE),
        MADV_HUGEPAGE => (SIZE, Marks::HUGE),
        MADV_NOHUGEPAGE => (SIZE, Marks::NOT_HUGE),
        MADV_WIPEONFORK => (Marks::NONE, Marks::WIPED),
        MADV_KEEPONFORK => (Marks::WIPED, Marks::NONE),
        _ => return None,
    })
}

/// msync(2): shared mappings are of real files, whose pages the real kernel keeps coherent.
pub(super) fn msync(ctx: &mut Ctx<'_>, [address, bytes, flags, ..]: [u64; 6]) -> SysResult {
    const ASYNC: u64 = 1;
    const INVALIDATE: u64 = 2;
    const SYNC: u64 = 4;
    if address % PAGE != 0 || flags & !(ASYNC | INVALIDATE | SYNC) != 0 || flags & (ASYNC | SYNC) == ASYNC | SYNC {
        return Err(Errno::EINVAL.into());
    }
    // What is rounded up to all of memory is rounded to none of it, as on Linux.
    let bytes = bytes.wrapping_add(PAGE - 1) & !(PAGE - 1);
    let end = address.checked_add(bytes).ok_or(Errno::ENOMEM)?;
    if bytes == 0 {
        return Ok(0);
    }
    // Gaps are told at the end.
    let mut parts = ctx.process.memory.mappings().filter(|vma| vma.start < end && address < vma.end);
    if flags & INVALIDATE != 0 && parts.any(guest::Vma::is_locked) {
        return Err(Errno::EBUSY.into());
    }
    if ctx.process.memory.is_mapped(address, bytes) { Ok(0) } else { Err(Errno::ENOMEM.into()) }
}

/// RLIMIT_MEMLOCK, for those that CAP_IPC_LOCK does not free of it. EPERM where nothing may be locked, else `error`.
fn demand_lock_room(ctx: &Ctx<'_>, more: u64, error: Errno) -> Result<(), Errno> {
    let limit = ctx.process.limits.soft(RLIMIT_MEMLOCK);
    match ctx.process.locked.bytes().saturating_add(more) {
        _ if ctx.credentials().can(CAP_IPC_LOCK) => Ok(()),
        _ if limit == 0 => Err(Errno::EPERM),
        total if total > limit => Err(error),
        _ => Ok(()),
    }
}

/// mlock(2): nothing is ever swapped, but what is locked counts. Locking fetches pages: ENOMEM where none can be had for want of rights,
/// with the range locked all the same.
pub(super) fn mlock(ctx: &mut Ctx<'_>, [address, bytes, ..]: [u64; 6]) -> SysResult {
    let (start, end) = lock(ctx, address, bytes, Marks::LOCKED)?;
    let memory = &ctx.process.memory;
    let in_range = |vma: &&guest::Vma| start < end && vma.start < end && start < vma.end;
    let barred = |vma: &guest::Vma| vma.prot == 0 || !memory.ends_in_its_file(vma.start.max(start), vma.end.min(end));
    if memory.mappings().filter(in_range).any(barred) { Err(Errno::ENOMEM.into()) } else { Ok(0) }
}

/// Locks a range, and marks it so.
fn set_locked(ctx: &mut Ctx<'_>, start: u64, end: u64, how: Marks) {
    ctx.process.locked.add(start, end);
    ctx.process.memory.mark(start, end - start, LOCKS, how);
}

const LOCKS: Marks = Marks::LOCKED.with(Marks::LOCKED_WHEN_TOUCHED);

/// Whole pages for so many bytes (PAGE_ALIGN): of the last page of all numbers, none.
fn page_align(bytes: u64) -> u64 {
    bytes.wrapping_add(PAGE - 1) & !(PAGE - 1)
}

/// The pages around a range. EINVAL.
fn whole_pages(address: u64, bytes: u64) -> Result<(u64, u64), Errno> {
    let start = address & !(PAGE - 1);
    let bytes = page_align(bytes.wrapping_add(address - start));
    Ok((start, start.checked_add(bytes).ok_or(Errno::EINVAL)?))
}

/// Where nothing is mapped first in a range, or its end. What lies before is locked and unlocked all the same (`apply_vma_lock_flags`).
fn first_gap(ctx: &Ctx<'_>, start: u64, end: u64) -> u64 {
    let mut at = start;
    for vma in ctx.process.memory.mappings().filter(|vma| vma.end > start) {
        if vma.start > at || at >= end {
            break;
        }
        at = vma.end.min(end);
    }
    at
}

fn lock(ctx: &mut Ctx<'_>, address: u64, bytes: u64, how: Marks) -> Result<(u64, u64), Errno> {
    let (start, end) = whole_pages(address, bytes)?;
    demand_lock_room(ctx, (end - start) - ctx.process.locked.within(start, end), Errno::ENOMEM)?;
    let at = first_gap(ctx, start, end);
    set_locked(ctx, start, at, how);
    if at < end { Err(Errno::ENOMEM) } else { Ok((start, end)) }
}

/// mlock2(2).
pub(super) fn mlock2(ctx: &mut Ctx<'_>, [address, bytes, flags, ..]: [u64; 6]) -> SysResult {
    const MLOCK_ONFAULT: u64 = 1;
    if flags & !MLOCK_ONFAULT != 0 {
        return Err(Errno::EINVAL.into());
    }
    match flags {
        0 => mlock(ctx, [address, bytes, 0, 0, 0, 0]),
        _ => Ok(lock(ctx, address, bytes, LOCKS).map(|_| 0)?),
    }
}

/// munlock(2).
pub(super) fn munlock(ctx: &mut Ctx<'_>, [address, bytes, ..]: [u64; 6]) -> SysResult {
    let (start, end) = whole_pages(address, bytes)?;
    let at = first_gap(ctx, start, end);
    ctx.process.locked.remove(start, at);
    ctx.process.memory.mark(start, at - start, LOCKS, Marks::NONE);
    if at < end { Err(Errno::ENOMEM.into()) } else { Ok(0) }
}

/// mlockall(2).
pub(super) fn mlockall(ctx: &mut Ctx<'_>, [flags, ..]: [u64; 6]) -> SysResult {
    let flags = flags as u32;
    if flags == 0 || flags == MCL_ONFAULT || flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let ranges: Vec<(u64, u64)> = ctx.process.memory.mappings().map(|vma| (vma.start, vma.end)).collect();
    let bytes: u64 = ranges.iter().map(|(start, end)| end - start).sum();
    let new = if flags & MCL_CURRENT != 0 { bytes - ctx.process.locked.bytes().min(bytes) } else { 0 };
    demand_lock_room(ctx, new, Errno::ENOMEM)?;
    if flags & MCL_CURRENT != 0 {
        let how = if flags & MCL_ONFAULT != 0 { LOCKS } else { Marks::LOCKED };
        ranges.into_iter().for_each(|(start, end)| set_locked(ctx, start, end, how));
    }
    ctx.process.locked.future = flags & MCL_FUTURE != 0;
    Ok(0)
}

/// munlockall(2).
pub(super) fn munlockall(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    ctx.process.locked.clear();
    ctx.process.memory.mark(0, u64::MAX, LOCKS, Marks::NONE);
    Ok(0)
}
