//! The one error of this crate: what was wrong, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no page.
#[derive(Debug)]
pub enum Error {
    Io {
        action: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    /// Figures could not be written.
    Report(report::Error),
}

impl Error {
    pub(crate) fn new(action: &'static str, path: &Path, cause: io::Error) -> Error {
        Error::Io { action, path: path.to_path_buf(), cause }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { action, path, cause } => write!(f, "cannot {action} '{}': {cause}", path.display()),
            Error::Report(cause) => cause.fmt(f),
        }
    }
}

impl std::error::Error for Error {}
