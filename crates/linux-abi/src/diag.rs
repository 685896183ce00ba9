//! sock_diag(7): what NETLINK_SOCK_DIAG asks and answers (linux/sock_diag.h, linux/inet_diag.h, linux/unix_diag.h).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const SOCK_DIAG_BY_FAMILY: u16 = 20;
pub const SOCK_DESTROY: u16 = 21;

pub const INET_DIAG_MEMINFO: u16 = 1;
pub const INET_DIAG_INFO: u16 = 2;
pub const INET_DIAG_CONG: u16 = 4;
pub const INET_DIAG_TOS: u16 = 5;
pub const INET_DIAG_TCLASS: u16 = 6;
pub const INET_DIAG_SKMEMINFO: u16 = 7;
pub const INET_DIAG_SHUTDOWN: u16 = 8;
pub const INET_DIAG_PROTOCOL: u16 = 10;
pub const INET_DIAG_SKV6ONLY: u16 = 11;
pub const INET_DIAG_SOCKOPT: u16 = 22;
/// A cookie that is left open.
pub const INET_DIAG_NOCOOKIE: u32 = u32::MAX;

pub const UNIX_DIAG_NAME: u16 = 0;
pub const UNIX_DIAG_VFS: u16 = 1;
pub const UNIX_DIAG_PEER: u16 = 2;
pub const UNIX_DIAG_ICONS: u16 = 3;
pub const UNIX_DIAG_RQLEN: u16 = 4;
pub const UNIX_DIAG_MEMINFO: u16 = 5;
pub const UNIX_DIAG_SHUTDOWN: u16 = 6;
pub const UNIX_DIAG_UID: u16 = 7;

pub const UDIAG_SHOW_NAME: u32 = 0x01;
pub const UDIAG_SHOW_VFS: u32 = 0x02;
pub const UDIAG_SHOW_PEER: u32 = 0x04;
pub const UDIAG_SHOW_ICONS: u32 = 0x08;
pub const UDIAG_SHOW_RQLEN: u32 = 0x10;
pub const UDIAG_SHOW_MEMINFO: u32 = 0x20;
pub const UDIAG_SHOW_UID: u32 = 0x40;

/// Ports and addresses in network order; an IPv4 address fills the first four bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InetDiagSockid {
    pub sport: [u8; 2],
    pub dport: [u8; 2],
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub interface: u32,
    pub cookie: [u32; 2],
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InetDiagReqV2 {
    pub sdiag_family: u8,
    pub sdiag_protocol: u8,
    /// A bit for each of the attributes 1 to 8.
    pub idiag_ext: u8,
    pub pad: u8,
    /// A bit for each of `TCP_STATES`.
    pub idiag_states: u32,
    pub id: InetDiagSockid,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InetDiagMsg {
    pub idiag_family: u8,
    pub idiag_state: u8,
    pub idiag_timer: u8,
    pub idiag_retrans: u8,
    pub id: InetDiagSockid,
    /// Milliseconds.
    pub idiag_expires: u32,
    pub idiag_rqueue: u32,
    pub idiag_wqueue: u32,
    pub idiag_uid: u32,
    pub idiag_inode: u32,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UnixDiagReq {
    pub sdiag_family: u8,
    pub sdiag_protocol: u8,
    pub pad: u16,
    pub udiag_states: u32,
    pub udiag_ino: u32,
    /// `UDIAG_SHOW_*`.
    pub udiag_show: u32,
    pub udiag_cookie: [u32; 2],
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UnixDiagMsg {
    pub udiag_family: u8,
    pub udiag_type: u8,
    pub udiag_state: u8,
    pub pad: u8,
    pub udiag_ino: u32,
    pub udiag_cookie: [u32; 2],
}

assert_size! { InetDiagSockid = 48, InetDiagReqV2 = 56, InetDiagMsg = 72, UnixDiagReq = 24, UnixDiagMsg = 16 }
