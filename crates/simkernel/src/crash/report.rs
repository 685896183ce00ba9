//! The report of a crash: a text with what a core file would be opened for.
//!
//! Everything is taken while the guest's memory can be read. Addresses are those of the program's own code: where a thread stands in a
//! sled, the place that the sled stands for.

use super::{Cause, doing, signal_name};
use crate::kernel::Kernel;
use crate::process::Process;
use crate::recent_calls::{CallState, RecentCall};
use crate::thread::Thread;
use crate::trace::GuestMemory;
use crate::vfs::proc_memory;
use base::SimTime;
use linux_abi::Errno;
use linux_abi::signal::Siginfo;
use linux_abi::strace::{Call, Mode, write_call, write_signal_line};
use std::fmt::Write;
use symbols::{Frame, PlacedFile, Program};

/// Frames that are shown from either end of a backtrace, and that are looked for.
const FRAMES_INNER: usize = 40;
const FRAMES_OUTER: usize = 12;
const FRAMES_MAX: usize = 50_000;
/// Threads whose backtraces are shown.
const THREADS_MAX: usize = 64;
/// Instructions that are shown from the one at fault on.
const INSTRUCTIONS: usize = 4;
/// Words that are shown from the stack's top.
const STACK_WORDS: u64 = 16;

/// Makes a report of a process whose thread is executing.
pub(crate) struct Report<'a> {
    kernel: &'a Kernel,
    process: &'a Process,
    thread: &'a Thread,
    now: SimTime,
    program: Program,
    text: String,
}

impl<'a> Report<'a> {
    pub(crate) fn new(kernel: &'a Kernel, process: &'a Process, thread: &'a Thread, now: SimTime) -> Self {
        let memory = &process.memory;
        let files = memory.placed_images().map(|(start, image)| PlacedFile {
            path: image.path().to_path_buf(),
            name: file_name(memory.name_at(start)),
            range: start..start + image.joined_bytes(),
            bias: start.wrapping_sub(image.header.linked_at),
        });
        let program = Program::new(files.collect());
        Report { kernel, process, thread, now, program, text: String::new() }
    }

    /// The report of a guest's crash.
    pub(crate) fn of_crash(mut self, info: &Siginfo, cause: Cause) -> String {
        self.line(format_args!("Gnomon's report of a crash"));
        self.identity();
        self.signal(info, cause);
        self.body();
        self.text
    }

    /// The report of a guest for which the simulator itself failed.
    pub(crate) fn of_failure(mut self, message: &str) -> String {
        self.line(format_args!("Gnomon failed while it served this guest: {message}"));
        self.identity();
        self.body();
        self.text
    }

    /// The thread's last calls in one line.
    pub(crate) fn last_calls(&self, most: usize) -> String {
        let calls: Vec<&RecentCall> = self.thread.recent.iter().collect();
        let shown = &calls[calls.len().saturating_sub(most)..];
        shown.iter().map(|call| self.call(call)).collect::<Vec<_>>().join("; ")
    }

    fn body(&mut self) {
        self.instructions();
        self.registers();
        self.threads();
        self.calls();
        self.stack();
        self.descriptors();
        self.memory_map();
    }

    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{text}");
    }

    fn heading(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "\n{text}:");
    }

    /// A number of a process or thread as names of files have it.
    fn number(&self, id: u32) -> u32 {
        self.kernel.outer_id(id)
    }

    fn identity(&mut self) {
        let (process, thread) = (self.process, self.thread);
        self.line(format_args!(""));
        self.line(format_args!("program      {}", String::from_utf8_lossy(&process.exe)));
        let line = process.memory.command_line();
        let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|byte| *byte == 0);
        let arguments: Vec<String> = words.map(|word| format!("{:?}", String::from_utf8_lossy(word))).collect();
        self.line(format_args!("arguments    [{}]", arguments.join(", ")));
        self.line(format_args!("host         {}", self.kernel.config.name));
        self.line(format_args!(
            "process      {}, child of {}",
            self.number(process.pid.0),
            self.number(process.parent.0)
        ));
        self.line(format_args!(
            "thread       {} ({}), one of {}",
            self.number(thread.tid.0),
            String::from_utf8_lossy(&thread.name),
            process.threads.len()
        ));
        let (now, started) = (self.now, process.started);
        self.line(format_args!("time         {now} simulated; the process started at {started}"));
    }

    fn signal(&mut self, info: &Siginfo, cause: Cause) {
        let mut decoded = String::new();
        write_signal_line(&mut decoded, self.now, 0, info, Mode::Standard);
        let details = decoded.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(inner, _)| inner);
        let name = signal_name(info.si_signo);
        self.line(format_args!("signal       {name} {{{details}}}"));
        let why = match cause {
            Cause::Fault(fault) => fault_words(&fault),
            Cause::Signal => sender_words(info, self.kernel, self.process),
            Cause::NoRoomForFrame(number) => {
                format!("the stack has no room for the handler of {}: see sigaltstack(2)", signal_name(number))
            }
            Cause::BadFrame => "rt_sigreturn found no signal frame on the stack".to_owned(),
            Cause::Seccomp => "a call that the thread's own seccomp filter forbids".to_owned(),
        };
        self.line(format_args!("why          {why}"));
    }

    /// The instruction that the thread stands at, and the next ones.
    fn instructions(&mut self) {
        let memory = &self.process.memory;
        let shown = memory.code_address(self.thread.vcpu.registers().rip);
        self.heading(format_args!("instructions"));
        let mut at = shown;
        for index in 0..INSTRUCTIONS {
            let mut code = [0u8; symbols::INSTRUCTION_BYTES_MAX];
            let readable = memory.read_partial(at, &mut code);
            let Some((text, bytes)) = symbols::disassemble(&code[..readable], at) else {
                if index == 0 {
                    self.line(format_args!("=> {at:#018x}  no code can be read here"));
                }
                break;
            };
            let mark = if index == 0 { "=>" } else { "  " };
            self.line(format_args!("{mark} {at:#018x}  {text}"));
            at += bytes as u64;
        }
    }

    fn registers(&mut self) {
        let r = *self.thread.vcpu.registers();
        let rip = self.process.memory.code_address(r.rip);
        self.heading(format_args!("registers of thread {}", self.number(self.thread.tid.0)));
        let rows = [
            [("rax", r.rax), ("rbx", r.rbx), ("rcx", r.rcx), ("rdx", r.rdx)],
            [("rsi", r.rsi), ("rdi", r.rdi), ("rbp", r.rbp), ("rsp", r.rsp)],
            [("r8", r.r8), ("r9", r.r9), ("r10", r.r10), ("r11", r.r11)],
            [("r12", r.r12), ("r13", r.r13), ("r14", r.r14), ("r15", r.r15)],
            [("rip", rip), ("flags", r.rflags), ("fs", r.fs_base()), ("gs", r.gs_base())],
        ];
        for row in rows {
            let cells: Vec<String> = row.iter().map(|(name, value)| format!("{name:<5} {value:016x}")).collect();
            self.line(format_args!("  {}", cells.join("  ")));
        }
    }

    /// The backtraces: the crashed thread's first, then the others' by number.
    fn threads(&mut self) {
        let (kernel, process, own) = (self.kernel, self.process, self.thread);
        self.heading(format_args!(
            "backtrace of thread {} ({})",
            self.number(own.tid.0),
            String::from_utf8_lossy(&own.name)
        ));
        self.backtrace(own);
        let mut others: Vec<_> = process.threads.iter().copied().filter(|tid| *tid != own.tid).collect();
        others.sort_unstable();
        for tid in others.iter().take(THREADS_MAX) {
            let Some(thread) = kernel.threads.get(tid.0) else { continue };
            let doing = doing(thread);
            self.heading(format_args!(
                "backtrace of thread {} ({}), which {doing}",
                self.number(tid.0),
                String::from_utf8_lossy(&thread.name)
            ));
            self.backtrace(thread);
        }
        if others.len() > THREADS_MAX {
            self.line(format_args!("\nand {} more threads", others.len() - THREADS_MAX));
        }
    }

    fn backtrace(&mut self, thread: &Thread) {
        let memory = &self.process.memory;
        let r = thread.vcpu.registers();
        let start = symbols::Registers { rip: memory.code_address(r.rip), rsp: r.rsp, rbp: r.rbp, general: None };
        let frames = self.program.backtrace(start, FRAMES_MAX, |address| memory.read_value(address).ok());
        // A recursion is one line, however deep it is.
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for index in 0..frames.len() {
            match runs.last_mut() {
                Some((first, count)) if frames[*first] == frames[index] => *count += 1,
                _ => runs.push((index, 1)),
            }
        }
        let all = runs.len();
        let left_out = if all > FRAMES_INNER + FRAMES_OUTER { FRAMES_INNER..all - FRAMES_OUTER } else { all..all };
        for (at, (index, count)) in runs.into_iter().enumerate() {
            if at == left_out.start && !left_out.is_empty() {
                self.line(format_args!("  ... {} frames are left out ...", left_out.len()));
            }
            if !left_out.contains(&at) {
                self.frame(index, &frames[index]);
                if count > 1 {
                    self.line(format_args!("  ... the same {} more times ...", count - 1));
                }
            }
        }
        if frames.len() == FRAMES_MAX {
            self.line(format_args!("  ... and more"));
        }
    }

    fn frame(&mut self, index: usize, frame: &Frame) {
        let place = self.program.place(frame);
        let number = format!("#{index}");
        let head = format!("  {number:<4} {:#018x}", frame.address);
        let Some((file, linked)) = place.file else {
            self.line(format_args!("{head} ??"));
            return;
        };
        let source = |line: &symbols::Line| match (&line.file, line.line) {
            (Some(file), Some(line)) => format!(" at {file}:{line}"),
            (Some(file), None) => format!(" at {file}"),
            _ => String::new(),
        };
        let inlined = place.lines.len().saturating_sub(1);
        for line in &place.lines[..inlined] {
            let name = line.function.as_deref().unwrap_or("??");
            self.line(format_args!("{head} {name} (inlined){}", source(line)));
        }
        let at = place.lines.last().map(source).unwrap_or_default();
        match &place.function {
            Some(function) => self.line(format_args!("{head} {}+{:#x} in {file}{at}", function.name, function.offset)),
            None => self.line(format_args!("{head} ?? in {file}+{linked:#x}{at}")),
        }
    }

    fn calls(&mut self) {
        let thread = self.thread;
        let made = thread.recent.iter().count();
        self.heading(format_args!(
            "last {made} system calls of thread {} (what pointers lead to is shown as it is now)",
            self.number(thread.tid.0)
        ));
        for call in thread.recent.iter() {
            let text = self.call(call);
            self.line(format_args!("  {} {text}", call.at));
        }
    }

    fn call(&self, call: &RecentCall) -> String {
        let result = match call.state {
            CallState::Returned(value) => Some(value),
            CallState::Interrupted => Some(Errno::EINTR.to_return()),
            CallState::Open | CallState::NoReturn => None,
        };
        let mut text = String::new();
        let decoded = Call { number: call.number, args: &call.args, result };
        write_call(&mut text, decoded, Mode::Standard, &GuestMemory(&self.process.memory));
        text
    }

    fn stack(&mut self) {
        let rsp = self.thread.vcpu.registers().rsp;
        self.heading(format_args!("top of the stack"));
        for row in 0..STACK_WORDS / 4 {
            let at = rsp.wrapping_add(row * 32);
            let word = |i: u64| self.process.memory.read_value::<u64>(at.wrapping_add(8 * i));
            let Ok(words) = (0..4).map(word).collect::<Result<Vec<u64>, _>>() else {
                self.line(format_args!("  {at:016x}: cannot be read"));
                break;
            };
            let words: Vec<String> = words.iter().map(|word| format!("{word:016x}")).collect();
            self.line(format_args!("  {at:016x}: {}", words.join(" ")));
        }
    }

    fn descriptors(&mut self) {
        let kernel = self.kernel;
        self.heading(format_args!("open descriptors"));
        let Some(table) = kernel.shared.fds.get(self.process.fds) else { return };
        for (fd, file) in table.iter() {
            let what = kernel.describe_file(file);
            self.line(format_args!("  {fd:<4} {}", String::from_utf8_lossy(&what)));
        }
    }

    fn memory_map(&mut self) {
        let map = proc_memory::maps(&self.process.memory);
        self.heading(format_args!("memory"));
        self.text.push_str(&String::from_utf8_lossy(&map));
    }
}

/// What a fault was, in words.
fn fault_words(fault: &guest::FaultInfo) -> String {
    const PAGE_FAULT: u64 = 14;
    const WRITE: u64 = 2;
    const FETCH: u64 = 16;
    if fault.trap_number != PAGE_FAULT {
        return match fault.trap_number {
            0 => "a division by zero or out of range".to_owned(),
            3 => "a breakpoint instruction".to_owned(),
            6 => "an instruction that the processor does not know".to_owned(),
            13 => {
                "a general protection fault: an address that is not canonical, or a privileged instruction".to_owned()
            }
            16 | 19 => "a floating-point exception".to_owned(),
            17 => "an unaligned access".to_owned(),
            other => format!("exception {other} of the processor"),
        };
    }
    let what = match fault.error_code {
        code if code & FETCH != 0 => "executing",
        code if code & WRITE != 0 => "writing to",
        _ => "reading from",
    };
    format!("{what} address {:#x}", fault.address)
}

/// Who sent a signal.
fn sender_words(info: &Siginfo, kernel: &Kernel, process: &Process) -> String {
    use linux_abi::signal::{SI_QUEUE, SI_TKILL, SI_USER};
    match info.si_code {
        SI_USER | SI_TKILL | SI_QUEUE if info.si_pid() == process.pid.0 as i32 => {
            "sent by the process itself (abort, raise, kill)".to_owned()
        }
        SI_USER if info.si_pid() == 0 => "sent by the experiment".to_owned(),
        SI_USER | SI_TKILL | SI_QUEUE => format!("sent by process {}", kernel.outer_id(info.si_pid() as u32)),
        _ => "sent by the kernel".to_owned(),
    }
}

/// The last component of a path.
fn file_name(path: &[u8]) -> String {
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&path[start..]).into_owned()
}
