//! Names to addresses without waiting: /etc/hosts, then the first name server of /etc/resolv.conf over UDP (RFC 1035).

use mio::net::UdpSocket;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A question is sent this often before it counts as unanswered.
pub const TRIES: u8 = 3;
/// So many questions may be unanswered: half of the numbers that there are for them.
const MOST_ASKED: usize = 1 << 15;
/// Time between tries, in milliseconds.
pub const PATIENCE_MS: u64 = 5_000;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Address(Ipv4Addr),
    /// There is no such name, or it has no such address.
    None,
    /// Nobody answered.
    Silence,
}

/// One question.
struct Asked<T> {
    query: Vec<u8>,
    tries: u8,
    again_ms: u64,
    /// Who waits for the answer.
    waiting: T,
}

pub struct Resolver<T> {
    hosts: BTreeMap<String, Ipv4Addr>,
    server: SocketAddr,
    pub socket: UdpSocket,
    asked: BTreeMap<u16, Asked<T>>,
}

impl<T> Resolver<T> {
    pub fn new() -> io::Result<Resolver<T>> {
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let servers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let server = server_of(&servers).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let any: IpAddr =
            if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0).into())?;
        Ok(Resolver { hosts: read_hosts(&hosts), server: (server, 53).into(), socket, asked: BTreeMap::new() })
    }

    /// Answers at once what is an address or in /etc/hosts, and asks for the rest; `number` is random.
    pub fn ask(&mut self, name: &str, mut number: u16, now_ms: u64, waiting: T) -> Result<(), (T, Answer)> {
        if let Ok(address) = name.parse() {
            return Err((waiting, Answer::Address(address)));
        }
        if let Some(address) = self.hosts.get(name) {
            return Err((waiting, Answer::Address(*address)));
        }
        if self.asked.len() >= MOST_ASKED {
            return Err((waiting, Answer::Silence));
        }
        while self.asked.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        let Some(query) = query(number, name) else { return Err((waiting, Answer::None)) };
        // What is lost here is sent again as what is lost on the way.
        let _ = self.socket.send_to(&query, self.server);
        self.asked.insert(number, Asked { query, tries: 1, again_ms: now_ms + PATIENCE_MS, waiting });
        Ok(())
    }

    /// Takes answers that have come.
    pub fn receive(&mut self, answered: &mut Vec<(T, Answer)>) {
        let mut buffer = [0; 1500];
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            if from != self.server {
                continue;
            }
            let Some(number) = buffer[..length].first_chunk::<2>().map(|number| u16::from_be_bytes(*number)) else {
                continue;
            };
            let asked = self.asked.get(&number).map(|asked| read_answer(&asked.query, &buffer[..length]));
            if let Some(Some(answer)) = asked {
                let asked = self.asked.remove(&number).expect("just looked");
                answered.push((asked.waiting, answer));
            }
        }
    }

    /// Asks again, or gives up, where it is time to; returns when it is next.
    pub fn go_on(&mut self, now_ms: u64, answered: &mut Vec<(T, Answer)>) -> Option<u64> {
        let due: Vec<u16> =
            self.asked.iter().filter(|(_, asked)| asked.again_ms <= now_ms).map(|(number, _)| *number).collect();
        for number in due {
            let asked = self.asked.get_mut(&number).expect("just found");
            if asked.tries >= TRIES {
                let asked = self.asked.remove(&number).expect("just found");
                answered.push((asked.waiting, Answer::Silence));
            } else {
                asked.tries += 1;
                asked.again_ms = now_ms + PATIENCE_MS;
                let _ = self.socket.send_to(&asked.query, self.server);
            }
        }
        self.asked.values().map(|asked| asked.again_ms).min()
    }
}

fn server_of(text: &str) -> Option<IpAddr> {
    text.lines().find_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
}

fn read_hosts(text: &str) -> BTreeMap<String, Ipv4Addr> {
    let mut hosts = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<Ipv4Addr>) else { continue };
        for name in words {
            hosts.entry(name.to_ascii_lowercase()).or_insert(address);
        }
    }
    hosts
}

/// A question for an IPv4 address; nothing if the name cannot be one.
fn query(number: u16, name: &str) -> Option<Vec<u8>> {
    let mut query = number.to_be_bytes().to_vec();
    // Recursion is wanted; one question.
    query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.len() > 253 {
        return None;
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return None;
        }
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    Some(query)
}

/// What an answer to this query says; nothing if it is none.
fn read_answer(query: &[u8], answer: &[u8]) -> Option<Answer> {
    let header = answer.first_chunk::<12>()?;
    let question = &query[12..];
    let is_answer = header[2] & 0x80 != 0 && header[4..6] == [0, 1];
    if !is_answer || !answer[12..].get(..question.len())?.eq_ignore_ascii_case(question) {
        return None;
    }
    let mut at = 12 + question.len();
    for _ in 0..u16::from_be_bytes([header[6], header[7]]) {
        at = skip_name(answer, at)?;
        let fixed = answer.get(at..at + 10)?;
        let length = usize::from(u16::from_be_bytes([fixed[8], fixed[9]]));
        let value = answer.get(at + 10..at + 10 + length)?;
        if fixed[..4] == [0, 1, 0, 1] {
            let address: [u8; 4] = value.try_into().ok()?;
            return Some(Answer::Address(address.into()));
        }
        at += 10 + length;
    }
    Some(Answer::None)
}

/// Behind a name, which ends with an empty label or points elsewhere.
fn skip_name(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            0 => return Some(at + 1),
            length if length >= 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_behind_an_alias_is_found() {
        let query = query(7, "www.Example.com").unwrap();
        let mut answer = query.clone();
        (answer[2], answer[7]) = (0x81, 2);
        answer.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'x', 0xc0, 12]);
        answer.extend_from_slice(&[0xc0, 40, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 60, 0, 0, 1]);
        assert_eq!(read_answer(&query, &answer), Some(Answer::Address(Ipv4Addr::new(60, 0, 0, 1))));
        for length in 0..answer.len() {
            assert_eq!(read_answer(&query, &answer[..length]), None, "{length}");
        }
        answer.truncate(query.len());
        answer[7] = 0;
        assert_eq!(read_answer(&query, &answer), Some(Answer::None));
        answer[14] ^= 2;
        assert_eq!(read_answer(&query, &answer), None, "of another name");
    }

    #[test]
    fn names_that_cannot_be_are_not_asked_for() {
        for name in ["", "a..b", &"a".repeat(64), &"abc.".repeat(70)] {
            assert_eq!(query(1, name), None, "{name}");
        }
    }

    #[test]
    fn there_is_an_end_to_questions() {
        let mut resolver = Resolver {
            hosts: BTreeMap::new(),
            server: (Ipv4Addr::LOCALHOST, 9).into(),
            socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap(),
            asked: BTreeMap::new(),
        };
        let mut refused = 0;
        for question in 0..70_000_u32 {
            let asked = resolver.ask(&format!("n{question}.example"), question as u16, 0, question);
            refused += u32::from(asked == Err((question, Answer::Silence)));
        }
        assert_eq!((resolver.asked.len(), refused), (MOST_ASKED, 70_000 - MOST_ASKED as u32));
        let mut answered = Vec::new();
        for tried in 1..=u64::from(TRIES) {
            resolver.go_on(tried * PATIENCE_MS, &mut answered);
        }
        assert_eq!(answered.len(), MOST_ASKED, "nobody answered");
        assert!(resolver.ask("again.example", 7, 60_000, 0).is_ok());
    }

    #[test]
    fn the_files_of_the_system_are_read() {
        let hosts = read_hosts("127.0.0.1 localhost\n::1 localhost\n60.0.0.1 Server1 web # a server\n");
        assert_eq!(hosts["server1"], Ipv4Addr::new(60, 0, 0, 1));
        assert_eq!(hosts.len(), 3);
        assert_eq!(server_of("# none\nsearch x\nnameserver 1.2.3.4\n"), Some("1.2.3.4".parse().unwrap()));
    }
}
