//! UDP and ICMP.

mod common;

use bytes::Bytes;
use common::{A, B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use tcpip::wire::icmp::{self, IcmpHeader};
use tcpip::wire::ip::IpHeader;
use tcpip::{Packet, Readiness, SocketError, SocketId, SocketOption, Transport};

fn net() -> Net {
    Net::new(Link::new(ms(10), 100, 1_000_000), 1)
}

fn bound(net: &mut Net, side: usize, ip: Ipv4Addr, port: u16) -> SocketId {
    let id = net.stacks[side].udp_socket(tcpip::Family::V4);
    net.stacks[side].bind(id, addr(ip, port)).unwrap();
    id
}

fn read(net: &mut Net, side: usize, id: SocketId, max: usize) -> Result<(Vec<u8>, tcpip::Received), SocketError> {
    let mut out = Vec::new();
    let received = net.stacks[side].recv_from(id, max, false, &mut |bytes| {
        out.extend_from_slice(bytes);
        bytes.len()
    })?;
    Ok((out, received))
}

#[test]
fn datagrams_keep_their_borders_and_sender() {
    let mut net = net();
    let server = bound(&mut net, 1, Ipv4Addr::UNSPECIFIED, 53);
    let client = net.stacks[0].udp_socket(tcpip::Family::V4);
    for text in [&b"one"[..], b"", b"three"] {
        net.stacks[0].send_to(client, Bytes::from_static(text), Some(addr(B, 53))).unwrap();
    }
    net.idle(ms(50));
    assert_eq!(net.stacks[1].readiness(server), Readiness::READABLE | Readiness::WRITABLE);
    let (text, received) = read(&mut net, 1, server, 2).unwrap();
    assert_eq!((&text[..], received.copied, received.full), (&b"on"[..], 2, 3));
    assert_eq!(received.from, addr(A, net.stacks[0].local_name(client).unwrap().port()));
    assert_eq!(received.to, addr(B, 53));
    assert_eq!(read(&mut net, 1, server, 10).unwrap().1.full, 0);
    assert_eq!(read(&mut net, 1, server, 10).unwrap().0, b"three");
    assert_eq!(read(&mut net, 1, server, 10), Err(SocketError::WouldBlock));
}

#[test]
fn a_connected_socket_hears_its_peer_only_and_learns_of_closed_ports() {
    let mut net = net();
    let client = net.stacks[0].udp_socket(tcpip::Family::V4);
    net.stacks[0].connect(net.now, client, addr(B, 9)).unwrap();
    net.stacks[0].send_to(client, Bytes::from_static(b"x"), None).unwrap();
    net.idle(ms(50));
    assert!(net.stacks[0].readiness(client).contains(Readiness::ERROR));
    let again = net.stacks[0].send_to(client, Bytes::from_static(b"x"), None);
    assert_eq!(again, Err(SocketError::ConnectionRefused));
    let port = net.stacks[0].local_name(client).unwrap().port();
    let stranger = bound(&mut net, 1, B, 1000);
    net.stacks[1].send_to(stranger, Bytes::from_static(b"hi"), Some(addr(A, port))).unwrap();
    net.idle(ms(50));
    assert_eq!(read(&mut net, 0, client, 10), Err(SocketError::WouldBlock));
    assert_eq!(net.stacks[0].send_to(client, Bytes::from(vec![0; 65_508]), None), Err(SocketError::MessageTooLong));
    net.stacks[0].disconnect(net.now, client).unwrap();
    let nowhere = net.stacks[0].send_to(client, Bytes::new(), None);
    assert_eq!(nowhere, Err(SocketError::DestinationRequired));
}

#[test]
fn large_datagrams_are_fragmented_and_reassembled_out_of_order() {
    let mut net = net();
    net.links[0].reorder = 0.5;
    let server = bound(&mut net, 1, B, 53);
    let client = bound(&mut net, 0, A, 54);
    net.trace = Some(Vec::new());
    let data: Vec<u8> = (0..20_000u64).map(common::pattern).collect();
    net.stacks[0].send_to(client, data.clone().into(), Some(addr(B, 53))).unwrap();
    net.idle(ms(100));
    let trace = net.trace.as_ref().unwrap();
    assert_eq!(trace.len(), 14);
    assert!(trace.iter().all(|(_, _, packet)| packet.wire_len() <= 1500));
    assert_eq!(read(&mut net, 1, server, 70_000).unwrap().0, data);
}

#[test]
fn a_full_receive_buffer_drops() {
    let mut net = Net::new(Link::new(ms(10), 1000, 10_000_000), 1);
    let server = bound(&mut net, 1, B, 53);
    let client = bound(&mut net, 0, A, 54);
    for _ in 0..1000 {
        net.stacks[0].send_to(client, Bytes::from(vec![0; 1000]), Some(addr(B, 53))).unwrap();
        net.flush();
    }
    net.idle(ms(100));
    let mut got = 0;
    while read(&mut net, 1, server, 2000).is_ok() {
        got += 1;
    }
    // 212,992 bytes of memory at 2,304 each, as on Linux.
    assert_eq!(got, 92);
    assert_eq!(net.stacks[1].counters().datagram_drops, 1000 - got);
}

#[test]
fn a_full_send_buffer_blocks_until_the_interface_takes_packets() {
    let mut net = net();
    let client = bound(&mut net, 0, A, 54);
    let stack = &mut net.stacks[0];
    let mut sent = 0;
    let error = loop {
        match stack.send_to(client, Bytes::from(vec![0; 1000]), Some(addr(B, 53))) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error, SocketError::WouldBlock);
    assert_eq!(sent, 93);
    assert!(!stack.readiness(client).contains(Readiness::WRITABLE));
    net.flush();
    assert!(net.events[0].iter().any(|(id, ready)| *id == client && ready.contains(Readiness::WRITABLE)));
    assert!(net.stacks[0].send_to(client, Bytes::new(), Some(addr(B, 53))).is_ok());
}

#[test]
fn loopback_datagrams_and_refusals_stay_in_the_host() {
    let mut net = net();
    let server = bound(&mut net, 0, Ipv4Addr::LOCALHOST, 53);
    let client = net.stacks[0].udp_socket(tcpip::Family::V4);
    net.stacks[0].connect(net.now, client, addr(Ipv4Addr::LOCALHOST, 53)).unwrap();
    net.stacks[0].send_to(client, Bytes::from_static(b"home"), None).unwrap();
    net.flush();
    let (text, received) = read(&mut net, 0, server, 10).unwrap();
    assert_eq!((&text[..], received.from.ip()), (&b"home"[..], std::net::IpAddr::V4(Ipv4Addr::LOCALHOST)));
    net.stacks[0].close(net.now, server);
    net.stacks[0].send_to(client, Bytes::from_static(b"gone"), None).unwrap();
    net.flush();
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::ConnectionRefused));
    assert_eq!(net.stacks[0].counters().packets_out, 0);
}

#[test]
fn echo_requests_are_answered() {
    let mut net = net();
    let header = IcmpHeader { kind: icmp::ECHO_REQUEST, code: 0, rest: 0x0001_0002 };
    let payload = Bytes::from_static(b"ping");
    let request = Packet::new(IpHeader::new(A, B), Transport::Icmp(header), payload.clone());
    net.stacks[1].receive(net.now, request);
    let reply = net.stacks[1].poll_transmit(net.now).unwrap();
    assert_eq!(reply.transport, Transport::Icmp(IcmpHeader { kind: icmp::ECHO_REPLY, ..header }));
    assert_eq!((reply.ip.src, reply.ip.dst, reply.payload), (B.into(), A.into(), payload));
}

#[test]
fn stacks_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<tcpip::Stack>();
    is_send::<Packet>();
}

#[test]
fn disconnecting_gives_up_what_bind_did_not_ask_for() {
    let mut net = net();
    let (stack, now) = (&mut net.stacks[0], net.now);
    let free = stack.udp_socket(tcpip::Family::V4);
    stack.connect(now, free, addr(Ipv4Addr::LOCALHOST, 9)).unwrap();
    stack.disconnect(now, free).unwrap();
    assert_eq!(stack.local_name(free), Ok(addr(Ipv4Addr::UNSPECIFIED, 0)));
    // A source address of the loopback interface would not leave the host.
    assert!(stack.connect(now, free, addr(B, 9)).is_ok());
    let bound = stack.udp_socket(tcpip::Family::V4);
    stack.bind(bound, addr(A, 5000)).unwrap();
    stack.connect(now, bound, addr(B, 9)).unwrap();
    stack.disconnect(now, bound).unwrap();
    assert_eq!(stack.local_name(bound), Ok(addr(A, 5000)));
}

#[test]
fn sockets_that_share_a_port_share_its_datagrams_by_sender() {
    let mut net = net();
    let group: Vec<SocketId> = (0..4)
        .map(|_| {
            let id = net.stacks[1].udp_socket(tcpip::Family::V4);
            net.stacks[1].set_option(net.now, id, SocketOption::ReusePort(true)).unwrap();
            net.stacks[1].bind(id, addr(Ipv4Addr::UNSPECIFIED, 53)).unwrap();
            id
        })
        .collect();
    let clients: Vec<SocketId> = (0..200).map(|_| net.stacks[0].udp_socket(tcpip::Family::V4)).collect();
    for _ in 0..2 {
        for client in &clients {
            net.stacks[0].send_to(*client, Bytes::from_static(b"?"), Some(addr(B, 53))).unwrap();
        }
    }
    net.idle(ms(50));
    let mut total = 0;
    for id in group {
        let mut senders = Vec::new();
        while let Ok((_, received)) = read(&mut net, 1, id, 10) {
            senders.push(received.from.port());
        }
        // Nobody is left out, and each sender's datagrams go to one socket.
        assert!((50..150).contains(&senders.len()), "{}", senders.len());
        let (first, second) = senders.split_at(senders.len() / 2);
        assert_eq!(first, second);
        total += senders.len();
    }
    assert_eq!(total, 400);
}

/// The addresses of everybody on the link, and of everybody in the network of `A` and `B`.
const EVERYBODY: [Ipv4Addr; 2] = [Ipv4Addr::BROADCAST, Ipv4Addr::new(A.octets()[0], A.octets()[1], A.octets()[2], 255)];

#[test]
fn a_broadcast_needs_leave_and_reaches_every_socket_that_it_fits() {
    for everybody in EVERYBODY {
        let mut net = net();
        let any = bound(&mut net, 1, Ipv4Addr::UNSPECIFIED, 68);
        let listener = bound(&mut net, 1, everybody, 69);
        let own = bound(&mut net, 1, B, 70);
        let at_home = bound(&mut net, 0, Ipv4Addr::UNSPECIFIED, 68);
        let sender = net.stacks[0].udp_socket(tcpip::Family::V4);
        let send =
            |net: &mut Net, port| net.stacks[0].send_to(sender, Bytes::from_static(b"hi"), Some(addr(everybody, port)));
        assert_eq!(send(&mut net, 68), Err(SocketError::PermissionDenied));
        assert_eq!(net.stacks[0].connect(net.now, sender, addr(everybody, 68)), Err(SocketError::PermissionDenied));
        net.stacks[0].set_option(net.now, sender, SocketOption::Broadcast(true)).unwrap();
        for port in 68..=71 {
            assert_eq!(send(&mut net, port), Ok(2));
        }
        net.idle(ms(50));
        let from = addr(A, net.stacks[0].local_name(sender).unwrap().port());
        for (side, id, port) in [(1, any, 68), (1, listener, 69), (0, at_home, 68)] {
            let (text, received) = read(&mut net, side, id, 10).unwrap();
            assert_eq!((&text[..], received.from, received.to), (&b"hi"[..], from, addr(everybody, port)));
            assert_eq!(read(&mut net, side, id, 10), Err(SocketError::WouldBlock));
        }
        // A socket at the host's own address hears none, and nobody is told of a port without a socket.
        assert_eq!(read(&mut net, 1, own, 10), Err(SocketError::WouldBlock));
        assert!(!net.stacks[0].readiness(sender).contains(Readiness::ERROR));
    }
}

#[test]
fn connections_to_everybody_are_refused() {
    for everybody in EVERYBODY {
        let mut net = net();
        let stream = net.stacks[0].tcp_socket(tcpip::Family::V4);
        net.stacks[0].set_option(net.now, stream, SocketOption::Broadcast(true)).unwrap();
        assert_eq!(net.stacks[0].connect(net.now, stream, addr(everybody, 80)), Err(SocketError::NetworkUnreachable));
    }
}
