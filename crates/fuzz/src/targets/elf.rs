//! Programs of guests: an ELF file, from its header to its rewritten code.

use guest::Composed;

pub fn run(data: &[u8]) {
    if let Ok(composed) = Composed::of(data) {
        assert_eq!(composed.memory.len() as u64, composed.header.span);
        assert!(composed.sled_bytes() < 1 << 31, "jumps reach the sled");
    }
}
