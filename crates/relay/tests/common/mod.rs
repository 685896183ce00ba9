//! A real relay on loopback, and another relay as that sees it.
#![allow(dead_code, reason = "each test uses a part")]

use onion::certificates::{Certificates, PeerIdentity, Verified};
use onion::keys::{RelayKeys, make_identity};
use onion::link::{Design, EXPORTER, Handshake, Local, Role, Tls};
use onion_program::tls::{Initiator, Session};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A relay that takes connections; it is killed when this goes.
pub struct Relay {
    process: Child,
    pub port: u16,
    _folder: TempDir,
}

impl Relay {
    pub fn start(options: &[&str]) -> Relay {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(env!("CARGO_BIN_EXE_gnomon-relay"))
            .args(["--Address", "127.0.0.1", "--ORPort", &port.to_string(), "--PublishServerDescriptor", "0"])
            .arg("--DataDirectory")
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut relay = Relay { process, port, _folder: folder };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(relay.process.try_wait().unwrap().is_none(), "the relay has ended");
            std::thread::yield_now();
        }
        relay
    }

    /// Bytes of memory that are its alone.
    pub fn anonymous_bytes(&self) -> u64 {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id())).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("since Linux 4.14");
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Another relay, as the one that is measured sees it.
pub struct Peer {
    keys: RelayKeys,
    identity: PeerIdentity,
    certificates: Certificates,
    tls: Initiator,
    verified: RefCell<Verified>,
}

impl Peer {
    pub fn new() -> Peer {
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let pem = make_identity(|bytes| random.fill_bytes(bytes));
        let keys = RelayKeys::make(&pem, |bytes| random.fill_bytes(bytes)).unwrap();
        let certificates = keys.certificates(onion_program::clock::since_1970().as_secs(), [1; 32]);
        Peer {
            identity: keys.public(),
            keys,
            certificates,
            tls: Initiator::new().unwrap(),
            verified: RefCell::default(),
        }
    }

    /// A connection whose handshake is over, and that says nothing more; these designs are offered.
    pub fn connect(&self, port: u16, designs: &[Design]) -> (TcpStream, Session) {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut session = self.tls.initiate();
        let (mut received, mut out) = (Vec::new(), Vec::new());
        while session.is_handshaking() {
            session.flush(&mut socket).unwrap();
            session.read(&mut socket, &mut received).unwrap();
        }
        let sign = |bytes: &[u8]| self.keys.authenticate(bytes);
        let addresses = ["127.0.0.1".parse().unwrap()];
        let local = Local {
            identity: &self.identity,
            responder_certificates: &self.certificates.responder,
            initiator_certificates: &self.certificates.initiator,
            sign: &sign,
            addresses: &addresses,
            designs,
            verified: &self.verified,
        };
        let mut handshake = Handshake::begin(Role::Initiator { authenticates: true }, &local, [3; 32], &mut out);
        loop {
            send(&mut session, &mut socket, &out);
            out.clear();
            session.read(&mut socket, &mut received).unwrap();
            let certificate = session.shown_digest().unwrap();
            let export = |identity: &[u8; 32]| session.export(EXPORTER, identity).expect("an open session");
            let facts = Tls { certificate, export: &export, peer: addresses[0] };
            let now_s = onion_program::clock::since_1970().as_secs();
            let end = handshake.receive(&mut received, &local, &facts, now_s, &mut out).unwrap();
            if let Some(established) = end {
                assert_eq!(established.design, designs.first().copied());
                send(&mut session, &mut socket, &out);
                return (socket, session);
            }
        }
    }
}

fn send(session: &mut Session, socket: &mut TcpStream, bytes: &[u8]) {
    if !bytes.is_empty() {
        session.seal(bytes).unwrap();
    }
    assert!(session.flush(socket).unwrap());
}
