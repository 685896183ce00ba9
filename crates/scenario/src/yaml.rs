//! YAML 1.2 as a tree that remembers positions: anchors and merge keys (`<<`) are resolved here, and a key that is given twice
//! is an error here. What scalars mean is decided by who reads them.

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};
use std::rc::Rc;

/// 1-based line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pos {
    pub line: u32,
    pub column: u32,
}

impl From<&Marker> for Pos {
    fn from(marker: &Marker) -> Self {
        Pos { line: marker.line() as u32, column: marker.col() as u32 + 1 }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub pos: Pos,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Scalar { text: String, style: Style },
    Seq(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Without quotes: `null`, `true` and numbers have their meaning.
    Plain,
    Quoted,
    /// A `|` block, whose lines are lines of the file.
    Literal,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub pos: Pos,
    pub value: Rc<Node>,
}

/// The text is not YAML that can be used; the message names the remedy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct YamlError {
    pub pos: Pos,
    pub message: String,
}

impl Node {
    /// How messages call a value of this form.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar { text, style: Style::Plain } if is_null(text) => "nothing".into(),
            Value::Scalar { text, .. } if text.len() > 40 => {
                format!("'{}...'", text.chars().take(40).collect::<String>())
            }
            Value::Scalar { text, .. } => format!("'{text}'"),
            Value::Seq(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, style: Style::Plain } if is_null(text))
    }
}

/// The forms of null in YAML 1.2's core schema.
pub(crate) fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// Reads the one document of `text`.
pub(crate) fn parse(text: &str) -> Result<Node, YamlError> {
    let mut builder = Builder { parser: Parser::new_from_str(text), anchors: Vec::new(), values: 0, aliased: 0 };
    let mut root = None;
    loop {
        let (event, span) = builder.next()?;
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) if root.is_some() => {
                return Err(error(&span, "a second document; an experiment is one document, so remove this '---'"));
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => root = Some(builder.node(event, &span, 0)?),
        }
    }
    match root {
        Some(node) => Ok(Rc::unwrap_or_clone(node)),
        None => Err(YamlError { pos: Pos { line: 1, column: 1 }, message: "the file is empty".into() }),
    }
}

/// How many values aliases may stand for, all together. What is written out is bounded by the file's size; aliases of aliases multiply.
/// An experiment of 60,000 hosts that take everything from templates has some five million.
const MAX_ALIASED: u64 = 10_000_000;

/// Deeper than any experiment, and shallow enough for every stack.
const MAX_DEPTH: u32 = 100;

struct Builder<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Nodes by anchor id.
    anchors: Vec<Option<Anchor>>,
    /// Values so far, those that aliases stand for among them.
    values: u64,
    /// The latter alone.
    aliased: u64,
}

#[derive(Clone)]
struct Anchor {
    node: Rc<Node>,
    /// How many values it and what is in it are.
    values: u64,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), YamlError> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(e)) => Err(YamlError { pos: e.marker().into(), message: format!("not valid YAML: {}", e.info()) }),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: &Span, depth: u32) -> Result<Rc<Node>, YamlError> {
        if depth > MAX_DEPTH {
            return Err(error(span, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        let before = self.values;
        self.values += 1;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let style = match style {
                    ScalarStyle::Plain if tag.is_none_or(|t| t.suffix != "str") => Style::Plain,
                    ScalarStyle::Literal => Style::Literal,
                    _ => Style::Quoted,
                };
                (Value::Scalar { text: text.into_owned(), style }, anchor)
            }
            Event::SequenceStart(anchor, _) => (Value::Seq(self.sequence(depth)?), anchor),
            Event::MappingStart(anchor, _) => (Value::Map(self.mapping(depth)?), anchor),
            Event::Alias(id) => {
                let known = self.anchors.get(id).and_then(Option::as_ref);
                let known = known.ok_or_else(|| error(span, "this alias refers to the value that it stands in"))?;
                self.values = self.values.saturating_add(known.values);
                self.aliased = self.aliased.saturating_add(known.values);
                if self.aliased > MAX_ALIASED {
                    let message =
                        format!("aliases up to here stand for more than {MAX_ALIASED} values; write fewer of them");
                    return Err(error(span, message));
                }
                return Ok(Rc::clone(&known.node));
            }
            other => return Err(error(span, format!("not valid YAML: unexpected {other:?}"))),
        };
        let node = Rc::new(Node { pos: (&span.start).into(), value });
        if anchor > 0 {
            self.anchors.resize(self.anchors.len().max(anchor + 1), None);
            self.anchors[anchor] = Some(Anchor { node: node.clone(), values: self.values - before });
        }
        Ok(node)
    }

    fn sequence(&mut self, depth: u32) -> Result<Vec<Rc<Node>>, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(items),
                (event, span) => items.push(self.node(event, &span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: u32) -> Result<Vec<Entry>, YamlError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merges = Vec::new();
        let mut seen = base::map::FastMap::default();
        loop {
            let (key, pos, merge) = match self.next()? {
                (Event::MappingEnd, _) => break,
                (Event::Scalar(key, style, _, _), span) => {
                    let merge = key == "<<" && style == ScalarStyle::Plain;
                    (key.into_owned(), Pos::from(&span.start), merge)
                }
                (_, span) => return Err(error(&span, "a key must be a plain word")),
            };
            let (event, span) = self.next()?;
            let value = self.node(event, &span, depth + 1)?;
            if merge {
                merges.push((pos, value));
                continue;
            }
            if let Some(first) = seen.insert(key.clone(), pos) {
                let message = format!("'{key}' is given twice, first on line {}; rename or remove one", first.line);
                return Err(YamlError { pos, message });
            }
            entries.push(Entry { key, pos, value });
        }
        for (pos, value) in merges {
            merge(&mut entries, pos, &value)?;
        }
        Ok(entries)
    }
}

/// Adds the entries of a merge key's mappings that are not there yet: what is written out wins over what is merged, and
/// earlier mappings win over later ones.
fn merge(entries: &mut Vec<Entry>, pos: Pos, value: &Node) -> Result<(), YamlError> {
    match &value.value {
        Value::Map(merged) => {
            for entry in merged {
                if !entries.iter().any(|e| e.key == entry.key) {
                    entries.push(entry.clone());
                }
            }
            Ok(())
        }
        Value::Seq(maps) if maps.iter().all(|m| matches!(m.value, Value::Map(_))) => {
            maps.iter().try_for_each(|map| merge(entries, pos, map))
        }
        _ => Err(YamlError {
            pos,
            message: format!(
                "'<<' merges a mapping or a list of mappings, not {}; write '<<: *anchor'",
                value.describe()
            ),
        }),
    }
}

fn error(span: &Span, message: impl Into<String>) -> YamlError {
    YamlError { pos: (&span.start).into(), message: message.into() }
}

/// A double-quoted scalar that reads back as `text`.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                out.push_str(&format!("\\u{:04X}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text of several lines as a `|` block whose lines are indented by `indent`; quoted where a block cannot hold it exactly.
pub(crate) fn block(text: &str, indent: usize, parent_indent: usize) -> String {
    let fits = text.ends_with('\n')
        && !text.ends_with("\n\n")
        && !text.starts_with('\n')
        && text.chars().all(|c| matches!(c, '\n' | '\t') || (!c.is_control() && c != '\u{feff}'));
    if !fits || text.len() < 2 {
        return quoted(text);
    }
    let pad = " ".repeat(indent);
    let lines = text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("{pad}{line}\n") });
    format!("|{}\n{}", indent - parent_indent, lines.collect::<String>().trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<(String, String)> {
        let Value::Map(entries) = parse(text).unwrap().value else { panic!("no mapping") };
        entries.into_iter().map(|e| (e.key, e.value.describe())).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
    }

    fn problem(text: &str) -> String {
        let e = parse(text).unwrap_err();
        format!("{}:{}: {}", e.pos.line, e.pos.column, e.message)
    }

    #[test]
    fn merge_keys_fill_in_what_is_missing() {
        let Value::Map(top) =
            parse("a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\nd:\n  z: 4\n  <<: *b\n")
                .unwrap()
                .value
        else {
            panic!()
        };
        let of = |i: usize| match &top[i].value.value {
            Value::Map(m) => m.iter().map(|e| (e.key.clone(), e.value.describe())).collect::<Vec<_>>(),
            _ => panic!(),
        };
        assert_eq!(of(2), pairs(&[("x", "'3'"), ("y", "'1'"), ("z", "'2'")]));
        assert_eq!(of(3), pairs(&[("z", "'4'"), ("y", "'2'")]));
    }

    #[test]
    fn aliases_stand_for_their_anchors() {
        assert_eq!(
            entries("a: &x [1]\nb: *x\nc: &y text\nd: *y\n"),
            pairs(&[("a", "a list"), ("b", "a list"), ("c", "'text'"), ("d", "'text'")])
        );
    }

    #[test]
    fn aliases_do_not_multiply_without_bound() {
        let line = |n: u32| format!("a{}: &a{} [{}]\n", n + 1, n + 1, vec![format!("*a{n}"); 10].join(", "));
        let laughs: String = (0..9).map(line).collect();
        let text = format!("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{laughs}");
        let told = problem(&text);
        assert!(
            told.starts_with("7:") && told.ends_with("stand for more than 10000000 values; write fewer of them"),
            "{told}"
        );
        assert!(parse(&text.lines().take(6).collect::<Vec<_>>().join("\n")).is_ok());
    }

    #[test]
    fn errors_name_their_lines() {
        assert_eq!(problem("a: 1\nb: 2\na: 3\n"), "3:1: 'a' is given twice, first on line 1; rename or remove one");
        assert_eq!(
            problem("a:\n\tb: 1\n"),
            "2:2: not valid YAML: tabs disallowed within this context (block indentation)"
        );
        assert_eq!(problem("a: *x\n"), "1:4: not valid YAML: while parsing node, found unknown anchor");
        assert_eq!(
            problem("a: 1\n---\nb: 2\n"),
            "2:1: a second document; an experiment is one document, so remove this '---'"
        );
        assert_eq!(
            problem("b:\n  <<: 5\n"),
            "2:3: '<<' merges a mapping or a list of mappings, not '5'; write '<<: *anchor'"
        );
        assert_eq!(problem("a: &a\n  b: *a\n"), "2:6: this alias refers to the value that it stands in");
        assert_eq!(problem(""), "1:1: the file is empty");
        assert!(problem(&("[".repeat(200) + &"]".repeat(200))).contains("levels deep"));
    }

    #[test]
    fn written_scalars_read_back() {
        for text in ["", "null", "a \"b\" \\ \n\t\r\u{1} \u{2028} é", " lead", "1", "# no", "a: b", "- x", "x\n\n"] {
            let Value::Map(m) = parse(&format!("k: {}\n", quoted(text))).unwrap().value else { panic!() };
            assert_eq!(m[0].value.value, Value::Scalar { text: text.into(), style: Style::Quoted });
        }
        for text in ["graph [\n  node [\n\n\tid 0 ]\n]\n", "  indented\nless\n", "# x\n"] {
            let yaml = format!("a:\n  b:\n    k: {}\n    l: 1\n", block(text, 6, 4));
            let Value::Map(a) = parse(&yaml).unwrap().value else { panic!() };
            let Value::Map(b) = &a[0].value.value else { panic!() };
            let Value::Map(k) = &b[0].value.value else { panic!() };
            assert_eq!(k[0].value.value, Value::Scalar { text: text.into(), style: Style::Literal }, "{yaml}");
        }
        assert_eq!(block("no newline", 2, 0), "\"no newline\"");
    }
}
