//! The endpoint on the loopback network that the host itself serves (systemd-resolved has one at 127.0.0.53:53), without a socket
//! that a program could see, run out of, or be in the way of.
//!
//! Datagrams to it are kept for `take_request`. Its TCP listener comes into being with the first SYN; connections of it are accepted
//! and used like all others. Ports of programs are not touched: another socket may have the port at every address but this one.

use super::{Kind, Role, Stack, TcpSocket};
use crate::addr::{Endpoint, Family, FourTuple, Interface};
use crate::packet::{Packet, Transport};
use crate::ports::Hold;
use crate::socket::{Settings, SocketId};
use crate::tcp::listen::Listener;
use crate::udp::Datagram;
use crate::wire::ip::IpHeader;
use crate::wire::udp::UdpHeader;
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};

#[derive(Debug, Default)]
pub(super) struct Service {
    at: Option<Endpoint>,
    requests: VecDeque<Datagram>,
    listener: Option<SocketId>,
}

impl Service {
    pub fn is_at(&self, endpoint: Endpoint) -> bool {
        self.at == Some(endpoint)
    }

    pub fn push(&mut self, datagram: Datagram) {
        self.requests.push_back(datagram);
    }
}

impl Stack {
    /// From now on the caller serves this endpoint, of UDP and TCP; programs that bind to it hear `AddressInUse`. Once per stack.
    pub fn serve(&mut self, at: SocketAddrV4) {
        let endpoint = Endpoint::from(SocketAddr::V4(at));
        self.service.at = Some(endpoint);
        self.tcp_ports.reserve(endpoint);
        self.udp_ports.reserve(endpoint);
    }

    /// The oldest datagram that was sent to the served endpoint, and its sender.
    pub fn take_request(&mut self) -> Option<(SocketAddr, Bytes)> {
        let request = self.service.requests.pop_front()?;
        Some((request.from.to_socket_addr(Family::V4), request.bytes))
    }

    /// Sends a datagram from the served endpoint to a program of this host.
    pub fn respond(&mut self, to: SocketAddr, bytes: Bytes) {
        let Some(from) = self.service.at else { return };
        let to = Endpoint::from(to);
        let header = UdpHeader { src_port: from.port, dst_port: to.port };
        let packet = Packet::new(IpHeader::new(from.addr, to.addr), Transport::Udp(header), bytes);
        self.push_packet(Interface::Loopback, packet, None);
    }

    /// Whether `poll_event` speaks of connections to the served endpoint when it names this socket: then `accept` gives them.
    pub fn is_service(&self, id: SocketId) -> bool {
        self.service.listener == Some(id)
    }

    /// The listener of a connection to the served endpoint.
    pub(super) fn service_listener(&mut self, tuple: &FourTuple) -> Option<u32> {
        if !self.service.is_at(tuple.local) {
            return None;
        }
        if let Some(id) = self.service.listener {
            return Some(id.index);
        }
        let backlog = self.config.somaxconn;
        let settings = Settings { no_delay: true, ..self.tcp_settings(Family::V4) };
        let role = Role::Listener(Listener::new(backlog));
        let socket = TcpSocket { role, ..TcpSocket::new(settings, tuple.local, tuple.local, Hold::None) };
        let id = self.insert(Kind::Tcp(Box::new(socket)));
        self.service.listener = Some(id);
        Some(id.index)
    }

    /// What a connection, or its TIME_WAIT record, holds of the port that it shares with its listener.
    pub(super) fn share_port(&mut self, local: Endpoint, settings: &Settings) -> Hold {
        if self.service.is_at(local) { Hold::None } else { self.tcp_ports.share(local, settings) }
    }
}
