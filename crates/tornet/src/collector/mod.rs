//! A model of the public network from files of the Tor project, in the formats of CollecTor (metrics.torproject.org/collector.html).
//!
//! A consensus says which relays there are, with which flags and weights; server descriptors add what each can carry, a bandwidth file
//! other weights, a table of address ranges the countries, and the estimates of users where these are. What is not given is taken
//! from the built-in model. Roles are decided as tornettools does.
//!
//! `stage` reads a month of such documents instead of those of an hour, and leaves a file (`staged`) from which networks are sampled.

mod bandwidths;
mod consensus;
mod descriptors;
mod documents;
mod geoip;
mod lines;
mod stage;
mod staged;
mod users;

pub use documents::Progress;
pub use stage::{Archives, stage, staged_names};
pub use staged::{NetworkStats, Staged, StagedRelay, StagedRelays};

use crate::model::{FullNetwork, Model, ModelRelay};
use crate::network::Role;
use crate::{Error, SeedTree, sample};
use base::Bandwidth;
use consensus::Entry;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The user's files.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A consensus (network-status-consensus-3).
    pub consensus: PathBuf,
    /// Server descriptors: files, or folders with such in any depth.
    pub descriptors: Vec<PathBuf>,
    /// A bandwidth file (bandwidth-file 1.x), whose weights replace those of the consensus.
    pub bandwidths: Option<PathBuf>,
    /// Countries of address ranges, as in tor's file geoip.
    pub geoip: Option<PathBuf>,
    /// Users per day and country (userstats-relay-country.csv of Tor Metrics).
    pub users: Option<PathBuf>,
}

impl Model {
    /// The network that the files describe. `seed` decides about places of relays without a country.
    pub fn read(sources: &Sources, seed: u64) -> Result<Model, Error> {
        let public = Model::public();
        let consensus = consensus::read(&sources.consensus)?;
        let mut weights = None;
        if let Some(file) = &sources.bandwidths {
            weights = Some(bandwidths::read(file)?);
        }
        let capacities = match &sources.descriptors[..] {
            [] => None,
            paths => Some(descriptors::read(paths)?),
        };
        let countries = sources.geoip.as_deref().map(geoip::read).transpose()?;
        let users = sources.users.as_deref().map(|file| users::read(file, &public.geography)).transpose()?;
        let mut places = Places { public: &public, countries, rng: SeedTree::new(seed).stream("", "relays' places") };
        let mut relays = Vec::new();
        for entry in &consensus.entries {
            let weight =
                weights.as_ref().map_or(Some(entry.weight), |weights| weights.get(&entry.fingerprint).copied());
            let capacity = match &capacities {
                Some(capacities) => capacities.get(&entry.fingerprint).copied(),
                // Without descriptors, what a relay carries is as much as it counts.
                None => Some(Bandwidth::from_bits_per_sec(entry.weight * 8000)),
            };
            // Those that nobody would choose, or that carry nothing, are left out, as in tornettools.
            let (Some(weight @ 1..), Some(bandwidth)) = (weight, capacity) else { continue };
            relays.push(ModelRelay {
                role: role(entry),
                place: places.of(Some(entry.address), None),
                bandwidth,
                weight,
            });
        }
        if relays.is_empty() {
            return Err(no_relays(&sources.consensus, consensus.entries.len()));
        }
        let network = full_network(&relays, public.network.users);
        let source = format!("the consensus of {}", consensus.valid_after);
        let geography = public.geography.clone();
        Ok(Model { source, geography, relays, users: users.unwrap_or(public.users), network })
    }
}

fn no_relays(consensus: &Path, entries: usize) -> Error {
    Error::input(format!(
        "{}: none of its {entries} running relays has a weight and a server descriptor; give descriptors and bandwidths of the same hours",
        consensus.display()
    ))
}

/// What the flags make of a relay: its position in circuits.
fn role(entry: &Entry) -> Role {
    match (entry.is_guard, entry.is_exit) {
        (true, true) => Role::GuardExit,
        (true, false) => Role::Guard,
        (false, true) => Role::Exit,
        (false, false) => Role::Middle,
    }
}

fn full_network(relays: &[ModelRelay], users: u32) -> FullNetwork {
    let count = |role| u32::try_from(relays.iter().filter(|relay| relay.role == role).count()).unwrap_or(u32::MAX);
    FullNetwork {
        guards: count(Role::Guard),
        exits: count(Role::Exit),
        guard_exits: count(Role::GuardExit),
        middles: count(Role::Middle),
        users,
    }
}

/// Finds relays' places: by their addresses' countries where these are known, else as the built-in model's relays are spread.
struct Places<'a> {
    public: &'a Model,
    countries: Option<geoip::Countries>,
    rng: base::Rng,
}

impl Places<'_> {
    /// By the country that is `known`, or else that of the address.
    fn of(&mut self, address: Option<Ipv4Addr>, known: Option<&str>) -> usize {
        let by_address = || self.countries.as_ref()?.of(address?).map(str::to_owned);
        let code = known.map(str::to_ascii_uppercase).or_else(by_address);
        let place = code.and_then(|code| self.public.geography.index(&code));
        place.unwrap_or_else(|| {
            let weights: Vec<f64> = self.public.relays.iter().map(|relay| relay.weight as f64).collect();
            self.public.relays[sample::weighted(&weights, &mut self.rng)].place
        })
    }
}

#[cfg(test)]
mod tests;
