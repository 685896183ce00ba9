//! When what leaves a connection may go on the line: Linux's pacing (tcp_update_pacing_rate, tcp_update_skb_after_send, tcp_pacing_check).
//! Where the interface's queue discipline keeps packets until their time (fq), each connection gives them one; elsewhere only one with
//! SO_MAX_PACING_RATE waits by itself.

use super::connection::Connection;
use super::controller::Pipe;
use crate::addr::Interface;
use base::{SimDuration, SimTime};

/// The first segments are not paced.
const FREE_SEGMENTS: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pacing {
    Off,
    /// By the connection's own timer.
    Timer,
    /// By the interface's queue discipline.
    Queue,
}

impl Connection {
    pub(super) fn pacing(&self) -> Pacing {
        if self.interface == Interface::Ethernet && self.config.departures_wait {
            Pacing::Queue
        } else if self.settings.max_pacing_rate < u64::MAX || self.cc.rules() {
            Pacing::Timer
        } else {
            Pacing::Off
        }
    }

    /// The controller's rate, no more than SO_MAX_PACING_RATE, in bytes per second; None before the first measurement, if there is no such limit.
    pub(super) fn pacing_rate(&self) -> Option<u64> {
        let most = self.settings.max_pacing_rate;
        self.cc.pacing_rate().map(|rate| rate.min(most)).or((most < u64::MAX).then_some(most))
    }

    /// What the pace follows from.
    pub(super) fn pipe(&self) -> Pipe {
        Pipe {
            out: self.board.packets_out(),
            mss: self.payload_mss(),
            srtt: self.rtt.srtt(),
            percent: (self.config.pacing_slow_start, self.config.pacing_avoidance),
        }
    }

    /// When what leaves the connection now goes on the line, at the earliest.
    pub(super) fn departs_at(&self, now: SimTime) -> SimTime {
        self.snd.departs.max(now)
    }

    /// So much payload leaves: the next has to wait until that has gone at the pacing rate. Gives when this may go.
    pub(super) fn note_departure(&mut self, now: SimTime, payload: usize) -> SimTime {
        let at = self.departs_at(now);
        let idle = at.saturating_since(self.snd.departs);
        self.snd.departs = at;
        let counts = payload > 0 && self.counters.data_segments_out >= FREE_SEGMENTS && self.pacing() != Pacing::Off;
        if let Some(rate) = self.pacing_rate().filter(|rate| counts && *rate > 0) {
            let takes = (payload as u64).saturating_mul(1_000_000_000) / rate;
            // What was not used before makes up for what came late.
            self.snd.departs += SimDuration::from_nanos(takes - idle.as_nanos().min(takes / 2));
        }
        at
    }

    /// Timers of what was sent count from here on, where pacing holds the next packet (tcp_pacing_delay).
    pub(super) fn paced_until(&self) -> SimTime {
        if self.pacing() == Pacing::Off { SimTime::ZERO } else { self.snd.departs }
    }

    /// The connection has to wait before more data may leave; its timer says how long.
    pub(super) fn waits_for_pace(&mut self, now: SimTime) -> bool {
        let waits = self.snd.departs > now && self.pacing() == Pacing::Timer;
        if waits {
            self.timers.pace = true;
        }
        waits
    }
}
