//! SOCKS5 as a client speaks it: RFC 1928, with user name and password as in RFC 1929. Names go to the proxy as they are.

use crate::config::Peer;
use std::net::IpAddr;

/// User name and password; each is 1 to 255 bytes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;

/// The first message: the one method that is offered (RFC 1928, section 3).
pub fn greeting(with_credentials: bool) -> Vec<u8> {
    vec![VERSION, 1, if with_credentials { USER_AND_PASSWORD } else { NO_AUTHENTICATION }]
}

/// RFC 1929, section 2.
pub fn authentication(credentials: &Credentials) -> Vec<u8> {
    let mut message = vec![1];
    for field in [&credentials.user, &credentials.password] {
        let field = &field.as_bytes()[..field.len().min(255)];
        message.push(field.len() as u8);
        message.extend_from_slice(field);
    }
    message
}

/// CONNECT (RFC 1928, section 4). A host is at most 255 bytes long, which `Peer` ensures.
pub fn connect(target: &Peer) -> Vec<u8> {
    let mut message = vec![VERSION, 1, 0];
    match target.host.parse() {
        Ok(IpAddr::V4(address)) => {
            message.push(1);
            message.extend_from_slice(&address.octets());
        }
        Ok(IpAddr::V6(address)) => {
            message.push(4);
            message.extend_from_slice(&address.octets());
        }
        Err(_) => {
            message.extend_from_slice(&[3, target.host.len() as u8]);
            message.extend_from_slice(target.host.as_bytes());
        }
    }
    message.extend_from_slice(&target.port.to_be_bytes());
    message
}

/// What a reply means.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// More bytes are needed.
    Incomplete,
    /// Good, and so many bytes long.
    Granted(usize),
    /// Reason and detail.
    Refused(String, String),
}

fn refused(reason: &str, detail: impl Into<String>) -> Reply {
    Reply::Refused(reason.into(), detail.into())
}

/// The answer to the greeting.
pub fn method_reply(bytes: &[u8], with_credentials: bool) -> Reply {
    match *bytes {
        [] | [VERSION] => Reply::Incomplete,
        [VERSION, method, ..] if method == greeting(with_credentials)[2] => Reply::Granted(2),
        [VERSION, 0xff, ..] => refused("socks-auth", "the proxy accepts none of the offered methods"),
        _ => refused("protocol", "the proxy does not speak SOCKS5"),
    }
}

/// The answer to user name and password.
pub fn authentication_reply(bytes: &[u8]) -> Reply {
    match *bytes {
        [] | [_] => Reply::Incomplete,
        [_, 0, ..] => Reply::Granted(2),
        [_, status, ..] => {
            refused("socks-auth", format!("the proxy refused user name and password with status {status}"))
        }
    }
}

/// The answer to CONNECT (RFC 1928, section 6).
pub fn connect_reply(bytes: &[u8]) -> Reply {
    let length = match *bytes {
        [version, ..] if version != VERSION => return refused("protocol", "the proxy does not speak SOCKS5"),
        [_, code, ..] if code != 0 => return refused(&format!("socks-{code}"), meaning(code)),
        [_, _, _, 1, ..] => 10,
        [_, _, _, 4, ..] => 22,
        [_, _, _, 3, length, ..] => 7 + usize::from(length),
        [_, _, _, kind, ..] if kind != 3 => {
            return refused("protocol", "the proxy's reply has no known kind of address");
        }
        _ => return Reply::Incomplete,
    };
    if bytes.len() < length { Reply::Incomplete } else { Reply::Granted(length) }
}

/// Reply codes: those of RFC 1928, and tor's for onion services (tor's manual, ExtendedErrors).
fn meaning(code: u8) -> &'static str {
    match code {
        1 => "general failure",
        2 => "not allowed by the proxy's rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused by the target",
        6 => "time to live expired",
        7 => "command not supported",
        8 => "kind of address not supported",
        0xf0 => "onion service descriptor not found",
        0xf1 => "onion service descriptor is invalid",
        0xf2 => "onion service introduction failed",
        0xf3 => "onion service rendezvous failed",
        0xf4 => "onion service needs client authorization",
        0xf5 => "onion service refused the client authorization",
        0xf6 => "onion address is invalid",
        0xf7 => "onion service introduction timed out",
        _ => "a code that no standard gives a meaning",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_rfcs() {
        assert_eq!(greeting(false), [5, 1, 0]);
        assert_eq!(greeting(true), [5, 1, 2]);
        let credentials = Credentials { user: "ab".into(), password: "c".into() };
        assert_eq!(authentication(&credentials), b"\x01\x02ab\x01c");
        assert_eq!(connect(&Peer { host: "10.1.2.3".into(), port: 80 }), [5, 1, 0, 1, 10, 1, 2, 3, 0, 80]);
        assert_eq!(connect(&Peer { host: "a.onion".into(), port: 258 }), b"\x05\x01\x00\x03\x07a.onion\x01\x02");
        let v6 = connect(&Peer { host: "::1".into(), port: 1 });
        assert_eq!((v6.len(), v6[3], v6[19]), (22, 4, 1));
    }

    #[test]
    fn replies_are_read_byte_by_byte() {
        let reply = [5, 0, 0, 3, 3, b'a', b'b', b'c', 0, 80];
        for length in 0..reply.len() {
            assert_eq!(connect_reply(&reply[..length]), Reply::Incomplete, "{length}");
        }
        assert_eq!(connect_reply(&reply), Reply::Granted(10));
        assert_eq!(connect_reply(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9]), Reply::Granted(10));
        assert_eq!(connect_reply(&[5, 4]), Reply::Refused("socks-4".into(), "host unreachable".into()));
        assert!(matches!(connect_reply(b"HTTP"), Reply::Refused(reason, _) if reason == "protocol"));
        assert_eq!(method_reply(&[5, 2], true), Reply::Granted(2));
        assert!(matches!(method_reply(&[5, 0xff], true), Reply::Refused(reason, _) if reason == "socks-auth"));
        assert!(matches!(authentication_reply(&[1, 1]), Reply::Refused(..)));
    }
}
