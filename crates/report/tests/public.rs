//! Reports beside what was measured of the public network.

mod synthetic;

use report::{Group, PublicSource, Request, Since};
use std::fs;
use std::path::{Path, PathBuf};
use synthetic::Network;

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report-public").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A network of one relay and one measuring client, of 600 s, of which all downloads of 50 KiB take as long as `last_bytes` say.
fn network(folder: &Path, seed: u32, last_bytes: &[f64]) {
    let config = format!("general:\n  stop_time: 10 min\n  seed: {seed}\nhosts: {{}}\n");
    let stats = format!("{{\"gnomon\":{{\"seed\":{seed},\"simulated_ns\":600000000000,\"wall_ns\":60000000000}}}}");
    fs::create_dir_all(folder.join("hosts/client1")).unwrap();
    fs::create_dir_all(folder.join("hosts/relay1guard")).unwrap();
    fs::write(folder.join("processed-config.yaml"), config).unwrap();
    fs::write(folder.join("sim-stats.json"), stats).unwrap();
    let lines = last_bytes.iter().map(|last| {
        format!(
            "{{\"kind\":\"transfer\",\"id\":1,\"behaviour\":\"performance\",\"server\":\"s:80\",\"direction\":\"download\",\"bytes\":51200,\
             \"received\":51200,\"sent\":100,\"start\":946684900,\"connect\":0.001,\"socks\":0.1,\"request\":0.25,\"first_byte\":{},\
             \"tenths\":[{last}],\"last_byte\":{last},\"verified\":true,\"error\":null}}\n",
            0.25 + last / 4.0
        )
    });
    fs::write(folder.join("hosts/client1/gnomon-traffic.1000.stdout"), lines.collect::<String>()).unwrap();
}

/// The cells of a row of the section on the public network.
fn row(page: &str, name: &str) -> Vec<String> {
    let section =
        page.split("<section id=\"public\">").nth(1).expect("the section").split("</section>").next().unwrap();
    let place = section.find(&format!(">{name}</th>")).unwrap_or_else(|| panic!("no row '{name}'"));
    let rest = &section[place..].split_once("</th>").unwrap().1;
    let cells = rest.split("</tr>").next().unwrap().split("<td").skip(1);
    cells.map(|cell| cell.split_once('>').unwrap().1.split("</td>").next().unwrap().replace('\u{a0}', " ")).collect()
}

fn page_of(request: &Request) -> String {
    fs::read_to_string(report::write(request).unwrap().page.unwrap()).unwrap()
}

#[test]
fn known_downloads_are_judged_by_the_built_in_quartiles() {
    let folder = folder("built-in");
    let (data, output) = (folder.join("run.data"), folder.join("report"));
    network(&data, 1, &[1.0, 1.4, 1.8]);
    let request = Request {
        runs: vec![data],
        output: Some(output.clone()),
        public: vec![PublicSource::BuiltIn],
        ..Request::default()
    };
    let page = page_of(&request);
    let cells = row(&page, "Time to last byte, 50 KiB, performance");
    assert_eq!(cells, ["within the public quartiles", "1.40 s (1.20 s to 1.60 s)", "1.23 s (0.890 s to 1.80 s)"]);
    assert!(page.contains("<th scope=\"col\" class=\"n\">Public Tor, 2019</th>"));
    // A quarter of the last byte's time.
    assert_eq!(row(&page, "Circuit round trip")[..2], ["within the public quartiles", "0.350 s (0.300 s to 0.400 s)"]);
    assert_eq!(row(&page, "Failed transfers of measuring clients")[..2], ["below the public quartiles", "0 %"]);
    assert!(!page.contains("Time to first byte, 50 KiB, performance</th>"), "nothing of the kind was measured");
    assert!(page.contains("Figures beside the public quartiles</th><td>2 within, 1 below</td>"));
    // The figure has the band, the median and the quantiles, and its data have them too.
    let svg = fs::read_to_string(output.join("ttlb-51200.svg")).unwrap();
    assert!(svg.contains("class=\"f p\"") && svg.contains(">public Tor, 2019 (quartiles)</text>"));
    let csv = fs::read_to_string(output.join("ttlb-51200.csv")).unwrap();
    for line in
        ["\"public Tor, 2019\",0.89,0.25\n", "\"public Tor, 2019\",1.23,0.5\n", "\"public Tor, 2019\",9.814,0.99\n"]
    {
        assert!(csv.contains(line), "{csv}");
    }
    assert!(!fs::read_to_string(output.join("ttfb-51200.svg")).unwrap().contains("class=\"f p\""));
    assert!(fs::read_to_string(output.join("round-trip.svg")).unwrap().contains("class=\"f p\""));
    let table = fs::read_to_string(output.join("tables/public.csv")).unwrap();
    let expected = "run,\"Time to last byte, 50 KiB, performance\",1.4,,1.2,1.6,0.89,1.23,1.8,\"public Tor, 2019\",within the public quartiles\n";
    assert!(table.contains(expected), "{table}");
}

#[test]
fn times_from_the_request_are_compared_with_round_trips() {
    let folder = folder("request");
    let data = folder.join("run.data");
    network(&data, 1, &[4.0]);
    let request = Request {
        runs: vec![data],
        output: Some(folder.join("report")),
        since: Since::Request,
        public: vec![PublicSource::BuiltIn],
        ..Request::default()
    };
    let page = page_of(&request);
    assert_eq!(row(&page, "Time to first byte, 50 KiB, performance")[0], "above the public quartiles");
    assert!(!page.contains("Time to last byte, 50 KiB, performance</th>"));
    let figure = |id: &str| fs::read_to_string(folder.join("report").join(id)).unwrap().contains("class=\"f p\"");
    assert!(figure("ttfb-51200.svg") && !figure("ttlb-51200.svg"));
}

#[test]
fn files_of_tor_metrics_take_the_place_of_the_sample() {
    let folder = folder("files");
    let runs: Vec<PathBuf> = (1..=3).map(|seed| folder.join(format!("s{seed}.data"))).collect();
    for (seed, data) in (1..).zip(&runs) {
        network(data, seed, &[f64::from(seed)]);
    }
    let (downloads, failures) = (folder.join("torperf.csv"), folder.join("torperf-failures.csv"));
    fs::write(&downloads, "date,filesize,source,server,q1,md,q3\n2026-10-01,51200,op-a,public,0.3,0.5,1\n").unwrap();
    fs::write(&failures, "date,source,server,timeouts,failures\n2026-10-01,op-a,public,0,0\n").unwrap();
    let public = vec![PublicSource::File(downloads), PublicSource::File(failures)];
    let groups = vec![Group { label: "kist".into(), runs }];
    let request = Request { groups, output: Some(folder.join("report")), public, ..Request::default() };
    let page = page_of(&request);
    // 1, 2, 3: 2 ± 2.48.
    let cells = row(&page, "Time to last byte, 50 KiB, performance");
    assert_eq!(cells[0], "above the public quartiles, but the interval reaches them");
    assert!(cells[1].starts_with("2.00 ± 2.48 s") && page.contains(">Public Tor, 2026-10-01</th>"), "{cells:?}");
    assert_eq!(row(&page, "Failed transfers of measuring clients")[0], "within the public quartiles");
    assert!(!page.contains("Circuit round trip</th>") && !page.contains("2019"), "only what the files have");
}

#[test]
fn every_figure_with_a_counterpart_has_its_band() {
    let folder = folder("bands");
    let data = folder.join("run.data");
    synthetic::write(&data, &Network { failing: 0.1, ..Network::tiny(1) });
    let of = |public: Vec<PublicSource>, name: &str| {
        let output = folder.join(name);
        page_of(&Request { runs: vec![data.clone()], output: Some(output.clone()), public, ..Request::default() });
        output
    };
    let with = of(vec![PublicSource::BuiltIn], "with");
    let without = of(Vec::new(), "without");
    let has_band = |folder: &Path, id: &str| {
        fs::read_to_string(folder.join(format!("{id}.svg"))).unwrap().contains("class=\"f p\"")
    };
    for id in
        ["ttlb-51200", "ttlb-5242880", "round-trip", "circuit-build-time", "relay-utilisation", "errors-over-time"]
    {
        assert!(has_band(&with, id) && !has_band(&without, id), "{id}");
    }
    assert!(!has_band(&with, "errors-by-kind") && !has_band(&with, "ttlb-327680"), "none where nothing is known");
    assert!(!fs::read_to_string(without.join("index.html")).unwrap().contains("public Tor"));
}

#[test]
fn broken_files_are_refused_before_anything_is_written() {
    let folder = folder("refused");
    let (data, output) = (folder.join("run.data"), folder.join("report"));
    network(&data, 1, &[1.0]);
    let path = folder.join("torperf.csv");
    fs::write(&path, "date,filesize,source,server,q1,md,q3\n2026-10-01,51200,a,public,1,2\n").unwrap();
    let mut request = Request { runs: vec![data], output: Some(output.clone()), ..Request::default() };
    request.public = vec![PublicSource::File(path.clone())];
    let error = report::write(&request).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("torperf.csv"), "{error}");
    fs::write(&path, "date,filesize,source,server,q1,md,q3\n2026-10-01,51200,a,public,1,two,3\n").unwrap();
    let error = report::write(&request).unwrap_err().to_string();
    assert!(error.contains("torperf.csv:2: 'two' is no number for the column md; fetch the file again"), "{error}");
    assert!(!output.exists());
}
