//! Whole transfers over bad wires: integrity, throughput, determinism.

mod common;

use base::SimDuration;
use common::{Link, Net, Reader, Writer, ms};
use tcpip::CongestionControl;
use tcpip::SendFlags;

/// Sends `total` bytes each way; gives the time it took.
fn both_ways(net: &mut Net, total: u64, limit: SimDuration) -> SimDuration {
    let (client, server) = net.establish();
    let mut writers = [Writer::new(0, client, total), Writer::new(1, server, total)];
    let mut readers = [Reader::new(0, client), Reader::new(1, server)];
    let start = net.now;
    let mut end = None;
    net.run(limit, |net| {
        for writer in &mut writers {
            writer.run(net);
        }
        for reader in &mut readers {
            reader.run(net);
        }
        if end.is_none() && readers.iter().all(|reader| reader.done) {
            end = Some(net.now);
        }
    });
    for reader in &readers {
        assert_eq!((reader.got, reader.done), (total, true), "transfer is not complete after {limit}");
    }
    end.unwrap() - start
}

#[test]
fn data_survives_loss_reordering_and_duplication() {
    for (seed, loss, reorder, duplicate) in [
        (1, 0.0, 0.0, 0.0),
        (2, 0.01, 0.0, 0.0),
        (3, 0.05, 0.0, 0.0),
        (4, 0.10, 0.0, 0.0),
        (5, 0.0, 0.2, 0.0),
        (6, 0.0, 0.0, 0.2),
        (7, 0.03, 0.3, 0.1),
        (8, 0.10, 0.5, 0.3),
    ] {
        let mut link = Link::new(ms(5), 100, 200_000);
        (link.loss, link.reorder, link.duplicate) = (loss, reorder, duplicate);
        both_ways(&mut Net::new(link, seed), 2_000_000, SimDuration::from_secs(600));
    }
}

#[test]
fn data_survives_without_options_and_with_reno() {
    for seed in 0..4 {
        let mut link = Link::new(ms(5), 100, 100_000);
        link.loss = 0.02;
        link.reorder = 0.05;
        let mut net = Net::with(link, seed, |config| {
            config.sack = seed & 1 == 0;
            config.timestamps = seed & 2 == 0;
            config.window_scaling = false;
            config.congestion_control = CongestionControl::Reno;
        });
        both_ways(&mut net, 500_000, SimDuration::from_secs(600));
    }
}

#[test]
fn loopback_carries_bulk_data() {
    let mut net = Net::new(Link::new(ms(5), 100, 100_000), 1);
    let stack = &mut net.stacks[0];
    let listener = stack.tcp_socket(tcpip::Family::V4);
    let home = common::addr(std::net::Ipv4Addr::LOCALHOST, 8080);
    stack.bind(listener, home).unwrap();
    stack.listen(listener, 5).unwrap();
    let client = stack.tcp_socket(tcpip::Family::V4);
    stack.connect(net.now, client, home).unwrap();
    net.flush();
    let server = net.stacks[0].accept(listener).unwrap();
    let (mut writer, mut reader) = (Writer::new(0, client, 20_000_000), Reader::new(0, server));
    let start = net.now;
    let mut end = start;
    net.run(SimDuration::from_secs(60), |net| {
        for _ in 0..100_000 {
            writer.run(net);
            net.flush();
            reader.run(net);
            net.flush();
            if reader.done {
                break;
            }
        }
        if end == start && reader.done {
            end = net.now;
        }
    });
    assert!(reader.done && reader.got == 20_000_000, "{}", reader.got);
    assert!(end - start < SimDuration::from_secs(1), "loopback took {}", end - start);
}

/// Goodput in Mbit/s of a bulk transfer of `seconds`.
fn goodput(net: &mut Net, seconds: u64) -> f64 {
    let (client, server) = net.establish();
    let mut got = 0u64;
    net.run(SimDuration::from_secs(seconds), |net| {
        let space = net.stacks[0].send_space(client);
        if space > 0 {
            let bytes = bytes::Bytes::from_static(&[7; 1 << 20]).slice(..space.min(1 << 17));
            net.stacks[0].send(net.now, client, bytes, SendFlags::empty()).unwrap();
        }
        let _ = net.stacks[1].recv(net.now, server, usize::MAX, false, &mut |bytes| {
            got += bytes.len() as u64;
            bytes.len()
        });
    });
    got as f64 * 8.0 / seconds as f64 / 1e6
}

#[test]
fn a_gigabit_link_is_filled_within_ten_seconds() {
    // A queue of one bandwidth-delay product that drops, and an interface that holds the sender back.
    for (queue, backpressure) in [(2_500_000, false), (30_000, true)] {
        let mut net = Net::new(Link { backpressure, ..Link::new(ms(10), 1000, queue) }, 1);
        let rate = goodput(&mut net, 10);
        println!("queue {queue}: {rate:.1} Mbit/s, {} dropped", net.overflowed);
        assert!(rate >= 940.0, "queue {queue}: {rate} Mbit/s");
    }
}

/// Over 100 Mbit/s and a round trip of 40 ms.
#[test]
fn a_flow_carries_a_window_per_round_trip_and_no_more() {
    for buffer in [65_536, 262_144, 1_048_576] {
        // A segment of 1,448 bytes occupies 2,304; no flow exceeds a window per round trip, nor the link.
        let bound = (f64::from(buffer / 256 * 160) * 8.0 / 0.040 / 1e6).min(96.6);
        for loss in [0.0, 0.0001, 0.001, 0.01] {
            let link = Link { loss, ..Link::new(ms(20), 100, 250_000) };
            let mut net = Net::with(link, 9, |config| {
                (config.recv_buffer, config.recv_autotune) = (buffer, false);
            });
            let rate = goodput(&mut net, 10);
            println!("buffer {buffer} loss {loss}: {rate:.2} Mbit/s");
            assert!(rate <= bound * 1.02, "buffer {buffer} loss {loss}: {rate:.2} Mbit/s, above {bound}");
            assert!(loss > 0.0 || rate >= bound * 0.85, "buffer {buffer}: {rate:.2} Mbit/s, far below {bound}");
        }
    }
}

#[test]
fn same_seed_gives_the_same_packets() {
    let trace = |seed| {
        let mut link = Link::new(ms(5), 50, 60_000);
        (link.loss, link.reorder) = (0.02, 0.05);
        let mut net = Net::new(link, seed);
        net.trace = Some(Vec::new());
        both_ways(&mut net, 300_000, SimDuration::from_secs(60));
        net.trace.unwrap()
    };
    assert!(trace(1) == trace(1));
    assert!(trace(1) != trace(2));
}

#[test]
fn every_packet_of_a_bad_transfer_survives_emit_and_parse() {
    let mut link = Link::new(ms(5), 50, 60_000);
    (link.loss, link.reorder) = (0.05, 0.05);
    let mut net = Net::new(link, 3);
    net.trace = Some(Vec::new());
    both_ways(&mut net, 300_000, SimDuration::from_secs(60));
    let mut bytes = Vec::new();
    for (_, _, packet) in net.trace.unwrap() {
        bytes.clear();
        packet.emit(&mut bytes);
        assert_eq!(bytes.len(), packet.wire_len());
        assert!(bytes.len() <= 1500);
        // The record's number is not on the wire.
        assert_eq!(tcpip::Packet::parse(&bytes).unwrap(), tcpip::Packet { number: 0, ..packet });
    }
}

/// Lines that hand on what a millisecond allows at once (Shadow's token buckets) let a whole window arrive at one moment. The program reads at once,
/// so what waits behind its first read is no sign that it is slow: the receive buffer grows.
#[test]
fn a_window_that_comes_at_one_moment_grows_the_receive_buffer() {
    let mut net = Net::new(Link::new(ms(10), 1_000, 1 << 30), 9);
    let (client, server) = net.establish();
    let mut writer = Writer::new(0, client, u64::MAX);
    let mut reader = Reader::new(1, server);
    let mut last_round = 0;
    for _ in 0..60 {
        writer.run(&mut net);
        for side in [0, 1] {
            net.now += ms(10);
            let now = net.now;
            while let Some(packet) = net.stacks[side].poll_transmit(now) {
                net.stacks[1 - side].receive(now, packet);
            }
            let before = reader.got;
            reader.run(&mut net);
            last_round = if side == 0 { reader.got - before } else { last_round };
            net.stacks.iter_mut().for_each(|stack| stack.handle_timers(now));
        }
    }
    assert!(last_round > 1_000_000, "{last_round} bytes in a round trip");
}
