//! How the value of one option is read from text, and written so that it reads back. Files and the command line share it.

use crate::suggest::remedy;
use crate::yaml::{is_null, quoted};
use base::quantity::{exact_duration, parse_byte_size, parse_duration};
use base::{ByteSize, SimDuration};
use topology::Discipline;

/// A scalar as it was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalar<'a> {
    pub text: &'a str,
    /// Without quotes, so that `null` and `true` have their meaning. Command-line values are plain.
    pub plain: bool,
}

/// What an option's values look like, for help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Number,
    Time,
    Size,
    Path,
    Choice(&'static [&'static str]),
    /// One of these, or `null`.
    Nullable(&'static Kind),
}

impl Kind {
    /// The placeholder in a help text, such as `<time>`.
    pub fn value_name(&self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Number => "number",
            Kind::Time => "time",
            Kind::Size => "bytes",
            Kind::Path => "path",
            Kind::Choice(_) => "choice",
            Kind::Nullable(inner) => inner.value_name(),
        }
    }

    /// The words that are allowed, where there is a list of them (without `null`).
    pub fn choices(&self) -> &'static [&'static str] {
        match self {
            Kind::Choice(words) => words,
            Kind::Bool => &["true", "false"],
            Kind::Nullable(inner) => inner.choices(),
            _ => &[],
        }
    }
}

pub(crate) trait Setting: Sized {
    const KIND: Kind;
    /// Reads a value; the error says what is wrong and what would be right.
    fn read(scalar: Scalar<'_>) -> Result<Self, String>;
    /// A YAML scalar that `read` reads back.
    fn write(&self) -> String;
}

impl Setting for bool {
    const KIND: Kind = Kind::Bool;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match scalar.text {
            "true" | "True" | "TRUE" => Ok(true),
            "false" | "False" | "FALSE" => Ok(false),
            other => Err(format!("'{other}' is neither true nor false")),
        }
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for u32 {
    const KIND: Kind = Kind::Number;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        let text = scalar.text;
        let parsed = match (text.strip_prefix("0x"), text.strip_prefix("0o")) {
            (Some(hex), _) => u32::from_str_radix(hex, 16),
            (_, Some(octal)) => u32::from_str_radix(octal, 8),
            _ => text.parse(),
        };
        parsed.map_err(|_| format!("'{text}' is not a whole number from 0 to {}", u32::MAX))
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

impl Setting for SimDuration {
    const KIND: Kind = Kind::Time;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        parse_duration(scalar.text).map_err(|e| e.to_string())
    }
    fn write(&self) -> String {
        exact_duration(*self)
    }
}

impl Setting for ByteSize {
    const KIND: Kind = Kind::Size;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        parse_byte_size(scalar.text).map_err(|e| e.to_string())
    }
    fn write(&self) -> String {
        self.to_string()
    }
}

/// A path as written.
impl Setting for String {
    const KIND: Kind = Kind::Path;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match scalar.text {
            "" => Err("the path is empty".into()),
            text => Ok(text.to_owned()),
        }
    }
    fn write(&self) -> String {
        quoted(self)
    }
}

impl<T: NotNull> Setting for Option<T> {
    const KIND: Kind = Kind::Nullable(&T::KIND);
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        if scalar.plain && is_null(scalar.text) { Ok(None) } else { T::read(scalar).map(Some) }
    }
    fn write(&self) -> String {
        self.as_ref().map_or_else(|| "null".into(), T::write)
    }
}

/// Settings that may be wrapped in an `Option`.
pub(crate) trait NotNull: Setting {}
impl NotNull for SimDuration {}
impl NotNull for String {}
impl NotNull for LogLevel {}

/// Defines settings that are one of a few words.
macro_rules! choice {
    ($type:ty { $($word:literal => $variant:path),+ $(,)? }) => {
        impl Setting for $type {
            const KIND: Kind = Kind::Choice(&[$($word),+]);
            fn read(scalar: Scalar<'_>) -> Result<Self, String> {
                match scalar.text {
                    $($word => Ok($variant),)+
                    other => Err(format!(
                        "'{other}' is not allowed here{}", remedy(other, Self::KIND.choices().iter().copied())
                    )),
                }
            }
            fn write(&self) -> String {
                match self { $($variant => $word,)+ }.into()
            }
        }
    };
}

/// How much is logged: each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warning,
    Info,
    Debug,
    Trace,
}

/// Shadow's host schedulers. Gnomon has one, which serves both names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    ThreadPerCore,
    ThreadPerHost,
}

/// Whether guests' system calls are logged, and whether without what differs between runs of other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StraceMode {
    Off,
    Standard,
    Deterministic,
}

choice!(LogLevel {
    "error" => LogLevel::Error,
    "warning" => LogLevel::Warning,
    "info" => LogLevel::Info,
    "debug" => LogLevel::Debug,
    "trace" => LogLevel::Trace,
});
choice!(Scheduler {
    "thread-per-core" => Scheduler::ThreadPerCore,
    "thread-per-host" => Scheduler::ThreadPerHost,
});
choice!(StraceMode {
    "off" => StraceMode::Off,
    "standard" => StraceMode::Standard,
    "deterministic" => StraceMode::Deterministic,
});
choice!(Discipline {
    "fifo" => Discipline::Fifo,
    "round-robin" => Discipline::RoundRobin,
});
