//! The documents of a data directory: processed-config.yaml, tor-network.json, sim-stats.json. Each is read leniently: a
//! member that is missing or of another form is missing in the report.

use crate::run::{Attack, Bandwidths, Config, Network, NetworkHost, Outage, Provenance, Role, SimStats};
use base::StartDate;
use saphyr::{LoadableYamlNode, Yaml};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Keys of the experiment that may differ between runs of the same experiment: the seed, where files lie, and what changes
/// how a run is executed or watched but not its result.
const NOT_ESSENTIAL: [&str; 7] =
    ["seed", "data_directory", "template_directory", "parallelism", "progress", "log_level", "heartbeat_interval"];

/// Reads processed-config.yaml.
pub fn config(text: &str) -> Result<Config, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    let document = documents.first().ok_or("it is empty")?;
    let general = get(document, "general").ok_or("it has no section 'general'")?;
    let seconds = |section: Option<&Yaml>, key| text_of(get(section?, key)?).and_then(|text| seconds(&text));
    let mut hosts = BTreeMap::new();
    for (name, host) in get(document, "hosts").and_then(Yaml::as_mapping).into_iter().flatten() {
        let bandwidth = |key| text_of(get(host, key)?).and_then(|text| bits_per_second(&text));
        let bandwidths = Bandwidths { up: bandwidth("bandwidth_up"), down: bandwidth("bandwidth_down") };
        hosts.insert(text_of(name).ok_or("a host's name is no text")?, bandwidths);
    }
    Ok(Config {
        seed: get(general, "seed").and_then(text_of).and_then(|seed| seed.parse().ok()),
        stop_time_s: seconds(Some(general), "stop_time"),
        bootstrap_end_s: seconds(Some(general), "bootstrap_end_time"),
        start_date: get(general, "start_date")
            .and_then(text_of)
            .and_then(|date| StartDate::parse(&date).ok())
            .unwrap_or_default(),
        traffic_interval_s: seconds(Some(general), "heartbeat_interval"),
        hosts,
        essence: essence(text),
    })
}

/// The lines of the file but those of keys that are not essential.
fn essence(text: &str) -> String {
    let is_essential = |line: &&str| {
        let key = line.trim_start().split(':').next().unwrap_or("");
        !NOT_ESSENTIAL.contains(&key)
    };
    text.lines().filter(is_essential).collect::<Vec<_>>().join("\n")
}

fn get<'a, 'input>(node: &'a Yaml<'input>, key: &str) -> Option<&'a Yaml<'input>> {
    node.as_mapping()?.iter().find(|(name, _)| name.as_str() == Some(key)).map(|(_, value)| value)
}

/// A scalar as text, whatever it looks like; null is none.
fn text_of(node: &Yaml) -> Option<String> {
    let text = node.as_str().map(str::to_owned);
    let text = text.or_else(|| node.as_integer().map(|number| number.to_string()));
    text.or_else(|| node.as_floating_point().map(|number| number.to_string()))
}

fn seconds(text: &str) -> Option<f64> {
    base::quantity::parse_duration(text).ok().map(|duration| duration.as_nanos() as f64 / 1e9)
}

fn bits_per_second(text: &str) -> Option<f64> {
    base::quantity::parse_bandwidth(text).ok().map(|bandwidth| bandwidth.bits_per_sec() as f64)
}

#[derive(Deserialize)]
struct NetworkFile {
    profile: Option<String>,
    seed: Option<u64>,
    bootstrap_end_s: Option<f64>,
    measure_from_s: Option<f64>,
    expected_utilisation: Option<f64>,
    #[serde(default)]
    hosts: BTreeMap<String, HostFile>,
    attack: Option<AttackFile>,
}

#[derive(Deserialize)]
struct AttackFile {
    victim: String,
    start_s: f64,
    stop_s: f64,
}

#[derive(Deserialize)]
struct HostFile {
    #[serde(default)]
    role: String,
    bandwidth_up_bits: Option<f64>,
    bandwidth_down_bits: Option<f64>,
    behaviour: Option<String>,
    nickname: Option<String>,
    expected_shares: Option<[f64; 3]>,
    outages: Option<Vec<OutageFile>>,
}

#[derive(Deserialize)]
struct OutageFile {
    why: String,
    from_s: Option<f64>,
    ended_s: f64,
    until_s: Option<f64>,
}

/// Reads tor-network.json.
pub fn network(text: &str) -> Result<Network, String> {
    let file: NetworkFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let outage = |file: OutageFile| Outage {
        why: file.why,
        from_s: file.from_s.unwrap_or(file.ended_s),
        ended_s: file.ended_s,
        until_s: file.until_s,
    };
    let host = |host: HostFile| NetworkHost {
        role: Role::from_name(&host.role),
        bandwidths: Bandwidths { up: host.bandwidth_up_bits, down: host.bandwidth_down_bits },
        behaviour: host.behaviour,
        nickname: host.nickname,
        expected_shares: host.expected_shares,
        outages: host.outages.into_iter().flatten().map(outage).collect(),
    };
    Ok(Network {
        profile: file.profile,
        seed: file.seed,
        bootstrap_end_s: file.bootstrap_end_s,
        measure_from_s: file.measure_from_s,
        expected_utilisation: file.expected_utilisation,
        hosts: file.hosts.into_iter().map(|(name, file)| (name, host(file))).collect(),
        attack: file.attack.map(|AttackFile { victim, start_s, stop_s }| Attack { victim, start_s, stop_s }),
    })
}

/// Reads sim-stats.json: of any version of Gnomon, or of Shadow (which has none of this).
pub fn stats(text: &str) -> Result<SimStats, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let find = |key: &str| file.get("gnomon").and_then(|gnomon| gnomon.get(key)).or_else(|| file.get(key));
    let number = |key: &str| find(key).and_then(Value::as_f64);
    let memory = |key: &str| find("memory").and_then(|memory| memory.get(key)).and_then(Value::as_f64);
    let is_measured = |value: &f64| *value > 0.0;
    let cpu = find("cpu").and_then(Value::as_object).into_iter().flatten();
    let cpu = cpu.filter_map(|(name, value)| Some((name.strip_suffix("_s")?.to_owned(), value.as_f64()?)));
    Ok(SimStats {
        seed: find("seed").and_then(Value::as_u64),
        digest: find("digest").and_then(Value::as_str).map(str::to_owned),
        simulated_s: number("simulated_s").or_else(|| number("simulated_ns").map(|ns| ns / 1e9)),
        wall_s: number("wall_s").or_else(|| number("wall_ns").map(|ns| ns / 1e9)),
        peak_memory_bytes: memory("peak_pss_bytes")
            .filter(is_measured)
            .or(memory("peak_used_bytes").filter(is_measured)),
        peak_resident_bytes: number("max_resident_bytes").filter(is_measured),
        provenance: provenance(find("provenance"), find("version")),
        cpu: cpu.collect(),
    })
}

fn provenance(told: Option<&Value>, version: Option<&Value>) -> Provenance {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let of = |key: &str| told.and_then(|told| told.get(key));
    let words = of("command").and_then(Value::as_array).into_iter().flatten();
    let programs = of("programs").and_then(Value::as_object).into_iter().flatten();
    Provenance {
        version: text(version),
        command: words.filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        kernel: text(of("kernel")),
        processor: text(of("processor")),
        cheap_crypto: text(of("cheap_crypto")),
        programs: programs.map(|(path, program)| (path.clone(), text(program.get("sha256")))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "general:\n  stop_time: 10 min\n  bootstrap_end_time: 300 sec\n  seed: 7\n  heartbeat_interval: 2 sec\n  data_directory: \"a.data\"\n\
        hosts:\n  \"relay1\":\n    bandwidth_down: 10 Mbit\n    bandwidth_up: 5 Mbit\n\
        \x20   processes:\n    - path: \"tor\"\n  \"off\":\n    bandwidth_down: null\n    bandwidth_up: null\n    processes: []\n";

    #[test]
    fn the_experiment_gives_times_and_bandwidths() {
        let config = config(CONFIG).unwrap();
        assert_eq!((config.seed, config.stop_time_s, config.bootstrap_end_s), (Some(7), Some(600.0), Some(300.0)));
        assert_eq!(config.traffic_interval_s, Some(2.0));
        assert_eq!(config.hosts["relay1"], Bandwidths { up: Some(5e6), down: Some(10e6) });
        assert_eq!(config.hosts["off"], Bandwidths::default());
    }

    #[test]
    fn the_essence_lacks_seed_and_places() {
        let one = config(CONFIG).unwrap();
        let same = config(&CONFIG.replace("seed: 7", "seed: 8").replace("a.data", "b.data")).unwrap();
        let other = config(&CONFIG.replace("5 Mbit", "6 Mbit")).unwrap();
        assert_eq!(one.essence, same.essence);
        assert_ne!(one.essence, other.essence);
    }

    #[test]
    fn a_broken_experiment_is_told() {
        assert!(config("general: [").is_err());
        assert_eq!(config("x: 1").unwrap_err(), "it has no section 'general'");
    }

    #[test]
    fn the_network_gives_roles() {
        let network = network(
            r#"{"profile":"tiny","seed":1,"bootstrap_end_s":300,"hosts":{"relay1":{"role":"guard-exit","bandwidth_up_bits":1000000,"bandwidth_down_bits":2000000,"behaviour":null,"nickname":"nick"},"client1":{"role":"client","bandwidth_up_bits":1,"bandwidth_down_bits":1,"behaviour":"web","nickname":null}}}"#,
        )
        .unwrap();
        assert_eq!(network.hosts["relay1"].role, Role::GuardExit);
        assert_eq!(network.hosts["relay1"].bandwidths.up, Some(1e6));
        assert_eq!(network.hosts["client1"].behaviour.as_deref(), Some("web"));
        assert!(super::network("{").is_err());
    }

    #[test]
    fn counters_of_old_and_new_versions_are_read() {
        let old =
            stats(r#"{"gnomon":{"seed":1,"simulated_ns":60000000000,"wall_ns":2000000000,"max_resident_bytes":100}}"#);
        let old = old.unwrap();
        assert_eq!((old.simulated_s, old.wall_s, old.peak_resident_bytes), (Some(60.0), Some(2.0), Some(100.0)));
        let new = stats(
            r#"{"gnomon":{"seed":1,"max_resident_bytes":100},"cpu":{"guest_s":5.0,"kernel_s":1.5,"total_s":6.5},"memory":{"peak_used_bytes":900,"baseline_available_bytes":1000,"lowest_available_bytes":100},"wall_s":3.5,"simulated_s":7}"#,
        )
        .unwrap();
        assert_eq!((new.simulated_s, new.wall_s, new.peak_memory_bytes), (Some(7.0), Some(3.5), Some(900.0)));
        let names: Vec<&str> = new.cpu.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["guest", "kernel", "total"]);
    }
}
