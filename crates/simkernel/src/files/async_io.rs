//! Signals when files become ready: O_ASYNC with F_SETOWN, F_SETOWN_EX and F_SETSIG, fcntl(2), "Managing signals".

use super::FileKind;
use crate::ctx::Ctx;
use crate::ids::{FileId, Pid, Tid};
use crate::kernel::Kernel;
use crate::tty::Side;
use crate::wait::Events;
use linux_abi::fs::{F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID, FOwnerEx, O_ASYNC};
use linux_abi::signal::{POLL_IN, POLL_OUT, SI_KERNEL, Siginfo};
use linux_abi::{Errno, Signal};

/// Who gets a file's signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Recipient {
    #[default]
    Nobody,
    Thread(Tid),
    Process(Pid),
    /// The process of a thread that was named in its stead, which nobody is told (`f_getown`).
    ProcessOf(Tid),
    Group(Pid),
}

/// What a file's signals are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Async {
    pub recipient: Recipient,
    /// F_SETSIG; 0 for SIGIO, which then says nothing about the file.
    pub signal: i32,
    /// The descriptor by which O_ASYNC was set.
    pub fd: i32,
}

impl Recipient {
    /// F_GETOWN: a group is negative.
    pub fn number(self) -> i32 {
        match self {
            Recipient::Nobody | Recipient::ProcessOf(_) => 0,
            Recipient::Thread(tid) => tid.0 as i32,
            Recipient::Process(pid) => pid.0 as i32,
            Recipient::Group(pid) => -(pid.0 as i32),
        }
    }

    /// F_GETOWN_EX.
    pub fn described(self) -> FOwnerEx {
        let (kind, pid) = match self {
            Recipient::Nobody => (F_OWNER_TID, 0),
            Recipient::Thread(tid) => (F_OWNER_TID, tid.0),
            Recipient::Process(pid) => (F_OWNER_PID, pid.0),
            Recipient::ProcessOf(_) => (F_OWNER_PID, 0),
            Recipient::Group(pid) => (F_OWNER_PGRP, pid.0),
        };
        FOwnerEx { kind, pid: pid as i32 }
    }
}

impl Ctx<'_> {
    /// F_SETOWN. ESRCH for what does not exist.
    pub(crate) fn recipient_of_number(&self, number: i32) -> Result<Recipient, Errno> {
        let kind = if number < 0 { F_OWNER_PGRP } else { F_OWNER_PID };
        let pid = number.checked_abs().ok_or(Errno::EINVAL)?;
        self.recipient_of(FOwnerEx { kind, pid })
    }

    /// F_SETOWN_EX. EINVAL, ESRCH.
    pub(crate) fn recipient_of(&self, owner: FOwnerEx) -> Result<Recipient, Errno> {
        let id = owner.pid as u32;
        let lives = |pid: u32| pid == self.process.pid.0 || self.kernel.processes.get(pid).is_some();
        let is_thread = id == self.thread.tid.0 || self.kernel.threads.get(id).is_some();
        let (recipient, exists) = match owner.kind {
            F_OWNER_TID => (Recipient::Thread(Tid(id)), is_thread),
            F_OWNER_PID if is_thread && !lives(id) => (Recipient::ProcessOf(Tid(id)), true),
            F_OWNER_PID => (Recipient::Process(Pid(id)), lives(id)),
            F_OWNER_PGRP => (Recipient::Group(Pid(id)), self.kernel.family.members(Pid(id)).next().is_some()),
            _ => return Err(Errno::EINVAL),
        };
        match id {
            0 => Ok(Recipient::Nobody),
            _ if exists => Ok(recipient),
            _ => Err(Errno::ESRCH),
        }
    }
}

impl Ctx<'_> {
    /// Turns O_ASYNC of a file that sends signals on or off, by descriptor `fd`. ENOTTY for terminals that were hung up.
    pub(crate) fn set_async(&mut self, id: FileId, fd: i32, on: bool) -> Result<(), Errno> {
        let file = &mut self.kernel.files[id];
        if let FileKind::Terminal(terminal) = file.kind {
            if terminal.hung {
                return Err(Errno::ENOTTY);
            }
            // Terminals tell somebody, whoever was asked for or not (`__tty_fasync`).
            if on && file.signals.recipient == Recipient::Nobody {
                let foreground = self.kernel.terminals.of(terminal).foreground;
                let group = foreground.filter(|_| terminal.side == Side::Slave);
                file.signals.recipient = group.map_or(Recipient::Process(self.process.pid), Recipient::Group);
            }
        }
        file.status &= !O_ASYNC;
        if on {
            file.status |= O_ASYNC;
            file.signals.fd = fd;
        }
        Ok(())
    }
}

impl Kernel {
    /// A file with O_ASYNC became ready. Terminals say themselves when they tell.
    #[cold]
    pub(crate) fn send_io_signal(&mut self, id: FileId, events: Events) {
        use FileKind::{Inet, Inotify, Netlink, Pipe, Unix};
        if matches!(self.files[id].kind, Pipe(_) | Inet(_) | Unix(_) | Netlink(_) | Inotify(_)) {
            self.tell_by_signal(id, events);
        }
    }

    /// Sends the signal of a file, if it has O_ASYNC.
    pub(crate) fn tell_by_signal(&mut self, id: FileId, events: Events) {
        let file = &self.files[id];
        if file.status & O_ASYNC == 0 {
            return;
        }
        let sent = file.signals;
        let (code, band) = if events.intersects(Events::IN) {
            (POLL_IN, Events::READABLE)
        } else {
            (POLL_OUT, Events::WRITABLE | Events::WRBAND)
        };
        let info = match Signal::from_raw(sent.signal) {
            Some(signal) => Siginfo::poll(signal, code, band.0.into(), sent.fd),
            None => Siginfo::new(Signal::SIGIO, SI_KERNEL),
        };
        self.signal_recipient(sent.recipient, info);
    }

    /// Sends a file's signal.
    pub(crate) fn signal_recipient(&mut self, recipient: Recipient, info: Siginfo) {
        match recipient {
            Recipient::Nobody => {}
            Recipient::Thread(tid) if self.threads.get(tid.0).is_some() => self.signal_thread(tid, info),
            Recipient::Thread(tid) if self.executing.is_some_and(|(_, own)| own == tid) => self.own_signals.push(info),
            Recipient::Thread(_) => {}
            Recipient::Process(pid) => self.signal_wherever(pid, info),
            Recipient::ProcessOf(tid) => {
                let own = self.executing.filter(|(_, own)| *own == tid).map(|(pid, _)| pid);
                let of_thread = || self.threads.get(tid.0).map(|thread| thread.pid);
                if let Some(pid) = own.or_else(of_thread) {
                    self.signal_wherever(pid, info);
                }
            }
            Recipient::Group(group) => {
                let members: Vec<Pid> = self.family.members(group).collect();
                members.into_iter().for_each(|pid| self.signal_wherever(pid, info));
            }
        }
    }

    /// Sends a process a signal. One that executes gets it when its call ends.
    pub(crate) fn signal_wherever(&mut self, pid: Pid, info: Siginfo) {
        if self.processes.get(pid.0).is_some() {
            self.signal_process(pid, info);
        } else if self.executing.is_some_and(|(own, _)| own == pid) {
            self.own_signals.push(info);
        }
    }
}
