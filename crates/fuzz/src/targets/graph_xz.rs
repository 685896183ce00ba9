//! Graphs that are compressed: the decompressor.

use base::ByteSize;

/// Small ones make large ones.
const LIMIT: ByteSize = ByteSize(4 << 20);

pub fn run(data: &[u8]) {
    if let Ok(text) = scenario::decompress(data, LIMIT) {
        assert!(text.len() as u64 <= LIMIT.0);
    }
}
