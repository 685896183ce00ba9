//! Tables that grow while a run goes on: `host-traffic.csv`, which is the same in each run of a plan, and `progress.csv`, which tells
//! how this machine did.

use crate::error::{Error, Result};
use base::{HostId, SimDuration, SimTime};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A CSV file under a fixed header.
#[derive(Debug)]
struct Table {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Table {
    fn create(path: PathBuf, header: &str) -> Result<Table> {
        let file = File::create(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut table = Table { path, out: BufWriter::new(file) };
        table.row(&header)?;
        Ok(table)
    }

    fn row(&mut self, row: &dyn Display) -> Result<()> {
        writeln!(self.out, "{row}").map_err(|error| Error::io("write", &self.path, error))
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|error| Error::io("write", &self.path, error))
    }
}

/// What has passed a host's interface since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub dropped_packets: u64,
}

impl Traffic {
    fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            rx_bytes: self.rx_bytes - earlier.rx_bytes,
            tx_bytes: self.tx_bytes - earlier.tx_bytes,
            rx_packets: self.rx_packets - earlier.rx_packets,
            tx_packets: self.tx_packets - earlier.tx_packets,
            dropped_packets: self.dropped_packets - earlier.dropped_packets,
        }
    }
}

/// A host's traffic as others may see it: in which interval the host is, what had passed when that began, and what has since.
#[derive(Clone, Copy, Debug, Default)]
struct Published {
    interval: u64,
    at_start: Traffic,
    current: Traffic,
}

/// All hosts' published traffic. A host's worker and the reader meet here for a moment, and nobody else.
#[derive(Clone, Debug)]
pub struct TrafficBoard {
    hosts: Arc<[Mutex<Published>]>,
    interval: SimDuration,
}

impl TrafficBoard {
    pub fn new(hosts: usize, interval: SimDuration) -> TrafficBoard {
        TrafficBoard { hosts: (0..hosts).map(|_| Mutex::default()).collect(), interval }
    }

    fn slot(&self, host: HostId) -> MutexGuard<'_, Published> {
        self.hosts[host.index()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One host's side of the board.
#[derive(Debug)]
pub struct TrafficMeter {
    board: TrafficBoard,
    host: HostId,
    interval: u64,
    interval_end: SimTime,
    at_start: Traffic,
}

impl TrafficMeter {
    pub fn new(board: TrafficBoard, host: HostId) -> TrafficMeter {
        let interval_end = SimTime::ZERO + board.interval;
        TrafficMeter { board, host, interval: 0, interval_end, at_start: Traffic::default() }
    }

    /// The host's clock is at `now`; `traffic` is what had passed before.
    #[inline]
    pub fn advance(&mut self, now: SimTime, traffic: impl FnOnce() -> Traffic) {
        if now >= self.interval_end {
            self.interval = now.as_nanos() / self.board.interval.as_nanos();
            self.interval_end = SimTime::from_nanos((self.interval + 1) * self.board.interval.as_nanos());
            self.at_start = traffic();
        }
    }

    /// Shows what has passed so far: at the end of each turn of the host.
    pub fn publish(&self, current: Traffic) {
        *self.board.slot(self.host) = Published { interval: self.interval, at_start: self.at_start, current };
    }
}

/// Rows that wait to be written, by interval and host: those of several processes of a run meet here.
#[derive(Clone, Debug, Default)]
pub struct TrafficRows(Arc<Mutex<BTreeMap<(u64, u32), String>>>);

impl TrafficRows {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u64, u32), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes away what is here, for another process; nothing if there is none.
    pub fn take(&self) -> Vec<u8> {
        let rows = std::mem::take(&mut *self.lock());
        let rows: Vec<_> = rows.into_iter().collect();
        if rows.is_empty() { Vec::new() } else { serde_json::to_vec(&rows).expect("rows can be serialised") }
    }

    /// Adds what another process of this build has taken away. Bytes that are no rows are left out.
    pub fn put(&self, bytes: &[u8]) {
        let rows: Vec<((u64, u32), String)> = serde_json::from_slice(bytes).unwrap_or_default();
        self.lock().extend(rows);
    }
}

/// `host-traffic.csv`: what passed each host's interface in each interval of simulated time. Rows of nothing but zeroes are left out.
#[derive(Debug)]
pub struct HostTraffic {
    /// None where another process has it.
    table: Option<Table>,
    rows: TrafficRows,
    /// Rows may come from other processes until the next call.
    waits: bool,
    board: TrafficBoard,
    names: Vec<String>,
    written: Vec<Traffic>,
    next: u64,
}

impl HostTraffic {
    const HEADER: &'static str = "time_s,host,rx_bytes,tx_bytes,rx_packets,tx_packets,dropped_packets";

    /// # Errors
    /// When the file cannot be written.
    pub fn create(directory: &Path, board: TrafficBoard, names: Vec<String>) -> Result<HostTraffic> {
        let table = Table::create(directory.join("host-traffic.csv"), Self::HEADER)?;
        Ok(HostTraffic::new(Some(table), TrafficRows::default(), false, board, names))
    }

    /// The same for a run of several processes, of which one has the table: `directory` is given to that one alone. What it has
    /// counted is written with the next call of [`HostTraffic::advance`], or [`HostTraffic::close`]: by then `rows` has what the others have counted.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn of_several(
        directory: Option<&Path>,
        rows: TrafficRows,
        board: TrafficBoard,
        names: Vec<String>,
    ) -> Result<HostTraffic> {
        let create = |directory: &Path| Table::create(directory.join("host-traffic.csv"), Self::HEADER);
        Ok(HostTraffic::new(directory.map(create).transpose()?, rows, true, board, names))
    }

    fn new(
        table: Option<Table>,
        rows: TrafficRows,
        waits: bool,
        board: TrafficBoard,
        names: Vec<String>,
    ) -> HostTraffic {
        let written = vec![Traffic::default(); names.len()];
        HostTraffic { table, rows, waits, board, names, written, next: 1 }
    }

    /// Everything before `complete_until` has happened: writes the intervals that have ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn advance(&mut self, complete_until: SimTime) -> Result<()> {
        if self.waits {
            self.write_rows()?;
        }
        self.count(complete_until);
        if !self.waits {
            self.write_rows()?;
        }
        Ok(())
    }

    fn count(&mut self, complete_until: SimTime) {
        let interval = self.board.interval.as_nanos();
        let ended = complete_until.as_nanos() / interval;
        while self.next <= ended {
            let is_all = self.count_interval(self.next);
            // Then the intervals up to now are empty, and there may be millions: years pass in a moment when nothing happens.
            self.next = if is_all { ended + 1 } else { self.next + 1 };
        }
    }

    /// The run has ended at `end`: counts the interval that it broke off.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&mut self, end: SimTime) -> Result<()> {
        self.advance(end)?;
        self.count_interval(self.next);
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn close(mut self) -> Result<()> {
        self.write_rows()?;
        self.table.as_mut().map_or(Ok(()), Table::flush)
    }

    fn write_rows(&mut self) -> Result<()> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let mut rows = self.rows.lock();
        while let Some((_, row)) = rows.pop_first() {
            table.row(&row)?;
        }
        Ok(())
    }

    /// A host that is past the interval has not been more than one window past it, since none is longer than an interval: what had
    /// passed when its present interval began is what passed until the end of this one. Whether nothing has passed later that is not
    /// written.
    fn count_interval(&mut self, number: u64) -> bool {
        let mut rows = self.rows.lock();
        let mut is_all = true;
        let time = SimDuration::from_nanos(number * self.board.interval.as_nanos()).as_secs_f64();
        for (index, name) in self.names.iter().enumerate() {
            let slot = *self.board.slot(HostId(index as u32));
            is_all &= slot.interval < number;
            let total = if slot.interval >= number { slot.at_start } else { slot.current };
            let row = total.since(&self.written[index]);
            if row != Traffic::default() {
                self.written[index] = total;
                let Traffic { rx_bytes, tx_bytes, rx_packets, tx_packets, dropped_packets } = row;
                rows.insert(
                    (number, index as u32),
                    format!("{time},{name},{rx_bytes},{tx_bytes},{rx_packets},{tx_packets},{dropped_packets}"),
                );
            }
        }
        is_all
    }
}

/// What a run takes of the machine at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineUse {
    /// What the whole machine has left (MemAvailable).
    pub available_bytes: u64,
    /// Of the process, each page once (Pss); as it was when it last changed by much.
    pub proportional_bytes: u64,
    /// Of the process, each page as often as it is mapped (VmRSS).
    pub resident_bytes: u64,
    pub processes: u64,
}

/// `progress.csv`: simulated against wall time, and memory.
#[derive(Debug)]
pub struct ProgressTable(Table);

impl ProgressTable {
    /// # Errors
    /// When the file cannot be written.
    pub fn create(directory: &Path) -> Result<ProgressTable> {
        let header = "sim_s,wall_s,mem_available_bytes,rss_bytes,pss_bytes,processes";
        Ok(ProgressTable(Table::create(directory.join("progress.csv"), header)?))
    }

    /// # Errors
    /// When the file cannot be written.
    pub fn row(&mut self, now: SimTime, wall: Duration, machine: MachineUse) -> Result<()> {
        let simulated = now.as_nanos() as f64 / 1e9;
        let MachineUse { available_bytes, proportional_bytes, resident_bytes, processes } = machine;
        self.0.row(&format_args!(
            "{simulated},{:.3},{available_bytes},{resident_bytes},{proportional_bytes},{processes}",
            wall.as_secs_f64()
        ))?;
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(rx_bytes: u64) -> Traffic {
        Traffic { rx_bytes, rx_packets: rx_bytes / 10, ..Traffic::default() }
    }

    fn seconds(seconds: u64) -> SimTime {
        SimTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn rows_belong_to_the_interval_in_which_traffic_passed_though_a_host_is_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let board = TrafficBoard::new(2, SimDuration::from_secs(1));
        let mut table =
            HostTraffic::create(directory.path(), board.clone(), vec!["a".to_owned(), "b".to_owned()]).unwrap();
        let (mut a, mut b) = (TrafficMeter::new(board.clone(), HostId(0)), TrafficMeter::new(board.clone(), HostId(1)));
        a.advance(SimTime::from_nanos(5), || traffic(0));
        a.publish(traffic(100));
        b.advance(SimTime::from_nanos(900_000_000), || traffic(0));
        b.publish(traffic(10));
        // Host a runs into the second interval before the first is known to be complete.
        a.advance(SimTime::from_nanos(1_050_000_000), || traffic(100));
        a.publish(traffic(300));
        table.advance(seconds(1)).unwrap();
        // Nothing happens for long; then host b goes on.
        table.advance(seconds(5)).unwrap();
        b.advance(SimTime::from_nanos(5_500_000_000), || traffic(10));
        b.publish(traffic(70));
        table.finish(SimTime::from_nanos(5_600_000_000)).unwrap();
        table.close().unwrap();
        let text = std::fs::read_to_string(directory.path().join("host-traffic.csv")).unwrap();
        assert_eq!(
            text.lines().skip(1).collect::<Vec<_>>(),
            ["1,a,100,0,10,0,0", "1,b,10,0,1,0,0", "2,a,200,0,20,0,0", "6,b,60,0,6,0,0"]
        );
    }

    #[test]
    fn years_without_traffic_take_no_time() {
        let directory = tempfile::tempdir().unwrap();
        let board = TrafficBoard::new(1, SimDuration::from_millis(100));
        let mut table = HostTraffic::create(directory.path(), board.clone(), vec!["a".to_owned()]).unwrap();
        TrafficMeter::new(board, HostId(0)).publish(traffic(10));
        table.advance(seconds(200)).unwrap();
        table.finish(seconds(100 * 365 * 86_400)).unwrap();
        table.close().unwrap();
        let text = std::fs::read_to_string(directory.path().join("host-traffic.csv")).unwrap();
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ["0.1,a,10,0,1,0,0"]);
    }

    #[test]
    fn progress_rows_have_the_header_s_columns() {
        let directory = tempfile::tempdir().unwrap();
        let mut table = ProgressTable::create(directory.path()).unwrap();
        let machine = MachineUse { available_bytes: 7, resident_bytes: 8, proportional_bytes: 6, processes: 9 };
        table.row(seconds(2), Duration::from_millis(1500), machine).unwrap();
        let text = std::fs::read_to_string(directory.path().join("progress.csv")).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines, ["sim_s,wall_s,mem_available_bytes,rss_bytes,pss_bytes,processes", "2,1.500,7,8,6,9"]);
    }
}
