//! Header prediction (RFC 1323's appendix; the fast path of tcp_rcv_established): data that comes exactly as expected, and acknowledges nothing
//! new, is taken without a look at what waits to be sent. So what MSG_MORE or a cork holds back stays, where other segments push it.

use super::connection::{Connection, State, extend};
use crate::wire::tcp::{TcpFlags, TcpHeader};

/// What a socket has of memory is accounted for in such pages: the rest of the last one may be used without asking (sk_forward_alloc).
const ACCOUNTED: usize = 4096;

impl Connection {
    /// Whether a segment with `len` bytes from `seq` on is the expected one. To be asked before anything is learned from it.
    pub(super) fn is_predicted(&self, header: &TcpHeader, seq: u64, len: usize) -> bool {
        let stamps = header.options.timestamps;
        let has_expected_options = self.timestamps_enabled == stamps.is_some()
            && header.options.sack.as_slice().is_empty()
            && stamps.is_none_or(|stamps| stamps.value.wrapping_sub(self.rcv.ts_recent) as i32 >= 0);
        self.rcv.predicts
            && self.state == State::Established
            && len > 0
            && header.flags.difference(TcpFlags::PSH) == TcpFlags::ACK
            && u32::from(header.window) == self.snd.window >> self.snd.scale
            && seq == self.rcv.queue.next()
            && extend(self.snd.una, header.ack) == self.snd.una
            && has_expected_options
            && self.arrival(header, len).footprint.charge as usize <= self.accounted_rest()
    }

    /// What is left of the last page that is accounted for. Of one that holds nothing there is none.
    fn accounted_rest(&self) -> usize {
        let held = self.snd.queue.memory() + self.rcv.queue.memory();
        held.next_multiple_of(ACCOUNTED) - held
    }

    /// Begins to predict, unless something stands against it (tcp_fast_path_check).
    pub(super) fn predict(&mut self) {
        let early = self.rcv.queue.has_early() || (self.rcv.fin_at.is_some() && !self.rcv.fin_received);
        let has_room = self.rcv.window > 0 && self.rcv.queue.memory() < self.sizing.recv_buffer as usize;
        self.rcv.predicts |= !early && has_room;
    }
}
