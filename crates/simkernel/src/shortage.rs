//! When the machine's memory runs out: what guests ask beyond is refused, and one that takes most of it by touching what it has
//! is killed, as Linux would do, before the machine kills the whole run.

use crate::ctx::Ctx;
use crate::process::ExitStatus;
use base::Cause;
use guest::Shortage;
use linux_abi::{Errno, Signal, nr};

impl Ctx<'_> {
    /// Whether the calling process may map so many bytes more that it can write; `reserved`: it knows that there may be fewer
    /// (MAP_NORESERVE). ENOMEM, and a report for each program, when the machine has no memory left.
    pub(crate) fn demand_growth(&mut self, bytes: u64, reserved: bool) -> Result<(), Errno> {
        if guest::for_growth(bytes, reserved) {
            return Ok(());
        }
        if guest::shortage() != Shortage::None && self.process.reported.insert(nr::mmap.into()) {
            self.interfered(Cause::Memory, "more memory");
            self.report("the machine's memory is used up: more is refused to it (ENOMEM)".to_owned());
        }
        Err(Errno::ENOMEM)
    }

    /// Ends the calling process if memory is used up and most of what the simulator has is its own.
    #[cold]
    pub(crate) fn memory_is_used_up(&mut self) -> bool {
        if guest::shortage() != Shortage::Here || !self.process.memory.takes_most() {
            return false;
        }
        self.report("killed, since the machine's memory is used up and this program has taken most of it".to_owned());
        self.interfered(Cause::Memory, "the memory that it had");
        self.process.ending = Some(ExitStatus::Signaled(Signal::SIGKILL.raw()));
        true
    }
}
