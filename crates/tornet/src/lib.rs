//! Private Tor networks: from a few numbers to an experiment that Gnomon (or Shadow) runs, with real keys and real torrc files.
//!
//! The way through the crate: a `Spec` says what is wanted (`spec`, `profile`, or a share of the public network: `scale`), a `Model`
//! what the public network is like (`model`, or `collector` from files of the Tor project), `Network::build` lays hosts out, gives
//! them addresses and keys (`network`, `sample`, `keys`), and `Files::of` writes them down (`experiment`, `graph`, `torrc`, `arti`, `traffic`).
//! `balance` and `load` say
//! before a run how circuits will spread over the relays, and how busy these will be; `churn` draws when they go away, `overload` which
//! of them are slow, `paths` what packets meet between hosts; `cost` says what a run will take of the machine. Everything is a function of spec and model. `status` reads what a run left.
//!
//! The crate reads the files that it is told to read, and nothing of the environment; the binary finds programs.

mod arti;
mod attack;
pub mod balance;
pub mod churn;
mod collector;
pub mod cost;
mod error;
mod experiment;
mod files;
mod geography;
mod graph;
mod keys;
mod kinds;
pub mod load;
mod markov;
mod model;
mod network;
pub mod overload;
mod paths;
mod profile;
mod relay_options;
mod sample;
mod scale;
mod spec;
pub mod status;
mod torrc;
mod traffic;
pub mod warnings;

pub use attack::Attack;
use base::SeedTree;
pub use collector::{
    Archives, NetworkStats, Progress, Sources, Staged, StagedRelay, StagedRelays, stage, staged_names,
};
pub use error::Error;
pub use files::Files;
pub use geography::{Geography, Place};
pub use kinds::{HostChoice, Instead, Replacement};
pub use model::{FullNetwork, Model, ModelRelay};
pub use network::{Attachment, Behaviour, Host, Network, Role};
pub use paths::PathModel;
pub use profile::{PROFILES, Profile, profile};
pub use relay_options::RelayOption;
pub use scale::{relays_by_role, scaled};
pub use spec::{
    Amount, ClientCounts, CongestionControl, GuardPolicy, LinkClass, RelayCounts, Scheduler, Spec, Transport,
};

use std::path::PathBuf;

/// The programs that hosts run: names that a run looks up, or absolute paths.
#[derive(Clone, Debug)]
pub struct Programs {
    pub tor: PathBuf,
    pub traffic: PathBuf,
    /// Needed where relays are Gnomon's.
    pub relay: PathBuf,
    /// Needed where clients are Gnomon's.
    pub client: PathBuf,
    /// Needed where clients are arti's.
    pub arti: PathBuf,
    /// Needed where bridges speak obfs4; an absolute path, since tor looks nothing up.
    pub obfs4proxy: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
