//! The recipe of docs/relays.md for parity with tor, as it stands there, but for the number of clients and for times.

mod common;

use common::{capture, find_program, folder, leave_out, read, root};
use std::path::Path;
use std::process::Command;

/// What makes the recipe small enough for a test.
const SMALLER: [(&str, &str); 4] = [
    ("--web-clients 44", "--web-clients 11"),
    ("--bulk-clients 4", "--bulk-clients 1"),
    ("--settle 60s", "--settle 10s"),
    ("--duration 10min", "--duration 2min"),
];

/// The block of commands of a section.
fn recipe(page: &str, section: &str) -> String {
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).expect("the section");
    let (_, rest) = rest.split_once("\n```sh\n").expect("a block of commands");
    rest.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_recipe_for_parity_makes_networks_that_work() {
    if find_program("tor").is_none() {
        return leave_out("there is no tor");
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_gnomon")).parent().expect("a folder");
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("PATH"));
    let ours =
        SMALLER.iter().fold(recipe(&read(&root().join("docs/relays.md")), "Parity with tor"), |text, (from, to)| {
            assert!(text.contains(from), "the recipe has no '{from}': {text}");
            text.replace(from, to)
        });
    let tors = ours.replace(" --relay-kind gnomon --circuit-scheduler ewma", "");
    assert!(tors != ours, "{ours}");
    for (name, commands) in [("relays-page-ours", ours), ("relays-page-tors", tors)] {
        let folder = folder(name);
        let output = capture(Command::new("sh").args(["-ec", &commands]).current_dir(&folder).env("PATH", &path));
        assert_eq!(output.code(), 0, "{commands}\n{}{}", output.stdout, output.stderr);
        let parameters = read(&folder.join("net/template/conf/authority.torrc"));
        assert_eq!(parameters.matches("cfx_enabled=0").count(), 1, "{parameters}");
        // The table of transfers: behaviour, size in two words, done, failed.
        let rows: Vec<&str> = output.stdout.lines().skip_while(|line| !line.starts_with("transfers ")).collect();
        for behaviour in ["web ", "bulk "] {
            let row = rows.iter().find(|row| row.starts_with(behaviour)).expect("a row");
            let words: Vec<&str> = row.split_whitespace().collect();
            assert!(words[3] != "0" && words[4] == "0", "{row}");
        }
    }
}
