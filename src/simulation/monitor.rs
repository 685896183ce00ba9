//! Watches a run from its window ends: progress on the terminal, heartbeats in the log, tables in the data directory.

use super::accounting::{LiveProcesses, MemoryInUse, available_memory};
use super::ranks::Others;
use super::{LogTarget, Progress, RunOptions};
use crate::terminal::Terminal;
use base::wall::WallClock;
use base::{HostId, SimDuration, SimTime};
use recorder::log::Level;
use recorder::{
    HostTraffic, MachineUse, MemInfo, ProcessUsage, ProgressTable, TrafficBoard, TrafficRows, WindowBoard, record,
};
use scenario::Plan;
use std::io::Write;
use std::path::PathBuf;

/// Where others show what is watched.
pub struct Shown {
    pub board: Option<TrafficBoard>,
    pub rows: TrafficRows,
    pub windows: WindowBoard,
    pub live: LiveProcesses,
    pub others: Others,
    pub memory: MemoryInUse,
}

/// What is shown and written while the run goes on.
pub struct Monitor {
    clock: WallClock,
    meter: recorder::ProgressMeter,
    progress: Progress,
    terminal: Terminal,
    heartbeat: Option<SimDuration>,
    next_heartbeat: SimTime,
    drawn_ms: u128,
    /// None where another process of the run has it.
    progress_table: Option<ProgressTable>,
    progress_rows: u64,
    host_traffic: Option<HostTraffic>,
    directory: PathBuf,
    windows: WindowBoard,
    /// When the windows are written next, in seconds of wall time.
    windows_due: u64,
    live: LiveProcesses,
    others: Others,
    memory: MemoryInUse,
    /// The first failure to write.
    failure: Option<recorder::Error>,
}

/// How often progress is shown, on a terminal and as lines.
const REDRAW_MS: u128 = 200;
const LINE_MS: u128 = 5_000;

/// How often the table of windows is written, so that a run which is killed leaves one; it is written as a whole.
const WINDOWS_INTERVAL_S: u64 = 30;

impl Monitor {
    /// # Errors
    /// When the tables cannot be written.
    pub fn new(plan: &Plan, options: &RunOptions, clock: WallClock, shown: Shown) -> recorder::Result<Monitor> {
        let Shown { board, rows, windows, live, others, memory } = shown;
        let is_first = options.is_first();
        let directory = options.directory.path();
        let names = || plan.hosts.iter().map(|host| host.name.clone()).collect();
        let create = |board| match &options.link {
            None => HostTraffic::create(directory, board, names()),
            Some(_) => HostTraffic::of_several(Some(directory).filter(|_| is_first), rows, board, names()),
        };
        let host_traffic = board.map(create).transpose()?;
        Ok(Monitor {
            clock,
            meter: recorder::ProgressMeter::new(plan.stop_time(), plan.hosts.len()),
            progress: if is_first { options.progress } else { Progress::Off },
            terminal: Terminal::stderr(),
            // They describe this machine and this run of it: only Shadow's own log has them.
            heartbeat: plan.general.heartbeat_interval.filter(|_| is_first && options.log == LogTarget::ShadowStdout),
            next_heartbeat: SimTime::ZERO,
            drawn_ms: 0,
            progress_table: is_first.then(|| ProgressTable::create(directory)).transpose()?,
            progress_rows: 0,
            host_traffic,
            directory: directory.to_path_buf(),
            windows,
            windows_due: WINDOWS_INTERVAL_S,
            live,
            others,
            memory,
            failure: None,
        })
    }

    /// Everything before the window's end has happened.
    pub fn window(&mut self, end: &engine::WindowEnd, log: &mut recorder::WorkerLog) {
        let now = end.complete_until;
        self.write_tables(now);
        if let Some(interval) = self.heartbeat
            && now >= self.next_heartbeat
        {
            self.next_heartbeat = now + interval;
            if let (Ok(usage), Ok(memory)) = (ProcessUsage::of_this_process(), MemInfo::of_this_machine()) {
                record!(log, Level::Info, now, None::<HostId>, "{}", usage.heartbeat(now));
                record!(log, Level::Info, now, None::<HostId>, "{}", memory.heartbeat(now));
            }
            log.hand_over();
        }
        let interval = match self.progress {
            Progress::Off => return,
            Progress::Terminal => REDRAW_MS,
            Progress::Lines => LINE_MS,
        };
        let elapsed = self.clock.elapsed();
        if elapsed.as_millis() < self.drawn_ms + interval {
            return;
        }
        self.drawn_ms = elapsed.as_millis();
        self.meter.update(now, elapsed);
        match self.progress {
            Progress::Lines => {
                let _ = write!(std::io::stderr(), "{}", self.meter.shadow_line(0));
            }
            _ => {
                let line = self.meter.terminal_line(recorder::usage::resident_bytes(), 0, self.terminal.width());
                self.terminal.redraw(&line);
            }
        }
    }

    /// What the run takes of the machine now.
    fn machine(&self) -> MachineUse {
        MachineUse {
            available_bytes: available_memory(),
            proportional_bytes: self.memory.get(),
            resident_bytes: recorder::usage::resident_bytes() + self.others.resident_bytes(),
            processes: self.live.get() + self.others.processes(),
        }
    }

    fn write_tables(&mut self, now: SimTime) {
        if let Some(table) = &mut self.host_traffic
            && let Err(error) = table.advance(now)
        {
            self.failure.get_or_insert(error);
        }
        let wall = self.clock.elapsed();
        if wall.as_secs() >= self.progress_rows && self.progress_table.is_some() {
            self.progress_rows = wall.as_secs() + 1;
            let machine = self.machine();
            if let Some(table) = &mut self.progress_table
                && let Err(error) = table.row(now, wall, machine)
            {
                self.failure.get_or_insert(error);
            }
        }
        if wall.as_secs() >= self.windows_due && self.progress_table.is_some() {
            self.windows_due = wall.as_secs() + WINDOWS_INTERVAL_S;
            if let Err(error) = self.windows.write(&self.directory) {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// The run has ended, at `end` of simulated time: counts what is left, before processes of the run hear of each other the last time.
    ///
    /// # Errors
    /// When a table could not be written.
    pub fn count_rest(&mut self, end: SimTime) -> recorder::Result<()> {
        self.terminal.clear();
        self.host_traffic.as_mut().map_or(Ok(()), |table| table.finish(end))
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// When a table could not be written.
    pub fn finish(mut self, end: SimTime) -> recorder::Result<()> {
        if let Some(table) = self.host_traffic.take() {
            table.close()?;
        }
        let (wall, machine) = (self.clock.elapsed(), self.machine());
        if let Some(table) = &mut self.progress_table {
            self.windows.write(&self.directory)?;
            table.row(end, wall, machine)?;
        }
        self.failure.map_or(Ok(()), Err)
    }
}
