//! A circuit at this relay: where it comes from and goes to, its cipher, its cells on the way.

use crate::design::Recent;
use crate::flow::CircuitFlow;
use onion::cell::{BODY, CircuitId, Command};
use onion::circuit::layer::Layer;
use onion::circuit::message::{self, Message};
use onion::circuit::vegas::LocalQueue;
use onion::handshake::HopKeys;
use onion::link::private::Label;
use std::collections::{BTreeMap, VecDeque};

/// Cells of a queue at which its streams are read no more, and at which they are again: defaults of tor's `cellq_high` and `cellq_low`.
const HIGH: usize = 256;
const LOW: usize = 10;
/// Cells of a queue that no honest circuit reaches: the default of tor's `circ_max_cell_queue_size`.
const MOST: usize = 50_000;

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
    /// Which of them goes on first the next time.
    turn: usize,
    /// Streams wait for the queue or for the window.
    pub is_blocked: bool,
    /// The queue to the client has reached the high mark, and not yet the low one.
    is_full: bool,
    pub flow: CircuitFlow,
    /// What its client uses it for, as the guard knows.
    pub label: Option<Label>,
    /// When a cell of it came last, where that matters.
    pub used_ms: u64,
    /// RELAY_EARLY cells of its client.
    pub early_cells: u32,
    /// Made by CREATE_FAST, which solves no puzzle.
    pub is_fast: bool,
}

impl Circuit {
    pub fn new(prev: (usize, CircuitId), keys: &HopKeys, flow: CircuitFlow) -> Circuit {
        Circuit {
            prev,
            next: None,
            is_extending: false,
            layer: Layer::new(keys),
            to_client: Queue::default(),
            to_exit: Queue::default(),
            streams: BTreeMap::new(),
            turn: 0,
            is_blocked: false,
            is_full: false,
            flow,
            label: None,
            used_ms: 0,
            early_cells: 0,
            is_fast: false,
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
        if self.is_full { 0 } else { HIGH.saturating_sub(self.to_client.cells.len()).min(self.flow.room()) }
    }

    /// Streams in the order in which they go on, which is another one each time, so that none is always last.
    pub fn streams_by_turns(&mut self) -> Vec<usize> {
        let mut streams: Vec<usize> = self.streams.values().copied().collect();
        self.turn += 1;
        let first = self.turn % streams.len().max(1);
        streams.rotate_left(first);
        streams
    }

    /// Whether streams that wait can go on, now that a cell has left the queue to the client.
    pub fn is_to_resume(&mut self) -> bool {
        self.is_full &= self.to_client.cells.len() > LOW;
        self.is_blocked && self.room() > 0
    }

    /// The queue to the client, as congestion control wants to know it.
    pub fn local_queue(&self) -> LocalQueue {
        LocalQueue { cells: self.to_client.cells.len(), is_blocked: self.is_full }
    }

    /// Queues a cell; returns whether its channel must be told, or nothing if there are too many.
    pub fn push(&mut self, side: Side, command: Command, body: Box<[u8; BODY]>) -> Option<bool> {
        let queue = self.queue(side);
        if queue.cells.len() >= MOST {
            return None;
        }
        queue.cells.push_back(Queued { command, body });
        let is_news = !std::mem::replace(&mut queue.is_active, true);
        self.is_full |= self.to_client.cells.len() >= HIGH;
        Some(is_news)
    }

    /// Makes a cell for the client of this relay's own message.
    pub fn seal(&mut self, message: &Message<'_>, now_us: u64, fill: impl FnOnce(&mut [u8])) -> Box<[u8; BODY]> {
        let mut body = Box::new(message.write(fill));
        let digest = self.layer.backward.seal(&mut body);
        if message.command == message::Command::DATA {
            self.flow.sent(digest, now_us);
        }
        self.layer.backward.crypt(&mut body);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onion::handshake::fast;

    fn circuit() -> Circuit {
        Circuit::new((0, 1), &fast::answer(&[1; 20], [2; 20]).1, CircuitFlow::fixed())
    }

    fn data(circuit: &mut Circuit) {
        let message = Message { command: message::Command::DATA, stream: 1, body: &[7] };
        let body = circuit.seal(&message, 0, |_| {});
        circuit.push(Side::Client, Command::RELAY, body).expect("room");
    }

    #[test]
    fn queues_hold_streams_back_and_are_bounded() {
        let mut circuit = circuit();
        (0..HIGH).for_each(|_| data(&mut circuit));
        assert_eq!(circuit.room(), 0);
        circuit.is_blocked = true;
        assert_eq!(circuit.local_queue(), LocalQueue { cells: HIGH, is_blocked: true });
        circuit.to_client.cells.truncate(LOW + 1);
        assert!(!circuit.is_to_resume(), "not before the low mark");
        assert_eq!(circuit.room(), 0);
        circuit.to_client.cells.truncate(LOW);
        assert!(circuit.is_to_resume());
        assert_eq!(circuit.local_queue(), LocalQueue { cells: LOW, is_blocked: false });
        assert_eq!(circuit.room(), HIGH - LOW);
        let push = |circuit: &mut Circuit| circuit.push(Side::Exit, Command::RELAY, Box::new([0; BODY]));
        assert_eq!(push(&mut circuit), Some(true));
        (1..MOST).for_each(|_| assert_eq!(push(&mut circuit), Some(false)));
        assert_eq!(push(&mut circuit), None);
    }
}
