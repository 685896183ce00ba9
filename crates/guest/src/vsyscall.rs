//! Vsyscalls: three calls at fixed addresses in a page that the kernel shows every process (Linux,
//! `arch/x86/entry/vsyscall/vsyscall_64.c`). Old programs call there, and no rewriting can know where from.
//!
//! The kernel executes such a call when fetching the instruction faults: syscall user dispatch never hears of it. A seccomp filter
//! does, with the page's address as the place of the call, and turns it into SIGSYS. A kernel without the page (`vsyscall=none`) sends SIGSEGV.

use crate::traps::raw_syscall;
use std::io;

/// The page, and how its calls lie in it.
const PAGE: u64 = 0xffff_ffff_ff60_0000;
const CALLS: [(u64, u32); 3] = [
    (PAGE, libc::SYS_gettimeofday as u32),
    (PAGE + 0x400, libc::SYS_time as u32),
    (PAGE + 0x800, libc::SYS_getcpu as u32),
];

/// The number of the system call that an address stands for.
pub(crate) fn number_at(address: u64) -> Option<u32> {
    CALLS.iter().find(|(at, _)| *at == address).map(|(_, number)| *number)
}

/// Has vsyscalls of the calling thread end in SIGSYS from now on, for ever.
///
/// # Errors
/// When the kernel has no seccomp filters, or refuses them.
pub(crate) fn catch() -> io::Result<()> {
    const SECCOMP_SET_MODE_FILTER: u64 = 1;
    /// No mitigations that cost something: the thread does not run what it has to fear.
    const SECCOMP_FILTER_FLAG_SPEC_ALLOW: u64 = 4;
    let mut filter = filter();
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lives through the call. It allows whatever is not called from the page, and gives nobody more rights; nor does
    // the promise to gain none, without which only root may set filters.
    let result = unsafe {
        raw_syscall(libc::SYS_prctl, [libc::PR_SET_NO_NEW_PRIVS as u64, 1, 0, 0, 0]);
        let arguments = [SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &raw const program as u64, 0, 0];
        raw_syscall(libc::SYS_seccomp, arguments)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-result as i32)) }
}

/// Looks at the number first: what the kernel can tell of it alone, it decides once and for all.
fn filter() -> [libc::sock_filter; 12] {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// In `struct seccomp_data`: the number, and the halves of the address.
    const NUMBER: u32 = 0;
    const ADDRESS: u32 = 8;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let [(_, first), (_, second), (_, third)] = CALLS;
    [
        step(LOAD, 0, 0, NUMBER),
        step(IF_EQUAL, 3, 0, first),
        step(IF_EQUAL, 2, 0, second),
        step(IF_EQUAL, 1, 0, third),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(LOAD, 0, 0, ADDRESS + 4),
        step(IF_EQUAL, 0, 3, (PAGE >> 32) as u32),
        step(LOAD, 0, 0, ADDRESS),
        step(AND, 0, 0, !0xfff),
        step(IF_EQUAL, 1, 0, PAGE as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_TRAP),
    ]
}
