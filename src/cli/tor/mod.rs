//! `gnomon tor`: private Tor networks. `stage` averages a month of the public network, `new` writes a network as an experiment, `run` runs
//! several with several seeds, `status` tells how a run of one stands, `archive` compresses what runs left.

mod archive;
mod arguments;
mod checks;
mod new;
mod programs;
mod runs;
mod stage;
mod status;

use clap::{ArgMatches, Command};

pub fn command() -> Command {
    Command::new("tor")
        .about("Make private Tor networks of real tor, and see how they fare")
        .subcommand_required(true)
        .disable_help_subcommand(true)
        .subcommands([stage::command(), arguments::new(), runs::command(), status::command(), archive::command()])
}

pub fn main(matches: &ArgMatches) -> u8 {
    match matches.subcommand() {
        Some(("archive", matches)) => archive::main(matches),
        Some(("new", matches)) => new::main(matches),
        Some(("run", matches)) => runs::main(matches),
        Some(("stage", matches)) => stage::main(matches),
        Some(("status", matches)) => status::main(matches),
        _ => unreachable!("clap knows the commands"),
    }
}
