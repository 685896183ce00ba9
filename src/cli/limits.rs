//! The limits of the machine that many guests run into: open files, mappings. Raised where that is permitted, otherwise told.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use recorder::Level;
use std::fs;

/// Mappings of the real kernel that a guest takes: 6 of a light client of Tor and of gnomon-traffic, and as many again for libraries and
/// heaps of larger ones. A limit that is too high costs nothing.
const MAPPINGS_PER_GUEST: usize = 12;
/// What the simulator itself may take.
const OWN_MAPPINGS: usize = 5_000;

const MAX_MAP_COUNT: &str = "/proc/sys/vm/max_map_count";

/// What the log shall say about a limit.
pub type Notice = (Level, String);

/// Raises the limits for `guests` guests. Call it before writing is confined.
pub fn raise(guests: usize) -> Vec<Notice> {
    [raise_open_files(), provide_mappings(guests)].into_iter().flatten().collect()
}

fn raise_open_files() -> Option<Notice> {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map(|()| hard));
    match raised {
        Ok(hard) => Some((Level::Debug, format!("up to {hard} files may be open at once"))),
        Err(error) => Some((Level::Warning, format!("cannot raise the limit of open files: {}", error.desc()))),
    }
}

fn provide_mappings(guests: usize) -> Option<Notice> {
    let limit: usize = fs::read_to_string(MAX_MAP_COUNT).ok()?.trim().parse().ok()?;
    let needed = mappings_needed(guests);
    if needed <= limit {
        return None;
    }
    Some(match fs::write(MAX_MAP_COUNT, needed.to_string()) {
        Ok(()) => (Level::Info, format!("raised vm.max_map_count from {limit} to {needed} for {guests} guests")),
        Err(error) => (
            Level::Warning,
            format!(
                "{guests} guests may need {needed} mappings, and vm.max_map_count is {limit} ({error}); if guests fail to start, \
                 run 'sudo sysctl vm.max_map_count={needed}'"
            ),
        ),
    })
}

fn mappings_needed(guests: usize) -> usize {
    guests * MAPPINGS_PER_GUEST + OWN_MAPPINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_limit_is_enough_for_five_thousand_guests() {
        assert!(mappings_needed(5_000) <= 65_530);
        assert!(mappings_needed(5_100) > 65_530);
    }

    #[test]
    fn open_files_are_raised_to_the_hard_limit() {
        assert!(raise_open_files().is_some());
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert_eq!(soft, hard);
    }
}
