//! System calls: the table of all of them, and one file of handlers per family.
//!
//! A handler is a function of the calling context and the six argument registers. It is executed from its start each time its
//! thread is woken, until it ends with something other than `Outcome::Block`.

mod access;
mod aio;
mod clone;
mod credentials;
mod descriptors;
mod futex;
mod futex2;
mod inotify;
mod locks;
mod memory;
mod memory_policy;
mod mqueue;
mod open;
mod other_process;
mod paths;
mod poll;
mod proc_memory;
mod proc_write;
pub(crate) mod process;
mod read_write;
mod refused;
mod removed;
mod resolve;
mod rseq;
mod scheduling;
mod seccomp;
mod signals;
mod sockets;
mod splice;
mod stat;
pub(crate) mod system;
mod sysv_msg;
mod sysv_sem;
mod sysv_shm;
pub mod table;
mod time;
mod wait;
mod xattr;

pub(crate) use clone::open_pidfd;
pub use mqueue::OpenQueue;
pub use rseq::Area;

use crate::ctx::Ctx;
use crate::kernel::Report;
use crate::outcome::{Outcome, SysResult};
use crate::process::ExitStatus;
use crate::thread::{PendingCall, ThreadState};
use crate::wait::Wake;
use linux_abi::{Errno, Signal, nr};
pub(crate) use read_write::finish_partial;

/// A system call's implementation.
pub type Handler = fn(&mut Ctx<'_>, [u64; 6]) -> SysResult;

/// Executes a thread's call, for the first time (`thread.wake` is `First`) or again after a wake. On `Outcome::Block` the thread is
/// marked blocked; the caller puts it back into its table and executes the same call again once it is in `runnable`.
///
/// Inlined, so that arguments come in registers: in memory they would be written in eights and read in sixteens of bytes, for which processors wait.
#[inline(always)]
pub fn execute(ctx: &mut Ctx<'_>, number: u64, args: [u64; 6]) -> SysResult {
    let index = usize::try_from(number).unwrap_or(usize::MAX).min(nr::COUNT - 1);
    if ctx.thread.wake == Wake::First {
        ctx.thread.call = PendingCall { number, args, started: ctx.now, deadline: None, progress: 0 };
        ctx.thread.recent.begin(number, args, ctx.now);
        ctx.kernel.call_counts[index] += 1;
        ctx.process.calls += 1;
        if ctx.process.cpu_timer_is_due() {
            ctx.fire_cpu_timers();
        }
        if ctx.process.calls >= ctx.process.last_call {
            return kill(ctx);
        }
        if ctx.thread.seccomp.is_some()
            && let Some(result) = seccomp::judge(ctx, number, args)
        {
            return result;
        }
    }
    // Values go on one by one, for the same reason.
    match table::HANDLERS[index](ctx, args) {
        Ok(value) => {
            finish(ctx, &Ok(value));
            Ok(value)
        }
        Err(Outcome::Block) => {
            ctx.thread.state = ThreadState::Blocked;
            if ctx.thread.wake == Wake::First {
                let args = ctx.thread.call.args;
                ctx.hold_files(number, &args);
            }
            Err(Outcome::Block)
        }
        Err(end) => {
            finish(ctx, &Err(end));
            Err(end)
        }
    }
}

/// Notes that the calling thread's call is over.
#[inline(always)]
fn finish(ctx: &mut Ctx<'_>, result: &SysResult) {
    ctx.thread.wake = Wake::First;
    if !ctx.thread.held.is_empty() {
        ctx.release_held();
    }
    ctx.thread.recent.end(result);
}

/// Ends the calling process as the experiment's `kill_at_call` says.
#[cold]
fn kill(ctx: &mut Ctx<'_>) -> SysResult {
    ctx.report(format!("killed at its system call {}, as the experiment says", ctx.process.calls));
    ctx.process.ending = Some(ExitStatus::Signaled(Signal::SIGKILL.raw()));
    Err(Outcome::NoReturn)
}

/// Stands for every call that is not simulated: ENOSYS, and one report per program and call.
pub(crate) fn unsupported(ctx: &mut Ctx<'_>, _args: [u64; 6]) -> SysResult {
    let number = ctx.thread.call.number;
    *ctx.kernel.unsupported_calls.entry(number).or_default() += 1;
    if ctx.process.reported.insert(number) {
        let name = nr::name(number).map_or_else(|| format!("number {number}"), str::to_owned);
        let message = format!("system call {name} is not supported: it answered ENOSYS");
        ctx.kernel.reports.push(Report { pid: ctx.process.pid, program: ctx.process.program_name(), message });
    }
    Err(Errno::ENOSYS.into())
}
