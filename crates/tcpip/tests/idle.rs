//! What connections cost that nobody uses.

mod common;

use common::{A, B, Link, Net, addr, ms};

/// Connections to one port of the listening host: fewer than there are ephemeral ports.
const PER_PORT: usize = 25_000;

/// Resident memory of this process, in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// What an end takes of so many connections that have carried a request and its answer, in bytes.
fn each_of(count: usize) -> usize {
    let mut net = Net::new(Link::new(ms(1), 10_000, 1 << 30), 1);
    let mut ends = Vec::with_capacity(2 * count);
    let before = resident();
    let mut listener = None;
    for made in (0..count).step_by(100) {
        let port = 80 + (made / PER_PORT) as u16;
        if made % PER_PORT == 0 {
            let socket = net.stacks[1].tcp_socket(tcpip::Family::V4);
            net.stacks[1].bind(socket, addr(B, port)).unwrap();
            net.stacks[1].listen(socket, 128).unwrap();
            listener = Some(socket);
        }
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let client = net.stacks[0].tcp_socket(tcpip::Family::V4);
                net.stacks[0].connect(net.now, client, addr(B, port)).unwrap();
                client
            })
            .collect();
        net.idle(ms(10));
        for client in clients {
            let server = net.stacks[1].accept(listener.unwrap()).unwrap();
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
    let each = (resident() - before) / (2 * count);
    println!("{each} bytes for each end of {count} idle connections");
    assert_eq!(net.stacks[0].local_name(ends[0]).unwrap().ip(), A);
    each
}

#[test]
fn an_idle_connection_takes_two_kilobytes() {
    let each = each_of(10_000);
    assert!(each <= 2048, "{each} bytes");
}

#[test]
#[ignore = "takes half a gigabyte"]
fn each_of_a_hundred_thousand_idle_connections_takes_two_kilobytes() {
    let each = each_of(100_000);
    assert!(each <= 2048, "{each} bytes");
}
