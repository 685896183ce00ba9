//! PHOLD, the field's synthetic load: a fixed number of balls, each of which waits a random time at a host and then travels to a
//! random host. Each host folds what it handles, in the order in which it does, into a digest.

use base::{HostId, Rng, SeedTree, SimDuration, SimTime};
use engine::{Config, Engine, EventKey, EventQueue, Host, Outbox, Outcome};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
}

impl Plan {
    pub fn latency(&self, from: HostId, to: HostId) -> SimDuration {
        let mix = (u64::from(from.0) * 0x9e37_79b9 + u64::from(to.0) * 0x85eb_ca6b) % self.spread.max(1);
        self.incoming[to.index()].saturating_add(SimDuration::from_nanos(mix / self.grain * self.grain))
    }
}

pub struct Phold {
    plan: Arc<Plan>,
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
    type Worker = ();

    fn next_event(&self) -> Option<SimTime> {
        self.queue.next_time()
    }

    fn deliver(&mut self, arrival: SimTime, from: HostId, sequence: u64, ball: u64) {
        self.queue.push(EventKey { time: arrival, class: ARRIVAL, source: from, sequence }, ball);
    }

    fn run_until(&mut self, horizon: SimTime, outbox: &mut Outbox<u64>, _: &mut ()) {
        while let Some(event) = self.queue.pop_before(horizon) {
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
    }
}

/// Runs the plan; the hosts in the end, and how it went.
pub fn run(plan: &Arc<Plan>, seed: u64, config: Config) -> (Vec<Phold>, Outcome) {
    let hosts = (0..plan.hosts).map(|id| Phold::new(plan, HostId(id), seed)).collect();
    let engine = Engine::new(config, hosts, &plan.incoming).expect("a sound configuration");
    let (hosts, outcome) = engine.run(&AtomicBool::new(false), |_| Ok(()), |_| ());
    (hosts, outcome.expect("no failure"))
}
