//! Says what a run waits for when no round comes to its end, and ends a run that cannot be stopped any other way.
//!
//! A thread of its own looks at the wall time since the last round. It reads what workers say of themselves, and asks their threads by
//! a signal where they execute: whoever stands still cannot be asked for more.

use super::accounting::{Activity, Doing, Workers};
use base::SimTime;
use base::wall::WallClock;
use guest::GuestProbe;
use scenario::Plan;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use symbols::{Frame, PlacedFile, Program};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(100);
/// How long a worker has to say where it is.
const ANSWER: Duration = Duration::from_millis(500);
/// A run that was asked to stop, and has not come to the end of a round since, is ended after this time, unless it
/// waits for other processes.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many times as long a run that counts instructions may stand still.
const STEPS_PATIENCE: u32 = 60;

/// The heartbeat of a run.
#[derive(Debug, Default)]
pub struct Pulse {
    rounds: AtomicU64,
    complete_until_ns: AtomicU64,
    /// All that it waits for is other processes of the run.
    waits_for_others: AtomicBool,
    ended: AtomicBool,
}

impl Pulse {
    /// Whether this process waits for others from now on, whose patience with them (`Link::exchange`) is another.
    pub fn wait_for_others(&self, waits: bool) {
        self.waits_for_others.store(waits, Ordering::Relaxed);
    }
}

/// The thread that watches one run.
#[derive(Debug)]
pub struct Watch {
    pulse: Arc<Pulse>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// `abandon` ends the process at once; it is called when the run has been asked to end and does not. With `counts_steps` programs
    /// are some thousand times slower, and an interval of a second's computing is no standstill.
    pub fn start(plan: &Plan, workers: Workers, counts_steps: bool, abandon: fn()) -> Watch {
        let patience = if counts_steps { STEPS_PATIENCE } else { 1 };
        let pulse = Arc::new(Pulse::default());
        let watcher = Watcher {
            pulse: pulse.clone(),
            workers,
            hosts: plan.hosts.iter().map(|host| host.name.clone()).collect(),
            after: plan.experimental.standstill_after.map(|time| patience * Duration::from_nanos(time.as_nanos())),
            abandon,
        };
        // Without the thread nobody is told anything; the run is none the worse.
        let thread = std::thread::Builder::new().name("standstill".to_owned()).spawn(move || watcher.watch()).ok();
        Watch { pulse, thread }
    }

    /// For those who know more of what the run waits for.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// A round has ended.
    pub fn beat(&self, complete_until: SimTime) {
        self.pulse.complete_until_ns.store(complete_until.as_nanos(), Ordering::Relaxed);
        self.pulse.rounds.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.pulse.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Nor does a short run wait for its next look.
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Watcher {
    pulse: Arc<Pulse>,
    workers: Workers,
    hosts: Vec<String>,
    after: Option<Duration>,
    abandon: fn(),
}

impl Watcher {
    fn watch(&self) {
        let (mut rounds, mut since) = (0, WallClock::start());
        let mut tell_after = self.after;
        let mut stopping: Option<WallClock> = None;
        while !self.pulse.ended.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK);
            let now = self.pulse.rounds.load(Ordering::Relaxed);
            if now != rounds {
                if tell_after != self.after {
                    tell(&format!("the run goes on after {} s", since.elapsed().as_secs()));
                }
                (rounds, since, tell_after) = (now, WallClock::start(), self.after);
                stopping = None;
            }
            if self.pulse.waits_for_others.load(Ordering::Relaxed) {
                stopping = None;
            } else if guest::is_ending() {
                let clock = stopping.get_or_insert_with(WallClock::start);
                if clock.elapsed() >= PATIENCE {
                    let seconds = PATIENCE.as_secs();
                    tell(&format!("the run does not stop within {seconds} s and is ended\n{}", self.describe()));
                    (self.abandon)();
                }
            }
            if tell_after.is_some_and(|after| since.elapsed() >= after) {
                let seconds = since.elapsed().as_secs_f64();
                tell(&format!("no progress for {seconds:.0} s\n{}", self.describe()));
                tell_after = tell_after.map(|after| after.saturating_mul(2));
            }
        }
    }

    /// What each worker does that does not wait for others.
    fn describe(&self) -> String {
        let simulated = SimTime::from_nanos(self.pulse.complete_until_ns.load(Ordering::Relaxed));
        let mut text = format!("  simulated time {simulated}");
        let workers = self.workers.lock();
        if workers.is_empty() {
            text += "; the run is being set up";
        } else if !workers.iter().any(|(probe, activity)| executes(probe, activity)) {
            text += "; no worker executes a host";
        }
        for (index, (probe, activity)) in workers.iter().enumerate() {
            if !executes(probe, activity) {
                continue;
            }
            let what = match (probe.is_in_guest(), activity.get()) {
                (true, _) => "program",
                (false, Doing::Stack) => "network stack",
                (false, _) => "simulated kernel",
            };
            let [host, process, thread] = probe.serving();
            let host = self.hosts.get(host as usize).map_or("?", String::as_str);
            let _ = write!(text, "\n  worker {index}: host {host}, process {process}, thread {thread}: in the {what}");
            let asked = probe.seen_at().1;
            probe.ask();
            let clock = WallClock::start();
            while probe.seen_at().1 == asked && clock.elapsed() < ANSWER {
                std::thread::sleep(Duration::from_millis(1));
            }
            match probe.seen_at() {
                (_, answers) if answers == asked => text += ", in a call of the real kernel that does not return",
                (address, _) => text += &place(address),
            }
        }
        text
    }
}

fn executes(probe: &GuestProbe, activity: &Activity) -> bool {
    activity.get() != Doing::Engine || probe.is_in_guest()
}

/// An address in words that follow what executes.
fn place(address: u64) -> String {
    let mut text = format!(" at {address:#x}");
    let Some(found) = guest::whereabouts(address) else { return text };
    let name = found.path.display().to_string();
    let range = found.address..found.address + 1;
    let mut program = Program::new(vec![PlacedFile { path: found.path, name, range, bias: found.bias }]);
    let place = program.place(&Frame { address: found.address, is_return: false });
    if let Some(function) = place.function {
        let _ = write!(text, ", {}+{:#x}", function.name, function.offset);
    }
    if let Some(line) = place.lines.first()
        && let (Some(file), Some(line)) = (&line.file, line.line)
    {
        let _ = write!(text, ", {file}:{line}");
    }
    if let Some((file, at)) = place.file {
        let _ = write!(text, " ({file}+{at:#x})");
    }
    text
}

/// Standard error: the log is written at the end of rounds.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "gnomon: {text}");
}
