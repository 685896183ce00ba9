//! The open files of a call that waits, and the descriptor that it will return.
//!
//! On Linux a call looks its descriptors up once and holds the files behind them until it is over. A thread that closes or
//! replaces such a descriptor meanwhile takes the number away, not the file: the call goes on and completes, and the file's peers
//! notice nothing before. Calls are executed again here (decision 9), so what they hold stands in the thread.

use crate::ctx::Ctx;
use crate::fd_table::FdTable;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::shared::Key;
use crate::thread::Thread;
use linux_abi::process::P_PIDFD;
use linux_abi::sysinfo::RLIMIT_NOFILE;
use linux_abi::{Errno, nr};

/// What a call in progress has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Held {
    /// A reference to an open file, and the descriptor that means it for the rest of the call; None for a file that is only kept open.
    File { file: FileId, fd: Option<u32> },
    /// A number for the descriptor that it makes, which nobody else gets meanwhile.
    Number { table: Key<FdTable>, fd: u32 },
}

/// Which arguments of a call that may wait are descriptors. Those of `poll` and `select` are looked up again each time that the call
/// looks at them, as on Linux; see `Ctx::keep_open`.
fn descriptors(number: u64, args: &[u64; 6]) -> &'static [usize] {
    match number as u32 {
        nr::read | nr::readv | nr::preadv2 | nr::write | nr::writev | nr::pwritev2 | nr::vmsplice => &[0],
        nr::connect | nr::accept | nr::accept4 => &[0],
        nr::recvfrom | nr::recvmsg | nr::recvmmsg | nr::sendto | nr::sendmsg | nr::sendmmsg => &[0],
        nr::epoll_wait | nr::epoll_pwait | nr::epoll_pwait2 => &[0],
        nr::flock | nr::fcntl | nr::ioctl | nr::mq_timedsend | nr::mq_timedreceive => &[0],
        // The directory from which a file with a lease is opened.
        nr::openat | nr::openat2 => &[0],
        nr::sendfile | nr::tee => &[0, 1],
        nr::splice => &[0, 2],
        nr::waitid if args[0] as i32 == P_PIDFD => &[1],
        _ => &[],
    }
}

/// Calls hold two descriptors at most, and note them before all else. Only `poll` and `select` keep more files open, and
/// none of these by its number.
const MOST_BY_NUMBER: usize = 4;

impl Thread {
    /// The file that a descriptor means for the call in progress, whatever has become of it meanwhile.
    #[inline]
    pub(crate) fn held_file(&self, fd: u64) -> Option<FileId> {
        self.held.iter().take(MOST_BY_NUMBER).find_map(|held| match held {
            Held::File { file, fd: Some(of) } if *of == fd as u32 => Some(*file),
            _ => None,
        })
    }

    /// The number that the call in progress has for the descriptor that it makes, if it has one yet.
    pub(crate) fn reserved_fd(&self) -> Option<u32> {
        self.held.iter().find_map(|held| match held {
            Held::Number { fd, .. } => Some(*fd),
            Held::File { .. } => None,
        })
    }
}

impl Ctx<'_> {
    /// The call in progress begins to wait: its descriptors mean until its end what they mean now.
    pub(crate) fn hold_files(&mut self, number: u64, args: &[u64; 6]) {
        for argument in descriptors(number, args) {
            self.hold_file(args[*argument]);
        }
    }

    /// A descriptor, if it is one, means until the end of the call in progress what it means now.
    pub(crate) fn hold_file(&mut self, fd: u64) {
        if let Ok(file) = self.fds().get(fd) {
            self.kernel.files.acquire(file);
            self.take_over(file, Some(fd));
        }
    }

    /// Keeps a file open until the call in progress is over.
    pub(crate) fn keep_open(&mut self, file: FileId) {
        self.kernel.files.acquire(file);
        self.take_over(file, None);
    }

    /// Keeps a file, by a reference that the call has already, until the call is over; `fd` means it until then, if given.
    pub(crate) fn take_over(&mut self, file: FileId, fd: Option<u64>) {
        self.thread.held.push(Held::File { file, fd: fd.map(|fd| fd as u32) });
    }

    /// The number for the descriptor that the call in progress makes: the lowest that is free when the call first asks. As on Linux, where it is
    /// taken before the call waits. EMFILE.
    pub(crate) fn reserve_fd(&mut self) -> Result<u32, Errno> {
        if let Some(fd) = self.thread.reserved_fd() {
            return Ok(fd);
        }
        let limit = self.process.limits.soft(RLIMIT_NOFILE);
        let fd = self.fds_mut().reserve(limit)?;
        self.thread.held.push(Held::Number { table: self.fds_key(), fd });
        Ok(fd)
    }

    /// The call in progress is over.
    #[cold]
    pub(crate) fn release_held(&mut self) {
        self.kernel.release_held(self.thread);
    }
}

impl Kernel {
    /// Gives up what a thread's call has held.
    pub(crate) fn release_held(&mut self, thread: &mut Thread) {
        // What was allocated for the list stays: a thread that waits again will need it.
        for held in thread.held.drain(..) {
            match held {
                Held::File { file, .. } => self.release_file(file),
                Held::Number { table, fd } => self.shared.fds[table].cancel(fd),
            }
        }
    }
}
