//! A client's connection through an exit.

use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// Data cells that may be under way on a stream, and how many one SENDME allows again (tor-spec, "Stream-level flow control").
pub const STREAM_WINDOW: u32 = 500;
pub const STREAM_STEP: u32 = 50;

/// Bytes that wait for the socket above which no more are asked for.
const UNWRITTEN: usize = 10 * 498;

pub struct Stream {
    pub circuit: usize,
    /// The client's number.
    pub number: u16,
    /// None while a name is being looked up.
    pub socket: Option<TcpStream>,
    pub is_connected: bool,
    /// Goes to a directory authority rather than where the client says.
    pub is_of_directory: bool,
    /// Data cells that may still be sent to the client.
    pub package: u32,
    /// Bytes for the socket.
    out: VecDeque<u8>,
    /// Data cells since the last SENDME.
    delivered: u32,
    /// The client has ended it: what it sent before is still written.
    pub is_ending: bool,
}

/// What reading a socket brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(usize),
    Nothing,
    End,
}

impl Stream {
    pub fn new(circuit: usize, number: u16) -> Stream {
        Stream {
            circuit,
            number,
            socket: None,
            is_connected: false,
            is_of_directory: false,
            package: STREAM_WINDOW,
            out: VecDeque::new(),
            delivered: 0,
            is_ending: false,
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        let Some(socket) = self.socket.as_mut().filter(|_| self.is_connected) else { return Ok(Taken::Nothing) };
        loop {
            match socket.read(buffer) {
                Ok(0) => return Ok(Taken::End),
                Ok(count) => return Ok(Taken::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Taken::Nothing),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a data cell's bytes from the client, which may not send more than its window, however slow the socket is.
    pub fn deliver(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.delivered == STREAM_WINDOW {
            return Err("more data of a stream than its window");
        }
        self.out.extend(bytes);
        self.delivered += 1;
        Ok(())
    }

    /// Writes what the socket takes.
    pub fn write(&mut self) -> io::Result<()> {
        let Some(socket) = self.socket.as_mut().filter(|_| self.is_connected) else { return Ok(()) };
        while !self.out.is_empty() {
            match socket.write(self.out.as_slices().0) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn has_written_all(&self) -> bool {
        self.out.is_empty()
    }

    /// How many SENDMEs are due: none while the socket is behind.
    pub fn take_due(&mut self) -> u32 {
        if self.out.len() > UNWRITTEN {
            return 0;
        }
        let due = self.delivered / STREAM_STEP;
        self.delivered %= STREAM_STEP;
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_ignores_the_window_is_stopped_while_the_socket_is_slow() {
        let mut stream = Stream::new(0, 1);
        for _ in 0..STREAM_WINDOW {
            stream.deliver(&[7; 498]).unwrap();
            stream.write().unwrap();
            assert_eq!(stream.take_due(), 0, "nothing is allowed before something is written");
        }
        assert!(stream.deliver(&[7]).is_err());
        stream.out.clear();
        assert_eq!(stream.take_due(), STREAM_WINDOW / STREAM_STEP);
        assert!(stream.deliver(&[7]).is_ok());
    }

    #[test]
    fn a_quick_socket_lets_a_client_go_on() {
        let mut stream = Stream::new(0, 1);
        let mut allowed = 0;
        for _ in 0..3 * STREAM_WINDOW {
            stream.deliver(&[7]).unwrap();
            stream.out.clear();
            allowed += stream.take_due();
        }
        assert_eq!(allowed, 3 * STREAM_WINDOW / STREAM_STEP);
    }
}
