//! Sockets: families, types, protocols, options, message flags, and the structures around them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// Address families.
    FAMILIES: i32 {
        AF_UNSPEC = 0,
        AF_UNIX = 1,
        AF_INET = 2,
        AF_INET6 = 10,
        AF_NETLINK = 16,
        AF_PACKET = 17,
        AF_ALG = 38,
        AF_VSOCK = 40,
    }
}

/// Mask of the type in socket(2)'s second argument.
pub const SOCK_TYPE_MASK: i32 = 0xf;

constants! {
    /// Socket types.
    SOCKET_TYPES: i32 {
        SOCK_STREAM = 1,
        SOCK_DGRAM = 2,
        SOCK_RAW = 3,
        SOCK_RDM = 4,
        SOCK_SEQPACKET = 5,
        SOCK_DCCP = 6,
        SOCK_PACKET = 10,
    }
}

constants! {
    /// Flags beside the type.
    SOCKET_FLAGS: i32 {
        SOCK_NONBLOCK = 0o4000,
        SOCK_CLOEXEC = 0o2000000,
    }
}

constants! {
    /// Protocols of IP, and with them the levels of socket options.
    IP_PROTOCOLS: i32 {
        IPPROTO_IP = 0,
        IPPROTO_ICMP = 1,
        IPPROTO_IGMP = 2,
        IPPROTO_TCP = 6,
        IPPROTO_UDP = 17,
        IPPROTO_IPV6 = 41,
        IPPROTO_ICMPV6 = 58,
        IPPROTO_SCTP = 132,
        IPPROTO_UDPLITE = 136,
        IPPROTO_RAW = 255,
        IPPROTO_MPTCP = 262,
    }
}

constants! {
    /// Levels of getsockopt(2).
    SOCKET_LEVELS: i32 {
        SOL_IP = 0,
        SOL_SOCKET = 1,
        SOL_TCP = 6,
        SOL_UDP = 17,
        SOL_IPV6 = 41,
        SOL_ICMPV6 = 58,
        SOL_UDPLITE = 136,
        SOL_RAW = 255,
        SOL_PACKET = 263,
        SOL_NETLINK = 270,
        SOL_TLS = 282,
    }
}

constants! {
    /// Options of SOL_SOCKET, socket(7).
    SOCKET_OPTIONS: i32 {
        SO_DEBUG = 1,
        SO_REUSEADDR = 2,
        SO_TYPE = 3,
        SO_ERROR = 4,
        SO_DONTROUTE = 5,
        SO_BROADCAST = 6,
        SO_SNDBUF = 7,
        SO_RCVBUF = 8,
        SO_KEEPALIVE = 9,
        SO_OOBINLINE = 10,
        SO_NO_CHECK = 11,
        SO_PRIORITY = 12,
        SO_LINGER = 13,
        SO_BSDCOMPAT = 14,
        SO_REUSEPORT = 15,
        SO_PASSCRED = 16,
        SO_PEERCRED = 17,
        SO_RCVLOWAT = 18,
        SO_SNDLOWAT = 19,
        SO_RCVTIMEO = 20,
        SO_SNDTIMEO = 21,
        SO_BINDTODEVICE = 25,
        SO_ATTACH_FILTER = 26,
        SO_DETACH_FILTER = 27,
        SO_PEERNAME = 28,
        SO_TIMESTAMP = 29,
        SO_ACCEPTCONN = 30,
        SO_PEERSEC = 31,
        SO_SNDBUFFORCE = 32,
        SO_RCVBUFFORCE = 33,
        SO_PASSSEC = 34,
        SO_TIMESTAMPNS = 35,
        SO_MARK = 36,
        SO_TIMESTAMPING = 37,
        SO_PROTOCOL = 38,
        SO_DOMAIN = 39,
        SO_RXQ_OVFL = 40,
        SO_WIFI_STATUS = 41,
        SO_PEEK_OFF = 42,
        SO_NOFCS = 43,
        SO_LOCK_FILTER = 44,
        SO_SELECT_ERR_QUEUE = 45,
        SO_BUSY_POLL = 46,
        SO_MAX_PACING_RATE = 47,
        SO_BPF_EXTENSIONS = 48,
        SO_INCOMING_CPU = 49,
        SO_ATTACH_BPF = 50,
        SO_ATTACH_REUSEPORT_CBPF = 51,
        SO_ATTACH_REUSEPORT_EBPF = 52,
        SO_CNX_ADVICE = 53,
        SO_MEMINFO = 55,
        SO_INCOMING_NAPI_ID = 56,
        SO_COOKIE = 57,
        SO_PEERGROUPS = 59,
        SO_ZEROCOPY = 60,
        SO_TXTIME = 61,
        SO_BINDTOIFINDEX = 62,
        SO_TIMESTAMP_NEW = 63,
        SO_TIMESTAMPNS_NEW = 64,
        SO_TIMESTAMPING_NEW = 65,
        SO_RCVTIMEO_NEW = 66,
        SO_SNDTIMEO_NEW = 67,
        SO_DETACH_REUSEPORT_BPF = 68,
        SO_PREFER_BUSY_POLL = 69,
        SO_BUSY_POLL_BUDGET = 70,
        SO_NETNS_COOKIE = 71,
        SO_BUF_LOCK = 72,
        SO_RESERVE_MEM = 73,
        SO_TXREHASH = 74,
        SO_RCVMARK = 75,
        SO_PASSPIDFD = 76,
        SO_PEERPIDFD = 77,
        SO_DEVMEM_DONTNEED = 80,
        SO_RCVPRIORITY = 82,
        SO_PASSRIGHTS = 83,
        SO_INQ = 84,
    }
}

constants! {
    /// Options of IPPROTO_TCP, tcp(7).
    TCP_OPTIONS: i32 {
        TCP_NODELAY = 1,
        TCP_MAXSEG = 2,
        TCP_CORK = 3,
        TCP_KEEPIDLE = 4,
        TCP_KEEPINTVL = 5,
        TCP_KEEPCNT = 6,
        TCP_SYNCNT = 7,
        TCP_LINGER2 = 8,
        TCP_DEFER_ACCEPT = 9,
        TCP_WINDOW_CLAMP = 10,
        TCP_INFO = 11,
        TCP_QUICKACK = 12,
        TCP_CONGESTION = 13,
        TCP_MD5SIG = 14,
        TCP_THIN_LINEAR_TIMEOUTS = 16,
        TCP_THIN_DUPACK = 17,
        TCP_USER_TIMEOUT = 18,
        TCP_REPAIR = 19,
        TCP_REPAIR_QUEUE = 20,
        TCP_QUEUE_SEQ = 21,
        TCP_REPAIR_OPTIONS = 22,
        TCP_FASTOPEN = 23,
        TCP_TIMESTAMP = 24,
        TCP_NOTSENT_LOWAT = 25,
        TCP_CC_INFO = 26,
        TCP_SAVE_SYN = 27,
        TCP_SAVED_SYN = 28,
        TCP_REPAIR_WINDOW = 29,
        TCP_FASTOPEN_CONNECT = 30,
        TCP_ULP = 31,
        TCP_MD5SIG_EXT = 32,
        TCP_FASTOPEN_KEY = 33,
        TCP_FASTOPEN_NO_COOKIE = 34,
        TCP_ZEROCOPY_RECEIVE = 35,
        TCP_INQ = 36,
        TCP_TX_DELAY = 37,
        TCP_AO_REPAIR = 42,
        TCP_IS_MPTCP = 43,
        TCP_RTO_MAX_MS = 44,
        TCP_RTO_MIN_US = 45,
        TCP_DELACK_MAX_US = 46,
    }
}

constants! {
    /// Options of IPPROTO_UDP, udp(7).
    UDP_OPTIONS: i32 {
        UDP_CORK = 1,
        UDPLITE_SEND_CSCOV = 10,
        UDPLITE_RECV_CSCOV = 11,
        UDP_ENCAP = 100,
        UDP_NO_CHECK6_TX = 101,
        UDP_NO_CHECK6_RX = 102,
        UDP_SEGMENT = 103,
        UDP_GRO = 104,
    }
}

constants! {
    /// Options of IPPROTO_IP, ip(7).
    IP_OPTIONS: i32 {
        IP_TOS = 1,
        IP_TTL = 2,
        IP_HDRINCL = 3,
        IP_OPTIONS_OPTION = 4,
        IP_ROUTER_ALERT = 5,
        IP_RECVOPTS = 6,
        IP_RETOPTS = 7,
        IP_PKTINFO = 8,
        IP_PKTOPTIONS = 9,
        IP_MTU_DISCOVER = 10,
        IP_RECVERR = 11,
        IP_RECVTTL = 12,
        IP_RECVTOS = 13,
        IP_MTU = 14,
        IP_FREEBIND = 15,
        IP_IPSEC_POLICY = 16,
        IP_XFRM_POLICY = 17,
        IP_PASSSEC = 18,
        IP_TRANSPARENT = 19,
        IP_RECVORIGDSTADDR = 20,
        IP_MINTTL = 21,
        IP_NODEFRAG = 22,
        IP_CHECKSUM = 23,
        IP_BIND_ADDRESS_NO_PORT = 24,
        IP_RECVFRAGSIZE = 25,
        IP_RECVERR_RFC4884 = 26,
        IP_MULTICAST_IF = 32,
        IP_MULTICAST_TTL = 33,
        IP_MULTICAST_LOOP = 34,
        IP_ADD_MEMBERSHIP = 35,
        IP_DROP_MEMBERSHIP = 36,
        IP_UNBLOCK_SOURCE = 37,
        IP_BLOCK_SOURCE = 38,
        IP_ADD_SOURCE_MEMBERSHIP = 39,
        IP_DROP_SOURCE_MEMBERSHIP = 40,
        IP_MSFILTER = 41,
        MCAST_JOIN_GROUP = 42,
        MCAST_BLOCK_SOURCE = 43,
        MCAST_UNBLOCK_SOURCE = 44,
        MCAST_LEAVE_GROUP = 45,
        MCAST_JOIN_SOURCE_GROUP = 46,
        MCAST_LEAVE_SOURCE_GROUP = 47,
        MCAST_MSFILTER = 48,
        IP_MULTICAST_ALL = 49,
        IP_UNICAST_IF = 50,
        IP_LOCAL_PORT_RANGE = 51,
        IP_PROTOCOL = 52,
    }
}

constants! {
    /// Options of IPPROTO_IPV6, ipv6(7).
    IPV6_OPTIONS: i32 {
        IPV6_ADDRFORM = 1,
        IPV6_2292PKTINFO = 2,
        IPV6_2292HOPOPTS = 3,
        IPV6_2292DSTOPTS = 4,
        IPV6_2292RTHDR = 5,
        IPV6_2292PKTOPTIONS = 6,
        IPV6_CHECKSUM = 7,
        IPV6_2292HOPLIMIT = 8,
        IPV6_FLOWINFO = 11,
        IPV6_UNICAST_HOPS = 16,
        IPV6_MULTICAST_IF = 17,
        IPV6_MULTICAST_HOPS = 18,
        IPV6_MULTICAST_LOOP = 19,
        IPV6_ADD_MEMBERSHIP = 20,
        IPV6_DROP_MEMBERSHIP = 21,
        IPV6_ROUTER_ALERT = 22,
        IPV6_MTU_DISCOVER = 23,
        IPV6_MTU = 24,
        IPV6_RECVERR = 25,
        IPV6_V6ONLY = 26,
        IPV6_JOIN_ANYCAST = 27,
        IPV6_LEAVE_ANYCAST = 28,
        IPV6_MULTICAST_ALL = 29,
        IPV6_ROUTER_ALERT_ISOLATE = 30,
        IPV6_RECVERR_RFC4884 = 31,
        IPV6_FLOWLABEL_MGR = 32,
        IPV6_FLOWINFO_SEND = 33,
        IPV6_IPSEC_POLICY = 34,
        IPV6_XFRM_POLICY = 35,
        IPV6_HDRINCL = 36,
        IPV6_RECVPKTINFO = 49,
        IPV6_PKTINFO = 50,
        IPV6_RECVHOPLIMIT = 51,
        IPV6_HOPLIMIT = 52,
        IPV6_RECVHOPOPTS = 53,
        IPV6_HOPOPTS = 54,
        IPV6_RTHDRDSTOPTS = 55,
        IPV6_RECVRTHDR = 56,
        IPV6_RTHDR = 57,
        IPV6_RECVDSTOPTS = 58,
        IPV6_DSTOPTS = 59,
        IPV6_RECVPATHMTU = 60,
        IPV6_PATHMTU = 61,
        IPV6_DONTFRAG = 62,
        IPV6_RECVTCLASS = 66,
        IPV6_TCLASS = 67,
        IPV6_AUTOFLOWLABEL = 70,
        IPV6_ADDR_PREFERENCES = 72,
        IPV6_MINHOPCOUNT = 73,
        IPV6_RECVORIGDSTADDR = 74,
        IPV6_TRANSPARENT = 75,
        IPV6_UNICAST_IF = 76,
        IPV6_RECVFRAGSIZE = 77,
        IPV6_FREEBIND = 78,
    }
}

/// Values of IP_MTU_DISCOVER.
pub const IP_PMTUDISC_DONT: i32 = 0;
pub const IP_PMTUDISC_WANT: i32 = 1;
pub const IP_PMTUDISC_DO: i32 = 2;
pub const IP_PMTUDISC_PROBE: i32 = 3;

constants! {
    /// send(2), recv(2).
    MSG_FLAGS: u32 {
        MSG_OOB = 0x1,
        MSG_PEEK = 0x2,
        MSG_DONTROUTE = 0x4,
        MSG_CTRUNC = 0x8,
        MSG_PROBE = 0x10,
        MSG_TRUNC = 0x20,
        MSG_DONTWAIT = 0x40,
        MSG_EOR = 0x80,
        MSG_WAITALL = 0x100,
        MSG_FIN = 0x200,
        MSG_SYN = 0x400,
        MSG_CONFIRM = 0x800,
        MSG_RST = 0x1000,
        MSG_ERRQUEUE = 0x2000,
        MSG_NOSIGNAL = 0x4000,
        MSG_MORE = 0x8000,
        MSG_WAITFORONE = 0x1_0000,
        MSG_BATCH = 0x4_0000,
        MSG_ZEROCOPY = 0x400_0000,
        MSG_FASTOPEN = 0x2000_0000,
        MSG_CMSG_CLOEXEC = 0x4000_0000,
    }
}

constants! {
    /// Control messages of SOL_SOCKET.
    SCM_TYPES: i32 {
        SCM_RIGHTS = 1,
        SCM_CREDENTIALS = 2,
        SCM_PIDFD = 4,
        SCM_TIMESTAMP = 29,
        SCM_TIMESTAMPNS = 35,
        SCM_TIMESTAMPING = 37,
    }
}

constants! {
    /// shutdown(2).
    SHUTDOWN_HOW: i32 {
        SHUT_RD = 0,
        SHUT_WR = 1,
        SHUT_RDWR = 2,
    }
}

/// The largest backlog of listen(2) by default (net.core.somaxconn).
pub const SOMAXCONN: i32 = 4096;

/// sendmsg(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Msghdr {
    pub msg_name: u64,
    pub msg_namelen: i32,
    pub pad0: u32,
    pub msg_iov: u64,
    pub msg_iovlen: u64,
    pub msg_control: u64,
    pub msg_controllen: u64,
    pub msg_flags: u32,
    pub pad1: u32,
}

/// sendmmsg(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Mmsghdr {
    pub msg_hdr: Msghdr,
    pub msg_len: u32,
    pub pad0: u32,
}

/// The header of a control message, cmsg(3).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cmsghdr {
    /// With this header, without the padding behind the data.
    pub cmsg_len: u64,
    pub cmsg_level: i32,
    pub cmsg_type: i32,
}

/// Bytes of a control message with `data` bytes, padding included (`CMSG_SPACE`).
pub const fn cmsg_space(data: usize) -> usize {
    size_of::<Cmsghdr>() + data.next_multiple_of(8)
}

/// Bytes of a control message with `data` bytes, padding excluded (`CMSG_LEN`).
pub const fn cmsg_len(data: usize) -> usize {
    size_of::<Cmsghdr>() + data
}

/// SO_PEERCRED, SCM_CREDENTIALS.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ucred {
    pub pid: i32,
    pub uid: u32,
    pub gid: u32,
}

/// SO_LINGER.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Linger {
    pub l_onoff: i32,
    /// Seconds.
    pub l_linger: i32,
}

/// IP_ADD_MEMBERSHIP: addresses in network order.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IpMreq {
    pub imr_multiaddr: [u8; 4],
    pub imr_interface: [u8; 4],
}

/// IP_ADD_MEMBERSHIP, longer form.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IpMreqn {
    pub imr_multiaddr: [u8; 4],
    pub imr_address: [u8; 4],
    pub imr_ifindex: i32,
}

/// IP_ADD_SOURCE_MEMBERSHIP and its relatives: addresses in network order.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IpMreqSource {
    pub imr_multiaddr: [u8; 4],
    pub imr_interface: [u8; 4],
    pub imr_sourceaddr: [u8; 4],
}

/// IP_MSFILTER, ahead of the sources.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IpMsfilter {
    pub imsf_multiaddr: [u8; 4],
    pub imsf_interface: [u8; 4],
    pub imsf_fmode: u32,
    pub imsf_numsrc: u32,
}

/// MCAST_MSFILTER, ahead of the sources, each of them a `struct sockaddr_storage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GroupFilter {
    pub gf_interface: u32,
    pub pad: u32,
    pub gf_group: [u8; 128],
    pub gf_fmode: u32,
    pub gf_numsrc: u32,
}

/// MCAST_JOIN_GROUP and MCAST_LEAVE_GROUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GroupReq {
    pub gr_interface: u32,
    pub pad: u32,
    pub gr_group: [u8; 128],
}

/// MCAST_JOIN_SOURCE_GROUP and its relatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GroupSourceReq {
    pub gsr_interface: u32,
    pub pad: u32,
    pub gsr_group: [u8; 128],
    pub gsr_source: [u8; 128],
}

/// The modes of source filters.
pub const MCAST_EXCLUDE: u32 = 0;
pub const MCAST_INCLUDE: u32 = 1;

/// IPV6_ADD_MEMBERSHIP.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ipv6Mreq {
    pub ipv6mr_multiaddr: [u8; 16],
    pub ipv6mr_ifindex: i32,
}

/// The control message of IP_PKTINFO.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InPktinfo {
    pub ipi_ifindex: i32,
    pub ipi_spec_dst: [u8; 4],
    pub ipi_addr: [u8; 4],
}

/// The control message of IPV6_PKTINFO.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct In6Pktinfo {
    pub ipi6_addr: [u8; 16],
    pub ipi6_ifindex: i32,
}

/// The control message of IP_RECVERR, ip(7).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SockExtendedErr {
    pub ee_errno: u32,
    pub ee_origin: u8,
    pub ee_type: u8,
    pub ee_code: u8,
    pub ee_pad: u8,
    pub ee_info: u32,
    pub ee_data: u32,
}

/// `ee_origin`: the host itself, ICMP, ICMPv6.
pub const SO_EE_ORIGIN_LOCAL: u8 = 1;
pub const SO_EE_ORIGIN_ICMP: u8 = 2;
pub const SO_EE_ORIGIN_ICMP6: u8 = 3;

assert_size! {
    Msghdr = 56, Mmsghdr = 64, Cmsghdr = 16, Ucred = 12, Linger = 8, IpMreq = 8, IpMreqn = 12, Ipv6Mreq = 20,
    InPktinfo = 12, In6Pktinfo = 20, SockExtendedErr = 16,
    IpMreqSource = 12, IpMsfilter = 16, GroupFilter = 144, GroupReq = 136, GroupSourceReq = 264,
}
