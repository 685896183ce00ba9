//! TLS as relays speak it: who a peer is follows from its CERTS cell, so any certificate is taken here.
//!
//! Tor's relays sign each handshake with RSA. Programs of ours name a protocol (ALPN, RFC 7301), which tor passes over, and relays of ours that hear it
//! sign with Ed25519.

use onion::certificates::Certificates;
use onion::keys::RelayKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, Error, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Plain bytes that a connection takes before they are written: little, since what is taken cannot be scheduled any more.
pub const BUFFER: usize = 16 * 1024;

/// Hands TLS's bytes to the socket; whether it took them all, or says later that it can take more.
///
/// # Errors
/// The socket's.
pub fn write(session: &mut Connection, socket: &mut impl Write) -> io::Result<bool> {
    while session.wants_write() {
        match session.write_tls(socket) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if is_later(&error) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Puts what TLS has decrypted behind `received`.
///
/// # Errors
/// TLS', where the peer ended without saying so.
pub fn take_plain(session: &mut Connection, received: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        match session.reader().read(&mut buffer) {
            // The end of TLS: the socket's follows.
            Ok(0) => return Ok(()),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// It will go on when the socket says so.
pub fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

/// What connections share that a program opens.
pub struct Initiator(Arc<ClientConfig>);

impl Initiator {
    pub fn new() -> Result<Initiator, Error> {
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let verifier = Arc::new(Anybody(provider));
        let mut client = client.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        client.alpn_protocols = vec![QUICK.to_vec()];
        Ok(Initiator(Arc::new(client)))
    }

    pub fn initiate(&self) -> Connection {
        let name = ServerName::try_from("www.example.com").expect("a name");
        let mut connection = ClientConnection::new(self.0.clone(), name).expect("settings that fit each other");
        connection.set_buffer_limit(Some(4 * BUFFER));
        connection.into()
    }
}

/// What connections share of a program that also takes them.
pub struct Tls {
    initiator: Initiator,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// A relay's, which shows certificates of these keys.
    pub fn new(certificates: &Certificates, keys: &RelayKeys) -> Result<Tls, Error> {
        let provider = Arc::new(ring::default_provider());
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
        let server = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let mut server = server.with_no_client_auth().with_cert_resolver(Arc::new(shown));
        server.alpn_protocols = vec![QUICK.to_vec()];
        server.send_tls13_tickets = 0;
        Ok(Tls { initiator: Initiator::new()?, server: Arc::new(server) })
    }

    pub fn initiate(&self) -> Connection {
        self.initiator.initiate()
    }

    pub fn respond(&self) -> Connection {
        let mut connection = ServerConnection::new(self.server.clone()).expect("settings that fit each other");
        connection.set_buffer_limit(Some(4 * BUFFER));
        connection.into()
    }
}

/// The protocol by whose name an initiator asks for a certificate of an Ed25519 key.
const QUICK: &[u8] = b"gnomon-relay/1";

/// Whether the responder of this session has shown, or had to show, its certificate of an Ed25519 key.
pub fn is_quick(session: &Connection) -> bool {
    session.alpn_protocol() == Some(QUICK)
}

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
