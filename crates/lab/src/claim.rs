//! Claims of publications, and how they are judged.
//!
//! A claim is a statement with a bound, such as "a namespace takes at most 0.275 ms". Its quantity is computed in each repetition; the
//! verdict follows from the 95 % interval of the mean (Student's t). If all of the interval keeps the bound, the claim is confirmed; if
//! none of it does, it is contradicted; otherwise, and where this machine cannot tell, it is undecided.

use report::Estimate;
use report::chart::Unit;

/// What was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    /// As texts refer to it: "Tracey 2017".
    pub short: &'static str,
    pub authors: &'static str,
    pub title: &'static str,
    /// Where, and when.
    pub place: &'static str,
}

/// Where in a publication something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    pub publication: &'static Publication,
    /// "Table 4.1", "section 6".
    pub passage: &'static str,
}

impl Source {
    /// "Tracey 2017, Table 4.1".
    pub fn text(&self) -> String {
        format!("{}, {}", self.publication.short, self.passage)
    }
}

/// What a claim says of its quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Between(f64, f64),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// A sentence that is true or not.
    pub statement: String,
    /// The published number, in words.
    pub published: String,
    pub source: Source,
    pub bound: Bound,
    pub unit: Unit,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Confirmed,
    Contradicted,
    /// Why.
    Undecided(String),
}

impl Verdict {
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Contradicted => "contradicted",
            Verdict::Undecided(_) => "undecided",
        }
    }

    /// With the reason, if there is one.
    pub fn text(&self) -> String {
        match self {
            Verdict::Undecided(why) => format!("undecided: {why}"),
            decided => decided.name().to_owned(),
        }
    }
}

/// A claim with what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub claim: Claim,
    /// None if nothing was measured.
    pub estimate: Option<Estimate>,
    pub verdict: Verdict,
}

impl Claim {
    /// Judges the claim by its quantity's value in each repetition. An obstacle is why this machine, or this size, cannot decide it.
    pub fn judge(self, values: &[f64], obstacle: Option<String>) -> Judgement {
        let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        let estimate = Estimate::of(&finite);
        let verdict = match obstacle {
            Some(why) => Verdict::Undecided(why),
            None => verdict(estimate.as_ref(), self.bound),
        };
        Judgement { claim: self, estimate, verdict }
    }
}

impl Bound {
    pub fn text(self, unit: Unit) -> String {
        match self {
            Bound::AtMost(most) => format!("at most {}", unit.show(most)),
            Bound::AtLeast(least) => format!("at least {}", unit.show(least)),
            Bound::Between(least, most) => format!("{} to {}", unit.show(least), unit.show(most)),
        }
    }

    /// Its ends, which may be infinite.
    fn ends(self) -> (f64, f64) {
        match self {
            Bound::AtMost(most) => (f64::NEG_INFINITY, most),
            Bound::AtLeast(least) => (least, f64::INFINITY),
            Bound::Between(least, most) => (least, most),
        }
    }
}

fn verdict(estimate: Option<&Estimate>, bound: Bound) -> Verdict {
    let Some(estimate) = estimate else { return Verdict::Undecided("it was not measured".to_owned()) };
    let Some((low, high)) = estimate.low().zip(estimate.high()) else {
        return Verdict::Undecided("a single repetition has no interval; use --repeat 3".to_owned());
    };
    let (least, most) = bound.ends();
    if low >= least && high <= most {
        Verdict::Confirmed
    } else if high < least || low > most {
        Verdict::Contradicted
    } else {
        Verdict::Undecided("the interval reaches over the bound".to_owned())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const PUBLICATION: Publication =
        Publication { short: "Nobody 1970", authors: "A. Nobody", title: "Nothing", place: "Nowhere, 1970" };

    pub fn claim(bound: Bound) -> Claim {
        Claim {
            statement: "It is so".into(),
            published: "2".into(),
            source: Source { publication: &PUBLICATION, passage: "Table 1" },
            bound,
            unit: Unit::Count,
        }
    }

    /// The interval of 10, 12, 14 is from 7.03 to 16.97.
    fn verdict_on(bound: Bound) -> Verdict {
        claim(bound).judge(&[10.0, 12.0, 14.0], None).verdict
    }

    #[test]
    fn a_claim_is_decided_if_the_whole_interval_is_on_one_side() {
        assert_eq!(verdict_on(Bound::AtMost(17.0)), Verdict::Confirmed);
        assert_eq!(verdict_on(Bound::AtMost(7.0)), Verdict::Contradicted);
        assert_eq!(verdict_on(Bound::AtMost(12.0)).name(), "undecided");
        assert_eq!(verdict_on(Bound::AtLeast(7.0)), Verdict::Confirmed);
        assert_eq!(verdict_on(Bound::AtLeast(17.0)), Verdict::Contradicted);
        assert_eq!(verdict_on(Bound::AtLeast(12.0)).name(), "undecided");
        assert_eq!(verdict_on(Bound::Between(7.0, 17.0)), Verdict::Confirmed);
        assert_eq!(verdict_on(Bound::Between(17.0, 20.0)), Verdict::Contradicted);
        assert_eq!(verdict_on(Bound::Between(1.0, 7.0)), Verdict::Contradicted);
        assert_eq!(verdict_on(Bound::Between(10.0, 20.0)).name(), "undecided");
        assert_eq!(verdict_on(Bound::Between(11.0, 13.0)).name(), "undecided");
    }

    #[test]
    fn what_cannot_be_decided_says_why() {
        let judge = |values: &[f64], obstacle: Option<&str>| {
            claim(Bound::AtMost(100.0)).judge(values, obstacle.map(str::to_owned)).verdict
        };
        assert_eq!(judge(&[1.0, 1.0], Some("too few processors")), Verdict::Undecided("too few processors".into()));
        assert!(judge(&[1.0], None).text().contains("--repeat"));
        assert!(judge(&[], None).text().contains("not measured"));
        assert!(judge(&[f64::NAN], None).text().contains("not measured"));
        assert_eq!(judge(&[1.0, 1.0], None), Verdict::Confirmed);
    }

    #[test]
    fn a_bound_in_words() {
        assert_eq!(Bound::AtMost(0.5).text(Unit::Seconds), "at most 0.500\u{a0}s");
        assert_eq!(Bound::Between(0.9, 1.1).text(Unit::Fraction), "0.900 to 1.10");
    }
}
