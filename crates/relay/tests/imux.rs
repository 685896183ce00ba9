//! Connections of a channel of several, to a real relay on loopback.

mod common;

use common::{Peer, Relay};
use onion::cell::{self, Cell, Command, IdWidth};
use onion::link::Design;
use onion::link::private::{CHANNEL, Joining};

const IMUX: Design = Design(3);

#[test]
fn who_joins_a_channel_is_answered() {
    let (relay, peer) = (Relay::start(&["--LinkDesign", "imux"]), Peer::new());
    for is_senders in [true, false] {
        let (mut socket, mut session) = peer.connect(relay.port, &[IMUX]);
        let (mut out, mut received) = (Vec::new(), Vec::new());
        let joining = Joining { number: 7, is_senders, or_port: 9 };
        cell::put(&mut out, IdWidth::Four, Cell { circuit: 0, command: CHANNEL, body: &joining.write() });
        session.seal(&out).unwrap();
        assert!(session.flush(&mut socket).unwrap());
        while received.len() < cell::CELL && session.read(&mut socket, &mut received).is_ok_and(|count| count > 0) {}
        if is_senders {
            assert_eq!(received[..5], [0, 0, 0, 0, Command::PADDING.0]);
        } else {
            assert!(received.is_empty(), "the relay has made no such channel");
        }
    }
}
