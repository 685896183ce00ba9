//! Loops that compute, read a clock, and do so again until the clock has moved far enough: how much a password's hash may cost is measured so
//! (murmurd's PBKDF2, gpg's s2k), and how fast a processor is. Computing takes no simulated time, so they would never end.
//!
//! How much a thread has computed is not the same in every run, so time cannot follow from that. But a loop of this kind goes on without end
//! until time passes, on any machine. So its memory is kept when it begins, at a certain read of a clock. When it has computed for a second
//! without any other call, it goes back there, and each read takes a fixed time from then on. When it was found out has no effect: what it did
//! since then has not happened.

use crate::computing::Computing;
use crate::ctx::Ctx;
use crate::run::Turn;
use base::{Cause, SimDuration};
use guest::{AddressSpace, Stopwatch, Vcpu, Worker};
use linux_abi::nr;
use std::time::Duration;

/// Reads in a row before the interval that is measured.
const FIRST_READS: u32 = 4;
/// A thread that computes for less than this between two reads does something else: it is not worth a copy of its memory.
const COMPUTES: Duration = Duration::from_micros(100);
/// As many rows of reads are measured of each thread: more would make programs dearer that read clocks for other purposes.
const MEASURED_ROWS: u8 = 16;
/// The processor time after which a loop goes back to its beginning.
const GOES_BACK_AFTER: Duration = Duration::from_secs(1);
/// Who came so near to that may have done it on a slower machine.
const NEARLY: Duration = Duration::from_millis(400);
/// The time that a read then takes. Two reads measure 10 ms in murmurd, and 100 ms of processor time in gpg.
const STEP: SimDuration = SimDuration::from_millis(16);
const STEP_OF_PROCESSOR: SimDuration = SimDuration::from_millis(128);
/// It doubles after so many reads, up to a second.
const STEADY_READS: u32 = 256;
const LONGEST_STEP: SimDuration = SimDuration::from_secs(1);

/// What a thread's reads of clocks without another call in between came to.
#[derive(Debug)]
pub(crate) struct ClockReads {
    /// How many there were in a row, as far as that matters.
    row: u32,
    /// How many the entry may answer by itself before one has to come to the kernel.
    free: u32,
    rows_left: u8,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Counting,
    /// The interval up to the next read is measured.
    Measuring(Stopwatch),
    /// This row is of no interest.
    Other,
    /// It computes between reads.
    Kept(Box<Kept>),
    /// Each read takes time. Those that have, and whether the one that is about to happen has.
    Passing {
        reads: u32,
        paid: bool,
    },
}

/// All that reads of clocks, and computing, change: as it was before a read.
#[derive(Debug)]
struct Kept {
    memory: AddressSpace,
    vcpu: Vcpu,
    calls: u64,
    calls_of_moment: u64,
    call_counts: Box<[u64; nr::COUNT]>,
    /// The processor time that it has taken since.
    computed: Duration,
}

impl ClockReads {
    pub(crate) const fn new() -> ClockReads {
        ClockReads { row: 0, free: FIRST_READS - 1, rows_left: MEASURED_ROWS, stage: Stage::Counting }
    }

    /// How many reads the entry may answer by itself before one has to come to the kernel. Asked before each entry.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// The entry has answered some.
    #[inline]
    pub(crate) fn answered(&mut self, reads: u64) {
        self.set_row(self.row.saturating_add(reads as u32));
    }

    fn set_row(&mut self, row: u32) {
        self.row = row;
        self.count_free();
    }

    fn set_stage(&mut self, stage: Stage) -> Stage {
        let before = std::mem::replace(&mut self.stage, stage);
        self.count_free();
        before
    }

    fn count_free(&mut self) {
        self.free = match self.stage {
            Stage::Counting if self.rows_left > 0 => FIRST_READS.saturating_sub(self.row.saturating_add(1)),
            Stage::Measuring(_) | Stage::Passing { .. } => 0,
            _ => u32::MAX,
        };
    }

    /// Whether a row has begun.
    #[inline]
    pub(crate) fn is_row(&self) -> bool {
        self.row != 0
    }

    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.stage, Stage::Kept(_))
    }
}

/// Whether a call reads a clock.
#[inline]
fn reads_clock(number: u64) -> bool {
    matches!(number as u32, nr::clock_gettime | nr::gettimeofday | nr::time | nr::times | nr::getrusage)
}

impl Ctx<'_> {
    /// A call is about to happen. Some when time passes before it.
    #[inline]
    pub(crate) fn note_reads(&mut self, number: u64) -> Option<Turn> {
        if reads_clock(number) {
            return self.note_read(number);
        }
        if self.thread.clock_reads.is_row() {
            self.note_other(number);
        }
        None
    }

    /// Another call ends a row. A signal's handler may come back in one in which reads take time: that such a loop was found does not change
    /// by it, and each has to be found only once.
    #[cold]
    fn note_other(&mut self, number: u64) {
        let comes_back = number as u32 == nr::rt_sigreturn;
        if !(comes_back && matches!(self.thread.clock_reads.stage, Stage::Passing { .. })) {
            self.end_row();
        }
    }

    #[cold]
    fn note_read(&mut self, number: u64) -> Option<Turn> {
        if self.kernel.time_moves() || self.kernel.watches_intervals {
            return None;
        }
        let reads = &mut self.thread.clock_reads;
        reads.set_row(reads.row.saturating_add(1));
        match &mut reads.stage {
            Stage::Counting if reads.rows_left > 0 && reads.row >= FIRST_READS => {
                reads.set_stage(Stage::Measuring(Stopwatch::start()));
            }
            Stage::Measuring(stopwatch) => {
                let computes = stopwatch.read() >= COMPUTES;
                reads.rows_left -= 1;
                reads.set_stage(Stage::Other);
                if computes {
                    self.keep_for_loop();
                }
            }
            Stage::Passing { paid, .. } => {
                let is_paid = std::mem::take(paid);
                if !is_paid {
                    return Some(self.pass_by_read(number));
                }
            }
            _ => {}
        }
        None
    }

    fn keep_for_loop(&mut self) {
        let Some(memory) = self.process.memory.keep(&mut self.kernel.region) else { return };
        self.thread.clock_reads.set_stage(Stage::Kept(Box::new(Kept {
            memory,
            vcpu: self.thread.vcpu.duplicate(),
            calls: self.process.calls,
            calls_of_moment: self.kernel.moment.spree.calls,
            call_counts: self.kernel.call_counts.clone(),
            computed: Duration::ZERO,
        })));
    }

    /// Another call, a signal, or the end of the thread's time slice: it does something else than read clocks.
    #[cold]
    pub(crate) fn end_row(&mut self) {
        let reads = &mut self.thread.clock_reads;
        reads.row = 0;
        if let Stage::Kept(kept) = reads.set_stage(Stage::Counting) {
            self.forget_kept(*kept);
        }
    }

    /// The time slice is over. A row in which reads take time goes on in the next one.
    #[inline]
    pub(crate) fn end_slice(&mut self) {
        if self.thread.clock_reads.is_kept() {
            self.end_row();
        }
    }

    fn forget_kept(&mut self, mut kept: Kept) {
        if kept.computed >= NEARLY {
            self.interfered(Cause::Budget, "computed for long between reads of a clock");
        }
        kept.memory.release(&mut self.kernel.region);
    }

    /// The thread has computed through more ticks. Some when it goes back to its loop's beginning.
    #[cold]
    pub(crate) fn compute_in_loop(&mut self, worker: &Worker, ticks: u32) -> Option<Turn> {
        let Stage::Kept(kept) = &mut self.thread.clock_reads.stage else { return None };
        kept.computed += worker.tick().saturating_mul(ticks);
        if kept.computed < GOES_BACK_AFTER {
            return None;
        }
        let passing = Stage::Passing { reads: 0, paid: false };
        let Stage::Kept(kept) = self.thread.clock_reads.set_stage(passing) else { return None };
        let Kept { memory, vcpu, calls, calls_of_moment, call_counts, .. } = *kept;
        self.process.memory.go_back(memory, &mut self.kernel.region);
        self.thread.vcpu = vcpu;
        self.process.calls = calls;
        self.kernel.moment.spree.calls = calls_of_moment;
        self.kernel.call_counts = call_counts;
        self.thread.computing = Computing::default();
        // Who has such loops may have more of them.
        self.thread.clock_reads.rows_left += 1;
        self.kernel.computing.clock_loops += 1;
        let number = u64::from(self.thread.vcpu.registers().rax as u32);
        Some(self.pass_by_read(number))
    }

    /// Lets time pass before a read of a clock, which then happens.
    fn pass_by_read(&mut self, number: u64) -> Turn {
        let registers = *self.thread.vcpu.registers();
        let Stage::Passing { reads, paid } = &mut self.thread.clock_reads.stage else {
            unreachable!("time passes by reads of a clock in that stage only")
        };
        *paid = true;
        let doublings = (*reads / STEADY_READS).min(16);
        *reads = reads.saturating_add(1);
        let of_processor = match number as u32 {
            nr::clock_gettime => crate::cpu_timers::is_cpu_clock(registers.rdi as i32),
            nr::times | nr::getrusage => true,
            _ => false,
        };
        let first = if of_processor { STEP_OF_PROCESSOR } else { STEP };
        let step = first.saturating_mul(1 << doublings).min(LONGEST_STEP);
        let original = self.process.memory.original_address(registers.rip);
        self.thread.vcpu.restart_syscall(number, original);
        self.thread.computing.napping = Some(self.now);
        self.nap(step)
    }
}
