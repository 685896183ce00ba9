//! How long a run with one worker would have taken with more: each window's hosts, with what each took, are dealt out again as the
//! engine deals them.
//!
//! All of it is the processor time of the worker's thread, so that other programs of the machine are not in it.
//!
//! A schedule on paper knows what one processor after the other would do, and what meeting costs; it does not know what processors
//! take from each other in caches and memory.

use engine::{Meeting, Policy, WindowCosts};
use guest::{Stopwatch, thread_time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// The numbers of workers that are forecast.
pub const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What taking a host from a list costs beside running it, in nanoseconds: one atomic addition, and a lock that nobody holds.
const CLAIM: u64 = 40;

/// A host that ran in a window.
#[derive(Clone, Copy, Debug)]
struct Ran {
    host: u32,
    nanos: u64,
    /// Needed what one worker at a time can have.
    is_exclusive: bool,
}

/// The schedules of one run.
#[derive(Debug)]
pub struct Forecast {
    policy: Policy,
    meeting: Meeting,
    /// The thread's time since which the window counts, and what all windows have taken, this reckoning included.
    since: Duration,
    inside: Duration,
    /// What it takes to begin and to end a host's measurement.
    of_measuring: Duration,
    /// What the host that runs takes of the processor; other clocks would trap.
    running: Option<Stopwatch>,
    window: Vec<Ran>,
    /// By host, what its last window took, for the policy that orders by it.
    last: Vec<u64>,
    /// By number of workers, the time of all windows so far.
    spent: [u64; WORKERS.len()],
}

impl Forecast {
    /// Tries out what meetings cost here.
    pub fn new(policy: Policy, hosts: usize) -> Forecast {
        let began = thread_time();
        let meeting = engine::cost_of_meeting();
        let of_measuring = cost_of_measuring();
        let inside = thread_time() - began;
        Forecast { inside, of_measuring, ..Forecast::with_meeting(policy, hosts, meeting) }
    }

    fn with_meeting(policy: Policy, hosts: usize, meeting: Meeting) -> Forecast {
        Forecast {
            policy,
            meeting,
            since: Duration::ZERO,
            inside: Duration::ZERO,
            of_measuring: Duration::ZERO,
            running: None,
            window: Vec::new(),
            last: vec![0; hosts],
            spent: [0; WORKERS.len()],
        }
    }

    /// A host begins to run.
    pub fn begin(&mut self) {
        if self.since.is_zero() {
            self.since = thread_time();
        }
        self.running = Some(Stopwatch::start());
    }

    /// It has run, or cannot go on.
    pub fn end(&mut self, host: base::HostId, is_exclusive: bool) {
        let nanos = self.running.take().map_or(0, |running| running.read().as_nanos() as u64);
        self.window.push(Ran { host: host.0, nanos, is_exclusive });
    }

    /// All hosts of the window have run.
    pub fn window_ended(&mut self, costs: &WindowCosts) {
        let now = thread_time();
        let began = if self.since.is_zero() { now } else { std::mem::replace(&mut self.since, now) };
        let measured = self.window.iter().map(|ran| Duration::from_nanos(ran.nanos)).sum::<Duration>();
        let rest = (now - began).saturating_sub(measured + self.of_measuring * self.window.len() as u32);
        // Messages, lists and records are each worker's own; one worker writes the log and tables, while the others wait for it. Of the
        // parts, only the time that passed is known.
        let (own, alone) = (costs.delivering + costs.ending, costs.callback);
        let share = if alone.is_zero() { 0.0 } else { alone.div_duration_f64(own + alone) };
        let alone = rest.mul_f64(share);
        self.reckon(rest - alone, alone);
        self.since = thread_time();
        self.inside += self.since - began;
    }

    /// Deals the window's hosts out. `shared` is what workers have each a part of, beside hosts; `alone` what one does.
    fn reckon(&mut self, shared: Duration, alone: Duration) {
        if self.policy == Policy::StealLongest {
            self.window.sort_by_key(|ran| Reverse(self.last[ran.host as usize]));
        } else {
            self.window.sort_by_key(|ran| ran.host);
        }
        let (shared, alone) = (shared.as_nanos() as u64, alone.as_nanos() as u64);
        for (spent, workers) in self.spent.iter_mut().zip(WORKERS) {
            let (end, idle) = schedule(&self.window, workers, self.policy);
            let meeting = if workers > 1 { meet(&self.meeting, workers, idle) } else { 0 };
            *spent += end + shared / workers as u64 + alone + meeting;
        }
        for ran in self.window.drain(..) {
            self.last[ran.host as usize] = ran.nanos;
        }
    }

    /// What all windows have taken of the thread's time, and reckoning.
    pub fn inside(&self) -> Duration {
        self.inside
    }

    /// (workers, the time that all windows would have taken).
    pub fn results(&self) -> impl Iterator<Item = (usize, Duration)> + '_ {
        WORKERS.into_iter().zip(self.spent.map(Duration::from_nanos))
    }
}

/// One reading of a thread's clock for the beginning and one for the end.
fn cost_of_measuring() -> Duration {
    const TRIED: u32 = 1_000;
    let began = thread_time();
    for _ in 0..TRIED {
        std::hint::black_box(Stopwatch::start().read());
    }
    (thread_time() - began) / TRIED
}

/// What a meeting costs after which the first to come had nothing to do for so long.
fn meet(meeting: &Meeting, workers: usize, idle: u64) -> u64 {
    // Whoever arrives takes the counter's line from who came before.
    let together = meeting.together.as_nanos() as u64 * workers as u64 / 2;
    if idle > meeting.patience.as_nanos() as u64 { together + meeting.waking.as_nanos() as u64 } else { together }
}

/// When the last worker is done with a window's hosts, and how long before that the first is.
fn schedule(window: &[Ran], workers: usize, policy: Policy) -> (u64, u64) {
    if workers == 1 {
        return (window.iter().map(|ran| ran.nanos + CLAIM).sum(), 0);
    }
    let mut lists: Vec<Vec<u64>> = vec![Vec::new(); workers];
    // Hosts that exclude each other run one after the other, on the worker that comes first.
    let mut exclusive: Option<(usize, usize)> = None;
    for ran in window {
        let home = ran.host as usize % workers;
        match exclusive {
            Some((home, place)) if ran.is_exclusive => lists[home][place] += ran.nanos + CLAIM,
            _ => {
                if ran.is_exclusive {
                    exclusive = Some((home, lists[home].len()));
                }
                lists[home].push(ran.nanos + CLAIM);
            }
        }
    }
    if !matches!(policy, Policy::Steal | Policy::StealLongest) {
        let ends = || lists.iter().map(|list| list.iter().sum::<u64>());
        let end = ends().max().unwrap_or(0);
        return (end, end - ends().min().unwrap_or(0));
    }
    let mut left: usize = lists.iter().map(Vec::len).sum();
    let mut taken = vec![0; workers];
    let mut free: BinaryHeap<Reverse<(u64, usize)>> = (0..workers).map(|worker| Reverse((0, worker))).collect();
    let mut end = 0;
    while left > 0 {
        let Some(Reverse((at, worker))) = free.pop() else { break };
        let mut order = (worker..workers).chain(0..worker);
        let Some(victim) = order.find(|victim| taken[*victim] < lists[*victim].len()) else { break };
        let done = at + lists[victim][taken[victim]];
        taken[victim] += 1;
        left -= 1;
        end = end.max(done);
        free.push(Reverse((done, worker)));
    }
    let first = free.peek().map_or(end, |Reverse((at, _))| *at);
    (end, end - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(costs: &[u64]) -> Vec<Ran> {
        let host = |(host, nanos): (usize, &u64)| Ran { host: host as u32, nanos: nanos - CLAIM, is_exclusive: false };
        costs.iter().enumerate().map(host).collect()
    }

    #[test]
    fn idle_workers_take_what_is_left() {
        let window = ran(&[1000, 100, 1000, 100, 1000, 100]);
        assert_eq!(schedule(&window, 1, Policy::Steal), (3300, 0));
        assert_eq!(schedule(&window, 2, Policy::Static), (3000, 2700));
        // The second is through its own at 300 and takes the others' second; at 1000 the first takes the third.
        assert_eq!(schedule(&window, 2, Policy::Steal), (2000, 700));
        assert_eq!(schedule(&window, 64, Policy::Steal), (1000, 1000));
    }

    #[test]
    fn hosts_that_exclude_each_other_follow_one_another() {
        let mut window = ran(&[1000, 1000, 1000, 1000]);
        window[0].is_exclusive = true;
        window[3].is_exclusive = true;
        assert_eq!(schedule(&window, 4, Policy::Steal).0, 2000);
        assert_eq!(schedule(&window, 4, Policy::Static).0, 2000);
    }

    #[test]
    fn meetings_cost_more_the_more_come_and_more_when_somebody_sleeps() {
        let of = |nanos| Duration::from_nanos(nanos);
        let meeting = Meeting { together: of(100), waking: of(5000), patience: of(999) };
        let mut forecast = Forecast::with_meeting(Policy::Steal, 2, meeting);
        forecast.window = ran(&[1000, 1000]);
        forecast.reckon(of(640), of(7));
        let results: Vec<(usize, u64)> =
            forecast.results().map(|(workers, spent)| (workers, spent.as_nanos() as u64)).collect();
        assert_eq!(results[0], (1, 2647));
        assert_eq!(results[1], (2, 1000 + 320 + 7 + 100));
        assert_eq!(results[6], (64, 1000 + 10 + 7 + 3200 + 5000));
    }

    #[test]
    fn time_that_passes_without_the_processor_costs_nothing() {
        let mut forecast = Forecast::with_meeting(Policy::Steal, 2, Meeting::default());
        let sleep = || std::thread::sleep(Duration::from_millis(30));
        for _ in 0..3 {
            forecast.begin();
            sleep();
            forecast.end(base::HostId(0), false);
            sleep();
            let passed = Duration::from_millis(30);
            forecast.window_ended(&WindowCosts { delivering: passed, callback: passed, ..WindowCosts::default() });
        }
        let (_, one) = forecast.results().next().expect("one worker");
        assert!(one < Duration::from_millis(20) && one <= forecast.inside() * 2, "{one:?} of 180 ms");
    }
}
