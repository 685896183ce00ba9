//! `traffic.yaml`: what `gnomon-traffic` does on a client.

use crate::network::{Behaviour, Host, Network, Role};
use crate::spec::Amount;
use crate::torrc;
use base::{ByteSize, SeedTree};
use std::fmt::Write;

/// Servers listen here.
pub(crate) const SERVER_PORT: u16 = 80;

/// The file of one client. `begin_s` is how long after its start the first transfer begins, in seconds.
pub(crate) fn of_client(network: &Network, host: &Host, behaviour: Behaviour, begin_s: f64) -> String {
    let mut text = format!("# What gnomon-traffic does on {}.\n", host.name);
    let _ = writeln!(text, "socks: 127.0.0.1:{}", torrc::SOCKS_PORT);
    // The models count streams of a circuit: those of a flow share one.
    let isolation = if behaviour == Behaviour::Markov { "flow" } else { "transfer" };
    let _ = writeln!(text, "isolation: {isolation}");
    // Neither gnomon-onion-client nor arti has tor's control port.
    if torrc::is_watched(host.role) && network.other_client(host).is_none() {
        let _ = writeln!(text, "control: 127.0.0.1:{}", torrc::CONTROL_PORT);
    }
    let seed = SeedTree::new(network.spec.seed).stream(&host.name, "traffic").next_u64() >> 33;
    let _ = write!(text, "start: {begin_s} s\nseed: {seed}\nservers:\n");
    for server in ranges(&servers(network, behaviour)) {
        let _ = writeln!(text, "  - \"{server}\"");
    }
    text += "behaviours:\n";
    for line in behaviours(network, host, behaviour) {
        let _ = writeln!(text, "  - {{ {line} }}");
    }
    text
}

/// The same in fewer words: `server1:80`, `server2:80`, ... are `server[1-9]:80`.
fn ranges(servers: &[String]) -> Vec<String> {
    fn number(server: &str) -> Option<(&str, u32)> {
        let (name, port) = server.rsplit_once(':')?;
        let word = name.trim_end_matches(|c: char| c.is_ascii_digit());
        // Addresses end with numbers, too.
        let is_name = word.bytes().all(|byte| byte.is_ascii_alphabetic());
        let number = name[word.len()..].parse().ok()?;
        let is_usual = port.parse() == Ok(SERVER_PORT);
        (is_usual && is_name && !word.is_empty()).then_some((word, number))
    }
    let follows = |before: &String, after: &String| match (number(before), number(after)) {
        (Some((word, first)), Some((same, second))) => word == same && first.checked_add(1) == Some(second),
        _ => false,
    };
    let mut texts = Vec::new();
    for run in servers.chunk_by(follows) {
        texts.push(match (number(&run[0]), number(&run[run.len() - 1])) {
            (Some((word, first)), Some((_, last))) if first < last => format!("{word}[{first}-{last}]:{SERVER_PORT}"),
            _ => run[0].clone(),
        });
    }
    texts
}

fn servers(network: &Network, behaviour: Behaviour) -> Vec<String> {
    if behaviour == Behaviour::Onion {
        let keys = network.with_role(Role::OnionService).filter_map(|host| host.onion.as_ref());
        return keys.map(|keys| format!("{}:{}", keys.address, torrc::ONION_PORT)).collect();
    }
    let name = |host: &Host| match network.spec.server_names {
        true => format!("{}:{SERVER_PORT}", host.name),
        false => format!("{}:{SERVER_PORT}", host.address),
    };
    network.with_role(Role::Server).map(name).collect()
}

/// The entries of `behaviours`. Clients that end fetch every measured size besides what is their own, and pause little.
fn behaviours(network: &Network, host: &Host, behaviour: Behaviour) -> Vec<String> {
    let spec = &network.spec;
    let (times, pause, every) = match spec.amount {
        Amount::Endless => (None, "[1 s, 60 s]", "60 s"),
        Amount::Times(times) => (Some(times as usize), "[1 s, 5 s]", "10 s"),
    };
    let count = |each: usize| times.map_or(String::new(), |times| format!(", count: {}", times * each));
    let mut sizes: Vec<String> = spec.performance_sizes.iter().map(|size| bytes(*size)).collect();
    let mut weights = String::new();
    if spec.amount == Amount::Endless && !sizes.is_empty() {
        if spec.performance_weights.is_empty() {
            // Each begins with another size, so that all sizes are measured all the time.
            let alike = network.with_role(host.role).take_while(|other| other.name != host.name).count();
            let first = alike % sizes.len();
            sizes.rotate_left(first);
        } else {
            let numbers: Vec<String> = spec.performance_weights.iter().map(f64::to_string).collect();
            weights = format!(", weights: [{}]", numbers.join(", "));
        }
    }
    let performance =
        |count: String| format!("kind: performance, sizes: [{}]{weights}, every: {every}{count}", sizes.join(", "));
    let own = match behaviour {
        Behaviour::Web => format!("kind: web, size: 320 KiB, pause: {pause}{}", count(3)),
        Behaviour::Bulk => format!("kind: bulk, size: {}{}", bytes(spec.bulk_size), count(1)),
        Behaviour::Performance | Behaviour::Onion | Behaviour::Bridge => performance(count(sizes.len())),
        // Patience as in tornettools: streams of these models may be silent for long.
        Behaviour::Markov => format!(
            "kind: markov, flows: ../../conf/flows.graphml, streams: ../../conf/streams.graphml, packets: \
             ../../conf/packets.graphml, stall: 5 min, timeout: 10 min{}",
            count(1)
        ),
    };
    match behaviour {
        Behaviour::Web | Behaviour::Bulk if times.is_some() => {
            vec![own, performance(format!(", count: {}", sizes.len()))]
        }
        _ => vec![own],
    }
}

fn bytes(size: ByteSize) -> String {
    const KIB: u64 = 1024;
    match size.0 {
        bytes if bytes % (KIB * KIB) == 0 => format!("{} MiB", bytes / KIB / KIB),
        bytes if bytes % KIB == 0 => format!("{} KiB", bytes / KIB),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_with_following_numbers_are_one_range() {
        let told = |servers: &[&str]| ranges(&servers.iter().map(|server| (*server).to_owned()).collect::<Vec<_>>());
        assert_eq!(told(&["server9:80", "server10:80", "server11:80"]), ["server[9-11]:80"]);
        assert_eq!(told(&["server1:80", "server3:80", "web4:80"]), ["server1:80", "server3:80", "web4:80"]);
        let others = ["10.0.0.1:80", "10.0.0.2:80", "abc2.onion:80", "abc3.onion:80"];
        assert_eq!(told(&others), others);
    }
}
