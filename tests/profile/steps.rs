//! `gnomon run --profile=steps`: counts that are the same in every run, and say of a change where it is.

use crate::common::{capture, compile_with, digest, find_python, folder, gnomon, root, run_well};
use profile::{Kind, Profile, Unit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An experiment with a host for each command line.
fn experiment(folder: &Path, hosts: &[(&str, String)]) -> String {
    let mut text =
        "general: { stop_time: 60 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n"
            .to_owned();
    for (name, command) in hosts {
        let (path, arguments) = command.split_once(' ').unwrap_or((command, ""));
        text += &format!("  {name}: {{ network_node_id: 0, processes: [{{ path: {path}, args: '{arguments}' }}] }}\n");
    }
    let file = folder.join("experiment.yaml");
    std::fs::write(&file, text).unwrap();
    "experiment.yaml".to_owned()
}

/// Runs it, and leaves the data directory under a name of its own.
fn counted(folder: &Path, experiment: &str, arguments: &[&str], name: &str) -> PathBuf {
    let data = folder.join(name);
    run_well(folder, experiment, &[arguments, &["--data-directory", name]].concat());
    data
}

fn files(data: &Path) -> BTreeMap<String, Vec<u8>> {
    let names = ["samples.parquet", "stacks.parquet", "frames.parquet", "outputs.parquet", "profile.json"];
    names.map(|name| (name.to_owned(), std::fs::read(data.join("profile").join(name)).unwrap())).into()
}

/// Of the instructions of a host, those with a function on the stack.
fn instructions(profile: &Profile, host: &str, function: &str) -> u64 {
    let rows = profile.rows.iter().filter(|row| profile.host(row) == host);
    rows.filter(|row| profile.stack(row).any(|known| known.name == function)).map(|row| row.weight_ns).sum()
}

fn compiled(folder: &Path, source: &str, flags: &[&str]) -> String {
    let source = root().join("tests/profile").join(source);
    compile_with(source.to_str().unwrap(), folder, &[&["-O1", "-g"], flags].concat()).display().to_string()
}

fn script() -> String {
    let python = find_python().expect("python3: tools/install-packages test");
    format!("{python} \"{}\"", root().join("tests/profile/layers.py").display())
}

#[test]
fn counts_are_the_same_in_every_run_and_change_nothing() {
    let folder = folder("profile-steps-same");
    let mut strange = compiled(&folder, "strange.c", &["-pthread"]);
    if !capture(Command::new("timeout").args(["5", &strange, "traps"])).status.success() {
        println!("this machine does not come back from an int1: left out");
        strange += " without-int1";
    }
    let hosts = [("one", strange.clone()), ("two", strange), ("snake", format!("{} 1 2 1", script()))];
    let experiment = experiment(&folder, &hosts);
    let plain = counted(&folder, &experiment, &[], "plain.data");
    let printed = std::fs::read_to_string(plain.join("hosts/one/strange.1000.stdout")).unwrap();
    let mut first = None;
    for workers in ["1", "2", "3"] {
        let arguments = ["--profile=steps:60000", "--parallelism", workers];
        let data = counted(&folder, &experiment, &arguments, &format!("{workers}.data"));
        assert_eq!(digest(&data), digest(&plain), "{workers} workers");
        let told = std::fs::read_to_string(data.join("hosts/one/strange.1000.stdout")).unwrap();
        assert_eq!(told, printed);
        assert!(told.contains("20 traps, the trap flag was not seen"), "{told}");
        let files = files(&data);
        let known = first.get_or_insert_with(|| files.clone());
        for (name, bytes) in &files {
            assert!(known[name] == *bytes, "{name} differs with {workers} workers");
        }
    }
    let profile = Profile::read(&folder.join("1.data")).unwrap();
    let steps = profile.about.steps.as_ref().unwrap();
    assert_eq!((profile.about.unit, steps.budget), (Unit::Instructions, 60_000));
    assert!(steps.cut > 0 && steps.counted < steps.intervals, "{steps:?}");
    assert!(steps.instructions > 60_000 && steps.steps < 3 * (60_000 + 60_000 / 8), "{steps:?}");
    // What is counted while one of two, of four, ... is weighs as much more.
    assert!(profile.weight_ns() > steps.instructions, "{} and {steps:?}", profile.weight_ns());
}

#[test]
fn instructions_follow_the_number_of_layers() {
    let folder = folder("profile-steps-layers");
    let layers = compiled(&folder, "layers.c", &[]);
    let packets = 5;
    let host = |name: &'static str, command: String| (name, command);
    let experiment = experiment(
        &folder,
        &[
            host("c1", format!("{layers} 1 {packets}")),
            host("c2", format!("{layers} 2 {packets}")),
            host("c3", format!("{layers} 3 {packets}")),
            host("p1", format!("{} 1 2 1", script())),
            host("p2", format!("{} 2 2 1", script())),
            host("p3", format!("{} 3 2 1", script())),
        ],
    );
    let data = counted(&folder, &experiment, &["--profile=steps:1000000,from=1s"], "run.data");
    let profile = Profile::read(&data).unwrap();
    // By hand from the machine code: the same number of instructions for each layer.
    let native: Vec<u64> = ["c1", "c2", "c3"].map(|host| instructions(&profile, host, "encrypt")).into();
    assert!(native[0] > packets * 200 * 4, "{native:?}");
    assert_eq!(native, [native[0], 2 * native[0], 3 * native[0]], "exactly linear");
    for host in ["c1", "c2", "c3"] {
        assert_eq!(instructions(&profile, host, "check"), instructions(&profile, "c1", "check"));
    }
    // Numbers of more than one digit and what OpenSSL does about its locks differ a little from layer to layer.
    for function in ["encrypt", "digest"] {
        let [one, two, three] = ["p1", "p2", "p3"].map(|host| instructions(&profile, host, function) as f64);
        assert!(one > 2_000.0, "{function}: {one}");
        assert!((two / one / 2.0 - 1.0).abs() < 0.02, "{function}: {one}, {two}");
        assert!((three / one / 3.0 - 1.0).abs() < 0.02, "{function}: {one}, {three}");
    }
    assert!(profile.rows.iter().all(|row| profile.stack(row).next().is_some()));
    let python = profile.functions.iter().find(|function| function.kind == Kind::Python && function.name == "encrypt");
    assert_eq!(python.map(|function| function.line), Some(8));
    shown(&data);
}

/// `gnomon profile` tells instructions, everywhere.
fn shown(data: &Path) {
    let run = data.to_str().unwrap();
    let tell = |arguments: &[&str]| {
        let output = capture(gnomon().arg("profile").args(arguments));
        assert_eq!(output.code(), 0, "{}", output.stderr);
        output.stdout
    };
    let told = tell(&["--host", "c3", "--per", "packet=5", run]);
    assert!(told.contains("own instructions/packet") && told.contains("encrypt (layers)"), "{told}");
    let page = std::fs::read_to_string(data.join("profile/page/index.html")).unwrap();
    assert!(page.contains("instructions/packet (") && page.contains("counted one by one"));
    let file = data.join("profile/stacks.txt");
    tell(&["--export", "collapsed", "--host", "c1", "-o", file.to_str().unwrap(), run]);
    let profile = Profile::read(data).unwrap();
    let all: u64 = profile.rows.iter().filter(|row| profile.host(row) == "c1").map(|row| row.weight_ns).sum();
    let text = std::fs::read_to_string(file).unwrap();
    let sum: u64 = text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, all);
}

/// The functions of the table of differences.
fn changed(folder: &Path, before: &Path, after: &Path) -> Vec<String> {
    let page = folder.join("page");
    let output = capture(
        gnomon().arg("profile").args(["-o", page.to_str().unwrap()]).arg(before).arg(after).current_dir(folder),
    );
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let table = output.stdout.split("Functions that differ, ").nth(1).unwrap_or_else(|| panic!("{}", output.stdout));
    let rows = table.lines().skip(2).take_while(|line| !line.is_empty());
    rows.map(|line| line.split("  ").next().unwrap().to_owned()).collect()
}

#[test]
fn a_function_that_was_changed_is_all_that_differs() {
    let folder = folder("profile-steps-changed");
    let run = |name: &str, flags: &[&str], rounds: u32| {
        // Paths of the same length: programs see them.
        let own = folder.join(name);
        std::fs::create_dir_all(&own).unwrap();
        let native = compiled(&own, "layers.c", flags);
        let hosts = [("native", format!("{native} 2 5")), ("snake", format!("{} 1 2 {rounds}", script()))];
        let experiment = experiment(&own, &hosts);
        counted(&own, &experiment, &["--profile=steps,from=1s"], &format!("{name}.data"))
    };
    let (before, same, after) = (run("1", &[], 1), run("2", &[], 1), run("3", &["-DCHANGED"], 2));
    assert_eq!(changed(&folder, &before, &same), [""; 0]);
    assert_eq!(changed(&folder, &before, &after), ["check (layers.py:20)", "check (layers)"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder("profile-steps-refused");
    let shell = experiment(&folder, &[("one", "/bin/true".to_owned())]);
    counted(&folder, &shell, &["--profile=steps"], "steps.data");
    counted(&folder, &shell, &["--profile"], "samples.data");
    let text = std::fs::read_to_string(folder.join(&shell)).unwrap();
    let fast = text.replace("network_node_id: 0,", "network_node_id: 0, host_options: { cpu_speed: 1.0 },");
    std::fs::write(folder.join("fast.yaml"), fast).unwrap();
    for (arguments, told) in [
        (vec!["run", "--profile=steps:7", "experiment.yaml"], "write steps, steps:5000000, steps:5000000,from=30s"),
        (vec!["run", "--profile=steps,from=soon", "experiment.yaml"], "write a time such as \"10 ms\""),
        (
            vec!["run", "--profile=steps", "fast.yaml"],
            "cpu_speed of host 'one' makes that simulated time: leave out cpu_speed",
        ),
        (vec!["profile", "steps.data", "samples.data"], "make both with the same --profile"),
    ] {
        let output = capture(gnomon().args(&arguments).current_dir(&folder));
        assert_eq!(output.code(), 2, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(told), "{arguments:?}: {}", output.stderr);
    }
}
