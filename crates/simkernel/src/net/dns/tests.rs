//! Queries as the wire has them, and the resolver through socket calls.

use super::answer::{Carrier, answer};
use super::wire::{self, Code, Header, Owner, Query, Record};
use super::{ADDRESS, NameTable};
use crate::test_machine::{A, Machine, addresses_of};
use base::SeedTree;
use linux_abi::socket::{SHUT_WR, SOCK_DGRAM, SOCK_STREAM};
use linux_abi::{Errno, nr};
use std::net::Ipv4Addr;

const QUERY: u16 = 0x0100;
const AAAA: u16 = 28;

/// The zone's SOA record, as it stands behind the question of an answer without data.
const SOA: &[u8] = b"\0\0\x06\0\x01\0\0\x0e\x10\0\x2f\x09localhost\0\x06nobody\x07invalid\0\
    \0\0\0\x01\0\0\x0e\x10\0\0\x04\xb0\0\x09\x3a\x80\0\0\x0e\x10";

fn table() -> NameTable {
    NameTable::new([("web", addresses_of([11, 0, 0, 1].into())), ("relay-1.tor", addresses_of([11, 0, 0, 2].into()))])
}

/// A message: header with these counts, then what follows.
fn message(flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let words: Vec<u8> = [0x1234, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect();
    [&words, rest].concat()
}

/// Name, type and class Internet.
fn question(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}

fn opt(payload: u16, version: u8, flags: u16, options: &[u8]) -> Vec<u8> {
    let [p, f, len] = [payload, flags, options.len() as u16].map(u16::to_be_bytes);
    [&[0, 0, 41, p[0], p[1], 0, version, f[0], f[1], len[0], len[1]], options].concat()
}

fn ask(name: &str, kind: u16) -> Vec<u8> {
    message(QUERY, [1, 0, 0, 0], &question(name, kind))
}

fn ask_edns(name: &str, kind: u16, opt: &[u8]) -> Vec<u8> {
    message(QUERY, [1, 0, 0, 1], &[&question(name, kind), opt].concat())
}

fn over_udp(query: &[u8]) -> Option<Vec<u8>> {
    answer(&table(), query, Carrier::Udp)
}

/// An answer's flags.
fn flags(answer: &[u8]) -> u16 {
    Header::read(answer).unwrap().flags
}

#[test]
fn a_host_has_an_address_whatever_the_letters_of_its_name() {
    for name in ["web", "wEb", "WEB", "Relay-1.TOR", "localhost"] {
        let address = match name.to_ascii_lowercase().as_str() {
            "web" => [11, 0, 0, 1],
            "localhost" => [127, 0, 0, 1],
            _ => [11, 0, 0, 2],
        };
        let record = [&b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04"[..], &address].concat();
        let expected = message(0x8580, [1, 1, 0, 0], &[question(name, 1), record].concat());
        assert_eq!(over_udp(&ask(name, wire::TYPE_A)), Some(expected), "{name}");
    }
}

#[test]
fn addresses_have_names() {
    let name = "2.0.0.11.In-Addr.ARPA";
    let record = b"\xc0\x0c\0\x0c\0\x01\0\0\x0e\x10\0\x0d\x07relay-1\x03tor\0";
    let expected = message(0x8580, [1, 1, 0, 0], &[&question(name, 12)[..], record].concat());
    assert_eq!(over_udp(&ask(name, wire::TYPE_PTR)), Some(expected));
}

#[test]
fn hosts_with_an_address_of_ipv6_have_a_record_of_it() {
    let address = addresses_of([11, 0, 0, 1].into()).v6.unwrap().octets();
    let record = [&b"\xc0\x0c\0\x1c\0\x01\0\0\x0e\x10\0\x10"[..], &address].concat();
    let expected = message(0x8580, [1, 1, 0, 0], &[question("Web", AAAA), record].concat());
    assert_eq!(over_udp(&ask("Web", AAAA)), Some(expected));
    let without = NameTable::new([("web", crate::host::Addresses { v4: [11, 0, 0, 1].into(), v6: None })]);
    let nothing = message(0x8580, [1, 0, 1, 0], &[&question("web", AAAA)[..], SOA].concat());
    assert_eq!(answer(&without, &ask("web", AAAA), Carrier::Udp), Some(nothing));
}

#[test]
fn what_a_name_does_not_have_is_no_error_and_what_is_no_name_is() {
    let nothing = |name: &str, kind: u16, code: Code| {
        message(0x8580 | code as u16, [1, 0, 1, 0], &[&question(name, kind)[..], SOA].concat())
    };
    // MX, TXT, HTTPS, a type that nobody has given a meaning.
    for kind in [15, 16, 65, 61_234] {
        assert_eq!(over_udp(&ask("Web", kind)), Some(nothing("Web", kind, Code::NoError)), "type {kind}");
    }
    assert_eq!(over_udp(&ask("tor", 1)), Some(nothing("tor", 1, Code::NoError)), "a name with others below it");
    for name in ["www.google.com", "qj3kfzxw.invalid", "a.web", "3.0.0.11.in-addr.arpa"] {
        for kind in [wire::TYPE_A, AAAA, wire::TYPE_PTR, wire::TYPE_ANY] {
            assert_eq!(over_udp(&ask(name, kind)), Some(nothing(name, kind, Code::NoSuchName)), "{name}");
        }
    }
}

#[test]
fn the_zone_has_its_soa_record() {
    let record = [b"\xc0\x0c", &SOA[1..]].concat();
    let expected = message(0x8580, [1, 1, 0, 0], &[question("", wire::TYPE_SOA), record].concat());
    assert_eq!(over_udp(&ask("", wire::TYPE_SOA)), Some(expected));
}

#[test]
fn any_gets_what_there_is() {
    assert_eq!(
        &over_udp(&ask("web", wire::TYPE_ANY)).unwrap()[21..],
        b"\xc0\x0c\0\x01\0\x01\0\0\x0e\x10\0\x04\x0b\0\0\x01"
    );
}

#[test]
fn classes_and_transfers_that_are_not_served_are_refused() {
    let mut chaos = ask("version.bind", 16);
    *chaos.last_mut().unwrap() = 3;
    for query in [chaos, ask("", wire::TYPE_AXFR), ask("web", wire::TYPE_IXFR)] {
        let refused = over_udp(&query).unwrap();
        assert_eq!(flags(&refused), 0x8180 | Code::Refused as u16);
        assert_eq!(refused[12..], query[12..], "the question is repeated");
    }
    let mut any_class = ask("web", 1);
    *any_class.last_mut().unwrap() = 255;
    assert_eq!(flags(&over_udp(&any_class).unwrap()), 0x8580);
}

#[test]
fn flags_of_the_asker_are_kept_and_no_others() {
    // CD is repeated; AD, Z and a response code of the asker are not.
    let query = message(0x007f, [1, 0, 0, 0], &question("web", 1));
    assert_eq!(flags(&over_udp(&query).unwrap()), 0x8490);
}

#[test]
fn what_is_no_query_gets_no_answer() {
    assert_eq!(over_udp(b""), None);
    assert_eq!(over_udp(&ask("web", 1)[..11]), None);
    assert_eq!(over_udp(&message(0x8180, [1, 0, 0, 0], &question("web", 1))), None);
}

#[test]
fn other_operations_are_not_implemented() {
    for opcode in 1..16u16 {
        let query = message(opcode << 11 | 0x0100, [1, 0, 0, 0], &question("web", 1));
        let expected = message(0x8180 | opcode << 11 | Code::NotImplemented as u16, [0; 4], b"");
        assert_eq!(over_udp(&query), Some(expected), "opcode {opcode}");
    }
}

#[test]
fn malformed_queries_are_format_errors() {
    let web = question("web", 1);
    let record = |name: &[u8], len: u16| [name, b"\0\x01\0\x01\0\0\0\0", &len.to_be_bytes()].concat();
    let long = [b"\x3f".as_slice(), &[b'a'; 63]].concat();
    let opts = [opt(512, 0, 0, b""), opt(512, 0, 0, b"")].concat();
    let mut owned = opt(512, 0, 0, b"");
    owned.splice(0..1, *b"\x01x\0");
    let cases: [(&str, [u16; 4], Vec<u8>); 16] = [
        ("no question", [0, 0, 0, 0], vec![]),
        ("two questions", [2, 0, 0, 0], [&web[..], &web].concat()),
        ("no name", [1, 0, 0, 0], vec![]),
        ("no end of the name", [1, 0, 0, 0], b"\x03web".to_vec()),
        ("no class", [1, 0, 0, 0], web[..web.len() - 2].to_vec()),
        ("a pointer to itself", [1, 0, 0, 0], b"\xc0\x0c\0\x01\0\x01".to_vec()),
        ("a pointer into the header", [1, 0, 0, 0], b"\x03web\xc0\0\0\x01\0\x01".to_vec()),
        ("a cut pointer", [1, 0, 0, 0], b"\x03web\xc0".to_vec()),
        ("a label of the reserved kind", [1, 0, 0, 0], b"\x40web\0\0\x01\0\x01".to_vec()),
        ("a name of 257 bytes", [1, 0, 0, 0], [long.repeat(4), b"\0\0\x01\0\x01".to_vec()].concat()),
        ("a missing record", [1, 0, 0, 1], web.clone()),
        ("a cut record", [1, 0, 1, 0], [&web[..], &record(b"\0", 4)[..8]].concat()),
        ("data beyond the end", [1, 1, 0, 0], [&web[..], &record(b"\xc0\x0c", 5), b"four"].concat()),
        ("two OPT records", [1, 0, 0, 2], [web.clone(), opts].concat()),
        ("an OPT record with a name", [1, 0, 0, 1], [web.clone(), owned].concat()),
        ("65,535 records", [1, 0xffff, 0xffff, 0xffff], web.clone()),
    ];
    for (what, counts, rest) in cases {
        let expected = message(0x8180 | Code::FormatError as u16, [0; 4], b"");
        assert_eq!(over_udp(&message(QUERY, counts, &rest)), Some(expected), "{what}");
    }
    // Records that nobody asked about do not matter, nor does what follows the last.
    let more = [&web[..], &record(b"\xc0\x0c", 4), b"four", &opt(512, 0, 0, b""), b"more"].concat();
    assert_eq!(flags(&over_udp(&message(QUERY, [1, 1, 0, 1], &more)).unwrap()), 0x8580);
}

#[test]
fn the_longest_name_is_no_error() {
    let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "a".repeat(61));
    let query = ask(&name, wire::TYPE_A);
    assert_eq!(query.len(), 12 + 255 + 4);
    assert_eq!(flags(&over_udp(&query).unwrap()), 0x8583);
}

#[test]
fn edns_is_answered_with_edns() {
    // With DNSSEC OK and unknown flags, and a cookie that nobody bakes.
    let query = ask_edns("web", 1, &opt(4096, 0, 0x8001, b"\0\x0a\0\x08abcdefgh"));
    let answer = over_udp(&query).unwrap();
    assert_eq!(answer[4..12], [0, 1, 0, 1, 0, 0, 0, 1]);
    assert!(answer.ends_with(&opt(1232, 0, 0x8000, b"")));
    let plain = over_udp(&ask_edns("web", 1, &opt(1232, 0, 0, b""))).unwrap();
    assert!(plain.ends_with(&opt(1232, 0, 0, b"")));
    let later = over_udp(&ask_edns("web", 1, &opt(4096, 1, 0, b""))).unwrap();
    assert_eq!(flags(&later), 0x8180, "BADVERS is 16: its lower bits are zero");
    assert_eq!(later[4..12], [0, 1, 0, 0, 0, 0, 0, 1]);
    assert!(later.ends_with(b"\0\0\x29\x04\xd0\x01\0\0\0\0\0"));
}

#[test]
fn an_answer_that_is_too_long_says_so() {
    let header = Header { id: 1, flags: 0 };
    let text = ask_edns("web", 1, &opt(4096, 0, 0, b""));
    let query = Query::read(header, &text).unwrap();
    let record = || Some(Record { owner: Owner::Question, kind: 16, ttl: 0, data: &[7; 600] });
    let of = |limit| wire::response(&query, wire::AUTHORITATIVE, Code::NoError, record(), None, limit);
    let whole = of(usize::from(u16::MAX));
    assert_eq!((flags(&whole) & wire::TRUNCATED, of(whole.len()) == whole), (0, true));
    let cut = of(whole.len() - 1);
    assert_eq!(flags(&cut), 0x8680);
    assert_eq!(cut[4..12], [0, 1, 0, 0, 0, 0, 0, 1], "question and EDNS stay");
}

#[test]
fn cut_and_garbled_queries_are_survived() {
    let whole = ask_edns("relay-1.tor", 1, &opt(4096, 0, 0x8000, b"\0\x0a\0\x08abcdefgh"));
    let mut random = SeedTree::new(7).stream("dns", "garble");
    for len in 0..whole.len() {
        assert_eq!(over_udp(&whole[..len]).is_some(), len >= wire::HEADER_LEN);
    }
    for _ in 0..100_000 {
        let mut garbled = whole.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(garbled.len() as u64) as usize;
            garbled[at] = random.below(256) as u8;
        }
        if let Some(answer) = over_udp(&garbled) {
            assert_eq!(answer[..2], garbled[..2]);
            assert!(flags(&answer) & wire::RESPONSE != 0 && answer.len() <= 512);
            assert_ne!(flags(&answer) & 0xf, 2, "SERVFAIL");
        }
    }
}

/// The query behind its length.
fn framed(query: &[u8]) -> Vec<u8> {
    [&(query.len() as u16).to_be_bytes()[..], query].concat()
}

#[test]
fn datagrams_are_answered_within_the_call() {
    let mut machine = Machine::new(A);
    let client = machine.socket(SOCK_DGRAM);
    machine.connect(client, ADDRESS, 53).unwrap();
    // As glibc does: two questions on their way at once.
    let questions = [ask("hOsT1", 1), ask("hOsT1", AAAA)];
    for question in &questions {
        machine.write(client, question).unwrap();
    }
    for question in &questions {
        let answer = machine.recv(client, 512, 0).unwrap();
        assert_eq!(answer[12..question.len()], question[12..]);
        assert_eq!(flags(&answer), 0x8580);
    }
    assert_eq!(machine.recv(client, 512, linux_abi::socket::MSG_DONTWAIT), Err(Errno::EAGAIN));
}

#[test]
fn streams_carry_questions_in_parts_and_several_at_once() {
    let mut machine = Machine::new(A);
    let client = machine.socket(SOCK_STREAM);
    machine.connect(client, ADDRESS, 53).unwrap();
    let query = ask("host1", 1);
    let expected = framed(&answer(machine.kernel.config.hosts.table(), &query, Carrier::Tcp).unwrap());
    for byte in framed(&query) {
        assert_eq!(machine.recv(client, 512, linux_abi::socket::MSG_DONTWAIT), Err(Errno::EAGAIN));
        machine.write(client, &[byte]).unwrap();
    }
    assert_eq!(machine.recv(client, 512, 0).unwrap(), expected);
    // A frame without a message, a response, and two questions.
    let response = message(0x8180, [1, 0, 0, 0], &question("host1", 1));
    machine.write(client, &[framed(b""), framed(&response), framed(&query), framed(&query)].concat()).unwrap();
    assert_eq!(machine.recv(client, 512, 0).unwrap(), expected.repeat(2));
    machine.call(nr::shutdown, &[client, SHUT_WR as u64]).unwrap();
    assert_eq!(machine.recv(client, 512, 0).unwrap(), b"", "the resolver closes, too");
}

#[test]
fn a_program_that_does_not_read_stops_its_own_stream() {
    let mut machine = Machine::new(A);
    let client = machine.socket(SOCK_STREAM);
    machine.connect(client, ADDRESS, 53).unwrap();
    let query = framed(&ask("host1", 1));
    let expected = framed(&answer(machine.kernel.config.hosts.table(), &ask("host1", 1), Carrier::Tcp).unwrap());
    let mut asked = 0;
    let batch = query.repeat(1000);
    let at = machine.put(&batch[..]);
    loop {
        let flags = u64::from(linux_abi::socket::MSG_DONTWAIT);
        match machine.call(nr::sendto, &[client, at, batch.len() as u64, flags]) {
            Ok(sent) => asked += sent as usize,
            Err(errno) => break assert_eq!(errno, Errno::EAGAIN),
        }
        assert!(asked < 64 << 20, "the resolver's answers are bounded by the socket's buffers");
        let part = asked % query.len();
        machine.memory().write(at, &[&query[part..], &batch[..batch.len() - query.len() + part]].concat()).unwrap();
    }
    let mut answers = Vec::new();
    let room = machine.room(1 << 16);
    while answers.len() < asked / query.len() * expected.len() {
        let flags = u64::from(linux_abi::socket::MSG_DONTWAIT);
        let count = machine.call(nr::recvfrom, &[client, room, 1 << 16, flags]).expect("an answer to every question");
        answers.extend_from_slice(&machine.bytes(room, count as usize));
    }
    assert!(answers == expected.repeat(asked / query.len()));
}

#[test]
fn the_resolver_is_in_no_programs_way() {
    let mut machine = Machine::new(A);
    for kind in [SOCK_DGRAM, SOCK_STREAM] {
        let own = machine.socket(kind);
        assert_eq!(machine.bind(own, ADDRESS, 53), Err(Errno::EADDRINUSE));
        assert_eq!(machine.bind(own, Ipv4Addr::UNSPECIFIED, 53), Ok(0));
    }
}
