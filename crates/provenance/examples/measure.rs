//! What a record costs: `measure [PACKETS [FILTER]]` generates rows first, and then times the store alone, in processor time.

use provenance::generate::{Generator, Scenario};
use provenance::{Filter, Options, RunId, Store};
use std::error::Error;

/// What the process has taken so far, of all its threads: in ticks of ten milliseconds.
fn processor_ns() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum();
    Ok(ticks as f64 * 1e7)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let packets = words.first().map_or(Ok(1_000_000), |word| word.replace('_', "").parse())?;
    for level in ["packets", "all"] {
        let scenario = Scenario { packets, level: level.parse()?, ..Scenario::default() };
        let mut generator = Generator::new(&scenario);
        let mut options = Options::new(scenario.level, RunId::default(), generator.hosts());
        let names: Vec<&str> = options.hosts.iter().map(|host| host.name.as_str()).collect();
        options.filter = words.get(1).map(|text| Filter::new(text, &names)).transpose()?;
        let (mut windows, mut rows, mut made) = (Vec::new(), 0, 0);
        while let Some(window) = generator.window() {
            (rows, made) = (rows + window.len(), made + window.sent.len());
            windows.push(window);
        }
        let folder = std::env::temp_dir().join(format!("gnomon-measure-{}", std::process::id()));
        let before = processor_ns()?;
        let store = Store::create(&folder, options)?;
        let handle = store.handle();
        for (window, rows) in (0..).zip(windows) {
            handle.push(window, rows);
            store.windows_done(window + 1)?;
        }
        let summary = store.finish()?;
        let took = processor_ns()? - before;
        std::fs::remove_dir_all(&folder)?;
        let bytes: u64 = summary.tables.iter().map(|table| table.bytes).sum();
        println!(
            "{level:8} {made} packets, {rows} rows: {:.0} ns a row, {:.0} ns and {:.1} bytes a packet",
            took / rows as f64,
            took / made as f64,
            bytes as f64 / made as f64
        );
    }
    Ok(())
}
