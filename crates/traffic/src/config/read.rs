//! A client's configuration file to its `Config`.

use super::error::{BadInput, remedy};
use super::reader::{Problems, Section, number};
use super::yaml::{Node, Value};
use super::{
    Behaviour, Config, Direction, Isolation, Kind, LEAST_RETRY_AFTER, Models, Peers, Probe, USUAL_RETRY_AFTER,
    USUAL_STALL,
};
use crate::markov::Model;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The keys of the file's top.
const TOP: &[&str] =
    &["socks", "isolation", "control", "control_password", "start", "stop", "seed", "servers", "behaviours"];

/// The keys of every behaviour, and those of each kind.
const BEHAVIOUR: &[&str] = &[
    "kind",
    "count",
    "retries",
    "retry_after",
    "timeout",
    "stall",
    "parallel",
    "servers",
    "direction",
    "size",
    "pause",
    "sizes",
    "every",
    "weights",
    "timeouts",
    "flows",
    "streams",
    "packets",
];
const OF_KIND: &[(&str, &[&str])] = &[
    ("web", &["size", "pause", "direction"]),
    ("bulk", &["size", "direction"]),
    ("performance", &["sizes", "every", "weights", "timeouts", "direction"]),
    ("markov", &["flows", "streams", "packets"]),
];

/// Reads the tree of `file`, beside which model files are looked for. Everything wrong with it and with the models that it names
/// is in the error.
pub fn tree(file: &Path, root: &Node) -> Result<Config, BadInput> {
    let mut problems = Problems { file, found: Vec::new() };
    match config(root, &mut problems) {
        Some(config) if problems.found.is_empty() => Ok(config),
        _ => Err(problems.into_error()),
    }
}

fn config(root: &Node, problems: &mut Problems) -> Option<Config> {
    let top = Section::new(root, "", TOP, problems)?;
    let servers = servers(&top, problems).map(Rc::new);
    let isolation = top.scalar("isolation", problems, |name| {
        Isolation::named(name).ok_or_else(|| format!("'{name}' is no isolation{}", remedy(name, Isolation::NAMES)))
    });
    let start = top.duration("start", problems).unwrap_or_default();
    let stop = top.duration("stop", problems);
    if stop.is_some_and(|stop| stop <= start) {
        problems.add(top.get("stop")?.pos, "stop", "not after 'start'; both count from the start of the process");
    }
    let behaviours = behaviours(&top, servers.as_ref(), problems);
    Some(Config {
        socks: top.peer("socks", 9050, problems),
        isolation: isolation.unwrap_or(Isolation::Transfer),
        control: top.peer("control", 9051, problems),
        control_password: top.scalar("control_password", problems, |text| Ok(text.to_owned())),
        start,
        stop,
        seed: top.number("seed", problems).unwrap_or(1),
        behaviours: behaviours?,
    })
}

fn servers(section: &Section, problems: &mut Problems) -> Option<Peers> {
    let mut servers = Peers::default();
    section.list("servers", problems, |text| servers.add(text)).map(|_| servers)
}

fn behaviours(top: &Section, servers: Option<&Rc<Peers>>, problems: &mut Problems) -> Option<Vec<Behaviour>> {
    let Some(list) = top.get("behaviours") else {
        problems.add(top.pos, "behaviours", "missing; add a list such as 'behaviours: [{ kind: web }]'");
        return None;
    };
    let Value::List(items) = &list.value else {
        problems.add(
            list.pos,
            "behaviours",
            format!("a list belongs here, not {}; begin it with '-'", list.describe()),
        );
        return None;
    };
    if items.is_empty() {
        problems.add(list.pos, "behaviours", "the list is empty; add an entry such as '- { kind: web }'");
    }
    let read = |(index, item): (usize, &Node)| behaviour(item, index, servers, problems);
    Some(items.iter().enumerate().filter_map(read).collect())
}

fn behaviour(node: &Node, index: usize, common: Option<&Rc<Peers>>, problems: &mut Problems) -> Option<Behaviour> {
    let path = format!("behaviours[{index}]");
    let section = Section::new(node, &path, BEHAVIOUR, problems)?;
    let kind = kind(&section, problems);
    let servers = servers(&section, problems).map(Rc::new).or_else(|| common.cloned()).unwrap_or_default();
    if servers.is_empty() && problems.found.is_empty() {
        problems.add(section.pos, "servers", "missing; name at least one, such as 'servers: [server1:80]'");
    }
    let direction = section.scalar("direction", problems, |name| match name {
        "download" => Ok(Direction::Download),
        "upload" => Ok(Direction::Upload),
        _ => Err(format!("'{name}' is no direction{}", remedy(name, Direction::NAMES))),
    });
    let kind = kind?;
    let is_performance = matches!(kind, Kind::Performance { .. });
    Some(Behaviour {
        direction: direction.unwrap_or(Direction::Download),
        servers,
        count: section.number("count", problems),
        retries: limited(&section, "retries", 0..=1_000_000, problems).unwrap_or(0),
        retry_after: section.duration("retry_after", problems).unwrap_or(USUAL_RETRY_AFTER).max(LEAST_RETRY_AFTER),
        timeout: section.duration("timeout", problems).filter(|time| !time.is_zero()),
        stall: section
            .duration("stall", problems)
            .or_else(|| (!is_performance).then_some(USUAL_STALL))
            .filter(|time| !time.is_zero()),
        parallel: limited(&section, "parallel", 1..=100_000, problems).unwrap_or(1),
        kind,
    })
}

fn limited(
    section: &Section,
    name: &str,
    range: std::ops::RangeInclusive<u32>,
    problems: &mut Problems,
) -> Option<u32> {
    section.scalar(name, problems, |text| {
        let value = u32::try_from(number(text)?).unwrap_or(u32::MAX);
        let wrong = || format!("'{text}' is not between {} and {}", range.start(), range.end());
        range.contains(&value).then_some(value).ok_or_else(wrong)
    })
}

fn kind(section: &Section, problems: &mut Problems) -> Option<Kind> {
    let Some(name) = section.scalar("kind", problems, |name| match OF_KIND.iter().find(|(kind, _)| *kind == name) {
        Some((kind, _)) => Ok(*kind),
        None => Err(format!("'{name}' is no kind of behaviour{}", remedy(name, Kind::NAMES))),
    }) else {
        if section.get("kind").is_none() {
            problems.add(section.pos, &section.key("kind"), "missing; use one of web, bulk, performance, markov");
        }
        return None;
    };
    for (other, keys) in OF_KIND.iter().filter(|(other, _)| *other != name) {
        let own = OF_KIND.iter().find(|(kind, _)| *kind == name).map_or(&[][..], |(_, keys)| keys);
        let foreign: Vec<&str> = keys.iter().filter(|key| !own.contains(key)).copied().collect();
        section.refuse(&foreign, &format!("belongs to '{other}', not to '{name}'; remove it"), problems);
    }
    match name {
        "web" => Some(Kind::Web { size: size(section, 320 << 10, problems), pause: pause(section, problems) }),
        "bulk" => Some(Kind::Bulk { size: size(section, 5 << 20, problems) }),
        "performance" => performance(section, problems),
        _ => markov(section, problems),
    }
}

fn size(section: &Section, usual: u64, problems: &mut Problems) -> u64 {
    section.size("size", problems).unwrap_or(usual)
}

fn pause(section: &Section, problems: &mut Problems) -> (Duration, Duration) {
    let usual = (Duration::from_secs(1), Duration::from_secs(60));
    let Some(node) = section.get("pause") else { return usual };
    let before = problems.found.len();
    let pause = section.list("pause", problems, crate::quantity::duration).unwrap_or_default();
    match pause[..] {
        [time] => (time, time),
        [low, high] if low <= high => (low, high),
        _ => {
            if problems.found.len() == before {
                let message = "write one time, or the shortest and the longest: 'pause: [1 s, 60 s]'";
                problems.add(node.pos, &section.key("pause"), message);
            }
            usual
        }
    }
}

fn performance(section: &Section, problems: &mut Problems) -> Option<Kind> {
    let usual = || vec![50 << 10, 1 << 20, 5 << 20];
    let sizes = section.list("sizes", problems, crate::quantity::size).unwrap_or_else(usual);
    let timeouts = section.list("timeouts", problems, crate::quantity::duration);
    let weights = section.list("weights", problems, |text| match text.parse::<f64>() {
        Ok(weight) if weight.is_finite() && weight > 0.0 => Ok(weight),
        _ => Err(format!("'{text}' is no weight; write a number above 0")),
    });
    let lengths = [("timeouts", timeouts.as_ref().map(Vec::len)), ("weights", weights.as_ref().map(Vec::len))];
    for (name, length) in lengths {
        if let (Some(length), Some(node)) = (length, section.get(name))
            && length != sizes.len()
            && problems.found.is_empty()
        {
            let message = format!("{length} given for {} sizes; give one for each size", sizes.len());
            problems.add(node.pos, &section.key(name), message);
        }
    }
    if sizes.is_empty() {
        problems.add(section.pos, &section.key("sizes"), "the list is empty; write 'sizes: [50 KiB, 1 MiB, 5 MiB]'");
    }
    let every = section.duration("every", problems).unwrap_or(Duration::from_secs(60));
    if every.is_zero() {
        problems.add(section.pos, &section.key("every"), "must be longer than 0; write 'every: 60 s'");
    }
    let probe = |(i, &size): (usize, &u64)| Probe {
        size,
        timeout: timeouts.as_ref().and_then(|t| t.get(i).copied()).unwrap_or_else(|| Probe::usual_timeout(size)),
        weight: weights.as_ref().and_then(|w| w.get(i).copied()).unwrap_or(0.0),
    };
    Some(Kind::Performance { sizes: sizes.iter().enumerate().map(probe).collect(), every })
}

fn markov(section: &Section, problems: &mut Problems) -> Option<Kind> {
    let folder = problems.file.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut model = |name: &str| -> Option<Rc<Model>> {
        section.scalar(name, problems, |path| Model::load(&folder.join(path)).map(Rc::new))
    };
    let (flows, streams, packets) = (model("flows"), model("streams"), model("packets"));
    if section.get("packets").is_none() {
        let message = "missing; name a GraphML file with the model of a stream's packets";
        problems.add(section.pos, &section.key("packets"), message);
    }
    Some(Kind::Markov(Models { flows, streams, packets: packets? }))
}
