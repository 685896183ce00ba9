//! Pairs of connections under whatever a network does, by seeds: losses, reordering, duplicates, delays and rates that change, cuts, windows
//! that close because nobody reads. Nothing is lost, nothing is doubled, nobody waits longer than Linux's own schedule, and what must
//! always hold of a connection does after every step.

mod common;

use base::{Bandwidth, Rng, SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use common::{B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use tcpip::{CongestionControl, SendFlags, SocketError, SocketId, SocketOption};

/// One direction of a pair: what is written, and what was read of it.
#[derive(Default)]
struct Flow {
    written: u64,
    read: u64,
    last_progress: SimTime,
}

/// The byte at a place of a stream.
fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

struct Pair {
    ends: [SocketId; 2],
    /// From each end to the other.
    flows: [Flow; 2],
    total: u64,
}

impl Pair {
    fn write(&mut self, net: &mut Net, side: usize, most: u64) {
        let flow = &mut self.flows[side];
        let bytes: Vec<u8> = (flow.written..(flow.written + most).min(self.total)).map(byte_at).collect();
        if bytes.is_empty() {
            return;
        }
        match net.stacks[side].send(net.now, self.ends[side], Bytes::from(bytes), SendFlags::empty()) {
            Ok(count) => flow.written += count as u64,
            Err(SocketError::WouldBlock) => {}
            Err(error) => panic!("write: {error:?}"),
        }
    }

    fn read(&mut self, net: &mut Net, side: usize, most: usize) {
        let flow = &mut self.flows[1 - side];
        let mut place = flow.read;
        let result = net.stacks[side].recv(net.now, self.ends[side], most, false, &mut |bytes| {
            for byte in bytes {
                assert_eq!(*byte, byte_at(place), "byte {place}");
                place += 1;
            }
            bytes.len()
        });
        match result {
            Ok(_) | Err(SocketError::WouldBlock) => {}
            Err(error) => panic!("read: {error:?}"),
        }
        if place > flow.read {
            (flow.read, flow.last_progress) = (place, net.now);
        }
    }

    fn is_done(&self) -> bool {
        self.flows.iter().all(|flow| flow.read == self.total)
    }
}

/// Changes what the network does; half of the time it is a good one.
fn change(link: &mut Link, rng: &mut Rng) {
    let bad = rng.unit() < 0.5;
    let chance = |rng: &mut Rng, most: f64| if bad { rng.unit() * most } else { 0.0 };
    link.loss = chance(rng, 0.1);
    link.reorder = chance(rng, 0.1);
    link.duplicate = chance(rng, 0.05);
    link.cut = bad && rng.unit() < 0.05;
    link.latency = ms(1 + rng.below(if bad { 150 } else { 20 }));
    link.bandwidth = Bandwidth::from_bits_per_sec(1_000_000 * (1 + rng.below(100)));
    link.queue = 3_000 + rng.below(200_000);
}

/// Moves a seeded amount both ways over a network that changes all the time.
fn live_through(seed: u64) -> Lived {
    let mut rng = SeedTree::new(seed).stream("", "model");
    let bits = rng.next_u64();
    let bit = |index: u32| bits >> index & 1 == 1;
    let mut net = Net::with(Link::new(ms(20), 10, 50_000), seed, |config| {
        (config.sack, config.timestamps) = (bits & 7 != 0, bits >> 3 & 7 != 0);
        config.congestion_control = if bit(6) { CongestionControl::Cubic } else { CongestionControl::Reno };
        if bit(7) {
            (config.recv_buffer, config.recv_autotune) = (4096 + (bits >> 32 & 0xffff) as u32, false);
        }
        config.hz = if bit(8) { 1000 } else { 250 };
    });
    let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
    net.stacks[1].bind(listener, addr(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    net.stacks[1].listen(listener, 8).unwrap();
    let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
    net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
    let server = loop {
        net.idle(ms(100));
        if let Ok(server) = net.stacks[1].accept(listener) {
            break server;
        }
    };
    let begun = net.now;
    let mut pair = Pair { ends: [client, server], flows: Default::default(), total: 1 + rng.below(1_500_000) };
    // Some write little at a time, which leaves at once.
    let is_terse = bits >> 9 & 3 == 0;
    if is_terse {
        pair.total = pair.total.min(100_000);
        for side in 0..2 {
            net.stacks[side].set_option(net.now, pair.ends[side], SocketOption::NoDelay(true)).unwrap();
        }
    }
    let mut trouble_until = net.now;
    while !pair.is_done() {
        let quiet = net.now - begun > SimDuration::from_secs(120);
        for link in &mut net.links {
            if quiet {
                (link.loss, link.reorder, link.duplicate, link.cut) = (0.0, 0.0, 0.0, false);
            } else if rng.unit() < 0.1 {
                change(link, &mut rng);
            }
        }
        if net.links.iter().any(|link| link.cut || link.loss > 0.0) {
            trouble_until = net.now;
        }
        for side in 0..2 {
            if is_terse {
                for _ in 0..rng.below(8) {
                    pair.write(&mut net, side, 1 + rng.below(600));
                    net.flush();
                }
            } else if rng.unit() < 0.7 {
                pair.write(&mut net, side, 1 + rng.below(30_000));
            }
            // Sometimes nobody reads for a while.
            if quiet || rng.unit() < 0.5 {
                let most = if rng.unit() < 0.3 { 1 + rng.below(2000) as usize } else { usize::MAX };
                pair.read(&mut net, side, most);
            }
        }
        net.idle(ms(1 + rng.below(50)));
        for (side, stack) in net.stacks.iter_mut().enumerate() {
            assert_eq!(stack.flaw(), None, "seed {seed}, side {side}, {}", net.now);
        }
        // After trouble, a wait doubles at most: what was owed then comes within as long again.
        let trouble = trouble_until - begun;
        let limit = begun + trouble.saturating_mul(2).saturating_add(SimDuration::from_secs(60));
        assert!(net.now < limit.max(begun + SimDuration::from_secs(400)), "seed {seed}: stands still");
    }
    assert!(pair.flows.iter().all(|flow| flow.written == pair.total));
    let counters = net.stacks.each_ref().map(|stack| stack.tcp_counters());
    Lived {
        took: net.now - begun,
        timeouts: counters.iter().map(|counters| counters.timeouts).sum(),
        retransmitted: counters.iter().map(|counters| counters.retransmitted).sum(),
    }
}

/// What a pair met.
#[derive(Debug)]
struct Lived {
    took: SimDuration,
    timeouts: u64,
    retransmitted: u64,
}

#[test]
fn nothing_is_lost_or_doubled_whatever_the_network_does() {
    const SEEDS: u64 = 300;
    let lived: Vec<Lived> = (1..=SEEDS).map(live_through).collect();
    let sum = |count: fn(&Lived) -> u64| lived.iter().map(count).sum::<u64>();
    let (timeouts, retransmitted) = (sum(|one| one.timeouts), sum(|one| one.retransmitted));
    let longest = lived.iter().map(|one| one.took).max().unwrap();
    println!("{timeouts} timeouts, {retransmitted} retransmissions, the longest took {longest}");
    // It was not too easy.
    assert!(timeouts > SEEDS && retransmitted > 40 * SEEDS, "{timeouts} timeouts, {retransmitted} retransmissions");
}
