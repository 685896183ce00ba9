//! The stack under test of [packetdrill](https://github.com/google/packetdrill): a shared object for its `--so_filename`, which answers a
//! script's system calls with one simulated host's kernel and stack, in virtual time.
//!
//! packetdrill has two threads: the main one runs the script and the clock, the other makes the calls that block. `interface.rs` is what
//! packetdrill calls, in C's terms; `session.rs` decides which of the two threads goes on and when time passes; `host.rs` is the
//! simulated host; `settings.rs` reads what the script has set by sysctl; `preload.rs` replaces functions of the C library that packetdrill calls
//! directly. Nothing of the simulator knows this crate.

mod host;
mod interface;
mod preload;
mod session;
mod settings;
