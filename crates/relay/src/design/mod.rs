//! What lies between two relays of ours, which circuit's cell is next and which connection takes it: the experiment's settings.

pub mod imux;
mod kist;
pub mod mapping;
pub mod torchestra;
mod turns;

pub use kist::{KistFormula, Tokens};
pub use turns::{Recent, Turn, Turns};

use onion::link;

/// Agreed for each connection between two that know it; towards all others circuits share a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkDesign {
    /// All circuits share one connection.
    #[default]
    Vanilla,
    /// Each circuit has a connection of its own (AlSabah and Goldberg, "PCTCP", CCS 2013), with TLS as IMUX's authors evaluated it.
    Pctcp,
    /// The same without TLS, in segments that leave room for what IPsec puts around them, as it was published.
    PctcpIpsec,
    /// Two connections, for light and for heavy circuits (Gopal and Heninger, "Torchestra", WPES 2012).
    Torchestra,
    /// As many connections as circuits that are active want, within the relay's limit (Geddes, Jansen and Hopper, "IMUX", WPES 2014).
    Imux,
}

/// Each design, its name and its number in the private versions of the link protocol.
const DESIGNS: [(LinkDesign, &str, &[link::Design]); 5] = [
    (LinkDesign::Vanilla, "vanilla", &[]),
    (LinkDesign::Pctcp, "pctcp", &[link::Design(1)]),
    (LinkDesign::PctcpIpsec, "pctcp-ipsec", &[link::Design(4)]),
    (LinkDesign::Torchestra, "torchestra", &[link::Design(2)]),
    (LinkDesign::Imux, "imux", &[link::Design(3)]),
];

impl LinkDesign {
    pub fn read(name: &str) -> Option<LinkDesign> {
        DESIGNS.iter().find(|(_, other, _)| *other == name).map(|(design, ..)| *design)
    }

    /// What to offer in VERSIONS.
    pub fn offers(self) -> &'static [link::Design] {
        DESIGNS.iter().find(|(design, ..)| *design == self).map_or(&[], |(.., offers)| offers)
    }

    /// What was agreed.
    pub fn agreed(agreed: Option<link::Design>) -> LinkDesign {
        let is_agreed = |offers: &[link::Design]| agreed.is_some_and(|agreed| offers.contains(&agreed));
        DESIGNS.iter().find(|(.., offers)| is_agreed(offers)).map_or(LinkDesign::Vanilla, |(design, ..)| *design)
    }

    /// Whether several connections make a channel, so that cells carry numbers.
    pub fn is_numbered(self) -> bool {
        matches!(self, LinkDesign::Torchestra | LinkDesign::Imux)
    }
}

/// Which circuit of those that may is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CircuitScheduler {
    #[default]
    RoundRobin,
    /// The one that has sent least of late (Tang and Goldberg, "An Improved Algorithm for Tor Circuit Scheduling", CCS 2010).
    Ewma,
}

impl CircuitScheduler {
    pub fn read(name: &str) -> Option<CircuitScheduler> {
        match name {
            "round-robin" => Some(CircuitScheduler::RoundRobin),
            "ewma" => Some(CircuitScheduler::Ewma),
            _ => None,
        }
    }
}

/// Which of IMUX's connections takes a cell (IMUX, section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionScheduler {
    /// Circuits are dealt out to connections in turn; when a connection comes or goes, no more move than must.
    #[default]
    CircuitRoundRobin,
    /// Cells go to connections in turn, past those that take none.
    CellRoundRobin,
    /// Circuits that send little go to connections that send little ([`mapping`]).
    EwmaMapping,
    /// The connection with the fewest bytes in its buffer and the kernel's.
    ShortestQueue,
    /// The connection to which KIST would give most.
    Kist,
}

impl ConnectionScheduler {
    pub fn read(name: &str) -> Option<ConnectionScheduler> {
        match name {
            "circuit-rr" => Some(ConnectionScheduler::CircuitRoundRobin),
            "cell-rr" => Some(ConnectionScheduler::CellRoundRobin),
            "ewma-mapping" => Some(ConnectionScheduler::EwmaMapping),
            "shortest-queue" => Some(ConnectionScheduler::ShortestQueue),
            "kist" => Some(ConnectionScheduler::Kist),
            _ => None,
        }
    }

    /// Whether each cell chooses, rather than its circuit.
    pub fn is_by_cell(self) -> bool {
        !matches!(self, ConnectionScheduler::CircuitRoundRobin | ConnectionScheduler::EwmaMapping)
    }
}

/// How circuits are known that count as active for IMUX, or as heavy for Torchestra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// All that are open (IMUX alone).
    Opened,
    /// By what they have sent of late.
    Ewma,
    /// By what the guard knows of their clients.
    Label,
}

impl By {
    pub fn read(name: &str) -> Option<By> {
        match name {
            "opened" => Some(By::Opened),
            "ewma" => Some(By::Ewma),
            "label" => Some(By::Label),
            _ => None,
        }
    }
}

/// When cells are handed to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writing {
    /// All that a socket takes, one connection after the other.
    Vanilla,
    /// Each interval, as much as TCP can send soon, by the turns of the circuits of all connections.
    Kist { interval_ms: u64, formula: KistFormula },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn designs_are_known_by_name_and_number() {
        for (design, name, offers) in DESIGNS {
            assert_eq!(LinkDesign::read(name), Some(design));
            assert_eq!(LinkDesign::agreed(offers.first().copied()), design);
            assert_eq!(design.offers(), offers);
        }
        assert_eq!(LinkDesign::agreed(Some(link::Design(77))), LinkDesign::Vanilla);
    }
}
