//! Regular files through descriptors.

use super::names::path;
use crate::writer::{Kind, Writer};

const O_FLAGS: &[u64] = &[0x40, 0x80, 0x200, 0x400, 0x800, 0x10000, 0x20000, 0x40000, 0x80000, 0x101000];
/// Whence of lseek, with two that are none.
const WHENCE: &str = "0 0 0 1 1 2 2 3 4 5 -1";

pub fn open(w: &mut Writer) -> String {
    let kind = match w.below(20) {
        0 => return open_other(w),
        1 => {
            let flags = w.pick(&[0x410002u64, 0x410001, 0x410082, 0x410000]);
            return w.making(Kind::File, &format!("openat -100 \".\" {flags:#x} 0600"));
        }
        2 => {
            let flags = w.below(4);
            return w.making(Kind::File, &format!("memfd_create \"m\" {flags}"));
        }
        _ => Kind::File,
    };
    if w.chance(60) {
        let name = w.word("a b c");
        let flags = 0x42 | w.pick(&[0u64, 0, 0x200, 0x400, 0x80000]);
        return w.making(kind, &format!("openat -100 \"{name}\" {flags:#x} 0644"));
    }
    let access = w.pick(&[0u64, 1, 2, 2, 2, 2, 3]);
    let flags = access | w.flags(O_FLAGS) | if w.chance(70) { 0x40 } else { 0 };
    let (path, mode) = (path(w), w.mode());
    w.making(kind, &format!("openat -100 {path} {flags:#x} {mode}"))
}

fn open_other(w: &mut Writer) -> String {
    let path = path(w);
    match w.below(3) {
        0 => w.making(Kind::Place, &format!("openat -100 {path} 0x200000 0")),
        1 => w.making(Kind::Folder, &format!("openat -100 {path} 0x10000 0")),
        _ => {
            let mode = w.mode();
            w.making(Kind::File, &format!("creat {path} {mode}"))
        }
    }
}

fn offset(w: &mut Writer) -> i64 {
    match w.below(8) {
        0 => w.number(),
        1 => w.pick(&[4095, 4096, 4097, 65_536, 8192]),
        _ => w.below(40) as i64,
    }
}

pub fn write(w: &mut Writer) {
    if w.count(&[Kind::File]) == 0 || w.chance(12) {
        open(w);
        return;
    }
    let fd = w.fd(&[Kind::File]);
    match w.below(26) {
        0..=2 => {
            let (data, length) = w.good_data();
            w.line(&format!("write {fd} {data} {length}"));
        }
        3..=4 => {
            let length = w.length();
            let to = w.or_bad(format!("&{length}:x"));
            w.line(&format!("read {fd} {to} {length}"));
        }
        5 => {
            let (length, at) = (w.length(), offset(w));
            w.line(&format!("pread64 {fd} &{length}:x {length} {at}"));
        }
        6..=7 => {
            let ((data, length), at) = (w.good_data(), offset(w));
            w.line(&format!("pwrite64 {fd} {data} {length} {at}"));
        }
        8 => vectors(w, &fd),
        9..=11 => {
            let (at, whence) = (offset(w), w.word(WHENCE));
            w.line(&format!("lseek {fd} {at} {whence}"));
        }
        12 => {
            let at = offset(w);
            w.line(&format!("ftruncate {fd} {at}"));
        }
        13..=15 => fallocate(w, &fd),
        16..=17 => copy(w, &fd),
        18..=19 => {
            w.line(&format!("fstat {fd} &144:t"));
        }
        20 => {
            let call = w.word("fsync fdatasync syncfs");
            w.line(&format!("{call} {fd}"));
        }
        21 => {
            let (at, length, flags) = (offset(w), offset(w), w.below(9));
            let call = w.word("sync_file_range fadvise64 readahead");
            w.line(&format!("{call} {fd} {at} {length} {flags}"));
        }
        22 => locks(w, &fd),
        23 => {
            let request = w.pick(&["0x541b &4:d", "0x5421 &{d1}", "0x5401 &60", "0x5451 0", "0x1234 0", "2 &4:d"]);
            w.line(&format!("ioctl {fd} {request}"));
        }
        24 => {
            let seals = w.flags(&[1, 2, 4, 8, 16]);
            let (command, argument) = if w.chance(50) { (1033, seals) } else { (1034, 0) };
            w.line(&format!("fcntl {fd} {command} {argument}"));
        }
        _ => {
            w.closing(&fd);
        }
    }
}

fn vectors(w: &mut Writer, fd: &str) {
    let reading = w.chance(50);
    let (vectors, mut count) = w.vectors_of(reading, reading);
    if w.chance(4) {
        count = w.pick(&[1025, usize::MAX >> 1]);
    }
    let (name, at) = (if reading { "read" } else { "write" }, offset(w));
    match w.below(3) {
        0 => w.line(&format!("{name}v {fd} {vectors} {count}")),
        1 => w.line(&format!("p{name}v {fd} {vectors} {count} {at} 0")),
        _ => {
            let at = if w.chance(30) { -1 } else { at };
            let flags = if w.chance(50) { 0 } else { w.flags(&[2, 4, 16, 1 << 20]) };
            w.line(&format!("p{name}v2 {fd} {vectors} {count} {at} 0 {flags}"))
        }
    };
}

fn fallocate(w: &mut Writer, fd: &str) {
    let mode = w.pick(&[0, 0, 0, 1, 1, 3, 3, 3, 2, 0x10, 0x11, 0x100]);
    let (at, length) = (offset(w), offset(w));
    w.line(&format!("fallocate {fd} {mode} {at} {length}"));
}

fn copy(w: &mut Writer, fd: &str) {
    let mut other = w.fd(&[Kind::File, Kind::PipeWriter]);
    if other == fd {
        other = "-1".to_owned();
    }
    let length = w.length();
    let (from, to) = (offset(w), offset(w));
    let from = if w.chance(50) { "0".to_owned() } else { format!("&{{q{from}}}:!q") };
    let to = if w.chance(50) { "0".to_owned() } else { format!("&{{q{to}}}:!q") };
    if w.chance(50) {
        w.line(&format!("copy_file_range {fd} {from} {other} {to} {length} 0"));
    } else {
        w.line(&format!("sendfile {other} {fd} {from} {length}"));
    }
}

/// flock, record locks of processes and of open files, leases.
fn locks(w: &mut Writer, fd: &str) {
    match w.below(4) {
        0 => {
            let kind = w.pick(&[1, 2, 5, 6, 8, 5, 6, 0, 3]);
            let kind = if w.may_wait { kind } else { kind | 4 };
            w.line(&format!("flock {fd} {kind}"));
        }
        1..=2 => {
            let get = w.chance(30);
            let own = w.chance(60);
            let command = match (get, own) {
                (true, true) => 5,
                (false, true) => 6 + i32::from(w.may_wait && w.chance(40)),
                (true, false) => 36,
                (false, false) => 37 + i32::from(w.may_wait && w.chance(40)),
            };
            let (kind, whence, start, length) = (w.below(4), w.below(4), offset(w), offset(w));
            let pid = if own || w.chance(80) { 0 } else { 1 };
            let lock = format!("{{w{kind} w{whence} d0 q{start} q{length} d{pid} d0}}");
            let shown = if get { format!("&{lock}:ww.4qqp") } else { lock };
            w.line(&format!("fcntl {fd} {command} {shown}"));
        }
        _ => {
            if w.chance(60) {
                let kind = w.below(4);
                w.line(&format!("fcntl {fd} 1024 {kind}"));
            } else {
                w.line(&format!("fcntl {fd} 1025"));
            }
        }
    }
}
