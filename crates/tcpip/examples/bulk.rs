//! Measures what both stacks together cost for one bulk flow in memory: 1.12 GB between two hosts, no guests, no engine.
//! `cargo run --release -p tcpip --example bulk [megabytes]`

use base::wall::WallClock;
use base::{SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use tcpip::{Config, Packet, SendFlags, Stack};

const A: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 2);
const LATENCY: SimDuration = SimDuration::from_millis(10);
/// 1500 bytes at 1 Gbit/s.
const SPACING: SimDuration = SimDuration::from_nanos(12_000);

/// A wire of constant latency and packet rate.
struct Wire {
    packets: VecDeque<(SimTime, Packet)>,
    free_at: SimTime,
    count: u64,
}

impl Wire {
    fn pull(&mut self, now: SimTime, stack: &mut Stack) {
        while self.free_at <= now {
            let Some(packet) = stack.poll_transmit(now) else { return };
            self.free_at = self.free_at.max(now) + SPACING;
            self.packets.push_back((self.free_at + LATENCY, packet));
            self.count += 1;
        }
    }

    fn push(&mut self, now: SimTime, stack: &mut Stack) {
        while let Some((at, _)) = self.packets.front()
            && *at <= now
        {
            if let Some((_, packet)) = self.packets.pop_front() {
                stack.receive(now, packet);
            }
        }
    }

    /// When something happens to this wire next.
    fn next(&self, stack: &Stack) -> SimTime {
        let arrival = self.packets.front().map_or(SimTime::MAX, |(at, _)| *at);
        if stack.wants_transmit() { arrival.min(self.free_at) } else { arrival }
    }
}

fn main() {
    let megabytes: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1120);
    let total = megabytes * 1_000_000;
    let seeds = SeedTree::new(1);
    let mut a = Stack::new(Config::new(A), seeds.stream("a", "stack"));
    let mut b = Stack::new(Config::new(B), seeds.stream("b", "stack"));
    let wire = || Wire { packets: VecDeque::new(), free_at: SimTime::ZERO, count: 0 };
    let (mut to_b, mut to_a) = (wire(), wire());
    let listener = b.tcp_socket(tcpip::Family::V4);
    b.bind(listener, SocketAddr::from((B, 80))).expect("bind");
    b.listen(listener, 1).expect("listen");
    let client = a.tcp_socket(tcpip::Family::V4);
    let mut now = SimTime::ZERO;
    a.connect(now, client, SocketAddr::from((B, 80))).expect("connect");
    let chunk = Bytes::from(vec![0x5a; 128 * 1024]);
    let (mut server, mut sent, mut got, mut writable) = (None, 0u64, 0u64, false);
    let clock = WallClock::start();
    while got < total {
        to_b.pull(now, &mut a);
        to_a.pull(now, &mut b);
        let next = to_b.next(&a).min(to_a.next(&b));
        let timers = [a.next_deadline(), b.next_deadline()].into_iter().flatten().min().unwrap_or(SimTime::MAX);
        now = now.max(next.min(timers));
        to_b.push(now, &mut b);
        to_a.push(now, &mut a);
        if timers <= now {
            a.handle_timers(now);
            b.handle_timers(now);
        }
        while let Some((_, ready)) = a.poll_event() {
            writable |= ready.contains(tcpip::Readiness::WRITABLE);
        }
        let mut readable = false;
        while let Some((_, ready)) = b.poll_event() {
            readable |= ready.contains(tcpip::Readiness::READABLE);
        }
        if server.is_none() {
            server = b.accept(listener).ok();
        }
        if let (Some(id), true) = (server, readable) {
            got += b.recv(now, id, usize::MAX, false, &mut |bytes| bytes.len()).unwrap_or(0) as u64;
        }
        // As a blocking writer does: writes of 128 KiB until the buffer is full, then it sleeps until it is woken.
        while writable && sent < total {
            match a.send(now, client, chunk.clone(), SendFlags::empty()) {
                Ok(n) => sent += n as u64,
                Err(_) => writable = false,
            }
        }
    }
    let elapsed = clock.elapsed().as_secs_f64();
    let info = a.tcp_info(now, client).expect("info");
    println!(
        "{megabytes} MB, {} data segments and {} acknowledgements, {} simulated: {elapsed:.3} s wall, {:.0} ns per data \
         segment for both stacks; cwnd {}, {} retransmitted",
        to_b.count,
        to_a.count,
        now,
        elapsed * 1e9 / to_b.count as f64,
        info.snd_cwnd,
        info.total_retrans,
    );
}
