//! One attempt at a transfer: a connection from its beginning to its last byte, driven by readiness, with its record.

use super::connection::{Connection, Read};
use super::socks::{self, Credentials, Reply};
use super::stream::Stream;
use crate::clock::{self, Time};
use crate::config::{Direction, Peer};
use crate::content::Content;
use crate::markov::Model;
use crate::marks::mark;
use crate::output::{self, Failure};
use crate::timers::Wake;
use mio::net::TcpStream;
use mio::{Registry, Token};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use xxhash_rust::xxh3::Xxh3;

/// What is to be transferred.
#[derive(Clone)]
pub struct Order {
    pub id: u64,
    pub attempt: u32,
    /// Who ordered it: an actor's index, and the flow that it belongs to.
    pub actor: usize,
    pub flow: u64,
    pub kind: &'static str,
    pub direction: Direction,
    pub work: Work,
    /// Contents and models follow from it.
    pub seed: u64,
    pub server: Peer,
    pub credentials: Option<Credentials>,
    pub timeout: Option<Duration>,
    pub stall: Option<Duration>,
}

#[derive(Clone)]
pub enum Work {
    Download(u64),
    Upload(u64),
    Stream(Rc<Model>),
}

/// What a transfer waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The connection.
    Connection,
    /// The connection, or this moment.
    Until(Time),
    /// Nothing: others have their turn first.
    Turn,
    Done,
}

enum Stage {
    Connecting,
    SocksMethod,
    SocksAuthentication,
    SocksReply,
    Head,
    Body,
    Upload(Box<Xxh3>),
    /// The server's word about an upload: what the digest has to be, and the length of the answer.
    Answer(u64),
    Stream(Box<Stream>),
}

pub struct Transfer {
    pub order: Order,
    pub record: output::Transfer,
    /// When the event loop will drive the transfer in any case.
    pub wake: Wake,
    began: Time,
    /// When a byte last went or came.
    touched: Time,
    through_socks: bool,
    /// Further addresses of the same host.
    others: Vec<SocketAddr>,
    connection: Connection,
    stage: Stage,
    content: Content,
    /// Content that has been sent.
    uploaded: u64,
    /// A stream's request has been answered.
    upgraded: bool,
}

/// Reads and writes of one turn, so that a fast connection leaves the others time.
const TURN: usize = 32;

/// The answer to a request is this long at most, its head included.
const LONGEST_ANSWER: usize = 16 << 10;

impl Transfer {
    /// Begins to connect to one of `addresses`: the proxy's, or the server's.
    pub fn begin(
        order: Order,
        socks: bool,
        addresses: Result<Vec<SocketAddr>, Failure>,
    ) -> Result<Self, Box<output::Transfer>> {
        let now = clock::now();
        let mut record = output::Transfer {
            id: order.id,
            behaviour: order.kind,
            flow: (order.flow > 0).then(|| format!("{}-{}", order.actor, order.flow)),
            server: order.server.to_string(),
            direction: order.direction.name(),
            start: clock::unix(),
            attempt: order.attempt,
            bytes: match order.work {
                Work::Download(size) | Work::Upload(size) => size,
                Work::Stream(_) => 0,
            },
            ..Default::default()
        };
        let started = addresses.and_then(|mut addresses| {
            addresses.reverse();
            Ok((open(&mut addresses)?, addresses))
        });
        match started {
            Ok((connection, others)) => Ok(Transfer {
                content: Content::new(order.seed),
                order,
                record,
                wake: Wake::default(),
                began: now,
                touched: now,
                through_socks: socks,
                others,
                connection,
                stage: Stage::Connecting,
                uploaded: 0,
                upgraded: false,
            }),
            Err(failure) => {
                record.error = Some(failure);
                Err(Box::new(record))
            }
        }
    }

    /// Also to be called after a connection attempt was replaced by another, which `drive` does itself.
    pub fn register(&mut self, registry: &Registry, token: Token) -> std::io::Result<()> {
        self.connection.register(registry, token)
    }

    /// Does what can be done now.
    pub fn drive(&mut self, scratch: &mut [u8], registry: &Registry, token: Token) -> Result<Progress, Failure> {
        for _ in 0..TURN {
            if let Some(progress) = self.step(scratch, registry, token)? {
                return Ok(progress);
            }
        }
        Ok(Progress::Turn)
    }

    /// When the transfer has taken too long, if nothing changes.
    pub fn deadline(&self) -> Option<Time> {
        let patience = match &self.stage {
            Stage::Stream(stream) => stream.longest_gap(),
            _ => Duration::ZERO,
        };
        let timeout = self.order.timeout.map(|timeout| self.began + timeout);
        let stall = self.order.stall.map(|stall| self.touched + stall + patience);
        timeout.into_iter().chain(stall).min()
    }

    /// The failure of a transfer that has taken too long by `now`.
    pub fn overdue(&self, now: Time) -> Option<Failure> {
        let deadline = self.deadline().filter(|deadline| *deadline <= now)?;
        let is_timeout = self.order.timeout.is_some_and(|timeout| self.began + timeout == deadline);
        Some(match is_timeout {
            true => self.failure("timeout", format!("not done after {:?}", self.order.timeout.unwrap_or_default())),
            false => self.failure("stall", format!("no byte for {:?}", self.order.stall.unwrap_or_default())),
        })
    }

    pub fn failure(&self, reason: impl Into<String>, detail: impl Into<String>) -> Failure {
        Failure { stage: self.stage_name(), reason: reason.into(), detail: detail.into() }
    }

    fn stage_name(&self) -> &'static str {
        match self.stage {
            Stage::Connecting => "connect",
            Stage::SocksMethod | Stage::SocksAuthentication | Stage::SocksReply => "socks",
            _ if self.record.request.is_none() => "request",
            _ => "transfer",
        }
    }

    /// When a byte last went or came, from the beginning: the clock is read once for what follows from it.
    fn elapsed(&self) -> f64 {
        clock::seconds(self.touched - self.began)
    }

    /// One thing that can be done; `None` if there may be another.
    fn step(&mut self, scratch: &mut [u8], registry: &Registry, token: Token) -> Result<Option<Progress>, Failure> {
        if matches!(self.stage, Stage::Connecting) {
            return self.step_connecting(registry, token);
        }
        let before = self.connection.sent;
        let flushed = self.connection.flush();
        if self.connection.sent > before {
            self.touched = clock::now();
        }
        let flushed = flushed.map_err(|error| self.io_failure(&error))?;
        match self.stage {
            Stage::Stream(_) => return self.step_stream(flushed, scratch),
            _ if !flushed => return Ok(Some(Progress::Connection)),
            Stage::Head | Stage::Upload(_) if self.record.request.is_none() => {
                self.record.request = Some(self.elapsed())
            }
            _ => {}
        }
        if let Stage::Upload(_) = self.stage {
            return self.step_upload(scratch);
        }
        let Some(length) = self.read(scratch)? else { return Ok(Some(Progress::Connection)) };
        match self.stage {
            Stage::Body => self.arrived(&scratch[..length]),
            _ => {
                self.connection.inbox.extend_from_slice(&scratch[..length]);
                self.answered()
            }
        }
    }

    fn step_connecting(&mut self, registry: &Registry, token: Token) -> Result<Option<Progress>, Failure> {
        match self.connection.is_connected() {
            Ok(false) => return Ok(Some(Progress::Connection)),
            Ok(true) => {}
            Err(error) if self.others.is_empty() => return Err(self.io_failure(&error)),
            Err(_) => {
                self.connection = open(&mut self.others)?;
                self.connection.register(registry, token).map_err(|error| self.io_failure(&error))?;
                return Ok(Some(Progress::Connection));
            }
        }
        self.touched = clock::now();
        self.record.connect = Some(self.elapsed());
        if self.through_socks {
            self.connection.send(&socks::greeting(self.order.credentials.is_some()));
            self.stage = Stage::SocksMethod;
        } else {
            self.request();
        }
        Ok(None)
    }

    /// Reads what is there; `None` if nothing is.
    fn read(&mut self, scratch: &mut [u8]) -> Result<Option<usize>, Failure> {
        match self.connection.read(scratch) {
            Ok(Read::Bytes(length)) => {
                self.touched = clock::now();
                Ok(Some(length))
            }
            Ok(Read::Nothing) => Ok(None),
            Ok(Read::End) => Err(self.failure("eof", "the connection ended early")),
            Err(error) => Err(self.io_failure(&error)),
        }
    }

    fn io_failure(&self, error: &std::io::Error) -> Failure {
        self.failure(super::connection::reason(error.kind()), error.to_string())
    }

    /// Looks at an answer that came to the inbox.
    fn answered(&mut self) -> Result<Option<Progress>, Failure> {
        match self.stage {
            Stage::SocksMethod | Stage::SocksAuthentication | Stage::SocksReply => self.socks_answered(),
            Stage::Answer(digest) => self.upload_answered(digest),
            _ => self.head_answered(),
        }
    }

    fn socks_answered(&mut self) -> Result<Option<Progress>, Failure> {
        let inbox = &self.connection.inbox;
        let reply = match self.stage {
            Stage::SocksMethod => socks::method_reply(inbox, self.order.credentials.is_some()),
            Stage::SocksAuthentication => socks::authentication_reply(inbox),
            _ => socks::connect_reply(inbox),
        };
        match reply {
            Reply::Incomplete => return Ok(None),
            Reply::Refused(reason, detail) => return Err(self.failure(reason, detail)),
            Reply::Granted(length) => drop(self.connection.inbox.drain(..length)),
        }
        match (&self.stage, &self.order.credentials) {
            (Stage::SocksMethod, Some(credentials)) => {
                let message = socks::authentication(credentials);
                self.connection.send(&message);
                self.stage = Stage::SocksAuthentication;
            }
            (Stage::SocksReply, _) => {
                self.record.socks = Some(self.elapsed());
                self.request();
            }
            _ => {
                let message = socks::connect(&self.order.server);
                self.connection.send(&message);
                self.stage = Stage::SocksReply;
            }
        }
        Ok(None)
    }

    /// Queues the request.
    fn request(&mut self) {
        // What went before was the proxy's.
        self.connection.sent = 0;
        let (server, seed) = (&self.order.server, self.order.seed);
        let common = format!("Host: {server}\r\nUser-Agent: gnomon-traffic/{}\r\n", env!("CARGO_PKG_VERSION"));
        let (head, stage) = match &self.order.work {
            Work::Download(size) => (format!("GET /{size}?seed={seed} HTTP/1.1\r\n{common}\r\n"), Stage::Head),
            Work::Upload(size) => (
                format!("POST /upload?seed={seed} HTTP/1.1\r\n{common}Content-Length: {size}\r\n\r\n"),
                Stage::Upload(Box::default()),
            ),
            Work::Stream(model) => (
                format!(
                    "POST /stream?seed={seed} HTTP/1.1\r\n{common}Connection: Upgrade\r\nUpgrade: {}\r\n\r\n",
                    crate::http::STREAM_PROTOCOL
                ),
                Stage::Stream(Box::new(Stream::new(model.clone(), seed, clock::now()))),
            ),
        };
        let line = head.split(" HTTP/").next().unwrap_or_default();
        mark(format_args!("ask {} {line}", self.order.id));
        self.connection.send(head.as_bytes());
        if let Stage::Stream(stream) = &stage {
            self.record.bytes = stream.planned_bytes();
        }
        self.stage = stage;
    }

    /// Reads the response's head, and what came of its body with it.
    fn head_answered(&mut self) -> Result<Option<Progress>, Failure> {
        let Some(head) = self.response(200)? else { return Ok(None) };
        if head.content_length != Some(self.record.bytes) {
            let length = head.content_length.map_or("no length".into(), |length| format!("{length} bytes"));
            return Err(
                self.failure("length", format!("the server announced {length} instead of {}", self.record.bytes))
            );
        }
        self.stage = Stage::Body;
        let body = std::mem::take(&mut self.connection.inbox);
        self.arrived(&body)
    }

    /// Takes a response's head from the inbox, which must have the status; `None` while it is incomplete.
    fn response(&mut self, status: u16) -> Result<Option<crate::http::Response>, Failure> {
        match crate::http::response(&self.connection.inbox) {
            Ok(Some(response)) if response.status == status => {
                self.connection.inbox.drain(..response.head_bytes);
                Ok(Some(response))
            }
            Ok(Some(response)) => Err(self.failure(format!("http-{}", response.status), response.reason)),
            Ok(None) if self.connection.inbox.len() > LONGEST_ANSWER => {
                Err(self.failure("protocol", "the response's head is too long"))
            }
            Ok(None) => Ok(None),
            Err(detail) => Err(self.failure("protocol", detail)),
        }
    }

    /// Verifies content and counts it.
    fn arrived(&mut self, bytes: &[u8]) -> Result<Option<Progress>, Failure> {
        let wrong = |detail: String| Failure { stage: "verify", reason: "corrupt".into(), detail };
        if self.record.received + bytes.len() as u64 > self.record.bytes {
            return Err(wrong(format!("more than the {} bytes that were asked for", self.record.bytes)));
        }
        if let Some(offset) = self.content.first_difference(self.record.received, bytes) {
            self.record.received = offset;
            return Err(wrong(format!("byte {offset} is not what seed {} gives", self.order.seed)));
        }
        self.record.received += bytes.len() as u64;
        let elapsed = self.elapsed();
        self.mark(self.record.received, elapsed);
        if self.record.received < self.record.bytes {
            return Ok(None);
        }
        self.done(elapsed)
    }

    /// Notes first byte and tenths.
    fn mark(&mut self, progress: u64, elapsed: f64) {
        if progress > 0 && self.record.first_byte.is_none() && self.record.received > 0 {
            self.record.first_byte = Some(elapsed);
        }
        let planned = self.record.bytes;
        while planned > 0
            && self.record.tenths.len() < 10
            && progress * 10 >= planned * (self.record.tenths.len() as u64 + 1)
        {
            self.record.tenths.push(elapsed);
        }
    }

    fn done(&mut self, elapsed: f64) -> Result<Option<Progress>, Failure> {
        mark(format_args!("got {}", self.order.id));
        self.record.last_byte = Some(elapsed);
        self.record.verified = true;
        self.count_sent();
        Ok(Some(Progress::Done))
    }

    /// Notes how the attempt ended, and that it did so now.
    pub fn ended(&mut self, failure: Option<Failure>) {
        self.record.end = clock::seconds(clock::now() - self.began);
        self.record.error = failure;
    }

    /// Brings the record up to date with the connection.
    pub fn count_sent(&mut self) {
        if self.record.request.is_some() || matches!(self.stage, Stage::Stream(_) | Stage::Upload(_) | Stage::Head) {
            self.record.sent = self.connection.sent;
        }
    }

    fn step_upload(&mut self, scratch: &mut [u8]) -> Result<Option<Progress>, Failure> {
        let offset = self.uploaded;
        let length = (self.record.bytes - offset).min(scratch.len() as u64) as usize;
        let piece = &mut scratch[..length];
        self.content.fill(offset, piece);
        let written = match length {
            0 => 0,
            _ => self.connection.write(piece).map_err(|error| self.io_failure(&error))?,
        };
        let Stage::Upload(digest) = &mut self.stage else { return Ok(None) };
        digest.update(&piece[..written]);
        let digest = digest.digest();
        self.uploaded += written as u64;
        if written > 0 {
            self.touched = clock::now();
            let elapsed = self.elapsed();
            self.mark(self.uploaded, elapsed);
        }
        if self.uploaded == self.record.bytes {
            self.stage = Stage::Answer(digest);
        } else if written < length {
            return Ok(Some(Progress::Connection));
        }
        Ok(None)
    }

    /// Compares the digest that the server answers with that of what was sent.
    fn upload_answered(&mut self, digest: u64) -> Result<Option<Progress>, Failure> {
        let inbox = self.connection.inbox.clone();
        let Some(head) = self.response(200)? else { return Ok(None) };
        let length = head.content_length.unwrap_or(0).min(LONGEST_ANSWER as u64) as usize;
        if self.connection.inbox.len() < length {
            // The head is looked at again when the rest has come.
            self.connection.inbox = inbox;
            return Ok(None);
        }
        let elapsed = self.elapsed();
        self.record.received = length as u64;
        self.record.first_byte = Some(elapsed);
        let answer = String::from_utf8_lossy(&self.connection.inbox[..length]);
        if answer.contains(&format!("\"{digest:016x}\"")) {
            return self.done(elapsed);
        }
        let detail = format!("the server answered {} instead of the digest {digest:016x}", answer.trim());
        Err(Failure { stage: "verify", reason: "corrupt".into(), detail })
    }

    fn step_stream(&mut self, flushed: bool, scratch: &mut [u8]) -> Result<Option<Progress>, Failure> {
        let now = clock::now();
        let Stage::Stream(stream) = &mut self.stage else { return Ok(None) };
        if flushed && stream.write(self.connection.outbox(), now) {
            return Ok(None);
        }
        if flushed && self.record.request.is_none() {
            self.record.request = Some(clock::seconds(now - self.began));
        }
        let until = stream.next_due().filter(|_| flushed);
        let Some(length) = self.read(scratch)? else {
            return Ok(Some(until.map_or(Progress::Connection, Progress::Until)));
        };
        if !self.upgraded {
            self.connection.inbox.extend_from_slice(&scratch[..length]);
            if self.response(101)?.is_none() {
                return Ok(None);
            }
            self.upgraded = true;
            let rest = std::mem::take(&mut self.connection.inbox);
            return self.stream_arrived(&rest);
        }
        self.stream_arrived(&scratch[..length])
    }

    fn stream_arrived(&mut self, bytes: &[u8]) -> Result<Option<Progress>, Failure> {
        let Stage::Stream(stream) = &mut self.stage else { return Ok(None) };
        let result = stream.arrived(bytes);
        self.record.received = stream.received();
        self.record.bytes = self.record.bytes.max(stream.received());
        let elapsed = self.elapsed();
        self.mark(self.record.received, elapsed);
        match result {
            Ok(false) => Ok(None),
            Ok(true) => self.done(elapsed),
            Err(detail) => Err(Failure { stage: "verify", reason: "corrupt".into(), detail }),
        }
    }
}

/// Begins to connect to the last of `addresses`, or to the one before if that fails at once.
fn open(addresses: &mut Vec<SocketAddr>) -> Result<Connection, Failure> {
    let mut failure = None;
    while let Some(address) = addresses.pop() {
        match TcpStream::connect(address) {
            Ok(socket) => return Ok(Connection::new(socket)),
            Err(error) => failure = Some(error),
        }
    }
    let error = failure.unwrap_or_else(|| std::io::Error::other("the name has no address"));
    let reason = super::connection::reason(error.kind()).to_owned();
    Err(Failure { stage: "connect", reason, detail: error.to_string() })
}
