//! The histograms of layers and the totals of links, second by second.

use base::map::FastMap;
use probes::choices::Layer;
use probes::tables::{LayerTime, Link};
use probes::trace::bin_of;

const SECOND: u64 = 1_000_000_000;

/// What has been counted and is in no row yet.
#[derive(Default)]
pub struct Tally {
    layers: FastMap<(u64, u64), (u64, u64)>,
    links: FastMap<(u64, u64), [u64; 4]>,
}

impl Tally {
    /// A packet of `bytes` left a layer of `host` at `at`, after `ns`.
    pub fn layer(&mut self, host: u64, layer: Layer, at: u64, ns: u64, bytes: u64) {
        let bin = host * 65536 + u64::from(layer) * 4096 + bin_of(ns);
        let counted = self.layers.entry((at / SECOND * SECOND, bin)).or_default();
        counted.0 += 1;
        counted.1 += bytes;
    }

    pub fn link(&mut self, src: u64, dst: u64, at: u64, bytes: u64, lost: bool) {
        let counted = self.links.entry((at / SECOND * SECOND, src * 4_194_304 + dst)).or_default();
        counted[0] += 1;
        counted[1] += bytes;
        counted[2] += u64::from(lost);
    }

    /// The rows of seconds that end before `until`, which are forgotten.
    pub fn take(&mut self, until: u64) -> (Vec<LayerTime>, Vec<Link>) {
        let (mut layers, mut links) = (Vec::new(), Vec::new());
        self.layers.retain(|&(from_ns, bin), &mut (packets, bytes)| {
            let ended = from_ns.saturating_add(SECOND) <= until;
            if ended {
                let (host, layer, latency_bin) = (bin / 65536, bin / 4096 % 16, bin % 4096);
                layers.push(LayerTime { from_ns, bin, host, layer, latency_bin, packets, bytes });
            }
            !ended
        });
        self.links.retain(|&(from_ns, pair), &mut [packets, bytes, lost, dropped]| {
            let ended = from_ns.saturating_add(SECOND) <= until;
            if ended {
                let (src, dst) = (pair / 4_194_304, pair % 4_194_304);
                links.push(Link { from_ns, pair, src, dst, packets, bytes, lost, dropped });
            }
            !ended
        });
        (layers, links)
    }
}
