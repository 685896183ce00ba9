//! What every other crate may use and what knows none of them: simulated time, dates, ids, quantities with units, the seed tree,
//! deterministic hash maps, hints to the caches, what of a run the machine decided, bounded reading, and the one door to the wall clock.

pub mod date;
pub mod ids;
pub mod input;
pub mod interference;
pub mod map;
pub mod prefetch;
pub mod quantity;
pub mod seed;
pub mod time;
pub mod units;
pub mod wall;

pub use date::StartDate;
pub use ids::HostId;
pub use interference::{Cause, Interferences};
pub use seed::{Rng, SeedTree};
pub use time::{SimDuration, SimTime};
pub use units::{Bandwidth, ByteSize};
