//! Memory: protections, flags of mmap and its relatives, advice.

pub const PAGE_SIZE: u64 = 4096;

constants! {
    /// mmap(2), mprotect(2).
    PROT_FLAGS: u32 {
        PROT_NONE = 0,
        PROT_READ = 1,
        PROT_WRITE = 2,
        PROT_EXEC = 4,
        PROT_SEM = 8,
        PROT_GROWSDOWN = 0x0100_0000,
        PROT_GROWSUP = 0x0200_0000,
    }
}

/// Mask of the mapping's kind in mmap's flags.
pub const MAP_TYPE: u32 = 0xf;

constants! {
    /// Kinds of mappings.
    MAP_TYPES: u32 {
        MAP_SHARED = 1,
        MAP_PRIVATE = 2,
        MAP_SHARED_VALIDATE = 3,
    }
}

constants! {
    /// mmap(2), besides the kind.
    MAP_FLAGS: u32 {
        MAP_FIXED = 0x10,
        MAP_ANONYMOUS = 0x20,
        MAP_32BIT = 0x40,
        MAP_GROWSDOWN = 0x100,
        MAP_DENYWRITE = 0x800,
        MAP_EXECUTABLE = 0x1000,
        MAP_LOCKED = 0x2000,
        MAP_NORESERVE = 0x4000,
        MAP_POPULATE = 0x8000,
        MAP_NONBLOCK = 0x1_0000,
        MAP_STACK = 0x2_0000,
        MAP_HUGETLB = 0x4_0000,
        MAP_SYNC = 0x8_0000,
        MAP_FIXED_NOREPLACE = 0x10_0000,
    }
}

/// Flags that MAP_SHARED takes without looking, known or not; MAP_SHARED_VALIDATE takes no others.
pub const MAP_LEGACY: u32 = MAP_SHARED
    | MAP_PRIVATE
    | MAP_FIXED
    | MAP_ANONYMOUS
    | MAP_32BIT
    | MAP_GROWSDOWN
    | MAP_DENYWRITE
    | MAP_EXECUTABLE
    | MAP_LOCKED
    | MAP_NORESERVE
    | MAP_POPULATE
    | MAP_NONBLOCK
    | MAP_STACK
    | MAP_HUGETLB
    | 0x80
    | 0x3f << MAP_HUGE_SHIFT;
/// Above it stands the size of huge pages.
const MAP_HUGE_SHIFT: u32 = 26;

constants! {
    /// mremap(2).
    MREMAP_FLAGS: u32 {
        MREMAP_MAYMOVE = 1,
        MREMAP_FIXED = 2,
        MREMAP_DONTUNMAP = 4,
    }
}

constants! {
    /// msync(2).
    MSYNC_FLAGS: u32 {
        MS_ASYNC = 1,
        MS_INVALIDATE = 2,
        MS_SYNC = 4,
    }
}

constants! {
    /// mlockall(2).
    MLOCKALL_FLAGS: u32 {
        MCL_CURRENT = 1,
        MCL_FUTURE = 2,
        MCL_ONFAULT = 4,
    }
}

constants! {
    /// madvise(2).
    ADVICE: i32 {
        MADV_NORMAL = 0,
        MADV_RANDOM = 1,
        MADV_SEQUENTIAL = 2,
        MADV_WILLNEED = 3,
        MADV_DONTNEED = 4,
        MADV_FREE = 8,
        MADV_REMOVE = 9,
        MADV_DONTFORK = 10,
        MADV_DOFORK = 11,
        MADV_MERGEABLE = 12,
        MADV_UNMERGEABLE = 13,
        MADV_HUGEPAGE = 14,
        MADV_NOHUGEPAGE = 15,
        MADV_DONTDUMP = 16,
        MADV_DODUMP = 17,
        MADV_WIPEONFORK = 18,
        MADV_KEEPONFORK = 19,
        MADV_COLD = 20,
        MADV_PAGEOUT = 21,
        MADV_POPULATE_READ = 22,
        MADV_POPULATE_WRITE = 23,
        MADV_DONTNEED_LOCKED = 24,
        MADV_COLLAPSE = 25,
        MADV_HWPOISON = 100,
    }
}
