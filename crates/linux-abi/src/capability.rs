//! Capabilities and secure bits, capabilities(7), capget(2), prctl(2).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// capabilities(7), by bit number.
    CAPABILITIES: u32 {
        CAP_CHOWN = 0,
        CAP_DAC_OVERRIDE = 1,
        CAP_DAC_READ_SEARCH = 2,
        CAP_FOWNER = 3,
        CAP_FSETID = 4,
        CAP_KILL = 5,
        CAP_SETGID = 6,
        CAP_SETUID = 7,
        CAP_SETPCAP = 8,
        CAP_LINUX_IMMUTABLE = 9,
        CAP_NET_BIND_SERVICE = 10,
        CAP_NET_BROADCAST = 11,
        CAP_NET_ADMIN = 12,
        CAP_NET_RAW = 13,
        CAP_IPC_LOCK = 14,
        CAP_IPC_OWNER = 15,
        CAP_SYS_MODULE = 16,
        CAP_SYS_RAWIO = 17,
        CAP_SYS_CHROOT = 18,
        CAP_SYS_PTRACE = 19,
        CAP_SYS_PACCT = 20,
        CAP_SYS_ADMIN = 21,
        CAP_SYS_BOOT = 22,
        CAP_SYS_NICE = 23,
        CAP_SYS_RESOURCE = 24,
        CAP_SYS_TIME = 25,
        CAP_SYS_TTY_CONFIG = 26,
        CAP_MKNOD = 27,
        CAP_LEASE = 28,
        CAP_AUDIT_WRITE = 29,
        CAP_AUDIT_CONTROL = 30,
        CAP_SETFCAP = 31,
        CAP_MAC_OVERRIDE = 32,
        CAP_MAC_ADMIN = 33,
        CAP_SYSLOG = 34,
        CAP_WAKE_ALARM = 35,
        CAP_BLOCK_SUSPEND = 36,
        CAP_AUDIT_READ = 37,
        CAP_PERFMON = 38,
        CAP_BPF = 39,
        CAP_CHECKPOINT_RESTORE = 40,
    }
}

/// The last capability that there is.
pub const CAP_LAST_CAP: u32 = CAP_CHECKPOINT_RESTORE;

constants! {
    /// prctl(PR_SET_SECUREBITS); the bit above each locks it.
    SECURE_BITS: u32 {
        SECBIT_NOROOT = 1,
        SECBIT_NOROOT_LOCKED = 2,
        SECBIT_NO_SETUID_FIXUP = 4,
        SECBIT_NO_SETUID_FIXUP_LOCKED = 8,
        SECBIT_KEEP_CAPS = 0x10,
        SECBIT_KEEP_CAPS_LOCKED = 0x20,
        SECBIT_NO_CAP_AMBIENT_RAISE = 0x40,
        SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED = 0x80,
    }
}

constants! {
    /// prctl(PR_CAP_AMBIENT).
    AMBIENT_COMMANDS: u32 {
        PR_CAP_AMBIENT_IS_SET = 1,
        PR_CAP_AMBIENT_RAISE = 2,
        PR_CAP_AMBIENT_LOWER = 3,
        PR_CAP_AMBIENT_CLEAR_ALL = 4,
    }
}

constants! {
    /// capget(2), `hdrp->version`.
    CAPABILITY_VERSIONS: u32 {
        _LINUX_CAPABILITY_VERSION_1 = 0x1998_0330,
        _LINUX_CAPABILITY_VERSION_2 = 0x2007_1026,
        _LINUX_CAPABILITY_VERSION_3 = 0x2008_0522,
    }
}

/// `struct __user_cap_header_struct`
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Debug, Clone, Copy, Default)]
pub struct CapHeader {
    pub version: u32,
    pub pid: i32,
}

/// `struct __user_cap_data_struct`: 32 bits of each set.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Debug, Clone, Copy, Default)]
pub struct CapData {
    pub effective: u32,
    pub permitted: u32,
    pub inheritable: u32,
}

assert_size! {
    CapHeader = 8,
    CapData = 12,
}
