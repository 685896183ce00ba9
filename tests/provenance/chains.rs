//! What follows from what, through programs that know nothing of it.

use crate::common::{self, find_program, find_python, folder, root, run_well, wrote};
use crate::table::{Row, Table, number, word};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const REQUESTS: usize = 10_000;

/// A client's requests pass haproxy and nginx to a server in Python; thirty connections at once on each way.
fn experiment() -> Option<String> {
    let (python, haproxy, nginx) = (find_python()?, find_program("haproxy")?, find_program("nginx")?);
    let script = root().join("tests/provenance/requests.py").display().to_string();
    let (haproxy, nginx) = (haproxy.display(), nginx.display());
    Some(format!(
        r#"
general: {{ stop_time: 300 s, template_directory: template }}
network:
  graph:
    type: gml
    inline: |
      graph [
        node [ id 0 host_bandwidth_down "100 Mbit" host_bandwidth_up "100 Mbit" ]
        edge [ source 0 target 0 latency "3 ms" jitter "1 ms" packet_loss 0.001 ]
      ]
hosts:
  shop:
    network_node_id: 0
    processes: [ {{ path: {python}, args: '"{script}" serve', expected_final_state: running }} ]
  proxy:
    network_node_id: 0
    processes: [ {{ path: {nginx}, args: -p . -c nginx.conf -e error.log, expected_final_state: running }} ]
  balancer:
    network_node_id: 0
    processes: [ {{ path: {haproxy}, args: -db -f haproxy.cfg, start_time: 1 s, expected_final_state: running }} ]
  client:
    network_node_id: 0
    processes: [ {{ path: {python}, args: '"{script}" ask balancer {REQUESTS}', start_time: 2 s }} ]
"#
    ))
}

#[test]
fn every_request_is_found_again_behind_two_proxies() {
    let Some(experiment) = experiment() else {
        return common::leave_out("haproxy or nginx: tools/install-packages test");
    };
    let folder = folder("provenance-chains");
    for (host, file) in [("balancer", "haproxy.cfg"), ("proxy", "nginx.conf")] {
        let to = folder.join("template/hosts").join(host);
        fs::create_dir_all(&to).unwrap();
        fs::copy(root().join("tests/provenance").join(file), to.join(file)).unwrap();
    }
    fs::write(folder.join("chains.yaml"), experiment).unwrap();
    run_well(&folder, "chains.yaml", &["--provenance", "all", "-d", "run.data"]);
    let data = folder.join("run.data");
    assert_eq!(wrote(&data.join("hosts"), "client", "stdout"), format!("all {REQUESTS}\n"));
    let [writes, reads, causes, marks] = ["writes", "reads", "causes", "marks"].map(|name| Table::read(&data, name));
    let chains = Chains::new(&writes, &reads, &causes);

    // The last mark of a thread before a row, and its next write behind one.
    let mut marks_of: BTreeMap<(u64, u64), Vec<(u64, &str)>> = BTreeMap::new();
    for mark in &marks.rows {
        let id = number(mark, "mark");
        marks_of.entry((id >> 40, number(mark, "tid"))).or_default().push((id, word(mark, "label")));
    }
    let (mut asked, mut served) = (0, BTreeSet::new());
    for mark in &marks.rows {
        let Some(request) = word(mark, "label").strip_prefix("ask ") else { continue };
        let id = number(mark, "mark");
        let thread = |row: &&&Row| number(row, "tid") == number(mark, "tid");
        let first = chains.writes.range(id..).map(|(_, row)| row).find(thread).expect("a write behind the mark");
        let ends = chains.ends_of(first, |write| number(write, "write") >> 40 == SHOP);
        assert_eq!(ends.len(), 1, "request {request}");
        let answer = chains.writes[&ends[0]];
        let marks = &marks_of[&(SHOP, number(answer, "tid"))];
        let last = marks[marks.partition_point(|(mark, _)| *mark < ends[0]) - 1].1;
        assert_eq!(last, format!("serve {request}"));
        asked += 1;
        served.insert(ends[0]);
    }
    assert_eq!((asked, served.len()), (REQUESTS, REQUESTS));
}

#[test]
fn what_a_process_has_read_is_behind_what_another_writes_that_waited_for_its_end() {
    let python = find_python().expect("python3: tools/install-packages test");
    let folder = folder("provenance-ends");
    let script = root().join("tests/provenance/ends.py");
    let mut exec = common::gnomon();
    exec.args(["exec", "--provenance", "all", "-d", "run.data", &python]).arg(script).current_dir(&folder);
    let output = common::capture(&mut exec);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    let [writes, reads, causes] = ["writes", "reads", "causes"].map(|name| Table::read(&folder.join("run.data"), name));
    // The answer is of another process than the read of its question.
    for (bytes, asked) in [(6, 8), (7, 9)] {
        let write = writes.rows.iter().find(|row| number(row, "bytes") == bytes).expect("an answer");
        let read = reads.rows.iter().find(|row| number(row, "bytes") == asked).expect("a question");
        assert_ne!(number(write, "pid"), number(read, "pid"));
        let causes: Vec<(u64, &str)> = causes
            .rows
            .iter()
            .filter(|row| number(row, "write") == number(write, "write"))
            .map(|row| (number(row, "read"), word(row, "how")))
            .collect();
        assert_eq!(causes, [(number(read, "read"), "wake")]);
    }
}

/// gnomon-traffic marks what it asks for, serves and has got; each transfer is found at both ends.
#[test]
fn transfers_are_marked_at_both_ends() {
    const TRANSFERS: usize = 40;
    let folder = folder("provenance-transfers");
    let experiment = format!(
        r#"
general: {{ stop_time: 300 s }}
network: {{ graph: {{ type: 1_gbit_switch }} }}
hosts:
  client:
    network_node_id: 0
    processes:
    - {{ path: gnomon-traffic, args: client --server server:80 --behaviour bulk --size 60000 --count {TRANSFERS}, start_time: 1 s }}
    - {{ path: gnomon-traffic, args: client --server server:80 --behaviour bulk --size 60000 --direction upload --seed 2 --count 3, start_time: 1 s }}
  server:
    network_node_id: 0
    processes: [ {{ path: gnomon-traffic, args: 'server --listen 0.0.0.0:80', expected_final_state: running }} ]
"#
    );
    fs::write(folder.join("transfers.yaml"), experiment).unwrap();
    run_well(&folder, "transfers.yaml", &["--provenance", "all", "-d", "run.data"]);
    let data = folder.join("run.data");
    let [writes, reads, causes, marks] = ["writes", "reads", "causes", "marks"].map(|name| Table::read(&data, name));
    let chains = Chains::new(&writes, &reads, &causes);
    let (mut downloads, mut uploads, mut got) = (BTreeSet::new(), 0, 0);
    for mark in &marks.rows {
        let label = word(mark, "label");
        got += usize::from(label.starts_with("got "));
        let Some((_, line)) = label.strip_prefix("ask ").and_then(|rest| rest.split_once(' ')) else { continue };
        let served = format!("serve {line}");
        let of_server = marks.rows.iter().find(|mark| word(mark, "label") == served).expect("it is served");
        if line.starts_with("POST ") {
            uploads += 1;
            continue;
        }
        let (asked, served) = (number(mark, "mark"), number(of_server, "mark"));
        let thread = |row: &&&Row| number(row, "tid") == number(mark, "tid");
        let request = chains.writes.range(asked..).map(|(_, row)| row).find(thread).expect("a write behind the mark");
        let answers = chains.ends_of(request, |write| number(write, "write") > served);
        let first = chains.writes.range(served..).next().expect("an answer");
        assert_eq!(answers.first(), Some(first.0), "{label}");
        downloads.insert(served);
    }
    assert_eq!((downloads.len(), uploads, got), (TRANSFERS, 3, TRANSFERS + 3));
}

/// The hosts' numbers follow their names.
const SHOP: u64 = 3;

struct Chains<'a> {
    writes: BTreeMap<u64, &'a Row>,
    /// By stream and the end of what was read.
    reads: BTreeMap<(u64, u64), &'a Row>,
    /// What is known to follow from a read.
    effects: BTreeMap<u64, Vec<u64>>,
}

impl<'a> Chains<'a> {
    fn new(writes: &'a Table, reads: &'a Table, causes: &'a Table) -> Chains<'a> {
        let mut causes_of: BTreeMap<u64, usize> = BTreeMap::new();
        causes.rows.iter().for_each(|row| *causes_of.entry(number(row, "write")).or_default() += 1);
        let mut effects: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for row in &causes.rows {
            let write = number(row, "write");
            if word(row, "how") != "candidate" || causes_of[&write] == 1 {
                effects.entry(number(row, "read")).or_default().push(write);
            }
        }
        let end = |row: &Row| (number(row, "stream"), number(row, "offset") + number(row, "bytes"));
        Chains { writes: writes.by("write"), reads: reads.rows.iter().map(|row| (end(row), row)).collect(), effects }
    }

    /// The first writes on every way from this one that are what is looked for.
    fn ends_of(&self, first: &Row, wanted: impl Fn(&Row) -> bool) -> Vec<u64> {
        let (mut ends, mut ahead, mut seen) = (BTreeSet::new(), vec![first], BTreeSet::new());
        while let Some(write) = ahead.pop() {
            let (stream, start) = (number(write, "stream"), number(write, "offset"));
            let end = start + number(write, "bytes");
            let reads = self
                .reads
                .range((stream, start + 1)..)
                .take_while(|((of, _), read)| *of == stream && number(read, "offset") < end);
            for next in reads.flat_map(|(_, read)| self.effects.get(&number(read, "read"))).flatten() {
                let row = self.writes[next];
                if wanted(row) {
                    ends.insert(*next);
                } else if seen.insert(*next) && seen.len() < 20 {
                    ahead.push(row);
                }
            }
        }
        ends.into_iter().collect()
    }
}
