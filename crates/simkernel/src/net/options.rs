//! getsockopt and setsockopt of Internet sockets (socket(7), ip(7), ipv6(7), tcp(7), udp(7)): which options there are, their layouts and
//! bounds. Options that change traffic are the stack's; the rest is kept here, per socket.

use super::inet::{InetSocket, Kind};
use super::interfaces::LOOPBACK_INDEX;
use super::listing::{cookie, memory_of};
use super::{address, device, errno, filter, inet, ipv6_options, multicast, raw_options, stamp, without_effect};
use crate::credentials::Credentials;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use base::SimDuration;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::capability::{CAP_NET_ADMIN, CAP_NET_RAW};
use linux_abi::net::TcpInfo;
use linux_abi::socket::*;
use linux_abi::time::Timeval;
use smallvec::SmallVec;
use std::ops::RangeInclusive;
use tcpip::{CongestionControl, Family, OptionName, SocketId, SocketOption, TcpState};
use zerocopy::IntoBytes;

/// SKF_AD_MAX.
const BPF_EXTENSIONS: i32 = 64;
/// TCP_CA_NAME_MAX.
const NAME_MAX: usize = 16;
/// What comes from the network tells nothing of its sender's process (`sk_may_scm_recv`).
const NO_SENDER: Errno = Errno::EOPNOTSUPP;

/// Options of one socket that only the kernel looks at, where they differ from their defaults.
#[derive(Clone, Debug, Default)]
pub struct Kept(SmallVec<[(i32, i32, i32); 2]>);

impl Kept {
    pub fn get(&self, level: i32, option: i32) -> Option<i32> {
        self.0.iter().find(|entry| (entry.0, entry.1) == (level, option)).map(|entry| entry.2)
    }

    pub fn set(&mut self, level: i32, option: i32, value: i32) {
        match self.0.iter_mut().find(|entry| (entry.0, entry.1) == (level, option)) {
            Some(entry) => entry.2 = value,
            None => self.0.push((level, option, value)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How an option's number and the stack's value belong together.
enum Form {
    Flag(fn(bool) -> SocketOption),
    Number(fn(u32) -> SocketOption),
    Seconds(fn(SimDuration) -> SocketOption),
    Millis(fn(SimDuration) -> SocketOption),
}

/// Options that the stack keeps.
const STACK_OPTIONS: &[(i32, i32, OptionName, Form)] = &[
    (SOL_SOCKET, SO_REUSEADDR, OptionName::ReuseAddress, Form::Flag(SocketOption::ReuseAddress)),
    (SOL_SOCKET, SO_REUSEPORT, OptionName::ReusePort, Form::Flag(SocketOption::ReusePort)),
    (SOL_SOCKET, SO_KEEPALIVE, OptionName::KeepAlive, Form::Flag(SocketOption::KeepAlive)),
    (SOL_SOCKET, SO_BROADCAST, OptionName::Broadcast, Form::Flag(SocketOption::Broadcast)),
    (SOL_SOCKET, SO_SNDBUF, OptionName::SendBuffer, Form::Number(SocketOption::SendBuffer)),
    (SOL_SOCKET, SO_RCVBUF, OptionName::RecvBuffer, Form::Number(SocketOption::RecvBuffer)),
    (SOL_SOCKET, SO_SNDBUFFORCE, OptionName::SendBuffer, Form::Number(SocketOption::SendBuffer)),
    (SOL_SOCKET, SO_RCVBUFFORCE, OptionName::RecvBuffer, Form::Number(SocketOption::RecvBuffer)),
    (SOL_SOCKET, SO_RCVLOWAT, OptionName::RecvLowWater, Form::Number(SocketOption::RecvLowWater)),
    (SOL_IP, IP_RECVERR, OptionName::RecvErrors, Form::Flag(SocketOption::RecvErrors)),
    (SOL_IP, IP_MINTTL, OptionName::LeastHops, Form::Number(SocketOption::LeastHops)),
    (SOL_IPV6, IPV6_MINHOPCOUNT, OptionName::LeastHops6, Form::Number(SocketOption::LeastHops6)),
    (SOL_IP, IP_MTU_DISCOVER, OptionName::MtuDiscover, Form::Number(SocketOption::MtuDiscover)),
    (SOL_IPV6, IPV6_V6ONLY, OptionName::V6Only, Form::Flag(SocketOption::V6Only)),
    (SOL_IPV6, IPV6_RECVERR, OptionName::RecvErrors6, Form::Flag(SocketOption::RecvErrors6)),
    (SOL_IPV6, IPV6_MTU_DISCOVER, OptionName::MtuDiscover6, Form::Number(SocketOption::MtuDiscover6)),
    (SOL_IPV6, IPV6_DONTFRAG, OptionName::DontFragment6, Form::Flag(SocketOption::DontFragment6)),
    (SOL_TCP, TCP_NODELAY, OptionName::NoDelay, Form::Flag(SocketOption::NoDelay)),
    (SOL_TCP, TCP_CORK, OptionName::Cork, Form::Flag(SocketOption::Cork)),
    (SOL_TCP, TCP_QUICKACK, OptionName::QuickAck, Form::Flag(SocketOption::QuickAck)),
    (SOL_TCP, TCP_MAXSEG, OptionName::MaxSegment, Form::Number(SocketOption::MaxSegment)),
    (SOL_TCP, TCP_KEEPIDLE, OptionName::KeepIdle, Form::Seconds(SocketOption::KeepIdle)),
    (SOL_TCP, TCP_KEEPINTVL, OptionName::KeepInterval, Form::Seconds(SocketOption::KeepInterval)),
    (SOL_TCP, TCP_KEEPCNT, OptionName::KeepCount, Form::Number(SocketOption::KeepCount)),
    (SOL_TCP, TCP_SYNCNT, OptionName::SynCount, Form::Number(SocketOption::SynCount)),
    (SOL_TCP, TCP_LINGER2, OptionName::Linger2, Form::Seconds(SocketOption::Linger2)),
    (SOL_TCP, TCP_DEFER_ACCEPT, OptionName::DeferAccept, Form::Number(SocketOption::DeferAccept)),
    (SOL_TCP, TCP_WINDOW_CLAMP, OptionName::WindowClamp, Form::Number(SocketOption::WindowClamp)),
    (SOL_TCP, TCP_USER_TIMEOUT, OptionName::UserTimeout, Form::Millis(SocketOption::UserTimeout)),
    (SOL_TCP, TCP_NOTSENT_LOWAT, OptionName::NotSentLowWater, Form::Number(SocketOption::NotSentLowWater)),
];

/// An option that the stack knows nothing of: (level, option, default, least, greatest). Flags are
/// 0 to 1 and take any number. Some act here, some mean nothing on a simulated network, and those
/// of `without_effect` are missed.
type KeptOption = (i32, i32, i32, i32, i32);

const KEPT_OPTIONS: &[KeptOption] = &[
    (SOL_SOCKET, SO_DEBUG, 0, 0, 1),
    (SOL_SOCKET, SO_DONTROUTE, 0, 0, 1),
    (SOL_SOCKET, SO_OOBINLINE, 0, 0, 1),
    (SOL_SOCKET, SO_NO_CHECK, 0, 0, 1),
    (SOL_SOCKET, SO_RXQ_OVFL, 0, 0, 1),
    (SOL_SOCKET, SO_TIMESTAMP, 0, 0, 1),
    (SOL_SOCKET, SO_TIMESTAMPNS, 0, 0, 1),
    (SOL_SOCKET, SO_TIMESTAMP_NEW, 0, 0, 1),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW, 0, 0, 1),
    (SOL_SOCKET, SO_PRIORITY, 0, i32::MIN, i32::MAX),
    (SOL_SOCKET, SO_MARK, 0, i32::MIN, i32::MAX),
    (SOL_SOCKET, SO_INCOMING_CPU, -1, i32::MIN, i32::MAX),
    (SOL_SOCKET, SO_BUSY_POLL, 0, 0, i32::MAX),
    (SOL_SOCKET, SO_TXREHASH, 1, -1, 1),
    (SOL_SOCKET, SO_WIFI_STATUS, 0, 0, 1),
    (SOL_SOCKET, SO_NOFCS, 0, 0, 1),
    (SOL_SOCKET, SO_SELECT_ERR_QUEUE, 0, 0, 1),
    (SOL_SOCKET, SO_PREFER_BUSY_POLL, 0, 0, 1),
    (SOL_SOCKET, SO_RCVMARK, 0, 0, 1),
    (SOL_IP, IP_PASSSEC, 0, 0, 1),
    (SOL_IP, IP_CHECKSUM, 0, 0, 1),
    (SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, 0, 0, 1),
    (SOL_TCP, TCP_THIN_DUPACK, 0, 0, 1),
    (SOL_TCP, TCP_SAVE_SYN, 0, 0, 2),
    (SOL_TCP, TCP_FASTOPEN, 0, 0, i32::MAX),
    (SOL_TCP, TCP_FASTOPEN_NO_COOKIE, 0, 0, 1),
    (SOL_TCP, TCP_INQ, 0, 0, 1),
    (SOL_IP, IP_RECVERR_RFC4884, 0, 0, 1),
    (SOL_IP, IP_PKTINFO, 0, 0, 1),
    (SOL_IP, IP_RECVTTL, 0, 0, 1),
    (SOL_IP, IP_RECVTOS, 0, 0, 1),
    (SOL_IP, IP_RECVOPTS, 0, 0, 1),
    (SOL_IP, IP_RETOPTS, 0, 0, 1),
    (SOL_IP, IP_RECVORIGDSTADDR, 0, 0, 1),
    (SOL_IP, IP_RECVFRAGSIZE, 0, 0, 1),
    (SOL_IP, IP_FREEBIND, 0, 0, 1),
    (SOL_IP, IP_TRANSPARENT, 0, 0, 1),
    (SOL_IP, IP_BIND_ADDRESS_NO_PORT, 0, 0, 1),
    (SOL_IP, IP_MULTICAST_TTL, 1, -1, 255),
    (SOL_IP, IP_MULTICAST_LOOP, 1, 0, 1),
    (SOL_IP, IP_MULTICAST_ALL, 1, 0, 1),
    (SOL_IPV6, IPV6_RECVERR_RFC4884, 0, 0, 1),
    (SOL_IPV6, IPV6_RECVPKTINFO, 0, 0, 1),
    (SOL_IPV6, IPV6_RECVHOPLIMIT, 0, 0, 1),
    (SOL_IPV6, IPV6_RECVTCLASS, 0, 0, 1),
    (SOL_IPV6, IPV6_RECVPATHMTU, 0, 0, 1),
    (SOL_IPV6, IPV6_RECVORIGDSTADDR, 0, 0, 1),
    (SOL_IPV6, IPV6_AUTOFLOWLABEL, 1, 0, 1),
    (SOL_IPV6, IPV6_FREEBIND, 0, 0, 1),
    (SOL_IPV6, IPV6_TRANSPARENT, 0, 0, 1),
    (SOL_IPV6, IPV6_MULTICAST_HOPS, 1, -1, 255),
    (SOL_UDP, UDP_CORK, 0, 0, 1),
    (SOL_UDP, UDP_GRO, 0, 0, 1),
    (SOL_UDP, UDP_NO_CHECK6_TX, 0, 0, 1),
    (SOL_UDP, UDP_NO_CHECK6_RX, 0, 0, 1),
    (SOL_UDP, UDP_SEGMENT, 0, 0, 0xffff),
];

/// Whether the tables have this option.
pub(super) fn is_known(level: i32, option: i32) -> bool {
    kept_option(level, option).is_some() || STACK_OPTIONS.iter().any(|entry| (entry.0, entry.1) == (level, option))
}

fn kept_option(level: i32, option: i32) -> Option<&'static KeptOption> {
    KEPT_OPTIONS.iter().find(|entry| (entry.0, entry.1) == (level, option))
}

/// What a kept option becomes when a program sets it to `value`. EINVAL outside its bounds.
fn accept_kept(entry: &KeptOption, value: i32) -> Result<i32, Errno> {
    let (_, _, _, least, greatest) = *entry;
    match (least, greatest) {
        (0, 1) => Ok(i32::from(value != 0)),
        _ if (least..=greatest).contains(&value) => Ok(value),
        _ => Err(Errno::EINVAL),
    }
}

fn has_level(level: i32, family: Family, kind: Kind) -> bool {
    let is_raw = matches!(kind, Kind::Raw(_));
    match level {
        SOL_RAW => is_raw,
        SOL_ICMPV6 => is_raw && family == Family::V6,
        SOL_IPV6 => family == Family::V6,
        SOL_TCP => kind == Kind::Tcp,
        SOL_UDP => kind == Kind::Udp,
        _ => matches!(level, SOL_SOCKET | SOL_IP),
    }
}

/// setsockopt(2).
pub fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len: i32) -> SysResult {
    let socket = ctx.inet(file)?;
    let id = socket.id;
    let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
    if !has_level(level, socket.family, socket.kind) {
        return Err(Errno::ENOPROTOOPT.into());
    }
    match (level, option) {
        (SOL_SOCKET, SO_LINGER) => set_linger(ctx, id, value, len)?,
        (SOL_SOCKET, SO_MAX_PACING_RATE) => set_pacing(ctx, id, value, len)?,
        (SOL_SOCKET, SO_RCVTIMEO | SO_RCVTIMEO_NEW) => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.inet_mut(file)?.recv_timeout = timeout;
        }
        (SOL_SOCKET, SO_SNDTIMEO | SO_SNDTIMEO_NEW) => {
            let timeout = read_timeout(&ctx.process.memory, value, len)?;
            ctx.inet_mut(file)?.send_timeout = timeout;
        }
        (SOL_SOCKET, SO_BINDTODEVICE) => {
            let name = read_name(&ctx.process.memory, value, len.min(linux_abi::ioctl::IFNAMSIZ - 1))?;
            let index = [&b""[..], b"lo", b"eth0"].iter().position(|known| *known == &name[..]);
            device::bind(ctx, id, index.ok_or(Errno::ENODEV)? as i32)?;
        }
        (SOL_SOCKET, SO_PASSCRED | SO_PASSSEC | SO_PASSPIDFD | SO_PASSRIGHTS) => {
            read_number(&ctx.process.memory, level, value, len)?;
            return Err(NO_SENDER.into());
        }
        (SOL_SOCKET, SO_ATTACH_FILTER | SO_DETACH_FILTER | SO_LOCK_FILTER) => {
            filter::set(ctx, file, option, value, len)?;
        }
        // Advice, and what has had no effect since Linux 2.4.
        (SOL_SOCKET, SO_BSDCOMPAT | SO_CNX_ADVICE) => {
            read_number(&ctx.process.memory, level, value, len)?;
        }
        (SOL_SOCKET, SO_BINDTOIFINDEX) => {
            let index = read_number(&ctx.process.memory, level, value, len)?;
            device::bind(ctx, id, index)?;
        }
        (SOL_TCP, TCP_CONGESTION) => {
            let name = read_name(&ctx.process.memory, value, len.min(NAME_MAX - 1))?;
            let kind = if len == 0 { Err(Errno::EINVAL) } else { congestion_control(&name) }?;
            set_in_stack(ctx, id, SocketOption::Congestion(kind))?;
        }
        (SOL_TCP, TCP_ULP) => return Err(Errno::ENOENT.into()),
        (SOL_TCP, TCP_FASTOPEN) if !is_idle(ctx, id)? => return Err(Errno::EINVAL.into()),
        (SOL_TCP, TCP_FASTOPEN_CONNECT) => return Err(Errno::EOPNOTSUPP.into()),
        (SOL_IP, IP_OPTIONS_OPTION) if len == 0 => {}
        (SOL_IP, IP_ADD_MEMBERSHIP..=MCAST_MSFILTER) => return multicast::set4(ctx, file, option, value, len),
        (SOL_IP, IP_ROUTER_ALERT) => return Err(Errno::EINVAL.into()),
        (SOL_IP, IP_MULTICAST_TTL | IP_RECVFRAGSIZE) if ctx.inet(file)?.is_stream => return Err(Errno::EINVAL.into()),
        (
            SOL_IP,
            IP_FREEBIND | IP_TRANSPARENT | IP_MINTTL | IP_MULTICAST_TTL | IP_MULTICAST_LOOP | IP_MULTICAST_ALL,
        ) if len == 0 => return Err(Errno::EINVAL.into()),
        (SOL_IP, IP_MULTICAST_IF) => multicast::set_interface(ctx, file, value, len)?,
        (SOL_RAW | SOL_ICMPV6, _) | (SOL_IP, IP_HDRINCL) | (SOL_IPV6, IPV6_CHECKSUM) => {
            return raw_options::set(ctx, file, level, option, value, len);
        }
        (SOL_IPV6, _) => return ipv6_options::set(ctx, file, option, value, len),
        _ => {
            let number = read_number(&ctx.process.memory, level, value, len)?;
            set_number(ctx, file, level, option, number)?;
        }
    }
    ctx.kernel.settle_sockets();
    Ok(0)
}

/// What only some may ask of a transport's socket: foreign addresses as its own. EPERM.
fn demand_transparent(who: &Credentials, number: i32) -> Result<(), Errno> {
    let may = number == 0 || who.can(CAP_NET_RAW) || who.can(CAP_NET_ADMIN);
    if may { Ok(()) } else { Err(Errno::EPERM) }
}

/// What only some may ask of any socket (`sk_setsockopt`): priorities beyond the usual, marks, buffers beyond the limits, traces. EPERM,
/// EACCES.
pub(crate) fn demand_rights(who: &Credentials, option: i32, number: i32) -> Result<(), Errno> {
    const USUAL_PRIORITIES: RangeInclusive<i32> = 0..=6;
    let administers = who.can(CAP_NET_ADMIN);
    match option {
        SO_PRIORITY if USUAL_PRIORITIES.contains(&number) => Ok(()),
        SO_PRIORITY | SO_MARK if !administers && !who.can(CAP_NET_RAW) => Err(Errno::EPERM),
        SO_SNDBUFFORCE | SO_RCVBUFFORCE if !administers => Err(Errno::EPERM),
        SO_PREFER_BUSY_POLL if number != 0 && !administers => Err(Errno::EPERM),
        SO_DEBUG if number != 0 && !administers => Err(Errno::EACCES),
        _ => Ok(()),
    }
}

/// The options whose value is a number.
pub(super) fn set_number(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, number: i32) -> Result<(), Errno> {
    let socket = ctx.inet(file)?;
    let id = socket.id;
    if level == SOL_SOCKET {
        demand_rights(ctx.credentials(), option, number)?;
    }
    if matches!((level, option), (SOL_IP, IP_TRANSPARENT) | (SOL_IPV6, IPV6_TRANSPARENT)) {
        demand_transparent(ctx.credentials(), number)?;
    }
    if level == SOL_IP {
        match option {
            IP_TOS => return set_in_stack(ctx, id, SocketOption::TypeOfService(number as u8)),
            IP_TTL => {
                // -1 is the default (`do_ip_setsockopt`).
                let ttl = if number == -1 { 64 } else { u8::try_from(number).map_err(|_| Errno::EINVAL)? };
                return set_in_stack(ctx, id, SocketOption::TimeToLive(ttl));
            }
            IP_MULTICAST_ALL | IP_RECVERR_RFC4884 if !(0..=1).contains(&number) => return Err(Errno::EINVAL),
            IP_MULTICAST_TTL if number == -1 => {
                ctx.inet_mut(file)?.kept.set(level, option, 1);
                return multicast::tell(ctx, file);
            }
            _ => {}
        }
    }
    if let Some((.., form)) = STACK_OPTIONS.iter().find(|entry| (entry.0, entry.1) == (level, option)) {
        let value = stack_value(form, level, option, number)?;
        if level == SOL_SOCKET && matches!(option, SO_SNDBUFFORCE | SO_RCVBUFFORCE) {
            return ctx.kernel.net.stack.force_buffer(ctx.now, id, value).map_err(errno);
        }
        return set_in_stack(ctx, id, value);
    }
    let entry = kept_option(level, option).ok_or(Errno::ENOPROTOOPT)?;
    if option == TCP_INQ && level == SOL_TCP && !(0..=1).contains(&number) {
        return Err(Errno::EINVAL);
    }
    let mut accepted = accept_kept(entry, number)?;
    if level == SOL_TCP && option == TCP_FASTOPEN {
        // A queue of connections, whose length the system bounds (`fastopen_queue_tune`).
        accepted = accepted.min(ctx.kernel.net.stack.config().somaxconn as i32);
    }
    if accepted != entry.2 {
        without_effect::note(ctx, level, option);
    }
    let kept = &mut ctx.inet_mut(file)?.kept;
    if level == SOL_SOCKET && stamp::is_option(option) {
        stamp::set(kept, option, accepted != 0);
    } else {
        kept.set(level, option, accepted);
    }
    const FREE: [(i32, i32); 4] =
        [(SOL_IP, IP_FREEBIND), (SOL_IP, IP_TRANSPARENT), (SOL_IPV6, IPV6_FREEBIND), (SOL_IPV6, IPV6_TRANSPARENT)];
    if FREE.contains(&(level, option)) {
        let is_free = FREE.iter().any(|(level, option)| kept.get(*level, *option) == Some(1));
        set_in_stack(ctx, id, SocketOption::FreeBind(is_free))?;
    }
    match (level, option) {
        (SOL_UDP, UDP_CORK) if accepted == 0 => super::datagram::uncork(ctx, file),
        (SOL_IP, IP_MULTICAST_TTL | IP_MULTICAST_LOOP | IP_MULTICAST_ALL) | (SOL_IPV6, IPV6_MULTICAST_HOPS) => {
            multicast::tell(ctx, file)
        }
        _ => Ok(()),
    }
}

/// A number as the stack's option. EINVAL for negative values where Linux refuses them.
fn stack_value(form: &Form, level: i32, option: i32, number: i32) -> Result<SocketOption, Errno> {
    let unsigned = || u32::try_from(number).map_err(|_| Errno::EINVAL);
    Ok(match form {
        Form::Flag(make) => make(number != 0),
        // Sizes are taken as unsigned and bounded above (`sock_setsockopt`); a negative SO_RCVLOWAT is the largest.
        Form::Number(make) if level == SOL_SOCKET => match option {
            SO_RCVLOWAT => make(unsigned().unwrap_or(i32::MAX as u32)),
            SO_SNDBUFFORCE | SO_RCVBUFFORCE => make(number.max(0) as u32),
            _ => make(number as u32),
        },
        Form::Number(make) if level == SOL_TCP && option == TCP_NOTSENT_LOWAT => make(number as u32),
        Form::Number(make) if level == SOL_TCP && option == TCP_DEFER_ACCEPT => make(number.max(0) as u32),
        // A negative one is as good as the smallest.
        Form::Number(make) if level == SOL_TCP && option == TCP_WINDOW_CLAMP && number < 0 => make(1),
        Form::Number(make) => make(unsigned()?),
        Form::Seconds(make) if option == TCP_LINGER2 => make(match number {
            0 => SimDuration::from_secs(60),
            _ => SimDuration::from_secs(number.clamp(0, FIN_TIMEOUT_MAX) as u64),
        }),
        Form::Seconds(make) => make(SimDuration::from_secs(unsigned()?.into())),
        Form::Millis(make) => make(SimDuration::from_millis(unsigned()?.into())),
    })
}

/// Whether a stream has no connection: it may listen.
fn is_idle(ctx: &mut Ctx<'_>, id: SocketId) -> Result<bool, Errno> {
    let state = ctx.kernel.net.stack.tcp_info(ctx.now, id).map_err(errno)?.state;
    Ok(matches!(state, TcpState::Close | TcpState::Listen))
}

/// TCP_FIN_TIMEOUT_MAX, in seconds.
const FIN_TIMEOUT_MAX: i32 = 120;

pub(super) fn set_in_stack(ctx: &mut Ctx<'_>, id: SocketId, option: SocketOption) -> Result<(), Errno> {
    ctx.kernel.net.stack.set_option(ctx.now, id, option).map_err(errno)
}

fn set_linger(ctx: &mut Ctx<'_>, id: SocketId, value: u64, len: usize) -> Result<(), Outcome> {
    if len < size_of::<Linger>() {
        return Err(Errno::EINVAL.into());
    }
    let linger: Linger = ctx.process.memory.read_value(value)?;
    let time = SimDuration::from_secs(u64::from(linger.l_linger as u32));
    set_in_stack(ctx, id, SocketOption::Linger((linger.l_onoff != 0).then_some(time)))?;
    Ok(())
}

/// SO_MAX_PACING_RATE, in bytes per second: a number of 64 bits, or of 32, in which all ones are no limit.
fn set_pacing(ctx: &mut Ctx<'_>, id: SocketId, value: u64, len: usize) -> Result<(), Outcome> {
    let memory = &ctx.process.memory;
    let rate = match len {
        0..4 => return Err(Errno::EINVAL.into()),
        4..8 => match memory.read_value::<u32>(value)? {
            u32::MAX => u64::MAX,
            rate => rate.into(),
        },
        _ => memory.read_value(value)?,
    };
    set_in_stack(ctx, id, SocketOption::MaxPacingRate(rate))?;
    Ok(())
}

/// SO_RCVTIMEO and SO_SNDTIMEO (`sock_set_timeout`): zero is no limit, a negative one has passed already. EDOM for microseconds
/// out of range.
pub(crate) fn read_timeout(memory: &AddressSpace, value: u64, len: usize) -> Result<Option<SimDuration>, Outcome> {
    if len < size_of::<Timeval>() {
        return Err(Errno::EINVAL.into());
    }
    let time: Timeval = memory.read_value(value)?;
    if !(0..1_000_000).contains(&time.tv_usec) {
        return Err(Errno::EDOM.into());
    }
    if time.tv_sec < 0 {
        return Ok(Some(SimDuration::ZERO));
    }
    let nanos = (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_usec as u64 * 1000);
    Ok((nanos > 0).then_some(SimDuration::from_nanos(nanos)))
}

pub(super) fn read_number(memory: &AddressSpace, level: i32, value: u64, len: usize) -> Result<i32, Outcome> {
    match len {
        4.. => Ok(memory.read_value(value)?),
        // ip(7) takes a byte too, and nothing as 0.
        1..4 if level == SOL_IP => Ok(memory.read_value::<u8>(value)?.into()),
        0 if level == SOL_IP => Ok(0),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// A name of at most `len` bytes, up to its NUL.
fn read_name(memory: &AddressSpace, value: u64, len: usize) -> Result<SmallVec<[u8; 16]>, Outcome> {
    let mut name = SmallVec::from_elem(0, len);
    memory.read(value, &mut name)?;
    name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(len));
    Ok(name)
}

fn congestion_control(name: &[u8]) -> Result<CongestionControl, Errno> {
    match name {
        b"cubic" => Ok(CongestionControl::Cubic),
        b"reno" => Ok(CongestionControl::Reno),
        _ => Err(Errno::ENOENT),
    }
}

/// getsockopt(2).
pub fn get(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: u64, len_address: u64) -> SysResult {
    let len: i32 = ctx.process.memory.read_value(len_address)?;
    let InetSocket { family, kind, .. } = *ctx.inet(file)?;
    if !has_level(level, family, kind) {
        // `do_ip_getsockopt`, `ipv6_getsockopt`.
        return Err(if family == Family::V4 { Errno::EOPNOTSUPP } else { Errno::ENOPROTOOPT }.into());
    }
    let len = match usize::try_from(len) {
        Ok(len) => len,
        // `do_ipv6_getsockopt` takes it as unsigned.
        Err(_) if level == SOL_IPV6 => usize::MAX,
        Err(_) => return Err(Errno::EINVAL.into()),
    };
    if (level, option) == (SOL_SOCKET, SO_ATTACH_FILTER) {
        let filter = ctx.inet(file)?.filter.clone();
        return filter::get(&ctx.process.memory, filter.as_deref(), value, len_address, len);
    }
    let answer = answer(ctx, file, level, option, len)?;
    write_answer(&ctx.process.memory, level, value, len_address, len, &answer)
}

/// Stores an option's value, cut to the room there is, and its length.
pub(crate) fn write_answer(
    memory: &AddressSpace,
    level: i32,
    value: u64,
    len_address: u64,
    len: usize,
    answer: &[u8],
) -> SysResult {
    let mut cut = &answer[..answer.len().min(len)];
    let number = answer.first_chunk::<4>().map(|bytes| i32::from_ne_bytes(*bytes));
    if level == SOL_IP && answer.len() == 4 && (1..4).contains(&len) && number.is_some_and(|n| (0..256).contains(&n)) {
        // `do_ip_getsockopt` gives short buffers a byte.
        cut = &answer[..1];
    }
    memory.write(value, cut)?;
    memory.write_value(len_address, &(cut.len() as i32))?;
    Ok(0)
}

/// An option's value as bytes.
pub(super) type Answer = SmallVec<[u8; 16]>;

pub(super) fn number(value: i32) -> Answer {
    Answer::from_slice(&value.to_ne_bytes())
}

pub(super) fn timeval(timeout: Option<SimDuration>) -> Answer {
    let micros = timeout.map_or(0, SimDuration::as_micros);
    let time = Timeval { tv_sec: (micros / 1_000_000) as i64, tv_usec: (micros % 1_000_000) as i64 };
    Answer::from_slice(time.as_bytes())
}

fn answer(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, len: usize) -> Result<Answer, Errno> {
    let socket = ctx.inet(file)?.clone();
    match level {
        SOL_SOCKET => socket_answer(ctx, &socket, option, len),
        SOL_TCP => tcp_answer(ctx, &socket, option),
        SOL_IP => ip_answer(ctx, &socket, option),
        SOL_IPV6 => ipv6_options::answer(ctx, &socket, option),
        SOL_RAW | SOL_ICMPV6 => raw_options::answer(ctx, &socket, level, option),
        _ => common_answer(ctx, &socket, level, option),
    }
}

/// What stands in the tables.
pub(super) fn common_answer(ctx: &mut Ctx<'_>, socket: &InetSocket, level: i32, option: i32) -> Result<Answer, Errno> {
    if let Some((_, _, name, _)) = STACK_OPTIONS.iter().find(|entry| (entry.0, entry.1) == (level, option)) {
        let value = ctx.kernel.net.stack.option(socket.id, *name).map_err(errno)?;
        return Ok(number(as_number(value)));
    }
    let entry = kept_option(level, option).ok_or(Errno::ENOPROTOOPT)?;
    Ok(number(socket.kept.get(level, option).unwrap_or(entry.2)))
}

/// The number that getsockopt shows for a value of the stack.
pub(super) fn as_number(value: SocketOption) -> i32 {
    let seconds = |time: SimDuration| i32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(i32::MAX);
    match value {
        SocketOption::ReuseAddress(on)
        | SocketOption::ReusePort(on)
        | SocketOption::KeepAlive(on)
        | SocketOption::Broadcast(on)
        | SocketOption::NoDelay(on)
        | SocketOption::Cork(on)
        | SocketOption::V6Only(on)
        | SocketOption::RecvErrors(on)
        | SocketOption::RecvErrors6(on)
        | SocketOption::DontFragment6(on)
        | SocketOption::FreeBind(on)
        | SocketOption::QuickAck(on) => on.into(),
        SocketOption::SendBuffer(value)
        | SocketOption::RecvBuffer(value)
        | SocketOption::RecvLowWater(value)
        | SocketOption::KeepCount(value)
        | SocketOption::SynCount(value)
        | SocketOption::NotSentLowWater(value)
        | SocketOption::DeferAccept(value)
        | SocketOption::MaxSegment(value)
        | SocketOption::MtuDiscover(value)
        | SocketOption::MtuDiscover6(value)
        | SocketOption::LeastHops(value)
        | SocketOption::LeastHops6(value)
        | SocketOption::WindowClamp(value) => value as i32,
        // Not at all was asked for by any negative number.
        SocketOption::Linger2(SimDuration::ZERO) => -1,
        SocketOption::KeepIdle(time) | SocketOption::KeepInterval(time) | SocketOption::Linger2(time) => seconds(time),
        SocketOption::UserTimeout(time) => i32::try_from(time.as_millis()).unwrap_or(i32::MAX),
        SocketOption::Linger(linger) => linger.is_some().into(),
        SocketOption::MaxPacingRate(rate) => rate.min(u32::MAX.into()) as i32,
        SocketOption::Congestion(_) | SocketOption::Device(_) => 0,
        SocketOption::TypeOfService(value)
        | SocketOption::TimeToLive(value)
        | SocketOption::TrafficClass(value)
        | SocketOption::HopLimit(value) => value.into(),
    }
}

fn socket_answer(ctx: &mut Ctx<'_>, socket: &InetSocket, option: i32, len: usize) -> Result<Answer, Errno> {
    let stack = &mut ctx.kernel.net.stack;
    Ok(match option {
        SO_TYPE => number(match socket.kind {
            Kind::Tcp => SOCK_STREAM,
            Kind::Udp | Kind::Echo => SOCK_DGRAM,
            Kind::Raw(_) => SOCK_RAW,
        }),
        SO_DOMAIN => number(if socket.family == Family::V4 { AF_INET } else { AF_INET6 }),
        SO_PROTOCOL => number(protocol_of(socket)),
        SO_ACCEPTCONN => number(stack.is_listening(socket.id).into()),
        SO_ERROR => number(stack.take_error(socket.id).map_or(0, |error| errno(error).raw())),
        SO_SNDLOWAT => number(1),
        SO_RCVTIMEO | SO_RCVTIMEO_NEW => timeval(socket.recv_timeout),
        SO_SNDTIMEO | SO_SNDTIMEO_NEW => timeval(socket.send_timeout),
        SO_LINGER => {
            let SocketOption::Linger(linger) = stack.option(socket.id, OptionName::Linger).map_err(errno)? else {
                return Err(Errno::ENOPROTOOPT);
            };
            let seconds = linger.map_or(0, |time| time.as_nanos() / 1_000_000_000);
            Answer::from_slice(Linger { l_onoff: linger.is_some().into(), l_linger: seconds as i32 }.as_bytes())
        }
        SO_PEERCRED => Answer::from_slice(Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX }.as_bytes()),
        SO_COOKIE if len < 8 => return Err(Errno::EINVAL),
        SO_COOKIE => Answer::from_slice(&cookie(socket.id).to_ne_bytes()),
        SO_MAX_PACING_RATE => {
            let SocketOption::MaxPacingRate(rate) =
                stack.option(socket.id, OptionName::MaxPacingRate).map_err(errno)?
            else {
                return Err(Errno::ENOPROTOOPT);
            };
            // In 32 bits, where the program has no room for 64.
            if len >= 8 { Answer::from_slice(&rate.to_ne_bytes()) } else { number(rate.min(u32::MAX.into()) as i32) }
        }
        SO_MEMINFO => Answer::from_slice(memory_of(stack.describe(ctx.now, socket.id)).as_bytes()),
        SO_PEERNAME => stack.peer_name(socket.id).map(address::raw).map_err(errno)?.into_iter().collect(),
        SO_BSDCOMPAT | SO_INCOMING_NAPI_ID => number(0),
        SO_BPF_EXTENSIONS => number(BPF_EXTENSIONS),
        SO_LOCK_FILTER => number(socket.kept.get(SOL_SOCKET, SO_LOCK_FILTER).unwrap_or(0)),
        SO_PASSCRED | SO_PASSSEC | SO_PASSPIDFD | SO_PASSRIGHTS => return Err(NO_SENDER),
        SO_PEERGROUPS | SO_PEERPIDFD => return Err(Errno::ENODATA),
        SO_SNDBUFFORCE | SO_RCVBUFFORCE => return Err(Errno::ENOPROTOOPT),
        SO_BINDTOIFINDEX => number(device::index_of(stack.option(socket.id, OptionName::Device).map_err(errno)?)),
        SO_BINDTODEVICE => match device::index_of(stack.option(socket.id, OptionName::Device).map_err(errno)?) {
            0 => Answer::new(),
            _ if len < linux_abi::ioctl::IFNAMSIZ => return Err(Errno::EINVAL),
            index => Answer::from_slice(if index == LOOPBACK_INDEX { b"lo\0" } else { b"eth0\0" }),
        },
        _ => return common_answer(ctx, socket, SOL_SOCKET, option),
    })
}

/// SO_PROTOCOL.
fn protocol_of(socket: &InetSocket) -> i32 {
    match (socket.kind, socket.family) {
        (Kind::Tcp, _) => IPPROTO_TCP,
        (Kind::Udp, _) => IPPROTO_UDP,
        (Kind::Echo, Family::V4) => IPPROTO_ICMP,
        (Kind::Echo, Family::V6) => IPPROTO_ICMPV6,
        (Kind::Raw(protocol), _) => protocol.into(),
    }
}

fn tcp_answer(ctx: &mut Ctx<'_>, socket: &InetSocket, option: i32) -> Result<Answer, Errno> {
    let stack = &mut ctx.kernel.net.stack;
    Ok(match option {
        TCP_INFO => {
            let info = stack.tcp_info(ctx.now, socket.id).map_err(errno)?;
            Answer::from_slice(tcp_info(&info).as_bytes())
        }
        TCP_CONGESTION => {
            let mut name = [0u8; NAME_MAX];
            let text: &[u8] = match stack.option(socket.id, OptionName::Congestion).map_err(errno)? {
                SocketOption::Congestion(CongestionControl::Reno) => b"reno",
                _ => b"cubic",
            };
            name[..text.len()].copy_from_slice(text);
            Answer::from_slice(&name)
        }
        TCP_SYNCNT => match common_answer(ctx, socket, SOL_TCP, option)? {
            unset if unset[..] == [0; 4] => number(ctx.kernel.net.stack.config().syn_retries as i32),
            set => set,
        },
        // Nothing to tell.
        TCP_CC_INFO | TCP_SAVED_SYN | TCP_ULP => Answer::new(),
        TCP_FASTOPEN_CONNECT => number(0),
        _ => return common_answer(ctx, socket, SOL_TCP, option),
    })
}

fn ip_answer(ctx: &mut Ctx<'_>, socket: &InetSocket, option: i32) -> Result<Answer, Errno> {
    let of_stack = match option {
        IP_TOS => OptionName::TypeOfService,
        IP_TTL => OptionName::TimeToLive,
        IP_MTU => {
            let peer = inet::peer(ctx, socket.id).ok_or(Errno::ENOTCONN)?;
            let local = ctx.kernel.net.stack.is_local(peer.ip().to_canonical());
            return Ok(number(if local { 65_535 } else { ctx.kernel.net.stack.config().mtu.into() }));
        }
        IP_OPTIONS_OPTION => return Ok(Answer::new()),
        IP_PKTOPTIONS if socket.is_stream => return Ok(Answer::new()),
        IP_ROUTER_ALERT | IP_NODEFRAG => return Ok(number(0)),
        IP_HDRINCL if !matches!(socket.kind, Kind::Raw(_)) => return Ok(number(0)),
        IP_HDRINCL => return raw_options::answer(ctx, socket, SOL_IP, option),
        IP_MULTICAST_ALL => return Ok(number(multicast::hears_all(&socket.kept, socket.family).into())),
        // What `inet_num` holds: of others than raw sockets the port.
        IP_PROTOCOL if !matches!(socket.kind, Kind::Raw(_)) => {
            let local = ctx.kernel.net.stack.local_name(socket.id).map_err(errno)?;
            return Ok(number(local.port().into()));
        }
        IP_PROTOCOL => return Ok(number(protocol_of(socket))),
        IP_MULTICAST_IF => return Ok(number(socket.kept.get(SOL_IP, IP_MULTICAST_IF).unwrap_or(0))),
        _ => return common_answer(ctx, socket, SOL_IP, option),
    };
    let value = ctx.kernel.net.stack.option(socket.id, of_stack).map_err(errno)?;
    Ok(number(as_number(value)))
}

fn micros(time: SimDuration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn millis(time: SimDuration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// The stack's snapshot in Linux's layout.
pub(super) fn tcp_info(info: &tcpip::TcpInfo) -> TcpInfo {
    TcpInfo {
        tcpi_state: info.state as u8,
        tcpi_ca_state: info.ca_state,
        tcpi_retransmits: info.retransmits,
        tcpi_probes: info.probes,
        tcpi_backoff: info.backoff,
        tcpi_options: info.options,
        tcpi_wscale: info.snd_wscale & 0xf | info.rcv_wscale << 4,
        tcpi_rto: micros(info.rto),
        tcpi_ato: micros(info.ato),
        tcpi_snd_mss: info.snd_mss,
        tcpi_rcv_mss: info.rcv_mss,
        tcpi_unacked: info.unacked,
        tcpi_sacked: info.sacked,
        tcpi_lost: info.lost,
        tcpi_retrans: info.retrans,
        tcpi_last_data_sent: millis(info.last_data_sent),
        tcpi_last_data_recv: millis(info.last_data_recv),
        tcpi_last_ack_recv: millis(info.last_ack_recv),
        tcpi_pmtu: info.pmtu,
        tcpi_rcv_ssthresh: info.rcv_ssthresh,
        tcpi_rtt: micros(info.rtt),
        tcpi_rttvar: micros(info.rttvar),
        tcpi_snd_ssthresh: info.snd_ssthresh,
        tcpi_snd_cwnd: info.snd_cwnd,
        tcpi_advmss: info.advmss,
        tcpi_reordering: info.reordering,
        tcpi_rcv_rtt: micros(info.rcv_rtt),
        tcpi_rcv_space: info.rcv_space,
        tcpi_total_retrans: info.total_retrans,
        tcpi_flags: info.delivery_rate_app_limited.into(),
        tcpi_max_pacing_rate: info.max_pacing_rate,
        tcpi_pacing_rate: info.pacing_rate,
        tcpi_bytes_acked: info.bytes_acked,
        tcpi_bytes_received: info.bytes_received,
        tcpi_segs_out: info.segs_out,
        tcpi_segs_in: info.segs_in,
        tcpi_notsent_bytes: info.notsent_bytes,
        tcpi_min_rtt: micros(info.min_rtt),
        tcpi_data_segs_in: info.data_segs_in,
        tcpi_data_segs_out: info.data_segs_out,
        tcpi_delivery_rate: info.delivery_rate,
        tcpi_busy_time: info.busy_time.as_micros(),
        tcpi_rwnd_limited: info.rwnd_limited.as_micros(),
        tcpi_sndbuf_limited: info.sndbuf_limited.as_micros(),
        tcpi_delivered: info.delivered,
        tcpi_bytes_sent: info.bytes_sent,
        tcpi_bytes_retrans: info.bytes_retrans,
        tcpi_dsack_dups: info.dsack_dups,
        tcpi_reord_seen: info.reord_seen,
        tcpi_rcv_ooopack: info.rcv_ooopack,
        tcpi_snd_wnd: info.snd_wnd,
        tcpi_rcv_wnd: info.rcv_wnd,
        tcpi_rehash: info.rehash,
        tcpi_total_rto: info.total_rto,
        tcpi_total_rto_recoveries: info.total_rto_recoveries,
        tcpi_total_rto_time: millis(info.total_rto_time),
        ..TcpInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_stands_in_two_tables() {
        let mut all: Vec<(i32, i32)> = STACK_OPTIONS.iter().map(|entry| (entry.0, entry.1)).collect();
        all.extend(KEPT_OPTIONS.iter().map(|entry| (entry.0, entry.1)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn every_option_of_the_stack_comes_back_as_it_was_set() {
        for (level, option, _, form) in STACK_OPTIONS {
            let value = stack_value(form, *level, *option, 1).unwrap();
            assert_eq!(as_number(value), 1, "option {option} of level {level}");
        }
    }

    #[test]
    fn flags_take_any_number_and_bounds_hold() {
        let set = |option, value| accept_kept(kept_option(SOL_IP, option).unwrap(), value);
        assert_eq!(set(IP_RECVTTL, 7), Ok(1));
        assert_eq!(set(IP_MULTICAST_TTL, 3), Ok(3));
        assert_eq!(set(IP_MULTICAST_TTL, 256), Err(Errno::EINVAL));
        assert_eq!(set(IP_MULTICAST_TTL, -2), Err(Errno::EINVAL));
    }

    #[test]
    fn levels_belong_to_families_and_kinds() {
        for family in [Family::V4, Family::V6] {
            for kind in [Kind::Tcp, Kind::Udp, Kind::Echo, Kind::Raw(1)] {
                assert!(has_level(SOL_SOCKET, family, kind) && has_level(SOL_IP, family, kind));
                assert_eq!(has_level(SOL_IPV6, family, kind), family == Family::V6);
                assert_eq!(has_level(SOL_TCP, family, kind), kind == Kind::Tcp);
                assert_eq!(has_level(SOL_UDP, family, kind), kind == Kind::Udp);
                assert_eq!(has_level(SOL_RAW, family, kind), kind == Kind::Raw(1));
            }
        }
    }

    #[test]
    fn negative_sizes_are_judged_as_on_linux() {
        let value = |level, option, number| {
            let (.., form) = STACK_OPTIONS.iter().find(|e| (e.0, e.1) == (level, option)).unwrap();
            stack_value(form, level, option, number)
        };
        assert_eq!(value(SOL_SOCKET, SO_SNDBUF, -1), Ok(SocketOption::SendBuffer(u32::MAX)));
        assert_eq!(value(SOL_SOCKET, SO_RCVLOWAT, -1), Ok(SocketOption::RecvLowWater(i32::MAX as u32)));
        assert_eq!(value(SOL_TCP, TCP_USER_TIMEOUT, -1), Err(Errno::EINVAL));
        assert_eq!(value(SOL_TCP, TCP_NODELAY, 5), Ok(SocketOption::NoDelay(true)));
    }

    #[test]
    fn kept_options_remember_the_last_value() {
        let mut kept = Kept::default();
        assert_eq!(kept.get(SOL_IP, IP_PKTINFO), None);
        kept.set(SOL_IP, IP_PKTINFO, 1);
        kept.set(SOL_IP, IP_PKTINFO, 0);
        assert_eq!(kept.get(SOL_IP, IP_PKTINFO), Some(0));
    }

    #[test]
    fn tcp_info_has_linux_units() {
        let info = tcpip::TcpInfo {
            rtt: SimDuration::from_millis(20),
            last_data_sent: SimDuration::from_secs(1),
            snd_wscale: 7,
            rcv_wscale: 9,
            ..tcpip::TcpInfo::default()
        };
        let raw = tcp_info(&info);
        assert_eq!((raw.tcpi_rtt, raw.tcpi_last_data_sent, raw.tcpi_wscale), (20_000, 1000, 0x97));
        assert_eq!(raw.tcpi_state, linux_abi::net::TCP_CLOSE);
    }

    #[test]
    fn timeouts_come_back_in_microseconds() {
        let raw = timeval(Some(SimDuration::from_micros(1_500_000)));
        assert_eq!(raw[..], *Timeval { tv_sec: 1, tv_usec: 500_000 }.as_bytes());
        assert_eq!(timeval(None)[..], [0; 16]);
    }

    #[test]
    fn congestion_controls_are_found_by_name() {
        assert_eq!(congestion_control(b"reno"), Ok(CongestionControl::Reno));
        assert_eq!(congestion_control(b"bbr"), Err(Errno::ENOENT));
    }
}
