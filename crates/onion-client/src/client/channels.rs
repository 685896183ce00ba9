//! Connections to relays: opened when a circuit needs one, shared by all that enter there, closed when none has needed it for a while.

use super::{Client, Due};
use crate::channel::{Channel, News};
use crate::circuit::Hop;
use mio::net::TcpStream;
use mio::{Interest, Token};
use onion::cell::{self, IdWidth};
use onion_program::log;
use std::net::SocketAddr;

/// How long a channel stays without circuits, in milliseconds: some time between tor's 3 and 4.5 minutes.
const IDLE_MS: u64 = 225_000;

impl Client {
    /// The channel to a relay, open or to be opened.
    pub(super) fn channel_to(&mut self, hop: &Hop) -> Option<u64> {
        if let Some((serial, _)) = self.channels.iter().find(|(_, channel)| channel.is_to(hop)) {
            return Some(*serial);
        }
        self.connect(hop)
    }

    /// A channel to a relay of its own.
    pub(super) fn connect(&mut self, hop: &Hop) -> Option<u64> {
        let proxy = self.settings.proxy;
        let address = SocketAddr::V4(proxy.unwrap_or(hop.address));
        let serial = self.fresh_serial();
        let connected = TcpStream::connect(address).and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, Token(serial as usize), interest)?;
            // Cells are written in batches: waiting for more would only delay them.
            let _ = socket.set_nodelay(true);
            Ok(socket)
        });
        match connected {
            Ok(socket) => {
                let channel = Channel::new(socket, self.tls.initiate(), hop, proxy.is_some());
                self.channels.insert(serial, Box::new(channel));
                self.to_write.insert(serial);
                Some(serial)
            }
            Err(error) => {
                log::notice(format_args!("Connecting to {address}: {error}"));
                self.guards.report(&hop.fingerprint, false, self.clock.ms());
                None
            }
        }
    }

    pub(super) fn read_channel(&mut self, serial: u64) {
        loop {
            let random = self.random();
            let Some(channel) = self.channels.get_mut(&serial) else { return };
            let News { opened, cells, is_dry, end } = channel.read(random, &self.verified);
            if opened {
                self.opened(serial);
            }
            let mut rest = &cells[..];
            while let Ok(Some((cell, length))) = cell::take(rest, IdWidth::Four) {
                self.cell(serial, &cell);
                rest = &rest[length..];
            }
            if let Some(why) = end {
                return self.close_channel(serial, &why);
            }
            if is_dry {
                return;
            }
        }
    }

    /// Circuits that waited for it begin.
    fn opened(&mut self, serial: u64) {
        let channel = self.channels.get_mut(&serial).expect("just read");
        let (waiting, fingerprint) = (std::mem::take(&mut channel.waiting), channel.fingerprint);
        self.guards.report(&fingerprint, true, self.clock.ms());
        self.say_progress(10, "conn_done", "Connected to a relay");
        for circuit in waiting {
            self.begin_circuit(circuit);
        }
    }

    pub(super) fn write_channel(&mut self, serial: u64) {
        let Some(channel) = self.channels.get_mut(&serial) else { return };
        if let Err(error) = channel.write() {
            self.close_channel(serial, &error.to_string());
        }
    }

    pub(super) fn close_channel(&mut self, serial: u64, why: &str) {
        let Some(mut channel) = self.channels.remove(&serial) else { return };
        let _ = self.poll.registry().deregister(&mut channel.socket);
        self.to_write.remove(&serial);
        if !channel.is_open() {
            log::notice(format_args!("A connection to the relay at {} came to nothing: {why}", channel.address));
            self.guards.report(&channel.fingerprint, false, self.clock.ms());
        }
        let circuits: Vec<u64> = channel.waiting.iter().chain(channel.circuits.values()).copied().collect();
        for circuit in circuits {
            self.close_circuit(circuit, false, why);
        }
    }

    /// A circuit has left a channel.
    pub(super) fn left(&mut self, serial: u64) {
        let now = self.clock.ms();
        let Some(channel) = self.channels.get_mut(&serial) else { return };
        if channel.circuits.is_empty() && channel.waiting.is_empty() {
            channel.idle_ms = now;
            self.timers.set(now + IDLE_MS, Due::Channel(serial));
        }
    }

    /// It may have had circuits since, whose end set another timer.
    pub(super) fn close_if_idle(&mut self, serial: u64) {
        let Some(channel) = self.channels.get(&serial) else { return };
        let is_idle = channel.circuits.is_empty() && channel.waiting.is_empty();
        if is_idle && self.clock.ms() >= channel.idle_ms + IDLE_MS {
            self.close_channel(serial, "no circuit needs it");
        }
    }
}
