//! Cells, the units of a link (tor-spec, "Cells (messages on channels)").

use std::fmt;

/// Bytes of a fixed-length cell's body.
pub const BODY: usize = 509;
/// Bytes of a fixed-length cell on links of version 4 and later, whose circuit ids have 4 bytes.
pub const CELL: usize = 4 + 1 + BODY;
/// The longest body of a cell of variable length that is taken: a CERTS cell of some certificates needs a few thousand bytes.
pub const LONGEST_BODY: usize = 16 * 1024;

/// What a cell is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Command(pub u8);

impl Command {
    pub const PADDING: Command = Command(0);
    pub const CREATE: Command = Command(1);
    pub const CREATED: Command = Command(2);
    pub const RELAY: Command = Command(3);
    pub const DESTROY: Command = Command(4);
    pub const CREATE_FAST: Command = Command(5);
    pub const CREATED_FAST: Command = Command(6);
    pub const VERSIONS: Command = Command(7);
    pub const NETINFO: Command = Command(8);
    pub const RELAY_EARLY: Command = Command(9);
    pub const CREATE2: Command = Command(10);
    pub const CREATED2: Command = Command(11);
    pub const PADDING_NEGOTIATE: Command = Command(12);
    pub const VPADDING: Command = Command(128);
    pub const CERTS: Command = Command(129);
    pub const AUTH_CHALLENGE: Command = Command(130);
    pub const AUTHENTICATE: Command = Command(131);
    pub const AUTHORIZE: Command = Command(132);

    /// Whether cells of this command say how long they are: VERSIONS and all from 128 on.
    pub fn is_variable(self) -> bool {
        self == Command::VERSIONS || self.0 >= 128
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Command::PADDING => "PADDING",
            Command::CREATE => "CREATE",
            Command::CREATED => "CREATED",
            Command::RELAY => "RELAY",
            Command::DESTROY => "DESTROY",
            Command::CREATE_FAST => "CREATE_FAST",
            Command::CREATED_FAST => "CREATED_FAST",
            Command::VERSIONS => "VERSIONS",
            Command::NETINFO => "NETINFO",
            Command::RELAY_EARLY => "RELAY_EARLY",
            Command::CREATE2 => "CREATE2",
            Command::CREATED2 => "CREATED2",
            Command::PADDING_NEGOTIATE => "PADDING_NEGOTIATE",
            Command::VPADDING => "VPADDING",
            Command::CERTS => "CERTS",
            Command::AUTH_CHALLENGE => "AUTH_CHALLENGE",
            Command::AUTHENTICATE => "AUTHENTICATE",
            Command::AUTHORIZE => "AUTHORIZE",
            Command(other) => return write!(f, "command {other}"),
        };
        f.write_str(name)
    }
}

/// Names a circuit on one link; the upper half is the initiator's to choose from.
pub type CircuitId = u32;

/// A cell as it came: for a cell of fixed length, `body` has [`BODY`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    pub circuit: CircuitId,
    pub command: Command,
    pub body: &'a [u8],
}

/// How many bytes name a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdWidth {
    /// Before the versions are agreed.
    Two,
    /// From version 4 on.
    Four,
}

impl IdWidth {
    fn bytes(self) -> usize {
        match self {
            IdWidth::Two => 2,
            IdWidth::Four => 4,
        }
    }
}

/// A cell says that it is longer than any that this side would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    pub command: Command,
    pub bytes: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {:?} cell of {} bytes, at most {LONGEST_BODY} are taken", self.command, self.bytes)
    }
}

/// Takes the first cell off `bytes`: the cell and how many bytes it took, or nothing if it is not yet whole.
pub fn take(bytes: &[u8], width: IdWidth) -> Result<Option<(Cell<'_>, usize)>, TooLong> {
    let id = width.bytes();
    let Some(&command) = bytes.get(id) else { return Ok(None) };
    let command = Command(command);
    let circuit = bytes[..id].iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
    let (start, length) = if command.is_variable() {
        let Some(length) = bytes.get(id + 1..id + 3) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
        if length > LONGEST_BODY {
            return Err(TooLong { command, bytes: length });
        }
        (id + 3, length)
    } else {
        (id + 1, BODY)
    };
    let end = start + length;
    Ok(bytes.get(start..end).map(|body| (Cell { circuit, command, body }, end)))
}

/// Writes a cell; a body of a fixed cell that is shorter is filled up with zeros.
///
/// # Panics
/// If the body is longer than its kind can be.
pub fn put(to: &mut Vec<u8>, width: IdWidth, cell: Cell<'_>) {
    let id = cell.circuit.to_be_bytes();
    to.extend_from_slice(&id[4 - width.bytes()..]);
    to.push(cell.command.0);
    if cell.command.is_variable() {
        let length = u16::try_from(cell.body.len()).expect("a body of a variable cell fits its length");
        to.extend_from_slice(&length.to_be_bytes());
        to.extend_from_slice(cell.body);
    } else {
        assert!(cell.body.len() <= BODY, "a body of {} bytes in a fixed cell", cell.body.len());
        to.extend_from_slice(cell.body);
        to.resize(to.len() + BODY - cell.body.len(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_back_as_they_were_written() {
        for width in [IdWidth::Two, IdWidth::Four] {
            for (command, length) in
                [(Command::RELAY, BODY), (Command::CERTS, 777), (Command::VERSIONS, 4), (Command::VPADDING, 0)]
            {
                let body: Vec<u8> = (0..length).map(|n| n as u8).collect();
                let cell = Cell { circuit: 0x1234, command, body: &body };
                let mut bytes = Vec::new();
                put(&mut bytes, width, cell);
                for end in 0..bytes.len() {
                    assert_eq!(take(&bytes[..end], width), Ok(None));
                }
                bytes.push(9);
                assert_eq!(take(&bytes, width), Ok(Some((cell, bytes.len() - 1))));
            }
        }
    }

    #[test]
    fn a_short_body_is_filled_up() {
        let mut bytes = Vec::new();
        put(&mut bytes, IdWidth::Four, Cell { circuit: 1 << 31, command: Command::DESTROY, body: &[3] });
        assert_eq!(bytes.len(), CELL);
        assert_eq!(bytes[..6], [0x80, 0, 0, 0, 4, 3]);
    }

    #[test]
    fn cells_that_claim_too_much_are_refused() {
        let bytes = [0, 0, 129, 0xff, 0xff];
        assert_eq!(take(&bytes, IdWidth::Two), Err(TooLong { command: Command::CERTS, bytes: 0xffff }));
    }
}
