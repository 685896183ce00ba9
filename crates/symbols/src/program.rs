//! A program in memory: its files where they lie, the names of addresses in them, and the callers of the code at an address.

use crate::file::{Bytes, SymbolFile, demangled};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};
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
    /// The file's name, and the address in it as it was linked.
    pub file: Option<(String, u64)>,
}

/// One function of a backtrace. The first stands at its address, the others will return there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub address: u64,
    pub is_return: bool,
}

/// A program's files. Each is read when an address in it is asked about for the first time.
pub struct Program {
    files: Vec<(PlacedFile, Option<Option<SymbolFile>>)>,
    unwinder: UnwinderX86_64<Bytes>,
    cache: CacheX86_64,
}

impl Program {
    pub fn new(files: Vec<PlacedFile>) -> Program {
        let files = files.into_iter().map(|file| (file, None)).collect();
        Program { files, unwinder: UnwinderX86_64::new(), cache: CacheX86_64::new() }
    }

    /// The functions that are being executed, the innermost first, `most` at most. `read` gives the eight bytes at an address.
    ///
    /// By the files' unwind tables (`.eh_frame`, `.debug_frame`) where they cover an address, and by frame pointers elsewhere.
    pub fn backtrace(&mut self, start: Registers, most: usize, read: impl Fn(u64) -> Option<u64>) -> Vec<Frame> {
        let mut registers = UnwindRegsX86_64::new(start.rip, start.rsp, start.rbp);
        let mut read = |address: u64| read(address).ok_or(());
        let mut address = FrameAddress::from_instruction_pointer(start.rip);
        let mut frames = vec![Frame { address: start.rip, is_return: false }];
        if self.index_at(start.rip).is_none()
            && let Some(caller) = read(start.rsp).ok().filter(|caller| self.index_at(*caller).is_some())
        {
            // A call of an address without code, such as null: its caller is on top of the stack.
            registers = UnwindRegsX86_64::new(caller, start.rsp.wrapping_add(8), start.rbp);
            frames.push(Frame { address: caller, is_return: true });
            let Some(next) = FrameAddress::from_return_address(caller) else { return frames };
            address = next;
        }
        while frames.len() < most {
            self.load(address.address_for_lookup());
            if let Some(interrupted) = self.interrupted_by_signal(address.address(), registers.sp(), &mut read) {
                registers = UnwindRegsX86_64::new(interrupted.rip, interrupted.rsp, interrupted.rbp);
                address = FrameAddress::from_instruction_pointer(interrupted.rip);
                frames.push(Frame { address: interrupted.rip, is_return: false });
                continue;
            }
            let caller = self.unwinder.unwind_frame(address, &mut registers, &mut self.cache, &mut read);
            let Ok(Some(caller)) = caller else { break };
            let Some(next) = FrameAddress::from_return_address(caller) else { break };
            frames.push(Frame { address: caller, is_return: true });
            address = next;
        }
        frames
    }

    /// What a signal handler that returns to `address` has interrupted, with the stack at `rsp` then: the kernel's frame says it, whatever
    /// unwind tables say (those of Go and musl say nothing).
    fn interrupted_by_signal(
        &mut self,
        address: u64,
        rsp: u64,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Registers> {
        // Offsets in struct ucontext of x86-64, rt_sigreturn(2).
        const RBP: u64 = 120;
        const RSP: u64 = 160;
        const RIP: u64 = 168;
        let index = self.load(address)?;
        let (placed, file) = &self.files[index];
        if !file.as_ref()?.as_ref()?.returns_from_signal(address.wrapping_sub(placed.bias)) {
            return None;
        }
        let mut word = |offset: u64| read(rsp.wrapping_add(offset)).ok();
        Some(Registers { rip: word(RIP)?, rsp: word(RSP)?, rbp: word(RBP)? })
    }

    /// What is known of the code of a frame.
    pub fn place(&mut self, frame: &Frame) -> Place {
        // A call may be its function's last instruction.
        let address = frame.address.wrapping_sub(frame.is_return.into());
        let Some(index) = self.load(address) else { return Place::default() };
        let (placed, file) = &self.files[index];
        let linked = address.wrapping_sub(placed.bias);
        let at = frame.address.wrapping_sub(placed.bias);
        let mut place = Place { file: Some((placed.name.clone(), at)), ..Place::default() };
        if let Some(Some(file)) = file {
            let named = |(name, start): (&str, u64)| Function { name: demangled(name), offset: at.wrapping_sub(start) };
            place.function = file.function(linked).map(named);
            let lines = file.lines(linked).into_iter();
            place.lines = lines.map(|(function, file, line)| Line { function, file, line }).collect();
        }
        place
    }

    fn index_at(&self, address: u64) -> Option<usize> {
        self.files.iter().position(|(file, _)| file.range.contains(&address))
    }

    /// Reads the file around an address, once.
    fn load(&mut self, address: u64) -> Option<usize> {
        let index = self.index_at(address)?;
        let (placed, file) = &mut self.files[index];
        if file.is_none() {
            let mut read = SymbolFile::read(&placed.path);
            if let Some(read) = &mut read {
                let sections = read.unwind.clone();
                let name = placed.name.clone();
                self.unwinder.add_module(Module::new(name, placed.range.clone(), placed.bias, sections));
            }
            *file = Some(read);
        }
        Some(index)
    }
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("files", &self.files.len()).finish_non_exhaustive()
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
        let start = Registers { rip, rsp: 64, rbp: 128 };
        assert_eq!(program.backtrace(start, 10, |_| None).len(), 1);
        assert_eq!(program.backtrace(Registers::default(), 10, |_| None).len(), 1);
    }
}
