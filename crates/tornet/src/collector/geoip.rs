//! Countries of IPv4 addresses, from a file as tor has it (`geoip`: "FIRST,LAST,CODE", addresses as numbers).

use super::lines::{Line, text};
use crate::Error;
use std::net::Ipv4Addr;
use std::path::Path;

#[derive(Debug)]
pub(super) struct Countries(Vec<Range>);

#[derive(Debug)]
struct Range {
    first: u32,
    last: u32,
    code: String,
}

impl Countries {
    pub(super) fn of(&self, address: Ipv4Addr) -> Option<&str> {
        let address = u32::from(address);
        let after = self.0.partition_point(|range| range.first <= address);
        let range = &self.0[after.checked_sub(1)?];
        (address <= range.last).then_some(range.code.as_str())
    }
}

pub(super) fn read(path: &Path) -> Result<Countries, Error> {
    parse(path, &text(path)?)
}

fn parse(path: &Path, text: &str) -> Result<Countries, Error> {
    let mut ranges = Vec::new();
    for line in Line::all(path, text).filter(|line| !line.text.is_empty() && !line.text.starts_with('#')) {
        ranges.push(range(line.text).ok_or_else(|| line.wrong("'FIRST,LAST,CODE', addresses as numbers"))?);
    }
    ranges.sort_by_key(|range| range.first);
    Ok(Countries(ranges))
}

fn range(text: &str) -> Option<Range> {
    let mut fields = text.split(',');
    let (first, last) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(Range { first, last, code: fields.next()?.trim_matches('"').to_ascii_uppercase() })
}
