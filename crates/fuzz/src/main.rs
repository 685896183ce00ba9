//! The fuzzer: libFuzzer with the target that `GNOMON_FUZZ_TARGET` names, which works in the folder that `GNOMON_FUZZ_FOLDER` names.
//! `tools/fuzz` builds it with instrumentation and runs it.
#![no_main]

use std::path::PathBuf;
use std::sync::OnceLock;

static TARGET: OnceLock<fuzz::Target> = OnceLock::new();
/// Where the input in hand is kept: a signal that is taken for a guest's ends the process before libFuzzer knows.
static LAST: OnceLock<PathBuf> = OnceLock::new();

fn choose() {
    let name = std::env::var("GNOMON_FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
    let target = fuzz::target_named(&name);
    let target = target.unwrap_or_else(|| panic!("GNOMON_FUZZ_TARGET names one of {}", names.join(", ")));
    TARGET.get_or_init(|| *target);
    let folder = PathBuf::from(std::env::var_os("GNOMON_FUZZ_FOLDER").expect("GNOMON_FUZZ_FOLDER names a folder"));
    LAST.get_or_init(|| folder.join("last"));
    fuzz::work_in(folder);
    let folders = std::env::args().skip(1);
    let folders = folders.map(|arg| PathBuf::from(arg.strip_prefix("-artifact_prefix=").unwrap_or(&arg)));
    fuzz::confine(&folders.filter(|folder| folder.is_dir()).collect::<Vec<_>>());
}

libfuzzer_sys::fuzz_target!(init: { choose() }, |data: &[u8]| {
    let target = TARGET.get().expect("chosen at the start");
    if target.has_guests {
        std::fs::write(LAST.get().expect("chosen at the start"), data).expect("a file for the last input");
    }
    (target.run)(data);
});
