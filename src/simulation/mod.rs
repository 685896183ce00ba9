//! A run: from a validated plan to hosts, through the engine, to what is left in the data directory.

mod host;
mod summary;
mod worker;

pub use summary::{GuestState, RunError, Summary, Verdict};

use crate::cli::terminal::Terminal;
use base::wall::WallClock;
use base::{HostId, SeedTree, SimDuration, SimTime};
use host::{Guest, Network, SimHost};
use recorder::log::{Level, LogHost};
use recorder::{
    Capture, DataDirectory, HostDirectory, Log, LogFormat, LogWriter, MemInfo, OutputPool, ProcessUsage, record,
};
use scenario::{FinalState, HostPlan, Plan, ProcessPlan};
use simkernel::exec::ProcessSpec;
use simkernel::{HostConfig, HostName, Kernel};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use topology::{Downlink, Uplink};
use worker::SimWorker;

/// How to execute a plan: nothing here changes its result.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// 0: one per core.
    pub workers: usize,
    pub policy: engine::Policy,
    /// Show a progress line on standard error.
    pub progress: bool,
    /// The form of log lines on standard output; None for no log.
    pub log_format: Option<LogFormat>,
}

/// Real descriptors that all hosts together may keep open for guests' files.
const GUEST_DESCRIPTORS: usize = 12_000;

/// Executes a plan.
///
/// # Errors
/// When the machine cannot run guests, the data directory cannot be written, or the simulator fails. Guests that end in an
/// unexpected state are no error but the summary's verdict.
pub fn run(plan: &Plan, options: &RunOptions, stop: &AtomicBool) -> Result<Summary, RunError> {
    let clock = WallClock::start();
    guest::map_arenas().map_err(|error| RunError::Machine(error.to_string()))?;
    let directory = DataDirectory::create(&plan.data_directory, plan.template_directory.as_deref())?;
    directory.write_processed_config(&plan.processed_config_yaml())?;
    crate::sandbox::enter(&plan.data_directory).map_err(|error| RunError::Machine(error.to_string()))?;

    let log = Log::new(level(plan.general.log_level), log_hosts(plan));
    let mut writer = log_writer(plan, options, &log);
    let mut main_log = log.worker();
    for notice in &plan.notices {
        record!(main_log, Level::Info, None::<SimTime>, None::<HostId>, "{notice}");
    }
    main_log.hand_over();

    let hosts = build_hosts(plan, &directory)?;
    let latencies: Vec<SimDuration> =
        plan.hosts.iter().map(|host| plan.topology.min_incoming_latency(host.id)).collect();
    let workers = worker_count(options, plan.hosts.len());
    let config = engine::Config { workers, policy: options.policy, stop_time: plan.stop_time(), runahead: None };
    let mut simulation =
        engine::Engine::new(config, hosts, &latencies).map_err(|error| RunError::Simulator(error.to_string()))?;

    let failure: Arc<Mutex<Option<String>>> = Arc::default();
    let setup = |_index: usize| SimWorker::new(log.worker(), failure.clone());
    let mut monitor = Monitor::new(plan, options, clock);
    let (hosts, outcome) = simulation.run(stop, setup, |end| {
        monitor.window(end, &mut main_log);
        let _ = writer.advance(end.complete_until);
    });
    monitor.finish();
    main_log.hand_over();
    let outcome = outcome.map_err(|error| RunError::Simulator(error.to_string()))?;
    if let Some(message) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(RunError::Recording(message));
    }
    let summary = summary::conclude(plan, hosts, &outcome, &directory, clock.elapsed())?;
    for text in summary.unexpected() {
        record!(main_log, Level::Error, plan.stop_time(), None::<HostId>, "{text}");
    }
    main_log.hand_over();
    let _ = writer.finish();
    Ok(summary)
}

fn level(level: scenario::LogLevel) -> Level {
    match level {
        scenario::LogLevel::Error => Level::Error,
        scenario::LogLevel::Warning => Level::Warning,
        scenario::LogLevel::Info => Level::Info,
        scenario::LogLevel::Debug => Level::Debug,
        scenario::LogLevel::Trace => Level::Trace,
    }
}

fn log_hosts(plan: &Plan) -> Vec<LogHost> {
    let host = |host: &HostPlan| LogHost {
        name: host.name.clone(),
        ip: IpAddr::V4(host.address),
        level: host.options.log_level.map(level),
    };
    plan.hosts.iter().map(host).collect()
}

fn log_writer(plan: &Plan, options: &RunOptions, log: &Log) -> LogWriter {
    let errors = plan.experimental.report_errors_to_stderr;
    match options.log_format {
        Some(format) => {
            let errors = errors.then(|| Box::new(std::io::stderr()) as Box<dyn std::io::Write + Send>);
            LogWriter::new(log, format, Box::new(std::io::stdout()), errors)
        }
        None => LogWriter::new(log, LogFormat::Simulated, Box::new(std::io::sink()), None),
    }
}

fn worker_count(options: &RunOptions, hosts: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = if options.workers == 0 { cores } else { options.workers };
    wanted.clamp(1, hosts.max(1))
}

fn build_hosts(plan: &Plan, directory: &DataDirectory) -> Result<Vec<SimHost>, RunError> {
    let names: Arc<[HostName]> =
        plan.hosts.iter().map(|host| HostName { name: host.name.clone(), address: host.address }).collect();
    let network = Arc::new(Network {
        topology: plan.topology.clone(),
        host_at: plan.hosts.iter().map(|host| (host.address, host.id)).collect(),
    });
    let seeds = SeedTree::new(plan.general.seed.into());
    let mut pool = OutputPool::new(64);
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    for host in &plan.hosts {
        let folder = directory.create_host(&host.name)?;
        hosts.push(build_host(plan, host, &folder, &names, &network, seeds, &mut pool)?);
    }
    Ok(hosts)
}

fn build_host(
    plan: &Plan,
    host: &HostPlan,
    folder: &HostDirectory,
    names: &Arc<[HostName]>,
    network: &Arc<Network>,
    seeds: SeedTree,
    pool: &mut OutputPool,
) -> Result<SimHost, RunError> {
    let config = HostConfig {
        id: host.id,
        name: host.name.clone(),
        address: host.address,
        data_dir: plan.data_directory.clone(),
        host_dir: folder.path().to_path_buf(),
        hosts: names.clone(),
        seeds,
        real_descriptors: (GUEST_DESCRIPTORS / plan.hosts.len()).max(1),
    };
    let kernel = Kernel::new(config);
    let link = plan.topology.link(host.id);
    let bootstrap_end = plan.topology.bootstrap_end();
    let uplink = Uplink::new(link.up, plan.experimental.interface_qdisc, bootstrap_end);
    let downlink = Downlink::new(link.down, bootstrap_end);
    let links = seeds.stream(&host.name, "links");
    let mut sim = SimHost::new(host.id, host.name.clone(), kernel, network.clone(), uplink, downlink, links);
    if host.options.pcap_enabled {
        let snap = u32::try_from(host.options.pcap_capture_size.0).unwrap_or(u32::MAX);
        sim.capture = Some(Capture::create(folder.capture_file("eth0"), "eth0", snap, pool)?);
        sim.loopback_capture = Some(Capture::create(folder.capture_file("lo"), "lo", snap, pool)?);
    }
    for process in &host.processes {
        sim.add_guest(guest_of(process, folder.path()), process.start_time, process.shutdown_time);
    }
    Ok(sim)
}

fn guest_of(process: &ProcessPlan, working_directory: &Path) -> Guest {
    use std::os::unix::ffi::OsStrExt;
    let environment =
        process.environment.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
    Guest {
        path: process.path.clone(),
        spec: ProcessSpec {
            path: process.executable.as_os_str().as_bytes().to_vec(),
            arguments: process.argv.iter().map(|argument| argument.clone().into_bytes()).collect(),
            environment,
            working_directory: working_directory.as_os_str().as_bytes().to_vec(),
        },
        shutdown_signal: process.shutdown_signal.raw(),
        expected: process.expected_final_state,
        pid: None,
        ended: None,
        started_at: process.start_time,
        failed: None,
    }
}

/// Watches the run from its window ends: progress on the terminal, heartbeats in the log.
struct Monitor {
    clock: WallClock,
    meter: recorder::ProgressMeter,
    terminal: Option<Terminal>,
    heartbeat: Option<SimDuration>,
    next_heartbeat: SimTime,
    drawn_ms: u128,
}

/// How often the progress line is drawn anew.
const REDRAW_MS: u128 = 200;

impl Monitor {
    fn new(plan: &Plan, options: &RunOptions, clock: WallClock) -> Monitor {
        Monitor {
            clock,
            meter: recorder::ProgressMeter::new(plan.stop_time(), plan.hosts.len()),
            terminal: options.progress.then(Terminal::stderr),
            heartbeat: plan.general.heartbeat_interval,
            next_heartbeat: SimTime::ZERO,
            drawn_ms: 0,
        }
    }

    fn window(&mut self, end: &engine::WindowEnd, log: &mut recorder::WorkerLog) {
        let now = end.complete_until;
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
        let Some(terminal) = &mut self.terminal else { return };
        let elapsed = self.clock.elapsed();
        if elapsed.as_millis() < self.drawn_ms + REDRAW_MS {
            return;
        }
        self.drawn_ms = elapsed.as_millis();
        self.meter.update(now, elapsed);
        let line = self.meter.terminal_line(recorder::usage::resident_bytes(), 0, terminal.width());
        terminal.redraw(&line);
    }

    fn finish(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            terminal.clear();
        }
    }
}

/// Whether a guest's state is the expected one.
fn is_expected(expected: FinalState, state: &GuestState) -> bool {
    match (expected, state) {
        (FinalState::Exited(code), GuestState::Exited(status)) => code == *status,
        (FinalState::Signaled(signal), GuestState::Signaled(number)) => signal.raw() == *number,
        (FinalState::Running, GuestState::Running) => true,
        _ => false,
    }
}
