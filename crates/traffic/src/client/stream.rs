//! The client's end of a Markov stream: it walks the model, sends its own packets when they are due, tells the server ahead of time when
//! to send the server's, and verifies what comes.

use crate::clock::Time;
use crate::content::Content;
use crate::markov::{Model, Observation, Walk};
use crate::pace::{self, DATA_BYTES, PACKET_BYTES, Pace, TRAILER_BYTES, frame};
use crate::random::Random;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// A piece of the schedule ends after so many packets or so much time.
const PIECE_STEPS: usize = 4096;
const PIECE_TIME: Duration = Duration::from_secs(60);

/// A walk that is longer is not counted out in advance.
const LONGEST_COUNT: usize = 65_536;

/// Packets that are written at once; more wait until these have gone.
const AT_ONCE: usize = 16;

/// Walks the model piece by piece.
#[derive(Clone)]
struct Planner {
    model: Rc<Model>,
    walk: Walk,
    random: Random,
    /// Time since the client's last packet, and since the server's.
    up_gap: Duration,
    down_gap: Duration,
    ended: bool,
    /// The server's packets so far.
    down_packets: u64,
    longest_down_gap: Duration,
}

impl Planner {
    /// The next piece: delays before the client's packets, and the encoded delays of the server's. Returns the time that it spans.
    fn piece(&mut self, up: &mut VecDeque<Duration>, down: &mut Vec<u8>) -> Duration {
        let mut span = Duration::ZERO;
        for _ in 0..PIECE_STEPS {
            if self.ended || span >= PIECE_TIME {
                break;
            }
            let (observation, delay) = self.walk.step(&self.model, &mut self.random);
            match observation {
                Observation::ToServer => up.push_back(std::mem::take(&mut self.up_gap)),
                Observation::ToClient => {
                    self.longest_down_gap = self.longest_down_gap.max(self.down_gap);
                    pace::write_varint(down, std::mem::take(&mut self.down_gap).as_micros() as u64);
                    self.down_packets += 1;
                }
                Observation::End => {
                    self.ended = true;
                    break;
                }
            }
            self.up_gap += delay;
            self.down_gap += delay;
            span += delay;
        }
        span
    }

    /// The server's packets of the whole stream; `None` if there is no end in sight.
    fn count(mut self) -> Option<u64> {
        let (mut up, mut down) = (VecDeque::new(), Vec::new());
        for _ in 0..LONGEST_COUNT / PIECE_STEPS {
            self.piece(&mut up, &mut down);
            up.clear();
            down.clear();
            if self.ended {
                return Some(self.down_packets);
            }
        }
        None
    }
}

pub struct Stream {
    planner: Planner,
    /// Delays of the client's packets that are still to be sent.
    up: VecDeque<Duration>,
    up_pace: Pace,
    /// Up to when the schedule has been made, and when its next piece is to be made.
    planned: Time,
    next_piece: Time,
    end_sent: bool,
    up_content: Content,
    down_content: Content,
    sent: u64,
    received: u64,
    trailer: Vec<u8>,
}

impl Stream {
    pub fn new(model: Rc<Model>, seed: u64, now: Time) -> Self {
        let (up, down) = pace::seeds(seed);
        let planner = Planner {
            walk: model.walk(),
            model,
            random: Random::new(seed),
            up_gap: Duration::ZERO,
            down_gap: Duration::ZERO,
            ended: false,
            down_packets: 0,
            longest_down_gap: Duration::ZERO,
        };
        Stream {
            planner,
            up: VecDeque::new(),
            up_pace: Pace::new(now),
            planned: now,
            next_piece: now,
            end_sent: false,
            up_content: Content::new(up),
            down_content: Content::new(down),
            sent: 0,
            received: 0,
            trailer: Vec::new(),
        }
    }

    /// The bytes that the server will send in all; 0 where no end is in sight.
    pub fn planned_bytes(&self) -> u64 {
        self.planner.clone().count().unwrap_or(0) * PACKET_BYTES as u64
    }

    pub fn received(&self) -> u64 {
        self.received
    }

    pub fn longest_gap(&self) -> Duration {
        self.planner.longest_down_gap.max(self.up.front().copied().unwrap_or_default())
    }

    /// Appends what is due by `now`; whether that was anything.
    pub fn write(&mut self, out: &mut Vec<u8>, now: Time) -> bool {
        let before = out.len();
        if !self.planner.ended && now >= self.next_piece {
            self.plan(out, now);
        }
        if self.up.front().is_some_and(|delay| self.up_pace.due(*delay) <= now) {
            for _ in 0..AT_ONCE {
                let Some(&delay) = self.up.front() else { break };
                if self.up_pace.due(delay) > now + pace::TOGETHER {
                    break;
                }
                self.up_pace.leave(delay, now);
                self.up.pop_front();
                self.packet(out);
            }
        }
        if self.planner.ended && self.up.is_empty() && !std::mem::replace(&mut self.end_sent, true) {
            out.extend_from_slice(&frame::header(frame::END, 0));
        }
        out.len() > before
    }

    fn packet(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&frame::header(frame::DATA, DATA_BYTES));
        let start = out.len();
        out.resize(start + DATA_BYTES, 0);
        self.up_content.fill(self.sent, &mut out[start..]);
        self.sent += DATA_BYTES as u64;
    }

    /// Makes the next piece of the schedule, unless much of what was planned has not happened yet.
    fn plan(&mut self, out: &mut Vec<u8>, now: Time) {
        let waiting_down = self.planner.down_packets - self.received / PACKET_BYTES as u64;
        if self.up.len().max(waiting_down as usize) > 2 * PIECE_STEPS {
            self.next_piece = now + Duration::from_secs(1);
            return;
        }
        let mut down = Vec::new();
        let span = self.planner.piece(&mut self.up, &mut down);
        self.planned += span;
        self.next_piece = self.planned - span / 2;
        if !down.is_empty() {
            out.extend_from_slice(&frame::header(frame::SCHEDULE, down.len()));
            out.append(&mut down);
        }
    }

    /// When `write` has something to do again; `None` if only the server has.
    pub fn next_due(&self) -> Option<Time> {
        let packet = self.up.front().map(|delay| self.up_pace.due(*delay));
        let piece = (!self.planner.ended).then_some(self.next_piece);
        packet.into_iter().chain(piece).min()
    }

    /// Verifies what came; whether the stream is complete. The error says what is wrong.
    pub fn arrived(&mut self, bytes: &[u8]) -> Result<bool, String> {
        let announced = self.planner.down_packets * PACKET_BYTES as u64;
        let length = (announced - self.received).min(bytes.len() as u64) as usize;
        let (content, rest) = bytes.split_at(length);
        if let Some(offset) = self.down_content.first_difference(self.received, content) {
            return Err(format!("byte {offset} of the stream is not what its seed gives"));
        }
        self.received += length as u64;
        self.trailer.extend_from_slice(rest);
        match self.trailer.len() {
            0 => Ok(false),
            _ if !self.end_sent => Err("the server sent more than its schedule says".into()),
            TRAILER_BYTES if self.trailer == pace::trailer(true, self.sent) => Ok(true),
            TRAILER_BYTES.. => Err("the server received something else than what was sent".into()),
            _ => Ok(false),
        }
    }
}
