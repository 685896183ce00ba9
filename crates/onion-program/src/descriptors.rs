//! How many files and sockets the program may have open.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Asks the system for so many, as tor does: what a process may have at first is often less than it may ask for. The error says what it stays at.
pub fn ask_for(wanted: u64) -> Result<(), String> {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if soft >= wanted.min(hard) {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard)
        .map_err(|error| format!("The limit of open files stays at {soft}: {error}"))
}
