//! One connection of the server: requests one after the other, each answered before the next is read.

use super::stream::Stream;
use super::upload::Upload;
use crate::clock::{self, Time};
use crate::content::Content;
use crate::http::{self, Request};
use crate::marks::mark;
use crate::output;
use crate::quantity;
use crate::timers::Wake;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    Connection,
    Until(Time),
    /// Nothing: others have their turn first.
    Turn,
    Close,
}

enum State {
    /// A request is being read.
    Head,
    Download(Download),
    Upload(Box<Upload>),
    Stream(Box<Stream>),
    /// The last answer is on its way.
    Closing,
    /// It has gone. What still comes is read and forgotten, so many bytes so far: closing at once would reset the connection, and
    /// the other side could lose the answer (RFC 9112, section 9.6).
    Draining(usize),
}

/// Content on its way.
struct Download {
    content: Content,
    at: u64,
    size: u64,
}

pub struct Connection {
    socket: TcpStream,
    pub peer: SocketAddr,
    /// Counts the server's connections.
    pub number: u64,
    touched: Time,
    /// When the event loop will drive the connection in any case.
    pub wake: Wake,
    state: State,
    /// What came and was not understood yet.
    inbox: Vec<u8>,
    /// Heads and short answers on their way.
    outbox: Vec<u8>,
    keep_alive: bool,
    current: Option<Done>,
    /// Requests that ended since somebody took them.
    pub done: Vec<Done>,
}

/// A request for the log.
#[derive(Clone)]
pub struct Done {
    at: f64,
    request: String,
    status: u16,
    pub received: u64,
    pub sent: u64,
    pub complete: bool,
}

impl Done {
    pub fn line(&self, peer: SocketAddr) -> output::Request<'_> {
        output::Request {
            at: self.at,
            peer: peer.to_string(),
            request: &self.request,
            status: self.status,
            received: self.received,
            sent: self.sent,
            complete: self.complete,
        }
    }
}

/// A head is at most so long.
const LONGEST_HEAD: usize = 16 << 10;

/// Reads and writes of one turn, so that a fast connection leaves the others time.
const TURN: usize = 16;

/// More than this is not worth reading to let the other side have its answer.
const MOST_DRAINED: usize = 1 << 20;

/// The longest delay of a stream's model, during which it is not idle.
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

impl Connection {
    pub fn new(socket: TcpStream, peer: SocketAddr, number: u64, now: Time) -> Self {
        Connection {
            socket,
            peer,
            number,
            touched: now,
            wake: Wake::default(),
            state: State::Head,
            inbox: Vec::new(),
            outbox: Vec::new(),
            keep_alive: true,
            current: None,
            done: Vec::new(),
        }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket.set_nodelay(true)?;
        registry.register(&mut self.socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    pub fn is_idle(&self, now: Time, idle: Duration) -> bool {
        let patience = if matches!(self.state, State::Stream(_)) { idle + LONGEST_SILENCE } else { idle };
        now.saturating_duration_since(self.touched) >= patience
    }

    /// Does what can be done now.
    pub fn drive(&mut self, scratch: &mut [u8]) -> Progress {
        for _ in 0..TURN {
            match self.step(scratch) {
                Ok(None) => {}
                Ok(Some(Progress::Close)) | Err(_) => {
                    self.done.extend(self.current.take());
                    return Progress::Close;
                }
                Ok(Some(progress)) => return progress,
            }
        }
        Progress::Turn
    }

    /// One thing that can be done; `None` if there may be another.
    fn step(&mut self, scratch: &mut [u8]) -> io::Result<Option<Progress>> {
        if let State::Download(_) = self.state {
            return self.step_download(scratch);
        }
        let flushed = self.flush()?;
        match &mut self.state {
            State::Stream(_) => return self.step_stream(flushed, scratch),
            _ if !flushed => return Ok(Some(Progress::Connection)),
            State::Closing => {
                self.socket.shutdown(Shutdown::Write)?;
                self.state = State::Draining(self.inbox.len());
                self.inbox = Vec::new();
                return Ok(None);
            }
            State::Draining(length) => {
                *length += self.inbox.len();
                if *length > MOST_DRAINED {
                    return Ok(Some(Progress::Close));
                }
                self.inbox.clear();
            }
            State::Head => {
                if self.read_head() {
                    return Ok(None);
                }
            }
            State::Upload(upload) => {
                let taken = upload.take(&self.inbox);
                let consumed = taken.as_ref().map_or(0, |taken| taken.consumed);
                self.inbox.drain(..consumed);
                match taken {
                    Ok(taken) if taken.complete => {
                        self.uploaded();
                        return Ok(None);
                    }
                    Ok(_) => {}
                    Err(message) => {
                        self.refuse(400, &message);
                        return Ok(None);
                    }
                }
            }
            State::Download(_) => {}
        }
        match self.read(scratch)? {
            None => Ok(Some(Progress::Connection)),
            Some(0) => Ok(Some(Progress::Close)),
            Some(length) => {
                self.inbox.extend_from_slice(&scratch[..length]);
                Ok(None)
            }
        }
    }

    /// Bytes that came, 0 at the end; `None` if nothing is there.
    fn read(&mut self, scratch: &mut [u8]) -> io::Result<Option<usize>> {
        match self.socket.read(scratch) {
            Ok(length) => {
                self.touched = clock::now();
                Ok(Some(length))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(bytes) {
            Ok(length) => {
                self.touched = clock::now();
                Ok(length)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Whether the outbox is empty now.
    fn flush(&mut self) -> io::Result<bool> {
        while !self.outbox.is_empty() {
            let outbox = std::mem::take(&mut self.outbox);
            let result = self.write(&outbox);
            self.outbox = outbox;
            match result? {
                0 => return Ok(false),
                length => drop(self.outbox.drain(..length)),
            }
        }
        self.outbox.shrink_to(1024);
        Ok(true)
    }

    /// Sends what is left of the head and content behind it in one write.
    fn step_download(&mut self, scratch: &mut [u8]) -> io::Result<Option<Progress>> {
        let State::Download(download) = &self.state else { return Ok(None) };
        let head = self.outbox.len();
        let length = (download.size - download.at).min((scratch.len() - head) as u64) as usize;
        scratch[..head].copy_from_slice(&self.outbox);
        download.content.fill(download.at, &mut scratch[head..head + length]);
        let written = self.write(&scratch[..head + length])?;
        self.outbox.drain(..written.min(head));
        let content = written.saturating_sub(head) as u64;
        let State::Download(download) = &mut self.state else { return Ok(None) };
        download.at += content;
        let done = download.at == download.size && self.outbox.is_empty();
        if let Some(current) = &mut self.current {
            current.sent += content;
        }
        if done {
            self.complete();
            return Ok(None);
        }
        Ok((written < head + length).then_some(Progress::Connection))
    }

    /// The current request has been answered.
    fn complete(&mut self) {
        if let Some(mut current) = self.current.take() {
            current.complete = current.status < 400;
            self.done.push(current);
        }
        self.state = if self.keep_alive { State::Head } else { State::Closing };
    }

    /// Reads a request from the inbox and begins to answer it; false if it is not complete yet.
    fn read_head(&mut self) -> bool {
        match http::request(&self.inbox) {
            Ok(Some(request)) => {
                self.inbox.drain(..request.head_bytes);
                self.inbox.shrink_to(1024);
                self.keep_alive = request.keep_alive;
                self.current = Some(Done {
                    at: clock::unix(),
                    request: format!("{} {}", request.method, request.path),
                    status: 200,
                    received: 0,
                    sent: 0,
                    complete: false,
                });
                self.answer(&request);
            }
            Ok(None) if self.inbox.len() > LONGEST_HEAD => self.refuse(431, "the request's head is too long"),
            Ok(None) => return false,
            Err(message) => self.refuse(400, &message),
        }
        true
    }

    fn answer(&mut self, request: &Request) {
        let seed = request.seed.unwrap_or(0);
        mark(format_args!("serve {} {}?seed={seed}", request.method, request.path));
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => self.reply(200, "text/plain", USAGE, true),
            ("GET" | "HEAD", path) => match quantity::size(&path.trim_start_matches('/').replace("%20", "")) {
                Ok(size) => {
                    self.head(200, "application/octet-stream", size);
                    let is_get = request.method == "GET";
                    self.state = match is_get {
                        true => State::Download(Download { content: Content::new(seed), at: 0, size }),
                        false => State::Head,
                    };
                    if !is_get {
                        self.complete();
                    }
                }
                Err(message) => self.reply(404, "text/plain", &format!("{message}\n{USAGE}"), self.keep_alive),
            },
            ("POST" | "PUT", "/upload") => {
                if request.expects_continue {
                    self.outbox.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                self.state = State::Upload(Box::new(Upload::new(request.body, request.seed)));
            }
            ("POST", "/stream") if request.wants_stream => {
                let head = format!(
                    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: {}\r\n\r\n",
                    http::STREAM_PROTOCOL
                );
                self.outbox.extend_from_slice(head.as_bytes());
                self.keep_alive = false;
                self.state = State::Stream(Box::new(Stream::new(seed, clock::now())));
            }
            ("POST", "/stream") => self.refuse(426, "a Markov stream begins with 'Upgrade: gnomon-stream/1'"),
            ("POST" | "PUT", _) => self.refuse(404, USAGE),
            _ => self.refuse(405, USAGE),
        }
    }

    fn head(&mut self, status: u16, kind: &str, length: u64) {
        let connection = if self.keep_alive { "" } else { "Connection: close\r\n" };
        let head = format!(
            "HTTP/1.1 {status} {}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{connection}\r\n",
            phrase(status)
        );
        self.outbox.extend_from_slice(head.as_bytes());
        if let Some(current) = &mut self.current {
            current.status = status;
        }
    }

    fn reply(&mut self, status: u16, kind: &str, text: &str, keep_alive: bool) {
        self.keep_alive &= keep_alive;
        self.head(status, kind, text.len() as u64);
        self.outbox.extend_from_slice(text.as_bytes());
        self.complete();
    }

    /// Answers with an error, after which the connection is closed: what follows may be a body that nobody wants.
    fn refuse(&mut self, status: u16, message: &str) {
        self.reply(status, "text/plain", &format!("{message}\n"), false);
    }

    fn uploaded(&mut self) {
        let State::Upload(upload) = &self.state else { return };
        let (received, text) = (upload.received, upload.answer());
        if let Some(current) = &mut self.current {
            current.received = received;
        }
        self.reply(200, "application/json", &text, true);
    }

    fn step_stream(&mut self, flushed: bool, scratch: &mut [u8]) -> io::Result<Option<Progress>> {
        let now = clock::now();
        let State::Stream(stream) = &mut self.state else { return Ok(None) };
        if !self.inbox.is_empty() {
            let inbox = std::mem::take(&mut self.inbox);
            if stream.arrived(&inbox).is_err() {
                return Ok(Some(Progress::Close));
            }
        }
        if flushed && stream.write(&mut self.outbox, now) {
            return Ok(None);
        }
        if let Some(current) = &mut self.current {
            (current.received, current.sent) = (stream.received, stream.sent);
        }
        if flushed && stream.is_done() {
            self.complete();
            return Ok(None);
        }
        let until = stream.next_due().filter(|_| flushed);
        match self.read(scratch)? {
            None => Ok(Some(until.map_or(Progress::Connection, Progress::Until))),
            Some(0) => Ok(Some(Progress::Close)),
            Some(length) => {
                self.inbox.extend_from_slice(&scratch[..length]);
                Ok(None)
            }
        }
    }
}

const USAGE: &str = "GET /SIZE?seed=S, such as /1000?seed=7 or /5MiB, or POST /upload?seed=S\n";

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        426 => "Upgrade Required",
        _ => "Request Header Fields Too Large",
    }
}
