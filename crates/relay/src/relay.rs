//! The relay: what comes on its sockets, and what follows from it.

use crate::channel::{Came, Channel, News, PeerWanted, Waiting};
use crate::circuit::{Circuit, Side};
use crate::clock::{Clock, since_1970};
use crate::design::{LinkDesign, Turn, Writing};
use crate::log;
use crate::own::{self, Own};
use crate::resolver::{Answer, Resolver};
use crate::statistics::{Line, Statistics};
use crate::stream::{STREAM_STEP, STREAM_WINDOW, Stream, Taken};
use crate::tls::Tls;
use crate::torrc::Settings;
use crate::upload::Upload;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use onion::cell::{BODY, CircuitId, Command};
use onion::circuit::message::{self, Begin, DestroyReason, EndReason, Extend2, LONGEST, Message, Resolved};
use onion::descriptor::{Descriptor, PROTOCOLS};
use onion::handshake::{HopKeys, Kind, fast, ntor, ntor_v3};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use slab::Slab;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

const LISTENER: Token = Token(0);
const RESOLVER: Token = Token(1);
/// What a token stands for, behind the two above: kind and place.
const CHANNEL: usize = 0;
const STREAM: usize = 1;
const UPLOAD: usize = 2;
const KINDS: usize = 3;

fn token(kind: usize, key: usize) -> Token {
    Token(2 + key * KINDS + kind)
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

pub struct Relay {
    settings: Settings,
    own: Own,
    tls: Tls,
    clock: Clock,
    random: ChaCha20Rng,
    poll: Poll,
    listener: TcpListener,
    channels: Slab<Channel>,
    /// Channels to relays, open or opening, by the RSA identity that is proven or asked for.
    by_identity: BTreeMap<[u8; 20], Vec<usize>>,
    circuits: Slab<Circuit>,
    streams: Slab<Stream>,
    /// Serial numbers of what has a place in the slabs, by place.
    circuit_serials: BTreeMap<usize, u64>,
    stream_serials: BTreeMap<usize, u64>,
    serial: u64,
    resolver: Resolver<Asker>,
    uploads: Vec<Upload>,
    statistics: Option<Statistics>,
    /// Channels that have something to write, and circuits whose streams may go on.
    to_write: BTreeSet<usize>,
    to_resume: Vec<usize>,
    /// Channels with circuits' cells that wait for KIST, and when it ran last.
    pending: BTreeSet<usize>,
    kist_ran_ms: u64,
}

impl Relay {
    pub fn new(settings: Settings) -> Result<Relay, String> {
        let wrong = |error: io::Error| error.to_string();
        let mut random = own::random()?;
        let own = Own::load(&settings.data_directory, settings.address, settings.design, &mut random)?;
        let tls = Tls::new(&own.certificates.tls, own.keys.link_der()).map_err(|error| error.to_string())?;
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, settings.or_port));
        let mut listener = TcpListener::bind(address).map_err(|error| format!("listening at {address}: {error}"))?;
        let mut resolver = Resolver::new().map_err(wrong)?;
        let poll = Poll::new().map_err(wrong)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE).map_err(wrong)?;
        poll.registry().register(&mut resolver.socket, RESOLVER, Interest::READABLE).map_err(wrong)?;
        let uploads = if settings.publishes {
            settings.authorities.iter().cloned().map(Upload::new).collect()
        } else {
            Vec::new()
        };
        let statistics = settings.statistics.as_deref().map(Statistics::open).transpose()?;
        log::notice(format_args!(
            "gnomon-relay {} is {} at {}:{}.",
            env!("CARGO_PKG_VERSION"),
            settings.nickname,
            settings.address,
            settings.or_port
        ));
        Ok(Relay {
            settings,
            own,
            tls,
            clock: Clock::start(),
            random,
            poll,
            listener,
            channels: Slab::new(),
            by_identity: BTreeMap::new(),
            circuits: Slab::new(),
            streams: Slab::new(),
            circuit_serials: BTreeMap::new(),
            stream_serials: BTreeMap::new(),
            serial: 0,
            resolver,
            uploads,
            statistics,
            to_write: BTreeSet::new(),
            to_resume: Vec::new(),
            pending: BTreeSet::new(),
            kist_ran_ms: 0,
        })
    }

    pub fn run(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = self.go_on()?;
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result.map_err(|error| error.to_string())?,
            }
            for event in &events {
                self.event(event.token());
            }
            self.settle();
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
        self.settle();
        due.extend(self.kist_due_ms());
        Ok(due.into_iter().min().map(|due| Duration::from_millis(due.saturating_sub(now).max(1))))
    }

    fn line(&self) -> Line {
        Line {
            time: since_1970().as_secs_f64(),
            channels: self.channels.len(),
            relays: self.channels.iter().filter(|(_, channel)| channel.peer.is_some()).count(),
            circuits: self.circuits.len(),
            streams: self.streams.len(),
            cells_queued: self.circuits.iter().map(|(_, circuit)| circuit.queued()).sum(),
            ewma_most: self
                .circuits
                .iter()
                .map(|(_, circuit)| circuit.recent_cells(self.clock.ms()))
                .fold(0.0, f64::max),
            descriptors: std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count().saturating_sub(1)),
        }
    }

    fn event(&mut self, Token(number): Token) {
        match Token(number) {
            LISTENER => self.accept(),
            RESOLVER => {
                let mut answered = Vec::new();
                self.resolver.receive(&mut answered);
                self.answered(answered);
            }
            _ => match ((number - 2) % KINDS, (number - 2) / KINDS) {
                (CHANNEL, key) => {
                    self.to_write.insert(key);
                    self.read_channel(key);
                }
                (STREAM, key) => self.stream_ready(key),
                (_, key) => {
                    let now = self.clock.ms();
                    let was_known = self.is_known();
                    self.uploads[key].ready(now);
                    if self.is_known() && !was_known {
                        // What reads tor's logs waits for this line.
                        log::notice("Bootstrapped 100% (done): Done");
                    }
                }
            },
        }
    }

    /// Writes what events have left, until nothing follows any more.
    fn settle(&mut self) {
        loop {
            self.write_all();
            if !self.run_kist() {
                return;
            }
        }
    }

    fn write_all(&mut self) {
        let now = self.clock.ms();
        let is_vanilla = self.settings.writing == Writing::Vanilla;
        loop {
            while let Some(circuit) = self.to_resume.pop() {
                self.resume(circuit);
            }
            let Some(key) = self.to_write.pop_first() else { return };
            let Some(channel) = self.channels.get_mut(key) else { continue };
            if let Err(error) = channel.write(key, is_vanilla, now, &mut self.circuits, &mut self.to_resume) {
                self.close_channel(key, &error.to_string());
            } else if !is_vanilla && channel.is_pending() {
                self.pending.insert(key);
            }
            self.close_if_done(key);
        }
    }

    /// When KIST is to run next.
    fn kist_due_ms(&self) -> Option<u64> {
        match self.settings.writing {
            Writing::Kist { interval_ms } if !self.pending.is_empty() => Some(self.kist_ran_ms + interval_ms),
            _ => None,
        }
    }

    /// Readies cells of all circuits by their turns, as many as the kernel can send soon, if it is time to; whether there is
    /// something to write now.
    fn run_kist(&mut self) -> bool {
        let now = self.clock.ms();
        if self.kist_due_ms().is_none_or(|due| due > now) {
            return false;
        }
        self.kist_ran_ms = now;
        self.pending.retain(|key| self.channels.get(*key).is_some_and(Channel::is_pending));
        // Channels, with the cells that each may still be given in this run.
        let mut turns = BinaryHeap::new();
        for (serial, key) in (0..).zip(&self.pending) {
            let channel = &self.channels[*key];
            let whose = (*key, channel.kist_allowance());
            turns.push(Reverse(Turn { recent: channel.next_recent(), serial, whose }));
        }
        let mut serial = turns.len() as u64;
        while let Some(Reverse(Turn { whose: (key, allowance), .. })) = turns.pop() {
            if allowance == 0 {
                continue;
            }
            let channel = &mut self.channels[key];
            if !channel.take_turn(key, now, &mut self.circuits, &mut self.to_resume) {
                self.pending.remove(&key);
                continue;
            }
            self.to_write.insert(key);
            turns.push(Reverse(Turn { recent: channel.next_recent(), serial, whose: (key, allowance - 1) }));
            serial += 1;
        }
        !self.to_write.is_empty()
    }

    /// All authorities have its descriptor.
    fn is_known(&self) -> bool {
        self.uploads.iter().all(|upload| upload.is_known)
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

/// Channels.
impl Relay {
    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, from)) => {
                    let session = self.tls.respond();
                    self.add_channel(Channel::new(socket, session, from, None, self.settings.scheduler));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return log::warn(format_args!("accepting a connection: {error}")),
            }
        }
    }

    fn add_channel(&mut self, mut channel: Channel) -> Option<usize> {
        let entry = self.channels.vacant_entry();
        let key = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        // Cells have one size and are written in batches: waiting for more would only delay them.
        let _ = channel.socket.set_nodelay(true);
        if let Err(error) = self.poll.registry().register(&mut channel.socket, token(CHANNEL, key), interest) {
            log::warn(format_args!("watching a connection: {error}"));
            return None;
        }
        entry.insert(channel);
        self.to_write.insert(key);
        Some(key)
    }

    fn read_channel(&mut self, key: usize) {
        let random = self.random();
        let Some(channel) = self.channels.get_mut(key) else { return };
        let News { opened, cells, end } = channel.read(&self.own, random);
        if opened {
            self.opened(key);
        }
        for came in cells {
            self.cell(key, came);
        }
        if let Some(why) = end {
            self.close_channel(key, &why);
        }
    }

    /// Circuits that waited for it can go on.
    fn opened(&mut self, key: usize) {
        let channel = &mut self.channels[key];
        let waiting = std::mem::take(&mut channel.waiting);
        if let (Some(peer), None) = (channel.peer, channel.wanted) {
            self.by_identity.entry(peer.rsa_fingerprint).or_default().push(key);
        }
        let (design, address, wanted) = (channel.design, channel.address, channel.wanted);
        for (place, Waiting { circuit, create }) in waiting.into_iter().enumerate() {
            let own = match (design, wanted) {
                (LinkDesign::Pctcp, Some(wanted)) if place > 0 => Some(self.connect(address, wanted)),
                _ => None,
            };
            match own {
                None => self.create(key, circuit, &create),
                Some(Some(other)) => self.channels[other].waiting.push(Waiting { circuit, create }),
                Some(None) => self.close_circuit(circuit, Some(DestroyReason::ConnectFailed), None),
            }
        }
    }

    /// A connection of one circuit goes with it.
    fn close_if_done(&mut self, key: usize) {
        let is_done = |channel: &Channel| {
            let is_own = channel.initiated && channel.design == LinkDesign::Pctcp;
            is_own && channel.circuits.is_empty() && channel.waiting.is_empty() && channel.has_written_all()
        };
        if self.channels.get(key).is_some_and(is_done) {
            self.close_channel(key, "its circuit has ended");
        }
    }

    fn close_channel(&mut self, key: usize, why: &str) {
        let Some(mut channel) = self.channels.try_remove(key) else { return };
        let _ = self.poll.registry().deregister(&mut channel.socket);
        self.to_write.remove(&key);
        self.pending.remove(&key);
        for channels in self.by_identity.values_mut() {
            channels.retain(|other| *other != key);
        }
        self.by_identity.retain(|_, channels| !channels.is_empty());
        if !channel.waiting.is_empty() {
            log::notice(format_args!("A connection to another relay came to nothing: {why}"));
        }
        let circuits: BTreeSet<(usize, bool)> =
            channel.circuits.values().map(|(circuit, side)| (*circuit, *side == Side::Client)).collect();
        for (circuit, is_client) in circuits {
            if is_client {
                self.close_circuit(circuit, None, Some(DestroyReason::ChannelClosed));
            } else {
                self.truncated(circuit, DestroyReason::ChannelClosed);
            }
        }
        for waiting in channel.waiting {
            self.close_circuit(waiting.circuit, Some(DestroyReason::ConnectFailed), None);
        }
    }
}

/// Cells.
impl Relay {
    fn cell(&mut self, key: usize, came: Came) {
        match came.command {
            Command::CREATE_FAST | Command::CREATE2 => self.answer_create(key, &came),
            Command::CREATED2 => self.created(key, &came),
            Command::RELAY | Command::RELAY_EARLY => self.relay(key, came),
            Command::DESTROY => self.destroyed(key, &came),
            // Padding, and what tor may say that changes nothing here.
            _ => {}
        }
    }

    fn answer_create(&mut self, key: usize, came: &Came) {
        let Some(channel) = self.channels.get(key) else { return };
        let answer = if !channel.is_theirs(came.circuit) || channel.circuits.contains_key(&came.circuit) {
            Err(DestroyReason::Protocol)
        } else {
            self.handshake(came).ok_or(DestroyReason::Protocol)
        };
        let channel = &mut self.channels[key];
        match answer {
            Ok((command, body, keys)) => {
                let circuit = self.circuits.insert(Circuit::new((key, came.circuit), &keys));
                channel.circuits.insert(came.circuit, (circuit, Side::Client));
                channel.send(came.circuit, command, &body);
                let serial = self.fresh_serial();
                self.circuit_serials.insert(circuit, serial);
            }
            Err(reason) => channel.send(came.circuit, Command::DESTROY, &[reason as u8]),
        }
        self.to_write.insert(key);
    }

    fn handshake(&mut self, came: &Came) -> Option<(Command, Vec<u8>, HopKeys)> {
        let random = self.random();
        let Own { keys, identity, .. } = &self.own;
        if came.command == Command::CREATE_FAST {
            let ours = random[..fast::PART].try_into().expect("fewer than there are");
            let (body, keys) = fast::answer(came.body.first_chunk()?, ours);
            return Some((Command::CREATED_FAST, body.to_vec(), keys));
        }
        let (kind, data) = message::read_create2(&came.body[..])?;
        let (answer, keys) = match Kind::from_number(kind)? {
            Kind::Ntor => {
                let (answer, keys) = ntor::answer(data, &identity.rsa_fingerprint, keys.onion(), random).ok()?;
                (answer.to_vec(), keys)
            }
            Kind::NtorV3 => {
                let request = ntor_v3::Request::read(data, &identity.ed25519, keys.onion()).ok()?;
                // No extensions: flow control is by windows.
                request.answer(&[0], random).ok()?
            }
        };
        Some((Command::CREATED2, message::created2(&answer), keys))
    }

    /// The next relay has answered.
    fn created(&mut self, key: usize, came: &Came) {
        let found = self.channels.get(key).and_then(|channel| channel.circuits.get(&came.circuit)).copied();
        let Some((circuit, Side::Exit)) = found else { return };
        let Some(answer) = message::read_created2(&came.body[..]).filter(|answer| answer.len() + 2 <= LONGEST) else {
            return self.close_circuit(circuit, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        };
        if !std::mem::replace(&mut self.circuits[circuit].is_extending, false) {
            return self.close_circuit(circuit, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
        }
        self.say(circuit, message::Command::EXTENDED2, 0, &message::created2(answer));
    }

    fn relay(&mut self, key: usize, Came { circuit: id, command, mut body }: Came) {
        let found = self.channels.get(key).and_then(|channel| channel.circuits.get(&id)).copied();
        // Cells of a circuit that has just ended are still on their way.
        let Some((key, side)) = found else { return };
        let circuit = &mut self.circuits[key];
        if side == Side::Exit {
            circuit.layer.backward.crypt(&mut body);
            return self.push(key, Side::Client, Command::RELAY, body);
        }
        circuit.layer.forward.crypt(&mut body);
        if let Some(digest) = circuit.layer.forward.recognize(&body) {
            let result = match Message::read(&body) {
                Some(message) => self.message(key, command, &message, &digest),
                None => Err("a message that is longer than its cell"),
            };
            if let Err(why) = result {
                log::notice(format_args!("A circuit is closed for {why}."));
                self.close_circuit(key, Some(DestroyReason::Protocol), Some(DestroyReason::Protocol));
            }
        } else if circuit.next.is_some() {
            self.push(key, Side::Exit, command, body);
        } else {
            // For nobody.
            self.close_circuit(key, Some(DestroyReason::Protocol), None);
        }
    }

    fn push(&mut self, key: usize, side: Side, command: Command, body: Box<[u8; BODY]>) {
        let circuit = &mut self.circuits[key];
        let Some((channel, _)) = circuit.end_at(side) else { return };
        match circuit.push(side, command, body) {
            Some(true) => {
                let recent = circuit.queue(side).recent;
                self.channels[channel].activate(key, side, recent);
                self.to_write.insert(channel);
            }
            Some(false) => {}
            None => {
                log::notice("A circuit is closed for more cells than its windows allow.");
                self.close_circuit(key, Some(DestroyReason::ResourceLimit), Some(DestroyReason::ResourceLimit));
            }
        }
    }

    /// Sends a message of this relay's to the client.
    fn say(&mut self, key: usize, command: message::Command, stream: u16, body: &[u8]) {
        // What was said before may have been too much, and have ended it.
        let Some(circuit) = self.circuits.get_mut(key) else { return };
        let random = &mut self.random;
        let body = circuit.seal(&Message { command, stream, body }, |filling| random.fill_bytes(filling));
        self.push(key, Side::Client, Command::RELAY, body);
    }

    fn destroyed(&mut self, key: usize, came: &Came) {
        let found = self.channels.get_mut(key).and_then(|channel| channel.circuits.remove(&came.circuit));
        match found {
            Some((circuit, Side::Client)) => self.close_circuit(circuit, None, Some(DestroyReason::Destroyed)),
            Some((circuit, Side::Exit)) => {
                self.to_write.insert(key);
                self.truncated(circuit, DestroyReason::Destroyed);
            }
            None => {}
        }
    }

    /// The circuit ends here now; its client may extend it elsewhere.
    fn truncated(&mut self, key: usize, reason: DestroyReason) {
        let circuit = &mut self.circuits[key];
        circuit.next = None;
        circuit.queue(Side::Exit).cells.clear();
        circuit.queue(Side::Exit).is_active = false;
        if std::mem::replace(&mut circuit.is_extending, false) {
            return self.close_circuit(key, Some(reason), None);
        }
        self.say(key, message::Command::TRUNCATED, 0, &[reason as u8]);
    }

    /// Ends a circuit, with words for both sides where they are still to be told.
    fn close_circuit(&mut self, key: usize, to_client: Option<DestroyReason>, to_exit: Option<DestroyReason>) {
        let Some(circuit) = self.circuits.try_remove(key) else { return };
        self.circuit_serials.remove(&key);
        for (end, reason) in [(Some(circuit.prev), to_client), (circuit.next, to_exit)] {
            let Some((channel_key, id)) = end else { continue };
            let Some(channel) = self.channels.get_mut(channel_key) else { continue };
            if channel.circuits.get(&id).is_some_and(|(circuit, _)| *circuit == key) {
                channel.circuits.remove(&id);
                if let Some(reason) = reason {
                    channel.send(id, Command::DESTROY, &[reason as u8]);
                }
                self.to_write.insert(channel_key);
            }
        }
        for channel in self.channels.iter_mut().map(|(_, channel)| channel) {
            if circuit.is_extending {
                channel.waiting.retain(|waiting| waiting.circuit != key);
            }
        }
        for stream in circuit.streams.values() {
            self.drop_stream(*stream);
        }
    }
}

/// Messages of clients.
impl Relay {
    fn message(
        &mut self,
        key: usize,
        cell: Command,
        message: &Message<'_>,
        digest: &[u8; 20],
    ) -> Result<(), &'static str> {
        use message::Command as M;
        let stream = self.circuits[key].streams.get(&message.stream).copied();
        match message.command {
            M::EXTEND2 if cell == Command::RELAY_EARLY => return self.extend(key, message.body),
            M::EXTEND2 => return Err("an EXTEND2 that is not RELAY_EARLY"),
            M::TRUNCATE => {
                if let Some((channel, id)) = self.circuits[key].next {
                    self.channels[channel].circuits.remove(&id);
                    self.channels[channel].send(id, Command::DESTROY, &[DestroyReason::Requested as u8]);
                    self.to_write.insert(channel);
                    self.truncated(key, DestroyReason::Requested);
                }
            }
            M::BEGIN if message.stream == 0 || stream.is_some() => return Err("a stream that is there already"),
            M::BEGIN => self.begin(key, message),
            M::BEGIN_DIR if message.stream == 0 || stream.is_some() => return Err("a stream that is there already"),
            M::BEGIN_DIR => self.begin_directory(key, message.stream),
            M::RESOLVE => self.resolve(key, message),
            M::DATA => {
                if let Some(body) = self.circuits[key].deliver(digest) {
                    self.say(key, M::SENDME, 0, &body);
                }
                if let Some(key) = stream
                    && let Some(stream) = self.streams.get_mut(key)
                {
                    stream.deliver(message.body)?;
                    self.write_stream(key);
                }
            }
            M::END => {
                if let Some(stream) = stream {
                    self.circuits[key].streams.remove(&message.stream);
                    self.streams[stream].is_ending = true;
                    self.write_stream(stream);
                }
            }
            M::SENDME if message.stream == 0 => {
                self.circuits[key].allow(message.body)?;
                self.to_resume.push(key);
            }
            M::SENDME => {
                if let Some(stream) = stream {
                    let stream = &mut self.streams[stream];
                    stream.package += STREAM_STEP;
                    if stream.package > STREAM_WINDOW {
                        return Err("a SENDME of a stream that was not due");
                    }
                    self.to_resume.push(key);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn extend(&mut self, key: usize, body: &[u8]) -> Result<(), &'static str> {
        let circuit = &mut self.circuits[key];
        if circuit.next.is_some() || circuit.is_extending {
            return Err("an EXTEND2 of a circuit that goes on already");
        }
        let extend = Extend2::read(body).ok_or("an EXTEND2 that cannot be read")?;
        let prev_fingerprint = self.channels[circuit.prev.0].peer.map(|peer| peer.rsa_fingerprint);
        if Some(extend.fingerprint) == prev_fingerprint || extend.fingerprint == self.own.identity.rsa_fingerprint {
            return Err("an EXTEND2 to where it comes from");
        }
        let wanted = PeerWanted { fingerprint: extend.fingerprint, ed25519: extend.ed25519 };
        let create = message::create2(extend.handshake, &extend.data);
        circuit.is_extending = true;
        let fits = |channel: &Channel| match (&channel.peer, &channel.wanted) {
            (Some(peer), _) => wanted.is(peer),
            (None, Some(other)) => *other == wanted,
            (None, None) => false,
        };
        let known = self.by_identity.get(&wanted.fingerprint).into_iter().flatten().copied();
        // A connection that belongs to a circuit is nobody else's.
        let is_free = |channel: &Channel| channel.design == LinkDesign::Vanilla;
        let channel = known
            .map(|key| (key, &self.channels[key]))
            .filter(|(_, channel)| fits(channel) && is_free(channel))
            .max_by_key(|(_, channel)| channel.is_open());
        let address = extend.addresses.iter().find(|(address, port)| address.is_ipv4() && *port != 0);
        let channel = match (channel, address) {
            (Some((channel, _)), _) => Some(channel),
            (None, Some(address)) => self.connect(SocketAddr::from(*address), wanted),
            (None, None) => None,
        };
        match channel {
            Some(channel) if self.channels[channel].is_open() => self.create(channel, key, &create),
            Some(channel) => self.channels[channel].waiting.push(Waiting { circuit: key, create }),
            None => self.close_circuit(key, Some(DestroyReason::ConnectFailed), None),
        }
        Ok(())
    }

    fn connect(&mut self, address: SocketAddr, wanted: PeerWanted) -> Option<usize> {
        let socket = TcpStream::connect(address).ok()?;
        let session = self.tls.initiate();
        let key = self.add_channel(Channel::new(socket, session, address, Some(wanted), self.settings.scheduler))?;
        self.by_identity.entry(wanted.fingerprint).or_default().push(key);
        Some(key)
    }

    fn create(&mut self, channel_key: usize, key: usize, create: &[u8]) {
        let channel = &mut self.channels[channel_key];
        let Some(id): Option<CircuitId> = channel.fresh_id() else {
            return self.close_circuit(key, Some(DestroyReason::ResourceLimit), None);
        };
        channel.circuits.insert(id, (key, Side::Exit));
        channel.send(id, Command::CREATE2, create);
        self.circuits[key].next = Some((channel_key, id));
        self.to_write.insert(channel_key);
    }
}

/// Streams.
impl Relay {
    fn end(&mut self, key: usize, number: u16, reason: EndReason) {
        self.say(key, message::Command::END, number, &message::end(reason, None));
    }

    fn begin(&mut self, key: usize, message: &Message<'_>) {
        let Some(begin) = Begin::read(message.body) else {
            return self.end(key, message.stream, EndReason::TorProtocol);
        };
        // A client that has no other relay in between would be known to its destination's relay.
        if self.channels[self.circuits[key].prev.0].peer.is_none() {
            return self.end(key, message.stream, EndReason::TorProtocol);
        }
        if !self.settings.policy.is_exit() {
            return self.end(key, message.stream, EndReason::ExitPolicy);
        }
        let stream = self.streams.insert(Stream::new(key, message.stream));
        let serial = self.fresh_serial();
        self.stream_serials.insert(stream, serial);
        self.circuits[key].streams.insert(message.stream, stream);
        self.ask(&begin.host, Asker::Stream { key: stream, serial, port: begin.port });
    }

    /// A question to the directory goes to an authority, each to the next: what they say is signed, and nothing has to be kept here.
    fn begin_directory(&mut self, key: usize, number: u16) {
        let serial = self.fresh_serial();
        let authorities = &self.settings.authorities;
        if !self.settings.is_directory || authorities.is_empty() {
            return self.end(key, number, EndReason::NotDirectory);
        }
        let address = authorities[serial as usize % authorities.len()].directory;
        let mut stream = Stream::new(key, number);
        stream.is_of_directory = true;
        let stream = self.streams.insert(stream);
        self.stream_serials.insert(stream, serial);
        self.circuits[key].streams.insert(number, stream);
        self.connect_stream(stream, address);
    }

    fn resolve(&mut self, key: usize, message: &Message<'_>) {
        let name = message.body.split(|byte| *byte == 0).next().unwrap_or_default();
        let serial = self.circuit_serials[&key];
        match std::str::from_utf8(name) {
            Ok(name) => self.ask(&name.to_ascii_lowercase(), Asker::Circuit { key, serial, number: message.stream }),
            Err(_) => self.say(
                key,
                message::Command::RESOLVED,
                message.stream,
                &message::resolved(&[(Resolved::Error, TTL_S)]),
            ),
        }
    }

    fn ask(&mut self, name: &str, asker: Asker) {
        let (number, now) = (self.random.next_u32() as u16, self.clock.ms());
        if let Err(answer) = self.resolver.ask(name, number, now, asker) {
            self.answered(vec![answer]);
        }
    }

    fn answered(&mut self, answers: Vec<(Asker, Answer)>) {
        for (asker, answer) in answers {
            match asker {
                Asker::Stream { key, serial, port } if self.stream_serials.get(&key) == Some(&serial) => {
                    self.found(key, answer, port);
                }
                Asker::Circuit { key, serial, number } if self.circuit_serials.get(&key) == Some(&serial) => {
                    let answer = match answer {
                        Answer::Address(address) => Resolved::Address(address.into()),
                        Answer::None => Resolved::Error,
                        Answer::Silence => Resolved::TransientError,
                    };
                    self.say(key, message::Command::RESOLVED, number, &message::resolved(&[(answer, TTL_S)]));
                }
                // Nobody waits for it any more.
                _ => {}
            }
        }
    }

    /// A stream's address is found, or not.
    fn found(&mut self, key: usize, answer: Answer, port: u16) {
        let Answer::Address(address) = answer else { return self.fail_stream(key, EndReason::ResolveFailed) };
        if !self.settings.policy.accepts(address, port) {
            let (circuit, number) = (self.streams[key].circuit, self.streams[key].number);
            let body = message::end(EndReason::ExitPolicy, Some((IpAddr::V4(address), TTL_S)));
            self.forget_stream(key);
            return self.say(circuit, message::Command::END, number, &body);
        }
        self.connect_stream(key, SocketAddr::from((address, port)));
    }

    fn connect_stream(&mut self, key: usize, address: SocketAddr) {
        let socket = TcpStream::connect(address);
        let registered = socket.and_then(|mut socket| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut socket, token(STREAM, key), interest)?;
            Ok(socket)
        });
        match registered {
            Ok(socket) => self.streams[key].socket = Some(socket),
            Err(error) => self.fail_stream(key, reason_of(&error)),
        }
    }

    fn stream_ready(&mut self, key: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let Some(socket) = &stream.socket else { return };
        if !stream.is_connected {
            match socket.take_error() {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => return self.fail_stream(key, reason_of(&error)),
            }
            let Ok(peer) = socket.peer_addr() else { return };
            stream.is_connected = true;
            let (circuit, number) = (stream.circuit, stream.number);
            let body = if stream.is_of_directory { Vec::new() } else { message::connected(peer.ip(), TTL_S) };
            self.say(circuit, message::Command::CONNECTED, number, &body);
        }
        self.write_stream(key);
        self.read_stream(key);
    }

    /// Writes what a client has sent, and asks for more.
    fn write_stream(&mut self, key: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if let Err(error) = stream.write() {
            return self.fail_stream(key, reason_of(&error));
        }
        if stream.is_ending {
            if stream.has_written_all() || !stream.is_connected {
                self.drop_stream(key);
            }
            return;
        }
        let (due, circuit, number) = (stream.take_due(), stream.circuit, stream.number);
        for _ in 0..due {
            self.say(circuit, message::Command::SENDME, number, &[]);
        }
    }

    /// Reads what the windows and the circuit's queue have room for.
    fn read_stream(&mut self, key: usize) {
        let mut buffer = [0; BATCH * LONGEST];
        loop {
            let Some(stream) = self.streams.get_mut(key).filter(|stream| !stream.is_ending) else { return };
            let (circuit, number) = (stream.circuit, stream.number);
            let room = self.circuits[circuit].room().min(stream.package as usize).min(BATCH);
            if room == 0 {
                self.circuits[circuit].is_blocked = true;
                return;
            }
            match stream.read(&mut buffer[..room * LONGEST]) {
                Ok(Taken::Bytes(count)) => {
                    for part in buffer[..count].chunks(LONGEST) {
                        self.streams[key].package -= 1;
                        self.say(circuit, message::Command::DATA, number, part);
                        if !self.circuits.contains(circuit) {
                            return;
                        }
                    }
                }
                Ok(Taken::Nothing) => return,
                Ok(Taken::End) => return self.fail_stream(key, EndReason::Done),
                Err(error) => return self.fail_stream(key, reason_of(&error)),
            }
        }
    }

    /// Lets a circuit's streams go on.
    fn resume(&mut self, key: usize) {
        let Some(circuit) = self.circuits.get_mut(key) else { return };
        circuit.is_blocked = false;
        let streams: Vec<usize> = circuit.streams.values().copied().collect();
        for stream in streams {
            self.read_stream(stream);
        }
    }

    /// Ends a stream from this side.
    fn fail_stream(&mut self, key: usize, reason: EndReason) {
        let stream = &self.streams[key];
        let (circuit, number, told) = (stream.circuit, stream.number, stream.is_ending);
        self.forget_stream(key);
        if !told {
            self.end(circuit, number, reason);
        }
    }

    fn forget_stream(&mut self, key: usize) {
        let stream = &self.streams[key];
        let (number, told) = (stream.number, stream.is_ending);
        if let Some(circuit) = self.circuits.get_mut(stream.circuit).filter(|_| !told) {
            circuit.streams.remove(&number);
        }
        self.drop_stream(key);
    }

    fn drop_stream(&mut self, key: usize) {
        let Some(mut stream) = self.streams.try_remove(key) else { return };
        self.stream_serials.remove(&key);
        if let Some(socket) = &mut stream.socket {
            let _ = self.poll.registry().deregister(socket);
        }
    }
}

fn reason_of(error: &io::Error) -> EndReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => EndReason::ConnectRefused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => EndReason::ConnectionReset,
        io::ErrorKind::TimedOut => EndReason::Timeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => EndReason::NoRoute,
        _ => EndReason::Misc,
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
