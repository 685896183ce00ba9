//! The file tree: making, linking, moving and removing names, and what is known of them.

use crate::writer::{Kind, Writer};

/// A path as an argument; few names, so that they meet.
pub fn path(w: &mut Writer) -> String {
    match w.below(40) {
        0 => w.or_bad("\"\"".to_owned()),
        1 => format!("\"{}\"", "n".repeat(w.pick(&[255, 256]))),
        2 => w.pick(&["!b", "0", "\"/nowhere/x\""]).to_owned(),
        3 => w.pick(&["\"a/\"", "\"d/\"", "\"./a\"", "\"d//a\"", "\"l/\"", "\"d/.\"", "\"d/..\""]).to_owned(),
        _ => format!("\"{}\"", w.word("a a a b b c d d e d/a d/a d/b d/e e/a l m l/a d/../a . .. d/e/a q")),
    }
}

/// A folder to start from: mostly the current one.
fn folder(w: &mut Writer) -> String {
    if w.chance(75) { "-100".to_owned() } else { w.fd(&[Kind::Folder, Kind::Place]) }
}

const AT_FLAGS: &[u64] = &[0x100, 0x1000, 0x400, 0x200, 0x800];

pub fn write(w: &mut Writer) {
    let (at, one) = (folder(w), path(w));
    match w.below(28) {
        0..=2 => {
            let mode = w.mode();
            w.line(&format!("mkdirat {at} {one} {mode}"));
        }
        3..=4 => {
            let flags = w.pick(&[0, 0, 0x200, 0x200, 0x100]);
            w.line(&format!("unlinkat {at} {one} {flags}"));
        }
        5..=7 => rename(w, &at, &one),
        8..=9 => {
            let (to, other, flags) = (folder(w), path(w), w.pick(&[0, 0, 0x400, 0x1000, 0x1400, 0x100]));
            w.line(&format!("linkat {at} {one} {to} {other} {flags:#x}"));
        }
        10..=11 => {
            let target = w.pick(&[
                "\"a\"",
                "\"d\"",
                "\"l\"",
                "\"m\"",
                "\"nowhere\"",
                "\"..\"",
                "\"d/a\"",
                "\"\"",
                "\"/dev/null\"",
            ]);
            let name = w.pick(&["\"l\"", "\"m\"", "\"d/l\"", "\"a\""]);
            w.line(&format!("symlinkat {target} {at} {name}"));
        }
        12 => {
            let size = w.pick(&[0, 1, 4, 40]);
            w.line(&format!("readlinkat {at} {one} &{size}:x {size}"));
        }
        13..=14 => {
            let flags = w.pick(&[0u64, 0x100, 0x1000, 0x1100, 0x800, 0x2000, 0x200]);
            w.line(&format!("newfstatat {at} {one} &144:t {flags:#x}"));
        }
        15 => {
            let flags = w.pick(&[0u64, 0x100, 0x1000, 0x4000]);
            w.line(&format!("statx {at} {one} {flags:#x} 0x7ff &256:y"));
        }
        16 => {
            let (mode, flags) = (w.below(9), w.flags(AT_FLAGS));
            w.line(&format!("faccessat2 {at} {one} {mode} {flags:#x}"));
        }
        17 => {
            let (mode, flags) = (w.mode(), w.pick(&[0, 0, 0x100, 0x1000]));
            let call = if flags == 0 { "fchmodat" } else { "fchmodat2" };
            w.line(&format!("{call} {at} {one} {mode} {flags:#x}"));
        }
        18 => {
            let (user, group) = (w.word("0 1 1000 -1"), w.word("0 1 1000 -1"));
            let (user, group) = if w.root { (user, group) } else { ("0", "-1") };
            let flags = w.pick(&[0, 0, 0x100, 0x1000]);
            w.line(&format!("fchownat {at} {one} {user} {group} {flags:#x}"));
        }
        19 => {
            let times = w.pick(&[
                "{q1000 q5 q2000 q6}",
                "{q1000 q0x3ffffffe q7 q8}",
                "{q1 q0x3fffffff q2 q0}",
                "{q1 q1000000000 q1 q0}",
            ]);
            let flags = w.pick(&[0, 0, 0x100, 0x1000]);
            w.line(&format!("utimensat {at} {one} {times} {flags:#x}"));
            w.line(&format!("newfstatat {at} {one} &144:.72T 0x100"));
        }
        20 => {
            let call = w.word("chdir rmdir unlink chroot truncate");
            let call = if call == "chroot" && !w.chance(10) { "chdir" } else { call };
            let length = w.below(40);
            w.line(&format!("{call} {one} {length}"));
            w.line("getcwd:z &4096:c 4096");
        }
        21 => {
            let kind = w.pick(&["0100644", "010644", "0140644", "0644", "040755", "0120777"]);
            w.line(&format!("mknodat {at} {one} {kind} 0"));
        }
        22 => open_how(w, &at, &one),
        23..=24 => attributes(w, &one),
        25 => {
            let kind = w.pick(&[
                ("0x10000", Kind::Folder),
                ("0x200000", Kind::Place),
                ("0x210000", Kind::Place),
                ("0x220000", Kind::Place),
            ]);
            w.making(kind.1, &format!("openat {at} {one} {} 0", kind.0));
        }
        26 => list(w),
        _ => {
            let mask = w.pick(&["022", "0", "077", "0777"]);
            w.line(&format!("umask {mask}"));
        }
    }
}

fn rename(w: &mut Writer, at: &str, one: &str) {
    let (to, other) = (folder(w), path(w));
    if w.chance(50) {
        w.line(&format!("renameat {at} {one} {to} {other}"));
    } else {
        let flags = w.pick(&[0, 1, 2, 3, 8]);
        w.line(&format!("renameat2 {at} {one} {to} {other} {flags}"));
    }
}

fn list(w: &mut Writer) {
    let fd = w.making(Kind::Folder, "openat -100 \".\" 0x10000 0");
    w.line(&format!("getdents64 {fd} &4096:D 4096"));
}

fn open_how(w: &mut Writer, at: &str, one: &str) {
    let flags = w.pick(&[0u64, 0x42, 0x10000, 0x200000, 0x42, 0xc2, 0x800000000]);
    let mode = if flags & 0x40 != 0 { "0600" } else { w.pick(&["0", "0", "0600"]) };
    let resolve = w.flags(&[1, 2, 4, 8, 16]);
    let size = w.pick(&[24, 24, 24, 24, 23, 32, 0]);
    w.making(Kind::File, &format!("openat2 {at} {one} {{q{flags:#x} q{mode} q{resolve} z8}} {size}"));
}

fn attributes(w: &mut Writer, one: &str) {
    let prefix = w.pick(&["", "l"]);
    let name = w.word("user.a user.b trusted.a security.x system.y bad user.");
    let size = w.pick(&[0, 1, 4, 64]);
    match w.below(4) {
        0..=1 => {
            let flags = w.pick(&[0, 0, 1, 2, 3]);
            w.line(&format!("{prefix}setxattr {one} \"{name}\" \"value\" {size} {flags}"));
        }
        2 => {
            w.line(&format!("{prefix}getxattr {one} \"{name}\" &{size}:x {size}"));
            w.line(&format!("{prefix}listxattr {one} &256:N 256"));
        }
        _ => {
            w.line(&format!("{prefix}removexattr {one} \"{name}\""));
        }
    }
}
