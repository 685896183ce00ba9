//! What is seen of a host's packets: its digest, and its captures where the experiment wants them. Both see a packet of `eth0` as it
//! passes the interface; which moment that is, `crates/interface` decides.

use super::worker::SimWorker;
use base::{HostId, SimTime};
use recorder::log::Level;
use recorder::{Capture, Direction, HostDigest, OutputPool, record};
use std::fmt;
use std::net::SocketAddr;
use tcpip::{Packet, Transport};

/// One host's observer.
#[derive(Debug)]
pub struct Tap {
    pub digest: HostDigest,
    eth0: Option<Capture>,
    lo: Option<Capture>,
    headers: Vec<u8>,
}

impl Tap {
    pub fn new() -> Tap {
        Tap { digest: HostDigest::new(), eth0: None, lo: None, headers: Vec::with_capacity(128) }
    }

    pub fn capture(&mut self, eth0: Capture, lo: Capture) {
        (self.eth0, self.lo) = (Some(eth0), Some(lo));
    }

    /// A packet or a train that leaves the host.
    pub fn outbound(&mut self, host: HostId, now: SimTime, packet: &Packet, worker: &mut SimWorker) {
        record!(worker.log, Level::Trace, now, host, "sent {}", Shown(packet));
        for_each_segment(packet, |packet| {
            self.digest(now, packet);
            write(&mut self.eth0, packet, now, Direction::Outbound, worker);
        });
    }

    /// One that has come. It is in its sender's digest.
    pub fn inbound(&mut self, host: HostId, now: SimTime, packet: &Packet, worker: &mut SimWorker) {
        record!(worker.log, Level::Trace, now, host, "received {}", Shown(packet));
        if self.eth0.is_some() {
            for_each_segment(packet, |packet| write(&mut self.eth0, packet, now, Direction::Inbound, worker));
        }
    }

    /// One that has left the host, and that the network loses.
    pub fn lost(host: HostId, now: SimTime, packet: &Packet, worker: &mut SimWorker) {
        record!(worker.log, Level::Trace, now, host, "lost {}", Shown(packet));
    }

    /// One of the host to itself, which takes no time and no line.
    pub fn loopback(&mut self, now: SimTime, packet: &Packet, worker: &mut SimWorker) {
        for_each_segment(packet, |packet| {
            self.digest(now, packet);
            write(&mut self.lo, packet, now, Direction::Outbound, worker);
        });
    }

    fn digest(&mut self, now: SimTime, packet: &Packet) {
        self.headers.clear();
        packet.emit_headers(&mut self.headers);
        self.digest.packet(now, &self.headers, &[&packet.payload]);
    }

    /// Writes what has been captured so far.
    pub fn flush(&mut self, now: SimTime, worker: &mut SimWorker) {
        for capture in [&mut self.eth0, &mut self.lo] {
            if let Some(open) = capture
                && let Err(error) = open.flush(&mut worker.outputs)
            {
                give_up(capture, &error, now, worker);
            }
        }
    }

    /// Ends the captures.
    pub fn close(&mut self, pool: &mut OutputPool) -> impl Iterator<Item = recorder::Result<()>> {
        [self.eth0.take(), self.lo.take()].into_iter().flatten().map(|capture| capture.close(pool))
    }
}

/// A packet as the log names it: addresses with ports, protocol, length.
struct Shown<'a>(&'a Packet);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = self.0;
        let (src, dst) = (packet.src(), packet.dst());
        let ports = |f: &mut fmt::Formatter<'_>, from, to, name| {
            let (from, to) = (SocketAddr::new(src, from), SocketAddr::new(dst, to));
            write!(f, "{from} > {to} {name}")
        };
        match &packet.transport {
            Transport::Tcp(tcp) => ports(f, tcp.src_port, tcp.dst_port, "tcp")?,
            Transport::Udp(udp) => ports(f, udp.src_port, udp.dst_port, "udp")?,
            Transport::Icmp(_) | Transport::Icmp6(_) => write!(f, "{src} > {dst} icmp")?,
            Transport::Raw { protocol } => write!(f, "{src} > {dst} protocol {protocol}")?,
        }
        write!(f, ", {} bytes", packet.wire_len())?;
        match packet.segments() {
            1 => Ok(()),
            segments => write!(f, " in {segments} packets"),
        }
    }
}

/// The packets of the wire that a packet or a train is.
fn for_each_segment(packet: &Packet, mut each: impl FnMut(&Packet)) {
    if packet.train_mss == 0 {
        return each(packet);
    }
    let mut rest = packet.clone();
    while let Some(first) = rest.split_first() {
        each(&first);
    }
    each(&rest);
}

fn write(capture: &mut Option<Capture>, packet: &Packet, now: SimTime, direction: Direction, worker: &mut SimWorker) {
    let Some(open) = capture else { return };
    let mut bytes = Vec::with_capacity(packet.wire_len());
    packet.emit(&mut bytes);
    if let Err(error) = open.packet(now, direction, packet.number, &bytes, &[], &mut worker.outputs) {
        give_up(capture, &error, now, worker);
    }
}

/// Ends a capture that cannot be written any more.
fn give_up(capture: &mut Option<Capture>, error: &recorder::Error, now: SimTime, worker: &mut SimWorker) {
    worker.fail(error.to_string());
    record!(worker.log, Level::Error, now, None::<HostId>, "{error}; this capture ends here");
    if let Some(Err(error)) = capture.take().map(|capture| capture.cut(&mut worker.outputs)) {
        worker.fail(error.to_string());
    }
}
