//! A guest thread: its call in progress, what it waits for, its signals. Its machine state is the vcpu.

use crate::clock_loops::ClockReads;
use crate::computing::Computing;
use crate::counting::Interval;
use crate::credentials::Credentials;
use crate::fd_table::FdTable;
use crate::futex::FutexKey;
use crate::held::Held;
use crate::ids::{FileId, Pid, Tid};
use crate::intervals::Between;
use crate::ipc::messages::Message;
use crate::locks::Lock;
use crate::memory_policy::MemoryPolicy;
use crate::outcome::Restart;
use crate::processors::Placement;
use crate::recent_calls::RecentCalls;
use crate::schedule::Schedule;
use crate::seccomp::Filter;
use crate::shared::{Key, Place};
use crate::signal::ThreadSignals;
use crate::spree::{Spree, Wakes};
use crate::syscalls::Area;
use crate::wait::Wake;
use base::SimTime;
use guest::{Spin, Vcpu};
use linux_abi::signal::StackT;
use linux_abi::{Errno, Signal};
use smallvec::SmallVec;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadState {
    /// In `Kernel::runnable`, among those that wait for a processor, or executing.
    Runnable,
    /// Inside a call that waits.
    Blocked,
    /// It ended; its place is kept until its process is gone.
    Dead,
}

/// What a blocked thread is registered with; emptied when it is woken.
#[derive(Debug, Default)]
pub struct WaitSet {
    pub(crate) files: SmallVec<[FileId; 2]>,
    pub(crate) futex: Option<FutexKey>,
    /// Those of `futex_waitv`.
    pub(crate) futexes: SmallVec<[FutexKey; 1]>,
    /// The record lock that it waits for, and the file.
    pub(crate) lock: Option<(u64, Lock)>,
    pub(crate) deadline: bool,
}

/// A call that may be executed several times until it is complete: what must survive from one execution to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingCall {
    pub number: u64,
    pub args: [u64; 6],
    /// When it was executed first.
    pub started: SimTime,
    /// Fixed by the first execution. `Some(SimTime::MAX)` waits without end.
    pub deadline: Option<SimTime>,
    /// What was done so far, in the call's own unit (bytes, messages).
    pub progress: u64,
}

/// Of the experiment's processes, in nanoseconds.
const TIMER_SLACK: u64 = 50_000;

#[derive(Debug)]
pub struct Thread {
    pub tid: Tid,
    pub pid: Pid,
    pub vcpu: Vcpu,
    pub state: ThreadState,
    /// The call in progress; meaningful while the thread is blocked, or runnable with `wake` other than `First`.
    pub call: PendingCall,
    /// Why the call is executed.
    pub wake: Wake,
    pub wait: WaitSet,
    /// Open files that the call in progress keeps while it waits.
    pub(crate) held: SmallVec<[Held; 1]>,
    /// The earliest moment for which the host's timers hold a deadline of this thread; MAX for none.
    pub armed: SimTime,
    pub signals: ThreadSignals,
    /// Who it acts as.
    pub credentials: Arc<Credentials>,
    /// `comm`: what `prctl(PR_SET_NAME)` set, at most 15 bytes.
    pub name: Vec<u8>,
    /// Where to write 0 and wake a futex at the end (`set_tid_address`, CLONE_CHILD_CLEARTID); 0 for nowhere.
    pub clear_child_tid: u64,
    /// Where a forked thread writes its number before it runs (CLONE_CHILD_SETTID); 0 for nowhere.
    pub set_child_tid: u64,
    /// A thread of its process that waits until this one ends (CLONE_VFORK with CLONE_THREAD).
    pub vfork_waiter: Option<Tid>,
    /// `sigaltstack`; size 0 for none.
    pub altstack: StackT,
    /// Descriptors, and working directory and umask, that it has for itself since it gave up sharing those of its process (unshare).
    pub own_fds: Option<Key<FdTable>>,
    pub own_place: Option<Key<Place>>,
    /// What another thread handed over that sent the message for which this one waited.
    pub delivered: Option<Result<Message, Errno>>,
    /// Asked to yield by the call in progress.
    pub yields: bool,
    pub(crate) yields_in_a_row: Spree,
    /// Calls before its last sleep, when that was for their number.
    pub(crate) spree: Spree,
    pub(crate) clock_reads: ClockReads,
    /// The call in progress woke somebody who is to run first.
    pub gives_way: bool,
    /// It was let run by the thread that woke it, and lets nobody else run before it waits or its process has made so many calls.
    pub(crate) undisturbed_until: u64,
    /// Its wakes of futexes that found somebody.
    pub(crate) wakes: Wakes,
    /// Parked between two instructions of its program, not in a call.
    pub sleeping: bool,
    /// The loop in which it rests until what that reads has changed.
    pub spin: Option<Box<Spin>>,
    pub computing: Computing,
    /// Where it stands between two calls, where that is of interest.
    pub(crate) interval: Interval,
    pub(crate) between: Between,
    /// The deadline of a call that is restarted by ERESTART_RESTARTBLOCK.
    pub resumed_deadline: Option<SimTime>,
    /// The restart kind of a call that a signal ended, while a stop keeps the thread from deciding what becomes of the call.
    pub interrupted: Option<Restart>,
    /// The head of the robust futex list (`set_robust_list`); 0 when none was set.
    pub robust_list: u64,
    /// Its area for restartable sequences.
    pub rseq: Option<Area>,
    /// What `setpriority` set.
    pub nice: i32,
    pub schedule: Schedule,
    pub placement: Placement,
    /// prctl(PR_SET_TIMERSLACK): what it is, and what 0 resets it to, in nanoseconds. Without effect.
    pub timer_slack: [u64; 2],
    /// `prctl(PR_SET_PDEATHSIG)`, 0 for none.
    pub parent_death_signal: i32,
    /// prctl(PR_SET_TSC): reading the time-stamp counter is SIGSEGV.
    pub tsc_faults: bool,
    /// prctl(PR_SET_NO_NEW_PRIVS).
    pub no_new_privileges: bool,
    pub(crate) memory_policy: MemoryPolicy,
    /// What judges its calls, once it has asked for that.
    pub seccomp: Option<Arc<Filter>>,
    /// Its last calls, for a report of its crash.
    pub recent: RecentCalls,
}

impl Thread {
    pub fn new(tid: Tid, pid: Pid) -> Self {
        Thread {
            tid,
            pid,
            vcpu: Vcpu::new(),
            state: ThreadState::Runnable,
            call: PendingCall::default(),
            wake: Wake::First,
            wait: WaitSet::default(),
            held: SmallVec::new(),
            armed: SimTime::MAX,
            signals: ThreadSignals::default(),
            credentials: Arc::default(),
            name: Vec::new(),
            clear_child_tid: 0,
            set_child_tid: 0,
            vfork_waiter: None,
            altstack: StackT::default(),
            own_fds: None,
            own_place: None,
            delivered: None,
            yields: false,
            yields_in_a_row: Spree::of_yields(tid),
            spree: Spree::of_thread(),
            gives_way: false,
            undisturbed_until: 0,
            wakes: Wakes::default(),
            clock_reads: ClockReads::new(),
            sleeping: false,
            spin: None,
            computing: Computing::default(),
            interval: Interval::default(),
            between: Between::default(),
            resumed_deadline: None,
            interrupted: None,
            robust_list: 0,
            rseq: None,
            nice: 0,
            schedule: Schedule::default(),
            placement: Placement::default(),
            timer_slack: [TIMER_SLACK; 2],
            parent_death_signal: 0,
            tsc_faults: false,
            no_new_privileges: false,
            memory_policy: MemoryPolicy::default(),
            seccomp: None,
            recent: RecentCalls::default(),
        }
    }

    /// What it is sent when its process loses its parent.
    pub fn death_signal(&self) -> Option<Signal> {
        Signal::from_raw(self.parent_death_signal)
    }
}
