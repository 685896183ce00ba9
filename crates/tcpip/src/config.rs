//! What a stack is told: the host's addresses, and the values of Linux's `net.ipv4` and `net.core` settings (see `sysctl`).

use crate::addr::Family;
use base::SimDuration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CongestionControl {
    Cubic,
    Reno,
}

/// How many bits of `eth0`'s address are its network's.
pub const NETWORK_PREFIX: u8 = 24;

/// Everybody on the host's own link (Linux's table `local`).
const LOOPBACK_BROADCAST: Ipv4Addr = Ipv4Addr::new(127, 255, 255, 255);

/// Sizes in bytes. `new` gives the values of Linux 6.18.
#[derive(Clone, Debug)]
pub struct Config {
    /// The address of `eth0`.
    pub address: Ipv4Addr,
    /// The IPv6 address of `eth0`; None where only the loopback interface has one.
    pub address6: Option<Ipv6Addr>,
    /// Broadcasts to this address reach the hosts on `eth0`'s link that are of its network, as those to 255.255.255.255 reach all
    /// that are on the link. None if a host has it.
    pub broadcast: Option<Ipv4Addr>,
    /// MTU of `eth0`.
    pub mtu: u16,
    /// tcp_rmem[0] and tcp_wmem[0], which a host that is never short of memory has no use for.
    pub recv_buffer_min: u32,
    pub send_buffer_min: u32,
    /// First size of a TCP socket's receive buffer, in bytes of memory, as SO_RCVBUF shows it; the first window is half of it.
    pub recv_buffer: u32,
    /// First size of a TCP socket's send buffer.
    pub send_buffer: u32,
    /// Dynamic right sizing of receive buffers, up to `recv_buffer_max`.
    pub recv_autotune: bool,
    /// Growth of send buffers with the congestion window, up to `send_buffer_max`.
    pub send_autotune: bool,
    /// Whether a small segment waits for the acknowledgement of another (Nagle's rule), as on Linux, without TCP_NODELAY.
    pub nagle: bool,
    /// tcp_rmem[2].
    pub recv_buffer_max: u32,
    /// tcp_wmem[2].
    pub send_buffer_max: u32,
    /// First sizes of the buffers of UDP sockets: net.core.rmem_default and wmem_default.
    pub udp_recv_buffer: u32,
    pub udp_send_buffer: u32,
    /// net.core.rmem_max and wmem_max: the largest arguments of SO_RCVBUF and SO_SNDBUF.
    pub recv_argument_max: u32,
    pub send_argument_max: u32,
    /// net.ipv4.ip_default_ttl.
    pub ttl: u32,
    /// net.ipv4.tcp_keepalive_time, tcp_keepalive_intvl and tcp_keepalive_probes.
    pub keep_idle: SimDuration,
    pub keep_interval: SimDuration,
    pub keep_count: u32,
    pub congestion_control: CongestionControl,
    /// net.ipv4.tcp_autocorking.
    pub autocork: bool,
    /// The driver of `eth0` forgets whose a packet is as soon as it has it, as TUN's does (skb_orphan): small queues then hold nothing.
    pub orphans_packets: bool,
    /// net.ipv4.tcp_notsent_lowat: what TCP_NOTSENT_LOWAT is at first.
    pub not_sent_low_water: u32,
    /// net.ipv4.tcp_min_tso_segs: segments of the shortest train.
    pub min_tso_segs: u32,
    /// net.ipv4.tcp_tso_win_divisor: a train waits for an acknowledgement that is near while less than this part of the window is open; 0 is
    /// never.
    pub tso_win_divisor: u32,
    /// The queue of `eth0` keeps each packet until it may depart, as `fq` does: connections pace what they send.
    pub departures_wait: bool,
    /// The pacing rate in percent of a window in a round trip, in slow start and after it (net.ipv4.tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
    pub pacing_slow_start: u32,
    pub pacing_avoidance: u32,
    /// net.ipv4.tcp_limit_output_bytes: what one socket may have in the host's interface, at most.
    pub limit_output_bytes: u32,
    /// Ticks of the kernel's clock in a second (CONFIG_HZ), by which congestion control computes.
    pub hz: u32,
    /// net.ipv4.ip_local_port_range, both ends included.
    pub ephemeral_ports: (u16, u16),
    /// net.ipv4.ip_autobind_reuse: when no port is left, bind(2) chooses one that others with
    /// SO_REUSEADDR have.
    pub autobind_reuse: bool,
    /// net.core.somaxconn.
    pub somaxconn: u32,
    /// net.ipv4.tcp_syncookies: 0 never, 1 when a listener has as many handshakes under way as its backlog, 2 always.
    pub syn_cookies: u32,
    /// net.ipv4.tcp_max_syn_backlog, which counts without cookies.
    pub max_syn_backlog: u32,
    pub time_wait: SimDuration,
    /// net.ipv4.tcp_fin_timeout.
    pub fin_timeout: SimDuration,
    pub sack: bool,
    /// net.ipv4.tcp_dsack.
    pub dsack: bool,
    /// net.ipv4.tcp_comp_sack_delay_ns, tcp_comp_sack_slack_ns and tcp_comp_sack_nr: how long an acknowledgement of data out of order waits for
    /// others at most, by how much that may be late, and how many are saved in a row.
    pub compression_delay: SimDuration,
    pub compression_slack: SimDuration,
    pub compressed_max: u32,
    /// net.ipv4.tcp_early_retrans: 3 and 4 are tail loss probes, anything less is none.
    pub early_retransmission: u32,
    /// net.ipv4.tcp_frto.
    pub frto: u32,
    /// net.ipv4.tcp_reordering and tcp_max_reordering, in segments.
    pub reordering: u32,
    pub reordering_max: u32,
    /// net.ipv4.tcp_rto_min_us and tcp_rto_max_ms.
    pub rto_min: SimDuration,
    pub rto_max: SimDuration,
    /// net.ipv4.tcp_invalid_ratelimit: at most one acknowledgement per this for segments without data that are out of window.
    pub challenge_interval: SimDuration,
    /// net.ipv4.tcp_abort_on_overflow: a connection for which the accept queue has no room is reset.
    pub abort_on_overflow: bool,
    /// net.ipv4.tcp_tso_rtt_log: each doubling of the round trip beyond 2 to this power, in microseconds, halves what near peers get more in a train.
    pub near_shift: u32,
    /// net.ipv4.tcp_tw_reuse: ports of TIME_WAIT records are used again by new connections with timestamps: 0 never, 1 always, 2 on the loopback
    /// interface; and net.ipv4.tcp_tw_reuse_delay, how old such a record is at least.
    pub time_wait_reuse: u32,
    pub time_wait_reuse_delay: SimDuration,
    pub timestamps: bool,
    /// Timestamps count from the host's start, not from a random number for each connection (net.ipv4.tcp_timestamps 2).
    pub timestamps_from_zero: bool,
    pub window_scaling: bool,
    pub slow_start_after_idle: bool,
    pub syn_retries: u32,
    /// net.ipv4.tcp_syn_linear_timeouts: so many SYNs more, before the interval begins to double.
    pub syn_linear_timeouts: u32,
    pub synack_retries: u32,
    /// net.ipv4.tcp_retrans_collapse: what is sent again takes in the small segments behind it.
    pub retransmission_collapse: bool,
    /// net.ipv4.tcp_retries2.
    pub retries: u32,
    /// net.ipv4.tcp_orphan_retries; 0 means 8.
    pub orphan_retries: u32,
}

impl Config {
    /// Linux's defaults for a host with this address.
    pub fn new(address: Ipv4Addr) -> Self {
        Config {
            address,
            address6: None,
            broadcast: Some(Ipv4Addr::from_bits(address.to_bits() | !(u32::MAX << (32 - NETWORK_PREFIX)))),
            mtu: 1500,
            recv_buffer_min: 4096,
            send_buffer_min: 4096,
            recv_buffer: 131_072,
            send_buffer: 16_384,
            recv_autotune: true,
            send_autotune: true,
            nagle: true,
            recv_buffer_max: 33_554_432,
            send_buffer_max: 4_194_304,
            udp_recv_buffer: 212_992,
            udp_send_buffer: 212_992,
            recv_argument_max: 4_194_304,
            send_argument_max: 4_194_304,
            ttl: 64,
            keep_idle: SimDuration::from_secs(7200),
            keep_interval: SimDuration::from_secs(75),
            keep_count: 9,
            congestion_control: CongestionControl::Cubic,
            autocork: true,
            orphans_packets: false,
            not_sent_low_water: u32::MAX,
            min_tso_segs: 2,
            tso_win_divisor: 3,
            departures_wait: false,
            pacing_slow_start: 200,
            pacing_avoidance: 120,
            limit_output_bytes: 4_194_304,
            ephemeral_ports: (32_768, 60_999),
            autobind_reuse: false,
            somaxconn: 4096,
            syn_cookies: 1,
            max_syn_backlog: 4096,
            time_wait: SimDuration::from_secs(60),
            fin_timeout: SimDuration::from_secs(60),
            sack: true,
            dsack: true,
            compression_delay: SimDuration::from_millis(1),
            compression_slack: SimDuration::from_micros(100),
            compressed_max: 44,
            early_retransmission: 3,
            frto: 2,
            reordering: 3,
            reordering_max: 300,
            retransmission_collapse: true,
            rto_min: SimDuration::from_millis(200),
            rto_max: SimDuration::from_secs(120),
            challenge_interval: SimDuration::from_millis(500),
            abort_on_overflow: false,
            near_shift: 9,
            time_wait_reuse: 2,
            time_wait_reuse_delay: SimDuration::from_secs(1),
            timestamps: true,
            timestamps_from_zero: false,
            window_scaling: true,
            slow_start_after_idle: true,
            syn_retries: 6,
            syn_linear_timeouts: 4,
            hz: 1000,
            synack_retries: 5,
            retries: 15,
            orphan_retries: 0,
        }
    }

    /// Whether this is an address of `eth0`.
    pub fn owns(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(v4) => v4 == self.address,
            IpAddr::V6(v6) => Some(v6) == self.address6,
        }
    }

    /// Whether packets to this address are for everybody on a link: that of `eth0` or the host's own.
    pub fn is_broadcast(&self, addr: IpAddr) -> bool {
        addr == LOOPBACK_BROADCAST || self.is_link_broadcast(addr)
    }

    /// Whether packets to this address are for everybody on a link, or for a group.
    pub fn is_for_many(&self, addr: IpAddr) -> bool {
        addr.is_multicast() || self.is_broadcast(addr)
    }

    /// Whether packets to this address are for everybody on the link of `eth0`.
    pub fn is_link_broadcast(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(v4) => v4.is_broadcast() || Some(v4) == self.broadcast,
            IpAddr::V6(_) => false,
        }
    }

    /// The address of `eth0` that packets of this family leave from.
    pub(crate) fn address_of(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::V4 => Some(self.address.into()),
            Family::V6 => self.address6.map(IpAddr::V6),
        }
    }
}
