//! How many connections a channel has, and which of its circuits take which.

use super::{Lane, Relay};
use crate::channel::Channel;
use crate::circuit::{Circuit, Side};
use crate::connection::PeerWanted;
use crate::design::imux::{self, Candidate};
use crate::design::torchestra::{self, Load};
use crate::design::{By, ConnectionScheduler, LinkDesign, Recent, mapping};
use onion::cell::CircuitId;
use onion::link::private::{self, Label};
use std::collections::BTreeMap;

/// Between two times at which circuits are dealt to connections by what they send, in milliseconds.
const MAPPING_MS: u64 = 10;
/// Between two times at which IMUX looks at its channels, in milliseconds (IMUX, section 4.1).
const MANAGING_MS: u64 = 1000;
/// Cells sent of late from which a circuit counts as active, by an exponential mean with a half-life of 30 s.
const ACTIVE: f64 = 50.0;

/// Which circuits take which connections.
impl Relay {
    /// A circuit has come to a channel: chooses its connection.
    pub(super) fn pin(&mut self, channel_key: usize, id: CircuitId) {
        let channel = &self.channels[channel_key];
        if channel.numbered.is_none() || self.settings.deals_cells(channel.design) {
            return;
        }
        let usable = self.usable(channel);
        let Some(first) = usable.first().copied() else { return };
        let is_heavy = self.is_labelled_bulk(channel, id);
        let channel = &mut self.channels[channel_key];
        let numbered = channel.numbered.as_mut().expect("just looked");
        let connection = match (channel.design, self.settings.connection_scheduler) {
            (LinkDesign::Torchestra, _) => {
                numbered.heavy.insert(id, is_heavy);
                usable[usize::from(is_heavy).min(usable.len() - 1)]
            }
            // Who has fewest, of equals the next in turn.
            (_, ConnectionScheduler::CircuitRoundRobin) => {
                let first = numbered.dealt;
                numbered.dealt += 1;
                let places = (0..usable.len()).map(|step| (first + step) % usable.len());
                let least = places.min_by_key(|at| numbered.pins.count(usable[*at]));
                usable[least.unwrap_or(0)]
            }
            // It has sent nothing.
            _ => {
                let recent = |key: &usize| self.connections[*key].recent;
                usable.iter().copied().min_by(|a, b| recent(a).compare(recent(b))).unwrap_or(first)
            }
        };
        numbered.pins.insert(id, connection);
    }

    fn is_labelled_bulk(&self, channel: &Channel, id: CircuitId) -> bool {
        let circuit = channel.circuits.get(&id).and_then(|(key, _)| self.circuits.get(*key));
        self.settings.torchestra_by == By::Label && circuit.is_some_and(|circuit| circuit.label == Some(Label::Bulk))
    }

    fn usable(&self, channel: &Channel) -> Vec<usize> {
        let is_usable = |key: &usize| self.connections.get(*key).is_some_and(|connection| connection.is_usable());
        channel.connections.iter().copied().filter(is_usable).collect()
    }

    /// Deals a channel's circuits to its connections anew, where that follows from what they send and is due.
    pub(super) fn map_if_due(&mut self, connection: usize) {
        let now = self.clock.ms();
        let Some(key) = self.connections.get(connection).and_then(|connection| connection.channel) else { return };
        let channel = &self.channels[key];
        let changes = match channel.design {
            LinkDesign::Torchestra => self.settings.torchestra_by == By::Ewma,
            LinkDesign::Imux => self.settings.connection_scheduler == ConnectionScheduler::EwmaMapping,
            _ => false,
        };
        if changes && channel.numbered.as_ref().is_some_and(|numbered| numbered.mapped_ms + MAPPING_MS <= now) {
            self.deal(key);
        }
    }

    /// A channel's connections, or what its circuits are for, have changed: it is dealt anew once for all that has come by then.
    pub(super) fn deal_soon(&mut self, channel_key: usize) {
        self.to_deal.insert(channel_key);
    }

    pub(super) fn deal_all(&mut self) {
        while let Some(channel) = self.to_deal.pop_first() {
            self.deal(channel);
        }
    }

    /// Deals a channel's circuits to its connections anew, with the turns that they have.
    pub(super) fn deal(&mut self, channel_key: usize) {
        let now = self.clock.ms();
        let unsaid = self.channels[channel_key].numbered.as_mut().map(|numbered| std::mem::take(&mut numbered.unsaid));
        for (id, reason) in unsaid.into_iter().flatten() {
            self.destroy(channel_key, id, reason);
        }
        let channel = &self.channels[channel_key];
        if self.settings.deals_cells(channel.design) {
            return self.wake(Lane::Pool(channel_key));
        }
        let usable = self.usable(channel);
        if channel.numbered.is_none() || usable.is_empty() {
            return;
        }
        let ids: Vec<CircuitId> = channel.circuits.keys().copied().collect();
        let heavy = match channel.design {
            LinkDesign::Torchestra => self.heavy(channel, now),
            _ => Vec::new(),
        };
        let to: Vec<usize> = match (channel.design, self.settings.connection_scheduler) {
            (LinkDesign::Torchestra, _) => {
                heavy.iter().map(|is_heavy| usize::from(*is_heavy).min(usable.len() - 1)).collect()
            }
            (_, ConnectionScheduler::CircuitRoundRobin) => {
                let places: BTreeMap<usize, usize> = usable.iter().copied().zip(0..).collect();
                let pins = channel.numbered.as_ref().map(|numbered| &numbered.pins);
                let place = |id: &CircuitId| places.get(&pins?.get(*id)?).copied();
                let before: Vec<Option<usize>> = ids.iter().map(place).collect();
                mapping::deal(&before, usable.len())
            }
            _ => {
                let of_circuits: Vec<Recent> = channel
                    .circuits
                    .values()
                    .map(|(key, side)| {
                        self.circuits.get(*key).map_or_else(Recent::default, |circuit| circuit.recent(*side))
                    })
                    .collect();
                let of_connections: Vec<Recent> = usable.iter().map(|key| self.connections[*key].recent).collect();
                mapping::map(&of_circuits, &of_connections)
            }
        };
        let channel = &mut self.channels[channel_key];
        let numbered = channel.numbered.as_mut().expect("just looked");
        numbered.mapped_ms = now;
        numbered.dealt = ids.len();
        numbered.heavy = ids.iter().copied().zip(heavy).collect();
        numbered.pins = ids.into_iter().zip(to.into_iter().map(|at| usable[at])).collect();
        self.deal_turns(channel_key);
    }

    fn heavy(&self, channel: &Channel, now_ms: u64) -> Vec<bool> {
        if self.settings.torchestra_by == By::Label {
            return channel.circuits.keys().map(|id| self.is_labelled_bulk(channel, *id)).collect();
        }
        let was_heavy = |id| channel.numbered.as_ref().is_some_and(|numbered| numbered.heavy.get(id) == Some(&true));
        let loads: Vec<Load> = channel
            .circuits
            .iter()
            .map(|(id, (key, side))| Load {
                cells: self.circuits.get(*key).map_or(0.0, |circuit| circuit.recent(*side).cells(now_ms)),
                is_heavy: was_heavy(id),
            })
            .collect();
        torchestra::classify(&loads)
    }

    /// Moves the turns of circuits that have cells to their connections.
    fn deal_turns(&mut self, channel_key: usize) {
        let channel = &self.channels[channel_key];
        for key in &channel.connections {
            if let Some(connection) = self.connections.get_mut(*key) {
                connection.lane.clear();
            }
        }
        let active: Vec<(usize, Side, Recent)> = channel
            .circuits
            .values()
            .filter_map(|(key, side)| {
                let queue = self.circuits.get_mut(*key)?.queue(*side);
                queue.is_active.then_some((*key, *side, queue.recent))
            })
            .collect();
        for (key, side, recent) in active {
            self.activate(channel_key, key, side, recent);
        }
    }

    /// The guard says what a circuit is for, and each relay tells the next.
    pub(super) fn labelled(&mut self, key: usize, label: Label) {
        let Some(circuit) = self.circuits.get_mut(key) else { return };
        circuit.label = Some(label);
        let (prev, id) = circuit.prev;
        let is_torchestra = |channel: &Channel| channel.design == LinkDesign::Torchestra;
        if self.settings.torchestra_by == By::Label && self.channels.get(prev).is_some_and(is_torchestra) {
            self.keep_or_deal(prev, id);
        }
        self.hand_label_on(key);
    }

    /// Deals the circuits of a channel of Torchestra anew if the label that one has got leads it elsewhere.
    fn keep_or_deal(&mut self, channel_key: usize, id: CircuitId) {
        let channel = &self.channels[channel_key];
        let Some(pin) = channel.numbered.as_ref().and_then(|numbered| numbered.pins.get(id)) else {
            return self.deal_soon(channel_key);
        };
        let usable = self.usable(channel);
        let is_heavy = self.is_labelled_bulk(channel, id);
        let stays = usable.get(usize::from(is_heavy)).or(usable.last()) == Some(&pin);
        match &mut self.channels[channel_key].numbered {
            Some(numbered) if stays => drop(numbered.heavy.insert(id, is_heavy)),
            _ => self.deal_soon(channel_key),
        }
    }

    pub(super) fn hand_label_on(&mut self, key: usize) {
        let Some(circuit) = self.circuits.get(key) else { return };
        if let (Some(label), Some((next, _))) = (circuit.label, circuit.next)
            && self.channels[next].numbered.is_some()
        {
            let mut body = Box::new([0; onion::cell::BODY]);
            body[0] = label as u8;
            self.push(key, Side::Exit, private::LABEL, body);
        }
    }
}

/// How many connections there are.
impl Relay {
    /// When IMUX is to look at its channels next.
    pub(super) fn managing_due_ms(&self) -> Option<u64> {
        let is_imux = |channel: &Channel| channel.design == LinkDesign::Imux;
        let is_any =
            self.settings.design == LinkDesign::Imux && self.channels.iter().any(|(_, channel)| is_imux(channel));
        is_any.then_some(self.managed_ms + MANAGING_MS)
    }

    /// Opens and closes connections of all channels as Algorithm 1 says.
    pub(super) fn manage(&mut self) {
        self.managed_ms = self.clock.ms();
        let all_active = self.all_active();
        self.all_active = all_active;
        let keys: Vec<usize> = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.design == LinkDesign::Imux && channel.numbered.is_some())
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            let (most, now) = (self.most_connections(key, all_active), self.count(key));
            let channel = &self.channels[key];
            let may_open = channel.numbered.as_ref().is_some_and(|numbered| numbered.may_open);
            let wanted = channel.wanted.or(channel
                .peer
                .map(|peer| PeerWanted { fingerprint: peer.rsa_fingerprint, ed25519: Some(peer.ed25519) }));
            if let Some(wanted) = wanted.filter(|_| may_open) {
                for _ in now..most {
                    if !self.open_connection(key, wanted) {
                        break;
                    }
                }
            }
            for _ in most..now {
                self.close_one(key);
            }
        }
    }

    /// Connections of a channel, those being opened too, without those being closed.
    fn count(&self, channel: usize) -> usize {
        let channel = &self.channels[channel];
        let stays =
            |key: &&usize| self.connections.get(**key).is_some_and(|connection| !connection.closing.is_closing());
        channel.connections.iter().filter(stays).count() + channel.opening.len()
    }

    fn all_active(&self) -> usize {
        if self.settings.active_by == By::Opened {
            return self.circuits.len();
        }
        let now = self.clock.ms();
        self.circuits.iter().filter(|(_, circuit)| self.is_active(circuit, now)).count()
    }

    /// Whether IMUX counts this circuit.
    pub(super) fn is_active(&self, circuit: &Circuit, now_ms: u64) -> bool {
        match self.settings.active_by {
            By::Opened => true,
            By::Ewma => circuit.recent_cells(now_ms) >= ACTIVE,
            By::Label => circuit.label.is_some(),
        }
    }

    /// A channel's circuits that IMUX counts.
    pub(super) fn active_on(&self, channel: &Channel) -> usize {
        if self.settings.active_by == By::Opened {
            return channel.circuits.len();
        }
        let now = self.clock.ms();
        let circuits = channel.circuits.values().filter_map(|(key, _)| self.circuits.get(*key));
        circuits.filter(|circuit| self.is_active(circuit, now)).count()
    }

    fn most_connections(&self, key: usize, all_active: usize) -> usize {
        let channel = imux::Channel { connections: self.count(key), active: self.active_on(&self.channels[key]) };
        // What is being closed counts no longer, or all channels would make room for the same one.
        imux::most_connections(&self.settings.imux, channel, all_active, self.sockets() - self.closing())
    }

    /// Connections that are being closed by agreement.
    pub(super) fn closing(&self) -> usize {
        self.connections.iter().filter(|(_, connection)| connection.closing.is_closing()).count()
    }

    /// A connection that the other end has opened is closed again if the channel has more than it may.
    pub(super) fn close_if_too_many(&mut self, channel_key: usize, connection: usize) {
        let channel = &self.channels[channel_key];
        let may_close = channel.design == LinkDesign::Imux && self.usable(channel).len() > 1;
        // All are counted once a second, not for each connection.
        if may_close && self.count(channel_key) > self.most_connections(channel_key, self.all_active) {
            self.begin_closing(channel_key, connection);
        }
    }

    /// Closes one of a channel's connections, if another can be used.
    fn close_one(&mut self, channel_key: usize) {
        let channel = &self.channels[channel_key];
        let usable = self.usable(channel);
        let keys = channel.opening.iter().chain(if usable.len() > 1 { &usable[..] } else { &[] });
        let candidates: Vec<Candidate> = keys
            .filter_map(|key| {
                let connection = self.connections.get(*key)?;
                let (is_open, serial, last_used_ms) =
                    (connection.is_open(), connection.serial, connection.last_used_ms);
                Some(Candidate { key: *key, is_open, serial, last_used_ms })
            })
            .collect();
        match imux::to_close(&candidates) {
            Some(Candidate { key, is_open: false, .. }) => self.remove_connection(key),
            Some(Candidate { key, .. }) => self.begin_closing(channel_key, key),
            None => {}
        }
    }

    /// Says that nothing more comes on this connection. Who closes one is who may open some from then on.
    fn begin_closing(&mut self, channel_key: usize, connection: usize) {
        let at = &mut self.connections[connection];
        if at.closing.is_closing() {
            return;
        }
        at.closing.has_begun = true;
        at.put(0, private::CLOSING_CONN_BEGIN, None, &[]);
        self.to_write.insert(connection);
        if let Some(numbered) = &mut self.channels[channel_key].numbered {
            numbered.may_open = true;
        }
        self.deal_soon(channel_key);
    }

    /// The other end closes a connection. If this end is closing one as well, who made the channel may open some.
    pub(super) fn asked_to_close(&mut self, connection: usize) {
        let Some(key) = self.connections[connection].channel else { return };
        let channel = &self.channels[key];
        let is_closing = channel
            .connections
            .iter()
            .any(|key| self.connections.get(*key).is_some_and(|at| at.closing.has_begun && !at.closing.was_answered));
        let may_open = is_closing && channel.initiated;
        if let Some(numbered) = &mut self.channels[key].numbered {
            numbered.may_open = may_open;
        }
        self.deal_soon(key);
    }
}
