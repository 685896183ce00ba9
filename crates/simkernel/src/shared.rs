//! What processes can have in common, clone(2): memory (CLONE_VM), descriptors (CLONE_FILES), working directory and umask
//! (CLONE_FS), signal handlers (CLONE_SIGHAND). Each part lies in a pool, counted by the processes that use it.
//!
//! A process that executes has its memory with it ([`Memory`]), because nearly every call uses it together with the rest of the
//! kernel; at all other times it lies in the pool.

use crate::aio::Contexts;
use crate::fd_table::FdTable;
use crate::ids::{FileId, SpaceId};
use crate::process::Process;
use crate::program_files::PROGRAM;
use crate::signal::{Disposition, IGNORED_BY_DEFAULT, SIGNALS, SigSet};
use crate::vfs::settings::Settings;
use base::map::FastMap;
use guest::AddressSpace;
use linux_abi::fs::Stat;
use slab::Slab;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

/// The place of a part in its pool.
pub struct Key<T> {
    index: u32,
    part: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// The key of a process that is over: there is nothing behind it.
    pub const NONE: Key<T> = Key { index: u32::MAX, part: PhantomData };
}

impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.index.fmt(f)
    }
}

impl<T> Key<T> {
    /// The same for users of the same part, and for no others.
    pub fn number(self) -> u32 {
        self.index
    }
}

impl Key<Space> {
    /// The name of the address space where only a number will do.
    pub fn id(self) -> SpaceId {
        SpaceId(self.index)
    }
}

/// Parts of one kind, each with the number of its users.
#[derive(Debug)]
pub struct Pool<T> {
    slab: Slab<(u32, T)>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool { slab: Slab::new() }
    }
}

impl<T> Pool<T> {
    /// Adds a part, with one user.
    pub fn insert(&mut self, part: T) -> Key<T> {
        Key { index: self.slab.insert((1, part)) as u32, part: PhantomData }
    }

    /// One more process uses it.
    pub fn share(&mut self, key: Key<T>) -> Key<T> {
        self.slab[key.index as usize].0 += 1;
        key
    }

    /// A process is done with it: the part, when it was the last one.
    pub fn release(&mut self, key: Key<T>) -> Option<T> {
        let users = &mut self.slab[key.index as usize].0;
        *users -= 1;
        (*users == 0).then(|| self.slab.remove(key.index as usize).1)
    }

    pub fn users(&self, key: Key<T>) -> u32 {
        self.slab.get(key.index as usize).map_or(0, |(users, _)| *users)
    }

    pub fn get(&self, key: Key<T>) -> Option<&T> {
        self.slab.get(key.index as usize).map(|(_, part)| part)
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.slab.iter().map(|(_, (_, part))| part)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slab.iter_mut().map(|(_, (_, part))| part)
    }
}

impl<T> Index<Key<T>> for Pool<T> {
    type Output = T;
    #[inline]
    fn index(&self, key: Key<T>) -> &T {
        &self.slab[key.index as usize].1
    }
}

impl<T> IndexMut<Key<T>> for Pool<T> {
    #[inline]
    fn index_mut(&mut self, key: Key<T>) -> &mut T {
        &mut self.slab[key.index as usize].1
    }
}

/// An address space; None while a process that uses it executes.
pub type Space = Option<Box<AddressSpace>>;

/// A process's seat for its memory, which is taken while it executes.
#[derive(Debug, Default)]
pub struct Memory(pub(crate) Option<Box<AddressSpace>>);

impl Memory {
    /// The memory, if the process executes.
    pub fn resident(&self) -> Option<&AddressSpace> {
        self.0.as_deref()
    }
}

impl Deref for Memory {
    type Target = AddressSpace;
    #[inline]
    fn deref(&self) -> &AddressSpace {
        self.0.as_deref().expect("a process that executes has its memory")
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut AddressSpace {
        self.0.as_deref_mut().expect("a process that executes has its memory")
    }
}

/// Where a process is in the file tree, and what its new files may not have.
#[derive(Clone, Debug)]
pub struct Place {
    /// Absolute, as the guest sees it, without `.`, `..` and symbolic links.
    pub cwd: Vec<u8>,
    /// The working directory was removed: what it was like. Something else may be at its path.
    pub gone: Option<Box<Stat>>,
    /// What the process sees as `/`, chroot(2), in the same form; empty for the root itself.
    pub root: Vec<u8>,
    pub umask: u32,
}

impl Default for Place {
    fn default() -> Self {
        Place { cwd: b"/".to_vec(), gone: None, root: Vec::new(), umask: 0o022 }
    }
}

impl Place {
    /// An absolute path as the process sees it. None for what lies outside its root.
    pub fn shown(&self, path: &[u8]) -> Option<Vec<u8>> {
        let inside = path == self.root || path.strip_prefix(&self.root[..]).is_some_and(|rest| rest.starts_with(b"/"));
        let rest = inside.then(|| &path[self.root.len()..])?;
        Some(if rest.is_empty() { b"/".to_vec() } else { rest.to_vec() })
    }
}

/// What is done with each signal, by number less one.
#[derive(Clone, Debug)]
pub struct Handlers(pub [Disposition; SIGNALS]);

impl Default for Handlers {
    fn default() -> Self {
        Handlers([Disposition::default(); SIGNALS])
    }
}

impl Handlers {
    pub fn of(&self, signal: u32) -> Disposition {
        self.0[signal as usize - 1]
    }

    pub fn of_mut(&mut self, signal: u32) -> &mut Disposition {
        &mut self.0[signal as usize - 1]
    }

    /// Signals that call a function of the program.
    pub fn handled(&self) -> SigSet {
        let handled = self.0.iter().enumerate().filter(|(_, disposition)| disposition.handler > 1);
        SigSet(handled.fold(0, |set, (place, _)| set | 1 << place))
    }

    /// Whether a signal would have no effect at all: it ends no wait.
    pub fn ignores(&self, signal: u32) -> bool {
        match self.of(signal).handler {
            0 => IGNORED_BY_DEFAULT.contains(signal),
            handler => handler == 1,
        }
    }
}

/// The pools of one host.
#[derive(Debug, Default)]
pub struct Shared {
    pub spaces: Pool<Space>,
    pub fds: Pool<FdTable>,
    pub places: Pool<Place>,
    pub handlers: Pool<Handlers>,
    /// Contexts of asynchronous input and output. They go with the memory in which they are.
    pub(crate) aio: FastMap<SpaceId, Contexts>,
    /// What stands below `/proc/sys`.
    pub settings: Settings,
}

impl Shared {
    /// The memory of a process that may execute or not. None when it is over, or when another process executes in it.
    pub fn memory<'a>(&'a self, process: &'a Process) -> Option<&'a AddressSpace> {
        process.memory.0.as_deref().or_else(|| self.spaces.get(process.space)?.as_deref())
    }

    /// The open file behind a descriptor of any process.
    pub fn file(&self, process: &Process, fd: u32) -> Option<FileId> {
        if fd == PROGRAM {
            return process.program;
        }
        self.fds.get(process.fds)?.get(fd.into()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_below_the_root() {
        let place = Place { root: b"/jail".to_vec(), ..Place::default() };
        assert_eq!(place.shown(b"/jail/etc"), Some(b"/etc".to_vec()));
        assert_eq!(place.shown(b"/jail"), Some(b"/".to_vec()));
        assert_eq!((place.shown(b"/jailed"), place.shown(b"/")), (None, None));
        assert_eq!(Place::default().shown(b"/x"), Some(b"/x".to_vec()));
    }

    #[test]
    fn a_part_goes_with_its_last_user() {
        let mut pool = Pool::default();
        let key = pool.insert("part");
        assert_eq!(pool.share(key), key);
        assert_eq!(pool.users(key), 2);
        assert_eq!(pool.release(key), None);
        assert_eq!(pool[key], "part");
        assert_eq!(pool.release(key), Some("part"));
        assert_eq!((pool.users(key), pool.get(Key::NONE)), (0, None));
    }
}
