//! How much memory this process can still get: the machine's, or less where a control group (cgroups(7), both versions) or the run itself
//! limits it.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::image::PAGE;

static LIMIT: AtomicI64 = AtomicI64::new(i64::MAX);

/// A control group with a limit.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    files: &'static GroupFiles,
    limit: i64,
}

/// What a version of control groups calls its files.
#[derive(Debug, PartialEq, Eq)]
struct GroupFiles {
    /// The controller's line in `/proc/self/cgroup`, up to the path, and where the groups are mounted.
    line: &'static str,
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// The lines of `memory.stat` with what can be given up: files that are kept in memory.
    reclaimable: [&'static str; 2],
}

static VERSIONS: [GroupFiles; 2] = [
    GroupFiles {
        line: "0::",
        mount: "/sys/fs/cgroup",
        limit: "memory.max",
        usage: "memory.current",
        reclaimable: ["inactive_file ", "active_file "],
    },
    GroupFiles {
        line: ":memory:",
        mount: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        reclaimable: ["total_inactive_file ", "total_active_file "],
    },
];

/// All memory that there is for this process, in bytes; `i64::MAX / 2` when the kernel does not tell.
pub(super) fn total() -> i64 {
    static TOTAL: OnceLock<i64> = OnceLock::new();
    let total = TOTAL.get_or_init(|| groups().iter().map(|group| group.limit).fold(of_machine("MemTotal:"), i64::min));
    LIMIT.load(Ordering::Relaxed).min(*total)
}

/// Swap space, in bytes.
pub(super) fn swap() -> i64 {
    static SWAP: OnceLock<i64> = OnceLock::new();
    *SWAP.get_or_init(|| match of_machine("SwapTotal:") {
        i64::MAX.. => 0,
        bytes => bytes % (i64::MAX / 2),
    })
}

/// What can be had of it now, without swapping.
pub(super) fn now() -> i64 {
    let left = groups().iter().filter_map(Group::left).fold(of_machine("MemAvailable:"), i64::min);
    match LIMIT.load(Ordering::Relaxed) {
        i64::MAX => left,
        limit => left.min(limit.saturating_sub_unsigned(resident())),
    }
}

/// Guests get no more memory once the simulator has this much, all in all.
pub fn limit_memory(bytes: u64) {
    LIMIT.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
}

/// What the simulator and all guests have in memory, in bytes.
pub(super) fn resident() -> u64 {
    let text = read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.map_or(0, |pages| pages * PAGE)
}

/// A line of `/proc/meminfo`, in bytes.
fn of_machine(line: &str) -> i64 {
    let text = read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        text.lines().find_map(|found| found.strip_prefix(line)?.split_whitespace().next()?.parse::<i64>().ok());
    kilobytes.map_or(i64::MAX / 2, |kilobytes| kilobytes << 10)
}

fn groups() -> &'static [Group] {
    static GROUPS: OnceLock<Vec<Group>> = OnceLock::new();
    GROUPS.get_or_init(|| limited_groups(Path::new("/"), &read_to_string("/proc/self/cgroup").unwrap_or_default()))
}

/// The groups with a limit that `/proc/self/cgroup` names, and those around them, below a root directory.
fn limited_groups(root: &Path, text: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for files in &VERSIONS {
        let path = text.lines().find_map(|line| {
            let (before, path) = line.split_at(line.find(":/")? + 1);
            (before == files.line || before.ends_with(files.line)).then_some(path)
        });
        let Some(path) = path else { continue };
        let mount = root.join(files.mount.trim_start_matches('/'));
        for ancestor in Path::new(path.trim_start_matches('/')).ancestors() {
            let folder = mount.join(ancestor);
            let limit = number(&folder.join(files.limit)).filter(|limit| *limit < i64::MAX / 4096 * 4096);
            groups.extend(limit.map(|limit| Group { folder, files, limit }));
        }
    }
    groups
}

fn number(file: &Path) -> Option<i64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

impl Group {
    fn left(&self) -> Option<i64> {
        let usage = number(&self.folder.join(self.files.usage))?;
        let stat = read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let bytes = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<i64>().ok());
        let reclaimable: i64 = self.files.reclaimable.iter().filter_map(|name| bytes(name)).sum();
        Some(self.limit - usage + reclaimable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_with_limits_are_found_up_to_the_root() {
        let root = std::env::temp_dir().join(format!("gnomon-groups-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join("sys/fs/cgroup").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/memory.max", "5000\n");
        write("a/memory.current", "3000\n");
        write("a/memory.stat", "anon 7\ninactive_file 400\nactive_file 9\n");
        write("a/b/memory.max", "max\n");
        write("memory/x/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "7000\n");
        let both = limited_groups(&root, "9:name=systemd:/\n4:memory:/x\n0::/a/b\n");
        let found: Vec<_> = both.iter().map(|group| (group.limit, group.left())).collect();
        assert_eq!(found, [(5000, Some(2409)), (7000, None)]);
        assert_eq!(limited_groups(&root, "1:cpu:/a\n"), []);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(now() > 0 && total() >= now() && total() < 1 << 50 && swap() < 1 << 50);
    }
}
