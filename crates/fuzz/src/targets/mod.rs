//! One file for each thing that reads foreign bytes.

pub mod calls;
pub mod dns;
pub mod elf;
pub mod experiment;
pub mod graph;
pub mod graph_xz;
mod machine;
pub mod markov;
pub mod netlink;
pub mod onion_cells;
pub mod onion_directory;
pub mod onion_link;
pub mod onion_numbered;
pub mod packets;
pub mod results;
pub mod symbols;
pub mod terminal;
pub mod tor_files;
pub mod traffic_config;
