//! Remedies for misspelt words.

/// "; did you mean 'x'?" when a known word is close, otherwise the list of all of them.
pub(crate) fn remedy<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let normal = word.to_ascii_lowercase().replace('-', "_");
    let close = known
        .clone()
        .map(|candidate| (strsim::levenshtein(&normal, candidate), candidate))
        .filter(|&(d, candidate)| d <= 1 + candidate.len() / 4)
        .min();
    match close {
        Some((_, candidate)) => format!("; did you mean '{candidate}'?"),
        None => format!("; use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested_and_others_listed() {
        let known = ["stop_time", "seed"];
        assert_eq!(remedy("stop_tme", known.into_iter()), "; did you mean 'stop_time'?");
        assert_eq!(remedy("Stop-Time", known.into_iter()), "; did you mean 'stop_time'?");
        assert_eq!(remedy("colour", known.into_iter()), "; use one of stop_time, seed");
    }
}
