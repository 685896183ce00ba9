//! Staging: a month of the public network's documents becomes a list of relays with what each was like on average, and shares of users by
//! country. It is averaged as tornettools does ("Once is Never Enough", USENIX Security 2021): medians over the consensuses in which a relay
//! was, of shares of each consensus' weights; frequencies of running and of flags; the largest bandwidth that it observed.

use super::bandwidths::{self, Bandwidths};
use super::consensus::{self, Consensus, Entry};
use super::documents::{self, Document, Progress};
use super::staged::{NetworkStats, SCHEMA, Staged, StagedRelay, StagedRelays};
use super::{descriptors, geoip, role, users};
use crate::Error;
use crate::network::Role;
use base::StartDate;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// The documents, in files, folders of files in any depth, or archives (.tar.xz) as CollecTor has them.
#[derive(Clone, Debug, Default)]
pub struct Archives {
    /// Consensuses, an hour each: they say which time is staged.
    pub consensuses: Vec<PathBuf>,
    /// Server descriptors; those published in that time count.
    pub descriptors: Vec<PathBuf>,
    /// Bandwidth files made in that time, whose weights replace those of the consensuses.
    pub bandwidths: Vec<PathBuf>,
    /// Countries of address ranges, as in tor's file geoip.
    pub geoip: Option<PathBuf>,
    /// Users per day and country (userstats-relay-country.csv of Tor Metrics); days in that time count.
    pub users: Option<PathBuf>,
}

/// Seconds since 1970, both included.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    fn has(self, unix_s: u64) -> bool {
        (self.first..=self.last).contains(&unix_s)
    }
}

/// Reads the archives on `threads` threads and one more; `told` hears of each document.
///
/// # Errors
/// When something cannot be read or is not what it should be, with its place; or when nothing is left to stage.
pub fn stage(archives: &Archives, threads: usize, told: &mut dyn FnMut(Progress)) -> Result<Staged, Error> {
    // What is small is read first: a mistake there is known at once.
    let countries = archives.geoip.as_deref().map(geoip::read).transpose()?;
    let days = archives.users.as_deref().map(users::days).transpose()?;
    let mut month = Month::default();
    documents::each("consensuses", &archives.consensuses, threads, told, hour, |hour| month.take(hour))?;
    let span = month.span(&archives.consensuses)?;
    let carried = carried(archives, span, threads, told)?;
    let measured = measured(archives, span, threads, told)?;
    let mut relays = BTreeMap::new();
    for (fingerprint, seen) in &mut month.relays {
        let carried = carried.get(fingerprint);
        let running = seen.weights.len() as f64;
        let weight = match &measured {
            None => median(&mut seen.weights),
            Some(measured) => measured.get(fingerprint).copied().unwrap_or(0.0),
        };
        let relay = StagedRelay {
            fingerprint: fingerprint.clone(),
            address: seen.address.to_string(),
            running_frequency: running / month.hours.len() as f64,
            guard_frequency: f64::from(seen.guard) / running,
            exit_frequency: f64::from(seen.exit) / running,
            weight,
            bandwidth_capacity: carried.map_or(0, |carried| carried.observed),
            bandwidth_rate: carried.map_or(0, |carried| median_whole(&carried.rates)),
            bandwidth_burst: carried.map_or(0, |carried| median_whole(&carried.bursts)),
            country_code: countries.as_ref().and_then(|countries| countries.of(seen.address)).map(str::to_owned),
        };
        relays.insert(fingerprint.clone(), relay);
    }
    let relays = StagedRelays {
        schema: Some(SCHEMA),
        min_unix_time: span.first as f64,
        max_unix_time: span.last as f64,
        network_stats: month.stats(),
        relays,
    };
    let users = match (&days, &archives.users) {
        (Some(days), Some(file)) => Some(days.shares(span.first, span.last, file)?),
        _ => None,
    };
    Ok(Staged { relays, users, consensuses: month.hours.len() as u64 })
}

fn unix_seconds(text: &str) -> Option<u64> {
    StartDate::parse(text).ok().map(StartDate::unix_seconds)
}

/// What a relay was over the month.
struct Seen {
    /// In the latest consensus that has it.
    address: Ipv4Addr,
    latest: u64,
    /// Its share of each consensus' weights.
    weights: Vec<f64>,
    /// In how many consensuses it was a guard, an exit.
    guard: u32,
    exit: u32,
}

/// One consensus.
struct Hour {
    path: PathBuf,
    valid_after: u64,
    entries: Vec<Entry>,
    /// Of all relays together, and by `position`.
    weight: f64,
    weights: [f64; POSITIONS.len()],
    counts: [f64; POSITIONS.len()],
}

const POSITIONS: [Role; 4] = [Role::GuardExit, Role::Guard, Role::Exit, Role::Middle];

fn hour(document: &Document) -> Result<Hour, Error> {
    let Consensus { valid_after, entries } = consensus::parse(&document.path, &document.text())?;
    let wrong = |what: String| Error::input(format!("{}: {what}", document.path.display()));
    let valid_after =
        unix_seconds(&valid_after).ok_or_else(|| wrong(format!("'valid-after {valid_after}' is no date and time")))?;
    let (mut weights, mut counts) = ([0.0; POSITIONS.len()], [0.0; POSITIONS.len()]);
    for entry in &entries {
        let position = POSITIONS.iter().position(|role_of| *role_of == role(entry)).expect("every role has a position");
        weights[position] += entry.weight as f64;
        counts[position] += 1.0;
    }
    let weight: f64 = weights.iter().sum();
    if weight == 0.0 {
        return Err(wrong("none of its relays runs and has a weight; leave it out".to_owned()));
    }
    Ok(Hour { path: document.path.clone(), valid_after, entries, weight, weights, counts })
}

#[derive(Default)]
struct Month {
    relays: BTreeMap<String, Seen>,
    hours: BTreeSet<u64>,
    /// For each consensus, by position: relays, and shares of its weights.
    counts: [Vec<f64>; POSITIONS.len()],
    weights: [Vec<f64>; POSITIONS.len()],
    totals: Vec<f64>,
}

impl Month {
    fn take(&mut self, hour: Hour) -> Result<(), Error> {
        if !self.hours.insert(hour.valid_after) {
            return Err(Error::input(format!(
                "{}: another consensus of the same hour was read already; name each once, and one flavour",
                hour.path.display()
            )));
        }
        for position in 0..POSITIONS.len() {
            self.counts[position].push(hour.counts[position]);
            self.weights[position].push(hour.weights[position] / hour.weight);
        }
        self.totals.push(hour.counts.iter().sum());
        for entry in hour.entries {
            let seen = self.relays.entry(entry.fingerprint).or_insert_with(|| Seen {
                address: entry.address,
                latest: hour.valid_after,
                weights: Vec::new(),
                guard: 0,
                exit: 0,
            });
            if hour.valid_after > seen.latest {
                (seen.latest, seen.address) = (hour.valid_after, entry.address);
            }
            seen.weights.push(entry.weight as f64 / hour.weight);
            seen.guard += u32::from(entry.is_guard);
            seen.exit += u32::from(entry.is_exit);
        }
        Ok(())
    }

    fn span(&self, paths: &[PathBuf]) -> Result<Span, Error> {
        match (self.hours.first(), self.hours.last()) {
            (Some(first), Some(last)) => Ok(Span { first: *first, last: *last }),
            _ => Err(Error::input(format!(
                "{}: no consensus in there (CollecTor: network-status-consensus-3)",
                names(paths)
            ))),
        }
    }

    fn stats(&mut self) -> NetworkStats {
        // Halves go to the even neighbour, as tornettools' language rounds.
        let whole = |values: &mut Vec<f64>| median(values).round_ties_even() as u32;
        let [guard_exits, guards, exits, middles] = self.counts.each_mut().map(whole);
        let [guard_exit_weight, guard_weight, exit_weight, middle_weight] = self.weights.each_mut().map(|w| median(w));
        NetworkStats {
            med_count_exitguard: guard_exits,
            med_count_guard: guards,
            med_count_exit: exits,
            med_count_middle: middles,
            med_count_total: whole(&mut self.totals),
            med_weight_exitguard: guard_exit_weight,
            med_weight_guard: guard_weight,
            med_weight_exit: exit_weight,
            med_weight_middle: middle_weight,
            med_weight_total: 1.0,
        }
    }
}

fn names(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// What a relay said of its bandwidth over the month, in bytes per second.
#[derive(Default)]
struct Carried {
    /// The most.
    observed: u64,
    rates: Vec<u64>,
    bursts: Vec<u64>,
}

/// A descriptor: its relay's fingerprint, and rate, burst and observed.
type Said = (String, [u64; 3]);

fn carried(
    archives: &Archives,
    span: Span,
    threads: usize,
    told: &mut dyn FnMut(Progress),
) -> Result<BTreeMap<String, Carried>, Error> {
    let parse = |document: &Document| -> Result<Vec<Said>, Error> {
        let mut said = Vec::new();
        descriptors::parse(&document.path, &document.text(), &mut |descriptor| {
            let published = descriptor.published.and_then(unix_seconds).ok_or_else(|| {
                descriptor.router.wrong("a descriptor with a line 'published YYYY-MM-DD HH:MM:SS' below it")
            })?;
            if span.has(published) {
                said.push((descriptor.fingerprint, [descriptor.rate, descriptor.burst, descriptor.observed]));
            }
            Ok(())
        })?;
        Ok(said)
    };
    let mut carried: BTreeMap<String, Carried> = BTreeMap::new();
    documents::each("server descriptors", &archives.descriptors, threads, told, parse, |said| {
        for (fingerprint, [rate, burst, observed]) in said {
            let carried = carried.entry(fingerprint).or_default();
            carried.observed = carried.observed.max(observed);
            carried.rates.push(rate);
            carried.bursts.push(burst);
        }
        Ok(())
    })?;
    if carried.is_empty() {
        let none = descriptors::none(&archives.descriptors);
        return Err(Error::input(format!("{none} of the consensuses' time; name those of the same month")));
    }
    Ok(carried)
}

/// Relays' median shares of what the bandwidth files gave; None without such files.
fn measured(
    archives: &Archives,
    span: Span,
    threads: usize,
    told: &mut dyn FnMut(Progress),
) -> Result<Option<BTreeMap<String, f64>>, Error> {
    if archives.bandwidths.is_empty() {
        return Ok(None);
    }
    let parse = |document: &Document| -> Result<Option<Bandwidths>, Error> {
        let file = bandwidths::parse(&document.path, &document.text())?;
        Ok(Some(file).filter(|file| span.has(file.made)))
    };
    // In single precision: there are thousands of files in a month.
    let mut shares: BTreeMap<String, Vec<f32>> = BTreeMap::new();
    documents::each("bandwidth files", &archives.bandwidths, threads, told, parse, |file| {
        let weights = file.map(|file| file.weights).unwrap_or_default();
        let total: f64 = weights.values().map(|weight| *weight as f64).sum();
        for (fingerprint, weight) in weights {
            shares.entry(fingerprint).or_default().push((weight as f64 / total.max(1.0)) as f32);
        }
        Ok(())
    })?;
    if shares.is_empty() {
        return Err(Error::input(format!(
            "{}: no bandwidth file of the consensuses' time in there; name those of the same month",
            names(&archives.bandwidths)
        )));
    }
    let of = |shares: Vec<f32>| median(&mut shares.into_iter().map(f64::from).collect::<Vec<f64>>());
    Ok(Some(shares.into_iter().map(|(fingerprint, shares)| (fingerprint, of(shares))).collect()))
}

/// The middle, or the mean of the two there; 0 of nothing.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        length if !length.is_multiple_of(2) => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

/// As `median`, without what is after the point.
fn median_whole(values: &[u64]) -> u64 {
    median(&mut values.iter().map(|value| *value as f64).collect::<Vec<f64>>()) as u64
}

/// How the files of what was staged are called: `relayinfo_staging_2026-11-01--2026-11-30.json` and `userinfo_staging_...`.
pub fn staged_names(staged: &Staged) -> [PathBuf; 2] {
    ["relayinfo", "userinfo"].map(|kind| Path::new(&format!("{kind}_staging_{}.json", staged.relays.days())).into())
}
