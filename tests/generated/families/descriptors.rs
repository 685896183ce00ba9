//! Descriptors whatever they are of: copies, flags, closing.

use crate::writer::{Kind, Writer};

pub fn write(w: &mut Writer) {
    if w.count(&[Kind::File, Kind::PipeReader, Kind::UnixStream]) == 0 {
        match w.below(3) {
            0 => super::files::write(w),
            1 => super::pipes::open(w),
            _ => super::unix::pair(w),
        }
        return;
    }
    let fd = w.any_fd();
    match w.below(16) {
        0..=1 => {
            w.making(Kind::File, &format!("dup {fd}"));
        }
        2 => {
            let to = w.pick(&["5", "20", "255", "256", "-1", "3"]);
            w.making(Kind::File, &format!("dup2 {fd} {to}"));
        }
        3 => {
            let (to, flags) = (w.pick(&["5", "20", "256", "-1", "3"]), w.pick(&["0", "0x80000", "0x800"]));
            w.making(Kind::File, &format!("dup3 {fd} {to} {flags}"));
        }
        4 => {
            let (command, least) = (w.pick(&[0, 1030]), w.pick(&["0", "10", "255", "256", "-1"]));
            w.making(Kind::File, &format!("fcntl {fd} {command} {least}"));
        }
        5..=6 => {
            let command = w.pick(&[1, 3]);
            w.line(&format!("fcntl {fd} {command}"));
        }
        7 => {
            let value = w.below(4);
            w.line(&format!("fcntl {fd} 2 {value}"));
        }
        8 => {
            let flags = w.flags(&[1, 0x400, 0x800, 0x2000, 0x40000, 0x80000]);
            w.line(&format!("fcntl {fd} 4 {flags:#x}"));
        }
        9..=10 => {
            w.closing(&fd);
        }
        11 => {
            let (first, last) = (3 + w.below(8), w.pick(&["5", "9", "0xffffffff", "2"]));
            let flags = w.pick(&[0, 0, 4, 2, 6, 1]);
            w.line(&format!("close_range {first} {last} {flags}"));
        }
        12 => {
            let request = w.pick(&[
                "0x5421 {d1}",
                "0x5421 {d0}",
                "0x5451 0",
                "0x5450 0",
                "0x5452 {d0}",
                "0x541b &4:d",
                "0x5411 &4:d",
            ]);
            w.line(&format!("ioctl {fd} {request}"));
        }
        13 => {
            w.line(&format!("fstat {fd} &144:t"));
        }
        14 => {
            let other = w.any_fd();
            let (one, two, kind) = (w.pid(), w.pid(), w.below(9));
            let kind = if kind == 7 { 0 } else { kind };
            // Which of two different things comes first is no promise; what nobody has used yet (5, 6) may be there or not.
            let order = if matches!(kind, 5 | 6) { ":z" } else { ":n" };
            w.line(&format!("kcmp{order} {one} {two} {kind} {fd} {other}"));
        }
        _ => {
            let (at, whence) = (w.below(9), w.below(4));
            w.line(&format!("lseek {fd} {at} {whence}"));
        }
    }
}
