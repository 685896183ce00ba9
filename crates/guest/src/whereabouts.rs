//! Which file's code lies at an address, for messages about a worker that somebody looks at from outside: no address space is asked, only
//! the machine's memory map and the store.

use crate::image::images;
use std::path::PathBuf;

/// A file, and what is to be added to the addresses that it was linked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    pub path: PathBuf,
    pub bias: u64,
    /// The address, or the one that it stands for if it lies in a sled.
    pub address: u64,
}

/// The file whose code lies at an address of the simulator or of a guest; None for code that was made up, and while the store is busy.
pub fn whereabouts(address: u64) -> Option<Whereabouts> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mappings: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
    let mapping = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    if mapping.name.starts_with("/memfd:gnomon-images") {
        let (path, bias, address) = images().file_at(mapping.offset + (address - mapping.start), address)?;
        return Some(Whereabouts { path, bias, address });
    }
    let first = mappings.iter().find(|other| other.name == mapping.name && other.offset == 0)?;
    mapping.name.starts_with('/').then(|| Whereabouts { path: mapping.name.into(), bias: first.start, address })
}

/// A line of `/proc/self/maps`.
struct Mapping<'a> {
    start: u64,
    end: u64,
    offset: u64,
    name: &'a str,
}

impl Mapping<'_> {
    fn parse(line: &str) -> Option<Mapping<'_>> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, name: words.nth(2).unwrap_or("") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulators_own_code_lies_in_its_program() {
        let here = super::whereabouts as *const () as u64;
        let found = whereabouts(here).expect("a file");
        assert_eq!(found.path, std::env::current_exe().unwrap());
        assert!(found.bias < here && found.address == here);
        assert_eq!(whereabouts(8), None);
    }

    #[test]
    fn a_line_of_the_memory_map_is_read() {
        let line = "7f00a000-7f00b000 r-xp 00003000 fd:00 1234    /usr/lib/libc.so.6";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f00_a000, 0x7f00_b000, 0x3000));
        assert_eq!(mapping.name, "/usr/lib/libc.so.6");
        assert_eq!(Mapping::parse("7f00a000-7f00b000 rw-p 00000000 00:00 0").unwrap().name, "");
    }
}
