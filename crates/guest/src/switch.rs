//! The world switch: from the simulator into a guest thread and back.
//!
//! A worker's GS base points to its [`WorkerState`]; what guests take for theirs is a field of their registers (`image/gs.rs`). `enter` saves the simulator's callee-saved registers on
//! the worker's own stack and loads the guest's; a guest comes back through one of three doors: `syscall_entry` and
//! `emulate_entry`, to which rewritten code jumps with the return address in rcx, and `fault_exit`, to which a signal handler
//! redirects it once it has stored the general registers. Nothing here runs on a guest's stack.
//!
//! Reading a clock is the most frequent call of most programs. It never leaves the guest: `syscall_entry` answers it from what the
//! simulated kernel left in the worker's state, as a vDSO would. Flags are preserved, as the instruction does.
//!
//! Extended state is kept exactly. What the CPU says is in use (`xgetbv` with ecx = 1) decides what is saved: XMM0-15 always,
//! their upper halves when they are in use, and everything by XSAVE when x87 or AVX-512 is. A guest begins with nothing in use but
//! what is its own, whatever the simulator and its libraries have used in between.

use crate::registers::{EXTENDED_AVX, EXTENDED_FULL, Registers, USER_FLAGS, VectorRegisters, XsaveArea};
use crate::sampling::SampleRing;
use std::arch::{asm, global_asm, naked_asm};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Why a guest came back, as the doors store it.
pub(crate) const EXIT_SYSCALL: u32 = 0;
pub(crate) const EXIT_EMULATE: u32 = 1;
pub(crate) const EXIT_FAULT: u32 = 2;
pub(crate) const EXIT_PREEMPTED: u32 = 3;
pub(crate) const EXIT_STEPPED: u32 = 4;
pub(crate) const EXIT_VSYSCALL: u32 = 5;
pub(crate) const EXIT_LOST_GS: u32 = 6;
pub(crate) const EXIT_SAMPLED: u32 = 7;

/// A guest thread's state as the switch sees it. The first member of [`crate::Vcpu`].
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct SwitchState {
    pub(crate) registers: Registers,
    pub(crate) mxcsr: u32,
    pub(crate) extended: u8,
    pub(crate) vectors: VectorRegisters,
    pub(crate) xsave: Option<Box<XsaveArea>>,
}

/// What a worker's GS base points to.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct WorkerState {
    pub(crate) syscall_entry: u64,
    pub(crate) emulate_entry: u64,
    pub(crate) host_rsp: u64,
    pub(crate) host_fs_base: u64,
    pub(crate) vcpu: *mut SwitchState,
    pub(crate) resume_rip: u64,
    pub(crate) scratch_rcx: u64,
    pub(crate) scratch_r11: u64,
    /// What a register held that stands in for the guest's GS base in a sled.
    pub(crate) scratch_gs: u64,
    pub(crate) exit_kind: u32,
    pub(crate) emulate_info: u32,
    /// Syscall user dispatch: 0 allows the simulator's own system calls, 1 sends a guest's to SIGSYS. The kernel reads it, which the compiler
    /// cannot know: a plain store that is soon followed by another would be left out.
    pub(crate) selector: AtomicU8,
    pub(crate) in_guest: u8,
    /// What is trapped in guests, and the simulator has done itself since: trapping is off (see `traps`).
    pub(crate) open: u8,
    pub(crate) has_xgetbv1: u8,
    /// XCR0 without PKRU: what XSAVE saves on the full path.
    pub(crate) xsave_mask: u32,
    /// Components whose use makes an exit save everything: all but SSE, AVX and PKRU.
    pub(crate) full_mask: u32,
    pub(crate) clocks: Clocks,
    pub(crate) fault: FaultRecord,
    /// The address behind a `syscall` instruction that no rewriting covered, or 0.
    pub(crate) missed_site: u64,
    /// What the worker is serving, for the message of a crash of the simulator itself, and for whoever wonders why it takes so long.
    pub(crate) serving: [u32; 3],
    /// Where the worker was when it was last asked, and how often it has answered.
    pub(crate) seen_at: AtomicU64,
    pub(crate) answers: AtomicU64,
    /// Ticks of the worker's timer that the guest may still execute through (see `preempt`).
    pub(crate) ticks_left: u32,
    /// What there is to be looked at: `TICKED` after a tick, in a guest or not, `SAMPLED` where samples wait.
    pub(crate) notices: AtomicU8,
    /// Where samples of what the worker executes wait (see `sampling`); null where none are taken.
    pub(crate) samples: *mut SampleRing,
    /// The guest is to come back at the next signal of the short timer.
    pub(crate) short_armed: u8,
    /// A guest had loaded GS, and a handler has taken it back.
    pub(crate) gs_lost: u8,
    /// The guest executes one instruction only.
    pub(crate) stepping: u8,
    /// What `iretq` takes when one instruction is to be executed: rip, cs, rflags, rsp, ss; and where that lies.
    pub(crate) step_frame: [u64; 5],
    pub(crate) step_frame_at: u64,
    pub(crate) scratch: XsaveArea,
    /// All components in their initial state, for XRSTOR.
    pub(crate) initial: XsaveArea,
    /// Always [`SEAL`]: what runs over the end of this, or comes from behind it, changes it first.
    pub(crate) seal: u64,
}

/// The bits of `WorkerState::notices`.
pub(crate) const TICKED: u8 = 1;
pub(crate) const SAMPLED: u8 = 2;

/// Some number that nobody writes by chance.
pub(crate) const SEAL: u64 = 0x7e55_e11a_57a7_e0f5;

/// What clocks show while a guest executes, and how often it has looked: such calls are answered here, at
/// the door, and need no exit.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clocks {
    /// CLOCK_REALTIME, in seconds, nanoseconds, and the nanoseconds in microseconds.
    pub(crate) real: [u64; 3],
    /// CLOCK_MONOTONIC, in seconds and nanoseconds.
    pub(crate) monotonic: [u64; 2],
    /// What a look takes, in nanoseconds. Neither clock's nanoseconds come to a second within the looks that are left.
    pub(crate) cost: u64,
    /// How many more calls are answered before one is an exit.
    pub(crate) left: u64,
    /// Answered: `clock_gettime`, `time`, `gettimeofday`.
    pub(crate) answered: [u64; 3],
}

/// The numbers of the calls in [`Clocks::answered`], in its order.
pub const CLOCK_CALLS: [u64; 3] =
    [libc::SYS_clock_gettime as u64, libc::SYS_time as u64, libc::SYS_gettimeofday as u64];

/// A hardware fault of a guest, as the signal handler stores it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultRecord {
    pub(crate) signal: i32,
    pub(crate) code: i32,
    pub(crate) address: u64,
    pub(crate) trap_number: u64,
    pub(crate) error_code: u64,
}

/// Byte offsets from GS that the sleds of rewritten images use. They are part of every composed image.
pub(crate) const GS_SYSCALL_ENTRY: u32 = offset_of!(WorkerState, syscall_entry) as u32;
pub(crate) const GS_EMULATE_ENTRY: u32 = offset_of!(WorkerState, emulate_entry) as u32;
pub(crate) const GS_SCRATCH_RCX: u32 = offset_of!(WorkerState, scratch_rcx) as u32;
pub(crate) const GS_SCRATCH_R11: u32 = offset_of!(WorkerState, scratch_r11) as u32;
pub(crate) const GS_EMULATE_INFO: u32 = offset_of!(WorkerState, emulate_info) as u32;
pub(crate) const GS_SCRATCH_GS: u32 = offset_of!(WorkerState, scratch_gs) as u32;
pub(crate) const GS_VCPU: u32 = offset_of!(WorkerState, vcpu) as u32;
/// The guest's GS base, from its vcpu.
pub(crate) const VCPU_GS_BASE: u32 = (offset_of!(SwitchState, registers) + offset_of!(Registers, gs_base)) as u32;

macro_rules! register {
    ($name:ident) => {
        offset_of!(SwitchState, registers) + offset_of!(Registers, $name)
    };
}

/// The flags that `sahf` and a sum cannot set: direction, nested task, alignment check, identification.
const OTHER_FLAGS: u32 = USER_FLAGS as u32 & !0x8d5;

/// Runs the guest until it comes back; why is in the worker's state.
///
/// Neither a `call` nor a `ret` leads in and out: processors foresee where a `ret` leads from the calls before it, and the guest's next
/// one would find the simulator's. As long as whoever serves the guest in a loop has this inlined, the guest's calls are
/// foreseen as if it had never left, which is worth a tenth of a short call.
///
/// # Safety
/// GS base must point to this thread's live [`WorkerState`], whose `host_fs_base` is this thread's FS base; `vcpu` must be valid,
/// exclusively borrowed and hold registers of a guest whose arena is mapped.
#[inline(always)]
pub(crate) unsafe fn enter(vcpu: *mut SwitchState) {
    // SAFETY: the caller's promise; `enter_by_jump` keeps what a C function keeps, and comes back to 2.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "push rax",
            "jmp {enter}",
            "2:",
            enter = sym enter_by_jump,
            in("rdi") vcpu,
            clobber_abi("C"),
        );
    }
}

/// As a C function with the argument `vcpu`, but that it takes its return address by `pop`.
#[unsafe(naked)]
unsafe extern "C" fn enter_by_jump(vcpu: *mut SwitchState) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov gs:[{host_rsp}], rsp",
        "mov gs:[{vcpu}], rdi",
        // Extended state.
        "cmp byte ptr [rdi + {extended}], {full}",
        "jne 2f",
        "mov eax, gs:[{xsave_mask}]",
        "xor edx, edx",
        "mov rcx, [rdi + {xsave}]",
        "xrstor64 [rcx]",
        "jmp 4f",
        "2:",
        // What the simulator has used beyond SSE and AVX is not for the guest, and would make its exit a slow one.
        "mov eax, 0xffffffff",
        "cmp byte ptr gs:[{has_xgetbv1}], 0",
        "je 6f",
        "mov ecx, 1",
        "xgetbv",
        "6:",
        "and eax, gs:[{full_mask}]",
        "jz 7f",
        "mov eax, gs:[{full_mask}]",
        "xor edx, edx",
        "xrstor64 gs:[{initial}]",
        "7:",
        "cmp dword ptr [rdi + {mxcsr}], 0x1f80",
        "je 3f",
        "ldmxcsr [rdi + {mxcsr}]",
        "3:",
        "cmp byte ptr [rdi + {extended}], {avx}",
        "je 5f",
        "vzeroupper",
        "movaps xmm0, [rdi + {v} + 0*32]",
        "movaps xmm1, [rdi + {v} + 1*32]",
        "movaps xmm2, [rdi + {v} + 2*32]",
        "movaps xmm3, [rdi + {v} + 3*32]",
        "movaps xmm4, [rdi + {v} + 4*32]",
        "movaps xmm5, [rdi + {v} + 5*32]",
        "movaps xmm6, [rdi + {v} + 6*32]",
        "movaps xmm7, [rdi + {v} + 7*32]",
        "movaps xmm8, [rdi + {v} + 8*32]",
        "movaps xmm9, [rdi + {v} + 9*32]",
        "movaps xmm10, [rdi + {v} + 10*32]",
        "movaps xmm11, [rdi + {v} + 11*32]",
        "movaps xmm12, [rdi + {v} + 12*32]",
        "movaps xmm13, [rdi + {v} + 13*32]",
        "movaps xmm14, [rdi + {v} + 14*32]",
        "movaps xmm15, [rdi + {v} + 15*32]",
        "jmp 4f",
        "5:",
        "vmovaps ymm0, [rdi + {v} + 0*32]",
        "vmovaps ymm1, [rdi + {v} + 1*32]",
        "vmovaps ymm2, [rdi + {v} + 2*32]",
        "vmovaps ymm3, [rdi + {v} + 3*32]",
        "vmovaps ymm4, [rdi + {v} + 4*32]",
        "vmovaps ymm5, [rdi + {v} + 5*32]",
        "vmovaps ymm6, [rdi + {v} + 6*32]",
        "vmovaps ymm7, [rdi + {v} + 7*32]",
        "vmovaps ymm8, [rdi + {v} + 8*32]",
        "vmovaps ymm9, [rdi + {v} + 9*32]",
        "vmovaps ymm10, [rdi + {v} + 10*32]",
        "vmovaps ymm11, [rdi + {v} + 11*32]",
        "vmovaps ymm12, [rdi + {v} + 12*32]",
        "vmovaps ymm13, [rdi + {v} + 13*32]",
        "vmovaps ymm14, [rdi + {v} + 14*32]",
        "vmovaps ymm15, [rdi + {v} + 15*32]",
        "4:",
        // From here on this thread is the guest: its FS base, its system calls and its faults.
        "mov rax, [rdi + {fs_base}]",
        "wrfsbase rax",
        "mov rax, [rdi + {rip}]",
        "mov gs:[{resume_rip}], rax",
        "mov byte ptr gs:[{in_guest}], 1",
        "mov byte ptr gs:[{selector}], 1",
        // The flags: those of arithmetic by `sahf`, overflow by a sum that has one; the others, hardly ever set, by the slow `popfq`.
        "mov ecx, [rdi + {rflags}]",
        "test ecx, {other_flags}",
        "jnz 8f",
        "mov eax, ecx",
        "mov ah, al",
        "bt ecx, 11",
        "setc al",
        "add al, 127",
        "sahf",
        "jmp 9f",
        "8:",
        "push rcx",
        "popfq",
        "9:",
        "mov rax, [rdi + {rax}]",
        "mov rbx, [rdi + {rbx}]",
        "mov rcx, [rdi + {rcx}]",
        "mov rdx, [rdi + {rdx}]",
        "mov rsi, [rdi + {rsi}]",
        "mov rbp, [rdi + {rbp}]",
        "mov rsp, [rdi + {rsp}]",
        "mov r8, [rdi + {r8}]",
        "mov r9, [rdi + {r9}]",
        "mov r10, [rdi + {r10}]",
        "mov r11, [rdi + {r11}]",
        "mov r12, [rdi + {r12}]",
        "mov r13, [rdi + {r13}]",
        "mov r14, [rdi + {r14}]",
        "mov r15, [rdi + {r15}]",
        "mov rdi, [rdi + {rdi}]",
        ".globl gnomon_enter_jump",
        "gnomon_enter_jump:",
        "jmp qword ptr gs:[{resume_rip}]",
        host_rsp = const offset_of!(WorkerState, host_rsp),
        vcpu = const offset_of!(WorkerState, vcpu),
        resume_rip = const offset_of!(WorkerState, resume_rip),
        other_flags = const OTHER_FLAGS,
        in_guest = const offset_of!(WorkerState, in_guest),
        selector = const offset_of!(WorkerState, selector),
        has_xgetbv1 = const offset_of!(WorkerState, has_xgetbv1),
        full_mask = const offset_of!(WorkerState, full_mask),
        initial = const offset_of!(WorkerState, initial),
        xsave_mask = const offset_of!(WorkerState, xsave_mask),
        extended = const offset_of!(SwitchState, extended),
        mxcsr = const offset_of!(SwitchState, mxcsr),
        xsave = const offset_of!(SwitchState, xsave),
        v = const offset_of!(SwitchState, vectors),
        full = const EXTENDED_FULL,
        avx = const EXTENDED_AVX,
        fs_base = const register!(fs_base),
        rip = const register!(rip),
        rflags = const register!(rflags),
        rax = const register!(rax),
        rbx = const register!(rbx),
        rcx = const register!(rcx),
        rdx = const register!(rdx),
        rsi = const register!(rsi),
        rdi = const register!(rdi),
        rbp = const register!(rbp),
        rsp = const register!(rsp),
        r8 = const register!(r8),
        r9 = const register!(r9),
        r10 = const register!(r10),
        r11 = const register!(r11),
        r12 = const register!(r12),
        r13 = const register!(r13),
        r14 = const register!(r14),
        r15 = const register!(r15),
    )
}

global_asm!(
    // Rewritten `syscall`: rcx holds the return address, r11 is free (both are clobbered by the instruction itself).
    ".globl gnomon_syscall_entry",
    "gnomon_syscall_entry:",
    // Which call it is, without touching the flags.
    "mov r11, rcx",
    "lea rcx, [rax - {clock_gettime}]",
    "jrcxz 20f",
    "lea rcx, [rax - {time}]",
    "jrcxz 21f",
    "lea rcx, [rax - {gettimeofday}]",
    "jrcxz 22f",
    "10:",
    "mov rcx, r11",
    "mov r11, gs:[{vcpu}]",
    "jmp 11f",
    "20:",
    "jmp gnomon_clock_gettime",
    "21:",
    "jmp gnomon_time",
    "22:",
    "jmp gnomon_gettimeofday",
    // Answers: r11 holds the return address; the flags are kept in ax. Stores through the guest's pointers may fault: the
    // handler then makes the call an exit (see `clock_call_at`).
    ".globl gnomon_clock_gettime",
    "gnomon_clock_gettime:",
    "lahf",
    "seto al",
    "cmp edi, 7",
    "ja 30f",
    // CLOCK_REALTIME and _COARSE; all but clocks of processor time.
    "mov ecx, 0x21",
    "bt ecx, edi",
    "jc 24f",
    "mov ecx, 0xd2",
    "bt ecx, edi",
    "jnc 30f",
    "cmp qword ptr gs:[{left}], 0",
    "je 30f",
    "mov rcx, gs:[{monotonic}]",
    "mov [rsi], rcx",
    "mov rcx, gs:[{monotonic} + 8]",
    "mov [rsi + 8], rcx",
    "jmp 25f",
    "24:",
    "cmp qword ptr gs:[{left}], 0",
    "je 30f",
    "mov rcx, gs:[{real}]",
    "mov [rsi], rcx",
    "mov rcx, gs:[{real} + 8]",
    "mov [rsi + 8], rcx",
    "25:",
    "mov rcx, gs:[{cost}]",
    "add gs:[{real} + 8], rcx",
    "add gs:[{monotonic} + 8], rcx",
    "dec qword ptr gs:[{left}]",
    "inc qword ptr gs:[{answered}]",
    "add al, 127",
    "sahf",
    "mov eax, 0",
    "jmp r11",
    "30:",
    "add al, 127",
    "sahf",
    "mov eax, {clock_gettime}",
    "jmp 10b",
    ".globl gnomon_time",
    "gnomon_time:",
    "lahf",
    "seto al",
    "cmp qword ptr gs:[{left}], 0",
    "je 31f",
    "mov rcx, gs:[{real}]",
    "test rdi, rdi",
    "jz 26f",
    "mov [rdi], rcx",
    "26:",
    "dec qword ptr gs:[{left}]",
    "inc qword ptr gs:[{answered} + 8]",
    "mov rcx, gs:[{cost}]",
    "add gs:[{real} + 8], rcx",
    "add gs:[{monotonic} + 8], rcx",
    "mov rcx, gs:[{real}]",
    "add al, 127",
    "sahf",
    "mov rax, rcx",
    "jmp r11",
    "31:",
    "add al, 127",
    "sahf",
    "mov eax, {time}",
    "jmp 10b",
    ".globl gnomon_gettimeofday",
    "gnomon_gettimeofday:",
    "lahf",
    "seto al",
    "cmp qword ptr gs:[{left}], 0",
    "je 32f",
    "test rsi, rsi",
    "jnz 32f",
    "cmp qword ptr gs:[{cost}], 0",
    "jne 32f",
    "test rdi, rdi",
    "jz 27f",
    "mov rcx, gs:[{real}]",
    "mov [rdi], rcx",
    "mov rcx, gs:[{real} + 16]",
    "mov [rdi + 8], rcx",
    "27:",
    "dec qword ptr gs:[{left}]",
    "inc qword ptr gs:[{answered} + 16]",
    "add al, 127",
    "sahf",
    "mov eax, 0",
    "jmp r11",
    "32:",
    "add al, 127",
    "sahf",
    "mov eax, {gettimeofday}",
    "jmp 10b",
    ".globl gnomon_clock_calls_end",
    "gnomon_clock_calls_end:",
    "11:",
    "mov [r11 + {rsp}], rsp",
    "mov rsp, gs:[{host_rsp}]",
    "mov byte ptr gs:[{selector}], 0",
    "mov byte ptr gs:[{in_guest}], 0",
    "mov dword ptr gs:[{exit_kind}], {exit_syscall}",
    "mov [r11 + {rcx}], rcx",
    "mov [r11 + {rip}], rcx",
    "pushfq",
    "pop rcx",
    "mov [r11 + {rflags}], rcx",
    "mov [r11 + {r11_}], rcx",
    "jmp 2f",
    // Rewritten instruction that must not clobber anything: rcx and r11 are in the scratch slots.
    ".globl gnomon_emulate_entry",
    "gnomon_emulate_entry:",
    "mov r11, gs:[{vcpu}]",
    "mov [r11 + {rsp}], rsp",
    "mov rsp, gs:[{host_rsp}]",
    "mov byte ptr gs:[{selector}], 0",
    "mov byte ptr gs:[{in_guest}], 0",
    "mov dword ptr gs:[{exit_kind}], {exit_emulate}",
    "mov [r11 + {rip}], rcx",
    "pushfq",
    "pop rcx",
    "mov [r11 + {rflags}], rcx",
    "mov rcx, gs:[{scratch_rcx}]",
    "mov [r11 + {rcx}], rcx",
    "mov rcx, gs:[{scratch_r11}]",
    "mov [r11 + {r11_}], rcx",
    "2:",
    "mov [r11 + {rax}], rax",
    "mov [r11 + {rbx}], rbx",
    "mov [r11 + {rdx}], rdx",
    "mov [r11 + {rsi}], rsi",
    "mov [r11 + {rdi}], rdi",
    "mov [r11 + {rbp}], rbp",
    "mov [r11 + {r8}], r8",
    "mov [r11 + {r9}], r9",
    "mov [r11 + {r10}], r10",
    "mov [r11 + {r12}], r12",
    "mov [r11 + {r13}], r13",
    "mov [r11 + {r14}], r14",
    "mov [r11 + {r15}], r15",
    "cld",
    // TF, NT, AC or IOPL set by the guest must not reach the simulator.
    "test dword ptr [r11 + {rflags}], 0x47100",
    "jz 3f",
    "push 0x202",
    "popfq",
    // A signal handler resumes here, general registers stored, r11 = vcpu, rsp = host_rsp.
    ".globl gnomon_fault_exit",
    "gnomon_fault_exit:",
    "3:",
    "rdfsbase rax",
    "mov [r11 + {fs_base}], rax",
    "mov rax, gs:[{host_fs_base}]",
    "wrfsbase rax",
    "stmxcsr [r11 + {mxcsr}]",
    "cmp dword ptr [r11 + {mxcsr}], 0x1f80",
    "je 4f",
    "ldmxcsr gs:[{initial} + 24]",
    "4:",
    "mov eax, 0xffffffff",
    "cmp byte ptr gs:[{has_xgetbv1}], 0",
    "je 5f",
    "mov ecx, 1",
    // Intel's cores take some 40 ns longer for an `xgetbv` that they have begun before all that comes first is done.
    "lfence",
    "xgetbv",
    "5:",
    "test eax, gs:[{full_mask}]",
    "jnz 7f",
    "test eax, 4",
    "jnz 6f",
    "mov byte ptr [r11 + {extended}], 0",
    "movaps [r11 + {v} + 0*32], xmm0",
    "movaps [r11 + {v} + 1*32], xmm1",
    "movaps [r11 + {v} + 2*32], xmm2",
    "movaps [r11 + {v} + 3*32], xmm3",
    "movaps [r11 + {v} + 4*32], xmm4",
    "movaps [r11 + {v} + 5*32], xmm5",
    "movaps [r11 + {v} + 6*32], xmm6",
    "movaps [r11 + {v} + 7*32], xmm7",
    "movaps [r11 + {v} + 8*32], xmm8",
    "movaps [r11 + {v} + 9*32], xmm9",
    "movaps [r11 + {v} + 10*32], xmm10",
    "movaps [r11 + {v} + 11*32], xmm11",
    "movaps [r11 + {v} + 12*32], xmm12",
    "movaps [r11 + {v} + 13*32], xmm13",
    "movaps [r11 + {v} + 14*32], xmm14",
    "movaps [r11 + {v} + 15*32], xmm15",
    "jmp 8f",
    "6:",
    "mov byte ptr [r11 + {extended}], {avx}",
    "vmovaps [r11 + {v} + 0*32], ymm0",
    "vmovaps [r11 + {v} + 1*32], ymm1",
    "vmovaps [r11 + {v} + 2*32], ymm2",
    "vmovaps [r11 + {v} + 3*32], ymm3",
    "vmovaps [r11 + {v} + 4*32], ymm4",
    "vmovaps [r11 + {v} + 5*32], ymm5",
    "vmovaps [r11 + {v} + 6*32], ymm6",
    "vmovaps [r11 + {v} + 7*32], ymm7",
    "vmovaps [r11 + {v} + 8*32], ymm8",
    "vmovaps [r11 + {v} + 9*32], ymm9",
    "vmovaps [r11 + {v} + 10*32], ymm10",
    "vmovaps [r11 + {v} + 11*32], ymm11",
    "vmovaps [r11 + {v} + 12*32], ymm12",
    "vmovaps [r11 + {v} + 13*32], ymm13",
    "vmovaps [r11 + {v} + 14*32], ymm14",
    "vmovaps [r11 + {v} + 15*32], ymm15",
    "vzeroupper",
    "jmp 8f",
    "7:",
    "mov byte ptr [r11 + {extended}], {full}",
    "mov eax, gs:[{xsave_mask}]",
    "xor edx, edx",
    "xsave64 gs:[{scratch}]",
    // The simulator runs with initial state, so that the next vcpu's exit is not slow for this one's x87.
    "xrstor64 gs:[{initial}]",
    "8:",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    // No `ret`: see `enter`.
    "pop rcx",
    "jmp rcx",
    // The last jump of `enter` when one instruction is to be executed: all registers but rsp, rip and the flags are the guest's.
    ".globl gnomon_step_entry",
    "gnomon_step_entry:",
    "mov rsp, gs:[{step_frame_at}]",
    ".globl gnomon_step_jump",
    "gnomon_step_jump:",
    "iretq",
    step_frame_at = const offset_of!(WorkerState, step_frame_at),
    vcpu = const offset_of!(WorkerState, vcpu),
    clock_gettime = const libc::SYS_clock_gettime,
    time = const libc::SYS_time,
    gettimeofday = const libc::SYS_gettimeofday,
    left = const offset_of!(WorkerState, clocks.left),
    real = const offset_of!(WorkerState, clocks.real),
    monotonic = const offset_of!(WorkerState, clocks.monotonic),
    cost = const offset_of!(WorkerState, clocks.cost),
    answered = const offset_of!(WorkerState, clocks.answered),
    host_rsp = const offset_of!(WorkerState, host_rsp),
    host_fs_base = const offset_of!(WorkerState, host_fs_base),
    selector = const offset_of!(WorkerState, selector),
    in_guest = const offset_of!(WorkerState, in_guest),
    exit_kind = const offset_of!(WorkerState, exit_kind),
    scratch_rcx = const offset_of!(WorkerState, scratch_rcx),
    scratch_r11 = const offset_of!(WorkerState, scratch_r11),
    has_xgetbv1 = const offset_of!(WorkerState, has_xgetbv1),
    xsave_mask = const offset_of!(WorkerState, xsave_mask),
    scratch = const offset_of!(WorkerState, scratch),
    initial = const offset_of!(WorkerState, initial),
    full_mask = const offset_of!(WorkerState, full_mask),
    exit_syscall = const EXIT_SYSCALL,
    exit_emulate = const EXIT_EMULATE,
    extended = const offset_of!(SwitchState, extended),
    mxcsr = const offset_of!(SwitchState, mxcsr),
    v = const offset_of!(SwitchState, vectors),
    full = const EXTENDED_FULL,
    avx = const EXTENDED_AVX,
    fs_base = const register!(fs_base),
    rip = const register!(rip),
    rflags = const register!(rflags),
    rax = const register!(rax),
    rbx = const register!(rbx),
    rcx = const register!(rcx),
    rdx = const register!(rdx),
    rsi = const register!(rsi),
    rdi = const register!(rdi),
    rbp = const register!(rbp),
    rsp = const register!(rsp),
    r8 = const register!(r8),
    r9 = const register!(r9),
    r10 = const register!(r10),
    r11_ = const register!(r11),
    r12 = const register!(r12),
    r13 = const register!(r13),
    r14 = const register!(r14),
    r15 = const register!(r15),
);

global_asm!(
    // rdi != 0: with AVX-512. Leaves x87, YMM0-15 and, if so, ZMM0-31 and the masks full of ones.
    ".globl gnomon_soil",
    "gnomon_soil:",
    "fldpi",
    "fldpi",
    "vpcmpeqd ymm0, ymm0, ymm0",
    ".irp r, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmovdqa ymm\\r, ymm0",
    ".endr",
    "test rdi, rdi",
    "jz 2f",
    "vpternlogd zmm0, zmm0, zmm0, 0xff",
    ".irp r, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vmovdqa64 zmm\\r, zmm0",
    ".endr",
    ".irp r, 0,1,2,3,4,5,6,7",
    "kxnorw k\\r, k\\r, k\\r",
    ".endr",
    "2:",
    "ret",
);

/// Puts ones into all registers that the simulator's libraries might use and that a guest must not see, those of AVX-512 only where the
/// processor has it.
///
/// # Safety
/// Only right before [`enter`]: the ABI wants x87 empty at any other place.
pub(crate) unsafe fn soil(has_avx512: bool) {
    // SAFETY: the caller enters a guest next, whose state replaces all that is changed here.
    unsafe { gnomon_soil(u64::from(has_avx512)) };
}

unsafe extern "C" {
    fn gnomon_soil(has_avx512: u64);
    fn gnomon_syscall_entry();
    fn gnomon_clock_gettime();
    fn gnomon_time();
    fn gnomon_gettimeofday();
    fn gnomon_clock_calls_end();
    fn gnomon_emulate_entry();
    fn gnomon_fault_exit();
    fn gnomon_step_entry();
    fn gnomon_enter_jump();
    fn gnomon_step_jump();
}

/// The addresses of the three doors.
pub(crate) fn door_addresses() -> (u64, u64, u64) {
    (
        gnomon_syscall_entry as *const () as u64,
        gnomon_emulate_entry as *const () as u64,
        gnomon_fault_exit as *const () as u64,
    )
}

/// The instructions that lead into a guest, in `enter` and where it is to execute one instruction.
pub(crate) fn last_instructions() -> (u64, u64) {
    (gnomon_enter_jump as *const () as u64, gnomon_step_jump as *const () as u64)
}

/// Where `enter` has to jump for one instruction.
pub(crate) fn step_entry() -> u64 {
    gnomon_step_entry as *const () as u64
}

/// The call whose answer an instruction of the switch is part of.
pub(crate) fn clock_call_at(rip: u64) -> Option<u64> {
    let starts = [gnomon_clock_gettime as *const (), gnomon_time as *const (), gnomon_gettimeofday as *const ()];
    if rip >= gnomon_clock_calls_end as *const () as u64 {
        return None;
    }
    let index = starts.iter().rposition(|start| *start as u64 <= rip)?;
    Some(CLOCK_CALLS[index])
}
