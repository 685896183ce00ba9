//! Reading the files that users give, within bounds.

use std::path::Path;

/// No configuration and no model is longer.
const LONGEST: u64 = 64 << 20;

/// All of a text file. The error says what is wrong and what to do, after the file's name.
pub fn text(path: &Path) -> Result<String, String> {
    // Asked before it is opened, which would wait for a pipe's writer.
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("no regular file; name the file itself".to_owned());
    }
    if metadata.len() > LONGEST {
        return Err(format!("more than {} MiB; name the right file", LONGEST >> 20));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_folders_are_no_files() {
        for path in ["/dev/zero", "/"] {
            assert_eq!(text(Path::new(path)).unwrap_err(), "no regular file; name the file itself");
        }
    }
}
