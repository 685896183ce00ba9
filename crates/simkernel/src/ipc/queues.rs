//! POSIX message queues, mq_overview(7): named, of a fixed number of messages with priorities.

use super::Caller;
use crate::ids::{FileId, Pid, Tid};
use linux_abi::Errno;
use linux_abi::ipc::{IpcPerm, MqAttr};
use slab::Slab;
use std::collections::{BTreeMap, VecDeque};

/// Priorities are below it.
pub const PRIORITIES: u32 = 32_768;
/// Attributes of a queue that is opened without any.
pub const DEFAULT_MESSAGES: i64 = 10;
pub const DEFAULT_BYTES: i64 = 8192;
/// What no queue may have, whoever opens it (HARD_MSGMAX, HARD_MSGSIZEMAX).
pub const HARD_MESSAGES: i64 = 65_536;
pub const HARD_BYTES: i64 = 16 << 20;
/// What the kernel needs for each message, which RLIMIT_MSGQUEUE counts (`struct msg_msg`, `struct posix_msg_tree_node`).
const BYTES_PER_MESSAGE: u64 = 48 + 48;

/// How long the file of a new queue seems to be (FILENT_SIZE).
const FILE_BYTES: u64 = 80;

/// A place in the slab of queues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct QueueId(pub u32);

/// What becomes known of a message's arrival, mq_notify(3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    Nothing,
    Signal {
        number: i32,
        value: u64,
    },
    /// SIGEV_THREAD: the C library's thread waits at a netlink socket for these bytes.
    Socket {
        file: FileId,
        cookie: [u8; 32],
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registration {
    pub pid: Pid,
    pub notice: Notice,
}

/// A message that was received, and its priority.
pub type Received = (u32, Vec<u8>);

/// What a message's arrival causes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// This thread has got the message.
    pub receiver: Option<(Tid, Received)>,
    /// This registration is used up.
    pub notified: Option<Registration>,
}

#[derive(Debug)]
pub struct Queue {
    pub name: Vec<u8>,
    pub most_messages: usize,
    pub most_bytes: usize,
    /// By priority.
    messages: BTreeMap<u32, VecDeque<Vec<u8>>>,
    count: usize,
    bytes: u64,
    receivers: VecDeque<Tid>,
    senders: VecDeque<(Tid, u32, Vec<u8>)>,
    pub registration: Option<Registration>,
    /// Open files of it.
    files: Vec<FileId>,
    pub mode: u32,
    /// How long its file seems to be, whatever can be read of it.
    pub file_bytes: u64,
    pub owner: Caller,
    pub linked: bool,
}

impl Queue {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn is_full(&self) -> bool {
        self.count >= self.most_messages
    }

    pub fn files(&self) -> &[FileId] {
        &self.files
    }

    /// Who may open it, in the terms of System V.
    pub fn perm(&self) -> IpcPerm {
        super::new_perm(0, self.mode, self.owner)
    }

    /// What RLIMIT_MSGQUEUE counts for it.
    fn cost(&self) -> u64 {
        cost(self.most_messages as u64, self.most_bytes as u64)
    }

    fn put(&mut self, priority: u32, text: Vec<u8>) {
        self.count += 1;
        self.bytes += text.len() as u64;
        self.messages.entry(priority).or_default().push_back(text);
    }

    /// Sends a message to a queue that is not full.
    pub fn send(&mut self, priority: u32, text: Vec<u8>) -> Arrival {
        if let Some(tid) = self.receivers.pop_front() {
            return Arrival { receiver: Some((tid, (priority, text))), notified: None };
        }
        let was_empty = self.is_empty();
        self.put(priority, text);
        Arrival { receiver: None, notified: self.registration.take_if(|_| was_empty) }
    }

    /// The oldest message of the highest priority, and the thread that waited to send and whose message took its place.
    pub fn receive(&mut self) -> Option<(Received, Option<Tid>)> {
        let mut highest = self.messages.last_entry()?;
        let priority = *highest.key();
        let text = highest.get_mut().pop_front()?;
        if highest.get().is_empty() {
            highest.remove();
        }
        self.count -= 1;
        self.bytes -= text.len() as u64;
        let sender = self.senders.pop_front().map(|(tid, priority, text)| {
            self.put(priority, text);
            tid
        });
        Some(((priority, text), sender))
    }

    pub fn wait_to_receive(&mut self, tid: Tid) {
        self.receivers.push_back(tid);
    }

    pub fn wait_to_send(&mut self, tid: Tid, priority: u32, text: Vec<u8>) {
        self.senders.push_back((tid, priority, text));
    }

    pub fn forget(&mut self, tid: Tid) {
        self.receivers.retain(|other| *other != tid);
        self.senders.retain(|(other, ..)| *other != tid);
    }

    /// What the queue's file in `/dev/mqueue` holds.
    pub fn status(&self) -> String {
        let (kind, signal) = match self.registration.map(|registration| registration.notice) {
            Some(Notice::Nothing) => (1, 0),
            Some(Notice::Signal { number, .. }) => (0, number),
            Some(Notice::Socket { .. }) => (2, 0),
            None => (0, 0),
        };
        let pid = self.registration.map_or(0, |registration| registration.pid.0);
        format!("QSIZE:{:<10} NOTIFY:{kind:<5} SIGNO:{signal:<5} NOTIFY_PID:{pid:<6}\n", self.bytes)
    }
}

fn cost(messages: u64, bytes: u64) -> u64 {
    messages.saturating_mul(BYTES_PER_MESSAGE).saturating_add(messages.saturating_mul(bytes))
}

#[derive(Debug, Default)]
pub struct Queues {
    slab: Slab<Queue>,
    names: BTreeMap<Vec<u8>, QueueId>,
}

impl Queues {
    pub fn find(&self, name: &[u8]) -> Option<QueueId> {
        self.names.get(name).copied()
    }

    pub fn get(&self, id: QueueId) -> &Queue {
        &self.slab[id.0 as usize]
    }

    /// A thread waits no longer, if the queue still exists.
    pub fn forget(&mut self, id: QueueId, tid: Tid) {
        if let Some(queue) = self.slab.get_mut(id.0 as usize) {
            queue.forget(tid);
        }
    }

    pub fn get_mut(&mut self, id: QueueId) -> &mut Queue {
        &mut self.slab[id.0 as usize]
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.keys().map(Vec::as_slice)
    }

    /// A new queue without open files. EINVAL for attributes that none may have, EMFILE when its owner's queues would take more bytes
    /// than `limit` (RLIMIT_MSGQUEUE).
    pub fn create(
        &mut self,
        name: &[u8],
        attr: &MqAttr,
        mode: u32,
        owner: Caller,
        limit: u64,
    ) -> Result<QueueId, Errno> {
        if !(1..=HARD_MESSAGES).contains(&attr.mq_maxmsg) || !(1..=HARD_BYTES).contains(&attr.mq_msgsize) {
            return Err(Errno::EINVAL);
        }
        let used: u64 = self.slab.iter().filter(|(_, q)| q.owner.uid == owner.uid).map(|(_, q)| q.cost()).sum();
        if used.saturating_add(cost(attr.mq_maxmsg as u64, attr.mq_msgsize as u64)) > limit {
            return Err(Errno::EMFILE);
        }
        let id = QueueId(self.slab.insert(Queue {
            name: name.to_vec(),
            most_messages: attr.mq_maxmsg as usize,
            most_bytes: attr.mq_msgsize as usize,
            messages: BTreeMap::new(),
            count: 0,
            bytes: 0,
            receivers: VecDeque::new(),
            senders: VecDeque::new(),
            registration: None,
            files: Vec::new(),
            mode,
            file_bytes: FILE_BYTES,
            owner,
            linked: true,
        }) as u32);
        self.names.insert(name.to_vec(), id);
        Ok(id)
    }

    pub fn attach(&mut self, id: QueueId, file: FileId) {
        self.get_mut(id).files.push(file);
    }

    /// An open file is closed for good; a queue without name and files is gone.
    pub fn detach(&mut self, id: QueueId, file: FileId) {
        self.get_mut(id).files.retain(|other| *other != file);
        self.drop_unused(id);
    }

    /// Removes a name. ENOENT.
    pub fn unlink(&mut self, name: &[u8]) -> Result<(), Errno> {
        let id = self.names.remove(name).ok_or(Errno::ENOENT)?;
        self.get_mut(id).linked = false;
        self.drop_unused(id);
        Ok(())
    }

    fn drop_unused(&mut self, id: QueueId) {
        if !self.get(id).linked && self.get(id).files.is_empty() {
            self.slab.remove(id.0 as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Caller = Caller::ROOT;

    fn attr(messages: i64, bytes: i64) -> MqAttr {
        MqAttr { mq_maxmsg: messages, mq_msgsize: bytes, ..MqAttr::default() }
    }

    #[test]
    fn higher_priorities_come_first_and_a_waiting_sender_takes_the_room() {
        let mut queues = Queues::default();
        let id = queues.create(b"q", &attr(3, 8), 0o600, ROOT, 1 << 20).unwrap();
        let queue = queues.get_mut(id);
        for (priority, text) in [(1, "a"), (5, "b"), (5, "c")] {
            assert_eq!(queue.send(priority, text.into()), Arrival::default());
        }
        assert!(queue.is_full());
        queue.wait_to_send(Tid(7), 9, b"d".to_vec());
        assert_eq!(queue.receive(), Some(((5, b"b".to_vec()), Some(Tid(7)))));
        let order: Vec<u32> = std::iter::from_fn(|| queue.receive()).map(|((priority, _), _)| priority).collect();
        assert_eq!(order, [9, 5, 1]);
        queue.wait_to_receive(Tid(8));
        assert_eq!(queue.send(0, b"e".to_vec()).receiver, Some((Tid(8), (0, b"e".to_vec()))));
    }

    #[test]
    fn a_notice_is_given_once_and_not_while_somebody_waits() {
        let mut queues = Queues::default();
        let id = queues.create(b"q", &attr(3, 8), 0o600, ROOT, 1 << 20).unwrap();
        let queue = queues.get_mut(id);
        let registration = Registration { pid: Pid(4), notice: Notice::Nothing };
        queue.registration = Some(registration);
        queue.wait_to_receive(Tid(8));
        assert_eq!(queue.send(0, vec![]).notified, None);
        assert_eq!(queue.send(0, vec![]).notified, Some(registration));
        queue.registration = Some(registration);
        assert_eq!(queue.send(0, vec![]).notified, None);
    }

    #[test]
    fn limits_and_names() {
        let mut queues = Queues::default();
        assert_eq!(queues.create(b"q", &attr(0, 8), 0, ROOT, 1 << 20), Err(Errno::EINVAL));
        assert_eq!(queues.create(b"q", &attr(10, 8192), 0, ROOT, 82_879), Err(Errno::EMFILE));
        let id = queues.create(b"q", &attr(10, 8192), 0, ROOT, 82_880).unwrap();
        queues.attach(id, FileId(3));
        assert_eq!((queues.unlink(b"q"), queues.unlink(b"q")), (Ok(()), Err(Errno::ENOENT)));
        assert_eq!(queues.find(b"q"), None);
        queues.detach(id, FileId(3));
        assert!(queues.slab.is_empty());
    }
}
