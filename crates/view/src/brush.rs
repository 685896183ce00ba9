//! What of all packets is looked at: ranges of time and of times in layers, a host, a flow, what became of them.

use crate::columns::{BINS, Flow, LAYERS, TICKS};
use crate::error::{Error, Result};
use probes::choices::Layer;
use serde_json::Value;

/// A choice among packets. Ends of ranges belong to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brush {
    pub ticks: (u16, u16),
    pub bins: [(u8, u8); LAYERS],
    /// A host; with a layer, where packets spend their time in that layer at it.
    pub host: Option<(u32, Option<usize>)>,
    /// From one host to another.
    pub pair: Option<(u32, u32)>,
    pub flow: Option<u32>,
    /// A bit for each code.
    pub fates: u32,
}

impl Default for Brush {
    fn default() -> Brush {
        Brush {
            ticks: (0, TICKS as u16 - 1),
            bins: [(0, u8::MAX); LAYERS],
            host: None,
            pair: None,
            flow: None,
            fates: u32::MAX,
        }
    }
}

const BINS_TEXT: &str = "a brush's ranges are pairs of numbers";

impl Brush {
    /// As the page writes it: `{"time": [0, 99], "layers": {"uplink": [20, 30]}, "host": 3, "layer": "downlink", "pair": [1, 2], "flow": 7,
    /// "fates": [17]}`, of which anything may be missing.
    ///
    /// # Errors
    /// When something in it is no brush.
    pub fn read(value: &Value) -> Result<Brush> {
        let mut brush = Brush::default();
        if let Some(range) = value.get("time") {
            let (from, to) = pair(range)?;
            brush.ticks = (from.min(TICKS - 1) as u16, to.min(TICKS - 1) as u16);
        }
        for (name, range) in value.get("layers").and_then(Value::as_object).into_iter().flatten() {
            let (from, to) = pair(range)?;
            brush.bins[layer(name)?] = (from.min(BINS as u64 - 1) as u8, to.min(BINS as u64 - 1) as u8);
        }
        if let Some(host) = value.get("host").and_then(Value::as_u64) {
            let layer = value.get("layer").and_then(Value::as_str).map(layer).transpose()?;
            brush.host = Some((host as u32, layer));
        }
        if let Some(hosts) = value.get("pair") {
            let (src, dst) = pair(hosts)?;
            brush.pair = Some((src as u32, dst as u32));
        }
        brush.flow = value.get("flow").and_then(Value::as_u64).map(|flow| flow as u32);
        if let Some(fates) = value.get("fates").and_then(Value::as_array) {
            let bits = fates.iter().filter_map(Value::as_u64).filter(|code| *code < 32).map(|code| 1u32 << code);
            brush.fates = bits.fold(0, |all, bit| all | bit);
        }
        Ok(brush)
    }

    /// Whether packets of a flow are looked at, as far as their flow decides it.
    pub fn admits(&self, number: usize, flow: &Flow) -> bool {
        let host = self.host.is_none_or(|(host, layer)| match layer {
            Some(layer) => flow.host(layer) == host,
            None => flow.src == host || flow.dst == host,
        });
        host && self.pair.is_none_or(|pair| pair == (flow.src, flow.dst))
            && self.flow.is_none_or(|flow| flow as usize == number)
    }
}

fn pair(value: &Value) -> Result<(u64, u64)> {
    let number = |place: usize| value.get(place).and_then(Value::as_u64).ok_or_else(|| Error::new(BINS_TEXT));
    Ok((number(0)?, number(1)?))
}

fn layer(name: &str) -> Result<usize> {
    let place = Layer::WORDS.iter().position(|word| *word == name);
    place.ok_or_else(|| Error::new(format!("'{name}' is no layer: {}", Layer::WORDS.join(", "))))
}
