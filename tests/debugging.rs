//! gdb and perf on guests, and system calls as they happen: `--gdb`, `--perf`, `--strace`.

mod common;

use common::{Output, capture, digest, find_program, folder, gnomon, root};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A guest with debug information.
fn guest(source: &str, options: &[&str], folder: &Path) -> PathBuf {
    let program = folder.join(Path::new(source).file_stem().expect("a name"));
    let mut command = Command::new("cc");
    command.args(["-O1", "-g", "-pthread", "-w"]).args(options).arg("-o").arg(&program).arg(root().join(source));
    let output = capture(&mut command);
    assert!(output.status.success(), "{command:?}: {}", output.stderr);
    program
}

/// Whether there is a gdb with Python that may debug; says so if not.
fn has_gdb() -> bool {
    let usable = find_program("gdb").is_some_and(|gdb| {
        let output =
            capture(Command::new(gdb).args(["-batch", "-nx", "-ex", "python print(6 * 7)", "-ex", "run", "true"]));
        output.stdout.contains("42") && output.stdout.contains("exited normally")
    });
    if !usable {
        common::leave_out("no gdb with Python that may run programs");
    }
    usable
}

/// Runs gnomon with gdb's commands on standard input.
fn debug(folder: &Path, arguments: &[&str], commands: &[&str]) -> Output {
    let mut command = gnomon();
    command.args(arguments).current_dir(folder).env("HOME", folder).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("gnomon");
    let mut input = child.stdin.take().expect("standard input");
    input.write_all((commands.join("\n") + "\n").as_bytes()).expect("gdb reads its commands");
    drop(input);
    let output = child.wait_with_output().expect("an end");
    Output {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The texts must stand in `output` in this order.
fn assert_order(output: &str, texts: &[&str]) {
    let mut at = 0;
    for text in texts {
        match output[at..].find(text) {
            Some(found) => at += found + text.len(),
            None => panic!("'{text}' does not follow in\n{output}"),
        }
    }
}

#[test]
fn gdb_stops_in_a_guest_and_the_run_is_the_same() {
    if !has_gdb() {
        return;
    }
    let folder = folder("debugging/gdb");
    let program = guest("tests/guest-programs/crashes/null_chain.c", &[], &folder);
    let program = program.to_str().expect("UTF-8");
    capture(gnomon().args(["exec", "-d", "plain.data", program]).current_dir(&folder));
    let output = debug(
        &folder,
        &["exec", "--gdb", "-d", "gdb.data", program],
        &[
            "info symbol $rip",
            "break main",
            "continue",
            "print argc",
            "next",
            "next",
            "break third_function",
            "continue",
            "bt",
            "print pointer",
            "info symbol third_function",
            "gnomon-threads bt",
            "delete",
            "catch signal SIGSEGV",
            "condition $bpnum $gnomon_fault()",
            "continue",
            "print sum",
            "continue",
        ],
    );
    assert_order(
        &output.stdout,
        &[
            "null_chain (process 1000 of host host) is about to begin",
            "_start",
            "_start in section .text of",
            "Breakpoint 2 at",
            "main (argc=",
            "$1 = 1",
            "usleep",
            "third_function (pointer=0x0)",
            "#0  third_function (pointer=0x0)",
            "#1",
            "in second_function",
            "in first_function",
            "in main",
            "$2 = (int *) 0x0",
            "third_function in section .text of",
            "Guest thread 1000 (null_chain) runs",
            "third_function",
            "Guest thread 1001 (null_chain) waits in system call 0",
            "in waiting_function (",
            "(signal SIGSEGV)",
            "third_function (pointer=0x0)",
            "$3 = 0",
            "was killed by signal 11",
            "exited with code 0213",
        ],
    );
    let where_main = output.stdout.lines().filter(|line| line.contains("Breakpoint 2 at")).collect::<Vec<_>>();
    assert!(where_main[0].contains("null_chain.c") && !where_main[0].contains("locations"), "{where_main:?}");
    assert_eq!(digest(&folder.join("gdb.data")), digest(&folder.join("plain.data")));
}

/// A plugin that is loaded while gdb looks on, and the second of two processes of a host.
#[test]
fn gdb_follows_dlopen_in_the_named_process_of_an_experiment() {
    if !has_gdb() {
        return;
    }
    let folder = folder("debugging/dlopen");
    let plugin = "int plugin_function(int value)\n{\n    return value * 2;\n}\n";
    fs::write(folder.join("plugin.c"), plugin).expect("a source");
    let loader = format!(
        "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\nint main(void)\n{{\n    sleep(1);\n    void *plugin = \
         dlopen(\"{}\", RTLD_NOW);\n    int (*function)(int) = (int (*)(int))dlsym(plugin, \"plugin_function\");\n    \
         printf(\"%d\\n\", function(21));\n    dlclose(plugin);\n    return 0;\n}}\n",
        folder.join("plugin.so").display()
    );
    fs::write(folder.join("loader.c"), loader).expect("a source");
    for options in [["-shared", "-fPIC", "-o", "plugin.so", "plugin.c"], ["-fPIE", "-w", "-o", "loader", "loader.c"]] {
        let output = capture(Command::new("cc").args(["-g", "-O0"]).args(options).current_dir(&folder));
        assert!(output.status.success(), "{}", output.stderr);
    }
    let experiment = format!(
        "general: {{ stop_time: 10 s }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n  a.b:\n    network_node_id: 0\n    \
         processes:\n    - {{ path: sleep, args: '2' }}\n    - {{ path: {} }}\n",
        folder.join("loader").display()
    );
    fs::write(folder.join("experiment.yaml"), experiment).expect("an experiment");
    let output = debug(
        &folder,
        &["run", "--gdb", "a.b.loader", "-d", "gdb.data", "experiment.yaml"],
        &["break plugin_function", "continue", "bt", "print value", "finish", "continue"],
    );
    assert_order(
        &output.stdout,
        &[
            "loader (process 1001 of host a.b) is about to begin",
            "(plugin_function) pending",
            "plugin_function (value=21) at plugin.c:3",
            "in main () at loader.c:",
            "$1 = 21",
            "Value returned is $2 = 42",
            "exited with status 0",
            "exited normally",
        ],
    );
    assert_eq!(common::read(&folder.join("gdb.data/hosts/a.b/loader.1001.stdout")), "42\n");
}

#[test]
fn gdb_is_refused_for_hosts_that_do_not_exist() {
    let folder = folder("debugging/refused");
    let experiment = "general: { stop_time: 1 s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n  alice:\n    network_node_id: \
                      0\n    processes:\n    - { path: sleep, args: '2' }\n";
    fs::write(folder.join("experiment.yaml"), experiment).expect("an experiment");
    for wrong in ["bob.sleep", "alice", "alice."] {
        let output = capture(gnomon().args(["run", "--gdb", wrong, "experiment.yaml"]).current_dir(&folder));
        assert_eq!(output.code(), 2, "{}", output.stderr);
        assert!(output.stderr.contains("HOST.PROGRAM") && output.stderr.contains("hosts: alice"), "{}", output.stderr);
    }
}

const BUSY: &str = "#include <stdio.h>\n__attribute__((noinline)) long hot_function(long n)\n{\n    long sum = 0;\n    for (long i = 0; i < \
                    n; i++)\n        sum += i * i ^ sum >> 3;\n    return sum;\n}\nint main(int argc, char **argv)\n{\n    \
                    printf(\"%d\\n\", hot_function(400000000L * argc) != 7);\n    return 0;\n}\n";

#[test]
fn perf_attributes_samples_to_functions_of_guests() {
    let folder = folder("debugging/perf");
    let Some(perf) = find_program("perf") else {
        common::leave_out("no perf on this machine");
        return;
    };
    fs::write(folder.join("busy.c"), BUSY).expect("a source");
    for (name, options) in [("position_independent", &["-pie"][..]), ("fixed", &["-no-pie"])] {
        let program = folder.join(name);
        let output = capture(
            Command::new("cc")
                .args(["-O1", "-g", "-w"])
                .args(options)
                .arg("-o")
                .arg(&program)
                .arg(folder.join("busy.c")),
        );
        assert!(output.status.success(), "{}", output.stderr);
        let mut record = Command::new(&perf);
        record.args(["record", "-q", "-e", "cpu-clock:u", "-o", "perf.data"]).arg(env!("CARGO_BIN_EXE_gnomon"));
        record.args(["exec", "--perf"]).arg(&program).current_dir(&folder);
        let recorded = capture(&mut record);
        if !recorded.status.success() && recorded.stdout.is_empty() {
            eprintln!("perf may not record here: skipped: {}", recorded.stderr);
            return;
        }
        assert_eq!(recorded.stdout, "1\n", "{}", recorded.stderr);
        let mut report = Command::new(&perf);
        report.args(["report", "-i", "perf.data", "--stdio", "--sort", "dso,symbol"]).current_dir(&folder);
        let report = capture(&mut report).stdout;
        let line = report.lines().find(|line| line.contains("hot_function")).unwrap_or_else(|| panic!("{report}"));
        assert!(line.contains(name), "{line}");
    }
}

#[test]
fn calls_are_shown_as_they_happen() {
    let folder = folder("debugging/strace");
    let output =
        capture(gnomon().args(["exec", "--strace", "sh", "-c", "echo one; sleep 1 & wait"]).current_dir(&folder));
    assert_eq!((output.code(), output.stdout.as_str()), (0, "one\n"), "{}", output.stderr);
    // The first number of a host's processes is drawn.
    let number = output.stderr.split("[tid ").nth(1).and_then(|text| text.split(']').next());
    let shell: u32 = number.and_then(|text| text.parse().ok()).expect("a number");
    let sleeper = shell + 1;
    assert_order(&output.stderr, &[&format!("[tid {shell}] write(1, \"one\\n\", 4) = 4")]);
    let ends = format!("00:00:01.000000000 [tid {sleeper}] exit_group(0)");
    assert_order(&output.stderr, &[&format!("[tid {sleeper}] "), "clock_nanosleep", &ends]);
}
