//! Copies from and to guest memory whose faults come back as a count instead of a signal.

use std::arch::global_asm;

global_asm!(
    // rdi = destination, rsi = source, rdx = length; returns in rax how many bytes were left over.
    ".globl gnomon_copy",
    "gnomon_copy:",
    "mov rcx, rdx",
    "cmp rdx, 64",
    "ja 3f",
    "mov r8, rdx",
    "shr rcx, 3",
    "jz 2f",
    "4:",
    "mov rax, [rsi]",
    "mov [rdi], rax",
    "add rsi, 8",
    "add rdi, 8",
    "sub rdx, 8",
    "dec rcx",
    "jnz 4b",
    "2:",
    "test rdx, rdx",
    "jz 6f",
    "5:",
    "mov al, [rsi]",
    "mov [rdi], al",
    "inc rsi",
    "inc rdi",
    "dec rdx",
    "jnz 5b",
    "6:",
    "xor eax, eax",
    "ret",
    "3:",
    "cmp rdx, 4096",
    "ja 13f",
    // The string instruction takes long to begin: a packet's bytes are moved by halves of cache lines, the rest as above.
    "12:",
    "movups xmm0, [rsi]",
    "movups xmm1, [rsi + 16]",
    "movups [rdi], xmm0",
    "movups [rdi + 16], xmm1",
    "add rsi, 32",
    "add rdi, 32",
    "sub rdx, 32",
    "cmp rdx, 32",
    "jae 12b",
    "mov rcx, rdx",
    "shr rcx, 3",
    "jz 2b",
    "jmp 4b",
    "13:",
    "rep movsb",
    "mov rax, rcx",
    "ret",
    ".globl gnomon_copy_end",
    "gnomon_copy_end:",
    // A fault in the loops is retried byte by byte, so that the count is exact; rdx holds what is left in all of them. In the string
    // instruction, which has more before it, rcx does.
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
