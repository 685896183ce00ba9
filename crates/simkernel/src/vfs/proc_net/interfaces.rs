//! Interfaces and routes: `dev`, `route`, `if_inet6`, `ipv6_route`.

use crate::host::Addresses;
use crate::net::interfaces::{Counted, LOOPBACK_INDEX, interfaces};
use crate::vfs::synthetic::View;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The title of `rt_cache`, which is empty on all newer kernels.
pub const ROUTE_CACHE: &str = "Iface\tDestination\tGateway \tFlags\t\tRefCnt\tUse\tMetric\tSource\t\tMTU\tWindow\tIRTT\tTOS\tHHRef\tHHUptod\tSpecDst                          \n";

/// The titles of tables that stay empty: labels of flows, and filters of groups.
pub const FLOW_LABELS: &str = "Label S Owner  Users  Linger Expires  Dst                              Opt\n";
pub const GROUP_FILTERS: &str = "Idx Device        MCA        SRC    INC    EXC\n";
pub const GROUP_FILTERS6: &str =
    "Idx Device                Multicast Address                   Source Address    INC    EXC\n";

/// Lines of `route` are filled up to this.
const ROUTE_WIDTH: usize = 127;
/// RTF_UP of route(8).
const UP: u16 = 1;

/// `dev_seq_show`: the Ethernet header of 14 bytes counts at `eth0`.
pub fn traffic(view: &View<'_>) -> String {
    let mut text = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo \
                    frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n"
        .to_owned();
    for interface in interfaces(view.config.addresses) {
        let Counted { received, sent, refused } = view.net.counted(interface.index);
        let (name, zero) = (interface.name, 0);
        let _ = writeln!(
            text,
            "{name:>6}: {:>7} {:>7} {zero:>4} {zero:>4} {zero:>4} {zero:>5} {zero:>10} {zero:>9} {:>8} {:>7} {zero:>4} {refused:>4} \
             {zero:>4} {zero:>5} {zero:>7} {zero:>10}",
            received.bytes, received.packets, sent.bytes, sent.packets
        );
    }
    text
}

/// The main table of IPv4 (`fib_route_seq_show`): the default route without a gateway, and the network of `eth0`.
pub fn routes(own: Addresses) -> String {
    let word = |address: Ipv4Addr| u32::from_le_bytes(address.octets());
    let mut text = String::new();
    let mut put = |line: String| {
        let _ = writeln!(text, "{line:<ROUTE_WIDTH$}");
    };
    put("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT".to_owned());
    for interface in interfaces(own).iter().filter(|interface| interface.index != LOOPBACK_INDEX) {
        let mut route = |to: Ipv4Addr, mask: Ipv4Addr| {
            let (to, mask, name) = (word(to), word(mask), interface.name);
            put(format!("{name}\t{to:08X}\t00000000\t{UP:04X}\t0\t0\t0\t{mask:08X}\t0\t0\t0"));
        };
        route(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
        route(interface.network(), interface.netmask());
    }
    text
}

fn hex(address: Ipv6Addr) -> String {
    format!("{:032x}", address.to_bits())
}

/// Address, interface, prefix length, scope (host or global), IFA_F_PERMANENT, name (`if6_seq_show`).
pub fn addresses(own: Addresses) -> String {
    let mut text = String::new();
    for interface in interfaces(own) {
        let Some(address) = interface.address6 else { continue };
        let scope = if interface.index == LOOPBACK_INDEX { 0x10 } else { 0 };
        let (address, index, prefix) = (hex(address), interface.index, interface.prefix6);
        let _ = writeln!(text, "{address} {index:02x} {prefix:02x} {scope:02x} 80 {:>8}", interface.name);
    }
    text
}

/// Destination, source, next hop, metric, references, uses, RTF_UP, interface (`rt6_info_route`): the routes that netlink lists.
pub fn routes6(own: Addresses) -> String {
    let none = hex(Ipv6Addr::UNSPECIFIED);
    let mut text = String::new();
    for interface in interfaces(own) {
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

/// Nodes of the table, routes, allocated entries, routes in use, the rest without a meaning here (`rt6_stats_seq_show`).
pub fn route_statistics6(own: Addresses) -> String {
    let routes = routes6(own).lines().count();
    format!("{routes:04x} {routes:04x} 0000 {routes:04x} 0000 0000 0000\n")
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
        assert_eq!(addresses(own), [local, eth0].concat());
        assert_eq!(addresses(Addresses { v6: None, ..own }), local);
        assert_eq!(routes6(own).lines().count(), 3);
    }
}
