//! YAML whose mistakes are told with file, line and column.

use report::{Error, Result};
use saphyr::{LoadableYamlNode, MarkedYaml, Scalar, YamlData};

/// A place in a text.
#[derive(Clone, Debug)]
pub(crate) struct Node<'a> {
    name: String,
    line: usize,
    column: usize,
    data: YamlData<'a, MarkedYaml<'a>>,
}

/// A key of a map.
pub(crate) struct Key<'n> {
    pub(crate) text: &'n str,
}

fn wrong(name: &str, line: usize, column: usize, text: &str) -> Error {
    Error::Input(format!("{name}:{line}:{column}: {text}"))
}

/// The text's only document, which has `keys`.
pub(crate) fn parse<'a>(name: &str, text: &'a str, keys: &str) -> Result<Node<'a>> {
    let documents = MarkedYaml::load_from_str(text).map_err(|error| {
        let at = error.marker();
        wrong(name, at.line(), at.col() + 1, &format!("this is no YAML: {}", error.info()))
    })?;
    match <[MarkedYaml<'a>; 1]>::try_from(documents) {
        Ok([root]) => Ok(node(name, root)),
        Err(_) => Err(wrong(name, 1, 1, &format!("one document is needed, with {keys}"))),
    }
}

fn node<'a>(name: &str, yaml: MarkedYaml<'a>) -> Node<'a> {
    let at = yaml.span.start;
    Node { name: name.to_owned(), line: at.line(), column: at.col() + 1, data: yaml.data }
}

impl<'a> Node<'a> {
    /// What is wrong with it, and what to do.
    pub(crate) fn wrong(&self, text: &str) -> Error {
        wrong(&self.name, self.line, self.column, text)
    }

    pub(crate) fn is_list(&self) -> bool {
        matches!(self.data, YamlData::Sequence(_))
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.data, YamlData::Mapping(_))
    }

    pub(crate) fn list(&self) -> Result<Vec<Node<'a>>> {
        match &self.data {
            YamlData::Sequence(list) => Ok(list.iter().map(|one| node(&self.name, one.clone())).collect()),
            _ => Err(self.wrong("a list is needed here: lines that begin with '- '")),
        }
    }

    /// The entries of a map; of these keys only, unless there are none.
    pub(crate) fn map(&self, known: &[&str]) -> Result<Vec<(Key<'_>, Node<'a>)>> {
        let YamlData::Mapping(map) = &self.data else {
            let keys = if known.is_empty() { "'name: value'".to_owned() } else { format!("'{}: ...'", known[0]) };
            return Err(self.wrong(&format!("keys and values are needed here, such as {keys}")));
        };
        let mut entries = Vec::new();
        for (key, value) in map {
            let YamlData::Value(Scalar::String(text)) = &key.data else {
                let at = key.span.start;
                return Err(wrong(&self.name, at.line(), at.col() + 1, "a key is a text: put quotes around it"));
            };
            if !known.is_empty() && !known.contains(&text.as_ref()) {
                let at = key.span.start;
                let text = format!("'{text}' is not known here: write one of {}", known.join(", "));
                return Err(wrong(&self.name, at.line(), at.col() + 1, &text));
            }
            entries.push((Key { text: text.as_ref() }, node(&self.name, value.clone())));
        }
        Ok(entries)
    }

    pub(crate) fn number(&self) -> Result<u64> {
        match &self.data {
            YamlData::Value(Scalar::Integer(number)) if *number >= 0 => Ok(*number as u64),
            _ => Err(self.wrong("a whole number is needed here, such as 1500")),
        }
    }

    pub(crate) fn text(&self) -> Result<&str> {
        match &self.data {
            YamlData::Value(Scalar::String(text)) => Ok(text),
            _ => Err(self.wrong("a text is needed here: put quotes around it if it is one")),
        }
    }
}
