//! The most memory that processes have had, getrusage(2), by what counts as resident (`vfs::proc_memory`). It is looked at when somebody asks,
//! and before memory is given up: at the end of a program, and where much of it is unmapped.

use crate::kernel::Kernel;
use crate::process::Process;
use crate::vfs::proc_memory::Totals;
use guest::AddressSpace;
use linux_abi::sysinfo::Rusage;

/// What is unmapped without a look.
const LITTLE_BYTES: u64 = 1 << 20;
/// After a look, one call in so many mappings unmaps without another one.
const MAPPINGS_PER_CALL: u32 = 1024;
const PAGE: u64 = 4096;

/// The most resident memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Of the memory that it has now, as far as that was looked at.
    present: u64,
    /// Of the process itself, with what it had before it executed this program.
    peak: u64,
    /// Of one of its children that ended and that it waited for, or of theirs.
    children_peak: u64,
    /// What those had in all: so much of memory was touched for the first time.
    children_sum: u64,
    /// As many times more something is unmapped without a look.
    unseen: u32,
}

impl MemoryUse {
    /// Looks at what there is now.
    pub(crate) fn look_at(&mut self, memory: &AddressSpace) {
        self.present = self.present.max(Totals::of(memory).resident());
        self.peak = self.peak.max(self.present);
    }

    /// The most of the memory that it has now.
    pub(crate) fn of_present(self) -> u64 {
        self.present
    }

    /// That of the process without its children.
    pub(crate) fn alone(self) -> MemoryUse {
        MemoryUse { peak: self.peak, ..MemoryUse::default() }
    }

    /// That of its children alone.
    pub(crate) fn of_children(self) -> MemoryUse {
        MemoryUse { peak: self.children_peak, children_sum: self.children_sum, ..MemoryUse::default() }
    }

    /// The process has waited for a child that ended.
    pub(crate) fn add_child(&mut self, child: MemoryUse) {
        self.children_peak = self.children_peak.max(child.peak).max(child.children_peak);
        self.children_sum += child.peak + child.children_sum;
    }

    /// Of a process and its children.
    pub(crate) fn with_children(self) -> MemoryUse {
        let mut both = MemoryUse::default();
        both.add_child(self);
        both.of_children()
    }

    /// Puts it into what `getrusage` and `wait4` answer. Each page that is resident counts as touched once.
    pub(crate) fn show(self, usage: &mut Rusage) {
        usage.ru_maxrss = (self.peak / 1024) as i64;
        usage.ru_minflt = (self.peak.max(self.children_sum) / PAGE) as i64;
    }
}

impl Process {
    /// Looks at its memory while it executes.
    pub(crate) fn look_at_memory(&mut self) {
        if let Some(memory) = self.memory.resident() {
            self.memory_use.look_at(memory);
        }
    }

    /// Its memory is about to go.
    pub(crate) fn leaves_memory(&mut self) {
        self.look_at_memory();
        self.memory_use.present = 0;
    }

    /// So many bytes are about to be unmapped.
    #[inline]
    pub(crate) fn gives_up(&mut self, bytes: u64) {
        if bytes > LITTLE_BYTES {
            self.look_before_unmapping();
        }
    }

    /// Of thousands of mappings that go one after the other, each has little of the whole.
    fn look_before_unmapping(&mut self) {
        let used = &mut self.memory_use;
        if used.unseen > 0 {
            used.unseen -= 1;
            return;
        }
        used.unseen = self.memory.mappings().size_hint().0 as u32 / MAPPINGS_PER_CALL;
        self.look_at_memory();
    }
}

impl Kernel {
    /// The memory of a process that does not execute, with its children's.
    pub(crate) fn memory_use_of(&self, process: &Process) -> MemoryUse {
        let mut used = process.memory_use;
        if let Some(Some(memory)) = self.shared.spaces.get(process.space) {
            used.look_at(memory);
        }
        used.with_children()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn the_largest_of_all_children_counts() {
        let of = |peak| MemoryUse { peak, ..MemoryUse::default() };
        let mut child = of(2 << 20);
        child.add_child(of(5 << 20));
        let mut own = of(1 << 20);
        own.add_child(child);
        own.add_child(of(3 << 20));
        let mut usage = Rusage::new_zeroed();
        own.of_children().show(&mut usage);
        assert_eq!((usage.ru_maxrss, usage.ru_minflt), (5 << 10, 10 << 8));
        own.with_children().show(&mut usage);
        assert_eq!((usage.ru_maxrss, usage.ru_minflt), (5 << 10, 11 << 8));
    }
}
