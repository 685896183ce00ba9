//! A network of tornettools runs as it is, is reported on and archived.
//!
//! Its tgen and oniontrace are the machine's own where it has them (in PATH or in ~/.local/bin). Elsewhere a server of `gnomon-traffic` and programs
//! that only wait stand in for them: then tors build their network, and nothing is transferred.

mod common;
mod tornettools;

use common::{capture, find_program, folder, gnomon, read};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A home with programs where tornettools has them; whether tgen and oniontrace are real.
fn home(folder: &Path) -> Option<(PathBuf, bool)> {
    let home = folder.join("home");
    let bin = home.join(".local/bin");
    fs::create_dir_all(&bin).expect("a folder");
    symlink(find_program("tor")?, bin.join("tor")).expect("a link");
    let own = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/bin"));
    let find = |name: &str| {
        find_program(name).or_else(|| own.as_ref().map(|own| own.join(name)).filter(|path| path.is_file()))
    };
    let real = find("tgen").zip(find("oniontrace"));
    if let Some((tgen, oniontrace)) = &real {
        symlink(tgen, bin.join("tgen")).expect("a link");
        symlink(oniontrace, bin.join("oniontrace")).expect("a link");
    } else {
        for name in ["tgen", "oniontrace"] {
            fs::write(bin.join(name), "#!/bin/sh\nexec sleep 1000000\n").expect("a script");
            fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
        }
    }
    Some((home, real.is_some()))
}

#[test]
fn a_network_of_tornettools_runs_as_it_is() {
    let folder = folder("tor-tornettools");
    let Some((home, is_real)) = home(&folder) else { return common::leave_out("there is no tor") };
    let network = tornettools::generate(&folder, "tornet-0.001");
    let before = common::tree(&network);
    let well = |arguments: &[&str]| {
        let output = capture(gnomon().args(arguments).current_dir(&folder).env("HOME", &home));
        assert_eq!(output.code(), 0, "{arguments:?}: {}{}", output.stdout, output.stderr);
        output.stdout
    };
    // Ten minutes of the hour that it would take.
    let text = well(&["tor", "run", "tornet-0.001", "--", "--stop-time", "10 min"]);
    assert!(text.contains("tornet-0.001 seed 1: complete after"), "{text}");
    let after = common::tree(&network);
    for (name, bytes) in &before {
        assert!(after.get(name) == Some(bytes), "{name} has changed");
    }
    let data = network.join("seed-1.data");
    let is_up = |host: &str| {
        let files = common::tree(&data.join("hosts").join(host));
        let log = files.iter().find(|(name, _)| name.starts_with("tor.") && name.ends_with(".stdout"));
        String::from_utf8_lossy(log.expect("a log of tor").1).contains("Bootstrapped 100%")
    };
    let relays = ["relay1exitguard", "relay2exitguard", "relay3exit", "relay4guard", "relay5guard", "relay6middle"];
    for host in relays.iter().chain(&["4uthority1", "4uthority2", "4uthority3", "perfclient1exit", "markovclient1exit"])
    {
        assert!(is_up(host), "{host} has not come up");
    }
    let consensus = read(&data.join("hosts/4uthority1/cached-consensus"));
    let flags = |relay: &str| {
        let entry =
            &consensus[consensus.find(&format!("\nr {relay} ")).unwrap_or_else(|| panic!("no {relay}: {consensus}"))..];
        entry.lines().find(|line| line.starts_with("s ")).expect("flags").to_owned()
    };
    assert!(flags("relay1exitguard").contains("Exit") && flags("relay1exitguard").contains("Guard"), "{consensus}");
    assert!(!flags("relay6middle").contains("Exit") && !flags("relay6middle").contains("Guard"), "{consensus}");
    well(&["report", "-o", "results", "tornet-0.001/seed-1.data"]);
    assert!(folder.join("results/index.html").is_file());
    let transfers = read(&folder.join("results/tables/transfers.csv"));
    if is_real {
        // One each minute from the sixth on, and what the Markov client's model wants.
        let of = |host: &str| transfers.lines().filter(|line| line.contains(host)).count();
        assert!(of("perfclient1exit") >= 3 && of("markovclient1exit") >= 1, "{transfers}");
        let circuits = read(&folder.join("results/tables/circuits.csv"));
        assert!(circuits.lines().count() > 10, "oniontrace's circuits: {circuits}");
    } else {
        // No Debian package has them, so no machine is expected to.
        println!(
            "left out: transfers, for there is no tgen or no oniontrace (docs/traffic.md says how they are built)"
        );
    }
    assert!(well(&["tor", "archive", "tornet-0.001"]).contains("tables in tornet-0.001/seed-1.data/report/tables"));
    assert!(data.join("hosts.tar.xz").is_file() && !data.join("hosts").exists());
}
