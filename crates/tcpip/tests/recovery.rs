//! Loss recovery over long times: connections that exchange small questions and larger answers over a wire that loses packets
//! never stand still.

mod common;

use base::{SimDuration, SimTime};
use bytes::Bytes;
use common::{B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use tcpip::{SendFlags, SocketError, SocketId};

const QUESTION: &[u8] = b"get";
const ANSWER: usize = 20_000;

/// A client that asks as soon as it has the answer, and its server.
struct Exchange {
    client: SocketId,
    server: Option<SocketId>,
    /// Bytes of the answer that the client still waits for.
    awaited: usize,
    /// Bytes of the answer that the server has not yet been able to write.
    unwritten: usize,
    /// Bytes of the question that the server has seen.
    asked: usize,
    answers: u64,
    last_answer: SimTime,
    longest: SimDuration,
}

impl Exchange {
    fn new(client: SocketId, now: SimTime) -> Self {
        Exchange {
            client,
            server: None,
            awaited: 0,
            unwritten: 0,
            asked: 0,
            answers: 0,
            last_answer: now,
            longest: SimDuration::ZERO,
        }
    }

    fn run(&mut self, net: &mut Net) -> Result<(), SocketError> {
        would_block(self.ask(net))?;
        would_block(self.answer(net))
    }

    fn ask(&mut self, net: &mut Net) -> Result<(), SocketError> {
        loop {
            if self.awaited == 0 {
                net.stacks[0].send(net.now, self.client, Bytes::from_static(QUESTION), SendFlags::empty())?;
                self.awaited = ANSWER;
            }
            let got = net.stacks[0].recv(net.now, self.client, self.awaited, false, &mut |bytes| bytes.len())?;
            assert!(got > 0, "the server never closes");
            self.awaited -= got;
            if self.awaited == 0 {
                self.answers += 1;
                self.longest = self.longest.max(net.now - self.last_answer);
                self.last_answer = net.now;
            }
        }
    }

    fn answer(&mut self, net: &mut Net) -> Result<(), SocketError> {
        let Some(server) = self.server else { return Ok(()) };
        loop {
            while self.unwritten > 0 {
                let bytes = Bytes::from_static(&[7; ANSWER]).slice(..self.unwritten);
                self.unwritten -= net.stacks[1].send(net.now, server, bytes, SendFlags::empty())?;
            }
            self.asked += net.stacks[1].recv(net.now, server, 64, false, &mut |bytes| bytes.len())?;
            if self.asked == QUESTION.len() {
                (self.asked, self.unwritten) = (0, ANSWER);
            }
        }
    }
}

fn would_block(result: Result<(), SocketError>) -> Result<(), SocketError> {
    match result {
        Err(SocketError::WouldBlock) => Ok(()),
        other => other,
    }
}

/// What became of a crowd of exchanges.
#[derive(Debug)]
struct Outcome {
    dead: usize,
    answers: u64,
    /// The longest time that somebody waited for an answer.
    longest: SimDuration,
    /// Retransmission timeouts.
    timeouts: u64,
}

/// Twenty connections over a round trip of twice `latency`, for so many minutes.
fn exchange(latency: SimDuration, loss: f64, minutes: u64, seed: u64) -> Outcome {
    let mut net = Net::new(Link { loss, ..Link::new(latency, 100, 1_000_000) }, seed);
    let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
    net.stacks[1].bind(listener, addr(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    net.stacks[1].listen(listener, 64).unwrap();
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
        net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
        crowd.push(Exchange::new(client, net.now));
    }
    let mut dead = vec![None; crowd.len()];
    net.run(SimDuration::from_secs(60 * minutes), |net| {
        while let Ok(server) = net.stacks[1].accept(listener) {
            let peer = net.stacks[1].peer_name(server);
            let of_peer = |one: &&mut Exchange| net.stacks[0].local_name(one.client) == peer;
            crowd.iter_mut().find(of_peer).expect("somebody has connected").server = Some(server);
        }
        for (one, end) in crowd.iter_mut().zip(&mut dead) {
            if end.is_none() {
                *end = one.run(net).err();
            }
        }
    });
    let waited = |one: &Exchange| one.longest.max(net.now - one.last_answer);
    Outcome {
        dead: dead.iter().flatten().count(),
        answers: crowd.iter().map(|one| one.answers).sum(),
        longest: crowd.iter().map(waited).max().unwrap(),
        timeouts: net.stacks.iter().map(|stack| stack.tcp_counters().timeouts).sum(),
    }
}

/// Nobody waits for a multiple of the round trip's timeouts, and probes repair what they can.
fn assert_lively(latency_ms: u64, loss: f64, minutes: u64, seeds: std::ops::RangeInclusive<u64>) {
    for seed in seeds {
        let outcome = exchange(ms(latency_ms), loss, minutes, seed);
        println!("{latency_ms} ms, loss {loss}, seed {seed}: {outcome:?}");
        assert_eq!(outcome.dead, 0, "{outcome:?}");
        assert!(outcome.longest < SimDuration::from_secs(10), "{outcome:?}");
        assert!(outcome.timeouts * 50 < outcome.answers, "{outcome:?}");
    }
}

#[test]
fn exchanges_at_three_per_cent_loss_never_stand_still() {
    assert_lively(50, 0.03, 15, 1..=3);
}

#[test]
fn exchanges_at_one_per_cent_loss_never_stand_still() {
    assert_lively(30, 0.01, 30, 1..=1);
}

/// Sends so many full segments over a round trip of 100 ms, of which all but the first `arrive` are lost. How long the last byte took.
fn lose_the_end(segments: usize, arrive: usize) -> (SimDuration, tcpip::TcpCounters) {
    const SEGMENT: usize = 1448;
    let mut net = Net::new(Link::new(ms(50), 100, 1_000_000), 1);
    let (client, server) = net.establish();
    let start = net.now;
    let send = |net: &mut Net, count: usize| {
        let bytes = Bytes::from_static(&[7; 10 * SEGMENT]).slice(..count * SEGMENT);
        net.stacks[0].send(net.now, client, bytes, SendFlags::empty()).unwrap();
        net.flush();
    };
    send(&mut net, arrive);
    net.links[0].cut = true;
    send(&mut net, segments - arrive);
    net.links[0].cut = false;
    let mut got = 0;
    let mut took = None;
    net.run(SimDuration::from_secs(5), |net| {
        got += net.stacks[1].recv(net.now, server, usize::MAX, false, &mut |bytes| bytes.len()).unwrap_or(0);
        if got == segments * SEGMENT && took.is_none() {
            took = Some(net.now - start);
        }
    });
    (took.expect("everything arrives"), net.stacks[0].tcp_counters())
}

/// RFC 8985 section 7.1: a probe repairs a loss at the end of a burst without a timeout, and without another timeout following it.
#[test]
fn a_lost_end_is_repaired_by_a_probe() {
    for (segments, arrive) in [(1, 0), (2, 1), (5, 4), (5, 3), (10, 7)] {
        let (took, counters) = lose_the_end(segments, arrive);
        assert_eq!((counters.loss_probes, counters.timeouts), (1, 0), "{arrive} of {segments}: {took}");
        assert!(took < ms(600), "{arrive} of {segments}: {took}");
    }
}
