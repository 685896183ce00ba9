//! Queue disciplines: what waits for an interface's line, and what leaves next. One file each, all with the same functions; they
//! count packets with their Ethernet header, as Linux does.

pub(crate) mod codel;
mod fifo;
mod fq;
mod fq_codel;
mod pfifo_fast;
mod round_robin;

use crate::frame::Frame;
use base::{Bandwidth, SimTime};

/// In which order an interface sends what its host's sockets have handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// In the order of handing over, at most 1,000 full packets or 100 ms of the line's time, whichever is more.
    Fifo,
    /// One packet of each socket in turn, with the same limit.
    RoundRobin,
    /// tc-pfifo_fast(8): three bands by priority.
    PfifoFast,
    /// tc-fq_codel(8): flows take turns by bytes, each under CoDel.
    FqCodel,
    /// tc-fq(8): sockets take turns by bytes, and packets wait for their departure time.
    Fq,
}

/// What became of a frame that was handed over.
#[derive(Debug)]
#[must_use = "whoever sent it wants to know"]
pub enum Verdict {
    Taken,
    /// Taken; the queue has dropped another one of the same flow for that (NET_XMIT_CN).
    Congested,
    /// There was no room: here it is again (NET_XMIT_DROP).
    Refused(Box<Frame>),
}

#[derive(Clone, Debug)]
pub(crate) enum Queue {
    Fifo(fifo::Fifo),
    RoundRobin(round_robin::RoundRobin),
    PfifoFast(pfifo_fast::PfifoFast),
    FqCodel(Box<fq_codel::FqCodel>),
    Fq(Box<fq::Fq>),
}

/// One call for whichever discipline it is.
macro_rules! each {
    ($queue:expr, $inner:ident => $call:expr) => {
        match $queue {
            Queue::Fifo($inner) => $call,
            Queue::RoundRobin($inner) => $call,
            Queue::PfifoFast($inner) => $call,
            Queue::FqCodel($inner) => $call,
            Queue::Fq($inner) => $call,
        }
    };
}

impl Queue {
    /// `rate` is the line's; `perturbation` is a random number that decides which flows share a queue where they are hashed.
    pub(crate) fn new(discipline: Discipline, rate: Bandwidth, perturbation: u64) -> Queue {
        match discipline {
            Discipline::Fifo => Queue::Fifo(fifo::Fifo::new(rate)),
            Discipline::RoundRobin => Queue::RoundRobin(round_robin::RoundRobin::new(rate)),
            Discipline::PfifoFast => Queue::PfifoFast(pfifo_fast::PfifoFast::default()),
            Discipline::FqCodel => Queue::FqCodel(Box::new(fq_codel::FqCodel::new(perturbation))),
            Discipline::Fq => Queue::Fq(Box::new(fq::Fq::new(perturbation))),
        }
    }

    /// Takes a frame, or does not. What it drops to take it, of this or of other flows, goes to `dropped`.
    pub(crate) fn enqueue(&mut self, now: SimTime, frame: Frame, dropped: &mut Vec<Frame>) -> Verdict {
        match self {
            Queue::Fifo(inner) => inner.enqueue(frame, dropped),
            Queue::RoundRobin(inner) => inner.enqueue(frame, dropped),
            Queue::PfifoFast(inner) => return inner.enqueue(frame),
            Queue::FqCodel(inner) => return inner.enqueue(now, frame, dropped),
            Queue::Fq(inner) => return inner.enqueue(now, frame),
        }
        Verdict::Taken
    }

    /// The next frame; None if none is left, or none may leave yet.
    pub(crate) fn dequeue(&mut self, now: SimTime, dropped: &mut Vec<Frame>) -> Option<Frame> {
        each!(self, inner => inner.dequeue(now, dropped))
    }

    /// Frames that wait.
    pub(crate) fn len(&self) -> usize {
        each!(self, inner => inner.len())
    }

    /// When `dequeue` may give something: the past (zero) if it may at once, None if nothing waits.
    pub(crate) fn next_time(&self) -> Option<SimTime> {
        match self {
            Queue::Fq(fq) => fq.next_time(),
            other => (other.len() > 0).then_some(SimTime::ZERO),
        }
    }

    /// Whether a frame that finds the queue empty and the line ready need not go through it (TCQ_F_CAN_BYPASS; fq has a lane of its
    /// own for this).
    pub(crate) fn may_bypass(&self, now: SimTime, frame: &Frame) -> bool {
        self.len() == 0 && (frame.not_before <= now || !matches!(self, Queue::Fq(_)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Verdict;
    use crate::frame::Frame;
    use base::{SeedTree, SimTime};
    use std::net::Ipv4Addr;
    use std::sync::LazyLock;
    use tcpip::wire::ip::IpHeader;
    use tcpip::wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
    use tcpip::wire::udp::UdpHeader;
    use tcpip::{Config, Family, Packet, SocketId, Stack, Transport};

    static ZEROES: [u8; 65_536] = [0; 65_536];

    static SOCKETS: LazyLock<Vec<SocketId>> = LazyLock::new(|| {
        let mut stack = Stack::new(Config::new(Ipv4Addr::new(11, 0, 0, 1)), SeedTree::new(1).stream("", "sockets"));
        (0..10_000).map(|_| stack.udp_socket(Family::V4)).collect()
    });

    pub(crate) fn socket(flow: u64) -> SocketId {
        SOCKETS[flow as usize]
    }

    /// A datagram of so many bytes with its IP header, of the socket `flow`; its number stands in the IP header.
    pub(crate) fn frame(flow: u64, bytes: usize, number: u32) -> Frame {
        let ip = IpHeader { id: number, ..IpHeader::new(Ipv4Addr::new(11, 0, 0, 1), Ipv4Addr::new(11, 0, 0, 2)) };
        let transport = Transport::Udp(UdpHeader { src_port: flow as u16, dst_port: 9 });
        let packet = Packet::new(ip, transport, bytes::Bytes::from_static(&ZEROES[..bytes - 28]));
        assert_eq!(packet.wire_len(), bytes);
        Frame { flow: Some(socket(flow)), ..Frame::new(packet) }
    }

    /// Three segments, the last of them short.
    pub(crate) fn train(name: u32) -> Frame {
        let mut frame = frame(1, 28 + 1_460 * 2 + 100, name);
        let (flags, options) = (TcpFlags::ACK | TcpFlags::PSH, TcpOptions::default());
        let tcp = TcpHeader { src_port: 1, dst_port: 9, seq: 0, ack: 0, flags, window: 0, options };
        frame.packet.transport = Transport::Tcp(tcp);
        frame.packet.train_mss = 1_460;
        Frame { charge: 5_000, ..frame }
    }

    /// Collects what was not taken.
    pub(crate) fn rejected(verdict: Verdict, dropped: &mut Vec<Frame>) {
        if let Verdict::Refused(frame) = verdict {
            dropped.push(*frame);
        }
    }

    pub(crate) fn taken(verdict: Verdict) {
        assert!(matches!(verdict, Verdict::Taken), "{verdict:?}");
    }

    pub(crate) fn number(frame: &Frame) -> u32 {
        frame.packet.ip.id
    }

    pub(crate) fn numbers<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Vec<u32> {
        frames.into_iter().map(number).collect()
    }

    pub(crate) fn us(n: u64) -> SimTime {
        SimTime::from_nanos(n * 1_000)
    }

    pub(crate) fn ms(n: u64) -> SimTime {
        us(n * 1_000)
    }
}
