//! Gnomon: runs real Linux programs on a simulated network, in simulated time, inside one process.
//!
//! The program wires the crates: the command line (`cli`) makes a plan, the box around the process (`sandbox`) closes, and the
//! plan is executed (`simulation`), which knows nothing of the command line. Only here are the environment and the command line read.

mod cli;
mod sandbox;
mod simulation;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args_os().collect())
}
