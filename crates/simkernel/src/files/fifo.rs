//! The file in front of a pipe that has a name, fifo(7): as long as the pipe is open, whatever becomes of the name.

use super::pipe::{PipeEnd, PipeId};
use crate::kernel::Kernel;
use crate::vfs::{RealNode, errno};
use linux_abi::Errno;
use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;

#[derive(Debug)]
pub struct Fifo {
    /// A place (O_PATH), which keeps the real file.
    fd: OwnedFd,
    /// Where the real file lay when it was opened.
    real: Vec<u8>,
    /// The guest-visible inode number.
    number: u64,
    /// It lies in a writable area.
    in_run: bool,
    /// The path by which the guest opened it, moved since where it was.
    pub path: Vec<u8>,
}

impl Fifo {
    /// What `/proc/PID/fd` shows.
    pub fn shown(&self) -> Vec<u8> {
        let is_gone = rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink == 0);
        [&self.path[..], if is_gone { b" (deleted)" } else { b"" }].concat()
    }
}

impl Kernel {
    /// A pipe for a FIFO that is opened first, by a path of the guest.
    pub(crate) fn new_fifo(&mut self, path: Vec<u8>, node: &RealNode) -> Result<PipeId, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&node.path[..], flags, Mode::empty()).map_err(errno)?;
        let pipe = self.new_pipe();
        let number = self.vfs.identities.of_node(node);
        let fifo = Fifo { fd, real: node.path.clone(), number, in_run: node.writable, path };
        self.pipes[pipe.0 as usize].fifo = Some(Box::new(fifo));
        self.vfs.remember_fifo(&node.stat, pipe);
        Ok(pipe)
    }

    /// The path and the real file of an end that has them; None for an anonymous pipe's.
    pub(crate) fn fifo_of(&self, end: PipeEnd) -> Result<Option<(Vec<u8>, RealNode)>, Errno> {
        let Some(fifo) = &self.pipes[end.pipe.0 as usize].fifo else { return Ok(None) };
        let stat = rustix::fs::fstat(&fifo.fd).map_err(errno)?;
        Ok(Some((fifo.path.clone(), RealNode { path: fifo.real.clone(), stat, writable: fifo.in_run })))
    }

    /// Bytes were read from a pipe, or written to it: a file in front of it shows when.
    pub(super) fn note_fifo_use(&mut self, pipe: PipeId, writes: bool) {
        let Some(fifo) = &self.pipes[pipe.0 as usize].fifo else { return };
        match writes {
            true if fifo.in_run => self.vfs.identities.touch(fifo.number, self.now),
            true => {}
            false => self.vfs.identities.access(fifo.number, fifo.in_run, self.now),
        }
    }

    /// The last end of `pipe` was closed; `fifo` is the file in front of it.
    pub(super) fn close_fifo(&mut self, pipe: PipeId, fifo: Option<Box<Fifo>>) {
        if let Some(Ok(stat)) = fifo.map(|fifo| rustix::fs::fstat(&fifo.fd)) {
            self.vfs.forget_fifo(&stat, pipe);
        }
    }
}
