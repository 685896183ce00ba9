//! Ports that the stack chooses: while TIME_WAIT records hold them, and where programs share them
//! by SO_REUSEADDR.

mod common;

use common::{A, Link, Net, addr, ms};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tcpip::{Family, SocketError, SocketId, SocketOption};

const SERVER: u16 = 5000;

/// A net whose hosts have a hundred ports to choose from.
fn net(change: &[(&str, &str)]) -> Net {
    let mut net = Net::new(Link::new(ms(10), 100, 1_000_000), 1);
    net.stacks[0].set_sysctl("net/ipv4/ip_local_port_range", "40000 40099").unwrap();
    for (name, value) in change {
        net.stacks[0].set_sysctl(name, value).unwrap();
    }
    net
}

fn listener(net: &mut Net, ip: Ipv4Addr) -> SocketId {
    let id = net.stacks[0].tcp_socket(Family::V4);
    net.stacks[0].bind(id, addr(ip, SERVER)).unwrap();
    net.stacks[0].listen(id, 500).unwrap();
    id
}

/// Connects as often as it can over the loopback interface, and closes everything, the clients
/// first.
fn connections(net: &mut Net, server: SocketId, ip: Ipv4Addr) -> usize {
    let mut clients = Vec::new();
    loop {
        let id = net.stacks[0].tcp_socket(Family::V4);
        match net.stacks[0].connect(net.now, id, addr(ip, SERVER)) {
            Ok(_) => clients.push(id),
            Err(error) => {
                assert_eq!(error, SocketError::AddressNotAvailable);
                net.stacks[0].close(net.now, id);
                break;
            }
        }
    }
    net.idle(ms(1));
    for id in &clients {
        net.stacks[0].close(net.now, *id);
    }
    net.idle(ms(1));
    while let Ok(id) = net.stacks[0].accept(server) {
        net.stacks[0].close(net.now, id);
    }
    net.idle(ms(1));
    clients.len()
}

#[test]
fn records_on_the_loopback_network_give_way_after_a_second() {
    let mut net = net(&[]);
    let server = listener(&mut net, Ipv4Addr::LOCALHOST);
    let mut counts = Vec::new();
    for wait in [0, 0, 1500, 5000, 61_000] {
        net.idle(ms(wait));
        counts.push(connections(&mut net, server, Ipv4Addr::LOCALHOST));
    }
    assert_eq!(counts, [100, 0, 100, 100, 100]);
}

#[test]
fn the_hosts_own_address_is_no_loopback_address() {
    for (reuse, second) in [("0", 0), ("1", 100), ("2", 0)] {
        let mut net = net(&[("net/ipv4/tcp_tw_reuse", reuse)]);
        let server = listener(&mut net, A);
        assert_eq!(connections(&mut net, server, A), 100);
        net.idle(ms(1500));
        assert_eq!(connections(&mut net, server, A), second, "tcp_tw_reuse {reuse}");
    }
}

#[test]
fn chosen_ports_are_not_shared_unless_the_system_says_so() {
    for (shares, most) in [("0", 100), ("1", 150)] {
        let mut net = net(&[("net/ipv4/ip_autobind_reuse", shares)]);
        let mut ports = Vec::new();
        for _ in 0..150 {
            let id = net.stacks[0].tcp_socket(Family::V4);
            net.stacks[0].set_option(net.now, id, SocketOption::ReuseAddress(true)).unwrap();
            if net.stacks[0].bind(id, addr(Ipv4Addr::LOCALHOST, 0)).is_ok() {
                ports.push(net.stacks[0].local_name(id).unwrap().port());
            }
        }
        assert_eq!(ports.len(), most);
        assert_eq!(ports.iter().take(100).collect::<BTreeSet<_>>().len(), 100);
    }
}

/// A socket of IPv6 or, with an address of IPv4, of IPv4, and whether it could be bound.
fn bound(net: &mut Net, ip: &str, options: &[SocketOption]) -> (SocketId, bool) {
    let ip: IpAddr = ip.parse().unwrap();
    let id = net.stacks[0].tcp_socket(if ip.is_ipv4() { Family::V4 } else { Family::V6 });
    for option in options {
        net.stacks[0].set_option(net.now, id, *option).unwrap();
    }
    (id, net.stacks[0].bind(id, SocketAddr::new(ip, SERVER)).is_ok())
}

#[test]
fn members_of_a_group_are_admitted_in_the_way_of_others() {
    let member = [SocketOption::ReusePort(true)];
    let of_ipv6 = [SocketOption::ReusePort(true), SocketOption::V6Only(true)];
    for first in ["127.0.0.1", "0.0.0.0"] {
        let mut net = net(&[]);
        let wanted: [(&str, &[SocketOption]); 3] = [(first, &[]), ("::", &of_ipv6), ("::", &member)];
        let ids = wanted.map(|(ip, options)| bound(&mut net, ip, options)).map(|(id, done)| {
            assert!(done, "{first}");
            id
        });
        // A listener that is no member is compared with all.
        let stack = &mut net.stacks[0];
        assert!(stack.listen(ids[2], 1).is_ok() && stack.listen(ids[1], 1).is_ok(), "{first}");
        assert_eq!(stack.listen(ids[0], 1), Err(SocketError::AddressInUse), "{first}");
    }
    for (second, third) in [("0.0.0.0", true), ("127.0.0.1", false)] {
        let mut net = net(&[]);
        assert!(bound(&mut net, "::1", &[]).1 && bound(&mut net, second, &member).1);
        assert_eq!(bound(&mut net, "::", &member).1, third, "{second}");
    }
}

#[test]
fn holders_share_as_they_did_when_they_were_bound() {
    let mut net = net(&[]);
    let reusing = [SocketOption::ReuseAddress(true)];
    let (first, _) = bound(&mut net, "127.0.0.1", &reusing);
    net.stacks[0].set_option(net.now, first, SocketOption::ReuseAddress(false)).unwrap();
    assert!(bound(&mut net, "127.0.0.1", &reusing).1);
    assert!(!bound(&mut net, "127.0.0.1", &[]).1);
}

#[test]
fn datagrams_of_ipv6_in_a_group_are_asked_last() {
    let member = [SocketOption::ReusePort(true)];
    for (options, allowed) in [(&[][..], false), (&member, true)] {
        let mut net = net(&[]);
        let mut bind = |ip: &str, options: &[SocketOption]| {
            let ip: IpAddr = ip.parse().unwrap();
            let id = net.stacks[0].udp_socket(if ip.is_ipv4() { Family::V4 } else { Family::V6 });
            for option in options {
                net.stacks[0].set_option(net.now, id, *option).unwrap();
            }
            net.stacks[0].bind(id, SocketAddr::new(ip, SERVER)).is_ok()
        };
        assert!(bind("127.0.0.1", options) && bind("::1", &member));
        assert_eq!(bind("::", &member), allowed);
    }
}
