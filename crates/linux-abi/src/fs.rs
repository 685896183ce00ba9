//! Files: flags of open and its relatives, modes, fcntl, and the structures that describe files and file systems.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Mask of the access mode in open's flags.
pub const O_ACCMODE: u32 = 0o3;

constants! {
    /// open(2), x86-64 values.
    OPEN_FLAGS: u32 {
        O_RDONLY = 0,
        O_WRONLY = 0o1,
        O_RDWR = 0o2,
        O_CREAT = 0o100,
        O_EXCL = 0o200,
        O_NOCTTY = 0o400,
        O_TRUNC = 0o1000,
        O_APPEND = 0o2000,
        O_NONBLOCK = 0o4000,
        O_SYNC = 0o4010000,
        O_DSYNC = 0o10000,
        O_ASYNC = 0o20000,
        O_DIRECT = 0o40000,
        O_LARGEFILE = 0o100000,
        O_TMPFILE = 0o20200000,
        O_DIRECTORY = 0o200000,
        O_NOFOLLOW = 0o400000,
        O_NOATIME = 0o1000000,
        O_CLOEXEC = 0o2000000,
        O_PATH = 0o10000000,
    }
}

constants! {
    /// Flags of the `*at` calls.
    AT_FLAGS: u32 {
        AT_SYMLINK_NOFOLLOW = 0x100,
        AT_REMOVEDIR = 0x200,
        AT_SYMLINK_FOLLOW = 0x400,
        AT_NO_AUTOMOUNT = 0x800,
        AT_EMPTY_PATH = 0x1000,
        AT_STATX_FORCE_SYNC = 0x2000,
        AT_STATX_DONT_SYNC = 0x4000,
        AT_RECURSIVE = 0x8000,
    }
}

/// The directory descriptor that stands for the working directory.
pub const AT_FDCWD: i32 = -100;
/// faccessat2(2): check by effective ids.
pub const AT_EACCESS: u32 = 0x200;

constants! {
    /// access(2).
    ACCESS_MODES: u32 {
        F_OK = 0,
        X_OK = 1,
        W_OK = 2,
        R_OK = 4,
    }
}

constants! {
    /// lseek(2).
    WHENCE: i32 {
        SEEK_SET = 0,
        SEEK_CUR = 1,
        SEEK_END = 2,
        SEEK_DATA = 3,
        SEEK_HOLE = 4,
    }
}

pub const S_IFMT: u32 = 0o170000;

constants! {
    /// File types in `st_mode`, inode(7).
    FILE_TYPES: u32 {
        S_IFSOCK = 0o140000,
        S_IFLNK = 0o120000,
        S_IFREG = 0o100000,
        S_IFBLK = 0o060000,
        S_IFDIR = 0o040000,
        S_IFCHR = 0o020000,
        S_IFIFO = 0o010000,
    }
}

pub const S_ISUID: u32 = 0o4000;
pub const S_ISGID: u32 = 0o2000;
pub const S_ISVTX: u32 = 0o1000;
pub const S_IXGRP: u32 = 0o010;

constants! {
    /// fcntl(2) commands.
    FCNTL_COMMANDS: i32 {
        F_DUPFD = 0,
        F_GETFD = 1,
        F_SETFD = 2,
        F_GETFL = 3,
        F_SETFL = 4,
        F_GETLK = 5,
        F_SETLK = 6,
        F_SETLKW = 7,
        F_SETOWN = 8,
        F_GETOWN = 9,
        F_SETSIG = 10,
        F_GETSIG = 11,
        F_SETOWN_EX = 15,
        F_GETOWN_EX = 16,
        F_OFD_GETLK = 36,
        F_OFD_SETLK = 37,
        F_OFD_SETLKW = 38,
        F_SETLEASE = 1024,
        F_GETLEASE = 1025,
        F_NOTIFY = 1026,
        F_DUPFD_QUERY = 1027,
        F_DUPFD_CLOEXEC = 1030,
        F_SETPIPE_SZ = 1031,
        F_GETPIPE_SZ = 1032,
        F_ADD_SEALS = 1033,
        F_GET_SEALS = 1034,
        F_GET_RW_HINT = 1035,
        F_SET_RW_HINT = 1036,
    }
}

pub const FD_CLOEXEC: u32 = 1;

constants! {
    /// Lock types of fcntl(2).
    LOCK_TYPES: i32 {
        F_RDLCK = 0,
        F_WRLCK = 1,
        F_UNLCK = 2,
    }
}

constants! {
    /// flock(2).
    FLOCK_OPERATIONS: u32 {
        LOCK_SH = 1,
        LOCK_EX = 2,
        LOCK_NB = 4,
        LOCK_MAND = 32,
        LOCK_UN = 8,
    }
}

/// The size of huge pages in the flags of memfd_create(2), as a power of two.
pub const MFD_HUGE_MASK: u32 = 0x3f << 26;

constants! {
    /// memfd_create(2) and its seals' companions.
    MEMFD_FLAGS: u32 {
        MFD_CLOEXEC = 1,
        MFD_ALLOW_SEALING = 2,
        MFD_HUGETLB = 4,
        MFD_NOEXEC_SEAL = 8,
        MFD_EXEC = 0x10,
    }
}

constants! {
    /// Seals of F_ADD_SEALS.
    SEALS: u32 {
        F_SEAL_SEAL = 0x1,
        F_SEAL_SHRINK = 0x2,
        F_SEAL_GROW = 0x4,
        F_SEAL_WRITE = 0x8,
        F_SEAL_FUTURE_WRITE = 0x10,
        F_SEAL_EXEC = 0x20,
    }
}

constants! {
    /// fallocate(2).
    FALLOCATE_FLAGS: u32 {
        FALLOC_FL_KEEP_SIZE = 0x1,
        FALLOC_FL_PUNCH_HOLE = 0x2,
        FALLOC_FL_COLLAPSE_RANGE = 0x8,
        FALLOC_FL_ZERO_RANGE = 0x10,
        FALLOC_FL_INSERT_RANGE = 0x20,
        FALLOC_FL_UNSHARE_RANGE = 0x40,
    }
}

constants! {
    /// renameat2(2).
    RENAME_FLAGS: u32 {
        RENAME_NOREPLACE = 1,
        RENAME_EXCHANGE = 2,
        RENAME_WHITEOUT = 4,
    }
}

constants! {
    /// posix_fadvise(2).
    FADVISE: i32 {
        POSIX_FADV_NORMAL = 0,
        POSIX_FADV_RANDOM = 1,
        POSIX_FADV_SEQUENTIAL = 2,
        POSIX_FADV_WILLNEED = 3,
        POSIX_FADV_DONTNEED = 4,
        POSIX_FADV_NOREUSE = 5,
    }
}

constants! {
    /// preadv2(2), pwritev2(2).
    RWF_FLAGS: u32 {
        RWF_HIPRI = 0x1,
        RWF_DSYNC = 0x2,
        RWF_SYNC = 0x4,
        RWF_NOWAIT = 0x8,
        RWF_APPEND = 0x10,
        RWF_NOAPPEND = 0x20,
    }
}

constants! {
    /// splice(2), tee(2), vmsplice(2).
    SPLICE_FLAGS: u32 {
        SPLICE_F_MOVE = 1,
        SPLICE_F_NONBLOCK = 2,
        SPLICE_F_MORE = 4,
        SPLICE_F_GIFT = 8,
    }
}

constants! {
    /// inotify_add_watch(2).
    INOTIFY_MASK: u32 {
        IN_ACCESS = 0x1,
        IN_MODIFY = 0x2,
        IN_ATTRIB = 0x4,
        IN_CLOSE_WRITE = 0x8,
        IN_CLOSE_NOWRITE = 0x10,
        IN_OPEN = 0x20,
        IN_MOVED_FROM = 0x40,
        IN_MOVED_TO = 0x80,
        IN_CREATE = 0x100,
        IN_DELETE = 0x200,
        IN_DELETE_SELF = 0x400,
        IN_MOVE_SELF = 0x800,
        IN_ONLYDIR = 0x0100_0000,
        IN_DONT_FOLLOW = 0x0200_0000,
        IN_EXCL_UNLINK = 0x0400_0000,
        IN_MASK_ADD = 0x2000_0000,
        IN_ISDIR = 0x4000_0000,
        IN_ONESHOT = 0x8000_0000,
    }
}

constants! {
    /// Entry types of getdents64(2).
    DIRENT_TYPES: u32 {
        DT_UNKNOWN = 0,
        DT_FIFO = 1,
        DT_CHR = 2,
        DT_DIR = 4,
        DT_BLK = 6,
        DT_REG = 8,
        DT_LNK = 10,
        DT_SOCK = 12,
    }
}

/// All that stat(2) returns.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// For a longer structure one day (`STATX__RESERVED`).
pub const STATX_RESERVED: u32 = 0x8000_0000;

constants! {
    /// statx(2) masks.
    STATX_MASK: u32 {
        STATX_TYPE = 0x1,
        STATX_MODE = 0x2,
        STATX_NLINK = 0x4,
        STATX_UID = 0x8,
        STATX_GID = 0x10,
        STATX_ATIME = 0x20,
        STATX_MTIME = 0x40,
        STATX_CTIME = 0x80,
        STATX_INO = 0x100,
        STATX_SIZE = 0x200,
        STATX_BLOCKS = 0x400,
        STATX_BTIME = 0x800,
        STATX_MNT_ID = 0x1000,
        STATX_DIOALIGN = 0x2000,
    }
}

/// Numbers of file systems, for statfs(2).
pub const TMPFS_MAGIC: i64 = 0x0102_1994;
pub const EXT4_SUPER_MAGIC: i64 = 0xef53;
pub const PROC_SUPER_MAGIC: i64 = 0x9fa0;
pub const PIPEFS_MAGIC: i64 = 0x5049_5045;
pub const SOCKFS_MAGIC: i64 = 0x534f_434b;
pub const ANON_INODE_FS_MAGIC: i64 = 0x0904_1934;
pub const SYSFS_MAGIC: i64 = 0x6265_6572;
pub const DEVPTS_SUPER_MAGIC: i64 = 0x1cd1;
pub const MQUEUE_MAGIC: i64 = 0x1980_0202;
pub const NSFS_MAGIC: i64 = 0x6e73_6673;

/// Flags of file systems, statfs(2). `ST_VALID` says that there are some.
pub const ST_NOSUID: i64 = 2;
pub const ST_NODEV: i64 = 4;
pub const ST_NOEXEC: i64 = 8;
pub const ST_VALID: i64 = 0x20;
pub const ST_RELATIME: i64 = 0x1000;

pub const NAME_MAX: usize = 255;
/// The longest path, its NUL included.
pub const PATH_MAX: usize = 4096;
/// The most vectors that one readv(2) takes.
pub const IOV_MAX: usize = 1024;
/// The most bytes that one read or write moves, read(2).
pub const MAX_RW_COUNT: u64 = 0x7fff_f000;

/// The device number of a major and a minor number, makedev(3).
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (major & 0xffff_f000) << 32 | (major & 0xfff) << 8 | (minor & 0xffff_ff00) << 12 | minor & 0xff
}

pub const fn dev_major(dev: u64) -> u32 {
    (dev >> 32 & 0xffff_f000 | dev >> 8 & 0xfff) as u32
}

pub const fn dev_minor(dev: u64) -> u32 {
    (dev >> 12 & 0xffff_ff00 | dev & 0xff) as u32
}

/// stat(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Stat {
    pub st_dev: u64,
    pub st_ino: u64,
    pub st_nlink: u64,
    pub st_mode: u32,
    pub st_uid: u32,
    pub st_gid: u32,
    pub pad0: u32,
    pub st_rdev: u64,
    pub st_size: i64,
    pub st_blksize: i64,
    /// In units of 512 bytes.
    pub st_blocks: i64,
    pub st_atime: i64,
    pub st_atime_nsec: i64,
    pub st_mtime: i64,
    pub st_mtime_nsec: i64,
    pub st_ctime: i64,
    pub st_ctime_nsec: i64,
    pub unused: [i64; 3],
}

/// The times inside [`Statx`].
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StatxTimestamp {
    pub tv_sec: i64,
    pub tv_nsec: u32,
    pub reserved: i32,
}

/// statx(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Statx {
    pub stx_mask: u32,
    pub stx_blksize: u32,
    pub stx_attributes: u64,
    pub stx_nlink: u32,
    pub stx_uid: u32,
    pub stx_gid: u32,
    pub stx_mode: u16,
    pub pad0: u16,
    pub stx_ino: u64,
    pub stx_size: u64,
    pub stx_blocks: u64,
    pub stx_attributes_mask: u64,
    pub stx_atime: StatxTimestamp,
    pub stx_btime: StatxTimestamp,
    pub stx_ctime: StatxTimestamp,
    pub stx_mtime: StatxTimestamp,
    pub stx_rdev_major: u32,
    pub stx_rdev_minor: u32,
    pub stx_dev_major: u32,
    pub stx_dev_minor: u32,
    pub stx_mnt_id: u64,
    pub stx_dio_mem_align: u32,
    pub stx_dio_offset_align: u32,
    pub spare: [u64; 12],
}

impl Statx {
    /// Adds when the file was created, in nanoseconds of the Unix epoch.
    pub fn set_birth(&mut self, ns: u64) {
        self.stx_mask |= STATX_BTIME;
        self.stx_btime =
            StatxTimestamp { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as u32, reserved: 0 };
    }

    /// What statx(2) says of a file of which stat(2) says `stat`.
    pub fn from_stat(stat: &Stat) -> Statx {
        let time = |sec: i64, nsec: i64| StatxTimestamp { tv_sec: sec, tv_nsec: nsec as u32, reserved: 0 };
        Statx {
            stx_mask: STATX_BASIC_STATS,
            stx_blksize: stat.st_blksize as u32,
            stx_nlink: stat.st_nlink as u32,
            stx_uid: stat.st_uid,
            stx_gid: stat.st_gid,
            stx_mode: stat.st_mode as u16,
            stx_ino: stat.st_ino,
            stx_size: stat.st_size as u64,
            stx_blocks: stat.st_blocks as u64,
            stx_atime: time(stat.st_atime, stat.st_atime_nsec),
            stx_ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            stx_mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            stx_rdev_major: dev_major(stat.st_rdev),
            stx_rdev_minor: dev_minor(stat.st_rdev),
            stx_dev_major: dev_major(stat.st_dev),
            stx_dev_minor: dev_minor(stat.st_dev),
            ..Statx::default()
        }
    }
}

/// statfs(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Statfs {
    pub f_type: i64,
    pub f_bsize: i64,
    pub f_blocks: u64,
    pub f_bfree: u64,
    pub f_bavail: u64,
    pub f_files: u64,
    pub f_ffree: u64,
    pub f_fsid: [i32; 2],
    pub f_namelen: i64,
    pub f_frsize: i64,
    pub f_flags: i64,
    pub f_spare: [i64; 4],
}

/// One vector of readv(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Iovec {
    pub iov_base: u64,
    pub iov_len: u64,
}

/// A record lock, fcntl(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Flock {
    pub l_type: i16,
    pub l_whence: i16,
    pub pad0: u32,
    pub l_start: i64,
    pub l_len: i64,
    pub l_pid: i32,
    pub pad1: u32,
}

/// openat2(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenHow {
    pub flags: u64,
    pub mode: u64,
    pub resolve: u64,
}

constants! {
    /// `resolve` of openat2(2).
    RESOLVE_FLAGS: u64 {
        RESOLVE_NO_XDEV = 0x1,
        RESOLVE_NO_MAGICLINKS = 0x2,
        RESOLVE_NO_SYMLINKS = 0x4,
        RESOLVE_BENEATH = 0x8,
        RESOLVE_IN_ROOT = 0x10,
        RESOLVE_CACHED = 0x20,
    }
}

/// utime(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Utimbuf {
    pub actime: i64,
    pub modtime: i64,
}

constants! {
    /// Kinds of owners, F_SETOWN_EX.
    OWNER_KINDS: i32 {
        F_OWNER_TID = 0,
        F_OWNER_PID = 1,
        F_OWNER_PGRP = 2,
    }
}

/// F_SETOWN_EX.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FOwnerEx {
    pub kind: i32,
    pub pid: i32,
}

assert_size! {
    Stat = 144, StatxTimestamp = 16, Statx = 256, Statfs = 120, Iovec = 16, Flock = 32, OpenHow = 24, Utimbuf = 16,
    FOwnerEx = 8,
}

/// Bytes before the name in a directory entry of getdents64(2).
pub const DIRENT64_HEADER: usize = 19;

/// The size of a getdents64(2) entry: header, name, NUL, rounded up to 8.
pub const fn dirent64_size(name_len: usize) -> usize {
    (DIRENT64_HEADER + name_len + 1).next_multiple_of(8)
}

/// Appends one getdents64(2) entry to `out` if it then holds at most `limit` bytes; false, and nothing written, if not.
/// `next_offset` is the directory position after this entry.
pub fn push_dirent64(out: &mut Vec<u8>, limit: usize, ino: u64, next_offset: i64, kind: u8, name: &[u8]) -> bool {
    let size = dirent64_size(name.len());
    let end = out.len() + size;
    if end > limit {
        return false;
    }
    out.extend_from_slice(&ino.to_le_bytes());
    out.extend_from_slice(&next_offset.to_le_bytes());
    out.extend_from_slice(&(size as u16).to_le_bytes());
    out.push(kind);
    out.extend_from_slice(name);
    out.resize(end, 0);
    true
}

/// Appends one entry of the old getdents(2), whose type stands in the entry's last byte; as [`push_dirent64`].
pub fn push_dirent(out: &mut Vec<u8>, limit: usize, ino: u64, next_offset: i64, kind: u8, name: &[u8]) -> bool {
    let size = (18 + name.len() + 2).next_multiple_of(8);
    let end = out.len() + size;
    if end > limit {
        return false;
    }
    out.extend_from_slice(&ino.to_le_bytes());
    out.extend_from_slice(&next_offset.to_le_bytes());
    out.extend_from_slice(&(size as u16).to_le_bytes());
    out.extend_from_slice(name);
    out.resize(end - 1, 0);
    out.push(kind);
    true
}

/// The getdents64(2) type of a file with this `st_mode`.
pub const fn dirent_type(mode: u32) -> u8 {
    ((mode & S_IFMT) >> 12) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_entries_are_aligned_terminated_and_bounded() {
        let mut out = Vec::new();
        assert!(push_dirent64(&mut out, 64, 5, 1, DT_DIR as u8, b"."));
        assert_eq!(out.len(), 24);
        assert!(push_dirent64(&mut out, 64, 6, 2, DT_REG as u8, b"hello"));
        assert_eq!(out.len(), 56, "19 + 5 + 1 = 25 rounds up to 32");
        assert!(!push_dirent64(&mut out, 64, 7, 3, DT_REG as u8, b"x"), "24 more bytes pass the limit");
        assert_eq!(out.len(), 56);
        assert_eq!(&out[24..32], &6u64.to_le_bytes());
        assert_eq!(&out[40..43], &[32, 0, 8]);
        assert_eq!(&out[43..49], b"hello\0");
    }

    #[test]
    fn old_directory_entries_end_with_their_type() {
        let mut out = Vec::new();
        assert!(push_dirent(&mut out, 64, 5, 1, DT_LNK as u8, b"link"));
        assert_eq!(out.len(), 24);
        assert_eq!(&out[18..23], b"link\0");
        assert_eq!(out[23], DT_LNK as u8);
    }

    #[test]
    fn device_numbers_split_as_they_were_made() {
        assert_eq!(makedev(8, 1), 0x801);
        let dev = makedev(0x12345, 0x6789a);
        assert_eq!((dev_major(dev), dev_minor(dev)), (0x12345, 0x6789a));
        assert_eq!(dirent_type(S_IFREG | 0o644), DT_REG as u8);
        assert_eq!(dirent_type(S_IFSOCK), DT_SOCK as u8);
    }
}
