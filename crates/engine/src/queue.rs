//! A host's events in the order in which they happen.
//!
//! A 4-ary heap of 32-byte keys beside a slab of events: sifting moves keys only, whatever an event's size, and the four
//! children of a node lie on two cache lines. Nothing is allocated once the queue has reached its working size.

use base::{HostId, SimTime};

/// The place of an event in its host's order: the earlier field decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventKey {
    pub time: SimTime,
    /// What happens first at one moment (smaller first); the host's choice.
    pub class: u8,
    /// Who caused the event.
    pub source: HostId,
    /// The source's count; unique for one (class, source).
    pub sequence: u64,
}

/// An event taken from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<E> {
    pub key: EventKey,
    pub event: E,
}

/// Events ordered by [`EventKey`]. To cancel one, its owner ignores it when it comes (a generation number in the event tells).
#[derive(Debug)]
pub struct EventQueue<E> {
    owner: HostId,
    next_sequence: u64,
    heap: Vec<Entry>,
    slots: Vec<Slot<E>>,
    free: u32,
}

/// Field order is comparison order; `slot` never decides since keys are unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: SimTime,
    class_and_source: u64,
    sequence: u64,
    slot: u32,
}

#[derive(Debug)]
enum Slot<E> {
    Full(E),
    /// The next free slot, or `NONE`.
    Free(u32),
}

const ARITY: usize = 4;
const NONE: u32 = u32::MAX;

impl Entry {
    fn key(&self) -> EventKey {
        EventKey {
            time: self.time,
            class: (self.class_and_source >> 32) as u8,
            source: HostId(self.class_and_source as u32),
            sequence: self.sequence,
        }
    }
}

impl<E> EventQueue<E> {
    /// An empty queue of the host `owner`.
    pub fn new(owner: HostId) -> Self {
        EventQueue { owner, next_sequence: 0, heap: Vec::new(), slots: Vec::new(), free: NONE }
    }

    /// Adds an event that the host itself causes. Those of one class at one moment happen in the order of these calls.
    pub fn schedule(&mut self, time: SimTime, class: u8, event: E) {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.push(EventKey { time, class, source: self.owner, sequence }, event);
    }

    /// Adds an event under a given key, as it came with a message. Give messages a class of their own: two events of one key
    /// would have no order.
    pub fn push(&mut self, key: EventKey, event: E) {
        let slot = self.store(event);
        let class_and_source = u64::from(key.class) << 32 | u64::from(key.source.0);
        let entry = Entry { time: key.time, class_and_source, sequence: key.sequence, slot };
        self.heap.push(entry);
        self.sift_up(self.heap.len() - 1, entry);
    }

    /// The time of the first event.
    pub fn next_time(&self) -> Option<SimTime> {
        self.heap.first().map(|entry| entry.time)
    }

    pub fn peek(&self) -> Option<(EventKey, &E)> {
        let entry = self.heap.first()?;
        match &self.slots[entry.slot as usize] {
            Slot::Full(event) => Some((entry.key(), event)),
            Slot::Free(_) => unreachable!("a queued event has a full slot"),
        }
    }

    /// Takes the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<Event<E>> {
        let first = *self.heap.first()?;
        let last = self.heap.pop().expect("the heap has a first entry");
        if !self.heap.is_empty() {
            self.sift_down(last);
        }
        Some(Event { key: first.key(), event: self.take(first.slot) })
    }

    /// Takes the first event if it happens before `horizon`.
    pub fn pop_before(&mut self, horizon: SimTime) -> Option<Event<E>> {
        if self.next_time()? < horizon { self.pop() } else { None }
    }

    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    fn store(&mut self, event: E) -> u32 {
        let slot = self.free;
        if slot == NONE {
            self.slots.push(Slot::Full(event));
            return u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 events in one queue");
        }
        let place = &mut self.slots[slot as usize];
        match place {
            Slot::Free(next) => self.free = *next,
            Slot::Full(_) => unreachable!("the free list holds free slots"),
        }
        *place = Slot::Full(event);
        slot
    }

    fn take(&mut self, slot: u32) -> E {
        match std::mem::replace(&mut self.slots[slot as usize], Slot::Free(self.free)) {
            Slot::Full(event) => {
                self.free = slot;
                event
            }
            Slot::Free(_) => unreachable!("a queued event has a full slot"),
        }
    }

    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] < entry {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = entry;
    }

    /// Puts `entry` where the root was taken away.
    fn sift_down(&mut self, entry: Entry) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            if first >= heap.len() {
                break;
            }
            let end = (first + ARITY).min(heap.len());
            let mut least = first;
            for child in first + 1..end {
                if heap[child] < heap[least] {
                    least = child;
                }
            }
            if entry < heap[least] {
                break;
            }
            heap[at] = heap[least];
            at = least;
        }
        heap[at] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SeedTree;

    fn at(ns: u64) -> SimTime {
        SimTime::from_nanos(ns)
    }

    #[test]
    fn equal_times_are_ordered_by_class_then_source_then_sequence() {
        let mut queue = EventQueue::new(HostId(0));
        let mut keys = Vec::new();
        for sequence in [3, 1, 2] {
            for source in [HostId(2), HostId(0), HostId(u32::MAX)] {
                for class in [1, 0, 255] {
                    for time in [at(5), at(4)] {
                        keys.push(EventKey { time, class, source, sequence });
                    }
                }
            }
        }
        for key in &keys {
            queue.push(*key, *key);
        }
        keys.sort();
        let popped: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(popped.len(), keys.len());
        for (event, key) in popped.iter().zip(&keys) {
            assert_eq!(event.key, *key);
            assert_eq!(event.event, *key);
        }
    }

    #[test]
    fn own_events_of_one_moment_keep_their_order() {
        let mut queue = EventQueue::new(HostId(7));
        for event in 0..100 {
            queue.schedule(at(1), 0, event);
        }
        assert_eq!(queue.peek(), Some((EventKey { time: at(1), class: 0, source: HostId(7), sequence: 0 }, &0)));
        for event in 0..100 {
            assert_eq!(queue.pop().unwrap().event, event);
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn the_horizon_is_exclusive() {
        let mut queue = EventQueue::new(HostId(0));
        queue.schedule(at(10), 0, ());
        assert_eq!(queue.pop_before(at(10)), None);
        assert_eq!(queue.pop_before(at(11)).map(|e| e.key.time), Some(at(10)));
        assert_eq!(queue.pop_before(SimTime::MAX), None);
    }

    #[test]
    fn random_pushes_and_pops_agree_with_a_sorted_set_and_reuse_slots() {
        let mut rng = SeedTree::new(1).stream("queue", "test");
        let mut queue = EventQueue::new(HostId(0));
        let mut model = std::collections::BTreeMap::new();
        for sequence in 0..20_000u64 {
            let key = EventKey {
                time: at(rng.below(50) + sequence / 8),
                class: rng.below(2) as u8,
                source: HostId(rng.below(3) as u32),
                sequence,
            };
            queue.push(key, sequence);
            model.insert(key, sequence);
            if model.len() > 200 || rng.below(2) == 0 {
                let (key, event) = model.pop_first().unwrap();
                assert_eq!(queue.next_time(), Some(key.time));
                assert_eq!(queue.pop(), Some(Event { key, event }));
            }
            assert_eq!(queue.len(), model.len());
        }
        assert!(queue.slots.len() <= 201, "{} slots for at most 201 events", queue.slots.len());
    }

    #[test]
    fn events_are_dropped_with_the_queue() {
        let counted = std::sync::Arc::new(());
        let mut queue = EventQueue::new(HostId(0));
        for ns in 0..10 {
            queue.schedule(at(ns), 0, counted.clone());
        }
        drop(queue.pop());
        assert_eq!(std::sync::Arc::strong_count(&counted), 10);
        drop(queue);
        assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    }
}
