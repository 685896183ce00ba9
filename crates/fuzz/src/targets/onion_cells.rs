//! What relays and clients send: cells, messages in them, and requests for handshakes of circuits, by the first byte.

use onion::cell::{self, BODY, IdWidth};
use onion::circuit::message::{self, Begin, Extend2, Message};
use onion::handshake::{ntor, ntor_v3};
use onion::link::Netinfo;
use x25519_dalek::{PublicKey, StaticSecret};

/// Any key will do: what it is is known to whoever sends a request.
fn onion_key() -> StaticSecret {
    StaticSecret::from([3; 32])
}

pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 4 {
        0 => cells(rest, if kind & 4 == 0 { IdWidth::Two } else { IdWidth::Four }),
        1 => messages(rest),
        2 => bodies(rest),
        _ => requests(rest),
    }
}

/// Each that is whole is written as it was read.
fn cells(mut bytes: &[u8], width: IdWidth) {
    while let Ok(Some((cell, length))) = cell::take(bytes, width) {
        let mut again = Vec::new();
        cell::put(&mut again, width, cell);
        assert_eq!(again, bytes[..length], "a cell is written otherwise than it was read");
        bytes = &bytes[length..];
    }
}

fn messages(bytes: &[u8]) {
    let mut body = [0; BODY];
    let length = bytes.len().min(BODY);
    body[..length].copy_from_slice(&bytes[..length]);
    let Some(read) = Message::read(&body) else { return };
    let again = read.write(|_| {});
    assert_eq!(Message::read(&again), Some(read), "a message is read otherwise than it was written");
    if let Some(begin) = Begin::read(read.body) {
        assert!(!begin.host.is_empty() && begin.port != 0);
    }
    if let Some(extend) = Extend2::read(read.body) {
        let again = Extend2::read(&extend.write()).expect("what was written");
        assert_eq!((again.fingerprint, again.ed25519), (extend.fingerprint, extend.ed25519));
        assert_eq!((again.handshake, again.data), (extend.handshake, extend.data));
    }
    message::read_sendme(read.body);
}

fn bodies(bytes: &[u8]) {
    if let Some((_, data)) = message::read_create2(bytes) {
        assert!(data.len() + 4 <= bytes.len());
    }
    if let Some(data) = message::read_created2(bytes) {
        assert!(data.len() + 2 <= bytes.len());
    }
    if let Some(netinfo) = Netinfo::read(bytes) {
        assert!(netinfo.own.len() <= 255);
    }
}

/// Behind what names the relay, which a fuzzer would never guess.
fn requests(bytes: &[u8]) {
    let key = onion_key();
    let public = PublicKey::from(&key).to_bytes();
    let request = [&[1; 20], &public[..], bytes].concat();
    if ntor::answer(&request, &[1; 20], &key, [4; 32]).is_ok() {
        assert_eq!(bytes.len(), 32);
    }
    let request = [&[2; 32], &public[..], bytes].concat();
    assert!(ntor_v3::Request::read(&request, &[2; 32], &key).is_err(), "what nobody has signed is taken");
}
