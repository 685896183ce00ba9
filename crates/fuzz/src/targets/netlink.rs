//! Netlink: what guests send through sockets of any protocol, by their first byte, and all that they are answered.

use super::machine::Machine;
use linux_abi::nr;
use linux_abi::socket::{MSG_DONTWAIT, SOCK_RAW};

const AF_NETLINK: u64 = 16;
const PROTOCOLS: [u64; 4] = [0, 4, 15, 16];
const ROOM: u64 = 32 << 10;

pub fn run(data: &[u8]) {
    let Some((kind, message)) = data.split_first() else { return };
    let mut machine = Machine::new();
    // Something to be listed.
    for socket in [[2, 1, 0], [2, 2, 0], [10, 1, 0], [1, 1, 0]] {
        machine.call(nr::socket, &socket);
    }
    machine.call(nr::listen, &[3, 5]);
    let fd = machine.call(nr::socket, &[AF_NETLINK, SOCK_RAW as u64, PROTOCOLS[usize::from(*kind) % PROTOCOLS.len()]]);
    let at = machine.put(message);
    machine.call(nr::sendto, &[fd, at, message.len() as u64]);
    for _ in 0..32 {
        let room = machine.area + (512 << 10);
        let got = machine.call(nr::recvfrom, &[fd, room, ROOM, MSG_DONTWAIT.into()]);
        if got as i64 <= 0 {
            break;
        }
        assert!(got <= ROOM);
    }
    machine.end();
}
