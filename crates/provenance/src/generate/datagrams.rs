//! Datagrams: questions and answers, large ones in fragments, and such as find nobody.

use super::world::{Draft, Flying, Role, World};
use probes::Level;
use probes::choices::{Call, ReceivedFate};
use probes::tables::{Read, Write};

const UDP: u64 = 17;
const ICMP: u64 = 1;
/// IP and UDP.
const HEADER: u64 = 28;
/// Payload of a fragment: 1,500 bytes with its header, in eights.
const FRAGMENT: u64 = 1480;
const LARGE: u64 = 8192;

/// A client says something to a server, which is one of three kinds.
pub fn send(world: &mut World, now: u64) {
    let from = world.any(Role::Client, &[]);
    let to = world.any(Role::Server, &[]);
    let stream = 1 << 63 | (from as u64) << 32 | to as u64;
    let draft =
        Draft { from, to, stream, header: HEADER, protocol: UDP, payload: 60, written: now, ..Draft::default() };
    match world.rng.below(4) {
        0 => large(world, draft, now),
        1 => refused(world, draft, now),
        _ => {
            let mut flying = world.make(&draft, now);
            written(world, &draft, flying.packet, now);
            if flying.arrives.is_some() {
                world.bring(&mut flying);
                taken(world, &draft, &[flying], flying.packet, flying.has);
            }
        }
    }
}

/// 8 KiB in six fragments, of which some may be lost: then the others wait in vain.
fn large(world: &mut World, draft: Draft, now: u64) {
    let draft = Draft { payload: LARGE, ..draft };
    let parent = world.begin_fragments(draft.from);
    written(world, &draft, parent, now);
    let mut fragments = Vec::new();
    for start in (0..LARGE + 8).step_by(FRAGMENT as usize) {
        let bytes = FRAGMENT.min(LARGE + 8 - start);
        let fragment = Draft { parent, payload: bytes, header: 20, offset: parent, ..draft };
        fragments.push(world.make(&fragment, now));
    }
    world.end_fragments(&draft, parent, now, &fragments);
    let whole = fragments.iter().all(|flying| flying.arrives.is_some());
    for flying in fragments.iter_mut().filter(|flying| flying.arrives.is_some()) {
        world.bring(flying);
    }
    if whole {
        let has = fragments.iter().map(|flying| flying.has).max().unwrap_or(now);
        taken(world, &draft, &fragments, parent, has);
    } else {
        for flying in fragments.iter().filter(|flying| flying.arrives.is_some()) {
            world.received(
                flying,
                flying.has + 30_000_000_000,
                flying.has + 30_000_000_000,
                0,
                0,
                ReceivedFate::Incomplete,
            );
        }
    }
}

/// Nobody is at the port, and an ICMP message says so.
fn refused(world: &mut World, draft: Draft, now: u64) {
    let mut flying = world.make(&draft, now);
    written(world, &draft, flying.packet, now);
    if flying.arrives.is_none() {
        return;
    }
    world.bring(&mut flying);
    world.received(&flying, flying.has, flying.has, 0, 0, ReceivedFate::Nobody);
    let answer = Draft {
        from: draft.to,
        to: draft.from,
        quotes: flying.packet,
        protocol: ICMP,
        payload: 88,
        header: 20,
        stream: draft.stream,
        written: flying.has,
        ..Draft::default()
    };
    let mut answer = world.make(&answer, flying.has);
    if answer.arrives.is_some() {
        world.bring(&mut answer);
        world.received(&answer, answer.has, answer.has, 0, 0, ReceivedFate::Handled);
    }
}

fn written(world: &mut World, draft: &Draft, packet: u64, now: u64) {
    if world.level < Level::All {
        return;
    }
    let write = world.write_id(draft.from);
    world.rows.writes.push(Write {
        write,
        stream: draft.stream,
        offset: packet,
        bytes: draft.payload,
        at_ns: now,
        pid: 200,
        tid: 200,
        call: Call::Sendmsg.into(),
        address: 0x1000_0000_0000 + ((draft.from as u64) << 32) + 0x1000,
        wake: 0,
    });
}

/// A program has read the datagram that these packets are, at `now`.
fn taken(world: &mut World, draft: &Draft, packets: &[Flying], whole: u64, now: u64) {
    let read = world.read_id(draft.to);
    if world.level >= Level::All {
        world.rows.reads.push(Read {
            read,
            stream: draft.stream,
            offset: whole,
            bytes: draft.payload,
            at_ns: now,
            pid: 200,
            tid: 200,
            call: Call::Recvmsg.into(),
            address: 0x1000_0000_0000 + ((draft.to as u64) << 32) + 0x2000,
            wake: 0,
        });
    }
    for flying in packets {
        world.received(flying, now, now, 0, read, ReceivedFate::Read);
    }
}
