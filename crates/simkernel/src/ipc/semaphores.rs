//! System V semaphores: sets of them, operations that wait, and what is undone at the end of processes.

use super::{Caller, Ids, Keyed, new_perm};
use crate::ids::{Pid, Tid};
use linux_abi::Errno;
use linux_abi::ipc::{IPC_NOWAIT, IpcPerm, SEM_UNDO, Sembuf};
use std::collections::BTreeMap;

/// SEMMSL: most semaphores of one set.
pub const SET_MAX: usize = 32_000;
/// SEMOPM: most operations of one call.
pub const OPERATIONS_MAX: u64 = 500;
/// SEMVMX: highest value.
pub const VALUE_MAX: i32 = 32_767;

#[derive(Clone, Copy, Debug, Default)]
pub struct Semaphore {
    pub value: i32,
    /// Who changed it last, or found it to be zero.
    pub pid: u32,
}

/// A call that waits.
#[derive(Clone, Debug)]
struct Waiter {
    tid: Tid,
    pid: Pid,
    operations: Vec<Sembuf>,
}

impl Waiter {
    fn alters(&self) -> bool {
        self.operations.iter().any(|operation| operation.sem_op != 0)
    }
}

#[derive(Debug)]
pub struct SemaphoreSet {
    pub perm: IpcPerm,
    pub operated: i64,
    pub changed: i64,
    pub semaphores: Vec<Semaphore>,
    /// In order of arrival.
    waiters: Vec<Waiter>,
    /// What is added to each semaphore when a process ends.
    undo: BTreeMap<Pid, Vec<i16>>,
}

impl Keyed for SemaphoreSet {
    fn perm(&self) -> &IpcPerm {
        &self.perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.perm
    }
}

/// Why operations are not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// This operation has to wait.
    Waits(usize),
    Error(Errno),
}

/// A thread whose call is over, and how.
pub type Served = (Tid, Result<(), Errno>);

impl SemaphoreSet {
    /// What operations would lead to: new values, in order, and what is undone at the end of the process.
    fn plan(&self, pid: Pid, operations: &[Sembuf]) -> Result<(Vec<(usize, i32)>, Vec<i16>), Obstacle> {
        let mut values: Vec<(usize, i32)> = Vec::with_capacity(operations.len());
        let mut adjusted = self.undo.get(&pid).cloned().unwrap_or_default();
        adjusted.resize(self.semaphores.len(), 0);
        for (index, operation) in operations.iter().enumerate() {
            let number = operation.sem_num as usize;
            let known = values.iter().rev().find(|(other, _)| *other == number).map(|(_, value)| *value);
            let before = known.unwrap_or(self.semaphores[number].value);
            let after = before + i32::from(operation.sem_op);
            if (operation.sem_op == 0 && before != 0) || after < 0 {
                let gives_up = u32::from(operation.sem_flg) & IPC_NOWAIT != 0;
                return Err(if gives_up { Obstacle::Error(Errno::EAGAIN) } else { Obstacle::Waits(index) });
            }
            if after > VALUE_MAX {
                return Err(Obstacle::Error(Errno::ERANGE));
            }
            if operation.sem_flg & SEM_UNDO != 0 {
                let undo = i32::from(adjusted[number]) - i32::from(operation.sem_op);
                adjusted[number] = i16::try_from(undo).map_err(|_| Obstacle::Error(Errno::ERANGE))?;
            }
            values.push((number, after));
        }
        Ok((values, adjusted))
    }

    /// Carries out all operations, or none.
    fn perform(&mut self, pid: Pid, operations: &[Sembuf]) -> Result<(), Obstacle> {
        let (values, adjusted) = self.plan(pid, operations)?;
        for (number, value) in values {
            self.semaphores[number] = Semaphore { value, pid: pid.0 };
        }
        if operations.iter().any(|operation| operation.sem_flg & SEM_UNDO != 0) {
            self.undo.insert(pid, adjusted);
        }
        Ok(())
    }

    /// `semop` of a thread that does not wait yet. What others wait for may have come: they are in `served`.
    pub fn operate(
        &mut self,
        pid: Pid,
        operations: &[Sembuf],
        now: i64,
        served: &mut Vec<Served>,
    ) -> Result<(), Obstacle> {
        self.perform(pid, operations)?;
        self.operated = now;
        if operations.iter().any(|operation| operation.sem_op != 0) {
            self.serve(now, served);
        }
        Ok(())
    }

    /// Enters a thread among those that wait.
    pub fn wait(&mut self, tid: Tid, pid: Pid, operations: Vec<Sembuf>) {
        self.waiters.push(Waiter { tid, pid, operations });
    }

    pub fn forget(&mut self, tid: Tid) {
        self.waiters.retain(|waiter| waiter.tid != tid);
    }

    /// Values changed: carries out what waits and has become possible, in order of arrival, those first that alter nothing.
    pub fn serve(&mut self, now: i64, served: &mut Vec<Served>) {
        loop {
            self.serve_those(false, now, served);
            if !self.serve_those(true, now, served) {
                return;
            }
        }
    }

    /// One pass over the waiters that alter something, or over those that do not. Whether values changed: a pass ends there.
    fn serve_those(&mut self, alter: bool, now: i64, served: &mut Vec<Served>) -> bool {
        let mut index = 0;
        while index < self.waiters.len() {
            if self.waiters[index].alters() != alter {
                index += 1;
                continue;
            }
            let Waiter { tid, pid, operations } = self.waiters[index].clone();
            match self.perform(pid, &operations) {
                Err(Obstacle::Waits(_)) => index += 1,
                Err(Obstacle::Error(errno)) => {
                    self.waiters.remove(index);
                    served.push((tid, Err(errno)));
                }
                Ok(()) => {
                    self.waiters.remove(index);
                    self.operated = now;
                    served.push((tid, Ok(())));
                    if alter {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// How many calls wait for a semaphore to grow, or (with `zero`) to become zero: each counts for the operation that it cannot
    /// carry out.
    pub fn count_waiters(&self, number: usize, zero: bool) -> u64 {
        let waits = |waiter: &&Waiter| match self.plan(waiter.pid, &waiter.operations) {
            Err(Obstacle::Waits(index)) => {
                let operation = waiter.operations[index];
                operation.sem_num as usize == number && (operation.sem_op == 0) == zero
            }
            _ => false,
        };
        self.waiters.iter().filter(waits).count() as u64
    }

    /// SETVAL and SETALL: sets one value. What ends of processes would have undone there is forgotten.
    pub fn set(&mut self, number: usize, value: i32, pid: Pid) {
        self.semaphores[number] = Semaphore { value, pid: pid.0 };
        for undo in self.undo.values_mut() {
            if let Some(adjusted) = undo.get_mut(number) {
                *adjusted = 0;
            }
        }
    }

    /// A process ended.
    fn undo(&mut self, pid: Pid, now: i64, served: &mut Vec<Served>) {
        let Some(adjusted) = self.undo.remove(&pid) else { return };
        for (semaphore, adjustment) in self.semaphores.iter_mut().zip(adjusted) {
            if adjustment != 0 {
                semaphore.value = (semaphore.value + i32::from(adjustment)).clamp(0, VALUE_MAX);
                semaphore.pid = pid.0;
            }
        }
        self.serve(now, served);
    }
}

#[derive(Debug, Default)]
pub struct SemaphoreSets {
    pub ids: Ids<SemaphoreSet>,
}

impl SemaphoreSets {
    /// A new set of so many semaphores, all of which are zero.
    pub fn create(&mut self, key: i32, count: usize, flags: u32, caller: Caller, now: i64) -> Result<i32, Errno> {
        self.ids.insert(SemaphoreSet {
            perm: new_perm(key, flags, caller),
            operated: 0,
            changed: now,
            semaphores: vec![Semaphore::default(); count],
            waiters: Vec::new(),
            undo: BTreeMap::new(),
        })
    }

    /// Removes a set: the threads that waited.
    pub fn remove(&mut self, id: i32) -> Result<Vec<Served>, Errno> {
        let set = self.ids.remove(id)?;
        Ok(set.waiters.iter().map(|waiter| (waiter.tid, Err(Errno::EIDRM))).collect())
    }

    /// Whether something is to be undone when a process ends.
    pub fn has_undo(&self, pid: Pid) -> bool {
        self.ids.iter().any(|(_, set)| set.undo.contains_key(&pid))
    }

    /// A process ended: what it marked with SEM_UNDO is undone. The threads whose calls are over by that.
    pub fn undo_all(&mut self, pid: Pid, now: i64) -> Vec<Served> {
        let mut served = Vec::new();
        self.ids.iter_mut().for_each(|(_, set)| set.undo(pid, now, &mut served));
        served
    }

    /// How many semaphores there are in all.
    pub fn total(&self) -> usize {
        self.ids.iter().map(|(_, set)| set.semaphores.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(values: &[i32]) -> SemaphoreSet {
        let mut sets = SemaphoreSets::default();
        let id = sets.create(1, values.len(), 0o600, Caller::ROOT, 0).unwrap();
        let mut set = sets.ids.remove(id).unwrap();
        for (semaphore, value) in set.semaphores.iter_mut().zip(values) {
            semaphore.value = *value;
        }
        set
    }

    fn operation(number: u16, change: i16) -> Sembuf {
        Sembuf { sem_num: number, sem_op: change, sem_flg: 0 }
    }

    #[test]
    fn operations_happen_together_or_not_at_all() {
        let mut set = set(&[1, 0]);
        let mut served = Vec::new();
        let both = [operation(0, -1), operation(1, -1)];
        assert_eq!(set.operate(Pid(1), &both, 0, &mut served), Err(Obstacle::Waits(1)));
        assert_eq!(set.semaphores[0].value, 1);
        let same = [operation(0, 4), operation(0, -5)];
        assert_eq!(set.operate(Pid(1), &same, 0, &mut served), Ok(()));
        assert_eq!((set.semaphores[0].value, set.semaphores[0].pid), (0, 1));
        let high = [operation(0, 32767), operation(0, 1)];
        assert_eq!(set.operate(Pid(1), &high, 0, &mut served), Err(Obstacle::Error(Errno::ERANGE)));
    }

    #[test]
    fn waiters_are_served_in_order_and_zero_is_seen_between_them() {
        let mut set = set(&[0]);
        set.wait(Tid(1), Pid(1), vec![operation(0, -2)]);
        set.wait(Tid(2), Pid(2), vec![operation(0, -1)]);
        set.wait(Tid(3), Pid(3), vec![operation(0, 0), operation(0, 5)]);
        assert_eq!((set.count_waiters(0, false), set.count_waiters(0, true)), (2, 0));
        let mut served = Vec::new();
        set.operate(Pid(9), &[operation(0, 1)], 0, &mut served).unwrap();
        assert_eq!(served, [(Tid(2), Ok(())), (Tid(3), Ok(())), (Tid(1), Ok(()))]);
        assert_eq!(set.semaphores[0].value, 3);
    }

    #[test]
    fn what_was_marked_is_undone() {
        let mut set = set(&[3]);
        let mut served = Vec::new();
        let take = Sembuf { sem_flg: SEM_UNDO, ..operation(0, -3) };
        set.operate(Pid(5), &[take], 0, &mut served).unwrap();
        set.wait(Tid(8), Pid(8), vec![operation(0, -1)]);
        set.undo(Pid(5), 0, &mut served);
        assert_eq!((set.semaphores[0].value, served.len()), (2, 1));
        set.operate(Pid(5), &[Sembuf { sem_op: -2, ..take }], 0, &mut served).unwrap();
        set.set(0, 1, Pid(1));
        set.undo(Pid(5), 0, &mut served);
        assert_eq!(set.semaphores[0].value, 1);
    }
}
