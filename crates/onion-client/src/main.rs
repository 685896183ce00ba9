//! The program `gnomon-onion-client`: hands the command line to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    onion_client::main(std::env::args_os().skip(1).collect())
}
