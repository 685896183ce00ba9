//! Says to the simulator what the program does next, for the table `marks` of packets' provenance: by a simulated device, which is nowhere else.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::LazyLock;

const DEVICE: &str = "/dev/gnomon-mark";

/// The calling thread turns to what `label` names: what it has read since it last looked what is ready belongs to that, and so does what it
/// writes next. Without the device nothing happens.
pub fn mark(label: impl Display) {
    static MARKS: LazyLock<Option<File>> = LazyLock::new(|| OpenOptions::new().write(true).open(DEVICE).ok());
    if let Some(mut marks) = MARKS.as_ref() {
        // Nothing depends on a mark.
        let _ = marks.write_all(label.to_string().as_bytes());
    }
}
