//! What a run leaves of its profile: samples as they come, and at the end each stack, each function and what there is to know of the whole.
//!
//! Each worker has a [`Collector`], which keeps every stack once, as a tree of callers. What it keeps is bounded: beyond it, stacks end where
//! they leave what is known, and the profile says how many did.

mod tree;

use crate::columns::{TableWriter, Values, write_table};
use base::map::FastMap;
use report::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tree::Tree;

/// Rows that are written at once.
const ROWS: usize = 1 << 16;
/// A stack's number: its place in its worker's tree, and the worker above these bits.
pub(crate) const WORKER_SHIFT: u32 = 40;

/// What a worker did when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Place {
    /// It executed a guest's program.
    Program = 0,
    /// It was the simulated kernel.
    Kernel = 1,
    /// It was the network stack, or a host's interface.
    Stack = 2,
    /// It was in nobody's service: the engine, recording, waiting for other workers.
    Engine = 3,
}

/// A function of a stack, as it is known while the run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// In a file, at an address as it was linked.
    Code {
        path: &'a str,
        address: u64,
    },
    /// As above, in the simulator's own.
    Own {
        path: &'a str,
        address: u64,
    },
    /// Where no file lies, in a process.
    Made {
        host: u32,
        process: u32,
        address: u64,
    },
    Python {
        name: &'a str,
        file: &'a str,
        line: u32,
    },
    /// What the simulator was asked for: a system call, by name.
    Call(&'static str),
}

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// None for the engine.
    pub host: Option<u32>,
    /// Process and thread, and the program's file; None where the host itself is served.
    pub process: Option<(u32, u32, &'a str)>,
    pub time_ns: u64,
    /// The processor time that it stands for.
    pub weight_ns: u64,
    pub place: Place,
    /// Whether the stack was followed to its beginning.
    pub is_whole: bool,
}

/// What an address is called: one of the functions that the compiler has put there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    pub function: String,
    /// The file's name that it is in.
    pub module: String,
    /// Its source, where that is known.
    pub file: String,
    pub line: u32,
}

/// Until when a guest had written so many bytes of an output file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputMark {
    pub host: u32,
    /// The file's name in the host's folder.
    pub file: String,
    pub end: u64,
    pub time_ns: u64,
}

/// Gives names at the end of a run.
pub trait Namer {
    /// Of an address in a file, the innermost function first: several where functions were inlined. At least one.
    fn code(&mut self, path: &Path, address: u64) -> Vec<Name>;
    /// Of code that a process has made.
    fn made(&mut self, host: u32, process: u32, address: u64) -> Option<String>;
}

/// Processor time as the machine counts it, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Of the threads that execute hosts, since they began to be sampled.
    pub workers_ns: u64,
    /// Of the whole process up to the last event.
    pub process_ns: u64,
}

/// What samples weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds of processor time.
    #[default]
    Nanoseconds,
    /// Instructions of guests.
    Instructions,
}

impl Unit {
    /// What tables call a quantity of it.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "time",
            Unit::Instructions => "instructions",
        }
    }
}

/// How much was counted, where instructions were: sums over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Instructions that each host had, and the simulated time from which on intervals count, and until when.
    pub budget: u64,
    pub from_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// Intervals between calls that there were; those that were counted, and those of them that were broken off as too long.
    pub intervals: u64,
    pub counted: u64,
    pub cut: u64,
    /// What was executed one by one: instructions, and steps, of which one that is repeated takes several.
    pub instructions: u64,
    pub steps: u64,
    /// Hosts whose budget was used up, and when, in simulated nanoseconds.
    pub used_up: BTreeMap<String, u64>,
}

/// What there is to know of a profile beside its samples, `profile.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    pub version: u32,
    /// What samples weigh: what columns and fields with `_ns` in their names hold of it.
    #[serde(default)]
    pub unit: Unit,
    /// Samples for each second of processor time, as asked for.
    pub rate: f64,
    /// What raises the signals: a perf event, or a timer.
    pub means: String,
    pub seed: u64,
    pub digest: String,
    /// The hosts' names, by number.
    pub hosts: Vec<String>,
    /// The programs' files, by number.
    pub programs: Vec<String>,
    pub times: Times,
    /// Samples that were written.
    pub samples: u64,
    /// Samples whose stacks were not kept whole, for want of room.
    pub cut: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Steps>,
}

/// The version of what is written here.
pub(crate) const VERSION: u32 = 1;

#[derive(Debug, Default)]
struct Programs {
    known: FastMap<String, u32>,
    list: Vec<String>,
}

struct Shared {
    folder: PathBuf,
    samples: Mutex<Option<TableWriter>>,
    programs: Mutex<Programs>,
    failure: Mutex<Option<std::io::Error>>,
    collected: Mutex<Vec<Collected>>,
}

/// What a worker has left.
struct Collected {
    worker: usize,
    tree: Tree,
    samples: u64,
    cut: u64,
    time_ns: u64,
}

/// Records one run's profile.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("folder", &self.0.folder).finish_non_exhaustive()
    }
}

const COLUMNS: [(&str, bool); 9] = [
    ("host", false),
    ("process", false),
    ("thread", false),
    ("program", false),
    ("time_ns", false),
    ("weight_ns", false),
    ("place", false),
    ("whole", false),
    ("stack", false),
];

impl Recorder {
    /// Begins a profile in a data directory.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn create(data_directory: &Path) -> Result<Recorder> {
        let folder = data_directory.join(crate::FOLDER);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io("make the folder", &folder, error))?;
        let path = folder.join("samples.parquet");
        let samples =
            TableWriter::create(&path, "samples", &COLUMNS).map_err(|error| Error::io("create", &path, error))?;
        Ok(Recorder(Arc::new(Shared {
            folder,
            samples: Mutex::new(Some(samples)),
            programs: Mutex::default(),
            failure: Mutex::default(),
            collected: Mutex::default(),
        })))
    }

    /// Where worker `worker` puts its samples.
    pub fn collector(&self, worker: usize) -> Collector {
        Collector {
            shared: self.clone(),
            worker,
            tree: Tree::default(),
            rows: std::array::from_fn(|_| Vec::new()),
            programs: FastMap::default(),
            samples: 0,
            cut: 0,
        }
    }

    /// Writes what is left, once all collectors have ended: functions get their names now.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn finish(self, mut about: About, written: &[OutputMark], namer: &mut dyn Namer) -> Result<()> {
        let shared = &*self.0;
        let path = |name: &str| shared.folder.join(name);
        let failed = |name: &str, error: std::io::Error| Error::io("write", &path(name), error);
        if let Some(error) = lock(&shared.failure).take() {
            return Err(failed("samples.parquet", error));
        }
        if let Some(writer) = lock(&shared.samples).take() {
            writer.finish().map_err(|error| failed("samples.parquet", error))?;
        }
        let mut collected = std::mem::take(&mut *lock(&shared.collected));
        collected.sort_by_key(|one| one.worker);
        let (frames, stacks) = tree::tables(collected.iter().map(|one| (one.worker, &one.tree)), namer);
        write_table(&path("frames.parquet"), "frames", &frames).map_err(|error| failed("frames.parquet", error))?;
        write_table(&path("stacks.parquet"), "stacks", &stacks).map_err(|error| failed("stacks.parquet", error))?;
        let outputs = output_table(written);
        write_table(&path("outputs.parquet"), "outputs", &outputs).map_err(|error| failed("outputs.parquet", error))?;
        about.version = VERSION;
        about.programs = std::mem::take(&mut lock(&shared.programs).list);
        about.times.workers_ns = collected.iter().map(|one| one.time_ns).sum();
        about.samples = collected.iter().map(|one| one.samples).sum();
        about.cut = collected.iter().map(|one| one.cut).sum();
        let text = serde_json::to_string_pretty(&about).map_err(|error| failed("profile.json", error.into()))?;
        std::fs::write(path("profile.json"), text + "\n").map_err(|error| failed("profile.json", error))
    }
}

fn output_table(written: &[OutputMark]) -> [(&'static str, Values); 4] {
    let numbers = |of: fn(&OutputMark) -> u64| Values::Integers(written.iter().map(|mark| of(mark) as i64).collect());
    [
        ("host", numbers(|mark| mark.host.into())),
        ("file", Values::Texts(written.iter().map(|mark| mark.file.clone()).collect())),
        ("end", numbers(|mark| mark.end)),
        ("time_ns", numbers(|mark| mark.time_ns)),
    ]
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stack that a collector knows, and whether it had to be cut. The default is the empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack(u32, bool);

/// One worker's samples.
#[derive(Debug)]
pub struct Collector {
    shared: Recorder,
    worker: usize,
    tree: Tree,
    /// The columns of rows that were not written yet.
    rows: [Vec<i64>; COLUMNS.len()],
    programs: FastMap<String, u32>,
    samples: u64,
    cut: u64,
}

impl Collector {
    /// Takes a sample, with its stack from the outermost function to the innermost.
    pub fn add<'a>(&mut self, sample: &Sample<'_>, stack: impl Iterator<Item = Frame<'a>>) {
        let (stack, is_cut) = self.tree.stack(Stack::default().0, stack);
        self.add_at(sample, Stack(stack, is_cut));
    }

    /// The stack of a function that one of another stack has called.
    pub fn under(&mut self, caller: Stack, frame: Frame<'_>) -> Stack {
        if caller.1 {
            return caller;
        }
        let (stack, is_cut) = self.tree.stack(caller.0, std::iter::once(frame));
        Stack(stack, is_cut)
    }

    /// Takes a sample whose stack is known.
    pub fn add_at(&mut self, sample: &Sample<'_>, Stack(stack, is_cut): Stack) {
        self.samples += 1;
        self.cut += u64::from(is_cut);
        let program = sample.process.map_or(-1, |(_, _, program)| self.program(program).into());
        let process = |which: fn((u32, u32)) -> u32| {
            sample.process.map_or(-1, |(process, thread, _)| which((process, thread)).into())
        };
        let row: [i64; COLUMNS.len()] = [
            sample.host.map_or(-1, i64::from),
            process(|ids| ids.0),
            process(|ids| ids.1),
            program,
            sample.time_ns as i64,
            sample.weight_ns as i64,
            sample.place as i64,
            sample.is_whole.into(),
            (self.worker as i64) << WORKER_SHIFT | i64::from(stack),
        ];
        self.rows.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        if self.rows[0].len() >= ROWS {
            self.write();
        }
    }

    fn program(&mut self, name: &str) -> u32 {
        if let Some(id) = self.programs.get(name) {
            return *id;
        }
        let mut programs = lock(&self.shared.0.programs);
        let id = match programs.known.get(name) {
            Some(id) => *id,
            None => {
                let id = programs.list.len() as u32;
                programs.list.push(name.to_owned());
                programs.known.insert(name.to_owned(), id);
                id
            }
        };
        self.programs.insert(name.to_owned(), id);
        id
    }

    fn write(&mut self) {
        if self.rows[0].is_empty() {
            return;
        }
        let columns: Vec<Values> =
            self.rows.iter_mut().map(|column| Values::Integers(std::mem::take(column))).collect();
        let mut samples = lock(&self.shared.0.samples);
        if let Some(Err(error)) = samples.as_mut().map(|writer| writer.write(&columns)) {
            // What follows would be lost as well.
            *samples = None;
            lock(&self.shared.0.failure).get_or_insert(error);
        }
    }

    /// The worker has ended, after so much processor time since it began.
    pub fn end(mut self, time_ns: u64) {
        self.write();
        let (worker, samples, cut) = (self.worker, self.samples, self.cut);
        let collected = Collected { worker, tree: self.tree, samples, cut, time_ns };
        lock(&self.shared.0.collected).push(collected);
    }
}
