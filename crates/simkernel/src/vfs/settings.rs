//! `/proc/sys`: a host's settings, proc_sys(5). Those of the network that have an effect are the stack's (`tcpip::sysctl`), and
//! `net.ipv4.ip_unprivileged_port_start`; the others of the network can not be changed (EROFS), so that nobody believes that they were.
//! What a guest writes elsewhere is kept and shown.

use super::network_settings;
use super::synthetic::{Synthetic, View};
use crate::syscalls::system;
use linux_abi::Errno;
use linux_abi::fs::{DT_DIR, DT_REG};
use std::collections::BTreeMap;

const DIR: u8 = DT_DIR as u8;
const FILE: u8 = DT_REG as u8;

/// The longest value that a guest may write, in bytes.
const VALUE_MAX: usize = 4096;

/// Settings that no guest changes.
const FIXED: &[(&str, &str)] = &[
    ("fs/aio-nr", "0"),
    ("fs/dentry-state", "1024\t512\t45\t0\t128\t0"),
    ("fs/file-nr", "1024\t0\t9223372036854775807"),
    ("fs/inode-nr", "1024\t0"),
    ("fs/inode-state", "1024\t0\t0\t0\t0\t0\t0"),
    ("kernel/cap_last_cap", "40"),
    ("kernel/ngroups_max", "65536"),
    ("kernel/osrelease", system::RELEASE),
    ("kernel/ostype", "Linux"),
    ("kernel/random/entropy_avail", "256"),
    ("kernel/random/poolsize", "256"),
    ("kernel/version", system::VERSION),
    ("net/ipv4/tcp_available_congestion_control", "reno cubic"),
    ("net/ipv4/tcp_allowed_congestion_control", "reno cubic"),
];

/// Settings that a guest may write.
const SETTINGS: &[(&str, &str)] = &[
    ("fs/aio-max-nr", "65536"),
    ("fs/epoll/max_user_watches", "3710000"),
    ("fs/file-max", "9223372036854775807"),
    ("fs/inotify/max_queued_events", "16384"),
    ("fs/inotify/max_user_instances", "128"),
    ("fs/inotify/max_user_watches", "65536"),
    ("fs/lease-break-time", "45"),
    ("fs/leases-enable", "1"),
    ("fs/mount-max", "100000"),
    ("fs/mqueue/msg_default", "10"),
    ("fs/mqueue/msg_max", "10"),
    ("fs/mqueue/msgsize_default", "8192"),
    ("fs/mqueue/msgsize_max", "8192"),
    ("fs/nr_open", "1048576"),
    ("fs/overflowgid", "65534"),
    ("fs/overflowuid", "65534"),
    ("fs/pipe-max-size", "1048576"),
    ("fs/pipe-user-pages-hard", "0"),
    ("fs/pipe-user-pages-soft", "16384"),
    ("fs/protected_fifos", "0"),
    ("fs/protected_hardlinks", "1"),
    ("fs/protected_regular", "0"),
    ("fs/protected_symlinks", "0"),
    ("fs/suid_dumpable", "0"),
    ("kernel/core_pattern", "core"),
    ("kernel/core_uses_pid", "0"),
    ("kernel/dmesg_restrict", "1"),
    ("kernel/domainname", "(none)"),
    ("kernel/kptr_restrict", "1"),
    ("kernel/msgmax", "8192"),
    ("kernel/msgmnb", "16384"),
    ("kernel/msgmni", "32000"),
    ("kernel/numa_balancing", "0"),
    ("kernel/overflowgid", "65534"),
    ("kernel/overflowuid", "65534"),
    ("kernel/panic", "0"),
    ("kernel/perf_event_paranoid", "3"),
    ("kernel/pid_max", "4194304"),
    ("kernel/printk", "4\t4\t1\t7"),
    ("kernel/randomize_va_space", "0"),
    ("kernel/sched_autogroup_enabled", "0"),
    ("kernel/sched_rt_period_us", "1000000"),
    ("kernel/sched_rt_runtime_us", "950000"),
    ("kernel/sem", "32000\t1024000000\t500\t32000"),
    ("kernel/shm_rmid_forced", "0"),
    ("kernel/shmall", "18446744073692774399"),
    ("kernel/shmmax", "18446744073692774399"),
    ("kernel/shmmni", "4096"),
    ("kernel/sysrq", "0"),
    ("kernel/tainted", "0"),
    ("kernel/threads-max", "254000"),
    ("kernel/unprivileged_bpf_disabled", "2"),
    ("kernel/unprivileged_userns_clone", "0"),
    ("net/ipv4/ip_unprivileged_port_start", "1024"),
    ("vm/dirty_background_ratio", "10"),
    ("vm/dirty_expire_centisecs", "3000"),
    ("vm/dirty_ratio", "20"),
    ("vm/dirty_writeback_centisecs", "500"),
    ("vm/drop_caches", "0"),
    ("vm/hugetlb_shm_group", "0"),
    ("vm/max_map_count", "65530"),
    ("vm/min_free_kbytes", "67584"),
    ("vm/mmap_min_addr", "65536"),
    ("vm/nr_hugepages", "0"),
    ("vm/nr_overcommit_hugepages", "0"),
    ("vm/overcommit_kbytes", "0"),
    ("vm/overcommit_memory", "0"),
    ("vm/overcommit_ratio", "50"),
    ("vm/page-cluster", "3"),
    ("vm/panic_on_oom", "0"),
    ("vm/swappiness", "60"),
    ("vm/vfs_cache_pressure", "100"),
    ("vm/zone_reclaim_mode", "0"),
];

/// Settings that depend on the host.
const DYNAMIC: [&str; 3] = ["kernel/hostname", "kernel/random/boot_id", "kernel/random/uuid"];

const PORT_START: &str = "net/ipv4/ip_unprivileged_port_start";

/// A port, or one more than the last.
fn port_of(value: &[u8]) -> Option<u32> {
    let port: u32 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
    (port <= 65_536).then_some(port)
}

/// What guests of a host have written, and what its network stack is told, by name.
#[derive(Debug, Default)]
pub struct Settings(BTreeMap<String, Vec<u8>>);

impl Settings {
    /// Those of a host whose stack is told this.
    pub fn new(stack: &tcpip::Config) -> Self {
        let shown = |name: &str| stack.sysctl(name).map(|value| (name.to_owned(), value.into_bytes()));
        Settings(tcpip::sysctl::names().filter_map(shown).collect())
    }

    /// Whether the network stack has a setting of this name, which takes changes first.
    pub fn is_of_stack(name: &str) -> bool {
        tcpip::sysctl::names().any(|known| known == name)
    }

    /// A value that a guest has written, if it is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        std::str::from_utf8(self.0.get(name)?).ok()?.trim().parse().ok()
    }

    /// Keeps a value. EACCES for what is fixed, EINVAL for one that is too long, EROFS for another value of what has no effect here.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), Errno> {
        if !is_writable(name) {
            return Err(Errno::EACCES);
        }
        if value.len() > VALUE_MAX {
            return Err(Errno::EINVAL);
        }
        if name == PORT_START && port_of(value).is_none() {
            return Err(Errno::EINVAL);
        }
        let value = value.trim_ascii_end();
        if network_settings::value(name).is_some_and(|shown| !is_same(shown.as_bytes(), value)) {
            return Err(Errno::EROFS);
        }
        self.0.insert(name.to_owned(), value.to_vec());
        Ok(())
    }

    /// The lowest port that needs no capability, ip(7).
    pub fn unprivileged_port_start(&self) -> u32 {
        self.0.get(PORT_START).and_then(|value| port_of(value)).unwrap_or(1024)
    }
}

/// Whether two values have the same words.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let words = |text: &[u8]| {
        text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect::<Vec<_>>()
    };
    words(one) == words(other)
}

/// Whether guests may write a setting.
pub fn is_writable(name: &str) -> bool {
    let is_of_network = Settings::is_of_stack(name) || network_settings::value(name).is_some();
    is_of_network || SETTINGS.iter().any(|(known, _)| *known == name)
}

/// What lies at a path below `/proc/sys`.
pub fn lookup(view: &View<'_>, path: &[&str]) -> Option<Synthetic> {
    let name = path.join("/");
    match value(view, &name) {
        Some(mut value) => {
            value.push(b'\n');
            Some(Synthetic::File(value))
        }
        None => directory(&name).map(Synthetic::Directory),
    }
}

fn value(view: &View<'_>, name: &str) -> Option<Vec<u8>> {
    if let Some(changed) = view.shared.settings.0.get(name) {
        return Some(changed.clone());
    }
    let known = FIXED.iter().chain(SETTINGS).find(|(known, _)| *known == name);
    if let Some((_, value)) = known {
        return Some(value.as_bytes().to_vec());
    }
    if let Some(value) = network_settings::value(name) {
        return Some(value.as_bytes().to_vec());
    }
    let text = match name {
        "kernel/hostname" => view.config.name.clone(),
        "kernel/random/boot_id" => uuid(view.config.seeds.stream(&view.config.name, "boot_id")),
        "kernel/random/uuid" => {
            let process = view.process?;
            let purpose = format!("uuid {} {} {}", view.now.as_nanos(), process.pid, process.calls);
            uuid(view.config.seeds.stream(&view.config.name, &purpose))
        }
        _ => return None,
    };
    Some(text.into_bytes())
}

/// What lies directly below a directory of settings; None when it is none.
fn directory(name: &str) -> Option<Vec<(&'static str, u8)>> {
    let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
    let mut names = Vec::new();
    let of_network = tcpip::sysctl::names().chain(network_settings::names());
    for known in FIXED.iter().chain(SETTINGS).map(|(known, _)| *known).chain(DYNAMIC).chain(of_network) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_settings_follow_from_the_settings() {
        let top: Vec<&str> = directory("").unwrap().iter().map(|(name, _)| *name).collect();
        assert_eq!(top, ["fs", "kernel", "net", "vm"]);
        assert!(directory("kernel/random").unwrap().contains(&("boot_id", FILE)));
        assert_eq!(directory("nothing"), None);
    }

    #[test]
    fn what_is_written_is_kept_and_what_is_fixed_stays() {
        let mut settings = Settings::default();
        settings.set("vm/overcommit_memory", b"1\n").unwrap();
        assert_eq!(settings.0["vm/overcommit_memory"], b"1");
        assert_eq!(settings.set("kernel/osrelease", b"7"), Err(Errno::EACCES));
        assert_eq!(settings.set("vm/unknown", b"7"), Err(Errno::EACCES));
    }

    #[test]
    fn what_the_network_does_not_heed_can_not_be_changed() {
        let mut settings = Settings::new(&tcpip::Config::new(std::net::Ipv4Addr::LOCALHOST));
        assert_eq!(settings.set("net/ipv4/tcp_ecn", b"1"), Err(Errno::EROFS));
        assert_eq!(settings.set("net/ipv4/tcp_ecn", b"2\n"), Ok(()));
        assert_eq!(settings.set("net/ipv4/tcp_mem", b"383706 511608  767412"), Ok(()));
        assert_eq!(settings.0["net/ipv4/tcp_wmem"], b"4096\t16384\t4194304");
    }

    #[test]
    fn the_first_port_for_everyone_can_be_moved() {
        let mut settings = Settings::default();
        assert_eq!(settings.unprivileged_port_start(), 1024);
        settings.set(PORT_START, b"80\n").unwrap();
        assert_eq!(settings.unprivileged_port_start(), 80);
        assert_eq!(settings.set(PORT_START, b"many"), Err(Errno::EINVAL));
    }
}
