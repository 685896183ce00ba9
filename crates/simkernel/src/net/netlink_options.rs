//! getsockopt and setsockopt of netlink sockets: those of all sockets, and of level SOL_NETLINK.

use super::netlink::demand_listening;
use super::options::{Kept, demand_rights, read_timeout, timeval, write_answer};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::listing::inode;
use crate::outcome::SysResult;
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::capability::CAP_NET_BROADCAST;
use linux_abi::net::*;
use linux_abi::socket::*;
use zerocopy::IntoBytes;

/// net.core.wmem_default and rmem_default.
const DEFAULT_BUFFER: usize = 212_992;
/// SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF.
const MIN_SEND: usize = 4608;
const MIN_RECV: usize = 2304;

/// Flags of the socket level that are kept and have no effect, but for SO_PASSCRED.
const FLAGS: [i32; 18] = [
    SO_PASSCRED,
    SO_PASSSEC,
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_KEEPALIVE,
    SO_BROADCAST,
    SO_OOBINLINE,
    SO_DEBUG,
    SO_DONTROUTE,
    SO_TIMESTAMP,
    SO_TIMESTAMPNS,
    SO_NO_CHECK,
    SO_RXQ_OVFL,
    SO_WIFI_STATUS,
    SO_NOFCS,
    SO_LOCK_FILTER,
    SO_SELECT_ERR_QUEUE,
    SO_RCVMARK,
];

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
#[derive(Debug)]
pub struct Options {
    pub(super) send_buffer: usize,
    pub(super) recv_buffer: usize,
    pub(super) send_timeout: Option<SimDuration>,
    pub(super) recv_timeout: Option<SimDuration>,
    kept: Kept,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            send_buffer: DEFAULT_BUFFER,
            recv_buffer: DEFAULT_BUFFER,
            send_timeout: None,
            recv_timeout: None,
            kept: Kept::default(),
        }
    }
}

impl Options {
    fn has(&self, level: i32, option: i32) -> bool {
        self.kept.get(level, option) == Some(1)
    }

    /// NETLINK_CAP_ACK.
    pub(super) fn caps_errors(&self) -> bool {
        self.has(SOL_NETLINK, NETLINK_CAP_ACK)
    }

    /// NETLINK_NO_ENOBUFS.
    pub(super) fn hides_overruns(&self) -> bool {
        self.has(SOL_NETLINK, NETLINK_NO_ENOBUFS)
    }

    /// NETLINK_PKTINFO.
    pub(super) fn tells_group(&self) -> bool {
        self.has(SOL_NETLINK, NETLINK_PKTINFO)
    }

    /// SO_PASSCRED.
    pub(super) fn tells_sender(&self) -> bool {
        self.has(SOL_SOCKET, SO_PASSCRED)
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
            socket.options.kept.set(SOL_NETLINK, flag, i32::from(number != 0));
        }
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}

fn set_of_socket(ctx: &mut Ctx<'_>, file: FileId, option: i32, value: u64, len: usize) -> SysResult {
    match option {
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.kernel.netlink(file)?.options.recv_timeout = timeout;
            return Ok(0);
        }
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.kernel.netlink(file)?.options.send_timeout = timeout;
            return Ok(0);
        }
        _ if len < 4 => return Err(Errno::EINVAL.into()),
        _ => {}
    }
    let number: i32 = ctx.process.memory.read_value(value)?;
    demand_rights(ctx.credentials(), option, number)?;
    let limits = ctx.kernel.net.stack.config();
    let most = match option {
        SO_SNDBUF => limits.send_argument_max,
        SO_RCVBUF => limits.recv_argument_max,
        _ => i32::MAX as u32 / 2,
    };
    let doubled = (number as u32).min(most) as usize * 2;
    let options = &mut ctx.kernel.netlink(file)?.options;
    match option {
        SO_SNDBUF | SO_SNDBUFFORCE => options.send_buffer = doubled.max(MIN_SEND),
        SO_RCVBUF | SO_RCVBUFFORCE => options.recv_buffer = doubled.max(MIN_RECV),
        SO_BSDCOMPAT | SO_CNX_ADVICE => {}
        SO_PASSPIDFD => return Err(Errno::EOPNOTSUPP.into()),
        SO_REUSEPORT if number != 0 => return Err(Errno::EOPNOTSUPP.into()),
        SO_PRIORITY | SO_MARK => options.kept.set(SOL_SOCKET, option, number),
        flag if FLAGS.contains(&flag) => options.kept.set(SOL_SOCKET, flag, i32::from(number != 0)),
        _ => return Err(Errno::ENOPROTOOPT.into()),
    }
    Ok(0)
}

/// getsockopt(2).
pub fn get(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len_address: u64) -> SysResult {
    if !matches!(level, SOL_SOCKET | SOL_NETLINK) {
        return Err(Errno::ENOPROTOOPT.into());
    }
    let len: i32 = ctx.process.memory.read_value(len_address)?;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    let socket = ctx.kernel.netlink(file)?;
    let options = &socket.options;
    let answer: Vec<u8> = match (level, option) {
        (SOL_NETLINK, NETLINK_LIST_MEMBERSHIPS) => {
            // As many words as there are, and how long all of them are.
            let count = if socket.lists_groups { socket.group_count() } else { 0 };
            let words = count.div_ceil(u32::BITS) as usize;
            let (groups, whole) = (socket.groups.to_ne_bytes(), words * 4);
            ctx.process.memory.write(value, &groups[..whole.min(len / 4 * 4)])?;
            ctx.process.memory.write_value(len_address, &(whole as i32))?;
            return Ok(0);
        }
        (SOL_NETLINK, flag) if NETLINK_FLAGS.contains(&flag) => {
            if len < 4 {
                return Err(Errno::EINVAL.into());
            }
            number(options.has(level, flag).into())
        }
        (SOL_SOCKET, SO_RCVTIMEO | SO_RCVTIMEO_NEW) => timeval(options.recv_timeout).to_vec(),
        (SOL_SOCKET, SO_SNDTIMEO | SO_SNDTIMEO_NEW) => timeval(options.send_timeout).to_vec(),
        (SOL_SOCKET, SO_LINGER) => Linger::default().as_bytes().to_vec(),
        (SOL_SOCKET, SO_PEERCRED) => Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }.as_bytes().to_vec(),
        // Nobody sends a process along.
        (SOL_SOCKET, SO_PASSPIDFD) => return Err(Errno::EOPNOTSUPP.into()),
        (SOL_SOCKET, SO_PEERGROUPS | SO_PEERPIDFD) => return Err(Errno::ENODATA.into()),
        (SOL_SOCKET, SO_COOKIE) => inode(file).to_ne_bytes().to_vec(),
        (SOL_SOCKET, SO_ERROR) => number(ctx.kernel.netlink(file)?.error.take().map_or(0, Errno::raw)),
        (SOL_SOCKET, _) => number(match option {
            SO_TYPE => socket.kind,
            SO_DOMAIN => AF_NETLINK,
            SO_PROTOCOL => socket.protocol,
            SO_SNDBUF => options.send_buffer as i32,
            SO_RCVBUF => options.recv_buffer as i32,
            SO_RCVLOWAT | SO_SNDLOWAT => 1,
            SO_ACCEPTCONN | SO_BSDCOMPAT => 0,
            SO_PRIORITY | SO_MARK => options.kept.get(level, option).unwrap_or(0),
            flag if FLAGS.contains(&flag) => options.has(level, flag).into(),
            _ => return Err(Errno::ENOPROTOOPT.into()),
        }),
        _ => return Err(Errno::ENOPROTOOPT.into()),
    };
    write_answer(&ctx.process.memory, level, value, len_address, len, &answer)
}

fn number(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}
