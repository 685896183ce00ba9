//! Configurations: good ones are read, bad ones refused with place, key and remedy, all at once.

mod common;

use common::run;

fn check(config: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.yaml");
    std::fs::write(&file, config).expect("a file");
    let output = std::process::Command::new(common::PROGRAM)
        .args(["check", file.to_str().expect("UTF-8")])
        .output()
        .expect("runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).expect("UTF-8").replace("gnomon-traffic: ", "");
    (output.status.code(), text.replace(folder.path().to_str().expect("UTF-8"), "DIR"))
}

/// The messages of a bad configuration, one per line.
fn refused(config: &str) -> Vec<String> {
    let (status, text) = check(config);
    assert_eq!(status, Some(2), "{text}");
    text.lines().map(|line| line.strip_prefix("DIR/client.yaml:").unwrap_or(line).to_owned()).collect()
}

#[test]
fn the_documented_configuration_is_valid() {
    let config = "socks: 127.0.0.1:9050
isolation: transfer
control: 127.0.0.1:9051
start: 300 s
stop: 3600 s
seed: 7
servers: [server1:80, \"10.1.2.3:80\", \"[::1]:80\", abc.onion]
behaviours:
  - { kind: web, size: 320 KiB, pause: [1 s, 60 s] }
  - { kind: bulk, size: 5 MiB, count: 3, retries: 2, timeout: 5 min, stall: 0, direction: upload }
  - { kind: performance, sizes: [50 KiB, 1 MiB, 5 MiB], every: 60 s, timeouts: [15 s, 60 s, 120 s], weights: [12, 2, 1] }
";
    assert_eq!(check(config), (Some(0), "valid: DIR/client.yaml (web, bulk, performance)\n".into()));
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let config = "sock: 127.0.0.1:9050
isolation: transfers
control: nowhere:port
start: 10 parsecs
seed: -1
servers: [\"server1:99999\"]
behaviours:
  - { kind: web, size: big, pause: [60 s, 1 s], every: 60 s }
  - { kind: bulk, parallel: 0, sizes: [1] }
  - { kind: torrent }
  - { size: 5 }
  - web
";
    let expected = [
        "1:1: sock: no such key; did you mean 'socks'?",
        "2:12: isolation: 'transfers' is no isolation; did you mean 'transfer'?",
        "3:10: control: 'nowhere:port' is no host and port; write it like 'server1:80', '10.0.0.1:80' or '[::1]:80'",
        "4:8: start: 'parsecs' is no unit of time; use ns, us, ms, s, min or h, such as '10 s'",
        "5:7: seed: '-1' is no whole number from 0 on",
        "6:11: servers[0]: 'server1:99999' is no host and port; write it like 'server1:80', '10.0.0.1:80' or '[::1]:80'",
        "8:24: behaviours[0].size: 'big' is no size; write a number and a unit, such as '320 KiB' or '5 MB'",
        "8:36: behaviours[0].pause: write one time, or the shortest and the longest: 'pause: [1 s, 60 s]'",
        "8:56: behaviours[0].every: belongs to 'performance', not to 'web'; remove it",
        "9:29: behaviours[1].parallel: '0' is not between 1 and 100000",
        "9:39: behaviours[1].sizes: belongs to 'performance', not to 'bulk'; remove it",
        "10:13: behaviours[2].kind: 'torrent' is no kind of behaviour; use one of web, bulk, performance, markov",
        "11:5: behaviours[3].kind: missing; use one of web, bulk, performance, markov",
        "12:5: behaviours[4]: a mapping of keys belongs here, not 'web'",
    ];
    assert_eq!(refused(config), expected);
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        refused("servers: [a:80]\n"),
        ["1:1: behaviours: missing; add a list such as 'behaviours: [{ kind: web }]'"]
    );
    let no_server = "1:16: servers: missing; name at least one, such as 'servers: [server1:80]'";
    assert_eq!(refused("behaviours: [  { kind: web }]\n"), [no_server]);
    let no_model = "1:29: behaviours[0].packets: missing; name a GraphML file with the model of a stream's packets";
    assert_eq!(refused("{servers: [a], behaviours: [{ kind: markov }]}\n"), [no_model]);
    assert_eq!(refused(""), ["1:1: the file is empty; see 'gnomon-traffic help config'"]);
    assert!(refused("behaviours: [\n")[0].contains("not valid YAML"));
    let twice = "servers: [a]\nseed: 1\nseed: 2\nbehaviours: [{ kind: web }]\n";
    assert_eq!(refused(twice), ["3:1: 'seed' is given twice, first on line 2; remove one"]);
    let order = "servers: [a]\nstart: 10 s\nstop: 10 s\nbehaviours: [{ kind: web }]\n";
    assert_eq!(refused(order), ["3:7: stop: not after 'start'; both count from the start of the process"]);
}

#[test]
fn lists_of_performance_clients_belong_together() {
    let config = "servers: [a]\nbehaviours: [{ kind: performance, sizes: [1, 2], timeouts: [1 s] }]\n";
    assert_eq!(refused(config), ["2:60: behaviours[0].timeouts: 1 given for 2 sizes; give one for each size"]);
}

#[test]
fn options_are_refused_like_keys() {
    let cases: [(&[&str], &str); 8] = [
        (&["client"], "say what to fetch: a FILE.yaml, or --server HOST:PORT; see 'gnomon-traffic client --help'"),
        (
            &["client", "--server", "a", "--size", "big"],
            "--size: 'big' is no size; write a number and a unit, such as '320 KiB' or '5 MB'",
        ),
        (&["client", "--server", "a", "--behavior", "web"], "--behavior: no such option; did you mean 'behaviour'?"),
        (&["client", "--behaviour", "bulk"], "--server: missing; name at least one, such as 'servers: [server1:80]'"),
        (
            &["client", "x.yaml", "--size", "5"],
            "--size: describes a behaviour, and x.yaml describes them all; edit the file",
        ),
        (
            &["server", "--listen", "here"],
            "--listen: 'here' is no address and port; write it like '0.0.0.0:80' or '[::]:8080'",
        ),
        (&["clint"], "'clint' is no command; did you mean 'client'?"),
        (
            &["monitor", "--events", "CIRC,,BW"],
            "--events: '' is no event; write names of control-spec, such as 'CIRC,BW,STREAM'",
        ),
    ];
    for (args, message) in cases {
        let run = run(args);
        assert_eq!((run.status, run.stderr.as_str()), (Some(2), format!("gnomon-traffic: {message}\n").as_str()));
    }
}

#[test]
fn options_win_over_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("client.yaml");
    std::fs::write(&file, "servers: [a]\nseed: 1\nstop: 1 h\nbehaviours: [{ kind: web }]\n").expect("a file");
    let run = run(&["client", file.to_str().expect("UTF-8"), "--seed", "9", "--stop", "1 ms"]);
    assert_eq!(run.of_kind("start")[0]["seed"], 9);
}

#[test]
fn models_are_checked_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.graphml");
    std::fs::write(&model, "<graphml>\n  <graph>\n  </graph>\n</graphml>").expect("a file");
    let config = format!("servers: [a]\nbehaviours: [{{ kind: markov, packets: {} }}]\n", model.display());
    let message = refused(&config);
    assert!(message[0].starts_with("2:39: behaviours[0].packets: "), "{message:?}");
    assert!(message[0].ends_with("model.graphml:2:3: no state is named 'start'; a model begins in one"), "{message:?}");
    let missing = refused("servers: [a]\nbehaviours: [{ kind: markov, packets: none.graphml }]\n");
    assert!(missing[0].contains("none.graphml: No such file"), "{missing:?}");
}

#[test]
fn help_is_there_for_every_topic() {
    for topic in ["", "server", "client", "monitor", "config", "output"] {
        let args: Vec<&str> = ["help", topic].into_iter().filter(|word| !word.is_empty()).collect();
        let output = std::process::Command::new(common::PROGRAM).args(&args).output().expect("runs");
        assert_eq!(output.status.code(), Some(0), "{topic}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(text.lines().count() > 8 && text.lines().all(|line| line.len() <= 128), "{topic}: {text}");
    }
}
