//! Which relays and clients run another program than tor, by the spec.

use crate::error::Error;
use crate::network::{Host, Role};
use crate::spec::Spec;

/// A program that a host runs instead of tor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Gnomon's own: `gnomon-relay`, or `gnomon-onion-client`.
    Gnomon,
    /// The Tor Project's client in Rust.
    Arti,
}

/// A program that some of the hosts run instead of tor.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    pub program: Instead,
    pub hosts: HostChoice,
}

/// Which of the hosts that can run a program do so.
#[derive(Clone, Debug, PartialEq)]
pub enum HostChoice {
    /// All hosts that no earlier replacement has taken.
    All,
    /// A share of all hosts, in hundredths. They are spread evenly over the hosts that no earlier replacement has taken.
    Share(f64),
    /// Hosts by name. A name that ends with `*` stands for all names with that beginning.
    Named(Vec<String>),
}

impl Replacement {
    /// On all hosts that can.
    pub fn everywhere(program: Instead) -> Vec<Replacement> {
        vec![Replacement { program, hosts: HostChoice::All }]
    }

    /// On these hosts.
    pub fn on(program: Instead, names: &[&str]) -> Vec<Replacement> {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        vec![Replacement { program, hosts: HostChoice::Named(names) }]
    }

    /// Reads `PROGRAM`, `PROGRAM:SHARE%`, or `PROGRAM:HOST,HOST...`; `None` for other texts.
    pub fn read(text: &str) -> Option<Replacement> {
        let (program, hosts) = text.split_once(':').map_or((text, None), |(program, hosts)| (program, Some(hosts)));
        let program = match program {
            "gnomon" => Instead::Gnomon,
            "arti" => Instead::Arti,
            _ => return None,
        };
        let hosts = match hosts {
            None => HostChoice::All,
            Some(hosts) => match hosts.strip_suffix('%') {
                Some(share) => HostChoice::Share(share.parse().ok().filter(|share| (0.0..=100.0).contains(share))?),
                None => HostChoice::Named(hosts.split(',').map(str::to_owned).collect()),
            },
        };
        let is_empty = matches!(&hosts, HostChoice::Named(names) if names.iter().any(String::is_empty));
        (!is_empty).then_some(Replacement { program, hosts })
    }
}

/// Sets the program of each host that does not run tor.
pub(crate) fn apply(hosts: &mut [Host], spec: &Spec) -> Result<(), Error> {
    let relays =
        Replaced { flag: "--relay-kind", can: Role::is_relay, what: "guard, middle relay or exit", example: "guard1" };
    let clients = Replaced {
        flag: "--client-kind",
        can: Role::enters_by_guards,
        what: "client of servers that enters by guards (web, bulk, performance, markov)",
        example: "webclient1",
    };
    for (kind, replacements) in [(relays, &spec.relay_kind), (clients, &spec.client_kind)] {
        for replacement in replacements {
            kind.replace(hosts, replacement)?;
        }
    }
    Ok(())
}

/// Hosts that can run something else than tor.
struct Replaced {
    flag: &'static str,
    can: fn(Role) -> bool,
    what: &'static str,
    /// A name of such a host, if a network has none.
    example: &'static str,
}

impl Replaced {
    fn replace(&self, hosts: &mut [Host], replacement: &Replacement) -> Result<(), Error> {
        let able = hosts.iter().filter(|host| (self.can)(host.role)).count();
        let is_free = |host: &&mut Host| (self.can)(host.role) && host.instead.is_none();
        let free = hosts.iter().filter(|host| (self.can)(host.role) && host.instead.is_none()).count();
        match &replacement.hosts {
            HostChoice::Named(names) => {
                for name in names {
                    self.replace_named(hosts, replacement.program, name)?;
                }
            }
            HostChoice::All if free == 0 => {
                return Err(self.refuse("no host is left for the last of them; leave it out".to_owned()));
            }
            HostChoice::All => {
                hosts.iter_mut().filter(is_free).for_each(|host| host.instead = Some(replacement.program))
            }
            HostChoice::Share(hundredths) => {
                let wanted = (able as f64 * hundredths / 100.0).round() as usize;
                if wanted > free {
                    return Err(self.refuse(format!(
                        "{hundredths} % are {wanted} hosts, of {able} only {free} are left; give shares of 100 % together at most"
                    )));
                }
                if wanted == 0 {
                    let least = 50.0 / able.max(1) as f64;
                    return Err(self.refuse(format!(
                        "{hundredths} % of {able} hosts are none; give {:.1} % or more, or a name",
                        (10.0 * least).ceil() / 10.0
                    )));
                }
                let is_chosen = |place: usize| (place + 1) * wanted / free > place * wanted / free;
                for (_, host) in hosts.iter_mut().filter(is_free).enumerate().filter(|(place, _)| is_chosen(*place)) {
                    host.instead = Some(replacement.program);
                }
            }
        }
        Ok(())
    }

    fn replace_named(&self, hosts: &mut [Host], program: Instead, name: &str) -> Result<(), Error> {
        let fits = |host: &Host| match name.strip_suffix('*') {
            Some(beginning) => host.name.starts_with(beginning),
            None => host.name == name,
        };
        let mut is_found = false;
        for host in hosts.iter_mut().filter(|host| (self.can)(host.role) && fits(host)) {
            is_found = true;
            if host.instead.replace(program).is_some() {
                return Err(self.refuse(format!("{} is named twice; leave one out", host.name)));
            }
        }
        if is_found {
            return Ok(());
        }
        let example = hosts.iter().find(|host| (self.can)(host.role)).map_or(self.example, |host| &host.name);
        let what = self.what;
        Err(self.refuse(format!("{name} is no {what} of this network; give names such as {example}")))
    }

    fn refuse(&self, text: String) -> Error {
        Error::input(format!("{}: {text}", self.flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Behaviour, Model, Network, profile};

    fn built(relays: &[&str], clients: &[&str]) -> Result<Network, Error> {
        let read = |texts: &[&str]| texts.iter().map(|text| Replacement::read(text).expect(text)).collect();
        let spec = profile("tiny").expect("a profile").spec();
        Network::without_keys(Spec { relay_kind: read(relays), client_kind: read(clients), ..spec }, &Model::public())
    }

    fn count(network: &Network, program: Option<Instead>, begins: &str) -> usize {
        network.hosts.iter().filter(|host| host.instead == program && host.name.starts_with(begins)).count()
    }

    #[test]
    fn clients_of_several_kinds_are_in_one_network() {
        let all = built(&[], &[]).unwrap();
        let clients = all.count(|role| matches!(role, Role::Client(_)));
        assert!(clients >= 4 && count(&all, Some(Instead::Gnomon), "") == 0);
        let mixed = built(&["gnomon:50%"], &["arti:perfclient1", "gnomon:webclient*"]).unwrap();
        assert_eq!(count(&mixed, Some(Instead::Arti), ""), 1);
        let web = mixed.count(|role| role == Role::Client(Behaviour::Web));
        assert_eq!(count(&mixed, Some(Instead::Gnomon), "webclient"), web);
        assert!(count(&mixed, None, "perfclient") > 0);
        let relays = mixed.hosts.iter().filter(|host| mixed.is_gnomon_relay(host)).count();
        let able = mixed.count(Role::is_relay);
        assert!(relays.abs_diff(able - relays) <= 1, "{relays} of {able}");
        let rest = built(&[], &["arti:25%", "gnomon"]).unwrap();
        assert_eq!(count(&rest, Some(Instead::Arti), "") + count(&rest, Some(Instead::Gnomon), ""), clients);
        assert_eq!(count(&rest, Some(Instead::Arti), ""), (clients as f64 * 0.25).round() as usize);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (relays, clients, message) in [
            (&["gnomon:60%", "gnomon:60%"][..], &[][..], "--relay-kind: 60 % are"),
            (&["gnomon:1%"], &[], "--relay-kind: 1 % of"),
            (&["gnomon", "gnomon"], &[], "--relay-kind: no host is left"),
            (&["gnomon:guard*,guard1"], &[], "--relay-kind: guard1 is named twice"),
            (&["gnomon:authority1"], &[], "--relay-kind: authority1 is no guard, middle relay or exit"),
            (&[], &["gnomon:web*", "arti:webclient1"], "--client-kind: webclient1 is named twice"),
            (&[], &["gnomon:server*"], "--client-kind: server* is no client"),
        ] {
            let error = built(relays, clients).expect_err(message).to_string();
            assert!(error.contains(message), "{error}");
        }
        for wrong in ["tor", "gnomon:", "gnomon:a,,b", "gnomon:101%", "gnomon:-1%", "gnomon:%", "other"] {
            assert_eq!(Replacement::read(wrong), None, "{wrong}");
        }
    }
}
