//! Configuration files of `gnomon-traffic`.

use crate::folder;

pub fn run(data: &[u8]) {
    let file = folder::file("traffic.yaml", data);
    if let Err(error) = traffic::from_options(Some(&file), &[]) {
        assert!(!error.to_string().is_empty());
    }
}
