//! A client's connection through an exit.

use crate::flow::{StreamFlow, Told};
use mio::net::TcpStream;
use onion::circuit::message::EndReason;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

pub struct Stream {
    pub circuit: usize,
    /// The client's number.
    pub number: u16,
    /// None while a name is being looked up.
    pub socket: Option<TcpStream>,
    pub is_connected: bool,
    /// Goes to a directory authority rather than where the client says.
    pub is_of_directory: bool,
    pub flow: StreamFlow,
    /// The socket may have more to read.
    pub is_readable: bool,
    /// Bytes from the socket that no cell has carried yet, and why there will be no more.
    read: VecDeque<u8>,
    end: Option<EndReason>,
    /// Bytes for the socket.
    out: VecDeque<u8>,
    /// The client has ended it: what it sent before is still written.
    pub is_ending: bool,
}

impl Stream {
    pub fn new(circuit: usize, number: u16, flow: StreamFlow) -> Stream {
        Stream {
            circuit,
            number,
            socket: None,
            is_connected: false,
            is_of_directory: false,
            flow,
            is_readable: false,
            read: VecDeque::new(),
            end: None,
            out: VecDeque::new(),
            is_ending: false,
        }
    }

    /// Reads from the socket once, at most as many bytes as the buffer has room for.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let Some(socket) = self.socket.as_mut().filter(|_| self.is_connected) else { return };
        match socket.read(buffer) {
            Ok(0) => self.end = Some(EndReason::Done),
            Ok(count) => return self.read.extend(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(error) => self.end = Some(reason_of(&error)),
        }
        self.is_readable = false;
    }

    /// The socket may have something, unless it is over.
    pub fn note_readable(&mut self) {
        self.is_readable = self.end.is_none();
    }

    /// There is something for the client: bytes, or that it is over.
    pub fn has_to_say(&self) -> bool {
        !self.read.is_empty() || self.end.is_some()
    }

    /// Why the stream is over, when cells have carried all.
    pub fn end(&self) -> Option<EndReason> {
        self.end.filter(|_| self.read.is_empty())
    }

    /// What the next cell carries: at most so many bytes.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let count = most.min(self.read.len());
        self.read.drain(..count).collect()
    }

    /// Takes a data cell's bytes from the client, which may not send more than its window, however slow the socket is.
    pub fn deliver(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        self.flow.deliver(self.out.len() + bytes.len())?;
        self.out.extend(bytes);
        Ok(())
    }

    /// Writes what the socket takes; how many bytes.
    pub fn write(&mut self) -> io::Result<usize> {
        let Some(socket) = self.socket.as_mut().filter(|_| self.is_connected) else { return Ok(0) };
        let mut written = 0;
        while !self.out.is_empty() {
            match socket.write(self.out.as_slices().0) {
                Ok(count) => {
                    self.out.drain(..count);
                    written += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    pub fn has_written_all(&self) -> bool {
        self.out.is_empty()
    }

    /// What to tell the client after `written` bytes went to the socket, when data had come or not.
    pub fn told(&mut self, has_come: bool, written: usize, now_us: u64) -> Vec<Told> {
        self.flow.told(has_come, written, self.out.len(), now_us)
    }
}

pub fn reason_of(error: &io::Error) -> EndReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => EndReason::ConnectRefused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => EndReason::ConnectionReset,
        io::ErrorKind::TimedOut => EndReason::Timeout,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => EndReason::NoRoute,
        _ => EndReason::Misc,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::CircuitFlow;
    use std::net::TcpListener;

    #[test]
    fn a_stream_is_over_when_cells_have_carried_all_that_was_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = Stream::new(0, 1, CircuitFlow::fixed().stream());
        stream.socket = Some(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&[7; 20]).unwrap();
        drop(server);
        stream.note_readable();
        stream.fill(&mut [0; 8]);
        assert!(!stream.has_to_say(), "not yet connected");
        stream.is_connected = true;
        let mut taken = 0;
        while stream.is_readable {
            stream.fill(&mut [0; 8]);
            assert_eq!(stream.end(), None);
            taken += stream.take(5).len();
        }
        assert!(stream.has_to_say());
        while stream.end().is_none() {
            taken += stream.take(5).len();
        }
        assert_eq!((taken, stream.end()), (20, Some(EndReason::Done)));
        stream.note_readable();
        assert!(!stream.is_readable && stream.has_to_say(), "its end is still to be said");
    }
}
