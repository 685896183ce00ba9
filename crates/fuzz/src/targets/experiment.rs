//! Experiment files.

use scenario::{Environment, Overrides, load};

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let environment = Environment {
        current_dir: "/nonexistent".into(),
        home: None,
        path: vec!["/usr/bin".into(), "/bin".into()],
        routing_threads: 1,
        ..Environment::default()
    };
    match load("experiment.yaml", text, &environment, &Overrides::default()) {
        Ok(plan) => assert!(!format!("{plan:?}").is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
