//! The processors of a host: how many there are, on which one each thread is and may be, and which of
//! them compute.
//!
//! A thread begins on the next processor of those that it may use, counted over all threads that its
//! host has started. It stays there, unless its affinity mask leaves that processor out, or somebody
//! else computes there when it could go on and another processor is free.
//!
//! Guests execute one at a time, whatever the number of processors. Where their calls and computing
//! take simulated time, a thread keeps its processor while that time passes, and others execute at the
//! same moment on those that are left. A thread that finds none waits until one is free, in the order
//! of arrival; one that has computed for [`SLICE`] gives its processor to those that wait. On a host
//! with one processor time passes as `computing` and `run` say, and none of this has an effect.

use crate::ctx::Ctx;
use crate::ids::Tid;
use crate::kernel::Kernel;
use crate::run::Turn;
use crate::thread::ThreadState;
use base::{SimDuration, SimTime};
use std::collections::VecDeque;
use std::fmt::Write;

/// For how long a thread has its processor before others that wait for one get it.
const SLICE: SimDuration = SimDuration::from_millis(4);

const WORD_BITS: u16 = u64::BITS as u16;
const WORDS: usize = (ProcessorCount::MOST.0 / WORD_BITS) as usize;

/// A processor by its number, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Processor(pub u16);

/// How many processors a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorCount(u16);

impl ProcessorCount {
    pub const ONE: ProcessorCount = ProcessorCount(1);
    pub const MOST: ProcessorCount = ProcessorCount(256);

    /// None for 0, and for more than [`ProcessorCount::MOST`].
    pub fn new(count: u16) -> Option<ProcessorCount> {
        (1..=Self::MOST.0).contains(&count).then_some(ProcessorCount(count))
    }

    pub fn get(self) -> u16 {
        self.0
    }

    pub fn numbers(self) -> impl Iterator<Item = Processor> + Clone {
        (0..self.0).map(Processor)
    }

    pub fn all(self) -> ProcessorSet {
        self.numbers().collect()
    }

    /// The size of a mask of so many processors, as the kernel hands it out: whole words.
    pub fn mask_bytes(self) -> usize {
        usize::from(self.0.div_ceil(WORD_BITS)) * size_of::<u64>()
    }

    /// A set as files show masks (`%*pb` of the kernel's `printk`): groups of 32 in hexadecimal, the highest first.
    pub fn mask_text(self, set: ProcessorSet) -> String {
        const GROUP: u16 = 32;
        let mut text = String::new();
        for group in (0..self.0.div_ceil(GROUP)).rev() {
            let bits = (self.0 - group * GROUP).min(GROUP);
            let width = usize::from(bits.div_ceil(4));
            let word = set.0[usize::from(group / 2)] >> (group % 2 * GROUP) as u32;
            let comma = if text.is_empty() { "" } else { "," };
            write!(text, "{comma}{:0width$x}", word as u32).expect("a string takes everything");
        }
        text
    }
}

/// A set of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorSet([u64; WORDS]);

impl ProcessorSet {
    /// Whatever processors a host has.
    pub const ANY: ProcessorSet = ProcessorSet([u64::MAX; WORDS]);

    /// A mask as programs hand it over; what lies beyond the highest processor counts for nothing.
    pub fn from_mask(bytes: &[u8]) -> ProcessorSet {
        let mut words = [0; WORDS];
        for (word, part) in words.iter_mut().zip(bytes.chunks(size_of::<u64>())) {
            let mut whole = [0; size_of::<u64>()];
            whole[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(whole);
        }
        ProcessorSet(words)
    }

    pub fn to_mask(self) -> [u8; WORDS * size_of::<u64>()] {
        let mut bytes = [0; WORDS * size_of::<u64>()];
        for (part, word) in bytes.chunks_mut(size_of::<u64>()).zip(self.0) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn contains(self, processor: Processor) -> bool {
        let (word, bit) = place(processor);
        self.0[word] & bit != 0
    }

    pub fn insert(&mut self, processor: Processor) {
        let (word, bit) = place(processor);
        self.0[word] |= bit;
    }

    pub fn remove(&mut self, processor: Processor) {
        let (word, bit) = place(processor);
        self.0[word] &= !bit;
    }

    pub fn is_empty(self) -> bool {
        self.0 == [0; WORDS]
    }

    pub fn count(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn and(self, other: ProcessorSet) -> ProcessorSet {
        ProcessorSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub fn without(self, other: ProcessorSet) -> ProcessorSet {
        ProcessorSet(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    pub fn iter(self) -> impl Iterator<Item = Processor> + Clone {
        (0..ProcessorCount::MOST.0).map(Processor).filter(move |processor| self.contains(*processor))
    }

    /// This one if it is in the set, else the next one, in a circle. None for the empty set.
    fn at_or_after(self, processor: Processor) -> Option<Processor> {
        if self.contains(processor) {
            return Some(processor);
        }
        self.iter().find(|other| *other > processor).or_else(|| self.iter().next())
    }

    /// The set as files show lists: `0-3,7`.
    pub fn list_text(self) -> String {
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for Processor(number) in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let text = |(first, last): &(u16, u16)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        ranges.iter().map(text).collect::<Vec<_>>().join(",")
    }
}

impl FromIterator<Processor> for ProcessorSet {
    fn from_iter<I: IntoIterator<Item = Processor>>(processors: I) -> Self {
        let mut set = ProcessorSet::default();
        processors.into_iter().for_each(|processor| set.insert(processor));
        set
    }
}

/// The word of a set, and the bit in it.
fn place(Processor(number): Processor) -> (usize, u64) {
    (usize::from(number / WORD_BITS), 1 << (number % WORD_BITS))
}

/// Where a thread is, and where it may be.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    pub processor: Processor,
    /// As it, or its creator, has asked for; the host has at least one of them.
    pub allowed: ProcessorSet,
    /// Nobody else computes on its processor. It executes, or time passes for what it has computed.
    holds: bool,
    /// Since when, where it holds it.
    since: SimTime,
    /// Time passes for what it has computed: it holds its processor beyond the end of its turn.
    pub(crate) computes: bool,
}

impl Default for Placement {
    fn default() -> Self {
        Placement {
            processor: Processor(0),
            allowed: ProcessorSet::ANY,
            holds: false,
            since: SimTime::ZERO,
            computes: false,
        }
    }
}

impl Placement {
    /// What a thread begins with whose creator may use these.
    pub fn inherited(&self) -> Placement {
        Placement { allowed: self.allowed, ..Placement::default() }
    }
}

/// The processors of one host.
#[derive(Debug)]
pub(crate) struct Processors {
    all: ProcessorSet,
    has_several: bool,
    /// Those that a thread holds.
    held: ProcessorSet,
    /// Threads that can go on as soon as a processor is free that they may use.
    waiting: VecDeque<Tid>,
    /// Threads that have been started.
    started: u64,
}

impl Processors {
    pub(crate) fn new(count: ProcessorCount) -> Processors {
        Processors {
            all: count.all(),
            has_several: count != ProcessorCount::ONE,
            held: ProcessorSet::default(),
            waiting: VecDeque::new(),
            started: 0,
        }
    }

    /// Those of a set that there are.
    pub(crate) fn existing(&self, set: ProcessorSet) -> ProcessorSet {
        set.and(self.all)
    }

    /// Gives a thread that is started its first processor.
    pub(crate) fn start(&mut self, placement: &mut Placement) {
        let usable = self.existing(placement.allowed);
        let turn = self.started % usable.count().max(1) as u64;
        self.started += 1;
        placement.processor = usable.iter().nth(turn as usize).unwrap_or_default();
    }

    /// A thread may use these from now on, at least one of which there is. It moves at once if it is
    /// elsewhere: to a free one, where there is any. False when it executes, or computes, and the one to
    /// which it has moved is another thread's.
    pub(crate) fn confine(&mut self, placement: &mut Placement, allowed: ProcessorSet) -> bool {
        placement.allowed = allowed;
        if allowed.contains(placement.processor) {
            return true;
        }
        let (held, since) = (placement.holds, placement.since);
        self.release(placement);
        let usable = self.existing(allowed);
        let free = usable.without(self.held).at_or_after(placement.processor);
        placement.processor = free.or(usable.at_or_after(placement.processor)).unwrap_or_default();
        !held || self.take(placement, since)
    }

    /// Gives a thread a processor, its own if it is free. False when none is that it may use.
    fn take(&mut self, placement: &mut Placement, now: SimTime) -> bool {
        if placement.holds {
            return true;
        }
        let free = self.existing(placement.allowed).without(self.held);
        let Some(processor) = free.at_or_after(placement.processor) else { return false };
        self.held.insert(processor);
        *placement = Placement { processor, holds: true, since: now, ..*placement };
        true
    }

    /// A thread computes no longer.
    pub(crate) fn release(&mut self, placement: &mut Placement) {
        if std::mem::take(&mut placement.holds) {
            self.held.remove(placement.processor);
        }
        placement.computes = false;
    }

    /// A turn is over: its thread computes no longer, unless time passes for what it has computed.
    pub(crate) fn end_turn(&mut self, placement: &mut Placement) {
        if !placement.computes {
            self.release(placement);
        }
    }

    /// Whether a thread has had its processor for long enough, and somebody waits for one.
    fn is_over(&self, placement: &Placement, now: SimTime) -> bool {
        placement.holds && !self.waiting.is_empty() && now.saturating_since(placement.since) >= SLICE
    }
}

impl Kernel {
    /// The thread that executes next; it has a processor from then on.
    pub(crate) fn next_thread(&mut self) -> Option<Tid> {
        if !self.processors.has_several {
            return self.runnable.pop_front();
        }
        loop {
            if let Some(tid) = self.next_waiting() {
                return Some(tid);
            }
            let tid = self.runnable.pop_front()?;
            let Some(thread) = self.threads.get_mut(tid.0).filter(|thread| thread.state == ThreadState::Runnable)
            else {
                continue;
            };
            if self.processors.is_over(&thread.placement, self.now) {
                self.processors.release(&mut thread.placement);
                self.runnable.push_back(tid);
            } else if self.processors.take(&mut thread.placement, self.now) {
                return Some(tid);
            } else {
                self.processors.waiting.push_back(tid);
            }
        }
    }

    /// The first of those that wait for a processor which can have one now.
    fn next_waiting(&mut self) -> Option<Tid> {
        let processors = &mut self.processors;
        let mut index = 0;
        while index < processors.waiting.len() && processors.held != processors.all {
            let tid = processors.waiting[index];
            let thread = self.threads.get_mut(tid.0).filter(|thread| thread.state == ThreadState::Runnable);
            let has_one = thread.map(|thread| processors.take(&mut thread.placement, self.now));
            if has_one == Some(false) {
                index += 1;
                continue;
            }
            processors.waiting.remove(index);
            if has_one.is_some() {
                return Some(tid);
            }
        }
        None
    }

    /// Whether others can go on, at once or as soon as there is a processor for them.
    pub(crate) fn others_can_run(&self) -> bool {
        !self.runnable.is_empty() || !self.processors.waiting.is_empty()
    }

    /// Whether time must not pass within a thread's turn: others execute at the same moment on other
    /// processors, or are to have this one.
    #[inline]
    pub(crate) fn shares_time(&self, placement: &Placement, now: SimTime) -> bool {
        self.processors.has_several && (!self.runnable.is_empty() || self.processors.is_over(placement, now))
    }
}

impl Ctx<'_> {
    /// Ends the turn until the time has passed that the thread has computed for, or that its call takes.
    /// It keeps its processor meanwhile.
    pub(crate) fn compute_for(&mut self, time: SimDuration) -> Turn {
        self.thread.placement.computes = true;
        self.nap(time)
    }

    /// The thread goes on, perhaps on another processor than before: what shows the number is told.
    #[inline]
    pub(crate) fn show_processor(&mut self) {
        let number = u32::from(self.thread.placement.processor.0);
        if self.thread.vcpu.processor() != number {
            self.thread.vcpu.set_processor(number);
            self.abort_sequence();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u16]) -> ProcessorSet {
        numbers.iter().copied().map(Processor).collect()
    }

    fn count(number: u16) -> ProcessorCount {
        ProcessorCount::new(number).unwrap()
    }

    fn placed(processors: &mut Processors, allowed: ProcessorSet) -> Placement {
        let mut placement = Placement { allowed, ..Placement::default() };
        processors.start(&mut placement);
        placement
    }

    #[test]
    fn a_host_has_1_to_256_processors() {
        assert_eq!([0, 257].map(ProcessorCount::new), [None; 2]);
        assert_eq!(count(256).all(), ProcessorSet::ANY);
        assert_eq!([1, 64, 65, 256].map(|number| count(number).mask_bytes()), [8, 8, 16, 32]);
    }

    #[test]
    fn sets_are_shown_as_linux_shows_them() {
        let texts = |number: u16, numbers: &[u16]| (count(number).mask_text(set(numbers)), set(numbers).list_text());
        assert_eq!(texts(1, &[0]), ("1".to_owned(), "0".to_owned()));
        assert_eq!(texts(4, &[0, 1, 2, 3]), ("f".to_owned(), "0-3".to_owned()));
        assert_eq!(texts(6, &[0, 2, 3, 5]), ("2d".to_owned(), "0,2-3,5".to_owned()));
        assert_eq!(texts(8, &[0]), ("01".to_owned(), "0".to_owned()));
        assert_eq!(texts(36, &[1, 31, 32]), ("1,80000002".to_owned(), "1,31-32".to_owned()));
        assert_eq!(texts(256, &[255]).0, format!("80000000{}", ",00000000".repeat(7)));
    }

    #[test]
    fn masks_keep_their_bits() {
        let some = set(&[0, 9, 64, 255]);
        assert_eq!(ProcessorSet::from_mask(&some.to_mask()), some);
        assert_eq!(ProcessorSet::from_mask(&[0xff; 64]), ProcessorSet::ANY);
        assert_eq!(ProcessorSet::from_mask(&[2]), set(&[1]));
        assert_eq!(ProcessorSet::from_mask(&[]), ProcessorSet::default());
    }

    #[test]
    fn threads_begin_one_after_the_other_within_their_masks() {
        let mut processors = Processors::new(count(4));
        let any: Vec<u16> = (0..6).map(|_| placed(&mut processors, ProcessorSet::ANY).processor.0).collect();
        assert_eq!(any, [0, 1, 2, 3, 0, 1]);
        let two: Vec<u16> = (0..4).map(|_| placed(&mut processors, set(&[1, 3, 9])).processor.0).collect();
        assert_eq!(two, [1, 3, 1, 3]);
    }

    #[test]
    fn who_computes_has_the_processor_alone() {
        let mut processors = Processors::new(count(2));
        let mut threads: Vec<Placement> = (0..3).map(|_| placed(&mut processors, ProcessorSet::ANY)).collect();
        assert_eq!(threads.iter().map(|thread| thread.processor.0).collect::<Vec<_>>(), [0, 1, 0]);
        let now = SimTime::ZERO;
        assert!(processors.take(&mut threads[0], now));
        assert!(processors.take(&mut threads[2], now), "the other one is free");
        assert_eq!(threads[2].processor, Processor(1));
        assert!(!processors.take(&mut threads[1], now));
        threads[0].computes = true;
        processors.end_turn(&mut threads[0]);
        assert!(!processors.take(&mut threads[1], now), "it computes");
        processors.end_turn(&mut threads[2]);
        assert!(processors.take(&mut threads[1], now));
        assert_eq!(threads[1].processor, Processor(1));
    }

    #[test]
    fn who_is_confined_moves_at_once() {
        let mut processors = Processors::new(count(4));
        let mut threads: Vec<Placement> = (0..2).map(|_| placed(&mut processors, ProcessorSet::ANY)).collect();
        assert!(processors.take(&mut threads[0], SimTime::ZERO) && processors.take(&mut threads[1], SimTime::ZERO));
        assert!(processors.confine(&mut threads[0], set(&[0, 2])));
        assert_eq!(threads[0].processor, Processor(0), "where it was");
        assert!(processors.confine(&mut threads[0], set(&[1, 3])));
        assert_eq!(threads[0].processor, Processor(3), "the free one");
        assert!(!processors.confine(&mut threads[0], set(&[1])), "it has to wait");
        assert_eq!(threads[0].processor, Processor(1));
        processors.end_turn(&mut threads[1]);
        assert!(processors.take(&mut threads[0], SimTime::ZERO));
    }

    #[test]
    fn slices_end_where_somebody_waits() {
        let mut processors = Processors::new(count(2));
        let mut thread = placed(&mut processors, ProcessorSet::ANY);
        assert!(processors.take(&mut thread, SimTime::ZERO));
        let late = SimTime::ZERO + SLICE;
        assert!(!processors.is_over(&thread, late));
        processors.waiting.push_back(Tid(1000));
        assert!(processors.is_over(&thread, late) && !processors.is_over(&thread, SimTime::ZERO));
    }
}
