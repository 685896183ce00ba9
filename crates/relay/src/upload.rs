//! Tells directory authorities of this relay (dir-spec, "Uploading router descriptors").

use crate::log;
use crate::torrc::Authority;
use mio::net::TcpStream;
use std::io::{self, Read, Write};

/// Between two uploads, in milliseconds, and from the first failure on, after which the time doubles up to the longest.
const AGAIN_MS: u64 = 18 * 3_600_000;
const FIRST_RETRY_MS: u64 = 1_000;
const LONGEST_RETRY_MS: u64 = 60_000;
/// An authority that does not answer in that time has failed.
const PATIENCE_MS: u64 = 60_000;

pub struct Upload {
    authority: Authority,
    socket: Option<TcpStream>,
    unsent: Vec<u8>,
    answer: Vec<u8>,
    /// When something is to be done: begin, or give up.
    pub due_ms: u64,
    retry_ms: u64,
    /// The authority has taken it once.
    pub is_known: bool,
}

impl Upload {
    pub fn new(authority: Authority) -> Upload {
        Upload {
            authority,
            socket: None,
            unsent: Vec::new(),
            answer: Vec::new(),
            due_ms: 0,
            retry_ms: FIRST_RETRY_MS,
            is_known: false,
        }
    }

    /// Begins, or gives up what takes too long; the socket is to be watched if there is a new one.
    pub fn go_on(&mut self, now_ms: u64, descriptor: impl FnOnce() -> String) -> Option<&mut TcpStream> {
        if self.due_ms > now_ms {
            return None;
        }
        if self.socket.is_some() {
            self.fail(now_ms, "no answer");
            return None;
        }
        let text = descriptor();
        self.unsent = format!(
            "POST /tor/ HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\nContent-Type: application/octet-stream\r\n\r\n{text}",
            self.authority.directory,
            text.len()
        )
        .into_bytes();
        self.answer.clear();
        self.due_ms = now_ms + PATIENCE_MS;
        match TcpStream::connect(self.authority.directory) {
            Ok(socket) => self.socket = Some(socket),
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
        self.socket.as_mut()
    }

    /// The socket can do something.
    pub fn ready(&mut self, now_ms: u64) {
        match self.exchange() {
            Ok(false) => {}
            Ok(true) => self.judge(now_ms),
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
    }

    /// Returns whether the answer is whole.
    fn exchange(&mut self) -> io::Result<bool> {
        let Some(socket) = &mut self.socket else { return Ok(false) };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let later = |error: &io::Error| matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected);
        while !self.unsent.is_empty() {
            match socket.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let mut buffer = [0; 1024];
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(true),
                // Its first line counts.
                Ok(count) if self.answer.len() < 4096 => self.answer.extend_from_slice(&buffer[..count]),
                Ok(_) => {}
                Err(error) if later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    fn judge(&mut self, now_ms: u64) {
        let answer = String::from_utf8_lossy(&self.answer).into_owned();
        let line = answer.lines().next().unwrap_or_default();
        if line.split_whitespace().nth(1) == Some("200") {
            log::notice(format_args!("Authority {} has taken our descriptor.", self.authority.name));
            self.is_known = true;
            (self.socket, self.due_ms, self.retry_ms) = (None, now_ms + AGAIN_MS, FIRST_RETRY_MS);
        } else {
            log::warn(format_args!("Authority {} refuses our descriptor: {line}", self.authority.name));
            self.fail(now_ms, line);
        }
    }

    fn fail(&mut self, now_ms: u64, why: &str) {
        log::notice(format_args!(
            "Authority {}: {why}; trying again in {} s.",
            self.authority.name,
            self.retry_ms / 1000
        ));
        (self.socket, self.due_ms) = (None, now_ms + self.retry_ms);
        self.retry_ms = (2 * self.retry_ms).min(LONGEST_RETRY_MS);
    }
}
