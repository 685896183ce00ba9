//! What `gnomon export` writes has the form that viewers read, and all that it says is there: of a generated record and of a real run.

use crate::answers::{answer, runs};
use crate::common::folder;
use crate::record;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The fields of a protobuf message, by number: whole numbers, or bytes.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let (first, rest) = bytes.split_first().unwrap();
            *bytes = rest;
            value |= u64::from(first & 0x7f) << (7 * place);
            if *first < 0x80 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => {
                let (now, rest) = bytes.split_at(8);
                bytes = rest;
                Field::Number(u64::from_le_bytes(now.try_into().unwrap()))
            }
            2 => {
                let length = varint(&mut bytes) as usize;
                let (now, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(now)
            }
            other => panic!("wire type {other}"),
        };
        found.push((tag >> 3, field));
    }
    found
}

fn numbers(fields: &[(u64, Field)], number: u64) -> Vec<u64> {
    let of = |(field, value): &(u64, Field)| match value {
        Field::Number(value) if *field == number => Some(*value),
        _ => None,
    };
    fields.iter().filter_map(of).collect()
}

/// Has Perfetto's file written, and looks at all of it.
fn perfetto(run: &Path, more: &[&str]) {
    let file = run.join("perfetto");
    let told = export(run, "--perfetto", &file, more);
    let bytes = std::fs::read(&file).unwrap();
    let (mut open, mut tracks, mut slices, mut arrows, mut last) =
        (BTreeMap::new(), BTreeSet::new(), 0, BTreeMap::new(), 0);
    for (number, packet) in fields(&bytes) {
        let Field::Bytes(packet) = packet else { panic!("a trace is of packets") };
        assert_eq!(number, 1);
        let packet = fields(packet);
        for (number, message) in &packet {
            let Field::Bytes(message) = message else { continue };
            let message = fields(message);
            if *number == 60 {
                tracks.insert(numbers(&message, 1)[0]);
                continue;
            }
            let at = numbers(&packet, 8)[0];
            assert!(at >= last, "events come in order");
            last = at;
            let track = numbers(&message, 11)[0];
            assert!(tracks.contains(&track));
            let depth: &mut i32 = open.entry(track).or_default();
            match numbers(&message, 9)[0] {
                1 => (*depth, slices) = (*depth + 1, slices + 1),
                2 => *depth -= 1,
                _ => {}
            }
            assert!((0..=1).contains(depth), "slices of a track do not overlap");
            numbers(&message, 47).into_iter().for_each(|flow| *arrows.entry(flow).or_insert(0) += 1);
        }
    }
    let causes: Vec<i32> = arrows.iter().filter(|(flow, _)| **flow >> 63 == 1).map(|(_, ends)| *ends).collect();
    assert!(open.values().all(|depth| *depth == 0), "each slice has an end");
    assert!(causes.len() > 100, "only {} arrows: {told}", causes.len());
    assert!(causes.iter().all(|ends| *ends == 2), "each arrow has two ends");
    assert!(told.contains(&format!("{slices} stays in layers, {} causes", causes.len())), "{told}");
}

/// Has OpenTelemetry's file written, and looks at all of it.
fn opentelemetry(run: &Path, more: &[&str]) {
    let file = run.join("spans.json");
    let told = export(run, "--otlp", &file, more);
    let request: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let mut spans = Vec::new();
    for host in request["resourceSpans"].as_array().unwrap() {
        assert_eq!(host["resource"]["attributes"][0]["key"], "service.name");
        spans.extend(host["scopeSpans"][0]["spans"].as_array().unwrap());
    }
    let of = |span: &Value| (span["traceId"].as_str().unwrap().to_owned(), span["spanId"].as_str().unwrap().to_owned());
    let ids: BTreeSet<_> = spans.iter().map(|span| of(span)).collect();
    assert_eq!(ids.len(), spans.len());
    let (mut children, mut links) = (0, 0);
    for span in spans {
        assert_eq!((of(span).0.len(), of(span).1.len()), (32, 16));
        let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"));
        if let Some(parent) = span["parentSpanId"].as_str() {
            children += 1;
            assert!(ids.contains(&(of(span).0, parent.to_owned())));
        }
        for link in span["links"].as_array().into_iter().flatten() {
            links += 1;
            assert!(ids.contains(&of(link)));
        }
    }
    assert!(children > 1000 && links > 100, "{children} children, {links} links: {told}");
    assert!(told.contains(&format!(", {links} causes")), "{told}");
}

fn export(run: &Path, format: &str, file: &Path, more: &[&str]) -> String {
    let [run, file] = [run, file].map(|path| path.to_str().unwrap());
    answer(&[&["export", run, format, file], more].concat())
}

fn generated() -> PathBuf {
    runs().path().join("all")
}

#[test]
fn perfetto_gets_a_slice_for_each_stay_and_an_arrow_for_each_cause() {
    perfetto(&generated(), &["--until", "5 s"]);
}

#[test]
fn opentelemetry_gets_spans_whose_parents_and_links_exist() {
    opentelemetry(&generated(), &["--until", "5 s"]);
}

#[test]
fn a_real_run_is_exported_as_well() {
    let data = record(&folder("provenance-exports"), "run", "all", "2");
    perfetto(&data, &[]);
    opentelemetry(&data, &[]);
}
