//! A connection to a control port inside an event loop: it connects, tries again when tor is not there yet, and hands out events.

use crate::clock::{self, Time};
use crate::config::Peer;
use crate::control::{Control, Event};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::time::Duration;

/// The pause before another attempt to connect.
const RETRY: Duration = Duration::from_secs(1);

pub struct ControlLink {
    peer: Peer,
    password: Option<String>,
    events: String,
    token: Token,
    open: Option<(TcpStream, Control)>,
    outbox: Vec<u8>,
    /// Why there is no connection.
    pub trouble: Option<String>,
    /// Whether tor has ever sent what was asked for.
    pub was_ready: bool,
}

impl ControlLink {
    /// `events` are names with spaces between them.
    pub fn new(peer: Peer, password: Option<String>, events: String, token: Token) -> Self {
        ControlLink { peer, password, events, token, open: None, outbox: Vec::new(), trouble: None, was_ready: false }
    }

    /// Begins to connect. Returns when to call this again if that failed at once.
    pub fn connect(&mut self, registry: &Registry) -> Option<Time> {
        let opened = (|| {
            let peer = (self.peer.host.as_str(), self.peer.port);
            let address = peer.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
            let mut socket = TcpStream::connect(address)?;
            registry.register(&mut socket, self.token, Interest::READABLE | Interest::WRITABLE)?;
            Ok::<_, io::Error>(socket)
        })();
        match opened {
            Ok(socket) => {
                let (hello, control) = Control::begin(self.events.clone(), self.password.clone());
                self.outbox = hello.into_bytes();
                self.open = Some((socket, control));
                None
            }
            Err(error) => Some(self.lost(error.to_string())),
        }
    }

    fn lost(&mut self, why: String) -> Time {
        self.open = None;
        self.trouble = Some(why);
        clock::now() + RETRY
    }

    /// Says something once events come; it leaves with the next [`ControlLink::drive`].
    pub fn send(&mut self, text: &str) {
        if self.open.as_ref().is_some_and(|(_, control)| control.is_ready()) {
            self.outbox.extend_from_slice(text.as_bytes());
        }
    }

    /// Does what can be done and appends events. Returns when to connect again if the connection is gone.
    pub fn drive(&mut self, scratch: &mut [u8], events: &mut Vec<Event>) -> Option<Time> {
        match self.exchange(scratch, events) {
            Ok(()) => None,
            Err(why) => Some(self.lost(why)),
        }
    }

    fn exchange(&mut self, scratch: &mut [u8], events: &mut Vec<Event>) -> Result<(), String> {
        let Some((socket, control)) = &mut self.open else { return Ok(()) };
        let text = |error: io::Error| error.to_string();
        let blocks = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
        };
        if let Some(error) = socket.take_error().map_err(text)? {
            return Err(error.to_string());
        }
        loop {
            while !self.outbox.is_empty() {
                match socket.write(&self.outbox) {
                    Ok(length) => drop(self.outbox.drain(..length)),
                    Err(error) if blocks(&error) => return Ok(()),
                    Err(error) => return Err(error.to_string()),
                }
            }
            let length = match socket.read(scratch) {
                Ok(0) => return Err("tor closed the control connection".into()),
                Ok(length) => length,
                Err(error) if blocks(&error) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let mut send = String::new();
            control.arrived(&scratch[..length], &mut send, events)?;
            self.outbox.extend_from_slice(send.as_bytes());
            self.was_ready |= control.is_ready();
        }
    }
}
