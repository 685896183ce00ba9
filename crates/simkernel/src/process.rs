//! A simulated process: what its threads share.

use crate::fd_table::FdTable;
use crate::ids::{Pid, SpaceId, Tid};
use crate::limits::Limits;
use crate::signal::ProcessSignals;
use crate::trace::Trace;
use base::SimTime;
use base::map::FastSet;
use guest::AddressSpace;

/// `setitimer(ITIMER_REAL)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealItimer {
    pub expires: Option<SimTime>,
    pub interval_ns: u64,
    pub generation: u64,
}

/// A timer of `timer_create`.
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
    pub overrun: u32,
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

#[derive(Debug)]
pub struct Process {
    pub pid: Pid,
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    pub memory: AddressSpace,
    pub space: SpaceId,
    pub fds: FdTable,
    /// Absolute, as the guest sees it, without `.`, `..` and symbolic links.
    pub cwd: Vec<u8>,
    pub umask: u32,
    pub limits: Limits,
    pub threads: Vec<Tid>,
    pub children: Vec<Pid>,
    pub signals: ProcessSignals,
    /// The program's file, as the guest sees it.
    pub exe: Vec<u8>,
    pub argv: Vec<Vec<u8>>,
    pub envp: Vec<Vec<u8>>,
    pub started: SimTime,
    pub real_itimer: RealItimer,
    pub posix_timers: Vec<Option<PosixTimer>>,
    /// System calls that it made.
    pub calls: u64,
    /// Its strace-like log, if the experiment asks for one.
    pub trace: Option<Trace>,
    /// Set when the process is over: it ends before any of its threads runs on.
    pub ending: Option<ExitStatus>,
    /// `prctl(PR_SET_PDEATHSIG)`, 0 for none.
    pub parent_death_signal: i32,
    /// What `setpriority` set.
    pub nice: i32,
    pub dumpable: bool,
    pub no_new_privileges: bool,
    /// Calls that were already reported as unsupported for this program.
    pub reported: FastSet<u64>,
}

impl Process {
    pub fn new(pid: Pid, parent: Pid, memory: AddressSpace, space: SpaceId, started: SimTime) -> Self {
        Process {
            pid,
            parent,
            group: pid,
            session: pid,
            memory,
            space,
            fds: FdTable::default(),
            cwd: b"/".to_vec(),
            umask: 0o022,
            limits: Limits::default(),
            threads: vec![pid.main_thread()],
            children: Vec::new(),
            signals: ProcessSignals::default(),
            exe: Vec::new(),
            argv: Vec::new(),
            envp: Vec::new(),
            started,
            real_itimer: RealItimer::default(),
            posix_timers: Vec::new(),
            calls: 0,
            trace: None,
            ending: None,
            parent_death_signal: 0,
            nice: 0,
            dumpable: true,
            no_new_privileges: false,
            reported: FastSet::default(),
        }
    }

    /// What CPU clocks show: guests take no simulated time, so a microsecond for each system call.
    pub fn cpu_nanos(&self) -> u64 {
        self.calls * 1_000
    }

    /// The program's name without its directory.
    pub fn program_name(&self) -> String {
        let start = self.exe.iter().rposition(|&b| b == b'/').map_or(0, |i| i + 1);
        String::from_utf8_lossy(&self.exe[start..]).into_owned()
    }
}
