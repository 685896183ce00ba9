//! What the network stack tells programs: TCP_INFO, and the part of netlink that lists interfaces and addresses.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// `tcpi_state`.
    TCP_STATES: u8 {
        TCP_ESTABLISHED = 1,
        TCP_SYN_SENT = 2,
        TCP_SYN_RECV = 3,
        TCP_FIN_WAIT1 = 4,
        TCP_FIN_WAIT2 = 5,
        TCP_TIME_WAIT = 6,
        TCP_CLOSE = 7,
        TCP_CLOSE_WAIT = 8,
        TCP_LAST_ACK = 9,
        TCP_LISTEN = 10,
        TCP_CLOSING = 11,
        TCP_NEW_SYN_RECV = 12,
    }
}

constants! {
    /// `tcpi_ca_state`.
    TCP_CA_STATES: u8 {
        TCP_CA_OPEN = 0,
        TCP_CA_DISORDER = 1,
        TCP_CA_CWR = 2,
        TCP_CA_RECOVERY = 3,
        TCP_CA_LOSS = 4,
    }
}

constants! {
    /// `tcpi_options`.
    TCPI_OPTIONS: u8 {
        TCPI_OPT_TIMESTAMPS = 1,
        TCPI_OPT_SACK = 2,
        TCPI_OPT_WSCALE = 4,
        TCPI_OPT_ECN = 8,
        TCPI_OPT_ECN_SEEN = 16,
        TCPI_OPT_SYN_DATA = 32,
    }
}

/// linux/tcp.h, as of Linux 6.7 to 6.17. Times in microseconds unless they say `last` (milliseconds), rates in bytes per second.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct TcpInfo {
    pub tcpi_state: u8,
    pub tcpi_ca_state: u8,
    pub tcpi_retransmits: u8,
    pub tcpi_probes: u8,
    pub tcpi_backoff: u8,
    pub tcpi_options: u8,
    /// Low half: the send window's scale; high half: the receive window's.
    pub tcpi_wscale: u8,
    /// Bit 0: the delivery rate is limited by the application; bits 1 and 2: why fast open failed.
    pub tcpi_flags: u8,
    pub tcpi_rto: u32,
    pub tcpi_ato: u32,
    pub tcpi_snd_mss: u32,
    pub tcpi_rcv_mss: u32,
    pub tcpi_unacked: u32,
    pub tcpi_sacked: u32,
    pub tcpi_lost: u32,
    pub tcpi_retrans: u32,
    pub tcpi_fackets: u32,
    pub tcpi_last_data_sent: u32,
    pub tcpi_last_ack_sent: u32,
    pub tcpi_last_data_recv: u32,
    pub tcpi_last_ack_recv: u32,
    pub tcpi_pmtu: u32,
    pub tcpi_rcv_ssthresh: u32,
    pub tcpi_rtt: u32,
    pub tcpi_rttvar: u32,
    pub tcpi_snd_ssthresh: u32,
    pub tcpi_snd_cwnd: u32,
    pub tcpi_advmss: u32,
    pub tcpi_reordering: u32,
    pub tcpi_rcv_rtt: u32,
    pub tcpi_rcv_space: u32,
    pub tcpi_total_retrans: u32,
    pub tcpi_pacing_rate: u64,
    pub tcpi_max_pacing_rate: u64,
    pub tcpi_bytes_acked: u64,
    pub tcpi_bytes_received: u64,
    pub tcpi_segs_out: u32,
    pub tcpi_segs_in: u32,
    pub tcpi_notsent_bytes: u32,
    pub tcpi_min_rtt: u32,
    pub tcpi_data_segs_in: u32,
    pub tcpi_data_segs_out: u32,
    pub tcpi_delivery_rate: u64,
    pub tcpi_busy_time: u64,
    pub tcpi_rwnd_limited: u64,
    pub tcpi_sndbuf_limited: u64,
    pub tcpi_delivered: u32,
    pub tcpi_delivered_ce: u32,
    pub tcpi_bytes_sent: u64,
    pub tcpi_bytes_retrans: u64,
    pub tcpi_dsack_dups: u32,
    pub tcpi_reord_seen: u32,
    pub tcpi_rcv_ooopack: u32,
    pub tcpi_snd_wnd: u32,
    pub tcpi_rcv_wnd: u32,
    pub tcpi_rehash: u32,
    pub tcpi_total_rto: u16,
    pub tcpi_total_rto_recoveries: u16,
    pub tcpi_total_rto_time: u32,
    pub tcpi_received_ce: u32,
    pub tcpi_delivered_e1_bytes: u32,
    pub tcpi_delivered_e0_bytes: u32,
    pub tcpi_delivered_ce_bytes: u32,
    pub tcpi_received_e1_bytes: u32,
    pub tcpi_received_e0_bytes: u32,
    pub tcpi_received_ce_bytes: u32,
    /// Bits 0 and 1: how ECN was negotiated; 2 and 3: whether its options were seen; 4 to 7: why they were given up.
    pub tcpi_ecn: u32,
}

/// netlink(7).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Nlmsghdr {
    pub nlmsg_len: u32,
    pub nlmsg_type: u16,
    pub nlmsg_flags: u16,
    pub nlmsg_seq: u32,
    pub nlmsg_pid: u32,
}

/// rtnetlink(7): an interface.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ifinfomsg {
    pub ifi_family: u8,
    pub pad0: u8,
    pub ifi_type: u16,
    pub ifi_index: i32,
    pub ifi_flags: u32,
    pub ifi_change: u32,
}

/// rtnetlink(7): an address.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ifaddrmsg {
    pub ifa_family: u8,
    pub ifa_prefixlen: u8,
    pub ifa_flags: u8,
    pub ifa_scope: u8,
    pub ifa_index: u32,
}

/// rtnetlink(7): the header of an attribute.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rtattr {
    pub rta_len: u16,
    pub rta_type: u16,
}

assert_size! { TcpInfo = 280, Nlmsghdr = 16, Ifinfomsg = 16, Ifaddrmsg = 8, Rtattr = 4 }

pub const NETLINK_ROUTE: i32 = 0;
pub const NETLINK_USERSOCK: i32 = 2;
pub const NETLINK_SOCK_DIAG: i32 = 4;
pub const NETLINK_KOBJECT_UEVENT: i32 = 15;
pub const NETLINK_GENERIC: i32 = 16;

constants! {
    /// Options of SOL_NETLINK.
    NETLINK_OPTIONS: i32 {
        NETLINK_ADD_MEMBERSHIP = 1,
        NETLINK_DROP_MEMBERSHIP = 2,
        NETLINK_PKTINFO = 3,
        NETLINK_BROADCAST_ERROR = 4,
        NETLINK_NO_ENOBUFS = 5,
        NETLINK_LISTEN_ALL_NSID = 8,
        NETLINK_LIST_MEMBERSHIPS = 9,
        NETLINK_CAP_ACK = 10,
        NETLINK_EXT_ACK = 11,
        NETLINK_GET_STRICT_CHK = 12,
    }
}

pub const NLMSG_NOOP: u16 = 1;
pub const NLMSG_ERROR: u16 = 2;
pub const NLMSG_DONE: u16 = 3;
pub const NLMSG_MIN_TYPE: u16 = 16;

pub const RTM_NEWLINK: u16 = 16;
pub const RTM_DELLINK: u16 = 17;
pub const RTM_GETLINK: u16 = 18;
pub const RTM_SETLINK: u16 = 19;
pub const RTM_NEWADDR: u16 = 20;
pub const RTM_GETADDR: u16 = 22;
pub const RTM_NEWROUTE: u16 = 24;
pub const RTM_GETROUTE: u16 = 26;
pub const RTM_DELNEIGH: u16 = 29;
pub const RTM_GETNEIGH: u16 = 30;
pub const RTM_NEWRULE: u16 = 32;
pub const RTM_GETRULE: u16 = 34;
pub const RTM_NEWQDISC: u16 = 36;
pub const RTM_GETQDISC: u16 = 38;
pub const RTM_GETTCLASS: u16 = 42;
pub const RTM_GETTFILTER: u16 = 46;
pub const RTM_GETCHAIN: u16 = 102;
pub const RTM_GETNEXTHOP: u16 = 106;
/// The largest number of a message of rtnetlink.
pub const RTM_MAX: u16 = 123;

pub const NLM_F_REQUEST: u16 = 0x1;
pub const NLM_F_MULTI: u16 = 0x2;
pub const NLM_F_ACK: u16 = 0x4;
pub const NLM_F_ROOT: u16 = 0x100;
pub const NLM_F_MATCH: u16 = 0x200;
/// Of requests to make something: where it is not there.
pub const NLM_F_CREATE: u16 = 0x400;
/// Of answers: the request is not quoted.
pub const NLM_F_CAPPED: u16 = 0x100;
/// Of requests that delete: all that match.
pub const NLM_F_BULK: u16 = 0x200;
pub const NLM_F_DUMP: u16 = NLM_F_ROOT | NLM_F_MATCH;

pub const IFLA_ADDRESS: u16 = 1;
pub const IFLA_BROADCAST: u16 = 2;
pub const IFLA_IFNAME: u16 = 3;
pub const IFLA_MTU: u16 = 4;

pub const IFA_ADDRESS: u16 = 1;
pub const IFA_LOCAL: u16 = 2;
pub const IFA_LABEL: u16 = 3;
pub const IFA_BROADCAST: u16 = 4;
pub const IFA_CACHEINFO: u16 = 6;
pub const IFA_FLAGS: u16 = 8;
pub const IFA_F_PERMANENT: u8 = 0x80;

pub const RT_SCOPE_UNIVERSE: u8 = 0;
pub const RT_SCOPE_HOST: u8 = 254;
