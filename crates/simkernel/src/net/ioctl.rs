//! ioctl on sockets: queue lengths (tcp(7), udp(7)) and interfaces (netdevice(7)).

use super::errno;
use super::interfaces::{Interface, interfaces};
use crate::ctx::Ctx;
use crate::files::FileKind;
use crate::ids::FileId;
use crate::outcome::SysResult;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::ioctl::*;
use linux_abi::sockaddr::SockaddrIn;
use linux_abi::socket::AF_INET;
use std::net::{Ipv4Addr, SocketAddrV4};
use zerocopy::IntoBytes;

/// An ioctl on a socket of any family. ENOTTY for requests that no socket has.
pub fn ioctl(ctx: &mut Ctx<'_>, file: FileId, request: u32, argument: u64) -> SysResult {
    match request {
        SIOCINQ | SIOCOUTQ | SIOCOUTQNSD | SIOCATMARK => {
            let value = queue_length(ctx, file, request)?;
            ctx.process.memory.write_value(argument, &value)?;
            Ok(0)
        }
        SIOCGSTAMP | SIOCGSTAMPNS if matches!(ctx.kernel.files[file].kind, FileKind::Inet(_)) => {
            let (now, start) = (ctx.now, ctx.kernel.config.clock);
            let nanos = start.unix_nanos(ctx.inet_mut(file)?.stamp.get(now)?);
            let (secs, rest) = ((nanos / 1_000_000_000) as i64, (nanos % 1_000_000_000) as i64);
            let rest = if request == SIOCGSTAMP { rest / 1000 } else { rest };
            ctx.process.memory.write_value(argument, &[secs, rest])?;
            Ok(0)
        }
        FIOSETOWN | SIOCSPGRP => {
            let number = ctx.process.memory.read_value(argument)?;
            ctx.kernel.files[file].signals.recipient = ctx.recipient_of_number(number)?;
            Ok(0)
        }
        FIOGETOWN | SIOCGPGRP => {
            let number = ctx.kernel.files[file].signals.recipient.number();
            ctx.process.memory.write_value(argument, &number)?;
            Ok(0)
        }
        SIOCGIFCONF => list(&ctx.process.memory, argument, &interfaces(ctx.kernel.config.addresses)),
        SIOCSIFFLAGS | SIOCSIFADDR | SIOCSIFMTU | SIOCADDRT | SIOCDELRT => Err(Errno::EPERM.into()),
        SIOCGARP | SIOCSARP | SIOCDARP if is_of_ipv4(ctx, file) => find_neighbour(ctx, request, argument),
        SIOCETHTOOL => Err(Errno::EOPNOTSUPP.into()),
        _ => {
            let Some(query) = query(request) else { return Err(Errno::ENOTTY.into()) };
            let mut ifreq: Ifreq = ctx.process.memory.read_value(argument)?;
            query(&mut ifreq, &interfaces(ctx.kernel.config.addresses))?;
            ctx.process.memory.write_value(argument, &ifreq)?;
            Ok(0)
        }
    }
}

fn is_of_ipv4(ctx: &Ctx<'_>, file: FileId) -> bool {
    matches!(&ctx.kernel.files[file].kind, FileKind::Inet(socket) if socket.family == tcpip::Family::V4)
}

/// arp(7): nobody has neighbours, as no link has addresses of its own to be asked for.
/// EPFNOSUPPORT, ENODEV, ENXIO; EPERM for changes.
fn find_neighbour(ctx: &Ctx<'_>, request: u32, argument: u64) -> SysResult {
    /// Where the interface's name lies in `struct arpreq`.
    const NAME: usize = 52;
    if request != SIOCGARP {
        return Err(Errno::EPERM.into());
    }
    let asked: [u8; NAME + IFNAMSIZ] = ctx.process.memory.read_value(argument)?;
    if i32::from(u16::from_ne_bytes([asked[0], asked[1]])) != AF_INET {
        return Err(Errno::EPFNOSUPPORT.into());
    }
    let name = asked[NAME..].split(|byte| *byte == 0).next().unwrap_or_default();
    let all = interfaces(ctx.kernel.config.addresses);
    let is_known = all.iter().any(|interface| interface.name.as_bytes() == name);
    Err(if is_known { Errno::ENXIO } else { Errno::ENODEV }.into())
}

fn queue_length(ctx: &mut Ctx<'_>, file: FileId, request: u32) -> Result<i32, Errno> {
    let socket = match &ctx.kernel.files[file].kind {
        FileKind::Inet(socket) => socket,
        FileKind::Unix(id) => return ctx.kernel.unix_queue_length(*id, request),
        _ => return Err(Errno::ENOTTY),
    };
    let (id, is_stream) = (socket.id, socket.is_stream);
    let stack = &mut ctx.kernel.net.stack;
    if request != SIOCATMARK && stack.is_listening(id) {
        return Err(Errno::EINVAL);
    }
    let bytes = match request {
        SIOCINQ => stack.readable_bytes(id),
        SIOCOUTQ => stack.unsent_and_unacknowledged(id),
        SIOCOUTQNSD if is_stream => stack.unsent(id),
        // No urgent data ever comes.
        SIOCATMARK if is_stream => stack.tcp_info(ctx.now, id).map(|_| 0).map_err(errno)?,
        _ => return Err(Errno::ENOTTY),
    };
    Ok(i32::try_from(bytes).unwrap_or(i32::MAX))
}

/// SIOCGIFCONF: as many whole entries as fit; without a buffer, the room that all need.
fn list(memory: &AddressSpace, argument: u64, all: &[Interface]) -> SysResult {
    let mut conf: Ifconf = memory.read_value(argument)?;
    let entry = size_of::<Ifreq>();
    if conf.ifc_buf == 0 {
        conf.ifc_len = (all.len() * entry) as i32;
    } else {
        let room = usize::try_from(conf.ifc_len).unwrap_or(0) / entry;
        let entries: Vec<Ifreq> = all.iter().take(room).map(entry_of).collect();
        memory.write(conf.ifc_buf, entries.as_bytes())?;
        conf.ifc_len = (entries.len() * entry) as i32;
    }
    memory.write_value(argument, &conf)?;
    Ok(0)
}

fn entry_of(interface: &Interface) -> Ifreq {
    let mut ifreq = Ifreq::default();
    set_name(&mut ifreq, interface);
    set_address(&mut ifreq, interface.address);
    ifreq
}

fn set_name(ifreq: &mut Ifreq, interface: &Interface) {
    ifreq.ifr_name = [0; IFNAMSIZ];
    ifreq.ifr_name[..interface.name.len()].copy_from_slice(interface.name.as_bytes());
}

fn set(ifreq: &mut Ifreq, bytes: &[u8]) {
    ifreq.ifr_data[..bytes.len()].copy_from_slice(bytes);
}

fn set_address(ifreq: &mut Ifreq, address: Ipv4Addr) {
    set(ifreq, SockaddrIn::from(SocketAddrV4::new(address, 0)).as_bytes());
}

type Query = fn(&mut Ifreq, &[Interface]) -> Result<(), Errno>;

/// What answers a request about one interface.
fn query(request: u32) -> Option<Query> {
    let query: Query = match request {
        SIOCGIFNAME => |ifreq, all| {
            let wanted = i32::from_ne_bytes(*ifreq.ifr_data.first_chunk().ok_or(Errno::EFAULT)?);
            let found = all.iter().find(|interface| interface.index == wanted).ok_or(Errno::ENODEV)?;
            set_name(ifreq, found);
            Ok(())
        },
        SIOCGIFINDEX => |ifreq, all| named(ifreq, all).map(|i| set(ifreq, &i.index.to_ne_bytes())),
        SIOCGIFFLAGS => |ifreq, all| named(ifreq, all).map(|i| set(ifreq, &(i.flags as u16).to_ne_bytes())),
        SIOCGIFADDR | SIOCGIFDSTADDR => |ifreq, all| named(ifreq, all).map(|i| set_address(ifreq, i.address)),
        SIOCGIFBRDADDR => {
            |ifreq, all| named(ifreq, all).map(|i| set_address(ifreq, i.broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED)))
        }
        SIOCGIFNETMASK => |ifreq, all| named(ifreq, all).map(|i| set_address(ifreq, i.netmask())),
        SIOCGIFMTU => |ifreq, all| named(ifreq, all).map(|i| set(ifreq, &i.mtu.to_ne_bytes())),
        SIOCGIFMETRIC => |ifreq, all| named(ifreq, all).map(|_| set(ifreq, &0i32.to_ne_bytes())),
        SIOCGIFTXQLEN => |ifreq, all| named(ifreq, all).map(|i| set(ifreq, &i.queue_len.to_ne_bytes())),
        SIOCGIFHWADDR => |ifreq, all| {
            named(ifreq, all).map(|i| {
                set(ifreq, &[0; 16]);
                set(ifreq, &i.hardware.to_ne_bytes());
                ifreq.ifr_data[2..8].copy_from_slice(&i.mac);
            })
        },
        _ => return None,
    };
    Some(query)
}

/// The interface that a request names; an alias (`eth0:1`) names its interface. ENODEV.
fn named(ifreq: &Ifreq, all: &[Interface]) -> Result<Interface, Errno> {
    let end = ifreq.ifr_name.iter().position(|&byte| byte == 0 || byte == b':').unwrap_or(IFNAMSIZ);
    let name = &ifreq.ifr_name[..end];
    all.iter().find(|interface| interface.name.as_bytes() == name).copied().ok_or(Errno::ENODEV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_machine::addresses_of;

    fn ask(request: u32, name: &str) -> Result<[u8; 24], Errno> {
        let mut ifreq = Ifreq::default();
        ifreq.ifr_name[..name.len()].copy_from_slice(name.as_bytes());
        query(request).unwrap()(&mut ifreq, &interfaces(addresses_of(Ipv4Addr::new(11, 0, 0, 5))))?;
        Ok(ifreq.ifr_data)
    }

    #[test]
    fn requests_about_interfaces_are_answered() {
        assert_eq!(ask(SIOCGIFINDEX, "eth0").unwrap()[..4], 2i32.to_ne_bytes());
        assert_eq!(ask(SIOCGIFADDR, "eth0").unwrap()[..8], [2, 0, 0, 0, 11, 0, 0, 5]);
        assert_eq!(ask(SIOCGIFADDR, "eth0:1").unwrap()[4..8], [11, 0, 0, 5]);
        assert_eq!(ask(SIOCGIFNETMASK, "lo").unwrap()[4..8], [255, 0, 0, 0]);
        assert_eq!(ask(SIOCGIFMTU, "lo").unwrap()[..4], 65_536i32.to_ne_bytes());
        assert_eq!(ask(SIOCGIFHWADDR, "eth0").unwrap()[..8], [1, 0, 2, 0, 11, 0, 0, 5]);
        assert_eq!(ask(SIOCGIFFLAGS, "lo").unwrap()[..2], 0x49u16.to_ne_bytes());
        assert_eq!(ask(SIOCGIFMTU, "eth1"), Err(Errno::ENODEV));
    }

    #[test]
    fn indices_have_names() {
        let mut ifreq = Ifreq::default();
        ifreq.ifr_data[0] = 1;
        let all = interfaces(addresses_of(Ipv4Addr::LOCALHOST));
        assert_eq!(query(SIOCGIFNAME).unwrap()(&mut ifreq, &all), Ok(()));
        assert_eq!(&ifreq.ifr_name[..3], b"lo\0");
        ifreq.ifr_data[0] = 9;
        assert_eq!(query(SIOCGIFNAME).unwrap()(&mut ifreq, &all), Err(Errno::ENODEV));
        assert!(query(0x1234).is_none());
    }

    #[test]
    fn entries_of_the_list_hold_name_and_address() {
        let entry = entry_of(&interfaces(addresses_of(Ipv4Addr::new(11, 0, 0, 5)))[1]);
        assert_eq!(&entry.ifr_name[..5], b"eth0\0");
        assert_eq!(entry.ifr_data[..8], [2, 0, 0, 0, 11, 0, 0, 5]);
    }
}
