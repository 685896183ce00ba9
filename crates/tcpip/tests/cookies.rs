//! A listener with more handshakes under way than its backlog: cookies, or none.

mod common;

use common::{B, Link, Net, addr, ms};
use std::net::Ipv4Addr;
use std::num::NonZeroU16;
use tcpip::wire::ip::IpHeader;
use tcpip::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use tcpip::{Family, Packet, SocketId, Transport};

/// B listens with this backlog, and SYNs come from so many addresses that never answer.
fn flooded(syn_cookies: u32, backlog: i32, count: u8) -> (Net, SocketId) {
    let mut net = Net::with(Link::new(ms(10), 100, 1_000_000), 1, |config| config.syn_cookies = syn_cookies);
    let stack = &mut net.stacks[1];
    let listener = stack.tcp_socket(Family::V4);
    stack.bind(listener, addr(Ipv4Addr::UNSPECIFIED, 80)).unwrap();
    stack.listen(listener, backlog).unwrap();
    for last in 0..count {
        let syn = TcpHeader {
            src_port: 1000,
            dst_port: 80,
            seq: 7,
            ack: 0,
            flags: TcpFlags::SYN,
            window: 65_535,
            options: TcpOptions { mss: NonZeroU16::new(1460), ..TcpOptions::default() },
        };
        let ip = IpHeader::new(Ipv4Addr::new(10, 9, 9, last), B);
        net.stacks[1].receive(net.now, Packet::new(ip, Transport::Tcp(syn), bytes::Bytes::new()));
    }
    (net, listener)
}

#[test]
fn a_flood_of_syns_keeps_nobody_out() {
    let (mut net, listener) = flooded(1, 5, 200);
    let counters = net.stacks[1].counters();
    assert_eq!((counters.cookies_sent, counters.listen_drops), (195, 0));
    let client = net.stacks[0].tcp_socket(Family::V4);
    net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
    net.idle(ms(100));
    let server = net.stacks[1].accept(listener).expect("a connection by a cookie");
    assert_eq!(net.stacks[1].counters().cookies_received, 1);
    // Timestamps carried the other options.
    let info = net.stacks[1].tcp_info(net.now, server).unwrap();
    assert_eq!((info.options, info.snd_mss, info.snd_wscale), (7, 1448, 10));
    net.send(0, client, &[1; 5000]).unwrap();
    net.send(1, server, &[2; 50_000]).unwrap();
    net.idle(ms(500));
    assert_eq!(net.recv(1, server, 10_000).map(|bytes| bytes.len()), Ok(5000));
    assert_eq!(net.recv(0, client, 100_000).map(|bytes| bytes.len()), Ok(50_000));
}

#[test]
fn without_cookies_a_flood_of_syns_closes_the_door() {
    let (mut net, listener) = flooded(0, 5, 200);
    let counters = net.stacks[1].counters();
    assert_eq!((counters.cookies_sent, counters.listen_drops, counters.dropped_for_full), (0, 195, 195));
    let client = net.stacks[0].tcp_socket(Family::V4);
    net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
    net.idle(ms(5000));
    assert!(net.stacks[1].accept(listener).is_err());
}

#[test]
fn a_made_up_acknowledgement_opens_nothing() {
    let (mut net, listener) = flooded(1, 1, 10);
    for guess in 0..1000u32 {
        let ack = TcpHeader {
            src_port: 1000,
            dst_port: 80,
            seq: 8,
            ack: guess.wrapping_mul(0x0101_0107),
            flags: TcpFlags::ACK,
            window: 65_535,
            options: TcpOptions::default(),
        };
        let ip = IpHeader::new(Ipv4Addr::new(10, 9, 9, 9), B);
        net.stacks[1].receive(net.now, Packet::new(ip, Transport::Tcp(ack), bytes::Bytes::new()));
    }
    let counters = net.stacks[1].counters();
    assert_eq!((counters.cookies_failed, counters.cookies_received), (1000, 0));
    assert_eq!(counters.resets_sent, 1000);
    assert!(net.stacks[1].accept(listener).is_err());
}
