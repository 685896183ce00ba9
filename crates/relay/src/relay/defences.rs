//! Defences where they meet sockets and circuits: who is let in, what is closed when sockets become few, where streams may not go.

use super::Relay;
use crate::channel::Channel;
use crate::defence::thresholds;
use crate::design::{LinkDesign, imux};
use crate::log;
use crate::stream::Stream;
use crate::torrc::OTHER_DESCRIPTORS;
use onion::circuit::message::EndReason;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// What was used so lately is not idle, in milliseconds.
const BUSY_MS: u64 = 1000;

/// A connection whose handshake is not over.
#[derive(Clone, Copy, Debug)]
struct Handshaking {
    connection: usize,
    since_ms: u64,
    /// Another relay has begun it, by its address.
    is_relays: bool,
}

/// What defences know of connections.
#[derive(Debug, Default)]
pub struct Guarding {
    /// By who began them (others, this end) and their serial number, which rises with time.
    handshaking: BTreeMap<(bool, u64), Handshaking>,
    /// Addresses of the connections of clients.
    clients: BTreeMap<usize, IpAddr>,
    /// When idle ones may be closed again.
    idle_due_ms: u64,
}

/// What can be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Idle {
    Stream(usize),
    Channel(usize),
}

/// Connections.
impl Relay {
    /// Whether a connection from this address is taken.
    pub(super) fn admits(&mut self, address: IpAddr) -> bool {
        let defences = &self.settings.defences;
        let is_enabled = defences.connections_enabled.unwrap_or_else(|| self.is_in_consensus("DoSConnectionEnabled"));
        let limits = defences.limits(&self.parameters.current);
        !is_enabled || !self.usage.refuses_connection(&limits.connections, address, self.clock.ms())
    }

    /// Whether no more may be taken for now, although there are sockets. IMUX's connections between relays may have τ of these, and which of
    /// them are too many is known when they join their channels. Those of others that have not come so far, or are going again, take half of the
    /// rest at most: it is for clients and streams. Who is next in the kernel's queue nobody can see.
    pub(super) fn has_too_many_newcomers(&self) -> bool {
        let imux = &self.settings.imux;
        if self.settings.design != LinkDesign::Imux || (self.sockets() as f64) < imux.conn_limit as f64 * imux.tau {
            return false;
        }
        let begun = self.guarding.handshaking.range((false, 0)..(true, 0)).filter(|(_, one)| one.is_relays).count();
        begun + self.closing() >= imux::most_newcomers(imux)
    }

    fn is_in_consensus(&self, parameter: &str) -> bool {
        self.parameters.current.get(parameter, 0, 0..=1) == 1
    }

    /// A connection has begun; if too many of others have not got further, the oldest of them is given up.
    pub(super) fn handshake_begins(&mut self, connection: usize) {
        let (serial, initiated) = (self.connections[connection].serial, self.connections[connection].initiated);
        let is_relays = self.parameters.is_relays(self.connections[connection].address.ip());
        let begun = Handshaking { connection, since_ms: self.clock.ms(), is_relays };
        self.guarding.handshaking.insert((initiated, serial), begun);
        let Some(most) = self.settings.defences.handshakes.filter(|_| !initiated) else { return };
        let others = || self.guarding.handshaking.range((false, 0)..(true, 0));
        if others().count() > most
            && let Some((_, Handshaking { connection, .. })) = others().next()
        {
            self.usage.refused_connections += 1;
            self.connection_ended(*connection, "too many handshakes are unfinished");
        }
    }

    /// It is over, or the connection is.
    pub(super) fn handshake_ends(&mut self, initiated: bool, serial: u64) {
        self.guarding.handshaking.remove(&(initiated, serial));
    }

    /// Gives up what has taken too long; returns when that is to be looked at next.
    pub(super) fn give_handshakes_up(&mut self) -> Option<u64> {
        let patience_ms = self.settings.defences.handshake_ms?;
        let now = self.clock.ms();
        loop {
            let oldest = [false, true].map(|initiated| {
                let mut begun = self.guarding.handshaking.range((initiated, 0)..=(initiated, u64::MAX));
                begun.next().map(|(_, one)| (initiated, *one))
            });
            let (initiated, oldest) = oldest.into_iter().flatten().min_by_key(|(_, one)| one.since_ms)?;
            if oldest.since_ms + patience_ms > now {
                return Some(oldest.since_ms + patience_ms);
            }
            self.usage.refused_connections += u64::from(!initiated);
            self.connection_ended(oldest.connection, "its handshake takes too long");
        }
    }

    /// A connection is open whose other end has not proven to be a relay; whether it may stay. Its address may have begun more at a time than it
    /// may have.
    pub(super) fn client_came(&mut self, connection: usize) -> bool {
        let address = self.connections[connection].address.ip();
        if !self.admits(address) {
            return false;
        }
        self.guarding.clients.insert(connection, address);
        let limits = self.settings.defences.limits(&self.parameters.current);
        self.usage.connected(&limits, address, self.clock.ms());
        true
    }

    pub(super) fn connection_gone(&mut self, connection: usize) {
        if let Some(address) = self.guarding.clients.remove(&connection) {
            self.usage.disconnected(address);
        }
    }
}

/// Circuits and streams.
impl Relay {
    /// Whether a circuit that comes by this channel is one too many.
    pub(super) fn refuses_circuit(&mut self, channel: usize) -> bool {
        let now = self.clock.ms();
        let defences = &self.settings.defences;
        let Channel { peer, address, .. } = &self.channels[channel];
        match (peer, defences.of_relays) {
            (Some(peer), Some(rate)) => self.usage.refuses_circuit_from(rate, peer.rsa_fingerprint, now),
            (Some(_), None) => false,
            (None, _) => {
                let is_enabled =
                    defences.circuits_enabled.unwrap_or_else(|| self.is_in_consensus("DoSCircuitCreationEnabled"));
                let limits = defences.limits(&self.parameters.current);
                is_enabled && self.usage.refuses_circuit_of(&limits, address.ip(), now)
            }
        }
    }

    /// Whether a stream would enter the network again, and must not: sybils of an attack would be nobody's, and exits be blamed.
    pub(super) fn is_reentry(&self, address: SocketAddr) -> bool {
        let is_allowed =
            self.settings.defences.reentry.unwrap_or_else(|| self.is_in_consensus("allow-network-reentry"));
        !is_allowed && self.parameters.has_relay_at(address)
    }
}

/// Sockets.
impl Relay {
    /// Asks the system for as many descriptors as ConnLimit says, as tor does: what a process may have at first is often less than it may ask for.
    pub(super) fn ask_for_sockets(&self) {
        if !self.settings.wants_sockets {
            return;
        }
        let wanted = (self.settings.imux.conn_limit + OTHER_DESCRIPTORS) as u64;
        if let Err(error) = onion_program::descriptors::ask_for(wanted) {
            log::warn(&error);
        }
    }

    /// The system has no more descriptors for this process, whatever ConnLimit says: from now on there are as many as there are. Said once.
    pub(super) fn has_no_more_sockets(&mut self, error: &io::Error) -> bool {
        let is_limit = error.raw_os_error() == Some(libc::EMFILE);
        if is_limit {
            let has = self.sockets();
            log::warn(format_args!(
                "The system lets this relay have no more than {has} sockets, fewer than ConnLimit {}: others wait from now on. Raise the limit \
                 of open files (ulimit -n), or lower ConnLimit.",
                self.settings.imux.conn_limit
            ));
            self.settings.imux.conn_limit = has;
            self.said_full = true;
        }
        is_limit
    }

    /// Says once that connections wait, which their other ends know only as silence.
    pub(super) fn say_full(&mut self) {
        if self.is_full() && !std::mem::replace(&mut self.said_full, true) {
            log::warn(format_args!(
                "All {} sockets that ConnLimit allows are open: other connections wait from now on.",
                self.settings.imux.conn_limit
            ));
        }
    }

    /// Sockets up to which exiting streams may open theirs; the rest is for connections of relays and clients with `RelaysFirst 1`.
    pub(super) fn most_with_streams(&self) -> usize {
        let most = self.settings.imux.conn_limit;
        if self.settings.defences.relays_first { thresholds(most).0 } else { most }
    }

    /// Whether there is no socket for a connection of a relay or client. With `RelaysFirst 1` the exiting stream whose circuit was silent for
    /// longest gives up its own, as section 6 of the IMUX paper proposes.
    pub(super) fn has_no_room(&mut self) -> bool {
        if self.is_full() && self.settings.defences.relays_first {
            let exiting = |stream: &Stream| stream.socket.is_some() && !stream.is_ending && !stream.is_of_directory;
            let streams = self.streams.iter().filter(|(_, stream)| exiting(stream));
            let used_ms = |stream: &Stream| self.circuits.get(stream.circuit).map_or(0, |circuit| circuit.used_ms);
            if let Some(key) = streams.min_by_key(|(_, stream)| used_ms(stream)).map(|(key, _)| key) {
                self.usage.refused_streams += 1;
                self.fail_stream(key, EndReason::ResourceLimit);
            }
        }
        self.is_full()
    }

    /// Near the limit, closes what was idle for longest, as far as tor's low mark (`DisableOOSCheck 0`), and again when more can have become
    /// idle; returns when that is, if it is still near the limit.
    pub(super) fn close_idle(&mut self) -> Option<u64> {
        let (high, low) = thresholds(self.settings.imux.conn_limit);
        if !self.settings.defences.closes_idle || self.sockets() < high {
            return None;
        }
        let now = self.clock.ms();
        if now < self.guarding.idle_due_ms {
            return Some(self.guarding.idle_due_ms);
        }
        self.guarding.idle_due_ms = now + BUSY_MS;
        let mut idle = self.by_use();
        idle.retain(|(used_ms, _)| used_ms + BUSY_MS <= now);
        idle.sort_unstable();
        let before = self.sockets();
        for (_, what) in idle {
            if self.sockets() <= low {
                break;
            }
            match what {
                Idle::Stream(key) if self.streams.contains(key) => self.fail_stream(key, EndReason::ResourceLimit),
                Idle::Stream(_) => {}
                Idle::Channel(key) => self.close_channel(key, "sockets are few, and it was idle"),
            }
        }
        if self.sockets() < before {
            log::notice(format_args!("Sockets were few: of {before}, {} are left.", self.sockets()));
        }
        Some(self.guarding.idle_due_ms)
    }

    /// Channels and streams with the time of their circuits' last cell.
    fn by_use(&self) -> Vec<(u64, Idle)> {
        let circuit_ms = |key: &usize| self.circuits.get(*key).map_or(0, |circuit| circuit.used_ms);
        let channel_ms = |channel: &Channel| {
            let of_circuits = channel.circuits.values().map(|(key, _)| circuit_ms(key)).max();
            let of_connections = channel.connections.iter().map(|key| self.connections[*key].last_used_ms).max();
            of_circuits.max(of_connections).unwrap_or(0)
        };
        let channels = self.channels.iter().filter(|(_, channel)| channel.is_open() && channel.waiting.is_empty());
        let streams = self.streams.iter().filter(|(_, stream)| stream.socket.is_some() && !stream.is_ending);
        let of_channels = channels.map(|(key, channel)| (channel_ms(channel), Idle::Channel(key)));
        of_channels.chain(streams.map(|(key, stream)| (circuit_ms(&stream.circuit), Idle::Stream(key)))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tested;

    #[test]
    fn handshakes_that_are_given_up_are_counted() {
        let mut tested = Tested::new(&["--MaxHandshakes", "2", "--HandshakeTimeout", "1 msec"]);
        for _ in 0..5 {
            tested.begun();
        }
        assert_eq!((tested.relay.connections.len(), tested.relay.usage.refused_connections), (2, 3));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(tested.relay.give_handshakes_up(), None);
        assert_eq!((tested.relay.connections.len(), tested.relay.usage.refused_connections), (0, 5));
    }

    #[test]
    fn relays_leave_imux_sockets_for_others() {
        // Of 64 IMUX may have 57.6, and newcomers three more.
        let mut tested = Tested::new(&["--LinkDesign", "imux", "--ConnLimit", "64"]);
        // From the address of an authority.
        let begun: Vec<usize> = (0..50).map(|_| tested.begun()).collect();
        assert!(tested.relay.has_too_many_newcomers());
        for key in &begun[..48] {
            tested.relay.handshake_ends(false, tested.relay.connections[*key].serial);
        }
        assert!(!tested.relay.has_too_many_newcomers(), "two are left");
        tested.relay.connections[begun[0]].closing.has_begun = true;
        assert!(tested.relay.has_too_many_newcomers(), "one goes");
        tested.relay.remove_connection(begun[1]);
        assert!(!tested.relay.has_too_many_newcomers(), "there are 57 sockets");
    }

    #[test]
    fn connections_take_the_sockets_of_streams_that_were_silent_for_longest() {
        for (first, left) in [("0", 3), ("1", 1)] {
            let mut tested = Tested::new(&["--RelaysFirst", first, "--ConnLimit", "32"]);
            let channel = tested.channel();
            tested.open(channel);
            let streams = [5, 3, 4].map(|used_ms| {
                let circuit = tested.circuit(channel, used_ms as u32);
                tested.relay.circuits[circuit].used_ms = used_ms;
                tested.exiting(circuit, 1)
            });
            // Of 32, eight are no sockets of others.
            for _ in 0..20 {
                tested.begun();
            }
            let has_room = (0..2).filter(|_| !tested.relay.has_no_room() && tested.begun() > 0).count();
            let open: Vec<usize> = streams.into_iter().filter(|key| tested.relay.streams.contains(*key)).collect();
            assert_eq!((has_room, open.len()), (3 - left, left), "RelaysFirst {first}");
            assert!(first == "0" || (open == [streams[0]] && tested.relay.usage.refused_streams == 2));
            assert_eq!(tested.relay.most_with_streams(), if first == "1" { 31 } else { 32 });
        }
    }

    #[test]
    fn idle_ones_are_looked_for_once_a_second() {
        let mut tested = Tested::new(&["--DisableOOSCheck", "0", "--ConnLimit", "32"]);
        for _ in 0..22 {
            tested.begun();
        }
        assert_eq!(tested.relay.close_idle(), None, "of 32 there are 30");
        tested.begun();
        let due = tested.relay.close_idle();
        assert!(due.is_some_and(|due| due >= super::BUSY_MS));
        assert_eq!(tested.relay.close_idle(), due, "not again before");
        // Then, it closes channels that were idle.
        let channel = tested.channel();
        tested.open(channel);
        tested.relay.guarding.idle_due_ms = 0;
        std::thread::sleep(std::time::Duration::from_millis(super::BUSY_MS));
        tested.relay.close_idle();
        assert!(!tested.relay.channels.contains(channel));
    }
}
