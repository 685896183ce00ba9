//! What is measured: cases, each an experiment with options of `gnomon run`, in a setting.

use xxhash_rust::xxh3::xxh3_64;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For tests of the laboratories themselves: seconds.
    Smallest,
    /// All laboratories but `imux` within ten minutes on two processors.
    Small,
    /// The published sizes, as far as memory allows.
    Full,
}

impl Size {
    pub const NAMES: [(&str, Size); 3] = [("smallest", Size::Smallest), ("small", Size::Small), ("full", Size::Full)];

    pub fn name(self) -> &'static str {
        Size::NAMES.into_iter().find(|(_, size)| *size == self).expect("each has a name").0
    }
}

/// Under what conditions laboratories work.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    pub size: Size,
    /// How often each case is measured.
    pub repetitions: u32,
    /// Processors that the runs can use.
    pub processors: usize,
    /// Memory that is free for them.
    pub memory_bytes: u64,
    /// Of laboratories with a size of their own: the share of the published network; none for what goes with the size.
    pub scale: Option<f64>,
    /// Of laboratories with several figures: which; all if none is named.
    pub figures: Vec<String>,
    /// Of laboratories that load Tor networks with clients that stay the same: what these run.
    pub clients: Clients,
}

impl Setting {
    /// Numbers of workers to compare: 1, 2, 4 and so on, no more than there are processors nor than `most`.
    pub fn workers(&self, most: usize) -> Vec<usize> {
        let most = most.min(self.processors.max(1));
        std::iter::successors(Some(1), |workers| Some(workers * 2)).take_while(|workers| *workers <= most).collect()
    }

    /// Why a claim about so many workers cannot be decided here; none if it can.
    pub fn lacks_processors(&self, needed: usize) -> Option<String> {
        (self.processors < needed).then(|| {
            format!("the claim is about {needed} workers, and this machine has {} processors", self.processors)
        })
    }
}

/// What clients of a Tor network run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// The tor of this machine.
    Tor,
    /// `gnomon-onion-client`, which takes less memory and time.
    Light,
}

impl Clients {
    pub const NAMES: [(&str, Clients); 2] = [("tor", Clients::Tor), ("light", Clients::Light)];

    /// Where nothing else is asked for.
    pub fn usual(size: Size) -> Clients {
        if size == Size::Full { Clients::Tor } else { Clients::Light }
    }

    pub fn name(self) -> &'static str {
        Clients::NAMES.into_iter().find(|(_, clients)| *clients == self).expect("each has a name").0
    }
}

/// Something to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name among the cases of its laboratory, fit for a file: lower-case letters, digits and hyphens.
    pub key: String,
    /// What distinguishes it, by the name of a column; all cases of a laboratory have the same names.
    pub factors: Vec<(&'static str, String)>,
    pub experiment: Experiment,
    /// Of `gnomon run`.
    pub options: Vec<String>,
    /// What a run takes at most, roughly.
    pub memory_bytes: u64,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// The text of an experiment file.
    File(String),
    /// A Tor network: a name for its folder, and options of `gnomon tor new`. Its programs may end otherwise than was expected.
    Tor { name: String, options: Vec<String> },
    /// A Tor network whose seed is the repetition's number, and of whose run the downloads count.
    Downloads { name: String, options: Vec<String> },
    /// The same, of whose run counts what a relay says of itself.
    Victim { name: String, options: Vec<String>, relay: &'static str },
    /// An experiment file whose programs are in Python. In its text, `{python}` stands for an interpreter that has the packages, and
    /// `{programs}` for the folder with the programs. The repetition's number is the seed.
    Python { packages: &'static Packages, programs: &'static [Program], text: String },
    /// One of the others, of whose profile counts how long groups of functions took, by these rules.
    Profiled { experiment: Box<Experiment>, rules: String },
    /// One of the others, of whose run the objects of JSON count that a host's programs print, a line for each.
    Printed { experiment: Box<Experiment>, host: &'static str },
    /// The same again, whose programs run on this machine's own kernel, in real time.
    NativeVictim { name: String, options: Vec<String>, relay: &'static str },
    /// So many sockets of this machine's own kernel, opened by `gnomon-traffic sockets`.
    NativeSockets { count: u64 },
}

/// Packages of Python, which pip installs.
#[derive(Debug, PartialEq, Eq)]
pub struct Packages {
    /// Of lower-case letters, digits, points and hyphens.
    pub name: &'static str,
    /// As pip reads it, a line for each, with versions.
    pub requirements: &'static str,
}

/// A file of an experiment's own.
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    pub file: &'static str,
    pub text: &'static str,
}

impl Case {
    /// Which worker runs which host, and how many workers there are, as options.
    pub fn scheduled(policy: &str, workers: usize) -> Vec<String> {
        ["--policy", policy, PARALLELISM, &workers.to_string()].map(str::to_owned).to_vec()
    }

    /// How often it runs. Counted instructions are the machine's in nothing, and take long.
    pub fn repetitions(&self, setting: &Setting) -> u32 {
        const OF_COUNTED: u32 = 2;
        let is_counted = self.options.iter().any(|option| option.starts_with("--profile=steps"));
        if is_counted { setting.repetitions.min(OF_COUNTED) } else { setting.repetitions }
    }

    /// The same with one worker, which foretells the time with more.
    pub fn foretelling(mut self) -> Case {
        self.key = Case::foretelling_key(&self.key);
        self.options.push("--forecast".to_owned());
        self
    }

    /// The key of a case that foretells.
    pub fn foretelling_key(key: &str) -> String {
        format!("{key}-forecast")
    }

    /// Changes with everything that a run of the case depends on but programs and machine. How many workers there are does not
    /// count where only simulated times are judged, so that such measurements may be gone on with on another machine.
    pub fn fingerprint(&self) -> String {
        let mut options = self.options.clone();
        if self.experiment.is_all_simulated()
            && let Some(at) = options.iter().position(|option| option == PARALLELISM)
        {
            options.drain(at..(at + 2).min(options.len()));
        }
        hexadecimal(&format!("{}\n{}", options.join("\n"), self.experiment.fingerprint()))
    }
}

/// The option of `gnomon run` for the number of workers.
pub const PARALLELISM: &str = "--parallelism";

impl Experiment {
    /// Whether all that is judged of its runs are simulated times, which are the same for any number of workers.
    fn is_all_simulated(&self) -> bool {
        matches!(self, Experiment::Downloads { .. } | Experiment::Victim { .. })
    }

    /// Whether its programs may end otherwise than was expected: tors and their clients do.
    pub fn may_end_otherwise(&self) -> bool {
        match self {
            Experiment::File(_) | Experiment::Python { .. } | Experiment::NativeSockets { .. } => false,
            Experiment::Tor { .. }
            | Experiment::Downloads { .. }
            | Experiment::Victim { .. }
            | Experiment::NativeVictim { .. } => true,
            Experiment::Profiled { experiment, .. } | Experiment::Printed { experiment, .. } => {
                experiment.may_end_otherwise()
            }
        }
    }

    /// Whether the repetition's number is the seed of its run.
    pub fn is_seeded_by_run(&self) -> bool {
        match self {
            Experiment::Python { .. } => true,
            Experiment::Profiled { experiment, .. } | Experiment::Printed { experiment, .. } => {
                experiment.is_seeded_by_run()
            }
            _ => false,
        }
    }

    /// Changes with the experiment.
    pub fn fingerprint(&self) -> String {
        match self {
            Experiment::File(text) => hexadecimal(text),
            Experiment::Tor { options, .. }
            | Experiment::Downloads { options, .. }
            | Experiment::Victim { options, .. }
            | Experiment::NativeVictim { options, .. } => hexadecimal(&options.join("\n")),
            Experiment::NativeSockets { count } => hexadecimal(&count.to_string()),
            Experiment::Python { packages, programs, text } => {
                let programs = programs.iter().map(|program| program.text);
                let all: Vec<&str> = [packages.requirements, text].into_iter().chain(programs).collect();
                hexadecimal(&all.join("\n"))
            }
            Experiment::Profiled { experiment, rules } => {
                hexadecimal(&format!("{}\n{rules}", experiment.fingerprint()))
            }
            Experiment::Printed { experiment, host } => hexadecimal(&format!("{}\n{host}", experiment.fingerprint())),
        }
    }
}

fn hexadecimal(text: &str) -> String {
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

#[cfg(test)]
impl Setting {
    /// For tests: two repetitions on two processors, light clients, and memory for whatever is tried.
    pub fn tried(size: Size, figures: &[&str]) -> Setting {
        Setting {
            size,
            repetitions: 2,
            processors: 2,
            memory_bytes: 1 << 50,
            scale: None,
            figures: figures.iter().map(|figure| (*figure).to_owned()).collect(),
            clients: Clients::Light,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(processors: usize) -> Setting {
        Setting { processors, ..Setting::tried(Size::Small, &[]) }
    }

    #[test]
    fn workers_double_up_to_the_processors() {
        assert_eq!(setting(6).workers(64), [1, 2, 4]);
        assert_eq!(setting(6).workers(2), [1, 2]);
        assert_eq!(setting(1).workers(64), [1]);
        assert_eq!(setting(4).lacks_processors(4), None);
        assert!(setting(2).lacks_processors(4).is_some_and(|why| why.contains("2 processors")));
    }

    #[test]
    fn a_fingerprint_changes_with_experiment_and_options() {
        let case = |options: &[&str], text: &str| Case {
            key: "k".into(),
            factors: Vec::new(),
            experiment: Experiment::File(text.into()),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            memory_bytes: 0,
        };
        let first = case(&["a"], "b").fingerprint();
        assert_eq!(first, case(&["a"], "b").fingerprint());
        assert_ne!(first, case(&["a"], "c").fingerprint());
        assert_ne!(first, case(&["c"], "b").fingerprint());
    }

    #[test]
    fn workers_are_no_part_of_a_fingerprint_of_simulated_times() {
        let options = || vec!["--relays=9".to_owned()];
        let fingerprint = |experiment: Experiment, workers: usize| {
            let options = Case::scheduled("steal", workers);
            Case { key: "k".into(), factors: Vec::new(), experiment, options, memory_bytes: 0 }.fingerprint()
        };
        let downloads = || Experiment::Downloads { name: "n".into(), options: options() };
        let paced = || Experiment::Tor { name: "n".into(), options: options() };
        assert_eq!(fingerprint(downloads(), 1), fingerprint(downloads(), 2));
        assert_ne!(fingerprint(paced(), 1), fingerprint(paced(), 2));
    }
}
