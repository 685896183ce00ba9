//! Makes a program that differs as small as it can be and still differ.

use crate::sides::{Sides, Verdict};

/// Rounds of shrinking, each of which tries everything once.
const MOST_ROUNDS: usize = 4;

/// A line that no program has, which the runner takes for one that returned -1.
const NO_LINE: usize = 95;

/// The smallest program found that prints something else as a guest. Lines that others refer to keep their numbers while it
/// looks: a removed line stays as an empty one until the end.
pub fn shrink(sides: &Sides, mut program: Vec<String>) -> Vec<String> {
    for _ in 0..MOST_ROUNDS {
        let before = program.clone();
        remove_lines(sides, &mut program);
        simplify_words(sides, &mut program);
        if program == before {
            break;
        }
    }
    let small = compact(&program);
    if differs(sides, &small) { small } else { program }
}

fn differs(sides: &Sides, program: &[String]) -> bool {
    matches!(sides.judge(&[program.to_vec()]).remove(0), Verdict::Differs { .. })
}

/// Takes the first of `candidates` that still differs. They are compared all at once: a run costs more than a program.
fn take_first(sides: &Sides, program: &mut Vec<String>, candidates: Vec<Vec<String>>) -> Option<usize> {
    if candidates.is_empty() {
        return None;
    }
    let native = sides.native(&candidates);
    let guest = sides.guest(&candidates);
    let different = |place: &usize| native[*place] != guest[*place] && differs(sides, &candidates[*place]);
    let place = (0..candidates.len()).find(different)?;
    program.clone_from(&candidates[place]);
    Some(place)
}

fn remove_lines(sides: &Sides, program: &mut Vec<String>) {
    let mut size = (program.len() / 2).max(1);
    loop {
        let chunks = (0..program.len()).step_by(size).rev();
        let without = |start: usize| {
            let mut candidate = program.clone();
            candidate.iter_mut().skip(start).take(size).for_each(String::clear);
            candidate
        };
        let candidates: Vec<_> = chunks.map(without).filter(|candidate| candidate != program).collect();
        if take_first(sides, program, candidates).is_some() {
            continue;
        }
        if size == 1 {
            break;
        }
        size /= 2;
    }
}

/// Tries 0 in place of each number, and no piece in place of each piece of a structure.
fn simplify_words(sides: &Sides, program: &mut Vec<String>) {
    loop {
        let mut candidates = Vec::new();
        for (number, line) in program.iter().enumerate() {
            let words: Vec<&str> = line.split(' ').collect();
            for place in 2..words.len() {
                let is_number = words[place].parse::<i64>().is_ok() || words[place].starts_with("0x");
                if is_number && words[place] != "0" && !line.contains(" spawn ") {
                    let mut words = words.clone();
                    words[place] = "0";
                    let mut candidate = program.clone();
                    candidate[number] = words.join(" ");
                    candidates.push(candidate);
                }
            }
        }
        if take_first(sides, program, candidates).is_none() {
            break;
        }
    }
}

/// The program without empty lines, its references changed accordingly.
fn compact(program: &[String]) -> Vec<String> {
    let place_of = |line: usize| program.iter().take(line).filter(|line| !line.is_empty()).count();
    let kept = |line: usize| program.get(line).is_some_and(|line| !line.is_empty());
    program.iter().filter(|line| !line.is_empty()).map(|line| renumber(line, kept, place_of)).collect()
}

/// A line with `$N` for the new places of the lines that it refers to; what refers to a line that is gone refers to one that never was.
fn renumber(line: &str, kept: impl Fn(usize) -> bool, place_of: impl Fn(usize) -> usize) -> String {
    let mut parts = line.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        let number: usize = number.parse().unwrap_or(usize::MAX);
        match kept(number) {
            true => text += &format!("${}{rest}", place_of(number)),
            false => text += &format!("${NO_LINE}{rest}"),
        }
    }
    text
}
