//! KIST, tor's scheduler, as it is known from the literature: it asks the kernel how much each connection can take and keeps the rest in
//! tor, where circuits that send little go first.
//!
//! Jansen et al., "KIST: Kernel-Informed Socket Transport for Tor" (ACM TOPS 22(1), 2018; first "Never Been KIST", USENIX Security 2014):
//! without it (Schedulers Vanilla), congestion of relays lies in the kernel's send buffers, where all circuits of a connection queue up
//! one behind the other. With it these stay short, and interactive traffic gets faster while the network carries as much.
//!
//! The network here has one way through it: server, exit, middle relay, guard, clients. The guard's downlink is slow, so the middle's
//! connection to it is where everything waits.

mod common;

use common::tor::{Network, Run, Transfer, median};
use common::{compile_library, folder, read};
use std::collections::BTreeMap;

const GUARD_MBIT: u64 = 10;
/// Clients begin after 75 s and fill the network by then; in seconds.
const FULL_S: u64 = 85;
const STOP_S: u64 = 160;

/// What came of the network with one of the schedulers.
struct Outcome {
    run: Run,
    web: Vec<Transfer>,
    /// Of the bytes that the middle's kernel held for the guard: all, and those not sent yet. Medians of samples.
    queued: f64,
    unsent: f64,
    /// What the guard received while the network was full, in bits per second.
    received: f64,
}

fn outcome(scheduler: &str) -> Outcome {
    let folder = folder(&format!("tor-scheduler/{scheduler}"));
    let probe = compile_library("tests/tor/kernel_queues.c", &folder);
    let counts = "--authorities 1 --guards 1 --middles 1 --exits 1 --guard-exits 0 --servers 1 --performance-clients 0 --web-clients 4 \
                  --bulk-clients 6 --amount endless";
    let mut arguments: Vec<&str> = counts.split_whitespace().collect();
    let stop = format!("{STOP_S} s");
    arguments.extend(["--relay-bandwidth", "1 Gbit", "--server-bandwidth", "1 Gbit", "--bulk-size", "1 MiB"]);
    arguments.extend(["--client-link", "fast:1 Gbit:1 Gbit", "--duration", &stop, "--scheduler", scheduler]);
    let network = Network::new(&folder, &arguments);
    network.set_latencies(20);
    network.change_host("guard1", "bandwidth_down: 1 Gbit", &format!("bandwidth_down: {GUARD_MBIT} Mbit"));
    let preload = format!("<<: *tor, environment: {{ LD_PRELOAD: \"{}\" }}", probe.display());
    network.change_host("middle1", "<<: *tor", &preload);
    network.append(
        "template/conf/client.torrc",
        "ConfluxEnabled 0\nEntryNodes guard1\nMiddleNodes middle1\nExitNodes exit1\n",
    );
    network.append("template/conf/relay.torrc", "Log [sched]info file scheduler.log\n");
    for client in 1..=4 {
        let behaviour = "behaviours: [{ kind: web, pause: [1 s, 2 s] }]";
        let common = "socks: 127.0.0.1:9050\nisolation: transfer\nservers: [\"60.0.0.1:80\"]";
        network.set_traffic(&format!("webclient{client}"), &format!("{common}\nseed: {client}\n{behaviour}\n"));
    }
    let run = network.run(&[]);
    let (queued, unsent) = queues(&run);
    let web =
        run.clients().into_iter().filter(|host| host.starts_with("web")).flat_map(|host| run.finished(host)).collect();
    let received = received(&run);
    Outcome { run, web, queued, unsent, received }
}

/// The middle's send buffers towards the guard, from the probe's samples.
fn queues(run: &Run) -> (f64, f64) {
    let text = read(&run.data.join("hosts/middle1/queues"));
    // tor may have two connections to the guard, of which one is in use.
    let mut samples: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for line in text.lines() {
        let [time, peer, queued, unsent] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        if peer == "20.0.0.1" && number(time) >= EPOCH_S + FULL_S as f64 {
            let sample = samples.entry(time).or_default();
            *sample = (sample.0 + number(queued), sample.1 + number(unsent));
        }
    }
    assert!(samples.len() > 400, "{} samples", samples.len());
    (median(samples.values().map(|sample| sample.0)), median(samples.values().map(|sample| sample.1)))
}

/// When simulations begin: 2000-01-01, in seconds since 1970.
const EPOCH_S: f64 = 946_684_800.0;

fn received(run: &Run) -> f64 {
    let mut bytes = 0;
    for line in read(&run.data.join("host-traffic.csv")).lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[1] == "guard1" && fields[0].parse::<f64>().expect("seconds") > FULL_S as f64 {
            bytes += fields[2].parse::<u64>().expect("bytes");
        }
    }
    8.0 * bytes as f64 / (STOP_S - FULL_S) as f64
}

#[test]
fn kist_keeps_the_kernels_queues_short_and_lets_the_web_go_first() {
    let [kist, vanilla] = ["kist", "vanilla"].map(outcome);
    let log = |outcome: &Outcome| read(&outcome.run.data.join("hosts/guard1/scheduler.log"));
    assert!(log(&kist).contains("Setting KIST scheduler with kernel support"), "{}", log(&kist));
    assert!(!log(&kist).contains("fallback") && !log(&vanilla).contains("KIST scheduler"));
    // For TCP_INFO, of each connection each time that KIST runs.
    let [asked, not] = [&kist, &vanilla].map(|of| of.run.stats()["syscalls"]["getsockopt"].as_u64().expect("a count"));
    assert!(asked > 10_000 && not < asked / 10, "getsockopt: {asked} with KIST, {not} with Vanilla");
    let show = |name: &str, of: &Outcome| {
        let (first, last) =
            (median(of.web.iter().map(Transfer::response)), median(of.web.iter().map(|web| web.last_byte)));
        println!(
            "{name}: kernel holds {:.0} bytes, {:.0} unsent; {} pages, first byte {first:.3} s, last {last:.3} s; {:.2} Mbit/s",
            of.queued,
            of.unsent,
            of.web.len(),
            of.received / 1e6
        );
        (first, last)
    };
    let (kist_first, kist_last) = show("KIST", &kist);
    let (vanilla_first, vanilla_last) = show("Vanilla", &vanilla);
    // KIST lets the kernel have what TCP's window can send, and as much again.
    assert!(kist.queued < 0.5 * vanilla.queued, "the kernel's queue is short");
    assert!(kist.unsent < 0.3 * vanilla.unsent, "the kernel has little that it cannot send");
    // A page's request waits for no bulk.
    assert!(kist_first < 0.7 * vanilla_first && kist_last < 0.8 * vanilla_last, "the web is faster");
    assert!(kist.web.len() > vanilla.web.len(), "so that more pages are fetched");
    // Neither wastes the line.
    let line = GUARD_MBIT as f64 * 1e6;
    for of in [&kist, &vanilla] {
        assert!((0.85..1.01).contains(&(of.received / line)), "{} bits per second", of.received);
    }
}
