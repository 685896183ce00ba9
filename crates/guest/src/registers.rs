//! The machine state of a guest thread while it does not run.

/// General registers. The arguments of a system call come first, in its order: whoever needs them all copies them as they lie.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub r10: u64,
    pub r8: u64,
    pub r9: u64,
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    /// What accesses relative to GS add in a program's files (`image/gs.rs`); the processor's is the simulator's.
    pub gs_base: u64,
}

impl Registers {
    /// Some order of all values, by rip first.
    pub(crate) fn order(&self, other: &Registers) -> std::cmp::Ordering {
        self.words().cmp(&other.words())
    }

    /// A general register by the number that instructions have for it.
    pub(crate) fn general_mut(&mut self, number: usize) -> &mut u64 {
        match number {
            0 => &mut self.rax,
            1 => &mut self.rcx,
            2 => &mut self.rdx,
            3 => &mut self.rbx,
            4 => &mut self.rsp,
            5 => &mut self.rbp,
            6 => &mut self.rsi,
            7 => &mut self.rdi,
            8 => &mut self.r8,
            9 => &mut self.r9,
            10 => &mut self.r10,
            11 => &mut self.r11,
            12 => &mut self.r12,
            13 => &mut self.r13,
            14 => &mut self.r14,
            _ => &mut self.r15,
        }
    }

    fn words(&self) -> [u64; 20] {
        let r = self;
        [
            r.rip, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13,
            r.r14, r.r15, r.rflags, r.fs_base, r.gs_base,
        ]
    }
}

/// Flags that user code may hold: CF PF AF ZF SF DF OF NT AC ID (TF is not offered: single-stepping would trap inside the switch).
pub const USER_FLAGS: u64 = 0x0024_4cd5;
/// Always set in RFLAGS while user code runs: bit 1 and IF.
pub const FIXED_FLAGS: u64 = 0x202;
/// The power-on value of MXCSR, and the one that the simulator's own code runs with.
pub const MXCSR_DEFAULT: u32 = 0x1f80;
/// The value of the x87 control word after `fninit`.
pub const FCW_DEFAULT: u16 = 0x037f;

/// How much of the extended state a vcpu holds.
pub(crate) const EXTENDED_SSE: u8 = 0;
pub(crate) const EXTENDED_AVX: u8 = 1;
pub(crate) const EXTENDED_FULL: u8 = 2;

/// Bytes of an XSAVE area in standard format on any CPU of today (AMX needs 11,008).
pub(crate) const XSAVE_BYTES: usize = 11_264;
/// Bytes of the part that guests are shown in signal frames: legacy region, header, upper halves of YMM0-15.
pub const SIGNAL_XSAVE_BYTES: usize = 832;

/// An XSAVE area, aligned as the instruction demands.
#[repr(C, align(64))]
pub(crate) struct XsaveArea(pub(crate) [u8; XSAVE_BYTES]);

impl XsaveArea {
    pub(crate) fn boxed() -> Box<XsaveArea> {
        let mut area = Box::new(XsaveArea([0; XSAVE_BYTES]));
        area.reset();
        area
    }

    /// All components in their initial state.
    pub(crate) fn reset(&mut self) {
        self.0[..SIGNAL_XSAVE_BYTES].fill(0);
        self.0[0..2].copy_from_slice(&FCW_DEFAULT.to_le_bytes());
        self.0[24..28].copy_from_slice(&MXCSR_DEFAULT.to_le_bytes());
    }
}

impl std::fmt::Debug for XsaveArea {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("XsaveArea")
    }
}

/// The vector registers, as the fast path of a switch stores them: YMM0-15, 32 bytes each.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct VectorRegisters(pub(crate) [[u8; 32]; 16]);

impl std::fmt::Debug for VectorRegisters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VectorRegisters")
    }
}
