//! The state machine at its edges: opening and closing in every order, resets, timers that give up, queues that overflow.

mod common;

use base::{SimDuration, SimTime};
use bytes::Bytes;
use common::{A, B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use tcpip::wire::ip::IpHeader;
use tcpip::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use tcpip::{
    OptionName, Packet, Readiness, SendFlags, Shutdown, SocketError, SocketId, SocketOption, TcpState, Transport,
};

fn net() -> Net {
    Net::new(Link::new(ms(10), 100, 1_000_000), 1)
}

fn secs(s: u64) -> SimDuration {
    SimDuration::from_secs(s)
}

/// A bare segment from `side`'s address to the other's.
fn segment(side: usize, src_port: u16, dst_port: u16, seq: u32, ack: u32, flags: TcpFlags) -> Packet {
    let (src, dst) = if side == 0 { (A, B) } else { (B, A) };
    let header = TcpHeader { src_port, dst_port, seq, ack, flags, window: 1000, options: TcpOptions::default() };
    Packet::new(IpHeader::new(src, dst), Transport::Tcp(header), Bytes::new())
}

fn port(net: &mut Net, side: usize, id: SocketId) -> u16 {
    net.stacks[side].local_name(id).unwrap().port()
}

#[test]
fn handshake_takes_one_round_trip_and_data_flows() {
    let mut net = net();
    let (client, listener) = net.start_connect(80);
    assert_eq!(net.stacks[0].connect(net.now, client, addr(B, 80)), Err(SocketError::AlreadyInProgress));
    assert_eq!(net.state(0, client), TcpState::SynSent);
    assert!(net.stacks[0].readiness(client).is_empty());
    net.idle(ms(21));
    assert_eq!(net.state(0, client), TcpState::Established);
    assert_eq!(net.stacks[0].readiness(client), Readiness::WRITABLE);
    assert_eq!(net.stacks[0].connect(net.now, client, addr(B, 80)), Ok(tcpip::Connected::Done));
    assert_eq!(net.stacks[0].connect(net.now, client, addr(B, 80)), Err(SocketError::IsConnected));
    net.idle(ms(20));
    assert_eq!(net.stacks[1].readiness(listener), Readiness::READABLE);
    let server = net.stacks[1].accept(listener).unwrap();
    assert_eq!(net.stacks[1].accept(listener), Err(SocketError::WouldBlock));
    let peer = net.stacks[1].peer_name(server).unwrap();
    assert_eq!(peer, net.stacks[0].local_name(client).unwrap());
    net.send(0, client, b"hello").unwrap();
    assert_eq!(net.recv(1, server, 100), Err(SocketError::WouldBlock));
    net.idle(ms(50));
    assert!(net.events[1].iter().any(|(id, ready)| *id == server && ready.contains(Readiness::READABLE)));
    assert_eq!(net.stacks[1].readable_bytes(server), 5);
    assert_eq!(net.recv(1, server, 100).unwrap(), b"hello");
    net.idle(ms(100));
    assert_eq!(net.stacks[0].unsent_and_unacknowledged(client), 0);
}

#[test]
fn a_refused_connection_reports_once() {
    let mut net = net();
    let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
    assert_eq!(net.stacks[0].readiness(client), Readiness::HANGUP | Readiness::WRITABLE);
    net.stacks[0].connect(net.now, client, addr(B, 81)).unwrap();
    net.idle(ms(50));
    let ready = net.stacks[0].readiness(client);
    assert!(ready.contains(Readiness::ERROR | Readiness::HANGUP | Readiness::WRITABLE), "{ready:?}");
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::ConnectionRefused));
    assert_eq!(net.stacks[0].take_error(client), None);
    assert!(net.stacks[0].connect(net.now, client, addr(B, 81)).is_ok(), "the socket can be used again");
}

/// When the SYNs of a connection to nobody leave, in seconds, and when it fails.
fn times_of_syns(tune: impl Fn(&mut Net, SocketId)) -> (Vec<u64>, u64) {
    let mut net = net();
    net.links[0].cut = true;
    let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
    tune(&mut net, client);
    net.trace = Some(Vec::new());
    let start = net.now;
    net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
    let mut end = None;
    while end.is_none() && net.now - start < secs(200) {
        net.idle(ms(100));
        let failed = net.state(0, client) == TcpState::Close;
        end = failed.then(|| (net.now - start).as_nanos() / 1_000_000_000);
    }
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::TimedOut));
    let second = |at: SimTime| (at - start).as_nanos() / 1_000_000_000;
    (net.trace.unwrap().iter().map(|(at, _, _)| second(*at)).collect(), end.unwrap())
}

/// Linux since 6.5: four SYNs at intervals of a second before these double (tcp_syn_linear_timeouts), `tcp_syn_retries` in addition.
#[test]
fn a_silent_peer_times_a_connect_out_after_131_seconds() {
    assert_eq!(times_of_syns(|_, _| {}), (vec![0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67], 131));
}

#[test]
fn a_user_timeout_ends_a_connect_early() {
    let tune = |net: &mut Net, client| {
        net.stacks[0].set_option(net.now, client, SocketOption::UserTimeout(secs(8))).unwrap();
    };
    let (syns, end) = times_of_syns(tune);
    assert_eq!((syns, end), (vec![0, 1, 2, 3, 4, 5, 7], 8));
}

#[test]
fn simultaneous_open_connects_both() {
    let mut net = net();
    let ends: Vec<SocketId> = (0..2)
        .map(|side| {
            let id = net.stacks[side].tcp_socket(tcpip::Family::V4);
            net.stacks[side].bind(id, addr(Ipv4Addr::UNSPECIFIED, 7000)).unwrap();
            id
        })
        .collect();
    for (side, peer) in [(0, B), (1, A)] {
        net.stacks[side].connect(net.now, ends[side], addr(peer, 7000)).unwrap();
    }
    net.idle(secs(5));
    for (side, end) in ends.iter().enumerate() {
        assert_eq!(net.state(side, *end), TcpState::Established, "side {side}");
    }
    net.send(0, ends[0], b"ping").unwrap();
    net.idle(ms(100));
    assert_eq!(net.recv(1, ends[1], 10).unwrap(), b"ping");
}

#[test]
fn closing_in_each_order_passes_through_the_right_states() {
    // Who shuts down, in order, with the states (A, B) a round trip later.
    let table: [(&[usize], &[(TcpState, TcpState)]); 3] = [
        (&[0, 1], &[(TcpState::FinWait2, TcpState::CloseWait), (TcpState::Close, TcpState::Close)]),
        (&[1, 0], &[(TcpState::CloseWait, TcpState::FinWait2), (TcpState::Close, TcpState::Close)]),
        // Both at once.
        (&[2], &[(TcpState::Close, TcpState::Close)]),
    ];
    for (order, states) in table {
        let mut net = net();
        let (client, server) = net.establish();
        for (step, expected) in order.iter().zip(states) {
            for (side, id) in [(0, client), (1, server)] {
                if *step == side || *step == 2 {
                    net.stacks[side].shutdown(net.now, id, Shutdown::Write).unwrap();
                }
            }
            net.idle(ms(100));
            assert_eq!((net.state(0, client), net.state(1, server)), *expected, "{order:?}");
        }
        for side in 0..2 {
            let id = [client, server][side];
            assert_eq!(net.recv(side, id, 1).unwrap(), b"");
            assert_eq!(net.send(side, id, b"x"), Err(SocketError::BrokenPipe));
            net.stacks[side].close(net.now, id);
        }
        // One TIME_WAIT record, or two after a simultaneous close; none after a minute.
        let records = net.stacks[0].socket_count() + net.stacks[1].socket_count();
        assert_eq!(records, if order.len() == 1 { 2 } else { 1 });
        net.idle(secs(61));
        assert_eq!(net.stacks[0].socket_count() + net.stacks[1].socket_count(), 0);
    }
}

#[test]
fn half_closed_connections_still_carry_data() {
    let mut net = net();
    let (client, server) = net.establish();
    net.send(0, client, b"request").unwrap();
    net.stacks[0].shutdown(net.now, client, Shutdown::Write).unwrap();
    net.idle(secs(1));
    assert_eq!(net.recv(1, server, 100).unwrap(), b"request");
    assert_eq!(net.recv(1, server, 100).unwrap(), b"");
    let ready = net.stacks[1].readiness(server);
    assert_eq!(ready, Readiness::READABLE | Readiness::READ_HANGUP | Readiness::WRITABLE);
    net.idle(secs(100));
    net.send(1, server, b"late answer").unwrap();
    net.stacks[1].close(net.now, server);
    net.idle(secs(1));
    assert_eq!(net.recv(0, client, 100).unwrap(), b"late answer");
    assert_eq!(net.recv(0, client, 100).unwrap(), b"");
}

#[test]
fn a_reset_in_each_state_has_its_errno() {
    type Prepare = fn(&mut Net, SocketId, SocketId);
    let table: [(&str, Prepare, SocketError); 3] = [
        ("established", |_, _, _| {}, SocketError::ConnectionReset),
        (
            "close-wait",
            |net, client, _| net.stacks[0].shutdown(net.now, client, Shutdown::Write).unwrap(),
            SocketError::BrokenPipe,
        ),
        (
            "fin-wait-2",
            |net, _, server| net.stacks[1].shutdown(net.now, server, Shutdown::Write).unwrap(),
            SocketError::ConnectionReset,
        ),
    ];
    for (name, prepare, error) in table {
        let mut net = net();
        let (client, server) = net.establish();
        prepare(&mut net, client, server);
        net.idle(ms(100));
        // A socket with linger zero sends a RST instead of a FIN.
        let now = net.now;
        net.stacks[0].set_option(now, client, SocketOption::Linger(Some(SimDuration::ZERO))).unwrap();
        net.stacks[0].close(net.now, client);
        net.idle(ms(100));
        assert_eq!(net.stacks[1].take_error(server), Some(error), "{name}");
        assert_eq!(net.state(1, server), TcpState::Close, "{name}");
        assert_eq!(net.recv(1, server, 1).unwrap(), b"", "{name}");
        assert_eq!(net.send(1, server, b"x"), Err(SocketError::BrokenPipe), "{name}");
        assert_eq!(net.stacks[0].socket_count(), 0, "{name}");
    }
}

#[test]
fn close_with_unread_data_resets() {
    let mut net = net();
    let (client, server) = net.establish();
    net.send(0, client, b"never read").unwrap();
    net.idle(ms(100));
    net.stacks[1].close(net.now, server);
    net.idle(ms(100));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::ConnectionReset));
}

#[test]
fn data_for_a_closed_reader_is_answered_by_a_reset() {
    let mut net = net();
    let (client, server) = net.establish();
    net.stacks[1].close(net.now, server);
    net.idle(ms(100));
    net.send(0, client, b"anyone there?").unwrap();
    net.idle(ms(100));
    assert_eq!(net.send(0, client, b"x"), Err(SocketError::BrokenPipe));
}

#[test]
fn forged_resets_and_syns_do_not_kill_a_connection() {
    let mut net = net();
    let (client, server) = net.establish();
    let local = port(&mut net, 0, client);
    net.trace = Some(Vec::new());
    for flags in [TcpFlags::RST, TcpFlags::SYN] {
        // In the window of nobody, and of somebody: neither is exactly in sequence.
        for seq in [1, 0x8000_0000] {
            let now = net.now;
            net.stacks[1].receive(now, segment(0, local, 80, seq, 0, flags));
            net.idle(secs(1));
        }
    }
    assert_eq!(net.state(1, server), TcpState::Established);
    assert!(
        net.trace.as_ref().unwrap().iter().all(|(_, _, packet)| !packet.tcp().unwrap().flags.contains(TcpFlags::RST))
    );
    net.send(0, client, b"alive").unwrap();
    net.idle(ms(100));
    assert_eq!(net.recv(1, server, 10).unwrap(), b"alive");
}

#[test]
fn segments_for_nobody_are_reset_as_rfc_9293_says() {
    let mut net = net();
    let now = net.now;
    net.trace = Some(Vec::new());
    net.stacks[1].receive(now, segment(0, 5, 6, 100, 7000, TcpFlags::ACK));
    net.stacks[1].receive(now, segment(0, 5, 6, 100, 0, TcpFlags::SYN));
    net.stacks[1].receive(now, segment(0, 5, 6, 100, 0, TcpFlags::RST));
    net.idle(ms(5));
    let sent: Vec<TcpHeader> = net.trace.unwrap().iter().map(|(_, _, packet)| packet.tcp().unwrap().clone()).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[0].flags, sent[0].seq), (TcpFlags::RST, 7000));
    assert_eq!((sent[1].flags, sent[1].ack), (TcpFlags::RST | TcpFlags::ACK, 101));
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut net = Net::with(Link::new(ms(10), 100, 1_000_000), 1, |config| config.recv_autotune = false);
    let (client, server) = net.establish();
    let mut sent = 0;
    for _ in 0..20 {
        let space = net.stacks[0].send_space(client);
        sent += net.stacks[0].send(net.now, client, Bytes::from(vec![1; space]), SendFlags::empty()).unwrap_or(0);
        net.idle(ms(100));
    }
    let held = net.stacks[1].readable_bytes(server);
    assert!(sent > held && held > 60_000, "sent {sent}, held {held}");
    net.trace = Some(Vec::new());
    net.idle(secs(30));
    let probes = net.trace.as_ref().unwrap().iter().filter(|(_, side, _)| *side == 0).count();
    assert!((3..=10).contains(&probes), "{probes} probes");
    // Reading opens the window by itself; all arrives.
    let mut got = 0;
    net.run(secs(30), |net| {
        got += net.stacks[1].recv(net.now, server, usize::MAX, false, &mut |bytes| bytes.len()).unwrap_or(0);
    });
    assert_eq!(got, sent);
}

#[test]
fn a_lost_window_update_does_not_stall() {
    let mut net = Net::with(Link::new(ms(10), 100, 1_000_000), 1, |config| config.recv_autotune = false);
    let (client, server) = net.establish();
    let mut sent = 0;
    for _ in 0..20 {
        let space = net.stacks[0].send_space(client);
        sent += net.stacks[0].send(net.now, client, Bytes::from(vec![1; space]), SendFlags::empty()).unwrap_or(0);
        net.idle(ms(100));
    }
    net.links[1].cut = true;
    let mut got = net.recv(1, server, usize::MAX).unwrap().len();
    net.idle(ms(50));
    net.links[1].cut = false;
    net.run(secs(200), |net| {
        got += net.stacks[1].recv(net.now, server, usize::MAX, false, &mut |bytes| bytes.len()).unwrap_or(0);
    });
    assert_eq!(got, sent);
}

#[test]
fn a_full_backlog_drops_and_recovers() {
    for syn_cookies in [0, 1] {
        let mut net = Net::with(Link::new(ms(10), 1000, 10_000_000), 1, |config| config.syn_cookies = syn_cookies);
        let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
        net.stacks[1].bind(listener, addr(B, 80)).unwrap();
        net.stacks[1].listen(listener, 1).unwrap();
        let clients: Vec<SocketId> = (0..5)
            .map(|_| {
                let id = net.stacks[0].tcp_socket(tcpip::Family::V4);
                net.stacks[0].connect(net.now, id, addr(B, 80)).unwrap();
                id
            })
            .collect();
        net.idle(ms(500));
        // Linux takes one more than the backlog; without cookies, no more handshakes at a time than it has room for.
        let mut accepted = Vec::new();
        while let Ok(id) = net.stacks[1].accept(listener) {
            accepted.push(id);
        }
        assert_eq!(accepted.len(), 1 + syn_cookies as usize);
        assert!(net.stacks[1].counters().listen_drops > 0);
        if syn_cookies > 0 {
            // Nothing is known of the others, who believe to be connected, until they say something.
            for client in &clients {
                net.send(0, *client, b"?").unwrap();
            }
        }
        for _ in 0..40 {
            net.idle(secs(1));
            while let Ok(id) = net.stacks[1].accept(listener) {
                accepted.push(id);
            }
        }
        assert_eq!(accepted.len(), 5, "the others come when there is room");
        for client in clients {
            assert_eq!(net.state(0, client), TcpState::Established);
        }
    }
}

#[test]
fn closing_a_listener_resets_who_waits() {
    let mut net = net();
    let (client, listener) = net.start_connect(80);
    net.idle(ms(100));
    net.stacks[1].close(net.now, listener);
    net.idle(ms(100));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::ConnectionReset));
    assert_eq!(net.stacks[1].socket_count(), 0);
}

#[test]
fn time_wait_holds_the_port_and_yields_to_a_new_syn() {
    let mut net = net();
    let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
    net.stacks[1].bind(listener, addr(B, 80)).unwrap();
    net.stacks[1].listen(listener, 5).unwrap();
    let connect = |net: &mut Net| {
        let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
        net.stacks[0].set_option(net.now, client, SocketOption::ReuseAddress(true)).unwrap();
        net.stacks[0].bind(client, addr(A, 5555)).unwrap();
        net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
        net.idle(ms(100));
        (client, net.stacks[1].accept(listener).expect("not accepted"))
    };
    let (client, server) = connect(&mut net);
    // The server closes first: TIME_WAIT is on its side.
    net.stacks[1].close(net.now, server);
    net.idle(ms(100));
    net.stacks[0].close(net.now, client);
    net.idle(ms(100));
    assert_eq!((net.stacks[0].socket_count(), net.stacks[1].socket_count()), (0, 2));
    let (_, server) = connect(&mut net);
    assert_eq!(net.state(1, server), TcpState::Established);
    // A new listener may not take the port without SO_REUSEADDR.
    net.stacks[1].close(net.now, server);
    net.stacks[1].close(net.now, listener);
    net.idle(ms(100));
    let other = net.stacks[1].tcp_socket(tcpip::Family::V4);
    assert_eq!(net.stacks[1].bind(other, addr(B, 80)), Err(SocketError::AddressInUse));
}

#[test]
fn an_orphan_does_not_wait_for_ever_in_fin_wait_2() {
    let mut net = net();
    let (client, _server) = net.establish();
    net.stacks[0].close(net.now, client);
    net.idle(secs(59));
    assert_eq!(net.stacks[0].socket_count(), 1);
    net.idle(secs(2));
    assert_eq!(net.stacks[0].socket_count(), 0);
}

#[test]
fn keepalive_finds_a_dead_peer_and_spares_a_living_one() {
    let mut net = net();
    let (client, _server) = net.establish();
    let now = net.now;
    for option in [
        SocketOption::KeepAlive(true),
        SocketOption::KeepIdle(secs(10)),
        SocketOption::KeepInterval(secs(2)),
        SocketOption::KeepCount(3),
    ] {
        net.stacks[0].set_option(now, client, option).unwrap();
    }
    net.idle(secs(300));
    assert_eq!(net.state(0, client), TcpState::Established);
    // Idle for ten seconds at most, then three probes two seconds apart.
    net.links[0].cut = true;
    net.idle(ms(5_900));
    assert_eq!(net.state(0, client), TcpState::Established);
    net.idle(ms(10_200));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::TimedOut));
}

#[test]
fn user_timeout_ends_unanswered_data() {
    let mut net = net();
    let (client, _server) = net.establish();
    let now = net.now;
    net.stacks[0].set_option(now, client, SocketOption::UserTimeout(secs(5))).unwrap();
    net.links[0].cut = true;
    net.send(0, client, b"lost").unwrap();
    net.idle(secs(4));
    assert_eq!(net.state(0, client), TcpState::Established);
    net.idle(secs(10));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::TimedOut));
}

#[test]
fn retransmission_gives_up_after_fifteen_minutes() {
    let mut net = net();
    let (client, _server) = net.establish();
    net.links[0].cut = true;
    net.send(0, client, b"lost").unwrap();
    net.idle(secs(900));
    assert_eq!(net.state(0, client), TcpState::Established);
    net.idle(secs(200));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::TimedOut));
}

#[test]
fn nagle_waits_no_delay_does_not_and_a_cork_holds() {
    let data_segments_with = |nagle: bool, options: &[SocketOption]| {
        let mut net = Net::with(Link::new(ms(10), 100, 1_000_000), 1, |config| config.nagle = nagle);
        let (client, _server) = net.establish();
        let now = net.now;
        for option in options {
            net.stacks[0].set_option(now, client, *option).unwrap();
        }
        net.trace = Some(Vec::new());
        for _ in 0..5 {
            net.send(0, client, b"tiny").unwrap();
        }
        net.idle(ms(150));
        let trace = net.trace.as_ref().unwrap();
        trace.iter().filter(|(_, side, packet)| *side == 0 && !packet.payload.is_empty()).count()
    };
    let data_segments = |options: &[SocketOption]| data_segments_with(true, options);
    assert_eq!(data_segments(&[]), 2);
    assert_eq!(data_segments(&[SocketOption::NoDelay(true)]), 5);
    assert_eq!(data_segments(&[SocketOption::Cork(true)]), 0);
    assert_eq!(data_segments_with(false, &[]), 5, "no rule, nothing waits");
    assert_eq!(data_segments_with(false, &[SocketOption::Cork(true)]), 0);
}

#[test]
fn a_cork_lets_go_when_it_is_pulled() {
    let mut net = net();
    let (client, server) = net.establish();
    let now = net.now;
    net.stacks[0].set_option(now, client, SocketOption::Cork(true)).unwrap();
    net.send(0, client, b"head ").unwrap();
    net.send(0, client, b"body").unwrap();
    net.idle(ms(100));
    assert_eq!(net.stacks[1].readable_bytes(server), 0);
    let now = net.now;
    net.stacks[0].set_option(now, client, SocketOption::Cork(false)).unwrap();
    net.idle(ms(100));
    assert_eq!(net.recv(1, server, 100).unwrap(), b"head body");
}

#[test]
fn acknowledgements_of_an_interactive_stream_are_delayed() {
    let mut net = net();
    let (client, server) = net.establish();
    // Ping-pong makes it interactive.
    for _ in 0..3 {
        net.send(0, client, b"ping").unwrap();
        net.idle(ms(30));
        net.recv(1, server, 10).unwrap();
        net.send(1, server, b"pong").unwrap();
        net.idle(ms(30));
        net.recv(0, client, 10).unwrap();
    }
    net.idle(ms(200));
    net.trace = Some(Vec::new());
    net.send(0, client, b"ping").unwrap();
    net.idle(ms(45));
    assert_eq!(net.trace.as_ref().unwrap().len(), 1, "no acknowledgement yet");
    net.idle(ms(30));
    assert_eq!(net.trace.as_ref().unwrap().len(), 2, "40 ms after the data");
}

#[test]
fn buffers_are_doubled_and_bounded_like_linux() {
    let mut net = net();
    let id = net.stacks[0].tcp_socket(tcpip::Family::V4);
    let stack = &mut net.stacks[0];
    assert_eq!(stack.option(id, OptionName::RecvBuffer), Ok(SocketOption::RecvBuffer(131_072)));
    stack.set_option(net.now, id, SocketOption::RecvBuffer(10_000)).unwrap();
    assert_eq!(stack.option(id, OptionName::RecvBuffer), Ok(SocketOption::RecvBuffer(20_000)));
    stack.set_option(net.now, id, SocketOption::SendBuffer(0)).unwrap();
    assert_eq!(stack.option(id, OptionName::SendBuffer), Ok(SocketOption::SendBuffer(4608)));
    stack.set_option(net.now, id, SocketOption::SendBuffer(u32::MAX)).unwrap();
    assert_eq!(stack.option(id, OptionName::SendBuffer), Ok(SocketOption::SendBuffer(8_388_608)));
}

#[test]
fn binding_follows_the_reuse_rules() {
    use SocketOption::{ReuseAddress, ReusePort};
    // Options of the first, whether it listens, options of the second, and whether the second may bind.
    let any = Ipv4Addr::UNSPECIFIED;
    let table: [(&[SocketOption], bool, Ipv4Addr, &[SocketOption], Ipv4Addr, bool); 8] = [
        (&[], false, any, &[], any, false),
        (&[], false, any, &[], B, false),
        (&[], false, B, &[], Ipv4Addr::LOCALHOST, true),
        (&[ReuseAddress(true)], false, any, &[ReuseAddress(true)], any, true),
        (&[ReuseAddress(true)], true, any, &[ReuseAddress(true)], any, false),
        (&[ReuseAddress(true)], false, any, &[], any, false),
        (&[ReusePort(true)], true, any, &[ReusePort(true)], any, true),
        (&[ReusePort(true)], true, any, &[], any, false),
    ];
    for (row, (first, listens, first_addr, second, second_addr, allowed)) in table.into_iter().enumerate() {
        let mut net = net();
        let stack = &mut net.stacks[1];
        let make = |stack: &mut tcpip::Stack, options: &[SocketOption]| {
            let id = stack.tcp_socket(tcpip::Family::V4);
            for option in options {
                stack.set_option(net.now, id, *option).unwrap();
            }
            id
        };
        let one = make(stack, first);
        stack.bind(one, addr(first_addr, 80)).unwrap();
        if listens {
            stack.listen(one, 5).unwrap();
        }
        let two = make(stack, second);
        assert_eq!(stack.bind(two, addr(second_addr, 80)).is_ok(), allowed, "row {row}");
        stack.close(net.now, one);
        stack.close(net.now, two);
        let three = stack.tcp_socket(tcpip::Family::V4);
        assert_eq!(stack.bind(three, addr(any, 80)), Ok(()), "row {row}: the port is free again");
    }
}

#[test]
fn bad_addresses_have_their_errors() {
    let mut net = net();
    let stack = &mut net.stacks[0];
    let id = stack.tcp_socket(tcpip::Family::V4);
    assert_eq!(stack.bind(id, addr(B, 1)), Err(SocketError::AddressNotAvailable));
    assert_eq!(stack.bind(id, "[::1]:1".parse().unwrap()), Err(SocketError::AddressFamilyNotSupported));
    stack.bind(id, addr(Ipv4Addr::LOCALHOST, 0)).unwrap();
    assert_eq!(stack.bind(id, addr(A, 1)), Err(SocketError::InvalidArgument));
    assert_eq!(stack.connect(net.now, id, addr(B, 1)), Err(SocketError::InvalidArgument));
    let port = stack.local_name(id).unwrap().port();
    assert!((32_768..=60_999).contains(&port));
    assert_eq!(stack.recv(net.now, id, 1, false, &mut |_| 0), Err(SocketError::NotConnected));
    assert_eq!(stack.accept(id), Err(SocketError::InvalidArgument));
    stack.close(net.now, id);
    assert_eq!(stack.bind(id, addr(A, 1)), Err(SocketError::BadSocket));
}

#[test]
fn a_listener_that_is_shut_gives_up_a_port_it_did_not_ask_for() {
    let mut net = net();
    let (stack, now) = (&mut net.stacks[0], net.now);
    let free = stack.tcp_socket(tcpip::Family::V4);
    stack.bind(free, addr(A, 0)).unwrap();
    stack.listen(free, 1).unwrap();
    let chosen = stack.local_name(free).unwrap();
    stack.shutdown(now, free, Shutdown::Read).unwrap();
    // It still tells the port, as Linux's sockets do, but others can have it.
    assert_eq!(stack.local_name(free), Ok(chosen));
    let other = stack.tcp_socket(tcpip::Family::V4);
    stack.bind(other, chosen).unwrap();
    stack.listen(free, 1).unwrap();
    assert_eq!(stack.local_name(free).unwrap().ip(), A);
    let bound = stack.tcp_socket(tcpip::Family::V4);
    stack.bind(bound, addr(A, 80)).unwrap();
    stack.listen(bound, 1).unwrap();
    stack.shutdown(now, bound, Shutdown::Read).unwrap();
    assert_eq!(stack.local_name(bound), Ok(addr(A, 80)));
}
