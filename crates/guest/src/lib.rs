//! Guests: ELF images, arenas, rewritten code, vcpus, guest memory. The only crate with `unsafe`.
//!
//! It knows nothing of files, sockets or scheduling: it loads a program into an arena, runs one of its threads until that
//! thread needs the simulated kernel, and says why it came back.

#![allow(unsafe_code, reason = "the one crate that runs foreign machine code; each block carries its argument")]

pub mod memory;

pub use memory::{AddressSpace, Fault};
