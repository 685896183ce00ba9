//! Resource limits: fixed defaults (those of a Debian login), changed by `setrlimit` and `prlimit64`. Enforced: NOFILE, FSIZE, MEMLOCK, and NPROC,
//! which counts all threads and zombies of the host and binds guests although they are root.

use linux_abi::sysinfo::*;

pub const RESOURCES: usize = RLIM_NLIMITS;
const INFINITY: u64 = RLIM_INFINITY;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits(pub [Limit; RESOURCES]);

impl Limits {
    /// The soft limit of one of `RLIMIT_*`.
    pub fn soft(&self, resource: i32) -> u64 {
        self.0[resource as usize].soft
    }
}

impl Default for Limits {
    fn default() -> Self {
        let both = |value| Limit { soft: value, hard: value };
        let mut limits = [both(INFINITY); RESOURCES];
        let mut set = |resource: i32, limit| limits[resource as usize] = limit;
        set(RLIMIT_STACK, Limit { soft: 8 << 20, hard: INFINITY });
        set(RLIMIT_CORE, Limit { soft: 0, hard: INFINITY });
        set(RLIMIT_NPROC, both(127_000));
        set(RLIMIT_NOFILE, Limit { soft: 1024, hard: 1 << 20 });
        set(RLIMIT_MEMLOCK, both(8 << 20));
        set(RLIMIT_SIGPENDING, both(127_000));
        set(RLIMIT_MSGQUEUE, both(819_200));
        set(RLIMIT_NICE, both(0));
        set(RLIMIT_RTPRIO, both(0));
        Limits(limits)
    }
}
