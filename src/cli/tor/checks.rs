//! What of an experiment's flags cannot go together, although each by itself can be.

use std::net::IpAddr;
use tornet::{Error, Host, Instead, Network, Role, Scheduler, Spec};

/// RELAY_EARLY cells that a tor may send on a circuit.
const RELAY_EARLY_OF_TOR: u32 = 8;

/// Settings that would do nothing.
pub fn options(spec: &Spec) -> Result<(), Error> {
    let has = |flag: &str| spec.relay_options.iter().any(|option| option.flag == flag);
    let has_imux = spec.relay_options.iter().any(|option| option.name == "LinkDesign" && option.value == "imux");
    if has("connection-scheduler") && !has_imux {
        return refuse("--connection-scheduler is of imux: give --link-design imux too");
    }
    if has("kist-formula") && spec.scheduler == Scheduler::Vanilla {
        return refuse("--kist-formula is of KIST, which --scheduler vanilla does without: leave one of them out");
    }
    Ok(())
}

fn refuse<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Input(why.into()))
}

/// What is about hosts that the network has or has not.
pub fn network(network: &Network) -> Result<(), Error> {
    bursts(network)?;
    puzzles(network)?;
    target(network)
}

/// What can be meant, but should be known.
pub fn notices(network: &Network) -> Vec<String> {
    let mut notices = Vec::new();
    let asks = |relay: &Host| effort(network, relay) > 0;
    if let Some(client) = without_puzzles(network).filter(|_| network.hosts.iter().any(asks)) {
        notices.push(format!(
            "{} and its like solve no puzzles: none of their circuits lead through relays that ask for them (--defence PuzzleEffort)",
            client.name
        ));
    }
    let is_strict = |relay: &Host| (1..RELAY_EARLY_OF_TOR).contains(&number(network, relay, "MaxRelayEarly"));
    let relay = network.hosts.iter().find(|relay| is_strict(relay));
    let client = clients(network).find(|client| network.other_client(client).is_none());
    if let (Some(relay), Some(client)) = (relay, client) {
        notices.push(format!(
            "a tor, such as {}'s, sends up to {RELAY_EARLY_OF_TOR} RELAY_EARLY cells on a circuit, whatever they carry: its circuits through {} end \
             (--defence MaxRelayEarly); give {RELAY_EARLY_OF_TOR} or more, or --client-kind gnomon",
            client.name, relay.name
        ));
    }
    notices
}

/// What a `gnomon-relay` is told; the last that concerns it counts.
fn told<'network>(network: &'network Network, relay: &Host, name: &str) -> Option<&'network str> {
    let concerns = |hosts: &Option<Vec<String>>| hosts.as_ref().is_none_or(|hosts| hosts.contains(&relay.name));
    let mut options = network.spec.relay_options.iter().filter(|_| network.is_gnomon_relay(relay)).rev();
    options.find(|option| option.name == name && concerns(&option.hosts)).map(|option| option.value.as_str())
}

/// The same of a number; 0 where nothing is said.
fn number(network: &Network, relay: &Host, name: &str) -> u32 {
    told(network, relay, name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn effort(network: &Network, relay: &Host) -> u32 {
    number(network, relay, "PuzzleEffort")
}

fn clients(network: &Network) -> impl Iterator<Item = &Host> {
    network.hosts.iter().filter(|host| matches!(host.role, Role::Client(_)))
}

/// A client that solves no puzzles, if there is one.
fn without_puzzles(network: &Network) -> Option<&Host> {
    clients(network).find(|client| network.other_client(client) != Some(Instead::Gnomon))
}

/// A burst is of a rate: a relay that was told of a burst alone would end as soon as it begins.
fn bursts(network: &Network) -> Result<(), Error> {
    let has = |relay: &Host, name| told(network, relay, name).is_some();
    let is_lonely = |relay: &&Host| has(relay, "ChannelCircuitBurst") && !has(relay, "ChannelCircuitRate");
    match network.hosts.iter().find(is_lonely) {
        Some(relay) => refuse(format!(
            "--defence ChannelCircuitBurst: {} has no ChannelCircuitRate; give one too, such as --defence ChannelCircuitRate=5",
            relay.name
        )),
        None => Ok(()),
    }
}

/// Each circuit has a guard and an exit: where all of these ask for puzzles, who solves none has no circuit.
fn puzzles(network: &Network) -> Result<(), Error> {
    let Some(client) = without_puzzles(network) else { return Ok(()) };
    let all_ask = |is_such: fn(Role) -> bool| {
        let mut efforts = network.hosts.iter().filter(|host| is_such(host.role)).map(|relay| effort(network, relay));
        efforts.by_ref().next().is_some_and(|effort| effort > 0) && efforts.all(|effort| effort > 0)
    };
    if all_ask(Role::is_guard) || all_ask(Role::is_exit) {
        return refuse(format!(
            "--defence PuzzleEffort: {} runs no gnomon-onion-client, solves no puzzles, and could build no circuit; give --client-kind gnomon, or \
             PuzzleEffort=N:HOST,... for some relays",
            client.name
        ));
    }
    Ok(())
}

/// Where an attack's streams go must be there; what has an address may be anywhere.
fn target(network: &Network) -> Result<(), Error> {
    let target = network.spec.attack.as_ref().and_then(|attack| attack.target.as_deref());
    let Some((host, _)) = target.and_then(|target| target.rsplit_once(':')) else { return Ok(()) };
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address || network.hosts.iter().any(|other| other.name.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    let example = network.with_role(Role::Server).next().map_or("server1", |server| server.name.as_str());
    refuse(format!("--attack-target: there is no host {host} in this network; name one, such as {example}:80"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tornet::{Attack, Model, RelayOption, Replacement};

    /// Relays and clients of the profile 'tiny' are Gnomon's, or these clients alone.
    fn spec(clients: Option<&str>) -> Spec {
        let mut spec = tornet::profile("tiny").expect("a profile").spec();
        spec.relay_kind = Replacement::everywhere(Instead::Gnomon);
        spec.client_kind = match clients {
            Some(client) => Replacement::on(Instead::Gnomon, &[client]),
            None => Replacement::everywhere(Instead::Gnomon),
        };
        spec
    }

    fn build(spec: Spec) -> Network {
        Network::build(spec, &Model::public()).expect("a network")
    }

    fn option(flag: &'static str, name: &str, value: &str, hosts: &[&str]) -> RelayOption {
        let hosts = (!hosts.is_empty()).then(|| hosts.iter().map(|host| (*host).to_owned()).collect());
        RelayOption { flag, name: name.to_owned(), value: value.to_owned(), hosts }
    }

    fn defence(name: &str, value: &str, hosts: &[&str]) -> RelayOption {
        option("defence", name, value, hosts)
    }

    /// Why; nothing if it is not refused.
    fn refusal(result: Result<(), Error>) -> String {
        result.err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn settings_that_would_do_nothing_are_refused() {
        let mut spec = spec(None);
        spec.relay_options = vec![option("connection-scheduler", "ConnectionScheduler", "kist", &[])];
        assert!(refusal(options(&spec)).contains("give --link-design imux too"));
        spec.relay_options.push(option("link-design", "LinkDesign", "imux", &["exit1"]));
        assert_eq!(refusal(options(&spec)), "");
        spec.relay_options = vec![option("kist-formula", "KISTFormula", "2014", &[])];
        assert_eq!(refusal(options(&spec)), "");
        spec.scheduler = Scheduler::Vanilla;
        assert!(refusal(options(&spec)).contains("leave one of them out"));
    }

    #[test]
    fn what_locks_everybody_out_is_refused_and_what_locks_some_out_is_told() {
        let mut tiny = build(spec(Some("webclient1")));
        let exits = ["exit1", "exit2", "guardexit1"];
        for (option, is_refused) in [
            (defence("PuzzleEffort", "10", &[]), true),
            (defence("PuzzleEffort", "10", &exits), true),
            (defence("PuzzleEffort", "10", &exits[..2]), false),
            (defence("PuzzleEffort", "0", &[]), false),
        ] {
            tiny.spec.relay_options = vec![option];
            let why = refusal(network(&tiny));
            assert_eq!(why.contains("could build no circuit"), is_refused, "{:?}: {why}", tiny.spec.relay_options);
        }
        for (burst, rate, is_refused) in [(&[][..], &["exit1"][..], true), (&["exit1"], &["exit1"], false)] {
            tiny.spec.relay_options =
                vec![defence("ChannelCircuitBurst", "20", burst), defence("ChannelCircuitRate", "0", rate)];
            assert_eq!(refusal(network(&tiny)).contains("has no ChannelCircuitRate"), is_refused);
        }
        tiny.spec.relay_options =
            vec![defence("PuzzleEffort", "10", &["middle1"]), defence("MaxRelayEarly", "4", &["exit1"])];
        assert_eq!(refusal(network(&tiny)), "");
        let told = notices(&tiny);
        assert!(
            told.len() == 2 && told[0].contains("solve no puzzles") && told[1].contains("through exit1"),
            "{told:?}"
        );
        let relay_options = tiny.spec.relay_options.clone();
        tiny = build(spec(None));
        tiny.spec.relay_options = [relay_options, vec![defence("PuzzleEffort", "10", &[])]].concat();
        assert_eq!((refusal(network(&tiny)), notices(&tiny).len()), (String::new(), 0));
    }

    #[test]
    fn streams_of_an_attack_go_to_a_host_that_is_there() {
        let mut tiny = build(spec(None));
        let mut refused = |target: &str| {
            tiny.spec.attack = Some(Attack {
                kind: "streams".to_owned(),
                hosts: vec!["webclient1".to_owned()],
                victim: "exit1".to_owned(),
                count: None,
                every: None,
                start: tiny.spec.bootstrap,
                stop: tiny.spec.total,
                target: Some(target.to_owned()),
                hops: None,
            });
            refusal(network(&tiny))
        };
        assert!(refused("server9:80").contains("no host server9 in this network; name one, such as server1:80"));
        for there in ["server1:80", "60.0.0.1:80", "[::1]:80"] {
            assert_eq!(refused(there), "", "{there}");
        }
    }
}
