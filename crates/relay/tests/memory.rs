//! What a relay's idle connections take of the machine's memory: a real process on loopback, and connections that have proven to be a relay's.

mod common;

use common::{Peer, Relay};

/// Bytes of a relay that has no connection, and of each that it has.
const OF_ITSELF: u64 = 1 << 20;
const OF_A_CONNECTION: u64 = 6 * 1024;

#[test]
fn idle_connections_take_little() {
    let (relay, peer) = (Relay::start(&[]), Peer::new());
    let mut all = vec![peer.connect(relay.port, &[]).0];
    let before = relay.anonymous_bytes();
    assert!(before <= OF_ITSELF, "{before} bytes");
    all.extend((0..400).map(|_| peer.connect(relay.port, &[]).0));
    let each = (relay.anonymous_bytes() - before) / 400;
    assert!(each <= OF_A_CONNECTION, "{each} bytes for each of {} connections", all.len());
}
