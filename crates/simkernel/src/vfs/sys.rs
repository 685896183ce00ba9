//! `/sys`: the host's processors, one memory node, two network interfaces, the same on every machine, sysfs(5).

use super::synthetic::{Synthetic, View};
use crate::net::interfaces::{Counted, Interface, interfaces};
use crate::processors::{Processor, ProcessorCount};
use crate::syscalls::system;
use linux_abi::fs::{DT_DIR, DT_LNK, DT_REG};
use std::sync::LazyLock;

const DIR: u8 = DT_DIR as u8;
const LINK: u8 = DT_LNK as u8;
const FILE: u8 = DT_REG as u8;

/// What a file says. Each processor is a core of its own, all of them one package with a cache of the second level.
enum Text {
    /// The same on every host.
    Fixed(&'static str),
    /// The number of the processor in whose folder it is.
    Number,
    /// That one as a list, and as a mask.
    OwnList,
    OwnMask,
    /// All of the host's.
    AllList,
    AllMask,
}

use Text::{AllList, AllMask, Fixed, Number, OwnList, OwnMask};

/// Folders of processors.
const CPU_FOLDER: &str = "devices/system/cpu";
/// The first processor's, which stands for those of all.
const FIRST_CPU: &str = "devices/system/cpu/cpu0";

const FILES: &[(&str, Text)] = &[
    ("devices/system/cpu/cpu0/cache/index0/coherency_line_size", Fixed("64")),
    ("devices/system/cpu/cpu0/cache/index0/level", Fixed("1")),
    ("devices/system/cpu/cpu0/cache/index0/shared_cpu_list", OwnList),
    ("devices/system/cpu/cpu0/cache/index0/shared_cpu_map", OwnMask),
    ("devices/system/cpu/cpu0/cache/index0/size", Fixed("32K")),
    ("devices/system/cpu/cpu0/cache/index0/type", Fixed("Data")),
    ("devices/system/cpu/cpu0/cache/index1/coherency_line_size", Fixed("64")),
    ("devices/system/cpu/cpu0/cache/index1/level", Fixed("2")),
    ("devices/system/cpu/cpu0/cache/index1/shared_cpu_list", AllList),
    ("devices/system/cpu/cpu0/cache/index1/shared_cpu_map", AllMask),
    ("devices/system/cpu/cpu0/cache/index1/size", Fixed("8192K")),
    ("devices/system/cpu/cpu0/cache/index1/type", Fixed("Unified")),
    ("devices/system/cpu/cpu0/topology/core_cpus", OwnMask),
    ("devices/system/cpu/cpu0/topology/core_cpus_list", OwnList),
    ("devices/system/cpu/cpu0/topology/core_id", Number),
    ("devices/system/cpu/cpu0/topology/core_siblings", AllMask),
    ("devices/system/cpu/cpu0/topology/core_siblings_list", AllList),
    ("devices/system/cpu/cpu0/topology/die_id", Fixed("0")),
    ("devices/system/cpu/cpu0/topology/package_cpus", AllMask),
    ("devices/system/cpu/cpu0/topology/package_cpus_list", AllList),
    ("devices/system/cpu/cpu0/topology/physical_package_id", Fixed("0")),
    ("devices/system/cpu/cpu0/topology/thread_siblings", OwnMask),
    ("devices/system/cpu/cpu0/topology/thread_siblings_list", OwnList),
    ("devices/system/cpu/isolated", Fixed("")),
    ("devices/system/cpu/kernel_max", Fixed("8191")),
    ("devices/system/cpu/offline", Fixed("")),
    ("devices/system/cpu/online", AllList),
    ("devices/system/cpu/possible", AllList),
    ("devices/system/cpu/present", AllList),
    ("devices/system/cpu/smt/active", Fixed("0")),
    ("devices/system/cpu/smt/control", Fixed("notsupported")),
    ("devices/system/node/has_cpu", Fixed("0")),
    ("devices/system/node/has_memory", Fixed("0")),
    ("devices/system/node/has_normal_memory", Fixed("0")),
    ("devices/system/node/node0/cpulist", AllList),
    ("devices/system/node/node0/cpumap", AllMask),
    ("devices/system/node/node0/distance", Fixed("10")),
    ("devices/system/node/online", Fixed("0")),
    ("devices/system/node/possible", Fixed("0")),
    ("fs/cgroup/cgroup.controllers", Fixed("cpuset cpu io memory pids")),
    ("fs/cgroup/cgroup.subtree_control", Fixed("")),
    ("kernel/mm/hugepages/hugepages-2048kB/free_hugepages", Fixed("0")),
    ("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", Fixed("0")),
    ("kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", Fixed("0")),
    ("kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages", Fixed("0")),
    ("kernel/mm/transparent_hugepage/defrag", Fixed("always defer defer+madvise madvise [never]")),
    ("kernel/mm/transparent_hugepage/enabled", Fixed("always madvise [never]")),
    ("kernel/mm/transparent_hugepage/hpage_pmd_size", Fixed("2097152")),
    ("kernel/mm/transparent_hugepage/shmem_enabled", Fixed("always within_size advise [never] deny force")),
];

/// Directories with nothing in them.
const EMPTY: [&str; 6] = ["block", "bus", "class/block", "class/thermal", "class/tty", "module"];

/// The only node of a host's memory.
const NODE_FOLDER: &str = "devices/system/node/node0";

const MEMORY_INFO: &str = "devices/system/node/node0/meminfo";

/// What every interface tells of itself below `/sys/class/net`.
const INTERFACE_FILES: [&str; 15] = [
    "addr_len",
    "address",
    "broadcast",
    "carrier",
    "dev_id",
    "flags",
    "ifindex",
    "iflink",
    "mtu",
    "operstate",
    "speed",
    "statistics",
    "tx_queue_len",
    "type",
    "uevent",
];

/// The counters of an interface, `rtnl_link_stats64`.
const STATISTICS: [&str; 24] = [
    "collisions",
    "multicast",
    "rx_bytes",
    "rx_compressed",
    "rx_crc_errors",
    "rx_dropped",
    "rx_errors",
    "rx_fifo_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "rx_missed_errors",
    "rx_nohandler",
    "rx_over_errors",
    "rx_packets",
    "tx_aborted_errors",
    "tx_bytes",
    "tx_carrier_errors",
    "tx_compressed",
    "tx_dropped",
    "tx_errors",
    "tx_fifo_errors",
    "tx_heartbeat_errors",
    "tx_packets",
    "tx_window_errors",
];

fn statistic(counted: Counted, name: &str) -> u64 {
    match name {
        "rx_bytes" => counted.received.bytes,
        "rx_packets" => counted.received.packets,
        "tx_bytes" => counted.sent.bytes,
        "tx_packets" => counted.sent.packets,
        "tx_dropped" => counted.refused,
        _ => 0,
    }
}

/// What lies at a path below `/sys`.
pub fn lookup(view: &View<'_>, path: &[&str]) -> Option<Synthetic> {
    let file = |text: String| Some(Synthetic::File(text.into_bytes()));
    if let ["class", "net", rest @ ..] = path {
        return network(view, rest);
    }
    let count = view.config.processors;
    let name = path.join("/");
    if let Some(processor) = processor_of_node(&name, count) {
        return Some(Synthetic::Link(format!("../../cpu/{processor}").into_bytes()));
    }
    // Every processor's folder is like the first one's.
    let (processor, name) = match processor_folder(&name, count) {
        Some((processor, rest)) => (processor, format!("{FIRST_CPU}{rest}")),
        None => (Processor(0), name),
    };
    if name == MEMORY_INFO {
        return file(memory_of_node());
    }
    if let Some((_, text)) = FILES.iter().find(|(known, _)| *known == name) {
        return file(content(text, processor, count) + "\n");
    }
    let mut names = directory(&name)?;
    if name == CPU_FOLDER {
        names.retain(|(name, _)| *name != "cpu0");
        names.extend(count.numbers().map(|Processor(number)| (CPU_NAMES[usize::from(number)].as_str(), DIR)));
    }
    if name == NODE_FOLDER {
        names.extend(count.numbers().map(|Processor(number)| (CPU_NAMES[usize::from(number)].as_str(), LINK)));
    }
    Some(Synthetic::Directory(names))
}

/// Names of processors' folders.
static CPU_NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| ProcessorCount::MOST.numbers().map(|Processor(number)| format!("cpu{number}")).collect());

/// The name of a processor in the folder of its node, where links lead to its own.
fn processor_of_node(name: &str, count: ProcessorCount) -> Option<&'static str> {
    let link = name.strip_prefix(NODE_FOLDER)?.strip_prefix('/')?;
    let mut names = count.numbers().map(|Processor(number)| CPU_NAMES[usize::from(number)].as_str());
    names.find(|processor| *processor == link)
}

/// The processor that a path below `/sys` belongs to, and the rest of the path with its slash.
fn processor_folder(name: &str, count: ProcessorCount) -> Option<(Processor, &str)> {
    let rest = name.strip_prefix(CPU_FOLDER)?.strip_prefix('/')?;
    let (folder, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let processor = count.numbers().find(|Processor(number)| CPU_NAMES[usize::from(*number)] == folder)?;
    Some((processor, rest))
}

fn content(text: &Text, processor: Processor, count: ProcessorCount) -> String {
    let own = || [processor].into_iter().collect();
    match text {
        Fixed(text) => (*text).to_owned(),
        Number | OwnList => processor.0.to_string(),
        OwnMask => count.mask_text(own()),
        AllList => count.all().list_text(),
        AllMask => count.mask_text(count.all()),
    }
}

fn directory(name: &str) -> Option<Vec<(&'static str, u8)>> {
    let prefix = if name.is_empty() { String::new() } else { format!("{name}/") };
    let files = FILES.iter().map(|(known, _)| (*known, FILE)).chain([(MEMORY_INFO, FILE)]);
    let directories = EMPTY.iter().map(|known| (*known, DIR)).chain([("class/net", DIR)]);
    let mut names = Vec::new();
    for (known, kind) in files.chain(directories) {
        let Some(rest) = known.strip_prefix(&prefix) else { continue };
        let entry = match rest.split_once('/') {
            Some((directory, _)) => (directory, DIR),
            None => (rest, kind),
        };
        if !names.contains(&entry) {
            names.push(entry);
        }
    }
    (!names.is_empty() || EMPTY.contains(&name)).then_some(names)
}

fn network(view: &View<'_>, path: &[&str]) -> Option<Synthetic> {
    let all = interfaces(view.config.addresses);
    let [name, rest @ ..] = path else {
        return Some(Synthetic::Directory(all.iter().map(|interface| (interface.name, DIR)).collect()));
    };
    let interface = all.iter().find(|interface| interface.name == *name)?;
    match rest {
        [] => {
            let kind = |name: &str| if name == "statistics" { DIR } else { FILE };
            Some(Synthetic::Directory(INTERFACE_FILES.map(|name| (name, kind(name))).to_vec()))
        }
        ["statistics"] => Some(Synthetic::Directory(STATISTICS.map(|name| (name, FILE)).to_vec())),
        ["statistics", name] if STATISTICS.contains(name) => {
            let value = statistic(view.net.counted(interface.index), name);
            Some(Synthetic::File(format!("{value}\n").into_bytes()))
        }
        [file] => Some(Synthetic::File(format!("{}\n", interface_file(interface, file)?).into_bytes())),
        _ => None,
    }
}

fn interface_file(interface: &Interface, file: &str) -> Option<String> {
    let state = if interface.broadcast.is_some() { "up" } else { "unknown" };
    let mac = |bytes: [u8; 6]| bytes.map(|byte| format!("{byte:02x}")).join(":");
    Some(match file {
        "addr_len" => "6".to_owned(),
        "address" => mac(interface.mac),
        "broadcast" => mac(interface.mac_broadcast),
        "carrier" => "1".to_owned(),
        "dev_id" => "0x0".to_owned(),
        "flags" => format!("{:#x}", interface.flags & 0xffff),
        "ifindex" | "iflink" => interface.index.to_string(),
        "mtu" => interface.mtu.to_string(),
        "operstate" => state.to_owned(),
        "speed" => "10000".to_owned(),
        "tx_queue_len" => interface.queue_len.to_string(),
        "type" => interface.hardware.to_string(),
        "uevent" => format!("INTERFACE={}\nIFINDEX={}", interface.name, interface.index),
        _ => return None,
    })
}

fn memory_of_node() -> String {
    let (total, free) = (system::TOTAL_MEMORY / 1024, system::FREE_MEMORY / 1024);
    let used = total - free;
    format!(
        "Node 0 MemTotal:       {total:>8} kB\nNode 0 MemFree:        {free:>8} kB\nNode 0 MemUsed:        {used:>8} kB\n\
         Node 0 HugePages_Total:     0\nNode 0 HugePages_Free:      0\nNode 0 HugePages_Surp:      0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_follow_from_their_files() {
        let names = |name: &str| -> Vec<&str> { directory(name).unwrap().into_iter().map(|(name, _)| name).collect() };
        assert!(names("").contains(&"devices") && names("").contains(&"class"));
        assert_eq!(names("devices/system"), ["cpu", "node"]);
        assert!(names("class").contains(&"net"));
        assert_eq!(directory("class/tty"), Some(Vec::new()));
        assert_eq!(directory("devices/none"), None);
    }

    #[test]
    fn each_processor_has_a_folder_like_the_first_one_s() {
        let four = ProcessorCount::new(4).unwrap();
        let found = |name: &'static str| processor_folder(name, four);
        assert_eq!(found("devices/system/cpu/cpu3/topology/core_id"), Some((Processor(3), "/topology/core_id")));
        assert_eq!(found("devices/system/cpu/cpu1"), Some((Processor(1), "")));
        for name in ["devices/system/cpu/cpu4", "devices/system/cpu/cpu01", "devices/system/cpu/online", "devices"] {
            assert_eq!(found(name), None, "{name}");
        }
        let texts = [Number, OwnList, OwnMask, AllList, AllMask].map(|text| content(&text, Processor(3), four));
        assert_eq!(texts, ["3", "3", "8", "0-3", "f"]);
    }
}
