//! System V and POSIX inter-process communication: shared memory, semaphores, message queues.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The key that never names anything: each call with it makes something new.
pub const IPC_PRIVATE: i32 = 0;

constants! {
    /// shmget(2), semget(2), msgget(2), beside permission bits; and `IPC_NOWAIT` of the calls that wait.
    IPC_FLAGS: u32 {
        IPC_CREAT = 0o1000,
        IPC_EXCL = 0o2000,
        IPC_NOWAIT = 0o4000,
    }
}

constants! {
    /// What shmctl(2), semctl(2) and msgctl(2) have in common.
    IPC_COMMANDS: i32 {
        IPC_RMID = 0,
        IPC_SET = 1,
        IPC_STAT = 2,
        IPC_INFO = 3,
    }
}

constants! {
    /// shmctl(2).
    SHM_COMMANDS: i32 {
        SHM_LOCK = 11,
        SHM_UNLOCK = 12,
        SHM_STAT = 13,
        SHM_INFO = 14,
        SHM_STAT_ANY = 15,
    }
}

constants! {
    /// shmat(2).
    SHM_FLAGS: u32 {
        SHM_RDONLY = 0o10000,
        SHM_RND = 0o20000,
        SHM_REMAP = 0o40000,
        SHM_EXEC = 0o100000,
    }
}

constants! {
    /// Bits of a segment's mode beside its permissions.
    SHM_MODES: u32 {
        SHM_DEST = 0o1000,
        SHM_LOCKED = 0o2000,
    }
}

/// shmget(2): pages of another size, of which a host has none.
pub const SHM_HUGETLB: u32 = 0o4000;

constants! {
    /// semctl(2).
    SEM_COMMANDS: i32 {
        GETPID = 11,
        GETVAL = 12,
        GETALL = 13,
        GETNCNT = 14,
        GETZCNT = 15,
        SETVAL = 16,
        SETALL = 17,
        SEM_STAT = 18,
        SEM_INFO = 19,
        SEM_STAT_ANY = 20,
    }
}

/// semop(2): the operation is undone when the process ends.
pub const SEM_UNDO: u16 = 0x1000;

constants! {
    /// msgctl(2).
    MSG_COMMANDS: i32 {
        MSG_STAT = 11,
        MSG_INFO = 12,
        MSG_STAT_ANY = 13,
    }
}

constants! {
    /// msgrcv(2).
    MSGRCV_FLAGS: u32 {
        MSG_NOERROR = 0o10000,
        MSG_EXCEPT = 0o20000,
        MSG_COPY = 0o40000,
    }
}

/// `struct ipc_perm`: who made something, and who may do what with it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IpcPerm {
    pub key: i32,
    pub uid: u32,
    pub gid: u32,
    pub cuid: u32,
    pub cgid: u32,
    pub mode: u32,
    pub seq: u16,
    pub pad: [u8; 6],
    pub unused: [u64; 2],
}

/// `struct shmid_ds`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShmidDs {
    pub shm_perm: IpcPerm,
    pub shm_segsz: u64,
    pub shm_atime: i64,
    pub shm_dtime: i64,
    pub shm_ctime: i64,
    pub shm_cpid: i32,
    pub shm_lpid: i32,
    pub shm_nattch: u64,
    pub unused: [u64; 2],
}

/// `struct shminfo`: limits.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Shminfo {
    pub shmmax: u64,
    pub shmmin: u64,
    pub shmmni: u64,
    pub shmseg: u64,
    pub shmall: u64,
    pub unused: [u64; 4],
}

/// `struct shm_info`: use.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ShmInfo {
    pub used_ids: i32,
    pub pad: i32,
    pub shm_tot: u64,
    pub shm_rss: u64,
    pub shm_swp: u64,
    pub swap_attempts: u64,
    pub swap_successes: u64,
}

/// `struct semid_ds`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SemidDs {
    pub sem_perm: IpcPerm,
    pub sem_otime: i64,
    pub unused1: u64,
    pub sem_ctime: i64,
    pub unused2: u64,
    pub sem_nsems: u64,
    pub unused3: [u64; 2],
}

/// `struct seminfo`: limits, and with SEM_INFO use.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Seminfo {
    pub semmap: i32,
    pub semmni: i32,
    pub semmns: i32,
    pub semmnu: i32,
    pub semmsl: i32,
    pub semopm: i32,
    pub semume: i32,
    pub semusz: i32,
    pub semvmx: i32,
    pub semaem: i32,
}

/// `struct sembuf`: one operation on one semaphore of a set.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sembuf {
    pub sem_num: u16,
    pub sem_op: i16,
    pub sem_flg: u16,
}

/// `struct msqid_ds`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MsqidDs {
    pub msg_perm: IpcPerm,
    pub msg_stime: i64,
    pub msg_rtime: i64,
    pub msg_ctime: i64,
    pub msg_cbytes: u64,
    pub msg_qnum: u64,
    pub msg_qbytes: u64,
    pub msg_lspid: i32,
    pub msg_lrpid: i32,
    pub unused: [u64; 2],
}

/// `struct msginfo`: limits, and with MSG_INFO use.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Msginfo {
    pub msgpool: i32,
    pub msgmap: i32,
    pub msgmax: i32,
    pub msgmnb: i32,
    pub msgmni: i32,
    pub msgssz: i32,
    pub msgtql: i32,
    pub msgseg: u16,
    pub pad: u16,
}

/// `struct mq_attr`, as the kernel's calls have it.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MqAttr {
    pub mq_flags: i64,
    pub mq_maxmsg: i64,
    pub mq_msgsize: i64,
    pub mq_curmsgs: i64,
    pub reserved: [i64; 4],
}

assert_size! {
    IpcPerm = 48, ShmidDs = 112, Shminfo = 72, ShmInfo = 48, SemidDs = 104, Seminfo = 40, Sembuf = 6, MsqidDs = 120,
    Msginfo = 32, MqAttr = 64,
}
