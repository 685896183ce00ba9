//! Reading text files line by line, with errors that name file and line.

use crate::Error;
use base::ByteSize;
use std::path::Path;

/// A month of all server descriptors in one file has some 500 MB.
const LONGEST: ByteSize = ByteSize(1 << 30);

/// The file's text; bytes that are not UTF-8 (contact lines) are replaced.
pub(super) fn text(path: &Path) -> Result<String, Error> {
    let bytes =
        base::input::bytes(path, LONGEST).map_err(|error| Error::input(format!("{} {error}", path.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line of a file: what errors name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub path: &'a Path,
    /// From 1.
    pub number: usize,
    pub text: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn all(path: &'a Path, text: &'a str) -> impl Iterator<Item = Line<'a>> {
        text.lines().enumerate().map(move |(index, text)| Line { path, number: index + 1, text })
    }

    /// The words after the first, when that is `keyword`.
    pub(super) fn arguments(&self, keyword: &str) -> Option<Vec<&'a str>> {
        let mut words = self.text.split(' ').filter(|word| !word.is_empty());
        (words.next() == Some(keyword)).then(|| words.collect())
    }

    /// "FILE:LINE: EXPECTED, not 'TEXT'".
    pub(super) fn wrong(&self, expected: &str) -> Error {
        const SHOWN: usize = 60;
        let shown: String = self.text.chars().take(SHOWN).collect();
        let more = if self.text.chars().count() > SHOWN { "..." } else { "" };
        Error::input(format!("{}:{}: expected {expected}, not '{shown}{more}'", self.path.display(), self.number))
    }
}

/// A fingerprint as 40 upper-case digits: from hexadecimal with or without `$`.
pub(super) fn fingerprint(text: &str) -> Option<String> {
    let digits = text.strip_prefix('$').unwrap_or(text);
    (digits.len() == 40 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| digits.to_ascii_uppercase())
}
