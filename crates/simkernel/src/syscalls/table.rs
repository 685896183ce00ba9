//! Every x86-64 system call: how far it is simulated, why not further, and by which function.
//!
//! `docs/system-calls.md` is generated from this table; a test keeps the two equal.

use super::{Handler, futex, memory, poll, process, signals, system, time, unsupported};
use linux_abi::nr::{self, *};

/// How much of a call's behaviour on Linux a guest gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// What programs can observe agrees with Linux.
    Full,
    /// Some of it is missing.
    Partial(&'static str),
    /// The call answers ENOSYS.
    Unsupported(&'static str),
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub number: u32,
    pub support: Support,
    pub handler: Handler,
}

const fn full(number: u32, handler: Handler) -> Entry {
    Entry { number, support: Support::Full, handler }
}

const fn partial(number: u32, handler: Handler, what: &'static str) -> Entry {
    Entry { number, support: Support::Partial(what), handler }
}

const fn missing(number: u32, why: &'static str) -> Entry {
    Entry { number, support: Support::Unsupported(why), handler: unsupported }
}

const fn missing_with(number: u32, handler: Handler, why: &'static str) -> Entry {
    Entry { number, support: Support::Unsupported(why), handler }
}

/// Handlers by number.
pub(super) static HANDLERS: [Handler; nr::COUNT] = {
    let mut handlers: [Handler; nr::COUNT] = [unsupported; nr::COUNT];
    let mut i = 0;
    while i < TABLE.len() {
        handlers[TABLE[i].number as usize] = TABLE[i].handler;
        i += 1;
    }
    handlers
};

/// One entry per call, by family.
pub const TABLE: &[Entry] = &[
    // Memory.
    partial(mmap, memory::mmap, "MAP_HUGETLB and fixed addresses outside the process's arena are refused; large PROT_NONE mappings are not enforced"),
    partial(munmap, memory::munmap, "the guest's own instructions may still touch the range"),
    full(mprotect, memory::mprotect),
    partial(mremap, memory::mremap, "MREMAP_DONTUNMAP is refused; shared mappings do not move"),
    full(brk, memory::brk),
    partial(madvise, memory::madvise, "MADV_DONTNEED is obeyed, other advice is accepted without effect"),
    full(msync, memory::msync),
    partial(mlock, memory::lock_range, "accepted without effect"),
    partial(mlock2, memory::lock_range, "accepted without effect"),
    partial(munlock, memory::lock_range, "accepted without effect"),
    partial(mlockall, memory::lock_all, "accepted without effect"),
    partial(munlockall, memory::lock_all, "accepted without effect"),
    // Processes and threads.
    partial(clone, process::clone, "threads only: new processes are not supported yet"),
    partial(clone3, process::clone3, "threads only: new processes are not supported yet"),
    missing_with(fork, process::fork, "new processes are not supported yet"),
    missing_with(vfork, process::fork, "new processes are not supported yet"),
    full(execve, process::execve),
    full(exit, process::exit),
    full(exit_group, process::exit_group),
    partial(wait4, process::wait4, "there are no child processes yet"),
    partial(waitid, process::waitid, "there are no child processes yet"),
    full(getpid, process::getpid),
    full(getppid, process::getppid),
    full(gettid, process::gettid),
    full(getpgrp, process::getpgrp),
    full(getpgid, process::getpgid),
    full(getsid, process::getsid),
    partial(setpgid, process::setpgid, "a process is the only one of its group"),
    partial(setsid, process::setsid, "a process is the only one of its session"),
    full(getuid, process::root_id),
    full(geteuid, process::root_id),
    full(getgid, process::root_id),
    full(getegid, process::root_id),
    partial(setuid, process::set_id, "accepted without effect"),
    partial(setgid, process::set_id, "accepted without effect"),
    partial(setreuid, process::set_id, "accepted without effect"),
    partial(setregid, process::set_id, "accepted without effect"),
    partial(setresuid, process::set_id, "accepted without effect"),
    partial(setresgid, process::set_id, "accepted without effect"),
    partial(setfsuid, process::set_id, "accepted without effect"),
    partial(setfsgid, process::set_id, "accepted without effect"),
    partial(setgroups, process::set_id, "accepted without effect"),
    full(getresuid, process::getresid),
    full(getresgid, process::getresid),
    full(getgroups, process::getgroups),
    full(set_tid_address, process::set_tid_address),
    partial(arch_prctl, process::arch_prctl, "the GS base belongs to the simulator"),
    partial(prctl, process::prctl, "names, parent-death signal, dumpable, no-new-privileges; no seccomp"),
    full(sched_yield, process::sched_yield),
    // Signals.
    full(rt_sigaction, signals::rt_sigaction),
    full(rt_sigprocmask, signals::rt_sigprocmask),
    full(rt_sigpending, signals::rt_sigpending),
    full(rt_sigsuspend, signals::rt_sigsuspend),
    full(rt_sigtimedwait, signals::rt_sigtimedwait),
    full(rt_sigreturn, signals::rt_sigreturn),
    full(rt_sigqueueinfo, signals::rt_sigqueueinfo),
    full(rt_tgsigqueueinfo, signals::rt_tgsigqueueinfo),
    full(sigaltstack, signals::sigaltstack),
    full(kill, signals::kill),
    full(tkill, signals::tkill),
    full(tgkill, signals::tgkill),
    full(pause, signals::pause),
    // Futexes.
    partial(futex, futex::futex, "no priority inheritance"),
    full(set_robust_list, futex::set_robust_list),
    full(get_robust_list, futex::get_robust_list),
    missing(rseq, "the C library works without it"),
    // Time.
    full(clock_gettime, time::clock_gettime),
    full(clock_getres, time::clock_getres),
    partial(clock_settime, time::clock_settime, "the clock is the experiment's: EPERM"),
    partial(settimeofday, time::clock_settime, "the clock is the experiment's: EPERM"),
    full(gettimeofday, time::gettimeofday),
    full(linux_abi::nr::time, time::time),
    full(nanosleep, time::nanosleep),
    full(clock_nanosleep, time::clock_nanosleep),
    full(alarm, time::alarm),
    partial(getitimer, time::getitimer, "timers of CPU time never expire"),
    partial(setitimer, time::setitimer, "timers of CPU time never expire"),
    full(timer_create, time::timer_create),
    full(timer_settime, time::timer_settime),
    full(timer_gettime, time::timer_gettime),
    full(timer_getoverrun, time::timer_getoverrun),
    full(timer_delete, time::timer_delete),
    full(timerfd_create, time::timerfd_create),
    full(timerfd_settime, time::timerfd_settime),
    full(timerfd_gettime, time::timerfd_gettime),
    // Waiting for descriptors.
    full(linux_abi::nr::poll, poll::poll),
    full(ppoll, poll::ppoll),
    full(select, poll::select),
    full(pselect6, poll::pselect6),
    full(epoll_create, poll::epoll_create),
    full(epoll_create1, poll::epoll_create1),
    full(epoll_ctl, poll::epoll_ctl),
    full(epoll_wait, poll::epoll_wait),
    full(epoll_pwait, poll::epoll_pwait),
    full(epoll_pwait2, poll::epoll_pwait2),
    // The system.
    full(uname, system::uname),
    full(sysinfo, system::sysinfo),
    full(getrandom, system::getrandom),
    partial(prlimit64, system::prlimit64, "of the calling process; enforced: NOFILE, FSIZE"),
    full(getrlimit, system::getrlimit),
    full(setrlimit, system::setrlimit),
    partial(getrusage, system::getrusage, "guests take no CPU time: it shows the time since the start"),
    partial(times, system::times, "guests take no CPU time"),
    full(getcpu, system::getcpu),
    full(sched_getaffinity, system::sched_getaffinity),
    full(sched_setaffinity, system::sched_setaffinity),
    full(sched_getparam, system::sched_getparam),
    partial(sched_setparam, system::sched_other, "accepted without effect"),
    full(sched_getscheduler, system::sched_other),
    partial(sched_setscheduler, system::sched_other, "accepted without effect"),
    full(sched_get_priority_max, system::priority_max),
    full(sched_get_priority_min, system::priority_min),
    full(sched_rr_get_interval, system::rr_interval),
    full(getpriority, system::getpriority),
    partial(setpriority, system::setpriority, "accepted without effect"),
    full(membarrier, system::membarrier),
    partial(sethostname, system::set_name, "names are the plan's: EPERM"),
    partial(setdomainname, system::set_name, "names are the plan's: EPERM"),
    partial(personality, system::personality, "PER_LINUX only"),
    full(capget, system::capget),
    partial(capset, system::capset, "accepted without effect"),
];
