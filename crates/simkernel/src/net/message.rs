//! Messages of all socket families: the arguments of sendmsg(2) and recvmsg(2) in one form, read from and written to the guest's
//! structures, and the layout of control messages.

use super::address::{self, RawAddress};
use crate::outcome::Outcome;
use crate::user_io::UserBuffers;
use guest::AddressSpace;
use linux_abi::Errno;
use linux_abi::socket::{Cmsghdr, MSG_CTRUNC, Msghdr, cmsg_len, cmsg_space};
use zerocopy::{FromBytes, IntoBytes};

/// net.core.optmem_max: the most control bytes of one message.
const CONTROL_MAX: u64 = 128 << 10;

/// What a guest wants to send.
#[derive(Debug)]
pub struct Outgoing<'a> {
    /// The destination; empty for none.
    pub name: &'a [u8],
    pub data: &'a UserBuffers,
    pub control: &'a [u8],
    /// `MSG_*`.
    pub flags: u32,
}

/// What a guest wants to receive.
#[derive(Debug)]
pub struct Incoming<'a> {
    pub data: &'a UserBuffers,
    /// Room for control messages, in bytes.
    pub control_space: usize,
    /// `MSG_*`.
    pub flags: u32,
}

/// What was received; the data is in the guest's buffers already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// What the call returns.
    pub count: usize,
    /// The sender; empty where a family or a connection gives none.
    pub name: RawAddress,
    pub control: Vec<u8>,
    /// MSG_TRUNC, MSG_CTRUNC and others that recvmsg shows.
    pub flags: u32,
}

/// A guest's `struct msghdr` with what it points to.
#[derive(Debug)]
pub struct UserMessage {
    pub header: Msghdr,
    pub data: UserBuffers,
}

impl UserMessage {
    /// EFAULT; EMSGSIZE for too many buffers; EINVAL for bad lengths.
    pub fn read(memory: &AddressSpace, address: u64) -> Result<Self, Outcome> {
        let header: Msghdr = memory.read_value(address)?;
        if header.msg_namelen < 0 {
            return Err(Errno::EINVAL.into());
        }
        if header.msg_iovlen > linux_abi::fs::IOV_MAX as u64 {
            return Err(Errno::EMSGSIZE.into());
        }
        let data = UserBuffers::vector(memory, header.msg_iov, header.msg_iovlen)?;
        Ok(UserMessage { header, data })
    }

    /// The destination of a message to be sent.
    pub fn name(&self, memory: &AddressSpace) -> Result<RawAddress, Outcome> {
        match (self.header.msg_name, self.header.msg_namelen as u32) {
            (0, _) | (_, 0) => Ok(RawAddress::new()),
            // As Linux (`copy_msghdr_from_user`): longer names are cut.
            (name, len) => address::read(memory, name, len.min(address::MAX as u32)),
        }
    }

    /// The control messages of a message to be sent. ENOBUFS when there are too many.
    pub fn control(&self, memory: &AddressSpace) -> Result<Vec<u8>, Outcome> {
        if self.header.msg_control == 0 || self.header.msg_controllen == 0 {
            return Ok(Vec::new());
        }
        if self.header.msg_controllen > CONTROL_MAX {
            return Err(Errno::ENOBUFS.into());
        }
        let mut control = vec![0; self.header.msg_controllen as usize];
        memory.read(self.header.msg_control, &mut control)?;
        Ok(control)
    }

    /// Room for control messages.
    pub fn control_space(&self) -> usize {
        if self.header.msg_control == 0 { 0 } else { self.header.msg_controllen.min(CONTROL_MAX) as usize }
    }

    /// Gives the guest what was received: name, control messages, flags, in the `struct msghdr` at `address`.
    pub fn write(&self, memory: &AddressSpace, address: u64, message: &Message) -> Result<(), Outcome> {
        let mut header = self.header;
        if header.msg_name != 0 {
            let room = (header.msg_namelen as usize).min(message.name.len());
            memory.write(header.msg_name, &message.name[..room])?;
            header.msg_namelen = message.name.len() as i32;
        }
        if !message.control.is_empty() {
            memory.write(header.msg_control, &message.control)?;
        }
        header.msg_controllen = message.control.len() as u64;
        header.msg_flags = message.flags;
        memory.write_value(address, &header)?;
        Ok(())
    }
}

/// Appends a control message as `put_cmsg` does: one that does not fit is cut, and the message's flags say so.
pub fn push_control(message: &mut Message, space: usize, level: i32, kind: i32, data: &[u8]) {
    let room = space - message.control.len().min(space);
    if room < size_of::<Cmsghdr>() {
        message.flags |= MSG_CTRUNC;
        return;
    }
    let mut whole = cmsg_len(data.len());
    if whole > room {
        message.flags |= MSG_CTRUNC;
        whole = room;
    }
    let header = Cmsghdr { cmsg_len: whole as u64, cmsg_level: level, cmsg_type: kind };
    let start = message.control.len();
    message.control.extend_from_slice(header.as_bytes());
    message.control.extend_from_slice(&data[..whole - size_of::<Cmsghdr>()]);
    message.control.resize(start + cmsg_space(data.len()).min(room), 0);
}

/// The control messages in a buffer: level, type, data. EINVAL for a length that does not fit (CMSG_OK).
pub fn controls(mut buffer: &[u8]) -> impl Iterator<Item = Result<(i32, i32, &[u8]), Errno>> {
    std::iter::from_fn(move || {
        let (header, _) = Cmsghdr::read_from_prefix(buffer).ok()?;
        let len = usize::try_from(header.cmsg_len).unwrap_or(usize::MAX);
        if len < size_of::<Cmsghdr>() || len > buffer.len() {
            buffer = &[];
            return Some(Err(Errno::EINVAL));
        }
        let data = &buffer[size_of::<Cmsghdr>()..len];
        buffer = buffer.get(len.next_multiple_of(8)..).unwrap_or_default();
        Some(Ok((header.cmsg_level, header.cmsg_type, data)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_messages_survive_a_round_trip() {
        let mut message = Message::default();
        push_control(&mut message, 100, 0, 8, &[1; 12]);
        push_control(&mut message, 100, 6, 36, &[2; 4]);
        assert_eq!(message.control.len(), 32 + 24);
        assert_eq!(message.flags, 0);
        let all: Vec<_> = controls(&message.control).map(Result::unwrap).collect();
        assert_eq!(all, [(0, 8, &[1u8; 12][..]), (6, 36, &[2u8; 4][..])]);
    }

    #[test]
    fn what_does_not_fit_is_cut_and_said() {
        let mut message = Message::default();
        push_control(&mut message, 20, 0, 8, &[1; 12]);
        assert_eq!((message.control.len(), message.flags), (20, MSG_CTRUNC));
        let mut message = Message::default();
        push_control(&mut message, 15, 0, 8, &[1; 12]);
        assert_eq!((message.control.len(), message.flags), (0, MSG_CTRUNC));
    }

    #[test]
    fn a_last_control_message_without_padding_fits() {
        let mut message = Message::default();
        push_control(&mut message, 28, 0, 8, &[1; 12]);
        assert_eq!((message.control.len(), message.flags), (28, 0));
    }

    #[test]
    fn bad_lengths_are_refused() {
        let header = |len| Cmsghdr { cmsg_len: len, cmsg_level: 0, cmsg_type: 0 };
        for len in [0, 15, 17, u64::MAX] {
            assert_eq!(controls(header(len).as_bytes()).next(), Some(Err(Errno::EINVAL)));
        }
        assert!(controls(&[0; 8]).next().is_none());
    }
}
