//! A run: from a validated plan to hosts, through the engine, to what is left in the data directory.

mod accounting;
mod cheap_crypto;
mod computing;
mod count;
mod forecast;
mod host;
mod monitor;
mod part;
mod partition;
mod processors;
mod profile;
pub mod provenance;
mod ranks;
mod record;
mod standstill;
mod summary;
mod tap;
mod worker;

pub use self::ranks::{machine, share};
pub use accounting::available_memory;
pub use computing::CpuModel;
pub use partition::Costs;
pub use profile::ProfileKind;
pub use summary::{FinalGuest, GuestState, OptionProblem, RunError, Summary, Verdict};

use self::ranks::{Others, RankPeers};
use ::ranks::Link;
use accounting::{Accounting, LiveProcesses};
use base::wall::WallClock;
use base::{HostId, SeedTree, SimDuration, SimTime};
use forecast::Forecast;
use host::{Guest, InFlight, Network, SimHost};
use interface::{Discipline, Interface, Model};
use monitor::{Monitor, Shown};
use probes::Trace;
use record::Record;
use recorder::log::{Level, LogHost};
use recorder::machine_files::EarlyLook;
use recorder::{
    Capture, DataDirectory, HostDirectory, Log, LogFormat, LogWriter, OutputPool, TrafficBoard, TrafficMeter,
    TrafficRows, WindowBoard, record,
};
use scenario::{FinalState, HostPlan, NetworkModel, Plan, ProcessPlan, QueueDiscipline, UserPlan};
use simkernel::exec::ProcessSpec;
use simkernel::host::{Addresses, NetworkSettings};
use simkernel::host_clock::HostClock;
use simkernel::processors::ProcessorCount;
use simkernel::profiling::ProfiledFiles;
use simkernel::{Credentials, DebugTarget, Folders, HostConfig, HostName, HostNames, Kernel, MachineFiles};
use standstill::Watch;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use worker::SimWorker;

/// Where the log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTarget {
    /// Standard output.
    Stdout,
    /// The file `gnomon.log` of the data directory.
    DataDirectory,
    /// Standard output, in Shadow's form.
    ShadowStdout,
}

/// Whether what the plan says of the record of packets can be done.
///
/// # Errors
/// What cannot, and why.
pub fn check_record(plan: &Plan) -> Result<(), OptionProblem> {
    record::check_identifiers(plan)?;
    record::filter(plan).map(|_| ())
}

/// How progress is shown on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Off,
    /// One line that changes.
    Terminal,
    /// A line now and then.
    Lines,
}

/// How to execute a plan: nothing here changes its result.
#[derive(Debug)]
pub struct RunOptions {
    /// Created, and the only place that can be written from now on.
    pub directory: DataDirectory,
    pub workers: usize,
    pub policy: engine::Policy,
    /// Reckon how long the run would take with more workers; only with one.
    pub forecast: bool,
    pub progress: Progress,
    pub log: LogTarget,
    /// Write each record of the log as it is made, under one lock, in whatever order: to be compared with.
    pub log_at_once: bool,
    /// The command line, for those who read the results.
    pub command: Vec<String>,
    /// Remarks of the preparation, for the log.
    pub notices: Vec<(Level, String)>,
    /// Stop before the first guest of these hosts.
    pub debug_hosts: BTreeSet<HostId>,
    /// How to stop there, and say when that is.
    pub pause: fn(&str),
    /// Leave a report of every guest that crashes.
    pub crash_reports: bool,
    /// Write logs of calls to standard error as they happen, whatever the plan says of them.
    pub strace_live: bool,
    /// Ends the process at once: called when the run has been asked to end and does not.
    pub abandon: fn(),
    /// Show what guests write on standard output and error, too.
    pub show_outputs: bool,
    /// The guest that a debugger is to stop at.
    pub debug: Option<(HostId, DebugTarget)>,
    /// Say where processor time goes, or instructions.
    pub profile: Option<ProfileKind>,
    /// What computing costs, where the plan has it take simulated time by a model.
    pub cpu_model: Option<CpuModel>,
    /// The other processes of the run.
    pub link: Option<Link>,
    /// By what the hosts are divided among them.
    pub rank_costs: Option<Costs>,
    /// Where the hosts note which of the machine's files guests read.
    pub machine_files: MachineFiles,
}

impl RunOptions {
    /// Whether this process writes what there is once for the run.
    fn is_first(&self) -> bool {
        self.link.as_ref().is_none_or(|link| link.place().rank == 0)
    }
}

/// Real descriptors that all hosts together may keep open for guests' files.
const GUEST_DESCRIPTORS: usize = 12_000;

/// Executes a plan.
///
/// # Errors
/// When the machine cannot run guests, the data directory cannot be written, or the simulator fails. Guests that end in an
/// unexpected state are no error but the summary's verdict.
pub fn run(plan: &Plan, options: RunOptions, stop: &AtomicBool) -> Result<Summary, RunError> {
    let (clock, began) = (WallClock::start(), base::wall::unix_time());
    let used_before = guest::thread_time();
    let (told, machine_files) = std::sync::mpsc::channel();
    options.machine_files.tell(told);
    let early = EarlyLook::begin(machine_files, began);
    let mut accounting = Accounting::begin();
    let counts_steps = matches!(options.profile, Some(ProfileKind::Instructions(_)));
    let watch = Watch::start(plan, accounting.workers(), counts_steps, options.abandon);
    if let Some(limit) = plan.experimental.memory_limit {
        guest::limit_memory(limit.bytes());
    }
    guest::map_arenas().map_err(|error| RunError::Machine(error.to_string()))?;
    let directory = &options.directory;
    let is_first = options.is_first();
    if is_first {
        directory.write_processed_config(&plan.processed_config_yaml())?;
        if let Some((name, library)) = cheap_crypto::link(plan) {
            directory.link(name, library)?;
        }
    }

    let log = Log::new(level(plan.general.log_level), log_hosts(plan));
    let mut writer = log_writer(plan, &options, &log)?;
    let mut main_log = log.worker();
    let provenance = provenance::of(plan, &options.command);
    let lines = if is_first { provenance::lines(&provenance) } else { Vec::new() };
    for line in lines {
        record!(main_log, Level::Info, None::<SimTime>, None::<HostId>, "{line}");
    }
    for (level, notice) in options.notices.iter().filter(|(level, _)| is_first || *level <= Level::Warning) {
        record!(main_log, *level, None::<SimTime>, None::<HostId>, "{notice}");
    }
    if let Some(warning) = computing::warning(plan).filter(|_| is_first) {
        record!(main_log, Level::Warning, None::<SimTime>, None::<HostId>, "{warning}");
    }
    for notice in plan.notices.iter().filter(|_| is_first) {
        record!(main_log, Level::Info, None::<SimTime>, None::<HostId>, "{notice}");
    }
    main_log.hand_over();

    let board = traffic_board(plan);
    let live = LiveProcesses::default();
    let ranks = match &options.link {
        Some(link) => self::ranks::open(link, plan, &provenance, options.rank_costs.as_ref())?,
        None => engine::Ranks::alone(plan.hosts.len()),
    };
    let hosts = build_hosts(plan, &options, board.as_ref(), &live, &ranks)?;
    let latencies: Vec<SimDuration> =
        plan.hosts.iter().map(|host| plan.topology.min_incoming_latency(host.id)).collect();
    let config = engine::Config {
        workers: options.workers,
        policy: options.policy,
        stop_time: plan.stop_time(),
        runahead: None,
    };
    let simulation = engine::Engine::with_ranks(config, hosts, &latencies, ranks)
        .map_err(|error| RunError::Simulator(error.to_string()))?;

    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut losses = Losses::default();
    let pins = plan.experimental.use_cpu_pinning;
    let processors = if pins { processors::processors_for(options.workers) } else { Vec::new() };
    let register = accounting.workers().register();
    let tick = computing::tick(plan);
    let forecast = options.forecast.then(|| Arc::new(Mutex::new(Forecast::new(options.policy, plan.hosts.len()))));
    let windows = WindowBoard::new(options.workers);
    let mut record = Record::begin(plan, directory)?;
    let to_record = record.as_ref().map(Record::for_workers);
    let profiler = options.profile.map(|kind| profile::Profiler::begin(directory, kind)).transpose()?;
    let soils = plan.experimental.soil_registers;
    let setup = |index: usize| {
        let processor = processors.get(index).copied();
        let mut worker =
            SimWorker::new(index, log.worker(), windows.clone(), failures.clone(), processor, tick, &register)?;
        worker.guest.set_soiling(soils);
        worker.forecast.clone_from(&forecast);
        worker.record = to_record.as_ref().map(|begin| begin());
        if let Some(profiler) = &profiler {
            worker.profile = profiler.worker(index, &mut worker.guest)?;
        }
        Ok(worker)
    };
    let (rows, others) = (TrafficRows::default(), Others::default());
    let peers =
        |link| RankPeers::new(link, log.clone(), rows.clone(), live.clone(), others.clone(), stop, watch.pulse());
    let peers = options.link.as_ref().map(peers);
    let shown = Shown { board, rows, windows: windows.clone(), live, others, memory: accounting.memory() };
    let mut monitor = Monitor::new(plan, &options, clock, shown)?;
    accounting.start(matches!(options.profile, Some(ProfileKind::Samples { .. })));
    let on_window = |end: &engine::WindowEnd| {
        watch.beat(end.complete_until);
        monitor.window(end, &mut main_log);
        // Other ranks send what is handed over to the first one.
        if is_first {
            losses.note("the log", writer.advance(end.complete_until));
        }
        if let Some(Err(error)) = record.as_mut().map(|record| record.window(end.windows)) {
            losses.note("the record of packets", Err::<(), _>(error));
            stop.store(true, Ordering::Relaxed);
        }
    };
    let as_peers = peers.as_ref().map(|peers| peers as &dyn engine::Peers<InFlight>);
    let (mut hosts, outcome) = simulation.run_with(stop, setup, on_window, as_peers);
    drop(watch);
    let costs = accounting.finish();
    main_log.hand_over();
    let mut outcome = outcome.map_err(|error| RunError::Simulator(error.to_string()))?;
    let simulated = summary::simulated_time(plan, &outcome);
    losses.note("tables", monitor.count_rest(simulated));
    losses.all.extend(failures.lock().unwrap_or_else(PoisonError::into_inner).drain(..));
    let mut none_chosen_of = None;
    if let Some(record) = record.take() {
        let finished = record.finish(&mut hosts, simulated);
        none_chosen_of = finished.as_ref().ok().and_then(record::none_chosen_of);
        for error in finished.iter().flat_map(|summary| &summary.unmerged) {
            let text =
                format!("the record of packets is whole, but slower to ask, since its segments stay apart: {error}");
            record!(main_log, Level::Warning, simulated, None::<HostId>, "{text}");
        }
        losses.note("the record of packets", finished.map(drop));
    }
    let taken = profiler.as_ref().map(|_| profile::Taken::from_hosts(&mut hosts)).unwrap_or_default();
    let process_ns = (costs.0.total_s * 1e9) as u64;
    let mut part = part::gather(plan, hosts, &outcome, costs, &mut losses, simulated);
    let mut parts = Vec::new();
    if let Some(peers) = peers.filter(|_| outcome.lost.is_none()) {
        part.losses = std::mem::take(&mut losses.all);
        match peers.close(&mut part, options.workers) {
            Ok(all) => parts = all,
            // Recordings are complete, but for what the others would have added.
            Err(error) => (outcome.lost, outcome.ending) = (Some(error.to_string()), engine::Ending::Interrupted),
        }
    }
    if parts.is_empty() {
        parts.push(part);
    }
    losses.note("tables", monitor.finish(simulated));
    if options.link.is_some() && is_first {
        let costs = Costs::of(plan, &parts).to_json();
        losses.note(partition::FILE, directory.write(partition::FILE, costs.as_bytes()));
    }
    let profiled = profiler.map(|profiler| profiler.warn(plan, &mut main_log));
    let mut summary = summary::conclude(plan, parts, &outcome, &mut losses, clock.elapsed());
    if !is_first {
        // The first rank tells everything, if it is there.
        losses.note("the log", writer.finish());
        end(options.link, &outcome);
        return Ok(summary);
    }
    summary.stats.gnomon.provenance = provenance;
    summary.none_chosen_of = none_chosen_of;
    if let Some(warning) = summary.none_chosen() {
        record!(main_log, Level::Warning, summary.simulated, None::<HostId>, "{warning}");
    }
    if let Some(forecast) = forecast {
        summary.add_forecast(&worker::lock(&forecast), guest::thread_time() - used_before);
        for estimate in &summary.stats.gnomon.forecast {
            let (workers, wall) = (estimate.workers, estimate.wall_ns as f64 / 1e9);
            record!(
                main_log,
                Level::Info,
                summary.simulated,
                None::<HostId>,
                "forecast: {wall:.2} s with {workers} workers"
            );
        }
    }
    if let Some(profiler) = profiled {
        let path = directory.path();
        summary.profile = Some(path.join(::profile::FOLDER));
        losses.note("the profile", profiler.finish(plan, path, process_ns, &taken, &summary.digest));
    }
    let paths: Vec<Vec<u8>> = summary.machine_files.iter().cloned().collect();
    options.machine_files.tell_nobody();
    let files = recorder::machine_files::describe(&paths, began, early);
    losses.note(recorder::machine_files::FILE, directory.write_machine_files(&files.text));
    summary.note_machine_files(files);
    log_unexpected(&summary, options.log, &mut main_log);
    for (cause, seen) in summary.interferences.iter() {
        let sentence = cause.sentence(seen);
        record!(main_log, Level::Warning, summary.simulated, None::<HostId>, "not reproducible to the bit: {sentence}");
    }
    main_log.hand_over();
    losses.note("the log", writer.finish());
    summary.lose(&losses);
    losses.note("sim-stats.json", directory.write_sim_stats(&summary.stats));
    summary.lose(&losses);
    end(options.link, &outcome);
    Ok(summary)
}

/// Takes leave of the other ranks, unless they are lost.
fn end(link: Option<Link>, outcome: &engine::Outcome) {
    if let Some(link) = link.filter(|_| outcome.lost.is_none()) {
        link.end();
    }
}

/// A file that is made when something is written to it.
struct Lazy {
    path: PathBuf,
    file: Option<File>,
}

impl Lazy {
    fn new(path: PathBuf) -> Lazy {
        Lazy { path, file: None }
    }
}

impl Write for Lazy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::create(&self.path)?);
        }
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

/// What could not be recorded, each with its file and the reason.
#[derive(Debug, Default)]
struct Losses {
    all: Vec<String>,
}

impl Losses {
    /// Keeps an error of writing `what`. A reader of standard output that has gone is none.
    fn note<E: std::error::Error + 'static>(&mut self, what: &str, result: Result<(), E>) {
        let Err(error) = result else { return };
        let io: Option<&std::io::Error> = (&error as &dyn std::error::Error).downcast_ref();
        if io.is_none_or(|io| io.kind() != std::io::ErrorKind::BrokenPipe) {
            self.all.push(format!("{what}: {error}"));
        }
    }
}

/// In Shadow's log unexpected final states are errors; elsewhere the command line tells them on standard error. No
/// state is final where the run was interrupted.
fn log_unexpected(summary: &Summary, target: LogTarget, log: &mut recorder::WorkerLog) {
    if summary.verdict == Verdict::Interrupted {
        return;
    }
    let level = if target == LogTarget::ShadowStdout { Level::Error } else { Level::Warning };
    let unexpected = summary.unexpected();
    for text in &unexpected {
        record!(log, level, summary.simulated, None::<HostId>, "{text}");
    }
    if !unexpected.is_empty() {
        let count = unexpected.len();
        record!(log, level, summary.simulated, None::<HostId>, "{count} managed processes in unexpected final state");
    }
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

fn log_writer(plan: &Plan, options: &RunOptions, log: &Log) -> Result<LogWriter, RunError> {
    let (format, out): (_, Box<dyn Write + Send>) = match options.log {
        // The first rank writes what this one hands over; but the last of it, should the two be parted.
        _ if !options.is_first() => {
            let rank = options.link.as_ref().map_or(0, |link| link.place().rank);
            (LogFormat::Plain, Box::new(Lazy::new(options.directory.path().join(format!("gnomon.log.rank-{rank}")))))
        }
        LogTarget::Stdout => (LogFormat::Plain, Box::new(std::io::stdout())),
        LogTarget::ShadowStdout => (LogFormat::Shadow, Box::new(std::io::stdout())),
        LogTarget::DataDirectory => {
            let path = options.directory.path().join("gnomon.log");
            let file = File::create(&path)
                .map_err(|error| RunError::Recording(format!("cannot create {}: {error}", path.display())))?;
            (LogFormat::Plain, Box::new(std::io::BufWriter::new(file)))
        }
    };
    let errors = plan.experimental.report_errors_to_stderr && options.is_first();
    let errors = errors.then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>);
    let mut writer = LogWriter::new(log, format, out, errors);
    if options.log_at_once {
        writer.write_at_once();
    }
    Ok(writer)
}

/// Where hosts show their traffic, by heartbeat interval; none without one. Windows may be as long as the shortest interval, no longer.
fn traffic_board(plan: &Plan) -> Option<TrafficBoard> {
    const SHORTEST: SimDuration = SimDuration::from_millis(100);
    let interval = plan.general.heartbeat_interval?;
    Some(TrafficBoard::new(plan.hosts.len(), interval.max(SHORTEST)))
}

fn build_hosts(
    plan: &Plan,
    options: &RunOptions,
    board: Option<&TrafficBoard>,
    live: &LiveProcesses,
    ranks: &engine::Ranks,
) -> Result<Vec<SimHost>, RunError> {
    let names: HostNames =
        plan.hosts.iter().map(|host| HostName { name: host.name.clone(), addresses: addresses_of(host) }).collect();
    let network =
        Arc::new(Network { topology: plan.topology.clone(), host_at: plan.hosts.iter().flat_map(places_of).collect() });
    let settings = network_settings(plan, &names);
    let seeds = SeedTree::new(plan.general.seed.into());
    let mut pool = OutputPool::new(64);
    let mut hosts = Vec::with_capacity(plan.hosts.len());
    let wishes: Vec<_> = plan.hosts.iter().map(|host| host.options.address_space.map(|size| size.bytes())).collect();
    let regions = guest::HostRegion::cut(&wishes).ok_or_else(|| {
        let text = "hosts ask for more addresses (address_space) than the 64 TiB that there are for all of them";
        RunError::Machine(text.to_owned())
    })?;
    let profiled = options.profile.map(|_| ProfiledFiles::default());
    let folders = Arc::new(Folders::new(&names, |host| ranks.of_host[host.index()] as usize == ranks.own));
    folders.hide_records(options.directory.path());
    let own = |host: &HostPlan| ranks.of_host[host.id.index()] as usize == ranks.own;
    for (host, region) in plan.hosts.iter().zip(regions).filter(|(host, _)| own(host)) {
        let folder = options.directory.create_host(&host.name)?;
        let mut built =
            build_host(plan, host, &folder, &names, &folders, &settings, &network, seeds, &mut pool, options)?;
        built.traffic = board.map(|board| TrafficMeter::new(board.clone(), host.id));
        built.live = live.clone();
        built.records_windows = ranks.count > 1;
        built.sent_to = (ranks.count > 1).then(BTreeMap::new);
        built.kernel.region = region;
        built.pause_before_start = options.debug_hosts.contains(&host.id).then_some(options.pause);
        if let Some(files) = &profiled {
            built.kernel.profile(files.clone());
            if let Some(ProfileKind::Instructions(rules)) = options.profile {
                built.kernel.count_instructions(rules);
            }
        }
        if let Some(ProfileKind::Samples { costs: Some(span), .. }) = options.profile {
            built.kernel.measure_intervals(span);
        }
        if let Some(model) = &options.cpu_model {
            built.kernel.model_processor(model.of_host(&host.name));
        }
        hosts.push(built);
    }
    Ok(hosts)
}

fn addresses_of(host: &HostPlan) -> Addresses {
    Addresses { v4: host.address, v6: host.address6 }
}

/// Where packets to this host go.
fn places_of(host: &HostPlan) -> impl Iterator<Item = (IpAddr, HostId)> {
    let all = [Some(IpAddr::V4(host.address)), host.address6.map(IpAddr::V6)];
    let id = host.id;
    all.into_iter().flatten().map(move |address| (address, id))
}

fn network_settings(plan: &Plan, names: &[HostName]) -> NetworkSettings {
    let bytes = |size: scenario::SocketBuffer| u32::try_from(size.bytes()).unwrap_or(u32::MAX);
    let options = &plan.experimental;
    let mut settings = NetworkSettings::new(names);
    settings.stack.recv_buffer = bytes(options.socket_recv_buffer);
    settings.stack.send_buffer = bytes(options.socket_send_buffer);
    settings.stack.recv_autotune = options.socket_recv_autotune;
    settings.stack.send_autotune = options.socket_send_autotune;
    settings.stack.nagle = options.tcp_nagle;
    settings
}

fn strace_mode(mode: scenario::StraceMode) -> Option<linux_abi::strace::Mode> {
    match mode {
        scenario::StraceMode::Off => None,
        scenario::StraceMode::Standard => Some(linux_abi::strace::Mode::Standard),
        scenario::StraceMode::Deterministic => Some(linux_abi::strace::Mode::Deterministic),
    }
}

fn build_host(
    plan: &Plan,
    host: &HostPlan,
    folder: &HostDirectory,
    names: &HostNames,
    folders: &Arc<Folders>,
    settings: &NetworkSettings,
    network: &Arc<Network>,
    seeds: SeedTree,
    pool: &mut OutputPool,
    options: &RunOptions,
) -> Result<SimHost, RunError> {
    let mut network_settings = settings.clone();
    if let Some(sysctls) = &host.options.sysctl {
        sysctls.apply(&mut network_settings.stack);
    }
    let offset = host.options.clock_offset.map(|offset| offset.0);
    network_settings.stack.departures_wait = discipline(plan, host) == Discipline::Fq;
    let config = HostConfig {
        id: host.id,
        name: host.name.clone(),
        addresses: addresses_of(host),
        data_dir: options.directory.path().to_path_buf(),
        host_dir: folder.path().to_path_buf(),
        hosts: names.clone(),
        folders: Arc::clone(folders),
        machine_files: options.machine_files.clone(),
        network: network_settings,
        call_cost: computing::call_cost(plan, host),
        crash_reports: options.crash_reports,
        computing: computing::rules(plan, host),
        processors: ProcessorCount::new(host.options.cpus.0).expect("as many as the option allows"),
        debug: options.debug.as_ref().filter(|(id, _)| *id == host.id).map(|(_, target)| target.clone()),
        strace_live: options.strace_live,
        show_outputs: options.show_outputs,
        output_limit: plan.experimental.output_limit.map(|limit| limit.0),
        strace: strace_mode(plan.experimental.strace_logging_mode)
            .or(options.strace_live.then_some(linux_abi::strace::Mode::Standard)),
        seeds,
        clock: HostClock::drawn(plan.general.start_date, offset, &seeds, &host.name),
        first_id: simkernel::ids::first_id(&seeds, &host.name),
        real_descriptors: (GUEST_DESCRIPTORS / plan.hosts.len()).max(1),
        open_files: host.options.open_files.0.into(),
        queue_discipline: name_of(discipline(plan, host)),
    };
    let working_directory = config.shown(folder.path());
    let run = config.shown(options.directory.path());
    let mut kernel = Kernel::new(config);
    kernel.net.stack.watch_loopback();
    kernel.net.stack.set_host(host.id);
    let link = plan.topology.link(host.id);
    let interface = Interface::new(interface::Config {
        up: link.up,
        down: link.down,
        model: match plan.topology.model() {
            NetworkModel::Gnomon => Model::Gnomon,
            NetworkModel::Shadow => Model::Shadow,
        },
        discipline: discipline(plan, host),
        bootstrap_end: plan.topology.bootstrap_end(),
        coalescing: plan.experimental.coalescing,
        perturbation: seeds.stream(&host.name, "interface").next_u64(),
    });
    let links = seeds.stream(&host.name, "links");
    let mut sim = SimHost::new(host.id, host.name.clone(), kernel, network.clone(), interface, links);
    if let Some(level) = record::level(plan) {
        let mut trace = Trace::new(host.id, level);
        trace.identify_by(plan.experimental.packet_identifiers);
        if level >= probes::Level::Packets {
            trace.measure(record::clock());
        }
        sim.kernel.net.stack.record(trace);
        sim.interface.watch_drops();
        if level == probes::Level::All {
            sim.kernel.record_calls();
        }
    }
    if host.options.pcap_enabled {
        let snap = u32::try_from(host.options.pcap_capture_size.0).unwrap_or(u32::MAX);
        let mut create = |name| {
            folders.hide(&folder.capture_file(name));
            Capture::create(folder.capture_file(name), name, snap, plan.general.start_date, pool)
        };
        sim.tap.capture(create("eth0")?, create("lo")?);
    }
    for process in &host.processes {
        sim.add_guest(guest_of(process, &working_directory, plan, &run), process.start_time, process.shutdown_time);
    }
    Ok(sim)
}

fn discipline(plan: &Plan, host: &HostPlan) -> Discipline {
    match host.options.qdisc.unwrap_or(plan.experimental.interface_qdisc) {
        QueueDiscipline::Fifo => Discipline::Fifo,
        QueueDiscipline::RoundRobin => Discipline::RoundRobin,
        QueueDiscipline::PfifoFast => Discipline::PfifoFast,
        QueueDiscipline::FqCodel => Discipline::FqCodel,
        QueueDiscipline::Fq => Discipline::Fq,
    }
}

/// What tc(8) calls a queue discipline; of Shadow's own the one that comes closest.
fn name_of(discipline: Discipline) -> &'static str {
    match discipline {
        Discipline::Fifo => "pfifo",
        Discipline::RoundRobin => "sfq",
        Discipline::PfifoFast => "pfifo_fast",
        Discipline::FqCodel => "fq_codel",
        Discipline::Fq => "fq",
    }
}

fn guest_of(process: &ProcessPlan, working_directory: &Path, plan: &Plan, run: &Path) -> Guest {
    use std::os::unix::ffi::OsStrExt;
    let mut environment: Vec<Vec<u8>> =
        process.environment.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
    environment.extend(login_variables(process));
    cheap_crypto::prepare(&mut environment, plan, run);
    let credentials = process
        .user
        .as_ref()
        .map_or_else(Credentials::default, |user| Credentials::of_user(user.uid, user.gid, &user.groups));
    Guest {
        path: process.path.clone(),
        spec: ProcessSpec {
            path: process.executable.as_os_str().as_bytes().to_vec(),
            name: process.name.clone(),
            arguments: process.argv.iter().map(|argument| argument.clone().into_bytes()).collect(),
            environment,
            working_directory: working_directory.as_os_str().as_bytes().to_vec(),
            kill_at_call: process.kill_at_call,
            credentials,
        },
        shutdown_signal: process.shutdown_signal.number(),
        expected: process.expected_final_state,
        pid: None,
        ended: None,
        started_at: process.start_time,
        failed: None,
    }
}

/// What a login tells a user's programs, unless the experiment says otherwise, environ(7).
fn login_variables(process: &ProcessPlan) -> impl Iterator<Item = Vec<u8>> {
    let of = |user: &UserPlan| {
        let name = || user.name.clone();
        [("HOME", user.home.clone()), ("LOGNAME", name()), ("SHELL", user.shell.clone()), ("USER", name())]
    };
    let all: Vec<(&str, String)> = process.user.as_ref().map(of).into_iter().flatten().collect();
    let given = |wanted: &str| process.environment.iter().any(|(name, _)| name == wanted);
    let added: Vec<Vec<u8>> =
        all.into_iter().filter(|(name, _)| !given(name)).map(|(n, v)| format!("{n}={v}").into_bytes()).collect();
    added.into_iter()
}

/// Whether a guest's state is the expected one.
fn is_expected(expected: FinalState, state: &GuestState) -> bool {
    match (expected, state) {
        (FinalState::Exited(code), GuestState::Exited(status)) => code == *status,
        (FinalState::Signaled(signal), GuestState::Signaled(number)) => signal.number() == *number,
        (FinalState::Running, GuestState::Running) => true,
        _ => false,
    }
}
