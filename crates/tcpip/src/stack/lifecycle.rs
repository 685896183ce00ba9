//! Birth and end of sockets and connections, and what must be kept in step with a connection after anything touched it.

use super::{Kind, Role, Slot, Stack, TcpSocket};
use crate::addr::Endpoint;
use crate::error::SocketError;
use crate::ports::{Hold, PortTable};
use crate::socket::SocketId;
use crate::tcp::connection::{Connection, State};
use crate::tcp::listen::Listener;
use crate::tcp::new_data::{Amount, Nagle};
use crate::tcp::time_wait::TimeWait;
use crate::udp::Carries;
use base::SimTime;

impl Stack {
    /// After anything happened to a connection: what it sends, its events, its timer, its end.
    pub(super) fn sync(&mut self, now: SimTime, index: u32) {
        self.sync_with(now, index, Nagle::Usual, Amount::All);
    }

    /// The same, where new data leaves by the rules of a write.
    pub(super) fn sync_with(&mut self, now: SimTime, index: u32, nagle: Nagle, amount: Amount) {
        let Some(conn) = self.connection_at(index) else { return };
        if conn.wants_transmit || conn.acks.now {
            self.transmit(now, index, nagle, amount);
        }
        self.count_throttled(index);
        let Some(conn) = self.connection_at(index) else { return };
        if std::mem::take(&mut conn.snd.room_made) {
            conn.make_room();
        }
        let events = std::mem::take(&mut conn.events);
        let silent = conn.orphan || conn.parent.is_some();
        let (deadline, state) = (conn.rearm(now), conn.state);
        if !events.is_empty() && !silent {
            self.post(index, events);
        }
        self.schedule(index, deadline);
        match state {
            State::TimeWait => self.enter_time_wait(now, index),
            State::Closed => self.connection_ended(now, index),
            _ => {}
        }
    }

    /// Keeps the number of connections that wait for the interface.
    pub(super) fn count_throttled(&mut self, index: u32) {
        let throttled = self.connection_at(index).is_some_and(|conn| conn.snd.throttled);
        let slot = &mut self.slots[index as usize];
        if slot.throttled != throttled {
            slot.throttled = throttled;
            self.throttled = if throttled { self.throttled + 1 } else { self.throttled - 1 };
        }
    }

    pub(super) fn insert_connection(&mut self, conn: Connection, local: Endpoint, hold: Hold) -> u32 {
        let filter = conn.parent.and_then(|parent| self.tcp(parent).ok()?.filter.clone());
        let tuple = conn.tuple;
        let settings = conn.settings.clone();
        // The address that its listener asked for stays its own, the port does not (`sk_clone`).
        let asked = conn.parent.and_then(|parent| Some(self.tcp(parent).ok()?.asked.addr));
        let asked = asked.map_or(Endpoint::any(settings.family), |addr| Endpoint::new(addr, 0));
        let role = Role::Connection(Box::new(conn));
        let socket = TcpSocket { role, filter, ..TcpSocket::new(settings, local, asked, hold) };
        let id = self.insert(Kind::Tcp(Box::new(socket)));
        self.connections.insert(tuple, id.index);
        id.index
    }

    /// Both sides have closed: a record stays, the connection itself is over.
    fn enter_time_wait(&mut self, now: SimTime, index: u32) {
        let hold = self.hold_of(index);
        let Some(conn) = self.connection_at(index) else { return };
        let record = TimeWait::of(conn, now);
        let (tuple, until) = (record.tuple, record.until);
        conn.finish();
        let hold = match hold {
            // The record takes over what the connection held; a bound socket keeps its own.
            Hold::Counted { .. } => {
                if let Kind::Tcp(socket) = &mut self.slots[index as usize].kind {
                    socket.hold = Hold::None;
                }
                hold
            }
            Hold::None | Hold::Bound(_) => {
                let settings = conn.settings.clone();
                self.share_port(tuple.local, &settings)
            }
        };
        let id = self.insert(Kind::TimeWait(Box::new(record), hold));
        self.connections.insert(tuple, id.index);
        self.schedule(id.index, until);
        self.sync(now, index);
    }

    pub(super) fn forget_time_wait(&mut self, index: u32) {
        let Some(Slot { kind: Kind::TimeWait(record, hold), .. }) = self.slots.try_remove(index as usize) else {
            return;
        };
        self.counters.time_waits_ended += 1;
        self.tcp_ports.release(hold, index);
        if self.connections.get(&record.tuple) == Some(&index) {
            self.connections.remove(&record.tuple);
        }
    }

    /// The connection is closed: it leaves the map, and the stack if nobody holds it.
    fn connection_ended(&mut self, now: SimTime, index: u32) {
        let id = self.id_of(index);
        self.note_end(now, index);
        let Some(conn) = self.connection_at(index) else { return };
        let (tuple, orphan, parent) = (conn.tuple, conn.orphan, conn.parent);
        let reset = std::mem::take(&mut conn.recovery.reset_due).then(|| conn.reset_header(now));
        if let Some(reset) = reset {
            self.push_reset(tuple, reset);
        }
        if self.connections.get(&tuple) == Some(&index) {
            self.connections.remove(&tuple);
        }
        if let Some(parent) = parent {
            if let Ok(listener) = self.listener(parent) {
                listener.settle(id, false);
            }
            self.remove(index);
        } else if orphan {
            self.remove(index);
        }
    }

    /// Frees a slot and the port that it holds.
    pub(super) fn remove(&mut self, index: u32) {
        let hold = self.hold_of(index);
        self.retire(index);
        self.ports_of(index).release(hold, index);
        self.raw.retain(|raw| *raw != index);
        let slot = self.slots.remove(index as usize);
        self.throttled -= usize::from(slot.throttled);
        if let Kind::Udp(socket) = &slot.kind {
            self.datagrams_in_host -= socket.in_transit;
            if let Some(multicast) = &socket.multicast {
                self.leave_all_groups(multicast);
            }
        }
    }

    /// Where the port of this socket is noted.
    pub(super) fn ports_of(&mut self, index: u32) -> &mut PortTable {
        match &self.slots[index as usize].kind {
            Kind::Udp(socket) if socket.carries == Carries::Udp => &mut self.udp_ports,
            Kind::Udp(_) => &mut self.echo_ports,
            _ => &mut self.tcp_ports,
        }
    }

    pub(super) fn listener(&mut self, id: SocketId) -> Result<&mut Listener, SocketError> {
        match &mut self.tcp(id)?.role {
            Role::Listener(listener) => Ok(listener),
            _ => Err(SocketError::InvalidArgument),
        }
    }

    /// close(2) of the last descriptor: the id is invalid from now on. A connection lives on until its data is delivered;
    /// with unread data or SO_LINGER zero the peer gets a RST instead (RFC 2525 section 2.17). Waiting, as a blocking close with
    /// SO_LINGER does, is the caller's: shut the write side, wait until `unsent_and_unacknowledged` is 0, then close.
    pub fn close(&mut self, now: SimTime, id: SocketId) {
        let Some(slot) = self.slot_mut(id) else { return };
        let Kind::Tcp(socket) = &mut slot.kind else {
            return if matches!(slot.kind, Kind::Udp(_)) {
                self.remove(id.index)
            };
        };
        match &mut socket.role {
            Role::Idle => self.remove(id.index),
            Role::Listener(_) => self.close_listener(now, id),
            Role::Connection(_) => self.close_connection(now, id.index),
        }
    }

    fn close_connection(&mut self, now: SimTime, index: u32) {
        let Some(conn) = self.connection_at(index) else { return };
        conn.orphan = true;
        let unread = conn.rcv.queue.ready_bytes() > 0;
        let hard = unread || conn.settings.linger == 0;
        match conn.state {
            State::SynSent => conn.finish(),
            State::Closed | State::TimeWait => {}
            _ if hard => {
                let (tuple, reset) = (conn.tuple, conn.reset_header(now));
                conn.finish();
                self.push_reset(tuple, reset);
            }
            State::FinWait2 => conn.arm_fin_wait(now),
            _ => conn.shut_write(),
        }
        self.sync(now, index);
    }

    pub(super) fn close_listener(&mut self, now: SimTime, id: SocketId) {
        self.abort_children(now, id);
        self.unlisten(id.index);
        self.remove(id.index);
    }

    /// Resets every connection that this listener has not handed out.
    pub(super) fn abort_children(&mut self, now: SimTime, id: SocketId) {
        let Ok(listener) = self.listener(id) else { return };
        let half_open = std::mem::take(&mut listener.half_open);
        let ready = std::mem::take(&mut listener.ready);
        for child in half_open.into_iter().chain(ready) {
            if self.slot_mut(child).is_none() {
                continue;
            }
            let Some(conn) = self.connection_at(child.index) else { continue };
            conn.orphan = true;
            conn.parent = None;
            let (tuple, reset, live) = (conn.tuple, conn.reset_header(now), conn.state != State::Closed);
            conn.finish();
            if live {
                self.push_reset(tuple, reset);
            }
            self.sync(now, child.index);
        }
    }

    pub(super) fn unlisten(&mut self, index: u32) {
        let port = match &self.slots[index as usize].kind {
            Kind::Tcp(socket) => socket.local.port,
            _ => return,
        };
        if let Some(at_port) = self.listeners.get_mut(&port) {
            at_port.retain(|other| *other != index);
            if at_port.is_empty() {
                self.listeners.remove(&port);
            }
        }
        self.tcp_ports.unlisten(index, port);
    }
}
