//! What keeps a whole network from carrying anything: there was no consensus, or no circuit led to a server.
//!
//! In a network that works this costs little, however large it is: the first authority's log is read until it has published a consensus, and the
//! first client's transfers until one had a circuit. More is read only where these are missing.

use super::reasons::{HAS_EXITS, LACKS_EXITS, Place, Reasons};
use super::tor_log::Entry;
use super::{
    HostEntry, LONGEST_LINE, NetworkFile, TORS, is_output_of, network_file, open, outputs, progress, start_date,
};
use crate::Error;
use base::{StartDate, input};
use serde::Serialize;
use std::fmt::Write;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Clients that began so short a time ago may still be on their way to their first circuit, in seconds.
const CLIENTS_NEED_S: f64 = 60.0;
/// When it publishes, an authority needs some of the second in which a consensus becomes valid.
const PUBLISHING_S: f64 = 1.0;

/// What an authority's log says when it has a consensus, and when it tries to have one.
const PUBLISHED: [&str; 2] = ["Published ns consensus", "Published microdesc consensus"];
const PUBLISHES: &str = "Time to publish the consensus";
const VALID_AFTER: &str = "Choosing valid-after time in vote as ";

/// Why a network carried nothing, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    pub kind: TroubleKind,
    /// Nothing is wrong: the run has not come so far yet.
    pub is_early: bool,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    NoConsensus,
    NoCircuit,
}

impl Trouble {
    /// Looks for one in the data directory of a run, finished or not. `None` where the network works, where it is not known, and for
    /// experiments that `gnomon tor new` did not make.
    pub fn find(data: &Path) -> Result<Option<Trouble>, Error> {
        if !data.join("tor-network.json").is_file() {
            return Ok(None);
        }
        let Some((now_s, _)) = progress(data).last().copied() else { return Ok(None) };
        let run = Run { data, network: network_file(data)?, start: start_date(data), now_s };
        match run.consensus()? {
            Consensus::Missing(trouble) => Ok(Some(trouble)),
            Consensus::Published => run.circuits(""),
            Consensus::Unknown => {
                run.circuits("; whether there was a consensus is not known: the authorities' logs have no notices")
            }
        }
    }
}

/// What the authorities' logs say.
enum Consensus {
    Published,
    Missing(Trouble),
    Unknown,
}

/// What the log of one authority says.
#[derive(Default)]
struct Authority {
    has_published: bool,
    has_tried: bool,
    has_notices: bool,
    /// When its first consensus will be valid, in seconds of simulated time.
    due_s: Option<f64>,
    reasons: Reasons,
}

/// What clients' transfers came to; none of them had a circuit.
#[derive(Default)]
struct Failures {
    clients: usize,
    transfers: usize,
    /// Some were refused rather than left to wait: there may have been circuits.
    were_refused: bool,
}

struct Run<'a> {
    data: &'a Path,
    network: NetworkFile,
    start: StartDate,
    now_s: f64,
}

impl Run<'_> {
    fn consensus(&self) -> Result<Consensus, Error> {
        let mut authorities = Vec::new();
        for (name, _) in self.hosts(|host| host.role == "authority") {
            let authority = self.authority(name)?;
            if authority.has_published {
                return Ok(Consensus::Published);
            }
            authorities.push(authority);
        }
        let due_s = authorities.iter().filter_map(|one| one.due_s).reduce(f64::min).or_else(|| self.first_due_s());
        let have_tried = authorities.iter().any(|one| one.has_tried);
        let text = match due_s.filter(|due_s| self.now_s < due_s + PUBLISHING_S) {
            Some(due_s) if !have_tried => {
                let text = format!(
                    "no consensus yet: the first is due after {due_s:.0} s, and the run is at {:.0} s",
                    self.now_s
                );
                return Ok(Consensus::Missing(Trouble { kind: TroubleKind::NoConsensus, is_early: true, text }));
            }
            _ if authorities.iter().all(|one| !one.has_notices && one.reasons.best().is_none()) => {
                return Ok(Consensus::Unknown);
            }
            _ => self.no_consensus(&authorities),
        };
        Ok(Consensus::Missing(Trouble { kind: TroubleKind::NoConsensus, is_early: false, text }))
    }

    /// Reads an authority's log until it has published.
    fn authority(&self, name: &str) -> Result<Authority, Error> {
        let mut found = Authority::default();
        for file in self.logs(name)? {
            let place = |number| Place { file: self.shown(&file), line: number };
            each_line(&file, |number, line| {
                let Some(entry) = Entry::read(line) else { return ControlFlow::Continue(()) };
                found.has_notices |= entry.is_notice();
                found.has_tried |= entry.message.starts_with(PUBLISHES);
                if let Some(date) = entry.message.strip_prefix(VALID_AFTER) {
                    found.due_s = found.due_s.or_else(|| self.due_s(date));
                }
                if PUBLISHED.contains(&entry.message) {
                    found.has_published = true;
                    return ControlFlow::Break(());
                }
                found.reasons.note(entry, || place(number));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found)
    }

    fn no_consensus(&self, authorities: &[Authority]) -> String {
        let all = authorities.len();
        let silent = authorities.iter().filter(|one| !one.has_notices && one.reasons.best().is_none()).count();
        let waiting = authorities.iter().filter(|one| one.has_notices && !one.has_tried).count();
        let have_tried = authorities.iter().any(|one| one.has_tried);
        let counts = |one: &&Authority| one.has_tried || !one.has_notices || !have_tried;
        let mut common = Reasons::default();
        for best in authorities.iter().filter(counts).filter_map(|one| one.reasons.best()) {
            common.add(best.clone_once());
        }
        let mut text = "no consensus: ".to_owned();
        let _ = match common.best() {
            Some(best) => write!(text, "{} of {all} authorities wrote {best}", best.times),
            None => write!(text, "none of {all} authorities published one, and their logs name no reason"),
        };
        if waiting > 0 {
            let _ = write!(text, "; {waiting} had not voted yet");
        }
        if silent > 0 {
            let _ = write!(text, "; {silent} wrote nothing");
        }
        text
    }

    /// Seconds to a moment such as "2000-01-01 00:00:30: consensus_set=0, last_interval=30".
    fn due_s(&self, text: &str) -> Option<f64> {
        let date = StartDate::parse(text.get(.."2000-01-01 00:00:30".len())?).ok()?;
        Some(date.unix_seconds().checked_sub(self.start.unix_seconds())? as f64)
    }

    /// When tor publishes first by the authorities' settings: at a multiple of the interval since midnight.
    fn first_due_s(&self) -> Option<f64> {
        let text = input::text(&self.data.join("conf/authority.torrc"), super::LONGEST_DOCUMENT).ok()?;
        let value = text.lines().find_map(|line| line.strip_prefix("TestingV3AuthInitialVotingInterval "))?;
        let interval_s: u64 = value.strip_suffix(" seconds")?.parse().ok().filter(|interval_s| *interval_s > 0)?;
        Some((interval_s - self.start.unix_seconds() % interval_s) as f64)
    }

    /// Whether a circuit led to a server; `doubt` is what is not known of the consensus.
    fn circuits(&self, doubt: &str) -> Result<Option<Trouble>, Error> {
        let Some(failures) = self.failures()? else { return Ok(None) };
        let mut reasons = Reasons::default();
        let (mut clients, mut first_s, mut has_notices) = (0, f64::INFINITY, false);
        for (name, _) in self.hosts(|host| host.role == "client") {
            clients += 1;
            let log = self.client(name, &mut reasons)?;
            if failures.transfers == 0 && log.is_bootstrapped {
                return Ok(None);
            }
            has_notices |= log.has_notices;
            first_s = log.first_s.map_or(first_s, |at_s| first_s.min(at_s));
        }
        let kind = TroubleKind::NoCircuit;
        if failures.transfers == 0 {
            if !has_notices {
                return Ok(None);
            }
            let since_s = self.now_s - first_s;
            if since_s < CLIENTS_NEED_S {
                let text = format!("no circuit yet: the first of {clients} clients began {since_s:.0} s ago");
                return Ok(Some(Trouble { kind, is_early: true, text }));
            }
        }
        // The authorities' own words come first.
        let mut all = self.lack_of_exits()?;
        all.extend(reasons);
        let mut text = failures.text(clients);
        let _ = match all.best() {
            Some(best) => write!(text, "; {best}"),
            None => write!(text, "; the logs of clients and authorities name no reason"),
        };
        text += &self.relays_behind()?;
        text += doubt;
        Ok(Some(Trouble { kind, is_early: false, text }))
    }

    /// The transfers that ended; `None` as soon as one is found that had a circuit, and where there are no clients.
    fn failures(&self) -> Result<Option<Failures>, Error> {
        let (mut failures, mut has_clients) = (Failures::default(), false);
        for (name, _) in self.hosts(|host| host.role == "client") {
            has_clients = true;
            let before = failures.transfers;
            let mut had_circuit = false;
            for file in self.files(name)?.iter().filter(|file| is_output_of(file, "gnomon-traffic", ".stdout")) {
                each_line(file, |_, line| {
                    if !line.starts_with("{\"kind\":\"transfer\"") {
                        return ControlFlow::Continue(());
                    }
                    had_circuit = !line.contains("\"socks\":null");
                    failures.transfers += 1;
                    let is_late =
                        ["timeout", "stall"].iter().any(|why| line.contains(&format!("\"reason\":\"{why}\"")));
                    failures.were_refused |= !is_late;
                    if had_circuit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                if had_circuit {
                    return Ok(None);
                }
            }
            failures.clients += usize::from(failures.transfers > before);
        }
        Ok(has_clients.then_some(failures))
    }

    fn client(&self, name: &str, reasons: &mut Reasons) -> Result<ClientLog, Error> {
        let mut log = ClientLog::default();
        for file in self.logs(name)? {
            each_line(&file, |number, line| {
                if let Some(entry) = Entry::read(line) {
                    log.has_notices |= entry.is_notice();
                    log.first_s = log.first_s.or_else(|| entry.since(self.start));
                    log.is_bootstrapped |= entry.bootstrap_percent() == Some(100);
                    reasons.note(entry, || Place { file: self.shown(&file), line: number });
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(log)
    }

    /// What authorities noted of consensuses without exits.
    fn lack_of_exits(&self) -> Result<Reasons, Error> {
        let mut reasons = Reasons::default();
        for (name, _) in self.hosts(|host| host.role == "authority") {
            for file in self.logs(name)? {
                each_line(&file, |number, line| {
                    let is_meant =
                        |entry: &Entry<'_>| [LACKS_EXITS, HAS_EXITS].iter().any(|part| entry.message.starts_with(part));
                    if let Some(entry) = Entry::read(line).filter(is_meant) {
                        reasons.note(entry, || Place { file: self.shown(&file), line: number });
                    }
                    ControlFlow::Continue(())
                })?;
            }
        }
        Ok(reasons)
    }

    /// What is to be added where relays have not come up.
    fn relays_behind(&self) -> Result<String, Error> {
        let (mut all, mut behind) = (0, 0);
        for (name, _) in self.hosts(|host| matches!(host.role.as_str(), "guard" | "exit" | "guard-exit" | "middle")) {
            all += 1;
            let mut is_bootstrapped = false;
            for file in self.logs(name)? {
                each_line(&file, |_, line| {
                    is_bootstrapped |= Entry::read(line).and_then(|entry| entry.bootstrap_percent()) == Some(100);
                    if is_bootstrapped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
            }
            behind += usize::from(!is_bootstrapped);
        }
        Ok(if behind > 0 { format!("; {behind} of {all} relays are not bootstrapped") } else { String::new() })
    }

    fn hosts(&self, is_meant: impl Fn(&HostEntry) -> bool) -> impl Iterator<Item = (&String, &HostEntry)> {
        self.network.hosts.iter().filter(move |(_, host)| is_meant(host))
    }

    fn files(&self, host: &str) -> Result<Vec<PathBuf>, Error> {
        outputs(&self.data.join("hosts").join(host))
    }

    fn logs(&self, host: &str) -> Result<Vec<PathBuf>, Error> {
        let is_log = |file: &PathBuf| TORS.iter().any(|(program, stream)| is_output_of(file, program, stream));
        Ok(self.files(host)?.into_iter().filter(is_log).collect())
    }

    fn shown(&self, file: &Path) -> String {
        file.strip_prefix(self.data).unwrap_or(file).display().to_string()
    }
}

/// What the log of one client says.
#[derive(Default)]
struct ClientLog {
    has_notices: bool,
    is_bootstrapped: bool,
    first_s: Option<f64>,
}

impl Failures {
    fn text(&self, clients: usize) -> String {
        let Failures { transfers, clients: theirs, .. } = self;
        match (transfers, self.were_refused) {
            (0, _) => format!("no circuit was built: none of {clients} clients is bootstrapped"),
            (_, false) => {
                format!(
                    "no circuit was built to a server: all {transfers} transfers of {theirs} clients waited for one in vain"
                )
            }
            (_, true) => {
                format!("no transfer came through a circuit: all {transfers} of {theirs} clients failed before")
            }
        }
    }
}

/// Gives each complete line, with its number from 1, until it is enough. Pieces of lines that are too long count as lines.
fn each_line(file: &Path, mut take: impl FnMut(usize, &str) -> ControlFlow<()>) -> Result<(), Error> {
    let mut reader = open(file)?;
    let (mut line, mut number) = (Vec::new(), 1);
    while (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(Error::reading(file))? > 0 {
        if line.last() == Some(&b'\n') {
            if take(number, &String::from_utf8_lossy(&line)).is_break() {
                break;
            }
            number += 1;
        }
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
