//! The public network's values beside those of a run.

mod synthetic;

use report::{Request, Written};
use std::fs;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-public").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The texts of a row's cells behind the first.
fn row(page: &str, name: &str) -> Vec<String> {
    let place = page.find(&format!(">{name}</th>")).unwrap_or_else(|| panic!("no row '{name}'"));
    let rest = page[place..].split_once("</th>").unwrap().1.split("</tr>").next().unwrap();
    let cells = rest.split("<td").skip(1).map(|cell| cell.split_once('>').unwrap().1.split("</td>").next().unwrap());
    cells.map(|cell| cell.replace('\u{a0}', " ")).collect()
}

fn page(written: &Written) -> String {
    fs::read_to_string(written.page.as_ref().unwrap()).unwrap()
}

#[test]
fn a_network_stands_beside_the_public_one() {
    let folder = folder("built-in");
    let data = folder.join("run.data");
    synthetic::write(&data, &synthetic::Network::tiny(1));
    let page = page(&report::write(&Request { runs: vec![data.clone()], ..Request::default() }).unwrap());
    let cells = row(&page, "Time to last byte, 5 MiB");
    assert_eq!(cells[..4], ["2019", "7.43 s", "11.1 s", "15.8 s"]);
    // The same median as in the summary, with a verdict that fits it.
    let median = row(&page, "Time to last byte, 5 MiB, performance, median");
    let value: f64 = median[0].trim_end_matches(" s").parse().unwrap();
    let verdict = if value < 7.43 {
        "below"
    } else if value > 15.76 {
        "above"
    } else {
        "within"
    };
    assert_eq!(cells[4], format!("{}, {verdict}", median[0]));
    for name in ["Round trip of a circuit", "Circuit build time", "Failed downloads", "Relay capacity in use"] {
        assert!(page.contains(&format!(">{name}</th>")), "{name}");
    }
    // The quartiles are a line of the figures that show the same, and of no other.
    let figure = |name: &str| fs::read_to_string(data.join("report").join(name)).unwrap();
    let line = "public Tor 2019: quartiles";
    assert!(figure("ttlb-51200.csv").contains(line) && figure("circuit-build-time.csv").contains(line));
    assert!(!figure("ttfb-51200.csv").contains(line) && !figure("ttlb-327680.csv").contains(line));
}

#[test]
fn files_of_tor_metrics_take_the_place_of_what_is_built_in() {
    let folder = folder("files");
    let data = folder.join("run.data");
    synthetic::write(&data, &synthetic::Network::tiny(2));
    let metrics = folder.join("torperf.csv");
    fs::write(&metrics, "date,filesize,source,server,q1,md,q3\n2024-05-01,5242880,,public,1,2000,900000\n").unwrap();
    let request = Request { runs: vec![data], public: vec![metrics.clone()], ..Request::default() };
    let told = page(&report::write(&request).unwrap());
    let cells = row(&told, "Time to last byte, 5 MiB");
    assert_eq!(cells[..4], ["2024-05-01", "1.00 ms", "2.00 s", "15.0 min"]);
    assert!(cells[4].ends_with(", within"));
    assert_eq!(row(&told, "Time to last byte, 50 KiB")[0], "2019");
    fs::write(&metrics, "date,filesize,source,server,q1,md,q3\n2024-05-01,5242880,,public,1,2\n").unwrap();
    let error = report::write(&request).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("torperf.csv: line 2: 6 fields"), "{error}");
    fs::remove_file(&metrics).unwrap();
    assert!(report::write(&request).unwrap_err().to_string().contains("cannot read"));
}
