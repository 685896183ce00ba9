//! Exit policies: which addresses and ports an exit connects to (torrc's `ExitPolicy`, dir-spec's `accept` and `reject`).

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// Rules, of which the first that fits decides; nothing fits none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    accepts: bool,
    /// An address, and how many of its bits count.
    network: (Ipv4Addr, u32),
    ports: RangeInclusive<u16>,
}

impl Policy {
    /// Adds what an `ExitPolicy` line says: rules with commas between them. Rules for IPv6 alone are passed over, since these relays
    /// have IPv4.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        for rule in text.split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
            let (verb, target) = rule.split_once(char::is_whitespace).unwrap_or((rule, ""));
            let accepts = match verb {
                "accept" => true,
                "reject" => false,
                "accept6" | "reject6" => continue,
                _ => return Err(format!("'{rule}': a rule begins with accept or reject")),
            };
            let target = target.trim();
            if target.starts_with('[') || target.starts_with("*6") {
                continue;
            }
            let (network, ports) = target.rsplit_once(':').unwrap_or((target, "*"));
            let ports = read_ports(ports).ok_or_else(|| format!("'{rule}': '{ports}' is no range of ports"))?;
            let networks = read_networks(network, rule)?;
            self.rules.extend(networks.into_iter().map(|network| Rule { accepts, network, ports: ports.clone() }));
        }
        Ok(())
    }

    /// Ends it with tor's default policy, unless its rules decide for every address and port.
    pub fn complete(&mut self) {
        let is_whole = |rule: &Rule| rule.network.1 == 0 && *rule.ports.start() <= 1 && *rule.ports.end() == u16::MAX;
        if self.rules.iter().any(is_whole) {
            return;
        }
        for (first, last) in USUALLY_REJECTED {
            self.rules.push(Rule { accepts: false, network: (Ipv4Addr::UNSPECIFIED, 0), ports: first..=last });
        }
        self.rules.push(Rule { accepts: true, network: (Ipv4Addr::UNSPECIFIED, 0), ports: 1..=u16::MAX });
    }

    /// Begins it with tor's `ExitPolicyRejectPrivate`: neither private networks nor the relay's own address.
    pub fn reject_private(&mut self, own: Ipv4Addr) {
        let rejects = |network| Rule { accepts: false, network, ports: 1..=u16::MAX };
        self.rules.splice(0..0, PRIVATE.into_iter().chain([(own, 32)]).map(rejects));
    }

    pub fn accepts(&self, address: Ipv4Addr, port: u16) -> bool {
        let fits = |rule: &&Rule| rule.ports.contains(&port) && is_within(address, rule.network);
        self.rules.iter().find(fits).is_some_and(|rule| rule.accepts)
    }

    /// Whether some address and port are let through.
    pub fn is_exit(&self) -> bool {
        self.rules.iter().any(|rule| rule.accepts)
    }

    /// For a descriptor; all else is rejected.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.rules.iter().map(Rule::to_string).collect();
        if lines.last().is_none_or(|last| !last.ends_with(" *:*")) {
            lines.push("reject *:*".to_owned());
        }
        lines
    }
}

/// Ports to which exits of tor connect only if their operators say so: mail, news, file sharing of Windows and others.
const USUALLY_REJECTED: [(u16, u16); 10] = [
    (25, 25),
    (119, 119),
    (135, 139),
    (445, 445),
    (563, 563),
    (1214, 1214),
    (4661, 4666),
    (6346, 6429),
    (6699, 6699),
    (6881, 6999),
];

/// Networks that `private` stands for in tor.
const PRIVATE: [(Ipv4Addr, u32); 6] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
];

fn read_networks(text: &str, rule: &str) -> Result<Vec<(Ipv4Addr, u32)>, String> {
    let wrong = || format!("'{rule}': '{text}' is no IPv4 address");
    match text {
        "*" | "*4" => return Ok(vec![(Ipv4Addr::UNSPECIFIED, 0)]),
        "private" => return Ok(PRIVATE.to_vec()),
        _ => {}
    }
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let bits = bits.parse().ok().filter(|bits| *bits <= 32).ok_or_else(wrong)?;
    Ok(vec![(address.parse().map_err(|_| wrong())?, bits)])
}

fn read_ports(text: &str) -> Option<RangeInclusive<u16>> {
    if text == "*" {
        return Some(1..=u16::MAX);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (0 < first && first <= last).then_some(first..=last)
}

fn is_within(address: Ipv4Addr, (network, bits): (Ipv4Addr, u32)) -> bool {
    bits == 0 || (address.to_bits() ^ network.to_bits()) >> (32 - bits) == 0
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.accepts { "accept " } else { "reject " })?;
        match self.network {
            (_, 0) => f.write_str("*")?,
            (address, 32) => write!(f, "{address}")?,
            (address, bits) => write!(f, "{address}/{bits}")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (1, u16::MAX) => f.write_str(":*"),
            (first, last) if first == last => write!(f, ":{first}"),
            (first, last) => write!(f, ":{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let mut policy = Policy::default();
        policy.add("reject 10.0.0.0/8:*, accept *:80,accept *:8000-8010").unwrap();
        let accepts = |address: &str, port| policy.accepts(address.parse().unwrap(), port);
        assert!(accepts("11.0.0.1", 80) && accepts("11.0.0.1", 8005));
        assert!(!accepts("10.255.0.1", 80) && !accepts("11.0.0.1", 81));
        assert_eq!(policy.lines(), ["reject 10.0.0.0/8:*", "accept *:80", "accept *:8000-8010", "reject *:*"]);
        assert!(policy.is_exit());
    }

    #[test]
    fn private_stands_for_networks_and_ipv6_is_passed_over() {
        let mut policy = Policy::default();
        policy.add("reject private:*,accept6 *:80,reject [::1]:*,accept *:*").unwrap();
        assert!(!policy.accepts("192.168.1.1".parse().unwrap(), 80));
        assert!(policy.accepts("60.0.0.1".parse().unwrap(), 80));
        assert_eq!(policy.lines().len(), 7);
    }

    #[test]
    fn private_networks_and_the_own_address_are_rejected_first() {
        let mut policy = Policy::default();
        policy.add("accept *:*").unwrap();
        policy.reject_private(Ipv4Addr::new(20, 0, 0, 1));
        let accepts = |address: &str| policy.accepts(address.parse().unwrap(), 80);
        assert!(accepts("20.0.0.2"));
        for address in ["10.1.2.3", "127.0.0.1", "172.31.255.255", "192.168.0.9", "169.254.1.1", "0.1.2.3", "20.0.0.1"]
        {
            assert!(!accepts(address), "{address}");
        }
        let lines = policy.lines();
        assert_eq!((lines.len(), lines[6].as_str(), lines[7].as_str()), (8, "reject 20.0.0.1:*", "accept *:*"));
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in ["allow *:80", "accept 1.2.3:80", "accept *:0", "accept *:9-8", "accept 1.2.3.4/33:80"] {
            assert!(Policy::default().add(text).is_err(), "{text}");
        }
        assert!(!Policy::default().is_exit());
        assert_eq!(Policy::default().lines(), ["reject *:*"]);
    }
}
