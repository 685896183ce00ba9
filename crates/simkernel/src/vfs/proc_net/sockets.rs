//! Sockets: `tcp`, `udp`, `raw`, `icmp`, each with its IPv6 file, `unix`, `netlink`, and their numbers.

use crate::files::FileKind;
use crate::net::listing::{Entry, inode, internet, open_sockets};
use crate::vfs::synthetic::View;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use tcpip::{Family, Protocol, TcpState, Timer};

/// `struct socket`'s state, as `unix` shows it.
const SS_UNCONNECTED: u8 = 1;
const SS_CONNECTED: u8 = 3;
/// The flag of a listener (`__SO_ACCEPTCON`).
const ACCEPTS: u32 = 1 << 16;
/// The limit of the initial slow start shows as -1 (TCP_INFINITE_SSTHRESH).
const INFINITE: u32 = 0x7fff_ffff;
/// Widths that lines are filled up to.
const TCP_WIDTH: usize = 149;
const DATAGRAM_WIDTH: usize = 127;

/// An address and its port: words as a little-endian machine shows them.
fn hex(address: SocketAddr) -> String {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let text: String = match address.ip() {
        IpAddr::V4(v4) => format!("{:08X}", word(&v4.octets())),
        IpAddr::V6(v6) => v6.octets().chunks(4).map(|four| format!("{:08X}", word(four))).collect(),
    };
    format!("{text}:{:04X}", address.port())
}

/// Hundredths of a second (`jiffies_to_clock_t`).
fn ticks(time: base::SimDuration) -> u64 {
    time.as_millis() / 10
}

/// Where Linux shows a pointer: the inode, which says as little and is the same in each run.
fn pointer(inode: u64) -> String {
    format!("{inode:016x}")
}

fn of(view: &View<'_>, family: Family, wanted: impl Fn(Protocol) -> bool) -> Vec<Entry> {
    let mut all = internet(view.net, view.files, view.now);
    all.retain(|entry| entry.listed.family == family && wanted(entry.listed.protocol));
    all
}

/// From the addresses to the inode: what all tables of Internet sockets have in common.
fn common(entry: &Entry) -> String {
    let listed = &entry.listed;
    let send_queue = if listed.state == TcpState::Listen { 0 } else { listed.send_queue };
    format!(
        "{} {} {:02X} {send_queue:08X}:{:08X} {:02X}:{:08X} {:08X} {:>5} {:>8} {}",
        hex(listed.local),
        hex(listed.remote),
        listed.state as u8,
        listed.recv_queue,
        listed.timer as u8,
        ticks(listed.expires),
        listed.retransmits,
        entry.user,
        listed.probes,
        entry.inode,
    )
}

/// A line of `tcp` and `tcp6` (`get_tcp4_sock`, `get_openreq4`, `get_timewait4_sock`).
fn tcp_line(number: usize, entry: &Entry) -> String {
    let listed = &entry.listed;
    let references = 1 + u32::from(listed.timer != Timer::None);
    let start = format!("{number:>4}: {} {references} {}", common(entry), pointer(entry.inode));
    let info = match (&listed.info, listed.state) {
        (None, _) | (_, TcpState::SynReceived) => return start,
        (Some(info), _) => info,
    };
    if listed.state == TcpState::Listen {
        return format!("{start} 100 0 0 10 0");
    }
    let threshold = if info.snd_ssthresh >= INFINITE { -1 } else { i64::from(info.snd_ssthresh) };
    let interactive = listed.quick_acks << 1 | u32::from(listed.interactive);
    format!("{start} {} {} {interactive} {} {threshold}", ticks(info.rto), ticks(info.ato), info.snd_cwnd)
}

pub fn tcp(view: &View<'_>) -> String {
    let title = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
    let entries = of(view, Family::V4, |protocol| protocol == Protocol::Tcp);
    let lines = entries.iter().enumerate().map(|(number, entry)| tcp_line(number, entry));
    std::iter::once(title.to_owned()).chain(lines).map(|line| format!("{line:<TCP_WIDTH$}\n")).collect()
}

pub fn tcp6(view: &View<'_>) -> String {
    let mut text =
        "  sl  local_address                         remote_address                        st tx_queue rx_queue tr \
                    tm->when retrnsmt   uid  timeout inode\n"
            .to_owned();
    for (number, entry) in of(view, Family::V6, |protocol| protocol == Protocol::Tcp).iter().enumerate() {
        let _ = writeln!(text, "{}", tcp_line(number, entry));
    }
    text
}

/// The files of datagram sockets of IPv4, which differ in a column's width.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Table {
    Udp,
    Icmp,
    Raw,
}

fn datagram_line(width: usize, entry: &Entry) -> String {
    // The first column is the place in a table of Linux: any number that follows from the port.
    let number = entry.listed.local.port();
    let (common, pointer, drops) = (common(entry), pointer(entry.inode), entry.listed.drops);
    format!("{number:>width$}: {common} 2 {pointer} {drops}")
}

pub fn datagrams(view: &View<'_>, table: Table, wanted: impl Fn(Protocol) -> bool) -> String {
    let columns =
        "local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops";
    let (title, width) = match table {
        Table::Udp => (format!("{:<DATAGRAM_WIDTH$}", format!("   sl  {columns}")), 5),
        Table::Icmp => (format!("{:<DATAGRAM_WIDTH$}", format!("  sl  {columns}")), 5),
        Table::Raw => (format!("  sl  {columns}"), 4),
    };
    let mut text = format!("{title}\n");
    for entry in of(view, Family::V4, wanted) {
        let line = datagram_line(width, &entry);
        let _ = match table {
            Table::Raw => writeln!(text, "{line}"),
            _ => writeln!(text, "{line:<DATAGRAM_WIDTH$}"),
        };
    }
    text
}

pub fn datagrams6(view: &View<'_>, wanted: impl Fn(Protocol) -> bool) -> String {
    let mut text =
        "  sl  local_address                         remote_address                        st tx_queue rx_queue tr \
                    tm->when retrnsmt   uid  timeout inode ref pointer drops\n"
            .to_owned();
    for entry in of(view, Family::V6, wanted) {
        let _ = writeln!(text, "{}", datagram_line(5, &entry));
    }
    text
}

/// `unix_seq_show`; names with NULs as @.
pub fn unix(view: &View<'_>) -> String {
    let mut text = "Num       RefCount Protocol Flags    Type St Inode Path\n".to_owned();
    for socket in view.unix.list() {
        let state = if socket.connected { SS_CONNECTED } else { SS_UNCONNECTED };
        let references = 2 + u32::from(socket.connected);
        let flags = if socket.listening { ACCEPTS } else { 0 };
        let _ = write!(
            text,
            "{}: {references:08X} {:08X} {flags:08X} {:04X} {state:02X} {:>5}",
            pointer(socket.inode),
            0,
            socket.kind,
            socket.inode
        );
        let shown = match socket.name.split_last() {
            // A path ends with its NUL.
            Some((0, path)) if socket.name[0] != 0 => path,
            _ => &socket.name[..],
        };
        if !shown.is_empty() {
            let name: Vec<u8> = shown.iter().map(|&byte| if byte == 0 { b'@' } else { byte }).collect();
            let _ = write!(text, " {}", String::from_utf8_lossy(&name));
        }
        text.push('\n');
    }
    text
}

/// `netlink_native_seq_show`.
pub fn netlink(view: &View<'_>) -> String {
    let mut text =
        "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n".to_owned();
    for (file, kind) in open_sockets(view.files) {
        let FileKind::Netlink(socket) = kind else { continue };
        let number = inode(file);
        let _ = writeln!(
            text,
            "{} {:<3} {:<10} {:08x} {:<8} {:<8} {:<5} {:<8} {:<8} {number:<8}",
            pointer(number),
            socket.protocol,
            socket.port,
            socket.groups as u32,
            socket.waiting_bytes(),
            0,
            0,
            2,
            socket.drops
        );
    }
    text
}

/// How many Internet sockets of a kind there are.
fn count(view: &View<'_>, family: Family, wanted: impl Fn(&Entry) -> bool) -> usize {
    internet(view.net, view.files, view.now)
        .iter()
        .filter(|entry| entry.listed.family == family && wanted(entry))
        .count()
}

fn is_open_tcp(entry: &Entry) -> bool {
    entry.listed.protocol == Protocol::Tcp && entry.listed.state != TcpState::TimeWait
}

pub fn in_use(view: &View<'_>) -> String {
    let all = |wanted: &dyn Fn(&Entry) -> bool| count(view, Family::V4, wanted) + count(view, Family::V6, wanted);
    let allocated = all(&is_open_tcp);
    let used = open_sockets(view.files).count();
    let inuse = count(view, Family::V4, is_open_tcp);
    let orphans = all(&|entry| entry.listed.protocol == Protocol::Tcp && entry.is_orphan());
    let waiting = all(&|entry| entry.listed.state == TcpState::TimeWait);
    let pages = all(&|entry| is_open_tcp(entry) && entry.listed.recv_queue + entry.listed.send_queue > 0);
    let udp = count(view, Family::V4, |entry| entry.listed.protocol == Protocol::Udp);
    let raw = count(view, Family::V4, |entry| matches!(entry.listed.protocol, Protocol::Raw(_)));
    format!(
        "sockets: used {used}\nTCP: inuse {inuse} orphan {orphans} tw {waiting} alloc {allocated} mem {pages}\n\
         UDP: inuse {udp} mem 0\nUDPLITE: inuse 0\nRAW: inuse {raw}\nFRAG: inuse 0 memory 0\n"
    )
}

pub fn in_use6(view: &View<'_>) -> String {
    let tcp = count(view, Family::V6, is_open_tcp);
    let udp = count(view, Family::V6, |entry| entry.listed.protocol == Protocol::Udp);
    let raw = count(view, Family::V6, |entry| matches!(entry.listed.protocol, Protocol::Raw(_)));
    format!("TCP6: inuse {tcp}\nUDP6: inuse {udp}\nUDPLITE6: inuse 0\nRAW6: inuse {raw}\nFRAG6: inuse 0 memory 0\n")
}

/// Name, size of a socket in Linux, whether memory pressure counts, room for headers, and the calls that it has.
type ProtocolRow = (&'static str, u32, &'static str, u32, &'static str);

const PROTOCOLS: [ProtocolRow; 11] = [
    ("PINGv6", 1344, "NI", 0, "y  y  y  n  n  y  n  n  y  y  y  y  y  y  n  y  y  n"),
    ("RAWv6", 1344, "NI", 0, "y  y  y  n  y  y  y  n  y  y  y  y  y  y  y  y  n  n"),
    ("UDPv6", 1472, "NI", 0, "y  y  y  n  y  y  y  n  y  y  y  y  n  n  y  y  y  n"),
    ("TCPv6", 2432, "no", 192, "y  y  y  y  y  y  y  y  y  y  y  y  n  y  y  y  y  y"),
    ("UNIX-STREAM", 1152, "NI", 0, "y  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n"),
    ("UNIX", 1152, "NI", 0, "y  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n"),
    ("PING", 1144, "NI", 0, "y  y  y  n  n  y  n  n  y  y  y  y  y  y  n  y  y  n"),
    ("RAW", 1152, "NI", 0, "y  y  y  n  y  y  y  n  y  y  y  y  y  y  y  y  n  n"),
    ("UDP", 1280, "NI", 0, "y  y  y  n  y  y  y  n  y  y  y  y  n  n  y  y  y  n"),
    ("TCP", 2240, "no", 192, "y  y  y  y  y  y  y  y  y  y  y  y  n  y  y  y  y  y"),
    ("NETLINK", 1104, "NI", 0, "n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n  n"),
];

fn sockets_of(view: &View<'_>, name: &str) -> usize {
    let family = if name.ends_with("v6") { Family::V6 } else { Family::V4 };
    let wanted = |protocol: Protocol| match name.trim_end_matches("v6") {
        "TCP" => protocol == Protocol::Tcp,
        "UDP" => protocol == Protocol::Udp,
        "PING" => protocol == Protocol::Echo,
        _ => matches!(protocol, Protocol::Raw(_)),
    };
    let stream = linux_abi::socket::SOCK_STREAM;
    match name {
        "UNIX-STREAM" => view.unix.list().filter(|socket| socket.kind == stream).count(),
        "UNIX" => view.unix.list().filter(|socket| socket.kind != stream).count(),
        "NETLINK" => open_sockets(view.files).filter(|(_, kind)| matches!(kind, FileKind::Netlink(_))).count(),
        _ => count(view, family, |entry| wanted(entry.listed.protocol) && entry.listed.state != TcpState::TimeWait),
    }
}

/// `proto_seq_printf`.
pub fn protocols(view: &View<'_>) -> String {
    let mut text = "protocol  size sockets  memory press maxhdr  slab module     cl co di ac io in de sh ss gs se re bi br ha uh gp em\n"
        .to_owned();
    for (name, size, pressure, header, calls) in PROTOCOLS {
        let (sockets, memory) = (sockets_of(view, name), if pressure == "no" { 0 } else { -1 });
        let _ = writeln!(
            text,
            "{name:<9} {size:>4} {sockets:>6}  {memory:>6}   {pressure:<3} {header:>6}   yes  kernel      {calls}"
        );
    }
    text
}
