//! One host's part of the record. The network stack and the simulated kernel tell it what happens; it keeps what is not complete yet
//! (packets in the interface, bytes that nobody has read) and gives rows.

mod arrival;
mod causes;
mod cost;
mod flows;
mod histogram;
mod sending;

use arrival::AtRouter;
pub use arrival::{Arrival, Piece};
use causes::Causes;
pub use causes::Head;
pub use cost::{Begun, Clock};
pub use flows::{Inflow, Outflow, stream_of_connection, stream_of_datagrams};
pub use histogram::bin_of;
pub use sending::{Made, Written};

use crate::choices::Call;
use crate::identifier::Identifiers;
use crate::level::Level;
use crate::rows::Rows;
use crate::table::tell;
use crate::tables::{Read, Tcp, Write};
use base::map::FastMap;
use base::{HostId, SimTime};
use histogram::Histograms;
use sending::{Cut, LinkCount, Waiting};
use std::collections::VecDeque;

/// Bits of a number that count on one host.
pub const COUNT_BITS: u32 = 40;

/// The first number of a host's packets, and of each kind of its rows.
pub fn first_number(host: HostId) -> u64 {
    (u64::from(host.0) << COUNT_BITS) + 1
}

/// The host whose number this is.
pub fn host_of(number: u64) -> u64 {
    number >> COUNT_BITS
}

/// The thread whose call the kernel executes, and what the call said.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub pid: u64,
    pub tid: u64,
    pub call: Call,
    /// Where its bytes lie in the guest's memory.
    pub address: u64,
    /// The row of `wakes` since which the thread runs.
    pub wake: u64,
}

impl Default for Caller {
    fn default() -> Self {
        Caller { pid: 0, tid: 0, call: Call::Kernel, address: 0, wake: 0 }
    }
}

/// What one host tells.
#[derive(Debug)]
pub struct Trace {
    level: Level,
    identifiers: Identifiers,
    host: u64,
    rows: Rows,
    next_row: u64,
    caller: Caller,
    /// How many calls there were, by which bytes of one are told from those of the next.
    calls: u64,
    last_write: u64,
    now: SimTime,
    /// When the packet that comes next was at the router.
    next_arrived: Option<SimTime>,
    /// What is between the router and the host, in the order in which it came.
    at_router: VecDeque<AtRouter>,
    /// Packets that wait in the interface, by their numbers.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// Datagrams whose fragments have not all left.
    cut: Vec<Cut>,
    /// Of which datagram fragments are being made, and its stream.
    parent: Option<(u64, u64)>,
    /// The packet that the stack has taken last.
    last_arrival: u64,
    /// The packet that the stack is taking now.
    arrival: Option<Arrival>,
    /// The fragments that it is made of, if it is.
    fragments: Vec<Piece>,
    causes: Causes,
    histograms: Histograms,
    links: FastMap<u64, LinkCount>,
    /// The second that histograms and links are of.
    second: u64,
    /// By which a few packets are measured, if they are.
    clock: Option<Clock>,
}

impl Trace {
    pub fn new(host: HostId, level: Level) -> Trace {
        Trace {
            level,
            identifiers: Identifiers::Number,
            host: host.0.into(),
            rows: Rows::default(),
            next_row: first_number(host),
            caller: Caller::default(),
            calls: 0,
            last_write: 0,
            now: SimTime::ZERO,
            next_arrived: None,
            at_router: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            cut: Vec::new(),
            parent: None,
            last_arrival: 0,
            arrival: None,
            fragments: Vec::new(),
            causes: Causes::default(),
            histograms: Histograms::default(),
            links: FastMap::default(),
            second: 0,
            clock: None,
        }
    }

    /// Packets that are made from now on are identified by this, too.
    pub fn identify_by(&mut self, identifiers: Identifiers) {
        self.identifiers = identifiers;
    }

    /// Exchanges the rows that are filled for others: a worker lends its own while it executes the host.
    pub fn exchange_rows(&mut self, rows: &mut Rows) {
        std::mem::swap(&mut self.rows, rows);
    }

    /// The rows since last asked.
    pub fn take_rows(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    pub fn level(&self) -> Level {
        self.level
    }

    pub fn host(&self) -> u64 {
        self.host
    }

    /// Whether rows of packets are kept.
    fn keeps_packets(&self) -> bool {
        self.level >= Level::Packets
    }

    /// Whether rows of what programs do are kept.
    pub fn keeps_all(&self) -> bool {
        self.level >= Level::All
    }

    /// On whose account what follows is done; the stack's own without.
    pub fn set_caller(&mut self, caller: Option<Caller>) {
        self.caller = caller.unwrap_or_default();
        self.calls += 1;
    }

    /// The same for a while within a call; gives on whose account it was.
    pub fn swap_caller(&mut self, caller: Caller) -> Caller {
        std::mem::replace(&mut self.caller, caller)
    }

    /// What follows happens at this moment.
    pub fn set_now(&mut self, now: SimTime) {
        self.now = now;
    }

    pub fn now(&self) -> SimTime {
        self.now
    }

    pub fn caller(&self) -> Caller {
        self.caller
    }

    /// What is made from now on are fragments of this datagram, of this stream; or no longer.
    pub fn set_parent(&mut self, parent: Option<(u64, u64)>) {
        if let Some((whole, _)) = std::mem::replace(&mut self.parent, parent) {
            // On a fast line all fragments have left by now.
            self.settle_cut(whole);
        }
    }

    pub fn parent(&self) -> Option<(u64, u64)> {
        self.parent
    }

    fn number_row(&mut self) -> u64 {
        let number = self.next_row;
        self.next_row += 1;
        number
    }

    /// A program has given bytes to a stream, the first of which are `head`. Gives the number of the row.
    ///
    /// A stream is named together with its connection.
    pub fn note_write(
        &mut self,
        now: SimTime,
        (stream, connection): (u64, u64),
        offset: u64,
        bytes: u64,
        head: &[u8],
    ) -> u64 {
        if !self.keeps_all() {
            return 0;
        }
        let Caller { pid, tid, call, address, wake } = self.caller;
        let at_ns = now.as_nanos();
        let goes_on = self.last_write == self.calls;
        if let Some(last) = self.rows.writes.last_mut()
            && goes_on
            && (last.stream, last.offset + last.bytes, last.at_ns) == (stream, offset, at_ns)
        {
            last.bytes += bytes;
            return last.write;
        }
        self.last_write = self.calls;
        let write = self.number_row();
        tell(
            &mut self.rows.writes,
            Write { write, stream, offset, bytes, at_ns, pid, tid, call: call.into(), address, wake },
        );
        self.find_causes(write, stream, connection, Head::of(head));
        write
    }

    fn note_read(
        &mut self,
        now: SimTime,
        (stream, connection): (u64, u64),
        offset: u64,
        bytes: u64,
        head: Head,
    ) -> u64 {
        if !self.keeps_all() {
            return 0;
        }
        let Caller { pid, tid, call, address, wake } = self.caller;
        let read = self.number_row();
        let at_ns = now.as_nanos();
        tell(
            &mut self.rows.reads,
            Read { read, stream, offset, bytes, at_ns, pid, tid, call: call.into(), address, wake },
        );
        self.remember_read(read, connection, head);
        read
    }

    /// What a connection's sender goes by has changed.
    pub fn note_sender(&mut self, row: Tcp) {
        tell(&mut self.rows.tcp, row);
    }

    /// Closes the second that is over, if one is.
    fn advance(&mut self, now: SimTime) {
        let second = now.as_nanos() / 1_000_000_000;
        if second != self.second {
            self.close_second();
            self.second = second;
        }
    }

    fn close_second(&mut self) {
        let from_ns = self.second * 1_000_000_000;
        self.histograms.drain(from_ns, self.host, &mut self.rows.layers);
        let (host, links) = (self.host, &mut self.rows.links);
        self.links.drain().for_each(|(to, count)| tell(links, count.row(from_ns, host, to)));
    }

    /// The end of the run: what waits in the interface has its rows.
    pub fn finish(&mut self, now: SimTime) {
        self.advance(now);
        self.give_up_waiting(now);
        self.close_second();
    }
}
