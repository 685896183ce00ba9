//! Circuits: built ahead and on demand, by one handshake with each hop; their cells; their end.

use super::{Client, Due};
use crate::choice::{self, are_close};
use crate::circuit::{Circuit, Hop, Outgoing, Owner, Purpose};
use crate::network::Relay;
use crate::socks::Isolation;
use onion::cell::{BODY, Cell, Command};
use onion::circuit::message::{self, DestroyReason, Message};
use onion_program::clock::since_1970;
use onion_program::log;
use rand_core::RngCore;

/// Circuits that are kept clean and ready for each port that was asked for (tor's `MIN_CIRCUITS_HANDLING_STREAM`), and for how long after
/// it was asked for (`PredictedPortsRelevanceTime`), in milliseconds.
const CLEAN: usize = 2;
const PREDICTED_MS: u64 = 3_600_000;
/// How long a clean circuit is kept: from so long to twice as long, as in tor (`CircuitsAvailableTimeout`).
const AVAILABLE_MS: u64 = 1_800_000;
/// Circuits that may come to nothing within a second before no more are tried in it.
const MOST_FAILURES: u32 = 5;

impl Client {
    /// A path for programs' streams to a port: exit, guard, middle relay, as tor chooses them.
    fn path(&mut self, port: u16) -> Option<[Relay; 3]> {
        let now_ms = self.clock.ms();
        let distinct = self.settings.distinct_subnets;
        let current = self.network.usable(since_1970().as_secs())?;
        let Some(exit) = choice::exit(current, port, &mut self.random) else {
            let valid_after_s = current.valid_after_s;
            self.say_exitless(valid_after_s, port);
            return None;
        };
        let guard = if self.settings.keeps_guards {
            let chosen = self.guards.choose(&self.network, Some(exit), distinct, now_ms, &mut self.random);
            chosen.inspect_err(|error| log::warn(error)).ok()??
        } else {
            choice::draw(current, choice::Position::Guard, &mut self.random, |relay| {
                choice::is_possible_guard(relay) && !are_close(relay, exit, distinct)
            })?
        };
        let middle = choice::middle(current, &[guard, exit], distinct, &mut self.random)?;
        Some([guard, middle, exit].map(Relay::clone))
    }

    /// Says, once for each consensus, why streams to a port wait.
    fn say_exitless(&mut self, valid_after_s: u64, port: u16) {
        if self.exitless.replace((valid_after_s, port)) != Some((valid_after_s, port)) {
            log::notice(format_args!(
                "No relay of the consensus lets streams out to port {port}; the next consensus may have one."
            ));
        }
    }

    /// Begins a circuit for streams to a port; whose it will be, if that is known.
    pub(super) fn launch(&mut self, port: u16, isolation: Option<Isolation>) -> bool {
        let now = self.clock.ms();
        if self.failures.0 == now / 1000 && self.failures.1 >= MOST_FAILURES {
            self.ask_for_second();
            return false;
        }
        let pending = self.circuits.values().filter(|one| one.purpose == Purpose::General && !one.is_open);
        if pending.count() >= self.settings.most_pending {
            return false;
        }
        let Some(path) = self.path(port) else { return false };
        let hops = path.iter().map(|relay| self.hop(relay)).collect();
        let [_, _, exit] = path;
        match self.add_circuit(Purpose::General, hops, Some(Box::new(exit))) {
            Some(serial) => {
                self.circuits.get_mut(&serial).expect("just added").isolation = isolation;
                true
            }
            None => {
                self.note_failure();
                false
            }
        }
    }

    /// A circuit over these hops; begins at once if the channel is there.
    pub(super) fn add_circuit(&mut self, purpose: Purpose, hops: Vec<Hop>, exit: Option<Box<Relay>>) -> Option<u64> {
        let channel = self.channel_to(&hops[0])?;
        self.add_circuit_on(channel, purpose, hops, exit)
    }

    /// The same over a channel to the first hop.
    pub(super) fn add_circuit_on(
        &mut self,
        channel_serial: u64,
        purpose: Purpose,
        hops: Vec<Hop>,
        exit: Option<Box<Relay>>,
    ) -> Option<u64> {
        let now = self.clock.ms();
        let serial = self.fresh_serial();
        self.circuits.insert(serial, Box::new(Circuit::new(purpose, channel_serial, hops, exit, now)));
        self.timers.set(now + self.settings.build_timeout_ms, Due::Circuit(serial));
        let channel = self.channels.get_mut(&channel_serial).expect("just found");
        if channel.is_open() {
            self.begin_circuit(serial);
        } else {
            channel.waiting.push(serial);
        }
        self.circuits.contains_key(&serial).then_some(serial)
    }

    /// Its channel is there.
    pub(super) fn begin_circuit(&mut self, serial: u64) {
        let Some(circuit) = self.circuits.get_mut(&serial) else { return };
        let Some(channel) = self.channels.get_mut(&circuit.channel) else { return };
        match channel.fresh_id() {
            Some(id) => {
                circuit.id = Some(id);
                channel.circuits.insert(id, serial);
                self.go_on(serial);
            }
            None => self.close_circuit(serial, false, "no circuit id is free"),
        }
    }

    /// Sends the handshake with the next hop, or finds the circuit complete.
    fn go_on(&mut self, serial: u64) {
        let random = self.random();
        let fill = &mut self.random;
        let Some(circuit) = self.circuits.get_mut(&serial) else { return };
        if circuit.has_puzzle() && self.puzzles.is_busy() {
            return self.puzzles.wait(serial);
        }
        let now_s = since_1970().as_secs();
        match circuit.go_on(random, now_s, |bytes| fill.fill_bytes(bytes)) {
            Some(outgoing) if outgoing.attempts > 0 => {
                // Computing takes no time in a simulation.
                let takes_ms = outgoing.attempts.saturating_mul(1000) / self.settings.puzzle_rate;
                self.puzzles.solving = Some((serial, outgoing));
                self.timers.set(self.clock.ms() + takes_ms, Due::Puzzle);
            }
            Some(outgoing) => self.send_handshake(serial, &outgoing),
            None => self.complete(serial),
        }
    }

    fn send_handshake(&mut self, serial: u64, outgoing: &Outgoing) {
        let Some(circuit) = self.circuits.get(&serial) else { return };
        let (channel, id) = (circuit.channel, circuit.id.expect("it has begun"));
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.send(id, outgoing.command, &outgoing.body);
        }
        self.to_write.insert(channel);
    }

    /// A puzzle is solved, and the next can be looked at.
    pub(super) fn puzzle_solved(&mut self) {
        if let Some((serial, outgoing)) = self.puzzles.solving.take() {
            self.send_handshake(serial, &outgoing);
        }
        while let Some(serial) = self.puzzles.next() {
            self.go_on(serial);
        }
    }

    /// A relay as a circuit's hop.
    pub(super) fn hop(&self, relay: &Relay) -> Hop {
        Hop::from(relay).asking_for(self.settings.puzzle_of(&relay.entry.nickname))
    }

    fn complete(&mut self, serial: u64) {
        match self.circuits[&serial].purpose {
            Purpose::General => {
                self.say_progress(100, "done", "Done");
                self.must_assign = true;
                let more = choice::below(AVAILABLE_MS, &mut self.random);
                self.timers.set(self.clock.ms() + AVAILABLE_MS + more, Due::Circuit(serial));
            }
            Purpose::Directory => self.advance_directory(),
            Purpose::Attack => self.attack_circuit_built(serial),
        }
    }

    pub(super) fn cell(&mut self, channel: u64, cell: &Cell<'_>) {
        let found = self.channels.get(&channel).and_then(|channel| channel.circuits.get(&cell.circuit));
        // Cells of a circuit that has just ended are still on their way.
        let Some(serial) = found.copied() else { return };
        match cell.command {
            Command::CREATED_FAST | Command::CREATED2 => self.answered(serial, cell.command, cell.body),
            Command::RELAY => {
                if let Ok(body) = cell.body.try_into() {
                    self.relay(serial, body);
                }
            }
            Command::DESTROY => self.close_circuit(serial, false, "ended by a relay"),
            // Padding.
            _ => {}
        }
    }

    fn answered(&mut self, serial: u64, command: Command, body: &[u8]) {
        match self.circuits.get_mut(&serial).expect("it has a channel").answered(command, body) {
            Ok(()) => self.go_on(serial),
            Err(why) => {
                log::notice(format_args!("A circuit is closed for {why}."));
                self.close_circuit(serial, true, &why);
            }
        }
    }

    fn relay(&mut self, serial: u64, mut body: [u8; BODY]) {
        let circuit = self.circuits.get_mut(&serial).expect("it has a channel");
        let result = match circuit.open(&mut body) {
            Some((hop, digest)) => match Message::read(&body) {
                Some(message) => self.message(serial, hop, &message, &digest),
                None => Err("a message that is longer than its cell"),
            },
            // What an attack's silent circuits are told.
            None if circuit.purpose == Purpose::Attack => Ok(()),
            None => Err("a cell of nobody"),
        };
        if let Err(why) = result {
            log::notice(format_args!("A circuit is closed for {why}."));
            self.close_circuit(serial, true, why);
        }
    }

    fn message(
        &mut self,
        serial: u64,
        hop: usize,
        message: &Message<'_>,
        digest: &[u8; 20],
    ) -> Result<(), &'static str> {
        use message::Command as M;
        let circuit = self.circuits.get_mut(&serial).expect("just read");
        if hop != circuit.last_hop() {
            // Relays on the way may say that it is over, or pad.
            return match message.command {
                M::TRUNCATED => Err("a relay that could not go on"),
                M::DROP => Ok(()),
                _ => Err("a message of another relay than the last"),
            };
        }
        let owner = circuit.streams.get(&message.stream).copied();
        match message.command {
            M::EXTENDED2 => self.answered(serial, Command::CREATED2, message.body),
            M::TRUNCATED if !circuit.is_open => self.close_circuit(serial, true, "a relay could not be reached"),
            M::TRUNCATED => self.close_circuit(serial, true, "a relay has gone"),
            M::SENDME if message.stream == 0 => circuit.allow(message.body)?,
            M::DATA => {
                if let Some(body) = circuit.deliver(digest) {
                    self.say(serial, M::SENDME, 0, &body);
                }
                match owner {
                    Some(Owner::Program(stream)) => self.stream_data(stream, message.body)?,
                    Some(Owner::Fetch(fetch)) => self.fetch_data(fetch, message.body)?,
                    Some(Owner::Nobody) | None => {}
                }
            }
            M::CONNECTED | M::END | M::SENDME => match owner {
                Some(Owner::Program(stream)) => self.stream_message(stream, message)?,
                Some(Owner::Fetch(fetch)) => self.fetch_message(fetch, message),
                Some(Owner::Nobody) => self.attack_stream_message(serial, message),
                None => {}
            },
            _ => {}
        }
        Ok(())
    }

    /// Sends a message to a circuit's last hop.
    pub(super) fn say(&mut self, serial: u64, command: message::Command, stream: u16, body: &[u8]) {
        let Some(circuit) = self.circuits.get_mut(&serial) else { return };
        let random = &mut self.random;
        let body = circuit.seal(&Message { command, stream, body }, |filling| random.fill_bytes(filling));
        let (channel, Some(id)) = (circuit.channel, circuit.id) else { return };
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.send(id, Command::RELAY, &body);
        }
        self.to_write.insert(channel);
    }

    /// Ends a circuit; what was on it ends too, or looks for another.
    pub(super) fn close_circuit(&mut self, serial: u64, tell: bool, why: &str) {
        let Some(circuit) = self.circuits.remove(&serial) else { return };
        if let Some(channel) = self.channels.get_mut(&circuit.channel) {
            channel.waiting.retain(|waiting| *waiting != serial);
            if let Some(id) = circuit.id {
                channel.circuits.remove(&id);
                if tell {
                    channel.send(id, Command::DESTROY, &[DestroyReason::None as u8]);
                    self.to_write.insert(circuit.channel);
                }
            }
            self.left(circuit.channel);
        }
        if !circuit.is_open && circuit.purpose == Purpose::General {
            self.note_failure();
        }
        for owner in circuit.streams.values() {
            match owner {
                Owner::Program(stream) => self.circuit_gone(*stream),
                Owner::Fetch(fetch) => drop(self.fetches.remove(fetch)),
                Owner::Nobody => {}
            }
        }
        match circuit.purpose {
            Purpose::General => {
                self.must_assign = true;
                self.ask_for_second();
            }
            Purpose::Directory => self.directory_gone(serial, why),
            Purpose::Attack => self.attack_circuit_gone(),
        }
    }

    fn note_failure(&mut self) {
        let second = self.clock.ms() / 1000;
        if self.failures.0 != second {
            self.failures = (second, 0);
        }
        self.failures.1 += 1;
    }

    /// Something is due by a circuit's age.
    pub(super) fn check_circuit(&mut self, serial: u64) {
        let now = self.clock.ms();
        let Some(circuit) = self.circuits.get(&serial) else { return };
        if !circuit.is_open && now >= circuit.began_ms + self.settings.build_timeout_ms {
            return self.close_circuit(serial, true, "it was not built in time");
        }
        let is_general = circuit.is_open && circuit.purpose == Purpose::General && circuit.streams.is_empty();
        let is_worn = circuit.is_worn(self.settings.dirtiness_ms, now) || circuit.is_retired;
        let is_old = circuit.dirty_ms.is_none() && now >= circuit.began_ms + AVAILABLE_MS;
        if is_general && (is_worn || is_old) {
            self.close_circuit(serial, true, "nobody needs it");
        }
    }

    /// The next look at what is to be built ahead comes with the next second.
    pub(super) fn ask_for_second(&mut self) {
        if self.second_ms.is_none() {
            let at = (self.clock.ms() / 1000 + 1) * 1000;
            self.second_ms = Some(at);
            self.timers.set(at, Due::Second);
        }
    }

    /// Builds one circuit ahead if too few are clean for some port, as tor does each second.
    pub(super) fn second(&mut self) {
        self.second_ms = None;
        self.must_assign = true;
        let now = self.clock.ms();
        self.ports.retain(|_, asked| *asked + PREDICTED_MS > now);
        let ports: Vec<u16> = self.ports.keys().copied().collect();
        for port in ports {
            let lets_out = |exit: &Option<Box<Relay>>| exit.as_ref().is_some_and(|exit| choice::lets_out(exit, port));
            let ready = self.circuits.values().filter(|circuit| circuit.is_clean() && lets_out(&circuit.exit));
            if ready.count() < CLEAN {
                self.launch(port, None);
                return self.ask_for_second();
            }
        }
    }
}
