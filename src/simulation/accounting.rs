//! What a run costs: processor time by what it is spent on, and the machine's memory, both sampled by a thread of their own.
//!
//! Workers say what they do with one plain store (`Activity`); guests are recognised by the switch's own mark. Nobody reads a clock on
//! the way of a system call for it.

use base::wall::WallClock;
use guest::GuestProbe;
use recorder::stats::{CpuStats, MemoryStats};
use recorder::{MemInfo, ProcessUsage};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a worker does when it does not execute a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Doing {
    /// The engine's work, waiting for other workers included.
    Engine = 0,
    Kernel = 1,
    Stack = 2,
}

/// A worker's mark of what it does, and what it was seen doing.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<Marks>);

#[derive(Debug, Default)]
struct Marks {
    doing: AtomicU8,
    seen: [AtomicU64; 3],
}

/// Wall time in which a worker was seen in guests, kernel and stack, since the start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub guest: u64,
    pub kernel: u64,
    pub stack: u64,
}

impl Activity {
    #[inline]
    pub fn set(&self, doing: Doing) {
        self.0.doing.store(doing as u8, Ordering::Relaxed);
    }

    pub fn seen(&self) -> Seen {
        let [guest, kernel, stack] = self.0.seen.each_ref().map(|seen| seen.load(Ordering::Relaxed));
        Seen { guest, kernel, stack }
    }

    /// Counts the time since the last look for what the worker does now. Called by one thread only.
    fn look(&self, is_in_guest: bool, elapsed: Duration) {
        let index = match (is_in_guest, self.get()) {
            (true, _) => 0,
            (false, Doing::Kernel) => 1,
            (false, Doing::Stack) => 2,
            (false, Doing::Engine) => return,
        };
        self.0.seen[index].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
    }

    pub fn get(&self) -> Doing {
        match self.0.doing.load(Ordering::Relaxed) {
            1 => Doing::Kernel,
            2 => Doing::Stack,
            _ => Doing::Engine,
        }
    }
}

/// How many of the plan's processes run at this moment of wall time.
#[derive(Clone, Debug, Default)]
pub struct LiveProcesses(Arc<AtomicU64>);

impl LiveProcesses {
    pub fn started(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub fn ended(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How often workers are looked at on the average, and the machine's memory.
const SAMPLE: Duration = Duration::from_millis(2);
const RARE_SAMPLE: Duration = Duration::from_millis(8);
const MEMORY: Duration = Duration::from_millis(100);
/// For how many times as long as it took, the process's own memory is not read again.
const MEMORY_REST: u32 = 50;

/// The workers that have introduced themselves, for those who look at them from outside.
#[derive(Clone, Debug, Default)]
pub struct Workers(Arc<Mutex<Vec<(GuestProbe, Activity)>>>);

impl Workers {
    /// Where workers introduce themselves.
    pub fn register(&self) -> impl Fn(GuestProbe) -> Activity + Sync + use<> {
        let workers = self.clone();
        move |probe| {
            let activity = Activity::default();
            workers.lock().push((probe, activity.clone()));
            activity
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Vec<(GuestProbe, Activity)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::ops::Add for Seen {
    type Output = Seen;

    fn add(self, other: Seen) -> Seen {
        Seen { guest: self.guest + other.guest, kernel: self.kernel + other.kernel, stack: self.stack + other.stack }
    }
}

/// The process's memory as it was last looked at, each page counted once (`Pss`), in bytes; for those who look from other threads.
#[derive(Clone, Debug, Default)]
pub struct MemoryInUse(Arc<AtomicU64>);

impl MemoryInUse {
    pub fn get(&self) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            // Before the first look.
            0 => recorder::usage::proportional_bytes(),
            bytes => bytes,
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    workers: Workers,
    memory: MemoryInUse,
    ended: AtomicBool,
}

/// The sampling of one run.
#[derive(Debug)]
pub struct Accounting {
    shared: Arc<Shared>,
    sampler: Option<JoinHandle<Memory>>,
    baseline_available: u64,
    before: ProcessUsage,
    at_events: ProcessUsage,
}

fn usage() -> ProcessUsage {
    ProcessUsage::of_this_process().unwrap_or_default()
}

/// MemAvailable in bytes; 0 where the machine does not tell.
pub fn available_memory() -> u64 {
    MemInfo::of_this_machine().ok().and_then(|info| info.mem_available).unwrap_or(0)
}

impl Accounting {
    /// Before anything of the run is built.
    pub fn begin() -> Accounting {
        Accounting {
            shared: Arc::default(),
            sampler: None,
            baseline_available: available_memory(),
            before: ProcessUsage::default(),
            at_events: ProcessUsage::default(),
        }
    }

    pub fn workers(&self) -> Workers {
        self.shared.workers.clone()
    }

    pub fn memory(&self) -> MemoryInUse {
        self.shared.memory.clone()
    }

    /// The first event is near. A run that is profiled is looked at less often: its samples tell more.
    pub fn start(&mut self, is_profiled: bool) {
        let interval = if is_profiled { RARE_SAMPLE } else { SAMPLE };
        self.at_events = usage();
        let (shared, baseline) = (self.shared.clone(), self.baseline_available);
        let thread = std::thread::Builder::new().name("accounting".to_owned());
        // Without the thread the shares are not known; the run is none the worse.
        self.sampler = thread.spawn(move || sample(&shared, baseline, interval)).ok();
    }

    /// The last event is past.
    pub fn finish(mut self) -> (CpuStats, MemoryStats) {
        let after = usage();
        self.shared.ended.store(true, Ordering::Relaxed);
        let sampled = self.sampler.take().and_then(|sampler| sampler.join().ok());
        let mut memory = sampled.unwrap_or(Memory::new(self.baseline_available));
        memory.lowest_available = memory.lowest_available.min(available_memory());
        memory.read(&self.shared.memory);
        let seen = self.shared.workers.lock().iter().fold(Seen::default(), |sum, (_, activity)| sum + activity.seen());
        let lowest = memory.lowest_available;
        let memory = MemoryStats {
            peak_pss_bytes: memory.peak_pss,
            baseline_available_bytes: self.baseline_available,
            lowest_available_bytes: lowest,
            peak_used_bytes: self.baseline_available.saturating_sub(lowest),
        };
        (split(seen, &self.before, &self.at_events, &after), memory)
    }
}

/// What was seen of memory, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    lowest_available: u64,
    peak_pss: u64,
    /// Resident memory when the proportional size was last looked at.
    resident_then: u64,
    /// When it may be looked at again, since the start of sampling.
    rests_until: Duration,
}

impl Memory {
    fn new(available: u64) -> Memory {
        Memory { lowest_available: available, ..Memory::default() }
    }

    /// Reading the proportional size walks all page tables while nobody can change a mapping: only where much has changed, and for a small part
    /// of the time.
    fn look(&mut self, in_use: &MemoryInUse, clock: &WallClock) {
        self.lowest_available = self.lowest_available.min(available_memory());
        let now = clock.elapsed();
        let resident = recorder::usage::resident_bytes();
        if now >= self.rests_until && resident.abs_diff(self.resident_then) > self.resident_then / 50 {
            self.resident_then = resident;
            self.read(in_use);
            let then = clock.elapsed();
            self.rests_until = then + then.saturating_sub(now) * MEMORY_REST;
        }
    }

    fn read(&mut self, in_use: &MemoryInUse) {
        let proportional = recorder::usage::proportional_bytes();
        in_use.0.store(proportional, Ordering::Relaxed);
        self.peak_pss = self.peak_pss.max(proportional);
    }
}

/// Looks at the workers until the end is announced; what was seen of memory.
fn sample(shared: &Shared, baseline_available: u64, interval: Duration) -> Memory {
    let mut memory = Memory::new(baseline_available);
    let clock = WallClock::start();
    let (mut rounds, mut looked) = (0u32, Duration::ZERO);
    while !shared.ended.load(Ordering::Relaxed) {
        // At intervals of many lengths: workers that are interrupted for a profile are so at even ones.
        let length = rounds.wrapping_mul(2_654_435_761) >> 22;
        std::thread::sleep(interval - Duration::from_micros(512) + Duration::from_micros(length.into()));
        let now = clock.elapsed();
        let elapsed = now.saturating_sub(std::mem::replace(&mut looked, now));
        for (probe, activity) in shared.workers.lock().iter() {
            activity.look(probe.is_in_guest(), elapsed);
        }
        rounds += 1;
        if rounds.is_multiple_of((MEMORY.as_micros() / interval.as_micros()) as u32) {
            memory.look(&shared.memory, &clock);
        }
    }
    memory
}

/// Guests, kernel and stack get the wall time in which they were seen; the engine, which also waits, what is left of the processor
/// time. When processors were short, all shrink alike.
fn split(seen: Seen, before: &ProcessUsage, at_events: &ProcessUsage, after: &ProcessUsage) -> CpuStats {
    let of = |usage: &ProcessUsage| (usage.user + usage.system).as_secs_f64();
    let events = of(after) - of(at_events);
    let [guest, kernel, stack] = [seen.guest, seen.kernel, seen.stack].map(|nanos| nanos as f64 / 1e9);
    let busy = guest + kernel + stack;
    let scale = if busy > events { events / busy } else { 1.0 };
    CpuStats {
        guest_s: guest * scale,
        kernel_s: kernel * scale,
        stack_s: stack * scale,
        engine_s: (events - busy * scale).max(0.0),
        other_s: of(at_events) - of(before),
        total_s: of(after) - of(before),
        user_s: (after.user - before.user).as_secs_f64(),
        system_s: (after.system - before.system).as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(seconds: u64) -> ProcessUsage {
        ProcessUsage { user: Duration::from_secs(seconds), ..ProcessUsage::default() }
    }

    fn seen(guest_s: u64, kernel_s: u64, stack_s: u64) -> Seen {
        Seen { guest: guest_s * 1_000_000_000, kernel: kernel_s * 1_000_000_000, stack: stack_s * 1_000_000_000 }
    }

    #[test]
    fn what_is_not_seen_at_hosts_is_the_engine_s() {
        let cpu = split(seen(10, 3, 2), &used(0), &used(1), &used(17));
        let rounded = [cpu.guest_s, cpu.kernel_s, cpu.stack_s, cpu.engine_s, cpu.other_s, cpu.total_s];
        assert_eq!(rounded.map(|seconds| (seconds * 1000.0).round()), [10e3, 3e3, 2e3, 1e3, 1e3, 17e3]);
        assert_eq!(cpu.overhead().map(|ratio| (ratio * 100.0).round()), Some(170.0));
    }

    #[test]
    fn a_machine_without_time_shrinks_all_shares() {
        let cpu = split(seen(10, 5, 5), &used(0), &used(0), &used(10));
        assert_eq!((cpu.guest_s.round(), cpu.kernel_s.round(), cpu.stack_s.round()), (5.0, 3.0, 3.0));
        assert!(cpu.engine_s.abs() < 1e-9);
    }
}
