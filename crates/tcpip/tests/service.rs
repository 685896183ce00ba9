//! The endpoint that a host serves itself.

mod common;

use bytes::Bytes;
use common::{A, addr, ms};
use std::net::{Ipv4Addr, SocketAddrV4};
use tcpip::{Config, Connected, Readiness, SendFlags, SocketError, SocketId, Stack};

const SERVED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 53);
const NOW: base::SimTime = base::SimTime::ZERO;

fn stack() -> Stack {
    let mut stack = Stack::new(Config::new(A), base::SeedTree::new(1).stream("a", "tcpip"));
    stack.serve(SocketAddrV4::new(SERVED, 53));
    stack
}

fn read(stack: &mut Stack, id: SocketId) -> Result<Vec<u8>, SocketError> {
    let mut bytes = Vec::new();
    stack.recv(NOW, id, 100, false, &mut |part| {
        bytes.extend_from_slice(part);
        part.len()
    })?;
    Ok(bytes)
}

#[test]
fn datagrams_reach_the_service_and_its_answers_their_sender() {
    let mut stack = stack();
    let client = stack.udp_socket(tcpip::Family::V4);
    stack.connect(NOW, client, addr(SERVED, 53)).unwrap();
    stack.send_to(client, Bytes::from_static(b"question"), None).unwrap();
    assert!(stack.take_request().is_none(), "it goes round the loopback interface first");
    stack.run_loopback(NOW);
    let (from, bytes) = stack.take_request().unwrap();
    assert_eq!((from, &bytes[..]), (stack.local_name(client).unwrap(), &b"question"[..]));
    stack.respond(from, Bytes::from_static(b"answer"));
    stack.run_loopback(NOW);
    let mut answer = Vec::new();
    let mut put = |part: &[u8]| {
        answer.extend_from_slice(part);
        part.len()
    };
    let received = stack.recv_from(client, 100, false, &mut put).unwrap();
    assert_eq!((received.from, &answer[..]), (addr(SERVED, 53), &b"answer"[..]));
    assert_eq!(stack.socket_count(), 1, "the service needs no socket");
}

#[test]
fn programs_may_have_the_port_elsewhere() {
    let mut stack = stack();
    let sockets = [stack.udp_socket(tcpip::Family::V4), stack.tcp_socket(tcpip::Family::V4)];
    for socket in sockets {
        assert_eq!(stack.bind(socket, addr(SERVED, 53)), Err(SocketError::AddressInUse));
        stack.bind(socket, addr(Ipv4Addr::UNSPECIFIED, 53)).unwrap();
    }
    stack.listen(sockets[1], 5).unwrap();
    let more = [stack.udp_socket(tcpip::Family::V4), stack.tcp_socket(tcpip::Family::V4)];
    for socket in more {
        assert_eq!(stack.bind(socket, addr(Ipv4Addr::LOCALHOST, 53)), Err(SocketError::AddressInUse));
        stack.bind(socket, addr(SERVED, 54)).unwrap();
    }
    // What goes to the served endpoint is the service's all the same.
    let client = stack.udp_socket(tcpip::Family::V4);
    stack.send_to(client, Bytes::from_static(b"x"), Some(addr(SERVED, 53))).unwrap();
    stack.send_to(client, Bytes::from_static(b"y"), Some(addr(A, 53))).unwrap();
    stack.run_loopback(NOW);
    assert_eq!(&stack.take_request().unwrap().1[..], b"x");
    assert!(stack.take_request().is_none());
    assert_eq!(stack.readable_bytes(sockets[0]), 1);
}

#[test]
fn connections_are_accepted_without_holding_the_port() {
    let mut stack = stack();
    let client = stack.tcp_socket(tcpip::Family::V4);
    assert_eq!(stack.connect(NOW, client, addr(SERVED, 53)), Ok(Connected::Started));
    stack.run_loopback(NOW);
    let mut ready = std::iter::from_fn(|| stack.poll_event()).collect::<Vec<_>>();
    ready.retain(|(id, _)| *id != client);
    let [(listener, Readiness::READABLE)] = ready[..] else { panic!("{ready:?}") };
    assert!(stack.is_service(listener) && !stack.is_service(client));
    let session = stack.accept(listener).unwrap();
    assert_eq!(stack.accept(listener), Err(SocketError::WouldBlock));
    assert_eq!(stack.peer_name(session), stack.local_name(client));

    stack.send(NOW, client, Bytes::from_static(b"question"), SendFlags::empty()).unwrap();
    stack.run_loopback(NOW);
    assert_eq!(read(&mut stack, session).unwrap(), b"question");
    stack.send(NOW, session, Bytes::from_static(b"answer"), SendFlags::empty()).unwrap();
    // Even the side that closes first, and so keeps a record, leaves the port to programs.
    stack.close(NOW, session);
    stack.run_loopback(NOW);
    assert_eq!(read(&mut stack, client).unwrap(), b"answer");
    let server = stack.tcp_socket(tcpip::Family::V4);
    stack.bind(server, addr(Ipv4Addr::UNSPECIFIED, 53)).unwrap();
    stack.close(NOW, client);
    stack.run_loopback(NOW);
    stack.handle_timers(NOW + ms(61_000));
    assert_eq!(stack.socket_count(), 2, "the two listeners: the record is gone");
}
