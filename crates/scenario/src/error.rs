//! What is wrong with an experiment, told so that it can be mended: where (file, line, column, or the option on the command
//! line), which key, what, and the remedy.

use std::fmt;
use std::sync::Arc;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A position in a file; 1-based. Line 0 stands for the file as a whole.
    File { name: Arc<str>, line: u32, column: u32 },
    /// An option of the command line, such as `--stop-time`.
    Flag(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { name, line: 0, .. } => f.write_str(name),
            Place::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Place::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub place: Place,
    /// The path of the key, such as `hosts.client.processes[0].path`; empty where the text is no YAML at all.
    pub key: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl Problem {
    /// Whether this is what `other` says of the same text of the file, which an anchor put into more than one place.
    fn repeats(&self, other: &Problem) -> bool {
        let name = |problem: &Problem| problem.key.rsplit('.').next().map(str::to_owned);
        let at_a_place = !matches!(self.place, Place::File { line: 0, .. });
        at_a_place && self.place == other.place && self.message == other.message && name(self) == name(other)
    }
}

/// Everything found wrong, in the order of the file; at least one problem. Shown one per line; what is wrong with text that an
/// anchor repeats is shown once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    pub problems: Vec<Problem>,
}

impl ScenarioError {
    pub(crate) fn one(place: Place, key: impl Into<String>, message: impl Into<String>) -> Self {
        ScenarioError { problems: vec![Problem { place, key: key.into(), message: message.into() }] }
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.problems.iter().enumerate() {
            if self.problems[..i].iter().any(|earlier| problem.repeats(earlier)) {
                continue;
            }
            if i > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(problem, f)?;
            match self.problems[i + 1..].iter().filter(|later| later.repeats(problem)).count() {
                0 => {}
                repeats => write!(f, " (used in {repeats} more places)")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: u32, key: &str, message: &str) -> Problem {
        let place = Place::File { name: "x.yaml".into(), line, column: 9 };
        Problem { place, key: key.to_owned(), message: message.to_owned() }
    }

    #[test]
    fn what_an_anchor_repeats_is_shown_once() {
        let problems = vec![
            problem(3, "hosts.a.processes[0].path", "no"),
            problem(3, "hosts.a.processes[0].args", "no"),
            problem(3, "hosts.b.processes[0].path", "no"),
            problem(4, "hosts.b.processes[1].path", "no"),
            problem(3, "hosts.c.processes[0].path", "no"),
            problem(0, "hosts.c.x", "missing"),
            problem(0, "hosts.d.x", "missing"),
        ];
        let text = ScenarioError { problems }.to_string();
        let expected = "\
x.yaml:3:9: hosts.a.processes[0].path: no (used in 2 more places)
x.yaml:3:9: hosts.a.processes[0].args: no
x.yaml:4:9: hosts.b.processes[1].path: no
x.yaml: hosts.c.x: missing
x.yaml: hosts.d.x: missing";
        assert_eq!(text, expected);
    }
}
