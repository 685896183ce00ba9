//! A datagram socket: a queue of datagrams each way, bounded like Linux's. It carries UDP (RFC 768, udp(7)), echoes (icmp(7)), or
//! packets of one protocol as they are (raw(7)).

use crate::addr::{Endpoint, Family, Interface};
use crate::error::SocketError;
use crate::filter::Filter;
use crate::multicast::{self, Multicast};
use crate::ports::Hold;
use crate::socket::{Readiness, Settings};
use crate::tcp::footprint::Footprint;
use crate::tcp::send_queue::OVERHEAD;
use base::SimTime;
use bytes::Bytes;
use probes::trace::Piece;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The largest payload of a datagram: what the length fields of IPv4, and of UDP over IPv6, have room for.
pub(crate) fn max_payload(over: Family) -> usize {
    match over {
        Family::V4 => 65_507,
        Family::V6 => 65_527,
    }
}

/// What a socket sends and hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carries {
    Udp,
    /// Echo requests, and the replies with its own identifier, which is its port.
    Echo,
    /// Every packet of this IP protocol.
    Raw(u8),
}

/// What a socket with IP_RECVERR or IPV6_RECVERR is told of an error (`struct sock_extended_err`, with what stands beside it).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorReport {
    pub error: SocketError,
    /// Type and code of the ICMP message; None for an error of this host itself.
    pub icmp: Option<(u8, u8)>,
    /// The MTU, where it is about that.
    pub info: u32,
    /// Who sent the ICMP message.
    pub offender: Option<IpAddr>,
    /// Where the packet was to go.
    pub to: SocketAddr,
    /// What is known of the packet's payload.
    pub payload: Bytes,
}

#[derive(Debug)]
pub(crate) struct Datagram {
    pub from: Endpoint,
    /// The address that it was sent to (IP_PKTINFO).
    pub to: Endpoint,
    pub bytes: Bytes,
    /// When it came.
    pub at: SimTime,
    /// Hop limit and traffic class.
    pub ttl: u8,
    pub tos: u8,
    /// The interface that it came by.
    pub by: Interface,
    /// The number of the packet, and what is recorded of it, or of its fragments.
    pub number: u64,
    pub pieces: Vec<Piece>,
    /// How many its socket had dropped when it came (SO_RXQ_OVFL).
    pub drops: u32,
}

#[derive(Debug)]
pub(crate) struct UdpSocket {
    pub carries: Carries,
    pub settings: Settings,
    pub local: Endpoint,
    /// What bind(2) asked for. Parts that are zero were chosen by the stack, and end with connect(2) to AF_UNSPEC.
    pub asked: Endpoint,
    pub hold: Hold,
    pub peer: Option<Endpoint>,
    pub queue: VecDeque<Datagram>,
    /// What the queue counts against the receive buffer.
    queued: usize,
    /// The same as bytes of payload.
    waiting_payload: usize,
    /// What waits for transmission, counted against the send buffer.
    pub in_transit: usize,
    pub error: Option<SocketError>,
    /// The error queue (MSG_ERRQUEUE).
    pub reports: VecDeque<ErrorReport>,
    /// A bit for each type of ICMP message that a raw socket does not want (ICMP_FILTER, ICMP6_FILTER).
    pub blocked_types: [u32; 8],
    /// A raw socket's program writes IP headers itself (IP_HDRINCL).
    pub header_included: bool,
    /// Where the checksum lies in what a raw socket of IPv6 sends and hears (IPV6_CHECKSUM).
    pub checksum_at: Option<u16>,
    pub filter: Filter,
    /// Groups, and how it sends to them; None for who has asked for nothing of that.
    pub multicast: Option<Box<Multicast>>,
    pub read_shut: bool,
    pub write_shut: bool,
    pub no_space: bool,
    /// Datagrams thrown away because the receive buffer was full.
    pub dropped: u64,
}

/// What a datagram costs in a buffer: its bytes and Linux's bookkeeping (skb->truesize).
pub(crate) fn cost(len: usize) -> usize {
    // Beyond a quarter of the largest area, payload lies in pages (__ip_append_data).
    if len > 16_000 { OVERHEAD + len } else { Footprint::received(len + 28).charge as usize }
}

impl UdpSocket {
    pub fn new(carries: Carries, settings: Settings) -> Self {
        let any = Endpoint::any(settings.family);
        UdpSocket {
            carries,
            settings,
            local: any,
            asked: any,
            hold: Hold::None,
            peer: None,
            queue: VecDeque::new(),
            queued: 0,
            waiting_payload: 0,
            in_transit: 0,
            error: None,
            reports: VecDeque::new(),
            blocked_types: [0; 8],
            header_included: false,
            checksum_at: None,
            filter: None,
            multicast: None,
            read_shut: false,
            write_shut: false,
            no_space: false,
            dropped: 0,
        }
    }

    /// How well this socket fits a datagram that its device lets it hear: `None` if not at all,
    /// more for a connected socket (compute_score).
    pub fn score(&self, local: Endpoint, from: Endpoint) -> Option<u32> {
        // Connected to port 0 means any of the peer's.
        if self.peer.is_some_and(|peer| peer.addr != from.addr || (peer.port != 0 && peer.port != from.port)) {
            return None;
        }
        if !self.local.addr.is_unspecified() && self.local.addr != local.addr {
            return None;
        }
        let own_family = self.settings.family == Family::of(local.addr);
        Some(
            u32::from(self.peer.is_some()) * 8
                + u32::from(!self.local.addr.is_unspecified()) * 4
                + u32::from(self.settings.device.is_some()) * 2
                + u32::from(own_family),
        )
    }

    /// How it sends to groups and hears them, to be changed.
    pub fn multicast_mut(&mut self) -> &mut Multicast {
        let family = self.settings.family;
        self.multicast.get_or_insert_with(|| Box::new(Multicast::new(family)))
    }

    /// Whether datagrams to a group are for this socket, from this source and by this interface; those to other addresses may be.
    pub fn hears(&self, group: IpAddr, source: IpAddr, by: Interface) -> bool {
        let heard = match &self.multicast {
            None => multicast::is_heard(group, self.settings.family),
            Some(own) => own.hears(group, source, by),
        };
        heard && self.settings.device.is_none_or(|device| device == by)
    }

    /// Whether the receive buffer has room for a datagram. An empty one takes any.
    pub fn has_space_for(&self, datagram: &Datagram) -> bool {
        let room = self.settings.recv_buffer as usize;
        match self.carries {
            Carries::Udp => self.queued == 0 || self.queued + cost(datagram.bytes.len()) <= room,
            // Others take what comes before they are full (`sock_queue_rcv_skb`).
            Carries::Echo | Carries::Raw(_) => self.queued < room,
        }
    }

    /// Queues a datagram; says whether there was room.
    pub fn deliver(&mut self, mut datagram: Datagram) -> bool {
        if !self.has_space_for(&datagram) {
            self.dropped += 1;
            return false;
        }
        self.queued += cost(datagram.bytes.len());
        self.waiting_payload += datagram.bytes.len();
        datagram.drops = self.dropped as u32;
        self.queue.push_back(datagram);
        true
    }

    /// What waits to be read, as it counts against the receive buffer.
    pub fn queued(&self) -> usize {
        self.queued
    }

    /// Bytes of payload that wait to be read.
    pub fn waiting_payload(&self) -> usize {
        self.waiting_payload
    }

    pub fn take(&mut self) -> Option<Datagram> {
        let datagram = self.queue.pop_front()?;
        self.queued -= cost(datagram.bytes.len());
        self.waiting_payload -= datagram.bytes.len();
        Some(datagram)
    }

    /// Takes an error about a packet of this socket (`__udp4_lib_err`): without IP_RECVERR only a hard one, and only if connected.
    /// Whether the program is to be told.
    pub fn fail(&mut self, report: ErrorReport, hard: bool, over: Family) -> bool {
        let queues = self.settings.recv_errors[over as usize];
        if !queues && (self.peer.is_none() || !hard) {
            return false;
        }
        self.error = Some(report.error);
        if queues {
            self.reports.push_back(report);
        }
        true
    }

    /// The oldest error of the queue; the socket's pending error becomes that of the next (`sock_dequeue_err_skb`).
    pub fn take_report(&mut self) -> Option<ErrorReport> {
        let report = self.reports.pop_front()?;
        self.error = self.reports.front().map(|next| next.error);
        Some(report)
    }

    /// Whether it writes packets as they are, without looking at the buffer, at errors, or whether
    /// writing was shut (`ip_append_data` of what has no header of the kernel's).
    pub fn is_careless(&self) -> bool {
        matches!(self.carries, Carries::Raw(_)) && !self.header_included
    }

    pub fn has_room(&self) -> bool {
        self.in_transit < self.settings.send_buffer as usize
    }

    /// datagram_poll: writable while less than half of the send buffer is in use.
    pub fn is_writeable(&self) -> bool {
        self.in_transit * 2 < self.settings.send_buffer as usize
    }

    pub fn readiness(&mut self) -> Readiness {
        let mut ready = Readiness::empty();
        if !self.queue.is_empty() || self.read_shut {
            ready |= Readiness::READABLE;
        }
        if self.read_shut {
            ready |= Readiness::READ_HANGUP;
        }
        if self.read_shut && self.write_shut {
            ready |= Readiness::HANGUP;
        }
        if self.is_writeable() {
            ready |= Readiness::WRITABLE;
        } else {
            self.no_space = true;
        }
        if self.error.is_some() || !self.reports.is_empty() {
            ready |= Readiness::ERROR;
        }
        ready
    }
}
