//! Tables of sockets and counters of a host whose calls are made by hand.

use super::*;
use crate::test_machine::{A, Machine};
use crate::vfs::synthetic::Synthetic;
use linux_abi::nr;
use linux_abi::socket::{SOCK_DGRAM, SOCK_STREAM};

fn view(machine: &Machine) -> View<'_> {
    let kernel = &machine.kernel;
    View {
        config: &kernel.config,
        process: machine.process.as_deref(),
        thread: None,
        credentials: None,
        threads: &kernel.threads,
        processes: &kernel.processes,
        shared: &kernel.shared,
        ipc: &kernel.ipc,
        terminals: &kernel.terminals,
        files: &kernel.files,
        net: &kernel.net,
        unix: &kernel.unix,
        now: machine.now,
    }
}

/// The lines of a table below its title.
fn lines(machine: &Machine, table: &str) -> Vec<String> {
    let Some(Synthetic::File(text)) = lookup(&view(machine), &[table]) else { panic!("{table}") };
    String::from_utf8(text).unwrap().lines().skip(1).map(|line| line.trim_end().to_owned()).collect()
}

fn bound(machine: &mut Machine, kind: i32, port: u16) -> u64 {
    let fd = machine.socket(kind);
    machine.bind(fd, A, port).unwrap();
    fd
}

#[test]
fn every_listed_file_has_a_text() {
    let machine = Machine::new(A);
    assert!(FILES.is_sorted());
    assert!(FILES.iter().all(|name| text(&view(&machine), name).is_some()));
    assert_eq!(lookup(&view(&machine), &["nothing"]), None);
}

#[test]
fn a_listener_has_a_line_with_its_inode() {
    let mut machine = Machine::new(A);
    let fd = bound(&mut machine, SOCK_STREAM, 80);
    assert_eq!(lines(&machine, "tcp"), Vec::<String>::new());
    machine.call(nr::listen, &[fd, 5]).unwrap();
    let start = "   0: 0100000B:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 16777216 1";
    assert_eq!(lines(&machine, "tcp"), [format!("{start} 0000000001000000 100 0 0 10 0")]);
}

#[test]
fn datagram_sockets_are_listed_once_they_have_a_port() {
    let mut machine = Machine::new(A);
    bound(&mut machine, SOCK_DGRAM, 53);
    let start =
        "   53: 0100000B:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 16777216 2";
    assert_eq!(lines(&machine, "udp"), [format!("{start} 0000000001000000 0")]);
    assert_eq!(lines(&machine, "udp6").len(), 0);
    assert!(lines(&machine, "sockstat").contains(&"UDP: inuse 1 mem 0".to_owned()));
}

#[test]
fn unread_bytes_and_the_loopback_interface_are_counted() {
    let mut machine = Machine::new(A);
    let (client, _session) = machine.connection();
    machine.write(client, b"hello").unwrap();
    let sessions: Vec<String> = lines(&machine, "tcp").into_iter().filter(|line| line.contains(" 01 ")).collect();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().any(|line| line.contains(" 00000000:00000005 ")), "{sessions:?}");
    let lo = lines(&machine, "dev")[1].clone();
    let words: Vec<&str> = lo.split_whitespace().collect();
    assert_eq!((words[0], words[2], words[10]), ("lo:", words[10], words[2]));
    assert!(words[2].parse::<u64>().unwrap() >= 4);
}

#[test]
fn counters_have_as_many_names_as_values() {
    let machine = Machine::new(A);
    for table in ["snmp", "netstat"] {
        let Some(Synthetic::File(text)) = lookup(&view(&machine), &[table]) else { panic!("{table}") };
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks(2) {
            assert_eq!(pair[0].split(' ').count(), pair[1].split(' ').count(), "{}", pair[0]);
            assert_eq!(pair[0].split(' ').next(), pair[1].split(' ').next());
        }
    }
}
