//! Warnings of tor, and of arti, that private networks bring along, and what each means, in a sentence for whoever counts them.

/// A warning that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What is in its text.
    pub part: &'static str,
    /// What it means here.
    pub why: &'static str,
    /// Whether every private network gives it, and nothing follows from it.
    pub is_expected: bool,
}

const fn expected(part: &'static str, why: &'static str) -> Known {
    Known { part, why, is_expected: true }
}

const fn explained(part: &'static str, why: &'static str) -> Known {
    Known { part, why, is_expected: false }
}

const KNOWN: &[Known] = &[
    expected("is relative and will resolve to", "a path of the experiment, which begins at the host's folder"),
    expected("You have used DirAuthority", "a private network has directory authorities of its own"),
    expected("TestingTorNetwork is set", "it shortens tor's delays, so that a network is there after half a minute"),
    expected(
        "Your log may contain sensitive information",
        "logs name addresses (SafeLogging 0), which are nobody's in a simulation",
    ),
    expected("You are running Tor as root", "programs are root on their simulated hosts, and nothing on the real one"),
    expected(
        "Fixing permissions on directory",
        "tor's folder is copied from the template, and tor closes it to others",
    ),
    expected(
        "ControlPort is open, but no authentication method",
        "gnomon-traffic asks it about circuits, and nobody else is on the host",
    ),
    expected("sr-state", "an authority has no shared random value of an earlier run"),
    expected("approved-routers", "authorities have no list of relays to approve: they take all"),
    expected("Your application (using", "clients give addresses in place of names (--server-addresses)"),
    expected(
        "relays, but only",
        "arti wants a sample of 60 relays and more to choose guards from, and a small network has fewer",
    ),
    explained(
        "Client asked me to extend back to the previous hop",
        "harmless: relays test themselves in circuits for which a small network has too few others",
    ),
    explained(
        "connection_edge_process_relay_cell (away from origin) failed",
        "harmless: what follows from 'Client asked me to extend back to the previous hop'",
    ),
    explained(
        "while fetching consensus directory",
        "harmless at the start: a tor asked an authority before there was a consensus, and asks again",
    ),
    explained(
        "is configured. You should have at least two for conflux",
        "the network has one bridge; Conflux wants two",
    ),
];

/// What is known of a warning with this text.
pub fn known(message: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| message.contains(known.part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_network_gives_is_told_from_what_only_needs_a_word() {
        let root = known("You are running Tor as root. You don't need to, and you probably shouldn't.").expect("known");
        assert!(root.is_expected && root.why.contains("simulated hosts"));
        let back = known("Client asked me to extend back to the previous hop.").expect("known");
        assert!(!back.is_expected && back.why.starts_with("harmless"));
        assert_eq!(known("Your system clock just jumped 100 seconds forward"), None);
    }
}
