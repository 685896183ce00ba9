//! System V message queues: messages with types, and who waits to send or to receive.

use super::{Caller, Ids, Keyed, new_perm};
use crate::ids::{Pid, Tid};
use linux_abi::Errno;
use linux_abi::ipc::{IpcPerm, MsqidDs};
use std::collections::VecDeque;

/// MSGMAX: bytes of one message.
pub const MESSAGE_MAX: usize = 8192;
/// MSGMNB: bytes of a new queue.
pub const QUEUE_MAX: u64 = 16_384;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: i64,
    pub text: Vec<u8>,
}

/// Which message a receiver takes, msgrcv(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Any,
    Kind(i64),
    Except(i64),
    /// The lowest kind that is at most this.
    Lowest(i64),
    /// The one at this place of the queue, which stays there (MSG_COPY).
    Place(i64),
}

impl Wanted {
    fn fits(self, message: &Message) -> bool {
        match self {
            Wanted::Any => true,
            Wanted::Kind(kind) => message.kind == kind,
            Wanted::Except(kind) => message.kind != kind,
            Wanted::Lowest(kind) => message.kind <= kind,
            Wanted::Place(_) => false,
        }
    }

    /// Where the wanted message is.
    fn find(self, messages: &VecDeque<Message>) -> Option<usize> {
        match self {
            Wanted::Lowest(_) => {
                let fitting = messages.iter().enumerate().filter(|(_, message)| self.fits(message));
                fitting.min_by_key(|(index, message)| (message.kind, *index)).map(|(index, _)| index)
            }
            Wanted::Place(place) => usize::try_from(place).ok().filter(|place| *place < messages.len()),
            _ => messages.iter().position(|message| self.fits(message)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    pub tid: Tid,
    pub pid: Pid,
    pub wanted: Wanted,
    /// More bytes than that are E2BIG.
    pub most: usize,
}

#[derive(Debug)]
pub struct MessageQueue {
    pub data: MsqidDs,
    messages: VecDeque<Message>,
    /// In order of arrival.
    receivers: Vec<Receiver>,
    senders: Vec<Tid>,
}

impl Keyed for MessageQueue {
    fn perm(&self) -> &IpcPerm {
        &self.data.msg_perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.data.msg_perm
    }
}

/// A receiver whose call is over, and what it gets.
pub type Delivered = (Tid, Result<Message, Errno>);

impl MessageQueue {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.data.msg_cbytes + bytes as u64 <= self.data.msg_qbytes && self.data.msg_qnum < self.data.msg_qbytes
    }

    /// Puts a message into the queue, or into the hands of those that wait for it. EAGAIN when there is no room.
    pub fn send(&mut self, message: Message, pid: Pid, now: i64) -> Result<Vec<Delivered>, Errno> {
        if !self.has_room_for(message.text.len()) {
            return Err(Errno::EAGAIN);
        }
        self.data.msg_lspid = pid.0 as i32;
        self.data.msg_stime = now;
        let mut delivered = Vec::new();
        let mut index = 0;
        while index < self.receivers.len() {
            let receiver = self.receivers[index];
            if !receiver.wanted.fits(&message) {
                index += 1;
                continue;
            }
            self.receivers.remove(index);
            if receiver.most < message.text.len() {
                delivered.push((receiver.tid, Err(Errno::E2BIG)));
                continue;
            }
            self.data.msg_lrpid = receiver.pid.0 as i32;
            self.data.msg_rtime = now;
            delivered.push((receiver.tid, Ok(message)));
            return Ok(delivered);
        }
        self.data.msg_cbytes += message.text.len() as u64;
        self.data.msg_qnum += 1;
        self.messages.push_back(message);
        Ok(delivered)
    }

    /// Takes a message out, or (`Wanted::Place`) copies it. ENOMSG, E2BIG.
    pub fn receive(&mut self, wanted: Wanted, most: usize, pid: Pid, now: i64) -> Result<Message, Errno> {
        let index = wanted.find(&self.messages).ok_or(Errno::ENOMSG)?;
        if self.messages[index].text.len() > most {
            return Err(Errno::E2BIG);
        }
        if let Wanted::Place(_) = wanted {
            return Ok(self.messages[index].clone());
        }
        let message = self.messages.remove(index).ok_or(Errno::ENOMSG)?;
        self.data.msg_cbytes -= message.text.len() as u64;
        self.data.msg_qnum -= 1;
        self.data.msg_lrpid = pid.0 as i32;
        self.data.msg_rtime = now;
        Ok(message)
    }

    pub fn wait_to_receive(&mut self, receiver: Receiver) {
        self.receivers.push(receiver);
    }

    pub fn wait_to_send(&mut self, tid: Tid) {
        self.senders.push(tid);
    }

    pub fn forget(&mut self, tid: Tid) {
        self.receivers.retain(|receiver| receiver.tid != tid);
        self.senders.retain(|sender| *sender != tid);
    }

    /// Threads that wait to send and may try again.
    pub fn take_senders(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.senders)
    }

    /// Threads that wait to receive and shall look again: the queue's permissions changed, or it is gone.
    pub fn take_receivers(&mut self) -> Vec<Tid> {
        std::mem::take(&mut self.receivers).into_iter().map(|receiver| receiver.tid).collect()
    }
}

#[derive(Debug, Default)]
pub struct MessageQueues {
    pub ids: Ids<MessageQueue>,
}

impl MessageQueues {
    pub fn create(&mut self, key: i32, flags: u32, caller: Caller, now: i64) -> Result<i32, Errno> {
        let data = MsqidDs {
            msg_perm: new_perm(key, flags, caller),
            msg_ctime: now,
            msg_qbytes: QUEUE_MAX,
            ..MsqidDs::default()
        };
        self.ids.insert(MessageQueue { data, messages: VecDeque::new(), receivers: Vec::new(), senders: Vec::new() })
    }

    /// Messages in all queues, and their bytes.
    pub fn totals(&self) -> (u64, u64) {
        let sum = |of: fn(&MsqidDs) -> u64| self.ids.iter().map(|(_, queue)| of(&queue.data)).sum();
        (sum(|data| data.msg_qnum), sum(|data| data.msg_cbytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> MessageQueue {
        let mut queues = MessageQueues::default();
        let id = queues.create(1, 0o600, Caller::ROOT, 0).unwrap();
        queues.ids.remove(id).unwrap()
    }

    fn message(kind: i64, text: &str) -> Message {
        Message { kind, text: text.as_bytes().to_vec() }
    }

    #[test]
    fn types_choose_messages() {
        let mut queue = queue();
        for (kind, text) in [(5, "e"), (3, "c"), (9, "i"), (3, "d")] {
            queue.send(message(kind, text), Pid(1), 0).unwrap();
        }
        let mut take = |wanted| queue.receive(wanted, 10, Pid(2), 0).map(|message| message.text[0] as char);
        assert_eq!(take(Wanted::Place(2)), Ok('i'));
        assert_eq!(take(Wanted::Lowest(8)), Ok('c'));
        assert_eq!(take(Wanted::Kind(9)), Ok('i'));
        assert_eq!(take(Wanted::Except(5)), Ok('d'));
        assert_eq!(take(Wanted::Lowest(4)), Err(Errno::ENOMSG));
        assert_eq!(take(Wanted::Any), Ok('e'));
        assert_eq!((queue.data.msg_qnum, queue.data.msg_cbytes), (0, 0));
    }

    #[test]
    fn a_message_goes_to_the_first_that_waits_for_it() {
        let mut queue = queue();
        for (tid, wanted, most) in [(1, Wanted::Kind(2), 9), (2, Wanted::Any, 1), (3, Wanted::Any, 9)] {
            queue.wait_to_receive(Receiver { tid: Tid(tid), pid: Pid(tid), wanted, most });
        }
        let delivered = queue.send(message(7, "long"), Pid(4), 0).unwrap();
        assert_eq!(delivered, [(Tid(2), Err(Errno::E2BIG)), (Tid(3), Ok(message(7, "long")))]);
        assert_eq!((queue.data.msg_lrpid, queue.data.msg_qnum), (3, 0));
    }

    #[test]
    fn a_full_queue_refuses() {
        let mut queue = queue();
        queue.data.msg_qbytes = 4;
        queue.send(message(1, "abc"), Pid(1), 0).unwrap();
        assert_eq!(queue.send(message(1, "de"), Pid(1), 0), Err(Errno::EAGAIN));
        queue.send(message(1, ""), Pid(1), 0).unwrap();
        assert!(queue.send(message(1, "f"), Pid(1), 0).is_ok());
    }
}
