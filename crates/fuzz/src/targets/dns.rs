//! The resolver: a message, over UDP or TCP by its first byte.

use simkernel::HostNames;
use simkernel::host::{Addresses, HostName};
use simkernel::net::dns::{Carrier, answer};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

static NAMES: LazyLock<HostNames> = LazyLock::new(|| {
    let host = |number: u8, v6: Option<Ipv6Addr>| HostName {
        name: ["client", "server.example", "Relay-3"][usize::from(number)].to_owned(),
        addresses: Addresses { v4: Ipv4Addr::new(11, 0, 0, number + 1), v6 },
    };
    [host(0, None), host(1, Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xb00, 2))), host(2, None)].into_iter().collect()
});

pub fn run(data: &[u8]) {
    let Some((kind, message)) = data.split_first() else { return };
    let carrier = if kind & 1 == 0 { Carrier::Udp } else { Carrier::Tcp };
    let Some(given) = answer(NAMES.table(), message, carrier) else { return };
    assert!(given.len() >= 12 && given.len() <= usize::from(u16::MAX), "an answer of {} bytes", given.len());
    assert_eq!(given[..2], message[..2], "an answer has the number of its question");
    assert!(answer(NAMES.table(), &given, carrier).is_none(), "an answer is answered");
}
