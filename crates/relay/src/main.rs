//! The program `gnomon-relay`: hands the command line to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    relay::main(std::env::args_os().skip(1).collect())
}
