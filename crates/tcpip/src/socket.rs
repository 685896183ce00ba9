//! What sockets of all kinds share: ids, readiness, options.

use crate::addr::{Family, Interface};
use crate::config::CongestionControl;
use crate::error::SocketError;
use crate::wire::ip::IpHeader;
use base::SimDuration;
use bitflags::bitflags;
use std::net::IpAddr;

/// Names a socket of one stack for its lifetime; a later socket in the same place has another generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The socket's place in its stack: a small number, used again after its end. For tables beside the stack.
    pub fn place(self) -> usize {
        self.index as usize
    }

    /// A number that no other socket of the stack has.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The socket of this `number`.
    pub fn from_number(number: u64) -> SocketId {
        SocketId { index: number as u32, generation: (number >> 32) as u32 }
    }
}

bitflags! {
    /// What poll(2) would report. `tcp_poll` and `datagram_poll` of Linux define each.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Readiness: u8 {
        /// POLLIN: data, end of stream, or a connection to accept.
        const READABLE = 0x01;
        /// POLLOUT: a third of the send buffer is free, or sending fails at once.
        const WRITABLE = 0x02;
        /// POLLHUP: both directions are shut, or it never was connected.
        const HANGUP = 0x04;
        /// POLLRDHUP: the peer sends no more.
        const READ_HANGUP = 0x08;
        /// POLLERR: `take_error` would give one.
        const ERROR = 0x10;
    }
}

bitflags! {
    /// How bytes are written to a connection.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct SendFlags: u8 {
        /// MSG_MORE: a partial segment waits for the next write.
        const MORE = 0x01;
        /// MSG_EOR: the last byte ends a record, which shares no segment with what follows.
        const RECORD = 0x02;
        /// The same call brought bytes before these.
        const CONTINUED = 0x04;
        /// The same call will bring more after these, if all of them are taken.
        const CONTINUES = 0x08;
        /// The call has slept for want of room: it wants room for another buffer, though the last may take more (sk_stream_wait_memory).
        const RESUMED = 0x10;
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shutdown {
    Read,
    Write,
    Both,
}

impl Shutdown {
    pub(crate) fn reads(self) -> bool {
        self != Shutdown::Write
    }
    pub(crate) fn writes(self) -> bool {
        self != Shutdown::Read
    }
    /// Both of these.
    pub(crate) fn and(self, other: Shutdown) -> Shutdown {
        if self == other { self } else { Shutdown::Both }
    }
}

/// How a connect went that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Connected {
    /// TCP: the SYN is on its way (EINPROGRESS for a non-blocking caller); WRITABLE or ERROR tell the end.
    Started,
    /// The socket is connected.
    Done,
}

/// A socket option with its value, for [`crate::Stack::set_option`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SocketOption {
    ReuseAddress(bool),
    ReusePort(bool),
    KeepAlive(bool),
    Broadcast(bool),
    /// SO_LINGER: `None` is off. A zero duration makes close send a RST.
    Linger(Option<SimDuration>),
    /// SO_SNDBUF: the argument before Linux doubles it.
    SendBuffer(u32),
    /// SO_RCVBUF: the argument before Linux doubles it.
    RecvBuffer(u32),
    /// SO_BUF_LOCK: 1 for the send buffer, 2 for the receive buffer, whose sizes stay as they are.
    BufferLocks(u32),
    RecvLowWater(u32),
    NoDelay(bool),
    Cork(bool),
    QuickAck(bool),
    KeepIdle(SimDuration),
    KeepInterval(SimDuration),
    KeepCount(u32),
    /// TCP_USER_TIMEOUT; zero is off.
    UserTimeout(SimDuration),
    SynCount(u32),
    /// TCP_DEFER_ACCEPT: the handshake waits so many seconds, up to the end of a timeout, for the
    /// client's first byte.
    DeferAccept(u32),
    /// TCP_MAXSEG: an upper bound for both directions; 0 is none.
    MaxSegment(u32),
    /// Bytes; 0 for the system's value (net.ipv4.tcp_notsent_lowat).
    NotSentLowWater(u32),
    /// TCP_LINGER2: FIN_WAIT2 of an orphan; `None` is forever gone at once (negative values).
    Linger2(SimDuration),
    WindowClamp(u32),
    /// In bytes per second; all ones is no limit.
    MaxPacingRate(u64),
    Congestion(CongestionControl),
    /// IP_TOS.
    TypeOfService(u8),
    /// IP_TTL.
    TimeToLive(u8),
    /// IPV6_V6ONLY.
    V6Only(bool),
    /// IPV6_TCLASS.
    TrafficClass(u8),
    /// IPV6_UNICAST_HOPS.
    HopLimit(u8),
    /// IP_RECVERR.
    RecvErrors(bool),
    /// IPV6_RECVERR.
    RecvErrors6(bool),
    /// IP_MTU_DISCOVER, as Linux numbers it.
    MtuDiscover(u32),
    /// IPV6_MTU_DISCOVER.
    MtuDiscover6(u32),
    /// IPV6_DONTFRAG.
    DontFragment6(bool),
    /// SO_BINDTODEVICE.
    Device(Option<Interface>),
    /// IP_MINTTL.
    LeastHops(u32),
    /// IPV6_MINHOPCOUNT.
    LeastHops6(u32),
    /// IP_FREEBIND, IP_TRANSPARENT and their like of IPv6: any of them.
    FreeBind(bool),
}

/// Names an option, for [`crate::Stack::option`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionName {
    ReuseAddress,
    ReusePort,
    KeepAlive,
    Broadcast,
    Linger,
    SendBuffer,
    RecvBuffer,
    BufferLocks,
    RecvLowWater,
    NoDelay,
    Cork,
    QuickAck,
    KeepIdle,
    KeepInterval,
    KeepCount,
    UserTimeout,
    SynCount,
    DeferAccept,
    MaxSegment,
    NotSentLowWater,
    Linger2,
    WindowClamp,
    MaxPacingRate,
    Congestion,
    TypeOfService,
    TimeToLive,
    V6Only,
    TrafficClass,
    HopLimit,
    RecvErrors,
    RecvErrors6,
    MtuDiscover,
    MtuDiscover6,
    DontFragment6,
    Device,
    LeastHops,
    LeastHops6,
    FreeBind,
}

/// The options of one socket. Inherited by accepted connections from their listener.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub family: Family,
    /// The user that made it, which SO_REUSEPORT shares ports with.
    pub user: u32,
    /// SO_BINDTODEVICE.
    pub device: Option<Interface>,
    pub reuse_address: bool,
    pub reuse_port: bool,
    pub keepalive: bool,
    pub broadcast: bool,
    /// SO_LINGER, in seconds; all ones is none.
    pub linger: u32,
    pub send_buffer: u32,
    pub recv_buffer: u32,
    pub send_buffer_locked: bool,
    pub recv_buffer_locked: bool,
    pub recv_low_water: u32,
    pub no_delay: bool,
    pub cork: bool,
    /// In seconds.
    pub keep_idle: u32,
    pub keep_interval: u32,
    pub keep_count: u8,
    /// In milliseconds; 0 is none.
    pub user_timeout: u32,
    /// 0 is the system's value.
    pub syn_count: u8,
    /// TCP_DEFER_ACCEPT as a number of timeouts, each twice as long as the one before; 0 is none.
    pub deferred_timeouts: u8,
    pub max_segment: u16,
    /// 0 is the system's value.
    pub not_sent_low_water: u32,
    /// In seconds. What `tcp_fin_timeout` has beyond 18 hours is 18 hours.
    pub linger2: u16,
    pub window_clamp: u32,
    /// In bytes per second; all ones is no limit.
    pub max_pacing_rate: u64,
    pub congestion: CongestionControl,
    pub tos: u8,
    pub ttl: u8,
    pub v6_only: bool,
    pub traffic_class: u8,
    pub hop_limit: u8,
    /// By family.
    pub recv_errors: [bool; 2],
    pub mtu_discover: [u8; 2],
    pub dont_fragment6: bool,
    /// By family: packets with fewer hops left are none of this stream's.
    pub least_hops: [u8; 2],
    /// bind(2) takes addresses that are not the host's.
    pub free_bind: bool,
    /// TCP_QUICKACK was turned off before there was a connection.
    pub interactive: bool,
}

/// IP_PMTUDISC_WANT (the default), IP_PMTUDISC_DO, IP_PMTUDISC_PROBE: the values by which a packet
/// must not be cut on its way.
pub(crate) const PMTUDISC_WANT: u8 = 1;
const PMTUDISC_DO: u8 = 2;
const PMTUDISC_PROBE: u8 = 3;

/// After how many seconds each timeout of TCP_DEFER_ACCEPT ends (secs_to_retrans).
fn deferral_ends() -> impl Iterator<Item = u32> {
    /// TCP_RTO_MAX_SEC.
    const LONGEST: u32 = 120;
    let next = |&(timeout, end): &(u32, u32)| {
        let timeout = (timeout * 2).min(LONGEST);
        Some((timeout, end + timeout))
    };
    std::iter::successors(Some((1, 1)), next).map(|(_, end)| end).take(u8::MAX.into())
}

/// How many timeouts of TCP_DEFER_ACCEPT last so many seconds.
pub(crate) fn deferred_timeouts(seconds: u32) -> u8 {
    let shorter = deferral_ends().take_while(|end| *end < seconds).count();
    if seconds == 0 { 0 } else { (shorter + 1).min(u8::MAX.into()) as u8 }
}

/// How many seconds so many timeouts of TCP_DEFER_ACCEPT last (retrans_to_secs).
pub(crate) fn deferred_seconds(timeouts: u8) -> u32 {
    deferral_ends().take(timeouts.into()).last().unwrap_or(0)
}

impl Settings {
    /// No SO_LINGER.
    pub const NO_LINGER: u32 = u32::MAX;

    /// TCP_USER_TIMEOUT; zero is none.
    pub fn user_timeout(&self) -> SimDuration {
        SimDuration::from_millis(self.user_timeout.into())
    }

    /// The header of a packet that this socket sends.
    pub fn header(&self, src: IpAddr, dst: IpAddr) -> IpHeader {
        let (tos, ttl) = match dst {
            IpAddr::V4(_) => (self.tos, self.ttl),
            IpAddr::V6(_) => (self.traffic_class, self.hop_limit),
        };
        let whole = matches!(self.mtu_discover[0], PMTUDISC_WANT | PMTUDISC_DO | PMTUDISC_PROBE);
        let dont_fragment = dst.is_ipv6() || whole;
        IpHeader { tos, ttl, dont_fragment, ..IpHeader::new(src, dst) }
    }

    /// Whether datagrams of this family that are larger than the MTU are refused rather than cut.
    /// What a control message says goes before IPV6_DONTFRAG.
    pub fn keeps_whole(&self, over: Family, asked: Option<bool>) -> bool {
        matches!(self.mtu_discover[over as usize], PMTUDISC_DO | PMTUDISC_PROBE)
            || (over == Family::V6 && asked.unwrap_or(self.dont_fragment6))
    }

    /// What IP_MINTTL or IPV6_MINHOPCOUNT demands of this packet.
    pub fn least_hops(&self, ip: &IpHeader) -> u8 {
        self.least_hops[usize::from(ip.is_v6())]
    }

    /// Whether packets to this address can be this socket's. Errors: `AddressFamilyNotSupported`; `NetworkUnreachable` for an
    /// IPv4 address and IPV6_V6ONLY.
    pub fn admits(&self, addr: IpAddr) -> Result<(), SocketError> {
        match (self.family, addr) {
            (Family::V4, IpAddr::V6(_)) => Err(SocketError::AddressFamilyNotSupported),
            (Family::V6, IpAddr::V4(_)) if self.v6_only => Err(SocketError::NetworkUnreachable),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deferrals_are_sums_of_whole_timeouts() {
        for (seconds, timeouts, kept) in [(0, 0, 0), (1, 1, 1), (2, 2, 3), (3, 2, 3), (4, 3, 7), (200, 8, 247)] {
            assert_eq!(deferred_timeouts(seconds), timeouts, "{seconds} s");
            assert_eq!(deferred_seconds(timeouts), kept, "{seconds} s");
        }
        assert_eq!(deferred_timeouts(u32::MAX), u8::MAX);
    }
}
