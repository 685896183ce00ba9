//! Counters: `snmp`, `snmp6`, `netstat`, `softnet_stat`. What the stack does not count, or what cannot happen, is 0.

use super::{V4, V6};
use crate::processors::Processor;
use crate::vfs::synthetic::View;
use std::collections::BTreeMap;
use std::fmt::Write;
use tcpip::{Family, FragmentCounters, StackCounters, TcpCounters, UdpCounters};

/// A title with names and a line with values, as `snmp` and `netstat` have them.
fn table(title: &str, values: &[(&str, i64)]) -> String {
    let names: String = values.iter().map(|(name, _)| format!(" {name}")).collect();
    let numbers: String = values.iter().map(|(_, value)| format!(" {value}")).collect();
    format!("{title}:{names}\n{title}:{numbers}\n")
}

/// Pairs of names and values; names without one are 0.
fn fill<'a>(names: &'a str, known: &[(&str, u64)]) -> Vec<(&'a str, i64)> {
    let value = |name| known.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value as i64);
    names.split_whitespace().map(|name| (name, value(name))).collect()
}

fn sum(messages: &BTreeMap<u8, u64>) -> u64 {
    messages.values().sum()
}

/// net.ipv4.ip_forward is 0, which is 2 here (RFC 1213).
const IP: &str = "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers \
OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates OutTransmits";

const ICMP: &str = "InMsgs InErrors InCsumErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps \
InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutRateLimitGlobal OutRateLimitHost OutDestUnreachs \
OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps";

/// ICMP types, by the end of their counters' names.
const ICMP_TYPES: [(u8, &str); 11] = [
    (3, "DestUnreachs"),
    (11, "TimeExcds"),
    (12, "ParmProbs"),
    (4, "SrcQuenchs"),
    (5, "Redirects"),
    (8, "Echos"),
    (0, "EchoReps"),
    (13, "Timestamps"),
    (14, "TimestampReps"),
    (17, "AddrMasks"),
    (18, "AddrMaskReps"),
];

const UDP: &str =
    "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors";

fn ip(counters: &StackCounters) -> String {
    let (received, sent) = (counters.received(Family::V4).packets, counters.sent(Family::V4).packets);
    let FragmentCounters { received: pieces, reassembled, cut, made } = counters.fragments[V4];
    let known = [
        ("Forwarding", 2),
        ("DefaultTTL", 64),
        ("InReceives", received + counters.not_ours),
        ("InAddrErrors", counters.not_ours),
        ("InDelivers", received - pieces + reassembled),
        ("OutRequests", sent - made + cut),
        ("OutDiscards", counters.udp[V4].refused),
        ("ReasmReqds", pieces),
        ("ReasmOKs", reassembled),
        ("FragOKs", cut),
        ("FragCreates", made),
        ("OutTransmits", sent),
    ];
    table("Ip", &fill(IP, &known))
}

fn icmp(counters: &StackCounters) -> String {
    let (received, sent) = (&counters.icmp_in[V4], &counters.icmp_out[V4]);
    let value = |name: &str| match name {
        "InMsgs" => sum(received),
        "OutMsgs" => sum(sent),
        _ => {
            let of = |messages: &BTreeMap<u8, u64>, end: &str| {
                let kind = ICMP_TYPES.iter().find(|(_, known)| *known == end).map(|(kind, _)| *kind);
                kind.and_then(|kind| messages.get(&kind).copied()).unwrap_or(0)
            };
            match (name.strip_prefix("In"), name.strip_prefix("Out")) {
                (Some(end), _) => of(received, end),
                (_, Some(end)) => of(sent, end),
                _ => 0,
            }
        }
    };
    let values: Vec<_> = ICMP.split_whitespace().map(|name| (name, value(name) as i64)).collect();
    let by_type = |direction: &str, messages: &BTreeMap<u8, u64>| -> Vec<(String, i64)> {
        messages.iter().map(|(kind, count)| (format!("{direction}Type{kind}"), *count as i64)).collect()
    };
    let types = [by_type("In", received), by_type("Out", sent)].concat();
    let types: Vec<_> = types.iter().map(|(name, value)| (&name[..], *value)).collect();
    let types = if types.is_empty() { String::new() } else { table("IcmpMsg", &types) };
    table("Icmp", &values) + &types
}

fn tcp(counters: &StackCounters, tcp: &TcpCounters) -> String {
    let number = |value: u64| value as i64;
    table(
        "Tcp",
        &[
            ("RtoAlgorithm", 1),
            ("RtoMin", 200),
            ("RtoMax", 120_000),
            ("MaxConn", -1),
            ("ActiveOpens", number(counters.active_opens)),
            ("PassiveOpens", number(counters.passive_opens)),
            ("AttemptFails", number(tcp.failed_attempts)),
            ("EstabResets", number(tcp.resets)),
            ("CurrEstab", number(tcp.established)),
            ("InSegs", number(counters.segments_in)),
            ("OutSegs", number(tcp.segments_out + counters.resets_sent)),
            ("RetransSegs", number(tcp.retransmitted)),
            ("InErrs", 0),
            ("OutRsts", number(counters.resets_sent)),
            ("InCsumErrors", 0),
        ],
    )
}

fn udp(counters: &UdpCounters) -> [(&'static str, u64); 6] {
    [
        ("InDatagrams", counters.received),
        ("NoPorts", counters.no_port),
        ("InErrors", counters.dropped),
        ("OutDatagrams", counters.sent),
        ("RcvbufErrors", counters.dropped),
        ("SndbufErrors", counters.refused),
    ]
}

pub fn snmp(view: &View<'_>) -> String {
    let stack = &view.net.stack;
    let counters = stack.counters();
    [
        ip(counters),
        icmp(counters),
        tcp(counters, &stack.tcp_counters()),
        table("Udp", &fill(UDP, &udp(&counters.udp[V4]))),
        table("UdpLite", &fill(UDP, &[])),
    ]
    .concat()
}

const IP6: &str = "InReceives InHdrErrors InTooBigErrors InNoRoutes InAddrErrors InUnknownProtos InTruncatedPkts InDiscards InDelivers \
OutForwDatagrams OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates \
InMcastPkts OutMcastPkts InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InNoECTPkts InECT1Pkts \
InECT0Pkts InCEPkts OutTransmits";

const ICMP6: &str = "InMsgs InErrors OutMsgs OutErrors InCsumErrors OutRateLimitHost InDestUnreachs InPktTooBigs InTimeExcds \
InParmProblems InEchos InEchoReplies InGroupMembQueries InGroupMembResponses InGroupMembReductions InRouterSolicits \
InRouterAdvertisements InNeighborSolicits InNeighborAdvertisements InRedirects InMLDv2Reports OutDestUnreachs OutPktTooBigs \
OutTimeExcds OutParmProblems OutEchos OutEchoReplies OutGroupMembQueries OutGroupMembResponses OutGroupMembReductions \
OutRouterSolicits OutRouterAdvertisements OutNeighborSolicits OutNeighborAdvertisements OutRedirects OutMLDv2Reports";

/// ICMPv6 types, by the end of their counters' names.
const ICMP6_TYPES: [(u8, &str); 6] = [
    (1, "DestUnreachs"),
    (2, "PktTooBigs"),
    (3, "TimeExcds"),
    (4, "ParmProblems"),
    (128, "Echos"),
    (129, "EchoReplies"),
];

fn icmp6(counters: &StackCounters) -> Vec<(String, u64)> {
    let mut known = Vec::new();
    for (direction, messages) in [("In", &counters.icmp_in[V6]), ("Out", &counters.icmp_out[V6])] {
        known.push((format!("{direction}Msgs"), sum(messages)));
        known.extend(
            ICMP6_TYPES
                .iter()
                .map(|(kind, end)| (format!("{direction}{end}"), messages.get(kind).copied().unwrap_or(0))),
        );
    }
    known
}

pub fn snmp6(view: &View<'_>) -> String {
    let counters = view.net.stack.counters();
    let (received, sent) = (counters.received(Family::V6), counters.sent(Family::V6));
    let FragmentCounters { received: pieces, reassembled, cut, made } = counters.fragments[V6];
    let ip = [
        ("InReceives", received.packets),
        ("InDelivers", received.packets - pieces + reassembled),
        ("OutRequests", sent.packets - made + cut),
        ("OutDiscards", counters.udp[V6].refused),
        ("ReasmReqds", pieces),
        ("ReasmOKs", reassembled),
        ("FragOKs", cut),
        ("FragCreates", made),
        ("InOctets", received.bytes),
        ("OutOctets", sent.bytes),
        ("InNoECTPkts", received.packets),
        ("OutTransmits", sent.packets),
    ];
    let icmp = icmp6(counters);
    let icmp: Vec<(&str, u64)> = icmp.iter().map(|(name, value)| (&name[..], *value)).collect();
    let mut text = String::new();
    for (prefix, values) in [
        ("Ip6", fill(IP6, &ip)),
        ("Icmp6", fill(ICMP6, &icmp)),
        ("Udp6", fill(UDP, &udp(&counters.udp[V6]))),
        (
            "UdpLite6",
            fill("InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors MemErrors", &[]),
        ),
    ] {
        for (name, value) in values {
            let _ = writeln!(text, "{:<32}\t{value}", format!("{prefix}{name}"));
        }
    }
    text
}

const TCP_EXTENDED: &str = "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned \
OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab BeyondWindow TSEcrRejected PAWSOldAck \
PAWSTimewait DelayedACKs DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks \
TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo \
TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans \
TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce \
TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout \
TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld \
TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged \
TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter TCPTimeWaitOverflow \
TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK \
TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow \
TCPFastOpenCookieReqd TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv \
TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect TCPHystartTrainCwnd \
TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 \
TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE \
TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash TcpDuplicateDataRehash \
TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure TCPPLBRehash TCPAORequired TCPAOBad \
TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps";

const IP_EXTENDED: &str = "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets \
InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps";

pub fn extended(view: &View<'_>) -> String {
    let stack = &view.net.stack;
    let (counters, tcp) = (stack.counters(), stack.tcp_counters());
    let known = [
        ("TW", counters.time_waits_ended),
        ("DelayedACKs", tcp.delayed_acks),
        ("ListenOverflows", counters.listen_overflows),
        ("SyncookiesSent", counters.cookies_sent),
        ("SyncookiesRecv", counters.cookies_received),
        ("SyncookiesFailed", counters.cookies_failed),
        ("TCPReqQFullDoCookies", counters.cookies_for_full),
        ("TCPReqQFullDrop", counters.dropped_for_full),
        ("ListenDrops", counters.listen_drops),
        ("TCPSackRecovery", tcp.recoveries),
        ("TCPTimeouts", tcp.timeouts),
        ("TCPLossProbes", tcp.loss_probes),
        ("TCPDSACKRecv", tcp.dsack_received),
        ("TCPAbortOnTimeout", tcp.aborts_on_timeout),
        ("TCPOFOQueue", tcp.out_of_order),
        ("TCPChallengeACK", tcp.challenge_acks),
        ("PruneCalled", tcp.pruned),
        ("TCPRcvQDrop", tcp.dropped_for_memory),
        ("TCPOFODrop", tcp.early_dropped),
        ("TCPRetransFail", tcp.copies_refused),
        ("TCPSynRetrans", tcp.syn_retransmitted),
        ("TCPOrigDataSent", tcp.data_segments_out),
        ("TCPWinProbe", tcp.window_probes),
        ("TCPKeepAlive", tcp.keepalive_probes),
        ("TCPDelivered", tcp.delivered),
    ];
    let (received, sent) = (counters.received(Family::V4), counters.sent(Family::V4));
    let octets = [("InOctets", received.bytes), ("OutOctets", sent.bytes), ("InNoECTPkts", received.packets)];
    table("TcpExt", &fill(TCP_EXTENDED, &known)) + &table("IpExt", &fill(IP_EXTENDED, &octets))
}

/// A line for each processor, the first of which has taken all packets.
pub fn softnet(view: &View<'_>) -> String {
    let all = view.net.stack.counters().packets_in as u32;
    let line = |Processor(number)| {
        let packets = if number == 0 { all } else { 0 };
        let zeros = |columns| " 00000000".repeat(columns);
        format!("{packets:08x}{} {number:08x}{}\n", zeros(11), zeros(2))
    };
    view.config.processors.numbers().map(line).collect()
}
