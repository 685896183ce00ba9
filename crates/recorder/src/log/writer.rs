//! The one writer of the log.

use super::record::Level;
use super::{Log, LogFormat, LogHost, Record};
use base::SimTime;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Merges what workers hand over and writes it. One thread owns it: the one that drives the windows.
pub struct LogWriter {
    log: Log,
    format: LogFormat,
    out: Box<dyn Write + Send>,
    /// Where errors are repeated (`report_errors_to_stderr`).
    errors: Option<Box<dyn Write + Send>>,
    /// Fetched, not yet written; records of one host in their order.
    pending: Vec<Record>,
    text: String,
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").field("format", &self.format).field("pending", &self.pending.len()).finish()
    }
}

impl LogWriter {
    /// Writes lines to `out`, and the messages of errors once more to `errors` if given.
    pub fn new(
        log: &Log,
        format: LogFormat,
        out: Box<dyn Write + Send>,
        errors: Option<Box<dyn Write + Send>>,
    ) -> LogWriter {
        LogWriter { log: log.clone(), format, out, errors, pending: Vec::new(), text: String::new() }
    }

    /// From now on whoever makes a record writes it, under one lock for all: the order is that of real time, and another in each run. That
    /// is how simulators logged before; it is here to be measured.
    pub fn write_at_once(&mut self) {
        let out = std::mem::replace(&mut self.out, Box::new(io::sink()));
        let at_once = AtOnce { format: self.format, out, text: String::new(), failure: None };
        let _ = self.log.shared.at_once.set(Mutex::new(at_once));
    }

    /// Writes every record that is earlier than `watermark`. The caller knows that no host will log anything earlier any
    /// more: it is the earliest moment at which any host's next window begins.
    pub fn advance(&mut self, watermark: SimTime) -> io::Result<()> {
        self.pending.append(&mut self.log.inbox());
        if self.pending.is_empty() {
            return Ok(());
        }
        let ready = self.pending.extract_if(.., |record| record.time.is_none_or(|time| time < watermark)).collect();
        self.write(ready)
    }

    /// Writes everything: before the first window, and at the end.
    pub fn finish(&mut self) -> io::Result<()> {
        self.pending.append(&mut self.log.inbox());
        let ready = std::mem::take(&mut self.pending);
        self.write(ready)?;
        let Some(at_once) = self.log.shared.at_once.get() else { return Ok(()) };
        let mut at_once = at_once.lock().unwrap_or_else(PoisonError::into_inner);
        at_once.failure.take().map_or(Ok(()), Err)?;
        at_once.out.flush()
    }

    fn write(&mut self, mut records: Vec<Record>) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        // Stable: records of one host at one moment stay in their order. Those without a time (`None`) come first.
        records.sort_by_key(|record| (record.time, record.host));
        self.text.clear();
        for record in &records {
            record.write_line(&mut self.text, self.format, &self.log.shared.hosts);
        }
        self.out.write_all(self.text.as_bytes())?;
        self.out.flush()?;
        let Some(errors) = &mut self.errors else { return Ok(()) };
        for record in records.iter().filter(|record| record.level == Level::Error) {
            writeln!(errors, "Error: {}", record.message)?;
        }
        errors.flush()
    }
}

/// What those who make records share where each is written at once.
pub(super) struct AtOnce {
    format: LogFormat,
    out: Box<dyn Write + Send>,
    text: String,
    /// The first, which the writer tells at the end.
    failure: Option<io::Error>,
}

impl AtOnce {
    pub(super) fn write(&mut self, record: &Record, hosts: &[LogHost]) {
        self.text.clear();
        record.write_line(&mut self.text, self.format, hosts);
        if let Err(error) = self.out.write_all(self.text.as_bytes()) {
            self.failure.get_or_insert(error);
        }
    }
}

impl fmt::Debug for AtOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtOnce").field("format", &self.format).finish_non_exhaustive()
    }
}

impl Drop for LogWriter {
    /// A run that fails still shows its last records; an error in writing them has nowhere to go.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::WorkerLog;
    use crate::record;
    use base::HostId;
    use std::net::IpAddr;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn log(level: Level) -> Log {
        let host = |name: &str, last, level| LogHost { name: name.into(), ip: IpAddr::from([11, 0, 0, last]), level };
        Log::new(level, vec![host("a", 1, None), host("b", 2, Some(Level::Trace)), host("c", 3, None)])
    }

    fn writer(log: &Log) -> (LogWriter, Sink, Sink) {
        let (out, errors) = (Sink::default(), Sink::default());
        let writer = LogWriter::new(log, LogFormat::Plain, Box::new(out.clone()), Some(Box::new(errors.clone())));
        (writer, out, errors)
    }

    /// Three hosts, three windows of 10 ns in which host h runs ahead by 5 * h ns, spread over `workers` workers.
    fn run(workers: usize) -> String {
        let log = log(Level::Info);
        let (mut writer, out, _) = writer(&log);
        let mut logs: Vec<WorkerLog> = (0..workers).map(|_| log.worker()).collect();
        let mut next = [0u64; 3];
        for window in 1..=3u64 {
            // Hosts in another order each window, on another worker.
            for turn in 0..3 {
                let host = (turn + window as usize) % 3;
                let worker = (turn * 7 + window as usize) % workers;
                let horizon = window * 10 + 5 * host as u64;
                while next[host] < horizon {
                    let time = SimTime::from_nanos(next[host]);
                    record!(logs[worker], Level::Info, time, HostId(host as u32), "first");
                    record!(logs[worker], Level::Info, time, HostId(host as u32), "second");
                    next[host] += 1 + host as u64;
                }
            }
            logs.iter_mut().for_each(WorkerLog::hand_over);
            writer.advance(SimTime::from_nanos(*next.iter().min().unwrap())).unwrap();
        }
        writer.finish().unwrap();
        out.text()
    }

    #[test]
    fn the_order_does_not_depend_on_the_number_of_workers() {
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(3));
        let times: Vec<&str> = one.lines().map(|line| &line[..18]).collect();
        assert!(times.is_sorted());
        assert!(times.len() > 100);
        let lines: Vec<&str> = one.lines().collect();
        assert!(lines.chunks(2).all(|pair| pair[0].ends_with("first") && pair[1].ends_with("second")));
    }

    #[test]
    fn nothing_is_written_before_its_watermark() {
        let log = log(Level::Info);
        let (mut writer, out, _) = writer(&log);
        let mut worker = log.worker();
        record!(worker, Level::Info, SimTime::from_nanos(10), HostId(0), "ten");
        record!(worker, Level::Info, None, None, "before {}", "all");
        worker.hand_over();
        writer.advance(SimTime::from_nanos(10)).unwrap();
        assert!(out.text().ends_with("before all\n") && !out.text().contains("ten"));
        writer.advance(SimTime::from_nanos(11)).unwrap();
        assert!(out.text().ends_with("[a:11.0.0.1] [recorder::log::writer::tests] ten\n"));
    }

    #[test]
    fn levels_filter_and_hosts_may_have_their_own() {
        let log = log(Level::Warning);
        let worker = log.worker();
        assert!(worker.enabled(Level::Warning, None));
        assert!(!worker.enabled(Level::Info, None));
        assert!(!worker.enabled(Level::Info, Some(HostId(0))));
        assert!(worker.enabled(Level::Trace, Some(HostId(1))));
    }

    #[test]
    fn errors_are_repeated() {
        let log = log(Level::Info);
        let (mut writer, out, errors) = writer(&log);
        let mut worker = log.worker();
        record!(worker, Level::Error, SimTime::ZERO, HostId(2), "guest died");
        record!(worker, Level::Info, SimTime::ZERO, HostId(2), "fine");
        drop(worker);
        writer.finish().unwrap();
        assert_eq!(errors.text(), "Error: guest died\n");
        assert_eq!(out.text().lines().count(), 2);
    }

    #[test]
    fn a_log_that_is_written_at_once_has_every_record() {
        let log = log(Level::Info);
        let (mut writer, out, _) = writer(&log);
        writer.write_at_once();
        std::thread::scope(|scope| {
            for host in 0..3 {
                let mut worker = log.worker();
                scope.spawn(move || {
                    for number in 0..100 {
                        record!(worker, Level::Info, SimTime::from_nanos(number), HostId(host), "number {number}");
                    }
                });
            }
        });
        writer.finish().unwrap();
        let text = out.text();
        assert_eq!(text.lines().count(), 300);
        assert_eq!(text.lines().filter(|line| line.ends_with("number 99")).count(), 3);
    }
}
