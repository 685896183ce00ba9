//! HyStart++ (RFC 9406): leaves slow start when round trips grow longer, before the queue overflows.

use base::SimDuration;

const MIN_RTT_THRESHOLD: SimDuration = SimDuration::from_millis(4);
const MAX_RTT_THRESHOLD: SimDuration = SimDuration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const RTT_SAMPLES: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

#[derive(Debug)]
pub(crate) struct HyStart {
    /// The round ends when this is acknowledged.
    round_end: u64,
    last_round_min: Option<SimDuration>,
    round_min: Option<SimDuration>,
    samples: u32,
    /// Conservative slow start: rounds left, and the RTT that brought us there.
    css_rounds_left: u32,
    css_baseline: SimDuration,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Growth {
    /// Slow start: a segment per segment.
    Full,
    /// Conservative slow start: a quarter of that.
    Quarter,
    /// Slow start is over.
    Stop,
}

impl HyStart {
    pub fn new() -> Self {
        HyStart {
            round_end: 0,
            last_round_min: None,
            round_min: None,
            samples: 0,
            css_rounds_left: 0,
            css_baseline: SimDuration::ZERO,
        }
    }

    pub fn css_divisor(growth: Growth) -> u32 {
        if growth == Growth::Quarter { CSS_GROWTH_DIVISOR } else { 1 }
    }

    /// Takes one acknowledgement in slow start. `nxt` is the next byte to be sent.
    pub fn on_ack(&mut self, una: u64, nxt: u64, rtt: Option<SimDuration>) -> Growth {
        let mut css_over = false;
        if una > self.round_end {
            self.round_end = nxt;
            self.last_round_min = self.round_min.take();
            self.samples = 0;
            if self.css_rounds_left > 0 {
                self.css_rounds_left -= 1;
                css_over = self.css_rounds_left == 0;
            }
        }
        if let Some(rtt) = rtt {
            self.round_min = Some(self.round_min.map_or(rtt, |min| min.min(rtt)));
            self.samples += 1;
        }
        if css_over {
            return Growth::Stop;
        }
        self.judge_round()
    }

    fn judge_round(&mut self) -> Growth {
        let (Some(current), true) = (self.round_min, self.samples >= RTT_SAMPLES) else {
            return if self.css_rounds_left > 0 { Growth::Quarter } else { Growth::Full };
        };
        if self.css_rounds_left > 0 {
            if current < self.css_baseline {
                self.css_rounds_left = 0;
                return Growth::Full;
            }
            return Growth::Quarter;
        }
        if let Some(last) = self.last_round_min {
            let eighth = SimDuration::from_nanos(last.as_nanos() / MIN_RTT_DIVISOR);
            if current >= last.saturating_add(eighth.clamp(MIN_RTT_THRESHOLD, MAX_RTT_THRESHOLD)) {
                self.css_baseline = current;
                self.css_rounds_left = CSS_ROUNDS;
                return Growth::Quarter;
            }
        }
        Growth::Full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(hystart: &mut HyStart, number: u64, rtt_ms: u64) -> Growth {
        let mut growth = Growth::Full;
        for i in 0..10 {
            growth = hystart.on_ack(number * 10 + i + 1, (number + 1) * 10, Some(SimDuration::from_millis(rtt_ms)));
        }
        growth
    }

    #[test]
    fn leaves_slow_start_after_five_rounds_of_longer_delay() {
        let mut hystart = HyStart::new();
        assert_eq!(round(&mut hystart, 0, 20), Growth::Full);
        assert_eq!(round(&mut hystart, 1, 22), Growth::Full);
        assert_eq!(round(&mut hystart, 2, 27), Growth::Quarter);
        for number in 3..7 {
            assert_eq!(round(&mut hystart, number, 28), Growth::Quarter, "round {number}");
        }
        assert_eq!(hystart.on_ack(71, 80, None), Growth::Stop);
    }

    #[test]
    fn returns_to_slow_start_when_the_delay_was_a_blip() {
        let mut hystart = HyStart::new();
        round(&mut hystart, 0, 20);
        assert_eq!(round(&mut hystart, 1, 30), Growth::Quarter);
        assert_eq!(round(&mut hystart, 2, 21), Growth::Full);
    }
}
