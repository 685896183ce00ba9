//! Guests that compute without calls: loops that wait for a change, which cost nothing once they are recognised, and computing past a
//! budget of processor time, which takes simulated time.
//!
//! A guest that comes back as pre-empted did so by the machine's time, so nothing here may depend on when. A loop that is proven to
//! have no end of its own rests at one certain state, whenever it is proven (`guest::prove_spin`), until a thread that can change
//! what it reads has run: this is the same in every run. The budget is a safety net beneath that: who exceeds it makes the run
//! depend on the machine, which is reported and counted.

use crate::ctx::Ctx;
use crate::host::ComputingRules;
use crate::ids::Tid;
use crate::kernel::Kernel;
use crate::run::Turn;
use crate::shared::{Key, Space};
use crate::thread::ThreadState;
use base::{SimDuration, SimTime};
use guest::{Exit, Proof, Spin, Worker, prove_spin};
use std::time::Duration;

/// Ticks after which a guest that has not come back is looked at first.
pub(crate) const FIRST_TICKS: u32 = 2;
/// Instructions that the first attempt to prove a loop may take (about 2.5 us each), and how far later ones go.
const FIRST_STEPS: u32 = 2_048;
const MOST_STEPS: u32 = 32_768;
/// A thread that was found in such a loop is expected to be so again: it is interrupted after this much of wall time.
const SHORT_RUN: Duration = Duration::from_micros(50);
/// That expectation, in runs; and what a wrong one takes from it.
const EXPECTED: u16 = 1_000;
const MISTAKE: u16 = 100;
/// So many loops may come to rest on a host at one moment before time passes: two can wake each other for ever.
const SPINS_PER_MOMENT: u32 = 1_000;
const CROWDED: SimDuration = SimDuration::from_millis(1);

/// What a thread has computed since its last call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Computing {
    /// Ticks of its worker's timer.
    ticks: u32,
    /// Ticks at which to look for a loop without end again, and how often that was done.
    next_proof: u32,
    proofs: u32,
    /// How often its time was moved.
    naps: u32,
}

/// What computing came to on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputingCounts {
    /// Loops without calls that came to rest until something changed. The same in every run.
    pub spins: u64,
    /// Guests that were interrupted past their budget, each time.
    pub preemptions: u64,
    /// The simulated time that this took.
    pub preempted: SimDuration,
}

/// A thread that rests in a loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spinner {
    pub(crate) tid: Tid,
    space: Key<Space>,
    /// It reads memory that other processes may write.
    shared: bool,
}

/// What happened on a host since its time last moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub(crate) at: SimTime,
    pub(crate) calls: u32,
    spins: u32,
}

/// What becomes of a thread that was pre-empted.
pub(crate) enum Preempted {
    GoesOn,
    Ends(Turn),
    /// It came back by itself meanwhile.
    Left(Exit),
}

impl Moment {
    pub(crate) fn new(at: SimTime) -> Moment {
        Moment { at, calls: 0, spins: 0 }
    }
}

impl Computing {
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.ticks != 0
    }
}

impl Kernel {
    /// A thread has run in `space`: loops that read what it may have written look again.
    pub(crate) fn rouse_spinners(&mut self, ran: Tid, space: Key<Space>) {
        for spinner in std::mem::take(&mut self.spinners) {
            let affected = spinner.tid != ran && (spinner.shared || spinner.space == space);
            match self.threads.get_mut(spinner.tid.0).filter(|_| affected) {
                Some(thread) => {
                    thread.state = ThreadState::Runnable;
                    self.runnable.push_back(spinner.tid);
                }
                None => self.spinners.push(spinner),
            }
        }
    }
}

impl ComputingRules {
    /// Ticks of the worker's timer for its interval.
    fn interval_ticks(&self, worker: &Worker) -> u32 {
        let ticks = self.interval.as_nanos().div_ceil(worker.tick().as_nanos().max(1));
        u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
    }

    /// The simulated time of the next pre-emption of a thread that had `naps` of them.
    fn nap(&self, naps: u32) -> SimDuration {
        self.first_nap.saturating_mul(1 << naps.min(30)).min(self.last_nap)
    }
}

impl Ctx<'_> {
    /// Before a guest runs on: it may be expected to wait in a loop.
    #[cold]
    pub(crate) fn expect_spin(&mut self, worker: &mut Worker) {
        self.thread.spins_expected -= 1;
        worker.limit_next_run(SHORT_RUN);
    }

    /// A thread that rested in a loop has a turn. Some when nothing has changed.
    pub(crate) fn look_again(&mut self) -> Option<Turn> {
        let spin = self.thread.spin.take()?;
        if self.signal_pending() || !spin.goes_on(&self.process.memory) {
            return None;
        }
        let turn = self.rest(spin);
        Some(turn)
    }

    /// The guest has computed through `ticks` ticks and did not come back.
    pub(crate) fn preempted(&mut self, worker: &mut Worker, ticks: u32) -> Preempted {
        let computing = &mut self.thread.computing;
        let expected = ticks < worker.patience();
        computing.ticks = computing.ticks.saturating_add(ticks);
        if expected || computing.ticks >= computing.next_proof {
            match self.seek_spin(worker, expected) {
                Proof::Spins(spin) => return Preempted::Ends(self.begin_spin(spin)),
                Proof::Left(Exit::Preempted { .. }) | Proof::Unknown => {}
                Proof::Left(exit) => return Preempted::Left(exit),
            }
        }
        let rules = self.kernel.config.computing;
        worker.set_patience(if self.thread.computing.ticks == 0 { FIRST_TICKS } else { rules.interval_ticks(worker) });
        match self.over_budget(&rules, worker) {
            Some(turn) => Preempted::Ends(turn),
            None => {
                self.process.memory.let_others_run(worker);
                Preempted::GoesOn
            }
        }
    }

    /// The guest has come back by itself.
    #[cold]
    pub(crate) fn end_computing(&mut self, worker: &mut Worker) {
        self.thread.computing = Computing::default();
        worker.set_patience(FIRST_TICKS);
    }

    fn seek_spin(&mut self, worker: &mut Worker, expected: bool) -> Proof {
        let computing = &mut self.thread.computing;
        let steps = FIRST_STEPS.saturating_mul(4u32.saturating_pow(computing.proofs)).min(MOST_STEPS);
        if !expected {
            computing.proofs += 1;
            computing.next_proof = computing.ticks.saturating_mul(2);
        }
        let proof = prove_spin(&mut self.thread.vcpu, worker, &self.process.memory, steps);
        if expected && matches!(proof, Proof::Unknown) {
            self.thread.spins_expected = self.thread.spins_expected.saturating_sub(MISTAKE);
        }
        proof
    }

    fn begin_spin(&mut self, spin: Spin) -> Turn {
        self.thread.computing = Computing::default();
        self.thread.spins_expected = EXPECTED;
        self.process.memory.seal_startup();
        self.kernel.computing.spins += 1;
        self.kernel.moment.spins += 1;
        if self.kernel.moment.spins > SPINS_PER_MOMENT {
            self.kernel.moment.spins = 0;
            return self.nap(CROWDED);
        }
        self.rest(Box::new(spin));
        Turn::Parked
    }

    fn rest(&mut self, spin: Box<Spin>) -> Turn {
        let spinner = Spinner { tid: self.thread.tid, space: self.process.space, shared: spin.shared };
        self.thread.spin = Some(spin);
        self.thread.sleeping = true;
        self.thread.call.deadline = None;
        self.kernel.spinners.push(spinner);
        Turn::StillSpins
    }

    /// Moves time on for a guest that has computed for longer than it may.
    fn over_budget(&mut self, rules: &ComputingRules, worker: &Worker) -> Option<Turn> {
        let budget = rules.budget?;
        let used = worker.tick().saturating_mul(self.thread.computing.ticks);
        let limit = if self.process.over_budget { rules.interval } else { budget };
        let rip = self.thread.vcpu.registers().rip;
        // What stands for an instruction there must not be torn apart, and signals could not show the place.
        if used < limit || self.process.memory.is_in_sled(rip) {
            return None;
        }
        if !std::mem::replace(&mut self.process.over_budget, true) {
            self.report(format!(
                "computed for {budget:?} of processor time without a system call: from here on its computing takes simulated time, and \
                 the run is not reproducible to the bit"
            ));
        }
        let nap = rules.nap(self.thread.computing.naps);
        self.thread.computing.naps += 1;
        self.kernel.computing.preemptions += 1;
        self.kernel.computing.preempted = self.kernel.computing.preempted.saturating_add(nap);
        self.process.memory.seal_startup();
        Some(self.nap(nap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_grow_up_to_the_longest() {
        let rules = ComputingRules::default();
        let naps: Vec<u64> = (0..9).map(|n| rules.nap(n).as_nanos() / 1_000_000).collect();
        assert_eq!(naps, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(rules.nap(u32::MAX), SimDuration::from_secs(1));
    }
}
