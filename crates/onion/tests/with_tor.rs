//! What this crate says is said to Debian's tor, and what that answers is understood: links in both roles, all circuit handshakes, a hop's ciphers, streams.
//! On the loopback interface alone.

use onion::cell::{self, BODY, Cell, Command, IdWidth};
use onion::certificates::{Certificates, PeerIdentity};
use onion::circuit::layer::Layer;
use onion::circuit::message::{self, Extend2, Message};
use onion::handshake::extensions::{Request, Response};
use onion::handshake::{HopKeys, Kind, fast, ntor, ntor_v3};
use onion::keys::{RelayKeys, make_identity};
use onion::link::{EXPORTER, Established, Handshake, Local, Role, Tls};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection, SignatureScheme};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

#[allow(clippy::disallowed_methods, reason = "tor, beside which this runs, goes by the machine's time")]
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970").as_secs()
}

/// Random enough for a test: every call gives other bytes.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes)).expect("random bytes");
    bytes
}

/// A relay of tor that nobody knows.
struct Relay {
    tor: Child,
    address: SocketAddr,
    folder: TempDir,
}

impl Relay {
    fn start() -> Option<Relay> {
        let folder = TempDir::new().expect("a folder");
        let nobody = "0123456789012345678901234567890123456789";
        let authority = format!("nobody orport=1 v3ident={nobody} 127.0.0.1:1 {nobody}");
        let tor = Process::new("tor")
            .args(["--ignore-missing-torrc", "-f", "/nonexistent", "--DataDirectory"])
            .arg(folder.path())
            .args(["--TestingTorNetwork", "1", "--DirAuthority", &authority, "--PublishServerDescriptor", "0"])
            .args([
                "--ORPort",
                "127.0.0.1:auto",
                "--Address",
                "127.0.0.1",
                "--SocksPort",
                "0",
                "--AssumeReachable",
                "1",
            ])
            .args(["--ExitRelay", "0", "--Nickname", "peer", "--Log", "notice stdout", "--ProtocolWarnings", "1"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn();
        let mut tor = match tor {
            Ok(tor) => tor,
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "tor: {error}; tools/install-packages test");
                println!("left out, without tor: {error}");
                return None;
            }
        };
        let mut lines = BufReader::new(tor.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let port = lines.find_map(|line| {
            println!("{line}");
            line.split_once("Opened OR listener connection (ready) on 127.0.0.1:").map(|(_, port)| port.trim().parse())
        });
        let port: u16 = port.expect("a port in tor's log").expect("a number");
        // What it says later stands in the test's output, and no pipe fills up.
        std::thread::spawn(move || lines.for_each(|line| println!("{line}")));
        Some(Relay { tor, address: (HERE, port).into(), folder })
    }
}

impl Relay {
    /// The public half of its onion key: tor keeps a header of 32 bytes, the secret half, this.
    fn onion_key(&self) -> [u8; 32] {
        let kept = std::fs::read(self.folder.path().join("keys/secret_onion_key_ntor")).expect("tor's onion key");
        kept[64..96].try_into().expect("32 bytes")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.tor.kill();
        let _ = self.tor.wait();
    }
}

/// Takes any certificate: who a peer is follows from its CERTS.
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
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// This side's identity.
struct Own {
    keys: RelayKeys,
    identity: PeerIdentity,
    certificates: Certificates,
}

impl Own {
    fn new() -> Own {
        let fill = |bytes: &mut [u8]| {
            bytes.chunks_mut(32).for_each(|chunk| chunk.copy_from_slice(&random::<32>()[..chunk.len()]));
        };
        let keys = RelayKeys::make(&make_identity(fill), fill).expect("an identity");
        let (identity, certificates) = (keys.public(), keys.certificates(now_s(), random()));
        Own { keys, identity, certificates }
    }
}

type Session<S> = rustls::StreamOwned<S, TcpStream>;

/// A link over TLS, either way.
struct Link<S> {
    tls: S,
    received: Vec<u8>,
}

impl<S: Read + Write> Link<S> {
    /// Leads the handshake to its end.
    fn establish(
        tls: S,
        own: &Own,
        role: Role,
        certificate: [u8; 32],
        export: &dyn Fn(&S, &[u8; 32]) -> [u8; 32],
    ) -> (Link<S>, Established) {
        let mut link = Link { tls, received: Vec::new() };
        let local = Local {
            identity: &own.identity,
            responder_certificates: &own.certificates.responder,
            initiator_certificates: &own.certificates.initiator,
            sign: &|bytes| own.keys.authenticate(bytes),
            addresses: &[HERE],
            designs: &[],
            verified: &RefCell::default(),
        };
        let mut out = Vec::new();
        let mut handshake = Handshake::begin(role, &local, random(), &mut out);
        loop {
            link.tls.write_all(&out).and_then(|()| link.tls.flush()).expect("a connection");
            out.clear();
            link.read();
            let shown = |identity: &[u8; 32]| export(&link.tls, identity);
            let tls = Tls { certificate, export: &shown, peer: HERE };
            let end = handshake.receive(&mut link.received, &local, &tls, now_s(), &mut out).expect("a good handshake");
            if let Some(established) = end {
                link.tls.write_all(&out).and_then(|()| link.tls.flush()).expect("a connection");
                return (link, established);
            }
        }
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let count = self.tls.read(&mut buffer).expect("a connection");
        assert!(count > 0, "the peer has closed the connection");
        self.received.extend_from_slice(&buffer[..count]);
    }

    fn send(&mut self, circuit: u32, command: Command, body: &[u8]) {
        let mut out = Vec::new();
        cell::put(&mut out, IdWidth::Four, Cell { circuit, command, body });
        self.tls.write_all(&out).and_then(|()| self.tls.flush()).expect("a connection");
    }

    /// The next cell that is about a circuit.
    fn next(&mut self) -> (u32, Command, Vec<u8>) {
        loop {
            let taken = cell::take(&self.received, IdWidth::Four).expect("cells");
            let Some((cell, length)) = taken else {
                self.read();
                continue;
            };
            let cell = (cell.circuit, cell.command, cell.body.to_vec());
            self.received.drain(..length);
            if !matches!(cell.1, Command::PADDING | Command::VPADDING) {
                return cell;
            }
        }
    }
}

fn connect(address: SocketAddr, own: &Own, authenticates: bool) -> (Link<Session<ClientConnection>>, Established) {
    let provider = Arc::new(ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().expect("TLS");
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider))).with_no_client_auth();
    let name = ServerName::try_from("www.example.com").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let socket = TcpStream::connect(address).expect("tor listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut tls = rustls::StreamOwned::new(session, socket);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).expect("TLS");
    }
    let certificate = Sha256::digest(&tls.conn.peer_certificates().expect("a certificate")[0]).into();
    let export = |tls: &Session<ClientConnection>, identity: &[u8; 32]| {
        tls.conn.export_keying_material([0; 32], EXPORTER, Some(identity)).expect("a secret")
    };
    Link::establish(tls, own, Role::Initiator { authenticates }, certificate, &export)
}

fn accept(listener: &TcpListener, own: &Own) -> (Link<Session<ServerConnection>>, Established) {
    let key = PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(own.keys.link_der()));
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("TLS");
    let chain = vec![CertificateDer::from(own.certificates.tls.clone())];
    let config = config.with_no_client_auth().with_single_cert(chain, key).expect("a key");
    let (socket, _) = listener.accept().expect("a connection of tor");
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let session = ServerConnection::new(Arc::new(config)).expect("a session");
    let mut tls = rustls::StreamOwned::new(session, socket);
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).expect("TLS");
    }
    let certificate = Sha256::digest(&own.certificates.tls).into();
    let export = |tls: &Session<ServerConnection>, identity: &[u8; 32]| {
        tls.conn.export_keying_material([0; 32], EXPORTER, Some(identity)).expect("a secret")
    };
    Link::establish(tls, own, Role::Responder, certificate, &export)
}

/// A circuit of one hop, from the client's side.
struct Circuit {
    id: u32,
    hop: Layer,
}

impl Circuit {
    fn new(id: u32, keys: &HopKeys) -> Circuit {
        Circuit { id, hop: Layer::new(keys) }
    }

    fn send<S: Read + Write>(&mut self, link: &mut Link<S>, command: Command, message: &Message<'_>) {
        let mut body = message.write(|rest| rest.fill(7));
        self.hop.forward.seal(&mut body);
        self.hop.forward.crypt(&mut body);
        link.send(self.id, command, &body);
    }

    /// The next message of the hop: command, stream and body.
    fn next<S: Read + Write>(&mut self, link: &mut Link<S>) -> (message::Command, u16, Vec<u8>) {
        let (circuit, command, body) = link.next();
        assert_eq!((circuit, command), (self.id, Command::RELAY), "{body:?}");
        let mut body: [u8; BODY] = body.try_into().expect("a whole cell");
        self.hop.backward.crypt(&mut body);
        assert!(self.hop.backward.recognize(&body).is_some(), "a message of this hop");
        let message = Message::read(&body).expect("a message");
        (message.command, message.stream, message.body.to_vec())
    }

    /// What tor's directory says when it is asked for its own descriptor, which it may not have made yet.
    fn ask<S: Read + Write>(&mut self, link: &mut Link<S>) -> String {
        self.send(link, Command::RELAY, &Message { command: message::Command::BEGIN_DIR, stream: 5, body: &[] });
        assert_eq!(self.next(link).0, message::Command::CONNECTED);
        let body = b"GET /tor/server/authority HTTP/1.0\r\nAccept-Encoding: identity\r\n\r\n";
        self.send(link, Command::RELAY, &Message { command: message::Command::DATA, stream: 5, body });
        let mut answer = Vec::new();
        loop {
            match self.next(link) {
                (message::Command::DATA, 5, body) => answer.extend(body),
                (message::Command::END, 5, _) => return String::from_utf8_lossy(&answer).into_owned(),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn tor_understands_all_of_it() {
    let own = Own::new();
    let Some(relay) = Relay::start() else { return };

    // As a client and as a relay.
    let (_, as_client) = connect(relay.address, &own, false);
    let (mut link, established) = connect(relay.address, &own, true);
    assert_eq!(established.version, 5);
    let peer = established.peer.expect("relays show who they are");
    assert_eq!(as_client.peer, Some(peer));

    let ours = random();
    link.send(1 << 31 | 1, Command::CREATE_FAST, &ours);
    let (_, command, body) = link.next();
    assert_eq!(command, Command::CREATED_FAST, "{body:?}");
    let keys = fast::finish(&ours, &body).expect("tor's proof");
    let mut circuit = Circuit::new(1 << 31 | 1, &keys);
    assert!(circuit.ask(&mut link).starts_with("HTTP/1.0 "));
    let onion_key = relay.onion_key();

    // By ntor, and by ntor-v3.
    let (client, request) = ntor::Client::begin(ntor::Relay { fingerprint: peer.rsa_fingerprint, onion_key }, random());
    link.send(1 << 31 | 2, Command::CREATE2, &message::create2(Kind::Ntor.number(), &request));
    let (_, command, body) = link.next();
    assert_eq!(command, Command::CREATED2, "{body:?}");
    let keys = client.finish(message::read_created2(&body).expect("an answer")).expect("tor's proof");
    let mut second = Circuit::new(1 << 31 | 2, &keys);
    assert!(second.ask(&mut link).starts_with("HTTP/1.0 "));
    let about = ntor_v3::Relay { ed25519: peer.ed25519, onion_key };
    let (client, request) = ntor_v3::Client::begin(about, &Request { congestion_control: true }.write(), random());
    link.send(1 << 31 | 3, Command::CREATE2, &message::create2(Kind::NtorV3.number(), &request));
    let (_, command, body) = link.next();
    assert_eq!(command, Command::CREATED2, "{body:?}");
    let (said, keys) = client.finish(message::read_created2(&body).expect("an answer")).expect("tor's proof");
    assert_eq!(Response::read(&said, 31), Some(Response { sendme_inc: Some(31) }), "{said:?}");
    let mut third = Circuit::new(1 << 31 | 3, &keys);
    assert!(third.ask(&mut link).starts_with("HTTP/1.0 "));

    // And tor extends a circuit to a relay of ours.
    let listener = TcpListener::bind((HERE, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let next = Own::new();
    let (next_identity, next_onion) = (next.identity, next.keys.onion_public());
    let answering = std::thread::spawn(move || {
        let (mut link, established) = accept(&listener, &next);
        let (circuit, command, body) = link.next();
        assert_eq!(command, Command::CREATE2);
        let (kind, data) = message::read_create2(&body).expect("a handshake");
        assert_eq!(Kind::from_number(kind), Some(Kind::Ntor));
        let (answer, keys) =
            ntor::answer(data, &next.identity.rsa_fingerprint, next.keys.onion(), random()).expect("for us");
        link.send(circuit, Command::CREATED2, &message::created2(&answer));
        // The client's message comes through two layers, the first of which tor takes off.
        let (_, command, body) = link.next();
        assert!(matches!(command, Command::RELAY | Command::RELAY_EARLY));
        let mut body: [u8; BODY] = body.try_into().expect("a whole cell");
        let mut hop = Layer::new(&keys);
        hop.forward.crypt(&mut body);
        assert!(hop.forward.recognize(&body).is_some(), "a message for us");
        (established.peer, Message::read(&body).expect("a message").body.to_vec())
    });
    let about = ntor::Relay { fingerprint: next_identity.rsa_fingerprint, onion_key: next_onion };
    let (client, request) = ntor::Client::begin(about, random());
    let extend = Extend2 {
        addresses: vec![(HERE, address.port())],
        fingerprint: next_identity.rsa_fingerprint,
        ed25519: Some(next_identity.ed25519),
        handshake: Kind::Ntor.number(),
        data: request.to_vec(),
    };
    second.send(
        &mut link,
        Command::RELAY_EARLY,
        &Message { command: message::Command::EXTEND2, stream: 0, body: &extend.write() },
    );
    let (command, _, body) = second.next(&mut link);
    assert_eq!(command, message::Command::EXTENDED2, "{body:?}");
    let keys = client.finish(message::read_created2(&body).expect("an answer")).expect("our own proof");
    let mut far = Layer::new(&keys);
    let mut body = Message { command: message::Command::BEGIN, stream: 9, body: b"example.com:80\0" }.write(|_| {});
    far.forward.seal(&mut body);
    far.forward.crypt(&mut body);
    second.hop.forward.crypt(&mut body);
    link.send(second.id, Command::RELAY, &body);
    let (who, begun) = answering.join().expect("the relay of ours");
    assert_eq!(who, Some(peer), "tor has proven who it is");
    assert_eq!(begun, b"example.com:80\0");
}
