//! PHOLD over UDP, the load with which parallel simulators are compared: a fixed number of messages travels between hosts, and whoever
//! receives one sends one on. Here the destination is drawn by weights from a Pareto distribution, the same weights on all hosts, so
//! that some hosts have much more to do than others.
//!
//! One thread around one epoll instance. What a host draws follows from the seed and its own number.

use crate::clock;
use crate::output::{Line, Output, Totals};
use crate::random::{Distribution, Random};
use crate::signals;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

const SIGNALS: Token = Token(0);
const SOCKET: Token = Token(1);

/// Purposes of random streams: the weights, which all hosts draw alike, and each host's destinations.
const WEIGHTS: u64 = 1;
const DESTINATIONS: u64 = 2;

/// What a message is; its content says nothing.
const MESSAGE: [u8; 8] = *b"phold\0\0\0";

/// What a host is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The hosts' names without their numbers, which count from 1; or the first one's IPv4 address, from which theirs count on.
    pub peers: String,
    pub hosts: u32,
    /// This host's number, from 1.
    pub number: u32,
    /// How many messages this host sends at the start.
    pub messages: u32,
    pub seed: u64,
    /// Of the Pareto distribution; the smaller, the more unequal.
    pub shape: f64,
    pub port: u16,
    /// When to send the first messages, and when to end, after the program's start.
    pub delay: Duration,
    pub duration: Duration,
}

/// Draws hosts by weight.
struct Draw {
    /// Sums of the weights up to each host's.
    sums: Vec<f64>,
    /// The host that draws, by index; it sends nothing to itself.
    own: usize,
    random: Random,
}

impl Draw {
    fn new(settings: &Settings) -> Draw {
        let mut weights = Random::derive(settings.seed, &[WEIGHTS]);
        let pareto = Distribution::Pareto { scale: 1.0, shape: settings.shape };
        let mut sum = 0.0;
        let add = |_| {
            sum += pareto.sample(&mut weights);
            sum
        };
        let own = settings.number as usize - 1;
        let random = Random::derive(settings.seed, &[DESTINATIONS, u64::from(settings.number)]);
        Draw { sums: (0..settings.hosts).map(add).collect(), own, random }
    }

    /// The index of another host.
    fn next(&mut self) -> usize {
        let before = self.own.checked_sub(1).map_or(0.0, |index| self.sums[index]);
        let weight = self.sums[self.own] - before;
        let total = self.sums[self.sums.len() - 1];
        // The own weight is cut out of the line on which the point is drawn.
        let mut point = self.random.unit() * (total - weight);
        if point >= before {
            point += weight;
        }
        let index = self.sums.partition_point(|sum| *sum <= point).min(self.sums.len() - 1);
        // Rounding can lead to an end of the own weight.
        if index == self.own { (index + 1) % self.sums.len() } else { index }
    }
}

/// Hosts' addresses, found when they are first needed.
struct Addresses {
    base: Base,
    port: u16,
    known: Vec<Option<SocketAddr>>,
}

enum Base {
    Name(String),
    First(Ipv4Addr),
}

impl Addresses {
    fn new(settings: &Settings) -> Addresses {
        let base = settings.peers.parse().map_or_else(|_| Base::Name(settings.peers.clone()), Base::First);
        Addresses { base, port: settings.port, known: vec![None; settings.hosts as usize] }
    }

    fn of(&mut self, index: usize) -> io::Result<SocketAddr> {
        if let Some(known) = self.known[index] {
            return Ok(known);
        }
        let address = match &self.base {
            Base::First(first) => {
                let number = u32::from(*first).wrapping_add(index as u32);
                SocketAddr::new(IpAddr::V4(Ipv4Addr::from(number)), self.port)
            }
            Base::Name(base) => {
                let name = format!("{base}{}", index + 1);
                let wrong = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
                let mut found = (name.as_str(), self.port).to_socket_addrs().map_err(wrong)?;
                let none = || io::Error::other(format!("{name} has no IPv4 address"));
                found.find(SocketAddr::is_ipv4).ok_or_else(none)?
            }
        };
        self.known[index] = Some(address);
        Ok(address)
    }
}

/// Sends messages on until the time is up or the program is asked to end; the last line counts those that came and those that left.
pub fn run(settings: &Settings, output: &mut Output) -> io::Result<()> {
    let began = clock::now();
    let mut poll = Poll::new()?;
    let _signals = signals::register(poll.registry(), SIGNALS)?;
    let mut socket = UdpSocket::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), settings.port))?;
    poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
    output.line(&Line::Start {
        version: env!("CARGO_PKG_VERSION"),
        behaviours: None,
        seed: Some(settings.seed),
        listen: Some(vec![socket.local_addr()?.to_string()]),
        control: None,
        unix: clock::unix(),
    });
    let (mut draw, mut addresses) = (Draw::new(settings), Addresses::new(settings));
    let (first, end) = (began + settings.delay, began + settings.duration);
    let (mut handled, mut sent, mut is_started) = (0, 0, false);
    let mut events = Events::with_capacity(4);
    let mut buffer = [0; MESSAGE.len()];
    loop {
        let now = clock::now();
        if now >= end || output.is_closed() {
            break;
        }
        if !is_started && now >= first {
            is_started = true;
            for _ in 0..settings.messages {
                sent += send(&socket, &mut draw, &mut addresses)?;
            }
        }
        let next = if is_started { end } else { first.min(end) };
        match poll.poll(&mut events, Some(next - now)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        }
        if events.iter().any(|event| event.token() == SIGNALS) {
            break;
        }
        loop {
            match socket.recv_from(&mut buffer) {
                Ok(_) => {
                    handled += 1;
                    sent += send(&socket, &mut draw, &mut addresses)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // A host that has ended says that nobody listens there any more.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(error),
            }
        }
    }
    output.line(&Line::End {
        totals: Totals { handled: Some(handled), sent: Some(sent), ..Totals::default() },
        unix: clock::unix(),
    });
    Ok(())
}

/// How many messages left: none where the socket has no room, as UDP loses them.
fn send(socket: &UdpSocket, draw: &mut Draw, addresses: &mut Addresses) -> io::Result<u64> {
    match socket.send_to(&MESSAGE, addresses.of(draw.next())?) {
        Ok(_) => Ok(1),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(hosts: u32, number: u32) -> Settings {
        Settings {
            peers: "10.1.0.255".into(),
            hosts,
            number,
            messages: 1,
            seed: 7,
            shape: 1.5,
            port: 9,
            delay: Duration::ZERO,
            duration: Duration::from_secs(1),
        }
    }

    /// How often each host is drawn.
    fn counts(settings: &Settings, draws: usize) -> Vec<f64> {
        let mut draw = Draw::new(settings);
        let mut counts = vec![0.0; settings.hosts as usize];
        (0..draws).for_each(|_| counts[draw.next()] += 1.0);
        counts
    }

    #[test]
    fn hosts_are_drawn_by_the_same_weights_everywhere_and_never_by_themselves() {
        let hosts = 6;
        let weights: Vec<f64> = {
            let sums = Draw::new(&settings(hosts, 1)).sums;
            (0..sums.len()).map(|index| sums[index] - if index == 0 { 0.0 } else { sums[index - 1] }).collect()
        };
        for number in 1..=hosts {
            let own = number as usize - 1;
            let counts = counts(&settings(hosts, number), 60_000);
            assert_eq!(counts[own], 0.0);
            let others: f64 = weights.iter().sum::<f64>() - weights[own];
            for (index, count) in counts.iter().enumerate().filter(|(index, _)| *index != own) {
                let expected = 60_000.0 * weights[index] / others;
                assert!((count - expected).abs() < 6.0 * expected.sqrt(), "{number} to {index}: {count}, {expected}");
            }
        }
    }

    #[test]
    fn weights_are_unequal_as_pareto_says() {
        // Of 1,000 weights of a Pareto distribution with shape 1.5, the largest tenth has about 10 % to the power of 1/3: 46 %.
        let sums = Draw::new(&settings(1000, 1)).sums;
        let mut weights: Vec<f64> = sums.windows(2).map(|pair| pair[1] - pair[0]).collect();
        weights.sort_by(f64::total_cmp);
        let share = weights[899..].iter().sum::<f64>() / weights.iter().sum::<f64>();
        assert!((0.36..0.60).contains(&share), "{share}");
    }

    #[test]
    fn addresses_count_on_from_the_first() {
        let mut addresses = Addresses::new(&settings(3, 1));
        assert_eq!(addresses.of(0).unwrap().to_string(), "10.1.0.255:9");
        assert_eq!(addresses.of(2).unwrap().to_string(), "10.1.1.1:9");
    }
}
