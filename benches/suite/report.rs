//! The table: each line with its native figure, ratio, target and verdict, printed as soon as it is measured; and the same as JSON.

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Repeated measurements of one thing.
#[derive(Clone, Debug)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    pub fn new(mut values: Vec<f64>) -> Samples {
        assert!(!values.is_empty(), "a measure without samples");
        values.sort_by(f64::total_cmp);
        Samples { sorted: values }
    }

    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        if self.sorted.len() % 2 == 1 {
            self.sorted[middle]
        } else {
            (self.sorted[middle - 1] + self.sorted[middle]) / 2.0
        }
    }

    fn ends(&self) -> (f64, f64) {
        (self.sorted[0], self.sorted[self.sorted.len() - 1])
    }

    fn json(&self) -> Value {
        let (min, max) = self.ends();
        json!({ "median": self.median(), "min": min, "max": max, "samples": self.sorted.len() })
    }
}

/// What a line is held against.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// At most so many times the native figure.
    TimesNative(f64),
    AtMost(f64),
    AtLeast(f64),
    /// For information.
    None,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    pub what: String,
    pub unit: &'static str,
    pub gnomon: Samples,
    pub native: Option<Samples>,
    pub target: Target,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        let native = self.native.as_ref()?.median();
        (native > 0.0).then(|| self.gnomon.median() / native)
    }

    fn passes(&self) -> Option<bool> {
        match self.target {
            Target::TimesNative(most) => Some(self.ratio()? <= most),
            Target::AtMost(most) => Some(self.gnomon.median() <= most),
            Target::AtLeast(least) => Some(self.gnomon.median() >= least),
            Target::None => None,
        }
    }

    fn target_text(&self) -> String {
        match self.target {
            Target::TimesNative(most) => format!("<= {most} x native"),
            Target::AtMost(most) => format!("<= {most} {}", self.unit),
            Target::AtLeast(least) => format!(">= {least} {}", self.unit),
            Target::None => String::new(),
        }
    }

    fn verdict(&self) -> &'static str {
        match self.passes() {
            Some(true) => "pass",
            Some(false) => "MISS",
            None => "",
        }
    }

    fn print(&self) {
        let gnomon = with_ends(&self.gnomon, self.unit);
        let native = self.native.as_ref().map_or_else(|| "-".to_owned(), |native| with_ends(native, self.unit));
        let ratio = self.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        println!(
            "  {:<46} {gnomon:>30} {native:>30} {ratio:>7}  {:<16} {}",
            self.what,
            self.target_text(),
            self.verdict()
        );
    }

    fn json(&self, section: &str) -> Value {
        json!({
            "section": section,
            "what": self.what,
            "unit": self.unit,
            "gnomon": self.gnomon.json(),
            "native": self.native.as_ref().map(Samples::json),
            "ratio": self.ratio(),
            "target": self.target_text(),
            "pass": self.passes(),
        })
    }
}

/// The median with its unit, and the ends where they differ.
fn with_ends(samples: &Samples, unit: &str) -> String {
    let (min, max) = samples.ends();
    let median = number(samples.median());
    if samples.sorted.len() < 2 {
        return format!("{median} {unit}");
    }
    format!("{median} {unit} ({}..{})", number(min), number(max))
}

/// Three significant digits or so.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 1.0 => format!("{value:.3}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// All lines so far.
#[derive(Debug, Default)]
pub struct Report {
    section: String,
    lines: Vec<Value>,
    passed: usize,
    missed: Vec<String>,
}

impl Report {
    pub fn new() -> Report {
        Report::default()
    }

    pub fn section(&mut self, title: &str) {
        self.section = title.to_owned();
        println!("{title}");
        println!("  {:<46} {:>30} {:>30} {:>7}  {:<16}", "(median, min..max)", "Gnomon", "native", "ratio", "target");
    }

    pub fn add(&mut self, line: Line) {
        line.print();
        match line.passes() {
            Some(true) => self.passed += 1,
            Some(false) => self.missed.push(line.what.clone()),
            None => {}
        }
        self.lines.push(line.json(&self.section));
    }

    /// Words below a table: what a figure means, what was left out.
    pub fn note(&self, text: &str) {
        println!("  {text}");
    }

    pub fn conclude(&self, elapsed: Duration) {
        println!("\n{} targets met, {} missed; {:.0} s", self.passed, self.missed.len(), elapsed.as_secs_f64());
        for what in &self.missed {
            println!("  missed: {what}");
        }
    }

    pub fn write_json(&self, path: &Path, machine: Value, elapsed: Duration) -> std::io::Result<()> {
        let document = json!({ "machine": machine, "seconds": elapsed.as_secs_f64(), "lines": self.lines });
        std::fs::write(path, format!("{document:#}\n"))
    }
}
