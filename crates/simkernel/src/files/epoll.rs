//! epoll(7). Each interest watches its file's wait queue; a notification puts it into the instance's ready list, and
//! `epoll_wait` looks only at that list, whatever the number of interests.

use super::FileKind;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::wait::{Events, Watcher};
use linux_abi::Errno;
use linux_abi::event::{EPOLLET, EPOLLEXCLUSIVE, EPOLLONESHOT, EPOLLWAKEUP, EpollEvent};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// How deep instances may watch each other.
const MAX_NESTING: usize = 5;
/// Bits of an interest that are no readiness events.
const FLAGS: u32 = EPOLLET | EPOLLEXCLUSIVE | EPOLLONESHOT | EPOLLWAKEUP;

#[derive(Debug)]
struct Item {
    file: FileId,
    /// The descriptor by which the file was named: with the file it is the interest's key.
    fd: u32,
    /// Events and flags as the guest gave them; no event bits while a one-shot interest is spent.
    events: u32,
    data: u64,
    /// Distinguishes users of the same place in the slab.
    serial: u64,
    /// It stands in the ready list.
    queued: bool,
}

impl Item {
    fn wanted(&self) -> Events {
        match self.events & !FLAGS {
            0 if self.has(EPOLLONESHOT) => Events::NONE,
            events => Events(events) | Events::ALWAYS,
        }
    }

    fn has(&self, flag: u32) -> bool {
        self.events & flag != 0
    }
}

#[derive(Debug, Default)]
pub struct Epoll {
    items: Slab<Item>,
    by_target: BTreeMap<(FileId, u32), u32>,
    ready: VecDeque<(u32, u64)>,
    serials: u64,
}

impl Epoll {
    /// Its interests, proc_pid_fdinfo(5).
    pub fn description(&self) -> String {
        let line = |(_, item): (usize, &Item)| {
            format!("tfd: {:8} events: {:8x} data: {:16x}\n", item.fd, item.events, item.data)
        };
        self.items.iter().map(line).collect()
    }

    fn find(&self, file: FileId, fd: u32) -> Result<u32, Errno> {
        self.by_target.get(&(file, fd)).copied().ok_or(Errno::ENOENT)
    }

    /// The next valid entry of the ready list; it is no longer queued.
    fn pop_ready(&mut self) -> Option<u32> {
        while let Some((index, serial)) = self.ready.pop_front() {
            if let Some(item) = self.items.get_mut(index as usize).filter(|item| item.serial == serial) {
                item.queued = false;
                return Some(index);
            }
        }
        None
    }

    /// What the entry of the ready list waits for, if it is valid.
    fn queued_at(&self, position: usize) -> Option<(FileId, Events)> {
        let (index, serial) = *self.ready.get(position)?;
        let item = self.items.get(index as usize).filter(|item| item.serial == serial)?;
        Some((item.file, item.wanted()))
    }

    /// Whether the item was not yet in the ready list.
    fn queue(&mut self, index: u32) {
        let item = &mut self.items[index as usize];
        if !item.queued {
            item.queued = true;
            self.ready.push_back((index, item.serial));
        }
    }
}

impl Kernel {
    pub(crate) fn epoll(&self, file: FileId) -> Result<&Epoll, Errno> {
        match &self.files[file].kind {
            FileKind::Epoll(epoll) => Ok(epoll),
            _ => Err(Errno::EINVAL),
        }
    }

    fn epoll_mut(&mut self, file: FileId) -> Result<&mut Epoll, Errno> {
        match &mut self.files[file].kind {
            FileKind::Epoll(epoll) => Ok(epoll),
            _ => Err(Errno::EINVAL),
        }
    }

    /// EPOLL_CTL_ADD. EEXIST, EINVAL (itself; exclusive with what it excludes), ELOOP, EPERM for files that cannot be waited for.
    pub fn epoll_add(&mut self, epoll: FileId, fd: u32, file: FileId, event: EpollEvent) -> Result<(), Errno> {
        if file == epoll {
            return Err(Errno::EINVAL);
        }
        let events = event.events;
        if !self.files[file].kind.pollable() {
            return Err(Errno::EPERM);
        }
        let target_is_epoll = matches!(self.files[file].kind, FileKind::Epoll(_));
        let exclusive_bits = EPOLLEXCLUSIVE | EPOLLET | EPOLLWAKEUP | Events::IN.0 | Events::OUT.0 | Events::ALWAYS.0;
        if events & EPOLLEXCLUSIVE != 0 && (target_is_epoll || events & !exclusive_bits != 0) {
            return Err(Errno::EINVAL);
        }
        if self.epoll(epoll)?.find(file, fd).is_ok() {
            return Err(Errno::EEXIST);
        }
        if target_is_epoll && !self.nesting_allowed(file, epoll, 1) {
            return Err(Errno::ELOOP);
        }
        let instance = self.epoll_mut(epoll)?;
        instance.serials += 1;
        let item = Item { file, fd, events, data: event.data, serial: instance.serials, queued: false };
        let wanted = item.wanted();
        let index = instance.items.insert(item) as u32;
        instance.by_target.insert((file, fd), index);
        self.files[file].queue.add(Watcher::Epoll {
            epoll,
            item: index,
            events: Events(wanted.0 | events & EPOLLEXCLUSIVE),
        });
        self.queue_if_ready(epoll, index);
        Ok(())
    }

    /// Whether the instance `from` may be watched by `outer`: no cycle, not too deep.
    fn nesting_allowed(&self, from: FileId, outer: FileId, depth: usize) -> bool {
        if from == outer || depth >= MAX_NESTING {
            return false;
        }
        let Ok(instance) = self.epoll(from) else { return true };
        let inner = instance.items.iter().map(|(_, item)| item.file);
        let epolls = inner.filter(|file| matches!(self.files[*file].kind, FileKind::Epoll(_)));
        epolls.into_iter().all(|file| self.nesting_allowed(file, outer, depth + 1))
    }

    /// EPOLL_CTL_MOD. ENOENT; EINVAL for exclusive interests.
    pub fn epoll_modify(&mut self, epoll: FileId, fd: u32, file: FileId, event: EpollEvent) -> Result<(), Errno> {
        let instance = self.epoll_mut(epoll)?;
        let index = instance.find(file, fd)?;
        let item = &mut instance.items[index as usize];
        if item.has(EPOLLEXCLUSIVE) || event.events & EPOLLEXCLUSIVE != 0 {
            return Err(Errno::EINVAL);
        }
        item.events = event.events;
        item.data = event.data;
        let wanted = item.wanted();
        for watcher in &mut self.files[file].queue.watchers {
            match watcher {
                Watcher::Epoll { epoll: e, item, events } if *e == epoll && *item == index => *events = wanted,
                _ => {}
            }
        }
        self.queue_if_ready(epoll, index);
        Ok(())
    }

    /// EPOLL_CTL_DEL. ENOENT.
    pub fn epoll_delete(&mut self, epoll: FileId, fd: u32, file: FileId) -> Result<(), Errno> {
        let instance = self.epoll_mut(epoll)?;
        let index = instance.find(file, fd)?;
        instance.by_target.remove(&(file, fd));
        instance.items.remove(index as usize);
        self.files[file].queue.remove_epoll(epoll, index);
        Ok(())
    }

    fn queue_if_ready(&mut self, epoll: FileId, index: u32) {
        let Ok(instance) = self.epoll(epoll) else { return };
        let item = &instance.items[index as usize];
        let (file, wanted) = (item.file, item.wanted());
        if self.poll_file(file).intersects(wanted) {
            self.mark_epoll_ready(epoll, index);
        }
    }

    /// An interest's file notified.
    pub(crate) fn mark_epoll_ready(&mut self, epoll: FileId, index: u32) {
        if let Ok(instance) = self.epoll_mut(epoll) {
            instance.queue(index);
            self.notify(epoll, Events::READABLE);
        }
    }

    /// Whether `epoll_wait` would find something.
    pub(crate) fn poll_epoll(&mut self, epoll: FileId) -> Events {
        let queued = self.epoll(epoll).map_or(0, |instance| instance.ready.len());
        let ready = (0..queued).any(|position| {
            let target = self.epoll(epoll).ok().and_then(|instance| instance.queued_at(position));
            target.is_some_and(|(file, wanted)| self.poll_file(file).intersects(wanted))
        });
        Events::READABLE.when(ready)
    }

    /// Up to `max` ready interests into `out`, in the order in which they became ready; level-triggered ones go back to the end.
    pub fn epoll_collect(&mut self, epoll: FileId, max: usize, out: &mut Vec<EpollEvent>) -> Result<(), Errno> {
        let mut again = Vec::new();
        while out.len() < max {
            let instance = self.epoll_mut(epoll)?;
            let Some(index) = instance.pop_ready() else { break };
            let item = &instance.items[index as usize];
            let (file, wanted) = (item.file, item.wanted());
            let ready = self.poll_file(file) & wanted;
            if ready.is_empty() {
                continue;
            }
            let item = &mut self.epoll_mut(epoll)?.items[index as usize];
            out.push(EpollEvent { events: ready.0, data: item.data });
            if item.has(EPOLLONESHOT) {
                item.events &= FLAGS;
            } else if !item.has(EPOLLET) {
                again.push(index);
            }
        }
        let instance = self.epoll_mut(epoll)?;
        for index in again {
            instance.queue(index);
        }
        Ok(())
    }

    /// An instance is closed for good: its interests leave their files' queues.
    pub(crate) fn close_epoll(&mut self, epoll: FileId, instance: Epoll) {
        for (index, item) in &instance.items {
            if let Some(file) = self.files.get_mut(item.file) {
                file.queue.remove_epoll(epoll, index as u32);
            }
        }
    }

    /// A watched file is closed for good: the interest in it vanishes.
    pub(crate) fn forget_epoll_item(&mut self, epoll: FileId, index: u32) {
        if let Ok(instance) = self.epoll_mut(epoll) {
            let item = instance.items.remove(index as usize);
            instance.by_target.remove(&(item.file, item.fd));
        }
    }
}
