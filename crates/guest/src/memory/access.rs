//! What of a guest's addresses can be touched, and with which rights, at as few calls of the real kernel as can be.
//!
//! Plain memory of an arena can be read and written. What a guest has not mapped any more, or without rights, is *closed*: by guard pages
//! up to 16 MiB, which are no change of the memory map, and by a mapping without rights beyond, which costs nothing for each page. Where
//! a part of such a mapping is opened, some more than that is made plain memory, and guard pages lie on the rest: a reservation that is
//! filled piece by piece changes the map a few times only. Rights between all and none are the kernel's protection.
//!
//! Memory that a program fills with code itself becomes executable page by page, when it is executed for the first time: what leads out of
//! the simulation is made to trap before (`generated`). What can be written to as well is one or the other for a while, so that this
//! happens again after changes. Memory that is shared becomes executable in the same way, so that what was never executed is known; it can
//! be written to elsewhere all the time, and nothing in it is made to trap.
//!
//! What remains open: a process that maps the same addresses again and again has some calls' time in which what it gave up does not
//! fault yet (`reuse`); a compiler that changes the rights of its code all the time gets all of them; what the loader protects after
//! relocating libraries, and their read-only segments, is not protected (`map`).

use super::map::MapError;
use super::real::{self, Piece, RealKind, RealMap};
use super::reuse::KEPT_BYTES;
use super::touched;
use super::touched_pages;
use super::vma::{Vma, VmaKind};
use super::{AddressSpace, PROT_EXEC, PROT_READ, PROT_WRITE};
use crate::copy;
use crate::image::{PAGE, page_down, page_up};
use crate::vcpu::FaultInfo;
use std::collections::BTreeMap;

/// The rights to plain memory.
pub(super) const PLAIN: u8 = PROT_READ | PROT_WRITE;
/// What guard pages close: they cost some 10 ns and 8 bytes of page tables for each page.
const GUARDED_BYTES: u64 = 16 << 20;
/// On kernels without guard pages, what is smaller is not closed.
const CLOSED_BYTES: u64 = 1 << 20;
/// As much is opened at least, and at most, behind what was asked for of a closed mapping.
const OPENED_AHEAD_BYTES: (u64, u64) = (1 << 20, 16 << 20);
/// As much is opened at least of what is touched for the first time.
const TOUCHED_BYTES: u64 = 16 << 10;
/// So often memory that was executable gets other rights before such changes are no longer followed, in one place and in a process.
const CODE_CHANGES: u32 = 64;
const ALL_CODE_CHANGES: u32 = 4096;
/// As often a page of code is written to after it was executed, and looked at anew; then it keeps all of its rights.
const CODE_TURNS: u8 = 8;

/// When memory is to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// At once: the simulator writes to it.
    Now,
    /// When it is touched, if the process maps it again and again.
    WhenTouched,
}

impl AddressSpace {
    /// Makes a range plain memory that reads as zero, where it is not yet.
    pub(super) fn make_plain(&mut self, start: u64, end: u64, opening: Opening) -> Result<(), MapError> {
        self.replace_foreign(start, end)?;
        let waits = opening == Opening::WhenTouched && self.reuse.is_warm();
        for part in self.real.parts(start, end) {
            let bytes = part.end - part.start;
            match part.kind {
                RealKind::Freed { .. } if waits && self.closes_anew(part.start, bytes) => {
                    self.real.set(part.start, part.end, RealKind::Guarded);
                }
                RealKind::Freed { .. } => {
                    if bytes <= KEPT_BYTES {
                        touched_pages::clear(part.start, bytes);
                    } else {
                        real::discard(part.start, bytes);
                    }
                    self.real.remove(part.start, part.end);
                }
                RealKind::Guarded if waits => {}
                RealKind::Guarded | RealKind::GuardedStore { .. } => self.remove_guards(&part),
                RealKind::Closed => self.open_closed(part.start, part.end)?,
                RealKind::Store { .. } => real::discard(part.start, bytes),
                RealKind::File { .. } | RealKind::Protected { .. } => {}
            }
        }
        Ok(())
    }

    /// Closes what is mapped again until it is touched, now and then: what is open of it afterwards is what was touched, and if that is little,
    /// nobody has to ask about the rest any more.
    fn closes_anew(&mut self, start: u64, bytes: u64) -> bool {
        bytes <= KEPT_BYTES && touched_pages::is_asked(bytes) && self.reuse.closes_anew() && real::guard(start, bytes)
    }

    /// Puts plain memory over mappings that show something else.
    fn replace_foreign(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        let parts = self.real.parts(start, end);
        let is_foreign = |part: &&RealMap| match part.kind {
            RealKind::File { .. } | RealKind::Protected { .. } => true,
            RealKind::Store { offset } | RealKind::GuardedStore { offset } => {
                !self.is_zero_in_store(part.start, part.end, offset)
            }
            _ => false,
        };
        let foreign: Vec<&RealMap> = parts.iter().filter(is_foreign).collect();
        let (Some(first), Some(last)) = (foreign.first(), foreign.last()) else { return Ok(()) };
        let (from, to) = (first.start, last.end);
        if !real::map_plain(from, to - from) {
            return Err(MapError::NoMemory);
        }
        self.real.remove(from, to);
        Ok(())
    }

    pub(super) fn remove_guards(&mut self, part: &RealMap) {
        real::unguard(part.start, part.end - part.start);
        match part.kind {
            RealKind::GuardedStore { offset } => self.real.set(part.start, part.end, RealKind::Store { offset }),
            _ => self.real.remove(part.start, part.end),
        }
    }

    /// Makes plain memory of a part of a closed mapping, and of some more of it, on which guard pages are laid.
    fn open_closed(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        let whole = self.real.around(start).ok_or(MapError::NoMemory)?;
        let (least, most) = OPENED_AHEAD_BYTES;
        let grows = self.vmas.find(start.wrapping_sub(1)).filter(|(_, vma)| vma.prot != 0);
        let from = grows.map_or(start, |(_, vma)| vma.start);
        let ahead = page_up(((end - from) / 2).clamp(least, most));
        let from = if start - whole.start <= least { whole.start } else { start };
        let to = if whole.end - end <= ahead + least { whole.end.min(end + ahead + least) } else { end + ahead };
        if !real::map_plain(from, to - from) {
            return Err(MapError::NoMemory);
        }
        self.real.remove(from, to);
        for (from, to) in [(from, start), (end, to)] {
            if from < to && real::guard(from, to - from) {
                self.real.set(from, to, RealKind::Guarded);
            }
        }
        Ok(())
    }

    /// Closes a range, and drops what is in it. NoMemory when a large one would need a mapping that the machine does not have.
    pub(super) fn close(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        let pieces = self.real.pieces(start, end);
        if pieces.iter().all(Piece::is_closed) {
            return Ok(());
        }
        if end - start > GUARDED_BYTES {
            return if self.close_by_mapping(start, end) { Ok(()) } else { Err(MapError::NoMemory) };
        }
        pieces.iter().filter(|piece| !piece.is_closed()).try_for_each(|piece| self.close_piece(piece))
    }

    fn close_by_mapping(&mut self, start: u64, end: u64) -> bool {
        let closed = real::map_closed(start, end - start);
        if closed {
            self.real.set(start, end, RealKind::Closed);
        }
        closed
    }

    fn close_piece(&mut self, piece: &Piece) -> Result<(), MapError> {
        let &Piece { start, end, kind } = piece;
        if let Some(RealKind::File { .. } | RealKind::Protected { .. }) = kind {
            // A file's mapping must go now: its file may be removed, and its pages must not come back.
            if !real::map_plain(start, end - start) {
                return Err(MapError::NoMemory);
            }
            self.real.remove(start, end);
        }
        let guarded = match kind {
            Some(RealKind::Store { offset }) => RealKind::GuardedStore { offset },
            _ => RealKind::Guarded,
        };
        if real::guard(start, end - start) {
            self.real.set(start, end, guarded);
        } else if guarded != RealKind::Guarded || end - start < CLOSED_BYTES || !self.close_by_mapping(start, end) {
            real::discard(start, end - start);
        }
        Ok(())
    }

    /// Takes back a range that the guest had mapped: it faults, now or when it turns out that it is not mapped again.
    pub(super) fn give_up(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        self.reuse.gave_up(start, end);
        if self.reuse.looks() {
            self.close_freed(false)?;
        }
        if !self.reuse.is_warm() {
            let closed = self.close(start, end);
            if closed.is_ok() || end - start <= GUARDED_BYTES {
                return closed;
            }
            // The machine has no mapping left for it.
            self.replace_foreign(start, end)?;
            real::discard(start, end - start);
            return Ok(());
        }
        let since = self.reuse.now();
        let bytes = self.real.freed().into_iter().map(|map| map.end - map.start);
        let mut kept: u64 = bytes.filter(|bytes| *bytes <= KEPT_BYTES).sum();
        for piece in self.real.pieces(start, end) {
            match piece.kind {
                None if kept + piece.bytes() <= KEPT_BYTES => kept += piece.bytes(),
                // To close it would change the map.
                None if piece.bytes() > GUARDED_BYTES => real::discard(piece.start, piece.bytes()),
                Some(kind) if kind.is_closed() => {
                    if touched_pages::is_asked(piece.bytes()) {
                        self.reuse.stayed_closed();
                    }
                    continue;
                }
                _ => {
                    self.close_piece(&piece)?;
                    continue;
                }
            }
            self.real.set(piece.start, piece.end, RealKind::Freed { since });
        }
        Ok(())
    }

    /// Closes what was given up some time ago, or all of it, and has not been mapped again.
    fn close_freed(&mut self, all: bool) -> Result<(), MapError> {
        let mut mistaken = false;
        for map in self.real.freed() {
            let expected = matches!(map.kind, RealKind::Freed { since } if self.reuse.expects(since));
            if all || !expected {
                mistaken = true;
                self.close(map.start, map.end)?;
            }
        }
        if mistaken {
            self.reuse.mistaken();
        }
        Ok(())
    }

    /// To be called when the guest waits: what it gave up long ago faults from then on.
    pub fn rest(&mut self) {
        if self.reuse.waits() {
            // What cannot be closed stays as it is, as for any other guest.
            let _ = self.close_freed(true);
        }
    }

    /// To be called when the guest meets a fault of its own: nothing that it gave up is left open any more.
    pub fn met_fault(&mut self) {
        self.reuse.cool();
        // As in `rest`.
        let _ = self.close_freed(true);
    }

    /// Opens the memory around an address at which a thread or a call has met a fault, if it is the guest's and was left closed until it is
    /// touched, or is code that is written to after it was executed. False when the fault is the guest's own.
    pub fn open_touched(&self, address: u64) -> bool {
        let Some((start, end)) = self.closed_under_mapping(address) else {
            return self.is_closed_code(address) && self.allow_writing(address);
        };
        let Some((_, vma)) = self.vmas.find(address) else { return false };
        // Four times as much as is open before it, so that a buffer that is filled from its start faults seldom.
        let from = start.max(address / TOUCHED_BYTES * TOUCHED_BYTES);
        let to = end.min(from + (3 * page_down(from - vma.start)).max(TOUCHED_BYTES)).max(page_down(address) + PAGE);
        self.open_guarded(from, to, from);
        true
    }

    /// As `open_touched` for the page around an address that lies at `place` now.
    pub(super) fn open_touched_page(&self, address: u64, place: u64) -> bool {
        let closed = self.closed_under_mapping(address).is_some();
        if closed {
            self.open_guarded(page_down(address), page_down(address) + PAGE, page_down(place));
        }
        // Code lies where the process runs.
        closed || (address == place && self.is_closed_code(address) && self.allow_writing(address))
    }

    /// Opens all of a range that is left closed until it is touched.
    pub(super) fn open_range(&self, start: u64, end: u64) {
        for part in self.real.parts(start, end).iter().filter(|part| part.kind == RealKind::Guarded) {
            self.open_guarded(part.start, part.end, part.start);
        }
    }

    fn open_guarded(&self, start: u64, end: u64, place: u64) {
        real::unguard(place, end - start);
        self.real.remove(start, end);
    }

    /// The range with guard pages around an address that the guest may touch nevertheless.
    fn closed_under_mapping(&self, address: u64) -> Option<(u64, u64)> {
        let (_, vma) = self.vmas.find(address)?;
        let part = self.real.around(address)?;
        let is_left = part.kind == RealKind::Guarded && vma.prot & PLAIN == PLAIN && !vma.shared;
        is_left.then_some((part.start.max(vma.start), part.end.min(vma.end)))
    }

    /// Gives `[start, end)`, which the guest has with the rights `was`, other rights. What is in it stays.
    pub(super) fn apply(&mut self, start: u64, end: u64, was: u8, prot: u8) -> Result<(), MapError> {
        let mut changes: Vec<(u64, u64, u8)> = Vec::new();
        for piece in self.real.pieces(start, end) {
            let Some(rights) = self.change_of(&piece, was, prot)? else { continue };
            match changes.last_mut() {
                Some(last) if last.1 == piece.start && last.2 == rights => last.1 = piece.end,
                _ => changes.push((piece.start, piece.end, rights)),
            }
        }
        for (from, to, rights) in changes {
            if !real::protect(from, to - from, rights) {
                return Err(MapError::NoMemory);
            }
            self.note_rights(from, to, rights);
            if rights & PROT_EXEC == 0 {
                self.forget_entries(from, to);
            }
        }
        Ok(())
    }

    /// The real protection that a piece needs for other rights; None when it needs no change, or has had it.
    fn change_of(&mut self, piece: &Piece, was: u8, prot: u8) -> Result<Option<u8>, MapError> {
        let mut piece = *piece;
        if let Some(RealKind::GuardedStore { .. }) = piece.kind
            && prot != 0
        {
            // What was given up of the pack, and was mapped since then without rights: zeroes.
            if !real::map_plain(piece.start, piece.bytes()) {
                return Err(MapError::NoMemory);
            }
            self.real.remove(piece.start, piece.end);
            piece.kind = None;
        }
        let piece = &piece;
        let present = match piece.kind {
            None | Some(RealKind::Freed { .. }) => PLAIN,
            Some(RealKind::Protected { prot } | RealKind::File { prot }) => prot,
            Some(RealKind::Store { .. } | RealKind::GuardedStore { .. }) => {
                // Loaders close the holes between a library's segments before they map those, which are there already.
                let loses = was & !prot & PROT_WRITE != 0;
                let gains = prot & !was & (PROT_WRITE | PROT_EXEC) != 0 || (was == 0 && prot != 0);
                // What is code no more, and was data before.
                let loses = loses || (was & PROT_WRITE != 0 && was & !prot & PROT_EXEC != 0);
                return Ok((loses || gains).then(|| real_rights(prot)));
            }
            Some(RealKind::Guarded | RealKind::Closed) => 0,
        };
        let wanted = match piece.kind {
            Some(RealKind::File { .. }) if !self.is_shared(piece.start) => real_rights(prot),
            _ => self.until_executed(piece.start, present, real_rights(prot)),
        };
        let wanted = if (was | prot) & PROT_EXEC == 0 {
            wanted
        } else {
            self.followed_rights(piece.start, present, wanted, was)
        };
        match piece.kind {
            _ if wanted == present => Ok(None),
            None if wanted == 0 && self.close_untouched(piece) => Ok(None),
            Some(RealKind::Closed) if wanted == PLAIN => self.open_closed(piece.start, piece.end).map(|()| None),
            Some(RealKind::Guarded) if wanted == PLAIN && self.reuse.is_warm() => Ok(None),
            Some(kind @ RealKind::Guarded) => {
                self.remove_guards(&RealMap { start: piece.start, end: piece.end, kind });
                Ok((wanted != PLAIN).then_some(wanted))
            }
            _ => Ok(Some(wanted)),
        }
    }

    /// The protection of what is not yet executable: the right to execute comes with its use.
    fn until_executed(&self, start: u64, present: u8, wanted: u8) -> u8 {
        let waits = wanted & !present & PROT_EXEC != 0 && self.follows_code(start);
        if waits { wanted & !PROT_EXEC } else { wanted }
    }

    /// Whether a fault is the first execution of a page that the guest may execute.
    pub fn waits_for_execution(&self, fault: &FaultInfo) -> bool {
        const PAGE_FAULT: u64 = 14;
        const INSTRUCTION_FETCH: u64 = 0x10;
        fault.trap_number == PAGE_FAULT
            && fault.error_code & INSTRUCTION_FETCH != 0
            && self.rights_of_code(fault.address).is_some_and(|rights| rights & PROT_EXEC == 0)
    }

    /// Makes the page around an address executable, if the guest may execute it. Whether it is.
    pub fn allow_execution(&mut self, address: u64) -> bool {
        let Some(rights) = self.rights_of_code(address) else { return false };
        let Some((_, &Vma { start, end, prot, shared, .. })) = self.vmas.find(address) else { return false };
        let page = page_down(address);
        let turns = self.code_turns.borrow().get(&page).is_none_or(|turns| *turns < CODE_TURNS);
        // What is shared can be written to elsewhere in any case.
        let rights = if turns && !shared { rights & !PROT_WRITE | PROT_EXEC } else { rights | PROT_EXEC };
        // Where the machine has no mapping left for a page alone, its neighbours become executable too.
        for (from, to, rights) in [(page, page + PAGE, rights), (start, end, real_rights(prot))] {
            if real::protect(from, to - from, rights) {
                self.note_rights(from, to, rights);
                return true;
            }
        }
        false
    }

    /// Something else is mapped there: what is known of the code that it held is void.
    pub(super) fn forget_code(&mut self, start: u64, end: u64) {
        remove_range(self.code_turns.get_mut(), start, end);
        remove_range(&mut self.code_changes, start, end);
        remove_range(&mut self.tamed, start, end);
        self.forget_entries(start, end);
    }

    /// What lies there is executed for the first time again, if it is.
    fn forget_entries(&mut self, start: u64, end: u64) {
        let entries: Vec<u64> = self.entries.range(start..end).copied().collect();
        for entry in entries {
            self.entries.remove(&entry);
        }
    }

    pub(crate) fn is_shared(&self, address: u64) -> bool {
        self.vmas.find(address).is_some_and(|(_, vma)| vma.shared)
    }

    /// Whether an address lies in code that was executed, and that the guest may write to.
    fn is_closed_code(&self, address: u64) -> bool {
        let is_writable = self.vmas.find(address).is_some_and(|(_, vma)| vma.prot & PROT_WRITE != 0 && !vma.shared);
        is_writable && self.rights_of_code(address).is_some_and(|rights| rights & PROT_WRITE == 0)
    }

    /// Makes the page of code around an address writable, and no longer executable, unless that has happened often. Whether it is.
    fn allow_writing(&self, address: u64) -> bool {
        let page = page_down(address);
        let turns = {
            let mut all = self.code_turns.borrow_mut();
            let turns = all.entry(page).or_default();
            *turns = turns.saturating_add(1);
            *turns
        };
        let rights = if turns < CODE_TURNS { PLAIN } else { PLAIN | PROT_EXEC };
        let changed = self.is_closed_code(address) && real::protect(page, PAGE, rights);
        if changed {
            self.note_rights(page, page + PAGE, rights);
        }
        changed
    }

    /// The real rights to a page of code of the guest's own making; None for all other memory.
    fn rights_of_code(&self, address: u64) -> Option<u8> {
        let (_, vma) = self.vmas.find(address)?;
        let is_code = vma.prot & PROT_EXEC != 0 && !matches!(vma.kind, VmaKind::Image(_));
        match self.real.around(address).map(|map| map.kind) {
            _ if !is_code => None,
            None | Some(RealKind::Freed { .. }) => Some(PLAIN),
            Some(RealKind::Protected { prot } | RealKind::File { prot }) => Some(prot),
            Some(RealKind::Store { .. } | RealKind::GuardedStore { .. } | RealKind::Guarded | RealKind::Closed) => None,
        }
    }

    /// The parts of a range that can really be executed now.
    pub(crate) fn executable_parts(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let executes = |kind: RealKind| match kind {
            RealKind::Protected { prot } | RealKind::File { prot } => prot & PROT_EXEC != 0,
            RealKind::Store { .. } => true,
            _ => false,
        };
        let parts = self.real.parts(start, end).into_iter().filter(|part| executes(part.kind));
        parts.map(|part| (part.start, part.end)).collect()
    }

    /// Whether the guest may execute what lies at an address, and shares it with nobody.
    pub(crate) fn is_own_code(&self, address: u64) -> bool {
        self.vmas.find(address).is_some_and(|(_, vma)| vma.prot & PROT_EXEC != 0 && !vma.shared)
    }

    /// Writes bytes of the guest's code, all in one page, whatever its rights. Whether it could.
    pub(crate) fn write_code(&self, at: u64, bytes: &[u8]) -> bool {
        let write = || copy::copy_bytes(at, bytes.as_ptr() as u64, bytes.len() as u64) == 0;
        if write() {
            return true;
        }
        let page = page_down(at);
        match self.real.around(at).map(|map| map.kind) {
            Some(RealKind::Protected { prot }) if real::protect(page, PAGE, prot | PROT_WRITE) => {
                let written = write();
                // It had these rights before: they need no further mapping.
                real::protect(page, PAGE, prot);
                written
            }
            _ => false,
        }
    }

    /// Writes for a debugger, whatever rights the guest has, wherever its memory lies now, but not to what others share and may not write.
    /// Code that was written to is prepared anew. How many bytes were written; `data` lies in one page.
    pub fn write_forced(&mut self, address: u64, data: &[u8]) -> usize {
        let written = self.write_parked(address, data);
        let Some((_, &vma)) = self.vmas.find(address) else { return written };
        if written == data.len() || vma.prot & PROT_WRITE != 0 || vma.shared {
            return written;
        }
        let page = page_down(address);
        let present = match self.real.around(address).map(|map| map.kind) {
            Some(RealKind::Protected { prot } | RealKind::File { prot }) => prot,
            Some(RealKind::Store { .. }) => PROT_READ | PROT_EXEC,
            _ => return written,
        };
        let is_code = vma.prot & PROT_EXEC != 0;
        let after = match vma.kind {
            VmaKind::Image(_) => present,
            _ if is_code => present & !PROT_EXEC,
            _ => present,
        };
        let copied = self.with_whereabouts(address, |place| {
            let at = page_down(place);
            if !real::protect(at, PAGE, PLAIN) {
                return false;
            }
            let copied = copy::copy_bytes(place, data.as_ptr() as u64, data.len() as u64) == 0;
            real::protect(at, PAGE, after);
            copied
        });
        if after != present {
            self.note_rights(page, page + PAGE, after);
        }
        if matches!(vma.kind, VmaKind::Image(_)) {
            self.real.new_layout();
            self.note_code_in_image(&Vma { start: page, end: page + PAGE, ..vma }, PLAIN | PROT_EXEC);
        }
        if copied { data.len() } else { written }
    }

    /// The protection that is made real. Changes of what is executable are followed for a while.
    fn followed_rights(&mut self, start: u64, present: u8, wanted: u8, was: u8) -> u8 {
        if wanted == present || wanted == 0 {
            return wanted;
        }
        if was & PROT_EXEC != 0 {
            let changes = self.code_changes.entry(start).or_default();
            *changes = changes.saturating_add(1);
            self.all_code_changes = self.all_code_changes.saturating_add(1);
        }
        if self.follows_code(start) { wanted } else { PLAIN | PROT_EXEC }
    }

    /// Whether changes of the rights of code that begins there are followed still.
    fn follows_code(&self, start: u64) -> bool {
        let changes = self.code_changes.get(&start).copied().unwrap_or(0);
        changes <= CODE_CHANGES && self.all_code_changes <= ALL_CODE_CHANGES
    }

    /// Closes memory that loses its rights before anything was written to it: guard pages do, and the map stays as it is.
    fn close_untouched(&mut self, piece: &Piece) -> bool {
        let &Piece { start, end, .. } = piece;
        let is_empty = || touched::private_ranges(start, end).is_some_and(|ranges| ranges.is_empty());
        let closed = end - start <= GUARDED_BYTES && is_empty() && real::guard(start, end - start);
        if closed {
            self.real.set(start, end, RealKind::Guarded);
        }
        closed
    }

    fn note_rights(&self, start: u64, end: u64, prot: u8) {
        for piece in self.real.pieces(start, end) {
            match piece.kind {
                Some(RealKind::Store { .. } | RealKind::GuardedStore { .. }) => self.real.new_layout(),
                Some(RealKind::File { .. }) => self.real.set(piece.start, piece.end, RealKind::File { prot }),
                _ if prot == PLAIN => self.real.remove(piece.start, piece.end),
                _ => self.real.set(piece.start, piece.end, RealKind::Protected { prot }),
            }
        }
    }

    /// What the C library reserves for a thread's stack is closed as soon as a part of it is opened: what lies below is its guard.
    pub(super) fn close_around_stack(&mut self, start: u64, end: u64) -> Result<(), MapError> {
        for address in [start.wrapping_sub(1), end] {
            let Some((_, &vma)) = self.vmas.find(address) else { continue };
            if vma.prot == 0 && vma.kind == VmaKind::Anonymous && !vma.shared {
                self.close_plain(&vma)?;
            }
        }
        Ok(())
    }

    fn close_plain(&mut self, vma: &Vma) -> Result<(), MapError> {
        let plain = self.real.pieces(vma.start, vma.end).into_iter().filter(|piece| piece.kind.is_none());
        plain.collect::<Vec<_>>().iter().try_for_each(|piece| self.close(piece.start, piece.end))
    }
}

fn remove_range<T>(map: &mut BTreeMap<u64, T>, start: u64, end: u64) {
    let keys: Vec<u64> = map.range(start..end).map(|(at, _)| *at).collect();
    for at in keys {
        map.remove(&at);
    }
}

/// The same without the right to execute, which memory that is shared gets page by page.
pub(super) fn rights_before_execution(prot: u8) -> u8 {
    real_rights(prot) & !PROT_EXEC
}

/// The protection by which the processor gives these rights.
pub(super) fn real_rights(prot: u8) -> u8 {
    if prot == 0 { 0 } else { prot | PROT_READ }
}
