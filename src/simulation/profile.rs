//! The profile of a run (`profile/` in the data directory): from workers' samples to what `gnomon profile` reads.

use super::accounting::Doing;
use super::host::SimHost;
use super::summary::RunError;
use ::profile::costs::MeasuredCost;
use ::profile::{About, Collector, Frame, Name, Namer, OutputMark, Place, Recorder, Sample, Stack, Steps, Times, Unit};
use base::{HostId, SimTime};
use guest::{OwnStack, Sampling};
use recorder::log::Level;
use recorder::{WorkerLog, record};
use scenario::Plan;
use simkernel::Kernel;
use simkernel::counting::{Counted, CountingRules};
use simkernel::intervals::{self, MeasuredIntervals};
use simkernel::profiling::{Doing as Done, Span, StackFrame, ThreadSample};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use symbols::{PlacedFile, Program, Registers, Tables, WalkCache, Walker};

/// Functions of the simulator's own on one stack.
const OWN_FRAMES: usize = 64;
/// What the simulated kernel does for a program beside calls.
const FAULT: &str = "page fault";
const EMULATION: &str = "emulated instruction";
const SWITCH: &str = "switch";

/// What a profile is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ProfileKind {
    /// So many samples for each second of processor time; `costs`: when it is measured, too, what computing takes between calls.
    Samples { rate: f64, costs: Option<Span> },
    /// Instructions, counted one by one.
    Instructions(CountingRules),
}

impl ProfileKind {
    /// The simulated time that it is about, where that is not all.
    pub fn span(&self) -> Option<Span> {
        match self {
            ProfileKind::Samples { costs, .. } => *costs,
            ProfileKind::Instructions(rules) => Some(rules.span),
        }
    }
}

/// Takes the profile of one run.
pub struct Profiler {
    recorder: Recorder,
    kind: ProfileKind,
    /// The simulator's own files, where they lie.
    own: Arc<Vec<PlacedFile>>,
    tables: Tables,
    means: Arc<Mutex<Option<Sampling>>>,
}

impl Profiler {
    pub fn begin(directory: &recorder::DataDirectory, kind: ProfileKind) -> Result<Profiler, RunError> {
        let failed = |error: ::profile::Error| RunError::Recording(error.to_string());
        let recorder = Recorder::create(directory.path()).map_err(failed)?;
        let own = Arc::new(own_files());
        Ok(Profiler { recorder, kind, own, tables: Tables::default(), means: Arc::default() })
    }

    /// From now on the calling thread, which is worker `number`, is looked at, where samples are taken.
    ///
    /// # Errors
    /// When the machine has no means for it.
    pub fn worker(&self, number: usize, guest: &mut guest::Worker) -> Result<Option<WorkerProfile>, String> {
        let ProfileKind::Samples { rate, .. } = self.kind else { return Ok(None) };
        let began = guest::thread_time();
        let means = guest.start_sampling(Duration::from_secs_f64(1.0 / rate)).map_err(|error| {
            format!("--profile: this machine lets nobody take samples (perf_event_open, timer_create): {error}; run without it")
        })?;
        *self.means.lock().unwrap_or_else(PoisonError::into_inner) = Some(means);
        Ok(Some(WorkerProfile {
            collector: Some(self.recorder.collector(number)),
            walker: Walker::new(self.own.to_vec(), &self.tables),
            cache: WalkCache::default(),
            began,
        }))
    }

    /// Takes what was counted of a host.
    fn add_counted(&self, collector: &mut Collector, host: HostId, counted: &Counted) {
        // A stack's caller comes before it.
        let mut stacks = vec![Stack::default()];
        for (caller, frame) in &counted.stacks {
            let (frame, pid) = &counted.frames[*frame as usize];
            stacks.push(collector.under(stacks[*caller as usize], described(frame, host, pid.0)));
        }
        for interval in &counted.intervals {
            let sample = |count: u64| Sample {
                host: Some(host.0),
                process: Some((interval.pid.0, interval.tid.0, &interval.program)),
                time_ns: interval.at.as_nanos(),
                weight_ns: count * interval.weight,
                place: Place::Program,
                is_whole: interval.is_whole,
            };
            for (stack, count) in &counted.rows[interval.rows.clone()] {
                collector.add_at(&sample(*count), stacks[*stack as usize]);
            }
        }
    }

    /// Says so where samples, or what computing costs, are not as good as they could be.
    pub fn warn(self, plan: &Plan, log: &mut WorkerLog) -> Profiler {
        let costs = matches!(self.kind, ProfileKind::Samples { costs: Some(_), .. });
        if costs && plan.hosts.iter().all(|host| host.options.cpu_speed.is_none()) {
            record!(
                log,
                Level::Info,
                None::<SimTime>,
                None::<HostId>,
                "--profile=costs: computing takes no simulated time in this run, so what it does may come in another order than with a \
                 cpu_model; with 'host_option_defaults: {{ cpu_speed: 1.0 }}' it comes in the same"
            );
        }
        let (text, weak) = self.means();
        if weak {
            record!(log, Level::Warning, None::<SimTime>, None::<HostId>, "--profile: {text}");
        }
        self
    }

    /// What takes samples, in words, and whether something better is known.
    fn means(&self) -> (&'static str, bool) {
        match *self.means.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Sampling::PerfEvent { kernel: true }) | None => ("perf events of the task clock", false),
            Some(Sampling::PerfEvent { kernel: false }) => (
                "perf events of the task clock, while programs and the simulator run: what the machine's kernel does for them counts for what \
                 they do next (kernel.perf_event_paranoid allows no more)",
                true,
            ),
            Some(Sampling::Timer) => (
                "timers of processor time, since the machine refuses perf events (perf_event_open): some 250 samples a second, whatever was \
                 asked for",
                true,
            ),
        }
    }

    /// Writes what is left; `process_ns` is the processor time of the whole process.
    pub fn finish(
        self,
        plan: &Plan,
        directory: &Path,
        process_ns: u64,
        taken: &Taken,
        digest: &str,
    ) -> Result<(), ::profile::Error> {
        let mut about = About {
            seed: plan.general.seed.into(),
            digest: digest.to_owned(),
            hosts: plan.hosts.iter().map(|host| host.name.clone()).collect(),
            ..About::default()
        };
        match self.kind {
            ProfileKind::Samples { rate, costs } => {
                if costs.is_some() {
                    ::profile::costs::record(directory, &taken.costs())?;
                }
                (about.rate, about.means) = (rate, self.means().0.to_owned());
                about.times = Times { process_ns, ..Times::default() };
            }
            // Nothing of the machine's time is in it, so that it is the same in every run.
            ProfileKind::Instructions(rules) => {
                (about.unit, about.means) = (Unit::Instructions, "single steps".to_owned());
                about.steps = Some(taken.steps(plan, &rules));
                let mut collector = self.recorder.collector(0);
                taken.counted.iter().for_each(|(host, counted)| self.add_counted(&mut collector, *host, counted));
                collector.end(0);
            }
        }
        let written = &taken.written;
        let hosts = plan.hosts.iter().map(|host| directory.join("hosts").join(&host.name)).collect();
        self.recorder.finish(about, written, &mut Names { files: BTreeMap::new(), maps: BTreeMap::new(), hosts })
    }
}

/// What hosts have for a profile at the end.
#[derive(Default)]
pub struct Taken {
    written: Vec<OutputMark>,
    counted: Vec<(HostId, Counted)>,
    measured: Vec<(String, MeasuredIntervals)>,
}

impl Taken {
    pub fn from_hosts(hosts: &mut [SimHost]) -> Taken {
        let mut taken = Taken::default();
        for host in hosts {
            taken.written.extend(written(host));
            taken.counted.push((host.id, host.kernel.take_counted()));
            taken.measured.push((host.kernel.config.name.clone(), host.kernel.take_measured()));
        }
        taken
    }

    /// What computing costs, by host and program.
    fn costs(&self) -> Vec<MeasuredCost> {
        let mut sums = BTreeMap::new();
        for (host, measured) in &self.measured {
            for (kind, times) in &measured.kinds {
                let program = &measured.programs[kind.program as usize];
                for (class, (count, time)) in &times.classes {
                    let sum: &mut (u64, u64) =
                        sums.entry((host, program, kind.from, kind.to, kind.size, *class)).or_default();
                    *sum = (sum.0 + count, sum.1 + time);
                }
            }
        }
        type Kind<'a> = (&'a String, &'a Arc<str>, u16, u16, u8, u16);
        let cost = |((host, program, from, to, size, _), (count, time_ns)): (Kind<'_>, _)| MeasuredCost {
            host: host.clone(),
            program: program.to_string(),
            from: call_name(from),
            to: call_name(to),
            bytes: intervals::least_of_class(size),
            count,
            time_ns,
        };
        // Numbers without a name are no calls: no program depends on what they take.
        sums.into_iter().map(cost).filter(|cost| !cost.from.is_empty() && !cost.to.is_empty()).collect()
    }

    fn steps(&self, plan: &Plan, rules: &CountingRules) -> Steps {
        let mut steps = Steps { budget: rules.budget, from_ns: rules.span.from.as_nanos(), ..Steps::default() };
        steps.until_ns = (rules.span.until != SimTime::MAX).then(|| rules.span.until.as_nanos());
        for (host, counted) in &self.counted {
            let totals = &counted.totals;
            steps.intervals += totals.intervals;
            steps.counted += totals.counted;
            steps.cut += totals.cut;
            steps.instructions += totals.instructions;
            steps.steps += totals.steps;
            let name = || plan.hosts[host.index()].name.clone();
            steps.used_up.extend(totals.used_up.map(|at| (name(), at.as_nanos())));
        }
        steps
    }
}

/// A call's name, or what stands for it where a thread begins; empty for a number without a call.
fn call_name(number: u16) -> String {
    match number {
        intervals::START => ::profile::costs::START.to_owned(),
        _ => linux_abi::nr::name(number.into()).unwrap_or_default().to_owned(),
    }
}

/// When a host's guests wrote to standard output and error.
fn written(host: &SimHost) -> Vec<OutputMark> {
    let outputs = host.kernel.outputs();
    let mark = |mark: &simkernel::profiling::OutputMark| {
        let path = outputs.get(mark.output as usize)?.path.file_name()?.to_string_lossy().into_owned();
        Some(OutputMark { host: host.id.0, file: path, end: mark.end, time_ns: mark.at.as_nanos() })
    };
    host.kernel.output_marks().iter().filter_map(mark).collect()
}

/// A guest's function as profiles keep it.
fn described(frame: &StackFrame, host: HostId, process: u32) -> Frame<'_> {
    match frame {
        StackFrame::Code { file, address } => {
            Frame::Code { path: file.path.to_str().unwrap_or(&file.name), address: *address }
        }
        StackFrame::Made { address } => Frame::Made { host: host.0, process, address: *address },
        StackFrame::Python(code) => Frame::Python { name: &code.name, file: &code.file, line: code.line },
    }
}

/// What a worker makes of samples.
pub struct WorkerProfile {
    /// None once it has ended.
    collector: Option<Collector>,
    walker: Walker,
    cache: WalkCache,
    /// The thread's processor time before the first sample.
    began: Duration,
}

impl WorkerProfile {
    /// Takes what a host's kernel has of samples.
    #[inline]
    pub fn take_threads(&mut self, host: HostId, kernel: &mut Kernel) {
        let samples = kernel.take_profile();
        if !samples.is_empty() {
            samples.iter().for_each(|sample| self.add_thread(host, sample));
        }
    }

    #[cold]
    fn add_thread(&mut self, host: HostId, sample: &ThreadSample) {
        let (place, call) = match sample.doing {
            Done::Program => (Place::Program, None),
            Done::Call(number) => (Place::Kernel, Some(linux_abi::nr::name(number).unwrap_or("unknown call"))),
            Done::Fault => (Place::Kernel, Some(FAULT)),
            Done::Emulation => (Place::Kernel, Some(EMULATION)),
            Done::Switch => (Place::Kernel, Some(SWITCH)),
        };
        let own = sample.own.as_ref().map_or_else(Vec::new, |own| self.own_stack(own));
        let process = sample.pid.0;
        let guest = sample.stack.iter().rev().map(|frame| described(frame, host, process));
        let stack = guest.chain(call.map(Frame::Call)).chain(own.iter().filter_map(|(file, address)| {
            let path = self.walker.files()[*file].path.to_str()?;
            Some(Frame::Own { path, address: *address })
        }));
        let described = Sample {
            host: Some(host.0),
            process: Some((process, sample.tid.0, &sample.program)),
            time_ns: sample.at.as_nanos(),
            weight_ns: sample.weight.as_nanos() as u64,
            place,
            is_whole: sample.is_whole,
        };
        if let Some(collector) = &mut self.collector {
            collector.add(&described, stack);
        }
    }

    /// Takes samples of what the worker did itself, of a host at a moment, if it was in a host's service.
    pub fn take_own(&mut self, worker: &mut guest::Worker, doing: Doing, host: HostId, now: SimTime) {
        for sample in worker.take_samples() {
            let own = match &sample.at {
                guest::SampledAt::Simulator(own) => self.own_stack(own),
                _ => Vec::new(),
            };
            let place = match doing {
                Doing::Engine => Place::Engine,
                Doing::Kernel => Place::Kernel,
                Doing::Stack => Place::Stack,
            };
            let described = Sample {
                host: (place != Place::Engine).then_some(host.0),
                process: None,
                time_ns: now.as_nanos(),
                weight_ns: sample.weight.as_nanos() as u64,
                place,
                is_whole: true,
            };
            let stack = own.iter().filter_map(|(file, address)| {
                let path = self.walker.files()[*file].path.to_str()?;
                Some(Frame::Own { path, address: *address })
            });
            if let Some(collector) = &mut self.collector {
                collector.add(&described, stack);
            }
        }
    }

    /// The simulator's own functions, the outermost first: the file's number, and the address in it.
    fn own_stack(&mut self, own: &OwnStack) -> Vec<(usize, u64)> {
        let start = Registers { rip: own.rip, rsp: own.rsp, rbp: own.rbp, general: None };
        let mut frames = Vec::new();
        self.walker.walk(&mut self.cache, start, OWN_FRAMES, &|address| own.word(address), &mut frames);
        let place = |frame: &symbols::Frame| {
            let address = frame.address.wrapping_sub(frame.is_return.into());
            let index = self.walker.index_at(address)?;
            Some((index, address.wrapping_sub(self.walker.files()[index].bias)))
        };
        frames.iter().rev().filter_map(place).collect()
    }

    /// The worker ends.
    pub fn end(mut self, worker: &mut guest::Worker) {
        self.take_own(worker, Doing::Engine, HostId(0), SimTime::ZERO);
        let rest = worker.end_sampling();
        let Some(mut collector) = self.collector.take() else { return };
        let engine = Sample {
            host: None,
            process: None,
            time_ns: 0,
            weight_ns: rest.as_nanos() as u64,
            place: Place::Engine,
            is_whole: true,
        };
        collector.add(&engine, std::iter::empty());
        collector.end((guest::thread_time() - self.began).as_nanos() as u64);
    }
}

/// The simulator's program and libraries, by its memory map.
fn own_files() -> Vec<PlacedFile> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<PlacedFile> = Vec::new();
    for line in maps.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let &[range, _, offset, _, _, path] = words.as_slice() else { continue };
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let Some((start, end)) = range.split_once('-').and_then(|(start, end)| Some((hex(start)?, hex(end)?))) else {
            continue;
        };
        match files.iter_mut().find(|file| file.path.as_os_str() == path) {
            Some(file) => file.range.end = end,
            None if path.starts_with('/') && hex(offset) == Some(0) => {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                files.push(PlacedFile { path: path.into(), name, range: start..end, bias: start });
            }
            None => {}
        }
    }
    files
}

/// Names of addresses: by files' symbols and debug information, by what processes have written of their own code.
struct Names {
    files: BTreeMap<PathBuf, Program>,
    /// By host and process.
    maps: BTreeMap<(u32, u32), PerfMap>,
    /// The hosts' folders.
    hosts: Vec<PathBuf>,
}

impl Namer for Names {
    fn code(&mut self, path: &Path, address: u64) -> Vec<Name> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let module = || name.clone();
        let program = self.files.entry(path.to_path_buf()).or_insert_with(|| {
            let range = 0..u64::MAX;
            Program::new(vec![PlacedFile { path: path.to_path_buf(), name: module(), range, bias: 0 }])
        });
        let place = program.place(&symbols::Frame { address, is_return: false });
        let symbol = place.function.map(|function| function.name);
        let mut names: Vec<Name> = Vec::new();
        let outermost = place.lines.len().saturating_sub(1);
        for (index, line) in place.lines.into_iter().enumerate() {
            // The symbol table has the functions that are not inlined, with all that a compiler has made of their names.
            let function = if index == outermost { symbol.clone().or(line.function) } else { line.function };
            let function = plain(&function.unwrap_or_else(|| "??".to_owned()));
            names.push(Name {
                function,
                module: module(),
                file: line.file.unwrap_or_default(),
                line: line.line.unwrap_or(0),
            });
        }
        if names.is_empty() {
            let function = match (symbol, place.range) {
                (Some(symbol), _) => plain(&symbol),
                (None, Some(start)) => format!("{name}+{start:#x}"),
                // Of code that nothing is known of, the page tells enough.
                (None, None) => format!("{name}+{:#x}", address & !0xfff),
            };
            names.push(Name { function, module: module(), ..Name::default() });
        }
        names
    }

    fn made(&mut self, host: u32, process: u32, address: u64) -> Option<String> {
        let folder = self.hosts.get(host as usize)?;
        let map = self.maps.entry((host, process)).or_insert_with(|| PerfMap::read(folder, process));
        map.name(address).map(str::to_owned)
    }
}

/// A name without the hash at its end by which Rust tells crates apart.
fn plain(name: &str) -> String {
    let is_hash =
        |end: &str| end.len() == 17 && end.starts_with('h') && end[1..].bytes().all(|b| b.is_ascii_hexdigit());
    match name.rsplit_once("::") {
        Some((start, end)) if is_hash(end) => start.to_owned(),
        _ => name.to_owned(),
    }
}

/// What a process has written about code that it made, for perf: start, length and name in each line.
#[derive(Debug, Default)]
struct PerfMap(BTreeMap<u64, (u64, String)>);

impl PerfMap {
    fn read(host: &Path, process: u32) -> PerfMap {
        let path = host.join("fs/tmp").join(format!("perf-{process}.map"));
        // Names are whatever programs write: not always UTF-8.
        let bytes = std::fs::read(path).unwrap_or_default();
        PerfMap::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> PerfMap {
        let entry = |line: &str| {
            let (start, rest) = line.split_once(' ')?;
            let (bytes, name) = rest.split_once(' ')?;
            let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
            Some((hex(start)?, (hex(bytes)?, name.to_owned())))
        };
        PerfMap(text.lines().filter_map(entry).collect())
    }

    fn name(&self, address: u64) -> Option<&str> {
        let (start, (bytes, name)) = self.0.range(..=address).next_back()?;
        (address - start < *bytes).then_some(name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_of_made_code_are_read_whatever_is_in_them() {
        let map = PerfMap::parse("1000 20 py::f:/a b.py\n0x2000 0x8 g\nnonsense\n3000\n\n1010 8 later\n");
        assert_eq!((map.name(0x1001), map.name(0x1010)), (Some("py::f:/a b.py"), Some("later")));
        assert_eq!((map.name(0x2007), map.name(0x2008), map.name(0)), (Some("g"), None, None));
    }

    #[test]
    fn hashes_of_rust_are_no_part_of_names() {
        assert_eq!(plain("tcpip::stack::run::h0123456789abcdef"), "tcpip::stack::run");
        assert_eq!(plain("a::h0123"), "a::h0123");
        assert_eq!(plain("main"), "main");
    }
}
