//! What a simulator and its companion say to each other: frames of a kind, a length and a body. Both are of one build and on one machine.

use std::io::{self, Read, Write};

/// Sums that ranks keep together with their standing; what they count is the simulator's affair.
pub const SUMS: usize = 4;

/// What one rank knows at the end of a window, and what all come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The earliest event that is left, ns; the earliest of all ranks. None when nothing is left to happen.
    pub next: Option<u64>,
    /// The run shall end here; whether any rank says so.
    pub halt: bool,
    /// This rank's; the sums over all.
    pub sums: [u64; SUMS],
}

/// Hosts and what they send each other, as METIS has graphs: the edges of host `n` are those from `first[n]` to before `first[n + 1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// How many parts are wanted.
    pub parts: u32,
    /// By host, and one more.
    pub first: Vec<i32>,
    /// By edge, the host at its other end, which has the same edge.
    pub neighbours: Vec<i32>,
    /// By edge.
    pub packets: Vec<i32>,
    /// By host, what it costs.
    pub weights: Vec<i32>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The companion's first: which rank MPI says that it is, and of how many.
    Hello { rank: u32, size: u32 },
    /// Bytes for a rank, or from one. Those for one rank follow each other in the order of their frames.
    Bytes { rank: u32, bytes: Vec<u8> },
    /// The simulator's part in an exchange, after its bytes; the companion's answer, after the bytes that came.
    Standing(Standing),
    /// The companion's: the others cannot be reached any more, with the reason.
    Lost(String),
    /// The simulator's: how shall the hosts be divided?
    Graph(Graph),
    /// The companion's answer: by host, its part; none where METIS refused.
    Parts(Vec<i32>),
    /// The simulator's last: it has come to its end as the others have.
    End,
}

const HELLO: u8 = 1;
const BYTES: u8 = 2;
const STANDING: u8 = 3;
const LOST: u8 = 4;
const END: u8 = 5;
const GRAPH: u8 = 6;
const PARTS: u8 = 7;

/// Kind and length.
pub const HEADER: usize = 1 + 8;

/// For "nothing left to happen", in frames as in what ranks reduce.
pub const NEVER: u64 = u64::MAX;

/// Appends a frame of bytes, without a copy of its own.
pub fn put_bytes(rank: u32, bytes: &[u8], out: &mut Vec<u8>) {
    header(BYTES, 4 + bytes.len(), out);
    out.extend_from_slice(&rank.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn header(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(length as u64).to_le_bytes());
}

impl Frame {
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Frame::Hello { rank, size } => {
                header(HELLO, 8, out);
                out.extend_from_slice(&rank.to_le_bytes());
                out.extend_from_slice(&size.to_le_bytes());
            }
            Frame::Bytes { rank, bytes } => put_bytes(*rank, bytes, out),
            Frame::Standing(standing) => {
                header(STANDING, 9 + 8 * SUMS, out);
                out.extend_from_slice(&standing.next.unwrap_or(NEVER).to_le_bytes());
                out.push(standing.halt.into());
                standing.sums.iter().for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
            }
            Frame::Lost(reason) => {
                header(LOST, reason.len(), out);
                out.extend_from_slice(reason.as_bytes());
            }
            Frame::Graph(graph) => {
                let lists = [&graph.first, &graph.neighbours, &graph.packets, &graph.weights];
                header(GRAPH, 4 + lists.iter().map(|list| 8 + 4 * list.len()).sum::<usize>(), out);
                out.extend_from_slice(&graph.parts.to_le_bytes());
                lists.into_iter().for_each(|list| put_list(list, out));
            }
            Frame::Parts(parts) => {
                header(PARTS, 8 + 4 * parts.len(), out);
                put_list(parts, out);
            }
            Frame::End => header(END, 0, out),
        }
    }

    /// The first frame of `bytes`, and how long it is; None while it is not all there.
    ///
    /// # Errors
    /// When the bytes are no frame.
    pub fn parse(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
        let Some((header, rest)) = bytes.split_at_checked(HEADER) else { return Ok(None) };
        let length = number(&header[1..])? as usize;
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let frame = match header[0] {
            HELLO => Frame::Hello { rank: short(body)?, size: short(body.get(4..).unwrap_or_default())? },
            BYTES => Frame::Bytes { rank: short(body)?, bytes: body[4..].to_vec() },
            STANDING => {
                let next = number(body)?;
                let halt = body.get(8).is_some_and(|byte| *byte != 0);
                let mut sums = [0; SUMS];
                for (place, sum) in sums.iter_mut().enumerate() {
                    *sum = number(body.get(9 + 8 * place..).unwrap_or_default())?;
                }
                Frame::Standing(Standing { next: Some(next).filter(|next| *next != NEVER), halt, sums })
            }
            LOST => Frame::Lost(String::from_utf8_lossy(body).into_owned()),
            GRAPH => {
                let parts = short(body)?;
                let mut rest = body.get(4..).unwrap_or_default();
                let mut list = || take_list(&mut rest);
                let (first, neighbours, packets, weights) = (list()?, list()?, list()?, list()?);
                Frame::Graph(Graph { parts, first, neighbours, packets, weights })
            }
            PARTS => Frame::Parts(take_list(&mut &*body)?),
            END => Frame::End,
            _ => return Err(malformed()),
        };
        Ok(Some((frame, HEADER + length)))
    }
}

fn put_list(list: &[i32], out: &mut Vec<u8>) {
    out.extend_from_slice(&(list.len() as u64).to_le_bytes());
    list.iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
}

fn take_list(bytes: &mut &[u8]) -> io::Result<Vec<i32>> {
    let length = number(bytes)? as usize;
    let list = length.checked_mul(4).and_then(|length| bytes.get(8..)?.split_at_checked(length));
    let (list, rest) = list.ok_or_else(malformed)?;
    *bytes = rest;
    let value = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| i32::from_le_bytes(*bytes));
    Ok(list.chunks(4).map(value).collect())
}

fn number(bytes: &[u8]) -> io::Result<u64> {
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(malformed)
}

fn short(bytes: &[u8]) -> io::Result<u32> {
    bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the simulator and gnomon-ranks do not understand each other: build both anew",
    )
}

/// Reads frames from a stream.
#[derive(Debug)]
pub struct Frames<R> {
    stream: R,
    buffer: Vec<u8>,
    /// Where in the buffer the next frame begins.
    at: usize,
}

impl<R: Read> Frames<R> {
    pub fn new(stream: R) -> Frames<R> {
        Frames { stream, buffer: Vec::new(), at: 0 }
    }

    pub fn stream(&self) -> &R {
        &self.stream
    }

    /// The next frame; None at the stream's end. What a stream with a timeout has brought by then is kept for the next call.
    ///
    /// # Errors
    /// Those of the stream, and bytes that are no frames.
    pub fn read(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some((frame, length)) = Frame::parse(&self.buffer[self.at..])? {
                self.at += length;
                return Ok(Some(frame));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            let wanted = self.missing().max(1 << 14);
            let filled = self.buffer.len();
            self.buffer.resize(filled + wanted, 0);
            let read = self.stream.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().map_or(0, |read| *read));
            if read? == 0 {
                return Ok(None);
            }
        }
    }

    /// How much of the frame that has begun is not there yet.
    fn missing(&self) -> usize {
        let length = self.buffer.get(1..HEADER).and_then(|bytes| number(bytes).ok()).unwrap_or(0) as usize;
        // What a broken header asks for is not believed at once.
        (HEADER + length).saturating_sub(self.buffer.len()).min(1 << 24)
    }
}

/// Writes frames that were put into a buffer, and empties it.
///
/// # Errors
/// Those of the stream.
pub fn write_out(stream: &mut impl Write, frames: &mut Vec<u8>) -> io::Result<()> {
    let written = stream.write_all(frames);
    frames.clear();
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        let standing = Standing { next: Some(7), halt: true, sums: [1, 2, 3, u64::MAX] };
        vec![
            Frame::Hello { rank: 1, size: 2 },
            Frame::Bytes { rank: 3, bytes: (0..100_000u32).map(|byte| byte as u8).collect() },
            Frame::Bytes { rank: 0, bytes: Vec::new() },
            Frame::Standing(standing),
            Frame::Standing(Standing::default()),
            Frame::Lost("rank 1 has gone".to_owned()),
            Frame::Graph(Graph {
                parts: 2,
                first: vec![0, 1, 2],
                neighbours: vec![1, 0],
                packets: vec![7, 7],
                weights: vec![i32::MAX, 1],
            }),
            Frame::Parts(vec![1, 0]),
            Frame::Parts(Vec::new()),
            Frame::End,
        ]
    }

    /// Gives one byte, then a timeout, and so on.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let most = into.len().min(997);
            self.0.read(&mut into[..most])
        }
    }

    #[test]
    fn frames_arrive_whole_however_the_stream_cuts_them() {
        let mut bytes = Vec::new();
        all().iter().for_each(|frame| frame.put(&mut bytes));
        let mut frames = Frames::new(Slow(&bytes, false));
        let mut got = Vec::new();
        loop {
            match frames.read() {
                Ok(Some(frame)) => got.push(frame),
                Ok(None) => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(got, all());
    }

    #[test]
    fn bytes_of_any_kind_are_refused() {
        assert!(Frame::parse(&[77; 200]).is_ok_and(|frame| frame.is_none()), "as if more were to come");
        let mut bytes = vec![77];
        bytes.extend_from_slice(&0u64.to_le_bytes());
        assert!(Frame::parse(&bytes).is_err());
        let mut bytes = vec![STANDING];
        bytes.extend_from_slice(&3u64.to_le_bytes());
        bytes.extend_from_slice(&[0; 3]);
        assert!(Frame::parse(&bytes).is_err());
    }
}
