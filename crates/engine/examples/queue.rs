//! Measures the event queue: `cargo run --release -p engine --example queue`. Prints the cost of one pop and one push ("hold")
//! on queues of different size, for a small and a large event.

use base::wall::WallClock;
use base::{HostId, SeedTree, SimTime};
use engine::EventQueue;

const HOLDS: u64 = 4_000_000;

fn main() {
    for size in [10, 100, 1_000, 10_000, 100_000] {
        println!("{size:6} events: {:5.1} ns with 8 bytes each, {:5.1} ns with 128", hold::<1>(size), hold::<16>(size));
    }
}

fn hold<const WORDS: usize>(size: u64) -> f64 {
    let mut rng = SeedTree::new(1).stream("", "hold");
    let steps: Vec<u64> = (0..4096).map(|_| rng.below(1_000_000)).collect();
    let mut queue = EventQueue::new(HostId(0));
    for i in 0..size {
        queue.schedule(SimTime::from_nanos(rng.below(1_000_000)), 0, [i; WORDS]);
    }
    let clock = WallClock::start();
    for i in 0..HOLDS {
        let event = queue.pop().expect("the queue stays filled");
        let time = event.key.time.as_nanos() + steps[i as usize % steps.len()];
        queue.schedule(SimTime::from_nanos(time), 0, event.event);
    }
    clock.elapsed().as_nanos() as f64 / HOLDS as f64
}
