//! Where the values of an experiment were written, for what is found wrong with one only after the experiment was read.

use super::input::STANDARD_INPUT;
use super::options;
use crate::simulation::OptionProblem;
use base::input;
use clap::ArgMatches;
use std::path::{Path, PathBuf};

/// The file, and the flags that win over it.
#[derive(Debug, Default)]
pub struct Origin {
    file: Option<PathBuf>,
    /// By the options' paths, as `general.seed`.
    flags: Vec<(String, String)>,
}

impl Origin {
    /// `file` is None where the user wrote none.
    pub fn new(file: Option<&Path>, matches: &ArgMatches) -> Origin {
        let given = scenario::options().filter(|option| options::is_given(matches, &option.path()));
        let flags = given.map(|option| (option.path(), format!("--{}", option.flag()))).collect();
        Origin { file: file.map(Path::to_path_buf), flags }
    }

    /// The problem with its place in front, in the form of other mistakes of an experiment.
    pub fn tell(&self, problem: &OptionProblem) -> String {
        match self.place(problem.option) {
            Some(place) => format!("{place}: {problem}"),
            None => problem.to_string(),
        }
    }

    fn place(&self, option: &str) -> Option<String> {
        if let Some((_, flag)) = self.flags.iter().find(|(path, _)| path == option) {
            return Some(flag.clone());
        }
        let file = self.file.as_ref()?;
        if file == Path::new("-") {
            return Some(STANDARD_INPUT.to_owned());
        }
        let text = input::text(file, scenario::LONGEST_EXPERIMENT).unwrap_or_default();
        let name = file.display();
        Some(match option.split_once('.').and_then(|(section, key)| position(&text, section, key)) {
            Some((line, column)) => format!("{name}:{line}:{column}"),
            None => name.to_string(),
        })
    }
}

/// Line and column, from 1, of the value that `key` has in a section of an experiment which is valid: the key can stand nowhere else in it. None
/// where it comes from another part of the file by an alias.
fn position(text: &str, section: &str, key: &str) -> Option<(usize, usize)> {
    let mut lines = text.split_inclusive('\n').enumerate();
    let is_section =
        |line: &str| line.trim_start_matches(is_quote).starts_with(section) && value_of(line, section).is_some();
    let begin = lines.find(|(_, line)| is_section(line))?;
    // Its lines are set in; whatever else begins at the margin, but for comments, ends it.
    let is_inside = |line: &str| line.trim().is_empty() || line.starts_with([' ', '\t', '#', '}']);
    let inside = lines.take_while(|(_, line)| is_inside(line));
    let mut found = std::iter::once(begin).chain(inside).filter(|(_, line)| !line.trim_start().starts_with('#'));
    found.find_map(|(number, line)| Some((number + 1, line[..value_of(line, key)?].chars().count() + 1)))
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'')
}

/// Where the value begins that a line gives a key; the key, where the value comes in later lines.
fn value_of(line: &str, key: &str) -> Option<usize> {
    line.match_indices(key).find_map(|(start, _)| {
        let before = line[..start].trim_end_matches(is_quote).chars().next_back();
        let begins = before.is_none_or(|letter| letter.is_whitespace() || matches!(letter, '{' | ','));
        let rest = line[start + key.len()..].trim_start_matches(is_quote).trim_start().strip_prefix(':')?;
        let value = line.len() - rest.trim_start().len();
        begins.then_some(if rest.trim().is_empty() { start } else { value })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_its_section_alone() {
        let key = "provenance_filter";
        let of = |text: &str| position(text, "experimental", key);
        assert_eq!(
            of("general: { seed: 1 }\nexperimental:\n  # provenance_filter: old\n  provenance_filter: 'a'\n"),
            Some((4, 22))
        );
        assert_eq!(of("experimental: { provenance: all, \"provenance_filter\": a }\n"), Some((1, 55)));
        assert_eq!(
            position("experimental: { provenance_filter: a, provenance: all }\n", "experimental", "provenance"),
            Some((1, 51))
        );
        let elsewhere = "x-a: &a\n  provenance_filter: b\nexperimental:\n  <<: *a\nhosts:\n  provenance_filter: {}\n";
        assert_eq!(of(elsewhere), None);
        assert_eq!(of("'experimental':\n  provenance_filter:\n    a\n"), Some((2, 3)));
        assert_eq!(of(""), None);
    }
}
