//! Writes generated provenance, as a run would: `generate DIR [PACKETS [LEVEL [SEED [HOSTS]]]]` makes `DIR/provenance`.

use provenance::generate::{Scenario, record};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("generate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<String, String> {
    let folder = words.first().ok_or("usage: generate DIR [PACKETS [LEVEL [SEED [HOSTS]]]]")?;
    let mut scenario = Scenario::default();
    let number = |place: usize, default: u64| match words.get(place) {
        Some(word) => word.replace('_', "").parse().map_err(|_| format!("'{word}' is no number")),
        None => Ok(default),
    };
    scenario.packets = number(1, scenario.packets)?;
    if let Some(level) = words.get(2) {
        scenario.level = level.parse()?;
    }
    scenario.seed = number(3, scenario.seed)?;
    scenario.hosts = number(4, scenario.hosts as u64)?.max(10) as usize;
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot create '{}': {error}", folder.display()))?;
    let summary = record(&scenario, &folder.join(provenance::FOLDER)).map_err(|error| error.to_string())?;
    let mut text = String::new();
    for table in summary.tables {
        let each = table.bytes as f64 / table.rows.max(1) as f64;
        text += &format!("{:10} {:>12} rows {:>14} bytes {each:8.2} each\n", table.name, table.rows, table.bytes);
    }
    Ok(text)
}
