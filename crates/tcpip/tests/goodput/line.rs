//! A line with a rate, a queue, losses and a delay, and a bulk transfer over it between two stacks, in virtual time. `linux.py` is the same between
//! two kernels, rule by rule.

use base::{SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use tcpip::wire::tcp::TcpFlags;
use tcpip::{Config, Family, Packet, Readiness, SendFlags, SocketId, Stack, Transport};

const SENDER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 2);
const PORT: u16 = 5001;
const START: SimTime = SimTime::from_nanos(1_000_000_000);
/// What a program writes at once.
const CHUNK: Bytes = Bytes::from_static(&[7; 1 << 17]);

/// One place of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub mbit: u64,
    pub rtt_ms: u64,
    pub loss: f64,
    pub seconds: u64,
}

impl Cell {
    fn bits_per_second(&self) -> u64 {
        self.mbit * 1_000_000
    }

    /// Bytes that wait in front of the line at most: one bandwidth-delay product, and no less than 100 full packets.
    fn queue(&self) -> u64 {
        (self.bits_per_second() * self.rtt_ms / 8000).max(150_000)
    }

    pub fn rtt(&self) -> SimDuration {
        SimDuration::from_millis(self.rtt_ms)
    }
}

/// splitmix64 (Steele, Lea, Flood 2014), so that the same packets are lost here and in front of a kernel.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// One direction: what does not fit into the queue is dropped; losses lie behind it.
struct Line {
    bits_per_second: u64,
    delay: SimDuration,
    queue: u64,
    loss: f64,
    random: Random,
    free_at: SimTime,
    /// The first packet, which opens the connection, is never lost.
    is_first: bool,
    under_way: VecDeque<(SimTime, Packet)>,
    /// The mark of this direction, where packets are to be printed.
    trace: Option<char>,
    /// First sequence numbers: of what this line carries, and of what the other one does.
    isn: [u32; 2],
}

/// What is to be printed of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Nothing,
    /// The sender's TCP_INFO each round trip.
    States,
    Packets,
}

impl Line {
    fn new(cell: &Cell, loss: f64, seed: u64) -> Line {
        Line {
            bits_per_second: cell.bits_per_second(),
            delay: SimDuration::from_micros(cell.rtt_ms * 500),
            queue: cell.queue(),
            loss,
            random: Random(seed),
            free_at: SimTime::ZERO,
            is_first: true,
            under_way: VecDeque::new(),
            trace: None,
            isn: [0; 2],
        }
    }

    fn offer(&mut self, now: SimTime, packet: Packet) {
        let length = packet.wire_len() as u64;
        let waiting = self.free_at.saturating_since(now).as_nanos();
        let waiting = u128::from(waiting) * u128::from(self.bits_per_second) / 8_000_000_000;
        if waiting as u64 + length > self.queue {
            self.show(now, &packet, " dropped");
            return;
        }
        let takes = SimDuration::from_nanos((length * 8_000_000_000).div_ceil(self.bits_per_second));
        self.free_at = self.free_at.max(now) + takes;
        let is_first = std::mem::replace(&mut self.is_first, false);
        if self.loss > 0.0 && !is_first && self.random.unit() < self.loss {
            self.show(now, &packet, " lost");
            return;
        }
        self.show(now, &packet, "");
        self.under_way.push_back((self.free_at + self.delay, packet));
    }

    fn show(&mut self, now: SimTime, packet: &Packet, fate: &str) {
        let (Some(mark), Transport::Tcp(header)) = (self.trace, &packet.transport) else { return };
        if header.flags.contains(TcpFlags::SYN) {
            self.isn = [header.seq, 0];
        }
        if header.flags.contains(TcpFlags::ACK) && self.isn[1] == 0 {
            self.isn[1] = header.ack.wrapping_sub(1);
        }
        let first = header.seq.wrapping_sub(self.isn[0]);
        let push = if header.flags.contains(TcpFlags::PSH) { " P" } else { "" };
        println!(
            "{:.3} {mark} {first}:{} ack {} win {} opt {}{push}{fate}",
            now.saturating_since(START).as_nanos() as f64 / 1e6,
            first + packet.payload.len() as u32,
            if header.ack == 0 { 0 } else { header.ack.wrapping_sub(self.isn[1]) },
            header.window,
            header.options.len(),
        );
    }

    fn take_from(&mut self, now: SimTime, stack: &mut Stack) {
        while let Some(packet) = stack.poll_transmit(now) {
            self.offer(now, packet);
        }
    }

    fn next(&self) -> Option<SimTime> {
        self.under_way.front().map(|(at, _)| *at)
    }
}

/// A sender that writes whenever it may, and a receiver that reads whatever comes.
struct Transfer {
    now: SimTime,
    sender: Stack,
    receiver: Stack,
    there: Line,
    back: Line,
    client: SocketId,
    server: Option<SocketId>,
    got: u64,
    /// When the first bytes were written.
    began: Option<SimTime>,
}

/// Bytes that the receiving program has read so long after the sending one's first write.
pub fn transfer(cell: &Cell, seed: u64, show: Show) -> u64 {
    let mut transfer = Transfer::new(cell, seed, show);
    let length = SimDuration::from_secs(cell.seconds);
    let mut next_trace = SimTime::ZERO;
    loop {
        let end = transfer.began.map_or(SimTime::MAX, |began| began + length);
        let next = transfer.next().min(end);
        if show == Show::States && next > next_trace && transfer.began.is_some() {
            next_trace = next + cell.rtt();
            transfer.show();
        }
        transfer.now = transfer.now.max(next);
        transfer.carry();
        if transfer.now >= end {
            return transfer.got;
        }
    }
}

impl Transfer {
    fn new(cell: &Cell, seed: u64, show: Show) -> Transfer {
        let seeds = SeedTree::new(seed);
        let stack = |ip, name| {
            let mut config = Config::new(ip);
            // As TUN, and with the settings of linux.py.
            config.orphans_packets = true;
            (config.recv_buffer_max, config.recv_argument_max) = (6_291_456, 212_992);
            Stack::new(config, seeds.stream(name, "stack"))
        };
        let (mut sender, mut receiver) = (stack(SENDER, "sender"), stack(RECEIVER, "receiver"));
        let listener = receiver.tcp_socket(Family::V4);
        let place = SocketAddr::from((RECEIVER, PORT));
        receiver.bind(listener, place).expect("a free port");
        receiver.listen(listener, 1).expect("a bound socket");
        let client = sender.tcp_socket(Family::V4);
        let now = START;
        sender.connect(now, client, place).expect("a way");
        let (mut there, mut back) = (Line::new(cell, cell.loss, seed), Line::new(cell, 0.0, 0));
        if show == Show::Packets {
            (there.trace, back.trace) = (Some('>'), Some('<'));
        }
        let mut transfer = Transfer { now, sender, receiver, there, back, client, server: None, got: 0, began: None };
        transfer.there.take_from(now, &mut transfer.sender);
        while transfer.server.is_none() {
            transfer.now = transfer.next();
            transfer.carry();
            transfer.server = transfer.receiver.accept(listener).ok();
        }
        transfer
    }

    /// When something happens next.
    fn next(&self) -> SimTime {
        let lines = self.there.next().into_iter().chain(self.back.next());
        let timers = self.sender.next_deadline().into_iter().chain(self.receiver.next_deadline());
        lines.chain(timers).min().unwrap_or(SimTime::MAX)
    }

    /// Does what is due: packet by packet, each with all that it causes.
    fn carry(&mut self) {
        let now = self.now;
        self.sender.handle_timers(now);
        self.receiver.handle_timers(now);
        self.collect();
        while self.there.next().is_some_and(|at| at <= now) {
            if let Some((_, packet)) = self.there.under_way.pop_front() {
                self.receiver.receive(now, packet);
            }
            self.read();
            self.collect();
        }
        while self.back.next().is_some_and(|at| at <= now) {
            if let Some((_, packet)) = self.back.under_way.pop_front() {
                self.sender.receive(now, packet);
            }
            self.write();
            self.collect();
        }
    }

    fn collect(&mut self) {
        self.there.take_from(self.now, &mut self.sender);
        self.back.take_from(self.now, &mut self.receiver);
    }

    fn read(&mut self) {
        while self.receiver.poll_event().is_some() {}
        if let Some(server) = self.server {
            self.got +=
                self.receiver.recv(self.now, server, usize::MAX, false, &mut |bytes| bytes.len()).unwrap_or(0) as u64;
        }
    }

    fn write(&mut self) {
        let mut is_writable = false;
        while let Some((_, ready)) = self.sender.poll_event() {
            is_writable |= ready.contains(Readiness::WRITABLE);
        }
        if is_writable {
            self.began.get_or_insert(self.now);
            while self.sender.send(self.now, self.client, CHUNK, SendFlags::empty()).is_ok() {}
        }
    }

    fn show(&mut self) {
        let at = self.began.map_or(0.0, |began| self.now.saturating_since(began).as_nanos() as f64 / 1e9);
        let Ok(info) = self.sender.tcp_info(self.now, self.client) else { return };
        println!(
            "# {at:.6} state {} cwnd {} ssthresh {} unacked {} sacked {} lost {} retrans {} total {} rtt {} rttvar {} rto {} snd_wnd {} notsent {} \
             reordering {} got {}",
            info.ca_state,
            info.snd_cwnd,
            info.snd_ssthresh,
            info.unacked,
            info.sacked,
            info.lost,
            info.retrans,
            info.total_retrans,
            info.rtt.as_nanos() / 1000,
            info.rttvar.as_nanos() / 1000,
            info.rto.as_nanos() / 1000,
            info.snd_wnd,
            info.notsent_bytes,
            info.reordering,
            self.got
        );
    }
}
