//! The servers of a behaviour, kept as they were written: thousands of clients that may use thousands of servers each would
//! need much memory for a list of names.

use super::Peer;

/// The port of a server that names none.
const USUAL_PORT: u16 = 80;
/// Servers that one entry may stand for: more are a mistake.
const MOST: u32 = 1_000_000;

/// Servers in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    One(Peer),
    Numbered { before: Box<str>, numbers: Numbers, after: Box<str>, port: u16 },
}

/// Numbers of a range, which begins with `first`; written with at least `digits` digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    first: u32,
    count: u32,
    digits: usize,
}

impl Peers {
    /// Adds what `text` stands for: "HOST:PORT", or "HOST[FIRST-LAST]:PORT" for hosts that a number tells apart. The error is the remedy.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let range = text.split_once('[').filter(|(before, _)| !before.is_empty());
        let entry = match range {
            None => Entry::One(Peer::parse(text, Some(USUAL_PORT))?),
            Some((before, rest)) => {
                let wrong = || format!("'{text}' is no range of hosts; write it like 'server[1-20]:80'");
                let (range, behind) = rest.split_once(']').ok_or_else(wrong)?;
                let numbers = Numbers::read(range).ok_or_else(wrong)?;
                // As its first host would be written.
                let Peer { host, port } =
                    Peer::parse(&format!("{before}0{behind}"), Some(USUAL_PORT)).map_err(|_| wrong())?;
                let after = host.strip_prefix(before).and_then(|rest| rest.strip_prefix('0')).ok_or_else(wrong)?;
                Entry::Numbered { before: before.into(), numbers, after: after.into(), port }
            }
        };
        self.entries.push(entry);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }

    /// Panics if there are not so many.
    pub fn get(&self, index: usize) -> Peer {
        let mut place = index;
        for entry in &self.entries {
            if let Some(peer) = entry.get(place) {
                return peer;
            }
            place -= entry.len();
        }
        panic!("of {} servers there is none with index {index}", self.len());
    }
}

impl Entry {
    fn len(&self) -> usize {
        match self {
            Entry::One(_) => 1,
            Entry::Numbered { numbers, .. } => numbers.count as usize,
        }
    }

    fn get(&self, place: usize) -> Option<Peer> {
        match self {
            _ if place >= self.len() => None,
            Entry::One(peer) => Some(peer.clone()),
            Entry::Numbered { before, numbers: Numbers { first, digits, .. }, after, port } => {
                let number = *first as usize + place;
                Some(Peer { host: format!("{before}{number:0digits$}{after}", digits = *digits), port: *port })
            }
        }
    }
}

impl Numbers {
    /// "1-20", or "01-20" for numbers with as many digits.
    fn read(text: &str) -> Option<Numbers> {
        let (first, last) = text.split_once('-')?;
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
        let (from, to) = (number(first)?, number(last)?);
        let count = to.checked_sub(from)?.checked_add(1).filter(|count| *count <= MOST)?;
        let digits = if first.starts_with('0') && first.len() > 1 { first.len() } else { 0 };
        Some(Numbers { first: from, count, digits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(texts: &[&str]) -> Peers {
        let mut peers = Peers::default();
        texts.iter().for_each(|text| peers.add(text).unwrap());
        peers
    }

    #[test]
    fn ranges_stand_for_hosts_with_numbers() {
        let peers = peers(&["a", "server[9-11].lan:8080", "[::1]:443", "n[08-10]"]);
        let all: Vec<String> = (0..peers.len()).map(|index| peers.get(index).to_string()).collect();
        let expected = [
            "a:80",
            "server9.lan:8080",
            "server10.lan:8080",
            "server11.lan:8080",
            "[::1]:443",
            "n08:80",
            "n09:80",
            "n10:80",
        ];
        assert_eq!(all, expected);
        assert!(Peers::default().is_empty() && !peers.is_empty());
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for wrong in [
            "a[1-2",
            "a[2-1]",
            "a[1]",
            "a[-2]",
            "a[1-x]",
            "a[1-2]:0",
            "a[1-2]:x",
            "a b[1-2]",
            "a[+1-2]",
            "a[1-4000000]",
            "a[1-2][3-4]",
        ] {
            let error = Peers::default().add(wrong).expect_err(wrong);
            assert!(error.contains(wrong) && error.contains("server[1-20]:80"), "{error}");
        }
        assert!(Peers::default().add("").is_err());
    }
}
