//! Remedies for misspelt words.

/// "; did you mean 'x'?" when a known word is close, otherwise the list of all of them.
pub(crate) fn remedy<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let normal = word.to_ascii_lowercase().replace('-', "_");
    let close = known
        .clone()
        .map(|candidate| (distance(&normal, candidate), candidate))
        .filter(|&(d, candidate)| d <= 1 + candidate.len() / 4)
        .min();
    match close {
        Some((_, candidate)) => format!("; did you mean '{candidate}'?"),
        None => format!("; use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// Levenshtein's distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in [("", "", 0), ("abc", "abc", 0), ("abc", "abd", 1), ("kitten", "sitting", 3), ("", "ab", 2)] {
            assert_eq!(distance(a, b), d);
        }
    }

    #[test]
    fn close_words_are_suggested_and_others_listed() {
        let known = ["stop_time", "seed"];
        assert_eq!(remedy("stop_tme", known.into_iter()), "; did you mean 'stop_time'?");
        assert_eq!(remedy("Stop-Time", known.into_iter()), "; did you mean 'stop_time'?");
        assert_eq!(remedy("colour", known.into_iter()), "; use one of stop_time, seed");
    }
}
