//! What ran, where: for the log, `sim-stats.json` and reports, so that a result says of itself what it is a result of.

use recorder::stats::{ProgramStats, Provenance};
use scenario::Plan;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Of this run, on this machine; what the machine does not tell is empty.
pub fn of(plan: &Plan, command: &[String]) -> Provenance {
    let mut programs = BTreeMap::new();
    for process in plan.hosts.iter().flat_map(|host| &host.processes) {
        let name = process.executable.display().to_string();
        // A file that can no longer be read is told when it is to be started.
        programs.entry(name).or_insert_with(|| program(&process.executable).unwrap_or_default());
    }
    if let Some(library) = &plan.cheap_crypto_library {
        programs.insert(library.display().to_string(), program(library).unwrap_or_default());
    }
    Provenance { programs, cheap_crypto: plan.experimental.cheap_crypto.name(), ..of_machine(command) }
}

/// Of a command that runs no programs itself.
pub fn of_machine(command: &[String]) -> Provenance {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    Provenance {
        command: command.to_vec(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: processor(&read("/proc/cpuinfo")),
        processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u64),
        cheap_crypto: None,
        programs: BTreeMap::new(),
    }
}

/// Lines for the log.
pub fn lines(provenance: &Provenance) -> Vec<String> {
    let mut lines = vec![
        format!("Gnomon {}: {}", env!("CARGO_PKG_VERSION"), provenance.command.join(" ")),
        format!("Linux {}, {} processors: {}", provenance.kernel, provenance.processors, provenance.processor),
    ];
    lines.extend(provenance.cheap_crypto.map(|replaced| {
        let what = if replaced == "all" { "tor's relay cells and of TLS 1.3" } else { "tor's relay cells" };
        format!(
            "experimental.cheap_crypto: {replaced}: the ciphers of {what} are replaced on all hosts by cheap ones, which protect nothing; \
             processor time says nothing about real programs"
        )
    }));
    let program = |(path, program): (&String, &ProgramStats)| format!("program {path}: SHA-256 {}", program.sha256);
    lines.extend(provenance.programs.iter().map(program));
    lines
}

pub fn program(path: &Path) -> std::io::Result<ProgramStats> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hash.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
    let sha256 = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(ProgramStats { sha256, bytes })
}

/// The first processor's name in `/proc/cpuinfo`.
fn processor(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    line.and_then(|line| line.split_once(": ")).map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_by_what_sha256sum_says_of_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("program");
        std::fs::write(&path, "abc").expect("a file");
        // FIPS 180-4's example.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad".to_owned();
        assert_eq!(program(&path).expect("a readable file"), ProgramStats { sha256, bytes: 3 });
    }

    #[test]
    fn the_processor_has_its_models_name() {
        assert_eq!(processor("processor\t: 0\nmodel name\t: A CPU @ 2.0GHz\nmodel name\t: B\n"), "A CPU @ 2.0GHz");
        assert_eq!(processor(""), "");
    }
}
