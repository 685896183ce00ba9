//! How the value of one option is read from text, and written so that it reads back. Files and the command line share it.

use crate::suggest::remedy;
use crate::yaml::{is_null, quoted};
use base::quantity::{exact_duration, parse_byte_size, parse_duration};
use base::{ByteSize, SimDuration, StartDate};
use probes::{Identifiers, Level};
use tcpip::sysctl::SysctlError;
use topology::NetworkModel;

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
    /// A factor, or a clock rate.
    Speed,
    /// A day, with or without a time of it.
    Date,
    /// Names with values, `name = value, name = value`.
    Assignments,
    Path,
    /// What another crate reads.
    Expression,
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
            Kind::Speed => "speed",
            Kind::Date => "date",
            Kind::Assignments => "name=value,...",
            Kind::Path => "path",
            Kind::Expression => "expression",
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

/// A size of `LEAST` to `MOST` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeWithin<const LEAST: u64, const MOST: u64>(ByteSize);

impl<const LEAST: u64, const MOST: u64> SizeWithin<LEAST, MOST> {
    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.0.0
    }
}

/// The addresses of one host: what an ordinary process takes at first, up to all of the arenas but their last part.
pub type AddressSpace = SizeWithin<{ 256 << 20 }, { 63 << 40 }>;
/// Memory of a whole run: less than this holds no guest, and is meant in other units.
pub type MemoryLimit = SizeWithin<{ 16 << 20 }, { u64::MAX }>;
/// A socket's buffer. Larger ones than Linux has room for are as large as those.
pub type SocketBuffer = SizeWithin<1, { u64::MAX }>;

impl<const LEAST: u64, const MOST: u64> Setting for SizeWithin<LEAST, MOST> {
    const KIND: Kind = Kind::Size;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match ByteSize::read(scalar)? {
            ByteSize(bytes) if bytes < LEAST => Err(format!("must be at least {}", in_large_units(LEAST))),
            ByteSize(bytes) if bytes > MOST => Err(format!("must be at most {}", in_large_units(MOST))),
            size => Ok(SizeWithin(size)),
        }
    }
    fn write(&self) -> String {
        self.0.write()
    }
}

fn in_large_units(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = UNITS.into_iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| ByteSize(bytes).to_string(), |(shift, name)| format!("{} {name}", bytes >> shift))
}

impl Setting for StartDate {
    const KIND: Kind = Kind::Date;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match scalar.text {
            // A file that means another date each time could not be repeated.
            "now" => {
                Err("a file names its date, such as 2026-11-22T08:30:00Z; '--start-date now' takes the machine's"
                    .into())
            }
            text => StartDate::parse(text),
        }
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
impl NotNull for ByteSize {}
impl<const LEAST: u64, const MOST: u64> NotNull for SizeWithin<LEAST, MOST> {}
impl NotNull for String {}
impl NotNull for LogLevel {}
impl NotNull for QueueDiscipline {}
impl NotNull for CpuSpeed {}

/// How fast a simulated processor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuSpeed {
    /// In millionths of this machine's speed.
    Relative { millionths: u64 },
    /// By its clock rate, in kHz: as many cycles a second.
    Clock { khz: u64 },
}

/// "0.5", "2", "800 MHz", "1.2 GHz".
impl Setting for CpuSpeed {
    const KIND: Kind = Kind::Speed;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        const MOST: f64 = 1e9;
        let text = scalar.text.trim();
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (text[..digits].parse::<f64>(), text[digits..].trim());
        let scale = match unit {
            "" | "MHz" => 1e3,
            "GHz" => 1e6,
            "kHz" => 1.0,
            _ => 0.0,
        };
        let scaled = number.map_or(0.0, |number| number * scale);
        match unit {
            "" if scaled * 1e3 >= 1.0 && scaled < MOST => {
                Ok(CpuSpeed::Relative { millionths: (scaled * 1e3).round() as u64 })
            }
            _ if !unit.is_empty() && (1.0..MOST).contains(&scaled) => {
                Ok(CpuSpeed::Clock { khz: scaled.round() as u64 })
            }
            _ => Err(format!("'{text}' is no speed: give a factor such as 0.5, or a clock rate such as 1.2 GHz")),
        }
    }
    fn write(&self) -> String {
        let thousandths = |value: u64, unit: &str| match (value / 1000, value % 1000) {
            (whole, 0) => format!("{whole}{unit}"),
            (whole, rest) => format!("{whole}.{}{unit}", format!("{rest:03}").trim_end_matches('0')),
        };
        match *self {
            CpuSpeed::Relative { millionths } if millionths % 1000 == 0 => thousandths(millionths / 1000, ""),
            CpuSpeed::Relative { millionths } => format!("{}", millionths as f64 / 1e6),
            CpuSpeed::Clock { khz } => thousandths(khz, " MHz"),
        }
    }
}

/// How far a host's real-time clock is fast, in nanoseconds; slow where it is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset(pub i64);

impl ClockOffset {
    /// A year: no clock leaves the range of dates by much.
    const MOST: SimDuration = SimDuration::from_secs(31_536_000);
}

impl NotNull for ClockOffset {}

/// "0", "5 ms", "-1.5 s".
impl Setting for ClockOffset {
    const KIND: Kind = Kind::Time;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        let text = scalar.text.trim();
        let (size, sign) = match text.strip_prefix('-') {
            Some(size) => (size.trim(), -1),
            None => (text.strip_prefix('+').unwrap_or(text).trim(), 1),
        };
        let size = parse_duration(size).map_err(|e| e.to_string())?;
        if size > Self::MOST {
            return Err(format!("'{text}' is more than a year"));
        }
        Ok(ClockOffset(size.as_nanos() as i64 * sign))
    }
    fn write(&self) -> String {
        let size = exact_duration(SimDuration::from_nanos(self.0.unsigned_abs()));
        if self.0 < 0 { format!("-{size}") } else { size }
    }
}

/// How many processors a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus(pub u16);

impl Cpus {
    const MOST: u32 = 256;
}

impl Setting for Cpus {
    const KIND: Kind = Kind::Number;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match u32::read(scalar) {
            Ok(number @ 1..=Cpus::MOST) => Ok(Cpus(number as u16)),
            _ => Err(format!("'{}' is not a whole number from 1 to {}", scalar.text, Cpus::MOST)),
        }
    }
    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// A soft limit of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles(pub u32);

impl OpenFiles {
    /// The hard limit, fs.nr_open of Linux.
    const MOST: u32 = 1 << 20;
}

impl Setting for OpenFiles {
    const KIND: Kind = Kind::Number;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match u32::read(scalar) {
            Ok(number @ 3..=OpenFiles::MOST) => Ok(OpenFiles(number)),
            _ => Err(format!("'{}' is not a whole number from 3 to {}", scalar.text, OpenFiles::MOST)),
        }
    }
    fn write(&self) -> String {
        self.0.to_string()
    }
}

/// Settings of a host's network stack, by the names that Linux gives them with dots, and values that it would take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctls(pub Vec<(String, String)>);

impl Sysctls {
    /// Puts them into what a stack is told.
    pub fn apply(&self, stack: &mut tcpip::Config) {
        for (name, value) in &self.0 {
            let taken = stack.set_sysctl(&name.replace('.', "/"), value);
            debug_assert!(taken.is_ok(), "{name} was checked when it was read");
        }
    }
}

impl NotNull for Sysctls {}

impl Setting for Sysctls {
    const KIND: Kind = Kind::Assignments;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        let mut stack = tcpip::Config::new(std::net::Ipv4Addr::LOCALHOST);
        let mut all = Vec::new();
        for part in scalar.text.split(',') {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "'{}' is not of the form name = value; several stand with commas between",
                    part.trim()
                ));
            };
            let (name, value) = (name.trim().replace('/', "."), value.trim());
            match stack.set_sysctl(&name.replace('.', "/"), value) {
                Ok(()) => all.push((name, value.to_owned())),
                Err(SysctlError::Invalid | SysctlError::Absent) => {
                    let shown = stack.sysctl(&name.replace('.', "/")).unwrap_or_default().replace('\t', " ");
                    return Err(format!("'{value}' is no value of {name}, which is '{shown}' unless it is set"));
                }
                Err(SysctlError::Unknown) => {
                    let known: Vec<String> = tcpip::sysctl::names().map(|known| known.replace('/', ".")).collect();
                    let hint = remedy(&name, known.iter().map(String::as_str));
                    return Err(format!("no setting '{name}' has an effect{hint}"));
                }
            }
        }
        Ok(Sysctls(all))
    }
    fn write(&self) -> String {
        quoted(&self.0.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", "))
    }
}

/// An expression of the Common Expression Language, as written: who evaluates it knows whether it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression(pub String);

impl NotNull for Expression {}

impl Setting for Expression {
    const KIND: Kind = Kind::Expression;
    fn read(scalar: Scalar<'_>) -> Result<Self, String> {
        match scalar.text.trim() {
            "" => Err("the expression is empty".into()),
            text => Ok(Expression(text.to_owned())),
        }
    }
    fn write(&self) -> String {
        quoted(&self.0)
    }
}

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

/// In which order an interface sends what its host's sockets have handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDiscipline {
    Fifo,
    RoundRobin,
    PfifoFast,
    FqCodel,
    Fq,
}

/// Which of OpenSSL's ciphers are replaced by cheap ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheapCrypto {
    Off,
    /// Those of tor's relay cells.
    Cells,
    /// Those of records of TLS 1.3 too.
    All,
}

impl CheapCrypto {
    /// What experiments, reports and the library that guests load call it; None for nothing.
    pub fn name(self) -> Option<&'static str> {
        match self {
            CheapCrypto::Off => None,
            CheapCrypto::Cells => Some("cells"),
            CheapCrypto::All => Some("all"),
        }
    }
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

choice!(CheapCrypto {
    "off" => CheapCrypto::Off,
    "cells" => CheapCrypto::Cells,
    "all" => CheapCrypto::All,
});
choice!(Identifiers {
    "number" => Identifiers::Number,
    "uuid1" => Identifiers::Uuid1,
    "uuid5" => Identifiers::Uuid5,
});

// How much of what happens to packets is recorded (`docs/provenance.md`).
choice!(Level {
    "off" => Level::Off,
    "summary" => Level::Summary,
    "packets" => Level::Packets,
    "all" => Level::All,
});
choice!(StraceMode {
    "off" => StraceMode::Off,
    "standard" => StraceMode::Standard,
    "deterministic" => StraceMode::Deterministic,
});
choice!(NetworkModel {
    "gnomon" => NetworkModel::Gnomon,
    "shadow" => NetworkModel::Shadow,
});
choice!(QueueDiscipline {
    "fifo" => QueueDiscipline::Fifo,
    "round-robin" => QueueDiscipline::RoundRobin,
    "pfifo_fast" => QueueDiscipline::PfifoFast,
    "fq_codel" => QueueDiscipline::FqCodel,
    "fq" => QueueDiscipline::Fq,
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_stack_are_checked_when_they_are_read() {
        let read = |text: &str| Sysctls::read(Scalar { text, plain: true });
        let both = read("net.ipv4.tcp_sack=0, net.ipv4.tcp_rmem = 4096 87380 6291456").unwrap();
        assert_eq!(both.write(), "\"net.ipv4.tcp_sack = 0, net.ipv4.tcp_rmem = 4096 87380 6291456\"");
        let mut stack = tcpip::Config::new(std::net::Ipv4Addr::LOCALHOST);
        both.apply(&mut stack);
        assert_eq!((stack.sack, stack.recv_buffer), (false, 87_380));
        assert!(read("net.ipv4.tcp_sack").unwrap_err().contains("name = value"));
        assert!(read("net.ipv4.tcp_sack = maybe").unwrap_err().contains("which is '1'"));
        assert!(read("net.ipv4.tcp_sac = 1").unwrap_err().contains("net.ipv4.tcp_sack"));
    }

    #[test]
    fn offsets_of_clocks_have_a_sign() {
        let read = |text: &str| ClockOffset::read(Scalar { text, plain: true });
        assert_eq!(read("0"), Ok(ClockOffset(0)));
        assert_eq!(read("5 ms"), Ok(ClockOffset(5_000_000)));
        assert_eq!(read("-1500 ms"), Ok(ClockOffset(-1_500_000_000)));
        assert_eq!(read("+2"), Ok(ClockOffset(2_000_000_000)));
        for text in ["", "-", "--1 s", "soon", "400 days", "-9000 h"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["0", "-1 ns", "17 us", "-1500 ms"] {
            let offset = read(text).unwrap();
            assert_eq!(read(&offset.write()), Ok(offset), "{text}: {}", offset.write());
        }
    }

    #[test]
    fn open_files_end_at_the_hard_limit() {
        let read = |text: &str| OpenFiles::read(Scalar { text, plain: true });
        assert_eq!(read("1048576"), Ok(OpenFiles(1 << 20)));
        for text in ["2", "1048577", "-1", "many", "null"] {
            assert_eq!(read(text), Err(format!("'{text}' is not a whole number from 3 to 1048576")));
        }
    }

    #[test]
    fn a_host_has_1_to_256_processors() {
        let read = |text: &str| Cpus::read(Scalar { text, plain: true });
        assert_eq!([read("1"), read("256")], [Ok(Cpus(1)), Ok(Cpus(256))]);
        for text in ["0", "257", "65537", "-1", "2.5", "all", "null"] {
            assert_eq!(read(text), Err(format!("'{text}' is not a whole number from 1 to 256")));
        }
    }

    #[test]
    fn speeds_are_factors_or_clock_rates() {
        let read = |text: &str| CpuSpeed::read(Scalar { text, plain: true });
        assert_eq!(read("0.5"), Ok(CpuSpeed::Relative { millionths: 500_000 }));
        assert_eq!(read("2"), Ok(CpuSpeed::Relative { millionths: 2_000_000 }));
        assert_eq!(read("1.2 GHz"), Ok(CpuSpeed::Clock { khz: 1_200_000 }));
        assert_eq!(read("800MHz"), Ok(CpuSpeed::Clock { khz: 800_000 }));
        for text in ["0", "-1", "fast", "1.2 THz", "", "GHz", "1e3", "0 MHz"] {
            assert!(read(text).is_err(), "{text}");
        }
        for text in ["0.5", "2", "1.25", "0.000001", "3.1234", "1.2 GHz", "2400.5 MHz", "100 kHz"] {
            let speed = read(text).unwrap();
            assert_eq!(read(&speed.write()), Ok(speed), "{text}: {}", speed.write());
        }
    }
}
