//! Who may have a port: sockets that share one by options, by address, by protocol, and whom a datagram finds then.

use crate::writer::{Kind, Writer};

const STREAMS: &[Kind] = &[Kind::Tcp, Kind::Tcp6];
const ALL: &[Kind] = &[Kind::Tcp, Kind::Tcp6, Kind::Udp, Kind::Udp6];

/// One of two ports that this program has for itself, now and then one for those with rights, or any.
fn port(w: &mut Writer) -> u16 {
    let which = w.below(2) as u64;
    match w.below(14) {
        0 => 0,
        1 => 80u16.swap_bytes(),
        _ => ((1024 + (w.number * 3 + which) % 29_000) as u16).swap_bytes(),
    }
}

/// An address of IPv4 or IPv6, with its length.
fn address(w: &mut Writer, six: bool, to: bool) -> (String, usize) {
    let port = port(w);
    if six != w.chance(3) {
        let own = ["z15 b1", "z15 b1", "z16", "z10 w0xffff b127 b0 b0 b1", "z10 w0xffff z4"];
        let odd = ["z15 b1", "z15 b2", "b255 b2 z13 b1", "z10 w0xffff b10 b1 b1 b1"];
        let host = if w.chance(85) { w.pick(&own) } else { w.pick(&odd) };
        let scope = if w.chance(4) { 1 } else { 0 };
        return (format!("{{w10 w{port} d0 {host} d{scope}}}"), w.pick(&[28, 28, 28, 28, 28, 24, 23]));
    }
    let own = ["b127 b0 b0 b1", "b127 b0 b0 b1", "z4", "b127 b0 b0 b2"];
    // Not this host's: another network, a group, all; where nobody listens, nothing is sent to all.
    let odd = ["b10 b1 b1 b1", "b127 b255 b255 b255", "b224 b0 b0 b1", "b255 b255 b255 b255"];
    let host = if to || w.chance(85) { w.pick(&own) } else { w.pick(&odd) };
    (format!("{{w2 w{port} {host} z8}}"), 16)
}

fn socket(w: &mut Writer) -> String {
    let kind = w.pick(&[Kind::Tcp, Kind::Tcp6, Kind::Udp, Kind::Udp6, Kind::Udp]);
    let family = if matches!(kind, Kind::Tcp6 | Kind::Udp6) { 10 } else { 2 };
    let number = if STREAMS.contains(&kind) { 0x801 } else { 0x802 };
    let fd = w.making(kind, &format!("socket {family} {number:#x} 0"));
    for (level, name, percent) in [(1, 2, 30), (1, 15, 15), (41, 26, 10)] {
        if w.chance(percent) {
            w.line(&format!("setsockopt {fd} {level} {name} {{d1}} 4"));
        }
    }
    if w.chance(70) {
        let (address, length) = address(w, family == 10, false);
        w.line(&format!("bind {fd} {address} {length}"));
    }
    fd
}

pub fn write(w: &mut Writer) {
    if w.count(ALL) < 2 || w.chance(30) {
        socket(w);
        return;
    }
    let fd = w.fd(ALL);
    let six = w.chance(45);
    match w.below(20) {
        0..=3 => {
            let (address, length) = address(w, six, false);
            w.line(&format!("bind {fd} {address} {length}"));
        }
        4..=5 => {
            let fd = w.fd(STREAMS);
            w.line(&format!("listen {fd} 2"));
        }
        6..=8 => {
            let (address, length) = address(w, six, true);
            w.line(&format!("connect {fd} {address} {length}"));
        }
        9 => {
            w.line(&format!("connect {fd} {{w0 z14}} 16"));
        }
        10..=11 => {
            let call = w.word("getsockname getsockname getpeername");
            w.line(&format!("{call} {fd} &28:S &{{d28}}:d"));
        }
        12..=13 => option(w, &fd),
        14..=16 => datagram(w, six),
        17 => {
            let fd = w.fd(STREAMS);
            w.making(Kind::Tcp, &format!("accept4 {fd} &28:S &{{d28}}:d 0x800"));
        }
        18 if w.root && w.chance(40) => {
            let user = w.word("1000 0 1001");
            w.line(&format!("setresuid -1 {user} -1"));
        }
        18 => {
            w.line(&format!("shutdown {fd} 2"));
        }
        _ => w.closing(&fd),
    }
}

/// SO_REUSEADDR, SO_REUSEPORT, IPV6_V6ONLY, IP_FREEBIND, IP_BIND_ADDRESS_NO_PORT, IP_TRANSPARENT.
fn option(w: &mut Writer, fd: &str) {
    let (level, name) = w.pick(&[(1, 2), (1, 2), (1, 15), (41, 26), (0, 15), (0, 24), (0, 19), (41, 78)]);
    if w.chance(75) {
        let value = w.pick(&[1, 1, 0]);
        w.line(&format!("setsockopt {fd} {level} {name} {{d{value}}} 4"));
    } else {
        w.line(&format!("getsockopt {fd} {level} {name} &4:d &{{d4}}:d"));
    }
}

/// A datagram to a port, and who has it.
fn datagram(w: &mut Writer, six: bool) {
    let (fd, (address, length)) = (w.fd(&[Kind::Udp, Kind::Udp6]), address(w, six, true));
    let seed = w.below(200);
    w.line(&format!("sendto {fd} {{f{seed}*3}} 3 0x4040 {address} {length}"));
    for _ in 0..1 + w.below(2) {
        let other = w.fd(&[Kind::Udp, Kind::Udp6]);
        w.line(&format!("recvfrom {other} &9:x 9 0x40 &28:S &{{d28}}:d"));
    }
}
