//! Names of things inside one simulated host: plain numbers, so that everything can be `Send` and nothing points at anything.

use base::SeedTree;
use std::fmt;

/// The number of a host's first process outside of the simulation: in names of files, in logs and in statistics, as in Shadow's.
pub const FIRST_ID: u32 = 1000;

/// How many numbers the first one that a host gives out is drawn from. Linux gives out up to 4,194,304 (`kernel.pid_max`).
const FIRST_IDS: u32 = 1_000_000;

/// The first number that a host gives out where the experiment has this seed. Programs seed random numbers from theirs, so two hosts must not
/// begin with the same one.
pub fn first_id(seeds: &SeedTree, host: &str) -> u32 {
    FIRST_ID + seeds.stream(host, "process numbers").below(FIRST_IDS.into()) as u32
}

/// A thread's id. A process's first thread has the process's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tid(pub u32);

/// A process's id (`tgid` in Linux's words).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Pid(pub u32);

/// An open file description: a place in `Kernel::files`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// An address space: threads and `vfork` children that share memory have the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpaceId(pub u32);

impl Pid {
    pub fn main_thread(self) -> Tid {
        Tid(self.0)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Things by id, boxed, so that the one that executes can be taken out for the price of a pointer and put back.
///
/// Ids rise from the first one and are not used twice.
#[derive(Debug)]
pub struct IdTable<T> {
    first: u32,
    slots: Vec<Option<Box<T>>>,
}

impl<T> IdTable<T> {
    /// A table of a host that gives out numbers from `first` on.
    pub const fn from(first: u32) -> Self {
        IdTable { first, slots: Vec::new() }
    }

    #[inline]
    fn index(&self, id: u32) -> Option<usize> {
        id.checked_sub(self.first).map(|i| i as usize)
    }

    /// The thing with this id; None when there is none, or when it is taken out at the moment.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(self.index(id)?)?.as_deref()
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let index = self.index(id)?;
        self.slots.get_mut(index)?.as_deref_mut()
    }

    pub fn take(&mut self, id: u32) -> Option<Box<T>> {
        let index = self.index(id)?;
        self.slots.get_mut(index)?.take()
    }

    /// Puts a thing in its place, new or after `take`.
    pub fn put(&mut self, id: u32, thing: Box<T>) {
        let index = self.index(id).expect("no id lies below the first");
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(thing);
    }

    /// What is there at the moment, in rising order of id.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.as_deref())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.as_deref_mut())
    }
}
