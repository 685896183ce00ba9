//! The program `gnomon-traffic`: hands the command line to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    traffic::main(std::env::args_os().skip(1).collect())
}
