//! Where guests come close to the real machine: traps at rewritten code, vsyscalls, and what no trap can keep from a guest, which is counted.
//! A run in which something was counted here may differ from the next one of the same plan, and says so.

use crate::ctx::Ctx;
use crate::ids::Tid;
use crate::kernel::{Kernel, Report};
use crate::process::Process;
use crate::run::Turn;
use crate::signal_delivery;
use base::Cause;
use guest::{AddressSpace, FaultInfo, MadeCode, PAGE, Passed};
use linux_abi::Errno;

impl Kernel {
    /// A process has reached something of the real machine, or may have: counted, and named in the log, once.
    #[cold]
    fn note_escape(&mut self, process: &mut Process, what: &'static str) {
        // Without a base of its own for GS no program makes such accesses: what looks like one is data beside its code.
        let what = match what {
            guest::SEEMING_ACCESS_BY_GS if !self.uses_gs(process) => return,
            guest::SEEMING_ACCESS_BY_GS => guest::ACCESS_BY_GS,
            what => what,
        };
        if process.escapes.insert(what) {
            *self.escapes.entry(what).or_default() += 1;
            let program = process.program_name();
            let number = self.outer_id(process.pid.0);
            let whole = || format!("{}: {program} ({number}): {what}", self.config.name);
            self.interferences.note(Cause::Escape, whole);
            let message = format!("{what}: it may have seen this machine, and the run is not reproducible to the bit");
            self.reports.push(Report { pid: process.pid, program, message });
        }
    }

    /// Whether a process has set a base of GS in any of its threads.
    fn uses_gs(&self, process: &Process) -> bool {
        let sets = |tid: &Tid| self.threads.get(tid.0).is_some_and(|thread| thread.vcpu.registers().gs_base() != 0);
        process.uses_gs || process.threads.iter().any(sets)
    }

    /// Looks at the code that a process has made itself, before its memory goes.
    pub(crate) fn look_at_all_code(&mut self, process: &mut Process, memory: &AddressSpace) {
        if process.makes_code {
            for what in memory.reaches_of_generated_code(0, u64::MAX, MadeCode::Changeable) {
                self.note_escape(process, what);
            }
        }
    }

    /// The same for all processes that live when the run ends.
    pub fn look_at_living_code(&mut self) {
        let makers: Vec<u32> =
            self.processes.iter().filter(|process| process.makes_code).map(|process| process.pid.0).collect();
        for pid in makers {
            let Some(mut process) = self.processes.take(pid) else { continue };
            if let Some(memory) = self.shared.spaces[process.space].take() {
                self.look_at_all_code(&mut process, &memory);
                self.shared.spaces[process.space] = Some(memory);
            }
            self.processes.put(pid, process);
        }
    }
}

impl Ctx<'_> {
    #[cold]
    pub(crate) fn note_escape(&mut self, what: &'static str) {
        self.note_gs();
        self.kernel.note_escape(self.process, what);
    }

    /// The base of GS is the program's from now on: what looked like an access by it before may be one.
    pub(crate) fn begin_to_use_gs(&mut self) {
        if !std::mem::replace(&mut self.process.uses_gs, true) && self.process.makes_code {
            self.look_at_range(0, u64::MAX, MadeCode::Any);
        }
    }

    /// Memory in [from, from + bytes) is given up, or loses rights: what it held may have been executed.
    pub(crate) fn look_at_code(&mut self, from: u64, bytes: u64) {
        if self.process.makes_code {
            self.look_at_range(from, bytes, MadeCode::Changeable);
        }
    }

    /// Memory in [from, from + bytes) has become executable.
    pub(crate) fn note_code(&mut self, from: u64, bytes: u64) {
        let memory = &self.process.memory;
        if memory.image_start(from).is_none() || memory.makes_code_in_images() {
            self.process.makes_code = true;
            self.look_at_range(from, bytes, MadeCode::Any);
        }
    }

    /// The page around an address is executed for the first time. One that can be written to is looked at later.
    pub(crate) fn look_at_begun_code(&mut self, address: u64) {
        self.process.makes_code = true;
        self.look_at_range(address & !(PAGE - 1), PAGE, MadeCode::Constant);
    }

    fn look_at_range(&mut self, from: u64, bytes: u64, code: MadeCode) {
        for what in self.process.memory.reaches_of_generated_code(from, from.saturating_add(bytes), code) {
            self.note_escape(what);
        }
    }

    /// The thread may have set the base of GS by an instruction.
    pub(crate) fn note_gs(&mut self) {
        self.process.uses_gs |= self.thread.vcpu.registers().gs_base() != 0;
    }

    /// A fault that is none where a trap was put in the program's way; otherwise the guest's own.
    pub(crate) fn fault(&mut self, fault: &FaultInfo) {
        match self.process.memory.pass_trap(&mut self.thread.vcpu, fault) {
            Passed::Entered { place } => self.note_miss(place),
            Passed::Emulated => {}
            Passed::Faulted(fault) => signal_delivery::fault(self, &fault),
            Passed::ReadRandom => {
                let value = self.kernel.random.next_u64();
                self.thread.vcpu.complete_random(value);
            }
            Passed::No => signal_delivery::fault(self, fault),
        }
    }

    /// A call by way of the vsyscall page, which returns to the address on the stack. A bad pointer is a fault there, not an error.
    pub(crate) fn vsyscall(&mut self, number: u64) -> Option<Turn> {
        let before = *self.thread.vcpu.registers();
        let Ok(back) = self.process.memory.read_value::<u64>(before.rsp) else {
            signal_delivery::general_protection(self);
            return self.process.ending.is_some().then_some(Turn::Over);
        };
        let registers = self.thread.vcpu.registers_mut();
        (registers.rax, registers.rip, registers.rsp) = (number, back, before.rsp.wrapping_add(8));
        let turn = self.system_call(number, [before.rdi, before.rsi, before.rdx, 0, 0, 0]);
        if self.thread.vcpu.registers().rax == Errno::EFAULT.to_return() {
            *self.thread.vcpu.registers_mut() = before;
            signal_delivery::general_protection(self);
            return self.process.ending.is_some().then_some(Turn::Over);
        }
        turn
    }
}
