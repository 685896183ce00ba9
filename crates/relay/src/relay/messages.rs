//! Messages of clients to this relay.

use super::Relay;
use crate::channel::{Channel, Waiting};
use crate::connection::PeerWanted;
use onion::cell::Command;
use onion::circuit::message::{self, DestroyReason, Extend2, Message};
use std::net::SocketAddr;

impl Relay {
    pub(super) fn message(
        &mut self,
        key: usize,
        cell: Command,
        message: &Message<'_>,
        digest: &[u8; 20],
    ) -> Result<(), &'static str> {
        use message::Command as M;
        let stream = self.circuits[key].streams.get(&message.stream).copied();
        match message.command {
            M::EXTEND2 if cell == Command::RELAY_EARLY => return self.extend(key, message.body),
            M::EXTEND2 => return Err("an EXTEND2 that is not RELAY_EARLY"),
            M::TRUNCATE => {
                if let Some((channel, id)) = self.circuits[key].next {
                    self.destroy(channel, id, DestroyReason::Requested);
                    self.write_soon(channel);
                    self.truncated(key, DestroyReason::Requested);
                }
            }
            M::BEGIN if message.stream == 0 || stream.is_some() => return Err("a stream that is there already"),
            M::BEGIN => self.begin(key, message),
            M::BEGIN_DIR if message.stream == 0 || stream.is_some() => return Err("a stream that is there already"),
            M::BEGIN_DIR => self.begin_directory(key, message.stream),
            M::RESOLVE => self.resolve(key, message),
            M::DATA => {
                if let Some(body) = self.circuits[key].flow.deliver(digest) {
                    self.say(key, M::SENDME, 0, &body);
                }
                if let Some(key) = stream
                    && let Some(stream) = self.streams.get_mut(key)
                {
                    stream.deliver(message.body)?;
                    self.write_stream(key, true);
                }
            }
            M::END => {
                if let Some(stream) = stream {
                    self.circuits[key].streams.remove(&message.stream);
                    self.streams[stream].is_ending = true;
                    self.write_stream(stream, false);
                }
            }
            M::SENDME if message.stream == 0 => {
                let circuit = &mut self.circuits[key];
                let queue = circuit.local_queue();
                circuit.flow.allow(message.body, queue, self.clock.us())?;
                self.to_resume.push(key);
            }
            M::SENDME => {
                if let Some(stream) = stream {
                    self.streams[stream].flow.allow()?;
                    self.to_resume.push(key);
                }
            }
            M::XOFF | M::XON => {
                let goes_on = stream.is_some_and(|key| self.streams[key].flow.heed(message.command, message.body));
                self.stops.xoff_heard += u64::from(message.command == M::XOFF);
                self.to_resume.extend(goes_on.then_some(key));
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn extend(&mut self, key: usize, body: &[u8]) -> Result<(), &'static str> {
        let circuit = &mut self.circuits[key];
        if circuit.next.is_some() || circuit.is_extending {
            return Err("an EXTEND2 of a circuit that goes on already");
        }
        let extend = Extend2::read(body).ok_or("an EXTEND2 that cannot be read")?;
        let prev_fingerprint = self.channels[circuit.prev.0].peer.map(|peer| peer.rsa_fingerprint);
        if Some(extend.fingerprint) == prev_fingerprint || extend.fingerprint == self.own.identity.rsa_fingerprint {
            return Err("an EXTEND2 to where it comes from");
        }
        let wanted = PeerWanted { fingerprint: extend.fingerprint, ed25519: extend.ed25519 };
        let create = message::create2(extend.handshake, &extend.data);
        circuit.is_extending = true;
        let fits = |channel: &Channel| match (&channel.peer, &channel.wanted) {
            (Some(peer), _) => wanted.is(peer),
            (None, Some(other)) => *other == wanted,
            (None, None) => false,
        };
        let known = self.by_identity.get(&wanted.fingerprint).into_iter().flatten().copied();
        // A connection that belongs to a circuit is nobody else's.
        let is_free = |channel: &Channel| !channel.is_of_circuit();
        let channel = known
            .map(|key| (key, &self.channels[key]))
            .filter(|(_, channel)| fits(channel) && is_free(channel))
            .max_by_key(|(_, channel)| channel.is_open());
        let address = extend.addresses.iter().find(|(address, port)| address.is_ipv4() && *port != 0);
        let channel = match (channel, address) {
            (Some((channel, at)), _) if at.association.is_some() => {
                let address = address.map_or(at.address, |address| SocketAddr::from(*address));
                self.connect_by_token(channel, address)
            }
            (Some((channel, _)), _) => Some(channel),
            (None, Some(address)) => self.connect(SocketAddr::from(*address), wanted),
            (None, None) => None,
        };
        match channel {
            Some(channel) if self.channels[channel].is_open() => self.create(channel, key, &create),
            Some(channel) => self.channels[channel].waiting.push(Waiting { circuit: key, create }),
            None => self.close_circuit(key, Some(DestroyReason::ConnectFailed), None),
        }
        Ok(())
    }
}
