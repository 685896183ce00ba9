//! Every x86-64 system call: how far it is simulated, why not further, and by which function.
//!
//! `docs/system-calls.md` is generated from this table; a test keeps the two equal.

use super::{Handler, unsupported};
use linux_abi::nr::{self, *};

/// How much of a call's behaviour on Linux a guest gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Support {
    /// What programs can observe agrees with Linux.
    Full,
    /// Some of it is missing.
    Partial(&'static str),
    /// The call answers ENOSYS.
    Unsupported(&'static str),
}

#[derive(Clone, Copy)]
pub struct Entry {
    pub number: u32,
    pub support: Support,
    pub handler: Handler,
}

const fn full(number: u32, handler: Handler) -> Entry {
    Entry { number, support: Support::Full, handler }
}

const fn partial(number: u32, handler: Handler, what: &'static str) -> Entry {
    Entry { number, support: Support::Partial(what), handler }
}

const fn missing(number: u32, why: &'static str) -> Entry {
    Entry { number, support: Support::Unsupported(why), handler: unsupported }
}

/// Handlers by number.
pub(super) static HANDLERS: [Handler; nr::COUNT] = {
    let mut handlers: [Handler; nr::COUNT] = [unsupported; nr::COUNT];
    let mut i = 0;
    while i < TABLE.len() {
        handlers[TABLE[i].number as usize] = TABLE[i].handler;
        i += 1;
    }
    handlers
};

/// One entry per call, by family.
pub const TABLE: &[Entry] = &[
];
