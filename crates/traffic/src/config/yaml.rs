//! YAML as a tree that remembers where everything stands, so that messages can name line and column. What scalars mean is decided
//! by who reads them.

use saphyr_parser::{Event, Marker, Parser, Span, StrInput};

/// 1-based line and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos {
    pub line: usize,
    pub column: usize,
}

impl Pos {
    fn new(marker: &Marker) -> Self {
        Pos { line: marker.line(), column: marker.col() + 1 }
    }
}

#[derive(Clone, Debug)]
pub struct Node {
    pub pos: Pos,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

#[derive(Clone, Debug)]
pub struct Key {
    pub name: String,
    pub pos: Pos,
}

impl Node {
    /// How messages call the value.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Scalar(text) if text.is_empty() => "nothing".into(),
            Value::Scalar(text) => format!("'{text}'"),
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a mapping".into(),
        }
    }
}

/// Deeper than any configuration, and shallow enough for every stack.
const MAX_DEPTH: usize = 20;

/// Reads the one document of `text`. The error is a position and a message with the remedy.
pub fn parse(text: &str) -> Result<Node, (Pos, String)> {
    let mut parser = Parser::new_from_str(text);
    let mut root = None;
    loop {
        let (event, span) = next(&mut parser)?;
        match event {
            Event::StreamEnd => break,
            Event::DocumentStart(_) if root.is_some() => {
                return Err((Pos::new(&span.start), "a second document; remove this '---'".into()));
            }
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            event => root = Some(node(&mut parser, event, &span, 0)?),
        }
    }
    root.ok_or_else(|| (Pos { line: 1, column: 1 }, "the file is empty; see 'gnomon-traffic help config'".into()))
}

fn next<'a>(parser: &mut Parser<'a, StrInput<'a>>) -> Result<(Event<'a>, Span), (Pos, String)> {
    match parser.next_event() {
        Some(Ok(event)) => Ok(event),
        Some(Err(error)) => Err((Pos::new(error.marker()), format!("not valid YAML: {}", error.info()))),
        None => Ok((Event::StreamEnd, Span::default())),
    }
}

fn node<'a>(
    parser: &mut Parser<'a, StrInput<'a>>,
    event: Event<'a>,
    span: &Span,
    depth: usize,
) -> Result<Node, (Pos, String)> {
    let pos = Pos::new(&span.start);
    let value = match event {
        _ if depth > MAX_DEPTH => return Err((pos, "nested too deeply".into())),
        Event::Scalar(text, ..) => Value::Scalar(text.into_owned()),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match next(parser)? {
                    (Event::SequenceEnd, _) => break Value::List(items),
                    (event, span) => items.push(node(parser, event, &span, depth + 1)?),
                }
            }
        }
        Event::MappingStart(..) => Value::Map(mapping(parser, depth)?),
        Event::Alias(_) => return Err((pos, "aliases are not supported here; write the value out".into())),
        other => return Err((pos, format!("not valid YAML: unexpected {other:?}"))),
    };
    Ok(Node { pos, value })
}

fn mapping<'a>(parser: &mut Parser<'a, StrInput<'a>>, depth: usize) -> Result<Vec<(Key, Node)>, (Pos, String)> {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    loop {
        let key = match next(parser)? {
            (Event::MappingEnd, _) => return Ok(entries),
            (Event::Scalar(name, ..), span) => Key { name: name.into_owned(), pos: Pos::new(&span.start) },
            (_, span) => return Err((Pos::new(&span.start), "a key must be a plain word".into())),
        };
        if let Some((first, _)) = entries.iter().find(|(other, _)| other.name == key.name) {
            let message = format!("'{}' is given twice, first on line {}; remove one", key.name, first.pos.line);
            return Err((key.pos, message));
        }
        let (event, span) = next(parser)?;
        let value = node(parser, event, &span, depth + 1)?;
        entries.push((key, value));
    }
}
