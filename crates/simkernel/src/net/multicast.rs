//! Options about multicast (ip(7), ipv6(7), RFC 3678): groups that a socket joins and leaves, the sources of which it hears them, and the
//! interface that it sends to groups by. The stack has the rules of reception; here are the structures.

use super::errno;
use super::options::Kept;
use super::options::value::Place;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use linux_abi::Errno;
use linux_abi::sockaddr::SockAddr;
use linux_abi::socket::*;
use std::net::{IpAddr, Ipv4Addr};
use tcpip::multicast::{FilterMode, Membership, Which};
use tcpip::{Family, Interface, OptionName, SocketId, SocketOption};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a `struct sockaddr_storage`.
const STORAGE: usize = 128;
/// net.ipv4.igmp_max_msf and net.ipv6.mld_max_msf: the most sources of one filter.
const MAX_SOURCES: [usize; 2] = [10, 64];

/// A group on an interface, as a request names it.
struct Request {
    group: IpAddr,
    /// None is left to the route.
    index: u32,
    /// The interface's address; unspecified where the request has none.
    address: Ipv4Addr,
}

impl Request {
    fn by_index(group: IpAddr, index: u32) -> Self {
        Request { group, index, address: Ipv4Addr::UNSPECIFIED }
    }

    /// EINVAL for what is no group.
    fn checked(self) -> Result<Self, Errno> {
        if self.group.is_multicast() { Ok(self) } else { Err(Errno::EINVAL) }
    }

    /// The interface that is meant (`ip_mc_find_dev`). ENODEV.
    fn interface(&self, ctx: &Ctx<'_>) -> Result<Interface, Errno> {
        let stack = &ctx.kernel.net.stack;
        let found = match self.index {
            0 if self.address.is_unspecified() => stack.interface_of_groups(Family::of(self.group)),
            0 if self.address.is_loopback() => Some(Interface::Loopback),
            0 => stack.is_local(self.address.into()).then_some(Interface::Ethernet),
            index => Interface::of_index(index),
        };
        found.ok_or(Errno::ENODEV)
    }

    fn named(&self) -> Option<Ipv4Addr> {
        Some(self.address).filter(|address| !address.is_unspecified())
    }
}

/// Tells the stack what a socket's options say of groups.
pub(super) fn tell(ctx: &mut Ctx<'_>, file: FileId) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    if socket.is_stream {
        return Ok(());
    }
    let id = socket.id;
    let kept = |level, option, default| socket.kept.get(level, option).unwrap_or(default);
    let hops = [kept(SOL_IP, IP_MULTICAST_TTL, 1) as u8, kept(SOL_IPV6, IPV6_MULTICAST_HOPS, 1) as u8];
    let loops = [kept(SOL_IP, IP_MULTICAST_LOOP, 1) != 0, kept(SOL_IPV6, IPV6_MULTICAST_LOOP, 1) != 0];
    let all = [hears_all(&socket.kept, socket.family), kept(SOL_IPV6, IPV6_MULTICAST_ALL, 1) != 0];
    let via6 = Interface::of_index(kept(SOL_IPV6, IPV6_MULTICAST_IF, 0) as u32);
    let changed = ctx.kernel.net.stack.set_multicast(id, |own| {
        (own.hops, own.loops, own.all) = (hops, loops, all);
        own.via[Family::V6 as usize] = via6;
    });
    changed.map_err(errno)
}

/// IP_MULTICAST_ALL: `inet_create` asks for all groups, `inet6_create` does not.
pub(super) fn hears_all(kept: &Kept, family: Family) -> bool {
    kept.get(SOL_IP, IP_MULTICAST_ALL).map_or(family == Family::V4, |all| all != 0)
}

/// IP_MULTICAST_IF: by one of the host's addresses, or by an interface's index. EINVAL, EADDRNOTAVAIL.
pub(super) fn set_interface(ctx: &mut Ctx<'_>, file: FileId, value: u64, len: usize) -> Result<(), Outcome> {
    let memory = &ctx.process.memory;
    let request = match len {
        _ if ctx.inet(file)?.is_stream => return Err(Errno::EINVAL.into()),
        0..4 => return Err(Errno::EINVAL.into()),
        4..8 => IpMreqn { imr_address: memory.read_value(value)?, ..IpMreqn::default() },
        8..12 => IpMreqn { imr_address: memory.read_value::<IpMreq>(value)?.imr_interface, ..IpMreqn::default() },
        _ => memory.read_value(value)?,
    };
    let address = Ipv4Addr::from(request.imr_address);
    let clears = request.imr_ifindex == 0 && address.is_unspecified();
    let interface = match request.imr_ifindex {
        0 if address.is_loopback() => Some(Interface::Loopback),
        0 => ctx.kernel.net.stack.is_local(address.into()).then_some(Interface::Ethernet),
        index => Interface::of_index(index as u32),
    };
    if interface.is_none() && !clears {
        return Err(Errno::EADDRNOTAVAIL.into());
    }
    let id = ctx.inet(file)?.id;
    let device = ctx.kernel.net.stack.option(id, OptionName::Device).map_err(errno)?;
    if interface.is_some() && device != SocketOption::Device(None) && device != SocketOption::Device(interface) {
        return Err(Errno::EINVAL.into());
    }
    let socket = ctx.inet_mut(file)?;
    socket.kept.set(SOL_IP, IP_MULTICAST_IF, i32::from_ne_bytes(request.imr_address));
    let changed = ctx.kernel.net.stack.set_multicast(id, |own| {
        own.via[Family::V4 as usize] = interface;
        own.source = Some(address).filter(|address| !address.is_unspecified());
    });
    changed.map_err(errno)?;
    Ok(())
}

/// Options IP_ADD_MEMBERSHIP to MCAST_MSFILTER of level SOL_IP. EPROTO for streams, EINVAL, ENODEV, EADDRNOTAVAIL, EADDRINUSE, ENOBUFS.
pub(super) fn set4(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> SysResult {
    let is_stream = ctx.inet(file)?.is_stream;
    let memory = &ctx.process.memory;
    match option {
        IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP if is_stream => Err(Errno::EPROTO.into()),
        IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP => {
            let request = match len {
                0..8 => return Err(Errno::EINVAL.into()),
                8..12 => {
                    let short: IpMreq = memory.read_value(value)?;
                    IpMreqn { imr_multiaddr: short.imr_multiaddr, imr_address: short.imr_interface, imr_ifindex: 0 }
                }
                _ => memory.read_value(value)?,
            };
            let request = Request {
                group: IpAddr::from(request.imr_multiaddr),
                index: request.imr_ifindex as u32,
                address: request.imr_address.into(),
            };
            if option == IP_ADD_MEMBERSHIP {
                join(ctx, file, &request.checked()?, FilterMode::Exclude)
            } else {
                leave4(ctx, file, &request)
            }
        }
        IP_UNBLOCK_SOURCE | IP_BLOCK_SOURCE | IP_ADD_SOURCE_MEMBERSHIP | IP_DROP_SOURCE_MEMBERSHIP => {
            if len != size_of::<IpMreqSource>() {
                return Err(Errno::EINVAL.into());
            }
            let asked: IpMreqSource = memory.read_value(value)?;
            let request = Request { group: asked.imr_multiaddr.into(), index: 0, address: asked.imr_interface.into() };
            let how = match option {
                IP_BLOCK_SOURCE => Change::Block,
                IP_UNBLOCK_SOURCE => Change::Unblock,
                IP_ADD_SOURCE_MEMBERSHIP => Change::Join,
                _ => Change::Leave,
            };
            change_source(ctx, file, &request, asked.imr_sourceaddr.into(), how)
        }
        IP_MSFILTER => {
            if len < size_of::<IpMsfilter>() {
                return Err(Errno::EINVAL.into());
            }
            let asked: IpMsfilter = memory.read_value(value)?;
            let count = asked.imsf_numsrc as usize;
            if count > MAX_SOURCES[0] {
                return Err(Errno::ENOBUFS.into());
            }
            if len < size_of::<IpMsfilter>() + 4 * count {
                return Err(Errno::EINVAL.into());
            }
            let mut sources = Vec::new();
            for place in 0..count as u64 {
                let address: [u8; 4] = memory.read_value(value + size_of::<IpMsfilter>() as u64 + 4 * place)?;
                sources.push(address.into());
            }
            let request =
                Request { group: asked.imsf_multiaddr.into(), index: 0, address: asked.imsf_interface.into() };
            set_filter(ctx, file, &request, asked.imsf_fmode, sources)
        }
        _ => set_protocol_independent(ctx, file, Family::V4, option, value, len),
    }
}

/// IPV6_ADD_MEMBERSHIP and IPV6_DROP_MEMBERSHIP, and options MCAST_JOIN_GROUP to MCAST_MSFILTER of level SOL_IPV6. As `set4`.
pub(super) fn set6(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> SysResult {
    if !matches!(option, IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP) {
        return set_protocol_independent(ctx, file, Family::V6, option, value, len);
    }
    if len < size_of::<Ipv6Mreq>() {
        return Err(Errno::EINVAL.into());
    }
    if ctx.inet(file)?.is_stream {
        return Err(Errno::EPROTO.into());
    }
    let asked: Ipv6Mreq = ctx.process.memory.read_value(value)?;
    let request = Request::by_index(asked.ipv6mr_multiaddr.into(), asked.ipv6mr_ifindex as u32).checked()?;
    if option == IPV6_ADD_MEMBERSHIP {
        join(ctx, file, &request, FilterMode::Exclude)
    } else {
        leave6(ctx, file, &request)
    }
}

/// Options whose structures have room for addresses of any family (RFC 3678 section 5).
fn set_protocol_independent(
    ctx: &mut Ctx<'_>,
    file: FileId,
    family: Family,
    option: i32,
    value: u64,
    len: usize,
) -> SysResult {
    let memory = &ctx.process.memory;
    let too_short = |least: usize| if len < least { Err(Errno::EINVAL) } else { Ok(()) };
    match option {
        MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => {
            too_short(size_of::<GroupReq>())?;
            let asked: GroupReq = memory.read_value(value)?;
            let wrong = if family == Family::V4 { Errno::EINVAL } else { Errno::EADDRNOTAVAIL };
            let group = address_in(&asked.gr_group, family).ok_or(wrong)?;
            let request = Request::by_index(group, asked.gr_interface);
            match (option, family) {
                (MCAST_JOIN_GROUP, _) => join(ctx, file, &request.checked()?, FilterMode::Exclude),
                (_, Family::V4) => leave4(ctx, file, &request),
                (_, Family::V6) => leave6(ctx, file, &request.checked()?),
            }
        }
        MCAST_BLOCK_SOURCE | MCAST_UNBLOCK_SOURCE | MCAST_JOIN_SOURCE_GROUP | MCAST_LEAVE_SOURCE_GROUP => {
            too_short(size_of::<GroupSourceReq>())?;
            let asked: GroupSourceReq = memory.read_value(value)?;
            let group = address_in(&asked.gsr_group, family).ok_or(Errno::EADDRNOTAVAIL)?;
            let source = address_in(&asked.gsr_source, family).ok_or(Errno::EADDRNOTAVAIL)?;
            let how = match option {
                MCAST_BLOCK_SOURCE => Change::Block,
                MCAST_UNBLOCK_SOURCE => Change::Unblock,
                MCAST_JOIN_SOURCE_GROUP => Change::Join,
                _ => Change::Leave,
            };
            change_source(ctx, file, &Request::by_index(group, asked.gsr_interface), source, how)
        }
        MCAST_MSFILTER => {
            too_short(size_of::<GroupFilter>())?;
            let asked: GroupFilter = memory.read_value(value)?;
            let count = asked.gf_numsrc as usize;
            if count > MAX_SOURCES[family as usize] {
                return Err(Errno::ENOBUFS.into());
            }
            too_short(size_of::<GroupFilter>() + STORAGE * count)?;
            let group = address_in(&asked.gf_group, family).ok_or(Errno::EADDRNOTAVAIL)?;
            let mut sources = Vec::new();
            for place in 0..count {
                let at = value + (size_of::<GroupFilter>() + STORAGE * place) as u64;
                let storage: [u8; STORAGE] = memory.read_value(at)?;
                sources.push(address_in(&storage, family).ok_or(Errno::EADDRNOTAVAIL)?);
            }
            set_filter(ctx, file, &Request::by_index(group, asked.gf_interface), asked.gf_fmode, sources)
        }
        _ => Err(Errno::ENOPROTOOPT.into()),
    }
}

/// The address in a `struct sockaddr_storage`, if it is of this family.
fn address_in(storage: &[u8; STORAGE], family: Family) -> Option<IpAddr> {
    let number = i32::from(u16::read_from_prefix(storage).ok()?.0);
    if number != if family == Family::V4 { AF_INET } else { AF_INET6 } {
        return None;
    }
    match SockAddr::parse(storage).ok()? {
        SockAddr::V4(v4) => Some(IpAddr::V4(*v4.ip())),
        SockAddr::V6(v6) => Some(IpAddr::V6(*v6.ip())),
        _ => None,
    }
}

/// A socket that can have memberships. Streams, to which nothing would come by them, hear `otherwise`.
fn datagram_socket(ctx: &Ctx<'_>, file: FileId, otherwise: Errno) -> Result<SocketId, Errno> {
    let socket = ctx.inet(file)?;
    if socket.is_stream { Err(otherwise) } else { Ok(socket.id) }
}

fn join(ctx: &mut Ctx<'_>, file: FileId, request: &Request, mode: FilterMode) -> SysResult {
    let id = datagram_socket(ctx, file, Errno::EPROTO)?;
    let group = request.group;
    if let (0, IpAddr::V6(_)) = (request.index, group)
        && ctx.kernel.net.stack.memberships(id).iter().any(|own| own.group == group)
    {
        // Without an interface, a membership on any is the same one.
        return Err(Errno::EADDRINUSE.into());
    }
    let interface = request.interface(ctx)?;
    let has_no_address = interface == Interface::Ethernet && ctx.kernel.config.addresses.v6.is_none();
    if group.is_ipv6() && has_no_address {
        // IPv6 is not on this interface (`__ipv6_dev_mc_inc`).
        return Err(Errno::EINVAL.into());
    }
    let new = Membership { group, interface, named: request.named(), mode, sources: Vec::new() };
    ctx.kernel.net.stack.join_group(id, new).map_err(errno)?;
    Ok(0)
}

/// `ip_mc_leave_group`.
fn leave4(ctx: &mut Ctx<'_>, file: FileId, request: &Request) -> SysResult {
    let id = datagram_socket(ctx, file, Errno::EADDRNOTAVAIL)?;
    let which = match (request.interface(ctx), request.named()) {
        (Ok(interface), _) => Which::On(interface),
        (Err(_), Some(address)) => Which::Named(address),
        (Err(_), None) if request.index != 0 => return Err(Errno::EADDRNOTAVAIL.into()),
        (Err(errno), None) => return Err(errno.into()),
    };
    ctx.kernel.net.stack.leave_group(id, request.group, which).map_err(errno)?;
    Ok(0)
}

/// `ipv6_sock_mc_drop`.
fn leave6(ctx: &mut Ctx<'_>, file: FileId, request: &Request) -> SysResult {
    let id = datagram_socket(ctx, file, Errno::EADDRNOTAVAIL)?;
    let which = match request.index {
        0 => Which::Any,
        index => Which::On(Interface::of_index(index).ok_or(Errno::EADDRNOTAVAIL)?),
    };
    ctx.kernel.net.stack.leave_group(id, request.group, which).map_err(errno)?;
    Ok(0)
}

/// What becomes of a source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Block,
    Unblock,
    /// It is heard, and with the first of them the group is joined.
    Join,
    Leave,
}

/// `ip_mc_source` and `ip6_mc_source`, with the memberships that they presuppose.
fn change_source(ctx: &mut Ctx<'_>, file: FileId, request: &Request, source: IpAddr, how: Change) -> SysResult {
    if !request.group.is_multicast() {
        return Err(Errno::EINVAL.into());
    }
    if how == Change::Join {
        match join(ctx, file, request, FilterMode::Include) {
            Ok(_) | Err(Outcome::Errno(Errno::EADDRINUSE)) => {}
            failed => return failed,
        }
    }
    let id = datagram_socket(ctx, file, Errno::EINVAL)?;
    let of = place(ctx, request)?;
    let mode = if matches!(how, Change::Block | Change::Unblock) { FilterMode::Exclude } else { FilterMode::Include };
    let add = matches!(how, Change::Block | Change::Join);
    ctx.kernel.net.stack.change_source(id, of, source, mode, add).map_err(errno)?;
    Ok(0)
}

/// The membership that a request about sources means: of IPv6 without an interface the first of the group. ENODEV.
fn place(ctx: &Ctx<'_>, request: &Request) -> Result<(IpAddr, Option<Interface>), Errno> {
    let interface = request.interface(ctx)?;
    let any = request.group.is_ipv6() && request.index == 0;
    Ok((request.group, (!any).then_some(interface)))
}

/// `ip_mc_msfilter` and `ip6_mc_msfilter`.
fn set_filter(ctx: &mut Ctx<'_>, file: FileId, request: &Request, mode: u32, sources: Vec<IpAddr>) -> SysResult {
    let mode = match mode {
        _ if !request.group.is_multicast() => return Err(Errno::EINVAL.into()),
        MCAST_INCLUDE => FilterMode::Include,
        MCAST_EXCLUDE => FilterMode::Exclude,
        _ => return Err(Errno::EINVAL.into()),
    };
    let of = place(ctx, request)?;
    if mode == FilterMode::Include && sources.is_empty() {
        // Nobody is heard: the same as leaving.
        return if request.group.is_ipv4() { leave4(ctx, file, request) } else { leave6(ctx, file, request) };
    }
    let id = datagram_socket(ctx, file, Errno::EINVAL)?;
    ctx.kernel.net.stack.set_source_filter(id, of, mode, sources).map_err(errno)?;
    Ok(0)
}

/// getsockopt(2) of IP_MSFILTER (`ip_mc_msfget`): the sources of a membership, as many as the program
/// has said there is room for. EINVAL, EFAULT, ENODEV, EADDRNOTAVAIL.
pub(super) fn get_filter(ctx: &mut Ctx<'_>, file: FileId, place: Place) -> SysResult {
    if place.len < size_of::<IpMsfilter>() {
        return Err(Errno::EINVAL.into());
    }
    let mut filter: IpMsfilter = ctx.process.memory.read_value(place.value)?;
    let group = IpAddr::from(filter.imsf_multiaddr);
    let request = Request { group, index: 0, address: filter.imsf_interface.into() }.checked()?;
    let interface = request.interface(ctx)?;
    let id = ctx.inet(file)?.id;
    let memberships = ctx.kernel.net.stack.memberships(id);
    let own = memberships.iter().find(|own| own.group == group && own.interface == interface);
    let own = own.ok_or(Errno::EADDRNOTAVAIL)?;
    filter.imsf_fmode = if own.mode == FilterMode::Include { MCAST_INCLUDE } else { MCAST_EXCLUDE };
    let room = filter.imsf_numsrc as usize;
    filter.imsf_numsrc = own.sources.len() as u32;
    let mut bytes = filter.as_bytes().to_vec();
    for source in own.sources.iter().take(room) {
        if let IpAddr::V4(source) = source {
            bytes.extend(source.octets());
        }
    }
    place.store_len(&ctx.process.memory, bytes.len())?;
    ctx.process.memory.write(place.value, &bytes)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    #[test]
    fn addresses_of_the_wanted_family_alone_are_taken_from_storage() {
        let mut storage = [0; STORAGE];
        storage[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        storage[4..8].copy_from_slice(&[224, 0, 0, 251]);
        assert_eq!(address_in(&storage, Family::V4), Some(Ipv4Addr::new(224, 0, 0, 251).into()));
        assert_eq!(address_in(&storage, Family::V6), None);
        storage[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
        storage[8..24].copy_from_slice(&Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb).octets());
        let group = address_in(&storage, Family::V6).unwrap();
        assert!(group.is_ipv6() && group.is_multicast());
    }
}
