//! inotify in all its ways, of files and folders that are open, have several names, move or lose their names.

use super::names::path;
use crate::writer::{Kind, Writer};

const OWN: &[Kind] = &[Kind::Inotify];

/// Some names in few folders, one of them a second name of a file, one a link.
fn begin(w: &mut Writer) {
    w.line("mkdirat -100 \"d\" 0755");
    w.making(Kind::File, "openat -100 \"d/a\" 0x42 0644");
    if w.chance(40) {
        w.line("linkat -100 \"d/a\" -100 \"b\" 0");
    }
    if w.chance(30) {
        w.line("symlinkat \"d\" -100 \"l\"");
    }
    if w.chance(40) {
        w.line("mkdirat -100 \"d/e\" 0755");
    }
    w.making(Kind::Inotify, "inotify_init1 0x800");
    for _ in 0..1 + w.below(3) {
        watch(w);
    }
}

/// What to watch for: IN_ONESHOT, IN_EXCL_UNLINK, IN_MASK_ADD, IN_MASK_CREATE, IN_ONLYDIR, IN_DONT_FOLLOW beside events.
fn watch(w: &mut Writer) {
    let (fd, path) = (w.fd(OWN), place(w));
    let events = w.pick(&[0xfff, 0xfff, 0xfff, 0xfc6, 0x2, 0x38, 0x400, 0xc00, 0x1, 0]);
    let how = w.flags(&[0x8000_0000, 0x400_0000, 0x2000_0000, 0x100_0000, 0x200_0000]);
    let how = how | if w.chance(8) { 0x1000_0000 } else { 0 };
    w.line(&format!("inotify_add_watch {fd} {path} {:#x}", events | how));
}

fn place(w: &mut Writer) -> String {
    if w.chance(15) { path(w) } else { format!("\"{}\"", w.word(". d d d/a d/a b d/e l e a")) }
}

fn read(w: &mut Writer) {
    let fd = w.fd(OWN);
    let size = w.pick(&[1024, 1024, 1024, 48, 32, 16, 15]);
    w.line(&format!("read {fd} &{size}:I {size}"));
}

pub fn write(w: &mut Writer) {
    if !w.has(OWN) {
        begin(w);
        return;
    }
    match w.below(24) {
        0..=3 => watch(w),
        4..=7 => read(w),
        8 => {
            let (fd, number) = (w.fd(OWN), w.below(5));
            w.line(&format!("inotify_rm_watch {fd} {number}"));
        }
        9 => {
            let fd = w.fd(OWN);
            w.line(&format!("ioctl {fd} 0x541b &4:d"));
        }
        10..=12 => unname(w),
        13..=15 => {
            let (one, two) = (place(w), place(w));
            let flags = w.pick(&[0, 0, 0, 1, 2]);
            w.line(&format!("renameat2 -100 {one} -100 {two} {flags}"));
        }
        16 => {
            let (one, two) = (place(w), place(w));
            w.line(&format!("linkat -100 {one} -100 {two} 0"));
        }
        17 => {
            let (name, kind) = (place(w), w.pick(&["0x42", "0x241", "0x10000", "0x0", "0x200000"]));
            let of = if kind == "0x10000" { Kind::Folder } else { Kind::File };
            w.making(of, &format!("openat -100 {name} {kind} 0644"));
        }
        18..=20 => by_descriptor(w),
        21 => {
            let fd = w.fd(&[Kind::File, Kind::File, Kind::Folder, Kind::Inotify]);
            w.closing(&fd);
        }
        22 => {
            let name = place(w);
            let change =
                w.pick(&["fchmodat -100 {} 0700", "truncate {} 7", "mkdirat -100 {} 0700", "mknodat -100 {} 010644 0"]);
            w.line(&change.replace("{}", &name));
        }
        _ => {
            w.making(Kind::Inotify, "inotify_init1 0x800");
            watch(w);
        }
    }
}

fn unname(w: &mut Writer) {
    let (name, flags) = (place(w), w.pick(&[0, 0, 0, 0x200]));
    w.line(&format!("unlinkat -100 {name} {flags:#x}"));
    if w.chance(40) {
        read(w);
    }
}

/// What is done by way of an open file or folder.
fn by_descriptor(w: &mut Writer) {
    let fd = w.fd(&[Kind::File, Kind::File, Kind::Folder]);
    let text = match w.below(10) {
        0..=1 => format!("write {fd} {{f1*3}} 3"),
        2 => format!("pread64 {fd} &4:x 4 0"),
        3 => format!("ftruncate {fd} {}", w.below(9)),
        4 => format!("fchmod {fd} 0{}00", w.below(8)),
        5 => format!("fallocate {fd} 0 0 20"),
        6 => format!("dup {fd}"),
        7 => format!("getdents64:z {fd} &1024 1024"),
        8 => format!("writev {fd} {{p{{f1*3}} q3 p{{f2*2}} q2}} 2"),
        _ => format!("utimensat {fd} 0 {{q1 q1 q2 q2}} 0"),
    };
    w.line(&text);
}
