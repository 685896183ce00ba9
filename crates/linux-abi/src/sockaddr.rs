//! Socket addresses: their structures, and one type that reads and writes all of them.

use crate::Errno;
use crate::socket::{AF_INET, AF_INET6, AF_UNIX, AF_UNSPEC};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// ip(7). Port and address in network order.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SockaddrIn {
    pub sin_family: u16,
    pub sin_port: [u8; 2],
    pub sin_addr: [u8; 4],
    pub sin_zero: [u8; 8],
}

/// ipv6(7). Port, flow label and address in network order.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SockaddrIn6 {
    pub sin6_family: u16,
    pub sin6_port: [u8; 2],
    pub sin6_flowinfo: [u8; 4],
    pub sin6_addr: [u8; 16],
    pub sin6_scope_id: u32,
}

/// unix(7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SockaddrUn {
    pub sun_family: u16,
    pub sun_path: [u8; 108],
}

/// netlink(7).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SockaddrNl {
    pub nl_family: u16,
    pub nl_pad: u16,
    pub nl_pid: u32,
    pub nl_groups: u32,
}

/// Room for every address.
pub const SOCKADDR_STORAGE_SIZE: usize = 128;

assert_size! { SockaddrIn = 16, SockaddrIn6 = 28, SockaddrUn = 110, SockaddrNl = 12 }

/// The name of a Unix socket, unix(7).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UnixName {
    Unnamed,
    /// A path, without its NUL.
    Path(Vec<u8>),
    /// The bytes after the leading NUL.
    Abstract(Vec<u8>),
}

/// Any socket address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SockAddr {
    Unspec,
    V4(SocketAddrV4),
    V6(SocketAddrV6),
    Unix(UnixName),
    /// A family that is not decoded: its number and the bytes behind it.
    Other(u16, Vec<u8>),
}

impl SockAddr {
    /// Reads an address as connect(2) does. EINVAL when it is too short for its family (shorter than the family itself
    /// included).
    pub fn parse(bytes: &[u8]) -> Result<SockAddr, Errno> {
        let Some((&family, rest)) = bytes.split_first_chunk::<2>() else {
            return Err(Errno::EINVAL);
        };
        let family = u16::from_ne_bytes(family);
        match i32::from(family) {
            AF_UNSPEC => Ok(SockAddr::Unspec),
            AF_INET => {
                let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
                Ok(SockAddr::V4(SocketAddrV4::new(raw.sin_addr.into(), u16::from_be_bytes(raw.sin_port))))
            }
            AF_INET6 => parse_v6(bytes),
            AF_UNIX => parse_unix(rest),
            _ => Ok(SockAddr::Other(family, rest.to_vec())),
        }
    }

    /// The bytes as the kernel returns them; their number is the address's length.
    pub fn to_bytes(&self) -> Vec<u8> {
        let family = self.family() as u16;
        let with_family = |parts: &[&[u8]]| {
            let mut bytes = family.to_ne_bytes().to_vec();
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            bytes
        };
        match self {
            SockAddr::Unspec | SockAddr::Unix(UnixName::Unnamed) => with_family(&[]),
            SockAddr::V4(v4) => SockaddrIn::from(*v4).as_bytes().to_vec(),
            SockAddr::V6(v6) => SockaddrIn6::from(*v6).as_bytes().to_vec(),
            SockAddr::Unix(UnixName::Path(path)) => with_family(&[path, &[0]]),
            SockAddr::Unix(UnixName::Abstract(name)) => with_family(&[&[0], name]),
            SockAddr::Other(_, rest) => with_family(&[rest]),
        }
    }

    pub fn family(&self) -> i32 {
        match self {
            SockAddr::Unspec => AF_UNSPEC,
            SockAddr::V4(_) => AF_INET,
            SockAddr::V6(_) => AF_INET6,
            SockAddr::Unix(_) => AF_UNIX,
            SockAddr::Other(family, _) => i32::from(*family),
        }
    }

    /// The Internet address, if it is one.
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            SockAddr::V4(v4) => Some(SocketAddr::V4(*v4)),
            SockAddr::V6(v6) => Some(SocketAddr::V6(*v6)),
            _ => None,
        }
    }
}

/// The shortest IPv6 address that the kernel takes: without the scope (`SIN6_LEN_RFC2133`).
const SIN6_LEN_RFC2133: usize = 24;

fn parse_v6(bytes: &[u8]) -> Result<SockAddr, Errno> {
    if bytes.len() < SIN6_LEN_RFC2133 {
        return Err(Errno::EINVAL);
    }
    let mut full = [0; size_of::<SockaddrIn6>()];
    let len = bytes.len().min(full.len());
    full[..len].copy_from_slice(&bytes[..len]);
    let raw = SockaddrIn6::read_from_bytes(&full).map_err(|_| Errno::EINVAL)?;
    let (port, flow) = (u16::from_be_bytes(raw.sin6_port), u32::from_be_bytes(raw.sin6_flowinfo));
    Ok(SockAddr::V6(SocketAddrV6::new(raw.sin6_addr.into(), port, flow, raw.sin6_scope_id)))
}

fn parse_unix(path: &[u8]) -> Result<SockAddr, Errno> {
    if path.len() > 108 {
        return Err(Errno::EINVAL);
    }
    Ok(SockAddr::Unix(match path.split_first() {
        None => UnixName::Unnamed,
        Some((0, name)) => UnixName::Abstract(name.to_vec()),
        Some(_) => {
            let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
            UnixName::Path(path[..end].to_vec())
        }
    }))
}

impl From<SocketAddrV4> for SockaddrIn {
    fn from(addr: SocketAddrV4) -> Self {
        SockaddrIn {
            sin_family: AF_INET as u16,
            sin_port: addr.port().to_be_bytes(),
            sin_addr: addr.ip().octets(),
            sin_zero: [0; 8],
        }
    }
}

impl From<SocketAddrV6> for SockaddrIn6 {
    fn from(addr: SocketAddrV6) -> Self {
        SockaddrIn6 {
            sin6_family: AF_INET6 as u16,
            sin6_port: addr.port().to_be_bytes(),
            sin6_flowinfo: addr.flowinfo().to_be_bytes(),
            sin6_addr: addr.ip().octets(),
            sin6_scope_id: addr.scope_id(),
        }
    }
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(v4) => SockAddr::V4(v4),
            SocketAddr::V6(v6) => SockAddr::V6(v6),
        }
    }
}

impl From<(Ipv4Addr, u16)> for SockAddr {
    fn from((ip, port): (Ipv4Addr, u16)) -> Self {
        SockAddr::V4(SocketAddrV4::new(ip, port))
    }
}

impl From<(Ipv6Addr, u16)> for SockAddr {
    fn from((ip, port): (Ipv6Addr, u16)) -> Self {
        SockAddr::V6(SocketAddrV6::new(ip, port, 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_a_round_trip() {
        let all = [
            SockAddr::Unspec,
            SockAddr::from((Ipv4Addr::new(11, 0, 0, 2), 80)),
            SockAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 443, 7, 2)),
            SockAddr::Unix(UnixName::Unnamed),
            SockAddr::Unix(UnixName::Path(b"/run/x.sock".to_vec())),
            SockAddr::Unix(UnixName::Abstract(b"a\0b".to_vec())),
            SockAddr::Other(16, vec![0; 10]),
        ];
        for addr in all {
            assert_eq!(SockAddr::parse(&addr.to_bytes()), Ok(addr));
        }
    }

    #[test]
    fn bytes_are_in_network_order() {
        let bytes = SockAddr::from((Ipv4Addr::new(11, 0, 0, 2), 0x1234)).to_bytes();
        assert_eq!(bytes, [2, 0, 0x12, 0x34, 11, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn short_addresses_are_refused() {
        assert_eq!(SockAddr::parse(&[2]), Err(Errno::EINVAL));
        assert_eq!(SockAddr::parse(&[2, 0, 0, 80, 1, 2, 3]), Err(Errno::EINVAL));
        assert_eq!(SockAddr::parse(&[10, 0, 0, 80]), Err(Errno::EINVAL));
        assert!(SockAddr::parse(&[&[10u8, 0][..], &[0; 22]].concat()).is_ok());
        assert_eq!(SockAddr::parse(&[&[1u8, 0][..], &[b'x'; 109]].concat()), Err(Errno::EINVAL));
    }
}
