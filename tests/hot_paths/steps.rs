//! Counts the instructions that one thread of a program executes between two marks.
//!
//! The program runs under ptrace(2). A mark is an attempt to open or stat a file named
//! `hot-path-begin-NAME` or `hot-path-end-NAME`. Between the two, the thread that made the first
//! one executes instruction by instruction. A count is the same everywhere: no address is random,
//! the C library chooses the same variants of its functions on all processors, and clocks of the
//! machine stand still, for some of the simulator's work depends on how long a run takes.

use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Keeps glibc from variants of its functions that only some processors with AVX2 have.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD,-ERMS,-FSRM,-RTM";
/// The signal of the simulator's timers of processor time, which single steps use up.
const TICK: Signal = Signal::SIGVTALRM;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const PUSHF: u8 = 0x9c;
/// In RFLAGS: a single step is under way.
const TRAP_FLAG: u64 = 1 << 8;
const PREFIX: &[u8] = b"hot-path-";

/// How often each instruction was executed, by its address, for one pair of marks.
pub type Steps = BTreeMap<u64, u64>;

/// What was counted of a program.
pub struct Counted {
    pub paths: BTreeMap<String, Steps>,
    /// `/proc/PID/maps` at the last mark.
    pub maps: String,
}

/// A place in the program's code.
#[derive(Clone, Copy)]
struct Place {
    times: u64,
    is_call: bool,
    /// It stores the flags.
    is_pushf: bool,
}

struct Tracer {
    child: Child,
    memory: File,
    /// The thread that executes single steps, and the path's name.
    stepped: Option<(Pid, String)>,
    last: u64,
    places: BTreeMap<u64, Place>,
    /// The machine's clocks as the program first read them, by number.
    clocks: BTreeMap<u64, [u8; 16]>,
    /// The clock that the last call has read, and where to.
    clock_read: Option<(u64, u64)>,
    /// The last step has stored the flags.
    flags_pushed: bool,
    counted: Counted,
}

/// Runs a program to its end and counts. `arguments` begin with the program's path.
pub fn count(folder: &Path, arguments: &[&str]) -> Counted {
    // The shell stops itself, so that nothing of the program is missed.
    let script = "kill -STOP $$; exec \"$@\"";
    let mut command = Command::new("setarch");
    command.args(["-R", "sh", "-c", script, "sh"]).args(arguments).current_dir(folder).env("GLIBC_TUNABLES", TUNABLES);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("setarch of util-linux");
    let pid = Pid::from_raw(child.id() as i32);
    let stopped = waitpid(pid, Some(WaitPidFlag::WUNTRACED)).expect("a child");
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options).expect("ptrace(2), which this test needs, is refused here");
    nix::sys::signal::kill(pid, Signal::SIGCONT).expect("a stopped child");
    let memory = open_memory(pid);
    let counted = Counted { paths: BTreeMap::new(), maps: String::new() };
    let (places, clocks) = (BTreeMap::new(), BTreeMap::new());
    let mut tracer = Tracer {
        child,
        memory,
        stepped: None,
        last: 0,
        places,
        clocks,
        clock_read: None,
        flags_pushed: false,
        counted,
    };
    tracer.follow(pid);
    tracer.counted
}

fn open_memory(pid: Pid) -> File {
    File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).expect("memory of a child")
}

/// Whether a thread's call, begun or about to be, is one by which marks are made: the name is the second argument.
fn names_file(registers: &libc::user_regs_struct) -> bool {
    let number = if registers.orig_rax as i64 >= 0 { registers.orig_rax } else { registers.rax };
    let by_name = [libc::SYS_openat, libc::SYS_openat2, libc::SYS_statx, libc::SYS_newfstatat, libc::SYS_readlinkat];
    by_name.contains(&(number as i64))
}

impl Tracer {
    /// Lets the program run until it ends.
    fn follow(&mut self, main: Pid) {
        let any = Pid::from_raw(-1);
        loop {
            match waitpid(any, Some(WaitPidFlag::__WALL)).expect("a program under way") {
                WaitStatus::Exited(pid, status) if pid == main => {
                    assert_eq!(status, 0, "the measured program failed");
                    return;
                }
                WaitStatus::Signaled(pid, signal, _) if pid == main => panic!("the measured program met {signal}"),
                WaitStatus::PtraceSyscall(pid) => self.at_call(pid),
                WaitStatus::PtraceEvent(pid, ..) => self.resume(pid, None),
                WaitStatus::Stopped(pid, Signal::SIGTRAP) if self.is_stepped(pid) => self.step(pid),
                WaitStatus::Stopped(pid, TICK) if self.is_stepped(pid) => self.resume(pid, None),
                WaitStatus::Stopped(pid, signal) => self.resume(pid, Some(signal)),
                _ => {}
            }
        }
    }

    fn is_stepped(&self, pid: Pid) -> bool {
        self.stepped.as_ref().is_some_and(|(stepped, _)| *stepped == pid)
    }

    /// A thread may have ended meanwhile: then the call fails.
    fn resume(&self, pid: Pid, signal: Option<Signal>) {
        let _ = match &self.stepped {
            Some((stepped, _)) if *stepped == pid => ptrace::step(pid, signal),
            // Others have no marks, and need not stop.
            Some(_) => ptrace::cont(pid, signal),
            None => ptrace::syscall(pid, signal),
        };
    }

    /// A thread that is not stepped begins or ends a call.
    fn at_call(&mut self, pid: Pid) {
        if self.stepped.is_none()
            && let Ok(registers) = ptrace::getregs(pid)
        {
            self.look(pid, &registers);
        }
        self.resume(pid, None);
    }

    fn look(&mut self, pid: Pid, registers: &libc::user_regs_struct) {
        if names_file(registers) {
            // Since the file was opened last, the shell may have become the program.
            self.memory = open_memory(pid);
            if let Some((true, path)) = self.mark(registers) {
                self.stepped = Some((pid, path));
            }
        } else if registers.orig_rax as i64 == libc::SYS_clock_gettime && registers.rax == 0 {
            self.clock_read = Some((registers.rdi, registers.rsi));
            self.stop_clock();
        }
    }

    fn step(&mut self, pid: Pid) {
        let registers = ptrace::getregs(pid).expect("a stopped thread");
        self.stop_clock();
        self.hide_trap_flag(registers.rsp);
        // Rounds of one instruction are one: how many there are depends on the processor.
        if registers.rip != self.last {
            self.last = registers.rip;
            let place = self.places.entry(registers.rip).or_insert_with(|| {
                let mut code = [0; 2];
                let is_known = self.memory.read_exact_at(&mut code, registers.rip).is_ok();
                Place { times: 0, is_call: is_known && code == SYSCALL, is_pushf: is_known && code[0] == PUSHF }
            });
            place.times += 1;
            self.flags_pushed = place.is_pushf;
            if place.is_call && registers.rax as i64 == libc::SYS_clock_gettime {
                self.clock_read = Some((registers.rdi, registers.rsi));
            } else if place.is_call
                && let Some((false, path)) = self.mark(&registers)
            {
                let steps = std::mem::take(&mut self.places).into_iter().map(|(rip, place)| (rip, place.times));
                self.counted.paths.insert(path, steps.collect());
                self.counted.maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).expect("maps");
                self.stepped = None;
            }
        }
        self.resume(pid, None);
    }

    /// Replaces what the last call has read of a clock by what was read first.
    fn stop_clock(&mut self) {
        let Some((clock, address)) = self.clock_read.take() else { return };
        let mut now = [0; 16];
        self.memory.read_exact_at(&mut now, address).expect("a time");
        let shown = self.clocks.entry(clock).or_insert(now);
        self.memory.write_all_at(shown, address).expect("a time");
    }

    /// Takes the flag of single steps out of what the last step has stored, as it would be without them.
    fn hide_trap_flag(&mut self, stack: u64) {
        if std::mem::take(&mut self.flags_pushed) {
            let mut flags = [0; 8];
            self.memory.read_exact_at(&mut flags, stack).expect("a stack");
            let flags = u64::from_le_bytes(flags) & !TRAP_FLAG;
            self.memory.write_all_at(&flags.to_le_bytes(), stack).expect("a stack");
        }
    }

    /// Whether a path begins with the call that a thread is about to make, and the path's name; None for other calls.
    fn mark(&self, registers: &libc::user_regs_struct) -> Option<(bool, String)> {
        if !names_file(registers) {
            return None;
        }
        let mut bytes = [0; 256];
        // Less is read where what lies behind the name is not there.
        let length = self.memory.read_at(&mut bytes, registers.rsi).ok()?;
        let name = bytes[..length].split(|byte| *byte == 0).next()?;
        let start = name.windows(PREFIX.len()).position(|part| part == PREFIX)?;
        let name = std::str::from_utf8(&name[start + PREFIX.len()..]).ok()?;
        let (edge, path) = name.split_once('-')?;
        Some((edge == "begin", path.to_owned()))
    }
}
