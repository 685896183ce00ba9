//! Who is whose child, and who is in which process group; the end of processes: orphans, zombies, what parents learn.
//!
//! The relations lie here and not in the processes, because the one that executes is out of its table. The parent of the
//! experiment's own processes, and of orphans, is process 1, which does not exist otherwise: it waits for its children at once.

use crate::fd_table::FdTable;
use crate::futex::{FutexKey, FutexWaiter, Queue};
use crate::ids::{FileId, Pid, Tid};
use crate::kernel::Kernel;
use crate::process::{ExitRecord, ExitStatus, Process};
use crate::shared::Key;
use crate::wait::{Events, Wake};
use linux_abi::Signal;
use linux_abi::signal::{
    CLD_CONTINUED, CLD_DUMPED, CLD_EXITED, CLD_KILLED, CLD_STOPPED, SA_NOCLDSTOP, SA_NOCLDWAIT, SI_KERNEL, SI_USER,
    SIG_IGN, Siginfo,
};
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// The parent of orphans.
pub const INIT: Pid = Pid(1);

/// The relations between a host's processes, zombies included.
#[derive(Debug, Default)]
pub struct Family {
    /// (parent, child): children in the order of their numbers, which is the order of creation.
    children: BTreeSet<(Pid, Pid)>,
    /// (parent, child): children that have something to tell `wait`.
    reportable: BTreeSet<(Pid, Pid)>,
    /// (group, member).
    groups: BTreeSet<(Pid, Pid)>,
    /// (process, file): descriptors of processes.
    pidfds: BTreeSet<(Pid, FileId)>,
    /// How many processes are stopped.
    stopped: usize,
}

/// The second halves of the pairs that begin with `first`.
fn of(pairs: &BTreeSet<(Pid, Pid)>, first: Pid) -> impl Iterator<Item = Pid> + '_ {
    pairs.range((first, Pid(0))..=(first, Pid(u32::MAX))).map(|(_, second)| *second)
}

impl Family {
    pub fn children(&self, parent: Pid) -> impl Iterator<Item = Pid> + '_ {
        of(&self.children, parent)
    }

    pub fn reportable(&self, parent: Pid) -> impl Iterator<Item = Pid> + '_ {
        of(&self.reportable, parent)
    }

    /// The members of a process group, in the order of their numbers.
    pub fn members(&self, group: Pid) -> impl Iterator<Item = Pid> + '_ {
        of(&self.groups, group)
    }

    pub fn is_child(&self, parent: Pid, child: Pid) -> bool {
        self.children.contains(&(parent, child))
    }

    /// A process begins.
    pub(crate) fn add(&mut self, process: &Process) {
        self.children.insert((process.parent, process.pid));
        self.groups.insert((process.group, process.pid));
    }

    /// Nobody can ask for the process any more.
    pub(crate) fn remove(&mut self, process: &Process) {
        self.children.remove(&(process.parent, process.pid));
        self.reportable.remove(&(process.parent, process.pid));
        self.groups.remove(&(process.group, process.pid));
    }

    pub(crate) fn change_group(&mut self, process: &mut Process, group: Pid) {
        self.groups.remove(&(process.group, process.pid));
        process.group = group;
        self.groups.insert((group, process.pid));
    }

    /// A descriptor of a process is opened.
    pub(crate) fn watch(&mut self, pid: Pid, file: FileId) {
        self.pidfds.insert((pid, file));
    }

    /// It is closed.
    pub(crate) fn unwatch(&mut self, pid: Pid, file: FileId) {
        self.pidfds.remove(&(pid, file));
    }

    /// The open descriptors of a process.
    fn watchers(&self, pid: Pid) -> Vec<FileId> {
        let all = (pid, FileId(0))..=(pid, FileId(u32::MAX));
        self.pidfds.range(all).map(|(_, file)| *file).collect()
    }

    /// Whether a child still has something to tell.
    pub(crate) fn set_reportable(&mut self, parent: Pid, child: Pid, reportable: bool) {
        if reportable {
            self.reportable.insert((parent, child));
        } else {
            self.reportable.remove(&(parent, child));
        }
    }
}

impl Kernel {
    /// A process is over, whose threads, files and memory are gone. It stays as a zombie until its parent has asked.
    pub(crate) fn conclude_process(&mut self, mut process: Box<Process>, status: ExitStatus) {
        self.exits.push(ExitRecord { pid: process.pid, status, at: self.now });
        if process.job.stopped.take().is_some() {
            self.family.stopped -= 1;
        }
        process.zombie = Some(status);
        process.pending = Default::default();
        process.posix_timers.by_id.clear();
        process.real_itimer = Default::default();
        self.tasks += 1;
        self.orphan_children(&process);
        let (pid, group, session) = (process.pid, process.group, process.session);
        let watchers = self.family.watchers(pid);
        let reaped = self.report_end(&process);
        let parent = process.parent;
        if reaped {
            self.forget_process(process);
        } else {
            self.family.set_reportable(parent, pid, true);
            self.processes.put(pid.0, process);
        }
        for file in watchers {
            self.notify(file, Events::READABLE);
        }
        self.wake_parent(parent);
        let linked = |parent: &Process| parent.group != group && parent.session == session;
        if self.processes.get(parent.0).is_some_and(linked) {
            self.hang_up_if_orphaned(group);
        }
    }

    /// Removes a process that ended for good.
    pub(crate) fn forget_process(&mut self, process: Box<Process>) {
        self.family.remove(&process);
        self.shared.handlers.release(process.handlers);
        self.tasks -= 1;
        for file in self.family.watchers(process.pid) {
            self.notify(file, Events::READABLE | Events::HUP);
        }
    }

    /// Signals the parent that its child ended. Whether nobody will wait for it, wait(2), "NOTES".
    fn report_end(&mut self, process: &Process) -> bool {
        let Some(parent) = self.processes.get(process.parent.0) else { return true };
        let action = self.shared.handlers[parent.handlers].of(Signal::SIGCHLD.raw() as u32);
        // A parent that has executed another program since gets the usual one (`do_notify_parent`).
        let is_stranger = process.execs_of_parent != parent.execs;
        let exit_signal = if is_stranger { Signal::SIGCHLD.raw() } else { process.exit_signal };
        let usual = exit_signal == Signal::SIGCHLD.raw();
        let ignored = usual && action.handler == SIG_IGN;
        if let Some(signal) = Signal::from_raw(exit_signal).filter(|_| !ignored) {
            let info = child_info(process).unwrap_or_default();
            self.signal_process(process.parent, Siginfo { si_signo: signal.raw(), ..info });
        }
        ignored || (usual && action.flags & SA_NOCLDWAIT != 0)
    }

    /// The children of a process that ended go to the nearest ancestor that takes orphans, or to process 1.
    fn orphan_children(&mut self, process: &Process) {
        let children: Vec<Pid> = self.family.children(process.pid).collect();
        if children.is_empty() {
            return;
        }
        let heir = self.heir(process.parent);
        for pid in children {
            let Some(mut child) = self.processes.take(pid.0) else { continue };
            self.family.remove(&child);
            child.parent = heir;
            child.exit_signal = Signal::SIGCHLD.raw();
            self.family.add(&child);
            if child.zombie.is_some() && self.report_end(&child) {
                self.forget_process(child);
                continue;
            }
            let group = child.group;
            let was_link = process.group != group && process.session == child.session;
            let asked = child.threads.iter().filter_map(|tid| self.threads.get(tid.0)?.death_signal());
            let death_signals: SmallVec<[Signal; 1]> = asked.collect();
            let tells = child.zombie.is_some() || child.job.stop_unseen || child.job.continue_unseen;
            self.family.set_reportable(heir, pid, tells);
            self.processes.put(pid.0, child);
            for signal in death_signals {
                let child = self.processes.get(pid.0);
                if !child.is_some_and(|child| may_tell_of_death(process, child, signal)) {
                    continue;
                }
                self.signal_process(
                    pid,
                    Siginfo::kill(signal, SI_USER, process.pid.0 as i32, process.credentials.user.real),
                );
            }
            if was_link {
                self.hang_up_if_orphaned(group);
            }
        }
        self.wake_parent(heir);
    }

    /// The nearest ancestor, `pid` included, that takes orphans.
    fn heir(&self, mut pid: Pid) -> Pid {
        while let Some(process) = self.processes.get(pid.0) {
            if process.subreaper {
                return pid;
            }
            pid = process.parent;
        }
        INIT
    }

    /// Lets the threads of a process that wait for children look again.
    fn wake_parent(&mut self, parent: Pid) {
        let key = FutexKey::Other { queue: Queue::Children, number: parent.0.into() };
        // Who has come last is woken first (`add_wait_queue`).
        for waiter in self.futexes.take(key, usize::MAX, u32::MAX).into_iter().rev() {
            self.wake(waiter.tid, Wake::Ready);
        }
    }

    /// A thread of `parent` will wait until a child has something to tell.
    pub(crate) fn wait_for_child(&mut self, parent: Pid, tid: Tid) -> FutexKey {
        let key = FutexKey::Other { queue: Queue::Children, number: parent.0.into() };
        self.futexes.add(key, FutexWaiter::new(tid, u32::MAX));
        key
    }

    /// Stops a process that executes: its threads run no more, and its parent learns of it.
    pub(crate) fn stop_process(&mut self, process: &mut Process, signal: i32) {
        if process.job.stopped.replace(signal).is_none() {
            self.family.stopped += 1;
        }
        process.job.stop_unseen = true;
        process.job.continue_unseen = false;
        self.family.set_reportable(process.parent, process.pid, true);
        self.report_job(process, CLD_STOPPED, signal);
    }

    /// Lets a stopped process go on. Its parent learns of it when it does, if `told`.
    pub(crate) fn continue_process(&mut self, process: &mut Process, told: bool) {
        if process.job.stopped.take().is_none() {
            return;
        }
        self.family.stopped -= 1;
        self.runnable.extend(process.job.held.drain(..));
        process.job.stop_unseen = false;
        process.job.continue_unseen = told;
        process.job.tells_continuation = told;
        self.family.set_reportable(process.parent, process.pid, told);
    }

    /// A process that was continued tells its parent, before it runs on.
    pub(crate) fn tell_continuation(&mut self, process: &mut Process) {
        process.job.tells_continuation = false;
        self.report_job(process, CLD_CONTINUED, Signal::SIGCONT.raw());
    }

    fn report_job(&mut self, process: &Process, code: i32, status: i32) {
        let Some(parent) = self.processes.get(process.parent.0) else { return };
        let action = self.shared.handlers[parent.handlers].of(Signal::SIGCHLD.raw() as u32);
        if action.handler != SIG_IGN && action.flags & SA_NOCLDSTOP == 0 {
            let ticks = process.ticks();
            self.signal_process(
                process.parent,
                Siginfo::child(code, process.pid.0 as i32, process.credentials.user.real, status, ticks, 0),
            );
        }
        self.wake_parent(process.parent);
    }

    /// Whether no member of a group has a parent outside of it in the same session, who could continue the group:
    /// "orphaned process group", POSIX 3.249.
    pub(crate) fn is_orphaned(&self, group: Pid, running: Option<&Process>) -> bool {
        !self.family.members(group).any(|pid| {
            let Some(member) = running.filter(|p| p.pid == pid).or_else(|| self.processes.get(pid.0)) else {
                return false;
            };
            let parent = self.processes.get(member.parent.0);
            member.zombie.is_none() && parent.is_some_and(|p| p.group != group && p.session == member.session)
        })
    }

    /// Stopped processes of a group that has become orphaned would wait for ever: SIGHUP and SIGCONT, _exit(2). To be called where a
    /// process and its parent linked the group to the rest of its session, and do no more (`kill_orphaned_pgrp`).
    fn hang_up_if_orphaned(&mut self, group: Pid) {
        if self.family.stopped == 0 || !self.is_orphaned(group, None) {
            return;
        }
        let members: Vec<Pid> = self.family.members(group).collect();
        let stopped = |pid: &Pid| self.processes.get(pid.0).is_some_and(|p| p.job.stopped.is_some());
        if members.iter().any(stopped) {
            for pid in members {
                self.signal_process(pid, Siginfo::new(Signal::SIGHUP, SI_KERNEL));
                self.signal_process(pid, Siginfo::new(Signal::SIGCONT, SI_KERNEL));
            }
        }
    }

    /// Gives up what a process may share with others: descriptors, directory; and its memory. Its handlers it has until somebody has
    /// waited for it (`release_task`).
    pub(crate) fn release_parts(&mut self, process: &mut Process) {
        self.release_fds(std::mem::replace(&mut process.fds, Key::NONE), process.pid);
        self.shared.places.release(std::mem::replace(&mut process.place, Key::NONE));
        self.release_memory(process);
        self.release_program(process);
    }

    /// Gives up descriptors, which are closed with their last user: the last one first, since what is left to be done at the end of a call is
    /// done in this order (`task_work_run`). Who ends with both ends of a connection is seen to close the accepted one.
    pub(crate) fn release_fds(&mut self, key: Key<FdTable>, pid: Pid) {
        if let Some(fds) = self.shared.fds.release(key) {
            for (_, file) in fds.iter().collect::<Vec<_>>().into_iter().rev() {
                self.close_descriptor(file, pid);
            }
        }
    }

    /// Gives up the calling process's use of its memory, which goes with its last user.
    pub(crate) fn release_memory(&mut self, process: &mut Process) {
        process.leaves_memory();
        let key = std::mem::replace(&mut process.space, Key::NONE);
        let spaces = &mut self.shared.spaces;
        if let Some(memory) = process.memory.0.take() {
            spaces[key] = Some(memory);
        }
        if let Some(Some(mut memory)) = spaces.release(key) {
            self.shared.aio.remove(&key.id());
            memory.seal_startup();
            self.look_at_all_code(process, &memory);
            self.ipc.segments.detach_all(&memory, process.pid.0 as i32, self.config.real_seconds(self.now));
            memory.release(&mut self.region);
        }
    }

    /// A child that was made by CLONE_VFORK has executed a program or ended: its parent's thread goes on.
    pub(crate) fn release_vfork_waiter(&mut self, process: &mut Process) {
        if let Some(tid) = process.vfork_waiter.take() {
            self.wake(tid, Wake::Ready);
        }
    }
}

/// What SIGCHLD and `waitid` say of a child that ended; None for one that lives.
pub(crate) fn child_info(process: &Process) -> Option<Siginfo> {
    let (code, status) = match process.zombie? {
        ExitStatus::Exited(status) => (CLD_EXITED, status),
        ExitStatus::Signaled(signal) if process.dumped => (CLD_DUMPED, signal),
        ExitStatus::Signaled(signal) => (CLD_KILLED, signal),
    };
    Some(Siginfo::child(code, process.pid.0 as i32, process.credentials.user.real, status, process.ticks(), 0))
}

/// Whether a child learns by this signal that its parent has died, who must have the right to send it (`check_kill_permission`).
fn may_tell_of_death(parent: &Process, child: &Process, signal: Signal) -> bool {
    let continues = signal == Signal::SIGCONT && parent.session == child.session;
    continues || parent.credentials.may_signal(&child.credentials)
}
