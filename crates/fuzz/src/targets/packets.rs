//! Packets: what a stack with sockets of all kinds makes of what arrives, in virtual time, while a program uses its sockets.
//!
//! A step is a byte and what it needs. Packets are bytes whose checksums are mended first, or segments of a connection that differ from the right
//! ones by a little.

use crate::input::Input;
use base::{SeedTree, SimDuration, SimTime};
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU16;
use tcpip::wire::checksum::Checksum;
use tcpip::wire::ip::IpHeader;
use tcpip::wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps, WindowScale};
use tcpip::{Config, Family, Packet, SendFlags, Shutdown, SocketId, Stack, Transport};

const OWN: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 2);
const OWN6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, 1);
const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, 2);
const STEPS: usize = 256;
const SOCKETS: usize = 24;

struct World {
    stack: Stack,
    now: SimTime,
    sockets: Vec<SocketId>,
    /// The last segment that the stack sent, and its length in sequence numbers.
    last: Option<(IpHeader, TcpHeader, u32)>,
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut config = Config::new(OWN);
    config.address6 = Some(OWN6);
    let mut world = World {
        stack: Stack::new(config, SeedTree::new(1).stream("host", "stack")),
        now: SimTime::from_nanos(1_000_000_000),
        sockets: Vec::new(),
        last: None,
    };
    world.open();
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.carry();
    }
    while let Some(socket) = world.sockets.pop() {
        world.stack.close(world.now, socket);
    }
    // Everything comes to an end by itself.
    for _ in 0..4096 {
        world.carry();
        let Some(next) = world.stack.next_deadline() else { break };
        world.now = world.now.max(next);
        world.stack.handle_timers(world.now);
    }
    assert_eq!(world.stack.socket_count(), 0, "connections that never end");
}

impl World {
    fn open(&mut self) {
        for family in [Family::V4, Family::V6] {
            let any = SocketAddr::new(family.unspecified(), 80);
            let listener = self.stack.tcp_socket(family);
            let datagrams = self.stack.udp_socket(family);
            if self.stack.bind(listener, any).is_ok() {
                let _ = self.stack.listen(listener, 2);
            }
            let _ = self.stack.bind(datagrams, any);
            self.sockets.extend([listener, datagrams, self.stack.echo_socket(family)]);
        }
        self.sockets.push(self.stack.raw_socket(Family::V4, 1));
        let client = self.stack.tcp_socket(Family::V4);
        let _ = self.stack.connect(self.now, client, SocketAddr::new(IpAddr::V4(PEER), 9));
        self.sockets.push(client);
        self.carry();
    }

    fn socket(&self, input: &mut Input<'_>) -> SocketId {
        let index = usize::from(input.byte());
        self.sockets[index % self.sockets.len()]
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let kind = input.byte() % 16;
        if self.sockets.is_empty() {
            return;
        }
        match kind {
            0 => {
                let length = usize::from(input.u16() % 2048);
                self.receive_bytes(input.take(length).to_vec());
            }
            1..=5 => self.receive_segment(input),
            6 => {
                let span = SimDuration::from_nanos(1 << (input.byte() % 44));
                let end = self.now + span;
                for _ in 0..64 {
                    let Some(next) = self.stack.next_deadline().filter(|next| *next <= end) else { break };
                    self.now = self.now.max(next);
                    self.stack.handle_timers(self.now);
                    self.carry();
                }
                self.now = self.now.max(end);
            }
            7 => {
                let (socket, length) = (self.socket(input), usize::from(input.u16()));
                let _ = self.stack.send(
                    self.now,
                    socket,
                    Bytes::from(vec![7; length]),
                    SendFlags::from_bits_truncate(length as u8),
                );
            }
            8 => {
                let (socket, length) = (self.socket(input), usize::from(input.u16()));
                let _ = self.stack.recv(self.now, socket, length, length & 1 == 1, &mut |bytes| bytes.len());
            }
            9 => {
                let (socket, length) = (self.socket(input), usize::from(input.u16()));
                let to = self.peer(input);
                let _ = self.stack.send_to(socket, Bytes::from(vec![8; length]), Some(to));
            }
            10 => {
                let socket = self.socket(input);
                let how = [Shutdown::Read, Shutdown::Write, Shutdown::Both][usize::from(input.byte() % 3)];
                let _ = self.stack.shutdown(self.now, socket, how);
            }
            11 => {
                let index = usize::from(input.byte()) % self.sockets.len();
                self.stack.close(self.now, self.sockets.swap_remove(index));
            }
            12 if self.sockets.len() < SOCKETS => {
                let socket = self.socket(input);
                if let Ok(accepted) = self.stack.accept(socket) {
                    self.sockets.push(accepted);
                }
            }
            13 if self.sockets.len() < SOCKETS => {
                let to = self.peer(input);
                let family = if to.is_ipv6() { Family::V6 } else { Family::V4 };
                let socket = self.stack.tcp_socket(family);
                let _ = self.stack.connect(self.now, socket, to);
                self.sockets.push(socket);
            }
            14 => {
                let socket = self.socket(input);
                let _ = self.stack.tcp_info(self.now, socket);
                let _ = (self.stack.take_error(socket), self.stack.take_report(socket), self.stack.readiness(socket));
                self.stack.list(self.now);
            }
            _ => {
                let socket = self.socket(input);
                let _ = self.stack.disconnect(self.now, socket);
            }
        }
    }

    fn peer(&self, input: &mut Input<'_>) -> SocketAddr {
        let addresses: [IpAddr; 6] = [
            PEER.into(),
            PEER6.into(),
            OWN.into(),
            OWN6.into(),
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
        ];
        SocketAddr::new(addresses[usize::from(input.byte()) % addresses.len()], 1 + u16::from(input.byte()))
    }

    fn receive_bytes(&mut self, mut bytes: Vec<u8>) {
        mend(&mut bytes);
        if let Ok(packet) = Packet::parse(&bytes) {
            let mut again = Vec::new();
            packet.emit(&mut again);
            self.stack.receive(self.now, packet);
        }
    }

    /// A segment that answers the last one, or a new connection's first.
    fn receive_segment(&mut self, input: &mut Input<'_>) {
        let flags = TcpFlags::from_bits_truncate(input.byte());
        let (seq, ack) = (input.u16() as i16 as i32, input.u16() as i16 as i32);
        let (window, length, extra) = (input.u16(), usize::from(input.u16() % 1500), input.byte());
        let (ip, sent, past) = match &self.last {
            Some((ip, sent, past)) if extra & 1 == 0 => (*ip, sent.clone(), *past),
            _ => {
                let ip = if extra & 2 == 0 { IpHeader::new(OWN, PEER) } else { IpHeader::new(OWN6, PEER6) };
                let ports = (80, 1000 + u16::from(extra));
                let options = TcpOptions::default();
                let sent = TcpHeader {
                    src_port: ports.0,
                    dst_port: ports.1,
                    seq: 0,
                    ack: 1000,
                    flags: TcpFlags::ACK,
                    window: 1000,
                    options,
                };
                (ip, sent, 0)
            }
        };
        let mut options = TcpOptions::default();
        if extra & 4 != 0 {
            options.mss = NonZeroU16::new(input.u16());
            options.window_scale = Some(WindowScale::new(input.byte()));
            options.sack_permitted = extra & 8 != 0;
        }
        if let Some(stamps) = sent.options.timestamps.filter(|_| extra & 16 == 0) {
            options.timestamps =
                Some(Timestamps { value: stamps.echo.wrapping_add(window.into()), echo: stamps.value });
        }
        if extra & 32 != 0 {
            let mut sack = SackBlocks::default();
            for _ in 0..extra >> 6 {
                let start = sent.ack.wrapping_add(input.u16().into());
                sack.push(start, start.wrapping_add(input.u16().into()));
            }
            let start = sent.seq.wrapping_add(past).wrapping_sub(input.u16().into());
            sack.push(start, start.wrapping_add(input.byte().into()));
            options.sack = sack;
        }
        let header = TcpHeader {
            src_port: sent.dst_port,
            dst_port: sent.src_port,
            seq: sent.ack.wrapping_add_signed(seq),
            ack: sent.seq.wrapping_add(past).wrapping_add_signed(ack),
            flags,
            window,
            options,
        };
        let ip = IpHeader::new(ip.dst, ip.src);
        let payload = Bytes::from(vec![9; length]);
        self.stack.receive(self.now, Packet::new(ip, Transport::Tcp(header), payload));
    }

    /// Lets packets leave, and those to the host itself arrive.
    fn carry(&mut self) {
        self.stack.run_loopback(self.now);
        while let Some(packet) = self.stack.poll_transmit(self.now) {
            let mut bytes = Vec::new();
            packet.emit(&mut bytes);
            assert_eq!(bytes.len(), packet.wire_len());
            let written_by_program = matches!(packet.transport, Transport::Raw { .. });
            assert!(written_by_program || Packet::parse(&bytes).is_ok(), "a stack sends what nobody reads: {packet:?}");
            if let Transport::Tcp(header) = &packet.transport {
                let ends = header.flags.intersection(TcpFlags::SYN | TcpFlags::FIN).bits().count_ones();
                self.last = Some((packet.ip, header.clone(), packet.payload.len() as u32 + ends));
            }
        }
        while self.stack.poll_event().is_some() {}
    }
}

/// Makes a packet's checksums right, where there is room for them: no chance would.
fn mend(bytes: &mut [u8]) {
    let Some(first) = bytes.first() else { return };
    let (start, protocol, src, dst): (usize, u8, IpAddr, IpAddr) = if first >> 4 == 4 && bytes.len() >= 20 {
        let length = usize::from(first & 15) * 4;
        if length > bytes.len() || length < 20 {
            return;
        }
        let total = (bytes.len() as u16).to_be_bytes();
        bytes[2..4].copy_from_slice(&total);
        bytes[10..12].fill(0);
        let sum = Checksum::default().with(&bytes[..length]).finish();
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        let address = |at: usize| Ipv4Addr::from(*bytes[at..].first_chunk::<4>().expect("a header"));
        (length, bytes[9], address(12).into(), address(16).into())
    } else if first >> 4 == 6 && bytes.len() >= 40 {
        let total = (bytes.len() as u16 - 40).to_be_bytes();
        bytes[4..6].copy_from_slice(&total);
        let address = |at: usize| Ipv6Addr::from(*bytes[at..].first_chunk::<16>().expect("a header"));
        (40, bytes[6], address(8).into(), address(24).into())
    } else {
        return;
    };
    let body = &mut bytes[start..];
    let at = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return,
    };
    if body.len() < at + 2 {
        return;
    }
    if protocol == 17 {
        let length = (body.len() as u16).to_be_bytes();
        body[4..6].copy_from_slice(&length);
    }
    body[at..at + 2].fill(0);
    let pseudo =
        if protocol == 1 { Checksum::default() } else { Checksum::pseudo_header(src, dst, protocol, body.len()) };
    let sum = pseudo.with(body).finish();
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
