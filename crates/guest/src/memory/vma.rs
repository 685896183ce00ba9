//! The book of mappings: what the guest believes of its address space, sorted, without overlaps.

use base::map::FastMap;
use std::cell::Cell;

/// Protection bits as in `mmap(2)`.
pub const PROT_READ: u8 = 1;
pub const PROT_WRITE: u8 = 2;
pub const PROT_EXEC: u8 = 4;

/// What a mapping is, for `/proc/PID/maps` and for the rules of protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmaKind {
    Anonymous,
    Heap,
    Stack,
    /// Part of a placed image; the number finds its name.
    Image(u32),
    /// A file's bytes.
    File {
        name: u32,
        offset: u64,
    },
}

/// What was asked of a mapping beside its rights. Memory of which something else was asked is another mapping, as it is in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Marks(u16);

impl Marks {
    pub const NONE: Marks = Marks(0);
    /// MADV_WIPEONFORK: children find zeroes.
    pub const WIPED: Marks = Marks(1);
    /// MADV_RANDOM.
    pub const RANDOM: Marks = Marks(1 << 1);
    /// MADV_SEQUENTIAL.
    pub const SEQUENTIAL: Marks = Marks(1 << 2);
    /// MADV_DONTFORK.
    pub const NOT_FORKED: Marks = Marks(1 << 3);
    /// MADV_DONTDUMP.
    pub const NOT_DUMPED: Marks = Marks(1 << 4);
    /// MADV_HUGEPAGE.
    pub const HUGE: Marks = Marks(1 << 5);
    /// MADV_NOHUGEPAGE.
    pub const NOT_HUGE: Marks = Marks(1 << 6);
    /// Locked, mlock(2).
    pub const LOCKED: Marks = Marks(1 << 7);
    /// Locked page by page as it is touched (MLOCK_ONFAULT).
    pub const LOCKED_WHEN_TOUCHED: Marks = Marks(1 << 8);
    /// It shows a file that is not open for writing: it cannot be given that right (no VM_MAYWRITE).
    pub const NEVER_WRITTEN: Marks = Marks(1 << 9);

    pub const fn with(self, more: Marks) -> Marks {
        Marks(self.0 | more.0)
    }

    pub const fn without(self, less: Marks) -> Marks {
        Marks(self.0 & !less.0)
    }

    pub const fn has(self, mark: Marks) -> bool {
        self.0 & mark.0 != 0
    }
}

/// What mlock(2) asks for, in either way.
pub(crate) const LOCKS: Marks = Marks::LOCKED.with(Marks::LOCKED_WHEN_TOUCHED);

/// One mapping, `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vma {
    pub start: u64,
    pub end: u64,
    pub prot: u8,
    pub shared: bool,
    /// By mseal(2): neither its place nor its rights change any more.
    pub(crate) sealed: bool,
    pub(crate) marks: Marks,
    /// By MAP_GROWSDOWN: it grows where it is touched below its start.
    pub(crate) grows: bool,
    pub(crate) object: u32,
    pub kind: VmaKind,
}

impl Vma {
    /// Memory of one process alone, as mappings begin: nothing was asked of it by mseal, madvise or MAP_GROWSDOWN.
    pub(crate) fn private(start: u64, end: u64, prot: u8, kind: VmaKind) -> Vma {
        Vma { start, end, prot, shared: false, sealed: false, marks: Marks::NONE, grows: false, object: 0, kind }
    }

    /// The number in its host of the memory that it shares; 0 when it is private.
    pub fn object(&self) -> u32 {
        self.object
    }

    /// Flags other than its protection.
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// mlock(2) locked it, for whichever of the processes that share it.
    pub fn is_locked(&self) -> bool {
        self.marks.has(Marks::LOCKED)
    }

    /// Whether it grows downwards where it is touched.
    pub fn grows(&self) -> bool {
        self.grows
    }

    fn joins(&self, next: &Vma) -> bool {
        let same_kind = match (self.kind, next.kind) {
            (VmaKind::File { name: a, offset: from }, VmaKind::File { name: b, offset: to }) => {
                a == b && from + (self.end - self.start) == to
            }
            (a, b) => a == b,
        };
        self.end == next.start
            && self.prot == next.prot
            && self.shared == next.shared
            && self.sealed == next.sealed
            && self.marks == next.marks
            && self.grows == next.grows
            && self.object == next.object
            && same_kind
    }

    /// What it shows from `address` on, which lies in it.
    pub(crate) fn from(&self, address: u64) -> Vma {
        self.cut(address, self.end)
    }

    /// The part of it in `[start, end)`, which must overlap it.
    fn cut(&self, start: u64, end: u64) -> Vma {
        let (start, end) = (start.max(self.start), end.min(self.end));
        let kind = match self.kind {
            VmaKind::File { name, offset } => VmaKind::File { name, offset: offset + (start - self.start) },
            kind => kind,
        };
        Vma { start, end, kind, ..*self }
    }
}

/// Ranges of which a list remembers that one mapping covers them: a thread's stack, the heap, a buffer, a constant.
const REMEMBERED: usize = 4;

/// A mapping's range and what a guest may do there, apart from the mapping: most calls then read no more of the list.
#[derive(Clone, Copy, Debug, Default)]
struct Remembered {
    start: u64,
    end: u64,
    rights: u8,
}

/// Sorted mappings.
#[derive(Debug, Default, Clone)]
pub(crate) struct VmaList {
    list: Vec<Vma>,
    /// The last first.
    searched: Vec<Searched>,
    /// Empty ranges after each change of the list.
    remembered: [Cell<Remembered>; REMEMBERED],
    /// Which of them the next one replaces.
    oldest: Cell<u8>,
}

/// What a search for free addresses came to, so that the next one need not begin anew: a process has two mappings for each of its threads.
#[derive(Debug, Clone, Copy)]
struct Searched {
    from: u64,
    bytes: u64,
    /// No free range of `bytes` begins in `[from, end)`.
    end: u64,
}

impl Searched {
    /// As many searches are known: those of other sizes come in between.
    const MOST: usize = 8;
}

impl VmaList {
    /// Whether `[start, end)` lies in a remembered mapping that has these rights.
    #[inline]
    pub(crate) fn remembers(&self, start: u64, end: u64, rights: u8) -> bool {
        self.remembered.iter().any(|range| {
            let range = range.get();
            range.start <= start && end <= range.end && range.rights & rights == rights
        })
    }

    /// Remembers a mapping of the list, with what a guest may do there.
    pub(crate) fn remember(&self, vma: &Vma, rights: u8) {
        let place = self.oldest.get();
        self.remembered[usize::from(place)].set(Remembered { start: vma.start, end: vma.end, rights });
        self.oldest.set((place + 1) % REMEMBERED as u8);
    }

    fn forget(&mut self) {
        self.remembered = Default::default();
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Vma> {
        self.list.iter()
    }

    /// The index of the first mapping that ends after `address`.
    fn first_ending_after(&self, address: u64) -> usize {
        self.list.partition_point(|vma| vma.end <= address)
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Vma> {
        self.list.get(index)
    }

    /// The mapping around `address`, with its index.
    pub(crate) fn find(&self, address: u64) -> Option<(usize, &Vma)> {
        let index = self.first_ending_after(address);
        self.list.get(index).filter(|vma| vma.start <= address).map(|vma| (index, vma))
    }

    /// The last mapping that ends at `address` or before, and the first that begins behind it.
    pub(crate) fn around_gap(&self, address: u64) -> (Option<&Vma>, Option<&Vma>) {
        let next = self.first_ending_after(address);
        (next.checked_sub(1).and_then(|index| self.list.get(index)), self.list.get(next))
    }

    /// The parts of mappings in `[start, end)`.
    pub(crate) fn parts(&self, start: u64, end: u64) -> impl Iterator<Item = Vma> + '_ {
        let first = self.first_ending_after(start);
        self.list[first..].iter().take_while(move |vma| vma.start < end).map(move |vma| vma.cut(start, end))
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.list.get(self.first_ending_after(start)).is_some_and(|vma| vma.start < end)
    }

    /// Removes `[start, end)`, cutting what reaches over its ends.
    pub(crate) fn remove(&mut self, start: u64, end: u64) {
        let first = self.first_ending_after(start);
        let last = first + self.list[first..].partition_point(|vma| vma.start < end);
        if first == last {
            return;
        }
        self.forget_searches(first, start);
        self.forget();
        let mut keep: [Option<Vma>; 2] = [None, None];
        let (head, tail) = (self.list[first], self.list[last - 1]);
        if head.start < start {
            keep[0] = Some(head.cut(head.start, start));
        }
        if tail.end > end {
            keep[1] = Some(tail.cut(end, tail.end));
        }
        self.list.splice(first..last, keep.into_iter().flatten());
    }

    /// What begins at `start`, with the mapping of this index, is about to become free.
    fn forget_searches(&mut self, index: usize, start: u64) {
        let before = index.checked_sub(1).and_then(|before| self.list.get(before)).map_or(0, |vma| vma.end);
        let begins = if self.list[index].start < start { start } else { before };
        for known in &mut self.searched {
            known.end = known.end.min(begins.max(known.from));
        }
    }

    /// Adds a mapping where nothing is, joined with its neighbours where they are alike.
    pub(crate) fn insert(&mut self, mut vma: Vma) {
        self.forget();
        let mut at = self.list.partition_point(|other| other.start < vma.start);
        if at > 0 && self.list[at - 1].joins(&vma) {
            at -= 1;
            let previous = self.list.remove(at);
            vma = Vma { end: vma.end, ..previous };
        }
        if self.list.get(at).is_some_and(|next| vma.joins(next)) {
            vma.end = self.list.remove(at).end;
        }
        self.list.insert(at, vma);
    }

    /// Replaces the protection in `[start, end)`. False when part of it is not mapped (what is mapped before is changed).
    pub(crate) fn protect(&mut self, start: u64, end: u64, prot: u8) -> bool {
        let parts: Vec<Vma> = self.parts(start, end).collect();
        let searched = self.searched.clone();
        let mut at = start;
        let mut whole = true;
        for part in parts {
            if part.start != at {
                whole = false;
                break;
            }
            at = part.end;
            if part.prot != prot {
                self.remove(part.start, part.end);
                self.insert(Vma { prot, ..part });
            }
        }
        self.searched = searched;
        whole && at >= end
    }

    /// Seals what is mapped in `[start, end)`.
    pub(crate) fn seal(&mut self, start: u64, end: u64) {
        let parts: Vec<Vma> = self.parts(start, end).collect();
        for part in parts {
            self.remove(part.start, part.end);
            self.insert(Vma { sealed: true, ..part });
        }
    }

    /// A copy for a child, which inherits no locks.
    pub(crate) fn unlocked(&self) -> VmaList {
        let mut list = self.clone();
        list.mark(0, u64::MAX, LOCKS, Marks::NONE);
        list
    }

    /// Takes marks from what is mapped in `[start, end)`, then gives it others.
    pub(crate) fn mark(&mut self, start: u64, end: u64, lost: Marks, given: Marks) {
        if start >= end {
            return;
        }
        let parts: Vec<Vma> = self.parts(start, end).collect();
        for part in parts {
            let marks = part.marks.without(lost).with(given);
            if marks != part.marks {
                self.remove(part.start, part.end);
                self.insert(Vma { marks, ..part });
            }
        }
    }

    /// The lowest free range of `bytes` in `[from, to)`, and an address below which none of `[from, to)` is free.
    pub(crate) fn first_fit(&mut self, from: u64, to: u64, bytes: u64) -> (Option<u64>, u64) {
        let is_of_use = |known: &&Searched| known.from <= from && from <= known.end && known.bytes <= bytes;
        let begin = self.searched.iter().filter(is_of_use).map(|known| known.end).max().unwrap_or(from).min(to);
        let (found, lowest) = self.scan(begin, to, bytes);
        let end = found.unwrap_or(to);
        let is_same = |known: &Searched| known.from <= from && from <= known.end && known.bytes == bytes;
        match self.searched.iter().position(is_same) {
            Some(index) => self.searched[index].end = self.searched[index].end.max(end),
            None => {
                self.searched.insert(0, Searched { from, bytes, end });
                self.searched.truncate(Searched::MOST);
            }
        }
        (found, if begin > from { from } else { lowest })
    }

    fn scan(&self, from: u64, to: u64, bytes: u64) -> (Option<u64>, u64) {
        let mut at = from;
        let mut lowest = None;
        for vma in &self.list[self.first_ending_after(from)..] {
            if vma.start >= to {
                break;
            }
            if vma.start > at {
                lowest = lowest.or(Some(at));
                if vma.start - at >= bytes {
                    return (Some(at), lowest.unwrap_or(at));
                }
            }
            at = at.max(vma.end);
        }
        let found = (at < to && to - at >= bytes).then_some(at);
        (found, lowest.unwrap_or(at))
    }
}

/// Names of mapped files, each stored once.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    list: Vec<Vec<u8>>,
    numbers: FastMap<Vec<u8>, u32>,
}

impl Names {
    pub(crate) fn number(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.list.len() as u32;
        self.list.push(name.to_vec());
        self.numbers.insert(name.to_vec(), number);
        number
    }

    pub(crate) fn name(&self, number: u32) -> &[u8] {
        self.list.get(number as usize).map_or(b"", Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anonymous(start: u64, end: u64, prot: u8) -> Vma {
        Vma::private(start, end, prot, VmaKind::Anonymous)
    }

    fn shape(list: &VmaList) -> Vec<(u64, u64, u8)> {
        list.iter().map(|vma| (vma.start, vma.end, vma.prot)).collect()
    }

    #[test]
    fn removal_cuts_and_insertion_joins() {
        let mut list = VmaList::default();
        list.insert(anonymous(10, 20, 3));
        list.insert(anonymous(20, 30, 3));
        assert_eq!(shape(&list), [(10, 30, 3)]);
        list.remove(14, 16);
        assert_eq!(shape(&list), [(10, 14, 3), (16, 30, 3)]);
        list.insert(anonymous(14, 16, 1));
        assert_eq!(shape(&list), [(10, 14, 3), (14, 16, 1), (16, 30, 3)]);
        assert!(list.protect(12, 18, 3));
        assert_eq!(shape(&list), [(10, 30, 3)]);
        assert!(!list.protect(25, 35, 1));
        list.remove(0, 100);
        assert!(shape(&list).is_empty());
    }

    #[test]
    fn no_change_leaves_a_remembered_mapping() {
        let mut list = VmaList::default();
        list.insert(anonymous(10, 20, 3));
        assert!(!list.remembers(12, 14, 1));
        list.remember(&anonymous(10, 20, 3), 3);
        assert!(list.remembers(10, 20, 3) && list.remembers(12, 14, 1));
        assert!(!list.remembers(12, 14, 4) && !list.remembers(12, 21, 1) && !list.remembers(9, 11, 1));
        assert!(list.protect(10, 12, 1));
        assert!(!list.remembers(12, 14, 3));
        list.remember(&anonymous(12, 20, 3), 3);
        list.remove(15, 16);
        assert!(!list.remembers(12, 14, 3));
    }

    #[test]
    fn marks_split_mappings_and_join_them_again() {
        let mut list = VmaList::default();
        list.insert(anonymous(10, 30, 3));
        list.mark(15, 20, Marks::NONE, Marks::LOCKED);
        list.mark(18, 25, Marks::SEQUENTIAL, Marks::RANDOM);
        let starts = |list: &VmaList| list.iter().map(|vma| vma.start).collect::<Vec<_>>();
        assert_eq!(starts(&list), [10, 15, 18, 20, 25]);
        list.mark(12, 12, Marks::NONE, Marks::LOCKED);
        assert_eq!(starts(&list), [10, 15, 18, 20, 25]);
        list.mark(0, 40, Marks::LOCKED, Marks::NONE);
        list.mark(18, 25, Marks::RANDOM, Marks::NONE);
        assert_eq!(starts(&list), [10]);
    }

    #[test]
    fn first_fit_takes_the_lowest_gap_that_is_large_enough() {
        let mut list = VmaList::default();
        list.insert(anonymous(10, 20, 3));
        list.insert(anonymous(22, 30, 3));
        assert_eq!(list.first_fit(10, 100, 2), (Some(20), 20));
        // Where an earlier search is of use, nothing is known of smaller gaps.
        assert_eq!(list.first_fit(10, 100, 3), (Some(30), 10));
        assert_eq!(list.first_fit(10, 31, 3), (None, 10));
        assert_eq!(list.first_fit(0, 100, 10), (Some(0), 0));
    }

    #[test]
    fn searches_that_are_remembered_find_what_others_find() {
        let mut random = 1u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut list = VmaList::default();
        for round in 0..20_000 {
            let (bytes, from) = (1 + draw(9), [0, 0, 0, 40, 100][draw(5) as usize]);
            let expected = list.scan(from, 400, bytes).0;
            let (found, lowest) = list.first_fit(from, 400, bytes);
            assert_eq!(found, expected, "round {round}");
            assert!(lowest <= found.unwrap_or(400) && lowest >= from);
            match found {
                Some(start) if draw(3) > 0 => list.insert(anonymous(start, start + bytes, draw(3) as u8)),
                _ => {
                    let start = draw(400);
                    list.remove(start, start + 1 + draw(30));
                }
            }
            let start = draw(400);
            list.protect(start, start + 1 + draw(50), draw(3) as u8);
        }
    }

    #[test]
    fn a_cut_file_mapping_keeps_its_offsets() {
        let mut list = VmaList::default();
        list.insert(Vma { kind: VmaKind::File { name: 0, offset: 100 }, ..anonymous(10, 20, 1) });
        list.remove(12, 13);
        let offsets: Vec<_> = list.iter().map(|vma| vma.kind).collect();
        assert_eq!(offsets, [VmaKind::File { name: 0, offset: 100 }, VmaKind::File { name: 0, offset: 103 }]);
    }
}
