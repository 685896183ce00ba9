//! Reading what users give: regular files, and not without bound. A pipe that nobody writes to, a device without end and a text that
//! decompresses to more than any memory end with a message.

use crate::ByteSize;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

const MIB: u64 = 1 << 20;

/// Why something was not read; shown after the file's name.
#[derive(Debug)]
pub enum InputError {
    Io(io::Error),
    /// It is a pipe, a device or the like, as this says.
    NotAFile(&'static str),
    TooLong(ByteSize),
    /// From this byte on it is not UTF-8.
    NotText(usize),
}

impl InputError {
    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, InputError::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::Io(error) => write!(f, "cannot be read: {error}"),
            InputError::NotAFile(what) => {
                write!(f, "is {what}, not a file; write its content to a file, and name that")
            }
            InputError::TooLong(limit) => {
                let limit = if limit.0 < MIB { limit.to_string() } else { format!("{} MiB", limit.0 / MIB) };
                write!(f, "has more than {limit}, which no such file needs; name the right one")
            }
            InputError::NotText(at) => write!(f, "is not text in UTF-8 (byte {at}); save it as UTF-8"),
        }
    }
}

impl std::error::Error for InputError {}

impl From<io::Error> for InputError {
    fn from(error: io::Error) -> Self {
        InputError::Io(error)
    }
}

/// Opens a regular file.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn open(path: &Path) -> Result<File, InputError> {
    // Asked before it is opened, which would wait for a pipe's writer.
    demand_file(&std::fs::metadata(path)?)?;
    Ok(File::open(path)?)
}

fn demand_file(metadata: &Metadata) -> Result<(), InputError> {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(InputError::NotAFile(what))
}

/// All of a regular file of at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, is no file, or is longer.
pub fn bytes(path: &Path, limit: ByteSize) -> Result<Vec<u8>, InputError> {
    bounded(open(path)?, limit)
}

/// As `bytes`, for text.
///
/// # Errors
/// As `bytes`; or when it is not UTF-8.
pub fn text(path: &Path, limit: ByteSize) -> Result<String, InputError> {
    into_text(bytes(path, limit)?)
}

/// Bytes as text.
///
/// # Errors
/// When they are not UTF-8.
pub fn into_text(bytes: Vec<u8>) -> Result<String, InputError> {
    String::from_utf8(bytes).map_err(|error| InputError::NotText(error.utf8_error().valid_up_to()))
}

/// All that a reader gives, at most `limit` bytes.
///
/// # Errors
/// When it cannot be read, or gives more.
pub fn bounded(reader: impl Read, limit: ByteSize) -> Result<Vec<u8>, InputError> {
    let mut bytes = Vec::new();
    reader.take(limit.0.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit.0 { Err(InputError::TooLong(limit)) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_within_the_bound_are_read() {
        let limit = ByteSize(1 << 20);
        let say = |path: &str| bytes(Path::new(path), limit).unwrap_err().to_string();
        assert!(say("/dev/zero").starts_with("is a device, not a file; "), "{}", say("/dev/zero"));
        assert!(say("/").starts_with("is a directory"));
        assert!(bytes(Path::new("/nonexistent/file"), limit).unwrap_err().is_not_found());
        let long = bounded(io::repeat(b'x'), ByteSize(1000)).unwrap_err().to_string();
        assert_eq!(long, "has more than 1000 B, which no such file needs; name the right one");
        assert_eq!(bounded(&b"four"[..], ByteSize(4)).unwrap(), b"four");
        assert!(matches!(into_text(b"ab\xff".to_vec()), Err(InputError::NotText(2))));
    }
}
