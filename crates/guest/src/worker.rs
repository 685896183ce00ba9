//! A worker: an OS thread that may run vcpus.

use crate::counters;
use crate::image::PAGE;
use crate::memory;
use crate::preempt::{self, Timers};
use crate::registers::XsaveArea;
use crate::sampling::Sampler;
use crate::signal_stack::SignalStack;
use crate::switch::{CLOCK_CALLS, SEAL, WorkerState, door_addresses};
use crate::traps;
use crate::vsyscall;
use base::map::FastMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
/// How often a worker that executes is asked whether its guest has come back.
const DEFAULT_TICK: Duration = Duration::from_millis(20);
const ARCH_SET_GS: i32 = 0x1001;
/// What guests can use beyond the fast path: x87, AVX-512 state, AMX; PKRU stays as the simulator set it.
const XCR0_PKRU: u64 = 1 << 9;
const XCR0_SSE_AVX: u64 = 0b110;
/// The components of AVX-512: masks, upper halves of ZMM0-15, ZMM16-31.
pub(crate) const AVX512: u32 = 0b1110_0000;

/// Why a thread cannot become a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerError(pub String);

impl std::fmt::Display for WorkerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkerError {}

/// The calling thread's licence to run vcpus. Bound to its thread: neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Worker {
    /// Never freed: a [`GuestProbe`] may look at it as long as it likes.
    pub(crate) state: &'static mut WorkerState,
    /// System calls that arrived by SIGSYS, by the address behind the instruction.
    misses: FastMap<u64, u64>,
    signal_stack: SignalStack,
    pub(crate) timers: Timers,
    /// What interrupts the thread for samples.
    pub(crate) sampler: Option<Sampler>,
    /// How many ticks a guest may execute through.
    pub(crate) patience: u32,
    /// What the clocks were set to.
    clocks_shown: (u64, u64),
    /// Whether it may run programs at fixed addresses (`memory::turns`).
    pub(crate) holds_fixed: bool,
    /// Registers are filled with ones before each entry.
    pub(crate) soils: bool,
    /// What of its state never changes: the two doors, and the seal.
    untouched: (u64, u64, u64),
    not_send: PhantomData<*mut ()>,
}

impl Worker {
    /// Prepares the calling thread: alternate signal stack, GS base, syscall user dispatch, trapping of the
    /// time-stamp counter, of `cpuid` where the processor can, and of vsyscalls.
    ///
    /// # Errors
    /// When the CPU or the kernel lacks something; the text says what and how to get it.
    pub fn new() -> Result<Worker, WorkerError> {
        check_cpu()?;
        traps::install();
        let (syscall_entry, emulate_entry, _) = door_addresses();
        // SAFETY: XGETBV with ecx = 0 is available wherever OSXSAVE is, which `check_cpu` has verified through AVX.
        let xcr0 = unsafe { std::arch::x86_64::_xgetbv(0) };
        let components = (xcr0 & !XCR0_PKRU) as u32;
        let room = map_state()?;
        // SAFETY: the mapping is fresh, large enough and aligned to a page, and lives as long as the process.
        let place: &'static mut std::mem::MaybeUninit<WorkerState> = unsafe { &mut *room.cast() };
        let state = place.write(WorkerState {
            syscall_entry,
            emulate_entry,
            host_rsp: 0,
            host_fs_base: read_fs_base(),
            vcpu: std::ptr::null_mut(),
            resume_rip: 0,
            scratch_rcx: 0,
            scratch_r11: 0,
            scratch_gs: 0,
            exit_kind: 0,
            emulate_info: 0,
            selector: AtomicU8::new(0),
            in_guest: 0,
            open: traps::OPEN_TSC | traps::OPEN_CPUID,
            has_xgetbv1: u8::from(has_xgetbv1()),
            xsave_mask: components,
            full_mask: components & !(XCR0_SSE_AVX as u32),
            clocks: Default::default(),
            fault: Default::default(),
            missed_site: 0,
            serving: [0; 3],
            seen_at: Default::default(),
            answers: Default::default(),
            ticks_left: 0,
            notices: Default::default(),
            samples: std::ptr::null_mut(),
            short_armed: 0,
            gs_lost: 0,
            stepping: 0,
            step_frame: [0; 5],
            step_frame_at: 0,
            scratch: XsaveArea([0; crate::registers::XSAVE_BYTES]),
            initial: XsaveArea([0; crate::registers::XSAVE_BYTES]),
            seal: SEAL,
        });
        state.initial.reset();
        state.step_frame_at = &raw const state.step_frame as u64;
        let signal_stack =
            SignalStack::new(state).map_err(|error| WorkerError(format!("a stack for signal handlers: {error}")))?;
        let mut worker = Worker {
            state,
            misses: FastMap::default(),
            signal_stack,
            timers: Timers::default(),
            sampler: None,
            patience: u32::MAX,
            clocks_shown: (0, 0),
            holds_fixed: false,
            soils: false,
            untouched: (syscall_entry, emulate_entry, SEAL),
            not_send: PhantomData,
        };
        worker.arm()?;
        worker.timers.start(DEFAULT_TICK).map_err(|error| WorkerError(format!("timer_create: {error}")))?;
        Ok(worker)
    }

    fn arm(&mut self) -> Result<(), WorkerError> {
        let state: *mut WorkerState = self.state;
        let stack = self.signal_stack.describe();
        // SAFETY: the stack lives until `drop` has disarmed the thread, the state for ever.
        unsafe {
            if libc::sigaltstack(&stack, std::ptr::null_mut()) != 0 {
                return Err(os_error("sigaltstack"));
            }
            if libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, state) != 0 {
                return Err(os_error("arch_prctl(ARCH_SET_GS)"));
            }
            let selector = state.cast::<u8>().add(traps::SELECTOR_OFFSET);
            let (restorer, restorer_bytes) = traps::restorer();
            if libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 1u64, restorer, restorer_bytes, selector) != 0 {
                return Err(WorkerError(
                    "this kernel has no syscall user dispatch, which Gnomon needs: use Linux 5.11 or newer".to_owned(),
                ));
            }
            CPUID_TRAPS.store(traps::close(self.state), Ordering::Relaxed);
        }
        vsyscall::catch().map_err(|error| {
            WorkerError(format!(
                "a seccomp filter for vsyscalls: {error}: use a kernel with CONFIG_SECCOMP_FILTER, and let it be used"
            ))
        })?;
        Ok(())
    }

    /// Fills x87, the vector registers and, where there is AVX-512, its registers with ones before each entry of a guest, as the worst
    /// of libraries might. Guests must see nothing of it: a check of the switch.
    pub fn set_soiling(&mut self, soils: bool) {
        self.soils = soils;
    }

    /// Lets other threads see whether this worker executes a guest.
    pub fn probe(&self) -> GuestProbe {
        // SAFETY: gettid has no preconditions.
        GuestProbe { state: &raw const *self.state, thread: unsafe { libc::gettid() } }
    }

    /// Ends the run, with its last guest's name, when that has written into the simulator's state.
    #[inline]
    pub(crate) fn check_state(&self) {
        let state = &*self.state;
        if (state.syscall_entry, state.emulate_entry, state.seal) != self.untouched {
            panic!("the guest has written into the simulator's memory: a wild pointer, or an attack");
        }
    }

    /// Takes the fixed addresses, at which the programs lie that are linked to them, unless another worker has them; whether it has them now.
    pub fn take_fixed(&mut self) -> bool {
        self.holds_fixed = self.holds_fixed || memory::take_fixed(self.number());
        self.holds_fixed
    }

    /// Gives up the fixed addresses if another worker sleeps until it can have them.
    pub fn leave_to_sleepers(&mut self) {
        if self.holds_fixed && memory::are_sleepers() {
            self.leave();
        }
    }

    /// Gives up the fixed addresses, so that guests at the same addresses on other workers can run.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.holds_fixed) {
            memory::leave_fixed();
        }
    }

    /// What tells this worker from all others; not 0.
    pub(crate) fn number(&self) -> u64 {
        &raw const *self.state as u64
    }

    /// What clocks show from now on, in nanoseconds since 1970 and since the host's start.
    #[inline]
    pub fn set_clocks(&mut self, real_ns: u64, monotonic_ns: u64) {
        const SECOND: u64 = 1_000_000_000;
        if self.clocks_shown == (real_ns, monotonic_ns) && self.state.clocks.cost == 0 {
            return;
        }
        self.clocks_shown = (real_ns, monotonic_ns);
        let clocks = &mut self.state.clocks;
        clocks.real = [real_ns / SECOND, real_ns % SECOND, real_ns % SECOND / 1000];
        clocks.monotonic = [monotonic_ns / SECOND, monotonic_ns % SECOND];
    }

    /// How many times guests may look at clocks before one of their looks is an exit, what each look takes, in nanoseconds, and what all
    /// of them may take; with 0 times every look is an exit.
    #[inline]
    pub fn set_looks(&mut self, looks: u32, cost_ns: u64, spare_ns: u64) {
        const LAST: u64 = 999_999_999;
        let clocks = &mut self.state.clocks;
        let by_time = if cost_ns == 0 {
            u64::MAX
        } else {
            let room = LAST - clocks.real[1].max(clocks.monotonic[1]);
            // A division would take as long as half of an entry. By the next power of two some looks less are answered without an exit.
            room.min(spare_ns) >> (u64::BITS - cost_ns.leading_zeros())
        };
        clocks.left = by_time.min(looks.into());
        clocks.cost = cost_ns;
    }

    /// The calls that were answered without an exit since last asked: (number, times).
    #[inline]
    pub fn take_looks(&mut self) -> Option<[(u64, u64); 3]> {
        let answered = &mut self.state.clocks.answered;
        if *answered == [0; 3] {
            return None;
        }
        let [a, b, c] = std::mem::take(answered);
        Some([(CLOCK_CALLS[0], a), (CLOCK_CALLS[1], b), (CLOCK_CALLS[2], c)])
    }

    /// Names what is being served, for the message of a crash of the simulator itself.
    pub fn set_serving(&mut self, host: u32, process: u32, thread: u32) {
        self.state.serving = [host, process, thread];
    }

    #[inline(always)]
    pub(crate) fn note_miss(&mut self) {
        if self.state.missed_site != 0 {
            self.count_miss();
        }
    }

    #[cold]
    fn count_miss(&mut self) {
        *self.misses.entry(self.state.missed_site).or_default() += 1;
        counters::count_miss();
    }

    /// When the last system call came through the net because no rewriting covered it: the address behind its instruction.
    #[inline]
    pub fn take_missed_site(&mut self) -> Option<u64> {
        match self.state.missed_site {
            0 => None,
            site => {
                self.state.missed_site = 0;
                Some(site)
            }
        }
    }

    /// Whether a guest has loaded GS, which is the simulator's, since this was last asked. Whenever that has happened,
    /// [`take_tick`](Self::take_tick) says that there was a tick.
    pub fn take_lost_gs(&mut self) -> bool {
        std::mem::take(&mut self.state.gs_lost) != 0
    }

    /// System calls of guests that no rewriting covered and user dispatch caught: (address behind the instruction, times),
    /// by address.
    pub fn misses(&self) -> Vec<(u64, u64)> {
        let mut list: Vec<_> = self.misses.iter().map(|(site, times)| (*site, *times)).collect();
        list.sort_unstable();
        list
    }
}

static CPUID_TRAPS: AtomicBool = AtomicBool::new(false);

/// Whether `cpuid` faults in guests wherever it lies (`cpuid_fault` in `/proc/cpuinfo`), as the first worker has found out.
pub fn traps_cpuid() -> bool {
    CPUID_TRAPS.load(Ordering::Relaxed)
}

/// A worker's state, with a page before and behind it that nobody can touch.
fn map_state() -> Result<*mut u8, WorkerError> {
    let state_bytes = std::mem::size_of::<WorkerState>().next_multiple_of(PAGE as usize);
    let page = PAGE as usize;
    // SAFETY: a new mapping at an address of the kernel's choice, and rights of a part of it.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), state_bytes + 2 * page, libc::PROT_NONE, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return Err(os_error("mmap"));
        }
        let state = start.cast::<u8>().add(page);
        // The state ends where a page does, or almost: what runs over its end meets the guard after 64 bytes at most.
        if libc::mprotect(state.cast(), state_bytes, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return Err(os_error("mprotect"));
        }
        Ok(state)
    }
}

/// Looks at a worker from another thread, for statistics of where its time goes.
#[derive(Debug)]
pub struct GuestProbe {
    state: *const WorkerState,
    thread: libc::pid_t,
}

// SAFETY: the state lives as long as the process, and is only read: what changes meanwhile by words that cannot tear.
unsafe impl Send for GuestProbe {}

impl GuestProbe {
    /// Whether the worker executes guest code at this moment, its page faults included.
    pub fn is_in_guest(&self) -> bool {
        // SAFETY: the byte is never freed. The worker's switch writes it with plain stores of one byte, which cannot tear.
        unsafe { (&raw const (*self.state).in_guest).read_volatile() != 0 }
    }

    /// The host, process and thread that the worker has served last; a mixture of two while it turns from one to the next.
    pub fn serving(&self) -> [u32; 3] {
        // SAFETY: as above, by words of four bytes.
        unsafe { (&raw const (*self.state).serving).read_volatile() }
    }

    /// Asks the worker's thread where it executes. It answers when the machine next lets it run.
    pub fn ask(&self) {
        preempt::ask(self.thread);
    }

    /// The address of the instruction at which the worker was when it last answered, and how often it has.
    pub fn seen_at(&self) -> (u64, u64) {
        // SAFETY: atomics that are never freed.
        let state = unsafe { &*self.state };
        (state.seen_at.load(Ordering::Relaxed), state.answers.load(Ordering::Acquire))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.leave();
        self.timers.stop();
        self.sampler = None;
        // SAFETY: undoes `arm` on the same thread (a worker is not `Send`) before the blocks it points to are freed.
        unsafe {
            libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0u64, 0u64, 0u64, 0u64);
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, 0u64);
            traps::open_all(self.state);
            let off = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&off, std::ptr::null_mut());
        }
    }
}

fn os_error(what: &str) -> WorkerError {
    WorkerError(format!("{what}: {}", std::io::Error::last_os_error()))
}

fn read_fs_base() -> u64 {
    let base: u64;
    // SAFETY: reads a register; `check_cpu` has verified that the kernel enables the instruction.
    unsafe { std::arch::asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

fn has_xgetbv1() -> bool {
    std::arch::x86_64::__cpuid_count(0xd, 1).eax & (1 << 2) != 0
}

/// The CPU must have what guests are promised (see `cpu`), and the kernel must let user code set FS base.
fn check_cpu() -> Result<(), WorkerError> {
    const AT_HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & AT_HWCAP2_FSGSBASE == 0 {
        return Err(WorkerError(
            "this kernel does not enable FSGSBASE: use Linux 5.9 or newer on a CPU that has it".to_owned(),
        ));
    }
    let missing = crate::cpu::missing_features();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(WorkerError(format!("this CPU lacks what guests are promised: {}", missing.join(", "))))
    }
}
