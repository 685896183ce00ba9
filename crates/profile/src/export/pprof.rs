//! pprof's protocol buffer (`profile.proto` of github.com/google/pprof), not compressed.

use crate::record::Unit;
use crate::tables::{Selection, label};
use base::map::FastMap;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    /// The innermost first.
    #[prost(uint64, repeated, tag = "1")]
    locations: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    values: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "5")]
    file: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping: u64,
    #[prost(message, repeated, tag = "4")]
    lines: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    file: i64,
    #[prost(int64, tag = "5")]
    start_line: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_types: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mappings: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    locations: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    functions: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    texts: Vec<String>,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

/// Texts by number; the first is empty.
struct Texts(Vec<String>, FastMap<String, i64>);

impl Texts {
    fn id(&mut self, text: &str) -> i64 {
        if let Some(id) = self.1.get(text) {
            return *id;
        }
        let id = self.0.len() as i64;
        self.0.push(text.to_owned());
        self.1.insert(text.to_owned(), id);
        id
    }
}

/// Each function is one location: its name is that of our tables.
pub(super) fn write(selection: &Selection<'_>) -> Vec<u8> {
    let profile = selection.profile;
    let mut texts = Texts(vec![String::new()], [(String::new(), 0)].into_iter().collect());
    let (kind, unit, period) = match profile.about.unit {
        Unit::Nanoseconds => ("cpu", "nanoseconds", (1e9 / profile.about.rate.max(1.0)) as i64),
        Unit::Instructions => ("instructions", "count", 1),
    };
    let cpu = ValueType { kind: texts.id(kind), unit: texts.id(unit) };
    let count = ValueType { kind: texts.id("samples"), unit: texts.id("count") };
    let mut modules: Vec<&str> = profile.functions.iter().map(|function| function.module.as_str()).collect();
    modules.sort_unstable();
    modules.dedup();
    let mappings = modules.iter().enumerate().map(|(index, module)| Mapping {
        id: index as u64 + 1,
        file: texts.id(module),
        has_functions: true,
    });
    let mappings = mappings.collect();
    let (mut functions, mut locations) = (Vec::new(), Vec::new());
    for (index, function) in profile.functions.iter().enumerate() {
        let id = index as u64 + 1;
        let name = texts.id(&label(function));
        let (file, start_line) = (texts.id(&function.file), function.line.into());
        functions.push(Function { id, name, system_name: name, file, start_line });
        let mapping = modules.binary_search(&function.module.as_str()).map_or(0, |at| at as u64 + 1);
        locations.push(Location { id, mapping, lines: vec![Line { function: id, line: start_line }] });
    }
    let (host, program, thread, time) =
        (texts.id("host"), texts.id("program"), texts.id("thread"), texts.id("time_ns"));
    let samples = selection.rows.iter().map(|row| {
        let text = |key, text| Label { key, text, number: 0 };
        let number = |key, number| Label { key, text: 0, number };
        let labels = vec![
            text(host, texts.id(profile.host(row))),
            text(program, texts.id(profile.program(row))),
            number(thread, row.thread.map_or(0, i64::from)),
            number(time, row.time_ns as i64),
        ];
        Sample {
            locations: profile.stacks[row.stack as usize].iter().rev().map(|id| u64::from(*id) + 1).collect(),
            values: vec![1, row.weight_ns as i64],
            labels: labels.into_iter().filter(|label| label.text != 0 || label.number != 0).collect(),
        }
    });
    let samples = samples.collect();
    let pprof = Pprof {
        sample_types: vec![count, cpu.clone()],
        samples,
        mappings,
        locations,
        functions,
        period_type: Some(cpu.clone()),
        period,
        default_sample_type: cpu.kind,
        texts: texts.0,
    };
    pprof.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_has_all_samples_with_their_functions() {
        let profile = crate::tables::tests::profile();
        let bytes = write(&Selection::new(&profile, |_| true));
        let read = Pprof::decode(&bytes[..]).unwrap();
        assert_eq!(read.samples.len(), profile.rows.len());
        let name = |location: u64| {
            let function = read.locations[location as usize - 1].lines[0].function;
            read.texts[read.functions[function as usize - 1].name as usize].as_str()
        };
        let first: Vec<&str> = read.samples[0].locations.iter().map(|location| name(*location)).collect();
        assert_eq!((first, read.samples[0].values.clone()), (vec!["a (prog)", "main (prog)"], vec![1, 600]));
        let weights: i64 = read.samples.iter().map(|sample| sample.values[1]).sum();
        assert_eq!(weights as u64, profile.weight_ns());
        assert_eq!(read.texts[0], "");
    }
}
