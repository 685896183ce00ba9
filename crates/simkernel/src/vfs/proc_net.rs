//! `/proc/PID/net`: what a host's interfaces have of IPv6, as programs without netlink read it.

use super::synthetic::Synthetic;
use crate::host::Addresses;
use crate::net::interfaces::{Interface, LOOPBACK_INDEX, interfaces};
use linux_abi::fs::DT_REG;
use std::fmt::Write;
use std::net::Ipv6Addr;

const FILES: [(&str, u8); 2] = [("if_inet6", DT_REG as u8), ("ipv6_route", DT_REG as u8)];

/// What lies at a path below the directory.
pub fn lookup(own: Addresses, what: &[&str]) -> Option<Synthetic> {
    match what {
        [] => Some(Synthetic::Directory(FILES.to_vec())),
        ["if_inet6"] => Some(Synthetic::File(addresses(&interfaces(own)).into_bytes())),
        ["ipv6_route"] => Some(Synthetic::File(routes(&interfaces(own)).into_bytes())),
        _ => None,
    }
}

fn hex(address: Ipv6Addr) -> String {
    format!("{:032x}", address.to_bits())
}

/// Address, interface, prefix length, scope (host or global), IFA_F_PERMANENT, name (`if6_seq_show`).
fn addresses(all: &[Interface]) -> String {
    let mut text = String::new();
    for interface in all {
        let Some(address) = interface.address6 else { continue };
        let scope = if interface.index == LOOPBACK_INDEX { 0x10 } else { 0 };
        let (address, index, prefix) = (hex(address), interface.index, interface.prefix6);
        let _ = writeln!(text, "{address} {index:02x} {prefix:02x} {scope:02x} 80 {:>8}", interface.name);
    }
    text
}

/// Destination, source, next hop, metric, references, uses, RTF_UP, interface (`rt6_info_route`): the routes that netlink lists.
fn routes(all: &[Interface]) -> String {
    let none = hex(Ipv6Addr::UNSPECIFIED);
    let mut text = String::new();
    for interface in all {
        let Some(address) = interface.address6 else { continue };
        let mut line = |destination: Ipv6Addr, prefix: u8, metric: u32| {
            let (to, name) = (hex(destination), interface.name);
            let _ =
                writeln!(text, "{to} {prefix:02x} {none} 00 {none} {metric:08x} 00000001 00000000 00000001 {name:>8}");
        };
        line(interface.network6(address), interface.prefix6, 256);
        if interface.index != LOOPBACK_INDEX {
            line(Ipv6Addr::UNSPECIFIED, 0, 1024);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_machine::addresses_of;

    #[test]
    fn addresses_and_routes_are_in_linux_form() {
        let own = addresses_of([11, 0, 0, 1].into());
        let local = "00000000000000000000000000000001 01 80 10 80       lo\n";
        let eth0 = "fd00000000000000000000000b000001 02 40 00 80     eth0\n";
        assert_eq!(addresses(&interfaces(own)), [local, eth0].concat());
        assert_eq!(addresses(&interfaces(Addresses { v6: None, ..own })), local);
        assert_eq!(routes(&interfaces(own)).lines().count(), 3);
    }
}
