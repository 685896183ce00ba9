//! How much data may be under way on circuits and their streams: windows of a fixed size, or congestion control where the client asked
//! for it (proposal 324).

use onion::circuit::flow::{FlowParameters, Receiving, Sending, Tell, XOFF, Xon};
use onion::circuit::message::{self, Command, LONGEST};
use onion::circuit::vegas::{self, LocalQueue, Vegas, VegasParameters};
use onion::directory::ConsensusParameters;
use std::collections::VecDeque;

/// Data cells that may be under way on a circuit, and how many one SENDME allows again (tor-spec, "Circuit-level flow control").
pub const CIRCUIT_WINDOW: u32 = 1000;
const CIRCUIT_STEP: u32 = 100;
/// The same on a stream (tor-spec, "Stream-level flow control").
const STREAM_WINDOW: u32 = 500;
const STREAM_STEP: u32 = 50;

/// Bytes that wait for a stream's socket above which no more are asked for by SENDME.
const UNWRITTEN: usize = 10 * LONGEST;
/// Bytes that wait for a stream's socket which no honest client reaches that heeds XOFF: twice tor's largest window of slow start.
const MOST_UNWRITTEN: usize = 10_000 * LONGEST;

/// A circuit's data cells, both ways.
pub struct CircuitFlow {
    to_client: Window,
    /// Cells from the client that a SENDME answers.
    step: u32,
    /// Digests that the client's SENDMEs must name.
    expected: VecDeque<[u8; 20]>,
    /// Cells from the client since the last SENDME.
    delivered: u32,
    /// What streams get.
    streams: Option<FlowParameters>,
}

enum Window {
    /// Data cells that may still be sent.
    Fixed(u32),
    Vegas(Box<Vegas>),
}

impl CircuitFlow {
    pub fn fixed() -> CircuitFlow {
        CircuitFlow {
            to_client: Window::Fixed(CIRCUIT_WINDOW),
            step: CIRCUIT_STEP,
            expected: VecDeque::new(),
            delivered: 0,
            streams: None,
        }
    }

    /// For a client that asks for congestion control, and what to answer it; fixed if the consensus does not want it.
    pub fn negotiate(consensus: &ConsensusParameters) -> (CircuitFlow, Option<u8>) {
        if !vegas::is_wanted(consensus) {
            return (CircuitFlow::fixed(), None);
        }
        let sendme_inc = vegas::sendme_inc(consensus);
        let vegas = Vegas::new(VegasParameters::of_exit(consensus), sendme_inc);
        let flow = CircuitFlow {
            to_client: Window::Vegas(Box::new(vegas)),
            step: sendme_inc.into(),
            streams: Some(FlowParameters::of(consensus)),
            ..CircuitFlow::fixed()
        };
        (flow, Some(sendme_inc))
    }

    /// Data cells that may be sent to the client now.
    pub fn room(&self) -> usize {
        match &self.to_client {
            Window::Fixed(room) => *room as usize,
            Window::Vegas(vegas) => vegas.room(),
        }
    }

    /// Counts a data cell to the client, with its digest.
    pub fn sent(&mut self, digest: [u8; 20], now_us: u64) {
        let is_due = match &mut self.to_client {
            Window::Fixed(room) => {
                *room -= 1;
                room.is_multiple_of(CIRCUIT_STEP)
            }
            Window::Vegas(vegas) => vegas.sent(now_us),
        };
        if is_due {
            self.expected.push_back(digest);
        }
    }

    /// A SENDME of the client, which must name the cell that made it due.
    pub fn allow(&mut self, body: &[u8], queue: LocalQueue, now_us: u64) -> Result<(), &'static str> {
        let not_due = "a SENDME that was not due";
        let expected = self.expected.pop_front().ok_or(not_due)?;
        if message::read_sendme(body) != Some(expected) {
            return Err("a SENDME that names another cell");
        }
        match &mut self.to_client {
            Window::Fixed(room) => *room += CIRCUIT_STEP,
            Window::Vegas(vegas) => vegas.acknowledged(now_us, queue).map_err(|_| not_due)?,
        }
        Ok(())
    }

    /// Counts a data cell from the client; when a SENDME is due, its body.
    pub fn deliver(&mut self, digest: &[u8; 20]) -> Option<[u8; 23]> {
        self.delivered += 1;
        if self.delivered < self.step {
            return None;
        }
        self.delivered = 0;
        Some(message::sendme(digest))
    }

    pub fn vegas(&self) -> Option<&Vegas> {
        match &self.to_client {
            Window::Fixed(_) => None,
            Window::Vegas(vegas) => Some(vegas),
        }
    }

    /// For a stream that begins.
    pub fn stream(&self) -> StreamFlow {
        match self.streams {
            None => StreamFlow::Fixed { package: STREAM_WINDOW, delivered: 0 },
            Some(parameters) => {
                StreamFlow::Xon { sending: Sending::default(), receiving: Box::new(Receiving::at_exit(parameters)) }
            }
        }
    }
}

/// A stream's data, both ways.
pub enum StreamFlow {
    Fixed {
        /// Data cells that may still be sent to the client.
        package: u32,
        /// Data cells from it since the last SENDME.
        delivered: u32,
    },
    Xon {
        sending: Sending,
        receiving: Box<Receiving>,
    },
}

/// What a stream's other end is to be told.
pub type Told = (Command, Vec<u8>);

impl StreamFlow {
    /// Bytes that may be sent to the client now.
    pub fn room(&mut self, now_ms: u64) -> usize {
        match self {
            StreamFlow::Fixed { package, .. } => *package as usize * LONGEST,
            StreamFlow::Xon { sending, .. } => sending.room(now_ms),
        }
    }

    /// Whether time alone will make room.
    pub fn is_paced(&self) -> bool {
        matches!(self, StreamFlow::Xon { sending, .. } if sending.is_paced())
    }

    /// Counts a data cell to the client.
    pub fn sent(&mut self, bytes: usize) {
        match self {
            StreamFlow::Fixed { package, .. } => *package -= 1,
            StreamFlow::Xon { sending, .. } => sending.sent(bytes),
        }
    }

    /// Counts a data cell from the client, with which `waiting` bytes lie before the socket.
    pub fn deliver(&mut self, waiting: usize) -> Result<(), &'static str> {
        match self {
            StreamFlow::Fixed { delivered: STREAM_WINDOW, .. } => return Err("more data of a stream than its window"),
            StreamFlow::Fixed { delivered, .. } => *delivered += 1,
            StreamFlow::Xon { .. } if waiting > MOST_UNWRITTEN => return Err("more data of a stream than XOFF allows"),
            StreamFlow::Xon { .. } => {}
        }
        Ok(())
    }

    /// What to tell the client after the socket took `written` bytes and left `waiting`, when data had come or not.
    pub fn told(&mut self, has_come: bool, written: usize, waiting: usize, now_us: u64) -> Vec<Told> {
        match self {
            StreamFlow::Fixed { .. } if waiting > UNWRITTEN => Vec::new(),
            StreamFlow::Fixed { delivered, .. } => {
                let due = *delivered / STREAM_STEP;
                *delivered %= STREAM_STEP;
                (0..due).map(|_| (Command::SENDME, Vec::new())).collect()
            }
            StreamFlow::Xon { receiving, .. } => {
                let xon = if written > 0 { receiving.wrote(now_us, written, waiting) } else { None };
                let more = if has_come { receiving.arrived(now_us, waiting) } else { Vec::new() };
                xon.map(Tell::Xon).into_iter().chain(more).map(in_words).collect()
            }
        }
    }

    /// A SENDME of the client for this stream.
    pub fn allow(&mut self) -> Result<(), &'static str> {
        match self {
            StreamFlow::Fixed { package, .. } if *package + STREAM_STEP > STREAM_WINDOW => {
                Err("a SENDME of a stream that was not due")
            }
            StreamFlow::Fixed { package, .. } => {
                *package += STREAM_STEP;
                Ok(())
            }
            StreamFlow::Xon { .. } => Err("a stream's SENDME on a circuit with congestion control"),
        }
    }

    /// XOFF or XON of the client, which on a circuit without congestion control mean nothing, as to tor; whether the stream may go on.
    pub fn heed(&mut self, command: Command, body: &[u8]) -> bool {
        let StreamFlow::Xon { sending, .. } = self else { return false };
        if command == Command::XOFF {
            sending.stop();
            return false;
        }
        let Some(xon) = Xon::read(body) else { return false };
        sending.go_on(xon);
        true
    }
}

fn in_words(tell: Tell) -> Told {
    match tell {
        Tell::Xoff => (Command::XOFF, XOFF.to_vec()),
        Tell::Xon(xon) => (Command::XON, xon.write().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: LocalQueue = LocalQueue { cells: 0, is_blocked: false };

    fn negotiated() -> CircuitFlow {
        let (flow, sendme_inc) = CircuitFlow::negotiate(&ConsensusParameters::default());
        assert_eq!(sendme_inc, Some(31));
        flow
    }

    /// Sends so many data cells, each with its number as digest.
    fn send(flow: &mut CircuitFlow, cells: std::ops::Range<u8>) {
        cells.for_each(|number| flow.sent([number; 20], 0));
    }

    #[test]
    fn a_sendme_must_be_due_and_name_its_cell() {
        for (mut flow, step) in [(CircuitFlow::fixed(), 100), (negotiated(), 31)] {
            assert!(flow.allow(&message::sendme(&[0; 20]), IDLE, 0).is_err(), "nothing was sent");
            let before = flow.room();
            send(&mut flow, 1..step + 1);
            assert_eq!(flow.room(), before - usize::from(step));
            let due = message::sendme(&[step; 20]);
            assert_eq!(flow.allow(&due, IDLE, 100_000), Ok(()));
            assert!(flow.room() >= before);
            assert!(flow.allow(&due, IDLE, 100_000).is_err(), "named twice");
            send(&mut flow, step + 1..2 * step + 1);
            assert!(flow.allow(&due, IDLE, 100_000).is_err(), "of another cell");
        }
    }

    #[test]
    fn cells_of_a_client_are_answered_by_what_was_agreed() {
        let due = |mut flow: CircuitFlow| -> Vec<u32> {
            (1..=250u32).filter(|at| flow.deliver(&[*at as u8; 20]).is_some()).collect()
        };
        assert_eq!(due(CircuitFlow::fixed()), [100, 200]);
        assert_eq!(due(negotiated()), [31, 62, 93, 124, 155, 186, 217, 248]);
    }

    #[test]
    fn a_consensus_without_congestion_control_leaves_windows() {
        let consensus = ConsensusParameters::read("cc_alg=0").unwrap();
        let (flow, sendme_inc) = CircuitFlow::negotiate(&consensus);
        assert_eq!((sendme_inc, flow.room()), (None, CIRCUIT_WINDOW as usize));
        assert!(flow.vegas().is_none());
    }

    #[test]
    fn a_client_that_ignores_the_window_is_stopped_while_the_socket_is_slow() {
        let mut stream = CircuitFlow::fixed().stream();
        for count in 1..=STREAM_WINDOW as usize {
            stream.deliver(count * LONGEST).unwrap();
            let told = stream.told(true, 0, count * LONGEST, 0);
            assert_eq!(told.is_empty(), count > 10 || count < STREAM_STEP as usize);
        }
        assert!(stream.deliver(0).is_err());
        assert_eq!(stream.told(false, 1, 0, 0).len(), (STREAM_WINDOW / STREAM_STEP) as usize);
        assert!(stream.deliver(0).is_ok());
    }

    #[test]
    fn a_quick_socket_lets_a_client_go_on() {
        let mut stream = CircuitFlow::fixed().stream();
        let mut allowed = 0;
        for _ in 0..3 * STREAM_WINDOW {
            stream.deliver(7).unwrap();
            allowed += stream.told(true, 7, 0, 0).len();
        }
        assert_eq!(allowed, 3 * (STREAM_WINDOW / STREAM_STEP) as usize);
    }

    #[test]
    fn a_stream_with_congestion_control_is_stopped_by_xoff_and_goes_on_by_xon() {
        let mut stream = negotiated().stream();
        assert!(stream.room(0) > 1 << 30);
        assert!(!stream.heed(Command::XOFF, &XOFF));
        assert_eq!((stream.room(0), stream.is_paced()), (0, false));
        assert!(!stream.heed(Command::XON, &[1, 0, 0, 0, 0]), "of another version");
        assert_eq!(stream.room(0), 0);
        assert!(stream.heed(Command::XON, &Xon { rate_kb_per_s: 1 }.write()));
        assert_eq!(stream.room(0), 1000);
        stream.sent(1000);
        assert_eq!((stream.room(0), stream.is_paced()), (0, true));
        let mut fixed = CircuitFlow::fixed().stream();
        assert!(!fixed.heed(Command::XOFF, &XOFF));
        assert_eq!(fixed.room(0), 500 * LONGEST);
    }

    #[test]
    fn a_slow_socket_makes_a_stream_send_xoff_and_then_xon() {
        let mut stream = negotiated().stream();
        assert_eq!(stream.told(true, 0, 250_000, 1_000), []);
        assert_eq!(stream.told(true, 0, 250_000, 9_000), [(Command::XOFF, vec![0])]);
        assert_eq!(stream.told(false, 0, 250_000, 9_000), []);
        let told = stream.told(false, 250_000, 0, 251_000);
        assert_eq!(told, [(Command::XON, Xon { rate_kb_per_s: 1000 }.write().to_vec())]);
        assert!(stream.deliver(MOST_UNWRITTEN).is_ok());
        assert!(stream.deliver(MOST_UNWRITTEN + 1).is_err());
    }

    #[test]
    fn a_streams_sendme_must_be_due_and_have_windows() {
        let mut stream = CircuitFlow::fixed().stream();
        assert!(stream.allow().is_err());
        (0..STREAM_STEP).for_each(|_| stream.sent(1));
        assert!(stream.allow().is_ok());
        assert!(negotiated().stream().allow().is_err());
    }
}
