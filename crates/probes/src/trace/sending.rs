//! Packets on their sender's side: made, waiting in the interface, gone.

use super::Trace;
use crate::choices::{Layer, SentFate};
use crate::rows::Train;
use crate::table::{Row, tell};
use crate::tables::{Link, Sent};
use base::{HostId, SimDuration, SimTime};
use smallvec::SmallVec;

/// A packet, or a train of segments with numbers that count up, that the stack has just made.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// Of the first.
    pub number: u64,
    pub parent: u64,
    pub quotes: u64,
    pub stream: u64,
    pub offset: u64,
    /// Of all of the train, in bytes.
    pub payload: u64,
    /// The payload of each of its segments but the last; 0 of a single packet.
    pub mss: u64,
    /// Bytes of IP and transport headers of each.
    pub headers: u64,
    pub protocol: u8,
    /// Those of the last segment; the others have neither PSH nor FIN.
    pub flags: u8,
}

impl Made {
    pub fn segments(&self) -> u64 {
        if self.mss == 0 { 1 } else { self.payload.div_ceil(self.mss).max(1) }
    }

    /// Its packets, one by one.
    pub fn each(self) -> impl Iterator<Item = Made> {
        let (segments, mss) = (self.segments(), self.mss);
        (0..segments).map(move |at| {
            let is_last = at + 1 == segments;
            Made {
                number: self.number + at,
                offset: self.offset + at * mss,
                payload: if is_last { self.payload - at * mss } else { mss },
                flags: if is_last { self.flags } else { self.flags & !LAST_FLAGS },
                mss: 0,
                ..self.clone()
            }
        })
    }

    /// Of all of it, as IP packets.
    fn bytes(&self) -> u64 {
        self.payload + self.segments() * self.headers
    }
}

/// PSH and FIN, which only a train's last segment has.
const LAST_FLAGS: u8 = 0x09;

/// A packet or a train that has been made and has not left.
#[derive(Debug)]
pub(super) struct Waiting {
    made: Made,
    at: SimTime,
    queue_bytes: u64,
    /// Where writes ended that its bytes are of, and when they were.
    written: Written,
    /// The packet that carried its first byte before.
    copy_of: u64,
}

/// A datagram that was cut into fragments, of which some have not left.
#[derive(Debug)]
pub(super) struct Cut {
    whole: Waiting,
    /// Where the last fragment that has left goes, when its last bit left, and how long its route is.
    to: u64,
    at: SimTime,
    route_ns: u64,
}

/// Ends of writes in a stream, ascending, with their times.
pub type Written = SmallVec<[(u64, SimTime); 1]>;

impl Waiting {
    fn end(&self) -> u64 {
        self.made.number + self.made.segments()
    }

    /// Cuts so many packets off its beginning, of which it has more.
    fn split(&mut self, packets: u64) -> Waiting {
        let (mss, bytes) = (self.made.mss, packets * (self.made.mss + self.made.headers));
        let first = Waiting {
            made: Made {
                payload: packets * mss,
                flags: self.made.flags & !LAST_FLAGS,
                mss: if packets == 1 { 0 } else { mss },
                ..self.made.clone()
            },
            written: self.written.clone(),
            ..*self
        };
        self.made.number += packets;
        self.made.offset += packets * mss;
        self.made.payload -= packets * mss;
        self.queue_bytes += bytes;
        if self.made.payload <= mss {
            self.made.mss = 0;
        }
        first
    }
}

/// What a second carried to one host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkCount {
    packets: u64,
    bytes: u64,
    lost: u64,
    dropped: u64,
}

impl LinkCount {
    pub fn row(self, from_ns: u64, src: u64, dst: u64) -> Link {
        let LinkCount { packets, bytes, lost, dropped } = self;
        Link { from_ns, pair: src << 22 | dst, src, dst, packets, bytes, lost, dropped }
    }
}

impl Trace {
    /// The stack has made a packet or a train for `eth0`; what is told of its bytes' writes, and which packet carried the first before.
    pub fn made(&mut self, now: SimTime, made: Made, written: Written, copy_of: u64) {
        let bytes = made.bytes();
        self.identifiers.make(self.host, now, made.number, made.segments());
        let queue_bytes = self.waiting_bytes;
        self.waiting_bytes += bytes;
        self.waiting.push_back(Waiting { made, at: now, queue_bytes, written, copy_of });
    }

    /// The stack has made packets that go round the loopback interface, which takes no time.
    pub fn looped(&mut self, now: SimTime, made: Made, written: Written, copy_of: u64) {
        self.advance(now);
        self.identifiers.make(self.host, now, made.number, made.segments());
        let waiting = Waiting { made, at: now, queue_bytes: 0, written, copy_of };
        self.tell_sent(&waiting, self.host, now, 0, SentFate::Looped);
    }

    /// A datagram that goes in fragments, which name it as their parent. It has left when the last of them has.
    pub fn fragmented(&mut self, now: SimTime, made: Made) {
        self.advance(now);
        let queue_bytes = self.waiting_bytes;
        let whole = Waiting { made, at: now, queue_bytes, written: Written::new(), copy_of: 0 };
        self.cut.push(Cut { whole, to: self.host, at: now, route_ns: 0 });
    }

    /// A fragment of the datagram `whole` has left for `to`.
    fn fragment_left(&mut self, whole: u64, to: u64, at: SimTime, route_ns: u64) {
        if let Some(cut) = self.cut.iter_mut().find(|cut| cut.whole.made.number == whole) {
            (cut.to, cut.at, cut.route_ns) = (to, at, route_ns);
        }
        self.settle_cut(whole);
    }

    /// Writes the row of a datagram once all of its fragments are made and none waits.
    pub(super) fn settle_cut(&mut self, whole: u64) {
        let is_being_cut = self.parent.is_some_and(|(parent, _)| parent == whole);
        if is_being_cut || self.waiting.iter().any(|waiting| waiting.made.parent == whole) {
            return;
        }
        if let Some(place) = self.cut.iter().position(|cut| cut.whole.made.number == whole) {
            let Cut { whole, to, at, route_ns } = self.cut.remove(place);
            self.tell_sent(&whole, to, at, route_ns, SentFate::Fragmented);
        }
    }

    /// Packets have left on the line, their last bit at `at`, for `to`; the network takes `route` for them, or loses them. Those that
    /// go to several hosts have the row of the first.
    pub fn left(&mut self, at: SimTime, number: u64, segments: u64, to: HostId, route: Option<SimDuration>) {
        self.advance(at);
        let to = u64::from(to.0);
        let fate = if route.is_some() { SentFate::Carried } else { SentFate::Lost };
        while let Some(waiting) = self.take_waiting(number, segments) {
            let packets = waiting.made.segments();
            let count = self.links.entry(to).or_default();
            count.packets += packets;
            count.bytes += waiting.made.bytes();
            count.lost += if route.is_none() { packets } else { 0 };
            let route_ns = route.map_or(0, SimDuration::as_nanos);
            self.tell_sent(&waiting, to, at, route_ns, fate);
            if waiting.made.parent != 0 {
                self.fragment_left(waiting.made.parent, to, at, route_ns);
            }
        }
    }

    /// Packets that do not leave for another host.
    pub fn gone(&mut self, now: SimTime, number: u64, segments: u64, fate: SentFate) {
        self.advance(now);
        while let Some(waiting) = self.take_waiting(number, segments) {
            if matches!(fate, SentFate::Refused | SentFate::Dropped) {
                self.links.entry(self.host).or_default().dropped += waiting.made.segments();
            }
            self.tell_sent(&waiting, self.host, now, 0, fate);
            if waiting.made.parent != 0 {
                self.settle_cut(waiting.made.parent);
            }
        }
    }

    /// Rows for packets that have the same fate, one for each write that their last bytes are of.
    fn tell_sent(&mut self, waiting: &Waiting, to_host: u64, at: SimTime, route_ns: u64, fate: SentFate) {
        let Waiting { made, at: made_at, queue_bytes, written, copy_of } = waiting;
        let uplink_ns = at.saturating_since(*made_at).as_nanos();
        let (segments, end) = (made.segments(), made.offset + made.payload);
        let mut told = 0;
        let mut writes = written.iter();
        while told < segments {
            // Segments whose last byte was written by then.
            let (until, wrote_at) = writes.next().copied().unwrap_or((u64::MAX, *made_at));
            let done = if until >= end {
                segments
            } else {
                until.saturating_sub(made.offset).checked_div(made.mss).unwrap_or(0)
            };
            if done <= told {
                continue;
            }
            let (packets, is_last) = (done - told, done == segments);
            let offset = made.offset + told * made.mss;
            let payload = if is_last { end - offset } else { packets * made.mss };
            let each = if packets == 1 { payload } else { made.mss };
            let common = if is_last && packets == 1 { made.flags } else { made.flags & !LAST_FLAGS };
            let first = Sent {
                packet: made.number + told,
                parent: made.parent,
                copy_of: if told == 0 { *copy_of } else { 0 },
                quotes: made.quotes,
                stream: made.stream,
                offset,
                payload: each,
                bytes: each + made.headers,
                protocol: made.protocol.into(),
                flags: common.into(),
                to_host,
                made_ns: made_at.as_nanos(),
                socket_ns: made_at.saturating_since(wrote_at).as_nanos(),
                uplink_ns,
                uplink_queue_bytes: queue_bytes + told * (made.mss + made.headers),
                route_ns,
                fate: fate.into(),
            };
            let bytes = payload + packets * made.headers;
            if matches!(fate, SentFate::Carried | SentFate::Lost | SentFate::Looped) {
                self.histograms.add(Layer::Socket, first.socket_ns, packets, bytes);
            }
            if matches!(fate, SentFate::Carried | SentFate::Lost) {
                self.histograms.add(Layer::Uplink, uplink_ns, packets, bytes);
            }
            if fate == SentFate::Carried {
                self.histograms.add(Layer::Route, route_ns, packets, bytes);
            }
            told = done;
            if !self.keeps_packets() {
                continue;
            }
            if packets == 1 {
                tell(&mut self.rows.sent, first);
                continue;
            }
            let train = Train {
                first,
                segments: packets as u32,
                mss: made.mss as u32,
                last_lacks: (packets * made.mss - payload) as u32,
                last_flags: if is_last { made.flags & LAST_FLAGS } else { 0 },
            };
            train.rows().for_each(|row| row.fire());
            self.rows.sent_trains.push(train);
        }
    }

    /// The next of these packets that wait, as far as they were made together. Most are the first that wait.
    fn take_waiting(&mut self, number: u64, segments: u64) -> Option<Waiting> {
        let end = number + segments;
        let at = match self.waiting.front() {
            Some(first) if first.end() > number => 0,
            _ => self.waiting.partition_point(|waiting| waiting.end() <= number),
        };
        let found = self.waiting.get_mut(at).filter(|found| found.made.number < end)?;
        if found.made.number < number {
            // What is before it stays.
            let before = found.split(number - found.made.number);
            self.waiting.insert(at, before);
            return self.take_waiting(number, segments);
        }
        let taken = if found.end() > end {
            Some(found.split(end - found.made.number))
        } else if at == 0 {
            self.waiting.pop_front()
        } else {
            self.waiting.remove(at)
        }?;
        self.waiting_bytes -= taken.made.bytes();
        Some(taken)
    }

    pub(super) fn give_up_waiting(&mut self, now: SimTime) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.tell_sent(&waiting, self.host, now.max(waiting.at), 0, SentFate::Waiting);
        }
        for Cut { whole, to, at, route_ns } in std::mem::take(&mut self.cut) {
            self.tell_sent(&whole, to, at, route_ns, SentFate::Fragmented);
        }
    }
}
