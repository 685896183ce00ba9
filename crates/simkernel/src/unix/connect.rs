//! Creating, pairing, connecting, listening, accepting, shutting down Unix sockets.

use super::names::{self, shown};
use super::{Kind, Phase, UnixId, UnixSocket};
use crate::ctx::Ctx;
use crate::ids::FileId;
use crate::net::address::{self, RawAddress};
use crate::net::{Blocking, SOCKET_MODE};
use crate::outcome::{Outcome, Restart, SysResult};
use crate::vfs::permission::Permissions;
use crate::wait::Events;
use linux_abi::Errno;
use linux_abi::fs::O_NONBLOCK;
use linux_abi::socket::*;
use std::collections::VecDeque;
use std::sync::Arc;

fn kind_of(kind: i32, protocol: i32) -> Result<Kind, Errno> {
    if protocol != 0 && protocol != AF_UNIX {
        return Err(Errno::EPROTONOSUPPORT);
    }
    match kind {
        SOCK_STREAM => Ok(Kind::Stream),
        // As Linux: "believe it or not, BSD has a raw type here".
        SOCK_DGRAM | SOCK_RAW => Ok(Kind::Datagram),
        SOCK_SEQPACKET => Ok(Kind::SeqPacket),
        _ => Err(Errno::ESOCKTNOSUPPORT),
    }
}

fn status(nonblocking: bool) -> u32 {
    if nonblocking { O_NONBLOCK } else { 0 }
}

/// What SO_PEERCRED and SO_PEERGROUPS tell the other side: the effective ids, unix(7), and the supplementary groups.
fn credentials(ctx: &Ctx<'_>) -> (Ucred, Arc<[u32]>) {
    let who = ctx.credentials();
    let ids = Ucred { pid: ctx.process.pid.0 as i32, uid: who.user.effective, gid: who.group.effective };
    (ids, who.groups.clone())
}

/// Of a new socket, as fstat(2) shows them.
fn permissions(ctx: &Ctx<'_>) -> Permissions {
    Permissions::nameless(SOCKET_MODE, ctx.credentials())
}

/// socket(2).
pub fn socket(ctx: &mut Ctx<'_>, kind: i32, protocol: i32, nonblocking: bool) -> Result<FileId, Errno> {
    let kind = kind_of(kind, protocol)?;
    let socket = UnixSocket::new(kind, credentials(ctx), permissions(ctx));
    let id = ctx.kernel.unix.insert(socket);
    Ok(ctx.kernel.open_unix(id, status(nonblocking)))
}

/// socketpair(2).
pub fn pair(ctx: &mut Ctx<'_>, kind: i32, protocol: i32, nonblocking: bool) -> Result<[FileId; 2], Errno> {
    let kind = kind_of(kind, protocol)?;
    let own = credentials(ctx);
    let permissions = permissions(ctx);
    let ids = [(); 2].map(|()| ctx.kernel.unix.insert(UnixSocket::new(kind, own.clone(), permissions)));
    for (id, peer) in [(ids[0], ids[1]), (ids[1], ids[0])] {
        let socket = ctx.kernel.unix_socket_mut(id)?;
        socket.peer = Some(peer);
        (socket.peer_credentials, socket.peer_groups) = (own.0, Some(own.1.clone()));
        socket.phase = Phase::Connected;
    }
    Ok(ids.map(|id| ctx.kernel.open_unix(id, status(nonblocking))))
}

/// listen(2). EINVAL without a name.
pub fn listen(ctx: &mut Ctx<'_>, file: FileId, backlog: i32) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    let own = credentials(ctx);
    let socket = ctx.kernel.unix_socket_mut(id)?;
    if !socket.kind.connects() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if socket.name.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    // A negative backlog is a very large one, and then cut.
    let limit = (backlog as u32).min(SOMAXCONN as u32) as usize;
    match &mut socket.phase {
        Phase::Connected => return Err(Errno::EINVAL.into()),
        Phase::Listening { backlog, .. } => *backlog = limit,
        phase @ Phase::Unconnected => *phase = Phase::Listening { backlog: limit, waiting: VecDeque::new() },
    }
    // Who asks a listener for its peer learns of the listener itself (`init_peercred`).
    (socket.peer_credentials, socket.peer_groups) = (own.0, Some(own.1.clone()));
    (socket.credentials, socket.groups) = own;
    Ok(0)
}

/// connect(2).
pub fn connect(ctx: &mut Ctx<'_>, file: FileId, name: &[u8]) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    let kind = ctx.kernel.unix_socket(id)?.kind;
    if !kind.connects() {
        return connect_datagram(ctx, id, name);
    }
    names::check(name)?;
    names::autobind_if_known(ctx, id)?;
    let target = names::find(ctx, kind, name)?;
    let listener = ctx.kernel.unix_socket(target)?;
    let Phase::Listening { backlog, waiting } = &listener.phase else { return Err(Errno::ECONNREFUSED.into()) };
    if listener.read_shut {
        return Err(Errno::ECONNREFUSED.into());
    }
    if waiting.len() > *backlog {
        return wait_for_backlog(ctx, file, target);
    }
    // As `unix_stream_connect`: the other side is looked at first.
    match ctx.kernel.unix_socket(id)?.phase {
        Phase::Unconnected => {}
        Phase::Connected => return Err(Errno::EISCONN.into()),
        Phase::Listening { .. } => return Err(Errno::EINVAL.into()),
    }
    let own = credentials(ctx);
    let listener = ctx.kernel.unix_socket(target)?;
    let (server_name, server) = (listener.name.clone(), (listener.credentials, listener.groups.clone()));
    let mut accepted = UnixSocket::new(kind, server.clone(), listener.permissions);
    accepted.name = server_name;
    listener.hand_down(&mut accepted);
    accepted.phase = Phase::Connected;
    accepted.peer = Some(id);
    (accepted.peer_credentials, accepted.peer_groups) = (own.0, Some(own.1.clone()));
    let accepted = ctx.kernel.unix.insert(accepted);
    let socket = ctx.kernel.unix_socket_mut(id)?;
    socket.phase = Phase::Connected;
    socket.peer = Some(accepted);
    (socket.peer_credentials, socket.peer_groups) = (server.0, Some(server.1));
    (socket.credentials, socket.groups) = own;
    if let Phase::Listening { waiting, .. } = &mut ctx.kernel.unix_socket_mut(target)?.phase {
        waiting.push_back(accepted);
    }
    ctx.kernel.notify_unix(target, Events::READABLE);
    Ok(0)
}

/// The listener's queue is full: wait until `accept` makes room.
fn wait_for_backlog(ctx: &mut Ctx<'_>, file: FileId, listener: UnixId) -> SysResult {
    let socket = ctx.kernel.unix_socket(ctx.kernel.unix_id(file)?)?;
    let timeout = socket.settings.send_timeout;
    if ctx.kernel.files[file].nonblocking() {
        return Err(Errno::EAGAIN.into());
    }
    ctx.deadline_after(timeout);
    if ctx.expired() {
        return Err(Errno::EAGAIN.into());
    }
    let Some(listening) = ctx.kernel.unix_socket(listener)?.file else { return Err(Errno::ECONNREFUSED.into()) };
    ctx.watch(listening, Events::WRITABLE);
    Err(match ctx.block(Restart::Sys) {
        Outcome::Restart(_) if timeout.is_some() => Errno::EINTR.into(),
        outcome => outcome,
    })
}

/// Sets (or, with AF_UNSPEC, forgets) a datagram socket's destination.
fn connect_datagram(ctx: &mut Ctx<'_>, id: UnixId, name: &[u8]) -> SysResult {
    if address::family(name) == Some(AF_UNSPEC) {
        ctx.kernel.change_peer(id, None);
        return Ok(0);
    }
    names::check(name)?;
    names::autobind_if_known(ctx, id)?;
    let target = names::find(ctx, Kind::Datagram, name)?;
    let other = ctx.kernel.unix_socket(target)?;
    if other.peer.is_some_and(|peer| peer != id) {
        return Err(Errno::EPERM.into());
    }
    let name = other.name.clone();
    ctx.kernel.change_peer(id, Some(target));
    ctx.kernel.unix_socket_mut(id)?.peer_name = name;
    Ok(0)
}

/// accept(2), accept4(2): a new descriptor, and the peer's name.
pub fn accept(ctx: &mut Ctx<'_>, file: FileId, flags: i32) -> Result<(u64, RawAddress), Outcome> {
    let id = ctx.kernel.unix_id(file)?;
    // As Linux: without a free descriptor the connection stays in the queue (`__sys_accept4_file`).
    let fd = ctx.reserve_fd()?;
    let socket = ctx.kernel.unix_socket_mut(id)?;
    let timeout = socket.settings.recv_timeout;
    if !socket.kind.connects() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    let shut = socket.read_shut;
    let Phase::Listening { waiting, .. } = &mut socket.phase else { return Err(Errno::EINVAL.into()) };
    let Some(accepted) = waiting.front().copied() else {
        let blocking = ctx.blocking(file, 0, timeout);
        if shut && blocking != Blocking::No {
            return Err(Errno::EINVAL.into());
        }
        return crate::net::wait(ctx, file, Events::READABLE, blocking, 0).map(|_| (0, RawAddress::new()));
    };
    let new = ctx.kernel.open_unix(accepted, status(flags & SOCK_NONBLOCK != 0));
    let permissions = permissions(ctx);
    ctx.kernel.unix_socket_mut(accepted)?.permissions = permissions;
    ctx.fds_mut().replace(fd, new, flags & SOCK_CLOEXEC != 0);
    if let Phase::Listening { waiting, .. } = &mut ctx.kernel.unix_socket_mut(id)?.phase {
        waiting.pop_front();
    }
    ctx.kernel.notify(file, Events::WRITABLE);
    Ok((fd.into(), shown(&ctx.kernel.unix.peer_name_of(accepted)?)))
}

/// shutdown(2).
pub fn shutdown(ctx: &mut Ctx<'_>, file: FileId, how: i32) -> SysResult {
    let id = ctx.kernel.unix_id(file)?;
    let (read, write) = match how {
        SHUT_RD => (true, false),
        SHUT_WR => (false, true),
        SHUT_RDWR => (true, true),
        _ => return Err(Errno::EINVAL.into()),
    };
    ctx.kernel.shut_unix(id, read, write)?;
    Ok(0)
}

/// getsockname(2).
pub fn local_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let id = ctx.kernel.unix_id(file)?;
    Ok(shown(&ctx.kernel.unix_socket(id)?.name))
}

/// getpeername(2). ENOTCONN.
pub fn peer_name(ctx: &mut Ctx<'_>, file: FileId) -> Result<RawAddress, Errno> {
    let id = ctx.kernel.unix_id(file)?;
    Ok(shown(&ctx.kernel.unix.peer_name_of(id)?))
}
