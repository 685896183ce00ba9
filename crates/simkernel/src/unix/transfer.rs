//! Sending and receiving on Unix sockets: bytes, messages, and what travels with them (descriptors, credentials).

use super::names::{self, shown};
use super::options::open_pidfd_of;
use super::{DATAGRAM_QUEUE, Kind, Packet, Phase, UnixId, charge};
use crate::credentials::Ids;
use crate::ctx::Ctx;
use crate::family::INIT;
use crate::ids::FileId;
use crate::kernel::Kernel;
use crate::net::address::RawAddress;
use crate::net::message::{Incoming, Message, Outgoing, controls, push_control};
use crate::net::{Blocking, progress, set_progress, stamp, wait};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::syscalls::process::process_of_thread;
use crate::user_io::{ByteSink, ByteSource};
use crate::wait::{Events, Wake};
use linux_abi::capability::{CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN};
use linux_abi::socket::*;
use linux_abi::{Errno, Signal};
use smallvec::SmallVec;

/// The most descriptors of one message (SCM_MAX_FD).
const MAX_RIGHTS: usize = 253;

/// Who "sends" the end of a stream: the cookie of a message that there was not (`unix_stream_read_generic`).
const NOBODY: Ucred = Ucred { pid: 0, uid: 0, gid: 0 };

type Rights = SmallVec<[FileId; 1]>;

/// What goes with a message.
struct Attached {
    rights: Rights,
    from: Sender,
}

/// Who sends a message.
#[derive(Clone, Copy)]
enum Sender {
    /// Told if either side wants to know by then (`unix_maybe_add_creds`).
    Silent(Ucred),
    /// As the message itself says (SCM_CREDENTIALS).
    Named(Ucred),
}

/// The number that stands for a user or group that has none here (fs.overflowuid).
const OVERFLOW_ID: u32 = 65_534;

/// The sender of a message that neither side wanted to know.
const UNKNOWN: Ucred = Ucred { pid: 0, uid: OVERFLOW_ID, gid: OVERFLOW_ID };

/// sendto(2), sendmsg(2).
pub fn send(ctx: &mut Ctx<'_>, file: FileId, message: &Outgoing<'_>) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    if message.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let kind = ctx.kernel.unix_socket(id)?.kind;
    let result = match kind {
        Kind::Stream => send_stream(ctx, file, id, message),
        _ => send_message(ctx, file, id, message),
    };
    match result {
        // Sockets of messages raise no signal, those of connections (SOCK_SEQPACKET) included.
        Err(Outcome::Errno(Errno::EPIPE)) if kind == Kind::Stream && message.flags & MSG_NOSIGNAL == 0 => {
            ctx.raise(Signal::SIGPIPE);
        }
        Err(Outcome::Block) if ctx.thread.wake == Wake::First => hold_rights(ctx, message.control),
        _ => {}
    }
    result
}

/// A message that waits for room keeps the files that it carries.
fn hold_rights(ctx: &mut Ctx<'_>, control: &[u8]) {
    for (level, kind, data) in controls(control).filter_map(Result::ok) {
        if (level, kind) == (SOL_SOCKET, SCM_RIGHTS) {
            for fd in data.chunks_exact(4) {
                ctx.hold_file(u32::from_ne_bytes([fd[0], fd[1], fd[2], fd[3]]).into());
            }
        }
    }
}

/// The descriptors and credentials in a message's control part. EBADF, EINVAL, EPERM.
fn attached(ctx: &mut Ctx<'_>, control: &[u8]) -> Result<Attached, Errno> {
    let who = ctx.credentials();
    let own = Ucred { pid: ctx.process.pid.0 as i32, uid: who.user.real, gid: who.group.real };
    let mut attached = Attached { rights: Rights::new(), from: Sender::Silent(own) };
    for part in controls(control) {
        let (level, kind, data) = part?;
        match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => {
                for fd in data.chunks_exact(4) {
                    let fd = u32::from_ne_bytes([fd[0], fd[1], fd[2], fd[3]]);
                    attached.rights.push(ctx.file(fd.into())?);
                }
                if attached.rights.len() > MAX_RIGHTS {
                    return Err(Errno::EINVAL);
                }
            }
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                attached.from = Sender::Named(claimed(ctx, data)?);
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            _ => {}
        }
    }
    Ok(attached)
}

/// Credentials that a sender names: its own, or others with the capabilities for them, of a process that there is; unix(7),
/// SCM_CREDENTIALS. EINVAL, EPERM, ESRCH (`scm_check_creds`, `__scm_send`).
pub(crate) fn claimed(ctx: &Ctx<'_>, data: &[u8]) -> Result<Ucred, Errno> {
    let claimed: Ucred = zerocopy::FromBytes::read_from_bytes(data).map_err(|_| Errno::EINVAL)?;
    let who = ctx.credentials();
    let among = |ids: Ids, id: u32| id == ids.real || id == ids.effective || id == ids.saved;
    let pid = claimed.pid == ctx.process.pid.0 as i32 || who.can(CAP_SYS_ADMIN);
    let user = among(who.user, claimed.uid) || who.can(CAP_SETUID);
    let group = among(who.group, claimed.gid) || who.can(CAP_SETGID);
    if [claimed.uid, claimed.gid].contains(&u32::MAX) {
        return Err(Errno::EINVAL);
    }
    if !(pid && user && group) {
        return Err(Errno::EPERM);
    }
    let exists = claimed.pid == INIT.0 as i32 || process_of_thread(ctx, claimed.pid as u32).is_some();
    if exists { Ok(claimed) } else { Err(Errno::ESRCH) }
}

fn send_stream(ctx: &mut Ctx<'_>, file: FileId, id: UnixId, message: &Outgoing<'_>) -> SysResult {
    let socket = ctx.kernel.unix_socket(id)?;
    let timeout = socket.settings.send_timeout;
    let connected = matches!(socket.phase, Phase::Connected);
    let mut attached = attached(ctx, message.control)?;
    if !message.name.is_empty() {
        return Err(if connected { Errno::EISCONN } else { Errno::EOPNOTSUPP }.into());
    }
    if !connected {
        return Err(Errno::ENOTCONN.into());
    }
    if ctx.thread.wake != Wake::First {
        // A call that waits for room learns of a reset before it learns that nobody reads (`sock_alloc_send_pskb`).
        let error = ctx.kernel.unix_socket_mut(id)?.error.take();
        match (progress(ctx), error) {
            (0, Some(error)) => return Err(error.into()),
            (done, Some(_)) => return Ok(done as u64),
            (_, None) => {}
        }
    }
    loop {
        let done = progress(ctx);
        if done > 0 {
            // They went with the first bytes.
            attached.rights.clear();
        }
        let mut source = message.data.source(&ctx.process.memory);
        source.skip(done);
        match ctx.kernel.push_stream(id, &mut source, &attached.rights, attached.from) {
            Ok(moved) => {
                set_progress(ctx, done + moved);
                if done + moved >= message.data.total() {
                    return Ok((done + moved) as u64);
                }
            }
            Err(Errno::EAGAIN) => {
                let blocking = ctx.blocking(file, message.flags, timeout);
                return wait(ctx, file, Events::WRITABLE, blocking, done);
            }
            Err(_) if done > 0 => return Ok(done as u64),
            Err(errno) => return Err(errno.into()),
        }
    }
}

impl Kernel {
    /// Moves what fits into the peer's inbox. EAGAIN when nothing does; EPIPE, ECONNRESET.
    fn push_stream(
        &mut self,
        id: UnixId,
        source: &mut dyn ByteSource,
        rights: &[FileId],
        by: Sender,
    ) -> Result<usize, Errno> {
        let socket = self.unix_socket_mut(id)?;
        if socket.write_shut {
            return Err(Errno::EPIPE);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let peer = socket.peer.ok_or(Errno::ENOTCONN)?;
        let from = socket.name.clone();
        let piece = (socket.settings.send_buffer / 2).saturating_sub(64).max(1);
        let mut moved = 0;
        while source.remaining() > 0 {
            if !self.unix_socket(id)?.has_room() {
                break;
            }
            let want = source.remaining().min(piece);
            let mut data = vec![0; want];
            let got = source.take(&mut data);
            if got < want {
                // A piece whose end cannot be read is not sent at all (`skb_copy_datagram_from_iter`).
                return if moved > 0 { Ok(moved) } else { Err(Errno::EFAULT) };
            }
            let rights = if moved == 0 { rights } else { &[] };
            self.deliver(id, peer, data, rights, by, from.clone())?;
            moved += got;
        }
        if moved == 0 && source.remaining() > 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(moved)
    }

    /// Puts a message into an inbox and charges its sender.
    fn deliver(
        &mut self,
        sender: UnixId,
        to: UnixId,
        data: Vec<u8>,
        rights: &[FileId],
        by: Sender,
        from: RawAddress,
    ) -> Result<(), Errno> {
        let charge = charge(self.unix_socket(sender)?.kind, data.len());
        if !rights.is_empty() && !self.unix_socket(to)?.takes_files() {
            return Err(Errno::EPERM);
        }
        for file in rights {
            self.files.acquire(*file);
        }
        let socket = self.unix_socket_mut(sender)?;
        socket.charged += charge;
        let sender_tells = socket.wants_senders();
        let now = self.now;
        let receiver = self.unix_socket_mut(to)?;
        // What nobody has accepted yet may want to know later.
        let is_asked = sender_tells || receiver.wants_senders() || receiver.file.is_none();
        let credentials = match by {
            Sender::Silent(own) if is_asked => own,
            Sender::Silent(_) => UNKNOWN,
            Sender::Named(named) => named,
        };
        let at = stamp::is_wanted(&receiver.settings.kept).then_some(now);
        let rights = Rights::from_slice(rights);
        let count = rights.len();
        receiver.inbox.push_back(Packet { data, start: 0, rights, credentials, from, sender, charge, at });
        self.unix.rights_in_messages += count;
        self.notify_unix(to, Events::READABLE);
        Ok(())
    }

    /// Who sent a message is told by the name that its socket has when it is read, or had at the end (`unix_copy_addr`).
    fn name_of_sender(&self, sender: UnixId, at_first: RawAddress) -> RawAddress {
        self.unix.get(sender).map_or(at_first, |socket| socket.name.clone())
    }

    /// `try_write` of a Unix socket: what fits of a stream, a whole message otherwise.
    pub(crate) fn unix_write(&mut self, id: UnixId, source: &mut dyn ByteSource) -> Result<usize, Errno> {
        let socket = self.unix_socket(id)?;
        let by = Sender::Silent(socket.credentials);
        if socket.kind == Kind::Stream {
            return self.push_stream(id, source, &[], by);
        }
        let to = socket.peer.ok_or(Errno::ENOTCONN)?;
        let mut data = vec![0; source.remaining()];
        let got = source.take(&mut data);
        if got < data.len() {
            return Err(Errno::EFAULT);
        }
        if let Some(left) = self.filter_message(to, &data) {
            self.push_message(id, to, &data[..left], &[], by)?;
        }
        Ok(got)
    }

    /// How much of a message the receiver's filter leaves; None if it drops it (sk_filter).
    fn filter_message(&self, to: UnixId, data: &[u8]) -> Option<usize> {
        let Some(filter) = self.unix.get(to).and_then(|receiver| receiver.filter.as_ref()) else {
            return Some(data.len());
        };
        Some(filter.judge_message(data).min(data.len())).filter(|left| *left > 0)
    }

    /// Delivers one message. EAGAIN when the receiver or the sender's buffer is full.
    fn push_message(
        &mut self,
        id: UnixId,
        to: UnixId,
        data: &[u8],
        rights: &[FileId],
        by: Sender,
    ) -> Result<(), Errno> {
        let socket = self.unix_socket_mut(id)?;
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        if socket.write_shut {
            return Err(Errno::EPIPE);
        }
        if data.len() > socket.settings.send_buffer.saturating_sub(32) {
            return Err(Errno::EMSGSIZE);
        }
        let (kind, room, from) = (socket.kind, socket.has_room(), socket.name.clone());
        let Some(other) = self.unix.get(to) else {
            if kind != Kind::Datagram {
                return Err(Errno::EPIPE);
            }
            self.change_peer(id, None);
            return Err(Errno::ECONNREFUSED);
        };
        if kind == Kind::Datagram && other.peer.is_some_and(|peer| peer != id) {
            return Err(Errno::EPERM);
        }
        if other.read_shut {
            return Err(Errno::EPIPE);
        }
        let full = kind == Kind::Datagram && other.peer != Some(id) && other.inbox.len() > DATAGRAM_QUEUE;
        if full || !room {
            return Err(Errno::EAGAIN);
        }
        self.deliver(id, to, data.to_vec(), rights, by, from)
    }
}

/// Datagrams and sequenced packets: all or nothing, in the order of `unix_seqpacket_sendmsg` and `unix_dgram_sendmsg`.
fn send_message(ctx: &mut Ctx<'_>, file: FileId, id: UnixId, message: &Outgoing<'_>) -> SysResult {
    let socket = ctx.kernel.unix_socket_mut(id)?;
    let (kind, timeout, limit) = (socket.kind, socket.settings.send_timeout, socket.settings.send_buffer);
    if kind == Kind::SeqPacket {
        if let Some(error) = socket.error.take() {
            return Err(error.into());
        }
        if !matches!(socket.phase, Phase::Connected) {
            return Err(Errno::ENOTCONN.into());
        }
    }
    let attached = attached(ctx, message.control)?;
    let name = if kind == Kind::Datagram { message.name } else { &[] };
    if !name.is_empty() {
        names::check(name)?;
    }
    names::autobind_if_known(ctx, id)?;
    let total = message.data.total();
    if total > limit.saturating_sub(32) {
        return Err(Errno::EMSGSIZE.into());
    }
    let socket = ctx.kernel.unix_socket_mut(id)?;
    if let Some(error) = socket.error.take() {
        return Err(error.into());
    }
    if socket.write_shut {
        return Err(Errno::EPIPE.into());
    }
    let blocking = ctx.blocking(file, message.flags, timeout);
    if !ctx.kernel.unix_socket(id)?.has_room() {
        return wait_for_receiver(ctx, file, None, blocking);
    }
    let mut data = vec![0; total];
    if message.data.source(&ctx.process.memory).take(&mut data) < total {
        return Err(Errno::EFAULT.into());
    }
    let to = match name {
        [] => ctx.kernel.unix_socket(id)?.peer.ok_or(Errno::ENOTCONN)?,
        name => names::find(ctx, kind, name)?,
    };
    // What a filter drops is sent for all that the sender knows.
    let Some(left) = ctx.kernel.filter_message(to, &data) else { return Ok(total as u64) };
    match ctx.kernel.push_message(id, to, &data[..left], &attached.rights, attached.from) {
        Ok(()) => Ok(total as u64),
        Err(Errno::EAGAIN) => wait_for_receiver(ctx, file, Some(to), blocking),
        Err(errno) => Err(errno.into()),
    }
}

/// Waits for room: in the sender's own buffer, or in the receiver's queue, whose file says so when it is read.
fn wait_for_receiver(ctx: &mut Ctx<'_>, file: FileId, to: Option<UnixId>, blocking: Blocking) -> SysResult {
    let Blocking::Until(timeout) = blocking else { return Err(Errno::EAGAIN.into()) };
    ctx.deadline_after(timeout);
    if ctx.expired() {
        return Err(Errno::EAGAIN.into());
    }
    ctx.watch(file, Events::WRITABLE);
    let receiver = to.and_then(|to| ctx.kernel.unix_socket(to).ok()?.file);
    if let Some(receiver) = receiver.filter(|receiver| *receiver != file) {
        ctx.watch(receiver, Events::WRITABLE);
    }
    Err(match ctx.block(Restart::Sys) {
        Outcome::Restart(_) if timeout.is_some() => Errno::EINTR.into(),
        outcome => outcome,
    })
}

/// recvfrom(2), recvmsg(2).
pub fn recv(ctx: &mut Ctx<'_>, file: FileId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let id = ctx.kernel.unix_id(file)?;
    if wanted.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if wanted.flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN.into());
    }
    let socket = ctx.kernel.unix_socket(id)?;
    if socket.kind.connects() && !matches!(socket.phase, Phase::Connected) {
        return Err(if socket.kind == Kind::Stream { Errno::EINVAL } else { Errno::ENOTCONN }.into());
    }
    if socket.kind == Kind::Stream { recv_stream(ctx, file, id, wanted) } else { recv_message(ctx, file, id, wanted) }
}

fn recv_stream(ctx: &mut Ctx<'_>, file: FileId, id: UnixId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let peek = wanted.flags & MSG_PEEK != 0;
    let total = wanted.data.total();
    let socket = ctx.kernel.unix_socket(id)?;
    let low_water = socket.settings.kept.get(SOL_SOCKET, SO_RCVLOWAT).map_or(1, |low| low as usize);
    // Somebody who wants nothing waits for something, too (`sock_rcvlowat`).
    let target = if wanted.flags & MSG_WAITALL != 0 { total } else { total.min(low_water) }.max(1);
    let mut message = Message::default();
    let before = if peek { 0 } else { progress(ctx) };
    let mut sink = wanted.data.sink(&ctx.process.memory);
    sink.skip(before);
    let taken = ctx.kernel.take_stream(id, &mut sink, peek)?;
    let done = before + taken.bytes;
    if !peek {
        set_progress(ctx, done);
    }
    // Who only looks does not wait for more (`unix_stream_read_generic`).
    let seen = peek && taken.credentials.is_some();
    if done < target && taken.emptied && !seen {
        let end = match ctx.kernel.ended(id) {
            Err(_) if done > 0 => true,
            other => other?,
        };
        if !end {
            let timeout = ctx.kernel.unix_socket(id)?.settings.recv_timeout;
            let blocking = ctx.blocking(file, wanted.flags, timeout);
            wait(ctx, file, Events::READABLE, blocking, done)?;
        }
    }
    message.count = done;
    message.name = taken.from;
    finish_control(ctx, id, wanted, &mut message, taken.rights, taken.credentials.unwrap_or(NOBODY));
    Ok(message)
}

/// What was read of a stream.
#[derive(Default)]
struct Taken {
    bytes: usize,
    rights: Rights,
    credentials: Option<Ucred>,
    /// The name of who sent the first of it.
    from: RawAddress,
    /// Nothing is left.
    emptied: bool,
}

impl Kernel {
    /// Reads bytes until the sink is full, the inbox empty, or a message with descriptors was reached (it is the last of the call). Who wants
    /// nothing gets the descriptors of the first message all the same; who only looks sees those of the next message that has some, however far
    /// behind (`unix_stream_read_generic`).
    /// Messages of different senders are not joined when the reader asked who they are.
    fn take_stream(&mut self, id: UnixId, sink: &mut dyn ByteSink, peek: bool) -> Result<Taken, Errno> {
        let mut taken = Taken::default();
        let mut index = 0;
        let mut used = SmallVec::<[Packet; 2]>::new();
        let socket = self.unix.get_mut(id).ok_or(Errno::EBADF)?;
        let checks = socket.wants_senders();
        let first = socket.inbox.front().map(|packet| (packet.sender, packet.from.clone()));
        while sink.remaining() > 0 || taken.credentials.is_none() || peek {
            let Some(packet) = socket.inbox.get_mut(index) else { break };
            if checks && taken.credentials.is_some_and(|credentials| credentials != packet.credentials) {
                break;
            }
            let rest = &packet.data[packet.start..];
            let want = rest.len().min(sink.remaining());
            let got = sink.put(&rest[..want]);
            if got < want {
                // What was copied of a message before the fault does not count (`unix_stream_read_actor`).
                if taken.bytes == 0 {
                    return Err(Errno::EFAULT);
                }
                break;
            }
            taken.bytes += got;
            taken.credentials = Some(packet.credentials);
            taken.rights = if peek { packet.rights.clone() } else { std::mem::take(&mut packet.rights) };
            if peek {
                index += 1;
            } else {
                packet.start += got;
                if packet.start == packet.data.len() {
                    used.extend(socket.inbox.pop_front());
                }
            }
            if !taken.rights.is_empty() {
                break;
            }
        }
        taken.from = first.map(|(sender, from)| self.name_of_sender(sender, from)).unwrap_or_default();
        let socket = self.unix.get_mut(id).ok_or(Errno::EBADF)?;
        taken.emptied = index >= socket.inbox.len() && taken.rights.is_empty();
        if peek {
            taken.rights.iter().for_each(|file| self.files.acquire(*file));
        } else {
            self.unix.rights_in_messages -= taken.rights.len();
        }
        for packet in used {
            self.drop_packet(packet);
        }
        Ok(taken)
    }

    /// `try_read`; descriptors that came along are closed. A message gives what there is room for.
    pub(crate) fn unix_read(&mut self, id: UnixId, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let socket = self.unix_socket(id)?;
        if socket.kind != Kind::Stream {
            return self.read_message(id, sink);
        }
        if !matches!(socket.phase, Phase::Connected) {
            return Err(Errno::EINVAL);
        }
        let taken = self.take_stream(id, sink, false)?;
        for file in taken.rights {
            self.release_file(file);
        }
        if taken.bytes == 0 && sink.remaining() > 0 && !self.ended(id)? {
            return Err(Errno::EAGAIN);
        }
        Ok(taken.bytes)
    }

    fn read_message(&mut self, id: UnixId, sink: &mut dyn ByteSink) -> Result<usize, Errno> {
        let socket = self.unix_socket_mut(id)?;
        let connects = socket.kind.connects();
        if connects && !matches!(socket.phase, Phase::Connected) {
            return Err(Errno::ENOTCONN);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        let (shut, file) = (socket.read_shut, socket.file);
        let Some(packet) = socket.inbox.front_mut() else {
            let waits = file.is_some_and(|file| !self.files[file].nonblocking());
            return if shut && (connects || waits) { Ok(0) } else { Err(Errno::EAGAIN) };
        };
        let count = packet.data.len().min(sink.remaining());
        let given = sink.put(&packet.data[..count]);
        take_front(self, id);
        if given < count { Err(Errno::EFAULT) } else { Ok(count) }
    }

    /// What a reader of an empty inbox finds: an error, the end (true), or nothing yet.
    fn ended(&mut self, id: UnixId) -> Result<bool, Errno> {
        let socket = self.unix_socket_mut(id)?;
        match socket.error.take() {
            Some(error) => Err(error),
            None => Ok(socket.read_shut),
        }
    }
}

fn recv_message(ctx: &mut Ctx<'_>, file: FileId, id: UnixId, wanted: &Incoming<'_>) -> Result<Message, Outcome> {
    let peek = wanted.flags & MSG_PEEK != 0;
    let start = ctx.kernel.config.clock;
    let socket = ctx.kernel.unix_socket_mut(id)?;
    if let Some(error) = socket.error.take() {
        // Messages, unlike bytes, come after it (`__skb_try_recv_datagram`).
        return Err(error.into());
    }
    let Some(packet) = socket.inbox.front_mut() else {
        let (shut, connects, timeout) = (socket.read_shut, socket.kind.connects(), socket.settings.recv_timeout);
        let blocking = ctx.blocking(file, wanted.flags, timeout);
        // The end is for who waits for it; others see it only where there are connections.
        if shut && (connects || blocking != Blocking::No) {
            return Ok(Message::default());
        }
        return wait(ctx, file, Events::READABLE, blocking, 0).map(|_| Message::default());
    };
    let len = packet.data.len();
    let copied = len.min(wanted.data.total());
    let mut sink = wanted.data.sink(&ctx.process.memory);
    let faulted = sink.put(&packet.data[..copied]) < copied;
    let mut message = Message { count: copied, ..Message::default() };
    let (sender, from) = (packet.sender, packet.from.clone());
    if copied < len {
        message.flags |= MSG_TRUNC;
        if wanted.flags & MSG_TRUNC != 0 {
            message.count = len;
        }
    }
    if stamp::is_wanted(&socket.settings.kept) {
        // Who has asked for it since it was sent learns when it was first read.
        let nanos = start.unix_nanos(*packet.at.get_or_insert(ctx.now));
        stamp::tell(&socket.settings.kept, nanos, wanted.control_space, &mut message);
    }
    let credentials = packet.credentials;
    let rights = if peek { packet.rights.clone() } else { std::mem::take(&mut packet.rights) };
    if peek {
        rights.iter().for_each(|file| ctx.kernel.files.acquire(*file));
    } else {
        ctx.kernel.unix.rights_in_messages -= rights.len();
        take_front(ctx.kernel, id);
    }
    let from = ctx.kernel.name_of_sender(sender, from);
    if !from.is_empty() {
        message.name = shown(&from);
    }
    if faulted {
        rights.iter().for_each(|file| ctx.kernel.release_file(*file));
        return Err(Errno::EFAULT.into());
    }
    finish_control(ctx, id, wanted, &mut message, rights, credentials);
    Ok(message)
}

/// Removes a message that was read; senders that found the queue full are told.
fn take_front(kernel: &mut Kernel, id: UnixId) {
    let Some(socket) = kernel.unix.get_mut(id) else { return };
    let was_full = socket.inbox.len() > DATAGRAM_QUEUE;
    let file = socket.file;
    if let Some(packet) = socket.inbox.pop_front() {
        kernel.drop_packet(packet);
    }
    if !was_full {
        return;
    }
    let senders: Vec<FileId> = kernel
        .unix
        .slab
        .iter()
        .filter(|(_, other)| other.peer == Some(id))
        .filter_map(|(_, other)| other.file)
        .collect();
    for file in senders.into_iter().chain(file) {
        kernel.notify(file, Events::WRITABLE);
    }
}

/// SO_PASSPIDFD: a descriptor of the sender's process, or the errno in its place (`scm_pidfd_recv`).
fn give_process(ctx: &mut Ctx<'_>, id: UnixId, wanted: &Incoming<'_>, message: &mut Message, sender: Ucred) {
    if !ctx.kernel.unix.get(id).is_some_and(|socket| socket.passes(SO_PASSPIDFD)) {
        return;
    }
    if wanted.control_space < message.control.len() + size_of::<Cmsghdr>() + size_of::<i32>() {
        message.flags |= MSG_CTRUNC;
        return;
    }
    if sender.pid == 0 {
        return;
    }
    let fd = open_pidfd_of(ctx, sender.pid).map_or_else(|errno| -errno.raw(), |fd| fd as i32);
    push_control(message, wanted.control_space, SOL_SOCKET, SCM_PIDFD, &fd.to_ne_bytes());
}

/// Gives the receiver what is beside a message: credentials, if it asked for them, descriptors, and the sender's process.
fn finish_control(
    ctx: &mut Ctx<'_>,
    id: UnixId,
    wanted: &Incoming<'_>,
    message: &mut Message,
    rights: Rights,
    credentials: Ucred,
) {
    if ctx.kernel.unix.get(id).is_some_and(|socket| socket.passes(SO_PASSCRED)) {
        push_control(
            message,
            wanted.control_space,
            SOL_SOCKET,
            SCM_CREDENTIALS,
            zerocopy::IntoBytes::as_bytes(&credentials),
        );
    }
    give_files(ctx, wanted, message, rights);
    // It comes last (`scm_recv_unix`).
    give_process(ctx, id, wanted, message, credentials);
}

/// Descriptors of files that came with a message, as many as there is room for.
fn give_files(ctx: &mut Ctx<'_>, wanted: &Incoming<'_>, message: &mut Message, rights: Rights) {
    if rights.is_empty() {
        return;
    }
    let room = wanted.control_space.saturating_sub(message.control.len() + size_of::<Cmsghdr>()) / 4;
    let mut fds: Vec<u8> = Vec::new();
    let mut cut = false;
    for (i, file) in rights.into_iter().enumerate() {
        if i >= room || cut {
            cut = true;
            ctx.kernel.release_file(file);
            continue;
        }
        match ctx.install(file, wanted.flags & MSG_CMSG_CLOEXEC != 0) {
            Ok(fd) => fds.extend_from_slice(&(fd as i32).to_ne_bytes()),
            Err(_) => cut = true,
        }
    }
    if !fds.is_empty() {
        push_control(message, wanted.control_space, SOL_SOCKET, SCM_RIGHTS, &fds);
    }
    if cut {
        message.flags |= MSG_CTRUNC;
    }
}
