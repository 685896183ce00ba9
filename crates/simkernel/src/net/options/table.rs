//! The options of all levels that the Internet's stack keeps, and those of levels beside SOL_SOCKET
//! that the kernel keeps with an Internet socket.

use super::kept::{Rule, off};
use super::without_effect;
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::errno;
use base::SimDuration;
use linux_abi::Errno;
use linux_abi::socket::*;
use tcpip::{OptionName, SocketId, SocketOption};

/// TCP_FIN_TIMEOUT_MAX, in seconds.
const FIN_TIMEOUT_MAX: i32 = 120;

/// How an option's number and the stack's value belong together.
enum Form {
    Flag(fn(bool) -> SocketOption),
    Number(fn(u32) -> SocketOption),
    Seconds(fn(SimDuration) -> SocketOption),
    Millis(fn(SimDuration) -> SocketOption),
}

/// Options that the stack keeps.
const IN_STACK: &[(i32, i32, OptionName, Form)] = &[
    (SOL_SOCKET, SO_REUSEADDR, OptionName::ReuseAddress, Form::Flag(SocketOption::ReuseAddress)),
    (SOL_SOCKET, SO_REUSEPORT, OptionName::ReusePort, Form::Flag(SocketOption::ReusePort)),
    (SOL_SOCKET, SO_KEEPALIVE, OptionName::KeepAlive, Form::Flag(SocketOption::KeepAlive)),
    (SOL_SOCKET, SO_BROADCAST, OptionName::Broadcast, Form::Flag(SocketOption::Broadcast)),
    (SOL_SOCKET, SO_SNDBUF, OptionName::SendBuffer, Form::Number(SocketOption::SendBuffer)),
    (SOL_SOCKET, SO_RCVBUF, OptionName::RecvBuffer, Form::Number(SocketOption::RecvBuffer)),
    (SOL_SOCKET, SO_BUF_LOCK, OptionName::BufferLocks, Form::Number(SocketOption::BufferLocks)),
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

/// Options that are kept with the socket. Some act here, some mean nothing on a simulated network,
/// and those of `without_effect` are missed.
const KEPT: &[(i32, i32, Rule)] = &[
    (SOL_IP, IP_PASSSEC, Rule::Flag),
    (SOL_IP, IP_CHECKSUM, Rule::Flag),
    (SOL_IP, IP_RECVERR_RFC4884, Rule::Bit),
    (SOL_IP, IP_PKTINFO, Rule::Flag),
    (SOL_IP, IP_RECVTTL, Rule::Flag),
    (SOL_IP, IP_RECVTOS, Rule::Flag),
    (SOL_IP, IP_RECVOPTS, Rule::Flag),
    (SOL_IP, IP_RETOPTS, Rule::Flag),
    (SOL_IP, IP_RECVORIGDSTADDR, Rule::Flag),
    (SOL_IP, IP_RECVFRAGSIZE, Rule::Flag),
    (SOL_IP, IP_FREEBIND, Rule::Flag),
    (SOL_IP, IP_TRANSPARENT, Rule::Flag),
    (SOL_IP, IP_NODEFRAG, Rule::Flag),
    (SOL_IP, IP_BIND_ADDRESS_NO_PORT, Rule::Flag),
    (SOL_IP, IP_MULTICAST_TTL, Rule::Number { default: 1, least: 0, most: 255 }),
    (SOL_IP, IP_MULTICAST_LOOP, Rule::FlagOn),
    (SOL_IP, IP_MULTICAST_ALL, Rule::Bit),
    (SOL_IP, IP_ROUTER_ALERT, Rule::Fixed(0)),
    (SOL_IP, IP_UNICAST_IF, off(i32::MAX)),
    (SOL_IP, IP_LOCAL_PORT_RANGE, Rule::Only { only: 0, least: i32::MIN, most: i32::MAX }),
    (SOL_IPV6, IPV6_RECVERR_RFC4884, Rule::Bit),
    (SOL_IPV6, IPV6_RECVPKTINFO, Rule::Flag),
    (SOL_IPV6, IPV6_RECVHOPLIMIT, Rule::Flag),
    (SOL_IPV6, IPV6_RECVTCLASS, Rule::Flag),
    (SOL_IPV6, IPV6_RECVPATHMTU, Rule::Flag),
    (SOL_IPV6, IPV6_RECVORIGDSTADDR, Rule::Flag),
    (SOL_IPV6, IPV6_RECVFRAGSIZE, Rule::Flag),
    (SOL_IPV6, IPV6_AUTOFLOWLABEL, Rule::FlagOn),
    // Values are those of IP_FREEBIND and IP_TRANSPARENT; here is that there are such options.
    (SOL_IPV6, IPV6_FREEBIND, Rule::Flag),
    (SOL_IPV6, IPV6_TRANSPARENT, Rule::Flag),
    (SOL_IPV6, IPV6_MULTICAST_HOPS, Rule::Number { default: 1, least: 0, most: 255 }),
    (SOL_IPV6, IPV6_MULTICAST_LOOP, Rule::FlagOn),
    (SOL_IPV6, IPV6_MULTICAST_ALL, Rule::FlagOn),
    (SOL_IPV6, IPV6_MULTICAST_IF, Rule::Number { default: 0, least: 0, most: i32::MAX }),
    (SOL_IPV6, IPV6_UNICAST_IF, off(i32::MAX)),
    // No packet has extension headers, so nobody is told of any.
    (SOL_IPV6, IPV6_RECVHOPOPTS, Rule::Flag),
    (SOL_IPV6, IPV6_RECVRTHDR, Rule::Flag),
    (SOL_IPV6, IPV6_RECVDSTOPTS, Rule::Flag),
    (SOL_IPV6, IPV6_2292HOPOPTS, Rule::Flag),
    (SOL_IPV6, IPV6_2292RTHDR, Rule::Flag),
    (SOL_IPV6, IPV6_2292DSTOPTS, Rule::Flag),
    (SOL_IPV6, IPV6_ROUTER_ALERT_ISOLATE, Rule::Flag),
    (SOL_IPV6, IPV6_ROUTER_ALERT, Rule::Fixed(0)),
    // The messages of RFC 2292, which RFC 3542 has renamed.
    (SOL_IPV6, IPV6_2292PKTINFO, Rule::Flag),
    (SOL_IPV6, IPV6_2292HOPLIMIT, Rule::Flag),
    (SOL_IPV6, IPV6_FLOWINFO, Rule::Flag),
    (SOL_IPV6, IPV6_FLOWINFO_SEND, Rule::Flag),
    (SOL_TCP, TCP_THIN_LINEAR_TIMEOUTS, Rule::Bit),
    (SOL_TCP, TCP_SAVE_SYN, Rule::Number { default: 0, least: 0, most: 2 }),
    (SOL_TCP, TCP_FASTOPEN, Rule::Number { default: 0, least: 0, most: i32::MAX }),
    (SOL_TCP, TCP_FASTOPEN_NO_COOKIE, Rule::Bit),
    (SOL_TCP, TCP_FASTOPEN_CONNECT, Rule::Bit),
    (SOL_TCP, TCP_INQ, Rule::Bit),
    (SOL_TCP, TCP_REPAIR, Rule::Only { only: 0, least: -1, most: 1 }),
    (SOL_TCP, TCP_TX_DELAY, off(1 << 28)),
    (SOL_TCP, TCP_IS_MPTCP, Rule::Fixed(0)),
    (SOL_UDP, UDP_CORK, Rule::Flag),
    (SOL_UDP, UDP_GRO, Rule::Flag),
    (SOL_UDP, UDP_NO_CHECK6_TX, Rule::Flag),
    (SOL_UDP, UDP_NO_CHECK6_RX, Rule::Flag),
    (SOL_UDP, UDP_SEGMENT, Rule::Number { default: 0, least: 0, most: 0xffff }),
    (SOL_UDP, UDP_ENCAP, FLAG_OFF),
    (SOL_UDP, UDPLITE_SEND_CSCOV, Rule::Fixed(0)),
    (SOL_UDP, UDPLITE_RECV_CSCOV, Rule::Fixed(0)),
];

/// A flag, or a kind, that stays off.
const FLAG_OFF: Rule = Rule::Only { only: 0, least: i32::MIN, most: i32::MAX };

/// Whether the tables have this option.
pub(super) fn is_known(level: i32, option: i32) -> bool {
    rule(level, option).is_ok() || IN_STACK.iter().any(|entry| (entry.0, entry.1) == (level, option))
}

/// The rule of an option that is kept with the socket. ENOPROTOOPT.
pub(super) fn rule(level: i32, option: i32) -> Result<Rule, Errno> {
    let entry = KEPT.iter().find(|entry| (entry.0, entry.1) == (level, option));
    entry.map(|entry| entry.2).ok_or(Errno::ENOPROTOOPT)
}

/// Sets an option of the tables whose value is a number. ENOPROTOOPT, EINVAL.
pub(super) fn set(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, number: i32) -> Result<(), Errno> {
    match stack_value(level, option, number)? {
        Some(value) => {
            let id = ctx.inet(file)?.id;
            set_in_stack(ctx, id, value)
        }
        None => {
            let accepted = rule(level, option)?.accept(number)?;
            keep(ctx, file, level, option, accepted)
        }
    }
}

/// Keeps an option's value, and notes when it asks for what does not happen.
pub(super) fn keep(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32, value: i32) -> Result<(), Errno> {
    if rule(level, option)?.default() != Ok(value) {
        without_effect::note(ctx, level, option);
    }
    ctx.inet_mut(file)?.kept.set(level, option, value);
    Ok(())
}

/// Shows an option of the tables. ENOPROTOOPT.
pub(super) fn show(ctx: &mut Ctx<'_>, file: FileId, level: i32, option: i32) -> Result<i32, Errno> {
    let socket = ctx.inet(file)?;
    let (id, kept) = (socket.id, socket.kept.get(level, option));
    if let Some(value) = in_stack(ctx, id, level, option)? {
        return Ok(value);
    }
    let default = rule(level, option)?.default()?;
    Ok(kept.unwrap_or(default))
}

pub(in crate::net) fn set_in_stack(ctx: &mut Ctx<'_>, id: SocketId, option: SocketOption) -> Result<(), Errno> {
    ctx.kernel.net.stack.set_option(ctx.now, id, option).map_err(errno)
}

/// The number of an option that the stack keeps; None for others.
pub(super) fn in_stack(ctx: &mut Ctx<'_>, id: SocketId, level: i32, option: i32) -> Result<Option<i32>, Errno> {
    let Some((_, _, name, _)) = IN_STACK.iter().find(|entry| (entry.0, entry.1) == (level, option)) else {
        return Ok(None);
    };
    stack_number(ctx, id, *name).map(Some)
}

/// The number of an option by the stack's name for it.
pub(super) fn stack_number(ctx: &mut Ctx<'_>, id: SocketId, name: OptionName) -> Result<i32, Errno> {
    ctx.kernel.net.stack.option(id, name).map(as_number).map_err(errno)
}

/// A number as the stack's option; None for others. EINVAL for values that Linux refuses.
pub(super) fn stack_value(level: i32, option: i32, number: i32) -> Result<Option<SocketOption>, Errno> {
    let Some((.., form)) = IN_STACK.iter().find(|entry| (entry.0, entry.1) == (level, option)) else {
        return Ok(None);
    };
    let unsigned = || u32::try_from(number).map_err(|_| Errno::EINVAL);
    Ok(Some(match form {
        Form::Flag(make) => make(number != 0),
        // Sizes are taken as unsigned and bounded above (`sock_setsockopt`); a negative SO_RCVLOWAT is the largest.
        Form::Number(make) if level == SOL_SOCKET => match option {
            SO_RCVLOWAT => make(unsigned().unwrap_or(i32::MAX as u32)),
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
    }))
}

/// The number that getsockopt shows for a value of the stack.
fn as_number(value: SocketOption) -> i32 {
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
        | SocketOption::BufferLocks(value)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_stands_in_two_tables() {
        let mut all: Vec<(i32, i32)> = IN_STACK.iter().map(|entry| (entry.0, entry.1)).collect();
        all.extend(KEPT.iter().map(|entry| (entry.0, entry.1)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn every_option_of_the_stack_comes_back_as_it_was_set() {
        for (level, option, ..) in IN_STACK {
            let value = stack_value(*level, *option, 1).unwrap().unwrap();
            assert_eq!(as_number(value), 1, "option {option} of level {level}");
        }
    }

    #[test]
    fn negative_sizes_are_judged_as_on_linux() {
        assert_eq!(stack_value(SOL_SOCKET, SO_SNDBUF, -1), Ok(Some(SocketOption::SendBuffer(u32::MAX))));
        assert_eq!(stack_value(SOL_SOCKET, SO_RCVLOWAT, -1), Ok(Some(SocketOption::RecvLowWater(i32::MAX as u32))));
        assert_eq!(stack_value(SOL_TCP, TCP_USER_TIMEOUT, -1), Err(Errno::EINVAL));
        assert_eq!(stack_value(SOL_TCP, TCP_NODELAY, 5), Ok(Some(SocketOption::NoDelay(true))));
        assert_eq!(stack_value(SOL_TCP, TCP_INFO, 5), Ok(None));
    }
}
