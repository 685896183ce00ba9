//! What the tests of whole experiments share.

use scenario::{Environment, Overrides, Plan, ScenarioError, load};
use std::path::PathBuf;

/// A fresh, empty directory of this test's own.
pub fn scratch(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("scenario-{name}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Programs come from /bin and /usr/bin, files from `dir`.
pub fn environment(dir: PathBuf) -> Environment {
    Environment {
        home: Some(dir.clone()),
        current_dir: dir,
        path: vec!["/bin".into(), "/usr/bin".into()],
        routing_threads: 2,
        ..Environment::default()
    }
}

pub fn read(text: &str) -> Result<Plan, ScenarioError> {
    read_with(text, &[])
}

pub fn read_with(text: &str, overrides: &[(&str, &str)]) -> Result<Plan, ScenarioError> {
    let mut values = Overrides::default();
    for (path, value) in overrides {
        values.set_path(path, *value).unwrap();
    }
    load("exp.yaml", text, &environment("/nonexistent".into()), &values)
}
