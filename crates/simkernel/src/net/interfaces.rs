//! What programs learn about a host's interfaces: `lo` and `eth0`, the same for every host but for the addresses.
//!
//! Rules of the model: `eth0` has a /24 around its address, a default route without a gateway, and a locally administered
//! Ethernet address that is 02:00 and the IPv4 address. Where it has an IPv6 address, its network is the /64 around that, with a
//! default route too; there are no link-local addresses.

use super::Network;
use crate::host::Addresses;
use linux_abi::ioctl::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use tcpip::Traffic;

pub const LOOPBACK_INDEX: i32 = 1;
pub const ETHERNET_INDEX: i32 = 2;
/// Names of interfaces, from the loopback interface's index on.
pub const NAMES: [&str; 2] = ["lo", "eth0"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    pub index: i32,
    pub name: &'static str,
    /// `IFF_*`.
    pub flags: u32,
    /// `ARPHRD_*`.
    pub hardware: u16,
    pub mac: [u8; 6],
    pub mac_broadcast: [u8; 6],
    pub mtu: u32,
    pub queue_len: i32,
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub address6: Option<Ipv6Addr>,
    pub prefix6: u8,
    /// None for the loopback interface.
    pub broadcast: Option<Ipv4Addr>,
}

impl Interface {
    pub fn netmask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX << (32 - self.prefix))
    }

    /// The network's own address.
    pub fn network(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() & self.netmask().to_bits())
    }

    /// The last address of the network, by which all of it is reached.
    pub fn last_address(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.netmask().to_bits())
    }

    /// The network of an IPv6 address of this interface.
    pub fn network6(&self, address: Ipv6Addr) -> Ipv6Addr {
        Ipv6Addr::from_bits(address.to_bits() & u128::MAX << (128 - u32::from(self.prefix6)))
    }
}

/// What an interface has carried, with the headers that its device counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub received: Traffic,
    pub sent: Traffic,
    /// Packets that the interface's queue had no room for.
    pub refused: u64,
}

/// Bytes of an Ethernet header, which `eth0` counts and `lo` does not.
const ETHERNET_HEADER: u64 = 14;

impl Network {
    /// What an interface has carried so far.
    pub fn counted(&self, index: i32) -> Counted {
        let counters = self.stack.counters();
        if index == LOOPBACK_INDEX {
            let all = counters.loopback[0] + counters.loopback[1];
            return Counted { received: all, sent: all, refused: 0 };
        }
        let framed = |[v4, v6]: [Traffic; 2]| {
            let all = v4 + v6;
            Traffic { bytes: all.bytes + all.packets * ETHERNET_HEADER, ..all }
        };
        let refused = counters.refused.iter().map(|traffic| traffic.packets).sum();
        Counted { received: framed(counters.ethernet_in), sent: framed(counters.ethernet_out), refused }
    }
}

/// The interfaces of the host with these addresses.
pub fn interfaces(own: Addresses) -> [Interface; 2] {
    let [a, b, c, d] = own.v4.octets();
    [
        Interface {
            index: LOOPBACK_INDEX,
            name: "lo",
            flags: IFF_UP | IFF_LOOPBACK | IFF_RUNNING | IFF_LOWER_UP,
            hardware: ARPHRD_LOOPBACK,
            mac: [0; 6],
            mac_broadcast: [0; 6],
            mtu: 65_536,
            queue_len: 1000,
            address: Ipv4Addr::LOCALHOST,
            prefix: 8,
            address6: Some(Ipv6Addr::LOCALHOST),
            prefix6: 128,
            broadcast: None,
        },
        Interface {
            index: ETHERNET_INDEX,
            name: "eth0",
            flags: IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_MULTICAST | IFF_LOWER_UP,
            hardware: ARPHRD_ETHER,
            mac: [2, 0, a, b, c, d],
            mac_broadcast: [0xff; 6],
            mtu: 1500,
            queue_len: 1000,
            address: own.v4,
            prefix: tcpip::NETWORK_PREFIX,
            address6: own.v6,
            prefix6: 64,
            broadcast: Some(Ipv4Addr::new(a, b, c, 255)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_follow_from_the_address() {
        let v6 = Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7);
        let [lo, eth0] = interfaces(Addresses { v4: Ipv4Addr::new(11, 0, 3, 7), v6: Some(v6) });
        assert_eq!(lo.netmask(), Ipv4Addr::new(255, 0, 0, 0));
        assert_eq!(eth0.netmask(), Ipv4Addr::new(255, 255, 255, 0));
        assert_eq!(eth0.network(), Ipv4Addr::new(11, 0, 3, 0));
        assert_eq!(eth0.broadcast, Some(Ipv4Addr::new(11, 0, 3, 255)));
        assert_eq!(eth0.network6(v6), Ipv6Addr::new(0xfd00, 1, 2, 3, 0, 0, 0, 0));
        assert_eq!(eth0.mac, [2, 0, 11, 0, 3, 7]);
    }
}
