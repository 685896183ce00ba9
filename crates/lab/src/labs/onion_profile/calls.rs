//! How often each published function is called for a packet, counted by the interpreter's own profiler.

use super::functions::FUNCTIONS;
use super::{
    ENDED, EXIT, HOPS, Host, PEER, RELAY, RELAYS, RUNNING, SEEDER, SEEDER_START_S, VARIANTS, Variant, claim, each,
    passages, shown_of, too_few, words,
};
use crate::case::{Case, Experiment, Program, Setting, Size};
use crate::claim::Bound;
use crate::experiment;
use crate::labs::Findings;
use crate::measurements::Measurements;
use crate::reading::Reading;
use report::chart::Unit;
use report::html::Table;

const CALLS: Program = Program { file: "ipv8_calls.py", text: include_str!("../../../programs/ipv8_calls.py") };
/// Until nobody looks for others any more, in seconds: their introductions convert addresses too.
const WALKING_S: u32 = 30;

fn packets(setting: &Setting) -> u32 {
    if setting.size == Size::Smallest { 20 } else { 100 }
}

fn key(variant: &Variant) -> String {
    format!("{}-calls", variant.key)
}

fn with_groups() -> impl Iterator<Item = &'static Variant> {
    VARIANTS.iter().filter(|variant| variant.has_groups)
}

fn text_of(variant: &Variant, packets: u32) -> String {
    let about = format!("calls of {} between a seeder and a sink", variant.title);
    let lengths = HOPS.map(|hops| format!("\"{hops}\"")).join(", ");
    let mut text = experiment::beginning(&about, 300, "10 ms");
    let environment = format!("{}, WALKING: \"{WALKING_S}\"", variant.environment);
    let mut host = |name: &str, program: &Program, arguments: &str, start_s: u32, state: &str| {
        Host { name, program, arguments, start_s, environment: &environment, options: "", state }.write(&mut text);
    };
    host("tracker", &PEER, "tracker", 1, RUNNING);
    (1..=RELAYS).for_each(|number| host(&format!("relay{number}"), &CALLS, RELAY, 2, RUNNING));
    host("exit", &CALLS, EXIT, 2, RUNNING);
    let arrivals = HOPS.len() as u32 * (packets + 1);
    host("sink", &PEER, &format!("sink, \"{arrivals}\""), 2, ENDED);
    host(SEEDER, &CALLS, &format!("{SEEDER}, \"{packets}\", {lengths}"), SEEDER_START_S, ENDED);
    text
}

pub fn cases(setting: &Setting) -> Vec<Case> {
    let packets = packets(setting);
    let case = |variant: &'static Variant| Case {
        key: key(variant),
        factors: vec![("program", variant.title.to_owned()), ("packets", packets.to_string())],
        experiment: Experiment::Printed {
            experiment: Box::new(Experiment::Python {
                packages: variant.packages,
                programs: &[PEER, CALLS],
                text: text_of(variant, packets),
            }),
            host: SEEDER,
        },
        options: Vec::new(),
        memory_bytes: 1 << 30,
    };
    with_groups().map(case).collect()
}

/// Calls for a packet in each host of a role that it passes.
fn calls(reading: &Reading, role: &str, hops: u32, function: &str) -> f64 {
    let fits = |row: &&serde_json::Value| row["role"] == role && row["hops"] == hops && row["function"] == function;
    let row = reading.printed.iter().find(fits);
    row.and_then(|row| row["calls"].as_f64()).unwrap_or(f64::NAN) / passages(role, hops)
}

/// Of all functions together.
fn all_calls(reading: &Reading, role: &str, hops: u32) -> f64 {
    FUNCTIONS.iter().map(|function| calls(reading, role, hops, function.name)).sum()
}

pub fn findings(setting: &Setting, measurements: &Measurements) -> Findings {
    let mut judgements = Vec::new();
    for variant in with_groups() {
        for (role, from) in [(RELAY, 2), (EXIT, 1)] {
            let claim = claim(
                format!(
                    "{}: the {role}’s calls for a packet do not change with the hops (3 over {from})",
                    variant.title
                ),
                "no difference (of time)",
                "Figures 5 and 6",
                Bound::Between(0.99, 1.01),
                Unit::Fraction,
            );
            let ratio = |reading: &Reading| all_calls(reading, role, 3) / all_calls(reading, role, from);
            judgements.push(claim.judge(&each(measurements, &key(variant), ratio), too_few(setting)));
        }
    }
    Findings {
        notes: vec![format!(
            "Calls are those of {} packets through a circuit of each length, counted by cProfile in each interpreter. The publication’s profiler counts calls \
             too, but it prints no counts.",
            packets(setting)
        )],
        judgements,
        tables: vec![table(measurements)],
        ..Findings::default()
    }
}

fn table(measurements: &Measurements) -> Table {
    let places: Vec<(&str, u32)> =
        HOPS.iter().map(|hops| (SEEDER, *hops)).chain([(RELAY, 2), (RELAY, 3), (EXIT, 1), (EXIT, 3)]).collect();
    let mut rows = Vec::new();
    for variant in with_groups() {
        for function in &FUNCTIONS {
            let at = |(role, hops): &(&str, u32)| {
                shown_of(measurements, Unit::Count, &key(variant), |reading| calls(reading, role, *hops, function.name))
            };
            let names = [variant.title.to_owned(), function.name.to_owned()];
            rows.push(names.into_iter().chain(places.iter().map(at)).collect());
        }
    }
    let titles = places.iter().map(|(role, hops)| format!("{role}, {hops}"));
    Table {
        title: "Calls for a packet, in each host that it passes, by role and hops".to_owned(),
        header: words(&["Program", "Function"]).into_iter().chain(titles).collect(),
        rows,
        text_columns: 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_relays_are_those_of_one_relay() {
        let rows = serde_json::json!([
            {"role": RELAY, "hops": 3, "function": "decrypt_str", "calls": 2.0},
            {"role": SEEDER, "hops": 3, "function": "encrypt_str", "calls": 3.0},
        ]);
        let reading = Reading { printed: rows.as_array().unwrap().clone(), ..Reading::default() };
        assert_eq!(calls(&reading, RELAY, 3, "decrypt_str"), 1.0);
        assert_eq!(calls(&reading, SEEDER, 3, "encrypt_str"), 3.0);
        assert!(calls(&reading, EXIT, 3, "decrypt_str").is_nan());
    }

    #[test]
    fn all_hosts_of_circuits_are_counted() {
        let text = text_of(&VARIANTS[0], 10);
        assert_eq!(text.matches(CALLS.file).count(), 6);
        assert!(text.contains("sink, \"44\"") && text.contains("seeder, \"10\", \"0\", \"1\", \"2\", \"3\""), "{text}");
    }
}
