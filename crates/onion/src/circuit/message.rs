//! Messages between a client and a relay of its circuit, which relay cells carry (tor-spec, "Relay cells").

use crate::cell::BODY;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes before a message's own: command, recognized, stream, digest, length.
pub const HEADER: usize = 11;
/// The longest message.
pub const LONGEST: usize = BODY - HEADER;

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command(pub u8);

impl Command {
    pub const BEGIN: Command = Command(1);
    pub const DATA: Command = Command(2);
    pub const END: Command = Command(3);
    pub const CONNECTED: Command = Command(4);
    pub const SENDME: Command = Command(5);
    pub const EXTEND: Command = Command(6);
    pub const EXTENDED: Command = Command(7);
    pub const TRUNCATE: Command = Command(8);
    pub const TRUNCATED: Command = Command(9);
    pub const DROP: Command = Command(10);
    pub const RESOLVE: Command = Command(11);
    pub const RESOLVED: Command = Command(12);
    pub const BEGIN_DIR: Command = Command(13);
    pub const EXTEND2: Command = Command(14);
    pub const EXTENDED2: Command = Command(15);
    pub const XOFF: Command = Command(43);
    pub const XON: Command = Command(44);

    /// Whether it is about the circuit, and so names no stream.
    pub fn is_of_circuit(self) -> bool {
        matches!(
            self,
            Command::EXTEND
                | Command::EXTENDED
                | Command::TRUNCATE
                | Command::TRUNCATED
                | Command::DROP
                | Command::EXTEND2
                | Command::EXTENDED2
        )
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Command::BEGIN => "BEGIN",
            Command::DATA => "DATA",
            Command::END => "END",
            Command::CONNECTED => "CONNECTED",
            Command::SENDME => "SENDME",
            Command::EXTEND => "EXTEND",
            Command::EXTENDED => "EXTENDED",
            Command::TRUNCATE => "TRUNCATE",
            Command::TRUNCATED => "TRUNCATED",
            Command::DROP => "DROP",
            Command::RESOLVE => "RESOLVE",
            Command::RESOLVED => "RESOLVED",
            Command::BEGIN_DIR => "BEGIN_DIR",
            Command::EXTEND2 => "EXTEND2",
            Command::EXTENDED2 => "EXTENDED2",
            Command::XOFF => "XOFF",
            Command::XON => "XON",
            Command(other) => return write!(f, "message {other}"),
        };
        f.write_str(name)
    }
}

/// A message as it stands in a decrypted relay cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub command: Command,
    /// 0 for the circuit itself.
    pub stream: u16,
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a cell that was recognized; nothing if its length goes beyond the cell.
    pub fn read(body: &'a [u8; BODY]) -> Option<Message<'a>> {
        let length = usize::from(u16::from_be_bytes([body[9], body[10]]));
        let message = body.get(HEADER..HEADER + length)?;
        Some(Message { command: Command(body[0]), stream: u16::from_be_bytes([body[3], body[4]]), body: message })
    }

    /// Writes a cell whose digest is still missing. What is left of it is zero, except that tor-spec wants random bytes behind the
    /// first four, `filling`.
    ///
    /// # Panics
    /// If the message is longer than [`LONGEST`].
    pub fn write(&self, filling: impl FnOnce(&mut [u8])) -> [u8; BODY] {
        let length = self.body.len();
        assert!(length <= LONGEST, "a message of {length} bytes");
        let mut body = [0; BODY];
        body[0] = self.command.0;
        body[3..5].copy_from_slice(&self.stream.to_be_bytes());
        body[9..11].copy_from_slice(&(length as u16).to_be_bytes());
        body[HEADER..HEADER + length].copy_from_slice(self.body);
        if let Some(rest) = body.get_mut(HEADER + length + 4..) {
            filling(rest);
        }
        body
    }
}

/// Why a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    Misc = 1,
    ResolveFailed = 2,
    ConnectRefused = 3,
    ExitPolicy = 4,
    Destroy = 5,
    Done = 6,
    Timeout = 7,
    NoRoute = 8,
    Hibernating = 9,
    Internal = 10,
    ResourceLimit = 11,
    ConnectionReset = 12,
    TorProtocol = 13,
    NotDirectory = 14,
}

/// Why a circuit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DestroyReason {
    None = 0,
    Protocol = 1,
    Internal = 2,
    Requested = 3,
    Hibernating = 4,
    ResourceLimit = 5,
    ConnectFailed = 6,
    Identity = 7,
    ChannelClosed = 8,
    Finished = 9,
    Timeout = 10,
    Destroyed = 11,
}

/// Where a BEGIN wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// A name, or an address in figures.
    pub host: String,
    pub port: u16,
    pub allows_ipv6: bool,
    pub refuses_ipv4: bool,
    pub prefers_ipv6: bool,
}

impl Begin {
    /// `HOST:PORT`, a zero byte, and flags, which may be missing.
    pub fn read(body: &[u8]) -> Option<Begin> {
        let end = body.iter().position(|byte| *byte == 0)?;
        let (host, port) = std::str::from_utf8(&body[..end]).ok()?.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let flags =
            body.get(end + 1..end + 5).map_or(0, |flags| u32::from_be_bytes(flags.try_into().expect("4 bytes")));
        if host.is_empty() {
            return None;
        }
        Some(Begin {
            host: host.to_ascii_lowercase(),
            port,
            allows_ipv6: flags & 1 != 0,
            refuses_ipv4: flags & 2 != 0,
            prefers_ipv6: flags & 4 != 0,
        })
    }
}

/// BEGIN's body of a client that wants IPv4: without flags.
pub fn begin(host: &str, port: u16) -> Vec<u8> {
    format!("{host}:{port}\0").into_bytes()
}

/// CONNECTED's body: the address and for how long it may be remembered, in seconds.
pub fn connected(address: IpAddr, ttl_s: u32) -> Vec<u8> {
    let mut body = Vec::with_capacity(25);
    match address {
        IpAddr::V4(address) => body.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => {
            body.extend_from_slice(&[0, 0, 0, 0, 6]);
            body.extend_from_slice(&address.octets());
        }
    }
    body.extend_from_slice(&ttl_s.to_be_bytes());
    body
}

/// END's body; towards a client that asked for an address beyond the policy, tor adds the address.
pub fn end(reason: EndReason, address: Option<(IpAddr, u32)>) -> Vec<u8> {
    let mut body = vec![reason as u8];
    if let Some((address, ttl_s)) = address {
        match address {
            IpAddr::V4(address) => body.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => body.extend_from_slice(&address.octets()),
        }
        body.extend_from_slice(&ttl_s.to_be_bytes());
    }
    body
}

/// An answer to RESOLVE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    Name(String),
    Address(IpAddr),
    /// Asking again may help.
    TransientError,
    Error,
}

/// RESOLVED's body.
pub fn resolved(answers: &[(Resolved, u32)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (answer, ttl_s) in answers {
        let (kind, value) = match answer {
            Resolved::Name(name) => (0, name.as_bytes().to_vec()),
            Resolved::Address(IpAddr::V4(address)) => (4, address.octets().to_vec()),
            Resolved::Address(IpAddr::V6(address)) => (6, address.octets().to_vec()),
            Resolved::TransientError => (0xf0, Vec::new()),
            Resolved::Error => (0xf1, Vec::new()),
        };
        if body.len() + value.len() + 6 > LONGEST || value.len() > 255 {
            break;
        }
        body.push(kind);
        body.push(value.len() as u8);
        body.extend_from_slice(&value);
        body.extend_from_slice(&ttl_s.to_be_bytes());
    }
    body
}

/// SENDME's body for a circuit: version 1, and the digest of the cell that made it due (tor-spec, "Circuit-level flow control").
pub fn sendme(digest: &[u8; 20]) -> [u8; 23] {
    let mut body = [0; 23];
    body[..3].copy_from_slice(&[1, 0, 20]);
    body[3..].copy_from_slice(digest);
    body
}

/// The digest that a circuit's SENDME names; nothing if it is of another version or too short.
pub fn read_sendme(body: &[u8]) -> Option<[u8; 20]> {
    let [1, length @ ..] = body.get(..3)? else { return None };
    if u16::from_be_bytes([length[0], length[1]]) < 20 {
        return None;
    }
    body.get(3..23)?.try_into().ok()
}

/// What a client asks a relay to extend its circuit by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extend2 {
    /// Where the next relay listens, in the order given.
    pub addresses: Vec<(IpAddr, u16)>,
    /// SHA-1 of its RSA identity.
    pub fingerprint: [u8; 20],
    pub ed25519: Option<[u8; 32]>,
    /// The handshake's number and the client's bytes, for CREATE2.
    pub handshake: u16,
    pub data: Vec<u8>,
}

impl Extend2 {
    /// Reads link specifiers and the handshake.
    pub fn read(body: &[u8]) -> Option<Extend2> {
        let mut rest = Reader(body);
        let (mut addresses, mut fingerprint, mut ed25519) = (Vec::new(), None, None);
        for _ in 0..rest.byte()? {
            let kind = rest.byte()?;
            let length = usize::from(rest.byte()?);
            let value = rest.bytes(length)?;
            match (kind, length) {
                (0, 6) => {
                    let address: [u8; 4] = value[..4].try_into().expect("4 bytes");
                    addresses.push((IpAddr::V4(Ipv4Addr::from(address)), u16::from_be_bytes([value[4], value[5]])));
                }
                (1, 18) => {
                    let address: [u8; 16] = value[..16].try_into().expect("16 bytes");
                    addresses.push((IpAddr::V6(Ipv6Addr::from(address)), u16::from_be_bytes([value[16], value[17]])));
                }
                (2, 20) if fingerprint.is_none() => fingerprint = value.try_into().ok(),
                (3, 32) if ed25519.is_none() => ed25519 = value.try_into().ok(),
                (0..=3, _) => return None,
                _ => {}
            }
        }
        let handshake = rest.number()?;
        let length = usize::from(rest.number()?);
        let data = rest.bytes(length)?.to_vec();
        Some(Extend2 { addresses, fingerprint: fingerprint?, ed25519, handshake, data })
    }

    /// Writes what [`Extend2::read`] reads.
    pub fn write(&self) -> Vec<u8> {
        let specifiers = self.addresses.len() + 1 + usize::from(self.ed25519.is_some());
        let mut body = vec![specifiers as u8];
        for (address, port) in &self.addresses {
            match address {
                IpAddr::V4(address) => {
                    body.extend_from_slice(&[0, 6]);
                    body.extend_from_slice(&address.octets());
                }
                IpAddr::V6(address) => {
                    body.extend_from_slice(&[1, 18]);
                    body.extend_from_slice(&address.octets());
                }
            }
            body.extend_from_slice(&port.to_be_bytes());
        }
        body.extend_from_slice(&[2, 20]);
        body.extend_from_slice(&self.fingerprint);
        if let Some(ed25519) = &self.ed25519 {
            body.extend_from_slice(&[3, 32]);
            body.extend_from_slice(ed25519);
        }
        body.extend_from_slice(&create2(self.handshake, &self.data));
        body
    }
}

/// CREATE2's body.
pub fn create2(handshake: u16, data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(4 + data.len());
    body.extend_from_slice(&handshake.to_be_bytes());
    body.extend_from_slice(&(data.len() as u16).to_be_bytes());
    body.extend_from_slice(data);
    body
}

/// The handshake's number and bytes in CREATE2.
pub fn read_create2(body: &[u8]) -> Option<(u16, &[u8])> {
    let mut rest = Reader(body);
    let handshake = rest.number()?;
    let length = usize::from(rest.number()?);
    Some((handshake, rest.bytes(length)?))
}

/// CREATED2's and EXTENDED2's body.
pub fn created2(data: &[u8]) -> Vec<u8> {
    [&(data.len() as u16).to_be_bytes()[..], data].concat()
}

/// The handshake's bytes in CREATED2 and EXTENDED2.
pub fn read_created2(body: &[u8]) -> Option<&[u8]> {
    let mut rest = Reader(body);
    let length = usize::from(rest.number()?);
    rest.bytes(length)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn number(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_written() {
        for length in [0, 1, LONGEST - 3, LONGEST] {
            let bytes = vec![7; length];
            let message = Message { command: Command::DATA, stream: 515, body: &bytes };
            let mut filled = 0;
            let body = message.write(|rest| filled = rest.len());
            assert_eq!(Message::read(&body), Some(message));
            assert_eq!(filled, (LONGEST - length).saturating_sub(4));
        }
        let mut body = [0; BODY];
        body[9..11].copy_from_slice(&(LONGEST as u16 + 1).to_be_bytes());
        assert_eq!(Message::read(&body), None);
    }

    #[test]
    fn begin_names_a_host_and_a_port() {
        let begin = Begin::read(b"Example.COM:80\0\0\0\0\x05").expect("a name");
        assert_eq!((begin.host.as_str(), begin.port), ("example.com", 80));
        assert!(begin.allows_ipv6 && !begin.refuses_ipv4 && begin.prefers_ipv6);
        assert_eq!(Begin::read(b"[::1]:443\0").expect("an address").host, "::1");
        for wrong in [&b"a:80"[..], b"a\0", b":80\0", b"a:0\0", b"a:70000\0", b"\xff:80\0", b""] {
            assert_eq!(Begin::read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn extend2_comes_back_as_it_was_written() {
        let extend = Extend2 {
            addresses: vec![("1.2.3.4".parse().expect("an address"), 9001), ("::2".parse().expect("an address"), 9002)],
            fingerprint: [4; 20],
            ed25519: Some([5; 32]),
            handshake: 2,
            data: vec![6; 84],
        };
        let body = extend.write();
        assert_eq!(Extend2::read(&body), Some(extend));
        for end in 0..body.len() {
            assert_eq!(Extend2::read(&body[..end]), None);
        }
    }

    #[test]
    fn sendmes_name_a_cell() {
        assert_eq!(read_sendme(&sendme(&[8; 20])), Some([8; 20]));
        assert_eq!(read_sendme(&[]), None);
        assert_eq!(read_sendme(&[0, 0, 20]), None);
        assert_eq!(read_sendme(&sendme(&[8; 20])[..22]), None);
    }

    #[test]
    fn answers_say_what_was_found() {
        let address = "1.2.3.4".parse().expect("an address");
        assert_eq!(connected(address, 60), [1, 2, 3, 4, 0, 0, 0, 60]);
        assert_eq!(end(EndReason::ExitPolicy, Some((address, 60))), [4, 1, 2, 3, 4, 0, 0, 0, 60]);
        assert_eq!(resolved(&[(Resolved::Address(address), 60)]), [4, 4, 1, 2, 3, 4, 0, 0, 0, 60]);
        assert_eq!(resolved(&[(Resolved::Error, 0)]), [0xf1, 0, 0, 0, 0, 0]);
    }
}
