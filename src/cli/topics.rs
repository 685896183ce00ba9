//! `gnomon help`: the overview, and topics that no single command explains.

use super::{command, complain, show, status};
use scenario::{Role, options};
use std::fmt::Write;

const TOPICS: [(&str, &str, &str); 6] = [
    ("experiment", "how an experiment file is written", include_str!("topics/experiment.txt")),
    ("options", "every option, its default and its meaning", ""),
    ("data", "what a run leaves in its data directory", include_str!("topics/data.txt")),
    ("exit-codes", "what exit statuses mean", include_str!("topics/exit-codes.txt")),
    ("environment", "what Gnomon takes from its surroundings", include_str!("topics/environment.txt")),
    ("isolation", "what guests can reach, and what they cannot", include_str!("topics/isolation.txt")),
];

/// The names of all topics.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOPICS.into_iter().map(|(name, ..)| name)
}

/// `gnomon help [TOPIC]`.
pub fn main(topic: Option<&str>) -> u8 {
    let Some(topic) = topic else {
        show(&overview());
        return status::SUCCESS;
    };
    if let Some(text) = text(topic) {
        show(&text);
        return status::SUCCESS;
    }
    complain(&format!(
        "no help about '{topic}'; topics are run, check, exec, shadow, {}",
        names().collect::<Vec<_>>().join(", ")
    ));
    status::BAD_INPUT
}

fn text(topic: &str) -> Option<String> {
    match topic {
        "options" => Some(options_text()),
        "shadow" => Some(include_str!("topics/shadow.txt").into()),
        _ => TOPICS
            .into_iter()
            .find(|(name, ..)| *name == topic)
            .map(|(_, _, text)| text.into())
            .or_else(|| of_command(topic)),
    }
}

fn of_command(name: &str) -> Option<String> {
    let mut gnomon = command::gnomon();
    gnomon.build();
    let command = gnomon.find_subcommand_mut(name)?;
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
        for name in names().chain(["run", "check", "exec", "shadow", "help"]) {
            assert!(text(name).is_some_and(|text| text.len() > 100), "{name}");
        }
        assert_eq!(text("nonsense"), None);
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
            for line in text(name).unwrap_or_default().lines().chain(overview().lines()) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
        }
    }
}
