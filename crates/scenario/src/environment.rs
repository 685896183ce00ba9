//! What of the machine a plan depends on: where names of files are looked up. The caller fills it from the process's
//! environment; this crate reads none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where names of files are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What relative paths start from.
    pub current_dir: PathBuf,
    /// What `~/` stands for.
    pub home: Option<PathBuf>,
    /// The directories of `PATH`, in order.
    pub path: Vec<PathBuf>,
    /// The directory of Gnomon itself, where programs that belong to it (gnomon-...) are looked for before `PATH`, and libraries.
    pub own: Option<PathBuf>,
    /// Directories that are looked in after `PATH`: where servers are, which is not in every user's.
    pub system: Vec<PathBuf>,
    /// How many threads may compute routes; the plan does not depend on it.
    pub routing_threads: usize,
}

impl Environment {
    /// A path as written in an experiment: `~/` stands for the home directory, and nothing else is expanded.
    pub fn expand(&self, written: &str) -> PathBuf {
        match (written.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(written),
        }
    }

    /// The same, and relative paths start from the current directory.
    pub fn absolute(&self, written: &str) -> PathBuf {
        self.current_dir.join(self.expand(written))
    }

    /// Finds an executable: a bare name in `PATH` and the system's directories, anything with a slash as a path. The result is absolute, and leads
    /// through the symbolic links that were named: a script sees by which name it was called. The error says what was tried.
    pub fn find_executable(&self, written: &str) -> Result<PathBuf, String> {
        if written.is_empty() {
            return Err("the path is empty; name a program, such as /usr/bin/curl".into());
        }
        if !written.contains('/') {
            let own = self.own.iter().filter(|_| written.starts_with("gnomon-"));
            let places = own.chain(&self.path).chain(&self.system);
            let found = places.map(|dir| self.current_dir.join(dir).join(written)).find(|p| is_executable(p));
            return found.ok_or_else(|| {
                format!("no program '{written}' in PATH ({}); install it, or give its full path", self.show_path())
            });
        }
        let path = self.absolute(written);
        let shown = path.display();
        match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(format!("'{shown}' does not exist; install or build it, or correct the path"))
            }
            Err(e) => Err(format!("'{shown}' cannot be read: {e}")),
            Ok(meta) if !meta.is_file() => Err(format!("'{shown}' is not a file; name a program")),
            Ok(_) if !is_executable(&path) => Err(format!("'{shown}' is not executable; run 'chmod +x {shown}'")),
            Ok(_) => Ok(path),
        }
    }

    /// Finds a library of Gnomon's, which lies beside it; absolute. The error says what to do.
    pub fn find_own_library(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.own.as_ref().map(|own| self.current_dir.join(own).join(name));
        path.filter(|path| path.is_file()).ok_or_else(|| {
            let place = self.own.as_ref().map_or_else(String::new, |own| format!(" ({})", own.display()));
            format!(
                "needs {name} beside gnomon{place}, and it is not there; 'make build' leaves it in bin/, \
                     'cargo build --release -p cheap-crypto' in the folder of built programs"
            )
        })
    }

    fn show_path(&self) -> String {
        match self.path.as_slice() {
            [] => "which is empty".into(),
            dirs => dirs.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(":"),
        }
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            current_dir: "/usr".into(),
            home: Some("/bin/..".into()),
            path: vec!["/nonexistent".into(), "/bin".into()],
            routing_threads: 1,
            ..Environment::default()
        }
    }

    #[test]
    fn programs_are_found_as_a_shell_finds_them() {
        let found = ["/bin/sh", "/bin/sh", "/usr/bin/sh", "/usr/bin/sh", "/bin/../bin/sh"];
        for (written, found) in ["sh", "/bin/sh", "bin/sh", "./bin/sh", "~/bin/sh"].iter().zip(found) {
            assert_eq!(environment().find_executable(written), Ok(found.into()), "{written}");
        }
    }

    #[test]
    fn what_is_no_program_is_explained() {
        let error = |written: &str| environment().find_executable(written).unwrap_err();
        assert_eq!(
            error("nope-x"),
            "no program 'nope-x' in PATH (/nonexistent:/bin); install it, or give its full path"
        );
        assert_eq!(error("bin/nope-x"), "'/usr/bin/nope-x' does not exist; install or build it, or correct the path");
        assert_eq!(error("/usr"), "'/usr' is not a file; name a program");
        assert_eq!(error("/etc/passwd"), "'/etc/passwd' is not executable; run 'chmod +x /etc/passwd'");
        assert_eq!(error(""), "the path is empty; name a program, such as /usr/bin/curl");
    }
}
