//! What the process may still do once it reads a record and executes SQL of others: read the record, and nothing else.

use crate::error::{Error, Result};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    path_beneath_rules,
};
use std::path::Path;

/// What DuckDB asks the machine for: how many processors and how much memory there are.
const MACHINE: &[&str] = &["/proc", "/sys"];

/// Takes from this process the right to write anywhere, to read anything but `record` and what tells of the machine, and to open
/// connections of its own. Files and sockets that are open stay so. Call it before there are threads.
///
/// Kernels before 5.13 cannot do this; there the closed DuckDB alone keeps the promise.
///
/// # Errors
/// When the kernel refuses a rule that it knows.
pub fn confine(record: &Path) -> Result<()> {
    let abi = ABI::V5;
    let close = || -> std::result::Result<(), landlock::RulesetError> {
        let readable = MACHINE.iter().map(|path| Path::new(*path)).chain([record]);
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?
            .handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?
            .create()?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(abi)))?
            .restrict_self()?;
        Ok(())
    };
    close().map_err(|error| Error::new(format!("cannot confine this process to '{}': {error}", record.display())))
}
