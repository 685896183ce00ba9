//! Markov streams: models in tgen's format, what they say, and streams that follow them.

mod common;

use common::{Manner, Proxy, Server, client_with};
use std::fmt::Write;
use std::path::Path;

/// A model's file: states by name, transitions and emissions with their attributes.
struct Graph {
    nodes: String,
    edges: String,
}

impl Graph {
    fn new() -> Self {
        let mut graph = Graph { nodes: String::new(), edges: String::new() };
        for (id, kind, name) in [("up", "observation", "+"), ("down", "observation", "-"), ("end", "observation", "F")]
        {
            graph.node(id, kind, name);
        }
        graph.node("s0", "state", "start");
        graph
    }

    fn node(&mut self, id: &str, kind: &str, name: &str) {
        let _ = writeln!(
            self.nodes,
            "<node id=\"{id}\"><data key=\"d0\">{kind}</data><data key=\"d1\">{name}</data></node>"
        );
    }

    fn transition(&mut self, from: &str, to: &str, weight: f64) {
        let data = format!("<data key=\"d2\">transition</data><data key=\"d3\">{weight}</data>");
        let _ = writeln!(self.edges, "<edge source=\"{from}\" target=\"{to}\">{data}</edge>");
    }

    /// With a delay that is always the same.
    fn emission(&mut self, from: &str, to: &str, weight: f64, micros: u32) {
        let data = format!(
            "<data key=\"d2\">emission</data><data key=\"d3\">{weight}</data><data key=\"d4\">uniform</data>\
             <data key=\"d5\">{micros}</data><data key=\"d6\">{micros}</data>"
        );
        let _ = writeln!(self.edges, "<edge source=\"{from}\" target=\"{to}\">{data}</edge>");
    }

    fn write(&self, path: &Path) {
        let keys = [
            ("d0", "node", "type", "string"),
            ("d1", "node", "name", "string"),
            ("d2", "edge", "type", "string"),
            ("d3", "edge", "weight", "double"),
            ("d4", "edge", "distribution", "string"),
            ("d5", "edge", "param_low", "double"),
            ("d6", "edge", "param_high", "double"),
        ];
        let keys: String = keys
            .iter()
            .map(|(id, of, name, kind)| {
                format!("<key id=\"{id}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>\n")
            })
            .collect();
        let text = format!(
            "<?xml version='1.0' encoding='utf-8'?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n{keys}\
             <graph edgedefault=\"directed\">\n{}{}</graph></graphml>\n",
            self.nodes, self.edges
        );
        std::fs::write(path, text).expect("a file");
    }
}

/// `up` packets of the client, then `down` of the server, each after a pause, and the end.
fn packets(up: usize, down: usize, micros: u32) -> Graph {
    let mut graph = Graph::new();
    let mut last = "s0".to_owned();
    for i in 0..=up + down {
        let id = format!("n{i}");
        graph.node(&id, "state", &id);
        graph.transition(&last, &id, 1.0);
        let observation = match i {
            i if i < up => "up",
            i if i < up + down => "down",
            _ => "end",
        };
        graph.emission(&id, observation, 1.0, micros);
        last = id;
    }
    graph
}

#[test]
fn a_stream_sends_the_packets_of_its_model_in_both_directions() {
    let mut server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    packets(3, 20, 15_000).write(&folder.path().join("packets.graphml"));
    let config = format!(
        "servers: [\"{}\"]\nbehaviours: [{{ kind: markov, packets: packets.graphml, count: 2 }}]\n",
        server.address
    );
    let run = client_with(folder.path(), &config);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run.transfers().len(), 2);
    for transfer in run.transfers() {
        assert_eq!((transfer["verified"].as_bool(), transfer["bytes"].as_u64()), (Some(true), Some(20 * 1434)));
        assert_eq!(transfer["received"], 20 * 1434);
        assert_eq!(transfer["tenths"].as_array().expect("a list").len(), 10);
        let sent = transfer["sent"].as_u64().expect("a number");
        assert!((3 * 1434..3 * 1434 + 400).contains(&sent), "{transfer}");
        // The server's packets are due 45 ms to 330 ms after the request; they cannot all have come together.
        let first = transfer["first_byte"].as_f64().expect("a number");
        let last = transfer["last_byte"].as_f64().expect("a number");
        assert!(first > 0.044 && last - first > 0.25, "{transfer}");
    }
    let request = server.line();
    assert_eq!((request["request"].as_str(), request["complete"].as_bool()), (Some("POST /stream"), Some(true)));
    assert_eq!((request["received"].as_u64(), request["sent"].as_u64()), (Some(3 * 1430), Some(20 * 1434)));
}

#[test]
fn streams_may_go_one_way_only_or_carry_nothing() {
    let server = Server::start(&[]);
    for (up, down) in [(0, 5), (5, 0), (0, 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        packets(up, down, 0).write(&folder.path().join("packets.graphml"));
        let config = format!(
            "servers: [\"{}\"]\nbehaviours: [{{ kind: markov, packets: packets.graphml, count: 1 }}]\n",
            server.address
        );
        let run = client_with(folder.path(), &config);
        assert_eq!(run.status, Some(0), "{up} {down}: {:?}", run.lines);
        assert_eq!(run.transfer()["received"], 1434 * down);
    }
}

#[test]
fn a_stream_without_an_end_goes_on_until_the_client_stops() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    let mut graph = Graph::new();
    graph.node("s1", "state", "on");
    graph.transition("s0", "s1", 1.0);
    graph.transition("s1", "s1", 1.0);
    graph.emission("s1", "down", 0.5, 100);
    graph.emission("s1", "up", 0.5, 100);
    graph.write(&folder.path().join("packets.graphml"));
    let config = format!(
        "servers: [\"{}\"]\nstop: 1 s\nbehaviours: [{{ kind: markov, packets: packets.graphml }}]\n",
        server.address
    );
    let run = client_with(folder.path(), &config);
    assert_eq!((run.status, run.transfers().len()), (Some(0), 0));
    assert_eq!(run.lines.last().expect("lines")["unfinished"], 1);
    // About 5,000 packets each way: several pieces of schedule.
    let (log, _) = server.end();
    let sent = log.iter().find(|line| line["kind"] == "request").map(|line| line["sent"].as_u64().expect("a number"));
    assert!(sent.is_some_and(|sent| sent > 2000 * 1434), "{log:?}");
}

#[test]
fn flows_of_streams_share_credentials() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|_| Manner::Forward);
    let folder = tempfile::tempdir().expect("a folder");
    packets(1, 2, 0).write(&folder.path().join("packets.graphml"));
    // Two streams, then the end: the next flow begins.
    packets(1, 1, 1000).write(&folder.path().join("streams.graphml"));
    let config = format!(
        "servers: [\"{}\"]\nsocks: {}\nisolation: flow\n\
         behaviours: [{{ kind: markov, streams: streams.graphml, packets: packets.graphml, count: 6 }}]\n",
        server.address, proxy.address
    );
    let run = client_with(folder.path(), &config);
    assert_eq!((run.status, run.transfers().len()), (Some(0), 6), "{}", run.stderr);
    let mut users: Vec<String> =
        proxy.asked().into_iter().map(|asked| asked.credentials.expect("credentials").0).collect();
    users.sort();
    assert_eq!(users, ["flow-0-1", "flow-0-1", "flow-0-2", "flow-0-2", "flow-0-3", "flow-0-3"]);
}

#[test]
fn flows_begin_when_their_model_says() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a folder");
    packets(1, 1, 0).write(&folder.path().join("packets.graphml"));
    let mut graph = Graph::new();
    graph.node("s1", "state", "on");
    graph.transition("s0", "s1", 1.0);
    graph.transition("s1", "s1", 1.0);
    graph.emission("s1", "up", 1.0, 20_000);
    graph.write(&folder.path().join("flows.graphml"));
    let config = format!(
        "servers: [\"{}\"]\nbehaviours: [{{ kind: markov, flows: flows.graphml, packets: packets.graphml, count: 5 }}]\n",
        server.address
    );
    let run = client_with(folder.path(), &config);
    assert_eq!((run.status, run.transfers().len()), (Some(0), 5));
    let starts: Vec<f64> = run.transfers().iter().map(|t| t["start"].as_f64().expect("a number")).collect();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] > 0.015), "{starts:?}");
}

#[test]
fn a_corrupt_stream_is_found() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(|_| Manner::Corrupt);
    let folder = tempfile::tempdir().expect("a folder");
    packets(1, 50, 20_000).write(&folder.path().join("packets.graphml"));
    let config = format!(
        "servers: [\"{}\"]\nsocks: {}\nbehaviours: [{{ kind: markov, packets: packets.graphml, count: 1 }}]\n",
        server.address, proxy.address
    );
    let run = client_with(folder.path(), &config);
    assert_eq!(run.status, Some(1));
    assert_eq!(
        (run.transfer()["error"]["stage"].as_str(), run.transfer()["error"]["reason"].as_str()),
        (Some("verify"), Some("corrupt"))
    );
}
