//! Files that exist on no disk: `/proc`, `/sys`, `/dev`, and the parts of `/etc` that name the experiment's hosts.

use super::list::Entry;
use super::{proc, proc_process};
use crate::credentials::Credentials;
use crate::files::FileTable;
use crate::files::synthetic::{Image, Shown};
use crate::host::HostConfig;
use crate::ids::{IdTable, Pid};
use crate::ipc::Ipc;
use crate::namespaces::Namespace;
use crate::net::{Network, dns};
use crate::process::Process;
use crate::program_files::PROGRAM;
use crate::shared::Shared;
use crate::thread::Thread;
use crate::tty::{Pair, Terminals, TtyId};
use crate::unix::UnixSockets;
use base::SimTime;
use base::map::FastHasher;
use linux_abi::Errno;
use linux_abi::fs::{DT_CHR, DT_DIR, DT_LNK, DT_REG, S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, Stat, makedev};
use linux_abi::tty::PTS_MAJOR;
use std::hash::Hasher;

/// Who looks: what `/proc/self` and its like depend on.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub config: &'a HostConfig,
    /// The calling process, which is not in the table meanwhile; None when the simulator itself looks.
    pub process: Option<&'a Process>,
    /// The calling thread, which is not in its table either.
    pub thread: Option<&'a Thread>,
    /// Whose rights count; None where everything is allowed.
    pub credentials: Option<&'a Credentials>,
    pub threads: &'a IdTable<Thread>,
    pub processes: &'a IdTable<Process>,
    pub shared: &'a Shared,
    pub ipc: &'a Ipc,
    pub terminals: &'a Terminals,
    pub files: &'a FileTable,
    pub net: &'a Network,
    pub unix: &'a UnixSockets,
    pub now: SimTime,
}

impl<'a> View<'a> {
    /// The directory that the caller sees as `/`; empty for the root itself.
    pub fn root(&self) -> &'a [u8] {
        let own = self.thread.and_then(|thread| thread.own_place);
        let place = self.process.and_then(|process| self.shared.places.get(own.unwrap_or(process.place)));
        place.map_or(b"", |place| &place.root)
    }

    pub fn process(&self, pid: u32) -> Option<&'a Process> {
        self.process.filter(|process| process.pid.0 == pid).or_else(|| self.processes.get(pid))
    }

    /// The process that a number names: its own, or that of any of its threads.
    pub fn process_of_thread(&self, tid: u32) -> Option<&'a Process> {
        self.process(tid).or_else(|| self.process(self.thread(tid)?.pid.0))
    }

    pub fn thread(&self, tid: u32) -> Option<&'a Thread> {
        self.thread.filter(|thread| thread.tid.0 == tid).or_else(|| self.threads.get(tid))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    Null,
    Zero,
    Full,
    Random,
    Urandom,
    /// Opening it opens the caller's terminal.
    Tty,
    /// Opening it makes a new terminal.
    Ptmx,
    /// What is written to it names what the writer is about, for the record of the run.
    Mark,
}

/// What `/dev/pts/N` shows of its terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminalAttributes {
    /// Permission bits.
    pub mode: u32,
    pub owner: (u32, u32),
    pub opened: SimTime,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Synthetic {
    /// A file with this content. Writing to it is accepted and without effect.
    File(Vec<u8>),
    Directory(Vec<(&'static str, u8)>),
    Device(Device),
    /// `/dev/pts/N`.
    Terminal(TtyId, TerminalAttributes),
    Link(Vec<u8>),
    /// `/proc/PID/fd/N`: opening it opens the file behind the descriptor once more. With [`PROGRAM`] as its number `/proc/PID/exe`.
    Descriptor {
        pid: Pid,
        fd: u32,
    },
    /// `/proc/PID/ns/NAME`: opening it opens the namespace.
    Namespace(Namespace),
    /// `/proc/PID/fd`.
    Descriptors(Pid),
    /// `/proc/PID/task`.
    Threads(Pid),
}

impl Synthetic {
    /// Opening it gives a terminal, or a master of one.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Synthetic::Terminal(..) | Synthetic::Device(Device::Tty | Device::Ptmx))
    }
}

const DEVICES: [(&str, Device, u32, u32); 8] = [
    ("null", Device::Null, 1, 3),
    ("zero", Device::Zero, 1, 5),
    ("full", Device::Full, 1, 7),
    ("random", Device::Random, 1, 8),
    ("urandom", Device::Urandom, 1, 9),
    ("tty", Device::Tty, 5, 0),
    ("ptmx", Device::Ptmx, 5, 2),
    ("gnomon-mark", Device::Mark, 10, 242),
];

/// The group that reads `/etc/shadow` on Debian.
const SHADOW_GROUP: u32 = 42;

const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Whether a path is looked up here and nowhere else.
pub fn covers(path: &[u8]) -> bool {
    let below = |prefix: &[u8]| super::mounts::is_below(path, prefix);
    match path.get(1) {
        Some(b'p') => below(b"/proc"),
        Some(b'd') => below(b"/dev"),
        Some(b's') => below(b"/sys"),
        Some(b'e') => matches!(
            path,
            b"/etc/hosts"
                | b"/etc/resolv.conf"
                | b"/etc/nsswitch.conf"
                | b"/etc/hostname"
                | b"/etc/localtime"
                | b"/etc/timezone"
                | b"/etc/.pwd.lock"
                | b"/etc/shadow"
                | b"/etc/gshadow"
                | b"/etc/machine-id"
        ),
        _ => false,
    }
}

pub fn lookup(view: &View<'_>, path: &[u8]) -> Option<Synthetic> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts = path.split('/').skip(1);
    let top = parts.next()?;
    let rest: Vec<&str> = parts.collect();
    match top {
        "dev" => match rest.split_first() {
            Some((&"mqueue", queue)) => queue_node(view, queue),
            Some((&"pts", terminal)) => terminals_node(view, terminal),
            _ => device_node(&rest),
        },
        "etc" => configuration(view, rest.first()?),
        "sys" => super::sys::lookup(view, &rest),
        _ => proc::lookup(view, &rest),
    }
}

fn device_node(rest: &[&str]) -> Option<Synthetic> {
    let [name] = rest else {
        return rest.is_empty().then(|| Synthetic::Directory(device_directory()));
    };
    if let Some((_, device, ..)) = DEVICES.iter().find(|(known, ..)| known == name) {
        return Some(Synthetic::Device(*device));
    }
    let (_, text) = DEVICE_LINKS.iter().find(|(known, _)| known == name)?;
    Some(Synthetic::Link(text.as_bytes().to_vec()))
}

/// `/dev/mqueue`: a file for each POSIX queue, mq_overview(7).
fn queue_node(view: &View<'_>, rest: &[&str]) -> Option<Synthetic> {
    match rest {
        [] => Some(Synthetic::Directory(Vec::new())),
        [name] => {
            let queues = &view.ipc.queues;
            Some(Synthetic::File(queues.get(queues.find(name.as_bytes())?).status().into_bytes()))
        }
        _ => None,
    }
}

/// `/dev/pts` and what is in it.
fn terminals_node(view: &View<'_>, rest: &[&str]) -> Option<Synthetic> {
    match rest {
        [] => Some(Synthetic::Directory(vec![("ptmx", DT_CHR as u8)])),
        ["ptmx"] => Some(Synthetic::Device(Device::Ptmx)),
        [name] => {
            let number: TtyId = name.parse().ok().filter(|number: &TtyId| number.to_string() == *name)?;
            view.terminals.named(number).map(|pair| terminal_node(pair, number))
        }
        _ => None,
    }
}

/// A terminal as `stat` shows it.
pub fn terminal_node(pair: &Pair, number: TtyId) -> Synthetic {
    Synthetic::Terminal(number, TerminalAttributes { mode: pair.mode, owner: pair.owner, opened: pair.opened })
}

/// The device with a number; there are no block devices.
pub fn device_of(kind: u32, number: u64) -> Option<Device> {
    let known = |(_, _, major, minor): &&(&str, Device, u32, u32)| makedev(*major, *minor) == number;
    DEVICES.iter().find(known).filter(|_| kind == S_IFCHR).map(|(_, device, ..)| *device)
}

/// The path of a device.
pub fn device_path(device: Device) -> Vec<u8> {
    let (name, ..) = DEVICES.iter().find(|(_, known, ..)| *known == device).expect("every device is listed");
    format!("/dev/{name}").into_bytes()
}

fn device_directory() -> Vec<(&'static str, u8)> {
    let devices = DEVICES.iter().map(|(name, ..)| (*name, DT_CHR as u8));
    let links = DEVICE_LINKS.iter().map(|(name, _)| (*name, DT_LNK as u8));
    devices.chain(links).chain(["mqueue", "pts", "shm"].map(|name| (name, DT_DIR as u8))).collect()
}

fn configuration(view: &View<'_>, name: &str) -> Option<Synthetic> {
    let text = match name {
        "hosts" => return Some(Synthetic::File(view.config.hosts.hosts_file().to_vec())),
        "hostname" => format!("{}\n", view.config.name),
        "resolv.conf" => format!("nameserver {}\n", dns::ADDRESS),
        "nsswitch.conf" => NSSWITCH.to_owned(),
        "timezone" => "Etc/UTC\n".to_owned(),
        ".pwd.lock" => String::new(),
        "machine-id" => machine_id(view),
        "shadow" => locked_passwords("/etc/passwd", ":*:10957:0:99999:7:::"),
        "gshadow" => locked_passwords("/etc/group", ":*::"),
        "localtime" => return Some(Synthetic::Link(b"/usr/share/zoneinfo/Etc/UTC".to_vec())),
        _ => return None,
    };
    Some(Synthetic::File(text.into_bytes()))
}

/// machine-id(5): a number of the host's own.
fn machine_id(view: &View<'_>) -> String {
    let mut random = view.config.seeds.stream(&view.config.name, "machine-id");
    format!("{:016x}{:016x}\n", random.next_u64(), random.next_u64())
}

/// shadow(5), gshadow(5): the users or groups of the machine, without its passwords: nobody logs in by one.
fn locked_passwords(list: &str, rest: &str) -> String {
    let known = std::fs::read(list).unwrap_or_default();
    let known = String::from_utf8_lossy(&known);
    let names = known.lines().filter_map(|line| line.split(':').next()).filter(|name| !name.is_empty());
    names.map(|name| format!("{name}{rest}\n")).collect()
}

/// nsswitch.conf(5): from files, and hosts from DNS too, whatever services the machine has for them.
const NSSWITCH: &str = "\
passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
";

/// The entries of a synthetic directory.
pub fn list(view: &View<'_>, path: &[u8]) -> Vec<Entry> {
    let names: Vec<(String, u8)> = match lookup(view, path) {
        Some(Synthetic::Descriptors(pid)) => {
            view.process(pid.0).map_or_else(Vec::new, |process| proc_process::descriptor_names(view, process))
        }
        Some(Synthetic::Threads(pid)) => view.process(pid.0).map_or_else(Vec::new, proc_process::thread_names),
        Some(Synthetic::Directory(names)) => {
            let fixed = names.iter().map(|(name, kind)| ((*name).to_owned(), *kind));
            let mut names: Vec<_> = match path {
                b"/proc" => proc_process::process_names(view),
                b"/dev/mqueue" => queue_names(view),
                b"/dev/pts" => view.terminals.numbers().map(|number| (number.to_string(), DT_CHR as u8)).collect(),
                _ if path.ends_with(b"/fdinfo") => proc_process::info_names(view, path),
                _ => Vec::new(),
            };
            names.extend(fixed);
            names.sort();
            names
        }
        _ => Vec::new(),
    };
    let entry = |(name, kind): (String, u8)| {
        let number = number(&[path, b"/", name.as_bytes()].concat());
        Entry { name: name.into_bytes(), number, kind }
    };
    names.into_iter().map(entry).collect()
}

fn queue_names(view: &View<'_>) -> Vec<(String, u8)> {
    view.ipc.queues.names().map(|name| (String::from_utf8_lossy(name).into_owned(), DT_REG as u8)).collect()
}

/// Whether a path is the list of the viewer's own descriptors, which no change of ids closes.
pub fn is_own_descriptors(view: &View<'_>, path: &[u8]) -> bool {
    let own = view.process.map(|process| format!("/proc/{}/", process.pid));
    own.is_some_and(|own| path.starts_with(own.as_bytes())) && path.ends_with(b"/fd")
}

/// Links of `/proc` that lead to a file and not to its name; those of descriptors are a kind of their own.
pub fn is_magic_link(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b"/exe", b"/cwd", b"/root"];
    let Some(rest) = path.strip_prefix(b"/proc/") else { return false };
    rest.first().is_some_and(u8::is_ascii_digit) && NAMES.iter().any(|name| rest.ends_with(name))
}

/// The process that a path below `/proc/PID` belongs to.
pub fn process_of<'a>(view: &View<'a>, path: &[u8]) -> Option<&'a Process> {
    let rest = std::str::from_utf8(path.strip_prefix(b"/proc/")?).ok()?;
    view.process(proc_process::number(rest.split_once('/')?.0)?)
}

/// Demands that the viewer may look into the process that a path below `/proc/PID` belongs to, ptrace(2), PTRACE_MODE_READ_FSCREDS. EACCES.
pub fn demand_look(view: &View<'_>, path: &[u8]) -> Result<(), Errno> {
    let Some(target) = process_of(view, path) else { return Ok(()) };
    let is_own = view.process.is_some_and(|own| own.pid == target.pid);
    let may = |who: &Credentials| who.may_look_into(&target.credentials, target.dumpable);
    if is_own || view.credentials.is_none_or(may) { Ok(()) } else { Err(Errno::EACCES) }
}

/// Whether a path is the list of a process's descriptors with their state, or in it: only those who may look into the process search it.
pub fn is_descriptor_info(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && (path.ends_with(b"/fdinfo") || super::parent(path).ends_with(b"/fdinfo"))
}

/// Whether opening a file of a process asks who may look into it: it shows the process's memory, or how that is laid out.
pub fn is_of_memory(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] = [b"auxv", b"environ", b"maps", b"numa_maps", b"smaps", b"smaps_rollup"];
    let name = &path[super::parent(path).len()..];
    path.starts_with(b"/proc/") && name.strip_prefix(b"/").is_some_and(|name| NAMES.contains(&name))
}

/// Whether nobody opens it for writing, whatever he may: a setting that is fixed, and what `/sys` shows.
pub fn is_never_written(path: &[u8]) -> bool {
    let setting = path.strip_prefix(b"/proc/sys/").and_then(|name| std::str::from_utf8(name).ok());
    path.starts_with(b"/sys/") || setting.is_some_and(|name| !super::settings::is_writable(name))
}

/// Whether nobody gives it another mode: a setting of the system (`proc_sys_setattr`), and what a process has (`proc_setattr`).
pub fn keeps_mode(path: &[u8]) -> bool {
    keeps_owner(path) || path.strip_prefix(b"/proc/").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit))
}

/// Whether nobody gives it another owner: a setting of the system.
pub fn keeps_owner(path: &[u8]) -> bool {
    super::mounts::is_below(path, b"/proc/sys")
}

/// The number in `/proc/PID/mem`, `/proc/PID/pagemap` and the same of threads, and what is read there.
pub fn shown_memory(path: &[u8]) -> Option<(u32, fn(Image) -> Shown)> {
    let rest = std::str::from_utf8(path.strip_prefix(b"/proc/")?).ok()?;
    let (pid, name) = match rest.split('/').collect::<Vec<_>>()[..] {
        [pid, name] | [pid, "task", _, name] => (pid, name),
        _ => return None,
    };
    let shown = match name {
        "mem" => Shown::Memory,
        "pagemap" => Shown::Pages,
        _ => return None,
    };
    Some((pid.parse().ok()?, shown))
}

/// Why a file that is listed cannot be opened.
pub fn refusal(view: &View<'_>, path: &[u8]) -> Option<Errno> {
    proc_process::refusal(view, path)
}

/// Whether it is one of `/proc/PID/attr`, which a security module would fill.
pub fn is_of_security(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && super::parent(path).ends_with(b"/attr")
}

/// The inode number of a synthetic file: a function of its path, below the numbers of real files. Where a file system begins it is 1.
pub fn number(path: &[u8]) -> u64 {
    if matches!(path, b"/proc" | b"/sys" | b"/dev/pts") {
        return 1;
    }
    let mut hasher = FastHasher::default();
    hasher.write(path);
    1 + hasher.finish() % ((1 << 20) - 1)
}

pub fn stat(view: &View<'_>, path: &[u8], node: &Synthetic) -> Stat {
    let (mode, size) = match node {
        Synthetic::File(content) if path.starts_with(b"/etc/") => {
            (S_IFREG | if path.ends_with(b"shadow") { 0o640 } else { 0o644 }, content.len())
        }
        Synthetic::File(_) if path.starts_with(b"/sys/") => (S_IFREG | proc::file_mode(path), 4096),
        Synthetic::File(_) => (S_IFREG | proc::file_mode(path), 0),
        Synthetic::Directory(_) if path == b"/dev/mqueue" => (S_IFDIR | 0o1777, 0),
        // Programs make their own files beside what is made up.
        Synthetic::Directory(_) if path == b"/dev" => (S_IFDIR | 0o755, 0),
        Synthetic::Descriptors(_) => (S_IFDIR | 0o500, 0),
        Synthetic::Directory(_) | Synthetic::Threads(_) => (S_IFDIR | proc::directory_mode(path), 0),
        Synthetic::Device(_) => (S_IFCHR | 0o666, 0),
        Synthetic::Terminal(_, attributes) => (S_IFCHR | attributes.mode, 0),
        Synthetic::Link(text) => (S_IFLNK | 0o777, text.len()),
        Synthetic::Descriptor { fd: PROGRAM, .. } => (S_IFLNK | 0o777, 0),
        Synthetic::Descriptor { .. } => (S_IFLNK | 0o700, 64),
        Synthetic::Namespace(_) => (S_IFLNK | 0o777, 0),
    };
    let mut stat = super::identity::synthetic_stat(view.config.clock, number(path), mode, size as u64);
    if let Synthetic::Device(device) = node {
        let (.., major, minor) = DEVICES.iter().find(|(_, known, ..)| known == device).expect("every device is listed");
        stat.st_rdev = makedev(*major, *minor);
    }
    if let Synthetic::Terminal(number, attributes) = node {
        stat.st_rdev = makedev(PTS_MAJOR, *number);
        (stat.st_uid, stat.st_gid) = attributes.owner;
        super::identity::Times::at(view.config.clock.unix_nanos(attributes.opened)).show(&mut stat);
    }
    if mode & S_IFMT == S_IFDIR {
        // Each directory in it has a link to it. Programs that fork count their threads by this.
        let below = list(view, path).iter().filter(|entry| entry.kind == DT_DIR as u8).count();
        stat.st_nlink = 2 + below as u64;
    }
    if path.starts_with(b"/etc/") && path.ends_with(b"shadow") {
        stat.st_gid = SHADOW_GROUP;
    }
    if let Some((user, group)) = proc::owner(view, path, mode) {
        (stat.st_uid, stat.st_gid) = (user, group);
    }
    stat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_synthetic_is_covered() {
        for path in [&b"/proc"[..], b"/proc/self/fd", b"/dev/null", b"/sys/x", b"/etc/hosts", b"/etc/nsswitch.conf"] {
            assert!(covers(path), "{}", String::from_utf8_lossy(path));
        }
        for path in [&b""[..], b"/", b"/process", b"/etc/passwd", b"/etc/hosts.allow", b"/usr"] {
            assert!(!covers(path), "{}", String::from_utf8_lossy(path));
        }
    }

    #[test]
    fn devices_and_links_are_found() {
        assert_eq!(device_node(&["null"]), Some(Synthetic::Device(Device::Null)));
        assert_eq!(device_node(&["stdout"]), Some(Synthetic::Link(b"/proc/self/fd/1".to_vec())));
        assert_eq!(device_node(&["sda"]), None);
        assert_eq!(device_node(&["null", "x"]), None);
    }
}
