//! The companion by itself, and two of them under `mpirun`.

use std::process::{Command, Stdio};

#[test]
fn by_itself_it_says_who_starts_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_gnomon-ranks")).stdin(Stdio::null()).output().expect("it starts");
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("'gnomon run' starts this program under mpirun"), "{told}");
}
