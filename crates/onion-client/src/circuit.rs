//! A circuit at its client: where it leads, how far it is built, its windows.

use crate::network::Relay;
use crate::socks::Isolation;
use onion::cell::{BODY, CircuitId, Command};
use onion::circuit::message::{self, Extend2, Message};
use onion::circuit::route::Route;
use onion::handshake::{Kind, fast, ntor, puzzle};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

/// Data cells that may be under way on a circuit, and how many one SENDME allows again (tor-spec, "Circuit-level flow control").
pub const CIRCUIT_WINDOW: u32 = 1000;
pub const CIRCUIT_STEP: u32 = 100;

/// A relay to which a circuit leads.
#[derive(Clone, Debug)]
pub struct Hop {
    pub address: SocketAddrV4,
    pub fingerprint: [u8; 20],
    pub ed25519: Option<[u8; 32]>,
    /// Of authorities that no consensus has named yet, nothing is known.
    onion_key: Option<[u8; 32]>,
    /// What a circuit must have cost; 0 for nothing.
    puzzle_effort: u32,
}

impl Hop {
    /// What torrc says of an authority.
    pub fn authority(address: SocketAddrV4, fingerprint: [u8; 20]) -> Hop {
        Hop { address, fingerprint, ed25519: None, onion_key: None, puzzle_effort: 0 }
    }

    /// A relay that asks for a puzzle's solution of this effort first.
    pub fn asking_for(mut self, puzzle_effort: u32) -> Hop {
        self.puzzle_effort = puzzle_effort;
        self
    }
}

impl From<&Relay> for Hop {
    fn from(relay: &Relay) -> Hop {
        Hop {
            address: SocketAddrV4::new(relay.entry.address, relay.entry.or_port),
            fingerprint: relay.entry.fingerprint,
            ed25519: relay.ed25519,
            onion_key: Some(relay.onion_key),
            puzzle_effort: 0,
        }
    }
}

/// What a circuit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Programs' streams.
    General,
    /// Questions to the directory, of one hop.
    Directory,
    Attack,
}

/// Whose a stream's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Program(u64),
    Fetch(u64),
    /// An attack's, of which nothing is expected.
    Nobody,
}

/// A handshake whose answer has not come.
enum Handshake {
    Fast([u8; fast::PART]),
    Ntor(Box<ntor::Client>),
}

pub struct Circuit {
    pub purpose: Purpose,
    pub channel: u64,
    /// None until the channel is open.
    pub id: Option<CircuitId>,
    /// Those that are still to be reached, the nearest first.
    ahead: VecDeque<Hop>,
    /// The relay from which streams leave.
    pub exit: Option<Box<Relay>>,
    route: Route,
    handshake: Option<Handshake>,
    /// A part of the attack that it is of needs no cell of it any more.
    pub is_open: bool,
    pub began_ms: u64,
    /// When its first stream was attached.
    pub dirty_ms: Option<u64>,
    /// Whose it is, once that is said.
    pub isolation: Option<Isolation>,
    /// It takes no more streams.
    pub is_retired: bool,
    pub streams: BTreeMap<u16, Owner>,
    next_stream: u16,
    /// Data cells that may still be sent.
    pub package: u32,
    /// Digests that its SENDMEs must name.
    expected: VecDeque<[u8; 20]>,
    /// Data cells since the last SENDME.
    delivered: u32,
}

/// A cell for the channel.
#[derive(Debug)]
pub struct Outgoing {
    pub command: Command,
    pub body: Vec<u8>,
    /// Attempts that a puzzle took.
    pub attempts: u64,
}

impl Circuit {
    pub fn new(purpose: Purpose, channel: u64, hops: Vec<Hop>, exit: Option<Box<Relay>>, now_ms: u64) -> Circuit {
        Circuit {
            purpose,
            channel,
            id: None,
            ahead: hops.into(),
            exit,
            route: Route::default(),
            handshake: None,
            is_open: false,
            began_ms: now_ms,
            dirty_ms: None,
            isolation: None,
            is_retired: false,
            streams: BTreeMap::new(),
            next_stream: 1,
            package: CIRCUIT_WINDOW,
            expected: VecDeque::new(),
            delivered: 0,
        }
    }

    /// Whether a stream of this isolation, to this port, may be on it; `until_ms` says until when after its first stream it takes others.
    pub fn takes(&self, isolation: &Isolation, port: u16, dirtiness_ms: u64, now_ms: u64) -> bool {
        self.purpose == Purpose::General
            && !self.is_retired
            && self.isolation.as_ref().is_none_or(|own| own == isolation)
            && !self.is_worn(dirtiness_ms, now_ms)
            && self.exit.as_ref().is_some_and(|exit| crate::choice::lets_out(exit, port))
    }

    /// Nobody has used it.
    pub fn is_clean(&self) -> bool {
        self.purpose == Purpose::General && self.isolation.is_none() && self.dirty_ms.is_none() && !self.is_retired
    }

    /// It has taken streams for so long that it takes no more.
    pub fn is_worn(&self, dirtiness_ms: u64, now_ms: u64) -> bool {
        self.dirty_ms.is_some_and(|dirty| now_ms >= dirty + dirtiness_ms)
    }

    /// The last hop, counted from 0.
    pub fn last_hop(&self) -> usize {
        self.route.hops().saturating_sub(1)
    }

    /// Whether the next hop asks for a puzzle's solution.
    pub fn has_puzzle(&self) -> bool {
        self.ahead.front().is_some_and(|hop| hop.puzzle_effort > 0)
    }

    /// The cell that goes on to the next hop; nothing when all are reached. `random` is for its handshake.
    pub fn go_on(&mut self, random: [u8; 32], now_s: u64, fill: impl FnOnce(&mut [u8])) -> Option<Outgoing> {
        let hop = self.ahead.pop_front()?;
        let Some(onion_key) = hop.onion_key else {
            // For a first hop alone: TLS protects it.
            let part: [u8; fast::PART] = random[..fast::PART].try_into().expect("fewer than there are");
            self.handshake = Some(Handshake::Fast(part));
            return Some(Outgoing { command: Command::CREATE_FAST, body: part.to_vec(), attempts: 0 });
        };
        let (client, request) = ntor::Client::begin(ntor::Relay { fingerprint: hop.fingerprint, onion_key }, random);
        self.handshake = Some(Handshake::Ntor(Box::new(client)));
        let (kind, data, attempts) = match hop.puzzle_effort {
            0 => (Kind::Ntor.number(), request.to_vec(), 0),
            effort => {
                let (solved, attempts) = puzzle::solve(&request, effort, now_s);
                (puzzle::NUMBER, solved.to_vec(), attempts)
            }
        };
        if self.route.hops() == 0 {
            return Some(Outgoing { command: Command::CREATE2, body: message::create2(kind, &data), attempts });
        }
        let extend = Extend2 {
            addresses: vec![((*hop.address.ip()).into(), hop.address.port())],
            fingerprint: hop.fingerprint,
            ed25519: hop.ed25519,
            handshake: kind,
            data,
        };
        let message = Message { command: message::Command::EXTEND2, stream: 0, body: &extend.write() };
        let (body, _) = self.route.seal(self.route.hops() - 1, &message, fill);
        Some(Outgoing { command: Command::RELAY_EARLY, body: body.to_vec(), attempts })
    }

    /// The answer of a hop: CREATED_FAST's or CREATED2's body, or EXTENDED2's.
    pub fn answered(&mut self, command: Command, body: &[u8]) -> Result<(), String> {
        let refused = |refused| format!("{refused}");
        let keys = match (self.handshake.take(), command) {
            (Some(Handshake::Fast(ours)), Command::CREATED_FAST) => fast::finish(&ours, body).map_err(refused)?,
            (Some(Handshake::Ntor(client)), Command::CREATED2) => {
                let answer = message::read_created2(body).ok_or("an answer that cannot be read")?;
                client.finish(answer).map_err(refused)?
            }
            _ => return Err("an answer to nothing".to_owned()),
        };
        self.route.add(&keys);
        if self.ahead.is_empty() {
            self.is_open = true;
        }
        Ok(())
    }

    /// Decrypts a cell; its hop and digest, or nothing if it is of none.
    pub fn open(&mut self, body: &mut [u8; BODY]) -> Option<(usize, [u8; 20])> {
        self.route.open(body)
    }

    /// A cell with a message for its last hop.
    pub fn seal(&mut self, message: &Message<'_>, fill: impl FnOnce(&mut [u8])) -> [u8; BODY] {
        let (body, digest) = self.route.seal(self.last_hop(), message, fill);
        if message.command == message::Command::DATA {
            self.package -= 1;
            if self.package.is_multiple_of(CIRCUIT_STEP) {
                self.expected.push_back(digest);
            }
        }
        body
    }

    /// Forgets what only cells need: an attack's circuits are many, and say nothing more.
    pub fn fall_silent(&mut self) {
        (self.route, self.exit) = (Route::default(), None);
    }

    /// A stream's number that is free; nothing if all are taken.
    pub fn fresh_stream(&mut self, owner: Owner) -> Option<u16> {
        for _ in 0..=self.streams.len() {
            let number = self.next_stream;
            self.next_stream = self.next_stream.checked_add(1).unwrap_or(1);
            if let Entry::Vacant(place) = self.streams.entry(number) {
                place.insert(owner);
                return Some(number);
            }
        }
        None
    }

    /// Counts a data cell of the exit; when a SENDME is due, its body.
    pub fn deliver(&mut self, digest: &[u8; 20]) -> Option<[u8; 23]> {
        self.delivered += 1;
        if self.delivered == CIRCUIT_STEP {
            self.delivered = 0;
            return Some(message::sendme(digest));
        }
        None
    }

    /// A SENDME of the exit, which must name the cell that made it due.
    pub fn allow(&mut self, body: &[u8]) -> Result<(), &'static str> {
        let expected = self.expected.pop_front().ok_or("a SENDME that was not due")?;
        if message::read_sendme(body) != Some(expected) {
            return Err("a SENDME that names another cell");
        }
        self.package += CIRCUIT_STEP;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::tests::relay;
    use onion::circuit::layer::Layer;
    use onion::directory::Ports;

    /// A circuit of one hop that has just been built, and the relay's end.
    fn built() -> (Circuit, Layer) {
        let hop = Hop::authority("100.0.0.1:9001".parse().unwrap(), [1; 20]);
        let mut circuit = Circuit::new(Purpose::General, 0, vec![hop], None, 0);
        let create = circuit.go_on([7; 32], 0, |_| {}).unwrap();
        assert_eq!(create.command, Command::CREATE_FAST);
        let (answer, keys) = fast::answer(create.body.first_chunk().unwrap(), [9; 20]);
        circuit.answered(Command::CREATED_FAST, &answer).unwrap();
        assert!(circuit.is_open && circuit.go_on([7; 32], 0, |_| {}).is_none());
        (circuit, Layer::new(&keys))
    }

    #[test]
    fn it_is_built_hop_by_hop() {
        let (one, other) = (relay(1, |_, _| {}), relay(2, |_, _| {}));
        let hops = vec![Hop::from(&one), Hop::from(&other)];
        let mut circuit = Circuit::new(Purpose::General, 0, hops, None, 0);
        assert_eq!(circuit.go_on([7; 32], 0, |_| {}).unwrap().command, Command::CREATE2);
        assert!(circuit.answered(Command::CREATED_FAST, &[0; 40]).is_err(), "another handshake's answer");
        assert!(circuit.answered(Command::CREATED2, &[0; BODY]).is_err(), "and to none that is there");
        assert!(!circuit.is_open);
    }

    #[test]
    fn sendmes_name_the_hundredth_cell() {
        let (mut circuit, mut relay) = built();
        assert!(circuit.allow(&message::sendme(&[0; 20])).is_err());
        let mut last = [0; 20];
        for _ in 0..CIRCUIT_STEP {
            let data = Message { command: message::Command::DATA, stream: 1, body: &[7] };
            let mut body = circuit.seal(&data, |_| {});
            relay.forward.crypt(&mut body);
            last = relay.forward.recognize(&body).unwrap();
        }
        assert_eq!(circuit.package, CIRCUIT_WINDOW - CIRCUIT_STEP);
        assert!(circuit.allow(&message::sendme(&last)).is_ok());
        assert_eq!(circuit.package, CIRCUIT_WINDOW);
        let due = (0..250u32).filter(|at| circuit.deliver(&[*at as u8; 20]).is_some()).count();
        assert_eq!(due, 2);
    }

    #[test]
    fn streams_share_it_as_their_users_allow() {
        let exit = relay(3, |_, operator| operator.ports = Ports::read("accept 80").unwrap());
        let mut circuit = Circuit::new(Purpose::General, 0, vec![Hop::from(&exit)], Some(Box::new(exit)), 0);
        let one: Isolation = Some(Box::new([1]));
        assert!(circuit.is_clean() && circuit.takes(&one, 80, 10, 0) && circuit.takes(&None, 80, 10, 0));
        assert!(!circuit.takes(&None, 22, 10, 0));
        (circuit.isolation, circuit.dirty_ms) = (Some(one.clone()), Some(5));
        assert!(circuit.takes(&one, 80, 10, 14) && !circuit.takes(&one, 80, 10, 15), "it is worn");
        assert!(!circuit.takes(&None, 80, 10, 6) && !circuit.is_clean());
        assert_eq!(circuit.fresh_stream(Owner::Program(4)), Some(1));
        circuit.next_stream = u16::MAX;
        assert_eq!(circuit.fresh_stream(Owner::Nobody), Some(u16::MAX));
        assert_eq!(circuit.fresh_stream(Owner::Nobody), Some(2), "1 is taken, and 0 is the circuit's own");
    }
}
