//! What two relays of ours that have proven who they are over TLS share afterwards, so that further connections between them need no TLS: by it the ends of
//! a connection know each other at once, and nobody else can open one, nor the same one again.
//!
//! It stands for what IPsec's security association is to PCTCP (AlSabah and Goldberg, CCS 2013): keys that were agreed once, and a window against replays as
//! ESP's (RFC 4303, section 3.4.3). What it does not do is to hide or to guard what follows on the connection, which in the experiment nobody sees.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What TLS derives keys and names of an association from; the context says which.
pub const EXPORTER: &[u8] = b"EXPORTER gnomon-relay association";
/// Contexts: the name, and the keys of who opened the TLS connection and of the other end.
pub const CONTEXTS: [&[u8]; 3] = [b"name", b"initiator", b"responder"];

/// The first byte of a token, which no record of TLS begins with.
pub const FIRST: u8 = b'g';
const MAGIC: [u8; 4] = [FIRST, b'e', b's', b'p'];
const SIGNED: usize = MAGIC.len() + size_of::<Name>() + 8;

/// Bytes of a token: `gesp`, the association's name (16), the connection's number among those that its opener has opened (8, big-endian), and
/// HMAC-SHA256 of these under the opener's key.
pub const TOKEN: usize = SIGNED + 32;
/// Bytes of its answer: HMAC-SHA256 of the token under the other end's key.
pub const ANSWER: usize = 32;

pub type Name = [u8; 16];

/// Why a connection is not of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Malformed,
    /// Not made with the key.
    Forged,
    /// Its number came before, or is so far behind the highest that this is not known any more.
    Replayed,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::Malformed => "a token that cannot be read",
            Refusal::Forged => "a token of somebody else",
            Refusal::Replayed => "a token that came before",
        })
    }
}

/// Numbers that came, as far behind the highest as the window reaches: connections that are opened together arrive in any order.
const WINDOW: u64 = 4096;

#[derive(Clone, Debug)]
struct Window {
    highest: u64,
    /// A bit for each of the last numbers, by the number modulo the window.
    came: Box<[u64; WINDOW as usize / 64]>,
}

impl Window {
    fn new() -> Window {
        Window { highest: 0, came: Box::new([0; WINDOW as usize / 64]) }
    }

    fn bit(number: u64) -> (usize, u64) {
        let place = number % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    /// Whether the number is new; it is not from then on.
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            // What lies between has not come.
            for between in (self.highest + 1..number).rev().take(WINDOW as usize) {
                let (word, bit) = Window::bit(between);
                self.came[word] &= !bit;
            }
            self.highest = number;
        } else {
            let (word, bit) = Window::bit(number);
            if number == 0 || self.highest - number >= WINDOW || self.came[word] & bit != 0 {
                return false;
            }
        }
        let (word, bit) = Window::bit(number);
        self.came[word] |= bit;
        true
    }
}

/// One end's part.
#[derive(Clone, Debug)]
pub struct Association {
    pub name: Name,
    own: [u8; 32],
    others: [u8; 32],
    opened: u64,
    window: Window,
}

impl Association {
    /// Of a TLS connection's exported bytes for each of [`CONTEXTS`]; `initiated` if this end opened that.
    pub fn new(exported: [[u8; 32]; 3], initiated: bool) -> Association {
        let [name, initiator, responder] = exported;
        let (own, others) = if initiated { (initiator, responder) } else { (responder, initiator) };
        let name = *name.first_chunk().expect("32 bytes");
        Association { name, own, others, opened: 0, window: Window::new() }
    }

    /// What to send first on a connection that this end opens, and what the other has to answer.
    pub fn open(&mut self) -> ([u8; TOKEN], [u8; ANSWER]) {
        self.opened += 1;
        let mut token = [0; TOKEN];
        let (signed, mac) = token.split_at_mut(SIGNED);
        let (magic, rest) = signed.split_at_mut(MAGIC.len());
        let (name, number) = rest.split_at_mut(size_of::<Name>());
        magic.copy_from_slice(&MAGIC);
        name.copy_from_slice(&self.name);
        number.copy_from_slice(&self.opened.to_be_bytes());
        mac.copy_from_slice(&keyed(&self.own, signed).finalize().into_bytes());
        (token, keyed(&self.others, &token).finalize().into_bytes().into())
    }

    /// What to answer on a connection that the other end has opened.
    ///
    /// # Errors
    /// Who is there is not the other end, or says again what that has said.
    pub fn accept(&mut self, token: &[u8; TOKEN]) -> Result<[u8; ANSWER], Refusal> {
        let (signed, mac) = token.split_at(SIGNED);
        keyed(&self.others, signed).verify_slice(mac).map_err(|_| Refusal::Forged)?;
        let number = signed.last_chunk().map(|number| u64::from_be_bytes(*number)).ok_or(Refusal::Malformed)?;
        if !self.window.take(number) {
            return Err(Refusal::Replayed);
        }
        Ok(keyed(&self.own, token).finalize().into_bytes().into())
    }
}

fn keyed(key: &[u8; 32], bytes: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may have any length");
    mac.update(bytes);
    mac
}

/// The association that a token names.
///
/// # Errors
/// It is no token.
pub fn named(token: &[u8; TOKEN]) -> Result<Name, Refusal> {
    let name = token.strip_prefix(&MAGIC).and_then(|rest| rest.first_chunk());
    name.copied().ok_or(Refusal::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Association, Association) {
        let exported = [[1; 32], [2; 32], [3; 32]];
        (Association::new(exported, true), Association::new(exported, false))
    }

    #[test]
    fn each_end_knows_the_other_whoever_opens() {
        let (mut a, mut b) = both();
        for _ in 0..3 {
            let (token, answer) = a.open();
            assert_eq!(named(&token), Ok(b.name));
            assert_eq!(b.accept(&token), Ok(answer));
            let (token, answer) = b.open();
            assert_eq!(a.accept(&token), Ok(answer));
        }
    }

    #[test]
    fn a_token_counts_once_and_for_its_receiver_alone() {
        let (mut a, mut b) = both();
        let (token, answer) = a.open();
        assert_eq!(a.accept(&token), Err(Refusal::Forged), "one's own, sent back");
        assert_eq!(b.accept(&token), Ok(answer));
        assert_eq!(b.accept(&token), Err(Refusal::Replayed));
        let mut other = Association::new([[1; 32], [9; 32], [3; 32]], false);
        assert_eq!(other.accept(&token), Err(Refusal::Forged), "of another association");
        for place in 0..TOKEN {
            let (mut changed, _) = a.open();
            changed[place] ^= 1;
            assert!(b.accept(&changed).is_err() || named(&changed) != Ok(b.name), "byte {place}");
        }
        assert_eq!(named(&[0; TOKEN]), Err(Refusal::Malformed));
    }

    #[test]
    fn tokens_come_in_any_order_within_the_window() {
        let (mut a, mut b) = both();
        let tokens: Vec<_> = (0..WINDOW + 2).map(|_| a.open()).collect();
        let last = tokens.len() - 1;
        assert_eq!(b.accept(&tokens[last].0), Ok(tokens[last].1));
        assert_eq!(b.accept(&tokens[0].0), Err(Refusal::Replayed), "too far behind to be known");
        for at in (2..last).rev() {
            assert_eq!(b.accept(&tokens[at].0), Ok(tokens[at].1), "{at}");
            assert_eq!(b.accept(&tokens[at].0), Err(Refusal::Replayed), "{at} again");
        }
        // A leap empties the window.
        let (token, answer) = (0..=2 * WINDOW).map(|_| a.open()).last().expect("some");
        assert_eq!(b.accept(&token), Ok(answer));
        assert_eq!(b.accept(&tokens[last].0), Err(Refusal::Replayed));
    }
}
