//! Guests that compute without calls: loops that wait for a change, which cost nothing once they are recognised, and computing past a
//! budget of processor time, which takes simulated time. And the model of processors, in which all computing takes time as measured.
//!
//! A guest that comes back as pre-empted did so by the machine's time, so nothing here may depend on when. A loop that is proven to
//! have no end of its own rests at one certain state, whenever it is proven (`guest::prove_spin`), until a thread that can change
//! what it reads has run: this is the same in every run. The budget is a safety net beneath that: who exceeds it makes the run
//! depend on the machine, which is reported and counted.

use crate::counting::{Interval, ends_interval};
use crate::ctx::Ctx;
use crate::host::ComputingRules;
use crate::ids::Tid;
use crate::kernel::Kernel;
use crate::profiling::Doing;
use crate::run::{SENDING_DELAY, Turn};
use crate::shared::{Key, Space};
use crate::spree::Spree;
use crate::thread::ThreadState;
use base::{SimDuration, SimTime};
use guest::{Effort, Exit, Proof, Shortage, Spin, Stopwatch, Worker, prove_spin};
use std::time::Duration;

/// Ticks after which a guest that has not come back is looked at first.
pub(crate) const FIRST_TICKS: u32 = 2;
/// Instructions that the first attempt to prove a loop may take (2.5 us each, or 15 on some virtual machines), and how far later ones go.
const FIRST_STEPS: u32 = 2_048;
const MOST_STEPS: u32 = 32_768;
/// An attempt may take so much of the time for which the thread has computed: who computes to a purpose is not slowed by more than a quarter.
const PROOF_PART: u32 = 8;
/// As much at least, where a loop is expected.
const EXPECTED_PROOF: Duration = Duration::from_millis(20);
/// A process that was found in such a loop is expected to be so again: it is interrupted after this much of wall time.
const SHORT_RUN: Duration = Duration::from_micros(50);
/// That expectation, in runs; and what a wrong one takes from it.
const EXPECTED: u16 = 1_000;
const MISTAKE: u16 = 100;
/// So many loops may come to rest on a host at one moment before time passes: two can wake each other for ever.
const SPINS_PER_MOMENT: u32 = 1_000;
const CROWDED: SimDuration = SimDuration::from_millis(1);
/// Of the simulated time that a guest has computed for, this part is what the next interval takes at least.
const GROWTH: u64 = 16;

/// What a thread has computed since its last call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Computing {
    /// Ticks of its worker's timer.
    ticks: u32,
    /// Ticks at which to look for a loop without end again, and how often that was done.
    next_proof: u32,
    proofs: u32,
    /// How often its time was moved, and by how much.
    naps: u32,
    napped: SimDuration,
    /// Since when its time moves for its last pre-emption, or for a read of a clock.
    pub(crate) napping: Option<SimTime>,
    /// Time that it has computed and that has not passed yet, where processors are modelled.
    owed: SimDuration,
}

/// What computing came to on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ComputingCounts {
    /// Loops without calls that came to rest until something changed. The same in every run.
    pub spins: u64,
    /// Loops that read clocks until time passed. The same in every run.
    pub clock_loops: u64,
    /// Guests that were interrupted past their budget, each time.
    pub preemptions: u64,
    /// The simulated time that this took.
    pub preempted: SimDuration,
    /// Processes that did so.
    pub over_budget: u64,
    /// The simulated time that computing took where the model of processors is on.
    pub charged: SimDuration,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: SimTime,
    pub(crate) spree: Spree,
    spins: u32,
    /// Time passes until here only because of the calls: they go on counting.
    goes_on_until: SimTime,
}

impl Moment {
    pub(crate) fn new(at: SimTime) -> Moment {
        Moment { at, spree: Spree::of_host(), spins: 0, goes_on_until: SimTime::ZERO }
    }

    /// Another time has come.
    pub(crate) fn move_to(&mut self, now: SimTime) {
        *self = if now > self.goes_on_until { Moment::new(now) } else { Moment { at: now, spins: 0, ..*self } };
    }

    /// The time that passes now for all calls on the host.
    pub(crate) fn charge(&mut self, now: SimTime) -> SimDuration {
        let time = self.spree.charge();
        self.goes_on_until = now + time;
        time
    }
}

impl Computing {
    #[inline]
    pub(crate) fn is_under_way(&self) -> bool {
        self.ticks != 0 || self.owed != SimDuration::ZERO
    }
}

impl Kernel {
    /// A thread has run in `space`, or written there: loops that read what it may have written look again.
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
    /// The simulated time of some processor time, if it takes any.
    fn charge(&self, used: Duration) -> SimDuration {
        self.speed.map_or(SimDuration::ZERO, |speed| SimDuration::from_nanos((used.as_nanos() as f64 / speed) as u64))
    }

    /// Ticks of the worker's timer for its interval.
    fn interval_ticks(&self, worker: &Worker) -> u32 {
        let ticks = self.interval.as_nanos().div_ceil(worker.tick().as_nanos().max(1));
        u32::try_from(ticks).unwrap_or(u32::MAX).max(1)
    }

    /// The simulated time of the next pre-emption of a thread that had `naps` of them, `napped` long in all. Who computes on and on comes to
    /// any stop time soon: what waits for it may come late by a share of the wait.
    fn nap(&self, naps: u32, napped: SimDuration) -> SimDuration {
        let next = self.first_nap.saturating_mul(1 << naps.min(30)).min(self.last_nap);
        if self.first_nap == self.last_nap {
            next
        } else {
            next.max(SimDuration::from_nanos(napped.as_nanos() / GROWTH))
        }
    }
}

impl Ctx<'_> {
    /// Executes a guest that is expected to wait in a loop, or whose computing takes time, is measured or is counted.
    #[cold]
    pub(crate) fn run_watched(&mut self, worker: &mut Worker) -> Exit {
        let counted = if self.kernel.counts_instructions() { self.run_counted(worker) } else { None };
        let (exit, used) = match counted {
            Some(exit) => (exit, Duration::ZERO),
            None => self.run_free(worker),
        };
        if ends_interval(&exit) {
            self.thread.interval = Interval::Begins;
        }
        let measured = self.kernel.config.computing.charge(used);
        let owed = measured.saturating_add(self.end_interval(&exit, used));
        self.thread.computing.owed = self.thread.computing.owed.saturating_add(owed);
        self.process.computed = self.process.computed.saturating_add(owed);
        self.kernel.computing.charged = self.kernel.computing.charged.saturating_add(measured);
        exit
    }

    /// Executes it, and measures for how long if somebody wants to know.
    fn run_free(&mut self, worker: &mut Worker) -> (Exit, Duration) {
        if self.process.spins_expected > 0 {
            self.process.spins_expected -= 1;
            worker.limit_next_run(SHORT_RUN);
        }
        if self.kernel.config.computing.speed.is_none() && !self.kernel.measures_intervals() {
            let exit = match self.thread.vcpu.run(worker) {
                Exit::Sampled => self.go_on_after_samples(worker),
                exit => exit,
            };
            return (exit, Duration::ZERO);
        }
        let stopwatch = Stopwatch::start();
        let mut exit = self.thread.vcpu.run(worker);
        let mut used = stopwatch.read();
        while exit == Exit::Sampled {
            // What taking a sample takes is not the program's.
            self.note_samples(worker, Doing::Program);
            let stopwatch = Stopwatch::start();
            exit = self.thread.vcpu.go_on(worker);
            used += stopwatch.read();
        }
        (exit, used)
    }

    /// A guest has come back that had computed for some time, or that owes time. Some when it does not go on.
    #[cold]
    pub(crate) fn settle_computing(&mut self, worker: &mut Worker, exit: &Exit, began: SimTime) -> Option<Turn> {
        if matches!(exit, Exit::Preempted { .. }) {
            return None;
        }
        let owed = std::mem::take(&mut self.thread.computing).owed;
        worker.set_patience(FIRST_TICKS);
        let turn = self.let_pass(owed, began);
        if turn.is_some() {
            if ends_interval(exit) {
                self.thread.between.pay(self.thread.vcpu.registers().rip);
            }
            // What it was about to do comes after that. A fault happens again by itself, and so does a call by the vsyscall page.
            match exit {
                Exit::Syscall => {
                    let registers = self.thread.vcpu.registers();
                    let (number, rip) = (registers.rax, registers.rip);
                    let original = self.process.memory.original_address(rip);
                    self.thread.vcpu.restart_syscall(number, original);
                }
                Exit::ReadTsc | Exit::ReadRandom | Exit::Emulate => self.thread.vcpu.restart_instruction(),
                _ => {}
            }
        }
        turn
    }

    /// The time of a pre-emption is over, or a signal has cut it short.
    pub(crate) fn end_nap(&mut self) {
        if let Some(began) = self.thread.computing.napping.take() {
            let passed = self.now.saturating_since(began);
            self.process.computed = self.process.computed.saturating_add(passed);
            if self.process.cpu_timer_is_due() {
                self.fire_cpu_timers();
            }
        }
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

    /// The guest has computed through `ticks` ticks and did not come back. Some when it does not go on.
    #[cold]
    pub(crate) fn preempted(&mut self, worker: &mut Worker, ticks: u32, began: SimTime) -> Option<Turn> {
        if self.thread.clock_reads.is_kept()
            && let Some(turn) = self.compute_in_loop(worker, ticks)
        {
            return Some(turn);
        }
        let computing = &mut self.thread.computing;
        let expected = ticks < worker.patience();
        computing.ticks = computing.ticks.saturating_add(ticks);
        if expected || computing.ticks >= computing.next_proof {
            // An instruction that faults does so again when the guest runs on.
            if let Proof::Spins(spin) = self.seek_spin(worker, expected) {
                return Some(self.begin_spin(spin));
            }
        }
        let rules = self.kernel.config.computing;
        let is_first = self.thread.computing.ticks == 0 || rules.speed.is_some();
        worker.set_patience(match guest::shortage() {
            Shortage::None if is_first => FIRST_TICKS,
            Shortage::None => rules.interval_ticks(worker),
            Shortage::Near | Shortage::Here => 1,
        });
        if rules.speed.is_some() {
            let owed = std::mem::take(&mut self.thread.computing.owed);
            // Time moves: others of the host have their turns in between.
            let others = self.kernel.others_can_run();
            let turn = self.let_pass(owed, began).or(others.then_some(Turn::Again));
            if turn.is_some() {
                self.abort_sequence();
            }
            return turn;
        }
        let turn = self.over_budget(&rules, worker);
        if turn.is_none() {
            self.process.memory.let_others_run(worker);
        } else {
            self.abort_sequence();
        }
        turn
    }

    fn seek_spin(&mut self, worker: &mut Worker, expected: bool) -> Proof {
        let computing = &mut self.thread.computing;
        let steps = FIRST_STEPS.saturating_mul(4u32.saturating_pow(computing.proofs)).min(MOST_STEPS);
        if !expected {
            computing.proofs += 1;
            computing.next_proof = computing.ticks.saturating_mul(2);
        }
        let effort = Effort { steps, time: self.time_for_proof(worker, expected) };
        let proof = prove_spin(&mut self.thread.vcpu, worker, &self.process.memory, effort);
        if expected && matches!(proof, Proof::Unknown) {
            self.process.spins_expected = self.process.spins_expected.saturating_sub(MISTAKE);
        }
        proof
    }

    /// The last attempt within the budget is not limited: what it does not prove makes the run depend on the machine.
    fn time_for_proof(&self, worker: &Worker, expected: bool) -> Duration {
        let computing = &self.thread.computing;
        let is_last = |budget: Duration| worker.tick().saturating_mul(computing.next_proof) >= budget;
        if !expected && !self.process.over_budget && self.kernel.config.computing.budget.is_some_and(is_last) {
            return Duration::MAX;
        }
        let part = worker.tick().saturating_mul(computing.ticks) / PROOF_PART;
        if expected { part.max(EXPECTED_PROOF) } else { part }
    }

    fn begin_spin(&mut self, spin: Spin) -> Turn {
        self.thread.computing = Computing::default();
        self.process.spins_expected = EXPECTED;
        self.process.memory.seal_startup();
        self.kernel.computing.spins += 1;
        self.kernel.moment.spins += 1;
        if let Some(left) = self.process.cpu_time_left() {
            // It waits for its own processor time.
            self.thread.computing.napping = Some(self.now);
            return self.nap(left);
        }
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

    /// Moves the clock on within the turn, unless something else happens on the host before, others compute
    /// at the same time, or what was sent has to leave.
    fn let_pass(&mut self, time: SimDuration, began: SimTime) -> Option<Turn> {
        if time == SimDuration::ZERO {
            return None;
        }
        let then = self.now + time;
        let leaves = then.saturating_since(began) >= SENDING_DELAY && self.kernel.net.stack.wants_transmit();
        let shares = self.kernel.shares_time(&self.thread.placement, self.now);
        if leaves || shares || then >= self.kernel.next_interruption() {
            return Some(self.compute_for(time));
        }
        self.now = then;
        self.kernel.set_now(then);
        None
    }

    /// Moves time on for a guest that has computed for longer than it may.
    fn over_budget(&mut self, rules: &ComputingRules, worker: &Worker) -> Option<Turn> {
        // What stands for an instruction there must not be torn apart, and signals could not show the place.
        let rip = self.thread.vcpu.registers().rip;
        if self.process.memory.is_in_sled(rip) && self.process.memory.original_address(rip) == rip {
            return None;
        }
        if guest::is_ending() {
            return Some(self.nap(rules.last_nap));
        }
        let budget = rules.budget?;
        let used = worker.tick().saturating_mul(self.thread.computing.ticks);
        let limit = if self.process.over_budget { rules.interval } else { budget };
        if used < limit {
            return None;
        }
        if !std::mem::replace(&mut self.process.over_budget, true) {
            self.kernel.computing.over_budget += 1;
            self.report(format!(
                "computed for {budget:?} of processor time without a system call: from here on its computing takes simulated time, and \
                 the run is not reproducible to the bit"
            ));
        }
        let computing = &mut self.thread.computing;
        let nap = rules.nap(computing.naps, computing.napped);
        computing.naps += 1;
        computing.napped = computing.napped.saturating_add(nap);
        computing.napping = Some(self.now);
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
        let short = SimDuration::from_secs(1);
        let naps: Vec<u64> = (0..9).map(|n| rules.nap(n, short).as_nanos() / 1_000_000).collect();
        assert_eq!(naps, [62, 62, 62, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(rules.nap(0, SimDuration::ZERO), SimDuration::from_millis(10));
        assert_eq!(rules.nap(u32::MAX, SimDuration::from_secs(1600)), SimDuration::from_secs(100));
        let even = ComputingRules { first_nap: short, ..rules };
        assert_eq!(even.nap(9, SimDuration::from_secs(1600)), short, "as an experiment says");
    }
}
