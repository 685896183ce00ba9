//! Sockets of the Unix family: streams, datagrams, sequenced packets, between the processes of one host (net/unix/af_unix.c).
//!
//! A message goes straight into the receiver's inbox; the sender is charged for it, as on Linux, until it is read. Names are
//! either abstract or those of socket files, which are known by their inodes, so that renaming one moves the name.

pub mod connect;
mod garbage;
pub mod listing;
pub mod names;
pub mod options;
pub mod transfer;

use crate::files::{FileKind, OpenFile};
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::net::address::RawAddress;
use crate::net::filter::SocketFilter;
use crate::net::options::local::Settings;
use crate::vfs::permission::Permissions;
use crate::wait::Events;
use base::SimTime;
use linux_abi::Errno;
use linux_abi::fs::O_RDWR;
use linux_abi::ioctl::{SIOCATMARK, SIOCINQ, SIOCOUTQ};
use linux_abi::socket::{SO_PASSCRED, SO_PASSPIDFD, SO_PASSRIGHTS, SO_PASSSEC, SOL_SOCKET, Ucred};
use slab::Slab;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// net.unix.max_dgram_qlen.
const DATAGRAM_QUEUE: usize = 10;
/// Credentials of a socket that has no peer.
const NOBODY: Ucred = Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };

/// A place in `Kernel::unix`, and who used it: places are given out again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnixId {
    place: u32,
    serial: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Stream,
    Datagram,
    SeqPacket,
}

impl Kind {
    /// Whether it connects, listens and accepts.
    fn connects(self) -> bool {
        self != Kind::Datagram
    }
}

/// How a bound socket is found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// A socket file, by the number that guests see.
    Inode(u64),
    /// Each type of socket has names of its own.
    Abstract(Kind, Vec<u8>),
}

#[derive(Debug)]
enum Phase {
    Unconnected,
    /// Connections that wait for `accept`, as the sockets that it will return.
    Listening {
        backlog: usize,
        waiting: VecDeque<UnixId>,
    },
    Connected,
}

/// What was sent in one go.
#[derive(Debug)]
struct Packet {
    data: Vec<u8>,
    /// Bytes of it that were read.
    start: usize,
    rights: SmallVec<[FileId; 1]>,
    credentials: Ucred,
    /// The sender's name.
    from: RawAddress,
    sender: UnixId,
    charge: usize,
    /// When it was sent, if its receiver wanted to know then, or was read first.
    at: Option<SimTime>,
}

#[derive(Debug)]
pub struct UnixSocket {
    pub kind: Kind,
    serial: u64,
    /// None while it waits for `accept`.
    file: Option<FileId>,
    /// As `getsockname` returns it; empty when unnamed.
    name: RawAddress,
    key: Option<Key>,
    phase: Phase,
    peer: Option<UnixId>,
    /// The name of a peer that is gone.
    peer_name: RawAddress,
    inbox: VecDeque<Packet>,
    /// Charges of what it sent and nobody read.
    charged: usize,
    read_shut: bool,
    write_shut: bool,
    permissions: Permissions,
    error: Option<Errno>,
    credentials: Ucred,
    /// Supplementary groups of whoever made it, connected it or listens.
    groups: Arc<[u32]>,
    peer_credentials: Ucred,
    /// None without a peer.
    peer_groups: Option<Arc<[u32]>>,
    settings: Settings,
    /// SO_ATTACH_FILTER.
    filter: Option<Arc<SocketFilter>>,
}

impl UnixSocket {
    /// Whether an option of SOL_SOCKET is on that makes messages tell something of their senders.
    fn passes(&self, option: i32) -> bool {
        self.settings.has(SOL_SOCKET, option)
    }

    /// Whether messages are to tell who sent them (`unix_may_passcred`).
    fn wants_senders(&self) -> bool {
        self.passes(SO_PASSCRED) || self.passes(SO_PASSPIDFD)
    }

    /// SO_PASSRIGHTS: whether messages may bring files.
    fn takes_files(&self) -> bool {
        self.settings.kept.get(SOL_SOCKET, SO_PASSRIGHTS) != Some(0)
    }

    /// Gives a connection that a listener has not handed out yet what it inherits: whether messages tell of their senders, and may
    /// bring files.
    fn hand_down(&self, accepted: &mut UnixSocket) {
        if !self.takes_files() {
            accepted.settings.kept.set(SOL_SOCKET, SO_PASSRIGHTS, 0);
        }
        for option in [SO_PASSCRED, SO_PASSPIDFD, SO_PASSSEC] {
            if self.passes(option) {
                accepted.settings.kept.set(SOL_SOCKET, option, 1);
            }
        }
    }

    fn new(kind: Kind, (credentials, groups): (Ucred, Arc<[u32]>), permissions: Permissions) -> Self {
        UnixSocket {
            kind,
            serial: 0,
            file: None,
            name: RawAddress::new(),
            key: None,
            phase: Phase::Unconnected,
            peer: None,
            peer_name: RawAddress::new(),
            inbox: VecDeque::new(),
            charged: 0,
            read_shut: false,
            write_shut: false,
            error: None,
            permissions,
            credentials,
            groups,
            peer_credentials: NOBODY,
            peer_groups: None,
            settings: Settings::default(),
            filter: None,
        }
    }

    fn is_listening(&self) -> bool {
        matches!(self.phase, Phase::Listening { .. })
    }

    fn has_room(&self) -> bool {
        self.charged < self.settings.send_buffer
    }

    /// `unix_writable`: poll says so only when three quarters are free.
    fn is_writable(&self) -> bool {
        !self.is_listening() && self.charged * 4 <= self.settings.send_buffer
    }

    /// As FIONREAD counts: the bytes of all messages, or those of the first datagram.
    pub fn readable_bytes(&self) -> usize {
        let left = |packet: &Packet| packet.data.len() - packet.start;
        if self.kind.connects() { self.inbox.iter().map(left).sum() } else { self.inbox.front().map_or(0, left) }
    }
}

/// What the kernel charges a sender for a message: the buffer's true size (`SKB_TRUESIZE`), of which streams keep little outside of pages.
fn charge(kind: Kind, len: usize) -> usize {
    const HEADER: usize = 256;
    const SHARED_INFO: usize = 320;
    const PAGE: usize = 4096;
    let most_linear = if kind == Kind::Stream { PAGE - SHARED_INFO } else { 4 * PAGE - SHARED_INFO };
    let in_pages = len.saturating_sub(most_linear).next_multiple_of(PAGE).min(len);
    HEADER + (len - in_pages + SHARED_INFO).next_power_of_two() + in_pages.next_multiple_of(PAGE)
}

/// A host's Unix sockets.
#[derive(Debug, Default)]
pub struct UnixSockets {
    slab: Slab<UnixSocket>,
    names: BTreeMap<Key, UnixId>,
    serials: u64,
    /// The last number that an unnamed `bind` gave out.
    autobound: u32,
    /// Descriptors in messages that were not read.
    rights_in_messages: usize,
    /// Files that were in messages and are to be closed, and whether somebody does.
    to_close: VecDeque<FileId>,
    closing: bool,
    /// Sockets that were closed since it was looked for those that nobody can receive.
    closed: usize,
}

impl UnixSockets {
    /// Mode and owner of a socket.
    pub(crate) fn permissions(&mut self, id: UnixId) -> Option<&mut Permissions> {
        self.get_mut(id).map(|socket| &mut socket.permissions)
    }

    fn insert(&mut self, mut socket: UnixSocket) -> UnixId {
        self.serials += 1;
        socket.serial = self.serials;
        UnixId { place: self.slab.insert(socket) as u32, serial: self.serials }
    }

    pub fn get(&self, id: UnixId) -> Option<&UnixSocket> {
        self.slab.get(id.place as usize).filter(|socket| socket.serial == id.serial)
    }

    fn get_mut(&mut self, id: UnixId) -> Option<&mut UnixSocket> {
        self.slab.get_mut(id.place as usize).filter(|socket| socket.serial == id.serial)
    }

    fn peer_of(&self, id: UnixId) -> Option<&UnixSocket> {
        self.get(self.get(id)?.peer?)
    }

    /// A socket is closed: who reads later what it has sent before it was bound learns its name all the same (`unix_copy_addr`).
    fn leave_name(&mut self, sender: UnixId, name: &RawAddress) {
        for (_, socket) in self.slab.iter_mut() {
            for packet in socket.inbox.iter_mut().filter(|packet| packet.sender == sender && packet.from.is_empty()) {
                packet.from = name.clone();
            }
        }
    }

    /// The name of the peer that a socket has or had, empty when it has none. ENOTCONN.
    fn peer_name_of(&self, id: UnixId) -> Result<RawAddress, Errno> {
        let socket = self.get(id).ok_or(Errno::EBADF)?;
        let peer = socket.peer.ok_or(Errno::ENOTCONN)?;
        Ok(self.get(peer).map_or_else(|| socket.peer_name.clone(), |peer| peer.name.clone()))
    }
}

impl Kernel {
    /// Whether an open file is a stream of Unix sockets.
    pub(crate) fn is_unix_stream(&self, file: FileId) -> bool {
        self.unix_id(file).and_then(|id| self.unix_socket(id)).is_ok_and(|socket| socket.kind == Kind::Stream)
    }

    /// The Unix socket behind an open file. ENOTSOCK.
    fn unix_id(&self, file: FileId) -> Result<UnixId, Errno> {
        match self.files[file].kind {
            FileKind::Unix(id) => Ok(id),
            _ => Err(Errno::ENOTSOCK),
        }
    }

    pub(crate) fn unix_socket(&self, id: UnixId) -> Result<&UnixSocket, Errno> {
        self.unix.get(id).ok_or(Errno::EBADF)
    }

    fn unix_socket_mut(&mut self, id: UnixId) -> Result<&mut UnixSocket, Errno> {
        self.unix.get_mut(id).ok_or(Errno::EBADF)
    }

    /// Gives a socket its open file.
    fn open_unix(&mut self, id: UnixId, nonblocking: u32) -> FileId {
        let file = self.files.insert(OpenFile::new(FileKind::Unix(id), O_RDWR | nonblocking));
        if let Some(socket) = self.unix.get_mut(id) {
            socket.file = Some(file);
        }
        file
    }

    fn notify_unix(&mut self, id: UnixId, events: Events) {
        if let Some(file) = self.unix.get(id).and_then(|socket| socket.file) {
            self.notify(file, events);
        }
    }

    pub(crate) fn poll_unix(&self, id: UnixId) -> Events {
        let Some(socket) = self.unix.get(id) else { return Events::HUP };
        let waiting = matches!(&socket.phase, Phase::Listening { waiting, .. } if !waiting.is_empty());
        let unconnected = socket.kind.connects() && matches!(socket.phase, Phase::Unconnected);
        let receiver_full = socket.kind == Kind::Datagram
            && self.unix.peer_of(id).is_some_and(|peer| peer.inbox.len() > DATAGRAM_QUEUE && peer.peer != Some(id));
        Events::READABLE.when(!socket.inbox.is_empty() || waiting || socket.read_shut)
            | Events::WRITABLE.when(socket.is_writable() && !receiver_full)
            | Events::ERR.when(socket.error.is_some())
            | Events::RDHUP.when(socket.read_shut)
            | Events::HUP.when(socket.read_shut && socket.write_shut || unconnected)
    }

    /// The last reference to a socket is gone: its peer sees the end, and, if something was left unread, a reset.
    pub(crate) fn close_unix(&mut self, id: UnixId) {
        let Some(socket) = self.unix.get_mut(id) else { return };
        let (key, name) = (socket.key.take(), socket.name.clone());
        let (peer, connects) = (socket.peer, socket.kind.connects());
        // An empty message in front does not count (`unix_release_sock`).
        let unread = socket.inbox.iter().enumerate().any(|(place, packet)| place > 0 || !packet.data.is_empty());
        let unheard = socket.charged > 0;
        let inbox = std::mem::take(&mut socket.inbox);
        let phase = std::mem::replace(&mut socket.phase, Phase::Unconnected);
        if let Some(key) = key {
            self.unix.names.remove(&key);
        }
        self.unix.slab.remove(id.place as usize);
        if unheard && !name.is_empty() {
            self.unix.leave_name(id, &name);
        }
        if let Some(peer) = peer
            && let Some(other) = self.unix.get_mut(peer).filter(|other| other.peer == Some(id))
        {
            other.peer_name = name;
            if connects {
                self.end_peer(peer, unread);
            }
        }
        if let Phase::Listening { waiting, .. } = phase {
            for embryo in waiting {
                if let Some(client) = self.unix.get(embryo).and_then(|embryo| embryo.peer) {
                    self.end_peer(client, true);
                }
                self.close_unix(embryo);
            }
        }
        for packet in inbox {
            self.drop_packet(packet);
        }
        self.unix.closed += 1;
        self.close_what_was_in_messages();
    }

    /// Gives a datagram socket another destination, or none: what the one before has sent is lost, and if that was connected to this
    /// socket in turn, it learns of it (`unix_dgram_disconnected`).
    fn change_peer(&mut self, id: UnixId, new: Option<UnixId>) {
        let Some(socket) = self.unix.get_mut(id) else { return };
        let old = std::mem::replace(&mut socket.peer, new);
        if old.is_none() || old == new || socket.inbox.is_empty() {
            return;
        }
        for packet in std::mem::take(&mut socket.inbox) {
            self.drop_packet(packet);
        }
        let Some(old) = old else { return };
        if let Some(other) = self.unix.get_mut(old).filter(|other| other.peer == Some(id)) {
            other.error = Some(Errno::ECONNRESET);
            self.notify_unix(old, Events::ERR);
        }
    }

    fn end_peer(&mut self, peer: UnixId, reset: bool) {
        let Some(socket) = self.unix.get_mut(peer) else { return };
        socket.read_shut = true;
        socket.write_shut = true;
        if reset {
            socket.error = Some(Errno::ECONNRESET);
        }
        let error = Events::ERR.when(reset);
        self.notify_unix(peer, Events::READABLE | Events::WRITABLE | Events::HUP | Events::RDHUP | error);
    }

    /// A message is used up: its sender has room again, files in it that nobody took are closed.
    fn drop_packet(&mut self, mut packet: Packet) {
        self.unix.rights_in_messages -= packet.rights.len();
        self.unix.to_close.extend(packet.rights.drain(..));
        self.uncharge(packet.sender, packet.charge);
        self.close_what_was_in_messages();
    }

    /// One after the other, since messages may hold sockets that hold messages, and so on.
    fn close_what_was_in_messages(&mut self) {
        if std::mem::replace(&mut self.unix.closing, true) {
            return;
        }
        loop {
            while let Some(file) = self.unix.to_close.pop_front() {
                self.release_file(file);
            }
            if !self.collect_unreachable_sockets() {
                break;
            }
        }
        self.unix.closing = false;
    }

    fn uncharge(&mut self, sender: UnixId, charge: usize) {
        let Some(socket) = self.unix.get_mut(sender) else { return };
        socket.charged -= charge;
        if socket.is_writable() {
            self.notify_unix(sender, Events::WRITABLE);
        }
    }

    /// SIOCINQ, SIOCOUTQ and SIOCATMARK.
    pub(crate) fn unix_queue_length(&self, id: UnixId, request: u32) -> Result<i32, Errno> {
        let socket = self.unix_socket(id)?;
        match request {
            SIOCINQ if socket.is_listening() => Err(Errno::EINVAL),
            SIOCINQ => Ok(socket.readable_bytes() as i32),
            SIOCOUTQ => Ok(socket.charged as i32),
            // No urgent data ever comes.
            SIOCATMARK if socket.kind == Kind::Stream => Ok(0),
            SIOCATMARK => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// shutdown(2): the peer of a stream sees it too.
    fn shut_unix(&mut self, id: UnixId, read: bool, write: bool) -> Result<(), Errno> {
        let socket = self.unix_socket_mut(id)?;
        socket.read_shut |= read;
        socket.write_shut |= write;
        let peer = socket.peer.filter(|_| socket.kind.connects());
        if let Some(other) = peer.and_then(|peer| self.unix.get_mut(peer)) {
            other.read_shut |= write;
            other.write_shut |= read;
        }
        let events = Events::READABLE | Events::WRITABLE | Events::RDHUP | Events::HUP;
        self.notify_unix(id, events);
        if let Some(peer) = peer {
            self.notify_unix(peer, events);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
