//! The file tree as a guest sees it, over a run directory that vanishes with the test.

use super::synthetic::View;
use super::walk::Node;
use super::*;
use crate::files::FileTable;
use crate::host::{HostConfig, HostName};
use crate::ids::IdTable;
use crate::process::Process;
use crate::shared::Shared;
use crate::test_machine::addresses_of;
use crate::thread::Thread;
use crate::tty::Terminals;
use base::HostId;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) fn config(data_dir: &Path) -> HostConfig {
    let alpha = HostName { name: "alpha".to_owned(), addresses: addresses_of([11, 0, 0, 1].into()) };
    HostConfig::plain(HostId(0), &alpha, std::slice::from_ref(&alpha), data_dir)
}

/// A run's directory that vanishes with the test.
struct Run {
    root: PathBuf,
    config: HostConfig,
    processes: IdTable<Process>,
    shared: Shared,
    terminals: Terminals,
    threads: IdTable<Thread>,
    ipc: crate::ipc::Ipc,
    files: FileTable,
    net: crate::net::Network,
    unix: crate::unix::UnixSockets,
    vfs: Vfs,
}

impl Run {
    fn new() -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let name = format!("gnomon-vfs-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        let config = config(&root.join("run.data"));
        std::fs::create_dir_all(&config.host_dir).unwrap();
        let vfs = Vfs::new(&config);
        let net = crate::net::Network::new(&config);
        Run {
            root,
            config,
            processes: IdTable::from(1000),
            shared: Shared::default(),
            threads: IdTable::from(1000),
            ipc: crate::ipc::Ipc::default(),
            terminals: Terminals::default(),
            files: FileTable::default(),
            net,
            unix: crate::unix::UnixSockets::default(),
            vfs,
        }
    }

    /// The file tree, and what somebody sees who has these rights, or all.
    fn eyes<'a>(&'a mut self, credentials: Option<&'a Credentials>) -> (&'a mut Vfs, View<'a>) {
        let view = View {
            config: &self.config,
            process: None,
            thread: None,
            credentials,
            threads: &self.threads,
            processes: &self.processes,
            shared: &self.shared,
            ipc: &self.ipc,
            terminals: &self.terminals,
            files: &self.files,
            net: &self.net,
            unix: &self.unix,
            now: SimTime::ZERO,
        };
        (&mut self.vfs, view)
    }

    fn walk(&mut self, path: &str, follow: bool) -> Result<Target, Errno> {
        let (vfs, view) = self.eyes(None);
        vfs.walk(&view, b"/", path.as_bytes(), follow)
    }

    fn real(&mut self, path: &str) -> RealNode {
        match self.walk(path, false).unwrap().node {
            Some(Node::Real(node)) => node,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn names(&mut self, path: &str) -> Vec<String> {
        let target = self.walk(path, true).unwrap();
        let (vfs, view) = self.eyes(None);
        let entries = vfs.list(&view, &target.path, &target.node.unwrap()).unwrap();
        entries.into_iter().map(|e| String::from_utf8(e.name).unwrap()).collect()
    }

    /// A guest's name for a file in the host's folder.
    fn path(&self, name: &str) -> String {
        self.config.shown(&self.config.host_dir.join(name)).to_str().unwrap().to_owned()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

const NOW: SimTime = SimTime::from_nanos(5_000_000_000);
static ROOT: LazyLock<Credentials> = LazyLock::new(Credentials::default);

/// A new file of root.
fn new(mode: u32) -> New<'static> {
    New { mode, owner: &ROOT, now: NOW }
}

#[test]
fn paths_are_walked_through_dots_slashes_and_links() {
    let mut run = Run::new();
    let (dir, link) = (run.path("dir"), run.path("link"));
    run.vfs.mkdir(dir.as_bytes(), &new(0o755)).unwrap();
    run.vfs.symlink(b"dir/../dir", link.as_bytes(), &new(0o777)).unwrap();
    run.vfs.create(format!("{dir}/file").as_bytes(), &new(0o644)).unwrap();
    let target = run.walk(&format!("{link}//./file"), true).unwrap();
    assert_eq!(target.path, format!("{dir}/file").as_bytes());
    assert!(target.node.is_some());
    assert_eq!(run.walk(&format!("{link}/file/x"), true).unwrap_err(), Errno::ENOTDIR);
    assert_eq!(run.walk(&format!("{link}/no/x"), true).unwrap_err(), Errno::ENOENT);
    assert!(run.walk(&format!("{link}/new"), true).unwrap().node.is_none());
    assert_eq!(run.walk(&format!("{dir}/file/"), true).unwrap_err(), Errno::ENOTDIR);
    let looped = run.path("loop");
    run.vfs.symlink(b"loop", looped.as_bytes(), &new(0o777)).unwrap();
    assert_eq!(run.walk(&looped, true).unwrap_err(), Errno::ELOOP);
    assert_eq!(run.walk("", true).unwrap_err(), Errno::ENOENT);
    assert_eq!(run.walk("/..", true).unwrap().path, b"");
}

#[test]
fn nothing_is_written_outside_the_run() {
    let mut run = Run::new();
    assert_eq!(run.vfs.mkdir(b"/sys/new", &new(0o755)), Err(Errno::EROFS));
    assert_eq!(run.vfs.create(b"/sys/new", &new(0o644)).unwrap_err(), Errno::EROFS);
    run.vfs.mkdir(b"/usr/gnomon-must-not-exist", &new(0o755)).unwrap();
    assert!(run.names("/usr").contains(&"gnomon-must-not-exist".to_owned()));
    assert!(!std::path::Path::new("/usr/gnomon-must-not-exist").exists());
    let mode = || std::fs::metadata("/usr/bin/env").unwrap().permissions().mode();
    let before = mode();
    let env = run.real("/usr/bin/env");
    run.vfs.chmod(b"/usr/bin/env", &env, 0, NOW).unwrap();
    let env = run.real("/usr/bin/env");
    assert_eq!(run.vfs.stat(&env).st_mode & 0o777, 0);
    run.vfs.remove(b"/usr/bin/env", &env, false, NOW).unwrap();
    assert!(run.walk("/usr/bin/env", true).unwrap().node.is_none());
    assert_eq!(mode(), before);
}

#[test]
fn overlays_show_the_machine_and_keep_changes_private() {
    let mut run = Run::new();
    let lower = run.root.join("lower");
    std::fs::create_dir(&lower).unwrap();
    std::fs::write(lower.join("a"), "machine").unwrap();
    std::fs::write(lower.join("b"), "machine").unwrap();
    let dir = lower.to_str().unwrap().to_owned();
    assert!(dir.starts_with("/tmp/"), "the test's folder lies in an overlay");
    let a = run.real(&format!("{dir}/a"));
    assert!(!a.writable);
    let copy = run.vfs.for_change(format!("{dir}/a").as_bytes(), &a).unwrap();
    assert!(copy.writable && copy.path.starts_with(run.config.host_dir.as_os_str().as_bytes()));
    std::fs::write(as_path(&copy.path), "private").unwrap();
    let b = run.real(&format!("{dir}/b"));
    run.vfs.remove(format!("{dir}/b").as_bytes(), &b, false, NOW).unwrap();
    run.vfs.create(format!("{dir}/c").as_bytes(), &new(0o600)).unwrap();
    assert_eq!(run.names(&dir), [".", "..", "a", "c"]);
    assert!(run.walk(&format!("{dir}/b"), true).unwrap().node.is_none());
    assert_eq!(std::fs::read_to_string(lower.join("a")).unwrap(), "machine");
    assert!(lower.join("b").exists() && !lower.join("c").exists());
    let a = run.real(&format!("{dir}/a"));
    run.vfs.remove(format!("{dir}/a").as_bytes(), &a, false, NOW).unwrap();
    assert_eq!(run.names(&dir), [".", "..", "c"]);
}

#[test]
fn fifos_of_the_machine_are_changed_in_private() {
    let mut run = Run::new();
    std::fs::create_dir_all(&run.root).unwrap();
    let path = run.root.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o640), 0).unwrap();
    let path = path.to_str().unwrap().to_owned();
    let lower = run.real(&path);
    let pipe = PipeId(7);
    run.vfs.remember_fifo(&lower.stat, pipe);
    let copy = run.vfs.for_change(path.as_bytes(), &lower).unwrap();
    assert!(copy.writable && copy.kind() == S_IFIFO);
    assert_eq!(run.vfs.stat(&copy).st_mode, S_IFIFO | 0o640);
    assert_eq!(run.real(&path).path, copy.path);
    // It is one pipe for those who came before and after, until its last end is closed.
    assert_eq!([&lower, &copy].map(|node| run.vfs.fifo(&node.stat)), [Some(pipe); 2]);
    run.vfs.forget_fifo(&lower.stat, pipe);
    assert_eq!([&lower, &copy].map(|node| run.vfs.fifo(&node.stat)), [None; 2]);
}

#[test]
fn settings_of_the_machine_are_changed_in_private() {
    let mut run = Run::new();
    run.vfs.create(b"/etc/new", &new(0o640)).unwrap();
    assert!(run.names("/etc").contains(&"new".to_owned()));
    let etc = run.real("/etc");
    assert_eq!(run.vfs.stat(&etc).st_mode & 0o777, 0o755, "the private part has the mode of what it covers");
    let passwd = run.real("/etc/passwd");
    assert!(!passwd.writable);
    let copy = run.vfs.for_change(b"/etc/passwd", &passwd).unwrap();
    assert_eq!(run.vfs.stat(&copy).st_mode, run.vfs.stat(&passwd).st_mode);
    assert!(!std::path::Path::new("/etc/new").exists());
}

#[test]
fn directories_are_searched_with_the_viewers_rights() {
    let mut run = Run::new();
    let (closed, file) = (run.path("closed"), run.path("closed/file"));
    run.vfs.mkdir(closed.as_bytes(), &new(0o700)).unwrap();
    run.vfs.create(file.as_bytes(), &new(0o644)).unwrap();
    let nobody = Credentials::of_user(65_534, 65_534, &[]);
    let (vfs, view) = run.eyes(Some(&nobody));
    assert_eq!(vfs.walk(&view, b"/", file.as_bytes(), true).unwrap_err(), Errno::EACCES);
    assert!(vfs.walk(&view, b"/", closed.as_bytes(), true).unwrap().node.is_some());
    assert!(vfs.walk(&View { credentials: None, ..view }, b"/", file.as_bytes(), true).is_ok());
}

#[test]
fn everyone_may_pass_closed_directories_that_lead_to_the_host() {
    let mut run = Run::new();
    let closed = |path: PathBuf| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let hosts = run.root.join("run.data/hosts");
    for directory in [run.root.clone(), run.root.join("run.data"), hosts.clone()] {
        closed(directory);
    }
    for directory in ["elsewhere", "run.data/hosts/beta"] {
        std::fs::create_dir_all(run.root.join(directory).join("below")).unwrap();
        closed(run.root.join(directory));
    }
    let nobody = Credentials::of_user(65_534, 65_534, &[]);
    // What was passed with all rights is remembered.
    let root = run.root.clone();
    for credentials in [None, Some(&nobody)] {
        let (vfs, view) = run.eyes(credentials);
        assert!(vfs.walk(&view, b"/", hosts.join("alpha/file").as_os_str().as_bytes(), true).is_ok());
        for directory in ["elsewhere", "run.data/hosts/beta"] {
            let below = root.join(directory).join("below");
            let found = vfs.walk(&view, b"/", below.as_os_str().as_bytes(), true);
            assert_eq!(found.err(), credentials.map(|_| Errno::EACCES), "{directory}");
        }
    }
}

#[test]
fn private_directories_begin_empty() {
    let mut run = Run::new();
    assert_eq!(run.names("/dev/shm"), [".", ".."]);
    run.vfs.create(b"/dev/shm/x", &new(0o600)).unwrap();
    assert_eq!(run.names("/dev/shm"), [".", "..", "x"]);
}

#[test]
fn attributes_are_simulated_and_the_run_can_always_read() {
    let mut run = Run::new();
    let path = run.path("file");
    let (_, node) = run.vfs.create(path.as_bytes(), &new(0o400)).unwrap();
    let stat = run.vfs.stat(&node);
    assert_eq!(stat.st_mode & 0o7777, 0o400);
    assert_eq!((stat.st_uid, stat.st_gid), (0, 0));
    assert_eq!(stat.st_mtime, 946_684_805);
    run.vfs.chmod(path.as_bytes(), &node, 0o4711, NOW).unwrap();
    assert_eq!(run.vfs.stat(&node).st_mode & 0o7777, 0o4711);
    let real = std::fs::metadata(run.config.host_dir.join("file")).unwrap().permissions().mode();
    assert_eq!(real & 0o7777, 0o711, "no set-user-id bit reaches the machine");
    let before = Permissions::from(&run.vfs.stat(&node));
    run.vfs.set_owner(&node, Permissions { user: 33, ..before }, NOW);
    run.vfs.set_times(&node.stat, NewTime::At(7_000_000_001), NewTime::Same, NOW);
    let stat = run.vfs.stat(&node);
    assert_eq!((stat.st_uid, stat.st_gid), (33, 0));
    assert_eq!((stat.st_atime, stat.st_atime_nsec), (7, 1));
}

#[test]
fn directories_must_be_empty_to_go() {
    let mut run = Run::new();
    let dir = run.path("d");
    run.vfs.mkdir(dir.as_bytes(), &new(0o755)).unwrap();
    run.vfs.create(format!("{dir}/x").as_bytes(), &new(0o600)).unwrap();
    let node = run.real(&dir);
    assert_eq!(run.vfs.remove(dir.as_bytes(), &node, false, NOW), Err(Errno::ENOTEMPTY));
    let file = run.real(&format!("{dir}/x"));
    let moved = run.path("y");
    run.vfs.rename(format!("{dir}/x").as_bytes(), &file, moved.as_bytes(), false, NOW).unwrap();
    run.vfs.remove(dir.as_bytes(), &node, false, NOW).unwrap();
    assert!(run.walk(&dir, true).unwrap().node.is_none());
    assert!(run.walk(&moved, true).unwrap().node.is_some());
}

#[test]
fn hosts_see_the_experiments_names() {
    let mut run = Run::new();
    let content = |run: &mut Run, path: &str| match run.walk(path, true).unwrap().node {
        Some(Node::Synthetic(synthetic::Synthetic::File(content))) => String::from_utf8(content).unwrap(),
        other => panic!("{other:?}"),
    };
    let hosts = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n11.0.0.1 alpha\nfd00::b00:1 alpha\n";
    assert_eq!(content(&mut run, "/etc/hosts"), hosts);
    assert_eq!(content(&mut run, "/etc/hostname"), "alpha\n");
    assert_eq!(content(&mut run, "/proc/sys/kernel/hostname"), "alpha\n");
    assert!(run.walk("/proc/1234", true).unwrap().node.is_none());
    assert!(run.names("/proc").contains(&"cpuinfo".to_owned()));
}
