//! `mremap` of a guest: memory without a file moves by copying, files and shared memory by their mappings.

use super::access::{Opening, PLAIN, real_rights, rights_before_execution};
use super::map::{Backing, MapError, MapRequest};
use super::real::{self, Leaving, Piece, RealKind, RealMap};
use super::touched;
use super::vma::{LOCKS, Marks, Vma, VmaKind};
use super::{AddressSpace, PROT_EXEC, PROT_READ};
use crate::arena::HostRegion;
use crate::copy;
use crate::image::{PAGE, page_up};

/// Of more than this it is asked what was written before it is copied.
const LOOKED_THROUGH_BYTES: u64 = 1 << 20;

/// The arguments of `mremap`, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct MoveRequest {
    pub old: u64,
    /// 0 maps shared memory once more.
    pub old_bytes: u64,
    pub new_bytes: u64,
    pub may_move: bool,
    /// MREMAP_DONTUNMAP.
    pub keep: bool,
    /// MREMAP_FIXED: where to.
    pub to: Option<u64>,
}

impl AddressSpace {
    /// `mremap(2)`: grows and shrinks in place where it can; otherwise private memory moves by copying, shared memory by its mapping.
    /// With `old_bytes` 0 shared memory is mapped once more; with `keep` what is moved stays mapped, without its private pages
    /// (MREMAP_DONTUNMAP). What only moves, to a given place, may be several mappings with gaps between them (since Linux 6.17).
    ///
    /// # Errors
    /// As Linux; NoMemory also for private memory of a file that would have to grow in place.
    pub fn mremap(&mut self, region: &mut HostRegion, request: &MoveRequest) -> Result<u64, MapError> {
        let &MoveRequest { old, may_move, keep, to, .. } = request;
        let (old_bytes, new_bytes) = (page_up(request.old_bytes), page_up(request.new_bytes));
        if !old.is_multiple_of(PAGE) || new_bytes == 0 || (to.is_some() && !may_move) {
            return Err(MapError::Invalid);
        }
        // What the new place must be is looked at before the old one (`check_mremap_params`).
        if let Some(to) = to {
            let end = to.checked_add(new_bytes).ok_or(MapError::Invalid)?;
            let overlaps = old.checked_add(old_bytes).is_none_or(|old_end| to < old_end && old < end);
            if !to.is_multiple_of(PAGE) || overlaps {
                return Err(MapError::Invalid);
            }
        }
        if keep && (!may_move || old_bytes != new_bytes) {
            return Err(MapError::Invalid);
        }
        let whole = MoveRequest { old_bytes, new_bytes, ..*request };
        match to.filter(|_| old_bytes == new_bytes) {
            Some(to) => self.move_several(region, &whole, to),
            None => self.move_one(region, &whole),
        }
    }

    /// Moves all mappings of a range, each as far from the others as it was (`remap_move`). Those before one that cannot be moved are moved.
    fn move_several(&mut self, region: &mut HostRegion, whole: &MoveRequest, to: u64) -> Result<u64, MapError> {
        let end = whole.old.checked_add(whole.old_bytes).ok_or(MapError::Invalid)?;
        let parts: Vec<Vma> = self.vmas.parts(whole.old, end).collect();
        if parts.first().is_none_or(|first| first.start > whole.old) {
            return Err(MapError::Fault);
        }
        for part in parts {
            let (old, bytes) = (part.start, part.end - part.start);
            let to = Some(to + (old - whole.old));
            self.move_one(region, &MoveRequest { old, old_bytes: bytes, new_bytes: bytes, to, ..*whole })?;
        }
        Ok(to)
    }

    /// The rest of `mremap`, for one mapping; sizes are whole pages.
    fn move_one(&mut self, region: &mut HostRegion, request: &MoveRequest) -> Result<u64, MapError> {
        let &MoveRequest { old, old_bytes, new_bytes, may_move, keep, to } = request;
        let vma = *self.vmas.find(old).ok_or(MapError::Fault)?.1;
        if vma.sealed {
            return Err(MapError::NotPermitted);
        }
        if old_bytes == 0 && !vma.shared {
            return Err(MapError::Invalid);
        }
        if keep && matches!(vma.kind, VmaKind::Image(_)) {
            return Err(MapError::Invalid);
        }
        // What only shrinks may reach beyond its mapping, into others or nothing.
        let shrinks = to.is_none() && !keep && old_bytes != 0 && new_bytes <= old_bytes;
        if old_bytes.min(new_bytes) > vma.end - old && !shrinks {
            return Err(MapError::Fault);
        }
        if to.is_some() && new_bytes < old_bytes {
            // What is not moved goes first, whatever it is part of (`mremap_to`).
            self.demand_unsealed(old, old + old_bytes)?;
            self.munmap(old + new_bytes, old_bytes - new_bytes)?;
        }
        let old_bytes = if shrinks { old_bytes } else { old_bytes.min(new_bytes) };
        if old.checked_add(old_bytes).is_none() {
            return Err(MapError::Invalid);
        }
        if to.is_none() && old.checked_add(new_bytes).is_none() {
            return Err(MapError::NoMemory);
        }
        self.demand_unsealed(old, old + old_bytes.max(PAGE))?;
        if shrinks {
            if new_bytes < old_bytes {
                self.munmap(old + new_bytes, old_bytes - new_bytes)?;
            }
            return Ok(old);
        }
        if to.is_none() && !keep && self.grow_in_place(&vma, old + old_bytes, old + new_bytes)? {
            return Ok(old);
        }
        if !may_move {
            return Err(MapError::NoMemory);
        }
        let request = MoveRequest { old_bytes, new_bytes, ..*request };
        let shows_file = |map: &RealMap| matches!(map.kind, RealKind::File { .. });
        let is_file = self.real.parts(old, old + old_bytes).first().is_some_and(shows_file);
        let new = if vma.shared || is_file {
            self.move_file(region, &vma, &request)?
        } else {
            self.move_mapping(region, &vma, &request)?
        };
        // What was asked of it goes along; what stays is not locked.
        self.vmas.mark(new, new + new_bytes, Marks::NONE, vma.marks);
        if keep {
            self.vmas.mark(old, old + old_bytes, LOCKS, Marks::NONE);
        }
        Ok(new)
    }

    /// Moves a mapping of a file or of shared memory, or doubles it when `old_bytes` is 0.
    fn move_file(&mut self, region: &mut HostRegion, vma: &Vma, request: &MoveRequest) -> Result<u64, MapError> {
        let &MoveRequest { old, old_bytes, new_bytes, to, keep, .. } = request;
        let new = match to {
            Some(to) if !to.checked_add(new_bytes).is_some_and(|end| self.owns(to, end)) => {
                return Err(MapError::NoMemory);
            }
            Some(to) => {
                self.munmap(to, new_bytes)?;
                // What is mapped once more may have lain in the way.
                self.vmas.find(old).ok_or(MapError::Fault)?;
                to
            }
            None => self.find_free(region, new_bytes)?,
        };
        let rights = if vma.shared { rights_before_execution(vma.prot) } else { real_rights(vma.prot) };
        let first_bytes = old_bytes.max(PAGE);
        // The real kernel moves what has the same rights: where some of it was executed, that happens for the first time again.
        let is_code = vma.shared && vma.prot & PROT_EXEC != 0;
        if is_code && real::protect(old, first_bytes, rights) {
            self.real.set(old, old + first_bytes, RealKind::File { prot: rights });
        }
        let leaving = if keep { Leaving::Mappings } else { Leaving::Hole };
        if !real::remap(old, old_bytes, new, new_bytes, leaving) {
            return Err(MapError::NoMemory);
        }
        let moved = vma.from(old);
        self.real.set(new, new + new_bytes, RealKind::File { prot: rights });
        if old_bytes > 0 && !keep {
            if !real::map_plain(old, old_bytes) {
                return Err(MapError::NoMemory);
            }
            self.real.remove(old, old + old_bytes);
            self.give_up(old, old + old_bytes)?;
            self.vmas.remove(old, old + old_bytes);
            self.freed(old);
        }
        self.vmas.insert(Vma { start: new, end: new + new_bytes, ..moved });
        Ok(new)
    }

    fn grow_in_place(&mut self, vma: &Vma, from: u64, to: u64) -> Result<bool, MapError> {
        let fits = vma.end == from && self.owns(from, to) && !self.vmas.overlaps(from, to);
        if !fits || self.in_heap_zone(from, to) {
            return Ok(false);
        }
        if vma.shared {
            return self.grow_shared(vma, from, to);
        }
        if vma.kind != VmaKind::Anonymous {
            return Ok(false);
        }
        self.reuse.mapped(from, to);
        let opening = if vma.prot == PLAIN { Opening::WhenTouched } else { Opening::Now };
        self.make_plain(from, to, opening)?;
        self.apply(from, to, PLAIN, vma.prot)?;
        self.vmas.insert(Vma { start: from, end: to, ..*vma });
        Ok(true)
    }

    /// Shared memory and files show what follows; behind their ends is what raises SIGBUS.
    fn grow_shared(&mut self, vma: &Vma, from: u64, to: u64) -> Result<bool, MapError> {
        let shows_file = |map: &RealMap| matches!(map.kind, RealKind::File { .. });
        if !self.real.parts(from - PAGE, from).first().is_some_and(shows_file) {
            return Ok(false);
        }
        self.reuse.mapped(from, to);
        if !real::extend(from, to - from) {
            return Err(MapError::NoMemory);
        }
        let rights = rights_before_execution(vma.prot);
        if vma.prot & PROT_EXEC != 0 {
            // The page before may have been executed.
            real::protect(from, to - from, rights);
        }
        self.real.set(from, to, RealKind::File { prot: rights });
        self.vmas.insert(Vma { start: from, end: to, ..vma.from(from) });
        Ok(true)
    }

    fn move_mapping(&mut self, region: &mut HostRegion, vma: &Vma, moving: &MoveRequest) -> Result<u64, MapError> {
        let &MoveRequest { old, old_bytes, new_bytes, to, keep, .. } = moving;
        let request = MapRequest {
            hint: to.unwrap_or(0),
            bytes: new_bytes,
            prot: PLAIN,
            shared: false,
            fixed: to.is_some(),
            no_replace: false,
            backing: Backing::Anonymous,
        };
        let new = self.mmap(region, &request)?;
        if vma.prot & PROT_READ == 0 {
            self.apply(old, old + old_bytes, vma.prot, PLAIN)?;
        }
        self.copy_contents(old, new, old_bytes.min(new_bytes), vma.kind);
        if keep {
            // The bytes of a small file were copied, and have no other place.
            if !matches!(vma.kind, VmaKind::File { .. }) {
                real::discard(old, old_bytes);
            }
            if vma.prot & PROT_READ == 0 {
                // It was opened to be copied.
                self.apply(old, old + old_bytes, PLAIN, vma.prot)?;
            }
        } else {
            self.munmap(old, old_bytes)?;
        }
        if vma.prot != PLAIN {
            self.mprotect(new, new_bytes, vma.prot)?;
        }
        Ok(new)
    }

    /// Copies what a move takes along: of large anonymous memory what has been written, and nothing of what is closed.
    fn copy_contents(&self, old: u64, new: u64, bytes: u64, kind: VmaKind) {
        let pieces = self.real.pieces(old, old + bytes);
        for piece in pieces.iter().filter(|piece| !piece.is_closed()) {
            for (from, to) in contents(piece, kind) {
                let target = new + (from - old);
                self.open_range(target, target + (to - from));
                copy::copy_bytes(target, from, to - from);
            }
        }
    }
}

/// The ranges of a piece that may hold something else than zeroes.
fn contents(piece: &Piece, kind: VmaKind) -> Vec<(u64, u64)> {
    let &Piece { start, end, .. } = piece;
    let written = match kind {
        VmaKind::Anonymous if piece.bytes() > LOOKED_THROUGH_BYTES => touched::private_ranges(start, end),
        _ => None,
    };
    match written {
        Some(ranges) => ranges.into_iter().map(|(from, to)| (start + from, start + to)).collect(),
        None => vec![(start, end)],
    }
}
