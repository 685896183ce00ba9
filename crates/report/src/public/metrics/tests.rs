//! Each file of Tor Metrics in small, and every mistake in one.

use super::*;

/// As Tor Metrics writes before each table.
const COMMENTS: &str =
    "#\n# The Tor Project\n#\n# URL: https://metrics.torproject.org/FILE?start=2026-10-01&end=2026-10-31\n#\n";

fn read_text(name: &str, text: &str) -> Result<BTreeMap<Quantity, Distribution>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    read(&path)
}

fn quartiles(all: &BTreeMap<Quantity, Distribution>, quantity: Quantity) -> [f64; 3] {
    all[&quantity].quartiles().map(|value| (value * 1e6).round() / 1e6)
}

#[test]
fn downloads_are_read_by_size_without_those_of_onion_services() {
    let text = format!(
        "{COMMENTS}date,filesize,source,server,q1,md,q3\n2026-10-01,51200,op-a,public,0.5,0.8,1.2\n2026-10-02,51200,op-a,public,0.7,1.0,1.6\n\
         2026-10-02,51200,op-b,public,0.6,0.9,1.3\n2026-10-02,51200,op-b,onion,9,9.5,9.9\n2026-10-02,5242880,op-a,public,4,6,9\n\
         2026-10-03,5242880,op-a,public,,,\n"
    );
    let all = read_text("torperf.csv", &text).unwrap();
    assert_eq!(quartiles(&all, Quantity::Download(51_200)), [0.6, 0.9, 1.3]);
    assert_eq!(quartiles(&all, Quantity::Download(5 << 20)), [4.0, 6.0, 9.0]);
    assert_eq!(all.len(), 2);
    let small = &all[&Quantity::Download(51_200)];
    assert_eq!(small.label, "public Tor, 2026-10");
    assert!(small.about.contains("3 rows") && small.about.contains("read as seconds"), "{}", small.about);
}

#[test]
fn downloads_in_milliseconds_are_told_by_their_size_and_totals_win_over_vantage_points() {
    let text = "date,filesize,source,server,q1,md,q3,timeouts,failures,requests\n2025-12-31,51200,,public,500,800,1200,3,1,200\n\
                2026-01-01,51200,,public,500,800,1200,0,2,200\n2026-01-01,51200,op-a,public,1,2,3,200,0,200\n";
    let all = read_text("onionperf.csv", text).unwrap();
    assert_eq!(quartiles(&all, Quantity::Download(51_200)), [0.5, 0.8, 1.2]);
    // Two days of 2 % and 1 %.
    assert_eq!(quartiles(&all, Quantity::Failures), [0.0125, 0.015, 0.0175]);
    assert_eq!(all[&Quantity::Failures].label, "public Tor, 2025-12 to 2026-01");
}

#[test]
fn latencies_are_in_milliseconds_and_throughput_in_kilobits() {
    let rows = "date,source,server,low,q1,md,q3,high\n2026-10-01,op-a,public,50,300,400,600,1000\n";
    let all = read_text("onionperf-latencies.csv", rows).unwrap();
    assert_eq!(quartiles(&all, Quantity::RoundTrip), [0.3, 0.4, 0.6]);
    let told_by_comment = COMMENTS.replace("FILE", "onionperf-throughput.csv") + rows;
    let all = read_text("x.csv", &told_by_comment).unwrap();
    assert_eq!(quartiles(&all, Quantity::Goodput), [3e5, 4e5, 6e5]);
    let error = read_text("x.csv", rows).unwrap_err().to_string();
    assert!(error.contains("call the file onionperf-latencies.csv or onionperf-throughput.csv"), "{error}");
}

#[test]
fn build_times_are_those_of_three_hops_together() {
    let text = "date,source,position,q1,md,q3\n2026-10-01,op-a,1,100,200,300\n2026-10-01,op-a,2,200,300,400\n2026-10-01,op-a,3,300,400,600\n";
    assert_eq!(quartiles(&read_text("b.csv", text).unwrap(), Quantity::CircuitBuild), [0.6, 0.9, 1.3]);
    let two: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert!(read_text("b.csv", &two).unwrap_err().to_string().contains("no row has the position 3"));
}

#[test]
fn failures_as_shares_and_bandwidth_by_flags_are_read() {
    let text = "date,source,server,timeouts,failures\n2026-10-01,op-a,public,0.01,0.01\n2026-10-02,op-a,public,0,0.04\n2026-10-02,op-b,public,0,0\n";
    assert_eq!(quartiles(&read_text("torperf-failures.csv", text).unwrap(), Quantity::Failures), [0.02, 0.02, 0.02]);
    let text = "date,have_guard_flag,have_exit_flag,advbw,bwhist\n2026-10-01,t,t,100,40\n2026-10-01,f,f,300,60\n2026-10-02,t,t,100,45\n\
                2026-10-03,t,t,,45\n";
    assert_eq!(quartiles(&read_text("f.csv", text).unwrap(), Quantity::Utilisation), [0.3, 0.35, 0.4]);
    let year = "date,advbw,bwhist\n2025-01-01,100,40\n2025-12-31,100,50\n";
    assert_eq!(read_text("bandwidth.csv", year).unwrap()[&Quantity::Utilisation].label, "public Tor, 2025");
}

#[test]
fn mistakes_are_told_with_file_line_and_remedy() {
    let refused = |text: &str| {
        let error = read_text("torperf.csv", text).unwrap_err();
        assert!(error.is_bad_input());
        error.to_string()
    };
    let header = "# comment\ndate,filesize,source,server,q1,md,q3\n";
    for (row, what) in [
        ("2026-10-01,51200,a,public,1,x,3", "'x' is no number for the column md"),
        ("2026-10-01,51200,a,public,-1,2,3", "'-1' is no number for the column q1"),
        ("01.10.2026,51200,a,public,1,2,3", "'01.10.2026' is no date"),
        ("2026-10-01,50kb,a,public,1,2,3", "'50kb' is no size in bytes"),
        ("2026-10-01,51200,a,public,3,2,1", "do not ascend"),
    ] {
        let text = refused(&format!("{header}2026-10-01,51200,a,public,1,2,3\n{row}\n"));
        assert!(text.contains("torperf.csv:4: ") && text.contains(what) && text.contains("; fetch"), "{text}");
    }
    assert!(
        refused("a,b\n1,2\n")
            .contains("the columns 'a,b' are those of no file that is known here; known are torperf.csv")
    );
    assert!(refused("").contains("known are torperf.csv"));
    assert!(refused("<html>\n<p>Not found</p>\n").contains("known are torperf.csv"));
    assert!(
        refused(&format!("{header}2026-10-01,51200,a,onion,1,2,3\n"))
            .contains("no row with values of the public internet")
    );
    let more = "date,source,server,timeouts,failures,requests\n2026-10-01,a,public,3,4,5\n";
    assert!(refused(more).contains(":2: 3 timeouts and 4 failures are more than all 5 requests"));
    assert!(read(Path::new("/nowhere/torperf.csv")).unwrap_err().to_string().contains("/nowhere/torperf.csv"));
}
