//! One worker's way through the rounds.
//!
//! Each round: the barrier, what arrived by mail, the list of due hosts, running and stealing, handing over mail. A worker
//! touches a host only to deliver to it (its home worker, before the round's list is published) or to run it (whoever claimed
//! it, after), so the lock on a host is never waited for.

use crate::barrier::SPINS;
use crate::engine::{Policy, WindowEnd};
use crate::error::Error;
use crate::host::{Host, Progress, Worker};
use crate::index::{DueIndex, NEVER, Nanos};
use crate::mailbox::{Parcel, Ran};
use crate::outbox::Outbox;
use crate::shared::Shared;
use crate::stats::{Totals, WindowCosts, WorkerStats};
use crate::sync::lock;
use crate::waiting::Holder;
use crate::worklist::Claim;
use base::wall::WallClock;
use base::{HostId, SimTime};
use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What a worker brings home.
#[derive(Clone, Copy, Debug)]
pub struct WorkerEnd {
    pub stats: WorkerStats,
    pub halted: bool,
    /// The start of the last window that ran, ns.
    pub last_window: Nanos,
}

pub struct WorkerLoop<'a, H: Host> {
    id: usize,
    shared: &'a Shared<'a, H>,
    index: DueIndex,
    outbox: Outbox<H::Message>,
    /// Per sender, what its parcel held when the round began.
    inbox: Vec<Parcel<H::Message>>,
    due: Vec<u32>,
    /// Per own host, what its last window cost; empty where nobody asks.
    costs: Vec<u64>,
    /// Own hosts that wait for what another worker has, where hosts stay with their workers.
    kept_back: Vec<u32>,
    /// The earliest event of the hosts run in this round.
    ran_earliest: Nanos,
    /// The host whose code runs, for the report of a panic.
    current: Option<HostId>,
    stats: WorkerStats,
    window: WindowCosts,
    lap: Lap,
}

impl<'a, H: Host> WorkerLoop<'a, H> {
    pub fn new(id: usize, shared: &'a Shared<'a, H>) -> Self {
        let workers = shared.workers();
        let own = shared.ids.iter().skip(id).step_by(workers).map(|host| shared.reach[host.index()]);
        let costs = if shared.policy == Policy::StealLongest { own.len() } else { 0 };
        WorkerLoop {
            id,
            shared,
            index: DueIndex::new(own.map(|reach| reach.lookahead)),
            outbox: Outbox::new(shared.reach.clone(), workers + shared.ranks()),
            inbox: (0..workers).map(|_| Parcel::new()).collect(),
            due: Vec::new(),
            costs: vec![0; costs],
            kept_back: Vec::new(),
            ran_earliest: NEVER,
            current: None,
            stats: WorkerStats::default(),
            window: WindowCosts::default(),
            lap: Lap { clock: WallClock::start(), marked: Duration::ZERO },
        }
    }

    /// Creates the worker's state and works until the run ends. Never panics: a panic inside ends the run for all workers.
    pub fn run(
        mut self,
        setup: &dyn Fn(usize) -> Result<H::Worker, String>,
        mut on_window: Option<&mut dyn FnMut(&WindowEnd)>,
    ) -> WorkerEnd {
        let mut state = self.guarded(|this| match setup(this.id) {
            Ok(state) => Some(state),
            Err(reason) => {
                this.shared.fail(Error::WorkerSetup { worker: this.id, reason });
                None
            }
        });
        let mut next = self.guarded(|this| this.load_index()).unwrap_or(NEVER);
        let mut last_window = 0;
        for round in 0.. {
            self.shared.report(self.id, round, next, self.totals());
            let ending = self.lap.mark();
            let shared = self.shared;
            shared.barrier.meet(|| {
                self.guarded(|_| {
                    shared.agree_with_peers(round);
                    Some(())
                });
            });
            self.window = WindowCosts { ending, waiting: self.lap.mark(), ..WindowCosts::default() };
            let agreement = self.shared.agreement(round);
            if let Some(on_window) = on_window.as_mut() {
                let complete_until = SimTime::from_nanos(agreement.start.min(self.shared.stop_time));
                let end = WindowEnd { windows: round, complete_until, totals: self.shared.totals(round) };
                self.guarded(|_| {
                    on_window(&end);
                    Some(())
                });
                self.window.callback = self.lap.mark();
            }
            let Some(state) = state.as_mut().filter(|_| !agreement.halt && agreement.start < self.shared.stop_time)
            else {
                return WorkerEnd { stats: self.stats, halted: agreement.halt, last_window };
            };
            last_window = agreement.start;
            next = self.guarded(|this| Some(this.round(round, agreement.start, state))).unwrap_or(NEVER);
        }
        unreachable!("rounds have no last number")
    }

    /// Runs `part`; a panic in it becomes the run's error.
    fn guarded<T>(&mut self, part: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| part(self))) {
            Ok(value) => value,
            Err(payload) => {
                let message = panic_message(payload.as_ref());
                self.shared.fail(Error::Panic { worker: self.id, host: self.current.take(), message });
                None
            }
        }
    }

    fn load_index(&mut self) -> Option<Nanos> {
        let workers = self.shared.workers();
        for place in (self.id..self.shared.slots.len()).step_by(workers) {
            self.current = Some(self.shared.ids[place]);
            let next = lock(&self.shared.slots[place]).host.next_event();
            self.index.set(place / workers, self.event_time(next));
        }
        self.current = None;
        Some(self.index.earliest())
    }

    /// One window, and the earliest event that this worker knows of after it.
    fn round(&mut self, round: u64, start: Nanos, state: &mut H::Worker) -> Nanos {
        if round > 0 {
            self.collect_mail(round - 1);
        }
        let others = self.list_due(round, start);
        self.window.delivering = self.lap.mark();
        self.run_due(round, start, state);
        self.hand_over(round);
        self.window.delivering += self.lap.mark();
        self.stats.add(&self.window);
        state.window_ended(round, SimTime::from_nanos(start), &self.window);
        others.min(self.ran_earliest).min(self.outbox.earliest_arrival())
    }

    /// Takes in what was handed over in `round`: first what became of the own hosts, then their messages.
    fn collect_mail(&mut self, round: u64) {
        let workers = self.shared.workers();
        for (from, parcel) in self.inbox.iter_mut().enumerate() {
            if from == self.id {
                std::mem::swap(parcel, &mut self.outbox.parcels[from]);
            } else {
                std::mem::swap(parcel, &mut self.shared.mailboxes.between(from, self.id, round));
            }
            for ran in parcel.ran.drain(..) {
                let place = ran.place as usize / workers;
                self.index.set(place, ran.next);
                if let Some(cost) = self.costs.get_mut(place) {
                    *cost = ran.cost;
                }
            }
        }
        if self.shared.peers.is_some() {
            self.inbox[self.id].messages.append(&mut lock(&self.shared.foreign[self.id]));
        }
        for parcel in &mut self.inbox {
            for envelope in parcel.messages.drain(..) {
                let to = self.shared.reach[envelope.to.index()].place as usize;
                self.current = Some(envelope.to);
                let arrival = SimTime::from_nanos(envelope.arrival);
                let mut slot = lock(&self.shared.slots[to]);
                slot.host.deliver(arrival, envelope.from, envelope.sequence, envelope.message);
                if envelope.arrival < self.shared.stop_time {
                    self.index.lower(to / workers, envelope.arrival);
                }
            }
        }
        self.current = None;
    }

    /// Publishes the own hosts that are due; returns the earliest event of those that are not.
    fn list_due(&mut self, round: u64, start: Nanos) -> Nanos {
        let (id, workers, due) = (self.id, self.shared.workers(), &mut self.due);
        due.clear();
        let others = self.index.due(start, |local| due.push((local * workers + id) as u32));
        if self.shared.policy == Policy::StealLongest {
            // Stable: equals stay in their order.
            due.sort_by_key(|host| std::cmp::Reverse(self.costs[*host as usize / workers]));
        }
        self.shared.lists[id].publish(round, due);
        others
    }

    fn run_due(&mut self, round: u64, start: Nanos, state: &mut H::Worker) {
        self.outbox.begin_window(start);
        self.ran_earliest = NEVER;
        while let Claim::Entry(host) = self.shared.lists[self.id].claim(round) {
            self.run_host(host, start, state);
            self.run_waiting(start, state);
        }
        self.window.running = self.lap.mark();
        if self.shared.policy.steals() {
            self.steal(round, start, state);
        }
        self.finish_waiting(start, state);
        self.window.stealing = self.lap.mark();
    }

    /// Runs the hosts that wait, if this worker can have what they need.
    fn run_waiting(&mut self, start: Nanos, state: &mut H::Worker) {
        let shared = self.shared;
        shared.waiting.run(&mut InRound { worker: self, start, state });
    }

    /// The last of a round: nothing waits any more, or waits for a worker that will look again.
    fn finish_waiting(&mut self, start: Nanos, state: &mut H::Worker) {
        for host in std::mem::take(&mut self.kept_back) {
            while !state.take_exclusive() {
                if self.shared.has_failed() {
                    return;
                }
                std::thread::yield_now();
            }
            self.run_host(host, start, state);
        }
        let shared = self.shared;
        shared.waiting.finish(&mut InRound { worker: self, start, state });
    }

    /// Leaves a host to whoever can have what it needs.
    fn leave_waiting(&mut self, host: u32) {
        if self.shared.policy.steals() {
            self.shared.waiting.push(host);
        } else {
            self.kept_back.push(host);
        }
    }

    /// Runs hosts that nobody has begun until all lists are taken. A worker that is late with its list is waited for as long as
    /// a barrier spins.
    fn steal(&mut self, round: u64, start: Nanos, state: &mut H::Worker) {
        let workers = self.shared.workers();
        for _ in 0..SPINS {
            let mut late = false;
            for victim in (self.id + 1..workers).chain(0..self.id) {
                loop {
                    match self.shared.lists[victim].claim(round) {
                        Claim::Entry(host) => {
                            self.run_host(host, start, state);
                            self.run_waiting(start, state);
                        }
                        Claim::Empty => break,
                        Claim::NotYet => {
                            late = true;
                            break;
                        }
                    }
                }
            }
            if !late {
                return;
            }
            spin_loop();
        }
    }

    fn run_host(&mut self, host: u32, start: Nanos, state: &mut H::Worker) {
        let id = self.shared.ids[host as usize];
        let reach = self.shared.reach[id.index()];
        let horizon = (start + reach.lookahead).min(self.shared.stop_time);
        let mut slot = lock(&self.shared.slots[host as usize]);
        if slot.host.expects_exclusive() && !state.take_exclusive() {
            drop(slot);
            return self.leave_waiting(host);
        }
        self.current = Some(id);
        self.outbox.begin_host(id, slot.sent);
        let progress = slot.host.run_until(SimTime::from_nanos(horizon), &mut self.outbox, state);
        slot.sent = self.outbox.sequence();
        if progress == Progress::Waits {
            drop(slot);
            self.current = None;
            return self.leave_waiting(host);
        }
        let cost = slot.host.last_cost();
        let next = self.event_time(slot.host.next_event());
        assert!(next >= horizon, "{id} left an event at {next} ns undone, in a window up to {horizon} ns");
        drop(slot);
        self.current = None;
        self.ran_earliest = self.ran_earliest.min(next);
        self.outbox.parcels[reach.home as usize].ran.push(Ran { place: host, next, cost });
        self.window.hosts_run += 1;
        self.window.hosts_stolen += u64::from(reach.home as usize != self.id);
    }

    /// Gives each other worker its parcel, and each other rank its messages; the own parcel stays where it is.
    fn hand_over(&mut self, round: u64) {
        let workers = self.shared.workers();
        for (to, parcel) in self.outbox.parcels.iter_mut().enumerate() {
            if to >= workers {
                if let (Some(peers), false) = (self.shared.peers, parcel.messages.is_empty())
                    && let Err(reason) = peers.send(to - workers, &mut parcel.messages)
                {
                    self.shared.lose(reason);
                }
            } else if to != self.id {
                std::mem::swap(parcel, &mut self.shared.mailboxes.between(self.id, to, round));
            }
        }
        (self.stats.messages_sent, self.stats.messages_delayed) = self.outbox.counts();
    }

    /// What happens at or after the stop time never happens.
    fn event_time(&self, next: Option<SimTime>) -> Nanos {
        next.map(SimTime::as_nanos).filter(|next| *next < self.shared.stop_time).unwrap_or(NEVER)
    }

    fn totals(&self) -> Totals {
        Totals { hosts_run: self.stats.hosts_run, messages_sent: self.stats.messages_sent }
    }
}

/// A worker in the midst of a round.
struct InRound<'w, 'a, H: Host> {
    worker: &'w mut WorkerLoop<'a, H>,
    start: Nanos,
    state: &'w mut H::Worker,
}

impl<H: Host> Holder for InRound<'_, '_, H> {
    fn take(&mut self) -> bool {
        self.state.take_exclusive()
    }

    fn give_up(&mut self) {
        self.state.give_up_exclusive();
    }

    fn run(&mut self, host: u32) {
        self.worker.run_host(host, self.start, self.state);
    }
}

/// A stopwatch that gives the time since it was last asked.
struct Lap {
    clock: WallClock,
    marked: Duration,
}

impl Lap {
    fn mark(&mut self) -> Duration {
        let now = self.clock.elapsed();
        now.saturating_sub(std::mem::replace(&mut self.marked, now))
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    }
}
