//! Cells with numbers, of channels of several connections: by the first byte as bytes on the wire, as what a peer of any kind makes of their
//! order, or as what two honest ends say to each other over connections that stall as the rest of the input will have it.

use crate::input::Input;
use onion::cell::{self, Cell, Command, IdWidth};
use onion::link::order::{Disorder, MOST_HELD, Order};
use onion::link::private::{self, Joining, Label};
use std::collections::{BTreeMap, VecDeque};

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    match input.byte() % 3 {
        0 => on_the_wire(&data[1.min(data.len())..]),
        1 => from_anybody(input),
        _ => between_two(input),
    }
}

/// Each that is whole is written as it was read.
fn on_the_wire(mut bytes: &[u8]) {
    while let Ok(Some((cell, number, length))) = private::take(bytes) {
        assert!(length <= bytes.len());
        let mut again = Vec::new();
        match number {
            Some(number) => private::put(&mut again, cell.circuit, cell.command, number, cell.body),
            None => cell::put(&mut again, IdWidth::Four, Cell { ..cell }),
        }
        assert_eq!(again, bytes[..length], "a cell is written otherwise than it was read");
        if let Some(joining) = Joining::read(cell.body) {
            assert_eq!(joining.write(), cell.body[..11], "CHANNEL is written otherwise than it was read");
        }
        assert_eq!(
            Label::read(cell.body).map(|label| label as u8),
            cell.body.first().copied().filter(|b| matches!(b, 1 | 2))
        );
        bytes = &bytes[length..];
    }
}

fn command(byte: u8) -> Command {
    match byte % 8 {
        0 | 1 => Command::CREATE2,
        2 => Command::CREATED2,
        3 => Command::DESTROY,
        _ => Command::RELAY,
    }
}

/// What is handed on is of each circuit in order, without gaps, once; and what is held is bounded.
fn from_anybody(mut input: Input<'_>) {
    let mut order: Order<u64> = Order::default();
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    while !input.is_empty() {
        let kind = input.byte();
        let id = 1 + u32::from(kind >> 5);
        if kind & 16 != 0 {
            order.send(id, command(kind));
        } else {
            // Numbers near the next are what matters; one that is far is one byte away.
            let number = match input.byte() {
                255 => input.u64(),
                near => (next.get(&id).copied().unwrap_or(0) + u64::from(near)).saturating_sub(8),
            };
            let mut out = Vec::new();
            let taken = order.receive(id, kind & 8 == 0, number, (command(kind), number), &mut out);
            for (_, number) in &out {
                let expected = next.entry(id).or_insert(0);
                assert_eq!(number, expected, "a cell out of order");
                *expected += 1;
            }
            assert!(order.held() <= MOST_HELD);
            match taken {
                Ok(()) => {}
                Err(Disorder::NotCreated) => assert!(kind & 8 != 0 && !order.knows(id)),
                // A channel ends with that.
                Err(_) => return,
            }
        }
        if !order.knows(id) {
            next.remove(&id);
        }
    }
}

/// The same with two ends that keep to the rules: neither finds fault with the other, and all arrives.
fn between_two(mut input: Input<'_>) {
    const CONNECTIONS: usize = 3;
    let mut ends: [Order<u64>; 2] = [Order::default(), Order::default()];
    let mut wires: [[VecDeque<(u32, u64, Command)>; CONNECTIONS]; 2] = Default::default();
    let (mut said, mut heard) = ([0_u64; 2], [0_u64; 2]);
    let mut last_id = 0;
    let mut step =
        |ends: &mut [Order<u64>; 2], wires: &mut [[VecDeque<(u32, u64, Command)>; CONNECTIONS]; 2], byte: u8| {
            let (end, wire) = (usize::from(byte & 1), usize::from(byte >> 1 & 7) % CONNECTIONS);
            let mut say =
                |ends: &mut [Order<u64>; 2], wires: &mut [[VecDeque<_>; CONNECTIONS]; 2], end: usize, id, what| {
                    if let Some(number) = ends[end].send(id, what) {
                        wires[end][wire].push_back((id, number, what));
                        said[end] += 1;
                    }
                };
            match byte >> 4 {
                // One end makes all circuits.
                0 => {
                    last_id += 1;
                    say(ends, wires, 0, last_id, Command::CREATE2);
                }
                known @ 1..8 => {
                    let id = u32::from(known).min(last_id);
                    let what = if byte & 8 == 0 { Command::RELAY } else { Command::DESTROY };
                    // The other end knows of a circuit by its first cell.
                    if id > 0 && ends[end].knows(id) {
                        say(ends, wires, end, id, what);
                    }
                }
                _ => {
                    let Some((id, number, what)) = wires[1 - end][wire].pop_front() else { return };
                    let mut out = Vec::new();
                    ends[end].receive(id, end == 1, number, (what, number), &mut out).expect("an honest peer");
                    heard[end] += out.len() as u64;
                    if out.iter().any(|(what, _)| *what == Command::DESTROY) {
                        say(ends, wires, end, id, Command::DESTROY);
                    }
                }
            }
        };
    while !input.is_empty() {
        let byte = input.byte();
        step(&mut ends, &mut wires, byte);
    }
    while let Some((end, wire)) = (0..2)
        .flat_map(|end| (0..CONNECTIONS).map(move |wire| (end, wire)))
        .find(|(end, wire)| !wires[1 - end][*wire].is_empty())
    {
        step(&mut ends, &mut wires, 0x80 | (wire as u8) << 1 | end as u8);
    }
    assert_eq!([heard[1], heard[0]], said, "not all has arrived");
    assert!(ends.iter().all(|end| end.held() == 0));
}
