//! Connections and channels: how they come, are known, and go.

use super::{CONNECTION, Lane, Relay, token};
use crate::channel::{Channel, Numbered, Waiting};
use crate::circuit::Side;
use crate::connection::{Came, Connection, News, PeerWanted};
use crate::design::LinkDesign;
use crate::log;
use crate::{esp, kernel};
use mio::Interest;
use mio::net::TcpStream;
use onion::cell::Command;
use onion::circuit::message::DestroyReason;
use onion::link::association::{self, Association, TOKEN};
use onion::link::private::{self, Joining};
use rand_core::RngCore;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Connections.
impl Relay {
    pub(super) fn accept(&mut self) {
        self.accept_later = false;
        loop {
            if self.has_no_room() || self.has_too_many_newcomers() {
                // Others wait in the kernel's queue until there is room.
                self.say_full();
                self.accept_later = true;
                return;
            }
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                // Closed at once.
                Ok((_, from)) if !self.admits(from.ip()) => {}
                Ok((socket, from)) => {
                    let (session, scheduler) = (self.tls.respond(), self.settings.scheduler);
                    self.add_connection(match self.settings.design {
                        LinkDesign::PctcpIpsec => Connection::of_either_kind(socket, session, from, scheduler),
                        _ => Connection::new(socket, session, from, None, scheduler),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.accept_later = true;
                    if !self.has_no_more_sockets(&error) {
                        log::warn(format_args!("accepting a connection: {error}"));
                    }
                    return;
                }
            }
        }
    }

    /// Sockets and files that are open, nearly.
    pub(super) fn sockets(&self) -> usize {
        const ALWAYS: usize = 8;
        self.connections.len() + self.streams.len() + ALWAYS
    }

    /// No more sockets can be had.
    pub(super) fn is_full(&self) -> bool {
        self.sockets() >= self.settings.imux.conn_limit
    }

    pub(super) fn add_connection(&mut self, mut connection: Connection) -> Option<usize> {
        let serial = self.fresh_serial();
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut connection.socket, token(CONNECTION, key), interest) {
            log::warn(format_args!("watching a connection: {error}"));
            return None;
        }
        if self.settings.no_delay
            && let Err(error) = connection.socket.set_nodelay(true)
        {
            log::warn(format_args!("TCP_NODELAY: {error}"));
        }
        connection.serial = serial;
        self.connections_ever += 1;
        entry.insert(connection);
        self.to_write.insert(key);
        self.handshake_begins(key);
        Some(key)
    }

    /// Begins a connection of this channel.
    pub(super) fn open_connection(&mut self, channel_key: usize, wanted: PeerWanted) -> bool {
        let address = self.channels[channel_key].address;
        if self.has_no_room() {
            return false;
        }
        let began = self.clock.now();
        let socket = match TcpStream::connect(address) {
            Ok(socket) => socket,
            Err(error) => {
                self.has_no_more_sockets(&error);
                return false;
            }
        };
        self.opened += 1;
        self.opening += self.clock.now() - began;
        let session = self.tls.initiate();
        let connection = Connection::new(socket, session, address, Some(wanted), self.settings.scheduler);
        let Some(key) = self.add_connection(connection) else { return false };
        self.connections[key].channel = Some(channel_key);
        self.channels[channel_key].opening.push(key);
        true
    }

    pub(super) fn read_connection(&mut self, key: usize) {
        let random = self.random();
        let Some(connection) = self.connections.get_mut(key) else { return };
        let News { opened, answered, token, cells, end } = connection.read(&self.own, random);
        if opened {
            self.connection_opened(key);
        }
        if answered && let Some(connection) = self.connections.get(key) {
            self.handshake_ends(true, connection.serial);
        }
        if let Some(token) = token {
            return match self.token_came(key, &token) {
                // What follows it may be there already.
                Ok(()) => self.read_connection(key),
                Err(why) => self.connection_ended(key, &why),
            };
        }
        if !cells.is_empty() {
            self.heard(key);
        }
        for came in cells {
            let Some(connection) = self.connections.get(key) else { return };
            match (came.circuit, connection.channel) {
                (0, _) => self.link_cell(key, &came),
                (_, Some(channel)) => self.circuit_cell(channel, came),
                (_, None) => return self.connection_ended(key, "a circuit's cell on a connection without channel"),
            }
        }
        if let Some(why) = end {
            self.connection_ended(key, &why);
        }
    }

    /// The other end has said something on a connection, so it knows of which channel that is: circuits may take it.
    fn heard(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        if std::mem::take(&mut connection.awaits_answer)
            && let Some(channel) = connection.channel
        {
            self.deal_soon(channel);
        }
    }

    fn connection_opened(&mut self, key: usize) {
        let connection = &self.connections[key];
        let (peer, design, address) = (connection.peer, connection.design, connection.address);
        let (initiated, serial) = (connection.initiated, connection.serial);
        self.handshake_ends(initiated, serial);
        if peer.is_none() && !initiated && !self.client_came(key) {
            return self.remove_connection(key);
        }
        match self.connections[key].channel {
            Some(channel) => self.own_connection_opened(key, channel),
            // Its first cell says to which it belongs.
            None if design.is_numbered() => {}
            None => {
                let channel = self.channels.insert(Channel::from(peer, address, design));
                self.connections[key].channel = Some(channel);
                self.channels[channel].connections.push(key);
                self.identify(channel);
                if design == LinkDesign::PctcpIpsec {
                    self.associate(key, channel);
                }
            }
        }
    }

    /// A connection of somebody who says that there is an association.
    fn token_came(&mut self, key: usize, token: &[u8; TOKEN]) -> Result<(), String> {
        let name = association::named(token).map_err(|refusal| refusal.to_string())?;
        let (channel, association) = self.associations.get_mut(&name).ok_or("a token of no association")?;
        let answer = association.accept(token).map_err(|refusal| refusal.to_string())?;
        let peer = self.channels[*channel].peer.ok_or("an association with nobody")?;
        let connection = &mut self.connections[key];
        connection.accept(peer, &answer).map_err(|error| error.to_string())?;
        let (address, serial) = (connection.address, connection.serial);
        self.handshake_ends(false, serial);
        let channel = self.channels.insert(Channel::from(Some(peer), address, LinkDesign::PctcpIpsec));
        self.connections[key].channel = Some(channel);
        self.channels[channel].connections.push(key);
        self.identify(channel);
        self.to_write.insert(key);
        Ok(())
    }

    /// Keys of a channel with TLS, by which others are opened to the same relay without.
    fn associate(&mut self, key: usize, channel: usize) {
        let connection = &self.connections[key];
        let exported = association::CONTEXTS.map(|context| connection.export(association::EXPORTER, context));
        let [Some(name), Some(initiator), Some(responder)] = exported else { return };
        let association = Association::new([name, initiator, responder], connection.initiated);
        self.channels[channel].association = Some(association.name);
        self.associations.insert(association.name, (channel, association));
    }

    /// A channel for one circuit, to the relay that this one has an association with, without TLS; it can be used at once.
    pub(super) fn connect_by_token(&mut self, associated: usize, address: SocketAddr) -> Option<usize> {
        let channel = &self.channels[associated];
        let (peer, name) = (channel.peer?, channel.association?);
        let first = *channel.connections.first()?;
        if self.has_no_room() {
            return None;
        }
        let segment = esp::segment(kernel::mtu(self.connections[first].socket.as_fd()).unwrap_or(esp::USUAL_MTU));
        let began = self.clock.now();
        let socket = match esp::connect(address, segment) {
            Ok(socket) => socket,
            Err(error) => {
                self.has_no_more_sockets(&error);
                return None;
            }
        };
        self.opened += 1;
        self.opening += self.clock.now() - began;
        let (_, association) = self.associations.get_mut(&name)?;
        let connection = Connection::with_token(socket, address, peer, association.open(), self.settings.scheduler);
        let key = self.add_connection(connection)?;
        let wanted = PeerWanted { fingerprint: peer.rsa_fingerprint, ed25519: Some(peer.ed25519) };
        let mut channel = Channel::to(wanted, address);
        (channel.peer, channel.design) = (Some(peer), LinkDesign::PctcpIpsec);
        channel.connections.push(key);
        let channel = self.channels.insert(channel);
        self.connections[key].channel = Some(channel);
        self.identify(channel);
        Some(channel)
    }

    fn own_connection_opened(&mut self, key: usize, channel_key: usize) {
        let connection = &self.connections[key];
        let (peer, design) = (connection.peer, connection.design);
        let channel = &mut self.channels[channel_key];
        channel.opening.retain(|other| *other != key);
        let is_first = !channel.is_open() && channel.numbered.is_none();
        if is_first {
            (channel.peer, channel.design) = (peer, design);
            if design.is_numbered() {
                let number = self.random.next_u64();
                channel.numbered = Some(Numbered::new(number, true, self.settings.scheduler));
            }
        } else if channel.design != design || channel.peer != peer {
            return self.remove_connection(key);
        }
        channel.connections.push(key);
        if let Some(numbered) = &channel.numbered {
            let (number, is_senders) = (numbered.number, channel.initiated);
            let body = Joining { number, is_senders, or_port: self.settings.or_port }.write();
            let connection = &mut self.connections[key];
            connection.put(0, private::CHANNEL, None, &body);
            connection.awaits_answer = !is_first;
            self.to_write.insert(key);
        }
        if is_first && design == LinkDesign::PctcpIpsec {
            self.associate(key, channel_key);
        }
        if is_first {
            self.channel_opened(channel_key);
        }
    }

    /// A cell of a connection itself.
    fn link_cell(&mut self, key: usize, came: &Came) {
        let connection = &mut self.connections[key];
        if !connection.design.is_numbered() {
            // Padding, and what tor may say that changes nothing here.
            return;
        }
        let closing = &mut connection.closing;
        match came.command {
            private::CHANNEL if connection.channel.is_none() => match Joining::read(&came.body[..]) {
                Some(joining) => self.join(key, joining),
                None => self.connection_ended(key, "a CHANNEL cell that cannot be read"),
            },
            private::CLOSING_CONN_BEGIN if connection.channel.is_some() && !closing.was_asked => {
                closing.was_asked = true;
                connection.put(0, private::CLOSING_CONN_END, None, &[]);
                self.to_write.insert(key);
                self.asked_to_close(key);
            }
            private::CLOSING_CONN_END if closing.has_begun && !closing.was_answered => {
                closing.was_answered = true;
                self.to_write.insert(key);
            }
            Command::PADDING => {}
            command => self.connection_ended(key, &format!("{command:?} at the wrong time")),
        }
    }

    /// A connection that the other end has opened says which channel it is of; its peer is proven, so only who made the channel, or whom
    /// it was made to, can mean it.
    fn join(&mut self, key: usize, joining: Joining) {
        let connection = &self.connections[key];
        let (peer, design, mut address) = (connection.peer, connection.design, connection.address);
        let is_meant = |channel: &Channel| {
            let number = channel.numbered.as_ref().map(|numbered| numbered.number);
            channel.peer == peer && channel.initiated != joining.is_senders && number == Some(joining.number)
        };
        let fingerprint = peer.map(|peer| peer.rsa_fingerprint).unwrap_or_default();
        let known = self.by_identity.get(&fingerprint).into_iter().flatten().copied();
        let found = known.into_iter().find(|channel| is_meant(&self.channels[*channel]));
        address.set_port(joining.or_port);
        let channel = match found {
            Some(channel) => channel,
            None if joining.is_senders => {
                let mut channel = Channel::from(peer, address, design);
                channel.numbered = Some(Numbered::new(joining.number, false, self.settings.scheduler));
                let channel = self.channels.insert(channel);
                self.identify(channel);
                channel
            }
            // It has ended meanwhile.
            None => return self.connection_ended(key, "of a channel that is not there"),
        };
        let connection = &mut self.connections[key];
        connection.channel = Some(channel);
        // Who has opened it waits for some answer.
        connection.put(0, Command::PADDING, None, &[]);
        self.to_write.insert(key);
        self.channels[channel].connections.push(key);
        self.deal_soon(channel);
        self.close_if_too_many(channel, key);
    }

    /// A connection is over, by agreement or not.
    pub(super) fn connection_ended(&mut self, key: usize, why: &str) {
        let Some(connection) = self.connections.get(key) else { return };
        let channel = connection.channel.filter(|_| !connection.is_closed());
        match channel.and_then(|key| Some((key, self.channels.get(key)?))) {
            // Nothing was put on it, and nothing has come.
            Some((_, at)) if connection.awaits_answer && at.connections.len() > 1 => self.remove_connection(key),
            // Cells may be missing.
            Some((channel, at)) if at.connections.contains(&key) || !at.is_open() => self.close_channel(channel, why),
            _ => self.remove_connection(key),
        }
    }

    pub(super) fn remove_connection(&mut self, key: usize) {
        let Some(mut connection) = self.connections.try_remove(key) else { return };
        let _ = self.poll.registry().deregister(&mut connection.socket);
        self.to_write.remove(&key);
        self.pending.remove(&Lane::Own(key));
        self.handshake_ends(connection.initiated, connection.serial);
        self.connection_gone(key);
        if let Some(channel) = connection.channel.and_then(|channel| self.channels.get_mut(channel)) {
            channel.connections.retain(|other| *other != key);
            channel.opening.retain(|other| *other != key);
        }
    }

    /// A connection of one circuit goes with it, and one that both ends have agreed to close.
    pub(super) fn close_if_done(&mut self, key: usize) {
        let Some(connection) = self.connections.get(key) else { return };
        if connection.is_closed() {
            return self.remove_connection(key);
        }
        let is_done = |channel: &Channel| {
            let is_own = channel.initiated && channel.is_of_circuit();
            is_own && channel.circuits.is_empty() && channel.waiting.is_empty() && connection.has_written_all()
        };
        if let Some(channel) = connection.channel.filter(|channel| is_done(&self.channels[*channel])) {
            self.close_channel(channel, "its circuit has ended");
        }
    }
}

/// Channels.
impl Relay {
    pub(super) fn connect(&mut self, address: SocketAddr, wanted: PeerWanted) -> Option<usize> {
        let channel = self.channels.insert(Channel::to(wanted, address));
        if !self.open_connection(channel, wanted) {
            self.channels.remove(channel);
            return None;
        }
        self.by_identity.entry(wanted.fingerprint).or_default().push(channel);
        Some(channel)
    }

    /// A channel that the other end has opened can be found by who that is.
    fn identify(&mut self, channel: usize) {
        if let Some(peer) = self.channels[channel].peer {
            self.by_identity.entry(peer.rsa_fingerprint).or_default().push(channel);
        }
    }

    /// Circuits that waited for it can go on.
    fn channel_opened(&mut self, key: usize) {
        let channel = &mut self.channels[key];
        let waiting = std::mem::take(&mut channel.waiting);
        let (design, address, wanted) = (channel.design, channel.address, channel.wanted);
        if let (LinkDesign::Torchestra, Some(wanted)) = (design, wanted) {
            self.open_connection(key, wanted);
        }
        for (place, Waiting { circuit, create }) in waiting.into_iter().enumerate() {
            let own = match (design, wanted) {
                (LinkDesign::Pctcp, Some(wanted)) if place > 0 => Some(self.connect(address, wanted)),
                (LinkDesign::PctcpIpsec, _) => Some(self.connect_by_token(key, address)),
                _ => None,
            };
            match own {
                None => self.create(key, circuit, &create),
                Some(Some(other)) if self.channels[other].is_open() => self.create(other, circuit, &create),
                Some(Some(other)) => self.channels[other].waiting.push(Waiting { circuit, create }),
                Some(None) => self.has_no_connection(circuit),
            }
        }
    }

    fn forget_identity(&mut self, key: usize, channel: &Channel) {
        let wanted = channel.wanted.map(|wanted| wanted.fingerprint);
        let proven = channel.peer.map(|peer| peer.rsa_fingerprint);
        for fingerprint in wanted.into_iter().chain(proven) {
            let Some(channels) = self.by_identity.get_mut(&fingerprint) else { continue };
            channels.retain(|other| *other != key);
            if channels.is_empty() {
                self.by_identity.remove(&fingerprint);
            }
        }
    }

    /// A circuit that waited for a channel is over. A connection of its own that is not yet there is not needed any more.
    pub(super) fn waits_no_more(&mut self, circuit: usize) {
        let mut needless = Vec::new();
        for (key, channel) in self.channels.iter_mut().filter(|(_, channel)| !channel.waiting.is_empty()) {
            channel.waiting.retain(|waiting| waiting.circuit != circuit);
            let is_own = self.settings.design == LinkDesign::Pctcp && channel.initiated && !channel.is_open();
            if is_own && channel.waiting.is_empty() && channel.circuits.is_empty() {
                needless.push(key);
            }
        }
        for key in needless {
            self.close_channel(key, "its circuit has ended");
        }
    }

    pub(super) fn close_channel(&mut self, key: usize, why: &str) {
        let Some(channel) = self.channels.try_remove(key) else { return };
        for connection in channel.connections.iter().chain(&channel.opening) {
            self.remove_connection(*connection);
        }
        self.to_pool.remove(&key);
        self.to_deal.remove(&key);
        self.pending.remove(&Lane::Pool(key));
        self.forget_identity(key, &channel);
        if let Some(name) = channel.association {
            self.associations.remove(&name);
        }
        if !channel.waiting.is_empty() {
            log::notice(format_args!("A connection to another relay came to nothing: {why}"));
        }
        let circuits: BTreeSet<(usize, bool)> =
            channel.circuits.values().map(|(circuit, side)| (*circuit, *side == Side::Client)).collect();
        for (circuit, is_client) in circuits {
            if is_client {
                self.close_circuit(circuit, None, Some(DestroyReason::ChannelClosed));
            } else {
                self.truncated(circuit, DestroyReason::ChannelClosed);
            }
        }
        for waiting in channel.waiting {
            self.close_circuit(waiting.circuit, Some(DestroyReason::ConnectFailed), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tested;

    #[test]
    fn a_connection_that_carries_nothing_yet_costs_only_itself() {
        let mut tested = Tested::new(&["--LinkDesign", "imux"]);
        let channel = tested.channel();
        let [first, second, third] = [(); 3].map(|()| tested.open(channel));
        let relay = &mut tested.relay;
        for more in [second, third] {
            relay.connections[more].awaits_answer = true;
            assert!(!relay.connections[more].is_usable(), "no cell is put on it");
        }
        relay.connection_ended(second, "the other end has given it up");
        assert_eq!(relay.channels[channel].connections, [first, third]);
        relay.heard(third);
        assert!(relay.connections[third].is_usable() && relay.to_deal.contains(&channel));
        relay.connection_ended(third, "cells may be missing");
        assert!(!relay.channels.contains(channel) && relay.connections.is_empty());
    }

    #[test]
    fn a_channel_without_another_connection_ends_with_its_last() {
        let mut tested = Tested::new(&["--LinkDesign", "imux"]);
        let channel = tested.channel();
        let only = tested.open(channel);
        tested.relay.connections[only].awaits_answer = true;
        tested.relay.connection_ended(only, "nobody is there");
        assert!(!tested.relay.channels.contains(channel));
    }
}
