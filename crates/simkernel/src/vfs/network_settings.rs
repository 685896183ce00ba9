//! Settings of `/proc/sys/net` that change nothing in the simulated network, with the values that Linux begins with (ip-sysctl). They are shown,
//! since programs read them; nobody can give them another value.

use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What stands below `net`.
const PLAIN: &[(&str, &str)] = &[
    ("core/busy_poll", "0"),
    ("core/busy_read", "0"),
    ("core/default_qdisc", "pfifo_fast"),
    ("core/dev_weight", "64"),
    ("core/message_burst", "10"),
    ("core/message_cost", "5"),
    ("core/netdev_budget", "300"),
    ("core/netdev_budget_usecs", "8000"),
    ("core/netdev_max_backlog", "1000"),
    ("core/optmem_max", "131072"),
    ("core/warnings", "0"),
    ("ipv4/fib_multipath_hash_fields", "7"),
    ("ipv4/fib_multipath_hash_policy", "0"),
    ("ipv4/fib_multipath_use_neigh", "0"),
    ("ipv4/fib_notify_on_flag_change", "0"),
    ("ipv4/fib_sync_mem", "524288"),
    ("ipv4/fwmark_reflect", "0"),
    ("ipv4/icmp_echo_enable_probe", "0"),
    ("ipv4/icmp_echo_ignore_all", "0"),
    ("ipv4/icmp_echo_ignore_broadcasts", "1"),
    ("ipv4/icmp_errors_use_inbound_ifaddr", "0"),
    ("ipv4/icmp_ignore_bogus_error_responses", "1"),
    ("ipv4/icmp_msgs_burst", "50"),
    ("ipv4/icmp_msgs_per_sec", "1000"),
    ("ipv4/icmp_ratelimit", "1000"),
    ("ipv4/icmp_ratemask", "6168"),
    ("ipv4/igmp_link_local_mcast_reports", "1"),
    ("ipv4/igmp_max_memberships", "20"),
    ("ipv4/igmp_max_msf", "10"),
    ("ipv4/igmp_qrv", "2"),
    ("ipv4/inet_peer_maxttl", "600"),
    ("ipv4/inet_peer_minttl", "120"),
    ("ipv4/inet_peer_threshold", "65664"),
    ("ipv4/ip_autobind_reuse", "0"),
    ("ipv4/ip_dynaddr", "0"),
    ("ipv4/ip_early_demux", "1"),
    ("ipv4/ip_forward", "0"),
    ("ipv4/ip_forward_update_priority", "1"),
    ("ipv4/ip_forward_use_pmtu", "0"),
    ("ipv4/ip_local_reserved_ports", ""),
    ("ipv4/ip_no_pmtu_disc", "0"),
    ("ipv4/ip_nonlocal_bind", "0"),
    ("ipv4/ipfrag_high_thresh", "4194304"),
    ("ipv4/ipfrag_low_thresh", "3145728"),
    ("ipv4/ipfrag_max_dist", "64"),
    ("ipv4/ipfrag_secret_interval", "0"),
    ("ipv4/ipfrag_time", "30"),
    ("ipv4/ping_group_range", "0\t2147483647"),
    ("ipv4/route/error_burst", "1250"),
    ("ipv4/route/error_cost", "250"),
    ("ipv4/route/gc_elasticity", "8"),
    ("ipv4/route/gc_interval", "60"),
    ("ipv4/route/gc_min_interval_ms", "500"),
    ("ipv4/route/gc_thresh", "-1"),
    ("ipv4/route/gc_timeout", "300"),
    ("ipv4/route/max_size", "2147483647"),
    ("ipv4/route/min_adv_mss", "256"),
    ("ipv4/route/min_pmtu", "552"),
    ("ipv4/route/mtu_expires", "600"),
    ("ipv4/route/redirect_load", "5"),
    ("ipv4/route/redirect_number", "9"),
    ("ipv4/route/redirect_silence", "5120"),
    ("ipv4/tcp_adv_win_scale", "1"),
    ("ipv4/tcp_app_win", "31"),
    ("ipv4/tcp_backlog_ack_defer", "1"),
    ("ipv4/tcp_base_mss", "1024"),
    ("ipv4/tcp_challenge_ack_limit", "2147483647"),
    ("ipv4/tcp_early_demux", "1"),
    ("ipv4/tcp_ecn", "2"),
    ("ipv4/tcp_ecn_fallback", "1"),
    ("ipv4/tcp_fack", "0"),
    ("ipv4/tcp_fastopen", "0"),
    ("ipv4/tcp_fastopen_blackhole_timeout_sec", "0"),
    ("ipv4/tcp_max_orphans", "131072"),
    ("ipv4/tcp_max_tw_buckets", "262144"),
    ("ipv4/tcp_mem", "383706\t511608\t767412"),
    ("ipv4/tcp_min_rtt_wlen", "300"),
    ("ipv4/tcp_min_snd_mss", "48"),
    ("ipv4/tcp_mtu_probe_floor", "48"),
    ("ipv4/tcp_mtu_probing", "0"),
    ("ipv4/tcp_no_metrics_save", "0"),
    ("ipv4/tcp_no_ssthresh_metrics_save", "1"),
    ("ipv4/tcp_pingpong_thresh", "1"),
    ("ipv4/tcp_probe_interval", "600"),
    ("ipv4/tcp_probe_threshold", "8"),
    ("ipv4/tcp_recovery", "1"),
    ("ipv4/tcp_reflect_tos", "0"),
    ("ipv4/tcp_retries1", "3"),
    ("ipv4/tcp_rfc1337", "0"),
    ("ipv4/tcp_shrink_window", "0"),
    ("ipv4/tcp_stdurg", "0"),
    ("ipv4/tcp_thin_linear_timeouts", "0"),
    ("ipv4/tcp_workaround_signed_windows", "0"),
    ("ipv4/udp_early_demux", "1"),
    ("ipv4/udp_mem", "767415\t1023220\t1534830"),
    ("ipv4/udp_rmem_min", "4096"),
    ("ipv4/udp_wmem_min", "4096"),
    ("ipv6/anycast_src_echo_reply", "0"),
    ("ipv6/auto_flowlabels", "1"),
    ("ipv6/bindv6only", "0"),
    ("ipv6/fib_multipath_hash_fields", "7"),
    ("ipv6/fib_multipath_hash_policy", "0"),
    ("ipv6/fib_notify_on_flag_change", "0"),
    ("ipv6/flowlabel_consistency", "1"),
    ("ipv6/flowlabel_reflect", "0"),
    ("ipv6/fwmark_reflect", "0"),
    ("ipv6/icmp/echo_ignore_all", "0"),
    ("ipv6/icmp/echo_ignore_anycast", "0"),
    ("ipv6/icmp/echo_ignore_multicast", "0"),
    ("ipv6/icmp/error_anycast_as_unicast", "0"),
    ("ipv6/icmp/ratelimit", "100"),
    ("ipv6/icmp/ratemask", "0-1,3-127"),
    ("ipv6/idgen_delay", "1"),
    ("ipv6/idgen_retries", "3"),
    ("ipv6/ip6frag_high_thresh", "4194304"),
    ("ipv6/ip6frag_low_thresh", "3145728"),
    ("ipv6/ip6frag_secret_interval", "0"),
    ("ipv6/ip6frag_time", "60"),
    ("ipv6/ip_nonlocal_bind", "0"),
    ("ipv6/max_dst_opts_length", "2147483647"),
    ("ipv6/max_dst_opts_number", "8"),
    ("ipv6/max_hbh_length", "2147483647"),
    ("ipv6/max_hbh_opts_number", "8"),
    ("ipv6/mld_max_msf", "64"),
    ("ipv6/mld_qrv", "2"),
    ("ipv6/route/gc_elasticity", "9"),
    ("ipv6/route/gc_interval", "30"),
    ("ipv6/route/gc_min_interval_ms", "500"),
    ("ipv6/route/gc_thresh", "1024"),
    ("ipv6/route/gc_timeout", "60"),
    ("ipv6/route/max_size", "2147483647"),
    ("ipv6/route/min_adv_mss", "1220"),
    ("ipv6/route/mtu_expires", "600"),
    ("ipv6/route/skip_notify_on_dev_down", "0"),
    ("unix/max_dgram_qlen", "512"),
];

/// Devices for which there is a value of each setting below `conf`: all, those to come, and the host's own.
const DEVICES: [&str; 4] = ["all", "default", "eth0", "lo"];

/// Settings of IPv4 devices: the values of all, of those to come and of `eth0`, and of `lo`.
const DEVICES_V4: &[(&str, [&str; 3])] = &[
    ("accept_local", ["0", "0", "0"]),
    ("accept_redirects", ["1", "1", "1"]),
    ("accept_source_route", ["0", "1", "1"]),
    ("arp_accept", ["0", "0", "0"]),
    ("arp_announce", ["0", "0", "0"]),
    ("arp_evict_nocarrier", ["1", "1", "1"]),
    ("arp_filter", ["0", "0", "0"]),
    ("arp_ignore", ["0", "0", "0"]),
    ("arp_notify", ["0", "0", "0"]),
    ("bc_forwarding", ["0", "0", "0"]),
    ("bootp_relay", ["0", "0", "0"]),
    ("disable_policy", ["0", "0", "1"]),
    ("drop_gratuitous_arp", ["0", "0", "0"]),
    ("drop_unicast_in_l2_multicast", ["0", "0", "0"]),
    ("force_igmp_version", ["0", "0", "0"]),
    ("forwarding", ["0", "0", "0"]),
    ("igmpv2_unsolicited_report_interval", ["10000", "10000", "10000"]),
    ("igmpv3_unsolicited_report_interval", ["1000", "1000", "1000"]),
    ("ignore_routes_with_linkdown", ["0", "0", "0"]),
    ("log_martians", ["0", "0", "0"]),
    ("medium_id", ["0", "0", "0"]),
    ("promote_secondaries", ["0", "0", "0"]),
    ("proxy_arp", ["0", "0", "0"]),
    ("proxy_arp_pvlan", ["0", "0", "0"]),
    ("route_localnet", ["0", "0", "0"]),
    ("rp_filter", ["0", "0", "0"]),
    ("secure_redirects", ["1", "1", "1"]),
    ("send_redirects", ["1", "1", "1"]),
    ("shared_media", ["1", "1", "1"]),
    ("src_valid_mark", ["0", "0", "0"]),
    ("tag", ["0", "0", "0"]),
];

/// The same of IPv6.
const DEVICES_V6: &[(&str, [&str; 3])] = &[
    ("accept_dad", ["0", "1", "-1"]),
    ("accept_ra", ["1", "1", "1"]),
    ("accept_ra_defrtr", ["1", "1", "1"]),
    ("accept_ra_from_local", ["0", "0", "0"]),
    ("accept_ra_min_hop_limit", ["1", "1", "1"]),
    ("accept_ra_min_lft", ["0", "0", "0"]),
    ("accept_ra_mtu", ["1", "1", "1"]),
    ("accept_ra_pinfo", ["1", "1", "1"]),
    ("accept_ra_rt_info_max_plen", ["0", "0", "0"]),
    ("accept_ra_rt_info_min_plen", ["0", "0", "0"]),
    ("accept_ra_rtr_pref", ["1", "1", "1"]),
    ("accept_redirects", ["1", "1", "1"]),
    ("accept_source_route", ["0", "0", "0"]),
    ("addr_gen_mode", ["0", "0", "0"]),
    ("autoconf", ["1", "1", "1"]),
    ("dad_transmits", ["1", "1", "1"]),
    ("disable_ipv6", ["0", "0", "0"]),
    ("disable_policy", ["0", "0", "0"]),
    ("drop_unicast_in_l2_multicast", ["0", "0", "0"]),
    ("drop_unsolicited_na", ["0", "0", "0"]),
    ("enhanced_dad", ["1", "1", "1"]),
    ("force_mld_version", ["0", "0", "0"]),
    ("force_tllao", ["0", "0", "0"]),
    ("forwarding", ["0", "0", "0"]),
    ("hop_limit", ["64", "64", "64"]),
    ("ignore_routes_with_linkdown", ["0", "0", "0"]),
    ("keep_addr_on_down", ["0", "0", "0"]),
    ("max_addresses", ["16", "16", "16"]),
    ("max_desync_factor", ["600", "600", "600"]),
    ("mldv1_unsolicited_report_interval", ["10000", "10000", "10000"]),
    ("mldv2_unsolicited_report_interval", ["1000", "1000", "1000"]),
    ("mtu", ["1280", "1280", "65536"]),
    ("ndisc_evict_nocarrier", ["1", "1", "1"]),
    ("ndisc_notify", ["0", "0", "0"]),
    ("ndisc_tclass", ["0", "0", "0"]),
    ("optimistic_dad", ["0", "0", "0"]),
    ("proxy_ndp", ["0", "0", "0"]),
    ("ra_defrtr_metric", ["1024", "1024", "1024"]),
    ("regen_max_retry", ["3", "3", "3"]),
    ("router_probe_interval", ["60", "60", "60"]),
    ("router_solicitation_delay", ["1", "1", "1"]),
    ("router_solicitation_interval", ["4", "4", "4"]),
    ("router_solicitation_max_interval", ["3600", "3600", "3600"]),
    ("router_solicitations", ["-1", "-1", "-1"]),
    ("suppress_frag_ndisc", ["1", "1", "1"]),
    ("temp_prefered_lft", ["86400", "86400", "86400"]),
    ("temp_valid_lft", ["604800", "604800", "604800"]),
    ("use_oif_addrs_only", ["0", "0", "0"]),
    ("use_optimistic", ["0", "0", "0"]),
    ("use_tempaddr", ["0", "0", "-1"]),
];

/// What decides about neighbours of both families, where they do not differ.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("anycast_delay", "100"),
    ("app_solicit", "0"),
    ("base_reachable_time", "30"),
    ("base_reachable_time_ms", "30000"),
    ("delay_first_probe_time", "5"),
    ("gc_interval", "30"),
    ("gc_stale_time", "60"),
    ("gc_thresh1", "128"),
    ("gc_thresh2", "512"),
    ("gc_thresh3", "1024"),
    ("interval_probe_time_ms", "5000"),
    ("mcast_resolicit", "0"),
    ("mcast_solicit", "3"),
    ("proxy_delay", "80"),
    ("proxy_qlen", "64"),
    ("retrans_time_ms", "1000"),
    ("ucast_solicit", "3"),
    ("unres_qlen", "101"),
    ("unres_qlen_bytes", "212992"),
];

/// Where they do: of IPv4, of IPv6.
const NEIGHBOURS_APART: [(&str, [&str; 2]); 2] = [("locktime", ["100", "0"]), ("retrans_time", ["100", "250"])];

/// How neighbours that are no longer used are forgotten is one for all devices.
fn is_of_device(setting: &str) -> bool {
    !matches!(setting, "gc_interval" | "gc_thresh1" | "gc_thresh2" | "gc_thresh3")
}

/// All of them by name, from `net` on.
fn table() -> &'static BTreeMap<String, &'static str> {
    static TABLE: OnceLock<BTreeMap<String, &'static str>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: BTreeMap<String, &str> =
            PLAIN.iter().map(|(name, value)| (format!("net/{name}"), *value)).collect();
        for (at, (family, settings)) in [("ipv4", DEVICES_V4), ("ipv6", DEVICES_V6)].into_iter().enumerate() {
            for (name, [all, others, loopback]) in settings {
                for (device, value) in DEVICES.into_iter().zip([all, others, others, loopback]) {
                    table.insert(format!("net/{family}/conf/{device}/{name}"), value);
                }
            }
            let apart = NEIGHBOURS_APART.iter().map(|(name, values)| (*name, values[at]));
            for (name, value) in NEIGHBOURS.iter().copied().chain(apart) {
                for device in &DEVICES[1..] {
                    if *device == "default" || is_of_device(name) {
                        table.insert(format!("net/{family}/neigh/{device}/{name}"), value);
                    }
                }
            }
        }
        table
    })
}

/// The value of a setting, by its name from `net` on.
pub fn value(name: &str) -> Option<&'static str> {
    table().get(name).copied()
}

pub fn names() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_families_have_values_of_their_own() {
        let values =
            ["all", "default", "eth0", "lo"].map(|device| value(&format!("net/ipv6/conf/{device}/accept_dad")));
        assert_eq!(values, [Some("0"), Some("1"), Some("1"), Some("-1")]);
        assert_eq!(
            (value("net/ipv4/neigh/lo/retrans_time"), value("net/ipv6/neigh/lo/retrans_time")),
            (Some("100"), Some("250"))
        );
        assert_eq!(
            (value("net/ipv4/neigh/default/gc_thresh1"), value("net/ipv4/neigh/lo/gc_thresh1")),
            (Some("128"), None)
        );
        assert_eq!(value("net/ipv4/tcp_recovery"), Some("1"));
        assert!(PLAIN.is_sorted() && DEVICES_V4.is_sorted() && DEVICES_V6.is_sorted() && NEIGHBOURS.is_sorted());
    }
}
