//! Goodput of bulk transfers over a grid of round trips, losses and rates, beside what Linux reached (`goodput/linux.csv`) over the same line.
//! The cheap cells run always, the whole grid by `make goodput`, which also draws the figure of `docs/tcp-goodput.md`.

#[path = "goodput/figure.rs"]
mod figure;
#[path = "goodput/line.rs"]
mod line;
#[path = "goodput/theory.rs"]
mod theory;

use line::{Cell, Show};
use std::collections::BTreeMap;

const LINUX: &str = include_str!("goodput/linux.csv");

/// What differs from Linux's mean by no more than this is equal, or by no more than the 95 % interval of the difference.
const TOLERANCE: f64 = 0.05;
/// So many cells are equal, and none differs by more than that.
const EQUAL: f64 = 0.90;
const WORST: f64 = 0.15;

/// Cells of which all transfers together carry less than this are cheap.
const CHEAP_BITS: f64 = 2.5e9;

/// A cell with Linux's goodputs, in bits per second, by seed.
struct Recorded {
    cell: Cell,
    seeds: Vec<(u64, f64)>,
}

fn recorded() -> Vec<Recorded> {
    let mut cells: Vec<Recorded> = Vec::new();
    for row in LINUX.lines().filter(|row| !row.starts_with('#') && !row.starts_with("mbit")) {
        let words: Vec<&str> = row.split(',').collect();
        let number = |at: usize| -> u64 { words[at].parse().unwrap_or_else(|_| panic!("linux.csv: {row}")) };
        let loss = words[2].parse().unwrap_or_else(|_| panic!("linux.csv: {row}"));
        let cell = Cell { mbit: number(0), rtt_ms: number(1), loss, seconds: number(3) };
        let value = (number(4), number(5) as f64 * 8.0 / cell.seconds as f64);
        match cells.iter_mut().find(|known| known.cell == cell) {
            Some(known) => known.seeds.push(value),
            None => cells.push(Recorded { cell, seeds: vec![value] }),
        }
    }
    cells
}

/// Of some values.
struct Mean {
    mean: f64,
    /// Of the mean itself; nothing for a single value.
    variance: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Mean {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = if values.len() > 1 { squares / (count - 1.0) / count } else { 0.0 };
        Mean { mean, variance }
    }
}

struct Outcome {
    cell: Cell,
    ours: Mean,
    linux: Mean,
}

impl Outcome {
    /// Relative to Linux's mean.
    fn difference(&self) -> f64 {
        self.ours.mean / self.linux.mean - 1.0
    }

    /// Half of the 95 % interval of the difference of means (Welch's; with 20 seeds each, t is between 2.02 and 2.09).
    fn interval(&self) -> f64 {
        2.05 * (self.ours.variance + self.linux.variance).sqrt() / self.linux.mean
    }

    fn is_equal(&self) -> bool {
        self.difference().abs() <= TOLERANCE.max(self.interval())
    }

    fn print(&self) {
        let Cell { mbit, rtt_ms, loss, seconds } = self.cell;
        println!(
            "{mbit:5} Mbit/s {rtt_ms:4} ms loss {loss:6} {seconds:4} s: {:9.4} Linux {:9.4} Mbit/s, {:+6.2} % (interval {:.2} %){}",
            self.ours.mean / 1e6,
            self.linux.mean / 1e6,
            100.0 * self.difference(),
            100.0 * self.interval(),
            if self.is_equal() { "" } else { "  <<<" }
        );
    }
}

fn play(cells: &[Recorded]) -> Vec<Outcome> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let outcomes = std::sync::Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(Recorded { cell, seeds }) = cells.get(index) else { return };
                    let goodput = |seed| line::transfer(cell, seed, Show::Nothing) as f64 * 8.0 / cell.seconds as f64;
                    let ours: Vec<f64> = seeds.iter().map(|(seed, _)| goodput(*seed)).collect();
                    let linux: Vec<f64> = seeds.iter().map(|(_, value)| *value).collect();
                    let outcome = Outcome { cell: *cell, ours: Mean::of(&ours), linux: Mean::of(&linux) };
                    outcomes.lock().expect("nobody panics with it").insert(index, outcome);
                }
            });
        }
    });
    outcomes.into_inner().expect("nobody panics with it").into_values().collect()
}

fn judge(outcomes: &[Outcome]) {
    for outcome in outcomes {
        outcome.print();
    }
    let equal = outcomes.iter().filter(|outcome| outcome.is_equal()).count();
    let worst = outcomes.iter().map(|outcome| outcome.difference().abs()).fold(0.0, f64::max);
    println!("{equal} of {} cells equal Linux, the worst differs by {:.1} %", outcomes.len(), 100.0 * worst);
    assert!(equal as f64 >= EQUAL * outcomes.len() as f64, "{equal} of {} cells equal Linux", outcomes.len());
    assert!(worst <= WORST, "one differs by {:.1} %", 100.0 * worst);
}

/// The cells that take few packets.
#[test]
fn goodput_over_losses_is_that_of_linux() {
    let bits = |cell: &Recorded| cell.seeds.iter().map(|(_, goodput)| goodput).sum::<f64>() * cell.cell.seconds as f64;
    let cheap: Vec<Recorded> = recorded().into_iter().filter(|cell| bits(cell) < CHEAP_BITS).collect();
    assert!(cheap.len() > 40, "{} cells", cheap.len());
    judge(&play(&cheap));
}

#[test]
#[ignore = "minutes: make goodput"]
fn the_whole_grid_is_that_of_linux() {
    let outcomes = play(&recorded());
    let figure = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tcp-goodput.svg");
    std::fs::write(figure, figure::draw(&outcomes)).expect("the figure written");
    judge(&outcomes);
}

/// `CELL="30 30 0.001 10 1 packets" cargo test ... -- --ignored --nocapture trace`: a cell, a seed, and what to print of it.
#[test]
#[ignore = "prints one transfer"]
fn trace() {
    let Ok(words) = std::env::var("CELL") else { return };
    let words: Vec<&str> = words.split(' ').collect();
    let number = |at: usize| -> u64 { words[at].parse().expect("a number") };
    let cell =
        Cell { mbit: number(0), rtt_ms: number(1), loss: words[2].parse().expect("a share"), seconds: number(3) };
    let show = if words.get(5) == Some(&"packets") { Show::Packets } else { Show::States };
    println!("got {}", line::transfer(&cell, number(4), show));
}
