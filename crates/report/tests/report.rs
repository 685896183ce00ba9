//! Whole reports, from data directories whose numbers are known.

mod synthetic;

use report::{Group, Request, Written};
use std::fs;
use std::path::{Path, PathBuf};
use synthetic::Network;

/// A folder for one test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn page(written: &Written) -> String {
    fs::read_to_string(&written.page).unwrap()
}

#[test]
fn a_made_up_run_gets_every_section_and_file() {
    let folder = folder("complete");
    let data = folder.join("tiny.data");
    synthetic::write(&data, &Network::tiny(1));
    let written = report::write(&Request { runs: vec![data.clone()], ..Request::default() }).unwrap();
    assert_eq!(written.page, data.join("report/index.html"));
    let page = page(&written);
    assert!(!page.contains("class=\"missing\""), "something is missing");
    for id in ["ttfb-51200", "ttlb-51200", "ttlb-327680", "ttlb-5242880", "goodput", "relay-traffic", "memory", "cpu"] {
        for extension in ["svg", "png", "csv"] {
            assert!(data.join(format!("report/{id}.{extension}")).is_file(), "{id}.{extension}");
        }
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn groups_and_comparisons() {
    let folder = folder("comparison");
    let mut groups = Vec::new();
    for (label, slowness, scheduler) in [("vanilla", 1.35, "Vanilla"), ("kist", 1.0, "KIST")] {
        let mut runs = Vec::new();
        for seed in 1..=4 {
            let data = folder.join(format!("{label}-{seed}.data"));
            synthetic::write(&data, &Network { slowness, scheduler, failing: 0.03, ..Network::tiny(seed) });
            runs.push(data);
        }
        groups.push(Group { label: label.into(), runs });
    }
    let output = Some(folder.join("report"));
    let written = report::write(&Request { groups, output, ..Request::default() }).unwrap();
    assert!(page(&written).contains("Student"));
}
