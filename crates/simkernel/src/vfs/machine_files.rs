//! Which of the machine's files guests have read: what a run's digest depends on beside the experiment and the simulator.

use base::map::FastSet;
use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

/// What ld.so is told about where libraries lie. It differs between machines that have the same libraries, and those are noted themselves.
const CACHE_OF_LIBRARIES: &[u8] = b"/etc/ld.so.cache";

/// The real paths of files and folders, shared by all hosts of a run.
#[derive(Clone, Debug, Default)]
pub struct MachineFiles(Arc<Mutex<BTreeSet<Vec<u8>>>>);

impl MachineFiles {
    fn note(&self, path: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_vec());
    }

    /// What guests have read so far, by path.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
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
}
