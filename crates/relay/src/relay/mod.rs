//! The relay: what comes on its sockets, and what follows from it.

mod cells;
mod connections;
mod defences;
mod links;
mod messages;
mod streams;
#[cfg(test)]
mod testing;
mod writing;

use crate::channel::Channel;
use crate::circuit::Circuit;
use crate::clock::{Clock, since_1970};
use crate::connection::Connection;
use crate::defence::Usage;
use crate::design::{LinkDesign, Tokens};
use crate::log;
use crate::own::{self, Own};
use crate::parameters::Parameters;
use crate::resolver::Resolver;
use crate::statistics::{ChannelLine, Congestion, Line, Statistics, Stops};
use crate::stream::Stream;
use crate::tls::Tls;
use crate::torrc::Settings;
use crate::upload::Upload;
use defences::Guarding;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;
use onion::descriptor::{Descriptor, PROTOCOLS};
use onion::handshake::puzzle::Taken;
use onion::link::association::{self, Association};
use onion_program::signals::Signals;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const LISTENER: Token = Token(0);
const RESOLVER: Token = Token(1);
const SIGNALS: Token = Token(2);
/// What a token stands for, behind the three above: kind and place.
const FIRST: usize = 3;
const CONNECTION: usize = 0;
const STREAM: usize = 1;
const UPLOAD: usize = 2;
const PARAMETERS: usize = 3;
const KINDS: usize = 4;

fn token(kind: usize, key: usize) -> Token {
    Token(FIRST + key * KINDS + kind)
}

/// For how long a client may remember an address, in seconds.
const TTL_S: u32 = 60;
/// Cells of one stream that are read at once.
const BATCH: usize = 32;

/// Who waits for an address.
#[derive(Clone, Copy, Debug)]
enum Asker {
    /// A stream that connects to this port then; its serial number, since streams come and go.
    Stream { key: usize, serial: u64, port: u16 },
    /// A RESOLVE on a circuit.
    Circuit { key: usize, serial: u64, number: u16 },
}

/// Circuits that take turns with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    /// For this connection.
    Own(usize),
    /// For any connection of this channel.
    Pool(usize),
}

pub struct Relay {
    settings: Settings,
    own: Own,
    tls: Tls,
    clock: Clock,
    random: ChaCha20Rng,
    poll: Poll,
    signals: Signals,
    /// None when it is about to end.
    listener: Option<TcpListener>,
    /// When it ends, if it was asked to end in peace.
    farewell_ms: Option<u64>,
    is_over: bool,
    connections: Slab<Connection>,
    channels: Slab<Channel>,
    /// Channels to relays, open or opening, by the RSA identity that is proven or asked for.
    by_identity: BTreeMap<[u8; 20], Vec<usize>>,
    /// Of channels with TLS, by which others are opened without: these channels, and what both ends know.
    associations: BTreeMap<association::Name, (usize, Association)>,
    circuits: Slab<Circuit>,
    streams: Slab<Stream>,
    /// Serial numbers of what has a place in the slabs, by place.
    circuit_serials: BTreeMap<usize, u64>,
    stream_serials: BTreeMap<usize, u64>,
    serial: u64,
    resolver: Resolver<Asker>,
    uploads: Vec<Upload>,
    parameters: Parameters,
    statistics: Option<Statistics>,
    /// Connections that have something to write, channels with cells for any of theirs, and circuits whose streams may go on.
    to_write: BTreeSet<usize>,
    to_pool: BTreeSet<usize>,
    /// Channels whose circuits are to be dealt to their connections anew, before anything is written.
    to_deal: BTreeSet<usize>,
    to_resume: Vec<usize>,
    /// Streams whose sockets may have something to read.
    to_read: BTreeSet<usize>,
    /// Streams that clients have ended, with bytes that their destinations have not taken, and since when.
    held: BTreeMap<usize, u64>,
    /// Streams whose clients have told a rate, and when they may go on.
    paced: BTreeSet<usize>,
    paced_ms: u64,
    stops: Stops,
    /// Where circuits' cells wait for KIST, and when it ran last.
    pending: BTreeSet<Lane>,
    kist_ran_ms: u64,
    /// What KIST of 2014 may still write.
    kist_tokens: Tokens,
    /// When IMUX looked at its channels last, and how many circuits it counted then.
    managed_ms: u64,
    all_active: usize,
    /// No more sockets could be taken.
    accept_later: bool,
    /// The log says that all sockets are taken.
    said_full: bool,
    connections_ever: u64,
    opened: u64,
    opening: Duration,
    relayed_bytes: u64,
    usage: Usage,
    guarding: Guarding,
    puzzles: Taken,
}

impl Relay {
    pub fn new(settings: Settings) -> Result<Relay, String> {
        let wrong = |error: io::Error| error.to_string();
        let mut random = own::random()?;
        let own = Own::load(&settings.data_directory, settings.address, settings.design, &mut random)?;
        let tls = Tls::new(&own.certificates, &own.keys).map_err(|error| error.to_string())?;
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, settings.or_port));
        let mut listener = TcpListener::bind(address).map_err(|error| format!("listening at {address}: {error}"))?;
        let mut resolver = Resolver::new().map_err(wrong)?;
        let poll = Poll::new().map_err(wrong)?;
        let signals = Signals::register(poll.registry(), SIGNALS).map_err(wrong)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(wrong)?;
        poll.registry().register(&mut resolver.socket, RESOLVER, Interest::READABLE).map_err(wrong)?;
        let uploads = if settings.publishes {
            settings.authorities.iter().cloned().map(Upload::new).collect()
        } else {
            Vec::new()
        };
        // Exits let no streams to relays out, and IMUX keeps sockets for others.
        let wants_relays = settings.policy.is_exit() || settings.design == LinkDesign::Imux;
        let identity = &own.identity.rsa_fingerprint;
        let parameters = Parameters::new(settings.authorities.clone(), identity, settings.publishes, wants_relays);
        let statistics = settings.statistics.as_deref().map(Statistics::open).transpose()?;
        log::notice(format_args!(
            "gnomon-relay {} is {} at {}:{}.",
            env!("CARGO_PKG_VERSION"),
            settings.nickname,
            settings.address,
            settings.or_port
        ));
        if settings.has_accounting {
            log::notice("AccountingMax is not heeded: this relay never hibernates.");
        }
        Ok(Relay {
            settings,
            own,
            tls,
            clock: Clock::start(),
            random,
            poll,
            signals,
            listener: Some(listener),
            farewell_ms: None,
            is_over: false,
            connections: Slab::new(),
            channels: Slab::new(),
            by_identity: BTreeMap::new(),
            associations: BTreeMap::new(),
            circuits: Slab::new(),
            streams: Slab::new(),
            circuit_serials: BTreeMap::new(),
            stream_serials: BTreeMap::new(),
            serial: 0,
            resolver,
            uploads,
            parameters,
            statistics,
            to_write: BTreeSet::new(),
            to_pool: BTreeSet::new(),
            to_deal: BTreeSet::new(),
            to_resume: Vec::new(),
            to_read: BTreeSet::new(),
            held: BTreeMap::new(),
            paced: BTreeSet::new(),
            paced_ms: 0,
            stops: Stops::default(),
            pending: BTreeSet::new(),
            kist_ran_ms: 0,
            kist_tokens: Tokens::default(),
            managed_ms: 0,
            all_active: 0,
            accept_later: false,
            said_full: false,
            connections_ever: 0,
            opened: 0,
            opening: Duration::ZERO,
            relayed_bytes: 0,
            usage: Usage::default(),
            guarding: Guarding::default(),
            puzzles: Taken::default(),
        })
    }

    pub fn run(&mut self) -> Result<(), String> {
        self.ask_for_sockets();
        let mut events = Events::with_capacity(1024);
        while !self.is_over {
            let timeout = self.go_on()?;
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| error.to_string())?,
            }
            for event in &events {
                self.event(event.token());
            }
            self.read_streams();
            self.settle();
            self.is_over |= self.farewell_ms.is_some_and(|end| end <= self.clock.ms());
        }
        Ok(())
    }

    /// Does what tor does for a signal, and says so in its words, as far as there is anything to be done.
    fn heed(&mut self, signal: Signal) {
        match signal {
            Signal::SIGINT if self.farewell_ms.is_none() => {
                let farewell_ms = self.settings.farewell_ms;
                log::notice(format_args!(
                    "Interrupt: we have stopped accepting new connections, and will shut down in {} seconds. Interrupt again to exit now.",
                    farewell_ms / 1000
                ));
                self.farewell_ms = Some(self.clock.ms() + farewell_ms);
                self.listener = None;
            }
            Signal::SIGINT | Signal::SIGTERM => {
                log::notice(format_args!("Catching signal {signal}, exiting cleanly."));
                self.is_over = true;
            }
            Signal::SIGHUP => {
                log::notice("Received reload signal (hup). Settings are read at the start alone: they stay.")
            }
            Signal::SIGUSR1 => match serde_json::to_string(&self.line()) {
                Ok(line) => log::notice(format_args!("Statistics: {line}")),
                Err(error) => log::warn(format_args!("Statistics: {error}")),
            },
            _ => {}
        }
    }

    /// What is due by time; returns how long nothing is.
    fn go_on(&mut self) -> Result<Option<Duration>, String> {
        let now = self.clock.ms();
        let mut due: Vec<u64> = Vec::new();
        for index in 0..self.uploads.len() {
            let (settings, own, uptime) = (&self.settings, &self.own, now / 1000);
            let socket = self.uploads[index].go_on(now, || describe(settings, own, uptime));
            if let Some(socket) = socket {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll
                    .registry()
                    .register(socket, token(UPLOAD, index), interest)
                    .map_err(|error| error.to_string())?;
            }
            due.push(self.uploads[index].due_ms);
        }
        if let Some(socket) = self.parameters.go_on(now) {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(socket, token(PARAMETERS, 0), interest).map_err(|error| error.to_string())?;
        }
        due.extend(self.parameters.due_ms);
        let mut answered = Vec::new();
        due.extend(self.resolver.go_on(now, &mut answered));
        self.answered(answered);
        if let Some(mut statistics) = self.statistics.take() {
            if statistics.due_ms <= now {
                statistics.write(&self.line(), now)?;
            }
            due.push(statistics.due_ms);
            self.statistics = Some(statistics);
        }
        due.extend(self.go_on_by_rate(now));
        due.extend(self.give_handshakes_up());
        due.extend(self.give_held_up());
        due.extend(self.farewell_ms);
        due.extend(self.close_idle());
        if self.managing_due_ms().is_some_and(|due| due <= now) {
            self.manage();
        }
        self.settle();
        due.extend(self.managing_due_ms());
        due.extend(self.kist_due_ms());
        if !self.to_read.is_empty() {
            return Ok(Some(Duration::ZERO));
        }
        Ok(due.into_iter().min().map(|due| Duration::from_millis(due.saturating_sub(now).max(1))))
    }

    fn line(&self) -> Line {
        Line {
            time: since_1970().as_secs_f64(),
            channels: self.channels.len(),
            relays: self.channels.iter().filter(|(_, channel)| channel.peer.is_some()).count(),
            connections: self.connections.len(),
            connections_ever: self.connections_ever,
            opened: self.opened,
            opening_s: self.opening.as_secs_f64(),
            by_channel: self.channel_lines(),
            circuits: self.circuits.len(),
            streams: self.streams.len(),
            relayed_bytes: self.relayed_bytes,
            refused_circuits: self.usage.refused_circuits,
            refused_connections: self.usage.refused_connections,
            refused_streams: self.usage.refused_streams,
            congestion: Congestion::of(self.circuits.iter().filter_map(|(_, circuit)| circuit.flow.vegas())),
            stops: self.stops,
            cells_queued: self.circuits.iter().map(|(_, circuit)| circuit.queued()).sum(),
            cells_held: self
                .channels
                .iter()
                .filter_map(|(_, channel)| Some(channel.numbered.as_ref()?.order.held()))
                .sum(),
            retransmissions: self.connections.iter().map(|(_, connection)| connection.retransmissions()).sum(),
            ewma_most: self
                .circuits
                .iter()
                .map(|(_, circuit)| circuit.recent_cells(self.clock.ms()))
                .fold(0.0, f64::max),
            descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1)),
        }
    }

    fn channel_lines(&self) -> Vec<ChannelLine> {
        let line = |channel: &Channel| {
            let peer = channel.peer?;
            Some(ChannelLine {
                peer: peer.rsa_fingerprint[..4].iter().map(|byte| format!("{byte:02X}")).collect(),
                connections: channel.connections.len(),
                circuits: channel.circuits.len(),
                active: self.active_on(channel),
            })
        };
        self.channels.iter().filter_map(|(_, channel)| line(channel)).collect()
    }

    fn event(&mut self, Token(number): Token) {
        match Token(number) {
            LISTENER => self.accept(),
            RESOLVER => {
                let mut answered = Vec::new();
                self.resolver.receive(&mut answered);
                self.answered(answered);
            }
            SIGNALS => {
                while let Some(signal) = self.signals.take() {
                    self.heed(signal);
                }
            }
            _ => match ((number - FIRST) % KINDS, (number - FIRST) / KINDS) {
                (CONNECTION, key) => {
                    self.to_write.insert(key);
                    self.read_connection(key);
                }
                (STREAM, key) => self.stream_ready(key),
                (PARAMETERS, _) => self.parameters.ready(self.clock.ms(), since_1970().as_secs()),
                (_, key) => self.uploads[key].ready(self.clock.ms()),
            },
        }
    }

    fn random(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn fresh_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

/// What this relay says of itself.
fn describe(settings: &Settings, own: &Own, uptime_s: u64) -> String {
    let descriptor = Descriptor {
        nickname: &settings.nickname,
        address: settings.address,
        or_port: settings.or_port,
        platform: concat!("gnomon-relay ", env!("CARGO_PKG_VERSION"), " on Linux"),
        protocols: PROTOCOLS,
        uptime_s,
        bandwidth_rate: settings.bandwidth_rate,
        bandwidth_burst: settings.bandwidth_burst,
        // As tor says at the beginning: authorities of a network like this have weights of their own.
        bandwidth_observed: settings.bandwidth_rate,
        contact: &settings.contact,
        exit_policy: &settings.policy.lines(),
        is_directory: settings.is_directory && !settings.authorities.is_empty(),
    };
    descriptor.sign(&own.keys, since_1970().as_secs())
}
