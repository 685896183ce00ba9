//! Why a Tor network cannot be made or read, told so that it can be mended.

use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub enum Error {
    /// Something is wrong with what the user gave. The text says what, where, and the remedy.
    Input(String),
    /// A file cannot be read or written.
    File { action: &'static str, path: PathBuf, source: std::io::Error },
}

impl Error {
    pub(crate) fn input(text: impl Into<String>) -> Error {
        Error::Input(text.into())
    }

    pub(crate) fn reading(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        Error::file("read", path)
    }

    pub(crate) fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        Error::file("written", path)
    }

    fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_path_buf();
        move |source| Error::File { action, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Input(text) => f.write_str(text),
            Error::File { action, path, source } => write!(f, "{} cannot be {action}: {source}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
