//! The file of `-o`. It stays as it was until all that belongs into it is there.
//!
//! Whoever reads a record has been confined, and can name no files. So this process starts itself anew for the reading, with a file beside the
//! asked one as standard output, which takes its name in the end.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Has this program write what `words` ask of it into the file `out`, and returns its status, with which it has said what went wrong.
///
/// # Errors
/// When the file cannot be written.
pub fn write(out: &str, words: &[&str]) -> Result<ExitCode> {
    let refuse = |error: io::Error| Error::new(format!("cannot create '{out}': {error}"));
    let place = fs::canonicalize(out).unwrap_or_else(|_| PathBuf::from(out));
    let known = fs::metadata(out).ok();
    if known.as_ref().is_some_and(|known| !known.is_file() && !known.is_dir()) {
        // Devices and pipes have nothing to lose.
        return ask(words, OpenOptions::new().write(true).open(out).map_err(refuse)?);
    }
    let (draft, file) = Draft::new(place).map_err(refuse)?;
    if let Some(known) = known {
        OpenOptions::new().write(true).open(&draft.place).map_err(refuse)?;
        file.set_permissions(known.permissions())?;
    }
    let code = ask(words, file)?;
    if code == ExitCode::SUCCESS {
        draft.keep().map_err(refuse)?;
    }
    Ok(code)
}

/// A file beside the one that it is to become, which goes away unless it is kept.
struct Draft {
    path: PathBuf,
    place: PathBuf,
}

impl Draft {
    fn new(place: PathBuf) -> io::Result<(Draft, File)> {
        let mut name = OsString::from(".");
        name.push(place.file_name().ok_or(io::ErrorKind::IsADirectory)?);
        name.push(format!(".{}", std::process::id()));
        let path = place.with_file_name(name);
        let file = File::create_new(&path)?;
        Ok((Draft { path, place }, file))
    }

    fn keep(self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn ask(words: &[&str], out: File) -> Result<ExitCode> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).stdin(Stdio::null()).stdout(out).kill_on_drop(true);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut child = command.spawn()?;
        tokio::select! {
            status = child.wait() => code(status?),
            // What has been started ends with this process, and the draft goes away.
            _ = interrupt.recv() => Ok(ExitCode::from(130)),
            _ = terminate.recv() => Ok(ExitCode::from(143)),
        }
    })
}

fn code(status: ExitStatus) -> Result<ExitCode> {
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(Error::new(format!("reading the record broke off: {status}"))),
    }
}
