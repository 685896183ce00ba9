//! Every option of every kind of socket, natively and as a guest: `tests/socket_options/sweep.c` reads and sets them with lengths,
//! addresses and values of every kind. What differs stands below with its reason. Linux 6.18 is the specification.

mod common;

use common::{capture, compile, folder, gnomon, limited};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// What differs: how the program was called ("*": however), the options as level/number, and why.
type Known = (&'static str, &'static [&'static str], &'static str);

const KNOWN_DIFFERENCES: &[Known] = &[
    ("*", &["1/42"], "SO_PEEK_OFF can only be off: reading does not move a place to look from"),
    ("*", &["1/61"], "SO_TXTIME is refused: packets leave when they can, and there is no such queue discipline"),
    ("*", &["0/4"], "IP_OPTIONS can only be none: packets have no options"),
    ("*", &["6/33"], "TCP_FASTOPEN_KEY is refused: SYNs bring no data, so there are no cookies"),
    ("*", &["41/54", "41/55", "41/59"], "no packet has extension headers of IPv6"),
    ("*", &["41/64", "41/65", "41/68", "41/69", "41/80"], "these ask ip6tables, and hosts have no packet filter"),
    ("*", &["0/51"], "IP_LOCAL_PORT_RANGE is refused: ports are chosen from the system's range"),
    ("*", &["0/50"], "IP_UNICAST_IF is refused: routes alone choose the interface of packets to one host"),
    ("*", &["1/37", "1/65"], "SO_TIMESTAMPING is refused: nobody is told when packets pass what lies below the stack"),
    ("*", &["1/60"], "SO_ZEROCOPY is refused: what is sent is copied"),
    ("*", &["1/84"], "SO_INQ of Unix sockets is refused: messages do not tell what waits behind them"),
    ("*", &["1/62"], "an interface that is not there cannot be bound to"),
    ("*", &["6/19"], "TCP_REPAIR is refused: connections are not saved"),
    ("*", &["6/30"], "TCP_FASTOPEN_CONNECT is refused as where the system's setting has no clients"),
    ("*", &["6/37"], "TCP_TX_DELAY is refused: links have delays, sockets have not"),
    ("*", &["41/50"], "IPV6_PKTINFO of a socket can only be none; messages and bind choose a source"),
    ("*", &["0/5"], "IP_ROUTER_ALERT is refused: hosts do not route"),
    ("one", &["0/36"], "a guest has a route to groups, so it looks for a membership that it has not"),
    ("one user", &["0/36"], "a guest has a route to groups, so it looks for a membership that it has not"),
    ("structures", &["0/39", "0/42", "41/42"], "streams join no groups: nothing would come to them"),
    ("structures user", &["0/39", "0/42", "41/42"], "streams join no groups: nothing would come to them"),
];

/// What the program is called with.
const RUNS: [&[&str]; 9] = [
    &["get"],
    &["zero"],
    &["one"],
    &["minus"],
    &["large"],
    &["structures"],
    &["get", "user"],
    &["one", "user"],
    &["structures", "user"],
];

/// Each run of all options has at least that many lines, one for each option of a kind of socket.
const LEAST_LINES: usize = 8_000;

#[test]
fn options_are_as_on_linux() {
    let folder = folder("socket-options");
    let program = compile("tests/socket_options/sweep.c", &folder);
    let root = capture(Command::new("id").arg("-u")).stdout.trim() == "0";
    if !is_recent() || natively(&program, &["structures"], root).is_none() {
        println!("left out, since the machine's kernel is older, or gives the native side no namespaces");
        return;
    }
    let mut used = BTreeSet::new();
    let mut problems = Vec::new();
    let (mut lines, mut known) = (0, 0);
    // Nobody becomes another user natively who is not root there.
    for arguments in RUNS.iter().filter(|arguments| root || arguments.len() == 1) {
        let native = natively(&program, arguments, root).expect("a namespace");
        let guest = as_guest(&program, &folder, arguments);
        let how = arguments.join(" ");
        assert!(arguments[0] == "structures" || native.len() >= LEAST_LINES, "{how}: {} lines", native.len());
        assert_eq!(native.len(), guest.len(), "{how}");
        lines += native.len();
        for (name, expected) in &native {
            let got = guest.get(name).map_or("", String::as_str);
            if got == expected {
                continue;
            }
            match explanation(&how, name) {
                Some(place) => {
                    known += 1;
                    used.insert(place);
                }
                None => problems.push(format!("{how}: {name}\n  natively{expected}\n  as guest{got}")),
            }
        }
    }
    println!("{lines} lines, {known} of them with known differences, {} others", problems.len());
    for (place, (how, options, _)) in KNOWN_DIFFERENCES.iter().enumerate() {
        if !used.contains(&place) && (root || !how.ends_with("user")) {
            problems.push(format!("{how}: {options:?} do not differ any more"));
        }
    }
    assert!(problems.is_empty(), "{}", problems[..problems.len().min(40)].join("\n"));
}

/// Whether the machine's kernel has all options that are compared: it is Linux 6.18 or later.
fn is_recent() -> bool {
    let release = capture(Command::new("uname").arg("-r")).stdout;
    let mut numbers = release.split('.').map_while(|part| part.trim().parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(18))
}

/// The entry of the list above that explains a difference.
fn explanation(how: &str, name: &str) -> Option<usize> {
    let option = name.rsplit(' ').next()?;
    KNOWN_DIFFERENCES.iter().position(|(mode, options, _)| (*mode == "*" || *mode == how) && options.contains(&option))
}

#[test]
fn known_differences_have_reasons() {
    for (how, options, reason) in KNOWN_DIFFERENCES {
        assert!(reason.len() > 20 && !options.is_empty(), "{how}: {options:?}: give the reason");
    }
}

/// The lines that the program prints in a network namespace of its own, by socket, mode and option. None without namespaces.
fn natively(program: &Path, arguments: &[&str], root: bool) -> Option<BTreeMap<String, String>> {
    let mut command = limited(Path::new("unshare"));
    let output = capture(command.arg(if root { "-n" } else { "-rn" }).arg(program).args(arguments));
    (output.code() == 0).then(|| by_name(&output.stdout))
}

fn as_guest(program: &Path, folder: &Path, arguments: &[&str]) -> BTreeMap<String, String> {
    let output = capture(gnomon().args(["exec", "--quiet"]).arg(program).args(arguments).current_dir(folder));
    assert_eq!(output.code(), 0, "{arguments:?}: {}", output.stderr);
    by_name(&output.stdout)
}

fn by_name(printed: &str) -> BTreeMap<String, String> {
    let split = |line: &str| {
        let end = line.match_indices(' ').nth(2).map_or(line.len(), |(at, _)| at);
        (line[..end].to_owned(), line[end..].to_owned())
    };
    printed.lines().map(split).collect()
}
