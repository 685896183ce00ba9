//! What the run's digest costs: nanoseconds per packet without payload, gigabytes per second of payload.
//! `cargo run --release -p recorder --example digest_speed`

use base::SimTime;
use base::wall::WallClock;
use recorder::HostDigest;
use std::hint::black_box;

fn main() {
    let headers = [0x45u8; 52];
    let mut digest = HostDigest::new();
    let rounds = 5_000_000u64;
    let clock = WallClock::start();
    for i in 0..rounds {
        digest.packet(SimTime::from_nanos(i), black_box(&headers), &[]);
    }
    println!("{:6.1} ns per packet without payload", clock.elapsed().as_nanos() as f64 / rounds as f64);
    for size in [64usize, 1448, 16 * 1024, 65_000] {
        let payload = vec![7u8; size];
        let rounds = (2_000_000_000 / size.max(1000)) as u64;
        let clock = WallClock::start();
        for i in 0..rounds {
            digest.packet(SimTime::from_nanos(i), black_box(&headers), &[black_box(&payload)]);
        }
        let ns = clock.elapsed().as_nanos() as f64 / rounds as f64;
        println!("{ns:6.1} ns per packet with {size} bytes, {:.1} GB/s", size as f64 / ns);
    }
    println!("{}", digest.hex());
}
