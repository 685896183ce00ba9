//! Netlink sockets: addresses and groups, lists of what a host's network has, requests that are refused, messages between programs.

use crate::writer::{Kind, Writer};

const OWN: &[Kind] = &[Kind::Netlink];

/// NETLINK_ROUTE mostly; NETLINK_USERSOCK, one that nobody has. What NETLINK_KOBJECT_UEVENT passes on is numbered, and how many groups
/// NETLINK_GENERIC has is the machine's own matter.
const PROTOCOLS: &[i32] = &[0, 0, 0, 0, 0, 2, 2, 31];

/// NLM_F_REQUEST with NLM_F_ACK, NLM_F_ECHO, NLM_F_ROOT, NLM_F_MATCH; NLM_F_ACK alone.
const FLAGS: &[u16] = &[1, 5, 5, 0x301, 0x301, 0x301, 0x305, 0x101, 0x201, 0x309, 4, 0];

pub fn write(w: &mut Writer) {
    if w.count(OWN) == 0 || w.chance(8) {
        open(w);
        return;
    }
    let fd = w.fd(OWN);
    match w.below(20) {
        0..=1 => {
            let (address, length) = address(w);
            w.line(&format!("bind {fd} {address} {length}"));
        }
        2 => {
            let (address, length) = address(w);
            w.line(&format!("connect {fd} {address} {length}"));
        }
        3 => {
            let call = w.word("getsockname getpeername");
            let length = w.pick(&[12, 12, 12, 0, 5, -1]);
            w.line(&format!("{call} {fd} &12:S &{{d{length}}}:d"));
        }
        4..=7 => ask(w, &fd),
        8 if w.chance(50) => rules(w),
        8 => tell(w, &fd),
        9..=12 => receive(w, &fd),
        13..=15 => option(w, &fd),
        16 => {
            w.line(&format!("poll &{{d{fd} w5 w0}}:.6w 1 0"));
        }
        17 => {
            let user = w.word("1000 0 65534");
            match w.root && w.chance(60) {
                true => w.line(&format!("setresuid -1 {user} -1")),
                false => w.line(&format!("fstat {fd} &144:t")),
            };
        }
        18 => {
            let call = w.pick(&["shutdown {} 2", "listen {} 1", "accept4 {} 0 0 0"]);
            w.line(&call.replace("{}", &fd));
        }
        _ => w.closing(&fd),
    }
}

fn open(w: &mut Writer) {
    let (kind, protocol) = (w.pick(&[2, 3, 3, 3, 1]), w.pick(PROTOCOLS));
    let flags = w.flags(&[0x80000]) | 0x800;
    let fd = w.making(Kind::Netlink, &format!("socket 16 {:#x} {protocol}", kind | flags));
    if w.chance(40) {
        let groups = w.pick(&["0", "0", "1", "0x51"]);
        w.line(&format!("bind {fd} {{w16 w0 d0 d{groups}}} 12"));
    }
}

/// Ports that programs choose; 0 is the kernel, or a free one.
const PORTS: &str = "0 0 0 5000077 5000077 5000078 #0";

fn address(w: &mut Writer) -> (String, usize) {
    let (port, groups) = (w.word(PORTS), w.pick(&["0", "0", "0", "1", "4", "0x80000000"]));
    let family = if w.chance(95) { 16 } else { w.pick(&[0, 2]) };
    (format!("{{w{family} w0 d{port} d{groups}}}"), w.pick(&[12, 12, 12, 12, 12, 16, 8, 2]))
}

/// Requests for one thing or a list: their type, and what follows the header.
fn question(w: &mut Writer) -> (u16, String) {
    let family = w.pick(&[0, 0, 2, 2, 10, 10, 7, 17, 128]);
    let index = w.pick(&[1, 1, 1, 77, 0, -1]);
    // Of links, IPv6 and bridges show something of their own.
    let of_link = w.pick(&[0, 0, 2, 17, 128]);
    // The list of IPv6's addresses ends in its last datagram or behind that.
    let of_address = w.pick(&[0, 0, 2, 2, 7, 17, 128]);
    match w.below(12) {
        0..=1 => (18, format!("b{of_link} z15")),
        2 => (18, format!("b{of_link} z3 d{index} z8")),
        3 => {
            let name = w.pick(&["w7 w3 s\"lo\" z2", "w9 w3 s\"none\" z4", "w8 w3 s\"lo\" z2", "w4 w3"]);
            (18, format!("b{of_link} z15 {name}"))
        }
        4 => (22, format!("b{of_address} z7")),
        5 => (22, format!("b{of_address}")),
        // The way to this host's own addresses of IPv4: others depend on the network, those of IPv6 on how the kernel was built.
        6 => {
            let ways = ["b2 b32 z10 w8 w1 b127 b0 b0 b1", "b2 z11", "b2 b32 z10 w6 w1 b127 b0"];
            (26, w.pick(&ways).to_owned())
        }
        7 => (30, format!("b{family} z11")),
        8 => (30, "b2 z11".to_owned()),
        9 => (38, format!("b{family} z19")),
        10 => {
            let kind = w.pick(&[42, 46, 106]);
            (kind, format!("b{family} z19"))
        }
        _ => (w.pick(&[18, 22, 26, 30, 34, 38]), String::new()),
    }
}

/// Requests to change something, that nobody may or that name nothing.
fn order(w: &mut Writer) -> (u16, String) {
    match w.below(6) {
        // Links that are not there; one that is up already is set so.
        0 => (w.pick(&[17, 19]), "z4 d77 z8".to_owned()),
        1 => (19, "z4 d1 d1 d1".to_owned()),
        2 => (16, "z4 d77 d1 d1".to_owned()),
        3 => (w.pick(&[16, 17, 20, 21, 24, 25, 28, 29, 32, 33, 36, 37]), String::new()),
        4 => (w.pick(&[1, 2, 3, 5, 15, 126, 200, 1000]), "z16".to_owned()),
        _ => (w.pick(&[20, 21]), "b7 z7".to_owned()),
    }
}

/// A request with its length.
fn request(w: &mut Writer) -> (String, usize) {
    let ((kind, body), flags) = (if w.chance(80) { question(w) } else { order(w) }, w.pick(FLAGS));
    let length = 16 + size(&body);
    let told = match w.below(20) {
        0 => length + 4,
        1 => 15,
        2 => length.max(17) - 1,
        _ => length,
    };
    let (seq, port) = (w.below(100), w.pick(&[0, 0, 0, 5]));
    (format!("d{told} w{kind} w{flags} d{seq} d{port} {body}").trim_end().to_owned(), length)
}

/// How many bytes the pieces of a structure have.
fn size(pieces: &str) -> usize {
    let one = |piece: &str| match piece.split_at(1) {
        ("b", _) => 1,
        ("w", _) => 2,
        ("d", _) => 4,
        ("z", count) => count.parse().expect("a count"),
        (_, text) => text.trim_matches('"').len(),
    };
    pieces.split_ascii_whitespace().map(one).sum()
}

fn ask(w: &mut Writer, fd: &str) {
    let (mut text, mut length) = request(w);
    if w.chance(10) {
        let gap = length.next_multiple_of(4) - length;
        let (other, more) = request(w);
        text += &if gap > 0 { format!(" z{gap} {other}") } else { format!(" {other}") };
        length += gap + more;
    }
    let length = if w.chance(5) { w.below(20) } else { length };
    match w.below(4) {
        0 => w.line(&format!("write {fd} {{{text}}} {length}")),
        1 => {
            let (address, size) = address(w);
            w.line(&format!("sendto {fd} {{{text}}} {length} 0x40 {address} {size}"))
        }
        _ => w.line(&format!("sendto {fd} {{{text}}} {length} 0x40 0 0")),
    };
    if w.chance(70) {
        for _ in 0..1 + w.below(3) {
            receive(w, fd);
        }
    }
}

/// The list of rules, which Linux ends in its last datagram or behind that: it is read once, by a socket that is closed then.
fn rules(w: &mut Writer) {
    let family = w.pick(&[0, 2, 10]);
    let actor = w.below(w.actors.len() + 1);
    let fd = format!("${}", w.line_of(actor, "socket 16 0x803 0"));
    w.line_of(actor, &format!("sendto {fd} {{d28 w34 w0x301 d9 d0 b{family} z11}} 28 0 0 0"));
    w.line_of(actor, &format!("recvfrom:z {fd} &8192:R 8192 0 0 0"));
    w.line_of(actor, &format!("close {fd}"));
}

/// A message to other sockets.
fn tell(w: &mut Writer, fd: &str) {
    let (data, length) = w.data();
    let (address, size) = address(w);
    let control = match w.below(5) {
        0 => "p{q28 d1 d2 d#0 d0 d0 d0} q32",
        1 => "p{q20 d1 d1 d0 d0} q24",
        2 => "p{q20 d270 d3 d0 d0} q24",
        _ => "q0 q0",
    };
    w.line(&format!("sendmsg {fd} {{p{address} d{size} d0 p{{p{data} q{length}}} q1 {control} d0 d0}} 0x40"));
}

/// What lists hold beside the loopback interface differs, and so their lengths.
fn receive(w: &mut Writer, fd: &str) {
    let flags = w.pick(&["0x40", "0x40", "0x40", "0x40", "0x42", "0x60", "0x62"]);
    let size = w.pick(&[8192, 8192, 8192, 16, 20, 0]);
    if w.chance(60) {
        w.line(&format!("recvfrom:z {fd} &{size}:R {size} {flags} &12:S &{{d12}}:d"));
    } else {
        w.line(&format!(
            "recvmsg:z {fd} &{{p&12:S d12 d0 p{{p&{size}:R q{size}}} q1 p&64:M q64 d0 d0}}:.8d.28qu {flags}"
        ));
    }
}

/// Level and name of options. NETLINK_EXT_ACK is only read: explanations are no promise.
const OPTIONS: &[(u32, u32)] = &[
    (270, 1),
    (270, 1),
    (270, 2),
    (270, 3),
    (270, 4),
    (270, 5),
    (270, 8),
    (270, 9),
    (270, 10),
    (270, 12),
    (270, 6),
    (270, 99),
    (1, 2),
    (1, 3),
    (1, 4),
    (1, 7),
    (1, 8),
    (1, 15),
    (1, 16),
    (1, 16),
    (1, 17),
    (1, 30),
    (1, 32),
    (1, 38),
    (1, 39),
];

fn option(w: &mut Writer, fd: &str) {
    let (level, name) = w.pick(OPTIONS);
    if w.chance(55) {
        let value = w.pick(&[1, 1, 0, 2, 32, 33, 39, 40, 1000, -1]);
        let size = w.pick(&[4, 4, 4, 4, 8, 3, 0, -1]);
        w.line(&format!("setsockopt {fd} {level} {name} {{d{value} d0}} {size}"));
    } else {
        let name = if (level, name) == (270, 12) && w.chance(50) { 11 } else { name };
        let size = w.pick(&[4, 4, 4, 8, 16, 3, 0, -1]);
        w.line(&format!("getsockopt {fd} {level} {name} &16:x &{{d{size}}}:d"));
    }
}
