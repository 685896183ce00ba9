//! strace-like logs: one line per system call of a guest, in the run's directory, when the experiment asks for them.

use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::outcome::{Outcome, SysResult};
use crate::wait::Wake;
use guest::AddressSpace;
use linux_abi::nr;
use linux_abi::strace::{Call, MemoryReader, Mode, write_line};

/// A process's log.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    pub mode: Mode,
    /// The output file that takes the lines.
    pub(crate) file: FileId,
}

/// A guest's memory as the decoder reads it.
pub(crate) struct GuestMemory<'a>(pub(crate) &'a AddressSpace);

impl MemoryReader for GuestMemory<'_> {
    fn read(&self, address: u64, buf: &mut [u8]) -> usize {
        self.0.read_partial(address, buf)
    }
}

impl Ctx<'_> {
    /// Logs a call that is complete; calls that do not return are logged by `trace_before`.
    #[inline]
    pub(crate) fn trace(&mut self, number: u64, args: [u64; 6], result: &SysResult) {
        let Some(trace) = self.process.trace else { return };
        let result = match result {
            Ok(value) => Some(*value),
            Err(Outcome::Errno(errno)) => Some(errno.to_return()),
            Err(Outcome::Restart(_)) => Some(linux_abi::Errno::EINTR.to_return()),
            Err(Outcome::Block | Outcome::NoReturn) => return,
        };
        self.write_trace(trace, number, args, result);
    }

    /// Logs a call that does not come back to this program. For one that replaces the program if it succeeds, the line is made while
    /// its arguments can be read; write it then by `trace_success`.
    #[inline]
    pub(crate) fn trace_before(&mut self, number: u64, args: [u64; 6]) -> Option<String> {
        let trace = self.process.trace?;
        let is = |calls: &[u32]| calls.iter().any(|call| u64::from(*call) == number);
        if is(&[nr::execve, nr::execveat]) && self.thread.wake == Wake::First {
            return Some(self.trace_line(trace, number, args, Some(0)));
        }
        if is(&[nr::exit, nr::exit_group, nr::rt_sigreturn]) {
            self.write_trace(trace, number, args, None);
        }
        None
    }

    /// Logs a call that has replaced the program.
    pub(crate) fn trace_success(&mut self, line: &str) {
        if let Some(trace) = self.process.trace {
            self.append_trace(trace, line);
        }
    }

    fn write_trace(&mut self, trace: Trace, number: u64, args: [u64; 6], result: Option<u64>) {
        let line = self.trace_line(trace, number, args, result);
        self.append_trace(trace, &line);
    }

    fn trace_line(&self, trace: Trace, number: u64, args: [u64; 6], result: Option<u64>) -> String {
        let mut line = String::new();
        let call = Call { number, args: &args, result };
        write_line(&mut line, self.now, self.thread.tid.0 as i32, call, trace.mode, &GuestMemory(&self.process.memory));
        line
    }

    fn append_trace(&mut self, trace: Trace, line: &str) {
        // An output file notes its own failure, which fails the run.
        let _ = self.kernel.try_write(trace.file, &mut line.as_bytes(), None, self.now);
    }
}
