//! A circuit at this relay: where it comes from and goes to, its cipher, its cells on the way, its windows.

use crate::design::Recent;
use onion::cell::{BODY, CircuitId, Command};
use onion::circuit::layer::Layer;
use onion::circuit::message::{self, Message};
use onion::handshake::HopKeys;
use onion::link::private::Label;
use std::collections::{BTreeMap, VecDeque};

/// Data cells that may be under way on a circuit, and how many one SENDME allows again (tor-spec, "Circuit-level flow control").
pub const CIRCUIT_WINDOW: u32 = 1000;
pub const CIRCUIT_STEP: u32 = 100;

/// Cells of a queue at which its streams are read no more, and at which they are again (C tor's marks).
const HIGH: usize = 256;
const LOW: usize = 128;
/// Cells of a queue that no honest circuit reaches: both windows, and some for control.
const MOST: usize = 4 * CIRCUIT_WINDOW as usize;

/// Which way from this relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    Client,
    Exit,
}

#[derive(Debug)]
pub struct Queued {
    pub command: Command,
    pub body: Box<[u8; BODY]>,
}

/// Cells for one channel.
#[derive(Debug, Default)]
pub struct Queue {
    pub cells: VecDeque<Queued>,
    /// It has a turn on its channel.
    pub is_active: bool,
    /// How much it has sent.
    pub recent: Recent,
}

pub struct Circuit {
    /// The channel to the client's side, and its id there.
    pub prev: (usize, CircuitId),
    pub next: Option<(usize, CircuitId)>,
    /// CREATE2 is sent, or waits for a channel.
    pub is_extending: bool,
    pub layer: Layer,
    to_client: Queue,
    to_exit: Queue,
    /// By the client's number.
    pub streams: BTreeMap<u16, usize>,
    /// Streams wait for the queue or for the window.
    pub is_blocked: bool,
    /// Data cells that may still be sent to the client.
    pub package: u32,
    /// Digests that its SENDMEs must name.
    expected: VecDeque<[u8; 20]>,
    /// Data cells from the client since the last SENDME.
    delivered: u32,
    /// What its client uses it for, as the guard knows.
    pub label: Option<Label>,
}

impl Circuit {
    pub fn new(prev: (usize, CircuitId), keys: &HopKeys) -> Circuit {
        Circuit {
            prev,
            next: None,
            is_extending: false,
            layer: Layer::new(keys),
            to_client: Queue::default(),
            to_exit: Queue::default(),
            streams: BTreeMap::new(),
            is_blocked: false,
            package: CIRCUIT_WINDOW,
            expected: VecDeque::new(),
            delivered: 0,
            label: None,
        }
    }

    /// The channel on that side, and the id there.
    pub fn end_at(&self, side: Side) -> Option<(usize, CircuitId)> {
        match side {
            Side::Client => Some(self.prev),
            Side::Exit => self.next,
        }
    }

    pub fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Client => &mut self.to_client,
            Side::Exit => &mut self.to_exit,
        }
    }

    /// What was sent that way.
    pub fn recent(&self, side: Side) -> Recent {
        match side {
            Side::Client => self.to_client.recent,
            Side::Exit => self.to_exit.recent,
        }
    }

    /// Cells of late, of the way that has more.
    pub fn recent_cells(&self, now_ms: u64) -> f64 {
        self.to_client.recent.cells(now_ms).max(self.to_exit.recent.cells(now_ms))
    }

    pub fn queued(&self) -> usize {
        self.to_client.cells.len() + self.to_exit.cells.len()
    }

    /// Data cells that streams may add now.
    pub fn room(&self) -> usize {
        HIGH.saturating_sub(self.to_client.cells.len()).min(self.package as usize)
    }

    /// Streams that wait can go on.
    pub fn is_to_resume(&self) -> bool {
        self.is_blocked && self.package > 0 && self.to_client.cells.len() <= LOW
    }

    /// Queues a cell; returns whether its channel must be told, or nothing if there are too many.
    pub fn push(&mut self, side: Side, command: Command, body: Box<[u8; BODY]>) -> Option<bool> {
        let queue = self.queue(side);
        if queue.cells.len() >= MOST {
            return None;
        }
        queue.cells.push_back(Queued { command, body });
        Some(!std::mem::replace(&mut queue.is_active, true))
    }

    /// Makes a cell for the client of this relay's own message.
    pub fn seal(&mut self, message: &Message<'_>, fill: impl FnOnce(&mut [u8])) -> Box<[u8; BODY]> {
        let mut body = Box::new(message.write(fill));
        let digest = self.layer.backward.seal(&mut body);
        if message.command == message::Command::DATA {
            self.package -= 1;
            if self.package.is_multiple_of(CIRCUIT_STEP) {
                self.expected.push_back(digest);
            }
        }
        self.layer.backward.crypt(&mut body);
        body
    }

    /// Counts a data cell from the client; when a SENDME is due, its body.
    pub fn deliver(&mut self, digest: &[u8; 20]) -> Option<[u8; 23]> {
        self.delivered += 1;
        if self.delivered == CIRCUIT_STEP {
            self.delivered = 0;
            return Some(message::sendme(digest));
        }
        None
    }

    /// A SENDME of the client, which must name the cell that made it due.
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
    use onion::handshake::fast;

    fn circuit() -> Circuit {
        Circuit::new((0, 1), &fast::answer(&[1; 20], [2; 20]).1)
    }

    fn data(circuit: &mut Circuit) {
        let message = Message { command: message::Command::DATA, stream: 1, body: &[7] };
        let body = circuit.seal(&message, |_| {});
        circuit.push(Side::Client, Command::RELAY, body).expect("room");
    }

    #[test]
    fn a_sendme_must_be_due_and_name_its_cell() {
        let mut circuit = circuit();
        assert!(circuit.allow(&message::sendme(&[0; 20])).is_err(), "nothing was sent");
        (0..CIRCUIT_STEP).for_each(|_| data(&mut circuit));
        let digest = circuit.expected[0];
        assert!(circuit.allow(&message::sendme(&digest)).is_ok());
        assert_eq!(circuit.package, CIRCUIT_WINDOW);
        assert!(circuit.allow(&message::sendme(&digest)).is_err(), "named twice");
        (0..CIRCUIT_STEP).for_each(|_| data(&mut circuit));
        assert!(circuit.allow(&message::sendme(&digest)).is_err(), "of another cell");
    }

    #[test]
    fn queues_hold_streams_back_and_are_bounded() {
        let mut circuit = circuit();
        (0..HIGH).for_each(|_| data(&mut circuit));
        assert_eq!(circuit.room(), 0);
        circuit.is_blocked = true;
        assert!(!circuit.is_to_resume());
        circuit.to_client.cells.truncate(LOW);
        assert!(circuit.is_to_resume());
        let push = |circuit: &mut Circuit| circuit.push(Side::Exit, Command::RELAY, Box::new([0; BODY]));
        assert_eq!(push(&mut circuit), Some(true));
        (1..MOST).for_each(|_| assert_eq!(push(&mut circuit), Some(false)));
        assert_eq!(push(&mut circuit), None);
    }

    #[test]
    fn each_hundredth_data_cell_makes_a_sendme_due() {
        let mut circuit = circuit();
        let due: Vec<_> = (0..250u32).filter(|at| circuit.deliver(&[*at as u8; 20]).is_some()).collect();
        assert_eq!(due, [99, 199]);
    }
}
