//! One direction of a connection of generated data.

use super::world::{Flying, World};
use probes::choices::{End, Side};
use std::collections::VecDeque;

/// Bytes that were written at once, on their way.
pub struct Burst {
    pub stream: usize,
    pub offset: u64,
    pub bytes: u64,
    pub sent: u64,
    pub segments: Vec<Flying>,
    /// Segments that were lost.
    pub missing: usize,
    /// What could be read from the socket before it.
    pub queue: u64,
}

pub struct Stream {
    pub id: u64,
    pub from: usize,
    pub to: usize,
    ports: (u64, u64),
    pub tid_from: u64,
    pub tid_to: u64,
    pub circuit: usize,
    pub hop: usize,
    /// Whether it goes from server to client.
    pub is_back: bool,
    /// The other direction.
    pub back: usize,
    pub written: u64,
    pub read: u64,
    /// Offset, bytes and time of what was written and not sent.
    pub waiting: VecDeque<(u64, u64, u64)>,
    pub in_flight: usize,
    /// What came behind a hole.
    pub held: VecDeque<Burst>,
    pub holes: usize,
    pub readable: u64,
    pub reads_at: u64,
    pub srtt: u64,
    pub told: u64,
}

impl Stream {
    pub fn new(
        world: &mut World,
        from: usize,
        to: usize,
        ports: (u64, u64),
        circuit: usize,
        hop: usize,
        back: usize,
    ) -> Stream {
        let is_back = back.is_multiple_of(2);
        // Clients have a process for each circuit, relays and servers one for all.
        let of_client = 300 + circuit as u64;
        let tid = |is_client: bool| if is_client { of_client } else { 101 };
        Stream {
            id: world.rng.next_u64() | 1,
            from,
            to,
            ports,
            tid_from: tid(hop == 0 && !is_back),
            tid_to: tid(hop == 0 && is_back),
            circuit,
            hop,
            is_back,
            back,
            written: 0,
            read: 0,
            waiting: VecDeque::new(),
            in_flight: 0,
            held: VecDeque::new(),
            holes: 0,
            readable: 0,
            reads_at: 0,
            srtt: 0,
            told: 0,
        }
    }

    /// Where bytes lie in the memory of a program: it has four buffers for each connection.
    pub fn buffer(&self, offset: u64, is_write: bool) -> u64 {
        let (host, tid) = if is_write { (self.from, self.tid_from) } else { (self.to, self.tid_to) };
        let process = 0x1000_0000_0000 + ((host as u64) << 32) + (tid << 20) + u64::from(!is_write) * 0x4000;
        process + (self.circuit as u64 * 8 + self.hop as u64) * 0x2_0000 + offset / 14_480 % 4 * 0x8000
    }

    pub fn row(&self, world: &World, side: Side, now: u64) -> probes::tables::Stream {
        let ends = [(self.from, self.ports.0), (self.to, self.ports.1)];
        let ((here, local_port), (there, remote_port)) = match side {
            Side::Writer => (ends[0], ends[1]),
            Side::Reader => (ends[1], ends[0]),
        };
        probes::tables::Stream {
            stream: self.id,
            side: side.into(),
            host: here as u64,
            protocol: 6,
            local_address: world.hosts[here].address,
            local_port,
            remote_address: world.hosts[there].address,
            remote_port,
            opened_ns: 0,
            closed_ns: now,
            bytes: if side == Side::Writer { self.written } else { self.read },
            left_bytes: 0,
            end: End::Open.into(),
        }
    }
}
