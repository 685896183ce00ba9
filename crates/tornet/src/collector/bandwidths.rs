//! Bandwidth files (bandwidth-file-spec, versions 1.0 to 1.9): measured weights.

use super::lines::{Line, fingerprint, text};
use crate::Error;
use std::collections::BTreeMap;
use std::path::Path;

/// A bandwidth file.
#[derive(Debug)]
pub(super) struct Bandwidths {
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// By fingerprint.
    pub weights: BTreeMap<String, u64>,
}

/// Weights by fingerprint.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, u64>, Error> {
    Ok(parse(path, &text(path)?)?.weights)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Bandwidths, Error> {
    let mut lines = Line::all(path, text).filter(|line| !line.text.starts_with('@'));
    let empty = || {
        Error::input(format!(
            "{}: is empty; a bandwidth file (CollecTor: bandwidth-file 1.0) belongs here",
            path.display()
        ))
    };
    let first = lines.next().ok_or_else(empty)?;
    let made = first.text.parse().map_err(|_| {
        first.wrong("the seconds since 1970 at which the file was made, with which bandwidth files begin")
    })?;
    let mut weights = BTreeMap::new();
    for line in lines.filter(|line| line.text.contains("node_id=")) {
        let field =
            |name: &str| line.text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let weight = field("bw").and_then(|number| number.parse().ok());
        let (Some(node), Some(weight)) = (field("node_id").and_then(fingerprint), weight) else {
            return Err(line.wrong("a relay's line with 'node_id=$FINGERPRINT' and 'bw=NUMBER'"));
        };
        weights.insert(node, weight);
    }
    if weights.is_empty() {
        return Err(Error::input(format!(
            "{}: has no relay's line ('bw=NUMBER node_id=$FINGERPRINT')",
            path.display()
        )));
    }
    Ok(Bandwidths { made, weights })
}
