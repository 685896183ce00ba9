//! What is wrong with the input, told so that it can be mended.

use std::fmt;

/// Everything found wrong with a configuration or a command line, one line each: place, key, what, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    pub problems: Vec<String>,
}

impl BadInput {
    pub fn one(problem: impl Into<String>) -> Self {
        BadInput { problems: vec![problem.into()] }
    }
}

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for BadInput {}

/// "; did you mean 'x'?" when a known word is close to `word`, otherwise the list of all of them.
pub fn remedy(word: &str, known: &[&str]) -> String {
    let close = known
        .iter()
        .map(|known| (strsim::levenshtein(word, known), known))
        .filter(|(d, k)| *d <= 1 + k.len() / 4)
        .min();
    match close {
        Some((_, known)) => format!("; did you mean '{known}'?"),
        None => format!("; use one of {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested_and_others_listed() {
        let known = ["socks", "servers"];
        assert_eq!(remedy("server", &known), "; did you mean 'servers'?");
        assert_eq!(remedy("colour", &known), "; use one of socks, servers");
    }
}
