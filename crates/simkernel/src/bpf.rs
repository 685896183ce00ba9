//! Classic BPF (`linux/filter.h`, networking/filter.rst): programs of filters, what makes them
//! sound, and how they are executed. What they filter is their caller's: system calls (`seccomp`),
//! or packets (`net::filter`).

/// `struct sock_filter`.
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

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let ([a, b], [k0, k1, k2, k3]) = (self.code.to_le_bytes(), self.k.to_le_bytes());
        [a, b, self.jump_true, self.jump_false, k0, k1, k2, k3]
    }
}

/// The most instructions of one filter.
pub const PROGRAM_MAX: usize = 4096;
/// Cells of a filter's memory.
const CELLS: usize = 16;

/// A program that is no filter: EINVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFilter;

/// What a program looks at.
pub trait Input {
    /// Its length, in bytes.
    fn length(&self) -> u32;
    /// `size` bytes (1, 2 or 4) at an offset, as a number; None, which ends the program with 0,
    /// where there are none.
    fn load(&self, offset: u32, size: u32) -> Option<u32>;
    /// What a load at this offset makes of both registers, if it is of that kind
    /// (SKF_AD_ALU_XOR_X).
    fn exchange(&self, _offset: u32, _a: u32, _x: u32) -> Option<u32> {
        None
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

/// # Errors
/// When a program could leave its bounds, does not end, or has instructions that `may_load` does
/// not know and filters may not have.
pub fn check(program: &[Instruction], may_load: fn(&Instruction) -> bool) -> Result<(), BadFilter> {
    let fits = (1..=PROGRAM_MAX).contains(&program.len());
    let ends = program.last().is_some_and(|last| matches!(last.code, 0x06 | 0x16));
    let sound = |(at, instruction): (usize, &Instruction)| {
        is_sound(instruction, program.len() - at - 1) || may_load(instruction)
    };
    let all = program.iter().enumerate().all(sound);
    if fits && ends && all && reads_what_it_stored(program) { Ok(()) } else { Err(BadFilter) }
}

/// Whether every cell that is read was written on each way there (check_load_and_stores). All jumps
/// lead forwards.
fn reads_what_it_stored(program: &[Instruction]) -> bool {
    let mut valid_at = vec![u16::MAX; program.len()];
    let mut valid = 0;
    for (at, &Instruction { code, jump_true, jump_false, k }) in program.iter().enumerate() {
        valid &= valid_at[at];
        match code {
            0x02 | 0x03 => valid |= 1 << k,
            0x60 | 0x61 if valid & 1 << k == 0 => return false,
            0x05 => {
                valid_at[at + 1 + k as usize] &= valid;
                valid = u16::MAX;
            }
            _ if code & 7 == class::JMP => {
                valid_at[at + 1 + usize::from(jump_true)] &= valid;
                valid_at[at + 1 + usize::from(jump_false)] &= valid;
                valid = u16::MAX;
            }
            _ => {}
        }
    }
    true
}

/// Whether an instruction with `left` ones behind it is allowed in every filter and stays inside.
fn is_sound(instruction: &Instruction, left: usize) -> bool {
    let Instruction { code, jump_true, jump_false, k } = *instruction;
    let cell = (k as usize) < CELLS;
    match code {
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

/// Executes a sound program. What it returns; 0 where it looks at what is not there.
pub fn run(program: &[Instruction], input: &impl Input) -> u32 {
    execute(program, input).unwrap_or(0)
}

fn execute(program: &[Instruction], input: &impl Input) -> Option<u32> {
    let (mut a, mut x, mut cells) = (0u32, 0u32, [0u32; CELLS]);
    let mut at = 0;
    while let Some(&Instruction { code, jump_true, jump_false, k }) = program.get(at) {
        at += 1;
        let operand = if code & SOURCE_X != 0 { x } else { k };
        match code & 7 {
            class::LD => {
                a = match code {
                    0x20 | 0x28 | 0x30 => match input.exchange(k, a, x) {
                        Some(value) => value,
                        None => input.load(k, size_of_load(code))?,
                    },
                    0x40 | 0x48 | 0x50 => input.load(x.wrapping_add(k), size_of_load(code))?,
                    0x60 => cells[k as usize],
                    0x80 => input.length(),
                    _ => k,
                }
            }
            class::LDX => {
                x = match code {
                    0x61 => cells[k as usize],
                    0x81 => input.length(),
                    // The length of an IPv4 header.
                    0xb1 => 4 * (input.load(k, 1)? & 15),
                    _ => k,
                }
            }
            class::ST => cells[k as usize] = a,
            class::STX => cells[k as usize] = x,
            class::ALU => a = arithmetic(code & 0xf0, a, operand)?,
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
            class::RET => return Some(if code == 0x16 { a } else { k }),
            class::MISC if code == 0x07 => x = a,
            _ => a = x,
        }
    }
    None
}

/// BPF_SIZE, in bytes.
fn size_of_load(code: u16) -> u32 {
    match code & 0x18 {
        0x00 => 4,
        0x08 => 2,
        _ => 1,
    }
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
        0x90 => a.checked_rem(operand)?,
        _ => a ^ operand,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes<'a>(&'a [u8]);

    impl Input for Bytes<'_> {
        fn length(&self) -> u32 {
            self.0.len() as u32
        }
        fn load(&self, offset: u32, size: u32) -> Option<u32> {
            let bytes = self.0.get(offset as usize..(offset + size) as usize)?;
            Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
        }
    }

    fn instruction(code: u16, jump_true: u8, jump_false: u8, k: u32) -> Instruction {
        Instruction { code, jump_true, jump_false, k }
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
        assert_eq!(check(&program, |_| false), Ok(()));
        assert_eq!(run(&program, &Bytes(&[])), 77);
        let division = [instruction(0x01, 0, 0, 0), instruction(0x3c, 0, 0, 0), instruction(0x06, 0, 0, 9)];
        assert_eq!(run(&division, &Bytes(&[])), 0);
    }

    #[test]
    fn loads_take_all_sizes_and_end_outside() {
        let loaded = |code, x, k| {
            let program = [instruction(0x01, 0, 0, x), instruction(code, 0, 0, k), instruction(0x16, 0, 0, 0)];
            run(&program, &Bytes(&[0x45, 2, 3, 4, 5]))
        };
        assert_eq!(loaded(0x20, 0, 1), 0x0203_0405);
        assert_eq!(loaded(0x48, 2, 1), 0x0405);
        assert_eq!(loaded(0x30, 0, 4), 5);
        assert_eq!(loaded(0x20, 0, 2), 0);
        assert_eq!(loaded(0x80, 0, 0), 5);
        let header = [instruction(0xb1, 0, 0, 0), instruction(0x87, 0, 0, 0), instruction(0x16, 0, 0, 0)];
        assert_eq!(run(&header, &Bytes(&[0x45])), 20);
    }

    #[test]
    fn cells_are_written_before_they_are_read_on_every_way() {
        let reads = [instruction(0x60, 0, 0, 1), instruction(0x16, 0, 0, 0)];
        assert_eq!(check(&reads, |_| false), Err(BadFilter));
        let one_way = [
            instruction(0x15, 0, 1, 5),
            instruction(0x02, 0, 0, 1),
            instruction(0x60, 0, 0, 1),
            instruction(0x16, 0, 0, 0),
        ];
        assert_eq!(check(&one_way, |_| false), Err(BadFilter));
        assert_eq!(check(&one_way[1..], |_| false), Ok(()));
    }
}
