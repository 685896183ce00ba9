//! What the system says about itself and its limits: uname, sysinfo, rusage, rlimits.

use crate::time::Timeval;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const RLIM_INFINITY: u64 = u64::MAX;

constants! {
    /// getrlimit(2).
    RLIMITS: i32 {
        RLIMIT_CPU = 0,
        RLIMIT_FSIZE = 1,
        RLIMIT_DATA = 2,
        RLIMIT_STACK = 3,
        RLIMIT_CORE = 4,
        RLIMIT_RSS = 5,
        RLIMIT_NPROC = 6,
        RLIMIT_NOFILE = 7,
        RLIMIT_MEMLOCK = 8,
        RLIMIT_AS = 9,
        RLIMIT_LOCKS = 10,
        RLIMIT_SIGPENDING = 11,
        RLIMIT_MSGQUEUE = 12,
        RLIMIT_NICE = 13,
        RLIMIT_RTPRIO = 14,
        RLIMIT_RTTIME = 15,
    }
}

/// How many resources have limits.
pub const RLIM_NLIMITS: usize = 16;

constants! {
    /// getrusage(2).
    RUSAGE_WHO: i32 {
        RUSAGE_SELF = 0,
        RUSAGE_CHILDREN = -1,
        RUSAGE_THREAD = 1,
    }
}

constants! {
    /// getrandom(2).
    GETRANDOM_FLAGS: u32 {
        GRND_NONBLOCK = 1,
        GRND_RANDOM = 2,
        GRND_INSECURE = 4,
    }
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rlimit {
    pub rlim_cur: u64,
    pub rlim_max: u64,
}

/// uname(2): NUL-terminated fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Utsname {
    pub sysname: [u8; 65],
    pub nodename: [u8; 65],
    pub release: [u8; 65],
    pub version: [u8; 65],
    pub machine: [u8; 65],
    pub domainname: [u8; 65],
}

impl Utsname {
    /// Fields longer than 64 bytes are cut.
    pub fn new(
        sysname: &str,
        nodename: &str,
        release: &str,
        version: &str,
        machine: &str,
        domainname: &str,
    ) -> Utsname {
        let field = |text: &str| {
            let mut bytes = [0; 65];
            let len = text.len().min(64);
            bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
            bytes
        };
        Utsname {
            sysname: field(sysname),
            nodename: field(nodename),
            release: field(release),
            version: field(version),
            machine: field(machine),
            domainname: field(domainname),
        }
    }
}

/// sysinfo(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sysinfo {
    /// Seconds.
    pub uptime: i64,
    pub loads: [u64; 3],
    pub totalram: u64,
    pub freeram: u64,
    pub sharedram: u64,
    pub bufferram: u64,
    pub totalswap: u64,
    pub freeswap: u64,
    pub procs: u16,
    pub pad0: u16,
    pub pad1: u32,
    pub totalhigh: u64,
    pub freehigh: u64,
    pub mem_unit: u32,
    pub pad2: u32,
}

/// getrusage(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rusage {
    pub ru_utime: Timeval,
    pub ru_stime: Timeval,
    /// KiB.
    pub ru_maxrss: i64,
    pub ru_ixrss: i64,
    pub ru_idrss: i64,
    pub ru_isrss: i64,
    pub ru_minflt: i64,
    pub ru_majflt: i64,
    pub ru_nswap: i64,
    pub ru_inblock: i64,
    pub ru_oublock: i64,
    pub ru_msgsnd: i64,
    pub ru_msgrcv: i64,
    pub ru_nsignals: i64,
    pub ru_nvcsw: i64,
    pub ru_nivcsw: i64,
}

assert_size! { Rlimit = 16, Utsname = 390, Sysinfo = 112, Rusage = 144 }
