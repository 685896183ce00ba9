//! What a run leaves behind: the data directory, the log, guests' output files, captures, counters, and the run's digest.
//!
//! It knows nothing of engine, kernel or guests: they hand it typed events. On the hot path nothing here takes a lock that
//! two workers share: a host owns its files' buffers and its digest, a worker owns its log buffer and its pool of open
//! descriptors.

pub mod capture;
pub mod data_directory;
pub mod digest;
pub mod error;
pub mod log;
pub mod machine_files;
pub mod output;
pub mod progress;
pub mod series;
pub mod stats;
pub mod usage;
pub mod windows;

pub use capture::{Capture, Direction};
pub use data_directory::{DataDirectory, GuestFile, HostDirectory};
pub use digest::{HostDigest, RunDigest, Stream};
pub use error::{Error, Result};
pub use log::{Level, Log, LogFormat, LogHost, LogWriter, WorkerLog};
pub use output::{OutputFile, OutputPool};
pub use progress::ProgressMeter;
pub use series::{HostTraffic, MachineUse, ProgressTable, Traffic, TrafficBoard, TrafficMeter, TrafficRows};
pub use stats::SimStats;
pub use usage::{MemInfo, ProcessUsage};
pub use windows::{Window, WindowBoard};
