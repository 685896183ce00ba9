//! DNS messages (RFC 1035 section 4, EDNS of RFC 6891): queries in, responses out, as far as a resolver without records of many kinds
//! needs them.

use super::names::{MAX_LABEL, MAX_NAME};

pub const HEADER_LEN: usize = 12;

/// Bits of the header's second word.
pub const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
pub const AUTHORITATIVE: u16 = 0x0400;
pub const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const CHECKING_DISABLED: u16 = 0x0010;

pub const TYPE_A: u16 = 1;
pub const TYPE_SOA: u16 = 6;
pub const TYPE_PTR: u16 = 12;
pub const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;
pub const TYPE_IXFR: u16 = 251;
pub const TYPE_AXFR: u16 = 252;
pub const TYPE_ANY: u16 = 255;
pub const CLASS_IN: u16 = 1;
pub const CLASS_ANY: u16 = 255;

/// What UDP carries without EDNS (RFC 1035 section 4.2.1), in bytes.
pub const PLAIN_UDP: usize = 512;
/// What is offered by EDNS: fits every link unfragmented.
const OWN_PAYLOAD: u16 = 1232;
/// EDNS's DNSSEC OK, which a response repeats (RFC 3225 section 3).
const DNSSEC_OK: u16 = 0x8000;

/// Where a message's question begins, as a name (RFC 1035 section 4.1.4).
const QUESTION_POINTER: [u8; 2] = (0xc000 | HEADER_LEN as u16).to_be_bytes();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum Code {
    NoError = 0,
    FormatError = 1,
    NoSuchName = 3,
    NotImplemented = 4,
    Refused = 5,
    BadVersion = 16,
}

/// The first two words of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    pub id: u16,
    pub flags: u16,
}

impl Header {
    /// None when there is less than a header.
    pub fn read(message: &[u8]) -> Option<Header> {
        let mut reader = Reader { message, at: 0 };
        let header = Header { id: reader.word()?, flags: reader.word()? };
        (message.len() >= HEADER_LEN).then_some(header)
    }

    pub fn is_query(self) -> bool {
        self.flags & RESPONSE == 0
    }

    pub fn opcode(self) -> u16 {
        (self.flags & OPCODE) >> 11
    }

    /// The flags of a response: RD and CD are repeated (RFC 4035 section 3.2.2), and there is recursion.
    fn answered(self) -> u16 {
        self.flags & (OPCODE | RECURSION_DESIRED | CHECKING_DISABLED) | RESPONSE | RECURSION_AVAILABLE
    }
}

/// What a query's OPT record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edns {
    /// The largest datagram that the asker takes, in bytes.
    pub payload: u16,
    pub version: u8,
    flags: u16,
}

/// A query with its one question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    header: Header,
    /// Name, type and class as they were sent.
    question: &'a [u8],
    pub kind: u16,
    pub class: u16,
    pub edns: Option<Edns>,
}

impl<'a> Query<'a> {
    /// Reads what follows the header. None is a format error: not exactly one question (RFC 9619), a question that ends early or whose
    /// name points elsewhere, broken records, two OPT records.
    pub fn read(header: Header, message: &'a [u8]) -> Option<Query<'a>> {
        let mut reader = Reader { message, at: 4 };
        let questions = reader.word()?;
        let plain = u32::from(reader.word()?) + u32::from(reader.word()?);
        let additional = reader.word()?;
        if questions != 1 || !reader.name()? {
            return None;
        }
        let (kind, class) = (reader.word()?, reader.word()?);
        let question = &message[HEADER_LEN..reader.at];
        for _ in 0..plain {
            reader.record()?;
        }
        let mut edns = None;
        for _ in 0..additional {
            if let Some(found) = reader.record()?
                && edns.replace(found).is_some()
            {
                return None;
            }
        }
        Some(Query { header, question, kind, class, edns })
    }

    /// The question's name in lower case.
    pub fn name(&self) -> Vec<u8> {
        // Lengths of labels are below the letters.
        self.question[..self.question.len() - 4].to_ascii_lowercase()
    }
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.message.get(self.at..self.at + len)?;
        self.at += len;
        Some(bytes)
    }

    fn word(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    /// Passes over a name; whether it is written out, rather than ending in a pointer to an earlier one.
    fn name(&mut self) -> Option<bool> {
        let start = self.at;
        loop {
            let len = usize::from(self.take(1)?[0]);
            match len {
                0 => return Some(true),
                1..=MAX_LABEL => self.take(len)?,
                0xc0.. => {
                    self.take(1)?;
                    return Some(false);
                }
                _ => return None,
            };
            if self.at - start >= MAX_NAME {
                return None;
            }
        }
    }

    /// Passes over a record; what it says if it is OPT. An OPT record belongs to the root (RFC 6891 section 6.1.2).
    fn record(&mut self) -> Option<Option<Edns>> {
        let start = self.at;
        self.name()?;
        let is_root = self.message[start] == 0;
        let (kind, class) = (self.word()?, self.word()?);
        let (high, flags) = (self.word()?, self.word()?);
        let len = self.word()?;
        self.take(len.into())?;
        match kind {
            TYPE_OPT if is_root => Some(Some(Edns { payload: class, version: high as u8, flags })),
            TYPE_OPT => None,
            _ => Some(None),
        }
    }
}

/// A record of a response.
pub struct Record<'a> {
    pub owner: Owner,
    pub kind: u16,
    /// In seconds.
    pub ttl: u32,
    pub data: &'a [u8],
}

pub enum Owner {
    /// The name of the question, in the letters in which it was asked.
    Question,
    Root,
}

/// The response that only says what is wrong with a message.
pub fn refusal(header: Header, code: Code) -> Vec<u8> {
    message(header.id, header.answered() | code as u16, [0; 4])
}

/// A response. With more than `limit` bytes it says that it was cut, and has no records (RFC 2181 section 9).
pub fn response(
    query: &Query<'_>,
    flags: u16,
    code: Code,
    answer: Option<Record<'_>>,
    authority: Option<Record<'_>>,
    limit: usize,
) -> Vec<u8> {
    let counts = [1, u16::from(answer.is_some()), u16::from(authority.is_some()), u16::from(query.edns.is_some())];
    // The upper bits of the code stand in the OPT record.
    let flags = query.header.answered() | flags | code as u16 & 0xf;
    let mut out = message(query.header.id, flags, counts);
    out.extend_from_slice(query.question);
    for record in answer.into_iter().chain(authority) {
        push_record(&mut out, &record);
    }
    if let Some(edns) = query.edns {
        push_opt(&mut out, edns, code);
    }
    if out.len() > limit && (counts[1] | counts[2]) != 0 {
        return response(query, flags | TRUNCATED, code, None, None, limit);
    }
    out
}

fn message(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    for word in [id, flags].into_iter().chain(counts) {
        out.extend_from_slice(&word.to_be_bytes());
    }
    out
}

fn push_record(out: &mut Vec<u8>, record: &Record<'_>) {
    match record.owner {
        Owner::Question => out.extend_from_slice(&QUESTION_POINTER),
        Owner::Root => out.push(0),
    }
    out.extend_from_slice(&record.kind.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    out.extend_from_slice(&record.ttl.to_be_bytes());
    out.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
    out.extend_from_slice(record.data);
}

fn push_opt(out: &mut Vec<u8>, asked: Edns, code: Code) {
    out.push(0);
    let extended = code as u16 >> 4 << 8;
    for word in [TYPE_OPT, OWN_PAYLOAD, extended, asked.flags & DNSSEC_OK, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}
