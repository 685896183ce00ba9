//! What NETLINK_ROUTE answers (rtnetlink(7)): interfaces with their counters, addresses and routes, as `ip`, `getifaddrs`,
//! `if_nameindex`, `getaddrinfo` and the like ask for them. Nothing can be changed.

use super::interfaces::{Counted, Interface, interfaces};
use super::netlink_frame::{Reply, attribute, attributes, has_dump_flag};
use crate::host::Addresses;
use linux_abi::Errno;
use linux_abi::ioctl::*;
use linux_abi::net::*;
use linux_abi::socket::{AF_INET, AF_INET6, AF_UNSPEC};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const IFLA_QDISC: u16 = 6;
const IFLA_STATS: u16 = 7;
const IFLA_STATS64: u16 = 23;
const IFLA_GROUP: u16 = 27;
const IFLA_CARRIER: u16 = 33;
/// Fields of `struct rtnl_link_stats64`, and of the older structure of 32 bits.
const STATISTICS_64: usize = 25;
const STATISTICS_32: usize = 24;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const OPERSTATE_UNKNOWN: u8 = 0;
const OPERSTATE_UP: u8 = 6;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_CACHEINFO: u16 = 12;
const RTA_TABLE: u16 = 15;
const RTA_UID: u16 = 25;
/// `struct rta_cacheinfo`.
const CACHE_INFO_BYTES: usize = 32;
const RT_TABLE_DEFAULT: u8 = 253;
const RT_TABLE_MAIN: u8 = 254;
const RT_TABLE_LOCAL: u8 = 255;
/// The answer is a route to one address, no entry of a table.
const RTM_F_CLONED: u32 = 0x200;
const RTCF_LOCAL: u32 = 0x8000_0000;
const RTPROT_KERNEL: u8 = 2;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_LINK: u8 = 253;
const RTNL_FAMILY_IPMR: i32 = 128;
const RTNL_FAMILY_IP6MR: i32 = 129;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_ALT_IFNAME: u16 = 53;
/// Of a table of multicast routes: its number, packets that wait for a route, the interface that registers, three
/// settings, interfaces.
const IPMRA_TABLE_ID: u16 = 1;
const IPMRA_TABLE_CACHE_RES_QUEUE_LEN: u16 = 2;
const IPMRA_TABLE_MROUTE_REG_VIF_NUM: u16 = 3;
const IPMRA_TABLE_MROUTE_DO_ASSERT: u16 = 4;
const IPMRA_TABLE_MROUTE_DO_PIM: u16 = 5;
const IPMRA_TABLE_VIFS: u16 = 6;
const IPMRA_TABLE_MROUTE_DO_WRVIFWHOLE: u16 = 7;
/// Of rules: look into a table; attributes.
const FR_ACT_TO_TBL: u8 = 1;
const FRA_PRIORITY: u16 = 6;
const FRA_SUPPRESS_PREFIXLEN: u16 = 14;
const FRA_TABLE: u16 = 15;
const FRA_PROTOCOL: u16 = 21;
/// Of queue disciplines: the place at an interface's root; attributes.
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_HW_OFFLOAD: u16 = 12;
/// Of neighbours: a bridge's, of which there is none; proxies; the address.
const AF_BRIDGE: i32 = 7;
const NTF_PROXY: u8 = 8;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// The longest link-layer address (MAX_ADDR_LEN), in bytes.
const ADDRESS_BYTES_MAX: usize = 32;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTN_BROADCAST: u8 = 3;

/// rtnetlink(7): a route.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Rtmsg {
    family: u8,
    dst_len: u8,
    src_len: u8,
    tos: u8,
    table: u8,
    protocol: u8,
    scope: u8,
    kind: u8,
    flags: u32,
}

/// `struct tcmsg`: a queue discipline.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Tcmsg {
    family: u8,
    pad: [u8; 3],
    index: i32,
    handle: u32,
    parent: u32,
    info: u32,
}

/// `struct ndmsg`: a neighbour.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Ndmsg {
    family: u8,
    pad1: u8,
    pad2: u16,
    index: i32,
    state: u16,
    flags: u8,
    kind: u8,
}

/// `struct rtnl_link_stats64`: packets, bytes, errors and drops, received and sent of each.
fn statistics(counted: &Counted) -> [u64; STATISTICS_64] {
    let mut fields = [0; STATISTICS_64];
    fields[..4].copy_from_slice(&[
        counted.received.packets,
        counted.sent.packets,
        counted.received.bytes,
        counted.sent.bytes,
    ]);
    fields[7] = counted.refused;
    fields
}

/// What a host's answers are about, and who asks.
pub(super) struct Host {
    pub own: Addresses,
    /// Of each interface, in order.
    pub counted: [Counted; 2],
    /// The kind of `eth0`'s queue discipline, as tc(8) calls it.
    pub queue_discipline: &'static str,
    /// With CAP_NET_ADMIN.
    pub administers: bool,
}

/// Messages come in fours: new, gone, asked for, set.
fn asks(header: &Nlmsghdr) -> bool {
    header.nlmsg_type & 3 == RTM_GETLINK & 3
}

/// Whether a request asks for a list: to those that make something the flags say something else.
pub(super) fn is_list(header: &Nlmsghdr) -> bool {
    // Whoever does not even name a family asks for nothing.
    let is_empty = header.nlmsg_len as usize <= size_of::<Nlmsghdr>();
    asks(header) && !is_empty && header.nlmsg_type >= RTM_NEWLINK && has_dump_flag(header)
}

/// The messages that answer a request. ENODEV, EOPNOTSUPP, EPERM (`rtnetlink_rcv_msg`).
pub(super) fn answer(reply: Reply, header: &Nlmsghdr, body: &[u8], host: &Host) -> Result<Vec<u8>, Errno> {
    if header.nlmsg_type > RTM_MAX {
        return Err(Errno::EOPNOTSUPP);
    }
    let Some(family) = body.first().map(|family| i32::from(*family)) else { return Ok(Vec::new()) };
    if !asks(header) && !host.administers {
        return Err(Errno::EPERM);
    }
    // Of many at once only neighbours can be deleted (`rtnetlink_rcv_msg`).
    let deletes = header.nlmsg_type & 3 == 1;
    if deletes && header.nlmsg_flags & NLM_F_BULK != 0 && header.nlmsg_type != RTM_DELNEIGH {
        return Err(Errno::EOPNOTSUPP);
    }
    let all = interfaces(host.own);
    if is_list(header) {
        return list(reply, header.nlmsg_type, body, &all, host);
    }
    let mut out = Vec::new();
    match header.nlmsg_type {
        RTM_GETLINK => {
            demand_name(body)?;
            demand_one(body)?;
            let interface = find(&all, body).ok_or(Errno::ENODEV)?;
            reply.link(&mut out, interface, host, 0);
        }
        RTM_GETROUTE if matches!(family, AF_INET | AF_INET6) && body.len() < size_of::<Rtmsg>() => {
            return Err(Errno::EINVAL);
        }
        RTM_GETROUTE if matches!(family, AF_INET | AF_INET6) => reply.route_to(&mut out, &all, body)?,
        // There are no handles of disciplines and no classes to name (`tc_get_qdisc`, `tc_ctl_tclass`).
        RTM_GETQDISC | RTM_GETTCLASS => {
            let (fixed, _) = Tcmsg::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
            let exists = all.iter().any(|interface| interface.index == fixed.index);
            return Err(if exists { Errno::ENOENT } else { Errno::ENODEV });
        }
        RTM_GETNEIGH => return Err(no_neighbour(&all, body)),
        RTM_GETTFILTER => return Err(no_filter(body)),
        RTM_GETNEXTHOP => return Err(no_hop(body)),
        RTM_DELLINK if find(&all, body).is_none() => {
            demand_one(body)?;
            return Err(Errno::ENODEV);
        }
        // What changes nothing is done.
        RTM_NEWLINK | RTM_SETLINK if leaves_as_is(&all, header, body)? => {}
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(out)
}

/// The messages of a list. What has no lists for a family of its own is asked for all (`rtnetlink_rcv_msg`, `rtnl_dump_all`).
fn list(reply: Reply, kind: u16, body: &[u8], all: &[Interface; 2], host: &Host) -> Result<Vec<u8>, Errno> {
    let family = body.first().map_or(AF_UNSPEC, |family| i32::from(*family));
    let wants = |of: i32| family == of || !matches!(family, AF_INET | AF_INET6);
    let mut out = Vec::new();
    match kind {
        // There are no bridges, and one table of multicast routes, which is empty.
        RTM_GETLINK if family == AF_BRIDGE => {}
        RTM_GETLINK if family == RTNL_FAMILY_IPMR => reply.multicast_table(&mut out),
        RTM_GETLINK => all.iter().for_each(|interface| reply.link(&mut out, interface, host, NLM_F_MULTI)),
        RTM_GETADDR => {
            let of = |family| all.iter().filter(move |_| wants(family));
            of(AF_INET).for_each(|interface| reply.address(&mut out, interface));
            of(AF_INET6).for_each(|interface| reply.address6(&mut out, interface));
        }
        // Routes of multicast are there, and none.
        RTM_GETROUTE if matches!(family, RTNL_FAMILY_IPMR | RTNL_FAMILY_IP6MR) => {}
        RTM_GETROUTE => {
            if wants(AF_INET) {
                reply.routes(&mut out, all);
            }
            if wants(AF_INET6) {
                reply.routes6(&mut out, all);
            }
        }
        RTM_GETRULE => match family {
            AF_UNSPEC => [AF_INET, AF_INET6].iter().for_each(|family| reply.rules(&mut out, *family)),
            AF_INET | AF_INET6 => reply.rules(&mut out, family),
            // Here alone the family has to have some (`fib_nl_dumprule`).
            _ => reply.done(&mut out, Some(Errno::EAFNOSUPPORT)),
        },
        RTM_GETQDISC if body.len() < size_of::<Tcmsg>() => reply.done(&mut out, Some(Errno::EINVAL)),
        RTM_GETQDISC => all.iter().for_each(|interface| reply.queue_discipline(&mut out, interface, host)),
        // Nobody has a link-layer neighbour, a class or filter of queues, or a chain of them.
        RTM_GETNEIGH | RTM_GETTCLASS | RTM_GETTFILTER | RTM_GETCHAIN => {}
        RTM_GETNEXTHOP => reply.done(&mut out, (!asks_for_hops(body)).then_some(Errno::EINVAL)),
        _ => return Err(Errno::EOPNOTSUPP),
    }
    Ok(out)
}

/// Why one neighbour is not found: nobody has any, but a request may be wrong before (`neigh_valid_get_req`,
/// `neigh_get`).
fn no_neighbour(all: &[Interface], body: &[u8]) -> Errno {
    /// Attributes have two bits that say how they are built.
    const KIND: u16 = 0x3fff;
    let Ok((fixed, rest)) = Ndmsg::read_from_prefix(body) else { return Errno::EINVAL };
    if i32::from(fixed.family) == AF_BRIDGE {
        // A bridge's are known by their link-layer address (`rtnl_fdb_get`).
        let is_named = attributes(rest).any(|(kind, _)| kind & KIND == NDA_LLADDR);
        return if is_named { Errno::EOPNOTSUPP } else { Errno::EINVAL };
    }
    let is_proxy = fixed.flags == NTF_PROXY;
    let is_plain = (fixed.pad1, fixed.pad2, fixed.state, fixed.kind) == (0, 0, 0, 0);
    if !is_plain || (fixed.flags != 0 && !is_proxy) {
        return Errno::EINVAL;
    }
    if attributes(rest).any(|(kind, data)| kind & KIND == NDA_DST && data.len() > ADDRESS_BYTES_MAX) {
        return Errno::ERANGE;
    }
    let has_others = attributes(rest).any(|(kind, _)| kind & KIND != NDA_DST) || !is_whole(rest);
    let Some((_, address)) = attributes(rest).last().filter(|_| !has_others) else { return Errno::EINVAL };
    let exists = all.iter().any(|interface| interface.index == fixed.index);
    let key_bytes = match i32::from(fixed.family) {
        _ if fixed.index == 0 && !is_proxy => return Errno::EINVAL,
        AF_INET => 4,
        AF_INET6 => 16,
        _ => return Errno::EAFNOSUPPORT,
    };
    match () {
        () if address.len() != key_bytes => Errno::EINVAL,
        () if fixed.index != 0 && !exists => Errno::ENODEV,
        () => Errno::ENOENT,
    }
}

/// Why one filter of a queue is not found: those of priority 0 are none (`tc_get_tfilter`).
fn no_filter(body: &[u8]) -> Errno {
    match Tcmsg::read_from_prefix(body) {
        Ok((fixed, _)) if fixed.info >> 16 == 0 => Errno::ENOENT,
        Ok(_) => Errno::EOPNOTSUPP,
        Err(_) => Errno::EINVAL,
    }
}

/// Why one next hop is not found: it is named by its number alone (`nh_valid_get_del_req`).
fn no_hop(body: &[u8]) -> Errno {
    const NHA_ID: u16 = 1;
    let rest = body.get(8..).unwrap_or_default();
    let is_named = attributes(rest).any(|(kind, data)| kind == NHA_ID && data.len() == 4 && data != [0; 4]);
    if asks_for_hops(body) && is_named { Errno::ENOENT } else { Errno::EINVAL }
}

/// Whether a request for a list of next hops is one: `struct nhmsg` with nothing but a family, then attributes
/// (`nh_valid_dump_req`).
fn asks_for_hops(body: &[u8]) -> bool {
    body.split_first_chunk::<8>().is_some_and(|(fixed, rest)| fixed[1..] == [0; 7] && is_whole(rest))
}

/// Whether there is nothing in a request behind its attributes.
fn is_whole(attributes_of: &[u8]) -> bool {
    let bytes = attributes(attributes_of).map(|(_, data)| (size_of::<Rtattr>() + data.len()).next_multiple_of(4));
    bytes.sum::<usize>() >= attributes_of.len()
}

/// Whether a request to change an interface names only what is so already. ENODEV.
fn leaves_as_is(all: &[Interface], header: &Nlmsghdr, body: &[u8]) -> Result<bool, Errno> {
    let (fixed, rest) = Ifinfomsg::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    if header.nlmsg_type == RTM_SETLINK {
        demand_one(body)?;
    }
    let makes_one = header.nlmsg_type == RTM_NEWLINK && header.nlmsg_flags & NLM_F_CREATE != 0;
    let Some(interface) = find(all, body) else {
        return if makes_one { Ok(false) } else { Err(Errno::ENODEV) };
    };
    // No mask of changes stands for all (`rtnl_dev_combine_flags`).
    let changed = if fixed.ifi_change == 0 && fixed.ifi_flags != 0 { u32::MAX } else { fixed.ifi_change };
    let wanted = interface.flags & !changed | fixed.ifi_flags & changed;
    let settable = IFF_UP | IFF_DEBUG | IFF_NOTRAILERS | IFF_NOARP | IFF_PROMISC | IFF_ALLMULTI | IFF_MULTICAST;
    let same_flags = (wanted ^ interface.flags) & settable == 0;
    let same_attributes = attributes(rest).all(|(kind, data)| match kind {
        IFLA_IFNAME => data.split(|&byte| byte == 0).next() == Some(interface.name.as_bytes()),
        IFLA_MTU => data == interface.mtu.to_ne_bytes(),
        IFLA_TXQLEN => data == interface.queue_len.to_ne_bytes(),
        IFLA_ADDRESS => data == interface.mac,
        IFLA_EXT_MASK => true,
        _ => false,
    });
    Ok(same_flags && same_attributes)
}

impl Reply {
    fn link(self, out: &mut Vec<u8>, interface: &Interface, host: &Host, flags: u16) {
        let fixed = Ifinfomsg {
            ifi_type: interface.hardware,
            ifi_index: interface.index,
            ifi_flags: interface.flags,
            ..Ifinfomsg::default()
        };
        let operstate = if interface.broadcast.is_none() { OPERSTATE_UNKNOWN } else { OPERSTATE_UP };
        let start = self.message(out, RTM_NEWLINK, flags, fixed.as_bytes());
        attribute(out, start, IFLA_IFNAME, &[interface.name.as_bytes(), &[0]].concat());
        attribute(out, start, IFLA_TXQLEN, &interface.queue_len.to_ne_bytes());
        attribute(out, start, IFLA_OPERSTATE, &[operstate]);
        attribute(out, start, IFLA_MTU, &interface.mtu.to_ne_bytes());
        attribute(out, start, IFLA_ADDRESS, &interface.mac);
        attribute(out, start, IFLA_BROADCAST, &interface.mac_broadcast);
        attribute(out, start, IFLA_QDISC, &[discipline_of(interface, host).as_bytes(), &[0]].concat());
        attribute(out, start, IFLA_CARRIER, &[1]);
        attribute(out, start, IFLA_GROUP, &0u32.to_ne_bytes());
        let statistics = statistics(&host.counted[interface.index as usize - 1]);
        attribute(out, start, IFLA_STATS64, statistics.as_bytes());
        attribute(out, start, IFLA_STATS, statistics.map(|value| value as u32)[..STATISTICS_32].as_bytes());
    }

    /// The table of IPv4's multicast routes, which stands for an interface (`ipmr_rtm_dumplink`).
    fn multicast_table(self, out: &mut Vec<u8>) {
        let fixed = Ifinfomsg { ifi_family: RTNL_FAMILY_IPMR as u8, ..Ifinfomsg::default() };
        let start = self.message(out, RTM_NEWLINK, NLM_F_MULTI, fixed.as_bytes());
        let mut table = vec![0; size_of::<u32>()];
        attribute(&mut table, 0, IPMRA_TABLE_ID, &u32::from(RT_TABLE_DEFAULT).to_ne_bytes());
        attribute(&mut table, 0, IPMRA_TABLE_CACHE_RES_QUEUE_LEN, &0_u32.to_ne_bytes());
        attribute(&mut table, 0, IPMRA_TABLE_MROUTE_REG_VIF_NUM, &(-1_i32).to_ne_bytes());
        for setting in [IPMRA_TABLE_MROUTE_DO_ASSERT, IPMRA_TABLE_MROUTE_DO_PIM, IPMRA_TABLE_MROUTE_DO_WRVIFWHOLE] {
            attribute(&mut table, 0, setting, &[0]);
        }
        attribute(&mut table, 0, IPMRA_TABLE_VIFS, &[]);
        attribute(out, start, IFLA_AF_SPEC, &table[size_of::<u32>()..]);
    }

    /// The rules of a host that has made none: which tables are looked into, in order (`fib_nl_fill_rule`).
    fn rules(self, out: &mut Vec<u8>, family: i32) {
        let default = (32_767, RT_TABLE_DEFAULT);
        let tables = [(0, RT_TABLE_LOCAL), (32_766, RT_TABLE_MAIN)];
        for (priority, table) in tables.into_iter().chain((family == AF_INET).then_some(default)) {
            let fixed = Rtmsg { family: family as u8, table, kind: FR_ACT_TO_TBL, ..Rtmsg::default() };
            let start = self.message(out, RTM_NEWRULE, NLM_F_MULTI, fixed.as_bytes());
            attribute(out, start, FRA_TABLE, &u32::from(table).to_ne_bytes());
            attribute(out, start, FRA_SUPPRESS_PREFIXLEN, &u32::MAX.to_ne_bytes());
            attribute(out, start, FRA_PROTOCOL, &[RTPROT_KERNEL]);
            if priority > 0 {
                attribute(out, start, FRA_PRIORITY, &(priority as u32).to_ne_bytes());
            }
        }
    }

    /// The discipline at an interface's root (`tc_fill_qdisc`).
    fn queue_discipline(self, out: &mut Vec<u8>, interface: &Interface, host: &Host) {
        let fixed = Tcmsg { index: interface.index, parent: TC_H_ROOT, info: 2, ..Tcmsg::default() };
        let start = self.message(out, RTM_NEWQDISC, NLM_F_MULTI, fixed.as_bytes());
        attribute(out, start, TCA_KIND, &[discipline_of(interface, host).as_bytes(), &[0]].concat());
        attribute(out, start, TCA_HW_OFFLOAD, &[0]);
    }

    fn address(self, out: &mut Vec<u8>, interface: &Interface) {
        let fixed = Ifaddrmsg {
            ifa_family: AF_INET as u8,
            ifa_prefixlen: interface.prefix,
            ifa_flags: IFA_F_PERMANENT,
            ifa_scope: if interface.broadcast.is_none() { RT_SCOPE_HOST } else { RT_SCOPE_UNIVERSE },
            ifa_index: interface.index as u32,
        };
        let start = self.message(out, RTM_NEWADDR, NLM_F_MULTI, fixed.as_bytes());
        attribute(out, start, IFA_ADDRESS, &interface.address.octets());
        attribute(out, start, IFA_LOCAL, &interface.address.octets());
        if let Some(broadcast) = interface.broadcast {
            attribute(out, start, IFA_BROADCAST, &broadcast.octets());
        }
        attribute(out, start, IFA_LABEL, &[interface.name.as_bytes(), &[0]].concat());
        attribute(out, start, IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes());
        // Lifetimes without end; made and changed at the start.
        let forever = u32::MAX.to_ne_bytes();
        attribute(out, start, IFA_CACHEINFO, &[forever, forever, [0; 4], [0; 4]].concat());
    }

    /// The address, if there is one, as `inet6_fill_ifaddr` shows it: without IFA_LOCAL and label.
    fn address6(self, out: &mut Vec<u8>, interface: &Interface) {
        let Some(address) = interface.address6 else { return };
        let fixed = Ifaddrmsg {
            ifa_family: AF_INET6 as u8,
            ifa_prefixlen: interface.prefix6,
            ifa_flags: IFA_F_PERMANENT,
            ifa_scope: if interface.broadcast.is_none() { RT_SCOPE_HOST } else { RT_SCOPE_UNIVERSE },
            ifa_index: interface.index as u32,
        };
        let start = self.message(out, RTM_NEWADDR, NLM_F_MULTI, fixed.as_bytes());
        attribute(out, start, IFA_ADDRESS, &address.octets());
        let forever = u32::MAX.to_ne_bytes();
        attribute(out, start, IFA_CACHEINFO, &[forever, forever, [0; 4], [0; 4]].concat());
        attribute(out, start, IFA_FLAGS, &u32::from(IFA_F_PERMANENT).to_ne_bytes());
    }

    /// The main table of IPv6, which is `eth0`'s network and a default route, then the local one: each interface's own address.
    fn routes6(self, out: &mut Vec<u8>, all: &[Interface; 2]) {
        let mut route = |(table, kind): (u8, u8), to: Option<(Ipv6Addr, u8)>, protocol, metric: u32, index: i32| {
            let dst_len = to.map_or(0, |(_, len)| len);
            let fixed = Rtmsg { family: AF_INET6 as u8, dst_len, table, protocol, kind, ..Rtmsg::default() };
            let start = self.message(out, RTM_NEWROUTE, NLM_F_MULTI, fixed.as_bytes());
            attribute(out, start, RTA_TABLE, &u32::from(table).to_ne_bytes());
            if let Some((destination, _)) = to {
                attribute(out, start, RTA_DST, &destination.octets());
            }
            attribute(out, start, RTA_PRIORITY, &metric.to_ne_bytes());
            attribute(out, start, RTA_OIF, &index.to_ne_bytes());
        };
        let main = (RT_TABLE_MAIN, RTN_UNICAST);
        let ethernet = &all[1];
        if let Some(address) = ethernet.address6 {
            let network = (ethernet.network6(address), ethernet.prefix6);
            route(main, Some(network), RTPROT_KERNEL, 256, ethernet.index);
            route(main, None, RTPROT_BOOT, 1024, ethernet.index);
        }
        for interface in all {
            if let Some(address) = interface.address6 {
                route((RT_TABLE_LOCAL, RTN_LOCAL), Some((address, 128)), RTPROT_KERNEL, 0, interface.index);
            }
        }
    }

    /// The way to one address (`inet_rtm_getroute`), of IPv4 to this host without one. EINVAL, ERANGE, ENETUNREACH.
    fn route_to(self, out: &mut Vec<u8>, all: &[Interface; 2], body: &[u8]) -> Result<(), Errno> {
        let this_host = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let to = match destination(body) {
            Some(to) => to,
            None if !names_destination(body) && body.starts_with(&[AF_INET as u8]) => this_host,
            // What is too short is no address (`rtm_ipv4_policy`).
            None if names_destination(body) => return Err(Errno::ERANGE),
            None => return Err(Errno::EINVAL),
        };
        let own = |interface: &Interface| match to {
            IpAddr::V4(_) => Some(IpAddr::V4(interface.address)),
            IpAddr::V6(_) => interface.address6.map(IpAddr::V6),
        };
        let is_local = to.is_loopback() || to == this_host || all.iter().any(|interface| own(interface) == Some(to));
        let interface = &all[usize::from(!is_local)];
        let source = match is_local {
            true if to == this_host => IpAddr::V4(Ipv4Addr::LOCALHOST),
            true => to,
            false => own(interface).ok_or(Errno::ENETUNREACH)?,
        };
        let octets = |address: IpAddr| match address {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        // Of IPv4, Linux tells the table only to who asks for it.
        let table = if is_local && to.is_ipv6() { RT_TABLE_LOCAL } else { RT_TABLE_MAIN };
        let local = if is_local && to.is_ipv4() { RTCF_LOCAL } else { 0 };
        let fixed = Rtmsg {
            family: if to.is_ipv4() { AF_INET } else { AF_INET6 } as u8,
            dst_len: if to.is_ipv4() { 32 } else { 128 },
            table,
            kind: if is_local { RTN_LOCAL } else { RTN_UNICAST },
            flags: RTM_F_CLONED | local,
            ..Rtmsg::default()
        };
        let start = self.message(out, RTM_NEWROUTE, 0, fixed.as_bytes());
        attribute(out, start, RTA_TABLE, &u32::from(table).to_ne_bytes());
        attribute(out, start, RTA_DST, &octets(to));
        attribute(out, start, RTA_OIF, &interface.index.to_ne_bytes());
        attribute(out, start, RTA_PREFSRC, &octets(source));
        // Programs count on something behind the source (nmap reads all but the last attribute).
        attribute(out, start, RTA_UID, &0_u32.to_ne_bytes());
        attribute(out, start, RTA_CACHEINFO, &[0; CACHE_INFO_BYTES]);
        Ok(())
    }

    /// The main table: a default route and `eth0`'s own network; then the local one, in the order of its addresses.
    fn routes(self, out: &mut Vec<u8>, all: &[Interface; 2]) {
        let mut route = |fixed: Rtmsg, to: Option<Ipv4Addr>, interface: &Interface| {
            let start = self.message(out, RTM_NEWROUTE, NLM_F_MULTI, fixed.as_bytes());
            attribute(out, start, RTA_TABLE, &u32::from(fixed.table).to_ne_bytes());
            if let Some(destination) = to {
                attribute(out, start, RTA_DST, &destination.octets());
                attribute(out, start, RTA_PREFSRC, &interface.address.octets());
            }
            attribute(out, start, RTA_OIF, &interface.index.to_ne_bytes());
        };
        let family = AF_INET as u8;
        let linked = Rtmsg { family, scope: RT_SCOPE_LINK, protocol: RTPROT_KERNEL, ..Rtmsg::default() };
        let main = Rtmsg { table: RT_TABLE_MAIN, kind: RTN_UNICAST, ..linked };
        let ethernet = &all[1];
        route(Rtmsg { protocol: RTPROT_BOOT, ..main }, None, ethernet);
        route(Rtmsg { dst_len: ethernet.prefix, ..main }, Some(ethernet.network()), ethernet);
        let local = Rtmsg { table: RT_TABLE_LOCAL, kind: RTN_LOCAL, scope: RT_SCOPE_HOST, dst_len: 32, ..linked };
        let broadcast = Rtmsg { kind: RTN_BROADCAST, scope: RT_SCOPE_LINK, ..local };
        let [loopback, _] = all;
        let mut own = vec![
            (loopback.network(), Rtmsg { dst_len: loopback.prefix, ..local }, loopback),
            (loopback.address, local, loopback),
            (loopback.last_address(), broadcast, loopback),
            (ethernet.address, local, ethernet),
            (ethernet.last_address(), broadcast, ethernet),
        ];
        own.sort_by_key(|(to, ..)| *to);
        own.into_iter().for_each(|(to, fixed, interface)| route(fixed, Some(to), interface));
    }
}

fn discipline_of(interface: &Interface, host: &Host) -> &'static str {
    if interface.broadcast.is_none() { "noqueue" } else { host.queue_discipline }
}

/// The address in a request of a route, of the family that it names.
fn destination(body: &[u8]) -> Option<IpAddr> {
    let (fixed, rest) = Rtmsg::read_from_prefix(body).ok()?;
    let data = attributes(rest).find(|(kind, _)| *kind == RTA_DST)?.1;
    match i32::from(fixed.family) {
        AF_INET => Some(IpAddr::from(*data.first_chunk::<4>()?)),
        AF_INET6 => Some(IpAddr::from(*data.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Whether a request of a route names a destination, whatever it is.
fn names_destination(body: &[u8]) -> bool {
    Rtmsg::read_from_prefix(body).is_ok_and(|(_, rest)| attributes(rest).any(|(kind, _)| kind == RTA_DST))
}

/// The interface that a request for one link means: by its index, or by its name.
fn find<'a>(all: &'a [Interface], body: &[u8]) -> Option<&'a Interface> {
    let (fixed, rest) = Ifinfomsg::read_from_prefix(body).ok()?;
    if fixed.ifi_index > 0 {
        return all.iter().find(|interface| interface.index == fixed.ifi_index);
    }
    let name = attributes(rest).find(|(kind, _)| *kind == IFLA_IFNAME)?.1;
    let name = name.split(|&byte| byte == 0).next()?;
    all.iter().find(|interface| interface.name.as_bytes() == name)
}

/// Demands that a name, where one is given, has a length that names have. ERANGE (`ifla_policy`).
fn demand_name(body: &[u8]) -> Result<(), Errno> {
    let Ok((_, rest)) = Ifinfomsg::read_from_prefix(body) else { return Ok(()) };
    let name = attributes(rest).find(|(kind, _)| *kind == IFLA_IFNAME).map(|(_, name)| name);
    let len = name.map_or(1, |name| name.strip_suffix(&[0]).unwrap_or(name).len());
    if name.is_some_and(<[u8]>::is_empty) || len >= IFNAMSIZ { Err(Errno::ERANGE) } else { Ok(()) }
}

/// Demands that a request names an interface, by number or name. EINVAL (`rtnl_getlink`).
fn demand_one(body: &[u8]) -> Result<(), Errno> {
    let (fixed, rest) = Ifinfomsg::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    let is_named = attributes(rest).any(|(kind, _)| matches!(kind, IFLA_IFNAME | IFLA_ALT_IFNAME));
    if fixed.ifi_index > 0 || is_named { Ok(()) } else { Err(Errno::EINVAL) }
}

#[cfg(test)]
mod tests {
    use super::super::netlink_frame::{self, Style};
    use super::*;
    use linux_abi::socket::AF_NETLINK;
    use tcpip::Traffic;

    const HOST: Addresses =
        Addresses { v4: Ipv4Addr::new(11, 0, 0, 5), v6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, 5)) };

    fn answer(request: &[u8], port: u32, own: Addresses) -> Vec<Vec<u8>> {
        let received = Traffic { packets: 3, bytes: 200 };
        let counted = [Counted::default(), Counted { received, ..Counted::default() }];
        let host = Host { own, counted, queue_discipline: "fq", administers: true };
        let style = Style { port, short_errors: false, busy: false, is_list };
        let answers =
            netlink_frame::answer(request, style, |reply, header, body| super::answer(reply, header, body, &host));
        answers.into_iter().map(|answer| answer.bytes).collect()
    }

    fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Reply { seq: 77, port: 0 }.message(&mut out, kind, NLM_F_REQUEST | flags, body);
        out
    }

    /// The messages of an answer: type and what follows the header.
    fn messages(datagram: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        let mut at = 0;
        while at < datagram.len() {
            let (header, _) = Nlmsghdr::read_from_prefix(&datagram[at..]).unwrap();
            assert_eq!((header.nlmsg_seq, header.nlmsg_pid), (77, 1000));
            let end = at + header.nlmsg_len as usize;
            all.push((header.nlmsg_type, datagram[at + 16..end].to_vec()));
            at = end;
        }
        all
    }

    fn attribute_of(body: &[u8], fixed: usize, wanted: u16) -> Option<Vec<u8>> {
        attributes(&body[fixed..]).find(|(kind, _)| *kind == wanted).map(|(_, data)| data.to_vec())
    }

    #[test]
    fn links_are_listed_and_the_list_ends() {
        let replies = answer(&request(RTM_GETLINK, NLM_F_DUMP, &[0]), 1000, HOST);
        assert_eq!(replies.len(), 2);
        let links = messages(&replies[0]);
        assert_eq!(links.len(), 2);
        let statistics = attribute_of(&links[1].1, 16, IFLA_STATS64).unwrap();
        assert_eq!((statistics[0], statistics[16]), (3, 200));
        assert_eq!(attribute_of(&links[1].1, 16, IFLA_IFNAME).unwrap(), b"eth0\0");
        assert_eq!(attribute_of(&links[1].1, 16, IFLA_ADDRESS).unwrap(), [2, 0, 11, 0, 0, 5]);
        assert_eq!(messages(&replies[1]), [(NLMSG_DONE, vec![0; 4])]);
    }

    #[test]
    fn addresses_are_those_of_both_interfaces() {
        let replies = answer(&request(RTM_GETADDR, NLM_F_DUMP, &[AF_INET as u8]), 1000, HOST);
        let addresses = messages(&replies[0]);
        let local: Vec<_> = addresses.iter().map(|(_, body)| attribute_of(body, 8, IFA_LOCAL).unwrap()).collect();
        assert_eq!(local, [vec![127, 0, 0, 1], vec![11, 0, 0, 5]]);
        assert_eq!(attribute_of(&addresses[0].1, 8, IFA_BROADCAST), None);
        assert_eq!(attribute_of(&addresses[1].1, 8, IFA_BROADCAST).unwrap(), [11, 0, 0, 255]);
    }

    #[test]
    fn what_has_no_list_of_its_own_is_listed_for_all_families() {
        for kind in [RTM_GETADDR, RTM_GETROUTE] {
            let list = |family: i32| messages(&answer(&request(kind, NLM_F_DUMP, &[family as u8]), 1000, HOST)[0]);
            assert_eq!(list(AF_NETLINK), list(AF_UNSPEC));
            assert_ne!(list(AF_INET), list(AF_UNSPEC));
        }
        let rules = answer(&request(RTM_GETRULE, NLM_F_DUMP, &[AF_NETLINK as u8]), 1000, HOST);
        assert_eq!(messages(&rules[0]), [(NLMSG_DONE, (-Errno::EAFNOSUPPORT.raw()).to_ne_bytes().to_vec())]);
    }

    #[test]
    fn either_flag_of_a_list_asks_for_it() {
        for flag in [NLM_F_ROOT, NLM_F_MATCH] {
            let replies = answer(&request(RTM_GETADDR, flag, &[AF_INET as u8]), 1000, HOST);
            assert_eq!(messages(&replies[0]).len(), 2);
            assert_eq!(messages(&replies[1])[0].0, NLMSG_DONE);
        }
    }

    #[test]
    fn rules_and_queue_disciplines_are_listed() {
        let list =
            |kind, family: i32| messages(&answer(&request(kind, NLM_F_DUMP, &[family as u8; 20]), 1000, HOST)[0]);
        let lens = |all: Vec<(u16, Vec<u8>)>| all.iter().map(|(_, body)| body.len() + 16).collect::<Vec<_>>();
        assert_eq!(lens(list(RTM_GETRULE, AF_INET)), [52, 60, 60]);
        assert_eq!(lens(list(RTM_GETRULE, AF_INET6)), [52, 60]);
        let disciplines = list(RTM_GETQDISC, AF_UNSPEC);
        let kinds: Vec<_> = disciplines.iter().map(|(_, body)| attribute_of(body, 20, TCA_KIND).unwrap()).collect();
        assert_eq!(kinds, [b"noqueue\0".to_vec(), b"fq\0".to_vec()]);
    }

    #[test]
    fn what_is_so_already_can_be_set() {
        let up = |index, flags| {
            let fixed = Ifinfomsg { ifi_index: index, ifi_flags: flags, ifi_change: IFF_UP, ..Ifinfomsg::default() };
            let reply = messages(&answer(&request(RTM_NEWLINK, NLM_F_ACK, fixed.as_bytes()), 1000, HOST)[0]).remove(0);
            i32::from_ne_bytes(*reply.1.first_chunk().unwrap())
        };
        assert_eq!(up(1, IFF_UP), 0);
        assert_eq!(up(1, 0), -Errno::EOPNOTSUPP.raw());
        assert_eq!(up(9, IFF_UP), -Errno::ENODEV.raw());
    }

    #[test]
    fn addresses_and_routes_of_ipv6_follow_those_of_ipv4() {
        let families = |kind, wanted: i32, own| {
            let replies = answer(&request(kind, NLM_F_DUMP, &[wanted as u8]), 1000, own);
            messages(&replies[0]).iter().map(|(_, body)| i32::from(body[0])).collect::<Vec<_>>()
        };
        assert_eq!(families(RTM_GETADDR, AF_UNSPEC, HOST), [AF_INET, AF_INET, AF_INET6, AF_INET6]);
        assert_eq!(families(RTM_GETADDR, AF_INET6, HOST), [AF_INET6; 2]);
        assert_eq!(families(RTM_GETADDR, AF_INET6, Addresses { v6: None, ..HOST }), [AF_INET6]);
        assert_eq!(families(RTM_GETROUTE, AF_INET6, HOST), [AF_INET6; 4]);
        assert_eq!(families(RTM_GETROUTE, AF_INET6, Addresses { v6: None, ..HOST }), [AF_INET6]);
        let replies = answer(&request(RTM_GETADDR, NLM_F_DUMP, &[AF_INET6 as u8]), 1000, HOST);
        let (_, eth0) = &messages(&replies[0])[1];
        assert_eq!((eth0[1], eth0[3]), (64, RT_SCOPE_UNIVERSE));
        assert_eq!(attribute_of(eth0, 8, IFA_ADDRESS).unwrap(), HOST.v6.unwrap().octets());
        assert_eq!(attribute_of(eth0, 8, IFA_LOCAL), None);
    }

    #[test]
    fn one_link_is_found_by_index_or_name() {
        let by_index = Ifinfomsg { ifi_index: 1, ..Ifinfomsg::default() };
        let replies = answer(&request(RTM_GETLINK, 0, by_index.as_bytes()), 1000, HOST);
        assert_eq!(attribute_of(&messages(&replies[0])[0].1, 16, IFLA_IFNAME).unwrap(), b"lo\0");
        let mut by_name = request(RTM_GETLINK, 0, Ifinfomsg::default().as_bytes());
        attribute(&mut by_name, 0, IFLA_IFNAME, b"eth0\0");
        let replies = answer(&by_name, 1000, HOST);
        assert_eq!(attribute_of(&messages(&replies[0])[0].1, 16, IFLA_IFNAME).unwrap(), b"eth0\0");
        let unknown = Ifinfomsg { ifi_index: 9, ..Ifinfomsg::default() };
        let replies = answer(&request(RTM_GETLINK, 0, unknown.as_bytes()), 1000, HOST);
        let (kind, body) = &messages(&replies[0])[0];
        assert_eq!((*kind, &body[..4]), (NLMSG_ERROR, &(-Errno::ENODEV.raw()).to_ne_bytes()[..]));
    }

    #[test]
    fn the_way_to_an_address_is_told() {
        let route = |to: [u8; 4]| {
            let fixed = Rtmsg { family: AF_INET as u8, dst_len: 32, ..Rtmsg::default() };
            let mut asked = request(RTM_GETROUTE, 0, fixed.as_bytes());
            attribute(&mut asked, 0, RTA_DST, &to);
            let (_, body) = messages(&answer(&asked, 1000, HOST)[0]).remove(0);
            (attribute_of(&body, 12, RTA_OIF).unwrap()[0], attribute_of(&body, 12, RTA_PREFSRC).unwrap())
        };
        assert_eq!(route([11, 0, 0, 9]), (2, vec![11, 0, 0, 5]));
        assert_eq!(route([11, 0, 0, 5]), (1, vec![11, 0, 0, 5]));
        assert_eq!(route([127, 0, 0, 1]), (1, vec![127, 0, 0, 1]));
        let short = [AF_INET as u8; size_of::<Rtmsg>() - 1];
        let (kind, body) = messages(&answer(&request(RTM_GETROUTE, 0, &short), 1000, HOST)[0]).remove(0);
        assert_eq!((kind, &body[..4]), (NLMSG_ERROR, &(-Errno::EINVAL.raw()).to_ne_bytes()[..]));
    }

    #[test]
    fn changes_are_refused_and_garbage_is_ignored() {
        let replies = answer(&request(RTM_NEWADDR, NLM_F_ACK, &[0; 8]), 1000, HOST);
        assert_eq!(messages(&replies[0])[0].0, NLMSG_ERROR);
        assert!(answer(&[1, 2, 3], 1000, HOST).is_empty());
        assert!(answer(&[0xff; 32], 1000, HOST).is_empty());
    }

    #[test]
    fn the_main_table_has_a_default_route() {
        let replies = answer(&request(RTM_GETROUTE, NLM_F_DUMP, &[AF_INET as u8]), 1000, HOST);
        let routes = messages(&replies[0]);
        assert_eq!((routes[0].1[1], routes[1].1[1]), (0, 24));
        assert_eq!(attribute_of(&routes[1].1, 12, RTA_DST).unwrap(), [11, 0, 0, 0]);
    }
}
