//! What is written when: circuits' cells onto connections, and connections' bytes into sockets.

use super::{Lane, Relay};
use crate::circuit::{Queued, Side};
use crate::connection::CELL_ON_THE_WIRE;
use crate::design::{ConnectionScheduler, KistFormula, Recent, Turn, Writing};
use crate::tls::BUFFER;
use onion::cell::CircuitId;
use onion::link::private;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A connection that may take a channel's next cell.
#[derive(Clone, Copy, Debug)]
struct Taker {
    connection: usize,
    /// Bytes that wait in it, where that counts.
    queued: usize,
    /// Cells that it may still take in this run of KIST, or would.
    allowance: usize,
}

impl Relay {
    /// Writes what events have left, until nothing follows any more.
    pub(super) fn settle(&mut self) {
        loop {
            self.deal_all();
            self.write_all();
            if self.accept_later && !self.has_no_room() {
                self.accept();
            }
            if !self.run_kist() && self.to_write.is_empty() {
                return;
            }
        }
    }

    fn write_all(&mut self) {
        let is_vanilla = self.settings.writing == Writing::Vanilla;
        loop {
            while let Some(circuit) = self.to_resume.pop() {
                self.resume(circuit);
            }
            if let Some(key) = self.to_write.pop_first() {
                self.write_connection(key, is_vanilla);
            } else if let Some(channel) = self.to_pool.pop_first() {
                self.write_pool(channel);
            } else {
                return;
            }
        }
    }

    fn write_connection(&mut self, key: usize, is_vanilla: bool) {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return };
            match connection.flush() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.connection_ended(key, &error.to_string()),
            }
            if is_vanilla {
                self.fill(key);
            }
            if self.connections.get(key).is_none_or(|connection| connection.buffered() == 0) {
                break;
            }
        }
        let Some(connection) = self.connections.get(key) else { return };
        if is_vanilla && let Some(channel) = connection.channel.filter(|channel| self.has_pool_to_write(*channel)) {
            self.to_pool.insert(channel);
        }
        self.close_if_done(key);
    }

    fn has_pool_to_write(&self, channel: usize) -> bool {
        self.channels[channel].numbered.as_ref().is_some_and(|numbered| !numbered.pool.is_empty())
    }

    /// Puts cells of a connection's own circuits on it, up to a buffer's.
    fn fill(&mut self, key: usize) {
        self.map_if_due(key);
        while self
            .connections
            .get(key)
            .is_some_and(|connection| connection.is_usable() && connection.buffered() < BUFFER)
        {
            let Some((id, queued)) = self.next_cell(Lane::Own(key)) else { return };
            self.put(key, id, &queued);
        }
    }

    /// Puts cells of a channel's circuits on those of its connections that have room.
    fn write_pool(&mut self, channel_key: usize) {
        let mut takers = self.takers(channel_key, false);
        loop {
            takers.retain(|taker| self.connections[taker.connection].has_room());
            let Some(at) = self.choose(channel_key, &takers) else { return };
            let Some((id, queued)) = self.next_cell(Lane::Pool(channel_key)) else { return };
            let key = takers[at].connection;
            self.put(key, id, &queued);
            takers[at].queued += private::CELL;
            takers[at].allowance = takers[at].allowance.saturating_sub(1);
            let connection = &mut self.connections[key];
            if !connection.has_room()
                && let Err(error) = connection.flush()
            {
                return self.connection_ended(key, &error.to_string());
            }
        }
    }

    /// Connections of a channel that may take cells.
    fn takers(&self, channel_key: usize, is_kist: bool) -> Vec<Taker> {
        let scheduler = self.settings.connection_scheduler;
        let taker = |key: &usize| {
            let connection = self.connections.get(*key).filter(|connection| connection.is_usable())?;
            let queued = if scheduler == ConnectionScheduler::ShortestQueue { connection.queue_bytes() } else { 0 };
            let allowance = match scheduler {
                _ if is_kist => connection.kist_allowance(self.kist_formula()),
                ConnectionScheduler::Kist => {
                    connection.kist_limit(self.kist_formula()).saturating_sub(connection.buffered() / private::CELL)
                }
                _ => 0,
            };
            Some(Taker { connection: *key, queued, allowance })
        };
        self.channels[channel_key].connections.iter().filter_map(taker).collect()
    }

    /// Who of these takes the next cell, by its place.
    fn choose(&mut self, channel_key: usize, takers: &[Taker]) -> Option<usize> {
        let numbered = self.channels[channel_key].numbered.as_mut()?;
        match self.settings.connection_scheduler {
            _ if takers.is_empty() => None,
            ConnectionScheduler::ShortestQueue => (0..takers.len()).min_by_key(|at| takers[*at].queued),
            ConnectionScheduler::Kist => (0..takers.len()).max_by_key(|at| (takers[*at].allowance, Reverse(*at))),
            _ => {
                // The next after who had the last one.
                let at = takers.iter().position(|taker| taker.connection > numbered.dealt).unwrap_or(0);
                numbered.dealt = takers[at].connection;
                Some(at)
            }
        }
    }

    /// Takes the cell whose turn it is; a circuit whose queue has become short is noted.
    fn next_cell(&mut self, lane: Lane) -> Option<(CircuitId, Queued)> {
        let now = self.clock.ms();
        let (turns, channel) = match lane {
            Lane::Own(key) => {
                let connection = self.connections.get_mut(key)?;
                (&mut connection.lane, connection.channel?)
            }
            Lane::Pool(key) => (&mut self.channels.get_mut(key)?.numbered.as_mut()?.pool, key),
        };
        loop {
            let (key, side) = turns.next()?;
            // A circuit that has gone leaves its turns behind, and another may have its place.
            let Some(circuit) = self.circuits.get_mut(key) else { continue };
            let Some((_, id)) = circuit.end_at(side).filter(|(at, _)| *at == channel) else { continue };
            let queue = circuit.queue(side);
            let Some(queued) = queue.cells.pop_front() else {
                queue.is_active = false;
                continue;
            };
            queue.recent.add_cell(now);
            if queue.cells.is_empty() {
                queue.is_active = false;
            } else {
                let recent = queue.recent;
                turns.add((key, side), recent);
            }
            if side == Side::Client && circuit.is_to_resume() {
                self.to_resume.push(key);
            }
            return Some((id, queued));
        }
    }

    /// Puts a circuit's cell on a connection.
    fn put(&mut self, key: usize, id: CircuitId, queued: &Queued) {
        let now = self.clock.ms();
        let connection = &mut self.connections[key];
        let channel = connection.channel.expect("a connection with circuits");
        let number = match &mut self.channels[channel].numbered {
            None => None,
            Some(numbered) => match numbered.order.send(id, queued.command) {
                None => return,
                number => number,
            },
        };
        connection.put(id, queued.command, number, &queued.body[..]);
        connection.recent.add_cell(now);
        connection.last_used_ms = now;
        self.to_write.insert(key);
    }

    /// A circuit has cells for this channel.
    pub(super) fn activate(&mut self, channel_key: usize, key: usize, side: Side, recent: Recent) {
        let channel = &mut self.channels[channel_key];
        let is_by_cell = self.settings.deals_cells(channel.design);
        let lane = match &mut channel.numbered {
            Some(numbered) if is_by_cell => {
                numbered.pool.add((key, side), recent);
                Lane::Pool(channel_key)
            }
            numbered => {
                let id = self.circuits[key].end_at(side).map(|(_, id)| id);
                let pin = numbered.as_ref().and_then(|numbered| numbered.pins.get(id?));
                let Some(connection) = pin.or(channel.connections.first().copied()) else { return };
                let Some(at) = self.connections.get_mut(connection) else { return };
                at.lane.add((key, side), recent);
                Lane::Own(connection)
            }
        };
        self.wake(lane);
    }

    /// There are cells on this lane.
    pub(super) fn wake(&mut self, lane: Lane) {
        match (self.settings.writing, lane) {
            (Writing::Kist { .. }, lane) => drop(self.pending.insert(lane)),
            (Writing::Vanilla, Lane::Own(key)) => drop(self.to_write.insert(key)),
            (Writing::Vanilla, Lane::Pool(key)) => drop(self.to_pool.insert(key)),
        }
    }

    fn kist_formula(&self) -> KistFormula {
        match self.settings.writing {
            Writing::Kist { formula, .. } => formula,
            Writing::Vanilla => KistFormula::default(),
        }
    }

    /// When KIST is to run next.
    pub(super) fn kist_due_ms(&self) -> Option<u64> {
        match self.settings.writing {
            Writing::Kist { interval_ms, .. } if !self.pending.is_empty() => Some(self.kist_ran_ms + interval_ms),
            _ => None,
        }
    }

    /// How much who is next on a lane has sent; nothing if nobody is.
    fn next_recent(&self, lane: Lane) -> Option<Recent> {
        let turns = match lane {
            Lane::Own(key) => &self.connections.get(key).filter(|connection| connection.is_usable())?.lane,
            Lane::Pool(key) => &self.channels.get(key)?.numbered.as_ref()?.pool,
        };
        Some(turns.next_recent()).filter(|_| !turns.is_empty())
    }

    /// Readies cells of all circuits by their turns, as many as the kernel can send soon, if it is time to; whether there is
    /// something to write now.
    fn run_kist(&mut self) -> bool {
        let now = self.clock.ms();
        if self.kist_due_ms().is_none_or(|due| due > now) {
            return false;
        }
        self.kist_ran_ms = now;
        let formula = self.kist_formula();
        if let Writing::Kist { interval_ms, formula: KistFormula::Of2014 } = self.settings.writing {
            self.kist_tokens.fill(self.settings.bandwidth_rate, interval_ms, now);
        }
        for lane in self.pending.clone() {
            if let Lane::Own(key) = lane {
                self.map_if_due(key);
            }
        }
        let lanes: Vec<Lane> = self.pending.iter().copied().collect();
        let mut takers = Vec::new();
        let mut turns = BinaryHeap::new();
        for lane in lanes {
            let Some(recent) = self.next_recent(lane) else {
                self.pending.remove(&lane);
                continue;
            };
            let serial = turns.len() as u64;
            takers.push(match lane {
                Lane::Own(key) => {
                    vec![Taker { connection: key, queued: 0, allowance: self.connections[key].kist_allowance(formula) }]
                }
                Lane::Pool(key) => self.takers(key, true),
            });
            turns.push(Reverse(Turn { recent, serial, whose: (lane, takers.len() - 1) }));
        }
        let mut serial = turns.len() as u64;
        while let Some(Reverse(Turn { whose: (lane, at), .. })) = turns.pop() {
            takers[at].retain(|taker| taker.allowance > 0);
            let taker = match lane {
                Lane::Own(_) => (!takers[at].is_empty()).then_some(0),
                Lane::Pool(channel) => self.choose(channel, &takers[at]),
            };
            let Some(taker) = taker else { continue };
            if formula == KistFormula::Of2014 && !self.kist_tokens.take(CELL_ON_THE_WIRE) {
                break;
            }
            let Some((id, queued)) = self.next_cell(lane) else {
                self.pending.remove(&lane);
                continue;
            };
            let taker = &mut takers[at][taker];
            taker.allowance -= 1;
            taker.queued += private::CELL;
            let connection = taker.connection;
            self.put(connection, id, &queued);
            let recent = self.next_recent(lane).unwrap_or_default();
            turns.push(Reverse(Turn { recent, serial, whose: (lane, at) }));
            serial += 1;
        }
        !self.to_write.is_empty()
    }
}
