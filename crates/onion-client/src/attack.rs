//! Attacks that use up what a relay has (`docs/attacks.md`): what is wanted. `client/attack.rs` makes them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Circuits through the victim, between varying others, which stay open.
    Circuits,
    /// Connections to the victim, as of many clients, each with a circuit; through a proxy, it does not know whose.
    Sybils,
    /// Streams through the victim as exit, which stay idle.
    Streams,
    /// Circuits through the victim that send just enough to count as active.
    Active,
    /// Connections to the victim that never say anything.
    Handshakes,
}

impl Kind {
    pub fn read(name: &str) -> Option<Kind> {
        match name {
            "circuits" => Some(Kind::Circuits),
            "sybils" => Some(Kind::Sybils),
            "streams" => Some(Kind::Streams),
            "active" => Some(Kind::Active),
            "handshakes" => Some(Kind::Handshakes),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attack {
    pub kind: Kind,
    /// The victim's nickname or fingerprint.
    pub victim: String,
    /// Circuits, or streams, that begin each time.
    pub count: usize,
    pub every_ms: u64,
    /// Since the program's start.
    pub start_ms: u64,
    pub stop_ms: u64,
    /// Where streams go, `HOST:PORT`.
    pub target: String,
    /// Of circuits.
    pub hops: usize,
}

impl Default for Attack {
    /// The numbers of "IMUX: Managing Tor Connections from Two to Infinity, and Beyond", section 3.3.
    fn default() -> Attack {
        Attack {
            kind: Kind::Circuits,
            victim: String::new(),
            count: 1000,
            every_ms: 6000,
            start_ms: 1_800_000,
            stop_ms: 3_600_000,
            target: String::new(),
            hops: 3,
        }
    }
}

impl Attack {
    /// Itself, if it is complete.
    pub fn checked(self) -> Result<Attack, String> {
        if self.victim.is_empty() {
            return Err("AttackVictim is missing: the nickname or fingerprint of a relay".to_owned());
        }
        if self.kind == Kind::Streams && self.place().is_none() {
            return Err("AttackTarget is missing: HOST:PORT, to which streams go".to_owned());
        }
        if self.stop_ms <= self.start_ms {
            return Err("AttackStop must be after AttackStart".to_owned());
        }
        Ok(self)
    }

    /// Where streams go.
    pub fn place(&self) -> Option<(&str, u16)> {
        let (host, port) = self.target.rsplit_once(':')?;
        Some((host, port.parse().ok()?))
    }
}

/// How often a circuit sends that is to count as active: an exponential mean with a half-life of 30 s approaches 43.3 times the cells
/// per second, so that 50 want 1.16 of them; at this pace it passes 50 after 77 s, and approaches 60.
pub const CELL_EVERY_MS: u64 = 720;
