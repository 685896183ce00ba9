//! What the program says on standard output: one JSON object a line, written as a whole and at once. `docs/traffic.md` describes each.

use crate::clock;
use serde::Serialize;
use std::io::{self, Write};

/// A line. Times called `at`, `start` and `unix` are seconds since 1970, all others durations in seconds.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line<'a> {
    Start {
        version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        behaviours: Option<Vec<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        seed: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        listen: Option<Vec<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        control: Option<String>,
        unix: f64,
    },
    Transfer(&'a Transfer),
    Request(&'a Request<'a>),
    Circuit(&'a Circuit),
    Bandwidth {
        at: f64,
        read: u64,
        written: u64,
    },
    Stream(&'a TorStream),
    /// Of a flood: all until now.
    Circuits {
        at: f64,
        begun: u64,
        refused: u64,
        built: u64,
        failed: u64,
    },
    /// Sockets that are open.
    Sockets {
        at: f64,
        open: u64,
        /// Bytes of the kernel's objects (Slab in /proc/meminfo).
        #[serde(skip_serializing_if = "Option::is_none")]
        slab: Option<u64>,
        /// Mean time of a call that makes a socket and connects it, since the last line.
        #[serde(skip_serializing_if = "Option::is_none")]
        connect: Option<f64>,
        /// Why there are no more.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
    },
    Event {
        at: f64,
        event: &'a str,
        text: &'a str,
    },
    End {
        #[serde(flatten)]
        totals: Totals,
        unix: f64,
    },
}

/// One attempt at a transfer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Transfer {
    /// Counts the client's transfers from 1; attempts at the same transfer share it.
    pub id: u64,
    pub behaviour: &'static str,
    /// Of a Markov model's streams: the flow that it belongs to, by the number of who draws flows, from 0, and the flow's, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow: Option<String>,
    pub server: String,
    pub direction: &'static str,
    /// Payload that was asked for, in `direction`.
    pub bytes: u64,
    /// Payload that came.
    pub received: u64,
    /// Bytes given to the connection after SOCKS: request and payload.
    pub sent: u64,
    pub start: f64,
    pub connect: Option<f64>,
    pub socks: Option<f64>,
    pub request: Option<f64>,
    pub first_byte: Option<f64>,
    pub tenths: Vec<f64>,
    pub last_byte: Option<f64>,
    /// When the attempt ended, well or not.
    pub end: f64,
    pub verified: bool,
    pub error: Option<Failure>,
    /// 1 for the first attempt, more for retries.
    pub attempt: u32,
}

/// Why a transfer failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    pub stage: &'static str,
    pub reason: String,
    pub detail: String,
}

/// A request that the server answered.
#[derive(Clone, Debug, Serialize)]
pub struct Request<'a> {
    pub at: f64,
    pub peer: String,
    pub request: &'a str,
    pub status: u16,
    pub received: u64,
    pub sent: u64,
    pub complete: bool,
}

/// A circuit of tor that was built or failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Circuit {
    pub id: u64,
    pub at: f64,
    /// From LAUNCHED to BUILT.
    pub build: Option<f64>,
    pub hops: usize,
    pub purpose: Option<String>,
    pub path: Vec<String>,
    pub error: Option<String>,
}

/// A change of one of tor's streams.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TorStream {
    pub id: u64,
    pub at: f64,
    pub status: String,
    pub circuit: u64,
    pub target: String,
    pub reason: Option<String>,
}

/// What the last line counts; each program fills what it has.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Transfers that were under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Circuits of a flood that were built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub circuits: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Messages that came, and that left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handled: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
}

/// Where lines go.
pub struct Output {
    writer: Box<dyn Write>,
    buffer: Vec<u8>,
    /// Nobody reads any more.
    closed: bool,
}

impl Output {
    pub fn stdout() -> Self {
        Output { writer: Box::new(io::stdout()), buffer: Vec::new(), closed: false }
    }

    /// Writes the line. When the reader has gone, lines are dropped and `is_closed` says so.
    pub fn line(&mut self, line: &Line) {
        self.buffer.clear();
        if serde_json::to_writer(&mut self.buffer, line).is_err() {
            return;
        }
        self.buffer.push(b'\n');
        let written = self.writer.write_all(&self.buffer).and_then(|()| self.writer.flush());
        self.closed |= written.is_err();
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn end(&mut self, totals: Totals) {
        self.line(&Line::End { totals, unix: clock::unix() });
    }
}
