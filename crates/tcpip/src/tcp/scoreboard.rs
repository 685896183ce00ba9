//! What is in flight: one record per segment sent and not yet acknowledged, what SACK said of it, and which are lost.
//!
//! Loss detection is RACK (RFC 8985): a segment is lost when one sent later has arrived and a reordering window has passed.
//! Nothing here scans all records per acknowledgement: SACK blocks are compared with the ranges already known, originals are
//! in order of time because they are in order of sequence, and retransmissions wait in a queue of their own.

use super::rate::{Moment, RateEstimator, RateSample};
use base::{SimDuration, SimTime};
use bitflags::bitflags;
use std::collections::VecDeque;

bitflags! {
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Mark: u8 {
        const SACKED = 1;
        const LOST = 2;
        /// A retransmitted copy is in flight.
        const RETRANSMITTED = 4;
        /// Was retransmitted at some time: no RTT from it (Karn).
        const EVER_RETRANSMITTED = 8;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub start: u64,
    pub len: u32,
    pub marks: Mark,
    /// When its last copy was sent, and what had been delivered then.
    pub sent_at: SimTime,
    moment: Moment,
}

impl Record {
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    pub fn is_sacked(&self) -> bool {
        self.marks.contains(Mark::SACKED)
    }
}

/// What one acknowledgement told.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AckSample {
    /// Segments that left the network: newly acknowledged or newly SACKed.
    pub delivered: u32,
    /// Segments cumulatively acknowledged.
    pub acked: u32,
    /// Segments that SACK blocks named for the first time.
    pub sacked: u32,
    /// Send times of the first and the last segment acknowledged that were sent once only.
    pub first_sent: Option<SimTime>,
    pub last_sent: Option<SimTime>,
    /// The latest send time among newly SACKed segments that were sent once only.
    pub sack_sent: Option<SimTime>,
    /// The lowest end of a segment delivered that was sent once only.
    pub lowest_original: Option<u64>,
    /// A retransmitted segment was among those acknowledged.
    pub acked_retransmission: bool,
    /// Where the lowest segment begins that filled a hole without having been sent again: of those that SACK named, and of those
    /// acknowledged. That is reordering.
    pub sacked_late: Option<u64>,
    pub acked_late: Option<u64>,
    /// The highest end that SACK had named before.
    highest_before: u64,
    pub rate: RateSample,
}

#[derive(Debug, Default)]
struct Rack {
    /// Send time and end of the segment sent last among those delivered.
    sent_at: SimTime,
    end: u64,
    rtt: SimDuration,
    valid: bool,
}

#[derive(Debug)]
pub(crate) struct Scoreboard {
    records: VecDeque<Record>,
    /// The number of the record at the front; numbers never change.
    first: u64,
    pub sacked: u32,
    /// What stands for that without SACK: duplicate acknowledgements.
    duplicated: u32,
    pub lost: u32,
    pub retransmitted: u32,
    /// Ranges that SACK named above the cumulative acknowledgement, in order, disjoint.
    ranges: Vec<(u64, u64)>,
    rack: Rack,
    /// Originals below this number have been judged.
    judged: u64,
    /// Retransmissions in order of time: record number and when.
    copies: VecDeque<(u64, SimTime)>,
    /// No lost record that waits for retransmission lies below.
    retransmit_hint: u64,
    /// The highest end that SACK has named.
    highest_sacked: u64,
    pub rate: RateEstimator,
}

fn lowest(known: Option<u64>, other: u64) -> Option<u64> {
    Some(known.map_or(other, |known| known.min(other)))
}

impl AckSample {
    fn note_original(&mut self, end: u64) {
        self.lowest_original = lowest(self.lowest_original, end);
    }
}

impl Scoreboard {
    /// What an acknowledgement tells is told of what was known before.
    pub fn sample(&self) -> AckSample {
        AckSample { highest_before: self.highest_sacked, ..AckSample::default() }
    }

    pub fn new() -> Self {
        Scoreboard {
            records: VecDeque::new(),
            first: 0,
            sacked: 0,
            duplicated: 0,
            lost: 0,
            retransmitted: 0,
            ranges: Vec::new(),
            rack: Rack::default(),
            judged: 0,
            copies: VecDeque::new(),
            retransmit_hint: 0,
            highest_sacked: 0,
            rate: RateEstimator::new(),
        }
    }

    pub fn packets_out(&self) -> u32 {
        self.records.len() as u32
    }

    /// Segments believed to be in the network (RFC 6675's pipe, in segments).
    pub fn in_flight(&self) -> u32 {
        (self.packets_out() + self.retransmitted).saturating_sub(self.sacked + self.duplicated + self.lost)
    }

    /// Segments that arrived while an earlier one is missing, as SACK or duplicate acknowledgements tell.
    pub fn arrived_early(&self) -> u32 {
        self.sacked + self.duplicated
    }

    /// A sender without SACK has got a duplicate acknowledgement: some segment has left the network (tcp_add_reno_sack).
    pub fn note_duplicate(&mut self, sample: &mut AckSample) {
        if self.duplicated + self.lost < self.packets_out() {
            self.duplicated += 1;
            sample.delivered += 1;
        }
    }

    /// Without SACK, one of the segments just acknowledged was the one that was missing, the others had been counted
    /// (tcp_remove_reno_sacks).
    fn forget_duplicates(&mut self, sample: &mut AckSample) {
        if self.duplicated > 0 && sample.acked > 0 {
            sample.delivered = sample.acked.saturating_sub(self.duplicated).max(1);
            self.duplicated = self.duplicated.saturating_sub(sample.acked - 1);
        }
        self.duplicated = self.duplicated.min(self.packets_out());
    }

    /// Whether the counts are those of the records.
    pub fn is_consistent(&self) -> bool {
        let count = |mark| self.records.iter().filter(|record| record.marks.contains(mark)).count() as u32;
        let adjacent = |pair: (&Record, &Record)| pair.0.end() == pair.1.start;
        count(Mark::SACKED) == self.sacked
            && count(Mark::LOST) == self.lost
            && count(Mark::RETRANSMITTED) == self.retransmitted
            && self.duplicated <= self.packets_out()
            && self.records.iter().zip(self.records.iter().skip(1)).all(adjacent)
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn head(&self) -> Option<&Record> {
        self.records.front()
    }

    pub fn last_number(&self) -> Option<u64> {
        (!self.records.is_empty()).then(|| self.first + self.records.len() as u64 - 1)
    }

    /// The receiver has thrown away what it had named (RFC 2018 section 8).
    pub fn head_is_sacked(&self) -> bool {
        self.records.front().is_some_and(|head| head.marks.contains(Mark::SACKED))
    }

    pub fn tail_is_sacked(&self) -> bool {
        self.records.back().is_some_and(|tail| tail.marks.contains(Mark::SACKED))
    }

    pub fn record(&self, number: u64) -> Record {
        self.records[(number - self.first) as usize]
    }

    pub fn sent(&mut self, start: u64, len: u32, now: SimTime) {
        let moment = self.rate.sent(now, self.records.is_empty());
        self.records.push_back(Record { start, len, marks: Mark::empty(), sent_at: now, moment });
    }

    /// The end of what SACK has named, or else of what is acknowledged (tcp_highest_sack_seq).
    pub fn forward(&self, una: u64) -> u64 {
        self.highest_sacked.max(una)
    }

    /// Forgets what lies below `una`.
    pub fn acknowledge(&mut self, una: u64, now: SimTime, min_rtt: Option<SimDuration>, sample: &mut AckSample) {
        while let Some(front) = self.records.front_mut() {
            if front.start >= una {
                break;
            }
            let end = front.end();
            if end > una {
                front.len = (end - una) as u32;
                front.start = una;
                break;
            }
            let record = *front;
            self.records.pop_front();
            self.first += 1;
            sample.acked += 1;
            self.uncount(record.marks);
            if record.marks.contains(Mark::EVER_RETRANSMITTED) {
                sample.acked_retransmission = true;
            }
            if !record.marks.contains(Mark::SACKED) {
                sample.delivered += 1;
                self.rate.delivered(&mut sample.rate, record.moment, record.sent_at, end);
                if !record.marks.contains(Mark::EVER_RETRANSMITTED) {
                    sample.first_sent.get_or_insert(record.sent_at);
                    sample.last_sent = Some(record.sent_at);
                    sample.note_original(end);
                    if record.start < sample.highest_before {
                        sample.acked_late = lowest(sample.acked_late, record.start);
                    }
                }
                self.rack_delivered(&record, now, min_rtt);
            }
        }
        if !self.ranges.is_empty() {
            self.ranges.retain(|range| range.1 > una);
        }
        if self.records.is_empty() {
            // An idle connection holds no memory for what it does not have.
            (self.records, self.copies) = (VecDeque::new(), VecDeque::new());
        }
        self.forget_duplicates(sample);
    }

    fn uncount(&mut self, marks: Mark) {
        self.sacked -= u32::from(marks.contains(Mark::SACKED));
        self.lost -= u32::from(marks.contains(Mark::LOST));
        self.retransmitted -= u32::from(marks.contains(Mark::RETRANSMITTED));
    }

    /// Takes the SACK blocks of one segment; each must lie within what is outstanding, others are ignored.
    pub fn sack(
        &mut self,
        blocks: impl Iterator<Item = (u64, u64)>,
        now: SimTime,
        min_rtt: Option<SimDuration>,
        sample: &mut AckSample,
    ) {
        let (Some(front), Some(back)) = (self.records.front(), self.records.back()) else { return };
        let (low, high) = (front.start, back.end());
        let highest_before = sample.highest_before;
        for (start, end) in blocks {
            if start < end && end <= high && end > low {
                self.sack_range(start.max(low), end, highest_before, now, min_rtt, sample);
            }
        }
    }

    /// Merges one range into those known and marks only what is new.
    fn sack_range(
        &mut self,
        start: u64,
        end: u64,
        highest_before: u64,
        now: SimTime,
        min_rtt: Option<SimDuration>,
        sample: &mut AckSample,
    ) {
        let from = self.ranges.partition_point(|range| range.1 < start);
        let to = from + self.ranges[from..].partition_point(|range| range.0 <= end);
        if let [known] = &self.ranges[from..to]
            && known.0 <= start
            && known.1 >= end
        {
            return;
        }
        let merged = match &self.ranges[from..to] {
            [] => (start, end),
            touched => (start.min(touched[0].0), end.max(touched[touched.len() - 1].1)),
        };
        let mut at = start;
        for i in from..to {
            let known = self.ranges[i];
            if known.0 > at {
                self.mark_sacked(at, known.0, merged, highest_before, now, min_rtt, sample);
            }
            at = at.max(known.1);
        }
        if at < end {
            self.mark_sacked(at, end, merged, highest_before, now, min_rtt, sample);
        }
        self.ranges.splice(from..to, [merged]);
        self.highest_sacked = self.highest_sacked.max(end);
    }

    /// Marks every record that touches `[start, end)` and lies within `merged`.
    fn mark_sacked(
        &mut self,
        start: u64,
        end: u64,
        merged: (u64, u64),
        highest_before: u64,
        now: SimTime,
        min_rtt: Option<SimDuration>,
        sample: &mut AckSample,
    ) {
        let mut at = self.records.partition_point(|record| record.end() <= start);
        while let Some(record) = self.records.get_mut(at)
            && record.start < end
        {
            at += 1;
            if record.start < merged.0 || record.end() > merged.1 || record.marks.contains(Mark::SACKED) {
                continue;
            }
            let before = *record;
            record.marks.remove(Mark::LOST | Mark::RETRANSMITTED);
            record.marks.insert(Mark::SACKED);
            self.uncount(before.marks);
            self.sacked += 1;
            sample.delivered += 1;
            sample.sacked += 1;
            self.rate.delivered(&mut sample.rate, before.moment, before.sent_at, before.end());
            if !before.marks.contains(Mark::EVER_RETRANSMITTED) {
                if before.start < highest_before {
                    sample.sacked_late = lowest(sample.sacked_late, before.start);
                }
                sample.sack_sent = sample.sack_sent.max(Some(before.sent_at));
                sample.note_original(before.end());
            }
            self.rack_delivered(&before, now, min_rtt);
        }
    }

    /// RFC 8985 section 6.2 step 2: a retransmission acknowledged faster than any round trip was not what arrived.
    fn rack_delivered(&mut self, record: &Record, now: SimTime, min_rtt: Option<SimDuration>) {
        let rtt = now.saturating_since(record.sent_at);
        if record.marks.contains(Mark::EVER_RETRANSMITTED) && min_rtt.is_some_and(|min| rtt < min) {
            return;
        }
        self.rack.rtt = rtt;
        if !self.rack.valid || (record.sent_at, record.end()) > (self.rack.sent_at, self.rack.end) {
            self.rack.sent_at = record.sent_at;
            self.rack.end = record.end();
            self.rack.valid = true;
        }
    }

    /// RFC 8985 section 6.2 step 5. Gives how many are newly lost, and when to look again if some may yet turn out lost.
    pub fn detect_losses(&mut self, now: SimTime, reordering_window: SimDuration) -> (u32, Option<SimTime>) {
        if !self.rack.valid {
            return (0, None);
        }
        let wait = self.rack.rtt.saturating_add(reordering_window);
        let lost_before = self.lost;
        // When the last of those that are undecided was sent.
        let mut undecided: Option<SimTime> = None;
        self.judged = self.judged.max(self.first);
        let mut at = self.judged;
        while let Some(record) = self.records.get((at - self.first) as usize) {
            if !record.marks.intersects(Mark::SACKED | Mark::LOST | Mark::EVER_RETRANSMITTED) {
                let sent_at = record.sent_at;
                match self.verdict(sent_at, record.end(), now, wait) {
                    Verdict::Lost => self.mark_lost(at),
                    Verdict::Undecided => undecided = undecided.max(Some(sent_at)),
                    Verdict::TooNew => break,
                }
            }
            at += 1;
            if undecided.is_none() {
                self.judged = at;
            }
        }
        undecided = undecided.max(self.judge_copies(now, wait));
        (self.lost - lost_before, undecided.map(|sent_at| sent_at + wait))
    }

    /// The same of retransmissions; when the last that is undecided was sent.
    fn judge_copies(&mut self, now: SimTime, wait: SimDuration) -> Option<SimTime> {
        let mut undecided = None;
        let mut at = 0;
        while let Some(&(number, sent_at)) = self.copies.get(at) {
            let stale = number < self.first || {
                let record = self.record(number);
                let waits = record.marks.contains(Mark::LOST) && !record.marks.contains(Mark::RETRANSMITTED);
                waits || record.marks.contains(Mark::SACKED) || record.sent_at != sent_at
            };
            if !stale {
                match self.verdict(sent_at, self.record(number).end(), now, wait) {
                    Verdict::Lost => self.mark_lost(number),
                    Verdict::Undecided => {
                        undecided = Some(sent_at);
                        at += 1;
                        continue;
                    }
                    Verdict::TooNew => break,
                }
            }
            if at == 0 {
                self.copies.pop_front();
            } else {
                at += 1;
            }
        }
        undecided
    }

    fn verdict(&self, sent_at: SimTime, end: u64, now: SimTime, wait: SimDuration) -> Verdict {
        if (sent_at, end) >= (self.rack.sent_at, self.rack.end) {
            Verdict::TooNew
        } else if sent_at + wait <= now {
            Verdict::Lost
        } else {
            Verdict::Undecided
        }
    }

    pub fn mark_lost(&mut self, number: u64) {
        let record = &mut self.records[(number - self.first) as usize];
        if record.marks.contains(Mark::SACKED) {
            return;
        }
        if record.marks.contains(Mark::RETRANSMITTED) {
            record.marks.remove(Mark::RETRANSMITTED);
            self.retransmitted -= 1;
        }
        if !record.marks.contains(Mark::LOST) {
            record.marks.insert(Mark::LOST);
            self.lost += 1;
        }
        self.retransmit_hint = self.retransmit_hint.min(number);
    }

    /// Marks the first record lost (a sender without SACK, RFC 6582). Says whether it was news.
    pub fn mark_head_lost(&mut self) -> bool {
        let news = self.records.front().is_some_and(|head| !head.marks.intersects(Mark::LOST | Mark::SACKED));
        if news {
            self.mark_lost(self.first);
        }
        news
    }

    /// After a timeout everything not SACKed counts as lost, but for what was sent less than a round trip ago and is not the head
    /// (tcp_timeout_mark_lost). A SACKed head means that the receiver has thrown data away (RFC 2018 section 8): then no SACK counts any more.
    pub fn mark_timed_out(&mut self, now: SimTime) {
        let renege = self.records.front().is_some_and(|head| head.marks.contains(Mark::SACKED));
        if renege {
            self.ranges.clear();
            self.sacked = 0;
        }
        self.duplicated = 0;
        for at in 0..self.records.len() {
            let record = &mut self.records[at];
            if renege {
                record.marks.remove(Mark::SACKED);
            } else if at > 0 && self.rack.valid && record.sent_at + self.rack.rtt > now {
                continue;
            }
            self.mark_lost(self.first + at as u64);
        }
    }

    /// A false alarm: nothing is lost.
    pub fn unmark_lost(&mut self) {
        for record in &mut self.records {
            record.marks.remove(Mark::LOST);
        }
        self.lost = 0;
        self.judged = self.first;
    }

    /// The lowest record that is lost and waits for retransmission.
    pub fn next_lost(&mut self) -> Option<u64> {
        if self.lost == 0 {
            return None;
        }
        self.retransmit_hint = self.retransmit_hint.max(self.first);
        while let Some(record) = self.records.get((self.retransmit_hint - self.first) as usize) {
            if record.marks.contains(Mark::LOST) && !record.marks.contains(Mark::RETRANSMITTED) {
                return Some(self.retransmit_hint);
            }
            self.retransmit_hint += 1;
        }
        None
    }

    /// What begins at `start` or behind it has not left after all. Gives the number of segments.
    pub fn unsend(&mut self, start: u64) -> u32 {
        let before = self.records.len();
        while let Some(last) = self.records.back().copied().filter(|last| last.start >= start) {
            self.records.pop_back();
            self.uncount(last.marks);
        }
        (before - self.records.len()) as u32
    }

    /// No copy of the segments in `[start, end)` has left after all: those that are lost wait again. Gives their number.
    pub fn unresend(&mut self, start: u64, end: u64) -> u32 {
        let from = self.records.partition_point(|record| record.start < start);
        let mut copies = 0;
        for (at, record) in self.records.iter_mut().enumerate().skip(from).take_while(|(_, record)| record.start < end)
        {
            if record.marks.contains(Mark::RETRANSMITTED) {
                record.marks.remove(Mark::RETRANSMITTED);
                copies += 1;
                self.retransmit_hint = self.retransmit_hint.min(self.first + at as u64);
            }
        }
        self.retransmitted -= copies;
        copies
    }

    /// The segment of this number takes in the next one, which is nothing of its own any more (tcp_collapse_retrans).
    pub fn join_next(&mut self, number: u64) {
        let next = number + 1;
        let Some(gone) = self.records.remove((next - self.first) as usize) else { return };
        self.uncount(gone.marks);
        self.duplicated = self.duplicated.saturating_sub(1);
        let record = &mut self.records[(number - self.first) as usize];
        record.len += gone.len;
        record.marks |= gone.marks & Mark::EVER_RETRANSMITTED;
        // Those behind it have moved up.
        self.copies.retain(|copy| copy.0 != next);
        let moved = |at: &mut u64| *at -= u64::from(*at > next);
        self.copies.iter_mut().for_each(|copy| moved(&mut copy.0));
        moved(&mut self.judged);
        moved(&mut self.retransmit_hint);
    }

    /// The record of this number, if there is one.
    pub fn get(&self, number: u64) -> Option<&Record> {
        self.records.get((number - self.first) as usize)
    }

    /// Whether the segment that begins at `start` was sent more than once.
    pub fn was_resent(&self, start: u64) -> bool {
        let at = self.records.partition_point(|record| record.end() <= start);
        self.records.get(at).is_some_and(|record| record.marks.contains(Mark::EVER_RETRANSMITTED))
    }

    /// The record of this number, if it is lost and waits for retransmission.
    pub fn waiting(&self, number: u64) -> Option<Record> {
        let record = self.records.get((number - self.first) as usize)?;
        let waits = record.marks.contains(Mark::LOST) && !record.marks.contains(Mark::RETRANSMITTED);
        waits.then_some(*record)
    }

    pub fn resent(&mut self, number: u64, now: SimTime) {
        let record = &mut self.records[(number - self.first) as usize];
        if !record.marks.contains(Mark::RETRANSMITTED) {
            record.marks.insert(Mark::RETRANSMITTED);
            self.retransmitted += 1;
        }
        self.probed(number, now);
    }

    /// A copy leaves that is no further segment in flight: a tail loss probe (__tcp_retransmit_skb).
    pub fn probed(&mut self, number: u64, now: SimTime) {
        let record = &mut self.records[(number - self.first) as usize];
        record.marks.insert(Mark::EVER_RETRANSMITTED);
        record.sent_at = now;
        record.moment = self.rate.sent(now, false);
        self.copies.push_back((number, now));
    }
}

enum Verdict {
    Lost,
    Undecided,
    TooNew,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SimTime {
        SimTime::from_nanos(ms * 1_000_000)
    }

    /// Ten segments of 100 bytes, one per millisecond.
    fn ten() -> Scoreboard {
        let mut board = Scoreboard::new();
        for i in 0..10 {
            board.sent(1000 + 100 * i, 100, at(i));
        }
        board
    }

    #[test]
    fn sack_marks_each_segment_once() {
        let mut board = ten();
        let mut sample = board.sample();
        board.sack([(1200, 1300), (1400, 1500)].into_iter(), at(50), None, &mut sample);
        assert_eq!((sample.sacked, board.sacked, board.in_flight()), (2, 2, 8));
        let mut sample = board.sample();
        board.sack([(1200, 1500)].into_iter(), at(51), None, &mut sample);
        assert_eq!((sample.sacked, board.sacked), (1, 3));
        assert_eq!(sample.sacked_late, Some(1300));
        board.sack([(1200, 1500)].into_iter(), at(52), None, &mut sample);
        assert_eq!(board.sacked, 3);
        let mut sample = board.sample();
        board.acknowledge(1350, at(53), None, &mut sample);
        assert_eq!((sample.acked, sample.delivered, board.packets_out(), board.sacked), (3, 2, 7, 2));
        assert_eq!((board.head().unwrap().start, board.head().unwrap().len), (1350, 50));
    }

    #[test]
    fn partial_blocks_wait_until_the_whole_segment_is_covered() {
        let mut board = ten();
        let mut sample = board.sample();
        board.sack([(1210, 1290)].into_iter(), at(50), None, &mut sample);
        assert_eq!(board.sacked, 0);
        board.sack([(1200, 1210)].into_iter(), at(50), None, &mut sample);
        board.sack([(1290, 1300)].into_iter(), at(50), None, &mut sample);
        assert_eq!(board.sacked, 1);
    }

    #[test]
    fn rack_declares_earlier_segments_lost_after_the_window() {
        let mut board = ten();
        let mut sample = board.sample();
        board.sack([(1300, 1400)].into_iter(), at(50), None, &mut sample);
        // rtt is 47 ms; with a window of 10 ms segment 0 (sent at 0) is judged at 57.
        let (lost, again) = board.detect_losses(at(50), SimDuration::from_millis(10));
        // Segment 2, sent at 2 ms, is the last of them.
        assert_eq!((lost, again), (0, Some(at(59))));
        assert_eq!(board.detect_losses(at(58), SimDuration::from_millis(10)).0, 2);
        assert_eq!(board.detect_losses(at(60), SimDuration::from_millis(10)).0, 1);
        assert_eq!((board.next_lost(), board.in_flight()), (Some(0), 6));
        for number in 0..3 {
            assert_eq!(board.next_lost(), Some(number));
            board.resent(number, at(60));
        }
        assert_eq!((board.next_lost(), board.in_flight()), (None, 9));
        // The copy of 1000 is lost: that of 1100, sent at the same time but later in order, arrives.
        board.sack([(1200, 1300)].into_iter(), at(110), None, &mut sample);
        // So are the originals above, all sent before that copy.
        assert_eq!(board.detect_losses(at(110), SimDuration::ZERO).0, 6);
        assert_eq!((board.retransmitted, board.next_lost()), (0, Some(0)));
    }

    #[test]
    fn a_timeout_marks_all_and_reneging_forgets_sack() {
        let mut board = ten();
        let mut sample = board.sample();
        board.sack([(1500, 1600)].into_iter(), at(50), None, &mut sample);
        // The round trip was 45 ms: what left at 6 ms and later may still arrive.
        board.mark_timed_out(at(51));
        assert_eq!((board.lost, board.in_flight()), (6, 3));
        board.mark_timed_out(at(60));
        assert_eq!((board.lost, board.in_flight()), (9, 0));
        board.sack([(1000, 1100)].into_iter(), at(60), None, &mut sample);
        board.mark_timed_out(at(60));
        assert_eq!((board.lost, board.sacked), (10, 0));
    }
}
