//! The same bits on every machine: digests that stand in the repository, `tests/digests/expected.toml`.
//!
//! Each experiment runs in two places: beside the test with one worker, and in memory, in a folder of another length, with two workers and
//! noise in all registers between turns. Everything that guests see of files lies in the experiment's template, so it does not matter
//! where the clone is. A digest holds for the machine's files that it was recorded with (`machine-files.tsv`): programs and libraries by their
//! build ids, others by their content. With others the two runs are still compared with each other, and what to record is printed.

mod common;

use common::tor::Network;
use common::{capture, compile_with, digest, find_program, folder, gnomon, root, run_well, stats, tree};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const EXPECTED: &str = "tests/digests/expected.toml";

/// Two hosts, 20 ms apart, of which one loses packets.
const NETWORK: &str = r#"
general: { stop_time: 120 s, template_directory: template }
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        node [ id 1 host_bandwidth_down "20 Mbit" host_bandwidth_up "5 Mbit" ]
        edge [ source 0 target 1 latency "20 ms" packet_loss 0.01 ]
      ]
"#;

fn program(name: &str) -> String {
    find_program(name).unwrap_or_else(|| panic!("{name}: tools/install-packages test")).display().to_string()
}

/// The first line that a program says of its version.
fn version(name: &str, argument: &str) -> String {
    let output = capture(Command::new(program(name)).arg(argument));
    let line = |text: &str| text.lines().next().map(str::to_owned);
    line(&output.stdout).or_else(|| line(&output.stderr)).unwrap_or_else(|| panic!("{name} {argument} says nothing"))
}

/// Runs a command that must succeed.
fn tool(command: &mut Command) {
    let output = capture(command);
    assert!(output.status.success(), "{command:?}: {}{}", output.stdout, output.stderr);
}

/// A host with one process.
fn host(name: &str, node: u32, path: &str, arguments: &str, more: &str) -> String {
    format!(
        "  {name}:\n    network_node_id: {node}\n    processes:\n    - {{ path: {path}, args: {arguments}{more} }}\n"
    )
}

/// Writes an experiment of these hosts into the folder.
fn write_experiment(folder: &Path, hosts: &str) {
    fs::write(folder.join("experiment.yaml"), format!("{NETWORK}hosts:\n{hosts}")).unwrap();
}

/// The folder of a host in the experiment's template.
fn of_host(folder: &Path, host: &str) -> PathBuf {
    let place = folder.join("template/hosts").join(host);
    fs::create_dir_all(&place).unwrap();
    place
}

/// What is known of an experiment on one kind of machine.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Record {
    /// For readers: the main programs' versions.
    with: String,
    /// As `sim-stats.json` has them: what identifies programs and libraries, and other files.
    programs: String,
    others: String,
    digest: String,
}

/// What a run gave, and on which files of the machine it depends.
struct Run {
    digest: String,
    files: serde_json::Value,
}

/// Runs an experiment in both places.
fn run_in_two_places(name: &str, folder: &Path, experiment: &str) -> Run {
    let run = |data: &Path, arguments: &[&str]| {
        if data.exists() {
            fs::remove_dir_all(data).unwrap();
        }
        let data_directory = data.to_str().expect("UTF-8");
        run_well(folder, experiment, &[&["--data-directory", data_directory], arguments].concat());
        let stats = &stats(data)["gnomon"];
        let causes: Vec<&String> = stats["interferences"].as_object().into_iter().flat_map(|all| all.keys()).collect();
        assert!(causes.is_empty(), "{name}: the machine had a say: {}", stats["interferences"]);
        (digest(data), tree(&data.join("hosts")))
    };
    let (here, files) = run(&folder.join("o"), &["--parallelism", "1"]);
    let memory = if Path::new("/dev/shm").is_dir() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
    let elsewhere = tempfile::Builder::new().prefix("gnomon-digest-").tempdir_in(memory).unwrap();
    let far = elsewhere.path().join("a folder whose name is longer than that of the other/gnomon.data");
    fs::create_dir(far.parent().expect("a parent")).unwrap();
    let (there, same) = run(&far, &["--parallelism", "2", "--soil-registers", "true"]);
    let changed = |(path, content): &(&String, &Vec<u8>)| same.get(*path) != Some(*content);
    let differing: Vec<_> = files.iter().filter(changed).map(|(path, _)| path).collect();
    assert!(differing.is_empty() && files.len() == same.len(), "{name}: not the same elsewhere: {differing:?}");
    assert_eq!(here, there, "{name}: another digest elsewhere");
    Run { digest: here, files: stats(&folder.join("o"))["gnomon"]["machine_files"].clone() }
}

/// Compares with what stands in the repository for a machine whose programs, libraries and other files are the same. For other machines it
/// prints what to record: with another library, another trajectory is right.
fn expect(name: &str, with: &str, run: &Run) {
    let text = common::read(&root().join(EXPECTED));
    let table: BTreeMap<String, Vec<Record>> = toml::from_str(&text).expect(EXPECTED);
    let here = Record {
        with: with.to_owned(),
        programs: run.files["programs_hash"].as_str().expect("a hash").to_owned(),
        others: run.files["others_hash"].as_str().expect("a hash").to_owned(),
        digest: run.digest.clone(),
    };
    let lines = format!("[[{name}]]\n{}", toml::to_string(&here).expect("TOML"));
    let records = table.get(name).map(Vec::as_slice).unwrap_or_default();
    let same_files = |record: &&Record| record.programs == here.programs && record.others == here.others;
    match records.iter().find(same_files) {
        Some(known) => assert_eq!(
            known.digest, here.digest,
            "{name}: another digest than on other machines with these files; {EXPECTED} would be\n{lines}"
        ),
        None if records.iter().any(|known| known.programs == here.programs && known.digest == here.digest) => {}
        None => {
            println!("{name}: nothing was recorded with the files of this machine; to add, to {EXPECTED}:\n{lines}")
        }
    }
}

#[test]
fn node_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/node");
    for name in ["client", "server"] {
        fs::copy(root().join("tests/languages/guest.js"), of_host(&folder, name).join("guest.js")).unwrap();
    }
    let node = program("node");
    let server = host("server", 0, &node, "guest.js serve", ", shutdown_time: 60 s");
    let client = host("client", 1, &node, "guest.js fetch server", ", start_time: 3 s");
    write_experiment(&folder, &(server + &client));
    let run = run_in_two_places("node", &folder, "experiment.yaml");
    expect("node", &version("node", "--version"), &run);
}

#[test]
fn java_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/java");
    for name in ["client", "server"] {
        let classes = of_host(&folder, name);
        tool(Command::new(program("javac")).arg("-d").arg(&classes).arg(root().join("tests/languages/Guest.java")));
    }
    let java = program("java");
    let server = host("server", 0, &java, "-cp . Guest serve", "");
    let client = host("client", 1, &java, "-cp . Guest fetch server", ", start_time: 3 s");
    write_experiment(&folder, &(server + &client));
    let run = run_in_two_places("java", &folder, "experiment.yaml");
    expect("java", &version("java", "--version"), &run);
}

#[test]
fn go_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/go");
    for name in ["client", "server"] {
        let mut build = Command::new(program("go"));
        build.args(["build", "-trimpath", "-ldflags=-s -w -buildid=", "-o"]).arg(of_host(&folder, name).join("guest"));
        build.arg(".").current_dir(root().join("tests/languages/go"));
        tool(build.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GOFLAGS", "").env("GOPROXY", "off"));
    }
    let go = |name: &str| folder.join("template/hosts").join(name).join("guest").display().to_string();
    let server = host("server", 0, &go("server"), "serve", ", shutdown_time: 60 s");
    let client = host("client", 1, &go("client"), "fetch server", ", start_time: 3 s");
    write_experiment(&folder, &(server + &client));
    let run = run_in_two_places("go", &folder, "experiment.yaml");
    expect("go", &version("go", "version"), &run);
}

#[test]
fn a_program_without_section_headers_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/stripped");
    let built = compile_with("tests/digests/stripped.c", &folder, &["-s"]);
    let mut elf = fs::read(&built).unwrap();
    // e_shoff, e_shnum and e_shstrndx of the file's header.
    elf[0x28..0x30].fill(0);
    elf[0x3c..0x40].fill(0);
    fs::write(&built, elf).unwrap();
    let mut hosts = String::new();
    for (node, name) in ["one", "two"].into_iter().enumerate() {
        let path = of_host(&folder, name).join("stripped");
        fs::copy(&built, &path).unwrap();
        hosts += &host(name, node as u32, &path.display().to_string(), "''", "");
    }
    write_experiment(&folder, &hosts);
    let run = run_in_two_places("stripped", &folder, "experiment.yaml");
    expect("stripped", &version("cc", "--version"), &run);
}

#[test]
fn a_tor_network_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/tor");
    let network = Network::new(&folder, &["--profile", "tiny"]);
    let run = run_in_two_places("tor", &network.folder, "gnomon.yaml");
    expect("tor", &version("tor", "--version"), &run);
}

/// The example, whose keys and certificates are made by guests: so they are the same everywhere, too.
#[test]
fn chromium_gives_the_bits_that_it_gives_everywhere() {
    let folder = folder("digests/chromium");
    let made = folder.join("made");
    if made.exists() {
        fs::remove_dir_all(&made).unwrap();
    }
    let mut set_up = gnomon();
    set_up.arg("exec").arg("-d").arg(&made).arg(root().join("examples/browser/set-up")).arg("out");
    tool(&mut set_up);
    let example = made.join("hosts/host/out");
    let run = run_in_two_places("chromium", &example, "browser.yaml");
    let page = common::wrote(&example.join("o/hosts"), "visitor", "stdout");
    assert!(page.contains("wasm: 42"), "{page}");
    let with = [version("chromium", "--version"), version("nginx", "-v"), version("openssl", "version")];
    let known = |line: &String| line.split(" built on ").next().unwrap_or_default().trim().to_owned();
    expect("chromium", &with.iter().map(known).collect::<Vec<_>>().join(", "), &run);
}
