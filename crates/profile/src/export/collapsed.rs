//! Collapsed stacks, as `flamegraph.pl` and its relatives read them.

use crate::record::Unit;
use crate::tables::{Selection, label};
use std::collections::BTreeMap;

/// Host and program come first.
pub(super) fn write(selection: &Selection<'_>) -> String {
    let profile = selection.profile;
    let clean = |text: &str| text.replace(';', ":").replace('\n', " ");
    let labels: Vec<String> = profile.functions.iter().map(|function| clean(&label(function))).collect();
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for row in &selection.rows {
        let head = match (row.host, row.program) {
            (Some(_), Some(_)) => format!("{};{}", clean(profile.host(row)), clean(profile.program(row))),
            (Some(_), None) => format!("{};(host)", clean(profile.host(row))),
            _ => "(engine)".to_owned(),
        };
        let stack = profile.stacks[row.stack as usize].iter().map(|id| labels[*id as usize].as_str());
        let line: Vec<&str> = std::iter::once(head.as_str()).chain(stack).collect();
        *lines.entry(line.join(";")).or_default() += row.weight_ns;
    }
    let shown = |weight: u64| match profile.about.unit {
        Unit::Nanoseconds => (weight + 500) / 1000,
        Unit::Instructions => weight,
    };
    lines.into_iter().map(|(stack, weight)| format!("{stack} {}\n", shown(weight))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_stack() {
        let mut profile = crate::tables::tests::profile();
        profile.rows.iter_mut().for_each(|row| row.weight_ns *= 1000);
        let text = write(&Selection::new(&profile, |row| row.host != Some(1)));
        profile.about.unit = Unit::Instructions;
        let counted = write(&Selection::new(&profile, |row| row.host.is_none()));
        assert_eq!(counted, "(engine) 100000\n", "instructions are told as they are");
        assert_eq!(text, "(engine) 100\none;prog;main (prog);a (prog) 600\none;prog;main (prog);b (libb.so) 200\n");
    }
}
