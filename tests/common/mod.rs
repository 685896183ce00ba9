//! What whole-program tests share: folders of their own, the program under test, C programs, experiments, the files of a run.

// Each test binary uses a part of it.
#![allow(dead_code)]

pub mod drawn;
pub mod tor;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// No run of a test takes longer in wall time, in seconds; a hanging one becomes a failure.
const LIMIT_S: &str = "300";

/// What a command left.
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// The exit status; 128 + N for signal N. 124 and 137 when it ran into the limit.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        self.status.code().or_else(|| self.status.signal().map(|signal| 128 + signal)).expect("an end")
    }
}

/// How long what a command started may hold its output longer than the command itself.
const HELD: Duration = Duration::from_secs(30);

/// Runs a command to its end, with nothing on standard input. What it leaves behind with its output open is killed, and a failure.
pub fn capture(command: &mut Command) -> Output {
    capture_within(HELD, command)
}

/// As `capture`, with another patience for what is left behind.
pub fn capture_within(held: Duration, command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let pipes = [pipe_of(&stdout), pipe_of(&stderr)];
    let (stdout, stderr) = (read_all(stdout), read_all(stderr));
    let status = child.wait().expect("an end");
    let text = |bytes: mpsc::Receiver<Vec<u8>>| match bytes.recv_timeout(held) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => panic!("{command:?} has ended, but not {}", kill_holders(&pipes)),
    };
    Output { status, stdout: text(stdout), stderr: text(stderr) }
}

/// Reads to the end in a thread, since of two pipes either may be full.
fn read_all(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        // Nobody waits for it any longer if the test has failed.
        let _ = sender.send(bytes);
    });
    receiver
}

/// What /proc calls a pipe.
fn pipe_of(pipe: &impl AsRawFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", pipe.as_raw_fd())).expect("an open file")
}

/// Kills the other processes that have one of these pipes, which nobody can have but what was started with them; returns their names.
fn kill_holders(pipes: &[PathBuf]) -> String {
    let own = std::process::id();
    let processes =
        fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        *pid != own && files.filter_map(|file| fs::read_link(file.path()).ok()).any(|file| pipes.contains(&file))
    };
    let holders: Vec<u32> = processes.filter(holds).collect();
    let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let names = holders.iter().map(|pid| format!("{} ({pid})", name(pid).trim_end())).collect::<Vec<_>>().join(", ");
    let pids = holders.iter().map(u32::to_string);
    Command::new("kill").arg("-KILL").args(pids).status().expect("kill");
    names
}

/// A command that is killed at the limit. It has the usual niceness, where the tests may give it that: programs ask for it, and guests have it.
pub fn limited(program: &Path) -> Command {
    let mut command = match niceness() {
        0 => Command::new("timeout"),
        nice => {
            let mut command = Command::new("nice");
            command.arg("-n").arg((-nice).to_string()).arg("timeout");
            command
        }
    };
    command.args(["--kill-after", "5", LIMIT_S]).arg(program);
    command
}

/// How nice the tests were started.
fn niceness() -> i32 {
    let stat = fs::read_to_string("/proc/self/stat").expect("this process");
    // proc_pid_stat(5): the 19th field; the second may have anything in it, and ends with the last parenthesis.
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    rest.split_whitespace().nth(16).and_then(|nice| nice.parse().ok()).expect("a niceness")
}

/// The program under test.
pub fn gnomon() -> Command {
    limited(Path::new(env!("CARGO_BIN_EXE_gnomon")))
}

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder of that name for one test.
pub fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        fs::remove_dir_all(&path).expect("an old folder can be removed");
    }
    fs::create_dir_all(&path).expect("a folder");
    path
}

/// Compiles a C program of the repository into `folder`; returns the executable.
pub fn compile(source: &str, folder: &Path) -> PathBuf {
    compile_with(source, folder, &[])
}

/// Compiles a library of one C file of the repository, for LD_PRELOAD; returns its path.
pub fn compile_library(source: &str, folder: &Path) -> PathBuf {
    compile_with(source, folder, &["-shared", "-fPIC"])
}

/// As `compile`, with more options for the compiler.
pub fn compile_with(source: &str, folder: &Path, options: &[&str]) -> PathBuf {
    let source = root().join(source);
    let result = folder.join(source.file_stem().expect("a name"));
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-std=gnu11", "-pthread", "-w"]).args(options).arg("-o").args([&result, &source]);
    let output = capture(&mut cc);
    assert!(output.status.success(), "{cc:?}: {}", output.stderr);
    result
}

/// Runs a command of the machine that should print `expected`. A busy machine is late now and then, and what a program prints may show
/// it: there are three tries.
pub fn natively(expected: &str, command: impl Fn() -> Command) -> Output {
    let tries = (0..3).map(|_| capture(&mut command()));
    let mut last = None;
    for output in tries {
        let alike = output.stdout == expected;
        last = Some(output);
        if alike {
            break;
        }
    }
    last.expect("a try")
}

/// Says that a test, or a part of it, is left out for something that this machine lacks: on the machine that judges changes, that is
/// a failure.
pub fn leave_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "{why}: tools/install-packages test");
    println!("left out: {why}");
}

/// A program of the machine, if it has it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = [PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")];
    std::env::split_paths(&path).chain(more).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A python3 for guests, if the machine has one.
pub fn find_python() -> Option<String> {
    let output = capture(&mut Command::new(root().join("tools/guest-python")));
    output.status.success().then(|| output.stdout.trim_end().to_owned())
}

/// Runs an experiment in `folder`, which relative paths start from. `arguments` come before the file.
pub fn run(folder: &Path, experiment: &str, arguments: &[&str]) -> Output {
    capture(gnomon().arg("run").args(arguments).arg(experiment).current_dir(folder))
}

/// Runs an experiment that must succeed.
pub fn run_well(folder: &Path, experiment: &str, arguments: &[&str]) -> Output {
    let output = run(folder, experiment, arguments);
    assert_eq!(output.code(), 0, "{experiment} {arguments:?}:\n{}{}", output.stdout, output.stderr);
    output
}

/// Makes an example ready to run in a folder of its own.
pub fn set_up(example: &str, folder: &Path) {
    let output = capture(Command::new(root().join("examples").join(example).join("set-up")).arg(folder));
    assert!(output.status.success(), "setting up {example}: {}", output.stderr);
    eprint!("{}", output.stderr);
}

/// Eight hosts, so far apart, that send each other messages at random as long as the run lasts.
pub fn phold(seconds: u64, latency_ms: u64) -> String {
    let mut text = format!(
        "general: {{ stop_time: {seconds}s, heartbeat_interval: 1s }}\n\
         network:\n  graph:\n    type: gml\n    inline: |\n      graph [\n        \
         node [ id 0 host_bandwidth_down \"1 Gbit\" host_bandwidth_up \"1 Gbit\" ]\n        \
         edge [ source 0 target 0 latency \"{latency_ms} ms\" ]\n      ]\nhosts:\n"
    );
    for number in 1..=8 {
        let _ = writeln!(
            text,
            "  node{number}: {{ network_node_id: 0, ip_addr: 10.1.0.{number}, processes: [{{ path: gnomon-traffic, args: 'phold --peers \
             10.1.0.1 --hosts 8 --number {number} --messages 20 --delay 200ms --duration {seconds}s', expected_final_state: running }}] }}"
        );
    }
    text
}

/// `sim-stats.json` of a data directory.
pub fn stats(data: &Path) -> serde_json::Value {
    serde_json::from_str(&read(&data.join("sim-stats.json"))).expect("sim-stats.json is JSON")
}

/// The digest of a run.
pub fn digest(data: &Path) -> String {
    let digest = stats(data)["gnomon"]["digest"].as_str().expect("a digest").to_owned();
    assert_eq!(digest.len(), 64, "{digest}");
    digest
}

/// A file as text.
pub fn read(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// All files below a folder with their content, by their path in it. A symbolic link's content is where it leads; what can only
/// be named, as sockets, has none.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(&current).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let kind = fs::symlink_metadata(&path).expect("an entry").file_type();
            if kind.is_dir() {
                folders.push(path);
                continue;
            }
            let content = match kind {
                kind if kind.is_symlink() => {
                    fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                }
                kind if kind.is_file() => fs::read(&path).expect("a readable file"),
                _ => Vec::new(),
            };
            files.insert(path.strip_prefix(folder).expect("inside").to_string_lossy().into_owned(), content);
        }
    }
    files
}

/// What the first process of a host wrote to a stream.
pub fn wrote(hosts: &Path, host: &str, stream: &str) -> String {
    let ending = format!(".1000.{stream}");
    let folder = hosts.join(host);
    let name = tree(&folder).into_keys().find(|name| name.ends_with(&ending)).expect("an output");
    read(&folder.join(name))
}
