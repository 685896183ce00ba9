//! One instruction as text.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};

/// The longest instruction of the processor.
pub const INSTRUCTION_BYTES_MAX: usize = 15;

/// The x86-64 instruction that `code` begins with, at `address`, in AT&T syntax as binutils and gdb print it. None when it is no
/// instruction, or does not end in `code`. With it, its length in bytes.
pub fn disassemble(code: &[u8], address: u64) -> Option<(String, usize)> {
    let instruction = Decoder::with_ip(64, code, address, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_space_after_operand_separator(true);
    options.set_uppercase_hex(false);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    let mut text = String::new();
    formatter.format(&instruction, &mut text);
    Some((text, instruction.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_read_as_binutils_prints_them() {
        let text = |code: &[u8]| disassemble(code, 0x1000).map(|(text, _)| text);
        assert_eq!(disassemble(&[0x8b, 0x00, 0x90], 0x1000), Some(("mov (%rax), %eax".to_owned(), 2)));
        assert_eq!(text(&[0xe8, 0x10, 0, 0, 0]).as_deref(), Some("call 0x1015"));
        assert_eq!(text(&[0x48, 0xc7, 0x45, 0xf8, 0x2a, 0, 0, 0]).as_deref(), Some("movq $0x2a, -0x8(%rbp)"));
        assert_eq!(text(&[0x0f]), None);
        assert_eq!(disassemble(&[], 0), None);
    }
}
