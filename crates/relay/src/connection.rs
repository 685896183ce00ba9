//! A connection to another relay or a client: TLS, the link's handshake, then cells.

use crate::clock::since_1970;
use crate::design::{CircuitScheduler, KistFormula, LinkDesign, Recent, Turns};
use crate::kernel::{self, Sending};
use crate::layer::Layer;
use crate::own::Own;
use crate::tls::{self, BUFFER, Session};
use mio::net::TcpStream;
use onion::cell::{self, BODY, Cell, CircuitId, Command, IdWidth};
use onion::certificates::PeerIdentity;
use onion::link::association::{self, ANSWER, TOKEN};
use onion::link::{EXPORTER, Established, Handshake, Local, Role, Tls, private};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

enum State {
    /// TLS begins, if it is not a token that comes.
    Fresh,
    Tls,
    Link(Box<Handshake>),
    /// A token says whose it is.
    Token,
    Open,
}

pub struct Connection {
    pub socket: TcpStream,
    layer: Layer,
    state: State,
    /// What has to come first on a connection that this end opened by a token.
    answer: Option<Box<[u8; ANSWER]>>,
    /// This end opened it.
    pub initiated: bool,
    pub address: SocketAddr,
    /// Whom a circuit asked for.
    pub wanted: Option<PeerWanted>,
    /// Proven.
    pub peer: Option<PeerIdentity>,
    /// What was agreed with the other end.
    pub design: LinkDesign,
    /// The channel that it belongs to, once that is known.
    pub channel: Option<usize>,
    /// Circuits that have cells for this connection alone, in the order of their turns.
    pub lane: Turns,
    /// Cells of circuits that it was given of late, and when the last.
    pub recent: Recent,
    pub last_used_ms: u64,
    pub closing: Closing,
    /// One more of a channel that has others already: the other end has not yet said anything on it, and may still give it up, so nothing
    /// that must not be lost is put on it.
    pub awaits_answer: bool,
    /// Rises with each connection of the relay.
    pub serial: u64,
    received: Vec<u8>,
    /// Cells that are not yet TLS's.
    out: Vec<u8>,
    /// The socket took less than there was.
    is_blocked: bool,
}

/// How far two ends have got in closing one connection of a channel that goes on (IMUX, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// This end has said CLOSING_CONN_BEGIN; the other has answered.
    pub has_begun: bool,
    pub was_answered: bool,
    /// The other end has said it, and was answered.
    pub was_asked: bool,
}

impl Closing {
    /// Nothing may be put on the connection any more.
    pub fn is_closing(self) -> bool {
        self.has_begun || self.was_asked
    }

    /// Nothing more will come.
    fn is_over(self) -> bool {
        self.is_closing() && (self.was_answered || !self.has_begun)
    }
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

/// A cell that came; of the connection itself if its circuit is 0.
#[derive(Clone, Debug)]
pub struct Came {
    pub circuit: CircuitId,
    pub command: Command,
    /// Where several connections make a channel.
    pub number: Option<u64>,
    pub body: Box<[u8; BODY]>,
}

/// What reading brought.
#[derive(Debug, Default)]
pub struct News {
    pub opened: bool,
    /// A token was answered.
    pub answered: bool,
    /// A token came, which somebody has to look at before anything else is read.
    pub token: Option<Box<[u8; TOKEN]>>,
    pub cells: Vec<Came>,
    /// Why it is over.
    pub end: Option<String>,
}

/// Bytes of a record of TLS, at most: as many as a chunk of tor's buffers holds. With more, a peer would have to wait for more of them before
/// it can read the first; and where a write ends decides what Nagle's rule holds back.
const RECORD: usize = 4056;

/// Bytes of a cell and of its part of TLS, as tor's KIST counts them.
pub const CELL_ON_THE_WIRE: usize = cell::CELL + 29;

/// Frees a buffer that holds nothing any more: most connections are idle at a time, and a relay may have thousands.
fn give_back(buffer: &mut Vec<u8>) {
    if buffer.is_empty() {
        *buffer = Vec::new();
    }
}

impl Connection {
    pub fn new(
        socket: TcpStream,
        session: Session,
        address: SocketAddr,
        wanted: Option<PeerWanted>,
        scheduler: CircuitScheduler,
    ) -> Connection {
        Connection::of(Layer::Tls(session), socket, address, wanted, scheduler)
    }

    fn of(
        layer: Layer,
        socket: TcpStream,
        address: SocketAddr,
        wanted: Option<PeerWanted>,
        scheduler: CircuitScheduler,
    ) -> Connection {
        Connection {
            socket,
            layer,
            state: State::Tls,
            answer: None,
            initiated: wanted.is_some(),
            address,
            wanted,
            peer: None,
            design: LinkDesign::Vanilla,
            channel: None,
            lane: Turns::new(scheduler),
            recent: Recent::default(),
            last_used_ms: 0,
            closing: Closing::default(),
            awaits_answer: false,
            serial: 0,
            received: Vec::new(),
            out: Vec::new(),
            is_blocked: false,
        }
    }

    /// The same, of one that may begin with a token in place of TLS.
    pub fn of_either_kind(
        socket: TcpStream,
        session: Session,
        address: SocketAddr,
        scheduler: CircuitScheduler,
    ) -> Connection {
        Connection { state: State::Fresh, ..Connection::new(socket, session, address, None, scheduler) }
    }

    /// A connection that this end opens to a relay with which it has an association, and that can be used at once.
    pub fn with_token(
        socket: TcpStream,
        address: SocketAddr,
        peer: PeerIdentity,
        (token, answer): ([u8; TOKEN], [u8; ANSWER]),
        scheduler: CircuitScheduler,
    ) -> Connection {
        Connection {
            state: State::Open,
            answer: Some(Box::new(answer)),
            initiated: true,
            peer: Some(peer),
            design: LinkDesign::PctcpIpsec,
            ..Connection::of(Layer::plain(&token), socket, address, None, scheduler)
        }
    }

    /// A token that came is good.
    pub fn accept(&mut self, peer: PeerIdentity, answer: &[u8; ANSWER]) -> io::Result<()> {
        (self.peer, self.design, self.state) = (Some(peer), LinkDesign::PctcpIpsec, State::Open);
        self.layer.seal(answer)
    }

    /// Of an open connection with TLS: bytes that both ends can derive and nobody else.
    pub fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]> {
        self.layer.session()?.export(label, context)
    }

    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Open)
    }

    /// Cells of circuits may be put on it.
    pub fn is_usable(&self) -> bool {
        self.is_open() && !self.closing.is_closing() && !self.awaits_answer
    }

    /// It is closed by agreement, and all is said.
    pub fn is_closed(&self) -> bool {
        self.closing.is_over() && self.has_written_all()
    }

    /// Puts a cell behind what is to be written.
    pub fn put(&mut self, circuit: CircuitId, command: Command, number: Option<u64>, body: &[u8]) {
        match number {
            Some(number) => private::put(&mut self.out, circuit, command, number, body),
            None => cell::put(&mut self.out, IdWidth::Four, Cell { circuit, command, body }),
        }
    }

    /// Nothing waits for the socket.
    pub fn has_written_all(&self) -> bool {
        self.out.is_empty() && !self.layer.wants_write()
    }

    /// Bytes of cells that are not yet TLS's.
    pub fn buffered(&self) -> usize {
        self.out.len()
    }

    /// Another cell would not wait behind more than a buffer's.
    pub fn has_room(&self) -> bool {
        self.is_usable() && !self.is_blocked && self.out.len() < BUFFER
    }

    /// Reads all that has come.
    pub fn read(&mut self, own: &Own, random: [u8; 32]) -> News {
        let mut news = News::default();
        if self.is_open()
            && let Err(error) = self.take_cells(&mut news)
        {
            // They came behind a token.
            news.end = Some(error);
            return news;
        }
        loop {
            if matches!(self.state, State::Fresh) && !self.begins() {
                break;
            }
            match self.layer.read(&mut self.socket, &mut self.received) {
                Ok(0) => {
                    news.end = Some("closed by its peer".to_owned());
                    break;
                }
                Ok(_) => {}
                Err(error) if tls::is_later(&error) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    news.end = Some(error.to_string());
                    break;
                }
            }
            if let Err(error) = self.advance(own, random, &mut news) {
                news.end = Some(error);
                break;
            }
            if news.token.is_some() {
                break;
            }
        }
        news
    }

    /// Whether the first byte has come, by which a token is known.
    fn begins(&mut self) -> bool {
        let mut first = [0];
        match self.socket.peek(&mut first) {
            Ok(1) if first[0] == association::FIRST => (self.layer, self.state) = (Layer::plain(&[]), State::Token),
            Err(error) if tls::is_later(&error) => return false,
            // What it is, TLS will say.
            _ => self.state = State::Tls,
        }
        true
    }

    fn advance(&mut self, own: &Own, random: [u8; 32], news: &mut News) -> Result<(), String> {
        if matches!(self.state, State::Token)
            && let Some((token, rest)) = self.received.split_first_chunk()
        {
            news.token = Some(Box::new(*token));
            self.received = rest.to_vec();
        }
        if let Layer::Tls(session) = &self.layer
            && matches!(self.state, State::Tls)
            && !session.is_handshaking()
        {
            let is_quick = session.is_quick();
            let role = if self.initiated { Role::Initiator { authenticates: true } } else { Role::Responder };
            let handshake = Handshake::begin(
                role,
                &own.local(is_quick, &|bytes| own.keys.authenticate(bytes)),
                random,
                &mut self.out,
            );
            self.state = State::Link(Box::new(handshake));
        }
        if let (State::Link(handshake), Layer::Tls(session)) = (&mut self.state, &self.layer) {
            let is_quick = session.is_quick();
            let certificate = if self.initiated {
                session.shown_digest().ok_or("a peer without certificate")?
            } else {
                own.tls_digest(is_quick)
            };
            let export =
                |identity: &[u8; 32]| session.export(EXPORTER, identity).expect("a session whose handshake is over");
            let tls = Tls { certificate, export: &export, peer: self.address.ip() };
            let sign = |bytes: &[u8]| own.keys.authenticate(bytes);
            let local: Local<'_> = own.local(is_quick, &sign);
            let now_s = since_1970().as_secs();
            let end = handshake
                .receive(&mut self.received, &local, &tls, now_s, &mut self.out)
                .map_err(|error| error.to_string())?;
            if let Some(Established { peer, design, .. }) = end {
                if self.wanted.is_some_and(|wanted| !peer.is_some_and(|peer| wanted.is(&peer))) {
                    return Err("another relay than was asked for".to_owned());
                }
                self.peer = peer;
                // Who has not proven to be a relay is a client, whatever it offers.
                self.design = if peer.is_some() { LinkDesign::agreed(design) } else { LinkDesign::Vanilla };
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
        if let Some(answer) = &self.answer {
            let Some(came) = self.received.first_chunk::<ANSWER>() else { return Ok(()) };
            if *came != **answer {
                return Err("another relay than the token was for".to_owned());
            }
            (self.answer, news.answered, taken) = (None, true, ANSWER);
        }
        loop {
            let bytes = &self.received[taken..];
            let next = if self.design.is_numbered() {
                private::take(bytes)
            } else {
                cell::take(bytes, IdWidth::Four).map(|next| next.map(|(cell, length)| (cell, None, length)))
            };
            let Some((cell, number, length)) = next.map_err(|error| error.to_string())? else { break };
            taken += length;
            // What tor says of a link in cells of other lengths changes nothing here.
            if let Ok(body) = cell.body.try_into() {
                news.cells.push(Came { circuit: cell.circuit, command: cell.command, number, body: Box::new(body) });
            }
        }
        self.received.drain(..taken);
        give_back(&mut self.received);
        Ok(())
    }

    /// Hands what there is to TLS and the socket; whether they took it all.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.is_blocked = false;
        loop {
            if !self.layer.flush(&mut self.socket)? {
                self.is_blocked = true;
                return Ok(false);
            }
            if self.out.is_empty() || matches!(self.state, State::Fresh | State::Tls | State::Token) {
                return Ok(true);
            }
            // Each record is written by itself.
            let taken = self.out.len().min(RECORD);
            self.layer.seal(&self.out[..taken])?;
            self.out.drain(..taken);
            give_back(&mut self.out);
        }
    }

    /// Cells that may be handed to the kernel now: none while it has not taken what was handed to it before.
    pub fn kist_allowance(&self, formula: KistFormula) -> usize {
        if !self.has_written_all() {
            return 0;
        }
        self.kist_limit(formula)
    }

    /// Cells that KIST would give the kernel, were it to take them. A kernel that does not tell gets what it takes.
    pub fn kist_limit(&self, formula: KistFormula) -> usize {
        let limit = match formula {
            KistFormula::Of2014 => kernel::limit_2014(self.socket.as_fd()),
            KistFormula::Of2018 => Sending::of(self.socket.as_fd()).map(Sending::limit),
        };
        limit.map_or(usize::MAX, |limit| limit as usize / CELL_ON_THE_WIRE)
    }

    /// Segments that the kernel has sent again.
    pub fn retransmissions(&self) -> u64 {
        kernel::retransmitted(self.socket.as_fd()).map_or(0, u64::from)
    }

    /// Bytes that wait here and in the kernel, unsent or unacknowledged (SIOCOUTQ).
    pub fn queue_bytes(&self) -> usize {
        self.out.len() + kernel::queued(self.socket.as_fd()).unwrap_or_default()
    }
}
