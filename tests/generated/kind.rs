//! Of what kind a difference is: the call on which the two sides first differ, and what it returned on each. Programs of a kind mostly have
//! one cause, so one of them is looked at.

use crate::explained::result;

/// Calls that are many calls in one, with the place of the argument that says which.
const SELECTED: &[(&str, &[usize])] = &[
    ("fcntl", &[1]),
    ("ioctl", &[1]),
    ("prctl", &[0]),
    ("arch_prctl", &[0]),
    ("madvise", &[2]),
    ("setsockopt", &[1, 2]),
    ("getsockopt", &[1, 2]),
    ("futex", &[1]),
    ("epoll_ctl", &[1]),
    ("lseek", &[2]),
    ("shmctl", &[1]),
    ("semctl", &[2]),
    ("msgctl", &[1]),
];

/// A short name for the first difference of what a program printed.
pub fn of(program: &[String], native: &str, guest: &str) -> String {
    let Some((native, guest)) = native.lines().zip(guest.lines()).find(|(native, guest)| native != guest) else {
        return "one side ends early".to_owned();
    };
    match (result(native), result(guest)) {
        (Some((number, native)), Some((other, guest))) if number == other => {
            let (native, guest) = (outcome(native), outcome(guest));
            let outcomes = if native == guest { "what it shows".to_owned() } else { format!("{native}, not {guest}") };
            format!("{} {outcomes}", call(program, number))
        }
        (Some((number, native)), _) => {
            format!("{} {}, not {}", call(program, number), outcome(native), anonymous(guest))
        }
        (_, Some((number, guest))) => {
            format!("{} {}, not {}", call(program, number), anonymous(native), outcome(guest))
        }
        _ => format!("{}, not {}", anonymous(native), anonymous(guest)),
    }
}

/// A line's call, with what selects one of several.
fn call(program: &[String], number: usize) -> String {
    let words: Vec<&str> = program.get(number).map(|line| line.split(' ').collect()).unwrap_or_default();
    let name = words.get(1).and_then(|word| word.split(':').next()).unwrap_or("?");
    let selected = SELECTED.iter().find(|(call, _)| *call == name).map_or(&[][..], |(_, places)| places);
    let arguments = selected.iter().filter_map(|place| words.get(2 + place));
    std::iter::once(&name).chain(arguments).copied().collect::<Vec<_>>().join(" ")
}

/// What a call returned: an error's name, 0, or that it is some number.
fn outcome(result: &str) -> &str {
    match result.split(' ').next().unwrap_or_default() {
        error if error.starts_with('-') => error,
        "0" => "0",
        _ => "a number",
    }
}

/// A line without its numbers and names.
fn anonymous(line: &str) -> String {
    let line = line.trim_start();
    if line.starts_with("left ") {
        return "left files".to_owned();
    }
    line.chars().map(|c| if c.is_ascii_digit() { 'N' } else { c }).collect()
}
