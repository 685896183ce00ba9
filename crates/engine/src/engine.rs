//! Setting up and running an experiment's hosts.

use crate::barrier::{Barrier, SPINS};
use crate::error::Error;
use crate::host::Host;
use crate::index::{NEVER, TIME_LIMIT_NS};
use crate::peers::{Peers, Ranks};
use crate::shared::{Reach, Shared};
use crate::stats::{Totals, WorkerStats};
use crate::worker::{WorkerEnd, WorkerLoop};
use base::wall::WallClock;
use base::{HostId, SimDuration, SimTime};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The most workers that one run may have.
pub const MAX_WORKERS: usize = 1024;

/// No window is wider, however far away the other hosts are: window ends are where a run is watched and stopped.
const LONGEST_WINDOW: SimDuration = SimDuration::from_millis(100);

/// Which worker runs a host that is due. What happens does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Its home worker, or one that has run out of hosts and comes first.
    Steal,
    /// The same, and every worker's list begins with the hosts that cost most in their last windows ([`Host::last_cost`]): who has most to do does
    /// not begin when the others are done.
    #[default]
    StealLongest,
    /// Always its home worker: host number modulo the number of workers.
    Static,
    /// There is one worker, however many are asked for.
    Serial,
}

impl Policy {
    /// All of them, by the names that users know them by; the default comes first.
    pub const NAMES: [(&str, Policy); 4] = [
        ("steal-longest", Policy::StealLongest),
        ("steal", Policy::Steal),
        ("static", Policy::Static),
        ("serial", Policy::Serial),
    ];

    pub(crate) fn steals(self) -> bool {
        matches!(self, Policy::Steal | Policy::StealLongest)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// 1 to 1024. One worker runs on the calling thread, without others.
    pub workers: usize,
    pub policy: Policy,
    /// Events at this time and later do not happen. At most 2^62 ns (146 years); a later time means that one.
    pub stop_time: SimTime,
    /// Every window is at least this wide, up to 100 ms; see the crate's documentation for what that does to messages.
    pub runahead: Option<SimDuration>,
}

/// How a run ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing is left to happen before the stop time.
    Complete,
    /// The stop flag was set; the run ended with the window that was under way.
    Interrupted,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub ending: Ending,
    /// Why the other ranks of the run could not be reached any more, which interrupted it.
    pub lost: Option<String>,
    /// The start of the last window that ran.
    pub last_window: SimTime,
    /// In the order of the workers' numbers.
    pub workers: Vec<WorkerStats>,
}

/// The state of a run at a window's end.
#[derive(Clone, Copy, Debug)]
pub struct WindowEnd {
    /// Windows completed; 0 before the first.
    pub windows: u64,
    /// Everything before this time has happened (and some later things have).
    pub complete_until: SimTime,
    pub totals: Totals,
}

/// Hosts ready to run.
#[derive(Debug)]
pub struct Engine<H: Host> {
    config: Config,
    hosts: Vec<H>,
    ranks: Ranks,
    reach: Arc<[Reach]>,
}

impl<H: Host> Engine<H> {
    /// `hosts` in the order of their [`HostId`]s, with the smallest latency at which a message of any other host can reach each
    /// (`SimDuration::MAX` where none can).
    ///
    /// # Errors
    /// When the numbers disagree, a latency is zero without a `runahead`, or the number of workers is out of range.
    pub fn new(config: Config, hosts: Vec<H>, incoming_latencies: &[SimDuration]) -> Result<Self, Error> {
        let ranks = Ranks::alone(hosts.len());
        Engine::with_ranks(config, hosts, incoming_latencies, ranks)
    }

    /// The same for one of several ranks: `hosts` are those of this rank alone, the latencies those of all.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with_ranks(
        mut config: Config,
        hosts: Vec<H>,
        incoming_latencies: &[SimDuration],
        ranks: Ranks,
    ) -> Result<Self, Error> {
        if ranks.of_host.len() != incoming_latencies.len() || ranks.own_hosts().count() != hosts.len() {
            return Err(Error::LookaheadCount { hosts: hosts.len(), lookaheads: incoming_latencies.len() });
        }
        if !(1..=MAX_WORKERS).contains(&config.workers) {
            return Err(Error::Workers { asked: config.workers });
        }
        if config.policy == Policy::Serial {
            config.workers = 1;
        }
        let floor = config.runahead.unwrap_or_default().as_nanos().min(TIME_LIMIT_NS);
        let mut places = vec![0; ranks.count];
        let reach_of = |(index, latency): (usize, &SimDuration)| {
            let rank = ranks.of_host[index] as usize;
            let place = places[rank];
            places[rank] += 1;
            let home = if rank == ranks.own { place as usize % config.workers } else { config.workers + rank };
            let incoming_latency = latency.as_nanos().min(TIME_LIMIT_NS);
            match incoming_latency.max(floor).min(LONGEST_WINDOW.as_nanos()) {
                0 => Err(Error::ZeroLookahead { host: HostId(index as u32) }),
                lookahead => Ok(Reach { incoming_latency, lookahead, home: home as u32, place }),
            }
        };
        let reach = incoming_latencies.iter().enumerate().map(reach_of).collect::<Result<_, _>>()?;
        Ok(Engine { config, hosts, ranks, reach })
    }

    /// Runs until nothing is left to happen before the stop time, or until the end of the window in which `stop` is set.
    ///
    /// `setup` is called with each worker's number, on that worker's own thread; number 0 is the calling thread. `on_window` is
    /// called on the calling thread before the first window and after every window, while other workers may already be in the
    /// next one; what each worker did in [`window_ended`](crate::Worker::window_ended) is visible to it.
    ///
    /// The hosts come back in any case. After an error they are as the failed window left them.
    pub fn run(
        self,
        stop: &AtomicBool,
        setup: impl Fn(usize) -> Result<H::Worker, String> + Sync,
        on_window: impl FnMut(&WindowEnd),
    ) -> (Vec<H>, Result<Outcome, Error>) {
        self.run_with(stop, setup, on_window, None)
    }

    /// The same with the other ranks, if there are any. The hosts that come back are those of this rank.
    pub fn run_with(
        self,
        stop: &AtomicBool,
        setup: impl Fn(usize) -> Result<H::Worker, String> + Sync,
        mut on_window: impl FnMut(&WindowEnd),
        peers: Option<&dyn Peers<H::Message>>,
    ) -> (Vec<H>, Result<Outcome, Error>) {
        let Config { workers, policy, stop_time, .. } = self.config;
        let stop_time = stop_time.as_nanos().min(TIME_LIMIT_NS);
        let shared = Shared::new(self.hosts, self.reach, &self.ranks, peers, workers, policy, stop_time, stop);
        let ends = run_workers(&shared, &setup, &mut on_window);
        let (hosts, failure, lost) = shared.into_parts();
        let outcome = Outcome {
            ending: if ends[0].halted { Ending::Interrupted } else { Ending::Complete },
            lost,
            last_window: SimTime::from_nanos(ends[0].last_window),
            workers: ends.iter().map(|end| end.stats).collect(),
        };
        (hosts, failure.map_or(Ok(outcome), Err))
    }
}

/// What the end of a round costs two workers on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meeting {
    /// When both come at once.
    pub together: Duration,
    /// When the first has gone to sleep and must be woken.
    pub waking: Duration,
    /// How long the first waits before it sleeps.
    pub patience: Duration,
}

/// Tries it out, in some tenth of a second; zeroes where there is one processor.
pub fn cost_of_meeting() -> Meeting {
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return Meeting::default();
    }
    // Where other programs have the processors now and then, the least counts.
    const TRIES: u32 = 10;
    let once = |spins: u32, number: u32| {
        let barrier = Barrier::with_spins(2, spins);
        let meet = || (0..number).for_each(|_| barrier.meet(|| ()));
        let clock = WallClock::start();
        std::thread::scope(|scope| {
            scope.spawn(meet);
            meet();
        });
        clock.elapsed() / number
    };
    let wait = || {
        let clock = WallClock::start();
        (0..SPINS).for_each(|_| std::hint::spin_loop());
        clock.elapsed()
    };
    let least = |tried: &dyn Fn() -> Duration| (0..TRIES).map(|_| tried()).min().unwrap_or_default();
    Meeting {
        patience: least(&wait),
        together: least(&|| once(SPINS, 20_000 / TRIES)),
        waking: least(&|| once(0, 1_000 / TRIES)),
    }
}

/// Runs worker 0 on this thread and the others on their own.
fn run_workers<H: Host>(
    shared: &Shared<'_, H>,
    setup: &(impl Fn(usize) -> Result<H::Worker, String> + Sync),
    on_window: &mut dyn FnMut(&WindowEnd),
) -> Vec<WorkerEnd> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for id in 1..shared.workers() {
            let thread = std::thread::Builder::new().name(format!("worker-{id}"));
            match thread.spawn_scoped(scope, move || WorkerLoop::new(id, shared).run(setup, None)) {
                Ok(thread) => threads.push(thread),
                Err(reason) => {
                    shared.fail(Error::Spawn { worker: id, reason: reason.to_string() });
                    stand_in(shared, id);
                }
            }
        }
        let mut ends = vec![WorkerLoop::new(0, shared).run(setup, Some(on_window))];
        ends.extend(threads.into_iter().map(|thread| thread.join().expect("workers do not panic")));
        ends
    })
}

/// Does for a worker without a thread what the others wait for: it reports the failure at the first barrier.
fn stand_in<H: Host>(shared: &Shared<'_, H>, id: usize) {
    shared.report(id, 0, NEVER, Totals::default());
    shared.barrier.arrive();
}
