//! A listening socket: how many handshakes it has under way, and the connections that wait to be accepted.

use super::info::{TcpInfo, TcpState};
use crate::socket::SocketId;
use base::SimTime;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Listener {
    /// As given to listen(2), bounded by net.core.somaxconn.
    pub backlog: u32,
    /// Complete connections, oldest first.
    pub ready: VecDeque<SocketId>,
    /// Handshakes under way.
    pub half_open: Vec<SocketId>,
    /// When there were too many of them last.
    pub flooded_at: Option<SimTime>,
    /// SYNs and final acknowledgements that were dropped because a queue was full (ListenOverflows, ListenDrops).
    pub dropped: u32,
}

impl Listener {
    pub fn new(backlog: u32) -> Self {
        Listener { backlog, ready: VecDeque::new(), half_open: Vec::new(), flooded_at: None, dropped: 0 }
    }

    pub fn info(&self) -> TcpInfo {
        TcpInfo {
            state: TcpState::Listen,
            unacked: self.ready.len() as u32,
            sacked: self.backlog,
            ..TcpInfo::default()
        }
    }

    /// Linux lets in one more than the backlog (sk_acceptq_is_full).
    pub fn is_full(&self) -> bool {
        self.ready.len() as u32 > self.backlog
    }

    /// The handshake of `id` is done, or given up.
    pub fn settle(&mut self, id: SocketId, complete: bool) {
        self.half_open.retain(|half| *half != id);
        if complete {
            self.ready.push_back(id);
        }
    }
}
