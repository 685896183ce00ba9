//! `gnomon tor stage`: from a month of the Tor project's archives to two files that networks are sampled from.

use crate::cli::{complain, show, status};
use crate::terminal::Terminal;
use base::wall::WallClock;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tornet::{Archives, Error, Progress, Staged};

/// So often progress is drawn on a terminal, and told elsewhere.
const DRAW: Duration = Duration::from_millis(100);
const TELL: Duration = Duration::from_secs(30);

pub fn command() -> Command {
    let paths = |name, placeholder, help| {
        Arg::new(name)
            .long(name)
            .value_name(placeholder)
            .num_args(1..)
            .action(ArgAction::Append)
            .value_parser(value_parser!(PathBuf))
            .help(help)
    };
    let file =
        |name, help| Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help);
    Command::new("stage")
        .about("Average a month of the public network's documents, to sample networks from")
        .before_help(
            "Examples:\n  gnomon tor stage --consensuses consensuses-2026-10.tar.xz --descriptors server-descriptors-2026-10.tar.xz \\\n      \
             --users userstats-relay-country.csv --geoip /usr/share/tor/geoip\n  \
             gnomon tor new --staged relayinfo_staging_2026-10-01--2026-10-31.json \\\n      \
             --users userinfo_staging_2026-10-01--2026-10-31.json --scale 0.01 net",
        )
        .after_help(
            "PATH is a file, a folder with files in any depth, or an archive (.tar.xz), as CollecTor has them \
             (collector.torproject.org/archive/relay-descriptors). What is written has the form of tornettools' staging files, and its files do \
             for 'gnomon tor new' too. Exit status: 0 staged, 1 a file cannot be written, 2 bad input. More: docs/tor-networks.md",
        )
        .arg(paths("consensuses", "PATH", "Consensuses; the first and the last say which time is staged").required(true))
        .arg(paths("descriptors", "PATH", "Server descriptors of that time: what relays can carry").required(true))
        .arg(paths("bandwidths", "PATH", "Bandwidth files of that time, whose weights replace the consensuses'"))
        .arg(file("users", "Users by country: userstats-relay-country.csv of Tor Metrics"))
        .arg(file("geoip", "Countries of addresses, as in tor's file geoip"))
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("DIR")
                .default_value(".")
                .value_parser(value_parser!(PathBuf))
                .help("The folder for the two files, which replace older ones of the same days"),
        )
        .arg(
            Arg::new("jobs")
                .long("jobs")
                .short('j')
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1024))
                .help("How many threads parse, besides the one that decompresses [default: one for each core]"),
        )
}

pub fn main(matches: &ArgMatches) -> u8 {
    match staged(matches) {
        Ok(text) => {
            show(&text);
            status::SUCCESS
        }
        Err(error) => {
            complain(&error);
            match error {
                Error::Input(_) => status::BAD_INPUT,
                Error::File { .. } => status::FAILED,
            }
        }
    }
}

fn staged(matches: &ArgMatches) -> Result<String, Error> {
    let paths = |name| matches.get_many::<PathBuf>(name).into_iter().flatten().cloned().collect();
    let file = |name| matches.get_one::<PathBuf>(name).cloned();
    let archives = Archives {
        consensuses: paths("consensuses"),
        descriptors: paths("descriptors"),
        bandwidths: paths("bandwidths"),
        geoip: file("geoip"),
        users: file("users"),
    };
    let folder: &PathBuf = matches.get_one("output").expect("it has a default");
    fs::create_dir_all(folder).map_err(|source| Error::File { action: "made", path: folder.clone(), source })?;
    let jobs = matches.get_one::<u32>("jobs").map_or_else(num_cpus::get, |jobs| *jobs as usize);
    let staged = {
        let mut watch = Watch { terminal: Terminal::stderr(), told: WallClock::start() };
        tornet::stage(&archives, jobs, &mut |progress| watch.see(progress))?
    };
    let [relays, users] = tornet::staged_names(&staged).map(|name| folder.join(name));
    write(&relays, &staged.relays)?;
    let users = staged.users.as_ref().map(|shares| write(&users, shares).map(|()| users)).transpose()?;
    Ok(summary(&staged, &relays, users.as_deref()))
}

/// Tells of the progress, now and then.
struct Watch {
    terminal: Terminal,
    told: WallClock,
}

impl Watch {
    fn see(&mut self, progress: Progress) {
        let is_terminal = Terminal::is_terminal();
        if self.told.elapsed() < if is_terminal { DRAW } else { TELL } {
            return;
        }
        self.told = WallClock::start();
        let Progress { what, documents, read, total } = progress;
        let share = read.0 as f64 / total.0.max(1) as f64 * 100.0;
        let line = format!("{what}: {documents} read, {share:.0} % of {} MiB", total.0.div_ceil(1 << 20));
        if is_terminal {
            let line: String = line.chars().take(self.terminal.width()).collect();
            self.terminal.redraw(&line);
        } else {
            show(&(line + "\n"));
        }
    }
}

/// Whole or not at all: a file of that name was complete once.
fn write(path: &Path, content: &impl serde::Serialize) -> Result<(), Error> {
    let failed = |source| Error::File { action: "written", path: path.to_path_buf(), source };
    let part = path.with_extension("part");
    let mut text = serde_json::to_vec_pretty(content).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).map_err(failed)
}

fn summary(staged: &Staged, relays: &Path, users: Option<&Path>) -> String {
    let file = &staged.relays;
    let stats = &file.network_stats;
    let without = file.relays.values().filter(|relay| relay.bandwidth_capacity == 0).count();
    let mut text = format!(
        "staged {} consensuses, {}: {} relays\n\
         at one time {} of them (median): {} guards, {} exits, {} guard-exits, {} others\n",
        staged.consensuses,
        file.days().replace("--", " to "),
        file.relays.len(),
        stats.med_count_total,
        stats.med_count_guard,
        stats.med_count_exit,
        stats.med_count_exitguard,
        stats.med_count_middle
    );
    if without > 0 {
        let _ = writeln!(text, "{without} without a descriptor or a bandwidth in it, which are not sampled");
    }
    let _ = writeln!(text, "  {}", relays.display());
    let mut command = format!("gnomon tor new --staged {}", relays.display());
    if let Some(users) = users {
        let _ = writeln!(text, "  {}", users.display());
        let _ = write!(command, " --users {}", users.display());
    }
    text + "sample a network from it:\n  " + &command + " --scale 0.01 net\n"
}
