//! Everything in Gnomon that reads bytes which others made, as functions of bytes: `fn(&[u8])`, which must come to an end and not panic,
//! whatever the bytes.
//!
//! Who calls them: `tests/corpus.rs`, in `make test`, with every file of `corpus/` and a few thousand variations of these; and the
//! program `fuzz`, in `make soak`, which is libFuzzer's and finds inputs by the branches that they take.

mod folder;
mod input;
pub mod mutate;
mod targets;

pub use folder::{confine, work_in};

/// Something that reads foreign bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Also the name of its folder in `corpus/`.
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Variations of the corpus that `make test` tries. What is slow has fewer.
    pub variations: usize,
    /// The longest input that is made.
    pub longest: usize,
    /// It executes simulated kernels, with their handlers of signals.
    pub has_guests: bool,
}

const fn target(name: &'static str, run: fn(&[u8]), variations: usize, longest: usize) -> Target {
    Target { name, run, variations, longest, has_guests: false }
}

const fn kernel(name: &'static str, run: fn(&[u8]), variations: usize, longest: usize) -> Target {
    Target { name, run, variations, longest, has_guests: true }
}

/// All of them, each in a file of its own name.
pub const TARGETS: &[Target] = &[
    kernel("calls", targets::calls::run, 1500, 2048),
    target("dns", targets::dns::run, 20_000, 2048),
    target("elf", targets::elf::run, 1500, 16 << 10),
    target("experiment", targets::experiment::run, 3000, 4096),
    target("graph", targets::graph::run, 3000, 4096),
    target("graph_xz", targets::graph_xz::run, 3000, 2048),
    target("markov", targets::markov::run, 5000, 4096),
    kernel("netlink", targets::netlink::run, 3000, 1024),
    target("onion_cells", targets::onion_cells::run, 20_000, 2048),
    target("onion_directory", targets::onion_directory::run, 5000, 8192),
    target("onion_link", targets::onion_link::run, 1000, 4096),
    target("onion_numbered", targets::onion_numbered::run, 20_000, 4096),
    target("packets", targets::packets::run, 5000, 4096),
    target("results", targets::results::run, 500, 8192),
    target("symbols", targets::symbols::run, 1000, 16 << 10),
    kernel("terminal", targets::terminal::run, 3000, 1024),
    target("tor_files", targets::tor_files::run, 1000, 8192),
    target("traffic_config", targets::traffic_config::run, 3000, 4096),
];

/// The target of a name.
pub fn target_named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
