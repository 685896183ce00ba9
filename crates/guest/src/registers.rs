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
    /// The switch loads it without a way back, so it is a user's address or what the processor
    /// itself has taken.
    pub(crate) fs_base: u64,
    /// What accesses relative to GS add in a program's files (`image/gs.rs`); the processor's is the simulator's.
    pub(crate) gs_base: u64,
}

/// One past the highest address of a program (TASK_SIZE_MAX).
pub const USER_END: u64 = (1 << 47) - 4096;

/// A segment cannot begin at this address: the simulated kernel answers EPERM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoUserAddress;

/// A base that programs may ask the kernel for (`do_arch_prctl_64`).
fn user_base(address: u64) -> Result<u64, NoUserAddress> {
    if address < USER_END { Ok(address) } else { Err(NoUserAddress) }
}

/// Whether the processor takes an address at all: bits 47 to 63 are alike.
pub(crate) fn is_canonical(address: u64) -> bool {
    ((address << 16) as i64 >> 16) as u64 == address
}

impl Registers {
    pub fn fs_base(&self) -> u64 {
        self.fs_base
    }

    pub fn gs_base(&self) -> u64 {
        self.gs_base
    }

    /// # Errors
    /// Behind [`USER_END`].
    pub fn set_fs_base(&mut self, address: u64) -> Result<(), NoUserAddress> {
        self.fs_base = user_base(address)?;
        Ok(())
    }

    /// # Errors
    /// Behind [`USER_END`].
    pub fn set_gs_base(&mut self, address: u64) -> Result<(), NoUserAddress> {
        self.gs_base = user_base(address)?;
        Ok(())
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_begin_at_addresses_of_users() {
        let mut registers = Registers::default();
        for address in [USER_END, 1 << 47, 1 << 63, u64::MAX] {
            assert_eq!(registers.set_fs_base(address), Err(NoUserAddress), "{address:#x}");
            assert_eq!(registers.set_gs_base(address), Err(NoUserAddress), "{address:#x}");
        }
        assert_eq!((registers.fs_base(), registers.gs_base()), (0, 0));
        assert_eq!(registers.set_fs_base(USER_END - 1), Ok(()));
        assert_eq!(registers.fs_base(), USER_END - 1);
    }

    #[test]
    fn the_processor_takes_addresses_of_both_halves() {
        assert!([0, USER_END, (1 << 47) - 1, u64::MAX, 0xffff_8000_0000_0000].into_iter().all(is_canonical));
        assert!(![1 << 47, 1 << 63, 0xffff_7fff_ffff_ffff].into_iter().any(is_canonical));
    }
}
