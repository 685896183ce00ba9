//! Data directories as runs leave them, made up: formats as gnomon-traffic, tor and the simulator write them, numbers from a
//! small generator of random numbers.

use parquet::basic::{Repetition, Type as Physical};
use parquet::data_type::Int64Type;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const EPOCH: f64 = 946_684_800.0;

/// How the made-up network behaves.
#[derive(Clone, Debug)]
pub struct Network {
    pub seed: u64,
    pub relays: usize,
    pub clients: usize,
    pub duration_s: f64,
    pub bootstrap_end_s: f64,
    /// Times of transfers are multiplied by it.
    pub slowness: f64,
    /// Share of transfers that fail.
    pub failing: f64,
    /// What differs between experiments, in torrc.
    pub scheduler: &'static str,
}

impl Network {
    pub fn tiny(seed: u64) -> Network {
        Network {
            seed,
            relays: 6,
            clients: 5,
            duration_s: 900.0,
            bootstrap_end_s: 300.0,
            slowness: 1.0,
            failing: 0.01,
            scheduler: "KIST",
        }
    }
}

/// A pseudo-random sequence (Knuth's MMIX constants), good enough for made-up numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        for _ in 0..8 {
            random.uniform();
        }
        random
    }

    /// Between 0 and 1.
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around 1, with a tail to the right.
    pub fn skewed(&mut self, spread: f64) -> f64 {
        let normal = (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0;
        (normal * spread).exp()
    }
}

struct Host {
    name: String,
    role: &'static str,
    behaviour: Option<&'static str>,
    bandwidth: u64,
}

fn hosts(network: &Network, random: &mut Random) -> Vec<Host> {
    let mut hosts = Vec::new();
    let mut add = |name: String, role, behaviour, bandwidth| hosts.push(Host { name, role, behaviour, bandwidth });
    (1..=3).for_each(|i| add(format!("authority{i}"), "authority", None, 50_000_000));
    for i in 1..=network.relays {
        let role = ["guard", "exit", "middle", "guard-exit"][i % 4];
        add(format!("relay{i}"), role, None, (2e6 * random.skewed(0.8)) as u64 + 500_000);
    }
    for i in 1..=network.clients {
        let behaviour = ["performance", "web", "bulk", "web", "web"][i % 5];
        add(format!("client{i}"), "client", Some(behaviour), 20_000_000);
    }
    (1..=2).for_each(|i| add(format!("server{i}"), "server", None, 1_000_000_000));
    hosts
}

/// Writes a whole data directory.
pub fn write(folder: &Path, network: &Network) {
    let mut random = Random::new(network.seed);
    let hosts = hosts(network, &mut random);
    for host in &hosts {
        let place = folder.join("hosts").join(&host.name);
        fs::create_dir_all(&place).unwrap();
        if host.role != "server" {
            fs::write(place.join("torrc"), format!("Schedulers {}\n", network.scheduler)).unwrap();
            fs::write(place.join("tor.1000.stdout"), tor_log(host, &mut random)).unwrap();
        }
        if let Some(behaviour) = host.behaviour {
            fs::write(place.join("gnomon-traffic.1001.stdout"), traffic(behaviour, network, &mut random)).unwrap();
        }
    }
    fs::write(folder.join("processed-config.yaml"), config(network, &hosts)).unwrap();
    fs::write(folder.join("tor-network.json"), description(network, &hosts)).unwrap();
    fs::write(folder.join("sim-stats.json"), stats(network)).unwrap();
    fs::write(folder.join("progress.csv"), progress(network, &mut random)).unwrap();
    windows(&folder.join("windows.parquet"), network.duration_s);
    fs::write(folder.join("host-traffic.csv"), host_traffic(network, &hosts, &mut random)).unwrap();
}

fn clock(seconds: f64) -> String {
    let whole = seconds as u64;
    format!("Jan 01 {:02}:{:02}:{:06.3}", whole / 3600, whole / 60 % 60, seconds % 60.0)
}

fn tor_log(host: &Host, random: &mut Random) -> String {
    let begin = if host.role == "authority" { 1.0 } else { 5.0 + 20.0 * random.uniform() };
    let done = begin + 20.0 * random.skewed(0.5) + if host.role == "client" { 60.0 } else { 0.0 };
    let mut log = format!("{} [notice] Bootstrapped 0% (starting): Starting\n", clock(begin));
    let _ = writeln!(
        log,
        "{} [warn] You are running Tor as root. You don't need to, and you probably shouldn't.",
        clock(begin)
    );
    let _ = writeln!(
        log,
        "{} [notice] Bootstrapped 50% (loading_descriptors): Loading relay descriptors",
        clock(done - 1.0)
    );
    let _ = writeln!(log, "{} [notice] Bootstrapped 100% (done): Done", clock(done));
    log
}

fn traffic(behaviour: &str, network: &Network, random: &mut Random) -> String {
    let mut lines = format!(
        "{{\"kind\":\"start\",\"version\":\"0.1.0\",\"behaviours\":[\"{behaviour}\"],\"seed\":{},\"unix\":{EPOCH:.1}}}\n",
        network.seed
    );
    let (mut at, mut id) = (network.bootstrap_end_s * (1.0 + 0.1 * random.uniform()), 0);
    while at < network.duration_s {
        let bytes: u64 = match behaviour {
            "web" => 327_680,
            "bulk" => 5_242_880,
            _ => [51_200, 1_048_576, 5_242_880][id % 3],
        };
        let mut line = String::new();
        let took = transfer(&mut line, behaviour, id, bytes, at, network, random);
        if at + took > network.duration_s {
            break;
        }
        lines += &line;
        circuit(&mut lines, id, at, random);
        at += took + if behaviour == "web" { 1.0 + 59.0 * random.uniform() } else { 2.0 };
        id += 1;
    }
    let _ =
        writeln!(lines, "{{\"kind\":\"end\",\"transfers\":{id},\"failed\":0,\"bytes\":0,\"unix\":{:.1}}}", EPOCH + at);
    lines
}

fn transfer(
    lines: &mut String,
    behaviour: &str,
    id: usize,
    bytes: u64,
    at: f64,
    network: &Network,
    random: &mut Random,
) -> f64 {
    let first = 0.45 * random.skewed(0.35) * network.slowness;
    let last = first + bytes as f64 / 400_000.0 * random.skewed(0.4) * network.slowness;
    let fails = random.uniform() < network.failing;
    let tenths: Vec<String> = (1..=if fails { 4 } else { 10 })
        .map(|tenth| format!("{:.6}", first + (last - first) * f64::from(tenth) / 10.0))
        .collect();
    let (received, last_byte, error) = if fails {
        let reason = if random.uniform() < 0.6 { ("transfer", "timeout") } else { ("socks", "socks-4") };
        let error = format!("{{\"stage\":\"{}\",\"reason\":\"{}\",\"detail\":\"made up\"}}", reason.0, reason.1);
        (bytes * 4 / 10, "null".to_owned(), error)
    } else {
        (bytes, format!("{last:.6}"), "null".to_owned())
    };
    let _ = writeln!(
        lines,
        "{{\"kind\":\"transfer\",\"id\":{id},\"behaviour\":\"{behaviour}\",\"server\":\"server1:80\",\"direction\":\"download\",\
         \"bytes\":{bytes},\"received\":{received},\"sent\":120,\"start\":{:.6},\"connect\":0.000012,\"socks\":{:.6},\
         \"request\":{:.6},\"first_byte\":{first:.6},\"tenths\":[{}],\"last_byte\":{last_byte},\"verified\":{},\"error\":{error}}}",
        EPOCH + at,
        first * 0.4,
        first * 0.4001,
        tenths.join(","),
        !fails
    );
    last
}

fn circuit(lines: &mut String, id: usize, at: f64, random: &mut Random) {
    let build = 0.5 * random.skewed(0.5);
    let (build, error) =
        if random.uniform() < 0.02 { ("null".to_owned(), "\"TIMEOUT\"") } else { (format!("{build:.6}"), "null") };
    // Guards and exits as `hosts` makes them of the first six relays.
    let entry = [3, 4][usize::from(random.uniform() < 0.5)];
    let exit = [1, 5][usize::from(random.uniform() < 0.5)];
    let path = [entry, 2, exit].map(|relay| format!("\"$AA~relay{relay}\"")).join(",");
    let _ = writeln!(
        lines,
        "{{\"kind\":\"circuit\",\"id\":{id},\"at\":{:.6},\"build\":{build},\"hops\":3,\"purpose\":\"GENERAL\",\"path\":[{path}],\"error\":{error}}}",
        EPOCH + at
    );
}

fn config(network: &Network, hosts: &[Host]) -> String {
    let mut text = format!(
        "general:\n  stop_time: {} sec\n  bootstrap_end_time: 0 sec\n  data_directory: \"x.data\"\n  seed: {}\n  \
         heartbeat_interval: 1 sec\nhosts:\n",
        network.duration_s, network.seed
    );
    for host in hosts {
        // What a seed changes belongs to the network, not to the experiment's file.
        let _ = writeln!(text, "  \"{}\":\n    network_node_id: 0\n    processes: []", host.name);
    }
    text
}

fn description(network: &Network, hosts: &[Host]) -> String {
    let one = |host: &Host| {
        let behaviour = host.behaviour.map_or("null".to_owned(), |name| format!("\"{name}\""));
        let shares = match host.role {
            "guard" => "[0.3,0.1,0]",
            "exit" => "[0,0.1,0.3]",
            "guard-exit" => "[0.4,0.1,0.4]",
            "middle" => "[0,0.6,0]",
            _ => "null",
        };
        format!(
            "\"{}\":{{\"expected_shares\":{shares},\"role\":\"{}\",\"bandwidth_up_bits\":{},\"bandwidth_down_bits\":{},\"behaviour\":{behaviour},\"nickname\":null}}",
            host.name, host.role, host.bandwidth, host.bandwidth
        )
    };
    format!(
        "{{\"profile\":\"made-up\",\"seed\":{},\"bootstrap_end_s\":{},\"hosts\":{{{}}}}}",
        network.seed,
        network.bootstrap_end_s,
        hosts.iter().map(one).collect::<Vec<_>>().join(",")
    )
}

fn stats(network: &Network) -> String {
    let cpu = network.duration_s / 12.0;
    format!(
        "{{\"objects\":{{}},\"syscalls\":{{}},\"gnomon\":{{\"version\":\"0.1.0\",\"seed\":{},\"digest\":\"{:064x}\",\"simulated_ns\":{},\
         \"wall_ns\":{}}},\"cpu\":{{\"guest_s\":{cpu},\"kernel_s\":{},\"stack_s\":{},\"engine_s\":{},\"other_s\":0.5,\"total_s\":{}}},\
         \"memory\":{{\"peak_used_bytes\":150000000,\"baseline_available_bytes\":8000000000,\"lowest_available_bytes\":7850000000}}}}",
        network.seed,
        network.seed * 7919,
        network.duration_s * 1e9,
        network.duration_s / 20.0 * 1e9,
        cpu * 0.2,
        cpu * 0.15,
        cpu * 0.05,
        cpu * 1.4 + 0.5
    )
}

fn progress(network: &Network, random: &mut Random) -> String {
    let mut text = "sim_s,wall_s,mem_available_bytes,rss_bytes,pss_bytes,processes\n".to_owned();
    let (mut simulated, mut wall) = (0.0, 0);
    while simulated < network.duration_s {
        wall += 1;
        simulated = (simulated + 20.0 * random.skewed(0.2)).min(network.duration_s);
        let used = 40e6 + 100e6 * (simulated / network.duration_s).sqrt();
        let _ = writeln!(text, "{simulated:.3},{wall},{:.0},{:.0},{used:.0},14", 8e9 - used, used * 1.9);
    }
    text
}

fn host_traffic(network: &Network, hosts: &[Host], random: &mut Random) -> String {
    let mut text = "time_s,host,rx_bytes,tx_bytes,rx_packets,tx_packets,dropped_packets\n".to_owned();
    for second in 1..=network.duration_s as u64 {
        for host in hosts {
            let is_on = second as f64 > network.bootstrap_end_s || second < 90;
            if is_on && host.role != "server" {
                let bytes = host.bandwidth as f64 / 8.0 * (0.35 * random.skewed(0.5)).min(1.0) / network.slowness;
                let _ = writeln!(text, "{second},{},{:.0},{bytes:.0},100,100,0", host.name, bytes * 0.98);
            }
        }
    }
    text
}

/// Two workers' windows of 6 s each as long as the run lasts, as the simulator writes them: the first waits for a tenth of its time, the second for 35 %.
fn windows(path: &Path, duration_s: f64) {
    const NAMES: [&str; 11] = [
        "worker",
        "windows",
        "start_ns",
        "running_ns",
        "stealing_ns",
        "delivering_ns",
        "waiting_ns",
        "logging_ns",
        "guest_ns",
        "kernel_ns",
        "stack_ns",
    ];
    let column =
        |name: &str| Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::REQUIRED).build();
    let fields = NAMES.iter().map(|name| Arc::new(column(name).unwrap())).collect();
    let schema = Type::group_type_builder("windows").with_fields(fields).build().unwrap();
    let mut writer =
        SerializedFileWriter::new(fs::File::create(path).unwrap(), Arc::new(schema), Arc::default()).unwrap();
    for worker in 0..2 {
        let waiting = 25_000_000 * worker;
        let row = |window: i64| {
            [
                worker,
                1,
                window * 6_000_000_000,
                70_000_000 - waiting,
                0,
                20_000_000,
                10_000_000 + waiting,
                0,
                40_000_000,
                5_000_000,
                0,
            ]
        };
        let mut group = writer.next_row_group().unwrap();
        for index in 0..NAMES.len() {
            let values: Vec<i64> = (0..(duration_s / 6.0) as i64).map(|window| row(window)[index]).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
}
