//! Guests: ELF images, arenas, rewritten code, vcpus, guest memory. The only crate with `unsafe`.
//!
//! It knows nothing of files' names, sockets or scheduling: it loads a program into an arena, runs one of its threads until that
//! thread needs the simulated kernel, and says why it came back. The path of a guest: [`Program::open`] composes its images
//! (`image`), [`Program::start`] gives it an [`AddressSpace`] (`memory`) in its host's [`HostRegion`] (`arena`) and a [`Vcpu`],
//! [`Vcpu::run`] executes it on a [`Worker`] (`switch`, `traps`).
//!
//! Isolation: none between guests beyond good behaviour, since they share one address space. Only the simulated kernel's own
//! accesses are checked.

#![allow(unsafe_code, reason = "the one crate that runs foreign machine code; each block carries its argument")]

mod arena;
#[cfg(not(feature = "libfuzzer"))]
mod bytes;
mod copy;
mod counters;
mod cpu;
mod debugger;
mod emulate;
mod generated;
mod image;
mod loader;
mod memory;
mod preempt;
mod registers;
mod sampling;
mod signal_stack;
mod spin;
mod stepping;
mod switch;
mod traps;
mod vcpu;
mod vsyscall;
mod whereabouts;
mod worker;

pub use arena::{ARENAS_END, ARENAS_START, ArenaError, BLOCK_BYTES, HostRegion, map_arenas};
pub use counters::{Counters, counters};
pub use cpu::{TSC_HZ, time_stamp};
pub use debugger::{ShownThread, forget_thread, meet_debugger, show_thread, tell_debugger};
pub use generated::{ACCESS_BY_GS, MadeCode, Passed, SEEMING_ACCESS_BY_GS};
pub use image::{Composed, ElfError, ElfHeader, FileKey, Image, PAGE, Segment};
pub use loader::{Program, StartArguments, StartError};
pub use memory::show_to_perf;
pub use memory::{
    AddressSpace, Backing, Fault, MapError, MapRequest, Marks, MoveRequest, PROT_EXEC, PROT_READ, PROT_WRITE, Shortage,
    Vma, VmaKind, are_fixed_programs, for_growth, limit_memory, mappings_ran_out, shortage,
};
pub use preempt::{Stopwatch, end_computing, is_ending};
pub use registers::{NoUserAddress, Registers, SIGNAL_XSAVE_BYTES, USER_END};
pub use sampling::{OwnStack, Sample, SampledAt, Sampling, thread_time};
pub use spin::{Effort, Proof, Spin, prove_spin};
pub use stepping::StepKind;
pub use switch::CLOCK_CALLS;
pub use vcpu::{Exit, FaultInfo, Vcpu};
pub use whereabouts::{Whereabouts, whereabouts};
pub use worker::{GuestProbe, Worker, WorkerError, traps_cpuid};
