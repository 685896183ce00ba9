//! Hexadecimal numbers: DuckDB reads `0xff` as the number 0 with the name `xff`, and shows addresses in decimal.

use crate::json;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, UInt64Type};
use arrow::record_batch::RecordBatch;

/// `sql` with its hexadecimal numbers in decimal; what stands in strings, quoted names and comments stays.
pub fn in_decimal(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(next) = rest.chars().next() {
        let length = opaque(rest, out.ends_with(['e', 'E'])).unwrap_or_else(|| word(rest).max(next.len_utf8()));
        let (token, after) = rest.split_at(length);
        match number(token) {
            Some(number) => out += &number.to_string(),
            None => out += token,
        }
        rest = after;
    }
    out
}

/// How many bytes a string, quoted name or comment has that `text` begins with.
fn opaque(text: &str, escapes: bool) -> Option<usize> {
    if text.starts_with('\'') {
        return Some(quoted(text, '\'', escapes));
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"', false));
    }
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if let Some(comment) = text.strip_prefix("/*") {
        return Some(comment.find("*/").map_or(text.len(), |at| at + 4));
    }
    if let Some(rest) = text.strip_prefix('$') {
        let tag = 1 + rest.find('$')?;
        let is_tag = text[1..tag].chars().all(|c| c.is_alphanumeric() || c == '_');
        let tag = &text[..=tag];
        return is_tag.then(|| text[tag.len()..].find(tag).map_or(text.len(), |at| at + 2 * tag.len()));
    }
    None
}

/// The length of what `text` begins with, from its quote to the next that is alone; with `escapes`, one behind a backslash is none.
fn quoted(text: &str, quote: char, escapes: bool) -> usize {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, char)) = chars.next() {
        if escapes && char == '\\' || char == quote && chars.peek().is_some_and(|(_, next)| *next == quote) {
            chars.next();
        } else if char == quote {
            return at + 1;
        }
    }
    text.len()
}

/// How many bytes of a name or number `text` begins with.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

fn number(word: &str) -> Option<u128> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))?;
    digits.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| u128::from_str_radix(digits, 16).ok())?
}

/// The cells of a row for people: of columns that are called addresses in hexadecimal.
pub fn cells(batch: &RecordBatch, row: usize) -> impl Iterator<Item = String> {
    let fields = batch.schema_ref().fields().iter();
    fields.zip(batch.columns()).map(move |(field, column)| cell(field, column, row))
}

fn cell(field: &Field, column: &ArrayRef, row: usize) -> String {
    let is_address = field.name() == "address" || field.name().ends_with("_address");
    if is_address && *column.data_type() == DataType::UInt64 && column.is_valid(row) {
        return format!("{:#x}", column.as_primitive::<UInt64Type>().value(row));
    }
    json::text(column, row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_decimal_and_nothing_else_changes() {
        for (sql, expected) in [
            ("SELECT 0xff, 0XFF+1", "SELECT 255, 255+1"),
            ("WHERE address=0x100000eff060AND", "WHERE address=0x100000eff060AND"),
            ("WHERE address>=0x100000eff060;", "WHERE address>=17592201769056;"),
            ("'0xff' \"0xff\" a0xff 0xfg 10xff", "'0xff' \"0xff\" a0xff 0xfg 10xff"),
            ("'it''s 0xf' 0xf", "'it''s 0xf' 15"),
            ("e'\\' 0xf' 0xf", "e'\\' 0xf' 15"),
            ("-- 0xf\n0xf /* 0xf */ 0xf", "-- 0xf\n15 /* 0xf */ 15"),
            ("$$0xf$$ $a$0xf$$$a$ 0xf", "$$0xf$$ $a$0xf$$$a$ 15"),
            ("'open 0xf", "'open 0xf"),
            ("äö 0xf 'ä' $1", "äö 15 'ä' $1"),
            ("0x0xf 0x", "0x0xf 0x"),
        ] {
            assert_eq!(in_decimal(sql), expected);
        }
    }
}
