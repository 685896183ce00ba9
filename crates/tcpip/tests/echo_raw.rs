//! Echo sockets, raw sockets, error queues, and the order in which packets leave.

mod common;

use bytes::Bytes;
use common::{A, A6, B, B6, Link, Net, addr, ms};
use std::net::IpAddr;
use tcpip::wire::icmp;
use tcpip::{Family, Readiness, SendFlags, SocketError, SocketId, SocketOption, Transport};

const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMP6: u8 = 58;

fn net() -> Net {
    Net::new(Link::new(ms(10), 100, 1_000_000), 1)
}

fn read(net: &mut Net, side: usize, id: SocketId) -> Result<(Vec<u8>, tcpip::Received), SocketError> {
    let mut out = Vec::new();
    let received = net.stacks[side].recv_from(id, 100_000, false, &mut |bytes| {
        out.extend_from_slice(bytes);
        bytes.len()
    })?;
    Ok((out, received))
}

/// An echo request as a program writes it: type, code, checksum, identifier, sequence, data.
fn request(kind: u8) -> Bytes {
    Bytes::copy_from_slice(&[&[kind, 0, 0, 0, 0xaa, 0xaa, 0, 7][..], b"data"].concat())
}

#[test]
fn echoes_come_back_with_the_sockets_identifier() {
    let families: [(Family, IpAddr, u8, u8); 2] = [
        (Family::V4, B.into(), icmp::ECHO_REQUEST, icmp::ECHO_REPLY),
        (Family::V6, B6.into(), icmp::v6::ECHO_REQUEST, icmp::v6::ECHO_REPLY),
    ];
    for (family, to, ask, reply) in families {
        let mut net = net();
        let (one, other) = (net.stacks[0].echo_socket(family), net.stacks[0].echo_socket(family));
        net.stacks[0].send_to(other, request(ask), Some(addr(to, 0))).unwrap();
        net.idle(ms(50));
        assert_eq!(read(&mut net, 0, one).map(|_| ()), Err(SocketError::WouldBlock));
        let (bytes, received) = read(&mut net, 0, other).unwrap();
        let ident = net.stacks[0].local_name(other).unwrap().port();
        assert_eq!((bytes[0], &bytes[4..6], &bytes[6..]), (reply, &ident.to_be_bytes()[..], &b"\0\x07data"[..]));
        assert_eq!((received.from, received.ttl), (addr(to, 0), 64));
        for bad in [Bytes::from_static(b"short"), request(reply), request(99)] {
            assert_eq!(net.stacks[0].send_to(one, bad, Some(addr(to, 0))), Err(SocketError::InvalidArgument));
        }
    }
}

#[test]
fn long_echoes_travel_in_fragments_both_ways() {
    for (family, to, ask) in
        [(Family::V4, IpAddr::from(B), icmp::ECHO_REQUEST), (Family::V6, IpAddr::from(B6), icmp::v6::ECHO_REQUEST)]
    {
        let mut net = net();
        net.trace = Some(Vec::new());
        let id = net.stacks[0].echo_socket(family);
        let long = [&request(ask)[..], &[7; 4000]].concat();
        net.stacks[0].send_to(id, long.into(), Some(addr(to, 0))).unwrap();
        net.idle(ms(50));
        assert_eq!(read(&mut net, 0, id).unwrap().0.len(), 4012);
        let trace = net.trace.take().unwrap();
        assert_eq!(trace.len(), 6);
        assert!(trace.iter().all(|(.., packet)| packet.wire_len() <= 1500));
    }
}

#[test]
fn raw_sockets_hear_every_packet_of_their_protocol() {
    let mut net = net();
    let four = net.stacks[1].raw_socket(Family::V4, ICMP);
    let six = net.stacks[1].raw_socket(Family::V6, ICMP6);
    let deaf = net.stacks[1].raw_socket(Family::V4, ICMP);
    net.stacks[1].block_types(deaf, [1 << icmp::ECHO_REQUEST, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let asker = net.stacks[0].echo_socket(Family::V4);
    net.stacks[0].send_to(asker, request(icmp::ECHO_REQUEST), Some(addr(B, 0))).unwrap();
    let asker6 = net.stacks[0].echo_socket(Family::V6);
    net.stacks[0].send_to(asker6, request(icmp::v6::ECHO_REQUEST), Some(addr(B6, 0))).unwrap();
    net.idle(ms(50));
    let (bytes, received) = read(&mut net, 1, four).unwrap();
    assert_eq!((bytes[0], bytes[9], bytes[20], received.from), (0x45, ICMP, icmp::ECHO_REQUEST, addr(A, 0)));
    let (bytes, received) = read(&mut net, 1, six).unwrap();
    assert_eq!((bytes[0], received.from), (icmp::v6::ECHO_REQUEST, addr(A6, 0)));
    assert_eq!(read(&mut net, 1, deaf).map(|_| ()), Err(SocketError::WouldBlock));
    // The host answers all the same.
    assert!(read(&mut net, 0, asker).is_ok() && read(&mut net, 0, asker6).is_ok());
}

#[test]
fn raw_sockets_send_what_they_are_given() {
    let mut net = net();
    net.trace = Some(Vec::new());
    let raw = net.stacks[0].raw_socket(Family::V4, 200);
    net.stacks[0].send_to(raw, Bytes::from_static(b"own protocol"), Some(addr(B, 0))).unwrap();
    let own_header = net.stacks[0].raw_socket(Family::V4, 255);
    let mut packet = vec![0x45, 0x10, 0, 0, 0, 9, 0x40, 0, 33, 201, 0, 0, 0, 0, 0, 0];
    packet.extend_from_slice(&B.octets());
    packet.extend_from_slice(b"body");
    net.stacks[0].send_to(own_header, packet.into(), Some(addr(B, 0))).unwrap();
    let short = net.stacks[0].send_to(own_header, Bytes::from_static(b"\x45"), Some(addr(B, 0)));
    assert_eq!(short, Err(SocketError::InvalidArgument));
    net.flush();
    let trace = net.trace.take().unwrap();
    assert_eq!(trace[0].2.transport, Transport::Raw { protocol: 200 });
    let (ip, transport, payload) = (&trace[1].2.ip, &trace[1].2.transport, &trace[1].2.payload);
    assert_eq!((ip.src, ip.ttl, ip.tos, ip.id), (A.into(), 33, 0x10, 9));
    assert_eq!((transport, &payload[..]), (&Transport::Raw { protocol: 201 }, &b"body"[..]));
}

#[test]
fn a_raw_socket_of_tcp_hears_beside_the_connection() {
    let mut net = net();
    let raw = net.stacks[1].raw_socket(Family::V4, TCP);
    net.establish();
    let (bytes, _) = read(&mut net, 1, raw).unwrap();
    assert_eq!((bytes[9], bytes[33]), (TCP, 0x02), "the SYN");
}

#[test]
fn errors_are_queued_for_who_wants_them() {
    for (family, to) in [(Family::V4, IpAddr::from(B)), (Family::V6, IpAddr::from(B6))] {
        let mut net = net();
        let id = net.stacks[0].udp_socket(family);
        net.stacks[0].set_option(net.now, id, SocketOption::RecvErrors(true)).unwrap();
        net.stacks[0].set_option(net.now, id, SocketOption::RecvErrors6(true)).unwrap();
        net.stacks[0].send_to(id, Bytes::from_static(b"hello"), Some(addr(to, 9))).unwrap();
        net.idle(ms(50));
        assert!(net.stacks[0].readiness(id).contains(Readiness::ERROR));
        let report = net.stacks[0].take_report(id).unwrap();
        let expected = if family == Family::V4 { (3, 3) } else { (1, 4) };
        assert_eq!((report.error, report.icmp), (SocketError::ConnectionRefused, Some(expected)));
        assert_eq!((report.to, report.offender, &report.payload[..]), (addr(to, 9), Some(to), &b"hello"[..]));
        assert_eq!(net.stacks[0].take_report(id), None);
        assert_eq!(net.stacks[0].take_error(id), None);
    }
}

#[test]
fn datagrams_that_must_stay_whole_are_refused_with_the_mtu() {
    let mut net = net();
    let id = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].set_option(net.now, id, SocketOption::DontFragment6(true)).unwrap();
    net.stacks[0].set_option(net.now, id, SocketOption::RecvErrors6(true)).unwrap();
    let mut send = |size: usize| net.stacks[0].send_to(id, vec![0; size].into(), Some(addr(B6, 9)));
    assert_eq!(send(1452), Ok(1452));
    assert_eq!(send(1453), Err(SocketError::MessageTooLong));
    let report = net.stacks[0].take_report(id).unwrap();
    assert_eq!((report.error, report.icmp, report.info), (SocketError::MessageTooLong, None, 1500));
}

#[test]
fn acknowledgements_queue_as_everything_else() {
    let mut net = net();
    let (bulk, listener) = net.start_connect(80);
    net.idle(ms(100));
    let receiver = net.stacks[0].tcp_socket(Family::V4);
    net.stacks[0].connect(net.now, receiver, addr(B, 80)).unwrap();
    net.idle(ms(100));
    net.stacks[1].accept(listener).unwrap();
    let sender = net.stacks[1].accept(listener).unwrap();
    // Both at one moment: three trains of one connection wait, all that its small queue takes, and two segments of the other have come.
    let now = net.now;
    net.stacks[0].send(now, bulk, vec![0; 14_000].into(), SendFlags::empty()).unwrap();
    net.stacks[1].send(now, sender, vec![0; 2896].into(), SendFlags::empty()).unwrap();
    while let Some(packet) = net.stacks[1].poll_transmit(now) {
        net.stacks[0].receive(now, packet);
    }
    let port = net.stacks[0].local_name(receiver).unwrap().port();
    let mut before = 0;
    let acknowledgement = loop {
        let packet = net.stacks[0].poll_transmit(now).unwrap();
        if packet.tcp().unwrap().src_port == port {
            break packet;
        }
        before += packet.payload.len();
    };
    assert_eq!((before, acknowledgement.payload.len()), (3 * 2896, 0));
}
