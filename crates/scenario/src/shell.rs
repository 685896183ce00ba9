//! Splitting a command line into arguments by the quoting rules of POSIX sh (XCU section 2.2), and joining it again. Nothing is
//! expanded.

/// Splits `line`; the error names what is not closed.
pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    let mut word: Option<String> = None;
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '#' if word.is_none() => while chars.next_if(|&c| c != '\n').is_some() {},
            '\'' => quoted(&mut chars, word.get_or_insert_default(), '\'')?,
            '"' => quoted(&mut chars, word.get_or_insert_default(), '"')?,
            '\\' => match chars.next() {
                Some('\n') => {}
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err("a backslash ends the line; remove it or write '\\\\'".into()),
            },
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote. Within `"`, a backslash escapes `$`, `` ` ``, `"`, `\` and the end of a line; within `'`
/// nothing.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, word: &mut String, quote: char) -> Result<(), String> {
    while let Some(c) = chars.next() {
        match c {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match chars.next_if(|c| matches!(c, '$' | '`' | '"' | '\\' | '\n')) {
                Some('\n') => {}
                Some(escaped) => word.push(escaped),
                None => word.push('\\'),
            },
            other => word.push(other),
        }
    }
    Err(format!("a quote ({quote}) is never closed; add it, or give the arguments as a list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_as_a_shell_does() {
        for (line, expected) in [
            ("", vec![]),
            ("  a  b\tc\n", vec!["a", "b", "c"]),
            ("--agent 'Mozilla (x; y)' http://s:80", vec!["--agent", "Mozilla (x; y)", "http://s:80"]),
            (r#"the "\"lazy\" dog" "#, vec!["the", "\"lazy\" dog"]),
            (r#"a\ b 'c'"d"e '' "\n""#, vec!["a b", "cde", "", "\\n"]),
            ("a # comment\nb#c", vec!["a", "b#c"]),
            ("$HOME ~/x *", vec!["$HOME", "~/x", "*"]),
        ] {
            assert_eq!(split(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_closed_is_named() {
        assert_eq!(split("a 'b").unwrap_err(), "a quote (') is never closed; add it, or give the arguments as a list");
        assert_eq!(split("a\\").unwrap_err(), "a backslash ends the line; remove it or write '\\\\'");
    }
}
