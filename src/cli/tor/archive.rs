//! `gnomon tor archive DIR...`: runs take less room. What guests left becomes an archive; tables of results are made first and stay, as does what
//! says how the run went, so that a batch (`gnomon tor run`) still knows it as complete.
//!
//! A run is whole at every moment, whenever this is killed: the archive gets its name when it is complete on the disk, and then what is in it is
//! renamed, by one step, before it is removed.

use crate::cli::{complain, show, status};
use ::report::{PublicSource, Request};
use clap::{Arg, ArgMatches, Command, value_parser};
use lzma_rust2::{XzOptions, XzWriterMt};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

/// What guests left, as `report` knows it too.
const HOSTS: &str = "hosts";
const ARCHIVE: &str = "hosts.tar.xz";
/// The archive while it grows, and what is in it while that is removed.
const PART: &str = "hosts.tar.xz.part";
const REMOVED: &str = "hosts.archived";
/// Compressed by itself.
const LOG: &str = "gnomon.log";

/// What each tor has on its own account in its folder, and nobody reads afterwards: directory documents, keys, its lock.
const LEFT_OUT: [&str; 3] = ["diff-cache", "keys", "lock"];
const LEFT_OUT_BEGINNING: &str = "cached-";

/// xz's usual level, and how much each thread compresses at a time.
const LEVEL: u32 = 6;
const BLOCK: u64 = 24 << 20;

pub fn command() -> Command {
    Command::new("archive")
        .about("Compress what runs left, and keep their tables")
        .before_help("Examples:\n  gnomon tor archive vanilla kist\n  gnomon tor archive net/seed-1.data")
        .after_help(
            "A run's folder 'hosts' becomes hosts.tar.xz, without what each tor cached, its keys and its lock; its log becomes gnomon.log.xz. Tables of all \
             transfers, circuits, relays and runs are written to RUN/report first, and stay with everything else. For another report, unpack: \
             tar -C RUN -xJf RUN/hosts.tar.xz. Exit status: 0 archived, 1 a file cannot be written, 2 bad input.",
        )
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .help("A run's data directory, or a folder whose runs (*.data) are all meant"),
        )
}

pub fn main(matches: &ArgMatches) -> u8 {
    let folders: Vec<&PathBuf> = matches.get_many("directory").into_iter().flatten().collect();
    let mut runs = Vec::new();
    for folder in folders {
        match runs_in(folder) {
            Ok(found) => runs.extend(found),
            Err(error) => {
                complain(&error);
                return status::BAD_INPUT;
            }
        }
    }
    for run in runs {
        match archive(&run) {
            Ok(text) => show(&format!("{}: {text}\n", run.display())),
            Err(Failure(text, code)) => {
                complain(&format!("{}: {text}", run.display()));
                return code;
            }
        }
    }
    status::SUCCESS
}

/// What to tell, and the exit status.
struct Failure(String, u8);

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure(format!("cannot be archived: {error}; what it had is still there"), status::FAILED)
    }
}

/// The folder itself if it is a run, or the runs in it, by name.
fn runs_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let is_run = |path: &Path| path.join("processed-config.yaml").is_file();
    if is_run(folder) {
        return Ok(vec![folder.to_path_buf()]);
    }
    let entries = fs::read_dir(folder).map_err(|error| format!("'{}' cannot be read: {error}", folder.display()))?;
    let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_run(path)).collect();
    runs.sort();
    if runs.is_empty() {
        return Err(format!(
            "'{}' is no data directory of a run, and has none in it; name one, such as net/seed-1.data",
            folder.display()
        ));
    }
    Ok(runs)
}

fn archive(run: &Path) -> Result<String, Failure> {
    let bad = |text: &str| Failure(text.to_owned(), status::BAD_INPUT);
    if !run.join("sim-stats.json").is_file() {
        return Err(bad("has not come to its end; let it, or remove it"));
    }
    let (hosts, packed, removed) = (run.join(HOSTS), run.join(ARCHIVE), run.join(REMOVED));
    if !hosts.exists() {
        // What an earlier call was removing.
        if packed.exists() && removed.exists() {
            fs::remove_dir_all(&removed)?;
        }
        return if packed.exists() { Ok("archived already".to_owned()) } else { Err(bad("has no folder 'hosts'")) };
    }
    let public = vec![PublicSource::BuiltIn];
    let request = Request { runs: vec![run.to_path_buf()], tables_only: true, public, ..Request::default() };
    let tables = ::report::write(&request).map_err(|error| {
        let code = if error.is_bad_input() { status::BAD_INPUT } else { status::FAILED };
        Failure(format!("its tables cannot be written, so nothing was archived: {error}"), code)
    })?;
    let part = run.join(PART);
    let before = pack(run, &part)?;
    fs::rename(&part, &packed)?;
    fs::rename(&hosts, &removed)?;
    fs::remove_dir_all(&removed)?;
    compress_log(run)?;
    let after = packed.metadata()?.len();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    Ok(format!("{:.1} MiB in {:.1} MiB, tables in {}", mib(before), mib(after), tables.tables.display()))
}

/// Packs the folder 'hosts' of `run` into `part`, which is on the disk then. Returns how many bytes its files have.
fn pack(run: &Path, part: &Path) -> io::Result<u64> {
    let file = File::create(part)?;
    let mut tar = tar::Builder::new(compressor(BufWriter::new(&file))?);
    tar.follow_symlinks(false);
    let mut bytes = 0;
    let mut folders = vec![PathBuf::from(HOSTS)];
    while let Some(folder) = folders.pop() {
        tar.append_dir(&folder, run.join(&folder))?;
        let mut entries = fs::read_dir(run.join(&folder))?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if is_left_out(&name) {
                continue;
            }
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() || kind.is_symlink() {
                bytes += entry.metadata()?.len();
                tar.append_path_with_name(entry.path(), &name)?;
            }
        }
    }
    tar.into_inner()?.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(bytes)
}

fn compressor<W: Write>(writer: W) -> io::Result<XzWriterMt<W>> {
    let mut options = XzOptions::with_preset(LEVEL);
    options.set_block_size(NonZeroU64::new(BLOCK));
    XzWriterMt::new(writer, options, u32::try_from(num_cpus::get()).unwrap_or(1))
}

/// Only in a host's own folder, where tor has its data: other programs' files may have any name.
fn is_left_out(path: &Path) -> bool {
    let of_host = path.components().count() == 3;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    of_host && (LEFT_OUT.contains(&name.as_ref()) || name.starts_with(LEFT_OUT_BEGINNING))
}

fn compress_log(run: &Path) -> io::Result<()> {
    let (log, packed, part) = (run.join(LOG), run.join("gnomon.log.xz"), run.join("gnomon.log.xz.part"));
    if !log.is_file() {
        return Ok(());
    }
    let file = File::create(&part)?;
    let mut writer = compressor(BufWriter::new(&file))?;
    io::copy(&mut File::open(&log)?, &mut writer)?;
    writer.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    fs::rename(&part, &packed)?;
    fs::remove_file(&log)
}
