//! The simulated Linux of one host: what its processes share, and the waking of threads.
//!
//! A worker that holds the host calls in three ways: it fires timers that are due, it takes threads from `runnable` and executes
//! them (the process and the thread are taken out of their tables meanwhile and reach handlers through [`Ctx`]), and it
//! delivers packets to the socket stack. Nothing here is shared with another host.

use crate::computing::{ComputingCounts, Moment, Spinner};
use crate::crash::Crash;
use crate::family::Family;
use crate::files::inotify::Watchers;
use crate::files::output::Output;
use crate::files::pipe::Pipe;
use crate::files::spliced::Spliced;
use crate::files::{FileKind, FileTable, OpenFile};
use crate::futex::Futexes;
use crate::host::HostConfig;
use crate::ids::{FIRST_ID, FileId, IdTable, Pid, Tid};
use crate::intervals::Intervals;
use crate::ipc::Ipc;
use crate::leases::Leases;
use crate::locks::Locks;
use crate::net::Network;
use crate::process::{ExitRecord, Process};
use crate::processors::Processors;
use crate::profiling::Profiling;
use crate::program_files::ProgramFiles;
use crate::provenance::Waker;
use crate::shared::Shared;
use crate::signal::SigSet;
use crate::thread::{Thread, ThreadState};
use crate::time_stamp::TimeStamp;
use crate::timers::{TimerKind, Timers};
use crate::tty::Terminals;
use crate::unix::UnixSockets;
use crate::vfs::Vfs;
use crate::vfs::settings::Settings;
use crate::wait::{Events, Wake, Watcher};
use base::map::FastMap;
use base::{Interferences, Rng, SimTime};
use guest::HostRegion;
use linux_abi::Errno;
use linux_abi::event::{EPOLLEXCLUSIVE, EpollEvent};
use linux_abi::fs::O_ASYNC;
use linux_abi::signal::Siginfo;
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A remark for the run's log: something that a guest asked for and that is not simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub pid: Pid,
    pub program: String,
    pub message: String,
}

#[derive(Debug)]
pub struct Kernel {
    pub config: HostConfig,
    pub processes: IdTable<Process>,
    pub threads: IdTable<Thread>,
    /// What processes may have in common.
    pub shared: Shared,
    pub family: Family,
    /// Threads that live, and zombies: what RLIMIT_NPROC counts.
    pub(crate) tasks: u64,
    pub files: FileTable,
    pub(crate) program_files: ProgramFiles,
    pub pipes: Slab<Pipe>,
    pub(crate) spliced: Spliced,
    /// Somebody looks at calls: a debugger, or the record of the run.
    pub(crate) watches_calls: bool,
    pub(crate) records_calls: bool,
    pub(crate) waker: Waker,
    /// Samples for a profile; None where none are taken.
    pub(crate) profiling: Option<Box<Profiling>>,
    /// What is measured, or modelled, of what threads execute between two calls.
    pub(crate) intervals: Option<Box<Intervals>>,
    /// What threads execute between two calls is looked at, or takes time.
    pub(crate) watches_intervals: bool,
    pub terminals: Terminals,
    /// Signals that the process that executes has caused to itself in a way that cannot reach it.
    pub(crate) own_signals: Vec<Siginfo>,
    /// The process and the thread that execute, which are out of their tables meanwhile.
    pub(crate) executing: Option<(Pid, Tid)>,
    /// The open files that are descriptors of signals.
    pub(crate) signalfds: BTreeSet<FileId>,
    /// The signals of the thread that looks at files at the moment: what descriptors of signals show.
    pub(crate) caller_pending: SigSet,
    pub futexes: Futexes,
    pub timers: Timers,
    pub locks: Locks,
    pub leases: Leases,
    pub ipc: Ipc,
    /// Who hears of changes of files.
    pub watchers: Watchers,
    pub vfs: Vfs,
    pub net: Network,
    pub(crate) unix: UnixSockets,
    /// The moment at which the host executes: set by every entry point that a worker calls.
    pub now: SimTime,
    pub(crate) outputs: Vec<Output>,
    /// What guests have written to standard output and error.
    pub(crate) output_bytes: u64,
    /// Writes that were refused for the limit of outputs.
    pub outputs_refused: u64,
    /// A buffer for moving bytes, kept for its memory.
    pub(crate) scratch: Vec<u8>,
    /// Threads that can go on, in the order in which they became able to.
    pub runnable: VecDeque<Tid>,
    pub(crate) processors: Processors,
    /// The first of `runnable` waits for the fixed addresses: see [`Kernel::run_threads`].
    pub(crate) waits_for_fixed: bool,
    /// How often threads were given the processor.
    pub turns: u64,
    /// Threads of programs at fixed addresses have run, or were about to; whoever asks sets it back.
    pub used_fixed: bool,
    /// What `getrandom` and `/dev/urandom` give out.
    pub random: Rng,
    /// Threads that rest in loops until something changes, in the order in which they came to it.
    pub(crate) spinners: Vec<Spinner>,
    pub(crate) moment: Moment,
    pub computing: ComputingCounts,
    /// In what the host depended on the machine.
    pub interferences: Interferences,
    /// How far the threads that run may run on.
    pub(crate) until: SimTime,
    /// Calls by number, executions after a wait not counted again.
    pub call_counts: Box<[u64; linux_abi::nr::COUNT]>,
    pub reports: Vec<Report>,
    /// The debugger has met the process that it wants.
    pub debugger_has_met: bool,
    /// Crashes of guests, in order.
    pub crashes: Vec<Crash>,
    /// Room for what `epoll_wait` finds.
    pub(crate) epoll_scratch: Vec<EpollEvent>,
    /// The host's part of the arenas.
    pub region: HostRegion,
    /// Calls that answered ENOSYS because they are not simulated, by number.
    pub unsupported_calls: FastMap<u64, u64>,
    /// System calls that no rewriting covered, by process and the address behind the instruction: where, and how often.
    pub missed_sites: FastMap<(Pid, u64), (String, u64)>,
    /// What guests reached of the real machine, and how often (`escapes`).
    pub escapes: BTreeMap<&'static str, u64>,
    /// Processes that ended, until the host asks.
    pub(crate) exits: Vec<ExitRecord>,
    next_id: u32,
    pub(crate) time_stamp: TimeStamp,
}

impl Kernel {
    pub fn new(config: HostConfig) -> Self {
        let random = config.seeds.stream(&config.name, "getrandom");
        let time_stamp = TimeStamp::new(config.seeds.stream(&config.name, "time stamps"));
        let vfs = Vfs::new(&config);
        let net = Network::new(&config);
        let region = HostRegion::new(config.id.0, config.hosts.len() as u32);
        let first_id = config.first_id;
        let processors = Processors::new(config.processors);
        let watches_calls = config.debug.is_some();
        let watches_intervals = config.computing.speed.is_some();
        Kernel {
            config,
            processes: IdTable::from(first_id),
            threads: IdTable::from(first_id),
            shared: Shared { settings: Settings::new(net.stack.config()), ..Shared::default() },
            family: Family::default(),
            tasks: 0,
            files: FileTable::default(),
            pipes: Slab::new(),
            program_files: ProgramFiles::default(),
            spliced: Spliced::default(),
            watches_calls,
            records_calls: false,
            waker: Waker::default(),
            profiling: None,
            intervals: None,
            watches_intervals,
            terminals: Terminals::default(),
            own_signals: Vec::new(),
            executing: None,
            signalfds: BTreeSet::new(),
            caller_pending: SigSet::EMPTY,
            futexes: Futexes::default(),
            timers: Timers::default(),
            locks: Locks::default(),
            leases: Leases::default(),
            ipc: Ipc::default(),
            watchers: Watchers::default(),
            vfs,
            net,
            unix: UnixSockets::default(),
            now: SimTime::ZERO,
            outputs: Vec::new(),
            output_bytes: 0,
            outputs_refused: 0,
            scratch: Vec::new(),
            runnable: VecDeque::new(),
            processors,
            waits_for_fixed: false,
            used_fixed: false,
            turns: 0,
            random,
            spinners: Vec::new(),
            moment: Moment::new(SimTime::ZERO),
            computing: ComputingCounts::default(),
            interferences: Interferences::default(),
            until: SimTime::MAX,
            call_counts: Box::new([0; linux_abi::nr::COUNT]),
            reports: Vec::new(),
            crashes: Vec::new(),
            debugger_has_met: false,
            epoll_scratch: Vec::new(),
            region,
            unsupported_calls: FastMap::default(),
            missed_sites: FastMap::default(),
            escapes: BTreeMap::new(),
            exits: Vec::new(),
            next_id: first_id,
            time_stamp,
        }
    }

    /// A number of a process or thread as names of files, logs and statistics have it: as if the host's first one were [`FIRST_ID`], so that
    /// they are the same whatever the seed. Other numbers (init's) stay.
    pub fn outer_id(&self, id: u32) -> u32 {
        id.checked_sub(self.config.first_id).map_or(id, |index| index + FIRST_ID)
    }

    /// An unused process or thread number.
    pub fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// What follows happens at this moment.
    #[inline]
    pub(crate) fn set_now(&mut self, now: SimTime) {
        self.now = now;
        self.net.stack.set_trace_time(now);
    }

    /// When the earliest timer is due.
    pub fn next_timer(&self) -> Option<SimTime> {
        self.timers.next()
    }

    /// Fires every timer that is due at `now`. No thread may be executing.
    pub fn fire_timers(&mut self, now: SimTime) {
        self.set_now(now);
        self.net.stack.handle_timers(now);
        self.wakes_by_timer();
        while let Some(kind) = self.timers.pop_due(now) {
            match kind {
                TimerKind::ThreadDeadline { tid } => self.fire_deadline(tid, now),
                TimerKind::TimerFd { file, generation } => self.fire_timerfd(file, generation, now),
                TimerKind::RealItimer { pid, generation } => self.fire_real_itimer(pid, generation, now),
                TimerKind::Posix { pid, timer, generation } => self.fire_posix_timer(pid, timer, generation, now),
            }
        }
    }

    fn fire_deadline(&mut self, tid: Tid, now: SimTime) {
        let Some(thread) = self.threads.get_mut(tid.0) else { return };
        if thread.armed <= now {
            thread.armed = SimTime::MAX;
        }
        if thread.state != ThreadState::Blocked || !thread.wait.deadline {
            return;
        }
        match thread.call.deadline {
            Some(deadline) if deadline <= now => {
                self.wake(tid, Wake::TimedOut);
            }
            Some(deadline) => arm(&mut self.timers, thread, deadline),
            None => {}
        }
    }

    fn fire_timerfd(&mut self, id: FileId, generation: u64, now: SimTime) {
        let Some(OpenFile { kind: FileKind::Timer(timer), .. }) = self.files.get_mut(id) else { return };
        if timer.generation != generation {
            return;
        }
        if timer.fire(now) {
            self.notify(id, Events::READABLE);
        } else if let Some(at) = timer.next_look().filter(|_| timer.is_hasty() && !timer.rests) {
            self.timers.add(at, TimerKind::TimerFd { file: id, generation });
        }
    }

    /// Somebody looks at a timer that has expired: it goes on.
    pub(crate) fn resume_timerfd(&mut self, id: FileId) {
        let FileKind::Timer(timer) = &mut self.files[id].kind else { return };
        if timer.resume(self.now)
            && let Some(at) = timer.next_look()
        {
            let generation = timer.generation;
            self.timers.add(at, TimerKind::TimerFd { file: id, generation });
        }
    }

    /// Something happened to a file: threads that wait for one of these events become runnable, interests of epoll ready.
    #[inline]
    pub fn notify(&mut self, file: FileId, events: Events) {
        let Some(open) = self.files.get(file) else { return };
        let has_watchers = !open.queue.is_empty();
        if open.status & O_ASYNC != 0 {
            self.send_io_signal(file, events);
        }
        if has_watchers {
            self.notify_watchers(file, events);
        }
    }

    pub(crate) fn notify_watchers(&mut self, file: FileId, events: Events) {
        if self.files[file].queue.watchers.is_empty() {
            return;
        }
        let mut woken: SmallVec<[Tid; 4]> = SmallVec::new();
        let mut items: SmallVec<[(FileId, u32); 4]> = SmallVec::new();
        let mut exclusive_woken = false;
        for watcher in &self.files[file].queue.watchers {
            match *watcher {
                Watcher::Thread { tid, events: wanted } if events.intersects(wanted | Events::ALWAYS) => {
                    woken.push(tid)
                }
                Watcher::Epoll { epoll, item, events: wanted } if events.intersects(wanted) => {
                    let exclusive = wanted.0 & EPOLLEXCLUSIVE != 0;
                    if exclusive && exclusive_woken {
                        continue;
                    }
                    exclusive_woken |= exclusive && self.files.get(epoll).is_some_and(|e| !e.queue.is_empty());
                    items.push((epoll, item));
                }
                _ => {}
            }
        }
        let before =
            (self.records_calls && matches!(self.files[file].kind, FileKind::Pipe(_))).then(|| self.wakes_by_pipe());
        for tid in woken {
            self.wake(tid, Wake::Ready);
        }
        for (epoll, item) in items {
            self.mark_epoll_ready(epoll, item);
        }
        if let Some(before) = before {
            self.waker = before;
        }
    }

    /// Makes a blocked thread runnable; false when it was not blocked.
    pub fn wake(&mut self, tid: Tid, reason: Wake) -> bool {
        let Some(thread) = self.threads.get_mut(tid.0) else { return false };
        if thread.state != ThreadState::Blocked {
            return false;
        }
        thread.state = ThreadState::Runnable;
        thread.wake = reason;
        self.runnable.push_back(tid);
        self.release_wait(tid);
        if self.records_calls {
            self.note_wake(tid);
        }
        true
    }

    /// Takes a thread out of everything that it waits in.
    fn release_wait(&mut self, tid: Tid) {
        let Some(mut thread) = self.threads.take(tid.0) else { return };
        self.forget_waits(&mut thread);
        self.threads.put(tid.0, thread);
    }

    /// As `release_wait`, for a thread that is out of its table.
    pub(crate) fn forget_waits(&mut self, thread: &mut Thread) {
        thread.wait.deadline = false;
        thread.wait.lock = None;
        if thread.spin.is_some() {
            self.spinners.retain(|spinner| spinner.tid != thread.tid);
        }
        if let Some(key) = thread.wait.futex.take() {
            self.futexes.remove(key, thread.tid);
            self.leave_line(key, thread.tid);
        }
        for key in thread.wait.futexes.drain(..) {
            self.futexes.remove(key, thread.tid);
        }
        for file in thread.wait.files.drain(..) {
            if let Some(file) = self.files.get_mut(file) {
                file.queue.remove_thread(thread.tid);
            }
        }
    }

    /// Gives up one reference to an open file, and closes it with the last.
    pub fn release_file(&mut self, id: FileId) {
        let file = &mut self.files[id];
        file.references -= 1;
        if file.references == 0 {
            self.close_file(id);
        }
    }

    fn close_file(&mut self, id: FileId) {
        self.drop_file_locks(id);
        self.drop_leases(id);
        let watchers = std::mem::take(&mut self.files[id].queue.watchers);
        for watcher in watchers {
            match watcher {
                Watcher::Thread { tid, .. } => {
                    self.wake(tid, Wake::Ready);
                }
                Watcher::Epoll { epoll, item, .. } => self.forget_epoll_item(epoll, item),
            }
        }
        let file = self.files.remove(id);
        self.close_kind(id, file);
    }

    pub(crate) fn set_timerfd(&mut self, id: FileId, expires: Option<SimTime>, interval_ns: u64) -> Result<(), Errno> {
        let FileKind::Timer(timer) = &mut self.files[id].kind else { return Err(Errno::EINVAL) };
        timer.set(expires, interval_ns);
        if let Some(at) = expires {
            self.timers.add(at, TimerKind::TimerFd { file: id, generation: timer.generation });
        }
        Ok(())
    }

    /// A timer has expired so many times before it was set.
    pub(crate) fn expire_timerfd(&mut self, id: FileId, times: u64) {
        if let FileKind::Timer(timer) = &mut self.files[id].kind {
            timer.ticks += times;
            timer.rests = true;
            self.notify(id, Events::READABLE);
        }
    }
}

/// Enters a thread's deadline into the timers, unless they already hold one that is not later: that one will look again.
pub(crate) fn arm(timers: &mut Timers, thread: &mut Thread, deadline: SimTime) {
    if deadline < thread.armed {
        thread.armed = deadline;
        timers.add(deadline, TimerKind::ThreadDeadline { tid: thread.tid });
    }
}
