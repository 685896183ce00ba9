//! Whole networks: what must hold for every one.

use crate::balance::{self, Position};
use crate::network::{Behaviour, Host};
use crate::{
    Amount, Attack, Error, Files, GuardPolicy, Instead, Model, Network, PathModel, Programs, Replacement, Role, Spec,
    Transport, profile, scaled,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn spec(name: &str) -> Spec {
    profile(name).expect("a profile").spec()
}

/// With one authority in place of three, whose keys are what takes longest to make.
fn quick(name: &str) -> Spec {
    let mut spec = spec(name);
    spec.relays.authorities = 1;
    spec
}

fn programs() -> Programs {
    Programs {
        tor: PathBuf::from("/usr/sbin/tor"),
        traffic: PathBuf::from("/opt/gnomon-traffic"),
        relay: PathBuf::from("/opt/gnomon-relay"),
        client: PathBuf::from("/opt/gnomon-onion-client"),
        arti: PathBuf::from("/opt/arti"),
        obfs4proxy: Some(PathBuf::from("/usr/bin/obfs4proxy")),
    }
}

fn network(spec: Spec) -> Network {
    Network::build(spec, &Model::public()).expect("a network")
}

/// Large networks, of which only the shape is looked at.
fn laid_out(spec: Spec) -> Network {
    Network::without_keys(spec, &Model::public()).expect("a network")
}

fn files(spec: Spec) -> Files {
    Files::of(&network(spec), &programs(), "gnomon tor new")
}

fn text(files: &Files, path: &str) -> String {
    let found = files.iter().find(|(name, _)| *name == Path::new(path));
    let (_, bytes) = found.unwrap_or_else(|| panic!("no file {path}"));
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn every_profile_is_possible() {
    for profile in crate::PROFILES {
        profile.spec().check().unwrap_or_else(|error| panic!("{}: {error}", profile.name));
    }
}

#[test]
fn profiles_have_the_counts_that_they_promise() {
    let tiny = spec("tiny");
    assert_eq!((tiny.relays.authorities, tiny.relays.relays(), tiny.clients.total(), tiny.tors()), (3, 6, 5, 14));
    let small = spec("paper-small");
    assert_eq!((small.servers, small.relays.relays(), small.clients.total()), (20, 18, 230));
    assert_eq!((small.bootstrap.as_secs_f64(), small.total.as_secs_f64()), (1800.0, 3600.0));
}

#[test]
fn equal_seeds_give_equal_bytes_and_other_seeds_other_ones() {
    let with_seed = |seed| Spec { seed, ..quick("bridges-onions") };
    let first = files(with_seed(7));
    assert_eq!(first, files(with_seed(7)));
    assert_ne!(text(&first, "gnomon.yaml"), text(&files(with_seed(8)), "gnomon.yaml"));
}

#[test]
fn names_addresses_and_fingerprints_are_unique_and_nicknames_are_legal() {
    let network = network(scaled(&Model::public(), 0.005, 100).expect("a fair scale"));
    let names: BTreeSet<&str> = network.hosts.iter().map(|host| host.name.as_str()).collect();
    let addresses: BTreeSet<_> = network.hosts.iter().map(|host| host.address).collect();
    assert_eq!((names.len(), addresses.len()), (network.hosts.len(), network.hosts.len()));
    let identities: Vec<&str> =
        network.hosts.iter().filter_map(|host| Some(host.identity.as_ref()?.fingerprint.as_str())).collect();
    assert_eq!(identities.iter().collect::<BTreeSet<_>>().len(), identities.len());
    // dir-spec: a nickname is 1 to 19 letters and digits.
    let illegal = names.iter().find(|name| name.len() > 19 || !name.chars().all(|c| c.is_ascii_alphanumeric()));
    assert_eq!(illegal, None);
}

#[test]
fn a_sampled_network_keeps_the_roles_shares_of_the_weight() {
    // The shares of the full network that tornettools gives for the same data.
    let published = [(Role::Guard, 0.518), (Role::Exit, 0.065), (Role::GuardExit, 0.266), (Role::Middle, 0.151)];
    let network = laid_out(scaled(&Model::public(), 0.05, 100).expect("a fair scale"));
    let weight = |role| network.with_role(role).map(|host| host.weight).sum::<u64>() as f64;
    let total: f64 = published.iter().map(|(role, _)| weight(*role)).sum();
    for (role, share) in published {
        let sampled = weight(role) / total;
        assert!((sampled - share).abs() < 0.03, "{role:?}: {sampled:.3}, published {share}");
    }
}

#[test]
fn different_seeds_sample_different_relays_of_the_same_distribution() {
    let capacity = |seed| {
        let network = laid_out(Spec { seed, ..spec("paper-small") });
        let relays = network
            .hosts
            .iter()
            .filter(|host| host.role.is_guard() || host.role.is_exit() || host.role == Role::Middle);
        relays.map(|host| host.up.bits_per_sec()).sum::<u64>() as f64
    };
    let (one, two) = (capacity(1), capacity(2));
    assert_ne!(one, two);
    assert!((one / two - 1.0).abs() < 0.4, "{one} against {two}");
}

#[test]
fn users_are_where_the_model_has_them() {
    let network = laid_out(scaled(&Model::public(), 0.1, 100).expect("a fair scale"));
    let clients = network.hosts.iter().filter(|host| host.role.behaviour().is_some());
    let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
    for host in clients {
        *counts.entry(network.geography.places[host.attachment.place].code.as_str()).or_default() += 1.0;
    }
    let total: f64 = counts.values().sum();
    // 3,906 and 1,774 of 19,396 clients in data/users.csv.
    assert!((counts["US"] / total - 0.201).abs() < 0.05, "{counts:?}");
    assert!((counts["DE"] / total - 0.091).abs() < 0.04, "{counts:?}");
}

fn refused(change: impl Fn(&mut Spec), expected: &str) {
    let mut spec = spec("tiny");
    change(&mut spec);
    match spec.check() {
        Err(Error::Input(message)) => assert!(message.contains(expected), "'{message}' lacks '{expected}'"),
        other => panic!("accepted, though '{expected}': {other:?}"),
    }
}

#[test]
fn impossible_networks_are_refused_with_what_to_give() {
    refused(|spec| spec.relays.authorities = 0, "--authorities 1");
    refused(|spec| (spec.relays.exits, spec.relays.guard_exits) = (0, 0), "--exits or --guard-exits");
    refused(|spec| (spec.relays.guards, spec.relays.guard_exits) = (0, 0), "--guards or --guard-exits");
    refused(|spec| (spec.relays.guards, spec.relays.exits, spec.relays.middles) = (0, 0, 0), "three hops");
    refused(|spec| spec.servers = 0, "--servers 1");
    refused(|spec| spec.clients.onion = 2, "--onion-services 1");
    refused(|spec| spec.clients.bridge = 2, "--bridges 1");
    refused(|spec| spec.clients = crate::ClientCounts::default(), "no client");
    refused(|spec| spec.bootstrap = base::SimDuration::from_secs(10), "--bootstrap 60 s");
    refused(|spec| spec.total = spec.bootstrap, "--duration");
    refused(|spec| spec.voting_interval = base::SimDuration::from_secs(7), "--voting-interval");
    refused(|spec| spec.clients.web = 60_000, "too many");
    refused(|spec| spec.load = Some(1.0), "--markov-clients 1");
    refused(|spec| (spec.clients.markov, spec.load) = (1, Some(0.0)), "a number up to 10");
    refused(|spec| spec.churn = Some(0.0), "or --churn alone for the public network's, 0.02");
    refused(|spec| spec.settle = base::SimDuration::from_secs(105), "a shorter --settle");
}

#[test]
fn streams_attack_exits_alone() {
    let attacked = |kind: &str, victim: &str, target: Option<&str>| {
        let mut spec = spec("tiny");
        spec.client_kind = Replacement::everywhere(Instead::Gnomon);
        spec.attack = Some(Attack {
            kind: kind.to_owned(),
            hosts: vec!["webclient1".to_owned()],
            victim: victim.to_owned(),
            count: None,
            every: None,
            start: spec.bootstrap,
            stop: spec.total,
            target: target.map(str::to_owned),
            hops: None,
        });
        Network::without_keys(spec, &Model::public()).map(|_| ()).map_err(|error| error.to_string())
    };
    let target = Some("server1:80");
    let error = attacked("streams", "middle1", target).expect_err("no exit");
    assert!(error.contains("middle1 is no exit, so no stream leaves it; name one, such as "), "{error}");
    assert!(attacked("streams", "exit1", None).expect_err("no target").contains("--attack-target HOST:PORT"));
    assert_eq!(attacked("streams", "exit1", target), Ok(()));
    assert_eq!(attacked("circuits", "middle1", None), Ok(()));
}

#[test]
fn only_what_is_used_is_written() {
    let files = files(quick("tiny"));
    let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    assert!(
        !names.iter().any(|name| name.contains("bridge") || name.contains("onion") || name.contains("graphml")),
        "{names:?}"
    );
    assert!(names.contains(&"template/hosts/authority1/keys/authority_certificate".to_owned()));
}

#[test]
fn clients_that_end_are_expected_to_and_others_to_run() {
    let tiny = text(&files(quick("tiny")), "gnomon.yaml");
    assert_eq!(tiny.matches("expected_final_state: { exited: 0 }").count(), 5);
    let endless = Spec { amount: Amount::Endless, ..quick("tiny") };
    assert!(!text(&files(endless), "gnomon.yaml").contains("exited"));
}

/// Shadow's reader wants a line for each key, knows no comments, and takes no loss for a whole number.
#[test]
fn the_graph_is_one_that_shadow_reads() {
    for paths in [PathModel::Even, PathModel::Varied] {
        let graph = text(&files(Spec { paths, ..quick("tiny") }), "network.gml");
        assert!(graph.starts_with("graph [\n") && graph.ends_with("  ]\n]\n"), "{graph}");
        for line in graph.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_fine = match words.as_slice() {
                ["]"] | ["node" | "edge", "["] => true,
                ["packet_loss", loss] => loss.contains('.'),
                [_, number] => number.parse::<u64>().is_ok() || number.starts_with('"'),
                [_, text, .., end] => text.starts_with('"') && end.ends_with('"'),
                _ => false,
            };
            assert!(is_fine, "{line}");
        }
        assert_eq!(graph.contains("jitter_step"), paths == PathModel::Varied);
        assert_eq!(graph.contains("    jitter "), paths == PathModel::Varied);
    }
}

/// In options that Shadow has too.
#[test]
fn relays_that_go_away_are_processes_one_after_the_other() {
    let spec = Spec { churn: Some(10.0), total: base::SimDuration::from_secs(600), ..quick("bridges-onions") };
    let network = network(spec.clone());
    let yaml = text(&Files::of(&network, &programs(), "gnomon tor new"), "gnomon.yaml");
    let (mut orderly, mut abrupt, mut starts) = (0, 0, 0);
    for host in &network.hosts {
        let stays = matches!(host.role, Role::Authority | Role::Bridge | Role::Server | Role::Client(_));
        assert!(!stays || host.outages.is_empty(), "{} goes away", host.name);
        starts += usize::from(host.role.runs_tor());
        for outage in &host.outages {
            *(if outage.why.is_orderly() { &mut orderly } else { &mut abrupt }) += 1;
            starts += usize::from(outage.until_s.is_some());
        }
    }
    assert!(orderly > 0 && abrupt > 0, "{orderly}, {abrupt}");
    assert_eq!(yaml.matches("shutdown_signal: SIGINT, expected_final_state: { exited: 0 }").count(), orderly);
    assert_eq!(yaml.matches("shutdown_signal: SIGKILL, expected_final_state: { signaled: SIGKILL }").count(), abrupt);
    assert_eq!(yaml.matches("<<: *tor").count(), starts);
    assert!(!text(&files(Spec { churn: None, ..spec }), "gnomon.yaml").contains("shutdown"));
}

#[test]
fn bridge_lines_name_what_the_bridge_has() {
    let files = files(quick("bridges-onions"));
    let state: serde_json::Value =
        serde_json::from_str(&text(&files, "template/hosts/bridge1/pt_state/obfs4_state.json")).expect("JSON");
    let client = text(&files, "template/hosts/bridgeclient1/torrc");
    let node = state["node-id"].as_str().expect("a node id").to_uppercase();
    assert!(client.contains(&format!("Bridge obfs4 20.6.0.1:8443 {node} cert=")), "{client}");
    let plain = self::files(Spec { transport: Transport::Plain, ..quick("bridges-onions") });
    assert!(text(&plain, "template/hosts/bridgeclient1/torrc").contains("Bridge 20.6.0.1:9001 "));
}

#[test]
fn onion_clients_know_the_services_addresses() {
    let files = files(quick("bridges-onions"));
    let address = text(&files, "template/hosts/onion1/onion-service/hostname");
    let traffic = text(&files, "template/hosts/onionclient1/traffic.yaml");
    assert!(traffic.contains(&format!("\"{}:80\"", address.trim())), "{traffic}");
}

/// A relay with most of what leaves the network makes results that are about this relay.
#[test]
fn a_relay_with_too_much_of_a_position_is_told_with_how_many_would_do() {
    let model = Model::public();
    let mut spec = spec("paper-small");
    (spec.relays.guards, spec.relays.exits, spec.relays.guard_exits, spec.relays.middles) = (6, 1, 3, 8);
    let network = laid_out(spec.clone());
    let shares = balance::shares(&network);
    let of_exits = |found: &balance::Lopsided| found.position == Position::Exit;
    let found = balance::lopsided(&shares, &model).into_iter().find(of_exits).expect("one exit of four has most");
    assert!(found.host.role.is_exit() && found.share > 0.5, "{found:?}");
    // By data/relays.csv, of 1,578 exits.
    assert!((found.in_model - 0.006).abs() < 0.001, "{found:?}");
    let (role, count) = balance::enough(&network, &model, Position::Exit).expect("more exits help");
    assert_eq!(role, Role::Exit);
    spec.relays.exits = count;
    let network = laid_out(spec);
    assert!(!balance::lopsided(&balance::shares(&network), &model).iter().any(of_exits));
}

#[test]
fn without_measured_bandwidths_all_relays_of_a_kind_count_alike() {
    let network = laid_out(quick("tiny"));
    let shares = balance::shares(&network);
    let entry = |name: &str| shares.iter().find(|shares| shares.host.name == name).expect("a relay").of_position[0];
    assert_eq!(entry("guard1"), entry("guard2"));
}

#[test]
fn clients_that_are_no_single_user_take_a_guard_for_each_circuit_unless_told_otherwise() {
    let spec = |guard_policy| {
        let mut spec = Spec { guard_policy, ..quick("bridges-onions") };
        spec.clients.markov = 1;
        spec
    };
    let kinds = ["template/conf/markov-client.torrc", "template/conf/measuring-client.torrc"];
    let fresh = files(spec(GuardPolicy::Fresh));
    assert!(kinds.iter().all(|kind| text(&fresh, kind).contains("\nUseEntryGuards 0\n")));
    assert!(!text(&fresh, "template/conf/client.torrc").contains("UseEntryGuards"), "a user keeps guards");
    assert!(text(&fresh, "template/hosts/onionclient1/torrc").contains("\nUseEntryGuards 1\n"));
    let kept = files(spec(GuardPolicy::Kept));
    assert!(kept.iter().all(|(_, bytes)| !String::from_utf8_lossy(bytes).contains("UseEntryGuards")));
}

#[test]
fn existing_folders_are_left_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let error = files(quick("tiny")).write(folder.path()).expect_err("it exists");
    assert!(error.to_string().contains("exists; remove it"), "{error}");
}

/// tor itself reads every kind of torrc.
#[test]
fn tor_takes_the_configurations() {
    if Command::new("tor").arg("--version").output().is_err() {
        return eprintln!("tor is not installed: nothing checked");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let target = folder.path().join("net");
    let network = network(quick("bridges-onions"));
    Files::of(&network, &programs(), "gnomon tor new").write(&target).expect("written");
    let mut kinds = BTreeSet::new();
    for host in network.hosts.iter().filter(|host| host.role.runs_tor()) {
        let shared = crate::torrc::shared_name(host.role);
        if !kinds.insert(shared) {
            continue;
        }
        let output = Command::new("tor")
            .args(["--verify-config", "--defaults-torrc", &format!("../../conf/{shared}"), "-f", "torrc"])
            .current_dir(target.join("template/hosts").join(&host.name))
            .output()
            .expect("tor runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("Configuration was valid"), "{}: {said}", host.name);
    }
    assert!(kinds.len() >= 7, "{kinds:?}");
}

/// As OnionPerf and tornettools have it: 12:2:1. Clients that end measure each size.
#[test]
fn measuring_clients_draw_sizes_by_onionperfs_odds() {
    let of_first = |network: &Network| {
        let client = network.with_role(Role::Client(Behaviour::Performance)).next().expect("a client");
        crate::traffic::of_client(network, client, Behaviour::Performance, 0.0)
    };
    let text = of_first(&laid_out(spec("paper-small")));
    assert!(text.contains("sizes: [50 KiB, 1 MiB, 5 MiB], weights: [12, 2, 1], every: 60 s"), "{text}");
    assert!(!of_first(&laid_out(spec("tiny"))).contains("weights"));
    let wrong = Spec { performance_weights: vec![1.0, 2.0], ..spec("paper-small") };
    assert!(wrong.check().is_err_and(|error| error.to_string().contains("2 weights for the 3 sizes")));
}

/// In step with each other they would measure one size after the other, each at one moment of a minute.
#[test]
fn at_every_moment_clients_measure_each_of_the_sizes_that_come_in_turn() {
    let network = laid_out(Spec { performance_weights: Vec::new(), ..spec("paper-small") });
    let clients: Vec<&Host> = network.with_role(Role::Client(Behaviour::Performance)).collect();
    let (mut firsts, mut thirds) = (BTreeMap::new(), [0; 3]);
    for client in &clients {
        let begin_s = crate::experiment::Times::of(&network, client).begin_s;
        let text = crate::traffic::of_client(&network, client, Behaviour::Performance, begin_s);
        let first = text.split("sizes: [").nth(1).and_then(|rest| rest.split(',').next()).expect("a size").to_owned();
        *firsts.entry(first).or_insert(0) += 1;
        thirds[(begin_s / 20.0) as usize] += 1;
    }
    assert_eq!(firsts.into_values().collect::<Vec<_>>(), [10, 10, 10]);
    assert!(thirds.iter().all(|count| *count >= 4), "{thirds:?} begin in the first, second and third 20 s");
}

#[test]
fn arti_is_told_of_the_authorities_and_has_no_control_port() {
    let spec = Spec { client_kind: Replacement::on(Instead::Arti, &["perfclient1"]), ..quick("tiny") };
    let network = network(spec);
    let files = Files::of(&network, &programs(), "gnomon tor new");
    let authority = network.with_role(Role::Authority).next().expect("an authority");
    let keys = authority.authority.as_ref().expect("keys");
    let configuration = text(&files, "template/conf/arti.toml");
    let fingerprint = &authority.identity.as_ref().expect("an identity").fingerprint;
    for part in [&keys.v3_identity, fingerprint, &keys.ed25519.base64(), "100.0.0.1:9001", "127.0.0.1:9050"] {
        assert!(configuration.contains(part), "{part} is not in: {configuration}");
    }
    let path = Path::new("template/hosts/authority1/keys/ed25519_master_id_secret_key");
    assert!(files.iter().any(|(name, bytes)| name == path && bytes == keys.ed25519.secret_file()));
    let experiment = text(&files, "gnomon.yaml");
    assert!(experiment.contains("x-arti: &arti\n  path: \"/opt/arti\""), "{experiment}");
    assert_eq!(experiment.matches("<<: *arti").count(), 1);
    assert!(!text(&files, "template/hosts/perfclient1/traffic.yaml").contains("control:"));
    assert!(text(&files, "template/hosts/perfclient2/traffic.yaml").contains("control:"));
    let has = |name: &str| files.iter().any(|(path, _)| path == Path::new(name));
    assert!(!has("template/hosts/perfclient1/torrc") && has("template/hosts/perfclient2/torrc"));
    let without = self::files(quick("tiny"));
    assert!(
        without.iter().all(|(name, _)| !name.ends_with("ed25519_master_id_secret_key") && !name.ends_with("arti.toml"))
    );
}
