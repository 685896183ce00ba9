//! Giving out addresses: what hosts ask for first, then from 11.0.0.1 upward in alphabetical order, without those that end
//! in .0 or .255 and without those taken.

use crate::host::HostSpec;
use crate::reader::{Reader, join};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

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
