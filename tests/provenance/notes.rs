//! The program's static probes, as tracers of the machine (bpftrace, perf) find them.

use crate::common::{capture, find_program, leave_out};
use probes::tables::TABLES;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Tables that no host fills while it runs.
const WITHOUT: [&str; 2] = ["hosts", "costs"];

#[test]
fn readelf_lists_a_probe_for_each_table_with_its_arguments() {
    if !probes::ENABLED {
        println!("left out: this build has no probes");
        return;
    }
    let Some(readelf) = find_program("readelf") else { return leave_out("readelf (binutils)") };
    let output = capture(Command::new(readelf).arg("-n").arg(env!("CARGO_BIN_EXE_gnomon")));
    assert!(output.status.success(), "{}", output.stderr);
    let mut found: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut lines = output.stdout.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != "Provider: gnomon" {
            continue;
        }
        let name = lines.next().and_then(|line| line.strip_prefix("Name: ")).expect("a name");
        lines.next().filter(|line| line.starts_with("Location: ")).expect("where it is");
        let arguments = lines.next().and_then(|line| line.strip_prefix("Arguments:")).expect("its arguments");
        found.entry(name).or_default().insert(arguments.split_whitespace().count());
    }
    let tables = TABLES.iter().filter(|table| !WITHOUT.contains(&table.name));
    let right: BTreeMap<&str, BTreeSet<usize>> =
        tables.map(|table| (table.name, BTreeSet::from([table.arguments.len()]))).collect();
    assert_eq!(found, right, "{}", output.stdout);
}
