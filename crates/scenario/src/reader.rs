//! Reading a tree of YAML into typed values: positions, paths of keys, and the list of what is wrong. Reading goes on after a
//! problem, so that one check reports all of them.

use crate::error::{Place, Problem, ScenarioError};
use crate::options::Section;
use crate::setting::Scalar;
use crate::suggest::remedy;
use crate::yaml::{Entry, Node, Pos, Style, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Reader {
    /// The experiment file's name.
    name: Arc<str>,
    problems: Vec<Problem>,
    /// Where each option that is set was set, by its path.
    places: BTreeMap<String, Place>,
}

impl Reader {
    pub(crate) fn new(name: &str) -> Self {
        Reader { name: name.into(), problems: Vec::new(), places: BTreeMap::new() }
    }

    pub(crate) fn place(&self, pos: Pos) -> Place {
        Place::File { name: self.name.clone(), line: pos.line, column: pos.column }
    }

    pub(crate) fn problem(&mut self, pos: Pos, key: impl Into<String>, message: impl Into<String>) {
        self.problem_at(self.place(pos), key, message);
    }

    pub(crate) fn problem_at(&mut self, place: Place, key: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem { place, key: key.into(), message: message.into() });
    }

    pub(crate) fn set_option_place(&mut self, path: String, place: Place) {
        self.places.insert(path, place);
    }

    /// Where the option was set; `otherwise` when it has its default.
    pub(crate) fn option_place(&self, path: &str, otherwise: Pos) -> Place {
        self.places.get(path).cloned().unwrap_or_else(|| self.place(otherwise))
    }

    pub(crate) fn is_set(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// To see whether anything was reported since: a key that seems to be missing may be misspelt.
    pub(crate) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// All problems in the order of the file, those of other files and of the command line after them.
    pub(crate) fn into_error(mut self) -> ScenarioError {
        let name = self.name.clone();
        self.problems.sort_by_key(|p| match &p.place {
            Place::File { name: n, line, column } if *n == name => (0, *line, *column),
            Place::File { line, column, .. } => (1, *line, *column),
            Place::Flag(_) => (2, 0, 0),
        });
        ScenarioError { problems: self.problems }
    }

    /// The entries of a mapping whose keys must be among `known`; others are reported and left out.
    pub(crate) fn mapping<'n>(&mut self, node: &'n Node, path: &str, known: &[&str]) -> Vec<&'n Entry> {
        let Value::Map(entries) = &node.value else {
            self.problem(
                node.pos,
                path,
                format!("expected a mapping with the keys {}, not {}", known.join(", "), node.describe()),
            );
            return Vec::new();
        };
        let mut kept = Vec::new();
        for entry in entries {
            if known.contains(&entry.key.as_str()) {
                kept.push(entry);
            } else {
                let message = format!("unknown key{}", remedy(&entry.key, known.iter().copied()));
                self.problem(entry.pos, join(path, &entry.key), message);
            }
        }
        kept
    }

    /// A scalar's text; anything else is reported, with `example` as the remedy.
    pub(crate) fn scalar<'n>(&mut self, node: &'n Node, path: &str, example: &str) -> Option<Scalar<'n>> {
        match &node.value {
            Value::Scalar { text, style } => Some(Scalar { text, plain: *style == Style::Plain }),
            _ => {
                self.problem(node.pos, path, format!("expected one value, such as {example}, not {}", node.describe()));
                None
            }
        }
    }

    /// Reads a scalar by `read`; a problem is reported at its position.
    pub(crate) fn value<T>(
        &mut self,
        node: &Node,
        path: &str,
        example: &str,
        read: impl FnOnce(Scalar<'_>) -> Result<T, String>,
    ) -> Option<T> {
        let scalar = self.scalar(node, path, example)?;
        match read(scalar) {
            Ok(value) => Some(value),
            Err(message) => {
                self.problem(node.pos, path, message);
                None
            }
        }
    }

    /// Reads options of a section into `target`. `extra` are keys of the same mapping that are no options: they are returned.
    pub(crate) fn section<'n, S: Section>(
        &mut self,
        node: &'n Node,
        path: &str,
        target: &mut S,
        extra: &[&str],
    ) -> Vec<&'n Entry> {
        let known: Vec<&str> = extra.iter().copied().chain(S::OPTIONS.iter().map(|o| o.key)).collect();
        let mut rest = Vec::new();
        for entry in self.mapping(node, path, &known) {
            let full = join(path, &entry.key);
            let Some(spec) = S::OPTIONS.iter().find(|o| o.key == entry.key) else {
                rest.push(entry);
                continue;
            };
            let example = if spec.default == "null" { "a quoted text" } else { spec.default };
            if self.value(&entry.value, &full, example, |scalar| target.set(&entry.key, scalar)).is_some() {
                self.set_option_place(full, self.place(entry.value.pos));
            }
        }
        rest
    }
}

pub(crate) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
