//! Generated programs: random sequences of system calls, run natively and as guests, which must print the same.
//!
//! `README.md` beside this file tells how programs are written and what becomes of a difference. `GNOMON_TEST_SEED=N` generates other programs,
//! `GNOMON_TEST_PROGRAMS=N` so many, `GNOMON_TEST_FROM=N` from number N on; `GNOMON_TEST_SHRINK=0` leaves differing programs as they are;
//! `make soak` goes on for hours.

#[path = "../common/mod.rs"]
mod common;
mod explained;
mod families;
mod kind;
mod shrink;
mod sides;
mod writer;

use shrink::shrink;
use sides::{Sides, Verdict};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Programs that `make test` generates.
const SAMPLE: u64 = 300;

/// Programs that run as guests of one host, one after the other.
const BATCH: u64 = 100;

/// Batches that run at once: natively, programs mostly wait.
const AT_ONCE: usize = 3;

/// What a number of generated programs showed.
#[derive(Default)]
struct Tally {
    programs: u64,
    lines: u64,
    alike: u64,
    /// Native runs that differed among themselves.
    unstable: u64,
    explained: u64,
    /// The programs that differ, by kind of difference.
    differing: BTreeMap<String, Vec<String>>,
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Generates and compares programs `first..first + count`. The first difference of each kind is shrunk, and left in `findings`.
fn compare(sides: &Sides, seed: u64, first: u64, count: u64, findings: &Path, tally: &Mutex<Tally>) {
    let programs: Vec<Vec<String>> =
        (first..first + count).map(|n| families::generate(seed, n, sides.is_root())).collect();
    for (place, verdict) in sides.judge(&programs).into_iter().enumerate() {
        let mut all = tally.lock().expect("a tally");
        all.programs += 1;
        all.lines += programs[place].len() as u64;
        // Whoever asks for a single program wants to see it.
        if programs.len() == 1 && !matches!(verdict, Verdict::Differs { .. }) {
            println!("{verdict:?}\n{}", sides.show(&programs[place]));
        }
        match verdict {
            Verdict::Alike => all.alike += 1,
            Verdict::Unstable => all.unstable += 1,
            Verdict::Explained(_) => all.explained += 1,
            Verdict::Differs { native, guest } => {
                let name = format!("{seed}-{}", first + place as u64);
                let same = all.differing.entry(kind::of(&programs[place], &native, &guest)).or_default();
                same.push(name.clone());
                let is_new = same.len() == 1;
                drop(all);
                if is_new {
                    let whole = programs[place].clone();
                    let small = if number_from("GNOMON_TEST_SHRINK") == Some(0) { whole } else { shrink(sides, whole) };
                    let text = sides.show(&small);
                    fs::write(findings.join(&name), format!("{}\n\n{text}", sides::text(&small))).expect("a finding");
                    println!("program {name} prints something else:\n{text}");
                }
            }
        }
    }
}

/// Compares programs, some batches at once, until all are done or `enough` says so.
fn compare_all(
    sides: &Sides,
    seed: u64,
    programs: Range<u64>,
    findings: &Path,
    enough: impl Fn() -> bool + Sync,
) -> Tally {
    let tally = Mutex::new(Tally::default());
    let next = AtomicU64::new(programs.start);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while !enough() {
                    let first = next.fetch_add(BATCH, Ordering::Relaxed);
                    if first >= programs.end {
                        break;
                    }
                    compare(sides, seed, first, BATCH.min(programs.end - first), findings, &tally);
                    println!("{}", line(&tally.lock().expect("a tally")));
                }
            });
        }
    });
    tally.into_inner().expect("a tally")
}

#[test]
fn generated_programs_print_the_same() {
    let Some(sides) = Sides::new("generated/sample") else { return };
    if !sides.is_root() {
        // Guests are root, whose privileges the native side has in its namespaces only.
        println!("left out: only root's native side may do what guests may");
        return;
    }
    let seed = number_from("GNOMON_TEST_SEED").unwrap_or(1);
    let count = number_from("GNOMON_TEST_PROGRAMS").unwrap_or(SAMPLE);
    let from = number_from("GNOMON_TEST_FROM").unwrap_or(0);
    let findings = common::folder("generated/findings");
    let tally = compare_all(&sides, seed, from..from + count, &findings, || false);
    show_kinds(&tally);
    assert!(tally.differing.is_empty(), "{}; findings in {}", line(&tally), findings.display());
    assert!(tally.alike * 10 >= tally.programs * 8, "too few programs can be compared: {}", line(&tally));
}

fn line(tally: &Tally) -> String {
    format!(
        "{} programs of {} calls: {} alike, {} explained, {} natively unstable, {} differ",
        tally.programs,
        tally.lines,
        tally.alike,
        tally.explained,
        tally.unstable,
        tally.differing.values().map(Vec::len).sum::<usize>()
    )
}

/// Prints the kinds of differences, the most frequent first, each with a few of its programs.
fn show_kinds(tally: &Tally) {
    let mut kinds: Vec<_> = tally.differing.iter().collect();
    kinds.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (kind, names) in kinds {
        println!("{:5} {kind}: {}", names.len(), names.iter().take(6).cloned().collect::<Vec<_>>().join(" "));
    }
}

/// The first line of kept programs whose native side uses privileges that an ordinary user has in no namespace of its own.
const NEEDS_ROOT: &str = "# needs root natively";

/// Whether a line makes somebody else of a process or a file, which an ordinary user's namespaces do not know.
fn names_another_user(line: &str) -> bool {
    let mut words = line.split_whitespace().skip(1);
    let changes_users = words.next().is_some_and(|call| {
        (call.starts_with("set") && (call.ends_with("uid") || call.ends_with("gid"))) || call.contains("chown")
    });
    changes_users && words.any(|word| word.parse::<u32>().is_ok_and(|id| id >= 100))
}

/// What was found once and mended, each with what it is about in its first lines.
#[test]
fn kept_programs_print_the_same() {
    let Some(sides) = Sides::new("generated/kept") else { return };
    let folder = common::root().join("tests/generated/kept");
    let mut names: Vec<_> = fs::read_dir(&folder).expect("the folder").map(|e| e.expect("an entry").path()).collect();
    names.sort();
    let all = names.len();
    for path in &names {
        let text = common::read(path);
        let needs_root = text.lines().any(names_another_user);
        assert!(!needs_root || text.starts_with(NEEDS_ROOT), "{} begins with: {NEEDS_ROOT}", path.display());
    }
    names.retain(|path| sides.is_root() || !common::read(path).starts_with(NEEDS_ROOT));
    assert!(names.len() * 2 > all, "most need no root");
    let lines = |path: &Path| -> Vec<String> {
        common::read(path)
            .lines()
            .filter(|line| !line.starts_with('#') && !line.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let programs: Vec<Vec<String>> = names.iter().map(|path| lines(path)).collect();
    let mut problems = Vec::new();
    for (place, verdict) in sides.judge(&programs).into_iter().enumerate() {
        if !matches!(verdict, Verdict::Alike) {
            problems.push(format!("{}: {verdict:?}\n{}", names[place].display(), sides.show(&programs[place])));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{} programs, {} left out, which need root natively", programs.len(), all - programs.len());
}

/// Every call with anything behind its pointers: nothing is compared, but the simulator must live on, and with it all other guests.
#[test]
fn garbage_harms_nobody_else() {
    let Some(sides) = Sides::new("generated/garbage") else { return };
    let seed = number_from("GNOMON_TEST_SEED").unwrap_or(1);
    let count = number_from("GNOMON_TEST_PROGRAMS").unwrap_or(SAMPLE);
    no_harm(&sides, seed, 0, count);
}

fn no_harm(sides: &Sides, seed: u64, first: u64, count: u64) {
    let programs: Vec<Vec<String>> = (first..first + count).map(|n| families::generate_garbage(seed, n)).collect();
    for (place, printed) in sides.guest(&programs).into_iter().enumerate() {
        let number = first + place as u64;
        assert!(
            !printed.contains("(the run ended here"),
            "seed {seed}, program {number}:\n{}{printed}",
            sides::text(&programs[place])
        );
    }
}

/// For `make soak`: programs without end, until `GNOMON_SOAK_SECONDS` are over.
#[test]
#[ignore = "takes as long as GNOMON_SOAK_SECONDS says"]
fn soak() {
    let Some(sides) = Sides::new("generated/soak") else { return };
    let seconds = number_from("GNOMON_SOAK_SECONDS").unwrap_or(3600);
    let seed = number_from("GNOMON_TEST_SEED").unwrap_or(2);
    let findings = common::folder("generated/soak-findings");
    let clock = base::wall::WallClock::start();
    let first = number_from("GNOMON_TEST_FROM").unwrap_or(0);
    let enough = || clock.elapsed().as_secs() >= seconds;
    let tally = std::thread::scope(|scope| {
        scope.spawn(|| {
            for first in (first..).step_by(BATCH as usize).take_while(|_| !enough()) {
                no_harm(&sides, seed, first, BATCH);
            }
        });
        compare_all(&sides, seed, first..u64::MAX, &findings, enough)
    });
    show_kinds(&tally);
    println!("seed {seed}; findings in {}", findings.display());
    assert!(tally.differing.is_empty(), "{}", line(&tally));
}
