//! TLS as relays speak it: who a peer is follows from its CERTS cell, so any certificate is taken here.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, ServerName, UnixTime};
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
    /// `certificate` in DER, its key in PKCS #1's DER.
    pub fn new(certificate: &[u8], key: Vec<u8>) -> Result<Tls, Error> {
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let chain = vec![CertificateDer::from(certificate.to_vec())];
        let key = PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(key));
        let mut server = server.with_no_client_auth().with_single_cert(chain, key)?;
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
