//! The hosts of generated data, their lines, and packets on their way.

use super::tally::Tally;
use crate::identity::number;
use base::seed::{Rng, SeedTree};
use probes::choices::{Layer, ReceivedFate, SentFate};
use probes::tables::{HostName, Received, Sent};
use probes::{Level, Rows};
use std::net::{IpAddr, Ipv4Addr};

/// The line of the relay that is slow.
const SLOW_BITS: u64 = 1_000_000;

/// What a host is there for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Client,
    Relay,
    Server,
}

pub struct Host {
    pub name: String,
    pub role: Role,
    pub address: IpAddr,
    pub up_bits: u64,
    pub down_bits: u64,
    /// When its lines have carried what they were given.
    up_free: u64,
    down_free: u64,
    /// What has been numbered.
    packets: u64,
    writes: u64,
    reads: u64,
    wakes: u64,
    /// Where it is, for latencies.
    place: (f64, f64),
}

/// A packet that is to be made.
#[derive(Clone, Copy, Default)]
pub struct Draft {
    pub from: usize,
    pub to: usize,
    pub parent: u64,
    pub copy_of: u64,
    pub quotes: u64,
    pub stream: u64,
    pub offset: u64,
    pub payload: u64,
    pub header: u64,
    pub protocol: u64,
    pub flags: u64,
    /// When its last byte was written.
    pub written: u64,
}

/// A packet that was made and left.
#[derive(Clone, Copy, Debug)]
pub struct Flying {
    pub packet: u64,
    pub to: usize,
    pub offset: u64,
    pub payload: u64,
    pub bytes: u64,
    /// When its last bit left, how many bytes were before it, and how long its route is.
    pub left: u64,
    pub queue: u64,
    pub route: u64,
    /// When it reaches the last router; None if it was lost.
    pub arrives: Option<u64>,
    /// When its host has it, as soon as that is known.
    pub has: u64,
    pub downlink: u64,
    /// When nothing before its end was missing; 0 while that is not known.
    pub whole: u64,
}

pub struct World {
    pub hosts: Vec<Host>,
    pub rng: Rng,
    pub level: Level,
    pub rows: Rows,
    pub tally: Tally,
    pub made: u64,
    /// The share of packets that the network loses, in parts of 2^64.
    loss: u64,
}

impl World {
    pub fn new(seed: u64, hosts: usize, loss: f64, slow: bool, level: Level) -> World {
        let mut rng = SeedTree::new(seed).stream("", "generated provenance");
        let (clients, relays) = (hosts / 2, hosts * 2 / 5);
        let mut made = Vec::new();
        for host in 0..hosts {
            let (role, count) = match host {
                _ if host < clients => (Role::Client, host),
                _ if host < clients + relays => (Role::Relay, host - clients),
                _ => (Role::Server, host - clients - relays),
            };
            let (word, up, down) = match role {
                Role::Client => ("client", 10 + rng.below(30), 50 + rng.below(100)),
                Role::Relay => ("relay", 20 + rng.below(300), 20 + rng.below(300)),
                Role::Server => ("server", 1000, 1000),
            };
            let is_slow = slow && role == Role::Relay && count == 2;
            let bits = |megabits: u64| if is_slow { SLOW_BITS } else { megabits * 1_000_000 };
            made.push(Host {
                name: format!("{word}{}", count + 1),
                role,
                address: IpAddr::V4(Ipv4Addr::from(0x0b00_0001 + host as u32)),
                up_bits: bits(up),
                down_bits: bits(down),
                up_free: 0,
                down_free: 0,
                packets: 0,
                writes: 0,
                reads: 0,
                wakes: 0,
                place: (rng.unit(), rng.unit()),
            });
        }
        let loss = (loss.clamp(0.0, 0.5) * 2f64.powi(64)) as u64;
        World { hosts: made, rng, level, rows: Rows::default(), tally: Tally::default(), made: 0, loss }
    }

    /// As the record names them.
    pub fn names(&self) -> Vec<HostName> {
        let name = |(place, host): (usize, &Host)| HostName {
            host: place as u64,
            name: host.name.clone(),
            address: host.address,
            up_bits: host.up_bits,
            down_bits: host.down_bits,
        };
        self.hosts.iter().enumerate().map(name).collect()
    }

    /// Any host of a role but those of `not`.
    pub fn any(&mut self, role: Role, not: &[usize]) -> usize {
        loop {
            let host = self.rng.below(self.hosts.len() as u64) as usize;
            if self.hosts[host].role == role && !not.contains(&host) {
                return host;
            }
        }
    }

    /// Some milliseconds, always the same between two hosts.
    pub fn route(&self, from: usize, to: usize) -> u64 {
        let (a, b) = (self.hosts[from].place, self.hosts[to].place);
        let distance = (a.0 - b.0).hypot(a.1 - b.1);
        2_000_000 + (distance * 80.0).round() as u64 * 500_000
    }

    fn chance(&mut self, parts: u64) -> bool {
        self.rng.next_u64() < parts
    }

    pub fn write_id(&mut self, host: usize) -> u64 {
        self.hosts[host].writes += 1;
        number(host as u64, self.hosts[host].writes)
    }

    pub fn read_id(&mut self, host: usize) -> u64 {
        self.hosts[host].reads += 1;
        number(host as u64, self.hosts[host].reads)
    }

    pub fn wake_id(&mut self, host: usize) -> u64 {
        self.hosts[host].wakes += 1;
        number(host as u64, self.hosts[host].wakes)
    }

    fn packet_id(&mut self, host: usize) -> u64 {
        self.made += 1;
        self.hosts[host].packets += 1;
        number(host as u64, self.hosts[host].packets)
    }

    /// The number of a datagram that is too large and goes in fragments.
    pub fn begin_fragments(&mut self, from: usize) -> u64 {
        self.packet_id(from)
    }

    /// That datagram has left with the last of its fragments.
    pub fn end_fragments(&mut self, draft: &Draft, packet: u64, now: u64, fragments: &[Flying]) {
        let (Some(first), Some(last)) = (fragments.first(), fragments.last()) else { return };
        self.sent(draft, packet, now, last.left - now, first.queue, last.route, SentFate::Fragmented);
    }

    /// Makes a packet, which leaves at once or stands in the queue.
    pub fn make(&mut self, draft: &Draft, now: u64) -> Flying {
        let packet = self.packet_id(draft.from);
        let bytes = draft.payload + draft.header;
        let host = &mut self.hosts[draft.from];
        let waits = host.up_free.saturating_sub(now);
        let queue = (u128::from(waits) * u128::from(host.up_bits) / 8_000_000_000) as u64;
        let left = now + waits + bytes * 8_000_000_000 / host.up_bits;
        host.up_free = left;
        let lost = self.chance(self.loss);
        let (route, fate) = match lost {
            true => (0, SentFate::Lost),
            false => (self.route(draft.from, draft.to), SentFate::Carried),
        };
        self.sent(draft, packet, now, left - now, queue, route, fate);
        let from = draft.from as u64;
        self.tally.layer(from, Layer::Socket, now, now - draft.written.min(now), bytes);
        self.tally.layer(from, Layer::Uplink, left, left - now, bytes);
        self.tally.link(from, draft.to as u64, left, bytes, lost);
        let arrives = (!lost).then_some(left + route);
        if !lost {
            self.tally.layer(from, Layer::Route, left + route, route, bytes);
        }
        Flying {
            packet,
            to: draft.to,
            left,
            queue,
            route,
            // A datagram's place is its own number.
            offset: if draft.protocol == 17 && draft.parent == 0 { packet } else { draft.offset },
            payload: draft.payload,
            bytes,
            arrives,
            has: 0,
            downlink: 0,
            whole: 0,
        }
    }

    fn sent(&mut self, draft: &Draft, packet: u64, now: u64, uplink: u64, queue: u64, route: u64, fate: SentFate) {
        if self.level < Level::Packets {
            return;
        }
        self.rows.sent.push(Sent {
            packet,
            parent: draft.parent,
            copy_of: draft.copy_of,
            quotes: draft.quotes,
            stream: draft.stream,
            // A datagram's place is its own number.
            offset: if draft.protocol == 17 && draft.parent == 0 { packet } else { draft.offset },
            payload: draft.payload,
            bytes: draft.payload + draft.header,
            protocol: draft.protocol,
            flags: draft.flags,
            to_host: draft.to as u64,
            made_ns: now,
            socket_ns: now - draft.written.min(now),
            uplink_ns: uplink,
            uplink_queue_bytes: queue,
            route_ns: route,
            fate: fate.into(),
        });
    }

    /// The host's line brings a packet that has arrived.
    pub fn bring(&mut self, flying: &mut Flying) {
        let arrived = flying.arrives.expect("only what was not lost");
        let host = &mut self.hosts[flying.to];
        let has = arrived.max(host.down_free) + flying.bytes * 8_000_000_000 / host.down_bits;
        host.down_free = has;
        flying.has = has;
        flying.downlink = has - arrived;
        self.tally.layer(flying.to as u64, Layer::Downlink, has, has - arrived, flying.bytes);
    }

    /// What has become of a packet that was brought: nothing before it was missing from `whole` on, and it was read at `read_at`.
    pub fn received(&mut self, flying: &Flying, whole: u64, read_at: u64, queue: u64, read: u64, fate: ReceivedFate) {
        let (host, reassembly, waited) = (flying.to as u64, whole - flying.has, read_at - whole);
        self.tally.layer(host, Layer::Reassembly, whole, reassembly, flying.bytes);
        self.tally.layer(host, Layer::ReceiveQueue, read_at, waited, flying.bytes);
        if self.level < Level::Packets {
            return;
        }
        self.rows.received.push(Received {
            packet: flying.packet,
            host,
            arrived_ns: flying.arrives.unwrap_or(0),
            downlink_ns: flying.downlink,
            reassembly_ns: reassembly,
            receive_queue_ns: waited,
            receive_queue_bytes: queue,
            read: if self.level >= Level::All { read } else { 0 },
            fate: fate.into(),
        });
    }
}
