//! Progress on a terminal: how far, how fast, how long still.

use base::{SimDuration, SimTime};
use std::fmt::Write;
use std::time::Duration;

/// Follows a run and words its progress. The caller feeds it and prints; nothing here reads a clock.
#[derive(Clone, Debug)]
pub struct ProgressMeter {
    end: SimTime,
    hosts: usize,
    now: SimTime,
    wall: Duration,
    /// Simulated seconds per second of wall time, smoothed.
    speed: Option<f64>,
}

impl ProgressMeter {
    /// Older speeds fade with this time constant, in seconds of wall time.
    const SMOOTHING_SECS: f64 = 10.0;

    pub fn new(end: SimTime, hosts: usize) -> ProgressMeter {
        ProgressMeter { end, hosts, now: SimTime::ZERO, wall: Duration::ZERO, speed: None }
    }

    /// The run has come to `now` after `wall` of real time.
    pub fn update(&mut self, now: SimTime, wall: Duration) {
        let step = wall.saturating_sub(self.wall).as_secs_f64();
        if step > 0.0 {
            let current = now.saturating_since(self.now).as_secs_f64() / step;
            let weight = 1.0 - (-step / Self::SMOOTHING_SECS).exp();
            self.speed = Some(self.speed.map_or(current, |old| old + weight * (current - old)));
        }
        (self.now, self.wall) = (now, wall);
    }

    /// How much of the simulated time is done, 0 to 1.
    pub fn fraction(&self) -> f64 {
        if self.end == SimTime::ZERO { 1.0 } else { (self.now.as_nanos() as f64 / self.end.as_nanos() as f64).min(1.0) }
    }

    /// Real time left at the present speed; None while that is not known.
    pub fn time_left(&self) -> Option<Duration> {
        let speed = self.speed.filter(|speed| *speed > 0.0)?;
        Duration::try_from_secs_f64(self.end.saturating_since(self.now).as_secs_f64() / speed).ok()
    }

    /// One line of at most `width` columns, without a newline: `memory` in bytes, `failed` guests in an unexpected final
    /// state.
    pub fn terminal_line(&self, memory: u64, failed: u32, width: usize) -> String {
        let mut line = format!(
            "{:3.0}% {} / {}",
            (self.fraction() * 100.0).floor(),
            clock(self.now.saturating_since(SimTime::ZERO)),
            clock(self.end.saturating_since(SimTime::ZERO)),
        );
        if let Some(speed) = self.speed {
            let _ = write!(line, " | {} sim s/s", three_digits(speed));
        }
        let _ = write!(line, " | {} hosts | {}", self.hosts, bytes(memory));
        if let Some(left) = self.time_left() {
            let _ = write!(line, " | {} left", clock(SimDuration::from_secs(left.as_secs_f64().ceil() as u64)));
        }
        if failed > 0 {
            let _ = write!(line, " | {failed} failed");
        }
        line.chars().take(width).collect()
    }

    /// The text that Shadow shows with `--progress`: in its status bar on a terminal, after "Progress: " elsewhere.
    pub fn shadow_text(&self, failed: u32) -> String {
        let (now, wall) = (self.now.as_nanos() / 1_000_000, self.wall.as_secs());
        format!(
            "{}% — simulated: {}.{:03}/{}, realtime: {}, processes failed: {failed}",
            (self.fraction() * 100.0).round(),
            clock(SimDuration::from_secs(now / 1000)),
            now % 1000,
            clock(self.end.saturating_since(SimTime::ZERO)),
            clock(SimDuration::from_secs(wall)),
        )
    }

    /// The whole line that Shadow prints where there is no terminal.
    pub fn shadow_line(&self, failed: u32) -> String {
        format!("Progress: {}\n", self.shadow_text(failed))
    }
}

/// `HH:MM:SS`.
fn clock(duration: SimDuration) -> String {
    let secs = duration.as_nanos() / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", secs / 3600, secs / 60 % 60, secs % 60)
}

fn three_digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{} {}", three_digits(value), UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(secs: u64) -> SimTime {
        SimTime::from_nanos(secs * 1_000_000_000)
    }

    #[test]
    fn a_line_tells_how_far_how_fast_and_how_long() {
        let mut meter = ProgressMeter::new(seconds(3600), 12);
        assert_eq!(meter.terminal_line(0, 0, 200), "  0% 00:00:00 / 01:00:00 | 12 hosts | 0 B");
        meter.update(seconds(900), Duration::from_secs(90));
        assert_eq!(
            meter.terminal_line(3 << 29, 2, 200),
            " 25% 00:15:00 / 01:00:00 | 10.0 sim s/s | 12 hosts | 1.50 GiB | 00:04:30 left | 2 failed"
        );
        assert_eq!(meter.terminal_line(0, 0, 10), " 25% 00:15");
    }

    #[test]
    fn speed_follows_changes_smoothly() {
        let mut meter = ProgressMeter::new(seconds(1000), 1);
        meter.update(seconds(10), Duration::from_secs(1));
        meter.update(seconds(10), Duration::from_secs(1));
        assert_eq!(meter.time_left(), Some(Duration::from_secs(99)));
        meter.update(seconds(11), Duration::from_secs(2));
        let left = meter.time_left().unwrap().as_secs_f64();
        assert!((105.0..115.0).contains(&left), "one slow second of ten counts a tenth: {left}");
        meter.update(seconds(1000), Duration::from_secs(100));
        assert_eq!(meter.time_left(), Some(Duration::ZERO));
        assert_eq!(meter.fraction(), 1.0);
    }

    #[test]
    fn shadows_line_is_kept() {
        let mut meter = ProgressMeter::new(seconds(3600), 12);
        meter.update(SimTime::from_nanos(1_234_567_890_123), Duration::from_millis(61_900));
        assert_eq!(
            meter.shadow_line(1),
            "Progress: 34% — simulated: 00:20:34.567/01:00:00, realtime: 00:01:01, processes failed: 1\n"
        );
    }
}
