//! How a run of a Tor network stands: read from its data directory, which may still grow.
//!
//! Everything is taken from what tor and `gnomon-traffic` wrote, and from `tor-network.json`, which says who is who.

mod reasons;
mod tor_log;
mod transfers;
mod trouble;

use crate::Error;
use base::{ByteSize, StartDate, input};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use tor_log::TorLog;
use transfers::Transfers;
pub use trouble::{Trouble, TroubleKind};

/// What a run itself writes is shorter.
const LONGEST_DOCUMENT: ByteSize = ByteSize(512 << 20);

/// Lines of programs that are longer are taken in pieces, which mean nothing.
const LONGEST_LINE: u64 = 1 << 20;

/// Notable log lines that are told, most frequent first.
const TOLD_MESSAGES: usize = 10;

/// The version of the status as JSON.
const SCHEMA: u32 = 1;

/// Where a run stands.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The version of this form: grows when a member changes its meaning or goes.
    pub schema: u32,
    pub profile: String,
    pub seed: u64,
    /// Seconds of simulated time so far; None before the first row of `progress.csv`.
    pub simulated_s: Option<f64>,
    /// Seconds of simulated time that the experiment wants.
    pub stop_s: Option<f64>,
    /// Seconds of wall time so far, and those that are left at the speed of the last minute; None for what is not known yet, and the latter
    /// for runs that have ended.
    pub wall_s: Option<f64>,
    pub left_s: Option<f64>,
    pub state: State,
    /// What keeps the whole network from carrying anything; None where nothing is known to.
    pub trouble: Option<Trouble>,
    /// How often a relay has gone away so far, as the experiment wants it, and how many are away.
    pub outages: usize,
    pub away: usize,
    pub roles: Vec<RoleStatus>,
    pub transfers: Vec<TransferStatus>,
    pub log: LogStatus,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Or it was broken off: it has not written its statistics, the last thing that it does.
    Running,
    /// It has ended before the experiment's end, as somebody wanted.
    Stopped,
    Finished,
}

/// The tors of one role.
#[derive(Debug, Serialize)]
pub struct RoleStatus {
    /// As in `tor-network.json`; clients with their behaviour before it.
    pub role: String,
    pub tors: usize,
    /// Those that have begun to log.
    pub started: usize,
    /// Those at 100 %.
    pub bootstrapped: usize,
    /// Seconds of simulated time at which the first, the median and the last of these got there.
    pub bootstrapped_s: Option<Spread>,
    /// Those that are not there yet, with how far they are in percent.
    pub behind: BTreeMap<String, u32>,
}

/// The smallest, the middle and the largest of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub first: f64,
    pub median: f64,
    pub last: f64,
}

/// The transfers of one behaviour and size.
#[derive(Debug, Serialize)]
pub struct TransferStatus {
    /// Those to onion services and through bridges count as "onion" and "bridge".
    pub behaviour: String,
    /// What was asked for, in bytes; None for behaviours whose transfers have no size of their own.
    pub bytes: Option<u64>,
    pub done: usize,
    pub failed: usize,
    /// Medians over those done, in seconds since the transfer began.
    pub first_byte_s: Option<f64>,
    pub last_byte_s: Option<f64>,
    /// How those that failed did: "stage: reason", and how many.
    pub errors: BTreeMap<String, usize>,
}

/// A kind of warning that every private network gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectedWarning {
    /// What is in its text.
    pub text: &'static str,
    pub times: usize,
    /// What it means, in a sentence.
    pub why: &'static str,
}

/// What tors complained about.
#[derive(Debug, Default, Serialize)]
pub struct LogStatus {
    /// Warnings but for the expected ones.
    pub warnings: usize,
    /// Warnings that every tor of a testing network gives.
    pub expected_warnings: usize,
    /// These by kind, the most frequent first.
    pub expected: Vec<ExpectedWarning>,
    pub errors: usize,
    /// The most frequent of both, without the expected ones: text with numbers left out, and how often.
    pub messages: Vec<(String, usize)>,
}

/// `tor-network.json`, as far as it is needed here.
#[derive(Deserialize)]
struct NetworkFile {
    profile: String,
    seed: u64,
    stop_s: Option<f64>,
    hosts: BTreeMap<String, HostEntry>,
}

#[derive(Deserialize)]
struct HostEntry {
    role: String,
    behaviour: Option<String>,
    outages: Option<Vec<OutageEntry>>,
}

#[derive(Deserialize)]
struct OutageEntry {
    ended_s: f64,
    until_s: Option<f64>,
}

/// The order in which roles are told; those of clients come last, by behaviour.
const ROLES: &[&str] = &["authority", "guard", "exit", "guard-exit", "middle", "bridge", "onion-service"];

/// What hosts run as tor, and where they log: all in tor's form, but for arti.
const TORS: [(&str, &str); 4] =
    [("tor", ".stdout"), ("gnomon-relay", ".stdout"), ("gnomon-onion-client", ".stdout"), ("arti", ".stderr")];

impl Status {
    /// Reads the data directory of a run, finished or not.
    pub fn read(data: &Path) -> Result<Status, Error> {
        let (network, start) = (network_file(data)?, start_date(data));
        let mut roles: BTreeMap<(usize, String), Vec<(String, TorLog)>> = BTreeMap::new();
        let mut transfers = Transfers::default();
        let mut messages: BTreeMap<String, usize> = BTreeMap::new();
        let mut log = LogStatus::default();
        let mut expected: BTreeMap<&str, ExpectedWarning> = BTreeMap::new();
        for (name, host) in &network.hosts {
            let files = outputs(&data.join("hosts").join(name))?;
            for file in files.iter().filter(|file| is_output_of(file, "gnomon-traffic", ".stdout")) {
                transfers.read(open(file)?, way_of(host)).map_err(Error::reading(file))?;
            }
            if host.role == "server" {
                continue;
            }
            let mut tor = TorLog::default();
            let is_log = |file: &&PathBuf| TORS.iter().any(|(program, stream)| is_output_of(file, program, stream));
            for file in files.iter().filter(is_log) {
                tor.read(open(file)?, start).map_err(Error::reading(file))?;
            }
            log.warnings += tor.warnings;
            for (part, (times, known)) in std::mem::take(&mut tor.expected) {
                log.expected_warnings += times;
                expected.entry(part).or_insert(ExpectedWarning { text: part, times: 0, why: known.why }).times += times;
            }
            log.errors += tor.errors;
            for (message, count) in std::mem::take(&mut tor.messages) {
                *messages.entry(message).or_default() += count;
            }
            roles.entry(role_of(host)).or_default().push((name.clone(), tor));
        }
        let mut messages: Vec<(String, usize)> = messages.into_iter().collect();
        messages.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        messages.truncate(TOLD_MESSAGES);
        log.messages = messages;
        log.expected = expected.into_values().collect();
        log.expected.sort_by(|a, b| b.times.cmp(&a.times).then(a.text.cmp(b.text)));
        let (progress, stop_s) = (progress(data), network.stop_s);
        let simulated_s = progress.last().map(|row| row.0);
        let is_early = simulated_s.zip(stop_s).is_some_and(|(simulated, stop)| simulated < stop);
        let outages = network.hosts.values().flat_map(|host| host.outages.iter().flatten());
        let past: Vec<&OutageEntry> =
            outages.filter(|outage| simulated_s.is_some_and(|now| outage.ended_s <= now)).collect();
        let is_away = |outage: &OutageEntry| outage.until_s.zip(simulated_s).is_none_or(|(until, now)| until > now);
        let has_ended = data.join("sim-stats.json").is_file();
        Ok(Status {
            schema: SCHEMA,
            trouble: Trouble::find(data)?,
            wall_s: progress.last().map(|row| row.1),
            left_s: if has_ended { None } else { stop_s.and_then(|stop_s| left_s(&progress, stop_s)) },
            outages: past.len(),
            away: past.iter().filter(|outage| is_away(outage)).count(),
            profile: network.profile,
            seed: network.seed,
            simulated_s,
            stop_s,
            state: match (has_ended, is_early) {
                (false, _) => State::Running,
                (true, true) => State::Stopped,
                (true, false) => State::Finished,
            },
            roles: roles.into_iter().map(|((_, role), tors)| role_status(role, tors)).collect(),
            transfers: transfers.status(),
            log,
        })
    }

    /// The status as JSON, for other programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("JSON of plain values") + "\n"
    }
}

fn network_file(data: &Path) -> Result<NetworkFile, Error> {
    let path = data.join("tor-network.json");
    if !data.is_dir() {
        return Err(Error::input(format!("{} is no folder; name the data directory of a run", data.display())));
    }
    let text = input::text(&path, LONGEST_DOCUMENT).map_err(|error| {
        Error::input(format!(
            "{} {error}; is {} the data directory of a network that 'gnomon tor new' made?",
            path.display(),
            data.display()
        ))
    })?;
    serde_json::from_str(&text).map_err(|error| Error::input(format!("{}: {error}", path.display())))
}

fn role_of(host: &HostEntry) -> (usize, String) {
    let place = ROLES.iter().position(|role| *role == host.role).unwrap_or(ROLES.len());
    let name = match &host.behaviour {
        Some(behaviour) => format!("{behaviour} {}", host.role),
        None => host.role.clone(),
    };
    (place, name)
}

/// What tells a client's transfers from others of the same kind: that they go to onion services, or through bridges.
fn way_of(host: &HostEntry) -> Option<&str> {
    host.behaviour.as_deref().filter(|behaviour| matches!(*behaviour, "onion" | "bridge"))
}

fn role_status(role: String, tors: Vec<(String, TorLog)>) -> RoleStatus {
    let mut times: Vec<f64> = tors.iter().filter_map(|(_, log)| log.bootstrapped_s).collect();
    let behind = tors.iter().filter(|(_, log)| log.bootstrapped_s.is_none());
    RoleStatus {
        role,
        tors: tors.len(),
        started: tors.iter().filter(|(_, log)| log.has_started).count(),
        bootstrapped: times.len(),
        behind: behind.map(|(name, log)| (name.clone(), log.percent)).collect(),
        bootstrapped_s: spread(&mut times),
    }
}

fn spread(values: &mut [f64]) -> Option<Spread> {
    let median = median(values)?;
    Some(Spread { first: values[0], median, last: values[values.len() - 1] })
}

/// Sorts the values; the median is the mean of the middle two where there is no middle.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The files of a host's folder; none where the folder is not there yet.
fn outputs(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(Error::reading(folder))?.path());
    }
    files.sort();
    Ok(files)
}

/// Whether it is `PROGRAM.PID.stdout`.
fn is_output_of(file: &Path, program: &str, stream: &str) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let rest = name.strip_prefix(program).and_then(|rest| rest.strip_prefix('.'));
    let pid = rest.and_then(|rest| rest.strip_suffix(stream));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

fn open(file: &Path) -> Result<BufReader<File>, Error> {
    let open = input::open(file).map_err(|error| Error::input(format!("{} {error}", file.display())))?;
    Ok(BufReader::new(open))
}

/// When the clocks of hosts began, as the run's configuration says.
fn start_date(data: &Path) -> StartDate {
    let text = input::text(&data.join("processed-config.yaml"), LONGEST_DOCUMENT).unwrap_or_default();
    let value = text.lines().find_map(|line| line.trim_start().strip_prefix("start_date: "));
    value.and_then(|date| StartDate::parse(date).ok()).unwrap_or_default()
}

/// (simulated, wall) seconds of the rows of `progress.csv`, which a running run appends to.
fn progress(data: &Path) -> Vec<(f64, f64)> {
    let text = input::text(&data.join("progress.csv"), LONGEST_DOCUMENT).unwrap_or_default();
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let row = |line: &str| {
        let mut fields = line.split(',').map(str::parse);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    complete.lines().filter_map(row).collect()
}

/// Wall time to the end at the speed of the last minute; None while nothing moves.
fn left_s(progress: &[(f64, f64)], stop_s: f64) -> Option<f64> {
    const RECENT_S: f64 = 60.0;
    let last = progress.last()?;
    let first = progress.iter().find(|row| row.1 >= last.1 - RECENT_S)?;
    let speed = (last.0 - first.0) / (last.1 - first.1);
    (speed.is_finite() && speed > 0.0).then(|| (stop_s - last.0).max(0.0) / speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> tempfile::TempDir {
        let data = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| {
            let path = data.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        write(
            "tor-network.json",
            r#"{"profile":"tiny","seed":3,"stop_s":180.0,"hosts":{
              "guard1":{"role":"guard","behaviour":null},"guard2":{"role":"guard","behaviour":null},
              "server1":{"role":"server","behaviour":null},"webclient1":{"role":"client","behaviour":"web"}}}"#,
        );
        write("progress.csv", "sim_s,wall_s\n10.5,1\n20.5,2\n30");
        write(
            "hosts/guard1/tor.1000.stdout",
            "Jan 01 00:00:11.000 [notice] Bootstrapped 5% (conn): Connecting\nJan 01 00:00:40.500 [notice] Bootstrapped 100% (done): Done\n\
             Jan 01 00:00:41.000 [warn] Client asked me to extend back to the previous hop 20.0.0.1:9001.\n",
        );
        write(
            "hosts/guard2/tor.1000.stdout",
            "Jan 01 00:00:11.000 [warn] You are running Tor as root. You don't need to\n\
             Jan 01 00:00:12.000 [notice] Bootstrapped 45% (requesting_descriptors): Asking\n",
        );
        let transfer = |first: f64, last: &str, error: &str| {
            format!(
                r#"{{"kind":"transfer","behaviour":"web","bytes":327680,"first_byte":{first},"last_byte":{last},"error":{error}}}"#
            )
        };
        let lines = [
            r#"{"kind":"start","version":"0"}"#.to_owned(),
            transfer(0.5, "1.5", "null"),
            transfer(0.7, "2.5", "null"),
            transfer(0.7, "null", r#"{"stage":"transfer","reason":"timeout","detail":""}"#),
        ];
        write("hosts/webclient1/gnomon-traffic.1001.stdout", &(lines.join("\n") + "\n{\"kind\":\"trans"));
        data
    }

    #[test]
    fn a_running_run_is_told_as_far_as_it_is() {
        let data = run();
        let status = Status::read(data.path()).expect("a status");
        assert_eq!((status.simulated_s, status.stop_s, status.state), (Some(20.5), Some(180.0), State::Running));
        // 10 s of simulated time in the last second of wall time.
        assert_eq!((status.wall_s, status.left_s), (Some(2.0), Some(15.95)));
        let guards = &status.roles[0];
        assert_eq!((guards.role.as_str(), guards.tors, guards.started, guards.bootstrapped), ("guard", 2, 2, 1));
        assert_eq!(guards.bootstrapped_s, Some(Spread { first: 40.5, median: 40.5, last: 40.5 }));
        assert_eq!(guards.behind, BTreeMap::from([("guard2".to_owned(), 45)]));
        let clients = &status.roles[1];
        assert_eq!((clients.role.as_str(), clients.tors, clients.started), ("web client", 1, 0));
    }

    #[test]
    fn a_run_that_was_stopped_is_not_finished() {
        let data = run();
        fs::write(data.path().join("sim-stats.json"), "{}").expect("a file");
        assert_eq!(Status::read(data.path()).expect("a status").state, State::Stopped);
        fs::write(data.path().join("progress.csv"), "sim_s,wall_s\n10.5,1\n180,2\n").expect("a file");
        let status = Status::read(data.path()).expect("a status");
        assert_eq!(status.state, State::Finished);
        assert_eq!(status.left_s, None);
        assert!(status.json().contains("\"state\": \"finished\"") && status.json().contains("\"schema\": 1"));
    }

    #[test]
    fn transfers_are_counted_by_behaviour_and_size() {
        let status = Status::read(run().path()).expect("a status");
        let [web] = &status.transfers[..] else { panic!("{:?}", status.transfers) };
        assert_eq!((web.behaviour.as_str(), web.bytes, web.done, web.failed), ("web", Some(327_680), 2, 1));
        assert_eq!((web.first_byte_s, web.last_byte_s), (Some(0.6), Some(2.0)));
        assert_eq!(web.errors, BTreeMap::from([("transfer: timeout".to_owned(), 1)]));
    }

    #[test]
    fn warnings_that_every_testing_network_gives_are_counted_apart() {
        let status = Status::read(run().path()).expect("a status");
        assert_eq!((status.log.warnings, status.log.expected_warnings, status.log.errors), (1, 1, 0));
        let [expected] = &status.log.expected[..] else { panic!("{:?}", status.log.expected) };
        assert!(expected.times == 1 && !expected.why.is_empty(), "{expected:?}");
        assert_eq!(status.log.messages[0].1, 1);
        assert!(status.log.messages[0].0.starts_with("Client asked me to extend back"), "{:?}", status.log.messages);
    }

    #[test]
    fn a_folder_without_a_network_is_refused_with_what_belongs_there() {
        let empty = tempfile::tempdir().expect("a temporary folder");
        let error = Status::read(empty.path()).expect_err("nothing there");
        assert!(error.to_string().contains("gnomon tor new"), "{error}");
    }
}
