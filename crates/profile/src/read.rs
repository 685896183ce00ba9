//! Reading a run's profile.

use crate::columns::{Values, read_table};
use crate::record::{About, Place, Unit, VERSION};
use base::map::FastMap;
use report::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What kind of function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Machine code of a file.
    Native = 0,
    /// Machine code that a process has made.
    Made = 1,
    Python = 2,
    /// A system call, or something else that the simulated kernel does for a program.
    Call = 3,
    /// The simulator's own.
    Simulator = 4,
}

/// A function, as tables name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    pub kind: Kind,
    pub name: String,
    /// The name of the file that it is in.
    pub module: String,
    /// Its source; empty where that is not known.
    pub file: String,
    pub line: u32,
}

impl Function {
    /// Whether it is the simulator's own, and comes from one of these sources.
    fn is_of(&self, sources: &[&str]) -> bool {
        self.kind == Kind::Simulator && sources.iter().any(|source| self.file.contains(source))
    }
}

pub type FunctionId = u32;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Into [`About::hosts`]; None for the engine.
    pub host: Option<u32>,
    /// None where a host itself is served.
    pub process: Option<u32>,
    pub thread: Option<u32>,
    /// Into [`About::programs`].
    pub program: Option<u32>,
    pub time_ns: u64,
    pub weight_ns: u64,
    pub place: Place,
    pub is_whole: bool,
    /// Into [`Profile::stacks`].
    pub stack: u32,
}

/// A line that a guest has printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Into [`About::hosts`].
    pub host: u32,
    pub time_ns: u64,
    pub line: String,
}

/// The profile of one run.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The run's data directory.
    pub directory: PathBuf,
    pub about: About,
    pub functions: Vec<Function>,
    /// Functions of each stack, the outermost first.
    pub stacks: Vec<Vec<FunctionId>>,
    pub rows: Vec<Row>,
    /// What guests have printed on standard output and error, as far as it was kept.
    pub printed: Vec<Printed>,
}

/// What `python3 -X perf` calls its trampolines: they stand for functions that the interpreter itself tells of.
const TRAMPOLINE: &str = "py::";

/// What stands for threads that no samples are taken of.
const OTHER_THREADS: &str = "(threads that are no workers: the start, writers of logs and files)";

/// Sources of the simulator's functions that lead to those that do something: of the stack that they are on, only what follows them is told.
const WAYS: [&str; 4] =
    ["crates/simkernel/src/run.rs", "crates/engine/src/", "src/simulation/host.rs", "src/simulation/worker.rs"];
/// Sources of what is the network's in the simulator.
const NETWORK: [&str; 2] = ["crates/tcpip/", "crates/interface/"];
/// Sources of what takes the profile itself.
const PROFILER: [&str; 4] = [
    "crates/simkernel/src/profiling.rs",
    "src/simulation/profile.rs",
    "crates/guest/src/sampling.rs",
    "crates/profile/src/",
];

/// Stacks as the run has left them: the caller of each and its frame, and the functions of each frame, the outermost first.
struct StackTable {
    nodes: FastMap<i64, (i64, i64)>,
    frames: FastMap<i64, Vec<FunctionId>>,
}

impl Profile {
    /// Reads what `gnomon run --profile` left in a data directory.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn read(directory: &Path) -> Result<Profile> {
        let folder = directory.join(crate::FOLDER);
        let path = folder.join("profile.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let place = directory.display();
                return Err(Error::Input(format!(
                    "{place}: it has no profile: make one with 'gnomon run --profile', and name the run's data directory here"
                )));
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let about: About = serde_json::from_str(&text).map_err(|error| {
            Error::Input(format!(
                "{}:{}: {error}: run the experiment again with --profile",
                path.display(),
                error.line()
            ))
        })?;
        if about.version != VERSION {
            let version = about.version;
            return Err(Error::Input(format!(
                "{}: a profile of version {version}, and this gnomon reads {VERSION}: run the experiment again with --profile",
                path.display()
            )));
        }
        let mut profile = Profile { directory: directory.to_path_buf(), about, ..Profile::default() };
        let frames = profile.read_frames(&folder.join("frames.parquet"))?;
        let [ids, parents, frame_ids] = integers(&folder.join("stacks.parquet"), ["stack", "parent", "frame"])?;
        let nodes = ids.into_iter().zip(parents.into_iter().zip(frame_ids)).collect();
        profile.read_rows(&folder.join("samples.parquet"), &StackTable { nodes, frames })?;
        profile.add_other_threads();
        Ok(profile)
    }

    /// One sample for the processor time that the process took without its workers, so that all weigh what the machine counted.
    fn add_other_threads(&mut self) {
        let others = self.about.times.process_ns.saturating_sub(self.about.times.workers_ns);
        if others == 0 || self.about.unit != Unit::Nanoseconds {
            return;
        }
        let function = Function {
            kind: Kind::Simulator,
            name: OTHER_THREADS.to_owned(),
            module: "gnomon".to_owned(),
            file: String::new(),
            line: 0,
        };
        let stack = vec![self.functions.len() as FunctionId];
        self.functions.push(function);
        self.stacks.push(stack);
        self.rows.push(Row {
            host: None,
            process: None,
            thread: None,
            program: None,
            time_ns: 0,
            weight_ns: others,
            place: Place::Engine,
            is_whole: true,
            stack: self.stacks.len() as u32 - 1,
        });
    }

    /// The functions of each frame, the outermost first.
    fn read_frames(&mut self, path: &Path) -> Result<FastMap<i64, Vec<FunctionId>>> {
        let names = ["frame", "kind", "position", "line"];
        let [ids, kinds, positions, lines] = integers(path, names)?;
        let [functions, modules, files] = texts(path, ["function", "module", "file"])?;
        let mut known: FastMap<Function, FunctionId> = FastMap::default();
        let mut frames: FastMap<i64, Vec<FunctionId>> = FastMap::default();
        for index in 0..ids.len() {
            let kind = match kinds[index] {
                0 => Kind::Native,
                1 => Kind::Made,
                2 => Kind::Python,
                3 => Kind::Call,
                _ => Kind::Simulator,
            };
            // A function of machine code is one, whichever of its lines is executed.
            let line = if kind == Kind::Python { lines[index] as u32 } else { 0 };
            let function = Function {
                kind,
                name: functions[index].clone(),
                module: modules[index].clone(),
                file: files[index].clone(),
                line,
            };
            let next = known.len() as FunctionId;
            let id = *known.entry(function.clone()).or_insert(next);
            if id == next {
                self.functions.push(function);
            }
            let frame = frames.entry(ids[index]).or_default();
            // The first position is the innermost.
            frame.insert(frame.len().saturating_sub(positions[index] as usize), id);
        }
        Ok(frames)
    }

    /// The functions of a stack, and its place among the stacks.
    fn stack_place(&mut self, stack: i64, table: &StackTable, known: &mut FastMap<Vec<FunctionId>, u32>) -> u32 {
        let mut frames = Vec::new();
        let mut at = stack;
        while let Some((parent, frame)) = table.nodes.get(&at) {
            frames.push(*frame);
            at = *parent;
        }
        let functions = frames.iter().rev().filter_map(|frame| table.frames.get(frame)).flatten().copied();
        let shown = self.shown(functions.collect());
        let next = self.stacks.len() as u32;
        let place = *known.entry(shown.clone()).or_insert(next);
        if place == next {
            self.stacks.push(shown);
        }
        place
    }

    /// A stack without what is of no interest: trampolines of Python, and the simulator's way to what it does.
    fn shown(&self, stack: Vec<FunctionId>) -> Vec<FunctionId> {
        let function = |id: &FunctionId| &self.functions[*id as usize];
        let has_python = stack.iter().any(|id| function(id).kind == Kind::Python);
        let is_trampoline =
            |function: &Function| has_python && function.kind == Kind::Made && function.name.starts_with(TRAMPOLINE);
        let leads = |id: &FunctionId| {
            let function = function(id);
            function.is_of(&WAYS)
        };
        let behind = stack.iter().rposition(leads).map_or(0, |at| at + 1);
        let keep = |(at, id): &(usize, FunctionId)| {
            let function = function(id);
            !(is_trampoline(function) || function.kind == Kind::Simulator && *at < behind)
        };
        stack.into_iter().enumerate().filter(keep).map(|(_, id)| id).collect()
    }

    /// Where the simulator was, by its own functions.
    fn place(&self, place: Place, stack: u32) -> Place {
        let has =
            |sources: &[&str]| self.stacks[stack as usize].iter().any(|id| self.functions[*id as usize].is_of(sources));
        match place {
            Place::Kernel | Place::Stack if has(&PROFILER) => Place::Engine,
            Place::Kernel if has(&NETWORK) => Place::Stack,
            _ => place,
        }
    }

    fn read_rows(&mut self, path: &Path, table: &StackTable) -> Result<()> {
        let names = ["host", "process", "thread", "program", "time_ns", "weight_ns", "place", "whole", "stack"];
        let columns: [Vec<i64>; 9] = integers(path, names)?;
        let id = |column: usize, row: usize| u32::try_from(columns[column][row]).ok();
        let (mut known, mut places) = (FastMap::default(), FastMap::default());
        for (row, number) in columns[8].iter().copied().enumerate() {
            let stack = match places.get(&number) {
                Some(place) => *place,
                None => {
                    let place = self.stack_place(number, table, &mut known);
                    places.insert(number, place);
                    place
                }
            };
            let place = match columns[6][row] {
                0 => Place::Program,
                1 => Place::Kernel,
                2 => Place::Stack,
                _ => Place::Engine,
            };
            let place = self.place(place, stack);
            // What takes the profile does so for nobody.
            let of_guests = |id: Option<u32>| id.filter(|_| place != Place::Engine);
            self.rows.push(Row {
                host: of_guests(id(0, row)),
                process: of_guests(id(1, row)),
                thread: of_guests(id(2, row)),
                program: of_guests(id(3, row)),
                time_ns: columns[4][row] as u64,
                weight_ns: columns[5][row] as u64,
                place,
                is_whole: columns[7][row] != 0,
                stack,
            });
        }
        Ok(())
    }

    /// Reads what guests have printed, which phases may begin with.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_printed(&mut self) -> Result<()> {
        let path = self.directory.join(crate::FOLDER).join("outputs.parquet");
        let [hosts, ends, times] = integers(&path, ["host", "end", "time_ns"])?;
        let [files] = texts(&path, ["file"])?;
        let mut marks: BTreeMap<(i64, String), Vec<(usize, i64)>> = BTreeMap::new();
        for (index, file) in files.into_iter().enumerate() {
            marks.entry((hosts[index], file)).or_default().push((ends[index] as usize, times[index]));
        }
        for ((host, file), marks) in marks {
            let Some(name) = self.about.hosts.get(host as usize) else { continue };
            let path = self.directory.join("hosts").join(name).join(file);
            let bytes = std::fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
            let mut end = 0;
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                end += line.len();
                // Printed when its last byte was written.
                let mark = marks.partition_point(|(until, _)| *until < end);
                let Some((_, time)) = marks.get(mark) else { break };
                let line = String::from_utf8_lossy(line).trim_end().to_owned();
                self.printed.push(Printed { host: host as u32, time_ns: *time as u64, line });
            }
        }
        Ok(())
    }

    pub fn host(&self, row: &Row) -> &str {
        row.host.and_then(|host| self.about.hosts.get(host as usize)).map_or("", String::as_str)
    }

    /// The name of a sample's program, without its folder.
    pub fn program(&self, row: &Row) -> &str {
        let path = row.program.and_then(|program| self.about.programs.get(program as usize)).map_or("", String::as_str);
        path.rsplit('/').next().unwrap_or(path)
    }

    /// The functions of a sample, the outermost first.
    pub fn stack(&self, row: &Row) -> impl DoubleEndedIterator<Item = &Function> {
        self.stacks[row.stack as usize].iter().map(|id| &self.functions[*id as usize])
    }

    /// The processor time of all samples, in nanoseconds.
    pub fn weight_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.weight_ns).sum()
    }
}

pub(crate) fn integers<const N: usize>(path: &Path, names: [&str; N]) -> Result<[Vec<i64>; N]> {
    let columns = read_table(path, &names).map_err(|error| Error::io("read", path, error))?;
    let mut columns = columns.into_iter().map(|values| match values {
        Values::Integers(values) => values,
        Values::Texts(_) => Vec::new(),
    });
    let columns: [Vec<i64>; N] = std::array::from_fn(|_| columns.next().unwrap_or_default());
    let rows = columns.first().map_or(0, Vec::len);
    if columns.iter().any(|column| column.len() != rows) {
        return Err(Error::Input(format!(
            "{}: its columns differ in length: run the experiment again",
            path.display()
        )));
    }
    Ok(columns)
}

pub(crate) fn texts<const N: usize>(path: &Path, names: [&str; N]) -> Result<[Vec<String>; N]> {
    let columns = read_table(path, &names).map_err(|error| Error::io("read", path, error))?;
    let mut columns = columns.into_iter().map(|values| match values {
        Values::Texts(values) => values,
        Values::Integers(_) => Vec::new(),
    });
    Ok(std::array::from_fn(|_| columns.next().unwrap_or_default()))
}
