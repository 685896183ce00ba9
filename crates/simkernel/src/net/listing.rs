//! The sockets of a host as tools list them: what the stack and the Unix family know of each, with the inode, owner and references of
//! its open file. Read by `/proc/net` and by sock_diag(7).

use super::Network;
use crate::files::{FileKind, FileTable};
use crate::ids::FileId;
use base::SimTime;
use tcpip::{Listed, SocketId, TcpState};

/// Inode numbers of files that have no path begin here; those of sockets are told to programs in 32 bits (`struct inet_diag_msg`).
pub const ANONYMOUS_NUMBERS: u64 = 1 << 24;

/// The inode number of an open file that has no path.
pub fn inode(file: FileId) -> u64 {
    ANONYMOUS_NUMBERS + u64::from(file.0)
}

/// SO_COOKIE.
pub fn cookie(id: SocketId) -> u64 {
    id.number() + 1
}

/// SO_MEMINFO and INET_DIAG_SKMEMINFO (`sk_get_meminfo`): bytes held and the limit, received and sent, then ahead, queued, for options,
/// in the backlog; drops.
pub fn memory_of(listed: Option<Listed>) -> [u32; 9] {
    let Some(listed) = listed else { return [0; 9] };
    let Listed { recv_memory, recv_buffer, in_interface, send_buffer, send_memory, drops, .. } = listed;
    [recv_memory, recv_buffer, in_interface, send_buffer, 0, send_memory, 0, 0, drops as u32]
}

/// An Internet socket, connection or TIME_WAIT record.
#[derive(Clone, Debug)]
pub struct Entry {
    pub listed: Listed,
    /// 0 where no program has a descriptor of it.
    pub inode: u64,
    pub user: u32,
}

impl Entry {
    /// No program has it any more.
    pub fn is_orphan(&self) -> bool {
        self.inode == 0 && !self.listed.unaccepted && self.listed.state != TcpState::TimeWait
    }
}

/// Every Internet socket of a host, listeners first.
pub fn internet(net: &Network, files: &FileTable, now: SimTime) -> Vec<Entry> {
    let entry = |listed: Listed| {
        let file = net.file(listed.id);
        let user = match file.and_then(|file| files.get(file)).map(|file| &file.kind) {
            Some(FileKind::Inet(socket)) => socket.permissions.user,
            _ => 0,
        };
        Entry { inode: file.map_or(0, inode), user, listed }
    };
    net.stack.list(now).into_iter().map(entry).collect()
}

/// Sockets of all families that programs have.
pub fn open_sockets(files: &FileTable) -> impl Iterator<Item = (FileId, &FileKind)> {
    files.iter().map(|(id, file)| (id, &file.kind)).filter(|(_, kind)| super::is_socket(kind))
}
