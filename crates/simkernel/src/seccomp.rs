//! seccomp filters: classic BPF over a call's number, instruction pointer and arguments, as seccomp(2) has it.
//!
//! Guests that lock themselves in (tor's `Sandbox`, OpenSSH, browsers) get what they ask for, for their own calls in the simulated
//! kernel. Reads of clocks that never leave a guest are not seen by filters, as those of a vDSO are not.

use std::sync::Arc;

/// `struct sock_filter`, `linux/filter.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub jump_true: u8,
    pub jump_false: u8,
    pub k: u32,
}

impl Instruction {
    pub const BYTES: usize = 8;

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Instruction {
        let [a, b, jump_true, jump_false, k @ ..] = bytes;
        Instruction { code: u16::from_le_bytes([a, b]), jump_true, jump_false, k: u32::from_le_bytes(k) }
    }
}

/// The most instructions of one filter.
pub const FILTER_MAX: usize = 4096;
/// Cells of a filter's memory.
const CELLS: usize = 16;
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

/// A program that is no filter: EINVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFilter;

impl Filter {
    /// # Errors
    /// When the program could leave its bounds, does not end, or has instructions that filters may not have.
    pub fn new(program: Vec<Instruction>, previous: Option<Arc<Filter>>) -> Result<Filter, BadFilter> {
        let fits = (1..=FILTER_MAX).contains(&program.len());
        let ends = program.last().is_some_and(|last| last.code & 7 == class::RET);
        let sound = |(at, instruction): (usize, &Instruction)| is_sound(instruction, program.len() - at - 1);
        if !fits || !ends || !program.iter().enumerate().all(sound) {
            return Err(BadFilter);
        }
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
            let other = Verdict::from_value(run(&this.program, data));
            if other.rank() < verdict.rank() {
                verdict = other;
            }
            filter = this.previous.as_deref();
        }
        verdict
    }
}

/// Instruction classes, `linux/bpf_common.h`.
mod class {
    pub const LD: u16 = 0;
    pub const LDX: u16 = 1;
    pub const ST: u16 = 2;
    pub const STX: u16 = 3;
    pub const ALU: u16 = 4;
    pub const JMP: u16 = 5;
    pub const RET: u16 = 6;
    pub const MISC: u16 = 7;
}

const SOURCE_X: u16 = 0x08;

/// Whether an instruction with `left` ones behind it is allowed and stays inside.
fn is_sound(instruction: &Instruction, left: usize) -> bool {
    let Instruction { code, jump_true, jump_false, k } = *instruction;
    let cell = (k as usize) < CELLS;
    match code {
        0x20 => k.is_multiple_of(4) && k < DATA_BYTES,
        0x00 | 0x01 | 0x80 | 0x81 => true,
        0x60 | 0x61 | 0x02 | 0x03 => cell,
        0x06 | 0x16 | 0x07 | 0x87 => true,
        0x05 => (k as usize) < left,
        0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d => {
            usize::from(jump_true) < left && usize::from(jump_false) < left
        }
        0x34 => k != 0,
        0x64 | 0x74 => k < 32,
        0x04 | 0x0c | 0x14 | 0x1c | 0x24 | 0x2c | 0x3c | 0x44 | 0x4c | 0x54 | 0x5c | 0x6c | 0x7c | 0x84 | 0xa4
        | 0xac => true,
        _ => false,
    }
}

/// Executes a sound program.
fn run(program: &[Instruction], data: &CallData) -> u32 {
    let (mut a, mut x, mut cells) = (0u32, 0u32, [0u32; CELLS]);
    let mut at = 0;
    while let Some(&Instruction { code, jump_true, jump_false, k }) = program.get(at) {
        at += 1;
        let operand = if code & SOURCE_X != 0 { x } else { k };
        match code & 7 {
            class::LD => {
                a = match code {
                    0x20 => data.word(k),
                    0x60 => cells[k as usize],
                    0x80 => DATA_BYTES,
                    _ => k,
                }
            }
            class::LDX => {
                x = match code {
                    0x61 => cells[k as usize],
                    0x81 => DATA_BYTES,
                    _ => k,
                }
            }
            class::ST => cells[k as usize] = a,
            class::STX => cells[k as usize] = x,
            class::ALU => match arithmetic(code & 0xf0, a, operand) {
                Some(value) => a = value,
                None => return 0,
            },
            class::JMP => {
                let taken = match code & 0xf0 {
                    0x00 => {
                        at += k as usize;
                        continue;
                    }
                    0x10 => a == operand,
                    0x20 => a > operand,
                    0x30 => a >= operand,
                    _ => a & operand != 0,
                };
                at += usize::from(if taken { jump_true } else { jump_false });
            }
            class::RET => return if code == 0x16 { a } else { k },
            class::MISC if code == 0x07 => x = a,
            _ => a = x,
        }
    }
    0
}

/// None for a division by zero, which ends the program with 0.
fn arithmetic(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(operand),
        0x10 => a.wrapping_sub(operand),
        0x20 => a.wrapping_mul(operand),
        0x30 => a.checked_div(operand)?,
        0x40 => a | operand,
        0x50 => a & operand,
        0x60 => a.checked_shl(operand).unwrap_or(0),
        0x70 => a.checked_shr(operand).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        _ => a ^ operand,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(run(&pointer, &call(0, 0)), 0x1234_5678);
    }

    #[test]
    fn the_strongest_of_all_filters_wins() {
        let kill = Filter::new(vec![instruction(0x06, 0, 0, 0x8000_0000)], None).unwrap();
        let filter = Filter::new(sample(), Some(Arc::new(kill))).unwrap();
        assert_eq!(filter.judge(&call(39, 1 << 33)), Verdict::KillProcess);
    }

    #[test]
    fn arithmetic_memory_and_jumps_do_what_bpf_says() {
        let program = vec![
            instruction(0x00, 0, 0, 7), // a = 7
            instruction(0x07, 0, 0, 0), // x = a
            instruction(0x24, 0, 0, 6), // a *= 6
            instruction(0x02, 0, 0, 3), // cell 3 = a
            instruction(0x1c, 0, 0, 0), // a -= x
            instruction(0x61, 0, 0, 3), // x = cell 3
            instruction(0x0c, 0, 0, 0), // a += x
            instruction(0x05, 0, 0, 1), // skip one
            instruction(0x00, 0, 0, 0), // a = 0
            instruction(0x16, 0, 0, 0), // return a
        ];
        assert_eq!(run(&program, &call(0, 0)), 77);
        let division = vec![instruction(0x01, 0, 0, 0), instruction(0x3c, 0, 0, 0), instruction(0x06, 0, 0, ALLOW)];
        assert_eq!(run(&division, &call(0, 0)), 0);
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
        assert!(bad(vec![instruction(0x06, 0, 0, 0); FILTER_MAX + 1]));
    }

    #[test]
    fn values_that_mean_nothing_kill() {
        assert_eq!(Verdict::from_value(0x1234_0000), Verdict::KillProcess);
        assert_eq!(Verdict::from_value(0x0005_ffff), Verdict::Errno(4095));
        assert!(Verdict::is_known(ALLOW) && !Verdict::is_known(ALLOW | 1));
    }
}
