//! Leases on files, fcntl(2), "Leases": who holds one hears by signal when somebody else is about to open the file or to cut it, and who
//! does so waits until the holder has given way, or has let `/proc/sys/fs/lease-break-time` pass.

use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::files::async_io::Recipient;
use crate::futex::{FutexKey, FutexWaiter, Queue};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::outcome::{Outcome, Restart};
use crate::wait::{Events, Wake};
use base::map::FastMap;
use base::{SimDuration, SimTime};
use linux_abi::capability::CAP_LEASE;
use linux_abi::fs::{F_RDLCK, F_UNLCK, F_WRLCK, O_ACCMODE, O_NONBLOCK, O_RDONLY, O_TRUNC};
use linux_abi::{Errno, Signal};

/// One that an open file holds.
#[derive(Clone, Copy, Debug)]
struct Lease {
    file: FileId,
    /// F_RDLCK or F_WRLCK.
    kind: i32,
    /// What it is to become, and until when its holder may see to that himself.
    breaking: Option<(i32, SimTime)>,
}

/// The leases of a host, by the inode numbers of files.
#[derive(Debug, Default)]
pub struct Leases {
    held: FastMap<u64, Vec<Lease>>,
}

impl Leases {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// No lease is left where it stands against an access: those whose time is over are changed.
    fn expire(&mut self, number: u64, now: SimTime) {
        let Some(held) = self.held.get_mut(&number) else { return };
        for lease in held.iter_mut() {
            if let Some((kind, _)) = lease.breaking.filter(|(_, deadline)| *deadline <= now) {
                *lease = Lease { kind, breaking: None, ..*lease };
            }
        }
        held.retain(|lease| lease.kind != F_UNLCK);
        if held.is_empty() {
            self.held.remove(&number);
        }
    }
}

impl Kernel {
    /// F_GETLEASE: what it is, or what it is to become.
    pub(crate) fn lease_of(&mut self, file: FileId) -> i32 {
        let number = self.lock_number(file);
        self.leases.expire(number, self.now);
        let held = self.leases.held.get(&number).and_then(|held| held.iter().find(|lease| lease.file == file));
        held.map_or(F_UNLCK, |lease| lease.breaking.map_or(lease.kind, |(kind, _)| kind))
    }

    /// An open file is closed for good.
    pub(crate) fn drop_leases(&mut self, file: FileId) {
        if self.leases.is_empty() {
            return;
        }
        self.change_lease(self.lock_number(file), file, F_UNLCK);
    }

    /// Gives a file's lease another kind, and lets those look again that wait for that. Whether there was one.
    fn change_lease(&mut self, number: u64, file: FileId, kind: i32) -> bool {
        let Some(held) = self.leases.held.get_mut(&number) else { return false };
        let Some(lease) = held.iter_mut().find(|lease| lease.file == file) else { return false };
        let kept = lease.breaking.filter(|(wanted, _)| *wanted == F_UNLCK && kind == F_RDLCK);
        *lease = Lease { file, kind, breaking: kept };
        self.leases.expire(number, self.now);
        self.leases.held.entry(number).or_default().retain(|lease| lease.kind != F_UNLCK);
        if self.leases.held[&number].is_empty() {
            self.leases.held.remove(&number);
        }
        let key = FutexKey::Other { queue: Queue::Lease, number };
        for waiter in self.futexes.take(key, usize::MAX, u32::MAX) {
            self.wake(waiter.tid, Wake::Ready);
        }
        true
    }

    /// Other open files on the same inode: how many there are, and how many of all can write.
    fn openings(&mut self, own: FileId, number: u64) -> (usize, usize) {
        let queue_of = |kind: &FileKind| match kind {
            FileKind::Queue(open) => Some(open.queue),
            _ => None,
        };
        let own_queue = queue_of(&self.files[own].kind);
        let (mut others, mut writers) = (0, 0);
        for (id, file) in self.files.iter_mut() {
            let (is_same, is_memory) = match &file.kind {
                FileKind::Regular(regular) => (regular.number == number, regular.is_memory()),
                kind => (own_queue.is_some() && queue_of(kind) == own_queue, false),
            };
            if is_same {
                others += usize::from(id != own);
                // memfd_create(2) opens for writing without being counted.
                writers += usize::from(file.writable() && !is_memory);
            }
        }
        (others, writers)
    }
}

impl Ctx<'_> {
    /// F_SETLEASE. EINVAL, EACCES, EAGAIN.
    pub(crate) fn set_lease(&mut self, file: FileId, kind: i32) -> Result<(), Errno> {
        if !matches!(kind, F_RDLCK | F_WRLCK | F_UNLCK) {
            return Err(Errno::EINVAL);
        }
        let owner = match self.kernel.files[file].kind {
            FileKind::Regular(_) => self.kernel.regular_stat(file)?.st_uid,
            // A queue is a file, too.
            FileKind::Queue(_) => self.kernel.nameless(file).map_or(0, |permissions| permissions.user),
            _ => return Err(Errno::EINVAL),
        };
        let number = self.kernel.lock_number(file);
        if owner != self.credentials().user.fs && !self.credentials().can(CAP_LEASE) {
            return Err(Errno::EACCES);
        }
        self.kernel.leases.expire(number, self.now);
        if kind == F_UNLCK {
            let gone = self.kernel.change_lease(number, file, F_UNLCK);
            return if gone { Ok(()) } else { Err(Errno::EAGAIN) };
        }
        let (others, writers) = self.kernel.openings(file, number);
        // A memfd's own writer is none, so it can never be the only one.
        if kind == F_WRLCK && self.kernel.is_memory(file) && self.kernel.files[file].writable() {
            return Err(Errno::EAGAIN);
        }
        if (kind == F_RDLCK && writers > 0) || (kind == F_WRLCK && others > 0) {
            return Err(Errno::EAGAIN);
        }
        let held = self.kernel.leases.held.get(&number).map_or(&[][..], |held| held);
        let foreign = |lease: &Lease| lease.file != file && (kind == F_WRLCK || lease.breaking.is_some());
        // Those that wait for it count as openings.
        let promised = |lease: &Lease| lease.file == file && lease.breaking.is_some_and(|(wanted, _)| wanted != kind);
        if held.iter().any(|lease| foreign(lease) || promised(lease)) {
            return Err(Errno::EAGAIN);
        }
        if !self.kernel.change_lease(number, file, kind) {
            self.kernel.leases.held.entry(number).or_default().push(Lease { file, kind, breaking: None });
        }
        let recipient = &mut self.kernel.files[file].signals.recipient;
        if *recipient == Recipient::Nobody {
            *recipient = Recipient::Process(self.process.pid);
        }
        Ok(())
    }

    /// An access to a file with these flags of `open` is about to happen: breaks the leases that stand against it, and waits for their
    /// holders. EWOULDBLOCK with O_NONBLOCK.
    pub(crate) fn break_leases(&mut self, number: u64, flags: u32) -> Result<(), Outcome> {
        if self.kernel.leases.is_empty() {
            return Ok(());
        }
        self.kernel.leases.expire(number, self.now);
        let writes = flags & O_ACCMODE != O_RDONLY || flags & O_TRUNC != 0;
        let wanted = if writes { F_UNLCK } else { F_RDLCK };
        let until = self.now + self.lease_break_time();
        let Some(held) = self.kernel.leases.held.get_mut(&number) else { return Ok(()) };
        let mut deadline = None;
        let mut told = Vec::new();
        for lease in held.iter_mut().filter(|lease| writes || lease.kind == F_WRLCK) {
            let stronger = lease.breaking.is_none_or(|(kind, _)| kind != F_UNLCK && wanted == F_UNLCK);
            if stronger {
                lease.breaking = Some((wanted, until));
                told.push(lease.file);
            }
            deadline = deadline.max(lease.breaking.map(|(_, until)| until));
        }
        for file in told {
            self.kernel.tell_lease_break(file);
        }
        let Some(deadline) = deadline else { return Ok(()) };
        if flags & O_NONBLOCK != 0 {
            return Err(Errno::EAGAIN.into());
        }
        if self.thread.wake == Wake::Interrupted {
            return Err(Outcome::Restart(Restart::Sys));
        }
        self.thread.call.deadline = Some(deadline);
        let key = FutexKey::Other { queue: Queue::Lease, number };
        self.kernel.futexes.add(key, FutexWaiter::new(self.thread.tid, u32::MAX));
        self.thread.wait.futex = Some(key);
        Err(self.block(Restart::Sys))
    }

    fn lease_break_time(&self) -> SimDuration {
        const USUAL: u64 = 45;
        let set = self.kernel.shared.settings.number("fs/lease-break-time");
        SimDuration::from_secs(set.unwrap_or(USUAL))
    }
}

impl Kernel {
    /// The holder's signal: SIGIO, or what F_SETSIG said, with the descriptor.
    fn tell_lease_break(&mut self, file: FileId) {
        use linux_abi::signal::{POLL_MSG, SI_KERNEL, Siginfo};
        let sent = self.files[file].signals;
        let band = Events::READABLE | Events::MSG;
        let info = match Signal::from_raw(sent.signal) {
            Some(signal) => Siginfo::poll(signal, POLL_MSG, band.0.into(), sent.fd),
            None => Siginfo::new(Signal::SIGIO, SI_KERNEL),
        };
        self.signal_recipient(sent.recipient, info);
    }
}
