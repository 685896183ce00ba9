//! The simulated Linux that guests run on: processes, threads, descriptors, files, pipes, sockets, clocks, signals.
//!
//! One [`Kernel`] per simulated host. It knows nothing of workers: a caller hands it the time, executes the threads that it
//! names runnable, and gives each system call to [`syscalls::execute`].
//!
//! A call that has to wait registers with wait sources and is executed again from its start when one of them notifies; what must
//! survive (its deadline, partial progress) stands in [`thread::PendingCall`].

mod aio;
pub mod bpf;
pub mod by_hand;
pub mod clock;
mod clock_loops;
pub mod computing;
pub mod counting;
mod cpu_timers;
pub mod crash;
pub mod credentials;
pub mod ctx;
pub mod debug;
mod escapes;
pub mod exec;
pub mod family;
pub mod fd_table;
pub mod files;
pub mod futex;
mod held;
pub mod host;
pub mod host_clock;
pub mod ids;
pub mod intervals;
pub mod ipc;
pub mod kernel;
mod leases;
pub mod limits;
mod locked;
pub mod locks;
pub mod machine;
mod memory_policy;
mod memory_use;
mod namespaces;
pub mod net;
pub mod outcome;
pub mod process;
pub mod processors;
pub mod profiling;
mod program_files;
mod provenance;
mod recent_calls;
mod run;
pub mod schedule;
pub mod seccomp;
pub mod shared;
mod shortage;
pub mod signal;
mod signal_delivery;
mod signal_send;
mod spree;
pub mod syscalls;
#[cfg(test)]
mod test_machine;
pub mod thread;
mod time_stamp;
pub mod timers;
pub mod trace;
pub mod tty;
pub mod unix;
pub mod user_io;
pub mod vfs;
pub mod wait;

pub use credentials::Credentials;
pub use ctx::Ctx;
pub use debug::DebugTarget;
pub use host::{HostConfig, HostName, HostNames, NetworkSettings};
pub use ids::{FileId, Pid, SpaceId, Tid};
pub use kernel::{Kernel, Report};
pub use outcome::{Outcome, Restart, SysResult};
pub use process::Process;
pub use thread::{Thread, ThreadState};
pub use vfs::folders::Folders;
pub use vfs::machine_files::MachineFiles;
pub use wait::{Events, Wake};
