//! A simulated process: what its threads share. It stays in its table after its end until its parent has asked for it.

use crate::clock::PosixTimers;
use crate::cpu_timers::CpuTimers;
use crate::credentials::Credentials;
use crate::debug::Debugged;
use crate::fd_table::FdTable;
use crate::ids::{FileId, Pid, Tid};
use crate::limits::Limits;
use crate::locked::LockedRanges;
use crate::memory_use::MemoryUse;
use crate::shared::{Handlers, Key, Memory, Place, Space};
use crate::signal::PendingSignals;
use crate::trace::Trace;
use crate::tty::TtyId;
use base::map::FastSet;
use base::{Cause, SimDuration, SimTime};
use linux_abi::Signal;
use linux_abi::time::CLK_TCK;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a core dump holds unless somebody says otherwise, core(5).
const USUAL_DUMP_FILTER: u32 = 0x33;

/// `setitimer(ITIMER_REAL)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealItimer {
    pub expires: Option<SimTime>,
    pub interval_ns: u64,
    pub generation: u64,
}

/// A timer of `timer_create`. One on a clock of processor time has moments of that (`cpu_timers`).
#[derive(Clone, Copy, Debug)]
pub struct PosixTimer {
    pub expires: Option<SimTime>,
    pub interval_ns: u64,
    pub generation: u64,
    pub clock: u32,
    /// 0 for none (SIGEV_NONE).
    pub signal: u32,
    /// SIGEV_THREAD_ID: the one thread that gets the signal.
    pub thread: Option<Tid>,
    pub value: u64,
    /// What timer_getoverrun(2) tells: of the signal that was taken last.
    pub overrun: u32,
    /// Expiries while its signal waits.
    pub missed: u32,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExitStatus {
    Exited(i32),
    Signaled(i32),
}

/// A process that ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitRecord {
    pub pid: Pid,
    pub status: ExitStatus,
    pub at: SimTime,
}

/// A stop of job control, and what a parent may still ask of it.
#[derive(Debug, Default)]
pub struct JobControl {
    /// The signal that stopped the process; none of its threads runs until SIGCONT.
    pub stopped: Option<i32>,
    /// Threads that could go on, kept until then, in order.
    pub held: Vec<Tid>,
    /// The parent has not been told of the stop yet.
    pub stop_unseen: bool,
    /// The parent has not been told of the continuation yet.
    pub continue_unseen: bool,
    /// It is to get its signal about the continuation when the process runs on.
    pub tells_continuation: bool,
}

#[derive(Debug)]
pub struct Process {
    pub pid: Pid,
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    /// Its controlling terminal.
    pub terminal: Option<TtyId>,
    /// The leader of a session whose terminal was hung up: the group that was in its foreground.
    pub old_foreground: Option<Pid>,
    /// Its memory while it executes.
    pub memory: Memory,
    pub space: Key<Space>,
    pub fds: Key<FdTable>,
    pub place: Key<Place>,
    pub handlers: Key<Handlers>,
    pub limits: Limits,
    pub threads: Vec<Tid>,
    /// Signals to the process as a whole.
    pub pending: PendingSignals,
    /// What its parent gets at its end; 0 for nothing.
    pub exit_signal: i32,
    /// How it ended, from then until its parent asks.
    pub zombie: Option<ExitStatus>,
    pub job: JobControl,
    /// It has executed a program of its own since it was forked.
    pub has_execed: bool,
    /// Programs that it and those before it have executed.
    pub execs: u32,
    /// Those that its parent had executed when it began.
    pub execs_of_parent: u32,
    /// A thread of its parent that waits until it executes a program or ends (CLONE_VFORK).
    pub vfork_waiter: Option<Tid>,
    /// `prctl(PR_SET_CHILD_SUBREAPER)`: orphans below it become its children.
    pub subreaper: bool,
    /// The program's file, as the guest sees it.
    pub exe: Vec<u8>,
    /// The same, open.
    pub(crate) program: Option<FileId>,
    pub started: SimTime,
    pub real_itimer: RealItimer,
    pub cpu_timers: CpuTimers,
    pub posix_timers: PosixTimers,
    /// The thread that was woken to take the signals of the process; the others leave them to it (`complete_signal`).
    pub signal_taker: Option<Tid>,
    /// The thread that was chosen last where the main thread could not take a signal.
    pub(crate) signal_turn: Option<Tid>,
    /// System calls that it made.
    pub calls: u64,
    /// The number of the call in whose place SIGKILL ends it; u64::MAX for none.
    pub last_call: u64,
    /// Processor time of its children that ended and that it waited for, and of theirs, in microseconds.
    pub children_cpu_us: u64,
    pub(crate) memory_use: MemoryUse,
    /// Set once the debugger that the run is under has met it.
    pub debugged: Option<Debugged>,
    /// Its strace-like log, if the experiment asks for one.
    pub trace: Option<Trace>,
    /// Set when the process is over: it ends before any of its threads runs on.
    pub ending: Option<ExitStatus>,
    /// The nice value of its main thread when that ended.
    pub nice_at_end: i32,
    /// It ended in a way that dumps core, and its limit lets it: wait(2), WCOREDUMP.
    pub dumped: bool,
    /// What `mlock` locked of its memory.
    pub locked: LockedRanges,
    /// What `ioprio_set` set.
    pub io_priority: u16,
    /// As that of all processes with the same memory.
    pub dumpable: bool,
    /// Those of its main thread, for everyone who asks about the process.
    pub credentials: Arc<Credentials>,
    /// What `/proc/PID/oom_score_adj` and `/proc/PID/loginuid` were set to.
    pub oom_score_adj: i32,
    /// What `/proc/PID/coredump_filter` was set to.
    pub dump_filter: u32,
    pub login_uid: u32,
    /// What it has registered for by membarrier(2).
    pub barriers: u32,
    /// prctl(PR_SET_THP_DISABLE). Without effect.
    pub no_huge_pages: bool,
    /// What personality(2) set.
    pub personality: u32,
    /// For so many runs of its threads they are expected to get into loops that wait for a change (`computing`).
    pub spins_expected: u16,
    /// The simulated time that its computing took.
    pub computed: SimDuration,
    /// It has computed past its budget (`computing`).
    pub over_budget: bool,
    /// What it reached of the real machine (`escapes`).
    pub(crate) escapes: BTreeSet<&'static str>,
    /// It has had memory made executable that is no image.
    pub(crate) makes_code: bool,
    /// It has set the base of GS.
    pub(crate) uses_gs: bool,
    /// Calls of this program that were reported already: unsupported, or refused for want of the machine's memory.
    pub reported: FastSet<u64>,
    /// Why the machine has refused something to this process: each is reported once.
    pub refusals: BTreeSet<Cause>,
}

/// The parts of a new process, each counted for it already.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub space: Key<Space>,
    pub fds: Key<FdTable>,
    pub place: Key<Place>,
    pub handlers: Key<Handlers>,
}

impl Process {
    pub fn new(pid: Pid, parent: Pid, parts: Parts, started: SimTime) -> Self {
        let Parts { space, fds, place, handlers } = parts;
        Process {
            pid,
            parent,
            group: pid,
            session: pid,
            terminal: None,
            old_foreground: None,
            memory: Memory::default(),
            space,
            fds,
            place,
            handlers,
            limits: Limits::default(),
            threads: vec![pid.main_thread()],
            pending: PendingSignals::default(),
            exit_signal: Signal::SIGCHLD.raw(),
            zombie: None,
            job: JobControl::default(),
            has_execed: false,
            execs: 0,
            execs_of_parent: 0,
            vfork_waiter: None,
            subreaper: false,
            exe: Vec::new(),
            program: None,
            started,
            real_itimer: RealItimer::default(),
            cpu_timers: CpuTimers::default(),
            locked: LockedRanges::default(),
            posix_timers: PosixTimers::default(),
            signal_taker: None,
            signal_turn: None,
            calls: 0,
            last_call: u64::MAX,
            children_cpu_us: 0,
            memory_use: MemoryUse::default(),
            debugged: None,
            trace: None,
            ending: None,
            nice_at_end: 0,
            dumped: false,
            io_priority: 0,
            dumpable: true,
            credentials: Arc::default(),
            oom_score_adj: 0,
            dump_filter: USUAL_DUMP_FILTER,
            login_uid: u32::MAX,
            barriers: 0,
            no_huge_pages: false,
            personality: 0,
            spins_expected: 0,
            computed: SimDuration::ZERO,
            over_budget: false,
            escapes: BTreeSet::new(),
            makes_code: false,
            uses_gs: false,
            reported: FastSet::default(),
            refusals: BTreeSet::new(),
        }
    }

    /// What `fork` leaves of this process in its child: neither signals that wait, nor timers, nor children.
    pub fn child(&self, pid: Pid, parts: Parts, started: SimTime) -> Process {
        Process {
            group: self.group,
            session: self.session,
            terminal: self.terminal,
            limits: self.limits,
            exe: self.exe.clone(),
            io_priority: self.io_priority,
            dumpable: self.dumpable,
            oom_score_adj: self.oom_score_adj,
            dump_filter: self.dump_filter,
            login_uid: self.login_uid,
            barriers: self.barriers,
            no_huge_pages: self.no_huge_pages,
            personality: self.personality,
            spins_expected: self.spins_expected,
            makes_code: self.makes_code,
            uses_gs: self.uses_gs,
            reported: self.reported.clone(),
            execs: self.execs,
            execs_of_parent: self.execs,
            ..Process::new(pid, self.pid, parts, started)
        }
    }

    /// What CPU clocks show: a microsecond for each system call, and computing where that took simulated time.
    pub fn cpu_micros(&self) -> u64 {
        self.cpu_nanos() / 1_000
    }

    /// The same in nanoseconds.
    pub fn cpu_nanos(&self) -> u64 {
        self.calls * 1_000 + self.computed.as_nanos()
    }

    /// The same in clock ticks, proc_pid_stat(5).
    pub fn ticks(&self) -> i64 {
        (self.cpu_nanos() / (1_000_000_000 / CLK_TCK)) as i64
    }

    /// The program's name without its directory.
    pub fn program_name(&self) -> String {
        let start = self.exe.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
        String::from_utf8_lossy(&self.exe[start..]).into_owned()
    }
}
