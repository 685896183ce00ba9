//! Symbols, lines and unwind tables of ELF files, as reports of crashes read them.

use crate::folder;
use symbols::{Frame, PlacedFile, Program, Registers};

const BIAS: u64 = 0x1000_0000;
const FRAMES: usize = 16;

pub fn run(data: &[u8]) {
    let path = folder::file("program", data);
    let file = PlacedFile { path, name: "program".to_owned(), range: BIAS..BIAS + (64 << 20), bias: BIAS };
    let mut program = Program::new(vec![file]);
    for address in [0, 0x1000, 0x1010, 0x1040, 0x1100, 0x2000, 0x40_1000] {
        let address = BIAS + address;
        program.place(&Frame { address, is_return: address & 0x10 != 0 });
        // Rules of hand-written code look at the others too.
        let general = (address & 0x10 == 0).then(|| std::array::from_fn(|number| address ^ (number as u64) << 8));
        let start = Registers { rip: address, rsp: 0x2000, rbp: 0x2040, general };
        let stack = |at: u64| (0x2000..0x3000).contains(&at).then(|| BIAS + (at & 0xfff).wrapping_mul(0x11));
        assert!(program.backtrace(start, FRAMES, stack).len() <= FRAMES);
    }
    symbols::disassemble(data, BIAS);
}
