//! A question to a directory, over a stream of a circuit of one hop (dir-spec, "Client operation", "HTTP").

use crate::network::Need;
use data_encoding::BASE64_NOPAD;
use std::fmt::Write;

/// Bytes that an answer may have, as it comes and once it is unpacked.
const LONGEST_PACKED: usize = 16 << 20;
const LONGEST: usize = 64 << 20;

pub struct Fetch {
    pub need: Need,
    /// The circuit, and the number there.
    pub on: (u64, u16),
    pub is_connected: bool,
    answer: Vec<u8>,
    /// Data cells since the last SENDME.
    pub delivered: u32,
}

impl Fetch {
    pub fn new(need: Need, circuit: u64, number: u16) -> Fetch {
        Fetch { need, on: (circuit, number), is_connected: false, answer: Vec::new(), delivered: 0 }
    }

    /// What is said. Directories pack what is asked for as `.z`.
    pub fn request(&self) -> String {
        let mut path = String::from(match self.need {
            Need::Consensus => "/tor/status-vote/current/consensus-microdesc",
            Need::Certificates => "/tor/keys/all",
            Need::Microdescriptors(_) => "/tor/micro/d/",
        });
        if let Need::Microdescriptors(digests) = &self.need {
            let encoded: Vec<String> = digests.iter().map(|digest| BASE64_NOPAD.encode(digest)).collect();
            path += &encoded.join("-");
        }
        let mut request = String::new();
        let _ = write!(request, "GET {path}.z HTTP/1.0\r\n\r\n");
        request
    }

    pub fn deliver(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.answer.len() + bytes.len() > LONGEST_PACKED {
            return Err("an answer of a directory without end");
        }
        self.answer.extend_from_slice(bytes);
        self.delivered += 1;
        Ok(())
    }

    /// The document, once all has come; an error says what came instead.
    pub fn document(&self) -> Result<String, String> {
        let end = self.answer.windows(4).position(|four| four == b"\r\n\r\n").ok_or("an answer that is not whole")?;
        let head = String::from_utf8_lossy(&self.answer[..end]);
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            return Err(format!("'{status}'"));
        }
        let body = &self.answer[end + 4..];
        let packed = lines.any(|line| {
            let line = line.to_ascii_lowercase();
            line.starts_with("content-encoding:") && line.ends_with("deflate")
        });
        let bytes = if packed { inflate(body)? } else { body.to_vec() };
        String::from_utf8(bytes).map_err(|_| "an answer that is no text".to_owned())
    }
}

fn inflate(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let unpacked = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(bytes, LONGEST);
    unpacked.map_err(|error| format!("an answer that cannot be unpacked: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: &[u8]) -> Result<String, String> {
        let mut fetch = Fetch::new(Need::Consensus, 0, 1);
        answer.chunks(7).for_each(|part| fetch.deliver(part).unwrap());
        fetch.document()
    }

    #[test]
    fn questions_name_what_is_missing() {
        let request = Fetch::new(Need::Microdescriptors(vec![[1; 32], [0xff; 32]]), 0, 1).request();
        let (one, other) =
            ("AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE", "//////////////////////////////////////////8");
        assert_eq!(request, format!("GET /tor/micro/d/{one}-{other}.z HTTP/1.0\r\n\r\n"));
    }

    #[test]
    fn answers_are_unpacked() {
        assert_eq!(answered(b"HTTP/1.0 200 OK\r\nDate: now\r\n\r\ntext"), Ok("text".to_owned()));
        let packed = miniz_oxide::deflate::compress_to_vec_zlib(b"text", 6);
        let answer = [&b"HTTP/1.0 200 OK\r\nContent-Encoding: deflate\r\n\r\n"[..], &packed].concat();
        assert_eq!(answered(&answer), Ok("text".to_owned()));
        assert!(answered(&answer[..answer.len() - 3]).is_err());
        assert_eq!(answered(b"HTTP/1.0 404 Not found\r\n\r\n"), Err("'HTTP/1.0 404 Not found'".to_owned()));
        assert!(answered(b"HTTP/1.0 200 OK\r\n").is_err());
    }
}
