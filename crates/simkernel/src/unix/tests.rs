//! Sockets of the Unix family, executed through the call table.

use super::*;
use crate::test_machine::{A, Machine};
use linux_abi::event::{EPOLL_CTL_ADD, EPOLLET, EPOLLIN, EpollEvent, Pollfd};
use linux_abi::fs::{Iovec, O_NONBLOCK};
use linux_abi::nr;
use linux_abi::socket::*;

fn pair(m: &mut Machine, kind: i32) -> (u64, u64) {
    let out = m.room(8);
    m.call(nr::socketpair, &[AF_UNIX as u64, kind as u64, 0, out]).unwrap();
    let [first, second]: [i32; 2] = m.value(out);
    (first as u64, second as u64)
}

fn unix(m: &mut Machine, kind: i32) -> u64 {
    m.call(nr::socket, &[AF_UNIX as u64, kind as u64, 0]).unwrap()
}

/// An abstract name as an argument: its address and length.
fn name(m: &mut Machine, text: &str) -> (u64, u64) {
    let bytes = [&(AF_UNIX as u16).to_ne_bytes()[..], b"\0", text.as_bytes()].concat();
    (m.put(&bytes[..]), bytes.len() as u64)
}

fn bound(m: &mut Machine, kind: i32, text: &str) -> u64 {
    let fd = unix(m, kind);
    let (address, len) = name(m, text);
    m.call(nr::bind, &[fd, address, len]).unwrap();
    fd
}

fn message(m: &mut Machine, data: u64, len: usize, control: u64, control_len: usize) -> u64 {
    let vector = m.put(&Iovec { iov_base: data, iov_len: len as u64 });
    let header = Msghdr {
        msg_iov: vector,
        msg_iovlen: 1,
        msg_control: control,
        msg_controllen: control_len as u64,
        ..Msghdr::default()
    };
    m.put(&header)
}

#[test]
fn a_blocked_reader_goes_on_when_bytes_come() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    let buffer = m.room(16);
    let reader = m.blocked(nr::read, &[b, buffer, 16]);
    assert_eq!(m.resume(reader), None);
    m.write(a, b"hello").unwrap();
    assert_eq!(m.resume(reader), Some(Ok(5)));
    assert_eq!(m.bytes(buffer, 5), b"hello");
}

#[test]
fn a_writer_waits_until_its_peer_has_read() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    let len = 400_000;
    let data = m.room(len);
    let writer = m.blocked(nr::write, &[a, data, len as u64]);
    let mut read = 0;
    let mut result = None;
    while result.is_none() {
        read += m.recv(b, 65_536, 0).unwrap().len();
        result = m.resume(writer);
    }
    assert_eq!(result, Some(Ok(len as u64)));
    assert!(read < len);
}

#[test]
fn closing_with_unread_bytes_resets_the_peer() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    m.write(a, b"unread").unwrap();
    m.call(nr::close, &[b]).unwrap();
    assert_eq!(m.recv(a, 4, 0), Err(Errno::ECONNRESET));
    assert_eq!(m.recv(a, 4, 0).unwrap(), b"");
    let (a, b) = pair(&mut m, SOCK_STREAM);
    m.call(nr::close, &[b]).unwrap();
    assert_eq!(m.recv(a, 4, 0).unwrap(), b"");
    let data = m.put(b"x");
    assert_eq!(m.call(nr::sendto, &[a, data, 1, MSG_NOSIGNAL.into()]), Err(Errno::EPIPE));
}

/// Sends `x` with a descriptor.
fn send_descriptor(m: &mut Machine, by: u64, descriptor: u64) {
    let mut control = vec![0u8; cmsg_space(4)];
    control[..8].copy_from_slice(&(cmsg_len(4) as u64).to_ne_bytes());
    control[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
    control[12..16].copy_from_slice(&SCM_RIGHTS.to_ne_bytes());
    control[16..20].copy_from_slice(&(descriptor as i32).to_ne_bytes());
    let (data, control) = (m.put(b"x"), m.put(&control[..]));
    let header = message(m, data, 1, control, cmsg_len(4));
    m.call(nr::sendmsg, &[by, header, 0]).unwrap();
}

#[test]
fn sockets_that_only_their_own_messages_hold_are_closed() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    let (kept, in_message) = pair(&mut m, SOCK_STREAM);
    let (there, here) = pair(&mut m, SOCK_STREAM);
    // b lies in its own inbox, with a socket whose other end is kept; `in_message` can still be received.
    send_descriptor(&mut m, a, b);
    send_descriptor(&mut m, a, here);
    send_descriptor(&mut m, kept, in_message);
    let (receiver, sender) = pair(&mut m, SOCK_STREAM);
    send_descriptor(&mut m, sender, in_message);
    for fd in [b, here, in_message] {
        m.call(nr::close, &[fd]).unwrap();
    }
    assert_eq!(m.recv(a, 1, MSG_DONTWAIT), Err(Errno::EAGAIN), "nobody has looked yet");
    let (one, other) = pair(&mut m, SOCK_STREAM);
    m.call(nr::close, &[one]).unwrap();
    assert_eq!(m.recv(a, 1, MSG_DONTWAIT).unwrap(), b"", "an end, and no reset");
    assert_eq!(m.recv(there, 1, MSG_DONTWAIT).unwrap(), b"");
    assert_eq!(m.recv(kept, 1, MSG_DONTWAIT), Err(Errno::EAGAIN));
    m.call(nr::close, &[receiver]).unwrap();
    assert_eq!(m.recv(kept, 1, MSG_DONTWAIT).unwrap(), b"", "with the message that could be received");
    for fd in [a, kept, there, sender, other] {
        m.call(nr::close, &[fd]).unwrap();
    }
}

#[test]
fn messages_may_hold_sockets_that_hold_messages() {
    let mut m = Machine::new(A);
    let (near, mut last) = pair(&mut m, SOCK_STREAM);
    for _ in 0..10_000 {
        let (sender, holder) = pair(&mut m, SOCK_STREAM);
        send_descriptor(&mut m, sender, last);
        m.call(nr::close, &[last]).unwrap();
        m.call(nr::close, &[sender]).unwrap();
        last = holder;
    }
    m.call(nr::close, &[last]).unwrap();
    assert_eq!(m.recv(near, 1, MSG_DONTWAIT).unwrap(), b"");
}

#[test]
fn descriptors_travel_and_outlive_the_sender() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    let (far, near) = pair(&mut m, SOCK_STREAM);
    send_descriptor(&mut m, a, near);
    m.call(nr::close, &[near]).unwrap();
    let (data, control) = (m.room(1), m.room(64));
    let header = message(&mut m, data, 1, control, 64);
    assert_eq!(m.call(nr::recvmsg, &[b, header, 0]), Ok(1));
    let received: i32 = m.value(control + 16);
    m.write(received as u64, b"through").unwrap();
    assert_eq!(m.recv(far, 16, 0).unwrap(), b"through");
    // A receiver without room for control messages closes them.
    m.call(nr::close, &[received as u64]).unwrap();
    assert_eq!(m.recv(far, 16, 0).unwrap(), b"");
}

#[test]
fn connections_wait_for_accept_and_for_room_in_the_backlog() {
    let mut m = Machine::new(A);
    let listener = bound(&mut m, SOCK_STREAM, "server");
    m.call(nr::listen, &[listener, 0]).unwrap();
    let (address, len) = name(&mut m, "server");
    let first = unix(&mut m, SOCK_STREAM);
    m.call(nr::connect, &[first, address, len]).unwrap();
    let impatient = unix(&mut m, SOCK_STREAM | O_NONBLOCK as i32);
    assert_eq!(m.call(nr::connect, &[impatient, address, len]), Err(Errno::EAGAIN));
    let second = unix(&mut m, SOCK_STREAM);
    let waiting = m.blocked(nr::connect, &[second, address, len]);
    let session = m.call(nr::accept, &[listener, 0, 0]).unwrap();
    assert_eq!(m.resume(waiting), Some(Ok(0)));
    m.write(first, b"1").unwrap();
    assert_eq!(m.recv(session, 4, 0).unwrap(), b"1");
    m.call(nr::close, &[listener]).unwrap();
    assert_eq!(m.recv(second, 4, 0), Err(Errno::ECONNRESET));
    assert_eq!(m.call(nr::connect, &[impatient, address, len]), Err(Errno::ECONNREFUSED));
}

#[test]
fn a_full_datagram_queue_holds_its_senders_back() {
    let mut m = Machine::new(A);
    let receiver = bound(&mut m, SOCK_DGRAM, "inbox");
    let sender = unix(&mut m, SOCK_DGRAM);
    let (address, len) = name(&mut m, "inbox");
    m.call(nr::connect, &[sender, address, len]).unwrap();
    for i in 0..11u8 {
        m.write(sender, &[i]).unwrap();
    }
    let data = m.put(b"late");
    assert_eq!(m.call(nr::sendto, &[sender, data, 4, MSG_DONTWAIT.into()]), Err(Errno::EAGAIN));
    let waiting = m.blocked(nr::write, &[sender, data, 4]);
    assert_eq!(m.recv(receiver, 16, 0).unwrap(), [0]);
    assert_eq!(m.resume(waiting), Some(Ok(4)));
    m.call(nr::close, &[receiver]).unwrap();
    assert_eq!(m.write(sender, b"x"), Err(Errno::ECONNREFUSED));
}

#[test]
fn epoll_and_poll_agree_about_sockets() {
    let mut m = Machine::new(A);
    let (a, b) = pair(&mut m, SOCK_STREAM);
    let epoll = m.call(nr::epoll_create1, &[0]).unwrap();
    let event = m.put(&EpollEvent { events: EPOLLIN | EPOLLET, data: 7 });
    m.call(nr::epoll_ctl, &[epoll, EPOLL_CTL_ADD as u64, b, event]).unwrap();
    let out = m.room(64);
    assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(0));
    let waiter = m.blocked(nr::epoll_wait, &[epoll, out, 4, u64::MAX]);
    m.write(a, b"x").unwrap();
    assert_eq!(m.resume(waiter), Some(Ok(1)));
    assert_eq!({ m.value::<EpollEvent>(out).data }, 7);
    assert_eq!(m.call(nr::epoll_wait, &[epoll, out, 4, 0]), Ok(0), "an edge is reported once");
    let entry = m.put(&Pollfd { fd: b as i32, events: 1, revents: 0 });
    assert_eq!(m.call(nr::poll, &[entry, 1, 0]), Ok(1));
}

#[test]
fn a_message_costs_its_sender_what_the_kernel_allocates() {
    assert_eq!(charge(Kind::Datagram, 1), 768);
    assert_eq!(charge(Kind::Datagram, 192), 768);
    assert_eq!(charge(Kind::Datagram, 193), 1280);
    assert_eq!(charge(Kind::Datagram, 16_064), 256 + 16_384);
    assert_eq!(charge(Kind::Datagram, 16_065), 256 + 16_384 + 4096);
}

#[test]
fn places_are_used_again_and_old_ids_find_nothing() {
    let mut sockets = UnixSockets::default();
    let first =
        sockets.insert(UnixSocket::new(Kind::Stream, (NOBODY, [].into()), Permissions { mode: 0, user: 0, group: 0 }));
    sockets.slab.remove(first.place as usize);
    let second =
        sockets.insert(UnixSocket::new(Kind::Stream, (NOBODY, [].into()), Permissions { mode: 0, user: 0, group: 0 }));
    assert_eq!(first.place, second.place);
    assert!(sockets.get(first).is_none() && sockets.get(second).is_some());
}
