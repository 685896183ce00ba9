//! What programs do with libcrypto for themselves stays what it was, with the library before it. Natively: the library needs no simulator.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Beside this program, where `cargo build` leaves it; `cargo test` builds no library that nothing links.
fn library() -> PathBuf {
    let path = std::env::current_exe().expect("this program").with_file_name("libgnomon_cheap_crypto.so");
    assert!(path.is_file(), "{}: cargo build --release -p cheap-crypto", path.display());
    path
}

/// What `openssl` makes of 1,000 bytes; None where there is no such program.
fn openssl(arguments: &str, preload: bool) -> Option<Vec<u8>> {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).stdin(Stdio::piped()).stdout(Stdio::piped());
    if preload {
        command.env("LD_PRELOAD", library()).env("GNOMON_CHEAP_CRYPTO", "all");
    }
    let mut child = command.spawn().ok()?;
    let data: Vec<u8> = (0..1000u32).map(|number| number as u8).collect();
    child.stdin.take().expect("a pipe").write_all(&data).expect("openssl reads");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success(), "openssl {arguments}");
    Some(output.stdout)
}

#[test]
fn files_are_encrypted_and_digests_computed_as_ever() {
    let key = "-K 000102030405060708090a0b0c0d0e0f -iv 000102030405060708090a0b0c0d0e0f";
    let commands = [
        format!("enc -aes-128-ctr {key}"),
        format!("enc -aes-128-ctr -d {key}"),
        format!("enc -aes-128-cbc {key}"),
        "enc -aes-128-ecb -K 000102030405060708090a0b0c0d0e0f".to_owned(),
        "enc -aes-256-cbc -pbkdf2 -S 0001020304050607 -pass pass:word".to_owned(),
        "dgst -sha1".to_owned(),
        "dgst -sha256".to_owned(),
        "dgst -sha3-256".to_owned(),
        "dgst -sha256 -hmac key".to_owned(),
    ];
    for command in commands {
        assert_eq!(openssl(&command, true), openssl(&command, false), "{command}");
    }
}
