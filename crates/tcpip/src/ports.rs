//! Who holds which local port: the rules of bind(2) with SO_REUSEADDR and SO_REUSEPORT, and ephemeral ports.

use crate::addr::Endpoint;
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
    /// By a connection that shares the port of its listener or outlives its socket.
    Shared {
        port: u16,
        place: u16,
        reuse: bool,
    },
    /// By connect(2) without bind: only the four-tuple must be unique.
    Connected {
        port: u16,
        place: u16,
    },
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    index: u32,
    addr: IpAddr,
    /// IPv4 addresses are not meant by `::`.
    v6_only: bool,
    reuse_address: bool,
    reuse_port: bool,
    listening: bool,
}

#[derive(Default, Debug)]
struct PortUse {
    bindings: Box<[Binding]>,
    /// By local address.
    connections: SmallVec<[Connections; 1]>,
}

/// How many connections hold a port at one address, a place in [`PortTable::addresses`].
#[derive(Clone, Copy, Debug)]
struct Connections {
    place: u16,
    shared: u32,
    shared_without_reuse: u32,
    connected: u32,
}

impl PortUse {
    fn at(&mut self, place: u16) -> &mut Connections {
        let known = self.connections.iter().position(|connections| connections.place == place);
        let index = known.unwrap_or_else(|| {
            self.connections.push(Connections { place, shared: 0, shared_without_reuse: 0, connected: 0 });
            self.connections.len() - 1
        });
        &mut self.connections[index]
    }

    fn is_shared(&self) -> bool {
        self.connections.iter().any(|connections| connections.shared > 0)
    }
}

/// TCP's and UDP's rules differ in one thing: two UDP sockets with SO_REUSEADDR may always share.
#[derive(Debug)]
pub(crate) struct PortTable {
    ports: FastMap<u16, PortUse>,
    /// Local addresses that connections ever had, and the place of each: a connection is one of very many, an address of few.
    addresses: Vec<IpAddr>,
    places: FastMap<IpAddr, u16>,
    stream: bool,
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
    pub fn new(stream: bool) -> Self {
        PortTable {
            ports: FastMap::default(),
            addresses: Vec::new(),
            places: FastMap::default(),
            stream,
            reserved: None,
        }
    }

    /// The place of an address; of all that are too many, one that stands for any.
    fn place_of(&mut self, addr: IpAddr) -> u16 {
        *self.places.entry(addr).or_insert_with(|| {
            let place = u16::try_from(self.addresses.len()).unwrap_or(u16::MAX);
            if place < u16::MAX {
                self.addresses.push(addr);
            }
            place
        })
    }

    /// Keeps an endpoint from programs; the port stays free at other addresses, all of them together included.
    pub fn reserve(&mut self, endpoint: Endpoint) {
        self.reserved = Some(endpoint);
    }

    /// May a socket with these settings take `port` at `addr`? (inet_csk_bind_conflict, inet_rcv_saddr_equal)
    fn conflicts(&self, addr: IpAddr, port: u16, settings: &Settings) -> bool {
        if self.reserved == Some(Endpoint::new(addr, port)) {
            return true;
        }
        let Some(used) = self.ports.get(&port) else { return false };
        let by_connection = |used: &Connections| {
            let local = self.addresses.get(used.place as usize).copied().unwrap_or(ANY);
            overlaps((addr, settings.v6_only), (local, false))
                && (!settings.reuse_address || used.shared_without_reuse + used.connected > 0)
        };
        if !settings.reuse_port && used.connections.iter().any(by_connection) {
            return true;
        }
        used.bindings.iter().any(|other| {
            let by_address = settings.reuse_address && other.reuse_address && !(self.stream && other.listening);
            let by_port = settings.reuse_port && other.reuse_port;
            overlaps((addr, settings.v6_only), (other.addr, other.v6_only)) && !by_address && !by_port
        })
    }

    /// Takes `port`, or an ephemeral one if it is 0. `None` when it is in use (or all are).
    pub fn bind(
        &mut self,
        index: u32,
        addr: IpAddr,
        port: u16,
        settings: &Settings,
        range: (u16, u16),
        rng: &mut Rng,
    ) -> Option<u16> {
        let port = if port == 0 {
            // bind(2) prefers the ports that connect(2) does not (odd offsets).
            candidates(range, rng, 1)
                .find(|port| !self.ports.contains_key(port))
                .or_else(|| candidates(range, rng, 1).find(|port| !self.conflicts(addr, *port, settings)))?
        } else if self.conflicts(addr, port, settings) {
            return None;
        } else {
            port
        };
        let binding = Binding {
            index,
            addr,
            v6_only: settings.v6_only,
            reuse_address: settings.reuse_address,
            reuse_port: settings.reuse_port,
            listening: false,
        };
        let used = self.ports.entry(port).or_default();
        used.bindings = used.bindings.iter().copied().chain([binding]).collect();
        Some(port)
    }

    /// Takes an ephemeral port for a connection from `addr`; `unique` says whether its four-tuple is free.
    pub fn connect(
        &mut self,
        addr: IpAddr,
        range: (u16, u16),
        rng: &mut Rng,
        mut unique: impl FnMut(u16) -> bool,
    ) -> Option<(u16, Hold)> {
        let free = |used: &PortUse| used.bindings.is_empty() && !used.is_shared();
        let port = candidates(range, rng, 0).find(|port| self.ports.get(port).is_none_or(free) && unique(*port))?;
        let place = self.place_of(addr);
        self.ports.entry(port).or_default().at(place).connected += 1;
        Some((port, Hold::Connected { port, place }))
    }

    pub fn share(&mut self, local: Endpoint, reuse: bool) -> Hold {
        let place = self.place_of(local.addr);
        let used = self.ports.entry(local.port).or_default().at(place);
        used.shared += 1;
        used.shared_without_reuse += u32::from(!reuse);
        Hold::Shared { port: local.port, place, reuse }
    }

    /// Notes that a bound socket listens no more.
    pub fn unlisten(&mut self, index: u32, port: u16) {
        let bindings = self.ports.get_mut(&port).map(|used| &mut used.bindings);
        if let Some(own) = bindings.and_then(|all| all.iter_mut().find(|binding| binding.index == index)) {
            own.listening = false;
        }
    }

    /// Notes that a bound socket listens; fails when another listener is in the way (inet_csk_get_port in listen).
    pub fn listen(&mut self, index: u32, port: u16) -> bool {
        let Some(used) = self.ports.get_mut(&port) else { return false };
        let Some(own) = used.bindings.iter().position(|binding| binding.index == index) else { return false };
        let mine = used.bindings[own];
        let blocked = used.bindings.iter().any(|other| {
            other.index != index
                && other.listening
                && overlaps((other.addr, other.v6_only), (mine.addr, mine.v6_only))
                && !(other.reuse_port && mine.reuse_port)
        });
        used.bindings[own].listening = !blocked;
        !blocked
    }

    /// The reuse flags of a bound socket changed.
    pub fn update(&mut self, hold: Hold, index: u32, settings: &Settings) {
        if let Hold::Bound(port) = hold
            && let Some(used) = self.ports.get_mut(&port)
        {
            for binding in used.bindings.iter_mut().filter(|binding| binding.index == index) {
                binding.reuse_address = settings.reuse_address;
                binding.reuse_port = settings.reuse_port;
            }
        }
    }

    pub fn release(&mut self, hold: Hold, index: u32) {
        let port = match hold {
            Hold::None => return,
            Hold::Bound(port) | Hold::Connected { port, .. } | Hold::Shared { port, .. } => port,
        };
        let Some(used) = self.ports.get_mut(&port) else { return };
        match hold {
            Hold::None => {}
            Hold::Bound(_) => {
                used.bindings = used.bindings.iter().filter(|binding| binding.index != index).copied().collect();
            }
            Hold::Connected { place, .. } => used.at(place).connected -= 1,
            Hold::Shared { place, reuse, .. } => {
                let at = used.at(place);
                at.shared -= 1;
                at.shared_without_reuse -= u32::from(!reuse);
            }
        }
        used.connections.retain(|at| at.shared + at.connected > 0);
        if used.bindings.is_empty() && used.connections.is_empty() {
            self.ports.remove(&port);
        }
    }

    /// The sockets bound to `port` at `addr` or at any address, in order of binding.
    pub fn bound(&self, port: u16, addr: IpAddr) -> impl Iterator<Item = u32> {
        let bindings = self.ports.get(&port).map_or(&[][..], |used| &used.bindings);
        bindings
            .iter()
            .filter(move |binding| overlaps((binding.addr, binding.v6_only), (addr, true)))
            .map(|binding| binding.index)
    }
}

/// All ports of the range once, from a random start, those of the given parity first.
fn candidates(range: (u16, u16), rng: &mut Rng, parity: u32) -> impl Iterator<Item = u16> + use<> {
    let (low, high) = (u32::from(range.0), u32::from(range.1));
    let count = (high - low + 1) & !1;
    let start = (rng.below(u64::from(count.max(1))) as u32) & !1;
    let of =
        move |parity: u32| (0..count / 2).map(move |step| (low + (start + 2 * step) % count.max(1) + parity) as u16);
    of(parity).chain(of(1 - parity))
}
