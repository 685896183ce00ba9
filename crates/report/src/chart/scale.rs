//! From data to a place on an axis, and where an axis has its ticks.

use super::{Axis, ScaleKind, Unit};

/// An axis with its ends, its unit, and its place on paper.
#[derive(Clone, Debug)]
pub struct Scale {
    kind: ScaleKind,
    /// Ends in base units.
    pub from: f64,
    pub to: f64,
    /// The places of the ends on paper.
    pub start: f64,
    pub end: f64,
    /// From base units to those shown.
    pub factor: f64,
    pub symbol: &'static str,
    /// Places of labelled ticks in base units, with their labels.
    pub ticks: Vec<(f64, String)>,
    /// Places of lines without label.
    pub minor: Vec<f64>,
}

impl Scale {
    /// For an axis with data between `least` and `most`, on which about `wanted` ticks fit.
    pub fn new(axis: &Axis, least: f64, most: f64, wanted: usize) -> Scale {
        let (least, most) = (axis.from.unwrap_or(least), axis.to.unwrap_or(most));
        let (factor, symbol) = axis.unit.for_axis(most.abs().max(least.abs()));
        let mut scale = Scale {
            kind: axis.scale,
            from: least,
            to: most,
            start: 0.0,
            end: 1.0,
            factor,
            symbol,
            ticks: Vec::new(),
            minor: Vec::new(),
        };
        match axis.scale {
            ScaleKind::Linear => scale.find_linear_ticks(axis, wanted),
            ScaleKind::Log => scale.find_log_ticks(wanted),
        }
        scale
    }

    /// Puts the axis on paper.
    pub fn place(mut self, start: f64, end: f64) -> Scale {
        (self.start, self.end) = (start, end);
        self
    }

    /// The place on paper of a value in base units. Values beyond the ends lie at the ends.
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let share = match self.kind {
            ScaleKind::Linear => (value - self.from) / (self.to - self.from),
            ScaleKind::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        self.start + share * (self.end - self.start)
    }

    pub fn is_log(&self) -> bool {
        self.kind == ScaleKind::Log
    }

    fn find_linear_ticks(&mut self, axis: &Axis, wanted: usize) {
        let (low, high) = (self.from * self.factor, self.to * self.factor);
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let step = nice_step(span / wanted.max(1) as f64, self.symbol);
        // Of what is counted there are no halves, unless all is about a part of one.
        let step = if axis.unit == Unit::Count && span >= 2.0 { step.max(1.0) } else { step };
        let low = if axis.from.is_some() { low } else { (low / step + 1e-9).floor() * step };
        let high =
            if axis.to.is_some() { high.max(low + step) } else { ((high / step - 1e-9).ceil() * step).max(low + step) };
        (self.from, self.to) = (low / self.factor, high / self.factor);
        let decimals = decimals_of(step);
        let first = (low / step - 1e-9).ceil() as i64;
        let last = (high / step + 1e-9).floor() as i64;
        for i in first..=last {
            let value = i as f64 * step;
            let text = format!("{value:.decimals$}").replace('-', "\u{2212}");
            self.ticks.push((value / self.factor, text));
        }
    }

    fn find_log_ticks(&mut self, wanted: usize) {
        let low = (self.from * self.factor).max(1e-9);
        let high = (self.to * self.factor).max(low * 1.0001);
        let low = fine_log_steps(low * 1.0001).rfind(|step| *step <= low * 1.0001).unwrap_or(low);
        let high = fine_log_steps(high).find(|step| *step >= high * 0.9999 && *step > low).unwrap_or(high);
        (self.from, self.to) = (low / self.factor, high / self.factor);
        let inside = |values: &[f64]| -> Vec<f64> {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let all = decades.flat_map(|decade| values.iter().map(move |value| value * 10f64.powi(decade)));
            all.filter(|value| (low * 0.9999..=high * 1.0001).contains(value)).collect()
        };
        let choices: [&[f64]; 3] = [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]];
        let ticks = choices.iter().map(|choice| inside(choice)).find(|ticks| ticks.len() <= wanted + 2);
        for tick in ticks.unwrap_or_else(|| inside(&[1.0])) {
            self.ticks.push((tick / self.factor, plain(tick)));
        }
        let digits: Vec<f64> = (1..10).map(f64::from).collect();
        self.minor = inside(&digits).into_iter().map(|value| value / self.factor).collect();
    }
}

/// 1, 2, 2.5 or 5 times a power of ten; whole minutes' divisors for times in minutes.
fn nice_step(least: f64, symbol: &str) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps: &[f64] = if symbol == "min" && (1.0..30.0).contains(&least) {
        &[1.0, 2.0, 5.0, 10.0, 15.0, 30.0]
    } else {
        &[1.0, 2.0, 2.5, 5.0, 10.0]
    };
    let power = if steps.len() == 6 { 1.0 } else { power };
    steps.iter().map(|step| step * power).find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

fn decimals_of(step: f64) -> usize {
    (0..9).find(|decimals| ((step * 10f64.powi(*decimals)).fract() - 0.5).abs() > 0.499_999).unwrap_or(0) as usize
}

/// Where an axis with a logarithmic scale may end, around a value.
fn fine_log_steps(around: f64) -> impl DoubleEndedIterator<Item = f64> {
    let decade = around.log10().floor() as i32;
    let of_decade = [1.0, 1.5, 2.0, 3.0, 5.0, 7.0];
    (decade - 1..=decade + 1).flat_map(move |decade| of_decade.into_iter().map(move |step| step * 10f64.powi(decade)))
}

/// A tick of a logarithmic axis: as many digits as it needs.
fn plain(value: f64) -> String {
    let decimals = (0..9).find(|decimals| {
        let shifted = value * 10f64.powi(*decimals);
        (shifted - shifted.round()).abs() < shifted * 1e-6
    });
    format!("{value:.*}", decimals.unwrap_or(3) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn linear_axes_end_at_ticks() {
        let axis = Axis::new("", "", Unit::Count).from(0.0);
        let scale = Scale::new(&axis, 0.0, 11.3, 5).place(100.0, 200.0);
        assert_eq!(labels(&scale), ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]);
        assert_eq!((scale.at(0.0), scale.at(12.5), scale.at(99.0)), (100.0, 200.0, 200.0));
    }

    #[test]
    fn what_is_counted_has_whole_ticks() {
        let labels = |least: f64, most: f64| -> Vec<String> {
            let scale = Scale::new(&Axis::new("Hops", "hops", Unit::Count), least, most, 7);
            scale.ticks.iter().map(|(_, label)| label.clone()).collect()
        };
        assert_eq!(labels(0.0, 3.0), ["0", "1", "2", "3"]);
        assert!(labels(0.0, 0.3).contains(&"0.10".to_owned()));
    }

    #[test]
    fn shares_are_in_per_cent() {
        let axis = Axis::new("", "", Unit::Share).from(0.0).to(1.0);
        assert_eq!(labels(&Scale::new(&axis, 0.3, 0.5, 5)), ["0", "20", "40", "60", "80", "100"]);
    }

    #[test]
    fn an_hour_is_divided_as_clocks_are() {
        let axis = Axis::new("", "", Unit::Seconds).from(0.0).to(3600.0);
        assert_eq!(labels(&Scale::new(&axis, 0.0, 3600.0, 6)), ["0", "10", "20", "30", "40", "50", "60"]);
    }

    #[test]
    fn logarithmic_axes_have_round_ticks() {
        let axis = Axis::new("", "", Unit::Seconds).scaled(ScaleKind::Log);
        let scale = Scale::new(&axis, 0.42, 38.0, 7).place(0.0, 100.0);
        assert_eq!(labels(&scale), ["0.5", "1", "2", "5", "10", "20", "50"]);
        assert!((scale.from - 0.3).abs() < 1e-9 && (scale.to - 50.0).abs() < 1e-9, "{} {}", scale.from, scale.to);
        let middle = (0.3f64 * 50.0).sqrt();
        assert!((scale.at(middle) - 50.0).abs() < 1e-6);
    }

    #[test]
    fn data_without_extent_still_have_an_axis() {
        let axis = Axis::new("", "", Unit::Count).from(0.0);
        let scale = Scale::new(&axis, 0.0, 0.0, 5);
        assert!(scale.to > scale.from);
        let log = Scale::new(&Axis::new("", "", Unit::Seconds).scaled(ScaleKind::Log), 1.0, 1.0, 5);
        assert!(log.to > log.from && log.at(1.0).is_finite());
    }
}
