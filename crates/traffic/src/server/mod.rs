//! The server: one thread, one event loop. A connection costs its socket and a few hundred bytes: content is made when it is
//! sent, in one buffer that all share, and nothing of it is kept.

mod connection;
mod stream;
mod upload;

use crate::clock::{self, Time};
use crate::output::{Line, Output, Totals};
use crate::signals;
use crate::timers::Timers;
use connection::{Connection, Progress};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use slab::Slab;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub const USUAL_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 80);

pub struct Settings {
    pub listen: Vec<SocketAddr>,
    /// A line per request.
    pub log: bool,
    /// Connections are closed on which nothing happens so long; 0 for never.
    pub idle: Duration,
}

/// Reads "ADDRESS:PORT", or a port alone. The error is the remedy.
pub fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port_alone = text.trim_start_matches(':').parse().map(|port: u16| SocketAddr::new(USUAL_ADDRESS.ip(), port));
    let wrong = |_| format!("'{text}' is no address and port; write it like '0.0.0.0:80' or '[::]:8080'");
    text.parse().or(port_alone).map_err(wrong)
}

const SIGNALS: Token = Token(usize::MAX);
/// Listeners have the tokens below.
const FIRST_LISTENER: usize = usize::MAX / 2;

const SCRATCH_BYTES: usize = 32 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A packet of a stream. The number tells connections apart that had the same token.
    Pace { token: usize, number: u64 },
    /// Idle connections are looked for.
    Sweep,
}

struct Server<'a> {
    settings: Settings,
    output: &'a mut Output,
    poll: Poll,
    listeners: Vec<TcpListener>,
    /// Listeners that may have connections waiting although they are not reported again: descriptors had run out.
    blocked: bool,
    connections: Slab<Connection>,
    timers: Timers<Due>,
    sweeping: bool,
    scratch: Vec<u8>,
    turns: Vec<usize>,
    accepted: u64,
    requests: u64,
    bytes: u64,
}

/// Serves until the program is asked to end. The error says why it cannot.
pub fn run(settings: Settings, output: &mut Output) -> io::Result<()> {
    raise_descriptor_limit();
    let poll = Poll::new()?;
    let _signals = signals::register(poll.registry(), SIGNALS)?;
    let mut listeners = Vec::new();
    for (index, address) in settings.listen.iter().enumerate() {
        let mut listener = TcpListener::bind(*address).map_err(|error| explain(*address, &error))?;
        poll.registry().register(&mut listener, Token(FIRST_LISTENER + index), Interest::READABLE)?;
        listeners.push(listener);
    }
    let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok());
    output.line(&Line::Start {
        version: env!("CARGO_PKG_VERSION"),
        behaviours: None,
        seed: None,
        listen: Some(addresses.map(|address| address.to_string()).collect()),
        control: None,
        unix: clock::unix(),
    });
    let mut server = Server {
        settings,
        output,
        poll,
        listeners,
        blocked: false,
        connections: Slab::new(),
        timers: Timers::new(),
        sweeping: false,
        scratch: vec![0; SCRATCH_BYTES],
        turns: Vec::new(),
        accepted: 0,
        requests: 0,
        bytes: 0,
    };
    server.run()?;
    let Server { accepted, requests, bytes, output, .. } = server;
    let some = |number| Some(number);
    output.end(Totals {
        connections: some(accepted),
        requests: some(requests),
        bytes: some(bytes),
        ..Default::default()
    });
    Ok(())
}

fn explain(address: SocketAddr, error: &io::Error) -> io::Error {
    let remedy = match error.kind() {
        ErrorKind::AddrInUse => "; another program listens there, choose another port",
        ErrorKind::PermissionDenied => "; choose a port above 1023, or run as root",
        ErrorKind::AddrNotAvailable => "; this machine does not have the address",
        _ => "",
    };
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}{remedy}"))
}

/// As many connections as the system allows. Without that, the usual number.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

impl Server<'_> {
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        while !self.output.is_closed() {
            let wait = match self.turns.is_empty() {
                true => self.timers.wait(clock::now()),
                false => Some(Duration::ZERO),
            };
            match self.poll.poll(&mut events, wait) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => result?,
            }
            for event in &events {
                match event.token() {
                    SIGNALS => return Ok(()),
                    Token(token) if token >= FIRST_LISTENER => self.accept(token - FIRST_LISTENER)?,
                    Token(token) => self.drive(token),
                }
            }
            for token in std::mem::take(&mut self.turns) {
                self.drive(token);
            }
            let now = clock::now();
            while let Some((_, due)) = self.timers.due(now) {
                match due {
                    Due::Pace { token, number } => {
                        let connection = self.connections.get_mut(token);
                        if let Some(connection) = connection.filter(|connection| connection.number == number) {
                            connection.wake.fired(now);
                            self.drive(token);
                        }
                    }
                    Due::Sweep => self.sweep(now),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        loop {
            let (socket, peer) = match self.listeners[listener].accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The other side was gone before it was accepted (accept(2)).
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(_) => {
                    self.blocked = true;
                    return Ok(());
                }
            };
            self.accepted += 1;
            let entry = self.connections.vacant_entry();
            let token = entry.key();
            let connection = entry.insert(Connection::new(socket, peer, self.accepted, clock::now()));
            if connection.register(self.poll.registry(), Token(token)).is_err() {
                self.connections.remove(token);
            }
            if !self.sweeping && !self.settings.idle.is_zero() {
                self.sweeping = true;
                self.timers.set(clock::now() + self.settings.idle, Due::Sweep);
            }
        }
    }

    fn drive(&mut self, token: usize) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        let number = connection.number;
        let progress = connection.drive(&mut self.scratch);
        let done = std::mem::take(&mut connection.done);
        for request in &done {
            self.requests += 1;
            self.bytes += request.sent;
            if self.settings.log {
                self.output.line(&Line::Request(&request.line(connection.peer)));
            }
        }
        match progress {
            Progress::Connection => {}
            Progress::Turn => self.turns.push(token),
            Progress::Until(at) => {
                if connection.wake.wants(at) {
                    self.timers.set(at, Due::Pace { token, number });
                }
            }
            Progress::Close => self.close(token),
        }
    }

    fn close(&mut self, token: usize) {
        self.connections.remove(token);
        if std::mem::take(&mut self.blocked) {
            for listener in 0..self.listeners.len() {
                // An error would come again with the next connection.
                let _ = self.accept(listener);
            }
        }
    }

    /// Closes connections on which nothing has happened.
    fn sweep(&mut self, now: Time) {
        let idle = self.settings.idle;
        let old: Vec<usize> =
            self.connections.iter().filter(|(_, c)| c.is_idle(now, idle)).map(|(token, _)| token).collect();
        old.into_iter().for_each(|token| self.close(token));
        self.sweeping = !self.connections.is_empty();
        if self.sweeping {
            self.timers.set(now + idle, Due::Sweep);
        }
    }
}
