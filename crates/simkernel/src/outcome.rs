//! How a system call's handler ends when it does not end with a value.

use guest::Fault;
use linux_abi::Errno;

/// What a handler returns: the value for `rax`, or one of the other ends.
pub type SysResult = Result<u64, Outcome>;

/// The ends of a handler other than a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The call fails with this error.
    Errno(Errno),
    /// The thread waits for what the handler registered through [`crate::Ctx`]; the call is executed again from its start when
    /// one of these notifies.
    Block,
    /// A signal ended the wait. What the guest sees depends on the signal's disposition.
    Restart(Restart),
    /// The thread's registers are already what they shall be, or the thread is no more (`exit`, `execve`, `rt_sigreturn`).
    NoReturn,
}

/// What an interrupted call does after its signal, with the names of Linux's internal codes (linux/errno.h).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Restart {
    /// ERESTARTSYS: EINTR after a handler without SA_RESTART, executed again otherwise.
    Sys,
    /// ERESTARTNOINTR: always executed again.
    NoIntr,
    /// ERESTARTNOHAND: EINTR after any handler, executed again when none ran.
    NoHand,
    /// EINTR in any case. Unlike an error, it leaves the mask that a call has for its own duration
    /// until signals are delivered.
    Never,
    /// ERESTART_RESTARTBLOCK: as `NoHand`, and goes on with the deadline that it had.
    Block,
}

impl From<Errno> for Outcome {
    fn from(errno: Errno) -> Self {
        Outcome::Errno(errno)
    }
}

impl From<Fault> for Outcome {
    fn from(_: Fault) -> Self {
        Outcome::Errno(Errno::EFAULT)
    }
}
