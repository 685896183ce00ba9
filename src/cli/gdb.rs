//! `--gdb`: the whole run under gdb, which stops where one guest begins.
//!
//! Gnomon becomes gdb, with a script that starts Gnomon again, with the same arguments and [`UNDER_GDB`]. So there is nothing to attach to, and
//! the run ends with gdb.

use base::HostId;
use clap::ArgMatches;
use scenario::Plan;
use simkernel::DebugTarget;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The flag of a run that gdb has started.
pub const UNDER_GDB: &str = "under-gdb";

const TEMPLATE: &str = include_str!("gdb.py");

/// The guest that `HOST.PROCESS` names: PROCESS is a program's file name, a process's number, or both with a dot between.
pub fn target(text: &str, plan: &Plan) -> Result<(HostId, DebugTarget), String> {
    let dots = text.match_indices('.').map(|(at, _)| at);
    let host = |at: usize| Some((plan.host_named(&text[..at])?, &text[at + 1..]));
    let Some((host, process)) = dots.filter_map(host).find(|(_, process)| !process.is_empty()) else {
        let hosts: Vec<&str> = plan.hosts.iter().take(5).map(|host| host.name.as_str()).collect();
        return Err(format!(
            "--gdb: '{text}' names no host and process: write HOST.PROGRAM, HOST.PID or HOST.PROGRAM.PID, as the output files are \
             called; hosts: {}",
            hosts.join(", ")
        ));
    };
    let (name, number) = process.rsplit_once('.').unwrap_or(("", process));
    let target = match number.parse() {
        Ok(pid) => DebugTarget { program: (!name.is_empty()).then(|| name.to_owned()), pid: Some(pid) },
        Err(_) => DebugTarget { program: Some(process.to_owned()), pid: None },
    };
    Ok((host.id, target))
}

/// Whether this run is the one that gdb has started.
pub fn is_under_gdb(matches: &ArgMatches) -> bool {
    matches.get_flag(UNDER_GDB)
}

/// Becomes gdb. Returns only if that fails, with the reason.
pub fn start(target: &str) -> String {
    match script(target) {
        Ok(script) => {
            let error = Command::new("gdb").arg("-q").arg("-x").arg(&script).exec();
            let _ = std::fs::remove_file(script);
            format!("--gdb: cannot start gdb: {error}; is it installed?")
        }
        Err(error) => format!("--gdb: cannot prepare gdb's script: {error}"),
    }
}

/// Writes the script, which removes itself when it is read.
fn script(target: &str) -> std::io::Result<std::path::PathBuf> {
    let mut file = tempfile::Builder::new().prefix("gnomon-gdb-").suffix(".py").tempfile()?;
    let program = std::env::current_exe()?;
    let text = TEMPLATE
        .replace("@SCRIPT@", &literal(&file.path().to_string_lossy()))
        .replace("@PROGRAM@", &literal(&program.to_string_lossy()))
        .replace("@ARGUMENTS@", &literal(&arguments(std::env::args_os())))
        .replace("@TARGET@", &literal(target));
    file.write_all(text.as_bytes())?;
    file.keep().map(|(_, path)| path).map_err(|error| error.error)
}

/// A string of Python: JSON's have the same form.
fn literal(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The command line of the run under gdb, for a shell: the flag follows the command's name.
fn arguments(own: impl Iterator<Item = OsString>) -> String {
    let mut words: Vec<String> = own.skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    words.insert(words.len().min(1), format!("--{UNDER_GDB}"));
    let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_under_gdb_has_the_same_arguments_and_a_flag() {
        let own = ["/usr/bin/gnomon", "exec", "--gdb", "./it's", "a b"].map(OsString::from);
        assert_eq!(arguments(own.into_iter()), r"'exec' '--under-gdb' '--gdb' './it'\''s' 'a b'");
    }
}
