//! Runs an experiment's programs on this machine's own kernel, in real time: each host in a network namespace of its own, all on one bridge.
//!
//! It writes a script for sh, which `unshare` starts; when that ends, so does every process of it. Lines, latencies and losses of the experiment do not
//! exist there, nor do its users.

use crate::cli::input;
use scenario::{HostPlan, Overrides, Plan, ProcessPlan};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// What has to be there besides sh.
const TOOLS: [&str; 5] = ["unshare", "ip", "mount", "cp", "env"];

/// A prepared run: `unshare` and its arguments, and the file that will hold the seconds since 1970 at which it began.
pub struct Native {
    pub arguments: Vec<String>,
    pub began: PathBuf,
}

/// Writes the script of the experiment in `folder`, whose data go to `data`.
pub fn prepare(folder: &Path, file: &str, data: &Path) -> Result<Native, String> {
    if let Some(tool) = TOOLS.iter().find(|tool| !is_there(tool)) {
        return Err(format!("'{tool}' is missing, which sets up networks of processes (Debian: iproute2, util-linux)"));
    }
    let plan = input::plan_in(folder, Path::new(file), &Overrides::default())?;
    let own = data.join("native");
    let wrong = |error: std::io::Error| format!("'{}': {error}", own.display());
    fs::create_dir_all(&own).map_err(wrong)?;
    let mut names = String::from("127.0.0.1 localhost\n");
    for host in &plan.hosts {
        let _ = writeln!(names, "{} {}", host.address, host.name);
    }
    let script = own.join("script");
    fs::write(own.join("hosts"), names).and_then(|()| fs::write(&script, text(&plan, data, &own))).map_err(wrong)?;
    let mut arguments: Vec<String> =
        ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"].map(str::to_owned).to_vec();
    if !nix::unistd::geteuid().is_root() {
        arguments.extend(["--user", "--map-root-user"].map(str::to_owned));
    }
    arguments.extend(["sh".to_owned(), script.display().to_string()]);
    Ok(Native { arguments, began: own.join("began") })
}

fn is_there(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(input::SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(tool)).any(|file| file.is_file())
}

/// A word that sh takes as it is.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

/// The script. Hosts wait until all are connected.
fn text(plan: &Plan, data: &Path, own: &Path) -> String {
    let mut text = format!("set -e\nexport PATH=\"$PATH:{}\"\n", input::SYSTEM_FOLDERS.join(":"));
    let own = path(own);
    if let Some(template) = &plan.template_directory {
        let _ = writeln!(text, "cp -r {}/. {}", path(template), path(data));
    }
    let _ = writeln!(
        text,
        "mount --bind {own}/hosts /etc/hosts\nip link set lo up\nip link add br0 type bridge\nip link set br0 up"
    );
    text += "ulimit -n \"$(ulimit -Hn)\"\n";
    for (number, host) in plan.hosts.iter().enumerate() {
        let inside = inside(host, &data.join("hosts").join(&host.name), &own);
        let _ = writeln!(text, "unshare --net sh -c {} {number} &", quoted(&inside));
        let _ = writeln!(text, "process=$!\nwhile [ ! -e {own}/{number} ]; do sleep 0.02; done");
        let _ = writeln!(
            text,
            "ip link add v{number} type veth peer name eth0 netns $process\nip link set v{number} master br0\nip link set v{number} up"
        );
    }
    let _ = writeln!(text, "date +%s.%N > {own}/began\n: > {own}/ready");
    let _ = writeln!(text, "sleep {}", plan.general.stop_time.as_secs_f64());
    text
}

/// What sh does in a host's network; its number is its name.
fn inside(host: &HostPlan, folder: &Path, own: &str) -> String {
    let mut text = format!(": > {own}/$0\nwhile [ ! -e {own}/ready ]; do sleep 0.02; done\nip link set lo up\n");
    let _ = writeln!(
        text,
        "ip address add {}/32 dev eth0\nip link set eth0 up\nip route add default dev eth0",
        host.address
    );
    text += "echo '1024 65535' > /proc/sys/net/ipv4/ip_local_port_range\n";
    let _ = writeln!(text, "mkdir -p {0}\ncd {0}", path(folder));
    for (number, process) in host.processes.iter().enumerate() {
        let _ = writeln!(text, "({}) &", started(process, number));
    }
    text + "wait\n"
}

fn started(process: &ProcessPlan, number: usize) -> String {
    let environment =
        process.environment.iter().map(|(name, value)| format!(" {}", quoted(&format!("{name}={value}"))));
    let arguments = process.argv.iter().skip(1).map(|argument| format!(" {}", quoted(argument)));
    let output = quoted(&format!("{}.{number}", process.name));
    format!(
        "sleep {}; exec env -i \"PATH=$PATH\" \"HOME=$PWD\"{} {}{} < /dev/null > {output}.stdout 2> {output}.stderr",
        process.start_time.as_nanos() as f64 / 1e9,
        environment.collect::<String>(),
        path(&process.executable),
        arguments.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole() {
        assert_eq!(quoted("it's $HOME"), "'it'\\''s $HOME'");
    }

    #[test]
    fn hosts_have_an_address_a_folder_and_their_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let yaml = "general: { stop_time: 90 s }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n  a:\n    network_node_id: 0\n    ip_addr: 11.0.0.9\n    \
                    processes:\n    - { path: sleep, args: [\"it's 1\"], start_time: 1.5 s, environment: { A: b c } }\n";
        fs::write(folder.path().join("a.yaml"), yaml).expect("a file");
        let native = prepare(folder.path(), "a.yaml", &folder.path().join("data")).expect("a script");
        let script = fs::read_to_string(native.arguments.last().expect("it is last")).expect("a script");
        for part in
            ["ip address add 11.0.0.9/32 dev eth0", "sleep 1.5; exec env -i", "A=b c", "hosts/a", "\nsleep 90\n"]
        {
            assert!(script.contains(part), "{part}: {script}");
        }
        assert!(native.began.ends_with("data/native/began"));
        let names = fs::read_to_string(folder.path().join("data/native/hosts")).expect("names");
        assert!(names.contains("11.0.0.9 a\n"), "{names}");
    }
}
