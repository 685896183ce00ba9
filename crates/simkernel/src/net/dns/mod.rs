//! The resolver that `/etc/resolv.conf` names: 127.0.0.53, part of the host's simulated kernel as systemd-resolved is part of a host.
//!
//! It answers over UDP and TCP, inside the call that carried the question, and takes no simulated time; question and answer are
//! packets of the loopback interface like others. It knows the experiment's hosts (`names`), which all hosts share, and keeps
//! nothing of its own but what TCP connections have sent so far. Called by `Kernel::settle_sockets` alone.
//!
//! The few parts of DNS's format that this needs are in `wire`, rather than from a library: one that can repeat any question, unknown
//! types included, costs more build time than this crate.

mod answer;
mod names;
mod wire;

pub use answer::{Carrier, answer};
pub use names::NameTable;

use base::SimTime;
use bytes::{Buf, Bytes};
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpip::{SendFlags, SocketError, SocketId, Stack};

/// Where the resolver listens, as systemd-resolved does.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);
const PORT: u16 = 53;

/// How much of a stream is read at once, in bytes.
const CHUNK: usize = 4096;

/// One host's resolver.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    sessions: Vec<Session>,
}

impl Resolver {
    /// Takes the resolver's endpoint in a new stack.
    pub fn new(stack: &mut Stack) -> Self {
        stack.serve(SocketAddrV4::new(ADDRESS, PORT));
        Resolver::default()
    }

    /// Answers every datagram that has arrived.
    pub fn answer_datagrams(&mut self, stack: &mut Stack, names: &NameTable) {
        while let Some((from, question)) = stack.take_request() {
            if let Some(answer) = answer(names, &question, Carrier::Udp) {
                stack.respond(from, answer.into());
            }
        }
    }

    /// Something happened to a socket that is no program's: goes on with its connection if it is the resolver's.
    pub fn go_on(&mut self, stack: &mut Stack, names: &NameTable, now: SimTime, id: SocketId) {
        if stack.is_service(id) {
            while let Ok(accepted) = stack.accept(id) {
                let mut session = Session { id: accepted, input: Vec::new(), output: Bytes::new() };
                if session.go_on(stack, names, now) {
                    self.sessions.push(session);
                }
            }
        } else if let Some(place) = self.sessions.iter().position(|session| session.id == id)
            && !self.sessions[place].go_on(stack, names, now)
        {
            self.sessions.swap_remove(place);
        }
    }
}

/// A connection: questions and answers, each behind its length in two bytes (RFC 1035 section 4.2.2), answered in order. It lasts
/// until the program closes it.
#[derive(Debug)]
struct Session {
    id: SocketId,
    /// What has been read and not answered.
    input: Vec<u8>,
    /// What the connection had no room for yet. Nothing is read meanwhile.
    output: Bytes,
}

impl Session {
    /// Answers what there is; false when the connection is over, and closed.
    fn go_on(&mut self, stack: &mut Stack, names: &NameTable, now: SimTime) -> bool {
        let goes_on = loop {
            let moved = match self.next_answer(names) {
                Some(()) => self.write(stack, now),
                None => self.read(stack, now),
            };
            match moved {
                Ok(0) => break false,
                Ok(_) => {}
                Err(error) => break error == SocketError::WouldBlock,
            }
        };
        if !goes_on {
            stack.close(now, self.id);
        }
        goes_on
    }

    /// Makes sure that there is something to write, if a whole question has been read.
    fn next_answer(&mut self, names: &NameTable) -> Option<()> {
        while self.output.is_empty() {
            let len = usize::from(u16::from_be_bytes(*self.input.first_chunk()?));
            let answer = answer(names, self.input.get(2..2 + len)?, Carrier::Tcp);
            self.input.drain(..2 + len);
            if let Some(answer) = answer {
                self.output = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat().into();
            }
        }
        Some(())
    }

    fn write(&mut self, stack: &mut Stack, now: SimTime) -> Result<usize, SocketError> {
        let sent = stack.send(now, self.id, self.output.clone(), SendFlags::empty())?;
        self.output.advance(sent);
        Ok(sent)
    }

    /// 0 at the end of the stream.
    fn read(&mut self, stack: &mut Stack, now: SimTime) -> Result<usize, SocketError> {
        let input = &mut self.input;
        stack.recv(now, self.id, CHUNK, false, &mut |bytes| {
            input.extend_from_slice(bytes);
            bytes.len()
        })
    }
}

#[cfg(test)]
mod tests;
