//! Rows and trees as JSON, with the names that tables have.

use super::Record;
use super::tree::{Node, Tree};
use crate::identity::uuid;
use probes::choices::Layer;
use probes::{Cells, Kind, Row, Table};
use serde_json::{Map, Value, json};
use std::net::IpAddr;

struct Object {
    table: Table,
    cells: Map<String, Value>,
}

impl Object {
    fn put(&mut self, column: usize, value: Value) {
        self.cells.insert(self.table.columns[column].name.to_owned(), value);
    }
}

impl Cells for Object {
    fn number(&mut self, column: usize, value: u64) {
        let value = match self.table.columns[column].kind {
            Kind::Choice(words) => words.get(value as usize).copied().unwrap_or("?").into(),
            _ => value.into(),
        };
        self.put(column, value);
    }

    fn address(&mut self, column: usize, value: IpAddr) {
        self.put(column, value.to_string().into());
    }

    fn text(&mut self, column: usize, value: &str) {
        self.put(column, value.into());
    }
}

/// A row as an object with a member for each column.
pub fn row<R: Row>(row: &R) -> Value {
    let mut object = Object { table: R::TABLE, cells: Map::new() };
    row.cells(&mut object);
    Value::Object(object.cells)
}

impl Tree {
    /// All of the tree.
    pub fn json(&self, record: &Record) -> Value {
        let pair = |cause: Value, what: &str, other: Option<Value>| json!({ "cause": cause, what: other });
        let causes = self.causes.iter().map(|(cause, read)| pair(row(cause), "read", read.as_ref().map(row)));
        let effects = self.effects.iter().map(|(cause, write)| pair(row(cause), "write", write.as_ref().map(row)));
        json!({
            "packet": self.asked,
            "uuid": uuid(record.run, self.asked),
            "write": self.write.as_ref().map(row),
            "causes": causes.collect::<Vec<_>>(),
            "packets": self.packets.iter().map(|node| packet(record, node)).collect::<Vec<_>>(),
            "reads": self.reads.iter().map(row).collect::<Vec<_>>(),
            "effects": effects.collect::<Vec<_>>(),
        })
    }
}

fn packet(record: &Record, node: &Node) -> Value {
    let nodes = |nodes: &[Node]| nodes.iter().map(|node| packet(record, node)).collect::<Vec<_>>();
    let stays = |place| {
        let stays = node.stays(place).into_iter().map(|stay| {
            let layer = Layer::WORDS[stay.layer as usize];
            json!({ "layer": layer, "host": record.host(stay.host), "from_ns": stay.from_ns, "ns": stay.ns })
        });
        stays.collect::<Vec<_>>()
    };
    json!({
        "name": record.name(node.sent.packet),
        "uuid": uuid(record.run, node.sent.packet),
        "sent": row(&node.sent),
        "received": node.received.iter().map(row).collect::<Vec<_>>(),
        "layers": (0..node.received.len().max(1)).map(stays).collect::<Vec<_>>(),
        "fragments": nodes(&node.fragments),
        "copies": nodes(&node.copies),
        "answers": nodes(&node.answers),
    })
}
