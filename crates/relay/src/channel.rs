//! A connection to another relay or a client: TLS, the link's handshake, then cells of circuits, which take turns.

use crate::circuit::{Circuit, Side};
use crate::clock::since_1970;
use crate::design::{CircuitScheduler, LinkDesign, Recent, Turns};
use crate::kernel::Sending;
use crate::own::Own;
use crate::tls::BUFFER;
use mio::net::TcpStream;
use onion::cell::{self, BODY, Cell, CircuitId, Command, IdWidth};
use onion::certificates::PeerIdentity;
use onion::link::{EXPORTER, Established, Handshake, Local, Role, Tls};
use rustls::Connection;
use sha2::{Digest, Sha256};
use slab::Slab;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// What a channel does once it is open, for circuits that wait for it.
#[derive(Debug)]
pub struct Waiting {
    pub circuit: usize,
    /// CREATE2's body.
    pub create: Vec<u8>,
}

enum State {
    Tls,
    Link(Box<Handshake>),
    Open,
}

pub struct Channel {
    pub socket: TcpStream,
    session: Connection,
    state: State,
    /// This end opened it, and chooses circuit ids of the upper half.
    pub initiated: bool,
    pub address: SocketAddr,
    /// Whom a circuit asked for.
    pub wanted: Option<PeerWanted>,
    /// Proven.
    pub peer: Option<PeerIdentity>,
    pub circuits: BTreeMap<CircuitId, (usize, Side)>,
    pub waiting: Vec<Waiting>,
    next_id: CircuitId,
    received: Vec<u8>,
    /// Cells of the link itself, which go before those of circuits.
    first: Vec<u8>,
    /// Circuits with cells for this channel, in the order of their turns.
    active: Turns,
    /// What was agreed with the other end.
    pub design: LinkDesign,
}

/// Who must be at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWanted {
    pub fingerprint: [u8; 20],
    pub ed25519: Option<[u8; 32]>,
}

impl PeerWanted {
    pub fn is(&self, peer: &PeerIdentity) -> bool {
        self.fingerprint == peer.rsa_fingerprint && self.ed25519.is_none_or(|ed25519| ed25519 == peer.ed25519)
    }
}

/// A cell that came for a circuit.
#[derive(Clone, Debug)]
pub struct Came {
    pub circuit: CircuitId,
    pub command: Command,
    pub body: Box<[u8; BODY]>,
}

/// What reading brought.
#[derive(Debug, Default)]
pub struct News {
    pub opened: bool,
    pub cells: Vec<Came>,
    /// Why it is over.
    pub end: Option<String>,
}

/// Circuit ids that the initiator of a channel takes.
const UPPER_HALF: CircuitId = 1 << 31;

/// Bytes of a cell and of its part of TLS, as tor's KIST counts them.
const CELL_ON_THE_WIRE: usize = cell::CELL + 29;

impl Channel {
    pub fn new(
        socket: TcpStream,
        session: Connection,
        address: SocketAddr,
        wanted: Option<PeerWanted>,
        scheduler: CircuitScheduler,
    ) -> Channel {
        Channel {
            socket,
            session,
            state: State::Tls,
            initiated: wanted.is_some(),
            address,
            wanted,
            peer: None,
            circuits: BTreeMap::new(),
            waiting: Vec::new(),
            next_id: 1,
            received: Vec::new(),
            first: Vec::new(),
            active: Turns::new(scheduler),
            design: LinkDesign::Vanilla,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// An id that no circuit has; nothing if all are taken.
    pub fn fresh_id(&mut self) -> Option<CircuitId> {
        let half = if self.initiated { UPPER_HALF } else { 0 };
        for _ in 0..=self.circuits.len() {
            let id = half | self.next_id;
            self.next_id = (self.next_id + 1) % UPPER_HALF;
            self.next_id = self.next_id.max(1);
            if !self.circuits.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    /// Whether the other end may choose this id.
    pub fn is_theirs(&self, id: CircuitId) -> bool {
        id != 0 && (id & UPPER_HALF != 0) != self.initiated
    }

    /// Puts a cell before those of circuits.
    pub fn send(&mut self, circuit: CircuitId, command: Command, body: &[u8]) {
        cell::put(&mut self.first, IdWidth::Four, Cell { circuit, command, body });
    }

    /// A circuit has cells for this channel.
    pub fn activate(&mut self, circuit: usize, side: Side, recent: Recent) {
        self.active.add((circuit, side), recent);
    }

    /// Nothing waits for the socket.
    pub fn has_written_all(&self) -> bool {
        self.first.is_empty() && !self.session.wants_write()
    }

    /// Reads all that has come.
    pub fn read(&mut self, own: &Own, random: [u8; 32]) -> News {
        let mut news = News::default();
        loop {
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => {
                    news.end = Some("closed by its peer".to_owned());
                    break;
                }
                Ok(_) => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::NotConnected =>
                {
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    news.end = Some(error.to_string());
                    break;
                }
            }
            if let Err(error) = self.session.process_new_packets() {
                news.end = Some(format!("TLS: {error}"));
                break;
            }
            if let Err(error) = self.take_plain() {
                news.end = Some(error.to_string());
                break;
            }
            if let Err(error) = self.advance(own, random, &mut news) {
                news.end = Some(error);
                break;
            }
        }
        news
    }

    fn take_plain(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            match self.session.reader().read(&mut buffer) {
                // The end of TLS: the socket's follows.
                Ok(0) => return Ok(()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn advance(&mut self, own: &Own, random: [u8; 32], news: &mut News) -> Result<(), String> {
        if matches!(self.state, State::Tls) && !self.session.is_handshaking() {
            let role = if self.initiated { Role::Initiator { authenticates: true } } else { Role::Responder };
            let handshake =
                Handshake::begin(role, &own.local(&|bytes| own.keys.authenticate(bytes)), random, &mut self.first);
            self.state = State::Link(Box::new(handshake));
        }
        if let State::Link(handshake) = &mut self.state {
            let certificate = if self.initiated {
                let shown = self
                    .session
                    .peer_certificates()
                    .and_then(|chain| chain.first())
                    .ok_or("a peer without certificate")?;
                Sha256::digest(shown).into()
            } else {
                own.tls_digest
            };
            let session = &self.session;
            let export = |identity: &[u8; 32]| {
                session
                    .export_keying_material([0; 32], EXPORTER, Some(identity))
                    .expect("a session whose handshake is over")
            };
            let tls = Tls { certificate, export: &export, peer: self.address.ip() };
            let sign = |bytes: &[u8]| own.keys.authenticate(bytes);
            let local: Local<'_> = own.local(&sign);
            let now_s = since_1970().as_secs();
            let end = handshake
                .receive(&mut self.received, &local, &tls, now_s, &mut self.first)
                .map_err(|error| error.to_string())?;
            if let Some(Established { peer, design, .. }) = end {
                if self.wanted.is_some_and(|wanted| !peer.is_some_and(|peer| wanted.is(&peer))) {
                    return Err("another relay than was asked for".to_owned());
                }
                self.peer = peer;
                self.design = LinkDesign::agreed(design);
                self.state = State::Open;
                news.opened = true;
            }
        }
        if self.is_open() {
            self.take_cells(news)?;
        }
        Ok(())
    }

    fn take_cells(&mut self, news: &mut News) -> Result<(), String> {
        let mut taken = 0;
        loop {
            match cell::take(&self.received[taken..], IdWidth::Four) {
                Ok(Some((cell, length))) => {
                    taken += length;
                    if let (Ok(body), true) = (cell.body.try_into(), cell.circuit != 0) {
                        news.cells.push(Came { circuit: cell.circuit, command: cell.command, body: Box::new(body) });
                    }
                }
                Ok(None) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        self.received.drain(..taken);
        Ok(())
    }

    /// Hands TLS's bytes to the socket; whether it took them all.
    fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::NotConnected =>
                {
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Puts the next circuit's cell behind what is to go first; whether there was one. A circuit whose queue has become short is added
    /// to `drained`.
    pub fn take_turn(
        &mut self,
        own_key: usize,
        now_ms: u64,
        circuits: &mut Slab<Circuit>,
        drained: &mut Vec<usize>,
    ) -> bool {
        while let Some((key, side)) = self.active.next() {
            // A circuit that has gone leaves its turns behind, and another may have its place.
            let Some(circuit) = circuits.get_mut(key) else { continue };
            let Some((_, id)) = circuit.end_at(side).filter(|(channel, _)| *channel == own_key) else { continue };
            let queue = circuit.queue(side);
            let Some(queued) = queue.cells.pop_front() else {
                queue.is_active = false;
                continue;
            };
            let cell = Cell { circuit: id, command: queued.command, body: &queued.body[..] };
            cell::put(&mut self.first, IdWidth::Four, cell);
            queue.recent.add_cell(now_ms);
            if queue.cells.is_empty() {
                queue.is_active = false;
            } else {
                let recent = queue.recent;
                self.active.add((key, side), recent);
            }
            if side == Side::Client && circuit.is_to_resume() {
                drained.push(key);
            }
            return true;
        }
        false
    }

    /// Writes until the socket takes no more, with cells of circuits if `with_circuits`; circuits whose queues have become short are
    /// added to `drained`.
    pub fn write(
        &mut self,
        own_key: usize,
        with_circuits: bool,
        now_ms: u64,
        circuits: &mut Slab<Circuit>,
        drained: &mut Vec<usize>,
    ) -> io::Result<()> {
        loop {
            if !self.flush()? || matches!(self.state, State::Tls) {
                return Ok(());
            }
            while with_circuits && self.is_open() && self.first.len() < BUFFER {
                if !self.take_turn(own_key, now_ms, circuits, drained) {
                    break;
                }
            }
            if self.first.is_empty() {
                return Ok(());
            }
            // What TLS does not take now goes the next time.
            let mut taken = 0;
            while taken < self.first.len() {
                match self.session.writer().write(&self.first[taken..])? {
                    0 => break,
                    count => taken += count,
                }
            }
            self.first.drain(..taken);
        }
    }

    /// Circuits may have cells for it, and it can take them.
    pub fn is_pending(&self) -> bool {
        self.is_open() && !self.active.is_empty()
    }

    /// Whose turn is next has sent this much.
    pub fn next_recent(&self) -> Recent {
        self.active.next_recent()
    }

    /// Cells that may be handed to the kernel now: none while it has not taken what was handed to it before.
    pub fn kist_allowance(&self) -> usize {
        if !self.has_written_all() {
            return 0;
        }
        // A kernel that does not tell gets what it takes.
        Sending::of(self.socket.as_fd()).map_or(usize::MAX, |sending| sending.limit() as usize / CELL_ON_THE_WIRE)
    }
}
