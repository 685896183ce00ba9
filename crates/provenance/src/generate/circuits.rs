//! Downloads through circuits of three relays: what is written, sent, lost and sent again, acknowledged, put in order, read and written on.

use super::Scenario;
use super::datagrams;
use super::streams::{Burst, Stream};
use super::world::{Draft, Flying, Role, World};
use probes::choices::{Call, How, ReceivedFate, Side, WokenBy};
use probes::tables::{Cause, Mark, Read, Tcp, Wake, Write};
use probes::{Level, Rows};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Payload of a full segment, and bytes of its headers.
const SEGMENT: u64 = 1448;
const HEADER: u64 = 52;
/// Segments that are written at once.
const BURST: u64 = 10;
/// Bursts of a stream that are not acknowledged.
const MOST_IN_FLIGHT: usize = 8;
/// Bursts of a download that have left the server and are not at the client.
const MOST_UNREAD: u64 = 24;
const REQUEST: u64 = 543;
const TCP: u64 = 6;
/// Hops of a circuit: to the guard, middle, exit, server.
const HOPS: usize = 4;

struct Circuit {
    hosts: [usize; HOPS + 1],
    /// For each hop the streams to the server and back.
    streams: [[usize; 2]; HOPS],
    /// Bytes that the server has to write still, and the client to read.
    unwritten: u64,
    unread: u64,
    requests: u64,
    /// The read that has the request.
    asked: u64,
}

enum Event {
    Begin(usize),
    Datagram,
    Credit(usize),
    Arrive(Box<Burst>),
    Have(Box<Burst>),
    Resend(usize, Draft),
    ArriveAgain(usize, Flying),
    HaveAgain(usize, Flying),
    Acknowledged(usize, u64),
    Read(Box<Burst>),
}

struct Entry(u64, u64, Event);

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub struct Circuits {
    pub world: World,
    circuits: Vec<Circuit>,
    streams: Vec<Stream>,
    events: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    packets: u64,
    ended: bool,
}

impl Circuits {
    pub fn new(scenario: &Scenario) -> Circuits {
        let hosts = scenario.hosts.max(10);
        let world = World::new(scenario.seed, hosts, scenario.loss, scenario.slow_relay, scenario.level);
        let mut all = Circuits {
            world,
            circuits: Vec::new(),
            streams: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            packets: scenario.packets,
            ended: false,
        };
        for client in 0..hosts / 2 {
            for _ in 0..4 {
                all.circuit(client);
            }
        }
        all.at(5_000_000, Event::Datagram);
        all
    }

    fn circuit(&mut self, client: usize) {
        let mut hosts = [client; HOPS + 1];
        for hop in 1..HOPS {
            hosts[hop] = self.world.any(Role::Relay, &hosts[..hop]);
        }
        hosts[HOPS] = self.world.any(Role::Server, &[]);
        let number = self.circuits.len();
        let mut streams = [[0; 2]; HOPS];
        for hop in 0..HOPS {
            for (back, stream) in streams[hop].iter_mut().enumerate() {
                let (from, to) = if back == 0 { (hosts[hop], hosts[hop + 1]) } else { (hosts[hop + 1], hosts[hop]) };
                *stream = self.streams.len();
                let other = *stream ^ 1;
                let port = 20_000 + number as u64 % 40_000;
                let server = if hop + 1 == HOPS { 80 } else { 9001 };
                let ports = if back == 0 { (port, server) } else { (server, port) };
                self.streams.push(Stream::new(&mut self.world, from, to, ports, number, hop, other));
            }
        }
        self.circuits.push(Circuit { hosts, streams, unwritten: 0, unread: 0, requests: 0, asked: 0 });
        let start = self.world.rng.below(5_000_000_000);
        self.at(start, Event::Begin(number));
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse(Entry(time, self.sequence, event)));
    }

    fn all(&self) -> bool {
        self.world.level >= Level::All
    }

    /// All rows of what happens before `time`; None if everything has happened.
    pub fn until(&mut self, time: u64) -> Option<Rows> {
        while let Some(Reverse(Entry(at, ..))) = self.events.peek()
            && *at < time
        {
            let Some(Reverse(Entry(at, _, event))) = self.events.pop() else { break };
            self.happen(at, event);
        }
        if self.ended {
            return None;
        }
        let mut until = time;
        if self.events.is_empty() {
            self.ended = true;
            self.end(time);
            until = u64::MAX;
        }
        let mut rows = std::mem::take(&mut self.world.rows);
        (rows.layers, rows.links) = self.world.tally.take(until);
        Some(rows)
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Begin(circuit) => self.begin(circuit, now),
            Event::Datagram => {
                if self.world.made < self.packets {
                    datagrams::send(&mut self.world, now);
                    let pause = 2_000_000 + self.world.rng.below(6_000_000);
                    self.at(now + pause, Event::Datagram);
                }
            }
            Event::Credit(circuit) => self.credit(circuit, now),
            Event::Arrive(burst) => self.arrive(*burst, now),
            Event::Have(burst) => self.have(*burst, now),
            Event::Resend(stream, draft) => self.resend(stream, draft, now),
            Event::ArriveAgain(stream, mut flying) => {
                self.world.bring(&mut flying);
                self.at(flying.has, Event::HaveAgain(stream, flying));
            }
            Event::HaveAgain(stream, flying) => self.have_again(stream, flying, now),
            Event::Acknowledged(stream, sent) => self.acknowledged(stream, sent, now),
            Event::Read(burst) => self.read(*burst, now),
        }
    }

    /// A client asks for something.
    fn begin(&mut self, circuit: usize, now: u64) {
        if self.world.made >= self.packets {
            return;
        }
        let size = [20_000, 51_200, 1_048_576, 5_242_880][self.world.rng.below(4) as usize];
        let about = &mut self.circuits[circuit];
        (about.unwritten, about.unread) = (size, size);
        about.requests += 1;
        let (client, stream) = (about.hosts[0], about.streams[0][0]);
        let label = format!("request {circuit}.{}", about.requests);
        if self.all() {
            let wake = self.wake(client, 300 + circuit as u64, now, WokenBy::Timer, 0);
            let mark = self.world.write_id(client);
            let tid = 300 + circuit as u64;
            self.world.rows.marks.push(Mark { mark, at_ns: now, pid: tid, tid, wake, label });
            self.write(stream, REQUEST, now, wake, (0, How::Mark));
        } else {
            self.write(stream, REQUEST, now, 0, (0, How::Mark));
        }
    }

    fn wake(&mut self, host: usize, tid: u64, at_ns: u64, by: WokenBy, source: u64) -> u64 {
        let wake = self.world.wake_id(host);
        self.world.rows.wakes.push(Wake { wake, tid, at_ns, by: by.into(), source });
        wake
    }

    /// A program writes, because of what it has read.
    fn write(&mut self, stream: usize, bytes: u64, now: u64, wake: u64, (read, how): (u64, How)) {
        let about = &mut self.streams[stream];
        let offset = about.written;
        about.written += bytes;
        about.waiting.push_back((offset, bytes, now));
        let address = about.buffer(offset, true);
        let (id, from, tid) = (about.id, about.from, about.tid_from);
        if self.world.level >= Level::All {
            let write = self.world.write_id(from);
            let call = Call::Write.into();
            self.world.rows.writes.push(Write {
                write,
                stream: id,
                offset,
                bytes,
                at_ns: now,
                pid: tid,
                tid,
                call,
                address,
                wake,
            });
            if read != 0 {
                self.world.rows.causes.push(Cause { write, read, how: how.into() });
            }
        }
        self.send(stream, now);
    }

    /// What the stream may send.
    fn send(&mut self, stream: usize, now: u64) {
        while self.streams[stream].in_flight < MOST_IN_FLIGHT
            && let Some((offset, bytes, written)) = self.streams[stream].waiting.pop_front()
        {
            self.streams[stream].in_flight += 1;
            let about = &self.streams[stream];
            let draft = Draft {
                from: about.from,
                to: about.to,
                stream: about.id,
                header: HEADER,
                protocol: TCP,
                flags: 16,
                written,
                ..Draft::default()
            };
            let mut burst = Burst { stream, offset, bytes, sent: now, segments: Vec::new(), missing: 0, queue: 0 };
            let mut last = now;
            let mut lost = Vec::new();
            for start in (0..bytes).step_by(SEGMENT as usize) {
                let payload = SEGMENT.min(bytes - start);
                let flags = if start + payload == bytes { 24 } else { 16 };
                let draft = Draft { offset: offset + start, payload, flags, ..draft };
                let flying = self.world.make(&draft, now);
                match flying.arrives {
                    Some(arrives) => last = last.max(arrives),
                    None => {
                        burst.missing += 1;
                        lost.push(Draft { copy_of: flying.packet, ..draft });
                    }
                }
                burst.segments.push(flying);
            }
            let heard = last + self.world.route(draft.from, draft.to) + 1_000_000;
            for draft in lost {
                self.at(heard, Event::Resend(stream, draft));
            }
            self.at(last, Event::Arrive(Box::new(burst)));
        }
    }

    /// What was lost is sent again, until it arrives.
    fn resend(&mut self, stream: usize, draft: Draft, now: u64) {
        let flying = self.world.make(&draft, now);
        match flying.arrives {
            Some(arrives) => self.at(arrives, Event::ArriveAgain(stream, flying)),
            None => {
                let draft = Draft { copy_of: flying.packet, ..draft };
                let timeout = now + 4 * self.world.route(draft.from, draft.to);
                self.at(timeout, Event::Resend(stream, draft));
            }
        }
    }

    /// A burst is at its last router.
    fn arrive(&mut self, mut burst: Burst, now: u64) {
        let mut has = now;
        for flying in burst.segments.iter_mut().filter(|flying| flying.arrives.is_some()) {
            self.world.bring(flying);
            has = has.max(flying.has);
        }
        self.at(has, Event::Have(Box::new(burst)));
    }

    /// A burst is at its host, but for what was lost.
    fn have(&mut self, mut burst: Burst, now: u64) {
        let about = &mut self.streams[burst.stream];
        let mut complete = about.holes == 0;
        for flying in &mut burst.segments {
            complete &= flying.arrives.is_some();
            flying.whole = if complete { flying.has } else { 0 };
        }
        about.holes += burst.missing;
        let stream = burst.stream;
        about.held.push_back(burst);
        if about.holes == 0 {
            self.deliver(stream, now);
        }
    }

    /// What was lost is at its host in the end.
    fn have_again(&mut self, stream: usize, again: Flying, now: u64) {
        let about = &mut self.streams[stream];
        let mut segments = about.held.iter_mut().flat_map(|burst| &mut burst.segments);
        if let Some(lost) = segments.find(|flying| flying.arrives.is_none() && flying.offset == again.offset) {
            *lost = again;
            about.holes -= 1;
        }
        if about.holes == 0 {
            self.deliver(stream, now);
        }
    }

    /// All that has come is in order: it is acknowledged, and can be read.
    fn deliver(&mut self, stream: usize, now: u64) {
        let held = std::mem::take(&mut self.streams[stream].held);
        let several = held.len() > 1;
        for mut burst in held {
            for flying in burst.segments.iter_mut().filter(|flying| flying.whole == 0) {
                flying.whole = now;
            }
            let acknowledgements = if several { 1 } else { burst.segments.len().div_ceil(2) };
            self.acknowledge(stream, acknowledgements, burst.sent, now);
            let about = &mut self.streams[stream];
            burst.queue = about.readable;
            about.readable += burst.bytes;
            // Half of the readers wait for something else, up to ten milliseconds.
            let pause = self.world.rng.below(20_000_000).saturating_sub(10_000_000);
            let about = &mut self.streams[stream];
            about.reads_at = (now + pause).max(about.reads_at);
            let at = about.reads_at;
            self.at(at, Event::Read(Box::new(burst)));
        }
    }

    fn acknowledge(&mut self, stream: usize, count: usize, sent: u64, now: u64) {
        let about = &self.streams[stream];
        let back = &self.streams[about.back];
        let draft = Draft {
            from: back.from,
            to: back.to,
            stream: back.id,
            offset: back.written,
            header: HEADER,
            protocol: TCP,
            flags: 16,
            written: now,
            ..Draft::default()
        };
        let mut last = 0;
        for _ in 0..count {
            let mut flying = self.world.make(&draft, now);
            if flying.arrives.is_some() {
                self.world.bring(&mut flying);
                self.world.received(&flying, flying.has, flying.has, 0, 0, ReceivedFate::Handled);
                last = flying.has;
            }
        }
        // A later acknowledgement stands in for one that was lost.
        let last = if last == 0 { now + 50_000_000 } else { last };
        self.at(last, Event::Acknowledged(stream, sent));
    }

    fn acknowledged(&mut self, stream: usize, sent: u64, now: u64) {
        let about = &mut self.streams[stream];
        about.in_flight -= 1;
        about.srtt = if about.srtt == 0 { now - sent } else { (about.srtt * 7 + (now - sent)) / 8 };
        if self.world.level >= Level::All && now >= about.told + 10_000_000 {
            about.told = now;
            let burst = BURST * SEGMENT;
            self.world.rows.tcp.push(Tcp {
                stream: about.id,
                at_ns: now,
                cwnd_bytes: MOST_IN_FLIGHT as u64 * burst,
                srtt_ns: about.srtt,
                in_flight_bytes: about.in_flight as u64 * burst,
            });
        }
        self.send(stream, now);
    }

    /// A program reads what has come, and goes on with it.
    fn read(&mut self, burst: Burst, now: u64) {
        let about = &mut self.streams[burst.stream];
        about.readable -= burst.bytes;
        about.read += burst.bytes;
        let (host, tid, id, address) = (about.to, about.tid_to, about.id, about.buffer(burst.offset, false));
        let (circuit, hop, is_back) = (about.circuit, about.hop, about.is_back);
        let (mut read, mut wake) = (0, 0);
        if self.all() {
            let last = burst.segments.last().map_or(0, |flying| flying.packet);
            wake = self.wake(host, tid, now, WokenBy::Packet, last);
            read = self.world.read_id(host);
            self.world.rows.reads.push(Read {
                read,
                stream: id,
                offset: burst.offset,
                bytes: burst.bytes,
                at_ns: now,
                pid: tid,
                tid,
                call: Call::Read.into(),
                address,
                wake,
            });
        }
        let mut queue = burst.queue;
        for flying in &burst.segments {
            self.world.received(flying, flying.whole, now, queue, read, ReceivedFate::Read);
            queue += flying.payload;
        }
        let streams = &self.circuits[circuit].streams;
        match (is_back, hop) {
            (false, hop) if hop + 1 < HOPS => {
                let next = streams[hop + 1][0];
                self.write(next, burst.bytes, now, wake, (read, How::SameTurn));
            }
            (false, _) => self.serve(circuit, now, wake, (read, How::SameTurn)),
            (true, 0) => self.fetched(circuit, burst.bytes, now),
            (true, _) => {
                let next = streams[hop - 1][1];
                self.write(next, burst.bytes, now, wake, (read, How::SameTurn));
            }
        }
    }

    /// The server writes as much of what was asked for as may be under way.
    fn serve(&mut self, circuit: usize, now: u64, wake: u64, cause: (u64, How)) {
        if cause.0 != 0 {
            self.circuits[circuit].asked = cause.0;
        }
        if self.world.made >= self.packets {
            let about = &mut self.circuits[circuit];
            about.unread -= about.unwritten;
            about.unwritten = 0;
        }
        loop {
            let about = &mut self.circuits[circuit];
            let under_way = about.unread - about.unwritten;
            if about.unwritten == 0 || under_way >= MOST_UNREAD * BURST * SEGMENT {
                break;
            }
            let bytes = about.unwritten.min(BURST * SEGMENT);
            about.unwritten -= bytes;
            let stream = about.streams[HOPS - 1][1];
            self.write(stream, bytes, now, wake, cause);
        }
    }

    /// The client has some of what it asked for.
    fn fetched(&mut self, circuit: usize, bytes: u64, now: u64) {
        let about = &mut self.circuits[circuit];
        about.unread -= bytes;
        if about.unread == 0 {
            let pause = 100_000_000 + self.world.rng.below(3_000_000_000);
            self.at(now + pause, Event::Begin(circuit));
        } else {
            let hosts = about.hosts;
            let way: u64 = hosts.windows(2).map(|pair| self.world.route(pair[0], pair[1])).sum();
            self.at(now + way, Event::Credit(circuit));
        }
    }

    /// The server hears that it may write more.
    fn credit(&mut self, circuit: usize, now: u64) {
        let about = &self.circuits[circuit];
        let (asked, server, stream) = (about.asked, about.hosts[HOPS], about.streams[HOPS - 1][1]);
        if about.unwritten > 0 {
            let tid = self.streams[stream].tid_from;
            let wake = if self.all() { self.wake(server, tid, now, WokenBy::Timer, 0) } else { 0 };
            self.serve(circuit, now, wake, (asked, How::Candidate));
        }
    }

    /// Both ends of all streams.
    fn end(&mut self, now: u64) {
        if self.world.level < Level::All {
            return;
        }
        for stream in &self.streams {
            let rows = [stream.row(&self.world, Side::Writer, now), stream.row(&self.world, Side::Reader, now)];
            self.world.rows.streams.extend(rows);
        }
    }
}
