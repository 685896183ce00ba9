//! How much of a run is recorded.

use std::fmt;
use std::str::FromStr;

/// Each level has what those before it have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Level {
    /// Nothing.
    #[default]
    Off,
    /// Histograms for each host, layer and second, and what links carried.
    Summary,
    /// A row for each packet at each of its ends.
    Packets,
    /// Writes, reads, what follows from what, and the state of connections.
    All,
}

impl Level {
    pub const NAMES: &'static [&'static str] = &["off", "summary", "packets", "all"];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Level::NAMES[*self as usize])
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        const ALL: [Level; 4] = [Level::Off, Level::Summary, Level::Packets, Level::All];
        let known = ALL.into_iter().find(|level| Level::NAMES[*level as usize] == text);
        known.ok_or_else(|| format!("'{text}' is no level of provenance: {}", Level::NAMES.join(", ")))
    }
}
