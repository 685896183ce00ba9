//! Clocks, sleeps, interval timers, timerfd.

use super::signals::is_queue_full;
use crate::clock::posix_timer;
use crate::cpu_timers::{CpuItimer, is_cpu_clock};
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::files::timerfd::TimerFd;
use crate::files::{FileKind, OpenFile};
use crate::host_clock::HostClock;
use crate::ids::Tid;
use crate::outcome::{Outcome, Restart, SysResult};
use crate::process::{PosixTimer, Process};
use crate::timers::TimerKind;
use crate::wait::Wake;
use base::{SimDuration, SimTime};
use linux_abi::capability::CAP_WAKE_ALARM;
use linux_abi::event::{TFD_CLOEXEC, TFD_NONBLOCK};
use linux_abi::fs::{O_NONBLOCK, O_RDWR};
use linux_abi::signal::{SIGEV_NONE, SIGEV_SIGNAL, SIGEV_THREAD, SIGEV_THREAD_ID, Sigevent};
use linux_abi::time::*;
use linux_abi::{Errno, Signal};

/// What a clock shows, in nanoseconds. All clocks but the real-time ones count from
/// the host's boot, some time before the experiment; CPU clocks count the
/// process's system calls, a microsecond each, since guests take no simulated time.
fn clock_nanos(ctx: &Ctx<'_>, clock: i32) -> Result<u64, Errno> {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_REALTIME_ALARM | CLOCK_TAI => Ok(ctx.real_time()),
        CLOCK_MONOTONIC | CLOCK_MONOTONIC_RAW | CLOCK_MONOTONIC_COARSE | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => {
            Ok(ctx.uptime_nanos())
        }
        CLOCK_PROCESS_CPUTIME_ID | CLOCK_THREAD_CPUTIME_ID => Ok(ctx.process.cpu_nanos()),
        clock if clock < 0 => named_clock_nanos(ctx, clock),
        _ => Err(Errno::EINVAL),
    }
}

/// What the clock of a process or thread shows whose number is in the clock's, clock_getcpuclockid(3). EINVAL for one that there is not, for
/// threads of other processes, and for clocks behind descriptors (`pid_for_clock`).
fn named_clock_nanos(ctx: &Ctx<'_>, clock: i32) -> Result<u64, Errno> {
    const KIND: i32 = 3;
    const NO_KIND: i32 = 3;
    const OF_THREAD: i32 = 4;
    let number = !(clock >> 3) as u32;
    if clock & KIND == NO_KIND {
        return Err(Errno::EINVAL);
    }
    let own = number == 0 || number == ctx.process.pid.0 || number == ctx.thread.tid.0;
    if own || clock & OF_THREAD != 0 {
        let is_known = own || ctx.process.threads.contains(&Tid(number));
        return if is_known { Ok(ctx.process.cpu_nanos()) } else { Err(Errno::EINVAL) };
    }
    let other = ctx.kernel.processes.get(number).map(Process::cpu_nanos);
    other.or_else(|| (number == INIT.0).then_some(0)).ok_or(Errno::EINVAL)
}

/// The moment at which a clock shows `nanos`.
fn moment_of(of_host: HostClock, clock: i32, nanos: u64) -> SimTime {
    match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM | CLOCK_TAI => of_host.moment(nanos),
        _ => of_host.moment_of_uptime(nanos),
    }
}

/// Who wants to be woken by a clock that wakes the machine too needs a capability, clock_nanosleep(2). EPERM.
fn demand_alarm(ctx: &Ctx<'_>, clock: i32) -> Result<(), Errno> {
    let wakes = matches!(clock, CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM);
    if wakes && !ctx.credentials().can(CAP_WAKE_ALARM) { Err(Errno::EPERM) } else { Ok(()) }
}

/// clock_gettime(2).
pub(super) fn clock_gettime(ctx: &mut Ctx<'_>, [clock, address, ..]: [u64; 6]) -> SysResult {
    let time = Timespec::from_nanos(clock_nanos(ctx, clock as i32)?);
    ctx.process.memory.write_value(address, &time)?;
    Ok(0)
}

/// clock_getres(2).
pub(super) fn clock_getres(ctx: &mut Ctx<'_>, [clock, address, ..]: [u64; 6]) -> SysResult {
    clock_nanos(ctx, clock as i32)?;
    // The lowest bits of a negative clock are its kind: of three that count processor time, the scheduler's is fine (`posix_cpu_clock_getres`).
    let is_counted_by_ticks = (clock as i32) < 0 && clock & 3 < 2;
    let coarse = matches!(clock as i32, CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE) || is_counted_by_ticks;
    if address != 0 {
        let resolution = Timespec::from_nanos(if coarse { 4_000_000 } else { 1 });
        ctx.process.memory.write_value(address, &resolution)?;
    }
    Ok(0)
}

/// clock_settime(2): the clock is the experiment's.
pub(super) fn clock_settime(ctx: &mut Ctx<'_>, [clock, address, ..]: [u64; 6]) -> SysResult {
    if clock as i32 != CLOCK_REALTIME {
        return Err(Errno::EINVAL.into());
    }
    let time: Timespec = ctx.process.memory.read_value(address)?;
    Err(if time.to_nanos().is_some() { Errno::EPERM } else { Errno::EINVAL }.into())
}

/// settimeofday(2).
pub(super) fn settimeofday(_ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    Err(Errno::EPERM.into())
}

/// gettimeofday(2).
pub(super) fn gettimeofday(ctx: &mut Ctx<'_>, [time, zone, ..]: [u64; 6]) -> SysResult {
    if time != 0 {
        let micros = ctx.real_time() / 1_000;
        let value = Timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
        ctx.process.memory.write_value(time, &value)?;
    }
    if zone != 0 {
        ctx.process.memory.write_value(zone, &0u64)?;
    }
    Ok(0)
}

/// time(2).
pub(super) fn time(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    let seconds = ctx.real_time() / 1_000_000_000;
    if address != 0 {
        ctx.process.memory.write_value(address, &seconds)?;
    }
    Ok(seconds)
}

/// nanosleep(2).
pub(super) fn nanosleep(ctx: &mut Ctx<'_>, [request, remaining, ..]: [u64; 6]) -> SysResult {
    let time: Timespec = ctx.process.memory.read_value(request)?;
    let duration = time.to_duration().ok_or(Errno::EINVAL)?;
    sleep(ctx, ctx.now + duration, Some(remaining))
}

/// clock_nanosleep(2).
pub(super) fn clock_nanosleep(ctx: &mut Ctx<'_>, [clock, flags, request, remaining, ..]: [u64; 6]) -> SysResult {
    let clock = clock as i32;
    // Those by which nobody can sleep.
    match clock {
        CLOCK_MONOTONIC_RAW | CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE | CLOCK_THREAD_CPUTIME_ID => {
            return Err(Errno::EOPNOTSUPP.into());
        }
        CLOCK_REALTIME | CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_TAI | CLOCK_PROCESS_CPUTIME_ID => {}
        CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM => {}
        clock if clock < 0 => {}
        _ => return Err(Errno::EINVAL.into()),
    }
    let time: Timespec = ctx.process.memory.read_value(request)?;
    let nanos = time.to_nanos().ok_or(Errno::EINVAL)?;
    if clock < 0 {
        return Err(Errno::EINVAL.into());
    }
    demand_alarm(ctx, clock)?;
    if flags as u32 & TIMER_ABSTIME != 0 {
        let moment = moment_of(ctx.kernel.config.clock, clock, nanos);
        return sleep(ctx, moment, None);
    }
    sleep(ctx, ctx.now + SimDuration::from_nanos(nanos), Some(remaining))
}

/// Sleeps until `end`, as the first execution computes it. An interrupted relative sleep tells what is left.
fn sleep(ctx: &mut Ctx<'_>, end: SimTime, remaining: Option<u64>) -> SysResult {
    if ctx.thread.wake == Wake::First {
        let end = ctx.thread.resumed_deadline.take().unwrap_or(end);
        ctx.deadline_at(end);
    }
    if ctx.expired() {
        return Ok(0);
    }
    let kind = if remaining.is_some() { Restart::Block } else { Restart::NoHand };
    let outcome = match ctx.thread.wake {
        Wake::Interrupted => Outcome::Restart(kind),
        _ => ctx.block(kind),
    };
    if matches!(outcome, Outcome::Restart(_))
        && let Some(address) = remaining.filter(|address| *address != 0)
    {
        let left = ctx.thread.call.deadline.unwrap_or(ctx.now).saturating_since(ctx.now);
        ctx.process.memory.write_value(address, &Timespec::from(left))?;
    }
    Err(outcome)
}

/// alarm(2).
pub(super) fn alarm(ctx: &mut Ctx<'_>, [seconds, ..]: [u64; 6]) -> SysResult {
    let left = real_remaining(ctx).as_nanos();
    let seconds = u64::from(seconds as u32);
    set_real(ctx, (seconds > 0).then(|| SimDuration::from_secs(seconds)), 0);
    // Rounded to the next second, but never to none while it runs.
    let seconds = (left + 500_000_000) / 1_000_000_000;
    Ok(if left > 0 { seconds.max(1) } else { 0 })
}

fn real_remaining(ctx: &Ctx<'_>) -> SimDuration {
    ctx.process.real_itimer.expires.map_or(SimDuration::ZERO, |at| at.saturating_since(ctx.now))
}

fn set_real(ctx: &mut Ctx<'_>, after: Option<SimDuration>, interval_ns: u64) {
    let timer = &mut ctx.process.real_itimer;
    timer.generation += 1;
    timer.interval_ns = interval_ns;
    timer.expires = after.map(|after| ctx.now + after);
    if let Some(at) = timer.expires {
        let kind = TimerKind::RealItimer { pid: ctx.process.pid, generation: timer.generation };
        ctx.kernel.timers.add(at, kind);
    }
}

fn timeval_nanos(time: Timeval) -> Result<u64, Errno> {
    if time.tv_sec < 0 || !(0..1_000_000).contains(&time.tv_usec) {
        return Err(Errno::EINVAL);
    }
    Ok((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1_000))
}

fn timeval(nanos: u64) -> Timeval {
    Timeval { tv_sec: (nanos / 1_000_000_000) as i64, tv_usec: (nanos % 1_000_000_000 / 1_000) as i64 }
}

/// getitimer(2).
pub(super) fn getitimer(ctx: &mut Ctx<'_>, [which, address, ..]: [u64; 6]) -> SysResult {
    let value = match which as i32 {
        ITIMER_REAL => Itimerval {
            it_interval: timeval(ctx.process.real_itimer.interval_ns),
            it_value: timeval(real_remaining(ctx).as_nanos()),
        },
        which => {
            let now = ctx.process.cpu_moment();
            let timer = ctx.process.cpu_itimer(which).ok_or(Errno::EINVAL)?;
            // Never none while it runs, even if it is due.
            let left = timer.expires.map_or(0, |at| at.saturating_since(now).as_nanos().max(1_000));
            Itimerval { it_interval: timeval(timer.interval_ns), it_value: timeval(left) }
        }
    };
    ctx.process.memory.write_value(address, &value)?;
    Ok(0)
}

/// setitimer(2).
pub(super) fn setitimer(ctx: &mut Ctx<'_>, [which, new, old, ..]: [u64; 6]) -> SysResult {
    let which = which as i32;
    if !matches!(which, ITIMER_REAL | ITIMER_VIRTUAL | ITIMER_PROF) {
        return Err(Errno::EINVAL.into());
    }
    let request: Itimerval = if new == 0 { Itimerval::default() } else { ctx.process.memory.read_value(new)? };
    let (value, interval) = (timeval_nanos(request.it_value)?, timeval_nanos(request.it_interval)?);
    if old != 0 {
        getitimer(ctx, [which as u64, old, 0, 0, 0, 0])?;
    }
    if which == ITIMER_REAL {
        // As `do_setitimer`: stopping this timer, unlike the others, forgets its interval.
        let interval = if value > 0 { interval } else { 0 };
        set_real(ctx, (value > 0).then(|| SimDuration::from_nanos(value)), interval);
    } else {
        let now = ctx.process.cpu_moment();
        let expires = (value > 0).then(|| now + SimDuration::from_nanos(value));
        if let Some(timer) = ctx.process.cpu_itimer(which) {
            *timer = CpuItimer { expires, interval_ns: interval };
        }
        ctx.process.arm_cpu_timers();
    }
    Ok(0)
}

/// adjtimex(2), clock_adjtime(2): the clock is right, and may only be read.
pub(super) fn adjtimex(ctx: &mut Ctx<'_>, [address, ..]: [u64; 6]) -> SysResult {
    read_timex(ctx, address)
}

/// clock_adjtime(2).
pub(super) fn clock_adjtime(ctx: &mut Ctx<'_>, [clock, address, ..]: [u64; 6]) -> SysResult {
    const CLOCK_REALTIME: i32 = 0;
    match clock as i32 {
        CLOCK_REALTIME => read_timex(ctx, address),
        clock if clock_nanos(ctx, clock).is_ok() => Err(Errno::EOPNOTSUPP.into()),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// `struct timex`: the state of a clock that runs at its own speed. TIME_OK.
fn read_timex(ctx: &Ctx<'_>, address: u64) -> SysResult {
    const ADJ_OFFSET_SS_READ: u32 = 0xa001;
    const BYTES: usize = 208;
    const TICK_US: u64 = 10_000;
    let modes: u32 = ctx.process.memory.read_value(address)?;
    if modes != 0 && modes != ADJ_OFFSET_SS_READ {
        return Err(Errno::EPERM.into());
    }
    let mut words = [0u64; BYTES / 8];
    let now = ctx.real_time();
    // modes; offset, freq, maxerror, esterror; status, constant, precision, tolerance; time; tick.
    words[0] = modes.into();
    words[7] = 1;
    words[8] = 32_768_000;
    words[9] = now / 1_000_000_000;
    words[10] = now % 1_000_000_000 / 1000;
    words[11] = TICK_US;
    ctx.process.memory.write(address, zerocopy::IntoBytes::as_bytes(&words[..]))?;
    Ok(0)
}

/// timer_create(2).
pub(super) fn timer_create(ctx: &mut Ctx<'_>, [clock, event, id, ..]: [u64; 6]) -> SysResult {
    clock_nanos(ctx, clock as i32)?;
    if matches!(clock as i32, CLOCK_MONOTONIC_RAW | CLOCK_REALTIME_COARSE | CLOCK_MONOTONIC_COARSE) {
        return Err(Errno::EOPNOTSUPP.into());
    }
    demand_alarm(ctx, clock as i32)?;
    // Each brings room for its signal along, which counts as one that waits.
    if is_queue_full(ctx, ctx.process) {
        return Err(Errno::EAGAIN.into());
    }
    let event: Option<Sigevent> = if event == 0 { None } else { Some(ctx.process.memory.read_value(event)?) };
    // It is used up even if there will be no timer.
    let index = ctx.process.posix_timers.new_id();
    let mut timer = PosixTimer {
        expires: None,
        interval_ns: 0,
        generation: 0,
        clock: clock as u32,
        signal: Signal::SIGALRM.raw() as u32,
        thread: None,
        value: index.into(),
        overrun: 0,
        missed: 0,
    };
    if let Some(event) = event {
        timer.value = event.sigev_value;
        timer.signal = event.sigev_signo as u32;
        match event.sigev_notify {
            SIGEV_NONE => timer.signal = 0,
            // The C library makes threads of it; for the kernel it is a signal.
            SIGEV_SIGNAL | SIGEV_THREAD => {}
            SIGEV_THREAD_ID if own_thread(ctx, event.sigev_tid) => timer.thread = Some(Tid(event.sigev_tid as u32)),
            _ => return Err(Errno::EINVAL.into()),
        }
        if event.sigev_notify != SIGEV_NONE && Signal::from_raw(event.sigev_signo).is_none() {
            return Err(Errno::EINVAL.into());
        }
    }
    ctx.process.memory.write_value(id, &index)?;
    ctx.process.posix_timers.by_id.insert(index, timer);
    Ok(0)
}

fn own_thread(ctx: &Ctx<'_>, tid: i32) -> bool {
    ctx.process.threads.iter().any(|own| own.0 as i32 == tid)
}

fn itimerspec(timer: &PosixTimer, now: SimTime) -> Itimerspec {
    let left = timer.expires.map_or(0, |at| at.saturating_since(now).as_nanos().max(1));
    Itimerspec { it_interval: Timespec::from_nanos(timer.interval_ns), it_value: Timespec::from_nanos(left) }
}

/// timer_settime(2).
pub(super) fn timer_settime(ctx: &mut Ctx<'_>, [id, flags, new, old, ..]: [u64; 6]) -> SysResult {
    if new == 0 {
        return Err(Errno::EINVAL.into());
    }
    let request: Itimerspec = ctx.process.memory.read_value(new)?;
    let value = request.it_value.to_nanos().ok_or(Errno::EINVAL)?;
    let interval_ns = request.it_interval.to_nanos().ok_or(Errno::EINVAL)?;
    let (pid, now) = (ctx.process.pid, ctx.now);
    let of_timer = timer_moment(ctx, id)?;
    let clock = posix_timer(ctx.process, id as u32).ok_or(Errno::EINVAL)?.clock as i32;
    let clock_now = clock_nanos(ctx, clock)?;
    let timer = posix_timer(ctx.process, id as u32).ok_or(Errno::EINVAL)?;
    let measures_computing = is_cpu_clock(clock);
    let before = itimerspec(timer, of_timer);
    timer.generation += 1;
    // A stopped timer has no interval (`common_timer_set`).
    timer.interval_ns = if value > 0 { interval_ns } else { 0 };
    timer.overrun = 0;
    timer.missed = 0;
    let absolute = flags as u32 & TIMER_ABSTIME != 0;
    timer.expires = match (value, absolute) {
        (0, _) => None,
        (_, true) if measures_computing => Some(SimTime::from_nanos(value)),
        (_, true) if value < clock_now => Some(overdue(timer, clock_now - value, now)),
        (_, true) => Some(moment_of(ctx.kernel.config.clock, clock, value)),
        (_, false) => Some(of_timer + SimDuration::from_nanos(value)),
    };
    let (generation, thread) = (timer.generation, timer.thread);
    forget_signal(ctx, id as u32, thread);
    if measures_computing {
        ctx.process.arm_cpu_timers();
    } else {
        // What is due already comes with the call.
        ctx.fire_own_timer(id as u32, now);
        if let Some(at) = posix_timer(ctx.process, id as u32).and_then(|timer| timer.expires) {
            ctx.kernel.timers.add(at, TimerKind::Posix { pid, timer: id as u32, generation });
        }
    }
    if old != 0 {
        ctx.process.memory.write_value(old, &before)?;
    }
    Ok(0)
}

/// A first expiry that was due so long ago, perhaps before the experiment: what was missed counts, and the last one is due now.
fn overdue(timer: &mut PosixTimer, behind_ns: u64, now: SimTime) -> SimTime {
    let (missed, since) = match timer.interval_ns {
        0 => (0, 0),
        interval => (behind_ns / interval, behind_ns % interval),
    };
    timer.missed = missed.min(i32::MAX as u64) as u32;
    SimTime::from_nanos(now.as_nanos().saturating_sub(since))
}

/// What the moments of a timer are compared with. EINVAL when there is no such timer.
fn timer_moment(ctx: &mut Ctx<'_>, id: u64) -> Result<SimTime, Errno> {
    let clock = posix_timer(ctx.process, id as u32).ok_or(Errno::EINVAL)?.clock;
    Ok(if is_cpu_clock(clock as i32) { ctx.process.cpu_moment() } else { ctx.now })
}

/// timer_gettime(2).
pub(super) fn timer_gettime(ctx: &mut Ctx<'_>, [id, address, ..]: [u64; 6]) -> SysResult {
    let now = timer_moment(ctx, id)?;
    let value = itimerspec(posix_timer(ctx.process, id as u32).ok_or(Errno::EINVAL)?, now);
    ctx.process.memory.write_value(address, &value)?;
    Ok(0)
}

/// timer_getoverrun(2).
pub(super) fn timer_getoverrun(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    Ok(posix_timer(ctx.process, id as u32).ok_or(Errno::EINVAL)?.overrun.into())
}

/// What a timer has sent and nobody has taken yet is not for what it is from now on.
fn forget_signal(ctx: &mut Ctx<'_>, id: u32, thread: Option<Tid>) {
    ctx.process.pending.forget_timer(id);
    match thread {
        Some(tid) if tid == ctx.thread.tid => ctx.thread.signals.pending.forget_timer(id),
        Some(tid) => {
            if let Some(thread) = ctx.kernel.threads.get_mut(tid.0) {
                thread.signals.pending.forget_timer(id);
            }
        }
        None => {}
    }
}

/// timer_delete(2).
pub(super) fn timer_delete(ctx: &mut Ctx<'_>, [id, ..]: [u64; 6]) -> SysResult {
    let timer = ctx.process.posix_timers.by_id.remove(&(id as u32)).ok_or(Errno::EINVAL)?;
    forget_signal(ctx, id as u32, timer.thread);
    ctx.process.arm_cpu_timers();
    Ok(0)
}

/// timerfd_create(2).
pub(super) fn timerfd_create(ctx: &mut Ctx<'_>, [clock, flags, ..]: [u64; 6]) -> SysResult {
    let (clock, flags) = (clock as i32, flags as u32);
    let known = [CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM];
    if !known.contains(&clock) || flags & !(TFD_NONBLOCK | TFD_CLOEXEC) != 0 {
        return Err(Errno::EINVAL.into());
    }
    demand_alarm(ctx, clock)?;
    let status = O_RDWR | if flags & TFD_NONBLOCK != 0 { O_NONBLOCK } else { 0 };
    let timer = TimerFd { clock, ..TimerFd::default() };
    let file = ctx.kernel.files.insert(OpenFile::new(FileKind::Timer(timer), status));
    Ok(ctx.install(file, flags & TFD_CLOEXEC != 0)?)
}

fn timerfd<'a>(ctx: &'a mut Ctx<'_>, fd: u64) -> Result<&'a mut TimerFd, Errno> {
    let file = ctx.opened(fd)?;
    match &mut ctx.kernel.files[file].kind {
        FileKind::Timer(timer) => Ok(timer),
        _ => Err(Errno::EINVAL),
    }
}

fn timerfd_spec(timer: &TimerFd, now: SimTime) -> Itimerspec {
    Itimerspec {
        it_interval: Timespec::from_nanos(timer.interval_ns),
        it_value: Timespec::from_nanos(timer.remaining_ns(now)),
    }
}

/// timerfd_settime(2).
pub(super) fn timerfd_settime(ctx: &mut Ctx<'_>, [fd, flags, new, old, ..]: [u64; 6]) -> SysResult {
    const ABSTIME: u32 = 1;
    const CANCEL_ON_SET: u32 = 2;
    let flags = flags as u32;
    let request: Itimerspec = ctx.process.memory.read_value(new)?;
    let value = request.it_value.to_nanos().ok_or(Errno::EINVAL)?;
    let interval = request.it_interval.to_nanos().ok_or(Errno::EINVAL)?;
    if flags & !(ABSTIME | CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL.into());
    }
    let file = ctx.opened(fd)?;
    let now = ctx.now;
    let (before, clock) = {
        let timer = timerfd(ctx, fd)?;
        (timerfd_spec(timer, now), timer.clock)
    };
    let late = match clock {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM | CLOCK_TAI => ctx.real_time(),
        _ => ctx.uptime_nanos(),
    };
    let late = late.checked_sub(value).filter(|_| value != 0 && flags & ABSTIME != 0);
    let expires = match (value, flags & ABSTIME != 0) {
        (0, _) => None,
        _ if late.is_some() && interval == 0 => None,
        _ if late.is_some() => late.map(|late| now + SimDuration::from_nanos(interval - late % interval)),
        (_, true) => Some(moment_of(ctx.kernel.config.clock, clock, value).max(now)),
        (_, false) => Some(now + SimDuration::from_nanos(value)),
    };
    ctx.kernel.set_timerfd(file, expires, interval)?;
    if let Some(late) = late {
        // It would have expired so often by now.
        ctx.kernel.expire_timerfd(file, late.checked_div(interval).unwrap_or(0) + 1);
    }
    if old != 0 {
        ctx.process.memory.write_value(old, &before)?;
    }
    Ok(0)
}

/// timerfd_gettime(2).
pub(super) fn timerfd_gettime(ctx: &mut Ctx<'_>, [fd, address, ..]: [u64; 6]) -> SysResult {
    let now = ctx.now;
    timerfd(ctx, fd)?;
    let file = ctx.opened(fd)?;
    ctx.kernel.resume_timerfd(file);
    let value = timerfd_spec(timerfd(ctx, fd)?, now);
    ctx.process.memory.write_value(address, &value)?;
    Ok(0)
}
