//! Waiting for descriptors: poll, select, epoll, eventfd, timerfd, signalfd, pipes' flags.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

constants! {
    /// poll(2).
    POLL_EVENTS: i16 {
        POLLIN = 0x1,
        POLLPRI = 0x2,
        POLLOUT = 0x4,
        POLLERR = 0x8,
        POLLHUP = 0x10,
        POLLNVAL = 0x20,
        POLLRDNORM = 0x40,
        POLLRDBAND = 0x80,
        POLLWRNORM = 0x100,
        POLLWRBAND = 0x200,
        POLLMSG = 0x400,
        POLLRDHUP = 0x2000,
    }
}

constants! {
    /// epoll_ctl(2) events.
    EPOLL_EVENTS: u32 {
        EPOLLIN = 0x1,
        EPOLLPRI = 0x2,
        EPOLLOUT = 0x4,
        EPOLLERR = 0x8,
        EPOLLHUP = 0x10,
        EPOLLNVAL = 0x20,
        EPOLLRDNORM = 0x40,
        EPOLLRDBAND = 0x80,
        EPOLLWRNORM = 0x100,
        EPOLLWRBAND = 0x200,
        EPOLLMSG = 0x400,
        EPOLLRDHUP = 0x2000,
        EPOLLEXCLUSIVE = 0x1000_0000,
        EPOLLWAKEUP = 0x2000_0000,
        EPOLLONESHOT = 0x4000_0000,
        EPOLLET = 0x8000_0000,
    }
}

constants! {
    /// epoll_ctl(2) operations.
    EPOLL_CTL_OPS: i32 {
        EPOLL_CTL_ADD = 1,
        EPOLL_CTL_DEL = 2,
        EPOLL_CTL_MOD = 3,
    }
}

constants! {
    /// epoll_create1(2).
    EPOLL_CREATE_FLAGS: u32 {
        EPOLL_CLOEXEC = 0o2000000,
    }
}

constants! {
    /// eventfd2(2).
    EVENTFD_FLAGS: u32 {
        EFD_SEMAPHORE = 1,
        EFD_NONBLOCK = 0o4000,
        EFD_CLOEXEC = 0o2000000,
    }
}

constants! {
    /// timerfd_create(2).
    TIMERFD_FLAGS: u32 {
        TFD_NONBLOCK = 0o4000,
        TFD_CLOEXEC = 0o2000000,
    }
}

constants! {
    /// timerfd_settime(2).
    TIMERFD_SETTIME_FLAGS: u32 {
        TFD_TIMER_ABSTIME = 1,
        TFD_TIMER_CANCEL_ON_SET = 2,
    }
}

constants! {
    /// signalfd4(2).
    SIGNALFD_FLAGS: u32 {
        SFD_NONBLOCK = 0o4000,
        SFD_CLOEXEC = 0o2000000,
    }
}

/// Bits in an `fd_set`, select(2).
pub const FD_SETSIZE: usize = 1024;

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Pollfd {
    pub fd: i32,
    pub events: i16,
    pub revents: i16,
}

/// Packed on x86-64, epoll_ctl(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, packed)]
pub struct EpollEvent {
    pub events: u32,
    pub data: u64,
}

/// pselect6(2)'s sixth argument points to this.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SigsetArgpack {
    /// Where the mask lies; 0 for none.
    pub mask: u64,
    /// Its size in bytes: must be 8.
    pub size: u64,
}

assert_size! { Pollfd = 8, EpollEvent = 12, SigsetArgpack = 16 }
