//! `/proc`: the calling host's processes, and a machine that is the same everywhere (one processor, fixed memory).

use super::synthetic::{Synthetic, View};
use crate::process::Process;
use crate::syscalls::system;
use guest::{PROT_EXEC, PROT_READ, PROT_WRITE, VmaKind};
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG};
use linux_abi::time::CLK_TCK;
use std::fmt::Write;

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

const ROOT: [(&str, u8); 14] = [
    ("cmdline", FILE),
    ("cpuinfo", FILE),
    ("filesystems", FILE),
    ("loadavg", FILE),
    ("meminfo", FILE),
    ("mounts", LINK),
    ("net", LINK),
    ("self", LINK),
    ("stat", FILE),
    ("sys", DIR),
    ("thread-self", LINK),
    ("uptime", FILE),
    ("version", FILE),
    ("vmstat", FILE),
];

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

/// Settings under `/proc/sys` that do not depend on the host.
const SETTINGS: [(&str, &str); 21] = [
    ("fs/file-max", "9223372036854775807"),
    ("fs/nr_open", "1048576"),
    ("fs/pipe-max-size", "1048576"),
    ("kernel/cap_last_cap", "40"),
    ("kernel/domainname", "(none)"),
    ("kernel/ngroups_max", "65536"),
    ("kernel/osrelease", system::RELEASE),
    ("kernel/ostype", "Linux"),
    ("kernel/overflowuid", "65534"),
    ("kernel/pid_max", "4194304"),
    ("kernel/random/entropy_avail", "256"),
    ("kernel/randomize_va_space", "0"),
    ("kernel/threads-max", "254000"),
    ("kernel/version", system::VERSION),
    ("net/core/somaxconn", "4096"),
    ("net/core/rmem_max", "212992"),
    ("net/core/wmem_max", "212992"),
    ("net/ipv4/ip_local_port_range", "32768\t60999"),
    ("net/ipv4/tcp_congestion_control", "cubic"),
    ("vm/max_map_count", "65530"),
    ("vm/overcommit_memory", "0"),
];

pub fn lookup(view: &View<'_>, rest: &[&str]) -> Option<Synthetic> {
    let file = |text: String| Some(Synthetic::File(text.into_bytes()));
    let link = |text: String| Some(Synthetic::Link(text.into_bytes()));
    match rest {
        [] => Some(Synthetic::Directory(ROOT.to_vec())),
        ["self"] => link(view.process?.pid.to_string()),
        ["thread-self"] => link(format!("{}/task/{}", view.process?.pid, view.tid)),
        ["mounts"] => link("self/mounts".to_owned()),
        ["net"] => link("self/net".to_owned()),
        ["cmdline"] => file("gnomon\n".to_owned()),
        ["cpuinfo"] => file(cpuinfo()),
        ["filesystems"] => file("nodev\tproc\nnodev\ttmpfs\n\text4\n".to_owned()),
        ["loadavg"] => file("0.00 0.00 0.00 1/1 1000\n".to_owned()),
        ["meminfo"] => file(meminfo()),
        ["stat"] => file(machine_stat()),
        ["uptime"] => {
            let (secs, hundredths) =
                (view.now.uptime_nanos() / 1_000_000_000, view.now.uptime_nanos() / 10_000_000 % 100);
            file(format!("{secs}.{hundredths:02} {secs}.{hundredths:02}\n"))
        }
        ["version"] => file(format!("Linux version {} (gnomon) {}\n", system::RELEASE, system::VERSION)),
        ["vmstat"] => file("nr_free_pages 1048576\npgfault 0\npgmajfault 0\n".to_owned()),
        ["sys", setting @ ..] => setting_node(view, setting),
        [pid, what @ ..] => {
            let process = view.process(pid.parse().ok()?)?;
            match what {
                ["task", tid, what @ ..] if *what != ["task"] => {
                    let tid = tid.parse().ok()?;
                    let known = process.threads.iter().any(|t| t.0 == tid);
                    known.then(|| process_node(process, tid, what))?
                }
                _ => process_node(process, process.pid.0, what),
            }
        }
    }
}

/// The numbered directories of `/proc`.
pub fn process_names(view: &View<'_>) -> Vec<(String, u8)> {
    let mut pids: Vec<u32> = view.processes.iter().map(|p| p.pid.0).chain(view.process.map(|p| p.pid.0)).collect();
    pids.sort_unstable();
    pids.into_iter().map(|pid| (pid.to_string(), DIR)).collect()
}

fn setting_node(view: &View<'_>, path: &[&str]) -> Option<Synthetic> {
    let name = path.join("/");
    let file = |text: &str| Some(Synthetic::File(format!("{text}\n").into_bytes()));
    match &name[..] {
        "kernel/hostname" => return file(&view.config.name),
        "kernel/random/boot_id" => return file(&uuid(view.config.seeds.stream(&view.config.name, "boot_id"))),
        _ => {}
    }
    if let Some((_, value)) = SETTINGS.iter().find(|(known, _)| *known == name) {
        return file(value);
    }
    setting_directory(&name).map(Synthetic::Directory)
}

/// What lies directly below a directory of settings; None when it is none.
fn setting_directory(name: &str) -> Option<Vec<(&'static str, u8)>> {
    let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
    let dynamic = ["kernel/hostname", "kernel/random/boot_id"];
    let mut names = Vec::new();
    for known in SETTINGS.iter().map(|(known, _)| *known).chain(dynamic) {
        let Some(rest) = known.strip_prefix(&prefix) else { continue };
        let entry = match rest.split_once('/') {
            Some((directory, _)) => (directory, DIR),
            None => (rest, FILE),
        };
        if !names.contains(&entry) {
            names.push(entry);
        }
    }
    (!names.is_empty()).then_some(names)
}

fn uuid(mut random: base::Rng) -> String {
    let (high, low) = (random.next_u64(), random.next_u64());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        low >> 48 & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

fn process_node(process: &Process, tid: u32, what: &[&str]) -> Option<Synthetic> {
    let file = |bytes: Vec<u8>| Some(Synthetic::File(bytes));
    let link = |bytes: &[u8]| Some(Synthetic::Link(bytes.to_vec()));
    match what {
        [] => Some(Synthetic::Directory(PROCESS.to_vec())),
        ["exe"] => link(&process.exe),
        ["cwd"] => link(if process.cwd.is_empty() { b"/" } else { &process.cwd }),
        ["root"] => link(b"/"),
        ["fd"] => Some(Synthetic::Descriptors(process.pid)),
        ["fd", fd] => {
            let fd = fd.parse().ok()?;
            process.fds.get(u64::from(fd)).ok()?;
            Some(Synthetic::Descriptor { pid: process.pid, fd })
        }
        ["task"] => Some(Synthetic::Directory(Vec::new())),
        ["net"] => Some(Synthetic::Directory(Vec::new())),
        ["cmdline"] => file(nul_terminated(&process.argv)),
        ["environ"] => file(nul_terminated(&process.envp)),
        ["comm"] => file(format!("{}\n", short_name(process)).into_bytes()),
        ["cgroup"] => file(b"0::/\n".to_vec()),
        ["limits"] => file(limits(process).into_bytes()),
        ["maps"] => file(maps(process)),
        ["mountinfo"] => file(b"1 0 0:42 / / rw,relatime - ext4 /dev/root rw\n".to_vec()),
        ["mounts"] => file(b"/dev/root / ext4 rw,relatime 0 0\nproc /proc proc rw 0 0\n".to_vec()),
        ["oom_score" | "oom_score_adj"] => file(b"0\n".to_vec()),
        ["stat"] => file(stat_line(process, tid).into_bytes()),
        ["statm"] => file(b"1024 512 256 64 0 256 0\n".to_vec()),
        ["status"] => file(status(process, tid).into_bytes()),
        _ => None,
    }
}

/// The memory map, in the form of proc_pid_maps(5).
fn maps(process: &Process) -> Vec<u8> {
    let mut text = Vec::new();
    for vma in process.memory.mappings() {
        let flag = |bit: u8, letter: char| if vma.prot & bit != 0 { letter } else { '-' };
        let (r, w, x) = (flag(PROT_READ, 'r'), flag(PROT_WRITE, 'w'), flag(PROT_EXEC, 'x'));
        let offset = match vma.kind {
            VmaKind::File { offset, .. } => offset,
            _ => 0,
        };
        let shared = if vma.shared { 's' } else { 'p' };
        let name = process.memory.mapping_name(vma);
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

fn nul_terminated(strings: &[Vec<u8>]) -> Vec<u8> {
    strings.iter().flat_map(|s| s.iter().copied().chain([0])).collect()
}

/// `comm`: the program's name, cut to 15 bytes.
fn short_name(process: &Process) -> String {
    process.program_name().chars().take(15).collect()
}

fn stat_line(process: &Process, tid: u32) -> String {
    let start_ticks = process.started.uptime_nanos() / (1_000_000_000 / CLK_TCK);
    format!(
        "{tid} ({}) R {} {} {} 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 {} 0 {start_ticks} 4194304 512 18446744073709551615 \
         0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        short_name(process),
        process.parent,
        process.group,
        process.session,
        process.threads.len(),
    )
}

fn status(process: &Process, tid: u32) -> String {
    format!(
        "Name:\t{}\nUmask:\t{:04o}\nState:\tR (running)\nTgid:\t{}\nNgid:\t0\nPid:\t{tid}\nPPid:\t{}\nTracerPid:\t0\n\
         Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nFDSize:\t{}\nGroups:\t0\nVmPeak:\t    4096 kB\nVmSize:\t    4096 kB\n\
         VmRSS:\t    2048 kB\nThreads:\t{}\nSigQ:\t0/127000\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n",
        short_name(process),
        process.umask,
        process.pid,
        process.parent,
        process.fds.len().next_power_of_two().max(64),
        process.threads.len(),
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

fn cpuinfo() -> String {
    "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 60\nmodel name\t: Gnomon simulated processor\n\
     stepping\t: 3\ncpu MHz\t\t: 1000.000\ncache size\t: 8192 KB\nphysical id\t: 0\nsiblings\t: 1\ncore id\t\t: 0\n\
     cpu cores\t: 1\nfpu\t\t: yes\nflags\t\t: fpu tsc msr pae cx8 sep cmov clflush mmx fxsr sse sse2 syscall nx rdtscp lm pni pclmulqdq ssse3 fma cx16 \
     sse4_1 sse4_2 movbe popcnt aes xsave avx f16c lahf_lm abm fsgsbase bmi1 avx2 bmi2 erms adx xsaveopt\nbogomips\t: 2000.00\nclflush size\t: 64\naddress sizes\t: 46 bits physical, 48 bits virtual\n\n"
        .to_owned()
}

fn meminfo() -> String {
    let total = system::TOTAL_MEMORY / 1024;
    let free = system::FREE_MEMORY / 1024;
    format!(
        "MemTotal:       {total:>8} kB\nMemFree:        {free:>8} kB\nMemAvailable:   {free:>8} kB\nBuffers:               0 kB\n\
         Cached:                0 kB\nSwapCached:            0 kB\nSwapTotal:             0 kB\nSwapFree:              0 kB\n\
         HugePages_Total:       0\nHugepagesize:       2048 kB\n"
    )
}

fn machine_stat() -> String {
    let boot = (base::time::UNIX_START_NS - base::time::UPTIME_AT_START_NS) / 1_000_000_000;
    format!(
        "cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nintr 0\nctxt 0\nbtime {boot}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_settings_follow_from_the_settings() {
        let top = setting_directory("").unwrap();
        assert_eq!(top, [("fs", DIR), ("kernel", DIR), ("net", DIR), ("vm", DIR)]);
        assert!(setting_directory("kernel/random").unwrap().contains(&("boot_id", FILE)));
        assert_eq!(setting_directory("nothing"), None);
    }
}
