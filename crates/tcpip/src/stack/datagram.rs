//! The socket calls of UDP, and those that all datagram sockets have.

use super::multicast::scope_of;
use super::transmit::Owner;
use super::{Kind, Stack, raw};
use crate::addr::{Endpoint, Family, Interface};
use crate::error::SocketError;
use crate::fragment;
use crate::packet::{Packet, Transport};
use crate::ports::Hold;
use crate::socket::{Connected, Readiness, SocketId};
use crate::udp::{Carries, ErrorReport, UdpSocket, cost, max_payload};
use crate::wire::udp::UdpHeader;
use base::SimTime;
use bytes::Bytes;
use probes::choices::Layer;
use std::net::{IpAddr, SocketAddr};

/// A datagram that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes given to the caller.
    pub copied: usize,
    /// Bytes of the datagram; more than `copied` if it was cut (MSG_TRUNC).
    pub full: usize,
    pub from: SocketAddr,
    /// The address that it was sent to (IP_PKTINFO).
    pub to: SocketAddr,
    /// When it came.
    pub at: SimTime,
    /// Hop limit and traffic class of the packet.
    pub ttl: u8,
    pub tos: u8,
    /// The interface that it came by.
    pub by: Interface,
    /// Datagrams that the socket had thrown away when this one came (SO_RXQ_OVFL).
    pub drops: u32,
}

/// What a datagram's control messages ask for, in place of what the socket is set to (`struct
/// ipcm_cookie`, `struct ipcm6_cookie`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ancillary {
    /// IP_TOS; IPV6_TCLASS.
    pub tos: Option<u8>,
    /// IP_TTL; IPV6_HOPLIMIT.
    pub hops: Option<u8>,
    /// The source of IP_PKTINFO or IPV6_PKTINFO, of the destination's version; the unspecified one
    /// for what the route says.
    pub source: Option<IpAddr>,
    /// Their interface.
    pub device: Option<Interface>,
    /// IPV6_DONTFRAG.
    pub dont_fragment: Option<bool>,
}

impl Ancillary {
    /// Nothing but what the socket is set to.
    pub const NONE: Ancillary = Ancillary { tos: None, hops: None, source: None, device: None, dont_fragment: None };

    /// The source and, if it names one, the interface that IP_PKTINFO says.
    pub fn set_route(&mut self, source: IpAddr, device: Option<Interface>) {
        self.source = Some(source);
        self.device = device.or(self.device);
    }
}

/// Since when a datagram is in the making.
#[derive(Clone, Copy)]
enum Begun {
    Now,
    Before,
}

impl Stack {
    /// socket(2) with SOCK_DGRAM.
    pub fn udp_socket(&mut self, family: Family) -> SocketId {
        let settings = self.udp_settings(family);
        self.insert(Kind::Udp(Box::new(UdpSocket::new(Carries::Udp, settings))))
    }

    pub(super) fn connect_udp(&mut self, id: SocketId, remote: Endpoint) -> Result<Connected, SocketError> {
        let (_, addr) = self.look_up(id, remote, None, &Ancillary::NONE)?;
        let socket = self.udp(id)?;
        socket.peer = Some(remote);
        if socket.local.addr.is_unspecified() {
            socket.local.addr = addr;
            let local = socket.local;
            self.ports_of(id.index).rehash(id.index, local);
        }
        Ok(Connected::Done)
    }

    /// Takes a port, if the socket has none yet: before anything else that connect(2) and sendto(2) do (inet_autobind).
    pub fn bind_for_sending(&mut self, id: SocketId) -> Result<(), SocketError> {
        let socket = self.udp(id)?;
        if socket.hold == Hold::None && !matches!(socket.carries, Carries::Raw(_)) {
            let address = socket.asked.to_socket_addr(socket.settings.family);
            self.bind(id, address).map_err(|_| SocketError::WouldBlock)?;
        }
        Ok(())
    }

    /// sendto(2): one datagram, to `to` or to the peer. Errors: `DestinationRequired`, `MessageTooLong` above 65,507 bytes (IPv6:
    /// 65,527), routing errors; then a pending one (e.g. `ConnectionRefused`), `BrokenPipe`, `WouldBlock` when the send buffer is full.
    pub fn send_to(&mut self, id: SocketId, bytes: Bytes, to: Option<SocketAddr>) -> Result<usize, SocketError> {
        self.send_datagram(id, bytes, to, &Ancillary::NONE, Begun::Now)
    }

    /// The same by the rules of control messages. Errors too: `NetworkUnreachable` for a source
    /// that is not this host's.
    pub fn send_with(
        &mut self,
        id: SocketId,
        bytes: Bytes,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<usize, SocketError> {
        self.send_datagram(id, bytes, to, ancillary, Begun::Now)
    }

    /// The same for a datagram that was begun by an earlier call, when `check_sending` was: whatever has happened since, it goes
    /// (`ip_append_data` asks only with the first part).
    pub fn send_begun(
        &mut self,
        id: SocketId,
        bytes: Bytes,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<usize, SocketError> {
        self.send_datagram(id, bytes, to, ancillary, Begun::Before)
    }

    fn send_datagram(
        &mut self,
        id: SocketId,
        bytes: Bytes,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
        begun: Begun,
    ) -> Result<usize, SocketError> {
        let remote = self.receiver(id, to)?;
        let carries = self.udp(id)?.carries;
        if bytes.len() > max_payload(Family::of(remote.addr)) {
            return Err(self.refuse_length(id, to, ancillary, bytes.len()));
        }
        let many = self.config.is_for_many(remote.addr);
        let (interface, source) = match begun {
            Begun::Now => self.way_to(id, remote, to, ancillary)?,
            Begun::Before => self.route_of(id, remote, to, ancillary)?,
        };
        let socket = self.udp(id)?;
        let mut ip = socket.settings.header(source, remote.addr);
        if many && remote.addr.is_multicast() {
            let own = socket.multicast.as_deref();
            ip.ttl = own.map_or(1, |own| own.hops[Family::of(remote.addr) as usize]);
        }
        ip.tos = ancillary.tos.unwrap_or(ip.tos);
        ip.ttl = ancillary.hops.unwrap_or(ip.ttl);
        let len = bytes.len();
        let packet = match carries {
            Carries::Udp => {
                let header = UdpHeader { src_port: socket.local.port, dst_port: remote.port };
                Packet::new(ip, Transport::Udp(header), bytes)
            }
            Carries::Echo => raw::echo_request(ip, socket.local.port, bytes)?,
            Carries::Raw(protocol) => {
                let checksum_at = socket.checksum_at;
                raw::packet(ip, protocol, (socket.header_included, checksum_at), bytes)?
            }
        };
        self.check_size(id, interface, remote, &packet, ancillary)?;
        self.count_datagram(&packet);
        if many && interface == Interface::Ethernet && !self.loop_back(id, &packet) {
            return Ok(len);
        }
        self.push_datagram(id, interface, packet);
        Ok(len)
    }

    /// The IP address that connect(2) has named, if it has.
    pub fn datagram_peer(&mut self, id: SocketId) -> Result<Option<IpAddr>, SocketError> {
        Ok(self.udp(id)?.peer.map(|peer| peer.addr))
    }

    /// What `send_to` looks at before the bytes are there: its errors but `MessageTooLong`.
    pub fn check_sending(
        &mut self,
        id: SocketId,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<(), SocketError> {
        let remote = self.receiver(id, to)?;
        self.way_to(id, remote, to, ancillary).map(|_| ())
    }

    /// Whether there is a way for a datagram, of which nothing is to be sent (MSG_PROBE): the errors of `send_to` that are about
    /// addresses.
    pub fn check_way(
        &mut self,
        id: SocketId,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<(), SocketError> {
        let remote = self.receiver(id, to)?;
        self.look_up(id, remote, to, ancillary).map(|_| ())
    }

    /// Who a datagram is for. Port 0 is refused where the call names it, not where connect(2) did.
    fn receiver(&mut self, id: SocketId, to: Option<SocketAddr>) -> Result<Endpoint, SocketError> {
        self.bind_for_sending(id)?;
        let socket = self.udp(id)?;
        let (peer, carries, is_new) = (socket.peer, socket.carries, socket.settings.family == Family::V6);
        match to {
            Some(addr) if addr.port() == 0 && carries == Carries::Udp => Err(SocketError::InvalidArgument),
            // Where others have a port, raw sockets of IPv6 have their protocol (rawv6_sendmsg).
            Some(addr) if is_new && !raw::names_protocol(carries, addr.port()) => Err(SocketError::InvalidArgument),
            Some(addr) => self.destination(id, addr),
            // By way of IPv4 a socket of IPv6 names its peer with every datagram (`udpv6_sendmsg`).
            None if peer.is_some_and(|peer| is_new && peer.port == 0 && peer.addr.is_ipv4()) => {
                Err(SocketError::InvalidArgument)
            }
            None => peer.ok_or(SocketError::DestinationRequired),
        }
    }

    /// Interface and source address of a datagram that may be sent now (`sock_alloc_send_pskb`).
    fn way_to(
        &mut self,
        id: SocketId,
        remote: Endpoint,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<(Interface, IpAddr), SocketError> {
        let (interface, source) = self.look_up(id, remote, to, ancillary)?;
        let socket = self.udp(id)?;
        if socket.is_careless() {
            let full = socket.in_transit > 2 * socket.settings.send_buffer as usize;
            return if full { Err(SocketError::NoBufferSpace) } else { Ok((interface, source)) };
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.write_shut {
            return Err(SocketError::BrokenPipe);
        }
        if interface == Interface::Ethernet && !socket.has_room() {
            socket.no_space = true;
            return Err(SocketError::WouldBlock);
        }
        Ok((interface, source))
    }

    /// Interface and source address of a datagram. `PermissionDenied` for a broadcast by a socket that was not set to send any
    /// (SO_BROADCAST).
    fn look_up(
        &mut self,
        id: SocketId,
        remote: Endpoint,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<(Interface, IpAddr), SocketError> {
        if self.config.is_broadcast(remote.addr) && !self.udp(id)?.settings.broadcast {
            return Err(SocketError::PermissionDenied);
        }
        self.route_of(id, remote, to, ancillary)
    }

    fn route_of(
        &mut self,
        id: SocketId,
        remote: Endpoint,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
    ) -> Result<(Interface, IpAddr), SocketError> {
        let socket = self.udp(id)?;
        let (mut bound, device) = (socket.local.addr, socket.settings.device);
        if bound.is_ipv6() && remote.addr.is_ipv4() && socket.asked.addr.is_unspecified() {
            // Where connect(2) over IPv6 has put it says nothing of IPv4 (`__ip6_datagram_connect`).
            bound = std::net::Ipv6Addr::UNSPECIFIED.into();
        }
        match ancillary.source {
            // ip_route_output_key_hash_rcu.
            Some(IpAddr::V4(v4)) if v4.is_broadcast() || v4.is_multicast() => {
                return Err(SocketError::InvalidArgument);
            }
            Some(source) if !source.is_unspecified() && !self.is_local(source) => {
                return Err(SocketError::NetworkUnreachable);
            }
            _ => {}
        }
        let local = ancillary.source.unwrap_or(bound);
        if self.config.is_for_many(remote.addr) {
            let device = ancillary.device.or(scope_of(to)).or(device);
            return self.route_to_many(id, local, remote.addr, device);
        }
        self.route_from(local, remote.addr, ancillary.device.or(device))
    }

    fn count_datagram(&mut self, packet: &Packet) {
        let over = Family::of(packet.ip.dst) as usize;
        match &packet.transport {
            Transport::Udp(_) => self.counters.udp[over].sent += 1,
            Transport::Icmp(header) | Transport::Icmp6(header) => self.count_icmp(over, header.kind),
            _ => {}
        }
    }

    /// EMSGSIZE for what is larger than the MTU and must not be cut, with a report for who wants them (ip_local_error).
    fn check_size(
        &mut self,
        id: SocketId,
        interface: Interface,
        to: Endpoint,
        packet: &Packet,
        ancillary: &Ancillary,
    ) -> Result<(), SocketError> {
        let over = Family::of(to.addr);
        let mtu = self.mtu_of(interface, over);
        if packet.wire_len() <= mtu || !self.udp(id)?.settings.keeps_whole(over, ancillary.dont_fragment) {
            return Ok(());
        }
        Err(self.refuse_size(id, interface, to))
    }

    /// The error of a datagram of more bytes than fit into any. Its way is looked up before, and whoever wants errors is told
    /// (`__ip_append_data`, `__ip6_append_data`), of IPv4 unless its length alone says so (`udp_sendmsg`).
    pub fn refuse_length(
        &mut self,
        id: SocketId,
        to: Option<SocketAddr>,
        ancillary: &Ancillary,
        bytes: usize,
    ) -> SocketError {
        let refuse = |stack: &mut Self| {
            let remote = stack.receiver(id, to)?;
            if remote.addr.is_ipv4() && bytes > usize::from(u16::MAX) {
                return Ok(SocketError::MessageTooLong);
            }
            let (interface, _) = stack.way_to(id, remote, to, ancillary)?;
            Ok(stack.refuse_size(id, interface, remote))
        };
        refuse(self).unwrap_or_else(|error| error)
    }

    /// The largest IP packet that an interface takes, in bytes.
    fn mtu_of(&self, interface: Interface, over: Family) -> usize {
        match (interface, over) {
            // IP_MAX_MTU, where the link would take one more.
            (Interface::Loopback, Family::V4) => 65_535,
            (Interface::Loopback, Family::V6) => 65_536,
            (Interface::Ethernet, _) => usize::from(self.config.mtu),
        }
    }

    /// The error of a datagram that is too large, which who wants errors finds in its queue as well.
    fn refuse_size(&mut self, id: SocketId, interface: Interface, to: Endpoint) -> SocketError {
        let mtu = self.mtu_of(interface, Family::of(to.addr));
        let socket = match self.udp(id) {
            Ok(socket) => socket,
            Err(error) => return error,
        };
        if socket.settings.recv_errors[Family::of(to.addr) as usize] {
            socket.reports.push_back(ErrorReport {
                error: SocketError::MessageTooLong,
                icmp: None,
                info: mtu as u32,
                offender: None,
                to: to.to_socket_addr(socket.settings.family),
                payload: Bytes::new(),
            });
            self.post(id.index, Readiness::ERROR);
        }
        SocketError::MessageTooLong
    }

    /// The oldest error of the queue that IP_RECVERR makes (MSG_ERRQUEUE).
    pub fn take_report(&mut self, id: SocketId) -> Option<ErrorReport> {
        self.udp(id).ok()?.take_report()
    }

    fn push_datagram(&mut self, id: SocketId, interface: Interface, packet: Packet) {
        if interface == Interface::Loopback {
            return self.push_packet(interface, packet, None);
        }
        let mtu = usize::from(self.config.mtu);
        if packet.wire_len() <= mtu {
            return self.push_charged(id, packet);
        }
        self.begin_fragments(&packet);
        self.next_fragment_id = self.next_fragment_id.wrapping_add(1);
        let over = Family::of(packet.ip.dst) as usize;
        self.counters.fragments[over].cut += 1;
        for part in fragment::split(&packet, mtu, self.next_fragment_id) {
            self.counters.fragments[over].made += 1;
            self.push_charged(id, part);
        }
        self.end_fragments();
    }

    /// Queues a packet at the expense of its socket's send buffer.
    fn push_charged(&mut self, id: SocketId, packet: Packet) {
        let charge = cost(packet.payload.len());
        if let Ok(socket) = self.udp(id) {
            socket.in_transit += charge;
            self.datagrams_in_host += charge;
        }
        let owner = Owner { flow: Some(id), truesize: charge, not_before: SimTime::ZERO };
        self.push_packet(Interface::Ethernet, packet, Some(owner));
    }

    /// recvfrom(2): the next datagram, cut to `max` bytes. Errors: a pending one, `WouldBlock`, also after shutdown of reading.
    pub fn recv_from(
        &mut self,
        id: SocketId,
        max: usize,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<Received, SocketError> {
        let work = self.begin_reading_datagram(id).filter(|_| !peek);
        let socket = self.udp(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let front = socket.queue.front().ok_or(SocketError::WouldBlock)?;
        let full = front.bytes.len();
        let copied = sink(&front.bytes[..full.min(max)]);
        let family = socket.settings.family;
        let (from, to) = (front.from.to_socket_addr(family), front.to.to_socket_addr(family));
        let (at, ttl, tos, by, drops) = (front.at, front.ttl, front.tos, front.by, front.drops);
        if !peek {
            let (over, is_udp) = (Family::of(front.to.addr), socket.carries == Carries::Udp);
            let (carries, taken) = (socket.carries, socket.take());
            self.note_datagram_read(carries, taken);
            self.end_work(work, Layer::ReceiveQueue, 1);
            self.counters.udp[over as usize].received += u64::from(is_udp);
        }
        Ok(Received { copied, full, from, to, at, ttl, tos, by, drops })
    }
}
