//! Packets on their sender's side: made, waiting in the interface, gone.

use super::Trace;
use crate::choices::{Layer, SentFate};
use crate::table::tell;
use crate::tables::{Link, Sent};
use base::{HostId, SimDuration, SimTime};

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
}

/// PSH and FIN, which only a train's last segment has.
const LAST_FLAGS: u8 = 0x09;

/// A packet that has been made and has not left.
#[derive(Debug)]
pub(super) struct Waiting {
    number: u64,
    /// None once it has left.
    sent: Option<Sent>,
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
    /// The stack has made packets for `eth0`. `history` gives, for each segment by its place in its stream (first byte, end), when its
    /// last byte was written and which packet carried its first byte before.
    pub fn made(&mut self, now: SimTime, made: &Made, history: impl FnMut(u64, u64) -> (SimTime, u64)) {
        let host = self.host;
        self.each_segment(now, made, history, |trace, sent| {
            let (number, bytes) = (sent.packet, sent.bytes);
            let sent = Sent { uplink_queue_bytes: trace.waiting_bytes, to_host: host, ..sent };
            trace.waiting_bytes += bytes;
            trace.waiting.push_back(Waiting { number, sent: Some(sent) });
        });
    }

    /// The stack has made packets that go round the loopback interface, which takes no time.
    pub fn looped(&mut self, now: SimTime, made: &Made, history: impl FnMut(u64, u64) -> (SimTime, u64)) {
        self.advance(now);
        let host = self.host;
        self.each_segment(now, made, history, |trace, sent| {
            trace.push_sent(Sent { to_host: host, fate: SentFate::Looped.into(), ..sent });
        });
    }

    /// A datagram that goes in fragments, which name it as their parent.
    pub fn fragmented(&mut self, now: SimTime, made: &Made) {
        self.advance(now);
        let host = self.host;
        self.each_segment(
            now,
            made,
            |_, _| (now, 0),
            |trace, sent| {
                if trace.keeps_packets() {
                    tell(&mut trace.rows.sent, Sent { to_host: host, fate: SentFate::Fragmented.into(), ..sent });
                }
            },
        );
    }

    fn each_segment(
        &mut self,
        now: SimTime,
        made: &Made,
        mut history: impl FnMut(u64, u64) -> (SimTime, u64),
        mut each: impl FnMut(&mut Trace, Sent),
    ) {
        let segments = made.segments();
        for at in 0..segments {
            let is_last = at + 1 == segments;
            let start = at * made.mss;
            let payload = if is_last { made.payload - start } else { made.mss };
            let offset = made.offset + start;
            let (written, copy_of) = history(offset, offset + payload);
            let flags = if is_last { made.flags } else { made.flags & !LAST_FLAGS };
            each(
                self,
                Sent {
                    packet: made.number + at,
                    parent: made.parent,
                    copy_of,
                    quotes: made.quotes,
                    stream: made.stream,
                    offset,
                    payload,
                    bytes: payload + made.headers,
                    protocol: made.protocol.into(),
                    flags: flags.into(),
                    to_host: 0,
                    made_ns: now.as_nanos(),
                    socket_ns: now.saturating_since(written).as_nanos(),
                    uplink_ns: 0,
                    uplink_queue_bytes: 0,
                    route_ns: 0,
                    fate: SentFate::Waiting.into(),
                },
            );
        }
    }

    /// Packets have left on the line, their last bit at `at`, for `to`; the network takes `route` for them, or loses them. Those that
    /// go to several hosts have the row of the first.
    pub fn left(&mut self, at: SimTime, number: u64, segments: u64, to: HostId, route: Option<SimDuration>) {
        self.advance(at);
        let fate = if route.is_some() { SentFate::Carried } else { SentFate::Lost };
        for number in number..number + segments {
            let Some(mut sent) = self.take_waiting(number) else { continue };
            sent.to_host = to.0.into();
            sent.uplink_ns = at.as_nanos().saturating_sub(sent.made_ns);
            sent.route_ns = route.map_or(0, SimDuration::as_nanos);
            sent.fate = fate.into();
            let count = self.links.entry(sent.to_host).or_default();
            count.packets += 1;
            count.bytes += sent.bytes;
            count.lost += u64::from(route.is_none());
            self.push_sent(sent);
        }
    }

    /// Packets that do not leave for another host.
    pub fn gone(&mut self, now: SimTime, number: u64, segments: u64, fate: SentFate) {
        self.advance(now);
        for number in number..number + segments {
            let Some(mut sent) = self.take_waiting(number) else { continue };
            sent.uplink_ns = now.as_nanos().saturating_sub(sent.made_ns);
            sent.fate = fate.into();
            if matches!(fate, SentFate::Refused | SentFate::Dropped) {
                self.links.entry(sent.to_host).or_default().dropped += 1;
            }
            if self.keeps_packets() {
                tell(&mut self.rows.sent, sent);
            }
        }
    }

    fn push_sent(&mut self, sent: Sent) {
        self.spent(Layer::Socket, sent.socket_ns, sent.bytes);
        if sent.fate != u64::from(SentFate::Looped) {
            self.spent(Layer::Uplink, sent.uplink_ns, sent.bytes);
        }
        if sent.fate == u64::from(SentFate::Carried) {
            self.spent(Layer::Route, sent.route_ns, sent.bytes);
        }
        if self.keeps_packets() {
            tell(&mut self.rows.sent, sent);
        }
    }

    /// Most are the first that wait.
    fn take_waiting(&mut self, number: u64) -> Option<Sent> {
        let at = match self.waiting.front() {
            Some(first) if first.number == number => 0,
            _ => self.waiting.binary_search_by_key(&number, |waiting| waiting.number).ok()?,
        };
        let sent = self.waiting[at].sent.take()?;
        self.waiting_bytes -= sent.bytes;
        while self.waiting.front().is_some_and(|waiting| waiting.sent.is_none()) {
            self.waiting.pop_front();
        }
        Some(sent)
    }

    pub(super) fn give_up_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        if self.keeps_packets() {
            self.rows.sent.extend(waiting.into_iter().filter_map(|waiting| waiting.sent));
        }
    }
}
