//! Instructions of guests counted one by one, for a profile that is the same in every run.
//!
//! What a thread executes between two system calls is an interval. Some are chosen, by the host's own random stream and by what was counted
//! before, never by the machine's time; their instructions are executed singly and counted, each for its function and those that called
//! it. Callers are followed from the stack at the interval's beginning, call by call, and looked for anew where a return leads elsewhere than
//! its call said. Clocks are not answered at the door meanwhile, so that looking at one ends an interval in all runs alike.
//!
//! A host has a budget. All intervals are counted until half of it is used up; of the other half, one of two is during its first twentieth, one
//! of four during the second, and so on, so that the last of them reaches as far as runs go. What is counted weighs for those that were not.

use crate::ctx::Ctx;
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use crate::profiling::{FRAMES_MAX, ProfiledProgram, Profiling, Span, StackFrame, by_dwarf};
use base::map::FastMap;
use base::{Rng, SimTime};
use guest::{AddressSpace, Exit, StepKind, Vcpu, Worker};
use std::ops::Range;
use std::sync::Arc;
use symbols::{Frame, PythonCode, Registers, WalkCache};

/// Parts of the second half of a host's budget: half as many intervals are counted in each as in the one before.
const PARTS: u64 = 20;
/// An interval takes so much of the budget at most.
const INTERVAL_SHARE: u64 = 8;
/// Stacks, and functions, that are kept of one host; a stack beyond ends where it leaves what is known.
const MOST: usize = 1 << 20;
/// A stack pointer that moves further than this in one instruction has gone to another stack.
const FAR: u64 = 1 << 20;

/// What is counted of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountingRules {
    /// Instructions.
    pub budget: u64,
    /// Intervals count that begin in it.
    pub span: Span,
}

/// How much was counted of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountingTotals {
    /// Intervals that there were, in the time that the rules say.
    pub intervals: u64,
    /// Those that were counted, and those of them that were broken off as too long.
    pub counted: u64,
    pub cut: u64,
    /// Instructions, and single steps: an instruction that is repeated takes several.
    pub instructions: u64,
    pub steps: u64,
    /// When the budget was used up.
    pub used_up: Option<SimTime>,
}

/// What was counted of an interval, as far as it was counted at one go.
#[derive(Clone, Debug)]
pub struct CountedInterval {
    pub pid: Pid,
    pub tid: Tid,
    /// The program's file, as the guest sees it.
    pub program: Arc<str>,
    /// When the interval began.
    pub at: SimTime,
    /// The intervals that it stands for.
    pub weight: u64,
    /// Whether its stacks were followed to their beginning.
    pub is_whole: bool,
    /// Into [`Counted::rows`].
    pub rows: Range<usize>,
}

/// All that was counted of a host.
#[derive(Debug, Default)]
pub struct Counted {
    pub totals: CountingTotals,
    pub intervals: Vec<CountedInterval>,
    /// A stack, and how often an instruction was executed there.
    pub rows: Vec<(u32, u64)>,
    /// The caller's stack, and the function, of each stack from the second on: the first is the empty one.
    pub stacks: Vec<(u32, u32)>,
    /// Functions, with the processes that they belong to where those have made them.
    pub frames: Vec<(StackFrame, Pid)>,
}

/// What tells functions apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The file, by where its name is kept, and the address in it.
    Code(usize, u64),
    Made(Pid, u64),
    Python(Arc<PythonCode>),
}

/// One host's counts.
#[derive(Debug)]
pub(crate) struct Counting {
    rules: CountingRules,
    random: Rng,
    /// Of the budget.
    used: u64,
    counted: Counted,
    frames: FastMap<Key, u32>,
    stacks: FastMap<(u32, u32), u32>,
}

/// What is to be known of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    /// Where the program has it; None for one that is not the program's.
    original: Option<u64>,
    kind: StepKind,
    /// It belongs to what evaluates functions of Python.
    evaluates: bool,
}

/// Where a thread stands between two calls.
#[derive(Debug, Default)]
pub(crate) enum Interval {
    /// At the beginning.
    #[default]
    Begins,
    /// It is not counted, or no longer.
    Free,
    Counted(Box<Progress>),
}

/// An interval that is being counted.
#[derive(Debug)]
pub(crate) struct Progress {
    at: SimTime,
    weight: u64,
    /// Steps that are left to it.
    left: u64,
    is_whole: bool,
    /// The callers, the outermost first.
    callers: Vec<Caller>,
    /// Their stack.
    stack: u32,
    /// The stack of the function of Python that is evaluated by the code that is executed.
    evaluated: Option<u32>,
    /// Where Python's frame lies; None for a thread that is not Python's.
    python: Option<u64>,
    /// The program's address of the last instruction.
    last: Option<u64>,
    /// By stack and address; address 0 for the stack itself.
    counts: FastMap<(u32, u64), u64>,
    /// rip and rsp when it came back last.
    left_at: (u64, u64),
}

/// A function that has called another.
#[derive(Clone, Copy, Debug)]
struct Caller {
    frame: Frame,
    /// Where the return address lies, when the call was seen.
    slot: Option<u64>,
    /// Its own `stack` and `evaluated`, to go on with after the return.
    stack: u32,
    evaluated: Option<u32>,
}

impl Counting {
    pub(crate) fn new(rules: CountingRules, random: Rng) -> Counting {
        let counted = Counted::default();
        Counting { rules, random, used: 0, counted, frames: FastMap::default(), stacks: FastMap::default() }
    }

    /// Of how many intervals one is to be counted that begins now; None when it is none.
    fn choose(&mut self, now: SimTime) -> Option<u64> {
        if !self.rules.span.contains(now) {
            return None;
        }
        self.counted.totals.intervals += 1;
        let half = self.rules.budget / 2;
        let part = (self.used.max(half) - half) * PARTS / (self.rules.budget - half).max(1);
        if part >= PARTS {
            self.counted.totals.used_up.get_or_insert(now);
            return None;
        }
        let weight = if self.used < half { 1 } else { 2 << part };
        (weight == 1 || self.random.next_u64().is_multiple_of(weight)).then_some(weight)
    }

    fn frame(&mut self, frame: StackFrame, pid: Pid) -> Option<u32> {
        let key = match &frame {
            StackFrame::Code { file, address } => Key::Code(Arc::as_ptr(file) as usize, *address),
            StackFrame::Made { address } => Key::Made(pid, *address),
            StackFrame::Python(code) => Key::Python(code.clone()),
        };
        if let Some(id) = self.frames.get(&key) {
            return Some(*id);
        }
        let id = self.counted.frames.len();
        if id >= MOST {
            return None;
        }
        self.counted.frames.push((frame, pid));
        self.frames.insert(key, id as u32);
        Some(id as u32)
    }

    /// The stack of a function that is called, or executed, by those of another stack.
    fn stack(&mut self, parent: u32, frame: StackFrame, pid: Pid) -> u32 {
        let Some(frame) = self.frame(frame, pid) else { return parent };
        if let Some(stack) = self.stacks.get(&(parent, frame)) {
            return *stack;
        }
        if self.counted.stacks.len() >= MOST {
            return parent;
        }
        self.counted.stacks.push((parent, frame));
        let stack = self.counted.stacks.len() as u32;
        self.stacks.insert((parent, frame), stack);
        stack
    }
}

impl Kernel {
    /// From now on instructions of the host's threads are counted, in place of samples.
    pub fn count_instructions(&mut self, rules: CountingRules) {
        let random = self.config.seeds.stream(&self.config.name, "counted intervals");
        if let Some(profiling) = &mut self.profiling {
            profiling.counting = Some(Box::new(Counting::new(rules, random)));
            self.watches_intervals = true;
        }
    }

    #[inline]
    pub(crate) fn counts_instructions(&self) -> bool {
        self.profiling.as_ref().is_some_and(|profiling| profiling.counting.is_some())
    }

    /// What was counted.
    pub fn take_counted(&mut self) -> Counted {
        let counting = self.profiling.as_mut().and_then(|profiling| profiling.counting.take());
        counting.map_or_else(Counted::default, |counting| counting.counted)
    }
}

/// Whether a thread begins another interval after this.
pub(crate) fn ends_interval(exit: &Exit) -> bool {
    matches!(exit, Exit::Syscall | Exit::Vsyscall { .. })
}

impl Ctx<'_> {
    /// Executes the guest until it needs the kernel, counting what it executes where the interval was chosen; None when it is to run on
    /// uncounted.
    pub(crate) fn run_counted(&mut self, worker: &mut Worker) -> Option<Exit> {
        let mut profiling = self.kernel.profiling.take()?;
        let exit = self.count(&mut profiling, worker);
        self.kernel.profiling = Some(profiling);
        exit
    }

    fn count(&mut self, profiling: &mut Profiling, worker: &mut Worker) -> Option<Exit> {
        let counting = profiling.counting.as_deref_mut()?;
        let progress = match std::mem::take(&mut self.thread.interval) {
            Interval::Counted(progress) => Some(progress),
            // The call is made again, and nothing else executed.
            Interval::Begins if self.thread.between.is_paid() => None,
            Interval::Begins => counting.choose(self.now).map(|weight| {
                counting.counted.totals.counted += 1;
                Box::new(Progress::new(self.now, weight, (counting.rules.budget / INTERVAL_SHARE).max(1)))
            }),
            Interval::Free => None,
        };
        let Some(mut progress) = progress else {
            self.thread.interval = Interval::Free;
            return None;
        };
        let mut counting = profiling.counting.take()?;
        let number = |id| self.kernel.outer_id(id);
        let (pid, tid) = (Pid(number(self.process.pid.0)), Tid(number(self.thread.tid.0)));
        let memory = &*self.process.memory;
        let mut program = profiling.lend_program(memory, &self.process.exe);
        let mut stepping = Stepping {
            counting: &mut counting,
            program: &mut program,
            cache: &mut profiling.cache,
            memory,
            vcpu: &mut self.thread.vcpu,
            pid,
            progress: &mut progress,
        };
        let exit = stepping.run(worker);
        stepping.finish(tid);
        profiling.return_program(memory, program);
        profiling.counting = Some(counting);
        self.thread.interval = match &exit {
            Some(exit) if ends_interval(exit) => Interval::Begins,
            Some(Exit::Preempted { .. }) | None => Interval::Free,
            Some(_) => Interval::Counted(progress),
        };
        exit
    }
}

impl Progress {
    fn new(at: SimTime, weight: u64, left: u64) -> Progress {
        Progress {
            at,
            weight,
            left,
            is_whole: true,
            callers: Vec::new(),
            stack: 0,
            evaluated: None,
            python: None,
            last: None,
            counts: FastMap::default(),
            left_at: (0, 0),
        }
    }
}

/// What the counting of an interval needs.
struct Stepping<'a> {
    counting: &'a mut Counting,
    program: &'a mut ProfiledProgram,
    cache: &'a mut WalkCache,
    memory: &'a AddressSpace,
    vcpu: &'a mut Vcpu,
    pid: Pid,
    progress: &'a mut Progress,
}

impl Stepping<'_> {
    /// Executes instructions one by one, until one of them needs the kernel; None when the interval has become too long.
    fn run(&mut self, worker: &mut Worker) -> Option<Exit> {
        if (self.vcpu.registers().rip, self.vcpu.registers().rsp) != self.progress.left_at {
            self.find_callers();
        }
        loop {
            if self.progress.left == 0 {
                self.counting.counted.totals.cut += 1;
                return None;
            }
            self.progress.left -= 1;
            self.counting.counted.totals.steps += 1;
            self.counting.used += 1;
            let (rip, rsp) = (self.vcpu.registers().rip, self.vcpu.registers().rsp);
            let instruction = self.instruction(rip);
            self.follow_python(instruction.evaluates);
            let Some(exit) = self.vcpu.step(worker) else {
                self.add(&instruction);
                self.follow(&instruction, rip, rsp);
                continue;
            };
            // A fault comes before the instruction, and so does a call of what is no code.
            if !matches!(exit, Exit::Fault(_) | Exit::LostGs(_) | Exit::Vsyscall { .. } | Exit::Preempted { .. }) {
                self.add(&instruction);
            }
            self.progress.left_at = (self.vcpu.registers().rip, self.vcpu.registers().rsp);
            return Some(exit);
        }
    }

    /// What lies at an address.
    fn instruction(&mut self, rip: u64) -> Instruction {
        if let Some(known) = self.program.instructions.get(&rip) {
            return *known;
        }
        let python = self.program.python.as_ref();
        let evaluates = python.is_some_and(|python| python.evaluates(&Frame { address: rip, is_return: false }));
        let (original, kind) = (self.memory.instruction_address(rip), self.memory.step_kind(rip));
        let instruction = Instruction { original, kind, evaluates };
        // Code that a program has made may be another one the next time.
        if self.program.walker.index_at(rip).is_some() {
            self.program.instructions.insert(rip, instruction);
        }
        instruction
    }

    /// Counts an instruction that was executed. One that is repeated at its place, by `rep`, is one; so is one of a sled with the jumps that
    /// lead there and back.
    fn add(&mut self, instruction: &Instruction) {
        let progress = &mut *self.progress;
        let Some(original) = instruction.original.filter(|original| progress.last != Some(*original)) else { return };
        progress.last = Some(original);
        let key = match progress.evaluated {
            Some(stack) if instruction.evaluates => (stack, 0),
            _ => (progress.stack, original),
        };
        *progress.counts.entry(key).or_default() += 1;
        self.counting.counted.totals.instructions += 1;
    }

    /// After an instruction that lay at `rip`, with the stack at `rsp`: who has called whom.
    fn follow(&mut self, instruction: &Instruction, rip: u64, rsp: u64) {
        let (next, now) = (self.vcpu.registers().rip, self.vcpu.registers().rsp);
        let progress = &mut *self.progress;
        match instruction.kind {
            StepKind::Call(bytes) => {
                let frame = Frame { address: rip + u64::from(bytes), is_return: true };
                let (stack, evaluated) = (progress.stack, progress.evaluated);
                progress.callers.push(Caller { frame, slot: Some(now), stack, evaluated });
                progress.stack = match evaluated {
                    Some(stack) if instruction.evaluates => stack,
                    _ => {
                        let frame = self.program.frame(&frame);
                        self.counting.stack(stack, frame, self.pid)
                    }
                };
                progress.evaluated = None;
            }
            StepKind::Return => match progress.callers.pop() {
                Some(caller) if caller.frame.address == next => {
                    (progress.stack, progress.evaluated) = (caller.stack, caller.evaluated);
                }
                _ => self.find_callers(),
            },
            StepKind::PushFlags => {
                let flag = now + 1;
                if let Ok(flags) = self.memory.read_value::<u8>(flag) {
                    // It could be written a moment ago.
                    let _ = self.memory.write_value(flag, &(flags & !((Vcpu::TRAP_FLAG >> 8) as u8)));
                }
            }
            StepKind::Plain => {
                let is_left = progress.callers.last().and_then(|caller| caller.slot).is_some_and(|slot| now > slot);
                if is_left || now.abs_diff(rsp) > FAR {
                    self.find_callers();
                }
            }
        }
    }

    /// Finds the callers by the stack as it is.
    fn find_callers(&mut self) {
        let registers = self.vcpu.registers();
        let rip = self.memory.code_address(registers.rip);
        let start = Registers { rip, rsp: registers.rsp, rbp: registers.rbp, general: Some(by_dwarf(registers)) };
        let memory = self.memory;
        let mut frames = Vec::new();
        let read = |address: u64| memory.read_value(address).ok();
        let is_whole = self.program.walker.walk(self.cache, start, FRAMES_MAX, &read, &mut frames);
        self.progress.is_whole &= is_whole;
        let callers = frames.into_iter().skip(1).rev();
        self.progress.callers = callers.map(|frame| Caller { frame, slot: None, stack: 0, evaluated: None }).collect();
        let fs_base = self.vcpu.registers().fs_base();
        let bytes = |address: u64, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        self.progress.python = self.program.python.as_mut().and_then(|python| python.current_frame(&bytes, fs_base));
        let rip = self.vcpu.registers().rip;
        let evaluates = self.instruction(rip).evaluates;
        self.assemble(evaluates);
    }

    /// Python has called one of its functions, or has returned from one: the stack is another.
    fn follow_python(&mut self, evaluates: bool) {
        let Some(before) = self.progress.python else { return };
        let fs_base = self.vcpu.registers().fs_base();
        let memory = self.memory;
        let bytes = |address: u64, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        let now = self.program.python.as_mut().and_then(|python| python.current_frame(&bytes, fs_base)).unwrap_or(0);
        if now != before {
            self.progress.python = Some(now);
            self.assemble(evaluates);
        }
    }

    /// The stacks of all callers, with what Python evaluates in place of the functions of C that do it: from the outside in, since what has just
    /// been called may not be linked yet.
    fn assemble(&mut self, evaluates: bool) {
        let fs_base = self.vcpu.registers().fs_base();
        let memory = self.memory;
        let bytes = |address: u64, bytes: &mut [u8]| memory.read(address, bytes).is_ok();
        let python = self.program.python.as_mut();
        let mut evaluations =
            python.map_or_else(Vec::new, |python| python.evaluations(&bytes, fs_base)).into_iter().rev().peekable();
        let is_python = |program: &ProfiledProgram, frame: &Frame| {
            program.python.as_ref().is_some_and(|python| python.evaluates(frame))
        };
        let evaluating = self.progress.callers.iter().filter(|caller| is_python(self.program, &caller.frame)).count();
        let mut left = evaluating + usize::from(evaluates);
        let mut stack = 0;
        let mut callers = std::mem::take(&mut self.progress.callers);
        // The stack of what one function of C evaluates; the innermost has what is left.
        let mut next = |counting: &mut Counting, pid: Pid, stack: u32, left: usize| -> Option<u32> {
            evaluations.peek()?;
            let mut inner = stack;
            for codes in evaluations.by_ref() {
                for code in codes.into_iter().rev() {
                    inner = counting.stack(inner, StackFrame::Python(code), pid);
                }
                if left > 0 {
                    break;
                }
            }
            Some(inner)
        };
        for caller in &mut callers {
            (caller.stack, caller.evaluated) = (stack, None);
            if is_python(self.program, &caller.frame) {
                left -= 1;
                caller.evaluated = next(self.counting, self.pid, stack, left);
            }
            stack = match caller.evaluated {
                Some(evaluated) => evaluated,
                None => {
                    let frame = self.program.frame(&caller.frame);
                    self.counting.stack(stack, frame, self.pid)
                }
            };
        }
        self.progress.callers = callers;
        self.progress.stack = stack;
        self.progress.evaluated = if evaluates { next(self.counting, self.pid, stack, 0) } else { None };
    }

    /// Keeps what was counted.
    fn finish(&mut self, tid: Tid) {
        let mut counts: Vec<((u32, u64), u64)> = self.progress.counts.drain().collect();
        if counts.is_empty() {
            return;
        }
        counts.sort_unstable();
        let from = self.counting.counted.rows.len();
        for ((stack, address), count) in counts {
            let stack = match address {
                0 => stack,
                _ => {
                    let frame = self.program.frame(&Frame { address, is_return: false });
                    self.counting.stack(stack, frame, self.pid)
                }
            };
            self.counting.counted.rows.push((stack, count));
        }
        let interval = CountedInterval {
            pid: self.pid,
            tid,
            program: self.program.name.clone(),
            at: self.progress.at,
            weight: self.progress.weight,
            is_whole: self.progress.is_whole,
            rows: from..self.counting.counted.rows.len(),
        };
        self.counting.counted.intervals.push(interval);
    }
}
