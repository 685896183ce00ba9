//! Processes without programs: their threads make the calls that somebody else chooses, with everything that calls bring with them (waits,
//! signals, stops, new threads and processes, ends) and without a guest's code. For the fuzzer.

use crate::ctx::Ctx;
use crate::files::{FileKind, OpenFile};
use crate::ids::{Pid, Tid};
use crate::kernel::Kernel;
use crate::process::{ExitStatus, Process};
use crate::run::Turn;
use crate::shared::Place;
use crate::thread::{Thread, ThreadState};
use crate::vfs::synthetic::Device;
use crate::wait::Wake;
use base::SimTime;
use guest::{AddressSpace, Worker};
use linux_abi::fs::O_RDWR;
use linux_abi::signal::Signal;
use linux_abi::strace::{Call, Mode, write_call};

impl Kernel {
    /// A process of root's with a stack, and `/dev/null` for descriptors 0 to 2: its thread. None when the host has no room.
    pub fn start_by_hand(&mut self, working_directory: &[u8], now: SimTime) -> Option<Tid> {
        let memory = AddressSpace::new(&mut self.region)?;
        let pid = Pid(self.new_id());
        let place = Place { cwd: working_directory.to_vec(), ..Place::default() };
        let mut process = self.new_process(pid, memory, place, now);
        process.exe = b"/bin/hand".to_vec();
        process.has_execed = true;
        for fd in 0..3 {
            let null = self.files.insert(OpenFile::new(FileKind::Device(Device::Null), O_RDWR));
            self.shared.fds[process.fds].replace(fd, null, false);
        }
        let mut thread = Thread::new(pid.main_thread(), pid);
        thread.name = b"hand".to_vec();
        let tid = thread.tid;
        self.start_process(process, thread);
        Some(tid)
    }

    /// Lets a thread that can run do what it has to, and make one call: the one that it waited in, or the one that `choose` gives. `choose` may
    /// write the calling process's memory. The call is also decoded, as for a log.
    pub fn call_by_hand(
        &mut self,
        tid: Tid,
        worker: &mut Worker,
        now: SimTime,
        choose: impl FnOnce(&mut Ctx<'_>) -> (u64, [u64; 6]),
    ) {
        let Some(place) = self.runnable.iter().position(|runnable| *runnable == tid) else { return };
        self.runnable.remove(place);
        self.now = now;
        self.give_turn(tid, worker, now, |ctx, worker| {
            if let Some(turn) = ctx.go_on(worker) {
                return turn;
            }
            debug_assert!(ctx.thread.wake == Wake::First, "a call that is over leaves its thread fresh");
            let (number, args) = choose(ctx);
            let mut text = String::new();
            let memory = crate::trace::GuestMemory(&ctx.process.memory);
            write_call(&mut text, Call { number, args: &args, result: None }, Mode::Standard, &memory);
            let turn = ctx.system_call(number, args);
            ctx.process.memory.enter(worker);
            turn.unwrap_or(Turn::Again)
        });
        worker.leave();
    }

    /// Kills all processes, whatever they wait for.
    pub fn end_by_hand(&mut self, worker: &mut Worker, now: SimTime) {
        let living = |process: &&Process| process.zombie.is_none();
        let first = |kernel: &Kernel| {
            let process = kernel.processes.iter().find(living)?;
            Some((process.pid, process.threads[0]))
        };
        while let Some((pid, tid)) = first(self) {
            if let Some(mut process) = self.processes.take(pid.0) {
                self.continue_process(&mut process, false);
                self.processes.put(pid.0, process);
            }
            self.threads.get_mut(tid.0).expect("a living process has threads").state = ThreadState::Runnable;
            self.give_turn(tid, worker, now, |ctx, _| {
                ctx.process.ending = Some(ExitStatus::Signaled(Signal::SIGKILL.raw()));
                Turn::Over
            });
        }
        worker.leave();
    }
}
