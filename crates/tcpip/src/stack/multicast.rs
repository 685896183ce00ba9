//! What goes to many: broadcasts, and multicast on one link. Which interface and source a datagram to them has, who on the host hears
//! it, and the calls by which sockets join groups.

use super::{Kind, Stack};
use crate::addr::{Endpoint, Family, Interface};
use crate::error::SocketError;
use crate::multicast::{FilterMode, Group, Membership, Multicast, Which};
use crate::packet::{Packet, Transport};
use crate::socket::SocketId;
use crate::wire::icmp;
use base::SimTime;
use std::net::{IpAddr, SocketAddr};

/// The scopes of IPv6 that do not leave a host (RFC 4291 section 2.7): reserved, and interface-local.
const NODE_LOCAL: u8 = 1;

impl Stack {
    /// Changes how a datagram socket sends to groups and hears them.
    pub fn set_multicast(&mut self, id: SocketId, change: impl FnOnce(&mut Multicast)) -> Result<(), SocketError> {
        change(self.udp(id)?.multicast_mut());
        Ok(())
    }

    /// Joins a group. `AddressInUse`, `NoBufferSpace`; `NotSupported` for streams.
    pub fn join_group(&mut self, id: SocketId, new: Membership) -> Result<(), SocketError> {
        let (interface, group) = (new.interface, new.group);
        self.udp(id)?.multicast_mut().join(new)?;
        self.groups.add(interface, group);
        Ok(())
    }

    /// Leaves a group. `AddressNotAvailable`.
    pub fn leave_group(&mut self, id: SocketId, group: IpAddr, which: Which) -> Result<(), SocketError> {
        let left = self.udp(id)?.multicast_mut().leave(group, which)?;
        self.groups.remove(left.interface, left.group);
        Ok(())
    }

    /// Adds a source to those of a membership, or takes it away; without the last one that alone was heard, the group is left.
    /// `InvalidArgument`, `AddressNotAvailable`, `NoBufferSpace`.
    pub fn change_source(
        &mut self,
        id: SocketId,
        of: (IpAddr, Option<Interface>),
        source: IpAddr,
        mode: FilterMode,
        add: bool,
    ) -> Result<(), SocketError> {
        let ends = self.udp(id)?.multicast_mut().change_source(of, source, mode, add)?;
        if ends { self.leave_group(id, of.0, of.1.map_or(Which::Any, Which::On)) } else { Ok(()) }
    }

    /// Replaces mode and sources of a membership. `InvalidArgument`, `NoBufferSpace`.
    pub fn set_source_filter(
        &mut self,
        id: SocketId,
        of: (IpAddr, Option<Interface>),
        mode: FilterMode,
        sources: Vec<IpAddr>,
    ) -> Result<(), SocketError> {
        self.udp(id)?.multicast_mut().set_source_filter(of, mode, sources)
    }

    /// A socket's memberships, in the order in which it has joined.
    pub fn memberships(&mut self, id: SocketId) -> &[Membership] {
        let multicast = self.udp(id).ok().and_then(|socket| socket.multicast.as_deref());
        multicast.map_or(&[], |multicast| &multicast.memberships)
    }

    /// The groups that an interface listens to, the latest first (`/proc/net/igmp`).
    pub fn groups(&self, interface: Interface, family: Family) -> Vec<Group> {
        self.groups.list(interface, family)
    }

    /// A socket is gone, and with it its memberships.
    pub(super) fn leave_all_groups(&mut self, multicast: &Multicast) {
        for own in &multicast.memberships {
            self.groups.remove(own.interface, own.group);
        }
    }

    /// The interface that packets to a group leave by where no socket says one: that of the default route.
    pub fn interface_of_groups(&self, family: Family) -> Option<Interface> {
        self.config.address_of(family).map(|_| Interface::Ethernet)
    }

    /// Interface and source address of a datagram to everybody, or to a group (`udp_sendmsg`, `ip_route_output_key_hash_rcu`) from
    /// `local`, where it is an address of the host: by `device`, else as the socket was told, else by the interface that has the source,
    /// else by that of the default route. `NetworkUnreachable`; `InvalidArgument` for a loopback source that would leave the host.
    pub(super) fn route_to_many(
        &mut self,
        id: SocketId,
        local: IpAddr,
        to: IpAddr,
        device: Option<Interface>,
    ) -> Result<(Interface, IpAddr), SocketError> {
        let family = Family::of(to);
        let is_limited = matches!(to, IpAddr::V4(v4) if v4.is_broadcast());
        if !to.is_multicast() && !is_limited {
            return self.route_from(local, to, device);
        }
        let told = self.udp(id)?.multicast.as_deref().filter(|_| to.is_multicast());
        let named = told.and_then(|own| own.source).map(IpAddr::V4).filter(|_| to.is_ipv4());
        let device = device.or(told.and_then(|own| own.via[family as usize]));
        let has_source = !local.is_unspecified() && !self.config.is_for_many(local) && Family::of(local) == family;
        let source = if has_source { Some(local) } else { named };
        let of_source = source.filter(|_| to.is_ipv4()).map(|source| match source.is_loopback() {
            true => Interface::Loopback,
            false => Interface::Ethernet,
        });
        let interface = device.or(of_source).unwrap_or(Interface::Ethernet);
        if (interface, family) == (Interface::Loopback, Family::V6) {
            // No route to groups leads there.
            return Err(SocketError::NetworkUnreachable);
        }
        // The address of the loopback interface is for this host alone: what goes to many has another one there, too
        // (`inet_select_addr`).
        let default = self.config.address_of(family).ok_or(SocketError::NetworkUnreachable)?;
        match source {
            Some(source) if source.is_loopback() && interface == Interface::Ethernet => {
                Err(SocketError::InvalidArgument)
            }
            Some(source) => Ok((interface, source)),
            None => Ok((interface, default)),
        }
    }

    /// Sends a datagram to many by `eth0`: the host is on the link, too (`ip_mc_output`, `ip6_finish_output2`). Whether it goes on the
    /// link.
    pub(super) fn loop_back(&mut self, id: SocketId, packet: &Packet) -> bool {
        let group = packet.ip.dst;
        if !group.is_multicast() {
            self.push_copy(packet.clone());
            return true;
        }
        let loops = self.udp(id).map_or(true, |socket| {
            let family = socket.settings.family as usize;
            socket.multicast.as_ref().is_none_or(|own| own.loops[family])
        });
        if loops && self.groups.contains(Interface::Ethernet, group) {
            self.push_copy(packet.clone());
        }
        let stays = matches!(group, IpAddr::V6(v6) if v6.octets()[1] & 0xf <= NODE_LOCAL);
        packet.ip.ttl > 0 && !stays
    }

    /// Queues what this host hears of a packet that leaves by `eth0`.
    fn push_copy(&mut self, packet: Packet) {
        self.copying = true;
        self.push_packet(Interface::Loopback, packet, None);
        self.copying = false;
        self.copies.extend(self.loopback.back().map(|packet| packet.number));
    }

    /// Whether a packet that came by `eth0` and has no address of this host is for it all the same.
    pub(super) fn is_for_this_host_too(&self, packet: &Packet) -> bool {
        let to = packet.ip.dst;
        self.config.is_link_broadcast(to) || (to.is_multicast() && self.groups.contains(Interface::Ethernet, to))
    }

    /// A datagram to everybody or to a group: each socket that it fits has a copy (`__udp4_lib_mcast_deliver`). Nothing else is heard,
    /// and nothing is answered but echo requests of IPv6.
    pub(super) fn deliver_to_many(&mut self, now: SimTime, packet: Packet, by: Interface) {
        if packet.ip.dst.is_multicast() && !self.groups.contains(by, packet.ip.dst) {
            return;
        }
        let header = match packet.transport {
            Transport::Udp(header) => header,
            Transport::Icmp6(header) if header.kind == icmp::v6::ECHO_REQUEST => {
                return self.answer_group(now, packet, by);
            }
            _ => return,
        };
        let from = Endpoint::new(packet.ip.src, header.src_port);
        let to = Endpoint::new(packet.ip.dst, header.dst_port);
        let fits = |index: &u32| match &self.slots[*index as usize].kind {
            Kind::Udp(socket) => socket.score(to, from).is_some() && socket.hears(to.addr, from.addr, by),
            _ => false,
        };
        let all: Vec<u32> = self.udp_ports.bound(to.port, to.addr).filter(fits).collect();
        for index in all {
            let Some(packet) = self.filtered(index, packet.clone(), by) else { continue };
            self.hand_over(index, super::deliver::datagram(now, packet, from, to, by));
        }
    }

    /// An echo request to a group is answered from the host's own address (`icmpv6_echo_reply`).
    fn answer_group(&mut self, now: SimTime, mut packet: Packet, by: Interface) {
        let own = match by {
            Interface::Loopback => Some(Family::V6.localhost()),
            Interface::Ethernet => self.config.address_of(Family::V6),
        };
        let (Some(own), Transport::Icmp6(header)) = (own, packet.transport.clone()) else { return };
        packet.ip.dst = own;
        self.deliver_icmp6(now, &packet, header);
    }
}

/// The interface that an address of IPv6 names by its scope.
pub(super) fn scope_of(to: Option<SocketAddr>) -> Option<Interface> {
    match to {
        Some(SocketAddr::V6(v6)) => Interface::of_index(v6.scope_id()),
        _ => None,
    }
}
