//! A channel to another relay or a client: the connections that carry its circuits' cells, mostly one.

use crate::circuit::Side;
use crate::connection::PeerWanted;
use crate::design::{CircuitScheduler, LinkDesign, Turns};
use onion::cell::{BODY, CircuitId};
use onion::certificates::PeerIdentity;
use onion::circuit::message::DestroyReason;
use onion::link::association;
use onion::link::order::Order;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a channel does once it is open, for circuits that wait for it.
#[derive(Debug)]
pub struct Waiting {
    pub circuit: usize,
    /// CREATE2's body.
    pub create: Vec<u8>,
}

pub struct Channel {
    /// This end opened it, and chooses circuit ids of the upper half.
    pub initiated: bool,
    /// Where the other end takes connections.
    pub address: SocketAddr,
    /// Whom a circuit asked for.
    pub wanted: Option<PeerWanted>,
    /// Proven.
    pub peer: Option<PeerIdentity>,
    /// What was agreed with the other end.
    pub design: LinkDesign,
    /// Open connections, in the order in which they came, those too that are being closed.
    pub connections: Vec<usize>,
    /// Those that this end is opening.
    pub opening: Vec<usize>,
    pub circuits: BTreeMap<CircuitId, (usize, Side)>,
    pub waiting: Vec<Waiting>,
    next_id: CircuitId,
    /// Of a channel with TLS by which others are opened without: how these are known.
    pub association: Option<association::Name>,
    /// Of channels of several connections alone.
    pub numbered: Option<Numbered>,
}

/// Which connection each circuit takes, and how many each has.
#[derive(Default)]
pub struct Pins {
    connections: BTreeMap<CircuitId, usize>,
    counts: BTreeMap<usize, usize>,
}

impl Pins {
    pub fn get(&self, id: CircuitId) -> Option<usize> {
        self.connections.get(&id).copied()
    }

    /// How many circuits take a connection.
    pub fn count(&self, connection: usize) -> usize {
        self.counts.get(&connection).copied().unwrap_or(0)
    }

    pub fn insert(&mut self, id: CircuitId, connection: usize) {
        self.remove(id);
        self.connections.insert(id, connection);
        *self.counts.entry(connection).or_default() += 1;
    }

    pub fn remove(&mut self, id: CircuitId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let count = self.counts.get_mut(&connection).expect("whoever takes it was counted");
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&connection);
        }
    }
}

impl FromIterator<(CircuitId, usize)> for Pins {
    fn from_iter<T: IntoIterator<Item = (CircuitId, usize)>>(pins: T) -> Pins {
        let mut all = Pins::default();
        pins.into_iter().for_each(|(id, connection)| all.insert(id, connection));
        all
    }
}

/// What a channel of several connections has.
pub struct Numbered {
    /// Its name, by who made it.
    pub number: u64,
    pub order: Order<Box<[u8; BODY]>>,
    /// The connection that each circuit's cells take, where circuits and not cells choose.
    pub pins: Pins,
    /// Circuits that Torchestra takes for heavy.
    pub heavy: BTreeMap<CircuitId, bool>,
    /// Circuits with cells for any connection, where cells choose.
    pub pool: Turns,
    /// How many cells or circuits have been dealt out in turn.
    pub dealt: usize,
    /// Only one end opens connections: at first who made the channel, then who closed one last.
    pub may_open: bool,
    /// Circuits whose end could not be told, for lack of a connection.
    pub unsaid: Vec<(CircuitId, DestroyReason)>,
    /// When circuits were last dealt to connections by what they send.
    pub mapped_ms: u64,
}

impl Numbered {
    pub fn new(number: u64, may_open: bool, scheduler: CircuitScheduler) -> Numbered {
        Numbered {
            number,
            order: Order::default(),
            pins: Pins::default(),
            heavy: BTreeMap::new(),
            pool: Turns::new(scheduler),
            dealt: 0,
            may_open,
            unsaid: Vec::new(),
            mapped_ms: 0,
        }
    }
}

/// Circuit ids that the initiator of a channel takes.
const UPPER_HALF: CircuitId = 1 << 31;

impl Channel {
    /// A channel whose first connection this end is opening.
    pub fn to(wanted: PeerWanted, address: SocketAddr) -> Channel {
        Channel {
            initiated: true,
            address,
            wanted: Some(wanted),
            peer: None,
            design: LinkDesign::Vanilla,
            connections: Vec::new(),
            opening: Vec::new(),
            circuits: BTreeMap::new(),
            waiting: Vec::new(),
            next_id: 1,
            association: None,
            numbered: None,
        }
    }

    /// A channel whose first connection the other end has opened.
    pub fn from(peer: Option<PeerIdentity>, address: SocketAddr, design: LinkDesign) -> Channel {
        let nobody = PeerWanted { fingerprint: [0; 20], ed25519: None };
        Channel { initiated: false, wanted: None, peer, design, ..Channel::to(nobody, address) }
    }

    /// It is there for one circuit, and goes with it.
    pub fn is_of_circuit(&self) -> bool {
        match self.design {
            LinkDesign::Pctcp => true,
            LinkDesign::PctcpIpsec => self.association.is_none(),
            _ => false,
        }
    }

    pub fn is_open(&self) -> bool {
        !self.connections.is_empty()
    }

    /// An id that no circuit has; nothing if all are taken.
    pub fn fresh_id(&mut self) -> Option<CircuitId> {
        let half = if self.initiated { UPPER_HALF } else { 0 };
        for _ in 0..=self.circuits.len() {
            let id = half | self.next_id;
            self.next_id = (self.next_id + 1) % UPPER_HALF;
            self.next_id = self.next_id.max(1);
            let is_over = self.numbered.as_ref().is_none_or(|numbered| !numbered.order.knows(id));
            if is_over && !self.circuits.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether the other end may choose this id.
    pub fn is_theirs(&self, id: CircuitId) -> bool {
        id != 0 && (id & UPPER_HALF != 0) != self.initiated
    }

    /// A circuit has left it.
    pub fn remove_circuit(&mut self, id: CircuitId) -> Option<(usize, Side)> {
        if let Some(numbered) = &mut self.numbered {
            numbered.pins.remove(id);
            numbered.heavy.remove(&id);
        }
        self.circuits.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_counted_by_connection() {
        let mut pins: Pins = [(1, 7), (2, 7), (3, 8)].into_iter().collect();
        assert_eq!([7, 8, 9].map(|connection| pins.count(connection)), [2, 1, 0]);
        pins.insert(2, 8);
        pins.insert(2, 8);
        pins.remove(1);
        pins.remove(1);
        assert_eq!([7, 8].map(|connection| pins.count(connection)), [0, 2]);
        assert_eq!([1, 2, 3].map(|id| pins.get(id)), [None, Some(8), Some(8)]);
    }
}
