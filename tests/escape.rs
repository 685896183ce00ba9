//! Attempts to reach the real machine: its clock, network, files, processor, random numbers, other guests' and the simulator's memory, the
//! real kernel. Each is answered by the simulation, refused, or reported. The guests are in `tests/guest-programs/escape`.

mod common;

use common::{Output, capture, compile, compile_with, folder, gnomon, read, root, stats};
use std::collections::BTreeMap;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

/// Runs a program as the only guest.
fn exec(folder: &Path, program: &Path, arguments: &[&str]) -> Output {
    let data = folder.join("exec.data");
    if data.exists() {
        fs::remove_dir_all(&data).expect("an old data directory");
    }
    let mut command = gnomon();
    command.args(["exec", "--data-directory", "exec.data"]).arg(program).args(arguments);
    capture(command.current_dir(folder))
}

fn program(name: &str, folder: &Path) -> PathBuf {
    compile(&format!("tests/guest-programs/escape/{name}.c"), folder)
}

/// Whether the last run says that it can be repeated to the bit.
fn is_reproducible(folder: &Path) -> bool {
    stats(&folder.join("exec.data"))["gnomon"]["computing"]["reproducible"].as_bool().expect("a verdict")
}

/// What the last run says that guests reached.
fn escapes(folder: &Path) -> Vec<String> {
    let stats = stats(&folder.join("exec.data"));
    stats["gnomon"]["interception"]["escapes"].as_object().expect("escapes").keys().cloned().collect()
}

/// The answers of `instructions.c`, by attempt.
fn answers(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(" = ")).collect()
}

/// The number of the first process of `gnomon exec`, as the seed has it.
const FIRST_PROCESS: &str = "0xe523d";

/// 2000-01-01, the first second of a run.
const START: &str = "0x386d4380";

/// Attempts in files: what they get. Those without a value get one that is simulated, the same in each run.
const IN_FILES: &[(&str, &str)] = &[
    ("cpuid_vendor", "0x756e6547"),
    ("cpuid_brand", "0x78206e6f"),
    ("cpuid_apic", "0"),
    ("xgetbv", "0x7"),
    ("rdtsc", ""),
    ("rdtscp", "0"),
    ("rdpid", "0"),
    ("lsl", "0"),
    ("lsl_code", "0xffffffff"),
    ("lsl_memory", "0"),
    ("lsl_flag", "0x1"),
    ("lsl_flag_null", "0"),
    ("sgdt", "0xfffffffffffe0000"),
    ("sidt", "0xffffffffffff0000"),
    ("sldt", "0"),
    ("sldt_memory", "0xffff0000"),
    ("str", "0x40"),
    ("smsw", "0x80050033"),
    ("smsw_word", "0xffffffffffff0033"),
    ("rdgsbase", "0"),
    ("rdfsbase", "0"),
    ("wrfsbase", "0x1234"),
    ("wrgsbase", "0"),
    ("mov_gs", "0"),
    ("mov_gs_flat", "0"),
    ("mov_gs_bad", "SIGSEGV"),
    ("mov_gs_memory", "0"),
    ("pop_gs", "0"),
    ("pop_gs_bad", "SIGSEGV"),
    ("lgs", "0x7"),
    ("lgs_bad", "SIGSEGV"),
    ("mov_fs", "0"),
    ("swapgs", "SIGSEGV"),
    ("rdpkru", "SIGILL"),
    ("wrpkru", "SIGILL"),
    ("rdpmc", "SIGSEGV"),
    ("serialize", "SIGILL"),
    ("umonitor", "SIGILL"),
    ("umwait", "SIGILL"),
    ("tpause", "SIGILL"),
    ("monitorx", "SIGILL"),
    ("rdpru", "SIGILL"),
    ("clzero", "SIGILL"),
    ("xbegin", "SIGILL"),
    ("xtest", "SIGILL"),
    ("rdrand", ""),
    ("rdseed", ""),
    ("int_80", "SIGSEGV"),
    ("sysenter", "SIGILL"),
    ("in", "SIGSEGV"),
    ("out", "SIGSEGV"),
    ("cli", "SIGSEGV"),
    ("hlt", "SIGSEGV"),
    ("rdmsr", "SIGSEGV"),
    ("mov_cr0", "SIGSEGV"),
    ("mov_dr7", "SIGSEGV"),
    ("invd", "SIGSEGV"),
    ("vmcall", "SIGILL"),
    ("vmmcall", "SIGILL"),
    ("iretq_kernel", "SIGSEGV"),
    ("far_return", "SIGSEGV"),
    ("far_call_gate", "SIGSEGV"),
    ("syscall", FIRST_PROCESS),
    ("gs_read", "SIGSEGV"),
    ("gs_read_short", "SIGILL"),
    ("vsyscall_time", START),
    ("vsyscall_gettimeofday", START),
    ("vsyscall_getcpu", "0"),
    ("vsyscall_jump", START),
    ("vsyscall_bad_pointer", "SIGSEGV"),
    ("vsyscall_between", "SIGSEGV"),
    ("vsyscall_read", "SIGSEGV"),
];

/// Attempts that get the same answers in generated code of any kind, on every machine.
const ANSWERED_EVERYWHERE: &[&str] = &[
    "rdtsc",
    "rdtscp",
    "rdfsbase",
    "wrfsbase",
    "mov_gs_bad",
    "pop_gs_bad",
    "lgs_bad",
    "mov_fs",
    "swapgs",
    "rdpmc",
    "int_80",
    "in",
    "out",
    "cli",
    "hlt",
    "rdmsr",
    "mov_cr0",
    "mov_dr7",
    "invd",
    "iretq_kernel",
    "far_return",
    "far_call_gate",
    "syscall",
    "vsyscall_time",
    "vsyscall_gettimeofday",
    "vsyscall_getcpu",
    "vsyscall_jump",
    "vsyscall_bad_pointer",
    "vsyscall_between",
];

/// Attempts that generated code in shared memory makes in vain or not, depending on the processor, and what the run says.
const NOTICED: &[(&str, &str)] = &[
    ("rdrand", "rdrand in generated code"),
    ("rdseed", "rdseed in generated code"),
    ("rdpid", "rdpid in generated code"),
    ("lsl", "lsl in generated code"),
    ("lsl_memory", "lsl in generated code"),
    ("xgetbv", "xgetbv in generated code"),
    ("rdgsbase", "rdgsbase in generated code"),
    ("rdpkru", "rdpkru in generated code"),
    ("wrpkru", "wrpkru in generated code"),
    ("rdpru", "rdpru in generated code"),
    ("umwait", "timed waiting (umwait, tpause, mwaitx) in generated code"),
    ("tpause", "timed waiting (umwait, tpause, mwaitx) in generated code"),
    ("xbegin", "transactions (xbegin) in generated code"),
    ("vmcall", "calls of the hypervisor in generated code"),
    ("gs_read", "accesses relative to GS in generated code"),
    ("mov_gs", "loads of the GS register"),
    ("mov_gs_flat", "loads of the GS register"),
    ("pop_gs", "loads of the GS register"),
    ("lgs", "loads of the GS register"),
    ("wrgsbase", "loads of the GS register"),
];

#[test]
fn instructions_of_files_answer_as_the_simulated_processor() {
    let folder = folder("escape/files");
    let program = program("instructions", &folder);
    let names: Vec<&str> = IN_FILES.iter().map(|(name, _)| *name).collect();
    let arguments = [&["file"][..], &names].concat();
    let output = exec(&folder, &program, &arguments);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    let got = answers(&output.stdout);
    for (name, expected) in IN_FILES {
        let answer = got.get(name).copied().unwrap_or("nothing");
        assert!(
            if expected.is_empty() { answer.len() > 5 } else { answer == *expected },
            "{name}: {answer}, not {expected}"
        );
    }
    assert!(is_reproducible(&folder), "{:?}", escapes(&folder));
    assert_eq!(exec(&folder, &program, &arguments).stdout, output.stdout, "a second run");
}

#[test]
fn generated_code_gets_the_same_answers() {
    let folder = folder("escape/generated");
    let program = program("instructions", &folder);
    let names: Vec<&str> = IN_FILES.iter().map(|(name, _)| *name).collect();
    let output = exec(&folder, &program, &[&["generated"][..], &names].concat());
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    let got = answers(&output.stdout);
    for (name, expected) in IN_FILES {
        let answer = got.get(name).copied().unwrap_or("nothing");
        let fits = if expected.is_empty() { answer.len() > 5 } else { answer == *expected };
        assert!(fits, "{name}: {answer}, not {expected}");
    }
    assert_eq!((is_reproducible(&folder), escapes(&folder)), (true, Vec::new()));
}

#[test]
fn what_traps_in_shared_code_is_answered_there_too() {
    let folder = folder("escape/shared");
    let program = program("instructions", &folder);
    let mut names = ANSWERED_EVERYWHERE.to_vec();
    let traps_cpuid = read(Path::new("/proc/cpuinfo")).contains("cpuid_fault");
    if traps_cpuid {
        names.extend(["cpuid_vendor", "cpuid_brand", "cpuid_apic"]);
    }
    let output = exec(&folder, &program, &[&["shared"][..], &names].concat());
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    let (got, expected) = (answers(&output.stdout), IN_FILES.iter().copied().collect::<BTreeMap<_, _>>());
    for name in names.iter().filter(|name| !expected[*name].is_empty()) {
        assert_eq!(got.get(name), Some(&expected[name]), "{name}");
    }
    assert_eq!((is_reproducible(&folder), escapes(&folder)), (true, Vec::new()));
    if !traps_cpuid {
        exec(&folder, &program, &["shared", "cpuid_brand"]);
        assert_eq!((is_reproducible(&folder), escapes(&folder)), (false, vec!["cpuid in generated code".to_owned()]));
    }
}

#[test]
fn what_escapes_in_shared_code_is_reported() {
    let folder = folder("escape/noticed");
    let program = program("instructions", &folder);
    for (name, expected) in NOTICED {
        let output = exec(&folder, &program, &["shared", name]);
        assert!(output.stdout.starts_with(name) || *name == "wrgsbase", "{name}: {}{}", output.stdout, output.stderr);
        if *name == "xbegin" && output.stdout.contains("SIGILL") {
            // As everywhere where the processor knows no transactions. Intel's may hide that they do.
            let is_intel = read(Path::new("/proc/cpuinfo")).contains("GenuineIntel");
            assert!(is_intel || is_reproducible(&folder), "{:?}", escapes(&folder));
            continue;
        }
        assert_eq!(escapes(&folder), [*expected], "{name}: {}{}", output.stdout, output.stderr);
        assert!(!is_reproducible(&folder), "{name}");
        let first = format!("host: instructions (1000): {expected}");
        let said = &stats(&folder.join("exec.data"))["gnomon"]["interferences"]["escapes"];
        assert_eq!((&said["first"], &said["times"]), (&first.into(), &1.into()), "{name}");
        let log = read(&folder.join("exec.data/gnomon.log"));
        assert!(log.contains(expected), "{name}: {log}");
    }
}

#[test]
fn code_is_noticed_wherever_a_program_makes_it() {
    let folder = folder("escape/places");
    let program = program("places", &folder);
    for place in ["zeroes", "data", "text", "file", "twice", "segment", "covered", "cut"] {
        let output = exec(&folder, &program, &[place]);
        assert_eq!(output.stdout, format!("{place}\ncarried out: 1\n"), "{}", output.stderr);
        assert_eq!(escapes(&folder), ["rdrand in generated code"], "{place}");
        assert!(!is_reproducible(&folder), "{place}");
    }
}

#[test]
fn code_that_is_mapped_twice_is_told_from_what_lies_beside_it() {
    const LSL: &str = "lsl in generated code";
    let folder = folder("escape/twice");
    let program = program("twice", &folder);
    let quiet = ["data", "moved", "grown", "doubled"].map(|way| (way, None));
    let noticed = ["later", "table", "called"].map(|way| (way, Some(LSL)));
    for (way, expected) in quiet.into_iter().chain(noticed) {
        let native = capture(common::limited(&program).arg(way));
        let output = exec(&folder, &program, &[way]);
        assert_eq!((output.code(), &output.stdout), (0, &native.stdout), "{way}: {}", output.stderr);
        assert_eq!(escapes(&folder), Vec::from_iter(expected), "{way}");
        assert_eq!(is_reproducible(&folder), expected.is_none(), "{way}");
    }
}

#[test]
fn the_document_tells_of_every_attempt() {
    let document = read(&root().join("docs/instructions.md"));
    let rows = document.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let attempts = rows.skip(1).filter_map(|row| row.trim_end_matches(" |").rsplit("| ").next());
    let mut told: Vec<&str> = attempts.flat_map(|list| list.split(", ")).collect();
    let mut made: Vec<&str> = IN_FILES.iter().map(|(name, _)| *name).collect();
    told.sort_unstable();
    made.sort_unstable();
    assert_eq!(told, made);
}

#[test]
fn code_is_found_without_section_headers_and_unwind_tables() {
    let folder = folder("escape/bare");
    let options = ["-O2", "-nostdlib", "-static", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let more = ["-fno-stack-protector", "-fcf-protection=none"];
    let source = "tests/guest-programs/escape/bare.c";
    let bare = compile_with(source, &folder, &[&options[..], &more].concat());
    cut_section_headers(&bare);
    let first = exec(&folder, &bare, &[]);
    assert_eq!(first.code(), 0, "{}{}", first.stdout, first.stderr);
    let value = |name: &str| {
        let line = first.stdout.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("nothing");
        line.trim().trim_start_matches('0').to_owned()
    };
    assert_eq!((value("brand").as_str(), value("features").as_str()), ("78206e6f6d6f6e47", "7"), "{}", first.stdout);
    assert_eq!(value("time"), START.trim_start_matches("0x"));
    assert!(is_reproducible(&folder));
    assert_eq!(exec(&folder, &bare, &[]).stdout, first.stdout, "rdrand and rdseed are the run's own");

    // The same of a program with unwind tables, and of one with dynamic symbols.
    for options in [&["-static"][..], &[]] {
        let whole = compile_with("tests/guest-programs/escape/instructions.c", &folder, options);
        cut_section_headers(&whole);
        let output = exec(&folder, &whole, &["file", "syscall", "rdtscp", "vsyscall_time"]);
        assert_eq!(
            output.stdout,
            format!("syscall = {FIRST_PROCESS}\nrdtscp = 0\nvsyscall_time = {START}\n"),
            "{options:?}"
        );
    }
}

/// As if the file had no sections.
fn cut_section_headers(file: &Path) {
    const OFFSET: std::ops::Range<usize> = 0x28..0x30;
    const SIZE_COUNT_NAMES: std::ops::Range<usize> = 0x3a..0x40;
    let mut bytes = fs::read(file).expect("the program");
    bytes[OFFSET].fill(0);
    bytes[SIZE_COUNT_NAMES].fill(0);
    fs::write(file, bytes).expect("the program again");
}

#[test]
fn code_can_be_entered_anywhere() {
    let folder = folder("escape/entries");
    let program = program("entries", &folder);
    let native = capture(&mut common::limited(&program));
    let guest = exec(&folder, &program, &[]);
    assert_eq!((guest.code(), &guest.stdout), (0, &native.stdout), "{}", guest.stderr);
    assert!(native.stdout.lines().count() >= 90, "{}", native.stdout);
    assert!(is_reproducible(&folder));
}

#[test]
fn a_guest_that_loads_gs_hurts_nobody_else() {
    let folder = folder("escape/gs");
    let broken = program("instructions", &folder);
    let sleep = common::find_program("sleep").expect("sleep");
    let (broken, sleep) = (broken.display(), sleep.display());
    let text = format!(
        "general: {{ stop_time: 10 s }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n  a:\n    network_node_id: 0\n    \
         processes:\n    - {{ path: {sleep}, args: '5' }}\n    - {{ path: {broken}, args: shared mov_gs gs_read mov_gs syscall, \
         start_time: 1 s }}\n    - {{ path: {sleep}, args: '2', start_time: 2 s }}\n"
    );
    fs::write(folder.join("experiment.yaml"), text).expect("the experiment");
    common::run_well(&folder, "experiment.yaml", &["--data-directory", "gs.data"]);
    let output = read(&folder.join("gs.data/hosts/a/instructions.1001.stdout"));
    // getpid, in its own process although the GS register is lost.
    assert!(answers(&output).get("syscall").is_some_and(|number| number.starts_with("0x")), "{output}");
    assert_eq!(stats(&folder.join("gs.data"))["gnomon"]["computing"]["reproducible"], false);
}

#[test]
fn calls_and_files_lead_nowhere() {
    let folder = folder("escape/calls");
    let program = program("calls", &folder);
    let (socket, precious) = (folder.join("socket"), folder.join("precious"));
    let listener = UnixListener::bind(&socket).expect("a real socket");
    let hidden = SocketAddr::from_abstract_name("gnomon-escape").expect("a name");
    // Another run of this test may have it at the moment.
    let abstract_listener = UnixListener::bind_addr(&hidden).ok();
    fs::write(&precious, "precious\n").expect("a file");
    let pid = std::process::id().to_string();
    let arguments = [socket.to_str().expect("UTF-8"), &pid, precious.to_str().expect("UTF-8")];
    let output = exec(&folder, &program, &arguments);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);

    let expected = read(&root().join("tests/guest-programs/escape/calls.expected"));
    let lines: Vec<&str> = output.stdout.lines().collect();
    for (got, expected) in lines.iter().zip(expected.lines()) {
        // Random numbers, and addresses of this machine's files, are the run's own.
        let fits = expected.strip_suffix('*').map_or(*got == expected, |start| got.starts_with(start));
        assert!(fits, "{got}, not {expected}");
    }
    assert_eq!(lines.len(), expected.lines().count(), "{}", output.stdout);
    assert!(is_reproducible(&folder), "{:?}", escapes(&folder));
    assert_eq!(exec(&folder, &program, &arguments).stdout, output.stdout, "a second run");

    assert_eq!(read(&precious), "precious\n");
    for listener in [Some(listener), abstract_listener].into_iter().flatten() {
        listener.set_nonblocking(true).expect("a mode");
        assert!(listener.accept().is_err(), "nobody connected");
    }
}
