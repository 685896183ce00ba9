//! Writes a made-up data directory, to see a report without a run: `made_up DIR [SEED [RELAYS CLIENTS SECONDS]]`.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| args.get(index).map(|text| text.parse::<usize>().expect("a number"));
    let folder = args.first().expect("the directory to write");
    let tiny = synthetic::Network::tiny(number(1).unwrap_or(1) as u64);
    let network = synthetic::Network {
        relays: number(2).unwrap_or(tiny.relays),
        clients: number(3).unwrap_or(tiny.clients),
        duration_s: number(4).map_or(tiny.duration_s, |seconds| seconds as f64),
        ..tiny
    };
    synthetic::write(std::path::Path::new(folder), &network);
}
