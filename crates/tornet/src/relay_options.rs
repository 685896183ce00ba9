//! Settings of `gnomon-relay` that an experiment makes: of all such relays, or of some.

use crate::Error;
use crate::network::{Behaviour, Host, Network, Role};
use serde_json::Value;
use std::fmt::Write as _;

/// A setting. The last that concerns a host counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayOption {
    /// Which flag of `gnomon tor new` it came by, for messages.
    pub flag: &'static str,
    /// Its name in `gnomon-relay`.
    pub name: String,
    pub value: String,
    /// Which hosts it is for; None for all.
    pub hosts: Option<Vec<String>>,
}

/// Where guards read what clients are for, seen from a host's folder.
const LABELS: &str = "../../conf/client-labels";

/// Options of a host, behind the others of its command line.
pub(crate) fn of_host(network: &Network, host: &Host) -> String {
    let options = || network.spec.relay_options.iter().filter(|option| concerns(option, host));
    let mut text = String::new();
    for (at, option) in options().enumerate() {
        if !options().skip(at + 1).any(|later| later.name == option.name) {
            let _ = write!(text, ", --{}, {}", option.name, word(&option.value));
        }
    }
    if has_labels(network) {
        let _ = write!(text, ", --ClientLabels, {LABELS}");
    }
    text
}

/// What a client is told of what relays ask for.
pub(crate) fn of_client(network: &Network) -> String {
    let mut text = String::new();
    for option in network.spec.relay_options.iter().filter(|option| option.name == "PuzzleEffort") {
        let hosts = option.hosts.as_ref().map_or(String::new(), |hosts| format!(":{}", hosts.join(",")));
        let _ = write!(text, ", --PuzzleEffort, {}", word(&format!("{}{hosts}", option.value)));
    }
    text
}

/// A word of a list in YAML, between quotation marks where it must be.
fn word(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}

fn concerns(option: &RelayOption, host: &Host) -> bool {
    option.hosts.as_ref().is_none_or(|hosts| hosts.contains(&host.name))
}

/// Whether some design asks what circuits are for.
fn has_labels(network: &Network) -> bool {
    let asks = |option: &RelayOption| matches!(option.value.as_str(), "torchestra" | "imux");
    network.spec.relay_options.iter().any(|option| option.name == "LinkDesign" && asks(option))
}

/// What each client is for, a line `ADDRESS web` or `ADDRESS bulk`; nothing if nobody asks.
pub(crate) fn labels(network: &Network) -> Option<String> {
    if !has_labels(network) {
        return None;
    }
    let mut text =
        "# What clients use their circuits for, which guards tell other relays. No real relay could know it.\n"
            .to_owned();
    for host in &network.hosts {
        if let Role::Client(behaviour) = host.role {
            let label = if behaviour == Behaviour::Bulk { "bulk" } else { "web" };
            let _ = writeln!(text, "{} {label}", host.address);
        }
    }
    Some(text)
}

/// Hosts that are named must run `gnomon-relay`.
pub(crate) fn check(network: &Network) -> Result<(), Error> {
    for option in &network.spec.relay_options {
        for name in option.hosts.iter().flatten() {
            if !network.hosts.iter().any(|host| host.name == *name && network.is_gnomon_relay(host)) {
                return Err(Error::input(format!("--{}: {name} runs no gnomon-relay in this network", option.flag)));
            }
        }
    }
    Ok(())
}
