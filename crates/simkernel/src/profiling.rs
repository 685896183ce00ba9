//! Samples of what guests execute, for a profile of the run: whose turn it is, what was being done for it, and the functions that led there.
//!
//! [`guest::Worker`] takes the samples; here each becomes a stack, while the guest's memory can be read. The kernel keeps them until whoever
//! executes the host asks ([`Kernel::take_profile`]). Nothing of it changes what guests do or see.

use crate::counting::{Counting, Instruction};
use crate::ctx::Ctx;
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use base::SimTime;
use base::map::FastMap;
use guest::{AddressSpace, Exit, OwnStack, SampledAt, Worker};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use symbols::{Frame, PlacedFile, Python, PythonCode, Registers, Tables, WalkCache, Walker};

/// Functions of one stack; what leads to further ones is cut off.
pub(crate) const FRAMES_MAX: usize = 1_000;
/// Programs of a host whose files are known at one time.
const PROGRAMS_MAX: usize = 64;
/// Moments of writing that are kept of a host, the first ones.
const OUTPUT_MARKS_MAX: usize = 1 << 16;
/// What is read of a stack at once.
const STACK_BYTES: usize = 16 << 10;

/// A file that code comes from, the same object for all guests of a run.
#[derive(Debug, PartialEq, Eq)]
pub struct CodeFile {
    /// Where the simulator can read it.
    pub path: PathBuf,
    /// What it is called.
    pub name: String,
}

/// What profiles of a run's hosts have in common.
#[derive(Clone, Debug, Default)]
pub struct ProfiledFiles {
    tables: Tables,
    known: Arc<Mutex<FastMap<PathBuf, Arc<CodeFile>>>>,
}

impl ProfiledFiles {
    fn get(&self, path: &Path) -> Arc<CodeFile> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = known.get(path) {
            return file.clone();
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let file = Arc::new(CodeFile { path: path.to_path_buf(), name });
        known.insert(path.to_path_buf(), file.clone());
        file
    }
}

/// Simulated time of which a profile is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: SimTime,
    /// No longer in it.
    pub until: SimTime,
}

impl Span {
    pub const ALL: Span = Span { from: SimTime::ZERO, until: SimTime::MAX };

    pub fn contains(&self, time: SimTime) -> bool {
        self.from <= time && time < self.until
    }
}

/// What a worker did for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It executed the program.
    Program,
    /// It served this system call.
    Call(u64),
    /// It dealt with a fault: a page that was to be opened, a signal.
    Fault,
    /// It answered for the processor.
    Emulation,
    /// It let the thread's program come to its turn: entered and left it, and moved what lies at addresses that others use too.
    Switch,
}

/// A function that was being executed.
#[derive(Clone, Debug)]
pub enum StackFrame {
    /// In a file, at an address as it was linked: one that belongs to the call where the function has called another.
    Code {
        file: Arc<CodeFile>,
        address: u64,
    },
    /// Where no file lies: in code that the program has made.
    Made {
        address: u64,
    },
    Python(Arc<PythonCode>),
}

/// A sample of a guest's thread.
#[derive(Clone, Debug)]
pub struct ThreadSample {
    pub pid: Pid,
    pub tid: Tid,
    /// The program's file, as the guest sees it.
    pub program: Arc<str>,
    pub at: SimTime,
    /// The processor time that it stands for.
    pub weight: Duration,
    pub doing: Doing,
    /// The innermost first.
    pub stack: Vec<StackFrame>,
    /// Whether the stack was followed to its beginning.
    pub is_whole: bool,
    /// The simulator's own stack, where it did something.
    pub own: Option<Box<OwnStack>>,
}

/// Until when a guest had written so much of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputMark {
    /// Which of the kernel's outputs.
    pub output: u32,
    /// How long it was then, in bytes.
    pub end: u64,
    pub at: SimTime,
}

/// One host's samples, and what is needed to make them.
#[derive(Debug)]
pub struct Profiling {
    files: ProfiledFiles,
    pub(crate) cache: WalkCache,
    /// By the number of the address space.
    programs: FastMap<u64, ProfiledProgram>,
    samples: Vec<ThreadSample>,
    outputs: Vec<OutputMark>,
    /// What was read of the stack last.
    stack: Vec<u8>,
    frames: Vec<Frame>,
    /// Where instructions are counted, and no samples taken.
    pub(crate) counting: Option<Box<Counting>>,
}

impl Profiling {
    pub fn new(files: ProfiledFiles) -> Profiling {
        Profiling {
            counting: None,
            files,
            cache: WalkCache::default(),
            programs: FastMap::default(),
            samples: Vec::new(),
            outputs: Vec::new(),
            stack: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// Lends what is known of the program that executes in `memory`, by its file.
    pub(crate) fn lend_program(&mut self, memory: &AddressSpace, exe: &[u8]) -> ProfiledProgram {
        let known = self.programs.remove(&memory.id()).filter(|program| program.is_of(memory, exe));
        known.unwrap_or_else(|| ProfiledProgram::new(memory, exe, &self.files))
    }

    pub(crate) fn return_program(&mut self, memory: &AddressSpace, program: ProfiledProgram) {
        if self.programs.len() >= PROGRAMS_MAX {
            self.programs.clear();
        }
        self.programs.insert(memory.id(), program);
    }

    /// A guest has written: one mark for each output and moment.
    pub(crate) fn note_output(&mut self, output: u32, end: u64, at: SimTime) {
        if let Some(last) = self.outputs.last_mut().filter(|last| (last.output, last.at) == (output, at)) {
            last.end = end;
        } else if self.outputs.len() < OUTPUT_MARKS_MAX {
            self.outputs.push(OutputMark { output, end, at });
        }
    }
}

/// A program in memory, for as long as the files in it are the same.
#[derive(Debug)]
pub(crate) struct ProfiledProgram {
    pub(crate) name: Arc<str>,
    exe: Vec<u8>,
    starts: Vec<u64>,
    pub(crate) walker: Walker,
    files: Vec<Arc<CodeFile>>,
    pub(crate) python: Option<Python>,
    /// Instructions of its files that were executed one by one, by where they lie.
    pub(crate) instructions: FastMap<u64, Instruction>,
}

impl ProfiledProgram {
    fn new(memory: &AddressSpace, exe: &[u8], files: &ProfiledFiles) -> ProfiledProgram {
        let placed: Vec<PlacedFile> = memory
            .placed_images()
            .map(|(start, image)| PlacedFile {
                path: image.path().to_path_buf(),
                name: files.get(image.path()).name.clone(),
                range: start..start + image.joined_bytes(),
                bias: start.wrapping_sub(image.header.linked_at),
            })
            .collect();
        let code_files = placed.iter().map(|file| files.get(&file.path)).collect();
        let mut walker = Walker::new(placed, &files.tables);
        let python = Python::find(&mut walker);
        let starts = memory.placed_images().map(|(start, _)| start).collect();
        let name = String::from_utf8_lossy(exe).into();
        let instructions = FastMap::default();
        ProfiledProgram { name, exe: exe.to_vec(), starts, walker, files: code_files, python, instructions }
    }

    fn is_of(&self, memory: &AddressSpace, exe: &[u8]) -> bool {
        self.exe == exe && memory.placed_images().map(|(start, _)| start).eq(self.starts.iter().copied())
    }

    pub(crate) fn frame(&self, frame: &Frame) -> StackFrame {
        let address = frame.address.wrapping_sub(frame.is_return.into());
        match self.walker.index_at(address) {
            Some(index) => {
                let linked = address.wrapping_sub(self.walker.files()[index].bias);
                StackFrame::Code { file: self.files[index].clone(), address: linked }
            }
            None => StackFrame::Made { address },
        }
    }

    /// The stack with what an interpreter of Python evaluates in place of the functions of C that do it.
    fn merged(&self, frames: &[Frame], mut evaluations: Vec<Vec<Arc<PythonCode>>>) -> Vec<StackFrame> {
        let evaluates = |frame: &Frame| self.python.as_ref().is_some_and(|python| python.evaluates(frame));
        let functions = frames.iter().filter(|frame| evaluates(frame)).count();
        // From the outside in: what has just been called may not be linked yet, and an evaluation may be in code without a name.
        let unknown = functions.saturating_sub(evaluations.len());
        let inner = evaluations.len().saturating_sub(functions);
        let mut stack = Vec::with_capacity(frames.len());
        if functions == 0 || evaluations.is_empty() {
            stack.extend(frames.iter().map(|frame| self.frame(frame)));
            return stack;
        }
        let rest = evaluations.split_off(inner);
        let (mut seen, mut next) = (0, rest.into_iter());
        for frame in frames {
            if !evaluates(frame) {
                stack.push(self.frame(frame));
                continue;
            }
            seen += 1;
            if seen <= unknown {
                stack.push(self.frame(frame));
                continue;
            }
            if seen == unknown + 1 {
                stack.extend(evaluations.drain(..).flatten().map(StackFrame::Python));
            }
            stack.extend(next.next().unwrap_or_default().into_iter().map(StackFrame::Python));
        }
        stack
    }
}

/// The general registers as DWARF numbers them.
pub(crate) fn by_dwarf(r: &guest::Registers) -> [u64; 16] {
    [r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
}

impl Kernel {
    /// From now on samples of workers that execute the host's threads are kept.
    pub fn profile(&mut self, files: ProfiledFiles) {
        self.profiling = Some(Box::new(Profiling::new(files)));
    }

    /// When guests wrote to standard output and error.
    pub fn output_marks(&self) -> &[OutputMark] {
        self.profiling.as_ref().map_or(&[], |profiling| &profiling.outputs)
    }

    /// The samples since this was last asked.
    pub fn take_profile(&mut self) -> Vec<ThreadSample> {
        self.profiling.as_mut().map_or_else(Vec::new, |profiling| std::mem::take(&mut profiling.samples))
    }
}

impl Ctx<'_> {
    /// A guest was interrupted for a sample: takes it, and lets the guest go on, until it comes back for another reason.
    #[cold]
    pub(crate) fn go_on_after_samples(&mut self, worker: &mut Worker) -> Exit {
        loop {
            self.note_samples(worker, Doing::Program);
            match self.thread.vcpu.go_on(worker) {
                Exit::Sampled => {}
                exit => return exit,
            }
        }
    }

    /// Keeps the samples that wait; those of the simulator were taken while it did `doing` for the thread.
    #[cold]
    pub(crate) fn note_samples(&mut self, worker: &mut Worker, doing: Doing) {
        let samples = worker.take_samples();
        let Some(mut profiling) = self.kernel.profiling.take() else { return };
        for sample in samples {
            let registers = self.thread.vcpu.registers();
            let (at, doing, own) = match sample.at {
                SampledAt::Guest => (registers, Doing::Program, None),
                SampledAt::Door(ref door) => (door, Doing::Program, None),
                SampledAt::Simulator(own) if doing == Doing::Program => (registers, Doing::Switch, Some(own)),
                SampledAt::Simulator(own) => (registers, doing, Some(own)),
            };
            if doing == Doing::Switch {
                // No function of the program has asked for it.
                let program = profiling.lend_program(&self.process.memory, &self.process.exe);
                let name = program.name.clone();
                profiling.return_program(&self.process.memory, program);
                profiling.samples.push(self.thread_sample(sample.weight, doing, (name, Vec::new(), true), own));
                continue;
            }
            let rip = self.process.memory.code_address(at.rip);
            let general = std::ptr::eq(at, registers).then(|| by_dwarf(registers));
            let start = Registers { rip, rsp: at.rsp, rbp: at.rbp, general };
            let stack = self.stack_of(&mut profiling, start);
            profiling.samples.push(self.thread_sample(sample.weight, doing, stack, own));
        }
        self.kernel.profiling = Some(profiling);
    }

    fn thread_sample(
        &self,
        weight: Duration,
        doing: Doing,
        (program, stack, is_whole): (Arc<str>, Vec<StackFrame>, bool),
        own: Option<Box<OwnStack>>,
    ) -> ThreadSample {
        let number = |id| self.kernel.outer_id(id);
        let (pid, tid) = (Pid(number(self.process.pid.0)), Tid(number(self.thread.tid.0)));
        ThreadSample { pid, tid, program, at: self.now, weight, doing, stack, is_whole, own }
    }

    fn stack_of(&mut self, profiling: &mut Profiling, start: Registers) -> (Arc<str>, Vec<StackFrame>, bool) {
        let memory = &*self.process.memory;
        let mut program = profiling.lend_program(memory, &self.process.exe);
        profiling.stack.resize(STACK_BYTES, 0);
        let there = memory.read_partial(start.rsp, &mut profiling.stack);
        let stack = &profiling.stack[..there];
        let word = |address: u64| -> Option<u64> {
            let at = address.wrapping_sub(start.rsp) as usize;
            match stack.get(at..at.wrapping_add(8)) {
                Some(bytes) => Some(u64::from_le_bytes(bytes.try_into().unwrap_or_default())),
                None => memory.read_value(address).ok(),
            }
        };
        profiling.frames.clear();
        let is_whole = program.walker.walk(&mut profiling.cache, start, FRAMES_MAX, &word, &mut profiling.frames);
        let read = |address: u64, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        let fs_base = self.thread.vcpu.registers().fs_base();
        let evaluations = program.python.as_mut().map_or_else(Vec::new, |python| python.evaluations(&read, fs_base));
        let stack = (program.name.clone(), program.merged(&profiling.frames, evaluations), is_whole);
        profiling.return_program(memory, program);
        stack
    }

    /// What the simulator has done for the thread whose last exit was this one.
    pub(crate) fn done_after(&self, exit: &Exit) -> Doing {
        match exit {
            Exit::Syscall => self.last_call(),
            Exit::Vsyscall { number } => Doing::Call(*number),
            Exit::Fault(_) | Exit::LostGs(_) => Doing::Fault,
            _ => Doing::Emulation,
        }
    }

    /// The thread's last call.
    pub(crate) fn last_call(&self) -> Doing {
        self.thread.recent.last().map_or(Doing::Fault, |call| Doing::Call(call.number))
    }
}
