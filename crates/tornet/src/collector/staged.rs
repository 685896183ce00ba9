//! What staging leaves, and networks are sampled from: two files in JSON, in the form that tornettools' `stage` writes and its `generate`
//! reads. docs/tor-networks.md describes each key.

use super::{Places, full_network, geoip, users};
use crate::model::{Model, ModelRelay};
use crate::network::Role;
use crate::{Error, SeedTree};
use base::date::date_and_time;
use base::{Bandwidth, ByteSize, Rng, input};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Of the files that Gnomon writes; tornettools' have none.
pub(super) const SCHEMA: u32 = 1;

/// A month has some 15,000 relays of 400 bytes.
const LONGEST: ByteSize = ByteSize(256 << 20);

/// A relay that ran less often, as a share of the consensuses, is not sampled.
const LEAST_RUNNING: f64 = 0.01;
/// How often the smallest sampled weight a guard has: tor's authorities give that flag from 2,000 kB/s on, and the smallest weight is 1.
const GUARD_WEIGHT: f64 = 2000.0;
/// A weight that is so often the smallest is as good as infinite.
const MOST_WEIGHT: f64 = 1e12;
const MOST_BYTES_PER_SEC: u64 = 1 << 40;
/// 2106-01-01.
const LATEST_S: f64 = 4_291_747_200.0;
/// The least that tor takes for BandwidthRate here, in bytes per second.
const LEAST_RATE: u64 = 102_400;

/// Relays and users of a span of time.
#[derive(Clone, Debug)]
pub struct Staged {
    pub relays: StagedRelays,
    /// Shares of users by country (lower case), which add up to 1; None when nothing about users was given.
    pub users: Option<BTreeMap<String, f64>>,
    /// How many consensuses were read.
    pub consensuses: u64,
}

/// The file `relayinfo_staging_...json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StagedRelays {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<u32>,
    /// The first and the last consensus' valid-after, in seconds since 1970.
    pub min_unix_time: f64,
    pub max_unix_time: f64,
    pub network_stats: NetworkStats,
    /// By fingerprint: 40 upper-case hexadecimal digits.
    pub relays: BTreeMap<String, StagedRelay>,
}

/// Medians over the consensuses: relays by their position in circuits, and their shares of the weights.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NetworkStats {
    pub med_count_exitguard: u32,
    pub med_count_guard: u32,
    pub med_count_exit: u32,
    pub med_count_middle: u32,
    pub med_count_total: u32,
    pub med_weight_exitguard: f64,
    pub med_weight_guard: f64,
    pub med_weight_exit: f64,
    pub med_weight_middle: f64,
    pub med_weight_total: f64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct StagedRelay {
    pub fingerprint: String,
    pub address: String,
    /// The share of the consensuses that have it as running.
    pub running_frequency: f64,
    /// The shares of those in which it was a guard (Guard, Fast, Stable), an exit (Exit, with a policy that lets something out).
    pub guard_frequency: f64,
    pub exit_frequency: f64,
    /// The median of its shares of all weights.
    pub weight: f64,
    /// The most that it observed, in bytes per second; 0 without a descriptor.
    pub bandwidth_capacity: u64,
    /// Medians of what its operator allowed, in bytes per second.
    pub bandwidth_rate: u64,
    pub bandwidth_burst: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub country_code: Option<String>,
}

impl StagedRelays {
    /// "2026-11-01--2026-11-30".
    pub fn days(&self) -> String {
        let day = |unix_s: f64| date_and_time(unix_s as i64).split(' ').next().unwrap_or_default().to_owned();
        format!("{}--{}", day(self.min_unix_time), day(self.max_unix_time))
    }

    fn read(path: &Path) -> Result<StagedRelays, Error> {
        let file: StagedRelays = json(path, "relayinfo_staging_...json of 'gnomon tor stage' or of tornettools")?;
        let wrong = |what: String| Error::input(format!("{}: {what}; stage it anew", path.display()));
        if let Some(schema) = file.schema.filter(|schema| *schema != SCHEMA) {
            return Err(wrong(format!("has schema {schema}, and this version of Gnomon reads {SCHEMA}")));
        }
        if !(0.0..=file.max_unix_time).contains(&file.min_unix_time) || file.max_unix_time > LATEST_S {
            return Err(wrong("min_unix_time and max_unix_time are no span of seconds since 1970".to_owned()));
        }
        for (fingerprint, relay) in &file.relays {
            if relay.bandwidth_capacity > MOST_BYTES_PER_SEC {
                return Err(wrong(format!("relay {fingerprint} has a capacity that no relay has (bytes per second)")));
            }
            let shares = [relay.running_frequency, relay.guard_frequency, relay.exit_frequency, relay.weight];
            if !shares.iter().all(|share| (0.0..=1.0).contains(share)) {
                return Err(wrong(format!("relay {fingerprint} has a frequency or a weight that is not from 0 to 1")));
            }
        }
        Ok(file)
    }
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path, what: &str) -> Result<T, Error> {
    let text = input::text(path, LONGEST).map_err(|error| Error::input(format!("{} {error}", path.display())))?;
    serde_json::from_str(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        Error::input(format!("{}:{line}:{column}: {text}; {what} belongs here", path.display()))
    })
}

impl Model {
    /// The network of a month that was staged: relays are drawn by how often they ran, as many as ran at one time, and flags by how often they
    /// had them. `users` is the file with shares of users, or userstats-relay-country.csv; `seed` decides about all that is drawn.
    ///
    /// # Errors
    /// When a file cannot be read, is not what it should be, or leaves no relay.
    pub fn staged(relays: &Path, users: Option<&Path>, geoip: Option<&Path>, seed: u64) -> Result<Model, Error> {
        let file = StagedRelays::read(relays)?;
        let mut model = Model { relays: Vec::new(), ..Model::public() };
        if let Some(users) = users {
            model.users = users::read(users, &model.geography)?;
        }
        let mut rng = SeedTree::new(seed).stream("", "staged relays");
        let sampled = sample(&file, &mut rng);
        let least = sampled.iter().map(|relay| relay.weight).fold(f64::INFINITY, f64::min);
        let public = Model::public();
        let rng_of_places = SeedTree::new(seed).stream("", "relays' places");
        let mut places = Places { public: &public, countries: geoip.map(geoip::read).transpose()?, rng: rng_of_places };
        for relay in &sampled {
            model.relays.push(ModelRelay {
                role: role(relay, least, &mut rng),
                place: places.of(relay.address.parse().ok(), relay.country_code.as_deref()),
                bandwidth: Bandwidth::from_bits_per_sec(bytes_per_sec(relay).saturating_mul(8)),
                weight: (relay.weight / least).round().min(MOST_WEIGHT) as u64,
            });
        }
        if model.relays.is_empty() {
            return Err(Error::input(format!(
                "{}: none of its {} relays ran in a hundredth of the consensuses and has a weight and a bandwidth; stage the \
                 descriptors of the same month",
                relays.display(),
                file.relays.len()
            )));
        }
        model.network = full_network(&model.relays, model.network.users);
        model.source = format!("the relays of {}", file.days());
        Ok(model)
    }
}

/// What it carries within its operator's limit.
fn bytes_per_sec(relay: &StagedRelay) -> u64 {
    match relay.bandwidth_rate {
        0 => relay.bandwidth_capacity,
        rate => relay.bandwidth_capacity.min(rate.max(LEAST_RATE)),
    }
}

/// As many as ran at one time, without putting any back, each by the frequency of its running: those with the smallest of exponentially
/// distributed times, whose rates are the frequencies.
fn sample<'a>(file: &'a StagedRelays, rng: &mut Rng) -> Vec<&'a StagedRelay> {
    let is_fit = |relay: &&StagedRelay| {
        relay.running_frequency >= LEAST_RUNNING && relay.weight > 0.0 && relay.bandwidth_capacity > 0
    };
    let mut timed: Vec<(f64, &StagedRelay)> = file
        .relays
        .values()
        .filter(is_fit)
        .map(|relay| (-(1.0 - rng.unit()).ln() / relay.running_frequency, relay))
        .collect();
    timed.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    timed.truncate(file.network_stats.med_count_total as usize);
    timed.into_iter().map(|(_, relay)| relay).collect()
}

fn role(relay: &StagedRelay, least_weight: f64, rng: &mut Rng) -> Role {
    // Drawn for every relay, so that one relay's flag does not depend on another's weight.
    let (guard, exit) = (rng.unit() < relay.guard_frequency, rng.unit() < relay.exit_frequency);
    match (guard && (relay.weight / least_weight).round() >= GUARD_WEIGHT, exit) {
        (true, true) => Role::GuardExit,
        (true, false) => Role::Guard,
        (false, true) => Role::Exit,
        (false, false) => Role::Middle,
    }
}
