//! What use leaves behind: access times, events of files whose names are gone, rights that are lent and go; and the files of `/proc`.

use super::names::path;
use crate::writer::{Kind, Writer};

pub fn write(w: &mut Writer) {
    match w.below(10) {
        0..=2 => access(w),
        3..=5 => watched(w),
        6..=7 => proc_file(w),
        8 if w.root => lent_rights(w),
        _ => match w.below(3) {
            0 => super::files::write(w),
            1 => super::names::write(w),
            _ => super::identity::write(w),
        },
    }
}

/// Old times, something that may read, and what the times are then: those of today show as such.
fn access(w: &mut Writer) {
    let name = w.word("a b d l");
    let times =
        w.pick(&["{q1000 q5 q2000 q6}", "{q3000 q5 q2000 q6}", "{q0 q0x3fffffff q1 q1}", "{q1 q1 q0 q0x3ffffffe}"]);
    match name {
        "d" => w.line("mkdirat -100 \"d\" 0755"),
        "l" => w.line("symlinkat \"a\" -100 \"l\""),
        _ => {
            let fd = w.making(Kind::File, &format!("openat -100 \"{name}\" 0x42 0644"));
            w.line(&format!("write {fd} {{f3*10}} 10"))
        }
    };
    w.line(&format!("utimensat -100 \"{name}\" {times} 0x100"));
    for _ in 0..1 + w.below(2) {
        reads(w, name);
    }
    w.line(&format!("newfstatat -100 \"{name}\" &144:.72T 0x100"));
}

fn reads(w: &mut Writer, name: &str) {
    let fd = w.fd(&[Kind::File, Kind::Folder]);
    match w.below(12) {
        0..=1 => {
            let length = w.pick(&[0, 1, 4]);
            w.line(&format!("pread64 {fd} &4:x {length} 0"));
        }
        2 => {
            w.line(&format!("pread64 {fd} &4:x 4 100"));
        }
        3 => {
            w.line(&format!("readlinkat -100 \"{name}\" &40:x 40"));
        }
        4 => {
            w.line(&format!("faccessat2 -100 \"{name}\" 0 0"));
        }
        5 => {
            let folder = w.making(Kind::Folder, &format!("openat -100 \"{name}\" 0x10000 0"));
            w.line(&format!("getdents64 {folder} &1024:D 1024"));
        }
        6 => {
            let other = w.making(Kind::File, &format!("openat -100 \"{name}\" 0x40000 0"));
            w.line(&format!("read {other} &4:x 4"));
        }
        7 => {
            let flags = w.pick(&[1, 2]);
            w.line(&format!("mmap:z 0 4096 1 {flags} {fd} 0"));
        }
        8 => {
            let mode = w.mode();
            w.line(&format!("fchmodat -100 \"{name}\" {mode} 0"));
        }
        9 => {
            w.line(&format!("write {fd} {{f5*3}} 3"));
        }
        10 => {
            w.line(&format!("readahead {fd} 0 10"));
        }
        _ => {
            let (read, write) = (w.line("pipe2 &8:dd 0"), w.below(5));
            w.line(&format!("sendfile ${read}.4 {fd} &{{q0}}:!q {write}"));
        }
    }
}

/// A file or folder that is watched, open, and loses its name.
fn watched(w: &mut Writer) {
    let watcher = w.making(Kind::Inotify, "inotify_init1 0x800");
    let mask = w.pick(&["0xfff", "0x4000fff", "0x4000fff", "0x4000002"]);
    let is_folder = w.below(4) == 0;
    let fd = match is_folder {
        true => {
            w.line("mkdirat -100 \"e\" 0755");
            w.making(Kind::Folder, "openat -100 \"e\" 0x10000 0")
        }
        false => w.making(Kind::File, "openat -100 \"e\" 0x42 0644"),
    };
    w.line(&format!("inotify_add_watch {watcher} \".\" {mask}"));
    let own = w.pick(&["0xfff", "0x4000fff"]);
    w.line(&format!("inotify_add_watch {watcher} \"e\" {own}"));
    let steps = 2 + w.below(5);
    for step in 0..steps {
        let text = match w.below(12) {
            0..=1 => "unlinkat -100 \"e\" 0".to_owned(),
            2 => "unlinkat -100 \"e\" 0x200".to_owned(),
            3 => format!("write {fd} {{f1*3}} 3"),
            4 => format!("read {fd} &4:x 4"),
            5 => format!("ftruncate {fd} {step}"),
            // A folder that is removed has no attributes of users here.
            8 if is_folder => format!("fstat {fd} &144:t"),
            6 => format!("fchmod {fd} 0{}00", step % 8),
            7 => format!("fallocate {fd} 0 0 20"),
            8 => format!("fsetxattr {fd} \"user.a\" \"v\" 1 0"),
            9 => format!("utimensat {fd} 0 {{q1 q1 q2 q{step}}} 0"),
            10 => "renameat -100 \"e\" -100 \"q\"".to_owned(),
            _ => "openat -100 \"e\" 0x42 0644".to_owned(),
        };
        w.line(&text);
    }
    if w.chance(70) {
        w.line(&format!("close {fd}"));
    }
    w.line(&format!("read {watcher} &512:I 512"));
}

const NAMES: &str = "auxv comm coredump_filter cwd environ exe fd fd/0 fdinfo fdinfo/0 io limits maps mem mountinfo ns/net numa_maps \
     oom_score oom_score_adj pagemap root smaps smaps_rollup stat statm status task timerslack_ns uid_map wchan";
const OF_THE_SYSTEM: &str = "/proc/cpuinfo /proc/stat /proc/meminfo /proc/uptime /proc/filesystems /proc/sys/kernel/ostype \
     /proc/sys/net/ipv4/tcp_sack /proc/sys/kernel/random/uuid /proc/version /proc /dev/null /dev/zero";

/// What one actor can do with a file of `/proc`, whatever it holds. Nobody else reads it, by the same number or later: what it holds differs.
fn proc_file(w: &mut Writer) {
    let actor = w.below(w.actors.len() + 1);
    let name = match w.chance(70) {
        true => format!("/proc/self/{}", w.word(NAMES)),
        false => w.word(OF_THE_SYSTEM).to_owned(),
    };
    let access = w.pick(&["0", "0", "0", "1", "2", "0x10000", "0x20000", "0x4000", "0x200000"]);
    // Whether a program's own file can be read past the cache is a matter of the disk.
    let access = if name.ends_with("/exe") && access == "0x4000" { "0" } else { access };
    let fd = format!("${}", w.line_of(actor, &format!("openat -100 \"{name}\" {access} 0")));
    for _ in 0..1 + w.below(3) {
        match w.below(6) {
            0 => w.line_of(actor, &format!("read:n {fd} &64 64")),
            1 => {
                let at = w.pick(&[0, 0, 5, 100_000]);
                w.line_of(actor, &format!("pread64:n {fd} &64 64 {at}"))
            }
            2 => {
                let (at, whence) = (w.pick(&[0, 3, -1]), w.word("0 1 2 3 4"));
                w.line_of(actor, &format!("lseek:n {fd} {at} {whence}"))
            }
            3 => {
                let access = w.below(8);
                w.line_of(actor, &format!("faccessat2 -100 \"{name}\" {access} 0"))
            }
            4 => {
                let flags = w.pick(&[0, 0x100]);
                w.line_of(actor, &format!("newfstatat:n -100 \"{name}\" &144 {flags}"))
            }
            _ => w.line_of(actor, &format!("readlinkat:n -100 \"{name}\" &64 64")),
        };
    }
    w.line_of(actor, &format!("close {fd}"));
}

/// Bits and capabilities that a file lends to who executes it, and what becomes of them when it is written or given away.
fn lent_rights(w: &mut Writer) {
    let fd = w.making(Kind::File, "openat -100 \"s\" 0x42 0755");
    let mode = w.pick(&["06755", "04711", "02755", "02644"]);
    w.line(&format!("fchmod {fd} {mode}"));
    let value =
        w.pick(&["{d0x02000001 d0x400 z12} 20", "{d0x02000000 d0x400 z12} 20", "{d0x03000000 z20} 24", "{d7 z16} 20"]);
    w.line(&format!("fsetxattr {fd} \"security.capability\" {value} 0"));
    if w.chance(40) {
        let user = w.word("1000 1 65534");
        w.line(&format!("setresuid -1 {user} -1"));
    }
    let change = match w.below(6) {
        0..=1 => format!("write {fd} {{f1*3}} 3"),
        2 => format!("ftruncate {fd} 5"),
        3 => "fchownat -100 \"s\" 1 1 0".to_owned(),
        4 => "truncate \"s\" 2".to_owned(),
        _ => "openat -100 \"s\" 0x201 0".to_owned(),
    };
    w.line(&change);
    w.line("newfstatat -100 \"s\" &144:t 0");
    w.line("getxattr:n \"s\" \"security.capability\" &64 64");
    let other = path(w);
    w.line(&format!("faccessat2 -100 {other} 4 0x200"));
}
