//! The one error of this crate: what could not be done with a record, where and why.

use parquet::errors::ParquetError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

/// Something about a record failed. It can be cloned, since the thread that writes and those who wait for it both tell it.
#[derive(Clone, Debug)]
pub struct Error {
    /// What was tried, as in "cannot {action} 'path'".
    action: &'static str,
    path: PathBuf,
    cause: Arc<str>,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, cause: &io::Error) -> Error {
        Error::new(action, path, cause)
    }

    pub(crate) fn parquet(action: &'static str, path: &Path, cause: &ParquetError) -> Error {
        if let ParquetError::External(cause) = cause
            && let Some(cause) = cause.downcast_ref::<io::Error>()
        {
            return Error::io(action, path, cause);
        }
        Error::new(action, path, cause)
    }

    pub(crate) fn new(action: &'static str, path: &Path, cause: impl fmt::Display) -> Error {
        Error { action, path: path.to_path_buf(), cause: cause.to_string().into() }
    }

    /// The file or folder that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} '{}': {}", self.action, self.path.display(), self.cause)
    }
}

impl std::error::Error for Error {}
