//! SOCKS5 as tor's port speaks it: RFC 1928 with user name and password as in RFC 1929, which separate circuits (tor's `IsolateSOCKSAuth`) and
//! are never wrong.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NONE_ACCEPTED: u8 = 0xff;
const CONNECT: u8 = 1;

/// Codes of replies (RFC 1928, section 6).
pub mod reply {
    pub const GRANTED: u8 = 0;
    pub const FAILURE: u8 = 1;
    pub const NOT_ALLOWED: u8 = 2;
    pub const HOST_UNREACHABLE: u8 = 4;
    pub const REFUSED: u8 = 5;
    pub const EXPIRED: u8 = 6;
    pub const NO_COMMAND: u8 = 7;
    pub const NO_ADDRESS: u8 = 8;
}

/// User name and password; none for none.
pub type Isolation = Option<Box<[u8]>>;

/// Where a program wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub host: String,
    pub port: u16,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    Greeting,
    Authentication,
    Request,
}

/// A program's side of a connection, until it has said where it wants to go.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    stage: Stage,
    inbox: Vec<u8>,
    isolation: Isolation,
}

/// What follows from what a program has said.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// More must come.
    Nothing,
    /// It is answered, and more must come.
    Answered,
    /// It wants a stream. What it has said already behind that comes with it.
    Wants(Target, Isolation, Vec<u8>),
    /// The connection is to be closed behind the answer.
    Wrong,
}

impl Talk {
    /// Takes bytes that came; answers are added to `out`.
    pub fn said(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Said {
        self.inbox.extend_from_slice(bytes);
        let before = out.len();
        loop {
            let step = match self.stage {
                Stage::Greeting => self.greeting(out),
                Stage::Authentication => self.authentication(out),
                Stage::Request => return self.request(out).unwrap_or(Said::Nothing),
            };
            match step {
                None if out.len() > before => return Said::Answered,
                None => return Said::Nothing,
                Some(true) => {}
                Some(false) => return Said::Wrong,
            }
        }
    }

    /// Whether it was good; nothing if it is not yet whole.
    fn greeting(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        let [version, count, methods @ ..] = &self.inbox[..] else {
            // A program that speaks something else need not say more.
            return self.inbox.first().filter(|version| **version != VERSION).map(|_| false);
        };
        if *version != VERSION {
            return Some(false);
        }
        let methods = methods.get(..usize::from(*count))?;
        let method = [USER_AND_PASSWORD, NO_AUTHENTICATION].into_iter().find(|method| methods.contains(method));
        out.extend_from_slice(&[VERSION, method.unwrap_or(NONE_ACCEPTED)]);
        self.inbox.drain(..2 + usize::from(*count));
        self.stage = if method == Some(USER_AND_PASSWORD) { Stage::Authentication } else { Stage::Request };
        Some(method.is_some())
    }

    fn authentication(&mut self, out: &mut Vec<u8>) -> Option<bool> {
        let user = usize::from(*self.inbox.get(1)?);
        let password = usize::from(*self.inbox.get(2 + user)?);
        let end = 3 + user + password;
        let credentials = self.inbox.get(1..end)?;
        if self.inbox[0] != 1 {
            return Some(false);
        }
        self.isolation = Some(credentials.into());
        self.inbox.drain(..end);
        out.extend_from_slice(&[1, 0]);
        self.stage = Stage::Request;
        Some(true)
    }

    fn request(&mut self, out: &mut Vec<u8>) -> Option<Said> {
        let [version, command, _, kind, rest @ ..] = &self.inbox[..] else { return None };
        let (host, length) = match kind {
            1 => (IpAddr::from(Ipv4Addr::from(*rest.first_chunk::<4>()?)).to_string(), 4),
            4 => (format!("[{}]", Ipv6Addr::from(*rest.first_chunk::<16>()?)), 16),
            3 => {
                let length = usize::from(*rest.first()?);
                let name = rest.get(1..1 + length)?;
                (String::from_utf8_lossy(name).to_ascii_lowercase(), 1 + length)
            }
            _ => {
                out.extend_from_slice(&answer(reply::NO_ADDRESS));
                return Some(Said::Wrong);
            }
        };
        let port = u16::from_be_bytes(*rest.get(length..)?.first_chunk::<2>()?);
        let behind = rest[length + 2..].to_vec();
        if *version != VERSION || *command != CONNECT {
            out.extend_from_slice(&answer(reply::NO_COMMAND));
            return Some(Said::Wrong);
        }
        // Such a name cannot stand in BEGIN.
        let is_name = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_name || port == 0 || is_of_tor(&host) {
            out.extend_from_slice(&answer(reply::FAILURE));
            return Some(Said::Wrong);
        }
        self.inbox = Vec::new();
        Some(Said::Wants(Target { host, port }, self.isolation.take(), behind))
    }
}

/// Whether a name means something within Tor that this client does not know, onion services and chosen exits: no exit could look it up.
fn is_of_tor(host: &str) -> bool {
    let name = host.trim_end_matches('.');
    name.ends_with(".onion") || name.ends_with(".exit")
}

/// A reply to CONNECT; the address says nothing, as tor's.
pub fn answer(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that was answered, and what it came to, of bytes that come one by one.
    fn talk(bytes: &[u8]) -> (Vec<u8>, Said) {
        let (mut talk, mut out) = (Talk::default(), Vec::new());
        for byte in bytes {
            match talk.said(&[*byte], &mut out) {
                Said::Nothing | Said::Answered => {}
                said => return (out, said),
            }
        }
        (out, Said::Nothing)
    }

    #[test]
    fn names_with_credentials_are_understood() {
        let (out, said) = talk(b"\x05\x01\x02\x01\x02ab\x01c\x05\x01\x00\x03\x07A.union\x01\x02");
        assert_eq!(out, [5, 2, 1, 0]);
        let isolation: Isolation = Some(b"\x02ab\x01c"[..].into());
        let target = Target { host: "a.union".to_owned(), port: 258 };
        assert_eq!(said, Said::Wants(target, isolation, Vec::new()));
    }

    #[test]
    fn addresses_without_credentials_are_understood_at_once() {
        let mut out = Vec::new();
        let said = Talk::default().said(b"\x05\x02\x01\x00\x05\x01\x00\x01\x3c\x00\x00\x01\x00\x50GET", &mut out);
        assert_eq!(out, [5, 0]);
        assert_eq!(said, Said::Wants(Target { host: "60.0.0.1".to_owned(), port: 80 }, None, b"GET".to_vec()));
        let (_, said) = talk(b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x00\x50");
        assert_eq!(said, Said::Wants(Target { host: "[::1]".to_owned(), port: 80 }, None, Vec::new()));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(talk(b"GET / HTTP/1.0\r\n").1, Said::Wrong);
        assert_eq!(talk(b"\x05\x01\x09"), (vec![5, 0xff], Said::Wrong));
        let (out, said) = talk(b"\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x50");
        assert_eq!((said, out[3]), (Said::Wrong, reply::NO_COMMAND));
        assert_eq!(talk(b"\x05\x01\x00\x05\x01\x00\x03\x02a \x00\x50").1, Said::Wrong);
        assert_eq!(talk(b"\x05\x01\x00\x05\x01\x00\x09").1, Said::Wrong);
        for name in [&b"\x07A.onion"[..], b"\x08b.A.exit", b"\x08a.onion."] {
            let (out, said) = talk(&[b"\x05\x01\x00\x05\x01\x00\x03", name, b"\x00\x50"].concat());
            assert_eq!((said, out[3]), (Said::Wrong, reply::FAILURE), "{name:?}");
        }
    }
}
