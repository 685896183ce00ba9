//! What a `gnomon-relay` tells of itself each second (`--StatisticsFile`): a line of JSON.

use super::HostFacts;
use super::clock;
use super::lines::{Verdict, for_each_line};
use crate::run::Told;
use serde::Deserialize;
use std::path::Path;

/// How such a file begins.
const BEGINNING: &[u8] = b"{\"time\":";

/// Members that were added later are 0 in files of before.
#[derive(Deserialize)]
struct Line {
    time: f64,
    connections: f64,
    circuits: f64,
    streams: f64,
    #[serde(default)]
    relayed_bytes: f64,
    #[serde(default)]
    refused_circuits: f64,
    #[serde(default)]
    refused_connections: f64,
    #[serde(default)]
    refused_streams: f64,
    descriptors: f64,
}

pub fn is_statistics(beginning: &[u8]) -> bool {
    beginning.starts_with(BEGINNING)
}

pub fn read(path: &Path, name: &str, facts: &mut HostFacts) {
    let mut told = Vec::new();
    let damage = for_each_line(path, name, |line| {
        let Ok(line) = serde_json::from_slice::<Line>(line) else {
            return Verdict::Broken("not a line of a relay's statistics");
        };
        told.push(Told {
            at_s: clock::from_unix(facts.start, line.time),
            connections: line.connections,
            circuits: line.circuits,
            streams: line.streams,
            relayed_bytes: line.relayed_bytes,
            refused: line.refused_circuits + line.refused_connections + line.refused_streams,
            descriptors: line.descriptors,
        });
        Verdict::Fine
    });
    facts.damage.extend(damage);
    facts.told.extend(told);
}
