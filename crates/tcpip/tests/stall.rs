//! Crowds of connections that ask and answer, each over a network of its own that loses and reorders: none dies, none is silent for longer
//! than its retransmission timeout while something is owed, and all get answers. `make tcp-stall` lets ten thousand live.

mod common;

use base::{SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use common::{B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use tcpip::{SendFlags, SocketError, SocketId, TcpState};

const QUESTION: usize = 3;
const ANSWER: usize = 20_000;
/// What a tail loss probe waits for beyond two round trips, and what a step of the clock here may be late by.
const SLACK: SimDuration = SimDuration::from_millis(4);

/// One connection's life.
struct Life {
    seed: u64,
    loss: f64,
    reorder: f64,
    round_trip_ms: u64,
    answers: u64,
    trouble: Option<String>,
}

fn would_block<T: Default>(result: Result<T, SocketError>) -> Result<T, SocketError> {
    match result {
        Err(SocketError::WouldBlock) => Ok(T::default()),
        other => other,
    }
}

/// Lives for `seconds`: loss up to 10 %, a round trip of 1 to 300 ms, up to 10 % of the packets late.
fn live(seed: u64, seconds: u64) -> Life {
    let mut rng = SeedTree::new(seed).stream("", "stall");
    let (loss, reorder, round_trip_ms) = (rng.unit() * 0.1, rng.unit() * 0.1, 1 + rng.below(300));
    let latency = SimDuration::from_micros(round_trip_ms * 500);
    let mut net = Net::new(Link { loss, reorder, ..Link::new(latency, 100, 1_000_000) }, seed);
    let mut life = Life { seed, loss, reorder, round_trip_ms, answers: 0, trouble: None };
    let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
    net.stacks[1].bind(listener, addr(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    net.stacks[1].listen(listener, 8).unwrap();
    let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
    net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
    let mut server = None;
    let (mut awaited, mut asked, mut unwritten) = (0, 0, 0);
    let end = net.now + SimDuration::from_secs(seconds);
    let mut step = |net: &mut Net, life: &mut Life| -> Result<(), SocketError> {
        server = server.or_else(|| net.stacks[1].accept(listener).ok());
        if awaited == 0
            && would_block(net.stacks[0].send(net.now, client, Bytes::from_static(b"get"), SendFlags::empty()))?
                == QUESTION
        {
            awaited = ANSWER;
        }
        awaited -= would_block(net.stacks[0].recv(net.now, client, awaited.max(1), false, &mut |bytes| bytes.len()))?;
        life.answers += u64::from(awaited == 0);
        if let Some(server) = server {
            asked += would_block(net.stacks[1].recv(net.now, server, 64, false, &mut |bytes| bytes.len()))?;
            if asked == QUESTION {
                (asked, unwritten) = (0, ANSWER);
            }
            if unwritten > 0 {
                let bytes = Bytes::from_static(&[7; ANSWER]).slice(..unwritten);
                unwritten -= would_block(net.stacks[1].send(net.now, server, bytes, SendFlags::empty()))?;
            }
        }
        let ends = [(0, Some(client)), (1, server)];
        for (side, id) in ends.into_iter().filter_map(|(side, id)| Some((side, id?))) {
            life.trouble = life.trouble.take().or_else(|| silence(net, side, id));
        }
        Ok(())
    };
    while net.now < end && life.trouble.is_none() {
        if let Err(error) = step(&mut net, &mut life) {
            life.trouble = Some(format!("{error:?} at {}", net.now));
        }
        net.idle(ms(1 + round_trip_ms / 4));
    }
    life
}

/// An end that owes something and has neither sent nor heard anything for longer than its timeout.
fn silence(net: &mut Net, side: usize, id: SocketId) -> Option<String> {
    let now: SimTime = net.now;
    let info = net.stacks[side].tcp_info(now, id).ok()?;
    // An acknowledgement starts the timeout anew; a tail loss probe waits for two round trips, which a steady one makes longer than that.
    let quiet = info.last_data_sent.min(info.last_ack_recv);
    let patience = info.rto.max(info.rtt.saturating_mul(2)).saturating_add(SLACK);
    let is_open = !matches!(info.state, TcpState::SynSent | TcpState::SynReceived);
    let late = is_open && info.unacked > 0 && quiet > patience;
    late.then(|| format!("side {side} is silent for {quiet}, with a timeout of {}, at {now}", info.rto))
}

/// Lets a crowd live, on all processors.
fn crowd(count: u64, seconds: u64) {
    let next = AtomicU64::new(1);
    let lives = std::thread::scope(|scope| {
        let worker = || {
            let mut lives = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed > count {
                    return lives;
                }
                if count >= 5000 && seed.is_multiple_of(count / 20) {
                    println!("{seed} of {count}");
                }
                lives.push(live(seed, seconds));
            }
        };
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect::<Vec<Life>>()
    });
    let answers: u64 = lives.iter().map(|life| life.answers).sum();
    println!("{count} connections, {seconds} s each: {answers} answers");
    for life in lives {
        let Life { seed, loss, reorder, round_trip_ms, .. } = life;
        let place = format!("seed {seed}: loss {loss:.3}, reordering {reorder:.3}, round trip {round_trip_ms} ms");
        assert!(life.trouble.is_none(), "{place}: {}", life.trouble.unwrap_or_default());
        assert!(life.answers > 0, "{place}: no answer");
    }
}

#[test]
fn a_crowd_is_never_silent() {
    crowd(1000, 20);
}

#[test]
#[ignore = "takes minutes: make tcp-stall"]
fn a_large_crowd_is_never_silent() {
    crowd(10_000, 120);
}
