//! What can go wrong, as sentences for the user.

use std::fmt;

/// A problem, with its remedy where there is one.
#[derive(Debug)]
pub struct Error(String);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<duckdb::Error> for Error {
    /// DuckDB's words have the place in the query, and what it may have meant.
    fn from(error: duckdb::Error) -> Error {
        match error {
            duckdb::Error::DuckDBFailure(_, Some(text)) => Error(text),
            other => Error(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error(error.to_string())
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        Error(error.to_string())
    }
}
