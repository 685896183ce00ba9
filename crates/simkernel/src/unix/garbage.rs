//! Sockets that are only in messages to each other: nobody can receive them any more, so they are closed (net/unix/garbage.c). Linux looks for
//! them whenever a socket is closed while others are in messages, and so do we.

use super::{Phase, UnixId};
use crate::files::FileKind;
use crate::ids::FileId;
use crate::kernel::Kernel;
use std::collections::{BTreeMap, BTreeSet};

impl Kernel {
    /// Throws away the messages that nobody can receive; whether there were any. Linux, too, does so before it closes the sockets that are in
    /// them: their peers see an end and no reset. Among many sockets it is looked for less often, so that each is looked at a few times only.
    pub(super) fn collect_unreachable_sockets(&mut self) -> bool {
        const OFTEN: usize = 64;
        if self.unix.rights_in_messages == 0 || self.unix.closed <= self.unix.slab.len() / OFTEN {
            return false;
        }
        self.unix.closed = 0;
        let mut messages = Vec::new();
        for id in self.unreachable_sockets() {
            if let Some(socket) = self.unix.get_mut(id) {
                messages.extend(std::mem::take(&mut socket.inbox));
            }
        }
        let found = !messages.is_empty();
        for packet in messages {
            self.drop_packet(packet);
        }
        found
    }

    /// Sockets whose files are all in messages that nobody can receive, and the connections that wait for them.
    fn unreachable_sockets(&self) -> Vec<UnixId> {
        let mut in_messages: BTreeMap<FileId, u32> = BTreeMap::new();
        for (_, socket) in &self.unix.slab {
            for file in socket.inbox.iter().flat_map(|packet| &packet.rights) {
                *in_messages.entry(*file).or_default() += 1;
            }
        }
        let is_held = |file: FileId| self.files[file].references > in_messages.get(&file).copied().unwrap_or(0);
        let mut reached = BTreeSet::new();
        let mut to_do: Vec<u32> = Vec::new();
        for (place, socket) in &self.unix.slab {
            if socket.file.is_some_and(is_held) && reached.insert(place as u32) {
                to_do.push(place as u32);
            }
        }
        while let Some(place) = to_do.pop() {
            let Some(socket) = self.unix.slab.get(place as usize) else { continue };
            let behind = socket.inbox.iter().flat_map(|packet| &packet.rights);
            let sent = behind.filter_map(|file| match self.files[*file].kind {
                FileKind::Unix(id) => Some(id),
                _ => None,
            });
            let waiting = match &socket.phase {
                Phase::Listening { waiting, .. } => waiting.iter().copied().collect(),
                _ => Vec::new(),
            };
            to_do.extend(sent.chain(waiting).map(|id| id.place).filter(|place| reached.insert(*place)));
        }
        let is_unreached = |(place, _): &(usize, _)| !reached.contains(&(*place as u32));
        let id = |(place, socket): (usize, &super::UnixSocket)| UnixId { place: place as u32, serial: socket.serial };
        self.unix.slab.iter().filter(is_unreached).map(id).collect()
    }
}
