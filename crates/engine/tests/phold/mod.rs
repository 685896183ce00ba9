//! PHOLD, the field's synthetic load: a fixed number of balls, each of which waits a random time at a host and then travels to a
//! random host. Each host folds what it handles, in the order in which it does, into a digest.

use base::{HostId, Rng, SeedTree, SimDuration, SimTime};
use engine::{Config, Engine, EventKey, EventQueue, Host, Outbox, Outcome, Progress, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub const TIMER: u8 = 0;
pub const ARRIVAL: u8 = 1;

/// What all hosts of one experiment share.
#[derive(Debug)]
pub struct Plan {
    pub hosts: u32,
    pub balls_per_host: u32,
    /// Smallest latency to each host.
    pub incoming: Vec<SimDuration>,
    /// A link's latency exceeds the target's smallest by up to this, by a function of both ends.
    pub spread: u64,
    /// Waits and latencies are multiples of this, ns: a coarse one makes many events of one moment.
    pub grain: u64,
    /// Mean wait at a host, ns.
    pub wait: u64,
    /// Multiply-adds per event, in place of work.
    pub work: u32,
    /// Of so many hosts one needs what one worker at a time can have, for every other ball; 0: none does.
    pub exclusive_of: u32,
}

impl Plan {
    pub fn latency(&self, from: HostId, to: HostId) -> SimDuration {
        let mix = (u64::from(from.0) * 0x9e37_79b9 + u64::from(to.0) * 0x85eb_ca6b) % self.spread.max(1);
        self.incoming[to.index()].saturating_add(SimDuration::from_nanos(mix / self.grain * self.grain))
    }
}

/// What a worker lends: here, the thing that one worker at a time can have.
pub struct Token {
    pub holder: Arc<AtomicUsize>,
    /// Counted from 1.
    pub worker: usize,
}

impl Worker for Token {
    fn take_exclusive(&mut self) -> bool {
        match self.holder.compare_exchange(0, self.worker, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => true,
            Err(holder) => holder == self.worker,
        }
    }

    fn give_up_exclusive(&mut self) {
        let _ = self.holder.compare_exchange(self.worker, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

pub struct Phold {
    plan: Arc<Plan>,
    /// The ball that waits for what another worker had.
    interrupted: Option<engine::Event<u64>>,
    used_exclusive: bool,
    id: HostId,
    rng: Rng,
    queue: EventQueue<u64>,
    pub digest: u64,
    pub handled: u64,
}

impl Phold {
    pub fn new(plan: &Arc<Plan>, id: HostId, seed: u64) -> Self {
        let mut host = Phold {
            plan: plan.clone(),
            interrupted: None,
            used_exclusive: false,
            id,
            rng: SeedTree::new(seed).stream(&id.to_string(), "phold"),
            queue: EventQueue::new(id),
            digest: 0,
            handled: 0,
        };
        for ball in 0..plan.balls_per_host {
            let wait = host.wait();
            host.queue.schedule(SimTime::ZERO + wait, TIMER, u64::from(id.0) << 32 | u64::from(ball));
        }
        host
    }

    fn is_exclusive(&self) -> bool {
        self.plan.exclusive_of > 0 && self.id.0.is_multiple_of(self.plan.exclusive_of)
    }

    fn wait(&mut self) -> SimDuration {
        SimDuration::from_nanos(self.rng.below(2 * self.plan.wait) / self.plan.grain * self.plan.grain)
    }

    fn fold(&mut self, key: EventKey, ball: u64) {
        for word in [key.time.as_nanos(), u64::from(key.class), u64::from(key.source.0), key.sequence, ball] {
            self.digest = (self.digest ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        for _ in 0..self.plan.work {
            self.digest = std::hint::black_box(self.digest.wrapping_mul(3).wrapping_add(1));
        }
        self.handled += 1;
    }
}

impl Host for Phold {
    type Message = u64;
    type Worker = Token;

    fn next_event(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    fn deliver(&mut self, arrival: SimTime, from: HostId, sequence: u64, ball: u64) {
        self.queue.push(EventKey { time: arrival, class: ARRIVAL, source: from, sequence }, ball);
    }

    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<u64>, worker: &mut Token) -> Progress {
        self.used_exclusive = self.interrupted.is_some();
        while let Some(event) = self.interrupted.take().or_else(|| self.queue.pop_before(horizon)) {
            if self.is_exclusive() && event.event % 2 == 0 {
                if !worker.take_exclusive() {
                    self.interrupted = Some(event);
                    return Progress::Waits;
                }
                self.used_exclusive = true;
                assert_eq!(worker.holder.load(Ordering::SeqCst), worker.worker, "it is this worker's");
            }
            self.fold(event.key, event.event);
            let now = event.key.time;
            if event.key.class == ARRIVAL {
                let wait = self.wait();
                self.queue.schedule(now + wait, TIMER, event.event);
                continue;
            }
            let to = HostId(self.rng.below(u64::from(self.plan.hosts)) as u32);
            if to == self.id {
                self.queue.schedule(now + SimDuration::from_nanos(self.plan.grain), TIMER, event.event);
            } else {
                outbox.send(to, now + self.plan.latency(self.id, to), event.event);
            }
        }
        Progress::Done
    }

    fn expects_exclusive(&self) -> bool {
        self.used_exclusive
    }

    fn last_cost(&self) -> u64 {
        self.handled % 7
    }
}

/// Runs the plan; the hosts in the end, and how it went.
pub fn run(plan: &Arc<Plan>, seed: u64, config: Config) -> (Vec<Phold>, Outcome) {
    let hosts = (0..plan.hosts).map(|id| Phold::new(plan, HostId(id), seed)).collect();
    let holder = Arc::new(AtomicUsize::new(0));
    let engine = Engine::new(config, hosts, &plan.incoming).expect("a sound configuration");
    let (hosts, outcome) =
        engine.run(&AtomicBool::new(false), |worker| Ok(Token { holder: holder.clone(), worker: worker + 1 }), |_| ());
    assert_eq!(holder.load(Ordering::SeqCst), 0, "given up in the end");
    (hosts, outcome.expect("no failure"))
}
