//! A run's profile in a few numbers: the time of each group by role and phase, and what Gnomon itself took by call.

use crate::read::{Profile, Row};
use crate::record::Place;
use crate::rules::{Rules, Span};
use crate::tables::{Part, Selection};
use report::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// The processor time that a group of functions took in a phase, in hosts of a role, with what the simulated kernel did for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTime {
    /// Empty for hosts without a role.
    pub role: String,
    /// Empty where the rules have no phases.
    pub phase: String,
    pub group: String,
    pub ns: u64,
    pub samples: u64,
}

/// What Gnomon took for a call of guests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTime {
    pub call: String,
    pub ns: u64,
}

/// A run's profile by some rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Only what is not nothing.
    pub groups: Vec<GroupTime>,
    /// What follows is of the phases alone, where the rules have some. Most first.
    pub calls: Vec<CallTime>,
    /// In programs, in the simulated kernel and network stack, in the engine.
    pub programs_ns: u64,
    pub kernel_ns: u64,
    pub engine_ns: u64,
}

/// Sums up the profile of the run in a data directory.
///
/// # Errors
/// When it has none, or it cannot be read.
pub fn summary(directory: &Path, rules: &Rules) -> Result<Summary> {
    let mut profile = Profile::read(directory)?;
    if rules.needs_lines() {
        profile.read_printed()?;
    }
    Ok(summary_of(&profile, rules))
}

fn summary_of(profile: &Profile, rules: &Rules) -> Summary {
    let whole = Span { name: String::new(), from_ns: 0, until_ns: u64::MAX };
    let spans: Vec<Span> = match rules.phases.is_empty() {
        true => vec![whole],
        false => rules.phases.iter().filter_map(|phase| phase.in_run(profile)).collect(),
    };
    let of_stack = rules.groups_of(profile);
    let mut sums: BTreeMap<(&str, &str, usize), (u64, u64)> = BTreeMap::new();
    for row in profile.rows.iter().filter(|row| Part::Guests.has(row)) {
        let role = rules.role_of(profile.host(row)).unwrap_or("");
        for span in spans.iter().filter(|span| span.has(row.time_ns)) {
            let sum = sums.entry((role, &span.name, of_stack[row.stack as usize])).or_default();
            (sum.0, sum.1) = (sum.0 + row.weight_ns, sum.1 + 1);
        }
    }
    let groups = sums.into_iter().map(|((role, phase, group), (ns, samples))| GroupTime {
        role: role.to_owned(),
        phase: phase.to_owned(),
        group: rules.groups.get(group).map_or(crate::rules::UNASSIGNED, String::as_str).to_owned(),
        ns,
        samples,
    });
    let within = Selection::new(profile, |row| spans.iter().any(|span| span.has(row.time_ns)));
    let calls = within.calls();
    let places = |fits: fn(Place) -> bool| within.filtered(|row: &Row| fits(row.place)).weight_ns();
    Summary {
        groups: groups.collect(),
        calls: calls.into_iter().map(|(call, kernel, stack)| CallTime { call, ns: kernel + stack }).collect(),
        programs_ns: places(|place| place == Place::Program),
        kernel_ns: places(|place| matches!(place, Place::Kernel | Place::Stack)),
        engine_ns: places(|place| place == Place::Engine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_by_role_and_phase() {
        let profile = crate::tables::tests::profile();
        let rules = Rules::parse(
            "r",
            "groups:\n- {name: x, function: a}\nroles: {first: one}\nphases:\n- {name: all, until: 1 s}\n- {name: never, from: 2 s}\n",
        )
        .unwrap();
        let found = summary_of(&profile, &rules);
        let told: Vec<(&str, &str, &str, u64, u64)> = found
            .groups
            .iter()
            .map(|one| (one.role.as_str(), one.phase.as_str(), one.group.as_str(), one.ns, one.samples))
            .collect();
        let expected = [
            ("", "all", "x", 20, 1),
            ("", "all", "unassigned", 80, 2),
            ("first", "all", "x", 600, 1),
            ("first", "all", "unassigned", 200, 1),
        ];
        assert_eq!(told, expected);
        assert_eq!((found.programs_ns, found.kernel_ns, found.engine_ns), (820, 80, 100));
        assert_eq!(found.calls, [CallTime { call: "sendto".to_owned(), ns: 80 }]);
    }
}
