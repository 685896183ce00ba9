//! The C library's `memcpy`, `memmove`, `memset`, `memcmp`, `bcmp`, `memchr` and `strlen`, in registers that guests are promised too.
//!
//! glibc's own choose themselves at its start, and on a processor with AVX-512 they use its masks and ymm16-31. The processor then
//! says for ever that these are in use, and a switch into a guest has to clear them, which takes longer than the rest of
//! a system call (120 ns of 110 on a Cascade Lake). Symbols of the program come before those of shared libraries, so all Rust code that
//! is linked together with this crate calls these instead; `realloc` and its like inside the C library do not, and the switch clears up after
//! them (`switch::enter`).
//!
//! Up to 256 bytes are loaded as a whole before anything is stored, by accesses that overlap in the middle; more go by a loop, and from
//! `STRING_BYTES` on by the string instructions, which every processor with AVX2 does well at that length.

use std::arch::global_asm;

/// From here on the string instructions' slow start is paid back.
const STRING_BYTES: usize = 2048;

global_asm!(
    // rdi = destination, rsi = source, rdx = length; returns the destination. The two may overlap.
    ".globl memcpy",
    ".globl memmove",
    ".type memcpy, @function",
    ".type memmove, @function",
    ".p2align 6",
    "memcpy:",
    "memmove:",
    "mov rax, rdi",
    "cmp rdx, 16",
    "jb 20f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "cmp rdx, 32",
    "ja 10f",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "ret",
    "10:",
    "cmp rdx, 64",
    "ja 11f",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "ret",
    "11:",
    "cmp rdx, 128",
    "ja 12f",
    "movups xmm2, [rsi + 16]",
    "movups xmm3, [rsi + rdx - 32]",
    "movups xmm4, [rsi + 32]",
    "movups xmm5, [rsi + rdx - 48]",
    "movups xmm6, [rsi + 48]",
    "movups xmm7, [rsi + rdx - 64]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "movups [rdi + 16], xmm2",
    "movups [rdi + rdx - 32], xmm3",
    "movups [rdi + 32], xmm4",
    "movups [rdi + rdx - 48], xmm5",
    "movups [rdi + 48], xmm6",
    "movups [rdi + rdx - 64], xmm7",
    "ret",
    // Up to 256, as packets on their way are moved: as a whole, too, in halves of cache lines.
    "12:",
    "cmp rdx, 256",
    "ja 18f",
    "vmovdqu ymm0, [rsi]",
    "vmovdqu ymm1, [rsi + 32]",
    "vmovdqu ymm2, [rsi + 64]",
    "vmovdqu ymm3, [rsi + 96]",
    "vmovdqu ymm4, [rsi + rdx - 128]",
    "vmovdqu ymm5, [rsi + rdx - 96]",
    "vmovdqu ymm6, [rsi + rdx - 64]",
    "vmovdqu ymm7, [rsi + rdx - 32]",
    "vmovdqu [rdi], ymm0",
    "vmovdqu [rdi + 32], ymm1",
    "vmovdqu [rdi + 64], ymm2",
    "vmovdqu [rdi + 96], ymm3",
    "vmovdqu [rdi + rdx - 128], ymm4",
    "vmovdqu [rdi + rdx - 96], ymm5",
    "vmovdqu [rdi + rdx - 64], ymm6",
    "vmovdqu [rdi + rdx - 32], ymm7",
    "vzeroupper",
    "ret",
    // More than 256: backwards when the destination begins within the source.
    "18:",
    "mov rcx, rdi",
    "sub rcx, rsi",
    "cmp rcx, rdx",
    "jb 15f",
    "cmp rdx, {string}",
    "jb 13f",
    // The string instruction is slow where the two lie within a few bytes of each other.
    "neg rcx",
    "cmp rcx, 64",
    "jb 13f",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    // Forwards: the first 16 and the last 64 bytes are loaded first and stored last, the loop stores aligned.
    "13:",
    "movups xmm5, [rsi + rdx - 32]",
    "movups xmm6, [rsi + rdx - 48]",
    "movups xmm7, [rsi + rdx - 64]",
    "movaps xmm8, xmm0",
    "lea r8, [rdi + rdx - 64]",
    "sub rsi, rdi",
    "and rdi, -16",
    "add rdi, 16",
    "14:",
    "movups xmm0, [rsi + rdi]",
    "movups xmm2, [rsi + rdi + 16]",
    "movups xmm3, [rsi + rdi + 32]",
    "movups xmm4, [rsi + rdi + 48]",
    "movaps [rdi], xmm0",
    "movaps [rdi + 16], xmm2",
    "movaps [rdi + 32], xmm3",
    "movaps [rdi + 48], xmm4",
    "add rdi, 64",
    "cmp rdi, r8",
    "jb 14b",
    "movups [r8], xmm7",
    "movups [r8 + 16], xmm6",
    "movups [r8 + 32], xmm5",
    "movups [r8 + 48], xmm1",
    "movups [rax], xmm8",
    "ret",
    // Backwards: the same the other way round.
    "15:",
    "test rcx, rcx",
    "jz 17f",
    "movups xmm5, [rsi + 16]",
    "movups xmm6, [rsi + 32]",
    "movups xmm7, [rsi + 48]",
    "movaps xmm8, xmm0",
    "lea r8, [rdi + 64]",
    "lea r9, [rdi + rdx]",
    "sub rsi, rdi",
    "mov rdi, r9",
    "and rdi, -16",
    "16:",
    "movups xmm0, [rsi + rdi - 16]",
    "movups xmm2, [rsi + rdi - 32]",
    "movups xmm3, [rsi + rdi - 48]",
    "movups xmm4, [rsi + rdi - 64]",
    "movaps [rdi - 16], xmm0",
    "movaps [rdi - 32], xmm2",
    "movaps [rdi - 48], xmm3",
    "movaps [rdi - 64], xmm4",
    "sub rdi, 64",
    "cmp rdi, r8",
    "ja 16b",
    "movups [rax], xmm8",
    "movups [rax + 16], xmm5",
    "movups [rax + 32], xmm6",
    "movups [rax + 48], xmm7",
    "movups [r9 - 16], xmm1",
    "17:",
    "ret",
    // Less than 16.
    "20:",
    "cmp edx, 8",
    "jae 21f",
    "cmp edx, 4",
    "jae 22f",
    "cmp edx, 1",
    "jb 24f",
    "ja 23f",
    "movzx ecx, byte ptr [rsi]",
    "mov [rdi], cl",
    "ret",
    "21:",
    "mov rcx, [rsi]",
    "mov r8, [rsi + rdx - 8]",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], r8",
    "ret",
    "22:",
    "mov ecx, [rsi]",
    "mov r8d, [rsi + rdx - 4]",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], r8d",
    "ret",
    "23:",
    "movzx ecx, word ptr [rsi]",
    "movzx r8d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], cx",
    "mov [rdi + rdx - 1], r8b",
    "24:",
    "ret",
    ".size memcpy, . - memcpy",
    ".size memmove, . - memmove",
    string = const STRING_BYTES,
);

global_asm!(
    // rdi = destination, esi = the byte, rdx = length; returns the destination.
    ".globl memset",
    ".type memset, @function",
    ".p2align 6",
    "memset:",
    "mov rax, rdi",
    "movzx ecx, sil",
    "mov r8, 0x0101010101010101",
    "imul rcx, r8",
    "cmp rdx, 16",
    "jb 20f",
    "movq xmm0, rcx",
    "punpcklqdq xmm0, xmm0",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm0",
    "cmp rdx, 32",
    "jbe 24f",
    "movups [rdi + 16], xmm0",
    "movups [rdi + rdx - 32], xmm0",
    "cmp rdx, 64",
    "jbe 24f",
    "movups [rdi + 32], xmm0",
    "movups [rdi + 48], xmm0",
    "movups [rdi + rdx - 48], xmm0",
    "movups [rdi + rdx - 64], xmm0",
    "cmp rdx, 128",
    "jbe 24f",
    "cmp rdx, {string}",
    "jae 12f",
    "lea r8, [rdi + rdx - 64]",
    "add rdi, 64",
    "and rdi, -16",
    "11:",
    "movaps [rdi], xmm0",
    "movaps [rdi + 16], xmm0",
    "movaps [rdi + 32], xmm0",
    "movaps [rdi + 48], xmm0",
    "add rdi, 64",
    "cmp rdi, r8",
    "jb 11b",
    "ret",
    "12:",
    "mov r8, rax",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    "20:",
    "cmp edx, 8",
    "jae 21f",
    "cmp edx, 4",
    "jae 22f",
    "cmp edx, 1",
    "jb 24f",
    "mov [rdi], cl",
    "mov [rdi + rdx - 1], cl",
    "cmp edx, 2",
    "jbe 24f",
    "mov [rdi + 1], cl",
    "ret",
    "21:",
    "mov [rdi], rcx",
    "mov [rdi + rdx - 8], rcx",
    "ret",
    "22:",
    "mov [rdi], ecx",
    "mov [rdi + rdx - 4], ecx",
    "24:",
    "ret",
    ".size memset, . - memset",
    string = const STRING_BYTES,
);

global_asm!(
    // rdi, rsi = what is compared, rdx = length; returns the difference of the first bytes that differ, or 0.
    ".globl memcmp",
    ".globl bcmp",
    ".type memcmp, @function",
    ".type bcmp, @function",
    ".p2align 6",
    "memcmp:",
    "bcmp:",
    "sub rdx, 16",
    "jb 20f",
    "xor ecx, ecx",
    // rcx: how far both are equal; rdx: where the last 16 bytes begin.
    "10:",
    "movups xmm0, [rdi + rcx]",
    "movups xmm1, [rsi + rcx]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb eax, xmm0",
    "sub eax, 0xffff",
    "jnz 12f",
    "add rcx, 16",
    "cmp rcx, rdx",
    "jb 10b",
    "mov rcx, rdx",
    "movups xmm0, [rdi + rcx]",
    "movups xmm1, [rsi + rcx]",
    "pcmpeqb xmm0, xmm1",
    "pmovmskb eax, xmm0",
    "sub eax, 0xffff",
    "jnz 12f",
    "ret",
    // A bit of 0 in the mask is a difference, and the lowest bit of 1 that the subtraction left.
    "12:",
    "bsf eax, eax",
    "add rcx, rax",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx edx, byte ptr [rsi + rcx]",
    "sub eax, edx",
    "ret",
    "20:",
    "add edx, 16",
    "cmp edx, 8",
    "jae 21f",
    "cmp edx, 4",
    "jae 22f",
    "xor ecx, ecx",
    "23:",
    "xor eax, eax",
    "cmp ecx, edx",
    "jae 24f",
    "movzx eax, byte ptr [rdi + rcx]",
    "movzx r8d, byte ptr [rsi + rcx]",
    "inc ecx",
    "sub eax, r8d",
    "jz 23b",
    "24:",
    "ret",
    "21:",
    "mov rax, [rdi]",
    "mov rcx, [rsi]",
    "cmp rax, rcx",
    "jne 25f",
    "mov rax, [rdi + rdx - 8]",
    "mov rcx, [rsi + rdx - 8]",
    "cmp rax, rcx",
    "jne 25f",
    "xor eax, eax",
    "ret",
    "22:",
    "mov eax, [rdi]",
    "mov ecx, [rsi]",
    "cmp eax, ecx",
    "jne 25f",
    "mov eax, [rdi + rdx - 4]",
    "mov ecx, [rsi + rdx - 4]",
    "cmp eax, ecx",
    "jne 25f",
    "xor eax, eax",
    "ret",
    // The order of words is that of their bytes from the first on.
    "25:",
    "bswap rax",
    "bswap rcx",
    "cmp rax, rcx",
    "sbb eax, eax",
    "or eax, 1",
    "ret",
    ".size memcmp, . - memcmp",
    ".size bcmp, . - bcmp",
);

global_asm!(
    // rdi = a string that ends with 0; returns its length. Aligned loads do not reach into a page that the string has no part of.
    ".globl strlen",
    ".type strlen, @function",
    ".p2align 6",
    "strlen:",
    "mov rax, rdi",
    "and rax, -16",
    "mov ecx, edi",
    "and ecx, 15",
    "pxor xmm0, xmm0",
    "movaps xmm1, [rax]",
    "pcmpeqb xmm1, xmm0",
    "pmovmskb edx, xmm1",
    "shr edx, cl",
    "shl edx, cl",
    "test edx, edx",
    "jnz 11f",
    "10:",
    "add rax, 16",
    "movaps xmm1, [rax]",
    "pcmpeqb xmm1, xmm0",
    "pmovmskb edx, xmm1",
    "test edx, edx",
    "jz 10b",
    "11:",
    "bsf edx, edx",
    "add rax, rdx",
    "sub rax, rdi",
    "ret",
    ".size strlen, . - strlen",
    // rdi = where to look, esi = the byte, rdx = length; returns where it is first, or null.
    ".globl memchr",
    ".type memchr, @function",
    ".p2align 6",
    "memchr:",
    "test rdx, rdx",
    "jz 23f",
    "movzx ecx, sil",
    "mov r8, 0x0101010101010101",
    "imul rcx, r8",
    "movq xmm0, rcx",
    "punpcklqdq xmm0, xmm0",
    // r9: its end, or the end of memory.
    "mov r9, rdi",
    "add r9, rdx",
    "sbb r8, r8",
    "or r9, r8",
    "mov rax, rdi",
    "and rax, -16",
    "mov ecx, edi",
    "and ecx, 15",
    "movaps xmm1, [rax]",
    "pcmpeqb xmm1, xmm0",
    "pmovmskb edx, xmm1",
    "shr edx, cl",
    "shl edx, cl",
    "test edx, edx",
    "jnz 22f",
    "21:",
    "add rax, 16",
    "cmp rax, r9",
    "jae 23f",
    "movaps xmm1, [rax]",
    "pcmpeqb xmm1, xmm0",
    "pmovmskb edx, xmm1",
    "test edx, edx",
    "jz 21b",
    "22:",
    "bsf edx, edx",
    "add rax, rdx",
    "cmp rax, r9",
    "jae 23f",
    "ret",
    "23:",
    "xor eax, eax",
    "ret",
    ".size memchr, . - memchr",
);

#[cfg(test)]
mod tests {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
        fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
        fn memset(to: *mut c_void, byte: c_int, bytes: usize) -> *mut c_void;
        fn memcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int;
        fn bcmp(a: *const c_void, b: *const c_void, bytes: usize) -> c_int;
        fn memchr(at: *const c_void, byte: c_int, bytes: usize) -> *mut c_void;
        fn strlen(text: *const std::ffi::c_char) -> usize;
    }

    /// Lengths around every branch.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..=300).chain([511, 1000, 2047, 2048, 2049, 3000, 4096, 5001])
    }

    /// Bytes of which neighbours and those 256 apart differ.
    fn pattern(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at as u32).wrapping_mul(0x9e37_79b1).to_be_bytes()[0]).collect()
    }

    #[test]
    fn these_are_the_ones_that_are_linked() {
        // A shared library's would lie far away from the program's code.
        let ours = super::tests::these_are_the_ones_that_are_linked as *const () as usize;
        for function in [memcpy as *const () as usize, memset as *const () as usize, memcmp as *const () as usize] {
            assert!(ours.abs_diff(function) < 1 << 30, "{function:x} is not in the program");
        }
    }

    #[test]
    fn copies_are_exact_and_touch_nothing_else() {
        let source = pattern(6000);
        for length in lengths() {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 7), (15, 33)] {
                let mut target = vec![0xa5u8; length + 64];
                // SAFETY: both ranges lie in their vectors.
                let result =
                    unsafe { memcpy(target.as_mut_ptr().add(to).cast(), source.as_ptr().add(from).cast(), length) };
                assert_eq!(result as usize, target.as_ptr() as usize + to);
                assert!(target[..to].iter().chain(&target[to + length..]).all(|byte| *byte == 0xa5), "{length}");
                assert!(target[to..to + length] == source[from..from + length], "{length} from {from} to {to}");
            }
        }
    }

    #[test]
    fn moves_within_one_buffer_are_exact() {
        for length in lengths() {
            for distance in [0, 1, 2, 8, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 500, 2048] {
                for (from, to) in [(20, 20 + distance), (20 + distance, 20)] {
                    let mut memory = pattern(length + distance + 60);
                    let before = memory.clone();
                    // SAFETY: both ranges lie in the vector.
                    unsafe { memmove(memory.as_mut_ptr().add(to).cast(), memory.as_ptr().add(from).cast(), length) };
                    assert!(memory[to..to + length] == before[from..from + length], "{length} from {from} to {to}");
                    assert!(memory[..to] == before[..to] && memory[to + length..] == before[to + length..]);
                }
            }
        }
    }

    #[test]
    fn fills_are_exact_and_touch_nothing_else() {
        for length in lengths() {
            for to in [0, 1, 9, 16, 31] {
                for byte in [0, 0x5a, 0x1ff] {
                    let mut target = vec![0xa5u8; length + 64];
                    // SAFETY: the range lies in the vector.
                    let result = unsafe { memset(target.as_mut_ptr().add(to).cast(), byte, length) };
                    assert_eq!(result as usize, target.as_ptr() as usize + to);
                    assert!(target[to..to + length].iter().all(|at| *at == byte as u8), "{length}");
                    assert!(target[..to].iter().chain(&target[to + length..]).all(|at| *at == 0xa5), "{length}");
                }
            }
        }
    }

    #[test]
    fn comparisons_find_the_first_difference() {
        for length in lengths().filter(|length| *length < 600) {
            let a = pattern(length + 8);
            let mut b = a.clone();
            // SAFETY: all ranges lie in their vectors.
            let compare = |a: &[u8], b: &[u8]| unsafe {
                let (a, b) = (a.as_ptr().add(3).cast(), b.as_ptr().add(3).cast());
                let (order, difference) = (memcmp(a, b, length), bcmp(a, b, length));
                assert_eq!(order == 0, difference == 0);
                order.signum()
            };
            assert_eq!(compare(&a, &b), 0);
            for at in (0..length).step_by(1 + length / 40) {
                b[3 + at] = a[3 + at].wrapping_add(0x80);
                if let Some(later) = b.get_mut(4 + at) {
                    *later ^= 0xff;
                }
                let expected = if a[3 + at] > b[3 + at] { 1 } else { -1 };
                assert_eq!(compare(&a, &b), expected, "{length} bytes, byte {at}");
                assert_eq!(compare(&b, &a), -expected, "{length} bytes, byte {at}");
                b.copy_from_slice(&a);
            }
        }
    }

    #[test]
    fn ends_and_bytes_are_found_where_they_are_first() {
        for length in lengths().filter(|length| *length < 600) {
            for from in [0, 1, 7, 15, 16] {
                let mut text = vec![7u8; from + length + 40];
                text[from + length] = 0;
                // SAFETY: the string ends in the vector.
                assert_eq!(unsafe { strlen(text.as_ptr().add(from).cast()) }, length);
                // SAFETY: the range lies in the vector.
                let find = |text: &[u8], bytes| unsafe {
                    let start = text.as_ptr().add(from);
                    let found = memchr(start.cast(), 0x100, bytes);
                    (!found.is_null()).then(|| found as usize - start as usize)
                };
                assert_eq!(find(&text, length), None, "behind the end");
                assert_eq!(find(&text, length + 1), Some(length));
                assert_eq!(find(&text, usize::MAX), Some(length), "no end");
                text[from + length / 2] = 0;
                assert_eq!(find(&text, length + 1), Some(length / 2));
            }
        }
    }
}
