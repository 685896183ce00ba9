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
        if circuit.is_fast && self.settings.defences.puzzle_effort > 0 {
            // It has cost nothing. Clients need CREATE_FAST to ask the directory, and for no more.
            self.usage.refused_circuits += 1;
            self.close_circuit(key, Some(DestroyReason::Protocol), None);
            return Ok(());
        }
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
            None => self.has_no_connection(key),
        }
        Ok(())
    }

    /// Ends a circuit for which no connection could be opened.
    pub(super) fn has_no_connection(&mut self, circuit: usize) {
        self.usage.refused_circuits += u64::from(self.is_full());
        self.close_circuit(circuit, Some(DestroyReason::ConnectFailed), None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Tested, WANTED};
    use super::*;
    use crate::connection::Came;
    use onion::cell::BODY;

    #[test]
    fn circuits_that_have_solved_no_puzzle_go_no_further_and_are_counted() {
        let extend = [&[2, 0, 6, 127, 0, 0, 1, 0, 9, 2, 20][..], &[8; 20], &[0, 2, 0, 84], &[0; 84]].concat();
        for (effort, is_fast, is_refused) in [("0", true, false), ("9", false, false), ("9", true, true)] {
            let mut tested = Tested::new(&["--PuzzleEffort", effort]);
            let channel = tested.channel();
            tested.open(channel);
            let circuit = tested.circuit(channel, 1);
            tested.relay.circuits[circuit].is_fast = is_fast;
            tested.relay.extend(circuit, &extend).unwrap();
            let refused = (!tested.relay.circuits.contains(circuit), tested.relay.usage.refused_circuits);
            assert_eq!(refused, (is_refused, is_refused.into()), "{effort} {is_fast}");
        }
    }

    #[test]
    fn circuits_that_are_refused_are_counted() {
        let mut tested = Tested::new(&["--PuzzleEffort", "9", "--MaxRelayEarly", "1", "--ConnLimit", "32"]);
        let channel = tested.channel();
        tested.open(channel);
        let came = |command, body: &[u8]| {
            let mut whole = Box::new([0; BODY]);
            whole[..body.len()].copy_from_slice(body);
            Came { circuit: 1, command, number: None, body: whole }
        };
        assert!(tested.relay.handshake(&came(Command::CREATE2, &[0, 2, 0, 84])).is_none(), "it has no puzzle");
        assert_eq!(tested.relay.usage.refused_circuits, 1);
        let long = tested.circuit(channel, 1);
        tested.relay.circuits[long].early_cells = 1;
        tested.relay.relay(channel, came(Command::RELAY_EARLY, &[]));
        assert_eq!((tested.relay.circuits.contains(long), tested.relay.usage.refused_circuits), (false, 2));
        let circuit = tested.circuit(channel, 1);
        for _ in 0..32 {
            tested.begun();
        }
        assert_eq!(tested.relay.connect(tested.address(), WANTED), None);
        tested.relay.has_no_connection(circuit);
        assert_eq!(tested.relay.usage.refused_circuits, 3);
    }
}
