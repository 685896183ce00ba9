//! Finding callers: from registers and a stack to the functions that are being executed, by files' unwind tables.
//!
//! [`Tables`] are shared by all who walk stacks of the same files, so each file is read once; a [`Walker`] knows where the files of one program
//! lie.

use crate::file::{Bytes, RBP, RSP, UnwindFile};
use crate::program::{Frame, PlacedFile, Registers};
use crate::python::PythonFile;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, Module, Unwinder};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The unwind tables of files that were read, for any number of walkers on any threads.
#[derive(Clone, Default)]
pub struct Tables(Arc<Mutex<BTreeMap<PathBuf, Option<Arc<UnwindFile>>>>>);

impl Tables {
    /// A file's tables; None when it is no ELF file of this machine.
    fn get(&self, path: &Path) -> Option<Arc<UnwindFile>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = known.get(path) {
            return file.clone();
        }
        let file = UnwindFile::read(path).map(Arc::new);
        known.insert(path.to_path_buf(), file.clone());
        file
    }
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

/// What walks remember of each other. One can serve many walkers.
#[derive(Default)]
pub struct WalkCache(Box<CacheX86_64>);

impl std::fmt::Debug for WalkCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WalkCache").finish_non_exhaustive()
    }
}

/// Finds callers in one program's memory.
pub struct Walker {
    tables: Tables,
    files: Vec<PlacedFile>,
    read: Vec<Option<Option<Arc<UnwindFile>>>>,
    unwinder: UnwinderX86_64<Bytes>,
}

impl Walker {
    pub fn new(files: Vec<PlacedFile>, tables: &Tables) -> Walker {
        let read = files.iter().map(|_| None).collect();
        Walker { tables: tables.clone(), files, read, unwinder: UnwinderX86_64::new() }
    }

    pub fn files(&self) -> &[PlacedFile] {
        &self.files
    }

    pub fn index_at(&self, address: u64) -> Option<usize> {
        self.files.iter().position(|file| file.range.contains(&address))
    }

    /// Puts the functions that are being executed into `frames`, the innermost first, `most` at most; true when the walk has come to a
    /// stack's beginning. `read` gives the eight bytes at an address.
    pub fn walk(
        &mut self,
        cache: &mut WalkCache,
        start: Registers,
        most: usize,
        read: &dyn Fn(u64) -> Option<u64>,
        frames: &mut Vec<Frame>,
    ) -> bool {
        let mut registers = UnwindRegsX86_64::new(start.rip, start.rsp, start.rbp);
        let mut general = start.general;
        let mut read = |address: u64| read(address).ok_or(());
        let mut address = FrameAddress::from_instruction_pointer(start.rip);
        frames.push(Frame { address: start.rip, is_return: false });
        if self.index_at(start.rip).is_none()
            && let Some(caller) = read(start.rsp).ok().filter(|caller| self.index_at(*caller).is_some())
        {
            // A call of an address without code, such as null: its caller is on top of the stack.
            registers = UnwindRegsX86_64::new(caller, start.rsp.wrapping_add(8), start.rbp);
            frames.push(Frame { address: caller, is_return: true });
            let Some(next) = FrameAddress::from_return_address(caller) else { return false };
            address = next;
        }
        while frames.len() < most {
            let index = self.load(address.address_for_lookup());
            if index.is_some_and(|index| self.begins(index, address.address_for_lookup())) {
                return true;
            }
            let interrupted = self.interrupted_by_signal(address.address(), registers.sp(), &mut read);
            if let Some(interrupted) = interrupted {
                registers = UnwindRegsX86_64::new(interrupted.rip, interrupted.rsp, interrupted.rbp);
                general = None;
                address = FrameAddress::from_instruction_pointer(interrupted.rip);
                frames.push(Frame { address: interrupted.rip, is_return: false });
                continue;
            }
            let made = if index.is_none() { leave_made_code(address, &registers, &mut read) } else { None };
            let caller = match made {
                Some((caller, left)) => {
                    registers = left;
                    caller
                }
                None => {
                    let mut left = registers;
                    let by_rule = self.unwinder.unwind_frame(address, &mut left, &mut cache.0, &mut read);
                    let is_sure =
                        matches!(by_rule, Ok(Some(caller)) if self.index_at(caller.wrapping_sub(1)).is_some());
                    let exact = if is_sure {
                        None
                    } else {
                        self.unwind_exactly(index, address, &registers, general, &mut read)
                    };
                    match (exact, by_rule) {
                        (Some((caller, exact)), _) => {
                            registers = exact;
                            caller
                        }
                        (None, Ok(Some(caller))) => {
                            registers = left;
                            caller
                        }
                        (None, Ok(None)) => return true,
                        (None, Err(_)) => return false,
                    }
                }
            };
            general = None;
            let Some(next) = FrameAddress::from_return_address(caller) else { return true };
            frames.push(Frame { address: caller, is_return: true });
            address = next;
        }
        false
    }

    /// The caller by all that the file's tables say: rules about other registers than rsp and rbp, and expressions, as hand-written code has
    /// them. Only a caller that lies in a file is taken.
    fn unwind_exactly(
        &self,
        index: Option<usize>,
        address: FrameAddress,
        registers: &UnwindRegsX86_64,
        general: Option<[u64; 16]>,
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Option<(u64, UnwindRegsX86_64)> {
        let (placed, file) = (&self.files[index?], self.read[index?].as_ref()?.as_ref()?);
        let register = |number: u16| match (number, general) {
            (RSP, _) => Some(registers.sp()),
            (RBP, _) => Some(registers.bp()),
            (_, general) => general?.get(usize::from(number)).copied(),
        };
        let linked = address.address_for_lookup().wrapping_sub(placed.bias);
        let (caller, rsp, rbp) = file.caller(linked, &register, &mut |at| read(at).ok())?;
        self.index_at(caller.wrapping_sub(1))?;
        Some((caller, UnwindRegsX86_64::new(caller, rsp, rbp)))
    }

    fn begins(&self, index: usize, address: u64) -> bool {
        let file = self.read[index].as_ref().and_then(|file| file.as_ref());
        file.is_some_and(|file| file.begins(address.wrapping_sub(self.files[index].bias)))
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
        let file = self.read[index].as_ref()?.as_ref()?;
        if !file.returns_from_signal(address.wrapping_sub(self.files[index].bias)) {
            return None;
        }
        let mut word = |offset: u64| read(rsp.wrapping_add(offset)).ok();
        Some(Registers { rip: word(RIP)?, rsp: word(RSP)?, rbp: word(RBP)?, general: None })
    }

    /// The interpreters of Python among the files: where each lies, and what it says.
    pub(crate) fn pythons(&mut self) -> Vec<(u64, PythonFile)> {
        let mut found = Vec::new();
        for index in 0..self.files.len() {
            let named = |file: &PlacedFile| file.name.contains("python");
            if !named(&self.files[index]) {
                continue;
            }
            let start = self.files[index].range.start;
            self.load(start);
            if let Some(Some(file)) = &self.read[index]
                && let Some(python) = &file.python
            {
                found.push((self.files[index].bias, python.clone()));
            }
        }
        found
    }

    /// Reads the file around an address, once.
    fn load(&mut self, address: u64) -> Option<usize> {
        let index = self.index_at(address)?;
        if self.read[index].is_none() {
            let placed = &self.files[index];
            let file = self.tables.get(&placed.path);
            if let Some(file) = &file {
                let sections = file.sections.clone();
                self.unwinder.add_module(Module::new(placed.name.clone(), placed.range.clone(), placed.bias, sections));
            }
            self.read[index] = Some(file);
        }
        Some(index)
    }
}

/// The caller of code that a program has made, of the kind that calls on without a frame of its own: by the few instructions behind the
/// call (`add rsp, n; ret` or `pop rbp; ret`, as in the trampolines of `python3 -X perf`).
fn leave_made_code(
    address: FrameAddress,
    registers: &UnwindRegsX86_64,
    read: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Option<(u64, UnwindRegsX86_64)> {
    if !matches!(address, FrameAddress::ReturnAddress(_)) {
        return None;
    }
    let (sp, bp) = (registers.sp(), registers.bp());
    let (at, bp) = match read(address.address()).ok()?.to_le_bytes() {
        [0x48, 0x83, 0xc4, bytes, 0xc3, ..] if bytes < 128 => (sp.wrapping_add(bytes.into()), bp),
        [0x5d, 0xc3, ..] => (sp.wrapping_add(8), read(sp).ok()?),
        _ => return None,
    };
    let caller = read(at).ok()?;
    Some((caller, UnwindRegsX86_64::new(caller, at.wrapping_add(8), bp)))
}

impl std::fmt::Debug for Walker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walker").field("files", &self.files.len()).finish_non_exhaustive()
    }
}
