//! The socket calls of TCP, and those that both kinds of sockets have.

use super::{Kind, Role, Stack, TcpSocket};
use crate::addr::{Endpoint, Family, FourTuple};
use crate::config::Config;
use crate::error::SocketError;
use crate::ports::Hold;
use crate::socket::{Connected, Readiness, SendFlags, Settings, Shutdown, SocketId};
use crate::tcp::connection::{Connection, State};
use crate::tcp::info::TcpInfo;
use crate::tcp::listen::Listener;
use crate::tcp::new_data::{Amount, Nagle};
use crate::udp::Carries;
use base::SimTime;
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};

impl Stack {
    /// socket(2) with SOCK_STREAM.
    pub fn tcp_socket(&mut self, family: Family) -> SocketId {
        let settings = self.tcp_settings(family);
        let any = Endpoint::any(family);
        self.insert(Kind::Tcp(Box::new(TcpSocket::new(settings, any, any, Hold::None))))
    }

    /// bind(2). Errors: `AddressNotAvailable` for an address that is not this host's, `AddressInUse`, `InvalidArgument` if
    /// bound already or for an IPv4 address and IPV6_V6ONLY.
    pub fn bind(&mut self, id: SocketId, addr: SocketAddr) -> Result<(), SocketError> {
        let endpoint = self.check_bind(id, addr)?;
        let choice = (self.config.ephemeral_ports, self.config.autobind_reuse);
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation);
        let (local, hold) = match slot.map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => {
                if socket.hold != Hold::None || !socket.has_no_connection() {
                    return Err(SocketError::InvalidArgument);
                }
                let (table, rng) = (&mut self.tcp_ports, &mut self.rng);
                let port = table.bind(id.index, endpoint, &socket.settings, choice, rng);
                (port, (&mut socket.local, &mut socket.asked, &mut socket.hold))
            }
            Some(Kind::Udp(socket)) => {
                if socket.hold != Hold::None {
                    return Err(SocketError::InvalidArgument);
                }
                let table = match socket.carries {
                    Carries::Udp => &mut self.udp_ports,
                    Carries::Echo => &mut self.echo_ports,
                    Carries::Raw(_) => {
                        // A raw socket has an address, no port (raw_bind).
                        socket.local.addr = endpoint.addr;
                        socket.asked.addr = endpoint.addr;
                        return Ok(());
                    }
                };
                let rng = &mut self.rng;
                let port = table.bind(id.index, endpoint, &socket.settings, choice, rng);
                (port, (&mut socket.local, &mut socket.asked, &mut socket.hold))
            }
            _ => return Err(SocketError::BadSocket),
        };
        let port = local.ok_or(SocketError::AddressInUse)?;
        *hold.0 = Endpoint::new(endpoint.addr, port);
        *hold.1 = endpoint;
        *hold.2 = Hold::Bound(port);
        if endpoint.addr.is_ipv6() && !endpoint.addr.is_unspecified() {
            // As inet6_bind: who has an IPv6 address can not speak IPv4.
            self.settings_mut(id)?.v6_only = true;
        }
        Ok(())
    }

    /// bind(2) with port 0 after IP_BIND_ADDRESS_NO_PORT: connect(2), listen(2) and sendto(2) take the port. Errors as [`bind`](Self::bind).
    pub fn bind_address(&mut self, id: SocketId, addr: IpAddr) -> Result<(), SocketError> {
        let endpoint = self.check_bind(id, SocketAddr::new(addr, 0))?;
        let (local, asked, is_free) = match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => {
                let is_free = socket.hold == Hold::None && socket.has_no_connection();
                (&mut socket.local, &mut socket.asked, is_free)
            }
            Some(Kind::Udp(socket)) => {
                let is_free = socket.hold == Hold::None;
                (&mut socket.local, &mut socket.asked, is_free)
            }
            _ => return Err(SocketError::BadSocket),
        };
        if !is_free {
            return Err(SocketError::InvalidArgument);
        }
        (*local, *asked) = (endpoint, endpoint);
        if endpoint.addr.is_ipv6() && !endpoint.addr.is_unspecified() {
            // As inet6_bind: who has an IPv6 address can not speak IPv4.
            self.settings_mut(id)?.v6_only = true;
        }
        Ok(())
    }

    /// What bind(2) looks at before it takes a port.
    fn check_bind(&mut self, id: SocketId, addr: SocketAddr) -> Result<Endpoint, SocketError> {
        let endpoint = Endpoint::from(addr);
        self.give_up_chosen_port(id);
        let settings = self.settings_mut(id)?;
        if settings.family == Family::V6 && self.hold_of(id.index) != Hold::None {
            // inet6_bind looks at this before it looks at the address.
            return Err(SocketError::InvalidArgument);
        }
        let settings = self.settings_mut(id)?;
        let any = settings.free_bind;
        settings.admits(endpoint.addr).map_err(|error| match error {
            SocketError::NetworkUnreachable => SocketError::InvalidArgument,
            other => other,
        })?;
        let is_for_many = self.config.is_for_many(endpoint.addr);
        let exists = endpoint.addr.is_unspecified() || self.is_local(endpoint.addr) || any;
        // What is for many is no address of an echo socket (ping_check_bind_addr).
        let is_allowed = if is_for_many { !self.is_echo(id) } else { exists };
        if !is_allowed {
            return Err(SocketError::AddressNotAvailable);
        }
        Ok(endpoint)
    }

    fn is_echo(&mut self, id: SocketId) -> bool {
        self.udp(id).is_ok_and(|socket| socket.carries == Carries::Echo)
    }

    /// A connection that has ended keeps no port that it did not ask for, and leaves a socket that can be bound (`tcp_set_state`). What it has
    /// received can be read all the same.
    pub(super) fn give_up_chosen_port(&mut self, id: SocketId) {
        let Ok(socket) = self.tcp(id) else { return };
        let Role::Connection(conn) = &mut socket.role else { return };
        let has_asked = matches!(socket.hold, Hold::Bound(_)) && socket.asked.port != 0;
        if conn.state != State::Closed || conn.gave_up_port || has_asked {
            return;
        }
        // getsockname(2) goes on to tell address and port.
        conn.gave_up_port = true;
        let hold = std::mem::replace(&mut socket.hold, Hold::None);
        self.tcp_ports.release(hold, id.index);
    }

    /// listen(2); on a listener it changes the backlog. An unbound socket gets an ephemeral port.
    pub fn listen(&mut self, id: SocketId, backlog: i32) -> Result<(), SocketError> {
        // A negative backlog counts as the largest, as in Linux.
        let backlog = (backlog as u32).min(self.config.somaxconn);
        let socket = self.tcp(id)?;
        match &mut socket.role {
            Role::Listener(listener) => {
                listener.backlog = backlog;
                return Ok(());
            }
            Role::Connection(conn) if conn.state != State::Closed => return Err(SocketError::InvalidArgument),
            _ => {}
        }
        if socket.hold == Hold::None {
            let unbound = Endpoint::new(socket.local.addr, 0).to_socket_addr(socket.settings.family);
            self.bind(id, unbound)?;
        }
        let port = self.tcp(id)?.local.port;
        if !self.tcp_ports.listen(id.index, port) {
            return Err(SocketError::AddressInUse);
        }
        self.retire(id.index);
        self.tcp(id)?.role = Role::Listener(Listener::new(backlog));
        self.listeners.entry(port).or_default().push(id.index);
        Ok(())
    }

    /// accept(2). Errors: `WouldBlock` if none waits, `InvalidArgument` if the socket does not listen.
    pub fn accept(&mut self, id: SocketId) -> Result<SocketId, SocketError> {
        let child = self.listener(id)?.ready.pop_front().ok_or(SocketError::WouldBlock)?;
        if let Some(slot) = self.slot_mut(child) {
            slot.unaccepted = false;
            slot.pending = Readiness::empty();
        }
        Ok(child)
    }

    /// connect(2). TCP starts the handshake; a call after its end tells how it went: `Done` or its
    /// error, each once. UDP takes the peer. Errors: those of
    /// connect(2); after a failed handshake its error, once.
    pub fn connect(&mut self, now: SimTime, id: SocketId, addr: SocketAddr) -> Result<Connected, SocketError> {
        if matches!(self.slot_mut(id).map(|slot| &slot.kind), Some(Kind::Udp(_))) {
            self.bind_for_sending(id)?;
        }
        let remote = self.destination(id, addr)?;
        match self.slot_mut(id).map(|slot| &slot.kind) {
            Some(Kind::Udp(_)) => self.connect_udp(id, remote),
            Some(Kind::Tcp(_)) => self.connect_tcp(now, id, remote),
            _ => Err(SocketError::BadSocket),
        }
    }

    /// An address that a program gave as a destination. The unspecified one means this host, as on Linux: of IPv4 by the address that the
    /// socket is bound to (`ip_route_output_key_hash_rcu`) unless that stands for many, else by the loopback interface's.
    pub(super) fn destination(&mut self, id: SocketId, addr: SocketAddr) -> Result<Endpoint, SocketError> {
        let mut remote = Endpoint::from(addr);
        if remote.addr.is_ipv6() && remote.addr.is_unspecified() && self.speaks_old(id) {
            // Whoever has an address of IPv4 means this host in those words.
            remote.addr = Family::V4.localhost();
        }
        self.settings_mut(id)?.admits(remote.addr)?;
        if remote.addr.is_unspecified() {
            let bound = self.bound_to(id).filter(|own| own.is_ipv4() && remote.addr.is_ipv4());
            let own = bound.filter(|own| self.is_local(*own) && !self.config.is_for_many(*own));
            remote.addr = own.unwrap_or(Family::of(remote.addr).localhost());
        }
        Ok(remote)
    }

    /// The address of a socket, if it has one.
    fn bound_to(&mut self, id: SocketId) -> Option<IpAddr> {
        let local = match &self.slot_mut(id)?.kind {
            Kind::Tcp(socket) => socket.local.addr,
            Kind::Udp(socket) => socket.local.addr,
            Kind::TimeWait(..) => return None,
        };
        Some(local).filter(|local| !local.is_unspecified())
    }

    /// Whether a socket of IPv6 is at an address of IPv4.
    fn speaks_old(&mut self, id: SocketId) -> bool {
        let local = match self.slot_mut(id).map(|slot| &slot.kind) {
            Some(Kind::Tcp(socket)) if socket.settings.family == Family::V6 => socket.local.addr,
            Some(Kind::Udp(socket)) if socket.settings.family == Family::V6 => socket.local.addr,
            _ => return false,
        };
        local.is_ipv4()
    }

    fn connect_tcp(&mut self, now: SimTime, id: SocketId, remote: Endpoint) -> Result<Connected, SocketError> {
        match &mut self.tcp(id)?.role {
            Role::Listener(_) => return Err(SocketError::IsConnected),
            Role::Connection(conn) => match conn.state {
                State::SynSent | State::SynReceived => return Err(SocketError::AlreadyInProgress),
                State::Closed => {
                    if let Some(error) = conn.error.take() {
                        return Err(error);
                    }
                }
                _ if !conn.connect_reported => {
                    conn.connect_reported = true;
                    return Ok(Connected::Done);
                }
                _ => return Err(SocketError::IsConnected),
            },
            Role::Idle => {}
        }
        if self.config.is_for_many(remote.addr) {
            return Err(SocketError::NetworkUnreachable);
        }
        let (tuple, iss) = self.choose_tuple(now, id, remote)?;
        let interface = self.interface_of(&tuple);
        let mut draw = self.draw();
        draw.iss = iss.unwrap_or(draw.iss);
        let config = self.config.clone();
        self.counters.active_opens += 1;
        // A connection that has ended gives way.
        self.retire(id.index);
        let socket = self.tcp(id)?;
        socket.local = tuple.local;
        socket.error = None;
        let mut conn = Connection::connect(now, tuple, interface, config, socket.settings.clone(), draw);
        (_, conn.shut_before) = socket.shut_ways();
        socket.role = Role::Connection(Box::new(conn));
        self.connections.insert(tuple, id.index);
        self.sync(now, id.index);
        Ok(Connected::Started)
    }

    /// Source address and port of a new connection, and the lowest initial sequence number where a
    /// TIME_WAIT record gives way to it.
    fn choose_tuple(
        &mut self,
        now: SimTime,
        id: SocketId,
        remote: Endpoint,
    ) -> Result<(FourTuple, Option<u32>), SocketError> {
        let socket = self.tcp(id)?;
        let (hold, bound, asked, device) = (socket.hold, socket.local, socket.asked, socket.settings.device);
        let bound_addr = if hold.is_bound() { bound.addr } else { asked.addr };
        let (_, addr) = self.route_from(bound_addr, remote.addr, device)?;
        if let Hold::Bound(port) = hold {
            let tuple = FourTuple { local: Endpoint::new(addr, port), remote };
            let taken = self.connections.get(&tuple).copied();
            if taken.is_some_and(|index| !gives_way(&self.slots[index as usize].kind, None)) {
                return Err(SocketError::AddressNotAvailable);
            }
            self.tcp_ports.rehash(id.index, tuple.local);
            return Ok((tuple, taken.and_then(|index| self.replace_time_wait(index))));
        }
        self.tcp_ports.release(hold, id.index);
        self.tcp(id)?.hold = Hold::None;
        let settings = self.tcp(id)?.settings.clone();
        let (table, rng, connections, slots) = (&mut self.tcp_ports, &mut self.rng, &self.connections, &self.slots);
        let reuse = (now, &*self.config);
        let tuple_at = |port| FourTuple { local: Endpoint::new(addr, port), remote };
        let port = table.connect(addr, &settings, self.config.ephemeral_ports, rng, |port| {
            let taken = connections.get(&tuple_at(port));
            taken.is_none_or(|index| gives_way(&slots[*index as usize].kind, Some(reuse)))
        });
        let (port, hold) = port.ok_or(SocketError::AddressNotAvailable)?;
        self.tcp(id)?.hold = hold;
        let tuple = tuple_at(port);
        let taken = self.connections.get(&tuple).copied();
        Ok((tuple, taken.and_then(|index| self.replace_time_wait(index))))
    }

    /// Ends a TIME_WAIT record for a new connection, whose sequence numbers begin beyond all that
    /// the old one had (tcp_twsk_unique).
    fn replace_time_wait(&mut self, index: u32) -> Option<u32> {
        let Kind::TimeWait(record, _) = &self.slots[index as usize].kind else { return None };
        let first = record.successor_seq();
        self.forget_time_wait(index);
        Some(first)
    }

    /// connect(2) with AF_UNSPEC: UDP forgets its peer, TCP is reset. Address and port that bind(2) did not ask for are given up
    /// (SOCK_BINDADDR_LOCK, SOCK_BINDPORT_LOCK).
    pub fn disconnect(&mut self, now: SimTime, id: SocketId) -> Result<(), SocketError> {
        let slot = self.slot_mut(id).ok_or(SocketError::BadSocket)?;
        if let Kind::Udp(socket) = &mut slot.kind {
            socket.peer = None;
            socket.asked.addr = lasting_address(&socket.settings, socket.asked.addr, socket.local.addr);
            socket.local.addr = socket.asked.addr;
            let local = socket.local;
            if socket.asked.port == 0 {
                socket.local.port = 0;
                let hold = std::mem::replace(&mut socket.hold, Hold::None);
                self.ports_of(id.index).release(hold, id.index);
            } else {
                self.ports_of(id.index).rehash(id.index, local);
            }
            return Ok(());
        }
        let mut error = self.tcp(id)?.error.take();
        if matches!(self.tcp(id)?.role, Role::Listener(_)) {
            self.abort_children(now, id);
            self.unlisten(id.index);
        } else if let Some(conn) = self.connection_at(id.index) {
            let (tuple, reset, live) = (conn.tuple, conn.reset_header(now), conn.state.synchronised());
            error = if conn.state.is_torn() { Some(SocketError::ConnectionReset) } else { conn.error.take() };
            conn.finish();
            if live {
                self.push_reset(tuple, reset);
            }
            self.sync(now, id.index);
        }
        self.retire(id.index);
        let config = self.config.clone();
        let socket = self.tcp(id)?;
        let gave_up = match &socket.role {
            Role::Idle => true,
            Role::Listener(_) => false,
            Role::Connection(conn) => conn.gave_up_port,
        };
        socket.shut = None;
        socket.role = Role::Idle;
        socket.error = error;
        if config.is_for_many(socket.asked.addr) {
            // The address that connect(2) has put in the place of such an address counts as the one asked for.
            socket.asked.addr = socket.local.addr;
        }
        socket.asked.addr = lasting_address(&socket.settings, socket.asked.addr, socket.local.addr);
        socket.local.addr = socket.asked.addr;
        // What was closed already has nothing more to give up (`tcp_disconnect`).
        if socket.asked.port == 0 && !gave_up {
            // getsockname(2) goes on to tell it.
            let hold = std::mem::replace(&mut socket.hold, Hold::None);
            self.tcp_ports.release(hold, id.index);
        } else {
            let local = socket.local;
            self.tcp_ports.rehash(id.index, local);
        }
        if error.is_some() {
            self.post(id.index, Readiness::ERROR | Readiness::HANGUP);
        }
        Ok(())
    }

    /// How many bytes `send` takes at least now; 0 also makes the stack report when there is room.
    pub fn send_space(&mut self, id: SocketId) -> usize {
        let Some(conn) = self.tcp(id).ok().and_then(TcpSocket::connection) else { return 0 };
        let space = conn.write_room();
        if space == 0 {
            conn.snd.no_space = true;
        }
        space
    }

    /// Writes to a connection: takes what fits and says how much (tcp_sendmsg). Errors: `WouldBlock`, `BrokenPipe`,
    /// `NotConnected`, or the connection's own error, once.
    pub fn send(&mut self, now: SimTime, id: SocketId, mut bytes: Bytes, how: SendFlags) -> Result<usize, SocketError> {
        let socket = self.tcp(id)?;
        let (left, (_, write_shut)) = (socket.error.take(), socket.shut_ways());
        let Some(conn) = socket.connection() else { return Err(left.unwrap_or(SocketError::BrokenPipe)) };
        if let Some(error) = conn.error.take() {
            return Err(error);
        }
        match conn.state {
            State::SynSent | State::SynReceived => return Err(SocketError::WouldBlock),
            state if write_shut || !state.may_send() => return Err(SocketError::BrokenPipe),
            _ => {}
        }
        if how.contains(SendFlags::RESUMED) && !bytes.is_empty() && !conn.has_memory(0) {
            conn.snd.no_space = true;
            return Err(SocketError::WouldBlock);
        }
        conn.note_app_limit();
        let len = bytes.len();
        while !bytes.is_empty() {
            let Some(conn) = self.connection_at(id.index) else { break };
            let room = conn.write_room();
            if room == 0 {
                conn.snd.no_space = true;
                break;
            }
            let first = bytes.len() == len && !how.contains(SendFlags::CONTINUED);
            let part = bytes.split_to(room.min(bytes.len()));
            let told = self.trace.is_some().then(|| part.clone());
            let Some(conn) = self.connection_at(id.index) else { break };
            conn.append(now, part, first);
            if let Some(part) = told {
                self.note_write(now, id.index, &part);
            }
            if !bytes.is_empty() || how.contains(SendFlags::CONTINUES) {
                self.write_goes_on(now, id.index);
            }
        }
        let Some(conn) = self.connection_at(id.index) else { return Ok(len) };
        let taken = len - bytes.len();
        let full = !bytes.is_empty();
        if full || !how.contains(SendFlags::CONTINUES) {
            if taken > 0 && how.contains(SendFlags::RECORD) && !full {
                conn.snd.queue.end_record();
            }
            self.write_ends(now, id.index, how.contains(SendFlags::MORE) && !full);
        }
        if taken == 0 && full { Err(SocketError::WouldBlock) } else { Ok(taken) }
    }

    /// A buffer is full, and the write has more: half a window, or what nothing waits before, leaves at once.
    fn write_goes_on(&mut self, now: SimTime, index: u32) {
        let Some(conn) = self.connection_at(index) else { return };
        if !conn.tail_is_full() {
            return;
        }
        let amount = if conn.must_push() {
            conn.mark_push();
            Amount::All
        } else if conn.snd.queue.unsent().is_some_and(|unsent| unsent.last) {
            Amount::One
        } else {
            return;
        };
        conn.wants_transmit = true;
        self.sync_with(now, index, Nagle::Push, amount);
    }

    /// The write has ended: what it left is pushed, unless it is too little (tcp_push).
    fn write_ends(&mut self, now: SimTime, index: u32, more: bool) {
        let Some(conn) = self.connection_at(index) else { return };
        conn.snd.more_announced = more && conn.not_sent() > 0;
        if conn.not_sent() > 0 {
            if !more || conn.must_push() {
                conn.mark_push();
            }
            if conn.gathers_writes() {
                conn.snd.throttled = true;
                return self.count_throttled(index);
            }
        }
        conn.wants_transmit = true;
        self.sync_with(now, index, if more { Nagle::Cork } else { Nagle::Usual }, Amount::All);
    }

    /// Reads up to `max` bytes from a connection into `sink`, which says how many it took. `Ok(0)` is the end of the stream.
    /// Errors: `WouldBlock`, `NotConnected`, or the connection's own error, once.
    pub fn recv(
        &mut self,
        now: SimTime,
        id: SocketId,
        max: usize,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, SocketError> {
        let mut head = self.head_of_read(peek);
        let work = self.begin_reading(id.index).filter(|_| !peek);
        let socket = self.tcp(id)?;
        let (read_shut, _) = socket.shut_ways();
        let conn = match &mut socket.role {
            Role::Connection(conn) => conn,
            Role::Idle => match socket.error.take() {
                Some(error) => return Err(error),
                None if read_shut => return Ok(0),
                None => return Err(SocketError::NotConnected),
            },
            Role::Listener(_) => return Err(SocketError::NotConnected),
        };
        if conn.rcv.queue.ready_bytes() == 0 {
            // Behind a FIN there is nothing but the end (SOCK_DONE): an error is for who writes, or asks for it.
            if let Some(error) = conn.error.take_if(|_| !conn.rcv.fin_received) {
                return Err(error);
            }
            if matches!(conn.state, State::SynSent | State::SynReceived) || !conn.read_closed() {
                // Who shut reading before there was a connection does so for all that follow.
                return if read_shut { Ok(0) } else { Err(SocketError::WouldBlock) };
            }
            conn.rcv.fin_read |= conn.rcv.fin_received && !peek;
            return Ok(0);
        }
        let before = conn.rcv.queue.copied();
        let first = conn.rcv.queue.first_len();
        let taken = match &mut head {
            Some(head) => conn.rcv.queue.read(max, peek, &mut |bytes| {
                head.add(bytes);
                sink(bytes)
            }),
            None => conn.rcv.queue.read(max, peek, sink),
        };
        // A read of the last byte takes the FIN behind it along.
        conn.rcv.fin_read |= conn.rcv.fin_received && !peek && conn.rcv.queue.ready_bytes() == 0;
        if !peek && taken > 0 && conn.state != State::Closed {
            // Of several buffers that are read at once, the first one counts: it still sees the others wait.
            conn.right_size(now, before + first.min(taken) as u64);
            conn.ack_after_read(taken);
            self.sync(now, id.index);
        }
        if !peek && taken > 0 {
            self.note_read(now, id.index, taken, head);
            self.end_reading(work, taken);
        }
        Ok(taken)
    }

    /// Bytes that can be read (SIOCINQ); for UDP the size of the next datagram.
    pub fn readable_bytes(&mut self, id: SocketId) -> usize {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => socket.connection().map_or(0, |conn| conn.rcv.queue.ready_bytes()),
            Some(Kind::Udp(socket)) => socket.queue.front().map_or(0, |datagram| datagram.bytes.len()),
            _ => 0,
        }
    }

    /// Whether the peer's FIN has come: no more bytes will.
    pub fn has_ended(&mut self, id: SocketId) -> bool {
        self.tcp(id).ok().and_then(TcpSocket::connection).is_some_and(|conn| conn.rcv.fin_received)
    }

    /// Bytes written and not acknowledged, and a FIN (SIOCOUTQ); for UDP what waits for transmission.
    pub fn unsent_and_unacknowledged(&mut self, id: SocketId) -> usize {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => socket.connection().map_or(0, |conn| {
                let fin = conn.snd.fin_queued && !conn.fin_acknowledged() && conn.state != State::Closed;
                conn.snd.queue.len() + usize::from(fin)
            }),
            Some(Kind::Udp(socket)) => socket.in_transit,
            _ => 0,
        }
    }

    /// Bytes written and never sent (SIOCOUTQNSD).
    pub fn unsent(&mut self, id: SocketId) -> usize {
        self.tcp(id).ok().and_then(TcpSocket::connection).map_or(0, |conn| conn.not_sent())
    }

    /// shutdown(2). On a listener, reading ends listening. Errors: `NotConnected`.
    pub fn shutdown(&mut self, now: SimTime, id: SocketId, how: Shutdown) -> Result<(), SocketError> {
        let slot = self.slot_mut(id).ok_or(SocketError::BadSocket)?;
        match &mut slot.kind {
            Kind::Udp(socket) => {
                let connected = socket.peer.is_some();
                socket.read_shut |= how.reads();
                socket.write_shut |= how.writes();
                let ready = socket.readiness();
                self.post(id.index, ready);
                if connected { Ok(()) } else { Err(SocketError::NotConnected) }
            }
            Kind::Tcp(socket) => match &mut socket.role {
                Role::Idle => {
                    socket.shut = Some(socket.shut.map_or(how, |shut| shut.and(how)));
                    Err(SocketError::NotConnected)
                }
                Role::Listener(_) if how.reads() => {
                    self.disconnect(now, id)?;
                    self.post(id.index, Readiness::HANGUP | Readiness::READABLE);
                    Ok(())
                }
                Role::Listener(_) => Ok(()),
                Role::Connection(conn) => {
                    let result = shut_connection(conn, how);
                    self.sync(now, id.index);
                    result
                }
            },
            Kind::TimeWait(..) => Err(SocketError::BadSocket),
        }
    }

    /// What poll(2) shows now.
    pub fn readiness(&mut self, id: SocketId) -> Readiness {
        match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Udp(socket)) => socket.readiness(),
            Some(Kind::Tcp(socket)) => match (socket.shut_ways(), &mut socket.role) {
                // A socket that was never connected counts as hung up (tcp_poll).
                ((read_shut, _), Role::Idle) => {
                    let ready = Readiness::HANGUP | Readiness::WRITABLE;
                    let error = if socket.error.is_some() { Readiness::ERROR } else { Readiness::empty() };
                    let end = Readiness::READABLE | Readiness::READ_HANGUP;
                    ready | error | if read_shut { end } else { Readiness::empty() }
                }
                (_, Role::Listener(listener)) if listener.ready.is_empty() => Readiness::empty(),
                (_, Role::Listener(_)) => Readiness::READABLE,
                ((read_shut, write_shut), Role::Connection(conn)) => {
                    let reads = Readiness::READABLE | Readiness::READ_HANGUP;
                    let shut = match (read_shut, write_shut && conn.state != State::SynSent) {
                        (false, false) => Readiness::empty(),
                        (true, false) => reads,
                        (false, true) => Readiness::WRITABLE,
                        (true, true) => reads | Readiness::WRITABLE | Readiness::HANGUP,
                    };
                    conn.readiness() | shut
                }
            },
            _ => Readiness::empty(),
        }
    }

    /// SO_ERROR: the pending error, which is cleared.
    pub fn take_error(&mut self, id: SocketId) -> Option<SocketError> {
        match &mut self.slot_mut(id)?.kind {
            Kind::Tcp(socket) => socket.error.take().or_else(|| socket.connection()?.error.take()),
            Kind::Udp(socket) => socket.error.take(),
            Kind::TimeWait(..) => None,
        }
    }

    /// getsockname(2).
    pub fn local_name(&mut self, id: SocketId) -> Result<SocketAddr, SocketError> {
        match self.slot_mut(id).map(|slot| &slot.kind) {
            Some(Kind::Tcp(socket)) => Ok(socket.local.to_socket_addr(socket.settings.family)),
            Some(Kind::Udp(socket)) => {
                let mut local = socket.local;
                if let Carries::Raw(protocol) = socket.carries {
                    // Where others have their port (inet_create).
                    local.port = protocol.into();
                }
                Ok(local.to_socket_addr(socket.settings.family))
            }
            _ => Err(SocketError::BadSocket),
        }
    }

    /// getpeername(2). Errors: `NotConnected`.
    pub fn peer_name(&mut self, id: SocketId) -> Result<SocketAddr, SocketError> {
        let peer = match self.slot_mut(id).map(|slot| &mut slot.kind) {
            Some(Kind::Tcp(socket)) => {
                let connected = |conn: &&mut Connection| !matches!(conn.state, State::SynSent | State::Closed);
                socket.connection().filter(connected).map(|conn| conn.tuple.remote)
            }
            // One that was connected to port 0 has a peer for all but this (`inet_getname`).
            Some(Kind::Udp(socket)) => socket.peer.filter(|peer| peer.port != 0),
            _ => return Err(SocketError::BadSocket),
        };
        let family = self.settings_mut(id)?.family;
        peer.map(|peer| peer.to_socket_addr(family)).ok_or(SocketError::NotConnected)
    }

    /// The peer of a connection that was accepted, even if it has ended since.
    pub fn name_of_accepted(&mut self, id: SocketId) -> Option<SocketAddr> {
        let remote = self.tcp(id).ok()?.connection()?.tuple.remote;
        let family = self.settings_mut(id).ok()?.family;
        Some(remote.to_socket_addr(family))
    }

    /// SO_ACCEPTCONN.
    pub fn is_listening(&mut self, id: SocketId) -> bool {
        self.listener(id).is_ok()
    }

    /// TCP_INFO. Errors: `NotSupported` for UDP.
    pub fn tcp_info(&mut self, now: SimTime, id: SocketId) -> Result<TcpInfo, SocketError> {
        Ok(match &self.tcp(id)?.role {
            Role::Idle => TcpInfo::unconnected(now),
            Role::Listener(listener) => listener.info(),
            Role::Connection(conn) => conn.info(now),
        })
    }
}

/// Whether what has a four-tuple makes place for a new connection: a TIME_WAIT record whose peer
/// sent timestamps, which tell the two apart (tcp_twsk_unique). Where the port is chosen by the
/// stack, at a time and by the settings given, net.ipv4.tcp_tw_reuse must say so.
fn gives_way(kind: &Kind, chosen: Option<(SimTime, &Config)>) -> bool {
    let Kind::TimeWait(record, _) = kind else { return false };
    let allowed = chosen.is_none_or(|(now, config)| {
        let old = now.saturating_since(record.entered) > config.time_wait_reuse_delay;
        match config.time_wait_reuse {
            0 => false,
            1 => old,
            _ => old && (record.tuple.local.addr.is_loopback() || record.tuple.remote.addr.is_loopback()),
        }
    });
    allowed && record.has_stamps()
}

/// The address that outlives a connection: what bind(2) asked for, unless that was `::ffff:0.0.0.0`. That counts as an address
/// (`__inet6_bind`), so what connect(2) has made of it stays.
fn lasting_address(settings: &Settings, asked: IpAddr, local: IpAddr) -> IpAddr {
    if settings.family == Family::V6 && asked.is_ipv4() { local } else { asked }
}

fn shut_connection(conn: &mut Connection, how: Shutdown) -> Result<(), SocketError> {
    match conn.state {
        State::Closed => return Err(SocketError::NotConnected),
        State::SynSent => {
            // Linux: shutdown of a connecting socket ends it.
            if how.writes() {
                conn.finish();
            }
            return Ok(());
        }
        _ => {}
    }
    if how.reads() {
        conn.read_shut = true;
        conn.events |= Readiness::READABLE | Readiness::READ_HANGUP;
    }
    if how.writes() {
        conn.shut_write();
    }
    if conn.read_closed() && conn.write_closed() {
        conn.events |= Readiness::HANGUP;
    }
    Ok(())
}
