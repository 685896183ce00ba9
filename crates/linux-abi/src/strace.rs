//! System calls as text, in strace's words: `openat(AT_FDCWD, "/etc/hosts", O_RDONLY|O_CLOEXEC) = 3`.
//!
//! One table ([`table`]) says what each argument of each call is; `decode` prints the kinds, `structs` what pointers lead
//! to. A call is printed when it is complete, since what it returned stands in the guest's memory then; one that never
//! returns to its caller (`exit`, a successful `execve`) is printed before it runs, without a result.

mod decode;
mod structs;
mod table;

use crate::{Errno, nr};
use base::SimTime;
use std::fmt::Write;

/// A guest's memory, as far as the decoder needs it.
pub trait MemoryReader {
    /// Copies from `address` on into `buf` and returns how many bytes could be read before the first that cannot.
    fn read(&self, address: u64, buf: &mut [u8]) -> usize;
}

/// How much is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Everything, addresses included.
    Standard,
    /// No addresses: `<pointer>` in their place, so that two runs compare equal even if memory was laid out differently.
    /// What guests read and write is shown as it is: one that prints its own addresses still shows them.
    Deterministic,
}

/// One system call. `result` is what it left in `rax`, or None while that is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub number: u64,
    pub args: &'a [u64; 6],
    pub result: Option<u64>,
}

/// Appends the line of a strace log: `HH:MM:SS.nnnnnnnnn [tid TID] call = result` and a newline.
pub fn write_line(out: &mut String, time: SimTime, tid: i32, call: Call<'_>, mode: Mode, memory: &dyn MemoryReader) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{time} [tid {tid}] ");
    write_call(out, call, mode, memory);
    out.push('\n');
}

/// Appends the call and its result, without a newline.
pub fn write_call(out: &mut String, call: Call<'_>, mode: Mode, memory: &dyn MemoryReader) {
    let entry = table::entry(call.number);
    match nr::name(call.number) {
        Some(name) => out.push_str(name),
        None => {
            let _ = write!(out, "syscall_{:#x}", call.number);
        }
    }
    out.push('(');
    decode::Decoder::new(out, call, mode, memory).arguments(entry.args);
    out.push_str(") = ");
    write_result(out, call, entry.returns, mode);
    structs::write_result_details(out, call, entry.args, mode, memory);
}

/// Appends a signal's delivery, as strace shows it between calls: `--- SIGCHLD {si_signo=SIGCHLD, ...} ---` and a newline.
pub fn write_signal_line(out: &mut String, time: SimTime, tid: i32, info: &crate::signal::Siginfo, mode: Mode) {
    let _ = write!(out, "{time} [tid {tid}] --- ");
    structs::write_siginfo(out, info, mode);
    out.push_str(" ---\n");
}

fn write_result(out: &mut String, call: Call<'_>, returns: table::Returns, mode: Mode) {
    let Some(result) = call.result else {
        out.push('?');
        return;
    };
    let _ = match Errno::from_return(result) {
        Err(errno) if errno.raw() >= Errno::ERESTARTSYS.raw() => write!(out, "? {errno}"),
        Err(errno) => write!(out, "-1 {errno}"),
        Ok(value) => match returns {
            table::Returns::Number => write!(out, "{}", value as i64),
            table::Returns::Mode => write!(out, "0{value:03o}"),
            table::Returns::Address if mode == Mode::Deterministic && value != 0 => write!(out, "<pointer>"),
            table::Returns::Address => write!(out, "{value:#x}"),
            table::Returns::FcntlValue => structs::write_fcntl_result(out, call, value),
        },
    };
}

#[cfg(test)]
mod tests;
