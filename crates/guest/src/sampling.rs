//! Samples of what a worker executes, so much of its processor time apart on average: what a profiler is made of.
//!
//! A perf event of the kernel's own clock of a task (no hardware counter, no privilege) or, where there is none, a timer of the thread's
//! processor time sends the thread a signal. In a guest's code the handler leaves the guest by the way of pre-emption
//! ([`crate::Exit::Sampled`]), so that whoever serves the guest can look at it in peace; in the simulator it copies what lies on the stack. Either
//! way it notes the moment, by the thread's processor time. Nothing of it changes what guests do: not even their patience is spent.

use crate::preempt::{Timer, is_guest_code, unblock};
use crate::registers::Registers;
use crate::switch::{EXIT_SAMPLED, SAMPLED, WorkerState, clock_call_at};
use crate::traps::{leave_guest, raw_syscall, worker_of_handler};
use crate::worker::Worker;
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::time::Duration;

/// The timer's. Debuggers pass it on without a word.
pub(crate) const SAMPLE_SIGNAL: i32 = libc::SIGPROF;
/// Samples that can wait; the time of further ones is added to the last.
const RING: usize = 8;
/// Words that are copied of the simulator's own stack.
const OWN_WORDS: usize = 1024;

/// So many samples in a row are equally far apart.
const KEPT_PERIODS: u32 = 4;

const IN_GUEST: u8 = 0;
const IN_DOOR: u8 = 1;
const IN_SIMULATOR: u8 = 2;

/// Samples of one worker that were not taken yet, written by its signal handler and read by its thread.
pub(crate) struct SampleRing {
    /// Its thread reads it at this moment, or the handler writes it: what comes now is added to the next sample.
    is_busy: AtomicBool,
    used: usize,
    /// The thread's processor time at the sample before, in nanoseconds.
    last_ns: u64,
    /// Where the thread's own stack lies.
    stack: Range<u64>,
    schedule: Option<Schedule>,
    entries: [Entry; RING],
}

/// When samples are due, by the thread's processor time: from half to one and a half times the mean apart, since programs that do something
/// as regularly as samples are taken would otherwise be met at the same places again and again. A signal comes later than its sample was due
/// where the kernel works for the thread. What is due next does not depend on that: counted from the signal, the end of a long call would
/// always be as far from the next sample, and what a program does then be seldom met.
struct Schedule {
    event: i32,
    mean_ns: u64,
    /// When the event last began to count to another period.
    since_ns: u64,
    period_ns: u64,
    /// Samples until the next period is drawn: setting the event's clock anew is a system call.
    left: u32,
    /// Of Marsaglia's xorshift generator, "Xorshift RNGs", 2003; not 0.
    state: u64,
}

impl Schedule {
    fn draw_ns(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.mean_ns / 2 + (self.state >> 32) * self.mean_ns / (1 << 32)
    }

    /// When the sample that is met now was due. From now on the event counts to another period, if it is time for one. For the handler:
    /// without libc, without waiting.
    fn advance(&mut self, now_ns: u64) -> u64 {
        /// `_IOW('$', 4, __u64)` of linux/perf_event.h.
        const PERF_EVENT_IOC_PERIOD: u64 = 0x4008_2404;
        /// More than the handler takes: the next signal would else be there when it ends, and the thread get no further.
        const LEAST_NS: u64 = 25_000;
        let late_ns = now_ns.saturating_sub(self.since_ns) % self.period_ns;
        let was_due_ns = now_ns - late_ns;
        if self.left > 0 {
            self.left -= 1;
            return was_due_ns;
        }
        let mut next_ns = was_due_ns + self.draw_ns();
        while next_ns < now_ns {
            next_ns += self.draw_ns();
        }
        let period = (next_ns - now_ns).max(LEAST_NS);
        // What is left of a period is not kept for the samples after it.
        self.left = if period < self.mean_ns / 2 { 0 } else { KEPT_PERIODS - 1 };
        (self.since_ns, self.period_ns) = (now_ns, period);
        // SAFETY: a valid place for the period. If it is refused, the period stays.
        unsafe {
            raw_syscall(libc::SYS_ioctl, [self.event as u64, PERF_EVENT_IOC_PERIOD, &raw const period as u64, 0, 0]);
        }
        was_due_ns
    }
}

struct Entry {
    at_ns: u64,
    place: u8,
    rip: u64,
    rsp: u64,
    rbp: u64,
    words: usize,
    stack: [u64; OWN_WORDS],
}

/// What raises the signals of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// A perf event; `kernel`: also while the machine's kernel works for the thread.
    PerfEvent { kernel: bool },
    /// A timer, which kernels look at with each of their own ticks, some hundred times a second.
    Timer,
}

#[derive(Debug)]
pub(crate) enum Sampler {
    /// Ends with its descriptor.
    PerfEvent {
        event: OwnedFd,
    },
    Timer {
        _timer: Timer,
    },
}

/// One sample.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The thread's processor time since the sample before.
    pub weight: Duration,
    pub at: SampledAt,
}

/// What was executed.
#[derive(Clone, Debug)]
pub enum SampledAt {
    /// The guest, which stands where its vcpu says.
    Guest,
    /// The entry of calls, which the guest had called with these registers (rip, rsp and rbp count), and which may have answered by itself.
    Door(Registers),
    /// The simulator.
    Simulator(Box<OwnStack>),
}

/// The simulator's own stack when a sample was taken.
#[derive(Clone, Debug, Default)]
pub struct OwnStack {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
    /// What lay at `rsp` and above.
    pub words: Vec<u64>,
}

impl OwnStack {
    /// The word at an address, if it was copied.
    pub fn word(&self, address: u64) -> Option<u64> {
        let at = address.checked_sub(self.rsp).filter(|at| at % 8 == 0)?;
        self.words.get(usize::try_from(at / 8).ok()?).copied()
    }
}

/// The calling thread's processor time.
pub fn thread_time() -> Duration {
    Duration::from_nanos(thread_time_ns())
}

/// Without libc, for the handler.
fn thread_time_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let arguments = [libc::CLOCK_THREAD_CPUTIME_ID as u64, &raw mut time as u64, 0, 0, 0];
    // SAFETY: a valid place for the result; it cannot fail for this clock.
    unsafe { raw_syscall(libc::SYS_clock_gettime, arguments) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The handler of the timer's signal.
pub(crate) extern "C" fn tick(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if let Some(worker) = worker_of_handler() {
        // SAFETY: the kernel passes a valid pointer.
        sample(worker, unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs });
    }
}

/// Whether a SIGTRAP is that of a perf event.
pub(crate) fn is_sample(info: &libc::siginfo_t) -> bool {
    const TRAP_PERF: i32 = 6;
    info.si_signo == libc::SIGTRAP && info.si_code == TRAP_PERF
}

/// For the handlers of signals. It touches no thread-local and makes one system call, so they may return into a guest.
pub(crate) fn sample(worker: &mut WorkerState, saved: &mut [i64; 23]) {
    // SAFETY: the ring is never freed. The thread's normal flow, which is suspended, reads it only where it says so.
    let Some(ring) = (unsafe { worker.samples.as_mut() }) else { return };
    if ring.is_busy.swap(true, Ordering::Relaxed) {
        return;
    }
    compiler_fence(Ordering::SeqCst);
    take(worker, ring, saved);
    compiler_fence(Ordering::SeqCst);
    ring.is_busy.store(false, Ordering::Relaxed);
}

/// Writes the sample into the ring.
#[inline(always)]
fn take(worker: &mut WorkerState, ring: &mut SampleRing, saved: &mut [i64; 23]) {
    let register = |saved: &[i64; 23], index: i32| saved[index as usize] as u64;
    let (rip, rsp, rbp) =
        (register(saved, libc::REG_RIP), register(saved, libc::REG_RSP), register(saved, libc::REG_RBP));
    let (r11, rcx) = (register(saved, libc::REG_R11), register(saved, libc::REG_RCX));
    let place = match (worker.in_guest != 0 && worker.stepping == 0, is_guest_code(rip)) {
        (true, true) => IN_GUEST,
        (true, false) => IN_DOOR,
        (false, _) => IN_SIMULATOR,
    };
    if place == IN_GUEST {
        leave_guest(worker, saved, EXIT_SAMPLED);
    }
    let selector = worker.selector.swap(0, Ordering::Relaxed);
    let mut at_ns = thread_time_ns();
    if let Some(schedule) = &mut ring.schedule {
        at_ns = schedule.advance(at_ns);
    }
    worker.selector.store(selector, Ordering::Relaxed);
    worker.notices.fetch_or(SAMPLED, Ordering::Relaxed);
    let is_full = ring.used >= RING;
    let index = if is_full { RING - 1 } else { ring.used };
    let entry = &mut ring.entries[index];
    entry.at_ns = at_ns;
    if is_full {
        return;
    }
    ring.used += 1;
    (entry.place, entry.rip, entry.rsp, entry.rbp, entry.words) = (place, rip, rsp, rbp, 0);
    if place == IN_DOOR {
        // Both hold the guest's return address in turn; neither does in the switch, which is seldom met.
        entry.rip = if clock_call_at(rip).is_some() || !is_guest_code(rcx) { r11 } else { rcx };
    } else if place == IN_SIMULATOR && rsp % 8 == 0 && ring.stack.contains(&rsp) {
        // Not on the stack of another handler, of which nothing is known.
        let words = (((ring.stack.end - rsp) / 8) as usize).min(OWN_WORDS);
        entry.words = words;
        // SAFETY: the thread's own stack is mapped from its top, where it is now, to its end.
        unsafe { std::ptr::copy_nonoverlapping(rsp as *const u64, entry.stack.as_mut_ptr(), words) };
    }
}

/// `struct perf_event_attr` as its first version had it, perf_event_open(2).
#[repr(C)]
#[derive(Default)]
struct PerfEvent {
    kind: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

impl Sampler {
    /// From now on the calling thread gets a signal after each `period` of its processor time.
    fn start(period: Duration) -> io::Result<(Sampler, Sampling)> {
        for kernel in [true, false] {
            if let Ok(event) = perf_event(period, kernel) {
                return Ok((Sampler::PerfEvent { event }, Sampling::PerfEvent { kernel }));
            }
        }
        unblock(SAMPLE_SIGNAL);
        let timer = Timer::new(libc::CLOCK_THREAD_CPUTIME_ID, SAMPLE_SIGNAL, 0)?;
        timer.set(period, period);
        Ok((Sampler::Timer { _timer: timer }, Sampling::Timer))
    }
}

/// An event whose signal is delivered where the thread returns from the interrupt, without another one. While the handler of one executes,
/// the next waits; kernels before 5.19 would end the process instead.
fn perf_event(period: Duration, kernel: bool) -> io::Result<OwnedFd> {
    const PERF_TYPE_SOFTWARE: u32 = 1;
    const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGTRAP: u64 = 1 << 37;
    const PERF_FLAG_FD_CLOEXEC: u64 = 8;
    if kernel_version() < (5, 19) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let attributes = PerfEvent {
        kind: PERF_TYPE_SOFTWARE,
        bytes: size_of::<PerfEvent>() as u32,
        config: PERF_COUNT_SW_TASK_CLOCK,
        sample_period: period.as_nanos() as u64,
        flags: EXCLUDE_HYPERVISOR | SIGTRAP | REMOVE_ON_EXEC | if kernel { 0 } else { EXCLUDE_KERNEL },
        ..PerfEvent::default()
    };
    // SAFETY: valid arguments; a descriptor that was just made belongs to nobody else.
    unsafe {
        let opened =
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, 0, -1i32, -1i32, PERF_FLAG_FD_CLOEXEC);
        if opened < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(opened as i32)) }
    }
}

/// The machine's kernel, as `(6, 1)`.
fn kernel_version() -> (u32, u32) {
    // SAFETY: all zeros are a valid `utsname`, which the call fills with strings that end within it.
    let release = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&mut name);
        CStr::from_ptr(name.release.as_ptr()).to_string_lossy().into_owned()
    };
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Where the calling thread's stack lies.
fn own_stack() -> Range<u64> {
    // SAFETY: attributes of the calling thread, freed after they were read.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return 0..0;
        }
        libc::pthread_attr_getstack(&attributes, &mut start, &mut bytes);
        libc::pthread_attr_destroy(&mut attributes);
        start as u64..start as u64 + bytes as u64
    }
}

impl Worker {
    /// From now on there are samples of this thread, `period` of its processor time apart on average. Once for each worker.
    ///
    /// # Errors
    /// When the machine has neither perf events nor timers of processor time for it.
    pub fn start_sampling(&mut self, period: Duration) -> io::Result<Sampling> {
        const EMPTY: Entry = Entry { at_ns: 0, place: 0, rip: 0, rsp: 0, rbp: 0, words: 0, stack: [0; OWN_WORDS] };
        let ring = SampleRing {
            is_busy: AtomicBool::new(false),
            used: 0,
            last_ns: thread_time_ns(),
            stack: own_stack(),
            schedule: None,
            entries: [EMPTY; RING],
        };
        // Never freed, as the state that points to it.
        let ring = Box::leak(Box::new(ring));
        let (sampler, means) = Sampler::start(period)?;
        if let Sampler::PerfEvent { event } = &sampler {
            let (event, mean_ns) = (event.as_raw_fd(), period.as_nanos() as u64);
            let since_ns = thread_time_ns();
            // Golden ratio, so that a small number has high bits too.
            let state = since_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            ring.schedule = Some(Schedule { event, mean_ns, since_ns, period_ns: mean_ns, left: 0, state });
        }
        self.state.samples = ring;
        self.sampler = Some(sampler);
        Ok(means)
    }

    /// Whether samples wait, or there was a tick.
    #[inline]
    pub fn has_notices(&self) -> bool {
        self.state.notices.load(Ordering::Relaxed) != 0
    }

    /// Whether samples wait to be taken.
    #[inline]
    pub fn has_samples(&self) -> bool {
        self.state.notices.load(Ordering::Relaxed) & SAMPLED != 0
    }

    /// Takes all samples that wait, the oldest first. With none it is empty.
    #[cold]
    pub fn take_samples(&mut self) -> Vec<Sample> {
        // SAFETY: the ring is never freed.
        let Some(ring) = (unsafe { self.state.samples.as_mut() }) else { return Vec::new() };
        // The handler keeps away meanwhile.
        ring.is_busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        self.state.notices.fetch_and(!SAMPLED, Ordering::Relaxed);
        let used = std::mem::take(&mut ring.used);
        let mut taken = Vec::with_capacity(used);
        for entry in &ring.entries[..used] {
            let (rip, rsp, rbp) = (entry.rip, entry.rsp, entry.rbp);
            let weight = Duration::from_nanos(entry.at_ns.saturating_sub(ring.last_ns));
            ring.last_ns = entry.at_ns;
            let at = match entry.place {
                IN_GUEST => SampledAt::Guest,
                IN_DOOR => SampledAt::Door(Registers { rip, rsp, rbp, ..Registers::default() }),
                _ => SampledAt::Simulator(Box::new(OwnStack {
                    rip,
                    rsp,
                    rbp,
                    words: entry.stack[..entry.words].to_vec(),
                })),
            };
            taken.push(Sample { weight, at });
        }
        compiler_fence(Ordering::SeqCst);
        ring.is_busy.store(false, Ordering::Relaxed);
        taken
    }

    /// Ends sampling; the processor time since the last sample.
    pub fn end_sampling(&mut self) -> Duration {
        // SAFETY: the ring is never freed.
        let ring = unsafe { self.state.samples.as_mut() };
        let last = ring.map_or(0, |ring| {
            // The handler keeps away from now on: the event's descriptor may soon be another's.
            ring.is_busy.store(true, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            ring.last_ns
        });
        self.sampler = None;
        Duration::from_nanos(thread_time_ns().saturating_sub(last))
    }
}
