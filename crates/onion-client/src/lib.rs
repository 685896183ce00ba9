//! A light client of Tor: an ordinary Linux program of one thread, started as tor is, which programs use by SOCKS as they use tor.
//!
//! `client` is the event loop and what follows from what comes; `network` is what the directory says of relays, `choice` takes relays of
//! it, `guards` are those that stay; `channel`, `circuit` and `stream` are one of each, `socks` is what programs say, `fetch` one
//! question to the directory, `memory` what is given back after it; `attack` is what it can do to relays.

mod attack;
mod channel;
mod choice;
mod circuit;
mod client;
mod fetch;
mod guards;
mod memory;
mod network;
mod settings;
mod socks;
mod stream;
mod timers;

use onion_program::log;
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
A light client of Tor, of which programs use the SOCKS port as they use tor's

Usage: gnomon-onion-client [--defaults-torrc FILE] [-f FILE] [--hush] [--OPTION VALUE]...

Files and options are tor's. Those that count here: SocksPort, DataDirectory, DirAuthority (with orport= and v3ident=),
UseEntryGuards, MaxCircuitDirtiness, EnforceDistinctSubnets, SocksTimeout, CircuitStreamTimeout, CircuitBuildTimeout,
MaxClientCircuitsPending, Socks5Proxy. Others are left to tor.

Its own:
      --PuzzleEffort N[:RELAY,...]
                             Solve a puzzle of this effort for each circuit to these relays, or to all; can be repeated
      --PuzzleRate N         Attempts at a puzzle per second, since computing takes no simulated time [default: 1000000]

Attacks on a relay of a network that is one's own:
      --Attack KIND          'circuits' through the victim between varying others, which stay open; 'sybils', connections to it
                             as of many clients (with Socks5Proxy, through Tor itself); 'streams' through it as exit, which
                             stay idle; 'active' circuits, which send just enough to count as active; 'handshakes', connections
                             that never say anything
      --AttackVictim RELAY   Nickname or fingerprint
      --AttackCount N        How many begin each time [default: 1000]
      --AttackEvery TIME     ... [default: 6 seconds]
      --AttackStart TIME     Since the program's start [default: 1800 seconds]
      --AttackStop TIME      When all of it is given up again [default: 3600 seconds]
      --AttackTarget HOST:PORT
                             Where streams go
      --AttackHops N         Of circuits; beyond three they go through the same three again [default: 3]
  -h, --help                 Print help
  -V, --version              Print version

Its guards are in DataDirectory/gnomon_guards.
";

/// Runs until it is ended by a signal, or cannot go on; `arguments` without the program's name.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if arguments.iter().any(|argument| argument == "-h" || argument == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if arguments.iter().any(|argument| argument == "-V" || argument == "--version") {
        println!("gnomon-onion-client {}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    let settings = match settings::read(lexopt::Parser::from_args(arguments)) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("gnomon-onion-client: {error}");
            return ExitCode::from(2);
        }
    };
    match client::Client::new(settings).and_then(|mut client| client.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::warn(&error);
            eprintln!("gnomon-onion-client: {error}");
            ExitCode::FAILURE
        }
    }
}
