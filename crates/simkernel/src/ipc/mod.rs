//! System V communication between the processes of one host, svipc(7), and POSIX message queues, mq_overview(7): what exists, who
//! waits for it. Owned by the kernel; the calls are in `syscalls/{shm,sem,msg,mqueue}.rs`.
//!
//! Who waits is served in order and by the one that makes it possible, as in Linux: a semaphore operation is carried out, a message
//! handed over, while the waiting thread still sleeps. What it then returns stands in its thread.

pub mod messages;
pub mod queues;
pub mod segments;
pub mod semaphores;

use linux_abi::Errno;
use linux_abi::ipc::{IPC_CREAT, IPC_EXCL, IPC_PRIVATE, IpcPerm};
use std::collections::BTreeMap;

/// Most things of one kind, ipc_namespace(7).
pub const IDS_MAX: usize = 32_000;
/// Bits of an identifier that are a place; above them is a counter that tells two users of a place apart.
const PLACE_BITS: u32 = 15;
/// Places are used again only after so many, or one and a half times as many as there are.
const LEAST_CYCLE: u32 = 64;

/// What a host's processes communicate by.
#[derive(Debug, Default)]
pub struct Ipc {
    pub segments: segments::Segments,
    pub semaphores: semaphores::SemaphoreSets,
    pub messages: messages::MessageQueues,
    pub queues: queues::Queues,
}

/// Who asks for something: effective ids, and what capabilities allow beyond them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// Has all rights to all things: CAP_IPC_OWNER.
    pub owns_all: bool,
    /// May change and remove all things: CAP_SYS_ADMIN.
    pub administers: bool,
    /// May have more than limits say: CAP_SYS_RESOURCE.
    pub exceeds_limits: bool,
}

#[cfg(test)]
impl Caller {
    pub const ROOT: Caller = Caller { uid: 0, gid: 0, owns_all: true, administers: true, exceeds_limits: true };

    pub fn of_user(uid: u32, gid: u32) -> Caller {
        Caller { uid, gid, owns_all: false, administers: false, exceeds_limits: false }
    }
}

/// The right to read, in the bits of one class of users.
pub const READ: u32 = 4;
/// The right to write (for semaphores: to alter).
pub const WRITE: u32 = 2;

/// Something with a key: things of one kind differ in what is below.
pub trait Keyed {
    fn perm(&self) -> &IpcPerm;
    fn perm_mut(&mut self) -> &mut IpcPerm;
}

/// EACCES unless the caller has these rights to it.
pub fn check(perm: &IpcPerm, caller: Caller, rights: u32) -> Result<(), Errno> {
    let class = match () {
        () if caller.owns_all => return Ok(()),
        () if caller.uid == perm.uid || caller.uid == perm.cuid => perm.mode >> 6,
        () if caller.gid == perm.gid || caller.gid == perm.cgid => perm.mode >> 3,
        () => perm.mode,
    };
    if rights & !class == 0 { Ok(()) } else { Err(Errno::EACCES) }
}

/// EPERM unless the caller may change or remove it.
pub fn check_owner(perm: &IpcPerm, caller: Caller) -> Result<(), Errno> {
    let owns = caller.administers || caller.uid == perm.uid || caller.uid == perm.cuid;
    if owns { Ok(()) } else { Err(Errno::EPERM) }
}

/// IPC_SET: owner and permission bits.
pub fn set_perm(perm: &mut IpcPerm, wanted: &IpcPerm) {
    (perm.uid, perm.gid) = (wanted.uid, wanted.gid);
    perm.mode = perm.mode & !0o777 | wanted.mode & 0o777;
}

/// The things of one kind, by identifier.
#[derive(Debug)]
pub struct Ids<T> {
    things: BTreeMap<u32, T>,
    last: Option<u32>,
    round: u16,
}

impl<T> Default for Ids<T> {
    fn default() -> Self {
        Ids { things: BTreeMap::new(), last: None, round: 0 }
    }
}

fn place(id: i32) -> u32 {
    id as u32 & ((1 << PLACE_BITS) - 1)
}

fn id_of(place: u32, perm: &IpcPerm) -> i32 {
    ((u32::from(perm.seq) << PLACE_BITS) | place) as i32
}

impl<T: Keyed> Ids<T> {
    pub fn len(&self) -> usize {
        self.things.len()
    }

    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// The identifiers in use with their things, in the order of places.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &T)> {
        self.things.iter().map(|(place, thing)| (id_of(*place, thing.perm()), thing))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (i32, &mut T)> {
        self.things.iter_mut().map(|(place, thing)| (id_of(*place, thing.perm()), thing))
    }

    /// The highest place in use, what the INFO commands return.
    pub fn highest(&self) -> u32 {
        self.things.last_key_value().map_or(0, |(place, _)| *place)
    }

    /// The thing of that identifier. EINVAL when there is none, EIDRM when its place belongs to a later one.
    pub fn get(&self, id: i32) -> Result<&T, Errno> {
        let thing = self.things.get(&place(id)).filter(|_| id >= 0).ok_or(Errno::EINVAL)?;
        if id_of(place(id), thing.perm()) == id { Ok(thing) } else { Err(Errno::EIDRM) }
    }

    pub fn get_mut(&mut self, id: i32) -> Result<&mut T, Errno> {
        self.get(id)?;
        self.things.get_mut(&place(id)).ok_or(Errno::EINVAL)
    }

    /// The identifier and the thing at a place, for the STAT commands. EINVAL.
    pub fn at_place(&self, index: i32) -> Result<(i32, &T), Errno> {
        let index = u32::try_from(index).map_err(|_| Errno::EINVAL)?;
        let thing = self.things.get(&place(index as i32)).ok_or(Errno::EINVAL)?;
        Ok((id_of(place(index as i32), thing.perm()), thing))
    }

    pub fn find(&self, key: i32) -> Option<i32> {
        if key == IPC_PRIVATE {
            return None;
        }
        self.iter().find(|(_, thing)| thing.perm().key == key).map(|(id, _)| id)
    }

    /// Adds a thing. ENOSPC when there are too many.
    pub fn insert(&mut self, mut thing: T) -> Result<i32, Errno> {
        if self.things.len() >= IDS_MAX {
            return Err(Errno::ENOSPC);
        }
        let cycle = (self.things.len() as u32 * 3 / 2).max(LEAST_CYCLE).min(IDS_MAX as u32);
        let after = self.last.map_or(0, |last| last + 1);
        let free = |place: &u32| !self.things.contains_key(place);
        let place = (after..cycle).find(free).or_else(|| (0..).find(free)).ok_or(Errno::ENOSPC)?;
        if self.last.is_some_and(|last| place <= last) {
            self.round = (self.round + 1) & 0x7fff;
        }
        self.last = Some(place);
        thing.perm_mut().seq = self.round;
        let id = id_of(place, thing.perm());
        self.things.insert(place, thing);
        Ok(id)
    }

    pub fn remove(&mut self, id: i32) -> Result<T, Errno> {
        self.get(id)?;
        self.things.remove(&place(id)).ok_or(Errno::EINVAL)
    }

    /// What the `get` calls do with a key: the thing that has it, or None when a new one is to be made. ENOENT, EEXIST, EINVAL for one that
    /// does not fit what the caller wants, EACCES: in this order (`ipcget_public`).
    pub fn look_up(
        &self,
        key: i32,
        flags: u32,
        caller: Caller,
        fits: impl FnOnce(&T) -> bool,
    ) -> Result<Option<i32>, Errno> {
        let Some(id) = self.find(key) else {
            return if key == IPC_PRIVATE || flags & IPC_CREAT != 0 { Ok(None) } else { Err(Errno::ENOENT) };
        };
        if flags & (IPC_CREAT | IPC_EXCL) == IPC_CREAT | IPC_EXCL {
            return Err(Errno::EEXIST);
        }
        let wanted = (flags >> 6 | flags >> 3 | flags) & 7;
        let thing = self.get(id)?;
        if !fits(thing) {
            return Err(Errno::EINVAL);
        }
        check(thing.perm(), caller, wanted)?;
        Ok(Some(id))
    }
}

/// The permissions of something new.
pub fn new_perm(key: i32, flags: u32, caller: Caller) -> IpcPerm {
    IpcPerm {
        key,
        uid: caller.uid,
        gid: caller.gid,
        cuid: caller.uid,
        cgid: caller.gid,
        mode: flags & 0o777,
        ..IpcPerm::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Caller = Caller::ROOT;

    #[derive(Debug)]
    struct Thing(IpcPerm);

    impl Keyed for Thing {
        fn perm(&self) -> &IpcPerm {
            &self.0
        }
        fn perm_mut(&mut self) -> &mut IpcPerm {
            &mut self.0
        }
    }

    fn thing(key: i32) -> Thing {
        Thing(new_perm(key, 0o640, ROOT))
    }

    #[test]
    fn an_identifier_of_something_removed_is_told_from_a_wrong_one() {
        let mut ids = Ids::default();
        let first = ids.insert(thing(1)).unwrap();
        assert_eq!((first, ids.get(1).err()), (0, Some(Errno::EINVAL)));
        ids.remove(first).unwrap();
        assert_eq!(ids.get(first).err(), Some(Errno::EINVAL));
        for place in 1..LEAST_CYCLE as i32 {
            assert_eq!(ids.insert(thing(1)), Ok(place));
            ids.remove(place).unwrap();
        }
        assert_eq!(ids.insert(thing(1)), Ok(1 << PLACE_BITS), "the first place again");
        assert_eq!(ids.get(first).err(), Some(Errno::EIDRM));
    }

    #[test]
    fn keys_find_what_exists() {
        let mut ids = Ids::default();
        assert_eq!(ids.look_up(7, 0, ROOT, |_| true), Err(Errno::ENOENT));
        assert_eq!(ids.look_up(7, IPC_CREAT | IPC_EXCL, ROOT, |_| true), Ok(None));
        let id = ids.insert(thing(7)).unwrap();
        assert_eq!(ids.look_up(7, IPC_CREAT, ROOT, |_| true), Ok(Some(id)));
        assert_eq!(ids.look_up(7, IPC_CREAT | IPC_EXCL, ROOT, |_| true), Err(Errno::EEXIST));
        assert_eq!(ids.look_up(IPC_PRIVATE, 0, ROOT, |_| true), Ok(None));
        let (group, other) = (Caller::of_user(5, 0), Caller::of_user(5, 5));
        assert_eq!(ids.look_up(7, 0o400, group, |_| true), Ok(Some(id)));
        assert_eq!(ids.look_up(7, 0o200, group, |_| true), Err(Errno::EACCES));
        assert_eq!(ids.look_up(7, 0o400, other, |_| true), Err(Errno::EACCES));
        assert_eq!(check_owner(ids.get(id).unwrap().perm(), other), Err(Errno::EPERM));
    }
}
