//! The handshake of a link between two relays. By the first byte, a relay that answers or one that asks is sent bytes of any kind, or
//! what an honest peer says with some of it changed: three bytes for each change, a place and what is put there.

use crate::input::Input;
use onion::certificates::{Certificates, PeerIdentity};
use onion::keys::{RelayKeys, make_identity};
use onion::link::{Design, Established, Handshake, Local, Role, Tls};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

const NOW_S: u64 = 946_684_800;
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(11, 0, 0, 1));

struct Relay {
    keys: RelayKeys,
    identity: PeerIdentity,
    certificates: Certificates,
}

/// The same in every run: bytes of a counter that is stirred (Steele and others, "Fast splittable pseudorandom number generators").
fn relay(seed: u64) -> Relay {
    let mut state = seed;
    let mut fill = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let stirred = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            *byte = (stirred ^ stirred >> 27).wrapping_mul(0x94d0_49bb_1331_11eb).to_be_bytes()[0];
        }
    };
    let identity = make_identity(&mut fill);
    let keys = RelayKeys::make(&identity, &mut fill).expect("an identity just made");
    Relay { identity: keys.public(), certificates: keys.certificates(NOW_S, [seed as u8; 32]), keys }
}

static RELAYS: LazyLock<[Relay; 2]> = LazyLock::new(|| [relay(1), relay(2)]);

/// One end of a talk.
struct End {
    relay: &'static Relay,
    handshake: Handshake,
    received: Vec<u8>,
    established: Option<Established>,
}

impl Relay {
    fn with_local<T>(&self, act: impl FnOnce(&Local<'_>) -> T) -> T {
        act(&Local {
            identity: &self.identity,
            responder_certificates: &self.certificates.responder,
            initiator_certificates: &self.certificates.initiator,
            sign: &|bytes| self.keys.authenticate(bytes),
            addresses: &[ADDRESS],
            designs: &[Design(1)],
            verified: &RefCell::default(),
        })
    }

    fn tls_digest(&self) -> [u8; 32] {
        Sha256::digest(&self.certificates.tls).into()
    }
}

impl End {
    fn begin(relay: &'static Relay, role: Role, out: &mut Vec<u8>) -> End {
        let handshake = relay.with_local(|local| Handshake::begin(role, local, [7; 32], out));
        End { relay, handshake, received: Vec::new(), established: None }
    }

    /// Takes bytes; whether it goes on.
    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        self.received.extend_from_slice(bytes);
        if self.established.is_some() {
            return false;
        }
        let tls = Tls { certificate: RELAYS[1].tls_digest(), export: &|context| *context, peer: ADDRESS };
        let End { relay, handshake, received, .. } = self;
        match relay.with_local(|local| handshake.receive(received, local, &tls, NOW_S, out)) {
            Ok(established) => self.established = established,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return false;
            }
        }
        true
    }
}

pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.byte();
    let initiator = Role::Initiator { authenticates: true };
    let (role, relay) = if kind & 1 == 0 { (Role::Responder, &RELAYS[1]) } else { (initiator, &RELAYS[0]) };
    let mut out = Vec::new();
    let mut ours = End::begin(relay, role, &mut out);
    if kind & 2 == 0 {
        ours.receive(data.get(1..).unwrap_or_default(), &mut Vec::new());
        assert!(ours.established.is_none_or(|link| link.peer.is_none()), "a stranger has proven to be somebody");
        return;
    }
    let mut changes = Vec::new();
    while !input.is_empty() {
        changes.push((usize::from(input.u16()), input.byte()));
    }
    let (other_role, other) = if kind & 1 == 0 { (initiator, &RELAYS[0]) } else { (Role::Responder, &RELAYS[1]) };
    let mut to_us = Vec::new();
    let mut theirs = End::begin(other, other_role, &mut to_us);
    let (mut sent, mut is_changed) = (0, false);
    loop {
        let mut bytes = std::mem::take(&mut to_us);
        for (place, byte) in &changes {
            if let Some(at) = place.checked_sub(sent).and_then(|at| bytes.get_mut(at)) {
                is_changed |= *at != *byte;
                *at = *byte;
            }
        }
        sent += bytes.len();
        let goes_on = bytes.is_empty() || ours.receive(&bytes, &mut out);
        let answer = std::mem::take(&mut out);
        if !goes_on || answer.is_empty() && bytes.is_empty() || !theirs.receive(&answer, &mut to_us) && to_us.is_empty()
        {
            break;
        }
    }
    match ours.established.and_then(|link| link.peer) {
        Some(peer) => assert_eq!(peer, other.identity, "somebody else has been proven"),
        None => assert!(is_changed, "an honest peer has proven nothing"),
    }
}
