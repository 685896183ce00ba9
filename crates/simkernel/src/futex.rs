//! Futex queues: who waits at which address. The calls are in `syscalls/futex.rs`.

use crate::ids::{SpaceId, Tid};
use base::map::FastMap;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// Where a futex lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FutexKey {
    /// Said to be private to one address space (FUTEX_PRIVATE_FLAG), whatever memory is there.
    Private { space: SpaceId, address: u64 },
    /// Not said to be private, in memory of one address space. Waiters here and at the private
    /// futex of the same word do not see each other (`get_futex_key`).
    Own { space: SpaceId, address: u64 },
    /// In memory that processes share: the object, and the place in it.
    Shared { object: u32, place: u64 },
    /// No futex: threads that wait for something else with a number stand in these queues too.
    Other { queue: Queue, number: u64 },
}

/// What threads wait for in the queues that is no futex.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Queue {
    /// A lock on the file with an inode number.
    Lock,
    /// The holder of a lease on the file with an inode number to give way.
    Lease,
    /// News of the children of a process.
    Children,
    /// Operations on a System V semaphore set.
    Semaphores,
    /// Messages in a System V queue, or room there.
    Messages,
    /// The same of a POSIX queue.
    PosixMessages,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FutexWaiter {
    pub tid: Tid,
    pub bitset: u32,
    /// It waits for a lock with priority inheritance.
    pub inherits: bool,
}

impl FutexWaiter {
    pub fn new(tid: Tid, bitset: u32) -> Self {
        FutexWaiter { tid, bitset, inherits: false }
    }
}

/// The queues of one host. A queue exists while someone waits in it.
#[derive(Debug, Default)]
pub struct Futexes {
    queues: FastMap<FutexKey, VecDeque<FutexWaiter>>,
    /// Queues in which nobody waits any more, kept for their memory.
    spare: Vec<VecDeque<FutexWaiter>>,
    /// How many wait for locks with priority inheritance.
    inheriting: usize,
}

impl Futexes {
    /// Whether somebody waits there for a lock with priority inheritance.
    pub fn has_inheriting(&self, key: FutexKey) -> bool {
        self.inheriting > 0 && self.queues.get(&key).is_some_and(|queue| queue.iter().any(|waiter| waiter.inherits))
    }

    pub fn add(&mut self, key: FutexKey, waiter: FutexWaiter) {
        self.inheriting += usize::from(waiter.inherits);
        let spare = &mut self.spare;
        self.queues.entry(key).or_insert_with(|| spare.pop().unwrap_or_default()).push_back(waiter);
    }

    /// Removes a waiter that gives up.
    pub fn remove(&mut self, key: FutexKey, tid: Tid) {
        if let Some(queue) = self.queues.get_mut(&key) {
            // Of thousands that wait, those that came first give up first.
            let found = queue.iter().position(|w| w.tid == tid).and_then(|index| queue.remove(index));
            self.inheriting -= usize::from(found.is_some_and(|w| w.inherits));
            self.drop_if_empty(key);
        }
    }

    fn drop_if_empty(&mut self, key: FutexKey) {
        const SPARES: usize = 16;
        if self.queues.get(&key).is_some_and(VecDeque::is_empty)
            && let Some(queue) = self.queues.remove(&key)
            && self.spare.len() < SPARES
        {
            self.spare.push(queue);
        }
    }

    /// Whether nobody waits there.
    pub fn is_empty(&self, key: FutexKey) -> bool {
        !self.queues.contains_key(&key)
    }

    /// The locks with priority inheritance that somebody waits for.
    pub fn locks(&self) -> Vec<FutexKey> {
        if self.inheriting == 0 {
            return Vec::new();
        }
        let waits = |queue: &VecDeque<FutexWaiter>| queue.iter().any(|w| w.inherits);
        self.queues.iter().filter(|(_, queue)| waits(queue)).map(|(key, _)| *key).collect()
    }

    /// Takes out the first `count` waiters whose bitset meets `bitset`, in order of arrival.
    pub fn take(&mut self, key: FutexKey, count: usize, bitset: u32) -> SmallVec<[FutexWaiter; 4]> {
        let mut taken: SmallVec<[FutexWaiter; 4]> = SmallVec::new();
        let Some(queue) = self.queues.get_mut(&key) else {
            return taken;
        };
        let mut passed = 0;
        while taken.len() < count && passed < queue.len() {
            if queue[passed].bitset & bitset == 0 {
                passed += 1;
            } else {
                taken.extend(queue.remove(passed));
            }
        }
        self.drop_if_empty(key);
        self.inheriting -= taken.iter().filter(|w| w.inherits).count();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_leave_in_order_and_by_bitset() {
        let key = FutexKey::Private { space: SpaceId(1), address: 64 };
        let mut futexes = Futexes::default();
        for (tid, bitset) in [(1, 1), (2, 2), (3, 3), (4, u32::MAX)] {
            futexes.add(key, FutexWaiter::new(Tid(tid), bitset));
        }
        let tids = |taken: SmallVec<[FutexWaiter; 4]>| taken.iter().map(|w| w.tid.0).collect::<Vec<_>>();
        assert_eq!(tids(futexes.take(key, 1, 2)), [2]);
        futexes.remove(key, Tid(3));
        assert_eq!(tids(futexes.take(key, 9, u32::MAX)), [1, 4]);
        assert!(futexes.queues.is_empty());
    }
}
