//! The programs that a Tor network needs, found where they usually are.

use crate::cli::input::SYSTEM_FOLDERS;
use std::path::{Path, PathBuf};
use tornet::{Error, Instead, Programs, Replacement, Spec, Transport};

/// What the traffic program is called, beside Gnomon or in PATH.
const TRAFFIC: &str = "gnomon-traffic";
/// And relays and clients that are not tor.
const RELAY: &str = "gnomon-relay";
const CLIENT: &str = "gnomon-onion-client";

/// How experiments name the programs, or the one message that says what is missing. Programs that a run will find by their names are
/// named so, since the experiment may be run on another machine. `tor` and `arti` are the user's: a path, or a name to look up.
pub fn of(spec: &Spec, tor: Option<&Path>, arti: Option<&Path>) -> Result<Programs, Error> {
    let has = |kind: &[Replacement], program| kind.iter().any(|one| one.program == program);
    let is_ours = |kind: &[Replacement]| has(kind, Instead::Gnomon);
    let is_needed = [true, is_ours(&spec.relay_kind), is_ours(&spec.client_kind)];
    for (program, _) in [TRAFFIC, RELAY, CLIENT].into_iter().zip(is_needed).filter(|(_, is_needed)| *is_needed) {
        if beside_gnomon(program).or_else(|| find(program)).is_none() {
            return Err(missing(&format!(
                "{program} is neither beside gnomon nor in PATH; 'make build' leaves it in bin/"
            )));
        }
    }
    let obfs4proxy = match spec.transport {
        // tor itself starts it, and looks nothing up.
        Transport::Obfs4 if spec.relays.bridges > 0 => Some(find("obfs4proxy").ok_or_else(|| {
            missing(
                "obfs4proxy, which bridges need, is not in PATH; install it (Debian: apt install obfs4proxy), or give \
                 --transport plain",
            )
        })?),
        _ => None,
    };
    Ok(Programs {
        tor: find_users(tor.unwrap_or(Path::new("tor")), "--tor", "Debian: apt install tor")?,
        arti: match has(&spec.client_kind, Instead::Arti) {
            false if arti.is_some() => {
                return Err(missing("--arti is for clients that run it; give --client-kind arti, or arti:HOST, too"));
            }
            true => find_users(
                arti.unwrap_or(Path::new("arti")),
                "--arti",
                "'make arti' does, as 'cargo install arti', and says where it is",
            )?,
            false => "arti".into(),
        },
        traffic: TRAFFIC.into(),
        relay: RELAY.into(),
        client: CLIENT.into(),
        obfs4proxy,
    })
}

/// A program that users may have of their own: a name stays one; a path becomes absolute. `how` says how to install it.
fn find_users(program: &Path, option: &str, how: &str) -> Result<PathBuf, Error> {
    let name = program.display();
    if program.components().count() > 1 {
        let absolute = std::path::absolute(program).ok().filter(|path| path.is_file());
        return absolute.ok_or_else(|| missing(&format!("{option} {name}: there is no such program")));
    }
    match find(program) {
        Some(_) => Ok(program.to_path_buf()),
        None => Err(missing(&format!(
            "{name} is neither in PATH nor in /usr/sbin; install it ({how}), or give {option} PROGRAM"
        ))),
    }
}

fn missing(text: &str) -> Error {
    Error::Input(text.to_owned())
}

fn beside_gnomon(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.is_file().then_some(path)
}

/// Looks in PATH and, for those without system folders in it, there.
fn find(name: impl AsRef<Path>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(&name)).find(|path| path.is_file())
}
