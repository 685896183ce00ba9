//! Why a run could not start or did not end well.

use base::HostId;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// `hosts` and their lookaheads differ in number.
    LookaheadCount { hosts: usize, lookaheads: usize },
    /// A host whose incoming latency is zero could never run ahead, and no `runahead` floor is set.
    ZeroLookahead { host: HostId },
    /// No workers, or more than [`Config::workers`](crate::Config::workers) allows.
    Workers { asked: usize },
    /// The operating system refused a thread.
    Spawn { worker: usize, reason: String },
    /// A worker's state could not be created.
    WorkerSetup { worker: usize, reason: String },
    /// A bug: a panic while `host` ran or took a message, or, without a host, in a worker's own code or the callback.
    Panic { worker: usize, host: Option<HostId>, message: String },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::LookaheadCount { hosts, lookaheads } => {
                write!(f, "{hosts} hosts but {lookaheads} lookaheads: give one for each host")
            }
            Error::ZeroLookahead { host } => {
                write!(f, "{host} can be reached with latency 0: give its links a latency or set a runahead")
            }
            Error::Workers { asked } => {
                write!(f, "{asked} workers asked for: from 1 to {} are possible", crate::engine::MAX_WORKERS)
            }
            Error::Spawn { worker, reason } => write!(f, "worker {worker}: no thread: {reason}"),
            Error::WorkerSetup { worker, reason } => write!(f, "worker {worker}: {reason}"),
            Error::Panic { worker, host: Some(host), message } => {
                write!(f, "bug while worker {worker} ran {host}: {message}")
            }
            Error::Panic { worker, host: None, message } => write!(f, "bug in worker {worker}: {message}"),
        }
    }
}

impl std::error::Error for Error {}
