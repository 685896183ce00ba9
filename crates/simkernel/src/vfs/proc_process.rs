//! `/proc/PID`: the processes and threads of the calling host, proc(5).

use super::synthetic::{Synthetic, View};
use crate::ids::Tid;
use crate::process::Process;
use crate::signal::SigSet;
use crate::thread::ThreadState;
use crate::tty::TtyId;
use guest::{AddressSpace, PROT_EXEC, PROT_READ, PROT_WRITE, VmaKind};
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG};
use linux_abi::time::CLK_TCK;
use linux_abi::tty::PTS_MAJOR;
use std::fmt::Write;

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

const PROCESS: [(&str, u8); 19] = [
    ("cgroup", FILE),
    ("cmdline", FILE),
    ("comm", FILE),
    ("cwd", LINK),
    ("environ", FILE),
    ("exe", LINK),
    ("fd", DIR),
    ("limits", FILE),
    ("maps", FILE),
    ("mountinfo", FILE),
    ("mounts", FILE),
    ("oom_score", FILE),
    ("oom_score_adj", FILE),
    ("root", LINK),
    ("stat", FILE),
    ("statm", FILE),
    ("status", FILE),
    ("task", DIR),
    ("net", DIR),
];

/// What lies at a path below `/proc/PID`, where PID may be that of any thread.
pub fn lookup(view: &View<'_>, pid: u32, what: &[&str]) -> Option<Synthetic> {
    let process = view.process(pid)?;
    match what {
        ["task", tid, what @ ..] if *what != ["task"] => {
            let tid = tid.parse().ok()?;
            threads(process).any(|known| known.0 == tid).then(|| node(view, process, tid, what))?
        }
        _ => node(view, process, process.pid.0, what),
    }
}

/// The numbered directories of `/proc`.
pub fn process_names(view: &View<'_>) -> Vec<(String, u8)> {
    let mut pids: Vec<u32> = view.processes.iter().map(|p| p.pid.0).chain(view.process.map(|p| p.pid.0)).collect();
    pids.sort_unstable();
    pids.into_iter().map(|pid| (pid.to_string(), DIR)).collect()
}

/// The entries of `/proc/PID/fd`.
pub fn descriptor_names(view: &View<'_>, process: &Process) -> Vec<(String, u8)> {
    let Some(table) = view.shared.fds.get(process.fds) else { return Vec::new() };
    table.iter().map(|(fd, _)| (fd.to_string(), LINK)).collect()
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
        [] => Some(Synthetic::Directory(PROCESS.to_vec())),
        ["exe"] => process.zombie.is_none().then(|| link(&process.exe))?,
        ["cwd"] => match &view.shared.places.get(process.place)?.cwd {
            cwd if cwd.is_empty() => link(b"/"),
            cwd => link(cwd),
        },
        ["root"] => link(b"/"),
        ["fd"] => Some(Synthetic::Descriptors(process.pid)),
        ["fd", fd] => {
            let fd = fd.parse().ok()?;
            view.shared.file(process, fd)?;
            Some(Synthetic::Descriptor { pid: process.pid, fd })
        }
        ["task"] => Some(Synthetic::Threads(process.pid)),
        ["net", what @ ..] => super::proc_net::lookup(view.config.addresses, what),
        ["cmdline"] => file(memory(view, process).map(AddressSpace::command_line).unwrap_or_default()),
        ["environ"] => file(memory(view, process).map(AddressSpace::environment).unwrap_or_default()),
        ["comm"] => file([&thread_name(view, process, tid)[..], b"\n"].concat()),
        ["cgroup"] => file(b"0::/\n".to_vec()),
        ["limits"] => file(limits(process).into_bytes()),
        ["maps"] => file(maps(view, process)),
        ["mountinfo"] => file(b"1 0 0:42 / / rw,relatime - ext4 /dev/root rw\n".to_vec()),
        ["mounts"] => file(b"/dev/root / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n".to_vec()),
        ["oom_score" | "oom_score_adj"] => file(b"0\n".to_vec()),
        ["stat"] => file(stat_line(view, process, tid).into_bytes()),
        ["statm"] => file(b"1024 512 256 64 0 256 0\n".to_vec()),
        ["status"] => file(status(view, process, tid).into_bytes()),
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
    let start_ticks = process.started.uptime_nanos() / (1_000_000_000 / CLK_TCK);
    let terminal = process.terminal;
    let foreground = terminal
        .and_then(|tty| view.terminals.get(tty))
        .map_or(-1, |pair| pair.foreground.map_or(0, |group| i64::from(group.0)));
    format!(
        "{tid} ({}) {} {} {} {} {} {} 4194304 0 0 0 0 {} 0 {} 0 20 {} {} 0 {start_ticks} 4194304 512 18446744073709551615 \
         0 0 0 0 0 0 0 0 0 0 0 0 {} 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        String::from_utf8_lossy(&thread_name(view, process, tid)),
        state(view, process, tid),
        process.parent,
        process.group,
        process.session,
        terminal.map_or(0, device_number),
        foreground,
        process.ticks(),
        process.children_cpu_us / 10_000,
        process.nice,
        process.threads.len().max(1),
        process.exit_signal,
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
    let mut text = format!(
        "Name:\t{}\nUmask:\t{:04o}\nState:\t{state}\nTgid:\t{}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\nTracerPid:\t0\n\
         Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t{}\nGroups:\t0\n",
        String::from_utf8_lossy(&thread_name(view, process, tid)),
        place.map_or(0, |place| place.umask),
        process.pid,
        process.parent,
        view.shared.fds.get(process.fds).map_or(0, |fds| fds.len().next_power_of_two().max(64)),
    );
    if process.zombie.is_none() {
        text.push_str("VmPeak:\t    4096 kB\nVmSize:\t    4096 kB\nVmRSS:\t    2048 kB\n");
    }
    let sets = signal_sets(view, process, tid);
    write!(
        text,
        "Threads:\t{}\nSigQ:\t0/127000\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\n\
         SigCgt:\t{:016x}\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n",
        process.threads.len().max(1),
        sets[0].0,
        process.pending.set.0,
        sets[1].0,
        sets[2].0,
        sets[3].0,
    )
    .expect("a string takes everything");
    text
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

/// The memory map, in the form of proc_pid_maps(5).
fn maps(view: &View<'_>, process: &Process) -> Vec<u8> {
    memory(view, process).map(map_lines).unwrap_or_default()
}

/// The lines of `/proc/PID/maps`.
pub(crate) fn map_lines(memory: &AddressSpace) -> Vec<u8> {
    let mut text = Vec::new();
    for vma in memory.mappings() {
        let flag = |bit: u8, letter: char| if vma.prot & bit != 0 { letter } else { '-' };
        let (r, w, x) = (flag(PROT_READ, 'r'), flag(PROT_WRITE, 'w'), flag(PROT_EXEC, 'x'));
        let offset = match vma.kind {
            VmaKind::File { offset, .. } => offset,
            _ => 0,
        };
        let shared = if vma.shared { 's' } else { 'p' };
        let name = memory.mapping_name(vma);
        let mut line = format!("{:08x}-{:08x} {r}{w}{x}{shared} {offset:08x} 00:00 0", vma.start, vma.end).into_bytes();
        if !name.is_empty() {
            line.resize(line.len().max(72), b' ');
            line.push(b' ');
            line.extend_from_slice(name);
        }
        line.push(b'\n');
        text.extend_from_slice(&line);
    }
    text
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
