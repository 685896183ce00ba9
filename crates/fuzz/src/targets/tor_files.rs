//! Files of the Tor project from which networks are made: a consensus (part 0), descriptors (1), a bandwidth file (2), ranges of countries (3),
//! users (4).

use crate::folder;
use tornet::{Model, Sources};

pub fn run(data: &[u8]) {
    let mut files: [Option<Vec<u8>>; 5] = Default::default();
    for (number, text) in folder::parts(data) {
        if let Some(file) = files.get_mut(number) {
            file.get_or_insert_default().extend(text);
        }
    }
    let names = ["consensus", "descriptors", "bandwidths", "geoip", "users"];
    let path = |number: usize| Some(folder::file(names[number], files[number].as_deref()?));
    let consensus = folder::file(names[0], files[0].as_deref().unwrap_or_default());
    let sources = Sources {
        consensus,
        descriptors: path(1).into_iter().collect(),
        bandwidths: path(2),
        geoip: path(3),
        users: path(4),
    };
    match Model::read(&sources, 1) {
        Ok(model) => assert!(!model.relays.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
