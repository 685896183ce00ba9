//! Unix sockets as tools list them: `/proc/net/unix`, and unix_diag of sock_diag(7).

use super::{Key, Kind, Phase, UnixId, UnixSocket, UnixSockets};
use crate::net::listing::inode;
use linux_abi::socket::{SOCK_DGRAM, SOCK_SEQPACKET, SOCK_STREAM};

/// A Unix socket.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Names the socket among all that there ever were.
    pub serial: u64,
    /// 0 for one that waits for `accept`.
    pub inode: u64,
    pub user: u32,
    /// SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET.
    pub kind: i32,
    pub listening: bool,
    pub connected: bool,
    /// After the family, as bound: a path with its NUL, or NUL and an abstract name. Empty without a name.
    pub name: Vec<u8>,
    /// The number of the socket's file, of a name in the file tree.
    pub file_number: Option<u64>,
    /// The peer's inode.
    pub peer: Option<u64>,
    /// Bytes that wait to be read; of a listener the connections that wait, and how many may.
    pub recv_queue: u32,
    pub send_queue: u32,
    /// Inodes of the clients whose connections wait for `accept`.
    pub waiting: Vec<u32>,
    pub recv_buffer: u32,
    pub send_buffer: u32,
    pub read_shut: bool,
    pub write_shut: bool,
}

impl UnixSockets {
    fn inode_of(&self, id: UnixId) -> u64 {
        self.get(id).and_then(|socket| socket.file).map_or(0, inode)
    }

    /// Every socket, in order of their places.
    pub fn list(&self) -> impl Iterator<Item = Listed> {
        self.slab.iter().map(|(_, socket)| self.listed(socket))
    }

    fn listed(&self, socket: &UnixSocket) -> Listed {
        let (recv_queue, send_queue, waiting) = match &socket.phase {
            Phase::Listening { backlog, waiting } => {
                let clients = waiting.iter().filter_map(|embryo| self.get(*embryo)?.peer);
                let inodes = clients.map(|client| self.inode_of(client) as u32).collect();
                (waiting.len() as u32, *backlog as u32, inodes)
            }
            _ => (socket.readable_bytes() as u32, socket.charged as u32, Vec::new()),
        };
        Listed {
            serial: socket.serial,
            inode: socket.file.map_or(0, inode),
            user: socket.credentials.uid,
            kind: match socket.kind {
                Kind::Stream => SOCK_STREAM,
                Kind::Datagram => SOCK_DGRAM,
                Kind::SeqPacket => SOCK_SEQPACKET,
            },
            listening: socket.is_listening(),
            connected: matches!(socket.phase, Phase::Connected) || (!socket.kind.connects() && socket.peer.is_some()),
            name: socket.name.get(2..).unwrap_or_default().to_vec(),
            file_number: match &socket.key {
                Some(Key::Inode(number)) => Some(*number),
                _ => None,
            },
            peer: socket.peer.map(|peer| self.inode_of(peer)),
            recv_queue,
            send_queue,
            waiting,
            recv_buffer: socket.settings.recv_buffer as u32,
            send_buffer: socket.settings.send_buffer as u32,
            read_shut: socket.read_shut,
            write_shut: socket.write_shut,
        }
    }
}
