//! TCP and UDP over loopback, IPv4 and IPv6.

use super::unix::{common, receive_flags, send_flags};
use crate::writer::{Kind, Writer};

const STREAMS: &[Kind] = &[Kind::Tcp, Kind::Tcp6];
const DATAGRAMS: &[Kind] = &[Kind::Udp, Kind::Udp6];
const ALL: &[Kind] = &[Kind::Tcp, Kind::Tcp6, Kind::Udp, Kind::Udp6];

/// One of a few ports that this program has for itself.
fn port(w: &mut Writer) -> u16 {
    let which = w.below(3) as u64;
    (1024 + (w.number * 3 + which) % 29_000) as u16
}

/// An address of the family of `kind`, with its length.
fn address(w: &mut Writer, kind: Kind) -> (String, usize) {
    let six = matches!(kind, Kind::Tcp6 | Kind::Udp6) != w.chance(3);
    let port = port(w).swap_bytes();
    let port = if w.chance(6) { 0 } else { port };
    if six {
        let host = match w.below(10) {
            0..=6 => "z15 b1",
            7 => "z16",
            8 => "z10 w0xffff b127 b0 b0 b1",
            _ => "z15 b2",
        };
        (format!("{{w10 w{port} d0 {host} d0}}"), w.pick(&[28, 28, 28, 28, 24, 16]))
    } else {
        let host = w.pick(&[
            "b127 b0 b0 b1",
            "b127 b0 b0 b1",
            "b127 b0 b0 b1",
            "b127 b0 b0 b1",
            "b0 b0 b0 b0",
            "b127 b9 b9 b9",
        ]);
        let family = if w.chance(3) { 0 } else { 2 };
        (format!("{{w{family} w{port} {host} z8}}"), w.pick(&[16, 16, 16, 16, 16, 15, 32]))
    }
}

fn kind(w: &mut Writer) -> Kind {
    let six = w.chance(25);
    let stream = w.chance(60);
    match (stream, six) {
        (true, false) => Kind::Tcp,
        (true, true) => Kind::Tcp6,
        (false, false) => Kind::Udp,
        (false, true) => Kind::Udp6,
    }
}

fn socket(w: &mut Writer, kind: Kind, wait: bool) -> String {
    let family = if matches!(kind, Kind::Tcp6 | Kind::Udp6) { 10 } else { 2 };
    let number = if STREAMS.contains(&kind) { 1 } else { 2 } | if wait { 0 } else { 0x800 };
    w.making(kind, &format!("socket {family} {number:#x} 0"))
}

/// A connection: a listener, a client and what it was accepted as.
fn connection(w: &mut Writer) {
    let kind = if w.chance(75) { Kind::Tcp } else { Kind::Tcp6 };
    let local = if kind == Kind::Tcp { "b127 b0 b0 b1 z8" } else { "d0 z15 b1 d0" };
    let (family, length, port) =
        (if kind == Kind::Tcp { 2 } else { 10 }, if kind == Kind::Tcp { 16 } else { 28 }, port(w).swap_bytes());
    let actor = w.below(w.actors.len() + 1);
    let start = w.lines.len();
    let listener = format!("${start}");
    w.line_of(actor, &format!("socket {family} 1 0"));
    w.line_of(actor, &format!("setsockopt {listener} 1 2 {{d1}} 4"));
    w.line_of(actor, &format!("bind {listener} {{w{family} w{port} {local}}} {length}"));
    w.line_of(actor, &format!("listen {listener} 3"));
    w.line_of(actor, &format!("socket {family} 1 0"));
    let client = format!("${}", start + 4);
    w.line_of(actor, &format!("connect {client} {{w{family} w{port} {local}}} {length}"));
    let server = format!("${}", w.line_of(actor, &format!("accept4 {listener} 0 0 0")));
    if !w.may_wait || w.chance(50) {
        for fd in [&listener, &client, &server] {
            w.line_of(actor, &format!("fcntl {fd} 4 0x800"));
        }
    }
    for fd in [listener, client, server] {
        w.made(fd, kind);
    }
}

pub fn write(w: &mut Writer) {
    if w.count(ALL) == 0 || w.chance(7) {
        if w.chance(60) {
            connection(w);
        } else {
            let (kind, wait) = (kind(w), w.may_wait && w.chance(30));
            socket(w, kind, wait);
        }
        return;
    }
    let kinds = if w.chance(60) { STREAMS } else { DATAGRAMS };
    let fd = w.fd(kinds);
    let six = w.pick(&[kinds[0], kinds[0], kinds[1]]);
    match w.below(22) {
        0..=1 => {
            let (address, length) = address(w, six);
            w.line(&format!("bind {fd} {address} {length}"));
        }
        2 => {
            let backlog = w.pick(&[0, 1, 5, -1]);
            w.line(&format!("listen {fd} {backlog}"));
        }
        3..=5 => {
            let (address, length) = address(w, six);
            w.line(&format!("connect {fd} {address} {length}"));
        }
        6 => {
            let flags = w.pick(&["0x800", "0x80800"]);
            w.making(kinds[0], &format!("accept4 {fd} &28:S &{{d28}}:d {flags}"));
        }
        7..=10 => send(w, &fd, six),
        11..=13 => receive(w, &fd),
        14..=16 => common_option(w, &fd),
        _ => common(w, &fd),
    }
}

fn send(w: &mut Writer, fd: &str, kind: Kind) {
    let ((data, length), flags) = (w.data(), send_flags(w));
    if w.chance(55) {
        w.line(&format!("sendto {fd} {data} {length} {flags:#x} 0 0"));
    } else {
        let (address, size) = address(w, kind);
        w.line(&format!("sendto {fd} {data} {length} {flags:#x} {address} {size}"));
    }
}

fn receive(w: &mut Writer, fd: &str) {
    let (length, flags) = (w.length(), receive_flags(w));
    match w.below(3) {
        0 => w.line(&format!("recvfrom {fd} &{length}:x {length} {flags:#x} 0 0")),
        1 => w.line(&format!("recvfrom {fd} &{length}:x {length} {flags:#x} &28:S &{{d28}}:d")),
        _ => {
            let (vectors, count) = w.vectors(true);
            w.line(&format!("recvmsg {fd} &{{p&28:S d28 d0 p{vectors} q{count} p&64:M q64 d0 d0}}:.8d.28qu {flags:#x}"))
        }
    };
}

/// Level, name and a value of options, each of which both sides know.
const OPTIONS: &[(u32, u32)] = &[
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 5),
    (1, 6),
    (1, 9),
    (1, 10),
    (1, 12),
    (1, 13),
    (1, 15),
    (1, 18),
    (1, 20),
    (1, 21),
    (1, 29),
    (1, 30),
    (1, 38),
    (1, 39),
    (1, 36),
    (1, 76),
    (0, 1),
    (0, 2),
    (0, 8),
    (0, 10),
    (0, 12),
    (0, 13),
    (0, 15),
    (0, 24),
    (6, 1),
    (6, 3),
    (6, 4),
    (6, 5),
    (6, 6),
    (6, 7),
    (6, 8),
    (6, 9),
    (6, 12),
    (6, 18),
    // TCP_REPAIR (19) is for checkpoints, which are not simulated.
    (6, 23),
    (6, 25),
    (41, 26),
    (41, 16),
    (41, 49),
    (41, 51),
    (41, 66),
    (41, 67),
    (17, 1),
    (17, 103),
    (1, 999),
    (99, 1),
    (6, 999),
];

/// Reads or sets an option.
pub fn common_option(w: &mut Writer, fd: &str) {
    let (level, name) = w.pick(OPTIONS);
    if w.chance(55) {
        let size = w.pick(&[4, 4, 4, 4, 8, 16, 3, 0, 1, -1]);
        let value = match (level, name) {
            // Pids and users.
            (1, 17) => "&12:p".to_owned(),
            _ => "&16:x".to_owned(),
        };
        w.line(&format!("getsockopt {fd} {level} {name} {value} &{{d{size}}}:d"));
    } else {
        let size = w.pick(&[4, 4, 4, 4, 4, 8, 16, 3, 1, 0]);
        let value = w.number();
        let pair = if (level, name) == (1, 20) || (level, name) == (1, 21) {
            format!("{{q{} q0}}", w.below(3) * 50)
        } else {
            format!("{{d{value} d{} z8}}", w.below(3))
        };
        w.line(&format!("setsockopt {fd} {level} {name} {pair} {size}"));
        if w.chance(50) {
            w.line(&format!("getsockopt {fd} {level} {name} &16:x &{{d16}}:d"));
        }
    }
}
