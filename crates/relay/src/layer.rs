//! What a connection's bytes go through: TLS, or nothing where IPsec stands for it.

use crate::tls::{self, Session};
use std::io::{self, Read, Write};

pub enum Layer {
    Tls(Session),
    Plain(Plain),
}

/// Bytes for the socket, of which so many are sent.
#[derive(Default)]
pub struct Plain {
    outgoing: Vec<u8>,
    sent: usize,
}

/// Bytes that are read at once.
const BUFFER: usize = 16 * 1024;

impl Layer {
    /// Of a connection that begins with these bytes.
    pub fn plain(first: &[u8]) -> Layer {
        Layer::Plain(Plain { outgoing: first.to_vec(), sent: 0 })
    }

    /// What TLS knows, where it is there.
    pub fn session(&self) -> Option<&Session> {
        match self {
            Layer::Tls(session) => Some(session),
            Layer::Plain(_) => None,
        }
    }

    /// Reads what a socket has, up to a buffer's, and puts it behind `to`; how many bytes came, of which there are none when the peer has ended.
    pub fn read(&mut self, socket: &mut impl Read, to: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Layer::Tls(session) => session.read(socket, to),
            Layer::Plain(_) => {
                let mut buffer = [0; BUFFER];
                let count = socket.read(&mut buffer)?;
                to.extend_from_slice(&buffer[..count]);
                Ok(count)
            }
        }
    }

    /// Makes these bytes the next that go to the socket.
    pub fn seal(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Layer::Tls(session) => session.seal(bytes),
            Layer::Plain(plain) => {
                plain.outgoing.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Hands them to the socket; whether it took them all, or says later that it can take more.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        match self {
            Layer::Tls(session) => session.flush(socket),
            Layer::Plain(plain) => plain.flush(socket),
        }
    }

    pub fn wants_write(&self) -> bool {
        match self {
            Layer::Tls(session) => session.wants_write(),
            Layer::Plain(plain) => !plain.outgoing.is_empty(),
        }
    }
}

impl Plain {
    fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        while self.sent < self.outgoing.len() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if tls::is_later(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        *self = Plain::default();
        Ok(true)
    }
}
