//! What a debugger knows of programs: names and source lines of addresses, the callers of a function, instructions as text.
//!
//! A pure library over ELF files: where they lie in memory, the registers to begin with and a way to read memory are the caller's. It
//! reads a file when an address in it is asked about for the first time, and forgets it with the [`Program`].

mod file;
mod instruction;
mod program;
mod python;
mod walker;

pub use instruction::{INSTRUCTION_BYTES_MAX, disassemble};
pub use program::{Frame, Function, Line, Place, PlacedFile, Program, Registers};
pub use python::{Python, PythonCode};
pub use walker::{Tables, WalkCache, Walker};
