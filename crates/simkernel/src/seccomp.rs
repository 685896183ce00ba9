//! seccomp filters: classic BPF over a call's number, instruction pointer and arguments, as seccomp(2) has it.
//!
//! Guests that lock themselves in (tor's `Sandbox`, OpenSSH, browsers) get what they ask for, for their own calls in the simulated
//! kernel. Reads of clocks that never leave a guest are not seen by filters, as those of a vDSO are not.

use crate::bpf::{self, BadFilter, Input, Instruction};
use std::sync::Arc;

/// `sizeof(struct seccomp_data)`.
const DATA_BYTES: u32 = 64;
pub const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;

/// What becomes of a call: `SECCOMP_RET_*`, from strong to weak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    KillProcess,
    KillThread,
    /// SIGSYS, with `si_errno`.
    Trap(u16),
    /// The call answers this error number.
    Errno(u16),
    /// Notification and tracing: nobody listens, the call answers ENOSYS.
    Nobody,
    Allow,
}

impl Verdict {
    /// `SECCOMP_RET_*` with its data. Values that are not known kill the process.
    pub fn from_value(value: u32) -> Verdict {
        let data = value as u16;
        match value & 0xffff_0000 {
            0x0000_0000 => Verdict::KillThread,
            0x0003_0000 => Verdict::Trap(data),
            0x0005_0000 => Verdict::Errno(data.min(4095)),
            0x7fc0_0000 | 0x7ff0_0000 => Verdict::Nobody,
            0x7ffc_0000 | 0x7fff_0000 => Verdict::Allow,
            _ => Verdict::KillProcess,
        }
    }

    /// Whether a filter may return this action (`SECCOMP_GET_ACTION_AVAIL`).
    pub fn is_known(value: u32) -> bool {
        matches!(
            value,
            0x8000_0000 | 0 | 0x0003_0000 | 0x0005_0000 | 0x7fc0_0000 | 0x7ff0_0000 | 0x7ffc_0000 | 0x7fff_0000
        )
    }

    fn rank(self) -> u8 {
        match self {
            Verdict::KillProcess => 0,
            Verdict::KillThread => 1,
            Verdict::Trap(_) => 2,
            Verdict::Errno(_) => 3,
            Verdict::Nobody => 4,
            Verdict::Allow => 5,
        }
    }
}

/// `struct seccomp_data`: what filters see of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallData {
    pub number: u32,
    pub instruction_pointer: u64,
    pub args: [u64; 6],
}

impl CallData {
    /// The word at a byte offset that is a multiple of 4.
    fn word(&self, offset: u32) -> u32 {
        let half = |value: u64| if offset.is_multiple_of(8) { value as u32 } else { (value >> 32) as u32 };
        match offset {
            0 => self.number,
            4 => AUDIT_ARCH_X86_64,
            8 | 12 => half(self.instruction_pointer),
            _ => half(self.args[(offset as usize - 16) / 8]),
        }
    }
}

/// A thread's filters: the last one it installed, and those before, all of which judge.
#[derive(Debug)]
pub struct Filter {
    program: Box<[Instruction]>,
    previous: Option<Arc<Filter>>,
    /// SECCOMP_MODE_STRICT: whoever makes another call is ended by SIGKILL.
    pub is_strict: bool,
}

impl Filter {
    /// # Errors
    /// When the program could leave its bounds, does not end, or has instructions that filters may not have.
    pub fn new(program: Vec<Instruction>, previous: Option<Arc<Filter>>) -> Result<Filter, BadFilter> {
        bpf::check(&program, loads_a_word)?;
        Ok(Filter { program: program.into(), previous, is_strict: false })
    }

    /// Whether it is another one, or was added to it.
    pub fn includes(&self, other: &Filter) -> bool {
        std::iter::successors(Some(self), |filter| filter.previous.as_deref()).any(|filter| std::ptr::eq(filter, other))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        std::iter::successors(Some(self), |filter| filter.previous.as_deref()).count()
    }

    /// The strongest verdict of all filters.
    pub fn judge(&self, data: &CallData) -> Verdict {
        let mut verdict = Verdict::Allow;
        let mut filter = Some(self);
        while let Some(this) = filter {
            let other = Verdict::from_value(bpf::run(&this.program, data));
            if other.rank() < verdict.rank() {
                verdict = other;
            }
            filter = this.previous.as_deref();
        }
        verdict
    }
}

/// The loads that filters of calls may have.
fn loads_a_word(instruction: &Instruction) -> bool {
    instruction.code == 0x20 && instruction.k.is_multiple_of(4) && instruction.k < DATA_BYTES
}

impl Input for CallData {
    fn length(&self) -> u32 {
        DATA_BYTES
    }

    fn load(&self, offset: u32, _size: u32) -> Option<u32> {
        Some(self.word(offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::PROGRAM_MAX;

    fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
        Instruction { code, jump_true, jump_false, k }
    }

    const ALLOW: u32 = 0x7fff_0000;

    fn call(number: u32, first: u64) -> CallData {
        CallData { number, instruction_pointer: 0x1234_5678_9abc_def0, args: [first, 0, 0, 0, 0, 0] }
    }

    /// Number 39 with a first argument above 2^32 answers EPERM; all else is allowed.
    fn sample() -> Vec<Instruction> {
        vec![
            instruction(0x20, 0, 0, 4),
            instruction(0x15, 0, 5, AUDIT_ARCH_X86_64),
            instruction(0x20, 0, 0, 0),
            instruction(0x15, 0, 3, 39),
            instruction(0x20, 0, 0, 20),
            instruction(0x15, 1, 0, 0),
            instruction(0x06, 0, 0, 0x0005_0001),
            instruction(0x06, 0, 0, ALLOW),
        ]
    }

    #[test]
    fn a_filter_sees_number_architecture_and_both_halves_of_arguments() {
        let filter = Filter::new(sample(), None).unwrap();
        assert_eq!(filter.judge(&call(39, 5)), Verdict::Allow);
        assert_eq!(filter.judge(&call(39, 1 << 33)), Verdict::Errno(1));
        assert_eq!(filter.judge(&call(40, 1 << 33)), Verdict::Allow);
        let pointer = vec![instruction(0x20, 0, 0, 12), instruction(0x16, 0, 0, 0)];
        assert_eq!(bpf::run(&pointer, &call(0, 0)), 0x1234_5678);
    }

    #[test]
    fn the_strongest_of_all_filters_wins() {
        let kill = Filter::new(vec![instruction(0x06, 0, 0, 0x8000_0000)], None).unwrap();
        let filter = Filter::new(sample(), Some(Arc::new(kill))).unwrap();
        assert_eq!(filter.judge(&call(39, 1 << 33)), Verdict::KillProcess);
    }

    #[test]
    fn programs_that_are_no_filters_are_refused() {
        let bad = |program: Vec<Instruction>| Filter::new(program, None).is_err();
        assert!(bad(vec![]));
        assert!(bad(vec![instruction(0x00, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x20, 0, 0, 64), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x20, 0, 0, 2), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x15, 1, 0, 0), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x05, 0, 0, 1), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x28, 0, 0, 0), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x60, 0, 0, 16), instruction(0x06, 0, 0, 0)]));
        assert!(bad(vec![instruction(0x06, 0, 0, 0); PROGRAM_MAX + 1]));
    }

    #[test]
    fn values_that_mean_nothing_kill() {
        assert_eq!(Verdict::from_value(0x1234_0000), Verdict::KillProcess);
        assert_eq!(Verdict::from_value(0x0005_ffff), Verdict::Errno(4095));
        assert!(Verdict::is_known(ALLOW) && !Verdict::is_known(ALLOW | 1));
    }
}
