//! Shares of the tunnels' code by function: the published Tables I and II, row by row.

use super::{COLUMNS, CRYPTO, Column, NETWORKING, OTHER, VARIANTS, Variant, bar, each, named, share, tunnels, words};
use crate::labs::Findings;
use crate::measurements::Measurements;
use crate::reading::Reading;
use report::Estimate;
use report::chart::{Axis, Bar, BarSeries, Bars, Chart, Figure, Ink, Unit};
use report::html::Table;
use std::fmt::Write;

/// A row of the published tables.
pub struct Function {
    /// As published.
    pub name: &'static str,
    group: &'static str,
    /// Its share, by `COLUMNS`.
    published: [f64; 3],
    /// The functions of today's pyipv8 and their file.
    today: &'static [(&'static str, &'static str)],
}

const CIPHERS: &str = "*/ipv8/messaging/anonymization/crypto.py";
const ADDRESSES: &str = "*/ipv8/messaging/serialization.py";

/// Table I, then Table II.
pub const FUNCTIONS: [Function; 7] = [
    Function {
        name: "encrypt_str",
        group: CRYPTO,
        published: [0.18, 0.28, 0.0],
        today: &[("*encrypt_str", CIPHERS), ("*encrypt_cell", CIPHERS)],
    },
    Function {
        name: "decrypt_str",
        group: CRYPTO,
        published: [0.0, 0.0, 0.15],
        today: &[("*decrypt_str", CIPHERS), ("*decrypt_cell", CIPHERS)],
    },
    Function {
        name: "encode_address",
        group: CRYPTO,
        published: [0.06, 0.04, 0.0],
        today: &[("Address.pack", ADDRESSES), ("IPv4.pack", ADDRESSES)],
    },
    Function {
        name: "decode_address",
        group: CRYPTO,
        published: [0.08, 0.05, 0.05],
        today: &[("Address.unpack", ADDRESSES), ("IPv4.unpack", ADDRESSES)],
    },
    Function {
        name: "crypto_out",
        group: CRYPTO,
        published: [0.12, 0.15, 0.0],
        today: &[("*outgoing_crypto", CIPHERS)],
    },
    Function {
        name: "send_packet",
        group: NETWORKING,
        published: [0.13, 0.10, 0.08],
        today: &[
            ("*.send_packet", "*/ipv8/messaging/anonymization/community.py"),
            ("*.sendto", "*/ipv8/messaging/anonymization/exit_socket.py"),
            ("*.send", "*/ipv8/messaging/interfaces/*/endpoint.py"),
            ("*.send", "*/ipv8/messaging/anonymization/endpoint.py"),
        ],
    },
    Function {
        name: "relay_packet",
        group: NETWORKING,
        published: [0.0, 0.0, 0.11],
        today: &[("*relay_cell", CIPHERS)],
    },
];

/// Names of the functions of a group.
pub fn of_group(group: &str) -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().filter(move |function| function.group == group).map(|function| function.name)
}

/// Entries of a file of rules: a group for each function.
pub fn rules() -> String {
    let mut text = String::new();
    for function in &FUNCTIONS {
        for (pattern, file) in function.today {
            let _ = writeln!(text, "- {{ name: {}, function: \"{pattern}\", file: \"{file}\" }}", function.name);
        }
    }
    text
}

fn with_groups() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.has_groups)
}

pub fn findings(measurements: &Measurements) -> Findings {
    Findings {
        notes: vec![
            "Functions have their published names. Today encode_address and decode_address are the serializer’s ‘Address.pack’ and ‘Address.unpack’, crypto_out is ‘outgoing_crypto’, \
             relay_packet is ‘relay_cell’ without what it calls, and send_packet is the sending of endpoints and exits. A call of the cipher belongs to encrypt_str or \
             decrypt_str. ‘crypto_in’, which today’s exits have, is in no published row."
                .to_owned(),
        ],
        figures: (0..COLUMNS.len()).map(|column| figure(measurements, column)).collect(),
        tables: vec![table(measurements)],
        ..Findings::default()
    }
}

fn share_of(reading: &Reading, column: &Column, name: &str) -> f64 {
    named(reading, column.role, column.hops, name) / tunnels(reading, column.role, column.hops)
}

/// The published bars of one column beside ours.
fn figure(measurements: &Measurements, index: usize) -> Figure {
    let column = &COLUMNS[index];
    let published = BarSeries {
        name: "published".to_owned(),
        ink: Ink::faint(),
        bars: FUNCTIONS
            .iter()
            .map(|function| Bar { value: Some(function.published[index]), ..Bar::default() })
            .collect(),
    };
    let measured = |(ink, variant): (usize, &Variant)| BarSeries {
        name: variant.title.to_owned(),
        ink: Ink::solid(ink),
        bars: FUNCTIONS
            .iter()
            .map(|function| bar(&each(measurements, variant.key, |reading| share_of(reading, column, function.name))))
            .collect(),
    };
    Figure {
        id: format!("onion-profile-functions-{index}"),
        title: format!("The tunnels’ functions: {}", column.title),
        subtitle: "share of the processor time in the tunnels’ code, published and measured".to_owned(),
        caption: "Published: Tables I and II. Measured: means over repetitions with 95 % intervals.".to_owned(),
        chart: Chart::Bars(Bars {
            axis: Axis::new("Share of the tunnels’ code", "share", Unit::Share).from(0.0),
            category_column: "function",
            categories: FUNCTIONS.iter().map(|function| function.name.to_owned()).collect(),
            series: [published].into_iter().chain(with_groups().enumerate().map(measured)).collect(),
            is_stacked: false,
            mark: None,
            reference: None,
        }),
    }
}

/// A share with its interval, in the same decimals whatever its size.
fn cell(shares: &[f64]) -> String {
    match Estimate::of(shares).filter(|found| found.mean.is_finite()) {
        Some(Estimate { mean, error: Some(error), .. }) if error.is_finite() => format!("{mean:.3} ± {error:.3}"),
        Some(found) => format!("{:.3}", found.mean),
        None => "–".to_owned(),
    }
}

/// Tables I and II, with each published number beside ours.
fn table(measurements: &Measurements) -> Table {
    let mut header = words(&["Function"]);
    for column in &COLUMNS {
        header.push(format!("{}: published", column.title));
        header.extend(with_groups().map(|variant| variant.title.to_owned()));
    }
    let row = |name: &str, published: &dyn Fn(usize) -> Option<f64>, of: &dyn Fn(&Reading, &Column) -> f64| {
        let mut row = vec![name.to_owned()];
        for (index, column) in COLUMNS.iter().enumerate() {
            row.push(published(index).map_or_else(|| "–".to_owned(), |share| format!("{share:.2}")));
            row.extend(
                with_groups().map(|variant| cell(&each(measurements, variant.key, |reading| of(reading, column)))),
            );
        }
        row
    };
    let function = |function: &Function| {
        row(function.name, &|index| Some(function.published[index]), &|reading, column| {
            share_of(reading, column, function.name)
        })
    };
    let sum = |name: &str, group: &'static str, published: &dyn Fn(usize) -> Option<f64>| {
        row(name, published, &|reading, column| share(reading, column.role, column.hops, group))
    };
    let (crypto, networking) = FUNCTIONS.split_at(5);
    let mut rows: Vec<Vec<String>> = crypto.iter().map(function).collect();
    rows.push(row("crypto_in", &|_| None, &|reading, column| share_of(reading, column, CRYPTO)));
    rows.push(sum("Table I", CRYPTO, &|index| Some(COLUMNS[index].crypto)));
    rows.extend(networking.iter().map(function));
    rows.push(sum("Table II", NETWORKING, &|index| Some(COLUMNS[index].networking)));
    rows.push(sum("other", OTHER, &|index| Some(1.0 - COLUMNS[index].crypto - COLUMNS[index].networking)));
    Table { title: "Tables I and II by function".to_owned(), header, rows, text_columns: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_functions_add_up_to_the_published_groups() {
        for (index, column) in COLUMNS.iter().enumerate() {
            let sum = |group| -> f64 {
                FUNCTIONS.iter().filter(|one| one.group == group).map(|one| one.published[index]).sum()
            };
            // The published numbers are rounded.
            assert!((sum(CRYPTO) - column.crypto).abs() < 0.011, "{}", column.title);
            assert!((sum(NETWORKING) - column.networking).abs() < 0.011, "{}", column.title);
        }
    }

    #[test]
    fn shares_have_the_same_decimals() {
        assert_eq!(cell(&[0.0001, 0.0003]), "0.000 ± 0.001");
        assert_eq!(cell(&[0.25]), "0.250");
        assert_eq!(cell(&[f64::NAN]), "–");
    }

    #[test]
    fn each_function_has_its_own_entry_in_the_rules() {
        let text = rules();
        assert!(text.lines().all(|line| line.starts_with("- { name: ") && line.ends_with("\" }")), "{text}");
        assert!(text.contains("- { name: crypto_out, function: \"*outgoing_crypto\", file: \"*/ipv8/"), "{text}");
        assert_eq!(of_group(CRYPTO).count(), 5);
    }
}
