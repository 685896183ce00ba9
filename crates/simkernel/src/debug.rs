//! The guest that a debugger is to stop at: which process it is, and what the debugger is told of it (`--gdb`).
//!
//! A message is lines of text: what it is about, then a line for each range of the process's memory and for each ELF file in it. The reader
//! is the script that the command line gives to gdb.

use crate::ctx::Ctx;
use crate::process::{ExitStatus, Process};
use crate::thread::{Thread, ThreadState};
use guest::ShownThread;
use linux_abi::nr;
use std::fmt::Write;

/// Which process of a host a debugger wants: by its program's file name, by its number, or by both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugTarget {
    pub program: Option<String>,
    pub pid: Option<u32>,
}

impl DebugTarget {
    /// Whether it wants this process, which has this number outside of the simulation.
    fn is(&self, process: &Process, number: u32) -> bool {
        let has_name = self.program.as_ref().is_none_or(|name| *name == process.program_name());
        has_name && self.pid.is_none_or(|pid| pid == number)
    }
}

/// What the debugger knows of a process.
#[derive(Clone, Debug, Default)]
pub struct Debugged {
    /// The first addresses of its images.
    images: Vec<u64>,
}

impl Ctx<'_> {
    /// Before a turn: meets the debugger with the first process that it wants, and shows it the thread.
    #[cold]
    pub(crate) fn debug_before_turn(&mut self) {
        if self.process.debugged.is_none() {
            self.meet_debugger();
        }
        if self.process.debugged.is_some() {
            self.show_thread(true);
        }
    }

    /// After a turn: shows where the threads of the process stand, or tells that it is over.
    #[cold]
    pub(crate) fn debug_after_turn(&mut self) {
        if self.process.debugged.is_none() {
            return;
        }
        if let Some(status) = self.process.ending {
            self.process.threads.iter().for_each(|tid| guest::forget_thread(self.kernel.outer_id(tid.0)));
            let (name, pid) = (self.process.program_name(), self.number());
            let end = match status {
                ExitStatus::Exited(code) => format!("exited with status {code}"),
                ExitStatus::Signaled(signal) => format!("was killed by signal {signal}"),
            };
            guest::tell_debugger(&format!("end {name} (process {pid}) {end}\n"));
        } else if self.thread.state == ThreadState::Dead {
            guest::forget_thread(self.kernel.outer_id(self.thread.tid.0));
        } else {
            self.show_thread(false);
        }
    }

    /// After a call: a program that was executed may be the one that the debugger wants, and files may have been mapped or unmapped.
    #[cold]
    pub(crate) fn debug_after_call(&mut self, number: u64) {
        let is = |call: u32| u64::from(call) == number;
        let executes = is(nr::execve) || is(nr::execveat);
        if self.process.debugged.is_none() {
            if executes {
                self.meet_debugger();
            }
        } else if (executes || is(nr::mmap) || is(nr::munmap) || is(nr::mremap)) && self.images() != self.known_images()
        {
            let text = self.message("files");
            self.tell(&text);
        }
    }

    /// The process's number outside of the simulation.
    fn number(&self) -> u32 {
        self.kernel.outer_id(self.process.pid.0)
    }

    fn meet_debugger(&mut self) {
        let wanted = self.kernel.config.debug.as_ref().is_some_and(|target| target.is(self.process, self.number()));
        if !wanted || std::mem::replace(&mut self.kernel.debugger_has_met, true) {
            return;
        }
        self.process.debugged = Some(Debugged::default());
        let text = self.message(&format!("entry {:#x}", self.entry()));
        self.tell(&text);
    }

    /// Where the thread is to stop first: at its program's entry when the program has not begun, where it goes on otherwise.
    fn entry(&self) -> u64 {
        let memory = &self.process.memory;
        let rip = self.thread.vcpu.registers().rip;
        let begins = memory.placed_images().any(|(start, image)| start + image.header.entry == rip);
        match memory.placed_images().next().filter(|_| begins) {
            Some((start, program)) => start + program.header.entry,
            None => rip,
        }
    }

    fn images(&self) -> Vec<u64> {
        self.process.memory.placed_images().map(|(start, _)| start).collect()
    }

    fn known_images(&self) -> &[u64] {
        self.process.debugged.as_ref().map_or(&[], |debugged| &debugged.images)
    }

    fn tell(&mut self, text: &str) {
        let images = self.images();
        if let Some(debugged) = &mut self.process.debugged {
            debugged.images = images;
        }
        guest::tell_debugger(text);
    }

    /// A message: its first line, the process, its ranges, its files.
    fn message(&self, head: &str) -> String {
        let memory = &self.process.memory;
        let host = &self.kernel.config.name;
        let mut text = format!("{head}\nprocess {} {} {host}\n", self.number(), self.process.program_name());
        for (start, end) in memory.ranges() {
            let _ = writeln!(text, "range {start:#x} {end:#x}");
        }
        for (start, image) in memory.placed_images() {
            let header = &image.header;
            let code = header.segments.iter().find(|segment| segment.executable).map_or(0, |segment| segment.address);
            let _ = writeln!(
                text,
                "file {:#x} {:#x} {:#x} {:#x} {}",
                start.wrapping_sub(header.linked_at),
                start + code,
                start + header.span,
                start + image.joined_bytes(),
                image.path().display()
            );
        }
        text
    }

    fn show_thread(&self, runs: bool) {
        show(self.thread, self.kernel.outer_id(self.thread.tid.0), self.process, runs);
    }
}

fn show(thread: &Thread, number: u32, process: &Process, runs: bool) {
    let mut registers = *thread.vcpu.registers();
    registers.rip = process.memory.code_address(registers.rip);
    let waits = thread.state == ThreadState::Blocked || thread.wake != crate::wait::Wake::First;
    let call = waits.then_some(thread.call.number).filter(|_| !runs);
    guest::show_thread(&ShownThread { tid: number, name: &thread.name, runs, call, registers });
}
