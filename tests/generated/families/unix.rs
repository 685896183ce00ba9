//! Unix sockets of all types, with descriptors and credentials that travel along.

use crate::writer::{Kind, Writer};

const KINDS: &[(Kind, u64)] = &[(Kind::UnixStream, 1), (Kind::UnixDatagram, 2), (Kind::UnixPacket, 5)];
const OWN: &[Kind] = &[Kind::UnixStream, Kind::UnixDatagram, Kind::UnixPacket];

fn kind(w: &mut Writer) -> (Kind, u64) {
    let (kind, number) = w.pick(KINDS);
    let wait = w.may_wait && w.chance(50);
    (kind, number | if wait { 0 } else { 0x800 } | w.flags(&[0x80000]))
}

pub fn pair(w: &mut Writer) {
    let (kind, number) = kind(w);
    let line = w.line(&format!("socketpair 1 {number:#x} 0 &8:dd"));
    w.made(format!("${line}.0"), kind);
    w.made(format!("${line}.4"), kind);
}

/// An address with its length.
fn address(w: &mut Writer) -> (&'static str, usize) {
    match w.below(12) {
        0..=5 => w.pick(&[("{w1 s\"u\" b0}", 4), ("{w1 s\"v\" b0}", 4), ("{w1 s\"u\" b0}", 3)]),
        6..=8 => w.pick(&[("{w1 b0 s\"x\"}", 4), ("{w1 b0 s\"y\"}", 4), ("{w1 b0 s\"x\" b0}", 5)]),
        9 => ("{w1}", 2),
        10 => w.pick(&[("{w1 s\"d/u\" b0}", 6), ("{w1 s\"a\" b0}", 4), ("{w0}", 2), ("{w2 z14}", 16)]),
        _ => w.pick(&[("{w1 f65*108}", 110), ("{w1 f65*109}", 111), ("{w1}", 1), ("!b", 4), ("0", 0)]),
    }
}

pub fn write(w: &mut Writer) {
    if w.count(OWN) < 2 || w.chance(6) {
        if w.chance(65) {
            pair(w);
        } else {
            let (kind, number) = kind(w);
            w.making(kind, &format!("socket 1 {number:#x} 0"));
        }
        return;
    }
    let fd = w.fd(OWN);
    match w.below(20) {
        0..=1 => {
            let (address, length) = address(w);
            w.line(&format!("bind {fd} {address} {length}"));
        }
        2 => {
            let backlog = w.pick(&[0, 1, 5, -1]);
            w.line(&format!("listen {fd} {backlog}"));
        }
        3..=4 => {
            let (address, length) = address(w);
            w.line(&format!("connect {fd} {address} {length}"));
        }
        5 => {
            let flags = w.pick(&["0x800", "0x800", "0", "0x80800"]);
            let wait = if w.may_wait { "" } else { "0x800" };
            let flags = if wait.is_empty() { flags } else { "0x800" };
            w.making(Kind::UnixStream, &format!("accept4 {fd} &110:S &{{d110}}:d {flags}"));
        }
        6..=8 => send(w, &fd),
        9..=11 => receive(w, &fd),
        12 => transfer(w, &fd),
        13 => super::inet::common_option(w, &fd),
        _ => common(w, &fd),
    }
}

/// What works on sockets of every family.
pub fn common(w: &mut Writer, fd: &str) {
    match w.below(12) {
        0..=1 => {
            let how = w.pick(&[0, 1, 2, 2, 3]);
            w.line(&format!("shutdown {fd} {how}"));
        }
        2 => {
            let call = w.word("getsockname getpeername");
            let length = w.pick(&[110, 110, 0, 4, -1]);
            w.line(&format!("{call} {fd} &110:S &{{d{length}}}:d"));
        }
        3 => {
            let request = w.pick(&["0x541b &4:d", "0x5411 &4:d", "0x8905 &4:d"]);
            w.line(&format!("ioctl {fd} {request}"));
        }
        4 => {
            let (data, length) = w.data();
            w.line(&format!("write {fd} {data} {length}"));
        }
        5 => {
            let length = w.length();
            w.line(&format!("read {fd} &{length}:x {length}"));
        }
        6 => {
            let (vectors, count) = w.vectors(false);
            w.line(&format!("writev {fd} {vectors} {count}"));
        }
        7 => {
            let (vectors, count) = w.vectors(true);
            w.line(&format!("readv {fd} {vectors} {count}"));
        }
        8..=9 => {
            let events = w.pick(&[1, 4, 5, 0x2005, 0]);
            w.line(&format!("poll &{{d{fd} w{events} w0}}:.6w 1 0"));
        }
        10 => {
            w.line(&format!("fstat {fd} &144:t"));
        }
        _ => {
            w.closing(fd);
        }
    }
}

/// Flags of sending: without signals mostly, without waiting mostly.
pub fn send_flags(w: &mut Writer) -> u64 {
    let wait = if w.may_wait && w.chance(40) { 0 } else { 0x40 };
    wait | if w.chance(85) { 0x4000 } else { 0 }
        | if w.chance(12) { w.pick(&[0x80, 4, 0x10, 0x8000, 0x10000]) } else { 0 }
}

pub fn receive_flags(w: &mut Writer) -> u64 {
    let wait = if w.may_wait && w.chance(40) { 0 } else { 0x40 };
    wait | if w.chance(40) { w.pick(&[2, 0x20, 0x100, 0x22, 0x40000000, 0x102]) } else { 0 }
}

fn send(w: &mut Writer, fd: &str) {
    let ((data, length), flags) = (w.data(), send_flags(w));
    if w.chance(60) {
        w.line(&format!("sendto {fd} {data} {length} {flags:#x} 0 0"));
    } else {
        let (address, size) = address(w);
        w.line(&format!("sendto {fd} {data} {length} {flags:#x} {address} {size}"));
    }
}

fn receive(w: &mut Writer, fd: &str) {
    let (length, flags) = (w.length(), receive_flags(w));
    if w.chance(50) {
        w.line(&format!("recvfrom {fd} &{length}:x {length} {flags:#x} 0 0"));
    } else {
        w.line(&format!("recvfrom {fd} &{length}:x {length} {flags:#x} &110:S &{{d110}}:d"));
    }
}

/// Messages with control data.
fn transfer(w: &mut Writer, fd: &str) {
    if w.chance(50) {
        let (vectors, count) = w.vectors(false);
        let (control, length) = match w.below(4) {
            0 => {
                let one = w.any_fd();
                (format!("{{q20 d1 d1 d{one} d0}}"), w.pick(&[24, 20]))
            }
            1 => {
                let (one, two) = (w.any_fd(), w.any_fd());
                (format!("{{q24 d1 d1 d{one} d{two}}}"), 24)
            }
            2 => ("{q28 d1 d2 d#0 d0 d0 d0}".to_owned(), 32),
            _ => {
                let odd = [("0", 0), ("{q3 d1 d1}", 16), ("{q100 d1 d1 d0}", 24), ("{q20 d1 d9 d0 d0}", 24)];
                let (control, length) = w.pick(&odd);
                (control.to_owned(), length)
            }
        };
        let flags = send_flags(w);
        w.line(&format!("sendmsg {fd} {{q0 d0 d0 p{vectors} q{count} p{control} q{length} d0 d0}} {flags:#x}"));
    } else {
        let (vectors, count) = w.vectors(true);
        let (size, flags) = (w.pick(&[64, 64, 24, 20, 16, 0]), receive_flags(w));
        w.line(&format!("recvmsg {fd} &{{q0 d0 d0 p{vectors} q{count} p&{size}:M q{size} d0 d0}}:.40qu {flags:#x}"));
    }
}
