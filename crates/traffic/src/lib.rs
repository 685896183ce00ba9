//! `gnomon-traffic`: an ordinary Linux program that generates traffic and measures it, as a guest or on a real network.
//!
//! A server answers with bytes that follow from a seed (`server`), clients fetch them as their behaviours say and write a line per
//! transfer (`client`), a monitor writes what a tor's control port tells (`monitor`), messages go round among many hosts (`phold`), a tor is made to build circuits without end (`flood`), and sockets are opened, as many as a kernel gives (`sockets`). Each is one thread around one epoll
//! instance, small enough to run a thousand times on one machine. The crate knows no other crate of Gnomon, and nothing of the
//! simulator. `docs/traffic.md` describes it for users.

mod cli;
mod client;
mod clock;
mod config;
mod content;
mod control;
mod control_link;
mod files;
mod flood;
mod http;
mod markov;
mod marks;
mod monitor;
mod output;
mod pace;
mod phold;
mod quantity;
mod random;
mod server;
mod signals;
mod sockets;
mod timers;

pub use cli::main;
pub use config::from_options;
pub use markov::Model;
