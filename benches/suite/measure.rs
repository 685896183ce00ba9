//! Running programs, natively and as guests, and timing them from outside.

use base::wall::WallClock;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compiled test programs, and a folder for what runs leave behind.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
}

const NAMES: [&str; 10] = [
    "getppid_loop",
    "pipe_loop",
    "futex_pingpong",
    "pipe_pingpong",
    "minimal",
    "minimal_pause",
    "alloc_threads",
    "spawn_loop",
    "process_pingpong",
    "spawn_many",
];

impl Programs {
    /// Compiles them with the machine's C compiler, as programs of Debian are: position-independent.
    pub fn build() -> Programs {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench");
        std::fs::create_dir_all(&folder).expect("a folder in the target directory");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest-programs/bench");
        for name in NAMES {
            let status = Command::new("cc")
                .args(["-O2", "-fPIE", "-pie", "-pthread", "-o"])
                .arg(folder.join(name))
                .arg(sources.join(format!("{name}.c")))
                .status();
            assert!(status.is_ok_and(|status| status.success()), "cannot compile {name}.c: is a C compiler installed?");
        }
        Programs { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A place for a run's data; what lay there is removed.
    pub fn fresh_directory(&self, name: &str) -> PathBuf {
        let path = self.folder.join(format!("{name}.data"));
        let _ = std::fs::remove_dir_all(&path);
        path
    }
}

/// The program under test.
pub fn gnomon() -> Command {
    Command::new(env!("CARGO_BIN_EXE_gnomon"))
}

/// Wall time of a command that must succeed, in seconds.
pub fn seconds(command: &mut Command) -> f64 {
    let clock = WallClock::start();
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let elapsed = clock.elapsed().as_secs_f64();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    elapsed
}

/// What this program, started again as `child ARGUMENTS`, measured.
pub fn child(arguments: &[&str]) -> Value {
    let own = std::env::current_exe().expect("a path of the running program");
    let output = Command::new(own).arg("child").args(arguments).stderr(Stdio::inherit()).output();
    let output = output.expect("this program starts again");
    assert!(output.status.success(), "child {arguments:?}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("child {arguments:?}: {error}: {text}"))
}
