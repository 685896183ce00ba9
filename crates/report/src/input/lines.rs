//! Reading text files line by line in bounded memory, counting what cannot be read.

use crate::run::Damage;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// What a parser says of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Understood, or none of its business.
    Fine,
    /// Should have been understood.
    Broken(&'static str),
}

/// Lines longer than this are damage: no log that is read here has such.
const LONGEST_LINE: usize = 1 << 20;

/// Hands every line of `path` (without its end) to `take`. `name` is how the report calls the file. Reading ends where the
/// file can be read no further.
pub fn for_each_line(path: &Path, name: &str, mut take: impl FnMut(&[u8]) -> Verdict) -> Option<Damage> {
    let mut count = Counter::new(name);
    let file = match base::input::open(path) {
        Ok(file) => file,
        Err(error) => return Some(unreadable(name, &error)),
    };
    let mut reader = BufReader::with_capacity(1 << 18, file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        match (&mut reader).take(LONGEST_LINE as u64 + 2).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                count.add(number, &error.to_string());
                break;
            }
        }
        let is_whole = line.last() == Some(&b'\n');
        let text = line.trim_ascii_end();
        if text.len() > LONGEST_LINE {
            count.add(number, "a line of more than a megabyte");
            if !is_whole && let Err(error) = reader.skip_until(b'\n') {
                count.add(number, &error.to_string());
                break;
            }
        } else if let Verdict::Broken(why) = take(text) {
            count.add(number, if is_whole { why } else { "the last line is cut off" });
        }
    }
    count.damage()
}

/// A file that could not be opened or understood at all.
pub fn unreadable(name: &str, why: &dyn std::fmt::Display) -> Damage {
    Damage { file: name.to_owned(), lines: 1, first: 1, why: why.to_string() }
}

/// Counts the broken lines of one file.
#[derive(Debug)]
pub struct Counter {
    damage: Damage,
}

impl Counter {
    pub fn new(name: &str) -> Counter {
        Counter { damage: Damage { file: name.to_owned(), lines: 0, first: 0, why: String::new() } }
    }

    pub fn add(&mut self, number: usize, why: &str) {
        if self.damage.lines == 0 {
            self.damage.first = number;
            self.damage.why = why.to_owned();
        }
        self.damage.lines += 1;
    }

    pub fn damage(self) -> Option<Damage> {
        (self.damage.lines > 0).then_some(self.damage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_lines_are_counted_and_the_first_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, b"good\nbad\n\xff\xfe good\nbad\ncut").unwrap();
        let mut seen = 0;
        let damage = for_each_line(&path, "hosts/a/log", |line| {
            seen += 1;
            if line.ends_with(b"good") { Verdict::Fine } else { Verdict::Broken("not good") }
        });
        assert_eq!(seen, 5);
        let damage = damage.unwrap();
        assert_eq!((damage.file.as_str(), damage.lines, damage.first), ("hosts/a/log", 3, 2));
        assert_eq!(damage.why, "not good");
        let damage =
            for_each_line(&path, "log", |line| if line == b"cut" { Verdict::Broken("?") } else { Verdict::Fine });
        assert_eq!(damage.unwrap().why, "the last line is cut off");
    }

    #[test]
    fn a_file_that_is_not_there_is_damage() {
        let damage = for_each_line(Path::new("/nonexistent/file"), "file", |_| Verdict::Fine).unwrap();
        assert!(damage.why.contains("No such file"), "{}", damage.why);
    }
}
