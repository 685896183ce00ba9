//! Reports of guests that crash: what they say of each kind of program. The guests are in `tests/guest-programs/crashes`.

mod common;

use common::{Output, capture, find_program, folder, gnomon, read, root};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCES: &str = "tests/guest-programs/crashes";

/// Compiles a guest by `compiler` (a C or C++ compiler) with options; `name` is that of the executable.
fn build(compiler: &str, source: &str, options: &[&str], folder: &Path, name: &str) -> PathBuf {
    let program = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-O1", "-fno-omit-frame-pointer", "-pthread", "-w"]).args(options).arg("-o").arg(&program);
    let output = capture(command.arg(root().join(SOURCES).join(source)));
    assert!(output.status.success(), "{command:?}: {}", output.stderr);
    program
}

fn exec(folder: &Path, program: &Path, arguments: &[&str]) -> Output {
    exec_with(folder, &[], program, arguments)
}

fn exec_with(folder: &Path, options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let data = folder.join("exec.data");
    let _ = fs::remove_dir_all(&data);
    let mut command = gnomon();
    command.arg("exec").args(options).arg("--data-directory").arg(&data).arg(program).args(arguments);
    capture(command.current_dir(folder))
}

/// The report of process 1000.
fn report(folder: &Path, program: &str) -> String {
    read(&folder.join("exec.data/hosts/host").join(format!("{program}.1000.crash")))
}

/// The lines of the part of a report that begins with `heading`.
fn part<'a>(report: &'a str, heading: &str) -> Vec<&'a str> {
    let mut lines = report.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
    let found: Vec<&str> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    assert!(!found.is_empty(), "no part '{heading}' in\n{report}");
    found
}

/// The names of the functions of a backtrace, without those of inlined ones.
fn functions<'a>(backtrace: &[&'a str]) -> Vec<&'a str> {
    let frames = backtrace.iter().filter(|line| line.trim_start().starts_with('#') && !line.contains("(inlined)"));
    frames
        .map(|line| {
            let rest = line.split_once("0x").expect("an address").1;
            let name = rest.split_once(' ').expect("a name").1;
            let name = name.split(" in ").next().unwrap_or(name);
            name.rsplit_once("+0x").map_or(name, |(name, _)| name)
        })
        .collect()
}

/// Whether the names contain these, in this order and without others between.
fn assert_chain(report: &str, heading: &str, chain: &[&str]) {
    let lines = part(report, heading);
    let names = functions(&lines);
    let found = names.windows(chain.len()).any(|window| window == chain);
    assert!(found, "{chain:?} are not in {names:?}:\n{report}");
}

#[test]
fn a_null_dereference_is_told_with_callers_calls_and_threads() {
    let folder = folder("crash_reports/null_chain");
    let program = build("cc", "null_chain.c", &["-g"], &folder, "null_chain");
    let output = exec(&folder, &program, &["--flag"]);
    assert_eq!(output.code(), 139, "{}", output.stderr);
    let report = report(&folder, "null_chain");
    for text in [
        "arguments    [\"",
        "\"--flag\"]",
        "host         host\n",
        "process      1000, child of 1\n",
        "thread       1000 (null_chain), one of 2\n",
        "time         00:00:01.500000000 simulated",
        "signal       SIGSEGV {si_signo=SIGSEGV, si_code=SEGV_MAPERR, si_addr=NULL}\n",
        "why          reading from address 0x0\n",
    ] {
        assert!(report.contains(text), "no '{text}' in\n{report}");
    }
    assert!(part(&report, "instructions")[0].contains("(%r"), "{report}");
    let backtrace = part(&report, "backtrace of thread 1000 (null_chain)");
    assert_chain(&report, "backtrace of thread 1000", &["third_function", "second_function", "first_function", "main"]);
    assert!(backtrace[0].contains("null_chain.c:12"), "{report}");
    assert_chain(&report, "backtrace of thread 1001 (null_chain), which waits in read since", &["waiting_function"]);
    let calls = part(&report, "last 20 system calls of thread 1000");
    assert_eq!(calls.len(), 20, "{report}");
    assert!(calls[19].contains("write(1, \"about to crash\\n\", 15) = 15"), "{report}");
    assert!(calls[18].starts_with("  00:00:00.000000000 clock_nanosleep(") && calls[18].ends_with(" = 0"), "{report}");
    let descriptors = part(&report, "open descriptors");
    assert!(descriptors.len() == 5 && descriptors[3].starts_with("  3    pipe:"), "{report}");
    assert!(part(&report, "memory").iter().any(|line| line.ends_with("[stack]")), "{report}");
    assert!(part(&report, "registers of thread 1000").iter().any(|line| line.contains("rip")), "{report}");

    let log = read(&folder.join("exec.data/gnomon.log"));
    assert!(log.contains("killed by SIGSEGV at address 0x0") && log.contains("see null_chain.1000.crash"), "{log}");
}

#[test]
fn a_stack_overflow_is_a_fault_of_its_guest_alone() {
    let folder = folder("crash_reports/stack_overflow");
    let program = build("cc", "stack_overflow.c", &["-g"], &folder, "stack_overflow");
    for (arguments, thread, chain) in
        [(&[][..], "1000", ["in_thread", "main"]), (&["x"], "1001", ["in_thread", "start_thread"])]
    {
        let output = exec(&folder, &program, arguments);
        assert_eq!(output.code(), 139, "{}", output.stderr);
        let report = report(&folder, "stack_overflow");
        assert!(
            report.contains("signal       SIGSEGV") && report.contains("why          writing to address"),
            "{report}"
        );
        let backtrace = part(&report, &format!("backtrace of thread {thread}"));
        assert!(backtrace.len() < 80 && backtrace.iter().any(|line| line.contains("more times")), "{report}");
        let names = functions(&backtrace);
        assert!(names.contains(&"endless") && names.contains(&chain[0]), "{report}");
    }
}

#[test]
fn an_abort_in_a_thread_and_an_exception_name_their_functions() {
    let folder = folder("crash_reports/abort");
    let program = build("cc", "abort_in_thread.c", &["-g"], &folder, "abort_in_thread");
    let output = exec(&folder, &program, &[]);
    assert_eq!(output.code(), 134, "{}", output.stderr);
    let text = report(&folder, "abort_in_thread");
    assert!(text.contains("why          sent by the process itself"), "{text}");
    assert_chain(&text, "backtrace of thread 1001", &["abort", "gives_up", "thread_function"]);
    assert_chain(&text, "backtrace of thread 1000 (abort_in_thread), which waits in futex", &["main"]);

    let program = build("c++", "uncaught.cpp", &["-g"], &folder, "uncaught");
    let output = exec(&folder, &program, &[]);
    assert_eq!(output.code(), 134, "{}", output.stderr);
    let text = report(&folder, "uncaught");
    let names = functions(&part(&text, "backtrace of thread 1000"));
    assert!(names.contains(&"std::terminate()"), "{text}");
    assert!(names.iter().any(|name| name.starts_with("shop::Counter::take(std::")), "{text}");
}

#[test]
fn static_and_stripped_programs_have_backtraces_too() {
    let folder = folder("crash_reports/kinds");
    let chain = ["third_function", "second_function", "first_function", "main"];
    for (name, options) in [("static", &["-static"][..]), ("static_pie", &["-static-pie"]), ("fixed", &["-no-pie"])] {
        let program = build("cc", "null_chain.c", options, &folder, name);
        assert_eq!(exec(&folder, &program, &[]).code(), 139);
        assert_chain(&report(&folder, name), "backtrace of thread 1000", &chain);
        assert_chain(&report(&folder, name), "backtrace of thread 1001", &["waiting_function"]);
    }
    let program = build("cc", "null_chain.c", &["-s"], &folder, "stripped");
    assert_eq!(exec(&folder, &program, &[]).code(), 139);
    let text = report(&folder, "stripped");
    let frames = part(&text, "backtrace of thread 1000");
    let own = frames.iter().filter(|line| line.contains("?? in stripped+0x")).count();
    assert!(own >= 4, "four functions without names, found by unwind tables:\n{text}");
    assert!(functions(&frames).iter().any(|name| name.starts_with("__libc_start_main")), "{text}");
}

#[test]
fn a_panic_of_go_is_unwound_through_its_signal_frame() {
    let Some(go) = find_program("go") else {
        common::leave_out("no go on this machine");
        return;
    };
    let folder = folder("crash_reports/go");
    let program = folder.join("nil_map");
    let mut build = Command::new(go);
    build.args(["build", "-o"]).arg(&program).arg(root().join(SOURCES).join("nil_map.go"));
    let built = capture(build.current_dir(&folder));
    assert!(built.status.success(), "{}", built.stderr);
    let output = exec_with(&folder, &["--env", "GOTRACEBACK=crash"], &program, &[]);
    assert_eq!(output.code(), 134, "{}", output.stderr);
    let text = report(&folder, "nil_map");
    assert!(text.contains("signal       SIGABRT"), "{text}");
    assert!(
        functions(&part(&text, "backtrace of thread")).iter().any(|name| name.starts_with("runtime.raise")),
        "{text}"
    );
}

#[test]
fn reports_can_be_turned_off_and_change_nothing() {
    let folder = folder("crash_reports/off");
    let program = build("cc", "abort_in_thread.c", &[], &folder, "abort_in_thread");
    let output = exec(&folder, &program, &[]);
    let with = common::digest(&folder.join("exec.data"));
    let first = report(&folder, "abort_in_thread");
    exec(&folder, &program, &[]);
    assert_eq!(report(&folder, "abort_in_thread"), first, "the same crash has the same report");
    let without = exec_with(&folder, &["--no-crash-reports"], &program, &[]);
    assert_eq!((output.code(), without.code()), (134, 134));
    assert!(!folder.join("exec.data/hosts/host/abort_in_thread.1000.crash").exists());
    assert_eq!(common::digest(&folder.join("exec.data")), with);
    let log = read(&folder.join("exec.data/gnomon.log"));
    assert!(log.contains("killed by SIGABRT") && !log.contains("see abort_in_thread"), "{log}");
}

#[test]
fn a_guest_that_lives_against_expectation_says_what_it_waits_for() {
    let folder = folder("crash_reports/waits");
    let experiment = "general: { stop_time: 10 s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n  a:\n    network_node_id: 0\n    \
                      processes:\n    - { path: sleep, args: '100', start_time: 2 s }\n";
    fs::write(folder.join("experiment.yaml"), experiment).expect("an experiment");
    let output = common::run(&folder, "experiment.yaml", &["-d", "run.data"]);
    assert_eq!(output.code(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("it waits in clock_nanosleep since 00:00:02"), "{}", output.stderr);
}
