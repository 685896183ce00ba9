//! `mmap`, `munmap`, `mprotect`, `brk` and `madvise` of a guest.

use super::access::{Opening, PLAIN, real_rights, rights_before_execution};
use super::parked::Parked;
use super::perf;
use super::placement::Placement;
use super::real::{self, RealKind, RealMap};
use super::room;
use super::turns;
use super::vma::{Marks, Vma, VmaKind};
use super::{AddressSpace, Block, HEAP_GUARD_BYTES, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::arena::{BLOCK_BYTES, HostRegion};
use crate::copy;
use crate::image::{ElfHeader, FileKey, Gap, Image, PAGE, PackPart, images, page_down, page_up};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// What Linux calls shared memory without a file.
pub(super) const SHARED_ZEROES: &[u8] = b"/dev/zero (deleted)";

/// Why a mapping call fails, in the words of `errno(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// EINVAL
    Invalid,
    /// ENOMEM
    NoMemory,
    /// EEXIST
    Exists,
    /// EACCES
    Access,
    /// EFAULT
    Fault,
    /// EPERM
    NotPermitted,
}

/// What a mapping shows.
#[derive(Clone, Copy, Debug)]
pub enum Backing<'a> {
    /// Zeroes.
    Anonymous,
    /// Zeroes without rights, of which a part will be a thread's stack (MAP_STACK): closed as soon as that part is opened.
    Stack,
    /// Zeroes that become more where they are touched below their start (MAP_GROWSDOWN).
    Growing,
    /// A real file from `offset` (a multiple of the page size) on; `name` is what `/proc/PID/maps` shows.
    File { file: &'a File, offset: u64, name: &'a [u8] },
    /// A file that exists in the simulation only: these bytes, then zeroes.
    Bytes { bytes: &'a [u8], name: &'a [u8] },
}

/// The arguments of `mmap`, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct MapRequest<'a> {
    pub hint: u64,
    pub bytes: u64,
    /// PROT_* of `vma`.
    pub prot: u8,
    pub shared: bool,
    /// MAP_FIXED: replace what is there.
    pub fixed: bool,
    /// MAP_FIXED_NOREPLACE.
    pub no_replace: bool,
    pub backing: Backing<'a>,
}

/// Read-only file mappings up to this size are read into plain memory while a program is loaded, and for a process that has mapped many:
/// cheaper than changing the memory map, and it never stalls other workers.
const COPIED_FILE_BYTES: u64 = 64 << 10;
/// So many of them are protected for each process.
const PROTECTED_FILES: u32 = 64;
/// What grows keeps away from what lies below by as much: `stack_guard_gap` of Linux.
const GROWTH_GAP_BYTES: u64 = 256 * PAGE;
/// A process's further blocks are at least this large.
const FURTHER_BLOCK_BYTES: u64 = 1 << 30;

impl AddressSpace {
    /// `mmap(2)`.
    ///
    /// # Errors
    /// As Linux; NoMemory also for a fixed address outside the process's arena.
    pub fn mmap(&mut self, region: &mut HostRegion, request: &MapRequest<'_>) -> Result<u64, MapError> {
        let bytes = page_up(request.bytes);
        if request.bytes == 0 {
            return Err(MapError::Invalid);
        }
        if bytes == 0 || bytes > 1 << 46 {
            return Err(MapError::NoMemory);
        }
        let object = shared_object(region, request)?;
        if request.fixed || request.no_replace {
            return self.map_fixed(request, bytes, object);
        }
        if let Some((image, name)) = image_request(request, bytes) {
            let start = self.find_free(region, image.mapped_bytes())?;
            return self.place(start, image, name);
        }
        let start = self.choose(region, request.hint, bytes)?;
        self.fill(start, bytes, request, object)?;
        Ok(start)
    }

    fn map_fixed(&mut self, request: &MapRequest<'_>, bytes: u64, object: u32) -> Result<u64, MapError> {
        let start = request.hint;
        if !start.is_multiple_of(PAGE) {
            return Err(MapError::Invalid);
        }
        let end = start.checked_add(bytes).ok_or(MapError::NoMemory)?;
        if !self.owns(start, end) {
            return Err(MapError::NoMemory);
        }
        let replaces = self.vmas.overlaps(start, end);
        if request.no_replace && replaces {
            return Err(MapError::Exists);
        }
        self.demand_unsealed(start, end)?;
        if let Some((image, name)) = self.fixed_image_request(request, bytes) {
            self.vmas.remove(start, end);
            self.remove_placements(start, end);
            self.forget_views(start, end);
            return self.place(start, image, name);
        }
        if self.is_part_of_image(start, end, request) {
            self.set_vmas(start, end, request.prot, None);
            return Ok(start);
        }
        if matches!(request.backing, Backing::Anonymous) && !request.shared && self.is_fresh_zero(start, end) {
            self.set_vmas(start, end, request.prot, Some(VmaKind::Anonymous));
            return Ok(start);
        }
        if replaces {
            self.vmas.remove(start, end);
            self.remove_placements(start, end);
            let closes = request.prot == 0 && !request.shared && matches!(request.backing, Backing::Anonymous);
            if !closes && self.real.pieces(start, end).iter().any(|piece| piece.kind.is_none()) {
                real::discard(start, bytes);
            }
        }
        self.fill(start, bytes, request, object)?;
        Ok(start)
    }

    /// The image that a request for a fixed address places there: its sled has to find room behind.
    fn fixed_image_request<'a>(&self, request: &MapRequest<'a>, bytes: u64) -> Option<(Arc<Image>, &'a [u8])> {
        let (key, file, header, name) = whole_file(request, bytes)?;
        Some((self.image_with_room(request.hint, key, file, &header)?, name))
    }

    /// Whether `[start, end)` lies in this process's blocks or in what it has of the fixed addresses.
    pub(super) fn owns(&self, start: u64, end: u64) -> bool {
        self.blocks.iter().any(|block| start >= block.start && end <= block.end())
            || self.fixed.is_some_and(|(at, bytes)| start >= at && end <= at + bytes)
    }

    fn choose(&mut self, region: &mut HostRegion, hint: u64, bytes: u64) -> Result<u64, MapError> {
        let hint = page_down(hint);
        if hint != 0
            && let Some(end) = hint.checked_add(bytes)
            && self.owns(hint, end)
            && hint >= self.stack_end()
            && !self.vmas.overlaps(hint, end)
            && !self.in_heap_zone(hint, end)
        {
            return Ok(hint);
        }
        self.find_free(region, bytes)
    }

    pub(super) fn in_heap_zone(&self, start: u64, end: u64) -> bool {
        start < self.blocks[0].end() && end > self.heap_start()
    }

    pub(super) fn find_free(&mut self, region: &mut HostRegion, bytes: u64) -> Result<u64, MapError> {
        let heap_start = self.heap_start();
        let (found, lowest) = self.vmas.first_fit(self.lowest_free, heap_start, bytes);
        self.lowest_free = lowest;
        if let Some(start) = found {
            return Ok(start);
        }
        for block in &self.blocks[1..] {
            if let (Some(start), _) = self.vmas.first_fit(block.start, block.end(), bytes) {
                return Ok(start);
            }
        }
        let (start, bytes) =
            region.take(bytes.max(FURTHER_BLOCK_BYTES.min(64 * BLOCK_BYTES))).ok_or(MapError::NoMemory)?;
        self.blocks.push(Block { start, bytes, shared: None });
        Ok(start)
    }

    /// Makes `[start, start + bytes)`, which is free or was just removed, show what the request asks for.
    fn fill(&mut self, start: u64, bytes: u64, request: &MapRequest<'_>, object: u32) -> Result<(), MapError> {
        let end = start + bytes;
        let &MapRequest { shared, prot, .. } = request;
        self.reuse.mapped(start, end);
        self.forget_code(start, end);
        self.forget_views(start, end);
        let grows = !shared && matches!(request.backing, Backing::Growing);
        let kind = match request.backing {
            Backing::Anonymous | Backing::Stack | Backing::Growing if shared => {
                self.make_shared(start, end)?;
                self.apply(start, end, PLAIN, rights_before_execution(prot))?;
                // As Linux names the file that it makes for it.
                VmaKind::File { name: self.names.number(SHARED_ZEROES), offset: 0 }
            }
            Backing::Anonymous | Backing::Stack | Backing::Growing => {
                self.fill_with_zeroes(start, end, request)?;
                VmaKind::Anonymous
            }
            Backing::Bytes { bytes: content, name } => {
                let rights = if shared {
                    self.make_shared(start, end)?;
                    rights_before_execution(prot)
                } else {
                    self.make_plain(start, end, Opening::Now)?;
                    prot
                };
                let length = content.len().min(bytes as usize);
                copy::copy_bytes(start, content.as_ptr() as u64, length as u64);
                self.apply(start, end, PLAIN, rights)?;
                VmaKind::File { name: self.names.number(name), offset: 0 }
            }
            Backing::File { file, offset, name } => {
                self.fill_from_file(start, bytes, request, file, offset)?;
                VmaKind::File { name: self.names.number(name), offset }
            }
        };
        self.vmas.insert(Vma { start, end, prot, shared, sealed: false, marks: Marks::NONE, grows, object, kind });
        match request.backing {
            Backing::File { file, offset, .. } if !shared => self.notice_elf(start, end, prot, file, offset),
            _ => Ok(()),
        }
    }

    fn fill_with_zeroes(&mut self, start: u64, end: u64, request: &MapRequest<'_>) -> Result<(), MapError> {
        match (request.prot, request.backing) {
            (0, Backing::Anonymous) => self.close(start, end),
            (0 | PLAIN, _) => self.make_plain(start, end, Opening::WhenTouched),
            (prot, _) => {
                self.make_plain(start, end, Opening::Now)?;
                self.apply(start, end, PLAIN, prot)
            }
        }
    }

    /// Makes a range zeroes that twins will share.
    fn make_shared(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        if !real::map_shared(start, end - start) {
            return Err(MapError::NoMemory);
        }
        self.real.set(start, end, RealKind::File { prot: PLAIN });
        Ok(())
    }

    fn fill_from_file(
        &mut self,
        start: u64,
        bytes: u64,
        request: &MapRequest<'_>,
        file: &File,
        offset: u64,
    ) -> Result<(), MapError> {
        let end = start + bytes;
        let key = FileKey::of(file).map_err(|_| MapError::Access)?;
        if request.shared {
            return self.show_file(start, end, rights_before_execution(request.prot), true, (file, offset));
        }
        // What the loader maps is not protected: each of its mappings would cost every guest.
        let rights = if self.loading { PLAIN | request.prot } else { request.prot };
        if self.pack_has(start, bytes, key, Some(offset)) {
            return self.apply(start, end, PLAIN, rights);
        }
        let in_file = key.bytes.saturating_sub(offset).min(bytes);
        let read_only = request.prot & (PROT_WRITE | PROT_EXEC) == 0;
        let small = bytes <= COPIED_FILE_BYTES && read_only && page_up(in_file) == bytes;
        self.small_files += u32::from(small && !self.loading);
        if small && (self.loading || self.small_files > PROTECTED_FILES) {
            self.make_plain(start, end, Opening::Now)?;
            copy_file(start, in_file, file, offset)?;
        } else {
            self.show_file(start, end, rights, false, (file, offset))?;
        }
        self.record_data(start, bytes, key, file, offset);
        Ok(())
    }

    /// Maps a file itself. NoMemory where this process has too many mappings, Access for what else the kernel may have against it.
    fn show_file(
        &mut self,
        start: u64,
        end: u64,
        prot: u8,
        shared: bool,
        (file, offset): (&File, u64),
    ) -> Result<(), MapError> {
        let prot = real_rights(prot);
        if !real::map_file(start, end - start, prot, shared, file.as_raw_fd(), offset) {
            let has_no_room = room::ran_out() || std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM);
            return Err(if has_no_room { MapError::NoMemory } else { MapError::Access });
        }
        self.real.set(start, end, RealKind::File { prot });
        Ok(())
    }

    fn record_data(&mut self, start: u64, bytes: u64, key: FileKey, file: &File, offset: u64) {
        let Some(recording) = &mut self.recording else { return };
        let mut data = vec![0u8; key.bytes.saturating_sub(offset).min(bytes) as usize];
        if start >= recording.start && file.read_exact_at(&mut data, offset).is_ok() {
            let part = PackPart { at: start - recording.start, bytes, key, data_offset: Some(offset) };
            recording.parts.retain(|(other, _)| other.at + other.bytes <= part.at || part.at + part.bytes <= other.at);
            recording.parts.push((part, Some(data)));
        }
    }

    /// Whether the process's pack already shows this at `start`, untouched.
    fn pack_has(&mut self, start: u64, bytes: u64, key: FileKey, data_offset: Option<u64>) -> bool {
        let Some((pack_start, pack)) = &self.pack else { return false };
        let Some(at) = start.checked_sub(*pack_start) else { return false };
        let part = PackPart { at, bytes, key, data_offset };
        let (offset, end) = (pack.offset + at, start + bytes);
        let Some(map) = self.real.parts(start, end).first().copied() else { return false };
        let shown = RealMap { start, end, kind: RealKind::Store { offset } };
        let given_up = RealMap { kind: RealKind::GuardedStore { offset }, ..shown };
        let has = pack.parts.contains(&part) && (map == shown || map == given_up);
        if has && map == given_up {
            self.remove_guards(&map);
        }
        has
    }

    /// Places an image at a free address: mapped whole, with its sled.
    pub(crate) fn place(&mut self, start: u64, image: Arc<Image>, name: &[u8]) -> Result<u64, MapError> {
        let bytes = image.joined_bytes();
        let has_gap = image.gap != Gap::NONE;
        let in_pack = !has_gap && self.pack_has(start, bytes, image.key, None);
        if !in_pack {
            if !real::map_file(start, bytes, 7, false, images().fd(), image.offset) {
                return Err(MapError::NoMemory);
            }
            self.real.set(start, start + bytes, RealKind::Store { offset: image.offset });
        }
        if has_gap {
            self.map_sled(start, &image, name)?;
        }
        if !in_pack || self.pack.as_ref().is_none_or(|(_, pack)| pack.written.is_empty()) {
            for (from, to) in image.relocated_ranges() {
                real::populate(start + from, to - from);
            }
        }
        // A pack has what is mapped in one piece.
        if let Some(recording) = self.recording.as_mut().filter(|_| !has_gap)
            && start >= recording.start
        {
            let part = PackPart { at: start - recording.start, bytes, key: image.key, data_offset: None };
            recording.parts.retain(|(other, _)| other.at + other.bytes <= part.at || part.at + part.bytes <= other.at);
            recording.parts.push((part, None));
        }
        perf::show(start, &image);
        self.add_placement(start, image, name);
        Ok(start)
    }

    /// Places a program at the addresses that it is linked to: in the parking, until this address space is entered.
    pub(crate) fn place_fixed(&mut self, image: Arc<Image>, name: &[u8]) -> Result<u64, MapError> {
        let (start, bytes) = (image.header.linked_at, image.mapped_bytes());
        let parked = Parked::place_for(start, bytes).ok_or(MapError::NoMemory)?;
        if !real::map_file(parked.start(), bytes, 7, false, images().fd(), image.offset) {
            return Err(MapError::NoMemory);
        }
        enforce_segments_at(parked.start(), &image);
        for (from, to) in image.relocated_ranges() {
            real::populate(parked.start() + from, to - from);
        }
        turns::add_fixed(self.id, start, parked);
        self.fixed = Some((start, bytes));
        self.takes_turns = true;
        self.real.set(start, start + bytes, RealKind::Store { offset: image.offset });
        self.add_placement(start, image, name);
        Ok(start)
    }

    fn add_placement(&mut self, start: u64, image: Arc<Image>, name: &[u8]) {
        let (name, end) = (self.names.number(name), start + image.joined_bytes());
        let prot = PROT_READ | PROT_EXEC;
        self.vmas.insert(Vma::private(start, end, prot, VmaKind::Image(name)));
        self.placements.push(Placement::whole(start, image));
    }

    /// Gives the segments of a placed image the protections that `execve` gives them.
    pub(crate) fn protect_segments(&mut self, start: u64) {
        let Some(placement) = self.placements.iter().find(|p| p.start == start) else { return };
        let image = placement.image.clone();
        for segment in &image.header.segments {
            let mut prot = 0;
            for (right, bit) in
                [(segment.readable, PROT_READ), (segment.writable, PROT_WRITE), (segment.executable, PROT_EXEC)]
            {
                prot |= if right { bit } else { 0 };
            }
            let (from, to) = (page_down(segment.address), page_up(segment.address + segment.memory_bytes));
            self.vmas.protect(start + from, start + to, prot);
        }
    }

    /// Lets the guest execute its stack: nothing changes until it does.
    pub(crate) fn make_stack_executable(&mut self) {
        let stack = self.vmas.iter().find(|vma| vma.kind == VmaKind::Stack).copied();
        if let Some(Vma { start, end, prot, .. }) = stack {
            self.vmas.protect(start, end, prot | PROT_EXEC);
        }
    }

    /// Makes a program's own constants and code really read-only, and keeps its data from being executed: two calls. (All of libraries
    /// stays as it is underneath, since each would cost every guest two more mappings.)
    pub(crate) fn enforce_segments(&mut self, start: u64) {
        let Some(placement) = self.placements.iter().find(|p| p.start == start) else { return };
        self.real.new_layout();
        enforce_segments_at(start, &placement.image);
        perf::show(start, &placement.image);
    }

    /// Replaces protection (and kind) of what is mapped in a range.
    fn set_vmas(&mut self, start: u64, end: u64, prot: u8, kind: Option<VmaKind>) {
        let kind = kind.or_else(|| self.vmas.find(start).map(|(_, vma)| vma.kind)).unwrap_or(VmaKind::Anonymous);
        self.vmas.remove(start, end);
        self.vmas.insert(Vma::private(start, end, prot, kind));
    }

    /// Whether the store holds only zeroes for a range of the pack: a gap between its parts.
    pub(super) fn is_zero_in_store(&self, start: u64, end: u64, offset: u64) -> bool {
        let Some((pack_start, pack)) = &self.pack else { return false };
        let Some(at) = start.checked_sub(*pack_start) else { return false };
        offset == pack.offset + at
            && pack.parts.iter().all(|part| part.at >= end - pack_start || part.at + part.bytes <= at)
    }

    /// `munmap(2)`.
    ///
    /// # Errors
    /// Invalid for a misaligned address or no length.
    pub fn munmap(&mut self, address: u64, bytes: u64) -> Result<(), MapError> {
        let bytes = page_up(bytes);
        let end = address.checked_add(bytes).ok_or(MapError::Invalid)?;
        if !address.is_multiple_of(PAGE) || bytes == 0 || end > 1 << 47 {
            return Err(MapError::Invalid);
        }
        self.demand_unsealed(address, end)?;
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for vma in self.vmas.parts(address, end) {
            match parts.last_mut() {
                Some(last) if last.1 == vma.start => last.1 = vma.end,
                _ => parts.push((vma.start, vma.end)),
            }
        }
        for (start, end) in parts {
            self.give_up(start, end)?;
        }
        self.vmas.remove(address, end);
        self.remove_placements(address, end);
        self.forget_views(address, end);
        self.freed(address);
        Ok(())
    }

    /// `mprotect(2)`.
    ///
    /// # Errors
    /// NoMemory when part of the range is not mapped.
    pub fn mprotect(&mut self, address: u64, bytes: u64, prot: u8) -> Result<(), MapError> {
        if !address.is_multiple_of(PAGE) {
            return Err(MapError::Invalid);
        }
        let end = address.checked_add(page_up(bytes)).ok_or(MapError::NoMemory)?;
        if address == end {
            return Ok(());
        }
        self.demand_unsealed(address, end)?;
        let parts: Vec<Vma> = self.vmas.parts(address, end).collect();
        let mut at = address;
        for part in parts {
            if part.start != at {
                return Err(MapError::NoMemory);
            }
            self.protect_part(&part, prot)?;
            self.vmas.protect(part.start, part.end, prot);
            at = part.end;
        }
        if prot & PROT_WRITE != 0 {
            self.close_around_stack(address, at)?;
        }
        if at == end { Ok(()) } else { Err(MapError::NoMemory) }
    }

    fn protect_part(&mut self, part: &Vma, prot: u8) -> Result<(), MapError> {
        if self.is_relro(part.start, part.end) {
            // The loader has mapped what the program needs.
            self.loading = false;
            return Ok(());
        }
        if part.prot == prot {
            return Ok(());
        }
        if prot & PROT_WRITE != 0 && part.marks.has(Marks::NEVER_WRITTEN) {
            return Err(MapError::Access);
        }
        if matches!(part.kind, VmaKind::Image(_)) {
            self.note_code_in_image(part, prot);
        }
        if prot & !part.prot & PROT_EXEC != 0 && !part.shared && matches!(part.kind, VmaKind::File { .. }) {
            self.make_views_executable(part.start, part.end)?;
        }
        let refused = if part.shared { MapError::Access } else { MapError::NoMemory };
        self.apply(part.start, part.end, part.prot, prot).map_err(|_| refused)
    }

    /// `brk(2)`: the new end of the heap, or the old one when the request cannot be met. 0 asks.
    pub fn brk(&mut self, address: u64) -> u64 {
        let (start, limit) = (self.heap_start(), self.blocks[0].end());
        if address < start || address > limit {
            return self.heap_end;
        }
        let (old, new) = (page_up(self.heap_end), page_up(address));
        if new > old {
            if self.vmas.overlaps(old, new) || self.open_heap(old, new).is_err() {
                return self.heap_end;
            }
            self.vmas.insert(Vma::private(old, new, PROT_READ | PROT_WRITE, VmaKind::Heap));
        } else if new < old {
            self.vmas.remove(new, old);
            if self.give_up(new, old).is_err() {
                real::discard(new, old - new);
            }
        }
        self.heap_end = address;
        address
    }

    /// Makes the heap's next part plain memory. Behind its end there are always guard pages.
    fn open_heap(&mut self, old: u64, new: u64) -> Result<(), MapError> {
        self.reuse.mapped(old, new);
        self.make_plain(old, new, Opening::WhenTouched)?;
        let limit = self.blocks[0].end();
        if new < limit && !self.real.touches(new, (new + PAGE).min(limit)) {
            self.close(new, (new + HEAP_GUARD_BYTES).min(limit))?;
        }
        Ok(())
    }

    /// Lets memory that grows downwards reach an address below it that a thread has touched, if it is then no larger than `limit`
    /// and stays away from what lies below. Whether it did.
    pub fn grow_down(&mut self, address: u64, limit: u64) -> bool {
        let (below, above) = self.vmas.around_gap(address);
        let Some(&above) = above.filter(|vma| vma.grows && vma.start > address) else { return false };
        let start = page_down(address);
        let near = |vma: &Vma| vma.prot != 0 && !vma.grows && start - vma.end < GROWTH_GAP_BYTES;
        let fits = above.end - start <= limit && !below.is_some_and(near) && self.owns(start, above.start);
        if !fits || self.make_plain(start, above.start, Opening::Now).is_err() {
            return false;
        }
        let grown = Vma { start, end: above.start, ..above };
        self.vmas.insert(grown);
        above.prot == PLAIN || self.apply(start, above.start, PLAIN, above.prot).is_ok()
    }

    /// The parts of mappings in `[start, end)`, by address.
    pub fn mappings_in(&self, start: u64, end: u64) -> impl Iterator<Item = Vma> + '_ {
        self.vmas.parts(start, end)
    }

    /// Something at this address was given up: mappings may be put there again.
    pub(super) fn freed(&mut self, address: u64) {
        if self.blocks.first().is_some_and(|block| address >= block.start && address < block.end()) {
            self.lowest_free = self.lowest_free.min(address.max(self.stack_end()));
        }
    }

    /// `madvise(MADV_DONTNEED)`: anonymous memory reads as zero afterwards, files as their content.
    ///
    /// # Errors
    /// NoMemory when part of the range is not mapped (what is mapped is discarded).
    pub fn discard(&mut self, address: u64, bytes: u64) -> Result<(), MapError> {
        let end = address.checked_add(page_up(bytes)).ok_or(MapError::Invalid)?;
        if !address.is_multiple_of(PAGE) {
            return Err(MapError::Invalid);
        }
        let parts: Vec<Vma> = self.vmas.parts(address, end).collect();
        if parts.iter().any(|vma| vma.sealed && !vma.shared && vma.prot & PROT_WRITE == 0) {
            return Err(MapError::NotPermitted);
        }
        let mut at = address;
        for part in &parts {
            // A small file's bytes were copied: plain memory has no other place to get them from.
            let is_copy = |map: &RealMap| !matches!(map.kind, RealKind::File { .. } | RealKind::Store { .. });
            let plain_file = matches!(part.kind, VmaKind::File { .. })
                && !part.shared
                && self.real.parts(part.start, part.end).iter().all(is_copy);
            if !plain_file {
                real::discard(part.start, part.end - part.start);
            }
            at = if part.start == at { part.end } else { at };
        }
        if at == end { Ok(()) } else { Err(MapError::NoMemory) }
    }

    /// `madvise(MADV_REMOVE)`: a hole in what shared memory shows.
    ///
    /// # Errors
    /// NoMemory when part of the range is not mapped, Access for private memory and for files that are not open for writing.
    pub fn punch(&mut self, address: u64, bytes: u64) -> Result<(), MapError> {
        let parts: Vec<Vma> = self.vmas.parts(address, address + bytes).collect();
        for part in &parts {
            // What the rights are now does not matter, only what they could be.
            let writable = part.shared && !part.marks.has(Marks::NEVER_WRITTEN);
            if !writable || !real::punch(part.start, part.end - part.start) {
                return Err(MapError::Access);
            }
        }
        if self.is_mapped(address, bytes) { Ok(()) } else { Err(MapError::NoMemory) }
    }

    /// `mseal(2)`: from now on what is mapped in a range keeps its place and its rights.
    ///
    /// # Errors
    /// NoMemory when part of the range is not mapped.
    pub fn seal(&mut self, address: u64, bytes: u64) -> Result<(), MapError> {
        if !self.is_mapped(address, bytes) {
            return Err(MapError::NoMemory);
        }
        self.vmas.seal(address, address + bytes);
        Ok(())
    }

    /// Takes marks from what is mapped in a range, then gives it others: advice that is kept, and locks.
    pub fn mark(&mut self, address: u64, bytes: u64, lost: Marks, given: Marks) {
        self.vmas.mark(address, address.saturating_add(bytes), lost, given);
    }

    /// Whether the last page of a part of one mapping can be had: a file that is mapped may end before it.
    pub fn ends_in_its_file(&self, start: u64, end: u64) -> bool {
        let last = end - PAGE;
        let shows_file = |map: &RealMap| matches!(map.kind, RealKind::File { prot } if prot & PROT_READ != 0);
        end - start < PAGE || !self.real.parts(last, end).first().is_some_and(shows_file) || real::can_fetch(last)
    }

    pub(super) fn demand_unsealed(&self, start: u64, end: u64) -> Result<(), MapError> {
        let sealed = self.vmas.parts(start, end).any(|vma| vma.sealed);
        if sealed { Err(MapError::NotPermitted) } else { Ok(()) }
    }

    /// Whether anything is mapped in a range.
    pub fn overlaps(&self, address: u64, bytes: u64) -> bool {
        address.checked_add(bytes).is_none_or(|end| self.vmas.overlaps(address, end))
    }

    /// Whether all of a range is mapped.
    pub fn is_mapped(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut at = address;
        for part in self.vmas.parts(address, end) {
            if part.start != at {
                return false;
            }
            at = part.end;
        }
        at >= end
    }
}

/// Gives a program's image, which lies at `start`, the rights of its segments, as far as two calls can. What is refused leaves it as it was.
fn enforce_segments_at(start: u64, image: &Image) {
    real::protect(start, image.read_only_bytes(), PROT_READ | PROT_EXEC);
    if let Some((from, to)) = image.data_range() {
        real::protect(start + from, to - from, PLAIN);
    }
}

/// The number of what a mapping shares; 0 when it is private.
fn shared_object(region: &mut HostRegion, request: &MapRequest<'_>) -> Result<u32, MapError> {
    match request.backing {
        _ if !request.shared => Ok(0),
        Backing::File { file, .. } => {
            let key = FileKey::of(file).map_err(|_| MapError::Access)?;
            Ok(region.shared_file(key.device, key.inode))
        }
        _ => Ok(region.new_shared_object()),
    }
}

/// Whether a request is a loader's first mapping of an ELF file: the file's whole span, read-only, from its start.
fn whole_file<'a>(request: &MapRequest<'a>, bytes: u64) -> Option<(FileKey, &'a File, Arc<ElfHeader>, &'a [u8])> {
    let Backing::File { file, offset: 0, name } = request.backing else { return None };
    if request.shared || request.prot & PROT_WRITE != 0 {
        return None;
    }
    let key = FileKey::of(file).ok()?;
    let header = images().header(key, file)?;
    (header.span == bytes && !header.fixed).then_some((key, file, header, name))
}

/// The image that such a request places at an address of our choice.
fn image_request<'a>(request: &MapRequest<'a>, bytes: u64) -> Option<(Arc<Image>, &'a [u8])> {
    let (key, file, _, name) = whole_file(request, bytes)?;
    Some((images().get(key, file).ok()?, name))
}

fn copy_file(start: u64, bytes: u64, file: &File, offset: u64) -> Result<(), MapError> {
    let mut data = vec![0u8; bytes as usize];
    file.read_exact_at(&mut data, offset).map_err(|_| MapError::Access)?;
    copy::copy_bytes(start, data.as_ptr() as u64, bytes);
    Ok(())
}
