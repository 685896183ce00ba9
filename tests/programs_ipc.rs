//! Programs about communication between processes and about changes of files: ipcs and its relatives, inotifywait, tail.

mod common;

use common::{capture, find_program, folder, gnomon};

/// What a script prints in a host of its own.
fn script(name: &str, programs: &[&str], text: &str) -> String {
    for program in programs {
        assert!(find_program(program).is_some(), "{program} is missing: tools/install-packages test");
    }
    let mut command = gnomon();
    command.args(["exec", "--quiet", "--stop-time", "1 min", "bash", "-c", text]).current_dir(folder(name));
    let output = capture(&mut command);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    output.stdout
}

#[test]
fn system_v_objects_are_made_shown_and_removed() {
    let text = script(
        "ipc/ipcs",
        &["ipcs", "ipcmk", "ipcrm"],
        "ipcmk -M 5000; ipcmk -S 3; ipcmk -Q; ipcs; ipcrm --all; echo removed; ipcs",
    );
    let (before, after) = text.split_once("removed").unwrap();
    let rows = |part: &str| part.lines().filter(|line| line.starts_with("0x")).count();
    assert_eq!((rows(before), rows(after)), (3, 0), "{text}");
    assert!(before.contains("5000"), "{text}");
}

#[test]
fn inotifywait_names_what_other_processes_do() {
    let text = script(
        "ipc/inotifywait",
        &["inotifywait"],
        "mkdir w; inotifywait -m -q --format '%e %f' w > log & P=$!
         sleep 1; echo text > w/a; mv w/a w/b; rm w/b; sleep 1; kill $P; cat log",
    );
    let expected = ["CREATE a", "OPEN a", "MODIFY a", "CLOSE_WRITE,CLOSE a", "MOVED_FROM a", "MOVED_TO b", "DELETE b"];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn tail_follows_a_file() {
    let text = script(
        "ipc/tail",
        &["tail"],
        ": > file; tail -f file > out & P=$!; sleep 1; for i in 1 2 3; do echo line $i >> file; sleep 0.2; done
         sleep 1; kill $P; cat out",
    );
    assert_eq!(text, "line 1\nline 2\nline 3\n");
}
