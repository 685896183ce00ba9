//! Lists of sockets, and what stacks count.

mod common;

use base::SimDuration;
use common::{A, Link, Net, addr, ms};
use tcpip::{Family, Listed, Protocol, Shutdown, TcpState, Timer};

fn net() -> Net {
    Net::new(Link::new(ms(10), 100, 1_000_000), 1)
}

fn list(net: &Net, side: usize) -> Vec<Listed> {
    net.stacks[side].list(net.now)
}

#[test]
fn sockets_without_a_port_are_not_listed() {
    let mut net = net();
    let tcp = net.stacks[0].tcp_socket(Family::V4);
    let udp = net.stacks[0].udp_socket(Family::V6);
    net.stacks[0].bind(tcp, addr(A, 80)).unwrap();
    assert_eq!(list(&net, 0).len(), 0);
    net.stacks[0].listen(tcp, 3).unwrap();
    net.stacks[0].bind(udp, "[::]:53".parse().unwrap()).unwrap();
    let all = list(&net, 0);
    assert_eq!((all[0].state, all[0].send_queue), (TcpState::Listen, 3));
    assert_eq!((all[1].protocol, all[1].family, all[1].local.port()), (Protocol::Udp, Family::V6, 53));
}

#[test]
fn a_connection_shows_its_queues_timers_and_end() {
    let mut net = net();
    let (client, listener) = net.start_connect(80);
    net.idle(ms(1));
    let syn = &list(&net, 0)[0];
    assert_eq!((syn.state, syn.send_queue, syn.timer), (TcpState::SynSent, 1, Timer::Retransmit));
    net.idle(ms(50));
    assert_eq!(list(&net, 1)[0].recv_queue, 1, "one waits for accept");
    assert!(list(&net, 1)[1].unaccepted);
    let server = net.stacks[1].accept(listener).unwrap();
    net.send(0, client, b"hello").unwrap();
    assert_eq!(list(&net, 0)[0].send_queue, 5);
    net.idle(ms(50));
    assert_eq!((list(&net, 0)[0].send_queue, list(&net, 1)[1].recv_queue), (0, 5));
    net.stacks[0].shutdown(net.now, client, Shutdown::Write).unwrap();
    net.idle(ms(50));
    assert_eq!(list(&net, 1)[1].recv_queue, 6, "the FIN counts");
    net.recv(1, server, 100).unwrap();
    assert_eq!((list(&net, 1)[1].state, list(&net, 1)[1].recv_queue), (TcpState::CloseWait, 0));
    net.stacks[1].close(net.now, server);
    net.idle(ms(50));
    let last = list(&net, 0);
    let record = last.iter().find(|listed| listed.state == TcpState::TimeWait).expect("a record");
    assert!(record.timer == Timer::TimeWait && record.expires > SimDuration::from_secs(50));
}

#[test]
fn sums_keep_what_ended_connections_counted() {
    let mut net = net();
    let (client, listener) = net.start_connect(80);
    net.idle(ms(50));
    let server = net.stacks[1].accept(listener).unwrap();
    net.send(0, client, b"hello").unwrap();
    net.idle(ms(50));
    let before = net.stacks[0].tcp_counters();
    assert_eq!((before.established, before.data_segments_out), (1, 1));
    // Unread data: a reset.
    net.stacks[1].close(net.now, server);
    net.idle(ms(50));
    net.stacks[0].close(net.now, client);
    let (client, server) = (net.stacks[0].tcp_counters(), net.stacks[1].tcp_counters());
    assert_eq!((client.established, client.resets, server.resets), (0, 1, 1));
    assert_eq!((client.data_segments_out, client.segments_out), (1, before.segments_out));
    let [a, b] = [net.stacks[0].counters(), net.stacks[1].counters()];
    assert_eq!((a.active_opens, b.passive_opens, b.resets_sent), (1, 1, 1));
    assert_eq!((a.sent(Family::V4), b.sent(Family::V4)), (b.received(Family::V4), a.received(Family::V4)));
    assert_eq!(a.segments_in, a.received(Family::V4).packets);
}
