//! Groups, and what they open: files of a group for those in it, folders that hand their group down, bits that go.

use crate::writer::{Kind, Writer};

const NAMES: &str = "a a b d d d/a d/b d/e";
/// Bits for the group, with and without others', and those that lend or hand down a group.
const MODES: &str = "0660 0640 0060 0604 0070 0750 02775 02770 02755 01770 0006 02664 06771";

pub fn write(w: &mut Writer) {
    if !w.root {
        super::files::write(w);
        return;
    }
    if w.lines.len() < 2 {
        begin(w);
        return;
    }
    match w.below(22) {
        0..=2 => {
            let count = w.pick(&[0, 1, 2, 3, 3]);
            let (one, two, three) = (w.word(IDS), w.word(IDS), w.word(IDS));
            w.line(&format!("setgroups {count} {{d{one} d{two} d{three}}}"));
        }
        3..=5 => {
            let (one, two, three) = (w.word(IDS), w.word(IDS), w.word(IDS));
            let call = w.word("setresgid setresgid setregid setgid setfsgid");
            let arguments = [one, two, three].map(str::to_owned).join(" ");
            w.line(&format!("{call} {arguments}"));
        }
        6..=8 => {
            let user = w.word("1000 1001 0");
            let call = w.pick(&["setresuid -1 {} -1", "setfsuid {}", "setresuid {} {} 0"]);
            w.line(&call.replace("{}", user));
        }
        9 => {
            w.line("getgroups 32 &128:*d");
            w.line("getresgid &4:d &4:d &4:d");
        }
        10..=12 => {
            let (name, mode, flags) = (w.word(NAMES), w.below(8), w.pick(&["0", "0x200", "0x200"]));
            w.line(&format!("faccessat2 -100 \"{name}\" {mode} {flags}"));
        }
        13..=14 => {
            let (name, flags) = (w.word(NAMES), w.pick(&["0", "1", "2", "0x42", "0x10000", "0x441"]));
            w.making(Kind::File, &format!("openat -100 \"{name}\" {flags} 02664"));
        }
        15..=16 => {
            let (name, group, user) = (w.word(NAMES), w.word(IDS), w.word("-1 -1 -1 0 1000"));
            w.line(&format!("fchownat -100 \"{name}\" {user} {group} 0"));
        }
        17 => {
            let (name, mode) = (w.word(NAMES), w.word(MODES));
            w.line(&format!("fchmodat -100 \"{name}\" {mode} 0"));
        }
        18 => {
            let (name, mode) = (w.word(NAMES), w.word(MODES));
            w.line(&format!("mkdirat -100 \"{name}\" {mode}"));
        }
        19 => {
            let (fd, change) = (
                w.fd(&[Kind::File]),
                w.pick(&["write {} {f1*3} 3", "ftruncate {} 3", "fchmod {} 02775", "fchown {} -1 5"]),
            );
            w.line(&change.replace("{}", &fd));
        }
        20 => {
            let (one, two) = (w.word(NAMES), w.word(NAMES));
            let call = w.pick(&["linkat -100 {} -100 {} 0", "renameat -100 {} -100 {}", "unlinkat -100 {} 0"]);
            w.line(&call.replacen("{}", &format!("\"{one}\""), 1).replacen("{}", &format!("\"{two}\""), 1));
        }
        _ => {
            let name = w.word(NAMES);
            w.line(&format!("newfstatat -100 \"{name}\" &144:t 0"));
        }
    }
}

const IDS: &str = "0 5 5 7 1000 1000 -1";

/// A file and a folder of some group, and who looks at them.
fn begin(w: &mut Writer) {
    let (mode, group) = (w.word(MODES), w.word("5 7 1000"));
    w.line("umask 0");
    w.making(Kind::File, &format!("openat -100 \"a\" 0x42 {mode}"));
    w.line(&format!("fchownat -100 \"a\" 0 {group} 0"));
    let (mode, group) = (w.word(MODES), w.word("5 7 1000"));
    w.line(&format!("mkdirat -100 \"d\" {mode}"));
    w.line(&format!("fchownat -100 \"d\" 0 {group} 0"));
    w.line(&format!("fchmodat -100 \"d\" {mode} 0"));
    w.line("openat -100 \"d/a\" 0x42 02660");
    w.line("setgroups 2 {d5 d7}");
    w.line("setresuid -1 1000 -1");
}
