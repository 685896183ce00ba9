//! Control messages beside a datagram that is sent: what they ask for, and which are refused
//! (`udp_cmsg_send`, `ip_cmsg_send`, `ip6_datagram_send_ctl`, `__sock_cmsg_send`).

use super::device::of_index;
use super::inet::Kind;
use super::message::controls;
use crate::credentials::Credentials;
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_abi::socket::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tcpip::{Ancillary, Family};
use zerocopy::FromBytes;

/// SOF_TIMESTAMPING_TX_RECORD_MASK: which times of a datagram may be asked for.
const TX_RECORD_MASK: u32 = 0x0003 | 0x0300 | 1 << 18;

/// Who sends a datagram, and where to.
pub(super) struct Sender<'a> {
    pub family: Family,
    pub kind: Kind,
    /// The version of IP that the datagram goes by: an IPv6 socket may speak to an IPv4 address.
    pub over: Family,
    pub who: &'a Credentials,
    /// Whether an address is this host's.
    pub is_local: &'a dyn Fn(IpAddr) -> bool,
}

/// What the control messages of one datagram ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Asked {
    pub ancillary: Ancillary,
    /// UDP_SEGMENT.
    pub segment: Option<usize>,
}

fn exact<T: FromBytes>(data: &[u8]) -> Result<T, Errno> {
    T::read_from_bytes(data).map_err(|_| Errno::EINVAL)
}

impl Sender<'_> {
    /// What the messages in `control` ask for. EINVAL, ENODEV, EPERM; messages of other levels
    /// count for nothing.
    pub fn read(&self, control: &[u8]) -> Result<Asked, Errno> {
        let mut asked = Asked::default();
        if self.kind == Kind::Udp {
            // Those of UDP itself are looked at first, all of them.
            for entry in controls(control) {
                match entry? {
                    (SOL_UDP, UDP_SEGMENT, data) => asked.segment = Some(exact::<u16>(data)?.into()),
                    (SOL_UDP, ..) => return Err(Errno::EINVAL),
                    _ => {}
                }
            }
        }
        for entry in controls(control) {
            let (level, kind, data) = entry?;
            match (level, self.over) {
                (SOL_SOCKET, _) => check_socket_level(self.who, kind, data)?,
                (SOL_IP, Family::V4) => self.read_ip(kind, data, &mut asked.ancillary)?,
                (SOL_IPV6, Family::V6) => self.read_ipv6(kind, data, &mut asked.ancillary)?,
                (SOL_IPV6, Family::V4) if kind == IPV6_PKTINFO && self.speaks_mapped() => {
                    let (info, _) = In6Pktinfo::read_from_prefix(data).map_err(|_| Errno::EINVAL)?;
                    let source = Ipv6Addr::from(info.ipi6_addr).to_ipv4_mapped().ok_or(Errno::EINVAL)?;
                    asked.ancillary.set_route(source.into(), of_index(info.ipi6_ifindex)?);
                }
                _ => {}
            }
        }
        asked.segment = asked.segment.filter(|size| *size > 0);
        Ok(asked)
    }

    /// Only UDP has sockets of IPv6 that speak IPv4.
    fn speaks_mapped(&self) -> bool {
        self.family == Family::V6 && self.kind == Kind::Udp
    }

    fn read_ip(&self, kind: i32, data: &[u8], asked: &mut Ancillary) -> Result<(), Errno> {
        let byte = |value: i32, least: i32| match value {
            _ if (least..=255).contains(&value) => Ok(value as u8),
            _ => Err(Errno::EINVAL),
        };
        match kind {
            IP_PKTINFO => {
                let info: InPktinfo = exact(data)?;
                asked.set_route(Ipv4Addr::from(info.ipi_spec_dst).into(), of_index(info.ipi_ifindex)?);
            }
            IP_TTL => asked.hops = Some(byte(exact(data)?, 1)?),
            IP_TOS => {
                let tos = if let [tos] = data { (*tos).into() } else { exact(data)? };
                asked.tos = Some(byte(tos, 0)?);
            }
            // It is said of raw packets whose headers the program writes, which have it in them.
            IP_PROTOCOL => {
                byte(exact(data)?, 1)?;
            }
            // There are no IP options.
            IP_RETOPTS if data.is_empty() => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn read_ipv6(&self, kind: i32, data: &[u8], asked: &mut Ancillary) -> Result<(), Errno> {
        // -1 is what the socket is set to.
        let byte = |data: &[u8]| match exact(data)? {
            -1 => Ok(None),
            value @ 0..=255i32 => Ok(Some(value as u8)),
            _ => Err(Errno::EINVAL),
        };
        match kind {
            IPV6_PKTINFO | IPV6_2292PKTINFO => {
                let (info, _) = In6Pktinfo::read_from_prefix(data).map_err(|_| Errno::EINVAL)?;
                let source = Ipv6Addr::from(info.ipi6_addr);
                if info.ipi6_ifindex != 0 {
                    asked.device = of_index(info.ipi6_ifindex)?;
                }
                if asked.device.is_none() && source.is_unicast_link_local() {
                    return Err(Errno::EINVAL);
                }
                if !source.is_unspecified() {
                    if source.to_ipv4_mapped().is_some() || !(self.is_local)(source.into()) {
                        return Err(Errno::EINVAL);
                    }
                    asked.source = Some(source.into());
                }
            }
            IPV6_HOPLIMIT | IPV6_2292HOPLIMIT => asked.hops = byte(data)?,
            IPV6_TCLASS => asked.tos = byte(data)?,
            IPV6_DONTFRAG => match exact(data)? {
                on @ 0..=1i32 => asked.dont_fragment = Some(on != 0),
                _ => return Err(Errno::EINVAL),
            },
            // Flow labels and extension headers are not simulated; 0 is no label.
            IPV6_FLOWINFO if exact::<[u8; 4]>(data) == Ok([0; 4]) => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }
}

/// What any socket takes beside its data (`__sock_cmsg_send`): marks and priorities, which decide
/// nothing here, and times that nobody is told of. EINVAL, EPERM.
pub(super) fn check_socket_level(who: &Credentials, kind: i32, data: &[u8]) -> Result<(), Errno> {
    const USUAL_PRIORITIES: std::ops::RangeInclusive<i32> = 0..=6;
    let may = who.can(CAP_NET_ADMIN) || who.can(CAP_NET_RAW);
    match kind {
        SO_MARK if !may => Err(Errno::EPERM),
        SO_MARK => exact::<u32>(data).map(drop),
        SO_TIMESTAMPING | SO_TIMESTAMPING_NEW => match exact::<u32>(data)? & !TX_RECORD_MASK {
            0 => Ok(()),
            _ => Err(Errno::EINVAL),
        },
        SO_PRIORITY => match exact::<i32>(data)? {
            usual if USUAL_PRIORITIES.contains(&usual) || may => Ok(()),
            _ => Err(Errno::EPERM),
        },
        // They belong to Unix sockets.
        SCM_RIGHTS | SCM_CREDENTIALS => Ok(()),
        // SO_TXTIME, too, which no socket has.
        _ => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Message, push_control};
    use super::*;
    use tcpip::Interface;
    use zerocopy::IntoBytes;

    fn read(family: Family, over: Family, all: &[(i32, i32, &[u8])]) -> Result<Asked, Errno> {
        let mut message = Message::default();
        all.iter().for_each(|(level, kind, data)| push_control(&mut message, 256, *level, *kind, data));
        let who = Credentials::default();
        let sender = Sender { family, kind: Kind::Udp, over, who: &who, is_local: &|addr| addr.is_loopback() };
        sender.read(&message.control)
    }

    #[test]
    fn each_version_has_its_own_messages() {
        let (tos, class) = ((SOL_IP, IP_TOS, &[2u8][..]), (SOL_IPV6, IPV6_TCLASS, &[3u8, 0, 0, 0][..]));
        let of = |family, over| read(family, over, &[tos, class]).unwrap().ancillary.tos;
        assert_eq!(of(Family::V4, Family::V4), Some(2));
        assert_eq!(of(Family::V6, Family::V6), Some(3));
        assert_eq!(of(Family::V6, Family::V4), Some(2));
    }

    #[test]
    fn sizes_and_bounds_are_linuxs() {
        let v4 = |kind, data: &[u8]| read(Family::V4, Family::V4, &[(SOL_IP, kind, data)]).map(|_| ());
        assert_eq!(v4(IP_TTL, &0i32.to_ne_bytes()), Err(Errno::EINVAL));
        assert_eq!(v4(IP_TOS, &256i32.to_ne_bytes()), Err(Errno::EINVAL));
        assert_eq!(v4(IP_PKTINFO, &[0; 11]), Err(Errno::EINVAL));
        assert_eq!(v4(IP_PKTINFO, InPktinfo { ipi_ifindex: 9, ..InPktinfo::default() }.as_bytes()), Err(Errno::ENODEV));
        assert_eq!(v4(99, &[]), Err(Errno::EINVAL));
        let v6 = |kind, data: &[u8]| read(Family::V6, Family::V6, &[(SOL_IPV6, kind, data)]);
        assert_eq!(v6(IPV6_TCLASS, &(-1i32).to_ne_bytes()), Ok(Asked::default()));
        assert_eq!(v6(IPV6_HOPLIMIT, &256i32.to_ne_bytes()), Err(Errno::EINVAL));
        let mut foreign = In6Pktinfo::default();
        foreign.ipi6_addr[0] = 0xfd;
        assert_eq!(v6(IPV6_PKTINFO, foreign.as_bytes()), Err(Errno::EINVAL));
    }

    #[test]
    fn segments_are_udps_and_other_levels_count_for_nothing() {
        let size = 1200u16.to_ne_bytes();
        let asked = read(Family::V4, Family::V4, &[(SOL_UDP, UDP_SEGMENT, &size), (999, 1, &[])]);
        assert_eq!(asked, Ok(Asked { segment: Some(1200), ancillary: Ancillary::NONE }));
        assert_eq!(read(Family::V4, Family::V4, &[(SOL_UDP, 1, &size)]), Err(Errno::EINVAL));
    }

    #[test]
    fn an_ipv6_socket_names_an_ipv4_source_in_its_own_words() {
        let mapped = In6Pktinfo { ipi6_addr: Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets(), ipi6_ifindex: 1 };
        let asked = read(Family::V6, Family::V4, &[(SOL_IPV6, IPV6_PKTINFO, mapped.as_bytes())]).unwrap();
        assert_eq!(asked.ancillary.source, Some(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(asked.ancillary.device, Some(Interface::Loopback));
    }
}
