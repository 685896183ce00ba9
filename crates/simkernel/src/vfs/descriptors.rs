//! A bounded cache of real descriptors. Guests' files keep path and offset; a real descriptor is opened when one is needed and
//! closed when others were needed more recently, so that thousands of guests fit the machine's limit.

use crate::machine::errno;
use linux_abi::Errno;
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

#[derive(Debug)]
struct Entry {
    serial: u64,
    used: u64,
    fd: OwnedFd,
}

#[derive(Debug)]
pub struct Descriptors {
    entries: Vec<Entry>,
    capacity: usize,
    clock: u64,
}

impl Descriptors {
    pub fn new(capacity: usize) -> Self {
        Descriptors { entries: Vec::new(), capacity: capacity.clamp(1, 256), clock: 0 }
    }

    /// The descriptor kept for the open file `serial`, opened again at its path where it was closed.
    pub fn get(&mut self, serial: u64, path: &[u8], writable: bool) -> Result<BorrowedFd<'_>, Errno> {
        self.clock += 1;
        let at = match self.entries.iter().position(|entry| entry.serial == serial) {
            Some(at) => at,
            None => {
                let access = if writable { OFlags::RDWR } else { OFlags::RDONLY };
                let fd = rustix::fs::open(path, access | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
                    .map_err(errno)?;
                self.insert(serial, fd);
                self.entries.len() - 1
            }
        };
        self.entries[at].used = self.clock;
        Ok(self.entries[at].fd.as_fd())
    }

    /// Keeps a descriptor that was just opened.
    pub fn insert(&mut self, serial: u64, fd: OwnedFd) {
        if self.entries.len() >= self.capacity {
            let oldest =
                (0..self.entries.len()).min_by_key(|&i| self.entries[i].used).expect("a full cache is not empty");
            self.entries.swap_remove(oldest);
        }
        self.clock += 1;
        self.entries.push(Entry { serial, used: self.clock, fd });
    }

    /// Gives up the descriptor of a file that is closed, or hands it to one that must keep it.
    pub fn take(&mut self, serial: u64) -> Option<OwnedFd> {
        let at = self.entries.iter().position(|entry| entry.serial == serial)?;
        Some(self.entries.swap_remove(at).fd)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_bounded_and_reopens() {
        let mut cache = Descriptors::new(2);
        for serial in 0..5 {
            cache.get(serial, b"/etc/passwd", false).unwrap();
        }
        assert_eq!(cache.len(), 2);
        let mut byte = [0; 1];
        let fd = cache.get(0, b"/etc/passwd", false).unwrap();
        assert_eq!(rustix::io::pread(fd, &mut byte, 0).unwrap(), 1);
        assert_eq!(cache.get(9, b"/nowhere", false).unwrap_err(), Errno::ENOENT);
        assert!(cache.take(0).is_some() && cache.take(0).is_none());
    }
}
