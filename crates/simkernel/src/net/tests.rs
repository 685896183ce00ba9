//! Socket calls through the call table: one thread per role, hosts that hand each other packets.

use crate::outcome::Outcome;
use crate::test_machine::{A, B, Machine};
use base::SimDuration;
use linux_abi::fs::Iovec;
use linux_abi::ioctl::{FIONREAD, SIOCGIFADDR, SIOCOUTQ};
use linux_abi::net::*;
use linux_abi::sockaddr::{SockaddrIn, SockaddrNl};
use linux_abi::socket::*;
use linux_abi::time::Timeval;
use linux_abi::{Errno, nr};
use std::net::{Ipv4Addr, SocketAddrV4};
use zerocopy::{FromBytes, IntoBytes};

/// Carries packets between two hosts until none is left, without delay.
fn exchange(one: &mut Machine, other: &mut Machine) {
    loop {
        let mut moved = false;
        while let Some(packet) = one.kernel.poll_transmit(one.now) {
            other.kernel.receive_packet(other.now, packet);
            moved = true;
        }
        while let Some(packet) = other.kernel.poll_transmit(other.now) {
            one.kernel.receive_packet(one.now, packet);
            moved = true;
        }
        moved |= one.kernel.settle_network(one.now);
        moved |= other.kernel.settle_network(other.now);
        if !moved {
            return;
        }
    }
}

#[test]
fn a_connection_round_the_loopback_interface_carries_bytes() {
    let mut m = Machine::new(A);
    let (client, session) = m.connection();
    assert_eq!(m.write(client, b"hello"), Ok(5));
    assert_eq!(m.recv(session, 16, MSG_PEEK).unwrap(), b"hello");
    assert_eq!(m.recv(session, 3, 0).unwrap(), b"hel");
    let count = m.put(&0i32);
    assert_eq!(m.call(nr::ioctl, &[session, FIONREAD.into(), count]), Ok(0));
    assert_eq!(m.value::<i32>(count), 2);
    assert_eq!(m.recv(session, 1, MSG_TRUNC).unwrap().len(), 1);
    assert_eq!(m.recv(session, 16, 0).unwrap(), b"o");
    assert_eq!(m.recv(session, 16, MSG_DONTWAIT), Err(Errno::EAGAIN));
    assert_eq!(m.call(nr::close, &[client]), Ok(0));
    assert_eq!(m.recv(session, 16, 0).unwrap(), b"");
}

#[test]
fn a_blocking_read_waits_for_bytes_and_for_all_of_them() {
    let mut m = Machine::new(A);
    let (client, session) = m.connection();
    let at = m.room(16);
    let reader = m.blocked(nr::recvfrom, &[session, at, 8, MSG_WAITALL.into()]);
    m.write(client, b"half").unwrap();
    assert_eq!(m.resume(reader), None);
    m.write(client, b"and more").unwrap();
    assert_eq!(m.resume(reader), Some(Ok(8)));
    assert_eq!(m.bytes(at, 8), b"halfand ");
    assert_eq!(m.recv(session, 16, 0).unwrap(), b"more");
}

#[test]
fn waiting_for_all_ends_with_the_stream() {
    let mut m = Machine::new(A);
    let (client, session) = m.connection();
    m.write(client, b"tail").unwrap();
    m.call(nr::close, &[client]).unwrap();
    assert_eq!(m.recv(session, 16, MSG_WAITALL | MSG_PEEK).unwrap(), b"tail");
    assert_eq!(m.recv(session, 16, MSG_WAITALL).unwrap(), b"tail");
    assert_eq!(m.recv(session, 16, MSG_WAITALL).unwrap(), b"");
}

#[test]
fn a_piece_that_faults_moves_not_at_all() {
    let mut m = Machine::new(A);
    let (client, session) = m.connection();
    m.write(client, b"0123456789").unwrap();
    let end = m.memory().stack_end();
    assert_eq!(m.call(nr::recvfrom, &[session, end - 4, 10, MSG_WAITALL.into()]), Err(Errno::EFAULT));
    assert_eq!(m.call(nr::recvfrom, &[session, end, 10, 0]), Err(Errno::EFAULT));
    assert_eq!(m.recv(session, 10, 0).unwrap(), b"0123456789");
    assert_eq!(m.call(nr::write, &[client, end - 4, 10]), Err(Errno::EFAULT));
    assert_eq!(m.call(nr::write, &[client, end, 10]), Err(Errno::EFAULT));
}

#[test]
fn a_blocking_write_goes_on_when_there_is_room() {
    let mut m = Machine::new(A);
    let (client, session) = m.connection();
    m.set_option(client, SOL_SOCKET, SO_SNDBUF, 1 << 16).unwrap();
    let total = 3 << 20;
    let data = m.room(64);
    m.set_next(data + 64);
    let source = m.memory().stack_end() - (4 << 20);
    let writer = m.blocked(nr::write, &[client, source, total]);
    let mut received = 0;
    let sink = m.memory().stack_end() - (1 << 20);
    let mut result = None;
    while received < total {
        match m.call(nr::recvfrom, &[session, sink, 1 << 19, MSG_DONTWAIT.into()]) {
            Ok(count) => received += count,
            Err(errno) => assert_eq!(errno, Errno::EAGAIN),
        }
        result = result.or(m.resume(writer));
        let soon = m.now.as_nanos() + 1_000_000;
        m.advance(SimDuration::from_nanos(soon));
    }
    assert_eq!(result, Some(Ok(total)));
}

#[test]
fn connect_tells_its_end_once() {
    let mut m = Machine::new(A);
    m.listener(80);
    let client = m.socket(SOCK_STREAM | SOCK_NONBLOCK);
    assert_eq!(m.connect(client, Ipv4Addr::LOCALHOST, 80), Err(Errno::EINPROGRESS));
    assert_eq!(m.option(client, SOL_SOCKET, SO_ERROR), Ok(0));
    assert_eq!(m.connect(client, Ipv4Addr::LOCALHOST, 80), Ok(0));
    assert_eq!(m.connect(client, Ipv4Addr::LOCALHOST, 80), Err(Errno::EISCONN));
}

#[test]
fn refused_connections_can_be_tried_again() {
    let mut m = Machine::new(A);
    let client = m.socket(SOCK_STREAM);
    assert_eq!(m.connect(client, Ipv4Addr::LOCALHOST, 81), Err(Errno::ECONNREFUSED));
    assert_eq!(m.option(client, SOL_SOCKET, SO_ERROR), Ok(0));
    m.listener(81);
    assert_eq!(m.connect(client, Ipv4Addr::LOCALHOST, 81), Ok(0));
}

#[test]
fn hosts_connect_and_only_hosts_of_the_experiment_exist() {
    let (mut a, mut b) = (Machine::new(A), Machine::new(B));
    let server = b.listener(80);
    let client = a.socket(SOCK_STREAM);
    let name = a.name(B, 80);
    let connecting = a.blocked(nr::connect, &[client, name, 16]);
    let accepting = b.blocked(nr::accept, &[server, 0, 0]);
    assert_eq!(a.resume(connecting), None);
    exchange(&mut a, &mut b);
    assert_eq!(a.resume(connecting), Some(Ok(0)));
    let session = b.resume(accepting).unwrap().unwrap();
    a.write(client, b"over the wire").unwrap();
    exchange(&mut a, &mut b);
    assert_eq!(b.recv(session, 32, 0).unwrap(), b"over the wire");

    let other = a.socket(SOCK_STREAM);
    assert_eq!(a.connect(other, Ipv4Addr::new(93, 184, 216, 34), 80), Err(Errno::ENETUNREACH));
    let datagrams = a.socket(SOCK_DGRAM);
    assert_eq!(a.connect(datagrams, Ipv4Addr::new(11, 0, 0, 3), 53), Err(Errno::ENETUNREACH));
}

#[test]
fn accept_without_a_free_descriptor_leaves_the_connection() {
    let mut m = Machine::new(A);
    let server = m.listener(80);
    let client = m.socket(SOCK_STREAM);
    m.connect(client, Ipv4Addr::LOCALHOST, 80).unwrap();
    let limit = &mut m.process.as_mut().unwrap().limits.0[linux_abi::sysinfo::RLIMIT_NOFILE as usize];
    limit.soft = 2;
    assert_eq!(m.call(nr::accept, &[server]), Err(Errno::EMFILE));
    m.process.as_mut().unwrap().limits = Default::default();
    let peer = m.room(16);
    let len = m.put(&16i32);
    let session = m.call(nr::accept4, &[server, peer, len, SOCK_NONBLOCK as u64]).unwrap();
    assert_eq!(m.value::<SockaddrIn>(peer).sin_addr, [127, 0, 0, 1]);
    assert_eq!(m.recv(session, 1, 0), Err(Errno::EAGAIN));
    assert_eq!(m.call(nr::accept4, &[server, 0, 0, 1]), Err(Errno::EINVAL));
}

#[test]
fn timeouts_end_waiting() {
    let mut m = Machine::new(A);
    let (client, _session) = m.connection();
    let limit = m.put(&Timeval { tv_sec: 0, tv_usec: 40_000 });
    let set = [client, SOL_SOCKET as u64, SO_RCVTIMEO as u64, limit, 16];
    assert_eq!(m.call(nr::setsockopt, &set), Ok(0));
    let at = m.room(16);
    let reader = m.blocked(nr::read, &[client, at, 1]);
    m.advance(SimDuration::from_millis(39));
    assert_eq!(m.resume(reader), None);
    m.advance(SimDuration::from_millis(40));
    assert_eq!(m.resume(reader), Some(Err(Errno::EAGAIN)));
    m.memory().write_value(limit, &Timeval { tv_sec: 0, tv_usec: 1_000_000 }).unwrap();
    assert_eq!(m.call(nr::setsockopt, &set), Err(Errno::EDOM));
}

#[test]
fn closing_lingers_until_the_peer_has_everything() {
    let (mut a, mut b) = (Machine::new(A), Machine::new(B));
    b.listener(80);
    let client = a.socket(SOCK_STREAM);
    let name = a.name(B, 80);
    let connecting = a.blocked(nr::connect, &[client, name, 16]);
    exchange(&mut a, &mut b);
    assert_eq!(a.resume(connecting), Some(Ok(0)));
    let linger = a.put(&Linger { l_onoff: 1, l_linger: 5 });
    a.call(nr::setsockopt, &[client, SOL_SOCKET as u64, SO_LINGER as u64, linger, 8]).unwrap();
    a.write(client, b"last words").unwrap();
    let closing = a.blocked(nr::close, &[client]);
    exchange(&mut a, &mut b);
    // The peer expects its program to close, too, and keeps the acknowledgement for that moment.
    assert_eq!(a.resume(closing), None);
    a.advance(SimDuration::from_millis(40));
    b.advance(SimDuration::from_millis(40));
    exchange(&mut a, &mut b);
    assert_eq!(a.resume(closing), Some(Ok(0)));
    assert_eq!(a.call(nr::close, &[client]), Err(Errno::EBADF));
}

#[test]
fn closing_lingers_no_longer_than_asked() {
    let (mut a, mut b) = (Machine::new(A), Machine::new(B));
    b.listener(80);
    let client = a.socket(SOCK_STREAM);
    let name = a.name(B, 80);
    let connecting = a.blocked(nr::connect, &[client, name, 16]);
    exchange(&mut a, &mut b);
    assert_eq!(a.resume(connecting), Some(Ok(0)));
    let linger = a.put(&Linger { l_onoff: 1, l_linger: 1 });
    a.call(nr::setsockopt, &[client, SOL_SOCKET as u64, SO_LINGER as u64, linger, 8]).unwrap();
    a.write(client, b"unheard").unwrap();
    let closing = a.blocked(nr::close, &[client]);
    a.advance(SimDuration::from_millis(999));
    assert_eq!(a.resume(closing), None);
    a.advance(SimDuration::from_millis(1000));
    assert_eq!(a.resume(closing), Some(Ok(0)));
}

#[test]
fn writing_to_a_shut_stream_signals() {
    let mut m = Machine::new(A);
    let (client, _session) = m.connection();
    assert_eq!(m.call(nr::shutdown, &[client, SHUT_WR as u64]), Ok(0));
    let at = m.put(b"x");
    assert_eq!(m.call(nr::sendto, &[client, at, 1, MSG_NOSIGNAL.into()]), Err(Errno::EPIPE));
    let writer = m.thread();
    let result = m.execute(writer, nr::write, [client, at, 1, 0, 0, 0]);
    assert_eq!(result, Err(Outcome::Errno(Errno::EPIPE)));
    assert!(!m.kernel.threads.get(writer.0).unwrap().signals.pending.set.is_empty());
}

#[test]
fn datagrams_keep_their_boundaries_and_names() {
    let mut m = Machine::new(A);
    let (from, to) = (m.socket(SOCK_DGRAM), m.socket(SOCK_DGRAM));
    m.bind(from, A, 1000).unwrap();
    m.bind(to, Ipv4Addr::UNSPECIFIED, 2000).unwrap();
    assert_eq!(m.set_option(to, SOL_IP, IP_PKTINFO, 1), Ok(0));
    let name = m.name(A, 2000);
    let data = m.put(b"0123456789");
    assert_eq!(m.call(nr::sendto, &[from, data, 10, 0, name, 16]), Ok(10));
    assert_eq!(m.call(nr::sendto, &[from, data, 0, 0, name, 16]), Ok(0));

    let (room, sender, control) = (m.room(4), m.room(16), m.room(64));
    let vector = m.put(&Iovec { iov_base: room, iov_len: 4 });
    let header = Msghdr {
        msg_name: sender,
        msg_namelen: 16,
        msg_iov: vector,
        msg_iovlen: 1,
        msg_control: control,
        msg_controllen: 64,
        ..Msghdr::default()
    };
    let at = m.put(&header);
    assert_eq!(m.call(nr::recvmsg, &[to, at, 0]), Ok(4));
    let answer: Msghdr = m.value(at);
    assert_eq!((answer.msg_flags, answer.msg_namelen, answer.msg_controllen), (MSG_TRUNC, 16, 32));
    assert_eq!(m.value::<SockaddrIn>(sender), SocketAddrV4::new(A, 1000).into());
    let info: InPktinfo = m.value(control + 16);
    assert_eq!(info, InPktinfo { ipi_ifindex: 1, ipi_spec_dst: A.octets(), ipi_addr: A.octets() });
    assert_eq!(m.recv(to, 16, 0).unwrap(), b"");
    assert_eq!(m.recv(to, 16, MSG_DONTWAIT), Err(Errno::EAGAIN));
}

#[test]
fn several_messages_move_in_one_call() {
    let mut m = Machine::new(A);
    let (from, to) = (m.socket(SOCK_DGRAM), m.socket(SOCK_DGRAM));
    m.bind(to, Ipv4Addr::LOCALHOST, 2000).unwrap();
    m.connect(from, Ipv4Addr::LOCALHOST, 2000).unwrap();
    let data = m.put(b"abcdef");
    let entries: Vec<Mmsghdr> = (1..=3)
        .map(|len| {
            let vector = m.put(&Iovec { iov_base: data, iov_len: len });
            Mmsghdr { msg_hdr: Msghdr { msg_iov: vector, msg_iovlen: 1, ..Msghdr::default() }, ..Mmsghdr::default() }
        })
        .collect();
    let sending = m.put(&entries[..]);
    assert_eq!(m.call(nr::sendmmsg, &[from, sending, 3, 0]), Ok(3));
    let receiving = m.put(&entries[..]);
    // The third datagram has three bytes and so has its buffer; a fourth never comes.
    assert_eq!(m.call(nr::recvmmsg, &[to, receiving, 3, 0, 0]), Ok(3));
    let lens: Vec<u32> = (0..3).map(|i| m.value::<Mmsghdr>(receiving + i * 64).msg_len).collect();
    assert_eq!(lens, [1, 2, 3]);
    assert_eq!(m.call(nr::sendmmsg, &[from, sending, 1, 0]), Ok(1));
    assert_eq!(m.call(nr::recvmmsg, &[to, receiving, 3, MSG_WAITFORONE.into(), 0]), Ok(1));
    let waiting = m.blocked(nr::recvmmsg, &[to, receiving, 2, 0, 0]);
    m.call(nr::sendmmsg, &[from, sending, 1, 0]).unwrap();
    assert_eq!(m.resume(waiting), None);
    m.call(nr::sendmmsg, &[from, sending, 1, 0]).unwrap();
    assert_eq!(m.resume(waiting), Some(Ok(2)));
}

#[test]
fn segments_leave_as_datagrams_of_their_own() {
    let mut m = Machine::new(A);
    let (from, to) = (m.socket(SOCK_DGRAM), m.socket(SOCK_DGRAM));
    m.bind(to, Ipv4Addr::LOCALHOST, 2000).unwrap();
    m.connect(from, Ipv4Addr::LOCALHOST, 2000).unwrap();
    m.set_option(from, SOL_UDP, UDP_SEGMENT, 4).unwrap();
    assert_eq!(m.write(from, b"0123456789"), Ok(10));
    for expected in [&b"0123"[..], b"4567", b"89"] {
        assert_eq!(m.recv(to, 16, 0).unwrap(), expected);
    }
}

#[test]
fn refusals_of_datagrams_come_back() {
    let mut m = Machine::new(A);
    let socket = m.socket(SOCK_DGRAM);
    m.connect(socket, Ipv4Addr::LOCALHOST, 9).unwrap();
    assert_eq!(m.write(socket, b"x"), Ok(1));
    assert_eq!(m.option(socket, SOL_SOCKET, SO_ERROR), Ok(Errno::ECONNREFUSED.raw()));
    assert_eq!(m.option(socket, SOL_SOCKET, SO_ERROR), Ok(0));
}

#[test]
fn options_answer_as_on_linux() {
    let mut m = Machine::new(A);
    let (stream, datagram) = (m.socket(SOCK_STREAM), m.socket(SOCK_DGRAM));
    assert_eq!(m.option(stream, SOL_SOCKET, SO_TYPE), Ok(SOCK_STREAM));
    assert_eq!(m.option(datagram, SOL_SOCKET, SO_PROTOCOL), Ok(IPPROTO_UDP));
    assert_eq!(m.option(stream, SOL_IP, IP_TTL), Ok(64));
    assert_eq!(m.option(stream, SOL_TCP, TCP_SYNCNT), Ok(6));
    assert_eq!(m.option(stream, SOL_TCP, TCP_NOTSENT_LOWAT), Ok(0));
    assert_eq!(m.option(stream, SOL_IP, IP_MTU), Err(Errno::ENOTCONN));
    assert_eq!(m.set_option(stream, SOL_SOCKET, SO_SNDBUF, 20_000), Ok(0));
    assert_eq!(m.option(stream, SOL_SOCKET, SO_SNDBUF), Ok(40_000));
    assert_eq!(m.set_option(stream, SOL_SOCKET, SO_TYPE, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(m.set_option(stream, SOL_SOCKET, 9999, 1), Err(Errno::ENOPROTOOPT));
    assert_eq!(m.set_option(stream, SOL_TCP, TCP_KEEPIDLE, 0), Err(Errno::EINVAL));
    assert_eq!(m.option(datagram, SOL_TCP, TCP_NODELAY), Err(Errno::EOPNOTSUPP));
    assert_eq!(m.set_option(datagram, SOL_TCP, TCP_NODELAY, 1), Err(Errno::ENOPROTOOPT));
    let name = m.put(b"nonesuch");
    let set = [stream, SOL_TCP as u64, TCP_CONGESTION as u64, name, 8];
    assert_eq!(m.call(nr::setsockopt, &set), Err(Errno::ENOENT));
    let (value, len) = (m.room(280), m.put(&280i32));
    assert_eq!(m.call(nr::getsockopt, &[stream, SOL_TCP as u64, TCP_INFO as u64, value, len]), Ok(0));
    assert_eq!(m.value::<TcpInfo>(value).tcpi_state, TCP_CLOSE);
}

#[test]
fn families_types_and_descriptors_are_checked() {
    let mut m = Machine::new(A);
    let mut socket =
        |family: i32, kind: i32, protocol: i32| m.call(nr::socket, &[family as u64, kind as u64, protocol as u64]);
    assert_eq!(socket(99, SOCK_STREAM, 0), Err(Errno::EAFNOSUPPORT));
    assert!(socket(AF_INET6, SOCK_STREAM, 0).is_ok());
    assert_eq!(socket(AF_INET, 77, 0), Err(Errno::EINVAL));
    assert_eq!(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), Err(Errno::EPROTONOSUPPORT));
    assert_eq!(socket(AF_NETLINK, SOCK_RAW, 12), Err(Errno::EPROTONOSUPPORT));
    assert_eq!(m.call(nr::listen, &[99, 1]), Err(Errno::EBADF));
    let event = m.call(nr::eventfd2, &[0, 0]).unwrap();
    assert_eq!(m.call(nr::listen, &[event, 1]), Err(Errno::ENOTSOCK));
    let stream = m.socket(SOCK_STREAM);
    assert_eq!(m.bind(stream, Ipv4Addr::new(192, 0, 2, 1), 0), Err(Errno::EADDRNOTAVAIL));
    let name = m.name(A, 0);
    assert_eq!(m.call(nr::bind, &[stream, name, 8]), Err(Errno::EINVAL));
    assert_eq!(m.call(nr::bind, &[stream, name, 200]), Err(Errno::EINVAL));
    assert_eq!(m.call(nr::bind, &[stream, 8, 16]), Err(Errno::EFAULT));
}

#[test]
fn a_closed_listeners_port_is_free_at_once() {
    let mut m = Machine::new(A);
    let server = m.listener(80);
    assert_eq!(m.call(nr::close, &[server]), Ok(0));
    m.listener(80);
}

#[test]
fn unacknowledged_bytes_are_counted() {
    let (mut a, mut b) = (Machine::new(A), Machine::new(B));
    b.listener(80);
    let client = a.socket(SOCK_STREAM);
    let name = a.name(B, 80);
    let connecting = a.blocked(nr::connect, &[client, name, 16]);
    exchange(&mut a, &mut b);
    assert_eq!(a.resume(connecting), Some(Ok(0)));
    a.write(client, b"12345").unwrap();
    let count = a.put(&-1i32);
    assert_eq!(a.call(nr::ioctl, &[client, SIOCOUTQ.into(), count]), Ok(0));
    assert_eq!(a.value::<i32>(count), 5);
}

#[test]
fn interfaces_are_found_by_ioctl_and_by_netlink() {
    let mut m = Machine::new(B);
    let socket = m.socket(SOCK_DGRAM);
    let mut request = linux_abi::ioctl::Ifreq::default();
    request.ifr_name[..4].copy_from_slice(b"eth0");
    let at = m.put(&request);
    assert_eq!(m.call(nr::ioctl, &[socket, SIOCGIFADDR.into(), at]), Ok(0));
    assert_eq!(m.bytes(at + 20, 4), B.octets());

    let netlink = m.call(nr::socket, &[AF_NETLINK as u64, SOCK_RAW as u64, 0]).unwrap();
    let name = m.put(&SockaddrNl { nl_family: AF_NETLINK as u16, ..SockaddrNl::default() });
    assert_eq!(m.call(nr::bind, &[netlink, name, 12]), Ok(0));
    let len = m.put(&12i32);
    assert_eq!(m.call(nr::getsockname, &[netlink, name, len]), Ok(0));
    let port = m.value::<SockaddrNl>(name).nl_pid;
    assert_eq!(port, m.process.as_ref().unwrap().pid.0);
    let header = Nlmsghdr {
        nlmsg_len: 17,
        nlmsg_type: RTM_GETADDR,
        nlmsg_flags: NLM_F_REQUEST | NLM_F_DUMP,
        ..Nlmsghdr::default()
    };
    let data = m.put(&[header.as_bytes(), &[0]].concat()[..]);
    let kernel = m.put(&SockaddrNl { nl_family: AF_NETLINK as u16, ..SockaddrNl::default() });
    assert_eq!(m.call(nr::sendto, &[netlink, data, 17, 0, kernel, 12]), Ok(17));
    let peeked = m.recv(netlink, 1, MSG_PEEK | MSG_TRUNC);
    assert!(peeked.is_ok());
    let first = m.recv(netlink, 4096, 0).unwrap();
    let (answer, _) = Nlmsghdr::read_from_prefix(&first).unwrap();
    assert_eq!((answer.nlmsg_type, answer.nlmsg_pid), (RTM_NEWADDR, port));
    let (done, _) = Nlmsghdr::read_from_prefix(&m.recv(netlink, 4096, 0).unwrap()).unwrap();
    assert_eq!(done.nlmsg_type, NLMSG_DONE);
}
