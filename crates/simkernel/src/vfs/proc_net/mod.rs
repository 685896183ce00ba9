//! `/proc/PID/net`: sockets, interfaces, routes and counters of a host, as programs without netlink read them (proc_pid_net(5)).

mod counters;
mod groups;
mod interfaces;
mod sockets;

use super::synthetic::{Synthetic, View};
use linux_abi::fs::DT_REG;
use tcpip::{Family, Protocol};

const FILES: [&str; 36] = [
    "anycast6",
    "arp",
    "dev",
    "dev_mcast",
    "icmp",
    "icmp6",
    "if_inet6",
    "igmp",
    "igmp6",
    "ip6_flowlabel",
    "ipv6_route",
    "mcfilter",
    "mcfilter6",
    "netlink",
    "netstat",
    "packet",
    "protocols",
    "psched",
    "ptype",
    "raw",
    "raw6",
    "route",
    "rt6_stats",
    "rt_cache",
    "snmp",
    "snmp6",
    "sockstat",
    "sockstat6",
    "softnet_stat",
    "tcp",
    "tcp6",
    "udp",
    "udp6",
    "udplite",
    "udplite6",
    "unix",
];

/// What lies at a path below the directory.
pub fn lookup(view: &View<'_>, what: &[&str]) -> Option<Synthetic> {
    match what {
        [] => Some(Synthetic::Directory(FILES.map(|name| (name, DT_REG as u8)).to_vec())),
        [name] => text(view, name).map(|text| Synthetic::File(text.into_bytes())),
        _ => None,
    }
}

fn text(view: &View<'_>, name: &str) -> Option<String> {
    let raw = |protocol: Protocol| matches!(protocol, Protocol::Raw(_));
    let echo = |protocol: Protocol| protocol == Protocol::Echo;
    let udp = |protocol: Protocol| protocol == Protocol::Udp;
    Some(match name {
        "tcp" => sockets::tcp(view),
        "tcp6" => sockets::tcp6(view),
        "udp" => sockets::datagrams(view, sockets::Table::Udp, udp),
        "icmp" => sockets::datagrams(view, sockets::Table::Icmp, echo),
        "raw" => sockets::datagrams(view, sockets::Table::Raw, raw),
        "udplite" => sockets::datagrams(view, sockets::Table::Udp, |_| false),
        "udp6" => sockets::datagrams6(view, udp),
        "icmp6" => sockets::datagrams6(view, echo),
        "raw6" => sockets::datagrams6(view, raw),
        "udplite6" => sockets::datagrams6(view, |_| false),
        "unix" => sockets::unix(view),
        "netlink" => sockets::netlink(view),
        "packet" => "sk               RefCnt Type Proto  Iface R Rmem   User   Inode\n".to_owned(),
        "sockstat" => sockets::in_use(view),
        "sockstat6" => sockets::in_use6(view),
        "protocols" => sockets::protocols(view),
        "dev" => interfaces::traffic(view),
        "if_inet6" => interfaces::addresses(view.config.addresses),
        "route" => interfaces::routes(view.config.addresses),
        "ipv6_route" => interfaces::routes6(view.config.addresses),
        "arp" => "IP address       HW type     Flags       HW address            Mask     Device\n".to_owned(),
        "rt_cache" => interfaces::ROUTE_CACHE.to_owned(),
        "igmp" => groups::igmp(view),
        "igmp6" => groups::igmp6(view),
        "dev_mcast" => groups::of_ethernet(view),
        "anycast6" => String::new(),
        "ip6_flowlabel" => interfaces::FLOW_LABELS.to_owned(),
        "mcfilter" => interfaces::GROUP_FILTERS.to_owned(),
        "mcfilter6" => interfaces::GROUP_FILTERS6.to_owned(),
        "rt6_stats" => interfaces::route_statistics6(view.config.addresses),
        "ptype" => "Type Device      Function\n0800          ip_rcv\n86dd          ipv6_rcv\n".to_owned(),
        "psched" => "000003e8 00000040 000f4240 3b9aca00\n".to_owned(),
        "softnet_stat" => counters::softnet(view),
        "snmp" => counters::snmp(view),
        "snmp6" => counters::snmp6(view),
        "netstat" => counters::extended(view),
        _ => return None,
    })
}

/// The family's place in what the stack counts by family.
const V4: usize = Family::V4 as usize;
const V6: usize = Family::V6 as usize;

#[cfg(test)]
mod tests;
