//! `/proc` but for its processes: a machine that is the same everywhere (processors as the experiment says, fixed memory).

use super::synthetic::{Synthetic, View};
use super::{proc_ipc, proc_process, settings};
use crate::processors::{Processor, ProcessorCount};
use crate::syscalls::system;
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG, S_IFDIR};

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

const ROOT: [(&str, u8); 30] = [
    ("buddyinfo", FILE),
    ("cgroups", FILE),
    ("cmdline", FILE),
    ("consoles", FILE),
    ("cpuinfo", FILE),
    ("crypto", FILE),
    ("devices", FILE),
    ("diskstats", FILE),
    ("filesystems", FILE),
    ("interrupts", FILE),
    ("loadavg", FILE),
    ("locks", FILE),
    ("meminfo", FILE),
    ("misc", FILE),
    ("modules", FILE),
    ("mounts", LINK),
    ("net", LINK),
    ("partitions", FILE),
    ("self", LINK),
    ("softirqs", FILE),
    ("stat", FILE),
    ("swaps", FILE),
    ("sys", DIR),
    ("sysvipc", DIR),
    ("thread-self", LINK),
    ("tty", DIR),
    ("uptime", FILE),
    ("version", FILE),
    ("vmstat", FILE),
    ("zoneinfo", FILE),
];

/// Files that say the same on every host.
const FIXED: [(&str, &str); 12] = [
    (
        "buddyinfo",
        "Node 0, zone   Normal      1      1      1      1      1      1      1      1      1      1   2047 \n",
    ),
    (
        "cgroups",
        "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t0\t1\t1\ncpu\t0\t1\t1\nio\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n",
    ),
    ("cmdline", "gnomon\n"),
    ("consoles", ""),
    ("crypto", ""),
    ("devices", "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/ptmx\n136 pts\n\nBlock devices:\n"),
    ("diskstats", ""),
    ("filesystems", "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tcgroup2\nnodev\tdevpts\nnodev\tmqueue\n\text4\n"),
    ("locks", ""),
    ("misc", ""),
    ("modules", ""),
    ("partitions", "major minor  #blocks  name\n\n"),
];

pub fn lookup(view: &View<'_>, rest: &[&str]) -> Option<Synthetic> {
    let file = |text: String| Some(Synthetic::File(text.into_bytes()));
    let link = |text: String| Some(Synthetic::Link(text.into_bytes()));
    match rest {
        [] => Some(Synthetic::Directory(ROOT.to_vec())),
        ["self"] => link(view.process?.pid.to_string()),
        ["thread-self"] => link(format!("{}/task/{}", view.process?.pid, view.thread?.tid)),
        ["mounts"] => link("self/mounts".to_owned()),
        ["net"] => link("self/net".to_owned()),
        ["cpuinfo"] => file(cpuinfo(view.config.processors)),
        ["interrupts"] => file(format!("{:11}{}", "", processor_columns(view.config.processors))),
        ["loadavg"] => file(load(view)),
        ["meminfo"] => file(meminfo()),
        ["softirqs"] => file(format!("{:20}{}", "", processor_columns(view.config.processors))),
        ["stat"] => file(machine_stat(view)),
        ["swaps"] => file("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".to_owned()),
        ["tty"] => Some(Synthetic::Directory(vec![("drivers", FILE)])),
        ["tty", "drivers"] => file(TTY_DRIVERS.to_owned()),
        ["uptime"] => {
            let hundredths = view.config.clock.uptime_nanos(view.now) / 10_000_000;
            let text = |hundredths: u64| format!("{}.{:02}", hundredths / 100, hundredths % 100);
            let idle = hundredths * u64::from(view.config.processors.get());
            file(format!("{} {}\n", text(hundredths), text(idle)))
        }
        ["version"] => file(format!("Linux version {} (gnomon) {}\n", system::RELEASE, system::VERSION)),
        ["vmstat"] => file(vmstat()),
        ["zoneinfo"] => file(
            "Node 0, zone   Normal\n  pages free     2097152\n        present  4194304\n        managed  4194304\n"
                .to_owned(),
        ),
        ["sysvipc", table @ ..] => proc_ipc::lookup(view, table),
        ["sys", setting @ ..] => settings::lookup(view, setting),
        [name] if FIXED.iter().any(|(known, _)| known == name) => {
            FIXED.iter().find(|(known, _)| known == name).map(|(_, text)| Synthetic::File(text.as_bytes().to_vec()))
        }
        [pid, what @ ..] => proc_process::lookup(view, proc_process::number(pid)?, what),
    }
}

/// Permission bits of a file in `/proc` or `/sys`.
pub fn file_mode(path: &[u8]) -> u32 {
    let path = std::str::from_utf8(path).unwrap_or_default();
    if let Some(setting) = path.strip_prefix("/proc/sys/") {
        return if settings::is_writable(setting) { 0o644 } else { 0o444 };
    }
    match process_file(path) {
        Some(name) => proc_process::file_mode(name),
        None => 0o444,
    }
}

/// Permission bits of a directory.
pub fn directory_mode(path: &[u8]) -> u32 {
    match std::str::from_utf8(path).ok().and_then(process_file) {
        Some("ns") => 0o511,
        None if path.starts_with(b"/sys/") => 0o755,
        _ => 0o555,
    }
}

/// The last name of a path below `/proc/PID`.
fn process_file(path: &str) -> Option<&str> {
    let (pid, rest) = path.strip_prefix("/proc/")?.split_once('/')?;
    pid.parse::<u32>().ok()?;
    rest.split('/').next_back()
}

/// Who owns a file of a process: its effective user and group; root where it is closed to others, but for directories that all may list.
pub fn owner(view: &View<'_>, path: &[u8], mode: u32) -> Option<(u32, u32)> {
    let rest = std::str::from_utf8(path).ok()?.strip_prefix("/proc/")?;
    let process = view.process_of_thread(rest.split('/').next()?.parse().ok()?)?;
    if process.dumpable || mode == S_IFDIR | 0o555 {
        Some((process.credentials.user.effective, process.credentials.group.effective))
    } else {
        None
    }
}

const TTY_DRIVERS: &str = "/dev/tty             /dev/tty        5       0 system:/dev/tty\n\
/dev/ptmx            /dev/ptmx       5       2 system\n\
pty_slave            /dev/pts      136 0-1048575 pty:slave\n";

/// proc_loadavg(5): nobody waits for the processor, since guests take no simulated time.
fn load(view: &View<'_>) -> String {
    let threads = view.threads.iter().count() + 1;
    let last = view.threads.iter().map(|thread| thread.tid.0).chain(view.thread.map(|thread| thread.tid.0)).max();
    format!("0.00 0.00 0.00 1/{threads} {}\n", last.unwrap_or(1))
}

/// The head of a table with a column for each processor.
fn processor_columns(count: ProcessorCount) -> String {
    count.numbers().map(|Processor(number)| format!("CPU{number:<8}")).collect::<String>() + "\n"
}

/// Processors of one package, each a core of its own.
fn cpuinfo(count: ProcessorCount) -> String {
    count.numbers().map(|processor| core_info(processor, count.get())).collect()
}

fn core_info(Processor(number): Processor, cores: u16) -> String {
    format!(
        "processor\t: {number}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 60\nmodel name\t: Gnomon simulated processor\n\
     stepping\t: 3\ncpu MHz\t\t: 1000.000\ncache size\t: 8192 KB\nphysical id\t: 0\nsiblings\t: {cores}\ncore id\t\t: {number}\n\
     cpu cores\t: {cores}\nfpu\t\t: yes\nflags\t\t: fpu tsc msr pae cx8 sep cmov clflush mmx fxsr sse sse2 syscall nx rdtscp lm pni pclmulqdq ssse3 fma cx16 \
     sse4_1 sse4_2 movbe popcnt aes xsave avx f16c lahf_lm abm fsgsbase bmi1 avx2 bmi2 erms adx xsaveopt\nbogomips\t: 2000.00\nclflush size\t: 64\naddress sizes\t: 46 bits physical, 48 bits virtual\n\n"
    )
}

/// proc_meminfo(5): a host has fixed memory, half of it free.
fn meminfo() -> String {
    let total = system::TOTAL_MEMORY / 1024;
    let free = system::FREE_MEMORY / 1024;
    let used = total - free;
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Active", used),
        ("Inactive", 0),
        ("Active(anon)", used),
        ("Inactive(anon)", 0),
        ("Active(file)", 0),
        ("Inactive(file)", 0),
        ("Unevictable", 0),
        ("Mlocked", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Dirty", 0),
        ("Writeback", 0),
        ("AnonPages", used),
        ("Mapped", 0),
        ("Shmem", 0),
        ("KReclaimable", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
        ("SUnreclaim", 0),
        ("KernelStack", 0),
        ("PageTables", 0),
        ("CommitLimit", total / 2),
        ("Committed_AS", used),
        ("VmallocTotal", 34_359_738_367),
        ("VmallocUsed", 0),
        ("VmallocChunk", 0),
        ("AnonHugePages", 0),
        ("ShmemHugePages", 0),
    ];
    let mut text: String =
        lines.iter().map(|(name, kilobytes)| format!("{:<15} {kilobytes:>8} kB\n", format!("{name}:"))).collect();
    text.push_str("HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\nHugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:               0 kB\n");
    text
}

/// proc_stat(5): processors idle, since guests take no simulated time.
fn machine_stat(view: &View<'_>) -> String {
    let boot = view.config.clock.boot_seconds();
    let idle = view.config.clock.uptime_nanos(view.now) / 10_000_000;
    let processes = view.processes.iter().count() + 1;
    let count = view.config.processors;
    let each = |Processor(number)| format!("cpu{number} 0 0 0 {idle} 0 0 0 0 0 0\n");
    let lines: String = count.numbers().map(each).collect();
    let all_idle = idle * u64::from(count.get());
    format!(
        "cpu  0 0 0 {all_idle} 0 0 0 0 0 0\n{lines}intr 0\nctxt 0\nbtime {boot}\nprocesses {processes}\n\
         procs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n"
    )
}

fn vmstat() -> String {
    const NAMES: [&str; 14] = [
        "nr_inactive_anon",
        "nr_active_anon",
        "nr_inactive_file",
        "nr_active_file",
        "nr_dirty",
        "nr_writeback",
        "pgpgin",
        "pgpgout",
        "pswpin",
        "pswpout",
        "pgfault",
        "pgmajfault",
        "pgscan_direct",
        "oom_kill",
    ];
    let free = system::FREE_MEMORY / 4096;
    let zeros: String = NAMES.iter().map(|name| format!("{name} 0\n")).collect();
    format!("nr_free_pages {free}\n{zeros}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_root_has_a_fixed_text_or_one_of_its_own() {
        assert!(FIXED.iter().all(|(name, _)| ROOT.contains(&(*name, FILE))));
        assert!(ROOT.is_sorted());
    }

    #[test]
    fn memory_is_told_in_kilobytes() {
        assert!(meminfo().starts_with("MemTotal:       16777216 kB\nMemFree:         8388608 kB\n"));
    }
}
