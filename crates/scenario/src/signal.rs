//! Signals of Linux on x86-64 by name and number (signal(7)).

use std::fmt;

/// A signal's number, 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signal(u8);

const NAMES: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

impl Signal {
    pub const TERM: Signal = Signal(15);

    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// Reads a name such as `SIGTERM` or a number from 1 to 64.
    pub fn parse(text: &str) -> Result<Signal, String> {
        if let Ok(number) = text.parse::<u8>() {
            return match number {
                1..=64 => Ok(Signal(number)),
                _ => Err(format!("{number} is no signal; signals are numbered from 1 to 64")),
            };
        }
        let alias = match text {
            "SIGPOLL" => "SIGIO",
            "SIGIOT" => "SIGABRT",
            other => other,
        };
        if let Some(at) = NAMES.iter().position(|name| *name == alias) {
            return Ok(Signal(at as u8 + 1));
        }
        let guess = format!("SIG{}", text.to_ascii_uppercase().trim_start_matches("SIG"));
        match NAMES.iter().find(|name| **name == guess) {
            Some(name) => Err(format!("'{text}' is no signal; did you mean '{name}'?")),
            None => Err(format!("'{text}' is no signal; use a name such as SIGTERM or a number from 1 to 64")),
        }
    }
}

/// The name, or the number where there is none.
impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.get(usize::from(self.0) - 1) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree_with_the_kernel() {
        for (name, number) in
            [("SIGHUP", 1), ("SIGKILL", 9), ("SIGSEGV", 11), ("SIGTERM", 15), ("SIGIO", 29), ("SIGSYS", 31)]
        {
            assert_eq!(Signal::parse(name).map(Signal::number), Ok(number));
            assert_eq!(Signal::parse(&number.to_string()).unwrap().to_string(), name);
        }
        assert_eq!(Signal::parse("34").unwrap().to_string(), "34");
        assert_eq!(Signal::parse("SIGPOLL").map(Signal::number), Ok(29));
    }

    #[test]
    fn wrong_signals_get_a_remedy() {
        assert_eq!(Signal::parse("term").unwrap_err(), "'term' is no signal; did you mean 'SIGTERM'?");
        assert_eq!(Signal::parse("65").unwrap_err(), "65 is no signal; signals are numbered from 1 to 64");
        assert_eq!(
            Signal::parse("SIGNOPE").unwrap_err(),
            "'SIGNOPE' is no signal; use a name such as SIGTERM or a number from 1 to 64"
        );
    }
}
