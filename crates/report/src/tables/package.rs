//! The description of the tables: Frictionless Data's Data Package (specification version 1), which names every file, column, type and unit.

use super::{SCHEMA, Table, Values};
use serde_json::{Value, json};

/// The text of `datapackage.json`.
pub fn describe(tables: &[Table]) -> String {
    let resources: Vec<Value> = tables
        .iter()
        .map(|table| {
            let mut resource = of_table(table);
            resource["path"] = json!(format!("{}.csv", table.name));
            resource["parquet"] = json!(format!("{}.parquet", table.name));
            resource
        })
        .collect();
    let package = json!({
        "profile": "tabular-data-package",
        "name": "gnomon-report",
        "title": "Tables of a Gnomon report",
        "schema": SCHEMA,
        "created_by": concat!("Gnomon ", env!("CARGO_PKG_VERSION")),
        "resources": resources,
    });
    serde_json::to_string_pretty(&package).expect("a value without foreign keys has a text") + "\n"
}

/// One table's part of it.
pub fn of_table(table: &Table) -> Value {
    let kind = |values: &Values| match values {
        Values::Text(_) => "string",
        Values::Integer(_) => "integer",
        Values::Number(_) => "number",
        Values::Truth(_) => "boolean",
    };
    let field = |column: &super::Column| json!({ "name": column.name, "type": kind(&column.values), "description": column.about });
    json!({
        "profile": "tabular-data-resource",
        "name": table.name,
        "description": table.about,
        "encoding": "utf-8",
        "rows": table.rows(),
        "schema": {
            "fields": table.columns.iter().map(field).collect::<Vec<_>>(),
            "missingValues": [""],
        },
    })
}
