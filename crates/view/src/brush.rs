//! What of all packets is looked at: ranges of time and of times in layers, a host, a flow, what became of them.

use crate::columns::{BINS, FATES, Flow, LAYERS, TICKS};
use crate::error::{Error, Result};
use probes::choices::Layer;
use serde_json::{Map, Value};

/// A choice among packets. Ends of ranges belong to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brush {
    pub ticks: (u16, u16),
    /// Of a layer with a range, only packets that passed it are looked at.
    pub bins: [(u8, u8); LAYERS],
    /// A host; with a layer, where packets passed that layer at it.
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
            bins: [ALL_BINS; LAYERS],
            host: None,
            pair: None,
            flow: None,
            fates: u32::MAX,
        }
    }
}

const ALL_BINS: (u8, u8) = (0, u8::MAX);

/// The most that host numbers and flows can be.
const NUMBERS: u64 = u32::MAX as u64;

impl Brush {
    /// As the page writes it: `{"time": [0, 99], "layers": {"uplink": [20, 30]}, "host": 3, "layer": "downlink", "pair": [1, 2], "flow": 7,
    /// "fates": [17]}`, of which anything may be missing.
    ///
    /// # Errors
    /// When something in it is no brush.
    pub fn read(value: &Value) -> Result<Brush> {
        let mut brush = Brush::default();
        let (mut host, mut place) = (None, None);
        for (name, value) in object(value, "a brush")? {
            match name.as_str() {
                "time" => brush.ticks = range(value, name, TICKS - 1)?,
                "layers" => {
                    for (name, value) in object(value, name)? {
                        brush.bins[layer(name)?] = range(value, name, BINS as u64 - 1)?;
                    }
                }
                "host" => host = Some(number(value, name, NUMBERS)?),
                "layer" => place = Some(layer(value.as_str().unwrap_or_default())?),
                "pair" => brush.pair = Some(pair(value, name, NUMBERS)?),
                "flow" => brush.flow = Some(number(value, name, NUMBERS)?),
                "fates" => brush.fates = fates(value, name)?,
                _ => {
                    return Err(Error::new(format!(
                        "a brush has no '{name}': time, layers, host, layer, pair, flow, fates"
                    )));
                }
            }
        }
        if host.is_none() && place.is_some() {
            return Err(Error::new("a brush with 'layer' says whose, with 'host'"));
        }
        brush.host = host.map(|host| (host, place));
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

    /// The layers that packets have passed which are looked at, a bit for each.
    pub fn passed(&self) -> u8 {
        let ranges = (0..LAYERS).filter(|layer| self.bins[*layer] != ALL_BINS);
        let place = self.host.and_then(|(_, layer)| layer);
        ranges.chain(place).fold(0, |all, layer| all | 1 << layer)
    }
}

fn object<'a>(value: &'a Value, name: &str) -> Result<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| Error::new(format!("{name} is an object, not {value}")))
}

/// A whole number that is at most `most`, which `T` has room for.
fn number<T: TryFrom<u64>>(value: &Value, name: &str, most: u64) -> Result<T> {
    let number = value.as_u64().filter(|number| *number <= most).and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| Error::new(format!("'{name}' takes whole numbers from 0 to {most}, not {value}")))
}

fn pair<T: TryFrom<u64>>(value: &Value, name: &str, most: u64) -> Result<(T, T)> {
    match value.as_array().map(Vec::as_slice) {
        Some([one, other]) => Ok((number(one, name, most)?, number(other, name, most)?)),
        _ => Err(Error::new(format!("'{name}' takes a pair of numbers, not {value}"))),
    }
}

fn range<T: TryFrom<u64> + PartialOrd>(value: &Value, name: &str, most: u64) -> Result<(T, T)> {
    let (from, to) = pair(value, name, most)?;
    if from > to {
        return Err(Error::new(format!("'{name}' begins behind its end: {value}")));
    }
    Ok((from, to))
}

fn fates(value: &Value, name: &str) -> Result<u32> {
    let Some(codes) = value.as_array() else {
        return Err(Error::new(format!("'{name}' takes a list of numbers, not {value}")));
    };
    codes.iter().try_fold(0, |all, code| Ok(all | 1u32 << number::<u32>(code, name, FATES as u64 - 1)?))
}

fn layer(name: &str) -> Result<usize> {
    let place = Layer::WORDS.iter().position(|word| *word == name);
    place.ok_or_else(|| Error::new(format!("'{name}' is no layer: {}", Layer::WORDS.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_brush_is_read_as_the_page_writes_it() {
        let brush = json!({ "time": [0, 99], "layers": { "uplink": [20, 30] }, "host": 3, "layer": "downlink", "pair": [1, 2], "flow": 7,
            "fates": [17, 1] });
        let mut bins = [ALL_BINS; LAYERS];
        bins[1] = (20, 30);
        let read = Brush::read(&brush).expect("a brush");
        let (host, pair) = (Some((3, Some(3))), Some((1, 2)));
        assert_eq!(read, Brush { ticks: (0, 99), bins, host, pair, flow: Some(7), fates: 1 << 17 | 1 << 1 });
        assert_eq!(read.passed(), 0b1010);
        assert_eq!(Brush::read(&json!({})).expect("a brush"), Brush::default());
        assert_eq!(Brush::default().passed(), 0);
    }

    #[test]
    fn what_is_no_brush_is_told_by_name() {
        let wrong = [
            (json!(null), "a brush"),
            (json!([1, 2]), "a brush"),
            (json!({ "tme": [1, 2] }), "tme"),
            (json!({ "time": 3 }), "time"),
            (json!({ "time": [1] }), "time"),
            (json!({ "time": [1, 2, 3] }), "time"),
            (json!({ "time": [2, 1] }), "time"),
            (json!({ "time": [1, 4096] }), "time"),
            (json!({ "time": [0.5, 2] }), "time"),
            (json!({ "layers": [1, 2] }), "layers"),
            (json!({ "layers": { "uplink": [0, 256] } }), "uplink"),
            (json!({ "layers": { "moon": [1, 2] } }), "moon"),
            (json!({ "host": -1 }), "host"),
            (json!({ "host": "3" }), "host"),
            (json!({ "host": 1u64 << 32 }), "host"),
            (json!({ "host": 1, "layer": 3 }), "layer"),
            (json!({ "layer": "uplink" }), "layer"),
            (json!({ "pair": [1, null] }), "pair"),
            (json!({ "flow": 1u64 << 32 }), "flow"),
            (json!({ "fates": ["x"] }), "fates"),
            (json!({ "fates": [32] }), "fates"),
            (json!({ "fates": 3 }), "fates"),
        ];
        for (value, name) in wrong {
            let told = Brush::read(&value).expect_err("no brush").to_string();
            assert!(told.contains(name), "{value}: {told}");
        }
    }
}
