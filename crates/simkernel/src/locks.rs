//! File locks of one host: record locks of processes and of open files (fcntl), and whole-file locks (flock). They bind no reads
//! or writes, only each other. Hosts do not see each other's.

use crate::files::FileKind;
use crate::futex::{FutexKey, FutexWaiter, Queue};
use crate::ids::{FileId, Pid, Tid};
use crate::kernel::Kernel;
use crate::net::listing::ANONYMOUS_NUMBERS;
use crate::wait::Wake;
use base::map::FastMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Process(Pid),
    File(FileId),
}

/// Locks of the two families ignore each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Family {
    Record,
    Whole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lock {
    pub owner: Owner,
    pub start: u64,
    /// One past the last byte; u64::MAX for the end of the file, wherever it is.
    pub end: u64,
    pub exclusive: bool,
}

impl Lock {
    fn overlaps(&self, other: &Lock) -> bool {
        self.start < other.end && other.start < self.end
    }

    fn conflicts(&self, other: &Lock) -> bool {
        self.owner != other.owner && self.overlaps(other) && (self.exclusive || other.exclusive)
    }
}

#[derive(Debug, Default)]
pub struct Locks {
    /// By inode number: owners in order of their first lock, each one's locks by start. F_GETLK tells the first that conflicts.
    held: FastMap<(Family, u64), Vec<Lock>>,
}

impl Locks {
    /// The first lock that stands against this one.
    pub fn conflict(&self, family: Family, number: u64, wanted: &Lock) -> Option<Lock> {
        self.held.get(&(family, number))?.iter().find(|held| wanted.conflicts(held)).copied()
    }

    /// The first lock of the same owner that lies there.
    pub fn own(&self, family: Family, number: u64, wanted: &Lock) -> Option<Lock> {
        let held = self.held.get(&(family, number))?;
        held.iter().find(|held| held.owner == wanted.owner && held.overlaps(wanted)).copied()
    }

    /// Grants a lock; the owner's own locks give way where they overlap, and those of the same kind become one where they touch.
    pub fn grant(&mut self, family: Family, number: u64, mut lock: Lock) {
        self.release(family, number, &lock);
        let held = self.held.entry((family, number)).or_default();
        held.retain(|other| {
            let joins = other.owner == lock.owner && other.exclusive == lock.exclusive;
            let touches = other.end == lock.start || other.start == lock.end;
            if joins && touches {
                (lock.start, lock.end) = (lock.start.min(other.start), lock.end.max(other.end));
            }
            !(joins && touches)
        });
        let after = |other: &Lock| other.owner == lock.owner && other.start < lock.start;
        let at = match held.iter().rposition(after) {
            Some(last) => last + 1,
            None => held.iter().position(|other| other.owner == lock.owner).unwrap_or(held.len()),
        };
        held.insert(at, lock);
    }

    /// Gives up what the owner holds within a range. Whether anything was.
    pub fn release(&mut self, family: Family, number: u64, range: &Lock) -> bool {
        let Some(held) = self.held.get_mut(&(family, number)) else { return false };
        let mut kept = Vec::with_capacity(held.len());
        let mut changed = false;
        for lock in held.drain(..) {
            if lock.owner != range.owner || !lock.overlaps(range) {
                kept.push(lock);
                continue;
            }
            changed = true;
            if lock.start < range.start {
                kept.push(Lock { end: range.start, ..lock });
            }
            if range.end < lock.end {
                kept.push(Lock { start: range.end, ..lock });
            }
        }
        *held = kept;
        if held.is_empty() {
            self.held.remove(&(family, number));
        }
        changed
    }
}

impl Kernel {
    /// What locks on an open file are keyed by: its inode. Files without one of their own (eventfd(2) and its like) have one in common,
    /// as on Linux.
    pub(crate) fn lock_number(&self, file: FileId) -> u64 {
        match &self.files[file].kind {
            FileKind::Regular(file) => file.number,
            FileKind::Directory(directory) => crate::vfs::synthetic::number(&directory.path),
            FileKind::Pipe(end) => ANONYMOUS_NUMBERS * 2 + u64::from(end.pipe.0),
            FileKind::Event(_)
            | FileKind::Timer(_)
            | FileKind::Signals(_)
            | FileKind::Epoll(_)
            | FileKind::Inotify(_) => ANONYMOUS_NUMBERS - 1,
            FileKind::Inet(_) | FileKind::Netlink(_) | FileKind::Unix(_) => ANONYMOUS_NUMBERS + u64::from(file.0),
            _ => crate::vfs::synthetic::number(&self.describe_file(file)),
        }
    }

    pub(crate) fn wait_for_lock(&mut self, number: u64, tid: Tid) -> FutexKey {
        let key = FutexKey::Other { queue: Queue::Lock, number };
        self.futexes.add(key, FutexWaiter::new(tid, u32::MAX));
        key
    }

    /// Gives up locks in a range, and lets those that wait for the file try again.
    pub(crate) fn release_locks(&mut self, family: Family, number: u64, range: &Lock) {
        if self.locks.release(family, number, range) {
            self.wake_lock_waiters(number);
        }
    }

    pub(crate) fn wake_lock_waiters(&mut self, number: u64) {
        let key = FutexKey::Other { queue: Queue::Lock, number };
        for waiter in self.futexes.take(key, usize::MAX, u32::MAX) {
            self.wake(waiter.tid, Wake::Ready);
        }
    }

    /// A process gives up a descriptor, at its end or by `execve`.
    pub(crate) fn close_descriptor(&mut self, file: FileId, pid: Pid) {
        self.flush_file(file, pid);
        self.release_file(file);
    }

    /// A process closed a descriptor of a file: its record locks on it are gone, whatever other descriptors it has.
    pub(crate) fn drop_record_locks(&mut self, file: FileId, pid: Pid) {
        if !self.locks.held.is_empty() {
            self.drop_locks(Family::Record, file, Owner::Process(pid));
        }
    }

    /// An open file is closed for good.
    pub(crate) fn drop_file_locks(&mut self, file: FileId) {
        if !self.locks.held.is_empty() {
            self.drop_locks(Family::Whole, file, Owner::File(file));
            self.drop_locks(Family::Record, file, Owner::File(file));
        }
    }

    fn drop_locks(&mut self, family: Family, file: FileId, owner: Owner) {
        let number = self.lock_number(file);
        self.release_locks(family, number, &Lock { owner, start: 0, end: u64::MAX, exclusive: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(pid: u32, start: u64, end: u64, exclusive: bool) -> Lock {
        Lock { owner: Owner::Process(Pid(pid)), start, end, exclusive }
    }

    #[test]
    fn shared_locks_share_and_exclusive_ones_do_not() {
        let mut locks = Locks::default();
        locks.grant(Family::Record, 1, lock(1, 0, 100, false));
        assert_eq!(locks.conflict(Family::Record, 1, &lock(2, 50, 60, false)), None);
        assert!(locks.conflict(Family::Record, 1, &lock(2, 50, 60, true)).is_some());
        assert_eq!(locks.conflict(Family::Record, 1, &lock(2, 100, 101, true)), None);
        assert_eq!(locks.conflict(Family::Record, 1, &lock(1, 0, 100, true)), None);
        assert_eq!(locks.conflict(Family::Whole, 1, &lock(2, 0, 100, true)), None);
    }

    #[test]
    fn unlocking_the_middle_leaves_both_ends() {
        let mut locks = Locks::default();
        locks.grant(Family::Record, 1, lock(1, 0, 100, true));
        assert!(locks.release(Family::Record, 1, &lock(1, 40, 60, false)));
        assert_eq!(locks.held[&(Family::Record, 1)], [lock(1, 0, 40, true), lock(1, 60, 100, true)]);
        locks.grant(Family::Record, 1, lock(1, 0, 70, false));
        assert_eq!(locks.held[&(Family::Record, 1)], [lock(1, 0, 70, false), lock(1, 70, 100, true)]);
        assert!(!locks.release(Family::Record, 1, &lock(2, 0, u64::MAX, false)));
    }

    #[test]
    fn locks_that_touch_join_and_the_lowest_conflict_is_told() {
        let mut locks = Locks::default();
        for range in [(10, 15), (5, 10), (20, 30), (1, 3)] {
            locks.grant(Family::Record, 1, lock(1, range.0, range.1, true));
        }
        assert_eq!(
            locks.held[&(Family::Record, 1)],
            [(1, 3), (5, 15), (20, 30)].map(|(from, to)| lock(1, from, to, true))
        );
        assert_eq!(locks.conflict(Family::Record, 1, &lock(2, 0, 100, false)), Some(lock(1, 1, 3, true)));
        locks.grant(Family::Record, 1, lock(1, 3, 5, false));
        assert_eq!(locks.held[&(Family::Record, 1)].len(), 4, "kinds do not join");
    }
}
