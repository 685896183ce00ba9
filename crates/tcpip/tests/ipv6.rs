//! IPv6, and sockets that speak both: addresses, ports, datagrams, fragments, connections, errors.

mod common;

use bytes::Bytes;
use common::{A, A6, B, B6, Link, Net, Reader, Writer, addr, ms};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcpip::wire::icmp::{self, IcmpHeader};
use tcpip::wire::ip::IpHeader;
use tcpip::{Family, OptionName, Packet, Readiness, SocketError, SocketId, SocketOption, Transport};

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

fn net() -> Net {
    Net::new(Link::new(ms(10), 100, 1_000_000), 1)
}

fn socket(net: &mut Net, side: usize, stream: bool, family: Family) -> SocketId {
    if stream { net.stacks[side].tcp_socket(family) } else { net.stacks[side].udp_socket(family) }
}

fn read(net: &mut Net, side: usize, id: SocketId) -> Result<(Vec<u8>, tcpip::Received), SocketError> {
    let mut out = Vec::new();
    let received = net.stacks[side].recv_from(id, 100_000, false, &mut |bytes| {
        out.extend_from_slice(bytes);
        bytes.len()
    })?;
    Ok((out, received))
}

#[test]
fn streams_over_ipv6_have_their_own_mss_and_whole_bytes() {
    let mut link = Link::new(ms(5), 100, 200_000);
    (link.loss, link.reorder) = (0.02, 0.1);
    let mut net = Net::new(link, 3);
    net.trace = Some(Vec::new());
    let listener = net.stacks[1].tcp_socket(Family::V6);
    net.stacks[1].bind(listener, addr(ANY6, 80)).unwrap();
    net.stacks[1].listen(listener, 1).unwrap();
    let client = net.stacks[0].tcp_socket(Family::V6);
    net.stacks[0].connect(net.now, client, addr(B6, 80)).unwrap();
    net.idle(ms(2000));
    let server = net.stacks[1].accept(listener).unwrap();
    assert_eq!(net.stacks[1].local_name(server).unwrap(), addr(B6, 80));
    assert_eq!(net.stacks[1].peer_name(server).unwrap().ip(), A6);
    assert_eq!(net.stacks[0].option(client, OptionName::MaxSegment), Ok(SocketOption::MaxSegment(1428)));
    let (mut writer, mut reader) = (Writer::new(0, client, 500_000), Reader::new(1, server));
    net.run(ms(60_000), |net| {
        writer.run(net);
        reader.run(net);
    });
    assert!(reader.done && reader.got == 500_000);
    let trace = net.trace.take().unwrap();
    assert!(trace.iter().all(|(.., packet)| packet.ip.is_v6() && packet.wire_len() <= 1500));
    assert_eq!(trace[0].2.tcp().unwrap().options.mss.map(|mss| mss.get()), Some(1440));
    for (.., packet) in &trace {
        let mut bytes = Vec::new();
        packet.emit(&mut bytes);
        let parsed = Packet::parse(&bytes).unwrap();
        assert_eq!((parsed.transport, parsed.payload), (packet.transport.clone(), packet.payload.clone()));
    }
}

#[test]
fn an_ipv6_listener_serves_ipv4_unless_it_says_no() {
    for v6_only in [false, true] {
        let mut net = net();
        let listener = net.stacks[1].tcp_socket(Family::V6);
        net.stacks[1].set_option(net.now, listener, SocketOption::V6Only(v6_only)).unwrap();
        net.stacks[1].bind(listener, addr(ANY6, 80)).unwrap();
        net.stacks[1].listen(listener, 1).unwrap();
        let client = net.stacks[0].tcp_socket(Family::V4);
        net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
        net.idle(ms(100));
        let refused = net.stacks[0].take_error(client);
        if v6_only {
            assert_eq!(refused, Some(SocketError::ConnectionRefused));
            continue;
        }
        let server = net.stacks[1].accept(listener).unwrap();
        let peer = net.stacks[1].peer_name(server).unwrap();
        assert_eq!(peer.ip(), A.to_ipv6_mapped());
        assert_eq!(net.stacks[1].local_name(server).unwrap(), addr(B.to_ipv6_mapped(), 80));
        assert_eq!(net.stacks[0].peer_name(client).unwrap(), addr(B, 80));
    }
}

#[test]
fn a_listener_of_ones_own_family_comes_first() {
    let mut net = net();
    let mut listeners = Vec::new();
    for (family, ip) in [(Family::V6, ANY6), (Family::V4, ANY4)] {
        let id = net.stacks[1].tcp_socket(family);
        net.stacks[1].set_option(net.now, id, SocketOption::V6Only(family == Family::V6)).unwrap();
        net.stacks[1].bind(id, addr(ip, 80)).unwrap();
        net.stacks[1].listen(id, 1).unwrap();
        listeners.push(id);
    }
    for (family, ip) in [(Family::V4, IpAddr::V4(B)), (Family::V6, IpAddr::V6(B6))] {
        let id = net.stacks[0].tcp_socket(family);
        net.stacks[0].connect(net.now, id, addr(ip, 80)).unwrap();
    }
    net.idle(ms(100));
    assert!(net.stacks[1].accept(listeners[0]).is_ok());
    assert!(net.stacks[1].accept(listeners[1]).is_ok());
}

#[test]
fn ports_of_both_families_are_one_space_where_addresses_meet() {
    let own = (IpAddr::V4(A), IpAddr::V6(A6), IpAddr::V6(A.to_ipv6_mapped()));
    // Who is first, who comes second with which IPV6_V6ONLY, and whether that is in its way.
    let cases = [
        (ANY4, ANY6, false, true),
        (ANY4, ANY6, true, false),
        (own.0, ANY6, false, true),
        (own.0, ANY6, true, false),
        (own.1, ANY6, true, true),
        (own.1, ANY4, false, false),
        (ANY4, own.1, false, false),
        (own.0, own.1, false, false),
        (own.0, own.2, false, true),
        (ANY4, own.2, false, true),
        (ANY6, own.2, false, true),
        (ANY6, own.1, false, true),
        (ANY6, own.0, false, true),
        (own.2, ANY4, false, true),
    ];
    let family = |ip: IpAddr| Family::of(ip);
    for (first, second, v6_only, conflict) in cases {
        for stream in [true, false] {
            let mut net = net();
            let one = socket(&mut net, 0, stream, family(first));
            net.stacks[0].bind(one, addr(first, 80)).unwrap();
            let two = socket(&mut net, 0, stream, family(second));
            net.stacks[0].set_option(net.now, two, SocketOption::V6Only(v6_only)).unwrap();
            let result = net.stacks[0].bind(two, addr(second, 80));
            let expected = if conflict { Err(SocketError::AddressInUse) } else { Ok(()) };
            assert_eq!(result, expected, "{first} then {second}, v6_only {v6_only}, stream {stream}");
        }
    }
}

#[test]
fn datagrams_between_families_carry_mapped_addresses() {
    let mut net = net();
    let server = net.stacks[1].udp_socket(Family::V6);
    net.stacks[1].bind(server, addr(ANY6, 53)).unwrap();
    let old = net.stacks[0].udp_socket(Family::V4);
    let new = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].send_to(old, Bytes::from_static(b"four"), Some(addr(B, 53))).unwrap();
    net.stacks[0].send_to(new, Bytes::from_static(b"six"), Some(addr(B6, 53))).unwrap();
    net.stacks[0].send_to(new, Bytes::from_static(b"mapped"), Some(addr(B.to_ipv6_mapped(), 53))).unwrap();
    net.idle(ms(50));
    let mapped = IpAddr::V6(A.to_ipv6_mapped());
    for (text, from) in [(&b"four"[..], mapped), (b"six", IpAddr::V6(A6)), (b"mapped", mapped)] {
        let (got, received) = read(&mut net, 1, server).unwrap();
        assert_eq!((&got[..], received.from.ip(), received.ttl), (text, from, 64));
        net.stacks[1].send_to(server, got.into(), Some(received.from)).unwrap();
    }
    net.idle(ms(50));
    assert_eq!(read(&mut net, 0, old).unwrap().1.from, addr(B, 53));
    assert_eq!(read(&mut net, 0, new).unwrap().1.from, addr(B6, 53));
    assert_eq!(read(&mut net, 0, new).unwrap().1.from, addr(B.to_ipv6_mapped(), 53));
}

#[test]
fn destinations_are_refused_by_family_and_option() {
    let mut net = net();
    let four = net.stacks[0].udp_socket(Family::V4);
    let six = net.stacks[0].udp_socket(Family::V6);
    let send = |net: &mut Net, id, to| net.stacks[0].send_to(id, Bytes::from_static(b"x"), Some(to));
    assert_eq!(send(&mut net, four, addr(B6, 9)), Err(SocketError::AddressFamilyNotSupported));
    net.stacks[0].set_option(net.now, six, SocketOption::V6Only(true)).unwrap();
    assert_eq!(send(&mut net, six, addr(B.to_ipv6_mapped(), 9)), Err(SocketError::NetworkUnreachable));
    assert_eq!(send(&mut net, six, addr(B6, 9)), Ok(1));
    assert_eq!(net.stacks[0].set_option(net.now, six, SocketOption::V6Only(false)), Err(SocketError::InvalidArgument));
    let bound = net.stacks[0].udp_socket(Family::V6);
    assert_eq!(net.stacks[0].bind(bound, addr(B6, 9)), Err(SocketError::AddressNotAvailable));
    net.stacks[0].bind(bound, addr(A6, 9)).unwrap();
    assert_eq!(net.stacks[0].option(bound, OptionName::V6Only), Ok(SocketOption::V6Only(true)));
    assert_eq!(send(&mut net, bound, addr(B.to_ipv6_mapped(), 9)), Err(SocketError::NetworkUnreachable));
}

#[test]
fn without_an_address_only_the_host_itself_can_be_reached() {
    let mut net = Net::with(Link::new(ms(1), 100, 1_000_000), 1, |config| config.address6 = None);
    let client = net.stacks[0].tcp_socket(Family::V6);
    assert_eq!(net.stacks[0].connect(net.now, client, addr(B6, 80)), Err(SocketError::NetworkUnreachable));
    let server = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].bind(server, addr(Ipv6Addr::LOCALHOST, 53)).unwrap();
    let client = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].send_to(client, Bytes::from_static(b"x"), Some(addr(ANY6, 53))).unwrap();
    net.stacks[0].run_loopback(net.now);
    assert_eq!(read(&mut net, 0, server).unwrap().1.from.ip(), Ipv6Addr::LOCALHOST);
}

#[test]
fn large_datagrams_travel_in_fragments() {
    for size in [1452usize, 1453, 1500, 2904, 40_000, 65_527] {
        let mut net = net();
        net.trace = Some(Vec::new());
        let server = net.stacks[1].udp_socket(Family::V6);
        net.stacks[1].bind(server, addr(ANY6, 53)).unwrap();
        let client = net.stacks[0].udp_socket(Family::V6);
        let payload: Vec<u8> = (0..size).map(|i| common::pattern(i as u64)).collect();
        net.stacks[0].send_to(client, payload.clone().into(), Some(addr(B6, 53))).unwrap();
        net.idle(ms(100));
        assert_eq!(read(&mut net, 1, server).unwrap().0, payload);
        let trace = net.trace.take().unwrap();
        assert!(trace.iter().all(|(.., packet)| packet.wire_len() <= 1500));
        let body = size + 8;
        let expected = if body + 40 <= 1500 { 1 } else { body.div_ceil(1448) };
        assert_eq!(trace.len(), expected, "{size} bytes");
        let too_long = net.stacks[0].send_to(client, vec![0; 65_528].into(), Some(addr(B6, 53)));
        assert_eq!(too_long, Err(SocketError::MessageTooLong));
    }
}

#[test]
fn closed_ports_and_unknown_protocols_are_told() {
    let mut net = net();
    let client = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].connect(net.now, client, addr(B6, 9)).unwrap();
    net.stacks[0].send_to(client, Bytes::from_static(b"x"), None).unwrap();
    net.idle(ms(50));
    assert!(net.stacks[0].readiness(client).contains(Readiness::ERROR));
    assert_eq!(net.stacks[0].take_error(client), Some(SocketError::ConnectionRefused));
    let unknown = Packet::new(IpHeader::new(A6, B6), Transport::Raw { protocol: 99 }, Bytes::new());
    net.stacks[1].receive(net.now, unknown);
    let answer = net.stacks[1].poll_transmit(net.now).unwrap();
    let problem = IcmpHeader { kind: icmp::v6::PARAMETER_PROBLEM, code: icmp::v6::CODE_NEXT_HEADER, rest: 6 };
    assert_eq!(answer.transport, Transport::Icmp6(problem));
}

#[test]
fn echoes_are_answered() {
    let mut net = net();
    let header = IcmpHeader { kind: icmp::v6::ECHO_REQUEST, code: 0, rest: 0x0001_0002 };
    let payload = Bytes::from_static(b"ping");
    let request = Packet::new(IpHeader::new(A6, B6), Transport::Icmp6(header), payload.clone());
    net.stacks[1].receive(net.now, request);
    let reply = net.stacks[1].poll_transmit(net.now).unwrap();
    assert_eq!(reply.transport, Transport::Icmp6(IcmpHeader { kind: icmp::v6::ECHO_REPLY, ..header }));
    assert_eq!((reply.src(), reply.dst(), reply.payload), (B6.into(), A6.into(), payload));
}
