//! To which ports an exit connects, for most addresses: the summary of its policy (dir-spec, "p" lines).

/// Ports that are accepted, as ranges in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    ranges: Box<[(u16, u16)]>,
    /// The ranges are of what is rejected.
    rejects: bool,
}

impl Ports {
    /// `accept 80,443,8000-8010`, or `reject ...`.
    pub fn read(text: &str) -> Option<Ports> {
        let (verb, list) = text.split_once(' ')?;
        let rejects = match verb {
            "accept" => false,
            "reject" => true,
            _ => return None,
        };
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.parse().ok()?, last.parse().ok()?);
            (first <= last).then_some((first, last))
        };
        let ranges = list.trim().split(',').map(range).collect::<Option<Box<[_]>>>()?;
        Some(Ports { ranges, rejects })
    }

    pub fn accepts(&self, port: u16) -> bool {
        self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&port)) != self.rejects
    }

    /// Whether no port is accepted.
    pub fn is_none(&self) -> bool {
        if self.rejects { self.ranges.contains(&(1, u16::MAX)) } else { self.ranges.is_empty() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_what_is_accepted_or_rejected() {
        let some = Ports::read("accept 80,443,8000-8010").unwrap();
        assert!(some.accepts(80) && some.accepts(8005) && !some.accepts(81) && !some.is_none());
        let most = Ports::read("reject 25,119").unwrap();
        assert!(!most.accepts(25) && most.accepts(80));
        assert!(Ports::read("reject 1-65535").unwrap().is_none() && Ports::default().is_none());
        assert!(!Ports::default().accepts(80));
        for wrong in ["accept", "allow 80", "accept 9-8", "accept 70000", "accept "] {
            assert_eq!(Ports::read(wrong), None, "{wrong}");
        }
    }
}
