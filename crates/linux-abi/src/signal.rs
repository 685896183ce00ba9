//! Signals: numbers, actions, `siginfo`, and the frame that x86-64 Linux pushes for a handler.

use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A signal's number, 1 to 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(u8);

macro_rules! signals {
    ($($name:ident = $number:literal,)*) => {
        impl Signal {
            $(pub const $name: Signal = Signal($number);)*
        }
        const NAMES: &[&str] = &["", $(stringify!($name)),*];
    };
}

signals! {
    SIGHUP = 1,
    SIGINT = 2,
    SIGQUIT = 3,
    SIGILL = 4,
    SIGTRAP = 5,
    SIGABRT = 6,
    SIGBUS = 7,
    SIGFPE = 8,
    SIGKILL = 9,
    SIGUSR1 = 10,
    SIGSEGV = 11,
    SIGUSR2 = 12,
    SIGPIPE = 13,
    SIGALRM = 14,
    SIGTERM = 15,
    SIGSTKFLT = 16,
    SIGCHLD = 17,
    SIGCONT = 18,
    SIGSTOP = 19,
    SIGTSTP = 20,
    SIGTTIN = 21,
    SIGTTOU = 22,
    SIGURG = 23,
    SIGXCPU = 24,
    SIGXFSZ = 25,
    SIGVTALRM = 26,
    SIGPROF = 27,
    SIGWINCH = 28,
    SIGIO = 29,
    SIGPWR = 30,
    SIGSYS = 31,
}

/// What a signal does to a process that has no handler for it, signal(7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DefaultAction {
    Terminate,
    CoreDump,
    Ignore,
    Stop,
    Continue,
}

impl Signal {
    /// The first real-time signal, as the kernel counts (the C library keeps the first two for itself).
    pub const SIGRTMIN: i32 = 32;
    pub const MAX: i32 = 64;

    /// None outside 1 to 64 (0 is no signal: `kill` with it only checks).
    pub const fn from_raw(number: i32) -> Option<Signal> {
        if number >= 1 && number <= Self::MAX { Some(Signal(number as u8)) } else { None }
    }

    pub const fn raw(self) -> i32 {
        self.0 as i32
    }

    /// This signal's bit in a signal set.
    pub const fn mask(self) -> u64 {
        1 << (self.0 - 1)
    }

    pub const fn is_realtime(self) -> bool {
        self.0 >= Self::SIGRTMIN as u8
    }

    /// SIGTERM and the like; None for a real-time signal.
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(self.0 as usize).copied()
    }

    /// The signal with this name, `SIGTERM` or `TERM` (as experiment files and kill(1) write it), or number.
    pub fn from_name(name: &str) -> Option<Signal> {
        if let Ok(number) = name.parse::<i32>() {
            return Signal::from_raw(number);
        }
        let upper = name.to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        match bare {
            "POLL" => return Some(Signal::SIGIO),
            "IOT" => return Some(Signal::SIGABRT),
            _ => {}
        }
        let known = |entry: &&str| entry.strip_prefix("SIG") == Some(bare);
        NAMES.iter().skip(1).position(known).map(|i| Signal(i as u8 + 1))
    }

    pub const fn default_action(self) -> DefaultAction {
        match self {
            Signal::SIGCHLD | Signal::SIGURG | Signal::SIGWINCH => DefaultAction::Ignore,
            Signal::SIGCONT => DefaultAction::Continue,
            Signal::SIGSTOP | Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU => DefaultAction::Stop,
            Signal::SIGQUIT
            | Signal::SIGILL
            | Signal::SIGTRAP
            | Signal::SIGABRT
            | Signal::SIGBUS
            | Signal::SIGFPE
            | Signal::SIGSEGV
            | Signal::SIGXCPU
            | Signal::SIGXFSZ
            | Signal::SIGSYS => DefaultAction::CoreDump,
            _ => DefaultAction::Terminate,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None if self.raw() == Self::SIGRTMIN => f.write_str("SIGRTMIN"),
            None => write!(f, "SIGRT_{}", self.raw() - Self::SIGRTMIN),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Handlers that are no addresses.
pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;

constants! {
    /// sigaction(2).
    SA_FLAGS: u64 {
        SA_NOCLDSTOP = 0x1,
        SA_NOCLDWAIT = 0x2,
        SA_SIGINFO = 0x4,
        SA_UNSUPPORTED = 0x400,
        SA_EXPOSE_TAGBITS = 0x800,
        SA_RESTORER = 0x0400_0000,
        SA_ONSTACK = 0x0800_0000,
        SA_RESTART = 0x1000_0000,
        SA_NODEFER = 0x4000_0000,
        SA_RESETHAND = 0x8000_0000,
    }
}

constants! {
    /// sigprocmask(2).
    SIGPROCMASK_HOW: i32 {
        SIG_BLOCK = 0,
        SIG_UNBLOCK = 1,
        SIG_SETMASK = 2,
    }
}

constants! {
    /// sigaltstack(2).
    SS_FLAGS: u32 {
        SS_ONSTACK = 1,
        SS_DISABLE = 2,
        SS_AUTODISARM = 0x8000_0000,
    }
}

pub const MINSIGSTKSZ: u64 = 2048;

constants! {
    /// `si_code` where it does not depend on the signal.
    SI_CODES: i32 {
        SI_USER = 0,
        SI_KERNEL = 0x80,
        SI_QUEUE = -1,
        SI_TIMER = -2,
        SI_MESGQ = -3,
        SI_ASYNCIO = -4,
        SI_SIGIO = -5,
        SI_TKILL = -6,
    }
}

constants! {
    /// `si_code` of SIGILL.
    ILL_CODES: i32 {
        ILL_ILLOPC = 1,
        ILL_ILLOPN = 2,
        ILL_ILLADR = 3,
        ILL_ILLTRP = 4,
        ILL_PRVOPC = 5,
        ILL_PRVREG = 6,
    }
}

constants! {
    /// `si_code` of SIGFPE.
    FPE_CODES: i32 {
        FPE_INTDIV = 1,
        FPE_INTOVF = 2,
        FPE_FLTDIV = 3,
        FPE_FLTOVF = 4,
        FPE_FLTUND = 5,
        FPE_FLTRES = 6,
        FPE_FLTINV = 7,
        FPE_FLTSUB = 8,
    }
}

constants! {
    /// `si_code` of SIGSEGV.
    SEGV_CODES: i32 {
        SEGV_MAPERR = 1,
        SEGV_ACCERR = 2,
        SEGV_BNDERR = 3,
        SEGV_PKUERR = 4,
    }
}

constants! {
    /// `si_code` of SIGBUS.
    BUS_CODES: i32 {
        BUS_ADRALN = 1,
        BUS_ADRERR = 2,
        BUS_OBJERR = 3,
    }
}

constants! {
    /// `si_code` of SIGTRAP.
    TRAP_CODES: i32 {
        TRAP_BRKPT = 1,
        TRAP_TRACE = 2,
        TRAP_BRANCH = 3,
        TRAP_HWBKPT = 4,
    }
}

constants! {
    /// `si_code` of SIGCHLD.
    CLD_CODES: i32 {
        CLD_EXITED = 1,
        CLD_KILLED = 2,
        CLD_DUMPED = 3,
        CLD_TRAPPED = 4,
        CLD_STOPPED = 5,
        CLD_CONTINUED = 6,
    }
}

constants! {
    /// `si_code` of SIGIO.
    POLL_CODES: i32 {
        POLL_IN = 1,
        POLL_OUT = 2,
        POLL_MSG = 3,
        POLL_ERR = 4,
        POLL_PRI = 5,
        POLL_HUP = 6,
    }
}

/// `si_code` of SIGSYS from a seccomp filter, and from syscall user dispatch.
pub const SYS_SECCOMP: i32 = 1;
pub const SYS_USER_DISPATCH: i32 = 2;

constants! {
    /// `sigev_notify`, timer_create(2).
    SIGEV_KINDS: i32 {
        SIGEV_SIGNAL = 0,
        SIGEV_NONE = 1,
        SIGEV_THREAD = 2,
        SIGEV_THREAD_ID = 4,
    }
}

/// What rt_sigaction(2) passes (not the C library's `sigaction`).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct KernelSigaction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: u64,
}

/// sigaltstack(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StackT {
    pub ss_sp: u64,
    pub ss_flags: u32,
    pub pad0: u32,
    pub ss_size: u64,
}

/// sigaction(2): 128 bytes whose tail depends on the signal.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Siginfo {
    pub si_signo: i32,
    pub si_errno: i32,
    pub si_code: i32,
    pub pad0: i32,
    /// The union, from byte 16 on.
    pub fields: [u64; 14],
}

const fn two(low: i32, high: i32) -> u64 {
    low as u32 as u64 | (high as u32 as u64) << 32
}

impl Siginfo {
    pub const fn new(signal: Signal, code: i32) -> Siginfo {
        Siginfo { si_signo: signal.raw(), si_errno: 0, si_code: code, pad0: 0, fields: [0; 14] }
    }

    /// From kill(2) (`SI_USER`) or tgkill(2) (`SI_TKILL`).
    pub const fn kill(signal: Signal, code: i32, pid: i32, uid: u32) -> Siginfo {
        let mut info = Siginfo::new(signal, code);
        info.fields[0] = two(pid, uid as i32);
        info
    }

    /// From sigqueue(3): `SI_QUEUE` with a value.
    pub const fn queue(signal: Signal, pid: i32, uid: u32, value: u64) -> Siginfo {
        let mut info = Siginfo::kill(signal, SI_QUEUE, pid, uid);
        info.fields[1] = value;
        info
    }

    /// A fault of the processor: SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP.
    pub const fn fault(signal: Signal, code: i32, address: u64) -> Siginfo {
        let mut info = Siginfo::new(signal, code);
        info.fields[0] = address;
        info
    }

    /// SIGCHLD: `code` is one of `CLD_*`, `status` the exit code or the signal; times in clock ticks.
    pub const fn child(code: i32, pid: i32, uid: u32, status: i32, utime: i64, stime: i64) -> Siginfo {
        let mut info = Siginfo::kill(Signal::SIGCHLD, code, pid, uid);
        info.fields[1] = status as u32 as u64;
        info.fields[2] = utime as u64;
        info.fields[3] = stime as u64;
        info
    }

    /// An expired POSIX timer.
    pub const fn timer(signal: Signal, timer_id: i32, overrun: i32, value: u64) -> Siginfo {
        let mut info = Siginfo::new(signal, SI_TIMER);
        info.fields[0] = two(timer_id, overrun);
        info.fields[1] = value;
        info
    }

    /// SIGIO: `code` is one of `POLL_*`, `band` poll's events.
    pub const fn poll(signal: Signal, code: i32, band: i64, fd: i32) -> Siginfo {
        let mut info = Siginfo::new(signal, code);
        info.fields[0] = band as u64;
        info.fields[1] = fd as u32 as u64;
        info
    }

    /// SIGSYS.
    pub const fn sys(code: i32, call_address: u64, number: i32, arch: u32) -> Siginfo {
        let mut info = Siginfo::new(Signal::SIGSYS, code);
        info.fields[0] = call_address;
        info.fields[1] = two(number, arch as i32);
        info
    }

    /// The sender, where the signal came from kill, sigqueue or a child.
    pub const fn si_pid(&self) -> i32 {
        self.fields[0] as i32
    }
    pub const fn si_uid(&self) -> u32 {
        (self.fields[0] >> 32) as u32
    }
    /// The address of a fault.
    pub const fn si_addr(&self) -> u64 {
        self.fields[0]
    }
    /// A child's exit code or signal.
    pub const fn si_status(&self) -> i32 {
        self.fields[1] as i32
    }
    /// The number of a POSIX timer, and how often it expired beyond the once that its signal tells of.
    pub const fn si_timer(&self) -> u32 {
        self.fields[0] as u32
    }
    pub const fn si_overrun(&self) -> i32 {
        (self.fields[0] >> 32) as i32
    }
    pub const fn set_si_overrun(&mut self, overrun: i32) {
        self.fields[0] = two(self.fields[0] as i32, overrun);
    }
    /// The value of sigqueue and of timers.
    pub const fn si_value(&self) -> u64 {
        self.fields[1]
    }
}

/// One record of signalfd(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalfdSiginfo {
    pub ssi_signo: u32,
    pub ssi_errno: i32,
    pub ssi_code: i32,
    pub ssi_pid: u32,
    pub ssi_uid: u32,
    pub ssi_fd: i32,
    pub ssi_tid: u32,
    pub ssi_band: u32,
    pub ssi_overrun: u32,
    pub ssi_trapno: u32,
    pub ssi_status: i32,
    pub ssi_int: i32,
    pub ssi_ptr: u64,
    pub ssi_utime: u64,
    pub ssi_stime: u64,
    pub ssi_addr: u64,
    pub ssi_addr_lsb: u16,
    pub pad0: u16,
    pub ssi_syscall: i32,
    pub ssi_call_addr: u64,
    pub ssi_arch: u32,
    pub pad1: [u8; 28],
}

/// timer_create(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sigevent {
    pub sigev_value: u64,
    pub sigev_signo: i32,
    pub sigev_notify: i32,
    /// With SIGEV_THREAD_ID: the thread.
    pub sigev_tid: i32,
    pub pad0: [u32; 11],
}

/// The registers in a signal frame, asm/sigcontext.h.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sigcontext {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub eflags: u64,
    pub cs: u16,
    pub gs: u16,
    pub fs: u16,
    pub ss: u16,
    pub err: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
    /// Where the extended state lies (64-byte aligned, XSAVE format); 0 for none.
    pub fpstate: u64,
    pub reserved1: [u64; 8],
}

/// The kernel's `ucontext`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ucontext {
    pub uc_flags: u64,
    pub uc_link: u64,
    pub uc_stack: StackT,
    pub uc_mcontext: Sigcontext,
    pub uc_sigmask: u64,
}

/// `uc_flags`: the extended state is in XSAVE format; `ss` is saved; `ss` is to be restored strictly.
pub const UC_FP_XSTATE: u64 = 1;
pub const UC_SIGCONTEXT_SS: u64 = 2;
pub const UC_STRICT_RESTORE_SS: u64 = 4;

/// What lies on the stack when a handler starts: `rsp` points at `pretcode`, `rsp + 8` is 16-byte aligned.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RtSigframe {
    /// The handler's return address: `sa_restorer`.
    pub pretcode: u64,
    pub uc: Ucontext,
    pub info: Siginfo,
}

/// Bytes 464 to 511 of the extended state in a frame, asm/sigcontext.h: says what follows the first 512.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FpxSwBytes {
    /// [`FP_XSTATE_MAGIC1`] when XSAVE state follows.
    pub magic1: u32,
    /// With the trailing [`FP_XSTATE_MAGIC2`].
    pub extended_size: u32,
    pub xfeatures: u64,
    pub xstate_size: u32,
    pub padding: [u32; 7],
}

pub const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
pub const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
/// Where [`FpxSwBytes`] lies in the extended state.
pub const FPX_SW_OFFSET: usize = 464;

assert_size! {
    KernelSigaction = 32, StackT = 24, Siginfo = 128, SignalfdSiginfo = 128, Sigevent = 64, Sigcontext = 256,
    Ucontext = 304, RtSigframe = 440, FpxSwBytes = 48,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_with_and_without_prefix_and_by_number() {
        assert_eq!(Signal::from_name("SIGTERM"), Some(Signal::SIGTERM));
        assert_eq!(Signal::from_name("kill"), Some(Signal::SIGKILL));
        assert_eq!(Signal::from_name("SIGPOLL"), Some(Signal::SIGIO));
        assert_eq!(Signal::from_name("34").map(|s| s.to_string()), Some("SIGRT_2".into()));
        assert_eq!(Signal::from_name("SIG"), None);
        assert_eq!(Signal::from_name("65"), None);
        assert_eq!(Signal::SIGSYS.raw(), 31);
        for number in 1..=31 {
            let signal = Signal::from_raw(number).unwrap();
            assert_eq!(Signal::from_name(signal.name().unwrap()), Some(signal));
        }
    }

    #[test]
    fn default_actions_follow_signal_7() {
        assert_eq!(Signal::SIGSEGV.default_action(), DefaultAction::CoreDump);
        assert_eq!(Signal::SIGCHLD.default_action(), DefaultAction::Ignore);
        assert_eq!(Signal::SIGPIPE.default_action(), DefaultAction::Terminate);
        assert_eq!(Signal::SIGTTIN.default_action(), DefaultAction::Stop);
        assert_eq!(Signal::from_raw(64).unwrap().default_action(), DefaultAction::Terminate);
        assert_eq!(Signal::SIGHUP.mask(), 1);
        assert_eq!(Signal::from_raw(64).unwrap().mask(), 1 << 63);
    }
}
