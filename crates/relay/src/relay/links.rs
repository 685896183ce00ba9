//! Connections and channels: how they come, carry circuits and go.

use super::{CHANNEL, Relay, token};
use crate::channel::{Channel, News, PeerWanted, Waiting};
use crate::circuit::Side;
use crate::design::LinkDesign;
use crate::log;
use mio::Interest;
use mio::net::TcpStream;
use onion::circuit::message::DestroyReason;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

impl Relay {
    pub(super) fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, from)) => {
                    let session = self.tls.respond();
                    self.add_channel(Channel::new(socket, session, from, None, self.settings.scheduler));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return log::warn(format_args!("accepting a connection: {error}")),
            }
        }
    }

    pub(super) fn add_channel(&mut self, mut channel: Channel) -> Option<usize> {
        let entry = self.channels.vacant_entry();
        let key = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        // Cells have one size and are written in batches: waiting for more would only delay them.
        let _ = channel.socket.set_nodelay(true);
        if let Err(error) = self.poll.registry().register(&mut channel.socket, token(CHANNEL, key), interest) {
            log::warn(format_args!("watching a connection: {error}"));
            return None;
        }
        entry.insert(channel);
        self.to_write.insert(key);
        Some(key)
    }

    pub(super) fn connect(&mut self, address: SocketAddr, wanted: PeerWanted) -> Option<usize> {
        let socket = TcpStream::connect(address).ok()?;
        let session = self.tls.initiate();
        let key = self.add_channel(Channel::new(socket, session, address, Some(wanted), self.settings.scheduler))?;
        self.by_identity.entry(wanted.fingerprint).or_default().push(key);
        Some(key)
    }

    pub(super) fn read_channel(&mut self, key: usize) {
        let random = self.random();
        let Some(channel) = self.channels.get_mut(key) else { return };
        let News { opened, cells, end } = channel.read(&self.own, random);
        if opened {
            self.opened(key);
        }
        for came in cells {
            self.cell(key, came);
        }
        if let Some(why) = end {
            self.close_channel(key, &why);
        }
    }

    /// Circuits that waited for it can go on.
    pub(super) fn opened(&mut self, key: usize) {
        let channel = &mut self.channels[key];
        let waiting = std::mem::take(&mut channel.waiting);
        if let (Some(peer), None) = (channel.peer, channel.wanted) {
            self.by_identity.entry(peer.rsa_fingerprint).or_default().push(key);
        }
        let (design, address, wanted) = (channel.design, channel.address, channel.wanted);
        for (place, Waiting { circuit, create }) in waiting.into_iter().enumerate() {
            let own = match (design, wanted) {
                (LinkDesign::Pctcp, Some(wanted)) if place > 0 => Some(self.connect(address, wanted)),
                _ => None,
            };
            match own {
                None => self.create(key, circuit, &create),
                Some(Some(other)) => self.channels[other].waiting.push(Waiting { circuit, create }),
                Some(None) => self.close_circuit(circuit, Some(DestroyReason::ConnectFailed), None),
            }
        }
    }

    /// A connection of one circuit goes with it.
    pub(super) fn close_if_done(&mut self, key: usize) {
        let is_done = |channel: &Channel| {
            let is_own = channel.initiated && channel.design == LinkDesign::Pctcp;
            is_own && channel.circuits.is_empty() && channel.waiting.is_empty() && channel.has_written_all()
        };
        if self.channels.get(key).is_some_and(is_done) {
            self.close_channel(key, "its circuit has ended");
        }
    }

    pub(super) fn close_channel(&mut self, key: usize, why: &str) {
        let Some(mut channel) = self.channels.try_remove(key) else { return };
        let _ = self.poll.registry().deregister(&mut channel.socket);
        self.to_write.remove(&key);
        self.pending.remove(&key);
        for channels in self.by_identity.values_mut() {
            channels.retain(|other| *other != key);
        }
        self.by_identity.retain(|_, channels| !channels.is_empty());
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
