//! What a run cost, per worker and together.

use std::time::Duration;

/// Accounting of one worker. Durations are wall time; they never reach a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    pub rounds: u64,
    /// Calls of `run_until`.
    pub hosts_run: u64,
    /// Those of `hosts_run` that another worker is home to.
    pub hosts_stolen: u64,
    pub messages_sent: u64,
    /// Messages put off to the end of their target's window, see the `runahead` rule.
    pub messages_delayed: u64,
    /// Running hosts, own and stolen, and looking for some to steal.
    pub running: Duration,
    /// Delivering messages and finding the hosts of a window.
    pub delivering: Duration,
    /// Waiting for the other workers.
    pub waiting: Duration,
}

/// Sums over all workers, up to some window's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub hosts_run: u64,
    pub messages_sent: u64,
}
