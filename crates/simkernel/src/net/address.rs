//! Socket addresses as guests pass them, and which of them exist in the experiment.

use crate::host::HostConfig;
use crate::outcome::Outcome;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::sockaddr::{SOCKADDR_STORAGE_SIZE, SockaddrIn};
use linux_abi::socket::{AF_INET, AF_UNSPEC};
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use zerocopy::{FromBytes, IntoBytes};

/// The bytes of an address, family first.
pub type RawAddress = SmallVec<[u8; 32]>;

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

/// What an Internet socket takes for a destination. EINVAL when it is too short, EAFNOSUPPORT for another family.
pub fn internet(bytes: &[u8]) -> Result<SocketAddrV4, Errno> {
    let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    if i32::from(raw.sin_family) != AF_INET {
        return Err(Errno::EAFNOSUPPORT);
    }
    Ok(SocketAddrV4::new(raw.sin_addr.into(), u16::from_be_bytes(raw.sin_port)))
}

/// As `internet`, for bind(2) and for datagrams, which let AF_UNSPEC pass: bind with the wildcard address alone.
pub fn internet_or_unspecified(bytes: &[u8], any_only: bool) -> Result<SocketAddrV4, Errno> {
    let (raw, _) = SockaddrIn::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    let unspecified = i32::from(raw.sin_family) == AF_UNSPEC && (!any_only || raw.sin_addr == [0; 4]);
    if unspecified {
        return Ok(SocketAddrV4::new(raw.sin_addr.into(), u16::from_be_bytes(raw.sin_port)));
    }
    internet(bytes)
}

/// An address as the kernel returns it.
pub fn raw(address: SocketAddr) -> RawAddress {
    match address {
        SocketAddr::V4(v4) => RawAddress::from_slice(SockaddrIn::from(v4).as_bytes()),
        SocketAddr::V6(v6) => RawAddress::from_slice(linux_abi::sockaddr::SockaddrIn6::from(v6).as_bytes()),
    }
}

/// The address of an IPv4 socket address.
pub fn ip(address: SocketAddr) -> Ipv4Addr {
    match address.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}

/// ENETUNREACH for an address that no host of the experiment has.
///
/// A rule of the model: on Linux a packet to such an address would leave, and its sender would hear of it late or never. Here
/// there is nothing outside, and the sender learns that at once. Broadcast and multicast are the stack's to judge.
pub fn check_reachable(config: &HostConfig, to: Ipv4Addr) -> Result<(), Errno> {
    let special = to.is_unspecified() || to.is_loopback() || to.is_broadcast() || to.is_multicast();
    if special || to == config.address || config.network.addresses.binary_search(&to).is_ok() {
        Ok(())
    } else {
        Err(Errno::ENETUNREACH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_checked_as_on_linux() {
        let good = raw("11.0.0.2:80".parse().unwrap());
        assert_eq!(internet(&good), Ok("11.0.0.2:80".parse().unwrap()));
        assert_eq!(internet(&good[..15]), Err(Errno::EINVAL));
        let mut other = good.clone();
        other[0] = 77;
        assert_eq!(internet(&other), Err(Errno::EAFNOSUPPORT));
        assert_eq!(internet_or_unspecified(&other, false), Err(Errno::EAFNOSUPPORT));
        other[0] = 0;
        assert_eq!(internet_or_unspecified(&other, false), Ok("11.0.0.2:80".parse().unwrap()));
        assert_eq!(internet_or_unspecified(&other, true), Err(Errno::EAFNOSUPPORT));
        other[4..8].fill(0);
        assert_eq!(internet_or_unspecified(&other, true), Ok("0.0.0.0:80".parse().unwrap()));
    }

    #[test]
    fn families_need_two_bytes() {
        assert_eq!(family(&[2, 0]), Some(AF_INET));
        assert_eq!(family(&[2]), None);
    }
}
