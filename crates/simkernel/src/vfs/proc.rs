//! `/proc` but for its processes: a machine that is the same everywhere (one processor, fixed memory).

use super::synthetic::{Synthetic, View};
use super::{proc_ipc, proc_process};
use crate::syscalls::system;
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG};

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

const ROOT: [(&str, u8); 15] = [
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
    ("sysvipc", DIR),
    ("thread-self", LINK),
    ("uptime", FILE),
    ("version", FILE),
    ("vmstat", FILE),
];

/// Settings under `/proc/sys` that do not depend on the host.
const SETTINGS: [(&str, &str); 39] = [
    ("fs/file-max", "9223372036854775807"),
    ("fs/inotify/max_queued_events", "16384"),
    ("fs/inotify/max_user_instances", "128"),
    ("fs/inotify/max_user_watches", "65536"),
    ("fs/mqueue/msg_default", "10"),
    ("fs/mqueue/msg_max", "10"),
    ("fs/mqueue/msgsize_default", "8192"),
    ("fs/mqueue/msgsize_max", "8192"),
    ("fs/nr_open", "1048576"),
    ("fs/pipe-max-size", "1048576"),
    ("kernel/cap_last_cap", "40"),
    ("kernel/domainname", "(none)"),
    ("kernel/msgmax", "8192"),
    ("kernel/msgmnb", "16384"),
    ("kernel/msgmni", "32000"),
    ("kernel/ngroups_max", "65536"),
    ("kernel/osrelease", system::RELEASE),
    ("kernel/ostype", "Linux"),
    ("kernel/overflowuid", "65534"),
    ("kernel/pid_max", "4194304"),
    ("kernel/random/entropy_avail", "256"),
    ("kernel/randomize_va_space", "0"),
    ("kernel/sem", "32000\t1024000000\t500\t32000"),
    ("kernel/shmall", "18446744073692774399"),
    ("kernel/shmmax", "18446744073692774399"),
    ("kernel/shmmni", "4096"),
    ("kernel/threads-max", "254000"),
    ("kernel/version", system::VERSION),
    ("net/core/somaxconn", "4096"),
    ("net/core/rmem_max", "212992"),
    ("net/core/wmem_max", "212992"),
    ("net/ipv4/ip_local_port_range", "32768\t60999"),
    ("net/ipv4/ping_group_range", "0\t2147483647"),
    ("net/ipv4/tcp_congestion_control", "cubic"),
    ("net/ipv6/bindv6only", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("vm/max_map_count", "65530"),
    ("vm/overcommit_memory", "0"),
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
        ["sysvipc", table @ ..] => proc_ipc::lookup(view, table),
        ["sys", setting @ ..] => setting_node(view, setting),
        [pid, what @ ..] => proc_process::lookup(view, pid.parse().ok()?, what),
    }
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
