//! `machine-files.tsv`: the machine's files that guests have read, and what identifies their content. Two runs of one experiment with
//! different digests differ in these lines, or in the simulator.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

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

/// Looks at all of these files. `began` is when the run did, in whole seconds since 1970.
pub fn describe(paths: &[Vec<u8>], began: u64) -> MachineFiles {
    let mut text = "kind\tidentity\tpath\n".to_owned();
    let (mut programs, mut others) = (Identities::default(), Identities::default());
    let (mut changed, mut first_changed) = (0, None);
    for path in paths {
        let shown = String::from_utf8_lossy(path).escape_default().to_string();
        let path = Path::new(OsStr::from_bytes(path));
        let (kind, identity) = identify(path);
        text.push_str(&format!("{}\t{identity}\t{shown}\n", kind.name()));
        if kind != Kind::Folder && changed_after(path, began) {
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

/// Whether a file is gone, or its content was written in a later second than this one.
fn changed_after(path: &Path, second: u64) -> bool {
    match fs::metadata(path) {
        Ok(meta) => meta.is_file() && meta.mtime() > second.cast_signed(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
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
    let Ok(file) = File::open(path) else { return gone() };
    if !meta.is_file() {
        return gone();
    }
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
        let began = u64::MAX >> 1;
        let MachineFiles { text, stats, changed, first_changed } =
            describe(&[path("a"), path("sub"), path("sub/b"), path("none"), program], began);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let kinds: Vec<&str> = lines.iter().map(|line| line[0]).collect();
        assert_eq!(kinds, ["kind", "file", "folder", "file", "gone", "program"]);
        assert_eq!(lines[1][1], lines[3][1]);
        assert!(lines[5][1].starts_with("build-id:") || lines[5][1].starts_with("blake3:"), "{text}");
        assert_eq!((stats.programs, stats.others), (1, 4));
        fs::write(folder.path().join("a"), "another").unwrap();
        assert_eq!(changed, 1);
        assert!(first_changed.is_some_and(|first| first.ends_with("/none")));
        let other = describe(&[path("a"), path("sub"), path("sub/b"), path("none")], 0);
        assert!(other.stats.others_hash != stats.others_hash);
        assert_eq!(other.changed, 3, "all but the folder");
    }

    #[test]
    fn a_library_of_the_distribution_has_its_build_id() {
        let file = File::open("/lib64/ld-linux-x86-64.so.2").unwrap();
        assert_eq!(build_id(&file).map(|id| id.len()), Some(20));
    }
}
