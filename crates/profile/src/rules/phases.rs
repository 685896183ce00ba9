//! Phases of a run: by simulated time, or by lines that guests print.

use super::pattern::Pattern;
use crate::read::Profile;
use crate::yaml::Node;
use report::Result;

/// A part of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    pub(crate) name: String,
    from: Option<Moment>,
    until: Option<Moment>,
}

/// When something begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Moment {
    At(u64),
    /// When a host's guest first prints a line that fits.
    Printed {
        host: Pattern,
        line: Pattern,
    },
}

/// A phase of one run, in nanoseconds of simulated time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

impl Span {
    pub(crate) fn has(&self, time_ns: u64) -> bool {
        (self.from_ns..self.until_ns).contains(&time_ns)
    }
}

impl Phase {
    pub(super) fn read(node: &Node<'_>) -> Result<Phase> {
        let (mut name, mut from, mut until) = (None, None, None);
        for (key, value) in node.map(&["name", "from", "until"])? {
            match key.text {
                "name" => name = Some(value.text()?.to_owned()),
                "from" => from = Some(Moment::read(&value)?),
                _ => until = Some(Moment::read(&value)?),
            }
        }
        let Some(name) = name else { return Err(node.wrong("a phase needs a 'name'")) };
        Ok(Phase { name, from, until })
    }

    pub(super) fn needs_lines(&self) -> bool {
        [&self.from, &self.until].into_iter().flatten().any(|moment| matches!(moment, Moment::Printed { .. }))
    }

    /// Where it lies in a run; None where it begins with a line that nobody printed.
    pub(crate) fn in_run(&self, profile: &Profile) -> Option<Span> {
        let from_ns = self.from.as_ref().map_or(Some(0), |moment| moment.in_run(profile))?;
        let until_ns = self.until.as_ref().and_then(|moment| moment.in_run(profile)).unwrap_or(u64::MAX);
        Some(Span { name: self.name.clone(), from_ns, until_ns })
    }
}

impl Moment {
    fn read(node: &Node<'_>) -> Result<Moment> {
        if !node.is_map() {
            let time = base::quantity::parse_duration(node.text()?);
            return time.map(|time| Moment::At(time.as_nanos())).map_err(|error| {
                node.wrong(&format!("{error}: write a time such as '30 s', or {{host: NAME, line: PATTERN}}"))
            });
        }
        let (mut host, mut line) = (Pattern::new("*"), None);
        for (key, value) in node.map(&["host", "line"])? {
            match key.text {
                "host" => host = Pattern::new(value.text()?),
                _ => line = Some(Pattern::new(value.text()?)),
            }
        }
        let Some(line) = line else { return Err(node.wrong("a printed line is named by 'line', a pattern")) };
        Ok(Moment::Printed { host, line })
    }

    fn in_run(&self, profile: &Profile) -> Option<u64> {
        match self {
            Moment::At(time) => Some(*time),
            Moment::Printed { host, line } => {
                let fits = |printed: &&crate::read::Printed| {
                    let name = profile.about.hosts.get(printed.host as usize);
                    name.is_some_and(|name| host.fits(name)) && line.fits(&printed.line)
                };
                profile.printed.iter().filter(fits).map(|printed| printed.time_ns).min()
            }
        }
    }
}
