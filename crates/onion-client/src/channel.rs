//! A connection to a relay: perhaps through a proxy, TLS, the link's handshake, then cells.

use crate::circuit::Hop;
use mio::net::TcpStream;
use onion::cell::{self, Cell, CircuitId, Command, IdWidth};
use onion::certificates::{PeerIdentity, Verified};
use onion::link::{EXPORTER, Established, Handshake, Local, Role, Tls};
use onion_program::clock::since_1970;
use onion_program::tls::{BUFFER, Session, is_later};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddrV4;

enum State {
    /// What has come of the proxy's answers, and how many of its two are there.
    Proxy {
        came: Vec<u8>,
        greeted: bool,
    },
    Tls,
    Link(Box<Handshake>),
    Open,
}

pub struct Channel {
    pub socket: TcpStream,
    session: Session,
    state: State,
    pub address: SocketAddrV4,
    /// Who must be at the other end.
    pub fingerprint: [u8; 20],
    ed25519: Option<[u8; 32]>,
    pub circuits: BTreeMap<CircuitId, u64>,
    /// Circuits that begin once it is open.
    pub waiting: Vec<u64>,
    /// When its last circuit left.
    pub idle_ms: u64,
    next_id: CircuitId,
    received: Vec<u8>,
    out: Vec<u8>,
    /// How much of it TLS has: an attack's end leaves so much that its rest is not moved for each record.
    out_taken: usize,
    /// For the proxy, before TLS.
    plain: Vec<u8>,
}

/// What reading brought.
#[derive(Debug, Default)]
pub struct News {
    pub opened: bool,
    /// Whole cells, one behind the other.
    pub cells: Vec<u8>,
    /// Nothing more is there for now.
    pub is_dry: bool,
    /// Why it is over.
    pub end: Option<String>,
}

/// Circuit ids that the initiator of a channel takes.
const UPPER_HALF: CircuitId = 1 << 31;

/// Bytes that wait for TLS above which streams are read no more.
const HIGH: usize = 32 * cell::CELL;

impl Channel {
    /// With `through_proxy`, `socket` goes to a proxy that is to connect to the relay.
    pub fn new(socket: TcpStream, session: Session, hop: &Hop, through_proxy: bool) -> Channel {
        let (state, plain) = match through_proxy {
            // RFC 1928, without authentication.
            true => (State::Proxy { came: Vec::new(), greeted: false }, vec![5, 1, 0]),
            false => (State::Tls, Vec::new()),
        };
        Channel {
            socket,
            session,
            state,
            address: hop.address,
            fingerprint: hop.fingerprint,
            ed25519: hop.ed25519,
            circuits: BTreeMap::new(),
            waiting: Vec::new(),
            idle_ms: 0,
            next_id: 1,
            received: Vec::new(),
            out: Vec::new(),
            out_taken: 0,
            plain,
        }
    }

    /// Whether it leads, or will lead, to this relay.
    pub fn is_to(&self, hop: &Hop) -> bool {
        self.fingerprint == hop.fingerprint && (hop.ed25519.is_none() || self.ed25519 == hop.ed25519)
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// An id that no circuit has; nothing if all are taken.
    pub fn fresh_id(&mut self) -> Option<CircuitId> {
        for _ in 0..=self.circuits.len() {
            let id = UPPER_HALF | self.next_id;
            self.next_id = (self.next_id + 1) % UPPER_HALF;
            self.next_id = self.next_id.max(1);
            if !self.circuits.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }

    pub fn send(&mut self, circuit: CircuitId, command: Command, body: &[u8]) {
        cell::put(&mut self.out, IdWidth::Four, Cell { circuit, command, body });
    }

    /// Cells that streams may add now.
    pub fn room(&self) -> usize {
        HIGH.saturating_sub(self.out.len() - self.out_taken) / cell::CELL
    }

    /// Reads some of what has come, and is to be called again until nothing is there.
    pub fn read(&mut self, random: [u8; 32], verified: &RefCell<Verified>) -> News {
        let mut news = News::default();
        if let Err(why) = self.read_some(random, verified, &mut news) {
            news.end = Some(why);
        }
        news
    }

    fn read_some(&mut self, random: [u8; 32], verified: &RefCell<Verified>, news: &mut News) -> Result<(), String> {
        if let State::Proxy { .. } = self.state {
            if !self.read_proxy()? {
                news.is_dry = true;
                return Ok(());
            }
            self.state = State::Tls;
        }
        match self.session.read(&mut self.socket, &mut self.received) {
            Ok(0) => return Err("closed by its peer".to_owned()),
            Ok(_) => {}
            Err(error) if is_later(&error) => news.is_dry = true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
        self.advance(random, verified, news)?;
        if self.is_open() {
            news.cells = self.take_cells()?;
        }
        Ok(())
    }

    /// Whether the proxy has let it through.
    fn read_proxy(&mut self) -> Result<bool, String> {
        let State::Proxy { came, greeted } = &mut self.state else { return Ok(true) };
        loop {
            // Not beyond its answer: TLS follows.
            let wanted = if *greeted { 10 } else { 2 };
            let mut buffer = [0; 10];
            match self.socket.read(&mut buffer[..wanted - came.len()]) {
                Ok(0) => return Err("the proxy has closed the connection".to_owned()),
                Ok(count) => came.extend_from_slice(&buffer[..count]),
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
            if came.len() < wanted {
                continue;
            }
            if came[1] != 0 {
                return Err(format!("the proxy refuses, with code {}", came[1]));
            }
            if *greeted {
                return Ok(true);
            }
            *greeted = true;
            came.clear();
            self.plain.extend_from_slice(&[5, 1, 0, 1]);
            self.plain.extend_from_slice(&self.address.ip().octets());
            self.plain.extend_from_slice(&self.address.port().to_be_bytes());
        }
    }

    fn advance(&mut self, random: [u8; 32], verified: &RefCell<Verified>, news: &mut News) -> Result<(), String> {
        let nobody = PeerIdentity { rsa_fingerprint: [0; 20], rsa_digest: [0; 32], ed25519: [0; 32] };
        // Clients say nothing of themselves, and sign nothing.
        let local = Local {
            identity: &nobody,
            responder_certificates: &[],
            initiator_certificates: &[],
            sign: &|_| [0; 64],
            addresses: &[],
            designs: &[],
            verified,
        };
        if matches!(self.state, State::Tls) && !self.session.is_handshaking() {
            let role = Role::Initiator { authenticates: false };
            self.state = State::Link(Box::new(Handshake::begin(role, &local, random, &mut self.out)));
        }
        let State::Link(handshake) = &mut self.state else { return Ok(()) };
        let certificate = self.session.shown_digest().ok_or("a peer without certificate")?;
        let session = &self.session;
        let export =
            |identity: &[u8; 32]| session.export(EXPORTER, identity).expect("a session whose handshake is over");
        let peer = (*self.address.ip()).into();
        let tls = Tls { certificate, export: &export, peer };
        let now_s = since_1970().as_secs();
        let end = handshake.receive(&mut self.received, &local, &tls, now_s, &mut self.out);
        if let Some(Established { peer, .. }) = end.map_err(|error| error.to_string())? {
            let is_wanted = |peer: &PeerIdentity| {
                peer.rsa_fingerprint == self.fingerprint && self.ed25519.is_none_or(|ed25519| ed25519 == peer.ed25519)
            };
            let peer = peer.filter(is_wanted).ok_or("another relay than was asked for")?;
            self.ed25519 = Some(peer.ed25519);
            self.state = State::Open;
            news.opened = true;
        }
        Ok(())
    }

    /// All cells that are whole.
    fn take_cells(&mut self) -> Result<Vec<u8>, String> {
        let mut end = 0;
        while let Some((_, length)) =
            cell::take(&self.received[end..], IdWidth::Four).map_err(|error| error.to_string())?
        {
            end += length;
        }
        if end == 0 {
            return Ok(Vec::new());
        }
        let rest = self.received.split_off(end);
        Ok(std::mem::replace(&mut self.received, rest))
    }

    /// Writes until the socket takes no more.
    pub fn write(&mut self) -> io::Result<()> {
        while !self.plain.is_empty() {
            match self.socket.write(&self.plain) {
                Ok(count) => drop(self.plain.drain(..count)),
                Err(error) if is_later(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        loop {
            if matches!(self.state, State::Proxy { .. })
                || !self.session.flush(&mut self.socket)?
                || matches!(self.state, State::Tls)
            {
                return Ok(());
            }
            let rest = &self.out[self.out_taken..];
            if rest.is_empty() {
                self.out_taken = 0;
                self.out.clear();
                // A burst's room is given back.
                if self.out.capacity() > HIGH {
                    self.out = Vec::new();
                }
                return Ok(());
            }
            let record = rest.len().min(BUFFER);
            self.session.seal(&rest[..record])?;
            self.out_taken += record;
            if self.out_taken >= HIGH && self.out_taken >= self.out.len() / 2 {
                self.out.drain(..self.out_taken);
                self.out_taken = 0;
            }
        }
    }
}
