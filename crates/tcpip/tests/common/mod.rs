//! Two stacks and a wire between them in virtual time: latency, bandwidth with a drop-tail queue, seeded loss, reordering and
//! duplication.
#![allow(dead_code, reason = "each test file uses its part")]

use base::{Bandwidth, Rng, SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tcpip::{Config, Packet, Readiness, SendFlags, SocketError, SocketId, Stack};

pub const A: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
pub const B: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 2);

/// The IPv6 addresses of the same hosts.
pub const A6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6e, 0, 0, 0, 0, 0x0b00, 1);
pub const B6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x6e, 0, 0, 0, 0, 0x0b00, 2);

pub fn addr(ip: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(ip.into(), port)
}

pub fn ms(ms: u64) -> SimDuration {
    SimDuration::from_millis(ms)
}

pub fn at_ms(ms: u64) -> SimTime {
    SimTime::from_nanos(ms * 1_000_000)
}

/// One direction of the wire. Probabilities between 0 and 1.
#[derive(Clone, Copy)]
pub struct Link {
    pub latency: SimDuration,
    pub bandwidth: Bandwidth,
    /// Bytes that may wait; more are dropped.
    pub queue: u64,
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    pub cut: bool,
    /// The sender's interface asks for packets only while the queue has room, so that nothing overflows.
    pub backpressure: bool,
    /// The sender hears of what finds the queue full (NET_XMIT_DROP).
    pub refuses: bool,
    pub busy_until: SimTime,
}

impl Link {
    pub fn new(latency: SimDuration, mbit: u64, queue: u64) -> Self {
        Link {
            latency,
            bandwidth: Bandwidth::from_bits_per_sec(mbit * 1_000_000),
            queue,
            loss: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            cut: false,
            backpressure: false,
            refuses: false,
            busy_until: SimTime::ZERO,
        }
    }
}

pub struct Net {
    pub now: SimTime,
    pub stacks: [Stack; 2],
    pub links: [Link; 2],
    wire: BTreeMap<(SimTime, u64), (usize, Packet)>,
    sequence: u64,
    rng: Rng,
    pub events: [Vec<(SocketId, Readiness)>; 2],
    /// Every packet that entered the wire: when, from whom, its headers.
    pub trace: Option<Vec<(SimTime, usize, Packet)>>,
    /// Packets dropped by full queues.
    pub overflowed: u64,
}

impl Net {
    pub fn new(link: Link, seed: u64) -> Self {
        Net::with(link, seed, |_| {})
    }

    pub fn with(link: Link, seed: u64, tune: impl Fn(&mut Config)) -> Self {
        let seeds = SeedTree::new(seed);
        let stack = |ip, name: &str| {
            let mut config = Config::new(ip);
            config.address6 = Some(if ip == A { A6 } else { B6 });
            tune(&mut config);
            Stack::new(config, seeds.stream(name, "stack"))
        };
        Net {
            now: SimTime::from_nanos(1_000_000_000),
            stacks: [stack(A, "a"), stack(B, "b")],
            links: [link; 2],
            wire: BTreeMap::new(),
            sequence: 0,
            rng: seeds.stream("", "wire"),
            events: [Vec::new(), Vec::new()],
            trace: None,
            overflowed: 0,
        }
    }

    /// Moves what the stacks have to send onto the wire, and collects events.
    pub fn flush(&mut self) {
        for side in 0..2 {
            self.stacks[side].run_loopback(self.now);
            if self.links[side].refuses {
                self.offer(side);
            }
            while self.has_room(side)
                && let Some(packet) = self.stacks[side].poll_transmit(self.now)
            {
                self.transmit(side, packet);
            }
            while let Some(event) = self.stacks[side].poll_event() {
                self.events[side].push(event);
            }
        }
    }

    /// Bytes that wait in this direction's queue.
    fn backlog(&self, side: usize) -> u64 {
        let link = &self.links[side];
        let waiting = link.busy_until.saturating_since(self.now).as_nanos();
        (u128::from(waiting) * u128::from(link.bandwidth.bits_per_sec()) / 8_000_000_000) as u64
    }

    fn has_room(&self, side: usize) -> bool {
        !self.links[side].backpressure || self.backlog(side) + 1500 <= self.links[side].queue
    }

    /// Puts whole trains into the queue, or tells that there is no room for one.
    fn offer(&mut self, side: usize) {
        while let Some(departing) = self.stacks[side].poll_departure() {
            let tcpip::Departing { mut packet, flow, truesize, .. } = departing;
            if self.backlog(side) + packet.wire_len() as u64 > self.links[side].queue {
                self.overflowed += packet.segments() as u64;
                self.stacks[side].refused(self.now, flow, &packet, truesize);
                continue;
            }
            while let Some(first) = packet.split_first() {
                self.transmit(side, first);
            }
            self.transmit(side, *packet);
            if let Some(flow) = flow {
                self.stacks[side].transmitted(self.now, flow, truesize);
            }
        }
    }

    fn transmit(&mut self, side: usize, packet: Packet) {
        if let Some(trace) = &mut self.trace {
            trace.push((self.now, side, packet.clone()));
        }
        let backlog = self.backlog(side);
        let link = &mut self.links[side];
        if backlog + packet.wire_len() as u64 > link.queue {
            self.overflowed += 1;
            return;
        }
        link.busy_until = link.busy_until.max(self.now) + link.bandwidth.transmission_time(packet.wire_len() as u64);
        let mut arrival = link.busy_until + link.latency;
        if link.cut || self.rng.unit() < link.loss {
            return;
        }
        if self.rng.unit() < link.reorder {
            arrival += SimDuration::from_nanos(self.rng.below(link.latency.as_nanos().max(1)));
        }
        let copies = 1 + usize::from(self.rng.unit() < link.duplicate);
        for _ in 0..copies {
            self.wire.insert((arrival, self.sequence), (1 - side, packet.clone()));
            self.sequence += 1;
        }
    }

    /// When something happens next.
    pub fn next(&self) -> Option<SimTime> {
        let wire = self.wire.first_key_value().map(|((at, _), _)| *at);
        let drained = (0..2)
            .filter(|side| !self.has_room(*side) && self.stacks[*side].wants_transmit())
            .map(|side| self.now + self.links[side].bandwidth.transmission_time(1500))
            .min();
        [wire, drained, self.stacks[0].next_deadline(), self.stacks[1].next_deadline()].into_iter().flatten().min()
    }

    /// Handles everything that is due at the next moment, if that is not after `limit`.
    pub fn step(&mut self, limit: SimTime) -> bool {
        self.flush();
        let Some(next) = self.next().filter(|next| *next <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now
        {
            let (side, packet) = entry.remove();
            self.stacks[side].receive(self.now, packet);
        }
        for stack in &mut self.stacks {
            stack.handle_timers(self.now);
        }
        self.flush();
        true
    }

    /// Runs for `duration`; `app` acts after each moment.
    pub fn run(&mut self, duration: SimDuration, mut app: impl FnMut(&mut Net)) {
        let limit = self.now + duration;
        app(self);
        while self.step(limit) {
            app(self);
        }
    }

    pub fn idle(&mut self, duration: SimDuration) {
        self.run(duration, |_| {});
    }

    /// B listens on port 80, A connects; gives both ends.
    pub fn establish(&mut self) -> (SocketId, SocketId) {
        let (client, listener) = self.start_connect(80);
        self.idle(SimDuration::from_secs(5));
        let server = self.stacks[1].accept(listener).expect("no connection to accept");
        self.stacks[1].close(self.now, listener);
        (client, server)
    }

    pub fn start_connect(&mut self, port: u16) -> (SocketId, SocketId) {
        let listener = self.stacks[1].tcp_socket(tcpip::Family::V4);
        self.stacks[1].bind(listener, addr(Ipv4Addr::UNSPECIFIED, port)).unwrap();
        self.stacks[1].listen(listener, 16).unwrap();
        let client = self.stacks[0].tcp_socket(tcpip::Family::V4);
        self.stacks[0].connect(self.now, client, addr(B, port)).unwrap();
        (client, listener)
    }

    pub fn send(&mut self, side: usize, id: SocketId, bytes: &'static [u8]) -> Result<usize, SocketError> {
        let sent = self.stacks[side].send(self.now, id, Bytes::from_static(bytes), SendFlags::empty());
        self.flush();
        sent
    }

    pub fn recv(&mut self, side: usize, id: SocketId, max: usize) -> Result<Vec<u8>, SocketError> {
        let mut out = Vec::new();
        self.stacks[side].recv(self.now, id, max, false, &mut |bytes| {
            out.extend_from_slice(bytes);
            bytes.len()
        })?;
        self.flush();
        Ok(out)
    }

    pub fn state(&mut self, side: usize, id: SocketId) -> tcpip::TcpState {
        let now = self.now;
        self.stacks[side].tcp_info(now, id).unwrap().state
    }
}

/// The byte at position `i` of every test stream.
pub fn pattern(i: u64) -> u8 {
    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Writes a stream of the pattern as fast as the socket takes it.
pub struct Writer {
    pub side: usize,
    pub id: SocketId,
    pub sent: u64,
    pub total: u64,
    pub chunk: usize,
    pub shut: bool,
}

impl Writer {
    pub fn new(side: usize, id: SocketId, total: u64) -> Self {
        Writer { side, id, sent: 0, total, chunk: 128 * 1024, shut: false }
    }

    pub fn run(&mut self, net: &mut Net) {
        let stack = &mut net.stacks[self.side];
        while self.sent < self.total {
            let space = stack.send_space(self.id).min(self.chunk).min((self.total - self.sent) as usize);
            if space == 0 {
                return;
            }
            let bytes: Vec<u8> = (self.sent..self.sent + space as u64).map(pattern).collect();
            match stack.send(net.now, self.id, bytes.into(), SendFlags::empty()) {
                Ok(sent) => self.sent += sent as u64,
                Err(SocketError::WouldBlock) => return,
                Err(error) => panic!("send: {error}"),
            }
        }
        if !self.shut {
            self.shut = true;
            stack.shutdown(net.now, self.id, tcpip::Shutdown::Write).unwrap();
        }
    }
}

/// Reads and checks such a stream.
pub struct Reader {
    pub side: usize,
    pub id: SocketId,
    pub got: u64,
    pub done: bool,
}

impl Reader {
    pub fn new(side: usize, id: SocketId) -> Self {
        Reader { side, id, got: 0, done: false }
    }

    pub fn run(&mut self, net: &mut Net) {
        let got = &mut self.got;
        let mut check = |bytes: &[u8]| {
            for byte in bytes {
                assert_eq!(*byte, pattern(*got), "byte {got} is wrong");
                *got += 1;
            }
            bytes.len()
        };
        while !self.done {
            match net.stacks[self.side].recv(net.now, self.id, usize::MAX, false, &mut check) {
                Ok(0) => self.done = true,
                Ok(_) => {}
                Err(SocketError::WouldBlock) => return,
                Err(error) => panic!("recv: {error}"),
            }
        }
    }
}
