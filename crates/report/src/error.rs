//! The one error of this crate: what was wrong, where, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no report, or no profile.
#[derive(Debug)]
pub enum Error {
    /// Something that the user gave does not make sense; the text holds the remedy.
    Input(String),
    /// A file could not be read or written.
    Io { action: &'static str, path: PathBuf, cause: io::Error },
}

impl Error {
    pub fn io(action: &'static str, path: &Path, cause: impl Into<io::Error>) -> Error {
        Error::Io { action, path: path.to_path_buf(), cause: cause.into() }
    }

    /// Whether other arguments would help (rather than another disk).
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Error::Input(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(text) => f.write_str(text),
            Error::Io { action, path, cause } => write!(f, "cannot {action} '{}': {cause}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Input(_) => None,
            Error::Io { cause, .. } => Some(cause),
        }
    }
}
