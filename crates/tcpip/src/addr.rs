//! Endpoints inside the stack. The public interface speaks `std::net::SocketAddr`; this is the only module that narrows it.

use crate::error::SocketError;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    pub addr: Ipv4Addr,
    pub port: u16,
}

impl Endpoint {
    pub const fn new(addr: Ipv4Addr, port: u16) -> Self {
        Endpoint { addr, port }
    }

    pub const ANY: Endpoint = Endpoint::new(Ipv4Addr::UNSPECIFIED, 0);

    /// Errors: `AddressFamilyNotSupported` for IPv6, unless it is an IPv4 address in IPv6 form.
    pub fn from_socket_addr(addr: SocketAddr) -> Result<Self, SocketError> {
        let ip = match addr.ip() {
            IpAddr::V4(v4) => v4,
            IpAddr::V6(v6) => v6.to_ipv4_mapped().ok_or(SocketError::AddressFamilyNotSupported)?,
        };
        Ok(Endpoint::new(ip, addr.port()))
    }

    pub fn to_socket_addr(self) -> SocketAddr {
        SocketAddr::V4(SocketAddrV4::new(self.addr, self.port))
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.addr, self.port)
    }
}

/// What names a connection on one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FourTuple {
    pub local: Endpoint,
    pub remote: Endpoint,
}

impl Hash for FourTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64((u64::from(self.local.addr.to_bits()) << 32) | u64::from(self.remote.addr.to_bits()));
        state.write_u32((u32::from(self.local.port) << 16) | u32::from(self.remote.port));
    }
}

/// Source and destination addresses of one route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Interface {
    Loopback,
    Ethernet,
}
