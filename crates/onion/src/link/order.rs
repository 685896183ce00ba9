//! The order of circuits' cells where they take any of a channel's connections.
//!
//! Each end numbers what it sends on a circuit from 0 on: CREATE2 (its answer in the other direction), whatever follows, and DESTROY as
//! the last. The receiving end hands cells on by their numbers. Both ends say DESTROY, and a circuit is forgotten when it was said
//! and heard: from then on nothing of it is under way. Until then the id belongs to it, so a cell that overtook its CREATE2 and one
//! that comes after the circuit's end are told apart.

use crate::cell::{CircuitId, Command};
use std::collections::BTreeMap;
use std::fmt;

/// Cells that may wait for others of one channel: an honest peer has at most its circuits' windows under way.
pub const MOST_HELD: usize = 65_536;
/// Circuits of one channel, with those whose end is not yet heard.
pub const MOST_CIRCUITS: usize = 1 << 18;

/// A peer that keeps to no order. Its channel cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// Of a number that came before.
    Twice,
    /// Behind the circuit's DESTROY.
    AfterTheEnd,
    /// Of a circuit that this end had to create, and has not.
    NotCreated,
    TooManyHeld,
    TooManyCircuits,
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Disorder::Twice => "a cell that came twice",
            Disorder::AfterTheEnd => "a cell behind its circuit's DESTROY",
            Disorder::NotCreated => "a cell of a circuit that was not created",
            Disorder::TooManyHeld => "too many cells that wait for others",
            Disorder::TooManyCircuits => "too many circuits",
        })
    }
}

/// The circuits of one channel, as far as their cells' order goes; `T` is a cell's body.
#[derive(Debug)]
pub struct Order<T> {
    circuits: BTreeMap<CircuitId, Circuit<T>>,
    held: usize,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { circuits: BTreeMap::new(), held: 0 }
    }
}

#[derive(Debug)]
struct Circuit<T> {
    /// Numbers of the next cells.
    to_send: u64,
    to_take: u64,
    held: BTreeMap<u64, (Command, T)>,
    has_said_destroy: bool,
    has_heard_destroy: bool,
}

impl<T> Circuit<T> {
    fn new() -> Circuit<T> {
        Circuit { to_send: 0, to_take: 0, held: BTreeMap::new(), has_said_destroy: false, has_heard_destroy: false }
    }
}

impl<T> Order<T> {
    /// Whether something of a circuit of this id may still be under way.
    pub fn knows(&self, id: CircuitId) -> bool {
        self.circuits.contains_key(&id)
    }

    /// Cells that wait for others.
    pub fn held(&self) -> usize {
        self.held
    }

    /// The number for a cell that is sent now; nothing after this end's DESTROY, when there is nothing to say any more, nor of a
    /// circuit that is not there, unless it begins with this cell.
    pub fn send(&mut self, id: CircuitId, command: Command) -> Option<u64> {
        if command == Command::CREATE2 {
            self.circuits.entry(id).or_insert_with(Circuit::new);
        }
        let circuit = self.circuits.get_mut(&id)?;
        if circuit.has_said_destroy {
            return None;
        }
        let number = circuit.to_send;
        circuit.to_send += 1;
        circuit.has_said_destroy = command == Command::DESTROY;
        self.forget_if_over(id);
        Some(number)
    }

    /// Takes a cell that came, and adds to `out` what can be handed on now: it and those that waited for it, or nothing.
    /// `is_theirs` says whether the other end chooses ids like this one.
    pub fn receive(
        &mut self,
        id: CircuitId,
        is_theirs: bool,
        number: u64,
        (command, body): (Command, T),
        out: &mut Vec<(Command, T)>,
    ) -> Result<(), Disorder> {
        if !self.circuits.contains_key(&id) {
            if !is_theirs {
                return Err(Disorder::NotCreated);
            }
            if self.circuits.len() >= MOST_CIRCUITS {
                return Err(Disorder::TooManyCircuits);
            }
        }
        let circuit = self.circuits.entry(id).or_insert_with(Circuit::new);
        if circuit.has_heard_destroy {
            return Err(Disorder::AfterTheEnd);
        }
        if number < circuit.to_take {
            return Err(Disorder::Twice);
        }
        if number > circuit.to_take {
            if self.held >= MOST_HELD {
                return Err(Disorder::TooManyHeld);
            }
            self.held += 1;
            return match circuit.held.insert(number, (command, body)) {
                None => Ok(()),
                Some(_) => Err(Disorder::Twice),
            };
        }
        let mut next = Some((command, body));
        while let Some((command, body)) = next {
            circuit.to_take += 1;
            circuit.has_heard_destroy = command == Command::DESTROY;
            out.push((command, body));
            if circuit.has_heard_destroy && !circuit.held.is_empty() {
                return Err(Disorder::AfterTheEnd);
            }
            next = circuit.held.remove(&circuit.to_take);
            self.held -= usize::from(next.is_some());
        }
        self.forget_if_over(id);
        Ok(())
    }

    fn forget_if_over(&mut self, id: CircuitId) {
        if self.circuits.get(&id).is_some_and(|circuit| circuit.has_said_destroy && circuit.has_heard_destroy) {
            self.circuits.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};
    use std::collections::VecDeque;

    const ID: CircuitId = 0x8000_0001;

    fn receive(order: &mut Order<u64>, number: u64, command: Command) -> Result<Vec<u64>, Disorder> {
        let mut out = Vec::new();
        order.receive(ID, true, number, (command, number), &mut out)?;
        Ok(out.into_iter().map(|(_, number)| number).collect())
    }

    #[test]
    fn cells_wait_for_those_before_them() {
        let mut order = Order::default();
        assert_eq!(receive(&mut order, 2, Command::RELAY), Ok(vec![]), "it overtook its CREATE2");
        assert_eq!(receive(&mut order, 1, Command::RELAY), Ok(vec![]));
        assert_eq!(order.held(), 2);
        assert_eq!(receive(&mut order, 0, Command::CREATE2), Ok(vec![0, 1, 2]));
        assert_eq!(order.held(), 0);
    }

    #[test]
    fn a_circuit_is_forgotten_when_both_ends_have_said_destroy() {
        let mut order = Order::default();
        receive(&mut order, 0, Command::CREATE2).expect("in order");
        assert_eq!(order.send(ID, Command::CREATED2), Some(0));
        assert_eq!(order.send(ID, Command::DESTROY), Some(1));
        assert_eq!(order.send(ID, Command::RELAY), None);
        assert!(order.knows(ID), "its cells are still under way");
        assert_eq!(receive(&mut order, 1, Command::RELAY), Ok(vec![1]));
        assert_eq!(receive(&mut order, 2, Command::DESTROY), Ok(vec![2]));
        assert!(!order.knows(ID));
    }

    #[test]
    fn peers_that_keep_to_no_order_are_told_apart() {
        let with = |cells: &[(u64, Command)]| {
            let mut order = Order::default();
            cells.iter().try_for_each(|(number, command)| receive(&mut order, *number, *command).map(|_| ()))
        };
        let (create, relay, destroy) = (Command::CREATE2, Command::RELAY, Command::DESTROY);
        assert_eq!(with(&[(0, create), (0, create)]), Err(Disorder::Twice));
        assert_eq!(with(&[(3, relay), (3, relay)]), Err(Disorder::Twice), "while it is held");
        assert_eq!(with(&[(0, create), (1, destroy), (2, relay)]), Err(Disorder::AfterTheEnd));
        assert_eq!(with(&[(2, relay), (0, create), (1, destroy)]), Err(Disorder::AfterTheEnd));
        let mut order = Order::<u64>::default();
        assert_eq!(order.receive(ID, false, 0, (relay, 0), &mut Vec::new()), Err(Disorder::NotCreated));
    }

    #[test]
    fn what_a_peer_can_make_wait_is_bounded() {
        let mut order = Order::default();
        for number in 1..=MOST_HELD as u64 {
            assert_eq!(receive(&mut order, number, Command::RELAY), Ok(vec![]));
        }
        assert_eq!(receive(&mut order, u64::MAX, Command::RELAY), Err(Disorder::TooManyHeld));
    }

    /// Circuits come and go at both ends, their cells take connections as chance will, each of which keeps its own order and stalls
    /// now and then: each end hears what the other said, all of it, once and in order.
    #[test]
    fn nothing_is_lost_doubled_or_reordered() {
        for seed in 0..200 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut chance = move |below: u32| random.next_u32() % below;
            let connections = 1 + chance(6) as usize;
            let mut ends: [Order<u64>; 2] = [Order::default(), Order::default()];
            let mut wires: [Vec<VecDeque<(CircuitId, u64, Command, u64)>>; 2] =
                std::array::from_fn(|_| vec![VecDeque::new(); connections]);
            let mut said: [BTreeMap<CircuitId, Vec<u64>>; 2] = Default::default();
            let mut heard = said.clone();
            let say = |ends: &mut [Order<u64>; 2],
                       wires: &mut [Vec<VecDeque<_>>; 2],
                       said: &mut [BTreeMap<CircuitId, Vec<u64>>; 2],
                       (end, id, command, wire): (usize, CircuitId, Command, usize)| {
                if let Some(number) = ends[end].send(id, command) {
                    let what = number * 1000 + u64::from(id);
                    said[end].entry(id).or_default().push(what);
                    wires[end][wire].push_back((id, number, command, what));
                }
            };
            for step in 0..3000 {
                let wire = chance(connections as u32) as usize;
                let id = 1 + chance(20);
                match chance(8) {
                    0 if step < 2000 => say(&mut ends, &mut wires, &mut said, (0, 100 + step, Command::CREATE2, wire)),
                    0..=2 if step < 2000 => {
                        let known: Vec<_> = said[0].keys().rev().take(10).copied().collect();
                        for circuit in known.into_iter().filter(|circuit| circuit % 20 == id % 20) {
                            let command = if chance(10) == 0 { Command::DESTROY } else { Command::RELAY };
                            say(&mut ends, &mut wires, &mut said, (0, circuit, command, wire));
                        }
                    }
                    _ => {
                        let to = chance(2) as usize;
                        let Some((id, number, command, what)) = wires[1 - to][wire].pop_front() else { continue };
                        let mut out = Vec::new();
                        ends[to].receive(id, to == 1, number, (command, what), &mut out).expect("order");
                        for (command, what) in out {
                            heard[to].entry(id).or_default().push(what);
                            let answer = if command == Command::DESTROY { Command::DESTROY } else { Command::RELAY };
                            if to == 1 || command == Command::DESTROY {
                                say(&mut ends, &mut wires, &mut said, (to, id, answer, wire));
                            }
                        }
                    }
                }
            }
            // All that is under way arrives.
            while let Some((to, wire)) = (0..2)
                .flat_map(|to| (0..connections).map(move |wire| (to, wire)))
                .find(|(to, wire)| !wires[1 - to][*wire].is_empty())
            {
                let (id, number, command, what) = wires[1 - to][wire].pop_front().expect("just looked");
                let mut out = Vec::new();
                ends[to].receive(id, to == 1, number, (command, what), &mut out).expect("order");
                for (command, what) in out {
                    heard[to].entry(id).or_default().push(what);
                    if command == Command::DESTROY {
                        say(&mut ends, &mut wires, &mut said, (to, id, Command::DESTROY, 0));
                    }
                }
            }
            assert_eq!(heard[1], said[0], "seed {seed}");
            assert_eq!(heard[0], said[1], "seed {seed}");
            assert!(ends.iter().all(|end| end.held() == 0));
            let over = said[0].keys().filter(|id| !ends[0].knows(**id)).count();
            assert!(over > 0 || said[0].len() < 5, "seed {seed}: some have ended");
        }
    }
}
