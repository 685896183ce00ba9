//! Sums over samples: by place, host, program, function, call, group.

use crate::read::{Function, FunctionId, Kind, Profile, Row};
use crate::record::Place;
use crate::rules::{Rules, UNASSIGNED};
use base::map::FastMap;
use std::collections::{BTreeMap, BTreeSet};

/// Which samples count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Those in which a program was executed.
    Program,
    /// Those, and what the simulated kernel did for programs: all that a real machine would have for them, too.
    #[default]
    Guests,
    /// All, the engine's included.
    All,
}

impl Part {
    pub const NAMES: [(&'static str, Part); 3] =
        [("program", Part::Program), ("guests", Part::Guests), ("all", Part::All)];

    pub(crate) fn has(self, row: &Row) -> bool {
        match self {
            Part::Program => row.place == Place::Program,
            Part::Guests => row.process.is_some(),
            Part::All => true,
        }
    }
}

/// What a table is about: some of a profile's samples.
#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) rows: Vec<&'a Row>,
}

/// A function, or what stands for one in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionSum {
    pub(crate) name: String,
    /// Processor time in which it was the innermost, and in which it was on the stack.
    pub(crate) own_ns: u64,
    pub(crate) total_ns: u64,
}

impl<'a> Selection<'a> {
    pub(crate) fn new(profile: &'a Profile, fits: impl Fn(&Row) -> bool) -> Selection<'a> {
        Selection { profile, rows: profile.rows.iter().filter(|row| fits(row)).collect() }
    }

    pub(crate) fn filtered(&self, fits: impl Fn(&Row) -> bool) -> Selection<'a> {
        Selection { profile: self.profile, rows: self.rows.iter().copied().filter(|row| fits(row)).collect() }
    }

    pub(crate) fn weight_ns(&self) -> u64 {
        self.rows.iter().map(|row| row.weight_ns).sum()
    }

    /// The processor time of each of some classes.
    pub(crate) fn by<K: Ord>(&self, class: impl Fn(&Row) -> K) -> BTreeMap<K, u64> {
        let mut sums = BTreeMap::new();
        for row in &self.rows {
            *sums.entry(class(row)).or_default() += row.weight_ns;
        }
        sums
    }

    /// The processor time at each stack.
    pub(crate) fn stacks(&self) -> Vec<(&'a [FunctionId], u64)> {
        let mut sums: FastMap<u32, u64> = FastMap::default();
        for row in &self.rows {
            *sums.entry(row.stack).or_default() += row.weight_ns;
        }
        let mut sums: Vec<(u32, u64)> = sums.into_iter().collect();
        sums.sort_unstable();
        sums.into_iter().map(|(stack, weight)| (self.profile.stacks[stack as usize].as_slice(), weight)).collect()
    }

    /// Functions by the time in which they were the innermost, those with most first.
    pub(crate) fn functions(&self) -> Vec<FunctionSum> {
        let labels: Vec<String> = self.profile.functions.iter().map(label).collect();
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (stack, weight) in self.stacks() {
            let Some(innermost) = stack.last() else {
                let sum = sums.entry(NOTHING).or_default();
                (sum.0, sum.1) = (sum.0 + weight, sum.1 + weight);
                continue;
            };
            sums.entry(&labels[*innermost as usize]).or_default().0 += weight;
            // A function that calls itself counts once.
            let seen: BTreeSet<&str> = stack.iter().map(|id| labels[*id as usize].as_str()).collect();
            seen.into_iter().for_each(|name| sums.entry(name).or_default().1 += weight);
        }
        let sum =
            |(name, (own_ns, total_ns)): (&str, (u64, u64))| FunctionSum { name: name.to_owned(), own_ns, total_ns };
        let mut list: Vec<FunctionSum> = sums.into_iter().map(sum).collect();
        list.sort_by(|a, b| b.own_ns.cmp(&a.own_ns).then(b.total_ns.cmp(&a.total_ns)).then(a.name.cmp(&b.name)));
        list
    }

    /// Functions by what they are answerable for: the innermost of Python for what it and functions of C take for it, elsewhere the innermost.
    pub(crate) fn responsible(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (stack, weight) in self.stacks() {
            let functions = || stack.iter().map(|id| &self.profile.functions[*id as usize]);
            let function =
                functions().rfind(|function| function.kind == Kind::Python).or_else(|| functions().next_back());
            *sums.entry(function.map_or_else(|| NOTHING.to_owned(), label)).or_default() += weight;
        }
        sums
    }

    /// What the simulator takes for each call of programs: its name, in the simulated kernel, in the network stack.
    pub(crate) fn calls(&self) -> Vec<(String, u64, u64)> {
        let mut sums: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| matches!(row.place, Place::Kernel | Place::Stack)) {
            let call = self.profile.stack(row).find(|function| function.kind == Kind::Call);
            let name = call.map_or(NO_CALL, |function| function.name.as_str());
            sums.entry(name).or_default()[usize::from(row.place == Place::Stack)] += row.weight_ns;
        }
        let mut list: Vec<(String, u64, u64)> =
            sums.into_iter().map(|(name, [kernel, stack])| (name.to_owned(), kernel, stack)).collect();
        list.sort_by_key(|(_, kernel, stack)| std::cmp::Reverse(kernel + stack));
        list
    }

    /// The processor time of each group of some rules, and what belongs to none.
    pub(crate) fn groups(&self, rules: &Rules) -> Vec<(String, u64)> {
        let of_stack = rules.groups_of(self.profile);
        let mut sums = vec![0; rules.groups.len() + 1];
        for row in &self.rows {
            sums[of_stack[row.stack as usize]] += row.weight_ns;
        }
        rules.groups.iter().cloned().chain([UNASSIGNED.to_owned()]).zip(sums).collect()
    }
}

/// Samples without a stack.
const NOTHING: &str = "(no stack)";
/// What the simulator does for a host, and for no call: packets that arrive, timers.
const NO_CALL: &str = "(no call: packets, timers, turns of threads)";

/// How tables name a function.
pub(crate) fn label(function: &Function) -> String {
    match function.kind {
        Kind::Call => format!("[{}]", function.name),
        Kind::Python => format!("{} ({}:{})", function.name, function.module, function.line),
        Kind::Made if function.name.contains(' ') => function.name.clone(),
        _ if function.name.starts_with(&function.module) => function.name.clone(),
        _ => format!("{} ({})", function.name, function.module),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::About;

    /// Two hosts: main calls a and b, b makes a call; the engine.
    pub(crate) fn profile() -> Profile {
        let function = |kind, name: &str, module: &str| Function {
            kind,
            name: name.to_owned(),
            module: module.to_owned(),
            file: String::new(),
            line: 0,
        };
        let row = |host, place, stack, weight_ns| Row {
            host,
            process: host.map(|_| 1000),
            thread: host.map(|_| 1000),
            program: host.map(|_| 0),
            time_ns: 5,
            weight_ns,
            place,
            is_whole: true,
            stack,
        };
        Profile {
            about: About {
                hosts: vec!["one".into(), "two".into()],
                programs: vec!["/bin/prog".into()],
                ..About::default()
            },
            functions: vec![
                function(Kind::Native, "main", "prog"),
                function(Kind::Native, "a", "prog"),
                function(Kind::Native, "b", "libb.so"),
                function(Kind::Call, "sendto", "system call"),
                function(Kind::Simulator, "tcpip::send", "gnomon"),
            ],
            stacks: vec![vec![], vec![0, 1], vec![0, 2], vec![0, 2, 3], vec![0, 2, 3, 4], vec![0, 1, 1]],
            rows: vec![
                row(Some(0), Place::Program, 1, 600),
                row(Some(0), Place::Program, 2, 200),
                row(Some(1), Place::Kernel, 3, 50),
                row(Some(1), Place::Stack, 4, 30),
                row(Some(1), Place::Program, 5, 20),
                row(None, Place::Engine, 0, 100),
            ],
            ..Profile::default()
        }
    }

    #[test]
    fn functions_have_what_they_take_and_what_they_lead_to() {
        let profile = profile();
        let all = Selection::new(&profile, |row| Part::Guests.has(row));
        assert_eq!(all.weight_ns(), 900);
        let sums: Vec<(String, u64, u64)> =
            all.functions().into_iter().map(|sum| (sum.name, sum.own_ns, sum.total_ns)).collect();
        let expected = [
            ("a (prog)", 620, 620),
            ("b (libb.so)", 200, 280),
            ("[sendto]", 50, 80),
            ("tcpip::send (gnomon)", 30, 30),
            ("main (prog)", 0, 900),
        ];
        assert_eq!(sums, expected.map(|(name, own, total)| (name.to_owned(), own, total)));
        assert_eq!(Selection::new(&profile, |row| Part::Program.has(row)).weight_ns(), 820);
        assert_eq!(Selection::new(&profile, |row| Part::All.has(row)).weight_ns(), 1000);
    }

    #[test]
    fn calls_have_their_parts_of_the_simulator() {
        let profile = profile();
        let all = Selection::new(&profile, |_| true);
        assert_eq!(all.calls(), [("sendto".to_owned(), 50, 30)]);
    }

    #[test]
    fn groups_and_the_rest_are_all() {
        let profile = profile();
        let rules = Rules::parse("r", "groups:\n- {name: x, function: a}\n- {name: calls, call: '*'}\n").unwrap();
        let all = Selection::new(&profile, |row| Part::Guests.has(row));
        let groups = all.groups(&rules);
        assert_eq!(groups, [("x".to_owned(), 620), ("calls".to_owned(), 80), ("unassigned".to_owned(), 200)]);
    }
}
