//! TLS as relays speak it: who a peer is follows from its CERTS cell, so any certificate is taken here.
//!
//! Tor's relays sign each handshake with RSA. Programs of ours name a protocol (ALPN, RFC 7301), which tor passes over, and relays of ours that hear it
//! sign with Ed25519.

use hkdf::Hkdf;
use hkdf::hmac::EagerHash;
use onion::certificates::Certificates;
use onion::keys::RelayKeys;
use rustls::client::UnbufferedClientConnection;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{ClientConfig, CommonState, DigitallySignedStruct, Error, KeyLog, ServerConfig, SignatureScheme};
use sha2::{Digest, Sha256, Sha384};
use std::fmt;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Plain bytes that a connection takes before they are written: little, since what is taken cannot be scheduled any more.
pub const BUFFER: usize = 16 * 1024;

/// It will go on when the socket says so.
pub fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// One end of a TLS connection. It has no buffers but for bytes that wait: most connections are idle at a time, and a relay may have thousands.
pub struct Session {
    end: End,
    secrets: Arc<Secrets>,
    exporter: Option<Exporter>,
    /// What came and is no whole record yet.
    incoming: Vec<u8>,
    /// Records for the socket, of which so many bytes are sent.
    outgoing: Vec<u8>,
    sent: usize,
}

/// In boxes, since what holds sessions has room for more of them than there are.
enum End {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

impl Session {
    fn new(end: End, secrets: &Arc<Secrets>) -> Session {
        let secrets = secrets.clone();
        Session { end, secrets, exporter: None, incoming: Vec::new(), outgoing: Vec::new(), sent: 0 }
    }

    /// Reads what a socket has, up to a buffer's, and puts what it says behind `plain`; how many bytes came, of which there are none when the
    /// peer has ended.
    ///
    /// # Errors
    /// The socket's, and TLS' as data that cannot be.
    pub fn read(&mut self, socket: &mut impl Read, plain: &mut Vec<u8>) -> io::Result<usize> {
        let mut buffer = [0; BUFFER];
        let count = socket.read(&mut buffer)?;
        self.incoming.extend_from_slice(&buffer[..count]);
        self.process(plain, &[])?;
        Ok(count)
    }

    /// Makes a record of these bytes, BUFFER at most, once the handshake is over.
    ///
    /// # Errors
    /// TLS', as data that cannot be.
    pub fn seal(&mut self, plain: &[u8]) -> io::Result<()> {
        self.process(&mut Vec::new(), plain)
    }

    /// Hands records to the socket; whether it took them all, or says later that it can take more.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, socket: &mut impl Write) -> io::Result<bool> {
        if self.is_handshaking() && self.outgoing.is_empty() {
            // An initiator speaks first.
            self.process(&mut Vec::new(), &[])?;
        }
        while self.sent < self.outgoing.len() {
            match socket.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        (self.outgoing, self.sent) = (Vec::new(), 0);
        Ok(true)
    }

    /// Lets TLS take what came and say what it has to, with a record of `to_seal` if that is not empty.
    fn process(&mut self, plain: &mut Vec<u8>, to_seal: &[u8]) -> io::Result<()> {
        let (mut taken, mut work) = (0, Work { plain, outgoing: &mut self.outgoing, to_seal });
        let result = loop {
            let rest = &mut self.incoming[taken..];
            let (discard, next) = match &mut self.end {
                End::Client(end) => work.step(end.process_tls_records(rest)),
                End::Server(end) => work.step(end.process_tls_records(rest)),
            };
            taken += discard;
            match next {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))),
            }
        };
        if let Some(exporter) = self.secrets.take() {
            self.exporter = Some(exporter);
        }
        self.incoming.drain(..taken);
        if self.incoming.is_empty() {
            self.incoming = Vec::new();
        }
        result
    }

    fn state(&self) -> &CommonState {
        match &self.end {
            End::Client(end) => end,
            End::Server(end) => end,
        }
    }

    pub fn is_handshaking(&self) -> bool {
        self.state().is_handshaking()
    }

    /// Records wait for the socket.
    pub fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// SHA-256 of the certificate that the other end has shown.
    pub fn shown_digest(&self) -> Option<[u8; 32]> {
        self.state().peer_certificates()?.first().map(|shown| Sha256::digest(shown).into())
    }

    /// Whether the responder of this session shows its certificate of an Ed25519 key.
    pub fn is_quick(&self) -> bool {
        self.state().alpn_protocol() == Some(QUICK)
    }

    /// 32 bytes that both ends of the session can derive and nobody else (RFC 8446, section 7.5; RFC 5705); nothing before its handshake is over.
    pub fn export(&self, label: &[u8], context: &[u8]) -> Option<[u8; 32]> {
        let exporter = self.exporter.as_ref()?;
        Some(match exporter {
            Exporter::Sha256(secret) => export::<Sha256>(secret, label, context),
            Exporter::Sha384(secret) => export::<Sha384>(secret, label, context),
        })
    }
}

/// What a session has to do, and where that goes.
struct Work<'a> {
    plain: &'a mut Vec<u8>,
    outgoing: &'a mut Vec<u8>,
    to_seal: &'a [u8],
}

impl Work<'_> {
    /// How many bytes of what came are done with, and whether TLS may have more to do.
    fn step<Data>(&mut self, status: UnbufferedStatus<'_, '_, Data>) -> (usize, Result<bool, Error>) {
        let UnbufferedStatus { mut discard, state, .. } = status;
        let result = state.and_then(|state| match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    discard += record.discard;
                    self.plain.extend_from_slice(record.payload);
                }
                Ok(true)
            }
            ConnectionState::EncodeTlsData(mut data) => {
                let encoded = fill(self.outgoing, |room| match data.encode(room) {
                    Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
                    result => result.map_err(|_| None),
                });
                encoded.map(|()| true)
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Ok(true)
            }
            ConnectionState::WriteTraffic(mut traffic) if !self.to_seal.is_empty() => {
                let plain = std::mem::take(&mut self.to_seal);
                let sealed = fill(self.outgoing, |room| match traffic.encrypt(plain, room) {
                    Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                    result => result.map_err(|_| None),
                });
                sealed.map(|()| true)
            }
            ConnectionState::PeerClosed => Ok(true),
            _ if self.to_seal.is_empty() => Ok(false),
            _ => Err(Error::HandshakeNotComplete),
        });
        (discard, result)
    }
}

/// Puts behind `to` what `write` writes, which first says how much room it needs; without that, it cannot go on.
fn fill(to: &mut Vec<u8>, mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>) -> Result<(), Error> {
    let before = to.len();
    let exhausted = || Error::General("no more records can be made".to_owned());
    let written = match write(&mut []) {
        Err(Some(room)) => {
            to.resize(before + room, 0);
            write(&mut to[before..])
        }
        result => result,
    };
    let written = written.map_err(|_| exhausted())?;
    to.truncate(before + written);
    Ok(())
}

/// What exported bytes follow from (RFC 8446, section 7.1: exporter_master_secret), as long as the session's hash.
enum Exporter {
    Sha256([u8; 32]),
    Sha384([u8; 48]),
}

/// Where TLS leaves the exporter's secret of the session that it works on.
#[derive(Default)]
struct Secrets(Mutex<Option<Exporter>>);

impl Secrets {
    fn take(&self) -> Option<Exporter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl KeyLog for Secrets {
    fn log(&self, _: &str, _: &[u8], secret: &[u8]) {
        let exporter = match secret.len() {
            32 => secret.try_into().ok().map(Exporter::Sha256),
            _ => secret.try_into().ok().map(Exporter::Sha384),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = exporter;
    }

    fn will_log(&self, label: &str) -> bool {
        label == "EXPORTER_SECRET"
    }
}

fn export<D: EagerHash + Digest>(secret: &[u8], label: &[u8], context: &[u8]) -> [u8; 32] {
    let derived = expand::<D>(secret, label, &D::digest([]), <D as Digest>::output_size());
    expand::<D>(&derived, b"exporter", &D::digest(context), 32).try_into().expect("as long as asked for")
}

/// HKDF-Expand-Label (RFC 8446, section 7.1).
fn expand<D: EagerHash>(secret: &[u8], label: &[u8], context: &[u8], length: usize) -> Vec<u8> {
    let mut info = (length as u16).to_be_bytes().to_vec();
    for (prefix, part) in [(&b"tls13 "[..], label), (&[], context)] {
        info.push((prefix.len() + part.len()) as u8);
        info.extend_from_slice(prefix);
        info.extend_from_slice(part);
    }
    let mut out = vec![0; length];
    Hkdf::<D>::from_prk(secret).expect("as long as the hash").expand(&info, &mut out).expect("short");
    out
}

/// What connections share that a program opens.
pub struct Initiator {
    client: Arc<ClientConfig>,
    secrets: Arc<Secrets>,
}

impl Initiator {
    pub fn new() -> Result<Initiator, Error> {
        let (provider, secrets) = (Arc::new(ring::default_provider()), Arc::new(Secrets::default()));
        let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
        let verifier = Arc::new(Anybody(provider));
        let mut client = client.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        client.alpn_protocols = vec![QUICK.to_vec()];
        client.key_log = secrets.clone();
        Ok(Initiator { client: Arc::new(client), secrets })
    }

    pub fn initiate(&self) -> Session {
        let name = ServerName::try_from("www.example.com").expect("a name");
        let end = UnbufferedClientConnection::new(self.client.clone(), name).expect("settings that fit each other");
        Session::new(End::Client(Box::new(end)), &self.secrets)
    }
}

/// What connections share of a program that also takes them.
pub struct Tls {
    initiator: Initiator,
    server: Arc<ServerConfig>,
    secrets: Arc<Secrets>,
}

impl Tls {
    /// A relay's, which shows certificates of these keys.
    pub fn new(certificates: &Certificates, keys: &RelayKeys) -> Result<Tls, Error> {
        let (provider, secrets) = (Arc::new(ring::default_provider()), Arc::new(Secrets::default()));
        let certified = |certificate: &[u8], key: PrivateKeyDer<'static>| {
            let chain = vec![CertificateDer::from(certificate.to_vec())];
            CertifiedKey::from_der(chain, key, &provider).map(Arc::new)
        };
        let shown = Shown {
            usual: certified(&certificates.tls, PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(keys.link_der())))?,
            quick: certified(
                &certificates.quick,
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(keys.quick_link_der())),
            )?,
        };
        let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13])?;
        let mut server = server.with_no_client_auth().with_cert_resolver(Arc::new(shown));
        server.alpn_protocols = vec![QUICK.to_vec()];
        server.send_tls13_tickets = 0;
        server.key_log = secrets.clone();
        Ok(Tls { initiator: Initiator::new()?, server: Arc::new(server), secrets })
    }

    pub fn initiate(&self) -> Session {
        self.initiator.initiate()
    }

    pub fn respond(&self) -> Session {
        let end = UnbufferedServerConnection::new(self.server.clone()).expect("settings that fit each other");
        Session::new(End::Server(Box::new(end)), &self.secrets)
    }
}

/// The protocol by whose name an initiator asks for a certificate of an Ed25519 key.
const QUICK: &[u8] = b"gnomon-relay/1";

/// The certificates that a relay shows.
#[derive(Debug)]
struct Shown {
    usual: Arc<CertifiedKey>,
    quick: Arc<CertifiedKey>,
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_quick = hello.alpn().is_some_and(|mut protocols| protocols.any(|protocol| protocol == QUICK));
        Some(if is_quick { self.quick.clone() } else { self.usual.clone() })
    }
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onion::keys::make_identity;
    use rand_chacha::ChaCha20Rng;
    use rand_core::{RngCore, SeedableRng};
    use std::collections::VecDeque;

    /// What one end has written and the other has not read; reads would block where there is nothing.
    #[derive(Default)]
    struct Wire(VecDeque<u8>);

    impl Read for Wire {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            match self.0.len() {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                // Records come in pieces.
                _ => self.0.read(&mut to[..700]),
            }
        }
    }

    impl Write for Wire {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.0.extend(from);
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn relay() -> (RelayKeys, Certificates) {
        let mut random = ChaCha20Rng::seed_from_u64(1);
        let identity = make_identity(|bytes| random.fill_bytes(bytes));
        let keys = RelayKeys::make(&identity, |bytes| random.fill_bytes(bytes)).expect("an identity");
        let certificates = keys.certificates(946_684_800, [1; 32]);
        (keys, certificates)
    }

    fn read_all(session: &mut Session, wire: &mut Wire, plain: &mut Vec<u8>) {
        loop {
            match session.read(wire, plain) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn two_of_ours_agree_on_the_quick_certificate_and_keep_nothing_back() {
        let (keys, certificates) = relay();
        let tls = Tls::new(&certificates, &keys).expect("good certificates");
        let (mut a, mut b) = (tls.initiate(), tls.respond());
        let (mut to_a, mut to_b, mut of_a, mut of_b) = (Wire::default(), Wire::default(), Vec::new(), Vec::new());
        assert!(a.seal(b"too early").is_err() && a.export(b"label", b"").is_none());
        while a.is_handshaking() || b.is_handshaking() {
            assert!(a.flush(&mut to_b).unwrap());
            read_all(&mut b, &mut to_b, &mut of_b);
            assert!(b.flush(&mut to_a).unwrap());
            read_all(&mut a, &mut to_a, &mut of_a);
        }
        assert!(a.is_quick() && b.is_quick());
        assert_eq!(a.shown_digest(), Some(Sha256::digest(&certificates.quick).into()));
        let exported = a.export(b"label", b"context").unwrap();
        assert_eq!(b.export(b"label", b"context"), Some(exported));
        assert_ne!(a.export(b"label", b"another"), Some(exported));
        a.flush(&mut to_b).unwrap();
        let said: Vec<u8> = (0..40_000u32).map(|number| number as u8).collect();
        for part in said.chunks(BUFFER) {
            a.seal(part).unwrap();
        }
        assert!(a.wants_write() && a.flush(&mut to_b).unwrap() && !a.wants_write());
        read_all(&mut b, &mut to_b, &mut of_b);
        assert_eq!(of_b, said);
        assert_eq!((b.incoming.capacity(), a.outgoing.capacity()), (0, 0));
        // A byte is changed on the way.
        b.seal(b"answer").unwrap();
        b.flush(&mut to_a).unwrap();
        *to_a.0.back_mut().unwrap() ^= 1;
        let error = a.read(&mut to_a, &mut of_a).unwrap_err();
        assert!(error.to_string().starts_with("TLS: "), "{error}");
    }

    /// The exporter is ours, since TLS without buffers has none.
    #[test]
    fn exported_bytes_are_those_of_tls_itself() {
        let (keys, certificates) = relay();
        let tls = Tls::new(&certificates, &keys).expect("good certificates");
        for suite in [rustls::CipherSuite::TLS13_AES_256_GCM_SHA384, rustls::CipherSuite::TLS13_AES_128_GCM_SHA256] {
            let mut provider = ring::default_provider();
            provider.cipher_suites.retain(|known| known.suite() == suite);
            let provider = Arc::new(provider);
            let client = ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[&TLS13]);
            let verifier = Arc::new(Anybody(provider));
            let client = client.unwrap().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
            let name = ServerName::try_from("www.example.com").unwrap();
            let mut other = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
            let (mut end, mut to_end, mut plain) = (tls.respond(), Wire::default(), Vec::new());
            while other.is_handshaking() || end.is_handshaking() {
                while other.wants_write() {
                    other.write_tls(&mut to_end).unwrap();
                }
                read_all(&mut end, &mut to_end, &mut plain);
                let mut to_other = Wire::default();
                end.flush(&mut to_other).unwrap();
                while !to_other.0.is_empty() {
                    other.read_tls(&mut to_other).unwrap();
                    other.process_new_packets().unwrap();
                }
            }
            assert!(!end.is_quick(), "it did not ask for that");
            let expected = other.export_keying_material([0; 32], b"EXPORTER label", Some(b"context")).unwrap();
            assert_eq!(end.export(b"EXPORTER label", b"context"), Some(expected), "{suite:?}");
        }
    }
}
