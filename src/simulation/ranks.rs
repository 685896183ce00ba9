//! This process as one rank of a run over several: what it tells the others, beginning with who has which host and ending with the results.
//!
//! Rank 0 writes what there is once for a run: the log, tables, statistics. The others send it their part: records of the log and rows of
//! tables with each window, so that what it has written is complete up to the last window that all have finished; the rest at the end. Every
//! rank writes its hosts' folders itself.

use super::host::InFlight;
use super::part::Part;
use super::standstill::Pulse;
use super::{Costs, LiveProcesses, RunError, partition};
use base::wall::WallClock;
use base::{HostId, SimTime};
use engine::{Envelope, Peers, Standing, Totals};
use ranks::Link;
use recorder::stats::{Provenance, RankStats};
use recorder::{Log, TrafficRows};
use scenario::Plan;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tcpip::Packet;

/// What ranks tell each other before the first window.
#[derive(Debug, Serialize, Deserialize)]
struct Opening {
    machine: String,
    provenance: Provenance,
    /// By host, the rank that has it; of rank 0.
    of_host: Vec<u32>,
}

/// What they tell each other after the last: the part, records of the log, rows of tables.
type Closing = (Part, Vec<u8>, Vec<u8>);

/// What the other ranks have, as far as it is told while the run goes on.
#[derive(Clone, Debug, Default)]
pub struct Others(Arc<[AtomicU64; 2]>);

impl Others {
    pub fn processes(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    pub fn resident_bytes(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

/// Tells the others what this rank runs, and divides the hosts.
///
/// # Errors
/// When ranks run different programs, or one has gone.
pub fn open(
    link: &Link,
    plan: &Plan,
    provenance: &Provenance,
    costs: Option<&Costs>,
) -> Result<engine::Ranks, RunError> {
    let place = link.place();
    let is_first = place.rank == 0;
    let of_host = if is_first { partition::divide(plan, link, costs).map_err(RunError::Machine)? } else { Vec::new() };
    let own = Opening { machine: machine(), provenance: provenance.clone(), of_host };
    let all: Vec<Opening> = share(link, &own)?;
    let first = &all[0];
    for (rank, other) in all.iter().enumerate() {
        let programs = &first.provenance.programs;
        if let Some((name, _)) =
            programs.iter().find(|(name, program)| other.provenance.programs.get(*name) != Some(program))
        {
            return Err(RunError::Machine(format!(
                "rank {rank} (on {}) has another {name} than rank 0 (on {}): install the same one on all machines",
                other.machine, first.machine
            )));
        }
    }
    if first.of_host.len() != plan.hosts.len() {
        return Err(RunError::Simulator("rank 0 has divided other hosts than this rank has".to_owned()));
    }
    Ok(engine::Ranks { own: place.rank, count: place.size, of_host: first.of_host.clone() })
}

/// Gives every rank what each has to say, in the order of their numbers. Before the run begins.
///
/// # Errors
/// When a rank has gone.
pub fn share<T: for<'de> Deserialize<'de>>(link: &Link, own: &impl Serialize) -> Result<Vec<T>, RunError> {
    let own = serde_json::to_vec(own).map_err(|error| RunError::Simulator(error.to_string()))?;
    let all = link.share(&own, &|| false).map_err(RunError::Lost)?;
    let read = |bytes: &Vec<u8>| serde_json::from_slice(bytes).map_err(|error| RunError::Simulator(error.to_string()));
    all.iter().map(read).collect()
}

/// The name of this machine.
pub fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "?".to_owned(), |name| name.trim().to_owned())
}

/// The way to the other ranks while the run goes on.
#[derive(Debug)]
pub struct RankPeers<'a> {
    link: &'a Link,
    log: Log,
    rows: TrafficRows,
    live: LiveProcesses,
    others: Others,
    stop: &'a AtomicBool,
    /// Whoever waits for the others does not stand still itself.
    pulse: Arc<Pulse>,
    packets_out: AtomicU64,
    bytes_out: AtomicU64,
    waited_ns: AtomicU64,
    /// Resident memory, and when it was looked at.
    resident: Mutex<(u64, Option<WallClock>)>,
}

/// What an item on its way is.
const PACKET: u8 = 0;
const LOG: u8 = 1;
const ROWS: u8 = 2;

/// How often resident memory is looked at.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> RankPeers<'a> {
    pub fn new(
        link: &'a Link,
        log: Log,
        rows: TrafficRows,
        live: LiveProcesses,
        others: Others,
        stop: &'a AtomicBool,
        pulse: Arc<Pulse>,
    ) -> RankPeers<'a> {
        RankPeers {
            link,
            log,
            rows,
            live,
            others,
            stop,
            pulse,
            packets_out: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            resident: Mutex::default(),
        }
    }

    /// The run is over on all ranks: gives rank 0 all parts, in the order of ranks, and each other rank its own. What belongs into the log and the
    /// tables is where this rank's own is.
    ///
    /// # Errors
    /// When a rank has gone.
    pub fn close(&self, part: &mut Part, workers: usize) -> Result<Vec<Part>, RunError> {
        part.stats.gnomon.ranks = vec![RankStats {
            machine: machine(),
            hosts: part.hosts.len() as u64,
            workers: workers as u64,
            packets_out: self.packets_out.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
            waiting_ns: self.waited_ns.load(Ordering::Relaxed),
        }];
        let is_first = self.link.place().rank == 0;
        let (log, rows) = if is_first { Default::default() } else { (self.log.take_handed_over(), self.rows.take()) };
        let all: Vec<Closing> = share(self.link, &(&*part, log, rows))?;
        if !is_first {
            return Ok(all.into_iter().skip(self.link.place().rank).take(1).map(|(part, ..)| part).collect());
        }
        let take = |(part, log, rows): Closing| {
            self.log.hand_over_from(&log);
            self.rows.put(&rows);
            part
        };
        Ok(all.into_iter().map(take).collect())
    }

    fn resident(&self) -> u64 {
        let mut resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        if resident.1.is_none_or(|looked| looked.elapsed() >= LOOK) {
            *resident = (recorder::usage::resident_bytes(), Some(WallClock::start()));
        }
        resident.0
    }

    fn send_to_first(&self, kind: u8, bytes: &[u8]) -> Result<(), String> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.link.send(0, |out| {
            out.push(kind);
            out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(bytes);
        })
    }
}

impl Peers<InFlight> for RankPeers<'_> {
    fn send(&self, rank: usize, messages: &mut Vec<Envelope<InFlight>>) -> Result<(), String> {
        self.packets_out.fetch_add(messages.len() as u64, Ordering::Relaxed);
        self.link.send(rank, |out| {
            let before = out.len();
            messages.drain(..).for_each(|envelope| put_packet(&envelope, out));
            self.bytes_out.fetch_add((out.len() - before) as u64, Ordering::Relaxed);
        })
    }

    fn agree(&self, own: Standing, take: &mut dyn FnMut(Envelope<InFlight>)) -> Result<Standing, String> {
        if self.link.place().rank > 0 {
            self.send_to_first(LOG, &self.log.take_handed_over())?;
            self.send_to_first(ROWS, &self.rows.take())?;
        }
        let (processes, resident) = (self.live.get(), self.resident());
        let standing = ranks::Standing {
            next: own.next.map(SimTime::as_nanos),
            halt: own.halt,
            sums: [own.totals.hosts_run, own.totals.messages_sent, processes, resident],
        };
        let clock = WallClock::start();
        let mut broken = None;
        let mut take_in = |rank: usize, mut bytes: &[u8]| {
            while !bytes.is_empty() && broken.is_none() {
                if self.take_item(&mut bytes, take).is_none() {
                    broken = Some(format!(
                        "what rank {rank} has sent is not understood: use the same Gnomon on all machines"
                    ));
                }
            }
        };
        self.pulse.wait_for_others(true);
        let all = self.link.exchange(standing, &|| self.stop.load(Ordering::Relaxed), &mut take_in);
        self.pulse.wait_for_others(false);
        let all = all?;
        self.waited_ns.fetch_add(clock.elapsed().as_nanos() as u64, Ordering::Relaxed);
        let [hosts_run, messages_sent, all_processes, all_resident] = all.sums;
        self.others.0[0].store(all_processes.wrapping_sub(processes), Ordering::Relaxed);
        self.others.0[1].store(all_resident.wrapping_sub(resident), Ordering::Relaxed);
        let totals = Totals { hosts_run, messages_sent };
        broken.map_or(Ok(Standing { next: all.next.map(SimTime::from_nanos), halt: all.halt, totals }), Err)
    }
}

impl RankPeers<'_> {
    /// Takes the first item off `bytes`.
    fn take_item(&self, bytes: &mut &[u8], take: &mut dyn FnMut(Envelope<InFlight>)) -> Option<()> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        if *kind == PACKET {
            take(take_packet(bytes)?);
            return Some(());
        }
        let length = u64::from_le_bytes(take_array(bytes)?) as usize;
        let (item, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        match *kind {
            LOG => self.log.hand_over_from(item),
            ROWS => self.rows.put(item),
            _ => return None,
        }
        Some(())
    }
}

fn put_packet(envelope: &Envelope<InFlight>, out: &mut Vec<u8>) {
    out.push(PACKET);
    out.extend_from_slice(&envelope.arrival.to_le_bytes());
    out.extend_from_slice(&envelope.from.0.to_le_bytes());
    out.extend_from_slice(&envelope.to.0.to_le_bytes());
    out.extend_from_slice(&envelope.sequence.to_le_bytes());
    out.extend_from_slice(&envelope.message.serialized.as_nanos().to_le_bytes());
    envelope.message.packet.pack(out);
}

fn take_packet(bytes: &mut &[u8]) -> Option<Envelope<InFlight>> {
    let arrival = u64::from_le_bytes(take_array(bytes)?);
    let from = HostId(u32::from_le_bytes(take_array(bytes)?));
    let to = HostId(u32::from_le_bytes(take_array(bytes)?));
    let sequence = u64::from_le_bytes(take_array(bytes)?);
    let serialized = base::SimDuration::from_nanos(u64::from_le_bytes(take_array(bytes)?));
    let packet = Box::new(Packet::unpack(bytes).ok()?);
    Some(Envelope { arrival, from, to, sequence, message: InFlight { packet, serialized } })
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}
