//! The end of a guest by a signal that dumps core: what the log says of it, what its parent learns, and the report that takes the
//! core file's place (`report`).

mod report;

use crate::ctx::Ctx;
use crate::ids::Pid;
use crate::kernel::Kernel;
use crate::process::ExitStatus;
use crate::thread::{Thread, ThreadState};
use crate::user_io::ByteSource;
use guest::FaultInfo;
use linux_abi::fs::{O_APPEND, O_WRONLY};
use linux_abi::signal::Siginfo;
use linux_abi::sysinfo::RLIMIT_CORE;
use linux_abi::{Signal, nr};
use std::any::Any;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

pub(crate) use report::Report;

/// A host leaves so many reports at most: something that crashes again and again has told all by then.
const REPORTS_MAX: usize = 20;

/// Calls that the message of a panic names.
const CALLS_IN_MESSAGE: usize = 3;

/// How a deadly signal came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Something sent it.
    Signal,
    /// The processor.
    Fault(FaultInfo),
    /// The frame of another signal's handler, whose number this is, did not fit onto the stack.
    NoRoomForFrame(i32),
    /// `rt_sigreturn` found no frame.
    BadFrame,
    /// The thread's own filter.
    Seccomp,
}

/// A guest that crashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    pub pid: Pid,
    pub program: String,
    pub signal: i32,
    /// The report's name in the host's folder; None when there is none.
    pub report: Option<String>,
}

impl Ctx<'_> {
    /// Ends the process by a signal that dumps core, while its memory can be read.
    #[cold]
    pub(crate) fn crash(&mut self, info: &Siginfo, cause: Cause) {
        self.process.ending = Some(ExitStatus::Signaled(info.si_signo));
        // core(5): the report stands for the file.
        self.process.dumped = self.process.dumpable && self.process.limits.soft(RLIMIT_CORE) > 0;
        let message = self.crash_message(info, cause);
        let report = self.write_crash_report(info, cause);
        let place = report.as_ref().map_or_else(String::new, |name| format!("; see {name}"));
        self.report(format!("{message}{place}"));
        let (pid, program) = (self.process.pid, self.process.program_name());
        self.kernel.crashes.push(Crash { pid, program, signal: info.si_signo, report });
    }

    /// The log's sentence.
    fn crash_message(&self, info: &Siginfo, cause: Cause) -> String {
        let rip = self.process.memory.code_address(self.thread.vcpu.registers().rip);
        let memory = &self.process.memory;
        let place = memory.mappings().find(|vma| vma.start <= rip && rip < vma.end).map(|vma| {
            let start = memory.image_start(rip).unwrap_or(vma.start);
            format!(" ({}+{:#x})", String::from_utf8_lossy(memory.mapping_name(vma)), rip - start)
        });
        let signal = signal_name(info.si_signo);
        let address = match cause {
            Cause::Fault(fault) => format!(" at address {:#x}", fault.address),
            Cause::NoRoomForFrame(number) => format!(", for lack of stack for the handler of {}", signal_name(number)),
            _ => String::new(),
        };
        format!("killed by {signal}{address}, instruction {rip:#x}{}", place.unwrap_or_default())
    }

    /// Goes on with a panic of the simulator that happened while this thread was served: its message now also names host and guest, and
    /// the guest's last calls. The report lies in the host's folder at once.
    #[cold]
    pub(crate) fn fail(&mut self, payload: Box<dyn Any + Send>) -> ! {
        let message = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (_, Some(text)) => text.clone(),
            _ => "a panic without a message".to_owned(),
        };
        // Whatever is broken may break the report too.
        let text = catch_unwind(AssertUnwindSafe(|| {
            let report = Report::new(self.kernel, self.process, self.thread, self.now);
            let calls = report.last_calls(CALLS_IN_MESSAGE);
            let name = self.report_name();
            self.write_report(&name, &report.of_failure(&message));
            format!(", last calls: {calls}; see {name}")
        }));
        let host = &self.kernel.config.name;
        let (program, pid) = (self.process.program_name(), self.kernel.outer_id(self.process.pid.0));
        let text = text.unwrap_or_default();
        resume_unwind(Box::new(format!("{message} (serving {program}, process {pid} of host '{host}'{text})")))
    }

    fn report_name(&self) -> String {
        format!("{}.{}.crash", self.process.program_name(), self.kernel.outer_id(self.process.pid.0))
    }

    /// The report's name, if one is wanted and can be written.
    fn write_crash_report(&mut self, info: &Siginfo, cause: Cause) -> Option<String> {
        let written = self.kernel.crashes.iter().filter(|crash| crash.report.is_some()).count();
        if !self.kernel.config.crash_reports || written >= REPORTS_MAX {
            return None;
        }
        let report = Report::new(self.kernel, self.process, self.thread, self.now);
        let text = report.of_crash(info, cause);
        let name = self.report_name();
        self.write_report(&name, &text).then_some(name)
    }

    /// Writes a file into the host's folder. Whether it could be created; a failure later is noted as with every output.
    pub(crate) fn write_report(&mut self, name: &str, text: &str) -> bool {
        let path = self.kernel.config.host_dir.join(name);
        self.kernel.config.folders.hide(&path);
        let Ok(file) = self.kernel.open_output(path.clone(), O_WRONLY | O_APPEND) else { return false };
        let mut bytes = text.as_bytes();
        while bytes.remaining() > 0 && self.kernel.try_write(file, &mut bytes, None, self.now).is_ok() {}
        self.kernel.release_file(file);
        self.kernel.flush_output_at(path.as_os_str().as_bytes());
        true
    }
}

/// What a thread does, in words that follow "which".
pub(crate) fn doing(thread: &Thread) -> String {
    match thread.state {
        ThreadState::Dead => "has ended".to_owned(),
        ThreadState::Blocked if !thread.sleeping => {
            let name = nr::name(thread.call.number).unwrap_or("a system call");
            format!("waits in {name} since {}", thread.call.started)
        }
        ThreadState::Runnable | ThreadState::Blocked => "can run".to_owned(),
    }
}

impl Kernel {
    /// What the first thread of a process does that lives, in words that follow "which": for those who did not expect it to.
    pub fn doing(&self, pid: Pid) -> Option<String> {
        self.threads.get(pid.0).filter(|_| self.is_alive(pid)).map(doing)
    }
}

fn signal_name(number: i32) -> String {
    Signal::from_raw(number).map_or_else(|| format!("signal {number}"), |signal| signal.to_string())
}

#[cfg(test)]
mod tests {
    use crate::ctx::Ctx;
    use crate::test_machine::{A, Machine};
    use linux_abi::nr;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_names_host_guest_and_last_calls() {
        let mut machine = Machine::new(A);
        let tid = machine.thread();
        machine.execute(tid, nr::getppid, [0; 6]).unwrap();
        machine.execute(tid, nr::close, [77, 0, 0, 0, 0, 0]).unwrap_err();
        let mut thread = machine.kernel.threads.take(tid.0).unwrap();
        let mut process = machine.process.take().unwrap();
        process.exe = b"/usr/bin/tested".to_vec();
        let mut ctx = Ctx { kernel: &mut machine.kernel, process: &mut process, thread: &mut thread, now: machine.now };
        let end = catch_unwind(AssertUnwindSafe(|| ctx.fail(Box::new("index out of bounds")))).unwrap_err();
        let text = end.downcast_ref::<String>().unwrap();
        assert!(text.starts_with("index out of bounds (serving tested, process 1000 of host 'host1'"), "{text}");
        assert!(text.contains("getppid() = 1; close(77) = -1 EBADF"), "{text}");
    }
}
