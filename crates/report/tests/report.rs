//! Whole reports, from data directories whose numbers are known.

mod synthetic;

use report::{Group, Request, Since, Written};
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

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A data directory with nothing but the experiment, of 600 seconds.
fn bare(folder: &Path, seed: u64) {
    let config =
        format!("general:\n  stop_time: 10 min\n  seed: {seed}\nhosts:\n  \"client1\":\n    bandwidth_up: 8 Mbit\n");
    write(&folder.join("processed-config.yaml"), &config);
    let stats = format!("{{\"gnomon\":{{\"seed\":{seed},\"simulated_ns\":600000000000,\"wall_ns\":60000000000}}}}");
    write(&folder.join("sim-stats.json"), &stats);
    fs::create_dir_all(folder.join("hosts/client1")).unwrap();
}

/// A transfer of 50 KiB that began `at` and took `last_byte` seconds, its first byte half of that.
fn transfer(at: f64, last_byte: f64) -> String {
    format!(
        "{{\"kind\":\"transfer\",\"id\":1,\"behaviour\":\"performance\",\"server\":\"s:80\",\"direction\":\"download\",\"bytes\":51200,\
         \"received\":51200,\"sent\":100,\"start\":{:.6},\"connect\":0.001,\"socks\":0.1,\"request\":0.25,\"first_byte\":{},\
         \"tenths\":[{last_byte}],\"last_byte\":{last_byte},\"verified\":true,\"error\":null}}\n",
        946_684_800.0 + at,
        last_byte / 2.0
    )
}

fn failure(at: f64, stage: &str, reason: &str) -> String {
    format!(
        "{{\"kind\":\"transfer\",\"id\":1,\"behaviour\":\"performance\",\"server\":\"s:80\",\"direction\":\"download\",\"bytes\":51200,\
         \"received\":0,\"sent\":100,\"start\":{:.6},\"connect\":0.001,\"socks\":null,\"request\":null,\"first_byte\":null,\"tenths\":[],\
         \"last_byte\":null,\"verified\":false,\"error\":{{\"stage\":\"{stage}\",\"reason\":\"{reason}\",\"detail\":\"\"}}}}\n",
        946_684_800.0 + at
    )
}

fn traffic(folder: &Path, lines: &str) {
    write(&folder.join("hosts/client1/gnomon-traffic.1000.stdout"), lines);
}

fn report_on(runs: &[PathBuf], output: &Path) -> Written {
    report::write(&Request { runs: runs.to_vec(), output: Some(output.to_path_buf()), ..Request::default() }).unwrap()
}

fn page(written: &Written) -> String {
    fs::read_to_string(written.page.as_ref().unwrap()).unwrap()
}

/// The cells of a table's row, by the text of its first cell.
fn row(page: &str, name: &str) -> Vec<String> {
    let begins = ["", " class=\"s\""].map(|class| format!("<th scope=\"row\"{class}>{name}</th>"));
    let place = begins.iter().filter_map(|begin| page.find(begin)).min().unwrap_or_else(|| panic!("no row '{name}'"));
    let rest = page[place..].split_once("</th>").unwrap().1;
    let cells = rest.split("</tr>").next().unwrap().split("<td").skip(1);
    cells.map(|cell| cell.split_once('>').unwrap().1.split("</td>").next().unwrap().replace('\u{a0}', " ")).collect()
}

#[test]
fn a_made_up_run_gets_every_section_and_file() {
    let data = folder("complete").join("tiny.data");
    synthetic::write(&data, &Network::tiny(1));
    let written = report::write(&Request { runs: vec![data.clone()], ..Request::default() }).unwrap();
    assert_eq!(written.page, Some(data.join("report/index.html")));
    assert_eq!(written.summary.len(), 6, "{:?}", written.summary);
    let page = page(&written);
    assert!(!page.contains("class=\"missing\""), "something is missing");
    assert!(!page.contains("id=\"damage\""));
    let ids = "ttfb-51200 ttlb-51200 ttlb-327680 ttlb-5242880 goodput relay-traffic traffic-by-relay errors-by-kind \
               errors-over-time circuit-build-time relay-utilisation bootstrapping simulated-time memory cpu workers workers-waiting pace";
    for id in ids.split_whitespace() {
        for extension in ["svg", "png", "csv"] {
            assert!(data.join(format!("report/{id}.{extension}")).is_file(), "{id}.{extension}");
        }
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id}");
    }
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    assert!(
        page.contains("Every such network gives it: programs are root on their simulated hosts"),
        "tor's warnings are explained"
    );
    // The made-up second worker waits for 35 % of its time, and a window of 6 s takes a tenth of a second.
    let mean = |file: &str, name: &str| {
        let table = fs::read_to_string(data.join("report").join(file)).unwrap();
        let rows = table.lines().skip(1).filter(|row| row.starts_with(name));
        let values: Vec<f64> = rows.map(|row| row.rsplit(',').next().unwrap().parse().unwrap()).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    assert!((mean("workers-waiting.csv", "worker 1,") - 0.35).abs() < 1e-6);
    assert!((mean("pace.csv", "") - 60.0).abs() < 1e-6, "{}", mean("pace.csv", ""));
    // Memory over time is the process's own: from 40 to 140 MB, and neither what it has mapped several times nor what the machine has left.
    let memory = fs::read_to_string(data.join("report/memory.csv")).unwrap();
    let last =
        memory.lines().last().and_then(|row| row.split(',').next_back()).and_then(|cell| cell.parse::<f64>().ok());
    assert!(last.is_some_and(|bytes| (bytes - 140e6).abs() < 1e6), "{memory}");
}

#[test]
fn pages_need_nothing_from_elsewhere() {
    let data = folder("self-contained").join("run.data");
    synthetic::write(&data, &Network::tiny(2));
    let page = page(&report::write(&Request { runs: vec![data], ..Request::default() }).unwrap());
    for reference in page.split(['"', '\'', '(']).filter(|text| text.contains("://")) {
        // A name, never an address to load from.
        assert_eq!(reference, "http://www.w3.org/2000/svg");
    }
    assert!(!page.contains("<link") && !page.contains("<script src"));
}

/// What was measured stands there once per run; what was set, once if all agree.
#[test]
fn runs_that_took_equally_long_each_say_so() {
    let folder = folder("equally-long");
    let runs: Vec<PathBuf> = [1, 2].iter().map(|seed| folder.join(format!("{seed}.data"))).collect();
    for (seed, run) in (1..).zip(&runs) {
        bare(run, seed);
    }
    let groups = vec![Group { label: "both".into(), runs }];
    let request = Request { groups, output: Some(folder.join("out")), ..Request::default() };
    let page = page(&report::write(&request).unwrap());
    assert_eq!(row(&page, "Simulated in wall time"), ["10.0 min in 60.0 s, 10.0 min in 60.0 s"]);
    assert_eq!(row(&page, "Seed"), ["1, 2"]);
    assert_eq!(row(&page, "State"), ["finished"]);
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let folder = folder("same");
    let data = folder.join("run.data");
    synthetic::write(&data, &Network::tiny(3));
    let (a, b) = (folder.join("a"), folder.join("b"));
    report_on(std::slice::from_ref(&data), &a);
    report_on(&[data], &b);
    let files_of = |folder: &Path| -> Vec<PathBuf> {
        let paths = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        paths.filter(|path| path.is_file()).collect()
    };
    for (folder, least) in [("", 30), ("tables", 11)] {
        let files = files_of(&a.join(folder));
        assert!(files.len() >= least, "{}", files.len());
        for path in files {
            let other = b.join(folder).join(path.file_name().unwrap());
            assert!(fs::read(&path).unwrap() == fs::read(&other).unwrap(), "{}", path.display());
        }
    }
}

#[test]
fn known_transfers_give_known_numbers() {
    let folder = folder("known");
    let data = folder.join("run.data");
    bare(&data, 1);
    let mut lines: String = [1.0, 2.0, 3.0, 4.0, 10.0].iter().map(|last| transfer(100.0, *last)).collect();
    lines += &failure(200.0, "socks", "socks-4");
    lines += &failure(210.0, "socks", "socks-4");
    lines += &failure(220.0, "transfer", "timeout");
    traffic(&data, &lines);
    write(&data.join("hosts/client1/tor.1001.stdout"), "Jan 01 00:01:30.000 [notice] Bootstrapped 100% (done): Done\n");
    let written = report_on(&[data], &folder.join("report"));
    let page = page(&written);
    assert_eq!(row(&page, "Transfers"), ["5 done, 3 failed, 5 verified"]);
    assert_eq!(row(&page, "Failed transfers"), ["37.5 %"]);
    assert_eq!(row(&page, "Time to last byte, 50 KiB, median"), ["3.00 s"]);
    assert_eq!(row(&page, "Time to first byte, 50 KiB, median"), ["1.50 s"]);
    assert_eq!(row(&page, "Bootstrapped tors"), ["1 of 1"]);
    assert_eq!(row(&page, "Last tor bootstrapped after"), ["90.0 s"]);
    // 5 * 50 KiB over 600 s.
    assert_eq!(row(&page, "Goodput of all transfers, mean"), ["3.41 kbit/s"]);
    assert_eq!(row(&page, "Simulated seconds per second"), ["10"]);
    // Quantiles of 1, 2, 3, 4, 10 as NumPy computes them.
    let quantiles = page.split("Time to last byte (s), quantiles").nth(1).unwrap();
    assert_eq!(
        row(quantiles, "50 KiB"),
        ["performance", "run", "5", "1.200", "2.000", "3.000", "4.000", "7.600", "9.760", "4.000"]
    );
    assert_eq!(row(&page, "socks: socks-4"), ["2"]);
    assert_eq!(row(&page, "all errors"), ["3 of 8 (37.50 %)"]);
    let csv = fs::read_to_string(folder.join("report/ttlb-51200.csv")).unwrap();
    let expected = "series,time_to_last_byte_s,fraction\nperformance,1,0\nperformance,1,0.2\nperformance,2,0.4\n\
                    performance,3,0.6\nperformance,4,0.8\nperformance,10,1\n";
    assert_eq!(csv, expected);
}

/// Two variants of four seeds, whose last bytes come as `of` says; the report's folder.
fn variants(folder: &Path, of: impl Fn(&str, u32) -> f64) -> PathBuf {
    let group = |label: &str| {
        let runs = (1..=4).map(|seed: u32| {
            let data = folder.join(format!("{label}{seed}.data"));
            bare(&data, seed.into());
            traffic(&data, &(0..5).map(|i| transfer(100.0 + f64::from(i), of(label, seed))).collect::<String>());
            data
        });
        Group { label: label.to_owned(), runs: runs.collect() }
    };
    let output = folder.join("report");
    let groups = vec![group("before"), group("after")];
    report::write(&Request { groups, output: Some(output.clone()), ..Request::default() }).unwrap();
    output
}

#[test]
fn variants_are_compared_by_seed() {
    // Seeds differ by seconds, and the variants by half a second, more or less: only pairs show it.
    let noise = |seed: u32| if seed.is_multiple_of(2) { 0.02 } else { -0.02 };
    let after = |label: &str, seed| if label == "after" { 0.5 + noise(seed) } else { 0.0 };
    let output = variants(&folder("differences"), |label, seed| f64::from(seed) * 2.0 + after(label, seed));
    let page = fs::read_to_string(output.join("index.html")).unwrap();
    let table = page.split("after against before").nth(1).unwrap();
    let cells = row(table, "Time to last byte, 50 KiB, median");
    assert_eq!(cells[0], "differs", "{cells:?}");
    // Differences 0.48, 0.52, 0.48, 0.52: s = 0.0231, error 3.1824 * 0.0231 / 2; 2 of 16 assignments of signs are as far from zero.
    assert_eq!(cells[1..5], ["5.00 s", "5.50 s", "+0.500 ± 0.037 s", "+10.0 %"], "{cells:?}");
    assert_eq!(cells[8..], ["0.1250", "4"], "{cells:?}");
    assert_eq!(row(table, "Failed transfers")[0], "no difference seen");
    assert!(page.contains("it takes six pairs for 0.05"));
    let csv = fs::read_to_string(output.join("tables/differences.csv")).unwrap();
    let line = csv.lines().find(|line| line.contains("\"Time to last byte, 50 KiB, median\"")).unwrap();
    assert!(line.starts_with("before,after,") && line.ends_with(",true"), "{line}");
}

#[test]
fn an_experiment_does_not_differ_from_itself() {
    let output = variants(&folder("aa"), |label, seed| {
        let sign = if (seed / 2).is_multiple_of(2) == (label == "after") { 1.0 } else { -1.0 };
        f64::from(seed) + 0.1 * sign
    });
    let page = fs::read_to_string(output.join("index.html")).unwrap();
    assert!(page.contains("no difference seen") && !page.contains(">differs<"));
}

#[test]
fn variants_without_a_common_seed_are_told() {
    let folder = folder("no-pairs");
    let runs = [1, 2].map(|seed| {
        let data = folder.join(format!("v{seed}.data"));
        bare(&data, seed);
        traffic(&data, &transfer(100.0, 1.0));
        data
    });
    let group = |label: &str, run: &PathBuf| Group { label: label.into(), runs: vec![run.clone()] };
    let groups = vec![group("a", &runs[0]), group("b", &runs[1])];
    let written =
        report::write(&Request { groups, output: Some(folder.join("report")), ..Request::default() }).unwrap();
    assert!(page(&written).contains("(the one has 1, the other 2): run both with the same seeds"));
}

#[test]
fn tables_have_every_observation() {
    let folder = folder("tables");
    let data = folder.join("run.data");
    bare(&data, 7);
    let retry = transfer(300.0, 2.0).replace("\"verified\":true", "\"verified\":false");
    traffic(&data, &(transfer(100.0, 1.5) + &failure(200.0, "socks", "socks-4") + &retry));
    let request = Request { from_s: Some(150.0), ..Request::default() };
    let output = folder.join("report");
    report::write(&Request { runs: vec![data.clone()], output: Some(output.clone()), ..request }).unwrap();
    let read = |name: &str| fs::read_to_string(output.join("tables").join(name)).unwrap();
    let expected = "\
        run,group,seed,host,behaviour,direction,bytes,start_s,request_s,first_byte_s,last_byte_s,end_s,done,verified,is_retry,\
        error_stage,error_reason,in_window\n\
        run,run,7,client1,performance,download,51200,100,0.25,0.75,1.5,101.5,true,true,false,,,false\n\
        run,run,7,client1,performance,download,51200,200,,,,200,false,false,false,socks,socks-4,true\n\
        run,run,7,client1,performance,download,51200,300,0.25,1,2,302,true,false,false,,,true\n";
    assert_eq!(read("transfers.csv"), expected);
    let package: serde_json::Value = serde_json::from_str(&read("datapackage.json")).unwrap();
    assert_eq!(package["schema"], "gnomon-tables/1");
    for (resource, name) in
        package["resources"].as_array().unwrap().iter().zip(["runs", "transfers", "circuits", "relays", "differences"])
    {
        assert_eq!(resource["name"], name);
        let fields = resource["schema"]["fields"].as_array().unwrap();
        let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
        assert_eq!(read(&format!("{name}.csv")).lines().next().unwrap(), names.join(","));
        assert!(fields.iter().all(|field| field["description"].as_str().is_some_and(|text| !text.is_empty())));
        assert!(fs::read(output.join("tables").join(format!("{name}.parquet"))).unwrap().starts_with(b"PAR1"));
    }
    let page = fs::read_to_string(output.join("index.html")).unwrap();
    assert!(page.contains("transfers: 3 rows"));
    let output = folder.join("only");
    let only = Request { runs: vec![data], output: Some(output.clone()), tables_only: true, ..Request::default() };
    let written = report::write(&only).unwrap();
    assert_eq!((written.page, written.tables), (None, output.join("tables")));
    let left: Vec<_> = fs::read_dir(&output).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["tables"]);
}

#[test]
fn times_may_count_from_the_request_and_of_a_span() {
    let folder = folder("span");
    let data = folder.join("run.data");
    bare(&data, 1);
    traffic(&data, &(transfer(100.0, 1.0) + &transfer(200.0, 2.0) + &transfer(300.0, 4.0)));
    let request = Request {
        runs: vec![data],
        output: Some(folder.join("report")),
        since: Since::Request,
        from_s: Some(150.0),
        until_s: Some(300.0),
        ..Request::default()
    };
    let page = page(&report::write(&request).unwrap());
    // Of 2 and 4 s, less 0.25 s until the request.
    assert_eq!(row(&page, "Time to last byte, 50 KiB, median"), ["2.75 s"]);
    assert_eq!(row(&page, "Transfers"), ["2 done, 0 failed, 2 verified"]);
    assert!(page.contains("1 transfers that began outside") || page.contains("1 transfer that began outside"));
}

#[test]
fn runs_that_differ_in_their_seed_get_confidence_intervals() {
    let folder = folder("seeds");
    let runs: Vec<PathBuf> = (1..=3).map(|seed| folder.join(format!("s{seed}.data"))).collect();
    for (seed, data) in (1..).zip(&runs) {
        bare(data, seed);
        traffic(data, &[1.0, 2.0, 3.0].map(|last| transfer(100.0, last + seed as f64)).concat());
    }
    let written = report_on(&runs, &folder.join("report"));
    let page = page(&written);
    // Medians 3, 4, 5: mean 4, s = 1, t(2) = 4.30265, error 2.48414.
    assert_eq!(row(&page, "Time to last byte, 50 KiB, median"), ["4.00 ± 2.48 s"]);
    let quantiles = page.split("Time to last byte (s), quantiles").nth(1).unwrap();
    assert_eq!(row(quantiles, "50 KiB")[5], "4.000 ± 2.484");
    assert!(page.contains("is a group of 3 runs") && page.contains("Student\u{2019}s t distribution with 2 degrees"));
    assert!(!page.contains("same seed"));
    let csv = fs::read_to_string(folder.join("report/ttlb-51200.csv")).unwrap();
    assert!(csv.starts_with("series,time_to_last_byte_s,fraction,low_time_to_last_byte_s,high_time_to_last_byte_s\n"));
    assert!(csv.contains("performance,4,0.5,1.515862288,6.484137712\n"), "{csv}");
}

#[test]
fn groups_are_compared_and_repeated_seeds_are_told() {
    let folder = folder("comparison");
    let mut groups = Vec::new();
    for (label, slowness, scheduler) in [("vanilla", 1.35, "Vanilla"), ("kist", 1.0, "KIST")] {
        let runs: Vec<PathBuf> = (1..=4).map(|seed| folder.join(format!("{label}-{seed}.data"))).collect();
        for (seed, data) in (1..).zip(&runs) {
            synthetic::write(data, &Network { slowness, scheduler, failing: 0.03, ..Network::tiny(seed) });
        }
        groups.push(Group { label: label.into(), runs });
    }
    let again = folder.join("kist-again.data");
    synthetic::write(&again, &Network { failing: 0.03, ..Network::tiny(4) });
    groups[1].runs.push(again);
    let request = Request { groups, output: Some(folder.join("report")), ..Request::default() };
    let page = page(&report::write(&request).unwrap());
    assert!(page.contains("vanilla (4 runs)") && page.contains("kist (5 runs)"));
    assert!(page.contains("runs of \u{201c}kist\u{201d} have the same seed 4"));
    assert_eq!(row(&page, "Time to last byte, 320 KiB, median").len(), 2);
    let compared = page.split("Compared with vanilla (4 runs)").nth(1).unwrap();
    assert!(row(compared, "Time to last byte")[3].starts_with('\u{2212}'), "kist is the faster one here");
    let svg = fs::read_to_string(folder.join("report/ttlb-327680.svg")).unwrap();
    assert_eq!(svg.matches("<polygon").count(), 2, "a band for each group");
}

#[test]
fn a_run_without_tor_says_what_is_missing() {
    let folder = folder("bare");
    let data = folder.join("web.data");
    bare(&data, 1);
    let written = report_on(&[data], &folder.join("report"));
    let page = page(&written);
    for thing in [
        "output of gnomon-traffic or tgen",
        "a log of tor",
        "host-traffic.csv",
        "progress.csv",
        "windows.parquet",
        "circuit events",
    ] {
        assert!(page.contains(&format!("<p class=\"missing\">No run has {thing}")), "{thing}");
    }
    assert_eq!(row(&page, "Hosts"), ["1: 1 client"]);
    assert_eq!(row(&page, "State"), ["finished"]);
}

#[test]
fn a_killed_run_with_broken_files_still_gets_its_report() {
    let folder = folder("killed");
    let data = folder.join("run.data");
    synthetic::write(&data, &Network::tiny(5));
    fs::remove_file(data.join("sim-stats.json")).unwrap();
    write(&data.join("tor-network.json"), "{\"profile\":");
    let log = data.join("hosts/client1/gnomon-traffic.1001.stdout");
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 150]).unwrap();
    let table = data.join("host-traffic.csv");
    let text = fs::read_to_string(&table).unwrap();
    fs::write(&table, format!("{text}900,rel")).unwrap();
    let page = page(&report_on(&[data], &folder.join("report")));
    assert!(row(&page, "State")[0].starts_with("not finished, last sign at"));
    assert_eq!(row(&page, "Lines that could not be read"), ["3"]);
    let damage = page.split("id=\"damage\"").nth(1).unwrap();
    for file in ["tor-network.json", "hosts/client1/gnomon-traffic.1001.stdout", "host-traffic.csv"] {
        assert!(damage.contains(file), "{file}");
    }
    assert!(damage.contains("the last line is cut off"));
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()) {
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[test]
fn no_file_however_broken_stops_a_report() {
    let folder = folder("broken");
    let mut random = synthetic::Random::new(8);
    for round in 0..6 {
        let data = folder.join(format!("{round}.data"));
        synthetic::write(&data, &Network { relays: 3, clients: 2, duration_s: 400.0, ..Network::tiny(round) });
        for file in files_below(&data) {
            let mut bytes = fs::read(&file).unwrap();
            match round {
                0 => bytes.truncate(bytes.len() / 2),
                1 => bytes.clear(),
                2 => bytes.iter_mut().for_each(|byte| *byte = (random.uniform() * 256.0) as u8),
                // Every number another, also a huge one.
                3 => bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'9'),
                4 => bytes.iter_mut().filter(|byte| byte.is_ascii_digit()).for_each(|byte| *byte = b'0'),
                _ => bytes.iter_mut().filter(|_| random.uniform() < 0.01).for_each(|byte| *byte = b'e'),
            }
            fs::write(&file, bytes).unwrap();
        }
        assert!(page(&report_on(&[data], &folder.join("report"))).ends_with("</html>\n"), "round {round}");
    }
}

#[test]
fn a_network_of_tgen_and_oniontrace_is_read() {
    let folder = folder("tgen");
    let data = folder.join("shadow.data");
    write(&data.join("processed-config.yaml"), "general:\n  stop_time: 1 h\n  seed: 1\nhosts: {}\n");
    let stream = "2000-01-01 00:20:34 946686034.500000 [message] [tgen-stream.c:1738] [_tgenstream_log] [stream-success] transport \
        [fd=12,local=l:127.0.0.1:1,proxy=l:127.0.0.1:9050,remote=server3:100.0.0.4:80,state=SUCCESS_EOF,error=NONE] stream \
        [id=3,vertexid=s:3,name=p,peername=s,sendsize=0,recvsize=51200,sendstate=SEND_SUCCESS,recvstate=RECV_SUCCESS,error=NONE] bytes \
        [total-bytes-recv=51309,total-bytes-send=2043,payload-bytes-recv=51200,payload-bytes-send=0,payload-progress-recv=100.00%,\
        payload-progress-send=100.00%] times [created-ts=1000000,usecs-to-socket-create=5,usecs-to-command=402010,\
        usecs-to-first-byte-recv=810000,usecs-to-last-byte-recv=1490000,usecs-to-checksum-recv=1490100,now-ts=2500000]\n";
    write(&data.join("hosts/perfclient1exit/tgen.1001.stdout"), stream);
    let logger = "946685102.000000 [message] [_oniontracelogger_logControlLine] Logger:";
    let trace = format!(
        "2000-01-01 00:05:02 {logger} 650 BW 1000000 2000000\n2000-01-01 00:05:02 {logger} 650 CIRC 4 BUILT $AA~r1,$BB~r2,$CC~r3 \
         PURPOSE=GENERAL TIME_CREATED=2000-01-01T00:05:00.500000\n"
    );
    write(&data.join("hosts/relay1guard/oniontrace.1002.stdout"), &trace);
    let page = page(&report_on(&[data], &folder.join("report")));
    assert_eq!(row(&page, "Hosts"), ["2: 1 guard, 1 client"]);
    assert_eq!(row(&page, "Time to last byte, 50 KiB, median"), ["1.49 s"]);
    assert!(page.contains("Time to last byte, 50 KiB, perfclientexit clients"));
    assert!(fs::read_to_string(folder.join("report/circuit-build-time.csv")).unwrap().contains("GENERAL,1.5,1\n"));
    assert!(page.contains("<figure id=\"relay-traffic\">"), "from the control port, where host-traffic.csv is missing");
    assert!(!page.contains("id=\"damage\""));
}

#[test]
fn many_sizes_of_a_behaviour_are_one_figure() {
    let folder = folder("sizes");
    let data = folder.join("run.data");
    bare(&data, 1);
    let lines: String = (0..20)
        .map(|i| transfer(100.0 + f64::from(i), 1.0 + f64::from(i)).replace("51200", &(1000 + i).to_string()))
        .collect();
    traffic(&data, &lines.replace("\"performance\"", "\"markov\""));
    let page = page(&report_on(&[data], &folder.join("report")));
    assert!(page.contains("Time to last byte, markov, any size"));
    assert!(folder.join("report/ttlb-markov.png").is_file());
}

#[test]
fn a_directory_that_no_run_wrote_is_refused_with_a_hint() {
    let folder = folder("refused");
    let refuse = |path: &Path| {
        let error = report::write(&Request { runs: vec![path.to_path_buf()], ..Request::default() }).unwrap_err();
        assert!(error.is_bad_input());
        error.to_string()
    };
    assert!(refuse(&folder.join("nothing")).contains("it does not exist"));
    write(&folder.join("file"), "");
    assert!(refuse(&folder.join("file")).contains("it is a file"));
    assert!(refuse(&folder).contains("is no data directory"));
    bare(&folder.join("gnomon.data"), 1);
    let text = refuse(&folder);
    assert!(text.contains("did you mean '") && text.contains("gnomon.data'"), "{text}");
}

#[test]
fn a_second_report_leaves_no_figures_of_the_first() {
    let folder = folder("again");
    let (full, empty, output) = (folder.join("full.data"), folder.join("empty.data"), folder.join("report"));
    synthetic::write(&full, &Network::tiny(6));
    bare(&empty, 1);
    report_on(&[full], &output);
    write(&output.join("notes.csv"), "the user's own");
    report_on(&[empty], &output);
    let mut left: Vec<String> =
        fs::read_dir(&output).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["index.html", "notes.csv", "tables"]);
}

/// The first bytes of a PNG file: its width and height, at bytes 16 to 23 (PNG specification, 11.2.2).
#[test]
fn pictures_are_twice_as_wide_as_figures() {
    let data = folder("pictures").join("run.data");
    synthetic::write(&data, &Network::tiny(7));
    report::write(&Request { runs: vec![data.clone()], ..Request::default() }).unwrap();
    let picture = fs::read(data.join("report/ttlb-51200.png")).unwrap();
    assert_eq!(&picture[1..4], b"PNG");
    assert_eq!(u32::from_be_bytes(picture[16..20].try_into().unwrap()), 960);
    assert!(picture.len() > 10_000, "{} bytes: is there text?", picture.len());
}

/// Circuits of known relays, the shares that weights gave them, and what relays sent.
#[test]
fn circuits_are_laid_beside_the_relays_weights() {
    let folder = folder("balance");
    let data = folder.join("run.data");
    bare(&data, 1);
    let relay = |name: &str, role: &str, shares: &str| {
        format!(
            "\"{name}\":{{\"role\":\"{role}\",\"nickname\":\"{name}\",\"bandwidth_up_bits\":8000000,\"expected_shares\":{shares}}}"
        )
    };
    let hosts = [
        relay("guard1", "guard", "[0.5,0,0]"),
        relay("guard2", "guard", "[0.3,0,0]"),
        relay("guard3", "guard", "[0.2,0,0]"),
        relay("exit1", "exit", "[0,0,1]"),
        "\"client1\":{\"role\":\"client\",\"behaviour\":\"performance\"}".to_owned(),
    ];
    let network = format!(
        "{{\"bootstrap_end_s\":100,\"measure_from_s\":200,\"expected_utilisation\":0.4,\"hosts\":{{{}}}}}",
        hosts.join(",")
    );
    write(&data.join("tor-network.json"), &network);
    hosts[..4]
        .iter()
        .for_each(|host| fs::create_dir_all(data.join("hosts").join(host.split('"').nth(1).unwrap())).unwrap());
    let circuit = |at: f64, guard: &str, purpose: &str| {
        format!(
            "{{\"kind\":\"circuit\",\"id\":1,\"at\":{},\"build\":0.5,\"hops\":3,\"purpose\":\"{purpose}\",\
             \"path\":[\"$AA~{guard}\",\"$BB~guard3\",\"$CC~exit1\"],\"error\":null}}\n",
            946_684_800.0 + at
        )
    };
    let mut lines: String = (0..6).map(|_| circuit(300.0, "guard1", "GENERAL")).collect();
    lines += &circuit(300.0, "guard2", "CONFLUX_LINKED").repeat(4);
    // Neither while the network settles nor for onion services.
    lines += &circuit(150.0, "guard3", "GENERAL");
    lines += &circuit(300.0, "guard3", "HS_VANGUARDS");
    traffic(&data, &lines);
    let mut sent = "time_s,host,rx_bytes,tx_bytes,rx_packets,tx_packets,dropped_packets\n".to_owned();
    // A relay of four is full for the 400 s that count.
    (201..=600).for_each(|second| sent += &format!("{second},guard1,0,1000000,1,1,0\n"));
    write(&data.join("host-traffic.csv"), &sent);
    let page = page(&report_on(&[data], &folder.join("report")));
    // Of (0.5, 0.3, 0.2) and (0.6, 0.4, 0): 0.0867 / sqrt(0.0467 * 0.1867).
    assert_eq!(row(&page, "Entry: circuits against weights, correlation"), ["0.929"]);
    assert_eq!(row(&page, "Entry: relays without a circuit"), ["1 of 3"]);
    assert_eq!(row(&page, "Exit: relays without a circuit"), ["0 of 1"]);
    assert_eq!(row(&page, "Relay capacity in use"), ["25.0 %"]);
    assert_eq!(row(&page, "Relay capacity in use, as expected"), ["40.0 %"]);
    assert_eq!(row(&page, "guard1")[1..], ["50.0 %", "60.0 %", "0 %", "0 %", "100 %"]);
    assert!(page.contains("shares of weight and of 10 circuits"));
}

#[test]
fn runs_say_what_they_are_results_of_and_whether_they_were_stopped() {
    let folder = folder("provenance");
    let data = folder.join("run.data");
    bare(&data, 1);
    traffic(&data, &transfer(100.0, 1.0));
    let stats = r#"{"gnomon":{"seed":1,"schema":1,"version":"9.8.7","simulated_ns":240000000000,"wall_ns":60000000000,
        "provenance":{"command":["gnomon","run","x.yaml"],"kernel":"6.1.2","processor":"A CPU","cheap_crypto":"cells","programs":{"/usr/sbin/tor":{"sha256":"ab12","bytes":3}}},
        "memory":{"peak_pss_bytes":104857600,"peak_used_bytes":900}}}"#;
    write(&data.join("sim-stats.json"), stats);
    write(&data.join("hosts/client1/tor.1001.stdout"), "Jan 01 00:01:30.000 [notice] Bootstrapped 100% (done): Done\n");
    write(&data.join("hosts/client1/state"), "# tor's\nTorVersion Tor 0.4.9.11\n");
    let page = page(&report_on(&[data], &folder.join("report")));
    assert_eq!(row(&page, "State"), ["stopped at 240 s of 10.0 min"]);
    for (name, text) in [
        ("Gnomon", "9.8.7"),
        ("Command", "gnomon run x.yaml"),
        ("Kernel", "6.1.2"),
        ("Processor", "A CPU"),
        ("Ciphers replaced by cheap ones", "cells"),
        ("SHA-256 of /usr/sbin/tor", "ab12"),
        ("tor, as it says", "Tor 0.4.9.11"),
    ] {
        assert_eq!(row(&page, name), [text]);
    }
    assert_eq!(row(&page, "Peak memory in use"), ["100 MiB"]);
}
