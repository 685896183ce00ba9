//! The command line.

mod help;

use crate::client::{self, Outcome};
use crate::config::{self, BadInput, Peer};
use crate::flood::{self, Flood};
use crate::monitor::{self, Watch};
use crate::output::Output;
use crate::phold;
use crate::quantity;
use crate::server::{self, Settings};
use crate::sockets;
use lexopt::Arg;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Everything that was asked for is done.
const SUCCESS: u8 = 0;
/// A transfer failed, or the program could not do its work.
const FAILED: u8 = 1;
/// Something is wrong with what the user gave.
const BAD_INPUT: u8 = 2;

/// Does what the command line says; `args` are without the program's name.
pub fn main(args: Vec<OsString>) -> ExitCode {
    let status = match dispatch(args) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("gnomon-traffic: {}", error.to_string().replace('\n', "\ngnomon-traffic: "));
            BAD_INPUT
        }
    };
    ExitCode::from(status)
}

fn dispatch(args: Vec<OsString>) -> Result<u8, BadInput> {
    let mut parser = lexopt::Parser::from_args(args);
    match parser.next().map_err(bad)? {
        Some(Arg::Value(word)) => match word.to_str() {
            Some("server") => serve(parser),
            Some("client") => run_client(parser),
            Some("monitor") => watch(parser),
            Some("phold") => hold(parser),
            Some("flood") => flood(parser),
            Some("sockets") => open_sockets(parser),
            Some("check") => check(parser),
            Some("help") => show(&help_topic(&mut parser)?),
            _ => {
                let known = ["server", "client", "monitor", "phold", "flood", "sockets", "check", "help"];
                let word = word.to_string_lossy();
                Err(BadInput::one(format!("'{word}' is no command{}", config::remedy(&word, &known))))
            }
        },
        Some(Arg::Short('h') | Arg::Long("help")) => show(&help::overview()),
        Some(Arg::Short('V') | Arg::Long("version")) => {
            show(&format!("gnomon-traffic {}\n", env!("CARGO_PKG_VERSION")))
        }
        Some(arg) => Err(bad(arg.unexpected())),
        None => Err(BadInput::one("say what to do: server, client, monitor, phold, flood, sockets, check or help")),
    }
}

fn help_topic(parser: &mut lexopt::Parser) -> Result<String, BadInput> {
    let topic = match parser.next().map_err(bad)? {
        Some(Arg::Value(word)) => word.to_string_lossy().into_owned(),
        Some(arg) => return Err(bad(arg.unexpected())),
        None => return Ok(help::overview()),
    };
    help::topic(&topic)
        .ok_or_else(|| BadInput::one(format!("no help on '{topic}'{}", config::remedy(&topic, help::TOPICS))))
}

fn show(text: &str) -> Result<u8, BadInput> {
    use std::io::Write;
    // Whoever reads may have seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(SUCCESS)
}

fn bad(error: lexopt::Error) -> BadInput {
    BadInput::one(format!("{error}; see --help"))
}

fn text(parser: &mut lexopt::Parser) -> Result<String, BadInput> {
    parser.value().map_err(bad)?.into_string().map_err(|word| BadInput::one(format!("{word:?} is not UTF-8")))
}

/// The value of an option, read; a problem names the option.
fn value<T>(
    parser: &mut lexopt::Parser,
    name: &str,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, BadInput> {
    let text = text(parser)?;
    read(&text).map_err(|message| BadInput::one(format!("--{name}: {message}")))
}

/// Prints why the program cannot do its work.
fn failed(error: &std::io::Error) -> u8 {
    eprintln!("gnomon-traffic: {error}");
    FAILED
}

fn run_client(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let Some((file, options)) = client_arguments(&mut parser)? else { return show(&help::client()) };
    let config = config::from_options(file.as_deref(), &options)?;
    match client::run(&config, &mut Output::stdout()) {
        Ok(Outcome::Success) => Ok(SUCCESS),
        Ok(Outcome::Failure) => Ok(FAILED),
        Err(error) => Ok(failed(&error)),
    }
}

/// A file and options; `None` if help is asked for.
fn client_arguments(parser: &mut lexopt::Parser) -> Result<Option<(Option<PathBuf>, Vec<(String, String)>)>, BadInput> {
    let (mut file, mut options) = (None, Vec::new());
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Arg::Long(name) if config::flag(name).is_some() => {
                let name = name.to_owned();
                options.push((name, text(parser)?));
            }
            Arg::Long(name) => {
                let known: Vec<&str> = config::OPTIONS.iter().map(|option| option.name).collect();
                let remedy = config::remedy(name, &known);
                return Err(BadInput::one(format!("--{name}: no such option{remedy}")));
            }
            arg => return Err(bad(arg.unexpected())),
        }
    }
    if file.is_none() && options.is_empty() {
        return Err(BadInput::one(
            "say what to fetch: a FILE.yaml, or --server HOST:PORT; see 'gnomon-traffic client --help'",
        ));
    }
    Ok(Some((file, options)))
}

fn check(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let Some((file, options)) = client_arguments(&mut parser)? else { return show(&help::client()) };
    let config = config::from_options(file.as_deref(), &options)?;
    let kinds: Vec<&str> = config.behaviours.iter().map(|behaviour| behaviour.kind.name()).collect();
    show(&format!(
        "valid: {} ({})\n",
        file.map_or("the options".into(), |file| file.display().to_string()),
        kinds.join(", ")
    ))
}

fn serve(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let mut settings = Settings { listen: Vec::new(), log: false, idle: Duration::from_secs(300) };
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return show(&help::server()),
            Arg::Short('l') | Arg::Long("listen") => {
                settings.listen.push(value(&mut parser, "listen", server::listen_address)?);
            }
            Arg::Long("log") => settings.log = true,
            Arg::Long("idle") => settings.idle = value(&mut parser, "idle", quantity::duration)?,
            arg => return Err(bad(arg.unexpected())),
        }
    }
    if settings.listen.is_empty() {
        settings.listen.push(server::USUAL_ADDRESS);
    }
    match server::run(settings, &mut Output::stdout()) {
        Ok(()) => Ok(SUCCESS),
        Err(error) => Ok(failed(&error)),
    }
}

fn watch(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let usual = Peer { host: "127.0.0.1".into(), port: 9051 };
    let events = vec!["CIRC".into(), "BW".into()];
    let mut watch = Watch { control: usual, password: None, events, wait: Duration::from_secs(60), duration: None };
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return show(&help::monitor()),
            Arg::Long("control") => {
                watch.control = value(&mut parser, "control", |text| Peer::parse(text, Some(9051)))?;
            }
            Arg::Long("control-password") => watch.password = Some(text(&mut parser)?),
            Arg::Long("events") => watch.events = value(&mut parser, "events", event_names)?,
            Arg::Long("wait") => watch.wait = value(&mut parser, "wait", quantity::duration)?,
            Arg::Long("duration") => watch.duration = Some(value(&mut parser, "duration", quantity::duration)?),
            arg => return Err(bad(arg.unexpected())),
        }
    }
    match monitor::run(watch, &mut Output::stdout()) {
        Ok(()) => Ok(SUCCESS),
        Err(error) => Ok(failed(&error)),
    }
}

fn hold(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let (mut peers, mut hosts, mut number) = (None, None, None);
    let mut settings = phold::Settings {
        peers: String::new(),
        hosts: 0,
        number: 0,
        messages: 1,
        seed: 1,
        shape: 1.5,
        port: 9000,
        delay: Duration::from_secs(1),
        duration: Duration::from_secs(60),
    };
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return show(&help::phold()),
            Arg::Long("peers") => peers = Some(text(&mut parser)?),
            Arg::Long("hosts") => hosts = Some(value(&mut parser, "hosts", number_of)?),
            Arg::Long("number") => number = Some(value(&mut parser, "number", number_of)?),
            Arg::Long("messages") => settings.messages = value(&mut parser, "messages", number_of)?,
            Arg::Long("seed") => settings.seed = value(&mut parser, "seed", number_of)?,
            Arg::Long("shape") => settings.shape = value(&mut parser, "shape", number_of)?,
            Arg::Long("port") => settings.port = value(&mut parser, "port", number_of)?,
            Arg::Long("delay") => settings.delay = value(&mut parser, "delay", quantity::duration)?,
            Arg::Long("duration") => settings.duration = value(&mut parser, "duration", quantity::duration)?,
            arg => return Err(bad(arg.unexpected())),
        }
    }
    let (Some(peers), Some(hosts), Some(number)) = (peers, hosts, number) else {
        return Err(BadInput::one(
            "say among whom: --peers BASE --hosts N --number I; see 'gnomon-traffic phold --help'",
        ));
    };
    (settings.peers, settings.hosts, settings.number) = (peers, hosts, number);
    if settings.hosts < 2 {
        return Err(BadInput::one("--hosts: messages go round among 2 hosts or more"));
    }
    if !(1..=settings.hosts).contains(&settings.number) {
        return Err(BadInput::one(format!("--number: hosts are numbered from 1 to {}", settings.hosts)));
    }
    if !(settings.shape > 0.0 && settings.shape.is_finite()) {
        return Err(BadInput::one("--shape: a number above 0 belongs here, such as 1.5"));
    }
    match phold::run(&settings, &mut Output::stdout()) {
        Ok(()) => Ok(SUCCESS),
        Err(error) => Ok(failed(&error)),
    }
}

fn flood(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let mut victim = None;
    let mut flood = Flood {
        control: Peer { host: "127.0.0.1".into(), port: 9051 },
        password: None,
        victim: String::new(),
        count: 1000,
        every: Duration::from_secs(6),
        start: Duration::from_secs(1800),
        stop: Duration::from_secs(3600),
        seed: 1,
    };
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return show(&help::flood()),
            Arg::Long("control") => {
                flood.control = value(&mut parser, "control", |text| Peer::parse(text, Some(9051)))?;
            }
            Arg::Long("control-password") => flood.password = Some(text(&mut parser)?),
            Arg::Long("victim") => victim = Some(text(&mut parser)?),
            Arg::Long("count") => flood.count = value(&mut parser, "count", number_of)?,
            Arg::Long("every") => flood.every = value(&mut parser, "every", quantity::duration)?,
            Arg::Long("start") => flood.start = value(&mut parser, "start", quantity::duration)?,
            Arg::Long("stop") => flood.stop = value(&mut parser, "stop", quantity::duration)?,
            Arg::Long("seed") => flood.seed = value(&mut parser, "seed", number_of)?,
            arg => return Err(bad(arg.unexpected())),
        }
    }
    flood.victim = victim
        .ok_or_else(|| BadInput::one("say through whom: --victim NICKNAME; see 'gnomon-traffic flood --help'"))?;
    if flood.every.is_zero() || flood.stop <= flood.start {
        return Err(BadInput::one("--every is more than 0, and --stop is after --start"));
    }
    match flood::run(flood, &mut Output::stdout()) {
        Ok(()) => Ok(SUCCESS),
        Err(error) => Ok(failed(&error)),
    }
}

fn open_sockets(mut parser: lexopt::Parser) -> Result<u8, BadInput> {
    let mut settings = sockets::Settings { count: 1000, before: 0, every: 1000, hold: Duration::ZERO };
    while let Some(arg) = parser.next().map_err(bad)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return show(&help::sockets()),
            Arg::Long("count") => settings.count = value(&mut parser, "count", number_of)?,
            Arg::Long("before") => settings.before = value(&mut parser, "before", number_of)?,
            Arg::Long("every") => settings.every = value(&mut parser, "every", number_of)?,
            Arg::Long("hold") => settings.hold = value(&mut parser, "hold", quantity::duration)?,
            arg => return Err(bad(arg.unexpected())),
        }
    }
    if settings.every == 0 {
        return Err(BadInput::one("--every is more than 0"));
    }
    match sockets::run(&settings, &mut Output::stdout()) {
        Ok(()) => Ok(SUCCESS),
        Err(error) => Ok(failed(&error)),
    }
}

fn number_of<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no number that can stand here"))
}

fn event_names(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_ascii_uppercase()).collect();
    match names.iter().find(|name| name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')) {
        Some(name) => Err(format!("'{name}' is no event; write names of control-spec, such as 'CIRC,BW,STREAM'")),
        None => Ok(names),
    }
}
