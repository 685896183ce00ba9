//! Socket addresses as guests pass them, and which of them exist in the experiment.

use crate::host::HostConfig;
use crate::outcome::Outcome;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::sockaddr::{SOCKADDR_STORAGE_SIZE, SockAddr, SockaddrIn};
use linux_abi::socket::{AF_INET, AF_INET6, AF_UNSPEC};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use tcpip::Family;
use zerocopy::{FromBytes, IntoBytes};

/// The bytes of an address, family first.
pub type RawAddress = SmallVec<[u8; 32]>;

/// The shortest IPv6 address that the kernel takes: without the scope.
const SIN6_LEN_RFC2133: usize = 24;

/// The longest address that the kernel takes.
pub const MAX: usize = SOCKADDR_STORAGE_SIZE;

/// Reads an address argument. EINVAL for an impossible length, EFAULT.
pub fn read(memory: &AddressSpace, address: u64, len: u32) -> Result<RawAddress, Outcome> {
    if len as usize > MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut bytes = RawAddress::from_elem(0, len as usize);
    memory.read(address, &mut bytes)?;
    Ok(bytes)
}

/// Stores an address where the guest wants it, cut to the room that the length there allows, and its true length.
pub fn write(memory: &AddressSpace, address: u64, len_address: u64, bytes: &[u8]) -> Result<(), Outcome> {
    let room: i32 = memory.read_value(len_address)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    memory.write(address, &bytes[..bytes.len().min(room)])?;
    memory.write_value(len_address, &(bytes.len() as i32))?;
    Ok(())
}

/// The family that an address claims; None when it is too short for one.
pub fn family(bytes: &[u8]) -> Option<i32> {
    bytes.first_chunk::<2>().map(|family| i32::from(u16::from_ne_bytes(*family)))
}

/// Whether an address is one of IPv4, as such or mapped to IPv6.
fn is_of_ipv4(bytes: &[u8]) -> bool {
    match family(bytes) {
        Some(AF_INET) => true,
        Some(AF_INET6) if bytes.len() >= SIN6_LEN_RFC2133 => {
            bytes.get(8..20) == Some(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
        }
        _ => false,
    }
}

/// Whether what a socket of IPv6 at `own` sends goes by way of IPv4 with this name, which must not be empty: there the wildcard address is one of
/// IPv4 too. Nothing else is asked of the address. EINVAL for an impossible length or another family.
pub fn names_ipv4(bytes: &[u8], own: IpAddr) -> Result<bool, Errno> {
    match family(bytes) {
        Some(AF_INET) => Ok(true),
        Some(AF_UNSPEC) => Ok(false),
        Some(AF_INET6) if bytes.len() >= SIN6_LEN_RFC2133 => {
            Ok(is_of_ipv4(bytes) || own.is_ipv4() && bytes[8..24] == [0; 16])
        }
        _ => Err(Errno::EINVAL),
    }
}

/// What a socket of this family takes for a destination. EINVAL when it is too short, EAFNOSUPPORT for another family.
pub fn internet(bytes: &[u8], of: Family) -> Result<SocketAddr, Errno> {
    match of {
        Family::V4 => {
            let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
            if i32::from(raw.sin_family) != AF_INET {
                return Err(Errno::EAFNOSUPPORT);
            }
            Ok(SocketAddrV4::new(raw.sin_addr.into(), u16::from_be_bytes(raw.sin_port)).into())
        }
        Family::V6 => {
            if bytes.len() < SIN6_LEN_RFC2133 {
                return Err(Errno::EINVAL);
            }
            // What another family would say of its address is no matter here.
            if family(bytes) != Some(AF_INET6) {
                return Err(Errno::EAFNOSUPPORT);
            }
            let SockAddr::V6(address) = SockAddr::parse(bytes)? else { return Err(Errno::EAFNOSUPPORT) };
            // Which link is meant has to be said (RFC 4007 section 6).
            if address.ip().is_unicast_link_local() && address.scope_id() == 0 {
                return Err(Errno::EINVAL);
            }
            let scope = if address.ip().is_multicast() { address.scope_id() } else { 0 };
            Ok(SocketAddrV6::new(*address.ip(), address.port(), 0, scope).into())
        }
    }
}

/// As `internet`, for bind(2): of IPv4, AF_UNSPEC passes with the wildcard address.
pub fn for_bind(bytes: &[u8], of: Family) -> Result<SocketAddr, Errno> {
    match of {
        Family::V4 => internet_or_unspecified(bytes, true),
        Family::V6 => internet(bytes, of),
    }
}

/// As `internet`, for bind(2) of a raw socket: that of IPv4 does not look at the family (raw_bind).
pub fn for_raw_bind(bytes: &[u8], of: Family) -> Result<SocketAddr, Errno> {
    match of {
        Family::V4 => {
            let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
            Ok(SocketAddrV4::new(raw.sin_addr.into(), 0).into())
        }
        Family::V6 => internet(bytes, of),
    }
}

/// As `internet`, for connect(2) of a datagram socket: one of IPv6 takes an address of IPv4 as it is.
pub fn for_datagram_connect(bytes: &[u8], of: Family) -> Result<SocketAddr, Errno> {
    internet(bytes, if family(bytes) == Some(AF_INET) { Family::V4 } else { of })
}

/// As `internet`, for a datagram of a raw socket of IPv6, which knows no other family (`rawv6_sendmsg`). None means the peer.
pub fn for_raw_datagram6(bytes: &[u8]) -> Result<Option<SocketAddr>, Errno> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() < SIN6_LEN_RFC2133 {
        return Err(Errno::EINVAL);
    }
    match family(bytes) {
        // Without a family it is one of IPv6.
        Some(AF_UNSPEC) => {
            let mut named = RawAddress::from_slice(bytes);
            named[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
            internet(&named, Family::V6).map(Some)
        }
        _ => internet(bytes, Family::V6).map(Some),
    }
}

/// As `internet`, for a datagram; None means the peer (`udp_sendmsg`, `udpv6_sendmsg`).
pub fn for_datagram(bytes: &[u8], of: Family) -> Result<Option<SocketAddr>, Errno> {
    if bytes.is_empty() {
        return Ok(None);
    }
    match (of, family(bytes).ok_or(Errno::EINVAL)?) {
        (Family::V4, _) => internet_or_unspecified(bytes, false).map(Some),
        (Family::V6, AF_INET6) => internet(bytes, of).map(Some),
        (Family::V6, AF_INET) => internet(bytes, Family::V4).map(Some),
        (Family::V6, AF_UNSPEC) => Ok(None),
        (Family::V6, _) => Err(Errno::EINVAL),
    }
}

/// As `internet` of IPv4, which lets AF_UNSPEC pass: bind(2) with the wildcard address alone.
fn internet_or_unspecified(bytes: &[u8], any_only: bool) -> Result<SocketAddr, Errno> {
    let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    let unspecified = i32::from(raw.sin_family) == AF_UNSPEC && (!any_only || raw.sin_addr == [0; 4]);
    if unspecified {
        return Ok(SocketAddrV4::new(raw.sin_addr.into(), u16::from_be_bytes(raw.sin_port)).into());
    }
    internet(bytes, Family::V4)
}

/// An address as the kernel returns it.
pub fn raw(address: SocketAddr) -> RawAddress {
    match address {
        SocketAddr::V4(v4) => RawAddress::from_slice(SockaddrIn::from(v4).as_bytes()),
        SocketAddr::V6(v6) => RawAddress::from_slice(linux_abi::sockaddr::SockaddrIn6::from(v6).as_bytes()),
    }
}

/// ENETUNREACH for an address that no host of the experiment has.
///
/// A rule of the model: on Linux a packet to such an address would leave, and its sender would hear of it late or never. Here
/// there is nothing outside, and the sender learns that at once. Broadcast and multicast are the stack's to judge.
pub fn check_reachable(config: &HostConfig, to: IpAddr) -> Result<(), Errno> {
    let to = to.to_canonical();
    if config.network.addresses.contains(&to) {
        return Ok(());
    }
    let broadcast =
        [Some(Ipv4Addr::BROADCAST), config.broadcast()].map(|addr| addr.map(IpAddr::V4)).contains(&Some(to));
    let special = to.is_unspecified() || to.is_loopback() || to.is_multicast() || broadcast;
    if special { Ok(()) } else { Err(Errno::ENETUNREACH) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_checked_as_on_linux() {
        let good = raw("11.0.0.2:80".parse().unwrap());
        assert_eq!(internet(&good, Family::V4), Ok("11.0.0.2:80".parse().unwrap()));
        assert_eq!(internet(&good[..15], Family::V4), Err(Errno::EINVAL));
        let mut other = good.clone();
        other[0] = 77;
        assert_eq!(internet(&other, Family::V4), Err(Errno::EAFNOSUPPORT));
        assert_eq!(for_datagram(&other, Family::V4), Err(Errno::EAFNOSUPPORT));
        other[0] = 0;
        assert_eq!(for_datagram(&other, Family::V4), Ok(Some("11.0.0.2:80".parse().unwrap())));
        assert_eq!(for_bind(&other, Family::V4), Err(Errno::EAFNOSUPPORT));
        other[4..8].fill(0);
        assert_eq!(for_bind(&other, Family::V4), Ok("0.0.0.0:80".parse().unwrap()));
    }

    #[test]
    fn destinations_of_ipv6_are_checked_as_on_linux() {
        let good = raw("[fd00::1]:80".parse().unwrap());
        let old = raw("11.0.0.2:80".parse().unwrap());
        let parsed: SocketAddr = "[fd00::1]:80".parse().unwrap();
        assert_eq!(internet(&good[..24], Family::V6), Ok(parsed));
        assert_eq!(internet(&good[..23], Family::V6), Err(Errno::EINVAL));
        assert_eq!(internet(&old, Family::V6), Err(Errno::EINVAL));
        let mut long = old.clone();
        long.resize(28, 0);
        assert_eq!(internet(&long, Family::V6), Err(Errno::EAFNOSUPPORT));
        assert_eq!(for_bind(&long, Family::V6), Err(Errno::EAFNOSUPPORT));
        let too_long_for_unix = [&1u16.to_ne_bytes()[..], &[b'x'; 109]].concat();
        assert_eq!(internet(&too_long_for_unix, Family::V6), Err(Errno::EAFNOSUPPORT));
        assert_eq!(for_datagram(&old, Family::V6), Ok(Some("11.0.0.2:80".parse().unwrap())));
        assert_eq!(for_datagram_connect(&old, Family::V6), Ok("11.0.0.2:80".parse().unwrap()));
        assert_eq!(for_datagram_connect(&good, Family::V4), Err(Errno::EAFNOSUPPORT));
        let mut unspecified = good.clone();
        unspecified[0] = 0;
        assert_eq!(for_datagram(&unspecified, Family::V6), Ok(None));
        unspecified[0] = 77;
        assert_eq!(for_datagram(&unspecified, Family::V6), Err(Errno::EINVAL));
        let mut local = raw("[fe80::1]:80".parse().unwrap());
        assert_eq!(internet(&local, Family::V6), Err(Errno::EINVAL));
        local[24] = 2;
        assert!(internet(&local, Family::V6).is_ok());
    }

    #[test]
    fn families_need_two_bytes() {
        assert_eq!(family(&[2, 0]), Some(AF_INET));
        assert_eq!(family(&[2]), None);
    }
}
