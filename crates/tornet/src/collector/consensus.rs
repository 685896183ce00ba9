//! Consensuses (dir-spec, "Computing a consensus from a set of votes"; flavours ns and microdesc).

use super::lines::{Line, text};
use crate::Error;
use data_encoding::{BASE64_NOPAD, HEXUPPER};
use std::net::Ipv4Addr;
use std::path::Path;

/// What is needed of a consensus: its relays that run, are valid, and are no bad exits.
#[derive(Debug)]
pub(super) struct Consensus {
    /// "2021-07-09 15:00:00".
    pub valid_after: String,
    pub entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) struct Entry {
    /// 40 upper-case hexadecimal digits.
    pub fingerprint: String,
    pub address: Ipv4Addr,
    pub is_guard: bool,
    pub is_exit: bool,
    /// In the consensus' kilobytes per second.
    pub weight: u64,
}

/// A relay's lines so far.
struct Draft<'a> {
    router: Line<'a>,
    fingerprint: String,
    address: Ipv4Addr,
    flags: Option<Vec<&'a str>>,
    weight: Option<u64>,
    /// Whether the summary of its exit policy lets anything out.
    lets_out: bool,
}

pub(super) fn read(path: &Path) -> Result<Consensus, Error> {
    parse(path, &text(path)?)
}

pub(super) fn parse(path: &Path, text: &str) -> Result<Consensus, Error> {
    let mut lines = Line::all(path, text).filter(|line| !line.text.starts_with('@'));
    let whole = |expected: &str| Error::input(format!("{}: {expected}", path.display()));
    let first = lines
        .next()
        .ok_or_else(|| whole("is empty; a consensus (CollecTor: network-status-consensus-3) belongs here"))?;
    if first.arguments("network-status-version").is_none_or(|version| version.first() != Some(&"3")) {
        return Err(first.wrong("'network-status-version 3', with which consensuses begin"));
    }
    let mut valid_after = None;
    let mut entries = Vec::new();
    let mut draft: Option<Draft> = None;
    let mut is_complete = false;
    for line in lines {
        if let Some(time) = line.arguments("valid-after") {
            valid_after = Some(time.join(" "));
        } else if let Some(words) = line.arguments("r") {
            finish(draft.replace(router(line, &words)?), &mut entries)?;
        } else if line.text == "directory-footer" {
            finish(draft.take(), &mut entries)?;
            is_complete = true;
        } else if let Some(draft) = &mut draft {
            detail(draft, line)?;
        }
    }
    if !is_complete {
        return Err(whole("ends before the line 'directory-footer'; fetch the whole consensus"));
    }
    Ok(Consensus { valid_after: valid_after.ok_or_else(|| whole("has no line 'valid-after'"))?, entries })
}

/// "r nickname identity [digest] date time address port port"; the flavour microdesc leaves the digest out.
fn router<'a>(line: Line<'a>, words: &[&str]) -> Result<Draft<'a>, Error> {
    let wrong = || line.wrong("'r NICKNAME IDENTITY [DIGEST] DATE TIME ADDRESS ORPORT DIRPORT'");
    let address = match words.len() {
        8 => words[5],
        7 => words[4],
        _ => return Err(wrong()),
    };
    let identity = BASE64_NOPAD.decode(words[1].as_bytes()).ok().filter(|bytes| bytes.len() == 20);
    Ok(Draft {
        router: line,
        fingerprint: HEXUPPER.encode(&identity.ok_or_else(wrong)?),
        address: address.parse().map_err(|_| wrong())?,
        flags: None,
        weight: None,
        lets_out: true,
    })
}

fn detail<'a>(draft: &mut Draft<'a>, line: Line<'a>) -> Result<(), Error> {
    if let Some(flags) = line.arguments("s") {
        draft.flags = Some(flags);
    } else if let Some(words) = line.arguments("w") {
        let bandwidth = words.iter().find_map(|word| word.strip_prefix("Bandwidth="));
        let weight = bandwidth.and_then(|number| number.parse().ok());
        draft.weight = Some(weight.ok_or_else(|| line.wrong("'w Bandwidth=NUMBER'"))?);
    } else if let Some(words) = line.arguments("p") {
        draft.lets_out = words != ["reject", "1-65535"];
    }
    Ok(())
}

/// Takes a relay whose lines are all there.
fn finish(draft: Option<Draft>, entries: &mut Vec<Entry>) -> Result<(), Error> {
    let Some(draft) = draft else { return Ok(()) };
    let Some(flags) = draft.flags else {
        return Err(draft.router.wrong("a relay with a line of flags ('s ...') below it"));
    };
    let Some(weight) = draft.weight else {
        return Err(draft.router.wrong("a relay with a weight ('w Bandwidth=NUMBER') below it"));
    };
    let has = |flag| flags.contains(&flag);
    if has("Running") && has("Valid") && !has("BadExit") {
        entries.push(Entry {
            fingerprint: draft.fingerprint,
            address: draft.address,
            is_guard: has("Guard") && has("Fast") && has("Stable"),
            is_exit: has("Exit") && draft.lets_out,
            weight,
        });
    }
    Ok(())
}
