//! `gnomon help`: the overview, and topics that no single command explains.

use super::{command, complain, show, status};
use scenario::{Role, options};
use std::fmt::Write;

const TOPICS: [(&str, &str, &str); 10] = [
    ("experiment", "how an experiment file is written", include_str!("topics/experiment.txt")),
    ("options", "every option, its default and its meaning", ""),
    ("data", "what a run leaves in its data directory", include_str!("topics/data.txt")),
    ("exit-codes", "what exit statuses mean", include_str!("topics/exit-codes.txt")),
    ("environment", "what Gnomon takes from its surroundings", include_str!("topics/environment.txt")),
    ("isolation", "what guests can reach, and what they cannot", include_str!("topics/isolation.txt")),
    ("provenance", "what is recorded of packets and bytes", include_str!("topics/provenance.txt")),
    ("designs", "what lies between relays of Tor, by choice", include_str!("topics/designs.txt")),
    ("attacks", "attacks on relays of a private network", include_str!("topics/attacks.txt")),
    ("ranks", "runs over several processes and machines", include_str!("topics/ranks.txt")),
];

/// The names of all topics.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOPICS.into_iter().map(|(name, ..)| name)
}

/// `gnomon help [TOPIC]`; a command's command is a topic of two words.
pub fn main(words: &[&str]) -> u8 {
    if words.is_empty() {
        show(&overview());
        return status::SUCCESS;
    }
    if let Some(text) = text(words) {
        show(&text);
        return status::SUCCESS;
    }
    let mut topics = commands(&command::gnomon(), "");
    topics.extend(names().map(str::to_owned));
    complain(&format!("no help about '{}'; topics are {}", words.join(" "), topics.join(", ")));
    status::BAD_INPUT
}

/// All commands, each followed by its own: 'tor', 'tor new'.
fn commands(command: &clap::Command, before: &str) -> Vec<String> {
    let mut all = Vec::new();
    for command in command.get_subcommands() {
        let name = format!("{before}{}", command.get_name());
        all.push(name.clone());
        all.extend(commands(command, &format!("{name} ")));
    }
    all
}

fn text(words: &[&str]) -> Option<String> {
    match words {
        ["options"] => Some(options_text()),
        ["shadow"] => Some(include_str!("topics/shadow.txt").into()),
        [topic] if let Some((_, _, text)) = TOPICS.into_iter().find(|(name, ..)| name == topic) => Some(text.into()),
        _ => of_command(words),
    }
}

fn of_command(words: &[&str]) -> Option<String> {
    let mut gnomon = command::gnomon();
    gnomon.build();
    let mut command = &mut gnomon;
    for word in words {
        command = command.find_subcommand_mut(word)?;
    }
    Some(command.render_long_help().to_string())
}

/// What `gnomon --help` shows.
pub fn overview() -> String {
    let mut text = String::from(include_str!("topics/overview.txt"));
    for (name, about, _) in TOPICS {
        let _ = writeln!(text, "  gnomon help {name:12} {about}");
    }
    text
}

/// The table of options, as a page.
fn options_text() -> String {
    let mut text = String::from(
        "Every option can stand in the experiment file under its section, and on the command line of run, check, exec and\n\
         shadow, where it wins. Times: '10 ms', '5 min'; sizes: '64 KiB'; a number alone counts seconds or bytes.\n",
    );
    let mut section = "";
    for option in options() {
        if option.section != section {
            section = option.section;
            let _ = write!(text, "\n{section}:\n");
        }
        let short = option.short.map_or_else(String::new, |short| format!(", -{short}"));
        let default =
            if option.role == Role::Required { "required".into() } else { format!("default {}", option.default) };
        let _ = writeln!(text, "  {}  (--{}{short}; {default})", option.key, option.flag());
        let _ = writeln!(text, "      {}", option.help);
        let words = option.kind.choices();
        if words.len() > 2 || !words.contains(&"true") && !words.is_empty() {
            let _ = writeln!(text, "      One of {}", words.join(", "));
        }
        if let Role::NoEffect(reason) = option.role {
            let _ = writeln!(text, "      Accepted without effect: {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_a_text() {
        let commands = commands(&command::gnomon(), "");
        assert!(commands.iter().any(|name| name == "tor new"), "{commands:?}");
        for name in commands.into_iter().chain(names().map(str::to_owned)) {
            let words: Vec<&str> = name.split(' ').collect();
            assert!(text(&words).is_some_and(|text| text.len() > 100), "{name}");
        }
        assert_eq!(text(&["nonsense"]), None);
        assert_eq!(text(&["tor", "nonsense"]), None);
        assert_eq!(text(&["data", "new"]), None);
    }

    #[test]
    fn the_overview_names_all_commands() {
        let overview = overview();
        for name in commands(&command::gnomon(), "") {
            assert!(overview.contains(&format!("\n  {name} ")) || name == "tor", "{name}");
        }
    }

    #[test]
    fn the_page_of_options_has_them_all() {
        let text = options_text();
        for option in options() {
            assert!(text.contains(&format!("--{}", option.flag())) && text.contains(option.help), "{}", option.path());
        }
    }

    #[test]
    fn texts_fit_an_eighty_column_terminal() {
        for name in names().filter(|name| *name != "options") {
            for line in text(&[name]).unwrap_or_default().lines().chain(overview().lines()) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }
}
