//! The body of an upload: counted, digested, and compared with what its seed gives.

use crate::content::Content;
use crate::http::Body;
use xxhash_rust::xxh3::Xxh3;

pub struct Upload {
    pub received: u64,
    digest: Xxh3,
    /// With a seed: its content, and whether everything so far is of it.
    expected: Option<(Content, bool)>,
    left: Left,
}

/// How the body goes on (RFC 9112, sections 6 and 7.1).
enum Left {
    /// So many bytes to the end.
    Bytes(u64),
    /// A chunk's size is next.
    ChunkSize,
    /// So many bytes of a chunk.
    Chunk(u64),
    /// The end of a chunk's line.
    ChunkEnd,
    /// Fields after the last chunk, up to an empty line.
    Trailers,
    Nothing,
}

/// What `take` did.
pub struct Taken {
    /// Bytes that need not be kept.
    pub consumed: usize,
    pub complete: bool,
}

/// A line between chunks is at most so long.
const LONGEST_LINE: usize = 4096;

impl Upload {
    pub fn new(body: Body, seed: Option<u64>) -> Self {
        let left = match body {
            Body::Length(length) => Left::Bytes(length),
            Body::Chunked => Left::ChunkSize,
        };
        let expected = seed.map(|seed| (Content::new(seed), true));
        Upload { received: 0, digest: Xxh3::new(), expected, left }
    }

    /// Takes as much of `bytes` as it understands.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, String> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match self.left {
                Left::Bytes(0) | Left::Nothing => return Ok(Taken { consumed: at, complete: true }),
                Left::Chunk(0) => self.left = Left::ChunkEnd,
                Left::Bytes(left) | Left::Chunk(left) => {
                    let length = left.min(rest.len() as u64) as usize;
                    if length == 0 {
                        return Ok(Taken { consumed: at, complete: false });
                    }
                    self.content(&rest[..length]);
                    at += length;
                    let left = left - length as u64;
                    self.left = if matches!(self.left, Left::Bytes(_)) { Left::Bytes(left) } else { Left::Chunk(left) };
                }
                Left::ChunkSize | Left::ChunkEnd | Left::Trailers => {
                    let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                        return match rest.len() {
                            0..=LONGEST_LINE => Ok(Taken { consumed: at, complete: false }),
                            _ => Err("a line between chunks is too long".into()),
                        };
                    };
                    self.line(rest[..length].trim_ascii())?;
                    at += length + 1;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        self.left = match self.left {
            Left::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size = str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
                match size.ok_or("a chunk has no size")? {
                    0 => Left::Trailers,
                    size => Left::Chunk(size),
                }
            }
            Left::ChunkEnd if line.is_empty() => Left::ChunkSize,
            Left::ChunkEnd => return Err("a chunk is longer than it says".into()),
            _ if line.is_empty() => Left::Nothing,
            _ => Left::Trailers,
        };
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        if let Some((content, matches)) = &mut self.expected {
            *matches = *matches && content.first_difference(self.received, bytes).is_none();
        }
        self.received += bytes.len() as u64;
    }

    /// What the client is told, in JSON.
    pub fn answer(&self) -> String {
        let verified = self.expected.map_or("null", |(_, matches)| if matches { "true" } else { "false" });
        let digest = self.digest.digest();
        format!("{{\"bytes\":{},\"digest\":\"{digest:016x}\",\"verified\":{verified}}}\n", self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds in pieces, keeping what is not consumed.
    fn feed(upload: &mut Upload, bytes: &[u8], piece: usize) -> Result<(bool, Vec<u8>), String> {
        let (mut kept, mut complete) = (Vec::new(), false);
        for piece in bytes.chunks(piece) {
            kept.extend_from_slice(piece);
            let taken = upload.take(&kept)?;
            kept.drain(..taken.consumed);
            complete |= taken.complete;
        }
        Ok((complete, kept))
    }

    #[test]
    fn chunks_come_in_any_pieces() {
        let body = b"5\r\nhello\r\n6;name=x\r\n world\r\n0\r\nX: y\r\n\r\nGET";
        for piece in 1..body.len() {
            let mut upload = Upload::new(Body::Chunked, None);
            let (complete, rest) = feed(&mut upload, body, piece).expect("valid");
            assert!(complete && upload.received == 11 && rest == b"GET", "{piece}");
            assert_eq!(upload.answer(), "{\"bytes\":11,\"digest\":\"d447b1ea40e6988b\",\"verified\":null}\n");
        }
        for wrong in ["x\r\n", "5\r\nhello!\r\n", "\r\n"] {
            assert!(feed(&mut Upload::new(Body::Chunked, None), wrong.as_bytes(), 99).is_err(), "{wrong}");
        }
    }

    #[test]
    fn content_is_compared_with_the_seed() {
        let mut bytes = vec![0; 3000];
        Content::new(9).fill(0, &mut bytes);
        for (change, expected) in [(0, "true"), (1, "false")] {
            bytes[2500] ^= change;
            let mut upload = Upload::new(Body::Length(3000), Some(9));
            assert!(feed(&mut upload, &bytes, 700).expect("valid").0);
            assert!(upload.answer().contains(&format!("\"verified\":{expected}")));
        }
    }
}
