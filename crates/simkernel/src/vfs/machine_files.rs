//! Which of the machine's files guests have read: what a run's digest depends on beside the experiment and the simulator.

use base::map::FastSet;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What ld.so is told about where libraries lie. It differs between machines that have the same libraries, and those are noted themselves.
const CACHE_OF_LIBRARIES: &[u8] = b"/etc/ld.so.cache";

/// The real paths of files and folders, shared by all hosts of a run.
#[derive(Clone, Debug, Default)]
pub struct MachineFiles(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    paths: BTreeSet<Vec<u8>>,
    /// Gets each path when it is noted for the first time.
    told: Option<Sender<Vec<u8>>>,
}

impl MachineFiles {
    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on sends each path when a guest reads it for the first time, until [`tell_nobody`](Self::tell_nobody).
    pub fn tell(&self, told: Sender<Vec<u8>>) {
        self.lock().told = Some(told);
    }

    /// Ends what [`tell`](Self::tell) began, and with it the receiver's list.
    pub fn tell_nobody(&self) {
        self.lock().told = None;
    }

    fn note(&self, path: &[u8]) {
        let mut noted = self.lock();
        if noted.paths.insert(path.to_vec())
            && let Some(told) = &noted.told
        {
            // The receiver may have ended.
            let _ = told.send(path.to_vec());
        }
    }

    /// What guests have read so far, by path.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        self.lock().paths.iter().cloned().collect()
    }
}

/// What one host has read, so that it asks for the common list once per file.
#[derive(Debug)]
pub(super) struct Reads {
    all: MachineFiles,
    /// Hashes of paths.
    known: FastSet<u64>,
}

impl Reads {
    pub(super) fn new(all: &MachineFiles) -> Reads {
        Reads { all: all.clone(), known: FastSet::default() }
    }

    /// A guest reads a file of the machine, or lists a folder.
    pub(super) fn note(&mut self, path: &[u8]) {
        let hash = self.known.hasher().hash_one(path);
        if path != CACHE_OF_LIBRARIES && self.known.insert(hash) {
            self.all.note(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_have_one_list() {
        let all = MachineFiles::default();
        let (mut one, mut other) = (Reads::new(&all), Reads::new(&all));
        for path in [&b"/usr/bin/tor"[..], b"/etc/ld.so.cache", b"/lib/libc.so.6", b"/usr/bin/tor"] {
            one.note(path);
            other.note(path);
        }
        other.note(b"/usr/share/tor");
        assert_eq!(all.paths(), [&b"/lib/libc.so.6"[..], b"/usr/bin/tor", b"/usr/share/tor"]);
    }

    #[test]
    fn each_path_is_told_once() {
        let all = MachineFiles::default();
        let (told, paths) = std::sync::mpsc::channel();
        all.tell(told);
        let (mut one, mut other) = (Reads::new(&all), Reads::new(&all));
        one.note(b"/usr/bin/tor");
        other.note(b"/usr/bin/tor");
        all.tell_nobody();
        one.note(b"/usr/share/tor");
        assert_eq!(paths.iter().collect::<Vec<_>>(), [b"/usr/bin/tor"]);
    }
}
