//! A table of cases, `scripts/cases.txt`: what a peer sends, what the program calls, and what Linux did (its head tells the language).
//! Every case is played against the stack; as root, a sample of them also against the machine's Linux, and all by `make tcp-linux`.
//! `cargo test -p tcpip --test scripts -- --ignored --exact record` writes what the machine's Linux does below cases without a record.

use base::{SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::Command;
use tcpip::wire::icmp::IcmpHeader;
use tcpip::wire::ip::IpHeader;
use tcpip::wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps, WindowScale};
use tcpip::wire::udp::UdpHeader;
use tcpip::{
    Config, Family, OptionName, Packet, Readiness, SendFlags, Shutdown, SocketError, SocketId, SocketOption, Stack,
    TcpInfo, Transport,
};

const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const REMOTE6: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1);
const PORT: u16 = 2000;

/// What of the recorded times may differ: Linux's ticks are 4 ms where these were recorded, its timers up to two of them late, and long ones by
/// an eighth of their length (kernel/time/timer.c).
const TOLERANCE_MS: f64 = 10.0;
const TOLERANCE_SHARE: f64 = 0.125;
/// Real time on a machine that does other things, too.
const LINUX_TOLERANCE_MS: f64 = 14.0;
/// What leaves within so much of a moment left at that moment.
const TOGETHER_MS: f64 = 3.0;
/// Of Linux's cases, so many are played in `make test`.
const SAMPLE: usize = 12;

/// The settings of Linux that the cases count on, in /proc/sys/net/ipv4; the stack's are the same.
const SETTINGS: &[&str] = &["tcp_rmem=4096 131072 6291456", "tcp_wmem=4096 16384 4194304", "tcp_no_metrics_save=1"];

#[derive(Clone, Debug)]
struct Case {
    /// The line that begins with `case`, in words.
    head: Vec<String>,
    /// When, in milliseconds, and what.
    actions: Vec<(f64, Vec<String>)>,
    /// What Linux did.
    recorded: Vec<String>,
    /// The lines without what was recorded, for writing the table anew.
    text: String,
}

impl Case {
    fn name(&self) -> &str {
        &self.head[1]
    }

    fn has(&self, word: &str) -> bool {
        self.head.iter().any(|other| other == word)
    }

    /// Of the host and of its peer.
    fn addresses(&self) -> [IpAddr; 2] {
        if self.has("ipv6") { [LOCAL6.into(), REMOTE6.into()] } else { [LOCAL.into(), REMOTE.into()] }
    }

    /// Settings of the whole host.
    fn settings(&self) -> Vec<String> {
        self.head.iter().filter(|word| word.starts_with("tcp_")).cloned().collect()
    }

    /// Options of the socket before it listens or connects.
    fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.head.iter().filter(|word| !word.starts_with("tcp_")).filter_map(|word| word.split_once('='))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The head of the table and its cases.
fn table() -> (String, Vec<Case>) {
    let text = std::fs::read_to_string(folder().join("cases.txt")).expect("the table");
    let mut head = String::new();
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        let words = || line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        if line.starts_with("case ") {
            let text = format!("{line}\n");
            cases.push(Case { head: words(), actions: Vec::new(), recorded: Vec::new(), text });
            continue;
        }
        let Some(case) = cases.last_mut() else {
            head += line;
            head.push('\n');
            continue;
        };
        if let Some(seen) = line.strip_prefix("| ") {
            case.recorded.push(seen.to_owned());
            continue;
        }
        case.text += line;
        case.text.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            let words = words();
            let at = words[0].parse().unwrap_or_else(|_| panic!("{}: {line}: no time", case.name()));
            case.actions.push((at, words[1..].to_vec()));
        }
    }
    (head, cases)
}

/// A packet that was seen, as the table shows it.
#[derive(Clone, Debug)]
struct Seen {
    at: f64,
    flags: String,
    first: i64,
    end: i64,
    tail: String,
}

impl Seen {
    fn parse(line: &str) -> Seen {
        let mut parts = line.splitn(4, ' ').skip(1);
        let at = parts.next().and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{line}: no time"));
        let flags = parts.next().expect("flags").to_owned();
        let rest = parts.next().expect("numbers");
        let (numbers, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        let (first, end) = numbers.split_once(':').expect("two numbers");
        let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{line}: numbers"));
        Seen { at, flags, first: number(first), end: number(end), tail: tail.to_owned() }
    }

    fn text(&self) -> String {
        format!("{} {}:{} {}", self.flags, self.first, self.end, self.tail)
    }
}

/// The packets of a transcript. Segments that left together and follow each other count as one up to a PSH, if those are looked at: how many
/// segments Linux makes of what it sends at once is its own affair.
fn packets(lines: &[String], pushes: bool) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for line in lines.iter().filter(|line| line.starts_with('>')) {
        let mut seen = Seen::parse(line);
        seen.flags.retain(|letter| pushes || letter != 'P');
        if let Some(last) = all.last_mut()
            && last.end == seen.first
            && last.first < last.end
            && seen.first < seen.end
            && last.tail == seen.tail
            && last.flags == "."
            && seen.at - last.at < TOGETHER_MS
        {
            last.end = seen.end;
            last.flags = seen.flags;
            continue;
        }
        all.push(seen);
    }
    all
}

/// In what two transcripts differ.
fn differences(case: &Case, actual: &[String], tolerance_ms: f64) -> Vec<String> {
    let mut found = Vec::new();
    let (expected, pushes) = (&case.recorded, !case.has("pushes-differ"));
    let (left, right) = (packets(expected, pushes), packets(actual, pushes));
    // By how much the one was late before.
    let mut late = 0.0;
    let mut before = 0.0;
    for at in 0..left.len().max(right.len()) {
        match (left.get(at), right.get(at)) {
            (Some(a), Some(b)) if a.text() == b.text() => {
                let now_late = b.at - a.at;
                let off = (now_late - late).abs().min(now_late.abs());
                if off > tolerance_ms + (a.at - before) * TOLERANCE_SHARE {
                    found.push(format!("{} at {} ms, not {}", a.text(), b.at, a.at));
                }
                (late, before) = (now_late, a.at);
            }
            (Some(a), Some(b)) => {
                found.push(format!("at {} ms {}, not at {} ms {}", b.at, b.text(), a.at, a.text()));
                break;
            }
            (Some(a), None) => found.push(format!("nothing, not at {} ms {}", a.at, a.text())),
            (None, Some(b)) => found.push(format!("at {} ms {}, which should not be", b.at, b.text())),
            (None, None) => {}
        }
    }
    let calls = |lines: &[String]| lines.iter().filter(|line| line.starts_with('=')).cloned().collect::<Vec<_>>();
    let (left, right) = (calls(expected), calls(actual));
    for (a, b) in left.iter().zip(&right).filter(|(a, b)| a != b) {
        found.push(format!("{b}\n        not {}", a.rsplit("-> ").next().unwrap_or_default()));
    }
    if left.len() != right.len() {
        found.push(format!("{} calls, not {}", right.len(), left.len()));
    }
    found
}

/// A stack, one connection of it, and its peer.
struct Host<'a> {
    case: &'a Case,
    stack: Stack,
    now: SimTime,
    socket: SocketId,
    /// What `accept` gave, or the socket that connects.
    session: Option<SocketId>,
    local_port: u16,
    isn: Option<u32>,
    stamp: u32,
    /// The last datagram that left.
    last: Vec<u8>,
    lines: Vec<String>,
    calls: Vec<String>,
}

const START: SimTime = SimTime::from_nanos(1_000_000_000);

fn at_ms(ms: f64) -> SimTime {
    START + SimDuration::from_nanos((ms * 1e6) as u64)
}

fn config(case: &Case) -> Config {
    let mut config = Config::new(LOCAL);
    config.address6 = Some(LOCAL6);
    (config.recv_buffer, config.recv_buffer_max) = (131_072, 6_291_456);
    (config.send_buffer, config.send_buffer_max) = (16_384, 4_194_304);
    // A TUN device does not let sockets wait until their packets are read.
    config.orphans_packets = true;
    for setting in case.settings() {
        let (name, value) = setting.split_once('=').expect("a value");
        config.set_sysctl(&format!("net/ipv4/{name}"), value).unwrap_or_else(|error| panic!("{setting}: {error:?}"));
    }
    config
}

fn errno(error: SocketError) -> &'static str {
    match error {
        SocketError::WouldBlock => "EAGAIN",
        SocketError::BrokenPipe => "EPIPE",
        SocketError::ConnectionReset => "ECONNRESET",
        SocketError::ConnectionRefused => "ECONNREFUSED",
        SocketError::TimedOut => "ETIMEDOUT",
        SocketError::NotConnected => "ENOTCONN",
        SocketError::InvalidArgument => "EINVAL",
        SocketError::HostUnreachable => "EHOSTUNREACH",
        SocketError::MessageTooLong => "EMSGSIZE",
        SocketError::DestinationRequired => "EDESTADDRREQ",
        other => panic!("{other}: name it"),
    }
}

fn option(name: &str, value: u32) -> SocketOption {
    let seconds = SimDuration::from_secs(value.into());
    match name {
        "nodelay" => SocketOption::NoDelay(value != 0),
        "maxseg" => SocketOption::MaxSegment(value),
        "cork" => SocketOption::Cork(value != 0),
        "keepidle" => SocketOption::KeepIdle(seconds),
        "keepintvl" => SocketOption::KeepInterval(seconds),
        "keepcnt" => SocketOption::KeepCount(value),
        "syncnt" => SocketOption::SynCount(value),
        "linger2" => SocketOption::Linger2(seconds),
        "window_clamp" => SocketOption::WindowClamp(value),
        "quickack" => SocketOption::QuickAck(value != 0),
        "user_timeout" => SocketOption::UserTimeout(SimDuration::from_millis(value.into())),
        "notsent_lowat" => SocketOption::NotSentLowWater(value),
        "sndbuf" => SocketOption::SendBuffer(value),
        "rcvbuf" => SocketOption::RecvBuffer(value),
        "max_pacing_rate" => SocketOption::MaxPacingRate(value.into()),
        "keepalive" => SocketOption::KeepAlive(value != 0),
        "rcvlowat" => SocketOption::RecvLowWater(value),
        _ => panic!("{name}: no option"),
    }
}

fn field(info: &TcpInfo, name: &str) -> u64 {
    match name {
        "state" => info.state as u64,
        "ca" => info.ca_state.into(),
        "retransmits" => info.retransmits.into(),
        "probes" => info.probes.into(),
        "backoff" => info.backoff.into(),
        "options" => info.options.into(),
        "snd_mss" => info.snd_mss.into(),
        "rcv_mss" => info.rcv_mss.into(),
        "unacked" => info.unacked.into(),
        "sacked" => info.sacked.into(),
        "lost" => info.lost.into(),
        "retrans" => info.retrans.into(),
        "pmtu" => info.pmtu.into(),
        "rcv_ssthresh" => info.rcv_ssthresh.into(),
        "rcv_space" => info.rcv_space.into(),
        "rcv_wnd" => info.rcv_wnd.into(),
        "ssthresh" => info.snd_ssthresh.into(),
        "cwnd" => info.snd_cwnd.into(),
        "advmss" => info.advmss.into(),
        "reordering" => info.reordering.into(),
        "total_retrans" => info.total_retrans.into(),
        "bytes_acked" => info.bytes_acked,
        "bytes_received" => info.bytes_received,
        "segs_out" => info.segs_out.into(),
        "segs_in" => info.segs_in.into(),
        "notsent" => info.notsent_bytes.into(),
        "data_segs_in" => info.data_segs_in.into(),
        "data_segs_out" => info.data_segs_out.into(),
        "delivery_rate" => info.delivery_rate,
        "delivered" => info.delivered.into(),
        "bytes_sent" => info.bytes_sent,
        "bytes_retrans" => info.bytes_retrans,
        "dsack_dups" => info.dsack_dups.into(),
        "reord_seen" => info.reord_seen.into(),
        "rcv_ooopack" => info.rcv_ooopack.into(),
        "snd_wnd" => info.snd_wnd.into(),
        "total_rto" => info.total_rto.into(),
        "rto_recoveries" => info.total_rto_recoveries.into(),
        _ => panic!("{name}: no field that cases look at"),
    }
}

const LETTERS: [(char, TcpFlags); 6] = [
    ('S', TcpFlags::SYN),
    ('F', TcpFlags::FIN),
    ('R', TcpFlags::RST),
    ('P', TcpFlags::PSH),
    ('U', TcpFlags::URG),
    ('.', TcpFlags::ACK),
];

impl<'a> Host<'a> {
    fn new(case: &'a Case) -> Host<'a> {
        let mut stack = Stack::new(config(case), SeedTree::new(7).stream(case.name(), "stack"));
        let [local, remote] = case.addresses();
        let family = if local.is_ipv6() { Family::V6 } else { Family::V4 };
        let is_udp = case.has("udp");
        let socket = if is_udp { stack.udp_socket(family) } else { stack.tcp_socket(family) };
        for (name, value) in case.options() {
            let value = value.parse().expect("a number");
            stack.set_option(START, socket, option(name, value)).expect("an option that can be set");
        }
        let is_server = case.has("server");
        let port = if is_server || is_udp { PORT } else { 0 };
        stack.bind(socket, SocketAddr::new(local, port)).expect("a free port");
        let local_port = stack.local_name(socket).expect("a name").port();
        if is_server {
            stack.listen(socket, 5).expect("a listener");
        } else if !is_udp || case.has("connected") {
            stack.connect(START, socket, SocketAddr::new(remote, PORT)).expect("a connection under way");
        }
        let session = (!is_server).then_some(socket);
        let (lines, calls) = (Vec::new(), Vec::new());
        Host {
            case,
            stack,
            now: START,
            socket,
            session,
            local_port,
            isn: None,
            stamp: 0,
            last: Vec::new(),
            lines,
            calls,
        }
    }

    fn play(mut self) -> Vec<String> {
        self.flush();
        let case = self.case;
        for (at, words) in &case.actions {
            let due = at_ms(*at);
            while let Some(next) = self.stack.next_deadline().filter(|next| *next <= due) {
                self.now = self.now.max(next);
                self.stack.handle_timers(self.now);
                self.flush();
            }
            self.now = due;
            match words[0].as_str() {
                "in" => {
                    let packet = if case.has("udp") { self.datagram(&words[1]) } else { self.packet(&words[1..]) };
                    self.stack.receive(self.now, packet);
                }
                "end" => {}
                _ => {
                    let result = self.call(words);
                    self.calls.push(format!("= {at} {} -> {result}", words.join(" ")));
                }
            }
            self.flush();
            assert_eq!(self.stack.flaw(), None, "{}: {words:?}", case.name());
        }
        self.lines.append(&mut self.calls);
        self.lines
    }

    fn flush(&mut self) {
        while self.stack.poll_event().is_some() {}
        while let Some(packet) = self.stack.poll_transmit(self.now) {
            self.seen(&packet);
        }
        if self.session.is_none() {
            self.session = self.stack.accept(self.socket).ok();
        }
    }

    fn seen(&mut self, packet: &Packet) {
        let at = self.now.saturating_since(START).as_nanos() as f64 / 1e6;
        let Some(tcp) = packet.tcp() else {
            let (letter, length) = match packet.transport {
                Transport::Udp(_) => ('D', packet.payload().len()),
                _ => ('I', 0),
            };
            if letter == 'D' {
                self.last.clear();
                packet.emit(&mut self.last);
            }
            return self.lines.push(format!("> {at:.0} {letter} 0:{length}"));
        };
        let isn = match self.isn {
            Some(isn) if !tcp.flags.contains(TcpFlags::SYN) => isn,
            _ => *self.isn.insert(tcp.seq),
        };
        let first = i64::from(tcp.seq.wrapping_sub(isn) as i32);
        let end = first + packet.payload().len() as i64;
        let flags: String =
            LETTERS.iter().filter(|(_, bit)| tcp.flags.contains(*bit)).map(|(letter, _)| letter).collect();
        let mut line = format!("> {at:.0} {flags} {first}:{end}");
        if tcp.flags.contains(TcpFlags::ACK) {
            write!(line, " ack {}", tcp.ack).expect("a string");
        }
        if self.case.has("windows") {
            write!(line, " win {}", tcp.window).expect("a string");
        }
        let shown = self.shown(&tcp.options);
        if !shown.is_empty() {
            write!(line, " <{}>", shown.join(",")).expect("a string");
        }
        self.lines.push(line);
    }

    /// In the order in which Linux has them.
    fn shown(&mut self, options: &TcpOptions) -> Vec<String> {
        let mut shown = Vec::new();
        shown.extend(options.mss.map(|mss| format!("mss={mss}")));
        shown.extend(options.sack_permitted.then(|| "sack".to_owned()));
        if let Some(stamps) = options.timestamps {
            self.stamp = stamps.value;
            shown.push(format!("ecr={}", stamps.echo));
        }
        shown.extend(options.window_scale.map(|scale| format!("ws={}", scale.shift())));
        if !options.sack.is_empty() {
            let blocks: Vec<String> = options.sack.as_slice().iter().map(|(a, b)| format!("{a}:{b}")).collect();
            shown.push(format!("blocks={}", blocks.join("+")));
        }
        shown
    }

    /// `FLAGS SEQ:END [ack N] [win N] [<options>]`.
    fn packet(&self, words: &[String]) -> Packet {
        let number = |text: &str| text.parse::<i64>().unwrap_or_else(|_| panic!("{}: {words:?}", self.case.name()));
        let flags = LETTERS.iter().filter(|(letter, _)| words[0].contains(*letter));
        let (first, end) = words[1].split_once(':').expect("two numbers");
        let (first, end) = (number(first), number(end));
        let isn = self.isn.unwrap_or(0);
        let mut header = TcpHeader {
            src_port: PORT,
            dst_port: self.local_port,
            seq: first as u32,
            ack: 0,
            flags: flags.fold(TcpFlags::empty(), |all, (_, bit)| all | *bit),
            window: 1000,
            options: TcpOptions::default(),
        };
        let mut rest = words[2..].iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "ack" => header.ack = (number(rest.next().expect("a number")) as u32).wrapping_add(isn),
                "win" => header.window = number(rest.next().expect("a number")) as u16,
                list => {
                    for option in list.trim_matches(['<', '>']).split(',') {
                        self.add_option(&mut header.options, option);
                    }
                }
            }
        }
        let payload = Bytes::from(vec![0; (end - first) as usize]);
        let [local, remote] = self.case.addresses();
        Packet::new(IpHeader::new(remote, local), Transport::Tcp(header), payload)
    }

    /// `LENGTH`, or `unreachable`, which answers what was sent last.
    fn datagram(&self, word: &str) -> Packet {
        let [local, remote] = self.case.addresses();
        let (transport, payload) = if word == "unreachable" {
            let six = local.is_ipv6();
            let header = IcmpHeader { kind: if six { 1 } else { 3 }, code: if six { 4 } else { 3 }, rest: 0 };
            (if six { Transport::Icmp6(header) } else { Transport::Icmp(header) }, self.last.clone())
        } else {
            let header = UdpHeader { src_port: PORT, dst_port: PORT };
            (Transport::Udp(header), vec![0; word.parse().expect("a length")])
        };
        Packet::new(IpHeader::new(remote, local), transport, Bytes::from(payload))
    }

    fn add_option(&self, options: &mut TcpOptions, word: &str) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = |text: &str| text.parse::<u32>().unwrap_or_else(|_| panic!("{}: {word}", self.case.name()));
        match name {
            "mss" => options.mss = NonZeroU16::new(number(value) as u16),
            "ws" => options.window_scale = Some(WindowScale::new(number(value) as u8)),
            "sack" => options.sack_permitted = true,
            "ts" => {
                let (value, less) = value.split_once('-').unwrap_or((value, "0"));
                let echo = self.stamp.wrapping_sub(number(less));
                options.timestamps = Some(Timestamps { value: number(value), echo });
            }
            "blocks" => {
                let isn = self.isn.expect("blocks after a SYN");
                for block in value.split('+') {
                    let (start, end) = block.split_once(':').expect("two numbers");
                    options.sack.push(number(start).wrapping_add(isn), number(end).wrapping_add(isn));
                }
            }
            _ => panic!("{}: {word}: no option", self.case.name()),
        }
    }

    fn call(&mut self, words: &[String]) -> String {
        let Some(socket) = self.session else { return "no-socket".to_owned() };
        match self.call_of(socket, words) {
            Ok(answer) => answer,
            Err(error) => errno(error).to_owned(),
        }
    }

    fn call_of(&mut self, socket: SocketId, words: &[String]) -> Result<String, SocketError> {
        let number = |at: usize| words[at].parse::<u32>().unwrap_or_else(|_| panic!("{words:?}"));
        let (stack, now) = (&mut self.stack, self.now);
        let is_udp = self.case.has("udp");
        Ok(match words[0].as_str() {
            "write" if is_udp => {
                let [_, remote] = self.case.addresses();
                let to = (!self.case.has("connected")).then_some(SocketAddr::new(remote, PORT));
                stack.send_to(socket, Bytes::from(vec![0; number(1) as usize]), to)?.to_string()
            }
            "read" if is_udp => {
                let peek = words.iter().any(|word| word == "peek");
                let mut length = 0;
                stack.recv_from(socket, number(1) as usize, peek, &mut |bytes| {
                    length += bytes.len();
                    bytes.len()
                })?;
                length.to_string()
            }
            "write" => {
                let bytes = Bytes::from(vec![0; number(1) as usize]);
                let flag =
                    |name: &str, flag| if words.iter().any(|word| word == name) { flag } else { SendFlags::empty() };
                let how = flag("more", SendFlags::MORE) | flag("eor", SendFlags::RECORD);
                stack.send(now, socket, bytes, how)?.to_string()
            }
            "read" => {
                let peek = words.iter().any(|word| word == "peek");
                stack.recv(now, socket, number(1) as usize, peek, &mut |bytes| bytes.len())?.to_string()
            }
            "shut" => {
                let how = match words[1].as_str() {
                    "r" => Shutdown::Read,
                    "w" => Shutdown::Write,
                    _ => Shutdown::Both,
                };
                stack.shutdown(now, socket, how)?;
                "0".to_owned()
            }
            "close" => {
                if words.len() > 1 {
                    let linger = SocketOption::Linger(Some(SimDuration::from_secs(number(1).into())));
                    stack.set_option(now, socket, linger)?;
                }
                if self.socket != socket {
                    stack.close(now, self.socket);
                }
                self.session = None;
                stack.close(now, socket);
                "0".to_owned()
            }
            "opt" => {
                stack.set_option(now, socket, option(&words[1], number(2)))?;
                "0".to_owned()
            }
            "getopt" => {
                let name = match words[1].as_str() {
                    "quickack" => OptionName::QuickAck,
                    "maxseg" => OptionName::MaxSegment,
                    "rcvbuf" => OptionName::RecvBuffer,
                    "sndbuf" => OptionName::SendBuffer,
                    "rcvlowat" => OptionName::RecvLowWater,
                    other => panic!("{other}: no option that cases ask for"),
                };
                match stack.option(socket, name)? {
                    SocketOption::QuickAck(on) => u32::from(on).to_string(),
                    SocketOption::MaxSegment(number)
                    | SocketOption::RecvBuffer(number)
                    | SocketOption::SendBuffer(number)
                    | SocketOption::RecvLowWater(number) => number.to_string(),
                    other => panic!("{other:?}"),
                }
            }
            "error" => stack.take_error(socket).map_or("0", errno).to_owned(),
            "rmem" => stack.describe(now, socket).map_or(0, |listed| listed.recv_memory).to_string(),
            "inq" => stack.readable_bytes(socket).to_string(),
            "outq" => stack.unsent_and_unacknowledged(socket).to_string(),
            "outqnsd" => stack.unsent(socket).to_string(),
            "poll" => poll(stack.readiness(socket)),
            "info" => {
                let info = stack.tcp_info(now, socket)?;
                let shown = words[1].split(',').map(|name| format!("{name}={}", field(&info, name)));
                shown.collect::<Vec<_>>().join(" ")
            }
            _ => panic!("{words:?}: no call"),
        })
    }
}

fn poll(ready: Readiness) -> String {
    let names = [
        ("in", Readiness::READABLE),
        ("out", Readiness::WRITABLE),
        ("rdhup", Readiness::READ_HANGUP),
        ("hup", Readiness::HANGUP),
        ("err", Readiness::ERROR),
    ];
    let words: Vec<&str> = names.iter().filter(|(_, bit)| ready.contains(*bit)).map(|(word, _)| *word).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(",") }
}

#[test]
fn cases_go_as_on_linux() {
    let (_, cases) = table();
    // A case whose transcript is to be seen.
    let shown = std::env::var("GNOMON_CASE").ok();
    let mut wrong = 0;
    for case in &cases {
        assert!(!case.recorded.is_empty(), "{}: nothing is recorded", case.name());
        let lines = Host::new(case).play();
        if shown.as_deref() == Some(case.name()) {
            println!("{}", lines.join("\n"));
        }
        let found = differences(case, &lines, TOLERANCE_MS);
        if !found.is_empty() {
            wrong += 1;
            println!("{}:\n    {}", case.name(), found.join("\n    "));
        }
    }
    assert_eq!(wrong, 0, "of {} cases so many went another way than on Linux", cases.len());
    assert!(cases.len() >= 120, "{} cases", cases.len());
}

/// Why the machine's Linux can not be asked.
fn linux_is_missing() -> Option<&'static str> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if !is_root {
        return Some("not root");
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("no /dev/net/tun");
    }
    let works =
        Command::new("unshare").args(["--net", "ip", "link"]).output().is_ok_and(|output| output.status.success());
    (!works).then_some("no network namespace")
}

/// What the machine's Linux does with these cases, in their order; those with the same settings of the host in one network namespace.
fn ask_linux(cases: &[Case]) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<String>> = cases.iter().map(Case::settings).collect();
    groups.sort();
    groups.dedup();
    let mut answers = vec![Vec::new(); cases.len()];
    for group in groups {
        let members: Vec<usize> = (0..cases.len()).filter(|at| cases[*at].settings() == group).collect();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        for at in &members {
            file.write_all(cases[*at].text.as_bytes()).expect("room for a file");
        }
        let mut command = Command::new("unshare");
        command.args(["--net", "python3"]).arg(folder().join("linux.py")).arg(file.path());
        let output = command.args(SETTINGS).args(&group).output().expect("unshare and python3");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut current = None;
        for line in String::from_utf8(output.stdout).expect("text").lines() {
            if let Some(name) = line.strip_prefix("case ").and_then(|rest| rest.split(' ').next()) {
                current = members.iter().find(|at| cases[**at].name() == name).copied();
            } else if let Some(at) = current {
                answers[at].push(line.to_owned());
            }
        }
    }
    answers
}

fn compare_with_linux(cases: &[Case]) {
    if let Some(reason) = linux_is_missing() {
        println!("Linux is not asked: {reason}");
        return;
    }
    let mut left = cases.to_vec();
    let mut wrong = Vec::new();
    // A machine that is busy is asked again.
    for _ in 0..3 {
        let answers = ask_linux(&left);
        wrong.clear();
        let mut again = Vec::new();
        for (case, answer) in left.iter().zip(answers) {
            let found = differences(case, &answer, LINUX_TOLERANCE_MS);
            if !found.is_empty() {
                wrong.push(format!("{}:\n    {}", case.name(), found.join("\n    ")));
                again.push(case.clone());
            }
        }
        left = again;
        if left.is_empty() {
            return;
        }
    }
    panic!("Linux itself goes another way:\n{}", wrong.join("\n"));
}

#[test]
fn a_sample_goes_on_linux_as_recorded() {
    let (_, cases) = table();
    // Cheap ones: those that are over within a second and a half.
    let short = |case: &&Case| case.actions.last().is_some_and(|(at, _)| *at <= 1500.0) && case.settings().is_empty();
    let mut short: Vec<Case> = cases.iter().filter(short).cloned().collect();
    let mut rng = SeedTree::new(1).stream("scripts", "sample");
    let chosen: Vec<Case> = (0..SAMPLE).map(|_| short.swap_remove(rng.below(short.len() as u64) as usize)).collect();
    compare_with_linux(&chosen);
}

#[test]
#[ignore = "real time: make tcp-linux"]
fn all_go_on_linux_as_recorded() {
    compare_with_linux(&table().1);
}

#[test]
#[ignore = "writes the table"]
fn record() {
    if let Some(reason) = linux_is_missing() {
        panic!("Linux can not be asked: {reason}");
    }
    let (mut text, mut cases) = table();
    let new: Vec<Case> = cases.iter().filter(|case| case.recorded.is_empty()).cloned().collect();
    for (asked, answer) in new.iter().zip(ask_linux(&new)) {
        if let Some(case) = cases.iter_mut().find(|case| case.name() == asked.name()) {
            case.recorded = answer;
        }
    }
    for case in &cases {
        text += case.text.trim_end();
        for line in &case.recorded {
            text += "\n| ";
            text += line;
        }
        text += "\n\n";
    }
    std::fs::write(folder().join("cases.txt"), text.trim_end().to_owned() + "\n").expect("the table written");
}
