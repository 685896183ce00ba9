//! Reading `hosts`: what each host says about itself and its processes, before anything outside the file is looked at.

use crate::options::HostOptions;
use crate::plan::FinalState;
use crate::reader::{Reader, join};
use crate::setting::{Scalar, Setting};
use crate::shell;
use crate::signal::Signal;
use crate::yaml::{Entry, Node, Pos, Value, is_null};
use base::quantity::parse_bandwidth;
use base::{Bandwidth, SimDuration};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A host as written.
pub(crate) struct HostSpec {
    pub name: String,
    pub pos: Pos,
    pub network_node_id: u32,
    pub node_id_pos: Pos,
    pub bandwidth_down: Option<Bandwidth>,
    pub bandwidth_up: Option<Bandwidth>,
    pub address: Option<(Ipv4Addr, Pos)>,
    pub address6: Option<(Ipv6Addr, Pos)>,
    pub options: HostOptions,
    pub processes: Vec<ProcessSpec>,
}

/// A process as written.
pub(crate) struct ProcessSpec {
    /// The path of its keys, such as `hosts.a.processes[0]`.
    pub key: String,
    pub path: String,
    pub path_pos: Pos,
    pub args: Vec<String>,
    pub environment: Vec<(String, String)>,
    pub start_time: (SimDuration, Pos),
    pub shutdown_time: Option<(SimDuration, Pos)>,
    pub shutdown_signal: Signal,
    pub kill_at_call: Option<u64>,
    pub expected_final_state: FinalState,
    pub user: Option<(String, Pos)>,
}

const HOST_KEYS: [&str; 7] =
    ["bandwidth_down", "bandwidth_up", "host_options", "ip6_addr", "ip_addr", "network_node_id", "processes"];
const PROCESS_KEYS: [&str; 9] = [
    "args",
    "environment",
    "expected_final_state",
    "kill_at_call",
    "path",
    "shutdown_signal",
    "shutdown_time",
    "start_time",
    "user",
];

/// All hosts that could be read, by name.
pub(crate) fn read_hosts(reader: &mut Reader, node: &Node, defaults: &HostOptions) -> Vec<HostSpec> {
    let Value::Map(entries) = &node.value else {
        reader.problem(node.pos, "hosts", format!("expected a mapping from names to hosts, not {}", node.describe()));
        return Vec::new();
    };
    if entries.is_empty() {
        reader.problem(node.pos, "hosts", "no hosts; add one, such as 'client: {network_node_id: 0, processes: []}'");
    }
    let mut hosts: Vec<HostSpec> = entries.iter().filter_map(|entry| read_host(reader, entry, defaults)).collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    hosts
}

fn read_host(reader: &mut Reader, entry: &Entry, defaults: &HostOptions) -> Option<HostSpec> {
    let key = join("hosts", &entry.key);
    if let Err(message) = check_name(&entry.key) {
        reader.problem(entry.pos, &key, message);
    }
    let mut host = HostSpec {
        name: entry.key.clone(),
        pos: entry.pos,
        network_node_id: 0,
        node_id_pos: entry.pos,
        bandwidth_down: None,
        bandwidth_up: None,
        address: None,
        address6: None,
        options: defaults.clone(),
        processes: Vec::new(),
    };
    let (mut has_node, mut has_processes) = (false, false);
    let before = reader.problem_count();
    for field in reader.mapping(&entry.value, &key, &HOST_KEYS) {
        let path = join(&key, &field.key);
        let value = &*field.value;
        match field.key.as_str() {
            "network_node_id" => {
                has_node = true;
                host.node_id_pos = value.pos;
                host.network_node_id = reader.value(value, &path, "0", u32::read).unwrap_or(0);
            }
            "processes" => {
                has_processes = true;
                host.processes = read_processes(reader, value, &path);
            }
            "bandwidth_down" => host.bandwidth_down = read_bandwidth(reader, value, &path),
            "bandwidth_up" => host.bandwidth_up = read_bandwidth(reader, value, &path),
            "ip_addr" => {
                let address = reader.value(value, &path, "11.0.0.1", nullable(read_address)).flatten();
                host.address = address.map(|a| (a, value.pos));
            }
            "ip6_addr" => {
                let address = reader.value(value, &path, "fd00::1", nullable(read_address6)).flatten();
                host.address6 = address.map(|a| (a, value.pos));
            }
            _ if value.is_null() => {}
            _ => {
                reader.section(value, &path, &mut host.options, &[]);
            }
        }
    }
    let all_known = reader.problem_count() == before;
    for (present, field, example) in
        [(has_node, "network_node_id", "network_node_id: 0"), (has_processes, "processes", "processes: []")]
    {
        if !present && all_known {
            reader.problem(entry.pos, &key, format!("'{field}' is missing; add it, such as '{example}'"));
        }
    }
    Some(host)
}

/// hostname(7), as Shadow applies it.
fn check_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if let Some(c) = name.chars().find(|&c| !allowed(c)) {
        return Err(format!("'{c}' is not allowed in a host's name; use a to z, 0 to 9, '-' and '.'"));
    }
    if name.is_empty() || name.starts_with('-') || name.len() > 253 {
        return Err("a host's name has 1 to 253 characters and does not begin with '-'".into());
    }
    if name.split('.').any(|label| !(1..=63).contains(&label.len())) {
        return Err("between its dots a host's name has 1 to 63 characters".into());
    }
    // The resolver reads the former as addresses; the latter stand in every /etc/hosts.
    const OWN: [&str; 5] = ["localhost", "ip6-localhost", "ip6-loopback", "ip6-allnodes", "ip6-allrouters"];
    if name.parse::<Ipv4Addr>().is_ok() || OWN.contains(&name) {
        return Err(format!("'{name}' means an address to programs; give the host another name"));
    }
    Ok(())
}

/// Whether getaddrinfo(3) takes `name` for an address in the old manner of inet_aton(3), such as `1` for 0.0.0.1.
/// Shadow has hosts with such names, and programs reach them by their addresses.
pub fn is_old_address(name: &str) -> bool {
    let is_number = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => part.bytes().all(|byte| byte.is_ascii_digit()),
    };
    name.split('.').count() <= 4 && name.split('.').all(is_number)
}

fn nullable<T>(
    read: impl FnOnce(Scalar<'_>) -> Result<T, String>,
) -> impl FnOnce(Scalar<'_>) -> Result<Option<T>, String> {
    |scalar| if scalar.plain && is_null(scalar.text) { Ok(None) } else { read(scalar).map(Some) }
}

fn read_bandwidth(reader: &mut Reader, node: &Node, path: &str) -> Option<Bandwidth> {
    let read = |scalar: Scalar<'_>| match parse_bandwidth(scalar.text) {
        Ok(b) if b.bits_per_sec() == 0 => Err("a bandwidth must be more than 0".into()),
        other => other.map_err(|e| e.to_string()),
    };
    reader.value(node, path, "100 Mbit", nullable(read)).flatten()
}

fn read_address(scalar: Scalar<'_>) -> Result<Ipv4Addr, String> {
    let text = scalar.text;
    let address: Ipv4Addr =
        text.parse().map_err(|_| format!("'{text}' is not an IPv4 address; write one such as 11.0.0.1"))?;
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() || address.is_broadcast() {
        return Err(format!("{address} cannot belong to a host; use a unicast address such as 11.0.0.1"));
    }
    Ok(address)
}

fn read_address6(scalar: Scalar<'_>) -> Result<Ipv6Addr, String> {
    let text = scalar.text;
    let address: Ipv6Addr =
        text.parse().map_err(|_| format!("'{text}' is not an IPv6 address; write one such as fd00::1"))?;
    let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    if special || address.is_unicast_link_local() || address.to_ipv4_mapped().is_some() {
        return Err(format!("{address} cannot belong to a host; use a unicast address such as fd00::1"));
    }
    Ok(address)
}

fn read_processes(reader: &mut Reader, node: &Node, key: &str) -> Vec<ProcessSpec> {
    match &node.value {
        Value::Seq(items) => {
            items.iter().enumerate().filter_map(|(i, item)| read_process(reader, item, format!("{key}[{i}]"))).collect()
        }
        _ if node.is_null() => Vec::new(),
        _ => {
            let message = format!("expected a list of processes, each after a '-', not {}", node.describe());
            reader.problem(node.pos, key, message);
            Vec::new()
        }
    }
}

fn read_process(reader: &mut Reader, node: &Node, key: String) -> Option<ProcessSpec> {
    let mut process = ProcessSpec {
        path: String::new(),
        path_pos: node.pos,
        args: Vec::new(),
        environment: Vec::new(),
        start_time: (SimDuration::ZERO, node.pos),
        shutdown_time: None,
        shutdown_signal: Signal::TERM,
        kill_at_call: None,
        expected_final_state: FinalState::Exited(0),
        user: None,
        key,
    };
    let mut has_path = false;
    let before = reader.problem_count();
    let key = process.key.clone();
    for field in reader.mapping(node, &key, &PROCESS_KEYS) {
        let path = join(&key, &field.key);
        let value = &*field.value;
        match field.key.as_str() {
            "path" => {
                has_path = true;
                process.path_pos = value.pos;
                process.path = reader.value(value, &path, "/usr/bin/curl", String::read)?;
            }
            "args" => process.args = read_args(reader, value, &path),
            "environment" => process.environment = read_environment(reader, value, &path),
            "start_time" => {
                let time = reader.value(value, &path, "10 s", SimDuration::read)?;
                process.start_time = (time, value.pos);
            }
            "shutdown_time" => {
                let time = reader.value(value, &path, "10 s", Option::<SimDuration>::read)?;
                process.shutdown_time = time.map(|t| (t, value.pos));
            }
            "shutdown_signal" => {
                process.shutdown_signal = reader.value(value, &path, "SIGTERM", |s| Signal::parse(s.text))?;
            }
            "kill_at_call" => process.kill_at_call = Some(reader.value(value, &path, "1000", read_call)?),
            "user" => {
                let user = reader.value(value, &path, "postgres", nullable(|s| Ok(s.text.to_owned())))?;
                process.user = user.map(|user| (user, value.pos));
            }
            _ => process.expected_final_state = read_final_state(reader, value, &path)?,
        }
    }
    if !has_path && reader.problem_count() == before {
        reader.problem(node.pos, &key, "'path' is missing; add it, such as 'path: /usr/bin/curl'");
    }
    has_path.then_some(process)
}

fn read_call(scalar: Scalar<'_>) -> Result<u64, String> {
    let call = scalar.text.parse().ok().filter(|call| *call > 0);
    call.ok_or_else(|| format!("'{}' is not the number of a call; write a whole number from 1 on", scalar.text))
}

/// Programs receive arguments and variables as C strings.
const ENDS_EARLY: &str = "a program's arguments and variables end at the character NUL; leave it out";

fn without_end(scalar: Scalar<'_>) -> Result<String, String> {
    if scalar.text.contains('\0') { Err(ENDS_EARLY.into()) } else { Ok(scalar.text.to_owned()) }
}

fn read_args(reader: &mut Reader, node: &Node, path: &str) -> Vec<String> {
    match &node.value {
        Value::Seq(items) => items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| {
                let item_path = format!("{path}[{i}]");
                reader.value(item, &item_path, "--verbose", without_end)
            })
            .collect(),
        Value::Scalar { .. } if node.is_null() => Vec::new(),
        Value::Scalar { text, .. } if text.contains('\0') => {
            reader.problem(node.pos, path, ENDS_EARLY.to_owned());
            Vec::new()
        }
        Value::Scalar { text, .. } => match shell::split(text.trim()) {
            Ok(args) => args,
            Err(message) => {
                reader.problem(node.pos, path, message);
                Vec::new()
            }
        },
        Value::Map(_) => {
            reader.problem(node.pos, path, "expected a command line or a list of arguments, not a mapping");
            Vec::new()
        }
    }
}

/// Variables sorted by name.
fn read_environment(reader: &mut Reader, node: &Node, path: &str) -> Vec<(String, String)> {
    let Value::Map(entries) = &node.value else {
        let empty = node.is_null() || matches!(&node.value, Value::Scalar { text, .. } if text.is_empty());
        if !empty {
            let message = format!("expected a mapping, such as '{{NAME: value}}', not {}", node.describe());
            reader.problem(node.pos, path, message);
        }
        return Vec::new();
    };
    let mut variables = Vec::new();
    for entry in entries {
        let variable = join(path, &entry.key);
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            reader.problem(entry.pos, &variable, "a variable's name must not be empty nor contain '='");
        }
        if let Some(text) = reader.value(&entry.value, &variable, "1", without_end) {
            variables.push((entry.key.clone(), text));
        }
    }
    variables.sort();
    variables
}

fn read_final_state(reader: &mut Reader, node: &Node, path: &str) -> Option<FinalState> {
    const FORMS: &str = "use {exited: 0}, {signaled: SIGKILL} or running";
    match &node.value {
        Value::Scalar { text, .. } if text == "running" => Some(FinalState::Running),
        Value::Map(entries) if entries.len() == 1 && matches!(entries[0].key.as_str(), "exited" | "signaled") => {
            let entry = &entries[0];
            let path = join(path, &entry.key);
            if entry.key == "signaled" {
                return reader
                    .value(&entry.value, &path, "SIGKILL", |s| Signal::parse(s.text))
                    .map(FinalState::Signaled);
            }
            // A program's status has eight bits.
            let read = |s: Scalar<'_>| {
                let status = s.text.parse::<u8>().map(i32::from);
                status.map_err(|_| format!("'{}' is not an exit status; write a whole number from 0 to 255", s.text))
            };
            reader.value(&entry.value, &path, "0", read).map(FinalState::Exited)
        }
        _ => {
            reader.problem(node.pos, path, format!("{} is no final state; {FORMS}", node.describe()));
            None
        }
    }
}
