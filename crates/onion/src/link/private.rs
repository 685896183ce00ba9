//! What two relays of ours say to each other, besides Tor's cells, where several connections make a channel.
//!
//! On such connections cells of circuits carry a number, so that they may take any of the connections and are put in order again
//! ([`super::order`]). Cells of the connection itself, whose circuit is 0, are as Tor's.

use crate::cell::{self, BODY, Cell, CircuitId, Command, IdWidth, TooLong};

/// The first cell behind the handshake, of who opened the connection: which channel it belongs to ([`Joining`]).
pub const CHANNEL: Command = Command(101);
/// The last cell but [`CLOSING_CONN_END`] that its sender puts on this connection (IMUX, section 4.1).
pub const CLOSING_CONN_BEGIN: Command = Command(102);
/// Answers it: nothing of its sender follows on this connection.
pub const CLOSING_CONN_END: Command = Command(103);
/// What a circuit is for, as the guard knows it; one byte ([`Label`]).
pub const LABEL: Command = Command(100);

/// Bytes of a circuit's cell with its number.
pub const CELL: usize = cell::CELL + 8;
const HEAD: usize = CELL - BODY;

/// CHANNEL's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Chosen by who made the channel.
    pub number: u64,
    /// The sender made it; else the receiver.
    pub is_senders: bool,
    /// Where the sender takes connections, so that the other end can open some too.
    pub or_port: u16,
}

impl Joining {
    pub fn write(self) -> [u8; 11] {
        let mut body = [0; 11];
        body[..8].copy_from_slice(&self.number.to_be_bytes());
        body[8] = self.is_senders.into();
        body[9..].copy_from_slice(&self.or_port.to_be_bytes());
        body
    }

    pub fn read(body: &[u8]) -> Option<Joining> {
        let (number, rest) = body.first_chunk::<11>()?.split_first_chunk()?;
        let is_senders = match rest[0] {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Joining {
            number: u64::from_be_bytes(*number),
            is_senders,
            or_port: u16::from_be_bytes([rest[1], rest[2]]),
        })
    }
}

/// What a client uses a circuit for, as an experiment knows it (IMUX's evaluation has CELL_TRAFFIC_WEB and CELL_TRAFFIC_BULK).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    Web = 1,
    Bulk = 2,
}

impl Label {
    pub fn read(body: &[u8]) -> Option<Label> {
        match body.first()? {
            1 => Some(Label::Web),
            2 => Some(Label::Bulk),
            _ => None,
        }
    }
}

/// Writes a circuit's cell with its number: circuit (4 bytes), command (1), number (8), body filled up with zeros.
///
/// # Panics
/// If the body is longer than [`BODY`].
pub fn put(to: &mut Vec<u8>, circuit: CircuitId, command: Command, number: u64, body: &[u8]) {
    assert!(body.len() <= BODY, "a body of {} bytes in a cell of a circuit", body.len());
    to.extend_from_slice(&circuit.to_be_bytes());
    to.push(command.0);
    to.extend_from_slice(&number.to_be_bytes());
    to.extend_from_slice(body);
    to.resize(to.len() + BODY - body.len(), 0);
}

/// Takes the first cell off `bytes`: the cell, its number if it is a circuit's, and how many bytes it took; nothing if it is not yet
/// whole.
pub fn take(bytes: &[u8]) -> Result<Option<(Cell<'_>, Option<u64>, usize)>, TooLong> {
    if bytes.first_chunk().is_none_or(|id| u32::from_be_bytes(*id) == 0) {
        return Ok(cell::take(bytes, IdWidth::Four)?.map(|(cell, length)| (cell, None, length)));
    }
    let Some(whole) = bytes.first_chunk::<CELL>() else { return Ok(None) };
    let (head, body) = whole.split_at(HEAD);
    let circuit = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let number = u64::from_be_bytes(head[5..].try_into().expect("eight bytes"));
    Ok(Some((Cell { circuit, command: Command(head[4]), body }, Some(number), CELL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_as_they_went() {
        let mut bytes = Vec::new();
        put(&mut bytes, 0x8000_0001, Command::RELAY, 1 << 40, &[7, 8]);
        let joining = Joining { number: u64::MAX - 1, is_senders: true, or_port: 9001 };
        cell::put(&mut bytes, IdWidth::Four, Cell { circuit: 0, command: CHANNEL, body: &joining.write() });
        for short in [0, 3, 4, CELL - 1] {
            assert!(take(&bytes[..short]).expect("no cell that is too long").is_none());
        }
        let (cell, number, length) = take(&bytes).expect("short").expect("whole");
        assert_eq!((cell.circuit, cell.command, number, length), (0x8000_0001, Command::RELAY, Some(1 << 40), CELL));
        assert_eq!((&cell.body[..3], cell.body.len()), (&[7, 8, 0][..], BODY));
        let (cell, number, _) = take(&bytes[length..]).expect("short").expect("whole");
        assert_eq!((cell.command, number, Joining::read(cell.body)), (CHANNEL, None, Some(joining)));
    }

    #[test]
    fn what_says_nothing_is_refused() {
        assert_eq!(Joining::read(&[0; 10]), None);
        assert_eq!(Joining::read(&[0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0]), None, "neither sender nor receiver");
        assert_eq!((Label::read(&[2]), Label::read(&[3]), Label::read(&[])), (Some(Label::Bulk), None, None));
    }
}
