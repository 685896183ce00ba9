//! Showing a plan: as `processed-config.yaml`, which reads back to the same plan, and as a summary for people.

use crate::options::Section;
use crate::plan::{FinalState, GraphSource, HostPlan, Plan, ProcessPlan};
use crate::yaml::{block, quoted};
use base::quantity::{exact_bandwidth, exact_duration};
use base::{SimDuration, SimTime};
use std::fmt::Write;

impl Plan {
    /// The complete experiment with every option, address and bandwidth resolved. Reads back to an equal plan in the same
    /// environment.
    pub fn processed_config_yaml(&self) -> String {
        let mut out = String::new();
        write_section(&mut out, "general", &self.general);
        write_section(&mut out, "network", &self.network);
        out.push_str("  graph:\n");
        match &self.graph.source {
            GraphSource::OneGbitSwitch => out.push_str("    type: 1_gbit_switch\n"),
            GraphSource::Inline(text) => line(&mut out, 4, &format!("type: gml\n    inline: {}", block(text, 6, 4))),
            GraphSource::File { path, xz } => {
                let compression = if *xz { "xz" } else { "null" };
                line(&mut out, 4, "type: gml\n    file:");
                line(&mut out, 6, &format!("path: {}\n      compression: {compression}", quoted(path)));
            }
        }
        write_section(&mut out, "experimental", &self.experimental);
        write_section(&mut out, "host_option_defaults", &self.host_option_defaults);
        out.push_str("hosts:\n");
        for host in &self.hosts {
            write_host(&mut out, host);
        }
        out
    }

    /// What will be run, for people: the experiment, its network, its hosts with their processes, and what has no effect.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        let processes: usize = self.hosts.iter().map(|h| h.processes.len()).sum();
        let stop = exact_duration(self.general.stop_time);
        line(
            &mut out,
            0,
            &format!("Simulates {stop} with seed {}, writes to {}", self.general.seed, self.data_directory.display()),
        );
        if let Some(template) = &self.template_directory {
            line(&mut out, 0, &format!("Copies {} there first", template.display()));
        }
        line(&mut out, 0, &format!("Network: {}", self.explain_network()));
        line(&mut out, 0, &format!("Hosts: {}, processes: {processes}", self.hosts.len()));
        for host in &self.hosts {
            let (down, up) = (exact_bandwidth(host.bandwidth_down), exact_bandwidth(host.bandwidth_up));
            let HostPlan { name, address, network_node_id, .. } = host;
            line(&mut out, 2, &format!("{name}  {address}  node {network_node_id}  {down} down, {up} up"));
            for process in &host.processes {
                line(&mut out, 4, &explain_process(process));
            }
        }
        for notice in &self.notices {
            line(&mut out, 0, &format!("Notice: {notice}"));
        }
        out
    }

    fn explain_network(&self) -> String {
        let graph = &self.graph;
        let direction = if graph.directed { "directed" } else { "undirected" };
        let mut text = format!("{} nodes, {} {direction} edges", graph.nodes, graph.edges);
        match self.topology.min_latency() {
            SimDuration::MAX => text += "; one host, so nothing to send to",
            latency => _ = write!(text, "; smallest latency between hosts {}", exact_duration(latency)),
        }
        if !self.general.bootstrap_end_time.is_zero() {
            let end = exact_duration(self.general.bootstrap_end_time);
            _ = write!(text, "; no loss and no bandwidth limits in the first {end}");
        }
        text
    }
}

fn line(out: &mut String, indent: usize, text: &str) {
    _ = writeln!(out, "{:indent$}{text}", "");
}

fn time(t: SimTime) -> String {
    exact_duration(t.saturating_since(SimTime::ZERO))
}

fn write_section<S: Section>(out: &mut String, name: &str, section: &S) {
    line(out, 0, &format!("{name}:"));
    for (key, value) in section.entries() {
        line(out, 2, &format!("{key}: {value}"));
    }
}

fn write_host(out: &mut String, host: &HostPlan) {
    line(out, 2, &format!("{}:", quoted(&host.name)));
    line(out, 4, &format!("network_node_id: {}", host.network_node_id));
    line(out, 4, &format!("ip_addr: {}", host.address));
    if let Some(address6) = host.address6 {
        line(out, 4, &format!("ip6_addr: '{address6}'"));
    }
    line(out, 4, &format!("bandwidth_down: {}", exact_bandwidth(host.bandwidth_down)));
    line(out, 4, &format!("bandwidth_up: {}", exact_bandwidth(host.bandwidth_up)));
    line(out, 4, "host_options:");
    for (key, value) in host.options.entries() {
        line(out, 6, &format!("{key}: {value}"));
    }
    if host.processes.is_empty() {
        line(out, 4, "processes: []");
        return;
    }
    line(out, 4, "processes:");
    for process in &host.processes {
        write_process(out, process);
    }
}

fn write_process(out: &mut String, process: &ProcessPlan) {
    let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
    line(out, 4, &format!("- path: {}", quoted(&process.path)));
    line(out, 6, &format!("args: [{}]", list(&mut process.argv[1..].iter().map(|a| quoted(a)))));
    let variables = list(&mut process.environment.iter().map(|(k, v)| format!("{}: {}", quoted(k), quoted(v))));
    line(out, 6, &format!("environment: {{{variables}}}"));
    line(out, 6, &format!("expected_final_state: {}", process.expected_final_state));
    if let Some(call) = process.kill_at_call {
        line(out, 6, &format!("kill_at_call: {call}"));
    }
    line(out, 6, &format!("shutdown_signal: {}", process.shutdown_signal));
    let shutdown = process.shutdown_time.map_or_else(|| "null".into(), time);
    line(out, 6, &format!("shutdown_time: {shutdown}"));
    line(out, 6, &format!("start_time: {}", time(process.start_time)));
    if let Some(user) = &process.user {
        line(out, 6, &format!("user: {}", quoted(&user.written)));
    }
}

fn explain_process(process: &ProcessPlan) -> String {
    let mut text = format!("{}: {}", time(process.start_time), process.executable.display());
    for arg in &process.argv[1..] {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        let bare = !arg.is_empty() && arg.chars().all(plain);
        _ = if bare { write!(text, " {arg}") } else { write!(text, " '{}'", arg.replace('\'', "'\\''")) };
    }
    if let Some(user) = &process.user {
        _ = write!(text, "; as {}", user.name);
    }
    if let Some(shutdown) = process.shutdown_time {
        _ = write!(text, "; {} at {}", process.shutdown_signal, time(shutdown));
    }
    if let Some(call) = process.kill_at_call {
        _ = write!(text, "; killed at call {call}");
    }
    if process.expected_final_state != FinalState::Exited(0) {
        _ = write!(text, "; ends as {}", process.expected_final_state);
    }
    text
}
