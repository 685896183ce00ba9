//! Who is at the other end of a Unix socket: credentials that travel with messages, and those of peers.

use super::unix::pair;
use crate::writer::{Kind, Writer};

const OWN: &[Kind] = &[Kind::UnixStream, Kind::UnixDatagram, Kind::UnixPacket];

pub fn write(w: &mut Writer) {
    if w.count(OWN) < 2 || w.chance(8) {
        if w.chance(50) {
            pair(w)
        } else {
            connection(w)
        }
        return;
    }
    let fd = w.fd(OWN);
    match w.below(20) {
        0..=3 => option(w, &fd),
        4..=8 => claim(w, &fd),
        9..=10 => {
            let (data, length) = w.data();
            w.line(&format!("write {fd} {data} {length}"));
        }
        11..=15 => receive(w, &fd),
        16..=18 if w.root => become_another(w),
        _ => super::unix::write(w),
    }
}

/// A listener, who connects, and what it was accepted as; who they are may change on the way, and what they want to know.
fn connection(w: &mut Writer) {
    let (kind, number) = w.pick(&[(Kind::UnixStream, 1), (Kind::UnixStream, 1), (Kind::UnixPacket, 5)]);
    let number = number | 0x800;
    let server = w.below(w.actors.len() + 1);
    let name = w.pick(&["{w1 b0 s\"x\"} 4", "{w1 b0 s\"y\"} 4"]);
    let listener = format!("${}", w.line_of(server, &format!("socket 1 {number:#x} 0")));
    let change = |w: &mut Writer| {
        if w.root && w.chance(25) {
            become_another(w);
        }
    };
    change(w);
    w.line_of(server, &format!("bind {listener} {name}"));
    if w.chance(40) {
        w.line_of(server, &format!("setsockopt {listener} 1 16 {{d1}} 4"));
    }
    change(w);
    w.line_of(server, &format!("listen {listener} 3"));
    let client = format!("${}", w.line(&format!("socket 1 {number:#x} 0")));
    change(w);
    w.line(&format!("connect {client} {name}"));
    if w.chance(30) {
        w.line(&format!("write {client} {{f1*3}} 3"));
    }
    change(w);
    let accepted = format!("${}", w.line(&format!("accept4 {listener} 0 0 0x800")));
    for fd in [&listener, &client, &accepted] {
        w.line(&format!("getsockopt {fd} 1 17 &12:pdd &{{d12}}:d"));
    }
    for fd in [listener, client, accepted] {
        w.made(fd, kind);
    }
}

/// SO_PASSCRED, SO_PEERCRED, SO_PEERGROUPS, SO_PASSPIDFD, SO_PEERPIDFD.
fn option(w: &mut Writer, fd: &str) {
    match w.below(8) {
        0..=3 => {
            let (name, value) = (w.pick(&[16, 16, 16, 76]), w.pick(&[1, 1, 0, 7]));
            w.line(&format!("setsockopt {fd} 1 {name} {{d{value}}} 4"));
        }
        4 => {
            let name = w.pick(&[16, 76]);
            w.line(&format!("getsockopt {fd} 1 {name} &4:d &{{d4}}:d"));
        }
        5..=6 => {
            let size = w.pick(&[12, 12, 12, 16, 4, 0]);
            w.line(&format!("getsockopt {fd} 1 17 &16:pdd &{{d{size}}}:d"));
        }
        _ => {
            let size = w.pick(&[32, 8, 4, 0]);
            w.line(&format!("getsockopt {fd} 1 59 &32:x &{{d{size}}}:!d"));
        }
    }
}

/// A message whose sender says who it is: as it is, or as another.
fn claim(w: &mut Writer, fd: &str) {
    let (vectors, count) = w.vectors(false);
    let who = match w.below(8) {
        0..=4 => w.pid(),
        5 => w.thread(),
        _ => w.word("0 -1 99999999").to_owned(),
    };
    let (user, group) = (w.word("0 0 0 1000 1001 -1"), w.word("0 0 0 1000 5 -1"));
    let one = format!("q28 d1 d2 d{who} d{user} d{group}");
    let (control, length) = match w.below(12) {
        0 => (format!("p{{{one}}}"), 28),
        1 => (format!("p{{q27 d1 d2 d{who} d{user} z4}}"), 32),
        2 => (format!("p{{q32 d1 d2 d{who} d{user} d{group} d0}}"), 32),
        3 => (format!("p{{{one} d0 q20 d1 d1 d{fd} d0}}"), 56),
        4 => (format!("p{{q20 d1 d1 d{fd} d0 {one} d0}}"), 56),
        5 => (format!("p{{{one} d0 {one} d0}}"), 64),
        6 => ("p{q20 d1 d4 d0 d0}".to_owned(), 24),
        _ => (format!("p{{{one} d0}}"), 32),
    };
    w.line(&format!("sendmsg {fd} {{q0 d0 d0 p{vectors} q{count} {control} q{length} d0 d0}} 0x4040"));
}

fn receive(w: &mut Writer, fd: &str) {
    let (length, control) = (w.pick(&[4, 10, 40, 40, 0]), w.pick(&[128, 128, 128, 32, 28, 24, 20, 16, 0]));
    let flags = w.pick(&["0x40", "0x40", "0x42", "0x40000040", "0x140", "0x60"]);
    w.line(&format!(
        "recvmsg {fd} &{{q0 d0 d0 p{{p&{length}:x q{length}}} q1 p&{control}:M q{control} d0 d0}}:.40qu {flags}"
    ));
}

/// Other users and groups, for good or for a while.
fn become_another(w: &mut Writer) {
    let (one, two) = (w.word("0 1000 1001 -1"), w.word("0 1000 -1"));
    match w.below(6) {
        0..=1 => w.line(&format!("setresuid {one} {two} 0")),
        2 => w.line(&format!("setresuid -1 {one} -1")),
        3 => w.line(&format!("setresgid {one} {two} 0")),
        4 => {
            let count = w.below(4);
            w.line(&format!("setgroups {count} {{d7 d5 d1000}}"))
        }
        _ => w.line("setresuid 1000 1000 1000"),
    };
}
