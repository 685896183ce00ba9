//! What a guest cannot do: call the real kernel, take others with it, have the simulator follow bad pointers, reach a real
//! network, write outside the run's directory. The guests are in `tests/guest-programs/isolation`.

mod common;

use common::{Output, capture, compile, folder, gnomon, limited, read, run, run_well, stats};
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};

fn program(name: &str, folder: &Path) -> PathBuf {
    compile(&format!("tests/guest-programs/isolation/{name}.c"), folder)
}

/// Runs a program as the only guest.
fn exec(folder: &Path, program: &Path, arguments: &[&str]) -> Output {
    let mut command = gnomon();
    command.args(["exec", "--quiet"]).args(["--data-directory", "exec.data"]).arg(program).args(arguments);
    capture(command.current_dir(folder))
}

/// An experiment of hosts on one switch, each with its processes: program, arguments, expected final state.
fn experiment(hosts: &[(&str, &[(&Path, &str, &str)])]) -> String {
    let mut text = "general: { stop_time: 10 s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n".to_owned();
    for (name, processes) in hosts {
        text += &format!("  {name}:\n    network_node_id: 0\n    processes:\n");
        for (path, arguments, state) in *processes {
            let path = path.display();
            text += &format!("    - {{ path: {path}, args: {arguments}, expected_final_state: {state} }}\n");
        }
    }
    text
}

#[test]
fn bare_syscalls_in_generated_code_are_caught() {
    let folder = folder("isolation/bare_syscall");
    let target = "/usr/gnomon-must-not-exist";
    let output = exec(&folder, &program("bare_syscall", &folder), &[target]);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
    let (pid, rest) = output.stdout.split_once('\n').expect("several lines");
    assert!(pid.strip_prefix("pid ").is_some_and(|pid| pid.parse::<u32>().is_ok_and(|pid| pid >= 1000)), "{pid}");
    assert_eq!(rest, "host host\ncreate = ok\nbad pointer = EFAULT\nstill here\n");
    assert!(!Path::new(target).exists());
    let stats = stats(&folder.join("exec.data"));
    let misses = stats["gnomon"]["interception"]["misses"].as_object().expect("misses by site");
    let caught: u64 = misses.values().filter_map(|count| count.as_u64()).sum();
    assert!(caught >= 1000, "the net's catches are counted: {misses:?}");
}

#[test]
fn a_null_dereference_kills_one_guest_alone() {
    let folder = folder("isolation/null_dereference");
    let broken = program("null_dereference", &folder);
    let fine = common::find_program("sleep").expect("sleep");
    let fine = (fine.as_path(), "5", "{ exited: 0 }");

    let expected = (broken.as_path(), "''", "{ signaled: SIGSEGV }");
    fs::write(folder.join("expected.yaml"), experiment(&[("a", &[fine, expected, fine]), ("b", &[fine])])).unwrap();
    run_well(&folder, "expected.yaml", &["--data-directory", "expected.data"]);
    let output = read(&folder.join("expected.data/hosts/a/null_dereference.1001.stdout"));
    assert_eq!(output, "about to read *NULL\n");

    let unexpected = (broken.as_path(), "''", "{ exited: 0 }");
    fs::write(folder.join("unexpected.yaml"), experiment(&[("a", &[fine, unexpected, fine]), ("b", &[fine])])).unwrap();
    let output = run(&folder, "unexpected.yaml", &["--data-directory", "unexpected.data"]);
    assert_eq!(output.code(), 1, "{}", output.stderr);
    assert!(output.stderr.contains("1 of 4 guests in an unexpected final state"), "{}", output.stderr);
    assert!(output.stderr.contains("SIGSEGV"), "{}", output.stderr);
}

#[test]
fn a_guest_that_writes_into_the_simulators_state_is_named() {
    let folder = folder("isolation/wild_write");
    let output = exec(&folder, &program("wild_write", &folder), &[]);
    assert_ne!(output.code(), 0);
    assert!(!output.stdout.contains("still here"), "{}", output.stdout);
    assert!(output.stderr.contains("has written into the simulator's memory"), "{}", output.stderr);
    assert!(output.stderr.contains("serving wild_write, process 1000 of host 'host'"), "{}", output.stderr);
}

#[test]
fn bad_pointers_are_efault_as_on_linux() {
    let folder = folder("isolation/bad_pointers");
    let program = program("bad_pointers", &folder);
    let native = capture(&mut limited(&program));
    let guest = exec(&folder, &program, &[]);
    assert_eq!(guest.code(), 0, "{}{}", guest.stdout, guest.stderr);
    assert_eq!(guest.stdout, native.stdout);
    assert!(guest.stdout.ends_with("still here\n"));
    assert!(guest.stdout.matches("= EFAULT\n").count() > 60, "{}", guest.stdout);
}

/// An address of this machine beside the loopback, if it has a network. Connecting a datagram socket sends nothing.
fn own_address() -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

#[test]
fn real_addresses_are_out_of_reach() {
    let folder = folder("isolation/real_network");
    let program = program("real_network", &folder);
    for address in [Some(Ipv4Addr::LOCALHOST), own_address()].into_iter().flatten() {
        let listener = TcpListener::bind((address, 0)).expect("a real listener");
        let port = listener.local_addr().expect("its address").port();
        let datagrams = UdpSocket::bind((address, port)).expect("a real datagram socket");
        listener.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();

        let output = exec(&folder, &program, &[&address.to_string(), &port.to_string()]);
        fs::remove_dir_all(folder.join("exec.data")).expect("the run's directory");
        assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);
        assert!(!output.stdout.contains("ok"), "{address}: {}", output.stdout);
        assert_eq!(listener.accept().expect_err("nobody connected").kind(), ErrorKind::WouldBlock);
        assert_eq!(datagrams.recv(&mut [0; 16]).expect_err("nothing was sent").kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn nothing_is_written_outside_the_runs_directory() {
    let folder = folder("isolation/write_outside");
    let program = program("write_outside", &folder);
    let outside = folder.join("outside");
    fs::create_dir_all(outside.join("folder")).unwrap();
    fs::write(outside.join("victim"), "precious\n").unwrap();
    let before = fs::metadata(outside.join("victim")).unwrap();

    let output = exec(&folder, &program, &[outside.to_str().expect("UTF-8")]);
    assert_eq!(output.code(), 0, "{}{}", output.stdout, output.stderr);

    let mut names: Vec<_> = fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["folder", "victim"], "{}", output.stdout);
    assert_eq!(read(&outside.join("victim")), "precious\n");
    let after = fs::metadata(outside.join("victim")).unwrap();
    assert_eq!((before.modified().unwrap(), before.permissions()), (after.modified().unwrap(), after.permissions()));

    for name in ["/gnomon-must-not-exist", "/usr/gnomon-must-not-exist", "/etc/gnomon-must-not-exist"] {
        fs::remove_dir_all(folder.join("exec.data")).expect("the run's directory");
        let output = exec(&folder, Path::new("/usr/bin/touch"), &[name]);
        // The guest has its own view of the machine's files, and may believe that it wrote there.
        assert_eq!(output.code(), 0, "touch {name}: {}", output.stderr);
        assert!(!Path::new(name).exists(), "{name}");
        assert!(folder.join("exec.data/hosts/host/fs").join(&name[1..]).exists(), "{name}");
    }
}

/// What daemons make in `/dev` (syslog's socket) is their host's own; what is there by itself stays.
#[test]
fn names_in_dev_are_the_hosts_own() {
    let folder = folder("isolation/dev");
    let script = "mkfifo /dev/gnomon-test && echo /dev/gnomon-t*; mv /dev/gnomon-test /dev/other && ls /dev | grep -c '^other$'; rm /dev/other; \
                  rm /dev/null 2>&1; mkdir /dev/pts/x 2>&1; echo end > /dev/null; stat -c '%F %a' /dev /dev/null; ls /dev | grep -c '^other$'";
    let output = exec(&folder, Path::new("/bin/sh"), &["-c", script]);
    let told: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(told[..2], ["/dev/gnomon-test", "1"], "{told:?}");
    assert!(told[2].contains("not permitted") && told[3].contains("Read-only file system"), "{told:?}");
    assert_eq!(told[4..], ["directory 755", "character special file 666", "0"], "{told:?}");
    assert!(!Path::new("/dev/gnomon-test").exists() && !Path::new("/dev/other").exists());
}
