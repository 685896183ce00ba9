//! Processes and threads: clone, wait, futexes, prctl, scheduling, the auxiliary vector.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Mask of the signal to the parent in clone(2)'s flags.
pub const CSIGNAL: u64 = 0xff;

constants! {
    /// clone(2), clone3(2).
    CLONE_FLAGS: u64 {
        CLONE_NEWTIME = 0x80,
        CLONE_VM = 0x100,
        CLONE_FS = 0x200,
        CLONE_FILES = 0x400,
        CLONE_SIGHAND = 0x800,
        CLONE_PIDFD = 0x1000,
        CLONE_PTRACE = 0x2000,
        CLONE_VFORK = 0x4000,
        CLONE_PARENT = 0x8000,
        CLONE_THREAD = 0x1_0000,
        CLONE_NEWNS = 0x2_0000,
        CLONE_SYSVSEM = 0x4_0000,
        CLONE_SETTLS = 0x8_0000,
        CLONE_PARENT_SETTID = 0x10_0000,
        CLONE_CHILD_CLEARTID = 0x20_0000,
        CLONE_DETACHED = 0x40_0000,
        CLONE_UNTRACED = 0x80_0000,
        CLONE_CHILD_SETTID = 0x100_0000,
        CLONE_NEWCGROUP = 0x200_0000,
        CLONE_NEWUTS = 0x400_0000,
        CLONE_NEWIPC = 0x800_0000,
        CLONE_NEWUSER = 0x1000_0000,
        CLONE_NEWPID = 0x2000_0000,
        CLONE_NEWNET = 0x4000_0000,
        CLONE_IO = 0x8000_0000,
        CLONE_CLEAR_SIGHAND = 0x1_0000_0000,
        CLONE_INTO_CGROUP = 0x2_0000_0000,
    }
}

/// The smallest `size` that clone3(2) takes.
pub const CLONE_ARGS_SIZE_VER0: u64 = 64;

constants! {
    /// wait4(2), waitid(2).
    WAIT_OPTIONS: u32 {
        WNOHANG = 1,
        WUNTRACED = 2,
        WEXITED = 4,
        WCONTINUED = 8,
        WNOWAIT = 0x0100_0000,
        __WNOTHREAD = 0x2000_0000,
        __WALL = 0x4000_0000,
        __WCLONE = 0x8000_0000,
    }
}

/// waitid(2): `WSTOPPED` is `WUNTRACED`.
pub const WSTOPPED: u32 = WUNTRACED;

constants! {
    /// waitid(2)'s first argument.
    ID_TYPES: i32 {
        P_ALL = 0,
        P_PID = 1,
        P_PGID = 2,
        P_PIDFD = 3,
    }
}

/// The status word of a process that exited with `code`, wait(2).
pub const fn wait_status_exited(code: i32) -> i32 {
    (code & 0xff) << 8
}

/// The status word of a process that `signal` killed.
pub const fn wait_status_signaled(signal: i32, core_dumped: bool) -> i32 {
    signal & 0x7f | if core_dumped { 0x80 } else { 0 }
}

/// The status word of a process that `signal` stopped.
pub const fn wait_status_stopped(signal: i32) -> i32 {
    (signal & 0xff) << 8 | 0x7f
}

/// The status word of a process that SIGCONT continued.
pub const WAIT_STATUS_CONTINUED: i32 = 0xffff;

constants! {
    /// futex(2) commands, without their modifiers.
    FUTEX_COMMANDS: u32 {
        FUTEX_WAIT = 0,
        FUTEX_WAKE = 1,
        FUTEX_FD = 2,
        FUTEX_REQUEUE = 3,
        FUTEX_CMP_REQUEUE = 4,
        FUTEX_WAKE_OP = 5,
        FUTEX_LOCK_PI = 6,
        FUTEX_UNLOCK_PI = 7,
        FUTEX_TRYLOCK_PI = 8,
        FUTEX_WAIT_BITSET = 9,
        FUTEX_WAKE_BITSET = 10,
        FUTEX_WAIT_REQUEUE_PI = 11,
        FUTEX_CMP_REQUEUE_PI = 12,
        FUTEX_LOCK_PI2 = 13,
    }
}

pub const FUTEX_PRIVATE_FLAG: u32 = 128;
pub const FUTEX_CLOCK_REALTIME: u32 = 256;
/// What remains of an operation without its modifiers.
pub const FUTEX_CMD_MASK: u32 = !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
pub const FUTEX_BITSET_MATCH_ANY: u32 = u32::MAX;
pub const FUTEX_WAITERS: u32 = 0x8000_0000;
pub const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
pub const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
pub const ROBUST_LIST_LIMIT: usize = 2048;

/// FUTEX_WAKE_OP: operations (bits 28 to 30) and comparisons (bits 24 to 27) of its sixth argument.
pub const FUTEX_OP_SET: u32 = 0;
pub const FUTEX_OP_ADD: u32 = 1;
pub const FUTEX_OP_OR: u32 = 2;
pub const FUTEX_OP_ANDN: u32 = 3;
pub const FUTEX_OP_XOR: u32 = 4;
pub const FUTEX_OP_OPARG_SHIFT: u32 = 8;
pub const FUTEX_OP_CMP_EQ: u32 = 0;
pub const FUTEX_OP_CMP_NE: u32 = 1;
pub const FUTEX_OP_CMP_LT: u32 = 2;
pub const FUTEX_OP_CMP_LE: u32 = 3;
pub const FUTEX_OP_CMP_GT: u32 = 4;
pub const FUTEX_OP_CMP_GE: u32 = 5;

constants! {
    /// arch_prctl(2).
    ARCH_PRCTL: i32 {
        ARCH_SET_GS = 0x1001,
        ARCH_SET_FS = 0x1002,
        ARCH_GET_FS = 0x1003,
        ARCH_GET_GS = 0x1004,
        ARCH_GET_CPUID = 0x1011,
        ARCH_SET_CPUID = 0x1012,
        ARCH_GET_XCOMP_SUPP = 0x1021,
        ARCH_GET_XCOMP_PERM = 0x1022,
        ARCH_REQ_XCOMP_PERM = 0x1023,
        /// Asked by glibc at start; old kernels know it not.
        ARCH_CET_STATUS = 0x3001,
        ARCH_SHSTK_ENABLE = 0x5001,
        ARCH_SHSTK_DISABLE = 0x5002,
        ARCH_SHSTK_STATUS = 0x5005,
    }
}

constants! {
    /// prctl(PR_SET_TIMING).
    TIMINGS: i32 {
        PR_TIMING_STATISTICAL = 0,
    }
}

constants! {
    /// prctl(PR_SET_TSC).
    TSC_STATES: i32 {
        PR_TSC_ENABLE = 1,
        PR_TSC_SIGSEGV = 2,
    }
}

constants! {
    /// prctl(2).
    PRCTL: i32 {
        PR_SET_PDEATHSIG = 1,
        PR_GET_PDEATHSIG = 2,
        PR_GET_DUMPABLE = 3,
        PR_SET_DUMPABLE = 4,
        PR_GET_KEEPCAPS = 7,
        PR_SET_KEEPCAPS = 8,
        PR_GET_TIMING = 13,
        PR_SET_TIMING = 14,
        PR_SET_NAME = 15,
        PR_GET_NAME = 16,
        PR_GET_SECCOMP = 21,
        PR_SET_SECCOMP = 22,
        PR_CAPBSET_READ = 23,
        PR_CAPBSET_DROP = 24,
        PR_GET_TSC = 25,
        PR_SET_TSC = 26,
        PR_GET_SECUREBITS = 27,
        PR_SET_SECUREBITS = 28,
        PR_SET_TIMERSLACK = 29,
        PR_GET_TIMERSLACK = 30,
        PR_SET_MM = 35,
        PR_SET_CHILD_SUBREAPER = 36,
        PR_GET_CHILD_SUBREAPER = 37,
        PR_SET_NO_NEW_PRIVS = 38,
        PR_GET_NO_NEW_PRIVS = 39,
        PR_GET_TID_ADDRESS = 40,
        PR_SET_THP_DISABLE = 41,
        PR_GET_THP_DISABLE = 42,
        PR_CAP_AMBIENT = 47,
        PR_GET_SPECULATION_CTRL = 52,
        PR_SET_SPECULATION_CTRL = 53,
        PR_SET_SYSCALL_USER_DISPATCH = 59,
        PR_SET_VMA = 0x5356_4d41,
        PR_SET_PTRACER = 0x5961_6d61,
    }
}

/// Bytes of a thread's name, its NUL included.
pub const TASK_COMM_LEN: usize = 16;

constants! {
    /// sched_setscheduler(2).
    SCHED_POLICIES: i32 {
        SCHED_OTHER = 0,
        SCHED_FIFO = 1,
        SCHED_RR = 2,
        SCHED_BATCH = 3,
        SCHED_IDLE = 5,
        SCHED_DEADLINE = 6,
    }
}

constants! {
    /// getpriority(2).
    PRIORITY_WHICH: i32 {
        PRIO_PROCESS = 0,
        PRIO_PGRP = 1,
        PRIO_USER = 2,
    }
}

constants! {
    /// seccomp(2).
    SECCOMP_OPERATIONS: i32 {
        SECCOMP_SET_MODE_STRICT = 0,
        SECCOMP_SET_MODE_FILTER = 1,
        SECCOMP_GET_ACTION_AVAIL = 2,
        SECCOMP_GET_NOTIF_SIZES = 3,
    }
}

constants! {
    /// Keys of the auxiliary vector, getauxval(3).
    AUXV_KEYS: u64 {
        AT_NULL = 0,
        AT_IGNORE = 1,
        AT_EXECFD = 2,
        AT_PHDR = 3,
        AT_PHENT = 4,
        AT_PHNUM = 5,
        AT_PAGESZ = 6,
        AT_BASE = 7,
        AT_FLAGS = 8,
        AT_ENTRY = 9,
        AT_NOTELF = 10,
        AT_UID = 11,
        AT_EUID = 12,
        AT_GID = 13,
        AT_EGID = 14,
        AT_PLATFORM = 15,
        AT_HWCAP = 16,
        AT_CLKTCK = 17,
        AT_SECURE = 23,
        AT_BASE_PLATFORM = 24,
        AT_RANDOM = 25,
        AT_HWCAP2 = 26,
        AT_RSEQ_FEATURE_SIZE = 27,
        AT_RSEQ_ALIGN = 28,
        AT_EXECFN = 31,
        AT_SYSINFO = 32,
        AT_SYSINFO_EHDR = 33,
        AT_MINSIGSTKSZ = 51,
    }
}

/// clone3(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// set_robust_list(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RobustListHead {
    pub next: u64,
    pub futex_offset: i64,
    pub list_op_pending: u64,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SchedParam {
    pub sched_priority: i32,
}

/// capget(2)'s header.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CapHeader {
    pub version: u32,
    pub pid: i32,
}

/// capget(2): version 3 has two of these.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CapData {
    pub effective: u32,
    pub permitted: u32,
    pub inheritable: u32,
}

pub const LINUX_CAPABILITY_VERSION_3: u32 = 0x2008_0522;

assert_size! { CloneArgs = 88, RobustListHead = 24, SchedParam = 4, CapHeader = 8, CapData = 12 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_words_are_those_of_wait() {
        assert_eq!(wait_status_exited(3), 0x300);
        assert_eq!(wait_status_exited(-1), 0xff00);
        assert_eq!(wait_status_signaled(11, true), 0x8b);
        assert_eq!(wait_status_stopped(19), 0x137f);
    }
}
