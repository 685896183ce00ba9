//! (c): guests alive at once in one process: what each costs in time and memory, and how often the real memory map changes.
//!
//! Two depths, each in a fresh process: the bare loading by `guest` (image, stack, the program's own ld.so and libc up to its
//! first wait, with the handful of system calls that this takes answered on the spot), and the whole start of a process in
//! `simkernel`, with its descriptors and two output files.

use crate::Extent;
use crate::machine;
use crate::measure::{Programs, child};
use crate::report::{Line, Report, Samples, Target};
use base::wall::WallClock;
use serde_json::Value;
use std::cell::Cell;
use std::path::{Path, PathBuf};

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Mappings that a living guest takes, with room to spare.
const MAPPINGS_PER_GUEST: u64 = 6;
const OWN_MAPPINGS: u64 = 5_000;
/// What a living guest may take, for the decision whether so many fit.
const KB_PER_GUEST: u64 = 130;
const NATIVE_COUNT: usize = 1_000;
const PAIR_COUNT: usize = 2_000;
const STEADY_ROUNDS: u64 = 200;

const DEPTHS: [(&str, &str); 2] = [("bare", "bare loading"), ("whole", "process start")];

pub fn measure(programs: &Programs, extent: Extent, report: &mut Report) {
    report.section("(c) Guests alive at once: a minimal PIE against libc, blocked in pause()");
    let program = programs.path("minimal_pause");
    let program = program.to_str().expect("a path in UTF-8");
    let data = DataFolders::new(programs);
    let native_count = NATIVE_COUNT.to_string();
    let native = repeat(extent.long_repetitions(), || child(&["native", program, &native_count, "1"]));
    for count in COUNTS {
        if let Err(why) = fits(count, extent) {
            report.note(&format!("{count} guests left out: {why}"));
            continue;
        }
        // Two of the largest: the first reaches memory that a virtual machine may first have to be given.
        let times = if count > 10_000 { 2 } else { extent.long_repetitions() };
        for (mode, depth) in DEPTHS {
            let runs = repeat(times, || child(&[mode, program, &count.to_string(), &data.fresh()]));
            report_count(report, count, depth, &runs, &native);
        }
    }
    report_pairs(program, &data, extent, report);
    report_steady(programs, &data, report);
    report.note(&format!(
        "Process start: its two output files lie in {}; on the target directory's file system they take {:.3} ms more.",
        data.parent.display(),
        file_creation_ms(programs)
    ));
    report.note(&format!(
        "Native: {NATIVE_COUNT} processes by vfork and execve, until each blocks. Memory: growth of AnonPages, Shmem, PageTables, \
         KernelStack and Slab of /proc/meminfo."
    ));
}

/// Starts a few guests in each way, and processes of this machine.
pub fn try_out(programs: &Programs) {
    let program = programs.path("minimal_pause");
    let program = program.to_str().expect("a path in UTF-8");
    let data = DataFolders::new(programs);
    for mode in DEPTHS.map(|(mode, _)| mode).into_iter().chain(["native"]) {
        let place = if mode == "native" { "1".to_owned() } else { data.fresh() };
        println!("{mode}: {}", child(&[mode, program, "3", &place]));
    }
}

fn repeat<T>(times: usize, run: impl Fn() -> T) -> Vec<T> {
    (0..times).map(|_| run()).collect()
}

/// A folder for each run's output files: in memory where there is a file system for that, since disk file systems take long
/// for new files (ext4 even longer when many were removed a moment ago).
struct DataFolders {
    parent: PathBuf,
    given: Cell<usize>,
}

impl DataFolders {
    fn new(programs: &Programs) -> DataFolders {
        let in_memory = Path::new("/dev/shm").join(format!("gnomon-bench-{}", std::process::id()));
        let parent = match std::fs::create_dir(&in_memory) {
            Ok(()) => in_memory,
            Err(_) => programs.fresh_directory("namespaces"),
        };
        DataFolders { parent, given: Cell::new(0) }
    }

    fn fresh(&self) -> String {
        self.given.set(self.given.get() + 1);
        self.parent.join(self.given.get().to_string()).to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for DataFolders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.parent);
    }
}

/// What the two output files of a process cost on the disk's file system, in ms.
fn file_creation_ms(programs: &Programs) -> f64 {
    const PROCESSES: usize = 1_000;
    let folder = programs.fresh_directory("files");
    std::fs::create_dir_all(&folder).expect("a folder in the target directory");
    let clock = WallClock::start();
    for file in 0..2 * PROCESSES {
        std::fs::File::create(folder.join(format!("program.{file}.stdout"))).expect("a new file");
    }
    clock.elapsed().as_secs_f64() * 1e3 / PROCESSES as f64
}

/// Whether this machine can hold so many guests; if not, why.
fn fits(count: usize, extent: Extent) -> Result<(), String> {
    let count = count as u64;
    let (needed, limit) = (count * MAPPINGS_PER_GUEST + OWN_MAPPINGS, machine::max_map_count());
    let (needed_kb, available) = (count * KB_PER_GUEST, machine::available_kb());
    if extent.quick && count > 10_000 {
        return Err("--quick".to_owned());
    }
    if needed > limit {
        return Err(format!(
            "vm.max_map_count is {limit}, and they need {needed}: 'make bench' as root raises it, or run 'sudo sysctl \
             vm.max_map_count={needed}'"
        ));
    }
    if needed_kb > available {
        return Err(format!("they need some {} MB, and {} MB are available", needed_kb / 1024, available / 1024));
    }
    Ok(())
}

fn samples(runs: &[Value], of: impl Fn(&Value) -> f64) -> Samples {
    Samples::new(runs.iter().map(of).collect())
}

fn value(run: &Value, name: &str) -> f64 {
    run[name].as_f64().unwrap_or(f64::NAN)
}

fn report_count(report: &mut Report, count: usize, depth: &str, runs: &[Value], native: &[Value]) {
    let each = |name: &'static str, factor: f64, of: usize| move |run: &Value| value(run, name) * factor / of as f64;
    report.add(Line {
        what: format!("{count} guests, {depth}: time each"),
        unit: "ms",
        gnomon: samples(runs, each("seconds", 1e3, count)),
        native: Some(samples(native, each("seconds", 1e3, NATIVE_COUNT))),
        target: Target::AtMost(0.15),
    });
    report.add(Line {
        what: format!("{count} guests, {depth}: memory each"),
        unit: "KB",
        gnomon: samples(runs, each("kb", 1.0, count)),
        native: Some(samples(native, each("kb", 1.0, NATIVE_COUNT))),
        target: Target::AtMost(70.0),
    });
    report.add(Line {
        what: format!("{count} guests, {depth}: memory-map calls each"),
        unit: "",
        gnomon: samples(runs, |run| value(run, "map_calls_each")),
        native: None,
        target: Target::AtMost(8.0),
    });
    let last = runs.last().expect("at least one run");
    report.note(&format!(
        "    of it: {:.1} KB anonymous and private pages, {:.1} KB page tables; {:.1} madvise calls, {:.1} page faults, {:.1} mappings; \
         first guest {:.1} ms",
        value(last, "anonymous_kb") / count as f64,
        value(last, "page_table_kb") / count as f64,
        value(last, "advise_calls_each"),
        value(last, "faults") / count as f64,
        value(last, "mappings") / count as f64,
        value(last, "first_seconds") * 1e3,
    ));
}

/// Two threads that load at once, each into a host of its own, against one.
fn report_pairs(program: &str, data: &DataFolders, extent: Extent, report: &mut Report) {
    if machine::processors() < 2 {
        report.note("two threads loading at once left out: one processor");
        return;
    }
    let count = (NATIVE_COUNT / 2).to_string();
    let native_seconds = |threads| value(&child(&["native", program, &count, threads]), "seconds");
    let native = repeat(extent.long_repetitions(), || 2.0 * native_seconds("1") / native_seconds("2"));
    for (mode, depth) in [("bare-pair", "bare loading"), ("whole-pair", "process start")] {
        let run = || value(&child(&[mode, program, &PAIR_COUNT.to_string(), &data.fresh()]), "gain");
        report.add(Line {
            what: format!("two threads loading at once, {depth}"),
            unit: "x",
            gnomon: Samples::new(repeat(extent.repetitions(), run)),
            native: Some(Samples::new(native.clone())),
            target: Target::AtLeast(1.6),
        });
    }
    let busy = repeat(extent.long_repetitions(), || value(&child(&["busy-pair"]), "gain"));
    report.add(Line {
        what: "  for comparison: two threads that compute".to_owned(),
        unit: "x",
        gnomon: Samples::new(busy),
        native: None,
        target: Target::None,
    });
}

/// Memory-map calls of a guest that allocates, frees and starts threads: what a run with twice the rounds adds.
fn report_steady(programs: &Programs, data: &DataFolders, report: &mut Report) {
    let program = programs.path("alloc_threads");
    let program = program.to_str().expect("a path in UTF-8");
    let result = child(&["steady", program, &STEADY_ROUNDS.to_string(), &data.fresh()]);
    report.add(Line {
        what: format!("memory-map calls in {STEADY_ROUNDS} rounds of allocating threads"),
        unit: "",
        gnomon: Samples::new(vec![value(&result, "map_calls")]),
        native: None,
        target: Target::AtMost(0.0),
    });
    report.add(Line {
        what: "  one such round (4 threads, 160 allocations)".to_owned(),
        unit: "us",
        gnomon: Samples::new(vec![value(&result, "seconds_each") * 1e6]),
        native: Some(Samples::new(vec![value(&result, "native_seconds_each") * 1e6])),
        target: Target::None,
    });
    report.note(&format!("    {:.1} madvise calls a round", value(&result, "advise_calls_each")));
}
