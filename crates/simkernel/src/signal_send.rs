//! Sending signals to processes and threads: which are dropped, which thread is woken, and what those of job control do at once.

use crate::ctx::Ctx;
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use crate::process::Process;
use crate::shared::Handlers;
use crate::signal::SigSet;
use crate::thread::{Thread, ThreadState};
use crate::wait::Wake;
use linux_abi::Signal;
use linux_abi::signal::{DefaultAction, SI_TIMER, Siginfo};

/// Signals that stop a process: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU.
const STOP_SIGNALS: SigSet =
    SigSet(Signal::SIGSTOP.mask() | Signal::SIGTSTP.mask() | Signal::SIGTTIN.mask() | Signal::SIGTTOU.mask());
const CONTINUE_SIGNAL: SigSet = SigSet(Signal::SIGCONT.mask());
const KILL_SIGNAL: SigSet = SigSet(Signal::SIGKILL.mask());

impl Kernel {
    /// Sends a process a signal. It must not be executing: from within a call use `Ctx::signal_process`. Nothing happens when there is
    /// none of that number, or when it is a zombie.
    pub fn signal_process(&mut self, pid: Pid, info: Siginfo) {
        let Some(mut process) = self.processes.take(pid.0) else { return };
        self.post(&mut process, None, info);
        self.processes.put(pid.0, process);
    }

    /// Sends a thread a signal. Its process must not be executing.
    pub fn signal_thread(&mut self, tid: Tid, info: Siginfo) {
        let Some(pid) = self.threads.get(tid.0).map(|thread| thread.pid) else { return };
        let Some(mut process) = self.processes.take(pid.0) else { return };
        self.post_to_thread(&mut process, None, tid, info);
        self.processes.put(pid.0, process);
    }

    /// Adds a signal to those of a process, and interrupts a thread that can take it. Of one with a handler the main thread, else the next in turn;
    /// of others the caller, if it belongs to the process and does not hold the signal back; then one that waits for it; then the first that
    /// does not hold it back.
    fn post(&mut self, process: &mut Process, mut caller: Option<&mut Thread>, info: Siginfo) {
        if process.zombie.is_some() {
            return;
        }
        let signal = info.si_signo as u32;
        self.prepare(process, caller.as_deref_mut(), signal);
        let ignored = self.handlers_of(process).ignores(signal);
        let main = process.pid.main_thread();
        let is_handled = self.handlers_of(process).handled().contains(signal);
        // A timer's is for who runs (`posixtimer_get_target`); programs can send what looks like one.
        let of_timer = info.si_code == SI_TIMER && process.posix_timers.by_id.contains_key(&info.si_timer());
        let at_once = is_handled_at_once(self.handlers_of(process), signal);
        let chosen = if of_timer { None } else { self.take_turn(process, caller.as_deref(), signal, at_once) };
        // One without a handler is taken at once by whoever is there, unless the chosen thread waits for it.
        let waits = |tid: &Tid| self.threads.get(tid.0).is_some_and(|thread| thread.signals.awaits(signal, at_once));
        let chosen = chosen.filter(|tid| is_handled || waits(tid));
        let is_callers = chosen.is_some() && chosen == caller.as_ref().map(|thread| thread.tid);
        let left = chosen.filter(|_| !is_callers);
        process.signal_taker = chosen;
        let held_by = |thread: &Thread| thread.signals.blocked.contains(signal);
        let main_holds = match &caller {
            Some(own) if own.tid == main => held_by(own),
            _ => self.threads.get(main.0).is_some_and(held_by),
        };
        if is_callers || left.is_none() && caller.is_some_and(|thread| !thread.signals.blocked.contains(signal)) {
            if !ignored {
                process.pending.add(info);
                self.notify_signalfds(signal);
            }
            return;
        }
        let find = |wanted: &dyn Fn(&Thread, u32) -> bool| {
            let mut threads = process.threads.iter().copied();
            threads.find(|tid| self.threads.get(tid.0).is_some_and(|thread| wanted(thread, signal)))
        };
        // One that the main thread holds back is kept even if it is ignored (`sig_ignored`): it is for who waits for it, or interrupts who does
        // not hold it back.
        let at_once = at_once && !(ignored && main_holds);
        let awaits = |thread: &Thread, signal| thread.signals.awaits(signal, at_once);
        let waiter = match left {
            Some(tid) => self.threads.get(tid.0).filter(|thread| awaits(thread, signal)).map(|thread| thread.tid),
            None => find(&awaits),
        };
        let taker = left.or_else(|| find(&|thread, signal| !thread.signals.blocked.contains(signal)));
        if ignored && waiter.is_none() && taker.is_some() && !main_holds {
            return;
        }
        process.pending.add(info);
        // Who is ended by it at once (`complete_signal`) has no thread left that could read of it.
        if taker.is_none() || !ends_at_once(self.handlers_of(process), signal) {
            self.notify_signalfds(signal);
        }
        if let Some(tid) = waiter {
            self.wake(tid, Wake::Ready);
        } else if let Some(tid) = taker {
            self.wake(tid, Wake::Interrupted);
        }
    }

    /// The thread that takes a signal of its process: the main thread, or the next one that can, from the one on that took the last
    /// (`complete_signal`).
    fn take_turn(&self, process: &mut Process, caller: Option<&Thread>, signal: u32, at_once: bool) -> Option<Tid> {
        let can_take = |thread: &Thread| {
            let held = thread.signals.blocked.contains(signal) && !thread.signals.awaits(signal, at_once);
            thread.state != ThreadState::Dead && !held
        };
        let wants = |tid: &Tid| match caller {
            Some(own) if own.tid == *tid => can_take(own),
            _ => self.threads.get(tid.0).is_some_and(can_take),
        };
        let main = process.pid.main_thread();
        if wants(&main) {
            return Some(main);
        }
        let last = process.signal_turn.unwrap_or(main);
        let start = process.threads.iter().position(|tid| *tid == last).unwrap_or(0);
        let (before, from) = process.threads.split_at(start);
        let next = from.iter().chain(before).copied().find(wants);
        process.signal_turn = next.or(process.signal_turn);
        next
    }

    /// Adds a signal to those of one thread of a process, and interrupts it if it can take it.
    fn post_to_thread(&mut self, process: &mut Process, mut caller: Option<&mut Thread>, tid: Tid, info: Siginfo) {
        let signal = info.si_signo as u32;
        self.prepare(process, caller.as_deref_mut(), signal);
        let ignored = self.handlers_of(process).ignores(signal);
        // What ends the process ends the caller too, before it comes back (`complete_signal`).
        let takes = |thread: &Thread| !thread.signals.blocked.contains(signal);
        let ends = ends_at_once(self.handlers_of(process), signal) && self.threads.get(tid.0).is_some_and(takes);
        if let Some(own) = caller.filter(|own| own.tid == tid || ends && takes(own)) {
            if own.tid != tid || !ignored || own.signals.blocked.contains(signal) {
                own.signals.pending.add(info);
                self.notify_signalfds(signal);
            }
            return;
        }
        let at_once = is_handled_at_once(self.handlers_of(process), signal);
        let Some(thread) = self.threads.get_mut(tid.0) else { return };
        let held = thread.signals.blocked.contains(signal);
        let awaited = thread.signals.awaits(signal, at_once);
        if ignored && !held && !awaited {
            return;
        }
        thread.signals.pending.add(info);
        self.notify_signalfds(signal);
        if awaited {
            self.wake(tid, Wake::Ready);
        } else if !held {
            self.wake(tid, Wake::Interrupted);
        }
    }

    fn handlers_of(&self, process: &Process) -> &Handlers {
        &self.shared.handlers[process.handlers]
    }

    /// What a signal does when it is sent, whatever becomes of it then: those that stop and the one that continues cancel each other,
    /// SIGCONT and SIGKILL let a stopped process go on.
    fn prepare(&mut self, process: &mut Process, caller: Option<&mut Thread>, signal: u32) {
        if STOP_SIGNALS.contains(signal) {
            self.discard_signals(process, caller, CONTINUE_SIGNAL);
        } else if CONTINUE_SIGNAL.contains(signal) {
            self.discard_signals(process, caller, STOP_SIGNALS);
            self.continue_process(process, true);
        } else if KILL_SIGNAL.contains(signal) {
            self.continue_process(process, false);
        }
    }

    /// Forgets pending signals of a process and of all its threads.
    pub(crate) fn discard_signals(&mut self, process: &mut Process, caller: Option<&mut Thread>, set: SigSet) {
        process.pending.discard(set);
        if let Some(thread) = caller {
            thread.signals.pending.discard(set);
        }
        for tid in &process.threads {
            if let Some(thread) = self.threads.get_mut(tid.0) {
                thread.signals.pending.discard(set);
            }
        }
    }
}

/// Whether a signal that is not held back has no time to wait for somebody who awaits it: it is dropped, or ends the process without a core
/// (`sig_ignored` and `complete_signal` look at what was held back before the wait).
fn is_handled_at_once(handlers: &Handlers, signal: u32) -> bool {
    handlers.ignores(signal) || ends_at_once(handlers, signal)
}

/// Whether a signal that a thread can take ends its process without a core.
pub(crate) fn ends_at_once(handlers: &Handlers, signal: u32) -> bool {
    let ends = |signal: Signal| signal.default_action() == DefaultAction::Terminate;
    handlers.of(signal).handler == 0 && Signal::from_raw(signal as i32).is_some_and(ends)
}

/// Whether a signal ends a process that has no handler for it.
fn is_fatal(signal: Signal) -> bool {
    matches!(signal.default_action(), DefaultAction::Terminate | DefaultAction::CoreDump)
}

impl Ctx<'_> {
    /// Sends a signal to a process of the host, the calling one or another. Another one that it wakes runs before the caller goes on, as it
    /// would on a processor of its own: what the caller does next must not seem to have happened together with the signal.
    pub(crate) fn signal_process(&mut self, pid: Pid, info: Siginfo) {
        if pid == self.process.pid {
            let runnable = self.kernel.runnable.len();
            self.kernel.post(self.process, Some(self.thread), info);
            self.thread.gives_way |= self.kernel.runnable.len() > runnable;
        } else {
            let runnable = self.kernel.runnable.len();
            self.kernel.signal_process(pid, info);
            self.thread.gives_way |= self.kernel.runnable.len() > runnable;
        }
    }

    /// Sends a signal to a thread of the host.
    pub(crate) fn signal_thread(&mut self, tid: Tid, info: Siginfo) {
        if self.process.threads.contains(&tid) {
            self.kernel.post_to_thread(self.process, Some(self.thread), tid, info);
        } else {
            let runnable = self.kernel.runnable.len();
            self.kernel.signal_thread(tid, info);
            self.thread.gives_way |= self.kernel.runnable.len() > runnable;
        }
    }

    /// Whether a signal waits that the calling thread takes next, and that ends the process without a core.
    pub(crate) fn ends_at_once(&self) -> bool {
        let open = (self.thread.signals.pending.set.0 | self.process.pending.set.0) & !self.thread.signals.blocked.0;
        open != 0 && (1..=64).any(|signal| SigSet(open).contains(signal) && ends_at_once(self.handlers(), signal))
    }

    /// Whether a signal waits that will end the process, and that the calling thread does not hold back.
    pub(crate) fn is_dying(&self) -> bool {
        let pending = self.thread.signals.pending.set.0 | self.process.pending.set.0;
        let mut open = pending & !self.thread.signals.blocked.0;
        while open != 0 {
            let signal = open.trailing_zeros() + 1;
            open &= open - 1;
            let fatal = Signal::from_raw(signal as i32).is_some_and(is_fatal);
            if fatal && self.handlers().of(signal).handler == 0 {
                return true;
            }
        }
        false
    }
}
