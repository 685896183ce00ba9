//! The documentation says of tables what they say of themselves.

use std::path::Path;

const BEGIN: &str = "<!-- The rest is generated: GNOMON_WRITE_DOCS=1 cargo test -p provenance --test reference -->\n\n";

#[test]
fn the_reference_is_that_of_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/provenance.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once(BEGIN).expect("a mark where the reference begins");
    let right = format!("{before}{BEGIN}{}", provenance::reference::markdown());
    if std::env::var_os("GNOMON_WRITE_DOCS").is_some() {
        std::fs::write(&path, &right).unwrap();
    } else {
        assert!(text == right, "GNOMON_WRITE_DOCS=1 cargo test -p provenance --test reference");
    }
}
