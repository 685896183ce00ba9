//! The plan: one experiment, validated and complete, as a run executes it.

use crate::error::{Place, ScenarioError};
use crate::options::{Experimental, General, HostOptions, NetworkOptions};
use crate::signal::Signal;
use crate::users::UserPlan;
use base::{Bandwidth, HostId, SimTime};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use topology::Topology;

/// Immutable once made by `load`. Two plans are equal when they describe the same run; where their values were written does
/// not count.
#[derive(Clone, Debug)]
pub struct Plan {
    pub general: General,
    pub network: NetworkOptions,
    pub graph: GraphPlan,
    pub experimental: Experimental,
    /// What hosts have where they say nothing else; each host's own options are complete in `HostPlan`.
    pub host_option_defaults: HostOptions,
    /// In alphabetical order of their names: a host's place is its `HostId`.
    pub hosts: Vec<HostPlan>,
    /// Ways and access links between the hosts, by `HostId`.
    pub topology: Topology,
    /// What the experiment asks for that has no effect here; each to be shown once.
    pub notices: Vec<String>,
    /// The library that all processes load first for `experimental.cheap_crypto`: absolute, and exists.
    pub cheap_crypto_library: Option<PathBuf>,
    /// `experimental.cpu_model` made absolute; a file, and no host has a `cpu_speed`.
    pub cpu_model: Option<PathBuf>,
    /// `general.data_directory` made absolute.
    pub data_directory: PathBuf,
    /// `general.template_directory` made absolute; exists and is a directory.
    pub template_directory: Option<PathBuf>,
    /// Where the data directory was named, for the error that it exists.
    pub(crate) data_directory_place: Place,
}

/// Where the graph comes from and what it looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphPlan {
    pub source: GraphSource,
    pub nodes: usize,
    pub edges: usize,
    pub directed: bool,
}

/// As the experiment states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphSource {
    OneGbitSwitch,
    Inline(String),
    File { path: String, xz: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPlan {
    pub id: HostId,
    pub name: String,
    pub address: Ipv4Addr,
    pub address6: Option<Ipv6Addr>,
    pub network_node_id: u32,
    pub bandwidth_down: Bandwidth,
    pub bandwidth_up: Bandwidth,
    pub options: HostOptions,
    pub processes: Vec<ProcessPlan>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    /// The path as written.
    pub path: String,
    /// The file that is executed: absolute, and checked to be executable.
    pub executable: PathBuf,
    /// Its own name behind all symbolic links, after which the process's output files are named.
    pub name: String,
    /// With `argv[0]`, which is the path as written with `~/` expanded.
    pub argv: Vec<String>,
    /// By name.
    pub environment: Vec<(String, String)>,
    pub start_time: SimTime,
    /// When `shutdown_signal` is sent.
    pub shutdown_time: Option<SimTime>,
    pub shutdown_signal: Signal,
    /// It is killed in place of executing this system call of its own, counted from 1.
    pub kill_at_call: Option<u64>,
    pub expected_final_state: FinalState,
    /// Who executes it; None for root.
    pub user: Option<UserPlan>,
}

/// What has become of a process when the experiment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalState {
    Exited(i32),
    Signaled(Signal),
    Running,
}

/// In the form of `expected_final_state`.
impl std::fmt::Display for FinalState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FinalState::Exited(code) => write!(f, "{{exited: {code}}}"),
            FinalState::Signaled(signal) => write!(f, "{{signaled: {signal}}}"),
            FinalState::Running => f.write_str("running"),
        }
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        let Plan {
            general,
            network,
            graph,
            experimental,
            host_option_defaults,
            hosts,
            topology,
            notices,
            cheap_crypto_library,
            cpu_model,
            data_directory,
            template_directory,
            data_directory_place: _,
        } = self;
        *general == other.general
            && *network == other.network
            && *graph == other.graph
            && *experimental == other.experimental
            && *host_option_defaults == other.host_option_defaults
            && *hosts == other.hosts
            && *topology == other.topology
            && *notices == other.notices
            && *cheap_crypto_library == other.cheap_crypto_library
            && *cpu_model == other.cpu_model
            && *data_directory == other.data_directory
            && *template_directory == other.template_directory
    }
}

impl Plan {
    pub fn stop_time(&self) -> SimTime {
        SimTime::ZERO + self.general.stop_time
    }

    pub fn host(&self, id: HostId) -> &HostPlan {
        &self.hosts[id.index()]
    }

    /// The host of that name. Hosts are sorted, so this is a binary search.
    pub fn host_named(&self, name: &str) -> Option<&HostPlan> {
        self.hosts.binary_search_by(|host| host.name.as_str().cmp(name)).ok().map(|at| &self.hosts[at])
    }

    /// An error when the data directory is in the way of a run: it exists, and no template directory is to be copied over
    /// it. Apart from `load`, so that a plan can be checked where it has already run.
    pub fn check_data_directory(&self) -> Result<(), ScenarioError> {
        if self.template_directory.is_some() || std::fs::symlink_metadata(&self.data_directory).is_err() {
            return Ok(());
        }
        Err(ScenarioError::one(
            self.data_directory_place.clone(),
            "general.data_directory",
            format!(
                "'{}' already exists; remove it, or name another with --data-directory",
                self.data_directory.display()
            ),
        ))
    }
}
