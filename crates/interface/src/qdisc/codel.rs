//! CoDel (RFC 8289) in Linux's integers (include/net/codel.h, codel_impl.h): time in units of 1,024 ns and 32 bits, and the inverse
//! square root of the drop count as a fraction of 16 bits that one step of Newton's method follows. So drops come at Linux's moments and
//! not at those of exact arithmetic, which differ by some percent in the first ones.

use base::SimTime;

/// A moment, or a length of time, in units of 1,024 ns. Moments wrap after 73 minutes and are compared by their difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks(u32);

impl Ticks {
    pub(crate) fn at(time: SimTime) -> Ticks {
        Ticks((time.as_nanos() >> 10) as u32)
    }

    pub(crate) const fn from_millis(ms: u64) -> Ticks {
        Ticks(((ms * 1_000_000) >> 10) as u32)
    }

    fn after(self, other: Ticks) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    fn before(self, other: Ticks) -> bool {
        other.after(self)
    }

    fn plus(self, length: Ticks) -> Ticks {
        Ticks(self.0.wrapping_add(length.0))
    }

    fn since(self, earlier: Ticks) -> Ticks {
        Ticks(self.0.wrapping_sub(earlier.0))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Params {
    pub target: Ticks,
    pub interval: Ticks,
    /// A backlog of at most this many bytes is never dropped from.
    pub mtu: u64,
}

/// The state of one queue (codel_vars). All zero is a queue that never dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vars {
    pub count: u32,
    last_count: u32,
    dropping: bool,
    inverse_sqrt: u16,
    /// 0 while the delay is below the target.
    first_above: u32,
    drop_next: u32,
}

/// A queue that CoDel takes packets out of.
pub(crate) trait Source {
    type Packet;
    fn next(&mut self) -> Option<Self::Packet>;
    fn enqueued(&self, packet: &Self::Packet) -> Ticks;
    /// Bytes that are left behind the packet that was taken last, as the rule of the MTU counts them.
    fn backlog(&self) -> u64;
    fn drop(&mut self, packet: Self::Packet);
}

impl Vars {
    /// The next packet that is not dropped (codel_dequeue).
    pub(crate) fn dequeue<S: Source>(&mut self, params: &Params, now: Ticks, source: &mut S) -> Option<S::Packet> {
        let Some(mut packet) = source.next() else {
            self.dropping = false;
            return None;
        };
        let drop = self.is_above(params, now, Some(&packet), source);
        if self.dropping {
            if !drop {
                self.dropping = false;
                return Some(packet);
            }
            // Many drops can be due at once.
            while self.dropping && !now.before(Ticks(self.drop_next)) {
                self.count = self.count.wrapping_add(1);
                self.newton_step();
                source.drop(packet);
                let next = source.next();
                if self.is_above(params, now, next.as_ref(), source) {
                    self.drop_next = self.control_law(Ticks(self.drop_next), params.interval);
                } else {
                    self.dropping = false;
                }
                packet = next?;
            }
            return Some(packet);
        }
        if !drop {
            return Some(packet);
        }
        source.drop(packet);
        let next = source.next();
        self.is_above(params, now, next.as_ref(), source);
        self.begin_dropping(params, now);
        next
    }

    /// Whether the delay has been above the target for an interval (codel_should_drop).
    fn is_above<S: Source>(&mut self, params: &Params, now: Ticks, packet: Option<&S::Packet>, source: &S) -> bool {
        let Some(packet) = packet else {
            self.first_above = 0;
            return false;
        };
        let delay = now.since(source.enqueued(packet));
        if delay.before(params.target) || source.backlog() <= params.mtu {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.plus(params.interval).0;
            return false;
        }
        now.after(Ticks(self.first_above))
    }

    /// If the last time is not long ago, its rate of drops is where this one begins.
    fn begin_dropping(&mut self, params: &Params, now: Ticks) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.last_count);
        let recent = now.since(Ticks(self.drop_next)).before(Ticks(params.interval.0.wrapping_mul(16)));
        if delta > 1 && recent {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.inverse_sqrt = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.control_law(now, params.interval);
    }

    /// x := x (3 - count x²) / 2, where x is `inverse_sqrt` as a fraction of 2^32 (codel_Newton_step).
    fn newton_step(&mut self) {
        let x = u64::from(self.inverse_sqrt) << 16;
        let square = (x * x) >> 32;
        let factor = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        let next = factor.wrapping_mul(x) >> 31;
        self.inverse_sqrt = (next as u32 >> 16) as u16;
    }

    /// t + interval / sqrt(count).
    fn control_law(&self, t: Ticks, interval: Ticks) -> u32 {
        let fraction = u64::from(self.inverse_sqrt) << 16;
        t.plus(Ticks(((u64::from(interval.0) * fraction) >> 32) as u32)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const PARAMS: Params = Params { target: Ticks::from_millis(5), interval: Ticks::from_millis(100), mtu: 1_514 };

    /// Packets of 1,514 bytes by their numbers.
    #[derive(Default)]
    struct Line {
        queue: VecDeque<(Ticks, u32)>,
        dropped: Vec<u32>,
    }

    impl Source for Line {
        type Packet = (Ticks, u32);
        fn next(&mut self) -> Option<Self::Packet> {
            self.queue.pop_front()
        }
        fn enqueued(&self, packet: &Self::Packet) -> Ticks {
            packet.0
        }
        fn backlog(&self) -> u64 {
            self.queue.len() as u64 * 1_514
        }
        fn drop(&mut self, packet: Self::Packet) {
            self.dropped.push(packet.1);
        }
    }

    /// Moments in microseconds and the packets dropped then, of the schedule in `drops_come_at_linuxs_moments`. Computed apart from this
    /// code, from the rules of RFC 8289 section 5 and Linux's arithmetic: ticks of 1,024 ns; an interval of 97,656 and a target of 4,882 of them;
    /// x' = x (3 - n x^2) / 2 in fractions of 2^32, cut to 2^16 after each step; the next drop after interval times x, cut.
    const TABLE: &str = "
        127800:106 228600:191 277800:233 334200:281 383400:323 427800:361 467400:395 505800:428 540600:458 574200:487 605400:514
        635400:540 664200:565 691800:589 718200:612 744600:635 769800:657 793800:678 1218600:798 1243800:820 1266600:840
        1289400:860 1312200:880 1333800:899 1355400:918 1375800:936 1396200:954 1416600:972 1435800:989 1455000:1006
        1474200:1023 1493400:1040 1511400:1056 1529400:1072 1546200:1087 1564200:1103 1581000:1118 1597800:1133 1614600:1148
        1631400:1163 1647000:1177 1663800:1192 1679400:1206 1695000:1220
        1950600:1226,1227,1228,1229,1230,1231,1232,1233,1234,1235,1236,1237,1238,1239,1240,1241,1242,1243 1962600:1254
        1974600:1265 1987800:1277 1999800:1288 2013000:1300 2025000:1311 2037000:1322 2049000:1333 2062200:1345 2074200:1356
        2086200:1367 2097000:1377 2109000:1388 2121000:1399 2133000:1410 2143800:1420 2155800:1431 2166600:1441 2178600:1452
        2189400:1462 2200200:1472 6127800:1584 6228600:1669 6277800:1711 6334200:1759 6383400:1801 6427800:1839 6467400:1873
    ";

    /// Packets come every millisecond, every 0.9 ms and every millisecond in three spells; one leaves every 1.2 ms, but for a pause in
    /// which several drops become due. The second spell comes soon enough after the first to begin at its rate of drops, the third does not.
    #[test]
    fn drops_come_at_linuxs_moments() {
        let spells = [(0, 700_000, 1_000), (1_100_000, 1_800_000, 900), (6_000_000, 6_400_000, 1_000)];
        let mut arrivals: VecDeque<u64> = spells.iter().flat_map(|&(a, b, gap)| (a..b).step_by(gap)).collect();
        let (mut vars, mut line, mut number, mut seen) = (Vars::default(), Line::default(), 0, String::new());
        for at in (600..6_800_000).step_by(1_200).filter(|at| !(1_700_000..1_950_000).contains(at)) {
            while let Some(arrival) = arrivals.front().copied().filter(|arrival| *arrival <= at) {
                arrivals.pop_front();
                line.queue.push_back((Ticks::at(SimTime::from_nanos(arrival * 1_000)), number));
                number += 1;
            }
            vars.dequeue(&PARAMS, Ticks::at(SimTime::from_nanos(at * 1_000)), &mut line);
            let dropped: Vec<String> = line.dropped.drain(..).map(|number| number.to_string()).collect();
            if !dropped.is_empty() {
                seen += &format!("{at}:{} ", dropped.join(","));
            }
        }
        let expected: Vec<&str> = TABLE.split_whitespace().collect();
        assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_short_or_small_queue_is_left_alone() {
        let (mut vars, mut line) = (Vars::default(), Line::default());
        let tick = |us: u64| Ticks::at(SimTime::from_nanos(us * 1_000));
        // 4.9 ms of delay for a second, then one packet at a time for a second.
        for i in 0..1_000 {
            line.queue.extend([(tick(i * 1_000), 0), (tick(i * 1_000), 0), (tick(i * 1_000), 0)]);
            while vars.dequeue(&PARAMS, tick(i * 1_000 + 4_900), &mut line).is_some() {}
        }
        for i in 1_000..2_000 {
            line.queue.push_back((tick(i * 1_000), 0));
            assert!(vars.dequeue(&PARAMS, tick(i * 1_000 + 900_000), &mut line).is_some());
        }
        assert_eq!((line.dropped.len(), vars.count), (0, 0));
    }

    #[test]
    fn moments_wrap() {
        let late = Ticks(u32::MAX - 3);
        assert!(late.plus(Ticks(10)).after(late) && late.before(late.plus(Ticks(10))));
        assert_eq!(late.plus(Ticks(10)).since(late), Ticks(10));
    }
}
