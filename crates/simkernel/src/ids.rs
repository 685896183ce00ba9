//! Names of things inside one simulated host: plain numbers, so that everything can be `Send` and nothing points at anything.

use std::fmt;

/// The first process id that a host gives out.
pub const FIRST_ID: u32 = 1000;

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
/// Ids rise from [`FIRST_ID`] and are not used twice.
#[derive(Debug)]
pub struct IdTable<T> {
    slots: Vec<Option<Box<T>>>,
}

impl<T> Default for IdTable<T> {
    fn default() -> Self {
        IdTable { slots: Vec::new() }
    }
}

impl<T> IdTable<T> {
    fn index(id: u32) -> Option<usize> {
        id.checked_sub(FIRST_ID).map(|i| i as usize)
    }

    /// The thing with this id; None when there is none, or when it is taken out at the moment.
    pub fn get(&self, id: u32) -> Option<&T> {
        self.slots.get(Self::index(id)?)?.as_deref()
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        self.slots.get_mut(Self::index(id)?)?.as_deref_mut()
    }

    pub fn take(&mut self, id: u32) -> Option<Box<T>> {
        self.slots.get_mut(Self::index(id)?)?.take()
    }

    /// Puts a thing in its place, new or after `take`.
    pub fn put(&mut self, id: u32, thing: Box<T>) {
        let index = Self::index(id).expect("ids begin at FIRST_ID");
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
