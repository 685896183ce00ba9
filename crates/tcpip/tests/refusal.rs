//! The queue of the sender's own interface is full, and the sender hears of it (NET_XMIT_DROP).

mod common;

use base::SimDuration;
use common::{B, Link, Net, Reader, Writer, addr, at_ms, ms};
use tcpip::{Family, SocketError, SocketOption, TcpState};

/// 10 Mbit/s, 50 ms each way; the queue of A is the sender's own.
fn net(queue: u64, seed: u64) -> Net {
    let mut net = Net::new(Link::new(ms(50), 10, 1 << 20), seed);
    net.links[0].queue = queue;
    net.links[0].refuses = true;
    net
}

/// Nothing leaves any more: a probe each 500 ms, without backoff, until TCP_USER_TIMEOUT has passed since the first (tcp_probe_timer).
#[test]
fn probes_of_a_full_queue_come_each_half_second() {
    let mut net = net(1 << 20, 1);
    let (client, _server) = net.establish();
    net.stacks[0].set_option(net.now, client, SocketOption::UserTimeout(ms(3_000))).unwrap();
    net.send(0, client, &[1; 24]).unwrap();
    net.idle(ms(200));
    net.links[0].queue = 0;
    let began = net.now;
    net.send(0, client, &[2; 24]).unwrap();
    let info = net.stacks[0].tcp_info(net.now, client).unwrap();
    assert_eq!((info.unacked, info.ca_state), (0, 2), "in CWR, and nothing is in flight");
    let mut probes = Vec::new();
    let mut last = 0;
    net.run(ms(3_250), |net| {
        let count = net.stacks[0].tcp_info(net.now, client).unwrap().probes;
        if count != last {
            probes.push(net.now.saturating_since(began).as_millis());
            last = count;
        }
    });
    assert_eq!(probes.len(), 6, "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] == 500), "{probes:?}");
    let info = net.stacks[0].tcp_info(net.now, client).unwrap();
    assert_eq!((info.backoff, info.state), (0, TcpState::Established));
    // Another write is refused like the first, and changes no timer.
    net.send(0, client, &[3; 24]).unwrap();
    net.idle(ms(100));
    assert_eq!(net.send(0, client, &[4; 24]), Err(SocketError::TimedOut));
}

/// What the queue has refused was never sent: it is no loss, and the rest is slower by a reduction of the window.
#[test]
fn what_is_refused_is_no_loss() {
    for (queue, seed) in [(3_000, 1), (10_000, 2), (30_000, 3)] {
        let mut net = net(queue, seed);
        let (client, server) = net.establish();
        let (mut writer, mut reader) = (Writer::new(0, client, 1_000_000), Reader::new(1, server));
        let limit = net.now + SimDuration::from_secs(60);
        net.run(SimDuration::from_secs(60), |net| {
            writer.run(net);
            reader.run(net);
            assert_eq!(net.stacks[0].flaw(), None, "queue of {queue}");
        });
        assert!(reader.done && reader.got == 1_000_000, "queue of {queue}: {} bytes", reader.got);
        assert!(net.overflowed > 0 && net.now <= limit, "queue of {queue}");
        let counters = net.stacks[0].tcp_counters();
        assert_eq!((counters.retransmitted, counters.timeouts), (0, 0), "queue of {queue}");
        let sent = net.stacks[0].counters();
        assert_eq!(sent.refused[Family::V4 as usize].packets, net.overflowed);
    }
}

/// A segment was lost on the way, and its copy finds the queue full: it is not in flight, and leaves when the timeout comes again, half a
/// second later and without backoff.
#[test]
fn a_copy_that_was_refused_leaves_later() {
    let mut net = net(1 << 20, 5);
    let (client, server) = net.establish();
    net.links[0].cut = true;
    net.send(0, client, &[1; 100]).unwrap();
    let began = net.now;
    (net.links[0].cut, net.links[0].queue) = (false, 0);
    net.idle(ms(2_500));
    let info = net.stacks[0].tcp_info(net.now, client).unwrap();
    assert_eq!((info.unacked, info.retrans, info.lost, info.backoff), (1, 0, 1, 0));
    assert!(net.stacks[0].tcp_counters().copies_refused >= 3);
    net.links[0].queue = 1 << 20;
    net.idle(ms(600));
    assert_eq!(net.recv(1, server, 1_000).unwrap(), [1; 100]);
    assert!(net.now < began + ms(3_200));
}

#[test]
fn a_datagram_that_was_refused_is_counted() {
    let mut net = net(1_000, 6);
    let socket = net.stacks[0].udp_socket(Family::V4);
    for _ in 0..3 {
        net.stacks[0].send_to(socket, vec![0; 600].into(), Some(addr(B, 9))).unwrap();
    }
    net.flush();
    let counters = net.stacks[0].counters();
    assert_eq!((counters.udp[0].sent, counters.udp[0].refused), (1, 2));
    assert_eq!((counters.ethernet_out[0].packets, counters.refused[0].packets), (1, 2));
    assert_eq!(net.now, at_ms(1_000));
}
