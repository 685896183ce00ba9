//! Which parts of the file tree a guest sees as what. Guests see the machine's own tree under its own paths; whatever
//! they write lies in a part that is private to their host, or in the run's directory, which they see at a fixed place.

use crate::host::{DATA_DIRECTORY, HostConfig};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What of the machine shows through an overlay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lower {
    /// Nothing.
    Nothing,
    /// What is made up.
    MadeUp,
    /// What others on the machine may change at any time.
    Changing,
    /// What stays as it is during a run.
    Lasting,
}

/// Places that are made up, and where no file can be made.
const MADE_UP: [&str; 4] = ["/dev/mqueue", "/dev/pts", "/proc", "/sys"];

/// Directories of `/run` that every system has, with their permission bits.
pub const RUN_DIRECTORIES: [(&str, u32); 2] = [("/run/lock", 0o1777), ("/run/user", 0o755)];

/// Directories that each host has its own writable view of, what of the machine shows through, and the permission bits of those that the
/// machine has not or that nothing shows through.
const OVERLAYS: [(&str, Lower, u32); 18] = [
    ("", Lower::Lasting, 0o755),
    ("/usr", Lower::Lasting, 0o755),
    ("/opt", Lower::Lasting, 0o755),
    ("/boot", Lower::Lasting, 0o755),
    ("/etc", Lower::Lasting, 0o755),
    ("/home", Lower::Lasting, 0o755),
    ("/root", Lower::Lasting, 0o700),
    ("/srv", Lower::Lasting, 0o755),
    ("/tmp", Lower::Changing, 0o1777),
    ("/var/tmp", Lower::Changing, 0o1777),
    ("/var/lib", Lower::Changing, 0o755),
    ("/var/log", Lower::Changing, 0o755),
    ("/var/cache", Lower::Changing, 0o755),
    ("/var/spool", Lower::Changing, 0o755),
    ("/var/mail", Lower::Changing, 0o2775),
    ("/run", Lower::Nothing, 0o755),
    ("/dev", Lower::MadeUp, 0o755),
    ("/dev/shm", Lower::Nothing, 0o1777),
];

/// What Java's machines leave in `/tmp` for as long as they run, and clear away after others: of programs outside, it would make a
/// difference which of them happen to run.
const OF_RUNNING_PROGRAMS: [&[u8]; 3] = [b"/tmp/hsperfdata_", b"/tmp/.java_pid", b"/tmp/.attach_pid"];

/// Whether something below `/tmp` belongs to programs outside that run at the moment.
pub fn is_of_running_programs(path: &[u8]) -> bool {
    path.starts_with(b"/tmp/") && OF_RUNNING_PROGRAMS.iter().any(|prefix| path.starts_with(prefix))
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Area {
    /// What is made up: `/proc` and its like.
    ReadOnly,
    /// The run's directory.
    Run,
    Overlay(Overlay),
}

/// Files that the host wrote lie in `upper`, which comes first; below it the machine's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlay {
    pub upper: Vec<u8>,
    pub lower: Lower,
    /// Permission bits of the directory itself where the machine gives none.
    pub mode: u32,
    /// Something may lie in `upper`: until then nobody looks there.
    pub used: bool,
}

impl Overlay {
    pub fn shows_machine(&self) -> bool {
        matches!(self.lower, Lower::Changing | Lower::Lasting)
    }
}

/// Prefixes and their areas, the longest first.
#[derive(Debug)]
pub struct Mounts {
    table: Vec<(Vec<u8>, Area)>,
    /// The run's directory on the machine.
    run: Vec<u8>,
    /// The directory that the host works in, as guests see it.
    host: Vec<u8>,
}

impl Mounts {
    pub fn new(config: &HostConfig) -> Self {
        let private = config.host_dir.join("fs");
        let mut table = vec![(DATA_DIRECTORY.as_bytes().to_vec(), Area::Run)];
        for (prefix, lower, mode) in OVERLAYS {
            let below = prefix.trim_start_matches('/');
            let upper = if below.is_empty() { private.clone() } else { private.join(below) };
            let used = upper.exists();
            let upper = upper.as_os_str().as_bytes().to_vec();
            table.push((prefix.as_bytes().to_vec(), Area::Overlay(Overlay { upper, lower, mode, used })));
        }
        table.extend(MADE_UP.map(|prefix| (prefix.as_bytes().to_vec(), Area::ReadOnly)));
        table.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (run, host) = (bytes(&config.data_dir), bytes(&config.shown(&config.host_dir)));
        let mut mounts = Mounts { table, run, host };
        mounts.show_beside_run(&private);
        mounts
    }

    /// What lies beside the run's directory shows also where nothing else of the machine does: below `/dev/shm` and `/run`.
    fn show_beside_run(&mut self, private: &Path) {
        let beside = self.beside_run().to_vec();
        let (area, prefix) = self.find(&beside);
        if prefix < beside.len() && matches!(area, Area::Overlay(overlay) if !overlay.shows_machine()) {
            let upper = [private.as_os_str().as_bytes(), &beside].concat();
            let used = super::as_path(&upper).exists();
            let overlay = Overlay { upper, lower: Lower::Changing, mode: 0o755, used };
            self.table.push((beside, Area::Overlay(overlay)));
            self.table.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        }
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

    /// Notes that the overlay at this prefix holds something. True at the first time.
    pub fn use_overlay(&mut self, prefix: &[u8]) -> bool {
        let entry = self.table.iter_mut().find(|(known, _)| known == prefix);
        let Some((_, Area::Overlay(overlay))) = entry else { return false };
        !std::mem::replace(&mut overlay.used, true)
    }

    /// Whether a directory leads to the one that the host works in, as guests see it or as the machine has it.
    pub fn leads_to_host(&self, path: &[u8]) -> bool {
        let leads = |to: &[u8]| to.len() > path.len() && is_below(to, path);
        leads(&self.host) || leads(&self.run)
    }

    /// Where the machine has what guests see at a path in the run's directory.
    pub fn real(&self, path: &[u8]) -> Vec<u8> {
        [&self.run, &path[DATA_DIRECTORY.len()..]].concat()
    }

    /// Goes from a directory to the name below it. The run's directory has one name for guests, by whatever path they come to it.
    pub fn enter(&self, at: &mut Vec<u8>, name: &[u8]) {
        let is_beside = is_beside_run(at);
        if is_beside && name != below_that(DATA_DIRECTORY) && matches!(self.beside_run(), b"" | b"/dev" | b"/etc") {
            // What is made up has one name only.
            *at = self.beside_run().to_vec();
        }
        at.push(b'/');
        at.extend_from_slice(name);
        if *at == self.run || is_beside && self.run.ends_with(&at[at.len() - name.len() - 1..]) {
            *at = DATA_DIRECTORY.into();
        }
    }

    /// The machine's name for what guests see at a path: what lies beside the run's directory shows twice, as a folder that is
    /// mounted in a second place. Other paths stay as they are.
    pub fn machine_path<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        let above = super::parent(DATA_DIRECTORY.as_bytes());
        if !is_below(path, above) || is_below(path, DATA_DIRECTORY.as_bytes()) {
            return Cow::Borrowed(path);
        }
        Cow::Owned([self.beside_run(), &path[above.len()..]].concat())
    }

    /// What a list of a directory has of the run's directory, whose real name must not show: the name that guests know it by, and nothing where
    /// they look at the machine's own path.
    pub fn show_run<T>(&self, path: &[u8], names: &mut BTreeMap<Vec<u8>, T>) {
        let beside = is_beside_run(path);
        if beside || path == self.beside_run() {
            let own = names.remove(&self.run[self.beside_run().len() + 1..]);
            if let Some(own) = own.filter(|_| beside) {
                names.insert(below_that(DATA_DIRECTORY).to_vec(), own);
            }
        }
    }

    /// The machine's directory in which the run's directory lies; empty for the root.
    pub fn beside_run(&self) -> &[u8] {
        super::parent(&self.run)
    }
}

/// Whether it is the name that stands for the directory in which the run's directory lies.
pub fn is_beside_run(path: &[u8]) -> bool {
    path == super::parent(DATA_DIRECTORY.as_bytes())
}

/// The last name of a path.
fn below_that(path: &str) -> &[u8] {
    path.rsplit_once('/').map_or("", |(_, name)| name).as_bytes()
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
        assert_eq!(mounts.find(b"/gnomon-run/data/hosts/a/x").0, &Area::Run);
        assert_eq!(mounts.real(b"/gnomon-run/data/hosts/a/x"), b"/tmp/run.data/hosts/a/x");
        assert!(matches!(mounts.find(b"/tmp/run.database").0, Area::Overlay(Overlay { lower: Lower::Changing, .. })));
        assert!(matches!(mounts.find(b"/run/lock").0, Area::Overlay(Overlay { lower: Lower::Nothing, .. })));
        assert_eq!(mounts.find(b"/proc/self").0, &Area::ReadOnly);
        assert!(matches!(mounts.find(b"/usr/bin").0, Area::Overlay(Overlay { lower: Lower::Lasting, .. })));
        assert!(
            mounts.leads_to_host(b"")
                && mounts.leads_to_host(b"/tmp")
                && mounts.leads_to_host(b"/gnomon-run/data/hosts")
        );
        assert!(mounts.leads_to_host(b"/gnomon-run/data") && !mounts.leads_to_host(b"/gnomon-run/data/hosts/alpha"));
        assert!(!mounts.leads_to_host(b"/tmp/other") && !mounts.leads_to_host(b"/gnomon-run/data/hosts/beta"));
        assert!(matches!(mounts.find(b""), (Area::Overlay(_), 0)));
    }

    #[test]
    fn walks_come_to_the_run_s_directory_under_its_one_name() {
        let mounts = Mounts::new(&config(std::path::Path::new("/home/me/run.data")));
        let enter = |mounts: &Mounts, from: &str, name: &str| {
            let mut at = from.as_bytes().to_vec();
            mounts.enter(&mut at, name.as_bytes());
            String::from_utf8(at).expect("text")
        };
        assert_eq!(enter(&mounts, "/home/me", "run.data"), "/gnomon-run/data");
        assert_eq!(enter(&mounts, "/gnomon-run", "data"), "/gnomon-run/data");
        assert_eq!(enter(&mounts, "/gnomon-run", "conf"), "/gnomon-run/conf");
        assert_eq!(enter(&mounts, "/gnomon-run", "run.data"), "/gnomon-run/data");
        assert_eq!(enter(&mounts, "/gnomon-run/data", "hosts"), "/gnomon-run/data/hosts");
        let at_root = Mounts::new(&config(std::path::Path::new("/run.data")));
        let entered = ["etc", "data", "run.data"].map(|name| enter(&at_root, "/gnomon-run", name));
        assert_eq!(entered, ["/etc", "/gnomon-run/data", "/gnomon-run/data"]);
    }

    #[test]
    fn what_lies_beside_the_run_is_the_machine_s() {
        let mounts = Mounts::new(&config(std::path::Path::new("/home/me/run.data")));
        let machine = |path: &str| String::from_utf8(mounts.machine_path(path.as_bytes()).into_owned()).expect("text");
        assert_eq!(
            (machine("/gnomon-run"), machine("/gnomon-run/conf/x")),
            ("/home/me".into(), "/home/me/conf/x".into())
        );
        for path in ["/gnomon-run/data", "/gnomon-run/data/hosts", "/home/me/conf", "/gnomon-runs", ""] {
            assert_eq!(machine(path), path);
        }
    }

    #[test]
    fn what_lies_beside_a_run_in_memory_shows() {
        let mounts = Mounts::new(&config(std::path::Path::new("/dev/shm/x/run.data")));
        let path = mounts.machine_path(b"/gnomon-run/conf");
        assert_eq!(&*path, b"/dev/shm/x/conf");
        assert!(matches!(mounts.find(&path).0, Area::Overlay(overlay) if overlay.shows_machine()));
        assert!(matches!(mounts.find(b"/dev/shm/y").0, Area::Overlay(Overlay { lower: Lower::Nothing, .. })));
    }

    #[test]
    fn lists_do_not_show_what_the_run_s_directory_is_called() {
        let mounts = Mounts::new(&config(std::path::Path::new("/home/me/run.data")));
        let list = |path: &[u8]| {
            let mut names: BTreeMap<Vec<u8>, u32> =
                ["conf", "data", "run.data"].iter().zip(0..).map(|(name, at)| (name.as_bytes().to_vec(), at)).collect();
            mounts.show_run(path, &mut names);
            names.into_iter().map(|(name, at)| (String::from_utf8(name).expect("text"), at)).collect::<Vec<_>>()
        };
        assert_eq!(list(b"/gnomon-run"), [("conf".into(), 0), ("data".into(), 2)]);
        assert_eq!(list(b"/home/me"), [("conf".into(), 0), ("data".into(), 1)]);
        assert_eq!(list(b"/home").len(), 3);
        let at_root = Mounts::new(&config(std::path::Path::new("/data.d")));
        let mut names = BTreeMap::from([(b"data.d".to_vec(), ())]);
        at_root.show_run(b"", &mut names);
        assert!(names.is_empty());
    }
}
