//! Files of the Tor project from which networks are made: a consensus (part 0), descriptors (1), a bandwidth file (2), ranges of countries (3),
//! users (4), what was staged (5), and an archive to stage (6).

use crate::folder;
use tornet::{Archives, Model, Sources};

pub fn run(data: &[u8]) {
    let mut files: [Option<Vec<u8>>; 7] = Default::default();
    for (number, text) in folder::parts(data) {
        if let Some(file) = files.get_mut(number) {
            file.get_or_insert_default().extend(text);
        }
    }
    let names = ["consensus", "descriptors", "bandwidths", "geoip", "users", "staged", "archive"];
    let path = |number: usize| Some(folder::file(names[number], files[number].as_deref()?));
    if let Some(staged) = path(5) {
        let model = Model::staged(&staged, path(4).as_deref(), path(3).as_deref(), 1);
        assert!(model.map_or_else(|error| !error.to_string().is_empty(), |model| !model.relays.is_empty()));
        return;
    }
    if let Some(archive) = path(6) {
        let descriptors = path(1).into_iter().collect();
        let archives = Archives { consensuses: vec![archive], descriptors, users: path(4), ..Archives::default() };
        let staged = tornet::stage(&archives, 1, &mut |_| {});
        assert!(staged.map_or_else(|error| !error.to_string().is_empty(), |staged| staged.consensuses > 0));
        return;
    }
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
