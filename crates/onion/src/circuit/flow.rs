//! Flow control of the streams of circuits with congestion control (proposal 324, section 4; tor 0.4.9): an end whose socket takes a
//! stream's bytes too slowly sends XOFF, and XON with how fast it does when it has written them.

use super::vegas::mean;
use crate::directory::ConsensusParameters;

/// Bytes of a cell by which tor reckons limits: of its newer format, which has less room.
const CELL_LEAST: u32 = 488;
/// Bytes of a cell of the format that is spoken here.
const CELL: u32 = 498;
/// Bytes that may lie before a socket merely because all of a burst of 32 cells is taken before it is written.
const BURST: usize = 32 * CELL_LEAST as usize;
/// For how long more than the limit may lie before a socket until that counts, in microseconds (tor 0.4.8.19).
const GRACE_US: u64 = 5_000;
/// No rate: as many bytes per second as a rate has room for.
const UNLIMITED: u64 = i32::MAX as u64;
/// Between two times at which a stream with a rate goes on, in milliseconds: tor's `TokenBucketRefillInterval`.
pub const REFILL_MS: u64 = 100;

/// What the consensus says of it, in bytes where nothing else is said (proposal 324, section 6.5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParameters {
    /// Before a socket, beyond which XOFF is sent: at an exit (`cc_xoff_exit`) or a client (`cc_xoff_client`).
    pub xoff_exit: usize,
    pub xoff_client: usize,
    /// How many are written between two measurements of a rate (`cc_xon_rate`).
    pub xon_rate: u64,
    /// By how many per cent a rate must change until it is told anew (`cc_xon_change_pct`).
    pub xon_change_percent: u64,
    /// Of how many measurements the mean rate is (`cc_xon_ewma_cnt`).
    pub xon_mean: u64,
}

impl FlowParameters {
    pub fn of(consensus: &ConsensusParameters) -> FlowParameters {
        let xoff = |name| (consensus.get(name, 500, 1..=10_000) * CELL_LEAST) as usize;
        FlowParameters {
            xoff_exit: xoff("cc_xoff_exit"),
            xoff_client: xoff("cc_xoff_client"),
            xon_rate: (consensus.get("cc_xon_rate", 500, 1..=5000) * CELL).into(),
            xon_change_percent: consensus.get("cc_xon_change_pct", 25, 1..=99).into(),
            xon_mean: consensus.get("cc_xon_ewma_cnt", 2, 2..=100).into(),
        }
    }
}

/// XOFF's body: its version. tor does not look at it.
pub const XOFF: [u8; 1] = [0];

/// Whoever has sent XOFF wants more, or tells how fast a socket takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xon {
    /// In kilobytes (1,000 bytes) per second; 0 for none.
    pub rate_kb_per_s: u32,
}

impl Xon {
    pub fn write(self) -> [u8; 5] {
        let mut body = [0; 5];
        body[1..].copy_from_slice(&self.rate_kb_per_s.to_be_bytes());
        body
    }

    /// Nothing if it is of another version or too short.
    pub fn read(body: &[u8]) -> Option<Xon> {
        let (0, rate) = body.split_first().map(|(version, rate)| (*version, rate))? else { return None };
        Some(Xon { rate_kb_per_s: u32::from_be_bytes(*rate.first_chunk()?) })
    }
}

/// What to tell the other end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    Xoff,
    Xon(Xon),
}

/// The end of a stream that receives: how fast its socket takes what came.
#[derive(Clone, Debug)]
pub struct Receiving {
    parameters: FlowParameters,
    limit: usize,
    /// XOFF was sent, and no XON since.
    is_stopped: bool,
    /// More than the limit lies there since then, in microseconds.
    over_since_us: Option<u64>,
    /// Bytes written since then, while others waited.
    since_us: Option<u64>,
    written: u64,
    /// Bytes of the measurement before.
    written_before: u64,
    /// Mean rate, and the one that was told last, in kilobytes per second; 0 for none.
    rate: u32,
    rate_told: u32,
}

impl Receiving {
    /// At an exit.
    pub fn at_exit(parameters: FlowParameters) -> Receiving {
        Receiving {
            parameters,
            limit: parameters.xoff_exit,
            is_stopped: false,
            over_since_us: None,
            since_us: None,
            written: 0,
            written_before: 0,
            rate: 0,
            rate_told: 0,
        }
    }

    /// Data has come, and `waiting` bytes lie before the socket now.
    pub fn arrived(&mut self, now_us: u64, waiting: usize) -> Vec<Tell> {
        let mut told = Vec::new();
        if waiting <= self.limit {
            self.over_since_us = None;
        } else if !self.is_stopped {
            let since_us = *self.over_since_us.get_or_insert(now_us);
            if now_us > since_us + GRACE_US {
                told.push(Tell::Xoff);
                self.is_stopped = true;
                // It was wrong, or this would not have happened.
                self.rate = 0;
                self.over_since_us = None;
            }
        }
        if waiting > BURST {
            // Nothing may have been written for long, so a slower rate would not be noticed otherwise.
            told.extend(self.wrote(now_us, 0, waiting).map(Tell::Xon));
        }
        told
    }

    /// The socket took `written` bytes, and `waiting` are left.
    pub fn wrote(&mut self, now_us: u64, written: usize, waiting: usize) -> Option<Xon> {
        self.written += written as u64;
        if self.since_us.is_none() && waiting > 0 {
            self.since_us = Some(now_us);
            self.written = 0;
        }
        self.measure(now_us);
        let told = if self.is_stopped { waiting == 0 } else { self.has_changed() };
        let xon = told.then(|| self.tell());
        if waiting == 0 {
            self.since_us = None;
            // As many bytes again without any that waited: the socket can take more.
            if self.written >= self.parameters.xon_rate && self.rate_told != 0 {
                self.rate = self.rate.saturating_mul(2).min(UNLIMITED as u32);
                self.written_before = self.written;
                self.written = 0;
            }
        }
        xon
    }

    /// Takes in a rate when enough was written since bytes began to wait. The bytes are those of the measurement before, as in tor.
    fn measure(&mut self, now_us: u64) {
        let Some(since_us) = self.since_us.filter(|_| self.written > self.parameters.xon_rate) else { return };
        if self.written_before == 0 {
            self.written_before = self.written;
        }
        let took_us = now_us.saturating_sub(since_us);
        let bytes = std::mem::replace(&mut self.written_before, self.written);
        if took_us == 0 {
            return;
        }
        let rate = if bytes > UNLIMITED / 1000 { UNLIMITED } else { (bytes * 1000 / took_us).max(1) };
        self.rate = mean(rate, self.rate.into(), self.parameters.xon_mean) as u32;
        self.written = 0;
        self.since_us = None;
    }

    fn has_changed(&self) -> bool {
        let (rate, told, percent) =
            (u64::from(self.rate), u64::from(self.rate_told), self.parameters.xon_change_percent);
        told != 0 && (rate > (100 + percent) * told / 100 || rate < (100 - percent) * told / 100)
    }

    fn tell(&mut self) -> Xon {
        (self.is_stopped, self.rate_told) = (false, self.rate);
        Xon { rate_kb_per_s: self.rate }
    }
}

/// The end of a stream that sends: whether it may, and how fast.
#[derive(Clone, Debug)]
pub struct Sending {
    is_stopped: bool,
    /// Bytes per second, which is also the most that may be left over.
    rate: u64,
    left: u64,
    /// Up to when `left` has grown, in milliseconds.
    refilled_ms: u64,
}

impl Default for Sending {
    fn default() -> Sending {
        Sending { is_stopped: false, rate: UNLIMITED, left: UNLIMITED, refilled_ms: 0 }
    }
}

impl Sending {
    /// Bytes that may be sent now.
    pub fn room(&mut self, now_ms: u64) -> usize {
        if self.is_stopped {
            return 0;
        }
        let elapsed_ms = now_ms.saturating_sub(self.refilled_ms);
        self.left = (self.left + elapsed_ms.saturating_mul(self.rate) / 1000).min(self.rate);
        self.refilled_ms = now_ms;
        self.left as usize
    }

    /// Whether there will be room without a word from the other end.
    pub fn is_paced(&self) -> bool {
        !self.is_stopped && self.left == 0
    }

    pub fn sent(&mut self, bytes: usize) {
        if self.rate != UNLIMITED {
            self.left = self.left.saturating_sub(bytes as u64);
        }
    }

    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    pub fn go_on(&mut self, xon: Xon) {
        let rate = u64::from(xon.rate_kb_per_s) * 1000;
        self.rate = if rate == 0 { UNLIMITED } else { rate.min(UNLIMITED) };
        self.left = if self.rate == UNLIMITED { UNLIMITED } else { self.left.min(self.rate) };
        self.is_stopped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> FlowParameters {
        FlowParameters::of(&ConsensusParameters::default())
    }

    fn receiving() -> Receiving {
        Receiving::at_exit(parameters())
    }

    const LIMIT: usize = 500 * 488;
    /// More than `xon_rate`.
    const ENOUGH: usize = 250_000;

    #[test]
    fn defaults_are_those_of_tor() {
        let FlowParameters { xoff_exit, xoff_client, xon_rate, xon_change_percent, xon_mean } = parameters();
        assert_eq!((xoff_exit, xoff_client, xon_rate), (244_000, 244_000, 249_000));
        assert_eq!((xon_change_percent, xon_mean), (25, 2));
        let given = ConsensusParameters::read("cc_xoff_exit=10 cc_xon_ewma_cnt=1").expect("parameters");
        let parameters = FlowParameters::of(&given);
        assert_eq!((parameters.xoff_exit, parameters.xon_mean), (4880, 2));
    }

    #[test]
    fn messages_have_a_version() {
        let xon = Xon { rate_kb_per_s: 0x0102_0304 };
        assert_eq!(xon.write(), [0, 1, 2, 3, 4]);
        assert_eq!(Xon::read(&[0, 1, 2, 3, 4]), Some(xon));
        assert_eq!(Xon::read(&[1, 1, 2, 3, 4]), None);
        assert_eq!(Xon::read(&[0, 1, 2, 3]), None);
        assert_eq!(Xon::read(&[]), None);
    }

    #[test]
    fn xoff_follows_when_too_much_lies_there_for_too_long() {
        let mut receiving = receiving();
        assert_eq!(receiving.arrived(1_000, LIMIT), []);
        assert_eq!(receiving.arrived(2_000, LIMIT + 1), [], "5 ms are left");
        assert_eq!(receiving.arrived(7_000, LIMIT + 1), []);
        assert_eq!(receiving.arrived(7_001, LIMIT + 1), [Tell::Xoff]);
        assert_eq!(receiving.arrived(99_000, 2 * LIMIT), [], "once");
    }

    #[test]
    fn what_is_written_in_time_is_no_reason_for_xoff() {
        let mut receiving = receiving();
        assert_eq!(receiving.arrived(2_000, LIMIT + 1), []);
        assert_eq!(receiving.arrived(3_000, LIMIT), []);
        assert_eq!(receiving.arrived(9_000, LIMIT + 1), [], "5 ms again");
    }

    #[test]
    fn xon_follows_when_all_is_written_and_tells_the_rate() {
        let mut receiving = receiving();
        receiving.arrived(0, LIMIT + 1);
        assert_eq!(receiving.arrived(10_000, LIMIT + 1), [Tell::Xoff]);
        assert_eq!(receiving.wrote(100_000, 100_000, LIMIT - 100_000), None);
        // It began to lie there at 0, and 250,000 bytes took 500 ms.
        assert_eq!(receiving.wrote(500_000, 150_000, 0), Some(Xon { rate_kb_per_s: 500 }));
        assert_eq!(receiving.wrote(600_000, 10, 0), None, "once");
    }

    #[test]
    fn xon_without_enough_for_a_rate_tells_none() {
        let mut receiving = receiving();
        receiving.arrived(0, LIMIT + 1);
        receiving.arrived(10_000, LIMIT + 1);
        assert_eq!(receiving.wrote(500_000, LIMIT + 1, 0), Some(Xon { rate_kb_per_s: 0 }));
    }

    #[test]
    fn a_rate_that_was_told_is_told_again_when_it_changes() {
        let told = Receiving { rate: 400, rate_told: 400, written_before: ENOUGH as u64, ..receiving() };
        let write = |took_us| {
            let mut receiving = told.clone();
            receiving.wrote(0, 0, 1);
            receiving.wrote(took_us, ENOUGH, 1)
        };
        // Means of two: (2 * rate + 400) / 3, beyond 300 to 500 kB/s.
        assert_eq!(write(250_000_000 / 550_000), Some(Xon { rate_kb_per_s: (2 * 550_660 + 400) / 3 }), "much faster");
        assert_eq!(write(250_000_000 / 500), None, "500 kB/s: 466");
        assert_eq!(write(1_000_000), None, "250 kB/s: 300");
        assert_eq!(write(1_010_000), Some(Xon { rate_kb_per_s: 298 }), "247 kB/s");
        // Without any that was told, nothing has changed.
        let mut untold = Receiving { rate_told: 0, ..told };
        untold.wrote(0, 0, 1);
        assert_eq!(untold.wrote(9_000_000, ENOUGH, 1), None);
    }

    #[test]
    fn a_slow_socket_is_noticed_when_more_data_comes() {
        let mut receiving = Receiving { rate: 400, rate_told: 400, written_before: ENOUGH as u64, ..receiving() };
        assert_eq!(receiving.arrived(0, BURST), [], "a burst");
        assert_eq!(receiving.since_us, None);
        assert_eq!(receiving.arrived(0, BURST + 1), []);
        assert_eq!(receiving.since_us, Some(0));
    }

    #[test]
    fn a_socket_that_keeps_nothing_waiting_doubles_the_rate() {
        let mut receiving = Receiving { rate: 400, rate_told: 400, ..receiving() };
        assert_eq!(receiving.wrote(0, 248_999, 0), None);
        assert_eq!((receiving.rate, receiving.written), (400, 248_999));
        assert_eq!(receiving.wrote(0, 1, 0), None);
        assert_eq!((receiving.rate, receiving.written), (800, 0));
        assert_eq!(receiving.wrote(0, 1, 0), Some(Xon { rate_kb_per_s: 800 }));
    }

    #[test]
    fn a_sender_heeds_xoff_and_xon() {
        let mut sending = Sending::default();
        assert!(sending.room(5) > 1 << 30);
        sending.sent(1 << 29);
        assert!(sending.room(5) > 1 << 30, "nothing is counted without a rate");
        sending.stop();
        assert_eq!(sending.room(10), 0);
        assert!(!sending.is_paced());
        sending.go_on(Xon { rate_kb_per_s: 0 });
        assert!(sending.room(10) > 1 << 30);
    }

    #[test]
    fn a_rate_allows_a_second_at_once_and_then_what_time_brings() {
        let mut sending = Sending::default();
        sending.go_on(Xon { rate_kb_per_s: 10 });
        assert_eq!(sending.room(1_000), 10_000);
        sending.sent(10_000);
        assert_eq!(sending.room(1_000), 0);
        assert!(sending.is_paced());
        assert_eq!(sending.room(1_100), 1_000);
        assert_eq!(sending.room(9_000), 10_000, "no more than a second's");
        sending.go_on(Xon { rate_kb_per_s: u32::MAX });
        assert!(sending.room(9_000) > 1 << 30);
    }
}
