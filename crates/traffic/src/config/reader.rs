//! Reads mappings of the configuration key by key, collecting what is wrong. Reading goes on after a problem, so that one look tells all.

use super::error::{BadInput, remedy};
use super::yaml::{Key, Node, Pos, Value};
use super::{Peer, flags};
use crate::quantity;
use std::path::Path;
use std::time::Duration;

/// Collects problems of one file.
pub struct Problems<'a> {
    pub file: &'a Path,
    pub found: Vec<(Pos, String)>,
}

impl Problems<'_> {
    pub fn add(&mut self, pos: Pos, key: &str, message: impl AsRef<str>) {
        let key = if pos.line == 0 { flags::name_of(key) } else { key.into() };
        let colon = if key.is_empty() { "" } else { ": " };
        self.found.push((pos, format!("{key}{colon}{}", message.as_ref())));
    }

    /// Everything found, in the file's order.
    pub fn into_error(mut self) -> BadInput {
        self.found.sort();
        let line = |(pos, text): &(Pos, String)| match pos.line {
            0 => text.clone(),
            _ => format!("{}:{}:{}: {text}", self.file.display(), pos.line, pos.column),
        };
        BadInput { problems: self.found.iter().map(line).collect() }
    }
}

/// One mapping, from which keys are taken; what is left over at the end is unknown.
pub struct Section<'a> {
    /// The path of the mapping, such as `behaviours[1]`; empty at the top.
    path: String,
    pub pos: Pos,
    entries: Vec<(&'a Key, &'a Node)>,
    /// All keys that may stand here.
    known: &'static [&'static str],
}

impl<'a> Section<'a> {
    /// Reports keys that are not `known`. `None` if the node is no mapping.
    pub fn new(node: &'a Node, path: &str, known: &'static [&'static str], problems: &mut Problems) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            problems.add(node.pos, path, format!("a mapping of keys belongs here, not {}", node.describe()));
            return None;
        };
        let section =
            Section { path: path.into(), pos: node.pos, entries: entries.iter().map(|(k, v)| (k, v)).collect(), known };
        for (key, _) in section.entries.iter().filter(|(key, _)| !known.contains(&key.name.as_str())) {
            problems.add(key.pos, &section.key(&key.name), format!("no such key{}", remedy(&key.name, known)));
        }
        Some(section)
    }

    pub fn key(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a key; null counts as absent.
    pub fn get(&self, name: &str) -> Option<&'a Node> {
        debug_assert!(self.known.contains(&name), "{name}");
        let (_, node) = self.entries.iter().find(|(key, _)| key.name == name)?;
        let is_null = matches!(&node.value, Value::Scalar(text) if matches!(text.as_str(), "" | "~" | "null"));
        (!is_null).then_some(node)
    }

    /// Reports keys that are given although what they belong to is not.
    pub fn refuse(&self, names: &[&str], why: &str, problems: &mut Problems) {
        for name in names {
            if let Some(node) = self.get(name) {
                problems.add(node.pos, &self.key(name), why);
            }
        }
    }

    pub fn scalar<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let node = self.get(name)?;
        let result = match &node.value {
            Value::Scalar(text) => read(text),
            _ => Err(format!("one value belongs here, not {}", node.describe())),
        };
        result.map_err(|message| problems.add(node.pos, &self.key(name), message)).ok()
    }

    /// Each item read; a single value counts as a list of one.
    pub fn list<T>(
        &self,
        name: &str,
        problems: &mut Problems,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let node = self.get(name)?;
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut values = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let result = match &item.value {
                Value::Scalar(text) => read(text),
                _ => Err(format!("one value belongs here, not {}", item.describe())),
            };
            match result {
                Ok(value) => values.push(value),
                Err(message) => problems.add(item.pos, &format!("{}[{index}]", self.key(name)), message),
            }
        }
        Some(values)
    }

    pub fn duration(&self, name: &str, problems: &mut Problems) -> Option<Duration> {
        self.scalar(name, problems, quantity::duration)
    }

    pub fn size(&self, name: &str, problems: &mut Problems) -> Option<u64> {
        self.scalar(name, problems, quantity::size)
    }

    pub fn number(&self, name: &str, problems: &mut Problems) -> Option<u64> {
        self.scalar(name, problems, number)
    }

    pub fn peer(&self, name: &str, usual_port: u16, problems: &mut Problems) -> Option<Peer> {
        self.scalar(name, problems, |text| Peer::parse(text, Some(usual_port)))
    }
}

/// A whole number from 0. The error is the remedy.
pub fn number(text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("'{text}' is no whole number from 0 on"))
}
