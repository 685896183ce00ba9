//! What a handler works with: the kernel, and the process and thread that call.

use crate::clock::posix_timer;
use crate::credentials::Credentials;
use crate::fd_table::FdTable;
use crate::files::FileKind;
use crate::ids::{FileId, Pid};
use crate::kernel::{Kernel, arm};
use crate::outcome::{Outcome, Restart};
use crate::process::Process;
use crate::program_files::PROGRAM;
use crate::shared::{Handlers, Key, Place};
use crate::signal::SigSet;
use crate::thread::{Thread, ThreadState};
use crate::wait::{Events, Watcher};
use base::{SimDuration, SimTime};
use linux_abi::fs::{O_APPEND, O_PATH};
use linux_abi::signal::{SI_KERNEL, SI_TIMER, SI_USER, Siginfo};
use linux_abi::sysinfo::{RLIM_INFINITY, RLIMIT_FSIZE, RLIMIT_NOFILE};
use linux_abi::{Errno, Signal};
use std::sync::Arc;

/// The calling thread's world during one execution of a call.
#[derive(Debug)]
pub struct Ctx<'a> {
    pub kernel: &'a mut Kernel,
    pub process: &'a mut Process,
    pub thread: &'a mut Thread,
    pub now: SimTime,
}

impl Ctx<'_> {
    /// The calling process's descriptors.
    #[inline]
    pub fn fds(&self) -> &FdTable {
        &self.kernel.shared.fds[self.fds_key()]
    }

    pub fn fds_mut(&mut self) -> &mut FdTable {
        let key = self.fds_key();
        &mut self.kernel.shared.fds[key]
    }

    /// Where the calling thread's descriptors are: its process's, or its own.
    #[inline]
    pub(crate) fn fds_key(&self) -> Key<FdTable> {
        self.thread.own_fds.unwrap_or(self.process.fds)
    }

    /// As `fds_key`, for working directory and umask.
    #[inline]
    pub(crate) fn place_key(&self) -> Key<Place> {
        self.thread.own_place.unwrap_or(self.process.place)
    }

    /// Its working directory and umask.
    pub fn place(&self) -> &Place {
        &self.kernel.shared.places[self.place_key()]
    }

    pub fn place_mut(&mut self) -> &mut Place {
        let key = self.place_key();
        &mut self.kernel.shared.places[key]
    }

    /// Who the calling thread acts as.
    #[inline]
    pub fn credentials(&self) -> &Credentials {
        &self.thread.credentials
    }

    /// Gives the calling thread other credentials. Those of the main thread are the process's; whoever gains or leaves rights is not open to
    /// others any more, prctl(2), PR_SET_DUMPABLE.
    pub fn set_credentials(&mut self, new: Credentials) {
        if new.is_guarded_after(&self.thread.credentials) {
            self.set_dumpable(false);
            self.thread.parent_death_signal = 0;
        }
        self.thread.credentials = Arc::new(new);
        if self.thread.tid == self.process.pid.main_thread() {
            self.process.credentials = Arc::clone(&self.thread.credentials);
        }
    }

    /// PR_SET_DUMPABLE: the memory's, whoever has it.
    pub fn set_dumpable(&mut self, dumpable: bool) {
        self.process.dumpable = dumpable;
        let space = self.process.space;
        for other in self.kernel.processes.iter_mut().filter(|other| other.space == space) {
            other.dumpable = dumpable;
        }
    }

    /// What it does with signals.
    pub fn handlers(&self) -> &Handlers {
        &self.kernel.shared.handlers[self.process.handlers]
    }

    pub fn handlers_mut(&mut self) -> &mut Handlers {
        &mut self.kernel.shared.handlers[self.process.handlers]
    }

    /// The open file behind a descriptor of any process of the host. ENOENT.
    pub fn file_of(&self, pid: Pid, fd: u32) -> Result<FileId, Errno> {
        if fd == PROGRAM {
            let own = pid == self.process.pid;
            let process = if own { Some(&*self.process) } else { self.kernel.processes.get(pid.0) };
            return process.and_then(|process| process.program).ok_or(Errno::ENOENT);
        }
        if pid == self.process.pid {
            return self.fds().get(fd.into()).map_err(|_| Errno::ENOENT);
        }
        let process = self.kernel.processes.get(pid.0);
        process.and_then(|process| self.kernel.shared.file(process, fd)).ok_or(Errno::ENOENT)
    }

    /// The open file behind a descriptor argument: that which it meant when the call began. EBADF.
    #[inline]
    pub fn file(&self, fd: u64) -> Result<FileId, Errno> {
        if !self.thread.held.is_empty()
            && let Some(file) = self.thread.held_file(fd)
        {
            return Ok(file);
        }
        self.fds().get(fd)
    }

    /// As `file`, for calls that want more than a place (O_PATH). EBADF.
    pub fn opened(&self, fd: u64) -> Result<FileId, Errno> {
        let file = self.file(fd)?;
        if self.kernel.files[file].status & O_PATH != 0 { Err(Errno::EBADF) } else { Ok(file) }
    }

    /// Gives a new open file a descriptor; the file is closed again when there is none left (EMFILE).
    pub fn install(&mut self, file: FileId, cloexec: bool) -> Result<u64, Errno> {
        if let Some(fd) = self.thread.reserved_fd() {
            self.fds_mut().replace(fd, file, cloexec);
            return Ok(u64::from(fd));
        }
        let limit = self.process.limits.soft(RLIMIT_NOFILE);
        match self.fds_mut().allocate(file, 0, cloexec, limit) {
            Ok(fd) => Ok(u64::from(fd)),
            Err(errno) => {
                self.kernel.release_file(file);
                Err(errno)
            }
        }
    }

    /// Takes the next signal that `held` does not hold back: the thread's own ones first, then the process's that are not `left` to another.
    /// A timer's says how often the timer expired while it waited.
    pub(crate) fn take_signal(&mut self, held: SigSet, left: SigSet) -> Option<Siginfo> {
        let of_process = SigSet(held.0 | left.0);
        let mut info = self.thread.signals.pending.take(held).or_else(|| self.process.pending.take(of_process))?;
        if info.si_code == SI_TIMER
            && let Some(timer) = posix_timer(self.process, info.si_timer())
        {
            timer.catch_up(self.now);
            let more = std::mem::take(&mut timer.missed);
            timer.overrun = (info.si_overrun() as u32).saturating_add(more).min(i32::MAX as u32);
            info.set_si_overrun(timer.overrun as i32);
        }
        Some(info)
    }

    /// Whether a signal waits that this thread does not hold back.
    #[inline(always)]
    pub fn signal_pending(&self) -> bool {
        let shared = self.process.pending.set.0;
        let shared = if shared == 0 { 0 } else { shared & !self.left_to_another() };
        (self.thread.signals.pending.set.0 | shared) & !self.thread.signals.blocked.0 != 0
    }

    /// Signals of the process that another thread was woken to take, and can.
    #[cold]
    pub(crate) fn left_to_another(&self) -> u64 {
        let Some(taker) = self.process.signal_taker.filter(|taker| *taker != self.thread.tid) else { return 0 };
        let Some(thread) = self.kernel.threads.get(taker.0).filter(|thread| thread.state != ThreadState::Dead) else {
            return 0;
        };
        !thread.signals.blocked.0 & self.handlers().handled().0 | thread.signals.awaited.0
    }

    /// Sends the calling thread a signal of the kernel's own, such as SIGPIPE.
    pub fn raise(&mut self, signal: Signal) {
        if !self.handlers().ignores(signal.raw() as u32) {
            // As `send_sig` of a process to itself.
            let code = if matches!(signal, Signal::SIGPIPE | Signal::SIGXFSZ) { SI_USER } else { SI_KERNEL };
            let info = match code {
                SI_USER => Siginfo::kill(signal, code, self.process.pid.0 as i32, self.credentials().user.real),
                _ => Siginfo::new(signal, code),
            };
            self.thread.signals.pending.add(info);
            self.kernel.notify_signalfds(signal.raw() as u32);
        }
    }

    /// What the real-time clock shows, in nanoseconds of the Unix epoch.
    #[inline]
    pub(crate) fn real_time(&self) -> u64 {
        self.kernel.vfs.identities.real_time(self.now)
    }

    /// What the clocks show that count from the host's boot.
    #[inline]
    pub(crate) fn uptime_nanos(&self) -> u64 {
        self.kernel.config.clock.uptime_nanos(self.now)
    }

    /// The same in seconds, as System V objects note it.
    pub(crate) fn real_seconds(&self) -> i64 {
        self.kernel.config.real_seconds(self.now)
    }

    /// Where a write to a regular file would begin, and how many of `bytes` it may be long, if the process has a limit for files.
    pub(crate) fn limit_write(&mut self, id: FileId, position: Option<u64>, bytes: u64) -> Result<u64, Errno> {
        if self.process.limits.soft(RLIMIT_FSIZE) == RLIM_INFINITY {
            return Ok(bytes);
        }
        let file = &self.kernel.files[id];
        let FileKind::Regular(regular) = &file.kind else { return Ok(bytes) };
        let start = match position {
            _ if file.status & O_APPEND != 0 => self.kernel.regular_size(id)?,
            Some(position) => position,
            None => regular.offset,
        };
        self.room_in_file(start, bytes)
    }

    /// How many of `bytes` a process may write at `start` of a file, setrlimit(2), RLIMIT_FSIZE. SIGXFSZ and EFBIG for none of them.
    pub(crate) fn room_in_file(&mut self, start: u64, bytes: u64) -> Result<u64, Errno> {
        let limit = self.process.limits.soft(RLIMIT_FSIZE);
        if bytes > 0 && start >= limit {
            self.raise(Signal::SIGXFSZ);
            return Err(Errno::EFBIG);
        }
        Ok(bytes.min(limit.saturating_sub(start)))
    }

    /// Demands that a file may be made so long. SIGXFSZ and EFBIG.
    pub(crate) fn demand_file_size(&mut self, size: u64) -> Result<(), Errno> {
        if size > self.process.limits.soft(RLIMIT_FSIZE) {
            self.raise(Signal::SIGXFSZ);
            return Err(Errno::EFBIG);
        }
        Ok(())
    }

    /// Fixes the call's deadline at its first execution: `timeout` from then, or without end. Later executions return the same.
    pub fn deadline_after(&mut self, timeout: Option<SimDuration>) -> SimTime {
        let fresh = timeout.map_or(SimTime::MAX, |timeout| self.now + timeout);
        *self.thread.call.deadline.get_or_insert(fresh)
    }

    /// As `deadline_after`, with the moment given.
    pub fn deadline_at(&mut self, moment: SimTime) -> SimTime {
        *self.thread.call.deadline.get_or_insert(moment)
    }

    /// Whether the call's deadline has come.
    pub fn expired(&self) -> bool {
        self.thread.call.deadline.is_some_and(|deadline| deadline <= self.now)
    }

    /// Registers for a file's events. The call must then end with `block`.
    pub fn watch(&mut self, file: FileId, events: Events) {
        self.kernel.files[file].queue.add(Watcher::Thread { tid: self.thread.tid, events });
        self.thread.wait.files.push(file);
    }

    /// Ends this execution: the thread waits for what was registered and for the call's deadline. A signal that is already there
    /// ends the wait before it begins.
    pub fn block(&mut self, restart: Restart) -> Outcome {
        if self.signal_pending() {
            self.cancel_watches();
            return Outcome::Restart(restart);
        }
        if let Some(deadline) = self.thread.call.deadline.filter(|d| *d < SimTime::MAX) {
            self.thread.wait.deadline = true;
            arm(&mut self.kernel.timers, self.thread, deadline);
        }
        Outcome::Block
    }

    /// `watch` and `block` for one file, the usual case.
    pub fn block_on(&mut self, file: FileId, events: Events) -> Outcome {
        self.watch(file, events);
        self.block(Restart::Sys)
    }

    fn cancel_watches(&mut self) {
        let tid = self.thread.tid;
        self.thread.wait.lock = None;
        for file in self.thread.wait.files.drain(..) {
            self.kernel.files[file].queue.remove_thread(tid);
        }
        if let Some(key) = self.thread.wait.futex.take() {
            self.kernel.futexes.remove(key, tid);
        }
        for key in self.thread.wait.futexes.drain(..) {
            self.kernel.futexes.remove(key, tid);
        }
    }
}
