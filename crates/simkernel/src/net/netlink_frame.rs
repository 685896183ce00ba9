//! The frame of netlink messages (netlink(7)): requests in a datagram, the kernel's answers to them, and attributes.

use linux_abi::Errno;
use linux_abi::net::*;
use zerocopy::{FromBytes, IntoBytes};

/// The longest datagram of an answer of several messages.
const DATAGRAM_MAX: usize = 16 << 10;

/// A datagram of an answer.
#[derive(Debug)]
pub struct Answer {
    pub bytes: Vec<u8>,
    pub part: Part,
}

/// What part of an answer a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The whole answer, or one that no list follows.
    Alone,
    /// The first datagram of a list, which waits until there is room.
    ListBegin,
    /// A later one. It is made when one before it is read (`netlink_recvmsg`), so answers to other requests may come
    /// before it.
    ListRest,
}

/// How a socket wants its answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub port: u32,
    /// NETLINK_CAP_ACK: errors do not quote the request.
    pub short_errors: bool,
    /// The rest of a list still waits: another list is refused (`__netlink_dump_start`).
    pub busy: bool,
    /// Whether a request asks for a list.
    pub is_list: fn(&Nlmsghdr) -> bool,
}

/// Either flag of NLM_F_DUMP asks for a list, where requests do nothing but ask.
pub(super) fn has_dump_flag(header: &Nlmsghdr) -> bool {
    header.nlmsg_flags & NLM_F_DUMP != 0
}

/// The kernel's answers to a datagram of requests, as they are to be read. `each` gives the messages that answer one request
/// (`netlink_rcv_skb`).
pub(super) fn answer(
    mut request: &[u8],
    mut style: Style,
    each: impl Fn(Reply, &Nlmsghdr, &[u8]) -> Result<Vec<u8>, Errno>,
) -> Vec<Answer> {
    let mut replies = Vec::new();
    while let Ok((header, rest)) = Nlmsghdr::read_from_prefix(request) {
        let len = header.nlmsg_len as usize;
        if len < size_of::<Nlmsghdr>() || len > request.len() {
            break;
        }
        let body = &rest[..len - size_of::<Nlmsghdr>()];
        let reply = Reply { seq: header.nlmsg_seq, port: style.port };
        let quoted = if style.short_errors { &[] } else { body };
        if header.nlmsg_flags & NLM_F_REQUEST == 0 || header.nlmsg_type < NLMSG_MIN_TYPE {
            reply.acknowledge(&header, &mut replies);
        } else {
            match each(reply, &header, body) {
                Ok(_) if style.busy && (style.is_list)(&header) => {
                    replies.push(reply.error(&header, Errno::EBUSY, quoted));
                }
                Ok(messages) if (style.is_list)(&header) => {
                    reply.finish_list(&messages, &mut replies);
                    style.busy = replies.last().is_some_and(|last| last.part == Part::ListRest);
                }
                Ok(messages) => reply.finish(&header, messages, &mut replies),
                Err(errno) => replies.push(reply.error(&header, errno, quoted)),
            }
        }
        request = request.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    replies
}

/// What every message of an answer has in its header.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    pub seq: u32,
    pub port: u32,
}

impl Reply {
    /// The messages of an answer, and an acknowledgement if one is wanted.
    fn finish(self, header: &Nlmsghdr, messages: Vec<u8>, replies: &mut Vec<Answer>) {
        if !messages.is_empty() {
            replies.push(Answer { bytes: messages, part: Part::Alone });
        }
        self.acknowledge(header, replies);
    }

    /// Cuts the messages of a list into datagrams, and ends it.
    fn finish_list(self, messages: &[u8], replies: &mut Vec<Answer>) {
        let mut part = Part::ListBegin;
        let mut push = |bytes| replies.push(Answer { bytes, part: std::mem::replace(&mut part, Part::ListRest) });
        let mut datagram = Vec::new();
        let mut rest = messages;
        while let Ok((next, _)) = Nlmsghdr::read_from_prefix(rest) {
            let (message, others) = rest.split_at(next.nlmsg_len as usize);
            if !datagram.is_empty() && datagram.len() + message.len() > DATAGRAM_MAX {
                push(std::mem::take(&mut datagram));
            }
            datagram.extend_from_slice(message);
            rest = others;
        }
        if !datagram.is_empty() {
            push(datagram);
        }
        if !ends_itself(messages) {
            let mut bytes = Vec::new();
            self.done(&mut bytes, None);
            push(bytes);
        }
    }

    /// The end of a list: of one that failed on the way, with the errno.
    pub fn done(self, out: &mut Vec<u8>, error: Option<Errno>) {
        let number = error.map_or(0, |errno| -errno.raw());
        self.message(out, NLMSG_DONE, NLM_F_MULTI, &number.to_ne_bytes());
    }

    /// The answer to a request that wants one though there is nothing to tell.
    fn acknowledge(self, header: &Nlmsghdr, replies: &mut Vec<Answer>) {
        if header.nlmsg_flags & NLM_F_ACK != 0 {
            let mut bytes = Vec::new();
            let body = [&0i32.to_ne_bytes()[..], header.as_bytes()].concat();
            self.message(&mut bytes, NLMSG_ERROR, NLM_F_CAPPED, &body);
            replies.push(Answer { bytes, part: Part::Alone });
        }
    }

    /// NLMSG_ERROR: the errno, and the request's header with what of its body is quoted.
    fn error(self, header: &Nlmsghdr, error: Errno, quoted: &[u8]) -> Answer {
        let capped = quoted.len() + size_of::<Nlmsghdr>() < header.nlmsg_len as usize;
        let mut bytes = Vec::new();
        let body = [&(-error.raw()).to_ne_bytes()[..], header.as_bytes(), quoted].concat();
        let start = self.message(&mut bytes, NLMSG_ERROR, if capped { NLM_F_CAPPED } else { 0 }, &body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let len = (bytes.len() - start) as u32;
        bytes[start..start + 4].copy_from_slice(&len.to_ne_bytes());
        Answer { bytes, part: Part::Alone }
    }

    /// Appends a message with this fixed part, and returns where it begins.
    pub fn message(self, out: &mut Vec<u8>, kind: u16, flags: u16, fixed: &[u8]) -> usize {
        let start = out.len();
        let header = Nlmsghdr {
            nlmsg_len: (size_of::<Nlmsghdr>() + fixed.len()) as u32,
            nlmsg_type: kind,
            nlmsg_flags: flags,
            nlmsg_seq: self.seq,
            nlmsg_pid: self.port,
        };
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(fixed);
        start
    }
}

/// Whether messages have the end of their list among them.
fn ends_itself(mut messages: &[u8]) -> bool {
    while let Ok((next, _)) = Nlmsghdr::read_from_prefix(messages) {
        if next.nlmsg_type == NLMSG_DONE {
            return true;
        }
        messages = messages.get(next.nlmsg_len as usize..).unwrap_or_default();
    }
    false
}

/// Appends an attribute to the message that begins at `start`.
pub(super) fn attribute(out: &mut Vec<u8>, start: usize, kind: u16, data: &[u8]) {
    let header = Rtattr { rta_len: (size_of::<Rtattr>() + data.len()) as u16, rta_type: kind };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_ne_bytes());
}

/// The attributes of a request: kind and data.
pub(super) fn attributes(mut buffer: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, _) = Rtattr::read_from_prefix(buffer).ok()?;
        let len = usize::from(header.rta_len);
        let data = buffer.get(size_of::<Rtattr>()..len)?;
        buffer = buffer.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((header.rta_type, data))
    })
}
