//! The way into a host: the queue of the last router, and the line behind it. One file for each network model.

mod codel;
mod line;
mod relay;

use crate::{Config, Model};
use base::{SimDuration, SimTime};
use line::Line;
use relay::Relay;
use tcpip::Packet;

#[derive(Clone, Debug)]
pub(crate) enum Downlink {
    Line(Line),
    Relay(Box<Relay>),
}

impl Downlink {
    /// Until the end of bootstrapping every packet is delivered at once.
    pub(crate) fn new(config: &Config) -> Downlink {
        let Config { down, bootstrap_end, coalescing, .. } = *config;
        match config.model {
            Model::Gnomon => Downlink::Line(Line::new(down, bootstrap_end, coalescing)),
            Model::Shadow => Downlink::Relay(Box::new(Relay::new(down, bootstrap_end))),
        }
    }

    /// Takes a packet, or a train of them, whose last bit has come to the router, having taken `serialized` on its sender's line. Calls
    /// must come in the order of time.
    #[inline]
    pub(crate) fn receive(&mut self, now: SimTime, packet: Box<Packet>, serialized: SimDuration) {
        match self {
            Downlink::Line(line) => line.receive(now, packet, serialized),
            Downlink::Relay(relay) => relay.receive(now, packet),
        }
    }

    /// When `poll` has something to give.
    #[inline]
    pub(crate) fn next_delivery(&self) -> Option<SimTime> {
        match self {
            Downlink::Line(line) => line.next_delivery(),
            Downlink::Relay(relay) => relay.next_delivery(),
        }
    }

    /// The next packet that the host has by now.
    #[inline]
    pub(crate) fn poll(&mut self, now: SimTime) -> Option<Box<Packet>> {
        match self {
            Downlink::Line(line) => line.poll(now),
            Downlink::Relay(relay) => relay.poll(now),
        }
    }

    /// What has come to the router and was not given to the host yet.
    pub(crate) fn incoming(&self) -> Box<dyn Iterator<Item = &Packet> + '_> {
        match self {
            Downlink::Line(line) => Box::new(line.incoming()),
            Downlink::Relay(relay) => Box::new(relay.incoming()),
        }
    }

    /// Packets that the queue has dropped.
    pub(crate) fn drops(&self) -> u64 {
        match self {
            Downlink::Line(line) => line.drops(),
            Downlink::Relay(relay) => relay.drops(),
        }
    }
}
