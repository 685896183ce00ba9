//! The sockets of a stack as tools list them (`/proc/net/tcp`, sock_diag(7)): a snapshot of each, nothing changed.

use super::{Kind, Role, Slot, Stack, TcpSocket};
use crate::addr::{Endpoint, Family};
use crate::config::CongestionControl;
use crate::ports::Hold;
use crate::socket::{Settings, SocketId};
use crate::tcp::connection::{Connection, State};
use crate::tcp::info::{TcpInfo, TcpState};
use crate::tcp::listen::Listener;
use crate::tcp::time_wait::TimeWait;
use crate::tcp::timer::Purpose;
use crate::udp::{Carries, UdpSocket};
use base::{SimDuration, SimTime};
use std::net::SocketAddr;

/// What a socket carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Tcp,
    Udp,
    /// icmp(7).
    Echo,
    Raw(u8),
}

/// Which timer of a connection runs, as `/proc/net/tcp` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Timer {
    None = 0,
    Retransmit = 1,
    KeepAlive = 2,
    TimeWait = 3,
    WindowProbe = 4,
}

/// The options of a socket that listings show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListedOptions {
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub v6_only: bool,
    pub tos: u8,
    pub traffic_class: u8,
    pub no_delay: bool,
    pub recv_errors: bool,
    pub header_included: bool,
}

/// A socket, connection or TIME_WAIT record.
#[derive(Clone, Debug)]
pub struct Listed {
    pub id: SocketId,
    pub protocol: Protocol,
    pub family: Family,
    pub local: SocketAddr,
    /// The unspecified address and port 0 without a peer.
    pub remote: SocketAddr,
    pub state: TcpState,
    /// Bytes; of a listener the connections that wait, and how many may.
    pub recv_queue: u32,
    pub send_queue: u32,
    pub timer: Timer,
    pub expires: SimDuration,
    pub retransmits: u8,
    pub probes: u8,
    /// A connection that no program has accepted yet.
    pub unaccepted: bool,
    pub drops: u64,
    pub recv_buffer: u32,
    pub send_buffer: u32,
    /// Bytes of memory that count against the two, and those of them that are in the interface.
    pub recv_memory: u32,
    pub send_memory: u32,
    pub in_interface: u32,
    pub read_shut: bool,
    pub write_shut: bool,
    pub options: ListedOptions,
    /// Of TCP sockets.
    pub congestion: Option<CongestionControl>,
    /// The connection counts as interactive, and acknowledgements that go out at once.
    pub interactive: bool,
    pub quick_acks: u32,
    /// Of listeners and connections.
    pub info: Option<TcpInfo>,
}

impl Stack {
    /// Every socket that has a port or a connection, and every TIME_WAIT record: listeners first, then by age of the place that they
    /// have. The endpoint that the host itself serves is left out.
    pub fn list(&self, now: SimTime) -> Vec<Listed> {
        let all = self.slots.iter().filter_map(|(index, slot)| self.listed(now, index as u32, slot));
        let (mut listeners, others): (Vec<_>, Vec<_>) = all.partition(|listed| listed.state == TcpState::Listen);
        listeners.extend(others);
        listeners
    }

    /// One socket, if it has a port or a connection.
    pub fn describe(&self, now: SimTime, id: SocketId) -> Option<Listed> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        self.listed(now, id.index, slot)
    }

    fn listed(&self, now: SimTime, index: u32, slot: &Slot) -> Option<Listed> {
        let id = SocketId { index, generation: slot.generation };
        match &slot.kind {
            Kind::Tcp(socket) if self.service.is_at(socket.local) => None,
            Kind::Tcp(socket) => match &socket.role {
                Role::Idle => None,
                Role::Listener(listener) => Some(of_listener(id, socket, listener)),
                Role::Connection(conn) if conn.state == State::Closed => None,
                Role::Connection(conn) => Some(of_connection(now, id, socket, conn, slot.unaccepted)),
            },
            Kind::TimeWait(record, _) if self.service.is_at(record.tuple.local) => None,
            Kind::TimeWait(record, _) => Some(of_record(now, id, record)),
            Kind::Udp(socket) => {
                let shown = socket.hold != Hold::None || matches!(socket.carries, Carries::Raw(_));
                shown.then(|| of_datagrams(id, socket))
            }
        }
    }
}

/// What TIME_WAIT records show.
fn bare(id: SocketId, protocol: Protocol, family: Family, local: Endpoint, remote: Option<Endpoint>) -> Listed {
    Listed {
        id,
        protocol,
        family,
        local: local.to_socket_addr(family),
        remote: remote.unwrap_or(Endpoint::any(family)).to_socket_addr(family),
        state: TcpState::Close,
        recv_queue: 0,
        send_queue: 0,
        timer: Timer::None,
        expires: SimDuration::ZERO,
        retransmits: 0,
        probes: 0,
        unaccepted: false,
        drops: 0,
        recv_buffer: 0,
        send_buffer: 0,
        recv_memory: 0,
        send_memory: 0,
        in_interface: 0,
        read_shut: false,
        write_shut: false,
        options: ListedOptions::default(),
        congestion: None,
        interactive: false,
        quick_acks: 0,
        info: None,
    }
}

fn plain(id: SocketId, protocol: Protocol, settings: &Settings, local: Endpoint, remote: Option<Endpoint>) -> Listed {
    Listed {
        recv_buffer: settings.recv_buffer,
        send_buffer: settings.send_buffer,
        options: ListedOptions {
            reuse_address: settings.reuse_address,
            reuse_port: settings.reuse_port,
            v6_only: settings.v6_only,
            tos: settings.tos,
            traffic_class: settings.traffic_class,
            no_delay: settings.no_delay,
            recv_errors: settings.recv_errors[settings.family as usize],
            header_included: false,
        },
        ..bare(id, protocol, settings.family, local, remote)
    }
}

fn of_listener(id: SocketId, socket: &TcpSocket, listener: &Listener) -> Listed {
    Listed {
        state: TcpState::Listen,
        recv_queue: listener.ready.len() as u32,
        send_queue: listener.backlog,
        drops: u64::from(listener.dropped),
        congestion: Some(socket.settings.congestion),
        info: Some(listener.info()),
        ..plain(id, Protocol::Tcp, &socket.settings, socket.local, None)
    }
}

fn of_connection(now: SimTime, id: SocketId, socket: &TcpSocket, conn: &Connection, unaccepted: bool) -> Listed {
    let info = conn.info(now);
    let (timer, at) = timer_of(conn);
    // SYN and FIN count as a byte each, as in the sequence numbers that Linux subtracts.
    let syn = matches!(conn.state, State::SynSent);
    let fin = conn.snd.fin_queued && !conn.fin_acknowledged();
    let early_fin = conn.rcv.fin_received && !conn.rcv.fin_read;
    Listed {
        state: info.state,
        recv_queue: conn.rcv.queue.ready_bytes() as u32 + u32::from(early_fin),
        send_queue: conn.snd.queue.len() as u32 + u32::from(syn) + u32::from(fin),
        timer,
        expires: at.saturating_since(now),
        retransmits: info.retransmits,
        probes: info.probes,
        unaccepted,
        recv_buffer: conn.sizing.recv_buffer,
        send_buffer: conn.sizing.send_buffer,
        recv_memory: conn.rcv.queue.memory() as u32,
        send_memory: conn.snd.queue.memory() as u32,
        in_interface: conn.snd.in_host as u32,
        read_shut: conn.read_closed(),
        write_shut: conn.write_closed(),
        congestion: Some(conn.cc.kind()),
        interactive: conn.acks.interactive,
        quick_acks: conn.acks.quick,
        info: Some(info),
        ..plain(id, Protocol::Tcp, &socket.settings, conn.tuple.local, Some(conn.tuple.remote))
    }
}

/// What `/proc/net/tcp` shows: retransmission, loss probe and reordering are one, delayed acknowledgements none.
fn timer_of(conn: &Connection) -> (Timer, SimTime) {
    let timers = &conn.timers;
    if timers.send < SimTime::MAX {
        let timer = if timers.purpose == Purpose::Window { Timer::WindowProbe } else { Timer::Retransmit };
        return (timer, timers.send);
    }
    if timers.fin_wait < SimTime::MAX {
        return (Timer::TimeWait, timers.fin_wait);
    }
    if timers.keepalive < SimTime::MAX {
        return (Timer::KeepAlive, timers.keepalive);
    }
    (Timer::None, SimTime::ZERO)
}

fn of_record(now: SimTime, id: SocketId, record: &TimeWait) -> Listed {
    Listed {
        state: TcpState::TimeWait,
        timer: Timer::TimeWait,
        expires: record.until.saturating_since(now),
        ..bare(id, Protocol::Tcp, record.family, record.tuple.local, Some(record.tuple.remote))
    }
}

fn of_datagrams(id: SocketId, socket: &UdpSocket) -> Listed {
    let (protocol, local) = match socket.carries {
        Carries::Udp => (Protocol::Udp, socket.local),
        Carries::Echo => (Protocol::Echo, socket.local),
        // Where others have their port, raw sockets have their protocol.
        Carries::Raw(protocol) => (Protocol::Raw(protocol), Endpoint::new(socket.local.addr, protocol.into())),
    };
    let mut listed = plain(id, protocol, &socket.settings, local, socket.peer);
    listed.options.header_included = socket.header_included;
    Listed {
        state: if socket.peer.is_some() { TcpState::Established } else { TcpState::Close },
        recv_queue: socket.queued() as u32,
        send_queue: socket.in_transit as u32,
        recv_memory: socket.queued() as u32,
        in_interface: socket.in_transit as u32,
        drops: socket.dropped,
        read_shut: socket.read_shut,
        write_shut: socket.write_shut,
        ..listed
    }
}
