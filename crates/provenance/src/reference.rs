//! The reference of all tables, as the documentation has it.

use probes::tables::TABLES;
use probes::{Kind, Table};
use std::fmt::Write;

/// All tables in Markdown, from a heading of the third level for each.
pub fn markdown() -> String {
    TABLES.iter().map(table).collect::<Vec<_>>().join("\n")
}

fn table(table: &Table) -> String {
    let key: Vec<String> = table.columns[..table.key].iter().map(|column| format!("`{}`", column.name)).collect();
    // Known before the run, it has no probe.
    let probe = match table.name {
        "hosts" => String::new(),
        _ => format!(" Probe: {}.", table.arguments.join(", ")),
    };
    let text = table.text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out =
        format!("### {}\n\n{text} Layer: {}. In the order of {}.{probe}\n\n", table.name, table.layer, key.join(", "));
    out += "| column | holds | what it says |\n| --- | --- | --- |\n";
    for column in table.columns {
        let words = match column.kind {
            Kind::Choice(words) => format!(" One of {}.", words.join(", ")),
            _ => String::new(),
        };
        let _ = writeln!(out, "| `{}` | {} | {}{words} |", column.name, holds(column.kind), column.text);
    }
    out
}

fn holds(kind: Kind) -> &'static str {
    match kind {
        Kind::Packet => "packet",
        Kind::Row => "row",
        Kind::Stream => "stream",
        Kind::Host => "host",
        Kind::Time => "time, ns",
        Kind::Duration => "duration, ns",
        Kind::MachineTime => "time of the machine, ns",
        Kind::Bytes => "bytes",
        Kind::Count => "count",
        Kind::Offset => "offset",
        Kind::Plain => "number",
        Kind::Memory => "address",
        Kind::Choice(_) => "word",
        Kind::Ip => "IP address, text",
        Kind::Text => "text",
    }
}
