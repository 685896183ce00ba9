//! Properties of the sources that no compiler checks: who may depend on whom, sizes of files, what may lie in the repository.
//!
//! A rule that stands in the way is changed here, with its reason in the commit, and in `ARCHITECTURE.md` where it says so too.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates and those of the workspace that each may know, in the order in which data flows.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("probes", &["base"]),
    // What becomes of the rows.
    ("provenance", &["base", "probes"]),
    ("topology", &["base"]),
    ("engine", &["base"]),
    ("tcpip", &["base", "probes"]),
    // It checks settings of network stacks where they are written.
    ("scenario", &["base", "probes", "tcpip", "topology"]),
    ("interface", &["base", "tcpip"]),
    ("linux-abi", &["base"]),
    ("guest", &["base"]),
    ("symbols", &[]),
    ("simkernel", &["base", "linux-abi", "guest", "probes", "symbols", "tcpip"]),
    ("recorder", &["base"]),
    // MPI, and the way to it.
    ("ranks", &["base"]),
    // A program of its own, which also runs where no simulator is.
    ("traffic", &[]),
    ("tornet", &["base"]),
    // Tor's protocol.
    ("onion", &[]),
    // What programs that speak it share.
    ("onion-program", &["onion"]),
    // A program of its own.
    ("relay", &["onion", "onion-program"]),
    // A program of its own.
    ("onion-client", &["onion", "onion-program"]),
    // It knows what warnings of tor mean.
    ("report", &["base", "tornet"]),
    // Its pages are made of the report's parts.
    ("profile", &["base", "report"]),
    // Its pages are made of the report's parts.
    ("lab", &["report"]),
    // A program of its own, which links with DuckDB; its tests read records that the other makes.
    ("view", &["base", "probes", "provenance"]),
    // Tests of both by scripts of others; nobody knows it.
    ("packetdrill", &["base", "guest", "linux-abi", "simkernel", "tcpip"]),
    // Loaded by guests in place of parts of libcrypto; nobody knows it.
    ("cheap-crypto", &[]),
    // Gives all that reads foreign bytes bytes of any kind; nobody knows it.
    (
        "fuzz",
        &[
            "base",
            "onion",
            "topology",
            "scenario",
            "tcpip",
            "linux-abi",
            "guest",
            "symbols",
            "simkernel",
            "traffic",
            "tornet",
            "report",
        ],
    ),
];

/// Lines of one source file, its unit tests not counted.
const LONG_FILE: usize = 800;
const LONGEST_FILE: usize = 1200;

const LARGEST_FILE_BYTES: u64 = 256 * 1024;
/// Files that may be larger than that or not text, each with its reason.
const BLOBS: &[&str] = &[
    // Fonts: text in PNG files must not depend on the machine's.
    "crates/report/assets/Inter-400.ttf",
    "crates/report/assets/Inter-600.ttf",
    // What the page of a run's provenance looks like.
    "docs/view-dark.png",
    "docs/view-light.png",
];

/// Inputs of the fuzzer, which are bytes of any kind; each short, and not many.
const CORPUS: &str = "crates/fuzz/corpus/";
const LARGEST_INPUT_BYTES: u64 = 16 * 1024;
const CORPUS_BYTES: u64 = 1024 * 1024;

/// Where things lie on somebody's machine; in two parts, or this file would break the rule.
const MACHINE_PATHS: &[(&str, &str)] = &[("/wo", "rk/"), ("/ro", "ot/")];

/// The programs of crates that are not the simulator: they read their own command lines.
const OTHER_PROGRAMS: &[&str] = &[
    "crates/onion-client/src/main.rs",
    "crates/relay/src/main.rs",
    "crates/traffic/src/main.rs",
    "crates/fuzz/src/main.rs",
    "crates/view/src/main.rs",
];

/// Where unsafe code may be: guests' memory and machine state, interfaces in C that tools of others load, and guests, and what a relay
/// asks the kernel about its connections and a client the C library; a call and a hint of the lowest crate.
const UNSAFE_PLACES: [&str; 7] = [
    "crates/base/src/prefetch.rs",
    "crates/base/src/wall.rs",
    "crates/guest/",
    "crates/packetdrill/",
    "crates/cheap-crypto/",
    "crates/relay/src/kernel.rs",
    "crates/onion-client/src/memory.rs",
];

struct File {
    /// Relative to the repository, with `/`.
    name: String,
    path: PathBuf,
}

impl File {
    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }

    /// Rust code of a crate, rather than its tests, examples or benches.
    fn is_crate_source(&self) -> bool {
        self.is_rust() && (self.name.starts_with("src/") || self.name.contains("/src/"))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files but what git ignores.
fn files() -> Vec<File> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.strip_prefix(root()).expect("inside").to_str().expect("UTF-8 names").to_owned();
            if path.is_symlink() || is_ignored(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(File { name, path });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.iter().any(|file| file.name == "Cargo.toml"), "no sources in {}", root().display());
    found
}

/// As `.gitignore` says.
fn is_ignored(name: &str) -> bool {
    matches!(name, ".git" | "bin" | "target") || name.ends_with(".data")
}

/// Fails with every line of `problems`, so that one run shows all.
fn report(rule: &str, problems: Vec<String>) {
    assert!(problems.is_empty(), "{rule}:\n  {}", problems.join("\n  "));
}

/// The names of a manifest's dependencies of every kind.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let of = |table: &toml::Table| -> Vec<String> {
        let tables = kinds.iter().filter_map(|kind| table.get(*kind)?.as_table());
        tables.flat_map(|table| table.keys().cloned()).collect()
    };
    let targets = manifest.get("target").and_then(|target| target.as_table()).into_iter().flatten();
    let of_targets = targets.filter_map(|(_, table)| table.as_table()).flat_map(of);
    of(manifest).into_iter().chain(of_targets).collect()
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_says() {
    let mut problems = Vec::new();
    let mut seen = Vec::new();
    for file in files().iter().filter(|file| file.name.starts_with("crates/") && file.name.ends_with("/Cargo.toml")) {
        let manifest: toml::Table = file.text().parse().expect("a manifest");
        let name = manifest["package"]["name"].as_str().expect("a name").to_owned();
        let Some((_, may_know)) = MAY_KNOW.iter().find(|(known, _)| *known == name) else {
            problems.push(format!("{}: crate '{name}' has no place in MAY_KNOW", file.name));
            continue;
        };
        for dependency in dependencies(&manifest) {
            let is_ours = MAY_KNOW.iter().any(|(known, _)| *known == dependency) || dependency == "gnomon";
            if is_ours && !may_know.contains(&dependency.as_str()) {
                problems.push(format!("{name} may not know {dependency}"));
            }
        }
        seen.push(name);
    }
    for (name, _) in MAY_KNOW {
        if !seen.iter().any(|other| other == name) {
            problems.push(format!("crate '{name}' of MAY_KNOW does not exist"));
        }
    }
    report("dependencies between crates", problems);
}

#[test]
fn files_have_one_subject() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.is_crate_source() && !file.name.contains("/tests")) {
        let text = file.text();
        let lines = text.lines().take_while(|line| *line != "#[cfg(test)]").count();
        if lines > LONGEST_FILE {
            problems.push(format!("{}: {lines} lines, at most {LONGEST_FILE}: split it", file.name));
        } else if lines > LONG_FILE {
            println!("{}: {lines} lines is long: does it have one subject?", file.name);
        }
    }
    report("length of files", problems);
}

#[test]
fn the_repository_holds_text_of_reasonable_size() {
    let mut problems = Vec::new();
    let is_text = |file: &&File| !BLOBS.contains(&file.name.as_str()) && !file.name.starts_with(CORPUS);
    for file in files().iter().filter(is_text) {
        let size = fs::metadata(&file.path).expect("metadata").len();
        if size > LARGEST_FILE_BYTES {
            problems.push(format!("{}: {size} bytes, at most {LARGEST_FILE_BYTES}", file.name));
        } else if String::from_utf8(fs::read(&file.path).expect("a readable file")).map_or(true, |s| s.contains('\0')) {
            problems.push(format!("{}: not text", file.name));
        }
    }
    report("blobs", problems);
}

#[test]
fn the_corpus_is_small() {
    let size = |file: &File| fs::metadata(&file.path).expect("metadata").len();
    let mut problems = Vec::new();
    let all = files();
    let inputs = || all.iter().filter(|file| file.name.starts_with(CORPUS));
    for file in inputs().filter(|file| size(file) > LARGEST_INPUT_BYTES) {
        problems.push(format!("{}: {} bytes, at most {LARGEST_INPUT_BYTES}", file.name, size(file)));
    }
    let total: u64 = inputs().map(size).sum();
    if total > CORPUS_BYTES {
        problems.push(format!("{total} bytes in all, at most {CORPUS_BYTES}"));
    }
    report("the corpus", problems);
}

/// Whether a line of code has `unsafe` as a keyword, or turns the lint against it off.
fn has_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let opens = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "#[unsafe("];
    opens.iter().any(|text| code.contains(text)) || code.contains("allow(unsafe_code")
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    let may = |file: &File| UNSAFE_PLACES.iter().any(|place| file.name.starts_with(place));
    let is_elsewhere = |file: &&File| file.is_rust() && !may(file) && file.name != "tests/tidy.rs";
    let mut problems = Vec::new();
    for file in files().iter().filter(is_elsewhere) {
        for (number, line) in file.text().lines().enumerate().filter(|(_, line)| has_unsafe(line)) {
            problems.push(format!("{}:{}: {}", file.name, number + 1, line.trim()));
        }
    }
    report("unsafe code where it may not be", problems);
}

#[test]
fn every_crate_inherits_the_lints() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.name.ends_with("Cargo.toml")) {
        let manifest: toml::Table = file.text().parse().expect("a manifest");
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace")?.as_bool());
        if inherits != Some(true) {
            problems.push(format!("{}: lacks [lints] workspace = true", file.name));
        }
    }
    report("lints", problems);
}

/// `cargo test` builds a crate's programs only if the crate has integration tests, and other tests look for them beside gnomon.
#[test]
fn every_program_has_tests_of_its_own() {
    let mut problems = Vec::new();
    let files = files();
    for file in files.iter().filter(|file| file.name.ends_with("/Cargo.toml")) {
        let manifest: toml::Table = file.text().parse().expect("a manifest");
        let tests = file.name.replace("Cargo.toml", "tests/");
        if manifest.contains_key("bin") && !files.iter().any(|file| file.name.starts_with(&tests)) {
            problems.push(format!("{}: a program without {tests}", file.name));
        }
    }
    report("programs without tests", problems);
}

/// The environment and the command line are inputs of a run that no plan shows: only the program's own package reads them.
#[test]
fn crates_do_not_read_the_environment() {
    let mut problems = Vec::new();
    let is_program = |file: &File| OTHER_PROGRAMS.contains(&file.name.as_str());
    let of_crates = |file: &&File| file.name.starts_with("crates/") && file.is_crate_source() && !is_program(file);
    for file in files().iter().filter(of_crates) {
        let text = file.text();
        let code = text.lines().take_while(|line| *line != "#[cfg(test)]").enumerate();
        for (number, line) in code.filter(|(_, line)| line.contains("env::var") || line.contains("env::args")) {
            problems.push(format!("{}:{}: {}", file.name, number + 1, line.trim()));
        }
    }
    report("reading the environment outside the program", problems);
}

/// The program's parts use each other in one direction: the command line knows all, what it starts knows nothing of it.
#[test]
fn the_simulation_knows_nothing_of_the_command_line() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.name.starts_with("src/") && !file.name.starts_with("src/cli/")) {
        let text = file.text();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.contains("crate::cli")) {
            problems.push(format!("{}:{}: {}", file.name, number + 1, line.trim()));
        }
    }
    report("uses of the command line outside of it", problems);
}

#[test]
fn every_crate_says_what_it_is() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut problems = Vec::new();
    for (name, _) in MAY_KNOW {
        let header = fs::read_to_string(root().join("crates").join(name).join("src/lib.rs")).unwrap_or_default();
        if !header.starts_with("//!") {
            problems.push(format!("crates/{name}/src/lib.rs does not begin with //!"));
        }
        if !architecture.contains(&format!("`crates/{name}`")) {
            problems.push(format!("ARCHITECTURE.md does not name `crates/{name}`"));
        }
    }
    report("documentation of crates", problems);
}

#[test]
fn every_module_says_what_it_is() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.is_crate_source()) {
        if !file.text().starts_with("//!") {
            problems.push(format!("{} does not begin with //!", file.name));
        }
    }
    report("documentation of modules", problems);
}

#[test]
fn nothing_names_somebodys_machine() {
    let mut problems = Vec::new();
    for file in files() {
        let Ok(text) = fs::read_to_string(&file.path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if MACHINE_PATHS.iter().any(|(a, b)| line.contains(&format!("{a}{b}"))) {
                problems.push(format!("{}:{}: {}", file.name, number + 1, line.trim()));
            }
        }
    }
    report("paths of one machine", problems);
}

/// The targets of a Markdown text's links that are files: not addresses, not headings.
fn linked_files(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains("://"))
        .filter_map(|target| target.split('#').next())
        .filter(|t| !t.is_empty())
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut problems = Vec::new();
    for file in files().iter().filter(|file| file.name.ends_with(".md")) {
        let folder = file.path.parent().expect("a folder");
        let text = file.text();
        for target in linked_files(&text).filter(|target| !folder.join(target).exists()) {
            problems.push(format!("{}: link to '{target}'", file.name));
        }
    }
    report("links", problems);
}
