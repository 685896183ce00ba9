//! Endpoints inside the stack. The public interface speaks `std::net::SocketAddr`, where an IPv6 socket knows IPv4 addresses as
//! `::ffff:a.b.c.d` (RFC 4291 section 2.5.5.2). Here an address has one form: that of the packets which carry it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The domain of a socket, AF_INET or AF_INET6.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Family {
    #[default]
    V4,
    V6,
}

impl Family {
    /// The address that stands for all.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    pub const fn localhost(self) -> IpAddr {
        match self {
            Family::V4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Family::V6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
        }
    }

    /// What packets to this address are.
    pub const fn of(addr: IpAddr) -> Family {
        match addr {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Endpoint {
    /// Never an IPv4 address in IPv6 form.
    pub addr: IpAddr,
    pub port: u16,
}

impl Endpoint {
    pub const fn new(addr: IpAddr, port: u16) -> Self {
        Endpoint { addr, port }
    }

    /// What a socket has before it is bound.
    pub const fn any(family: Family) -> Self {
        Endpoint::new(family.unspecified(), 0)
    }

    /// As a socket of this family is told it.
    pub fn to_socket_addr(self, family: Family) -> SocketAddr {
        let addr = match (self.addr, family) {
            (IpAddr::V4(v4), Family::V6) => IpAddr::V6(v4.to_ipv6_mapped()),
            (addr, _) => addr,
        };
        SocketAddr::new(addr, self.port)
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Self {
        Endpoint::new(addr.ip().to_canonical(), addr.port())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", SocketAddr::new(self.addr, self.port))
    }
}

/// What names a connection on one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FourTuple {
    pub local: Endpoint,
    pub remote: Endpoint,
}

impl FourTuple {
    pub fn family(&self) -> Family {
        Family::of(self.remote.addr)
    }
}

impl Hash for FourTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match (self.local.addr, self.remote.addr) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                state.write_u64((u64::from(local.to_bits()) << 32) | u64::from(remote.to_bits()));
            }
            (local, remote) => {
                for addr in [local, remote] {
                    if let IpAddr::V6(v6) = addr {
                        state.write_u64((v6.to_bits() >> 64) as u64);
                        state.write_u64(v6.to_bits() as u64);
                    }
                }
            }
        }
        state.write_u32((u32::from(self.local.port) << 16) | u32::from(self.remote.port));
    }
}

/// One of a host's two interfaces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Interface {
    Loopback,
    Ethernet,
}

impl Interface {
    /// Its number, as programs know it.
    pub const fn index(self) -> u32 {
        match self {
            Interface::Loopback => 1,
            Interface::Ethernet => 2,
        }
    }

    /// The interface of this number, if there is one.
    pub const fn of_index(index: u32) -> Option<Interface> {
        match index {
            1 => Some(Interface::Loopback),
            2 => Some(Interface::Ethernet),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_addresses_are_those_of_ipv4_inside_and_ipv6_for_ipv6_sockets() {
        let mapped: SocketAddr = "[::ffff:11.0.0.1]:80".parse().unwrap();
        let endpoint = Endpoint::from(mapped);
        assert_eq!(endpoint, Endpoint::from("11.0.0.1:80".parse::<SocketAddr>().unwrap()));
        assert_eq!(endpoint.to_socket_addr(Family::V6), mapped);
        assert_eq!(endpoint.to_socket_addr(Family::V4), "11.0.0.1:80".parse().unwrap());
    }
}
