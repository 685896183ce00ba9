//! The programs that a Tor network needs, found where they usually are.

use std::path::PathBuf;
use tornet::{Error, Programs, Spec, Transport};

/// What the traffic program is called, beside Gnomon or in PATH.
const TRAFFIC: &str = "gnomon-traffic";
/// Where distributions put servers, which is not in every user's PATH.
const SYSTEM_FOLDERS: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"];

/// The programs as absolute paths, or the one message that says what is missing.
pub fn of(spec: &Spec) -> Result<Programs, Error> {
    let tor = find("tor")
        .ok_or_else(|| missing("tor is neither in PATH nor in /usr/sbin; install it (Debian: apt install tor)"))?;
    let traffic = beside_gnomon(TRAFFIC).or_else(|| find(TRAFFIC)).ok_or_else(|| {
        missing(&format!("{TRAFFIC} is neither beside gnomon nor in PATH; 'make build' leaves both in bin/"))
    })?;
    let obfs4proxy = match spec.transport {
        Transport::Obfs4 if spec.relays.bridges > 0 => Some(find("obfs4proxy").ok_or_else(|| {
            missing("obfs4proxy, which bridges need, is not in PATH; install it (Debian: apt install obfs4proxy), or give --transport plain")
        })?),
        _ => None,
    };
    Ok(Programs { tor, traffic, obfs4proxy })
}

fn missing(text: &str) -> Error {
    Error::Input(text.to_owned())
}

fn beside_gnomon(name: &str) -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(name);
    path.is_file().then_some(path)
}

/// Looks in PATH and, for those without system folders in it, there.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    folders.filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(|path| path.is_file())
}
