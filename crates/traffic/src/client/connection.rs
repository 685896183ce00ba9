//! A connection that never blocks, with what is still to be sent and what of an answer has come.

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io::{self, ErrorKind, Read as _, Write as _};

pub struct Connection {
    socket: TcpStream,
    outbox: Vec<u8>,
    /// How much of the outbox has gone.
    gone: usize,
    /// Bytes given to the socket; whoever counts from another moment sets it back.
    pub sent: u64,
    /// For answers that come in pieces; filled by the reader.
    pub inbox: Vec<u8>,
}

/// What a read brought.
pub enum Read {
    Bytes(usize),
    /// Nothing is there yet.
    Nothing,
    /// The other side has closed its direction.
    End,
}

impl Connection {
    pub fn new(socket: TcpStream) -> Self {
        Connection { socket, outbox: Vec::new(), gone: 0, sent: 0, inbox: Vec::new() }
    }

    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Whether the connection stands; the error if it never will.
    pub fn is_connected(&mut self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => {
                // Requests and packets of streams leave at once.
                self.socket.set_nodelay(true)?;
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Queues bytes for `flush`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// Appends to what is queued.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Sends what is queued; whether all of it has gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.gone < self.outbox.len() {
            match self.write_now(self.gone) {
                Ok(0) => return Ok(false),
                Ok(length) => self.gone += length,
                Err(error) => return Err(error),
            }
        }
        self.outbox.clear();
        self.gone = 0;
        Ok(true)
    }

    fn write_now(&mut self, from: usize) -> io::Result<usize> {
        let result = self.socket.write(&self.outbox[from..]);
        self.count(result)
    }

    /// Sends bytes past the empty outbox; how many went.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.socket.write(bytes);
        self.count(result)
    }

    fn count(&mut self, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Ok(length) => {
                self.sent += length as u64;
                Ok(length)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        match self.socket.read(buffer) {
            Ok(0) => Ok(Read::End),
            Ok(length) => Ok(Read::Bytes(length)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(Read::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// The word for an error in records.
pub fn reason(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::ConnectionRefused => "refused",
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe => "reset",
        ErrorKind::TimedOut => "timeout",
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => "unreachable",
        _ => "io",
    }
}
