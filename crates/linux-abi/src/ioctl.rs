//! ioctl requests, and the terminal's and interfaces' structures behind them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// Requests on terminals, pipes, sockets and interfaces.
    IOCTLS: u32 {
        TCGETS = 0x5401,
        TCSETS = 0x5402,
        TCSETSW = 0x5403,
        TCSETSF = 0x5404,
        TCGETA = 0x5405,
        TCSETA = 0x5406,
        TCSETAW = 0x5407,
        TCSETAF = 0x5408,
        TCSBRK = 0x5409,
        TCXONC = 0x540a,
        TCFLSH = 0x540b,
        TIOCEXCL = 0x540c,
        TIOCNXCL = 0x540d,
        TIOCSCTTY = 0x540e,
        TIOCGPGRP = 0x540f,
        TIOCSPGRP = 0x5410,
        /// Also SIOCOUTQ: bytes not yet acknowledged (TCP) or not yet sent.
        TIOCOUTQ = 0x5411,
        TIOCSTI = 0x5412,
        TIOCGWINSZ = 0x5413,
        TIOCSWINSZ = 0x5414,
        /// Also SIOCINQ: bytes that can be read.
        FIONREAD = 0x541b,
        TIOCCONS = 0x541d,
        TIOCPKT = 0x5420,
        FIONBIO = 0x5421,
        TIOCNOTTY = 0x5422,
        TIOCSETD = 0x5423,
        TIOCGETD = 0x5424,
        TCSBRKP = 0x5425,
        TIOCSBRK = 0x5427,
        TIOCCBRK = 0x5428,
        TIOCGSID = 0x5429,
        TIOCGPTN = 0x8004_5430,
        TIOCSPTLCK = 0x4004_5431,
        TIOCGDEV = 0x8004_5432,
        TIOCSIG = 0x4004_5436,
        TIOCVHANGUP = 0x5437,
        TIOCGPKT = 0x8004_5438,
        TIOCGPTLCK = 0x8004_5439,
        TIOCGEXCL = 0x8004_5440,
        TIOCGPTPEER = 0x5441,
        FIGETBSZ = 2,
        NS_GET_USERNS = 0xb701,
        NS_GET_PARENT = 0xb702,
        NS_GET_NSTYPE = 0xb703,
        NS_GET_OWNER_UID = 0xb704,
        FICLONE = 0x4004_9409,
        FICLONERANGE = 0x4020_940d,
        RNDGETENTCNT = 0x8004_5200,
        FIONCLEX = 0x5450,
        FIOCLEX = 0x5451,
        FIOASYNC = 0x5452,
        FIOQSIZE = 0x5460,
        FIOSETOWN = 0x8901,
        SIOCSPGRP = 0x8902,
        FIOGETOWN = 0x8903,
        SIOCGPGRP = 0x8904,
        SIOCATMARK = 0x8905,
        SIOCGSTAMP = 0x8906,
        SIOCGSTAMPNS = 0x8907,
        SIOCADDRT = 0x890b,
        SIOCDELRT = 0x890c,
        SIOCGIFNAME = 0x8910,
        SIOCGIFCONF = 0x8912,
        SIOCGIFFLAGS = 0x8913,
        SIOCSIFFLAGS = 0x8914,
        SIOCGIFADDR = 0x8915,
        SIOCSIFADDR = 0x8916,
        SIOCGIFDSTADDR = 0x8917,
        SIOCGIFBRDADDR = 0x8919,
        SIOCGIFNETMASK = 0x891b,
        SIOCGIFMETRIC = 0x891d,
        SIOCGIFMTU = 0x8921,
        SIOCSIFMTU = 0x8922,
        SIOCGIFHWADDR = 0x8927,
        SIOCGIFINDEX = 0x8933,
        SIOCGIFTXQLEN = 0x8942,
        SIOCETHTOOL = 0x8946,
        SIOCDARP = 0x8953,
        SIOCGARP = 0x8954,
        SIOCSARP = 0x8955,
        /// Bytes not yet sent at all, tcp(7).
        SIOCOUTQNSD = 0x894b,
    }
}

pub const SIOCINQ: u32 = FIONREAD;
pub const SIOCOUTQ: u32 = TIOCOUTQ;

constants! {
    /// Flags of an interface, netdevice(7).
    INTERFACE_FLAGS: u32 {
        IFF_UP = 0x1,
        IFF_BROADCAST = 0x2,
        IFF_DEBUG = 0x4,
        IFF_LOOPBACK = 0x8,
        IFF_POINTOPOINT = 0x10,
        IFF_NOTRAILERS = 0x20,
        IFF_RUNNING = 0x40,
        IFF_NOARP = 0x80,
        IFF_PROMISC = 0x100,
        IFF_ALLMULTI = 0x200,
        IFF_MULTICAST = 0x1000,
        IFF_LOWER_UP = 0x1_0000,
    }
}

/// Bytes of an interface's name, its NUL included.
pub const IFNAMSIZ: usize = 16;
pub const ARPHRD_ETHER: u16 = 1;
pub const ARPHRD_LOOPBACK: u16 = 772;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Winsize {
    pub ws_row: u16,
    pub ws_col: u16,
    pub ws_xpixel: u16,
    pub ws_ypixel: u16,
}

/// The kernel's `termios` (not the C library's): what TCGETS fills.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Termios {
    pub c_iflag: u32,
    pub c_oflag: u32,
    pub c_cflag: u32,
    pub c_lflag: u32,
    pub c_line: u8,
    pub c_cc: [u8; 19],
}

/// A request about an interface: its name and a union of 24 bytes, netdevice(7).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ifreq {
    pub ifr_name: [u8; IFNAMSIZ],
    pub ifr_data: [u8; 24],
}

/// SIOCGIFCONF.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ifconf {
    pub ifc_len: i32,
    pub pad0: u32,
    pub ifc_buf: u64,
}

assert_size! { Winsize = 8, Termios = 36, Ifreq = 40, Ifconf = 16 }
