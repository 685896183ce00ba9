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

/// Reads in a row before the first interval that is measured.
const FIRST_READS: u32 = 4;
/// Further intervals begin at every eighth read of a row, up to `LAST_READS`. A benchmark that doubles its work computes almost nothing at first.
const FURTHER_READS: u32 = 8;
const LAST_READS: u32 = 64;
/// How many reads an interval spans. A benchmark reads the clock before and after its work, so one read would miss every second piece.
const SPAN: u32 = 2;
/// A row that has become this long is measured once more, over `READS_MEASURED` reads, to find loops of short pieces.
const MANY_READS: u32 = 8_192;
const READS_MEASURED: u32 = 64;
/// A thread that computes for less than this in an interval does something else: it is not worth a copy of its memory.
const COMPUTES: Duration = Duration::from_micros(100);
/// The same for `READS_MEASURED` reads.
const COMPUTES_IN_MANY: Duration = Duration::from_micros(800);
/// Another machine may judge an interval differently if it lies within this factor of the threshold.
const MARGIN: u32 = 2;
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
const STEADY_READS: u32 = 16;
/// The same in loops that double their work: the step has to keep up with it.
const STEADY_READS_OF_GROWING: u32 = 2;
const LONGEST_STEP: SimDuration = SimDuration::from_secs(1);

/// What a thread's reads of clocks without another call in between came to.
#[derive(Debug)]
pub(crate) struct ClockReads {
    /// How many there were in a row, as far as that matters.
    row: u32,
    /// How many the entry may answer by itself before one has to come to the kernel.
    free: u32,
    rows_left: u8,
    /// An interval of this row lay within `MARGIN` of the threshold.
    is_close: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Counting,
    /// The interval up to a later read, by its number in the row, is measured.
    Measuring {
        stopwatch: Stopwatch,
        until: u32,
    },
    /// This row is of no interest.
    Other,
    /// It computes between reads.
    Kept(Box<Kept>),
    /// Each read takes time. Those that have, and whether the one that is about to happen has.
    Passing {
        reads: u32,
        paid: bool,
        /// The step doubles after so many reads.
        steady: u32,
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
    /// It computed already in the first interval of its row.
    is_steady: bool,
    /// The processor time that it has taken since.
    computed: Duration,
}

impl ClockReads {
    pub(crate) const fn new() -> ClockReads {
        ClockReads { row: 0, free: FIRST_READS - 1, rows_left: MEASURED_ROWS, is_close: false, stage: Stage::Counting }
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
            Stage::Counting if self.rows_left > 0 => next_measured(self.row).saturating_sub(self.row.saturating_add(1)),
            Stage::Measuring { .. } | Stage::Passing { .. } => 0,
            _ => u32::MAX,
        };
    }

    /// An interval that was measured: whether it is worth to keep what the thread has now.
    fn judge(&mut self, interval: Duration) -> bool {
        let is_last = self.row > MANY_READS;
        let least = if is_last { COMPUTES_IN_MANY } else { COMPUTES };
        let computes = interval >= least;
        self.is_close |= (least / MARGIN..least * MARGIN).contains(&interval);
        self.set_stage(if computes || is_last { Stage::Other } else { Stage::Counting });
        computes
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

/// The number of the next read of a row, behind so many, from which on an interval is measured.
fn next_measured(row: u32) -> u32 {
    match row {
        0..FIRST_READS => FIRST_READS,
        MANY_READS.. => u32::MAX,
        LAST_READS.. => MANY_READS,
        _ => (row / FURTHER_READS + 1) * FURTHER_READS,
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
            Stage::Counting if reads.rows_left > 0 && reads.row == next_measured(reads.row - 1) => {
                // A row counts however short it is: else those of five reads would come to the kernel for two of them for ever.
                reads.rows_left -= u8::from(reads.row == FIRST_READS);
                let span = if reads.row < MANY_READS { SPAN } else { READS_MEASURED };
                reads.set_stage(Stage::Measuring { stopwatch: Stopwatch::start(), until: reads.row + span });
            }
            Stage::Measuring { stopwatch, until } if reads.row >= *until => {
                let interval = stopwatch.read();
                if reads.judge(interval) {
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
        let is_steady = self.thread.clock_reads.row == FIRST_READS + SPAN;
        self.thread.clock_reads.set_stage(Stage::Kept(Box::new(Kept {
            is_steady,
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
        (reads.row, reads.is_close) = (0, false);
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
        let steady = if kept.is_steady { STEADY_READS } else { STEADY_READS_OF_GROWING };
        let passing = Stage::Passing { reads: 0, paid: false, steady };
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
        if self.thread.clock_reads.is_close {
            self.interfered(Cause::Budget, "computed between reads of a clock as long as it takes to be looked at");
        }
        self.kernel.computing.clock_loops += 1;
        let number = u64::from(self.thread.vcpu.registers().rax as u32);
        Some(self.pass_by_read(number))
    }

    /// Lets time pass before a read of a clock, which then happens.
    fn pass_by_read(&mut self, number: u64) -> Turn {
        let registers = *self.thread.vcpu.registers();
        let Stage::Passing { reads, paid, steady } = &mut self.thread.clock_reads.stage else {
            unreachable!("time passes by reads of a clock in that stage only")
        };
        *paid = true;
        let doublings = (*reads / *steady).min(16);
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
