//! Contexts of asynchronous input and output: what the kernel keeps of them, for all processes that
//! have the same memory. The calls are in `syscalls/aio.rs`.

use std::collections::BTreeMap;

/// The contexts of an address space, by the address of their rings, which is their number for the
/// program.
pub(crate) type Contexts = BTreeMap<u64, Context>;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// How many events the ring has room for; one place stays free.
    pub(crate) events: u32,
    /// Where the next event comes. The head is the program's: it lies in the ring alone.
    pub(crate) tail: u32,
    pub(crate) bytes: u64,
}
