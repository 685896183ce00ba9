//! Whether a record is all that its run was to leave: what its files have, against the mark of its end.

use super::Record;
use crate::columns::Source;
use crate::error::Result;
use crate::schema::{End, Extent};
use crate::store::segments;
use probes::Table;
use probes::tables::TABLES;

impl Record {
    /// Why answers may lack something, in a line for people; None for a record that was finished and still has all rows. It reads the footer of
    /// each file, not the rows.
    pub fn notice(&self) -> Option<String> {
        let folder = self.folder.display();
        match &self.end {
            End::Untold => Some(format!(
                "the record '{folder}' does not say whether its run came to an end: an earlier Gnomon made it, so rows may be missing"
            )),
            End::Open => Some(format!(
                "the record '{folder}' is not finished: its run goes on, or was cut off, and what it had not written yet is missing"
            )),
            End::Finished(extents) => {
                let damage = extents.iter().find_map(|extent| self.damage(extent))?;
                Some(format!(
                    "the record '{folder}' is damaged: {damage}; take it from a copy, or run the experiment again"
                ))
            }
        }
    }

    /// What is wrong with a table, if anything is.
    fn damage(&self, extent: &Extent) -> Option<String> {
        let table = TABLES.iter().find(|table| table.name == extent.table)?;
        let found = match self.extent(table) {
            Ok(found) => found,
            Err(error) => return Some(error.to_string()),
        };
        let Extent { table, rows, segments } = extent;
        let told = || {
            format!("table '{table}' has {} rows in {} files of the {rows} in {segments}", found.rows, found.segments)
        };
        (found != *extent).then(told)
    }

    fn extent(&self, table: &'static Table) -> Result<Extent> {
        let paths = segments(&self.folder.join(table.name))?;
        let mut rows = 0;
        for path in &paths {
            let source = Source::open(path, table)?;
            rows += (0..source.groups()).map(|group| source.rows(group) as u64).sum::<u64>();
        }
        Ok(Extent { table: table.name.to_owned(), rows, segments: paths.len() as u64 })
    }
}
