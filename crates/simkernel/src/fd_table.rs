//! A process's descriptors: dense, lowest free number first, with the close-on-exec bit of each.
//!
//! The table holds no reference counts itself: whoever adds or removes an entry calls `FileTable::acquire` or `Kernel::release_file`.

use crate::ids::FileId;
use linux_abi::Errno;

const FREE: FileId = FileId(u32::MAX);
/// The number belongs to a call that has no file for it yet.
const RESERVED: FileId = FileId(u32::MAX - 1);

#[derive(Clone, Copy, Debug)]
struct Slot {
    file: FileId,
    cloexec: bool,
}

impl Slot {
    fn is_open(&self) -> bool {
        self.file != FREE && self.file != RESERVED
    }
}

#[derive(Debug, Default)]
pub struct FdTable {
    slots: Vec<Slot>,
    /// Every number below this is in use.
    lowest_free: usize,
}

/// What calls have reserved is theirs: it is free in the copy.
impl Clone for FdTable {
    fn clone(&self) -> Self {
        let mut copy = FdTable { slots: self.slots.clone(), lowest_free: self.lowest_free };
        for index in 0..copy.slots.len() {
            copy.cancel(index as u32);
        }
        copy
    }
}

impl FdTable {
    /// The file behind a descriptor, which comes as the guest gave it: any 64 bits, of which Linux looks at 32.
    #[inline]
    pub fn get(&self, fd: u64) -> Result<FileId, Errno> {
        match self.slots.get(fd as u32 as usize) {
            Some(slot) if slot.is_open() => Ok(slot.file),
            _ => Err(Errno::EBADF),
        }
    }

    /// Puts a file at the lowest free number of at least `from`. EMFILE at `limit` (RLIMIT_NOFILE).
    pub fn allocate(&mut self, file: FileId, from: usize, cloexec: bool, limit: u64) -> Result<u32, Errno> {
        let start = from.max(self.lowest_free);
        let free = (start..self.slots.len()).find(|&i| self.slots[i].file == FREE);
        let index = free.unwrap_or(start.max(self.slots.len()));
        if index as u64 >= limit {
            return Err(Errno::EMFILE);
        }
        self.set(index, Slot { file, cloexec });
        if from <= self.lowest_free {
            self.lowest_free = index + 1;
        }
        Ok(index as u32)
    }

    /// Takes the lowest free number for a file that comes later, by [`replace`](Self::replace): until then it is nobody's descriptor. EMFILE.
    pub fn reserve(&mut self, limit: u64) -> Result<u32, Errno> {
        self.allocate(RESERVED, 0, false, limit)
    }

    /// EMFILE where no number below `limit` is free.
    pub fn demand_room(&self, limit: u64) -> Result<(), Errno> {
        let lowest = self.free().next();
        if lowest.is_some_and(|fd| (fd as u64) < limit) { Ok(()) } else { Err(Errno::EMFILE) }
    }

    /// The free numbers, the lowest first, without end.
    fn free(&self) -> impl Iterator<Item = usize> {
        (self.lowest_free..).filter(|&fd| self.slots.get(fd).is_none_or(|slot| slot.file == FREE))
    }

    /// The numbers that the next two files get. EMFILE where there are no two below `limit`.
    pub fn next_two(&self, limit: u64) -> Result<[u32; 2], Errno> {
        let mut free = self.free();
        let two = [free.next(), free.next()].map(|fd| fd.filter(|fd| (*fd as u64) < limit).ok_or(Errno::EMFILE));
        Ok([two[0]? as u32, two[1]? as u32])
    }

    pub fn is_reserved(&self, fd: u32) -> bool {
        self.slots.get(fd as usize).is_some_and(|slot| slot.file == RESERVED)
    }

    /// Gives back a number that was reserved, if no file has come.
    pub fn cancel(&mut self, fd: u32) {
        if self.is_reserved(fd) {
            self.slots[fd as usize].file = FREE;
            self.lowest_free = self.lowest_free.min(fd as usize);
        }
    }

    /// Puts a file at a given number and returns the file that was there.
    pub fn replace(&mut self, fd: u32, file: FileId, cloexec: bool) -> Option<FileId> {
        let old = self.get(u64::from(fd)).ok();
        self.set(fd as usize, Slot { file, cloexec });
        old
    }

    fn set(&mut self, index: usize, slot: Slot) {
        if index >= self.slots.len() {
            self.slots.resize(index + 1, Slot { file: FREE, cloexec: false });
        }
        self.slots[index] = slot;
    }

    /// Removes a descriptor and returns its file.
    pub fn remove(&mut self, fd: u64) -> Result<FileId, Errno> {
        let file = self.get(fd)?;
        let index = fd as u32 as usize;
        self.slots[index].file = FREE;
        self.lowest_free = self.lowest_free.min(index);
        Ok(file)
    }

    pub fn cloexec(&self, fd: u64) -> Result<bool, Errno> {
        self.get(fd)?;
        Ok(self.slots[fd as u32 as usize].cloexec)
    }

    pub fn set_cloexec(&mut self, fd: u64, cloexec: bool) -> Result<(), Errno> {
        self.get(fd)?;
        self.slots[fd as u32 as usize].cloexec = cloexec;
        Ok(())
    }

    /// One more than the highest number ever in use: an upper end for walks.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Descriptors in use with their files, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, FileId)> + '_ {
        self.slots.iter().enumerate().filter(|(_, s)| s.is_open()).map(|(i, s)| (i as u32, s.file))
    }

    /// Removes every descriptor for which `gone` says so (its number and close-on-exec bit), and returns their files in the order in which they
    /// are closed: the last one first, as what a call leaves for its end (`task_work_run`).
    pub fn drain(&mut self, mut gone: impl FnMut(u32, bool) -> bool) -> Vec<FileId> {
        let mut files = Vec::new();
        for index in (0..self.slots.len()).rev() {
            let slot = self.slots[index];
            if slot.is_open() && gone(index as u32, slot.cloexec) {
                self.slots[index].file = FREE;
                self.lowest_free = self.lowest_free.min(index);
                files.push(slot.file);
            }
        }
        files
    }

    /// Removes those that `execve` closes.
    pub fn take_cloexec(&mut self) -> Vec<FileId> {
        self.drain(|_, cloexec| cloexec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_is_given_out() {
        let mut table = FdTable::default();
        for expected in 0..4 {
            assert_eq!(table.allocate(FileId(9), 0, false, 1024), Ok(expected));
        }
        assert_eq!(table.remove(1), Ok(FileId(9)));
        assert_eq!(table.remove(2), Ok(FileId(9)));
        assert_eq!(table.remove(2), Err(Errno::EBADF));
        assert_eq!(table.allocate(FileId(7), 0, true, 1024), Ok(1));
        assert_eq!(table.allocate(FileId(7), 10, false, 1024), Ok(10));
        assert_eq!(table.allocate(FileId(7), 0, false, 1024), Ok(2));
        assert_eq!(table.allocate(FileId(7), 0, false, 1024), Ok(4));
        assert_eq!(table.allocate(FileId(7), 0, false, 5), Err(Errno::EMFILE));
        assert_eq!(table.cloexec(1), Ok(true));
        assert_eq!(table.drain(|_, cloexec| cloexec), vec![FileId(7)]);
        assert_eq!(table.get(1), Err(Errno::EBADF));
        assert_eq!(table.get(u64::MAX), Err(Errno::EBADF));
    }

    #[test]
    fn the_upper_half_of_a_descriptor_argument_is_ignored() {
        let mut table = FdTable::default();
        table.allocate(FileId(3), 0, false, 10).unwrap();
        assert_eq!(table.get(0xffff_ffff_0000_0000), Ok(FileId(3)));
    }

    #[test]
    fn a_reserved_number_is_no_descriptor_and_nobody_elses() {
        let mut table = FdTable::default();
        table.allocate(FileId(9), 0, false, 1024).unwrap();
        assert_eq!(table.reserve(1024), Ok(1));
        assert_eq!(table.get(1), Err(Errno::EBADF));
        assert_eq!(table.remove(1), Err(Errno::EBADF));
        assert_eq!(table.allocate(FileId(8), 0, false, 1024), Ok(2));
        assert_eq!(table.iter().map(|(fd, _)| fd).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(table.clone().allocate(FileId(7), 0, false, 1024), Ok(1));
        assert_eq!(table.reserve(3), Err(Errno::EMFILE));
        assert_eq!(table.replace(1, FileId(7), true), None);
        table.cancel(1);
        assert_eq!(table.get(1), Ok(FileId(7)));
        assert_eq!(table.reserve(1024), Ok(3));
        table.cancel(3);
        assert_eq!(table.allocate(FileId(6), 0, false, 1024), Ok(3));
    }
}
