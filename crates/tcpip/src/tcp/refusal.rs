//! The queue of the host's own interface has no room for what the connection has sent, and says so at once: it was not sent. What stays
//! counted, what is taken back and when it is tried again is Linux's (net/ipv4/tcp_output.c, tcp_timer.c: NET_XMIT_DROP).

use super::connection::{Connection, extend};
use super::controller::Phase;
use super::timer::RESOURCE_PROBE;
use crate::wire::tcp::{TcpFlags, TcpHeader};
use base::SimTime;

impl Connection {
    /// This segment, or train, of the last `poll`s was not sent. Says from which number on nothing was, if it was new data.
    pub fn refused(&mut self, now: SimTime, header: &TcpHeader, payload_len: usize) -> Option<u64> {
        if !self.state.synchronised() {
            // Of a handshake nobody looks whether it was sent (tcp_connect); the timer sends it again.
            return None;
        }
        let start = extend(self.snd.nxt, header.seq);
        let end = start + payload_len as u64 + u64::from(header.flags.intersects(TcpFlags::FIN | TcpFlags::SYN));
        let is_new = end > start && !self.board.was_resent(start);
        if is_new {
            self.take_back_new(now, start);
        } else if end > start {
            self.take_back_copy(now, start, end);
        } else if start < self.snd.una {
            self.take_back_probe(now);
        }
        self.enter_cwr();
        is_new.then_some(start)
    }

    /// The queue has dropped another packet of this connection to take one (NET_XMIT_CN).
    pub fn congested(&mut self) {
        if self.state.synchronised() {
            self.enter_cwr();
        }
    }

    fn take_back_new(&mut self, now: SimTime, start: u64) {
        let segments = self.board.unsend(start);
        if self.recovery.tail_probe_end == Some(self.snd.nxt) {
            self.take_back_tail_probe();
        }
        self.snd.queue.mark_unsent(start);
        self.snd.nxt = start;
        if self.snd.small_end > start {
            self.snd.small_end = self.snd.una;
        }
        self.cc.note_refused(segments);
        if self.timers.window_probes > 0 && self.board.is_empty() {
            self.timers.window_wait_since = self.timers.window_waited_since;
            if self.timers.window_probed_at == now {
                self.put_off_window_probe(now);
            }
        }
    }

    fn take_back_copy(&mut self, now: SimTime, start: u64, end: u64) {
        if self.recovery.tail_probe_end == Some(self.snd.nxt) && self.recovery.tail_probe_resent {
            self.counters.copies_refused += 1;
            return self.take_back_tail_probe();
        }
        let segments = self.board.unresend(start, end);
        self.counters.copies_refused += segments;
        self.cc.note_refused(segments);
        let is_head = self.board.head().is_some_and(|head| head.start == start);
        if is_head && self.recovery.phase == Phase::Loss && self.timers.timed_out_at == now {
            // No sign of congestion elsewhere: no backoff (tcp_retransmit_timer).
            self.rtt.backoff = self.rtt.backoff.saturating_sub(1);
            let until = (now + RESOURCE_PROBE).as_nanos();
            self.timers.since = SimTime::from_nanos(until.saturating_sub(self.rtt.rto().as_nanos()));
        } else if is_head {
            self.timers.since = self.timers.since_before;
        }
    }

    /// There was no tail loss probe; the timeout counts from the head (tcp_rearm_rto).
    fn take_back_tail_probe(&mut self) {
        self.recovery.tail_probe_end = None;
        self.recovery.tail_probe_resent = false;
        self.counters.loss_probes = self.counters.loss_probes.saturating_sub(1);
        if let Some(head) = self.board.head() {
            self.timers.since = head.sent_at;
        }
    }

    /// A probe without payload: of the window, or of a silent peer.
    fn take_back_probe(&mut self, now: SimTime) {
        if self.timers.window_probes > 0 && self.timers.window_probed_at == now {
            return self.put_off_window_probe(now);
        }
        self.timers.keepalive_probes = self.timers.keepalive_probes.saturating_sub(1);
        self.timers.keepalive = now + RESOURCE_PROBE;
    }

    /// It counts as a probe, and does not make the next ones rarer (tcp_send_probe0).
    fn put_off_window_probe(&mut self, now: SimTime) {
        self.timers.window_backoff = self.timers.window_backoff.saturating_sub(1);
        self.timers.window_probe_refused = true;
        self.timers.window_wait_since = now;
    }
}
