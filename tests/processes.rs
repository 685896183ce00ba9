//! Programs that start others: shells, make, perl, Python, a compiler. Each must print the same natively and as a guest, and the
//! same with one worker and with two.

mod common;

use common::{capture, compile, digest, find_program, folder, gnomon, limited, natively, run_well, tree};
use std::fs;
use std::path::Path;

const SEARCH_PATH: &str = "PATH=/usr/bin:/bin:/usr/sbin:/sbin";

/// Runs a program natively and as a guest; both must print the same and exit alike.
fn compare(test: &str, program: &str, arguments: &[&str]) {
    let Some(path) = find_program(program) else {
        common::leave_out(&format!("no {program} on this machine"));
        return;
    };
    let folder = folder(&format!("processes/{test}"));
    let home = format!("HOME={}", folder.display());
    let mut guest = gnomon();
    guest.args(["exec", "--quiet", "--stop-time", "1 h", "--env", SEARCH_PATH, "--env", &home]);
    let guest = capture(guest.arg(&path).args(arguments).current_dir(&folder));
    let native = natively(&guest.stdout, || {
        let mut native = limited(Path::new("env"));
        native.args(["-i", SEARCH_PATH, &home]).arg(&path).args(arguments).current_dir(&folder);
        native
    });
    assert_eq!(guest.stdout, native.stdout, "{test}: {}", guest.stderr);
    assert_eq!(guest.code(), native.code(), "{test}: {}", guest.stderr);
    assert!(!native.stdout.is_empty(), "{test} prints what it finds: {}", native.stderr);
}

/// Starts after the first get the memory of a program that has been started already.
#[test]
fn memory_without_rights_gets_some_in_every_start() {
    let program = compile("tests/guest-programs/starts/reserve.c", &folder("processes/starts")).display().to_string();
    compare("starts", "sh", &["-c", "for start in 1 2 3; do \"$0\"; echo $?; done", &program]);
}

const SHELL: &str = r#"
x=$(echo a | tr a b | sed 's/b/c/'); echo "x=$x"
(exit 3) || echo "subshell $?"
sh -c 'exit 9' || echo "child $?"
i=0; while [ $i -lt 20 ]; do y=$(echo $i | cat); i=$((i+1)); done; echo "$y"
{ echo a; echo b; } | while read l; do echo "<$l>"; done
trap 'echo signal' USR1; kill -USR1 $$
(sleep 0.1; echo later) & wait
(sleep 0.1; exit 7) & wait $! || echo "background $?"
for n in 3 1 2; do (sleep 0.$n; echo "job $n") & done; wait
(cd /etc; pwd); echo "$(echo "$(echo nested)")"
seq 1000 | (s=0; while read n; do s=$((s+n)); done; echo "$s")
yes | head -3; seq 5 | xargs -n 2 echo; seq 20 | xargs -P 4 -n 5 echo | sort
timeout 0.1 sleep 10; echo "timeout $?"
find /etc -maxdepth 1 -name 'host*' -exec basename {} \; | sort
sort -R /etc/passwd | sort | cmp - /etc/passwd > /dev/null; cat /etc/passwd | cut -d: -f1 | sort | head -3
awk 'BEGIN { while (("echo 1; echo 2" | getline l) > 0) print l; system("echo from awk"); print "x" | "cat" }'
exec 3> file; echo three >&3; (echo child >&3); exec 3>&-; cat file; rm file
ulimit -n 100; sh -c 'ulimit -n'; umask 27; sh -c umask
trap 'echo at exit' EXIT; exit 5
"#;

#[test]
fn shells_run_pipelines_jobs_and_traps() {
    compare("dash", "dash", &["-c", SHELL]);
    compare("bash", "bash", &["-c", SHELL]);
}

#[test]
fn bash_runs_what_is_its_own() {
    let script = r#"
cat <<< "here string"; diff <(seq 3) <(seq 4); mapfile -t a < <(seq 5); echo "${#a[@]}"
coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} l; echo "coproc $l"; kill $COPROC_PID; wait $COPROC_PID; echo $?
sleep 100 & kill -9 $!; wait $!; echo "killed $?"
sleep 0.1 & sleep 0.3 & wait -n; echo "first $?"; wait
false | true; echo "${PIPESTATUS[@]}"; set -o pipefail; (exit 4) | true; echo $?
trap 'echo term' TERM; (kill -TERM $$; exec sleep 0.2) & wait; echo after; wait
set -m; sleep 50 & sleep 0.2; kill -STOP %1; sleep 0.2; jobs %1 | tr -s ' '; kill -CONT %1; sleep 0.2; jobs %1 | tr -s ' '; kill %1; wait %1; echo $?
"#;
    compare("bash-only", "bash", &["-c", script]);
}

#[test]
fn make_runs_rules() {
    let makefile = r#"printf 'all: a b c\n\t@echo all\na:\n\t@echo a; sleep 0.1\nb: a\n\t@echo b | cat\nc: b\n\t@sh -c "echo c"\nbad:\n\t@exit 3\n' > Makefile
make; make -j4; make bad; echo $?"#;
    if find_program("make").is_some() {
        compare("make", "bash", &["-c", makefile]);
    }
}

#[test]
fn perl_forks() {
    let script = r#"$| = 1;
my $pid = fork(); if (!$pid) { print "child\n"; exit 3 } waitpid($pid, 0); print $? >> 8, "\n";
open(my $f, "-|", "echo piped; exit 2"); print <$f>; close $f; print $? >> 8, "\n";
print `echo backticks`; system("false"); print $? >> 8, "\n";
$SIG{CHLD} = sub { while (waitpid(-1, 1) > 0) { print "reaped\n" } }; if (!fork) { select undef, undef, undef, 0.1; exit } select undef, undef, undef, 2;
$SIG{CHLD} = 'DEFAULT'; $SIG{ALRM} = sub { print "alarm\n" }; alarm 1;
if (!fork) { sleep 2; print "no alarm in the child\n"; exit } sleep 5; wait;
exec "echo", "executed";"#;
    compare("perl", "perl", &["-e", script]);
}

const PYTHON: &str = r#"
import asyncio, multiprocessing as mp, os, subprocess
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
def square(x): return x * x
def count(value, n):
    for _ in range(n):
        with value.get_lock(): value.value += 1
def write(name): s = shared_memory.SharedMemory(name=name); s.buf[0] = 9; s.close()
async def ask():
    p = await asyncio.create_subprocess_exec('echo', 'asyncio', stdout=asyncio.subprocess.PIPE)
    return (await p.communicate())[0], p.returncode
if __name__ == '__main__':
    print(subprocess.run('echo out; echo err >&2; exit 3', shell=True, capture_output=True))
    p = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    print(len(p.communicate(b'x' * 300000)[0]), p.returncode)
    try: subprocess.run(['sleep', '10'], timeout=0.5)
    except subprocess.TimeoutExpired: print('timeout')
    pid = os.fork()
    if pid == 0: os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    with mp.Pool(3) as pool: print(pool.map(square, range(10)))
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(square, [1, 2, 3])))
    value = mp.Value('i', 0)
    children = [mp.Process(target=count, args=(value, 50)) for _ in range(3)]
    [c.start() for c in children]; [c.join() for c in children]; print(value.value)
    s = shared_memory.SharedMemory(create=True, size=10); c = mp.Process(target=write, args=(s.name,)); c.start(); c.join()
    print(s.buf[0], c.exitcode); s.close(); s.unlink()
    print(asyncio.run(ask()), flush=True)
    os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'spawned'], os.environ), 0)
"#;

#[test]
fn python_runs_subprocesses_and_multiprocessing() {
    compare("python", "python3", &["-c", PYTHON]);
}

#[test]
fn gcc_compiles_and_its_products_run() {
    let script = r#"printf '#include <stdio.h>\nint main(void) { puts("compiled"); }\n' > a.c
gcc -O1 -o a a.c && ./a; gcc -no-pie -o b a.c && ./b; gcc -static -o c a.c && ./c | cat; rm -f a b c"#;
    if find_program("gcc").is_some() {
        compare("gcc", "bash", &["-c", script]);
    }
}

#[test]
fn a_daemon_outlives_the_process_of_the_plan() {
    let folder = folder("processes/daemon");
    let script = "(sleep 5; echo late; date +%s) & echo early";
    fs::write(folder.join("plan.yaml"), experiment(&[("one", &[("dash", &format!("['-c', '{script}']"))])])).unwrap();
    run_well(&folder, "plan.yaml", &[]);
    let stdout = fs::read_to_string(folder.join("run.data/hosts/one/dash.1000.stdout")).unwrap();
    assert_eq!(stdout, "early\nlate\n946684806\n");
}

#[test]
fn one_worker_and_two_run_processes_alike() {
    let folder = folder("processes/determinism");
    let pool = "import multiprocessing as mp, os, random\ndef f(x): return x, os.getpid(), random.random()\n\
                if __name__ == '__main__':\n    with mp.Pool(3) as pool: print(pool.map(f, range(6)), hash('x'))\n";
    fs::write(folder.join("pool.py"), pool).unwrap();
    let pool = format!("['{}']", folder.join("pool.py").display());
    let shell = "['-c', 'for i in $(seq 10); do (sleep 0.$i; echo $i $$ $BASHPID $RANDOM) & done; wait; seq 9 | xargs -P 3 -n 1 echo']";
    let processes = [("bash", shell), ("python3", &pool[..])];
    let hosts: Vec<(&str, &[(&str, &str)])> = ["one", "two"].iter().map(|name| (*name, &processes[..])).collect();
    fs::write(folder.join("plan.yaml"), experiment(&hosts)).unwrap();
    let run = |workers: &str, arguments: &[&str]| {
        let data = folder.join("run.data");
        if data.exists() {
            fs::remove_dir_all(&data).unwrap();
        }
        run_well(&folder, "plan.yaml", &[&["--parallelism", workers], arguments].concat());
        (digest(&data), tree(&data.join("hosts")))
    };
    let (first, files) = run("1", &[]);
    let (second, same) = run("2", &[]);
    assert_eq!(first, second);
    assert!(files == same, "files differ");
    let (third, _) = run("2", &["--strace-logging-mode", "standard"]);
    assert_eq!(first, third, "recording changes nothing");
}

/// An experiment of hosts with their processes: (path, arguments).
fn experiment(hosts: &[(&str, &[(&str, &str)])]) -> String {
    let mut text =
        "general: { stop_time: 60 s, data_directory: run.data }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
                    hosts:\n"
            .to_owned();
    for (name, processes) in hosts {
        text += &format!("  {name}:\n    network_node_id: 0\n    processes:\n");
        for (path, arguments) in *processes {
            let environment = "{ PATH: '/usr/bin:/bin', HOME: '/tmp' }";
            text +=
                &format!("    - {{ path: {path}, args: {arguments}, environment: {environment}, start_time: 1 s }}\n");
        }
    }
    text
}

/// Builds, changes a source at the same simulated moment, and builds again.
const REBUILD: &str = r"
printf 'p: a b\n\tcat a b > p; echo built\na b:\n\ttouch $@\n' > Makefile
make -s; make -q && echo up to date; touch b; make -q || echo changed; make -s 2>&1
test p -nt b && test b -nt a && echo in order
";

#[test]
fn make_sees_what_was_touched_though_no_time_has_passed() {
    let folder = folder("processes/rebuild");
    let mut command = gnomon();
    command.args(["exec", "--quiet", "bash", "-c", REBUILD]).current_dir(&folder);
    let output = capture(&mut command);
    assert_eq!(output.stdout, "built\nup to date\nchanged\nbuilt\nin order\n", "{}", output.stderr);
}
