//! Families of system calls, and how a program is put together of them.

mod descriptors;
mod events;
mod files;
mod garbage;
mod groups;
mod identity;
mod inet;
mod ipc;
mod masks;
mod memory;
mod names;
mod netlink;
mod pipes;
mod ports;
mod processes;
mod senders;
mod signals;
mod terminals;
mod traces;
mod unix;
mod watches;

pub use garbage::generate as generate_garbage;

use crate::writer::{Actor, Writer};

/// Writes a line or a few.
type Family = fn(&mut Writer);

/// Each with how often it is chosen.
const FAMILIES: &[(Family, usize)] = &[
    (files::write, 16),
    (names::write, 14),
    (descriptors::write, 8),
    (pipes::write, 8),
    (events::write, 10),
    (unix::write, 16),
    (inet::write, 18),
    (signals::write, 10),
    (memory::write, 8),
    (processes::write, 8),
    (identity::write, 6),
    (ipc::write, 8),
    (terminals::write, 4),
    (traces::write, 10),
    (groups::write, 6),
    (masks::write, 6),
    (netlink::write, 8),
    (ports::write, 8),
    (senders::write, 8),
    (watches::write, 8),
];

/// The runner takes no more lines.
const MOST_LINES: usize = 90;

/// Program number `number` of a seed.
pub fn generate(seed: u64, number: u64, root: bool) -> Vec<String> {
    let mut writer = Writer::new(seed, number, root);
    let families: Vec<Family> = (0..1 + writer.below(3)).map(|_| choose(&mut writer)).collect();
    add_actors(&mut writer);
    let length = 6 + writer.below(34);
    while writer.lines.len() < length {
        let family = writer.pick(&families);
        family(&mut writer);
    }
    writer.lines.truncate(MOST_LINES);
    writer.lines
}

fn choose(writer: &mut Writer) -> Family {
    let total: usize = FAMILIES.iter().map(|(_, weight)| weight).sum();
    let mut dice = writer.below(total);
    for (family, weight) in FAMILIES {
        if dice < *weight {
            return *family;
        }
        dice -= weight;
    }
    unreachable!("the dice are below the sum")
}

/// Most programs have one actor; others a few threads, processes or both, from the start or later.
fn add_actors(writer: &mut Writer) {
    if writer.chance(60) {
        return;
    }
    for _ in 0..1 + writer.below(2) {
        if writer.chance(50) { processes::spawn_thread(writer) } else { processes::spawn_process(writer) }
    }
    writer.may_wait = writer.chance(70);
}

/// The number of the next actor, if there is room for one.
fn next_actor(writer: &mut Writer, kind: Actor) -> Option<usize> {
    if writer.actors.len() >= 5 {
        return None;
    }
    writer.actors.push(kind);
    Some(writer.actors.len())
}
