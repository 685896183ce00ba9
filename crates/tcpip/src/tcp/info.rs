//! `TCP_INFO` (tcp(7), include/uapi/linux/tcp.h): a snapshot of one connection.

use super::connection::{Connection, State};
use super::controller::{INITIAL_WINDOW, NO_THRESHOLD, Phase};
use base::{SimDuration, SimTime};

/// Linux's numbers of `tcpi_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TcpState {
    Established = 1,
    SynSent = 2,
    SynReceived = 3,
    FinWait1 = 4,
    FinWait2 = 5,
    TimeWait = 6,
    #[default]
    Close = 7,
    CloseWait = 8,
    LastAck = 9,
    Listen = 10,
    Closing = 11,
}

impl From<State> for TcpState {
    fn from(state: State) -> Self {
        match state {
            State::SynSent => TcpState::SynSent,
            State::SynReceived => TcpState::SynReceived,
            State::Established => TcpState::Established,
            State::FinWait1 => TcpState::FinWait1,
            State::FinWait2 => TcpState::FinWait2,
            State::CloseWait => TcpState::CloseWait,
            State::Closing => TcpState::Closing,
            State::LastAck => TcpState::LastAck,
            State::TimeWait => TcpState::TimeWait,
            State::Closed => TcpState::Close,
        }
    }
}

/// The fields of `struct tcp_info`, with its names without the prefix and its units as types; counts are in segments or bytes
/// as Linux has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    pub state: TcpState,
    /// 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss.
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    /// TCPI_OPT_TIMESTAMPS 1, TCPI_OPT_SACK 2, TCPI_OPT_WSCALE 4.
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub rto: SimDuration,
    /// The delay of the next delayed acknowledgement.
    pub ato: SimDuration,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    /// Listener: length of the accept queue.
    pub unacked: u32,
    /// Listener: limit of the accept queue.
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: SimDuration,
    pub last_data_recv: SimDuration,
    pub last_ack_recv: SimDuration,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: SimDuration,
    pub rttvar: SimDuration,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: SimDuration,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: SimDuration,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivered: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    /// In bytes per second; all ones as long as nothing is known.
    pub pacing_rate: u64,
    /// SO_MAX_PACING_RATE, in bytes per second; all ones without.
    pub max_pacing_rate: u64,
    /// In bytes per second.
    pub delivery_rate: u64,
    /// The program, not the network, decided the delivery rate.
    pub delivery_rate_app_limited: bool,
    /// How long something was to be sent, and how long of that the peer's window or the send buffer held it back.
    pub busy_time: SimDuration,
    pub rwnd_limited: SimDuration,
    pub sndbuf_limited: SimDuration,
    /// Timeouts after which packets would have taken another path.
    pub rehash: u32,
    pub total_rto: u16,
    pub total_rto_recoveries: u16,
    pub total_rto_time: SimDuration,
}

impl TcpInfo {
    /// Of a stream that never had a connection (`tcp_init_sock`): times count from the start of the host.
    pub(crate) fn unconnected(now: SimTime) -> Self {
        let uptime = now - SimTime::ZERO;
        TcpInfo {
            rto: SimDuration::from_secs(1),
            rttvar: SimDuration::from_millis(250),
            min_rtt: SimDuration::from_micros(u32::MAX.into()),
            snd_mss: LEAST_MSS,
            snd_ssthresh: NO_THRESHOLD,
            snd_cwnd: INITIAL_WINDOW,
            reordering: 3,
            last_data_sent: uptime,
            last_data_recv: uptime,
            last_ack_recv: uptime,
            pacing_rate: u64::MAX,
            max_pacing_rate: u64::MAX,
            delivery_rate_app_limited: true,
            ..TcpInfo::default()
        }
    }
}

/// The MSS of whoever has not announced one (TCP_MSS_DEFAULT).
const LEAST_MSS: u32 = 536;

/// What keeps a sender from being done (tcp_chrono of Linux).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Limit {
    #[default]
    Idle,
    /// The network, or the congestion window.
    Busy,
    PeerWindow,
    SendBuffer,
}

/// How long the sender was limited by what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chronograph {
    limit: Limit,
    since: SimTime,
    /// By limit, but for idleness.
    spent: [SimDuration; 3],
}

impl Chronograph {
    fn turn_to(&mut self, now: SimTime, limit: Limit) {
        if limit != self.limit {
            self.spent = self.spent_at(now);
            (self.limit, self.since) = (limit, now);
        }
    }

    fn spent_at(&self, now: SimTime) -> [SimDuration; 3] {
        let mut spent = self.spent;
        if self.limit != Limit::Idle {
            let place = &mut spent[self.limit as usize - 1];
            *place = place.saturating_add(now.saturating_since(self.since));
        }
        spent
    }
}

/// Recoveries from retransmission timeouts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeoutRecoveries {
    count: u16,
    since: Option<SimTime>,
    spent: SimDuration,
}

impl TimeoutRecoveries {
    /// The first timeout after progress.
    pub fn begin(&mut self, now: SimTime) {
        self.count = self.count.saturating_add(1);
        self.since = Some(now);
    }

    pub fn end(&mut self, now: SimTime) {
        if let Some(since) = self.since.take() {
            self.spent = self.spent.saturating_add(now.saturating_since(since));
        }
    }

    fn spent_at(&self, now: SimTime) -> SimDuration {
        self.since.map_or(self.spent, |since| self.spent.saturating_add(now.saturating_since(since)))
    }
}

impl Connection {
    /// Notes by what sending is limited from now on (tcp_chrono_start, tcp_chrono_stop).
    pub fn note_limit(&mut self, now: SimTime) {
        let limit = self.limit();
        self.chronograph.turn_to(now, limit);
    }

    fn limit(&self) -> Limit {
        if self.snd.queue.len() == 0 {
            return Limit::Idle;
        }
        let room_in_network = self.board.in_flight() < self.cc.cwnd();
        let usable = (self.snd.una + u64::from(self.snd.window)).saturating_sub(self.snd.nxt);
        match self.not_sent() as u64 {
            0 if self.snd.no_space && room_in_network && self.state.may_send() => Limit::SendBuffer,
            unsent if room_in_network && usable < unsent.min(u64::from(self.snd.mss)) => Limit::PeerWindow,
            _ => Limit::Busy,
        }
    }

    pub fn info(&self, now: SimTime) -> TcpInfo {
        let counters = &self.counters;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let spent = self.chronograph.spent_at(now);
        TcpInfo {
            state: self.state.into(),
            ca_state: match self.recovery.phase {
                Phase::Open => 0,
                Phase::Disorder => 1,
                Phase::Cwr => 2,
                Phase::Recovery => 3,
                Phase::Loss => 4,
            },
            retransmits: self.timers.timeouts.min(255) as u8,
            probes: self.timers.window_probes.max(self.timers.keepalive_probes).min(255) as u8,
            backoff: self.rtt.backoff.max(self.timers.window_backoff).min(255) as u8,
            options: flag(self.timestamps_enabled, 1) | flag(self.sack_enabled, 2) | flag(self.scaling_enabled, 4),
            snd_wscale: self.snd.scale,
            rcv_wscale: self.rcv.scale,
            rto: self.rtt.rto(),
            ato: self.acks.delay,
            snd_mss: self.payload_mss(),
            rcv_mss: self.rcv.mss,
            unacked: self.board.packets_out(),
            sacked: self.board.arrived_early(),
            lost: self.board.lost,
            retrans: self.board.retransmitted,
            last_data_sent: now.saturating_since(self.snd.last_sent_at),
            last_data_recv: self.acks.since_data(now),
            last_ack_recv: now.saturating_since(self.acks.last_heard_at),
            pmtu: match self.interface {
                // IPv4 routes cap it (ip_dst_mtu_maybe_forward), IPv6 routes have the interface's.
                crate::addr::Interface::Loopback if self.tuple.family() == crate::addr::Family::V6 => 65_536,
                crate::addr::Interface::Loopback => 65_535,
                crate::addr::Interface::Ethernet => u32::from(self.config.mtu),
            },
            rcv_ssthresh: self.sizing.open,
            rtt: self.rtt.srtt(),
            rttvar: self.rtt.mean_deviation(),
            snd_ssthresh: self.cc.ssthresh(),
            snd_cwnd: self.cc.cwnd(),
            advmss: self.advertised_payload(),
            reordering: self.recovery.reordering,
            rcv_rtt: self.sizing.recv_rtt,
            rcv_space: self.sizing.space(),
            total_retrans: counters.retransmitted,
            bytes_acked: counters.bytes_acked,
            bytes_received: counters.bytes_received,
            segs_out: counters.segments_out,
            segs_in: counters.segments_in,
            notsent_bytes: self.not_sent() as u32,
            min_rtt: self.rtt.min().unwrap_or_default(),
            data_segs_in: counters.data_segments_in,
            data_segs_out: counters.data_segments_out,
            delivered: counters.delivered,
            bytes_sent: counters.bytes_sent,
            bytes_retrans: counters.bytes_retransmitted,
            dsack_dups: counters.dsack_duplicates,
            reord_seen: counters.reordering_seen,
            rcv_ooopack: counters.out_of_order_in,
            snd_wnd: self.snd.window,
            rcv_wnd: self.rcv.window,
            pacing_rate: self.pacing_rate().unwrap_or(u64::MAX),
            max_pacing_rate: self.settings.max_pacing_rate,
            delivery_rate: self.cc.delivery().bytes_per_second(self.payload_mss()),
            delivery_rate_app_limited: self.cc.delivery().app_limited,
            busy_time: spent.iter().fold(SimDuration::ZERO, |sum, time| sum.saturating_add(*time)),
            rwnd_limited: spent[1],
            sndbuf_limited: spent[2],
            rehash: counters.timeouts,
            total_rto: counters.timeouts.min(65_535) as u16,
            total_rto_recoveries: self.timeout_recoveries.count,
            total_rto_time: self.timeout_recoveries.spent_at(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn time_is_spent_by_what_limits() {
        let mut chronograph = Chronograph::default();
        for (ms, limit) in [(10, Limit::Busy), (30, Limit::PeerWindow), (60, Limit::SendBuffer), (100, Limit::Idle)] {
            chronograph.turn_to(at(ms), limit);
            chronograph.turn_to(at(ms), limit);
        }
        let spent = [20, 30, 40].map(SimDuration::from_millis);
        assert_eq!(chronograph.spent_at(at(500)), spent);
        chronograph.turn_to(at(600), Limit::Busy);
        assert_eq!(chronograph.spent_at(at(605))[0], SimDuration::from_millis(25));
    }

    #[test]
    fn a_recovery_that_goes_on_counts_until_now() {
        let mut recoveries = TimeoutRecoveries::default();
        recoveries.begin(at(100));
        assert_eq!(recoveries.spent_at(at(150)), SimDuration::from_millis(50));
        recoveries.end(at(200));
        recoveries.end(at(300));
        recoveries.begin(at(1000));
        assert_eq!((recoveries.count, recoveries.spent_at(at(1001))), (2, SimDuration::from_millis(101)));
    }
}
