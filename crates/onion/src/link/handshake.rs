//! The handshake of both roles: bytes of the peer go in, bytes for it come out, until the link is there.

use super::authenticate::{self, Facts};
use super::netinfo::Netinfo;
use super::versions::{self, Design};
use crate::cell::{self, Cell, Command, IdWidth};
use crate::certificates::{CertificateError, PeerIdentity, Verified};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;

/// Who this end is.
pub struct Local<'a> {
    pub identity: &'a PeerIdentity,
    /// Certificates that a responder shows, and those of an initiator that authenticates.
    pub responder_certificates: &'a [(u8, Vec<u8>)],
    pub initiator_certificates: &'a [(u8, Vec<u8>)],
    /// Signs with the key of the initiator's certificate of type 6.
    pub sign: &'a dyn Fn(&[u8]) -> [u8; 64],
    pub addresses: &'a [IpAddr],
    /// What may lie between this end and a relay of ours, best first.
    pub designs: &'a [Design],
    /// Peers' certificates that were verified before.
    pub verified: &'a RefCell<Verified>,
}

/// What the layer below knows.
pub struct Tls<'a> {
    /// SHA-256 of the responder's certificate.
    pub certificate: [u8; 32],
    /// RFC 5705's exporter with the label [`EXPORTER`] and this context.
    pub export: &'a dyn Fn(&[u8; 32]) -> [u8; 32],
    pub peer: IpAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection. Clients do not authenticate.
    Initiator {
        authenticates: bool,
    },
    Responder,
}

/// A link that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    pub version: u16,
    /// Agreed with a relay of ours.
    pub design: Option<Design>,
    /// Proven; a client has none.
    pub peer: Option<PeerIdentity>,
    pub netinfo: Netinfo,
}

/// Why there will be no link.
#[derive(Debug)]
pub enum Error {
    TooLong(cell::TooLong),
    NoVersion,
    Unexpected(Command),
    Malformed(Command),
    Certificate(CertificateError),
    /// The responder takes no proof that this end could give.
    NoMethod,
    NotProven,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLong(cell) => write!(f, "{cell}"),
            Error::NoVersion => f.write_str("no common version of the link protocol"),
            Error::Unexpected(command) => write!(f, "{command:?} at the wrong time"),
            Error::Malformed(command) => write!(f, "{command:?} that cannot be read"),
            Error::Certificate(error) => write!(f, "{error}"),
            Error::NoMethod => f.write_str("no common way to authenticate"),
            Error::NotProven => f.write_str("AUTHENTICATE does not prove the identity"),
        }
    }
}

impl std::error::Error for Error {}

/// Random bytes that a handshake needs.
pub type Random = [u8; 32];

pub struct Handshake {
    role: Role,
    random: Random,
    /// All that was sent and received so far, as far as it counts.
    sent: Sha256,
    received: Sha256,
    version: Option<(u16, Option<Design>)>,
    challenged: bool,
    certificates: Option<Vec<(u8, Vec<u8>)>>,
    peer: Option<PeerIdentity>,
}

impl Handshake {
    /// Begins; the first bytes to send are in `out`.
    pub fn begin(role: Role, local: &Local<'_>, random: Random, out: &mut Vec<u8>) -> Handshake {
        let mut handshake = Handshake {
            role,
            random,
            sent: Sha256::new(),
            received: Sha256::new(),
            version: None,
            challenged: false,
            certificates: None,
            peer: None,
        };
        handshake.send(out, Command::VERSIONS, &versions::write(local.designs));
        handshake
    }

    /// Takes what came; whatever of `bytes` is not yet a cell, or lies behind the handshake's end, stays in it.
    pub fn receive(
        &mut self,
        bytes: &mut Vec<u8>,
        local: &Local<'_>,
        tls: &Tls<'_>,
        now_s: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Established>, Error> {
        let mut taken = 0;
        let result = loop {
            let width = if self.version.is_none() { IdWidth::Two } else { IdWidth::Four };
            match cell::take(&bytes[taken..], width) {
                Err(error) => break Err(Error::TooLong(error)),
                Ok(None) => break Ok(None),
                Ok(Some((cell, length))) => {
                    let raw = &bytes[taken..taken + length];
                    taken += length;
                    match self.cell(cell, raw, local, tls, now_s, out) {
                        Ok(None) => {}
                        result => break result,
                    }
                }
            }
        };
        bytes.drain(..taken);
        result
    }

    fn cell(
        &mut self,
        cell: Cell<'_>,
        raw: &[u8],
        local: &Local<'_>,
        tls: &Tls<'_>,
        now_s: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Established>, Error> {
        let is_initiator = self.role != Role::Responder;
        // An AUTHENTICATE is not part of what it proves.
        if cell.command != Command::AUTHENTICATE {
            self.received.update(raw);
        }
        if cell.circuit != 0 {
            return Err(Error::Malformed(cell.command));
        }
        match cell.command {
            Command::PADDING | Command::VPADDING | Command::AUTHORIZE if self.version.is_some() => {}
            Command::VERSIONS if self.version.is_none() => {
                self.version = Some(versions::agree(cell.body, local.designs).ok_or(Error::NoVersion)?);
                if !is_initiator {
                    self.introduce(local, tls, now_s, out);
                }
            }
            Command::CERTS if self.version.is_some() && self.certificates.is_none() => {
                let certificates = read_certs(cell.body).ok_or(Error::Malformed(Command::CERTS))?;
                if is_initiator {
                    self.peer = Some(
                        local
                            .verified
                            .borrow_mut()
                            .responder(&certificates, &tls.certificate, now_s)
                            .map_err(Error::Certificate)?,
                    );
                }
                self.certificates = Some(certificates);
            }
            Command::AUTH_CHALLENGE if is_initiator && self.peer.is_some() && !self.challenged => {
                self.challenged = true;
                if self.role == (Role::Initiator { authenticates: true }) {
                    self.authenticate(cell.body, local, tls, out)?;
                }
                let netinfo =
                    netinfo(local, tls, now_s * u64::from(self.role == Role::Initiator { authenticates: true }));
                cell::put(out, IdWidth::Four, Cell { circuit: 0, command: Command::NETINFO, body: &netinfo });
            }
            Command::AUTHENTICATE if !is_initiator && self.peer.is_none() => {
                self.check(cell.body, local, tls, now_s)?
            }
            Command::NETINFO if self.version.is_some() && (!is_initiator || self.challenged) => {
                let (version, design) = self.version.expect("just looked");
                let netinfo = Netinfo::read(cell.body).ok_or(Error::Malformed(Command::NETINFO))?;
                return Ok(Some(Established { version, design, peer: self.peer.take(), netinfo }));
            }
            command => return Err(Error::Unexpected(command)),
        }
        Ok(None)
    }

    /// A responder says all at once: who it is, how to prove who the other is, and NETINFO, which does not count any more.
    fn introduce(&mut self, local: &Local<'_>, tls: &Tls<'_>, now_s: u64, out: &mut Vec<u8>) {
        self.send(out, Command::CERTS, &write_certs(local.responder_certificates));
        let challenge = [&self.random[..], &1u16.to_be_bytes(), &authenticate::METHOD.to_be_bytes()].concat();
        self.send(out, Command::AUTH_CHALLENGE, &challenge);
        cell::put(
            out,
            IdWidth::Four,
            Cell { circuit: 0, command: Command::NETINFO, body: &netinfo(local, tls, now_s) },
        );
    }

    fn authenticate(
        &mut self,
        challenge: &[u8],
        local: &Local<'_>,
        tls: &Tls<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let methods = challenge.get(34..).ok_or(Error::Malformed(Command::AUTH_CHALLENGE))?.as_chunks::<2>().0;
        if !methods.contains(&authenticate::METHOD.to_be_bytes()) {
            return Err(Error::NoMethod);
        }
        self.send(out, Command::CERTS, &write_certs(local.initiator_certificates));
        let responder = self.peer.as_ref().expect("certificates come before");
        let facts = Facts {
            initiator: local.identity,
            responder,
            responder_log: self.received.clone().finalize().into(),
            initiator_log: self.sent.clone().finalize().into(),
            tls_certificate: tls.certificate,
            tls_secret: (tls.export)(&local.identity.rsa_digest),
        };
        let random = self.random[..authenticate::RANDOM].try_into().expect("fewer than there are");
        let body = facts.write(random, local.sign);
        cell::put(out, IdWidth::Four, Cell { circuit: 0, command: Command::AUTHENTICATE, body: &body });
        Ok(())
    }

    fn check(&mut self, body: &[u8], local: &Local<'_>, tls: &Tls<'_>, now_s: u64) -> Result<(), Error> {
        let certificates = self.certificates.as_ref().ok_or(Error::Unexpected(Command::AUTHENTICATE))?;
        let (peer, key) = local.verified.borrow_mut().initiator(certificates, now_s).map_err(Error::Certificate)?;
        let facts = Facts {
            initiator: &peer,
            responder: local.identity,
            responder_log: self.sent.clone().finalize().into(),
            initiator_log: self.received.clone().finalize().into(),
            tls_certificate: tls.certificate,
            tls_secret: (tls.export)(&peer.rsa_digest),
        };
        if !facts.is_proven_by(body, &key) {
            return Err(Error::NotProven);
        }
        self.peer = Some(peer);
        Ok(())
    }

    /// Sends what counts for the proof.
    fn send(&mut self, out: &mut Vec<u8>, command: Command, body: &[u8]) {
        let width = if command == Command::VERSIONS { IdWidth::Two } else { IdWidth::Four };
        let start = out.len();
        cell::put(out, width, Cell { circuit: 0, command, body });
        self.sent.update(&out[start..]);
    }
}

fn netinfo(local: &Local<'_>, tls: &Tls<'_>, now_s: u64) -> Vec<u8> {
    Netinfo { time_s: now_s as u32, other: Some(tls.peer), own: local.addresses.to_vec() }.write()
}

/// CERTS' body.
fn write_certs(certificates: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut body = vec![certificates.len() as u8];
    for (kind, certificate) in certificates {
        body.push(*kind);
        body.extend_from_slice(&(certificate.len() as u16).to_be_bytes());
        body.extend_from_slice(certificate);
    }
    body
}

fn read_certs(body: &[u8]) -> Option<Vec<(u8, Vec<u8>)>> {
    let (count, mut rest) = body.split_first()?;
    let mut certificates = Vec::new();
    for _ in 0..*count {
        let ([kind, high, low], after) = rest.split_first_chunk::<3>()?;
        let (certificate, after) = after.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        certificates.push((*kind, certificate.to_vec()));
        rest = after;
    }
    Some(certificates)
}

#[cfg(test)]
mod tests {
    use super::super::Design;
    use super::*;
    use crate::certificates::Certificates;
    use crate::keys::RelayKeys;
    use crate::keys::tests::keys;

    const NOW: u64 = 946_684_800;

    struct End {
        keys: &'static RelayKeys,
        identity: PeerIdentity,
        certificates: Certificates,
        verified: RefCell<Verified>,
        handshake: Option<Handshake>,
        received: Vec<u8>,
        established: Option<Established>,
    }

    impl End {
        fn new(number: u64) -> End {
            let keys = keys(number);
            let (identity, certificates) = (keys.public(), keys.certificates(NOW, [number as u8; 32]));
            let verified = RefCell::default();
            End { keys, identity, certificates, verified, handshake: None, received: Vec::new(), established: None }
        }

        fn with_local<T>(&mut self, act: impl FnOnce(&mut Option<Handshake>, &mut Vec<u8>, &Local<'_>) -> T) -> T {
            let keys = self.keys;
            let local = Local {
                identity: &self.identity,
                responder_certificates: &self.certificates.responder,
                initiator_certificates: &self.certificates.initiator,
                sign: &|bytes| keys.authenticate(bytes),
                addresses: &["1.2.3.4".parse().expect("an address")],
                designs: &[Design(4)],
                verified: &self.verified,
            };
            act(&mut self.handshake, &mut self.received, &local)
        }

        fn begin(&mut self, role: Role, to: &mut Vec<u8>) {
            self.with_local(|handshake, _, local| *handshake = Some(Handshake::begin(role, local, [7; 32], to)));
        }

        fn go_on(&mut self, tls: &Tls<'_>, to: &mut Vec<u8>) -> Result<(), Error> {
            let established = self.with_local(|handshake, received, local| {
                handshake.as_mut().expect("begun").receive(received, local, tls, NOW, to)
            })?;
            self.established = established.or(self.established.take());
            Ok(())
        }
    }

    /// Lets two ends talk, byte by byte; `meddle` changes what the responder is sent.
    fn talk(role: Role, mut meddle: impl FnMut(usize, u8) -> u8, secrets: [u8; 2]) -> Result<(End, End), Error> {
        let (mut a, mut b) = (End::new(1), End::new(2));
        let certificate = Sha256::digest(&b.certificates.tls).into();
        let exports = secrets.map(|secret| move |identity: &[u8; 32]| identity.map(|byte| byte ^ secret));
        let peer = "5.6.7.8".parse().expect("an address");
        let [of_a, of_b] = exports.each_ref().map(|export| Tls { certificate, export, peer });
        let (mut to_a, mut to_b, mut sent) = (Vec::new(), Vec::new(), 0);
        a.begin(role, &mut to_b);
        b.begin(Role::Responder, &mut to_a);
        while !to_a.is_empty() || !to_b.is_empty() {
            for byte in std::mem::take(&mut to_b) {
                b.received.push(meddle(sent, byte));
                sent += 1;
                b.go_on(&of_b, &mut to_a)?;
            }
            for byte in std::mem::take(&mut to_a) {
                a.received.push(byte);
                a.go_on(&of_a, &mut to_b)?;
            }
        }
        Ok((a, b))
    }

    #[test]
    fn both_know_who_the_other_is() {
        let (a, b) = talk(Role::Initiator { authenticates: true }, |_, byte| byte, [3, 3]).expect("a link");
        let (at_a, at_b) = (a.established.expect("a link"), b.established.expect("a link"));
        assert_eq!((at_a.version, at_a.design, at_a.peer), (5, Some(Design(4)), Some(b.identity)));
        assert_eq!((at_b.version, at_b.design, at_b.peer), (5, Some(Design(4)), Some(a.identity)));
        assert_eq!(at_b.netinfo.time_s, NOW as u32);
    }

    #[test]
    fn clients_stay_unknown() {
        let (a, b) = talk(Role::Initiator { authenticates: false }, |_, byte| byte, [3, 3]).expect("a link");
        assert_eq!(a.established.expect("a link").peer, Some(b.identity));
        let at_b = b.established.expect("a link");
        assert_eq!((at_b.peer, at_b.netinfo.time_s), (None, 0));
    }

    #[test]
    fn a_proof_for_another_connection_proves_nothing() {
        let proven = talk(Role::Initiator { authenticates: true }, |_, byte| byte, [3, 4]);
        assert!(matches!(proven, Err(Error::NotProven)));
    }

    #[test]
    fn what_was_changed_on_the_way_is_noticed() {
        let role = Role::Initiator { authenticates: true };
        let mut bytes = 0;
        talk(role, |place, byte| (bytes = place, byte).1, [3, 3]).expect("a link");
        // All but NETINFO, which nothing proves; some places are enough, since each takes two handshakes.
        for place in (0..bytes - 514).step_by(5) {
            let known = talk(role, |at, byte| if at == place { byte ^ 1 } else { byte }, [3, 3]);
            let believed = known.ok().and_then(|(_, b)| b.established).and_then(|link| link.peer);
            assert_eq!(believed, None, "byte {place} of {bytes}");
        }
    }
}
