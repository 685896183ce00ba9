//! A parallel discrete-event engine: it moves hosts through simulated time, and knows nothing of what they are.
//!
//! A [`Host`] owns its events, usually in an [`EventQueue`], and is touched by one worker at a time. Hosts reach each other only
//! by messages through an [`Outbox`]. [`Engine::run`] repeats rounds until the stop time:
//!
//! 1. `T` is the earliest event of all hosts. Host `h` may run alone up to, and excluding, its *horizon*
//!    `T + lookahead(h)`, capped at the stop time: nobody can send anything before `T`, and nothing travels to `h` faster than
//!    its own smallest incoming latency, which is its lookahead.
//! 2. Every worker delivers the last round's messages to the hosts that it is home to, lists those with an event before their
//!    horizon, runs them, and then, under [`Policy::Steal`], runs hosts of other lists that nobody has begun. Hosts that need what
//!    one worker at a time can have are left to the one that has it ([`Progress::Waits`]); nobody sleeps for it.
//! 3. At the round's one barrier the workers agree on the next `T`.
//!
//! # Rules of the model
//!
//! - A host handles what it has at one moment in the order (time, class, source host, source sequence). The order depends on
//!   the hosts alone, so a run gives the same result with any number of workers and under each policy.
//! - Events at or after the stop time do not happen.
//! - No window is wider than 100 ms, so that a run of distant hosts, or of one alone, is still watched and stopped in time.
//! - A `runahead` floor (Shadow's option) makes horizons at least `T + runahead`. A message that would arrive inside a window
//!   that is wider than its latency for this reason is delayed to the end of the target's window: to `T + runahead`. Such
//!   messages are counted ([`WorkerStats::messages_delayed`]); without a floor there are none.
//! - A message that arrives sooner than its target's declared incoming latency allows is a bug of the sender, and ends the run
//!   with an error.

mod barrier;
mod engine;
mod error;
mod host;
mod index;
mod mailbox;
#[cfg(test)]
mod many_threads;
mod outbox;
mod peers;
mod queue;
mod shared;
mod stats;
mod sync;
mod waiting;
mod worker;
mod worklist;

pub use engine::{Config, Ending, Engine, MAX_WORKERS, Meeting, Outcome, Policy, WindowEnd, cost_of_meeting};
pub use error::Error;
pub use host::{Host, Progress, Worker};
pub use mailbox::Envelope;
pub use outbox::Outbox;
pub use peers::{Peers, Ranks, Standing};
pub use queue::{Event, EventKey, EventQueue};
pub use stats::{Totals, WindowCosts, WorkerStats};
