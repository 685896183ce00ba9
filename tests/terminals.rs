//! Programs that need a terminal, unmodified and as guests: what they show is what they show natively.

mod common;

use common::{capture, folder, gnomon, limited, root};
use std::fs;
use std::path::Path;

/// Runs a command natively and as a guest, in that order; what each printed.
fn both(program: &str, arguments: &[&str], folder: &Path) -> [String; 2] {
    let native = capture(limited(Path::new(program)).args(arguments).current_dir(folder));
    let mut command = gnomon();
    command.args(["exec", "--quiet", "--stop-time", "10 min", program]).args(arguments).current_dir(folder);
    let guest = capture(&mut command);
    [native, guest].map(|output| format!("{}status {}\n", output.stdout, output.code()))
}

/// What is printed natively and as a guest, which must be the same. Terminals of a busy machine answer late now and then, and a program
/// that drives one then sees something else: it gets another try.
fn alike(mut both: impl FnMut() -> [String; 2]) -> String {
    let mut last = both();
    for _ in 0..2 {
        if last[0] == last[1] {
            break;
        }
        last = both();
    }
    let [native, guest] = last;
    assert_eq!(native, guest);
    native
}

/// Drives a program through a terminal.
fn session(name: &str) {
    let native = alike(|| {
        let folder = folder(&format!("terminals/{name}"));
        let lines: String = (0..200).map(|line| format!("line {line}\n")).collect();
        let text = folder.join("text");
        fs::write(&text, lines).expect("a file");
        let script = root().join("tests/terminals/sessions.py");
        let arguments = [script.to_str().expect("UTF-8"), name, text.to_str().expect("UTF-8")];
        both("/usr/bin/python3", &arguments, &folder)
    });
    assert!(
        native.ends_with("status 0\nstatus 0\n") || name == "jobs" && native.ends_with("status 7\nstatus 0\n"),
        "{native}"
    );
}

#[test]
fn bash_controls_jobs() {
    session("jobs");
}

#[test]
fn readline_edits() {
    session("editing");
}

#[test]
fn less_pages() {
    session("less");
}

#[test]
fn vim_edits() {
    session("vim");
}

#[test]
fn tmux_shows_a_terminal_in_a_terminal() {
    session("tmux");
}

#[test]
fn python_is_interactive() {
    session("python");
}

#[test]
fn script_records_a_terminal() {
    let folder = folder("terminals/script");
    let inside = "tty | sed 's/[0-9]*$//'; stty -a; test -t 0 && test -t 1 && echo terminal; exit 3";
    let native = alike(|| both("script", &["-qec", inside, "/dev/null"], &folder));
    assert!(native.contains("terminal"), "{native}");
}

#[test]
fn python_spawns_in_a_terminal() {
    let folder = folder("terminals/spawn");
    let code = "import pty, sys\n\
        status = pty.spawn(['sh', '-c', 'stty -a; echo from inside; exit 4'])\n\
        print('status', status)\n";
    let native = alike(|| both("/usr/bin/python3", &["-c", code], &folder));
    assert!(native.contains("from inside"), "{native}");
}

#[test]
fn programs_without_a_terminal_say_so() {
    let folder = folder("terminals/none");
    for (program, arguments) in [("tty", &[][..]), ("stty", &["-a"]), ("tty", &["-s"])] {
        alike(|| both(program, arguments, &folder));
    }
}
