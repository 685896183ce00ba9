//! Who waits for what: event masks, the wait queue of an open file, and what a blocked thread is registered with.
//!
//! A file's queue holds two kinds of watchers: threads inside a call, and interests of epoll instances. `Kernel::notify` goes
//! through one file's queue only; nothing ever scans all interests of an epoll instance.

use crate::ids::FileId;
use crate::ids::Tid;
use smallvec::SmallVec;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// A set of readiness events, in the bits of `poll` and `epoll` (which agree).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Events(pub u32);

impl Events {
    pub const NONE: Events = Events(0);
    pub const IN: Events = Events(0x1);
    pub const PRI: Events = Events(0x2);
    pub const OUT: Events = Events(0x4);
    pub const ERR: Events = Events(0x8);
    pub const HUP: Events = Events(0x10);
    pub const NVAL: Events = Events(0x20);
    pub const RDNORM: Events = Events(0x40);
    pub const RDBAND: Events = Events(0x80);
    pub const WRNORM: Events = Events(0x100);
    pub const WRBAND: Events = Events(0x200);
    pub const MSG: Events = Events(0x400);
    pub const RDHUP: Events = Events(0x2000);
    /// What a reader waits for.
    pub const READABLE: Events = Events(0x1 | 0x40);
    /// What a writer waits for.
    pub const WRITABLE: Events = Events(0x4 | 0x100);
    /// Reported whether asked for or not.
    pub const ALWAYS: Events = Events(0x8 | 0x10);
    pub const ALL: Events = Events(0x27ff);

    pub const fn intersects(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }
    pub const fn contains(self, other: Events) -> bool {
        self.0 & other.0 == other.0
    }
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// These events when the condition holds, none otherwise.
    pub const fn when(self, condition: bool) -> Events {
        if condition { self } else { Events(0) }
    }
}

impl BitOr for Events {
    type Output = Events;
    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Events) {
        self.0 |= other.0;
    }
}

impl BitAnd for Events {
    type Output = Events;
    fn bitand(self, other: Events) -> Events {
        Events(self.0 & other.0)
    }
}

impl Not for Events {
    type Output = Events;
    fn not(self) -> Events {
        Events(!self.0)
    }
}

/// One party in a file's wait queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watcher {
    /// A thread inside a blocking call. Leaves the queue when it is woken.
    Thread { tid: Tid, events: Events },
    /// An interest of an epoll instance. Stays until it is deleted.
    Epoll { epoll: FileId, item: u32, events: Events },
}

/// The watchers of one open file, in order of arrival.
#[derive(Debug, Default)]
pub struct WaitQueue {
    pub(crate) watchers: SmallVec<[Watcher; 1]>,
}

impl WaitQueue {
    pub fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }
    pub(crate) fn add(&mut self, watcher: Watcher) {
        self.watchers.push(watcher);
    }
    pub(crate) fn remove_thread(&mut self, gone: Tid) {
        self.watchers.retain(|w| !matches!(w, Watcher::Thread { tid, .. } if *tid == gone));
    }
    pub(crate) fn remove_epoll(&mut self, gone: FileId, gone_item: u32) {
        self.watchers
            .retain(|w| !matches!(w, Watcher::Epoll { epoll, item, .. } if *epoll == gone && *item == gone_item));
    }
}

/// Why a thread's call is executed (again).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wake {
    /// It was not blocked: the call's first execution.
    #[default]
    First,
    /// A wait source notified.
    Ready,
    /// The deadline passed.
    TimedOut,
    /// A signal arrived that is not blocked.
    Interrupted,
}
