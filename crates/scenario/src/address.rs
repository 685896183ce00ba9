//! Giving out addresses: what hosts ask for first, then from 11.0.0.1 upward in alphabetical order, without those that end
//! in .0 or .255 and without those taken. With `network.ipv6` every host has an IPv6 address too: fd00:: (RFC 4193) with the IPv4
//! address in its last 32 bits, or the one that it asks for.

use crate::host::HostSpec;
use crate::reader::{Reader, join};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The address of every host, in their order. Conflicts are reported.
pub(crate) fn assign(reader: &mut Reader, hosts: &[HostSpec]) -> Vec<Ipv4Addr> {
    let mut taken: BTreeMap<Ipv4Addr, &HostSpec> = BTreeMap::new();
    for host in hosts {
        let Some((address, pos)) = host.address else { continue };
        if let Some(other) = taken.insert(address, host) {
            let line = other.address.map_or(other.pos.line, |(_, p)| p.line);
            let message = format!("{address} already belongs to host '{}' (line {line}); use another", other.name);
            reader.problem(pos, join(&join("hosts", &host.name), "ip_addr"), message);
        }
    }
    let mut last = Ipv4Addr::new(11, 0, 0, 0);
    let mut next_free = || loop {
        last = Ipv4Addr::from(u32::from(last) + 1);
        if !matches!(last.octets()[3], 0 | 255) && !taken.contains_key(&last) {
            return last;
        }
    };
    hosts.iter().map(|host| host.address.map_or_else(&mut next_free, |(address, _)| address)).collect()
}

/// The IPv6 address of every host that has one. Conflicts are reported.
pub(crate) fn assign_v6(
    reader: &mut Reader,
    hosts: &[HostSpec],
    addresses: &[Ipv4Addr],
    everywhere: bool,
) -> Vec<Option<Ipv6Addr>> {
    let mut taken: BTreeMap<Ipv6Addr, &str> = BTreeMap::new();
    let mut all = Vec::with_capacity(hosts.len());
    for (host, v4) in hosts.iter().zip(addresses) {
        let derived = everywhere.then(|| derived_v6(*v4));
        let address = host.address6.map(|(address, _)| address).or(derived);
        all.push(address);
        let Some(address) = address else { continue };
        if let Some(other) = taken.insert(address, &host.name) {
            let pos = host.address6.map_or(host.pos, |(_, pos)| pos);
            let message = format!("{address} already belongs to host '{other}'; use another");
            reader.problem(pos, join(&join("hosts", &host.name), "ip6_addr"), message);
        }
    }
    all
}

/// fd00::11.0.0.1 for 11.0.0.1.
fn derived_v6(v4: Ipv4Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfd00 << 112 | u128::from(v4.to_bits()))
}
