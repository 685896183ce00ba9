//! Groups of multicast (RFC 1112, RFC 3376, RFC 3810): which of them a socket and its host have joined, from which sources a socket hears
//! them, and how it sends to groups. Without I/O and without messages to routers: a link carries datagrams of all groups.

use crate::addr::{Family, Interface};
use crate::error::SocketError;
use base::map::FastMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// net.ipv4.igmp_max_memberships.
const MAX_MEMBERSHIPS: usize = 20;
/// net.ipv4.igmp_max_msf and net.ipv6.mld_max_msf.
const MAX_SOURCES: [usize; 2] = [10, 64];

/// Every host of IPv4 has joined it, on each interface.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// Every host of IPv6 has joined these, on each interface.
const ALL_NODES: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)];

/// What the sources of a membership mean (MCAST_INCLUDE, MCAST_EXCLUDE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterMode {
    /// They alone are heard.
    Include,
    /// They alone are not heard.
    Exclude,
}

/// A group that a socket has joined on an interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Membership {
    pub group: IpAddr,
    pub interface: Interface,
    /// The interface's address, where the program named the interface by it.
    pub named: Option<Ipv4Addr>,
    pub mode: FilterMode,
    pub sources: Vec<IpAddr>,
}

/// Which membership a program gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The oldest one of the group.
    Any,
    On(Interface),
    /// The one whose interface was named by this address.
    Named(Ipv4Addr),
}

/// How a socket sends to groups, and what it hears of groups that it has not joined itself. Each pair is by family.
#[derive(Clone, Debug)]
pub struct Multicast {
    /// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS.
    pub hops: [u8; 2],
    /// IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP: the host hears its own datagrams.
    pub loops: [bool; 2],
    /// IP_MULTICAST_ALL, IPV6_MULTICAST_ALL: groups that other sockets have joined are heard too.
    pub all: [bool; 2],
    /// IP_MULTICAST_IF, IPV6_MULTICAST_IF.
    pub via: [Option<Interface>; 2],
    /// The source that IP_MULTICAST_IF has named with the interface.
    pub source: Option<Ipv4Addr>,
    pub(crate) memberships: Vec<Membership>,
}

/// Whether a socket of this family hears groups of IPv4 and of IPv6 that it has not joined itself (`inet_create`, `inet6_create`).
const fn hears_all(family: Family) -> [bool; 2] {
    [matches!(family, Family::V4), true]
}

/// Whether a socket that was told nothing of groups hears those that the host has joined.
pub(crate) fn is_heard(group: IpAddr, family: Family) -> bool {
    !group.is_multicast() || hears_all(family)[Family::of(group) as usize]
}

impl Multicast {
    pub(crate) fn new(family: Family) -> Self {
        Multicast {
            hops: [1; 2],
            loops: [true; 2],
            all: hears_all(family),
            via: [None; 2],
            source: None,
            memberships: Vec::new(),
        }
    }

    /// Whether a datagram to `group` from `source` that came by `interface` is for this socket (`ip_mc_sf_allow`, `inet6_mc_check`).
    pub(crate) fn hears(&self, group: IpAddr, source: IpAddr, interface: Interface) -> bool {
        if !group.is_multicast() {
            return true;
        }
        match self.memberships.iter().find(|own| own.group == group && own.interface == interface) {
            None => self.all[Family::of(group) as usize],
            Some(own) => own.sources.contains(&source) == (own.mode == FilterMode::Include),
        }
    }

    /// Notes a new membership. `AddressInUse` for one that is there, `NoBufferSpace` when there are too many (`__ip_mc_join_group`,
    /// `__ipv6_sock_mc_join`).
    pub(crate) fn join(&mut self, new: Membership) -> Result<(), SocketError> {
        if self.memberships.iter().any(|own| own.group == new.group && own.interface == new.interface) {
            return Err(SocketError::AddressInUse);
        }
        if new.group.is_ipv4() && self.memberships.iter().filter(|own| own.group.is_ipv4()).count() >= MAX_MEMBERSHIPS {
            return Err(SocketError::NoBufferSpace);
        }
        self.memberships.push(new);
        Ok(())
    }

    /// Takes a membership away. `AddressNotAvailable` where there is none.
    pub(crate) fn leave(&mut self, group: IpAddr, which: Which) -> Result<Membership, SocketError> {
        let matches = |own: &Membership| match which {
            Which::Any => true,
            Which::On(interface) => own.interface == interface,
            Which::Named(address) => own.named == Some(address),
        };
        let place = self.memberships.iter().position(|own| own.group == group && matches(own));
        place.map(|place| self.memberships.remove(place)).ok_or(SocketError::AddressNotAvailable)
    }

    /// The membership of a group, whose sources change. `InvalidArgument` without one.
    fn membership(&mut self, group: IpAddr, interface: Option<Interface>) -> Result<&mut Membership, SocketError> {
        let fits = |own: &&mut Membership| own.group == group && interface.is_none_or(|on| on == own.interface);
        self.memberships.iter_mut().find(fits).ok_or(SocketError::InvalidArgument)
    }

    /// Adds a source to a membership's, or takes it away. `Ok(true)` means that none of those that alone were heard is left, which ends the
    /// membership. `InvalidArgument`, `AddressNotAvailable`, `NoBufferSpace` (`ip_mc_source`, `ip6_mc_source`).
    pub(crate) fn change_source(
        &mut self,
        (group, interface): (IpAddr, Option<Interface>),
        source: IpAddr,
        mode: FilterMode,
        add: bool,
    ) -> Result<bool, SocketError> {
        let own = self.membership(group, interface)?;
        if own.mode != mode {
            if !own.sources.is_empty() {
                return Err(SocketError::InvalidArgument);
            }
            own.mode = mode;
        }
        let known = own.sources.iter().position(|known| *known == source);
        match (add, known) {
            (true, Some(_)) | (false, None) => return Err(SocketError::AddressNotAvailable),
            (true, None) if own.sources.len() >= MAX_SOURCES[Family::of(group) as usize] => {
                return Err(SocketError::NoBufferSpace);
            }
            (true, None) => own.sources.push(source),
            (false, Some(_)) if own.sources.len() == 1 && mode == FilterMode::Include => return Ok(true),
            (false, Some(place)) => {
                own.sources.remove(place);
            }
        }
        Ok(false)
    }

    /// Replaces mode and sources of a membership (IP_MSFILTER, MCAST_MSFILTER). `InvalidArgument`, `NoBufferSpace`.
    pub(crate) fn set_source_filter(
        &mut self,
        (group, interface): (IpAddr, Option<Interface>),
        mode: FilterMode,
        sources: Vec<IpAddr>,
    ) -> Result<(), SocketError> {
        if sources.len() > MAX_SOURCES[Family::of(group) as usize] {
            return Err(SocketError::NoBufferSpace);
        }
        let own = self.membership(group, interface)?;
        (own.mode, own.sources) = (mode, sources);
        Ok(())
    }
}

/// A group that some socket of the host has joined on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    pub address: IpAddr,
    pub interface: Interface,
    /// How many memberships of sockets there are; one more for what every host has joined.
    pub users: u32,
}

/// The groups of a host.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Users, and when the first of them came.
    joined: FastMap<(Interface, IpAddr), (u32, u64)>,
    serials: u64,
}

impl Groups {
    pub fn add(&mut self, interface: Interface, group: IpAddr) {
        self.serials += 1;
        let serial = self.serials;
        self.joined.entry((interface, group)).or_insert((0, serial)).0 += 1;
    }

    pub fn remove(&mut self, interface: Interface, group: IpAddr) {
        if let Some((users, _)) = self.joined.get_mut(&(interface, group)) {
            *users -= 1;
            if *users == 0 {
                self.joined.remove(&(interface, group));
            }
        }
    }

    pub fn contains(&self, interface: Interface, group: IpAddr) -> bool {
        is_of_every_host(group) || self.joined.contains_key(&(interface, group))
    }

    /// The groups of a family on an interface, the latest first, and last those of every host.
    pub fn list(&self, interface: Interface, family: Family) -> Vec<Group> {
        let of = |(on, group): &(Interface, IpAddr)| *on == interface && Family::of(*group) == family;
        let mut own: Vec<_> = self.joined.iter().filter(|(key, _)| of(key)).collect();
        own.sort_unstable_by_key(|(_, (_, serial))| std::cmp::Reverse(*serial));
        let mut all: Vec<Group> = own
            .into_iter()
            .map(|((_, address), (users, _))| Group { address: *address, interface, users: *users })
            .collect();
        let everybody: Vec<IpAddr> = match family {
            Family::V4 => vec![ALL_HOSTS.into()],
            Family::V6 => ALL_NODES.iter().rev().map(|group| IpAddr::V6(*group)).collect(),
        };
        for address in everybody {
            match all.iter_mut().find(|group| group.address == address) {
                Some(group) => group.users += 1,
                None => all.push(Group { address, interface, users: 1 }),
            }
        }
        all
    }
}

fn is_of_every_host(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(v4) => v4 == ALL_HOSTS,
        IpAddr::V6(v6) => ALL_NODES.contains(&v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(11, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(11, 0, 0, 2));

    fn member(mode: FilterMode) -> Multicast {
        let mut socket = Multicast::new(Family::V4);
        let new = Membership { group: GROUP, interface: Interface::Ethernet, named: None, mode, sources: Vec::new() };
        socket.join(new).unwrap();
        socket
    }

    #[test]
    fn groups_that_others_have_joined_are_heard_unless_declined() {
        let mut socket = Multicast::new(Family::V4);
        assert!(socket.hears(GROUP, A, Interface::Ethernet));
        socket.all[0] = false;
        assert!(!socket.hears(GROUP, A, Interface::Ethernet));
        let mut member = member(FilterMode::Exclude);
        member.all[0] = false;
        assert!(member.hears(GROUP, A, Interface::Ethernet));
        assert!(!member.hears(GROUP, A, Interface::Loopback));
    }

    #[test]
    fn sources_are_heard_alone_or_not_at_all() {
        let key = (GROUP, Some(Interface::Ethernet));
        let mut some = member(FilterMode::Include);
        assert!(!some.hears(GROUP, A, Interface::Ethernet));
        assert_eq!(some.change_source(key, A, FilterMode::Include, true), Ok(false));
        assert!(some.hears(GROUP, A, Interface::Ethernet) && !some.hears(GROUP, B, Interface::Ethernet));
        assert_eq!(some.change_source(key, B, FilterMode::Exclude, true), Err(SocketError::InvalidArgument));
        assert_eq!(some.change_source(key, A, FilterMode::Include, true), Err(SocketError::AddressNotAvailable));
        assert_eq!(some.change_source(key, A, FilterMode::Include, false), Ok(true));
        let mut others = member(FilterMode::Exclude);
        assert_eq!(others.change_source(key, A, FilterMode::Exclude, true), Ok(false));
        assert!(!others.hears(GROUP, A, Interface::Ethernet) && others.hears(GROUP, B, Interface::Ethernet));
        assert_eq!(others.change_source(key, A, FilterMode::Exclude, false), Ok(false));
    }

    #[test]
    fn a_group_is_joined_once_on_an_interface_and_left_by_its_name() {
        let mut socket = member(FilterMode::Exclude);
        let again = socket.memberships[0].clone();
        assert_eq!(socket.join(again.clone()), Err(SocketError::AddressInUse));
        let named = Some(Ipv4Addr::LOCALHOST);
        socket.join(Membership { interface: Interface::Loopback, named, ..again }).unwrap();
        assert_eq!(socket.leave(GROUP, Which::Named(Ipv4Addr::BROADCAST)), Err(SocketError::AddressNotAvailable));
        assert_eq!(socket.leave(GROUP, Which::Named(Ipv4Addr::LOCALHOST)).unwrap().interface, Interface::Loopback);
        assert!(socket.leave(GROUP, Which::Any).is_ok());
    }

    #[test]
    fn a_host_is_in_a_group_as_long_as_one_of_its_sockets() {
        let mut host = Groups::default();
        host.add(Interface::Ethernet, GROUP);
        host.add(Interface::Ethernet, GROUP);
        assert!(host.contains(Interface::Ethernet, GROUP) && !host.contains(Interface::Loopback, GROUP));
        let users =
            |host: &Groups| host.list(Interface::Ethernet, Family::V4).iter().map(|g| g.users).collect::<Vec<_>>();
        assert_eq!(users(&host), [2, 1]);
        host.remove(Interface::Ethernet, GROUP);
        host.remove(Interface::Ethernet, GROUP);
        assert!(!host.contains(Interface::Ethernet, GROUP));
        assert_eq!(users(&host), [1]);
    }
}
