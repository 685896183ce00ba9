//! What all views draw, summed up over the packets of a brush in one pass.

use crate::brush::Brush;
use crate::columns::{BINS, Columns, FATES, LAYERS, RECEIVED, TICKS, bin_ns};
use probes::choices::{ReceivedFate, SentFate};
use std::num::NonZero;
use std::ops::Range;
use std::thread;

/// Columns of a heat map.
pub const HEAT_COLUMNS: usize = 256;
const TICKS_A_COLUMN: usize = TICKS as usize / HEAT_COLUMNS;
const HEAT: usize = HEAT_COLUMNS * BINS;

/// Rows that are judged at once.
const BLOCK: usize = 4096;
const READ: u8 = RECEIVED + ReceivedFate::Read as u8;
/// What becomes of packets that count as lost between hosts, a bit for each code.
const LOST: u32 = 1 << SentFate::Lost as u32 | 1 << SentFate::Refused as u32 | 1 << SentFate::Dropped as u32;
/// The slowest packets that are listed.
const SLOWEST: usize = 60;

/// A flow's packets, those that passed each layer, and their time in it, in nanoseconds by the middles of bins.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowTotals {
    pub ns: [u64; LAYERS],
    pub passed: [u64; LAYERS],
    pub packets: u64,
    /// Lost on the way, or refused or dropped by the sender's queue.
    pub lost: u64,
}

/// Sums over packets.
#[derive(Clone, Debug)]
pub struct Totals {
    pub packets: u64,
    /// For each layer, column of time and bin: packets that passed it.
    pub heat: Vec<u32>,
    pub flows: Vec<FlowTotals>,
    pub fates: [u64; FATES],
    /// Rows with the longest time in all layers, or in the brush's one, the slowest first: twice the time (and one, if it was read) and the row.
    pub slowest: Vec<(u64, u32)>,
}

impl Totals {
    pub fn new(flows: usize) -> Totals {
        Totals {
            packets: 0,
            heat: vec![0; LAYERS * HEAT],
            flows: vec![FlowTotals::default(); flows],
            fates: [0; FATES],
            slowest: Vec::new(),
        }
    }

    /// Sums up what `brush` leaves of `columns`, by as many threads as there are processors.
    pub fn of(columns: &Columns, brush: &Brush) -> Totals {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let rows = columns.len();
        let part = rows.div_ceil(threads).div_ceil(BLOCK).max(1) * BLOCK;
        let admitted: Vec<bool> =
            columns.flows.iter().enumerate().map(|(number, flow)| brush.admits(number, flow)).collect();
        let admitted = &admitted;
        thread::scope(|scope| {
            let parts: Vec<_> = (0..rows.div_ceil(part).max(1))
                .map(|place| {
                    let rows = place * part..rows.min((place + 1) * part);
                    scope.spawn(move || Totals::of_rows(columns, brush, admitted, rows))
                })
                .collect();
            let mut parts = parts.into_iter().map(|part| part.join().expect("sums do not panic"));
            let mut all = parts.next().expect("at least one part");
            parts.for_each(|part| all.add(&part));
            all.keep_slowest();
            all
        })
    }

    fn of_rows(columns: &Columns, brush: &Brush, admitted: &[bool], rows: Range<usize>) -> Totals {
        let mut totals = Totals::new(columns.flows.len());
        let times: [u64; BINS] = std::array::from_fn(bin_ns);
        let ranks = ranks(brush);
        let mut chosen = [0u32; BLOCK];
        let mut floor = 0;
        for start in rows.clone().step_by(BLOCK) {
            let count = choose(columns, brush, admitted, start..rows.end.min(start + BLOCK), &mut chosen);
            for &row in &chosen[..count] {
                let row = row as usize;
                let column = columns.ticks[row] as usize / TICKS_A_COLUMN * BINS;
                let flow = &mut totals.flows[columns.flow[row] as usize];
                flow.packets += 1;
                let passed = columns.passed[row];
                let mut rank = 0;
                for (layer, mask) in ranks.iter().enumerate() {
                    let bin = columns.bins[layer][row] as usize;
                    let one = passed >> layer & 1;
                    totals.heat[layer * HEAT + column + bin] += u32::from(one);
                    flow.ns[layer] += times[bin] * u64::from(one);
                    flow.passed[layer] += u64::from(one);
                    rank += times[bin] & mask;
                }
                let fate = columns.fates[row] as usize & (FATES - 1);
                totals.fates[fate] += 1;
                flow.lost += u64::from(LOST >> fate & 1);
                // Of equals, one that a program read tells more than one that the stack took.
                rank = rank << 1 | u64::from(columns.fates[row] == READ);
                if rank > floor {
                    totals.slowest.push((rank, row as u32));
                    if totals.slowest.len() >= 8 * SLOWEST {
                        totals.keep_slowest();
                        floor = totals.slowest[SLOWEST - 1].0;
                    }
                }
            }
            totals.packets += count as u64;
        }
        totals
    }

    fn add(&mut self, other: &Totals) {
        self.packets += other.packets;
        self.heat.iter_mut().zip(&other.heat).for_each(|(all, part)| *all += part);
        self.fates.iter_mut().zip(&other.fates).for_each(|(all, part)| *all += part);
        for (all, part) in self.flows.iter_mut().zip(&other.flows) {
            all.packets += part.packets;
            all.lost += part.lost;
            all.passed.iter_mut().zip(&part.passed).for_each(|(all, part)| *all += part);
            all.ns.iter_mut().zip(&part.ns).for_each(|(all, part)| *all += part);
        }
        self.slowest.extend(&other.slowest);
    }

    fn keep_slowest(&mut self) {
        self.slowest.sort_unstable_by_key(|&(ns, row)| (std::cmp::Reverse(ns), row));
        self.slowest.truncate(SLOWEST);
    }

    /// Packets that passed a layer by their time in it, all columns of time together.
    pub fn histogram(&self, layer: usize) -> Vec<u64> {
        let mut bins = vec![0u64; BINS];
        for column in self.heat[layer * HEAT..(layer + 1) * HEAT].chunks_exact(BINS) {
            bins.iter_mut().zip(column).for_each(|(all, part)| *all += u64::from(*part));
        }
        bins
    }

    /// The heat maps with two bins made one, each number in four bytes, the lowest first.
    pub fn heat_bytes(&self) -> Vec<u8> {
        self.heat.chunks_exact(2).flat_map(|pair| (pair[0] + pair[1]).to_le_bytes()).collect()
    }
}

/// All bits of the layers by whose time packets are ranked: the brush's one, or all.
fn ranks(brush: &Brush) -> [u64; LAYERS] {
    match brush.host {
        Some((_, Some(chosen))) => std::array::from_fn(|layer| if layer == chosen { u64::MAX } else { 0 }),
        _ => [u64::MAX; LAYERS],
    }
}

/// Writes the rows of a block that the brush leaves into `chosen`, and returns how many they are.
fn choose(columns: &Columns, brush: &Brush, admitted: &[bool], rows: Range<usize>, chosen: &mut [u32; BLOCK]) -> usize {
    let mut keep = [true; BLOCK];
    let keep = &mut keep[..rows.len()];
    let (from, to) = brush.ticks;
    if brush.ticks != Brush::default().ticks {
        keep.iter_mut().zip(&columns.ticks[rows.clone()]).for_each(|(keep, tick)| *keep &= (from..=to).contains(tick));
    }
    for (bins, &(from, to)) in columns.bins.iter().zip(&brush.bins) {
        if (from, to) != (0, u8::MAX) {
            keep.iter_mut().zip(&bins[rows.clone()]).for_each(|(keep, bin)| *keep &= (from..=to).contains(bin));
        }
    }
    let passed = brush.passed();
    if passed != 0 {
        keep.iter_mut()
            .zip(&columns.passed[rows.clone()])
            .for_each(|(keep, layers)| *keep &= layers & passed == passed);
    }
    if brush.fates != u32::MAX {
        let fates = &columns.fates[rows.clone()];
        keep.iter_mut().zip(fates).for_each(|(keep, fate)| *keep &= brush.fates >> (fate & 31) & 1 != 0);
    }
    if (brush.host.is_some(), brush.pair.is_some(), brush.flow.is_some()) != (false, false, false) {
        keep.iter_mut().zip(&columns.flow[rows.clone()]).for_each(|(keep, flow)| *keep &= admitted[*flow as usize]);
    }
    let mut count = 0;
    for (row, keep) in rows.zip(keep.iter()) {
        chosen[count] = row as u32;
        count += usize::from(*keep);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Flow, bin};

    /// Packets `0..count` over three flows, one each nanosecond, the time in layer L of packet N being N * 1000 * (L + 1). One in seven ended
    /// before its downlink.
    fn columns(count: usize) -> Columns {
        let mut columns = Columns::new(count as u64, count);
        columns.flows = (0..3).map(|host| Flow { stream: 1, src: host, dst: host + 1 }).collect();
        for row in 0..count {
            columns.ticks.push((row as u64 / columns.tick_ns) as u16);
            for (layer, bins) in columns.bins.iter_mut().enumerate() {
                bins.push(bin(row as u64 * 1000 * (layer as u64 + 1)));
            }
            columns.passed.push(if row % 7 == 0 { 0b000111 } else { 0b111111 });
            columns.fates.push((row % 5) as u8);
            columns.flow.push((row % 3) as u32);
            columns.counts.push(row as u32);
        }
        columns
    }

    #[test]
    fn one_pass_agrees_with_counting_one_by_one() {
        let columns = columns(50_000);
        let brush = Brush {
            ticks: (100, 3000),
            bins: std::array::from_fn(|layer| if layer == 2 { (90, 140) } else { (0, 255) }),
            host: Some((1, Some(0))),
            fates: 0b01101,
            ..Brush::default()
        };
        let totals = Totals::of(&columns, &brush);
        let is_kept = |row: &usize| {
            (100..=3000).contains(&columns.ticks[*row])
                && (90..=140).contains(&columns.bins[2][*row])
                && columns.flow[*row] == 1
                && [0, 2, 3].contains(&columns.fates[*row])
        };
        let kept: Vec<usize> = (0..columns.len()).filter(is_kept).collect();
        assert!(kept.len() > 100);
        assert_eq!(totals.packets, kept.len() as u64);
        assert_eq!(totals.flows.iter().map(|flow| flow.packets).collect::<Vec<_>>(), [0, kept.len() as u64, 0]);
        let (kept, columns) = (&kept, &columns);
        let passed = |layer: usize| kept.iter().filter(move |row| columns.passed[**row] >> layer & 1 != 0);
        let sum = |layer: usize| passed(layer).map(|row| bin_ns(columns.bins[layer][*row] as usize)).sum::<u64>();
        assert_eq!(totals.flows[1].ns, std::array::from_fn(sum));
        let counts: [u64; LAYERS] = std::array::from_fn(|layer| passed(layer).count() as u64);
        assert!(counts[0] == totals.packets && counts[5] < totals.packets);
        assert_eq!(totals.flows[1].passed, counts);
        for (layer, count) in counts.iter().enumerate() {
            assert_eq!(totals.histogram(layer).iter().sum::<u64>(), *count);
        }
        assert_eq!(totals.fates.iter().sum::<u64>(), totals.packets);
        let slowest = kept.iter().map(|row| bin_ns(columns.bins[0][*row] as usize)).max();
        assert_eq!(totals.slowest.first().map(|(rank, _)| *rank >> 1), slowest);
        assert_eq!(totals.slowest.len(), SLOWEST);
    }

    #[test]
    fn a_layer_is_brushed_among_those_that_passed_it() {
        let columns = columns(7_000);
        let place = Brush { host: Some((1, Some(3))), ..Brush::default() };
        let range =
            Brush { bins: std::array::from_fn(|layer| (0, if layer == 3 { 254 } else { 255 })), ..Brush::default() };
        assert_eq!(Totals::of(&columns, &range).packets, 6_000);
        let packets = (0..7_000).filter(|row| row % 7 != 0 && row % 3 == 0).count() as u64;
        assert_eq!(Totals::of(&columns, &place).packets, packets);
    }

    #[test]
    fn nothing_and_everything_can_be_brushed() {
        let some = columns(10_000);
        assert_eq!(Totals::of(&some, &Brush::default()).packets, 10_000);
        assert_eq!(Totals::of(&some, &Brush { fates: 0, ..Brush::default() }).packets, 0);
        assert_eq!(Totals::of(&columns(0), &Brush::default()).packets, 0);
    }
}
