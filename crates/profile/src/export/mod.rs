//! Profiles for other programs: collapsed stacks, pprof, the Firefox Profiler.

mod collapsed;
mod firefox;
mod pprof;

use crate::tables::Selection;

/// What other programs read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each stack, its functions from the outermost on with semicolons between them, and microseconds, or instructions:
    /// what flame graphs are usually made of.
    Collapsed,
    /// A protocol buffer of `github.com/google/pprof`: for `go tool pprof`.
    Pprof,
    /// JSON of the Firefox Profiler, which Perfetto opens too; over simulated time.
    Firefox,
}

impl Format {
    pub const NAMES: [(&'static str, Format); 3] =
        [("collapsed", Format::Collapsed), ("pprof", Format::Pprof), ("firefox", Format::Firefox)];

    /// The file's contents.
    pub(crate) fn write(self, selection: &Selection<'_>) -> std::io::Result<Vec<u8>> {
        match self {
            Format::Collapsed => Ok(collapsed::write(selection).into_bytes()),
            Format::Pprof => Ok(pprof::write(selection)),
            Format::Firefox => firefox::write(selection),
        }
    }
}
