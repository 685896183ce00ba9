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
    /// Running hosts of the own list.
    pub running: Duration,
    /// From the end of the own list on: hosts of other lists, those that waited for what another worker had, and looking for them.
    pub stealing: Duration,
    /// Delivering messages, finding the hosts of a window, handing over.
    pub delivering: Duration,
    /// Waiting for the other workers at barriers.
    pub waiting: Duration,
    /// In [`window_ended`](crate::Worker::window_ended).
    pub ending: Duration,
    /// In the window callback, which worker 0 calls.
    pub callback: Duration,
}

impl WorkerStats {
    pub(crate) fn add(&mut self, window: &WindowCosts) {
        self.rounds += 1;
        self.hosts_run += window.hosts_run;
        self.hosts_stolen += window.hosts_stolen;
        self.running += window.running;
        self.stealing += window.stealing;
        self.delivering += window.delivering;
        self.waiting += window.waiting;
        self.ending += window.ending;
        self.callback += window.callback;
    }
}

/// What one window took of one worker's wall time; see [`WorkerStats`] for what each is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCosts {
    /// At the barrier before the window.
    pub waiting: Duration,
    /// At the end of the window before, by each worker.
    pub ending: Duration,
    /// In the callback that follows it.
    pub callback: Duration,
    pub delivering: Duration,
    pub running: Duration,
    pub stealing: Duration,
    /// Calls of `run_until`.
    pub hosts_run: u64,
    /// Those of `hosts_run` that another worker is home to.
    pub hosts_stolen: u64,
}

/// Sums over all workers, up to some window's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub hosts_run: u64,
    pub messages_sent: u64,
}
