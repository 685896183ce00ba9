//! `/proc/1`: the parent of the experiment's processes and of orphans, which is no guest. It shows what programs look for there: that
//! there is one, what it is called, and where it stands.

use super::synthetic::Synthetic;
use linux_abi::fs::{DT_DIR, DT_REG};

const DIR: u8 = DT_DIR as u8;
const FILE: u8 = DT_REG as u8;

const FILES: [(&str, &str); 10] = [
    ("cgroup", "0::/init.scope\n"),
    ("cmdline", "/sbin/init\0"),
    ("comm", "init\n"),
    ("environ", ""),
    ("oom_score", "0\n"),
    ("oom_score_adj", "0\n"),
    (
        "stat",
        "1 (init) S 0 1 1 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 1 0 0 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 \
         0 0 0 0 0 0 0 0 0 0 0\n",
    ),
    ("statm", "0 0 0 0 0 0 0\n"),
    (
        "status",
        "Name:\tinit\nUmask:\t0000\nState:\tS (sleeping)\nTgid:\t1\nNgid:\t0\nPid:\t1\nPPid:\t0\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n\
         Gid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t \nNStgid:\t1\nNSpid:\t1\nNSpgid:\t1\nNSsid:\t1\nThreads:\t1\n",
    ),
    ("wchan", "0"),
];

/// What lies at a path below `/proc/1`; it has one thread.
pub fn lookup(what: &[&str]) -> Option<Synthetic> {
    match what {
        [] => {
            let files = FILES.iter().map(|(name, _)| (*name, FILE));
            Some(Synthetic::Directory(files.chain([("task", DIR)]).collect()))
        }
        ["task"] => Some(Synthetic::Directory(vec![("1", DIR)])),
        ["task", "1"] => Some(Synthetic::Directory(FILES.iter().map(|(name, _)| (*name, FILE)).collect())),
        [name] | ["task", "1", name] => {
            let (_, text) = FILES.iter().find(|(known, _)| known == name)?;
            Some(Synthetic::File(text.as_bytes().to_vec()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_name_and_one_thread() {
        assert_eq!(lookup(&["comm"]), Some(Synthetic::File(b"init\n".to_vec())));
        assert_eq!(lookup(&["task", "1", "comm"]), lookup(&["comm"]));
        assert_eq!(lookup(&["task", "2"]), None);
        let Some(Synthetic::File(stat)) = lookup(&["stat"]) else { panic!("no stat") };
        assert_eq!(stat.split(|byte| *byte == b' ').count(), 52, "as many fields as proc_pid_stat(5) names");
    }
}
