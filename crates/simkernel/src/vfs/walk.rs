//! From a guest's path to the thing it names: component by component, through links, areas and synthetic files.

use super::identity;
use super::mounts::{self, Area, Lower};
use super::synthetic::{self, Synthetic, View};
use super::{RealNode, Vfs, errno};
use crate::credentials::Credentials;
use crate::files::{FileKind, Place};
use crate::host_clock::HostClock;
use crate::ids::Pid;
use linux_abi::Errno;
use linux_abi::capability::{CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH};
use linux_abi::fs::{NAME_MAX, PATH_MAX, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, X_OK};
use rustix::fs::{AtFlags, CWD};
use std::sync::OnceLock;

/// Links followed before ELOOP.
const MAX_LINKS: usize = 40;

/// What exists under a path.
#[derive(Clone, Debug)]
pub enum Node {
    Real(RealNode),
    Synthetic(Synthetic),
}

impl Node {
    pub fn is_directory(&self) -> bool {
        match self {
            Node::Real(node) => node.kind() == S_IFDIR,
            Node::Synthetic(node) => {
                matches!(node, Synthetic::Directory(_) | Synthetic::Descriptors(_) | Synthetic::Threads(_))
            }
        }
    }
}

impl Node {
    pub fn is_link(&self) -> bool {
        match self {
            Node::Real(node) => node.kind() == S_IFLNK,
            Node::Synthetic(node) => matches!(node, Synthetic::Link(_)),
        }
    }
}

/// The end of a walk.
#[derive(Clone, Debug)]
pub struct Target {
    /// Absolute, without `.`, `..` and links (but the last component may be one that was not followed). Empty for the root.
    pub path: Vec<u8>,
    /// None: the directory exists, the name in it does not.
    pub node: Option<Node>,
    /// The path ended with a slash: it can only mean a directory.
    pub slash: bool,
    /// The last name is longer than any file's (NAME_MAX), so `node` is None. The walk as such came to its end: Linux, too, finds that
    /// out only when it looks for the name.
    pub is_too_long: bool,
}

impl Target {
    fn new(path: Vec<u8>, node: Option<Node>, slash: bool) -> Target {
        Target { path, node, slash, is_too_long: false }
    }

    /// ENAMETOOLONG for a last name that nothing can have.
    pub fn possible(self) -> Result<Target, Errno> {
        if self.is_too_long { Err(Errno::ENAMETOOLONG) } else { Ok(self) }
    }
}

/// What a process has open with this number.
fn open_file<'a>(view: &View<'a>, pid: Pid, fd: u32) -> Option<&'a FileKind> {
    let id = view.shared.file(view.process(pid.0)?, fd)?;
    Some(&view.files[id].kind)
}

/// Whether it is the descriptor of a directory that is gone: there is nothing in it.
fn was_directory(view: &View<'_>, node: &Node) -> bool {
    let Node::Synthetic(Synthetic::Descriptor { pid, fd }) = node else { return false };
    matches!(open_file(view, *pid, *fd), Some(FileKind::Directory(directory)) if directory.gone.is_some())
}

/// One component of a walk.
enum Step {
    Nothing,
    Node(Node),
    Link(Vec<u8>),
    /// A link of `/proc` that leads to what it stands for, at this place, and not to its name: nobody asks on the way whether it may be
    /// searched.
    Jump(Vec<u8>),
}

impl Vfs {
    /// Walks `path`, which begins at the directory `start` unless it is absolute. `follow` is for a link in the last place. Every
    /// directory on the way must let the viewer search it (EACCES).
    pub fn walk(&mut self, view: &View<'_>, start: &[u8], path: &[u8], follow: bool) -> Result<Target, Errno> {
        self.walk_to_name(view, start, path, follow)?.possible()
    }

    /// As `walk`, but a last name that is too long is no error yet.
    pub fn walk_to_name(&mut self, view: &View<'_>, start: &[u8], path: &[u8], follow: bool) -> Result<Target, Errno> {
        check_text(path)?;
        let slash = path.ends_with(b"/");
        let root = view.root();
        let guard = view.credentials.filter(|who| !who.can(CAP_DAC_OVERRIDE) && !who.can(CAP_DAC_READ_SEARCH));
        let mut at = match (path[0], start) {
            (b'/', _) => root.to_vec(),
            (_, b"/") => Vec::new(),
            (_, start) => start.to_vec(),
        };
        let mut rest = path.to_vec();
        let mut position = 0;
        let mut links = 0;
        loop {
            let Some((name, next)) = next_component(&rest, position) else {
                return self.finish(view, at, slash);
            };
            let last = next_component(&rest, next).is_none();
            let (from, to) = name;
            if let Some(who) = guard {
                self.demand_search(view, who, &at)?;
            }
            match &rest[from..to] {
                b"." => {}
                b".." if at == root => {}
                b".." => leave(&mut at),
                name if name.len() > NAME_MAX && last => {
                    return Ok(Target { path: at, node: None, slash, is_too_long: true });
                }
                name if name.len() > NAME_MAX => return Err(Errno::ENAMETOOLONG),
                name => {
                    self.mounts.enter(&mut at, name);
                    if last || !self.known_directories.contains_key(&at) {
                        let followed = !last || follow || slash;
                        let step = match self.known_links.get(&at) {
                            Some(text) if followed => Step::Link(text.clone()),
                            _ => self.step(view, &at, followed)?,
                        };
                        match step {
                            Step::Nothing if last => return Ok(Target::new(at, None, slash)),
                            Step::Nothing => return Err(Errno::ENOENT),
                            Step::Link(text) => {
                                links += 1;
                                if links > MAX_LINKS {
                                    return Err(Errno::ELOOP);
                                }
                                leave(&mut at);
                                if text.starts_with(b"/") {
                                    at = root.to_vec();
                                }
                                rest = join_link(text, &rest[next..]);
                                position = 0;
                                continue;
                            }
                            Step::Jump(place) => {
                                links += 1;
                                if links > MAX_LINKS {
                                    return Err(Errno::ELOOP);
                                }
                                at = place;
                                let node = self.lookup(view, &at)?.ok_or(Errno::ENOENT)?;
                                if (!last || slash) && !node.is_directory() {
                                    return Err(Errno::ENOTDIR);
                                }
                                if last {
                                    return Ok(Target::new(at, Some(node), slash));
                                }
                            }
                            Step::Node(node) => {
                                if (!last || slash) && !node.is_directory() {
                                    return Err(if !last && was_directory(view, &node) {
                                        Errno::ENOENT
                                    } else {
                                        Errno::ENOTDIR
                                    });
                                }
                                if last {
                                    return Ok(Target::new(at, Some(node), slash));
                                }
                                self.remember_directory(&at, &node);
                            }
                        }
                    }
                }
            }
            position = next;
        }
    }

    /// What a walk finds at `path`: a link counts as one if it is to be followed.
    fn step(&mut self, view: &View<'_>, path: &[u8], followed: bool) -> Result<Step, Errno> {
        let Some(node) = self.lookup(view, path)? else { return Ok(Step::Nothing) };
        if let Node::Synthetic(node) = &node {
            let leads_elsewhere = matches!(node, Synthetic::Descriptor { .. } | Synthetic::Namespace(_))
                || synthetic::is_magic_link(path);
            if followed && leads_elsewhere || synthetic::is_descriptor_info(super::parent(path)) {
                synthetic::demand_look(view, path)?;
            }
        }
        if followed
            && let Node::Synthetic(Synthetic::Descriptor { pid, fd }) = &node
            && let Some(directory) = self.open_directory(view, *pid, *fd)
        {
            return Ok(Step::Jump(directory));
        }
        let Some(text) = (if followed { self.link_text(&node)? } else { None }) else { return Ok(Step::Node(node)) };
        if let Node::Real(link) = &node {
            self.note_access(link, view.now);
        }
        if synthetic::is_magic_link(path) && text.starts_with(b"/") {
            return Ok(Step::Jump([view.root(), text.strip_suffix(b"/").unwrap_or(&text)].concat()));
        }
        if self.is_lasting(path, &node) {
            self.known_links.insert(path.to_vec(), text.clone());
        }
        Ok(Step::Link(text))
    }

    /// Where the directory lies that a process has open, or named by O_PATH, with this number.
    fn open_directory(&mut self, view: &View<'_>, pid: Pid, fd: u32) -> Option<Vec<u8>> {
        let path = match open_file(view, pid, fd)? {
            FileKind::Directory(directory) if directory.gone.is_none() => &directory.path,
            FileKind::Name(Place { gone: None, path }) => path,
            _ => return None,
        };
        let is_directory = self.lookup(view, path).ok().flatten().is_some_and(|node| node.is_directory());
        is_directory.then(|| path.strip_suffix(b"/").unwrap_or(path).to_vec())
    }

    /// The walk ended in a directory that it had already passed.
    fn finish(&mut self, view: &View<'_>, at: Vec<u8>, slash: bool) -> Result<Target, Errno> {
        let node = self.lookup(view, &at)?.ok_or(Errno::ENOENT)?;
        Ok(Target::new(at, Some(node), slash))
    }

    /// EACCES unless the viewer may search a directory.
    fn demand_search(&mut self, view: &View<'_>, who: &Credentials, path: &[u8]) -> Result<(), Errno> {
        if let Some(known) = self.known_directories.get(path) {
            return known.demand(who, X_OK);
        }
        if synthetic::is_own_descriptors(view, path) {
            return Ok(());
        }
        let node = self.lookup(view, path)?.ok_or(Errno::ENOENT)?;
        self.remember_directory(path, &node);
        self.permissions(view, path, &node).demand(who, X_OK)
    }

    fn remember_directory(&mut self, path: &[u8], node: &Node) {
        if self.is_lasting(path, node)
            && let Node::Real(real) = node
        {
            let permissions = self.real_permissions(path, real);
            self.known_directories.insert(path.to_vec(), permissions);
        }
    }

    /// Directories and links of the machine do not change during a run, those of guests do.
    fn is_lasting(&self, path: &[u8], node: &Node) -> bool {
        let lasts = match self.mounts.find(&self.mounts.machine_path(path)).0 {
            Area::ReadOnly => true,
            Area::Run => false,
            Area::Overlay(overlay) => overlay.lower == Lower::Lasting,
        };
        lasts && matches!(node, Node::Real(node) if !node.writable)
    }

    /// The text of a link; None for anything else. A link to an open file has no text that could be walked: it is not followed.
    fn link_text(&self, node: &Node) -> Result<Option<Vec<u8>>, Errno> {
        match node {
            Node::Real(node) if node.kind() == S_IFLNK => {
                let text = rustix::fs::readlinkat(CWD, &node.path[..], Vec::new()).map_err(errno)?;
                Ok(Some(text.into_bytes()))
            }
            Node::Synthetic(Synthetic::Link(text)) => Ok(Some(text.clone())),
            _ => Ok(None),
        }
    }

    /// What is at an absolute path without `.`, `..` and links.
    pub fn lookup(&mut self, view: &View<'_>, path: &[u8]) -> Result<Option<Node>, Errno> {
        if !synthetic::covers(path) {
            return Ok(self.lookup_real(path)?.map(Node::Real));
        }
        let (area, prefix) = self.mounts.find(path);
        match area {
            Area::Overlay(overlay) if overlay.lower == Lower::Nothing => {
                return Ok(self.lookup_real(path)?.map(Node::Real));
            }
            // The directory itself stays as it is, whatever is made in it.
            Area::Overlay(overlay) if overlay.lower == Lower::MadeUp && path.len() == prefix => {}
            Area::Overlay(_) => {
                if let Some(node) = self.lookup_upper(path)? {
                    return Ok(Some(Node::Real(node)));
                }
                if self.is_hidden(path) {
                    return Ok(None);
                }
            }
            _ => {}
        }
        Ok(synthetic::lookup(view, path).map(Node::Synthetic))
    }

    pub(crate) fn lookup_real(&mut self, path: &[u8]) -> Result<Option<RealNode>, Errno> {
        if mounts::is_beside_run(path) {
            // Where the run lies must not show: not in what that directory is like either.
            let node = real_node(self.mounts.beside_run(), false)?;
            return Ok(node.map(|mut node| {
                (node.stat.st_mode, node.stat.st_uid, node.stat.st_gid) = (S_IFDIR | 0o755, 0, 0);
                node.stat.st_ino = identity::BESIDE_RUN;
                without_history(node, self.identities.clock())
            }));
        }
        let machine = self.mounts.machine_path(path);
        let path = &*machine;
        let (area, prefix) = self.mounts.find(path);
        let overlay = match area {
            Area::ReadOnly => return real_node(path, false),
            Area::Run => {
                let real = self.mounts.real(path);
                if self.visitor.hides(&real) {
                    return Ok(None);
                }
                self.looks_at(&real);
                return Ok(real_node(&real, true)?.map(|node| self.as_device(node)));
            }
            Area::Overlay(overlay) => overlay,
        };
        let lower = overlay.lower;
        if let Some(node) = self.lookup_upper(path)? {
            return Ok(Some(node));
        }
        if lower != Lower::Nothing
            && !self.is_hidden(path)
            && let Some(node) = real_node(path, false)?
        {
            return Ok(Some(if lower == Lower::Changing {
                without_history(node, self.identities.clock())
            } else {
                node
            }));
        }
        if path.len() == prefix {
            let upper = self.create_upper(path)?;
            return real_node(&upper, true);
        }
        self.born_in_run(path)
    }

    /// A FIFO that stands for a device, as that device.
    fn as_device(&self, mut node: RealNode) -> RealNode {
        if node.kind() == S_IFIFO
            && let Some((kind, number)) = self.identities.device(&node.stat)
        {
            node.stat.st_mode = kind | node.stat.st_mode & !S_IFMT;
            node.stat.st_rdev = number;
        }
        node
    }

    /// What the host itself has put at a path in an overlay.
    pub(super) fn lookup_upper(&self, path: &[u8]) -> Result<Option<RealNode>, Errno> {
        match self.mounts.find(path) {
            (Area::Overlay(overlay), prefix) if overlay.used => {
                let real = [&overlay.upper[..], &path[prefix..]].concat();
                self.looks_at(&real);
                let node = real_node(&real, true)?;
                Ok(node.map(|node| self.as_device(node)))
            }
            _ => Ok(None),
        }
    }
}

/// What no path can be, wherever it begins. ENOENT, ENAMETOOLONG.
pub fn check_text(path: &[u8]) -> Result<(), Errno> {
    match path.len() {
        0 => Err(Errno::ENOENT),
        PATH_MAX.. => Err(Errno::ENAMETOOLONG),
        _ => Ok(()),
    }
}

/// Goes from a directory to the one above it.
fn leave(at: &mut Vec<u8>) {
    at.truncate(super::parent(at).len());
}

/// The bounds of the next component from `position`, and where the search goes on.
fn next_component(path: &[u8], position: usize) -> Option<((usize, usize), usize)> {
    let from = position + path.get(position..)?.iter().position(|&b| b != b'/')?;
    let to = path[from..].iter().position(|&b| b == b'/').map_or(path.len(), |i| from + i);
    Some(((from, to), to))
}

fn join_link(mut text: Vec<u8>, rest: &[u8]) -> Vec<u8> {
    text.push(b'/');
    text.extend_from_slice(rest);
    text
}

/// A directory of the machine that shows through an overlay: everyone else on the machine writes there too, and what that does to
/// its times and links must not show.
fn without_history(mut node: RealNode, clock: HostClock) -> RealNode {
    if node.kind() == S_IFDIR {
        node.stat.st_nlink = 2;
        node.stat.st_mtime = clock.unix_seconds() as _;
        node.stat.st_mtime_nsec = 0;
    }
    node
}

/// File systems in which the machine's kernel tells of itself. Where they are mounted besides `/proc` and `/sys`, as in folders for `chroot`,
/// guests find nothing.
const OF_THE_KERNEL: [&str; 14] = [
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "proc",
    "pstore",
    "securityfs",
    "sysfs",
    "tracefs",
];

/// The devices of such file systems that are mounted when it is asked first.
fn kernel_devices() -> &'static [u64] {
    static DEVICES: OnceLock<Vec<u64>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        mounts.lines().filter_map(kernel_device).collect()
    })
}

/// The device of a line of proc_pid_mountinfo(5), if its file system is such a one.
fn kernel_device(line: &str) -> Option<u64> {
    let (mount, kind) = line.split_once(" - ")?;
    OF_THE_KERNEL.contains(&kind.split(' ').next()?).then_some(())?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    Some(rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// What the machine has at a path; links are not followed.
pub(super) fn real_node(path: &[u8], writable: bool) -> Result<Option<RealNode>, Errno> {
    let path: &[u8] = if path.is_empty() { b"/" } else { path };
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if !writable && kernel_devices().contains(&stat.st_dev) => Ok(None),
        Ok(stat) => Ok(Some(RealNode { path: path.to_vec(), stat, writable })),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(None),
        Err(error) => Err(errno(error)),
    }
}

impl RealNode {
    /// The S_IFMT part of the mode.
    pub fn kind(&self) -> u32 {
        self.stat.st_mode & S_IFMT
    }
}

#[cfg(test)]
mod tests {
    use super::kernel_device;

    #[test]
    fn file_systems_of_the_kernel_are_known_wherever_they_are_mounted() {
        let line = "42 28 0:25 / /srv/chroot/proc rw,nosuid master:3 - proc proc rw";
        assert_eq!(kernel_device(line), Some(25));
        assert_eq!(kernel_device("36 35 8:1 /a /b rw - ext4 /dev/sda1 rw"), None);
        assert_eq!(kernel_device("nonsense"), None);
    }
}
