//! Keeps the network known: asks an authority at first, then a guard, over a circuit of one hop.

use super::{Client, Due};
use crate::choice;
use crate::circuit::{Hop, Owner, Purpose};
use crate::fetch::Fetch;
use crate::memory;
use crate::network::Need;
use onion::circuit::message::{self, EndReason, LONGEST, Message};
use onion_program::clock::since_1970;
use onion_program::log;
use rand_core::RngCore;
use std::net::SocketAddr;

/// From the first failure on the time until another try doubles up to the longest, in milliseconds.
const FIRST_RETRY_MS: u64 = 1_000;
const LONGEST_RETRY_MS: u64 = 60_000;
/// A directory that says nothing for so long has failed.
const PATIENCE_MS: u64 = 60_000;
/// Data cells of an answer after which more are allowed.
const STEP: u32 = crate::stream::STREAM_STEP;
/// Questions that are under way at a time: a `gnomon-relay` takes no more on a circuit.
const MOST_AT_ONCE: usize = 32;

pub struct Directory {
    circuit: Option<u64>,
    /// No other try before that.
    not_before_ms: u64,
    retry_ms: u64,
    /// When something last came.
    heard_ms: u64,
    /// When the consensus is to be renewed, in seconds since 1970; at once if there is none.
    renewal_s: Option<u64>,
    /// When the next look is due.
    woken_ms: Option<u64>,
}

impl Default for Directory {
    fn default() -> Directory {
        Directory {
            circuit: None,
            not_before_ms: 0,
            retry_ms: FIRST_RETRY_MS,
            heard_ms: 0,
            renewal_s: None,
            woken_ms: None,
        }
    }
}

impl Client {
    /// Asks for what is missing, or lets the directory go until something is.
    pub(super) fn advance_directory(&mut self) {
        let (now, now_s) = (self.clock.ms(), since_1970().as_secs());
        let is_due = self.directory.renewal_s.is_none_or(|renewal| renewal <= now_s);
        let needs = self.network.needs(is_due);
        if needs.is_empty() {
            if let Some(circuit) = self.directory.circuit.take() {
                self.close_circuit(circuit, true, "all is known");
            }
            let renewal = self.directory.renewal_s.unwrap_or(now_s);
            return self.wake_directory(now + 1000 * renewal.saturating_sub(now_s).max(1));
        }
        let Some(serial) = self.directory.circuit else { return self.open_directory(now) };
        let Some(circuit) = self.circuits.get(&serial) else { return };
        if !circuit.is_open {
            return;
        }
        if now >= self.directory.heard_ms + PATIENCE_MS {
            return self.close_circuit(serial, true, "it says nothing");
        }
        for need in needs {
            let is_asked = self.fetches.values().any(|fetch| fetch.need == need);
            if !is_asked && self.fetches.len() < MOST_AT_ONCE {
                self.fetch(need, serial);
            }
        }
        self.wake_directory(self.directory.heard_ms + PATIENCE_MS);
    }

    fn open_directory(&mut self, now: u64) {
        if now < self.directory.not_before_ms {
            return self.wake_directory(self.directory.not_before_ms);
        }
        let Some(hop) = self.directory_hop() else { return };
        self.say_progress(5, "conn", "Connecting to a relay");
        self.directory.heard_ms = now;
        match self.add_circuit(Purpose::Directory, vec![hop], None) {
            Some(circuit) => self.directory.circuit = self.circuits.contains_key(&circuit).then_some(circuit),
            None => self.try_again_later("no connection"),
        }
    }

    /// Whom to ask: a guard where one is known, else any authority.
    fn directory_hop(&mut self) -> Option<Hop> {
        let now = self.clock.ms();
        // Certificates are the authorities' own business.
        let is_known = self.network.usable(since_1970().as_secs()).is_some();
        if is_known && self.settings.keeps_guards {
            let guard = self.guards.choose(&self.network, None, false, now, &mut self.random);
            if let Ok(Some(guard)) = guard.inspect_err(|error| log::warn(error)) {
                return Some(self.hop(guard));
            }
        }
        let authorities = &self.settings.authorities;
        let place = choice::below(authorities.len() as u64, &mut self.random) as usize;
        let (address, fingerprint) = (authorities[place].link_address()?, authorities[place].fingerprint?);
        let SocketAddr::V4(address) = address else { return None };
        Some(Hop::authority(address, fingerprint))
    }

    fn fetch(&mut self, need: Need, circuit_serial: u64) {
        let serial = self.fresh_serial();
        let Some(circuit) = self.circuits.get_mut(&circuit_serial) else { return };
        let Some(number) = circuit.fresh_stream(Owner::Fetch(serial)) else { return };
        match need {
            Need::Consensus => self.say_progress(25, "requesting_status", "Asking for networkstatus consensus"),
            Need::Certificates => self.say_progress(40, "loading_keys", "Loading authority key certs"),
            Need::Microdescriptors(_) => {
                self.say_progress(45, "requesting_descriptors", "Asking for relay descriptors");
            }
        }
        self.fetches.insert(serial, Box::new(Fetch::new(need, circuit_serial, number)));
        self.say(circuit_serial, message::Command::BEGIN_DIR, number, &[]);
    }

    pub(super) fn fetch_data(&mut self, serial: u64, body: &[u8]) -> Result<(), &'static str> {
        self.directory.heard_ms = self.clock.ms();
        let Some(fetch) = self.fetches.get_mut(&serial) else { return Ok(()) };
        fetch.deliver(body)?;
        if fetch.delivered == STEP {
            fetch.delivered = 0;
            let (circuit, number) = fetch.on;
            self.say(circuit, message::Command::SENDME, number, &[]);
        }
        Ok(())
    }

    pub(super) fn fetch_message(&mut self, serial: u64, message: &Message<'_>) {
        self.directory.heard_ms = self.clock.ms();
        let Some(fetch) = self.fetches.get_mut(&serial) else { return };
        let (circuit, number) = fetch.on;
        match message.command {
            message::Command::CONNECTED if !fetch.is_connected => {
                fetch.is_connected = true;
                let request = fetch.request();
                for part in request.as_bytes().chunks(LONGEST) {
                    self.say(circuit, message::Command::DATA, number, part);
                }
            }
            message::Command::END => {
                let fetch = self.fetches.remove(&serial).expect("just found");
                if let Some(circuit) = self.circuits.get_mut(&circuit) {
                    circuit.streams.remove(&number);
                }
                let is_done = message.body.first() == Some(&(EndReason::Done as u8));
                let document = if is_done { fetch.document() } else { Err("a stream that broke off".to_owned()) };
                let learned = document.and_then(|document| self.learn(&fetch.need, &document));
                drop(fetch);
                if self.fetches.is_empty() {
                    memory::give_back();
                }
                match learned {
                    Ok(()) => self.advance_directory(),
                    Err(why) => self.close_circuit(circuit, true, &why),
                }
            }
            _ => {}
        }
    }

    /// Takes a document that was asked for.
    fn learn(&mut self, need: &Need, document: &str) -> Result<(), String> {
        let now_s = since_1970().as_secs();
        let before = self.network.current.as_ref().map(|current| current.valid_after_s);
        match need {
            Need::Consensus => {
                self.say_progress(30, "loading_status", "Loading networkstatus consensus");
                self.network.take_consensus(document, now_s)?;
            }
            Need::Certificates => self.network.take_certificates(document, now_s)?,
            Need::Microdescriptors(_) => {
                self.say_progress(50, "loading_descriptors", "Loading relay descriptors");
                if self.network.take_microdescriptors(document) == 0 {
                    return Err("none of the microdescriptors that were asked for".to_owned());
                }
                let mut others = self.fetches.values().map(|fetch| &fetch.need);
                if !others.any(|need| matches!(need, Need::Microdescriptors(_))) {
                    self.network.settle(true);
                }
            }
        }
        let current = self.network.current.as_ref();
        if let Some(current) = current.filter(|current| Some(current.valid_after_s) != before) {
            let part = self.random.next_u32();
            self.directory.renewal_s = Some(current.renewal_s(part));
            self.directory.retry_ms = FIRST_RETRY_MS;
            self.say_progress(75, "enough_dirinfo", "Loaded enough directory info to build circuits");
            self.must_assign = true;
            self.second();
        }
        Ok(())
    }

    /// The circuit for questions has ended.
    pub(super) fn directory_gone(&mut self, serial: u64, why: &str) {
        if self.directory.circuit == Some(serial) {
            self.directory.circuit = None;
            self.try_again_later(why);
        }
    }

    fn try_again_later(&mut self, why: &str) {
        let now = self.clock.ms();
        log::notice(format_args!(
            "A directory did not help: {why}; trying again in {} s.",
            self.directory.retry_ms / 1000
        ));
        self.directory.not_before_ms = now + self.directory.retry_ms;
        self.directory.retry_ms = (2 * self.directory.retry_ms).min(LONGEST_RETRY_MS);
        self.wake_directory(self.directory.not_before_ms);
    }

    /// The next look at it is then, and no other.
    fn wake_directory(&mut self, at_ms: u64) {
        if let Some(before) = self.directory.woken_ms.replace(at_ms) {
            self.timers.remove(before, Due::Directory);
        }
        self.timers.set(at_ms, Due::Directory);
    }
}
