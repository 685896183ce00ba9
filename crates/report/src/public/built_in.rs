//! The sample that is built in. Where it comes from stands at its beginning.

use super::{Distribution, Quantity};
use std::collections::BTreeMap;

const SAMPLE: &str = include_str!("tor-2019.csv");
const LABEL: &str = "public Tor, 2019";

/// All quantities of the sample.
///
/// # Panics
///
/// If the file that was compiled in is broken, which a test would have told.
pub fn all() -> BTreeMap<Quantity, Distribution> {
    let mut all: BTreeMap<Quantity, Distribution> = BTreeMap::new();
    let rows = SAMPLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        let [name, bytes, _, share, value] = cells[..] else { panic!("the built-in sample has the row '{row}'") };
        let number = |text: &str| text.parse::<f64>().expect("the built-in sample has numbers");
        let (quantity, about) = quantity(name, bytes);
        let new = || Distribution { label: LABEL.to_owned(), about: about.to_owned(), quantiles: Vec::new() };
        all.entry(quantity).or_insert_with(new).quantiles.push((number(share), number(value)));
    }
    all
}

fn quantity(name: &str, bytes: &str) -> (Quantity, &'static str) {
    match name {
        "download" => (
            Quantity::Download(bytes.parse().expect("downloads have a size")),
            "OnionPerf\u{2019}s downloads from the public internet in 2019, all vantage points together; tor had windows of a fixed size then, with \
             which large downloads take longer (congestion control came in 2022: networks of \u{2018}gnomon tor new --congestion-control fixed\u{2019} \
             are as tor was)",
        ),
        "round-trip" => (Quantity::RoundTrip, "OnionPerf, 2019, downloads of all sizes"),
        "circuit-build" => (Quantity::CircuitBuild, "OnionPerf, 2019, to the third hop"),
        "goodput" => (Quantity::Goodput, "OnionPerf, 2019, between 0.5 and 1 MiB of a download"),
        "failures" => (
            Quantity::Failures,
            "OnionPerf, 2019, quartiles over days, with time limits of 15 s (50 KiB), 60 s (1 MiB) and 120 s (5 MiB)",
        ),
        "utilisation" => (
            Quantity::Utilisation,
            "Tor Metrics, 2019, quartiles over days: bandwidth in use over what relays advertise",
        ),
        other => panic!("the built-in sample has no quantity '{other}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_every_quantity_in_ascending_order() {
        let all = all();
        for size in [51_200, 1 << 20, 5 << 20] {
            assert!(all.contains_key(&Quantity::Download(size)), "{size}");
        }
        assert_eq!(all.len(), 8);
        for (quantity, distribution) in &all {
            let quantiles = &distribution.quantiles;
            assert!(quantiles.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{quantity:?}");
            let [low, middle, high] = distribution.quartiles();
            assert!(low < middle && middle < high, "{quantity:?}");
        }
        assert_eq!(all[&Quantity::Download(51_200)].quartiles(), [0.89, 1.23, 1.8]);
        assert_eq!(all[&Quantity::Utilisation].quartiles(), [0.4594, 0.4727, 0.4861]);
    }

    #[test]
    fn the_sample_says_where_it_comes_from() {
        for text in ["2019-01-01 to 2019-12-31", "Tor Metrics", "CC0", "Not in it"] {
            assert!(SAMPLE.contains(text), "{text}");
        }
    }
}
