//! What the runs of a laboratory gave, by case and repetition.

use crate::case::{Case, Setting};
use crate::reading::{Quantity, Reading, quantities};
use report::Estimate;

/// A case with its runs.
#[derive(Clone, Debug)]
pub struct Measured {
    pub case: Case,
    /// By repetition, which counts from 1.
    pub readings: Vec<(u32, Reading)>,
    /// Why it is not run at all.
    pub skipped: Option<String>,
    /// Runs that failed, in words.
    pub failures: Vec<String>,
}

impl Measured {
    /// Takes a run's `sim-stats.json`.
    pub fn add(&mut self, repetition: u32, text: &str) {
        match Reading::of(text) {
            Some(reading) => self.readings.push((repetition, reading)),
            None => self.failures.push(format!("{} {repetition}: its sim-stats.json lacks figures", self.case.key)),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Measurements(Vec<Measured>);

impl Measurements {
    /// Without runs yet; what the machine has no memory for is skipped.
    pub fn new(cases: Vec<Case>, setting: &Setting) -> Measurements {
        let measured = |case: Case| {
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            let skipped = (case.memory_bytes > setting.memory_bytes).then(|| {
                let (needs, has) = (gib(case.memory_bytes), gib(setting.memory_bytes));
                format!("takes some {needs:.1} GiB of memory, of which {has:.1} GiB are free")
            });
            Measured { case, readings: Vec::new(), skipped, failures: Vec::new() }
        };
        Measurements(cases.into_iter().map(measured).collect())
    }

    /// How many runs there are to make.
    pub fn runs(&self, setting: &Setting) -> usize {
        let is_run = |measured: &&Measured| measured.skipped.is_none();
        self.0.iter().filter(is_run).map(|measured| measured.case.repetitions(setting) as usize).sum()
    }

    /// Whether nothing was run.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|measured| measured.readings.is_empty())
    }

    pub fn cases(&self) -> impl Iterator<Item = &Measured> {
        self.0.iter()
    }

    pub(crate) fn cases_mut(&mut self) -> impl Iterator<Item = &mut Measured> {
        self.0.iter_mut()
    }

    pub fn failures(&self) -> Vec<String> {
        self.0.iter().flat_map(|measured| measured.failures.iter().cloned()).collect()
    }

    /// What is not run for want of memory, in words.
    pub fn skipped(&self) -> Vec<String> {
        let skipped = |measured: &Measured| Some(format!("{} {}", measured.case.key, measured.skipped.as_ref()?));
        self.0.iter().filter_map(skipped).collect()
    }

    fn readings(&self, key: &str) -> &[(u32, Reading)] {
        self.0.iter().find(|measured| measured.case.key == key).map_or(&[], |measured| &measured.readings)
    }

    /// A quantity's values in a case, by repetition.
    pub fn values(&self, key: &str, quantity: Quantity) -> Vec<f64> {
        self.readings(key).iter().map(|(_, reading)| (quantity.of)(reading)).collect()
    }

    pub fn estimate(&self, key: &str, quantity: Quantity) -> Option<Estimate> {
        Estimate::of(&self.values(key, quantity))
    }

    /// Something of two cases' runs, by repetitions that both have.
    pub fn paired<T>(&self, first: &str, second: &str, of: impl Fn(&Reading, &Reading) -> T) -> Vec<T> {
        let other = |repetition: u32| self.readings(second).iter().find(|(other, _)| *other == repetition);
        let pair = |(repetition, reading): &(u32, Reading)| Some(of(reading, &other(*repetition)?.1));
        self.readings(first).iter().filter_map(pair).collect()
    }

    /// The first case's value over the second's, by repetition.
    pub fn ratios(&self, first: &str, second: &str, quantity: Quantity) -> Vec<f64> {
        self.paired(first, second, |a, b| (quantity.of)(a) / (quantity.of)(b))
    }

    /// On which machines the runs were made; more than one makes comparisons doubtful.
    pub fn machines(&self) -> Vec<String> {
        let mut all: Vec<String> =
            self.0.iter().flat_map(|measured| &measured.readings).map(|(_, reading)| reading.machine.clone()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// A row for each run: the laboratory, the case, its factors, the repetition, and every quantity in base units.
    pub fn to_csv(&self, lab: &str) -> String {
        let mut table = csv::Writer::from_writer(Vec::new());
        let factors = self.0.first().map(|measured| &measured.case.factors[..]).unwrap_or_default();
        let mut header = vec!["lab", "case"];
        header.extend(factors.iter().map(|(name, _)| *name));
        header.push("repetition");
        header.extend(quantities().map(|quantity| quantity.column));
        table.write_record(header).expect("memory can be written to");
        for measured in &self.0 {
            for (repetition, reading) in &measured.readings {
                let mut row = vec![lab.to_owned(), measured.case.key.clone()];
                row.extend(measured.case.factors.iter().map(|(_, value)| value.clone()));
                row.push(repetition.to_string());
                row.extend(quantities().map(|quantity| number((quantity.of)(reading))));
                table.write_record(row).expect("rows are of equal length");
            }
        }
        String::from_utf8(table.into_inner().expect("memory can be written to")).expect("cells are text")
    }
}

/// What is no number is empty.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{}", (value * 1e9).round() / 1e9) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Experiment, Size};
    use crate::reading::WALL;
    use crate::reading::tests::stats;

    fn measurements() -> Measurements {
        let case = |key: &str, memory_bytes| Case {
            key: key.into(),
            factors: vec![("hosts", key.to_owned())],
            experiment: Experiment::File(String::new()),
            options: Vec::new(),
            memory_bytes,
        };
        let setting = Setting { memory_bytes: 1 << 30, ..Setting::tried(Size::Small, &[]) };
        let mut all = Measurements::new(vec![case("a", 1), case("b", 1), case("c", 2 << 30)], &setting);
        assert_eq!(all.runs(&setting), 4);
        for (index, measured) in all.cases_mut().enumerate().filter(|(index, _)| *index < 2) {
            // The second repetition of b is missing.
            (1..=2 - index as u32).for_each(|n| measured.add(n, &stats(f64::from(n) * (1.0 + index as f64), 5)));
        }
        all
    }

    #[test]
    fn ratios_are_of_the_same_repetition() {
        let all = measurements();
        assert_eq!(all.values("a", WALL), [1.0, 2.0]);
        assert_eq!(all.ratios("b", "a", WALL), [2.0]);
        assert_eq!(all.values("nothing", WALL), [0.0; 0]);
    }

    #[test]
    fn what_does_not_fit_is_skipped_and_said() {
        assert_eq!(measurements().skipped(), ["c takes some 2.0 GiB of memory, of which 1.0 GiB are free"]);
    }

    #[test]
    fn the_table_has_a_row_for_each_run() {
        let text = measurements().to_csv("phold");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("lab,case,hosts,repetition,wall_s,simulated_per_wall,"), "{text}");
        assert!(lines[1].starts_with("phold,a,a,1,1,60,0.25,0.5,5,7,"), "{text}");
        assert_eq!(lines.len(), 4);
    }
}
