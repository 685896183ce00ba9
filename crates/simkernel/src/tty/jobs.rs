//! Sessions with a terminal: who controls it, who is in its foreground, and the signals of both, credentials(7), termios(3).

use super::TtyId;
use crate::ctx::Ctx;
use crate::ids::Pid;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Restart};
use crate::process::Process;
use linux_abi::signal::{SI_KERNEL, SIG_IGN, Siginfo};
use linux_abi::{Errno, Signal};

fn from_kernel(signal: Signal) -> Siginfo {
    Siginfo::new(signal, SI_KERNEL)
}

impl Kernel {
    /// Sends a signal to all members of a process group. One that executes gets it before it goes on (`Ctx::take_own_signals`).
    fn signal_group(&mut self, group: Pid, signal: Signal) {
        let members: Vec<Pid> = self.family.members(group).collect();
        for pid in members {
            self.signal_wherever(pid, from_kernel(signal));
        }
    }

    /// The processes of a session lose their terminal, but for one that executes.
    fn clear_terminal(&mut self, session: Pid) {
        for process in self.processes.iter_mut().filter(|process| process.session == session) {
            process.terminal = None;
        }
    }

    /// A terminal is hung up: the leader of its session gets SIGHUP and SIGCONT, and remembers the foreground group, which learns of it
    /// when the leader ends.
    pub(super) fn hang_up_session(&mut self, tty: TtyId) {
        let Some(pair) = self.terminals.pairs.get_mut(&tty) else { return };
        let (session, foreground) = (pair.session.take(), pair.foreground.take());
        let Some(session) = session else { return };
        self.clear_terminal(session);
        match self.processes.get_mut(session.0) {
            Some(leader) => {
                leader.old_foreground = foreground;
                self.signal_process(session, from_kernel(Signal::SIGHUP));
                self.signal_process(session, from_kernel(Signal::SIGCONT));
            }
            None => {
                self.signal_wherever(session, from_kernel(Signal::SIGHUP));
                self.signal_wherever(session, from_kernel(Signal::SIGCONT));
            }
        }
    }

    /// The leader of a session gives up its terminal, or ends: the foreground group gets SIGHUP, and the terminal is free.
    pub(crate) fn leave_terminal(&mut self, leader: &mut Process, ends: bool) {
        if leader.pid != leader.session {
            return;
        }
        let Some(tty) = leader.terminal.take() else {
            if let Some(group) = leader.old_foreground.take().filter(|_| ends) {
                self.signal_group(group, Signal::SIGHUP);
                self.signal_group(group, Signal::SIGCONT);
            }
            return;
        };
        let Some(pair) = self.terminals.pairs.get_mut(&tty) else { return };
        let foreground = pair.foreground.take();
        pair.session = None;
        if let Some(group) = foreground {
            self.signal_group(group, Signal::SIGHUP);
            if !ends {
                self.signal_group(group, Signal::SIGCONT);
            }
        }
        self.clear_terminal(leader.session);
    }
}

impl Ctx<'_> {
    /// Takes the signals that the calling process has caused to itself while it was out of its table.
    pub(crate) fn take_own_signals(&mut self) {
        for info in std::mem::take(&mut self.kernel.own_signals) {
            self.signal_process(self.process.pid, info);
        }
    }

    /// Tells both sides of a terminal what an operation has done, and sends its signals to the foreground group.
    pub(super) fn settle_terminal(&mut self, tty: TtyId) {
        self.kernel.notify_sides(tty);
        let Some(pair) = self.kernel.terminals.pairs.get_mut(&tty) else { return };
        let (signals, foreground) = (std::mem::take(&mut pair.effects.signals), pair.foreground);
        if let Some(group) = foreground {
            for signal in signals {
                self.signal_group(group, signal);
            }
        }
    }

    pub(super) fn signal_group(&mut self, group: Pid, signal: Signal) {
        let members: Vec<Pid> = self.kernel.family.members(group).collect();
        for pid in members {
            self.signal_process(pid, from_kernel(signal));
        }
    }

    /// A terminal that a leader of a session without one opens becomes its controlling terminal, unless it already is another one's.
    pub(super) fn adopt_terminal(&mut self, tty: TtyId) {
        let leads = self.process.pid == self.process.session && self.process.terminal.is_none();
        if leads && self.kernel.terminals.get(tty).is_some_and(|pair| pair.session.is_none()) {
            self.set_terminal(tty);
        }
    }

    fn set_terminal(&mut self, tty: TtyId) {
        let Some(pair) = self.kernel.terminals.pairs.get_mut(&tty) else { return };
        pair.session = Some(self.process.session);
        pair.foreground = Some(self.process.group);
        self.process.terminal = Some(tty);
        self.process.old_foreground = None;
    }

    /// TIOCSCTTY. EPERM unless the caller leads a session without a terminal, and the terminal is free or may be stolen.
    pub(super) fn demand_terminal(&mut self, tty: TtyId, steal: bool) -> Result<(), Errno> {
        let owner = self.kernel.terminals.get(tty).and_then(|pair| pair.session);
        let leads = self.process.pid == self.process.session;
        if leads && owner == Some(self.process.session) {
            return Ok(());
        }
        if !leads || self.process.terminal.is_some() || owner.is_some() && !steal {
            return Err(Errno::EPERM);
        }
        if let Some(owner) = owner {
            self.kernel.clear_terminal(owner);
        }
        self.set_terminal(tty);
        Ok(())
    }

    /// TIOCNOTTY.
    pub(super) fn give_up_terminal(&mut self) {
        self.kernel.leave_terminal(self.process, false);
        self.process.terminal = None;
        self.take_own_signals();
    }

    /// TIOCSPGRP. ENOTTY unless it is the caller's terminal, ESRCH without such a group, EPERM for one of another session.
    pub(super) fn set_foreground(&mut self, tty: TtyId, group: i32) -> Result<(), Errno> {
        let group = u32::try_from(group).map(Pid).map_err(|_| Errno::EINVAL)?;
        let session = self.process.session;
        let pair = self.kernel.terminals.get(tty).ok_or(Errno::ENOTTY)?;
        if self.process.terminal != Some(tty) || pair.session != Some(session) {
            return Err(Errno::ENOTTY);
        }
        let member = self.kernel.family.members(group).next().unwrap_or(group);
        let of_member = match member {
            pid if pid == self.process.pid => session,
            pid => self.kernel.processes.get(pid.0).map(|process| process.session).ok_or(Errno::ESRCH)?,
        };
        if of_member != session {
            return Err(Errno::EPERM);
        }
        if let Some(pair) = self.kernel.terminals.pairs.get_mut(&tty) {
            pair.foreground = Some(group);
        }
        Ok(())
    }

    /// Whether the caller may use its terminal now: a background group is stopped by `signal` (SIGTTIN for reading, SIGTTOU for changing
    /// it and, with TOSTOP, for writing). EIO where nobody could let it go on, and for reading where it does not heed the signal.
    pub(super) fn check_foreground(&mut self, tty: TtyId, signal: Signal) -> Result<(), Outcome> {
        if self.process.terminal != Some(tty) {
            return Ok(());
        }
        let group = self.process.group;
        match self.kernel.terminals.get(tty).and_then(|pair| pair.foreground) {
            Some(foreground) if foreground != group => {}
            _ => return Ok(()),
        }
        let number = signal.raw() as u32;
        if self.thread.signals.blocked.contains(number) || self.handlers().of(number).handler == SIG_IGN {
            return if signal == Signal::SIGTTIN { Err(Errno::EIO.into()) } else { Ok(()) };
        }
        if self.kernel.is_orphaned(group, Some(self.process)) {
            return Err(Errno::EIO.into());
        }
        self.signal_group(group, signal);
        Err(Outcome::Restart(Restart::Sys))
    }
}
