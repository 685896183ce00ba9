//! What the kernel tells the record of the run (`probes`): which call of which thread moves bytes, and who wakes whom. Only where all is recorded.

use crate::ctx::Ctx;
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use linux_abi::nr;
use probes::choices::{Call, WokenBy};
use probes::trace::Caller;

/// By whose doing threads are woken now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waker {
    by: WokenBy,
    /// A packet's number, or a thread's.
    source: u64,
}

impl Default for Waker {
    fn default() -> Self {
        Waker { by: WokenBy::Start, source: 0 }
    }
}

fn call_of(number: u32) -> Option<Call> {
    Some(match number {
        nr::write => Call::Write,
        nr::writev => Call::Writev,
        nr::sendto => Call::Send,
        nr::sendmsg => Call::Sendmsg,
        nr::sendmmsg => Call::Sendmmsg,
        nr::sendfile => Call::Sendfile,
        nr::splice => Call::Splice,
        nr::read => Call::Read,
        nr::readv => Call::Readv,
        nr::recvfrom => Call::Recv,
        nr::recvmsg => Call::Recvmsg,
        nr::recvmmsg => Call::Recvmmsg,
        _ => return None,
    })
}

impl Ctx<'_> {
    /// A call begins, or is executed again.
    pub(crate) fn note_call(&mut self, number: u64, args: [u64; 6]) {
        let outer_id = |id| u64::from(self.kernel.outer_id(id));
        let (pid, tid) = (outer_id(self.process.pid.0), outer_id(self.thread.tid.0));
        let number = number as u32;
        let by = match number {
            nr::futex => WokenBy::Futex,
            nr::kill | nr::tkill | nr::tgkill | nr::rt_sigqueueinfo | nr::rt_tgsigqueueinfo => WokenBy::Signal,
            _ => WokenBy::Thread,
        };
        self.kernel.waker = Waker { by, source: tid };
        // With a time of zero nobody waits, and what was read before is still being dealt with.
        let looks = match number {
            nr::epoll_wait | nr::epoll_pwait => args[3] as i32 != 0,
            nr::poll => args[2] as i32 != 0,
            nr::epoll_pwait2 => self.may_wait(args[3]),
            nr::ppoll => self.may_wait(args[2]),
            nr::select | nr::pselect6 => self.may_wait(args[4]),
            _ => false,
        };
        let call = call_of(number);
        let address = if call.is_some() { self.address_of(number, args) } else { 0 };
        let Some(trace) = self.kernel.net.stack.trace() else { return };
        if looks {
            trace.looks_around(tid);
        }
        let wake = trace.wake_of(tid);
        trace.set_caller(Some(Caller { pid, tid, call: call.unwrap_or(Call::Other), address, wake }));
    }

    /// Whether a `struct timespec` or `timeval` is anything but zero, or not there.
    fn may_wait(&self, address: u64) -> bool {
        address == 0 || self.process.memory.read_value::<[u64; 2]>(address) != Ok([0, 0])
    }

    /// Where the first byte of a call lies.
    fn address_of(&self, number: u32, args: [u64; 6]) -> u64 {
        // iov_base of the first `struct iovec`, whose array a `struct msghdr` names in its third word.
        let word = |address: u64| self.process.memory.read_value::<u64>(address).unwrap_or(0);
        match number {
            nr::readv | nr::writev => word(args[1]),
            nr::sendmsg | nr::recvmsg | nr::sendmmsg | nr::recvmmsg => word(word(args[1] + 16)),
            nr::sendfile | nr::splice => 0,
            _ => args[1],
        }
    }
}

impl Kernel {
    /// All that programs do is recorded.
    pub fn record_calls(&mut self) {
        self.watches_calls = true;
        self.records_calls = true;
    }

    /// A program has named what its thread is about.
    pub(crate) fn note_mark(&mut self, label: &[u8]) {
        let now = self.now;
        let text = String::from_utf8_lossy(label.trim_ascii_end());
        if let Some(trace) = self.net.stack.trace() {
            trace.mark(now, &text);
        }
    }

    /// A thread is no more, and without one more its process.
    pub(crate) fn note_end(&mut self, pid: Pid, tid: Option<Tid>) {
        if !self.records_calls {
            return;
        }
        let (pid, tid) = (self.outer_id(pid.0), tid.map(|tid| self.outer_id(tid.0)));
        if let Some(trace) = self.net.stack.trace() {
            match tid {
                Some(tid) => trace.thread_ended(tid.into()),
                None => trace.process_ended(pid.into()),
            }
        }
    }

    /// Until [`Kernel::resume_doing`] all is the simulator's own doing, such as an answer to a question for names; gives who did it before.
    pub(crate) fn note_own_doing(&mut self) -> Option<Caller> {
        if !self.records_calls {
            return None;
        }
        self.net.stack.trace().map(|trace| trace.swap_caller(Caller::default()))
    }

    pub(crate) fn resume_doing(&mut self, caller: Option<Caller>) {
        if let (Some(caller), Some(trace)) = (caller, self.net.stack.trace()) {
            trace.swap_caller(caller);
        }
    }

    /// A thread that waited goes on.
    pub(crate) fn note_wake(&mut self, tid: Tid) {
        let (now, Waker { by, source }) = (self.now, self.waker);
        let tid = self.outer_id(tid.0);
        if let Some(trace) = self.net.stack.trace() {
            trace.woken(now, tid.into(), by, source);
        }
    }

    /// Threads that are woken from now on are so by a packet; gives what was before.
    pub(crate) fn wakes_by_packet(&mut self) -> Waker {
        let source = self.net.stack.trace().map_or(0, |trace| trace.last_arrival());
        std::mem::replace(&mut self.waker, Waker { by: WokenBy::Packet, source })
    }

    pub(crate) fn wakes_by_timer(&mut self) {
        self.waker = Waker { by: WokenBy::Timer, source: 0 };
    }

    /// The same thread as before, by a pipe.
    pub(crate) fn wakes_by_pipe(&mut self) -> Waker {
        let Waker { source, .. } = self.waker;
        std::mem::replace(&mut self.waker, Waker { by: WokenBy::Pipe, source })
    }
}
