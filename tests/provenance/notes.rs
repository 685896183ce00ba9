//! The program's static probes, as tracers of the machine (bpftrace, perf) find them.

use crate::common::{capture, find_program, folder, leave_out};
use crate::experiment;
use crate::table::Table;
use probes::tables::TABLES;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// The table that no host fills while it runs.
const WITHOUT: &str = "hosts";
/// Tables whose rows are sums of what probes tell.
const SUMS: [&str; 2] = ["layers", "links"];

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
    let tables = TABLES.iter().filter(|table| table.name != WITHOUT);
    let right: BTreeMap<&str, BTreeSet<usize>> =
        tables.map(|table| (table.name, BTreeSet::from([table.arguments.len()]))).collect();
    assert_eq!(found, right, "{}", output.stdout);
}

#[test]
fn bpftrace_counts_as_many_rows_as_the_record_has() {
    if !probes::ENABLED {
        println!("left out: this build has no probes");
        return;
    }
    let Some(bpftrace) = find_program("bpftrace") else { return leave_out("bpftrace") };
    let folder = folder("provenance-bpftrace");
    let trace = |arguments: &[&str]| capture(Command::new(&bpftrace).current_dir(&folder).args(arguments));
    let allowed = trace(&["-e", "BEGIN { exit(); }"]);
    if !allowed.status.success() {
        println!("left out: bpftrace may not run here: {}", allowed.stderr);
        return;
    }
    fs::write(folder.join("network.yaml"), experiment()).unwrap();
    // Without the blanks that the program's own path may have.
    symlink(env!("CARGO_BIN_EXE_gnomon"), folder.join("gnomon")).unwrap();
    let tables = || TABLES.iter().filter(|table| table.name != WITHOUT && !SUMS.contains(&table.name));
    let count = |name: &str| format!("usdt:./gnomon:gnomon:{name} {{ @{name} = count(); }}\n");
    fs::write(folder.join("count.bt"), tables().map(|table| count(table.name)).collect::<String>()).unwrap();
    let counted = trace(&["count.bt", "-c", "./gnomon run --provenance all -d run.data network.yaml"]);
    let seen: BTreeMap<&str, usize> = counted
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix('@')?.split_once(": "))
        .map(|(name, count)| (name, count.parse().expect("a count")))
        .collect();
    assert!(seen.get("sent").is_some_and(|count| *count > 2000), "{}{}", counted.stdout, counted.stderr);
    for table in tables() {
        let rows = Table::read(&folder.join("run.data"), table.name).rows.len();
        assert_eq!(seen.get(table.name).copied().unwrap_or(0), rows, "{}", table.name);
    }
}
