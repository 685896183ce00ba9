//! inotify(7): instances, their watches, and what is told to them. Changes of files are reported by those that make them
//! (`Kernel::file_event` and its relatives); a host without instances does nothing for it.
//!
//! A watch knows its file by number and by path (the machine's): by number, since the file may have several names, by path, since a directory of the
//! machine gets another inode when the host's private part of it comes into being.

use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::user_io::ByteSink;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::*;
use std::collections::{BTreeMap, VecDeque};

/// `fs.inotify.max_queued_events`.
const QUEUE_MAX: usize = 16_384;
/// `fs.inotify.max_user_watches`, and instances.
const WATCHES_MAX: usize = 65_536;
pub const INSTANCES_MAX: usize = 128;
/// Bytes of `struct inotify_event`, and what names are rounded up to.
const EVENT_BYTES: usize = 16;
/// Events that programs can ask for.
const ALL_EVENTS: u32 = 0xfff;
const IN_UNMOUNT: u32 = 0x2000;
const IN_Q_OVERFLOW: u32 = 0x4000;
const IN_IGNORED: u32 = 0x8000;
pub const IN_MASK_CREATE: u32 = 0x1000_0000;
/// What `inotify_add_watch` takes.
const KNOWN: u32 = ALL_EVENTS
    | IN_UNMOUNT
    | IN_Q_OVERFLOW
    | IN_IGNORED
    | IN_ONLYDIR
    | IN_DONT_FOLLOW
    | IN_EXCL_UNLINK
    | IN_MASK_CREATE
    | IN_MASK_ADD
    | IN_ISDIR
    | IN_ONESHOT;

#[derive(Debug)]
struct Watch {
    /// None once the name is gone.
    path: Option<Vec<u8>>,
    number: u64,
    mask: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    wd: i32,
    mask: u32,
    cookie: u32,
    name: Vec<u8>,
}

impl Event {
    /// Bytes of its name, with at least one NUL, rounded up.
    fn name_bytes(&self) -> usize {
        if self.name.is_empty() { 0 } else { (self.name.len() + 1).next_multiple_of(EVENT_BYTES) }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(EVENT_BYTES + self.name_bytes());
        bytes.extend(self.wd.to_le_bytes());
        for word in [self.mask, self.cookie, self.name_bytes() as u32] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(&self.name);
        bytes.resize(EVENT_BYTES + self.name_bytes(), 0);
        bytes
    }
}

/// One instance.
#[derive(Debug, Default)]
pub struct Inotify {
    watches: BTreeMap<i32, Watch>,
    last: i32,
    queue: VecDeque<Event>,
    /// What reading everything would give.
    bytes: usize,
}

/// What happened: to a file, or to a name in a directory.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    /// Of the file, if the file itself is concerned.
    number: Option<u64>,
    path: &'a [u8],
    mask: u32,
    cookie: u32,
    /// The directory that it lies in learns of it.
    to_parent: bool,
    /// The name is gone already.
    unlinked: bool,
    /// The number of that directory, if it has been removed too.
    removed_parent: Option<u64>,
    /// By way of an open file: those that asked for IN_EXCL_UNLINK do not learn what is done so with a file whose name is gone.
    by_file: bool,
}

impl<'a> Change<'a> {
    /// Of a file with a name, which the directory learns too.
    fn of_file(path: &'a [u8], number: u64, mask: u32) -> Change<'a> {
        Change {
            number: Some(number),
            path,
            mask,
            cookie: 0,
            to_parent: true,
            unlinked: false,
            removed_parent: None,
            by_file: false,
        }
    }

    /// Of a name in a directory.
    fn of_name(path: &'a [u8], mask: u32, cookie: u32) -> Change<'a> {
        Change {
            number: None,
            path,
            mask,
            cookie,
            to_parent: true,
            unlinked: false,
            removed_parent: None,
            by_file: false,
        }
    }
}

impl Inotify {
    /// Its watches, proc_pid_fdinfo(5).
    pub fn description(&self) -> String {
        let line = |(wd, watch): (&i32, &Watch)| {
            format!("inotify wd:{wd:x} ino:{:x} sdev:1 mask:{:x} ignored_mask:0\n", watch.number, watch.mask)
        };
        self.watches.iter().map(line).collect()
    }

    pub fn poll(&self) -> Events {
        Events::READABLE.when(!self.queue.is_empty())
    }

    /// FIONREAD.
    pub fn available(&self) -> usize {
        self.bytes
    }

    /// Whole events, as many as fit. EAGAIN without any, EINVAL when the first does not fit. EFAULT for one that cannot be
    /// stored, whatever was before it; that one is lost (`inotify_read`).
    pub fn read(&mut self, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some(event) = self.queue.front() {
            let bytes = event.bytes();
            if bytes.len() > sink.remaining() {
                return if done == 0 { Err(Errno::EINVAL) } else { Ok(done) };
            }
            self.bytes -= bytes.len();
            self.queue.pop_front();
            if sink.put(&bytes) < bytes.len() {
                return Err(Errno::EFAULT);
            }
            done += bytes.len();
        }
        if done == 0 { Err(Errno::EAGAIN) } else { Ok(done) }
    }

    /// Adds an event, unless the last one is the same.
    fn push(&mut self, event: Event) {
        let same = |last: &Event| last.wd == event.wd && last.mask == event.mask && last.name == event.name;
        if self.queue.back().is_some_and(same) && event.mask & IN_IGNORED == 0 {
            return;
        }
        let event = match self.queue.len() {
            QUEUE_MAX => Event { wd: -1, mask: IN_Q_OVERFLOW, cookie: 0, name: Vec::new() },
            len if len > QUEUE_MAX => return,
            _ => event,
        };
        self.bytes += EVENT_BYTES + event.name_bytes();
        self.queue.push_back(event);
    }

    /// `inotify_add_watch` on a file: the watch's number.
    pub fn add(&mut self, path: Option<&[u8]>, number: u64, mask: u32) -> Result<i32, Errno> {
        let kept = mask & (ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK);
        let known = self.watches.iter_mut().find(|(_, watch)| watch.number == number);
        if let Some((wd, watch)) = known {
            if mask & IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            watch.mask = if mask & IN_MASK_ADD != 0 { watch.mask | kept } else { kept };
            return Ok(*wd);
        }
        if self.watches.len() >= WATCHES_MAX {
            return Err(Errno::ENOSPC);
        }
        self.last += 1;
        self.watches.insert(self.last, Watch { path: path.map(<[u8]>::to_vec), number, mask: kept });
        Ok(self.last)
    }

    /// Ends a watch. EINVAL when there is none of that number.
    pub fn remove(&mut self, wd: i32) -> Result<(), Errno> {
        self.watches.remove(&wd).ok_or(Errno::EINVAL)?;
        self.push(Event { wd, mask: IN_IGNORED, cookie: 0, name: Vec::new() });
        Ok(())
    }

    /// Tells a change to the watches that it concerns: the directory's first, then the file's own. Whether any was.
    fn tell(&mut self, change: &Change<'_>) -> bool {
        let before = self.queue.len();
        let is_kept = |watch: &Watch| change.unlinked && change.by_file && watch.mask & IN_EXCL_UNLINK != 0;
        if change.to_parent
            && let Some(slash) = change.path.iter().rposition(|&byte| byte == b'/')
        {
            let (parent, name) = (&change.path[..slash], &change.path[slash + 1..]);
            let is_parent = |watch: &Watch| match change.removed_parent {
                Some(number) => watch.number == number,
                None => watch.path.as_deref() == Some(parent),
            };
            let concerned = |watch: &Watch| is_parent(watch) && !is_kept(watch);
            self.tell_those(concerned, change.mask, change.cookie, name);
        }
        if let Some(number) = change.number {
            let path = (!change.unlinked).then_some(change.path);
            let is_own = |watch: &Watch| watch.number == number || (path.is_some() && watch.path.as_deref() == path);
            let concerned = |watch: &Watch| is_own(watch) && !is_kept(watch);
            // Nobody is told that a directory moved or went that it is one.
            let own = change.mask & (IN_DELETE_SELF | IN_MOVE_SELF) != 0;
            let mask = if own { change.mask & !IN_ISDIR } else { change.mask };
            self.tell_those(concerned, mask, 0, b"");
        }
        self.queue.len() != before
    }

    fn tell_those(&mut self, concerned: impl Fn(&Watch) -> bool, mask: u32, cookie: u32, name: &[u8]) {
        let wanted = |watch: &Watch| watch.mask & mask & ALL_EVENTS != 0 && concerned(watch);
        let told: Vec<(i32, u32)> =
            self.watches.iter().filter(|(_, watch)| wanted(watch)).map(|(wd, watch)| (*wd, watch.mask)).collect();
        for (wd, flags) in told {
            self.push(Event { wd, mask, cookie, name: name.to_vec() });
            if flags & IN_ONESHOT != 0 {
                // It was found just now.
                let _ = self.remove(wd);
            }
        }
    }

    /// The file is no more.
    fn forget(&mut self, number: u64) -> bool {
        let gone: Vec<i32> =
            self.watches.iter().filter(|(_, watch)| watch.number == number).map(|(wd, _)| *wd).collect();
        for wd in &gone {
            // As above.
            let _ = self.remove(*wd);
        }
        !gone.is_empty()
    }
}

/// Checks the mask of `inotify_add_watch`. EINVAL.
pub fn check_mask(mask: u32) -> Result<(), Errno> {
    if mask & KNOWN == 0 { Err(Errno::EINVAL) } else { Ok(()) }
}

/// The instances of a host, in order of creation.
#[derive(Debug, Default)]
pub struct Watchers {
    instances: Vec<FileId>,
    cookies: u32,
    /// Removed folders, by the machine's path and by number, that are kept by what is open of them, though it was removed too: a
    /// name that is in use holds the folder above it (`d_parent`).
    kept: Vec<(Vec<u8>, u64)>,
}

impl Watchers {
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    pub fn len(&self) -> usize {
        self.instances.len()
    }

    pub fn add(&mut self, file: FileId) {
        self.instances.push(file);
    }

    pub(crate) fn remove(&mut self, file: FileId) {
        self.instances.retain(|other| *other != file);
    }
}

impl Kernel {
    /// Lets every instance of the host look at something; those that got an event become readable.
    fn each_instance(&mut self, mut look: impl FnMut(&mut Inotify) -> bool) {
        for file in self.watchers.instances.clone() {
            let Some(super::FileKind::Inotify(instance)) = self.files.get_mut(file).map(|file| &mut file.kind) else {
                continue;
            };
            if look(instance) {
                self.notify(file, Events::READABLE);
            }
        }
    }

    /// Something was done with a file (`mask`), which the directory that it lies in learns too; `unlinked` when its name is gone.
    pub(crate) fn file_event(&mut self, path: &[u8], number: u64, mask: u32, unlinked: bool) {
        self.tell(Change { unlinked, ..Change::of_file(path, number, mask) });
    }

    fn tell(&mut self, change: Change<'_>) {
        if !self.watchers.is_empty() {
            let path = &*self.vfs.machine_path(change.path);
            let mut kept = self.watchers.kept.iter().filter(|_| change.unlinked);
            let removed_parent = kept.find(|(folder, _)| lies_in(path, folder)).map(|(_, number)| *number);
            self.each_instance(|instance| instance.tell(&Change { path, removed_parent, ..change }));
        }
    }

    /// Something was done by way of an open file.
    pub(crate) fn open_file_event(&mut self, id: FileId, mask: u32) {
        self.event_of_open_file(id, mask, true);
    }

    /// The size of an open file was set: that is told of the file, not of who has it open.
    pub(crate) fn size_event(&mut self, id: FileId) {
        self.event_of_open_file(id, IN_MODIFY, false);
    }

    fn event_of_open_file(&mut self, id: FileId, mask: u32, by_file: bool) {
        if !self.watchers.is_empty()
            && let Some(watched) = Watched::of(&self.files[id])
        {
            let number = self.watched_number(&watched);
            self.tell(Change { by_file, ..watched.change(number, mask) });
        }
    }

    /// The number by which watches know an open file.
    fn watched_number(&mut self, watched: &Watched) -> u64 {
        watched.number.unwrap_or_else(|| self.directory_number(&watched.path))
    }

    /// What stands for a directory in watches.
    fn directory_number(&mut self, path: &[u8]) -> u64 {
        match self.vfs.lookup_real(path) {
            Ok(Some(node)) => self.vfs.identities.of_node(&node),
            _ => crate::vfs::synthetic::number(path),
        }
    }

    /// An open file is closed for good. It may have been the last one by that name of a file or folder that has lost
    /// all names: its watches go then, whoever else has it open by another (`dentry_unlink_inode`).
    pub(crate) fn closed_file_event(&mut self, file: &super::OpenFile) {
        if self.watchers.is_empty() {
            return;
        }
        let mask = if file.writable() { IN_CLOSE_WRITE } else { IN_CLOSE_NOWRITE };
        if let Some(watched) = Watched::of(file) {
            let number = self.watched_number(&watched);
            self.tell(watched.change(number, mask));
        }
        if let Some((number, path)) = removed_name(&file.kind)
            && !self.files.iter().any(|(_, other)| removed_name(&other.kind) == Some((number, path)))
        {
            let path = &*self.vfs.machine_path(path);
            self.name_is_gone(path, number);
        }
        self.release_folders();
    }

    /// Nothing has a file or folder open by its last name, which is removed.
    fn name_is_gone(&mut self, path: &[u8], number: u64) {
        if self.keeps_folder(path) {
            let kept = (path.to_vec(), number);
            self.watchers.kept.push(kept);
        } else {
            self.file_is_gone(number);
        }
    }

    /// Ends the watches of removed folders that nothing keeps any more, from the lowest up.
    fn release_folders(&mut self) {
        while let Some(place) = (0..self.watchers.kept.len()).find(|place| {
            let (path, number) = &self.watchers.kept[*place];
            !self.keeps_folder(path) && !self.has_removed_name(*number)
        }) {
            let (_, number) = self.watchers.kept.remove(place);
            self.file_is_gone(number);
        }
    }

    /// Whether something is open, or kept itself, by a name in a folder that has been removed.
    fn keeps_folder(&self, path: &[u8]) -> bool {
        let lost_name = |file: &super::OpenFile| match &file.kind {
            // It may have other names still.
            super::FileKind::Regular(file) if file.unlinked || file.pinned.is_some() => {
                lies_in(&self.vfs.machine_path(&file.path), path)
            }
            kind => removed_name(kind).is_some_and(|(_, name)| lies_in(&self.vfs.machine_path(name), path)),
        };
        self.files.iter().any(|(_, file)| lost_name(file))
            || self.watchers.kept.iter().any(|(name, _)| lies_in(name, path))
    }

    /// Whether a file or folder without names is open.
    fn has_removed_name(&self, number: u64) -> bool {
        self.files.iter().any(|(_, file)| removed_name(&file.kind).is_some_and(|(of, _)| of == number))
    }

    /// Whether something that was opened by a name keeps it, now that its file has lost that name and all others. What
    /// a FIFO has open knows no name.
    fn is_open_by_name(&self, path: &[u8], number: u64) -> bool {
        let names = self.files.iter().filter_map(|(_, file)| removed_name(&file.kind));
        let mut names = names.filter(|(of, _)| *of == number).map(|(_, name)| name).peekable();
        names.peek().is_none() || names.any(|name| *self.vfs.machine_path(name) == *path)
    }

    fn file_is_gone(&mut self, number: u64) {
        self.tell(Change { to_parent: false, unlinked: true, ..Change::of_file(b"", number, IN_DELETE_SELF) });
        self.each_instance(|instance| instance.forget(number));
    }

    /// A name appeared in its directory.
    pub(crate) fn name_event(&mut self, path: &[u8], mask: u32) {
        self.tell(Change::of_name(path, mask, 0));
    }

    /// A name was removed: `last` when its file has no other, `in_use` when an open file keeps it.
    pub(crate) fn removal_event(&mut self, path: &[u8], number: u64, directory: bool, last: bool, in_use: bool) {
        if self.watchers.is_empty() {
            return;
        }
        if !directory {
            self.self_event(path, number, IN_ATTRIB);
        }
        self.forget_name(path, number, last, in_use);
        self.name_event(path, IN_DELETE | if directory { IN_ISDIR } else { 0 });
    }

    /// A name was overwritten by another file.
    pub(crate) fn replaced_event(&mut self, path: &[u8], number: u64, directory: bool, last: bool, in_use: bool) {
        if self.watchers.is_empty() {
            return;
        }
        let mask = IN_ATTRIB | if directory { IN_ISDIR } else { 0 };
        self.tell(Change { to_parent: false, unlinked: true, ..Change::of_file(path, number, mask) });
        self.forget_name(path, number, last, in_use);
    }

    fn forget_name(&mut self, path: &[u8], number: u64, last: bool, in_use: bool) {
        let path = &*self.vfs.machine_path(path);
        self.each_instance(|instance| {
            for watch in instance.watches.values_mut() {
                if watch.number == number && watch.path.as_deref() == Some(path) {
                    watch.path = None;
                }
            }
            false
        });
        if last && !(in_use && self.is_open_by_name(path, number)) {
            self.name_is_gone(path, number);
        }
    }

    /// A file moved. Watches of it, and below it, go along.
    pub(crate) fn move_event(&mut self, from: &[u8], to: &[u8], number: u64, directory: bool) {
        if self.watchers.is_empty() {
            return;
        }
        let (from, to) = (&*self.vfs.machine_path(from), &*self.vfs.machine_path(to));
        let kind = if directory { IN_ISDIR } else { 0 };
        self.watchers.cookies += 1;
        let cookie = self.watchers.cookies;
        for (path, mask) in [(from, IN_MOVED_FROM), (to, IN_MOVED_TO)] {
            self.tell(Change::of_name(path, mask | kind, cookie));
        }
        self.each_instance(|instance| {
            for watch in instance.watches.values_mut() {
                let Some(path) = &watch.path else { continue };
                if crate::vfs::mounts::is_below(path, from) && (directory || watch.number == number) {
                    watch.path = Some([to, &path[from.len()..]].concat());
                }
            }
            false
        });
    }

    /// The last part of a move: the file's own watches learn of it.
    pub(crate) fn moved_self_event(&mut self, number: u64) {
        // By its number alone: of two that exchange their names the other one has had the new name until now.
        self.tell(Change { to_parent: false, unlinked: true, ..Change::of_file(b"", number, IN_MOVE_SELF) });
    }

    /// Something was done with a file that only its own watches learn.
    pub(crate) fn self_event(&mut self, path: &[u8], number: u64, mask: u32) {
        self.tell(Change { to_parent: false, ..Change::of_file(path, number, mask) });
    }
}

/// An open file as watches know it.
struct Watched {
    path: Vec<u8>,
    /// None for a directory, which is known by what is at its path.
    number: Option<u64>,
    is_directory: bool,
    to_parent: bool,
    unlinked: bool,
}

impl Watched {
    /// None for what cannot be watched.
    fn of(file: &super::OpenFile) -> Option<Watched> {
        use super::FileKind::{Device, Directory, Regular, Snapshot};
        let made_up = |path: Vec<u8>| {
            let number = Some(crate::vfs::synthetic::number(&path));
            Watched { path, number, is_directory: false, to_parent: true, unlinked: false }
        };
        Some(match &file.kind {
            Regular(file) => Watched {
                path: file.path.clone(),
                number: Some(file.number),
                is_directory: false,
                // Files of memory lie in no folder.
                to_parent: !file.is_memory(),
                // It may have other names still.
                unlinked: file.unlinked || file.pinned.is_some(),
            },
            Directory(directory) => Watched {
                path: directory.path.clone(),
                number: directory.gone.as_ref().map(|stat| stat.st_ino),
                is_directory: true,
                to_parent: true,
                unlinked: directory.gone.is_some(),
            },
            Snapshot(snapshot) => made_up(snapshot.path.clone()),
            Device(device) => made_up(crate::vfs::synthetic::device_path(*device)),
            _ => return None,
        })
    }

    fn change(&self, number: u64, mask: u32) -> Change<'_> {
        let kind = if self.is_directory { IN_ISDIR } else { 0 };
        let change = Change::of_file(&self.path, number, mask | kind);
        Change { to_parent: self.to_parent, unlinked: self.unlinked, by_file: true, ..change }
    }
}

/// Whether a path names something in a folder, and not below it.
fn lies_in(path: &[u8], folder: &[u8]) -> bool {
    path.iter().rposition(|&byte| byte == b'/').is_some_and(|slash| path[..slash] == *folder)
}

/// What has something open of a file or folder that has no name any more: its number, and the name by which it was
/// opened.
fn removed_name(kind: &super::FileKind) -> Option<(u64, &[u8])> {
    let (path, gone) = match kind {
        super::FileKind::Regular(file) => return file.unlinked.then_some((file.number, &*file.path)),
        super::FileKind::Directory(directory) => (&directory.path, &directory.gone),
        super::FileKind::Name(place) => (&place.path, &place.gone),
        _ => return None,
    };
    gone.as_ref().filter(|stat| stat.st_nlink == 0).map(|stat| (stat.st_ino, &**path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user_io::VecSink;

    fn words(instance: &mut Inotify) -> Vec<(i32, u32)> {
        let mut sink = VecSink::new(4096);
        let _ = instance.read(&mut sink);
        let mut at = 0;
        let mut list = Vec::new();
        while at < sink.data.len() {
            let word = |i: usize| u32::from_le_bytes(sink.data[at + 4 * i..at + 4 * i + 4].try_into().unwrap());
            list.push((word(0) as i32, word(1)));
            at += EVENT_BYTES + word(3) as usize;
        }
        list
    }

    #[test]
    fn a_directory_hears_of_a_file_before_the_file_does() {
        let mut instance = Inotify::default();
        assert_eq!(instance.add(Some(b"/d"), 5, IN_OPEN), Ok(1));
        assert_eq!(instance.add(Some(b"/d/f"), 6, IN_OPEN | IN_MODIFY), Ok(2));
        assert!(instance.tell(&Change::of_file(b"/d/f", 6, IN_OPEN)));
        assert!(!instance.tell(&Change::of_file(b"/e/f", 7, IN_OPEN)));
        assert_eq!(instance.available(), 32 + 16);
        assert_eq!(words(&mut instance), [(1, IN_OPEN), (2, IN_OPEN)]);
        assert_eq!(instance.read(&mut VecSink::new(99)), Err(Errno::EAGAIN));
    }

    #[test]
    fn an_event_that_cannot_be_stored_is_lost() {
        struct Faulty;
        impl ByteSink for Faulty {
            fn remaining(&self) -> usize {
                4096
            }
            fn put(&mut self, _: &[u8]) -> usize {
                0
            }
        }
        let mut instance = Inotify::default();
        instance.add(Some(b"/f"), 6, IN_MODIFY | IN_ACCESS).unwrap();
        instance.tell(&Change::of_file(b"/f", 6, IN_MODIFY));
        instance.tell(&Change::of_file(b"/f", 6, IN_ACCESS));
        assert_eq!(instance.read(&mut Faulty), Err(Errno::EFAULT));
        assert_eq!((words(&mut instance), instance.available()), (vec![(1, IN_ACCESS)], 0));
    }

    #[test]
    fn equal_events_merge_and_too_many_are_one_overflow() {
        let mut instance = Inotify::default();
        instance.add(Some(b"/f"), 6, IN_MODIFY | IN_ACCESS).unwrap();
        for _ in 0..3 {
            instance.tell(&Change::of_file(b"/f", 6, IN_MODIFY));
        }
        assert_eq!(words(&mut instance), [(1, IN_MODIFY)]);
        for i in 0..QUEUE_MAX + 9 {
            instance.tell(&Change::of_file(b"/f", 6, if i % 2 == 0 { IN_MODIFY } else { IN_ACCESS }));
        }
        assert_eq!(instance.queue.len(), QUEUE_MAX + 1);
        assert_eq!(instance.queue.back().map(|event| (event.wd, event.mask)), Some((-1, IN_Q_OVERFLOW)));
    }

    #[test]
    fn watches_are_added_to_replaced_and_used_once() {
        let mut instance = Inotify::default();
        assert_eq!(instance.add(Some(b"/f"), 6, IN_MODIFY), Ok(1));
        assert_eq!(instance.add(Some(b"/f"), 6, IN_OPEN | IN_MASK_ADD), Ok(1));
        assert_eq!(instance.add(Some(b"/f"), 6, IN_OPEN | IN_MASK_CREATE), Err(Errno::EEXIST));
        instance.tell(&Change::of_file(b"/f", 6, IN_MODIFY));
        assert_eq!(instance.add(Some(b"/f"), 6, IN_OPEN | IN_ONESHOT), Ok(1));
        instance.tell(&Change::of_file(b"/f", 6, IN_OPEN));
        assert_eq!(words(&mut instance), [(1, IN_MODIFY), (1, IN_OPEN), (1, IN_IGNORED)]);
        assert_eq!((instance.remove(1), instance.add(Some(b"/f"), 6, IN_OPEN)), (Err(Errno::EINVAL), Ok(2)));
        assert_eq!((check_mask(0), check_mask(IN_OPEN)), (Err(Errno::EINVAL), Ok(())));
    }
}
