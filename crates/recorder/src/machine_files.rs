//! `machine-files.tsv`: the machine's files that guests have read, and what identifies their content. Two runs of one experiment with
//! different digests differ in these lines, or in the simulator.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::Duration;

/// The file's name in the data directory.
pub const FILE: &str = "machine-files.tsv";

/// `sim-stats.json`: the machine's files in brief.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MachineFilesStats {
    /// Programs and libraries (ELF files), and one hash of what identifies them, wherever they lie.
    pub programs: u64,
    pub programs_hash: String,
    /// All other files, and folders that were listed; likewise.
    pub others: u64,
    pub others_hash: String,
}

/// What a path was when the run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Program,
    File,
    Folder,
    Gone,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Program => "program",
            Kind::File => "file",
            Kind::Folder => "folder",
            Kind::Gone => "gone",
        }
    }
}

/// What became of the machine's files that guests have read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MachineFiles {
    /// The text of `machine-files.tsv`.
    pub text: String,
    pub stats: MachineFilesStats,
    /// How many files changed, or went away, since the run began: guests may have read something else. Folders do not count, since
    /// `/tmp` and its like change all the time.
    pub changed: u64,
    /// The first of them.
    pub first_changed: Option<String>,
}

/// Files that were identified early: by path, the version, and what it is.
type Known = BTreeMap<Vec<u8>, (Version, Kind, String)>;

/// A thread that identifies files beside the run. Hashing a large file takes long: some 50 ms for 100 MB.
#[derive(Debug)]
pub struct EarlyLook(Option<JoinHandle<Known>>);

impl EarlyLook {
    /// Identifies paths as they arrive, until the sender is gone. `began` is when the run began, since 1970.
    pub fn begin(paths: Receiver<Vec<u8>>, began: Duration) -> EarlyLook {
        let look = move || {
            let known = |path: Vec<u8>| {
                let file = Path::new(OsStr::from_bytes(&path));
                let version = Version::of(file).filter(|version| version.is_from_before(began))?;
                let (kind, identity) = identify(file);
                Some((path, (version, kind, identity)))
            };
            paths.iter().filter_map(known).collect()
        };
        // Without the thread, `describe` identifies all files.
        EarlyLook(std::thread::Builder::new().name("machine files".to_owned()).spawn(look).ok())
    }

    fn finish(self) -> Known {
        self.0.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Identifies all of these files. A file that was seen `early` and is still the same version is not read again; otherwise its content then and
/// now are compared. A file that was not seen early counts as changed if its inode changed after the run `began` (a time since 1970).
pub fn describe(paths: &[Vec<u8>], began: Duration, early: EarlyLook) -> MachineFiles {
    let known = early.finish();
    let mut text = "kind\tidentity\tpath\n".to_owned();
    let (mut programs, mut others) = (Identities::default(), Identities::default());
    let (mut changed, mut first_changed) = (0, None);
    for name in paths {
        let shown = String::from_utf8_lossy(name).escape_default().to_string();
        let path = Path::new(OsStr::from_bytes(name));
        let unchanged = known.get(name).filter(|(version, ..)| Version::of(path) == Some(*version));
        let (kind, identity) =
            unchanged.map_or_else(|| identify(path), |(_, kind, identity)| (*kind, identity.clone()));
        text.push_str(&format!("{}\t{identity}\t{shown}\n", kind.name()));
        let is_changed = match known.get(name) {
            Some((_, before, what)) => (*before, what) != (kind, &identity),
            None => changed_after(path, began),
        };
        if is_changed {
            changed += 1;
            first_changed.get_or_insert(shown);
        }
        if kind == Kind::Program { &mut programs } else { &mut others }.add(identity);
    }
    let stats = MachineFilesStats {
        programs: programs.count,
        programs_hash: programs.hash(),
        others: others.count,
        others_hash: others.hash(),
    };
    MachineFiles { text, stats, changed, first_changed }
}

/// What changes whenever a file's content does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    device: u64,
    inode: u64,
    bytes: u64,
    /// When the content was written, and when anything of the file was changed, in seconds since 1970 and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Version {
    /// None for what is no file.
    fn of(path: &Path) -> Option<Version> {
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some(Version {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Whether any change from this moment's second on makes another version. The clock of files moves every few milliseconds only, so two
    /// changes within one tick would look the same.
    fn is_from_before(&self, moment: Duration) -> bool {
        self.changed.0 < moment.as_secs().cast_signed()
    }
}

/// Whether a file is gone, or anything of it was changed after this moment: when its content was written can be set by anybody.
fn changed_after(path: &Path, moment: Duration) -> bool {
    match fs::metadata(path) {
        Ok(meta) => {
            let changed = (meta.ctime(), meta.ctime_nsec());
            meta.is_file() && changed > (moment.as_secs().cast_signed(), moment.subsec_nanos().into())
        }
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[derive(Default)]
struct Identities {
    count: u64,
    all: BTreeSet<String>,
}

impl Identities {
    fn add(&mut self, identity: String) {
        self.count += 1;
        self.all.insert(identity);
    }

    /// Short enough for a table, long enough to be unique there.
    fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for identity in &self.all {
            hasher.update(identity.as_bytes()).update(b"\n");
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

/// A program by its build id, if it has one, everything else by a hash of its content, of a folder the names in it.
fn identify(path: &Path) -> (Kind, String) {
    let gone = || (Kind::Gone, "-".to_owned());
    let Ok(meta) = fs::metadata(path) else { return gone() };
    if meta.is_dir() {
        let Ok(entries) = fs::read_dir(path) else { return gone() };
        let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort_unstable();
        let mut hasher = blake3::Hasher::new();
        for name in names {
            hasher.update(name.as_bytes()).update(b"\0");
        }
        return (Kind::Folder, short(&hasher));
    }
    // Opening what is a pipe by now would wait for its other end.
    if !meta.is_file() {
        return gone();
    }
    let Ok(file) = File::open(path) else { return gone() };
    let mut magic = [0; 4];
    let is_program = file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF";
    if let Some(id) = is_program.then(|| build_id(&file)).flatten() {
        return (
            Kind::Program,
            format!("build-id:{}", id.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        );
    }
    let mut hasher = blake3::Hasher::new();
    match hasher.update_reader(file) {
        Ok(_) => (if is_program { Kind::Program } else { Kind::File }, short(&hasher)),
        Err(_) => gone(),
    }
}

fn short(hasher: &blake3::Hasher) -> String {
    format!("blake3:{}", &hasher.finalize().to_hex()[..40])
}

/// The build id of a 64-bit ELF file: the note NT_GNU_BUILD_ID of the owner "GNU" (ELF specification, "Note Section").
fn build_id(file: &File) -> Option<Vec<u8>> {
    const PT_NOTE: u32 = 4;
    const NT_GNU_BUILD_ID: u32 = 3;
    const LONGEST_NOTES: u64 = 64 << 10;
    let read = |at: u64, bytes: u64| {
        let mut data = vec![0; bytes as usize];
        file.read_exact_at(&mut data, at).ok().map(|()| data)
    };
    let u16_at = |data: &[u8], at: usize| Some(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?));
    let u32_at = |data: &[u8], at: usize| Some(u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?));
    let u64_at = |data: &[u8], at: usize| Some(u64::from_le_bytes(data.get(at..at + 8)?.try_into().ok()?));
    let head = read(0, 64)?;
    let (table, size, count) = (u64_at(&head, 32)?, u64::from(u16_at(&head, 54)?), u64::from(u16_at(&head, 56)?));
    for index in 0..count {
        let entry = read(table.checked_add(index * size)?, 56)?;
        if u32_at(&entry, 0)? != PT_NOTE {
            continue;
        }
        let notes = read(u64_at(&entry, 8)?, u64_at(&entry, 32)?.min(LONGEST_NOTES))?;
        let mut at = 0;
        while let (Some(owner), Some(length), Some(kind)) =
            (u32_at(&notes, at), u32_at(&notes, at + 4), u32_at(&notes, at + 8))
        {
            let name = at + 12;
            let content = name + (owner as usize).next_multiple_of(4);
            if kind == NT_GNU_BUILD_ID && notes.get(name..name + 4) == Some(b"GNU\0") {
                return notes.get(content..content + length as usize).map(<[u8]>::to_vec);
            }
            at = content + (length as usize).next_multiple_of(4);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_identified_by_what_is_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).as_os_str().as_bytes().to_vec();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for name in ["a", "sub/b"] {
            fs::write(folder.path().join(name), "the same").unwrap();
        }
        let program = std::env::current_exe().unwrap().as_os_str().as_bytes().to_vec();
        let began = LATE;
        let MachineFiles { text, stats, changed, first_changed } =
            describe(&[path("a"), path("sub"), path("sub/b"), path("none"), program], began, nothing());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let kinds: Vec<&str> = lines.iter().map(|line| line[0]).collect();
        assert_eq!(kinds, ["kind", "file", "folder", "file", "gone", "program"]);
        assert_eq!(lines[1][1], lines[3][1]);
        assert!(lines[5][1].starts_with("build-id:") || lines[5][1].starts_with("blake3:"), "{text}");
        assert_eq!((stats.programs, stats.others), (1, 4));
        fs::write(folder.path().join("a"), "another").unwrap();
        assert_eq!(changed, 1);
        assert!(first_changed.is_some_and(|first| first.ends_with("/none")));
        let other = describe(&[path("a"), path("sub"), path("sub/b"), path("none")], Duration::ZERO, nothing());
        assert!(other.stats.others_hash != stats.others_hash);
        assert_eq!(other.changed, 3, "all but the folder");
    }

    /// After every change of a file.
    const LATE: Duration = Duration::from_secs(u64::MAX >> 1);

    /// No file was looked at early.
    fn nothing() -> EarlyLook {
        early(&[], Duration::ZERO)
    }

    fn early(paths: &[Vec<u8>], began: Duration) -> EarlyLook {
        let (told, to_look_at) = std::sync::mpsc::channel();
        let look = EarlyLook::begin(to_look_at, began);
        paths.iter().for_each(|path| told.send(path.clone()).unwrap());
        look
    }

    #[test]
    fn what_was_seen_early_counts_while_the_file_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["same", "longer", "other", "old", "gone", "pipe", "folder", "touched"];
        let file = |name: &&str| folder.path().join(name);
        let paths: Vec<Vec<u8>> = names.iter().map(|name| file(name).as_os_str().as_bytes().to_vec()).collect();
        names.iter().for_each(|name| fs::write(file(name), name).unwrap());
        // All were changed after the run began, so nothing is remembered of them.
        assert_eq!(early(&paths, Duration::from_secs(1)).finish(), Known::new());
        let EarlyLook(Some(thread)) = early(&paths, LATE) else { panic!("no thread") };
        let known = thread.join().unwrap();
        assert_eq!(known.len(), names.len());
        fs::write(file(&"longer"), "longer than before").unwrap();
        fs::remove_file(file(&"other")).unwrap();
        fs::write(file(&"other"), "OTHER").unwrap();
        // As packages and rsync do, with the time of writing of long ago.
        let old = File::create(file(&"new")).unwrap();
        old.set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::rename(file(&"new"), file(&"old")).unwrap();
        for name in ["gone", "pipe", "folder"] {
            fs::remove_file(file(&name)).unwrap();
        }
        let pipe = file(&"pipe");
        assert!(std::process::Command::new("mkfifo").arg(pipe).status().unwrap().success());
        fs::create_dir(file(&"folder")).unwrap();
        File::options().append(true).open(file(&"touched")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        let seen = EarlyLook(Some(std::thread::spawn(move || known)));
        let (seen, anew) = (describe(&paths, LATE, seen), describe(&paths, LATE, nothing()));
        assert_eq!(seen.text, anew.text);
        assert_eq!(seen.changed, 6, "all but what is the same and what was touched: {}", seen.text);
    }

    #[test]
    fn a_library_of_the_distribution_has_its_build_id() {
        let file = File::open("/lib64/ld-linux-x86-64.so.2").unwrap();
        assert_eq!(build_id(&file).map(|id| id.len()), Some(20));
    }
}
