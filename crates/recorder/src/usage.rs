//! What the run costs this machine, and the heartbeat lines that tell it. Tools parse these lines: their words are fixed.

use base::SimTime;
use serde::Serialize;
use std::fs;
use std::io;
use std::time::Duration;

/// What getrusage(2) reports of this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessUsage {
    pub max_rss_kib: u64,
    pub user: Duration,
    pub system: Duration,
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
}

impl ProcessUsage {
    /// The numbers of this process, from /proc: getrusage itself needs `unsafe`.
    pub fn of_this_process() -> io::Result<ProcessUsage> {
        let mut usage =
            ProcessUsage::from_proc(&fs::read_to_string("/proc/self/stat")?, &fs::read_to_string("/proc/self/status")?);
        // `status` counts the first thread's switches only.
        (usage.voluntary_switches, usage.involuntary_switches) = (0, 0);
        for task in fs::read_dir("/proc/self/task")? {
            // A thread may end while it is read.
            if let Ok(status) = fs::read_to_string(task?.path().join("status")) {
                usage.voluntary_switches += field(&status, "voluntary_ctxt_switches");
                usage.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches");
            }
        }
        Ok(usage)
    }

    /// From the texts of `/proc/PID/stat` and `/proc/PID/status`, proc(5).
    pub fn from_proc(stat: &str, status: &str) -> ProcessUsage {
        // The second field, in parentheses, may hold blanks; utime and stime are fields 14 and 15, in ticks of 10 ms.
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut ticks = after_name.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
        let mut time = || Duration::from_millis(10 * ticks.next().unwrap_or(0u64));
        ProcessUsage {
            user: time(),
            system: time(),
            max_rss_kib: field(status, "VmHWM"),
            voluntary_switches: field(status, "voluntary_ctxt_switches"),
            involuntary_switches: field(status, "nonvoluntary_ctxt_switches"),
        }
    }

    /// The heartbeat's first line, without the log's prefix.
    pub fn heartbeat(&self, now: SimTime) -> String {
        format!(
            "Process resource usage at simtime {} reported by getrusage(): ru_maxrss={:.03} GiB, ru_utime={:.03} minutes, \
             ru_stime={:.03} minutes, ru_nvcsw={}, ru_nivcsw={}",
            now.as_nanos(),
            self.max_rss_kib as f64 / 1_048_576.0,
            self.user.as_secs() as f64 / 60.0,
            self.system.as_secs() as f64 / 60.0,
            self.voluntary_switches,
            self.involuntary_switches,
        )
    }
}

/// Part of `/proc/meminfo`, in bytes; None for what the machine does not report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemInfo {
    pub mem_total: Option<u64>,
    pub mem_free: Option<u64>,
    /// Not in the heartbeat, whose members are fixed.
    #[serde(skip)]
    pub mem_available: Option<u64>,
    pub swap_total: Option<u64>,
    pub swap_free: Option<u64>,
    pub buffers: Option<u64>,
    pub cached: Option<u64>,
    pub s_reclaimable: Option<u64>,
    pub shmem: Option<u64>,
}

impl MemInfo {
    /// The machine's memory now.
    pub fn of_this_machine() -> io::Result<MemInfo> {
        Ok(MemInfo::parse(&fs::read_to_string("/proc/meminfo")?))
    }

    pub fn parse(text: &str) -> MemInfo {
        let bytes = |key| find(text, key).map(|kib| kib * 1024);
        MemInfo {
            mem_total: bytes("MemTotal"),
            mem_free: bytes("MemFree"),
            mem_available: bytes("MemAvailable"),
            swap_total: bytes("SwapTotal"),
            swap_free: bytes("SwapFree"),
            buffers: bytes("Buffers"),
            cached: bytes("Cached"),
            s_reclaimable: bytes("SReclaimable"),
            shmem: bytes("Shmem"),
        }
    }

    /// The heartbeat's second line, without the log's prefix.
    pub fn heartbeat(&self, now: SimTime) -> String {
        let json = serde_json::to_string(self).expect("numbers can be serialised");
        format!("System memory usage in bytes at simtime {} ns reported by /proc/meminfo: {json}", now.as_nanos())
    }
}

/// The resident memory of this process in bytes, for progress lines; 0 where /proc does not tell.
pub fn resident_bytes() -> u64 {
    fs::read_to_string("/proc/self/status").map_or(0, |status| field(&status, "VmRSS") * 1024)
}

/// The memory of this process in which each page counts once, however often it is mapped (Pss of proc(5)'s smaps_rollup): in bytes; 0
/// where /proc does not tell. It takes some 15 ms for each GiB.
pub fn proportional_bytes() -> u64 {
    fs::read_to_string("/proc/self/smaps_rollup").map_or(0, |rollup| field(&rollup, "Pss") * 1024)
}

/// How many descriptors this process may have open (RLIMIT_NOFILE's soft limit); None where /proc does not tell. Pools of
/// output files are sized by it.
pub fn open_file_limit() -> Option<u64> {
    parse_open_file_limit(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn parse_open_file_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        soft => soft.parse().ok(),
    }
}

/// The number behind `key:` at a line's start; 0 without one.
fn field(text: &str, key: &str) -> u64 {
    find(text, key).unwrap_or(0)
}

fn find(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (a (b) c) S 1 7 7 0 -1 4194560 9 0 0 0 12000 6150 0 0 20 0 1 0 5 1 1";
    const STATUS: &str = "Name:\ta\nVmHWM:\t 524288 kB\nVmRSS:\t 1 kB\nvoluntary_ctxt_switches:\t31\n\
                          nonvoluntary_ctxt_switches:\t7\n";

    #[test]
    fn the_first_line_has_the_words_that_tornettools_parses() {
        let usage = ProcessUsage::from_proc(STAT, STATUS);
        assert_eq!((usage.user, usage.system), (Duration::from_secs(120), Duration::from_millis(61_500)));
        assert_eq!(
            usage.heartbeat(SimTime::from_nanos(5_000_000_000)),
            "Process resource usage at simtime 5000000000 reported by getrusage(): ru_maxrss=0.500 GiB, \
             ru_utime=2.000 minutes, ru_stime=1.017 minutes, ru_nvcsw=31, ru_nivcsw=7"
        );
    }

    #[test]
    fn the_second_line_is_json_after_its_colon() {
        let info = MemInfo::parse("MemTotal:       1000 kB\nMemFree:   10 kB\nCached:  3 kB\nSwapCached: 9 kB\n");
        assert_eq!(
            info.heartbeat(SimTime::from_nanos(3)),
            "System memory usage in bytes at simtime 3 ns reported by /proc/meminfo: {\"mem_total\":1024000,\
             \"mem_free\":10240,\"swap_total\":null,\"swap_free\":null,\"buffers\":null,\"cached\":3072,\
             \"s_reclaimable\":null,\"shmem\":null}"
        );
    }

    #[test]
    fn this_machine_reports() {
        let usage = ProcessUsage::of_this_process().unwrap();
        assert!(usage.max_rss_kib > 100 && usage.voluntary_switches + usage.involuntary_switches > 0);
        assert!(MemInfo::of_this_machine().unwrap().mem_total.unwrap() > 1 << 20);
        assert!(resident_bytes() > 100 * 1024);
    }

    #[test]
    fn the_limit_of_descriptors_is_the_soft_one() {
        let limits =
            "Limit  Soft Limit  Hard Limit  Units\nMax processes  5 6 processes\nMax open files  1024  20000  files\n";
        assert_eq!(parse_open_file_limit(limits), Some(1024));
        assert_eq!(parse_open_file_limit("Max open files  unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(parse_open_file_limit(""), None);
        assert!(open_file_limit().unwrap() > 10);
    }

    /// Whitespace-separated field 0 is the real time, field 12 the simulated time.
    #[test]
    fn field_12_of_the_whole_line_is_the_simulated_time() {
        let message = ProcessUsage::default().heartbeat(SimTime::from_nanos(77));
        let line = format!("00:00:00.1 [1:main] 00:00:00.000000077 [INFO] [n/a] [run.rs:1] [gnomon::run] {message}");
        assert_eq!(line.split_whitespace().nth(12), Some("77"));
    }
}
