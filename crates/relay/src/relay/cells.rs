//! Cells of circuits: making and ending them, and what goes through.

use super::Relay;
use crate::circuit::{Circuit, Side};
use crate::clock::since_1970;
use crate::connection::Came;
use crate::flow::CircuitFlow;
use crate::log;
use crate::own::Own;
use onion::cell::{BODY, CircuitId, Command};
use onion::circuit::message::{self, DestroyReason, LONGEST, Message};
use onion::handshake::extensions::{Request, Response};
use onion::handshake::{HopKeys, Kind, fast, ntor, ntor_v3, puzzle};
use onion::link::private::{self, Label};
use rand_core::RngCore;
use std::net::IpAddr;

impl Relay {
    /// A cell that came for a circuit of this channel, put in order first where several connections make it.
    pub(super) fn circuit_cell(&mut self, key: usize, came: Came) {
        let Some(channel) = self.channels.get_mut(key) else { return };
        let is_theirs = channel.is_theirs(came.circuit);
        let (Some(numbered), Some(number)) = (&mut channel.numbered, came.number) else { return self.cell(key, came) };
        let mut in_order = Vec::new();
        let what = (came.command, came.body);
        if let Err(disorder) = numbered.order.receive(came.circuit, is_theirs, number, what, &mut in_order) {
            log::warn(format_args!("A channel to a relay is closed for {disorder}."));
            return self.close_channel(key, &disorder.to_string());
        }
        for (command, body) in in_order {
            self.cell(key, Came { circuit: came.circuit, command, number: None, body });
        }
    }

    fn cell(&mut self, key: usize, came: Came) {
        match came.command {
            Command::CREATE_FAST | Command::CREATE2 => self.answer_create(key, &came),
            Command::CREATED2 => self.created(key, &came),
            Command::RELAY | Command::RELAY_EARLY => self.relay(key, came),
            Command::DESTROY => self.destroyed(key, &came),
            private::LABEL => {
                // Only relays of ours are believed.
                let channel = self.channels.get(key).filter(|channel| channel.numbered.is_some());
                let found = channel.and_then(|channel| channel.circuits.get(&came.circuit)).copied();
                if let (Some((circuit, Side::Client)), Some(label)) = (found, Label::read(&came.body[..])) {
                    self.labelled(circuit, label);
                }
            }
            // Padding, and what tor may say that changes nothing here.
            _ => {}
        }
    }

    fn answer_create(&mut self, key: usize, came: &Came) {
        let Some(channel) = self.channels.get(key) else { return };
        if let Some((circuit, _)) = channel.circuits.get(&came.circuit) {
            return self.close_circuit(*circuit, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        }
        if self.farewell_ms.is_some() {
            return self.destroy(key, came.circuit, DestroyReason::Hibernating);
        }
        if self.refuses_circuit(key) {
            return self.destroy(key, came.circuit, DestroyReason::ResourceLimit);
        }
        let Some(channel) = self.channels.get(key) else { return };
        let label = match (channel.peer, channel.address.ip()) {
            (None, IpAddr::V4(address)) => self.settings.labels.get(&address).copied(),
            _ => None,
        };
        let answer = if channel.is_theirs(came.circuit) { self.handshake(came) } else { None };
        let Some((command, body, keys, flow)) = answer else {
            return self.destroy(key, came.circuit, DestroyReason::Protocol);
        };
        let mut made = Circuit::new((key, came.circuit), &keys, flow);
        (made.label, made.used_ms) = (label, self.clock.ms());
        made.is_fast = came.command == Command::CREATE_FAST;
        let circuit = self.circuits.insert(made);
        let serial = self.fresh_serial();
        self.circuit_serials.insert(circuit, serial);
        self.channels[key].circuits.insert(came.circuit, (circuit, Side::Client));
        self.pin(key, came.circuit);
        self.send(key, (circuit, Side::Client), came.circuit, command, &body);
    }

    pub(super) fn create(&mut self, channel_key: usize, key: usize, create: &[u8]) {
        let channel = &mut self.channels[channel_key];
        let Some(id): Option<CircuitId> = channel.fresh_id() else {
            return self.close_circuit(key, Some(DestroyReason::ResourceLimit), None);
        };
        channel.circuits.insert(id, (key, Side::Exit));
        self.circuits[key].next = Some((channel_key, id));
        self.pin(channel_key, id);
        self.send(channel_key, (key, Side::Exit), id, Command::CREATE2, create);
        self.hand_label_on(key);
    }

    /// Sends a cell that makes a circuit: before those of other circuits, or where cells are numbered by its turn.
    fn send(&mut self, channel_key: usize, (key, side): (usize, Side), id: CircuitId, command: Command, body: &[u8]) {
        let channel = &self.channels[channel_key];
        if channel.numbered.is_some() {
            let mut whole = Box::new([0; BODY]);
            whole[..body.len()].copy_from_slice(body);
            return self.push(key, side, command, whole);
        }
        if let Some(connection) = channel.connections.first() {
            self.connections[*connection].put(id, command, None, body);
            self.to_write.insert(*connection);
        }
    }

    /// Tells the other end of a channel that a circuit is over.
    pub(super) fn destroy(&mut self, channel_key: usize, id: CircuitId, reason: DestroyReason) {
        let Some(channel) = self.channels.get_mut(channel_key) else { return };
        let pin = channel.numbered.as_ref().and_then(|numbered| numbered.pins.get(id));
        channel.remove_circuit(id);
        let is_usable = |key: &usize| self.connections.get(*key).is_some_and(|connection| connection.is_usable());
        let connection = pin.into_iter().chain(channel.connections.iter().copied()).find(is_usable);
        let (Some(connection), number) = (match &mut channel.numbered {
            None => (connection, None),
            Some(numbered) => {
                if connection.is_none() {
                    numbered.unsaid.push((id, reason));
                    return;
                }
                match numbered.order.send(id, Command::DESTROY) {
                    // It was said already.
                    None => return,
                    number => (connection, number),
                }
            }
        }) else {
            return;
        };
        self.connections[connection].put(id, Command::DESTROY, number, &[reason as u8]);
        self.to_write.insert(connection);
    }

    pub(super) fn handshake(&mut self, came: &Came) -> Option<(Command, Vec<u8>, HopKeys, CircuitFlow)> {
        let random = self.random();
        let Own { keys, identity, .. } = &self.own;
        if came.command == Command::CREATE_FAST {
            let ours = random[..fast::PART].try_into().expect("fewer than there are");
            let (body, keys) = fast::answer(came.body.first_chunk()?, ours);
            return Some((Command::CREATED_FAST, body.to_vec(), keys, CircuitFlow::fixed()));
        }
        let (kind, data) = message::read_create2(&came.body[..])?;
        let effort = self.settings.defences.puzzle_effort;
        let paid = match kind {
            puzzle::NUMBER => {
                self.puzzles.take(data, effort, since_1970().as_secs()).map(|request| (Kind::Ntor, request))
            }
            _ if effort > 0 => None,
            _ => Some((Kind::from_number(kind)?, data)),
        };
        let Some((kind, data)) = paid else {
            self.usage.refused_circuits += 1;
            return None;
        };
        let (answer, keys, flow) = match kind {
            Kind::Ntor => {
                let (answer, keys) = ntor::answer(data, &identity.rsa_fingerprint, keys.onion(), random).ok()?;
                (answer.to_vec(), keys, CircuitFlow::fixed())
            }
            Kind::NtorV3 => {
                let request = ntor_v3::Request::read(data, &identity.ed25519, keys.onion()).ok()?;
                let (flow, sendme_inc) = match Request::read(&request.message)?.congestion_control {
                    true => CircuitFlow::negotiate(&self.parameters.current),
                    false => (CircuitFlow::fixed(), None),
                };
                let (answer, keys) = request.answer(&Response { sendme_inc }.write(), random).ok()?;
                (answer, keys, flow)
            }
        };
        Some((Command::CREATED2, message::created2(&answer), keys, flow))
    }

    /// The next relay has answered.
    pub(super) fn created(&mut self, key: usize, came: &Came) {
        let found = self.channels.get(key).and_then(|channel| channel.circuits.get(&came.circuit)).copied();
        let Some((circuit, Side::Exit)) = found else { return };
        let Some(answer) = message::read_created2(&came.body[..]).filter(|answer| answer.len() + 2 <= LONGEST) else {
            return self.close_circuit(circuit, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        };
        if !std::mem::replace(&mut self.circuits[circuit].is_extending, false) {
            return self.close_circuit(circuit, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        }
        self.say(circuit, message::Command::EXTENDED2, 0, &message::created2(answer));
    }

    pub(super) fn relay(&mut self, key: usize, Came { circuit: id, command, mut body, .. }: Came) {
        let found = self.channels.get(key).and_then(|channel| channel.circuits.get(&id)).copied();
        // Cells of a circuit that has just ended are still on their way.
        let Some((key, side)) = found else { return };
        let now = if self.settings.defences.knows_use() { self.clock.ms() } else { 0 };
        let circuit = &mut self.circuits[key];
        circuit.used_ms = now.max(circuit.used_ms);
        if side == Side::Exit {
            circuit.layer.backward.crypt(&mut body);
            self.relayed_bytes += BODY as u64;
            return self.push(key, Side::Client, Command::RELAY, body);
        }
        circuit.early_cells += u32::from(command == Command::RELAY_EARLY);
        if self.settings.defences.relay_early.is_some_and(|most| circuit.early_cells > most) {
            log::notice("A circuit is closed for too many RELAY_EARLY cells.");
            self.usage.refused_circuits += 1;
            return self.close_circuit(key, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        }
        circuit.layer.forward.crypt(&mut body);
        if let Some(digest) = circuit.layer.forward.recognize(&body) {
            let result = match Message::read(&body) {
                Some(message) => self.message(key, command, &message, &digest),
                None => Err("a message that is longer than its cell"),
            };
            if let Err(why) = result {
                log::notice(format_args!("A circuit is closed for {why}."));
                self.close_circuit(key, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
            }
        } else if circuit.next.is_some() {
            self.relayed_bytes += if command == Command::RELAY { BODY as u64 } else { 0 };
            self.push(key, Side::Exit, command, body);
        } else {
            // For nobody.
            self.close_circuit(key, Some(DestroyReason::Protocol), None);
        }
    }

    pub(super) fn push(&mut self, key: usize, side: Side, command: Command, body: Box<[u8; BODY]>) {
        let circuit = &mut self.circuits[key];
        let Some((channel, _)) = circuit.end_at(side) else { return };
        match circuit.push(side, command, body) {
            Some(true) => {
                let recent = circuit.queue(side).recent;
                self.activate(channel, key, side, recent);
            }
            Some(false) => {}
            None => {
                log::notice("A circuit is closed for more cells than its windows allow.");
                self.close_circuit(key, Some(DestroyReason::ResourceLimit), Some(DestroyReason::ResourceLimit));
            }
        }
    }

    /// Sends a message of this relay's to the client.
    pub(super) fn say(&mut self, key: usize, command: message::Command, stream: u16, body: &[u8]) {
        // What was said before may have been too much, and have ended it.
        let Some(circuit) = self.circuits.get_mut(key) else { return };
        let random = &mut self.random;
        let message = Message { command, stream, body };
        let body = circuit.seal(&message, self.clock.us(), |filling| random.fill_bytes(filling));
        self.push(key, Side::Client, Command::RELAY, body);
    }

    fn destroyed(&mut self, key: usize, came: &Came) {
        let Some(channel) = self.channels.get_mut(key) else { return };
        let found = channel.remove_circuit(came.circuit);
        if channel.numbered.is_some() {
            // Both ends say it.
            self.destroy(key, came.circuit, DestroyReason::Destroyed);
        }
        match found {
            Some((circuit, Side::Client)) => self.close_circuit(circuit, None, Some(DestroyReason::Destroyed)),
            Some((circuit, Side::Exit)) => {
                self.write_soon(key);
                self.truncated(circuit, DestroyReason::Destroyed);
            }
            None => {}
        }
    }

    /// A channel's connection may have to be closed, or to write. One of several has been noted with what it has to write.
    pub(super) fn write_soon(&mut self, channel: usize) {
        if let Some(channel) = self.channels.get(channel).filter(|channel| channel.numbered.is_none()) {
            self.to_write.extend(&channel.connections);
        }
    }

    /// The circuit ends here now; its client may extend it elsewhere.
    pub(super) fn truncated(&mut self, key: usize, reason: DestroyReason) {
        let circuit = &mut self.circuits[key];
        circuit.next = None;
        circuit.queue(Side::Exit).cells.clear();
        circuit.queue(Side::Exit).is_active = false;
        if std::mem::replace(&mut circuit.is_extending, false) {
            return self.close_circuit(key, Some(reason), None);
        }
        self.say(key, message::Command::TRUNCATED, 0, &[reason as u8]);
    }

    /// Ends a circuit, with words for both sides where they are still to be told.
    pub(super) fn close_circuit(
        &mut self,
        key: usize,
        to_client: Option<DestroyReason>,
        to_exit: Option<DestroyReason>,
    ) {
        let Some(circuit) = self.circuits.try_remove(key) else { return };
        self.circuit_serials.remove(&key);
        for (end, reason) in [(Some(circuit.prev), to_client), (circuit.next, to_exit)] {
            let Some((channel_key, id)) = end else { continue };
            let Some(channel) = self.channels.get_mut(channel_key) else { continue };
            if channel.circuits.get(&id).is_some_and(|(circuit, _)| *circuit == key) {
                match reason {
                    Some(reason) => self.destroy(channel_key, id, reason),
                    None => drop(channel.remove_circuit(id)),
                }
                self.write_soon(channel_key);
            }
        }
        if circuit.is_extending {
            self.waits_no_more(key);
        }
        for stream in circuit.streams.values() {
            self.drop_stream(*stream);
        }
    }
}
