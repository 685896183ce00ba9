//! `--provenance-filter`: which packets are recorded, as an expression of the Common Expression Language
//! (<https://github.com/google/cel-spec>): typed, without effects, and it always ends.
//!
//! The `cel` crate reads expressions. What they mean is settled here once, before the run: names become places, types are checked, so that a packet costs
//! tens of nanoseconds and no expression fails later.

mod code;
mod compile;
mod sift;
mod words;

pub use sift::{Chosen, Sift};

use code::{Code, Row, Value};
use probes::tables::{HostName, Received, Sent};

/// A filter that is typed and ready.
#[derive(Clone, Debug)]
pub struct Filter {
    code: Code,
    /// Whether it asks for what only the receiver knows.
    needs_received: bool,
    text: String,
}

impl Filter {
    /// Reads an expression about packets between `hosts`.
    ///
    /// # Errors
    /// When it is none, has a name that is unknown, a wrong type, or is neither true nor false, or compares hosts and fates with what none of them
    /// is: where, and what is wrong.
    pub fn new(text: &str, hosts: &[&str]) -> Result<Filter, String> {
        let (code, needs_received) = compile::compile(text, hosts)?;
        Ok(Filter { code, needs_received, text: text.to_owned() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn needs_received(&self) -> bool {
        self.needs_received
    }

    /// Whether a packet is kept. One for which the expression has no value (it divides by zero) is.
    pub fn keeps(&self, hosts: &[HostName], sent: &Sent, received: Option<&Received>) -> bool {
        let row = Row::new(hosts, sent, received);
        !matches!(self.code.value(&row, &mut Vec::new()), Ok(Value::Truth(false)))
    }
}
