//! Pacing, and what is known of the rate at which data is delivered.

mod common;

use base::{SimDuration, SimTime};
use bytes::Bytes;
use common::{Link, Net, ms};
use std::collections::VecDeque;
use tcpip::{Packet, SendFlags, SocketId, SocketOption};

/// Keeps `writer`'s send buffer full and reads all that comes, for so many seconds; gives the bytes that came.
fn bulk(net: &mut Net, writer: SocketId, reader: SocketId, seconds: u64) -> u64 {
    let mut got = 0;
    net.run(SimDuration::from_secs(seconds), |net| {
        let space = net.stacks[0].send_space(writer);
        if space > 0 {
            let bytes = Bytes::from_static(&[7; 1 << 17]).slice(..space.min(1 << 17));
            net.stacks[0].send(net.now, writer, bytes, SendFlags::empty()).unwrap();
        }
        let _ = net.stacks[1].recv(net.now, reader, usize::MAX, false, &mut |bytes| {
            got += bytes.len() as u64;
            bytes.len()
        });
    });
    got
}

#[test]
fn a_connection_keeps_to_the_rate_that_it_was_given() {
    for rate in [125_000u64, 1_250_000, 5_000_000] {
        let mut net = Net::new(Link::new(ms(10), 100, 1_000_000), 1);
        let (client, server) = net.establish();
        net.stacks[0].set_option(net.now, client, SocketOption::MaxPacingRate(rate)).unwrap();
        net.trace = Some(Vec::new());
        let got = bulk(&mut net, client, server, 10);
        let share = got as f64 / (10 * rate) as f64;
        assert!((0.95..1.02).contains(&share), "{rate} bytes per second: {share:.3} of them came");
        // What leaves at once is a train, however large the window is.
        let trace = net.trace.take().unwrap();
        let times: Vec<SimTime> =
            trace.iter().filter(|entry| entry.1 == 0 && !entry.2.payload.is_empty()).map(|entry| entry.0).collect();
        let most = times[20..].chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap();
        assert!(most as u64 <= (rate / 1024 / 1448).max(2), "{rate} bytes per second: {most} segments at once");
    }
}

#[test]
fn what_is_delivered_in_a_round_trip_is_the_delivery_rate() {
    let mut net = Net::new(Link::new(ms(20), 10, 10_000_000), 1);
    let (client, server) = net.establish();
    bulk(&mut net, client, server, 20);
    let info = net.stacks[0].tcp_info(net.now, client).unwrap();
    let line = 10e6 / 8.0 * 1448.0 / 1500.0;
    let share = info.delivery_rate as f64 / line;
    assert!((0.97..1.03).contains(&share) && !info.delivery_rate_app_limited, "{share:.3} of the line's rate");
    // A program that writes little is its own limit.
    net.idle(SimDuration::from_secs(10));
    for _ in 0..20 {
        net.stacks[0].send(net.now, client, Bytes::from_static(&[0; 1000]), SendFlags::empty()).unwrap();
        net.idle(ms(100));
    }
    let info = net.stacks[0].tcp_info(net.now, client).unwrap();
    let share = info.delivery_rate as f64 / line;
    assert!((0.97..1.03).contains(&share), "the highest rate stays, not {share:.3} of the line's");
}

/// Where the queue keeps packets until their time, each has one, and they follow each other at the pacing rate.
#[test]
fn departures_are_spaced_for_a_queue_that_keeps_them() {
    let mut net = Net::with(Link::new(ms(10), 100, 1_000_000), 1, |config| config.departures_wait = true);
    let (client, server) = net.establish();
    let mut queue: VecDeque<(SimTime, tcpip::Departing)> = VecDeque::new();
    let mut line: VecDeque<(SimTime, Packet)> = VecDeque::new();
    let mut sent: Vec<(SimTime, usize)> = Vec::new();
    let mut got = 0;
    for step in 0..4000u64 {
        let now = net.now + SimDuration::from_micros(250 * step);
        let space = net.stacks[0].send_space(client);
        if space > 0 {
            net.stacks[0].send(now, client, Bytes::from(vec![0; space.min(65_536)]), SendFlags::empty()).unwrap();
        }
        while let Some(departing) = net.stacks[0].poll_departure() {
            let at = departing.not_before.max(now);
            assert!(sent.last().is_none_or(|last| last.0 <= at), "no packet before the one that was sent earlier");
            sent.push((at, departing.packet.payload.len()));
            queue.push_back((at, departing));
        }
        while queue.front().is_some_and(|front| front.0 <= now) {
            let (at, departing) = queue.pop_front().unwrap();
            net.stacks[0].transmitted(now, client, departing.truesize);
            line.push_back((at + ms(20), *departing.packet));
        }
        while line.front().is_some_and(|front| front.0 <= now) {
            net.stacks[1].receive(now, line.pop_front().unwrap().1);
        }
        let _ = net.stacks[1].recv(now, server, usize::MAX, false, &mut |bytes| {
            got += bytes.len();
            bytes.len()
        });
        for side in 0..2 {
            net.stacks[side].handle_timers(now);
        }
        while let Some(packet) = net.stacks[1].poll_transmit(now) {
            net.stacks[0].receive(now, packet);
        }
    }
    assert!(got > 3_000_000, "{got} bytes came");
    let info = net.stacks[0].tcp_info(net.now + SimDuration::from_secs(1), client).unwrap();
    // A round trip of 20 ms carries the window; it leaves in less, 1.2 or 2 times as fast, but not at once.
    let late = &sent[sent.len() - 40..];
    let span = (late[39].0 - late[0].0).as_secs_f64();
    let rate = late[..39].iter().map(|entry| entry.1).sum::<usize>() as f64 / span;
    assert!(rate <= info.pacing_rate as f64 * 1.05, "{rate} bytes per second, paced at {}", info.pacing_rate);
}
