//! A model of the public Tor network: its relays, where its users are, and how far places are from each other.

mod public;

use crate::geography::Geography;
use crate::network::Role;
use crate::sample::weighted;
use base::{Bandwidth, Rng};

/// A relay as the public network has it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelRelay {
    /// Guard, Exit, GuardExit or Middle.
    pub role: Role,
    /// Index of the geography's place.
    pub place: usize,
    pub bandwidth: Bandwidth,
    /// In the consensus, in its kilobytes per second.
    pub weight: u64,
}

#[derive(Clone, Debug)]
pub struct Model {
    /// Said in the experiment: what it was made from.
    pub source: String,
    pub geography: Geography,
    pub relays: Vec<ModelRelay>,
    /// Users per place; same indices as the geography's.
    pub users: Vec<f64>,
    /// What the full network has, of which `--scale` takes a share.
    pub network: FullNetwork,
}

/// Counts of the network at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullNetwork {
    pub guards: u32,
    pub exits: u32,
    pub guard_exits: u32,
    pub middles: u32,
    /// Active at the same time.
    pub users: u32,
}

impl FullNetwork {
    pub fn count(&self, role: Role) -> u32 {
        match role {
            Role::Guard => self.guards,
            Role::Exit => self.exits,
            Role::GuardExit => self.guard_exits,
            Role::Middle => self.middles,
            _ => 0,
        }
    }
}

/// Where the public network's directory authorities are, nearly all of them.
const AUTHORITY_PLACES: &[&str] = &["US", "DE", "NL", "SE", "AT"];

impl Model {
    pub(crate) fn authority_place(&self, rng: &mut Rng) -> usize {
        let places: Vec<usize> = AUTHORITY_PLACES.iter().filter_map(|code| self.geography.index(code)).collect();
        if places.is_empty() { self.user_place(rng) } else { places[rng.below(places.len() as u64) as usize] }
    }

    /// Servers are near users: content is.
    pub(crate) fn server_place(&self, rng: &mut Rng) -> usize {
        self.user_place(rng)
    }

    pub(crate) fn user_place(&self, rng: &mut Rng) -> usize {
        weighted(&self.users, rng)
    }
}
