//! Terminals: the bits of `termios`, its special characters, packet mode, termios(3), ioctl_tty(2).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// `c_iflag`.
    INPUT_FLAGS: u32 {
        IGNBRK = 0x1,
        BRKINT = 0x2,
        IGNPAR = 0x4,
        PARMRK = 0x8,
        INPCK = 0x10,
        ISTRIP = 0x20,
        INLCR = 0x40,
        IGNCR = 0x80,
        ICRNL = 0x100,
        IUCLC = 0x200,
        IXON = 0x400,
        IXANY = 0x800,
        IXOFF = 0x1000,
        IMAXBEL = 0x2000,
        IUTF8 = 0x4000,
    }
}

constants! {
    /// `c_oflag`.
    OUTPUT_FLAGS: u32 {
        OPOST = 0x1,
        OLCUC = 0x2,
        ONLCR = 0x4,
        OCRNL = 0x8,
        ONOCR = 0x10,
        ONLRET = 0x20,
        OFILL = 0x40,
        OFDEL = 0x80,
        TABDLY = 0x1800,
        XTABS = 0x1800,
    }
}

constants! {
    /// `c_cflag`.
    CONTROL_FLAGS: u32 {
        CBAUD = 0x100f,
        B38400 = 0xf,
        CSIZE = 0x30,
        CS8 = 0x30,
        CSTOPB = 0x40,
        CREAD = 0x80,
        PARENB = 0x100,
        PARODD = 0x200,
        HUPCL = 0x400,
        CLOCAL = 0x800,
    }
}

constants! {
    /// `c_lflag`.
    LOCAL_FLAGS: u32 {
        ISIG = 0x1,
        ICANON = 0x2,
        XCASE = 0x4,
        ECHO = 0x8,
        ECHOE = 0x10,
        ECHOK = 0x20,
        ECHONL = 0x40,
        NOFLSH = 0x80,
        TOSTOP = 0x100,
        ECHOCTL = 0x200,
        ECHOPRT = 0x400,
        ECHOKE = 0x800,
        FLUSHO = 0x1000,
        PENDIN = 0x4000,
        IEXTEN = 0x8000,
        EXTPROC = 0x1_0000,
    }
}

constants! {
    /// Places in `c_cc`.
    SPECIAL_CHARACTERS: usize {
        VINTR = 0,
        VQUIT = 1,
        VERASE = 2,
        VKILL = 3,
        VEOF = 4,
        VTIME = 5,
        VMIN = 6,
        VSWTC = 7,
        VSTART = 8,
        VSTOP = 9,
        VSUSP = 10,
        VEOL = 11,
        VREPRINT = 12,
        VDISCARD = 13,
        VWERASE = 14,
        VLNEXT = 15,
        VEOL2 = 16,
    }
}

constants! {
    /// The first byte of a read in packet mode, TIOCPKT(2const).
    PACKET_FLAGS: u8 {
        TIOCPKT_DATA = 0,
        TIOCPKT_FLUSHREAD = 1,
        TIOCPKT_FLUSHWRITE = 2,
        TIOCPKT_STOP = 4,
        TIOCPKT_START = 8,
        TIOCPKT_NOSTOP = 16,
        TIOCPKT_DOSTOP = 32,
        TIOCPKT_IOCTL = 64,
    }
}

constants! {
    /// Requests on the longer form of the settings.
    SETTINGS_REQUESTS: u32 {
        TCGETS2 = 0x802c_542a,
        TCSETS2 = 0x402c_542b,
        TCSETSW2 = 0x402c_542c,
        TCSETSF2 = 0x402c_542d,
    }
}

constants! {
    /// Arguments of TCFLSH.
    FLUSH_QUEUES: u64 {
        TCIFLUSH = 0,
        TCOFLUSH = 1,
        TCIOFLUSH = 2,
    }
}

constants! {
    /// Arguments of TCXONC.
    FLOW_ACTIONS: u64 {
        TCOOFF = 0,
        TCOON = 1,
        TCIOFF = 2,
        TCION = 3,
    }
}

/// Special characters in the kernel's `termios`.
pub const NCCS: usize = 19;
/// A special character of this value is switched off.
pub const DISABLED_CHAR: u8 = 0;
/// The major number of the terminals in `/dev/pts`.
pub const PTS_MAJOR: u32 = 136;

/// What TCGETS2 fills.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Termios2 {
    pub c_iflag: u32,
    pub c_oflag: u32,
    pub c_cflag: u32,
    pub c_lflag: u32,
    pub c_line: u8,
    pub c_cc: [u8; NCCS],
    pub c_ispeed: u32,
    pub c_ospeed: u32,
}

/// What TCGETA fills.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Termio {
    pub c_iflag: u16,
    pub c_oflag: u16,
    pub c_cflag: u16,
    pub c_lflag: u16,
    pub c_line: u8,
    pub c_cc: [u8; 8],
    pub pad0: u8,
}

assert_size! { Termios2 = 44, Termio = 18 }
