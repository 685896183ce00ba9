//! Groups of multicast that the interfaces listen to: `igmp`, `igmp6`, `dev_mcast`.

use crate::vfs::synthetic::View;
use std::fmt::Write;
use std::net::IpAddr;
use tcpip::multicast::Group;
use tcpip::{Family, Interface};

const INTERFACES: [(Interface, &str); 2] = [(Interface::Loopback, "lo"), (Interface::Ethernet, "eth0")];
/// MAF_LOADED, and MAF_LAST_REPORTER: a report was sent, which groups of the interface itself have none of.
const LOADED: u32 = 8;
const REPORTED: u32 = 12;

/// The groups of IPv4 (`igmp_mc_seq_show`), the latest first. No timer runs, and nobody reports.
pub fn igmp(view: &View<'_>) -> String {
    let mut text = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n".to_owned();
    for (interface, name) in INTERFACES {
        let groups = view.net.stack.groups(interface, Family::V4);
        let _ = writeln!(text, "{}\t{name:<10}: {:>5} {:>7}", interface.index(), groups.len(), "V3");
        for Group { address, users, .. } in groups {
            let IpAddr::V4(address) = address else { continue };
            let word = u32::from_le_bytes(address.octets());
            let _ = writeln!(text, "\t\t\t\t{word:08X} {users:>5} 0:{:08X}\t\t0", 0);
        }
    }
    text
}

/// The groups of IPv6 (`igmp6_mc_seq_show`), on interfaces that have IPv6.
pub fn igmp6(view: &View<'_>) -> String {
    let mut text = String::new();
    for (interface, name) in INTERFACES {
        if interface == Interface::Ethernet && view.config.addresses.v6.is_none() {
            continue;
        }
        for Group { address, users, .. } in view.net.stack.groups(interface, Family::V6) {
            let IpAddr::V6(address) = address else { continue };
            let is_local = address.octets()[1] & 0xf <= 1;
            let flags = if is_local { LOADED } else { REPORTED };
            let (index, bits) = (interface.index(), address.to_bits());
            let _ = writeln!(text, "{index:<4} {name:<15} {bits:032x} {users:>5} {flags:08X} 0");
        }
    }
    text
}

/// The Ethernet addresses of `eth0`'s groups (`dev_mc_seq_show`, RFC 1112 section 6.4, RFC 2464 section 7).
pub fn of_ethernet(view: &View<'_>) -> String {
    let mut addresses: Vec<([u8; 6], usize)> = Vec::new();
    let families = if view.config.addresses.v6.is_some() { &[Family::V4, Family::V6][..] } else { &[Family::V4] };
    let groups =
        families.iter().flat_map(|family| view.net.stack.groups(Interface::Ethernet, *family).into_iter().rev());
    for group in groups {
        let address = match group.address {
            IpAddr::V4(v4) => {
                let [_, b, c, d] = v4.octets();
                [0x01, 0x00, 0x5e, b & 0x7f, c, d]
            }
            IpAddr::V6(v6) => {
                let [.., a, b, c, d] = v6.octets();
                [0x33, 0x33, a, b, c, d]
            }
        };
        match addresses.iter_mut().find(|(known, _)| *known == address) {
            Some((_, users)) => *users += 1,
            None => addresses.push((address, 1)),
        }
    }
    let mut text = String::new();
    for (address, users) in addresses {
        let hex: String = address.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = writeln!(text, "{:<4} {:<15} {users:<5} {:<5} {hex}", Interface::Ethernet.index(), "eth0", 0);
    }
    text
}
