//! Connections without TLS to a real relay on loopback: who has an association with it is let in, nobody else, and nobody twice.

mod common;

use common::{Peer, Relay};
use onion::cell::{self, Cell, Command, IdWidth};
use onion::link::Design;
use onion::link::association::{ANSWER, Association, CONTEXTS, EXPORTER, TOKEN};
use onion_program::tls::Session;
use std::io::{Read, Write};
use std::net::TcpStream;

const PCTCP_IPSEC: Design = Design(4);

fn associate(session: &Session) -> Association {
    Association::new(CONTEXTS.map(|context| session.export(EXPORTER, context).expect("an open session")), true)
}

/// A connection that begins with these bytes, of which a cell may be a part.
fn say(relay: &Relay, first: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(("127.0.0.1", relay.port)).unwrap();
    socket.write_all(first).unwrap();
    socket
}

/// Whether the relay closes it without a word.
fn is_refused(mut socket: TcpStream) -> bool {
    let mut said = Vec::new();
    // Bytes that it has not read make the end a reset.
    let _ = socket.read_to_end(&mut said);
    said.is_empty()
}

fn answer(socket: &mut TcpStream) -> [u8; ANSWER] {
    let mut answer = [0; ANSWER];
    socket.read_exact(&mut answer).unwrap();
    answer
}

#[test]
fn an_associated_relay_needs_no_tls_and_others_are_refused() {
    let (relay, peer) = (Relay::start(&["--LinkDesign", "pctcp-ipsec"]), Peer::new());
    let (control, session) = peer.connect(relay.port, &[PCTCP_IPSEC]);
    let mut association = associate(&session);

    // A circuit of one hop is made on the connection at once, without waiting for the answer.
    let (token, expected) = association.open();
    let mut first = token.to_vec();
    cell::put(&mut first, IdWidth::Four, Cell { circuit: 1 << 31, command: Command::CREATE_FAST, body: &[7; 20] });
    let mut socket = say(&relay, &first);
    assert_eq!(answer(&mut socket), expected);
    let mut created = [0; cell::CELL];
    socket.read_exact(&mut created).unwrap();
    assert_eq!(created[..5], [0x80, 0, 0, 0, Command::CREATED_FAST.0]);

    // A byte at a time is the same.
    let (slowly, expected) = association.open();
    let mut other = say(&relay, &slowly[..1]);
    for byte in &slowly[1..] {
        other.write_all(&[*byte]).unwrap();
    }
    assert_eq!(answer(&mut other), expected);

    assert!(is_refused(say(&relay, &token)), "a token that came before");
    let (mut forged, _) = association.open();
    forged[TOKEN - 1] ^= 1;
    assert!(is_refused(say(&relay, &forged)), "not made with the key");
    let mut strange = Association::new([[9; 32]; 3], true);
    assert!(is_refused(say(&relay, &strange.open().0)), "of no association");
    assert!(is_refused(say(&relay, &[b'g'; TOKEN])), "no token");

    // TLS goes on beside it, and the association ends with it.
    let (another, session) = peer.connect(relay.port, &[PCTCP_IPSEC]);
    let mut second = associate(&session);
    let (token, expected) = second.open();
    assert_eq!(answer(&mut say(&relay, &token)), expected);
    drop((control, another));
    let refused = || is_refused(say(&relay, &association.open().0));
    assert!(std::iter::repeat_with(refused).take(1000).any(|refused| refused), "its TLS is gone");
}

#[test]
fn a_relay_of_another_design_knows_no_tokens() {
    let (relay, peer) = (Relay::start(&["--LinkDesign", "pctcp"]), Peer::new());
    let (_control, session) = peer.connect(relay.port, &[]);
    let (token, _) = associate(&session).open();
    let mut said = Vec::new();
    let _ = say(&relay, &token).read_to_end(&mut said);
    assert!(said.len() < ANSWER, "an alert of TLS at most: {said:?}");
}
