//! Server descriptors (dir-spec, "Server descriptor format"): what each relay can carry.

use super::documents::files;
use super::lines::{Line, fingerprint, text};
use crate::Error;
use base::Bandwidth;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What relays carried at most, by fingerprint: the largest bandwidth observed in any of their descriptors, within the rate that
/// the operator allows.
pub(super) fn read(paths: &[PathBuf]) -> Result<BTreeMap<String, Bandwidth>, Error> {
    let mut capacities = BTreeMap::new();
    for path in paths {
        for file in files(path)? {
            parse(&file, &text(&file)?, &mut |descriptor| {
                let bits = descriptor.observed.min(descriptor.rate).saturating_mul(8);
                if bits > 0 {
                    let bandwidth = Bandwidth::from_bits_per_sec(bits);
                    let known = capacities.entry(descriptor.fingerprint).or_insert(bandwidth);
                    *known = (*known).max(bandwidth);
                }
                Ok(())
            })?;
        }
    }
    if capacities.is_empty() {
        return Err(none(paths));
    }
    Ok(capacities)
}

/// That there is no descriptor where some should be.
pub(super) fn none(paths: &[PathBuf]) -> Error {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Error::input(format!("{}: no server descriptor in there (CollecTor: server-descriptor 1.0)", names.join(", ")))
}

/// What is needed of a descriptor. Bandwidths are in bytes per second.
#[derive(Debug)]
pub(super) struct Descriptor<'a> {
    /// Its first line: what errors name.
    pub router: Line<'a>,
    pub fingerprint: String,
    /// As it stands there: "2026-11-01 00:05:12".
    pub published: Option<&'a str>,
    pub rate: u64,
    pub burst: u64,
    pub observed: u64,
}

/// A descriptor's lines so far.
struct Draft<'a> {
    router: Line<'a>,
    fingerprint: Option<String>,
    published: Option<&'a str>,
    /// Rate, burst, observed.
    bandwidth: Option<[u64; 3]>,
}

type Take<'t> = dyn FnMut(Descriptor<'_>) -> Result<(), Error> + 't;

/// Hands the descriptors of a text, one or many, to `take`.
pub(super) fn parse(path: &Path, text: &str, take: &mut Take<'_>) -> Result<(), Error> {
    let mut draft: Option<Draft> = None;
    for mut line in Line::all(path, text) {
        // Descriptors of old marked what was new with this word.
        line.text = line.text.strip_prefix("opt ").unwrap_or(line.text);
        if line.arguments("router").is_some() {
            let begun = Draft { router: line, fingerprint: None, published: None, bandwidth: None };
            finish(draft.replace(begun), take)?;
        } else if let Some(draft) = &mut draft {
            if let Some(words) = line.arguments("fingerprint") {
                let found = fingerprint(&words.concat());
                draft.fingerprint = Some(found.ok_or_else(|| line.wrong("'fingerprint' and 40 hexadecimal digits"))?);
            } else if let Some(words) = line.arguments("bandwidth") {
                draft.bandwidth = Some(bandwidth(line, &words)?);
            } else if let Some(published) = line.text.strip_prefix("published ") {
                draft.published = Some(published);
            }
        } else if !line.text.is_empty() && !line.text.starts_with('@') {
            return Err(line.wrong("'router ...', with which server descriptors begin"));
        }
    }
    finish(draft, take)
}

/// "bandwidth average burst observed", bytes per second.
fn bandwidth(line: Line, words: &[&str]) -> Result<[u64; 3], Error> {
    let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.and_then(|numbers| numbers.try_into().ok());
    numbers.ok_or_else(|| line.wrong("'bandwidth AVERAGE BURST OBSERVED' in bytes per second"))
}

fn finish(draft: Option<Draft>, take: &mut Take<'_>) -> Result<(), Error> {
    let Some(draft) = draft else { return Ok(()) };
    let (Some(fingerprint), Some([rate, burst, observed])) = (draft.fingerprint, draft.bandwidth) else {
        return Err(draft.router.wrong("a descriptor with the lines 'fingerprint' and 'bandwidth' below it"));
    };
    take(Descriptor { router: draft.router, fingerprint, published: draft.published, rate, burst, observed })
}
