//! Files for what reads files by their names: a folder in memory where the machine has such, one for each thread.

use landlock::{ABI, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

thread_local! {
    static FOLDER: TempDir = new();
}

/// Where the folders lie, if that was said.
static PLACE: OnceLock<PathBuf> = OnceLock::new();

/// Says where the folders shall lie, and lets threads that are confined later write there.
pub fn work_in(place: PathBuf) {
    PLACE.get_or_init(|| place);
}

fn new() -> TempDir {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("gnomon-fuzz-");
        builder
    };
    if let Some(place) = PLACE.get() {
        return builder().tempdir_in(place).expect("a folder where it was said");
    }
    builder().tempdir_in("/dev/shm").or_else(|_| builder().tempdir()).expect("a folder for temporary files")
}

/// The thread's folder.
pub fn path() -> PathBuf {
    FOLDER.with(|folder| folder.path().to_path_buf())
}

/// Writes a file of the thread's folder.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = path().join(name);
    write(&path, bytes);
    path
}

/// Writes a file, and the folders that it needs.
pub fn write(path: &Path, bytes: &[u8]) {
    if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
        fs::create_dir_all(folder).expect("a folder");
    }
    fs::write(path, bytes).expect("a file");
}

/// An empty folder in the thread's folder.
pub fn empty(name: &str) -> PathBuf {
    let path = path().join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// Text in parts, each behind a line that is `%` and a digit: the part's number, and what follows the line.
pub fn parts(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut parts: Vec<(usize, Vec<u8>)> = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line {
            [b'%', digit @ b'0'..=b'9', b'\n'] => parts.push((usize::from(digit - b'0'), Vec::new())),
            _ => {
                if parts.is_empty() {
                    parts.push((0, Vec::new()));
                }
                parts.last_mut().expect("one").1.extend_from_slice(line);
            }
        }
    }
    parts
}

/// No file may become longer: a call that asks for more is no reason to fill a disk.
const LONGEST_FILE: u64 = 64 << 20;

/// Keeps the thread from writing outside of its folder and of `also`: simulated kernels make real calls for files, and nothing is yet known of
/// what they are given.
///
/// # Panics
/// When the kernel refuses. One without Landlock confines nothing.
pub fn confine(also: &[PathBuf]) {
    let writing = AccessFs::from_write(ABI::V6);
    let folder = path();
    let places = also.iter().chain(PLACE.get()).map(PathBuf::as_path).chain([folder.as_path(), Path::new("/dev/null")]);
    let mut rules = Ruleset::default().handle_access(writing).and_then(|rules| rules.create()).expect("Landlock");
    for place in places {
        let allowed = if place.is_dir() { writing } else { writing & AccessFs::from_file(ABI::V6) };
        let descriptor = PathFd::new(place).expect("a place to write");
        rules = rules.add_rule(PathBeneath::new(descriptor, allowed)).expect("Landlock");
    }
    // The folder itself goes with the thread.
    if let Some(around) = folder.parent() {
        let descriptor = PathFd::new(around).expect("a place to write");
        let removing = PathBeneath::new(descriptor, BitFlags::from(AccessFs::RemoveDir));
        rules = rules.add_rule(removing).expect("Landlock");
    }
    rules.restrict_self().expect("Landlock");
    let mut told = SigSet::empty();
    told.add(Signal::SIGXFSZ);
    told.thread_block().expect("a mask");
    setrlimit(Resource::RLIMIT_FSIZE, LONGEST_FILE, LONGEST_FILE).expect("a limit");
}
