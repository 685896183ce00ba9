//! The machine that is measured: processors, memory, limits.

use serde_json::{Value, json};
use std::fs;

pub const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";

/// A field of a file in the form `name: value`, as in `/proc/meminfo` and `/proc/cpuinfo`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// A field that is a number of kB.
fn kilobytes(path: &str, name: &str) -> u64 {
    field(path, name).and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Memory that new programs could use, in KB.
pub fn available_kb() -> u64 {
    kilobytes("/proc/meminfo", "MemAvailable")
}

/// Memory of programs and of the kernel's books on them, in KB, shared pages counted once. MemAvailable would not do: it does not
/// count pages that processors keep for themselves after a program has ended, which here are hundreds of MB.
pub fn used_kb() -> u64 {
    let parts = ["AnonPages:", "Shmem:", "PageTables:", "KernelStack:", "Slab:"];
    parts.iter().map(|name| kilobytes("/proc/meminfo", name)).sum()
}

/// A number of kB in this process's `/proc/self/status`.
pub fn own_kb(name: &str) -> u64 {
    kilobytes("/proc/self/status", name)
}

/// How many mappings this process has.
pub fn own_mappings() -> usize {
    fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count())
}

pub fn max_map_count() -> u64 {
    fs::read_to_string(MAX_MAP_COUNT).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn describe() -> Value {
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    json!({
        "cpu": field("/proc/cpuinfo", "model name"),
        "processors": processors(),
        "memory_kb": kilobytes("/proc/meminfo", "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease"),
        "load": read("/proc/loadavg"),
        "max_map_count": max_map_count(),
    })
}

pub fn headline(description: &Value) -> String {
    format!(
        "{} processors ({}), {} MB, Linux {}, load {}, vm.max_map_count {}",
        description["processors"],
        description["cpu"].as_str().unwrap_or("?"),
        description["memory_kb"].as_u64().unwrap_or(0) / 1024,
        description["kernel"].as_str().unwrap_or("?"),
        description["load"].as_str().unwrap_or("?"),
        description["max_map_count"],
    )
}
