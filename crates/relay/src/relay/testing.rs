//! A relay that is not run: tests call it as its event loop would, with connections on which nothing is said.

use super::Relay;
use crate::channel::Channel;
use crate::circuit::{Circuit, Side};
use crate::connection::{Connection, PeerWanted};
use crate::flow::CircuitFlow;
use crate::stream::Stream;
use crate::torrc;
use mio::net::TcpStream;
use onion::cell::CircuitId;
use onion::certificates::PeerIdentity;
use onion::handshake::fast;
use onion::link::association::{ANSWER, TOKEN};
use std::net::{SocketAddr, TcpListener};
use tempfile::TempDir;

pub const PEER: PeerIdentity = PeerIdentity { rsa_fingerprint: [7; 20], rsa_digest: [7; 32], ed25519: [7; 32] };
pub const WANTED: PeerWanted = PeerWanted { fingerprint: [7; 20], ed25519: None };

pub struct Tested {
    pub relay: Relay,
    /// Takes connections, and is the directory authority.
    listener: TcpListener,
    _folder: TempDir,
}

impl Tested {
    pub fn new(options: &[&str]) -> Tested {
        let (folder, listener) = (TempDir::new().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let authority = format!("one {} {}", listener.local_addr().unwrap(), "AB".repeat(20));
        let (port, folder_name) = (port.to_string(), folder.path().to_str().unwrap());
        let own = ["--Address", "127.0.0.1", "--ORPort", &port, "--DirAuthority", &authority];
        let all = [&own[..], &["--DataDirectory", folder_name, "--PublishServerDescriptor", "0"], options].concat();
        let relay = Relay::new(torrc::read(lexopt::Parser::from_args(all)).unwrap()).unwrap();
        Tested { relay, listener, _folder: folder }
    }

    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// One that another relay has begun, and whose handshake is not over.
    pub fn begun(&mut self) -> usize {
        let (socket, from) = (TcpStream::connect(self.address()).unwrap(), self.address());
        let connection = Connection::new(socket, self.relay.tls.respond(), from, None, self.relay.settings.scheduler);
        self.relay.add_connection(connection).unwrap()
    }

    /// One that is open, of a channel to a relay.
    pub fn open(&mut self, channel: usize) -> usize {
        let (socket, to) = (TcpStream::connect(self.address()).unwrap(), self.address());
        let token = ([0; TOKEN], [0; ANSWER]);
        let connection = Connection::with_token(socket, to, PEER, token, self.relay.settings.scheduler);
        let key = self.relay.add_connection(connection).unwrap();
        self.relay.connections[key].channel = Some(channel);
        self.relay.channels[channel].connections.push(key);
        key
    }

    /// To a relay.
    pub fn channel(&mut self) -> usize {
        let address = self.address();
        let mut channel = Channel::to(WANTED, address);
        channel.peer = Some(PEER);
        self.relay.channels.insert(channel)
    }

    /// A stream of a circuit that has left the network.
    pub fn exiting(&mut self, circuit: usize, number: u16) -> usize {
        let key = self.relay.streams.insert(Stream::new(circuit, number, self.relay.circuits[circuit].flow.stream()));
        self.relay.stream_serials.insert(key, 0);
        self.relay.circuits[circuit].streams.insert(number, key);
        let address = self.address();
        self.relay.connect_stream(key, address);
        key
    }

    /// A circuit that has come by this channel.
    pub fn circuit(&mut self, channel: usize, id: CircuitId) -> usize {
        let made = Circuit::new((channel, id), &fast::answer(&[1; 20], [2; 20]).1, CircuitFlow::fixed());
        let circuit = self.relay.circuits.insert(made);
        self.relay.circuit_serials.insert(circuit, 0);
        self.relay.channels[channel].circuits.insert(id, (circuit, Side::Client));
        circuit
    }
}
