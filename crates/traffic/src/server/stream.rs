//! The server's end of a Markov stream: it sends packets when the client's schedule says, and verifies those of the client.

use crate::clock::Time;
use crate::content::Content;
use crate::pace::{self, PACKET_BYTES, Pace, frame};
use std::time::Duration;

pub struct Stream {
    /// Encoded delays of packets that are still to be sent.
    schedule: Vec<u8>,
    /// How much of the schedule is done.
    at: usize,
    pace: Pace,
    up_content: Content,
    down_content: Content,
    pub received: u64,
    pub sent: u64,
    verified: bool,
    /// The client will say nothing more.
    ended: bool,
    trailer_sent: bool,
    /// A frame's header as far as it came, and what is left of the frame.
    header: Vec<u8>,
    kind: u8,
    left: usize,
}

/// Packets that are written at once; more wait until these have gone.
const AT_ONCE: usize = 16;

/// A schedule that is not done yet is at most so long.
const LONGEST_SCHEDULE: usize = 1 << 20;

impl Stream {
    pub fn new(seed: u64, now: Time) -> Self {
        let (up, down) = pace::seeds(seed);
        Stream {
            schedule: Vec::new(),
            at: 0,
            pace: Pace::new(now),
            up_content: Content::new(up),
            down_content: Content::new(down),
            received: 0,
            sent: 0,
            verified: true,
            ended: false,
            trailer_sent: false,
            header: Vec::new(),
            kind: 0,
            left: 0,
        }
    }

    /// Takes what came. The error is why the stream cannot go on.
    pub fn arrived(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.left == 0 {
                self.header.push(bytes[0]);
                bytes = &bytes[1..];
                if let Ok(header) = <[u8; frame::HEADER_BYTES]>::try_from(self.header.as_slice()) {
                    (self.kind, self.left) = frame::read_header(header);
                    self.header.clear();
                    self.begin_frame()?;
                }
                continue;
            }
            let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
            match self.kind {
                frame::SCHEDULE => self.schedule.extend_from_slice(part),
                _ => {
                    self.verified &= self.up_content.first_difference(self.received, part).is_none();
                    self.received += part.len() as u64;
                }
            }
            self.left -= part.len();
            bytes = rest;
        }
        Ok(())
    }

    fn begin_frame(&mut self) -> Result<(), &'static str> {
        match self.kind {
            _ if self.ended => Err("a frame after the end"),
            frame::SCHEDULE => {
                self.schedule.drain(..std::mem::take(&mut self.at));
                let fits = self.schedule.len() + self.left <= LONGEST_SCHEDULE;
                fits.then_some(()).ok_or("a schedule that is too long")
            }
            frame::DATA => Ok(()),
            frame::END => {
                self.ended = true;
                Ok(())
            }
            _ => Err("an unknown kind of frame"),
        }
    }

    /// The delay before the next packet, and the bytes that it takes in the schedule.
    fn next(&self) -> Option<(Duration, usize)> {
        let (micros, length) = pace::read_varint(&self.schedule[self.at..])?;
        Some((Duration::from_micros(micros.min(1 << 40)), length))
    }

    /// Appends what is due by `now`; whether that was anything.
    pub fn write(&mut self, out: &mut Vec<u8>, now: Time) -> bool {
        let before = out.len();
        if self.next().is_some_and(|(delay, _)| self.pace.due(delay) <= now) {
            for _ in 0..AT_ONCE {
                let Some((delay, length)) = self.next() else { break };
                if self.pace.due(delay) > now + pace::TOGETHER {
                    break;
                }
                self.pace.leave(delay, now);
                self.at += length;
                let start = out.len();
                out.resize(start + PACKET_BYTES, 0);
                self.down_content.fill(self.sent, &mut out[start..]);
                self.sent += PACKET_BYTES as u64;
            }
        }
        if self.ended && self.next().is_none() && !std::mem::replace(&mut self.trailer_sent, true) {
            out.extend_from_slice(&pace::trailer(self.verified, self.received));
        }
        out.len() > before
    }

    /// When `write` has something to do again; `None` if that depends on the client.
    pub fn next_due(&self) -> Option<Time> {
        self.next().map(|(delay, _)| self.pace.due(delay))
    }

    pub fn is_done(&self) -> bool {
        self.trailer_sent
    }
}
