//! Streams of clients through this relay.

use super::{Asker, BATCH, Relay, STREAM, TTL_S, token};
use crate::resolver::Answer;
use crate::stream::{Stream, reason_of};
use mio::Interest;
use mio::net::TcpStream;
use onion::circuit::flow::REFILL_MS;
use onion::circuit::message::{self, Begin, EndReason, LONGEST, Message, Resolved};
use rand_core::RngCore;
use std::net::{IpAddr, SocketAddr};

/// What a client has sent before it ended a stream is held for a destination that takes none of it for so long (tor's
/// `connection_expire_held_open`).
const HELD_MS: u64 = 15_000;
/// Questions to the directory that a circuit may have open: tor asks for 500 relays in each, so that a client of the whole network has some
/// twenty at first, and rarely all on one circuit.
const MOST_QUESTIONS: usize = 32;

impl Relay {
    pub(super) fn end(&mut self, key: usize, number: u16, reason: EndReason) {
        self.say(key, message::Command::END, number, &message::end(reason, None));
    }

    pub(super) fn begin(&mut self, key: usize, message: &Message<'_>) {
        let Some(begin) = Begin::read(message.body) else {
            return self.end(key, message.stream, EndReason::TorProtocol);
        };
        // A client that has no other relay in between would be known to its destination's relay.
        if self.channels[self.circuits[key].prev.0].peer.is_none() {
            return self.end(key, message.stream, EndReason::TorProtocol);
        }
        if self.farewell_ms.is_some() {
            return self.end(key, message.stream, EndReason::Hibernating);
        }
        if !self.settings.policy.is_exit() {
            return self.end(key, message.stream, EndReason::ExitPolicy);
        }
        let flow = self.circuits[key].flow.stream();
        let stream = self.streams.insert(Stream::new(key, message.stream, flow));
        let serial = self.fresh_serial();
        self.stream_serials.insert(stream, serial);
        self.circuits[key].streams.insert(message.stream, stream);
        self.ask(&begin.host, Asker::Stream { key: stream, serial, port: begin.port });
    }

    /// A question to the directory goes to an authority, each to the next: what they say is signed, and nothing has to be kept here. So each
    /// takes a socket.
    pub(super) fn begin_directory(&mut self, key: usize, number: u16) {
        let serial = self.fresh_serial();
        let authorities = &self.settings.authorities;
        if !self.settings.is_directory || authorities.is_empty() {
            return self.end(key, number, EndReason::NotDirectory);
        }
        let address = authorities[serial as usize % authorities.len()].directory;
        let streams = self.circuits[key].streams.values();
        let asked = streams.filter(|stream| self.streams[**stream].is_of_directory).count();
        if asked >= MOST_QUESTIONS || self.is_full() {
            self.usage.refused_streams += 1;
            return self.end(key, number, EndReason::ResourceLimit);
        }
        let mut stream = Stream::new(key, number, self.circuits[key].flow.stream());
        stream.is_of_directory = true;
        let stream = self.streams.insert(stream);
        self.stream_serials.insert(stream, serial);
        self.circuits[key].streams.insert(number, stream);
        self.connect_stream(stream, address);
    }

    pub(super) fn resolve(&mut self, key: usize, message: &Message<'_>) {
        let name = message.body.split(|byte| *byte == 0).next().unwrap_or_default();
        let serial = self.circuit_serials[&key];
        match std::str::from_utf8(name) {
            // Who is no exit looks nothing up, as tor.
            Ok(name) if self.settings.policy.is_exit() => {
                self.ask(&name.to_ascii_lowercase(), Asker::Circuit { key, serial, number: message.stream })
            }
            _ => self.say(
                key,
                message::Command::RESOLVED,
                message.stream,
                &message::resolved(&[(Resolved::Error, TTL_S)]),
            ),
        }
    }

    pub(super) fn ask(&mut self, name: &str, asker: Asker) {
        let (number, now) = (self.random.next_u32() as u16, self.clock.ms());
        if let Err(answer) = self.resolver.ask(name, number, now, asker) {
            self.answered(vec![answer]);
        }
    }

    pub(super) fn answered(&mut self, answers: Vec<(Asker, Answer)>) {
        for (asker, answer) in answers {
            match asker {
                Asker::Stream { key, serial, port } if self.stream_serials.get(&key) == Some(&serial) => {
                    self.found(key, answer, port);
                }
                Asker::Circuit { key, serial, number } if self.circuit_serials.get(&key) == Some(&serial) => {
                    let answer = match answer {
                        Answer::Address(address) => Resolved::Address(address.into()),
                        Answer::None => Resolved::Error,
                        Answer::Silence => Resolved::TransientError,
                    };
                    self.say(key, message::Command::RESOLVED, number, &message::resolved(&[(answer, TTL_S)]));
                }
                // Nobody waits for it any more.
                _ => {}
            }
        }
    }

    /// A stream's address is found, or not.
    pub(super) fn found(&mut self, key: usize, answer: Answer, port: u16) {
        let Answer::Address(address) = answer else { return self.fail_stream(key, EndReason::ResolveFailed) };
        if !self.settings.policy.accepts(address, port) {
            let (circuit, number) = (self.streams[key].circuit, self.streams[key].number);
            let body = message::end(EndReason::ExitPolicy, Some((IpAddr::V4(address), TTL_S)));
            self.forget_stream(key);
            return self.say(circuit, message::Command::END, number, &body);
        }
        let address = SocketAddr::from((address, port));
        if self.sockets() > self.most_with_streams() {
            self.usage.refused_streams += 1;
            return self.fail_stream(key, EndReason::ResourceLimit);
        }
        if self.is_reentry(address) {
            self.usage.refused_streams += 1;
            return self.fail_stream(key, EndReason::ConnectRefused);
        }
        self.connect_stream(key, address);
    }

    pub(super) fn connect_stream(&mut self, key: usize, address: SocketAddr) {
        let socket = TcpStream::connect(address);
        let registered = socket.and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, token(STREAM, key), interest)?;
            Ok(socket)
        });
        match registered {
            Ok(socket) => self.streams[key].socket = Some(socket),
            Err(error) => self.fail_stream(key, reason_of(&error)),
        }
    }

    pub(super) fn stream_ready(&mut self, key: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let Some(socket) = &stream.socket else { return };
        if !stream.is_connected {
            match socket.take_error() {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return self.fail_stream(key, reason_of(&error)),
            }
            let Ok(peer) = socket.peer_addr() else { return };
            stream.is_connected = true;
            let (circuit, number) = (stream.circuit, stream.number);
            let body = if stream.is_of_directory { Vec::new() } else { message::connected(peer.ip(), TTL_S) };
            self.say(circuit, message::Command::CONNECTED, number, &body);
        }
        self.write_stream(key, false);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.note_readable();
            self.to_read.insert(key);
        }
    }

    /// Writes what a client has sent, of which something has come or not, and tells it how that goes.
    pub(super) fn write_stream(&mut self, key: usize, has_come: bool) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let written = match stream.write() {
            Ok(written) => written,
            Err(error) => return self.fail_stream(key, reason_of(&error)),
        };
        if stream.is_ending {
            if stream.has_written_all() || !stream.is_connected {
                self.drop_stream(key);
            } else if written > 0 || !self.held.contains_key(&key) {
                self.held.insert(key, self.clock.ms());
            }
            return;
        }
        let (circuit, number) = (stream.circuit, stream.number);
        for (command, body) in stream.told(has_come, written, self.clock.us()) {
            self.stops.xoff_sent += u64::from(command == message::Command::XOFF);
            self.say(circuit, command, number, &body);
        }
    }

    /// Gives up streams that clients have ended and whose destinations take nothing more; returns when that is to be looked at next.
    pub(super) fn give_held_up(&mut self) -> Option<u64> {
        let now = self.clock.ms();
        let late = |(key, since): (&usize, &u64)| (since + HELD_MS <= now).then_some(*key);
        for key in self.held.iter().filter_map(late).collect::<Vec<usize>>() {
            self.drop_stream(key);
        }
        self.held.values().min().map(|since| since + HELD_MS)
    }

    /// Reads streams whose sockets may have something, each once and no more than a batch: others get their turns, and what was read is
    /// sent, before it is read again, as in tor.
    pub(super) fn read_streams(&mut self) {
        for key in std::mem::take(&mut self.to_read) {
            self.read_stream(key);
        }
    }

    fn read_stream(&mut self, key: usize) {
        let mut buffer = [0; BATCH * LONGEST];
        let room = self.room(key);
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_readable) else { return };
        if room > 0 {
            stream.fill(&mut buffer[..room.min(BATCH * LONGEST)]);
            if stream.is_readable {
                self.to_read.insert(key);
            }
            self.package(key, usize::MAX);
        }
    }

    /// Bytes that a stream may send now; if there are none, it goes on later.
    fn room(&mut self, key: usize) -> usize {
        let now = self.clock.ms();
        let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_ending) else { return 0 };
        let circuit = &mut self.circuits[stream.circuit];
        let room = if circuit.room() == 0 { 0 } else { stream.flow.room(now) };
        if room == 0 {
            circuit.is_blocked = true;
            if stream.flow.is_paced() {
                self.pace(key, now);
            }
        }
        room
    }

    /// Sends what was read of a stream, as far as there is room, at most so many cells; how many it was.
    fn package(&mut self, key: usize, most: usize) -> usize {
        for cells in 0..most {
            let Some(stream) = self.streams.get(key).filter(|stream| !stream.is_ending) else { return cells };
            if let Some(reason) = stream.end() {
                self.fail_stream(key, reason);
                return cells;
            }
            if !stream.has_to_say() {
                return cells;
            }
            let room = self.room(key);
            if room == 0 {
                return cells;
            }
            let stream = &mut self.streams[key];
            let part = stream.take(room.min(LONGEST));
            stream.flow.sent(part.len());
            let (circuit, number) = (stream.circuit, stream.number);
            self.say(circuit, message::Command::DATA, number, &part);
        }
        most
    }

    /// Lets a circuit's streams go on: each gets an equal part of what there is room for, and those that want more again, as in tor.
    pub(super) fn resume(&mut self, key: usize) {
        let Some(circuit) = self.circuits.get_mut(key) else { return };
        circuit.is_blocked = false;
        let mut streams = circuit.streams_by_turns();
        self.to_read.extend(streams.iter().filter(|stream| self.streams[**stream].is_readable));
        streams.retain(|stream| self.streams[*stream].has_to_say());
        while let Some(circuit) = self.circuits.get_mut(key).filter(|_| !streams.is_empty()) {
            let share = circuit.room().div_ceil(streams.len());
            if share == 0 {
                circuit.is_blocked = true;
                return;
            }
            streams.retain(|stream| self.package(*stream, share) == share);
        }
    }

    /// A stream waits until its rate lets it go on.
    fn pace(&mut self, key: usize, now_ms: u64) {
        if self.paced.is_empty() {
            self.paced_ms = now_ms + REFILL_MS;
        }
        self.paced.insert(key);
    }

    /// Lets streams with a rate go on if it is time to; returns when it is next.
    pub(super) fn go_on_by_rate(&mut self, now_ms: u64) -> Option<u64> {
        if self.paced_ms <= now_ms {
            for key in std::mem::take(&mut self.paced) {
                self.to_read.insert(key);
                self.package(key, usize::MAX);
            }
        }
        (!self.paced.is_empty()).then_some(self.paced_ms)
    }

    /// Ends a stream from this side.
    pub(super) fn fail_stream(&mut self, key: usize, reason: EndReason) {
        let stream = &self.streams[key];
        let (circuit, number, told) = (stream.circuit, stream.number, stream.is_ending);
        self.forget_stream(key);
        if !told {
            self.end(circuit, number, reason);
        }
    }

    pub(super) fn forget_stream(&mut self, key: usize) {
        let stream = &self.streams[key];
        let (number, told) = (stream.number, stream.is_ending);
        if let Some(circuit) = self.circuits.get_mut(stream.circuit).filter(|_| !told) {
            circuit.streams.remove(&number);
        }
        self.drop_stream(key);
    }

    pub(super) fn drop_stream(&mut self, key: usize) {
        let Some(mut stream) = self.streams.try_remove(key) else { return };
        self.stream_serials.remove(&key);
        self.held.remove(&key);
        if let Some(socket) = &mut stream.socket {
            let _ = self.poll.registry().deregister(socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tested;

    /// How many of so many questions on a circuit are open, and how many were refused.
    fn asked(options: &[&str], questions: u16) -> (usize, u64) {
        let mut tested = Tested::new(options);
        let channel = tested.channel();
        tested.open(channel);
        let circuit = tested.circuit(channel, 1);
        (1..=questions).for_each(|number| tested.relay.begin_directory(circuit, number));
        assert_eq!(tested.relay.circuits[circuit].streams.len(), tested.relay.streams.len());
        (tested.relay.streams.len(), tested.relay.usage.refused_streams)
    }

    #[test]
    fn questions_to_the_directory_are_bounded_by_the_circuit_and_by_sockets() {
        assert_eq!(asked(&[], 40), (super::MOST_QUESTIONS, 8));
        // Nine of the 32 are something else.
        assert_eq!(asked(&["--ConnLimit", "32"], 40), (23, 17));
    }
}
