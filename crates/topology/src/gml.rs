//! The syntax of GML (Himsolt 1997): `key value` pairs, where a value is a number, a quoted string or a bracketed list.
//!
//! White space of any kind separates, so several attributes may share a line; `#` begins a comment that runs to the end of
//! the line; strings may span lines and may hold the escapes `\"` and `\\` as well as GML's own character entities
//! (`&quot;`, `&amp;`, `&#65;`). The scanner hands out one token at a time and builds no tree: published graphs have
//! millions of edges. Only `graph` uses this module.

use crate::error::TopologyError;
use std::borrow::Cow;

/// Where a token begins: 1-based line and column (in bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pos {
    pub line: u32,
    pub column: u32,
}

impl Pos {
    pub fn error(self, message: impl Into<String>) -> TopologyError {
        TopologyError::gml(self.line, self.column, message)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Token<'a> {
    Key(&'a str),
    Int(i64),
    Float(f64),
    Text(Cow<'a, str>),
    Open,
    Close,
    End,
}

impl Token<'_> {
    /// How messages call this token.
    pub fn describe(&self) -> String {
        match self {
            Token::Key(key) => format!("the word '{key}'"),
            Token::Int(n) => format!("the number {n}"),
            Token::Float(x) => format!("the number {x}"),
            Token::Text(text) => format!("the string \"{text}\""),
            Token::Open => "'['".into(),
            Token::Close => "']'".into(),
            Token::End => "the end of the graph".into(),
        }
    }
}

pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    line_start: usize,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Scanner { text, at: 0, line: 1, line_start: 0 }
    }

    /// The next token and where it begins.
    pub fn next(&mut self) -> Result<(Pos, Token<'a>), TopologyError> {
        self.skip_blank();
        let pos = self.pos();
        let Some(&first) = self.text.as_bytes().get(self.at) else {
            return Ok((pos, Token::End));
        };
        let token = match first {
            b'[' | b']' => {
                self.at += 1;
                if first == b'[' { Token::Open } else { Token::Close }
            }
            b'"' => Token::Text(self.string(pos)?),
            b'0'..=b'9' | b'+' | b'-' | b'.' => self.number(pos)?,
            b if is_key_byte(b) => Token::Key(self.take_while(is_key_byte)),
            _ => {
                let c = self.text[self.at..].chars().next().unwrap_or('?');
                return Err(
                    pos.error(format!("unexpected character '{c}'; expected a key, a number, a string or a bracket"))
                );
            }
        };
        Ok((pos, token))
    }

    /// Skips the rest of a list whose `[` has been read; `opened` is where that was.
    pub fn skip_list(&mut self, opened: Pos) -> Result<(), TopologyError> {
        let mut depth = 1u32;
        while depth > 0 {
            match self.next()?.1 {
                Token::Open => depth += 1,
                Token::Close => depth -= 1,
                Token::End => return Err(opened.error("this '[' is never closed; add ']'")),
                _ => {}
            }
        }
        Ok(())
    }

    fn pos(&self) -> Pos {
        Pos { line: self.line, column: (self.at - self.line_start) as u32 + 1 }
    }

    fn skip_blank(&mut self) {
        let bytes = self.text.as_bytes();
        while let Some(&b) = bytes.get(self.at) {
            match b {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    self.line_start = self.at;
                }
                b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
                b'#' => {
                    while bytes.get(self.at).is_some_and(|&b| b != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn take_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.text.as_bytes().get(self.at).is_some_and(|&b| keep(b)) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn number(&mut self, pos: Pos) -> Result<Token<'a>, TopologyError> {
        let word = self.take_while(|b| is_key_byte(b) || matches!(b, b'.' | b'+' | b'-'));
        if let Ok(n) = word.parse::<i64>() {
            return Ok(Token::Int(n));
        }
        match word.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Token::Float(x)),
            _ => Err(pos.error(format!("'{word}' is not a number; quote it if it is a string: \"{word}\""))),
        }
    }

    fn string(&mut self, pos: Pos) -> Result<Cow<'a, str>, TopologyError> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        loop {
            match bytes.get(self.at) {
                None => return Err(pos.error("this string is never closed; add '\"'")),
                Some(b'"') => break,
                Some(b'\\') if matches!(bytes.get(self.at + 1), Some(b'"' | b'\\')) => {
                    escaped = true;
                    self.at += 2;
                }
                Some(&b) => {
                    escaped |= b == b'&';
                    self.at += 1;
                    if b == b'\n' {
                        self.line += 1;
                        self.line_start = self.at;
                    }
                }
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(if escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
    }
}

fn is_key_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// Resolves `\"`, `\\` and character entities; what is no known escape stays as it is.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find(['\\', '&']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (text, used) = escape_at(rest);
        out.push(text);
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// The character that an escape at the start of `rest` stands for, and the escape's length.
fn escape_at(rest: &str) -> (char, usize) {
    if let Some(c @ ('"' | '\\')) = rest.strip_prefix('\\').and_then(|r| r.chars().next()) {
        return (c, 2);
    }
    if let Some((name, _)) = rest.strip_prefix('&').and_then(|r| r.split_once(';')) {
        let known = match name {
            "quot" => Some('"'),
            "amp" => Some('&'),
            "lt" => Some('<'),
            "gt" => Some('>'),
            "apos" => Some('\''),
            _ => name.strip_prefix('#').and_then(|n| n.parse().ok()).and_then(char::from_u32),
        };
        if let Some(c) = known {
            return (c, name.len() + 2);
        }
    }
    (if rest.starts_with('&') { '&' } else { '\\' }, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut scanner = Scanner::new(text);
        let mut out = Vec::new();
        loop {
            match scanner.next().unwrap().1 {
                Token::End => return out,
                token => out.push(token),
            }
        }
    }

    #[test]
    fn several_attributes_on_a_line_and_comments() {
        assert_eq!(
            tokens("graph [ # a comment ]\n node [id 0 label \"x\"]directed 1 w -2.5e1]"),
            vec![
                Token::Key("graph"),
                Token::Open,
                Token::Key("node"),
                Token::Open,
                Token::Key("id"),
                Token::Int(0),
                Token::Key("label"),
                Token::Text("x".into()),
                Token::Close,
                Token::Key("directed"),
                Token::Int(1),
                Token::Key("w"),
                Token::Float(-25.0),
                Token::Close,
            ]
        );
    }

    #[test]
    fn strings_keep_hashes_lines_and_escapes() {
        assert_eq!(
            tokens("a \"x # y\\\"z\\\\ &amp; &quot;q&quot; &#65; &nosuch; \\n\nend\""),
            vec![Token::Key("a"), Token::Text("x # y\"z\\ & \"q\" A &nosuch; \\n\nend".into())]
        );
    }

    #[test]
    fn errors_carry_line_and_column() {
        let error = |text: &str| {
            let mut scanner = Scanner::new(text);
            loop {
                match scanner.next() {
                    Ok((_, Token::End)) => panic!("no error in {text:?}"),
                    Ok(_) => {}
                    Err(e) => return e.to_string(),
                }
            }
        };
        assert_eq!(
            error("graph [\n  a {"),
            "2:5: unexpected character '{'; expected a key, a number, a string or a bracket"
        );
        assert_eq!(error("a\n\n b \"x"), "3:4: this string is never closed; add '\"'");
        assert_eq!(error("a 10ms"), "1:3: '10ms' is not a number; quote it if it is a string: \"10ms\"");
    }
}
