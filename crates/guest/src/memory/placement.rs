//! ELF files in an address space: where their rewritten images lie, and which address stands for which.
//!
//! A program's loader usually maps a library's whole span at once, and the image is put there with its sled behind it (`map`). Others
//! reserve addresses first, or map segments one by one, in any order, or give the right to execute later. So code is recognised by what is
//! mapped, a file and an offset in it: wherever pages of an executable segment of an ELF file become executable, the image's pages take
//! their place, and its sled is put where there is room behind.

use super::map::{Backing, MapError, MapRequest};
use super::perf;
use super::real::{self, RealKind};
use super::vma::{Vma, VmaKind};
use super::{AddressSpace, PROT_EXEC, PROT_READ, SLED_SYSCALL_BYTES, SYSCALL_BYTES};
use crate::image::{ElfHeader, FileKey, Gap, Image, PAGE, images, page_down, page_up};
use crate::vcpu::Vcpu;
use crate::worker::Worker;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The largest distance between an image and its sled: jumps reach 2 GiB.
const FARTHEST_SLED_BYTES: u64 = 1 << 30;
/// Sleds are looked for in steps of this at least.
const SLED_STEP_BYTES: u64 = 1 << 20;

/// An image, or a part of one, as it lies in this address space.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    /// Where the image's first page lies, or would.
    pub(crate) start: u64,
    pub(crate) image: Arc<Image>,
    /// What of it lies there, relative to its first page: ranges in order. Its sled does in any case.
    shown: Vec<(u64, u64)>,
    /// Nothing has been mapped over its zero pages yet, so they are known to be zero.
    pub(crate) fresh: bool,
}

impl Placement {
    /// Of all of an image.
    pub(super) fn whole(start: u64, image: Arc<Image>) -> Placement {
        let shown = vec![(0, image.header.span)];
        Placement { start, image, shown, fresh: true }
    }

    /// Whether an address lies in what is placed of the image, or in its sled.
    fn has(&self, address: u64) -> bool {
        let Some(relative) = address.checked_sub(self.start) else { return false };
        let in_sled = (self.image.sled_start()..self.image.mapped_bytes()).contains(&relative);
        in_sled || self.shows(address, address + 1)
    }

    /// Whether all of a range is the image's.
    pub(super) fn shows(&self, start: u64, end: u64) -> bool {
        let Some(from) = start.checked_sub(self.start) else { return false };
        let to = end - self.start;
        self.shown.iter().any(|(first, last)| from >= *first && to <= *last)
    }

    /// Where its sled lies.
    fn sled(&self) -> (u64, u64) {
        (self.start + self.image.sled_start(), self.start + self.image.mapped_bytes())
    }

    fn add(&mut self, from: u64, to: u64) {
        self.shown.push((from, to));
        self.shown.sort_unstable();
        self.shown.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            last.1 = if joins { last.1.max(next.1) } else { last.1 };
            joins
        });
    }
}

/// A private mapping of an ELF file that may become executable later.
#[derive(Clone, Debug)]
pub(super) struct View {
    end: u64,
    /// In the file, of its first page.
    offset: u64,
    key: FileKey,
    source: Source,
}

/// How to get at a file again.
#[derive(Clone, Debug)]
enum Source {
    Path(PathBuf),
    /// It has no name any more, or never had one.
    Open(Arc<File>),
}

impl View {
    fn of(end: u64, offset: u64, key: FileKey, file: &File) -> Option<View> {
        let is_named = file.metadata().is_ok_and(|meta| meta.nlink() > 0);
        let source = if is_named {
            Source::Path(std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))).ok()?)
        } else {
            Source::Open(Arc::new(file.try_clone().ok()?))
        };
        Some(View { end, offset, key, source })
    }

    /// The file, if it is still the one that was mapped.
    fn file(&self) -> Option<Arc<File>> {
        let file = match &self.source {
            Source::Path(path) => Arc::new(File::open(path).ok()?),
            Source::Open(file) => file.clone(),
        };
        FileKey::of(&file).is_ok_and(|key| key == self.key).then_some(file)
    }
}

/// A piece of an executable segment that a mapping of its file shows.
struct Piece {
    /// Where the image's first page would lie.
    base: u64,
    /// Relative to it.
    from: u64,
    to: u64,
}

/// What of the executable segments of a file `[start, end)` shows from `offset` on.
fn pieces_of_code(header: &ElfHeader, start: u64, end: u64, offset: u64) -> Vec<Piece> {
    let piece = |segment: &crate::image::Segment| {
        let first = page_down(segment.file_offset);
        let (from, to) =
            (first.max(offset), page_up(segment.file_offset + segment.file_bytes).min(offset + (end - start)));
        let relative = page_down(segment.address) + from.wrapping_sub(first);
        let base = (start + (from.wrapping_sub(offset))).checked_sub(relative)?;
        (from < to).then_some(Piece { base, from: relative, to: relative + (to - from) })
    };
    header.segments.iter().filter(|segment| segment.executable && segment.file_bytes > 0).filter_map(piece).collect()
}

impl AddressSpace {
    /// The placed images: (address of the first page, image).
    pub fn placed_images(&self) -> impl Iterator<Item = (u64, &Image)> {
        self.placements.iter().map(|placement| (placement.start, &*placement.image))
    }

    /// Whether an address in an image is code of its file; None outside of images.
    pub(crate) fn is_code_of_image(&self, address: u64) -> Option<bool> {
        self.placement_around(address).map(|placement| placement.image.header.is_code(address - placement.start))
    }

    /// Where the image around an address begins.
    pub fn image_start(&self, address: u64) -> Option<u64> {
        self.placement_around(address).map(|placement| placement.start)
    }

    /// The address in the original code for one in a sled, where an instruction begins, or behind one that was rewritten, or at a call that is
    /// to happen again; any other address as it is.
    pub fn original_address(&self, address: u64) -> u64 {
        self.placement_around(address)
            .and_then(|placement| {
                let relative = address - placement.start;
                let image = &placement.image;
                let behind = image.original_address(relative);
                let at = || image.original_address(relative + SLED_SYSCALL_BYTES).map(|at| at - SYSCALL_BYTES);
                Some(placement.start + behind.or_else(at)?)
            })
            .unwrap_or(address)
    }

    /// Leads a vcpu that was interrupted out of the middle of what a sled has for an access relative to GS, while its worker has executed
    /// nothing else: to its beginning or behind it.
    pub fn settle(&self, vcpu: &mut Vcpu, worker: &Worker) {
        let registers = vcpu.registers_mut();
        let Some(placement) = self.placement_around(registers.rip) else { return };
        let relative = registers.rip - placement.start;
        if let Some(access) = placement.image.gs_access(relative) {
            registers.rip = placement.start + access.settle(relative, worker.state.scratch_gs, registers);
        }
    }

    /// An address in the original code for any code address: for one in the middle of a sled's stub, an address close by. For people and
    /// debuggers; a program is shown [`original_address`](Self::original_address).
    pub fn code_address(&self, address: u64) -> u64 {
        let exact = self.original_address(address);
        if exact != address {
            return exact;
        }
        let nearby = self.placement_around(address).and_then(|placement| {
            let relative = placement.image.nearby_address(address - placement.start)?;
            Some(placement.start + relative)
        });
        nearby.unwrap_or(address)
    }

    /// Where the program has the instruction that is executed at an address; None for one that a sled has beside the program's own. A jump
    /// that leads into a sled, and the one that leads back, stand for the instruction that is executed next.
    pub fn instruction_address(&self, address: u64) -> Option<u64> {
        let Some(placement) = self.placement_around(address) else { return Some(address) };
        let relative = address - placement.start;
        match placement.image.original_address(relative) {
            Some(original) => Some(placement.start + original),
            None => (relative < placement.image.sled_start()).then_some(address),
        }
    }

    /// The inverse of [`original_address`](Self::original_address), for code that a signal interrupted in a system call.
    pub fn sled_address(&self, address: u64) -> u64 {
        self.placement_around(address)
            .and_then(|placement| {
                let relative = address - placement.start;
                let image = &placement.image;
                let behind = image.sled_address(relative);
                let at = || image.sled_address(relative + SYSCALL_BYTES).map(|at| at - SLED_SYSCALL_BYTES);
                Some(placement.start + behind.or_else(at)?)
            })
            .unwrap_or(address)
    }

    /// Where the sled of an image has the instruction that lay at an address inside of a patch.
    pub(crate) fn patched_entry(&self, address: u64) -> Option<u64> {
        let placement = self.placement_around(address)?;
        Some(placement.start + placement.image.entry(address - placement.start)?)
    }

    /// The instruction that was replaced and ends, in the sled, at an address: where it lay, and its bytes.
    pub(crate) fn replaced_instruction(&self, address: u64) -> Option<(u64, [u8; 15])> {
        let placement = self.placement_around(address)?;
        let (at, bytes) = placement.image.replaced_instruction(address - placement.start)?;
        Some((placement.start + at, bytes))
    }

    /// Whether an address lies in the code that stands for rewritten instructions.
    pub fn is_in_sled(&self, address: u64) -> bool {
        self.placement_around(address).is_some_and(|p| address - p.start >= p.image.sled_start())
    }

    pub(super) fn placement_around(&self, address: u64) -> Option<&Placement> {
        self.placements.iter().find(|placement| placement.has(address))
    }

    /// Puts images in the place of the code that a private mapping of a file shows, or remembers that it may become code.
    pub(super) fn notice_elf(
        &mut self,
        start: u64,
        end: u64,
        prot: u8,
        file: &File,
        offset: u64,
    ) -> Result<(), MapError> {
        let Ok(key) = FileKey::of(file) else { return Ok(()) };
        let Some(header) = images().header(key, file) else { return Ok(()) };
        if prot & PROT_EXEC != 0 {
            return self.place_code(start, end, key, file, offset, &header);
        }
        if !pieces_of_code(&header, start, end, offset).is_empty()
            && let Some(view) = View::of(end, offset, key, file)
        {
            self.views.insert(start, view);
        }
        Ok(())
    }

    /// Something else is mapped in a range, or nothing: what was known of files there is void.
    pub(super) fn forget_views(&mut self, start: u64, end: u64) {
        if self.views.is_empty() {
            return;
        }
        let touched = |(at, view): (&u64, &View)| (*at < end && view.end > start).then(|| (*at, view.clone()));
        for (at, view) in self.views.iter().filter_map(touched).collect::<Vec<_>>() {
            self.views.remove(&at);
            if at < start {
                self.views.insert(at, View { end: start, ..view.clone() });
            }
            if view.end > end {
                self.views.insert(end, View { offset: view.offset + (end - at), ..view });
            }
        }
    }

    /// A private mapping of a file gets the right to execute: where nothing was written to it, images take the place of its code.
    pub(super) fn make_views_executable(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        let overlapping = |(at, view): (&u64, &View)| (*at < end && view.end > start).then(|| (*at, view.clone()));
        for (at, view) in self.views.iter().filter_map(overlapping).collect::<Vec<_>>() {
            let (from, to) = (start.max(at), end.min(view.end));
            let is_unchanged = self.private_pages(from, to).is_some_and(|pages| pages.is_empty());
            let Some(file) = view.file().filter(|_| is_unchanged) else { continue };
            let Some(header) = images().header(view.key, &file) else { continue };
            self.place_code(from, to, view.key, &file, view.offset + (from - at), &header)?;
            self.forget_views(from, to);
        }
        Ok(())
    }

    fn place_code(
        &mut self,
        start: u64,
        end: u64,
        key: FileKey,
        file: &File,
        offset: u64,
        header: &ElfHeader,
    ) -> Result<(), MapError> {
        for piece in pieces_of_code(header, start, end, offset) {
            let known = self.placements.iter().position(|p| p.start == piece.base && p.image.key == key);
            let index = match known {
                Some(index) => index,
                // Where there is no room for a sled, code stays as it is, and traps.
                None => match self.place_sled(piece.base, key, file, header, piece.base + piece.to) {
                    Some(index) => index,
                    None => continue,
                },
            };
            self.show_piece(index, &piece)?;
        }
        Ok(())
    }

    /// Puts the pages of an image where the mapping of the file has them.
    fn show_piece(&mut self, index: usize, piece: &Piece) -> Result<(), MapError> {
        let (start, end) = (piece.base + piece.from, piece.base + piece.to);
        let placement = &mut self.placements[index];
        placement.add(piece.from, piece.to);
        let image = placement.image.clone();
        let name = self.vmas.find(start).map_or(&b""[..], |(_, vma)| self.mapping_name(vma)).to_vec();
        if !real::map_file(start, end - start, 7, false, images().fd(), image.offset + piece.from) {
            return Err(MapError::NoMemory);
        }
        self.real.set(start, end, RealKind::Store { offset: image.offset + piece.from });
        let kind = VmaKind::Image(self.names.number(&name));
        let parts: Vec<Vma> = self.vmas.parts(start, end).collect();
        self.vmas.remove(start, end);
        for part in parts {
            self.vmas.insert(Vma { kind, ..part });
        }
        perf::show_part(piece.base, &image, (piece.from, piece.to));
        Ok(())
    }

    /// Finds a place for the sled of an image at `base` of which nothing lies there yet, and puts it there. The index of the placement.
    fn place_sled(&mut self, base: u64, key: FileKey, file: &File, header: &ElfHeader, code_end: u64) -> Option<usize> {
        let image = self.image_with_room(base, key, file, header)?;
        let name = self.vmas.find(code_end - 1).map_or(&b""[..], |(_, vma)| self.mapping_name(vma)).to_vec();
        self.map_sled(base, &image, &name).ok()?;
        self.placements.push(Placement { start: base, image, shown: Vec::new(), fresh: false });
        Some(self.placements.len() - 1)
    }

    /// The image of a file whose sled has room if the image lies at `base`. The distances that are tried are the same everywhere, so that
    /// few images of a file are made.
    pub(super) fn image_with_room(
        &self,
        base: u64,
        key: FileKey,
        file: &File,
        header: &ElfHeader,
    ) -> Option<Arc<Image>> {
        // Loaders that align reserve as much more, and give back what they do not need.
        let step = header.alignment.clamp(SLED_STEP_BYTES, FARTHEST_SLED_BYTES);
        let mut gap = 0;
        while header.span + gap < FARTHEST_SLED_BYTES.max(header.span + 1) {
            let start = base + header.span + gap;
            // A sled is seldom longer than a page; whether it fits is looked at when it is known.
            if self.is_free(start, start + PAGE) {
                let image = images().with_gap(key, file, Gap(gap)).ok()?;
                if self.is_free(start, start + image.sled_bytes) {
                    return Some(image);
                }
            }
            gap = if gap == 0 { step } else { gap * 2 };
        }
        None
    }

    /// Whether nothing is mapped in a range that a mapping may have.
    fn is_free(&self, start: u64, end: u64) -> bool {
        self.owns(start, end) && !self.vmas.overlaps(start, end) && !self.in_heap_zone(start, end)
    }

    /// Maps the sled of an image at `base`.
    pub(super) fn map_sled(&mut self, base: u64, image: &Image, name: &[u8]) -> Result<(), MapError> {
        let (start, bytes) = (base + image.sled_start(), image.sled_bytes);
        if bytes == 0 {
            return Ok(());
        }
        if !real::map_file(start, bytes, PROT_READ | PROT_EXEC, false, images().fd(), image.sled_offset) {
            return Err(MapError::NoMemory);
        }
        self.real.set(start, start + bytes, RealKind::Store { offset: image.sled_offset });
        let kind = VmaKind::Image(self.names.number(name));
        self.vmas.insert(Vma::private(start, start + bytes, PROT_READ | PROT_EXEC, kind));
        Ok(())
    }

    /// Forgets images of which an unmapping or another mapping covers all that was there, and their sleds.
    pub(super) fn remove_placements(&mut self, address: u64, end: u64) {
        let covered = |p: &Placement| p.shown.iter().all(|(from, to)| address <= p.start + from && end >= p.start + to);
        for placement in self.placements.iter().filter(|p| covered(p)) {
            let (from, to) = placement.sled();
            self.vmas.remove(from, to);
        }
        self.placements.retain(|p| !covered(p));
    }

    /// Whether a fixed mapping asks for a segment of an image that lies there already.
    pub(super) fn is_part_of_image(&self, start: u64, end: u64, request: &MapRequest<'_>) -> bool {
        let Backing::File { file, offset, .. } = request.backing else { return false };
        let Some(placement) = self.placement_around(start) else { return false };
        if request.shared || !placement.shows(start, end) {
            return false;
        }
        let relative = start - placement.start;
        let fits = placement.image.header.segments.iter().any(|segment| {
            let (from, to) = (page_down(segment.address), page_up(segment.address + segment.file_bytes));
            relative >= from
                && end - placement.start <= to
                && page_down(segment.file_offset) + (relative - from) == offset
        });
        fits && self.still_shows(start, end) && FileKey::of(file).is_ok_and(|key| key == placement.image.key)
    }

    /// Whether nothing else has been mapped over an image.
    fn still_shows(&self, start: u64, end: u64) -> bool {
        let is_image = |vma: &Vma| matches!(vma.kind, VmaKind::Image(_));
        self.vmas.parts(start, end).all(|vma| is_image(&vma)) && self.is_mapped(start, end - start)
    }

    /// Whether a range is made of zero pages of an image that nothing has touched yet. Marks the image as touched.
    pub(super) fn is_fresh_zero(&mut self, start: u64, end: u64) -> bool {
        let Some(placement) = self.placements.iter_mut().find(|p| p.shows(start, end)) else { return false };
        let (from, to) = (start - placement.start, end - placement.start);
        let zero =
            placement.image.header.segments.iter().all(|segment| {
                page_down(segment.address) >= to || page_up(segment.address + segment.file_bytes) <= from
            });
        zero && std::mem::replace(&mut placement.fresh, false)
    }

    /// Whether a range is what ld.so protects after relocation, of an image that lies here.
    pub(super) fn is_relro(&self, start: u64, end: u64) -> bool {
        self.placement_around(start).is_some_and(|placement| {
            placement.shows(start, end)
                && placement.image.header.relro.is_some_and(|(from, to)| {
                    start >= placement.start + page_down(from) && end <= placement.start + page_up(to)
                })
        })
    }
}
