//! What threads execute between two system calls, by program, by the two calls and by the bytes that they move: how often, and how long it takes.
//!
//! Two uses. A run can measure it ([`Kernel::measure_intervals`]): how often is the same in every run, how long is the machine's. And a run can have it
//! take simulated time as a model says ([`Kernel::model_processor`]), drawn from the host's own random stream: then computing takes time, and the
//! run is the same to the bit all the same. The time passes at the end of an interval, before the call that ends it takes effect; that call
//! is then made again, which is no interval.

use crate::ctx::Ctx;
use crate::kernel::Kernel;
use crate::profiling::Span;
use crate::user_io::UserBuffers;
use base::map::FastMap;
use base::{Rng, SimDuration};
use guest::Exit;
use linux_abi::nr;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Stands for a call where a thread begins.
pub const START: u16 = u16::MAX;
/// What an interval takes at least where a model says how much: loops that only look at the clock come to an end.
const LEAST: u64 = 10;
/// Longer intervals of one model are a mistake in its file, and would stop a host for ever.
pub const MOST_NS: u64 = 3_600_000_000_000;

/// Which intervals are alike. Calls are numbers, or [`START`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntervalKind {
    /// Of a list of programs.
    pub program: u32,
    pub from: u16,
    pub to: u16,
    /// A class of sizes: see [`size_class`].
    pub size: u8,
}

/// The class of a number of bytes: 0 for none, else one more than the power of two that is not larger.
pub fn size_class(bytes: u64) -> u8 {
    (u64::BITS - bytes.leading_zeros()) as u8
}

/// The least number of bytes of a class.
pub fn least_of_class(class: u8) -> u64 {
    class.checked_sub(1).map_or(0, |power| 1 << power.min(63))
}

/// How long intervals of one kind took: each value within a sixteenth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredTimes {
    /// Intervals, and their time in nanoseconds, by a class of times.
    pub classes: BTreeMap<u16, (u64, u64)>,
}

impl MeasuredTimes {
    fn add(&mut self, time: Duration) {
        let ns = time.as_nanos() as u64;
        // Each by itself below 16, then sixteen classes for each power of two.
        let power = 63 - (ns | 16).leading_zeros() as u16;
        let class = if ns < 16 { ns as u16 } else { (power - 3) * 16 + (ns >> (power - 4)) as u16 % 16 };
        let entry = self.classes.entry(class).or_default();
        *entry = (entry.0 + 1, entry.1 + ns);
    }
}

/// What was measured on a host.
#[derive(Clone, Debug, Default)]
pub struct MeasuredIntervals {
    /// Files' names, without folders.
    pub programs: Vec<Arc<str>>,
    pub kinds: FastMap<IntervalKind, MeasuredTimes>,
}

/// What intervals take on a modelled processor, by program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorModel {
    pub programs: BTreeMap<String, Arc<ProgramModel>>,
    /// For programs that are not there: nanoseconds.
    pub mean_ns: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramModel {
    /// For pairs of calls that are not there: nanoseconds.
    pub mean_ns: u64,
    /// By the two calls: classes of sizes in order, each with times in nanoseconds (at least one) of which every one is as likely as the others.
    pub pairs: FastMap<(u16, u16), Vec<(u8, Box<[u64]>)>>,
}

/// How often a model was asked, and what it said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelCounts {
    pub intervals: u64,
    pub time: SimDuration,
    /// Intervals whose size was not there: the nearest one counted.
    pub other_sizes: u64,
    /// Intervals whose pair of calls was not there, and those whose program was not: a mean counted.
    pub unknown_pairs: u64,
    pub unknown_programs: u64,
}

/// Where a thread's interval stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    /// The call with which it began, and the bytes that this moved.
    from: u16,
    moved: u64,
    /// Processor time so far, where it is measured.
    used: Duration,
    /// It ended at this address, with the call that is going to be made again once its time has passed.
    paid_at: Option<u64>,
}

impl Default for Between {
    fn default() -> Self {
        Between { from: START, moved: 0, used: Duration::ZERO, paid_at: None }
    }
}

impl Between {
    /// Its time passes before the call at `rip`.
    pub(crate) fn pay(&mut self, rip: u64) {
        self.paid_at = Some(rip);
    }

    pub(crate) fn is_paid(&self) -> bool {
        self.paid_at.is_some()
    }
}

/// A host's part in both.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// Programs that were met: their files, and where a model has them.
    programs: Vec<(Vec<u8>, Option<Arc<ProgramModel>>)>,
    measured: Option<MeasuredIntervals>,
    /// When it is measured.
    span: Option<Span>,
    model: Option<(ProcessorModel, Rng)>,
    counts: ModelCounts,
}

impl Intervals {
    fn program(&mut self, exe: &[u8]) -> u32 {
        if let Some(known) = self.programs.iter().position(|(known, _)| known == exe) {
            return known as u32;
        }
        let file = exe.rsplit(|byte| *byte == b'/').next().unwrap_or(exe);
        let name = String::from_utf8_lossy(file).into_owned();
        let model = self.model.as_ref().and_then(|(model, _)| model.programs.get(&name).cloned());
        self.programs.push((exe.to_vec(), model));
        if let Some(measured) = &mut self.measured {
            measured.programs.push(name.into());
        }
        (self.programs.len() - 1) as u32
    }

    /// What an interval takes.
    fn draw(&mut self, kind: &IntervalKind) -> SimDuration {
        let Some((model, random)) = &mut self.model else { return SimDuration::ZERO };
        let counts = &mut self.counts;
        counts.intervals += 1;
        let ns = match &self.programs[kind.program as usize].1 {
            None => {
                counts.unknown_programs += 1;
                model.mean_ns
            }
            Some(program) => match program.pairs.get(&(kind.from, kind.to)) {
                None => {
                    counts.unknown_pairs += 1;
                    program.mean_ns
                }
                Some(sizes) => {
                    // Of two that are equally near, the larger.
                    let nearest = sizes.iter().min_by_key(|(size, _)| (size.abs_diff(kind.size), u8::MAX - size));
                    counts.other_sizes += u64::from(nearest.is_some_and(|(size, _)| *size != kind.size));
                    let times = nearest.map_or(&[][..], |(_, times)| times);
                    match times {
                        [] => program.mean_ns,
                        [only] => *only,
                        several => several[random.below(several.len() as u64) as usize],
                    }
                }
            },
        };
        let time = SimDuration::from_nanos(ns.clamp(LEAST, MOST_NS));
        counts.time = counts.time.saturating_add(time);
        time
    }
}

impl Kernel {
    fn intervals_mut(&mut self) -> &mut Intervals {
        (self.watches_calls, self.watches_intervals) = (true, true);
        self.intervals.get_or_insert_default()
    }

    /// It is to be measured how long intervals take that end in this time.
    pub fn measure_intervals(&mut self, span: Span) {
        let intervals = self.intervals_mut();
        (intervals.measured, intervals.span) = (Some(MeasuredIntervals::default()), Some(span));
    }

    /// From now on computing takes simulated time as a model says.
    pub fn model_processor(&mut self, model: ProcessorModel) {
        let random = self.config.seeds.stream(&self.config.name, "processor model");
        self.intervals_mut().model = Some((model, random));
    }

    /// Whether time moves by itself while threads run.
    pub(crate) fn time_moves(&self) -> bool {
        self.config.call_cost.is_some() || self.config.computing.speed.is_some() || self.has_model()
    }

    /// Whether computing takes time by a model.
    pub(crate) fn has_model(&self) -> bool {
        self.intervals.as_ref().is_some_and(|intervals| intervals.model.is_some())
    }

    pub(crate) fn measures_intervals(&self) -> bool {
        self.intervals.as_ref().is_some_and(|intervals| intervals.measured.is_some())
    }

    /// What was measured.
    pub fn take_measured(&mut self) -> MeasuredIntervals {
        self.intervals.as_mut().and_then(|intervals| intervals.measured.take()).unwrap_or_default()
    }

    /// How often the model was asked.
    pub fn model_counts(&self) -> ModelCounts {
        self.intervals.as_ref().map_or_else(ModelCounts::default, |intervals| intervals.counts)
    }
}

impl Ctx<'_> {
    /// A guest has come back that was executed for `used`, if that was measured. With a call its interval ends: the time that it takes.
    pub(crate) fn end_interval(&mut self, exit: &Exit, used: Duration) -> SimDuration {
        let Some(mut intervals) = self.kernel.intervals.take() else { return SimDuration::ZERO };
        let time = self.ended_interval(&mut intervals, exit, used);
        self.kernel.intervals = Some(intervals);
        time
    }

    fn ended_interval(&mut self, intervals: &mut Intervals, exit: &Exit, used: Duration) -> SimDuration {
        let registers = self.thread.vcpu.registers();
        let number = match exit {
            Exit::Syscall => u64::from(registers.rax as u32),
            Exit::Vsyscall { number } => *number,
            _ => {
                self.thread.between.used += used;
                return SimDuration::ZERO;
            }
        };
        let arguments = [registers.rdi, registers.rsi, registers.rdx];
        let Between { from, moved, used: before, paid_at } = std::mem::take(&mut self.thread.between);
        (self.thread.between.from, self.thread.between.moved) = (from, moved);
        if paid_at == Some(registers.rip) {
            return SimDuration::ZERO;
        }
        let program = intervals.program(&self.process.exe);
        let size = size_class(moved.max(self.bytes_to_move(number, arguments)));
        let kind = IntervalKind { program, from, to: number.min(u64::from(START) - 1) as u16, size };
        if let Some(measured) =
            intervals.measured.as_mut().filter(|_| intervals.span.is_some_and(|span| span.contains(self.now)))
        {
            measured.kinds.entry(kind).or_default().add(before + used);
        }
        intervals.draw(&kind)
    }

    /// The bytes that a call is going to write.
    fn bytes_to_move(&self, number: u64, [_, second, third]: [u64; 3]) -> u64 {
        /// Where `struct msghdr` has its vector.
        const VECTOR: u64 = 16;
        let memory = &self.process.memory;
        let total =
            |at: u64, count: u64| UserBuffers::vector(memory, at, count).map_or(0, |buffers| buffers.total() as u64);
        match u32::try_from(number) {
            Ok(nr::write | nr::pwrite64 | nr::sendto) => third,
            Ok(nr::writev | nr::pwritev) => total(second, third),
            Ok(nr::sendmsg) => match memory.read_value::<[u64; 2]>(second.wrapping_add(VECTOR)) {
                Ok([vector, count]) => total(vector, count),
                Err(_) => 0,
            },
            _ => 0,
        }
    }

    /// A call is over, with this result: another interval begins.
    pub(crate) fn begin_interval(&mut self, number: u64, result: Option<u64>) {
        let moves = matches!(
            u32::try_from(number),
            Ok(nr::read
                | nr::pread64
                | nr::readv
                | nr::preadv
                | nr::recvfrom
                | nr::recvmsg
                | nr::write
                | nr::pwrite64
                | nr::writev
                | nr::pwritev
                | nr::sendto
                | nr::sendmsg)
        );
        let moved = result.filter(|_| moves).unwrap_or(0);
        self.thread.between = Between { from: number.min(u64::from(START) - 1) as u16, moved, ..Between::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    #[test]
    fn sizes_are_in_classes_by_powers_of_two() {
        for (bytes, class, least) in [(0, 0, 0), (1, 1, 1), (2, 2, 2), (3, 2, 2), (1023, 10, 512), (1024, 11, 1024)] {
            assert_eq!((size_class(bytes), least_of_class(class)), (class, least), "{bytes}");
        }
        assert_eq!(least_of_class(size_class(u64::MAX)), 1 << 63);
    }

    #[test]
    fn times_are_in_classes_of_a_sixteenth() {
        let mut times = MeasuredTimes::default();
        for ns in [0, 1, 15, 16, 17, 31, 32, 33, 1_000, 1_010, 5_000_000] {
            times.add(Duration::from_nanos(ns));
        }
        let classes: Vec<(u64, u64)> = times.classes.values().copied().collect();
        let expected = [(1, 0), (1, 1), (1, 15), (1, 16), (1, 17), (1, 31), (2, 65), (2, 2_010), (1, 5_000_000)];
        assert_eq!(classes, expected);
    }

    fn intervals() -> Intervals {
        let pairs = [((1, 2), vec![(0, Box::from([500])), (4, Box::from([100, 200])), (8, Box::from([900]))])];
        let program = ProgramModel { mean_ns: 70, pairs: pairs.into_iter().collect() };
        let model = ProcessorModel { programs: [("known".to_owned(), Arc::new(program))].into(), mean_ns: 3 };
        let random = SeedTree::new(1).stream("host", "processor model");
        Intervals { model: Some((model, random)), ..Intervals::default() }
    }

    #[test]
    fn a_model_says_what_it_knows_and_means_of_the_rest() {
        let mut intervals = intervals();
        let known = intervals.program(b"/usr/bin/known");
        let other = intervals.program(b"/usr/bin/other");
        assert_eq!((known, other, intervals.program(b"/usr/bin/known")), (0, 1, 0));
        let mut draw = |program, from, size| intervals.draw(&IntervalKind { program, from, to: 2, size }).as_nanos();
        let drawn: Vec<u64> = (0..100).map(|_| draw(known, 1, 4)).collect();
        assert!(drawn.contains(&100) && drawn.contains(&200) && drawn.iter().all(|ns| [100, 200].contains(ns)));
        assert_eq!((draw(known, 1, 8), draw(known, 1, 20), draw(known, 1, 6), draw(known, 1, 1)), (900, 900, 900, 500));
        assert_eq!((draw(known, 7, 4), draw(other, 1, 4)), (70, LEAST));
        let counts = intervals.counts;
        assert_eq!(
            (counts.intervals, counts.other_sizes, counts.unknown_pairs, counts.unknown_programs),
            (106, 3, 1, 1)
        );
    }
}
