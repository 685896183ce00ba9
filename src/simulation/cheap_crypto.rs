//! `experimental.cheap_crypto` in a run: which library guests load, and what they are told.

use scenario::Plan;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The library's name in the run's directory, where it is a link. Guests see that directory at the same place in every run, so that their
/// variables do not depend on where Gnomon lies, nor have what the loader takes for the end of a name.
const LINK: &str = "cheap-crypto.so";

/// Says of the library's link what it is and where to.
pub fn link(plan: &Plan) -> Option<(&'static str, &Path)> {
    Some((LINK, plan.cheap_crypto_library.as_deref()?))
}

/// Adds to a process's variables; `run` is the run's directory as guests see it.
pub fn prepare(environment: &mut Vec<Vec<u8>>, plan: &Plan, run: &Path) {
    if plan.cheap_crypto_library.is_none() {
        return;
    }
    preload(environment, run.join(LINK).as_os_str().as_bytes());
    let replaced = plan.experimental.cheap_crypto.name().unwrap_or_default();
    environment.push(format!("GNOMON_CHEAP_CRYPTO={replaced}").into_bytes());
}

/// Has the loader take `library` after those that the experiment names, ld.so(8).
fn preload(environment: &mut Vec<Vec<u8>>, library: &[u8]) {
    const VARIABLE: &[u8] = b"LD_PRELOAD=";
    match environment.iter_mut().find(|entry| entry.starts_with(VARIABLE)) {
        Some(entry) => {
            if entry.len() > VARIABLE.len() {
                entry.push(b':');
            }
            entry.extend(library);
        }
        None => environment.push([VARIABLE, library].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_comes_first() {
        let of = |given: &[&str]| {
            let mut environment: Vec<Vec<u8>> = given.iter().map(|entry| entry.as_bytes().to_vec()).collect();
            preload(&mut environment, b"/x.so");
            environment.into_iter().map(|entry| String::from_utf8(entry).expect("text")).collect::<Vec<_>>()
        };
        assert_eq!(of(&["A=1"]), ["A=1", "LD_PRELOAD=/x.so"]);
        assert_eq!(of(&["LD_PRELOAD=a.so b.so", "A=1"]), ["LD_PRELOAD=a.so b.so:/x.so", "A=1"]);
        assert_eq!(of(&["LD_PRELOAD="]), ["LD_PRELOAD=/x.so"]);
    }
}
