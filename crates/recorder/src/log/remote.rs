//! Records on their way from one process of a run to the one that writes the log.

use super::Log;
use super::record::{Level, Place, Record, ThreadTag};
use base::{HostId, SimTime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A record in the form in which it travels.
#[derive(Serialize, Deserialize)]
struct Sent {
    level: u8,
    time_ns: Option<u64>,
    host: Option<u32>,
    file: String,
    line: u32,
    module: String,
    message: String,
    wall_ns: u64,
    tid: u32,
    thread: String,
}

const LEVELS: [Level; 5] = [Level::Error, Level::Warning, Level::Info, Level::Debug, Level::Trace];

impl Log {
    /// Takes away what was handed over and not written yet, for another process; nothing if there is none.
    pub fn take_handed_over(&self) -> Vec<u8> {
        let records = std::mem::take(&mut *self.inbox());
        if records.is_empty() {
            return Vec::new();
        }
        let sent: Vec<Sent> = records.into_iter().map(Sent::from).collect();
        serde_json::to_vec(&sent).expect("records can be serialised")
    }

    /// Takes in what another process of this build has taken away: it is written as if it had been handed over here. Bytes that are
    /// no records are left out.
    pub fn hand_over_from(&self, bytes: &[u8]) {
        let sent: Vec<Sent> = serde_json::from_slice(bytes).unwrap_or_default();
        self.inbox().extend(sent.into_iter().map(Record::from));
    }
}

impl From<Record> for Sent {
    fn from(record: Record) -> Sent {
        Sent {
            level: record.level as u8,
            time_ns: record.time.map(SimTime::as_nanos),
            host: record.host.map(|host| host.0),
            file: record.place.file.to_owned(),
            line: record.place.line,
            module: record.place.module.to_owned(),
            message: record.message,
            wall_ns: record.wall.as_nanos() as u64,
            tid: record.thread.tid,
            thread: record.thread.name.clone(),
        }
    }
}

impl From<Sent> for Record {
    fn from(sent: Sent) -> Record {
        Record {
            level: LEVELS.get(usize::from(sent.level)).copied().unwrap_or(Level::Trace),
            time: sent.time_ns.map(SimTime::from_nanos),
            host: sent.host.map(HostId),
            place: place(sent.file, sent.line, sent.module),
            message: sent.message,
            wall: Duration::from_nanos(sent.wall_ns),
            thread: Arc::new(ThreadTag { tid: sent.tid, name: sent.thread }),
        }
    }
}

/// The place in the program, which lives as long as it: there are as many as there are calls of `record!`.
fn place(file: String, line: u32, module: String) -> &'static Place {
    static KNOWN: Mutex<BTreeSet<&'static Place>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known.iter().find(|place| place.line == line && place.file == file && place.module == module);
    if let Some(place) = found {
        return place;
    }
    let place: &'static Place = Box::leak(Box::new(Place { file: file.leak(), line, module: module.leak() }));
    known.insert(place);
    place
}

#[cfg(test)]
mod tests {
    use crate::log::{Level, Log, LogFormat, LogHost, LogWriter};
    use crate::record;
    use base::{HostId, SimTime};
    use std::io::Write;
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log() -> Log {
        let host = |name: &str| LogHost { name: name.into(), ip: IpAddr::from([11, 0, 0, 1]), level: None };
        Log::new(Level::Info, vec![host("a"), host("b")])
    }

    #[test]
    fn records_of_another_process_stand_where_they_would_have_stood() {
        let written = |is_remote: bool| {
            let (here, there) = (log(), log());
            let out = Sink::default();
            let mut writer = LogWriter::new(&here, LogFormat::Plain, Box::new(out.clone()), None);
            let mut own = here.worker();
            let mut other = if is_remote { there.worker() } else { here.worker() };
            for ns in 0..4 {
                let time = SimTime::from_nanos(ns);
                record!(own, Level::Info, time, HostId(1), "at {ns}");
                record!(other, Level::Warning, time, HostId(0), "at \"{ns}\"");
            }
            record!(other, Level::Error, None::<SimTime>, None::<HostId>, "no time");
            own.hand_over();
            other.hand_over();
            here.hand_over_from(&there.take_handed_over());
            writer.finish().unwrap();
            let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
            assert!(there.take_handed_over().is_empty());
            text
        };
        assert_eq!(written(true), written(false));
        assert!(written(true).starts_with("n/a [ERROR] [n/a] [recorder::log::remote::tests] no time\n"));
    }
}
