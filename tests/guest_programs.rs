//! The programs of `tests/guest-programs`: each case must print the same natively and as a guest.

mod common;

use common::{Output, capture, capture_within, compile, folder, gnomon, limited, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Cases that are known to print something else as a guest: program, case, reason. Each must differ, or it leaves this list.
const KNOWN_DIFFERENCES: &[(&str, &str, &str)] = &[];

/// Programs that must be root natively to become somebody else; everybody else leaves them out.
const FOR_ROOT: &[&str] = &["credentials", "permissions", "privileged_ports", "rights"];

/// Cases that look at what only root may do, which guests are: program, case.
const CASES_FOR_ROOT: &[(&str, &str)] = &[
    ("ancillary", "raw_packets"),
    ("ancillary", "raw_packets_of_ipv6"),
    ("memory", "sizes_that_wrap_are_none"),
    ("proc_files", "files_that_nobody_writes"),
    ("proc_files", "small_files_of_a_process"),
    ("rare_options", "names_and_memory"),
    ("signal_flags", "little_room_in_the_queue"),
    ("wait", "waitid_without_news"),
];

/// All programs together have at least that many cases.
const LEAST_CASES: usize = 1_300;

/// After so many cases that took the whole program with them, the rest is not tried.
const MOST_DEATHS: usize = 8;

/// What the cases of a program printed, by case, in any order.
type Printed = BTreeMap<String, String>;

/// One test per program, so that they run side by side and are named in the report.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];
        $(
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*
    };
}

programs! {
    access_times aio ancillary bad_calls closed_in_use constants cpu_state cpu_timers credentials descriptors dual_stack
    elf_files epoll eventfd exec faults file_limits file_locks files fork futex futex2 groups gs_base identity inotify
    large_program leases made_code memory memory_faults misuse mqueue multicast names namespaces netlink
    peer_processes permissions
    pipes poll ports privileged_ports proc_files pty rare_options registers restarts rights seccomp shared_memory
    sharing signal_flags
    signalfd signals socket_filters socket_tables spinning splices
    stack_overflow sysv_msg sysv_sem sysv_shm tcp tcp6 tcp_closing tcp_options thread_numbers threads time timerfd
    titles tty_jobs tty_lines twins udp udp6 unix_sockets unusual_files wait
}

#[test]
fn every_program_is_compared() {
    let mut sources = Vec::new();
    let mut cases = 0;
    for entry in fs::read_dir(root().join("tests/guest-programs")).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path.file_stem().expect("a name").to_string_lossy().into_owned());
            cases += common::read(&path).lines().filter(|line| line.starts_with("CASE(")).count();
        }
    }
    sources.sort();
    assert_eq!(sources, PROGRAMS, "a program is missing in the list above, or has gone");
    println!("{cases} cases in {} programs", sources.len());
    assert!(cases >= LEAST_CASES, "{cases} cases");
}

/// A process that outlives a program with its output open made a whole suite wait for ever.
#[test]
fn what_a_program_leaves_behind_is_killed_and_named() {
    let left = std::panic::catch_unwind(|| {
        capture_within(Duration::from_millis(200), Command::new("sh").args(["-c", "sleep 4321 & echo $!"]));
    });
    let message = *left.expect_err("a failure").downcast::<String>().expect("a message");
    assert!(message.contains("has ended, but not sleep ("), "{message}");
    let pid = message.split(['(', ')']).find(|part| part.parse::<u32>().is_ok()).expect("a number");
    // It may be a zombie until somebody waits for it, and where much is going on it may live for a while yet.
    let line = || fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let lives = || line().contains("4321");
    (0..600).take_while(|_| lives()).for_each(|_| std::thread::sleep(Duration::from_millis(50)));
    assert!(!lives(), "{}", line());
}

#[test]
fn known_differences_name_what_exists() {
    for (program, case, reason) in KNOWN_DIFFERENCES {
        assert!(PROGRAMS.contains(program), "{program}");
        let source = common::read(&root().join(format!("tests/guest-programs/{program}.c")));
        assert!(source.contains(&format!("CASE({case})")), "{program}: {case}");
        assert!(reason.len() > 20, "{program}: {case}: give the reason");
    }
}

fn compare(name: &str) {
    if FOR_ROOT.contains(&name) && !is_root() {
        println!("{name}: left out, since it must be root natively: run the tests as root");
        return;
    }
    let folder = folder(&format!("guest-programs/{name}"));
    let program = compile(&format!("tests/guest-programs/{name}.c"), &folder);
    let list = capture(limited(&program).arg("--list")).stdout;
    let root = is_root();
    let is_comparable = |case: &&str| root || !CASES_FOR_ROOT.contains(&(name, *case));
    let cases: Vec<&str> = list.lines().filter(is_comparable).collect();

    let native = capture(limited(&program).args(&cases).current_dir(&folder));
    let mut expected = printed(&native);
    let (simulated, code) = simulate(&program, &folder, &cases);
    // A busy machine is late now and then, the simulation never: what differs may be natively different the next time.
    let mut native_codes = vec![native.code()];
    for _ in 0..2 {
        let differs = |case: &&str| difference(expected.get(*case), simulated.get(*case)).is_some();
        let again: Vec<&str> = cases.iter().copied().filter(differs).collect();
        if again.is_empty() {
            break;
        }
        let native = capture(limited(&program).args(again).current_dir(&folder));
        expected.extend(printed(&native));
        native_codes.push(native.code());
    }

    let mut problems = Vec::new();
    let mut same = 0;
    for case in &cases {
        let known = KNOWN_DIFFERENCES.iter().any(|(program, known, _)| (*program, *known) == (name, case));
        match (difference(expected.get(*case), simulated.get(*case)), known) {
            (None, false) => same += 1,
            (Some(_), true) => {}
            (Some(lines), false) => problems.push(format!("case {case}:\n{lines}")),
            (None, true) => problems.push(format!("case {case} is the same now: take it off the list")),
        }
    }
    if problems.is_empty() && !native_codes.contains(&code) {
        problems.push(format!("exit status {code}, natively {native_codes:?}"));
    }
    println!("{name}: {same} of {} cases print the same", cases.len());
    assert!(problems.is_empty(), "{name}: {same} of {} cases print the same\n{}", cases.len(), problems.join("\n"));
}

/// What the switch must keep apart from the guest, whatever the simulator's libraries do, on processors with AVX-512 and without.
#[test]
fn noise_in_registers_between_turns_changes_nothing() {
    let folder = folder("guest-programs/soiled");
    for name in ["cpu_state", "signals", "spinning", "threads"] {
        let program = compile(&format!("tests/guest-programs/{name}.c"), &folder);
        let exec = |soils: &str| {
            let mut command = gnomon();
            command.args(["exec", "--quiet", "--stop-time", "10 min", "--soil-registers", soils]);
            capture(command.arg(&program).current_dir(&folder))
        };
        let (clean, soiled) = (exec("false"), exec("true"));
        assert!(clean.stdout.contains("case "), "{name}: {}", clean.stderr);
        assert_eq!(clean.stdout, soiled.stdout, "{name}: {}", soiled.stderr);
        assert_eq!(clean.code(), soiled.code(), "{name}: {}", soiled.stderr);
    }
}

/// Whether the tests may become any user: files that they make belong to whom they are.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) && map.split_whitespace().nth(2) != Some("1")
}

/// Runs all cases as guests. A case that takes the program with it does not hide those after it.
fn simulate(program: &Path, folder: &Path, cases: &[&str]) -> (Printed, i32) {
    let mut printed_by_all = Printed::new();
    let mut left = cases;
    for death in 0.. {
        let mut command = gnomon();
        command.args(["exec", "--quiet", "--stop-time", "10 min"]).arg(program).current_dir(folder);
        // No names: all cases, as natively.
        let output = capture(if death == 0 { &mut command } else { command.args(left) });
        let part = printed(&output);
        let last = left.iter().rposition(|case| part.contains_key(*case));
        printed_by_all.extend(part);
        let Some(last) = last.filter(|_| died(&output)).filter(|last| last + 1 < left.len() && death < MOST_DEATHS)
        else {
            return (printed_by_all, output.code());
        };
        let epitaph = printed_by_all.get_mut(left[last]).expect("it printed something");
        epitaph.push_str(&format!("(the program ended here: {}: {})\n", output.code(), output.stderr.trim_end()));
        left = &left[last + 1..];
    }
    unreachable!("the last death returns")
}

/// Whether the program itself did not end by its own will: killed, or still running at the stop time.
fn died(output: &Output) -> bool {
    output.code() > 1
}

/// Takes the output apart into cases.
fn printed(output: &Output) -> Printed {
    let mut cases = Printed::new();
    let mut current = None;
    for line in output.stdout.lines() {
        if let Some(name) = line.strip_prefix("case ") {
            current = Some(name.to_owned());
        }
        let text = cases.entry(current.clone().unwrap_or_default()).or_default();
        text.push_str(line);
        text.push('\n');
    }
    cases
}

/// The lines that are not the same, natively printed ones after `-`, a guest's after `+`; None when all are.
fn difference(native: Option<&String>, guest: Option<&String>) -> Option<String> {
    if native == guest {
        return None;
    }
    let native: Vec<&str> = native.map_or(vec![], |text| text.lines().collect());
    let guest: Vec<&str> = guest.map_or(vec![], |text| text.lines().collect());
    let head = native.iter().zip(&guest).take_while(|(a, b)| a == b).count();
    let tail = native[head..].iter().rev().zip(guest[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let of = |sign: char, lines: &[&str]| -> String {
        let lines = &lines[head..lines.len() - tail];
        lines.iter().take(12).map(|line| format!("    {sign} {line}\n")).collect()
    };
    Some(of('-', &native) + &of('+', &guest))
}
