//! A program's connection to the SOCKS port, and the stream that becomes of it.

use crate::socks::{Isolation, Talk, Target};
use mio::net::TcpStream;
use std::collections::VecDeque;
use std::io::{self, Read, Write};

/// Data cells that may be under way on a stream, and how many one SENDME allows again (tor-spec, "Stream-level flow control").
pub const STREAM_WINDOW: u32 = 500;
pub const STREAM_STEP: u32 = 50;

/// Bytes that wait for the program above which no more are asked for.
const UNWRITTEN: usize = 10 * 498;

/// How far it is.
pub enum State {
    /// The program says what it wants.
    Talking(Talk),
    /// No circuit is there yet.
    Waiting,
    /// The exit was asked.
    Asking,
    Open,
    /// What is left for the program is written, then it is closed.
    Ending,
}

pub struct Stream {
    pub socket: TcpStream,
    pub state: State,
    pub target: Target,
    pub isolation: Isolation,
    pub began_ms: u64,
    /// When the exit was asked, and how often any was.
    pub asked_ms: u64,
    pub tries: u32,
    /// Exits at which the target has failed.
    pub failures: u32,
    /// The circuit, and the number there.
    pub on: Option<(u64, u16)>,
    /// Data cells that may still be sent.
    pub package: u32,
    /// Bytes that the program sent behind its request, before the stream was there.
    pub early: Vec<u8>,
    out: VecDeque<u8>,
    /// Data cells since the last SENDME.
    delivered: u32,
}

/// What reading brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Bytes(usize),
    Nothing,
    End,
}

impl Stream {
    pub fn new(socket: TcpStream, now_ms: u64) -> Stream {
        Stream {
            socket,
            state: State::Talking(Talk::default()),
            target: Target { host: String::new(), port: 0 },
            isolation: None,
            began_ms: now_ms,
            asked_ms: now_ms,
            tries: 0,
            failures: 0,
            on: None,
            package: STREAM_WINDOW,
            early: Vec::new(),
            out: VecDeque::new(),
            delivered: 0,
        }
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    /// Neither open nor over.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, State::Waiting | State::Asking)
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<Taken> {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Ok(Taken::End),
                Ok(count) => return Ok(Taken::Bytes(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Taken::Nothing),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Bytes for the program that are no stream's.
    pub fn say(&mut self, bytes: &[u8]) {
        self.out.extend(bytes);
    }

    /// Takes a data cell's bytes, of which there may not be more than the window allows, however slow the program is.
    pub fn deliver(&mut self, bytes: &[u8]) -> Result<(), &'static str> {
        if self.delivered == STREAM_WINDOW {
            return Err("more data of a stream than its window");
        }
        self.out.extend(bytes);
        self.delivered += 1;
        Ok(())
    }

    pub fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.socket.write(self.out.as_slices().0) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub fn has_written_all(&self) -> bool {
        self.out.is_empty()
    }

    /// How many SENDMEs are due: none while the program is behind.
    pub fn take_due(&mut self) -> u32 {
        if self.out.len() > UNWRITTEN {
            return 0;
        }
        let due = self.delivered / STREAM_STEP;
        self.delivered %= STREAM_STEP;
        due
    }
}
