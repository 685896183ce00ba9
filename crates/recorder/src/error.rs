//! The one error of this crate: what could not be recorded, where, why, and what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// Recording failed. Always fatal to a run: results that are silently incomplete are worse than none.
#[derive(Debug)]
pub struct Error {
    /// What was tried, as in "cannot {action} 'path'".
    action: &'static str,
    path: PathBuf,
    cause: Option<io::Error>,
    remedy: Option<String>,
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, cause: io::Error) -> Error {
        Error { action, path: path.to_path_buf(), cause: Some(cause), remedy: None }
    }

    pub(crate) fn refused(action: &'static str, path: &Path, remedy: String) -> Error {
        Error { action, path: path.to_path_buf(), cause: None, remedy: Some(remedy) }
    }

    /// The file or directory that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} '{}'", self.action, self.path.display())?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        if let Some(remedy) = &self.remedy {
            write!(f, ": {remedy}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
