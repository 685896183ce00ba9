//! Tells directory authorities of this relay (dir-spec, "Uploading router descriptors").

use crate::http::Exchange;
use crate::log;
use crate::torrc::Authority;
use mio::net::TcpStream;

/// Between two uploads, in milliseconds, and from the first failure on, after which the time doubles up to the longest.
const AGAIN_MS: u64 = 18 * 3_600_000;
const FIRST_RETRY_MS: u64 = 1_000;
const LONGEST_RETRY_MS: u64 = 60_000;
/// An authority that does not answer in that time has failed.
const PATIENCE_MS: u64 = 60_000;
/// Bytes of an answer that count.
const ANSWER: usize = 4096;

pub struct Upload {
    authority: Authority,
    exchange: Option<Exchange>,
    /// When something is to be done: begin, or give up.
    pub due_ms: u64,
    retry_ms: u64,
}

impl Upload {
    pub fn new(authority: Authority) -> Upload {
        Upload { authority, exchange: None, due_ms: 0, retry_ms: FIRST_RETRY_MS }
    }

    /// Begins, or gives up what takes too long; the socket is to be watched if there is a new one.
    pub fn go_on(&mut self, now_ms: u64, descriptor: impl FnOnce() -> String) -> Option<&mut TcpStream> {
        if self.due_ms > now_ms {
            return None;
        }
        if self.exchange.is_some() {
            self.fail(now_ms, "no answer");
            return None;
        }
        let text = descriptor();
        let request = format!(
            "POST /tor/ HTTP/1.0\r\nHost: {}\r\nContent-Length: {}\r\nContent-Type: application/octet-stream\r\n\r\n{text}",
            self.authority.directory,
            text.len()
        );
        self.due_ms = now_ms + PATIENCE_MS;
        match Exchange::begin(self.authority.directory, request.into_bytes(), ANSWER) {
            Ok(exchange) => self.exchange = Some(exchange),
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
        self.exchange.as_mut().map(|exchange| &mut exchange.socket)
    }

    /// The socket can do something.
    pub fn ready(&mut self, now_ms: u64) {
        let Some(exchange) = &mut self.exchange else { return };
        match exchange.go_on() {
            Ok(false) => {}
            Ok(true) => {
                let answer = exchange.body();
                self.judge(answer, now_ms);
            }
            Err(error) => self.fail(now_ms, &error.to_string()),
        }
    }

    fn judge(&mut self, answer: Result<String, String>, now_ms: u64) {
        match answer {
            Ok(_) => {
                log::notice(format_args!("Authority {} has taken our descriptor.", self.authority.name));
                (self.exchange, self.due_ms, self.retry_ms) = (None, now_ms + AGAIN_MS, FIRST_RETRY_MS);
            }
            Err(line) => {
                log::warn(format_args!("Authority {} refuses our descriptor: {line}", self.authority.name));
                self.fail(now_ms, &line);
            }
        }
    }

    fn fail(&mut self, now_ms: u64, why: &str) {
        log::notice(format_args!(
            "Authority {}: {why}; trying again in {} s.",
            self.authority.name,
            self.retry_ms / 1000
        ));
        (self.exchange, self.due_ms) = (None, now_ms + self.retry_ms);
        self.retry_ms = (2 * self.retry_ms).min(LONGEST_RETRY_MS);
    }
}
