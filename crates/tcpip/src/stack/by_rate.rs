//! For tests alone: an algorithm of another kind than the product has, which shows that the [`Controller`] has room for one (BBR, say). It paces
//! by the delivery rate, keeps two bandwidth-delay products in flight, and takes a loss for no sign of anything. Recovery does not know it.

use super::Stack;
use crate::config::{Config, CongestionControl};
use crate::packet::Packet;
use crate::socket::{SendFlags, SocketId};
use crate::tcp::connection::Connection;
use crate::tcp::controller::{Acked, Algorithm, Controller, INITIAL_WINDOW, Phase, Steering};
use crate::tcp::info::TcpInfo;
use base::{Rng, SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::sync::{Arc, Mutex};

/// For so many round trips a rate counts.
const ROUNDS: u64 = 10;

/// What the algorithm was told.
#[derive(Debug, Default)]
struct Told {
    losses: u32,
    undone: u32,
    timeouts: u32,
    phases: Vec<Phase>,
}

#[derive(Debug, Default)]
struct ByRate {
    told: Arc<Mutex<Told>>,
    /// The highest rate of each of the last rounds, in bytes per second.
    rates: BTreeMap<u64, u64>,
    round: u64,
    round_end: u64,
    shortest: Option<SimDuration>,
    /// The rate at which the pipe was last seen to be wider than before, and since when it was not.
    widest: u64,
    wide_since: u64,
}

impl ByRate {
    fn take(&mut self, acked: &Acked) {
        if acked.una > self.round_end {
            (self.round, self.round_end) = (self.round + 1, acked.nxt);
        }
        if let Some(rtt) = acked.rtt {
            self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        }
        if let Some(rate) = acked.rate.map(|rate| rate.bytes_per_second(acked.pipe.mss)) {
            let highest = self.rates.entry(self.round).or_default();
            *highest = rate.max(*highest);
        }
        self.rates.retain(|round, _| round + ROUNDS > self.round);
        let rate = self.rate();
        if rate > self.widest + self.widest / 4 {
            (self.widest, self.wide_since) = (rate, self.round);
        }
    }

    fn rate(&self) -> u64 {
        self.rates.values().copied().max().unwrap_or(0)
    }

    /// As long as the pipe grows: faster by a factor that doubles the window in a round trip. Then, now and then, a little faster and slower.
    fn gain_percent(&self) -> u64 {
        match self.round % 8 {
            _ if self.round < self.wide_since + 3 => 289,
            0 => 125,
            1 => 75,
            _ => 100,
        }
    }
}

impl Algorithm for ByRate {
    fn threshold(&mut self, steering: &Steering) -> u32 {
        steering.ssthresh
    }

    fn timed_out(&mut self, _now: SimTime, _nxt: u64) {
        self.told.lock().unwrap().timeouts += 1;
    }

    fn undone(&mut self, steering: &Steering, prior: u32) -> u32 {
        self.told.lock().unwrap().undone += 1;
        steering.cwnd.max(prior)
    }

    fn rules(&self) -> bool {
        true
    }

    fn rule(&mut self, steering: &mut Steering, acked: &Acked) {
        self.take(acked);
        let mut told = self.told.lock().unwrap();
        told.losses += acked.lost;
        if told.phases.last() != Some(&acked.phase) {
            told.phases.push(acked.phase);
        }
        let Some(shortest) = self.shortest.filter(|_| self.rate() > 0) else { return };
        steering.pacing_rate = NonZero::new(self.rate() * self.gain_percent() / 100);
        let product =
            u128::from(self.rate()) * u128::from(shortest.as_nanos()) / 1_000_000_000 / u128::from(acked.pipe.mss);
        let target = (2 * product as u32).max(INITIAL_WINDOW);
        // After a timeout, what is delivered says how fast the window comes back.
        steering.cwnd = target.min(steering.cwnd + acked.delivered);
    }
}

const RTT: SimDuration = SimDuration::from_millis(40);
const RATE: u64 = 20_000_000;

/// Two stacks and a line of 20 Mbit/s with a queue of one bandwidth-delay product, and losses on the way there.
struct Pair {
    now: SimTime,
    stacks: [Stack; 2],
    ends: [SocketId; 2],
    wire: BTreeMap<(SimTime, u64), (usize, Packet)>,
    number: u64,
    free_at: [SimTime; 2],
    rng: Rng,
    loss: f64,
    /// Nothing gets there meanwhile.
    outage: (SimTime, SimTime),
    /// By so much the way is longer from then on.
    longer: (SimTime, SimDuration),
    written: u64,
    got: u64,
}

impl Pair {
    /// Established, without loss so far.
    fn new(steer: impl FnOnce(&mut Connection)) -> Pair {
        let seeds = SeedTree::new(5);
        let addresses = [Ipv4Addr::new(11, 0, 0, 1), Ipv4Addr::new(11, 0, 0, 2)];
        let mut stacks = addresses.map(|ip| Stack::new(Config::new(ip), seeds.stream(&ip.to_string(), "stack")));
        let listener = stacks[1].tcp_socket(crate::Family::V4);
        let place = SocketAddr::from((addresses[1], 80));
        stacks[1].bind(listener, place).unwrap();
        stacks[1].listen(listener, 1).unwrap();
        let client = stacks[0].tcp_socket(crate::Family::V4);
        stacks[0].connect(SimTime::ZERO, client, place).unwrap();
        let mut pair = Pair {
            now: SimTime::ZERO,
            stacks,
            ends: [client, client],
            wire: BTreeMap::new(),
            number: 0,
            free_at: [SimTime::ZERO; 2],
            rng: seeds.stream("", "wire"),
            loss: 0.0,
            outage: (SimTime::MAX, SimTime::MAX),
            longer: (SimTime::MAX, SimDuration::ZERO),
            written: 0,
            got: 0,
        };
        pair.run(SimTime::from_nanos(1_000_000_000), |_| {});
        pair.ends[1] = pair.stacks[1].accept(listener).unwrap();
        steer(pair.stacks[0].connection_at(client.index).expect("a connection"));
        pair
    }

    fn run(&mut self, until: SimTime, mut after: impl FnMut(&mut Pair)) {
        loop {
            after(self);
            self.transmit();
            let wire = self.wire.first_key_value().map(|((at, _), _)| *at);
            let timers = self.stacks.iter().filter_map(Stack::next_deadline);
            let Some(next) = timers.chain(wire).min().filter(|next| *next < until) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (side, packet) = entry.remove();
                self.stacks[side].receive(self.now, packet);
            }
            for stack in &mut self.stacks {
                stack.handle_timers(self.now);
                assert_eq!(stack.flaw(), None);
            }
        }
        self.now = until;
    }

    fn transmit(&mut self) {
        for side in 0..2 {
            while let Some(packet) = self.stacks[side].poll_transmit(self.now) {
                let bits = 8 * packet.wire_len() as u64;
                let waits = self.free_at[side].saturating_since(self.now);
                let is_out = side == 0 && self.outage.0 <= self.now && self.now < self.outage.1;
                if waits > RTT || is_out || (side == 0 && self.rng.unit() < self.loss) {
                    continue;
                }
                self.free_at[side] =
                    self.free_at[side].max(self.now) + SimDuration::from_nanos(bits * 1_000_000_000 / RATE);
                let mut at = self.free_at[side] + SimDuration::from_nanos(RTT.as_nanos() / 2);
                if self.longer.0 <= self.now {
                    at += self.longer.1;
                }
                self.wire.insert((at, self.number), (1 - side, packet));
                self.number += 1;
            }
        }
    }

    /// Writes and reads as much as goes for so many seconds; gives the bytes read, of which each is looked at.
    fn transfer(&mut self, seconds: u64) -> u64 {
        let before = self.got;
        let until = self.now + SimDuration::from_secs(seconds);
        self.run(until, |pair| {
            loop {
                let chunk: Vec<u8> = (pair.written..pair.written + 16_384).map(|at| at as u8).collect();
                match pair.stacks[0].send(pair.now, pair.ends[0], Bytes::from(chunk), SendFlags::empty()) {
                    Ok(sent) => pair.written += sent as u64,
                    Err(_) => break,
                }
            }
            let got = &mut pair.got;
            let _ = pair.stacks[1].recv(pair.now, pair.ends[1], usize::MAX, false, &mut |bytes| {
                for byte in bytes {
                    assert_eq!(*byte, *got as u8);
                    *got += 1;
                }
                bytes.len()
            });
            for stack in &mut pair.stacks {
                while stack.poll_event().is_some() {}
            }
        });
        self.got - before
    }

    fn info(&mut self) -> TcpInfo {
        self.stacks[0].tcp_info(self.now, self.ends[0]).unwrap()
    }
}

fn by_rate() -> (Pair, Arc<Mutex<Told>>) {
    let told = Arc::new(Mutex::new(Told::default()));
    let algorithm = ByRate { told: Arc::clone(&told), ..ByRate::default() };
    (Pair::new(|conn| conn.cc = Controller::steered_by(Box::new(algorithm))), told)
}

#[test]
fn an_algorithm_that_rules_by_rate_fills_a_lossy_line() {
    let line = (RATE / 8 * 10) as f64 * 1448.0 / 1500.0;
    let (mut pair, told) = by_rate();
    pair.loss = 0.03;
    let share = pair.transfer(10) as f64 / line;
    let info = pair.info();
    let told = told.lock().unwrap();
    assert!(share > 0.85, "{share:.3} of the line, {info:?}");
    assert!(told.losses > 300 && told.losses <= info.total_retrans, "{} losses told, {info:?}", told.losses);
    assert!([Phase::Open, Phase::Recovery].iter().all(|phase| told.phases.contains(phase)), "{:?}", told.phases);
    // Neither a reduction nor growth was at work: the window is twice the product, the pace the line's.
    let product = RATE as f64 / 8.0 * 0.04 / 1448.0;
    assert!((1.6..2.6).contains(&(f64::from(info.snd_cwnd) / product)), "{info:?}");
    assert!((0.7..1.35).contains(&(info.pacing_rate as f64 / (RATE as f64 / 8.0))), "{info:?}");
    // One that takes losses for congestion is nowhere near.
    let mut usual = Pair::new(|conn| assert_eq!(conn.cc.kind(), CongestionControl::Cubic));
    usual.loss = 0.03;
    let usual = usual.transfer(10) as f64 / line;
    assert!(usual < 0.3, "{usual:.3} of the line with CUBIC");
}

#[test]
fn it_is_told_of_timeouts_and_false_alarms() {
    let (mut pair, told) = by_rate();
    pair.transfer(2);
    pair.outage = (pair.now, pair.now + SimDuration::from_secs(1));
    let got = pair.transfer(4);
    // A second of outage, and at most another until the timer that was backed off fires.
    assert!(got > RATE / 8 * 17 / 10, "{got} bytes around an outage");
    let at_outage = told.lock().unwrap().phases.clone();
    assert!(told.lock().unwrap().timeouts > 0 && at_outage.contains(&Phase::Loss), "{at_outage:?}");
    assert_eq!(told.lock().unwrap().undone, 0);
    // What was sent comes a second later: the timeout was needless.
    pair.longer = (pair.now, SimDuration::from_secs(1));
    pair.transfer(5);
    assert!(told.lock().unwrap().undone > 0);
    assert_eq!(pair.info().ca_state, 0);
}
