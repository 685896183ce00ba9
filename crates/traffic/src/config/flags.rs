//! Options of the command line as a configuration: they become the same tree that a file is read to, so that both are checked by the
//! same code. Beside a file, those of the top replace what the file says.

use super::Config;
use super::error::BadInput;
use super::read;
use super::yaml::{self, Key, Node, Pos, Value};
use std::path::Path;

/// An option and the key of the configuration that it sets.
pub struct Flag {
    /// Without the dashes.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub value: &'static str,
    key: &'static str,
    place: Place,
    is_list: bool,
    pub help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    Behaviour,
}

const fn top(name: &'static str, value: &'static str, key: &'static str, help: &'static str) -> Flag {
    Flag { name, value, key, place: Place::Top, is_list: false, help }
}

const fn own(name: &'static str, value: &'static str, key: &'static str, help: &'static str) -> Flag {
    Flag { name, value, key, place: Place::Behaviour, is_list: false, help }
}

const fn list(flag: Flag) -> Flag {
    Flag { is_list: true, ..flag }
}

/// All options of `gnomon-traffic client` that have a value, in the order of the help.
pub const OPTIONS: &[Flag] = &[
    list(top(
        "server",
        "HOST:PORT",
        "servers",
        "a server to use, port 80 if absent; several: repeat, separate by commas, or server[1-20]:80",
    )),
    top("socks", "HOST:PORT", "socks", "connect through this SOCKS5 proxy, such as tor's 127.0.0.1:9050"),
    top("isolation", "MODE", "isolation", "SOCKS5 credentials per: transfer (default), flow, behaviour, none"),
    top("control", "HOST:PORT", "control", "log circuits from this control port of tor"),
    top("control-password", "WORD", "control_password", "the control port's password; a cookie is found without help"),
    top("start", "TIME", "start", "begin so long after the process's start (default 0)"),
    top("stop", "TIME", "stop", "end so long after the process's start (default: when all counts are done)"),
    top("seed", "N", "seed", "choices and contents follow from this number (default 1)"),
    own("behaviour", "KIND", "kind", "web (default), bulk, performance or markov"),
    own("count", "N", "count", "how many transfers (default: until --stop)"),
    own("parallel", "N", "parallel", "so many of them side by side (default 1)"),
    own("direction", "WORD", "direction", "download (default) or upload"),
    own("size", "SIZE", "size", "of each transfer: web 320 KiB, bulk 5 MiB if absent"),
    list(own("pause", "MIN,MAX", "pause", "web: the pause between transfers (default 1 s,60 s)")),
    list(own("sizes", "SIZE,...", "sizes", "performance: sizes in turn (default 50 KiB,1 MiB,5 MiB)")),
    list(own("weights", "N,...", "weights", "performance: draw sizes with these weights instead")),
    list(own(
        "timeouts",
        "TIME,...",
        "timeouts",
        "performance: per size (default 15 s to 50 KiB, 60 s to 1 MiB, 120 s above)",
    )),
    own("every", "TIME", "every", "performance: from one transfer's start to the next one's (default 60 s)"),
    own("packets", "FILE", "packets", "markov: GraphML model of the packets of a stream"),
    own("streams", "FILE", "streams", "markov: GraphML model of the streams of a flow (default: one stream)"),
    own("flows", "FILE", "flows", "markov: GraphML model of the flows (default: one after the other)"),
    own("timeout", "TIME", "timeout", "a transfer's longest duration (default none; performance has --timeouts)"),
    own("stall", "TIME", "stall", "the longest time without a byte (default 30 s; performance none; 0 for none)"),
    own("retries", "N", "retries", "try a failed transfer again so often (default 0)"),
    own("retry-after", "TIME", "retry_after", "the pause after a failure (default 1 s)"),
];

/// The configuration of a file, of options, or of both. `given` holds names without dashes, and values.
pub fn from_options(file: Option<&Path>, given: &[(String, String)]) -> Result<Config, BadInput> {
    let flags: Vec<(&Flag, &str)> =
        given.iter().filter_map(|(name, value)| Some((flag(name)?, value.as_str()))).collect();
    let Some(path) = file else { return read::tree(Path::new(""), &tree(&flags)) };
    if let Some((flag, _)) = flags.iter().find(|(flag, _)| flag.place == Place::Behaviour) {
        let message =
            format!("--{}: describes a behaviour, and {} describes them all; edit the file", flag.name, path.display());
        return Err(BadInput::one(message));
    }
    let text = crate::files::text(path).map_err(|error| BadInput::one(format!("{}: {error}", path.display())))?;
    let mut root = yaml::parse(&text).map_err(|(pos, message)| {
        BadInput::one(format!("{}:{}:{}: {message}", path.display(), pos.line, pos.column))
    })?;
    if let Value::Map(entries) = &mut root.value {
        for (key, value) in entries_of(&flags, Place::Top) {
            entries.retain(|(other, _)| other.name != key.name);
            entries.push((key, value));
        }
    }
    read::tree(path, &root)
}

pub fn flag(name: &str) -> Option<&'static Flag> {
    OPTIONS.iter().find(|flag| flag.name == name)
}

/// The place of everything that comes from the command line.
const COMMAND_LINE: Pos = Pos { line: 0, column: 0 };

fn node(value: Value) -> Node {
    Node { pos: COMMAND_LINE, value }
}

fn key(name: &str) -> Key {
    Key { name: name.into(), pos: COMMAND_LINE }
}

/// The tree of a file that says what `flags` say: one behaviour, a web client if nothing else is said.
fn tree(flags: &[(&Flag, &str)]) -> Node {
    let mut behaviour = entries_of(flags, Place::Behaviour);
    if !behaviour.iter().any(|(key, _)| key.name == "kind") {
        behaviour.push((key("kind"), node(Value::Scalar("web".into()))));
    }
    let mut entries = entries_of(flags, Place::Top);
    entries.push((key("behaviours"), node(Value::List(vec![node(Value::Map(behaviour))]))));
    node(Value::Map(entries))
}

/// One entry per key: values of lists are collected, otherwise the last one counts.
fn entries_of(flags: &[(&Flag, &str)], place: Place) -> Vec<(Key, Node)> {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (flag, text) in flags.iter().filter(|(flag, _)| flag.place == place) {
        let scalar = |text: &str| node(Value::Scalar(text.trim().into()));
        let mut items = match flag.is_list {
            true => text.split(',').map(scalar).collect(),
            false => vec![scalar(text)],
        };
        let entry = entries.iter_mut().find(|(key, _)| key.name == flag.key);
        match (entry, flag.is_list) {
            (Some((_, Node { value: Value::List(list), .. })), true) => list.append(&mut items),
            (Some((_, old)), _) => *old = items.swap_remove(0),
            (None, true) => entries.push((key(flag.key), node(Value::List(items)))),
            (None, false) => entries.push((key(flag.key), items.swap_remove(0))),
        }
    }
    entries
}

/// How a message names the option that sets the key `path`.
pub fn name_of(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    let last = last.split('[').next().unwrap_or(last);
    match OPTIONS.iter().find(|flag| flag.key == last) {
        Some(flag) => format!("--{}", flag.name),
        None => path.into(),
    }
}
