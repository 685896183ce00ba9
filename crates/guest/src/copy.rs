//! Copies from and to guest memory whose faults come back as a count instead of a signal.

use std::arch::global_asm;

global_asm!(
    // rdi = destination, rsi = source, rdx = length; returns in rax how many bytes were left over.
    ".globl gnomon_copy",
    "gnomon_copy:",
    "cmp rdx, 64",
    "ja 20f",
    // Short ones, in pieces that overlap. All of it is read before anything is written: a fault finds all registers as they were.
    "30:",
    "cmp rdx, 16",
    "jb 32f",
    "cmp rdx, 32",
    "ja 31f",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + rdx - 16], xmm1",
    "xor eax, eax",
    "ret",
    "31:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + rdx - 32]",
    "movups xmm3, [rsi + rdx - 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + rdx - 32], xmm2",
    "movups [rdi + rdx - 16], xmm3",
    "xor eax, eax",
    "ret",
    "32:",
    "cmp rdx, 8",
    "jb 33f",
    "mov rax, [rsi]",
    "mov rcx, [rsi + rdx - 8]",
    "mov [rdi], rax",
    "mov [rdi + rdx - 8], rcx",
    "xor eax, eax",
    "ret",
    "33:",
    "cmp rdx, 4",
    "jb 34f",
    "mov eax, [rsi]",
    "mov ecx, [rsi + rdx - 4]",
    "mov [rdi], eax",
    "mov [rdi + rdx - 4], ecx",
    "xor eax, eax",
    "ret",
    "34:",
    "test rdx, rdx",
    "jz 35f",
    // One to three: the first, the last, and what is in the middle.
    "mov r8, rdx",
    "shr r8, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + r8]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov [rdi], al",
    "mov [rdi + r8], cl",
    "mov [rdi + rdx - 1], r9b",
    "35:",
    "xor eax, eax",
    "ret",
    "20:",
    "cmp rdx, 4096",
    "ja 22f",
    // The string instruction takes long to begin: a packet's bytes are moved by cache lines, the rest as above.
    "21:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups xmm2, [rsi + 32]",
    "movups xmm3, [rsi + 48]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "movups [rdi + 32], xmm2",
    "movups [rdi + 48], xmm3",
    "add rsi, 64",
    "add rdi, 64",
    "sub rdx, 64",
    "cmp rdx, 64",
    "ja 21b",
    "jmp 30b",
    "22:",
    "mov rcx, rdx",
    "rep movsb",
    "mov rax, rcx",
    "ret",
    ".globl gnomon_copy_end",
    "gnomon_copy_end:",
    // A fault is retried byte by byte, so that the count is exact; rdx holds what is left. In the string instruction, which has more
    // before it, rcx does.
    ".globl gnomon_copy_fault",
    "gnomon_copy_fault:",
    "cmp rdx, 4096",
    "ja 7f",
    "8:",
    "test rdx, rdx",
    "jz 9f",
    ".globl gnomon_copy_tail",
    "gnomon_copy_tail:",
    "mov al, [rsi]",
    "mov [rdi], al",
    ".globl gnomon_copy_tail_end",
    "gnomon_copy_tail_end:",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jmp 8b",
    "7:",
    "mov rax, rcx",
    "ret",
    ".globl gnomon_copy_stop",
    "gnomon_copy_stop:",
    "9:",
    "mov rax, rdx",
    "ret",
);

unsafe extern "C" {
    fn gnomon_copy(destination: u64, source: u64, length: u64) -> u64;
    fn gnomon_copy_end();
    fn gnomon_copy_fault();
    fn gnomon_copy_tail();
    fn gnomon_copy_tail_end();
    fn gnomon_copy_stop();
}

/// Where a fault at `rip` goes on, when `rip` lies in the copy routine.
pub(crate) fn fixup_for(rip: u64) -> Option<u64> {
    let address = |f: unsafe extern "C" fn()| f as *const () as u64;
    if rip >= gnomon_copy as *const () as u64 && rip < address(gnomon_copy_end) {
        Some(address(gnomon_copy_fault))
    } else if rip >= address(gnomon_copy_tail) && rip < address(gnomon_copy_tail_end) {
        Some(address(gnomon_copy_stop))
    } else {
        None
    }
}

/// Copies bytes and returns how many were not copied because one side faulted. The caller has checked that the guest's side
/// lies in the guest's arena, and owns the other side.
pub(crate) fn copy_bytes(destination: u64, source: u64, length: u64) -> u64 {
    if length == 0 {
        return 0;
    }
    // SAFETY: faults on either side are caught by the signal handler (`fixup_for`); that the writable side belongs to the
    // guest or to the caller is the caller's claim, which `AddressSpace` checks against the guest's mappings.
    unsafe { gnomon_copy(destination, source, length) }
}

/// Writes zeroes over plain memory of a guest, which the caller's address space owns.
pub(crate) fn clear(start: u64, length: u64) {
    // SAFETY: plain memory of an arena is mapped, readable and writable, and belongs to the guest, which does not run meanwhile.
    unsafe {
        std::arch::asm!("rep stosb", inout("rdi") start => _, inout("rcx") length => _, in("al") 0u8,
            options(nostack, preserves_flags));
    }
}
