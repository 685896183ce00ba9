//! A client's connection through an exit.

use crate::flow::{StreamFlow, Told};
use mio::net::TcpStream;
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
    /// Bytes for the socket.
    out: VecDeque<u8>,
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
    pub fn new(circuit: usize, number: u16, flow: StreamFlow) -> Stream {
        Stream {
            circuit,
            number,
            socket: None,
            is_connected: false,
            is_of_directory: false,
            flow,
            out: VecDeque::new(),
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
