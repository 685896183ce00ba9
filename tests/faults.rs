//! Guests that misbehave: they lose what is theirs, and neither their neighbours on the same host nor the run. The guests are in
//! `tests/guest-programs/faults`; `neighbour` notices if anything around it suffers.
//!
//! `GNOMON_TEST_SEED=N` chooses other moments for the kills.

mod common;

use common::{Output, compile, folder, read, run, stats};
use std::fs;
use std::path::{Path, PathBuf};

fn program(name: &str, folder: &Path) -> PathBuf {
    compile(&format!("tests/guest-programs/faults/{name}.c"), folder)
}

/// A process of an experiment.
struct Guest {
    path: String,
    arguments: String,
    /// More keys of the process.
    keys: String,
}

impl Guest {
    fn new(path: impl AsRef<Path>, arguments: &str, keys: &str) -> Guest {
        let path = path.as_ref().display().to_string();
        Guest { path, arguments: arguments.to_owned(), keys: keys.to_owned() }
    }

    fn yaml(&self) -> String {
        format!("    - {{ path: {:?}, args: {}, {} }}\n", self.path, self.arguments, self.keys)
    }
}

/// Hosts `victim0`, `victim1`..., each with the guests given and with neighbours that talk to each other and to host `z`.
fn experiment(folder: &Path, victims: &[Vec<Guest>], stop: u32) -> String {
    let neighbour = program("neighbour", folder);
    let seconds = stop - 3;
    let mut text =
        format!("general: {{ stop_time: {stop} s }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\nhosts:\n");
    let server = Guest::new(&neighbour, "serve 7", "expected_final_state: running").yaml();
    text += &format!("  z:\n    network_node_id: 0\n    ip_addr: 11.0.0.200\n    processes:\n{server}");
    for (index, guests) in victims.iter().enumerate() {
        text += &format!("  victim{index}:\n    network_node_id: 0\n    processes:\n{server}");
        for address in ["127.0.0.1", "11.0.0.200"] {
            text += &Guest::new(&neighbour, &format!("{address} 7 {seconds}"), "start_time: 1 s").yaml();
        }
        guests.iter().for_each(|guest| text += &guest.yaml());
    }
    text
}

/// Runs the experiment; all guests must end as expected, and the neighbours have seen nothing.
fn run_and_check(folder: &Path, name: &str, text: &str, victims: usize) -> Output {
    let file = format!("{name}.yaml");
    fs::write(folder.join(&file), text).expect("the experiment's file");
    let data = format!("{name}.data");
    let _ = fs::remove_dir_all(folder.join(&data));
    let output = run(folder, &file, &["--data-directory", &data]);
    assert_eq!(output.code(), 0, "{name}: {}", output.stderr);
    for victim in 0..victims {
        let host = folder.join(&data).join(format!("hosts/victim{victim}"));
        for pid in [1001, 1002] {
            let said = read(&host.join(format!("neighbour.{pid}.stdout")));
            assert!(said.starts_with("all was well"), "{name}, neighbour {pid} of victim{victim}: {said}");
        }
    }
    output
}

/// What the processes of a program printed on the first victim's host.
fn outputs_of(folder: &Path, name: &str, program: &str) -> Vec<String> {
    let files = fs::read_dir(folder.join(format!("{name}.data/hosts/victim0"))).expect("the host's files");
    let paths = files.map(|file| file.expect("a file").path());
    let is_output = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{program}.")) && name.ends_with(".stdout")
    };
    paths.filter(is_output).map(|path| read(&path)).collect()
}

#[test]
fn a_guest_without_descriptors_goes_on_alone() {
    let folder = folder("faults/descriptors");
    let victim = Guest::new(program("leak_descriptors", &folder), "''", "start_time: 2 s");
    run_and_check(&folder, "leak", &experiment(&folder, &[vec![victim]], 6), 1);
    let round = "open: EMFILE\nat the limit: 1\nsocket: EMFILE\npipe: EMFILE\ndup: EMFILE\neventfd: EMFILE\ntimerfd: EMFILE\n\
                 epoll: EMFILE\nmemfd: EMFILE\nwrite: done\npipe afterwards: done\n";
    assert_eq!(outputs_of(&folder, "leak", "leak_descriptors"), [round.repeat(2)]);
}

#[test]
fn a_guest_without_addresses_goes_on_alone() {
    let folder = folder("faults/addresses");
    let victim = Guest::new(program("fill_addresses", &folder), "''", "start_time: 2 s");
    run_and_check(&folder, "fill", &experiment(&folder, &[vec![victim]], 6), 1);
    let output = outputs_of(&folder, "fill", "fill_addresses");
    assert_eq!(output, ["some pieces: 1\nmemory again\n".repeat(2)]);
}

#[test]
fn a_guest_that_takes_all_memory_is_refused_more_or_killed() {
    let folder = folder("faults/memory");
    let hog = program("fill_memory", &folder);
    let killed = "start_time: 4 s, expected_final_state: { signaled: SIGKILL }";
    let shared = "start_time: 5 s, expected_final_state: { signaled: SIGKILL }";
    let victims = [
        vec![Guest::new(&hog, "refused", "start_time: 2 s"), Guest::new(&hog, "shared", shared)],
        vec![Guest::new(&hog, "killed", killed)],
    ];
    let text = experiment(&folder, &victims, 6) + "experimental: { memory_limit: 640 MiB }\n";
    let output = run_and_check(&folder, "memory", &text, 2);
    let mut outputs = outputs_of(&folder, "memory", "fill_memory");
    outputs.sort();
    assert_eq!(outputs, ["a lot\n", "refused\n"]);
    assert!(output.stderr.contains("the machine had no memory left for 3 guests"), "{}", output.stderr);
    let log = read(&folder.join("memory.data/gnomon.log"));
    for message in ["more is refused to it (ENOMEM)", "killed, since the machine's memory is used up"] {
        assert!(log.contains(message), "'{message}' is not in: {log}");
    }
    assert_eq!(stats(&folder.join("memory.data"))["gnomon"]["computing"]["reproducible"], false);
}

#[test]
fn a_fork_bomb_ends_at_its_limit_or_at_the_machines() {
    let folder = folder("faults/forks");
    let bomb = program("fork_until_refused", &folder);
    for (name, arguments) in [("limited", "'100'"), ("unlimited", "''")] {
        let victim = Guest::new(&bomb, arguments, "start_time: 2 s");
        // Machines with the usual number of mappings have these used up first.
        let text = experiment(&folder, &[vec![victim]], 6) + "experimental: { memory_limit: 2 GiB }\n";
        run_and_check(&folder, name, &text, 1);
        let output = outputs_of(&folder, name, "fork_until_refused");
        assert_eq!(output, ["fork: EAGAIN, some children: 1\nfork again: 1\n"], "{name}");
    }
    let log = read(&folder.join("unlimited.data/gnomon.log"));
    assert!(log.contains("fork answered EAGAIN") && log.contains("vm.max_map_count"), "{log}");
}

#[test]
fn a_guest_that_splits_its_memory_ends_at_the_machine_s_mappings() {
    // Distributions allow 65,530 to 1,048,576, and a run of many guests may have raised it.
    let limit = read(Path::new("/proc/sys/vm/max_map_count"));
    let folder = folder("faults/mappings");
    let victim = Guest::new(program("split_mappings", &folder), &format!("'{}'", limit.trim()), "start_time: 2 s");
    let output = run_and_check(&folder, "split", &experiment(&folder, &[vec![victim]], 6), 1);
    assert_eq!(outputs_of(&folder, "split", "split_mappings"), ["many refused: 1\n".repeat(2)]);
    let told = "this process had as many memory mappings as the machine allows";
    assert!(output.stderr.contains(told), "{}", output.stderr);
    assert_eq!(stats(&folder.join("split.data"))["gnomon"]["computing"]["reproducible"], false);
}

#[test]
fn a_stack_that_overflows_ends_its_guest_alone() {
    let folder = folder("faults/stack");
    let diver = program("overflow_stack", &folder);
    let keys = "start_time: 2 s, expected_final_state: { signaled: SIGSEGV }";
    let victims = vec![Guest::new(&diver, "main", keys), Guest::new(&diver, "thread", keys)];
    run_and_check(&folder, "stack", &experiment(&folder, &[victims], 6), 1);
    assert_eq!(outputs_of(&folder, "stack", "overflow_stack"), ["about to dive\n"; 2]);
}

#[test]
fn a_guest_that_calls_as_32_bit_programs_do_ends_alone() {
    let folder = folder("faults/int80");
    let keys = "start_time: 2 s, expected_final_state: { signaled: SIGSEGV }";
    let victim = Guest::new(program("int80", &folder), "''", keys);
    run_and_check(&folder, "int80", &experiment(&folder, &[vec![victim]], 6), 1);
}

#[test]
fn a_guest_that_sets_the_simulators_register_has_set_its_own() {
    let folder = folder("faults/register");
    let victim = program("set_gs", &folder);
    let nowhere = "start_time: 2 s, expected_final_state: { signaled: SIGSEGV }";
    let victims = [Guest::new(&victim, "'64'", "start_time: 2 s"), Guest::new(&victim, "'32'", nowhere)];
    run_and_check(&folder, "register", &experiment(&folder, &[victims.into()], 6), 1);
}

#[test]
fn a_robust_mutex_goes_to_the_heir_of_a_killed_owner() {
    let folder = folder("faults/robust");
    let robust = program("robust", &folder);
    let killed = "expected_final_state: { signaled: SIGKILL }";
    let holder = format!("start_time: 1 s, shutdown_time: 3 s, shutdown_signal: SIGKILL, {killed}");
    let victims = vec![
        Guest::new(&robust, "hold /tmp/mutex", &holder),
        Guest::new(&robust, "inherit /tmp/mutex", "start_time: 2 s"),
    ];
    run_and_check(&folder, "robust", &experiment(&folder, &[victims], 6), 1);
    let outputs = outputs_of(&folder, "robust", "robust");
    let inherited = "lock: EOWNERDEAD, value 42\nconsistent: 0\nunlock: 0\nlock again: 0\n";
    assert!(outputs.iter().any(|output| output == inherited), "{outputs:?}");
}

/// Random numbers from a seed: splitmix64.
struct Moments(u64);

impl Moments {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound + 1
    }
}

/// Real programs that are killed in place of a random system call of theirs: while they start, load libraries, listen, fork, transfer.
fn killed_programs(folder: &Path, moments: &mut Moments) -> Vec<Vec<Guest>> {
    let neighbour = program("neighbour", folder);
    let killed =
        |call: u64, keys: &str| format!("kill_at_call: {call}, expected_final_state: {{ signaled: SIGKILL }}, {keys}");
    let find = |name: &str| common::find_program(name).unwrap_or_else(|| panic!("{name} is needed"));
    let script = "'-c \"for i in 1 2 3 4 5 6 7 8; do (echo $i; sleep 0.1) | cat | wc -c; done\"'";
    let pool = "'-c \"import multiprocessing as m; print(sum(m.Pool(3).map(abs, range(100))))\"'";
    vec![
        vec![Guest::new(&neighbour, "serve 8", &killed(moments.below(5) + 25, "start_time: 2 s")), {
            // What the victim serves breaks off, or is refused: the client says so, and ends.
            Guest::new(&neighbour, "127.0.0.1 8 2", "start_time: 3 s, expected_final_state: { exited: 1 }")
        }],
        vec![Guest::new(find("bash"), script, &killed(moments.below(120), "start_time: 2 s"))],
        vec![Guest::new(find("python3"), "-m http.server 80", &killed(moments.below(600), "start_time: 2 s"))],
        vec![Guest::new(find("python3"), pool, &killed(moments.below(900), "start_time: 2 s"))],
        vec![Guest::new(find("curl"), "-s http://11.0.0.200:7/", &killed(moments.below(300), "start_time: 2 s"))],
    ]
}

#[test]
fn guests_that_are_killed_at_any_call_leave_the_others_unharmed_and_runs_alike() {
    let folder = folder("faults/killed");
    let seed = std::env::var("GNOMON_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut moments = Moments(seed);
    for round in 0..4 {
        let victims = killed_programs(&folder, &mut moments);
        let text = experiment(&folder, &victims, 7);
        let digests = ["first", "second"].map(|name| {
            let name = format!("{name}{round}");
            let output = run_and_check(&folder, &name, &text, victims.len());
            let data = folder.join(format!("{name}.data"));
            let log = read(&data.join("gnomon.log"));
            let kills = log.matches("as the experiment says").count();
            assert_eq!(kills, victims.len(), "seed {seed}, round {round}: {}\n{log}", output.stderr);
            common::digest(&data)
        });
        assert_eq!(digests[0], digests[1], "seed {seed}, round {round}");
    }
}
