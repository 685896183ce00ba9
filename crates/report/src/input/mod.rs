//! From a data directory to a `Run`: which file is read by whom. Files of hosts are read on several threads; the result does
//! not depend on their number.

mod clock;
mod documents;
mod generator;
mod lines;
mod oniontrace;
mod statistics;
mod tables;
mod tgen;
mod tor_log;
mod windows;

use crate::bins::Bins;
use crate::error::{Error, Result};
use crate::run::{Circuit, Damage, Run, Told, TorLog, Transfer};
use base::{ByteSize, StartDate};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The width of bins of what programs tell, in seconds.
const TOLD_WIDTH_S: f64 = 1.0;

/// What a run itself writes is shorter.
const LONGEST_DOCUMENT: ByteSize = ByteSize(512 << 20);

/// The simulator tells of traffic at most this often, whatever the interval of heartbeats.
const SHORTEST_INTERVAL_S: f64 = 0.1;

/// What the files of one host tell.
#[derive(Debug)]
pub(crate) struct HostFacts {
    host: Arc<str>,
    /// The date at which its clock began.
    start: StartDate,
    /// Whether the host's tor reaches the network through a bridge.
    uses_bridge: bool,
    /// Whether its client stands for many users.
    stands_for_many: bool,
    transfers: Vec<Transfer>,
    generators: usize,
    payload: Bins,
    circuits: Vec<Circuit>,
    watches_circuits: bool,
    tors: Vec<TorLog>,
    /// What oniontrace says of the host's tor, for hosts whose tor has no log.
    watched_tor: Option<TorLog>,
    control_port_written: Option<Bins>,
    told: Vec<Told>,
    damage: Vec<Damage>,
}

impl HostFacts {
    fn new(host: &str) -> HostFacts {
        HostFacts {
            host: host.into(),
            start: StartDate::default(),
            uses_bridge: false,
            stands_for_many: false,
            transfers: Vec::new(),
            generators: 0,
            payload: Bins::new(TOLD_WIDTH_S),
            circuits: Vec::new(),
            watches_circuits: false,
            tors: Vec::new(),
            watched_tor: None,
            control_port_written: None,
            told: Vec::new(),
            damage: Vec::new(),
        }
    }
}

impl HostFacts {
    /// What transfers are called that differ by more than their program's behaviour: those to onion services and through
    /// bridges take other ways, and are not mixed with the others.
    fn behaviour_name(&self, behaviour: &str, server: &str) -> String {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        match (host.ends_with(".onion"), self.uses_bridge) {
            (false, false) => behaviour.to_owned(),
            (true, false) => format!("{behaviour} (onion)"),
            (false, true) => format!("{behaviour} (bridge)"),
            (true, true) => format!("{behaviour} (bridge, onion)"),
        }
    }
}

/// Texts that come again and again, stored once.
#[derive(Debug, Default)]
struct Names(BTreeSet<Arc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}

/// The nickname in "$FINGERPRINT~nickname" (control-spec, LongName); empty where it is not said.
fn nickname(relay: &str, names: &mut Names) -> Arc<str> {
    names.get(relay.split_once(['~', '=']).map_or("", |(_, name)| name))
}

/// Reads a data directory. Whatever is missing or broken in it is so in the result; only a folder that is none is refused.
pub fn read(directory: &Path, label: &str) -> Result<Run> {
    let folders = host_folders(directory)?;
    let mut run = Run { directory: directory.to_path_buf(), label: label.to_owned(), ..Run::default() };
    run.config = document(directory, "processed-config.yaml", documents::config, &mut run.damage);
    run.network = document(directory, "tor-network.json", documents::network, &mut run.damage);
    run.stats = document(directory, "sim-stats.json", documents::stats, &mut run.damage);
    run.progress = tables::progress(&directory.join("progress.csv"), &mut run.damage);
    run.windows = windows::read(directory, &mut run.damage);
    run.hosts = folders.iter().map(|(name, _)| name.clone()).collect();
    let interval_s = run.config.as_ref().and_then(|config| config.traffic_interval_s).unwrap_or(1.0);
    let interval_s = interval_s.max(SHORTEST_INTERVAL_S);
    let (facts, traffic) = std::thread::scope(|scope| {
        let table = scope.spawn(|| {
            let mut damage = Vec::new();
            (tables::host_traffic(&directory.join("host-traffic.csv"), interval_s, &mut damage), damage)
        });
        let facts = read_hosts(&run, &folders);
        (facts, table.join().expect("reading a table does not panic"))
    });
    run.traffic = traffic.0;
    run.damage.extend(traffic.1);
    for facts in facts {
        take(facts, &mut run);
    }
    Ok(run)
}

/// What `gnomon tor archive` makes of the folder 'hosts'.
const ARCHIVE: &str = "hosts.tar.xz";

/// The folders under `hosts`, by name; refuses a directory that no run has written.
fn host_folders(directory: &Path) -> Result<Vec<(String, PathBuf)>> {
    let refuse = |why: &str| {
        let hint = match data_directories_in(directory).as_slice() {
            [] => "name the directory that a run has written, such as 'gnomon.data'".to_owned(),
            found => format!("did you mean {}?", found.join(" or ")),
        };
        Error::Input(format!("'{}' is no data directory: {why}; {hint}", directory.display()))
    };
    if !directory.is_dir() {
        return Err(refuse(if directory.exists() { "it is a file" } else { "it does not exist" }));
    }
    let is_run = ["processed-config.yaml", "sim-stats.json"].iter().any(|name| directory.join(name).is_file());
    let hosts = directory.join("hosts");
    if is_run && !hosts.is_dir() && directory.join(ARCHIVE).is_file() {
        let (directory, tables) = (directory.display(), directory.join("report").join("tables"));
        return Err(Error::Input(format!(
            "'{directory}' is archived; unpack it with 'tar -C {directory} -xJf {directory}/{ARCHIVE}', or read the tables in {}",
            tables.display()
        )));
    }
    if !is_run || !hosts.is_dir() {
        return Err(refuse("it lacks 'processed-config.yaml' or the folder 'hosts'"));
    }
    let entries = fs::read_dir(&hosts).map_err(|error| Error::io("read", &hosts, error))?;
    let mut folders = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::io("read", &hosts, error))?.path();
        if let (true, Some(name)) = (path.is_dir(), path.file_name()) {
            folders.push((name.to_string_lossy().into_owned(), path));
        }
    }
    folders.sort();
    Ok(folders)
}

/// Folders of `directory` that look like data directories, for the hint.
fn data_directories_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<String> = entries
        .filter(|path| path.join("processed-config.yaml").is_file() && path.join("hosts").is_dir())
        .map(|path| format!("'{}'", path.display()))
        .collect();
    found.sort();
    found
}

/// Reads a whole document; one that exists but cannot be understood is damage.
fn document<T>(
    directory: &Path,
    name: &str,
    parse: impl Fn(&str) -> std::result::Result<T, String>,
    damage: &mut Vec<Damage>,
) -> Option<T> {
    let path = directory.join(name);
    if !path.exists() {
        return None;
    }
    let text = base::input::text(&path, LONGEST_DOCUMENT);
    let parsed = text.map_err(|error| error.to_string()).and_then(|text| parse(&text));
    match parsed {
        Ok(document) => Some(document),
        Err(why) => {
            damage.push(lines::unreadable(name, &why));
            None
        }
    }
}

/// Facts in the order of hosts.
fn read_hosts(run: &Run, folders: &[(String, PathBuf)]) -> Vec<HostFacts> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let next = AtomicUsize::new(0);
    let mut facts: Vec<(usize, HostFacts)> = std::thread::scope(|scope| {
        let work = || {
            let mut facts = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some((host, folder)) = folders.get(index) else { return facts };
                facts.push((index, read_host(run, host, folder)));
            }
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("reading a host does not panic")).collect()
    });
    facts.sort_by_key(|(index, _)| *index);
    facts.into_iter().map(|(_, facts)| facts).collect()
}

fn read_host(run: &Run, host: &str, folder: &Path) -> HostFacts {
    let mut facts = HostFacts::new(host);
    facts.start = run.config.as_ref().map_or_else(StartDate::default, |config| config.start_date);
    facts.uses_bridge = behaviour(run, host) == "bridge";
    facts.stands_for_many = behaviour(run, host) == "markov";
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.is_file()).collect();
    files.sort();
    for path in files {
        let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let name = format!("hosts/{host}/{file}");
        match program_of(file, &path) {
            Some("tor") => tor_log::read(&path, &name, &mut facts),
            Some("gnomon-traffic") => generator::read(&path, &name, &mut facts),
            Some("tgen") => tgen::read(&path, &name, &behaviour(run, host), &mut facts),
            Some(STATISTICS) => statistics::read(&path, &name, &mut facts),
            Some("oniontrace") => oniontrace::read(&path, &name, &mut facts),
            _ => {}
        }
    }
    let has_outages = run.outages().any(|(name, _)| name == host);
    if has_outages {
        // Each of its tors has a log of its own, in the order of their numbers.
        facts.tors = facts
            .tors
            .into_iter()
            .reduce(|mut first, next| {
                first.go_on(next);
                first
            })
            .into_iter()
            .collect();
    }
    let version = tor_version(folder);
    facts.tors.iter_mut().for_each(|tor| tor.version.clone_from(&version));
    if facts.tors.is_empty() {
        facts.tors.extend(facts.watched_tor.take());
    }
    facts
}

/// "TorVersion Tor 0.4.9.11" in tor's state file.
fn tor_version(folder: &Path) -> Option<String> {
    let text = base::input::text(&folder.join("state"), LONGEST_DOCUMENT).ok()?;
    text.lines().find_map(|line| line.strip_prefix("TorVersion ")).map(str::to_owned)
}

/// A relay's file about itself.
const STATISTICS: &str = "gnomon-relay";

/// Whose output a file is: "EXE.PID.stdout" by its name, gnomon-traffic's under another name and a relay's statistics by how they begin.
fn program_of<'a>(file: &'a str, path: &Path) -> Option<&'a str> {
    let Some(program) = file.strip_suffix(".stdout") else {
        let mut beginning = [0; 8];
        fs::File::open(path).ok()?.read_exact(&mut beginning).ok()?;
        return statistics::is_statistics(&beginning).then_some(STATISTICS);
    };
    let program = program.rsplit_once('.')?.0;
    if matches!(program, "tor" | "gnomon-traffic" | "tgen" | "oniontrace") {
        return Some(program);
    }
    let mut beginning = [0; 16];
    fs::File::open(path).ok()?.read_exact(&mut beginning).ok()?;
    generator::is_output(&beginning).then_some("gnomon-traffic")
}

/// What transfers of a host are called where the program does not say: as the network does, or the host's name without
/// its number.
fn behaviour(run: &Run, host: &str) -> String {
    let of_network = run.network.as_ref().and_then(|network| network.hosts.get(host)?.behaviour.clone());
    of_network.unwrap_or_else(|| host.chars().filter(|c| !c.is_ascii_digit()).collect())
}

fn take(facts: HostFacts, run: &mut Run) {
    run.transfers.extend(facts.transfers);
    run.generators += facts.generators;
    if facts.generators > 0 {
        run.payload.get_or_insert_with(|| Bins::new(TOLD_WIDTH_S)).add_all(&facts.payload);
    }
    run.circuits.extend(facts.circuits);
    run.circuit_watchers += usize::from(facts.watches_circuits);
    run.tors.extend(facts.tors);
    if let Some(bins) = facts.control_port_written {
        run.control_port_written.insert(facts.host.to_string(), bins);
    }
    if !facts.told.is_empty() {
        run.told.insert(facts.host.to_string(), facts.told);
    }
    run.damage.extend(facts.damage);
}
