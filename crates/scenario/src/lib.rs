//! Experiments: from a file in Shadow 3's format to a validated, immutable `Plan`.
//!
//! `load_file` reads YAML 1.2 with merge keys (`<<`), anchors and `x-` extension fields, applies `Overrides` from the command
//! line, looks up programs and files through an `Environment`, reads the network graph (GML; inline, from a file, or from a
//! file compressed with xz), gives out addresses, and builds the `topology::Topology`. Whatever is wrong ends in a
//! `ScenarioError`, whose every `Problem` names the file, line and column (or the command-line option), the key, what is
//! wrong and the remedy. Nothing is written, and nothing of the process's environment is read.
//!
//! `options()` is the one table of options. The root binary makes its flags, help and documentation from it.
//!
//! What differs from Shadow 3.3, on purpose: a node that carries a single host needs no edge to itself; decimals are allowed
//! in quantities ("0.5 ms"); positions are reported for everything; options that have no meaning here are accepted and named
//! in `Plan::notices` when they are set to something else than their default.

mod address;
mod environment;
mod error;
mod graph_source;
mod host;
mod load;
mod options;
mod overrides;
mod plan;
mod reader;
mod render;
mod setting;
mod shell;
mod signal;
mod suggest;
mod users;
mod yaml;

pub use environment::Environment;
pub use error::{Place, Problem, ScenarioError};
pub use graph_source::decompress;
pub use load::{LONGEST_EXPERIMENT, load, load_file};
pub use options::{Experimental, General, HostOptions, NetworkOptions, OptionSpec, Role, options};
pub use overrides::Overrides;
pub use plan::{FinalState, GraphPlan, GraphSource, HostPlan, Plan, ProcessPlan};
pub use setting::{
    AddressSpace, CheapCrypto, ClockOffset, CpuSpeed, Cpus, Expression, Kind, LogLevel, MemoryLimit, OpenFiles,
    QueueDiscipline, Scheduler, SizeWithin, SocketBuffer, StraceMode, Sysctls,
};
pub use signal::Signal;
pub use topology::NetworkModel;
pub use users::UserPlan;
