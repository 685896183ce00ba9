//! Attacks that clients of an experiment make on a relay: options of `gnomon-onion-client`.

use crate::Error;
use crate::experiment::Times;
use crate::kinds::Instead;
use crate::network::{Host, Network};
use base::SimDuration;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What some clients do besides what they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack {
    /// As `gnomon-onion-client` names it.
    pub kind: String,
    /// Who attacks.
    pub hosts: Vec<String>,
    /// The relay.
    pub victim: String,
    /// What begins each time.
    pub count: Option<u32>,
    pub every: Option<SimDuration>,
    /// From the experiment's start on.
    pub start: SimDuration,
    pub stop: SimDuration,
    /// Where streams go: HOST:PORT.
    pub target: Option<String>,
    /// Of circuits.
    pub hops: Option<u32>,
}

/// For `tor-network.json`.
pub(crate) fn json(attack: &Attack) -> Value {
    json!({
        "kind": attack.kind,
        "hosts": attack.hosts,
        "victim": attack.victim,
        "start_s": attack.start.as_secs_f64(),
        "stop_s": attack.stop.as_secs_f64(),
    })
}

/// Options of a host, behind the others of its command line.
pub(crate) fn of_host(network: &Network, host: &Host) -> String {
    let Some(attack) = network.spec.attack.as_ref().filter(|attack| attack.hosts.contains(&host.name)) else {
        return String::new();
    };
    let began_ms = (Times::of(network, host).tor_s * 1000.0).round() as u64;
    let ms = |time: SimDuration| time.as_nanos() / 1_000_000;
    // The program counts from its own start.
    let after = |time: SimDuration| format!("{} msec", ms(time).saturating_sub(began_ms));
    let mut options = vec![("Attack", attack.kind.clone()), ("AttackVictim", attack.victim.clone())];
    options.extend(attack.count.map(|count| ("AttackCount", count.to_string())));
    options.extend(attack.every.map(|every| ("AttackEvery", format!("{} msec", ms(every)))));
    options.extend([("AttackStart", after(attack.start)), ("AttackStop", after(attack.stop))]);
    options.extend(attack.target.clone().map(|target| ("AttackTarget", target)));
    options.extend(attack.hops.map(|hops| ("AttackHops", hops.to_string())));
    options.into_iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, ", --{name}, {}", Value::from(value));
        text
    })
}

/// Attackers must run `gnomon-onion-client`, and the victim must be a relay.
pub(crate) fn check(network: &Network) -> Result<(), Error> {
    let Some(attack) = &network.spec.attack else { return Ok(()) };
    for name in &attack.hosts {
        if !network.hosts.iter().any(|host| host.name == *name && network.other_client(host) == Some(Instead::Gnomon)) {
            return Err(Error::input(format!(
                "--attack: {name} runs no gnomon-onion-client in this network; give --client-kind gnomon, or gnomon:{name}, too"
            )));
        }
    }
    if !network.hosts.iter().any(|host| host.name == attack.victim && host.role.has_identity()) {
        return Err(Error::input(format!("--attack-victim: there is no relay {} in this network", attack.victim)));
    }
    if attack.kind == "streams" {
        if attack.target.is_none() {
            return Err(Error::input("--attack streams wants --attack-target HOST:PORT, to which streams go"));
        }
        let is_exit = |host: &&Host| host.role.is_exit();
        if !network.hosts.iter().filter(is_exit).any(|host| host.name == attack.victim) {
            // There is one in every network.
            let example = network.hosts.iter().find(is_exit).map_or("exit1", |host| host.name.as_str());
            return Err(Error::input(format!(
                "--attack streams: {} is no exit, so no stream leaves it; name one, such as {example}",
                attack.victim
            )));
        }
    }
    if attack.stop <= attack.start || attack.stop > network.spec.total {
        return Err(Error::input("--attack-stop must be after --attack-start, and not after the experiment's end"));
    }
    if attack.start < network.spec.bootstrap {
        return Err(Error::input("--attack-start must not be before the end of the --bootstrap"));
    }
    Ok(())
}
