//! What is told about a finished run: how it went, and its exit status.

use super::launch::Finished;
use super::{ranks, status};
use crate::simulation::{FinalGuest, Summary, Verdict};
use base::Cause;
use recorder::GuestFile;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tornet::status::Trouble;

/// More guests than this are counted, not listed.
const LISTED: usize = 10;

/// The exit status of `gnomon run`.
pub fn status_of(finished: &Finished) -> u8 {
    let summary = &finished.summary;
    match summary.verdict {
        // Results that are not complete are no success.
        Verdict::Success if summary.interferences.get(Cause::Recording).is_some() => status::FAILED,
        Verdict::Success => status::SUCCESS,
        Verdict::Failed => status::FAILED,
        Verdict::Interrupted if summary.lost.is_some() || could_not_record(finished) => status::FAILED,
        Verdict::Interrupted => interrupted_status(finished.signal),
    }
}

/// Whether it was not interrupted by anybody, but ended since it could not record what it was asked to.
pub fn could_not_record(finished: &Finished) -> bool {
    let summary = &finished.summary;
    let is_short = summary.verdict == Verdict::Interrupted && finished.signal.is_none();
    is_short && summary.interferences.get(Cause::Recording).is_some()
}

/// 128 and the signal's number, as shells have it.
pub fn interrupted_status(signal: Option<i32>) -> u8 {
    signal.and_then(|signal| u8::try_from(128 + signal).ok()).unwrap_or(130)
}

/// Tells how the run went, on standard error.
pub fn conclude(finished: &Finished, quiet: bool) {
    let summary = &finished.summary;
    tell_lost(finished);
    let mut text = network_trouble(summary);
    if summary.verdict == Verdict::Failed {
        write_unexpected(&mut text, summary);
    }
    if let Some(told) = not_recorded(summary) {
        let _ = writeln!(text, "gnomon: {told}");
    }
    if let Some(told) = summary.none_chosen() {
        let _ = writeln!(text, "gnomon: {told}");
    }
    if !quiet {
        write_summary(&mut text, finished);
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Why a Tor network carried nothing, as a line; empty for all other runs. It changes no exit status: what clients are expected to do says
/// whether the experiment has failed.
fn network_trouble(summary: &Summary) -> String {
    match Trouble::find(&summary.data_directory) {
        Ok(None) => String::new(),
        Ok(Some(trouble)) => format!("gnomon: {}\n", trouble.text),
        Err(error) => format!("gnomon: whether the network had a consensus is not known: {error}\n"),
    }
}

/// That what the run leaves behind is not complete, and what to do; None if it is.
pub fn not_recorded(summary: &Summary) -> Option<String> {
    let lost = Cause::Recording.sentence(summary.interferences.get(Cause::Recording)?);
    Some(format!("{lost}; make room, raise 'ulimit -f' or record less, and run it again"))
}

/// Tells that other processes of the run have gone, if they have.
pub fn tell_lost(finished: &Finished) {
    if let Some(lost) = &finished.summary.lost {
        let simulated = finished.summary.simulated;
        let text = format!(
            "{}gnomon: {lost}: the run ended at {simulated} of simulated time; what was recorded until then is kept\n",
            ranks::prefix()
        );
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

/// The guests in an unexpected final state.
pub fn unexpected(summary: &Summary) -> impl Iterator<Item = &FinalGuest> {
    summary.guests.iter().filter(|guest| !guest.as_expected)
}

fn write_unexpected(text: &mut String, summary: &Summary) {
    let count = unexpected(summary).count();
    let _ = writeln!(text, "gnomon: {count} of {} guests in an unexpected final state:", summary.guests.len());
    for guest in unexpected(summary).take(LISTED) {
        let _ = write!(text, "  {}: {}: {}; expected {}", guest.host, guest.path, guest.state, guest.expected);
        if let Some(path) = telling_file(&summary.data_directory, guest) {
            let _ = write!(text, "; see {}", path.display());
        }
        if let Some(doing) = &guest.doing {
            let _ = write!(text, "; it {doing}");
        }
        if let Some(report) = &guest.crash_report {
            let _ = write!(text, " and {report} beside it");
        }
        text.push('\n');
    }
    if count > LISTED {
        let _ = writeln!(text, "  and {} more; all are in the log", count - LISTED);
    }
}

fn write_summary(text: &mut String, finished: &Finished) {
    let summary = &finished.summary;
    let simulated = summary.simulated.as_nanos() as f64 / 1e9;
    let wall = summary.wall.as_secs_f64();
    let how = match summary.verdict {
        // Some of what it was to leave is missing, and the exit status says so, too.
        Verdict::Success if summary.interferences.get(Cause::Recording).is_some() => "failed",
        Verdict::Success => "done",
        Verdict::Failed => "failed",
        Verdict::Interrupted if could_not_record(finished) => "failed",
        Verdict::Interrupted => "interrupted",
    };
    let _ = write!(text, "{how}: {simulated} s simulated in {}", seconds(summary.wall));
    if wall > 0.0 && simulated > 0.0 {
        let _ = write!(text, " ({:.3}x real time)", Significant(simulated / wall));
    }
    let stats = &summary.stats;
    let (packets, calls) = (stats.gnomon.network.packets_sent, stats.syscalls.values().sum::<u64>());
    let _ = writeln!(text, ": {} guests, {packets} packets, {calls} system calls", summary.guests.len());
    let unsupported = &stats.gnomon.interception.unsupported;
    if !unsupported.is_empty() {
        let calls: Vec<String> = unsupported.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        let _ = writeln!(text, "unsupported system calls: {}", calls.join(", "));
    }
    if stats.gnomon.outputs_refused > 0 {
        let writes = stats.gnomon.outputs_refused;
        let _ = writeln!(
            text,
            "output limit: {writes} writes were refused; raise experimental.output_limit if they were wanted"
        );
    }
    write_crashes(text, summary);
    write_repeatability(text, summary);
    write_model(text, summary);
    write_costs(text, summary);
    if summary.profile.is_some() {
        let _ = writeln!(text, "profile: gnomon profile {}", summary.data_directory.display());
    }
    let _ = writeln!(text, "digest: {}", summary.digest);
    let _ = writeln!(text, "data: {}", summary.data_directory.display());
}

/// Where the reports of crashes lie.
fn write_crashes(text: &mut String, summary: &Summary) {
    let reports = &summary.crash_reports;
    for report in reports.iter().take(LISTED) {
        let _ = writeln!(text, "crashed: {}", report.display());
    }
    if reports.len() > LISTED {
        let _ = writeln!(text, "and {} more crashes; all are in the log", reports.len() - LISTED);
    }
}

/// What made the run depend on this machine, if anything did.
fn write_repeatability(text: &mut String, summary: &Summary) {
    for (cause, seen) in summary.interferences.iter() {
        if cause == Cause::Recording {
            // Told before, also to those who want it quiet; what the guests did is not concerned.
            continue;
        }
        let _ = writeln!(text, "not reproducible to the bit: {}", cause.sentence(seen));
    }
}

/// What computing took by a model, and how much of it the model did not know.
fn write_model(text: &mut String, summary: &Summary) {
    let computing = &summary.stats.gnomon.computing;
    let intervals = computing.modelled_intervals;
    if intervals == 0 {
        return;
    }
    let (pairs, programs) = (computing.modelled_unknown_pairs, computing.modelled_unknown_programs);
    let _ = write!(
        text,
        "cpu_model: computing took {:.3} s of simulated time, in {intervals} intervals between calls",
        computing.modelled_ns as f64 / 1e9
    );
    if pairs + programs > 0 {
        let share = 100.0 * (pairs + programs) as f64 / intervals as f64;
        let _ = write!(
            text,
            "; {share:.1} % of them took a mean, since the file lacks their pair of calls ({pairs}) or their program ({programs})"
        );
    }
    text.push('\n');
}

/// Processor time by what it was spent on, and the memory of the process.
fn write_costs(text: &mut String, summary: &Summary) {
    let (cpu, memory) = (&summary.stats.gnomon.cpu, &summary.stats.gnomon.memory);
    let _ = write!(
        text,
        "processor time: {:.2} s: guests {:.2}, simulated kernel {:.2}, network stack {:.2}, engine {:.2}, set-up {:.2}",
        cpu.total_s, cpu.guest_s, cpu.kernel_s, cpu.stack_s, cpu.engine_s, cpu.other_s
    );
    // Shares come from samples: of a short run they say little.
    match cpu.overhead().filter(|_| cpu.guest_s >= 0.1) {
        Some(ratio) => _ = writeln!(text, " ({ratio:.2} times what the programs themselves took)"),
        None => text.push('\n'),
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let _ = write!(text, "memory: {:.0} MiB at most", mib(memory.peak_pss_bytes));
    let guests = summary.guests.iter().filter(|guest| guest.pid.is_some()).count();
    if guests > 1 {
        let _ = write!(text, ", {:.2} MiB per guest", mib(memory.peak_pss_bytes) / guests as f64);
    }
    text.push('\n');
}

fn seconds(wall: Duration) -> String {
    format!("{:.2} s", wall.as_secs_f64())
}

/// A factor with about three digits.
struct Significant(f64);

impl std::fmt::Display for Significant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            v if v >= 100.0 => write!(f, "{v:.0}"),
            v if v >= 10.0 => write!(f, "{v:.1}"),
            v => write!(f, "{v:.2}"),
        }
    }
}

/// The output in which a guest is likely to have said what was wrong: standard error, unless it wrote to standard output alone, as tor does.
fn telling_file(data_directory: &Path, guest: &FinalGuest) -> Option<PathBuf> {
    let has_text = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let files = [GuestFile::Stderr, GuestFile::Stdout].map(|file| output_file(data_directory, guest, file));
    files.iter().flatten().find(|path| has_text(path)).or(files[0].as_ref()).cloned()
}

/// Where a guest's output lies; None for one that never started. Such files are named after the program that was loaded, which
/// is not always the one that the experiment names (links, scripts), and the process.
pub fn output_file(data_directory: &Path, guest: &FinalGuest, file: GuestFile) -> Option<PathBuf> {
    let suffix = format!(".{}.{}", guest.pid?, file.extension());
    let files = std::fs::read_dir(data_directory.join("hosts").join(&guest.host)).ok()?;
    let is_it =
        |path: &PathBuf| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(&suffix));
    files.filter_map(|entry| Some(entry.ok()?.path())).find(is_it)
}
