//! Reading `network.graph`: where the graph comes from, its text, and how positions in that text are shown.

use crate::environment::Environment;
use crate::error::Place;
use crate::plan::GraphSource;
use crate::reader::Reader;
use crate::suggest::remedy;
use crate::yaml::{Node, Pos, Style, Value};
use base::input::InputError;
use base::{ByteSize, input};

/// The whole Internet as tornettools knows it, every pair of 1,300 places, has some 300 MB.
const LONGEST_GRAPH: ByteSize = ByteSize(1 << 30);

/// A graph's text, and where its lines are.
pub(crate) struct GraphText {
    pub source: GraphSource,
    pub text: String,
    pub origin: Origin,
}

/// Where the text begins.
pub(crate) enum Origin {
    /// In the experiment file, at this position; `lines` says whether its lines are lines of the file.
    Inline {
        pos: Pos,
        lines: bool,
    },
    File(String),
}

impl GraphText {
    /// The key that messages about the text name.
    pub(crate) fn key(&self) -> &'static str {
        match self.origin {
            Origin::Inline { .. } => "network.graph.inline",
            Origin::File(_) => "network.graph.file",
        }
    }

    /// Where a position of the text is (line and column from 1; line 0 for the text as a whole).
    pub(crate) fn place(&self, reader: &Reader, line: u32, column: u32) -> Place {
        match &self.origin {
            Origin::Inline { pos, lines: true } if line > 0 => {
                reader.place(Pos { line: pos.line + line - 1, column: pos.column + column - 1 })
            }
            Origin::Inline { pos, .. } => reader.place(*pos),
            Origin::File(name) => Place::File { name: name.as_str().into(), line, column },
        }
    }
}

/// Reads `network.graph` and the file that it names. None when something was reported.
pub(crate) fn read_graph(reader: &mut Reader, node: &Node, environment: &Environment) -> Option<GraphText> {
    const KEY: &str = "network.graph";
    let (mut kind, mut inline, mut file) = (None, None, None);
    let before = reader.problem_count();
    for entry in reader.mapping(node, KEY, &["type", "inline", "file"]) {
        match entry.key.as_str() {
            "type" => kind = Some(&entry.value),
            "inline" => inline = Some(&entry.value),
            _ => file = Some(&entry.value),
        }
    }
    let Some(kind) = kind else {
        if reader.problem_count() == before {
            reader.problem(node.pos, KEY, "'type' is missing; add 'type: gml' or 'type: 1_gbit_switch'");
        }
        return None;
    };
    let built_in = reader.value(kind, "network.graph.type", "gml", |scalar| match scalar.text {
        "gml" => Ok(false),
        "1_gbit_switch" => Ok(true),
        other => {
            let known = ["gml", "1_gbit_switch"];
            Err(format!("'{other}' is not a type of graph{}", remedy(other, known.into_iter())))
        }
    })?;
    match (built_in, inline, file) {
        (true, None, None) => Some(GraphText {
            source: GraphSource::OneGbitSwitch,
            text: topology::ONE_GBIT_SWITCH.into(),
            origin: Origin::Inline { pos: kind.pos, lines: false },
        }),
        (true, _, _) => {
            reader.problem(
                kind.pos,
                KEY,
                "type 1_gbit_switch has neither 'inline' nor 'file'; remove these, or use type gml",
            );
            None
        }
        (false, Some(inline), None) => read_inline(reader, inline),
        (false, None, Some(file)) => read_file(reader, file, environment),
        (false, None, None) => {
            reader.problem(
                node.pos,
                KEY,
                "type gml needs a graph; add 'inline' with its text, or 'file' with its path",
            );
            None
        }
        (false, Some(_), Some(file)) => {
            reader.problem(file.pos, KEY, "both 'inline' and 'file' are given; keep one");
            None
        }
    }
}

fn read_inline(reader: &mut Reader, node: &Node) -> Option<GraphText> {
    let text = reader.scalar(node, "network.graph.inline", "'|' and the graph on the lines below")?.text;
    let lines = matches!(&node.value, Value::Scalar { style: Style::Literal, .. });
    // A block's position is that of its first line that is not blank, but its text begins with the blank ones.
    let blank = text.bytes().take_while(|&b| b == b'\n').count() as u32;
    let line = if lines { node.pos.line.saturating_sub(blank) } else { node.pos.line };
    Some(GraphText {
        source: GraphSource::Inline(text.to_owned()),
        text: text.to_owned(),
        origin: Origin::Inline { pos: Pos { line, ..node.pos }, lines },
    })
}

fn read_file(reader: &mut Reader, node: &Node, environment: &Environment) -> Option<GraphText> {
    const KEY: &str = "network.graph.file";
    let (mut path, mut xz) = (None, false);
    let before = reader.problem_count();
    for entry in reader.mapping(node, KEY, &["path", "compression"]) {
        if entry.key == "path" {
            let text = reader.value(&entry.value, "network.graph.file.path", "graph.gml", |s| Ok(s.text.to_owned()))?;
            path = Some((text, entry.value.pos));
            continue;
        }
        xz = !entry.value.is_null();
        reader.value(&entry.value, "network.graph.file.compression", "xz", |s| match s.text {
            "xz" => Ok(()),
            _ if !xz => Ok(()),
            other => Err(format!("'{other}' is not a known compression; use xz or null")),
        })?;
    }
    let Some((path, pos)) = path else {
        if reader.problem_count() == before {
            reader.problem(node.pos, KEY, "'path' is missing; add it, such as 'path: graph.gml'");
        }
        return None;
    };
    match read_text(&environment.absolute(&path), xz) {
        Ok(text) => {
            Some(GraphText { source: GraphSource::File { path: path.clone(), xz }, text, origin: Origin::File(path) })
        }
        Err(message) => {
            reader.problem(pos, "network.graph.file.path", message);
            None
        }
    }
}

fn read_text(path: &std::path::Path, xz: bool) -> Result<String, String> {
    let shown = path.display();
    let bytes = input::bytes(path, LONGEST_GRAPH).map_err(|error| match error {
        error if error.is_not_found() => format!("'{shown}' does not exist; correct the path, or make the file"),
        error => format!("'{shown}' {error}"),
    })?;
    const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
    let bytes = match (xz, bytes.starts_with(XZ_MAGIC)) {
        (true, true) => decompress(&bytes, LONGEST_GRAPH).map_err(|error| match error {
            InputError::TooLong(_) => format!("'{shown}' decompressed {error}"),
            error => format!("'{shown}' cannot be decompressed: {error}"),
        })?,
        (true, false) => return Err(format!("'{shown}' is not compressed with xz; remove 'compression: xz'")),
        (false, true) => return Err(format!("'{shown}' is compressed with xz; add 'compression: xz'")),
        (false, false) => bytes,
    };
    input::into_text(bytes).map_err(|error| format!("'{shown}' {error}"))
}

/// What was compressed with xz, `limit` bytes at most.
///
/// # Errors
/// When it is something else, broken, or longer.
pub fn decompress(bytes: &[u8], limit: ByteSize) -> Result<Vec<u8>, InputError> {
    input::bounded(lzma_rust2::XzReader::new(bytes, true), limit)
}
