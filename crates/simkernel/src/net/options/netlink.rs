//! getsockopt and setsockopt of netlink sockets: level SOL_NETLINK (netlink(7)), and what is
//! particular of them at SOL_SOCKET.

use super::common::{self, Holder, Request};
use super::local::{Setter, Settings};
use super::value::{Answer, Place, number, read_len, read_number};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::filter;
use crate::net::listing::inode;
use crate::net::netlink::{self, demand_listening};
use crate::outcome::SysResult;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_BROADCAST;
use linux_abi::net::*;
use linux_abi::socket::*;
use zerocopy::IntoBytes;

/// Flags of SOL_NETLINK. NETLINK_BROADCAST_ERROR, NETLINK_LISTEN_ALL_NSID, NETLINK_EXT_ACK and NETLINK_GET_STRICT_CHK change nothing
/// here: no broadcast of the kernel's fails, there is one namespace, and answers explain nothing.
const NETLINK_FLAGS: [i32; 7] = [
    NETLINK_PKTINFO,
    NETLINK_BROADCAST_ERROR,
    NETLINK_NO_ENOBUFS,
    NETLINK_LISTEN_ALL_NSID,
    NETLINK_CAP_ACK,
    NETLINK_EXT_ACK,
    NETLINK_GET_STRICT_CHK,
];

/// What a netlink socket is set to.
#[derive(Debug, Default)]
pub struct Options {
    pub(in crate::net) settings: Settings,
}

impl Options {
    /// NETLINK_CAP_ACK.
    pub(in crate::net) fn caps_errors(&self) -> bool {
        self.settings.has(SOL_NETLINK, NETLINK_CAP_ACK)
    }

    /// NETLINK_NO_ENOBUFS.
    pub(in crate::net) fn hides_overruns(&self) -> bool {
        self.settings.has(SOL_NETLINK, NETLINK_NO_ENOBUFS)
    }

    /// NETLINK_PKTINFO.
    pub(in crate::net) fn tells_group(&self) -> bool {
        self.settings.has(SOL_NETLINK, NETLINK_PKTINFO)
    }

    /// SO_PASSCRED.
    pub(in crate::net) fn tells_sender(&self) -> bool {
        self.settings.has(SOL_SOCKET, SO_PASSCRED)
    }
}

/// setsockopt(2).
pub fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    match level {
        SOL_SOCKET => set_of_socket(ctx, file, option, value, len),
        SOL_NETLINK => {
            // `netlink_setsockopt` takes less than a number as 0.
            let number: i32 = if len < 4 { 0 } else { ctx.process.memory.read_value(value)? };
            set_of_netlink(ctx, file, option, number)
        }
        _ => Err(Errno::ENOPROTOOPT.into()),
    }
}

fn set_of_netlink(ctx: &mut Ctx<'_>, file: FileId, option: i32, number: i32) -> SysResult {
    if option == NETLINK_LISTEN_ALL_NSID && !ctx.credentials().can(CAP_NET_BROADCAST) {
        return Err(Errno::EPERM.into());
    }
    let who = ctx.thread.credentials.clone();
    let socket = ctx.kernel.netlink(file)?;
    match option {
        NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP => {
            demand_listening(&who, socket.protocol, 0)?;
            socket.lists_groups = true;
            let group = u32::try_from(number).ok().filter(|group| (1..=socket.group_count()).contains(group));
            let bit = 1 << (group.ok_or(Errno::EINVAL)? - 1);
            if option == NETLINK_ADD_MEMBERSHIP {
                demand_listening(&who, socket.protocol, bit)?;
                socket.groups |= bit;
            } else {
                socket.groups &= !bit;
            }
        }
        flag if NETLINK_FLAGS.contains(&flag) => {
            socket.options.settings.kept.set(SOL_NETLINK, flag, i32::from(number != 0));
        }
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}

fn set_of_socket(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> SysResult {
    let who = ctx.thread.credentials.clone();
    if option == SO_BINDTODEVICE {
        let index = common::read_device(&ctx.process.memory, value, len)?;
        ctx.kernel.netlink(file)?.options.settings.bind_to_device(&who, index)?;
        return Ok(0);
    }
    let number = read_number(&ctx.process.memory, value, len)?;
    match option {
        // Filters judge no message of the kernel's.
        SO_ATTACH_FILTER => {
            filter::SocketFilter::read(&ctx.process.memory, value, len)?;
            return Err(Errno::ENOPROTOOPT.into());
        }
        SO_DETACH_FILTER => return Err(Errno::ENOENT.into()),
        _ => {}
    }
    let request = Request { option, number, value, len };
    let is_descriptor = ctx.file(number as u64).is_ok();
    let config = ctx.kernel.net.stack.config();
    let buffer_limits = (config.send_argument_max, config.recv_argument_max);
    let by = Setter { who: &who, memory: &ctx.process.memory, buffer_limits, is_descriptor };
    ctx.kernel.netlink(file)?.options.settings.set(&by, Holder::Netlink, request)?;
    Ok(0)
}

/// getsockopt(2).
pub fn get(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len_address: u64) -> SysResult {
    if !matches!(level, SOL_SOCKET | SOL_NETLINK) {
        return Err(Errno::ENOPROTOOPT.into());
    }
    let len = read_len(&ctx.process.memory, len_address)?;
    let place = Place { value, len_address, len };
    let socket = ctx.kernel.netlink(file)?;
    let options = &socket.options;
    let answer = match (level, option) {
        (SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS) => {
            // As many words as there are, and how long all of them are.
            let count = if socket.lists_groups { socket.group_count() } else { 0 };
            let words = count.div_ceil(u32::BITS) as usize;
            let (groups, whole) = (socket.groups.to_ne_bytes(), words * 4);
            ctx.process.memory.write(value, &groups[..whole.min(len / 4 * 4)])?;
            return place.store_len(&ctx.process.memory, whole);
        }
        (SOL_NETLINK, flag) if NETLINK_FLAGS.contains(&flag) => {
            if len < 4 {
                return Err(Errno::EINVAL.into());
            }
            number(options.settings.has(level, flag).into())
        }
        (SOL_NETLINK, _) => return Err(Errno::ENOPROTOOPT.into()),
        (_, SO_ATTACH_FILTER) => return filter::get(&ctx.process.memory, None, place),
        (_, SO_BINDTODEVICE) => {
            let device = options.settings.device();
            return common::show_device(&ctx.process.memory, place, device);
        }
        (_, SO_TYPE) => number(socket.kind),
        (_, SO_DOMAIN) => number(AF_NETLINK),
        (_, SO_PROTOCOL) => number(socket.protocol),
        (_, SO_ACCEPTCONN) => number(0),
        (_, SO_PEERCRED) => Answer::from_slice(Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }.as_bytes()),
        (_, SO_PEERGROUPS | SO_PEERPIDFD) => return Err(Errno::ENODATA.into()),
        (_, SO_PEERNAME) => {
            let name = netlink::peer_name(ctx, file)?;
            common::show_name(&name, len)?
        }
        (_, SO_COOKIE) => common::show_cookie(inode(file), len)?,
        (_, SO_MEMINFO) => options.settings.show_memory(socket.waiting_bytes(), 0),
        (_, SO_ERROR) => number(socket.error.take().map_or(0, Errno::raw)),
        _ => options.settings.show(Holder::Netlink, option, len)?,
    };
    match level {
        SOL_SOCKET => place.store(&ctx.process.memory, &answer),
        _ => place.store_len_first(&ctx.process.memory, &answer),
    }
}
