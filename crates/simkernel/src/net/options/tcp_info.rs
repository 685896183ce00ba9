//! TCP_INFO: the stack's snapshot of a connection in Linux's layout.

use base::SimDuration;
use linux_abi::net::TcpInfo;

fn micros(time: SimDuration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

fn millis(time: SimDuration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// The stack's snapshot in Linux's layout.
pub(crate) fn tcp_info(info: &tcpip::TcpInfo) -> TcpInfo {
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
}
