//! `/proc/PID`: the processes and threads of the calling host, proc(5).

use super::mounts::is_below;
use super::proc_memory::{self, Totals};
use super::synthetic::{Synthetic, View};
use crate::credentials::{Credentials, Ids};
use crate::family::INIT;
use crate::files::FileKind;
use crate::ids::Tid;
use crate::namespaces;
use crate::process::Process;
use crate::processors::ProcessorSet;
use crate::program_files::PROGRAM;
use crate::schedule::Schedule;
use crate::signal::SigSet;
use crate::thread::{Thread, ThreadState};
use crate::tty::TtyId;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG};
use linux_abi::sysinfo::RLIMIT_SIGPENDING;
use linux_abi::time::CLK_TCK;
use linux_abi::tty::PTS_MAJOR;
use std::fmt::Write;

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

/// What lies in `/proc/PID`, with the permission bits of files.
const PROCESS: [(&str, u8, u32); 49] = [
    ("attr", DIR, 0o555),
    ("autogroup", FILE, 0o644),
    ("auxv", FILE, 0o400),
    ("cgroup", FILE, 0o444),
    ("children", FILE, 0o444),
    ("clear_refs", FILE, 0o200),
    ("cmdline", FILE, 0o444),
    ("comm", FILE, 0o644),
    ("coredump_filter", FILE, 0o644),
    ("cpuset", FILE, 0o444),
    ("cwd", LINK, 0o555),
    ("environ", FILE, 0o400),
    ("exe", LINK, 0o555),
    ("fd", DIR, 0o555),
    ("fdinfo", DIR, 0o555),
    ("gid_map", FILE, 0o644),
    ("io", FILE, 0o400),
    ("limits", FILE, 0o444),
    ("loginuid", FILE, 0o644),
    ("maps", FILE, 0o444),
    ("mem", FILE, 0o600),
    ("mountinfo", FILE, 0o444),
    ("mounts", FILE, 0o444),
    ("mountstats", FILE, 0o400),
    ("net", DIR, 0o555),
    ("ns", DIR, 0o555),
    ("numa_maps", FILE, 0o444),
    ("oom_adj", FILE, 0o644),
    ("oom_score", FILE, 0o444),
    ("oom_score_adj", FILE, 0o644),
    ("pagemap", FILE, 0o400),
    ("personality", FILE, 0o400),
    ("root", LINK, 0o555),
    ("sched", FILE, 0o644),
    ("schedstat", FILE, 0o444),
    ("sessionid", FILE, 0o444),
    ("setgroups", FILE, 0o644),
    ("smaps", FILE, 0o444),
    ("smaps_rollup", FILE, 0o444),
    ("stack", FILE, 0o400),
    ("stat", FILE, 0o444),
    ("statm", FILE, 0o444),
    ("status", FILE, 0o444),
    ("syscall", FILE, 0o400),
    ("task", DIR, 0o555),
    ("timers", FILE, 0o444),
    ("timerslack_ns", FILE, 0o666),
    ("uid_map", FILE, 0o644),
    ("wchan", FILE, 0o444),
];

/// The files that only `/proc/PID` has, and the files that only `/proc/PID/task/TID` has.
const OF_PROCESSES: [&str; 6] = ["autogroup", "coredump_filter", "mountstats", "task", "timers", "timerslack_ns"];
const OF_THREADS: [&str; 1] = ["children"];

/// What security modules say of a process, with the permission bits.
const ATTRIBUTES: [(&str, u32); 6] = [
    ("current", 0o666),
    ("exec", 0o666),
    ("fscreate", 0o666),
    ("keycreate", 0o666),
    ("prev", 0o444),
    ("sockcreate", 0o666),
];

const MOUNTS: [(&str, &str, &str, &str); 8] = [
    ("/dev/root", "/", "ext4", "rw,relatime"),
    ("proc", "/proc", "proc", "rw,nosuid,nodev,noexec,relatime"),
    ("sysfs", "/sys", "sysfs", "rw,nosuid,nodev,noexec,relatime"),
    ("udev", "/dev", "devtmpfs", "rw,nosuid,relatime"),
    ("devpts", "/dev/pts", "devpts", "rw,nosuid,noexec,relatime,gid=5,mode=620,ptmxmode=000"),
    ("tmpfs", "/run", "tmpfs", "rw,nosuid,nodev,relatime"),
    ("tmpfs", "/dev/shm", "tmpfs", "rw,nosuid,nodev,relatime"),
    ("mqueue", "/dev/mqueue", "mqueue", "rw,nosuid,nodev,noexec,relatime"),
];

/// Permission bits of a file in `/proc/PID`.
pub fn file_mode(name: &str) -> u32 {
    let mut known = PROCESS.iter().map(|(known, _, mode)| (*known, *mode)).chain(ATTRIBUTES);
    known.find(|(known, _)| *known == name).map_or(0o444, |(_, mode)| mode)
}

/// The number that a name of `/proc` is: in decimal, without sign or leading zeros (`name_to_int`).
pub fn number(name: &str) -> Option<u32> {
    let is_plain = name.bytes().all(|digit| digit.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    name.parse().ok().filter(|number| is_plain && *number <= i32::MAX as u32)
}

/// What lies at a path below `/proc/PID`, where PID may be that of any thread.
pub fn lookup(view: &View<'_>, pid: u32, what: &[&str]) -> Option<Synthetic> {
    if pid == INIT.0 {
        return super::proc_init::lookup(what);
    }
    let process = view.process_of_thread(pid)?;
    match what {
        ["task", tid, what @ ..] => {
            let tid = number(tid)?;
            threads(process).any(|known| known.0 == tid).then(|| entry(view, process, tid, what, &OF_PROCESSES))?
        }
        _ => entry(view, process, pid, what, &OF_THREADS),
    }
}

/// The node at a path below a process or a thread. A thread lacks some of the files.
fn entry(view: &View<'_>, process: &Process, tid: u32, what: &[&str], lacks: &[&str]) -> Option<Synthetic> {
    match what {
        [] => {
            let names = PROCESS.iter().filter(|(name, ..)| !lacks.contains(name));
            Some(Synthetic::Directory(names.map(|(name, kind, _)| (*name, *kind)).collect()))
        }
        [name, ..] if lacks.contains(name) => None,
        _ => node(view, process, tid, what),
    }
}

/// Files of a process that has ended and that cannot be opened any more: what they show is gone
/// (`proc_mem_open`, `mounts_open_common`).
pub fn refusal(view: &View<'_>, path: &[u8]) -> Option<Errno> {
    let rest = std::str::from_utf8(path.strip_prefix(b"/proc/")?).ok()?;
    let (pid, name) = rest.split_once('/')?;
    view.process(number(pid)?)?.zombie?;
    match name {
        "auxv" | "environ" => Some(Errno::ESRCH),
        "mountinfo" | "mounts" | "mountstats" => Some(Errno::EINVAL),
        _ => None,
    }
}

/// The numbered directories of `/proc`.
pub fn process_names(view: &View<'_>) -> Vec<(String, u8)> {
    let mut pids: Vec<u32> = view.processes.iter().map(|p| p.pid.0).chain(view.process.map(|p| p.pid.0)).collect();
    pids.push(INIT.0);
    pids.sort_unstable();
    pids.into_iter().map(|pid| (pid.to_string(), DIR)).collect()
}

/// The entries of `/proc/PID/fd`.
pub fn descriptor_names(view: &View<'_>, process: &Process) -> Vec<(String, u8)> {
    let Some(table) = view.shared.fds.get(process.fds) else { return Vec::new() };
    table.iter().map(|(fd, _)| (fd.to_string(), LINK)).collect()
}

/// The entries of `/proc/PID/fdinfo`.
pub fn info_names(view: &View<'_>, path: &[u8]) -> Vec<(String, u8)> {
    let pid = std::str::from_utf8(path).ok().and_then(|path| path.split('/').nth(2)?.parse().ok());
    let process = pid.and_then(|pid| view.process_of_thread(pid));
    let names = process.map_or_else(Vec::new, |process| descriptor_names(view, process));
    names.into_iter().map(|(name, _)| (name, FILE)).collect()
}

/// The entries of `/proc/PID/task`.
pub fn thread_names(process: &Process) -> Vec<(String, u8)> {
    threads(process).map(|tid| (tid.to_string(), DIR)).collect()
}

/// A zombie still shows its first thread.
fn threads(process: &Process) -> impl Iterator<Item = Tid> + '_ {
    let zombie = process.zombie.map(|_| process.pid.main_thread());
    process.threads.iter().copied().chain(zombie)
}

fn node(view: &View<'_>, process: &Process, tid: u32, what: &[&str]) -> Option<Synthetic> {
    let file = |bytes: Vec<u8>| Some(Synthetic::File(bytes));
    let link = |bytes: &[u8]| Some(Synthetic::Link(bytes.to_vec()));
    match what {
        ["exe"] if process.program.is_some() => Some(Synthetic::Descriptor { pid: process.pid, fd: PROGRAM }),
        ["exe"] => process.zombie.is_none().then(|| link(&seen(view, &process.exe)))?,
        ["cwd"] => {
            let place = view.shared.places.get(process.place)?;
            let ending: &[u8] = if place.gone.is_some() { b" (deleted)" } else { b"" };
            link(&[&seen(view, &place.cwd), ending].concat())
        }
        ["root"] => link(&seen(view, &view.shared.places.get(process.place)?.root)),
        ["fd"] => Some(Synthetic::Descriptors(process.pid)),
        ["fd", fd] => {
            let fd = number(fd)?;
            view.shared.file(process, fd)?;
            Some(Synthetic::Descriptor { pid: process.pid, fd })
        }
        ["task"] => Some(Synthetic::Threads(process.pid)),
        ["net", what @ ..] => super::proc_net::lookup(view, what),
        ["cmdline"] => file(memory(view, process).map(AddressSpace::command_line).unwrap_or_default()),
        // No security module is there to say anything: reading them is EINVAL, as with none compiled in. With AppArmor, as Debian has it, `current`
        // would hold "unconfined", and programs would ask for its other files.
        ["attr"] => Some(Synthetic::Directory(ATTRIBUTES.map(|(name, _)| (name, FILE)).to_vec())),
        ["attr", name] => ATTRIBUTES.iter().any(|(known, _)| known == name).then(|| file(Vec::new()))?,
        ["auxv"] => file(memory(view, process).map(|memory| memory.auxiliary().to_vec()).unwrap_or_default()),
        ["environ"] => file(memory(view, process).map(AddressSpace::environment).unwrap_or_default()),
        ["comm"] => file([&thread_name(view, process, tid)[..], b"\n"].concat()),
        ["cgroup"] => file(b"0::/\n".to_vec()),
        ["fdinfo"] => Some(Synthetic::Directory(Vec::new())),
        ["fdinfo", fd] => file(descriptor_info(view, process, number(fd)?)?.into_bytes()),
        ["ns"] => Some(Synthetic::Directory(namespaces::LINKS.map(|(name, _)| (name, LINK)).to_vec())),
        ["ns", name] if process.zombie.is_none() => {
            let (_, namespace) = namespaces::LINKS.iter().find(|(known, _)| known == name)?;
            Some(Synthetic::Namespace(*namespace))
        }
        ["children"] => file(children(view, process, tid).into_bytes()),
        ["limits"] => file(limits(process).into_bytes()),
        // What it holds is asked for by whoever has opened it.
        ["mem" | "pagemap"] => file(Vec::new()),
        ["maps"] => file(memory(view, process).map(proc_memory::maps).unwrap_or_default()),
        ["smaps"] => {
            file(memory(view, process).map(|memory| proc_memory::smaps(memory, &process.locked)).unwrap_or_default())
        }
        ["smaps_rollup"] => file(
            memory(view, process)
                .map(|memory| proc_memory::smaps_rollup(memory, process.locked.bytes()))
                .unwrap_or_default(),
        ),
        ["mountinfo"] => file(mount_info().into_bytes()),
        ["mounts"] => file(mounts().into_bytes()),
        ["mountstats"] => file(mount_statistics().into_bytes()),
        ["numa_maps"] => file(memory(view, process).map(proc_memory::numa_maps).unwrap_or_default()),
        ["oom_score"] => file(format!("{}\n", (666 + process.oom_score_adj * 2 / 3).max(0)).into_bytes()),
        ["oom_score_adj"] => file(format!("{}\n", process.oom_score_adj).into_bytes()),
        ["personality"] => file(format!("{:08x}\n", process.personality).into_bytes()),
        ["coredump_filter"] => file(format!("{:08x}\n", process.dump_filter).into_bytes()),
        ["oom_adj"] => file(format!("{}\n", process.oom_score_adj * 17 / 1000).into_bytes()),
        ["loginuid"] => file(process.login_uid.to_string().into_bytes()),
        ["timerslack_ns"] => {
            let own = view.thread(tid).map_or(0, |thread| thread.timer_slack[0]);
            file(format!("{own}\n").into_bytes())
        }
        ["sched"] => file(scheduling(view, process, tid).into_bytes()),
        ["stat"] => file(stat_line(view, process, tid).into_bytes()),
        ["statm"] => file(totals(view, process).statm().into_bytes()),
        ["status"] => file(status(view, process, tid).into_bytes()),
        [name] => fixed(name).map(|text| Synthetic::File(text.as_bytes().to_vec())),
        _ => None,
    }
}

/// R for the thread that looks and those that can run, S for those that wait, T for stopped ones, Z for a zombie.
fn state(view: &View<'_>, process: &Process, tid: u32) -> char {
    if process.zombie.is_some() {
        return 'Z';
    }
    if process.job.stopped.is_some() {
        return 'T';
    }
    match view.thread(tid) {
        Some(thread) if thread.state == ThreadState::Blocked && !thread.sleeping => 'S',
        _ => 'R',
    }
}

/// `comm`: of a thread that is over, its process's program.
fn thread_name(view: &View<'_>, process: &Process, tid: u32) -> Vec<u8> {
    match view.thread(tid) {
        Some(thread) => thread.name.clone(),
        None => process.program_name().into_bytes().into_iter().take(15).collect(),
    }
}

/// The number of a terminal's device as proc_pid_stat(5) shows it.
fn device_number(tty: TtyId) -> u32 {
    tty & 0xff | PTS_MAJOR << 8 | (tty & !0xff) << 12
}

/// proc_pid_stat(5).
fn stat_line(view: &View<'_>, process: &Process, tid: u32) -> String {
    let totals = totals(view, process);
    let start_ticks = view.config.clock.uptime_nanos(process.started) / (1_000_000_000 / CLK_TCK);
    let nice = view.thread(tid).map_or(0, |thread| thread.nice);
    let schedule = view.thread(tid).map_or_else(Schedule::default, |thread| thread.schedule);
    let terminal = process.terminal;
    let foreground = terminal
        .and_then(|tty| view.terminals.get(tty))
        .map_or(-1, |pair| pair.foreground.map_or(0, |group| i64::from(group.0)));
    format!(
        "{tid} ({}) {} {} {} {} {} {} 4194304 0 0 0 0 {} 0 {} 0 {} {} {} 0 {start_ticks} {} {} 18446744073709551615 \
         0 0 0 0 0 0 0 0 0 0 0 0 {} {} {} {} 0 0 0 0 0 0 0 0 0 0 0\n",
        String::from_utf8_lossy(&thread_name(view, process, tid)),
        state(view, process, tid),
        process.parent,
        process.group,
        process.session,
        terminal.map_or(0, device_number),
        foreground,
        process.ticks(),
        process.children_cpu_us / 10_000,
        schedule.shown_priority(nice),
        nice,
        process.threads.len().max(1),
        totals.size,
        totals.resident() / 4096,
        // Threads tell nobody of their end.
        if tid == process.pid.0 { process.exit_signal } else { -1 },
        view.thread(tid).map_or(0, |thread| thread.placement.processor.0),
        schedule.priority,
        schedule.policy,
    )
}

/// proc_pid_status(5).
fn status(view: &View<'_>, process: &Process, tid: u32) -> String {
    let state = match state(view, process, tid) {
        'R' => "R (running)",
        'S' => "S (sleeping)",
        'T' => "T (stopped)",
        _ => "Z (zombie)",
    };
    let place = view.shared.places.get(process.place);
    let thread = view.thread(tid);
    let who = thread.map_or(&process.credentials, |thread| &thread.credentials);
    let mut text = format!(
        "Name:\t{}\nUmask:\t{:04o}\nState:\t{state}\nTgid:\t{}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\nTracerPid:\t0\n\
         {}FDSize:\t{}\nGroups:\t{} \n",
        String::from_utf8_lossy(&thread_name(view, process, tid)),
        place.map_or(0, |place| place.umask),
        process.pid,
        process.parent,
        ids(who),
        view.shared.fds.get(process.fds).map_or(0, |fds| fds.len().next_power_of_two().max(64)),
        who.groups.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
    );
    write!(
        text,
        "NStgid:\t{0}\nNSpid:\t{tid}\nNSpgid:\t{1}\nNSsid:\t{2}\n",
        process.pid, process.group, process.session
    )
    .expect("a string takes everything");
    if process.zombie.is_none() {
        text.push_str(&totals(view, process).status(process.locked.bytes(), process.memory_use.of_present()));
    }
    let sets = signal_sets(view, process, tid);
    // Strict mode counts as no filter.
    let (mode, filters) = match thread.and_then(|thread| thread.seccomp.as_ref()) {
        None => (0, 0),
        Some(filter) if filter.is_strict => (1, 0),
        Some(filter) => (2, filter.count()),
    };
    let target = thread.map_or(&process.credentials, |thread| &thread.credentials).user.real;
    let allowed = thread.map_or(ProcessorSet::ANY, |thread| thread.placement.allowed).and(view.config.processors.all());
    write!(
        text,
        "Threads:\t{}\nSigQ:\t{}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\n\
         SigCgt:\t{:016x}\n{}NoNewPrivs:\t{}\nSeccomp:\t{}\nSeccomp_filters:\t{}\nSpeculation_Store_Bypass:\tnot vulnerable\n\
         Cpus_allowed:\t{}\nCpus_allowed_list:\t{}\nMems_allowed:\t1\nMems_allowed_list:\t0\nvoluntary_ctxt_switches:\t{}\n\
         nonvoluntary_ctxt_switches:\t0\n",
        process.threads.len().max(1),
        queued_signals(view, target),
        process.limits.soft(RLIMIT_SIGPENDING),
        sets[0].0,
        process.pending.set.0,
        sets[1].0,
        sets[2].0,
        sets[3].0,
        capability_lines(who),
        u32::from(thread.is_some_and(|thread| thread.no_new_privileges)),
        mode,
        filters,
        view.config.processors.mask_text(allowed),
        allowed.list_text(),
        process.calls,
    )
    .expect("a string takes everything");
    text
}

fn ids(who: &Credentials) -> String {
    let line = |name: &str, ids: Ids| format!("{name}:\t{}\t{}\t{}\t{}\n", ids.real, ids.effective, ids.saved, ids.fs);
    line("Uid", who.user) + &line("Gid", who.group)
}

fn capability_lines(who: &Credentials) -> String {
    let set = &who.capabilities;
    format!(
        "CapInh:\t{:016x}\nCapPrm:\t{:016x}\nCapEff:\t{:016x}\nCapBnd:\t{:016x}\nCapAmb:\t{:016x}\n",
        set.inheritable, set.permitted, set.effective, set.bounding, set.ambient
    )
}

/// How many signals are queued for a user, timers' included.
fn queued_signals(view: &View<'_>, user: u32) -> usize {
    let of_process = |process: &Process| {
        let own = process.credentials.user.real == user;
        if own { process.pending.queued() + process.posix_timers.by_id.len() } else { 0 }
    };
    let of_thread =
        |thread: &Thread| if thread.credentials.user.real == user { thread.signals.pending.queued() } else { 0 };
    let processes: usize = view.processes.iter().chain(view.process).map(of_process).sum();
    processes + view.threads.iter().chain(view.thread).map(of_thread).sum::<usize>()
}

/// A thread's pending and blocked signals, and those that its process ignores and handles.
fn signal_sets(view: &View<'_>, process: &Process, tid: u32) -> [SigSet; 4] {
    let mut sets = [SigSet::EMPTY; 4];
    if let Some(thread) = view.thread(tid) {
        (sets[0], sets[1]) = (thread.signals.pending.set, thread.signals.blocked);
    }
    if let Some(handlers) = view.shared.handlers.get(process.handlers) {
        for (signal, disposition) in (1..).zip(&handlers.0) {
            match disposition.handler {
                0 => {}
                1 => sets[2].insert(signal),
                _ => sets[3].insert(signal),
            }
        }
    }
    sets
}

/// A process's memory. None when it is over.
fn memory<'a>(view: &'a View<'_>, process: &'a Process) -> Option<&'a AddressSpace> {
    let caller = view.process.filter(|caller| caller.space == process.space);
    view.shared.memory(caller.unwrap_or(process))
}

fn totals(view: &View<'_>, process: &Process) -> Totals {
    memory(view, process).map(Totals::of).unwrap_or_default()
}

/// A path of the host as the viewer sees it.
pub(crate) fn seen(view: &View<'_>, path: &[u8]) -> Vec<u8> {
    let path = if path.is_empty() { &b"/"[..] } else { path };
    let root = view.root();
    match path.strip_prefix(root) {
        Some([]) => b"/".to_vec(),
        Some(rest) if rest.starts_with(b"/") => rest.to_vec(),
        _ => path.to_vec(),
    }
}

/// What is the same for every process.
fn fixed(name: &str) -> Option<&'static str> {
    Some(match name {
        "autogroup" => "/autogroup-1 nice 0\n",
        "clear_refs" | "stack" | "timers" => "",
        "cpuset" => "/\n",
        "gid_map" | "uid_map" => "         0          0 4294967295\n",
        "io" => IO,
        "schedstat" => "0 0 0\n",
        "sessionid" => "4294967295",
        "setgroups" => "allow\n",
        "syscall" => "running\n",
        "wchan" => "0",
        _ => return None,
    })
}

/// proc_pid_io(5): nothing is counted.
const IO: &str = "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\ncancelled_write_bytes: 0\n";

fn mounts() -> String {
    MOUNTS.iter().map(|(device, at, kind, options)| format!("{device} {at} {kind} {options} 0 0\n")).collect()
}

/// Kind and options of the file system that a path lies on.
pub(crate) fn mount_around(path: &[u8]) -> (&'static str, &'static str) {
    let around = |(_, at, ..): &&(&str, &str, &str, &str)| is_below(path, at.trim_end_matches('/').as_bytes());
    let (_, _, kind, options) =
        MOUNTS.iter().filter(around).max_by_key(|(_, at, ..)| at.len()).expect("all lies below the root");
    (kind, options)
}

fn mount_statistics() -> String {
    MOUNTS.iter().map(|(device, at, kind, _)| format!("device {device} mounted on {at} with fstype {kind}\n")).collect()
}

fn mount_info() -> String {
    let line = |(i, (device, at, kind, options)): (usize, &(&str, &str, &str, &str))| {
        let parent = if i == 0 { 1 } else { 20 };
        format!("{} {parent} 0:{} / {at} {options} shared:{} - {kind} {device} rw\n", 20 + i, 42 + i, i + 1)
    };
    MOUNTS.iter().enumerate().map(line).collect()
}

/// The children of a process, which are those of its main thread.
fn children(view: &View<'_>, process: &Process, tid: u32) -> String {
    if tid != process.pid.0 {
        return String::new();
    }
    let all = view.processes.iter().chain(view.process);
    let mut pids: Vec<u32> = all.filter(|child| child.parent == process.pid).map(|child| child.pid.0).collect();
    pids.sort_unstable();
    pids.iter().map(|pid| format!("{pid} ")).collect()
}

/// proc_pid_fdinfo(5), what all kinds of files have in common.
fn descriptor_info(view: &View<'_>, process: &Process, fd: u32) -> Option<String> {
    const CLOEXEC: u32 = 0o2_000_000;
    let id = view.shared.file(process, fd)?;
    let file = view.files.get(id)?;
    let cloexec = view.shared.fds.get(process.fds)?.cloexec(fd.into());
    let flags = file.status | if cloexec == Ok(true) { CLOEXEC } else { 0 };
    let head = format!("pos:\t{}\nflags:\t0{flags:o}\nmnt_id:\t20\nino:\t{}\n", file.kind.position(), id.0 + 1);
    Some(head + &kind_info(&file.kind))
}

/// proc_pid_fdinfo(5), what some kinds of files have beside that.
fn kind_info(kind: &FileKind) -> String {
    match kind {
        FileKind::Event(event) => format!("eventfd-count: {:16x}\n", event.count),
        FileKind::Signals(set) => format!("sigmask:\t{:016x}\n", set.0),
        FileKind::Process(pid) => format!("Pid:\t{pid}\nNSpid:\t{pid}\n"),
        FileKind::Inotify(instance) => instance.description(),
        FileKind::Epoll(epoll) => epoll.description(),
        _ => String::new(),
    }
}

/// The head of proc_pid_sched(5).
fn scheduling(view: &View<'_>, process: &Process, tid: u32) -> String {
    let name = String::from_utf8_lossy(&thread_name(view, process, tid)).into_owned();
    let ms = process.cpu_nanos() as f64 / 1e6;
    let schedule = view.thread(tid).map_or_else(Schedule::default, |thread| thread.schedule);
    format!(
        "{name} ({tid}, #threads: {})\n{}\nse.sum_exec_runtime                          : {ms:>21.6}\n\
         nr_switches                                  : {:>14}\npolicy                                       : {:>14}\n\
         prio                                         : {:>14}\n",
        process.threads.len().max(1),
        "-".repeat(67),
        process.calls,
        schedule.policy,
        100 + schedule.shown_priority(view.thread(tid).map_or(0, |thread| thread.nice))
    )
}

fn limits(process: &Process) -> String {
    const NAMES: [(&str, &str); 16] = [
        ("Max cpu time", "seconds"),
        ("Max file size", "bytes"),
        ("Max data size", "bytes"),
        ("Max stack size", "bytes"),
        ("Max core file size", "bytes"),
        ("Max resident set", "bytes"),
        ("Max processes", "processes"),
        ("Max open files", "files"),
        ("Max locked memory", "bytes"),
        ("Max address space", "bytes"),
        ("Max file locks", "locks"),
        ("Max pending signals", "signals"),
        ("Max msgqueue size", "bytes"),
        ("Max nice priority", ""),
        ("Max realtime priority", ""),
        ("Max realtime timeout", "us"),
    ];
    let show = |value: u64| if value == u64::MAX { "unlimited".to_owned() } else { value.to_string() };
    let mut text = format!("{:<25} {:<20} {:<20} {:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for ((name, unit), limit) in NAMES.iter().zip(process.limits.0) {
        let (soft, hard) = (show(limit.soft), show(limit.hard));
        writeln!(text, "{name:<25} {soft:<20} {hard:<20} {unit:<10}").expect("a string takes everything");
    }
    text
}
