//! One process's memory: what the guest believes of it, what really lies under it, and copies that check the guest's claims.
//!
//! A guest's `mmap`, `munmap`, `mprotect` and `brk` are book-keeping here (`vma`); what really lies there (`real`) follows as far as an
//! access of the guest's own could tell (`access`): what it has not mapped any more, what it has mapped without rights or for reading
//! only, and what is behind its heap and below its stack faults. Memory of its arena that it never had mapped can be touched without a
//! fault (the simulated kernel still answers EFAULT for it).
//!
//! Address spaces that need the same addresses take turns there (`turns`).

mod access;
mod available;
mod checkpoint;
mod map;
mod parked;
mod perf;
mod placement;
mod real;
mod remap;
mod reuse;
mod room;
mod strings;
mod touched;
mod touched_pages;
mod turns;
mod vma;

pub use available::limit_memory;
pub use map::{Backing, MapError, MapRequest};
pub use perf::show_to_perf;
pub use remap::MoveRequest;
pub(crate) use room::ran_out;
pub use room::{Shortage, for_growth, mappings_ran_out, shortage};
pub(crate) use strings::Strings;
pub use turns::are_fixed_programs;
pub(crate) use turns::{are_sleepers, is_fixed_range, leave_fixed, take_fixed};
pub use vma::{Marks, PROT_EXEC, PROT_READ, PROT_WRITE, Vma, VmaKind};

use crate::arena::{BLOCK_BYTES, HostRegion};
use crate::copy;
use crate::generated::Tamed;
use crate::image::{FileKey, PAGE, Pack, PackPart, PackRecording, RecordedPart, images};
use crate::worker::Worker;
use map::SHARED_ZEROES;
use parked::Parked;
use placement::{Placement, View};
use real::{RealKind, RealMaps};
use reuse::Reuse;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use turns::SharedBlock;
use vma::{Names, VmaList};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A guest pointer that does not hold what was claimed of it: the simulated kernel answers EFAULT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    pub address: u64,
}

/// A `syscall` instruction in the program, and what stands for it in a sled (`lea rcx; jmp gs:[..]`).
pub(crate) const SYSCALL_BYTES: u64 = 2;
pub(crate) const SLED_SYSCALL_BYTES: u64 = 15;
/// Bytes of a sled's way out for an instruction that the simulator carries out.
pub(crate) const SLED_EMULATE_BYTES: u64 = 45;

/// Where a process's first block is cut: stack, then images and mappings, then the heap.
const STACK_BYTES: u64 = 8 << 20;
/// Below the stack: a stack that overflows ends its guest, not its neighbour.
const STACK_GUARD_BYTES: u64 = 64 << 10;
/// The stack ends a little past a multiple of 2 MiB, so that the stack's top and the first images share a page table.
const STACK_END: u64 = (10 << 20) + (64 << 10);
/// How much of the first block's end the heap has.
const HEAP_BYTES: u64 = 64 << 20;
/// Programs up to this size leave enough of an ordinary first block to their libraries; larger ones get a larger block.
const ORDINARY_PROGRAM_BYTES: u64 = 64 << 20;
/// Behind the heap's end: what runs over it faults.
const HEAP_GUARD_BYTES: u64 = 1 << 20;
/// What the start of a program adds to the real memory map, or a little more.
const MAPPINGS_OF_A_START: usize = 8;
/// Around the images, what a program's start is expected to write of its stack, and of what its loader maps behind.
const STACK_TOP_BYTES: u64 = 64 << 10;
const BEHIND_IMAGES_BYTES: u64 = 64 << 10;

/// Part of the host's region that a process uses.
#[derive(Debug, Clone)]
struct Block {
    start: u64,
    bytes: u64,
    /// Set once there is a twin.
    shared: Option<Arc<SharedBlock>>,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// One process's memory.
#[derive(Debug)]
pub struct AddressSpace {
    id: u64,
    /// The first block, then those that mappings needed.
    blocks: Vec<Block>,
    /// (start, bytes) of a program that is linked to fixed addresses.
    fixed: Option<(u64, u64)>,
    /// Whether others use some of the same addresses.
    takes_turns: bool,
    /// A child that has not run yet, and some of whose memory is to be wiped when it does.
    wipes: bool,
    vmas: VmaList,
    real: RealMaps,
    names: Names,
    placements: Vec<Placement>,
    /// ELF files that are mapped without the right to execute: by their starts.
    views: BTreeMap<u64, View>,
    heap_end: u64,
    /// No free address for a mapping lies below this one in the first block.
    lowest_free: u64,
    pack: Option<(u64, Arc<Pack>)>,
    recording: Option<Recording>,
    /// The loader has not mapped everything yet that the program needs from its start.
    loading: bool,
    reuse: Reuse,
    /// How often memory that was executable got other rights, by its start and in all.
    code_changes: BTreeMap<u64, u32>,
    all_code_changes: u32,
    /// Parts of images that the program has made executable, or changeable as code: what it puts there is code of its own making.
    pub(crate) made_in_images: Vec<(u64, u64)>,
    /// How many small files were mapped since the start.
    small_files: u32,
    /// How often pages that were executed were written to.
    code_turns: RefCell<BTreeMap<u64, u8>>,
    strings: Strings,
    pub(crate) tamed: Tamed,
    /// Where execution of pages of shared memory began.
    pub(crate) entries: BTreeSet<u64>,
}

/// What the first guest of a program maps while it starts, from which the program's pack is made.
#[derive(Debug)]
struct Recording {
    program: FileKey,
    start: u64,
    parts: Vec<RecordedPart>,
}

impl AddressSpace {
    /// An address space with nothing but a stack. None when the host's region is full, or when this process has as many mappings as
    /// the machine allows (`vm.max_map_count`).
    pub fn new(region: &mut HostRegion) -> Option<AddressSpace> {
        AddressSpace::for_program(region, 0)
    }

    /// As [`new`](Self::new), with room for a program of `program_bytes` behind the stack.
    pub(crate) fn for_program(region: &mut HostRegion, program_bytes: u64) -> Option<AddressSpace> {
        if !room::for_mappings(MAPPINGS_OF_A_START) {
            return None;
        }
        let more = if program_bytes > ORDINARY_PROGRAM_BYTES { program_bytes } else { 0 };
        let (start, bytes) = region.take(BLOCK_BYTES + more)?;
        let mut space = AddressSpace {
            id: start,
            blocks: vec![Block { start, bytes, shared: None }],
            fixed: None,
            takes_turns: false,
            wipes: false,
            vmas: VmaList::default(),
            real: RealMaps::default(),
            names: Names::default(),
            placements: Vec::new(),
            views: BTreeMap::new(),
            heap_end: start + bytes - HEAP_BYTES,
            lowest_free: start + STACK_END,
            pack: None,
            recording: None,
            loading: false,
            reuse: Reuse::default(),
            code_changes: BTreeMap::new(),
            all_code_changes: 0,
            made_in_images: Vec::new(),
            code_turns: RefCell::default(),
            small_files: 0,
            strings: Strings::default(),
            tamed: Tamed::default(),
            entries: BTreeSet::new(),
        };
        let end = space.stack_end();
        let bottom = end - STACK_BYTES;
        let guards = [(bottom - STACK_GUARD_BYTES, bottom), (space.heap_end, space.heap_end + HEAP_GUARD_BYTES)];
        if real::guard_ranges(0, &guards) {
            guards.iter().for_each(|(from, to)| space.real.set(*from, *to, RealKind::Guarded));
        }
        space.vmas.insert(Vma::private(end - STACK_BYTES, end, PROT_READ | PROT_WRITE, VmaKind::Stack));
        Some(space)
    }

    /// An exact copy for `fork(2)`: the same mappings at the same addresses, private pages copied, shared mappings shared. The parent,
    /// which must have been entered, stays resident; the child is parked. None when memory or addresses are lacking.
    pub fn fork(&mut self, region: &mut HostRegion) -> Option<AddressSpace> {
        if !room::for_mappings(self.real_mappings_at_most()) {
            return None;
        }
        debug_assert!(
            self.blocks.iter().all(|block| self.lies_at(block.start)),
            "a fork of an address space that was not entered"
        );
        self.seal_startup();
        let blocks = (0..self.blocks.len()).map(|index| self.copy_block(index)).collect::<Option<Vec<Parked>>>()?;
        let fixed = match self.fixed {
            Some((start, bytes)) => {
                let guards = self.real.guarded(start, start + bytes);
                Some((start, turns::copy_fixed(start, bytes, &guards, self.real.layout())?))
            }
            None => None,
        };
        let id = self.share_block(0).new_number();
        for (index, parked) in blocks.into_iter().enumerate() {
            let start = self.blocks[index].start;
            self.share_block(index).add(id, parked);
            region.share(start);
        }
        if let Some((start, parked)) = fixed {
            turns::add_fixed(id, start, parked);
        }
        self.takes_turns = true;
        Some(AddressSpace {
            id,
            blocks: self.blocks.clone(),
            fixed: self.fixed,
            takes_turns: true,
            wipes: self.vmas.iter().any(|vma| vma.marks.has(Marks::WIPED) || vma.marks.has(Marks::NOT_FORKED)),
            vmas: self.vmas.unlocked(),
            real: self.real.clone(),
            names: self.names.clone(),
            placements: self.placements.clone(),
            views: self.views.clone(),
            heap_end: self.heap_end,
            lowest_free: self.lowest_free,
            pack: self.pack.clone(),
            recording: None,
            loading: false,
            reuse: self.reuse.clone(),
            code_changes: self.code_changes.clone(),
            all_code_changes: self.all_code_changes,
            made_in_images: self.made_in_images.clone(),
            code_turns: self.code_turns.clone(),
            small_files: self.small_files,
            strings: self.strings.clone(),
            tamed: self.tamed.clone(),
            entries: self.entries.clone(),
        })
    }

    /// Each exception can have plain memory before and behind it.
    fn real_mappings_at_most(&self) -> usize {
        2 * self.real.count() + 2 * self.blocks.len() + 2
    }

    fn copy_block(&mut self, index: usize) -> Option<Parked> {
        let block = &self.blocks[index];
        let (guards, layout) = (self.real.guarded(block.start, block.end()), self.real.layout());
        let shared = self.share_block(index);
        if shared.keep_place() { shared.copy(&guards, layout) } else { None }
    }

    fn share_block(&mut self, index: usize) -> &Arc<SharedBlock> {
        let block = &mut self.blocks[index];
        block.shared.get_or_insert_with(|| Arc::new(SharedBlock::new(self.id, block.start, block.bytes)))
    }

    /// Makes this the address space that lies at its addresses. To be called before a thread of it runs or its memory is read or
    /// written, and again after another one was entered; costs a compare when nothing is to be done. May wait until another worker
    /// gives up fixed addresses ([`Worker::leave`]).
    #[inline]
    pub fn enter(&mut self, worker: &mut Worker) {
        if self.takes_turns {
            self.take_turn(worker);
        }
    }

    /// Whether [`AddressSpace::enter`] may have to wait for a worker who has the fixed addresses.
    #[inline]
    pub fn needs_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// In the midst of long computing: guests at the same fixed addresses on other workers may execute before this one goes on.
    pub fn let_others_run(&mut self, worker: &mut Worker) {
        if worker.holds_fixed && self.fixed.is_some() {
            turns::pass_fixed(self.id, worker.number());
        } else {
            worker.leave_to_sleepers();
        }
    }

    fn take_turn(&mut self, worker: &mut Worker) {
        for block in self.blocks.iter().filter_map(|block| block.shared.as_ref()) {
            block.enter(self.id);
        }
        if self.fixed.is_some() && (!worker.holds_fixed || !turns::is_fixed_resident(self.id)) {
            turns::enter_fixed(self.id, worker.number());
            worker.holds_fixed = true;
            self.show_fixed();
        }
        if std::mem::take(&mut self.wipes) {
            for vma in self.vmas.iter().filter(|vma| vma.marks.has(Marks::WIPED)) {
                real::discard(vma.start, vma.end - vma.start);
            }
            let left_out = self.vmas.iter().filter(|vma| vma.marks.has(Marks::NOT_FORKED));
            for (start, bytes) in left_out.map(|vma| (vma.start, vma.end - vma.start)).collect::<Vec<_>>() {
                // What is sealed stays.
                let _ = self.munmap(start, bytes);
            }
        }
    }

    /// Shows perf the program at fixed addresses that has come to its turn.
    fn show_fixed(&self) {
        for placement in self.placements.iter().filter(|placement| placement.image.header.fixed) {
            perf::show(placement.start, &placement.image);
        }
    }

    /// Whether what is at `address` is this address space's.
    fn lies_at(&self, address: u64) -> bool {
        if self.fixed.is_some_and(|(start, bytes)| address >= start && address < start + bytes) {
            return turns::is_fixed_resident(self.id);
        }
        let block = self.blocks.iter().find(|block| address >= block.start && address < block.end());
        block.and_then(|block| block.shared.as_ref()).is_none_or(|shared| shared.is_resident(self.id))
    }

    /// Gives everything back: pages to the real kernel, blocks to the host. Must be the last call. Twins keep what is theirs.
    pub fn release(&mut self, region: &mut HostRegion) {
        if self.fixed.take().is_some() {
            let keep = self.blocks[0].shared.as_ref().is_some_and(|shared| shared.expects_twins());
            turns::remove_fixed(self.id, self.real.layout(), keep);
        }
        for block in std::mem::take(&mut self.blocks) {
            match &block.shared {
                Some(shared) if !shared.remove(self.id, self.real.layout()) => {}
                None if !self.real.touches(block.start, block.end()) => real::discard(block.start, block.bytes),
                _ => {
                    real::map_plain(block.start, block.bytes);
                }
            }
            region.give_back(block.start);
        }
        self.vmas = VmaList::default();
        self.real = RealMaps::default();
        self.placements.clear();
        self.views.clear();
        self.pack = None;
        self.recording = None;
    }

    /// The address above the stack's first byte.
    pub fn stack_end(&self) -> u64 {
        self.blocks[0].start + STACK_END
    }

    /// Where the heap begins: behind it ends the first block.
    fn heap_start(&self) -> u64 {
        self.blocks[0].end() - HEAP_BYTES
    }

    /// A number that identifies this address space among those that live.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What identifies memory that processes share, wherever it is used: a number of the object, and the place in it. None for memory
    /// that is private to this address space.
    pub fn shared_identity(&self, address: u64) -> Option<(u32, u64)> {
        let (_, vma) = self.vmas.find(address)?;
        let at = match vma.kind {
            VmaKind::File { offset, .. } => offset + (address - vma.start),
            // Other shared memory cannot move: it lies at the same address wherever it was inherited.
            _ => address,
        };
        vma.shared.then_some((vma.object, at))
    }

    /// The ranges of addresses that it may use: (first address, end).
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let fixed = self.fixed.map(|(start, bytes)| (start, start + bytes));
        self.blocks.iter().map(|block| (block.start, block.end())).chain(fixed)
    }

    /// All mappings, by address, as `/proc/PID/maps` lists them.
    pub fn mappings(&self) -> impl Iterator<Item = &Vma> {
        self.vmas.iter()
    }

    /// Whether this guest alone takes a quarter of all memory that the simulator has, in pages of its own; all of what it shares without
    /// a file on disk counts.
    pub fn takes_most(&self) -> bool {
        let has_no_disk = |name: &[u8]| name == SHARED_ZEROES || name.starts_with(b"/memfd:");
        let taken = |vma: &Vma| match vma.shared {
            true if has_no_disk(self.mapping_name(vma)) => vma.end - vma.start,
            true => 0,
            false => {
                touched::private_ranges(vma.start, vma.end).into_iter().flatten().map(|(from, to)| to - from).sum()
            }
        };
        let writable = self.vmas.iter().filter(|vma| vma.prot & PROT_WRITE != 0);
        writable.map(taken).sum::<u64>() > available::resident() / 4
    }

    /// The file name of a mapping; empty for anonymous memory.
    pub fn mapping_name(&self, vma: &Vma) -> &[u8] {
        match vma.kind {
            VmaKind::Image(name) | VmaKind::File { name, .. } => self.names.name(name),
            VmaKind::Heap => b"[heap]",
            VmaKind::Stack => b"[stack]",
            VmaKind::Anonymous => b"",
        }
    }

    /// The file name of the mapping around an address; empty where there is none.
    pub fn name_at(&self, address: u64) -> &[u8] {
        self.vmas.find(address).map_or(b"", |(_, vma)| self.mapping_name(vma))
    }

    /// The ranges of pages in [start, end) that are not simply what their source shows; None when the kernel does not tell, or when they lie
    /// elsewhere.
    pub(crate) fn private_pages(&self, start: u64, end: u64) -> Option<Vec<(u64, u64)>> {
        if !self.lies_at(start) {
            return None;
        }
        let ranges = touched::private_ranges(start, end)?;
        Some(ranges.into_iter().map(|(from, to)| (start + from, start + to)).collect())
    }

    /// How many bytes from `address` on the guest has mapped for reading, `length` at most; the processor lets it read more.
    pub fn mapped_for_reading(&self, address: u64, length: u64) -> u64 {
        let end = address.saturating_add(length);
        let mut at = address;
        while at < end {
            match self.vmas.find(at) {
                Some((_, vma)) if vma.prot & PROT_READ != 0 => at = vma.end,
                _ => break,
            }
        }
        at.min(end) - address
    }

    /// How many bytes from `address` on may be accessed with all rights in `prot`, `length` at most.
    fn accessible(&self, address: u64, length: u64, prot: u8) -> u64 {
        let Some(end) = address.checked_add(length) else { return 0 };
        if self.vmas.remembers(address, end, prot) {
            return length;
        }
        let Some((index, vma)) = self.vmas.find(address) else { return 0 };
        self.vmas.remember(vma, access::real_rights(vma.prot));
        self.accessible_from(index, address, end, prot)
    }

    /// The same for an address that lies in the mapping of this index, up to `end`.
    fn accessible_from(&self, mut index: usize, address: u64, end: u64, prot: u8) -> u64 {
        let Some(mut vma) = self.vmas.get(index) else { return 0 };
        let mut at = address;
        while access::real_rights(vma.prot) & prot == prot {
            at = vma.end;
            if at >= end {
                return end - address;
            }
            index += 1;
            match self.vmas.get(index) {
                Some(next) if next.start == at => vma = next,
                _ => break,
            }
        }
        at - address
    }

    /// Copies a range of this guest's that lies at its addresses, by `copy`, which takes an offset and a number of bytes and says how many
    /// it could not copy. How many were copied.
    fn at_once(&self, address: u64, length: u64, copy: impl Fn(u64, u64) -> u64) -> usize {
        let mut done = length - copy(0, length);
        while done < length && self.open_touched(address + done) {
            done = length - copy(done, length - done);
        }
        done as usize
    }

    /// As [`read`](Self::read), but stops at the first bad byte: how many were copied.
    pub fn read_partial(&self, address: u64, buf: &mut [u8]) -> usize {
        debug_assert!(self.lies_at(address), "memory of an address space that was not entered is read");
        let good = self.accessible(address, buf.len() as u64, PROT_READ);
        let into = buf.as_mut_ptr() as u64;
        self.at_once(address, good, |offset, bytes| copy::copy_bytes(into + offset, address + offset, bytes))
    }

    /// As [`write`](Self::write), but stops at the first bad byte: how many were copied.
    pub fn write_partial(&self, address: u64, data: &[u8]) -> usize {
        debug_assert!(self.lies_at(address), "memory of an address space that was not entered is written");
        let good = self.accessible(address, data.len() as u64, PROT_WRITE);
        let from = data.as_ptr() as u64;
        self.at_once(address, good, |offset, bytes| copy::copy_bytes(address + offset, from + offset, bytes))
    }

    /// As [`read_partial`](Self::read_partial), of an address space that may wait for its turn.
    pub fn read_parked(&self, address: u64, buf: &mut [u8]) -> usize {
        let good = self.accessible(address, buf.len() as u64, PROT_READ);
        let into = buf.as_mut_ptr() as u64;
        self.in_parts(address, good, |at, offset, bytes| copy::copy_bytes(into + offset, at, bytes))
    }

    /// As [`write_partial`](Self::write_partial), of an address space that may wait for its turn.
    pub fn write_parked(&self, address: u64, data: &[u8]) -> usize {
        let good = self.accessible(address, data.len() as u64, PROT_WRITE);
        let from = data.as_ptr() as u64;
        self.in_parts(address, good, |at, offset, bytes| copy::copy_bytes(at, from + offset, bytes))
    }

    /// As `read_parked`, whatever rights the guest has, as far as it has mapped something.
    pub fn read_forced(&self, address: u64, buf: &mut [u8]) -> usize {
        let mapped = self.mapped(address, buf.len() as u64);
        self.read_code(address, &mut buf[..mapped as usize])
    }

    /// How many bytes from `address` on are mapped, `length` at most.
    fn mapped(&self, address: u64, length: u64) -> u64 {
        let end = address.saturating_add(length);
        let mut at = address;
        while at < end
            && let Some((_, vma)) = self.vmas.find(at)
        {
            at = vma.end;
        }
        at.min(end) - address
    }

    /// As `read_forced`, of all that lies there.
    pub(crate) fn read_code(&self, address: u64, buf: &mut [u8]) -> usize {
        let into = buf.as_mut_ptr() as u64;
        self.in_parts(address, buf.len() as u64, |at, offset, bytes| copy::copy_bytes(into + offset, at, bytes))
    }

    /// Copies a range page by page, wherever its pages lie now: how many bytes were copied. `copy` takes the place, the offset in the
    /// range and the number of bytes, and says how many it could not copy.
    fn in_parts(&self, address: u64, length: u64, copy: impl Fn(u64, u64, u64) -> u64) -> usize {
        let mut done = 0;
        while done < length {
            let at = address + done;
            let bytes = (PAGE - at % PAGE).min(length - done);
            let left = self.with_whereabouts(at, |place| match copy(place, done, bytes) {
                0 => 0,
                _ if self.open_touched_page(at, place) => copy(place, done, bytes),
                left => left,
            });
            done += bytes - left;
            if left > 0 {
                break;
            }
        }
        done as usize
    }

    /// Lets `access` work at the place where an address of this address space can be found now.
    pub(super) fn with_whereabouts<T>(&self, address: u64, access: impl FnOnce(u64) -> T) -> T {
        if let Some((start, _)) = self.fixed.filter(|(start, bytes)| address >= *start && address < start + bytes) {
            return turns::with_fixed(self.id, start, address, access);
        }
        let block = self.blocks.iter().find(|block| address >= block.start && address < block.end());
        match block.and_then(|block| block.shared.as_ref()) {
            Some(shared) => access(shared.location(self.id) + (address - shared.start())),
            None => access(address),
        }
    }

    /// Copies `buf.len()` bytes out of the guest.
    ///
    /// # Errors
    /// When part of the range is not mapped readable; what lies before is copied.
    pub fn read(&self, address: u64, buf: &mut [u8]) -> Result<(), Fault> {
        let copied = self.read_partial(address, buf);
        if copied == buf.len() { Ok(()) } else { Err(Fault { address: address + copied as u64 }) }
    }

    /// Copies `data` into the guest.
    ///
    /// # Errors
    /// When part of the range is not mapped writable; what lies before is copied.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Fault> {
        let copied = self.write_partial(address, data);
        if copied == data.len() { Ok(()) } else { Err(Fault { address: address + copied as u64 }) }
    }

    /// A NUL-terminated string of at most `max` bytes, without its NUL; None when it is longer.
    ///
    /// # Errors
    /// When it runs into memory that is not readable.
    pub fn read_cstr(&self, address: u64, max: usize) -> Result<Option<Vec<u8>>, Fault> {
        let mut text = Vec::new();
        let mut chunk = [0u8; 256];
        while text.len() <= max {
            let at = address.wrapping_add(text.len() as u64);
            let copied = self.read_partial(at, &mut chunk);
            if let Some(end) = chunk[..copied].iter().position(|byte| *byte == 0) {
                text.extend_from_slice(&chunk[..end]);
                return Ok((text.len() <= max).then_some(text));
            }
            text.extend_from_slice(&chunk[..copied]);
            if copied < chunk.len() && text.len() <= max {
                return Err(Fault { address: at.wrapping_add(copied as u64) });
            }
        }
        Ok(None)
    }

    /// # Errors
    /// When it is not all readable.
    pub fn read_value<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, Fault> {
        let mut value = T::new_zeroed();
        self.read(address, value.as_mut_bytes())?;
        Ok(value)
    }

    /// # Errors
    /// When it is not all writable.
    pub fn write_value<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), Fault> {
        self.write(address, value.as_bytes())
    }

    /// Adds 1 to, compares and exchanges and so on, for futex operations: reads a word, lets `change` decide, writes the result.
    /// Other guests of the host do not run meanwhile, so this is atomic.
    ///
    /// # Errors
    /// When the word is not readable and writable.
    pub fn update_u32(&self, address: u64, change: impl FnOnce(u32) -> u32) -> Result<u32, Fault> {
        let old: u32 = self.read_value(address)?;
        let new = change(old);
        if new != old {
            self.write_value(address, &new)?;
        }
        Ok(old)
    }

    /// Begins to record what this first guest of `program` maps, or maps the pack that an earlier one's recording gave. `has_loader`:
    /// whether another program loads its libraries. Large programs have no pack: to copy one takes longer than all mappings that it saves,
    /// and doubles its memory.
    pub(crate) fn begin_program(&mut self, program: FileKey, has_loader: bool) {
        self.loading = has_loader;
        let start = self.stack_end();
        if self.blocks[0].bytes > BLOCK_BYTES {
            return;
        }
        match images().pack(program) {
            Some(pack) => {
                if real::map_file(start, pack.bytes, 7, false, images().fd(), pack.offset) {
                    self.real.set(start, start + pack.bytes, RealKind::Store { offset: pack.offset });
                    real::populate_ranges(start - STACK_TOP_BYTES, &pack.written);
                    self.pack = Some((start, pack));
                }
            }
            None => self.recording = Some(Recording { program, start, parts: Vec::new() }),
        }
    }

    /// Ends the recording: the program has started (it waits for something, starts a thread, or ends).
    pub fn seal_startup(&mut self) {
        self.loading = false;
        let Some(recording) = self.recording.take() else { return };
        let end = recording.parts.iter().map(|(part, _)| part.at + part.bytes).max().unwrap_or(0);
        if end > 0 {
            let start = recording.start;
            let mut written = touched::written_ranges(start - STACK_TOP_BYTES, start + end + BEHIND_IMAGES_BYTES);
            // What lies between images is anonymous memory, which is discarded when it is given out.
            written.retain(|(from, _)| {
                let in_part = |part: &PackPart| {
                    from.checked_sub(STACK_TOP_BYTES).is_some_and(|at| at >= part.at && at < part.at + part.bytes)
                };
                !(STACK_TOP_BYTES..STACK_TOP_BYTES + end).contains(from)
                    || recording.parts.iter().any(|(part, _)| in_part(part))
            });
            images().record(recording.program, PackRecording { bytes: end, parts: recording.parts, written });
        }
    }
}
