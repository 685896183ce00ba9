//! tgen's log: `[stream-success]` and `[stream-error]` of version 1, `[transfer-complete]` and `[transfer-error]` before it.
//!
//! Source: `_tgenstream_log` and what it calls in shadow/tgen, `src/tgen-stream.c`; tgentools' parser. A line is
//! "DATE TIME UNIX [level] [file:line] [function] [stream-success] transport [k=v,...] stream [k=v,...] bytes [k=v,...] times
//! [k=v,...]"; the older forms differ in brackets and separators, and the oldest names method and size by position.

use super::clock;
use super::lines::{Verdict, for_each_line};
use super::{HostFacts, Names};
use crate::run::{Direction, Failure, Transfer};
use std::path::Path;
use std::sync::Arc;

/// Reads one log. `behaviour` is what the host's transfers are called.
pub fn read(path: &Path, name: &str, behaviour: &str, facts: &mut HostFacts) {
    let mut names = Names::default();
    let damage = for_each_line(path, name, |line| {
        let Some(kind) = LineKind::of(line) else { return Verdict::Fine };
        let parsed = std::str::from_utf8(line).ok().and_then(|line| parse(line, kind));
        match parsed {
            Some(stream) => {
                take(&stream, behaviour, facts, &mut names);
                Verdict::Fine
            }
            None => Verdict::Broken("a stream's line that lacks its sizes or times"),
        }
    });
    facts.damage.extend(damage);
    facts.generators += 1;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LineKind {
    Success,
    Error,
}

impl LineKind {
    fn of(line: &[u8]) -> Option<LineKind> {
        // The mark stands behind time, level, file and function: no need to look through the whole line.
        let head = std::str::from_utf8(&line[..line.len().min(200)])
            .unwrap_or_else(|error| std::str::from_utf8(&line[..error.valid_up_to()]).expect("checked to be valid"));
        if head.contains("[stream-success]") || head.contains("[transfer-complete]") {
            Some(LineKind::Success)
        } else if head.contains("[stream-error]") || head.contains("[transfer-error]") {
            Some(LineKind::Error)
        } else {
            None
        }
    }
}

/// What a line says; times in seconds since the stream was created.
#[derive(Debug, PartialEq)]
struct Stream<'a> {
    /// By the other side's wish: that side reports it.
    is_passive: bool,
    /// "name:address:port".
    remote: &'a str,
    end_unix_s: f64,
    duration_s: f64,
    /// Asked for.
    receive: u64,
    send: u64,
    received: u64,
    sent: u64,
    request_s: Option<f64>,
    first_received_s: Option<f64>,
    last_received_s: Option<f64>,
    first_sent_s: Option<f64>,
    last_sent_s: Option<f64>,
    error: Option<Failing<'a>>,
}

/// tgen's words for what went wrong.
#[derive(Debug, PartialEq)]
struct Failing<'a> {
    stream: &'a str,
    transport: &'a str,
    transport_state: &'a str,
}

fn parse(line: &str, kind: LineKind) -> Option<Stream<'_>> {
    let end_unix_s: f64 = line.split_ascii_whitespace().nth(2)?.parse().ok()?;
    let body = &line[line.find("transport ")?..];
    let of_stream = body.find(" stream ").or_else(|| body.find(" transfer "))?;
    let (transport, stream) = body.split_at(of_stream);
    // Written in one go with everything else, so a line without it was cut off.
    let last_time = if line.contains("[stream-") { "now-ts" } else { "usecs-to-checksum" };
    let complete_at = number(stream, last_time)?;
    let micros = |key| number(stream, key).filter(|micros| *micros >= 0).map(|micros| micros as f64 / 1e6);
    let bytes = |key| number(stream, key).and_then(|bytes| u64::try_from(bytes).ok());
    let (old_receive, old_send) = old_sizes(stream);
    let duration_s = match number(stream, "created-ts") {
        Some(created) => (complete_at - created) as f64 / 1e6,
        None => ["usecs-to-checksum", "usecs-to-last-byte", "usecs-to-command", "usecs-to-proxy-response"]
            .into_iter()
            .find_map(micros)
            .unwrap_or(0.0),
    };
    let received = bytes("payload-bytes-recv").or_else(|| bytes("payload-bytes-read")).unwrap_or(0);
    let sent = bytes("payload-bytes-send").or_else(|| bytes("payload-bytes-write")).unwrap_or(0);
    Some(Stream {
        is_passive: value(stream, "vertexid").is_some_and(|id| id.starts_with("passive-stream")),
        remote: value(transport, "remote").unwrap_or(""),
        end_unix_s,
        duration_s,
        receive: bytes("recvsize").or(old_receive).filter(|bytes| *bytes > 0).unwrap_or(received),
        send: bytes("sendsize").or(old_send).filter(|bytes| *bytes > 0).unwrap_or(sent),
        received,
        sent,
        request_s: micros("usecs-to-command"),
        first_received_s: micros("usecs-to-first-byte-recv").or_else(|| micros("usecs-to-first-byte")),
        last_received_s: micros("usecs-to-last-byte-recv").or_else(|| micros("usecs-to-last-byte")),
        first_sent_s: micros("usecs-to-first-byte-send"),
        last_sent_s: micros("usecs-to-last-byte-send"),
        error: (kind == LineKind::Error).then(|| Failing {
            stream: value(stream, "error").unwrap_or("MISC"),
            transport: value(transport, "error").unwrap_or("NONE"),
            transport_state: value(transport, "state").unwrap_or("ERROR"),
        }),
    })
}

/// The value of `key=value` in a list with any of tgen's separators.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let is_separator = |c: char| matches!(c, '[' | ']' | ',' | ' ');
    let mut pairs = text.split(is_separator).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// A whole number; of "512/1024" the first.
fn number(text: &str, key: &str) -> Option<i64> {
    value(text, key)?.split('/').next()?.parse().ok()
}

/// "ID,COUNT,NAME,GET,SIZE,PEER,..." of the oldest logs: sizes to receive and to send.
fn old_sizes(stream: &str) -> (Option<u64>, Option<u64>) {
    let mut words = stream.split([',', ' ']);
    let method = words.find(|word| matches!(*word, "GET" | "PUT"));
    let size = words.next().and_then(|size| size.parse().ok());
    match method {
        Some("GET") => (size, None),
        Some("PUT") => (None, size),
        _ => (None, None),
    }
}

/// One transfer per direction that the stream had payload for.
fn take(stream: &Stream<'_>, behaviour: &str, facts: &mut HostFacts, names: &mut Names) {
    if stream.is_passive {
        return;
    }
    let end_s = clock::from_unix(facts.start, stream.end_unix_s);
    let server = stream.remote.split(':').next().unwrap_or("");
    let start_s = end_s - stream.duration_s;
    let error = stream.error.as_ref().map(|error| {
        let (stage, reason) = error.in_our_words();
        Failure { stage: names.get(stage), reason: names.get(&reason) }
    });
    let both = [
        (Direction::Download, stream.receive, stream.received, stream.first_received_s, stream.last_received_s),
        (Direction::Upload, stream.send, stream.sent, stream.first_sent_s, stream.last_sent_s),
    ];
    let has_payload = both.iter().any(|(_, bytes, ..)| *bytes > 0);
    for (direction, bytes, moved, first, last) in both {
        let counts_for_the_rest = !has_payload && direction == Direction::Download;
        if bytes == 0 && !counts_for_the_rest {
            continue;
        }
        // The log has the last byte's time of failed streams too.
        let last_byte_s = if error.is_none() { last } else { None };
        facts.payload.add(start_s + last.or(first).unwrap_or(stream.duration_s), moved as f64);
        facts.transfers.push(Transfer {
            host: Arc::clone(&facts.host),
            behaviour: names.get(&facts.behaviour_name(behaviour, server)),
            direction,
            bytes,
            start_s,
            request_s: stream.request_s,
            first_byte_s: first,
            last_byte_s,
            // Its log has no times in between.
            goodput_bits_per_s: None,
            end_s,
            verified: error.is_none(),
            is_retry: false,
            error: error.clone(),
        });
    }
}

impl Failing<'_> {
    /// Stage and reason as gnomon-traffic has them.
    fn in_our_words(&self) -> (&'static str, String) {
        match self.stream {
            "PROXY" if self.transport == "CONNECT" => ("connect", "refused".to_owned()),
            "PROXY" => {
                let stalled = self.transport.contains("STALLOUT") || self.transport.contains("TIMEOUT");
                let state = if stalled { format!("-{}", self.transport_state) } else { String::new() };
                ("socks", format!("{}{state}", self.transport).to_ascii_lowercase())
            }
            "AUTH" | "HEADER" | "HEADER_INCOMPLETE" | "HEADER_VERSION" | "HEADER_MODELMODE" | "HEADER_MODELPATH"
            | "HEADER_MODELSIZE" | "MODEL" => ("request", self.stream.to_ascii_lowercase()),
            "CHECKSUM" | "FOOTER" => ("verify", self.stream.to_ascii_lowercase()),
            "READEOF" | "WRITEEOF" => ("transfer", "eof".to_owned()),
            other => ("transfer", other.to_ascii_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUCCESS: &str = "2000-01-01 00:20:34 946686034.522612 [message] [tgen-stream.c:1738] [_tgenstream_log] [stream-success] transport [fd=12,local=localhost:127.0.0.1:16502,proxy=localhost:127.0.0.1:9050,remote=server3:100.0.0.4:80,state=SUCCESS_EOF,error=NONE] stream [id=3,vertexid=stream5m:3,name=perfclient1,peername=server3,sendsize=0,recvsize=51200,sendstate=SEND_SUCCESS,recvstate=RECV_SUCCESS,error=NONE] bytes [total-bytes-recv=51309,total-bytes-send=2043,payload-bytes-recv=51200,payload-bytes-send=0,payload-progress-recv=100.00%,payload-progress-send=100.00%] times [created-ts=1233000000,usecs-to-socket-create=5,usecs-to-socket-connect=8,usecs-to-proxy-init=20,usecs-to-proxy-choice=30,usecs-to-proxy-request=40,usecs-to-proxy-response=402000,usecs-to-command=402010,usecs-to-response=805000,usecs-to-first-byte-recv=810000,usecs-to-last-byte-recv=1490000,usecs-to-checksum-recv=1490100,usecs-to-first-byte-send=-1,usecs-to-last-byte-send=-1,usecs-to-checksum-send=402020,now-ts=1234522612]";
    const ERROR: &str = "2000-01-01 00:21:34 946686094.000000 [message] [tgen-stream.c:1721] [_tgenstream_log] [stream-error] transport [fd=13,local=localhost:127.0.0.1:16503,proxy=localhost:127.0.0.1:9050,remote=server3:100.0.0.4:80,state=RESPONSE_STATUS,error=TIMEOUT] stream [id=4,vertexid=stream5m:4,name=perfclient1,peername=server3,sendsize=0,recvsize=5242880,sendstate=SEND_NONE,recvstate=RECV_NONE,error=PROXY] bytes [total-bytes-recv=0,total-bytes-send=0,payload-bytes-recv=0,payload-bytes-send=0,payload-progress-recv=0.00%,payload-progress-send=?] times [created-ts=1000000,usecs-to-socket-create=5,usecs-to-socket-connect=8,usecs-to-proxy-init=20,usecs-to-proxy-choice=30,usecs-to-proxy-request=40,usecs-to-proxy-response=-1,usecs-to-command=-1,usecs-to-response=-1,usecs-to-first-byte-recv=-1,usecs-to-last-byte-recv=-1,usecs-to-checksum-recv=-1,usecs-to-first-byte-send=-1,usecs-to-last-byte-send=-1,usecs-to-checksum-send=-1,now-ts=61000000]";
    const OLD: &str = "2016-02-28 16:31:08 946685000.006196 [message] [shd-tgen-transfer.c:504] [_tgentransfer_log] [transfer-complete] transport TCP,5,localhost:127.0.0.1:45416,localhost:127.0.0.1:27942,server1.example.com:216.17.99.183:6666,state=SUCCESS,error=NONE transfer transfer1m,1,phantomtrain,GET,1048576,server1,state=SUCCESS,state=SUCCESS,error=NONE total-bytes-read=1048652 total-bytes-write=50 payload-bytes-read=1048576/1048576 (100%) usecs-to-socket-create=2 usecs-to-socket-connect=115 usecs-to-proxy-init=151 usecs-to-proxy-choice=233 usecs-to-proxy-request=10959 usecs-to-proxy-response=318873 usecs-to-command=319006 usecs-to-response=700000 usecs-to-first-byte=710000 usecs-to-last-byte=2000000 usecs-to-checksum=2000100";

    fn read_text(text: &str) -> HostFacts {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tgen.1000.stdout");
        std::fs::write(&path, text).unwrap();
        let mut facts = HostFacts::new("perfclient1");
        read(&path, "hosts/perfclient1/tgen.1000.stdout", "performance", &mut facts);
        facts
    }

    #[test]
    fn a_successful_stream_has_its_times_from_its_creation() {
        let facts = read_text(SUCCESS);
        let [transfer] = facts.transfers.as_slice() else { panic!("{facts:?}") };
        assert_eq!((transfer.bytes, transfer.direction), (51200, Direction::Download));
        assert_eq!((transfer.first_byte_s, transfer.last_byte_s), (Some(0.81), Some(1.49)));
        assert_eq!(transfer.request_s, Some(0.40201));
        assert!((transfer.start_s - 1233.0).abs() < 1e-6, "{}", transfer.start_s);
        assert!(transfer.verified && transfer.is_done());
        assert_eq!(facts.payload.total(), 51200.0);
    }

    #[test]
    fn a_stream_that_failed_at_the_proxy_says_where() {
        let facts = read_text(ERROR);
        let [transfer] = facts.transfers.as_slice() else { panic!("{facts:?}") };
        let error = transfer.error.as_ref().unwrap();
        assert_eq!((&*error.stage, &*error.reason), ("socks", "timeout-response_status"));
        assert_eq!((transfer.bytes, transfer.last_byte_s, transfer.is_done()), (5242880, None, false));
        assert!((transfer.start_s - 1234.0).abs() < 1e-6, "{}", transfer.start_s);
    }

    #[test]
    fn the_oldest_form_is_read_too() {
        let facts = read_text(OLD);
        let [transfer] = facts.transfers.as_slice() else { panic!("{facts:?}") };
        assert_eq!((transfer.bytes, transfer.first_byte_s, transfer.last_byte_s), (1048576, Some(0.71), Some(2.0)));
        assert!((transfer.start_s - 198.006096).abs() < 1e-4, "{}", transfer.start_s);
    }

    #[test]
    fn the_serving_side_is_not_counted_and_uploads_are() {
        let passive = SUCCESS.replace("vertexid=stream5m:3", "vertexid=passive-stream:stream5m:3");
        assert!(read_text(&passive).transfers.is_empty());
        let upload = SUCCESS
            .replace("sendsize=0,recvsize=51200", "sendsize=2000,recvsize=0")
            .replace("payload-bytes-recv=51200,payload-bytes-send=0", "payload-bytes-recv=0,payload-bytes-send=2000")
            .replace("usecs-to-last-byte-send=-1", "usecs-to-last-byte-send=900000");
        let facts = read_text(&upload);
        let [transfer] = facts.transfers.as_slice() else { panic!("{facts:?}") };
        assert_eq!((transfer.direction, transfer.bytes, transfer.last_byte_s), (Direction::Upload, 2000, Some(0.9)));
    }

    #[test]
    fn other_lines_are_skipped_and_cut_ones_counted() {
        let heartbeat = "2000-01-01 00:00:01 946684801.000000 [message] [tgen-driver.c:102] [_tgendriver_onHeartbeat] [driver-heartbeat] [bytes-read=0,bytes-written=0]";
        let facts = read_text(&format!("{heartbeat}\n{SUCCESS}\n{}\n", &SUCCESS[..700]));
        assert_eq!(facts.transfers.len(), 1);
        let [damage] = facts.damage.as_slice() else { panic!("{:?}", facts.damage) };
        assert_eq!((damage.lines, damage.first), (1, 3));
    }
}
