//! Who holds which local port: the rules of bind(2), listen(2) and connect(2), after Linux's bind
//! buckets (`inet_csk_get_port`, `__inet_hash_connect`, `udp_lib_get_port`, `ping_get_port`), and
//! the choice of ephemeral ports.

use crate::addr::{Endpoint, Family, Interface};
use crate::socket::Settings;
use base::Rng;
use base::map::FastMap;
use smallvec::SmallVec;
use std::net::{IpAddr, Ipv6Addr};

/// What a socket holds of its port; given back with [`PortTable::release`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hold {
    None,
    /// By bind(2): listed by the socket's index.
    Bound(u16),
    /// By a connection that has its port from connect(2), shares it with its listener, or outlives
    /// its socket: only counted.
    Counted {
        port: u16,
        /// A place in [`PortTable::kinds`].
        kind: u16,
    },
}

impl Hold {
    pub fn is_bound(self) -> bool {
        matches!(self, Hold::Bound(_))
    }
}

/// Which protocol's rules hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rules {
    Tcp,
    Udp,
    /// Identifiers of echoes (icmp(7)): the address does not matter.
    Echo,
}

/// What the rules look at in a socket that holds a port, or wants one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Holder {
    addr: IpAddr,
    /// IPv4 addresses are not meant by `::`.
    v6_only: bool,
    /// It is a socket of IPv4.
    is_old: bool,
    reuse_address: bool,
    reuse_port: bool,
    /// SO_BINDTODEVICE.
    device: Option<Interface>,
    user: u32,
}

impl Holder {
    fn new(addr: IpAddr, settings: &Settings) -> Self {
        Holder {
            addr,
            v6_only: settings.v6_only,
            is_old: settings.family == Family::V4,
            reuse_address: settings.reuse_address,
            reuse_port: settings.reuse_port,
            device: settings.device,
            user: settings.user,
        }
    }

    /// The same for bind(2): who has an address of IPv6 speaks nothing else.
    fn bound(addr: IpAddr, settings: &Settings) -> Self {
        let holder = Holder::new(addr, settings);
        Holder { v6_only: holder.v6_only || addr.is_ipv6() && !addr.is_unspecified(), ..holder }
    }

    /// Whether one that wants a port has an address and a device in common with one that holds it (`ipv6_rcv_saddr_equal`).
    fn meets(&self, other: &Holder) -> bool {
        let devices = self.device.is_none() || other.device.is_none() || self.device == other.device;
        devices
            && (overlaps((self.addr, self.v6_only), (other.addr, other.v6_only)) || self.meets_all_but_ipv6_only(other))
    }

    /// All addresses of IPv4 are in the way of a socket that could speak IPv4 before connect(2) gave it an address of IPv6
    /// (`ipv4_rcv_saddr_equal`).
    fn meets_all_but_ipv6_only(&self, other: &Holder) -> bool {
        self.is_old && self.addr.is_unspecified() && other.addr.is_ipv6() && !other.v6_only
    }

    /// Whether the address includes the address of a socket that would join it: unlike `meets`, the wildcard of the new
    /// socket includes nothing (`ipv6_rcv_saddr_equal` without `match_sk2_wildcard`).
    fn covers(&self, new: &Holder) -> bool {
        match (self.addr, new.addr) {
            (IpAddr::V4(own), IpAddr::V4(other)) => own.is_unspecified() || own == other,
            // A socket of IPv4 compares the address of IPv4 that `::` stands for.
            (IpAddr::V4(own), IpAddr::V6(other)) => {
                self.is_old && own.is_unspecified() && other.is_unspecified() && !new.v6_only
            }
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified() && !self.v6_only,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.is_unspecified() || own == other,
        }
    }

    /// Whether two may share a port by SO_REUSEPORT.
    fn is_of_group(&self, other: &Holder) -> bool {
        self.reuse_port && other.reuse_port && self.user == other.user
    }

    fn reuses_with(&self, other: &Holder) -> bool {
        self.reuse_address && other.reuse_address
    }
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    index: u32,
    holder: Holder,
    listening: bool,
}

/// How many connections of one kind hold a port.
#[derive(Clone, Copy, Debug)]
struct Count {
    kind: u16,
    count: u32,
}

/// What connections that are counted have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct ConnectionKind {
    holder: Holder,
    /// The port came from connect(2): other connections may have it, too (SOCK_CONNECT_BIND).
    by_connect: bool,
}

/// Which sockets a port of TCP admits without comparing them with each holder (`fastreuse`, `fastreuseport`).
/// It depends on the options that the holders had when they bound, so a socket may be admitted that is in the way of
/// one of them.
#[derive(Clone, Copy, Default, Debug)]
struct Admission {
    /// All holders had SO_REUSEADDR, and none listened.
    reuse_address: bool,
    group: Option<Group>,
}

/// The holders of a port that share it by SO_REUSEPORT.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The socket that new members are compared with.
    first: Holder,
    /// It was alone when it bound (FASTREUSEPORT_ANY): the addresses of new members do not matter.
    at_any_address: bool,
}

impl Admission {
    fn admits(&self, new: &Holder, listens: bool) -> bool {
        (self.reuse_address && new.reuse_address && !listens) || self.admits_to_group(new)
    }

    /// `sk_reuseport_match`.
    fn admits_to_group(&self, new: &Holder) -> bool {
        let Some(group) = &self.group else { return false };
        new.reuse_port && new.user == group.first.user && (group.at_any_address || group.first.covers(new))
    }

    /// Notes that a socket has been bound, or listens; `is_first` if nobody held the port before
    /// (`inet_csk_update_fastreuse`).
    fn note(&mut self, new: &Holder, listens: bool, is_first: bool) {
        let reuses = new.reuse_address && !listens;
        self.reuse_address = reuses && (is_first || self.reuse_address);
        if !new.reuse_port {
            self.group = None;
        } else if is_first || !self.admits_to_group(new) {
            self.group = Some(Group { first: *new, at_any_address: is_first });
        }
    }
}

/// A port that is held: a bind bucket.
#[derive(Default, Debug)]
struct Bucket {
    bindings: Box<[Binding]>,
    connections: SmallVec<[Count; 1]>,
    /// `None` where no socket has been bound. Only TCP has it.
    admission: Option<Box<Admission>>,
}

impl Bucket {
    fn add(&mut self, kind: u16) {
        match self.connections.iter_mut().find(|held| held.kind == kind) {
            Some(held) => held.count += 1,
            None => self.connections.push(Count { kind, count: 1 }),
        }
    }

    fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.connections.is_empty()
    }

    fn remove(&mut self, kind: u16) {
        if let Some(place) = self.connections.iter().position(|held| held.kind == kind) {
            self.connections[place].count -= 1;
            if self.connections[place].count == 0 {
                self.connections.remove(place);
            }
        }
    }
}

/// How strict a search for a conflict is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Search {
    /// For a port that the program names.
    Named,
    /// For one that the stack chooses: what others have is left alone, whatever they would share.
    Chosen,
    /// The same with net.ipv4.ip_autobind_reuse, when no other port is left.
    Exhausted,
}

/// The ports of one protocol on one host.
#[derive(Debug)]
pub(crate) struct PortTable {
    rules: Rules,
    ports: FastMap<u16, Bucket>,
    /// The kinds of connections that ever were, and the place of each: a connection is one of very
    /// many, and of few kinds.
    kinds: Vec<ConnectionKind>,
    places: FastMap<ConnectionKind, u16>,
    /// Taken at this address alone, and by no socket.
    reserved: Option<Endpoint>,
}

/// Whether two bound addresses, each with its IPV6_V6ONLY, have an address in common (ipv6_rcv_saddr_equal).
fn overlaps(a: (IpAddr, bool), b: (IpAddr, bool)) -> bool {
    match (a, b) {
        ((v6 @ IpAddr::V6(_), only), (IpAddr::V4(_), _)) | ((IpAddr::V4(_), _), (v6 @ IpAddr::V6(_), only)) => {
            v6.is_unspecified() && !only
        }
        ((a, _), (b, _)) => a.is_unspecified() || b.is_unspecified() || a == b,
    }
}

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

impl PortTable {
    pub fn new(rules: Rules) -> Self {
        PortTable { rules, ports: FastMap::default(), kinds: Vec::new(), places: FastMap::default(), reserved: None }
    }

    /// The place of a kind; of those that are too many, the last one, which is made to meet every
    /// address.
    fn place_of(&mut self, kind: ConnectionKind) -> u16 {
        *self.places.entry(kind).or_insert_with(|| {
            let place = u16::try_from(self.kinds.len()).unwrap_or(u16::MAX);
            if place < u16::MAX {
                self.kinds.push(kind);
            } else if self.kinds.len() == usize::from(u16::MAX) {
                let holder =
                    Holder { addr: ANY, v6_only: false, reuse_address: false, reuse_port: false, ..kind.holder };
                self.kinds.push(ConnectionKind { holder, by_connect: false });
            }
            place
        })
    }

    /// Keeps an endpoint from programs; the port stays free at other addresses, all of them together included.
    pub fn reserve(&mut self, endpoint: Endpoint) {
        self.reserved = Some(endpoint);
    }

    /// Whether somebody is in the way of a socket that wants this port; `own` is its own place in
    /// the table, if it has one: it wants to listen then.
    fn conflicts(&self, new: &Holder, own: Option<u32>, port: u16, search: Search) -> bool {
        if self.reserved == Some(Endpoint::new(new.addr, port)) {
            return true;
        }
        let Some(bucket) = self.ports.get(&port) else { return false };
        let mut others = bucket.bindings.iter().filter(|other| Some(other.index) != own);
        match self.rules {
            Rules::Tcp
                if search == Search::Named
                    && bucket.admission.as_ref().is_some_and(|admission| admission.admits(new, own.is_some())) =>
            {
                false
            }
            Rules::Tcp => {
                let connections =
                    bucket.connections.iter().map(|held| (self.kinds[usize::from(held.kind)].holder, false));
                let bindings = others.map(|other| (other.holder, other.listening));
                bindings.chain(connections).any(|(other, listening)| blocks(new, &other, listening, search))
            }
            Rules::Udp if search == Search::Named => {
                // The first of Linux's list that is met decides (udp_lib_lport_inuse): usually the youngest.
                let met = others.rfind(|other| !new.reuses_with(&other.holder) && new.meets(&other.holder));
                met.is_some_and(|other| !new.is_of_group(&other.holder))
            }
            Rules::Udp => others.any(|Binding { holder, .. }| {
                !new.reuses_with(holder) && new.meets(holder) && !new.is_of_group(holder)
            }),
            Rules::Echo => others.any(|other| !new.reuses_with(&other.holder)),
        }
    }

    /// Takes `port`, or an ephemeral one if it is 0. `None` when it is in use (or all are). With
    /// `shares`, a chosen port may be one that others with SO_REUSEADDR have
    /// (net.ipv4.ip_autobind_reuse).
    pub fn bind(
        &mut self,
        index: u32,
        at: Endpoint,
        settings: &Settings,
        (range, shares): ((u16, u16), bool),
        rng: &mut Rng,
    ) -> Option<u16> {
        let holder = Holder::bound(at.addr, settings);
        let port = if at.port == 0 {
            self.choose(&holder, range, shares, rng)?
        } else if self.conflicts(&holder, None, at.port, Search::Named) {
            return None;
        } else {
            at.port
        };
        self.note(port, &holder, false);
        let bucket = self.ports.entry(port).or_default();
        let binding = Binding { index, holder, listening: false };
        let mut bindings = bucket.bindings.to_vec();
        // `sk_add_node_rcu` puts members of a group of IPv6 behind all others.
        let is_last = self.rules == Rules::Udp && holder.reuse_port && !holder.is_old;
        bindings.insert(if is_last { 0 } else { bindings.len() }, binding);
        bucket.bindings = bindings.into();
        Some(port)
    }

    /// An ephemeral port that nobody else is met at (inet_csk_find_open_port). bind(2) prefers the
    /// ports that connect(2) does not, those an odd number above the first.
    fn choose(&self, holder: &Holder, range: (u16, u16), shares: bool, rng: &mut Rng) -> Option<u16> {
        let (low, high) = (u32::from(range.0), u32::from(range.1) + 1);
        let half = low + (((high - low) >> 2) << 1);
        let halves = match self.rules {
            // Who can share leaves the upper half to others.
            Rules::Tcp if holder.reuse_address && high - low >= 4 => [Some((low, half)), Some((half, high))],
            _ => [Some((low, high)), None],
        };
        let exhausted = (shares && self.rules == Rules::Tcp).then_some(Search::Exhausted);
        for search in [Some(Search::Chosen), exhausted].into_iter().flatten() {
            for part in halves.into_iter().flatten() {
                let free = candidates(part, rng, 1).find(|port| !self.conflicts(holder, None, *port, search));
                if free.is_some() {
                    return free;
                }
            }
        }
        None
    }

    /// Takes an ephemeral port for a connection from `addr`; `unique` says whether its four-tuple
    /// is free. Nobody else may have the port but by connect(2).
    pub fn connect(
        &mut self,
        addr: IpAddr,
        settings: &Settings,
        range: (u16, u16),
        rng: &mut Rng,
        mut unique: impl FnMut(u16) -> bool,
    ) -> Option<(u16, Hold)> {
        let kinds = &self.kinds;
        let is_connected = |bucket: &Bucket| {
            bucket.bindings.is_empty() && bucket.connections.iter().all(|held| kinds[usize::from(held.kind)].by_connect)
        };
        let whole = (u32::from(range.0), u32::from(range.1) + 1);
        let port =
            candidates(whole, rng, 0).find(|port| self.ports.get(port).is_none_or(is_connected) && unique(*port))?;
        Some((port, self.count(Endpoint::new(addr, port), settings, true)))
    }

    /// Counts a connection at a port that its listener has, or had. Its TIME_WAIT record takes over
    /// what it holds.
    pub fn share(&mut self, local: Endpoint, settings: &Settings) -> Hold {
        self.count(local, settings, false)
    }

    fn count(&mut self, local: Endpoint, settings: &Settings, by_connect: bool) -> Hold {
        let holder = Holder::new(local.addr, settings);
        let kind = self.place_of(ConnectionKind { holder, by_connect });
        self.ports.entry(local.port).or_default().add(kind);
        Hold::Counted { port: local.port, kind }
    }

    fn binding(&mut self, index: u32, port: u16) -> Option<&mut Binding> {
        self.ports.get_mut(&port)?.bindings.iter_mut().find(|binding| binding.index == index)
    }

    /// Notes for those to come that a socket has got a port, or listens there.
    fn note(&mut self, port: u16, holder: &Holder, listens: bool) {
        if self.rules == Rules::Tcp {
            let bucket = self.ports.entry(port).or_default();
            let is_first = bucket.is_empty();
            bucket.admission.get_or_insert_default().note(holder, listens, is_first);
        }
    }

    /// Notes that a bound socket listens no more.
    pub fn unlisten(&mut self, index: u32, port: u16) {
        if let Some(own) = self.binding(index, port) {
            own.listening = false;
        }
    }

    /// Notes that a bound socket listens; fails when somebody else is in the way (inet_csk_get_port
    /// in listen).
    pub fn listen(&mut self, index: u32, port: u16) -> bool {
        let Some(own) = self.binding(index, port) else { return false };
        let holder = own.holder;
        let blocked = self.conflicts(&holder, Some(index), port, Search::Named);
        if !blocked {
            self.note(port, &holder, true);
        }
        if let Some(own) = self.binding(index, port) {
            own.listening = !blocked;
        }
        !blocked
    }

    /// A bound socket's address has become another one, by connect(2) or its opposite
    /// (inet_bhash2_update_saddr, udp_lib_rehash).
    pub fn rehash(&mut self, index: u32, local: Endpoint) {
        if let Some(own) = self.binding(index, local.port) {
            own.holder.addr = local.addr;
        }
    }

    /// What the rules look at has changed in a socket that has a port. What it holds now.
    pub fn update(&mut self, hold: Hold, index: u32, settings: &Settings) -> Hold {
        match hold {
            Hold::None => hold,
            Hold::Bound(port) => {
                if let Some(own) = self.binding(index, port) {
                    own.holder = Holder { v6_only: own.holder.v6_only, ..Holder::new(own.holder.addr, settings) };
                }
                hold
            }
            Hold::Counted { port, kind } => {
                let ConnectionKind { holder, by_connect } = self.kinds[usize::from(kind)];
                let other = self.count(Endpoint::new(holder.addr, port), settings, by_connect);
                self.release(hold, index);
                other
            }
        }
    }

    pub fn release(&mut self, hold: Hold, index: u32) {
        let port = match hold {
            Hold::None => return,
            Hold::Bound(port) | Hold::Counted { port, .. } => port,
        };
        let Some(bucket) = self.ports.get_mut(&port) else { return };
        match hold {
            Hold::Counted { kind, .. } => bucket.remove(kind),
            _ => bucket.bindings = bucket.bindings.iter().filter(|binding| binding.index != index).copied().collect(),
        }
        let is_by_connect = |held: &Count| self.kinds[usize::from(held.kind)].by_connect;
        if bucket.bindings.is_empty() && bucket.connections.iter().all(is_by_connect) {
            // It becomes as if nobody had been bound (`inet_bind_bucket_destroy`).
            bucket.admission = None;
        }
        if bucket.is_empty() {
            self.ports.remove(&port);
        }
    }

    /// The sockets bound to `port` at `addr` or at any address, in order of binding.
    pub fn bound(&self, port: u16, addr: IpAddr) -> impl Iterator<Item = u32> {
        let bindings = self.ports.get(&port).map_or(&[][..], |bucket| &bucket.bindings);
        bindings
            .iter()
            .filter(move |binding| overlaps((binding.holder.addr, binding.holder.v6_only), (addr, true)))
            .map(|binding| binding.index)
    }
}

/// Whether a holder of a port is in the way of another TCP socket that wants it
/// (inet_bind_conflict).
fn blocks(new: &Holder, other: &Holder, listening: bool, search: Search) -> bool {
    let conflict = if new.reuses_with(other) && !listening {
        match search {
            Search::Named => false,
            Search::Chosen => true,
            Search::Exhausted => new.is_of_group(other),
        }
    } else {
        search != Search::Named || !new.is_of_group(other)
    };
    conflict && new.meets(other)
}

/// All ports from `low` up to `high` once, from a random start, those of the given parity first. Of
/// a range of odd length one is left out, as by Linux.
fn candidates((low, high): (u32, u32), rng: &mut Rng, parity: u32) -> impl Iterator<Item = u16> + use<> {
    let count = if high - low > 1 { (high - low) & !1 } else { high - low };
    let start = (rng.below(u64::from(count.max(1))) as u32) & !1;
    let of = move |parity: u32| {
        (0..count).step_by(2).map(move |step| {
            let port = low + start + parity + step;
            (if port >= high { port - count } else { port }) as u16
        })
    };
    of(parity).chain(of(1 - parity))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;
    use std::collections::BTreeSet;

    fn all_of(low: u32, high: u32, parity: u32) -> Vec<u16> {
        candidates((low, high), &mut SeedTree::new(1).stream("host", "ports"), parity).collect()
    }

    #[test]
    fn a_range_is_tried_once_each_parity_first() {
        let ports = all_of(100, 110, 1);
        assert_eq!(ports.iter().copied().collect::<BTreeSet<u16>>(), (100..110).collect());
        assert!(ports[..5].iter().all(|port| port % 2 == 1));
        assert!(all_of(100, 110, 0)[..5].iter().all(|port| port % 2 == 0));
    }

    #[test]
    fn a_range_of_one_port_has_that_port() {
        assert!(all_of(100, 101, 0).contains(&100) && all_of(100, 101, 1).contains(&100));
    }
}
