//! The client: one thread, one event loop, any number of transfers.

mod actor;
mod connection;
mod socks;
mod stream;
mod transfer;

use crate::clock::{self, Time};
use crate::config::{Config, Isolation, Peer};
use crate::control::circuits::Circuits;
use crate::control_link::ControlLink;
use crate::output::{Failure, Line, Output, Totals};
use crate::signals;
use crate::timers::Timers;
use actor::{Actor, Wish};
use mio::{Events, Poll, Token};
use socks::Credentials;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use transfer::{Order, Progress, Transfer};

/// Tokens above those of transfers, which count from 1.
const SIGNALS: Token = Token(usize::MAX);
const CONTROL: Token = Token(usize::MAX - 1);

/// The size of the one buffer that everything is read to and written from.
const SCRATCH_BYTES: usize = 32 << 10;

/// Timers that are later than this are so because the machine is busy (epoll's are up to a millisecond late).
const TIMERS_LATENESS: Duration = Duration::from_millis(10);

/// What is due at a moment. Transfers are named by their tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Ask { actor: usize, flow: Option<u64> },
    Retry(u64),
    Deadline(usize),
    Pace(usize),
    Control,
    Stop,
}

/// How a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked for is done and verified.
    Success,
    Failure,
}

struct Client<'a> {
    config: &'a Config,
    output: &'a mut Output,
    poll: Poll,
    scratch: Vec<u8>,
    timers: Timers<Due>,
    actors: Vec<Actor>,
    transfers: BTreeMap<usize, Transfer>,
    next_token: usize,
    next_id: u64,
    /// Transfers that wait for their next attempt.
    retries: BTreeMap<u64, Order>,
    /// Transfers that have more to do before anything new comes.
    turns: Vec<usize>,
    addresses: BTreeMap<String, Vec<SocketAddr>>,
    control: Option<ControlLink>,
    circuits: Circuits,
    totals: Counts,
    stopped: bool,
}

#[derive(Default)]
struct Counts {
    transfers: u64,
    failed: u64,
    bytes: u64,
}

/// Does what `config` says until it is done, the stop time comes or the program is asked to end.
pub fn run(config: &Config, output: &mut Output) -> io::Result<Outcome> {
    let began = clock::now();
    output.line(&Line::Start {
        version: env!("CARGO_PKG_VERSION"),
        behaviours: Some(config.behaviours.iter().map(|behaviour| behaviour.kind.name()).collect()),
        seed: Some(config.seed),
        listen: None,
        control: None,
        unix: clock::unix(),
    });
    let mut client = Client::new(config, output, began)?;
    let _signals = signals::register(client.poll.registry(), SIGNALS)?;
    client.run()?;
    client.finish()
}

impl<'a> Client<'a> {
    fn new(config: &'a Config, output: &'a mut Output, began: Time) -> io::Result<Self> {
        let mut actors = Vec::new();
        for (index, behaviour) in config.behaviours.iter().enumerate() {
            actors.extend((0..behaviour.parallel).map(|number| Actor::new(index, number.into(), config.seed)));
        }
        let mut timers = Timers::new();
        for actor in 0..actors.len() {
            timers.set(began + config.start, Due::Ask { actor, flow: None });
        }
        if let Some(stop) = config.stop {
            timers.set(began + stop, Due::Stop);
        }
        let control = config.control.clone().map(|peer| {
            timers.set(began, Due::Control);
            ControlLink::new(peer, config.control_password.clone(), "CIRC".into(), CONTROL)
        });
        Ok(Client {
            config,
            output,
            poll: Poll::new()?,
            scratch: vec![0; SCRATCH_BYTES],
            timers,
            actors,
            transfers: BTreeMap::new(),
            next_token: 1,
            next_id: 1,
            retries: BTreeMap::new(),
            turns: Vec::new(),
            addresses: BTreeMap::new(),
            control,
            circuits: Circuits::default(),
            totals: Counts::default(),
            stopped: false,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while !self.is_finished() {
            let wait = match self.turns.is_empty() {
                true => self.timers.wait(clock::now()),
                false => Some(Duration::ZERO),
            };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            for event in &events {
                match event.token() {
                    SIGNALS => self.stopped = true,
                    CONTROL => self.drive_control(),
                    Token(token) => self.drive(token),
                }
            }
            for token in std::mem::take(&mut self.turns) {
                self.drive(token);
            }
            let now = clock::now();
            while let Some((at, due)) = self.timers.due(now).filter(|_| !self.stopped) {
                self.happen(due, at, now);
            }
        }
        Ok(())
    }

    fn is_finished(&self) -> bool {
        let is_done = |actor: &Actor| actor.is_done(&self.config.behaviours[actor.behaviour]);
        self.stopped || self.output.is_closed() || self.actors.iter().all(is_done)
    }

    /// Says how it went.
    fn finish(self) -> io::Result<Outcome> {
        let Counts { transfers, failed, bytes } = self.totals;
        self.output.end(Totals {
            transfers: Some(transfers),
            failed: Some(failed),
            unfinished: Some((self.transfers.len() + self.retries.len()) as u64),
            bytes: Some(bytes),
            ..Default::default()
        });
        let has_all = |actor: &Actor| {
            let behaviour = &self.config.behaviours[actor.behaviour];
            behaviour.count.is_none() || actor.is_done(behaviour)
        };
        let complete = failed == 0 && self.actors.iter().all(has_all);
        Ok(if complete { Outcome::Success } else { Outcome::Failure })
    }

    /// Does what was due at `at`, a moment before `now`.
    fn happen(&mut self, due: Due, at: Time, now: Time) {
        match due {
            Due::Stop => self.stopped = true,
            Due::Control => self.connect_control(),
            Due::Pace(token) => {
                if let Some(transfer) = self.transfers.get_mut(&token) {
                    transfer.wake.fired(now);
                    self.drive(token);
                }
            }
            Due::Retry(id) => {
                if let Some(order) = self.retries.remove(&id) {
                    self.begin(order);
                }
            }
            Due::Ask { actor, flow } => {
                let mut wishes = Vec::new();
                let behaviour = &self.config.behaviours[self.actors[actor].behaviour];
                self.actors[actor].asked(behaviour, flow, &mut wishes);
                // What comes regularly does not shift by the timers' lateness.
                let from = if now - at < TIMERS_LATENESS { at } else { now };
                self.grant(actor, wishes, from);
            }
            Due::Deadline(token) => {
                let Some(transfer) = self.transfers.get(&token) else { return };
                match (transfer.overdue(now), transfer.deadline()) {
                    (Some(failure), _) => self.conclude(token, Some(failure)),
                    (None, Some(deadline)) => self.timers.set(deadline, Due::Deadline(token)),
                    (None, None) => {}
                }
            }
        }
    }

    /// Fulfils wishes, whose delays count from `from`.
    fn grant(&mut self, actor: usize, wishes: Vec<Wish>, from: Time) {
        for wish in wishes {
            match wish {
                Wish::Ask { after, flow } => self.timers.set(from + after, Due::Ask { actor, flow }),
                Wish::Transfer { flow } => {
                    let order = self.order(actor, flow);
                    self.begin(order);
                }
            }
        }
    }

    fn order(&mut self, actor: usize, flow: u64) -> Order {
        let config: &Config = self.config;
        let behaviour = &config.behaviours[self.actors[actor].behaviour];
        let (work, seed, server, timeout) = self.actors[actor].draw(behaviour);
        let id = self.next_id;
        self.next_id += 1;
        let mut order = Order {
            id,
            attempt: 1,
            actor,
            flow,
            kind: behaviour.kind.name(),
            direction: behaviour.direction,
            work,
            seed,
            server: behaviour.servers.get(server),
            credentials: None,
            timeout: behaviour.timeout.or(timeout),
            stall: behaviour.stall,
        };
        order.credentials = self.credentials(&order);
        order
    }

    /// What tells the proxy which transfers may share a circuit. The process's number keeps programs at one proxy apart.
    fn credentials(&self, order: &Order) -> Option<Credentials> {
        self.config.socks.as_ref()?;
        let word = match self.config.isolation {
            Isolation::None => return None,
            Isolation::Behaviour => format!("behaviour-{}", self.actors[order.actor].behaviour),
            Isolation::Flow if order.flow > 0 => format!("flow-{}-{}", order.actor, order.flow),
            _ => format!("transfer-{}-{}", order.id, order.attempt),
        };
        Some(Credentials { user: word, password: format!("gnomon-traffic-{}", std::process::id()) })
    }

    fn begin(&mut self, order: Order) {
        let token = self.next_token;
        self.next_token += 1;
        let proxy = self.config.socks.as_ref();
        let addresses = self.resolve(&proxy.unwrap_or(&order.server).clone());
        let retry = order.clone();
        match Transfer::begin(order, proxy.is_some(), addresses) {
            Ok(mut transfer) => {
                let registered = transfer.register(self.poll.registry(), Token(token));
                let deadline = transfer.deadline();
                let failure = registered.err().map(|error| transfer.failure("io", error.to_string()));
                self.transfers.insert(token, transfer);
                match failure {
                    Some(failure) => self.conclude(token, Some(failure)),
                    None => deadline.into_iter().for_each(|at| self.timers.set(at, Due::Deadline(token))),
                }
            }
            Err(record) => self.record(retry, *record),
        }
    }

    /// Addresses of a host, which are asked for once.
    fn resolve(&mut self, peer: &Peer) -> Result<Vec<SocketAddr>, Failure> {
        let name = peer.to_string();
        if let Some(addresses) = self.addresses.get(&name) {
            return Ok(addresses.clone());
        }
        match (peer.host.as_str(), peer.port).to_socket_addrs() {
            Ok(addresses) => {
                let addresses: Vec<SocketAddr> = addresses.collect();
                self.addresses.insert(name, addresses.clone());
                Ok(addresses)
            }
            Err(error) => {
                Err(Failure { stage: "connect", reason: "resolve".into(), detail: format!("{name}: {error}") })
            }
        }
    }

    fn drive(&mut self, token: usize) {
        let Some(transfer) = self.transfers.get_mut(&token) else { return };
        match transfer.drive(&mut self.scratch, self.poll.registry(), Token(token)) {
            Ok(Progress::Connection) => {}
            Ok(Progress::Until(at)) => {
                if transfer.wake.wants(at) {
                    self.timers.set(at, Due::Pace(token));
                }
            }
            Ok(Progress::Turn) => self.turns.push(token),
            Ok(Progress::Done) => self.conclude(token, None),
            Err(failure) => self.conclude(token, Some(failure)),
        }
    }

    /// Takes leave of a transfer.
    fn conclude(&mut self, token: usize, failure: Option<Failure>) {
        let Some(mut transfer) = self.transfers.remove(&token) else { return };
        transfer.count_sent();
        transfer.ended(failure);
        let Transfer { order, record, .. } = transfer;
        self.record(order, record);
    }

    /// Writes the record of an attempt, and goes on to the next attempt or lets the actor know.
    fn record(&mut self, mut order: Order, record: crate::output::Transfer) {
        self.output.line(&Line::Transfer(&record));
        let behaviour = &self.config.behaviours[self.actors[order.actor].behaviour];
        self.totals.bytes += record.received;
        if record.error.is_some() && order.attempt <= behaviour.retries {
            order.attempt += 1;
            order.credentials = self.credentials(&order);
            self.timers.set(clock::now() + behaviour.retry_after, Due::Retry(order.id));
            self.retries.insert(order.id, order);
            return;
        }
        self.totals.transfers += 1;
        self.totals.failed += u64::from(record.error.is_some());
        let mut wishes = Vec::new();
        self.actors[order.actor].ended(behaviour, order.flow, record.error.is_none(), &mut wishes);
        self.grant(order.actor, wishes, clock::now());
    }

    fn connect_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        if let Some(again) = control.connect(self.poll.registry()) {
            self.timers.set(again, Due::Control);
        }
    }

    fn drive_control(&mut self) {
        let Some(control) = &mut self.control else { return };
        let mut events = Vec::new();
        if let Some(again) = control.drive(&mut self.scratch, &mut events) {
            self.timers.set(again, Due::Control);
        }
        let now = clock::now();
        for circuit in events.iter().filter_map(|event| self.circuits.event(event, now)) {
            self.output.line(&Line::Circuit(&circuit));
        }
    }
}
