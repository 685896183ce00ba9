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

/// Everything found wrong, in the order of the file; at least one problem. Shown one per line.
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
            if i > 0 {
                f.write_str("\n")?;
            }
            fmt::Display::fmt(problem, f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}
