//! The run's directory as what all hosts have in common: who meets whom there, and what of it is no guest's business.
//!
//! Hosts that look into each other's folders in different windows always find the same, since windows follow each other. Within one window
//! workers decide who comes first, so what they find there is noticed: the run is then not reproducible.

use crate::host::HostNames;
use base::map::{FastMap, FastSet};
use base::{HostId, SimTime};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Files that the run writes beside the hosts' folders while guests live: the time of day and what options were given stand in them.
const RECORDS: [&str; 9] = [
    "gnomon.log",
    "host-traffic.csv",
    "processed-config.yaml",
    "profile",
    "progress.csv",
    "provenance",
    "rank-costs.json",
    "sim-stats.json",
    "windows.parquet",
];

/// The low bits of a mark, which say who; the others say when.
const WHO_BITS: u32 = 24;
const SEVERAL: u64 = (1 << WHO_BITS) - 1;

/// Who did something in a window: its only doer, or `SEVERAL`.
#[derive(Debug, Default)]
struct Mark(AtomicU64);

impl Mark {
    /// Notes that `who` did it in `window` (a number whose low bits are zero).
    fn note(&self, window: u64, who: u64) {
        let with = |old: u64| match old & !SEVERAL == window && old & SEVERAL != who {
            true => window | SEVERAL,
            false => window | who,
        };
        let old = self.0.load(Ordering::SeqCst);
        if with(old) != old {
            self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(with(old))).ok();
        }
    }

    /// Whether somebody else did it in `window`.
    fn is_of_others(&self, window: u64, who: u64) -> bool {
        let mark = self.0.load(Ordering::SeqCst);
        mark & !SEVERAL == window && mark & SEVERAL != who
    }
}

#[derive(Debug, Default)]
struct Marks {
    looked: Mark,
    changed: Mark,
}

/// A folder's files, and apart from them what its guests write to standard output and error, which are written down from time to time.
#[derive(Debug, Default)]
struct Folder {
    files: Marks,
    outputs: Marks,
}

/// What hosts share. Made once for a run.
#[derive(Debug)]
pub struct Folders {
    /// By [`HostId`], and last of what lies in no host's folder.
    folders: Vec<Folder>,
    /// By the folder's name.
    hosts: FastMap<Vec<u8>, u32>,
    /// Hosts whose windows this process executes.
    is_here: Vec<bool>,
    /// Where records of the run lie that guests do not see, as the machine has them.
    records: RwLock<FastSet<Vec<u8>>>,
    has_records: AtomicBool,
}

impl Folders {
    /// For these hosts, of which `is_here` says whether they are this process's.
    pub fn new(names: &HostNames, is_here: impl Fn(HostId) -> bool) -> Folders {
        let names: Vec<_> = names.iter().map(|host| host.name.as_bytes().to_vec()).collect();
        Folders {
            folders: (0..=names.len()).map(|_| Folder::default()).collect(),
            is_here: (0..names.len()).map(|host| is_here(HostId(host as u32))).collect(),
            hosts: names.into_iter().zip(0..).collect(),
            records: RwLock::default(),
            has_records: AtomicBool::new(false),
        }
    }

    /// Keeps the run's own files in its directory from guests.
    pub fn hide_records(&self, directory: &Path) {
        RECORDS.iter().for_each(|name| self.hide(&directory.join(name)));
    }

    /// Keeps a file from guests, by its path on the machine.
    pub fn hide(&self, path: &Path) {
        let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
        records.insert(path.as_os_str().as_bytes().to_vec());
        self.has_records.store(true, Ordering::Release);
    }

    /// Whether guests do not see a file.
    pub fn hides(&self, path: &[u8]) -> bool {
        self.has_records.load(Ordering::Acquire)
            && self.records.read().unwrap_or_else(PoisonError::into_inner).contains(path)
    }
}

/// What one host knows of them.
#[derive(Debug)]
pub struct Visitor {
    folders: Arc<Folders>,
    own: u32,
    /// The run's directory and the host's own folder as the machine has them.
    run: Vec<u8>,
    home: Vec<u8>,
    /// The window that is executed, in the form of a mark.
    window: u64,
}

/// Whether a path lies below a directory, and what follows then.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    path.strip_prefix(directory)?.strip_prefix(b"/")
}

impl Visitor {
    pub fn new(folders: Arc<Folders>, own: HostId, run: &Path, home: &Path) -> Visitor {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        Visitor { folders, own: own.0, run: bytes(run), home: bytes(home), window: 0 }
    }

    /// From here on the window that began then is executed.
    pub fn enter_window(&mut self, start: SimTime) {
        // An odd factor keeps different moments apart, but for one pair in 2^40.
        self.window = (start.as_nanos() + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & !SEVERAL;
    }

    pub fn hides(&self, path: &[u8]) -> bool {
        self.folders.hides(path)
    }

    /// The host looks at a file of the machine. Whether it met another one that changes something there.
    pub fn looks_at(&self, path: &[u8]) -> bool {
        let Some((marks, is_here)) = self.marks(path) else { return false };
        let own = u64::from(self.own);
        marks.looked.note(self.window, own);
        !is_here || marks.changed.is_of_others(self.window, own)
    }

    /// The host changes a file. Whether it met another one that looks at something there, or changes it.
    pub fn changes(&self, path: &[u8]) -> bool {
        let Some((marks, is_here)) = self.marks(path) else { return false };
        let own = u64::from(self.own);
        marks.changed.note(self.window, own);
        !is_here || marks.looked.is_of_others(self.window, own) || marks.changed.is_of_others(self.window, own)
    }

    /// The marks of the folder in which a file lies, and whether its host is this process's; None outside of the run's directory.
    fn marks(&self, path: &[u8]) -> Option<(&Marks, bool)> {
        let (folder, name) = match below(path, &self.home) {
            Some(name) => (self.own as usize, name),
            None => self.foreign(path)?,
        };
        let is_output = !name.contains(&b'/') && (name.ends_with(b".stdout") || name.ends_with(b".stderr"));
        let is_here = self.folders.is_here.get(folder).copied().unwrap_or(true);
        let folder = self.folders.folders.get(folder)?;
        Some((if is_output { &folder.outputs } else { &folder.files }, is_here))
    }

    /// Whose folder it is, if not the host's own, and what of the path follows.
    fn foreign<'a>(&self, path: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let in_none = self.folders.folders.len() - 1;
        let Some(rest) = below(path, &self.run) else { return (path == self.run).then_some((in_none, b"")) };
        let Some(rest) = below(rest, b"hosts") else { return Some((in_none, b"")) };
        let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
        match self.folders.hosts.get(&rest[..end]) {
            Some(host) => Some((*host as usize, rest.get(end + 1..).unwrap_or_default())),
            None => Some((in_none, b"")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::HostName;
    use crate::test_machine::addresses_of;

    fn folders() -> Arc<Folders> {
        let host = |(name, last): (&str, u8)| HostName {
            name: name.to_owned(),
            addresses: addresses_of([11, 0, 0, last].into()),
        };
        let names = [("a", 1), ("b", 2), ("elsewhere", 3)].map(host).into_iter().collect();
        Arc::new(Folders::new(&names, |host| host.0 < 2))
    }

    fn visitor(folders: &Arc<Folders>, number: u32, name: &str) -> Visitor {
        let run = Path::new("/run.data");
        let mut visitor = Visitor::new(Arc::clone(folders), HostId(number), run, &run.join("hosts").join(name));
        visitor.enter_window(SimTime::from_nanos(1_000_000_000));
        visitor
    }

    #[test]
    fn hosts_meet_in_a_folder_within_a_window_only() {
        let folders = folders();
        let (a, mut b) = (visitor(&folders, 0, "a"), visitor(&folders, 1, "b"));
        assert!(!b.changes(b"/run.data/hosts/b/x") && !b.looks_at(b"/run.data/hosts/b/x"));
        assert!(a.looks_at(b"/run.data/hosts/b") && a.looks_at(b"/run.data/hosts/b/y"));
        assert!(!a.looks_at(b"/run.data/hosts/a/x") && !a.changes(b"/run.data/hosts/a/x"));
        assert!(b.changes(b"/run.data/hosts/b/x"), "the other one has looked");
        b.enter_window(SimTime::from_nanos(2_000_000_000));
        assert!(!b.changes(b"/run.data/hosts/b/x") && !b.looks_at(b"/run.data/hosts/a/x"));
    }

    #[test]
    fn many_may_look_and_outputs_are_apart() {
        let folders = folders();
        let (a, b) = (visitor(&folders, 0, "a"), visitor(&folders, 1, "b"));
        for visitor in [&a, &b] {
            assert!(!visitor.looks_at(b"/run.data/conf/torrc") && !visitor.looks_at(b"/usr/bin/env"));
        }
        assert!(a.changes(b"/run.data/conf/new"), "others look there");
        assert!(!b.changes(b"/run.data/hosts/b/sh.1000.stdout") && !a.looks_at(b"/run.data/hosts/b/keys"));
        assert!(a.looks_at(b"/run.data/hosts/b/sh.1000.stdout"));
        assert!(a.looks_at(b"/run.data/hosts/elsewhere/x"), "another process has its windows");
    }

    #[test]
    fn records_are_hidden() {
        let folders = folders();
        assert!(!folders.hides(b"/run.data/gnomon.log"));
        folders.hide_records(Path::new("/run.data"));
        folders.hide(Path::new("/run.data/hosts/a/eth0.pcap"));
        assert!(folders.hides(b"/run.data/gnomon.log") && folders.hides(b"/run.data/hosts/a/eth0.pcap"));
        assert!(!folders.hides(b"/run.data/hosts/b/eth0.pcap") && !folders.hides(b"/run.data/tor-network.json"));
    }
}
