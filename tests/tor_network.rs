//! Private Tor networks of real tor, generated, run, and looked at: what `make demo` shows, that it repeats to the bit, and what
//! becomes of it without tor.

mod common;

use common::tor::{Network, Run, Transfer, median};
use common::{capture, find_program, folder, gnomon, read};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Every tor says so, the last with clients that wait for it.
fn assert_bootstrapped(run: &Run) {
    for host in run.tors() {
        let log = run.log(host);
        assert!(log.contains("Bootstrapped 100% (done): Done"), "{host}:\n{log}");
        for bad in ["[err]", "Bug:", "Assertion", "assertion"] {
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(bad)).collect();
            assert!(lines.is_empty(), "{host}: {lines:?}");
        }
    }
}

/// Every circuit that clients used is of three relays, from a guard to an exit; all were built.
fn assert_three_hops(run: &Run) {
    let mut built = 0;
    for line in run.clients().iter().flat_map(|host| run.lines(host, "circuit")) {
        assert!(line["error"].is_null(), "{line}");
        assert!(line["build"].as_f64() > Some(0.0), "{line}");
        let path: Vec<&str> = line["path"].as_array().expect("a path").iter().filter_map(Value::as_str).collect();
        let names: Vec<&str> = path.iter().filter_map(|relay| Some(relay.split_once('~')?.1)).collect();
        assert_eq!((line["hops"].as_u64(), names.len()), (Some(3), 3), "{line}");
        assert_eq!(BTreeSet::from_iter(&names).len(), 3, "{line}");
        assert!(matches!(run.role(names[0]), "guard" | "guard-exit"), "{line}");
        assert!(matches!(run.role(names[2]), "exit" | "guard-exit"), "{line}");
        built += 1;
    }
    assert!(built >= 10, "measuring clients take a circuit for each download: {built}");
}

/// A row of the page's summary.
fn row<'a>(page: &'a str, name: &str) -> &'a str {
    let start = format!("<th scope=\"row\">{name}</th><td>");
    let rest = page.split_once(&start).unwrap_or_else(|| panic!("no row '{name}'")).1;
    rest.split_once("</td>").expect("an end").0
}

/// A number with its unit, such as "0.674 s".
fn seconds(text: &str) -> f64 {
    let (number, unit) = text.split_once(char::is_whitespace).unwrap_or_else(|| panic!("{text}"));
    let factor = match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        _ => panic!("{text}"),
    };
    number.parse::<f64>().expect("a number") * factor
}

/// Whether a number that is shown with three digits is this one.
fn assert_shown(what: &str, shown: f64, exact: f64) {
    assert!((shown - exact).abs() <= 0.006 * exact.abs(), "{what}: {shown} is shown for {exact}");
}

fn size_name(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

fn by_size(transfers: &[Transfer]) -> BTreeMap<u64, Vec<&Transfer>> {
    let mut sizes: BTreeMap<u64, Vec<&Transfer>> = BTreeMap::new();
    transfers.iter().for_each(|transfer| sizes.entry(transfer.bytes).or_default().push(transfer));
    sizes
}

fn assert_status(run: &Run, transfers: &[Transfer]) {
    let status = |arguments: &[&str]| {
        let output = capture(gnomon().args(["tor", "status"]).args(arguments).arg(&run.data));
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""));
        output.stdout
    };
    let text = status(&[]);
    for part in ["tiny, seed 1", "180 of 180 s simulated in ", "; finished", "bootstrapped", "0 errors"] {
        assert!(text.contains(part), "'{part}' is not in:\n{text}");
    }
    let json: Value = serde_json::from_str(&status(&["--json"])).expect("JSON");
    let list = |key: &str| json[key].as_array().unwrap_or_else(|| panic!("{key}: {json}")).clone();
    let sum = |list: &[Value], key: &str| list.iter().map(|entry| entry[key].as_u64().expect("a number")).sum::<u64>();
    let roles = list("roles");
    let tors = run.tors().len() as u64;
    assert_eq!(["tors", "started", "bootstrapped"].map(|key| sum(&roles, key)), [tors; 3]);
    let counted = list("transfers");
    assert_eq!((sum(&counted, "done"), sum(&counted, "failed")), (transfers.len() as u64, 0));
    for entry in &counted {
        let (behaviour, bytes) = (entry["behaviour"].as_str().unwrap(), entry["bytes"].as_u64().unwrap());
        let of = transfers.iter().filter(|transfer| transfer.behaviour == behaviour && transfer.bytes == bytes);
        let last = median(of.map(|transfer| transfer.last_byte));
        let shown = entry["last_byte_s"].as_f64().or(entry["last_byte_s"]["median"].as_f64()).expect("seconds");
        assert_shown(behaviour, shown, last);
    }
}

fn assert_report(run: &Run, transfers: &[Transfer]) {
    let folder = run.data.with_file_name("page");
    let output = capture(gnomon().arg("report").arg(&run.data).arg("-o").arg(&folder));
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{}", output.stdout);
    let page = read(&folder.join("index.html"));
    assert_self_contained(&page, &folder);
    assert_eq!(row(&page, "Bootstrapped tors"), format!("{0} of {0}", run.tors().len()));
    assert_eq!(row(&page, "Transfers"), format!("{0} done, 0 failed, {0} verified", transfers.len()));
    assert_eq!(row(&page, "Lines that could not be read"), "0");
    for (bytes, of_size) in by_size(transfers) {
        let behaviours: BTreeSet<&str> = of_size.iter().map(|transfer| transfer.behaviour.as_str()).collect();
        for (what, file, byte) in [
            ("first", "ttfb", (|transfer| transfer.first_byte) as fn(&Transfer) -> f64),
            ("last", "ttlb", |transfer| transfer.last_byte),
        ] {
            for behaviour in &behaviours {
                let name = match behaviours.len() {
                    1 => size_name(bytes),
                    _ => format!("{}, {behaviour}", size_name(bytes)),
                };
                let shown = seconds(row(&page, &format!("Time to {what} byte, {name}, median")));
                let of = of_size.iter().filter(|transfer| transfer.behaviour == *behaviour);
                assert_shown(&format!("{what} byte of {name}"), shown, median(of.map(|transfer| byte(transfer))));
            }
            let most = column(&folder.join(format!("{file}-{bytes}.csv")), 1).into_iter().fold(0.0, f64::max);
            let slowest = of_size.iter().map(|transfer| byte(transfer)).fold(0.0, f64::max);
            assert_eq!(most, slowest, "{file}-{bytes}.csv has the slowest one");
        }
    }
    // Bins of a second, into which each download goes by its tenths.
    let rates = column(&folder.join("goodput.csv"), 2);
    let bytes: u64 = transfers.iter().map(|transfer| transfer.bytes).sum();
    assert_shown("all bytes", rates.iter().sum::<f64>() / 8.0, bytes as f64);
    for name in ["goodput", "relay-utilisation", "circuit-build-time", "bootstrapping", "memory"] {
        let png = std::fs::read(folder.join(name).with_extension("png")).expect("a figure");
        assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "{name}.png");
        assert!(read(&folder.join(name).with_extension("svg")).contains("</svg>"), "{name}.svg");
    }
}

/// A column of a table as numbers, without the rows of the public network.
fn column(file: &Path, index: usize) -> Vec<f64> {
    let text = read(file);
    let field = |line: &str| line.split(',').nth(index).and_then(|field| field.parse().ok());
    let own = text.lines().skip(1).filter(|line| !line.trim_start_matches('"').starts_with("public Tor"));
    own.map(|line| field(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Nothing is loaded from elsewhere, and what is linked to lies beside the page.
fn assert_self_contained(page: &str, folder: &Path) {
    for part in ["<script src", "<link", "<img", "<iframe", "@import", "<object", "fetch(", "XMLHttpRequest"] {
        assert!(!page.contains(part), "'{part}' is in the page");
    }
    for address in page.split("url(").skip(1) {
        // Another part of the page, too.
        assert!(address.starts_with("data:") || address.starts_with('#'), "{}", &address[..address.len().min(80)]);
    }
    for address in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        match address.strip_prefix('#') {
            Some(id) => assert!(page.contains(&format!("id=\"{id}\"")), "no part '{id}'"),
            None => assert!(folder.join(address).is_file(), "{address} is not beside the page"),
        }
    }
    // A namespace is a name, which nothing looks up.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!page.contains("http://") && !page.contains("https://"), "addresses in the page");
}

#[test]
fn the_tiny_network_comes_up_and_carries_verified_downloads() {
    let run = Network::new(&folder("tor-network/tiny"), &[]).run(&[]);
    assert_eq!(run.tors().len(), 14);
    assert_bootstrapped(&run);
    assert!(run.printed.contains("done: 180 s simulated in "), "{}", run.printed);

    let transfers = run.transfers();
    for host in run.clients() {
        assert!(transfers.iter().any(|transfer| transfer.host == host && transfer.socks.is_some()), "{host}");
    }
    let sizes: Vec<u64> = by_size(&transfers).into_keys().collect();
    assert_eq!(sizes, [50 << 10, 320 << 10, 1 << 20, 5 << 20]);
    assert!(transfers.len() >= 30, "{}", transfers.len());
    assert_three_hops(&run);

    let stats = run.stats();
    assert_eq!(stats["gnomon"]["interception"]["unsupported"], serde_json::json!({}), "tor calls what there is");
    // KIST asks for each connection that has something to write, each time that it runs.
    for call in ["getsockopt", "ioctl"] {
        assert!(stats["syscalls"][call].as_u64() > Some(5_000), "{call}: {}", stats["syscalls"][call]);
    }
    assert_status(&run, &transfers);
    assert_report(&run, &transfers);
}

/// The interval in which the median of what the sample is drawn from lies with 99 % probability, by order statistics: the count of
/// values below it is binomial.
fn median_interval(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mut probability = 0.5_f64.powi(n as i32);
    let (mut below, mut rank) = (probability, 0);
    while below <= 0.005 {
        rank += 1;
        probability *= (n - rank + 1) as f64 / rank as f64;
        below += probability;
    }
    assert!(rank > 0, "{n} values are too few");
    (values[rank - 1], values[n - rank])
}

#[test]
fn the_same_seed_repeats_a_network_to_the_bit_and_another_varies_it() {
    let network = Network::new(&folder("tor-network/repeated"), &["--amount", "1"]);
    let [one, two, other]: [(String, BTreeMap<String, Vec<u8>>, Vec<Transfer>); 3] =
        [["--parallelism", "1"].as_slice(), &["--parallelism", "2"], &["--seed", "2"]].map(|arguments| {
            let run = network.run(arguments);
            (run.digest(), run.files(), run.transfers())
        });
    for (name, content) in &one.1 {
        assert!(two.1.get(name) == Some(content), "{name} differs between one and two workers");
    }
    assert_eq!((&one.0, one.1.len()), (&two.0, two.1.len()), "one and two workers");

    assert_ne!(one.0, other.0);
    // The same clients fetch as much, over other circuits and at other times: not one download takes as long as before. But both
    // samples are of the same network, so that the intervals of their medians overlap.
    for byte in [(|transfer| transfer.first_byte) as fn(&Transfer) -> f64, |transfer| transfer.last_byte] {
        let times = |of: &[Transfer]| of.iter().map(byte).collect::<Vec<f64>>();
        let (a, b) = (times(&one.2), times(&other.2));
        assert_eq!(a.len(), b.len());
        assert!(a.iter().all(|time| !b.contains(time)), "{a:?} {b:?}");
        let ((a_low, a_high), (b_low, b_high)) = (median_interval(a), median_interval(b));
        println!("median between {a_low} and {a_high} s; with another seed between {b_low} and {b_high} s");
        assert!(a_low <= b_high && b_low <= a_high, "{a_low} to {a_high} and {b_low} to {b_high}");
    }
}

#[test]
fn a_missing_tor_is_told_with_its_remedy() {
    let folder = folder("tor-network/missing");
    // It is also looked for where distributions put it; so these folders are covered, for one command alone.
    let tor = find_program("tor").expect("tor: tools/install-packages test");
    let hide = format!("mount --bind /dev/null '{}' && exec \"$@\"", tor.display());
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &hide, "hide"]);
    if !capture(Command::new("unshare").args(["--map-root-user", "--mount", "true"])).status.success() {
        println!("skipped: no namespaces of mounts for this user");
        return;
    }
    command.arg(env!("CARGO_BIN_EXE_gnomon")).args(["tor", "new", "net"]);
    let output = capture(command.current_dir(&folder).env("PATH", "/nowhere:/bin:/usr/bin"));
    assert_eq!((output.code(), output.stdout.as_str()), (2, ""), "{}", output.stderr);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("tor is neither in PATH") && output.stderr.contains("apt install tor"));

    // Where a network was made elsewhere.
    let network = Network::new(&folder, &[]);
    let experiment = network.file("gnomon.yaml");
    std::fs::write(&experiment, read(&experiment).replace("path: \"tor\"", "path: \"/nowhere/tor\"")).unwrap();
    let output = common::run(&network.folder, "gnomon.yaml", &[]);
    assert_eq!(output.code(), 2);
    assert_eq!(output.stderr.lines().count(), 1, "{}", output.stderr);
    for part in ["gnomon.yaml:", "'/nowhere/tor' does not exist", "install or build it", "used in 13 more places"] {
        assert!(output.stderr.contains(part), "'{part}' is not in: {}", output.stderr);
    }
}
