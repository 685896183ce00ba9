//! A program in memory: its files where they lie, the names of addresses in them, and the callers of the code at an address.

use crate::file::{SymbolFile, demangled};
use crate::walker::{Tables, WalkCache, Walker};
use std::ops::Range;
use std::path::PathBuf;

/// An ELF file that lies in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedFile {
    /// Where it can be read.
    pub path: PathBuf,
    /// What it is called.
    pub name: String,
    /// The addresses that it takes.
    pub range: Range<u64>,
    /// What is to be added to the addresses that it was linked at.
    pub bias: u64,
}

/// What unwinding begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
    /// All general registers by their numbers in DWARF, where they are known: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
    pub general: Option<[u64; 16]>,
}

/// A function, and how far into it an address lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub offset: u64,
}

/// A function by the debug information, with the source line that an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
}

/// What is known of a code address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// By the symbol table.
    pub function: Option<Function>,
    /// By the debug information, the innermost (inlined) function first; empty without any.
    pub lines: Vec<Line>,
    /// Where the function begins by the unwind tables, as it was linked: what there is of code without names.
    pub range: Option<u64>,
    /// The file's name, and the address in it as it was linked.
    pub file: Option<(String, u64)>,
}

/// One function of a backtrace. The first stands at its address, the others will return there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    pub is_return: bool,
}

/// A program's files. Each is read when an address in it is asked about for the first time.
pub struct Program {
    walker: Walker,
    names: Vec<Option<Option<SymbolFile>>>,
}

impl Program {
    pub fn new(files: Vec<PlacedFile>) -> Program {
        let names = files.iter().map(|_| None).collect();
        Program { walker: Walker::new(files, &Tables::default()), names }
    }

    /// The functions that are being executed, the innermost first, `most` at most. `read` gives the eight bytes at an address.
    ///
    /// By the files' unwind tables (`.eh_frame`, `.debug_frame`) where they cover an address, and by frame pointers elsewhere.
    pub fn backtrace(&mut self, start: Registers, most: usize, read: impl Fn(u64) -> Option<u64>) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.walker.walk(&mut WalkCache::default(), start, most, &read, &mut frames);
        frames
    }

    /// What is known of the code of a frame.
    pub fn place(&mut self, frame: &Frame) -> Place {
        // A call may be its function's last instruction.
        let address = frame.address.wrapping_sub(frame.is_return.into());
        let Some(index) = self.load(address) else { return Place::default() };
        let (placed, file) = (&self.walker.files()[index], &self.names[index]);
        let linked = address.wrapping_sub(placed.bias);
        let at = frame.address.wrapping_sub(placed.bias);
        let mut place = Place { file: Some((placed.name.clone(), at)), ..Place::default() };
        if let Some(Some(file)) = file {
            let named = |(name, start): (&str, u64)| Function { name: demangled(name), offset: at.wrapping_sub(start) };
            place.function = file.function(linked).map(named);
            place.range = file.range_start(linked);
            let lines = file.lines(linked).into_iter();
            place.lines = lines.map(|(function, file, line)| Line { function, file, line }).collect();
        }
        place
    }

    /// Reads the file around an address, once.
    fn load(&mut self, address: u64) -> Option<usize> {
        let index = self.walker.index_at(address)?;
        let names = &mut self.names[index];
        if names.is_none() {
            *names = Some(SymbolFile::read(&self.walker.files()[index].path));
        }
        Some(index)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("files", &self.names.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own program: where it lies, by its memory map.
    fn own_file() -> PlacedFile {
        let path = std::env::current_exe().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own: Vec<(u64, u64)> = maps
            .lines()
            .filter(|line| line.ends_with(path.to_str().unwrap()))
            .filter_map(|line| {
                let (start, end) = line.split(' ').next()?.split_once('-')?;
                Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
            })
            .collect();
        let (start, end) = (own.first().unwrap().0, own.last().unwrap().1);
        PlacedFile { path, name: "test".to_owned(), range: start..end, bias: start }
    }

    #[inline(never)]
    fn a_function_with_a_name(value: u64) -> u64 {
        std::hint::black_box(value + 1)
    }

    #[test]
    fn addresses_have_functions_files_and_lines() {
        let mut program = Program::new(vec![own_file()]);
        let address = a_function_with_a_name as fn(u64) -> u64 as usize as u64;
        let place = program.place(&Frame { address, is_return: false });
        let function = place.function.unwrap();
        assert!(function.name.ends_with("a_function_with_a_name") && function.offset == 0, "{function:?}");
        let line = place.lines.last().unwrap();
        assert!(
            line.file.as_deref().is_some_and(|file| file.ends_with("program.rs")) && line.line.is_some(),
            "{line:?}"
        );
        assert_eq!(program.place(&Frame { address: 16, is_return: false }), Place::default());
    }

    #[test]
    fn a_stack_that_cannot_be_read_has_one_frame() {
        let mut program = Program::new(vec![own_file()]);
        let rip = a_function_with_a_name as fn(u64) -> u64 as usize as u64;
        let start = Registers { rip, rsp: 64, rbp: 128, general: None };
        assert_eq!(program.backtrace(start, 10, |_| None).len(), 1);
        assert_eq!(program.backtrace(Registers::default(), 10, |_| None).len(), 1);
    }
}
