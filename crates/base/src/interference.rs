//! In what a run depended on the machine that it ran on: each thing that may come out another way elsewhere, by its cause.
//!
//! Whoever meets one notes it, and says in the log whom it concerned; the end of the run tells each cause, and calls the run
//! reproducible only if there was none.

use std::collections::BTreeMap;

/// How the machine had a say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cause {
    /// A guest computed past its budget of processor time.
    Budget,
    /// Computing took simulated time, as measured.
    CpuSpeed,
    /// A guest was refused memory, or killed, because the machine had none left.
    Memory,
    /// A guest was refused a mapping because the process had as many as the machine allows.
    Mappings,
    /// A file could not grow: the disk, a quota or the simulator's own limit of file sizes was reached.
    Space,
    /// The simulator had no descriptor left for a file that a guest wanted.
    Descriptors,
    /// The machine refused a file that it has: no permission for the simulator, an error of the device.
    Files,
    /// A file of the machine changed, or went away, while guests read it.
    ChangedFiles,
    /// A guest looked into another host's folder while that changed, or changed it while it was looked at.
    Sharing,
    /// A guest reached the real machine by instructions that nothing keeps from it, or may have.
    Escape,
    /// Something of what the run leaves behind is not complete.
    Recording,
}

/// What is known of one cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interference {
    /// How often it was met, or how many guests met it.
    pub times: u64,
    /// The first of them: whom it concerned, and with what.
    pub first: String,
}

impl Cause {
    /// Its key in `sim-stats.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Budget => "budget",
            Cause::CpuSpeed => "cpu_speed",
            Cause::Memory => "memory",
            Cause::Mappings => "mappings",
            Cause::Space => "space",
            Cause::Descriptors => "descriptors",
            Cause::Files => "files",
            Cause::ChangedFiles => "changed_files",
            Cause::Sharing => "sharing",
            Cause::Escape => "escapes",
            Cause::Recording => "recording",
        }
    }

    /// The cause of this name.
    pub fn from_name(name: &str) -> Option<Cause> {
        use Cause::{
            Budget, ChangedFiles, CpuSpeed, Descriptors, Escape, Files, Mappings, Memory, Recording, Sharing, Space,
        };
        let all =
            [Budget, CpuSpeed, Memory, Mappings, Space, Descriptors, Files, ChangedFiles, Sharing, Escape, Recording];
        all.into_iter().find(|cause| cause.name() == name)
    }

    /// What the end of a run says about it.
    pub fn sentence(self, Interference { times, first }: &Interference) -> String {
        match self {
            Cause::Budget => {
                format!("{times} guests computed past their budget and were pre-empted {first}; the log names them")
            }
            Cause::CpuSpeed => format!("computing took {first} of simulated time, as measured (cpu_speed)"),
            Cause::Memory => format!("the machine had no memory left for {times} guests; the log names them"),
            Cause::Space => format!(
                "the machine had no room for what guests wrote ({times} times, first {first}); make room, or raise 'ulimit -f' or the quota"
            ),
            Cause::Mappings => format!(
                "this process had as many memory mappings as the machine allows ({times} times, first {first}); raise sysctl vm.max_map_count"
            ),
            Cause::Descriptors => format!(
                "the simulator had no file descriptor left ({times} times, first {first}); raise 'ulimit -n' or fs.file-max"
            ),
            Cause::Files => {
                format!(
                    "the machine refused files ({times} times, first {first}); look at the device, or at its permissions"
                )
            }
            Cause::ChangedFiles => format!(
                "files of the machine that guests read changed during the run ({times}, first {first}); run without what changes them"
            ),
            Cause::Sharing => format!(
                "hosts met in each other's files within one window, in an order that workers decide ({times} times, first {first}); let them meet at other times, or by the network"
            ),
            Cause::Escape => format!(
                "guests reached this machine by what nothing keeps from them ({times} times, first {first}); docs/instructions.md explains"
            ),
            Cause::Recording => {
                let more = match times.saturating_sub(1) {
                    0 => String::new(),
                    more => format!(", and {more} more"),
                };
                format!("what the run leaves behind is not complete: {first}{more}")
            }
        }
    }
}

/// All that was noted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interferences(BTreeMap<Cause, Interference>);

impl Interferences {
    /// Whether the machine had no say at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, cause: Cause) -> Option<&Interference> {
        self.0.get(&cause)
    }

    pub fn iter(&self) -> impl Iterator<Item = (Cause, &Interference)> {
        self.0.iter().map(|(cause, interference)| (*cause, interference))
    }

    /// One more; `what` is asked at the first of its cause.
    pub fn note(&mut self, cause: Cause, what: impl FnOnce() -> String) {
        self.note_many(cause, 1, what);
    }

    /// So many more. None is no interference.
    pub fn note_many(&mut self, cause: Cause, times: u64, what: impl FnOnce() -> String) {
        if times > 0 {
            self.0.entry(cause).or_insert_with(|| Interference { times: 0, first: what() }).times += times;
        }
    }

    /// Adds those of a host whose turn comes after.
    pub fn add(&mut self, others: &Interferences) {
        for (cause, interference) in others.iter() {
            self.note_many(cause, interference.times, || interference.first.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_counts_and_keeps_its_first() {
        let (mut all, mut host) = (Interferences::default(), Interferences::default());
        assert!(all.is_empty());
        all.note_many(Cause::Memory, 0, || unreachable!("none"));
        assert!(all.is_empty());
        all.note(Cause::Space, || "a".into());
        host.note(Cause::Space, || "b".into());
        host.note(Cause::Memory, || "c".into());
        host.note(Cause::Memory, || unreachable!("known already"));
        all.add(&host);
        assert_eq!(all.get(Cause::Space), Some(&Interference { times: 2, first: "a".into() }));
        let sentences: Vec<String> = all.iter().map(|(cause, seen)| cause.sentence(seen)).collect();
        assert!(sentences[0].contains("no memory left for 2 guests"), "{sentences:?}");
        assert!(sentences[1].contains("(2 times, first a)"), "{sentences:?}");
    }

    #[test]
    fn of_what_could_not_be_recorded_the_first_is_named_and_the_others_counted() {
        let said = |times| Cause::Recording.sentence(&Interference { times, first: "a file: full".into() });
        assert_eq!(said(1), "what the run leaves behind is not complete: a file: full");
        assert_eq!(said(3), "what the run leaves behind is not complete: a file: full, and 2 more");
    }
}
