//! Asynchronous input and output, io_submit(2): `linux/aio_abi.h`, and the ring of `fs/aio.c`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// What an operation is.
    IOCB_COMMANDS: u16 {
        IOCB_CMD_PREAD = 0,
        IOCB_CMD_PWRITE = 1,
        IOCB_CMD_FSYNC = 2,
        IOCB_CMD_FDSYNC = 3,
        IOCB_CMD_POLL = 5,
        IOCB_CMD_NOOP = 6,
        IOCB_CMD_PREADV = 7,
        IOCB_CMD_PWRITEV = 8,
    }
}

constants! {
    /// `Iocb::flags`.
    IOCB_FLAGS: u32 {
        IOCB_FLAG_RESFD = 1,
        IOCB_FLAG_IOPRIO = 2,
    }
}

/// What the kernel writes into `Iocb::key`.
pub const KIOCB_KEY: u32 = 0;

/// `struct iocb`: an operation as programs ask for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Iocb {
    /// Comes back in the event.
    pub data: u64,
    pub key: u32,
    /// As the flags of preadv2(2).
    pub rw_flags: u32,
    pub command: u16,
    pub priority: i16,
    pub fd: u32,
    /// A buffer, or a vector of them.
    pub buffer: u64,
    /// Bytes, or buffers of a vector.
    pub count: u64,
    pub offset: u64,
    pub reserved: u64,
    pub flags: u32,
    /// The eventfd that is told of the end.
    pub result_fd: u32,
}

/// Where the key lies in an `Iocb`, in bytes.
pub const IOCB_KEY_OFFSET: u64 = 8;

/// `struct io_event`: the end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct IoEvent {
    pub data: u64,
    /// The address of its `Iocb`.
    pub iocb: u64,
    /// As a call's result: bytes, or an error number below 0.
    pub result: i64,
    pub result2: i64,
}

/// `struct aio_ring`: the head of the memory at a context's address, which events follow. Programs may read it, and take events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AioRing {
    pub id: u32,
    /// How many events it has room for.
    pub events: u32,
    /// The next event to take.
    pub head: u32,
    /// Where the next one comes.
    pub tail: u32,
    pub magic: u32,
    pub compatible: u32,
    pub incompatible: u32,
    pub header_bytes: u32,
}

pub const AIO_RING_MAGIC: u32 = 0xa10a_10a1;
/// Where head and tail lie in an `AioRing`, in bytes.
pub const AIO_RING_HEAD: u64 = 8;
pub const AIO_RING_TAIL: u64 = 12;

const _: () = assert!(size_of::<Iocb>() == 64 && size_of::<IoEvent>() == 32 && size_of::<AioRing>() == 32);
