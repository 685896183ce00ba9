//! One host's network stack: its sockets, who gets which packet, what is ready to be sent, and which timers run.
//!
//! Owned by one simulated host; never blocks, never reads a clock, keeps no global state. The caller's loop, in order:
//! `receive` each packet that has arrived, `handle_timers` when `next_deadline` is due, socket calls of the host's programs,
//! then `run_loopback`, `poll_event` until none, `poll_departure` until none (each answered by `refused` if the interface's queue has no room
//! for it), and `transmitted` for what has left.

#[cfg(test)]
mod by_rate;
mod cookies;
mod counters;
mod datagram;
mod deliver;
mod icmp;
mod lifecycle;
mod listing;
mod multicast;
mod options;
mod provenance;
mod raw;
mod service;
mod stream;
mod transmit;

pub use counters::{FragmentCounters, StackCounters, TcpCounters, Traffic, UdpCounters};
pub use datagram::{Ancillary, Received};
pub use listing::{Listed, ListedOptions, Protocol, Timer};

use crate::addr::{Endpoint, Family, FourTuple, Interface};
use crate::config::Config;
use crate::error::SocketError;
use crate::filter::Filter;
use crate::fragment::Reassembly;
use crate::multicast::Groups;
use crate::packet::Packet;
use crate::ports::{Hold, PortTable, Rules};
use crate::socket::{Readiness, Settings, Shutdown, SocketId};
use crate::sysctl::SysctlError;
use crate::tcp::connection::{Connection, State};
use crate::tcp::listen::Listener;
use crate::tcp::time_wait::TimeWait;
use crate::timers::{Entry, TimerHeap};
use crate::udp::UdpSocket;
use base::map::FastMap;
use base::{Rng, SimTime};
use probes::Trace;
use provenance::Flows;
use slab::Slab;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

pub struct Stack {
    pub(crate) config: Arc<Config>,
    rng: Rng,
    /// Of SYN cookies, once there were some.
    cookie_key: Option<cookies::Key>,
    slots: Slab<Slot>,
    next_generation: u32,
    /// Every connection and TIME_WAIT record of the host.
    connections: FastMap<FourTuple, u32>,
    listeners: FastMap<u16, Vec<u32>>,
    tcp_ports: PortTable,
    udp_ports: PortTable,
    /// Identifiers of echo sockets.
    echo_ports: PortTable,
    /// Raw sockets, in order of creation.
    raw: Vec<u32>,
    timers: TimerHeap,
    /// The queue of `eth0`.
    outgoing: VecDeque<Departing>,
    /// Connections that wait for `transmitted`.
    throttled: usize,
    /// What datagrams count in the interface's queues, in bytes.
    datagrams_in_host: usize,
    loopback: VecDeque<Packet>,
    /// The numbers of packets in `loopback` that went to many by `eth0`, and which this host hears as well.
    copies: VecDeque<u64>,
    /// Such a copy is being queued.
    copying: bool,
    groups: Groups,
    /// Copies of what went round the loopback interface, when somebody watches it.
    loopback_seen: Option<Vec<(SimTime, Packet)>>,
    events: VecDeque<SocketId>,
    reassembly: Reassembly,
    next_fragment_id: u32,
    service: service::Service,
    counters: StackCounters,
    /// The number of the next packet.
    next_number: u64,
    /// What is being sent now are fragments of one datagram.
    fragmenting: bool,
    trace: Option<Box<Trace>>,
    /// What is recorded of connections, by their slots.
    flows: Vec<Option<Box<Flows>>>,
}

/// A packet or a train on its way to the wire.
#[derive(Debug)]
pub struct Departing {
    /// Apart, for it goes through many queues: each would move all of it.
    pub packet: Box<Packet>,
    /// The socket that sent it; None for what no socket of a program sends.
    pub flow: Option<SocketId>,
    /// What it counts against that socket while it waits in the host (skb->truesize), in bytes; 0 for bare acknowledgements.
    pub truesize: usize,
    /// It must not go on the line before (skb->tstamp), where `Config::departures_wait`.
    pub not_before: SimTime,
}

struct Slot {
    generation: u32,
    kind: Kind,
    /// Readiness to be reported by `poll_event`.
    pending: Readiness,
    in_events: bool,
    /// Counted among the connections that wait for `transmitted`.
    throttled: bool,
    /// In an accept queue: no program knows it yet.
    unaccepted: bool,
    /// The entry in the timer heap that counts.
    timer_at: SimTime,
}

enum Kind {
    Tcp(Box<TcpSocket>),
    Udp(Box<UdpSocket>),
    TimeWait(Box<TimeWait>, Hold),
}

struct TcpSocket {
    settings: Settings,
    local: Endpoint,
    /// What bind(2) asked for. Parts that are zero were chosen by the stack and last as long as the connection or the listener.
    asked: Endpoint,
    hold: Hold,
    role: Role,
    /// What a connection that connect(2) dissolved leaves behind for the next call.
    error: Option<SocketError>,
    /// What was shut while there was no connection: an error for who did it, but reads find the end from then on, and a connection that is made
    /// later cannot be written to.
    shut: Option<Shutdown>,
    filter: Filter,
}

enum Role {
    Idle,
    Listener(Listener),
    Connection(Box<Connection>),
}

impl TcpSocket {
    fn new(settings: Settings, local: Endpoint, asked: Endpoint, hold: Hold) -> Self {
        TcpSocket { settings, local, asked, hold, role: Role::Idle, error: None, shut: None, filter: None }
    }

    /// Whether reading and whether writing was shut while there was no connection.
    fn shut_ways(&self) -> (bool, bool) {
        (self.shut.is_some_and(Shutdown::reads), self.shut.is_some_and(Shutdown::writes))
    }

    /// Whether it neither listens nor is connected or about to be.
    fn has_no_connection(&self) -> bool {
        match &self.role {
            Role::Idle => true,
            Role::Listener(_) => false,
            Role::Connection(conn) => conn.state == State::Closed,
        }
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.role {
            Role::Connection(conn) => Some(conn),
            _ => None,
        }
    }
}

impl Stack {
    /// A stack without sockets. `rng` gives initial sequence numbers, timestamp offsets and ephemeral ports.
    pub fn new(config: Config, rng: Rng) -> Self {
        Stack {
            config: Arc::new(config),
            rng,
            cookie_key: None,
            slots: Slab::new(),
            next_generation: 0,
            connections: FastMap::default(),
            listeners: FastMap::default(),
            tcp_ports: PortTable::new(Rules::Tcp),
            udp_ports: PortTable::new(Rules::Udp),
            echo_ports: PortTable::new(Rules::Echo),
            raw: Vec::new(),
            timers: TimerHeap::default(),
            outgoing: VecDeque::new(),
            throttled: 0,
            datagrams_in_host: 0,
            loopback: VecDeque::new(),
            copies: VecDeque::new(),
            copying: false,
            groups: Groups::default(),
            loopback_seen: None,
            events: VecDeque::new(),
            reassembly: Reassembly::default(),
            next_fragment_id: 0,
            service: service::Service::default(),
            counters: StackCounters::default(),
            next_number: 1,
            fragmenting: false,
            trace: None,
            flows: Vec::new(),
        }
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes a setting by its name with slashes (`net/ipv4/tcp_sack`), for connections that are there, too.
    pub fn set_sysctl(&mut self, name: &str, value: &str) -> Result<(), SysctlError> {
        let mut config = Config::clone(&self.config);
        config.set_sysctl(name, value)?;
        self.config = Arc::new(config);
        for (_, slot) in &mut self.slots {
            if let Kind::Tcp(socket) = &mut slot.kind
                && let Some(conn) = socket.connection()
            {
                conn.config = Arc::clone(&self.config);
            }
        }
        Ok(())
    }

    /// Sockets, connections without a descriptor, and TIME_WAIT records.
    pub fn socket_count(&self) -> usize {
        self.slots.len()
    }

    /// The earliest moment at which `handle_timers` has something to do; now and then nothing in the end.
    pub fn next_deadline(&self) -> Option<SimTime> {
        self.timers.next()
    }

    /// A connection in a state that none may be in, with the reason. For tests: it looks at everything.
    pub fn flaw(&mut self) -> Option<(u32, &'static str)> {
        let indices: Vec<u32> = self.connections.values().copied().collect();
        indices.into_iter().find_map(|index| self.connection_at(index)?.flaw().map(|words| (index, words)))
    }

    pub fn handle_timers(&mut self, now: SimTime) {
        while let Some(entry) = self.timers.pop_due(now) {
            let id = SocketId { index: entry.index, generation: entry.generation };
            let Some(slot) = self.slot_mut(id) else { continue };
            if slot.timer_at != entry.at {
                continue;
            }
            slot.timer_at = SimTime::MAX;
            match &mut slot.kind {
                Kind::Tcp(socket) => {
                    if let Some(conn) = socket.connection() {
                        conn.on_timer(now);
                        self.sync(now, entry.index);
                    }
                }
                Kind::TimeWait(record, _) => {
                    if record.until <= now {
                        self.forget_time_wait(entry.index);
                    } else {
                        let until = record.until;
                        self.schedule(entry.index, until);
                    }
                }
                Kind::Udp(_) => {}
            }
        }
    }

    /// A socket that has become ready since it was last reported, and what it has become. Each new condition is reported;
    /// some may be reported more than once.
    pub fn poll_event(&mut self) -> Option<(SocketId, Readiness)> {
        while let Some(id) = self.events.pop_front() {
            if let Some(slot) = self.slot_mut(id) {
                slot.in_events = false;
                let ready = std::mem::take(&mut slot.pending);
                if !ready.is_empty() {
                    return Some((id, ready));
                }
            }
        }
        None
    }

    fn insert(&mut self, kind: Kind) -> SocketId {
        let generation = self.next_generation;
        self.next_generation = self.next_generation.wrapping_add(1);
        let slot = Slot {
            generation,
            kind,
            pending: Readiness::empty(),
            in_events: false,
            throttled: false,
            unaccepted: false,
            timer_at: SimTime::MAX,
        };
        SocketId { index: self.slots.insert(slot) as u32, generation }
    }

    fn slot_mut(&mut self, id: SocketId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)
    }

    fn id_of(&self, index: u32) -> SocketId {
        SocketId { index, generation: self.slots[index as usize].generation }
    }

    fn tcp(&mut self, id: SocketId) -> Result<&mut TcpSocket, SocketError> {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => Ok(socket),
            Some(Kind::Udp(_)) => Err(SocketError::NotSupported),
            _ => Err(SocketError::BadSocket),
        }
    }

    fn udp(&mut self, id: SocketId) -> Result<&mut UdpSocket, SocketError> {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Udp(socket)) => Ok(socket),
            Some(Kind::Tcp(_)) => Err(SocketError::NotSupported),
            _ => Err(SocketError::BadSocket),
        }
    }

    /// The connection in this slot; the caller knows that it is one.
    fn connection_at(&mut self, index: u32) -> Option<&mut Connection> {
        match self.slots.get_mut(index as usize).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => socket.connection(),
            _ => None,
        }
    }

    fn post(&mut self, index: u32, ready: Readiness) {
        let slot = &mut self.slots[index as usize];
        slot.pending |= ready;
        if !slot.in_events && !slot.unaccepted {
            slot.in_events = true;
            let id = SocketId { index, generation: slot.generation };
            self.events.push_back(id);
        }
    }

    fn schedule(&mut self, index: u32, at: SimTime) {
        let slot = &mut self.slots[index as usize];
        if at < slot.timer_at {
            slot.timer_at = at;
            self.timers.push(Entry { at, index, generation: slot.generation });
        }
    }

    /// Whether a device has a way to `dst`, to which packets go by `interface`. The host's own
    /// addresses are at `eth0`, and of IPv4 packets to them get there round the loopback interface,
    /// too.
    fn leads(&self, device: Interface, interface: Interface, dst: IpAddr) -> bool {
        match device {
            Interface::Loopback => interface == Interface::Loopback && (dst.is_ipv4() || dst.is_loopback()),
            Interface::Ethernet => !dst.is_loopback(),
        }
    }

    /// The interface by which a packet from `src` has come: what a host sends to itself goes round
    /// the loopback interface.
    fn arrival(&self, src: IpAddr) -> Interface {
        if self.is_local(src) { Interface::Loopback } else { Interface::Ethernet }
    }

    /// Whether a socket with these settings hears packets from `src` (sk_bound_dev_if).
    fn hears_from(&self, settings: &Settings, src: IpAddr) -> bool {
        settings.device.is_none_or(|device| device == self.arrival(src))
    }

    /// 127.0.0.0/8, ::1 and the host's own addresses.
    pub fn is_local(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || self.config.owns(addr)
    }

    /// What a socket of a program is set to.
    fn settings_mut(&mut self, id: SocketId) -> Result<&mut Settings, SocketError> {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => Ok(&mut socket.settings),
            Some(Kind::Udp(socket)) => Ok(&mut socket.settings),
            _ => Err(SocketError::BadSocket),
        }
    }

    /// The interface towards `dst` (everybody's, for a broadcast) and the source address to use there. `NetworkUnreachable` where no address of that family is.
    fn route(&self, dst: IpAddr) -> Result<(Interface, IpAddr), SocketError> {
        let family = Family::of(dst);
        if dst.is_loopback() {
            Ok((Interface::Loopback, family.localhost()))
        } else if self.config.owns(dst) {
            Ok((Interface::Loopback, dst))
        } else if dst.is_multicast() {
            Err(SocketError::NetworkUnreachable)
        } else {
            let own = self.config.address_of(family).ok_or(SocketError::NetworkUnreachable)?;
            Ok((Interface::Ethernet, own))
        }
    }

    /// The route of a socket bound to `local` and, by SO_BINDTODEVICE, to a device; a loopback
    /// source cannot leave the host, and IPv4 has no way to IPv6 (ip6_dst_lookup_tail). What a
    /// device has no way to is `NetworkUnreachable`.
    fn route_from(
        &self,
        local: IpAddr,
        dst: IpAddr,
        device: Option<Interface>,
    ) -> Result<(Interface, IpAddr), SocketError> {
        let (interface, default) = self.route(dst)?;
        if device.is_some_and(|device| !self.leads(device, interface, dst)) {
            return Err(SocketError::NetworkUnreachable);
        }
        if local == IpAddr::V6(Ipv6Addr::UNSPECIFIED) || (local.is_unspecified() && dst.is_ipv4()) {
            return Ok((interface, default));
        }
        if self.config.is_for_many(local) && dst.is_ipv4() == local.is_ipv4() {
            // Who hears broadcasts or a group alone speaks as the host (inet_bind leaves inet_saddr empty).
            return Ok((interface, default));
        }
        match (local, dst) {
            (IpAddr::V4(_), IpAddr::V6(_)) => return Err(SocketError::AddressFamilyNotSupported),
            // Who is at an address of IPv6 alone speaks IPv4 as this one (LOOPBACK4_IPV6), which cannot leave the host.
            (IpAddr::V6(_), IpAddr::V4(_)) if interface == Interface::Loopback => {
                return Ok((interface, IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 6))));
            }
            (IpAddr::V6(_), IpAddr::V4(_)) => return Err(SocketError::InvalidArgument),
            _ => {}
        }
        if local.is_loopback() && interface == Interface::Ethernet {
            return Err(SocketError::InvalidArgument);
        }
        if !self.is_local(local) {
            // By IP_FREEBIND: it may hear, and say nothing.
            return Err(SocketError::NetworkUnreachable);
        }
        Ok((interface, local))
    }
}
