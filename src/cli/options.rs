//! The experiment's options as flags, made from the one table of `scenario`.

use base::StartDate;
use clap::{Arg, ArgAction, ArgMatches};
use scenario::{Kind, OptionSpec, Overrides, Role, options};

/// Whose command line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Gnomon,
    Shadow,
}

/// A flag for every option.
pub fn flags(style: Style) -> impl Iterator<Item = Arg> {
    options().map(move |option| flag(option, style))
}

fn flag(option: &'static OptionSpec, style: Style) -> Arg {
    let without_effect = matches!(option.role, Role::NoEffect(_));
    Arg::new(option.path())
        .long(option.flag())
        .short(short(option, style))
        .value_name(option.kind.value_name().to_uppercase())
        .action(ArgAction::Set)
        .help(help(option))
        .help_heading(heading(option.section))
        .hide_short_help(without_effect || option.section == "experimental")
}

/// Shadow 3.3 gives the letter `e` to the template directory (`src/main/core/configuration.rs`).
fn short(option: &OptionSpec, style: Style) -> Option<char> {
    match (style, option.section, option.key) {
        (Style::Shadow, "general", "template_directory") => Some('e'),
        (Style::Shadow, "general", "stop_time") => None,
        _ => option.short,
    }
}

fn heading(section: &str) -> &'static str {
    match section {
        "general" => "General (override the experiment's 'general')",
        "network" => "Network (override the experiment's 'network')",
        "host_option_defaults" => "Host defaults (override the experiment's 'host_option_defaults')",
        _ => "Experimental (override the experiment's 'experimental')",
    }
}

/// The option's own text, and in brackets what it takes and what it has.
fn help(option: &OptionSpec) -> String {
    let mut notes = Vec::new();
    let words = option.kind.choices();
    if !words.is_empty() && option.kind != Kind::Bool {
        notes.push(words.join(", "));
    }
    if option.role != Role::Required {
        notes.push(format!("default: {}", option.default));
    }
    if let Role::NoEffect(reason) = option.role {
        notes.push(format!("no effect here: {reason}"));
    }
    let notes: String = notes.iter().map(|note| format!(" [{note}]")).collect();
    format!("{}{notes}", option.help)
}

/// The values that were given.
pub fn overrides(matches: &ArgMatches) -> Overrides {
    let mut overrides = Overrides::default();
    for option in options() {
        if let Some(value) = matches.get_one::<String>(&option.path()) {
            overrides.set(option, if option.kind == Kind::Date { date(value) } else { value.clone() });
        }
    }
    overrides
}

/// A date of the command line: 'now' is asked once, here, and the plan has the answer.
pub fn date(text: &str) -> String {
    let now = StartDate::from_unix_seconds(base::wall::unix_seconds());
    match now {
        Ok(now) if text == "now" => now.to_string(),
        _ => text.to_owned(),
    }
}

/// Whether the option with this path was given.
pub fn is_given(matches: &ArgMatches, path: &str) -> bool {
    matches.get_one::<String>(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    fn command(style: Style) -> Command {
        Command::new("test").no_binary_name(true).args(flags(style))
    }

    #[test]
    fn every_option_has_a_flag_with_its_default() {
        let help = command(Style::Gnomon).term_width(0).render_long_help().to_string();
        for option in options() {
            assert!(help.contains(&format!("--{} <", option.flag())), "{} is missing", option.flag());
            assert!(help.contains(option.help), "{} is not explained", option.flag());
        }
        assert!(help.contains("[default: shadow.data]"));
    }

    #[test]
    fn given_values_become_overrides() {
        let matches =
            command(Style::Gnomon).get_matches_from(["--stop-time", "10 s", "--use-cpu-pinning=true", "-s", "7"]);
        let mut expected = Overrides::default();
        for (path, value) in
            [("general.stop_time", "10 s"), ("general.seed", "7"), ("experimental.use_cpu_pinning", "true")]
        {
            expected.set_path(path, value).unwrap();
        }
        assert_eq!(overrides(&matches), expected);
        assert!(is_given(&matches, "general.seed") && !is_given(&matches, "general.progress"));
    }

    #[test]
    fn shadows_letters_are_its_own() {
        let matches =
            command(Style::Shadow).get_matches_from(["-e", "template", "-d", "data", "-p", "2", "-l", "debug"]);
        assert_eq!(matches.get_one::<String>("general.template_directory").unwrap(), "template");
        assert!(!is_given(&matches, "general.stop_time"));
    }
}
