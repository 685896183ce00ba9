//! What connections cost that nobody uses.

mod common;

use common::{A, B, Link, Net, addr, ms};
/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Both ends of 10,000 connections that have carried a request and its answer.
#[test]
fn an_idle_connection_takes_two_kilobytes() {
    const COUNT: usize = 10_000;
    let mut net = Net::new(Link::new(ms(1), 10_000, 1 << 30), 1);
    let listener = net.stacks[1].tcp_socket(tcpip::Family::V4);
    net.stacks[1].bind(listener, addr(B, 80)).unwrap();
    net.stacks[1].listen(listener, 128).unwrap();
    let mut ends = Vec::with_capacity(2 * COUNT);
    let before = resident();
    for _ in 0..COUNT / 100 {
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
                net.stacks[0].connect(net.now, client, addr(B, 80)).unwrap();
                client
            })
            .collect();
        net.idle(ms(10));
        for client in clients {
            let server = net.stacks[1].accept(listener).unwrap();
            net.send(0, client, &[1; 100]).unwrap();
            ends.push(client);
            ends.push(server);
        }
        net.idle(ms(10));
        for pair in ends[ends.len() - 200..].chunks(2) {
            assert_eq!(net.recv(1, pair[1], 1000).map(|bytes| bytes.len()), Ok(100));
            net.send(1, pair[1], &[2; 3000]).unwrap();
        }
        net.idle(ms(100));
        for pair in ends[ends.len() - 200..].chunks(2) {
            assert_eq!(net.recv(0, pair[0], 4000).map(|bytes| bytes.len()), Ok(3000));
        }
        net.idle(ms(500));
        net.events = [Vec::new(), Vec::new()];
    }
    let each = (resident() - before) / (2 * COUNT);
    println!("{each} bytes for each end of an idle connection");
    assert_eq!(net.stacks[0].local_name(ends[0]).unwrap().ip(), A);
    assert!(each <= 2048, "{each} bytes");
}
