//! Rows without a run: an invented onion network, deterministic by its seed, of any number of packets.
//!
//! Clients fetch through three relays each from servers; every packet waits for lines, routes, holes before it and readers as in a run, and the
//! tables agree with each other as those of a run do. One relay may have a line of 1 Mbit/s ("relay3"), which everything that reads a record
//! should lead to.

mod circuits;
mod datagrams;
mod streams;
mod tally;
mod world;

use crate::error::Result;
use crate::identity::RunId;
use crate::store::{Options, Store, Summary};
use base::SimTime;
use probes::tables::HostName;
use probes::{Level, Rows};
use std::path::Path;

/// Simulated time of a window: rows come window by window.
const WINDOW_NS: u64 = 10_000_000;

/// What is generated.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// Packets, a few more or less.
    pub packets: u64,
    /// At least ten.
    pub hosts: usize,
    /// The share of packets that the network loses.
    pub loss: f64,
    /// Whether one relay is slow.
    pub slow_relay: bool,
    pub level: Level,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario { seed: 1, packets: 1_000_000, hosts: 60, loss: 0.002, slow_relay: true, level: Level::All }
    }
}

/// Generated rows, window by window.
pub struct Generator {
    circuits: circuits::Circuits,
    window: u64,
}

impl Generator {
    pub fn new(scenario: &Scenario) -> Generator {
        Generator { circuits: circuits::Circuits::new(scenario), window: 0 }
    }

    pub fn hosts(&self) -> Vec<HostName> {
        self.circuits.world.names()
    }

    /// The moment before which all has been generated.
    pub fn time(&self) -> SimTime {
        SimTime::from_nanos(self.window * WINDOW_NS)
    }

    /// The next window's rows, which may be none; None after the last.
    pub fn window(&mut self) -> Option<Rows> {
        self.window += 1;
        self.circuits.until(self.window * WINDOW_NS)
    }
}

/// Generates a whole record into `folder`, which must not exist.
///
/// # Errors
/// When it cannot be written.
pub fn record(scenario: &Scenario, folder: &Path) -> Result<Summary> {
    let mut generator = Generator::new(scenario);
    let run = RunId::new(scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let store = Store::create(folder, Options::new(scenario.level, run, generator.hosts()))?;
    let handle = store.handle();
    let mut window = 0;
    while let Some(rows) = generator.window() {
        handle.push(window, rows);
        window += 1;
        store.windows_done(window)?;
    }
    store.finish()
}
