//! Server descriptors (dir-spec, "Server descriptor format"): what each relay can carry.

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
            parse(&file, &text(&file)?, &mut capacities)?;
        }
    }
    if capacities.is_empty() {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Error::input(format!(
            "{}: no server descriptor in there (CollecTor: server-descriptor 1.0)",
            names.join(", ")
        )));
    }
    Ok(capacities)
}

/// The file itself, or all files of the folder and those in it.
fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let unreadable = |error| Error::input(format!("{} cannot be read: {error}", path.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        found.extend(files(&entry.map_err(unreadable)?.path())?);
    }
    found.sort();
    Ok(found)
}

/// A descriptor's lines so far.
struct Draft<'a> {
    router: Line<'a>,
    fingerprint: Option<String>,
    bits_per_sec: Option<u64>,
}

fn parse(path: &Path, text: &str, capacities: &mut BTreeMap<String, Bandwidth>) -> Result<(), Error> {
    let mut draft: Option<Draft> = None;
    for mut line in Line::all(path, text) {
        // Descriptors of old marked what was new with this word.
        line.text = line.text.strip_prefix("opt ").unwrap_or(line.text);
        if line.arguments("router").is_some() {
            finish(draft.replace(Draft { router: line, fingerprint: None, bits_per_sec: None }), capacities)?;
        } else if let Some(draft) = &mut draft {
            if let Some(words) = line.arguments("fingerprint") {
                let found = fingerprint(&words.concat());
                draft.fingerprint = Some(found.ok_or_else(|| line.wrong("'fingerprint' and 40 hexadecimal digits"))?);
            } else if let Some(words) = line.arguments("bandwidth") {
                draft.bits_per_sec = Some(bandwidth(line, &words)?);
            }
        } else if !line.text.is_empty() && !line.text.starts_with('@') {
            return Err(line.wrong("'router ...', with which server descriptors begin"));
        }
    }
    finish(draft, capacities)
}

/// "bandwidth average burst observed", bytes per second.
fn bandwidth(line: Line, words: &[&str]) -> Result<u64, Error> {
    let numbers: Option<Vec<u64>> = words.iter().map(|word| word.parse().ok()).collect();
    match numbers.as_deref() {
        Some([average, _, observed]) => Ok((*observed).min(*average).saturating_mul(8)),
        _ => Err(line.wrong("'bandwidth AVERAGE BURST OBSERVED' in bytes per second")),
    }
}

fn finish(draft: Option<Draft>, capacities: &mut BTreeMap<String, Bandwidth>) -> Result<(), Error> {
    let Some(draft) = draft else { return Ok(()) };
    let (Some(fingerprint), Some(bits)) = (draft.fingerprint, draft.bits_per_sec) else {
        return Err(draft.router.wrong("a descriptor with the lines 'fingerprint' and 'bandwidth' below it"));
    };
    if bits > 0 {
        let bandwidth = Bandwidth::from_bits_per_sec(bits);
        let known = capacities.entry(fingerprint).or_insert(bandwidth);
        *known = (*known).max(bandwidth);
    }
    Ok(())
}
