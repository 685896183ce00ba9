//! One record, and the two forms in which it can be written.

use base::{HostId, SimTime};
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How important a record is; what is kept is all up to a level.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
    Trace,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Error => "ERROR",
            Level::Warning => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
            Level::Trace => "TRACE",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    /// As experiment files and command lines name it.
    fn from_str(text: &str) -> Result<Level, String> {
        match text.to_ascii_lowercase().as_str() {
            "error" => Ok(Level::Error),
            "warning" | "warn" => Ok(Level::Warning),
            "info" => Ok(Level::Info),
            "debug" => Ok(Level::Debug),
            "trace" => Ok(Level::Trace),
            _ => Err(format!("'{text}' is no log level; use error, warning, info, debug or trace")),
        }
    }
}

/// A host as the log shows it.
#[derive(Clone, Debug)]
pub struct LogHost {
    pub name: String,
    pub ip: IpAddr,
    /// Its own level, in place of the log's.
    pub level: Option<Level>,
}

/// Where in the program a record was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: &'static str,
    pub line: u32,
    pub module: &'static str,
}

/// The form of the lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// Shadow's: `real-time [tid:thread] virtual-time [LEVEL] [host:ip] [file:line] [module] message`.
    Shadow,
    /// `virtual-time [LEVEL] [host:ip] [module] message`: nothing in it depends on the machine, so two runs' logs compare
    /// equal.
    Plain,
}

/// The thread that made a record.
#[derive(Debug)]
pub(super) struct ThreadTag {
    pub(super) tid: u32,
    pub(super) name: String,
}

impl ThreadTag {
    pub(super) fn current() -> ThreadTag {
        // "PID/task/TID"; without /proc the id is unknown, which costs a log nothing.
        let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let tid = link.file_name().and_then(|tid| tid.to_str()).and_then(|tid| tid.parse().ok()).unwrap_or(0);
        // Tools split lines at blanks and count the fields.
        let name = std::thread::current().name().unwrap_or("worker").replace(char::is_whitespace, "-");
        ThreadTag { tid, name }
    }
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    /// None outside the simulation.
    pub(super) time: Option<SimTime>,
    pub(super) host: Option<HostId>,
    pub(super) place: &'static Place,
    pub(super) message: String,
    pub(super) wall: Duration,
    pub(super) thread: Arc<ThreadTag>,
}

impl Record {
    /// Appends the record's line.
    pub(super) fn write_line(&self, out: &mut String, format: LogFormat, hosts: &[LogHost]) {
        // Writing to a string cannot fail.
        let _ = match format {
            LogFormat::Shadow => self.write_shadow(out, hosts),
            LogFormat::Plain => self.write_plain(out, hosts),
        };
    }

    fn write_shadow(&self, out: &mut String, hosts: &[LogHost]) -> fmt::Result {
        let (secs, micros) = (self.wall.as_secs(), self.wall.subsec_micros());
        write!(out, "{:02}:{:02}:{:02}.{micros:06}", secs / 3600, secs / 60 % 60, secs % 60)?;
        write!(out, " [{}:{}] ", self.thread.tid, self.thread.name)?;
        self.write_time_level_host(out, hosts)?;
        let file = self.place.file.rsplit('/').next().unwrap_or(self.place.file);
        writeln!(out, " [{file}:{}] [{}] {}", self.place.line, self.place.module, self.message)
    }

    fn write_plain(&self, out: &mut String, hosts: &[LogHost]) -> fmt::Result {
        self.write_time_level_host(out, hosts)?;
        writeln!(out, " [{}] {}", self.place.module, self.message)
    }

    fn write_time_level_host(&self, out: &mut String, hosts: &[LogHost]) -> fmt::Result {
        match self.time {
            Some(time) => write!(out, "{time} [{}]", self.level)?,
            None => write!(out, "n/a [{}]", self.level)?,
        }
        match self.host.and_then(|host| hosts.get(host.index())) {
            Some(host) => write!(out, " [{}:{}]", host.name, host.ip),
            None => out.write_str(" [n/a]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = Place { file: "crates/simkernel/src/process.rs", line: 42, module: "simkernel::process" };

    fn record(time: Option<SimTime>, host: Option<HostId>) -> Record {
        Record {
            level: Level::Warning,
            time,
            host,
            place: &PLACE,
            message: "it happened".into(),
            wall: Duration::from_micros(3_723_000_042),
            thread: Arc::new(ThreadTag { tid: 77, name: "worker-1".into() }),
        }
    }

    fn line(record: &Record, format: LogFormat) -> String {
        let hosts = [LogHost { name: "relay".into(), ip: IpAddr::from([11, 0, 0, 1]), level: None }];
        let mut out = String::new();
        record.write_line(&mut out, format, &hosts);
        out
    }

    #[test]
    fn lines_have_the_form_that_tools_parse() {
        let with_host = record(Some(SimTime::from_nanos(61_000_000_005)), Some(HostId(0)));
        assert_eq!(
            line(&with_host, LogFormat::Shadow),
            "01:02:03.000042 [77:worker-1] 00:01:01.000000005 [WARN] [relay:11.0.0.1] [process.rs:42] \
             [simkernel::process] it happened\n"
        );
        assert_eq!(
            line(&record(None, None), LogFormat::Shadow),
            "01:02:03.000042 [77:worker-1] n/a [WARN] [n/a] [process.rs:42] [simkernel::process] it happened\n"
        );
        assert_eq!(
            line(&with_host, LogFormat::Plain),
            "00:01:01.000000005 [WARN] [relay:11.0.0.1] [simkernel::process] it happened\n"
        );
    }

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Error < Level::Warning && Level::Debug < Level::Trace);
        assert_eq!("warning".parse(), Ok(Level::Warning));
        assert_eq!("TRACE".parse(), Ok(Level::Trace));
        assert_eq!(
            "loud".parse::<Level>(),
            Err("'loud' is no log level; use error, warning, info, debug or trace".to_string())
        );
    }

    #[test]
    fn threads_are_tagged_without_blanks() {
        let tag =
            std::thread::Builder::new().name("my thread".into()).spawn(ThreadTag::current).unwrap().join().unwrap();
        assert_eq!(tag.name, "my-thread");
        assert_ne!(tag.tid, 0);
        assert_ne!(tag.tid, ThreadTag::current().tid);
    }
}
