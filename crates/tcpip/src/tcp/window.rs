//! How large the buffers are and which receive window is offered: silly window avoidance (RFC 9293 section 3.8.6.2.2),
//! Linux's slow opening of the window, dynamic right sizing of the receive buffer, and growth of the send buffer.

use super::connection::Connection;
use crate::config::Config;
use crate::socket::Settings;
use base::{SimDuration, SimTime};

#[derive(Debug)]
pub(crate) struct Sizing {
    pub send_buffer: u32,
    pub recv_buffer: u32,
    /// The largest window to offer yet; opens by two segments per segment received (rcv_ssthresh).
    pub open: u32,
    advertised_mss: u32,
    /// Dynamic right sizing: bytes that the program read in the last round trip, when this one began, and from where.
    copied_last: u64,
    round_start: SimTime,
    round_from: u64,
    /// The round trip as the receiver sees it; zero when unknown.
    pub recv_rtt: SimDuration,
}

/// Half of the buffer is for data (tcp_adv_win_scale 1).
fn window_of(buffer: u32) -> u32 {
    buffer / 2
}

impl Sizing {
    pub fn new(settings: &Settings, mss: u32) -> Self {
        let mut sizing = Sizing {
            send_buffer: settings.send_buffer,
            recv_buffer: settings.recv_buffer,
            open: 0,
            advertised_mss: mss,
            copied_last: 0,
            round_start: SimTime::ZERO,
            round_from: 0,
            recv_rtt: SimDuration::ZERO,
        };
        sizing.open = sizing.initial_window();
        sizing
    }

    /// The window that a connection begins with: whole segments (tcp_select_initial_window). The field of a SYN, which is never scaled,
    /// has room for 65,535.
    pub fn initial_window(&self) -> u32 {
        let space = window_of(self.recv_buffer);
        if space > self.advertised_mss { space / self.advertised_mss * self.advertised_mss } else { space }
    }

    /// The scale that lets the largest window be expressed (tcp_select_initial_window).
    pub fn scale(config: &Config, settings: &Settings) -> u8 {
        let locked = settings.recv_buffer_locked;
        let largest = if locked { settings.recv_buffer } else { config.recv_buffer_max.max(config.recv_argument_max) };
        let mut scale = 0;
        while largest >> scale > 65_535 && scale < 14 {
            scale += 1;
        }
        scale
    }

    /// What dynamic right sizing measured last, in bytes per round trip (tcpi_rcv_space).
    pub fn space(&self) -> u32 {
        u32::try_from(self.copied_last).unwrap_or(u32::MAX)
    }

    /// Data may come from now on; its first byte is `next`.
    pub fn started(&mut self, now: SimTime, next: u64) {
        self.round_start = now;
        self.round_from = next;
        // A segment's room stays in reserve (tcp_init_buffer_space).
        let full = window_of(self.recv_buffer);
        self.open = self.open.min(full.saturating_sub(self.advertised_mss).max(2 * self.advertised_mss));
        self.copied_last = u64::from(self.open.min(10 * self.advertised_mss));
    }
}

impl Connection {
    fn full_window(&self) -> u32 {
        let full = window_of(self.sizing.recv_buffer);
        if self.settings.window_clamp > 0 { full.min(self.settings.window_clamp) } else { full }
    }

    /// Room for data in the receive buffer.
    fn free_window(&self) -> u32 {
        let held = u32::try_from(self.rcv.queue.held_bytes()).unwrap_or(u32::MAX);
        self.full_window().saturating_sub(held)
    }

    /// What is left of the window that was last advertised.
    pub fn open_window(&self) -> u32 {
        (self.rcv.wup + u64::from(self.rcv.window)).saturating_sub(self.rcv.queue.next()) as u32
    }

    /// The window that would be offered now, without regard to what was offered before.
    pub fn best_window(&self) -> u32 {
        let full = self.full_window();
        let mut free = self.free_window();
        let mss = self.rcv.mss.min(full);
        let step = 1u32 << self.rcv.scale;
        if free < full / 2 {
            free = free / step * step;
            // Silly window avoidance: nothing rather than less than a segment.
            if free < full / 16 || free < mss {
                return 0;
            }
        }
        free = free.min(self.sizing.open);
        if self.rcv.scale > 0 {
            return free.div_ceil(step) * step;
        }
        let current = self.rcv.window;
        if current <= free.saturating_sub(mss) || current > free { free / mss.max(1) * mss } else { current }
    }

    /// Decides the window of a segment about to leave and gives its field. A window once offered is never taken back
    /// (RFC 9293 section 3.8.6).
    pub fn advertise_window(&mut self) -> u16 {
        let step = 1u32 << self.rcv.scale;
        let offered = self.open_window();
        let mut window = self.best_window();
        if window < offered {
            window = offered.div_ceil(step) * step;
        }
        window = window.min(65_535 << self.rcv.scale);
        self.rcv.window = window;
        self.rcv.wup = self.rcv.queue.next();
        (window >> self.rcv.scale) as u16
    }

    /// A segment with data came: the window opens by two segments (tcp_grow_window).
    pub fn open_further(&mut self) {
        let room = self.full_window().min(self.free_window());
        if self.sizing.open < room {
            let step = (2 * self.sizing.advertised_mss).min(room - self.sizing.open);
            self.sizing.open += step;
        }
    }

    /// Measures the round trip from the echo of our own timestamp on a full segment.
    pub fn measure_recv_rtt(&mut self, now: SimTime, echo: u32, len: usize) {
        if echo == 0 || len < self.rcv.mss as usize {
            return;
        }
        let elapsed = self.clock(now).wrapping_sub(echo);
        if elapsed > 1 << 30 {
            return;
        }
        let sample = SimDuration::from_millis(u64::from(elapsed.max(1)));
        let old = self.sizing.recv_rtt;
        // The lowest counts: a longer echo may only mean that the sender had nothing to say.
        self.sizing.recv_rtt = if old.is_zero() || sample < old {
            sample
        } else {
            SimDuration::from_nanos((old.as_nanos() * 7 + sample.as_nanos()) / 8)
        };
    }

    /// Dynamic right sizing, called when the program has read: the window should hold twice what it read in a round trip,
    /// and more while that grows (tcp_rcv_space_adjust).
    pub fn right_size(&mut self, now: SimTime) {
        let rtt = self.sizing.recv_rtt;
        if rtt.is_zero() || now.saturating_since(self.sizing.round_start) < rtt {
            return;
        }
        let copied = self.rcv.queue.copied() - self.sizing.round_from;
        let last = self.sizing.copied_last.max(1);
        if copied > last {
            if self.config.recv_autotune && !self.settings.recv_buffer_locked {
                // A round trip late, and the sender may double its rate; what is out of order needs its room, too (tcp_rcvbuf_grow).
                let mut wanted = 2 * copied + 16 * u64::from(self.sizing.advertised_mss);
                wanted += 2 * (wanted * (copied - last) / last);
                wanted += self.rcv.queue.early_span();
                let buffer = (2 * wanted).min(u64::from(self.config.recv_buffer_max)) as u32;
                self.sizing.recv_buffer = self.sizing.recv_buffer.max(buffer);
            }
            self.sizing.copied_last = copied;
        }
        self.sizing.round_start = now;
        self.sizing.round_from = self.rcv.queue.copied();
    }
}
