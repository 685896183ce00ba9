//! What the two network models do to datagrams of real programs: their rules are tested beside them, `docs/network-model.md` says them.

mod common;

use common::{compile, folder, run_well, tree, wrote};
use std::fs;

/// Two hosts 20 ms apart on 1 Mbit/s; `LOSS` and `JITTER` are the way's, `STEP` the graph's, `OPTIONS` the experiment's.
const EXPERIMENT: &str = r#"
general: { stop_time: 5 s, data_directory: run.data }
experimental: { OPTIONS }
# One host reads on its clock when another's datagrams come.
host_option_defaults: { clock_offset: 0 }
network:
  graph:
    type: gml
    inline: |
      graph [ STEP
        node [ id 0 host_bandwidth_down "1 Mbit" host_bandwidth_up "1 Mbit" ]
        node [ id 1 host_bandwidth_down "1 Mbit" host_bandwidth_up "1 Mbit" ]
        edge [ source 0 target 1 latency "20 ms" jitter "JITTER" packet_loss LOSS ]
      ]
hosts:
  receiver:
    network_node_id: 0
    ip_addr: 11.0.0.1
    processes:
    - { path: PROGRAM, args: from, expected_final_state: running }
  sender:
    network_node_id: 1
    ip_addr: 11.0.0.2
    processes:
    - { path: PROGRAM, args: to 11.0.0.1 SIZES }
"#;

/// What the receiver of a program in `tests/guest-programs/network` writes, in the experiment with these values.
fn received(name: &str, source: &str, values: &[(&str, &str)]) -> String {
    let folder = folder(&format!("network-model/{name}"));
    let program = compile(&format!("tests/guest-programs/network/{source}"), &folder);
    let text = EXPERIMENT.replace("PROGRAM", program.to_str().expect("UTF-8"));
    let text = values.iter().fold(text, |text, (from, to)| text.replace(from, to));
    fs::write(folder.join("pair.yaml"), text).expect("the experiment's file");
    run_well(&folder, "pair.yaml", &[]);
    wrote(&folder.join("run.data/hosts"), "receiver", "stdout")
}

/// When datagrams of these sizes come, in microseconds since they were sent, and their sizes.
fn arrivals(name: &str, model: &str, way: (&str, &str), sizes: &[usize]) -> Vec<(u64, usize)> {
    arrivals_with("", name, model, way, sizes)
}

/// With an attribute of the whole graph.
fn arrivals_with(
    step: &str,
    name: &str,
    model: &str,
    (loss, jitter): (&str, &str),
    sizes: &[usize],
) -> Vec<(u64, usize)> {
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    let options = format!("network_model: {model}");
    let values =
        [("OPTIONS", &*options), ("LOSS", loss), ("JITTER", jitter), ("STEP", step), ("SIZES", &sizes.join(" "))];
    let lines = received(&format!("{name}-{model}"), "burst.c", &values);
    let of = |line: &str| {
        let (time, size) = line.split_once(' ').expect("two numbers");
        (time.parse::<u64>().expect("a time") - 1_000_000, size.parse().expect("a size"))
    };
    lines.lines().map(of).collect()
}

const FULL: usize = 1_472;
const NOTHING: (&str, &str) = ("0.0", "0 ms");

#[test]
fn lines_are_serial_or_token_buckets() {
    // 12 ms for each packet, on one line.
    let expected: Vec<(u64, usize)> = (1..=5).map(|i| (20_000 + 12_000 * i, FULL)).collect();
    assert_eq!(arrivals("lines", "gnomon", NOTHING, &[FULL; 5]), expected);
    // The first at once, since the bucket holds 1,625 bytes; 125 come each millisecond.
    let expected: Vec<(u64, usize)> = [0, 11, 23, 35, 47].map(|ms| (20_000 + 1_000 * ms, FULL)).to_vec();
    assert_eq!(arrivals("lines", "shadow", NOTHING, &[FULL; 5]), expected);
}

#[test]
fn only_gnomon_loses_packets_without_payload() {
    let sizes = [0, 1, 0, 1_000, 0];
    assert_eq!(arrivals("loss", "gnomon", ("1.0", "0 ms"), &sizes), []);
    let came: Vec<usize> = arrivals("loss", "shadow", ("1.0", "0 ms"), &sizes).iter().map(|(_, size)| *size).collect();
    assert_eq!(came, [0, 0, 0]);
}

#[test]
fn only_gnomon_knows_jitter() {
    let first = |model| arrivals("jitter", model, ("0.0", "10 ms"), &[100])[0].0;
    assert_eq!(first("shadow"), 20_000);
    assert!((21_025..31_025).contains(&first("gnomon")), "{}", first("gnomon"));
}

/// Packets with jitters of their own overtake each other; a delay that drifts keeps their order, and Shadow's model has none.
#[test]
fn jitter_with_a_step_drifts() {
    let sizes: Vec<usize> = (100..250).collect();
    let order = |came: &[(u64, usize)]| came.iter().map(|(_, size)| *size).collect::<Vec<usize>>();
    let independent = arrivals("own-jitter", "gnomon", ("0.0", "10 ms"), &sizes);
    assert_ne!(order(&independent), sizes);
    let step = "jitter_step \"50 ms\"";
    let drifting = arrivals_with(step, "drift", "gnomon", ("0.0", "10 ms"), &sizes);
    assert_eq!(order(&drifting), sizes);
    // A packet of 100 bytes takes 1,024 us, each further one 8 more.
    let delays: Vec<u64> = drifting
        .iter()
        .scan(0, |sent, (at, size)| {
            *sent += (size + 28) as u64 * 8;
            Some(at - *sent)
        })
        .collect();
    assert!(delays.iter().all(|delay| (20_000..=30_000).contains(delay)), "{delays:?}");
    // By a fifth of the time that has passed at most; where it falls, the line at the end keeps packets as far apart as they were.
    assert!(delays.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 500), "{delays:?}");
    assert!(delays.iter().max().unwrap() - delays.iter().min().unwrap() > 500, "{delays:?}");
    let shadow = arrivals_with(step, "drift", "shadow", ("0.0", "10 ms"), &[100]);
    assert_eq!(shadow, [(20_000, 100)]);
}

/// Hosts with their addresses: three at the sender's node, of which one is in another network, and one elsewhere.
const LISTENERS: [(&str, u32, &str); 4] =
    [("near", 1, "11.0.0.3"), ("near-elsewhere", 1, "11.0.9.3"), ("far", 0, "11.0.0.4"), ("sender", 1, "11.0.0.2")];

/// Who hears a datagram to this address.
fn hears(name: &str, address: &str) -> Vec<&'static str> {
    let folder = folder(&format!("network-model/{name}"));
    let program = compile("tests/guest-programs/network/burst.c", &folder);
    let program = program.to_str().expect("UTF-8");
    let (head, _) = EXPERIMENT.split_once("hosts:").expect("hosts");
    let ways = "edge [ source 1 target 1 latency \"1 ms\" ]\n        edge [ source 0 target 1";
    let mut text = head.replace("STEP", "").replace("OPTIONS", "").replace("LOSS", "0.0").replace("JITTER", "0 ms");
    text = text.replace("edge [ source 0 target 1", ways) + "hosts:\n";
    for (name, node, own) in LISTENERS {
        let mut processes = format!("{{ path: {program}, args: from, expected_final_state: running }}");
        if name == "sender" {
            processes += &format!(", {{ path: {program}, args: to {address} 100 }}");
        }
        text += &format!("  {name}: {{ network_node_id: {node}, ip_addr: {own}, processes: [{processes}] }}\n");
    }
    fs::write(folder.join("burst.yaml"), text).expect("the experiment's file");
    run_well(&folder, "burst.yaml", &[]);
    let heard =
        |host: &str| tree(&folder.join("run.data/hosts").join(host)).values().any(|text| text.ends_with(b" 100\n"));
    LISTENERS.iter().map(|(name, ..)| *name).filter(|name| heard(name)).collect()
}

#[test]
fn a_broadcast_reaches_the_hosts_of_its_node() {
    assert_eq!(hears("everybody", "255.255.255.255"), ["near", "near-elsewhere", "sender"]);
    assert_eq!(hears("network", "11.0.0.255"), ["near", "sender"]);
}

/// As on Linux the first small write leaves at once, and the others together when it is acknowledged; without the rule all leave at once.
#[test]
fn small_writes_wait_for_acknowledgements_unless_told_not_to() {
    let last_after = |nagle: &str| {
        let options = format!("tcp_nagle: {nagle}");
        let values = [("OPTIONS", &*options), ("LOSS", "0.0"), ("JITTER", "0 ms"), ("STEP", ""), ("SIZES", "")];
        let lines = received(&format!("nagle-{nagle}"), "trickle.c", &values);
        let last = lines.lines().last().and_then(|line| line.split_once(' ')).expect("a time and a size");
        last.0.parse::<u64>().expect("a time")
    };
    // An acknowledgement of 52 bytes, and 452 bytes of what waited, each 20 ms under way and 8 us a byte on its line.
    assert_eq!(last_after("true"), 40_000 + 8 * (52 + 452));
    // At most the time of the four on the line.
    assert!(last_after("false") <= 8 * 4 * 152, "nothing waits");
}
