//! What a query gets: the resolver's rules, without state.
//!
//! The root zone is the resolver's own, and the experiment's hosts are all that is in it: an answer is authoritative, and says either
//! what there is or that there is nothing. No query gets SERVFAIL.

use super::names::{Found, NameTable};
use super::wire::{self, Code, Header, Owner, Query, Record};
use crate::host::Addresses;

/// How a query came, which says how long its answer may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    Udp,
    Tcp,
}

/// How long an answer may be kept, in seconds. Nothing changes during a run.
const TTL: u32 = 3600;
/// How long it may be kept that there is nothing, in seconds (RFC 2308 section 5 recommends one to three hours at most).
const NEGATIVE_TTL: u32 = 3600;

const OPCODE_QUERY: u16 = 0;

/// The answer to a message; None for what is not answered: responses, and less than a header.
pub fn answer(names: &NameTable, message: &[u8], carrier: Carrier) -> Option<Vec<u8>> {
    let header = Header::read(message).filter(|header| header.is_query())?;
    if header.opcode() != OPCODE_QUERY {
        return Some(wire::refusal(header, Code::NotImplemented));
    }
    let Some(query) = Query::read(header, message) else {
        return Some(wire::refusal(header, Code::FormatError));
    };
    let limit = match (carrier, query.edns) {
        (Carrier::Tcp, _) => usize::from(u16::MAX),
        (Carrier::Udp, None) => wire::PLAIN_UDP,
        (Carrier::Udp, Some(edns)) => usize::from(edns.payload).max(wire::PLAIN_UDP),
    };
    Some(resolve(names, &query, limit))
}

fn resolve(names: &NameTable, query: &Query<'_>, limit: usize) -> Vec<u8> {
    if query.edns.is_some_and(|edns| edns.version > 0) {
        return wire::response(query, 0, Code::BadVersion, None, None, limit);
    }
    let transfer = matches!(query.kind, wire::TYPE_AXFR | wire::TYPE_IXFR);
    if transfer || !matches!(query.class, wire::CLASS_IN | wire::CLASS_ANY) {
        return wire::response(query, 0, Code::Refused, None, None, limit);
    }
    let name = query.name();
    let soa = start_of_authority();
    let asks_for = |kind: u16| query.kind == kind || query.kind == wire::TYPE_ANY;
    let record = |kind, data| Some(Record { owner: Owner::Question, kind, ttl: TTL, data });
    match names.find(&name) {
        // Who asks for all of them is told one (RFC 8482 section 4.1).
        Found::Addresses(found) if asks_for(wire::TYPE_A) => {
            say(query, Code::NoError, record(wire::TYPE_A, &found.v4.octets()), limit)
        }
        Found::Addresses(Addresses { v6: Some(address), .. }) if query.kind == wire::TYPE_AAAA => {
            say(query, Code::NoError, record(wire::TYPE_AAAA, &address.octets()), limit)
        }
        Found::Pointer(name) if asks_for(wire::TYPE_PTR) => {
            say(query, Code::NoError, record(wire::TYPE_PTR, name), limit)
        }
        Found::Nothing if name == b"\0" && asks_for(wire::TYPE_SOA) => {
            say(query, Code::NoError, record(wire::TYPE_SOA, &soa), limit)
        }
        Found::NoSuchName => say(query, Code::NoSuchName, None, limit),
        _ => say(query, Code::NoError, None, limit),
    }
}

/// What there is; that there is nothing is said with the zone's SOA record (RFC 2308 section 2).
fn say(query: &Query<'_>, code: Code, answer: Option<Record<'_>>, limit: usize) -> Vec<u8> {
    let soa = start_of_authority();
    let nothing = Record { owner: Owner::Root, kind: wire::TYPE_SOA, ttl: NEGATIVE_TTL, data: &soa };
    let authority = answer.is_none().then_some(nothing);
    wire::response(query, wire::AUTHORITATIVE, code, answer, authority, limit)
}

/// RFC 1035 section 3.3.13: primary server, mailbox, serial, refresh, retry, expire, minimum.
fn start_of_authority() -> Vec<u8> {
    let mut data = b"\x09localhost\0\x06nobody\x07invalid\0".to_vec();
    for number in [1, 3600, 1200, 604_800, NEGATIVE_TTL] {
        data.extend_from_slice(&number.to_be_bytes());
    }
    data
}
