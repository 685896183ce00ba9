//! The event loop, and what belongs to all of it. `channels` reads and writes connections to relays, `circuits` builds circuits and takes their cells,
//! `streams` serves programs, `directory` keeps the network known, `attack` attacks, `puzzles` pays for circuits.

mod attack;
mod channels;
mod circuits;
mod directory;
mod puzzles;
mod streams;

use crate::channel::Channel;
use crate::circuit::Circuit;
use crate::fetch::Fetch;
use crate::guards::Guards;
use crate::network::Network;
use crate::settings::Settings;
use crate::stream::Stream;
use crate::timers::Timers;
use attack::Attacker;
use directory::Directory;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use nix::sys::signal::Signal;
use onion::certificates::Verified;
use onion_program::clock::Clock;
use onion_program::signals::Signals;
use onion_program::tls::Initiator;
use onion_program::{descriptors, log, random};
use puzzles::Puzzles;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const LISTENER: Token = Token(0);
/// No serial number is as large.
const SIGNALS: Token = Token(usize::MAX);
/// As many descriptors are asked for, as far as the system gives them.
const MOST_DESCRIPTORS: u64 = 1 << 20;

/// What is due at a moment; the rest is named by its serial number, which nothing else ever has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Channels without circuits are closed.
    Channel(u64),
    /// A circuit is too old for what it is.
    Circuit(u64),
    /// A program has waited too long, or its exit.
    Stream(u64),
    Directory,
    /// Circuits are built ahead, as tor does it each second.
    Second,
    Attack,
    /// A puzzle is solved.
    Puzzle,
}

pub struct Client {
    settings: Settings,
    clock: Clock,
    random: ChaCha20Rng,
    tls: Initiator,
    /// Relays' certificates.
    verified: RefCell<Verified>,
    poll: Poll,
    signals: Signals,
    listener: Option<TcpListener>,
    /// Programs wait whose connections could not be taken.
    accept_later: bool,
    is_over: bool,
    network: Network,
    guards: Guards,
    // By serial number; boxed, since a map of few would have room for many.
    channels: BTreeMap<u64, Box<Channel>>,
    circuits: BTreeMap<u64, Box<Circuit>>,
    streams: BTreeMap<u64, Box<Stream>>,
    fetches: BTreeMap<u64, Box<Fetch>>,
    serial: u64,
    timers: Timers<Due>,
    /// Channels that have something to write.
    to_write: BTreeSet<u64>,
    /// Streams that have something for their programs: what comes together is written together.
    to_flush: BTreeSet<u64>,
    /// Streams whose programs have more to say than there is room for.
    blocked: BTreeSet<u64>,
    /// Streams without circuit are to be looked at.
    must_assign: bool,
    /// Ports that programs have asked for, and when last.
    ports: BTreeMap<u16, u64>,
    /// When the next look at what is to be built ahead is due.
    second_ms: Option<u64>,
    /// Circuits that came to nothing in this second.
    failures: (u64, u32),
    directory: Directory,
    attacker: Option<Attacker>,
    puzzles: Puzzles,
    /// What was said of the bootstrap, in hundredths.
    progress: u8,
    /// The consensus (by when it became valid) and the port for which it was said that no relay lets streams out.
    exitless: Option<(u64, u16)>,
}

/// The port for which circuits are built before anybody has asked, as in tor.
const FIRST_PORT: u16 = 80;

impl Client {
    pub fn new(settings: Settings) -> Result<Client, String> {
        let wrong = |error: io::Error| error.to_string();
        let poll = Poll::new().map_err(wrong)?;
        let signals = Signals::register(poll.registry(), SIGNALS).map_err(wrong)?;
        if let Err(error) = descriptors::ask_for(MOST_DESCRIPTORS) {
            log::warn(&error);
        }
        let listener = settings.socks.map(|address| {
            let named = |error: io::Error| format!("listening at {address}: {error}");
            let mut listener = TcpListener::bind(SocketAddr::V4(address)).map_err(named)?;
            poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(named)?;
            Ok::<_, String>(listener)
        });
        let listener = listener.transpose()?;
        std::fs::create_dir_all(&settings.data_directory)
            .map_err(|error| format!("{}: {error}", settings.data_directory.display()))?;
        let guards = Guards::load(&settings.data_directory)?;
        let trusted = settings.authorities.iter().filter_map(|authority| authority.v3_identity).collect();
        let attacker = settings.attack.clone().map(Attacker::new);
        log::notice(format_args!("gnomon-onion-client {} begins.", env!("CARGO_PKG_VERSION")));
        let mut client = Client {
            settings,
            clock: Clock::start(),
            random: random::from_system()?,
            tls: Initiator::new().map_err(|error| error.to_string())?,
            verified: RefCell::default(),
            poll,
            signals,
            listener,
            accept_later: false,
            is_over: false,
            network: Network::new(trusted),
            guards,
            channels: BTreeMap::new(),
            circuits: BTreeMap::new(),
            streams: BTreeMap::new(),
            fetches: BTreeMap::new(),
            serial: 0,
            timers: Timers::new(),
            to_write: BTreeSet::new(),
            to_flush: BTreeSet::new(),
            blocked: BTreeSet::new(),
            must_assign: false,
            ports: BTreeMap::new(),
            second_ms: None,
            failures: (0, 0),
            directory: Directory::default(),
            attacker,
            puzzles: Puzzles::default(),
            progress: 0,
            exitless: None,
        };
        if client.listener.is_some() {
            client.ports.insert(FIRST_PORT, 0);
        }
        client.timers.set(0, Due::Directory);
        client.begin_attack();
        client.say_progress(0, "starting", "Starting");
        Ok(client)
    }

    pub fn run(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(256);
        while !self.is_over {
            while let Some(due) = self.timers.due(self.clock.ms()) {
                self.happen(due);
            }
            self.settle();
            let now = self.clock.ms();
            let wait = self.timers.next_ms().map(|at| Duration::from_millis(at.saturating_sub(now).max(1)));
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| error.to_string())?,
            }
            for event in &events {
                self.event(event.token());
            }
            if self.accept_later {
                self.accept();
            }
            self.settle();
        }
        Ok(())
    }

    /// Does what tor does for a signal, and says so in its words, as far as there is anything to be done.
    fn heed(&mut self, signal: Signal) {
        match signal {
            Signal::SIGINT | Signal::SIGTERM => {
                log::notice(format_args!("Catching signal {signal}, exiting cleanly."));
                self.is_over = true;
            }
            Signal::SIGHUP => {
                log::notice("Received reload signal (hup). Settings are read at the start alone: they stay.")
            }
            _ => {}
        }
    }

    fn event(&mut self, token: Token) {
        let serial = token.0 as u64;
        if token == LISTENER {
            self.accept();
        } else if token == SIGNALS {
            while let Some(signal) = self.signals.take() {
                self.heed(signal);
            }
        } else if self.channels.contains_key(&serial) {
            self.to_write.insert(serial);
            self.read_channel(serial);
        } else {
            self.stream_ready(serial);
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Channel(channel) => self.close_if_idle(channel),
            Due::Circuit(circuit) => self.check_circuit(circuit),
            Due::Stream(stream) => self.check_stream(stream),
            Due::Directory => self.advance_directory(),
            Due::Second => self.second(),
            Due::Attack => self.attack(),
            Due::Puzzle => self.puzzle_solved(),
        }
    }

    /// Does what events have left, until nothing follows any more.
    fn settle(&mut self) {
        loop {
            if std::mem::take(&mut self.must_assign) {
                self.assign();
            }
            while let Some(stream) = self.to_flush.pop_first() {
                self.write_stream(stream);
            }
            while let Some(channel) = self.to_write.pop_first() {
                self.write_channel(channel);
            }
            self.resume();
            if self.to_write.is_empty() && self.to_flush.is_empty() && !self.must_assign {
                return;
            }
        }
    }

    fn fresh_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn random(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    /// A line as tor's, once for each step: what reads tor's logs looks for them.
    fn say_progress(&mut self, hundredths: u8, tag: &str, summary: &str) {
        if hundredths > self.progress || hundredths == 0 {
            self.progress = hundredths;
            log::notice(format_args!("Bootstrapped {hundredths}% ({tag}): {summary}"));
        }
    }
}
