//! tgen's GraphML models, and walks through them.

use traffic::Model;

const STEPS: usize = 200;

pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Model::parse(text) {
        Ok(model) => assert!(model.rehearse(1, STEPS).as_secs() <= 600 * STEPS as u64),
        Err(error) => assert!(!error.is_empty()),
    }
}
