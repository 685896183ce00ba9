//! From an experiment file to a plan: read the YAML, apply the command line, check values, read the graph, attach hosts.

use crate::address;
use crate::environment::Environment;
use crate::error::{Place, ScenarioError};
use crate::graph_source::{GraphText, read_graph};
use crate::host::{HostSpec, ProcessSpec, is_old_address, read_hosts};
use crate::options::{Experimental, General, HostOptions, NetworkOptions, Role, Section};
use crate::overrides::{Overrides, flag_place};
use crate::plan::{GraphPlan, HostPlan, Plan, ProcessPlan};
use crate::reader::{Reader, join};
use crate::setting::Scalar;
use crate::suggest::remedy;
use crate::users;
use crate::yaml::{self, Node, Pos, Value};
use base::quantity::exact_duration;
use base::{ByteSize, HostId, SimDuration, SimTime, input};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use topology::{Attachment, Graph, Routing, Rules, Topology, TopologyError};

/// An experiment of 60,000 hosts with all their programs has some 100 MB.
pub const LONGEST_EXPERIMENT: ByteSize = ByteSize(256 << 20);

/// What `experimental.cheap_crypto` needs, beside Gnomon.
const CHEAP_CRYPTO_LIBRARY: &str = "libgnomon_cheap_crypto.so";

/// Reads an experiment file. Its name in messages is the path as given.
pub fn load_file(path: &Path, environment: &Environment, overrides: &Overrides) -> Result<Plan, ScenarioError> {
    let name = path.display().to_string();
    let whole = || Place::File { name: name.as_str().into(), line: 0, column: 0 };
    let text = input::text(&environment.current_dir.join(path), LONGEST_EXPERIMENT).map_err(|error| {
        let message = match error {
            error if error.is_not_found() => "this experiment file does not exist; correct the path".into(),
            error => error.to_string(),
        };
        ScenarioError::one(whole(), "", message)
    })?;
    load(&name, &text, environment, overrides)
}

/// Reads an experiment from its text; `name` is what messages call it.
pub fn load(name: &str, text: &str, environment: &Environment, overrides: &Overrides) -> Result<Plan, ScenarioError> {
    let mut reader = Reader::new(name);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let root = match yaml::parse(text) {
        Ok(root) => root,
        Err(e) => {
            reader.problem(e.pos, "", e.message);
            return Err(reader.into_error());
        }
    };
    let parts = Parts::read(&mut reader, &root, environment, overrides);
    parts.validate(&mut reader);
    parts.into_plan(reader, environment)
}

/// The experiment as read, before its parts are put together.
struct Parts {
    general: General,
    network: NetworkOptions,
    experimental: Experimental,
    defaults: HostOptions,
    graph: Option<GraphText>,
    hosts: Vec<HostSpec>,
    general_pos: Pos,
}

impl Parts {
    fn read(reader: &mut Reader, root: &Node, environment: &Environment, overrides: &Overrides) -> Parts {
        let top = top_level(reader, root);
        let mut parts = Parts {
            general: General::defaults(),
            network: NetworkOptions::defaults(),
            experimental: Experimental::defaults(),
            defaults: HostOptions::defaults(),
            graph: None,
            hosts: Vec::new(),
            general_pos: top.get("general").map_or(root.pos, |(pos, _)| *pos),
        };
        let section = |name: &str| top.get(name).map(|(_, node)| *node).filter(|node| !node.is_null());
        if let Some(node) = section("general") {
            reader.section(node, "general", &mut parts.general, &[]);
        }
        if let Some(node) = section("experimental") {
            reader.section(node, "experimental", &mut parts.experimental, &[]);
        }
        if let Some(node) = section("host_option_defaults") {
            reader.section(node, "host_option_defaults", &mut parts.defaults, &[]);
        }
        if let Some(node) = section("network") {
            let graph = reader.section(node, "network", &mut parts.network, &["graph"]);
            match graph.first() {
                Some(entry) => parts.graph = read_graph(reader, &entry.value, environment),
                None => reader.problem(
                    node.pos,
                    "network",
                    "'graph' is missing; add 'graph: {type: 1_gbit_switch}' or your own",
                ),
            }
        }
        parts.apply(reader, overrides);
        if let Some(node) = section("hosts") {
            parts.hosts = read_hosts(reader, node, &parts.defaults);
        }
        parts
    }

    fn apply(&mut self, reader: &mut Reader, overrides: &Overrides) {
        for (option, value) in &overrides.values {
            let scalar = Scalar { text: value, plain: true };
            let result = match option.section {
                "general" => self.general.set(option.key, scalar),
                "network" => self.network.set(option.key, scalar),
                "experimental" => self.experimental.set(option.key, scalar),
                _ => self.defaults.set(option.key, scalar),
            };
            match result {
                Ok(()) => reader.set_option_place(option.path(), flag_place(option)),
                Err(message) => reader.problem_at(flag_place(option), option.path(), message),
            }
        }
    }

    /// What one value alone does not show.
    fn validate(&self, reader: &mut Reader) {
        const STOP: &str = "general.stop_time";
        if !reader.is_set(STOP) {
            if reader.is_clean() {
                reader.problem(self.general_pos, STOP, "'stop_time' is missing; add it, such as 'stop_time: 10 min'");
            }
        } else if self.general.stop_time.is_zero() {
            let place = reader.option_place(STOP, self.general_pos);
            reader.problem_at(place, STOP, "must be more than 0, such as \"10 min\"");
        }
        let no_smaller = [
            ("general.heartbeat_interval", self.general.heartbeat_interval, SimDuration::from_nanos(1)),
            (
                "experimental.native_preemption_native_interval",
                Some(self.experimental.native_preemption_native_interval),
                SimDuration::from_micros(1),
            ),
            ("experimental.compute_budget", self.experimental.compute_budget, SimDuration::from_millis(1)),
        ];
        for (path, value, least) in no_smaller {
            if value.is_some_and(|v| v < least) {
                let place = reader.option_place(path, self.general_pos);
                reader.problem_at(place, path, format!("must be at least {}", exact_duration(least)));
            }
        }
        self.check_address_space(reader);
    }

    /// Hosts that ask for addresses share what there is with those that do not, which have a block each.
    fn check_address_space(&self, reader: &mut Reader) {
        const ALL: u64 = 64 << 40;
        const BLOCK: u64 = 256 << 20;
        let mut left = ALL.saturating_sub(self.hosts.len() as u64 * BLOCK);
        for host in &self.hosts {
            let Some(asked) = host.options.address_space else { continue };
            let asked = asked.bytes().next_multiple_of(BLOCK);
            let Some(rest) = left.checked_sub(asked) else {
                let key = join(&join("hosts", &host.name), "host_options.address_space");
                let message = format!(
                    "{asked} B are more than the {left} B that hosts before it leave of the 64 TiB for all; ask for less"
                );
                return reader.problem(host.pos, key, message);
            };
            left = rest;
        }
    }

    fn into_plan(self, mut reader: Reader, environment: &Environment) -> Result<Plan, ScenarioError> {
        let graph = self.graph.as_ref().and_then(|g| parse_graph(&mut reader, g));
        let processes = resolve_processes(&mut reader, &self.hosts, self.general.stop_time, environment);
        let addresses = address::assign(&mut reader, &self.hosts);
        let addresses6 = address::assign_v6(&mut reader, &self.hosts, &addresses, self.network.ipv6);
        let addresses = addresses.into_iter().zip(addresses6).collect();
        let template_directory = self.template_directory(&mut reader, environment);
        let cheap_crypto_library = self.cheap_crypto_library(&mut reader, environment);
        let cpu_model = self.cpu_model(&mut reader, environment);
        let topology = match &graph {
            Some(graph) if reader.is_clean() => self.attach(&mut reader, graph, environment),
            _ => None,
        };
        let (Some(graph), Some(topology), Some(text)) = (graph, topology, self.graph.as_ref()) else {
            return Err(reader.into_error());
        };
        let graph = GraphPlan {
            source: text.source.clone(),
            nodes: graph.nodes.len(),
            edges: graph.edges.len(),
            directed: graph.directed,
        };
        Ok(Plan {
            notices: self.notices(),
            hosts: host_plans(self.hosts, addresses, processes, &topology),
            graph,
            topology,
            cheap_crypto_library,
            cpu_model,
            data_directory: environment.absolute(&self.general.data_directory),
            template_directory,
            data_directory_place: reader.option_place("general.data_directory", self.general_pos),
            general: self.general,
            network: self.network,
            experimental: self.experimental,
            host_option_defaults: self.defaults,
        })
    }

    fn template_directory(&self, reader: &mut Reader, environment: &Environment) -> Option<PathBuf> {
        const KEY: &str = "general.template_directory";
        let path = environment.absolute(self.general.template_directory.as_ref()?);
        if !path.is_dir() {
            let why = if path.exists() { "is not a directory" } else { "does not exist" };
            let message = format!("'{}' {why}; name a directory that can be copied", path.display());
            let place = reader.option_place(KEY, self.general_pos);
            reader.problem_at(place, KEY, message);
        }
        Some(path)
    }

    fn cpu_model(&self, reader: &mut Reader, environment: &Environment) -> Option<PathBuf> {
        const KEY: &str = "experimental.cpu_model";
        let path = environment.absolute(self.experimental.cpu_model.as_ref()?);
        let measured = self.hosts.iter().find(|host| host.options.cpu_speed.is_some());
        let problem = match measured {
            Some(host) => Some(format!(
                "host '{}' has a cpu_speed, which takes computing as this machine measures it: leave out cpu_speed, or cpu_model",
                host.name
            )),
            None if !path.is_file() => Some(format!(
                "there is no file '{}'; 'gnomon profile --costs FILE RUN' writes one of a run with --profile=costs",
                path.display()
            )),
            None => None,
        };
        if let Some(problem) = problem {
            let place = reader.option_place(KEY, self.general_pos);
            reader.problem_at(place, KEY, problem);
        }
        Some(path)
    }

    fn cheap_crypto_library(&self, reader: &mut Reader, environment: &Environment) -> Option<PathBuf> {
        const KEY: &str = "experimental.cheap_crypto";
        self.experimental.cheap_crypto.name()?;
        match environment.find_own_library(CHEAP_CRYPTO_LIBRARY) {
            Ok(path) => Some(path),
            Err(message) => {
                let place = reader.option_place(KEY, self.general_pos);
                reader.problem_at(place, KEY, message);
                None
            }
        }
    }

    fn attach(&self, reader: &mut Reader, graph: &Graph, environment: &Environment) -> Option<Topology> {
        let attachment = |host: &HostSpec| Attachment {
            node_id: host.network_node_id,
            bandwidth_up: host.bandwidth_up,
            bandwidth_down: host.bandwidth_down,
        };
        let attachments: Vec<Attachment> = self.hosts.iter().map(attachment).collect();
        let rules = Rules {
            model: self.experimental.network_model,
            routing: if self.network.use_shortest_path { Routing::ShortestPath } else { Routing::DirectEdges },
            bootstrap_end: SimTime::ZERO + self.general.bootstrap_end_time,
            seed: u64::from(self.general.seed),
            threads: environment.routing_threads.max(1),
        };
        match Topology::build(graph, &attachments, rules) {
            Ok(topology) => Some(topology),
            Err(error) => {
                self.report_topology(reader, &error);
                None
            }
        }
    }

    fn report_topology(&self, reader: &mut Reader, error: &TopologyError) {
        let key = |host: &HostSpec, field: &str| join(&join("hosts", &host.name), field);
        match *error {
            TopologyError::UnknownNode { host, .. } => {
                let host = &self.hosts[host];
                reader.problem(host.node_id_pos, key(host, "network_node_id"), error.to_string());
            }
            TopologyError::NoBandwidth { host, .. } => {
                let host = &self.hosts[host];
                reader.problem(host.pos, join("hosts", &host.name), error.to_string());
            }
            TopologyError::NoRoute { from, to, .. } => {
                let on = |node: u32| self.hosts.iter().filter(move |h| h.network_node_id == node);
                let Some(target) = on(to).next_back() else { return };
                let other = on(from).next().map_or("", |h| h.name.as_str());
                let message = format!("host '{other}' cannot send to host '{}': {error}", target.name);
                reader.problem(target.node_id_pos, key(target, "network_node_id"), message);
            }
            TopologyError::ParallelEdges { line, .. } => self.report_graph(reader, line, 1, error),
            TopologyError::Gml { line, column, .. } => self.report_graph(reader, line, column, error),
        }
    }

    fn report_graph(&self, reader: &mut Reader, line: u32, column: u32, error: &TopologyError) {
        if let Some(graph) = &self.graph {
            reader.problem_at(graph.place(reader, line, column), graph.key(), error.to_string());
        }
    }

    /// Options that are set to something else than their default and change nothing, and names that do not resolve.
    fn notices(&self) -> Vec<String> {
        let defaults = Experimental::defaults().entries();
        let options = Experimental::OPTIONS.iter().zip(self.experimental.entries()).zip(defaults);
        let without_effect = options.filter_map(|((option, (_, value)), (_, default))| match option.role {
            Role::NoEffect(why) if value != default => {
                Some(format!("{}: {value} has no effect here: {why}", option.path()))
            }
            _ => None,
        });
        without_effect.chain(self.unresolvable_names()).collect()
    }

    fn unresolvable_names(&self) -> Option<String> {
        let names = || self.hosts.iter().map(|host| host.name.as_str()).filter(|name| is_old_address(name));
        let first = names().next()?;
        Some(format!(
            "hosts.{first}: programs take the name '{first}' for an address and reach the host only by its own \
             ({} such names); a name with a letter resolves",
            names().count()
        ))
    }
}

/// The sections of the file; `x-` extension fields are left out.
fn top_level<'n>(reader: &mut Reader, root: &'n Node) -> BTreeMap<&'n str, (Pos, &'n Node)> {
    const SECTIONS: [&str; 5] = ["general", "network", "experimental", "host_option_defaults", "hosts"];
    let mut sections = BTreeMap::new();
    let Value::Map(entries) = &root.value else {
        reader.problem(root.pos, "", format!("expected the sections {}, not {}", SECTIONS.join(", "), root.describe()));
        return sections;
    };
    for entry in entries.iter().filter(|entry| !entry.key.starts_with("x-")) {
        if SECTIONS.contains(&entry.key.as_str()) {
            sections.insert(entry.key.as_str(), (entry.pos, &*entry.value));
        } else {
            let message = format!("unknown key{}", remedy(&entry.key, SECTIONS.into_iter()));
            reader.problem(entry.pos, &entry.key, message);
        }
    }
    let all_known = reader.is_clean();
    for (name, example) in [
        ("general", "general: {stop_time: 10 min}"),
        ("network", "network: {graph: {type: 1_gbit_switch}}"),
        ("hosts", "hosts: {client: {network_node_id: 0, processes: []}}"),
    ] {
        if all_known && sections.get(name).is_none_or(|(_, node)| node.is_null()) {
            let pos = sections.get(name).map_or(root.pos, |(pos, _)| *pos);
            reader.problem(pos, name, format!("this section is missing or empty; add it, such as '{example}'"));
        }
    }
    sections
}

fn parse_graph(reader: &mut Reader, text: &GraphText) -> Option<Graph> {
    match Graph::parse(&text.text) {
        Ok(graph) => Some(graph),
        Err(TopologyError::Gml { line, column, message }) => {
            reader.problem_at(text.place(reader, line, column), text.key(), message);
            None
        }
        Err(other) => {
            reader.problem_at(text.place(reader, 0, 0), text.key(), other.to_string());
            None
        }
    }
}

/// The processes of every host, with their programs found and their times checked.
fn resolve_processes(
    reader: &mut Reader,
    hosts: &[HostSpec],
    stop_time: SimDuration,
    environment: &Environment,
) -> Vec<Vec<ProcessPlan>> {
    let mut found: BTreeMap<&str, Result<PathBuf, String>> = BTreeMap::new();
    let mut resolve = |process| resolve_process(reader, process, stop_time, environment, &mut found);
    hosts.iter().map(|host| host.processes.iter().map(&mut resolve).collect()).collect()
}

fn resolve_process<'a>(
    reader: &mut Reader,
    process: &'a ProcessSpec,
    stop_time: SimDuration,
    environment: &Environment,
    found: &mut BTreeMap<&'a str, Result<PathBuf, String>>,
) -> ProcessPlan {
    let path = process.path.as_str();
    let executable = match found.entry(path).or_insert_with(|| environment.find_executable(path)) {
        Ok(executable) => executable.clone(),
        Err(message) => {
            reader.problem(process.path_pos, join(&process.key, "path"), message.clone());
            PathBuf::new()
        }
    };
    check_times(reader, process, stop_time);
    let user = process.user.as_ref().and_then(|(written, pos)| match users::find(written) {
        Ok(user) => Some(user),
        Err(message) => {
            reader.problem(*pos, join(&process.key, "user"), message);
            None
        }
    });
    let mut argv = vec![environment.expand(path).to_string_lossy().into_owned()];
    argv.extend(process.args.iter().cloned());
    ProcessPlan {
        path: path.to_owned(),
        name: own_name(&executable),
        executable,
        argv,
        environment: process.environment.clone(),
        start_time: SimTime::ZERO + process.start_time.0,
        shutdown_time: process.shutdown_time.map(|(t, _)| SimTime::ZERO + t),
        shutdown_signal: process.shutdown_signal,
        kill_at_call: process.kill_at_call,
        expected_final_state: process.expected_final_state,
        user,
    }
}

fn own_name(executable: &Path) -> String {
    let file = executable.canonicalize().unwrap_or_else(|_| executable.to_owned());
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn check_times(reader: &mut Reader, process: &ProcessSpec, stop_time: SimDuration) {
    if stop_time.is_zero() {
        return;
    }
    let (start, start_pos) = process.start_time;
    let stop = exact_duration(stop_time);
    if start >= stop_time {
        let message =
            format!("{} is not before general.stop_time ({stop}); start earlier, or stop later", exact_duration(start));
        reader.problem(start_pos, join(&process.key, "start_time"), message);
    }
    if let Some((shutdown, pos)) = process.shutdown_time {
        let key = join(&process.key, "shutdown_time");
        let shown = exact_duration(shutdown);
        if shutdown >= stop_time {
            reader.problem(
                pos,
                key,
                format!("{shown} is not before general.stop_time ({stop}); shut down earlier, or stop later"),
            );
        } else if shutdown <= start {
            let start = exact_duration(start);
            reader.problem(
                pos,
                key,
                format!("{shown} is not after the process's start_time ({start}); shut down later"),
            );
        }
    }
}

fn host_plans(
    hosts: Vec<HostSpec>,
    addresses: Vec<(Ipv4Addr, Option<Ipv6Addr>)>,
    processes: Vec<Vec<ProcessPlan>>,
    topology: &Topology,
) -> Vec<HostPlan> {
    let rows = hosts.into_iter().zip(addresses).zip(processes).enumerate();
    rows.map(|(i, ((host, (address, address6)), processes))| {
        let id = HostId(i as u32);
        let link = topology.link(id);
        HostPlan {
            id,
            name: host.name,
            address,
            address6,
            network_node_id: host.network_node_id,
            bandwidth_down: link.down,
            bandwidth_up: link.up,
            options: host.options,
            processes,
        }
    })
    .collect()
}
