//! Barrier, work list and those that wait, in every order of steps that the memory model allows (loom): the engine's own source files, over a
//! model of what they meet by.

#![allow(dead_code, reason = "the files are whole, the tests use what matters")]

mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }

    loom::lazy_static! {
        static ref ASLEEP: (Mutex<()>, loom::sync::Condvar) = (Mutex::new(()), loom::sync::Condvar::new());
    }

    /// As futex(2) has it: looks and falls asleep in one step.
    pub fn wait(word: &AtomicU32, value: u32) {
        let asleep = lock(&ASLEEP.0);
        if word.load(Ordering::SeqCst) == value {
            drop(ASLEEP.1.wait(asleep).unwrap());
        }
    }

    pub fn wake_all(_: *const AtomicU32) {
        let _asleep = lock(&ASLEEP.0);
        ASLEEP.1.notify_all();
    }
}
#[path = "../src/barrier.rs"]
mod barrier;
#[path = "../src/waiting.rs"]
mod waiting;
#[path = "../src/worklist.rs"]
mod worklist;

use barrier::Barrier;
use loom::sync::Arc;
use loom::thread;
use sync::{AtomicUsize, Ordering};
use waiting::{Holder, Waiting};
use worklist::{Claim, WorkList};

/// More changes between threads than this at other places than those where one waits find no more, and take long.
fn try_all(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn nobody_passes_the_barrier_before_all_have_come_and_nobody_sleeps_on() {
    try_all(|| {
        let shared = Arc::new((Barrier::with_spins(2, 1), AtomicUsize::new(0)));
        let go = |shared: &(Barrier, AtomicUsize)| {
            for meeting in 1..=2 {
                shared.1.fetch_add(1, Ordering::Relaxed);
                shared.0.meet(|| ());
                // Nobody is two meetings ahead.
                let come = shared.1.load(Ordering::Relaxed);
                assert!(come == 2 * meeting || come == 2 * meeting + 1, "{come} at meeting {meeting}");
            }
        };
        let other = thread::spawn({
            let shared = shared.clone();
            move || go(&shared)
        });
        go(&shared);
        other.join().unwrap();
    });
}

#[test]
fn each_entry_of_a_list_is_claimed_once_and_none_of_another_round() {
    try_all(|| {
        let shared = Arc::new((WorkList::with_capacity(2), AtomicUsize::new(0)));
        // Entry n adds 1 at the n-th decimal place.
        let claim = |shared: &(WorkList, AtomicUsize)| {
            while let Claim::Entry(entry) = shared.0.claim(7) {
                shared.1.fetch_add(10usize.pow(entry), Ordering::Relaxed);
            }
        };
        let thief = thread::spawn({
            let shared = shared.clone();
            move || claim(&shared)
        });
        shared.0.publish(7, &[0, 1]);
        claim(&shared);
        thief.join().unwrap();
        assert_eq!(shared.1.load(Ordering::Relaxed), 11);
    });
}

/// A worker of the model: the exclusive thing is a number, 0 while nobody has it.
struct Worker {
    id: usize,
    shared: Arc<Round>,
}

struct Round {
    waiting: Waiting,
    holder: AtomicUsize,
    ran: AtomicUsize,
}

impl Holder for Worker {
    fn take(&mut self) -> bool {
        match self.shared.holder.compare_exchange(0, self.id, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(holder) => holder == self.id,
        }
    }

    fn give_up(&mut self) {
        if self.shared.holder.load(Ordering::Relaxed) == self.id {
            self.shared.holder.store(0, Ordering::Release);
        }
    }

    fn run(&mut self, host: u32) {
        assert_eq!(self.shared.holder.load(Ordering::Relaxed), self.id, "with the exclusive thing");
        self.shared.ran.fetch_add(10usize.pow(host), Ordering::Relaxed);
    }
}

impl Worker {
    /// As the engine does it: runs a host if it can have what that needs, leaves it otherwise, and finishes the round.
    fn round(&mut self, host: u32) {
        if self.take() {
            self.run(host);
        } else {
            self.shared.waiting.push(host);
        }
        let shared = self.shared.clone();
        shared.waiting.finish(self);
    }
}

#[test]
fn who_waits_is_run_once_whoever_leaves_last() {
    try_all(|| {
        let round = Round { waiting: Waiting::new(), holder: AtomicUsize::new(0), ran: AtomicUsize::new(0) };
        let shared = Arc::new(round);
        let other = thread::spawn({
            let shared = shared.clone();
            move || Worker { id: 2, shared }.round(1)
        });
        Worker { id: 1, shared: shared.clone() }.round(0);
        other.join().unwrap();
        assert_eq!(shared.ran.load(Ordering::Relaxed), 11);
        assert_eq!(shared.holder.load(Ordering::Relaxed), 0);
    });
}
