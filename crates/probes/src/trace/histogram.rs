//! Times by layer, as counts of logarithmic bins.

use crate::choices::Layer;
use crate::table::tell;
use crate::tables::LayerTime;
use base::map::FastMap;

/// Sixteen for each power of two; below sixteen nanoseconds each has one.
pub fn bin_of(nanos: u64) -> u64 {
    if nanos < 16 {
        return nanos;
    }
    let power = u64::from(nanos.ilog2());
    (power - 3) * 16 + ((nanos >> (power - 4)) & 15)
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    packets: u64,
    bytes: u64,
}

/// Of one host and one second.
#[derive(Debug, Default)]
pub(super) struct Histograms {
    counts: FastMap<(u8, u16), Count>,
    /// The bin of each layer that took the last packet, which often takes the next.
    last: [(u16, Count); Layer::WORDS.len()],
}

impl Histograms {
    #[inline]
    pub fn add(&mut self, layer: Layer, nanos: u64, packets: u64, bytes: u64) {
        let bin = bin_of(nanos) as u16;
        let (have, count) = &mut self.last[layer as usize];
        if *have != bin {
            let full = std::mem::take(count);
            let at = std::mem::replace(have, bin);
            self.put(layer as u8, at, full);
        }
        let (_, count) = &mut self.last[layer as usize];
        count.packets += packets;
        count.bytes += bytes;
    }

    fn put(&mut self, layer: u8, bin: u16, count: Count) {
        if count.packets > 0 {
            let all = self.counts.entry((layer, bin)).or_default();
            all.packets += count.packets;
            all.bytes += count.bytes;
        }
    }

    /// Gives all counts as rows, and begins anew.
    pub fn drain(&mut self, from_ns: u64, host: u64, rows: &mut Vec<LayerTime>) {
        for layer in 0..self.last.len() {
            let (bin, count) = std::mem::take(&mut self.last[layer]);
            self.put(layer as u8, bin, count);
        }
        for ((layer, bin), Count { packets, bytes }) in self.counts.drain() {
            let (layer, latency_bin) = (u64::from(layer), u64::from(bin));
            let bin = host << 16 | layer << 12 | latency_bin;
            tell(rows, LayerTime { from_ns, bin, host, layer, latency_bin, packets, bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_rise_without_a_gap_and_fit() {
        let steps = |power: u32| (0..16u64).map(move |step| (1u64 << power) + ((1u64 << power) >> 4) * step);
        let starts: Vec<u64> = (0..16).chain((4..64).flat_map(steps)).collect();
        for (bin, start) in starts.iter().enumerate() {
            assert_eq!(bin_of(*start), bin as u64, "{start}");
            assert_eq!(bin_of(start.saturating_sub(1)), (bin as u64).saturating_sub(1), "before {start}");
        }
        assert_eq!((bin_of(15), bin_of(16), bin_of(31), bin_of(32)), (15, 16, 31, 32));
        assert!(bin_of(u64::MAX) < 1 << 12);
    }

    #[test]
    fn counts_add_up_whatever_their_order() {
        let mut histograms = Histograms::default();
        for nanos in [5, 5, 900, 5, 900, 0, 0] {
            histograms.add(Layer::Route, nanos, 1, 100);
        }
        let mut rows = Vec::new();
        histograms.drain(7, 3, &mut rows);
        rows.sort_by_key(|row| row.bin);
        let seen: Vec<(u64, u64, u64)> = rows.iter().map(|row| (row.latency_bin, row.packets, row.bytes)).collect();
        assert_eq!(seen, [(0, 2, 200), (5, 3, 300), (bin_of(900), 2, 200)]);
        histograms.drain(7, 3, &mut rows);
        assert_eq!(rows.len(), 3);
    }
}
