//! Taking the processor back from a guest that computes without ever asking for the simulated kernel.
//!
//! Each worker has a timer of its own processor time, whose signal (a tick) interrupts whatever it does. In the simulator's code and
//! at the doors it does nothing. In a guest's code it counts down what `Vcpu::run` has allowed, and with the last tick the guest comes
//! back as [`crate::Exit::Preempted`]. A guest that makes calls never sees one; when it does, depends on the machine, so whoever gets this
//! exit must not let the run's result depend on it.
//!
//! A second timer, of wall time, interrupts a guest sooner when it is known to wait in a loop.

use crate::arena::ARENAS_END;
use crate::debugger;
use crate::switch::{EXIT_PREEMPTED, TICKED};
use crate::traps::{leave_guest, worker_of_handler};
use crate::worker::Worker;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Debuggers pass it on without a word.
pub(crate) const TICK_SIGNAL: i32 = libc::SIGVTALRM;
/// What the timers' signals carry.
const TICK: usize = 1;
const SHORT: usize = 2;
/// Somebody wants to know where the worker is.
const QUESTION: usize = 3;

/// Whether an address belongs to guests and not to the simulator, which lies above them.
pub(crate) fn is_guest_code(rip: u64) -> bool {
    rip < ARENAS_END
}

/// The handler of both timers' signal. It makes no system call and touches no thread-local, so it may return into a guest.
pub(crate) extern "C" fn tick(_signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(worker) = worker_of_handler() else { return };
    // SAFETY: the kernel passes valid pointers.
    let (info, context) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    // SAFETY: signals of timers carry a value, and so do questions.
    let what = unsafe { info.si_value() }.sival_ptr as usize;
    let saved = &mut context.uc_mcontext.gregs;
    if what == QUESTION {
        worker.seen_at.store(saved[libc::REG_RIP as usize] as u64, Ordering::Relaxed);
        worker.answers.fetch_add(1, Ordering::Release);
        return;
    }
    worker.notices.fetch_or(TICKED, Ordering::Relaxed);
    if worker.in_guest == 0 || !is_guest_code(saved[libc::REG_RIP as usize] as u64) {
        return;
    }
    if what == SHORT {
        if worker.short_armed == 0 {
            return;
        }
    } else {
        worker.ticks_left = worker.ticks_left.saturating_sub(1);
        if worker.ticks_left > 0 {
            return;
        }
    }
    leave_guest(worker, saved, EXIT_PREEMPTED);
}

/// Has a worker's thread note where it is (`WorkerState::seen_at`).
pub(crate) fn ask(thread: libc::pid_t) {
    // SAFETY: a zeroed siginfo is valid; what a queued signal carries lies behind pid and uid. A thread that has ended gets none.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        info.si_signo = TICK_SIGNAL;
        info.si_code = libc::SI_QUEUE;
        (&raw mut info).cast::<u8>().add(std::mem::offset_of!(Queued, value)).cast::<usize>().write(QUESTION);
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), thread, TICK_SIGNAL, &raw const info);
    }
}

/// The beginning of a `siginfo_t` of a queued signal.
#[repr(C)]
struct Queued {
    head: [i32; 4],
    sender: [u32; 2],
    value: usize,
}

static ENDING: AtomicBool = AtomicBool::new(false);

/// From now on the run is to come to an end: nobody needs to compute on.
pub fn end_computing() {
    ENDING.store(true, Ordering::Relaxed);
}

/// Whether [`end_computing`] was called.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Lets a signal through to the calling thread.
pub(crate) fn unblock(signal: i32) {
    // SAFETY: a zeroed set is valid; the calls change this thread's mask only.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

/// A worker's timers.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    period: Duration,
    ticks: Option<Timer>,
    short: Option<Timer>,
    /// What the short timer was last set to.
    short_run: Duration,
}

#[derive(Debug)]
pub(crate) struct Timer(libc::timer_t);

impl Timer {
    /// A timer that sends the calling thread a signal.
    pub(crate) fn new(clock: libc::clockid_t, signal: i32, value: usize) -> io::Result<Timer> {
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: a zeroed sigevent is valid, and so is the place for the result; gettid has no preconditions.
        let result = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal;
            event.sigev_value.sival_ptr = value as *mut libc::c_void;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(clock, &mut event, &mut timer)
        };
        if result == 0 { Ok(Timer(timer)) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn set(&self, first: Duration, then: Duration) {
        let spec =
            |time: Duration| libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        let times = libc::itimerspec { it_interval: spec(then), it_value: spec(first) };
        // SAFETY: the timer exists until it is dropped. It cannot fail on valid times.
        unsafe { libc::timer_settime(self.0, 0, &times, std::ptr::null_mut()) };
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer exists, and nobody uses it any more.
        unsafe { libc::timer_delete(self.0) };
    }
}

impl Timers {
    /// Ticks come after each `period` of the calling thread's processor time from now on.
    pub(crate) fn start(&mut self, period: Duration) -> io::Result<()> {
        if self.ticks.is_none() {
            unblock(TICK_SIGNAL);
            self.ticks = Some(Timer::new(libc::CLOCK_THREAD_CPUTIME_ID, TICK_SIGNAL, TICK)?);
        }
        if let Some(timer) = &self.ticks {
            timer.set(period, period);
        }
        self.period = period;
        Ok(())
    }

    pub(crate) fn stop(&mut self) {
        (self.ticks, self.short) = (None, None);
    }
}

/// This thread's processor time.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the result. This clock is read by a system call, never by the time-stamp counter, which would trap.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A measurement of what a guest computes.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Duration);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(cpu_time())
    }

    /// The processor time since the start, without what measuring takes.
    pub fn read(self) -> Duration {
        static OVERHEAD: OnceLock<Duration> = OnceLock::new();
        let used = cpu_time() - self.0;
        let pair = |_| {
            let begun = cpu_time();
            cpu_time() - begun
        };
        used.saturating_sub(*OVERHEAD.get_or_init(|| (0..100).map(pair).min().unwrap_or_default()))
    }
}

impl Worker {
    /// How much processor time lies between two ticks.
    pub fn tick(&self) -> Duration {
        self.timers.period
    }

    /// Changes that. Kernels look at such timers some hundred times a second, and no more often.
    pub fn set_tick(&mut self, period: Duration) {
        if period != self.timers.period {
            // The timer exists: nothing here can fail.
            let _ = self.timers.start(period);
        }
    }

    /// Whether there was a tick since this was last asked: something to be done every 20 ms or so can be done now.
    #[inline]
    pub fn take_tick(&self) -> bool {
        self.state.notices.load(Ordering::Relaxed) & TICKED != 0
            && self.state.notices.fetch_and(!TICKED, Ordering::Relaxed) & TICKED != 0
    }

    /// Guests come back after so many ticks at the latest. Without this, they are never interrupted; nor are they under a debugger,
    /// which would take the steps for its own.
    #[inline]
    pub fn set_patience(&mut self, ticks: u32) {
        self.patience = if debugger::is_here() { u32::MAX } else { ticks };
    }

    pub fn patience(&self) -> u32 {
        self.patience
    }

    /// The next execution of a guest ends after `time` at the latest, if it does not come back by itself.
    pub fn limit_next_run(&mut self, time: Duration) {
        if self.timers.short.is_none() {
            // Without that timer the other one does it, later.
            self.timers.short = Timer::new(libc::CLOCK_MONOTONIC, TICK_SIGNAL, SHORT).ok();
        }
        if let Some(timer) = &self.timers.short {
            self.state.short_armed = 1;
            timer.set(time.max(Duration::from_nanos(1)), Duration::ZERO);
        }
        self.timers.short_run = time;
    }

    /// Sets the limit of an execution once more that was interrupted for a sample: its timer may have come to its end meanwhile.
    pub(crate) fn renew_limit(&mut self) {
        if self.state.short_armed != 0 {
            self.limit_next_run(self.timers.short_run);
        }
    }
}
