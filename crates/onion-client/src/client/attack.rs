//! The attacks of `docs/attacks.md`: circuits, streams and cells that use up what the victim has.

use super::{Client, Due};
use crate::attack::{Attack, CELL_EVERY_MS, Kind};
use crate::channel::Channel;
use crate::choice::{self, Position};
use crate::circuit::{Hop, Owner, Purpose};
use crate::network::Relay;
use mio::net::TcpStream;
use onion::circuit::message::{self, Message};
use onion_program::clock::since_1970;
use onion_program::log;
use std::net::SocketAddr;

/// Streams that share a circuit.
const STREAMS_EACH: usize = 50;
/// Turns in which active circuits send, so that their cells do not come all at once.
const TURNS: u64 = 10;
/// While nothing is known of the network, how soon to look again, in milliseconds.
const AGAIN_MS: u64 = 1000;

pub struct Attacker {
    wanted: Attack,
    /// The relays on both sides of the victim, where they stay the same.
    beside: Option<(Relay, Relay)>,
    /// Streams that are still to begin, on circuits that are not yet built.
    to_begin: usize,
    next_turn: u64,
    next_round_ms: u64,
    is_over: bool,
    begun: u64,
    built: u64,
    failed: u64,
    streams: u64,
    /// Connections on which nothing is said.
    silent: Vec<TcpStream>,
    /// Channels that would not be there without it.
    channels: Vec<u64>,
}

impl Attacker {
    pub fn new(wanted: Attack) -> Attacker {
        let next_round_ms = wanted.start_ms;
        Attacker {
            wanted,
            beside: None,
            to_begin: 0,
            next_turn: 0,
            next_round_ms,
            is_over: false,
            begun: 0,
            built: 0,
            failed: 0,
            streams: 0,
            silent: Vec::new(),
            channels: Vec::new(),
        }
    }
}

impl Client {
    pub(super) fn begin_attack(&mut self) {
        if let Some(attacker) = &self.attacker {
            self.timers.set(attacker.wanted.start_ms, Due::Attack);
            self.timers.set(attacker.wanted.stop_ms, Due::Attack);
        }
    }

    /// What is due of it.
    pub(super) fn attack(&mut self) {
        let now = self.clock.ms();
        let Some(attacker) = &self.attacker else { return };
        if attacker.is_over || now < attacker.wanted.start_ms {
            return;
        }
        if now >= attacker.wanted.stop_ms {
            return self.end_attack();
        }
        if attacker.wanted.kind == Kind::Active {
            self.send_turn();
        }
        if now >= self.attacker.as_ref().expect("just looked").next_round_ms {
            self.round(now);
        }
        let Some(Attacker { wanted, next_round_ms, .. }) = &self.attacker else { return };
        let next = if wanted.kind == Kind::Active { now + CELL_EVERY_MS / TURNS } else { *next_round_ms };
        self.timers.set(next, Due::Attack);
    }

    /// Begins as many as are due, if the network is known.
    fn round(&mut self, now: u64) {
        let Some(attacker) = &mut self.attacker else { return };
        let Attack { kind, count, every_ms, victim, .. } = attacker.wanted.clone();
        attacker.next_round_ms = now + AGAIN_MS;
        if self.network.usable(since_1970().as_secs()).is_none() {
            return;
        }
        attacker.next_round_ms = now + every_ms;
        let Some(victim) = self.network.named(&victim).cloned() else {
            return log::warn(format_args!("Attack: the consensus has no relay {victim}"));
        };
        let circuits = if kind == Kind::Streams { count.div_ceil(STREAMS_EACH) } else { count };
        if kind == Kind::Streams {
            attacker.to_begin += count;
        }
        (0..circuits).for_each(|_| self.attack_by_circuit(kind, &victim));
        self.tell_attack(&victim);
    }

    fn attack_by_circuit(&mut self, kind: Kind, victim: &Relay) {
        let Some((before, behind)) = self.beside(kind, victim) else { return };
        let attacker = self.attacker.as_mut().expect("it attacks");
        attacker.begun += 1;
        let path = match kind {
            Kind::Handshakes => {
                let address = SocketAddr::from((victim.entry.address, victim.entry.or_port));
                return match TcpStream::connect(address) {
                    Ok(silent) => attacker.silent.push(silent),
                    Err(_) => attacker.failed += 1,
                };
            }
            Kind::Circuits | Kind::Active => vec![&before, victim, &behind],
            Kind::Sybils => vec![victim],
            Kind::Streams => vec![&before, &behind, victim],
        };
        // Long ones go through the same three again and again.
        let length = if kind == Kind::Circuits { attacker.wanted.hops } else { path.len() };
        let hops: Vec<Hop> = path.into_iter().cycle().take(length).map(|relay| self.hop(relay)).collect();
        let known = self.serial;
        let channel = if kind == Kind::Sybils { self.connect(&hops[0]) } else { self.channel_to(&hops[0]) };
        if let (Some(channel), Some(attacker)) = (channel.filter(|channel| *channel > known), &mut self.attacker) {
            attacker.channels.push(channel);
        }
        let begun = channel.and_then(|channel| self.add_circuit_on(channel, Purpose::Attack, hops, None));
        if begun.is_none() {
            self.attack_circuit_gone();
        }
    }

    /// Two other relays: others each time, except that circuits that are to count as active are of one channel, whose share they raise.
    fn beside(&mut self, kind: Kind, victim: &Relay) -> Option<(Relay, Relay)> {
        let attacker = self.attacker.as_mut()?;
        if let Some(beside) = attacker.beside.clone() {
            return Some(beside);
        }
        let current = self.network.current.as_ref()?;
        let is_other = |relay: &Relay, not: &Relay| relay.entry.fingerprint != not.entry.fingerprint;
        let before = choice::draw(current, Position::Middle, &mut self.random, |relay| is_other(relay, victim))?;
        let behind = choice::draw(current, Position::Middle, &mut self.random, |relay| {
            is_other(relay, victim) && is_other(relay, before)
        })?;
        let beside = (before.clone(), behind.clone());
        if kind == Kind::Active {
            attacker.beside = Some(beside.clone());
        }
        Some(beside)
    }

    fn tell_attack(&self, victim: &Relay) {
        let Some(attacker) = &self.attacker else { return };
        let Attacker { begun, built, failed, streams, .. } = attacker;
        log::notice(format_args!(
            "Attack on {}: {begun} circuits begun, {built} built, {failed} failed or ended; {streams} streams",
            victim.entry.nickname
        ));
    }

    pub(super) fn attack_circuit_built(&mut self, serial: u64) {
        let Some(attacker) = &mut self.attacker else { return };
        attacker.built += 1;
        match attacker.wanted.kind {
            Kind::Circuits | Kind::Sybils => self.circuits.get_mut(&serial).expect("just built").fall_silent(),
            Kind::Active | Kind::Handshakes => {}
            Kind::Streams => {
                let streams = attacker.to_begin.min(STREAMS_EACH);
                attacker.to_begin -= streams;
                let begin = attacker.wanted.place().map(|(host, port)| message::begin(host, port));
                for _ in 0..streams {
                    let circuit = self.circuits.get_mut(&serial).expect("just built");
                    let (Some(number), Some(begin)) = (circuit.fresh_stream(Owner::Nobody), &begin) else { return };
                    self.say(serial, message::Command::BEGIN, number, begin);
                }
            }
        }
    }

    /// One came to nothing, or was ended by others.
    pub(super) fn attack_circuit_gone(&mut self) {
        if let Some(attacker) = self.attacker.as_mut().filter(|attacker| !attacker.is_over) {
            attacker.failed += 1;
        }
    }

    /// What an exit says of streams that are to stay idle.
    pub(super) fn attack_stream_message(&mut self, serial: u64, message: &Message<'_>) {
        let Some(attacker) = &mut self.attacker else { return };
        match message.command {
            message::Command::CONNECTED => attacker.streams += 1,
            message::Command::END => {
                attacker.streams = attacker.streams.saturating_sub(1);
                if let Some(circuit) = self.circuits.get_mut(&serial) {
                    circuit.streams.remove(&message.stream);
                }
            }
            _ => {}
        }
    }

    /// Each circuit sends a cell in its turn, to its last relay, which drops it.
    fn send_turn(&mut self) {
        let attacker = self.attacker.as_mut().expect("it attacks");
        let turn = attacker.next_turn;
        attacker.next_turn = (turn + 1) % TURNS;
        let is_its = |serial: &u64| serial % TURNS == turn;
        let of_attack = self
            .circuits
            .iter()
            .filter(|(serial, circuit)| circuit.purpose == Purpose::Attack && circuit.is_open && is_its(serial));
        let serials: Vec<u64> = of_attack.map(|(serial, _)| *serial).collect();
        for serial in serials {
            self.say(serial, message::Command::DROP, 0, &[]);
        }
    }

    /// Gives all of it up.
    fn end_attack(&mut self) {
        let victim = self.attacker.as_mut().map(|attacker| {
            attacker.is_over = true;
            attacker.silent.clear();
            attacker.wanted.victim.clone()
        });
        if let Some(victim) = victim.and_then(|victim| self.network.named(&victim).cloned()) {
            self.tell_attack(&victim);
        }
        log::notice("Attack: it is over.");
        let of_attack = self.circuits.iter().filter(|(_, circuit)| circuit.purpose == Purpose::Attack);
        let serials: Vec<u64> = of_attack.map(|(serial, _)| *serial).collect();
        for serial in serials {
            self.close_circuit(serial, true, "the attack is over");
        }
        self.close_attack_channels();
    }

    /// Closes the attack's channels, also those whose circuits have ended before, and of those that were not a sybil's alone the ones that
    /// nothing else of this client uses by now.
    fn close_attack_channels(&mut self) {
        let Some(attacker) = &mut self.attacker else { return };
        let (channels, kind) = (std::mem::take(&mut attacker.channels), attacker.wanted.kind);
        for serial in channels {
            let is_idle = |channel: &Channel| channel.circuits.is_empty() && channel.waiting.is_empty();
            if kind == Kind::Sybils || self.channels.get(&serial).is_some_and(|channel| is_idle(channel)) {
                self.close_channel(serial, "the attack is over");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::{network, relay};
    use crate::settings::Settings;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn channels_go_with_the_attack_that_opened_them() {
        let (folder, listener) = (tempfile::TempDir::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let here = |number| {
            relay(number, |entry, _| {
                (entry.address, entry.or_port) = (Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
            })
        };
        for kind in [Kind::Sybils, Kind::Circuits] {
            let attack = Some(Attack { kind, ..Attack::default() });
            let data_directory = folder.path().to_owned();
            let settings = Settings { socks: None, data_directory, attack, ..Settings::default() };
            let mut client = Client::new(settings).unwrap();
            client.network = network((1..=4).map(here).collect());
            let own = client.connect(&client.hop(&here(9))).unwrap();
            (0..3).for_each(|_| client.attack_by_circuit(kind, &here(1)));
            let serials: Vec<u64> = client.circuits.keys().copied().collect();
            assert!(serials.len() == 3 && client.channels.len() > 1);
            // Nobody has answered in time.
            client.close_circuit(serials[0], true, "it was not built in time");
            client.end_attack();
            assert_eq!(client.channels.keys().collect::<Vec<_>>(), [&own], "{kind:?}");
        }
    }
}
