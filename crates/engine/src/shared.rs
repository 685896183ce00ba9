//! What all workers of one run see.

use crate::barrier::Barrier;
use crate::engine::Policy;
use crate::error::Error;
use crate::host::Host;
use crate::index::{NEVER, Nanos};
use crate::mailbox::{Envelope, Mailboxes};
use crate::peers::{Peers, Ranks, Standing};
use crate::stats::Totals;
use crate::sync::lock;
use crate::waiting::Waiting;
use crate::worklist::WorkList;
use base::{HostId, SimTime};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What senders and home workers need to know of a host; constant during a run.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    /// The smallest latency of any message to the host, ns.
    pub incoming_latency: Nanos,
    /// How far it runs ahead of a window's start: its incoming latency or the `runahead` floor, ns.
    pub lookahead: Nanos,
    /// The worker that delivers to it. A host of another rank has the number of workers and that rank's number.
    pub home: u32,
    /// Its place among the hosts of its rank.
    pub place: u32,
}

/// A host and how many messages it has sent. Aligned so that neighbours, run by different workers, share no cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct Slot<H> {
    pub host: H,
    pub sent: u64,
}

pub struct Shared<'a, H: Host> {
    /// Locked by the worker whom the round's work list, or the host's home, gives the host: never contended.
    pub slots: Vec<Mutex<Slot<H>>>,
    /// By slot.
    pub ids: Vec<HostId>,
    /// By host, those of other ranks included.
    pub reach: Arc<[Reach]>,
    pub lists: Vec<WorkList>,
    pub mailboxes: Mailboxes<H::Message>,
    pub barrier: Barrier,
    pub policy: Policy,
    /// Hosts of this round that wait for what another worker has. Empty between rounds.
    pub waiting: Waiting,
    /// Nothing happens from here on, ns.
    pub stop_time: Nanos,
    ranks: usize,
    /// The other ranks of the run, if there are any.
    pub peers: Option<&'a dyn Peers<H::Message>>,
    /// What hosts of other ranks have sent in the last round, by home worker.
    pub foreign: Vec<Mutex<Vec<Envelope<H::Message>>>>,
    /// What all ranks have come to; kept only with several.
    agreed: Mutex<(Agreement, Totals)>,
    /// Why the other ranks cannot be reached.
    lost: Mutex<Option<String>>,
    reports: [Vec<Report>; 2],
    stop: &'a AtomicBool,
    failed: AtomicBool,
    failure: Mutex<Option<Error>>,
}

/// What one worker says before the barrier, to be read by all after it. Two sets alternate, since a fast worker may report on
/// the next round while a slow one still reads.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Report {
    next: AtomicU64,
    halt: AtomicBool,
    hosts_run: AtomicU64,
    messages_sent: AtomicU64,
}

/// What the workers agree on at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The start of the next window; [`NEVER`] when nothing is left to happen.
    pub start: Nanos,
    /// Somebody has seen the stop flag or failed.
    pub halt: bool,
}

impl<'a, H: Host> Shared<'a, H> {
    pub fn new(
        hosts: Vec<H>,
        reach: Arc<[Reach]>,
        ranks: &Ranks,
        peers: Option<&'a dyn Peers<H::Message>>,
        workers: usize,
        policy: Policy,
        stop_time: Nanos,
        stop: &'a AtomicBool,
    ) -> Self {
        let largest_list = hosts.len().div_ceil(workers);
        let reports = || (0..workers).map(|_| Report::default()).collect();
        Shared {
            slots: hosts.into_iter().map(|host| Mutex::new(Slot { host, sent: 0 })).collect(),
            ids: ranks.own_hosts().map(|host| HostId(host as u32)).collect(),
            reach,
            lists: (0..workers).map(|_| WorkList::with_capacity(largest_list)).collect(),
            mailboxes: Mailboxes::new(workers),
            barrier: Barrier::new(workers),
            policy,
            waiting: Waiting::new(),
            stop_time,
            ranks: if peers.is_some() { ranks.count } else { 0 },
            peers,
            foreign: (0..workers).map(|_| Mutex::default()).collect(),
            agreed: Mutex::new((Agreement { start: NEVER, halt: true }, Totals::default())),
            lost: Mutex::new(None),
            reports: [reports(), reports()],
            stop,
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
        }
    }

    pub fn workers(&self) -> usize {
        self.lists.len()
    }

    /// How many parcels for other ranks a worker keeps, its own rank's included, which stays empty.
    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Tells the others what `worker` knows before the window that will be number `round`.
    pub fn report(&self, worker: usize, round: u64, next: Nanos, totals: Totals) {
        let report = &self.reports[(round % 2) as usize][worker];
        let halt = self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed);
        report.next.store(next, Ordering::Relaxed);
        report.halt.store(halt, Ordering::Relaxed);
        report.hosts_run.store(totals.hosts_run, Ordering::Relaxed);
        report.messages_sent.store(totals.messages_sent, Ordering::Relaxed);
    }

    /// Agrees with the other ranks, if there are any. The last worker at the barrier before window `round` calls it.
    pub fn agree_with_peers(&self, round: u64) {
        let Some(peers) = self.peers else { return };
        let own = self.own_agreement(round);
        let next = Some(SimTime::from_nanos(own.start)).filter(|_| own.start != NEVER);
        let standing = Standing { next, halt: own.halt, totals: self.own_totals(round) };
        let take = &mut |envelope: Envelope<H::Message>| {
            let home = self.reach[envelope.to.index()].home as usize;
            lock(&self.foreign[home]).push(envelope);
        };
        let agreed = match peers.agree(standing, take) {
            Ok(Standing { next, halt, totals }) => {
                (Agreement { start: next.map_or(NEVER, SimTime::as_nanos), halt }, totals)
            }
            Err(reason) => {
                self.lose(reason);
                (Agreement { halt: true, ..own }, standing.totals)
            }
        };
        *lock(&self.agreed) = agreed;
    }

    /// The other ranks cannot be reached: the run ends at the next barrier.
    pub fn lose(&self, reason: String) {
        lock(&self.lost).get_or_insert(reason);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// What the reports before window `round` come to: the same for every worker.
    pub fn agreement(&self, round: u64) -> Agreement {
        if self.peers.is_some() { lock(&self.agreed).0 } else { self.own_agreement(round) }
    }

    fn own_agreement(&self, round: u64) -> Agreement {
        let mut agreement = Agreement { start: NEVER, halt: false };
        for report in &self.reports[(round % 2) as usize] {
            agreement.start = agreement.start.min(report.next.load(Ordering::Relaxed));
            agreement.halt |= report.halt.load(Ordering::Relaxed);
        }
        agreement
    }

    pub fn totals(&self, round: u64) -> Totals {
        if self.peers.is_some() { lock(&self.agreed).1 } else { self.own_totals(round) }
    }

    fn own_totals(&self, round: u64) -> Totals {
        self.reports[(round % 2) as usize].iter().fold(Totals::default(), |sum, report| Totals {
            hosts_run: sum.hosts_run + report.hosts_run.load(Ordering::Relaxed),
            messages_sent: sum.messages_sent + report.messages_sent.load(Ordering::Relaxed),
        })
    }

    /// Ends the run with `error` at the next barrier. Of several errors the one of the smallest host is kept.
    pub fn fail(&self, error: Error) {
        let mut failure = lock(&self.failure);
        let rank = |error: &Error| match error {
            Error::Panic { host: Some(host), .. } => *host,
            _ => HostId(u32::MAX),
        };
        if failure.as_ref().is_none_or(|known| rank(&error) < rank(known)) {
            *failure = Some(error);
        }
        self.failed.store(true, Ordering::Relaxed);
    }

    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Hands the hosts back, with what went wrong here, and why other ranks were lost.
    pub fn into_parts(self) -> (Vec<H>, Option<Error>, Option<String>) {
        let unlock = |slot: Mutex<Slot<H>>| slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).host;
        let failure = self.failure.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lost = self.lost.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        (self.slots.into_iter().map(unlock).collect(), failure, lost)
    }
}
