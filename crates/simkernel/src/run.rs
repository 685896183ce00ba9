//! Executing threads: from a vcpu's exits to system calls and signals, and back, until nothing on the host can go on.

use crate::computing::FIRST_TICKS;
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::host::CallCost;
use crate::ids::{Pid, Tid};
use crate::kernel::{Kernel, Report};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::process::{ExitRecord, ExitStatus, Process};
use crate::profiling::Doing;
use crate::shared::{Key, Memory, Space};
use crate::signal_delivery;
use crate::spree::Spree;
use crate::syscalls;
use crate::thread::{Thread, ThreadState};
use crate::wait::Wake;
use base::{SimDuration, SimTime};
use guest::{CLOCK_CALLS, Exit, FaultInfo, Worker, are_fixed_programs};
use linux_abi::nr;
use linux_abi::signal::Signal;
use linux_abi::sysinfo::RLIMIT_STACK;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Copies of loopback packets that may gather before the host records them.
const LOOPBACK_SEEN_MAX: usize = 1024;

/// How long what a thread sends may wait for it to go on calling, when calls take time.
pub(crate) const SENDING_DELAY: SimDuration = SimDuration::from_micros(10);

/// Whether a guest has come back for something else than to compute on, or a call.
fn ends_row(exit: &Exit) -> bool {
    !matches!(exit, Exit::Syscall | Exit::Fault(_) | Exit::Preempted { .. } | Exit::Sampled)
}

/// What a thread does after its turn.
pub(crate) enum Turn {
    /// Blocked, or to sleep until the moment that its call's deadline says.
    Parked,
    /// In a loop in which it rested already, without having run.
    StillSpins,
    /// At the end of the queue.
    Again,
    /// It, or its process, is no more.
    Over,
}

impl Kernel {
    /// Executes runnable threads until none is left, or many loopback packets wait to be recorded. Simulated time stands still
    /// meanwhile, unless calls take time: then it moves, to the returned moment, at which packets leave and all else goes on.
    ///
    /// None when the next thread needs the fixed addresses that another worker holds: the same is to be called again, before anything else
    /// happens on the host, by a worker that has them ([`Worker::take_fixed`]).
    pub fn run_threads(&mut self, worker: &mut Worker, now: SimTime, until: SimTime) -> Option<SimTime> {
        let mut next = if std::mem::take(&mut self.waits_for_fixed) {
            self.runnable.pop_front()
        } else {
            self.set_now(now);
            self.until = until;
            if self.moment.at != now {
                self.moment.move_to(now);
            }
            self.next_thread()
        };
        while let Some(tid) = next {
            if are_fixed_programs() && self.needs_fixed(tid) {
                self.used_fixed = true;
                if !worker.take_fixed() {
                    self.runnable.push_front(tid);
                    self.waits_for_fixed = true;
                    return None;
                }
            }
            self.turns += 1;
            let ran = self.run_thread(tid, worker, self.now);
            if let Some(space) = ran.filter(|_| !self.spinners.is_empty()) {
                self.rouse_spinners(tid, space);
            }
            next = self.next_thread();
            if self.net.stack.loopback_seen() >= LOOPBACK_SEEN_MAX {
                next.into_iter().for_each(|tid| self.runnable.push_front(tid));
                break;
            }
        }
        worker.leave_to_sleepers();
        Some(self.now)
    }

    /// Whether a thread's program is one at fixed addresses.
    fn needs_fixed(&self, tid: Tid) -> bool {
        let Some(process) = self.threads.get(tid.0).and_then(|thread| self.processes.get(thread.pid.0)) else {
            return false;
        };
        self.shared
            .spaces
            .get(process.space)
            .is_some_and(|space| space.as_ref().is_some_and(|space| space.needs_fixed()))
    }

    /// When something happens on this host that its threads may notice.
    pub(crate) fn next_interruption(&self) -> SimTime {
        let own = [self.next_timer(), self.net.stack.next_deadline()];
        own.into_iter().flatten().fold(self.until, SimTime::min)
    }

    /// Where the thread has executed, if it has.
    fn run_thread(&mut self, tid: Tid, worker: &mut Worker, now: SimTime) -> Option<Key<Space>> {
        self.give_turn(tid, worker, now, |ctx, worker| ctx.turn(worker))
    }

    /// Lets a thread have a turn, if it can: where it has executed.
    pub(crate) fn give_turn(
        &mut self,
        tid: Tid,
        worker: &mut Worker,
        now: SimTime,
        take: impl FnOnce(&mut Ctx<'_>, &mut Worker) -> Turn,
    ) -> Option<Key<Space>> {
        let mut thread = self.threads.take(tid.0)?;
        if thread.state != ThreadState::Runnable {
            // The entry was for a thread that ended, whose number this one got by execve.
            self.threads.put(tid.0, thread);
            return None;
        }
        let pid = thread.pid;
        let mut process = self.processes.take(pid.0)?;
        if process.job.stopped.is_some() {
            process.job.held.push(tid);
            self.processors.release(&mut thread.placement);
            self.threads.put(tid.0, thread);
            self.processes.put(pid.0, process);
            return None;
        }
        let space = process.space;
        worker.set_serving(self.config.id.0, self.outer_id(pid.0), self.outer_id(tid.0));
        self.executing = Some((pid, tid));
        thread.placement.computes = false;
        process.memory = Memory(self.shared.spaces[process.space].take());
        process.memory.enter(worker);
        if process.job.tells_continuation {
            self.tell_continuation(&mut process);
        }
        let mut ctx = Ctx { kernel: self, process: &mut process, thread: &mut thread, now };
        if worker.has_samples() {
            ctx.note_samples(worker, Doing::Switch);
        }
        if ctx.kernel.config.debug.is_some() {
            ctx.debug_before_turn();
        }
        let turn = match catch_unwind(AssertUnwindSafe(|| take(&mut ctx, worker))) {
            Ok(turn) => turn,
            Err(payload) => ctx.fail(payload),
        };
        if ctx.kernel.config.debug.is_some() {
            if matches!(turn, Turn::Parked | Turn::StillSpins) {
                ctx.thread.state = ThreadState::Blocked;
            }
            ctx.debug_after_turn();
        }
        if worker.has_samples() {
            let doing = ctx.last_call();
            ctx.note_samples(worker, doing);
        }
        let now = ctx.now;
        let stood_still = matches!(turn, Turn::StillSpins);
        self.finish_turn(process, thread, turn, now);
        (!stood_still).then_some(space)
    }

    /// What becomes of a thread after its turn, and of its process.
    fn finish_turn(&mut self, mut process: Box<Process>, mut thread: Box<Thread>, turn: Turn, now: SimTime) {
        self.executing = None;
        if let Some(status) = process.ending {
            self.processors.release(&mut thread.placement);
            self.end_process(process, thread, status, now);
            return;
        }
        self.processors.end_turn(&mut thread.placement);
        match turn {
            Turn::Parked | Turn::StillSpins => thread.state = ThreadState::Blocked,
            Turn::Again => {
                thread.state = ThreadState::Runnable;
                self.runnable.push_back(thread.tid);
            }
            Turn::Over => {}
        }
        if !matches!(turn, Turn::Over) {
            self.threads.put(thread.tid.0, thread);
        }
        self.shared.spaces[process.space] = process.memory.0.take();
        self.processes.put(process.pid.0, process);
    }

    /// The last thread is gone, `exit_group` was called, or a signal was fatal.
    pub(crate) fn end_process(
        &mut self,
        mut process: Box<Process>,
        mut thread: Box<Thread>,
        status: ExitStatus,
        now: SimTime,
    ) {
        let mut ctx = Ctx { kernel: self, process: &mut process, thread: &mut thread, now };
        ctx.end_other_threads();
        ctx.note_end_of_main();
        if ctx.thread.state != ThreadState::Dead {
            ctx.leave_memory();
            ctx.kernel.tasks -= 1;
        }
        ctx.kernel.forget_waits(ctx.thread);
        ctx.release_held();
        process.threads.clear();
        self.undo_semaphores(process.pid, now);
        self.release_vfork_waiter(&mut process);
        self.release_parts(&mut process);
        if let Some(trace) = process.trace.take() {
            self.release_file(trace.file);
        }
        self.leave_terminal(&mut process, true);
        self.own_signals.clear();
        let pid = process.pid;
        // Who waits for it follows from what it read.
        self.conclude_process(process, status);
        self.note_end(pid, Some(thread.tid));
        self.note_end(pid, None);
    }
}

impl Ctx<'_> {
    /// Runs the calling thread until it waits, yields or ends.
    fn turn(&mut self, worker: &mut Worker) -> Turn {
        let turn = self.run_on(worker);
        self.end_slice();
        turn
    }

    fn run_on(&mut self, worker: &mut Worker) -> Turn {
        let spree = std::mem::replace(&mut self.thread.spree, Spree::of_thread());
        let before = self.kernel.moment.spree.calls;
        // The number of calls on the host at which time has to pass.
        let limit = before + spree.left().min(self.kernel.moment.spree.left());
        let began = self.now;
        if let Some(turn) = self.go_on(worker) {
            return turn;
        }
        if worker.has_samples() {
            let doing = self.last_call();
            self.note_samples(worker, doing);
        }
        loop {
            self.show_clocks(worker, limit);
            let exit = self.run_guest(worker);
            if matches!(exit, Exit::Fault(_) | Exit::LostGs(_) | Exit::Preempted { .. }) {
                self.process.memory.settle(&mut self.thread.vcpu, worker);
            }
            if self.thread.computing.is_under_way()
                && let Some(turn) = self.settle_computing(worker, &exit, began)
            {
                return turn;
            }
            if ends_row(&exit) && self.thread.clock_reads.is_row() {
                self.end_row();
            }
            match exit {
                Exit::Syscall => {
                    self.kernel.moment.spree.calls += 1;
                    if let Some(site) = worker.take_missed_site() {
                        self.note_miss(site);
                    }
                    let r = self.thread.vcpu.registers();
                    // Linux looks at no more of it.
                    let (number, args) = (u64::from(r.rax as u32), [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]);
                    if let Some(turn) = self.note_reads(number) {
                        return turn;
                    }
                    if let Some(turn) = self.system_call(number, args).or_else(|| self.charge_call(number, began)) {
                        return turn;
                    }
                    if number == u64::from(nr::execve) || number == u64::from(nr::execveat) {
                        // New memory, or the old one that a program which could not be started had to give way to.
                        self.process.memory.enter(worker);
                    }
                }
                Exit::Fault(fault) if fault.signal == Signal::SIGSEGV.raw() && self.opens(fault.address) => {}
                Exit::Fault(fault) if self.begins_code(&fault) => {}
                Exit::Fault(fault) => {
                    self.kernel.moment.spree.calls += 1;
                    self.process.memory.met_fault();
                    self.end_row();
                    self.fault(&fault);
                    if self.process.ending.is_some() {
                        return Turn::Over;
                    }
                }
                Exit::Emulate => {
                    self.kernel.moment.spree.calls += 1;
                    if let Err(fault) = self.process.memory.emulate(&mut self.thread.vcpu) {
                        signal_delivery::fault(self, &fault);
                    }
                    if self.process.ending.is_some() {
                        return Turn::Over;
                    }
                }
                Exit::TrappedCpuid => {
                    self.kernel.moment.spree.calls += 1;
                    self.process.memory.tame_code(self.thread.vcpu.registers().rip);
                }
                Exit::LostGs(fault) => {
                    self.kernel.moment.spree.calls += 1;
                    if fault.signal != 0 && !self.process.memory.is_in_sled(self.thread.vcpu.registers().rip) {
                        self.fault(&fault);
                    }
                    if self.process.ending.is_some() {
                        return Turn::Over;
                    }
                }
                Exit::Vsyscall { number } => {
                    self.kernel.moment.spree.calls += 1;
                    if let Some(turn) = self.vsyscall(number).or_else(|| self.charge_call(number, began)) {
                        return turn;
                    }
                }
                Exit::ReadTsc if self.thread.tsc_faults => {
                    signal_delivery::general_protection(self);
                    if self.process.ending.is_some() {
                        return Turn::Over;
                    }
                }
                Exit::ReadTsc => {
                    self.kernel.moment.spree.calls += 1;
                    let stamp = self.kernel.time_stamp.read(self.uptime_nanos());
                    self.thread.vcpu.complete_tsc(stamp);
                    if let Some(turn) = self.charge_call(nr::clock_gettime.into(), began) {
                        return turn;
                    }
                }
                Exit::ReadRandom => {
                    self.kernel.moment.spree.calls += 1;
                    let value = self.kernel.random.next_u64();
                    self.thread.vcpu.complete_random(value);
                }
                // `run_guest` has let it go on.
                Exit::Sampled => {}
                Exit::Preempted { ticks } => {
                    if let Some(turn) = self.preempted(worker, ticks, began) {
                        return turn;
                    }
                }
            }
            if worker.has_samples() {
                let doing = self.done_after(&exit);
                self.note_samples(worker, doing);
            }
            if self.kernel.net.stack.loopback_seen() >= LOOPBACK_SEEN_MAX {
                return Turn::Again;
            }
            if worker.take_tick() {
                if worker.take_lost_gs() {
                    self.note_escape("loads of the GS register");
                }
                if self.process.ending.is_some() || self.memory_is_used_up() {
                    return Turn::Over;
                }
            }
            if self.kernel.moment.spree.calls >= limit && !self.kernel.time_moves() {
                return self.take_time(spree, before);
            }
        }
    }

    /// What a thread has to do before its program goes on. Some when that does not go on.
    #[inline]
    pub(crate) fn go_on(&mut self, worker: &mut Worker) -> Option<Turn> {
        if std::mem::take(&mut self.thread.sleeping) {
            // The nap of a thread that had made too many calls is over; its registers are as they were.
            self.thread.wake = Wake::First;
            self.end_nap();
        }
        self.show_processor();
        if self.thread.spin.is_some()
            && let Some(turn) = self.look_again()
        {
            return Some(turn);
        }
        worker.set_patience(FIRST_TICKS);
        if self.thread.wake == Wake::First {
            // It is between two instructions of its program.
            let address = std::mem::take(&mut self.thread.set_child_tid);
            if address != 0 {
                // An address that is not there is the child's own loss, as on Linux.
                let _ = self.process.memory.write_value(address, &self.thread.tid.0);
            }
            let interrupted = self.thread.interrupted.take();
            if let Some(turn) = self.deliver_if_any(interrupted) {
                return Some(turn);
            }
        } else if let Some(turn) = self.system_call(self.thread.call.number, self.thread.call.args) {
            // A woken thread executes its call again.
            return Some(turn);
        }
        None
    }

    /// Executes the guest until it needs the kernel, or has computed for some time.
    #[inline(always)]
    fn run_guest(&mut self, worker: &mut Worker) -> Exit {
        let exit = if self.process.spins_expected == 0 && !self.kernel.watches_intervals {
            match self.thread.vcpu.run(worker) {
                Exit::Sampled => self.go_on_after_samples(worker),
                exit => exit,
            }
        } else {
            self.run_watched(worker)
        };
        if let Some(looks) = worker.take_looks() {
            self.count_looks(looks);
        }
        exit
    }

    /// Calls that take no time have become so many that time has to pass, in a row of this thread or on the whole host. `before` calls of
    /// the moment were before the turn.
    #[cold]
    fn take_time(&mut self, mut spree: Spree, before: u64) -> Turn {
        let moment = &mut self.kernel.moment;
        spree.calls += moment.spree.calls - before;
        let time = if spree.left() == 0 { spree.charge() } else { moment.charge(self.now) };
        self.thread.spree = spree;
        self.nap(time)
    }

    /// Lets the door answer reads of clocks, as far as nothing else happens meanwhile: until the host has made `limit` calls.
    fn show_clocks(&mut self, worker: &mut Worker, limit: u64) {
        worker.set_clocks(self.real_time(), self.uptime_nanos());
        // Logs of calls name every one.
        let logged = self.process.trace.is_some();
        let (looks, cost, spare) = match self.kernel.config.call_cost {
            // Where computing takes time, each look sees another one; where intervals between calls are looked at, each ends one.
            _ if logged || self.kernel.watches_intervals => (0, 0, 0),
            // The turn's last call is an exit in any case, after which the turn can end.
            None => {
                let calls = limit.saturating_sub(self.kernel.moment.spree.calls + 1) as u32;
                (calls.min(self.thread.clock_reads.free()), 0, 0)
            }
            // Each takes its time while others execute.
            Some(_) if self.kernel.shares_time(&self.thread.placement, self.now) => (0, 0, 0),
            // No loop is looked for: time passes in it.
            Some(cost) => {
                let free = self.kernel.next_interruption().saturating_since(self.now).as_nanos().saturating_sub(1);
                (u32::MAX, cost.look.as_nanos(), free)
            }
        };
        worker.set_looks(looks, cost, spare);
    }

    /// Counts reads of clocks that the door answered.
    fn count_looks(&mut self, looks: [(u64, u64); 3]) {
        let mut sum = 0;
        for (number, times) in looks {
            self.kernel.call_counts[number as usize] += times;
            sum += times;
        }
        self.process.calls += sum;
        self.kernel.moment.spree.calls += sum;
        if let Some(cost) = self.kernel.config.call_cost {
            self.now += cost.look.saturating_mul(sum);
            self.kernel.set_now(self.now);
        } else {
            self.thread.clock_reads.answered(sum);
        }
    }

    /// Executes one call and decides what rax becomes. Some when the thread does not go on at once. Part of its caller, so that the
    /// arguments stay in registers: an array that is copied right after it was written holds up the processor.
    #[inline(always)]
    pub(crate) fn system_call(&mut self, number: u64, args: [u64; 6]) -> Option<Turn> {
        let result = match (self.process.trace, self.kernel.watches_calls) {
            (None, false) => syscalls::execute(self, number, args),
            _ => self.execute_watched(number, args),
        };
        if let Some(refusal) = crate::machine::take() {
            self.note_refusal(refusal, number, args);
        }
        let mut interrupted = None;
        match result {
            Ok(value) => self.thread.vcpu.registers_mut().rax = value,
            Err(Outcome::Errno(errno)) => self.thread.vcpu.registers_mut().rax = errno.to_return(),
            Err(Outcome::Block) => {
                self.thread.undisturbed_until = 0;
                self.process.memory.seal_startup();
                self.process.memory.rest();
                self.thread.yields_in_a_row = Spree::of_yields(self.thread.tid);
                if self.is_interrupted_by_itself() {
                    return Some(Turn::Again);
                }
                return Some(Turn::Parked);
            }
            Err(Outcome::Restart(kind)) => interrupted = Some(kind),
            Err(Outcome::NoReturn) => {}
        }
        if self.process.ending.is_some() || self.thread.state == ThreadState::Dead {
            return Some(Turn::Over);
        }
        if !self.kernel.own_signals.is_empty() {
            self.take_own_signals();
        }
        if let Some(turn) = self.deliver_if_any(interrupted) {
            return Some(turn);
        }
        if !self.thread.yields && !self.thread.gives_way {
            return None;
        }
        if std::mem::take(&mut self.thread.yields) {
            self.thread.yields_in_a_row.calls += 1;
            // Where nobody else can run, more of them would find nothing new until time passes.
            let yields = &mut self.thread.yields_in_a_row;
            if yields.left() == 0 || (yields.owes() && !self.kernel.others_can_run()) {
                let time = yields.charge_ahead();
                return Some(self.nap(time));
            }
            return Some(Turn::Again);
        }
        self.thread.gives_way = false;
        Some(Turn::Again)
    }

    /// A call that has to wait has caused a signal to its own process, which ends the wait.
    fn is_interrupted_by_itself(&mut self) -> bool {
        if self.kernel.own_signals.is_empty() {
            return false;
        }
        self.take_own_signals();
        if !self.signal_pending() {
            return false;
        }
        self.kernel.forget_waits(self.thread);
        self.thread.wake = Wake::Interrupted;
        true
    }

    /// Executes a call of a process that has a log, or on a host that a debugger looks at or whose calls are recorded.
    #[cold]
    fn execute_watched(&mut self, number: u64, args: [u64; 6]) -> SysResult {
        if self.kernel.records_calls {
            self.note_call(number, args);
        }
        let result = match self.process.trace {
            None => syscalls::execute(self, number, args),
            Some(_) => self.execute_traced(number, args),
        };
        if self.kernel.intervals.is_some() && result != Err(Outcome::Block) {
            self.begin_interval(number, result.as_ref().ok().copied());
        }
        if self.kernel.config.debug.is_some() && !matches!(result, Err(Outcome::Block | Outcome::Errno(_))) {
            self.debug_after_call(number);
        }
        result
    }

    fn execute_traced(&mut self, number: u64, args: [u64; 6]) -> SysResult {
        let line = self.trace_before(number, args);
        let result = syscalls::execute(self, number, args);
        match line.filter(|_| result == Err(Outcome::NoReturn)) {
            Some(line) => self.trace_success(&line),
            None => self.trace(number, args, &result),
        }
        result
    }

    /// Gives signals their effect. Some when the thread does not go on.
    #[inline(always)]
    fn deliver_if_any(&mut self, interrupted: Option<Restart>) -> Option<Turn> {
        if interrupted.is_some() || self.thread.signals.saved_mask.is_some() || self.signal_pending() {
            signal_delivery::deliver(self, interrupted);
            if self.process.ending.is_some() {
                return Some(Turn::Over);
            }
            if self.process.job.stopped.is_some() {
                return Some(Turn::Again);
            }
        }
        None
    }

    /// Whether memory is there now for a thread that touched it: it was left closed until then, or it grows downwards.
    fn opens(&mut self, address: u64) -> bool {
        let limit = self.process.limits.soft(RLIMIT_STACK);
        let memory = &mut self.process.memory;
        memory.open_touched(address) || memory.grow_down(address, limit)
    }

    /// Whether a fault is the first execution of code that the program has made itself, which can be executed now.
    fn begins_code(&mut self, fault: &FaultInfo) -> bool {
        if !self.process.memory.waits_for_execution(fault) {
            return false;
        }
        self.process.memory.prepare_code(fault.address, self.thread.vcpu.registers().rip);
        let begins = self.process.memory.allow_execution(fault.address);
        self.look_at_begun_code(fault.address);
        begins
    }

    /// Counts a system call that no rewriting covered, by the place in its file.
    #[cold]
    pub(crate) fn note_miss(&mut self, site: u64) {
        let memory = &self.process.memory;
        let label = || {
            let mapping = memory.mappings().find(|vma| vma.start < site && site <= vma.end);
            let file = mapping.map(|vma| (memory.mapping_name(vma), memory.image_start(site).unwrap_or(vma.start)));
            match file {
                Some((name, start)) if !name.is_empty() => {
                    format!("{}+{:#x}", String::from_utf8_lossy(name), site - start)
                }
                _ => "generated code".to_owned(),
            }
        };
        self.kernel.missed_sites.entry((self.process.pid, site)).or_insert_with(|| (label(), 0)).1 += 1;
    }

    /// The time that a call takes, when the experiment models it (`model_unblocked_syscall_latency`), in a turn that began at `began`.
    /// The clock moves on; the thread gives way when something else happens on the host before, and lets what it has sent leave.
    #[inline(always)]
    fn charge_call(&mut self, number: u64, began: SimTime) -> Option<Turn> {
        let cost = self.kernel.config.call_cost?;
        self.charge_cost(cost, number, began)
    }

    #[inline(never)]
    fn charge_cost(&mut self, cost: CallCost, number: u64, began: SimTime) -> Option<Turn> {
        let is_look = CLOCK_CALLS.contains(&number);
        let time = if is_look { cost.look } else { cost.each };
        let waits_to_leave =
            !is_look && self.now.saturating_since(began) >= SENDING_DELAY && self.kernel.net.stack.wants_transmit();
        let shares = self.kernel.shares_time(&self.thread.placement, self.now);
        if waits_to_leave || shares || self.now + time >= self.kernel.next_interruption() {
            return Some(self.compute_for(time));
        }
        self.now += time;
        self.kernel.set_now(self.now);
        None
    }

    /// Lets time pass for this thread without a call that waits.
    pub(crate) fn nap(&mut self, time: SimDuration) -> Turn {
        let deadline = self.now + time;
        self.thread.sleeping = true;
        self.thread.call.deadline = Some(deadline);
        self.thread.wait.deadline = true;
        crate::kernel::arm(&mut self.kernel.timers, self.thread, deadline);
        Turn::Parked
    }

    /// The machine had a say in what the calling program gets: the run cannot be called reproducible.
    pub(crate) fn interfered(&mut self, cause: base::Cause, what: &str) {
        let (process, host) = (&*self.process, &self.kernel.config.name);
        let number = self.kernel.outer_id(process.pid.0);
        let whole = || format!("{host}: {} ({number}): {what}", process.program_name());
        self.kernel.interferences.note(cause, whole);
    }

    /// A remark about the calling program, for the run's log.
    pub(crate) fn report(&mut self, message: String) {
        self.kernel.reports.push(Report { pid: self.process.pid, program: self.process.program_name(), message });
    }

    /// Ends the calling thread; with the last one its process.
    pub(crate) fn end_thread(&mut self, status: i32) {
        self.leave_memory();
        self.kernel.tasks -= 1;
        self.thread.state = ThreadState::Dead;
        let tid = self.thread.tid;
        self.note_end_of_main();
        // Those that began first mostly end first.
        if let Some(index) = self.process.threads.iter().position(|other| *other == tid) {
            self.process.threads.remove(index);
        }
        if self.process.threads.is_empty() {
            self.process.ending = Some(ExitStatus::Exited(status & 0xff));
        } else {
            self.kernel.note_end(self.process.pid, Some(tid));
        }
    }

    /// What others may still ask of the main thread.
    fn note_end_of_main(&mut self) {
        if self.thread.tid == self.process.pid.main_thread() {
            self.process.nice_at_end = self.thread.nice;
        }
    }

    /// What a thread that ends leaves in its memory: robust mutexes as orphaned, 0 where CLONE_CHILD_CLEARTID said.
    pub(crate) fn leave_memory(&mut self) {
        if let Some(tid) = self.thread.vfork_waiter.take() {
            self.kernel.wake(tid, Wake::Ready);
        }
        self.note_gs();
        self.release_own_parts();
        self.release_robust_list();
        self.release_locks();
        let address = std::mem::take(&mut self.thread.clear_child_tid);
        if address != 0 && self.process.memory.write_value(address, &0u32).is_ok() {
            self.wake_futex(address, 1);
        }
    }

    /// Ends every thread of the process but the calling one.
    pub(crate) fn end_other_threads(&mut self) {
        let own = self.thread.tid;
        for tid in std::mem::take(&mut self.process.threads) {
            if tid != own
                && let Some(mut thread) = self.kernel.threads.take(tid.0)
            {
                self.kernel.forget_waits(&mut thread);
                self.kernel.release_held(&mut thread);
                self.kernel.processors.release(&mut thread.placement);
                self.kernel.tasks -= 1;
                let mut ended = Ctx { kernel: self.kernel, process: self.process, thread: &mut thread, now: self.now };
                ended.note_end_of_main();
                ended.leave_memory();
                ended.kernel.note_end(ended.process.pid, Some(tid));
            }
        }
        self.process.threads.push(own);
    }
}

impl Kernel {
    /// The state of a process that ended, in the order of ending, since last asked.
    pub fn take_exits(&mut self) -> Vec<ExitRecord> {
        std::mem::take(&mut self.exits)
    }

    /// Whether a process lives. The one whose turn it is is not in the table.
    pub fn is_alive(&self, pid: Pid) -> bool {
        match self.processes.get(pid.0) {
            Some(process) => process.zombie.is_none(),
            None => pid == INIT || self.executing.is_some_and(|(executing, _)| executing == pid),
        }
    }
}
