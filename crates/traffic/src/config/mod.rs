//! What a client is told to do: the types, with their defaults. They are filled from a YAML file (`read`) or from options of the
//! command line (`flags`), never from the environment.

mod error;
mod flags;
mod peers;
mod read;
mod reader;
mod yaml;

pub use error::{BadInput, remedy};
pub use flags::{OPTIONS, flag, from_options};
pub use peers::Peers;

use crate::markov::Model;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// A client's orders.
#[derive(Clone, Debug)]
pub struct Config {
    /// The SOCKS5 proxy; without one, connections are direct.
    pub socks: Option<Peer>,
    pub isolation: Isolation,
    /// Tor's control port, whose circuit events are logged.
    pub control: Option<Peer>,
    pub control_password: Option<String>,
    /// After the process's start.
    pub start: Duration,
    /// After the process's start; without it, the client ends when all counts are done.
    pub stop: Option<Duration>,
    pub seed: u64,
    pub behaviours: Vec<Behaviour>,
}

/// Which transfers share SOCKS5 credentials, and so, with tor's IsolateSOCKSAuth, may share circuits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// None: every transfer has its own credentials.
    Transfer,
    /// Those of one flow of a Markov model; other transfers as with `Transfer`.
    Flow,
    /// Those of one behaviour.
    Behaviour,
    /// All: no credentials are sent.
    None,
}

impl Isolation {
    pub const NAMES: &[&str] = &["transfer", "flow", "behaviour", "none"];

    pub fn named(name: &str) -> Option<Self> {
        let all = [Isolation::Transfer, Isolation::Flow, Isolation::Behaviour, Isolation::None];
        Self::NAMES.iter().position(|n| *n == name).map(|i| all[i])
    }
}

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Without brackets.
    pub host: String,
    pub port: u16,
}

impl Peer {
    /// Reads "HOST:PORT", "ADDRESS:PORT" or "[ADDRESS]:PORT"; the port may be absent if there is a usual one. The error is the remedy.
    pub fn parse(text: &str, usual_port: Option<u16>) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no host and port; write it like 'server1:80', '10.0.0.1:80' or '[::1]:80'");
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| wrong())?;
                (host, rest.strip_prefix(':'))
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = match (port, usual_port) {
            (Some(port), _) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
            (None, Some(port)) => port,
            (None, None) => return Err(wrong()),
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || host.len() > 255 || !host.chars().all(is_name) {
            return Err(wrong());
        }
        Ok(Peer { host: host.into(), port })
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// One thing that a client does again and again.
#[derive(Clone, Debug)]
pub struct Behaviour {
    pub kind: Kind,
    pub direction: Direction,
    /// Each transfer draws one; not empty.
    pub servers: Rc<Peers>,
    /// How many transfers to do; without it, until the client stops.
    pub count: Option<u64>,
    /// How often a transfer that failed is tried again.
    pub retries: u32,
    /// The pause after a failure before the next try or transfer.
    pub retry_after: Duration,
    /// A transfer's longest duration.
    pub timeout: Option<Duration>,
    /// The longest time without a byte in either direction.
    pub stall: Option<Duration>,
    /// How many do this independently, side by side.
    pub parallel: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Download,
    Upload,
}

impl Direction {
    pub const NAMES: &[&str] = &["download", "upload"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// A page, then a pause that is uniform between two times, as a reader makes.
    Web { size: u64, pause: (Duration, Duration) },
    /// One file after the other without a pause.
    Bulk { size: u64 },
    /// A measurement every so often, each of a size in turn, whether or not the one before is done.
    Performance { sizes: Vec<Probe>, every: Duration },
    /// Streams, their packets and optionally flows of streams from hidden Markov models.
    Markov(Models),
}

impl Kind {
    pub const NAMES: &[&str] = &["web", "bulk", "performance", "markov"];

    pub fn name(&self) -> &'static str {
        match self {
            Kind::Web { .. } => "web",
            Kind::Bulk { .. } => "bulk",
            Kind::Performance { .. } => "performance",
            Kind::Markov(_) => "markov",
        }
    }
}

/// One size that a performance client measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    pub size: u64,
    pub timeout: Duration,
    /// How often it is drawn in relation to the others; all 0 means in turn.
    pub weight: f64,
}

impl Probe {
    /// The time that performance clients of Tor experiments give a download of this size: 15 s up to 50 KiB, 60 s up to 1 MiB, and
    /// 120 s above (tornettools' `perfclient` hosts).
    pub fn usual_timeout(size: u64) -> Duration {
        Duration::from_secs(match size {
            0..=51_200 => 15,
            51_201..=1_048_576 => 60,
            _ => 120,
        })
    }
}

#[derive(Clone, Debug)]
pub struct Models {
    /// When flows begin; without it, one flow follows the other.
    pub flows: Option<Rc<Model>>,
    /// When a flow's streams begin, and when it ends; without it, a flow is one stream.
    pub streams: Option<Rc<Model>>,
    pub packets: Rc<Model>,
}

/// The time without a byte after which a transfer has failed, where nothing else is said; it is tgen's.
pub const USUAL_STALL: Duration = Duration::from_secs(30);

/// No pause after a failure is shorter: a failure may take no time.
pub const LEAST_RETRY_AFTER: Duration = Duration::from_millis(1);

/// The pause after a failure, where nothing else is said.
pub const USUAL_RETRY_AFTER: Duration = Duration::from_secs(1);
