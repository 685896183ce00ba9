//! Which parts of the file tree a guest sees as what. Guests see the machine's own tree under its own paths; what differs is
//! whether and where a path can be written.

use crate::host::HostConfig;
use std::os::unix::ffi::OsStrExt;

/// Directories that each host has its own writable view of, and whether the machine's own files show through.
const OVERLAYS: [(&str, bool); 9] = [
    ("/tmp", true),
    ("/var/tmp", true),
    ("/var/lib", true),
    ("/var/log", true),
    ("/var/cache", true),
    ("/var/spool", true),
    ("/var/mail", true),
    ("/run", false),
    ("/dev/shm", false),
];

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Area {
    /// The machine's files, which no guest may change.
    ReadOnly,
    /// The run's directory.
    ReadWrite,
    /// Files that the host wrote lie in `upper`, which comes first; below it, if `lower`, the machine's own.
    Overlay { upper: Vec<u8>, lower: bool },
}

/// Prefixes and their areas, the longest first.
#[derive(Debug)]
pub struct Mounts {
    table: Vec<(Vec<u8>, Area)>,
}

impl Mounts {
    pub fn new(config: &HostConfig) -> Self {
        let private = config.host_dir.join("fs");
        let mut table = vec![(config.data_dir.as_os_str().as_bytes().to_vec(), Area::ReadWrite)];
        for (prefix, lower) in OVERLAYS {
            let upper = private.join(&prefix[1..]).as_os_str().as_bytes().to_vec();
            table.push((prefix.as_bytes().to_vec(), Area::Overlay { upper, lower }));
        }
        table.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Mounts { table }
    }

    /// The area of an absolute path without `.`, `..` and links, and the length of the prefix that put it there.
    pub fn find(&self, path: &[u8]) -> (&Area, usize) {
        for (prefix, area) in &self.table {
            if is_below(path, prefix) {
                return (area, prefix.len());
            }
        }
        (&Area::ReadOnly, 0)
    }
}

/// Whether a path is `prefix` or lies below it.
pub fn is_below(path: &[u8], prefix: &[u8]) -> bool {
    path.starts_with(prefix) && matches!(path.get(prefix.len()), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::tests::config;

    #[test]
    fn the_longest_prefix_decides() {
        let mounts = Mounts::new(&config(std::path::Path::new("/tmp/run.data")));
        assert_eq!(mounts.find(b"/tmp/run.data/hosts/a/x").0, &Area::ReadWrite);
        assert!(matches!(mounts.find(b"/tmp/run.database").0, Area::Overlay { lower: true, .. }));
        assert!(matches!(mounts.find(b"/run/lock").0, Area::Overlay { lower: false, .. }));
        assert_eq!(mounts.find(b"/etc/passwd").0, &Area::ReadOnly);
        assert_eq!(mounts.find(b"").0, &Area::ReadOnly);
    }
}
